"""Memory for tensors: aligned arrays, and how many bytes elements take.

Format: types, packing; descriptor, buffer handle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import UnsupportedError
from hurray.kernels.bits import packed_nbytes
from hurray.layouts._base import as_int

__all__ = ["aligned_allocator", "aligned_empty", "buffer_size_bytes"]

_ALIGN = 64


def aligned_empty(n_bytes: int) -> NDArray[np.uint8]:
    """Return new uninitialised memory, 1-D uint8, that starts at a multiple of 64 bytes."""
    raw: NDArray[np.uint8] = np.empty(n_bytes + _ALIGN, np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + n_bytes]


@contextmanager
def aligned_allocator() -> Iterator[Any]:
    """Make arrays aligned to 64 bytes inside a ``with`` block.

    The block's object is a function like ``numpy.empty`` whose arrays start at a multiple of 64 bytes.  Tensors take
    arrays of any alignment without a copy, so the block is a convenience, never a need.

    Examples
    --------
    >>> import hurray
    >>> with hurray.aligned_allocator() as empty:
    ...     a = empty((3, 4), "float32")
    >>> a.ctypes.data % 64
    0
    """

    def allocate(shape: Any, dtype: Any = np.float64) -> NDArray[Any]:
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        n_elems = 1
        for n in dims:
            n_elems *= int(n)
        array: NDArray[Any] = aligned_empty(n_elems * kind.itemsize).view(kind).reshape(dims)
        return array

    yield allocate


def buffer_size_bytes(dtype: Dtype, count: int) -> int:
    """Return the bytes of a buffer that holds ``count`` elements of ``dtype``.

    Format: types, packing.
    """
    if not isinstance(dtype, Dtype):
        raise TypeError(f"dtype is a hurray.Dtype, not {type(dtype).__name__}")
    if dtype.is_opaque:
        raise UnsupportedError("a private or unknown dtype has no width of its own; use ExtensionType.buffer_size_bytes")
    return packed_nbytes(as_int(count, "count"), dtype.bit_width)
