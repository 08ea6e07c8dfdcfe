"""Coordinate lists: offsets, bounds, order and regions.

Coordinates are uint64 arrays of shape (n, rank), one tuple per stored element. Everything that compares tuples goes
through the packed keys of `keys`; only tuples too wide for 64 bits even when measured by the largest coordinate
present are sorted column by column. Coordinates from outside are compared as unsigned numbers, so a huge one is out of
bounds and never negative.

Format: layouts, coo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .keys import BLOCK, I64, U64, key_format, pack_block
from .ordering import first_unsorted_columns

Selector = range | I64


def linear_keys(coords: U64, shape: Sequence[int], order: Sequence[int] | None = None) -> U64 | None:
    """Return the offset of each tuple in a dense array whose last listed dimension varies fastest.

    Parameters
    ----------
    coords
        uint64, shape (n, rank), within `shape`.
    shape
        Extent of each dimension.
    order
        Dimensions from slowest to fastest; the natural order when None.

    Returns
    -------
    ndarray or None
        uint64, shape (n,); None when the array has 2**63 elements or more.
    """
    modes = tuple(range(len(shape))) if order is None else tuple(order)
    total = 1
    for extent in shape:
        total *= max(extent, 1)
    if total >= 1 << 63:
        return None
    keys = np.zeros(len(coords), np.uint64)
    for start in range(0, len(coords), BLOCK):
        block, out = coords[start : start + BLOCK], keys[start : start + BLOCK]
        for place, mode in enumerate(modes):
            if place:
                np.multiply(out, np.uint64(shape[mode]), out=out)
            np.add(out, block[:, mode], out=out)
    return keys


def unravel(offsets: U64, shape: Sequence[int]) -> U64:
    """Return the coordinates of row-major offsets, shape (n, rank): the inverse of `linear_keys`."""
    coords = np.empty((len(offsets), len(shape)), np.uint64)
    for start in range(0, len(offsets), BLOCK):
        rest = offsets[start : start + BLOCK]
        block = coords[start : start + BLOCK]
        for mode in range(len(shape) - 1, 0, -1):
            # Division by a constant is a multiplication inside NumPy, the remainder would be a true division.
            extent = np.uint64(max(shape[mode], 1))
            upper = rest // extent
            np.subtract(rest, upper * extent, out=block[:, mode])
            rest = upper
        if len(shape):
            block[:, 0] = rest
    return coords


def nonzero_offsets(words: npt.NDArray[Any]) -> I64:
    """Return the positions of the non-zero numbers of a 1-D array, ascending, int64."""
    found = [np.flatnonzero(words[start : start + BLOCK] != 0) + start for start in range(0, len(words), BLOCK)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def first_out_of_bounds(coords: U64, shape: Sequence[int]) -> int:
    """Return the position of the first tuple with a coordinate not below its extent, or -1."""
    step = max(BLOCK // max(len(shape), 1), 1)
    for start in range(0, len(coords), step):
        columns = coords[start : start + step].T
        faults = [column >= np.uint64(extent) for column, extent in zip(columns, shape, strict=True)]
        first = [int(bad.argmax()) for bad in faults if bad.any()]
        if first:
            return start + min(first)
    return -1


def first_unsorted(coords: U64, shape: Sequence[int]) -> int:
    """Return the position of the first tuple that is not lexicographically above the one before it, or -1.

    Parameters
    ----------
    coords
        uint64, shape (n, rank), within `shape`.
    shape
        Extent of each dimension.
    """
    fields = key_format(shape)
    if fields is None:
        return first_unsorted_columns([coords[:, mode] for mode in range(len(shape))], strict=True)
    keys = np.empty(BLOCK + 1, np.uint64)
    for start in range(0, len(coords) - 1, BLOCK):
        block = coords[start : start + BLOCK + 1]
        part = keys[: len(block)]
        pack_block(block, fields, part)
        bad = part[1:] <= part[:-1]
        if bad.any():
            return start + 1 + int(bad.argmax())
    return -1


def is_strictly_sorted(coords: U64, shape: Sequence[int]) -> bool:
    """Return whether the tuples, each within `shape`, ascend lexicographically without repeats."""
    return first_unsorted(coords, shape) < 0


def select(coords: U64, region: Sequence[Selector]) -> tuple[I64, I64]:
    """Return which tuples lie in an outer-product region, and where in it.

    Parameters
    ----------
    coords
        uint64, shape (n, rank); tuples out of bounds are merely not selected.
    region
        Per dimension a `range` of non-negative numbers, any step, or an int64 index array in any order; an index
        listed k times selects a matching tuple k times.

    Returns
    -------
    tuple
        Positions of the selected tuples (ascending but for repeats, int64, shape (m,)) and their coordinates in the
        region (int64, shape (m, rank)).
    """
    positions: list[I64] = []
    places: list[I64] = []
    for start in range(0, len(coords), BLOCK):
        kept, within = _select_block(coords[start : start + BLOCK], region)
        positions.append(kept + start)
        places.append(within)
    if not positions:
        return np.empty(0, np.int64), np.empty((0, len(region)), np.int64)
    return np.concatenate(positions), np.concatenate(places)


def _select_block(block: U64, region: Sequence[Selector]) -> tuple[I64, I64]:
    kept = np.arange(len(block), dtype=np.int64)
    columns: list[I64] = []
    for mode, chosen in enumerate(region):
        which, place = locate(block[kept, mode], chosen)
        kept = kept[which]
        columns = [column[which] for column in columns]
        columns.append(place)
    places = np.empty((len(kept), len(region)), np.int64)
    for mode, column in enumerate(columns):
        places[:, mode] = column
    return kept, places


def locate(column: U64, chosen: Selector) -> tuple[slice | I64, I64]:
    """Return which coordinates of one dimension are chosen (a full slice for all), and their places in the selection.

    Parameters
    ----------
    column
        uint64, shape (n,).
    chosen
        A `range` of non-negative numbers or an int64 index array (any order, repeats allowed).
    """
    if isinstance(chosen, range):
        return _locate_in_range(column, chosen)
    sorter = np.argsort(chosen, kind="stable").astype(np.int64, copy=False)
    ordered = chosen[sorter].astype(np.uint64)
    low = np.searchsorted(ordered, column, "left")
    count = np.searchsorted(ordered, column, "right") - low
    which = np.repeat(np.arange(len(column), dtype=np.int64), count)
    first = np.cumsum(count) - count
    rank = np.arange(len(which), dtype=np.int64) - np.repeat(first, count) + np.repeat(low, count)
    return which, sorter[rank]


def _locate_in_range(column: U64, chosen: range) -> tuple[slice | I64, I64]:
    if not chosen:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    up = chosen.step > 0
    # A coordinate on the wrong side of the start wraps to a distance beyond any array and fails the next test.
    distance = column - np.uint64(chosen.start) if up else np.uint64(chosen.start) - column
    inside = distance <= np.uint64(abs(chosen[-1] - chosen.start))
    if abs(chosen.step) == 1:
        if inside.all():
            return slice(None), distance.view(np.int64)
        which = np.flatnonzero(inside)
        return which, distance[which].view(np.int64)
    place, rest = np.divmod(distance, np.uint64(abs(chosen.step)))
    which = np.flatnonzero(inside & (rest == 0))
    return which, place[which].astype(np.int64)
