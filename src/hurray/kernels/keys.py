"""Coordinates as one sortable unsigned integer.

Comparing tuples costs a pass for each dimension, and sorting them costs a permutation for each. So every coordinate
gets a bit field in one uint64, most significant dimension first: numeric order is then lexicographic order, a field
is a shift and a mask away, and the position of an entry fits below the coordinate more often than not, which makes
"sort and remember where it came from" a plain sort of integers.

Fields are as wide as the extent needs or, when that is too wide for a key, as the largest coordinate present needs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

BLOCK: Final = 1 << 15
"""Entries handled at a time: the temporaries of one block stay in the second-level cache."""

MAX_BITS: Final = 63
"""Widest key: one bit short of the integer, so that a bound just above every key is still a number."""

_DIGIT_BITS: Final = 16
_WINDOW: Final = 256
_SMALL_SORT: Final = 1 << 17


class KeyFormat(NamedTuple):
    """Say where each coordinate sits in a key.

    Attributes
    ----------
    order
        The dimension at each level, most significant first.
    bits
        Width of the field of each level.
    shifts
        Position of the lowest bit of the field of each level.
    """

    order: tuple[int, ...]
    bits: tuple[int, ...]
    shifts: tuple[int, ...]

    @property
    def n_bits(self) -> int:
        """Return the width of a whole key."""
        return self.shifts[0] + self.bits[0] if self.bits else 0


def key_format(extents: Sequence[int], order: Sequence[int] | None = None) -> KeyFormat | None:
    """Return the fields for coordinates below `extents`, or None when they need more than `MAX_BITS` bits.

    Parameters
    ----------
    extents
        Exclusive upper bound of each dimension's coordinates.
    order
        Dimensions from most to least significant; the natural order when None.
    """
    modes = tuple(range(len(extents))) if order is None else tuple(order)
    bits = tuple(max(extents[mode] - 1, 0).bit_length() for mode in modes)
    shifts = []
    below = sum(bits)
    for width in bits:
        below -= width
        shifts.append(below)
    return KeyFormat(modes, bits, tuple(shifts)) if sum(bits) <= MAX_BITS else None


def fit_format(coords: U64, shape: Sequence[int], order: Sequence[int] | None = None) -> KeyFormat | None:
    """Return fields that hold these coordinates, from the shape if it fits, else from the largest ones present."""
    fields = key_format(shape, order)
    if fields is None and len(coords):
        fields = key_format([int(top) + 1 for top in coords.max(axis=0)], order)
    return fields


def pack(coords: U64, fields: KeyFormat) -> U64:
    """Return the key of every coordinate tuple.

    Parameters
    ----------
    coords
        uint64, shape (n, rank), each value within its field.
    fields
        The layout of a key.
    """
    keys = np.empty(len(coords), np.uint64)
    for start in range(0, len(coords), BLOCK):
        pack_block(coords[start : start + BLOCK], fields, keys[start : start + BLOCK])
    return keys


def pack_block(coords: U64, fields: KeyFormat, out: U64) -> None:
    """Write the keys of a block that fits the cache into `out`."""
    if not fields.order:
        out[...] = 0
        return
    out[...] = coords[:, fields.order[0]]
    for mode, width in zip(fields.order[1:], fields.bits[1:], strict=True):
        if width:
            np.left_shift(out, np.uint64(width), out=out)
            np.bitwise_or(out, coords[:, mode], out=out)


def field(keys: U64, fields: KeyFormat, level: int) -> U64:
    """Return the coordinates of one level out of keys, shape (n,)."""
    out = np.empty(len(keys), np.uint64)
    fill_field(keys, fields, level, out)
    return out


def fill_field(keys: U64, fields: KeyFormat, level: int, out: U64) -> None:
    """Write the coordinates of one level into `out`, shape (n,), any stride."""
    shift, mask = np.uint64(fields.shifts[level]), np.uint64((1 << fields.bits[level]) - 1)
    for start in range(0, len(keys), BLOCK):
        part = keys[start : start + BLOCK] >> shift
        np.bitwise_and(part, mask, out=out[start : start + BLOCK])


def first_descent(keys: U64, *, strict: bool) -> int:
    """Return the first position whose key is below (strict: not above) the one before it, or -1."""
    compare = np.less_equal if strict else np.less
    for start in range(0, len(keys) - 1, BLOCK):
        block = keys[start : start + BLOCK + 1]
        bad = compare(block[1:], block[:-1])
        if bad.any():
            return start + 1 + int(bad.argmax())
    return -1


def append_positions(keys: U64, fields: KeyFormat) -> tuple[U64, KeyFormat] | None:
    """Return keys with the entry's position below the coordinates, and their format; None when that does not fit."""
    width = max(len(keys) - 1, 0).bit_length()
    if fields.n_bits + width > MAX_BITS:
        return None
    mixed = np.empty_like(keys)
    count = np.arange(BLOCK, dtype=np.uint64)
    for start in range(0, len(keys), BLOCK):
        part = mixed[start : start + BLOCK]
        np.left_shift(keys[start : start + BLOCK], np.uint64(width), out=part)
        np.bitwise_or(part, count[: len(part)] + np.uint64(start), out=part)
    return mixed, fields._replace(shifts=tuple(shift + width for shift in fields.shifts))


