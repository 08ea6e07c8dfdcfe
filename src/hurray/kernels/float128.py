"""Convert between IEEE binary128, which NumPy lacks, and float64.

Numbers are taken apart into two 64 bit halves and everything is integer arithmetic on whole blocks. The NumPy
type longdouble is of no use here: where it exists it usually has 80 bits.

Format: element types, float128.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["float64_to_float128", "float128_to_float64"]

U8Array = NDArray[np.uint8]
F64Array = NDArray[np.float64]

_BLOCK_ELEMS = 1 << 13

_FRACTION = np.uint64((1 << 52) - 1)
_SIGN = np.uint64(1 << 63)
_QUIET = np.uint64(1 << 51)
_INFINITY = np.uint64(0x7FF << 52)


def float128_to_float64(raw: U8Array, out: F64Array | None = None) -> F64Array:
    """Round IEEE binary128 numbers to float64, ties to even.

    Parameters
    ----------
    raw
        uint8 array of shape (..., 16), each number little-endian.
    out
        Optional float64 array of shape (...) to write to.

    Returns
    -------
    ndarray
        float64 array of shape (...); `out` when given. Too large magnitudes become infinity, small ones
        subnormal or zero. A NaN keeps its sign and the top 52 bits of its payload, and becomes quiet when
        those are zero.

    Raises
    ------
    ValueError
        If `raw` is not of that shape and dtype or `out` does not fit.

    Notes
    -----
    Format: element types, float128.

    Examples
    --------
    >>> float128_to_float64(float64_to_float128(np.array([0.1]))).tolist()
    [0.1]
    """
    if raw.dtype != np.uint8 or raw.ndim == 0 or raw.shape[-1] != 16:
        raise ValueError(f"raw must be uint8 of shape (..., 16), got {raw.dtype} {raw.shape}")
    shape = raw.shape[:-1]
    if out is not None and (out.dtype != np.float64 or out.shape != shape):
        raise ValueError(f"out must be float64 of shape {shape}, got {out.dtype} {out.shape}")
    values = np.empty(shape, np.float64) if out is None else out
    words = np.ascontiguousarray(raw).view("<u8").reshape(-1, 2)
    flat = values.reshape(-1) if values.flags.c_contiguous else np.empty(values.size, np.float64)
    bits = flat.view(np.uint64)
    for lo in range(0, flat.size, _BLOCK_ELEMS):
        block = words[lo : lo + _BLOCK_ELEMS].astype(np.uint64)
        bits[lo : lo + _BLOCK_ELEMS] = _narrow(block[:, 1], block[:, 0])
    if not values.flags.c_contiguous:
        values[...] = flat.reshape(values.shape)
    return values


def float64_to_float128(x: F64Array) -> U8Array:
    """Widen float64 to IEEE binary128, exactly, NaN payloads included.

    Parameters
    ----------
    x
        float64 array of any shape.

    Returns
    -------
    ndarray
        uint8 array of shape (..., 16), each number little-endian.

    Raises
    ------
    ValueError
        If `x` is not float64.

    Examples
    --------
    >>> float64_to_float128(np.array(1.0)).tobytes()[-2:].hex()
    'ff3f'
    """
    if x.dtype.newbyteorder("=") != np.float64:
        raise ValueError(f"numbers must be float64, got {x.dtype}")
    words = np.empty((x.size, 2), "<u8")
    flat = np.ascontiguousarray(x, np.float64).reshape(-1).view(np.uint64)
    for lo in range(0, flat.size, _BLOCK_ELEMS):
        bits = flat[lo : lo + _BLOCK_ELEMS]
        exponent = (bits >> 52) & 0x7FF
        fraction = bits & _FRACTION
        wide = exponent + (16383 - 1023)
        wide[exponent == 0x7FF] = 0x7FFF
        small = exponent == 0
        if small.any():
            wide[small], fraction[small] = _normalise(fraction[small])
        words[lo : lo + bits.size, 1] = (bits & _SIGN) | (wide << 48) | (fraction >> 4)
        words[lo : lo + bits.size, 0] = fraction << 60
    return words.view(np.uint8).reshape(*x.shape, 16)


def _normalise(fraction: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the binary128 exponent and the shifted fraction of float64 subnormals and zeros."""
    # A subnormal fraction is an integer below 2**52, so its float64 is exact and shows its top bit.
    top = (fraction.astype(np.float64).view(np.uint64) >> 52).astype(np.int64) - 1023
    zero = fraction == 0
    top[zero] = 0
    exponent = (top + (16383 - 1074)).astype(np.uint64)
    exponent[zero] = 0
    shifted: NDArray[np.uint64] = (fraction << (52 - top).astype(np.uint64)) & _FRACTION
    return exponent, shifted


def _narrow(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the float64 bits nearest to binary128 numbers given as their two halves."""
    field = ((high >> 48) & 0x7FFF).astype(np.int64)
    fraction: NDArray[np.uint64] = ((high << np.uint64(4)) & _FRACTION) | (low >> np.uint64(60))
    below: NDArray[np.uint64] = low & np.uint64((1 << 60) - 1)
    exponent = field - (16383 - 1023)

    # Above the subnormals the mantissa's carry may run into the exponent, up to infinity: just as it should.
    up = (below > 1 << 59) | ((below == 1 << 59) & ((fraction & 1) == 1))
    bits: NDArray[np.uint64] = (np.clip(exponent, 1, 2046).astype(np.uint64) << 52) + fraction + up

    tiny = exponent <= 0
    if tiny.any():
        bits[tiny] = _narrow_subnormal(fraction[tiny], below[tiny] != 0, exponent[tiny])
    bits[exponent >= 2047] = _INFINITY
    special = field == 0x7FFF
    if special.any():
        payload = fraction[special]
        payload[(payload == 0) & (below[special] != 0)] = _QUIET
        bits[special] = payload | _INFINITY
    return bits | (high & _SIGN)


def _narrow_subnormal(
    fraction: NDArray[np.uint64], sticky: NDArray[np.bool_], exponent: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Round magnitudes below the normal float64 numbers: `exponent` is what they would need, 0 or less."""
    # binary128 subnormals are given the leading one they lack: they round to zero all the same.
    significand = fraction | np.uint64(1 << 52)
    shift = np.minimum(1 - exponent, 63).astype(np.uint64)
    kept = significand >> shift
    dropped = significand - (kept << shift)
    half = np.uint64(1) << (shift - np.uint64(1))
    up: NDArray[np.bool_] = (dropped > half) | ((dropped == half) & (sticky | ((kept & 1) == 1)))
    rounded: NDArray[np.uint64] = kept + up
    return rounded
