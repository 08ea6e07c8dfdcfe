from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hurray.kernels import coords, fibers, keys, pointers

U8 = np.uint64


@st.composite
def tensors(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...]], tuple[int, ...]]:
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank)))
    cells = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in shape)), unique=True, max_size=40))
    return shape, cells, tuple(draw(st.permutations(range(rank))))


def naive_tree(cells: list[tuple[int, ...]], order: tuple[int, ...]) -> tuple[list[list[int]], list[list[int]]]:
    paths = sorted(tuple(c[mode] for mode in order) for c in cells)
    pos, crd = [], []
    above: list[tuple[int, ...]] = [()]
    for level in range(len(order)):
        nodes = sorted({p[: level + 1] for p in paths})
        starts = [0]
        for parent in above:
            starts.append(starts[-1] + sum(node[:-1] == parent for node in nodes))
        pos.append(starts)
        crd.append([node[-1] for node in nodes])
        above = nodes
    return pos, crd


def make(pos: list[list[int]], crd: list[list[int]]) -> fibers.Tree:
    return fibers.Tree(tuple(np.array(p, U8) for p in pos), tuple(np.array(c, U8) for c in crd))


def lists(tree: fibers.Tree) -> tuple[list[list[int]], list[list[int]]]:
    return [p.tolist() for p in tree.pos], [c.tolist() for c in tree.crd]


@given(tensors(), st.booleans())
def test_build_expand_and_check(case: Any, presorted: bool) -> None:
    shape, cells, order = case
    if presorted:
        cells = sorted(cells, key=lambda c: [c[m] for m in order])
    array = np.array(cells, U8).reshape(len(cells), len(shape))
    tree, perm, repeat = fibers.build_coords(array, shape, order)
    assert repeat == -1
    assert lists(tree) == naive_tree(cells, order)
    moved = array if perm is None else array[perm]
    assert moved.tolist() == sorted(array.tolist(), key=lambda c: [c[m] for m in order])
    assert fibers.expand(tree, order).tolist() == moved.tolist()
    assert fibers.check(tree, [shape[m] for m in order], len(cells)) is None
    strides = [0] * len(shape)
    step = 1
    for mode in reversed(range(len(shape))):
        strides[mode], step = step, step * shape[mode]
    linear = coords.linear_keys(moved, shape)
    assert linear is not None
    offsets = np.full(len(cells), -1)
    for entries, block in fibers.offset_blocks(tree, [strides[m] for m in order]):
        offsets[entries] = block
    assert offsets.tolist() == linear.tolist()
    ready = fibers.build_in_order(array, shape, order)
    assert (ready is None) == (perm is not None)
    assert ready is None or lists(ready) == lists(tree)


def test_an_empty_tree() -> None:
    tree, _, _ = fibers.build_coords(np.empty((0, 3), U8), (2, 3, 4), (2, 0, 1))
    assert lists(tree) == ([[0, 0], [0], [0]], [[], [], []])
    assert fibers.expand(tree, (2, 0, 1)).shape == (0, 3)
    assert fibers.find(tree, np.zeros((2, 3), U8), (2, 0, 1)).tolist() == [-1, -1]


def test_nothing_in_order_is_taken_on_trust() -> None:
    for bad in ([[0, 0, 4]], [[2, 0, 0]], [[0, 2**64 - 1, 0]], [[1, 1, 1], [1, 1, 1]], [[1, 1, 1], [0, 1, 1]]):
        assert fibers.build_in_order(np.array(bad, U8), (2, 3, 4), (0, 1, 2)) is None


def test_levels_wider_than_a_key() -> None:
    rng = np.random.default_rng(1)
    shape = (1 << 40,) * 3
    array = np.unique(rng.integers(0, 1 << 40, (50, 3)).astype(U8), axis=0)
    array[10, :2] = array[9, :2]
    array = np.unique(array, axis=0)
    shuffled = array[rng.permutation(len(array))]
    tree, perm, repeat = fibers.build_coords(shuffled, shape, (0, 1, 2))
    assert repeat == -1
    assert perm is not None
    assert fibers.expand(tree, (0, 1, 2)).tolist() == array.tolist()
    assert lists(tree) == naive_tree([tuple(c) for c in array.tolist()], (0, 1, 2))


