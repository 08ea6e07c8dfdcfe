"""Coordinates in lexicographic order: sorting, repeats, runs.

Sorted coordinates are not an array. They stay in the form that sorting left them in, packed keys as a rule, and give
out one level, one block at a time, because the builders of compressed layouts need no more.

Format: layouts, sparse layouts in general.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from .keys import (
    BLOCK,
    I64,
    U64,
    KeyFormat,
    append_positions,
    field,
    first_descent,
    fit_format,
    key_format,
    pack,
    positions,
    sort_keys,
)

_HIGHEST = np.uint64(2**64 - 1)


class SortedCoords(Protocol):
    """Give access to coordinates in lexicographic order of the modes, level by level.

    Attributes
    ----------
    perm
        int64: where each sorted entry came from, or None when the input was in order already.
    thresholds
        Per level: the smallest `rises` of an entry that differs from its predecessor in this level or one above.
    """

    @property
    def perm(self) -> I64 | None: ...

    @property
    def thresholds(self) -> tuple[np.uint64, ...]: ...

    def __len__(self) -> int:
        """Return the number of entries."""

    def column(self, level: int, start: int, stop: int) -> U64:
        """Return the coordinates of a level for a range of entries."""

    def column_at(self, level: int, at: I64) -> U64:
        """Return the coordinates of a level for the entries at sorted positions `at`."""

    def rises(self, start: int, stop: int) -> U64:
        """Return how significant each entry's difference from its predecessor is; the very first entry differs most."""


class _Keyed:
    __slots__ = ("fields", "keys", "perm")

    def __init__(self, keys: U64, fields: KeyFormat, perm: I64 | None) -> None:
        self.keys = keys
        self.fields = fields
        self.perm = perm

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def thresholds(self) -> tuple[np.uint64, ...]:
        return tuple(np.uint64(1 << shift) for shift in self.fields.shifts)

    def column(self, level: int, start: int, stop: int) -> U64:
        return field(self.keys[start:stop], self.fields, level)

    def column_at(self, level: int, at: I64) -> U64:
        return field(self.keys.take(at, mode="clip"), self.fields, level)

    def rises(self, start: int, stop: int) -> U64:
        if start:
            return self.keys[start:stop] ^ self.keys[start - 1 : stop - 1]
        rises = np.full(stop, _HIGHEST)
        np.bitwise_xor(self.keys[1:stop], self.keys[: stop - 1], out=rises[1:])
        return rises


class _Columns:
    __slots__ = ("columns", "perm")

    def __init__(self, columns: tuple[U64, ...], perm: I64 | None) -> None:
        self.columns = columns
        self.perm = perm

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def thresholds(self) -> tuple[np.uint64, ...]:
        return tuple(np.uint64(len(self.columns) - level) for level in range(len(self.columns)))

    def column(self, level: int, start: int, stop: int) -> U64:
        return self.columns[level][start:stop]

    def column_at(self, level: int, at: I64) -> U64:
        return self.columns[level][at]

    def rises(self, start: int, stop: int) -> U64:
        rises = np.zeros(stop - start, np.uint64)
        first = max(start, 1)
        for column, threshold in zip(reversed(self.columns), reversed(self.thresholds), strict=True):
            rises[first - start :][column[first:stop] != column[first - 1 : stop - 1]] = threshold
        if start == 0:
            rises[:1] = _HIGHEST
        return rises


def sort_coords(coords: U64, shape: Sequence[int], order: Sequence[int] | None = None) -> SortedCoords:
    """Put coordinates in lexicographic order of the modes, keeping the order of equal ones.

    Parameters
    ----------
    coords
        uint64, shape (n, rank), within `shape`, rank at least 1.
    shape
        Extent of each dimension.
    order
        Dimensions from most to least significant; the natural order when None.
    """
    modes = tuple(range(len(shape))) if order is None else tuple(order)
    fields = fit_format(coords, shape, modes) if len(coords) else key_format([1] * len(shape), modes)
    if fields is None:
        return _sort_columns(coords, modes)
    keys = pack(coords, fields)
    if first_descent(keys, strict=False) < 0:
        return _Keyed(keys, fields, None)
    mixed = append_positions(keys, fields)
    if mixed is None:
        perm = np.argsort(keys, kind="stable").astype(np.int64, copy=False)
        return _Keyed(keys[perm], fields, perm)
    keys, fields = mixed
    keys = sort_keys(keys, fields.n_bits)
    return _Keyed(keys, fields, positions(keys, fields))


