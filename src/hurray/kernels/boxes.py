"""Boxes in an index space: whether they tile it exactly, and which of them meet a region.

The idea.  Give every box its place on the *compressed grid*, whose lines in a dimension are the distinct ends of the
boxes there.  On that grid a box is a whole block of cells, so listing the cells of all boxes shows any cell named twice
(an overlap) or never (a gap).  A regular tiling has as many cells as boxes, whatever its rank.

An irregular one may have far more cells than boxes.  It is then cut in two at a box end near the middle, boxes that
straddle the cut are cut too, and both halves are looked at alone, until the grid of a piece is small.  Each half has
fewer grid lines, so this ends; as nearly every tiling splits well, it stays close to n log n.  A set of boxes made to
be cut into ever more fragments exhausts a budget and is compared pair by pair instead, sorted along its best dimension.

Offsets and sizes are uint64: a box inside its space ends at most at 2**64 - 2, so no sum wraps.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CoverFault", "cover_fault", "grid_boxes", "meeting"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

#: boxes compared at once when they are compared pair by pair
_PAIRS = 1 << 20


class CoverFault(NamedTuple):
    """Why boxes do not tile a space.

    ``boxes`` holds the two members of an overlap and is empty for a gap; ``place`` is an index that both cover, or that
    none covers (None where only the volumes tell).
    """

    kind: Literal["overlap", "gap"]
    boxes: tuple[int, ...]
    place: tuple[int, ...] | None


class _Piece(NamedTuple):
    low: U64
    high: U64
    starts: U64
    stops: U64
    owners: I64


def cover_fault(offsets: U64, sizes: U64, shape: tuple[int, ...]) -> CoverFault | None:
    """Return why boxes do not tile ``shape`` exactly, or None when they do.

    Parameters
    ----------
    offsets, sizes : ndarray of uint64, shape (n, rank)
        The boxes; each lies inside ``shape``.  Boxes without elements cover nothing.
    shape : tuple of int
        The index space.

    Format: composite, partition.
    """
    owners = np.flatnonzero((sizes != 0).all(axis=1)).astype(np.int64)
    starts = offsets[owners]
    stops = starts + sizes[owners]
    if 0 in shape:
        return None
    if len(owners) == 0:
        return CoverFault("gap", (), (0,) * len(shape))
    low = np.zeros(len(shape), np.uint64)
    high = np.array(shape, np.uint64)
    stack = [_Piece(low, high, starts, stops, owners)]
    budget = 64 * len(owners) + (1 << 16)
    while stack:
        piece = stack.pop()
        budget -= len(piece.owners)
        if budget < 0:
            return _fault_by_pairs(starts, stops, owners, shape)
        if len(piece.owners) == 0:
            return CoverFault("gap", (), _index(piece.low))
        lines = _grid_lines(piece)
        cells = 1
        for axis in lines:
            cells *= len(axis) - 1
        if cells <= 4 * len(piece.owners) + 1024:
            fault = _fault_on_grid(piece, lines, cells)
            if fault is not None:
                return fault
        else:
            stack.extend(_split(piece, lines))
    return None


def _grid_lines(piece: _Piece) -> list[U64]:
    """Return the distinct box ends in each dimension, the piece's own ends included."""
    return [
        np.unique(np.concatenate([piece.starts[:, k], piece.stops[:, k], piece.low[k : k + 1], piece.high[k : k + 1]]))
        for k in range(len(piece.low))
    ]


def _fault_on_grid(piece: _Piece, lines: list[U64], cells: int) -> CoverFault | None:
    """Look for a cell of the compressed grid that is covered twice or not at all."""
    first = [np.searchsorted(axis, piece.starts[:, k]) for k, axis in enumerate(lines)]
    widths = [np.searchsorted(axis, piece.stops[:, k]) - first[k] for k, axis in enumerate(lines)]
    covered = np.ones(len(piece.owners), np.float64)
    for width in widths:
        covered *= width
    # More cells than there are means an overlap; two copies of the grid are enough to show it.
    listed = len(piece.owners)
    if covered.sum() > cells:
        listed = int(np.searchsorted(np.cumsum(covered), float(cells), side="right")) + 1
    ids, who = _cells(listed, lines, [f[:listed] for f in first], [w[:listed] for w in widths])
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    twice = np.flatnonzero(ids[1:] == ids[:-1])
    if len(twice):
        at = int(twice[0])
        pair = sorted(int(piece.owners[who[order[p]]]) for p in (at, at + 1))
        return CoverFault("overlap", tuple(pair), _cell_index(int(ids[at]), lines))
    if len(ids) < cells:
        missing = np.flatnonzero(ids != np.arange(len(ids)))
        return CoverFault("gap", (), _cell_index(int(missing[0]) if len(missing) else len(ids), lines))
    return None


def _cells(n_boxes: int, lines: list[U64], first: list[I64], widths: list[I64]) -> tuple[I64, I64]:
    """List the cells of every box: their row-major numbers on the grid, and the box of each."""
    who = np.arange(n_boxes, dtype=np.int64)
    ids = np.zeros(len(who), np.int64)
    for axis, low, width in zip(lines, first, widths, strict=True):
        count = width[who]
        ids = np.repeat(ids * (len(axis) - 1) + low[who], count)
        # position of each repetition within its own run
        run = np.arange(len(ids)) - np.repeat(np.cumsum(count) - count, count)
        ids += run
        who = np.repeat(who, count)
    return ids, who


