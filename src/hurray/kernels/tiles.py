"""Addresses and copies of (nested) tiled storage.

Every tiled order is separable: the linear offset of an element is a sum of one term for each dimension. With tile
extents ``T_0, T_1, ...`` from the outermost level inwards and one step (in elements) for each level plus one for the
position inside the innermost tile, the term of one dimension is::

    f(i) = (i // T_0) * step_0 + g(i % T_0),    g the same over the levels that remain,    last: i * step_last

So tiles in tiles, row-major, column-major and explicitly strided levels are all "tiles and steps", and the rest of
this file knows nothing else. Copies cut each dimension into *pieces* on which ``f`` is affine in a few loop indices
(a partial first tile, the whole tiles, a partial last tile); the product of the pieces of all dimensions is copied
by one strided assignment each. Nothing is padded or materialised on the way, and only in-bounds elements are touched.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# A strided assignment costs about as much as moving this many elements, so smaller pieces are gathered instead.
_WORTH_A_PIECE = 48
# Addresses computed at a time when elements are gathered one by one.
_GATHER_BLOCK = 65536


class Piece(NamedTuple):
    """A stretch of one dimension on which the address is affine: loops over ``extents``.

    ``logical`` and ``storage`` are the position of the first element, counted from the start of the range asked for
    and from element 0 of the storage. ``logical_steps`` and ``storage_steps`` are what one turn of each loop adds.
    """

    logical: int
    storage: int
    extents: tuple[int, ...]
    logical_steps: tuple[int, ...]
    storage_steps: tuple[int, ...]


def contiguous_steps(extents: Sequence[int], order: str, unit: int = 1) -> list[int]:
    """Return the step of each dimension of a packed block, in elements.

    Parameters
    ----------
    extents
        Size of the block along each dimension, in items.
    order
        ``"C"`` (last dimension fastest) or ``"F"`` (first dimension fastest).
    unit
        Elements in one item: 1 inside a tile, the tile's size for a grid of tiles.
    """
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    rank = len(extents)
    steps = [0] * rank
    for dim in range(rank) if order == "F" else range(rank - 1, -1, -1):
        steps[dim] = unit
        unit *= extents[dim]
    return steps


def packed_steps(shape: Sequence[int], tiles: Sequence[Sequence[int]], orders: Sequence[str]) -> list[list[int]]:
    """Return the steps of a tiled order without explicit strides, one list for each level (outermost first).

    ``tiles`` holds one tile shape for each level, ``orders`` one ``"C"`` or ``"F"`` for the grid of each level and one
    more for the inside of the innermost tile. Grids are rounded up, so edge tiles are whole.
    """
    if len(orders) != len(tiles) + 1:
        raise ValueError(f"{len(tiles)} levels of tiles need {len(tiles) + 1} orders, not {len(orders)}")
    steps = []
    outer = list(shape)
    for tile, order in zip(tiles, orders, strict=False):
        grid = [-(-n // t) for n, t in zip(outer, tile, strict=True)]
        steps.append(contiguous_steps(grid, order, math.prod(tile)))
        outer = list(tile)
    steps.append(contiguous_steps(outer, orders[-1]))
    return steps


def axis_offsets(indices: npt.NDArray[np.int64], tiles: Sequence[int], steps: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the address term of one dimension for an array of indices, in elements.

    Parameters
    ----------
    indices
        int64, any shape, non-negative.
    tiles
        Tile extent of this dimension at each level, outermost first.
    steps
        Elements per tile at each level, then per element inside the innermost tile. The caller has checked that the
        terms of the indices fit int64.

    Format: layouts, tiled.
    """
    total = np.zeros(indices.shape, np.int64)
    inside = indices
    for tile, step in zip(tiles, steps, strict=False):
        if tile > 0x7FFFFFFFFFFFFFFF:  # one tile holds every int64 index; NumPy could not even divide by it
            continue
        quotient, inside = np.divmod(inside, np.int64(tile))
        # A step counts only when some index uses it; a hostile one that is never used need not fit int64.
        if quotient.any():
            total += quotient * np.int64(step)
    if inside.any():
        total += inside * np.int64(steps[-1])
    return total


def axis_extremes(extent: int, tiles: Sequence[int], steps: Sequence[int]) -> tuple[int, int]:
    """Return the least and greatest address term over indices ``0 .. extent-1`` (Python integers, never wrapping).

    Looks at whole tiles and at the partial last tile only, so the cost does not depend on ``extent``.
    """
    if extent <= 0:
        return 0, 0
    if not tiles:
        last = (extent - 1) * steps[0]
        return min(0, last), max(0, last)
    tile, step = tiles[0], steps[0]
    whole, rest = divmod(extent, tile)
    lows, highs = [], []
    if whole:
        low, high = axis_extremes(tile, tiles[1:], steps[1:])
        far = (whole - 1) * step
        lows.append(low + min(0, far))
        highs.append(high + max(0, far))
    if rest:
        low, high = axis_extremes(rest, tiles[1:], steps[1:])
        lows.append(low + whole * step)
        highs.append(high + whole * step)
    return min(lows), max(highs)


