"""Morton (Z-order) codes, and copies of whole arrays into and out of Morton order.

Bit ``b`` of coordinate ``d`` sits at bit ``b * rank + d`` of the code. So a code is a sum of one *spread* coordinate
for each dimension, found 16 bits at a time in a table, and the inverse reads 16 bits of code at a time and gets the
bits of all coordinates at once, packed as fields of one word.

Whole arrays go block by block: an aligned cube of ``2**k`` along every dimension is contiguous in storage, and so is
every ``2 x 2 x ...`` cell in it. A block is first copied so that cells become contiguous (one strided copy for each
corner), then whole cells are permuted by a small table. Both copies stay in cache.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_TABLE_BITS = 16
# Points handled at a time, so that the temporaries of a pass stay in the second-level cache.
_POINTS = 16384
# Elements of one block of a whole-array copy.
_BLOCK_BITS = 16
# Past this rank one cell has so many corners that gathering element by element is as good.
_MAX_CELL_RANK = 6


@functools.lru_cache(maxsize=64)
def _spread_table(rank: int, bits: int) -> npt.NDArray[np.int64]:
    """Return the table that moves bit ``b`` of every ``bits``-bit number to bit ``b * rank``; bits past 62 drop out."""
    numbers = np.arange(1 << bits, dtype=np.int64)
    table = np.zeros(1 << bits, np.int64)
    for bit in range(bits):
        if bit * rank <= 62:
            table |= ((numbers >> bit) & 1) << (bit * rank)
    table.flags.writeable = False
    return table


def _spread(indices: npt.NDArray[np.int64], rank: int, bits: int) -> npt.NDArray[np.int64]:
    """Spread the low ``bits`` bits of non-negative integers ``rank`` apart."""
    if bits <= 8:
        return _spread_table(rank, 8).take(indices & 0xFF)
    table = _spread_table(rank, _TABLE_BITS)
    total = table.take(indices & 0xFFFF)
    for shift in range(_TABLE_BITS, min(bits, 63), _TABLE_BITS):
        if shift * rank <= 62:
            total |= table.take((indices >> shift) & 0xFFFF) << (shift * rank)
    return total


def morton_axis_codes(indices: npt.NDArray[np.int64], rank: int, dim: int, bits: int) -> npt.NDArray[np.int64]:
    """Return what one dimension's indices contribute to the Morton code.

    Parameters
    ----------
    indices
        int64, any shape, each in ``0 .. 2**bits - 1``.
    rank
        Number of dimensions.
    dim
        The dimension the indices belong to; its bit 0 becomes bit ``dim`` of the code.
    bits
        Bits of the greatest index. The caller has checked that the greatest code fits 63 bits.

    Format: layouts, morton.
    """
    return _spread(indices, rank, bits) << dim


def morton_encode(coords: npt.NDArray[Any], rank: int) -> npt.NDArray[np.uint64]:
    """Return the Morton code of each point.

    Parameters
    ----------
    coords
        (n, rank) array of non-negative integers whose codes fit 64 bits.
    rank
        Number of coordinates of a point.

    Returns
    -------
    uint64 array of n codes.

    Raises
    ------
    ValueError
        The array is not (n, rank).

    Format: layouts, morton.
    """
    if coords.ndim != 2 or coords.shape[1] != rank or rank < 1:
        raise ValueError(f"expected an (n, {rank}) array of coordinates, not shape {coords.shape}")
    codes = np.zeros(coords.shape[0], np.uint64)
    bits = int(coords.max()).bit_length() if coords.size else 0
    if rank * (bits - 1) >= 63:
        return _encode_bits(coords, codes)
    signed = codes.view(np.int64)
    for start in range(0, len(codes), _POINTS):
        part = signed[start : start + _POINTS]
        for dim in range(rank):
            column = coords[start : start + _POINTS, dim].astype(np.int64)
            spread = _spread(column, rank, bits)
            part |= np.left_shift(spread, dim, out=spread)
    return codes


def _encode_bits(coords: npt.NDArray[Any], codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Interleave bit by bit: for codes that use bit 63, which the signed tables leave out."""
    rank = coords.shape[1]
    for position in range(64):
        bit, dim = divmod(position, rank)
        column = coords[:, dim].astype(np.uint64)
        codes |= ((column >> np.uint64(bit)) & np.uint64(1)) << np.uint64(position)
    return codes


@functools.lru_cache(maxsize=16)
def _compact_table(rank: int) -> npt.NDArray[np.uint64]:
    """Return the table from some whole levels of code bits to all coordinates, packed as fields of ``64 // rank``."""
    levels = _TABLE_BITS // rank
    field = 64 // rank
    codes = np.arange(1 << (levels * rank), dtype=np.uint64)
    table = np.zeros(len(codes), np.uint64)
    for level, dim in itertools.product(range(levels), range(rank)):
        bit = (codes >> np.uint64(level * rank + dim)) & np.uint64(1)
        table |= bit << np.uint64(dim * field + level)
    table.flags.writeable = False
    return table


