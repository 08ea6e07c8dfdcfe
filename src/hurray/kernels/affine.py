"""Affine quantization: ``x = scale * (q - zero_point)`` and back.

Parameters come in the broadcast form of :mod:`hurray.kernels.scaling`; per-tensor, per-channel and per-block schemes
differ only in that form. For codes of up to 16 bits every difference is an integer that float32 holds exactly, so
it is taken there; 32-bit codes take it in int64.

Format: quantization, formulas; quantizing, affine.
"""

from __future__ import annotations

from _thread import allocate_lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.kernels.scaling import (
    Array,
    Chunk,
    Float32,
    ScaleRangeError,
    ScaleType,
    as_float32,
    first_non_finite,
    for_each_chunk,
    n_blocks,
    output,
    reduce_blocks,
    round_scales,
    widen_scales,
)

__all__ = ["AffineCodes", "code_range", "dequantize_affine", "encode_affine", "quantize_affine"]

Int32 = NDArray[np.int32]

_SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}
#: smallest normal scale of each type: below it, a scale may be rounded by much
_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}
#: from one scale to the next, in the bits of a float32
_STEP = {"float16": 1 << 13, "bfloat16": 1 << 16, "float32": 1}
_LARGEST = float(np.finfo(np.float32).max)


class AffineCodes(NamedTuple):
    """Codes and parameters.

    ``codes`` has the shape of the input and the storage type (sub-byte codes: uint8 bit patterns). ``scale`` is
    float32, already rounded to the scale type, ``zero_point`` int32 or None; both are in broadcast form.
    """

    codes: Array
    scale: Float32
    zero_point: Int32 | None


def code_range(bits: int, signed: bool) -> tuple[int, int]:
    """Return the least and the greatest integer of ``bits`` bits.

    Examples
    --------
    >>> code_range(4, True)
    (-8, 7)
    """
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def storage_dtype(bits: int, signed: bool) -> np.dtype[Any]:
    """Return the NumPy dtype of a code array: sub-byte codes are uint8 bit patterns."""
    return np.dtype("u1") if bits < 8 else np.dtype(f"<{'i' if signed else 'u'}{bits // 8}")


def dequantize_affine(
    codes: Array,
    bits: int,
    signed: bool,
    scale: Float32,
    zero_point: Int32 | None = None,
    *,
    axis: int = 0,
    block_size: int = 1,
    out: Float32 | None = None,
    workers: int | None = None,
) -> Float32:
    """Return ``scale * (codes - zero_point)`` in float32.

    Parameters
    ----------
    codes
        Codes of any shape and strides; sub-byte ones as uint8 bit patterns.
    bits, signed
        The integer type of the codes: 2, 4, 8, 16 or 32 bits.
    scale
        float32 in broadcast form.
    zero_point
        int32 in broadcast form, or None for 0.
    axis, block_size
        How the parameters spread over the codes.
    out
        Optional float32 array of the shape of ``codes`` to write to.
    workers
        Number of threads; by default one for small inputs.

    Examples
    --------
    >>> dequantize_affine(np.array([1, 15], np.uint8), 4, True, np.full(1, 0.5, np.float32))
    array([ 0.5, -0.5], dtype=float32)
    """
    result = output(out, codes.shape)
    offset = None if zero_point is None else zero_point.astype(np.int64 if bits > 16 else np.float32)
    half = np.int8(1 << (bits - 1)) if bits < 8 else np.int8(0)

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        q, values = chunk
        # Parameters of another axis than the last lie far apart; a small copy spares the formula the strides.
        compact: list[Any] = [p if p is None else np.asarray(p, order="C") for p in params]
        multiplier, shift = compact
        if bits < 8 and signed:
            q = (q.view(np.int8) ^ half) - half
        if bits > 16 and shift is not None:
            q = np.subtract(q, shift, dtype=np.int64)
        np.copyto(values, q, casting="unsafe")
        if bits <= 16 and shift is not None:
            np.subtract(values, shift, out=values)
        np.multiply(multiplier, values, out=values)

    for_each_chunk(work, (codes, result), (scale, offset), axis=axis, block_size=block_size, workers=workers)
    return result


# Quantizing


