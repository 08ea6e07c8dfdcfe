"""Convert between small floating point codes, bfloat16 included, and numbers.

The formats of 4, 6 and 8 bits are described by one row each; everything else follows from the row.

Decoding looks codes up, in large arrays two at a time. Encoding relies on the narrowness of the formats: with
at most three mantissa bits, every point halfway between two neighbours is a float32 whose low 16 bits are
zero. So the upper 16 bits of a float32, with their last bit set when anything below them is (rounding to
odd), decide the nearest code, and one table of 65536 entries holds every answer: ties, subnormals, overflow
and NaN included.

Format: element types.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FORMATS",
    "MiniFloat",
    "bfloat16_to_float32",
    "decode",
    "decode_table",
    "encode",
    "float32_to_bfloat16",
]

U8Array = NDArray[np.uint8]
F32Array = NDArray[np.float32]
F64Array = NDArray[np.float64]

_BLOCK_ELEMS = 1 << 14
_BLOCK_FLOAT64 = 1 << 13
# Below this the 512 KiB table of code pairs costs more than it saves.
_PAIR_ELEMS = 1 << 15


class MiniFloat(NamedTuple):
    """A floating point format of at most 8 bits.

    Attributes
    ----------
    name
        Name of the element type.
    exponent_bits, mantissa_bits, bias
        The fields. A format without mantissa bits has no sign, no zero and no subnormals either.
    max_code
        Code of the largest finite magnitude.
    nan_code
        Code a NaN is encoded to, without its sign. The formats without NaN take 0.
    has_inf
        Whether the code after `max_code` is infinity.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_code: int
    nan_code: int = 0
    has_inf: bool = False

    @property
    def is_signed(self) -> bool:
        """Whether the top bit is a sign."""
        return self.mantissa_bits > 0

    @property
    def bits(self) -> int:
        """Width in bits."""
        return self.is_signed + self.exponent_bits + self.mantissa_bits

    @property
    def is_finite(self) -> bool:
        """Whether every code is a finite number."""
        return self.nan_code == 0


_ROWS = (
    MiniFloat(name="float8_e4m3", exponent_bits=4, mantissa_bits=3, bias=7, max_code=0x7E, nan_code=0x7F),
    MiniFloat(
        name="float8_e5m2", exponent_bits=5, mantissa_bits=2, bias=15, max_code=0x7B, nan_code=0x7E, has_inf=True
    ),
    MiniFloat(name="float8_e8m0", exponent_bits=8, mantissa_bits=0, bias=127, max_code=0xFE, nan_code=0xFF),
    MiniFloat(name="float4_e2m1", exponent_bits=2, mantissa_bits=1, bias=1, max_code=0x07),
    MiniFloat(name="float6_e2m3", exponent_bits=2, mantissa_bits=3, bias=1, max_code=0x1F),
    MiniFloat(name="float6_e3m2", exponent_bits=3, mantissa_bits=2, bias=3, max_code=0x1F),
)

FORMATS: dict[str, MiniFloat] = {row.name: row for row in _ROWS}
"""Every format by the name of its element type."""

# The part after the underscore names a format as well: "e4m3".
_BY_NAME = FORMATS | {row.name.partition("_")[2]: row for row in _ROWS}


def decode_table(name: str) -> F32Array:
    """Return the number that each code of a format stands for.

    Parameters
    ----------
    name
        Element type ("float8_e4m3") or its short form ("e4m3").

    Returns
    -------
    ndarray
        Read-only float32 array of 256, 64 or 16 numbers. NaN codes give NaN, and so do both codes that
        float8_e8m0 reserves, 0x00 and 0xFF.

    Raises
    ------
    ValueError
        If there is no such format.

    Notes
    -----
    Format: element types.

    Examples
    --------
    >>> decode_table("e2m1")[:8].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """
    fmt = _format(name)
    return _byte_table(fmt)[: 1 << fmt.bits]


def decode(codes: U8Array, name: str, out: F32Array | None = None) -> F32Array:
    """Return the numbers that codes stand for.

    Parameters
    ----------
    codes
        uint8 array of any shape, one code per byte; bits above the width are ignored.
    name
        Format, as in `decode_table`.
    out
        Optional float32 array of the same shape to write to.

    Returns
    -------
    ndarray
        float32 array of the same shape; `out` when given.

    Raises
    ------
    ValueError
        If there is no such format, `codes` is not uint8 or `out` does not fit.

    Examples
    --------
    >>> decode(np.array([0x38, 0xC0], np.uint8), "float8_e4m3").tolist()
    [1.0, -2.0]
    """
    fmt = _format(name)
    if codes.dtype != np.uint8:
        raise ValueError(f"codes must be uint8, got {codes.dtype}")
    values = _output(out, codes.shape, np.float32)
    single = _byte_table(fmt)
    if values.size < _PAIR_ELEMS:
        # Clipping cannot happen; it keeps NumPy from buffering the output.
        np.take(single, codes, out=values, mode="clip")
        return values
    double = _pair_table(fmt)
    with _blocks(codes, values, _BLOCK_ELEMS) as blocks:
        for source, target in blocks:
            even = source.size & ~1
            np.take(double, source[:even].view(np.uint16), out=target[:even].view(np.uint64), mode="clip")
            target[even:] = single[source[even:]]
    return values