def morton_decode(codes: npt.NDArray[np.uint64], rank: int) -> npt.NDArray[np.int64]:
    """Return the point of each Morton code; the inverse of `morton_encode`.

    Parameters
    ----------
    codes
        uint64, 1-D, n codes.
    rank
        Number of coordinates, 1 to 64. A single coordinate must fit int64.

    Returns
    -------
    int64 array, (n, rank).

    Format: layouts, morton.
    """
    if codes.ndim != 1 or rank < 1:
        raise ValueError(f"expected 1-D codes and a rank of at least 1, not shape {codes.shape} and rank {rank}")
    points = np.zeros((len(codes), rank), np.int64)
    if not len(codes):
        return points
    code_bits = int(codes.max()).bit_length()
    if rank == 1:
        points[:, 0] = codes.view(np.int64)
        return points
    if rank > _TABLE_BITS // 2:
        for position in range(code_bits):
            bit, dim = divmod(position, rank)
            points[:, dim] |= (((codes >> np.uint64(position)) & np.uint64(1)) << np.uint64(bit)).view(np.int64)
        return points
    for start in range(0, len(codes), _POINTS):
        _decode_block(codes[start : start + _POINTS], code_bits, points[start : start + _POINTS])
    return points


def _decode_block(codes: npt.NDArray[np.uint64], code_bits: int, points: npt.NDArray[np.int64]) -> None:
    """Decode one block of codes through the packed table."""
    rank = points.shape[1]
    table = _compact_table(rank)
    levels = _TABLE_BITS // rank
    field = 64 // rank
    chunk_mask = np.uint64((1 << (levels * rank)) - 1)
    packed = table[codes & chunk_mask]
    for chunk in range(1, -(-code_bits // (levels * rank))):
        more = table[(codes >> np.uint64(chunk * levels * rank)) & chunk_mask]
        # Fields hold 64 // rank bits, exactly the most a 64-bit code gives each coordinate that has no partial level
        # on top; the partial top level of the first coordinates is added below, so bits never cross into a neighbour.
        keep = min(levels, field - chunk * levels)
        if keep < levels:
            more = _keep_levels(more, rank, field, max(keep, 0))
        packed |= more << np.uint64(chunk * levels)
    field_mask = np.uint64((1 << field) - 1)
    for dim in range(rank):
        points[:, dim] = (packed >> np.uint64(dim * field)) & field_mask
    for position in range(field * rank, code_bits):
        bit = (codes >> np.uint64(position)) & np.uint64(1)
        points[:, position - field * rank] |= (bit << np.uint64(field)).view(np.int64)


def _keep_levels(packed: npt.NDArray[np.uint64], rank: int, field: int, levels: int) -> npt.NDArray[np.uint64]:
    """Clear all but the lowest ``levels`` bits of every field."""
    mask = sum(((1 << levels) - 1) << (dim * field) for dim in range(rank))
    return packed & np.uint64(mask)


def morton_extent(shape: Sequence[int], bits: Sequence[int]) -> int:
    """Return how many elements Morton storage of a shape has: ``2**sum(bits)``, or more when a code in use is greater.

    Python integers throughout; with unequal bits the interleaving leaves gaps, so codes can pass ``2**sum(bits)``.
    """
    rank = len(shape)
    if 0 in shape:
        return 0
    greatest = 0
    for dim, extent in enumerate(shape):
        # The greatest code takes the greatest index of every dimension: spreading bits is monotonic.
        index = extent - 1
        greatest += sum(1 << (bit * rank + dim) for bit in range(index.bit_length()) if index >> bit & 1)
    return max(1 << sum(bits), greatest + 1)


def to_morton(codes: npt.NDArray[Any], bits: Sequence[int], out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """Return a logical array in Morton order, gaps filled with zeros.

    Parameters
    ----------
    codes
        Array of any dtype and memory order, rank at least 1; ``shape[k] <= 2**bits[k]``.
    bits
        Bits of each coordinate.
    out
        1-D contiguous array of at least `morton_extent` elements, zero where no element goes; made when absent.

    Format: layouts, morton.
    """
    if out is None:
        out = np.zeros(morton_extent(codes.shape, bits), codes.dtype)
    _relayout(codes, out, store=True)
    return out


def from_morton(
    linear: Any, shape: Sequence[int], out: npt.NDArray[Any] | None = None, *, first: int = 0
) -> npt.NDArray[Any]:
    """Return the logical array stored in Morton order; the inverse of `to_morton`.

    Parameters
    ----------
    linear
        1-D contiguous array that reaches the greatest code of the shape, or anything that slices and picks like one.
    shape
        Extents of the result, rank at least 1.
    out
        Array of ``linear``'s dtype and the given shape, of any memory order; made when absent.
    first
        Where the result begins along the first dimension.

    Format: layouts, morton.
    """
    if out is None:
        out = np.empty(tuple(shape), linear.dtype)
    elif out.shape != tuple(shape):
        raise ValueError(f"out must have shape {tuple(shape)}, not {out.shape}")
    _relayout(out, linear, store=False, first=first)
    return out


def _relayout(logical: npt.NDArray[Any], linear: Any, *, store: bool, first: int = 0) -> None:
    """Copy between logical and Morton order, cube by cube; cubes cut off by an edge go element by element."""
    rank = logical.ndim
    if not logical.size:
        return
    # Cubes larger than the array would only be edges.
    cube_bits = min(_BLOCK_BITS // rank, min(logical.shape).bit_length() - 1) if rank <= _MAX_CELL_RANK else 0
    # Cubes are aligned, so they are no larger than what divides the place where they start.
    cube_bits = min(cube_bits, (first & -first).bit_length() - 1) if first else cube_bits
    if rank == 1 or cube_bits < 2:
        _gather_box(logical, linear, [first] + [0] * (rank - 1), store=store)
        return
    side = 1 << cube_bits
    move = _CubeCopy(rank, cube_bits, logical.dtype)
    starts = [first] + [0] * (rank - 1)
    axes = [range(start, start + extent, side) for start, extent in zip(starts, logical.shape, strict=True)]
    terms = [morton_axis_codes(np.array(axis), rank, dim, 63).tolist() for dim, axis in enumerate(axes)]
    for corner, places in zip(itertools.product(*axes), itertools.product(*terms), strict=True):
        cube = logical[tuple(slice(at - start, at - start + side) for at, start in zip(corner, starts, strict=True))]
        place = sum(places)
        if cube.size < side**rank:
            _gather_box(cube, linear, corner, store=store)
        elif store:
            move.store(cube, linear[place : place + side**rank])
        else:
            move.load(linear[place : place + side**rank], cube)


class _CubeCopy:
    """Copies one aligned cube, with scratch space that is reused from cube to cube."""

    def __init__(self, rank: int, cube_bits: int, dtype: np.dtype[Any]) -> None:
        half = 1 << (cube_bits - 1)
        cells_of_cube: npt.NDArray[np.int64] = np.zeros((), np.int64)
        for dim in range(rank):
            cells_of_cube = cells_of_cube[..., None] + morton_axis_codes(np.arange(half), rank, dim, cube_bits)
        self._position_of_cell = cells_of_cube.reshape(-1)
        self._cell_at_position = np.argsort(self._position_of_cell)
        self._scratch = np.empty((half**rank, 1 << rank), dtype)
        cells = self._scratch.reshape((half,) * rank + (1 << rank,))
        # Corner number c of a cell has bit d set when it is the odd one along dimension d: the lowest code bits.
        self._corners = [
            (cells[..., c], tuple(slice(c >> d & 1, None, 2) for d in range(rank))) for c in range(1 << rank)
        ]

    def store(self, cube: npt.NDArray[Any], stored: npt.NDArray[Any]) -> None:
        for corner, every_other in self._corners:
            corner[...] = cube[every_other]
        # mode="clip" only avoids take's buffered bounds check; the table is a permutation.
        np.take(self._scratch, self._cell_at_position, axis=0, out=stored.reshape(self._scratch.shape), mode="clip")

    def load(self, stored: npt.NDArray[Any], cube: npt.NDArray[Any]) -> None:
        np.take(stored.reshape(self._scratch.shape), self._position_of_cell, axis=0, out=self._scratch, mode="clip")
        for corner, every_other in self._corners:
            cube[every_other] = corner


def _gather_box(
    logical: npt.NDArray[Any],
    linear: Any,
    starts: Sequence[int],
    *,
    store: bool,
    base: int = 0,
    dim: int = 0,
) -> None:
    """Copy a box element by element through computed codes, a bounded number of them at a time."""
    rank = len(starts)
    lead = morton_axis_codes(np.arange(starts[dim], starts[dim] + logical.shape[0]), rank, dim, 63) + base
    row = math.prod(logical.shape[1:])
    if row > _POINTS:
        for index, term in enumerate(lead.tolist()):
            _gather_box(logical[index], linear, starts, store=store, base=term, dim=dim + 1)
        return
    tail: npt.NDArray[np.int64] = np.zeros((), np.int64)
    for other in range(dim + 1, rank):
        indices = np.arange(starts[other], starts[other] + logical.shape[other - dim])
        tail = tail[..., None] + morton_axis_codes(indices, rank, other, 63)
    block = max(1, _POINTS // row)
    for start in range(0, logical.shape[0], block):
        codes = lead[start : start + block].reshape([-1] + [1] * tail.ndim) + tail
        if store:
            linear[codes] = logical[start : start + block]
        else:
            logical[start : start + block] = linear[codes]
