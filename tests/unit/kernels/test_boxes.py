"""Exact covers and box look-ups against a plain count of every cell."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hurray.kernels import boxes

Box = tuple[tuple[int, ...], tuple[int, ...]]


def arrays(found: list[Box], rank: int) -> tuple[Any, Any]:
    shape = (len(found), rank)
    return (
        np.array([b[0] for b in found], np.uint64).reshape(shape),
        np.array([b[1] for b in found], np.uint64).reshape(shape),
    )


def fault(found: list[Box], shape: tuple[int, ...]) -> boxes.CoverFault | None:
    return boxes.cover_fault(*arrays(found, len(shape)), shape)


def counts(found: list[Box], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    total = np.zeros(shape, np.int64)
    for offset, size in found:
        for place in itertools.product(*(range(low, low + n) for low, n in zip(offset, size, strict=True))):
            total[place] += 1
    return total


def tiling(shape: tuple[int, ...], n: int, rng: random.Random) -> list[Box]:
    """Cut a box in two at random until there are ``n``."""
    found: list[Box] = [((0,) * len(shape), shape)]
    for _ in range(50 * n):
        if len(found) >= n:
            break
        k = rng.randrange(len(found))
        offset, size = found[k]
        axis = rng.randrange(len(shape))
        if size[axis] < 2:
            continue
        cut = rng.randrange(1, size[axis])
        first = (*size[:axis], cut, *size[axis + 1 :])
        second = (*size[:axis], size[axis] - cut, *size[axis + 1 :])
        found[k] = (offset, first)
        found.append(((*offset[:axis], offset[axis] + cut, *offset[axis + 1 :]), second))
    rng.shuffle(found)
    return found


@st.composite
def spaces(draw: st.DrawFn) -> tuple[list[Box], tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    found = tiling(shape, draw(st.integers(1, 8)), random.Random(draw(st.integers(0, 10**6))))
    for _ in range(draw(st.integers(0, 2))):
        k = draw(st.integers(0, len(found) - 1))
        offset = tuple(draw(st.integers(0, n)) for n in shape)
        size = tuple(draw(st.integers(0, n - low)) for n, low in zip(shape, offset, strict=True))
        found[k] = (offset, size)
    return found, shape


def check_against_counts(found: list[Box], shape: tuple[int, ...], got: boxes.CoverFault | None) -> None:
    total = counts(found, shape)
    if got is None:
        assert (total == 1).all()
    elif got.kind == "gap":
        assert (total == 0).any()
        assert got.place is None or total[got.place] == 0
    else:
        i, j = got.boxes
        assert i < j
        assert got.place is not None
        for k in (i, j):
            offset, size = found[k]
            assert all(low <= p < low + n for p, low, n in zip(got.place, offset, size, strict=True))


@given(spaces())
def test_cover_equals_counting(case: tuple[list[Box], tuple[int, ...]]) -> None:
    found, shape = case
    check_against_counts(found, shape, fault(found, shape))


@given(spaces())
def test_cover_pair_by_pair_equals_counting(case: tuple[list[Box], tuple[int, ...]]) -> None:
    found, shape = case
    offsets, sizes = arrays(found, len(shape))
    keep = np.flatnonzero((sizes != 0).all(axis=1))
    got = boxes._fault_by_pairs(offsets[keep], offsets[keep] + sizes[keep], keep, shape)
    check_against_counts(found, shape, got)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 6])
def test_irregular_tilings_are_split(rank: int) -> None:
    rng = random.Random(rank)
    shape = (10**6,) * rank if rank < 4 else (2**15,) * rank
    found = tiling(shape, 3000, rng)
    assert fault(found, shape) is None
    gap = fault(found[:-1], shape)
    assert gap is not None
    assert gap.kind == "gap"
    offset, size = found[-1]
    assert gap.place is not None
    assert all(low <= p < low + n for p, low, n in zip(gap.place, offset, size, strict=True))
    twice = fault([*found, found[7]], shape)
    assert twice is not None
    assert (twice.kind, twice.boxes) == ("overlap", (7, 3000))


def test_ten_thousand_boxes_of_a_regular_grid() -> None:
    found = boxes.grid_boxes((1000, 1000), (100, 100))
    assert len(found) == 10_000
    assert fault(found, (1000, 1000)) is None
    swapped = [*found[:-1], found[0]]
    got = fault(swapped, (1000, 1000))
    assert got is not None
    assert (got.kind, got.boxes) == ("overlap", (0, 9999))


def test_strips_both_ways() -> None:
    # Every strip shares an index with most others in each single dimension, which ruins a plain sweep.
    n = 2000
    found: list[Box] = [((i, 0), (1, n)) for i in range(n)]
    found += [((0, n + j), (n, 1)) for j in range(n)]
    assert fault(found, (n, 2 * n)) is None
    assert fault(found[1:], (n, 2 * n)) == boxes.CoverFault("gap", (), (0, 0))


def test_sizes_near_the_end_of_64_bits() -> None:
    whole = 2**64 - 2
    assert fault(boxes.grid_boxes((whole,), (1000,)), (whole,)) is None
    assert fault([((0,), (whole - 1,))], (whole,)) == boxes.CoverFault("gap", (), (whole - 1,))


def test_scalars_and_empty_spaces() -> None:
    assert fault([((), ())], ()) is None
    assert fault([], ()) == boxes.CoverFault("gap", (), ())
    assert fault([((), ()), ((), ())], ()) == boxes.CoverFault("overlap", (0, 1), ())
    assert fault([], (3, 0)) is None
    assert fault([((1, 0), (2, 0))], (3, 0)) is None
    assert fault([((0,), (3,)), ((1,), (0,))], (3,)) is None
    assert fault([((1,), (0,))], (3,)) == boxes.CoverFault("gap", (), (0,))


@given(spaces(), st.data())
def test_meeting_equals_testing_each(case: tuple[list[Box], tuple[int, ...]], data: st.DataObject) -> None:
    found, shape = case
    low = [data.draw(st.integers(0, n - 1)) for n in shape]
    high = [data.draw(st.integers(start + 1, n)) for start, n in zip(low, shape, strict=True)]
    bounds = tuple(zip(low, high, strict=True))
    want = [
        k
        for k, (offset, size) in enumerate(found)
        if all(max(o, a) < min(o + n, b) for o, n, (a, b) in zip(offset, size, bounds, strict=True))
    ]
    assert boxes.meeting(*arrays(found, len(shape)), bounds).tolist() == want


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=0, max_size=3))
def test_grid_boxes_tile_and_differ_by_one(axes: list[tuple[int, int]]) -> None:
    shape, grid = tuple(a[0] for a in axes), tuple(a[1] for a in axes)
    found = boxes.grid_boxes(shape, grid)
    assert len(found) == int(np.prod(grid, initial=1))
    assert fault(found, shape) is None
    for k in range(len(shape)):
        sizes = {size[k] for _, size in found}
        assert max(sizes) - min(sizes) <= 1


def test_grid_needs_a_count_for_each_dimension() -> None:
    with pytest.raises(ValueError, match="positive count"):
        boxes.grid_boxes((3, 3), (2,))
    with pytest.raises(ValueError, match="positive count"):
        boxes.grid_boxes((3,), (0,))