def encode(x: NDArray[Any], name: str, *, saturate: bool = True, out: U8Array | None = None) -> U8Array:
    """Return the codes nearest to numbers, ties to the even one.

    Parameters
    ----------
    x
        Real array of any shape and dtype. float64 is rounded once, not by way of float32.
    name
        Format, as in `decode_table`.
    saturate
        Whether magnitudes beyond the largest, infinity included, become the largest. If not, they become
        infinity (float8_e5m2) or NaN (float8_e4m3, float8_e8m0) as in ml_dtypes; the formats of 4 and 6 bits
        have neither and always saturate.
    out
        Optional uint8 array of the same shape to write to.

    Returns
    -------
    ndarray
        uint8 codes in the shape of `x`; `out` when given.

    Raises
    ------
    ValueError
        If there is no such format, `x` is complex or `out` does not fit.

    Notes
    -----
    NaN gives the format's NaN with the same sign, and 0 in the formats that have none.

    float8_e8m0 rounds ties up, as its one significand, an odd 1, demands; negative numbers give its NaN.
    Saturating, zero and anything small give its smallest legal code 0x01. Otherwise zero gives NaN and
    numbers below 0.75 * 2**-126 give 0x00, as 2**-127 would, although both codes are reserved.

    Format: element types.

    Examples
    --------
    >>> encode(np.array([0.3, -1000.0], np.float32), "float4_e2m1").tolist()
    [1, 15]
    """
    fmt = _format(name)
    if x.dtype.kind == "c":
        raise ValueError(f"cannot encode {x.dtype} as {fmt.name}: numbers must be real")
    table = _encode_table(fmt, saturate or fmt.is_finite)
    codes = _output(out, x.shape, np.uint8)
    wide = x.dtype.itemsize > 2 and x.dtype.newbyteorder("=") != np.float32
    n_elems = _BLOCK_FLOAT64 if wide else _BLOCK_ELEMS
    index = np.empty(min(codes.size, n_elems), np.uint32)
    with (
        np.errstate(over="ignore", under="ignore", invalid="ignore"),
        _blocks(x, codes, n_elems, np.dtype(np.float64 if wide else np.float32)) as blocks,
    ):
        for numbers, target in blocks:
            words = (_round_to_odd(numbers) if wide else numbers).view(np.uint32)
            upper = index[: words.size]
            np.bitwise_and(words, 0xFFFF, out=upper)
            upper += 0xFFFF
            upper |= words
            upper >>= 16
            np.take(table, upper, out=target, mode="clip")
    return codes


def bfloat16_to_float32(codes: NDArray[np.uint16], out: F32Array | None = None) -> F32Array:
    """Return the numbers that bfloat16 codes stand for, bit for bit.

    Parameters
    ----------
    codes
        uint16 array of any shape.
    out
        Optional float32 array of the same shape to write to.

    Returns
    -------
    ndarray
        float32 array of the same shape; `out` when given.

    Raises
    ------
    ValueError
        If `out` does not fit.

    Examples
    --------
    >>> bfloat16_to_float32(np.array([0x3F80], np.uint16)).tolist()
    [1.0]
    """
    values = _output(out, codes.shape, np.float32)
    words = values.view(np.uint32)
    if values.size <= _BLOCK_ELEMS:
        words[...] = codes
        words <<= 16
        return values
    with _blocks(codes, words, _BLOCK_ELEMS) as blocks:
        for source, target in blocks:
            target[...] = source
            target <<= 16
    return values


def float32_to_bfloat16(x: F32Array, out: NDArray[np.uint16] | None = None) -> NDArray[np.uint16]:
    """Round float32 to bfloat16 codes, ties to even.

    A NaN keeps its sign and upper payload, so that a bfloat16 that went through float32 comes back unchanged;
    one whose payload lies wholly in the lost bits becomes quiet.

    Parameters
    ----------
    x
        float32 array of any shape.
    out
        Optional uint16 array of the same shape to write to.

    Returns
    -------
    ndarray
        uint16 codes of the same shape; `out` when given.

    Raises
    ------
    ValueError
        If `x` is not float32 or `out` does not fit.

    Examples
    --------
    >>> float32_to_bfloat16(np.array([1.0], np.float32)).tolist() == [0x3F80]
    True
    """
    if x.dtype.newbyteorder("=") != np.float32:
        raise ValueError(f"numbers must be float32, got {x.dtype}")
    codes = _output(out, x.shape, np.uint16)
    scratch = np.empty(min(codes.size, _BLOCK_ELEMS), np.uint32)
    with _blocks(x, codes, _BLOCK_ELEMS, np.dtype(np.float32)) as blocks:
        for numbers, target in blocks:
            words = numbers.view(np.uint32)
            rounded = scratch[: words.size]
            np.right_shift(words, 16, out=rounded)
            rounded &= 1
            rounded += 0x7FFF
            rounded += words
            rounded >>= 16
            np.copyto(target, rounded, casting="unsafe")
            nan = np.isnan(numbers)
            if nan.any():
                kept = words[nan] >> 16
                kept[(kept & 0x7F) == 0] |= 0x40
                target[nan] = kept
    return codes


