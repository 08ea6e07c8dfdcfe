from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hurray.kernels import keys, pointers

U8 = np.uint64


@st.composite
def matrices(draw: st.DrawFn) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    shape = (draw(st.integers(1, 8)), draw(st.integers(1, 8)))
    cells = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    return shape, draw(st.lists(cells, unique=True, max_size=40))


def compress(shape: tuple[int, int], cells: list[tuple[int, int]], major: int = 0) -> tuple[Any, Any]:
    ptr, indices = [0], []
    for slice_ in range(shape[major]):
        indices += sorted(c[1 - major] for c in cells if c[major] == slice_)
        ptr.append(len(indices))
    return np.array(ptr, U8), np.array(indices, U8)


@given(matrices(), st.sampled_from([0, 1]), st.booleans())
def test_compress_coords(case: Any, major: int, presorted: bool) -> None:
    shape, cells = case
    if presorted:
        cells = sorted(cells, key=lambda c: (c[major], c[1 - major]))
    coords = np.array(cells, U8).reshape(len(cells), 2)
    ptr, indices, order, repeat = pointers.compress_coords(coords, shape, major)
    wanted = compress(shape, cells, major)
    ready = pointers.compress_in_order(coords, shape, major)
    if cells != sorted(cells, key=lambda c: (c[major], c[1 - major])):
        assert ready is None
    else:
        assert ready is not None
        assert [a.tolist() for a in ready] == [a.tolist() for a in wanted]
    assert (ptr.tolist(), indices.tolist(), repeat) == (wanted[0].tolist(), wanted[1].tolist(), -1)
    moved = coords if order is None else coords[order]
    assert moved.tolist() == sorted(coords.tolist(), key=lambda c: (c[major], c[1 - major]))
    assert order is None or not presorted


@given(matrices())
def test_transpose_and_expand_against_scipy(case: Any) -> None:
    shape, cells = case
    ptr, indices = compress(shape, cells)
    values = np.arange(1.0, len(cells) + 1)
    matrix = sp.csr_array((values, indices.astype(np.int64), ptr.astype(np.int64)), shape=shape)
    other = matrix.tocsc()
    turned, others, order = pointers.transpose(ptr, indices, shape[1])
    assert turned.tolist() == other.indptr.tolist()
    assert others.tolist() == other.indices.tolist()
    assert (values if order is None else values[order]).tolist() == other.data.tolist()
    assert pointers.expand_ptr(ptr, len(indices)).tolist() == matrix.tocoo().coords[0].tolist()


def test_transpose_with_many_slices() -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random_array((300, 70_000), density=1e-4, format="csr", rng=rng)
    other = matrix.tocsc()
    turned, others, order = pointers.transpose(matrix.indptr.astype(U8), matrix.indices.astype(U8), 70_000)
    assert np.array_equal(turned, other.indptr)
    assert np.array_equal(others, other.indices)
    assert order is not None
    assert np.array_equal(matrix.data[order], other.data)


def test_large_build_against_scipy() -> None:
    rng = np.random.default_rng(3)
    n, shape = 200_000, (5_000, 7_000)
    linear = np.unique(rng.integers(0, shape[0] * shape[1], n))
    for moved in (linear, rng.permutation(linear)):
        coords = np.stack(np.divmod(moved, shape[1]), axis=1).astype(U8)
        values = np.arange(len(moved), dtype=float)
        csr = sp.coo_array((values, (coords[:, 0].astype(int), coords[:, 1].astype(int))), shape=shape).tocsr()
        ptr, indices, order, repeat = pointers.compress_coords(coords, shape, 0)
        assert repeat == -1
        assert np.array_equal(ptr, csr.indptr)
        assert np.array_equal(indices, csr.indices)
        assert np.array_equal(values if order is None else values[order], csr.data)
        assert (order is None) == (moved is linear)


def test_nothing_in_order_is_taken_on_trust() -> None:
    for bad in ([[0, 0], [0, 3]], [[0, 0], [2, 0]], [[0, 0], [2**63, 0]], [[0, 1], [0, 1]], [[0, 2**64 - 1]]):
        for major in (0, 1):
            assert pointers.compress_in_order(np.array(bad, U8), (2, 3), major) is None
    n = keys.BLOCK
    coords = np.stack([np.arange(2 * n) // 2, np.arange(2 * n) % 2], axis=1).astype(U8)
    for shape in ((n, 2), (n + 5, 2**64 - 2)):
        found = pointers.compress_in_order(coords, shape, 0)
        assert found is not None
        assert np.array_equal(found[0], np.minimum(np.arange(shape[0] + 1) * 2, 2 * n))
        assert np.array_equal(found[1], coords[:, 1])
    coords[n] = coords[n - 1]
    assert pointers.compress_in_order(coords, (n, 2), 0) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9), st.integers(0, 1))
