"""NumPy-style keys brought into regions.

A key is split in two: a region (one range or index array per dimension, which layouts can read without touching more)
and a second key that NumPy applies to the block that was read.  Because the second key keeps the kind of every entry,
NumPy's own rules decide where the axes of integer arrays go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.errors import UnsupportedError
from hurray.layouts._region import Axis, Region

__all__ = ["Selection", "select"]

_I64_MAX = 2**63 - 1


class Selection(NamedTuple):
    """What a key asks for.

    ``region`` is to be read, and ``finish`` applied to the block that comes back; ``finish`` None means the block is
    the answer already.  When ``points`` is set, the key picks single elements: coordinates of shape (n, rank), and
    ``point_shape`` is the shape of the answer.
    """

    region: Region
    finish: tuple[Any, ...] | None
    points: NDArray[np.int64] | None = None
    point_shape: tuple[int, ...] = ()


def select(key: Any, shape: Sequence[int]) -> Selection:
    """Split a NumPy-style key for an array of ``shape``.

    Raises
    ------
    IndexError
        Where NumPy raises it: too many indices, an index out of bounds, an index of a wrong type.
    """
    entries = _expand(key, len(shape))
    region: list[Axis] = []
    finish: list[Any] = []
    arrays: list[NDArray[np.int64]] = []
    trivial = True
    axis = 0
    for entry in entries:
        if entry is None:
            finish.append(None)
            trivial = False
            continue
        if entry is Ellipsis:
            finish.append(entry)
            continue
        n = shape[axis]
        if isinstance(entry, slice):
            region.append(_slice_range(entry, n))
            finish.append(slice(None))
        elif isinstance(entry, np.ndarray):
            index = _checked(entry, n, axis)
            unique, inverse = np.unique(index, return_inverse=True)
            region.append(unique.astype(np.int64, copy=False))
            finish.append(inverse.reshape(index.shape))
            arrays.append(index)
            trivial = False
        else:
            at = _checked_int(entry, n, axis)
            region.append(range(at, at + 1))
            finish.append(0)
            arrays.append(np.asarray(at, np.int64))
            trivial = False
        axis += 1
    if not entries:
        trivial = False  # () picks the one number of an array without dimensions, ... the array
    points = _as_points(entries, arrays, len(shape))
    if points is not None:
        return Selection(tuple(region), None, *points)
    if _has_ellipsis(key) and all(isinstance(entry, int) for entry in entries):
        # With an ellipsis even a single element comes back as an array, of no dimensions.
        return Selection(tuple(region), (*finish, Ellipsis))
    return Selection(tuple(region), None if trivial else tuple(finish))


def _has_ellipsis(key: Any) -> bool:
    return any(item is Ellipsis for item in (key if isinstance(key, tuple) else (key,)))


def _expand(key: Any, rank: int) -> list[Any]:
    """Return the entries of a key with the ellipsis and missing dimensions filled in and masks made index arrays."""
    items = list(key) if isinstance(key, tuple) else [key]
    entries: list[Any] = []
    ellipsis_at = -1
    for item in items:
        if item is Ellipsis:
            if ellipsis_at >= 0:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis_at = len(entries)
        elif item is None or isinstance(item, slice):
            entries.append(item)
        elif isinstance(item, (bool, np.bool_)):
            raise IndexError("a single boolean is no index; use a boolean array of the dimension's length")
        elif not isinstance(item, (list, tuple, np.ndarray)) and hasattr(item, "__index__"):
            entries.append(int(item.__index__()))
        else:
            entries.extend(_index_arrays(item))
    consumed = sum(entry is not None for entry in entries)
    if consumed > rank:
        raise IndexError(f"too many indices: the tensor is {rank}-dimensional, but {consumed} were indexed")
    fill = [slice(None)] * (rank - consumed)
    at = len(entries) if ellipsis_at < 0 else ellipsis_at
    # An ellipsis that stands for no dimension still separates: NumPy then puts the axes of index arrays first.
    entries[at:at] = fill if fill or ellipsis_at < 0 else [Ellipsis]
    return entries


def _index_arrays(item: Any) -> list[Any]:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise IndexError(f"an index is no array: {error}") from None
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        return [_mask_array(index, extent) for index, extent in zip(array.nonzero(), array.shape, strict=True)]
    if array.dtype.kind not in "iu":
        raise IndexError(
            f"an index is an integer, a slice, an ellipsis, None, or an array of integers or booleans, "
            f"not {type(item).__name__} of {array.dtype}"
        )
    if array.ndim == 0:
        return [int(array)]
    return [array]


class _MaskArray(np.ndarray[Any, Any]):
    """Index array that came from a boolean mask; remembers the mask's extent."""

    extent: int


def _mask_array(index: NDArray[Any], extent: int) -> NDArray[Any]:
    view = index.view(_MaskArray)
    view.extent = extent
    return view


def _slice_range(entry: slice, n: int) -> range:
    try:
        return range(*entry.indices(n))
    except TypeError:
        raise IndexError(f"the parts of a slice are integers or None: {entry}") from None
    except ValueError as error:
        raise IndexError(str(error)) from None


def _checked_int(index: int, n: int, axis: int) -> int:
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {n}")
    return _countable(index + n if index < 0 else index, axis)


def _countable(index: int, axis: int) -> int:
    if index > _I64_MAX:
        raise UnsupportedError(f"index {index} of axis {axis} is beyond what NumPy can count")
    return index


def _checked(entry: NDArray[Any], n: int, axis: int) -> NDArray[np.int64]:
    extent = getattr(entry, "extent", n)
    if extent != n:
        raise IndexError(f"a boolean index has extent {extent} along axis {axis}, but the size is {n}")
    index = np.asarray(entry)
    if index.size and index.dtype.kind == "u" and int(index.max()) >= 2**63:
        raise IndexError(f"index {int(index.max())} is out of bounds for axis {axis} with size {n}")
    index = index.astype(np.int64, copy=False)
    if not index.size:
        return index
    low, high = int(index.min()), int(index.max())
    if low < -n or high >= n:
        raise IndexError(f"index {low if low < -n else high} is out of bounds for axis {axis} with size {n}")
    if low >= 0:
        return index
    _countable(n - 1, axis)
    return np.where(index < 0, index + n, index)


def _as_points(
    entries: list[Any], arrays: list[NDArray[np.int64]], rank: int
) -> tuple[NDArray[np.int64], tuple[int, ...]] | None:
    """Return coordinates when every dimension has an integer or an array and at least two have arrays."""
    if len(arrays) != rank or any(entry is None for entry in entries) or sum(a.ndim > 0 for a in arrays) < 2:
        return None
    try:
        together = np.broadcast_arrays(*arrays)
    except ValueError as error:
        raise IndexError(f"index arrays do not fit together: {error}") from None
    shape = together[0].shape
    return np.stack([a.reshape(-1) for a in together], axis=1), shape