def _split(piece: _Piece, lines: list[U64]) -> list[_Piece]:
    """Cut a piece at a grid line, in the dimension that leaves the smaller larger half."""
    best: tuple[int, int, np.uint64] | None = None
    for k, axis in enumerate(lines):
        if len(axis) < 3:
            continue
        starts, stops = piece.starts[:, k], piece.stops[:, k]
        inner = np.sort(starts[starts > axis[0]])
        cut = inner[len(inner) // 2] if len(inner) else axis[1]
        worst = max(int((starts < cut).sum()), int((stops > cut).sum()))
        if best is None or worst < best[0]:
            best = (worst, k, cut)
    assert best is not None  # more than one cell, so some dimension has an inner line
    _, k, cut = best
    left = piece.starts[:, k] < cut
    right = piece.stops[:, k] > cut
    high, low = piece.high.copy(), piece.low.copy()
    high[k] = low[k] = cut
    stops, starts = piece.stops[left], piece.starts[right]
    stops[:, k] = np.minimum(stops[:, k], cut)
    starts[:, k] = np.maximum(starts[:, k], cut)
    return [
        _Piece(piece.low, high, piece.starts[left], stops, piece.owners[left]),
        _Piece(low, piece.high, starts, piece.stops[right], piece.owners[right]),
    ]


def _fault_by_pairs(starts: U64, stops: U64, owners: I64, shape: tuple[int, ...]) -> CoverFault | None:
    """Compare boxes pair by pair along the dimension in which the fewest of them share an index."""
    best: tuple[int, int] | None = None
    for k in range(len(shape)):
        pairs = int(np.searchsorted(np.sort(starts[:, k]), stops[:, k]).sum())
        if best is None or pairs < best[0]:
            best = (pairs, k)
    axis = best[1] if best is not None else 0
    order = np.argsort(starts[:, axis], kind="stable")
    starts, stops, owners = starts[order], stops[order], owners[order]
    last = np.searchsorted(starts[:, axis], stops[:, axis])
    n = len(owners)
    at = 0
    while at < n:
        rows = min(n - at, max(1, _PAIRS // n))
        end = int(last[at : at + rows].max())
        meet = np.ones((rows, end - at), np.bool_)
        for k in range(len(shape)):
            meet &= starts[at : at + rows, k, None] < stops[None, at:end, k]
            meet &= stops[at : at + rows, k, None] > starts[None, at:end, k]
        meet &= np.arange(rows)[:, None] < np.arange(end - at)[None, :]
        if meet.any():
            row, column = (int(v[0]) for v in np.nonzero(meet))
            i, j = at + row, at + column
            pair = sorted((int(owners[i]), int(owners[j])))
            return CoverFault("overlap", tuple(pair), _index(np.maximum(starts[i], starts[j])))
        at += rows
    if _volume(starts, stops) != _product(shape):
        return CoverFault("gap", (), None)
    return None


def _volume(starts: U64, stops: U64) -> int:
    return sum(_product(row) for row in (stops - starts).tolist())


def _product(numbers: list[int] | tuple[int, ...]) -> int:
    result = 1
    for n in numbers:
        result *= n
    return result


def _index(corner: U64) -> tuple[int, ...]:
    return tuple(int(v) for v in corner)


def _cell_index(cell: int, lines: list[U64]) -> tuple[int, ...]:
    place = []
    for axis in reversed(lines):
        cell, step = divmod(cell, len(axis) - 1)
        place.append(int(axis[step]))
    return tuple(reversed(place))


def meeting(offsets: U64, sizes: U64, bounds: tuple[tuple[int, int], ...]) -> I64:
    """Return which boxes share an index with the box of ``bounds``, ascending.

    Parameters
    ----------
    offsets, sizes : ndarray of uint64, shape (n, rank)
        The boxes.
    bounds : tuple of (int, int)
        First index and one more than the last, for each dimension.
    """
    keep = np.ones(len(offsets), np.bool_)
    for k, (low, high) in enumerate(bounds):
        start = offsets[:, k]
        keep &= (start < np.uint64(high)) & (start + sizes[:, k] > np.uint64(low))
        keep &= sizes[:, k] != 0
        if high <= low:
            keep[:] = False
    return np.flatnonzero(keep).astype(np.int64)


def grid_boxes(shape: tuple[int, ...], grid: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cut a space into a grid of boxes whose sizes differ by at most one in each dimension.

    Returns
    -------
    list of (offset, size)
        In row-major order of the grid; the first ``n % parts`` parts of a dimension are the larger ones.
    """
    if len(shape) != len(grid) or any(parts < 1 for parts in grid):
        raise ValueError(f"a grid has one positive count for each of {len(shape)} dimensions, not {grid}")
    boxes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    for n, parts in zip(shape, grid, strict=True):
        small, larger = divmod(n, parts)
        ends = [k * small + min(k, larger) for k in range(parts + 1)]
        boxes = [((*offset, low), (*size, high - low)) for offset, size in boxes for low, high in pairwise(ends)]
    return boxes
