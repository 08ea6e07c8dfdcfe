"""Forming a tensor: buffers as byte views, and declared sizes against shape, layout and scheme.

Format: README, three moments of checking (the second); layouts, least sizes; quantization, exact sizes.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.model import Descriptor
from hurray.errors import ArgumentTypeError, BufferError, BufferTypeError, InvalidDescriptorError
from hurray.quantization._base import Scheme

__all__ = ["as_bytes_view", "as_copy", "check_sizes", "is_plain", "read_only"]

Bytes = NDArray[np.uint8]


def read_only(array: NDArray[Any]) -> Bytes:
    """Return a contiguous array's memory as a read-only 1-D uint8 view that keeps the array alive."""
    if array.ndim == 1 and array.dtype == np.uint8:
        if not array.flags.writeable:
            return array
        view: Bytes = array.view()
    else:
        view = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
    if view.flags.writeable:
        # A flag alone could be set again by whoever holds the view; behind a read-only memoryview it cannot.
        locked = memoryview(view).toreadonly()  # type: ignore[arg-type]
        view = np.frombuffer(locked, np.uint8) if view.size else np.empty(0, np.uint8)
        view.flags.writeable = False
    return view


def as_bytes_view(buffer: Any, what: str) -> Bytes:
    """Return any bytes-like object or C-contiguous array as a read-only 1-D uint8 view, without a copy.

    Raises
    ------
    BufferError
        The object has no memory to share (a TypeError as well), or its memory is not contiguous.
    """
    if isinstance(buffer, np.ndarray):
        if buffer.dtype.hasobject:
            raise BufferTypeError(f"{what}: an array of Python objects ({buffer.dtype}) has no bytes to store")
        if not buffer.flags.c_contiguous:
            raise BufferError(f"{what}: the array is not C-contiguous; use hurray.from_numpy, or copy it first")
        if buffer.dtype.itemsize > 1 and not buffer.dtype.isnative and buffer.size:
            raise BufferError(f"{what}: the array is in foreign byte order ({buffer.dtype.str}); use hurray.from_numpy")
        return read_only(np.asarray(buffer))
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, builtins.BufferError) as error:
        kind = type(buffer).__name__
        raise BufferTypeError(f"{what}: a bytes-like object or array is needed, not {kind} ({error})") from None
    if not view.c_contiguous:
        raise BufferError(f"{what}: the memory is not C-contiguous")
    if view.nbytes == 0:
        return np.empty(0, np.uint8)
    return read_only(np.frombuffer(view, np.uint8))


def as_copy(copy: Any) -> bool | None:
    """Return a ``copy`` argument as None, True or False; NumPy's own False, say of a comparison, is False too.

    Raises
    ------
    TypeError
        Anything else: 0 and "no" would be taken for what they are not.
    """
    if copy is None or copy is True or copy is False:
        return copy
    if isinstance(copy, np.bool_):
        return bool(copy)
    raise ArgumentTypeError(f"copy is a bool or None, not {copy!r}")


def is_plain(descriptor: Descriptor) -> bool:
    """Tell in little time that a row-major tensor with one whole-byte buffer has room for its elements."""
    if descriptor.layout.tag != 1 or descriptor.quantization is not None or len(descriptor.buffer_handles) != 1:
        return False
    n_bits = descriptor.dtype.bit_width
    if n_bits < 8:
        return False
    for n in descriptor.shape:
        if n is None:
            return False
        n_bits *= n
    return n_bits < 2**64 and descriptor.byte_offset + n_bits // 8 <= descriptor.buffer_handles[0].byte_size


def check_sizes(descriptor: Descriptor, sizes: Sequence[int]) -> None:
    """Check the sizes of a tensor's buffers against its shape, layout and scheme.

    Nothing is checked for opaque layouts and unknown element types, or when a dimension is dynamic: no size follows.

    Raises
    ------
    BufferError
        A buffer is too small, or a parameter buffer has not the exact size; role, size and need are named.
    """
    shape = descriptor.shape
    if descriptor.layout.kind == "opaque" or None in shape or not descriptor.element_bits:
        return
    known: tuple[int, ...] = tuple(shape)  # type: ignore[arg-type]
    specs = descriptor.layout.specs(known, descriptor.element_bits, descriptor.byte_offset)
    if len(sizes) < len(specs):
        raise InvalidDescriptorError(
            f"a {descriptor.layout.name} layout needs {len(specs)} buffers, but there are {len(sizes)}"
        )
    for k, spec in enumerate(specs):
        if sizes[k] < spec.n_bytes or (spec.exact and sizes[k] != spec.n_bytes):
            entries = f"; its entries are uint{spec.index_bits}" if spec.index_bits else ""
            raise BufferError(
                f"buffer {k} ({spec.role}) has {sizes[k]} bytes, but {descriptor.layout.name} {descriptor.dtype} of "
                f"shape {shape} needs {'exactly' if spec.exact else 'at least'} {spec.n_bytes}{entries}"
            )
    if isinstance(descriptor.quantization, Scheme):
        for param in descriptor.quantization.param_specs(known, descriptor.layout):
            if sizes[param.index] != param.n_bytes:
                raise BufferError(
                    f"buffer {param.index} ({param.role}) has {sizes[param.index]} bytes, but "
                    f"{descriptor.quantization.name} of shape {shape} needs exactly {param.n_bytes}"
                )
