"""MX formats: small elements that share a power of two.

A shared exponent divides out exactly, so elements are rounded once, by :mod:`hurray.kernels.minifloat` or to integers.

Format: quantization, formulas, mxfp; quantizing, mxfp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.kernels import minifloat
from hurray.kernels.scaling import Array, Chunk, Float32, as_float32, first_non_finite, for_each_chunk, reduce_blocks

__all__ = ["e8m0_values", "quantize_mx_float", "quantize_mx_int"]

U8Array = NDArray[np.uint8]

#: e8m0 code of the highest power of two that float32 has
_TOP = 254


def e8m0_values(codes: U8Array) -> Float32:
    """Return ``2 ** (code - 127)`` in float32; the codes 0 and 255 are no values and give 0 and infinity.

    Examples
    --------
    >>> e8m0_values(np.array([127, 130], np.uint8))
    array([1., 8.], dtype=float32)
    """
    return (codes.astype(np.uint32) << 23).view(np.float32)


def _inverse_e8m0(codes: U8Array) -> Float32:
    """Return ``2 ** (127 - code)`` for codes 1..254: exact, the last one as a subnormal."""
    exponent = 254 - codes.astype(np.int32)
    return np.where(exponent > 0, exponent << 23, 0x00400000).astype(np.int32).view(np.float32)


def _shared_exponents(numbers: Float32, along: int, emax: int, x: Array) -> U8Array:
    """Return ``floor(log2(absmax)) - emax`` of every block as e8m0 codes, clamped to 1..254."""
    largest = reduce_blocks(np.maximum, np.abs(numbers), along)
    exponent = (largest.view(np.int32) >> 23).astype(np.int32)
    if (exponent == 255).any():
        raise first_non_finite(x) or AssertionError("an extreme is not finite")
    # Zero and subnormals count as exponent 0; they are clamped to 1 whatever their true exponent.
    exponent -= emax
    return np.clip(exponent, 1, 254, out=exponent).astype(np.uint8)


def _outputs(x: Array, axis: int, block_size: int, dtype: str) -> tuple[Array, U8Array]:
    if block_size < 2 or x.shape[axis] % block_size:
        raise ValueError(f"axis {axis} of {x.shape} is no multiple of the block size {block_size}, at least 2")
    shape = tuple(n // block_size if k == axis else n for k, n in enumerate(x.shape))
    return np.empty(x.shape, dtype), np.empty(shape, np.uint8)


def quantize_mx_float(
    x: Array, name: str, emax: int, axis: int, block_size: int, *, workers: int | None = None
) -> tuple[U8Array, U8Array]:
    """Return small-float codes and one e8m0 code per block, in broadcast form.

    Parameters
    ----------
    x
        Real numbers of any shape, dtype and strides; they are rounded to float32 first.
    name
        Element type, as in :data:`hurray.kernels.minifloat.FORMATS`.
    emax
        Exponent of the largest power of two that the element type has.
    axis, block_size
        One shared exponent for each run of ``block_size`` (at least 2) elements along ``axis``, a multiple of it.
    workers
        Number of threads; by default one for small inputs.

    Raises
    ------
    NonFiniteError
        If a number is not finite in float32.
    """
    codes, scales = _outputs(x, axis, block_size, "u1")

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        numbers = as_float32(chunk[0])
        shared = _shared_exponents(numbers, axis + 1, emax, x)
        params[0][...] = shared
        minifloat.encode(np.multiply(numbers, _inverse_e8m0(shared)), name, out=chunk[1])

    for_each_chunk(work, (x, codes), (scales,), axis=axis, block_size=block_size, keep_blocks=True, workers=workers)
    return codes, scales


def quantize_mx_int(
    x: Array, bits: int, emax: int, axis: int, block_size: int, *, workers: int | None = None
) -> tuple[Array, U8Array]:
    """Return integer codes (int8, or uint8 patterns of 4 bits) and one e8m0 code per block, in broadcast form.

    Elements round to the nearest integer (ties to even) and saturate; ``bits`` is 8 or 4, and the other arguments are
    those of :func:`quantize_mx_float`.
    """
    codes, scales = _outputs(x, axis, block_size, "i1")
    limit = float(1 << (bits - 1))

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        numbers = as_float32(chunk[0])
        shared = _shared_exponents(numbers, axis + 1, emax, x)
        params[0][...] = shared
        steps = np.multiply(numbers, _inverse_e8m0(shared))
        np.rint(steps, out=steps)
        np.clip(steps, -limit, limit - 1, out=steps)
        if int(shared.max(initial=0)) >= _TOP - emax:
            # Under the highest exponent the least code would stand for -2**128, which float32 has not.
            np.maximum(steps, np.where(shared >= _TOP - emax, 1 - limit, -limit), out=steps, casting="same_kind")
        np.copyto(chunk[1], steps, casting="unsafe")

    for_each_chunk(work, (x, codes), (scales,), axis=axis, block_size=block_size, keep_blocks=True, workers=workers)
    if bits == 8:
        return codes, scales
    patterns = codes.view(np.uint8)
    np.bitwise_and(patterns, np.uint8((1 << bits) - 1), out=patterns)
    return patterns, scales
