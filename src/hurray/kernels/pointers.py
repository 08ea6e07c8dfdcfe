"""Compressed slices: a pointer array over sorted index lists, as in CSR and CSC.

Slice i of `indices` is `indices[ptr[i]:ptr[i + 1]]`. The "major" axis is the one with the pointer (rows in CSR). The
checks take the arrays as they come; every other function clips what it reads out of a pointer, so that arrays which
were never checked give wrong answers at worst.

Format: layouts, csr / csc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from .coords import Selector, locate
from .keys import BLOCK, I64, U64
from .ordering import SortedCoords, first_repeat, sort_coords
from .runs import RunCounter

Number = TypeVar("Number", np.int64, np.uint64)

PTR_OK: Final = 0
PTR_START: Final = 1
PTR_DECREASES: Final = 2
PTR_END: Final = 3


def counts_to_ptr(counts: npt.NDArray[np.integer]) -> U64:
    """Return the pointer array of slices of these lengths: one entry more, starting at 0."""
    ptr = np.zeros(len(counts) + 1, np.uint64)
    np.cumsum(counts, out=ptr[1:].view(np.int64))
    return ptr


def ptr_of_sorted(major: U64, n_major: int) -> U64:
    """Return the pointer array for ascending major coordinates, each below `n_major`."""
    runs = RunCounter(n_major)
    runs.add(np.zeros(min(len(major), 1), np.int64), major[:1])
    for start in range(1, len(major), BLOCK):
        here = major[start : start + BLOCK]
        firsts = np.flatnonzero(here != major[start - 1 : start - 1 + len(here)])
        runs.add(firsts + start, here.take(firsts, mode="clip"))
    return runs.finish(len(major))


def check_ptr(ptr: U64, n_entries: int) -> tuple[int, int]:
    """Return the first rule a pointer array breaks and where, or `(PTR_OK, -1)`.

    Parameters
    ----------
    ptr
        uint64, shape (number of slices + 1,).
    n_entries
        What the last entry has to be.

    Returns
    -------
    tuple
        `PTR_START` (the first entry is not 0), `PTR_DECREASES` (an entry is below its predecessor) or `PTR_END` (an
        entry exceeds `n_entries`, or the last one is not it), and the position of the entry.
    """
    if ptr[0] != 0:
        return PTR_START, 0
    for start in range(0, len(ptr) - 1, BLOCK):
        block = ptr[start : start + BLOCK + 1]
        bad = (block[1:] < block[:-1]) | (block[1:] > np.uint64(n_entries))
        if bad.any():
            at = int(bad.argmax()) + 1
            return (PTR_DECREASES if block[at] < block[at - 1] else PTR_END), start + at
    return (PTR_OK, -1) if int(ptr[-1]) == n_entries else (PTR_END, len(ptr) - 1)


def first_unsorted_in_slice(indices: U64, ptr: U64) -> int:
    """Return the position of the first index not above its predecessor in the same slice, or -1.

    Parameters
    ----------
    indices
        uint64, shape (n,).
    ptr
        uint64, a pointer array that `check_ptr` accepts for n.
    """
    inner = ptr.view(np.int64)
    for start in range(0, len(indices) - 1, BLOCK):
        block = indices[start : start + BLOCK + 1]
        bad = block[1:] <= block[:-1]
        # The first index of a slice has no predecessor to be compared with.
        first, last = np.searchsorted(inner, (start + 1, start + len(block)))
        bad[inner[first:last] - (start + 1)] = False
        if bad.any():
            return start + 1 + int(bad.argmax())
    return -1


def first_index_out_of_bounds(indices: U64, extent: int) -> int:
    """Return the position of the first index not below `extent`, or -1."""
    for start in range(0, len(indices), BLOCK):
        bad = indices[start : start + BLOCK] >= np.uint64(extent)
        if bad.any():
            return start + int(bad.argmax())
    return -1


def slice_bounds(ptr: U64, slices: I64, n_entries: int) -> tuple[I64, I64]:
    """Return start and length of slices, forced into `[0, n_entries]` whatever the pointer says.

    Parameters
    ----------
    ptr
        uint64, shape (number of slices + 1,).
    slices
        int64, which ones.
    n_entries
        Number of entries that exist.
    """
    limit = np.uint64(n_entries)
    low = np.minimum(ptr.take(slices, mode="clip"), limit).astype(np.int64)
    high = np.minimum(ptr.take(slices + 1, mode="clip"), limit).astype(np.int64)
    return low, np.maximum(high - low, 0)


def expand_ptr(ptr: U64, n_entries: int) -> U64:
    """Return the slice of each of `n_entries` entries.

    Entries that a pointer array which was never checked leaves out, or claims more than once, are given to some slice.
    """
    return spread(np.arange(len(ptr) - 1, dtype=np.uint64), sane(ptr, n_entries))


def sane(ptr: U64, n_entries: int) -> U64:
    """Return a pointer array, or, where it is no partition of `n_entries` entries, a near one that is.

    Where there are no slices at all, none of the entries is owned.
    """
    if len(ptr) < 2:
        return np.zeros_like(ptr)
    if check_ptr(ptr, n_entries)[0] == PTR_OK:
        return ptr
    forced = np.minimum(ptr, np.uint64(n_entries))
    forced[0], forced[-1] = 0, n_entries
    np.maximum.accumulate(forced, out=forced)
    return forced


def spread(values: npt.NDArray[Number], ptr: U64) -> npt.NDArray[Number]:
    """Return the value of each slice once for each of its entries.

    Parameters
    ----------
    values
        int64 or uint64, one for each slice.
    ptr
        uint64, a partition.
    """
    out = np.empty(int(ptr[-1]), values.dtype)
    spread_columns([values], ptr, [out])
    return out


def spread_columns(columns: Sequence[npt.NDArray[Number]], ptr: U64, outs: Sequence[npt.NDArray[Number]]) -> None:
    """Write the values of each slice once for each of its entries, for several sets of values.

    Parameters
    ----------
    columns
        int64 or uint64 arrays, one value for each slice.
    ptr
        uint64, a partition.
    outs
        As many arrays with a place for each entry, any stride.
    """
    if int(ptr[-1]) > 8 * (len(ptr) - 1):
        starts = ptr.view(np.int64)
        counts = starts[1:] - starts[:-1]
        for column, out in zip(columns, outs, strict=True):
            out[:] = np.repeat(column, counts)
        return
    for entries, owners in owner_blocks(ptr):
        for column, out in zip(columns, outs, strict=True):
            out[entries] = column.take(owners, mode="clip")


def owner_blocks(ptr: U64) -> Iterator[tuple[slice, I64]]:
    """Yield the entries a block at a time, with the slice that each belongs to.

    Parameters
    ----------
    ptr
        uint64, a partition.

    Yields
    ------
    tuple
        A range of entries, and int64 slice numbers in an array that is used again for the next block.
    """
    starts = ptr.view(np.int64)
    n = int(starts[-1])
    # Mark the first entry of each slice and count marks, which is faster than repeating a few at a time.
    filled = starts[:-1] < starts[1:]
    names = None
    if not filled.all():
        names, starts = np.flatnonzero(filled), np.append(starts[:-1][filled], n)
    owner = np.empty(BLOCK, np.int64)
    first = 0
    for start in range(0, n, BLOCK):
        part = owner[: min(BLOCK, n - start)]
        last = first + int(np.searchsorted(starts[first:-1], start + len(part)))
        part[:] = 0
        part[starts[first:last] - start] = 1
        part[0] += first - 1
        np.cumsum(part, out=part)
        yield slice(start, start + len(part)), part if names is None else names.take(part, mode="clip")
        first = last


def spread_blocks(values: I64, ptr: U64) -> Iterator[tuple[slice, I64]]:
    """Yield the entries a block at a time, with the value of the slice that each belongs to.

    Parameters
    ----------
    values
        int64, one for each slice.
    ptr
        uint64, a partition.

    Yields
    ------
    tuple
        A range of entries, and int64 values in an array that is used again for the next block.
    """
    starts = ptr.view(np.int64)
    n = int(starts[-1])
    filled = starts[:-1] < starts[1:]
    if not filled.all():
        values, starts = values[filled], np.append(starts[:-1][filled], n)
    # What is added from one slice to the next, at its first entry: the sums are the values.
    jumps = np.diff(values, prepend=np.int64(0))
    sums = np.empty(min(BLOCK, n), np.int64)
    first = 0
    for start in range(0, n, BLOCK):
        part = sums[: min(BLOCK, n - start)]
        last = first + int(np.searchsorted(starts[first:-1], start + len(part)))
        part[:] = 0
        part[starts[first:last] - start] = jumps[first:last]
        if first:
            part[0] += values[first - 1]
        np.cumsum(part, out=part)
        yield slice(start, start + len(part)), part
        first = last


def gather_slices(ptr: U64, slices: I64, n_entries: int) -> tuple[slice | I64, I64]:
    """Return the entries of several slices, in that order, and for each the ordinal of its slice in `slices`.

    The entries are a `slice` where they are one ascending run.

    Raises
    ------
    ValueError
        If slices overlap, so that a few of them could claim any amount of memory. Naming one slice twice is no overlap.
    """
    low, count = slice_bounds(ptr, slices, n_entries)
    total = int(count.sum())
    if total > n_entries and int(slice_bounds(ptr, np.unique(slices), n_entries)[1].sum()) > n_entries:
        raise ValueError("slices overlap")
    ends = np.cumsum(count)
    which = np.repeat(np.arange(len(slices), dtype=np.int64), count)
    if total and (low[1:] == low[:-1] + count[:-1]).all():
        return slice(int(low[0]), int(low[0]) + total), which
    return np.arange(total, dtype=np.int64) + (low - (ends - count))[which], which


def select(ptr: U64, indices: U64, majors: Selector, minors: Selector) -> tuple[I64, I64, I64]:
    """Return the entries inside an outer product of majors and minors, reading no other slice.

    Parameters
    ----------
    ptr, indices
        The compressed slices, uint64.
    majors, minors
        Per axis a `range` or an int64 array of indices within the axis.

    Returns
    -------
    tuple
        int64 arrays of equal length: position of each entry, its place among `majors` and its place among `minors`.

    Raises
    ------
    ValueError
        If slices overlap.
    """
    slices = np.arange(majors.start, majors.stop, majors.step) if isinstance(majors, range) else majors
    entries, ordinals = gather_slices(ptr, slices, len(indices))
    which, minor_place = locate(take_entries(indices, entries), minors)
    positions = np.arange(entries.start, entries.stop) if isinstance(entries, slice) else entries
    return positions[which], ordinals[which], minor_place


def take_entries(array: U64, entries: slice | I64) -> U64:
    """Return entries that `gather_slices` found: a view where they are one run."""
    if isinstance(entries, slice):
        return array[entries]
    return array.take(entries, mode="clip") if len(entries) else array[:0]


def compress(entries: SortedCoords, n_major: int) -> tuple[U64, U64]:
    """Return pointer and minor indices of entries sorted by (major, minor)."""
    n = len(entries)
    runs = RunCounter(n_major)
    minor = np.empty(n, np.uint64)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        firsts = np.flatnonzero(entries.rises(start, stop) >= entries.thresholds[0])
        firsts += start
        runs.add(firsts, entries.column_at(0, firsts))
        minor[start:stop] = entries.column(1, start, stop)
    return runs.finish(n), minor


def compress_coords(coords: U64, shape: Sequence[int], major: int) -> tuple[U64, U64, I64 | None, int]:
    """Compress a list of coordinate pairs.

    Parameters
    ----------
    coords
        uint64, shape (n, 2), within `shape`, in any order.
    shape
        Extents of both dimensions.
    major
        The dimension that gets the pointer: 0 for CSR, 1 for CSC.

    Returns
    -------
    tuple
        Pointer, minor indices, the permutation of the entries (None: unchanged) and the original position of the
        first repeated pair (-1: none), in which case pointer and indices keep the repeats.
    """
    entries = sort_coords(coords, shape, (major, 1 - major))
    return *compress(entries, shape[major]), entries.perm, first_repeat(entries)


def compress_in_order(coords: U64, shape: Sequence[int], major: int) -> tuple[U64, U64] | None:
    """Compress coordinate pairs that ascend and lie within `shape`, or return None where they do not.

    The arguments are those of `compress_coords`, but nothing is taken on trust.
    """
    # Everything in one pass over blocks in the cache, given up at the first pair out of order.
    n = len(coords)
    runs = RunCounter(shape[major])
    minor = np.empty(n, np.uint64)
    majors = np.empty(min(n, BLOCK) + 1, np.uint64)
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        # The last pair of the block before comes along.
        column = majors[: stop - start + 1]
        column[1:] = coords[start:stop, major]
        here, before = column[1:], column[:-1]
        minor[start:stop] = coords[start:stop, 1 - major]
        if not int(minor[start:stop].max()) < shape[1 - major]:
            return None
        rises = here > before
        within = here == before
        if start:
            within &= minor[start:stop] > minor[start - 1 : stop - 1]
        else:
            rises[0], within[0] = True, False
            within[1:] &= minor[1:stop] > minor[: stop - 1]
        # They ascend, so the last major is the largest.
        if not (within | rises).all() or not int(here[-1]) < shape[major]:
            return None
        firsts = np.flatnonzero(rises)
        runs.add(firsts + start, here.take(firsts, mode="clip"))
        majors[0] = here[-1]
    return runs.finish(n), minor


def transpose(ptr: U64, indices: U64, n_minor: int) -> tuple[U64, U64, I64 | None]:
    """Compress along the other axis.

    Parameters
    ----------
    ptr, indices
        Compressed slices, indices below `n_minor`.
    n_minor
        Number of slices of the result.

    Returns
    -------
    tuple
        The new pointer and indices and the permutation of the entries (None: unchanged).
    """
    major = expand_ptr(ptr, len(indices))
    if n_minor <= 1 << 16:
        # Entries are in major order, so a stable sort by a 16-bit index, NumPy's radix sort, finishes the job.
        order = np.argsort(indices.astype(np.uint16), kind="stable").astype(np.int64, copy=False)
        counts = np.bincount(indices.view(np.int64), minlength=n_minor)
        return counts_to_ptr(counts), major.take(order, mode="clip"), order
    pairs = np.stack((major, indices))
    entries = sort_coords(pairs.T, (len(ptr) - 1, n_minor), (1, 0))
    return *compress(entries, n_minor), entries.perm


def find(ptr: U64, indices: U64, majors: I64, minors: U64) -> I64:
    """Return the position of each queried (major, minor) pair, or -1.

    Parameters
    ----------
    ptr, indices
        Compressed slices, uint64.
    majors
        int64, each a slice that exists.
    minors
        uint64, as many.
    """
    low, count = slice_bounds(ptr, majors, len(indices))
    return bisect_slices(indices, low, count, minors)


def bisect_slices(sorted_slices: U64, low: I64, count: I64, wanted: U64) -> I64:
    """Return the position of each wanted value in its own ascending slice, or -1.

    All searches go down together, so there is one vector step for each bit of the longest slice.

    Parameters
    ----------
    sorted_slices
        uint64, shape (n,).
    low, count
        int64: the slice of each query, within n.
    wanted
        uint64: what to look for.
    """
    if not len(sorted_slices) or not len(low):
        return np.full(len(low), -1, np.int64)
    wanted = np.ascontiguousarray(wanted)
    base, rest = low.copy(), count.copy()
    for _ in range(int(rest.max()).bit_length()):
        half = rest >> 1
        middle = base + half
        # The first value not below `wanted` stays in [base, base + rest]; a probe at an empty rest moves nothing.
        below = (sorted_slices.take(middle, mode="clip") < wanted) & (rest > 0)
        np.copyto(base, middle + 1, where=below)
        rest = np.where(below, rest - half - 1, half)
    hit = (base < low + count) & (sorted_slices.take(base, mode="clip") == wanted)
    return np.where(hit, base, -1)


__all__ = [
    "PTR_DECREASES",
    "PTR_END",
    "PTR_OK",
    "PTR_START",
    "bisect_slices",
    "check_ptr",
    "compress",
    "compress_coords",
    "compress_in_order",
    "counts_to_ptr",
    "expand_ptr",
    "find",
    "first_index_out_of_bounds",
    "first_unsorted_in_slice",
    "gather_slices",
    "owner_blocks",
    "ptr_of_sorted",
    "sane",
    "select",
    "slice_bounds",
    "spread",
    "spread_blocks",
    "spread_columns",
    "transpose",
]
