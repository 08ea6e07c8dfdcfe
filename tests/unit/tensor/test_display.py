"""``repr`` and ``str`` of tensors and composites, and the print options."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import hurray

CPU = "hurray.Device(kind='cpu', device_id=0, memory_class='standard')"
NUMPY_TYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
]


def sparse() -> dict[str, hurray.Tensor]:
    dense = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])
    return {name: hurray.from_numpy(dense).to_layout(name) for name in ("coo", "csr", "csc")}


def test_documented_forms() -> None:
    t = hurray.Tensor(np.arange(4, dtype=np.float32), hurray.float32, [2, 2])
    assert repr(t) == "hurray.Tensor([[0. 1.]\n [2. 3.]], dtype=float32)"
    assert str(t) == "[[0. 1.]\n [2. 3.]]"
    assert repr(hurray.Tensor(bytes(2), hurray.dtype.int4, [4])) == (
        f"hurray.Tensor(shape=(4,), dtype=int4, device={CPU})"
    )
    csr = sparse()["csr"]
    assert repr(csr) == "hurray.Tensor(layout='csr', shape=(3, 3), nnz=3, dtype=float64)"
    with hurray.print_options(sparse_display="content"):
        assert repr(csr) == (
            "hurray.Tensor(layout='csr', shape=(3, 3), nnz=3, dtype=float64, values=[1. 2. 3.], "
            "col_indices=[0 2 1], row_ptr=[0 2 2 3])"
        )


@pytest.mark.parametrize("name", NUMPY_TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3), (2, 0)])
def test_dense_values_are_numpys_text(name: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(name)
    t = hurray.from_numpy(array)
    text = np.array2string(array)  # which shows a scalar as it shows an element
    assert str(t) == text
    assert repr(t) == f"hurray.Tensor({text}, dtype={name})"


@pytest.mark.parametrize("name", ["bool", "bfloat16", "complex64", "complex128"])
def test_other_types_with_values(name: str) -> None:
    t = hurray.ones([2, 2], dtype=getattr(hurray.dtype, name))
    assert str(t) == str(t.to_numpy())
    assert repr(t) == f"hurray.Tensor({t.to_numpy()}, dtype={name})"


@pytest.mark.parametrize("name", ["float8_e4m3", "float4_e2m1", "float6_e3m2", "float128", "int4", "uint2"])
def test_tier_2_types_show_their_shape(name: str) -> None:
    t = hurray.ones([3], dtype=getattr(hurray.dtype, name))
    assert repr(t) == str(t) == f"hurray.Tensor(shape=(3,), dtype={name}, device={CPU})"


@pytest.mark.parametrize(
    "layout",
    [
        hurray.ColMajorLayout(),
        hurray.StridedLayout([1, 4]),
        hurray.TiledLayout([2, 3]),
        hurray.MortonLayout([2, 2]),
        hurray.HilbertLayout(2, 2),
    ],
)
def test_values_are_in_logical_order(layout: hurray.Layout) -> None:
    array = np.arange(16.0).reshape(4, 4)
    assert repr(hurray.from_numpy(array).to_layout(layout)) == f"hurray.Tensor({array}, dtype=float64)"


@pytest.mark.parametrize("shape", [(1001,), (2000,), (40, 50), (20, 20, 20), (3, 1000), (1000, 3), (2, 2, 2, 2, 2, 80)])
def test_long_tensors_are_elided_like_numpy(shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    assert str(hurray.from_numpy(array)) == str(array)
    turned = np.asfortranarray(array)
    assert str(hurray.from_numpy(turned)) == str(array)


def test_only_what_is_shown_is_read() -> None:
    huge = hurray.Tensor(bytes(8), hurray.float64, [2**40, 2**10], layout=hurray.StridedLayout([0, 0]))
    assert str(huge).startswith("[[0. 0. 0. ... 0. 0. 0.]")
    assert len(str(huge)) < 400


def test_numpys_own_options_hold() -> None:
    array = np.arange(100.0) / 3
    with np.printoptions(threshold=10, precision=2):
        assert str(hurray.from_numpy(array)) == str(array)


@pytest.mark.parametrize(
    "t",
    [
        hurray.Tensor(bytes(16), hurray.float32, [4], hurray.Device("cuda", 1)),
        hurray.Tensor(bytes(16), hurray.float32, [None, 2]),
        hurray.Tensor(b"ab", hurray.Dtype.from_tag(0xF1), [2], extension_type=hurray.ExtensionType(8)),
        hurray.Tensor(b"ab", hurray.float32, [2], layout=hurray.PrivateExtensionLayout(0xF1, 3)),
    ],
)
def test_tensors_without_shown_values(t: hurray.Tensor) -> None:
    want = f"hurray.Tensor(shape={t.shape}, dtype={t.dtype}, device={t.device!r})"
    assert repr(t) == str(t) == want


def test_quantized_tensors_show_their_scheme_not_their_codes() -> None:
    t = hurray.Tensor(bytes(4), hurray.int8, [4], quantization=hurray.PerTensorAffine(0.5, 3))
    assert repr(t) == (
        f"hurray.Tensor(shape=(4,), dtype=int8, quantization=PerTensorAffine(scale=0.5, zero_point=3), device={CPU})"
    )


def test_content_of_sparse_tensors() -> None:
    by_name = sparse()
    csf = hurray.from_numpy(np.eye(2)[None]).to_layout("csf")
    assert repr(csf) == "hurray.Tensor(layout='csf', shape=(1, 2, 2), nnz=2, dtype=float64)"
    with hurray.print_options(sparse_display="content"):
        assert repr(by_name["csc"]).endswith("values=[1. 3. 2.], row_indices=[0 2 0], col_ptr=[0 1 2 3])")
        assert repr(by_name["coo"]).endswith("indices=[[0 0]\n [0 2]\n [2 1]], values=[1. 2. 3.])")
        assert repr(csf).endswith("values=[1. 1.])")
        assert str(by_name["coo"]) == repr(by_name["coo"])
        # damaged index buffers are shown as they are
        bad = hurray.Tensor(
            np.ones(1), hurray.float64, [2, 2], layout=hurray.CooLayout(1), aux_buffers=[np.array([7, 9], np.uint64)]
        )
        assert "indices=[[7 9]]" in repr(bad)


def test_a_tensor_whose_values_are_illegal_still_has_a_repr() -> None:
    morton = hurray.Tensor(bytes(64), hurray.int8, [1, 8], layout=hurray.MortonLayout([1, 5]))
    assert repr(morton).startswith("hurray.Tensor(")


def test_composites() -> None:
    part = hurray.Tensor(bytes(16), hurray.float32, [2, 2], shard=hurray.Shard([2, 2], [0, 0]))
    whole = hurray.Composite("partition", shape=(2, 2), dtype=hurray.float32, members=[part])
    assert repr(whole) == "hurray.Composite(rule='partition', shape=(2, 2), members=[Tensor])"
    group = hurray.Composite("group", shape=(), dtype=hurray.float32, members=[part, whole])
    assert repr(group) == "hurray.Composite(rule='group', shape=(), members=[Tensor, " + repr(whole) + "])"


# Options


def test_options() -> None:
    assert hurray.get_print_options() == {"sparse_display": "metadata"}
    hurray.set_print_options()
    hurray.set_print_options(sparse_display="content")
    try:
        assert hurray.get_print_options() == {"sparse_display": "content"}
        with hurray.print_options(sparse_display="metadata"):
            assert hurray.get_print_options() == {"sparse_display": "metadata"}
            with hurray.print_options():
                assert hurray.get_print_options() == {"sparse_display": "metadata"}
        assert hurray.get_print_options() == {"sparse_display": "content"}
    finally:
        hurray.set_print_options(sparse_display="metadata")


@pytest.mark.parametrize("bad", ["", "Content", "full", 3])
def test_bad_options_are_refused_at_once(bad: Any) -> None:
    for call in (hurray.set_print_options, hurray.print_options, hurray.PrintOptionsCtx):
        with pytest.raises(ValueError, match="sparse_display"):
            call(sparse_display=bad)
        with pytest.raises(TypeError):
            call("content")  # type: ignore[call-arg]


def test_options_are_restored_after_errors_and_nest() -> None:
    options = hurray.print_options(sparse_display="content")
    assert isinstance(options, hurray.PrintOptionsCtx)
    with pytest.raises(ZeroDivisionError), options, options:
        assert hurray.get_print_options() == {"sparse_display": "content"}
        raise ZeroDivisionError
    assert hurray.get_print_options() == {"sparse_display": "metadata"}


def test_options_belong_to_a_thread_or_task() -> None:
    seen: list[dict[str, Any]] = []
    with hurray.print_options(sparse_display="content"):
        thread = threading.Thread(target=lambda: seen.append(hurray.get_print_options()))
        thread.start()
        thread.join()
    assert seen == [{"sparse_display": "metadata"}]

    async def task(choice: str) -> str:
        with hurray.print_options(sparse_display=choice):
            await asyncio.sleep(0)
            return str(hurray.get_print_options()["sparse_display"])

    async def both() -> list[str]:
        return await asyncio.gather(task("content"), task("metadata"))

    assert asyncio.run(both()) == ["content", "metadata"]


def test_a_paged_tensor_says_what_is_in_it() -> None:
    t = hurray.Tensor(
        bytes(16),
        hurray.float32,
        [2, 1, 2],
        layout=hurray.BlockPagedLayout(2, 1, 0, 1),
        aux_buffers=[np.zeros(1, np.uint32), np.array([0, 1], np.uint32)],
    )
    want = "hurray.Tensor(layout='block_paged', shape=(2, 1, 2), sequences=1, pages=1, page_size=2, dtype=float32)"
    assert repr(t) == str(t) == want
    q = hurray.quantize(t, "int8")
    assert repr(q) == want.replace("float32)", f"int8, quantization={q.quantization!r})")