def test_many_entries_across_blocks() -> None:
    rng = np.random.default_rng(4)
    shape = (30, 50, 400)
    linear = np.unique(rng.integers(0, 30 * 50 * 400, 3 * keys.BLOCK)).astype(U8)
    array = coords.unravel(linear, shape)
    tree, perm, _ = fibers.build_coords(array, shape, (0, 1, 2))
    assert perm is None
    ready = fibers.build_in_order(array, shape, (0, 1, 2))
    assert ready is not None
    assert all(np.array_equal(a, b) for a, b in zip(ready.pos + ready.crd, tree.pos + tree.crd, strict=True))
    rows = array[:, 0] * np.uint64(50) + array[:, 1]
    assert np.array_equal(tree.crd[1], np.unique(rows) % np.uint64(50))
    assert np.array_equal(tree.pos[2], np.append(np.unique(rows, return_index=True)[1], len(rows)))
    assert np.array_equal(fibers.expand(tree, (0, 1, 2)), array)
    order = rng.permutation(len(array))
    again, perm, _ = fibers.build_coords(array[order], shape, (0, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(again.pos + again.crd, tree.pos + tree.crd, strict=True))
    assert np.array_equal(array[order][perm], array)
    late = array.copy()
    late[-1] = late[0]
    assert fibers.build_coords(late, shape, (0, 1, 2))[2] == len(late) - 1


@given(tensors(), st.data())
def test_find(case: Any, data: st.DataObject) -> None:
    shape, cells, order = case
    tree = make(*naive_tree(cells, order))
    ordered = sorted(cells, key=lambda c: [c[m] for m in order])
    queries = data.draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in shape)), max_size=30))
    wanted = np.array(queries, U8).reshape(len(queries), len(shape))
    found = fibers.find(tree, wanted, order)
    assert found.tolist() == [ordered.index(q) if q in ordered else -1 for q in queries]


@given(tensors(), st.data())
def test_select(case: Any, data: st.DataObject) -> None:
    shape, cells, order = case
    tree = make(*naive_tree(cells, order))
    region: list[Any] = []
    for n in shape:
        ranges = st.builds(
            lambda a, b, s, n=n: range(n)[slice(a, b, s)],
            st.integers(0, n),
            st.integers(0, n),
            st.sampled_from([-2, -1, 1, 2]),
        )
        arrays = st.lists(st.integers(0, n - 1), max_size=6).map(lambda x: np.array(x, np.int64))
        region.append(data.draw(ranges | arrays))
    positions, places = fibers.select(tree, [region[m] for m in order])
    expected = set()
    for k, cell in enumerate(sorted(cells, key=lambda c: [c[m] for m in order])):
        grids = [[p for p, i in enumerate(list(region[m])) if i == cell[m]] for m in order]
        for combination in np.ndindex(*(len(g) for g in grids)):
            expected.add((k, *(g[i] for g, i in zip(grids, combination, strict=True))))
    got = list(zip(positions.tolist(), *(p.tolist() for p in places), strict=True))
    assert len(got) == len(expected)
    assert set(got) == expected


POS = [[0, 2], [0, 2, 3], [0, 1, 2, 4]]
CRD = [[0, 1], [0, 2, 1], [1, 3, 0, 2]]


@pytest.mark.parametrize(
    ("kind", "level", "at", "value", "fault"),
    [
        ("pos", 0, 0, 1, (fibers.PTR_START, 0, 0)),
        ("pos", 0, 1, 1, (fibers.PTR_END, 0, 1)),
        ("pos", 1, 0, 1, (fibers.PTR_START, 1, 0)),
        ("pos", 1, 1, 4, (fibers.PTR_END, 1, 1)),
        ("pos", 2, 2, 0, (fibers.PTR_DECREASES, 2, 2)),
        ("pos", 2, 3, 3, (fibers.PTR_END, 2, 3)),
        ("crd", 0, 1, 0, (fibers.CRD_ORDER, 0, 1)),
        ("crd", 0, 1, 2, (fibers.CRD_BOUNDS, 0, 1)),
        ("crd", 1, 1, 2**63, (fibers.CRD_BOUNDS, 1, 1)),
        ("crd", 2, 3, 0, (fibers.CRD_ORDER, 2, 3)),
    ],
)
def test_check(kind: str, level: int, at: int, value: int, fault: tuple[int, int, int]) -> None:
    tree = make(POS, CRD)
    assert fibers.check(tree, (2, 3, 4), 4) is None
    (tree.pos if kind == "pos" else tree.crd)[level][at] = value
    assert fibers.check(tree, (2, 3, 4), 4) == fault


@given(st.data())
def test_trees_never_checked_stay_inside(data: st.DataObject) -> None:
    number = st.integers(0, 5) | st.integers(0, 2**64 - 1)
    counts = [1, *(data.draw(st.integers(1, 5)) for _ in range(3))]
    pos = [data.draw(st.lists(number, min_size=counts[k] + 1, max_size=counts[k] + 1)) for k in range(3)]
    crd = [data.draw(st.lists(number, min_size=counts[k + 1], max_size=counts[k + 1])) for k in range(3)]
    tree = make(pos, crd)
    queries = coords.unravel(np.arange(64, dtype=U8), (4, 4, 4))
    found = fibers.find(tree, queries, (2, 0, 1))
    assert all(-1 <= f < counts[3] for f in found.tolist())
    try:
        positions, _ = fibers.select(tree, [range(4)] * 3)
        assert all(0 <= p < counts[3] for p in positions.tolist())
    except ValueError:
        pass
    sane = fibers.Tree(tuple(pointers.sane(p, len(c)) for p, c in zip(tree.pos, tree.crd, strict=True)), tree.crd)
    assert fibers.expand(sane, (2, 0, 1)).shape == (counts[3], 3)