def _round_to_odd(numbers: F64Array) -> F32Array:
    """Return float32 numbers whose last bit tells of any loss, so that rounding again is as good as once."""
    rounded = numbers.astype(np.float32)
    back = rounded.astype(np.float64)
    bits = rounded.view(np.uint32)
    bits -= np.abs(back) > np.abs(numbers)
    bits |= back != numbers
    return rounded


def _format(name: str) -> MiniFloat:
    try:
        return _BY_NAME[name]
    except KeyError:
        raise ValueError(f"no small floating point format {name!r}; there are {', '.join(FORMATS)}") from None


@cache
def _byte_table(fmt: MiniFloat) -> F32Array:
    """Return 256 numbers, repeated for formats of fewer bits, so that any byte is a legal index."""
    codes = np.arange(256) & ((1 << fmt.bits) - 1)
    magnitude = codes & ((1 << (fmt.exponent_bits + fmt.mantissa_bits)) - 1)
    exponent = magnitude >> fmt.mantissa_bits
    mantissa = magnitude & ((1 << fmt.mantissa_bits) - 1)
    normal = exponent > 0
    significand = mantissa + (normal << fmt.mantissa_bits)
    numbers = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - fmt.bias - fmt.mantissa_bits)
    numbers[magnitude > fmt.max_code] = np.nan
    if fmt.has_inf:
        numbers[magnitude == fmt.max_code + 1] = np.inf
    if fmt.is_signed:
        numbers = np.copysign(numbers, np.where(codes >> (fmt.bits - 1), -1.0, 1.0))
    else:
        numbers[magnitude == 0] = np.nan
    table: F32Array = numbers.astype(np.float32)
    table.flags.writeable = False
    return table


@cache
def _pair_table(fmt: MiniFloat) -> NDArray[np.uint64]:
    """Return the numbers of two neighbouring codes for every pair, as one 64 bit unit."""
    pairs = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    table: NDArray[np.uint64] = _byte_table(fmt)[pairs].view(np.uint64).reshape(-1)
    table.flags.writeable = False
    return table


@cache
def _encode_table(fmt: MiniFloat, saturate: bool) -> U8Array:
    """Return the code for the upper half of every float32 that was rounded to odd."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    magnitude = np.abs(numbers)
    lattice = _byte_table(fmt)[: fmt.max_code + 1].astype(np.float64)
    if not fmt.is_signed:
        lattice[0] = lattice[1] / 2
    # One step beyond the largest number takes what rounds to overflow.
    step = lattice[-1] if not fmt.is_signed else lattice[-1] - lattice[-2]
    lattice = np.append(lattice, lattice[-1] + step)
    halfway = (lattice[1:] + lattice[:-1]) / 2
    codes = np.searchsorted(halfway, magnitude, side="right")
    if fmt.is_signed:
        lower = np.searchsorted(halfway, magnitude, side="left")
        codes = np.where(lower & 1, codes, lower)
    if saturate:
        codes = np.minimum(codes, fmt.max_code)
    codes[np.isnan(numbers)] = fmt.nan_code
    if fmt.is_signed:
        sign = np.signbit(numbers) & ~(np.isnan(numbers) & fmt.is_finite)
        codes |= sign.astype(np.int64) << (fmt.bits - 1)
    elif saturate:
        codes = np.maximum(codes, 1)
        codes[numbers < 0] = fmt.nan_code
    else:
        codes[numbers <= 0] = fmt.nan_code
    table = codes.astype(np.uint8)
    table.flags.writeable = False
    return table


def _output(out: NDArray[Any] | None, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Return `out` after a check, or a new array."""
    if out is None:
        return np.empty(shape, dtype)
    if out.dtype != dtype or out.shape != shape:
        raise ValueError(f"out must be {np.dtype(dtype)} of shape {shape}, got {out.dtype} {out.shape}")
    return out


def _blocks(source: NDArray[Any], target: NDArray[Any], n_elems: int, dtype: np.dtype[Any] | None = None) -> np.nditer:
    """Iterate over two arrays of one shape in C order, as contiguous one-dimensional blocks."""
    source_flags: Any = ["readonly", "contig", "aligned"]
    target_flags: Any = ["writeonly", "contig", "aligned"]
    return np.nditer(
        [source, target],
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=[source_flags, target_flags],
        op_dtypes=[dtype or source.dtype, target.dtype],
        order="C",
        casting="unsafe",
        buffersize=n_elems,
    )
