"""Curve orders by whole-array formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["from_morton", "morton_index", "skilling_index", "to_morton"]

Array = NDArray[Any]


def _interleaved(bits: int) -> list[int]:
    """Return the order of the 2 x ... x 2 axes that makes the Z-order curve: the row's bit 0 is the lowest."""
    return [axis for level in range(bits) for axis in (bits + level, level)]


def to_morton(square: Array) -> Array:
    """Return the elements of a square of side ``2**bits`` along the Z-order curve."""
    bits = len(square).bit_length() - 1
    return np.ascontiguousarray(square.reshape((2,) * (2 * bits)).transpose(_interleaved(bits))).reshape(-1)


def from_morton(linear: Array) -> Array:
    """Return the square whose elements along the Z-order curve are given."""
    bits = (len(linear).bit_length() - 1) // 2
    back = np.argsort(_interleaved(bits))
    return np.ascontiguousarray(linear.reshape((2,) * (2 * bits)).transpose(back)).reshape(1 << bits, 1 << bits)


def morton_index(rows: Array, columns: Array) -> Array:
    """Return Z-order codes by the usual masks and shifts; indices of at most 16 bits."""
    codes: Array = _spread(rows) | _spread(columns) << np.uint64(1)
    return codes


def _spread(x: Array) -> Array:
    x = x.astype(np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        x = (x | x << np.uint64(shift)) & np.uint64(mask)
    return x


def skilling_index(rows: Array, columns: Array, order: int) -> Array:
    """Return positions along the Hilbert curve by Skilling's transform, one bit after the other over whole arrays."""
    x = [rows.astype(np.int64), columns.astype(np.int64)]
    for level in range(order - 1, 0, -1):
        low = (1 << level) - 1
        for i in range(2):
            invert = (x[i] >> level & 1).astype(np.bool_)
            swap = np.where(invert, 0, (x[0] ^ x[i]) & low)
            x[0] = np.where(invert, x[0] ^ low, x[0] ^ swap)
            x[i] = x[i] ^ swap if i else x[0]
    x[1] ^= x[0]
    mixed = np.zeros_like(x[1])
    for level in range(order - 1, 0, -1):
        mixed ^= np.where(x[1] >> level & 1, (1 << level) - 1, 0)
    index = np.zeros(x[0].shape, np.int64)
    for level in range(order):
        index |= ((x[0] ^ mixed) >> level & 1) << (2 * level + 1)
        index |= ((x[1] ^ mixed) >> level & 1) << (2 * level)
    return index