def test_what_ascends_is_compressed_and_nothing_else(pairs: list[tuple[int, int]], major: int) -> None:
    found = pointers.compress_in_order(np.array(pairs, U8).reshape(-1, 2), (5, 5), major)
    turned = [pair[::-1] if major else pair for pair in pairs]
    assert (found is not None) == (turned == sorted(set(turned)))
    if found is not None:
        assert found[0].tolist() == [sum(m < k for m, _ in turned) for k in range(6)]
        assert found[1].tolist() == [k for _, k in turned]


@given(st.lists(st.integers(0, 6), max_size=12), st.integers(7, 9))
def test_ptr_of_sorted_against_counting(majors: list[int], n_major: int) -> None:
    ptr = pointers.ptr_of_sorted(np.array(sorted(majors), U8), n_major)
    assert ptr.tolist() == [sum(m < k for m in majors) for k in range(n_major + 1)]


def test_runs_that_cross_blocks() -> None:
    majors = np.repeat(np.arange(5), [3, keys.BLOCK - 3, 2 * keys.BLOCK, 1, 7]).astype(U8)
    want = np.concatenate([[0], np.cumsum(np.bincount(majors.astype(np.int64), minlength=6))])
    assert np.array_equal(pointers.ptr_of_sorted(majors, 6), want)
    coords = np.stack([majors, np.arange(len(majors), dtype=U8)], axis=1)
    found = pointers.compress_in_order(coords, (6, len(majors)), 0)
    assert found is not None
    assert np.array_equal(found[0], want)
    shuffled = np.random.default_rng(1).permutation(len(majors))
    ptr, minors, order, repeat = pointers.compress_coords(coords[shuffled], (6, len(majors)), 0)
    assert np.array_equal(ptr, want)
    assert np.array_equal(minors, coords[:, 1])
    assert order is not None
    assert np.array_equal(shuffled[order], np.arange(len(majors)))
    assert repeat == -1


def test_repeats_are_told() -> None:
    coords = np.array([[1, 1], [0, 2], [1, 1], [0, 2]], U8)
    assert pointers.compress_coords(coords, (2, 3), 0)[3] == 2
    assert pointers.compress_coords(coords[[0, 0, 1]], (2, 3), 0)[3] == 1


@given(matrices(), st.data())
def test_find(case: Any, data: st.DataObject) -> None:
    shape, cells = case
    ptr, indices = compress(shape, cells)
    ordered = sorted(cells)
    cell = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    queries = data.draw(st.lists(cell, max_size=30))
    wanted = np.array(queries, np.int64).reshape(len(queries), 2)
    found = pointers.find(ptr, indices, wanted[:, 0], wanted[:, 1].view(U8))
    assert found.tolist() == [ordered.index(q) if q in ordered else -1 for q in queries]


def axes(extent: int) -> st.SearchStrategy[Any]:
    ranges = st.builds(
        lambda a, b, s: range(extent)[slice(a, b, s)],
        st.integers(0, extent),
        st.integers(0, extent),
        st.sampled_from([-2, -1, 1, 2]),
    )
    return ranges | st.lists(st.integers(0, extent - 1), max_size=6).map(lambda x: np.array(x, np.int64))


@given(matrices(), st.data())
def test_select(case: Any, data: st.DataObject) -> None:
    shape, cells = case
    ptr, indices = compress(shape, cells)
    rows, columns = data.draw(axes(shape[0])), data.draw(axes(shape[1]))
    positions, row_places, column_places = pointers.select(ptr, indices, rows, columns)
    expected = {
        (k, p, q)
        for k, (i, j) in enumerate(sorted(cells))
        for p, r in enumerate(list(rows))
        for q, c in enumerate(list(columns))
        if (r, c) == (i, j)
    }
    got = list(zip(positions.tolist(), row_places.tolist(), column_places.tolist(), strict=True))
    assert len(got) == len(expected)
    assert set(got) == expected


@pytest.mark.parametrize(
    ("ptr", "n", "fault"),
    [
        ([0, 2, 2, 5], 5, (pointers.PTR_OK, -1)),
        ([0], 0, (pointers.PTR_OK, -1)),
        ([1, 2], 2, (pointers.PTR_START, 0)),
        ([0, 3, 2, 5], 5, (pointers.PTR_DECREASES, 2)),
        ([0, 2, 4], 5, (pointers.PTR_END, 2)),
        ([0, 6, 6], 5, (pointers.PTR_END, 1)),
        ([0, 2**64 - 1, 5], 5, (pointers.PTR_END, 1)),
        ([0], 5, (pointers.PTR_END, 0)),
    ],
)
def test_check_ptr(ptr: list[int], n: int, fault: tuple[int, int]) -> None:
    assert pointers.check_ptr(np.array(ptr, U8), n) == fault


