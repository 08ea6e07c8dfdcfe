"""Compute with shapes and strides: sizes, reachable offsets, orders, offsets of index products.

Shapes and strides come from descriptors, so sizes are plain Python integers, which cannot overflow. All
strides count elements, not bytes.

Format: layouts, strided.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "checked_product",
    "col_major_strides",
    "extent",
    "is_col_major",
    "is_row_major",
    "linear_offsets",
    "row_major_strides",
]


def checked_product(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape as a Python int, exact at any size.

    Parameters
    ----------
    shape
        Dimension sizes. NumPy integers are converted first, so that they cannot wrap around.

    Examples
    --------
    >>> checked_product((1 << 40, 1 << 40)) == 1 << 80
    True
    """
    product = 1
    for size in shape:
        product *= int(size)
    return product


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense array whose last dimension varies fastest.

    A dimension of size 0 counts like one of size 1, so that strides never become 0.

    Parameters
    ----------
    shape
        Dimension sizes.

    Examples
    --------
    >>> row_major_strides((2, 3, 4))
    (12, 4, 1)
    """
    return _dense_strides(shape[::-1])[::-1]


def col_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense array whose first dimension varies fastest.

    A dimension of size 0 counts like one of size 1, so that strides never become 0.

    Parameters
    ----------
    shape
        Dimension sizes.

    Examples
    --------
    >>> col_major_strides((2, 3, 4))
    (1, 2, 6)
    """
    return _dense_strides(shape)


def extent(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the lowest and the highest linear offset that a strided array reaches.

    Parameters
    ----------
    shape
        Dimension sizes.
    strides
        Strides in elements, of any sign.

    Returns
    -------
    tuple of int
        Lowest and highest offset in elements, both included; ``(0, -1)`` for an empty array.

    Raises
    ------
    ValueError
        If the lengths differ.

    Notes
    -----
    Format: layouts, strided.

    Examples
    --------
    >>> extent((3, 2), (-2, 1))
    (-4, 1)
    """
    low = high = 0
    for size, stride in zip(shape, strides, strict=True):
        if size == 0:
            return 0, -1
        reach = (int(size) - 1) * int(stride)
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Tell whether strides describe a dense array whose last dimension varies fastest.

    Strides of dimensions of size 1 do not matter, and an empty array is in every order.

    Parameters
    ----------
    shape
        Dimension sizes.
    strides
        Strides in elements.

    Raises
    ------
    ValueError
        If the lengths differ.

    Examples
    --------
    >>> is_row_major((2, 1, 4), (4, 99, 1))
    True
    """
    return _is_dense(shape[::-1], strides[::-1])


def is_col_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Tell whether strides describe a dense array whose first dimension varies fastest.

    Strides of dimensions of size 1 do not matter, and an empty array is in every order.

    Parameters
    ----------
    shape
        Dimension sizes.
    strides
        Strides in elements.

    Raises
    ------
    ValueError
        If the lengths differ.

    Examples
    --------
    >>> is_col_major((2, 3), (1, 2))
    True
    """
    return _is_dense(shape, strides)


def linear_offsets(
    indices: Sequence[range | NDArray[np.integer]], strides: Sequence[int], start: int = 0
) -> NDArray[np.int64]:
    """Return the linear offsets of the product of one index list per dimension.

    Parameters
    ----------
    indices
        For each dimension a range or a one-dimensional integer array.
    strides
        Strides in elements. The caller guarantees that no offset leaves int64 (see `extent`).
    start
        Offset of index (0, ..., 0).

    Returns
    -------
    ndarray
        int64 array with one dimension for each entry of `indices`.

    Raises
    ------
    ValueError
        If the lengths differ.

    Examples
    --------
    >>> linear_offsets([range(2), np.array([0, 2])], (3, 1)).tolist()
    [[0, 2], [3, 5]]
    """
    # From the last dimension to the first: only the final sum is as large as the result.
    offsets = np.array(start, np.int64)
    for index, stride in zip(reversed(indices), reversed(strides), strict=True):
        steps = _steps(index, int(stride))
        offsets = steps.reshape(-1, *(1,) * offsets.ndim) + offsets
    return offsets


def _steps(index: range | NDArray[np.integer], stride: int) -> NDArray[np.int64]:
    """Return index * stride as int64."""
    if isinstance(index, range):
        # NumPy's own arithmetic, because a stride that only index 0 meets may be anything.
        steps = np.arange(index.start, index.stop, index.step, dtype=np.int64)
        steps *= np.int64(stride)
        return steps
    return index.astype(np.int64) * np.int64(stride)


def _dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return strides for the first dimension varying fastest."""
    strides = []
    step = 1
    for size in shape:
        strides.append(step)
        step *= max(int(size), 1)
    return tuple(strides)


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Tell whether strides are dense for the first dimension varying fastest."""
    step = 1
    dense = True
    for size, stride in zip(shape, strides, strict=True):
        if size == 0:
            return True
        if size != 1:
            dense = dense and stride == step
            step *= size
    return dense
