"""NF4: sixteen fixed levels times the largest magnitude of a block.

Format: quantization, formulas, nf4; quantizing, nf4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hurray.kernels.scaling import (
    Array,
    Chunk,
    Float32,
    as_float32,
    first_non_finite,
    for_each_chunk,
    n_blocks,
    reduce_blocks,
)

__all__ = ["LEVELS", "nearest_levels", "quantize_nf4"]

#: float32 value of each of the sixteen codes, ascending
LEVELS: Float32 = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ],
    np.float32,
)
LEVELS.flags.writeable = False


def _thresholds() -> Float32:
    """Return for each code above 0 the least float32 that rounds to it or higher.

    The midpoint of two float32 is exact in float64. Numbers above it belong to the upper code, numbers below to
    the lower one, and the midpoint itself, if float32 has it, to the even one.
    """
    wide = LEVELS.astype(np.float64)
    middle = (wide[:-1] + wide[1:]) / 2
    near = middle.astype(np.float32)
    upper_is_even = np.arange(1, 16) % 2 == 0
    reached = (near > middle) | ((near == middle) & upper_is_even)
    return np.where(reached, near, np.nextafter(near, np.float32(np.inf)))


_THRESHOLDS = _thresholds()


def nearest_levels(x: Float32, out: Array | None = None) -> Array:
    """Return the code of the level nearest to each number (ties to the even code).

    Parameters
    ----------
    x
        float32 numbers, not NaN.
    out
        Optional uint8 array of the same shape to write to.

    Examples
    --------
    >>> nearest_levels(np.array([-1, -0.01, 0.9], np.float32))
    array([ 0,  7, 15], dtype=uint8)
    """
    codes = np.empty(x.shape, np.uint8) if out is None else out
    reached = np.empty(x.shape, np.bool_)
    np.greater_equal(x, _THRESHOLDS[0], out=codes.view(np.bool_))
    # Fifteen vector comparisons beat a binary search, whose branches no processor can foresee, by four times.
    for threshold in _THRESHOLDS[1:]:
        np.greater_equal(x, threshold, out=reached)
        np.add(codes, reached.view(np.uint8), out=codes)
    return codes


def quantize_nf4(x: Array, axis: int, block_size: int, *, workers: int | None = None) -> tuple[Array, Float32]:
    """Return NF4 codes (uint8) and one float32 scale per block, in broadcast form.

    The scale of a block is its largest magnitude, 0 for a block of zeros.

    Parameters
    ----------
    x
        Real numbers of any shape, dtype and strides; they are rounded to float32 first.
    axis, block_size
        One scale for each run of ``block_size`` (at least 2) elements along ``axis``.
    workers
        Number of threads; by default one for small inputs.

    Raises
    ------
    NonFiniteError
        If a number is not finite in float32.
    ValueError
        If the block size is below 2.
    """
    if block_size < 2:
        raise ValueError(f"a block has at least 2 elements, not {block_size}")
    codes = np.empty(x.shape, np.uint8)
    scale = np.zeros(tuple(n_blocks(n, block_size) if k == axis else n for k, n in enumerate(x.shape)), np.float32)

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        numbers = as_float32(chunk[0])
        along = axis + 1 if numbers.ndim > x.ndim else axis
        largest = reduce_blocks(np.maximum, np.abs(numbers), along)
        if not np.isfinite(largest).all():
            raise first_non_finite(x) or AssertionError("an extreme is not finite")
        params[0][...] = largest
        largest[largest == 0] = 1
        nearest_levels(np.divide(numbers, largest), out=chunk[1])

    for_each_chunk(work, (x, codes), (scale,), axis=axis, block_size=block_size, keep_blocks=True, workers=workers)
    return codes, scale
