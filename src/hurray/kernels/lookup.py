"""Codes to values by look-up: one table row for a code, a byte, or two bytes.

The idea: NumPy's ``take`` moves items of any size at nearly one price, so an item holds the values of as many codes as
share a byte (two 4-bit codes are one 8-byte item) or, in large inputs, two bytes. Nothing is unpacked, and the values
are scaled while they are still in the cache.

Format: quantization, formulas; element types, packing.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hurray.kernels.scaling import Array, Chunk, Float32, for_each_chunk, output

__all__ = ["dequantize_by_table", "dequantize_packed", "dequantize_packed_six"]

# From here on a table over two packed bytes at once (65536 rows) pays for being built.
_WIDE_ELEMS = 1 << 21


def dequantize_by_table(
    codes: Array,
    table: Float32,
    scale: Float32 | None,
    *,
    axis: int = 0,
    block_size: int = 1,
    out: Float32 | None = None,
    workers: int | None = None,
) -> Float32:
    """Return ``scale * table[codes]`` in float32.

    Parameters
    ----------
    codes
        Unsigned codes, all below the length of ``table``; any shape and strides.
    table
        float32 value of every code.
    scale
        float32 in broadcast form, or None for 1.
    axis, block_size
        How the scale spreads over the codes.
    out
        Optional float32 array of the shape of ``codes`` to write to.
    workers
        Number of threads; by default one for small inputs.
    """
    result = output(out, codes.shape)

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        values = chunk[1]
        # 'clip' is the mode that writes straight to its output; no code is outside the table.
        np.take(table, chunk[0], out=values, mode="clip")
        if params[0] is not None:
            np.multiply(params[0], values, out=values)

    for_each_chunk(work, (codes, result), (scale,), axis=axis, block_size=block_size, workers=workers)
    return result


@lru_cache(maxsize=8)
def _wide_table(raw: bytes, bits: int) -> Float32:
    """Return the values of every string of two codes (packed or not) of ``bits`` bits, one row each."""
    table = np.frombuffer(raw, np.float32)
    pair = np.arange(1 << (2 * bits))
    wide = np.stack([table[pair & ((1 << bits) - 1)], table[pair >> bits]], axis=-1)
    wide.flags.writeable = False
    return wide


@lru_cache(maxsize=16)
def _byte_table(raw: bytes, bits: int) -> Float32:
    """Return the values packed in every byte, one row of ``8 // bits`` elements each."""
    table = np.frombuffer(raw, np.float32)
    byte = np.arange(256)
    rows = np.stack([table[(byte >> shift) & ((1 << bits) - 1)] for shift in range(0, 8, bits)], axis=-1)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=4)
def _two_byte_table(raw: bytes, bits: int) -> Float32:
    rows = _byte_table(raw, bits)
    pair = np.arange(65536)
    wide = np.concatenate([rows[pair & 255], rows[pair >> 8]], axis=-1)
    wide.flags.writeable = False
    return wide


def _fold_last(param: Float32, n: int, blocked: bool) -> Float32:
    """Give a parameter the dimension that holds the ``n`` elements of one item."""
    if blocked or param.shape[-1] == 1:
        return param[..., None]
    return param.reshape(*param.shape[:-1], -1, n)


_ITEM = {2: np.dtype("f8"), 4: np.dtype("c16"), 8: np.dtype("V32")}


