"""Pack, unpack, gather and sign-extend elements of 1, 2, 4 and 6 bits.

Packing puts the least significant bits first: element ``i`` of a buffer starts at bit ``i * bits`` of the
little-endian bit string. That one rule also covers the six bit groups of four elements in three bytes.

The idea: a group of codes is one little-endian machine word with one code per byte, a packed group is the
same word with the gaps squeezed out. Two or three shift-and-mask steps over whole words move between the
two, which is several times faster than strided byte access or a table look-up. Large inputs are worked
through in blocks that stay in the cache.

Format: element types, packing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "packed_nbytes", "sign_extend", "take", "unpack"]

U8Array = NDArray[np.uint8]

# Codes per block: with their words and one temporary they fit the second level cache.
_BLOCK_ELEMS = 1 << 16
_BLOCK_TAKE = 1 << 14


def packed_nbytes(n_elems: int, bits: int) -> int:
    """Return the number of bytes that `n_elems` elements of `bits` bits occupy.

    Six bit elements take whole groups of three bytes, one, two and four bit elements whole bytes.

    Parameters
    ----------
    n_elems
        Number of elements, a Python int of any size.
    bits
        Width of an element: 1, 2, 4, 6 or a multiple of 8.

    Raises
    ------
    ValueError
        If the width is none of these or the number is negative.

    Notes
    -----
    Format: element types, packing.

    Examples
    --------
    >>> packed_nbytes(5, 6)
    6
    """
    if n_elems < 0:
        raise ValueError(f"number of elements must not be negative, got {n_elems}")
    if bits >= 8 and bits % 8 == 0:
        return n_elems * (bits // 8)
    group = _group(bits)
    return -(-n_elems // group.n_elems) * group.n_bytes


def pack(codes: NDArray[Any], bits: int, out: U8Array | None = None) -> U8Array:
    """Pack codes, in C order of their indices, into bytes.

    Only the low `bits` bits of a code count, and the unused high bits of the last group are zero.

    Parameters
    ----------
    codes
        Codes of one byte each (uint8, int8 or bool), any shape and memory order.
    bits
        1, 2, 4 or 6.
    out
        Optional uint8 array of exactly ``packed_nbytes(codes.size, bits)`` bytes to write to.

    Returns
    -------
    ndarray
        One-dimensional uint8 array.

    Raises
    ------
    ValueError
        If the width is not a packed one, a code is wider than a byte or `out` does not fit.

    Examples
    --------
    >>> pack(np.array([5, 12, 3], np.uint8), 4).tobytes().hex()
    'c503'
    """
    group = _group(bits)
    if codes.dtype.itemsize != 1:
        raise ValueError(f"codes must be one byte each, got dtype {codes.dtype}")
    flat = codes.reshape(-1).view(np.uint8)
    n = flat.size
    packed = _output(out, packed_nbytes(n, bits))
    whole = n // group.n_elems * group.n_elems
    step = _BLOCK_ELEMS
    for lo in range(0, whole, step):
        hi = min(lo + step, whole)
        target = packed[lo // group.n_elems * group.n_bytes : hi // group.n_elems * group.n_bytes]
        group.squeeze(np.ascontiguousarray(flat[lo:hi]), target)
    if whole < n:
        tail = np.zeros(group.n_elems, np.uint8)
        tail[: n - whole] = flat[whole:]
        group.squeeze(tail, packed[whole // group.n_elems * group.n_bytes :])
    return packed


def unpack(packed: U8Array, bits: int, n_elems: int, start: int = 0, out: U8Array | None = None) -> U8Array:
    """Unpack `n_elems` codes beginning with element `start`, which need not be at a byte boundary.

    Parameters
    ----------
    packed
        One-dimensional uint8 array that holds at least the groups of the wanted elements.
    bits
        1, 2, 4 or 6.
    n_elems, start
        Number of codes and linear offset of the first one, in elements.
    out
        Optional uint8 array of `n_elems` elements to write to, any stride.

    Returns
    -------
    ndarray
        One-dimensional uint8 array of codes.

    Raises
    ------
    ValueError
        If the width is not a packed one, a number is negative, the bytes are too few or `out` does not fit.

    Examples
    --------
    >>> unpack(np.array([0xC5, 0x03], np.uint8), 4, 2, start=1)
    array([12,  3], dtype=uint8)
    """
    group = _group(bits)
    if n_elems < 0 or start < 0:
        raise ValueError(f"negative element range: {n_elems} elements from {start}")
    if n_elems == 0:
        return _output(out, 0)
    if packed.size < packed_nbytes(start + n_elems, bits):
        raise ValueError(f"{packed.size} bytes hold no {n_elems} elements of {bits} bits from element {start}")
    codes = _output(out, n_elems)
    skew = start % group.n_elems
    source = packed[start // group.n_elems * group.n_bytes :]
    direct = skew == 0 and (out is None or (codes.flags.c_contiguous and codes.ctypes.data % 4 == 0))
    whole = n_elems // group.n_elems * group.n_elems if direct else 0
    for lo in range(0, whole, _BLOCK_ELEMS):
        hi = min(lo + _BLOCK_ELEMS, whole)
        group.spread(source[lo // group.n_elems * group.n_bytes : hi // group.n_elems * group.n_bytes], codes[lo:hi])
    if whole < n_elems:
        _unpack_skewed(group, source, skew + whole, codes[whole:])
    return codes


def _unpack_skewed(group: _Group, source: U8Array, start: int, codes: U8Array) -> None:
    """Unpack to `codes` by way of a scratch block, for parts of a group and odd outputs."""
    end = start + codes.size
    first = start // group.n_elems * group.n_elems
    scratch = np.empty(min(_BLOCK_ELEMS, -(-(end - first) // group.n_elems) * group.n_elems), np.uint8)
    for lo in range(first, end, scratch.size):
        n_groups = -(-min(scratch.size, end - lo) // group.n_elems)
        at = lo // group.n_elems * group.n_bytes
        group.spread(source[at : at + n_groups * group.n_bytes], scratch[: n_groups * group.n_elems])
        begin, stop = max(lo, start), min(lo + scratch.size, end)
        codes[begin - start : stop - start] = scratch[begin - lo : stop - lo]


def take(packed: U8Array, bits: int, offsets: NDArray[np.int64]) -> U8Array:
    """Gather the codes at any element offsets.

    Parameters
    ----------
    packed
        One-dimensional uint8 array; for six bits whole groups.
    bits
        1, 2, 4 or 6.
    offsets
        int64 linear element offsets of any shape. The caller guarantees that they are in range.

    Returns
    -------
    ndarray
        uint8 codes in the shape of `offsets`.

    Raises
    ------
    ValueError
        If the width is not a packed one.

    Examples
    --------
    >>> take(np.array([0xC5, 0x03], np.uint8), 4, np.array([2, 0]))
    array([3, 5], dtype=uint8)
    """
    _group(bits)
    codes = np.empty(offsets.shape, np.uint8)
    flat_codes = codes.reshape(-1)
    flat = offsets.reshape(-1)
    mask = np.uint8((1 << bits) - 1)
    for lo in range(0, flat.size, _BLOCK_TAKE):
        first_bit = flat[lo : lo + _BLOCK_TAKE] * np.int64(bits)
        at = first_bit >> 3
        first_bit &= 7
        shift = first_bit.astype(np.uint8)
        block = flat_codes[lo : lo + _BLOCK_TAKE]
        np.right_shift(packed[at], shift, out=block)
        if bits == 6:
            # Elements 1 and 2 of a group continue in the next byte. The others end in theirs, and what the
            # clipped index brings in for them is shifted past the mask.
            at += 1
            np.minimum(at, packed.size - 1, out=at)
            block |= packed[at] << (np.uint8(8) - shift)
        block &= mask
    return codes


def sign_extend(codes: U8Array, bits: int) -> NDArray[np.int8]:
    """Read codes as two's complement integers of `bits` bits.

    Parameters
    ----------
    codes
        uint8 codes of any shape; bits above the width are ignored.
    bits
        1 to 8.

    Returns
    -------
    ndarray
        int8 values in a new array of the same shape.

    Raises
    ------
    ValueError
        If the width is not from 1 to 8.

    Examples
    --------
    >>> sign_extend(np.array([7, 8, 15], np.uint8), 4)
    array([ 7, -8, -1], dtype=int8)
    """
    if not 1 <= bits <= 8:
        raise ValueError(f"a code has 1 to 8 bits, not {bits}")
    shifted = np.empty(codes.shape, np.uint8)
    np.left_shift(codes, np.uint8(8 - bits), out=shifted)
    values = shifted.view(np.int8)
    np.right_shift(values, np.int8(8 - bits), out=values)
    return values


class _Group(NamedTuple):
    """The smallest run of elements that fills whole bytes, and how to move between its two forms."""

    n_elems: int
    n_bytes: int
    spread: Callable[[U8Array, U8Array], None]  # packed groups -> codes
    squeeze: Callable[[U8Array, U8Array], None]  # contiguous codes -> packed groups


def _group(bits: int) -> _Group:
    try:
        return _GROUPS[bits]
    except KeyError:
        raise ValueError(f"packed elements have 1, 2, 4 or 6 bits, not {bits}") from None


def _output(out: U8Array | None, size: int) -> U8Array:
    """Return `out` after a check, or a new array of `size` bytes."""
    if out is None:
        return np.empty(size, np.uint8)
    if out.dtype != np.uint8 or out.shape != (size,):
        raise ValueError(f"out must be a uint8 array of shape ({size},), got {out.dtype} {out.shape}")
    return out


def _spread_1(packed: U8Array, codes: U8Array) -> None:
    codes[...] = np.unpackbits(packed, bitorder="little")


def _squeeze_1(codes: U8Array, packed: U8Array) -> None:
    packed[...] = np.packbits(codes & np.uint8(1), bitorder="little")


def _spread_2(packed: U8Array, codes: U8Array) -> None:
    words = codes.view("<u4")
    np.copyto(words, packed)
    words |= words << 12
    words &= 0x000F000F
    words |= words << 6
    words &= 0x03030303


def _squeeze_2(codes: U8Array, packed: U8Array) -> None:
    words = codes.view("<u4") & 0x03030303
    words |= words >> 6
    words |= words >> 12
    np.copyto(packed, words, casting="unsafe")


def _spread_4(packed: U8Array, codes: U8Array) -> None:
    words = codes.view("<u2")
    np.copyto(words, packed)
    words |= words << 4
    words &= 0x0F0F


def _squeeze_4(codes: U8Array, packed: U8Array) -> None:
    words = codes.view("<u2") & 0x0F0F
    words |= words >> 4
    np.copyto(packed, words, casting="unsafe")


def _spread_6(packed: U8Array, codes: U8Array) -> None:
    # Three strided copies, because an inner loop over three bytes costs more than the copies.
    columns = codes.reshape(-1, 4)
    triples = packed.reshape(-1, 3)
    for column in range(3):
        columns[:, column] = triples[:, column]
    words = codes.view("<u4")
    high = words & 0x00FFF000
    words &= 0x00000FFF
    high <<= 4
    words |= high
    np.bitwise_and(words, 0x0FC00FC0, out=high)
    words &= 0x003F003F
    high <<= 2
    words |= high


def _squeeze_6(codes: U8Array, packed: U8Array) -> None:
    words = codes.view("<u4") & 0x3F3F3F3F
    high = words & 0x3F003F00
    words &= 0x003F003F
    high >>= 2
    words |= high
    np.bitwise_and(words, 0x0FFF0000, out=high)
    words &= 0x00000FFF
    high >>= 4
    words |= high
    columns = words.view(np.uint8).reshape(-1, 4)
    triples = packed.reshape(-1, 3)
    for column in range(3):
        triples[:, column] = columns[:, column]


_GROUPS: dict[int, _Group] = {
    1: _Group(8, 1, _spread_1, _squeeze_1),
    2: _Group(4, 1, _spread_2, _squeeze_2),
    4: _Group(2, 1, _spread_4, _squeeze_4),
    6: _Group(4, 3, _spread_6, _squeeze_6),
}
