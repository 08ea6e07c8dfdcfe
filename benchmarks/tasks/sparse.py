"""Tasks 9 and 10: sparse layouts built, unpacked and searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hurray
from benchmarks import sparse_formulas as formulas
from benchmarks.context import Context
from benchmarks.model import Case

Array = NDArray[Any]
Shape = tuple[int, ...]


class Entries:
    """Unique random coordinates and float32 values, sorted and shuffled."""

    def __init__(self, context: Context, shape: Shape, nnz: int) -> None:
        rng = context.rng
        keys = np.unique(rng.integers(0, np.prod(shape), nnz + nnz // 4))
        self.shape = shape
        self.nnz = min(nnz, len(keys))
        chosen = np.sort(rng.permutation(keys)[: self.nnz])
        self.sorted: Array = np.stack(np.unravel_index(chosen, shape), axis=1).astype(np.int64)
        self.values: Array = rng.random(self.nnz, np.float32) + np.float32(0.5)
        self._order = rng.permutation(self.nnz)

    def given(self, *, is_sorted: bool) -> tuple[Array, Array]:
        """Return coordinates, int64 of shape (nnz, rank), and values."""
        if is_sorted:
            return self.sorted, self.values
        return np.ascontiguousarray(self.sorted[self._order]), self.values[self._order]

    def coo(self, *, is_sorted: bool) -> hurray.Tensor:
        """Return the entries as a coo tensor."""
        coords, values = self.given(is_sorted=is_sorted)
        return hurray.sparse_coo(values, coords, self.shape)

    def dense(self) -> Array:
        """Return the dense array."""
        return formulas.scatter(self.sorted, self.values, self.shape)


def unchecked(t: hurray.Tensor) -> hurray.Tensor:
    """Return a new tensor over the same buffers, whose invariants have yet to be checked on first use."""
    first, *others = [t.buffer(k).to_numpy() for k in range(t.buffer_count)]
    return hurray.Tensor(first, t.dtype, t.shape, aux_buffers=others, layout=t.layout)


def _copying(*arrays: Array) -> Callable[[], list[Array]]:
    return lambda: [a.copy() for a in arrays]


def _equal(*pairs: tuple[Any, Any]) -> bool:
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _order_name(is_sorted: bool) -> str:
    return "sorted" if is_sorted else "shuffled"


def conversions(context: Context) -> Iterator[Case]:
    """Task 9."""
    nnz = context.size(2_000_000, 20_000)
    matrix = Entries(context, context.size((50_000, 40_000), (500, 400)), nnz)
    for is_sorted in (False, True):
        yield _coo_to_csr(matrix, is_sorted)
    half = Entries(context, context.size((4096, 4096), (256, 256)), nnz)
    yield _csr_to_dense(half)
    cube = Entries(context, context.size((512, 512, 512), (64, 64, 64)), nnz)
    for is_sorted in (False, True):
        yield _coo_to_csf(cube, is_sorted)
    yield _csf_to_coo(cube)
    solid = Entries(context, context.size((256, 256, 256), (64, 64, 64)), nnz)
    yield _dense_to_csf(solid)
    yield _csf_to_dense(solid)


def _coo_to_csr(entries: Entries, is_sorted: bool) -> Case:
    coords, values = entries.given(is_sorted=is_sorted)
    shape = entries.shape
    want = formulas.csr_from_coo(coords, values, shape, is_sorted=is_sorted)
    coo = entries.coo(is_sorted=is_sorted)
    fresh: list[hurray.Tensor] = []

    def right(found: hurray.Tensor) -> bool:
        return _equal((found.row_ptr, want.row_ptr), (found.col_indices, want.columns), (found.values, want.values))

    def right_scipy(found: Any) -> bool:
        return _equal((found.indptr, want.row_ptr), (found.indices, want.columns), (found.data, want.values))

    def scipy(dtype: Any) -> Callable[[Any], Any]:
        def make(sparse: Any) -> Any:
            rows, columns = (coords[:, k].astype(dtype) for k in (0, 1))
            given = sparse.coo_array((values, (rows, columns)), shape=shape)
            return given.tocsr

        return make

    def gcxs(sparse: Any) -> Any:
        # Making a COO sorts it, so that is part of the work.
        return lambda: sparse.GCXS.from_coo(sparse.COO(coords.T, values, shape=shape), compressed_axes=(0,))

    case = Case(f"COO -> CSR, {entries.nnz} entries, {_order_name(is_sorted)}", n_items=entries.nnz)
    case.limit("copy of the output", _copying(*want))
    case.ours("hurray", lambda: coo.to_layout("csr"), check=right)
    case.ours(
        "hurray, input not checked yet", lambda: fresh.pop().to_layout("csr"),
        before=lambda: fresh.append(unchecked(coo)), check=right,
    )  # fmt: skip
    case.peer("scipy, int32", scipy(np.int32), "scipy.sparse", check=right_scipy)
    case.peer("scipy, int64", scipy(np.int64), "scipy.sparse", check=right_scipy)
    case.peer("sparse GCXS", gcxs, "sparse")
    case.peer("NumPy formula", lambda: lambda: formulas.csr_from_coo(coords, values, shape, is_sorted=is_sorted))
    case.goal("scipy, int32", 1.25)
    return case


def _csr_to_dense(entries: Entries) -> Case:
    dense = entries.dense()
    csr = entries.coo(is_sorted=True).to_layout("csr")
    fresh: list[hurray.Tensor] = []

    def right(found: Any) -> bool:
        return np.array_equal(found, dense)

    plain = formulas.csr_from_coo(entries.sorted, entries.values, entries.shape, is_sorted=True)

    def formula() -> Any:
        out = np.zeros(dense.shape, np.float32)
        out[np.repeat(np.arange(dense.shape[0]), np.diff(plain.row_ptr)), plain.columns] = plain.values
        return out

    case = Case(f"CSR -> dense {dense.shape}, {entries.nnz} entries", n_bytes=dense.nbytes)
    case.limit("copy of the output", _copying(dense))
    case.ours("hurray", csr.to_numpy, check=right)
    case.ours(
        "hurray, input not checked yet", lambda: fresh.pop().to_numpy(), before=lambda: fresh.append(unchecked(csr)),
        check=right,
    )  # fmt: skip
    case.peer("scipy", lambda sparse: sparse.csr_array(dense).toarray, "scipy.sparse", check=right)
    case.peer("sparse GCXS", lambda sparse: sparse.GCXS.from_numpy(dense).todense, "sparse", check=right)
    case.peer("NumPy formula", lambda: formula, check=right)
    return case


def _arrays(tree: formulas.Csf) -> list[Array]:
    return [*tree.pos, *tree.crd, tree.values]


def _same_tree(found: hurray.Tensor, want: formulas.Csf) -> bool:
    # values, pos_0, crd_0, pos_1, crd_1, ...
    buffers = [found.buffer(k).to_numpy() for k in range(found.buffer_count)]
    index = [b.view(np.uint64) for b in buffers[1:]]
    pairs = zip(index, (array for level in zip(want.pos, want.crd, strict=True) for array in level), strict=True)
    return _equal(*pairs, (buffers[0].view(np.float32), want.values))


def _csf(entries: Entries) -> hurray.Tensor:
    return entries.coo(is_sorted=True).to_layout("csf", mode_order=[0, 1, 2])


def _coo_to_csf(entries: Entries, is_sorted: bool) -> Case:
    coords, values = entries.given(is_sorted=is_sorted)
    shape = entries.shape
    want = formulas.csf_from_coo(coords, values, shape, is_sorted=is_sorted)
    coo = entries.coo(is_sorted=is_sorted)

    def gcxs(sparse: Any) -> Any:
        return lambda: sparse.GCXS.from_coo(sparse.COO(coords.T, values, shape=shape))

    case = Case(f"COO -> CSF, {entries.nnz} entries, {_order_name(is_sorted)}", n_items=entries.nnz)
    case.limit("copy of the output", _copying(*_arrays(want)))
    case.ours("hurray", lambda: coo.to_layout("csf", mode_order=[0, 1, 2]), check=lambda found: _same_tree(found, want))
    case.peer("NumPy formula", lambda: lambda: formulas.csf_from_coo(coords, values, shape, is_sorted=is_sorted))
    case.peer("sparse GCXS (not CSF)", gcxs, "sparse")
    case.goal("NumPy formula", 1.0 if is_sorted else 0.85)
    return case


def _csf_to_coo(entries: Entries) -> Case:
    csf = _csf(entries)
    tree = formulas.csf_from_coo(entries.sorted, entries.values, entries.shape, is_sorted=True)
    fresh: list[hurray.Tensor] = []

    def right(found: hurray.Tensor) -> bool:
        return _equal((found.indices, entries.sorted), (found.values, entries.values))

    def gcxs(sparse: Any) -> Any:
        given = sparse.GCXS.from_coo(sparse.COO(entries.sorted.T, entries.values, shape=entries.shape))
        return given.tocoo

    def formula() -> Any:
        return formulas.csf_to_coo(tree), tree.values.copy()

    case = Case(f"CSF -> COO, {entries.nnz} entries", n_items=entries.nnz)
    case.limit("copy of the output", _copying(entries.sorted, entries.values))
    case.ours("hurray", lambda: csf.to_layout("coo"), check=right)
    case.ours(
        "hurray, input not checked yet", lambda: fresh.pop().to_layout("coo"),
        before=lambda: fresh.append(unchecked(csf)), check=right,
    )  # fmt: skip
    case.ours(
        "hurray, nonzeros()", csf.nonzeros, check=lambda f: _equal((f[0], entries.sorted), (f[1], entries.values))
    )
    case.peer("NumPy formula", lambda: formula, check=lambda f: _equal((f[0], entries.sorted)))
    case.peer("sparse GCXS (not CSF)", gcxs, "sparse")
    case.goal("NumPy formula", 1.0)
    return case


def _dense_to_csf(entries: Entries) -> Case:
    dense = entries.dense()
    tensor = hurray.from_numpy(dense)
    want = formulas.csf_from_coo(entries.sorted, entries.values, entries.shape, is_sorted=True)
    case = Case(f"dense {dense.shape} -> CSF, {entries.nnz} entries", n_bytes=dense.nbytes)
    case.limit("copy of the input", _copying(dense))
    case.ours(
        "hurray", lambda: tensor.to_layout("csf", mode_order=[0, 1, 2]), check=lambda found: _same_tree(found, want)
    )
    case.peer("pyarrow", lambda pa: lambda: pa.SparseCSFTensor.from_dense_numpy(dense), "pyarrow")
    case.peer("sparse GCXS (not CSF)", lambda sparse: lambda: sparse.GCXS.from_numpy(dense), "sparse")
    case.peer("NumPy formula", lambda: lambda: formulas.csf_from_dense(dense))
    case.goal("pyarrow", 1.0)
    return case


def _csf_to_dense(entries: Entries) -> Case:
    dense = entries.dense()
    csf = _csf(entries)
    tree = formulas.csf_from_coo(entries.sorted, entries.values, entries.shape, is_sorted=True)

    def right(found: Any) -> bool:
        return np.array_equal(found, dense)

    def arrow(pa: Any) -> Any:
        given = pa.SparseCSFTensor.from_dense_numpy(dense)
        return lambda: given.to_tensor().to_numpy()

    case = Case(f"CSF -> dense {dense.shape}, {entries.nnz} entries", n_bytes=dense.nbytes)
    case.limit("copy of the output", _copying(dense))
    case.ours("hurray", csf.to_numpy, check=right)
    case.peer("pyarrow", arrow, "pyarrow", check=right)
    case.peer("sparse GCXS (not CSF)", lambda sparse: sparse.GCXS.from_numpy(dense).todense, "sparse", check=right)
    case.peer(
        "NumPy formula",
        lambda: lambda: formulas.scatter(formulas.csf_to_coo(tree), tree.values, entries.shape),
        check=right,
    )
    case.goal("pyarrow", 1.3)
    return case


def lookups(context: Context) -> Iterator[Case]:
    """Task 10."""
    nnz, n_wanted = context.size(2_000_000, 20_000), context.size(100_000, 2_000)
    matrix = Entries(context, context.size((50_000, 40_000), (500, 400)), nnz)
    yield _lookup_csr(matrix, *_wanted(context, matrix, n_wanted))
    cube = Entries(context, context.size((512, 512, 512), (64, 64, 64)), nnz)
    yield _lookup_csf(cube, *_wanted(context, cube, n_wanted))


def _wanted(context: Context, entries: Entries, count: int) -> tuple[Array, Array, Array]:
    """Return coordinates, half of them stored, in random order; what is found; and positions of as many values."""
    stored = context.rng.integers(0, entries.nnz, count // 2)
    other = np.stack([context.rng.integers(0, n, count - count // 2) for n in entries.shape], axis=1)
    coords = context.rng.permutation(np.concatenate([entries.sorted[stored], other]))
    keys, key = (np.ravel_multi_index(tuple(c.T), entries.shape) for c in (entries.sorted, coords))
    at = np.minimum(np.searchsorted(keys, key), entries.nnz - 1)
    want = np.where(keys[at] == key, entries.values[at], np.float32(0))
    return coords, want, at


def _lookup_csr(entries: Entries, coords: Array, want: Array, at: Array) -> Case:
    csr = entries.coo(is_sorted=True).to_layout("csr")
    plain = formulas.csr_from_coo(entries.sorted, entries.values, entries.shape, is_sorted=True)

    def right(found: Any) -> bool:
        return np.array_equal(found, want)

    def scipy(sparse: Any) -> Any:
        given = sparse.csr_matrix((plain.values, plain.columns, plain.row_ptr), shape=entries.shape)
        rows, columns = np.ascontiguousarray(coords.T)
        return lambda: np.asarray(given[rows, columns]).reshape(-1)

    case = Case(f"{len(coords)} look-ups in CSR, {entries.nnz} entries", n_items=len(coords))
    case.limit("gather", lambda: entries.values[at])
    case.ours("hurray", lambda: csr.lookup(coords), check=right)
    case.peer("scipy", scipy, "scipy.sparse", check=right)
    case.peer("NumPy formula", lambda: lambda: formulas.csr_lookup(plain, entries.shape, coords), check=right)
    case.goal("scipy", 1.7)
    return case


def _lookup_csf(entries: Entries, coords: Array, want: Array, at: Array) -> Case:
    csf = _csf(entries)
    tree = formulas.csf_from_coo(entries.sorted, entries.values, entries.shape, is_sorted=True)
    few = [tuple(int(k) for k in c) for c in coords[: len(coords) // 100]]

    def right(found: Any) -> bool:
        return np.array_equal(found, want)

    def one_by_one(sparse: Any) -> Any:
        given = sparse.COO(entries.sorted.T, entries.values, shape=entries.shape)
        return lambda: [given[c] for c in few]

    case = Case(f"{len(coords)} look-ups in CSF, {entries.nnz} entries", n_items=len(coords))
    case.limit("gather", lambda: entries.values[at])
    case.ours("hurray", lambda: csf.lookup(coords), check=right)
    case.peer("NumPy formula", lambda: lambda: formulas.csf_lookup(tree, entries.shape, coords), check=right)
    case.peer("sparse COO, one by one", one_by_one, "sparse", scale=100,
              check=lambda found: np.array_equal(found, want[: len(few)]))  # fmt: skip
    case.goal("NumPy formula", 1.05)
    return case
