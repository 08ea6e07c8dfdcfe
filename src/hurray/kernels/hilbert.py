"""Hilbert curve indices (Skilling's transform), and copies of whole arrays along the curve.

Skilling's transform works on one bit level at a time, from the top, and what it has done to the lower bits of the
coordinates at any moment is a permutation of the axes, a reflection of some of them, and one parity that inverts the
index bits. That is a finite state: each level reads one bit of every coordinate, emits ``rank`` bits of the index and
moves to the next state. So the states are explored from the transform itself, states that behave alike are merged
(four remain for two dimensions), and tables of several levels at once replace the loop over bits. The state in which
a curve starts does not depend on its order, and leading zero levels only cycle through a few states, so one table of
``k`` levels serves every order: the coordinates are padded on top and the start state is chosen to land right.

Beyond rank 4 the tables outgrow the cache and Skilling's loop, vectorised over points, takes over.

Whole arrays go cube by cube: an aligned cube of ``2**k`` along every dimension is contiguous along the curve, and how
it is walked depends on the state in which the curve enters it, so one small table for each state permutes it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_MAX_TABLE_RANK = 4
# Points handled at a time, so that the temporaries of a pass stay in the second-level cache.
_POINTS = 16384
# Levels read by one table look-up, and levels in one cube of a whole-array copy, by rank.
_LOOKUP_LEVELS = {2: 7, 3: 4, 4: 2}
_CUBE_LEVELS = {2: 7, 3: 4, 4: 3}

_State = tuple[tuple[int, ...], tuple[int, ...], int]


def _step(state: _State, bits: Sequence[int]) -> tuple[int, _State]:
    """Run one level of Skilling's transform: the index digit it emits and the state of the levels below.

    ``state`` is (axis that each transformed coordinate comes from, whether it is inverted, parity of the index bits).
    """
    axes, flips = list(state[0]), list(state[1])
    rank = len(bits)
    x = [bits[axis] ^ flip for axis, flip in zip(axes, flips, strict=True)]
    for i in range(rank):
        if x[i]:
            flips[0] ^= 1
        else:
            axes[0], axes[i] = axes[i], axes[0]
            flips[0], flips[i] = flips[i], flips[0]
    for i in range(1, rank):
        x[i] ^= x[i - 1]
    digit = 0
    for bit in x:
        digit = digit << 1 | (bit ^ state[2])
    return digit, (tuple(axes), tuple(flips), state[2] ^ x[-1])


class _Machine(NamedTuple):
    """One level of the curve: arrays over (state, coordinate bits), coordinate 0 being the highest of the bits."""

    digit: npt.NDArray[np.int64]
    following: npt.NDArray[np.int64]
    zero_cycle: list[int]


@functools.lru_cache(maxsize=8)
def _machine(rank: int) -> _Machine:
    """Explore the states of Skilling's transform and merge those that behave alike; the start is state 0."""
    start: _State = (tuple(range(rank)), (0,) * rank, 0)
    numbers: dict[_State, int] = {start: 0}
    order = [start]
    rows: list[list[tuple[int, int]]] = []
    for state in order:
        row = []
        for bits in itertools.product((0, 1), repeat=rank):
            digit, target = _step(state, bits)
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
            row.append((digit, numbers[target]))
        rows.append(row)
    # Two states are one when they emit the same digits and their successors are one: refine until nothing splits.
    classes = [0] * len(rows)
    while True:
        seen: dict[tuple[tuple[int, int], ...], int] = {}
        refined = [seen.setdefault(tuple((d, classes[t]) for d, t in row), len(seen)) for row in rows]
        if len(seen) == len(set(classes)):
            break
        classes = refined
    # Numbering by first appearance keeps the start at 0.
    chosen = {classes[index]: rows[index] for index in range(len(rows) - 1, -1, -1)}
    table = [chosen[number] for number in range(len(chosen))]
    digit_table = np.array([[d for d, _ in row] for row in table], np.int64)
    following = np.array([[classes[t] for _, t in row] for row in table], np.int64)
    cycle = [0]
    while (target_class := int(following[cycle[-1], 0])) != 0:
        cycle.append(target_class)
    return _Machine(digit_table, following, cycle)


def _start_state(machine: _Machine, padding: int) -> int:
    """Return the state from which ``padding`` levels of zero bits lead to the start of the curve."""
    return machine.zero_cycle[-padding % len(machine.zero_cycle)]


