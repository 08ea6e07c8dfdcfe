"""Quantizing and dequantizing by whole-array formulas in NumPy: what one writes without a library.

A two-dimensional float32 array is cut into blocks along its last axis; a block length of 0 makes each row one block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NF4_LEVELS", "SCHEMES", "Blocks", "dequantize", "pair_table", "quantize"]

Array = NDArray[Any]
Float32 = NDArray[np.float32]

#: published with the method
NF4_LEVELS: Float32 = np.array(
    [-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
     -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
     0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1],
    np.float32,
)  # fmt: skip


class Blocks(NamedTuple):
    """Stored codes, uint8 or int8 of shape (rows, bytes of a row), and float32 scales of shape (rows, blocks)."""

    codes: Array
    scales: Float32


class Formula(NamedTuple):
    """A scheme by its recipe name: block length (0: a row), the value of each code, and how x / scale becomes codes."""

    block: int
    levels: Callable[[], Float32]
    encode: Callable[[Float32], Array]
    scale: Callable[[Float32], Float32]
    packed: bool


def pair_table(levels: Float32) -> Float32:
    """Return the two values of each byte of packed 4-bit codes, float32 of shape (256, 2), low nibble first."""
    byte = np.arange(256)
    return np.stack([levels[byte & 15], levels[byte >> 4]], axis=1)


def dequantize(name: str, stored: Blocks) -> Float32:
    """Return the values of stored codes."""
    formula = SCHEMES[name]
    if formula.packed:
        values = pair_table(formula.levels())[stored.codes]
    elif stored.codes.dtype == np.int8:
        values = stored.codes.astype(np.float32)
    else:
        values = formula.levels()[stored.codes]
    rows, n_blocks = stored.scales.shape
    result: Float32 = (values.reshape(rows, n_blocks, -1) * stored.scales[:, :, None]).reshape(rows, -1)
    return result


def quantize(name: str, x: Float32) -> Blocks:
    """Return codes and scales."""
    formula = SCHEMES[name]
    rows = len(x)
    blocks = x.reshape(rows, -1, formula.block or x.shape[1])
    scales = formula.scale(np.abs(blocks).max(axis=2))
    codes = formula.encode(blocks / scales[:, :, None]).reshape(rows, -1)
    if formula.packed:
        codes = codes[:, ::2] | codes[:, 1::2] << 4
    return Blocks(codes, scales)


def _absmax_over(top: int) -> Callable[[Float32], Float32]:
    def scale(absmax: Float32) -> Float32:
        return absmax / np.float32(top)

    return scale


def _power_of_two(emax: int) -> Callable[[Float32], Float32]:
    def scale(absmax: Float32) -> Float32:
        result: Float32 = np.exp2(np.floor(np.log2(absmax)) - emax).astype(np.float32)
        return result

    return scale


def _round_to(top: int, mask: int | None = None) -> Callable[[Float32], Array]:
    def encode(ratio: Float32) -> Array:
        codes = np.clip(np.rint(ratio), -top, top).astype(np.int8)
        return codes if mask is None else codes.view(np.uint8) & mask

    return encode


def _nearest_nf4(ratio: Float32) -> Array:
    middles = (NF4_LEVELS[1:] + NF4_LEVELS[:-1]) / 2
    return np.searchsorted(middles, ratio).astype(np.uint8)


def _small_float(name: str, greatest: float) -> Callable[[Float32], Array]:
    def encode(ratio: Float32) -> Array:
        import ml_dtypes

        codes: Array = np.clip(ratio, -greatest, greatest).astype(getattr(ml_dtypes, name)).view(np.uint8)
        return codes

    return encode


def _small_levels(name: str, count: int) -> Callable[[], Float32]:
    def levels() -> Float32:
        import ml_dtypes

        values: Float32 = np.arange(count, dtype=np.uint8).view(getattr(ml_dtypes, name)).astype(np.float32)
        return values

    return levels


def _signed_levels() -> Float32:
    return ((np.arange(16) ^ 8) - 8).astype(np.float32)


SCHEMES: dict[str, Formula] = {
    "int8_per_channel": Formula(0, _signed_levels, _round_to(127), _absmax_over(127), False),
    "int8_per_block": Formula(32, _signed_levels, _round_to(127), _absmax_over(127), False),
    "int4_per_block": Formula(32, _signed_levels, _round_to(7, 15), _absmax_over(7), True),
    "nf4": Formula(64, lambda: NF4_LEVELS, _nearest_nf4, _absmax_over(1), True),
    "mxfp4": Formula(32, _small_levels("float4_e2m1fn", 16), _small_float("float4_e2m1fn", 6), _power_of_two(2), True),
    "mxfp8_e4m3": Formula(
        32, _small_levels("float8_e4m3fn", 256), _small_float("float8_e4m3fn", 448), _power_of_two(8), False
    ),
}