def quantize_affine(
    x: Array,
    bits: int,
    signed: bool,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    symmetric: bool = True,
    scale_type: ScaleType = "float32",
    workers: int | None = None,
) -> AffineCodes:
    """Choose scales and zero points for real numbers and round these to codes.

    Symmetric: ``scale = absmax / qmax``. Asymmetric: ``scale = (max - min) / (qmax - qmin)`` over a range widened to
    hold zero, which gets a code of its own. A block of zeros gets scale 1.

    Parameters
    ----------
    x
        Real numbers of any shape, dtype and strides; they are rounded to float32 first.
    bits, signed
        The integer type of the codes.
    axis, block_size
        None and None: one scale for all; an axis alone: one for each of its indices; both: one for each run of
        ``block_size`` elements along the axis.
    symmetric
        Whether the zero point is 0 everywhere.
    scale_type
        What the scales are rounded to before they are used.
    workers
        Number of threads; by default one for small inputs.

    Raises
    ------
    NonFiniteError
        If a number is not finite in float32.
    ScaleRangeError
        If a scale is beyond ``scale_type``, or a negative number meets symmetric unsigned codes.
    """
    blocked = axis is not None and block_size is not None
    params_shape = tuple(
        n_blocks(n, block_size or 1) if k == axis else (n if blocked else 1) for k, n in enumerate(x.shape)
    )
    codes = np.empty(x.shape, storage_dtype(bits, signed))
    if blocked:
        scale = np.ones(params_shape, np.float32)
        zero_point = None if symmetric else np.zeros(params_shape, np.int32)
        assert axis is not None
        _quantize_blocks(x, codes, scale, zero_point, bits, signed, axis, block_size or 1, scale_type, workers)
        return AffineCodes(codes, scale, zero_point)
    low, high = _extremes(x, axis, params_shape, workers)
    scale, zero_point = _params(low, high, bits, signed, symmetric, scale_type)
    encode_affine(x, bits, signed, scale, zero_point, out=codes, workers=workers)
    return AffineCodes(codes, scale, zero_point)


def encode_affine(
    x: Array,
    bits: int,
    signed: bool,
    scale: Float32,
    zero_point: Int32 | None = None,
    *,
    axis: int = 0,
    block_size: int = 1,
    out: Array | None = None,
    workers: int | None = None,
) -> Array:
    """Return ``clamp(round_half_even(x / scale) + zero_point)`` as codes, for given parameters.

    The arguments are those of :func:`quantize_affine` and :func:`dequantize_affine`; ``out`` is an array of the
    storage type and the shape of ``x``. ``x`` is finite.
    """
    codes = np.empty(x.shape, storage_dtype(bits, signed)) if out is None else out

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        _encode(as_float32(chunk[0]), chunk[1], params[0], params[1], bits, signed)

    for_each_chunk(work, (x, codes), (scale, zero_point), axis=axis, block_size=block_size, workers=workers)
    return codes


def _encode(
    x: Float32,
    codes: Array,
    scale: Float32,
    zero_point: Int32 | None,
    bits: int,
    signed: bool,
    largest: Float32 | None = None,
) -> None:
    """Write the codes of a chunk; ``largest`` bounds the magnitudes that share each scale, where it is known."""
    least, greatest = code_range(bits, signed)
    steps: Array = np.asarray(np.divide(x, scale))
    np.rint(steps, out=steps)
    if scale.size and float(scale.max()) > _LARGEST / (2 << bits):
        # Only codes whose values float32 still holds.
        most = np.floor(_LARGEST / scale.astype(np.float64)).astype(np.float32)
        np.clip(steps, -most, most, out=steps)
    if bits > 16:
        # float32 cannot hold the limits of 32-bit codes; what it rounded to is an integer either way.
        steps = steps.astype(np.float64)
    if zero_point is not None:
        np.add(steps, zero_point, out=steps, casting="unsafe")
    # A quarter step of room: then no magnitude can round beyond the greatest code, and clamping has nothing to do.
    if largest is None or bits > 16 or zero_point is not None or not (largest / scale < greatest + 0.25).all():
        np.clip(steps, least, greatest, out=steps)
    if bits >= 8:
        np.copyto(codes, steps, casting="unsafe")
        return
    np.copyto(codes.view(np.int8), steps, casting="unsafe")
    np.bitwise_and(codes, np.uint8((1 << bits) - 1), out=codes)