class _Tables(NamedTuple):
    """Several levels at once, over ``state << (rank * levels) | key``.

    ``encode``: the key is the coordinates' bits side by side (coordinate 0 highest), the entry is
    ``next state << (rank * levels) | index digits``. ``decode`` is its inverse in each state.
    """

    encode: npt.NDArray[np.int64]
    decode: npt.NDArray[np.int64]


@functools.lru_cache(maxsize=16)
def _tables(rank: int, levels: int) -> _Tables:
    """Compose the machine of one level into tables of several."""
    machine = _machine(rank)
    n_states = len(machine.digit)
    keys = np.arange(1 << (rank * levels), dtype=np.int64)
    state = np.repeat(np.arange(n_states, dtype=np.int64)[:, None], len(keys), axis=1)
    digits = np.zeros_like(state)
    for level in range(levels - 1, -1, -1):
        bits = np.zeros_like(keys)
        for dim in range(rank):
            bits = bits << 1 | (keys >> ((rank - 1 - dim) * levels + level)) & 1
        digits = digits << rank | machine.digit[state, bits]
        state = machine.following[state, bits]
    width = rank * levels
    decode = np.empty_like(digits)
    np.put_along_axis(decode, digits, state << width | keys, axis=1)
    tables = _Tables((state << width | digits).reshape(-1), decode.reshape(-1))
    for table in tables:
        table.flags.writeable = False
    return tables


def hilbert_encode(coords: npt.NDArray[Any], order: int) -> npt.NDArray[np.uint64]:
    """Return the position along the curve of each point.

    Parameters
    ----------
    coords
        (n, rank) array of integers in ``0 .. 2**order - 1``, rank at least 2.
    order
        Bits of a coordinate; ``rank * order`` is at most 64.

    Returns
    -------
    uint64 array of n positions.

    Raises
    ------
    ValueError
        The array is not (n, rank) or an index would not fit 64 bits.

    Format: layouts, hilbert.
    """
    rank = coords.shape[1] if coords.ndim == 2 else 0
    _check(rank, order)
    index = np.empty(coords.shape[0], np.uint64)
    block = _encode_tables if rank <= _MAX_TABLE_RANK else _encode_loop
    for start in range(0, len(index), _POINTS):
        index[start : start + _POINTS] = block(coords[start : start + _POINTS], order)
    return index


def hilbert_decode(index: npt.NDArray[np.uint64], rank: int, order: int) -> npt.NDArray[np.int64]:
    """Return the point at each position along the curve; the inverse of `hilbert_encode`.

    Parameters
    ----------
    index
        uint64, 1-D, each in ``0 .. 2**(rank * order) - 1``.
    rank
        Number of coordinates, at least 2.
    order
        Bits of a coordinate; ``rank * order`` is at most 64.

    Returns
    -------
    int64 array, (n, rank).

    Raises
    ------
    ValueError
        The index is not 1-D or does not fit 64 bits.

    Format: layouts, hilbert.
    """
    _check(rank, order)
    if index.ndim != 1:
        raise ValueError(f"expected a 1-D index, not shape {index.shape}")
    points = np.empty((len(index), rank), np.int64)
    block = _decode_tables if rank <= _MAX_TABLE_RANK else _decode_loop
    for start in range(0, len(index), _POINTS):
        block(index[start : start + _POINTS], order, points[start : start + _POINTS])
    return points


def _check(rank: int, order: int) -> None:
    if rank < 2 or order < 1 or rank * order > 64:
        raise ValueError(f"a Hilbert index of rank {rank} and order {order} is not possible in 64 bits")


