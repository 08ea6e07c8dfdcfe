from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hurray.kernels import coords, keys, ordering, searching

HUGE = (1 << 50, 1 << 50, 1 << 50)


@st.composite
def coordinate_lists(draw: st.DrawFn, *, unique: bool = False, rank: int | None = None) -> tuple[Any, tuple[int, ...]]:
    k = draw(st.integers(1, 4)) if rank is None else rank
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=k, max_size=k)))
    tuples = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in shape)), max_size=30, unique=unique))
    # Spread over huge extents the same tuples no longer fit one integer.
    if draw(st.booleans()):
        factor = draw(st.sampled_from([1, 1 << 20, (1 << 60) // 7]))
        shape = tuple((n - 1) * factor + 1 for n in shape)
        tuples = [tuple(c * factor for c in t) for t in tuples]
    return np.array(tuples, np.uint64).reshape(len(tuples), k), shape


def as_tuples(array: Any) -> list[tuple[int, ...]]:
    return [tuple(int(c) for c in row) for row in array]


@given(coordinate_lists(), st.randoms(use_true_random=False))
def test_sorting_follows_any_order_of_dimensions(case: Any, random: Any) -> None:
    array, shape = case
    order = list(range(len(shape)))
    random.shuffle(order)
    entries = ordering.sort_coords(array, shape, order)
    tuples = as_tuples(array)
    expected = sorted(range(len(tuples)), key=lambda k: [tuples[k][mode] for mode in order])
    perm = list(range(len(tuples))) if entries.perm is None else entries.perm.tolist()
    assert perm == expected
    for level, mode in enumerate(order):
        wanted = [tuples[k][mode] for k in expected]
        assert entries.column(level, 0, len(entries)).tolist() == wanted
        assert entries.column_at(level, np.arange(len(entries))).tolist() == wanted
    rises = entries.rises(0, len(entries))
    for level in range(len(order)):
        changed = [
            k == 0
            or [tuples[expected[k]][m] for m in order[: level + 1]]
            != [tuples[expected[k - 1]][m] for m in order[: level + 1]]
            for k in range(len(tuples))
        ]
        assert (rises >= entries.thresholds[level]).tolist() == changed
    if len(entries) > 2:
        assert entries.rises(1, len(entries)).tolist() == rises[1:].tolist()
    assert ordering.sort_order(array, shape, order) is None or perm != sorted(perm)


@given(coordinate_lists())
def test_order_duplicates_and_runs(case: Any) -> None:
    array, shape = case
    tuples = as_tuples(array)
    unsorted = [k for k, (a, b) in enumerate(pairwise(tuples), 1) if b <= a]
    assert coords.first_unsorted(array, shape) == (unsorted[0] if unsorted else -1)
    assert coords.is_strictly_sorted(array, shape) == (not unsorted)
    repeats = [k for k, t in enumerate(tuples) if t in tuples[:k]]
    assert ordering.first_duplicate(array, shape) == (repeats[0] if repeats else -1)
    entries = ordering.sort_coords(array, shape)
    starts = ordering.run_starts(entries)
    distinct = sorted(set(tuples))
    filled = np.empty(array.shape, np.uint64)
    ordering.fill_columns(entries, filled)
    assert as_tuples(filled) == sorted(tuples)
    assert as_tuples(filled[starts]) == distinct
    values = np.arange(1, len(tuples) + 1, dtype=np.int32)
    moved = values if entries.perm is None else values[entries.perm]
    last = dict(zip(tuples, values.tolist(), strict=True))
    total = {t: sum(v for u, v in zip(tuples, values.tolist(), strict=True) if u == t) for t in distinct}
    assert ordering.reduce_duplicates(starts, len(tuples), moved, "last").tolist() == [last[t] for t in distinct]
    summed = ordering.reduce_duplicates(starts, len(tuples), moved, "sum")
    assert summed.tolist() == [total[t] for t in distinct]
    assert summed.dtype == np.int32


def test_sums_stay_in_the_type_of_the_values() -> None:
    starts = np.array([0, 2])
    assert ordering.reduce_duplicates(starts, 3, np.array([200, 100, 1], np.uint8), "sum").tolist() == [44, 1]
    assert ordering.reduce_duplicates(starts, 3, np.array([True, True, False]), "sum").tolist() == [True, False]


@given(coordinate_lists(rank=3), st.permutations(range(3)))
def test_linear_keys_are_offsets(case: Any, order: list[int]) -> None:
    array, shape = case
    total = shape[0] * shape[1] * shape[2]
    found = coords.linear_keys(array, shape, order)
    if total >= 1 << 63:
        assert found is None
        return
    assert found is not None
    expected = []
    for t in as_tuples(array):
        offset = 0
        for mode in order:
            offset = offset * shape[mode] + t[mode]
        expected.append(offset)
    assert found.tolist() == expected
    plain = coords.linear_keys(array, shape)
    assert plain is not None
    assert as_tuples(coords.unravel(plain, shape)) == as_tuples(array)


def test_bounds_are_unsigned() -> None:
    array = np.array([[0, 1], [2, 2], [1, 2**64 - 1], [3, 0]], np.uint64)
    assert coords.first_out_of_bounds(array, (3, 3)) == 2
    assert coords.first_out_of_bounds(array[:2], (3, 3)) == -1
    assert coords.first_out_of_bounds(array, (2, 3)) == 1
    assert coords.first_out_of_bounds(array[:0], (0, 0)) == -1
    assert coords.first_out_of_bounds(array[:1], (0, 2)) == 0
    many = np.zeros((3 * keys.BLOCK, 2), np.uint64)
    many[keys.BLOCK + 5, 1] = 9
    many[keys.BLOCK + 7, 0] = 9
    assert coords.first_out_of_bounds(many, (9, 9)) == keys.BLOCK + 5


def test_order_and_bounds_across_blocks() -> None:
    n = 3 * keys.BLOCK
    array = coords.unravel(np.arange(n, dtype=np.uint64), (n // 4, 4))
    assert coords.is_strictly_sorted(array, (n // 4, 4))
    array[keys.BLOCK] = array[keys.BLOCK - 1]
    assert coords.first_unsorted(array, (n // 4, 4)) == keys.BLOCK
    assert ordering.first_duplicate(array, (n // 4, 4)) == keys.BLOCK
    wide = array.copy()
    assert coords.first_unsorted(wide, (1 << 40, 1 << 40)) == keys.BLOCK


def selectors(extent: int) -> st.SearchStrategy[Any]:
    ranges = st.builds(
        lambda a, b, s: range(extent)[slice(a, b, s)],
        st.integers(-extent, extent) | st.none(),
        st.integers(-extent, extent) | st.none(),
        st.sampled_from([-3, -2, -1, 1, 2, 3]),
    )
    arrays = st.lists(st.integers(0, extent - 1), max_size=8).map(lambda x: np.array(x, np.int64))
    return ranges | arrays


@given(coordinate_lists(), st.data())
def test_select_is_an_outer_product(case: Any, data: st.DataObject) -> None:
    array, shape = case
    if max(shape) > 6:
        return
    region = [data.draw(selectors(n)) for n in shape]
    positions, places = coords.select(array, region)
    expected = set()
    for k, t in enumerate(as_tuples(array)):
        grids = [[p for p, i in enumerate(list(axis)) if i == c] for axis, c in zip(region, t, strict=True)]
        for combination in np.ndindex(*(len(g) for g in grids)):
            expected.add((k, *(g[i] for g, i in zip(grids, combination, strict=True))))
    got = [(int(p), *map(int, where)) for p, where in zip(positions, places, strict=True)]
    assert len(got) == len(expected)
    assert set(got) == expected
    assert positions.tolist() == sorted(positions.tolist())


def test_select_ignores_coordinates_out_of_bounds() -> None:
    array = np.array([[2**64 - 1], [2**63], [5], [2**64 - 3]], np.uint64)
    for axis in (range(10), range(9, -1, -1), range(0, 10, 5), range(5, -1, -5), np.array([5, 1])):
        positions, _ = coords.select(array, [axis])
        assert positions.tolist() == [2]


@pytest.mark.parametrize("few", [0, 4096])
@given(case=coordinate_lists(unique=True), data=st.data())
def test_find(few: int, case: Any, data: st.DataObject) -> None:
    array, shape = case
    tuples = as_tuples(array)
    queries = data.draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in shape)), max_size=10))
    if tuples:
        queries += data.draw(st.lists(st.sampled_from(tuples), max_size=10))
    wanted = np.array(queries, np.uint64).reshape(len(queries), len(shape))
    expected = [tuples.index(q) if q in tuples else -1 for q in queries]
    before, searching._FEW = searching._FEW, few
    try:
        assert searching.find(array, shape, wanted, is_sorted=False).tolist() == expected
        ascending = np.array(sorted(tuples), np.uint64).reshape(array.shape)
        expected = [sorted(tuples).index(q) if q in tuples else -1 for q in queries]
        assert searching.find(ascending, shape, wanted, is_sorted=True).tolist() == expected
    finally:
        searching._FEW = before


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 5)), max_size=20),
    st.sampled_from([0, 4096]),
    st.booleans(),
)
def test_find_survives_hostile_coordinates(tuples: list[tuple[int, int]], few: int, is_sorted: bool) -> None:
    array = np.array(tuples, np.uint64).reshape(len(tuples), 2)
    shape = (4, 4)
    wanted = coords.unravel(np.arange(16, dtype=np.uint64), shape)
    before, searching._FEW = searching._FEW, few
    try:
        found = searching.find(array, shape, wanted, is_sorted=is_sorted)
    finally:
        searching._FEW = before
    for query, at in zip(as_tuples(wanted), found.tolist(), strict=True):
        assert at == -1 or tuples[at] == query
        if not is_sorted:
            assert (at == -1) == (query not in tuples)


def test_nonzero_offsets() -> None:
    words = np.zeros(keys.BLOCK * 2 + 3, np.uint16)
    where = [0, 5, keys.BLOCK - 1, keys.BLOCK, keys.BLOCK * 2 + 2]
    words[where] = 0x8000
    assert coords.nonzero_offsets(words).tolist() == where
    assert coords.nonzero_offsets(words[:0]).tolist() == []


def test_tuples_wider_than_a_key() -> None:
    array = np.array([[1 << 49, 0, 7], [0, 1 << 49, 7], [0, 0, 1 << 49], [0, 1 << 49, 7]], np.uint64)
    assert ordering.first_duplicate(array, HUGE) == 3
    order = ordering.sort_order(array, HUGE)
    assert order is not None
    assert order.tolist() == [2, 1, 3, 0]
    assert searching.find(array[:3], HUGE, array, is_sorted=False).tolist() == [0, 1, 2, 1]
