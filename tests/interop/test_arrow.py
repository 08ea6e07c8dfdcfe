"""Tensors of Apache Arrow in and out, with Arrow's own conversions as the oracle."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers
import hurray
from hurray import CopyRequiredError, InvalidDescriptorError, UnsupportedError, from_arrow, to_arrow

pa = pytest.importorskip("pyarrow")

VALUE_TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
CLASSES = {"coo": pa.SparseCOOTensor, "csr": pa.SparseCSRMatrix, "csc": pa.SparseCSCMatrix, "csf": pa.SparseCSFTensor}


def dense(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(2)
    values = rng.integers(1, 100, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.4, values, np.zeros((), dtype))


def densified(x: Any) -> Any:
    return x.to_tensor().to_numpy()


@pytest.mark.parametrize("dtype", VALUE_TYPES)
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "csf"])
def test_every_value_type_goes_in_and_out(layout: str, dtype: str) -> None:
    want = dense((3, 4, 2) if layout == "csf" else (5, 4), dtype)
    t = from_arrow(CLASSES[layout].from_dense_numpy(want))
    assert t.layout.name == layout
    helpers.assert_same_bits(t.to_numpy(), want)
    x = to_arrow(t)
    assert isinstance(x, CLASSES[layout])
    assert np.array_equal(densified(x), want)
    assert from_arrow(x).layout == t.layout


@pytest.mark.parametrize("dtype", VALUE_TYPES)
def test_dense_tensors(dtype: str) -> None:
    base = dense((6, 8), dtype)
    arrays = [base, np.asfortranarray(base), base[::2, ::2], base.T, base[:0], np.broadcast_to(base[:1], (3, 8))]
    for array in arrays:
        t = from_arrow(pa.Tensor.from_numpy(array))
        helpers.assert_same_bits(t.to_numpy(), array)
        back = to_arrow(hurray.from_numpy(array))
        assert back.shape == array.shape
        helpers.assert_same_bits(back.to_numpy(), array)
    for array in (base[::-1], base[:, ::-1]):
        helpers.assert_same_bits(to_arrow(hurray.from_numpy(array)).to_numpy(), array)
        with pytest.raises(CopyRequiredError, match="negative strides"):
            to_arrow(hurray.from_numpy(array), copy=False)
    tiled = hurray.from_numpy(base).to_layout("tiled", tile_shape=[4, 4])
    helpers.assert_same_bits(to_arrow(tiled).to_numpy(), base)
    helpers.assert_same_bits(to_arrow(hurray.asarray(np.array(7, dtype))).to_numpy(), np.array(7, dtype))


def test_dense_memory_is_shared() -> None:
    array = dense((4, 5))
    assert np.shares_memory(to_arrow(hurray.from_numpy(array), copy=False).to_numpy(), array)
    assert np.shares_memory(from_arrow(pa.Tensor.from_numpy(array), copy=False)._buffers[0], array)
    assert not np.shares_memory(to_arrow(hurray.from_numpy(array), copy=True).to_numpy(), array)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "csf"])
def test_sparse_memory_is_shared(layout: str) -> None:
    want = dense((3, 4, 2) if layout == "csf" else (5, 4))
    t = hurray.from_numpy(want).to_layout(layout)
    x = to_arrow(t, copy=False)
    assert np.shares_memory(x.to_numpy()[0], t._buffers[0])
    back = from_arrow(x, copy=False)
    pairs = [(a, b) for a, b in zip(back._buffers, t._buffers, strict=True) if len(a)]
    own = 1 if layout == "csf" else None  # the root pointer, which Arrow does not have
    for k, (a, b) in enumerate(pairs):
        assert np.shares_memory(a, b) == (k != own)
    assert not any(np.shares_memory(a, b) for a in from_arrow(x, copy=True)._buffers for b in t._buffers)
    assert not np.shares_memory(to_arrow(t, copy=True).to_numpy()[0], t._buffers[0])


@pytest.mark.parametrize("shape", [(3, 4, 2), (2, 2, 2), (4, 3, 2, 3)])
def test_every_order_of_axes_is_found(shape: tuple[int, ...]) -> None:
    want = dense(shape)
    assert np.array_equal(from_arrow(pa.SparseCSFTensor.from_dense_numpy(want)).to_numpy(), want)
    for order in permutations(range(len(shape))):
        x = to_arrow(hurray.from_numpy(want).to_layout("csf", mode_order=order))
        assert np.array_equal(densified(x), want)
        t = from_arrow(x)
        assert t.mode_order == order
        helpers.assert_same_bits(t.to_numpy(), want)


def test_an_order_that_cannot_be_found_is_asked_for() -> None:
    want = dense((3, 4, 2))
    want[0, 0, 0] = np.nan
    x = to_arrow(hurray.from_numpy(want).to_layout("csf", mode_order=[1, 2, 0]))
    with pytest.raises(UnsupportedError, match="axis_order="):
        from_arrow(x)
    helpers.assert_same_bits(from_arrow(x, axis_order=[1, 2, 0]).to_numpy(), want)
    with pytest.raises(InvalidDescriptorError, match="permutation"):
        from_arrow(x, axis_order=[0, 0, 1])
    with pytest.raises(InvalidDescriptorError, match="mode_order"):
        from_arrow(x, axis_order=[0, 1])


@pytest.mark.parametrize("index", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_any_index_type(index: str) -> None:
    want = dense((3, 4, 2))
    values, ptr, crd = pa.SparseCSFTensor.from_dense_numpy(want).to_numpy()
    x = pa.SparseCSFTensor.from_numpy(
        values, [a.astype(index) for a in ptr], [a.astype(index) for a in crd], shape=want.shape, axis_order=[2, 0, 1]
    )
    assert np.array_equal(from_arrow(x).to_numpy(), want)
    values, coords = pa.SparseCOOTensor.from_dense_numpy(want).to_numpy()
    x = pa.SparseCOOTensor.from_numpy(values, coords.astype(index), shape=want.shape)
    assert np.array_equal(from_arrow(x).to_numpy(), want)
    for layout in ("csr", "csc"):
        values, ptr, indices = CLASSES[layout].from_dense_numpy(want[0]).to_numpy()
        x = CLASSES[layout].from_numpy(values, ptr.astype(index), indices.astype(index), shape=want[0].shape)
        assert np.array_equal(from_arrow(x).to_numpy(), want[0])


def test_coordinates_out_of_order_stay_where_they_are() -> None:
    coords = np.array([[1, 0], [0, 1]])
    x = pa.SparseCOOTensor.from_numpy(np.array([[1.0], [2.0]]), coords, shape=(2, 2))
    t = from_arrow(x, copy=False)
    assert t.layout == hurray.CooLayout(2, is_sorted=False)
    assert np.shares_memory(t._buffers[1], coords)
    assert t.to_numpy().tolist() == [[0, 2], [1, 0]]
    column_major = pa.SparseCOOTensor.from_numpy(np.array([[1.0], [2.0]]), np.asfortranarray(coords), shape=(2, 2))
    assert from_arrow(column_major).to_numpy().tolist() == [[0, 2], [1, 0]]


@pytest.mark.parametrize(("how", "want"), [("sum", 5.0), ("last", 2.0)])
def test_repeated_coordinates(how: Any, want: float) -> None:
    x = pa.SparseCOOTensor.from_numpy(np.array([[3.0], [2.0]]), np.array([[1, 0], [1, 0]]), shape=(2, 2))
    with pytest.raises(InvalidDescriptorError, match=r"entry 1 repeats coordinate \(1, 0\)"):
        from_arrow(x)
    assert from_arrow(x, duplicates=how).to_numpy().tolist() == [[0, 0], [want, 0]]
    with pytest.raises(ValueError, match="duplicates is"):
        from_arrow(x, duplicates="first")  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "csf"])
def test_nothing_stored(layout: str) -> None:
    for shape in [(2, 3, 4), (2, 0, 4)] if layout == "csf" else [(2, 3), (0, 3), (3, 0)]:
        t = hurray.zeros(shape).to_layout(layout)
        x = to_arrow(t)
        assert x.shape == shape
        back = from_arrow(x)
        assert (back.layout.name, back.shape, back.nnz) == (layout, shape, 0)
    if layout == "csf":
        assert from_arrow(pa.SparseCSFTensor.from_dense_numpy(np.zeros((2, 3, 4)))).nnz == 0


def csr(indptr: Any, indices: Any, n: int = 2, shape: tuple[int, int] = (2, 2)) -> Any:
    return pa.SparseCSRMatrix.from_numpy(np.ones((n, 1)), np.array(indptr), np.array(indices), shape=shape)


def test_damaged_tensors_are_errors_in_words() -> None:
    for bad, words in (
        (csr([0, 9, 2], [1, 0]), "indptr"),
        (csr([0], [1, 0]), "indptr has shape"),
        (csr([0, 1, 2], [1, 7]), r"indices\[1\] is 7"),
        (csr([0, 1, 2], [1, -7]), r"indices\[1\] is -7"),
        (csr([0, 1, 5], [1, 0]), "only 2 entries"),
        (pa.SparseCOOTensor.from_numpy(np.ones((1, 1)), np.array([[5, 0]]), shape=(2, 2)), "outside shape"),
    ):
        with pytest.raises(InvalidDescriptorError, match=words):
            from_arrow(bad)
    values, ptr, crd = pa.SparseCSFTensor.from_dense_numpy(dense((3, 4, 2))).to_numpy()
    for level in range(3):
        broken = [a.copy() for a in crd]
        broken[level][0] = 99
        x = pa.SparseCSFTensor.from_numpy(values, ptr, broken, shape=(3, 4, 2), axis_order=[2, 0, 1])
        with pytest.raises(InvalidDescriptorError, match=rf"crd_{level}\[0\] is 99"):
            from_arrow(x, axis_order=[2, 0, 1])
        with pytest.raises(UnsupportedError, match="axis_order"):
            from_arrow(x)
    broken = [a.copy() for a in ptr]
    broken[0][-1] = 10**12
    x = pa.SparseCSFTensor.from_numpy(values, broken, crd, shape=(3, 4, 2), axis_order=[2, 0, 1])
    with pytest.raises((InvalidDescriptorError, hurray.BufferError)):
        from_arrow(x)


def test_what_arrow_lacks_is_named() -> None:
    for name in ("bfloat16", "bool", "int4", "float8_e5m2"):
        t = hurray.zeros([2, 2], dtype=hurray.Dtype.from_name(name))
        for layout in ("row_major", "coo"):
            with pytest.raises(UnsupportedError, match=name):
                to_arrow(t.to_layout(layout))
    with pytest.raises(UnsupportedError, match="complex64"):
        to_arrow(hurray.from_numpy(np.ones((2, 2), "c8")))
    with pytest.raises(UnsupportedError, match="dequantize"):
        to_arrow(hurray.quantize(np.ones((4, 4), "f4"), "int8"))
    with pytest.raises(TypeError, match="Tensor"):
        to_arrow(np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pyarrow"):
        from_arrow(np.ones(2))
    with pytest.raises(UnsupportedError, match="rank"):
        from_arrow(pa.SparseCSFTensor.from_dense_numpy(np.eye(2)))


@settings(max_examples=30)
@given(st.data())
def test_any_entries(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    values = data.draw(st.lists(st.integers(-2, 2), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    want = np.array(values, "i4").reshape(shape)
    for layout, cls in CLASSES.items():
        if (layout in ("csr", "csc") and rank != 2) or (layout == "csf" and rank < 3):
            continue
        t = from_arrow(cls.from_dense_numpy(want))
        assert np.array_equal(t.to_numpy(), want)
        if t.nnz:
            assert np.array_equal(densified(to_arrow(t)), want)
