"""Accessors of layouts: what each gives, that it shares memory, and that hasattr tells the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hurray

NAMES = (
    "nnz", "values", "indices", "col_indices", "row_ptr", "row_indices", "col_ptr", "pos", "crd", "mode_order",
    "page_pool", "block_table", "seq_ptr",
)  # fmt: skip
DENSE = np.array([[0, 1.5, 0], [2.5, 0, 0], [0, 0, 3.5], [0, 4.5, 0]])
CUBE = np.zeros((2, 3, 4))
CUBE[0, 0, 1], CUBE[0, 2, 3], CUBE[1, 1, 0], CUBE[1, 1, 2] = 1, 2, 3, 4


def paged(index: Any = np.uint32, quantized: bool = False) -> hurray.Tensor:
    kind = np.dtype(index).name
    layout = hurray.BlockPagedLayout(2, 3, 0, 2, block_table_index_type=kind)
    aux: list[Any] = [np.array([2, 0, 2], index), np.array([0, 1, 3], index)]
    scheme = hurray.PerTensorAffine(0.5, 0) if quantized else None
    data = np.arange(24, dtype=np.int8)
    return hurray.Tensor(data, hurray.int8, [6, 2, 2], layout=layout, aux_buffers=aux, quantization=scheme)


def each() -> dict[str, hurray.Tensor]:
    dense = hurray.from_numpy(DENSE)
    found = {name: dense.to_layout(name) for name in ("row_major", "col_major", "strided", "coo", "csr", "csc")}
    found["tiled"] = dense.to_layout("tiled", tile_shape=[2, 2])
    found["morton"] = hurray.from_numpy(np.eye(4)).to_layout("morton", morton_bits=[2, 2])
    found["hilbert"] = hurray.from_numpy(np.eye(4)).to_layout("hilbert", hilbert_order=2, hilbert_rank=2)
    found["csf"] = hurray.from_numpy(CUBE).to_layout("csf")
    found["block_paged"] = paged()
    found["extension"] = hurray.Tensor(b"abcd", hurray.int8, [2, 2], layout=hurray.PrivateExtensionLayout(0xF1, 3))
    return found


HAVE = {
    "coo": {"nnz", "values", "indices"},
    "csr": {"nnz", "values", "col_indices", "row_ptr"},
    "csc": {"nnz", "values", "row_indices", "col_ptr"},
    "csf": {"nnz", "values", "pos", "crd", "mode_order"},
    "block_paged": {"page_pool", "block_table", "seq_ptr"},
}


@pytest.mark.parametrize("layout", each())
def test_hasattr_and_dir_tell_the_truth(layout: str) -> None:
    t = each()[layout]
    have = HAVE.get(layout, set())
    assert {name for name in NAMES if hasattr(t, name)} == have
    assert {name for name in NAMES if name in dir(t)} >= have - {"pos", "crd"}
    assert not {name for name in NAMES if name in dir(t)} - have
    for name in set(NAMES) - have:
        message = rf"'Tensor' object has no attribute '{name}'.*{layout} tensor"
        with pytest.raises(AttributeError, match=message) as caught:
            getattr(t, name)
        assert (caught.value.name, caught.value.obj) == (name, t)
    assert getattr(t, "nnz", None) == (None if "nnz" not in have else t.nnz)
    assert {"shape", "to_numpy", "buffer"} <= set(dir(t))


def check(part: hurray.Tensor, whole: hurray.Tensor, buffer: int, want: Any, dtype: hurray.Dtype) -> None:
    assert part.dtype is dtype
    assert part.layout == hurray.RowMajorLayout()
    assert part.to_numpy().tolist() == want
    assert np.shares_memory(part.to_numpy(), whole.buffer(buffer).to_numpy())
    assert part.device == whole.device


def test_coo() -> None:
    t = each()["coo"]
    assert t.nnz == 4
    check(t.values, t, 0, [1.5, 2.5, 3.5, 4.5], hurray.float64)
    check(t.indices, t, 1, [[0, 1], [1, 0], [2, 2], [3, 1]], hurray.uint64)
    assert t.indices.shape == (4, 2)


def test_csr_and_csc() -> None:
    t = each()["csr"]
    check(t.values, t, 0, [1.5, 2.5, 3.5, 4.5], hurray.float64)
    check(t.col_indices, t, 1, [1, 0, 2, 1], hurray.uint64)
    check(t.row_ptr, t, 2, [0, 1, 2, 3, 4], hurray.uint64)
    t = each()["csc"]
    check(t.values, t, 0, [2.5, 1.5, 4.5, 3.5], hurray.float64)
    check(t.row_indices, t, 1, [1, 0, 3, 2], hurray.uint64)
    check(t.col_ptr, t, 2, [0, 1, 3, 4], hurray.uint64)


def test_csf() -> None:
    t = each()["csf"]
    assert (t.nnz, t.mode_order) == (4, (0, 1, 2))
    check(t.values, t, 0, [1, 2, 3, 4], hurray.float64)
    pos, crd = [[0, 2], [0, 2, 3], [0, 1, 2, 4]], [[0, 1], [0, 2, 1], [1, 3, 0, 2]]
    for level in range(3):
        check(t.pos(level), t, 2 * level + 1, pos[level], hurray.uint64)
        check(t.crd(np.int64(level)), t, 2 * level + 2, crd[level], hurray.uint64)
    for level in (3, -1):
        with pytest.raises(IndexError, match="3 levels"):
            t.pos(level)
    with pytest.raises(TypeError):
        t.crd("0")
    turned = hurray.from_numpy(CUBE).to_layout("csf", mode_order=[2, 0, 1])
    assert turned.mode_order == (2, 0, 1)
    assert turned.crd(0).to_numpy().tolist() == [0, 1, 2, 3]


def test_csf_buffers_may_be_longer_than_their_entries() -> None:
    t = each()["csf"]
    aux = [np.concatenate([t.buffer(k).to_numpy().view(np.uint64), [99, 99]]).astype(np.uint64) for k in range(1, 7)]
    padded = hurray.Tensor(t.buffer(0), hurray.float64, t.shape, layout=t.layout, aux_buffers=aux)
    for level in range(3):
        assert padded.pos(level).to_numpy().tolist() == t.pos(level).to_numpy().tolist()
        assert padded.crd(level).to_numpy().tolist() == t.crd(level).to_numpy().tolist()


@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize("quantized", [False, True])
def test_block_paged(index: Any, quantized: bool) -> None:
    t = paged(index, quantized)
    dtype = hurray.uint32 if index is np.uint32 else hurray.uint64
    assert t.page_pool.shape == (3, 2, 2, 2)
    assert t.page_pool.quantization is None
    check(t.page_pool, t, 0, np.arange(24).reshape(3, 2, 2, 2).tolist(), hurray.int8)
    check(t.block_table, t, 1, [2, 0, 2], dtype)
    check(t.seq_ptr, t, 2, [0, 1, 3], dtype)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_nothing_stored(layout: str) -> None:
    t = hurray.zeros([3, 2]).to_layout(layout)
    assert t.nnz == 0
    assert t.values.shape == (0,)
    assert t.values.to_numpy().dtype == np.float64
    if layout == "coo":
        assert t.indices.shape == (0, 2)


def test_packed_values() -> None:
    t = hurray.asarray(np.array([[0, 3], [-4, 0]]), dtype=hurray.dtype.int4).to_layout("csr")
    assert t.values.dtype is hurray.dtype.int4
    assert t.values.to_numpy().astype(int).tolist() == [3, -4]


def test_values_of_private_types() -> None:
    section = hurray.ExtensionType(16)
    t = hurray.Tensor(
        b"abcd", hurray.Dtype.from_tag(0xF1), [9], layout=hurray.CooLayout(2, True), extension_type=section,
        aux_buffers=[np.array([1, 8], np.uint64)],
    )  # fmt: skip
    assert t.values.extension_type == section
    assert t.values.buffer(0).to_numpy().tobytes() == b"abcd"
    assert t.indices.to_numpy().tolist() == [[1], [8]]
    assert t.indices.extension_type is None


def test_dynamic_sparse_tensors() -> None:
    aux = [np.array([1, 0], np.uint64), np.array([0, 1, 1, 2], np.uint64)]
    t = hurray.Tensor(np.array([5.0, 6]), hurray.float64, [None, 2], layout=hurray.CsrLayout(2), aux_buffers=aux)
    assert t.values.to_numpy().tolist() == [5, 6]
    assert t.row_ptr.to_numpy().tolist() == [0, 1, 1, 2]
    short = hurray.Tensor(b"", hurray.float64, [None, 2], layout=hurray.CsrLayout(2), aux_buffers=aux)
    with pytest.raises(hurray.BufferError):
        _ = short.values


def test_components_outlive_the_tensor() -> None:
    values = each()["csr"].values
    assert values.to_numpy().tolist() == [1.5, 2.5, 3.5, 4.5]
    assert values.T if values.ndim == 2 else True


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sum", r"to_numpy\(\)\.sum"),
        ("astype", r"to_numpy\(dtype="),
        ("toarray", r"to_numpy\(\)"),
        ("indptr", "row_ptr"),
        ("coords", "indices"),
        ("tocsr", r"to_layout\('csr'\)"),
    ],
)
def test_names_of_other_libraries_say_what_is_meant(name: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=f"{name!r}; this is a coo tensor; .*{advice}"):
        getattr(hurray.eye(2).to_layout("coo"), name)


def test_item_and_tolist() -> None:
    assert hurray.full([1, 1], 2.5, dtype=hurray.bfloat16).item() == 2.5
    assert hurray.eye(2).to_layout("csr").tolist() == [[1.0, 0.0], [0.0, 1.0]]
    for t in (hurray.zeros([2]), hurray.zeros([0])):
        with pytest.raises(ValueError, match="one element"):
            t.item()
