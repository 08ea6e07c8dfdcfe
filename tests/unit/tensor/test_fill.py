"""Tensors made of nothing: zeros, ones, ranges, one value everywhere."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray import InvalidDescriptorError, UnsupportedError
from hurray.dtypes.table import ALL_DTYPES

MAKERS: dict[str, Any] = {
    "zeros": hurray.zeros,
    "ones": hurray.ones,
    "empty": hurray.empty,
    "full": lambda shape, **options: hurray.full(shape, 1, **options),
}
LIKE: dict[str, Any] = {
    "zeros": hurray.zeros_like,
    "ones": hurray.ones_like,
    "empty": hurray.empty_like,
    "full": lambda x, **options: hurray.full_like(x, 1, **options),
}


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def numbers(t: hurray.Tensor) -> list[Any]:
    values = t.to_numpy(dtype=np.float64 if t.dtype.name == "float128" else None)
    return values.astype(complex if t.dtype.is_complex else float).reshape(-1).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_float64_is_the_default(name: str) -> None:
    t = MAKERS[name]([2, 3])
    assert (t.dtype, t.shape, t.device, t.layout) == (
        hurray.float64, (2, 3), hurray.device.cpu, hurray.RowMajorLayout(),
    )  # fmt: skip
    assert t.buffer(0).to_numpy().ctypes.data % 64 == 0


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (5,), (9,), (2, 3), (0,), (4, 0)])
def test_every_dtype(dtype: hurray.Dtype, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    n_bytes = hurray.buffer_size_bytes(dtype, size)
    made = {"ones": hurray.ones(shape, dtype=dtype), "empty": hurray.empty(shape, dtype=dtype)}
    if dtype.name == "float8_e8m0":
        with pytest.raises(InvalidDescriptorError, match="powers of two"):
            hurray.zeros(shape, dtype=dtype)
    else:
        made["zeros"] = hurray.zeros(shape, dtype=dtype)
        assert numbers(made["zeros"]) == [0] * size
        assert made["zeros"].buffer(0).to_numpy().tobytes() == bytes(n_bytes)
    assert numbers(made["ones"]) == [1] * size
    for t in made.values():
        assert (t.dtype, t.shape, t.nbytes) == (dtype, shape, n_bytes)
    # the unused bits of the last byte or group are zero
    again = hurray.asarray(made["ones"].to_numpy()) if dtype.is_sub_byte and dtype.name != "float128" else made["ones"]
    assert again.buffer(0).to_numpy().tobytes() == made["ones"].buffer(0).to_numpy().tobytes()
    if dtype.is_sub_byte:
        assert made["empty"].buffer(0).to_numpy().tobytes() == bytes(n_bytes)


@pytest.mark.parametrize("name", MAKERS)
def test_shapes(name: str) -> None:
    make = MAKERS[name]
    assert make((np.int64(2), 3)).shape == (2, 3)
    assert make([]).shape == ()
    for shape in (3, "ab", None, [2.0], [True], {2}):
        with pytest.raises(TypeError):
            make(shape)
    for shape in ([-1], [2**64], [2, None]):
        with pytest.raises(InvalidDescriptorError, match="shape"):
            make(shape)
    for shape in ([2**62], [2**40, 2**10]):
        with pytest.raises(UnsupportedError, match="bytes"):
            make(shape)
    with pytest.raises(TypeError):
        make([2], hurray.int8)


RANGES = [lambda _, **o: hurray.arange(3, **o), lambda _, **o: hurray.eye(2, **o)]


@pytest.mark.parametrize("make", [*MAKERS.values(), *RANGES])
def test_dtypes_and_devices(make: Any) -> None:
    assert make([2], dtype=None, device=None).device == hurray.device.cpu
    assert make([2], dtype=hurray.int16, device=hurray.device.cpu).dtype is hurray.int16
    for options in ({"dtype": "int8"}, {"dtype": np.int8}, {"device": "cpu"}, {"device": 0}):
        with pytest.raises(TypeError) as caught:
            make([2], **options)
        assert isinstance(caught.value, InvalidDescriptorError)
    with pytest.raises(UnsupportedError, match="cuda"):
        make([2], device=hurray.device.cuda)
    with pytest.raises(UnsupportedError, match="private"):
        make([2], dtype=hurray.Dtype.from_tag(0xF1))


@pytest.mark.parametrize("name", LIKE)
def test_like(name: str) -> None:
    like = LIKE[name]
    source = hurray.from_numpy(np.asfortranarray(np.zeros((2, 3), np.float32)))
    for t in (like(source), like(x=source)):
        assert (t.shape, t.dtype, t.layout) == ((2, 3), hurray.float32, hurray.RowMajorLayout())
    assert like(source, dtype=hurray.int8).dtype is hurray.int8
    assert like(source.to_layout("csr")).layout == hurray.RowMajorLayout()
    with pytest.raises(TypeError, match="Tensor"):
        like(np.zeros(3))


# full


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (7, "int64"), (-1, "int64"), (2**63, "uint64"), (2**64 - 1, "uint64"), (7.5, "float64"), (True, "bool"),
        (1 + 2j, "complex128"), (np.float32(2.5), "float32"), (np.int8(3), "int8"), (np.array(4, ">i2"), "int16"),
        (float("inf"), "float64"),
    ],
)  # fmt: skip
def test_full_infers_the_dtype(value: Any, dtype: str) -> None:
    t = hurray.full([2], value)
    assert t.dtype.name == dtype
    assert t.to_numpy().tolist() == [np.asarray(value).item()] * 2


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (7, "float32", 7.0), (True, "int8", 1), (True, "float64", 1.0), (0, "bool", 0), (1, "bool", 1), (3, "uint2", 3),
        (-2, "int2", -2), (1e300, "float32", np.inf), (2**64, "float64", 2.0**64), (10**400, "float64", np.inf),
        (0.1, "float16", float(np.float16(0.1))), (5.9, "float6_e3m2", 6.0), (3, "complex64", 3 + 0j),
        (0.5, "float8_e8m0", 0.5), (1.5, "float128", 1.5),
    ],
)  # fmt: skip
def test_full_converts(value: Any, dtype: str, want: Any) -> None:
    t = hurray.full([3], value, dtype=getattr(hurray.dtype, dtype))
    assert numbers(t) == [want] * 3


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, "int32"), (2.0, "int32"), (1j, "float32"), ("3", "int32"), ("x", None), (None, None), ([1, 2], "int8"),
        (0.5, "bool"), (5, "bool"), (b"a", "uint8"), (np.array([1]), None), (np.datetime64(1, "s"), None),
    ],
)  # fmt: skip
def test_full_refuses_other_kinds(value: Any, dtype: str | None) -> None:
    with pytest.raises(TypeError, match=r"fill_value|complex") as caught:
        hurray.full([2], value, dtype=None if dtype is None else getattr(hurray.dtype, dtype))
    assert isinstance(caught.value, InvalidDescriptorError)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "uint8"), (-1, "uint8"), (-129, "int8"), (4, "uint2"), (2, "int2"), (2**64, "uint64"),
        (-(2**63) - 1, "int64"), (0, "float8_e8m0"), (-1.0, "float8_e8m0"), (float("nan"), "float4_e2m1"),
    ],
)  # fmt: skip
def test_full_refuses_what_does_not_fit(value: Any, dtype: str) -> None:
    with pytest.raises(InvalidDescriptorError):
        hurray.full([2], value, dtype=getattr(hurray.dtype, dtype))


def test_nan_and_signs_are_kept() -> None:
    assert np.isnan(hurray.full([1], float("nan"), dtype=hurray.float16).to_numpy()).all()
    assert np.signbit(hurray.full([1], -0.0).to_numpy()).all()


# arange, linspace, eye


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-7, 7).filter(bool))
def test_arange_of_integers(start: int, stop: int, step: int) -> None:
    t = hurray.arange(start, stop, step)
    assert t.dtype is hurray.int64
    assert t.to_numpy().tolist() == list(range(start, stop, step))


@pytest.mark.parametrize(
    "args", [(5,), (2.5,), (0, 1, 0.25), (1, 0, -0.3), (np.float32(2), 4), (1, 10, 3.5), (0.0,), (True,), (3, None, 1)]
)
def test_arange_is_numpys(args: tuple[Any, ...]) -> None:
    want = np.arange(*[a for a in args if a is not None]) if args != (3, None, 1) else np.arange(3)
    assert hurray.arange(*args).to_numpy().tolist() == want.tolist()


@pytest.mark.parametrize(
    ("start", "stop", "step", "dtype"),
    [
        (2**63 - 1, 2**63 + 2, 1, "uint64"),
        (0, 2**63, 2**62, "int64"),
        (-(2**63), 2**63 - 1, 2**62, "int64"),
        (0, 2**64, 2**63, "uint64"),
        (2**64 - 1, 2**64 - 4, -1, "uint64"),
        (5, 6, 2**70, "int64"),
        (0, -(2**70), 1, "int64"),
    ],
)
def test_arange_near_the_ends_of_64_bits(start: int, stop: int, step: int, dtype: str) -> None:
    t = hurray.arange(start, stop, step)
    assert t.dtype.name == dtype
    assert t.to_numpy().tolist() == list(range(start, stop, step))


def test_arange_refuses() -> None:
    apart = (-1, 2**63 + 1, 2**63 + 1)
    for args in ((0, 5, 0), (2**64, 2**64 + 2), apart, (float("nan"),), (float("inf"),), (0, 1, 1e-300)):
        with pytest.raises(InvalidDescriptorError, match="arange"):
            hurray.arange(*args)
    for args in (("3",), (1j,), (None,), ([1],)):
        with pytest.raises(TypeError):
            hurray.arange(*args)
    for n in (300, 129):
        with pytest.raises(InvalidDescriptorError, match=f"cannot hold {n - 1}"):
            hurray.arange(n, dtype=hurray.int8)
    assert hurray.arange(3, dtype=hurray.dtype.int4).dtype is hurray.dtype.int4
    assert hurray.arange(0, 3, 0.5, dtype=hurray.int32).to_numpy().tolist() == [0, 0, 1, 1, 2, 2]
    assert hurray.arange(Fraction(5, 2)).to_numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 5])
def test_linspace(num: int, endpoint: bool) -> None:
    t = hurray.linspace(0, 1, num, endpoint=endpoint)
    assert t.to_numpy().tolist() == np.linspace(0, 1, num, endpoint=endpoint).tolist()
    assert t.dtype is hurray.float64


def test_linspace_refuses() -> None:
    with pytest.raises(InvalidDescriptorError, match="num"):
        hurray.linspace(0, 1, -1)
    wrong: list[tuple[Any, ...]] = [(0, 1, 2.0), ("0", 1, 2), (1j, 1, 2)]
    for args in wrong:
        with pytest.raises(TypeError):
            hurray.linspace(*args)
    with pytest.raises(InvalidDescriptorError, match="cannot hold 1000"):
        hurray.linspace(0, 1000, 3, dtype=hurray.int8)
    assert hurray.linspace(0, 10, 4, dtype=hurray.int32).to_numpy().tolist() == [0, 3, 6, 10]


@pytest.mark.parametrize("args", [(2,), (2, 3), (3, 2), (0,), (0, 2)])
@pytest.mark.parametrize("k", [-(2**62), -1, 0, 1, 5, 2**62])
def test_eye(args: tuple[int, ...], k: int) -> None:
    rows, columns = (args * 2)[:2]
    want = [[float(j - i == k) for j in range(columns)] for i in range(rows)]
    assert hurray.eye(*args, k=k).to_numpy().tolist() == want
    assert hurray.eye(n_rows=rows, n_cols=columns, k=k, dtype=hurray.bool).to_numpy().tolist() == want


def test_eye_refuses() -> None:
    for call in (lambda: hurray.eye(-1), lambda: hurray.eye(2, -1)):
        with pytest.raises(InvalidDescriptorError, match="eye"):
            call()
    for call in (lambda: hurray.eye(2.0), lambda: hurray.eye(2, k=1.0), lambda: hurray.eye("2")):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            call()
    with pytest.raises(UnsupportedError, match="memory"):
        hurray.eye(2**28, 2**28)
