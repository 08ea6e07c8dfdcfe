"""Memory for tensors: aligned arrays, and how many bytes elements take.

Format: types, packing; descriptor, buffer handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import BufferError, InvalidDescriptorError
from hurray.kernels.bits import packed_nbytes
from hurray.layouts._base import as_int
from hurray.sources._base import aligned_bytes
from hurray.tensor.allocator import restore_allocator, use_aligned_allocator

__all__ = ["AlignedAllocatorCtx", "aligned_allocator", "buffer_size_bytes"]


class AlignedAllocatorCtx:
    """Aligned NumPy arrays for the duration of a ``with`` block; what :func:`aligned_allocator` returns."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: list[object] = []

    def __enter__(self) -> Callable[..., NDArray[Any]]:
        self._before.append(use_aligned_allocator())
        return _allocate

    def __exit__(self, *exc_info: object) -> None:
        restore_allocator(self._before.pop())


def aligned_allocator() -> AlignedAllocatorCtx:
    """Make new NumPy arrays start at a multiple of 64 bytes inside a ``with`` block.

    The block's object is a function like ``numpy.empty`` that does so everywhere, also on platforms where NumPy's
    allocator stays as it is.  Tensors take arrays of any alignment without a copy, so this is a convenience, never a
    need.

    Examples
    --------
    >>> import hurray
    >>> with hurray.aligned_allocator() as empty:
    ...     a = empty((3, 4), "float32")
    >>> a.ctypes.data % 64
    0
    """
    return AlignedAllocatorCtx()


def _allocate(shape: Any, dtype: Any = np.float64) -> NDArray[Any]:
    dims = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    kind = np.dtype(dtype)
    n_elems = 1
    for n in dims:
        n_elems *= int(n)
    array: NDArray[Any] = aligned_bytes(n_elems * kind.itemsize).view(kind).reshape(dims)
    return array


def buffer_size_bytes(dtype: Dtype, count: int) -> int:
    """Return the bytes of a buffer that holds ``count`` elements of ``dtype``.

    Raises
    ------
    InvalidDescriptorError
        A private dtype, or a negative count.
    BufferError
        64 bits cannot count the bytes.

    Format: types, packing.
    """
    if not isinstance(dtype, Dtype):
        raise TypeError(f"dtype is a hurray.Dtype such as hurray.float32, not {type(dtype).__name__}")
    if dtype.is_opaque:
        raise InvalidDescriptorError(f"{dtype!r} has no width of its own; use ExtensionType.buffer_size_bytes")
    n_bytes = packed_nbytes(as_int(count, "count"), dtype.bit_width)
    if n_bytes >= 2**64:
        raise BufferError(f"{count} elements of {dtype} take {n_bytes} bytes, more than 64 bits count")
    return n_bytes