def _encode_tables(coords: npt.NDArray[Any], order: int) -> npt.NDArray[np.uint64]:
    rank = coords.shape[1]
    levels = _LOOKUP_LEVELS[rank]
    width = rank * levels
    table = _tables(rank, levels).encode
    columns = [coords[:, dim].astype(np.int64) for dim in range(rank)]
    chunks = -(-order // levels)
    state = np.full(len(coords), _start_state(_machine(rank), chunks * levels - order) << width, np.int64)
    index = np.zeros(len(coords), np.int64)
    side_mask, width_mask = (1 << levels) - 1, (1 << width) - 1
    for chunk in range(chunks - 1, -1, -1):
        key = state
        for dim, column in enumerate(columns):
            bits = (column >> (chunk * levels)) if chunk else column
            bits = bits & side_mask
            key |= np.left_shift(bits, (rank - 1 - dim) * levels, out=bits)
        entry = np.take(table, key, mode="clip")
        index <<= width
        index |= entry & width_mask
        state = np.bitwise_and(entry, ~width_mask, out=entry)
    return index.view(np.uint64)


def _decode_tables(index: npt.NDArray[np.uint64], order: int, points: npt.NDArray[np.int64]) -> None:
    rank = points.shape[1]
    levels = _LOOKUP_LEVELS[rank]
    width = rank * levels
    table = _tables(rank, levels).decode
    chunks = -(-order // levels)
    state = np.full(len(index), _start_state(_machine(rank), chunks * levels - order) << width, np.int64)
    side_mask, width_mask = (1 << levels) - 1, (1 << width) - 1
    columns = [np.zeros(len(index), np.int64) for _ in range(rank)]
    for chunk in range(chunks - 1, -1, -1):
        # Unsigned until the digits are cut out: bit 63 of an index is a digit, not a sign.
        key = (index >> np.uint64(chunk * width)).view(np.int64)
        key &= width_mask
        key |= state
        entry = np.take(table, key, mode="clip")
        for dim, column in enumerate(columns):
            column <<= levels
            shift = (rank - 1 - dim) * levels
            column |= ((entry >> shift) if shift else entry) & side_mask
        state = np.bitwise_and(entry, ~width_mask, out=entry)
    for dim, column in enumerate(columns):
        points[:, dim] = column


def _exchange(x: list[npt.NDArray[np.int64]], level: int, dims: Sequence[int]) -> None:
    """Invert or swap the bits below ``level``, as the transform's first step says; each step undoes itself."""
    below = (1 << level) - 1
    for i in dims:
        inverts = -((x[i] >> level) & 1)
        swapped = (x[0] ^ x[i]) & below & ~inverts
        x[0] ^= swapped | (inverts & below)
        if i:
            x[i] ^= swapped


def _encode_loop(coords: npt.NDArray[Any], order: int) -> npt.NDArray[np.uint64]:
    """Apply Skilling's transform to a block of points of any rank, one bit after the other."""
    rank = coords.shape[1]
    x = [coords[:, dim].astype(np.int64) for dim in range(rank)]
    for level in range(order - 1, 0, -1):
        _exchange(x, level, range(rank))
    for i in range(1, rank):
        x[i] ^= x[i - 1]
    # Bit b becomes the parity of the bits above b.
    parity = x[-1] >> 1
    shift = 1
    while shift < order:
        parity ^= parity >> shift
        shift <<= 1
    index = np.zeros(len(coords), np.uint64)
    for level, dim in itertools.product(range(order), range(rank)):
        bit = ((x[dim] ^ parity) >> level) & 1
        index |= bit.view(np.uint64) << np.uint64(level * rank + rank - 1 - dim)
    return index


def _decode_loop(index: npt.NDArray[np.uint64], order: int, points: npt.NDArray[np.int64]) -> None:
    """Undo Skilling's transform: the steps of `_encode_loop` backwards."""
    rank = points.shape[1]
    x = [np.zeros(len(index), np.int64) for _ in range(rank)]
    for level, dim in itertools.product(range(order), range(rank)):
        bit = (index >> np.uint64(level * rank + rank - 1 - dim)) & np.uint64(1)
        x[dim] |= bit.view(np.int64) << level
    # The running parity was mixed into the very bits it is the parity of, so one shift gives it back.
    parity = x[-1] >> 1
    for i in range(rank):
        x[i] ^= parity
    for i in range(rank - 1, 0, -1):
        x[i] ^= x[i - 1]
    for level in range(1, order):
        _exchange(x, level, range(rank - 1, -1, -1))
    for dim in range(rank):
        points[:, dim] = x[dim]


def to_hilbert(array: npt.NDArray[Any], order: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """Return a logical array in the order of the curve.

    Parameters
    ----------
    array
        Array of any dtype and memory order, every extent ``2**order``, rank at least 2.
    order
        Bits of a coordinate.
    out
        1-D contiguous array of the same size and dtype; made when absent.

    Raises
    ------
    ValueError
        The array is no such cube.

    Format: layouts, hilbert.
    """
    _check(array.ndim, order)
    if array.shape != (1 << order,) * array.ndim:
        raise ValueError(f"a Hilbert curve of order {order} fills extents of {1 << order}, not {array.shape}")
    if out is None:
        out = np.empty(array.size, array.dtype)
    _relayout(array, out, order, store=True)
    return out


def cube_side(rank: int, order: int) -> int | None:
    """Return the extent of the cubes by which arrays are copied, or None for ranks that are copied point by point."""
    return 1 << min(order, _CUBE_LEVELS[rank]) if rank <= _MAX_TABLE_RANK else None


def from_hilbert(
    linear: Any, rank: int, order: int, out: npt.NDArray[Any] | None = None, *, first: int = 0
) -> npt.NDArray[Any]:
    """Return the logical array stored in the order of the curve; the inverse of `to_hilbert`.

    Parameters
    ----------
    linear
        1-D contiguous array of at least ``2**(rank * order)`` elements, or anything that slices like one.
    rank
        Number of dimensions, at least 2.
    order
        Bits of a coordinate.
    out
        Array of ``linear``'s dtype, every extent ``2**order``, of any memory order; made when absent.  It may have
        fewer rows, a multiple of :func:`cube_side` where there is one: those from ``first`` on.
    first
        Where ``out`` begins along the first dimension, also such a multiple.

    Raises
    ------
    ValueError
        ``out`` is no such part of the cube.

    Format: layouts, hilbert.
    """
    _check(rank, order)
    shape = (1 << order,) * rank
    if out is None:
        out = np.empty(shape, linear.dtype)
    side = cube_side(rank, order) or shape[0]
    if out.shape[1:] != shape[1:] or len(out) % side or first % side or not 0 <= first <= shape[0] - len(out):
        raise ValueError(f"out must have shape {shape} or be rows of it, {side} or a multiple, not {out.shape}")
    _relayout(out, linear, order, store=False, first=first)
    return out


def _walk(rank: int, order: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return, along a whole curve, the points (n, rank) and the state in which the curve enters each cell."""
    machine = _machine(rank)
    bits_of_digit = np.argsort(machine.digit, axis=1)
    shifts = np.arange(rank - 1, -1, -1)
    state = np.zeros(1, np.int64)
    points = np.zeros((1, rank), np.int64)
    for _ in range(order):
        bits = bits_of_digit[state]
        points = (points[:, None, :] << 1 | (bits[:, :, None] >> shifts) & 1).reshape(-1, rank)
        state = machine.following[state[:, None], bits].reshape(-1)
    return points, state


def _relayout(array: npt.NDArray[Any], linear: Any, order: int, *, store: bool, first: int = 0) -> None:
    """Copy between logical and curve order, cube by cube, each through scratch space and the table of its state."""
    rank = array.ndim
    if rank > _MAX_TABLE_RANK:
        _relayout_points(array, linear, order, store=store)
        return
    levels = min(order, _CUBE_LEVELS[rank])
    side, size = 1 << levels, 1 << (rank * levels)
    tables = _tables(rank, levels)
    # Coordinates side by side are row-major offsets in the cube: the tables are the permutations, one row a state.
    permutations = ((tables.decode if store else tables.encode) & (size - 1)).reshape(-1, size)
    cube_scratch = np.empty((side,) * rank, array.dtype)
    scratch = cube_scratch.reshape(-1)
    points, states = _walk(rank, order - levels)
    corners = points * side
    corners[:, 0] -= first
    wanted = np.flatnonzero((corners[:, 0] >= 0) & (corners[:, 0] < len(array)))
    for number in wanted.tolist():
        corner, state = corners[number].tolist(), int(states[number])
        cube = array[tuple(slice(start, start + side) for start in corner)]
        stored = linear[number * size : (number + 1) * size]
        # mode="clip" only avoids take's buffered bounds check; each row of the table is a permutation.
        if store:
            cube_scratch[...] = cube
            np.take(scratch, permutations[state], out=stored, mode="clip")
        else:
            np.take(stored, permutations[state], out=scratch, mode="clip")
            cube[...] = cube_scratch


def _relayout_points(array: npt.NDArray[Any], linear: npt.NDArray[Any], order: int, *, store: bool) -> None:
    """Copy between logical and curve order through decoded positions, a bounded number of them at a time."""
    for start in range(0, array.size, _POINTS):
        positions = np.arange(start, min(start + _POINTS, array.size), dtype=np.uint64)
        places = tuple(hilbert_decode(positions, array.ndim, order).T)
        if store:
            linear[start : start + len(positions)] = array[places]
        else:
            array[places] = linear[start : start + len(positions)]
