"""Compressed sparse fibers: a tree of coordinates, one level for each dimension.

Level L has `n[L]` nodes with coordinates `crd[L]`; the children of node i of level L - 1 are the nodes
`pos[L][i]:pos[L][i + 1]` of level L, and level -1 is a single root. A level is therefore a compressed-slice structure
like that of `pointers`, and the tree is built, checked and searched level by level, whole levels at a time.

Format: layouts, csf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .coords import Selector, locate
from .keys import BLOCK, I64, U64
from .ordering import SortedCoords, first_repeat, sort_coords
from .pointers import (
    PTR_DECREASES,
    PTR_END,
    PTR_OK,
    PTR_START,
    bisect_slices,
    check_ptr,
    first_index_out_of_bounds,
    first_unsorted_in_slice,
    gather_slices,
    slice_bounds,
    spread,
    spread_blocks,
    spread_columns,
    take_entries,
)

CRD_BOUNDS: Final = 4
CRD_ORDER: Final = 5


class Tree(NamedTuple):
    """Hold the levels of a tree, root level first.

    Attributes
    ----------
    pos
        uint64 per level: `n[L - 1] + 1` entries.
    crd
        uint64 per level: `n[L]` entries.
    """

    pos: tuple[U64, ...]
    crd: tuple[U64, ...]


class Fault(NamedTuple):
    """Name a broken invariant: one of the `PTR_` or `CRD_` codes, the level and the entry of its pos or crd."""

    code: int
    level: int
    position: int


class _Growth:
    """Collect the nodes of a tree while its leaves come by in blocks."""

    def __init__(self, n_leaves: int, thresholds: Sequence[np.unsignedinteger]) -> None:
        rank = len(thresholds)
        self.thresholds = thresholds
        self.leaves = np.empty(n_leaves, np.uint64)
        self.pos: list[list[U64]] = [[] for _ in range(rank)]
        self.crd: list[list[U64]] = [[] for _ in range(rank - 1)]
        self.n_nodes = [0] * rank

    def add(self, rises: npt.NDArray[np.unsignedinteger], column_at: Callable[[int, I64], U64]) -> None:
        """Take in a block of leaves; `column_at` gives coordinates of a level at places in the block."""
        at: I64 | None = None
        # From the leaves upwards: the nodes of a level that begin a node of the level above are first children.
        for level in range(len(self.thresholds) - 1, 0, -1):
            firsts = np.flatnonzero(rises >= self.thresholds[level - 1])
            self.pos[level].append((firsts + self.n_nodes[level]).view(np.uint64))
            self.n_nodes[level] += len(rises)
            rises = rises.take(firsts, mode="clip")
            at = firsts if at is None else at.take(firsts, mode="clip")
            self.crd[level - 1].append(column_at(level - 1, at))
        self.n_nodes[0] += len(rises)

    def tree(self) -> Tree:
        """Return what has grown."""
        self.pos[0].append(np.zeros(1, np.uint64))
        for parts, n_nodes in zip(self.pos, self.n_nodes, strict=True):
            parts.append(np.array([n_nodes], np.uint64))
        nothing = [np.empty(0, np.uint64)]
        crd = tuple(np.concatenate(parts or nothing) for parts in self.crd)
        return Tree(tuple(np.concatenate(parts) for parts in self.pos), (*crd, self.leaves))


def build(entries: SortedCoords) -> Tree:
    """Build the tree of coordinates in lexicographic order of its levels.

    Parameters
    ----------
    entries
        Sorted coordinates, one level for each of the tree; a repeated one gets a leaf of its own.
    """
    growth = _Growth(len(entries), entries.thresholds)
    last = len(entries.thresholds) - 1
    for start in range(0, len(entries), BLOCK):
        stop = min(start + BLOCK, len(entries))
        growth.leaves[start:stop] = entries.column(last, start, stop)
        growth.add(entries.rises(start, stop), partial(_column_behind, entries, start))
    return growth.tree()


def _column_behind(entries: SortedCoords, start: int, level: int, at: I64) -> U64:
    return entries.column_at(level, at + start)


def build_coords(coords: U64, shape: Sequence[int], order: Sequence[int]) -> tuple[Tree, I64 | None, int]:
    """Build the tree of coordinates in any order.

    Parameters
    ----------
    coords
        uint64, shape (n, rank), within `shape`, rank at least 1.
    shape
        Extent of each dimension.
    order
        The dimension of each level.

    Returns
    -------
    tuple
        The tree, the permutation of the entries (None: unchanged) and the original position of the first repeated
        coordinate (-1: none), which gets a leaf of its own.
    """
    entries = sort_coords(coords, shape, order)
    return build(entries), entries.perm, first_repeat(entries)


def build_in_order(coords: U64, shape: Sequence[int], order: Sequence[int]) -> Tree | None:
    """Build the tree of coordinates that ascend and lie within `shape`, or return None where they do not.

    The arguments are those of `build_coords`, but nothing is taken on trust.
    """
    # Everything in one pass over blocks in the cache, given up at the first tuple out of order.
    last = len(order) - 1
    growth = _Growth(len(coords), [np.uint8(last - level) for level in range(last + 1)])
    # One entry more than a block: the last one of the block before comes along.
    columns = [np.empty(min(len(coords), BLOCK) + 1, np.uint64) for _ in order]
    for start in range(0, len(coords), BLOCK):
        block = coords[start : start + BLOCK]
        parts = [column[: len(block) + 1] for column in columns]
        for part, mode in zip(parts, order, strict=True):
            part[1:] = block[:, mode]
        rises = _rises_in_order(parts, is_first=start == 0)
        if rises is None or any(not int(part[1:].max()) < shape[mode] for part, mode in zip(parts, order, strict=True)):
            return None
        growth.leaves[start : start + BLOCK] = parts[last][1:]
        growth.add(rises, partial(_column_of, parts))
        for column in columns:
            column[0] = column[len(block)]
    return growth.tree()


def _rises_in_order(columns: Sequence[U64], *, is_first: bool) -> npt.NDArray[np.uint8] | None:
    """Return for each tuple but the first in how many levels, the last not counted, its node is a new one.

    None where the tuples do not ascend.  ``is_first`` says that the second tuple is the first of all, and the one
    before it nothing.
    """
    rises = np.zeros(len(columns[0]) - 1, np.uint8)
    new = same = np.empty(0, np.bool_)
    for level, column in enumerate(columns):
        here, before = column[1:], column[:-1]
        above = here > before
        if level:
            # New where it was new already, and where only equals came before.
            above &= same
            above |= new
        elif is_first:
            above[:1] = True
        new = above
        if level < len(columns) - 1:
            rises += new
            equal = here == before
            if level:
                equal &= same
            elif is_first:
                equal[:1] = False
            same = equal
    return rises if new.all() else None


def _column_of(columns: Sequence[U64], level: int, at: I64) -> U64:
    return columns[level][1:].take(at, mode="clip")


def check(tree: Tree, extents: Sequence[int], nnz: int) -> Fault | None:
    """Return the first broken invariant, level by level, pos before crd; None for a sound tree.

    Parameters
    ----------
    tree
        Levels as cut out by the counts in their own pos arrays.
    extents
        Extent of the dimension of each level.
    nnz
        Number of leaves promised.
    """
    for level, (pos, crd, extent) in enumerate(zip(tree.pos, tree.crd, extents, strict=True)):
        n_nodes = nnz if level == len(extents) - 1 else len(crd)
        code, at = check_ptr(pos, n_nodes)
        if code != PTR_OK:
            return Fault(code, level, at)
        at = first_index_out_of_bounds(crd, extent)
        if at >= 0:
            return Fault(CRD_BOUNDS, level, at)
        at = first_unsorted_in_slice(crd, pos)
        if at >= 0:
            return Fault(CRD_ORDER, level, at)
    return None


def expand(tree: Tree, order: Sequence[int]) -> U64:
    """Return the coordinates of all leaves, in leaf order.

    Parameters
    ----------
    tree
        A tree whose pos arrays are partitions (`pointers.sane`).
    order
        The dimension of each level.

    Returns
    -------
    ndarray
        uint64, shape (n, rank), columns in dimension order.
    """
    coords = np.empty((len(tree.crd[-1]), len(order)), np.uint64)
    coords[:, order[-1]] = tree.crd[-1]
    columns: list[U64] = []
    for pos, crd in zip(tree.pos[:-1], tree.crd[:-1], strict=True):
        above = columns
        columns = [np.empty(len(crd), np.uint64) for _ in above]
        spread_columns(above, pos, columns)
        columns.append(crd)
    if columns:
        spread_columns(columns, tree.pos[-1], [coords[:, mode] for mode in order[:-1]])
    return coords


def offset_blocks(tree: Tree, strides: Sequence[int]) -> Iterator[tuple[slice, I64]]:
    """Yield the sum of coordinate times stride of the leaves, a block at a time; the caller keeps it below 2**63.

    Parameters
    ----------
    tree
        A tree whose pos arrays are partitions (`pointers.sane`).
    strides
        One for each level.
    """
    parents = np.zeros(1, np.int64)
    for pos, crd, stride in zip(tree.pos[:-1], tree.crd[:-1], strides, strict=False):
        parents = spread(parents, pos)
        parents += crd.view(np.int64) * stride
    leaves = tree.crd[-1].view(np.int64)
    for entries, offsets in spread_blocks(parents, tree.pos[-1]):
        offsets += leaves[entries] if strides[-1] == 1 else leaves[entries] * strides[-1]
        yield entries, offsets


def find(tree: Tree, queries: U64, order: Sequence[int]) -> I64:
    """Return the leaf of each queried coordinate tuple, or -1.

    Parameters
    ----------
    tree
        Any tree, sound or not.
    queries
        uint64, shape (m, rank), columns in dimension order.
    order
        The dimension of each level.
    """
    found = np.full(len(queries), -1, np.int64)
    alive: I64 | None = None
    nodes = np.zeros(len(queries), np.int64)
    for pos, crd, mode in zip(tree.pos, tree.crd, order, strict=True):
        wanted = queries[:, mode] if alive is None else queries[:, mode].take(alive, mode="clip")
        low, count = slice_bounds(pos, nodes, len(crd))
        nodes = bisect_slices(crd, low, count, np.ascontiguousarray(wanted))
        hit = np.flatnonzero(nodes >= 0)
        if len(hit) < len(nodes):
            nodes = nodes[hit]
            alive = hit if alive is None else alive[hit]
    if alive is None:
        return nodes
    found[alive] = nodes
    return found


def select(tree: Tree, region: Sequence[Selector]) -> tuple[I64, list[I64]]:
    """Return the leaves inside an outer-product region, descending only into nodes that are in it.

    Parameters
    ----------
    tree
        Any tree, sound or not.
    region
        Per level (not dimension) a `range` or an int64 index array, as for `coords.select`.

    Raises
    ------
    ValueError
        If slices of a tree that was never checked overlap.

    Returns
    -------
    tuple
        int64: positions of the leaves, and per level their places in the selection.
    """
    nodes = np.zeros(1, np.int64)
    places: list[I64] = []
    for pos, crd, chosen in zip(tree.pos, tree.crd, region, strict=True):
        children, parent = gather_slices(pos, nodes, len(crd))
        which, place = locate(take_entries(crd, children), chosen)
        if isinstance(children, slice):
            children = np.arange(children.start, children.stop)
        nodes, parent = children[which], parent[which]
        places = [column.take(parent) for column in places]
        places.append(place)
    return nodes, places


__all__ = [
    "CRD_BOUNDS",
    "CRD_ORDER",
    "PTR_DECREASES",
    "PTR_END",
    "PTR_START",
    "Fault",
    "Tree",
    "build",
    "build_coords",
    "build_in_order",
    "check",
    "expand",
    "find",
    "offset_blocks",
    "select",
]