def _quantize_blocks(
    x: Array,
    codes: Array,
    scale: Float32,
    zero_point: Int32 | None,
    bits: int,
    signed: bool,
    axis: int,
    block_size: int,
    scale_type: ScaleType,
    workers: int | None,
) -> None:
    """Fill codes and parameters block by block: extremes, parameters and codes while a chunk is in the cache."""
    symmetric = zero_point is None
    unsplit = block_size == 1

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        numbers = as_float32(chunk[0])
        # A partial last block has no dimension of its own: it lies along `axis`, and so do blocks of one element.
        along = axis + 1 if numbers.ndim > x.ndim else axis
        if symmetric and signed:
            high = np.abs(numbers) if unsplit else reduce_blocks(np.maximum, np.abs(numbers), along)
            low = high
        elif unsplit:
            low = high = numbers
        else:
            low = reduce_blocks(np.minimum, numbers, along)
            high = reduce_blocks(np.maximum, numbers, along)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise first_non_finite(x) or AssertionError("an extreme is not finite")
        params[0][...], offsets = _params(low, high, bits, signed, symmetric, scale_type)
        if params[1] is not None:
            params[1][...] = offsets
        _encode(numbers, chunk[1], params[0], params[1], bits, signed, high if signed and symmetric else None)

    for_each_chunk(
        work,
        (x, codes),
        (scale, zero_point),
        axis=axis,
        block_size=block_size,
        keep_blocks=True,
        workers=workers,
    )


def _extremes(
    x: Array, axis: int | None, params_shape: tuple[int, ...], workers: int | None
) -> tuple[Float32, Float32]:
    """Return the least and the greatest number of all, or for each index of ``axis``, in broadcast form."""
    low = np.zeros(params_shape, np.float32)
    high = np.zeros(params_shape, np.float32)
    others = tuple(k for k in range(x.ndim) if k != axis)
    # The module behind `threading`, which costs a millisecond to import that most programs need not pay.
    lock = allocate_lock()

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        numbers = as_float32(chunk[0])
        chunk_low = np.min(numbers, axis=others, keepdims=True)
        chunk_high = np.max(numbers, axis=others, keepdims=True)
        # Two chunks may share channels, so the merge is not left to chance.
        with lock:
            np.minimum(params[0], chunk_low, out=params[0])
            np.maximum(params[1], chunk_high, out=params[1])

    for_each_chunk(work, (x,), (low, high), workers=workers)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise first_non_finite(x) or AssertionError("an extreme is not finite")
    return low, high


def _params(
    low: Float32, high: Float32, bits: int, signed: bool, symmetric: bool, scale_type: ScaleType
) -> tuple[Float32, Int32 | None]:
    """Return scales (rounded to the scale type) and zero points for ranges of numbers."""
    least, greatest = code_range(bits, signed)
    if symmetric:
        if not signed and bool((low < 0).any()):
            raise ScaleRangeError("symmetric unsigned codes cannot hold negative numbers")
        span: Array = np.maximum(np.abs(low), high)
        exact: Array = span / np.float32(greatest)
    else:
        low = np.minimum(low, np.float32(0))
        span = np.maximum(high, np.float32(0)).astype(np.float64) - low
        # Zero points end at 2**31 - 1, so the minimum may need a wider scale with 32-bit unsigned codes.
        highest = min(greatest, 2**31 - 1)
        exact = np.maximum(span / (greatest - least), -low / np.float64(highest - least)).astype(np.float32)
    scale = widen_scales(round_scales(exact, scale_type), scale_type)
    if not np.isfinite(scale).all():
        raise ScaleRangeError(f"a scale of {float(exact.max())} does not fit {scale_type}")
    scale = np.where(span == 0, np.float32(1), np.maximum(scale, np.float32(_SMALLEST[scale_type])))
    small = scale < _NORMAL[scale_type]
    if small.any():
        # Rounded down, a subnormal scale would leave the largest numbers far beyond the last code.
        steps = span.astype(np.float64) / (greatest if symmetric else greatest - least)
        scale = np.where(small & (scale < steps), scale + np.float32(_SMALLEST[scale_type]), scale)
    if symmetric:
        # Rounded up, the largest scales would take the last code beyond float32.
        below = (scale.view(np.uint32) - np.uint32(_STEP[scale_type])).view(np.float32)
        return np.where(scale > _LARGEST / greatest, below, scale), None
    offset = np.clip(np.rint(least - low / scale.astype(np.float64)), least, highest)
    return scale, np.where(span == 0, 0, offset).astype(np.int32)
