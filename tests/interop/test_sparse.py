"""Arrays of PyData sparse in and out, with the library itself as the oracle."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers
import hurray
from hurray import CopyRequiredError, InvalidDescriptorError, UnsupportedError, from_sparse, to_sparse

sparse = pytest.importorskip("sparse")


def dense(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    values = rng.integers(1, 100, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.4, values, np.zeros((), dtype))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("kind", ["COO", "GCXS", "DOK"])
def test_every_value_type_goes_in_and_out(dtype: str, kind: str) -> None:
    if (kind, dtype) == ("GCXS", "f2"):
        pytest.skip("the library does not compile GCXS of float16")
    want = dense((5, 4), dtype)
    t = from_sparse(getattr(sparse, kind).from_numpy(want))
    assert t.layout.name in ("csr", "csc") if kind == "GCXS" else t.layout.name == "coo"
    helpers.assert_same_bits(t.to_numpy(), want)
    helpers.assert_same_bits(to_sparse(t).todense(), want)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (3, 4, 5), (2, 3, 2, 3)])
def test_every_rank_and_every_choice_of_compressed_axes(shape: tuple[int, ...]) -> None:
    want = dense(shape)
    rank = len(shape)
    helpers.assert_same_bits(from_sparse(sparse.COO.from_numpy(want)).to_numpy(), want)
    if rank == 1:
        t = from_sparse(sparse.GCXS.from_numpy(want))
        assert t.layout.name == "coo"
        helpers.assert_same_bits(t.to_numpy(), want)
        return
    for n in range(1, rank):
        for axes in combinations(range(rank), n):
            t = from_sparse(sparse.GCXS.from_numpy(want, compressed_axes=axes))
            assert t.layout.name == (("csr" if axes == (0,) else "csc") if rank == 2 else "coo")
            t.validate()
            helpers.assert_same_bits(t.to_numpy(), want)


def test_two_dimensional_classes() -> None:
    want = dense((5, 4))
    for name, layout in (("CSR", "csr"), ("CSC", "csc")):
        t = from_sparse(sparse.GCXS.from_numpy(want, compressed_axes=(0 if name == "CSR" else 1,)))
        assert t.layout.name == layout
        assert np.array_equal(t.to_numpy(), want)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_results_work(layout: str) -> None:
    want = dense((6, 5))
    t = hurray.from_numpy(want).to_layout(layout)
    x = to_sparse(t)
    assert isinstance(x, sparse.COO if layout == "coo" else sparse.GCXS)
    assert np.allclose(x @ np.ones(5), want.sum(1))
    assert np.array_equal((x + x).todense(), 2 * want)
    assert np.array_equal((x * 2).todense(), 2 * want)
    assert np.array_equal(x.T.todense(), want.T)
    assert np.array_equal(x.sum(axis=0).todense(), want.sum(0))
    assert np.array_equal(t.to_numpy(), want)


def test_any_order_of_a_fiber_tree_comes_out_in_order() -> None:
    want = dense((3, 4, 5))
    t = hurray.from_numpy(want).to_layout("csf", mode_order=[2, 0, 1])
    x = to_sparse(t)
    assert isinstance(x, sparse.COO)
    assert np.array_equal(x.todense(), want)
    assert (np.diff(x.linear_loc()) > 0).all()


def test_coordinates_beyond_64_bit_offsets_are_put_in_order() -> None:
    coords = np.array([[2**40, 0, 2**40], [0, 5, 2**40]])
    x = to_sparse(hurray.sparse_coo(np.array([1.0, 2.0]), coords, [2**41] * 3))
    assert x.coords.T.tolist() == [[0, 5, 2**40], [2**40, 0, 2**40]]
    assert x.data.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3), (4,), (2, 0, 3)])
def test_nothing_stored(shape: tuple[int, ...]) -> None:
    want = np.zeros(shape, "f4")
    kinds = ["COO"] if 0 in shape else ["COO", "GCXS"]
    for kind in kinds:
        t = from_sparse(getattr(sparse, kind).from_numpy(want))
        assert (t.shape, t.nnz) == (shape, 0)
        assert to_sparse(t).shape == shape


def test_sharing() -> None:
    x = sparse.GCXS.from_numpy(dense((6, 5)))
    x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    t = from_sparse(x, copy=False)
    for k, array in enumerate((x.data, x.indices, x.indptr)):
        assert np.shares_memory(t._buffers[k], array)
    back = to_sparse(t, copy=False)
    assert np.shares_memory(back.data, x.data)
    assert np.shares_memory(back.indices, x.indices)
    assert not np.shares_memory(to_sparse(t, copy=True).data, x.data)
    assert not np.shares_memory(from_sparse(x, copy=True)._buffers[0], x.data)
    coo = sparse.COO.from_numpy(dense((6, 5)))
    assert np.shares_memory(from_sparse(coo)._buffers[0], coo.data)
    with pytest.raises(CopyRequiredError, match="interleaving"):
        from_sparse(coo, copy=False)
    with pytest.raises(CopyRequiredError, match="one array for each dimension"):
        to_sparse(from_sparse(coo), copy=False)
    with pytest.raises(CopyRequiredError, match="DOK"):
        from_sparse(sparse.DOK.from_numpy(dense((2, 2))), copy=False)
    with pytest.raises(CopyRequiredError, match="expanded"):
        from_sparse(sparse.GCXS.from_numpy(dense((2, 2, 2))), copy=False)


@pytest.mark.parametrize("fill", [1.0, np.nan, -0.0])
def test_other_fill_values_are_refused(fill: float) -> None:
    with pytest.raises(UnsupportedError, match="fill value"):
        from_sparse(sparse.COO([[0, 1]], [1.0, 2.0], shape=(3,), fill_value=fill))


def test_damaged_arrays_are_errors_in_words() -> None:
    coo = sparse.COO.from_numpy(np.eye(3))
    coo.coords = coo.coords.copy()
    coo.coords[0, 1] = 9
    with pytest.raises(InvalidDescriptorError, match=r"entry 1 is at \(9, 1\), outside shape \(3, 3\)"):
        from_sparse(coo)
    coo = sparse.COO([[0, 0], [1, 1]], [1.0, 2.0], shape=(2, 2), has_duplicates=False, sorted=True)
    with pytest.raises(InvalidDescriptorError, match=r"entry 1 repeats coordinate \(0, 1\)"):
        from_sparse(coo)
    coo.coords = coo.coords[:1]
    with pytest.raises(InvalidDescriptorError, match="needs 2 rows"):
        from_sparse(coo)
    for shape, axes in (((3, 4), (0,)), ((3, 4, 2), (0, 1))):
        x = sparse.GCXS.from_numpy(np.ones(shape), compressed_axes=axes)
        x.indices = x.indices.copy()
        x.indices[3] = 99
        with pytest.raises(InvalidDescriptorError, match=r"indices\[3\] is 99"):
            from_sparse(x)
        x = sparse.GCXS.from_numpy(np.ones(shape), compressed_axes=axes)
        x.indptr = x.indptr[:-1]
        with pytest.raises(InvalidDescriptorError, match="indptr"):
            from_sparse(x)


def test_what_cannot_be_taken_or_given() -> None:
    with pytest.raises(TypeError, match="COO, GCXS or DOK"):
        from_sparse(np.eye(2))
    with pytest.raises(InvalidDescriptorError, match="rank"):
        from_sparse(sparse.COO(np.empty((0, 1), np.intp), np.ones(1), shape=(), fill_value=0.0))
    with pytest.raises(UnsupportedError, match="row_major"):
        to_sparse(hurray.zeros([2, 2]))
    with pytest.raises(UnsupportedError, match="bfloat16"):
        to_sparse(hurray.zeros([2, 2], dtype=hurray.bfloat16).to_layout("coo"))


@settings(max_examples=30)
@given(st.data())
def test_any_coordinates(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    n = data.draw(st.integers(0, 12))
    coords = np.array([[data.draw(st.integers(0, k - 1)) for k in shape] for _ in range(n)], np.int64).reshape(
        n, len(shape)
    )
    values = np.array(data.draw(st.lists(st.integers(-5, 5), min_size=n, max_size=n)), np.int32)
    x = sparse.COO(coords.T, values, shape=shape)
    t = from_sparse(x)
    t.validate()
    assert np.array_equal(t.to_numpy(), x.todense())
    assert np.array_equal(to_sparse(t).todense(), x.todense())