def test_checks_across_blocks() -> None:
    n = 2 * keys.BLOCK + 10
    indices = np.arange(n, dtype=U8) % np.uint64(5)
    ptr = np.append(np.arange(0, n, 5), n).astype(U8)
    assert pointers.check_ptr(ptr, n) == (pointers.PTR_OK, -1)
    assert pointers.first_unsorted_in_slice(indices, ptr) == -1
    assert pointers.first_index_out_of_bounds(indices, 5) == -1
    for at in (keys.BLOCK, keys.BLOCK + 1, n - 1):
        if at % 5:
            broken = indices.copy()
            broken[at] = broken[at - 1]
            assert pointers.first_unsorted_in_slice(broken, ptr) == at
        broken = indices.copy()
        broken[at] = 2**63
        assert pointers.first_index_out_of_bounds(broken, 5) == at
    long = np.zeros(3 * keys.BLOCK, U8)
    long[2 * keys.BLOCK + 1 :] = 7
    long[2 * keys.BLOCK + 1] = 6
    assert pointers.check_ptr(long, 7) == (pointers.PTR_OK, -1)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40))
def test_first_unsorted_in_slice_with_empty_slices(counts: list[int]) -> None:
    ptr = pointers.counts_to_ptr(np.array(counts))
    assert ptr.tolist() == [0, *np.cumsum(counts).tolist()]
    indices = np.concatenate([np.arange(c) for c in counts]).astype(U8)
    assert pointers.first_unsorted_in_slice(indices, ptr) == -1
    for at in range(len(indices)):
        if indices[at]:
            broken = indices.copy()
            broken[at] = broken[at - 1]
            assert pointers.first_unsorted_in_slice(broken, ptr) == at


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30) | st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_spread(counts: list[int]) -> None:
    values = np.arange(len(counts), dtype=np.int64)[::-1] * 10
    ptr = pointers.counts_to_ptr(np.array(counts))
    assert pointers.spread(values, ptr).tolist() == np.repeat(values, counts).tolist()
    blocks = [part.copy() for _, part in pointers.spread_blocks(values.view(np.int64), ptr)]
    assert np.concatenate([values[:0].view(np.int64), *blocks]).tolist() == np.repeat(values, counts).tolist()


def test_spread_across_blocks() -> None:
    rng = np.random.default_rng(2)
    for high in (3, 2 * keys.BLOCK):
        counts = rng.integers(0, high, 40_000 if high == 3 else 5)
        values = rng.integers(0, 1 << 62, len(counts)).astype(U8)
        assert np.array_equal(pointers.spread(values, pointers.counts_to_ptr(counts)), np.repeat(values, counts))
        signed = -values.astype(np.int64)
        for entries, part in pointers.spread_blocks(signed, pointers.counts_to_ptr(counts)):
            assert np.array_equal(part, np.repeat(signed, counts)[entries])


@given(
    st.lists(st.integers(0, 12) | st.integers(0, 2**64 - 1), min_size=1, max_size=8),
    st.lists(st.integers(0, 6) | st.integers(0, 2**64 - 1), max_size=10),
)
def test_unchecked_pointers_stay_inside(ptr_list: list[int], index_list: list[int]) -> None:
    ptr, indices = np.array(ptr_list, U8), np.array(index_list, U8)
    n_slices = len(ptr) - 1
    sane = pointers.sane(ptr, len(indices))
    if n_slices:
        assert pointers.check_ptr(sane, len(indices))[0] == pointers.PTR_OK
        assert len(pointers.expand_ptr(ptr, len(indices))) == len(indices)
        majors = np.repeat(np.arange(n_slices), 7)
        minors = np.tile(np.arange(7, dtype=U8), n_slices)
        for at, minor in zip(pointers.find(ptr, indices, majors, minors).tolist(), minors.tolist(), strict=True):
            assert at == -1 or indices[at] == minor
    try:
        positions, _, _ = pointers.select(ptr, indices, range(n_slices), range(6))
    except ValueError:
        return
    assert all(0 <= p < len(indices) for p in positions.tolist())


def test_overlapping_slices_claim_no_memory() -> None:
    n = 2000
    ptr = np.tile(np.array([0, n], U8), 10_000)
    with pytest.raises(ValueError, match="overlap"):
        pointers.select(ptr, np.zeros(n, U8), range(len(ptr) - 1), range(5))
    positions, _, _ = pointers.select(np.array([0, 2], U8), np.array([0, 1], U8), np.zeros(5, np.int64), range(2))
    assert len(positions) == 10