def dequantize_packed(
    data: NDArray[np.uint8],
    bits: int,
    table: Float32,
    scale: Float32 | None,
    zero_point: Float32 | None = None,
    *,
    shape: tuple[int, ...],
    axis: int = 0,
    block_size: int = 1,
    out: Float32 | None = None,
    workers: int | None = None,
) -> Float32:
    """Return ``scale * (table[codes] - zero_point)`` of packed row-major codes, without unpacking them first.

    One look-up gives all elements of a byte, or of two bytes in large inputs. Eight-bit codes work the same way, two
    at a time.

    Parameters
    ----------
    data
        The bytes of the codes, 1-D, exactly as many as ``shape`` needs.
    bits
        2, 4 or 8.
    table
        float32 value of each of the ``2 ** bits`` codes.
    scale, zero_point
        float32 in broadcast form over ``shape``, or None. Zero points are integers that float32 holds exactly.
    shape
        Logical shape; the last dimension must be a multiple of ``8 // bits``, and so must ``block_size`` when it runs
        along that dimension.
    axis, block_size, out, workers
        As for :func:`dequantize_by_table`; ``out`` is contiguous.

    Raises
    ------
    ValueError
        If the codes do not fall into whole bytes as stated, or `out` does not fit.
    """
    result = output(out, shape)
    per_item = 8 // bits
    blocked = axis == len(shape) - 1 and (scale is not None or zero_point is not None)
    unit = math.gcd(shape[-1], block_size) if blocked and block_size > 1 else shape[-1]
    if blocked and block_size == 1 and any(p is not None and p.shape[-1] > 1 for p in (scale, zero_point)):
        unit = 1
    if shape[-1] % per_item or unit % per_item or not result.flags.c_contiguous:
        raise ValueError(f"{bits}-bit codes of shape {shape} in blocks of {block_size} do not fill whole bytes")
    raw = table.astype(np.float32, copy=False).tobytes()
    items: Array = data
    if unit % (2 * per_item) == 0 and (bits == 8 or result.size >= _WIDE_ELEMS):
        rows = _wide_table(raw, 8) if bits == 8 else _two_byte_table(raw, bits)
        items = data.view("<u2")
    elif bits == 8:
        return dequantize_by_table(
            data.reshape(shape), table, scale, axis=axis, block_size=block_size, out=result, workers=workers
        )
    else:
        rows = _byte_table(raw, bits)
    n = rows.shape[1]
    lookup = rows.view(_ITEM[n]).reshape(-1)
    lead = (*shape[:-1], shape[-1] // n)
    # No code is outside the table; of the modes that write straight to their output the faster one differs.
    mode: Literal["clip", "wrap"] = "clip" if items is data else "wrap"

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        values = chunk[1]
        np.take(lookup, chunk[0], out=values.view(lookup.dtype)[..., 0], mode=mode)
        if params[1] is not None:
            np.subtract(values, params[1], out=values)
        if params[0] is not None:
            np.multiply(params[0], values, out=values)

    for_each_chunk(
        work,
        (items.reshape(lead), result.reshape(*lead, n)),
        tuple(None if p is None else _fold_last(p, n, blocked) for p in (scale, zero_point)),
        rank=len(shape),
        axis=axis,
        block_size=block_size // n if blocked and block_size > 1 else block_size,
        elems_per_item=n,
        workers=workers,
    )
    return result


def dequantize_packed_six(
    data: NDArray[np.uint8],
    table: Float32,
    scale: Float32 | None,
    *,
    shape: tuple[int, ...],
    axis: int = 0,
    block_size: int = 1,
    out: Float32 | None = None,
    workers: int | None = None,
) -> Float32:
    """Return ``scale * table[codes]`` of packed row-major 6-bit codes: two look-ups give the four of a group.

    The last dimension must be a multiple of 4, and so must ``block_size`` when it runs along that dimension. The
    arguments are those of :func:`dequantize_packed`; ``table`` has 64 entries.

    Raises
    ------
    ValueError
        If the codes do not fall into whole groups as stated, or `out` does not fit.
    """
    result = output(out, shape)
    blocked = axis == len(shape) - 1 and scale is not None
    if shape[-1] % 4 or (blocked and block_size % 4) or not result.flags.c_contiguous:
        raise ValueError(f"6-bit codes of shape {shape} in blocks of {block_size} do not fill whole groups")
    lookup = _wide_table(table.tobytes(), 6).view(np.float64).reshape(-1)
    lead = (*shape[:-1], shape[-1] // 4)

    def work(chunk: Chunk, params: tuple[Any, ...]) -> None:
        groups, values = chunk
        pairs = values.view(np.float64)
        low = groups[..., 1].astype(np.uint16)
        high = low >> 4
        low &= 15
        low <<= 8
        low |= groups[..., 0]
        high |= groups[..., 2].astype(np.uint16) << 4
        pairs[..., 0] = lookup[low]
        pairs[..., 1] = lookup[high]
        if params[0] is not None:
            np.multiply(params[0], values, out=values)

    for_each_chunk(
        work,
        (data.reshape(*lead, 3), result.reshape(*lead, 4)),
        (None if scale is None else _fold_last(scale, 4, blocked),),
        rank=len(shape),
        axis=axis,
        block_size=block_size // 4 if blocked else block_size,
        elems_per_item=4,
        workers=workers,
    )
    return result