def axis_pieces(start: int, stop: int, tiles: Sequence[int], steps: Sequence[int]) -> list[Piece]:
    """Cut the index range ``[start, stop)`` of one dimension into affine pieces, in increasing logical order."""
    if start >= stop:
        return []
    if not tiles:
        # Loops of one turn are left out, so 33 loops would mean 2**33 elements: NumPy's limit cannot be met.
        loop = (stop - start,) if stop - start > 1 else ()
        return [Piece(0, start * steps[0], loop, (1,) * len(loop), (steps[0],) * len(loop))]
    tile, step = tiles[0], steps[0]
    inner_tiles, inner_steps = tiles[1:], steps[1:]
    pieces: list[Piece] = []

    def add(first: int, count: int, low: int, high: int) -> None:
        """Append what lies at ``[low, high)`` inside each of ``count`` tiles from tile ``first`` on."""
        base = first * tile + low - start
        for piece in axis_pieces(low, high, inner_tiles, inner_steps):
            loops = (count,) if count > 1 else ()
            pieces.append(
                Piece(
                    base + piece.logical,
                    first * step + piece.storage,
                    loops + piece.extents,
                    (tile,) * len(loops) + piece.logical_steps,
                    (step,) * len(loops) + piece.storage_steps,
                )
            )

    first, skip = divmod(start, tile)
    last, rest = divmod(stop, tile)
    if first == last:
        add(first, 1, skip, rest)
        return pieces
    if skip:
        add(first, 1, skip, tile)
        first += 1
    if last > first:
        add(first, last - first, 0, tile)
    if rest:
        add(last, 1, 0, rest)
    return pieces


class _Cut(NamedTuple):
    """A piece with its steps in bytes; ``start`` is the index of its first element, ``logical`` the same in bytes."""

    extents: tuple[int, ...]
    start: int
    logical: int
    logical_strides: tuple[int, ...]
    storage: int
    storage_strides: tuple[int, ...]


def _cut(piece: Piece, stride: int, item: int) -> _Cut:
    """Express a piece in bytes, for a logical array of the given stride along its dimension."""
    return _Cut(
        piece.extents,
        piece.logical,
        piece.logical * stride,
        tuple([step * stride for step in piece.logical_steps]),
        piece.storage * item,
        tuple([step * item for step in piece.storage_steps]),
    )