def positions(keys: U64, fields: KeyFormat) -> I64:
    """Return the positions that `append_positions` put below the coordinates."""
    return (keys & np.uint64((1 << fields.shifts[-1]) - 1)).view(np.int64)


def sort_keys(keys: U64, n_bits: int) -> U64:
    """Return the keys in ascending order (the argument is consumed: its contents are undefined afterwards).

    Parameters
    ----------
    keys
        uint64, contiguous.
    n_bits
        Number of low bits in use; all others are zero.
    """
    if len(keys) < _SMALL_SORT or not _partition_is_slow():
        keys.sort()
        return keys
    return _bucket_sort(keys, n_bits)


def _bucket_sort(keys: U64, n_bits: int) -> U64:
    # Bring the keys into order of their leading digit with NumPy's 16-bit radix sort. What is left is local disorder
    # inside buckets, and rows of 256 keys sort in registers. Two passes, half a row apart, leave no bucket of up to
    # 128 keys cut in both; larger buckets are sorted one by one.
    digit = (keys >> np.uint64(max(n_bits - _DIGIT_BITS, 0))).astype(np.uint16)
    sorted_keys = keys.take(np.argsort(digit, kind="stable"), mode="clip")
    if len(keys) <= _WINDOW // 4 << _DIGIT_BITS:
        _sort_windows(sorted_keys)
        if first_descent(sorted_keys, strict=False) < 0:
            return sorted_keys
    ends = np.cumsum(np.bincount(digit, minlength=1 << _DIGIT_BITS))
    sizes = np.diff(ends, prepend=0)
    for bucket in np.flatnonzero(sizes > _WINDOW // 2):
        end = int(ends[bucket])
        sorted_keys[end - int(sizes[bucket]) : end].sort()
    _sort_windows(sorted_keys)
    return sorted_keys


def _sort_windows(keys: U64) -> None:
    for first in (0, _WINDOW // 2):
        whole = (len(keys) - first) // _WINDOW * _WINDOW
        keys[first : first + whole].reshape(-1, _WINDOW).sort(axis=1)
        keys[first + whole :].sort()


@cache
def _partition_is_slow() -> bool:
    # NumPy's vectorised quicksort partitions with a compressing store, which some processors run in microcode: 15 to
    # 25 times slower than the register sort of short rows instead of 2 to 5 times. Only speed depends on the answer.
    sample = (np.arange(1 << 14, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(4)
    return min(_sort_time(sample, len(sample)) for _ in range(3)) > 8 * max(
        1e-6, min(_sort_time(sample, 128) for _ in range(3))
    )


def _sort_time(sample: U64, width: int) -> float:
    rows = sample.copy().reshape(-1, width)
    start = time.perf_counter()
    rows.sort(axis=1)
    return time.perf_counter() - start