def _sort_columns(coords: U64, order: tuple[int, ...]) -> SortedCoords:
    columns = tuple(np.ascontiguousarray(coords[:, mode]) for mode in order)
    if first_unsorted_columns(columns, strict=False) < 0:
        return _Columns(columns, None)
    perm = np.lexsort(columns[::-1]).astype(np.int64, copy=False)
    return _Columns(tuple(column[perm] for column in columns), perm)


def first_unsorted_columns(columns: Sequence[U64], *, strict: bool) -> int:
    """Return the first position whose tuple is below (strict: not above) the one before it, or -1.

    Parameters
    ----------
    columns
        uint64, shape (n,), most significant first; any values.
    strict
        Whether equal neighbours count.
    """
    n = len(columns[0])
    for start in range(0, n - 1, BLOCK):
        stop = min(start + BLOCK + 1, n)
        bad = np.full(stop - start - 1, strict)
        for column in reversed(columns):
            here, before = column[start + 1 : stop], column[start : stop - 1]
            bad = (here < before) | ((here == before) & bad)
        if bad.any():
            return start + 1 + int(bad.argmax())
    return -1


def first_repeat(entries: SortedCoords) -> int:
    """Return the original position of the first entry equal to an earlier one, or -1."""
    lowest = len(entries)
    threshold = entries.thresholds[-1]
    for start in range(0, len(entries), BLOCK):
        repeated = entries.rises(start, min(start + BLOCK, len(entries))) < threshold
        if repeated.any():
            if entries.perm is None:
                return start + int(repeated.argmax())
            lowest = min(lowest, int(entries.perm[start : start + BLOCK][repeated].min()))
    return lowest if lowest < len(entries) else -1


def run_starts(entries: SortedCoords) -> I64:
    """Return the sorted positions at which a new coordinate begins, int64."""
    starts = [np.empty(0, np.int64)]
    for start in range(0, len(entries), BLOCK):
        rises = entries.rises(start, min(start + BLOCK, len(entries)))
        starts.append(np.flatnonzero(rises >= entries.thresholds[-1]) + start)
    return np.concatenate(starts)


def fill_columns(entries: SortedCoords, out: U64) -> None:
    """Write sorted coordinates, in the natural order of the dimensions, into `out`, shape (n, rank)."""
    for start in range(0, len(entries), BLOCK):
        stop = min(start + BLOCK, len(entries))
        for mode in range(out.shape[1]):
            out[start:stop, mode] = entries.column(mode, start, stop)


def sort_order(coords: U64, shape: Sequence[int], mode_order: Sequence[int] | None = None) -> I64 | None:
    """Return the stable permutation that sorts the tuples, or None when they are in order already."""
    return sort_coords(coords, shape, mode_order).perm


def first_duplicate(coords: U64, shape: Sequence[int]) -> int:
    """Return the position of the first tuple that occurred before, or -1.

    Parameters
    ----------
    coords
        uint64, shape (n, rank), within `shape`.
    shape
        Extent of each dimension.
    """
    return first_repeat(sort_coords(coords, shape)) if len(coords) > 1 else -1


def reduce_duplicates(
    starts: I64, n: int, values: npt.NDArray[np.generic], how: Literal["sum", "last"]
) -> npt.NDArray[np.generic]:
    """Return one value for every run of equal coordinates.

    Parameters
    ----------
    starts
        int64: where each run begins, ascending, the first 0.
    n
        Number of entries before reduction.
    values
        shape (n,), in sorted order, entries of equal coordinates in their original order.
    how
        "sum" adds in the type of the values (wrapping integers, "or" for bool); "last" keeps the latest.
    """
    if n == 0:
        return values[:0]
    if how == "last":
        latest: npt.NDArray[np.generic] = values[np.append(starts[1:], n) - 1]
        return latest
    reduced: npt.NDArray[np.generic] = np.add.reduceat(values, starts, dtype=values.dtype)
    return reduced