def _transfer(
    linear: npt.NDArray[Any],
    offset: int,
    logical: npt.NDArray[Any],
    starts: Sequence[int],
    tiles: Sequence[Sequence[int]],
    steps: Sequence[Sequence[int]],
    *,
    store: bool,
) -> None:
    """Copy between a logical array and its place in storage, piece by piece."""
    rank = logical.ndim
    axis_tiles = [[level[dim] for level in tiles] for dim in range(rank)]
    axis_steps = [[level[dim] for level in steps] for dim in range(rank)]
    spans = list(zip(starts, logical.shape, axis_tiles, axis_steps, strict=True))
    pieces = [axis_pieces(start, start + n, t, s) for start, n, t, s in spans]
    if math.prod(map(len, pieces)) > max(8, logical.size // _WORTH_A_PIECE):
        terms = [axis_offsets(np.arange(start, start + n), t, s) for start, n, t, s in spans]
        _gather(linear, offset, logical, terms, store=store)
        return
    item = linear.dtype.itemsize
    cuts = [[_cut(p, stride, item) for p in found] for found, stride in zip(pieces, logical.strides, strict=True)]
    for parts in itertools.product(*cuts):
        extents: tuple[int, ...] = ()
        storage_strides: tuple[int, ...] = ()
        at = offset * item
        for part in parts:
            extents += part.extents
            storage_strides += part.storage_strides
            at += part.storage
        # NumPy refuses a view that leaves its buffer.
        stored: npt.NDArray[Any] = np.ndarray(extents, linear.dtype, linear.data, at, storage_strides)
        view = _logical(logical, parts, extents)
        if store:
            stored[...] = view
        else:
            view[...] = stored


def _logical(array: npt.NDArray[Any], parts: Sequence[_Cut], extents: tuple[int, ...]) -> npt.NDArray[Any]:
    """View the part of a logical array that the parts cover, one loop for each of their extents."""
    strides: tuple[int, ...] = ()
    at = 0
    for part in parts:
        strides += part.logical_strides
        at += part.logical
    if array.flags.c_contiguous:
        return np.ndarray(extents, array.dtype, array.data, at, strides)
    # The parts lie inside the array by construction (they were cut from its own extents).
    origin = array[tuple([slice(part.start, None) for part in parts])]
    return np.lib.stride_tricks.as_strided(origin, extents, strides)


def _gather(
    linear: npt.NDArray[Any], offset: int, logical: npt.NDArray[Any], terms: list[npt.NDArray[np.int64]], *, store: bool
) -> None:
    """Copy element by element through computed addresses, a bounded number of them at a time."""
    rank = len(terms)
    row = math.prod(logical.shape[1:])
    if row > _GATHER_BLOCK:
        for index, term in enumerate(terms[0].tolist()):
            _gather(linear, offset + term, logical[index], terms[1:], store=store)
        return
    tail: npt.NDArray[np.int64] = np.full((1,) * rank, offset, np.int64)
    for dim in range(1, rank):
        tail = tail + terms[dim].reshape([-1 if d == dim else 1 for d in range(rank)])
    block = max(1, _GATHER_BLOCK // row)
    for start in range(0, logical.shape[0], block):
        places = terms[0][start : start + block].reshape([-1] + [1] * (rank - 1)) + tail
        if store:
            linear[places] = logical[start : start + block]
        else:
            logical[start : start + block] = linear[places]


def read_tiles(
    linear: npt.NDArray[Any],
    offset: int,
    starts: Sequence[int],
    tiles: Sequence[Sequence[int]],
    steps: Sequence[Sequence[int]],
    out: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Copy the box of elements that begins at ``starts`` and has the shape of ``out`` out of tiled storage.

    Parameters
    ----------
    linear
        1-D contiguous array of stored elements.
    offset
        Position of element ``[0, ..., 0]`` in ``linear``, in elements.
    starts
        First index of the box along each dimension.
    tiles
        One tile shape for each level, outermost first; the extents are positive.
    steps
        One list of steps (elements) for each level and one for the innermost tile. The caller has checked that every
        element of the box lies inside ``linear``.
    out
        Array of ``linear``'s dtype, rank at least 1, of any memory order; returned.

    Format: layouts, tiled.
    """
    if out.size:
        _transfer(linear, offset, out, starts, tiles, steps, store=False)
    return out


def write_tiles(
    logical: npt.NDArray[Any],
    linear: npt.NDArray[Any],
    offset: int,
    tiles: Sequence[Sequence[int]],
    steps: Sequence[Sequence[int]],
) -> None:
    """Store a whole logical array in tiled order; the inverse of `read_tiles` with ``starts`` all zero.

    Elements of ``linear`` that hold no element of the array (the padding of edge tiles) are left alone.
    """
    if logical.size:
        _transfer(linear, offset, logical, [0] * logical.ndim, tiles, steps, store=True)


def to_tiles(
    codes: npt.NDArray[Any],
    tiles: Sequence[Sequence[int]],
    orders: Sequence[str],
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Return a logical array in tiled order, edge tiles whole and padded with zeros.

    Parameters
    ----------
    codes
        Array of any dtype, memory order and rank of at least 1.
    tiles
        One tile shape for each level, outermost first; an inner tile divides the tile around it.
    orders
        ``"C"`` or ``"F"`` for the grid of each level and for the inside of the innermost tile.
    out
        1-D contiguous array of ``prod(grid) * prod(tile)`` elements whose padding is already zero; made when absent.

    Format: layouts, tiled.
    """
    grid = [-(-n // t) for n, t in zip(codes.shape, tiles[0], strict=True)]
    n_elems = math.prod(grid) * math.prod(tiles[0])
    if out is None:
        padded = n_elems != codes.size
        out = np.zeros(n_elems, codes.dtype) if padded else np.empty(n_elems, codes.dtype)
    elif out.shape != (n_elems,):
        raise ValueError(f"out must be 1-D with {n_elems} elements, not {out.shape}")
    write_tiles(codes, out, 0, tiles, packed_steps(codes.shape, tiles, orders))
    return out


def from_tiles(
    linear: npt.NDArray[Any],
    shape: Sequence[int],
    tiles: Sequence[Sequence[int]],
    orders: Sequence[str],
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Return the logical array stored in tiled order; the inverse of `to_tiles`.

    ``linear`` is 1-D and contiguous with at least the elements `to_tiles` makes; padding is not read.
    """
    if out is None:
        out = np.empty(tuple(shape), linear.dtype)
    elif out.shape != tuple(shape):
        raise ValueError(f"out must have shape {tuple(shape)}, not {out.shape}")
    return read_tiles(linear, 0, [0] * out.ndim, tiles, packed_steps(shape, tiles, orders), out)
