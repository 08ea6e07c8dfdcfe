"""Regions: which indices of each dimension a read wants.

A region has one entry per dimension, a ``range`` (any step) or a 1-D int64 array of indices in bounds, and stands for
their outer product.  NumPy-style keys are brought into this form by ``hurray.tensor.indexing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hurray.errors import UnsupportedError

__all__ = [
    "Axis",
    "Region",
    "axis_array",
    "axis_bounds",
    "full_region",
    "index_view",
    "is_full",
    "region_shape",
    "region_size",
]

Axis: TypeAlias = "range | NDArray[np.int64]"
Region: TypeAlias = "tuple[Axis, ...]"


def full_region(shape: Sequence[int]) -> Region:
    """Return the region that is the whole of ``shape``."""
    return tuple(range(n) for n in shape)


def region_shape(region: Region) -> tuple[int, ...]:
    """Return the shape of what reading ``region`` gives."""
    return tuple(_axis_length(axis) for axis in region)


def _axis_length(axis: Axis) -> int:
    try:
        return len(axis)
    except OverflowError:  # legal beside a dimension of length 0, but no NumPy array has it
        raise UnsupportedError(f"{axis!r}: more indices than NumPy can count") from None


def region_size(region: Region) -> int:
    """Return the number of elements of ``region``."""
    size = 1
    for axis in region:
        size *= _axis_length(axis)
    return size


def is_full(region: Region, shape: Sequence[int]) -> bool:
    """Tell whether ``region`` is all of ``shape``, in order."""
    return all(isinstance(axis, range) and axis == range(n) for axis, n in zip(region, shape, strict=True))


def axis_array(axis: Axis) -> NDArray[np.int64]:
    """Return the indices of one axis as a 1-D int64 array."""
    if isinstance(axis, range):
        try:
            return np.arange(axis.start, axis.stop, axis.step, dtype=np.int64)
        except (MemoryError, OverflowError, ValueError):
            raise UnsupportedError(f"{axis!r}: indices beyond what NumPy can hold") from None
    return axis


def axis_bounds(axis: Axis) -> tuple[int, int]:
    """Return the smallest index of a non-empty axis and one more than the largest."""
    if isinstance(axis, range):
        return min(axis[0], axis[-1]), max(axis[0], axis[-1]) + 1
    return int(axis.min()), int(axis.max()) + 1


def _axis_slice(axis: range) -> slice:
    if not axis:
        return slice(0, 0)
    last = axis[-1]
    if axis.step > 0:
        return slice(axis.start, last + 1, axis.step)
    return slice(axis.start, last - 1 if last > 0 else None, axis.step)


def index_view(array: NDArray[Any], region: Region) -> NDArray[Any]:
    """Read ``region`` of an array: a view when every axis is a range, else a copy."""
    if not region:
        return array  # indexed with (), it would be a scalar
    result = array[tuple(_axis_slice(axis) if isinstance(axis, range) else slice(None) for axis in region)]
    for k, axis in enumerate(region):
        if not isinstance(axis, range):
            # take() is the faster way, but it first copies the whole of any array that is not contiguous.
            quick = result.flags.c_contiguous and result.flags.aligned
            result = result.take(axis, axis=k) if quick else result[(slice(None),) * k + (axis,)]
    return result
