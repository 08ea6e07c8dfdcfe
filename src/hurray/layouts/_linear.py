"""What the reordered dense layouts (tiled, morton, hilbert) share: sizes, boxes and blank storage.

Format: layouts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hurray.errors import BufferError, UnsupportedError
from hurray.kernels import bits as bit_kernels
from hurray.layouts._base import BufferSpec, Codes, Layout, Payload, empty_codes
from hurray.layouts._region import Region, is_full
from hurray.limits import DEFAULT_LIMITS

__all__ = ["PackedCodes", "blank", "box_starts", "data_spec", "leading_rows", "output", "require"]


def data_spec(n_elems: int, bits: int, byte_offset: int) -> tuple[BufferSpec, ...]:
    """Return the specification of one data buffer of ``n_elems`` elements behind the byte offset.

    Raises
    ------
    BufferError
        The size does not fit 64 bits.
    """
    n_bytes = byte_offset + bit_kernels.packed_nbytes(n_elems, bits)
    if n_bytes >= 2**64:
        raise BufferError(f"the layout stores {n_elems} elements, more bytes than 64 bits count")
    return (BufferSpec("data", n_bytes),)


def require(layout: Layout, payload: Payload) -> None:
    """Refuse a payload whose data buffer is smaller than the layout needs."""
    (spec,) = layout.specs(payload.shape, payload.bits, payload.byte_offset)
    held = len(payload.buffers[0])
    if held < spec.n_bytes:
        raise BufferError(f"buffer 0 holds {held} bytes, layout {layout.name!r} needs {spec.n_bytes}")


def box_starts(region: Region) -> list[int] | None:
    """Return where a region of consecutive indices begins along each dimension, or None for any other region."""
    starts = []
    for axis in region:
        if not isinstance(axis, range) or (axis.step != 1 and len(axis) > 1):
            return None
        starts.append(axis.start)
    return starts


def leading_rows(region: Region, shape: tuple[int, ...]) -> range | None:
    """Return the rows of a region of consecutive whole rows (all of every dimension but the first), or None."""
    rows = region[0] if region else None
    if not isinstance(rows, range) or rows.step != 1 or not rows or not is_full(region[1:], shape[1:]):
        return None
    return rows


class PackedCodes:
    """The elements of a data buffer as a 1-D array that is unpacked only where it is read."""

    def __init__(self, payload: Payload) -> None:
        self._payload = payload

    def __getitem__(self, key: Any) -> Codes:
        if isinstance(key, slice):
            return self._payload.linear(key.stop - key.start, start=key.start)
        return self._payload.take(key)


def output(layout: Layout, payload: Payload, shape: tuple[int, ...]) -> Codes:
    """Return an uninitialised array for elements read; a zero stride can make a few bytes stand for any number.

    Raises
    ------
    UnsupportedError
        The array is larger than both the buffer and what a dense array may take, or NumPy cannot make it.
    """
    n_elems = math.prod(shape)
    if n_elems > payload.capacity() and n_elems * payload.storage.itemsize > DEFAULT_LIMITS.max_dense_bytes:
        raise UnsupportedError(f"layout {layout.name!r}: an array of shape {shape} is too large to be made")
    return empty_codes(shape, payload.storage)


def blank(n_elems: int, dtype: np.dtype[Any], name: str) -> Codes:
    """Return zeroed storage for a layout to write to.

    Raises
    ------
    UnsupportedError
        Padding makes the storage larger than memory reasonably holds.
    """
    n_bytes = n_elems * dtype.itemsize
    message = f"layout {name!r} would need {n_bytes} bytes for these elements, most of it padding"
    if n_bytes > DEFAULT_LIMITS.max_dense_bytes:
        raise UnsupportedError(message)
    try:
        return np.zeros(n_elems, dtype)
    except MemoryError:
        raise UnsupportedError(message) from None
