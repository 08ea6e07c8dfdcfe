"""Checks that the schemes share: arguments, axis and block size, buffer indices, parameter values.

Format: quantization, limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.arguments import as_int
from hurray.errors import BufferError, InvalidDescriptorError
from hurray.kernels.affine import code_range
from hurray.quantization._base import UNSET_INDEX, Bytes, Float32, Scheme, SchemeContext

__all__ = [
    "as_u32",
    "buffer_index",
    "check_axis",
    "check_indices",
    "check_scales",
    "check_zero_points",
    "fit_block",
    "n_others",
    "param_array",
    "power_of_two",
    "refuse",
    "zero_point_range",
]

Int32 = NDArray[np.int32]


def as_u32(value: Any, what: str) -> int:
    """Return an argument that the wire has 32 unsigned bits for as a Python int."""
    return as_int(value, what, high=2**32 - 1)


def buffer_index(value: Any, what: str) -> int:
    """Return the index of a parameter buffer as a Python int; the value that means "none" is refused."""
    return as_int(value, what, high=UNSET_INDEX - 1)


def power_of_two(value: Any, low: int, high: int = 2**31) -> int:
    """Return a block size as a Python int: a power of two within ``low..high``."""
    size = as_u32(value, "block_size")
    if not low <= size <= high or size & (size - 1):
        upper = "" if high == 2**31 else f" and at most {high}"
        raise InvalidDescriptorError(f"block_size must be a power of two of at least {low}{upper}, but is {size}")
    return size


def check_axis(scheme: Scheme, axis: int, shape: Sequence[int | None]) -> int:
    """Return the size of the quantized axis, which must be there and not dynamic."""
    if axis >= len(shape):
        raise InvalidDescriptorError(f"scheme {scheme.name}: axis {axis} is outside a shape of rank {len(shape)}").at(
            field="quantization.axis"
        )
    n = shape[axis]
    if n is None:
        raise InvalidDescriptorError(f"scheme {scheme.name}: axis {axis} is dynamic").at(field="quantization.axis")
    return n


def fit_block(scheme: Scheme, block_size: int, n: int) -> None:
    """Check that blocks are not larger than a non-empty axis."""
    if n and block_size > n:
        raise InvalidDescriptorError(
            f"scheme {scheme.name}: block_size {block_size} exceeds the axis, which has {n}"
        ).at(field="quantization.block_size")


def check_indices(scheme: Scheme, context: SchemeContext, indices: dict[str, int]) -> None:
    """Check that indices name buffers behind the layout's own."""
    for what, index in indices.items():
        if index < context.layout_buffers:
            raise InvalidDescriptorError(f"scheme {scheme.name}: {what} {index} names a buffer of the layout").at(
                field=f"quantization.{what.removesuffix('_index')}"
            )
        if context.buffer_count is not None and index >= context.buffer_count:
            raise InvalidDescriptorError(
                f"scheme {scheme.name}: {what} {index} is outside a table of {context.buffer_count} buffers"
            ).at(field=f"quantization.{what.removesuffix('_index')}")


def n_others(shape: Sequence[int], axis: int) -> int:
    """Return the number of elements of a shape without one of its dimensions."""
    count = 1
    for k, n in enumerate(shape):
        if k != axis:
            count *= n
    return count


def param_array(
    scheme: Scheme, buffers: Sequence[Bytes], index: int, start: int, count: int, dtype: str
) -> NDArray[Any]:
    """Return ``count`` parameters from byte ``start`` of a buffer as a 1-D view.

    Raises
    ------
    BufferError
        The buffer is missing or too small.
    """
    kind = np.dtype(dtype)
    needed = start + count * kind.itemsize
    if index >= len(buffers) or len(buffers[index]) < needed:
        found = "is missing" if index >= len(buffers) else f"has {len(buffers[index])} bytes"
        raise BufferError(f"scheme {scheme.name}: parameter buffer {index} {found}, {needed} bytes are needed")
    if count == 0:
        return np.empty(0, kind)
    return np.ndarray((count,), kind, buffers[index], start)


def zero_point_range(bits: int, signed: bool) -> tuple[int, int]:
    """Return the zero points that an integer type allows; they are stored as i32 whatever the type."""
    low, high = code_range(bits, signed)
    return max(low, -(2**31)), min(high, 2**31 - 1)


def check_scales(scheme: Scheme, scales: Float32, what: str, places: Any = None) -> None:
    """Refuse scales that are not finite or are 0; ``places`` maps positions to the numbers that a message shows."""
    refuse(scheme, "scale", scales, ~(np.isfinite(scales) & (scales != 0)), "must be finite and non-zero", what, places)


def check_zero_points(
    scheme: Scheme, zeros: Int32 | None, bits: int, signed: bool, what: str, places: Any = None
) -> None:
    """Refuse zero points outside the storage type."""
    if zeros is None:
        return
    low, high = zero_point_range(bits, signed)
    refuse(scheme, "zero point", zeros, (zeros < low) | (zeros > high), f"must lie in {low}..{high}", what, places)


def refuse(
    scheme: Scheme, name: str, values: NDArray[Any], bad: NDArray[np.bool_], rule: str, what: str, places: Any
) -> None:
    """Raise an error that names the first bad value, if there is one."""
    if not bad.any():
        return
    position = np.unravel_index(int(bad.argmax()), bad.shape)
    shown = [int(k) for k in position]
    if places is not None:
        shown = [int(axis[k]) for axis, k in zip(places, shown, strict=True)]
    place = shown[0] if len(shown) == 1 else shown
    raise InvalidDescriptorError(f"scheme {scheme.name}: the {name} of {what} {place} is {values[position]}, it {rule}")
