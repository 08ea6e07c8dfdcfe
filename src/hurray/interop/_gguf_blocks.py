"""The quantized blocks of GGUF files, taken apart into codes, scales and offsets.

The idea: every kind of block says ``x = scale * code + offset`` with one scale (and perhaps one offset) for each run of
elements.  One function per kind brings its bits into that form; what the form becomes, a quantized tensor or plain
numbers, is decided elsewhere.

Each function takes blocks as uint8 of shape (n, bytes of a block).  Codes are small integers of shape (n, elements of a
block); scales and offsets have shape (n, runs of a block).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FP4_DOUBLED", "Parts"]

Bytes = NDArray[np.uint8]

#: values of the sixteen codes of a 4-bit float, doubled; ggml has no negative zero
FP4_DOUBLED = np.array((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), np.int8)
_IQ4_LEVELS = np.array((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), np.int8)


class Parts(NamedTuple):
    """Blocks taken apart: ``x = scale * code + offset``, in float32 and in that order."""

    codes: NDArray[Any]
    scale: NDArray[Any]
    offset: NDArray[Any] | None = None


def _f16(blocks: Bytes, at: int) -> NDArray[np.float16]:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2")


def _f32(blocks: Bytes, at: int) -> NDArray[np.float32]:
    return _f16(blocks, at).astype(np.float32)


def _planes(data: Bytes, groups: int, shifts: Sequence[int], mask: int) -> Bytes:
    """Cut bytes into ``groups`` runs; of each run give all bytes shifted by the first shift, then by the second ..."""
    n, width = data.shape
    runs = data.reshape(n, groups, 1, width // groups)
    shifted = (runs >> np.array(shifts, np.uint8)[:, None]) & np.uint8(mask)
    return shifted.reshape(n, -1)


def _nibbles(data: Bytes, groups: int = 1) -> Bytes:
    return _planes(data, groups, (0, 4), 15)


def _bit_planes(data: Bytes) -> Bytes:
    return _planes(data, 1, range(8), 1)


def q4_0(blocks: Bytes) -> Parts:
    return Parts(_nibbles(blocks[:, 2:]).view(np.int8) - np.int8(8), _f16(blocks, 0))


def q4_1(blocks: Bytes) -> Parts:
    return Parts(_nibbles(blocks[:, 4:]), _f16(blocks, 0), _f32(blocks, 2))


def _five_bits(high: Bytes, low: Bytes) -> Bytes:
    top = np.unpackbits(high, axis=1, bitorder="little")
    return _nibbles(low) | (top << np.uint8(4))


def q5_0(blocks: Bytes) -> Parts:
    codes = _five_bits(blocks[:, 2:6], blocks[:, 6:])
    return Parts(codes.view(np.int8) - np.int8(16), _f16(blocks, 0))


def q5_1(blocks: Bytes) -> Parts:
    return Parts(_five_bits(blocks[:, 4:8], blocks[:, 8:]), _f16(blocks, 0), _f32(blocks, 2))


def q8_0(blocks: Bytes) -> Parts:
    return Parts(blocks[:, 2:].view(np.int8), _f16(blocks, 0))


def q8_1(blocks: Bytes) -> Parts:
    # Bytes 2 and 3 hold the sum of the block, which helps products and adds nothing.
    return Parts(blocks[:, 4:].view(np.int8), _f16(blocks, 0))


def q2_k(blocks: Bytes) -> Parts:
    scales = blocks[:, :16]
    scale = _f32(blocks, 80) * (scales & np.uint8(15)).astype(np.float32)
    least = _f32(blocks, 82) * (scales >> np.uint8(4)).astype(np.float32)
    return Parts(_planes(blocks[:, 16:80], 2, (0, 2, 4, 6), 3), scale, -least)


def q3_k(blocks: Bytes) -> Parts:
    high = _bit_planes(blocks[:, :32])
    low = _planes(blocks[:, 32:96], 2, (0, 2, 4, 6), 3)
    packed = blocks[:, 96:108]
    six = _nibbles(packed[:, :8]) | (_planes(packed[:, 8:], 1, (0, 2, 4, 6), 3) << np.uint8(4))
    scale = _f32(blocks, 108) * (six.view(np.int8) - np.int8(32)).astype(np.float32)
    # A clear high bit takes 4 away.
    return Parts(low.view(np.int8) + (high << np.uint8(2)).view(np.int8) - np.int8(4), scale)


def _k_scales(packed: Bytes) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the eight 6-bit scales and the eight 6-bit minima of the twelve bytes of a Q4_K or Q5_K block."""
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    low, six = np.uint8(15), np.uint8(63)
    top = np.uint8(0x30)
    scales = np.concatenate([first & six, (third & low) | ((first >> np.uint8(2)) & top)], axis=1)
    minima = np.concatenate([second & six, (third >> np.uint8(4)) | ((second >> np.uint8(2)) & top)], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def q4_k(blocks: Bytes) -> Parts:
    scales, minima = _k_scales(blocks[:, 4:16])
    return Parts(_nibbles(blocks[:, 16:], 4), _f32(blocks, 0) * scales, -(_f32(blocks, 2) * minima))


def q5_k(blocks: Bytes) -> Parts:
    scales, minima = _k_scales(blocks[:, 4:16])
    codes = _nibbles(blocks[:, 48:], 4) | (_bit_planes(blocks[:, 16:48]) << np.uint8(4))
    return Parts(codes, _f32(blocks, 0) * scales, -(_f32(blocks, 2) * minima))


def q6_k(blocks: Bytes) -> Parts:
    codes = _nibbles(blocks[:, :128], 2) | (_planes(blocks[:, 128:192], 2, (0, 2, 4, 6), 3) << np.uint8(4))
    scale = _f32(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return Parts(codes.view(np.int8) - np.int8(32), scale)


def q8_k(blocks: Bytes) -> Parts:
    # Behind the codes are the sums of every 16 of them.
    return Parts(blocks[:, 4:260].view(np.int8), np.ascontiguousarray(blocks[:, :4]).view("<f4"))


def iq4_nl(blocks: Bytes) -> Parts:
    return Parts(_IQ4_LEVELS[_nibbles(blocks[:, 2:])], _f16(blocks, 0))


def iq4_xs(blocks: Bytes) -> Parts:
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16)
    pairs = np.stack([blocks[:, 4:8] & np.uint8(15), blocks[:, 4:8] >> np.uint8(4)], axis=2).reshape(len(blocks), 8)
    six = pairs | ((high & np.uint16(3)).astype(np.uint8) << np.uint8(4))
    scale = _f32(blocks, 0) * (six.view(np.int8) - np.int8(32)).astype(np.float32)
    return Parts(_IQ4_LEVELS[_nibbles(blocks[:, 8:], 8)], scale)


def tq1_0(blocks: Bytes) -> Parts:
    """Take apart ternary blocks: five digits of base 3 in a byte, four in the last bytes, each a product away."""
    digits = []
    for start, stop, count in ((0, 32, 5), (32, 48, 5), (48, 52, 4)):
        powers = np.array([3**k for k in range(count)], np.uint8)[:, None]
        digits.append((blocks[:, None, start:stop] * powers).reshape(len(blocks), -1))
    codes = (np.concatenate(digits, axis=1).astype(np.uint16) * np.uint16(3)) >> np.uint16(8)
    return Parts(codes.astype(np.int8) - np.int8(1), _f16(blocks, 52))


def tq2_0(blocks: Bytes) -> Parts:
    codes = _planes(blocks[:, :64], 2, (0, 2, 4, 6), 3)
    return Parts(codes.view(np.int8) - np.int8(1), _f16(blocks, 64))


def mxfp4(blocks: Bytes) -> Parts:
    """Take apart MX blocks: the values are doubled and the scale is halved, so that all are integers."""
    exponent = blocks[:, :1].astype(np.uint32)
    bits = np.where(exponent < 2, np.uint32(0x00200000) << (exponent & 1), (exponent - 1) << np.uint32(23))
    return Parts(FP4_DOUBLED[_nibbles(blocks[:, 1:])], bits.astype(np.uint32).view(np.float32))


def mxfp4_codes(blocks: Bytes) -> Bytes:
    """Return the 4-bit float codes of MX blocks in element order."""
    return _nibbles(blocks[:, 1:])


def nvfp4(blocks: Bytes) -> Parts:
    """Take apart NV blocks: four unsigned 8-bit floats (bias 7), each for 16 4-bit floats with doubled values."""
    raw = np.arange(128)
    exponent, fraction = raw >> 3, raw & 7
    value = np.where(exponent == 0, fraction * 2.0**-9, (1 + fraction / 8) * 2.0 ** (exponent - 7))
    table = np.tile((value / 2).astype(np.float16), 2)
    table[0x7F] = 0
    return Parts(FP4_DOUBLED[_nibbles(blocks[:, 4:], 4)], table[blocks[:, :4]])
