"""The tensor kinds of GGUF files: their sizes, what each becomes here, and how.

A quantized kind stays quantized when a scheme of this format gives its values bit for bit.  Codes and scales are only
moved then; what has no scale here is expressed otherwise with equal values: a block of zero scale as scale 1 and codes
0, a constant block as its constant times 1.  Whether an offset is a whole number of steps, as zero points must be, is
known only when the blocks have been read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.model import Descriptor, handle_for
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.interop import _gguf_blocks as split
from hurray.interop._gguf_blocks import Parts
from hurray.kernels import bits as bit_kernels
from hurray.layouts.row_major import RowMajorLayout
from hurray.quantization import MXFP, PerBlockAffine
from hurray.quantization._base import Scheme
from hurray.tensor.relayout import new_descriptor
from hurray.tensor.tensor import Tensor

__all__ = ["KINDS", "Kind", "decode", "is_exact", "keep"]

Bytes = NDArray[np.uint8]
#: elements that are worked on at a time
_RUN = 1 << 16


class Kind(NamedTuple):
    """One tensor kind.

    Parameters
    ----------
    name : str
        What ggml calls it.
    block, n_bytes : int
        Elements and bytes of a block.
    dtype : str or None
        Element type here; None where no type and scheme of this format keep it.
    split : callable or None
        Takes blocks apart; None for plain elements, and for kinds that cannot be decoded.
    run : int
        Elements that share a scale.
    scale : str
        Type of the scales here; ``e8m0`` means the scheme MXFP.
    bits : float
        Bits of a code in the file, where they are fewer than here.
    by_data : bool
        The blocks decide whether the kind can be kept.
    """

    name: str
    block: int
    n_bytes: int
    dtype: str | None = None
    split: Callable[[Bytes], Parts] | None = None
    run: int = 0
    scale: str = "float16"
    bits: float = 0
    by_data: bool = False

    @property
    def is_plain(self) -> bool:
        """True for elements that need no scale."""
        return self.run == 0 and self.dtype is not None

    @property
    def target(self) -> str:
        """What the kind becomes here, in words."""
        if self.run == 0 or self.dtype is None:
            return self.dtype or ""
        scheme = "mxfp" if self.scale == "e8m0" else "per_block_affine"
        return f"{self.dtype} {scheme}, block {self.run}"

    @property
    def is_widened(self) -> bool:
        """True where a code has more bits here than in the file."""
        return bool(self.bits)


#: By the number that files use.
KINDS: dict[int, Kind] = {
    0: Kind("F32", 1, 4, "float32"),
    1: Kind("F16", 1, 2, "float16"),
    2: Kind("Q4_0", 32, 18, "int4", split.q4_0, 32),
    3: Kind("Q4_1", 32, 20, "uint4", split.q4_1, 32, by_data=True),
    6: Kind("Q5_0", 32, 22, "int8", split.q5_0, 32, bits=5),
    7: Kind("Q5_1", 32, 24, "uint8", split.q5_1, 32, bits=5, by_data=True),
    8: Kind("Q8_0", 32, 34, "int8", split.q8_0, 32),
    9: Kind("Q8_1", 32, 36, "int8", split.q8_1, 32),
    10: Kind("Q2_K", 256, 84, None, split.q2_k, 16),
    11: Kind("Q3_K", 256, 110, "int4", split.q3_k, 16, "float32", bits=3),
    12: Kind("Q4_K", 256, 144, None, split.q4_k, 32),
    13: Kind("Q5_K", 256, 176, None, split.q5_k, 32),
    14: Kind("Q6_K", 256, 210, "int8", split.q6_k, 16, "float32", bits=6),
    15: Kind("Q8_K", 256, 292, "int8", split.q8_k, 256, "float32"),
    16: Kind("IQ2_XXS", 256, 66),
    17: Kind("IQ2_XS", 256, 74),
    18: Kind("IQ3_XXS", 256, 98),
    19: Kind("IQ1_S", 256, 50),
    20: Kind("IQ4_NL", 32, 18, "int8", split.iq4_nl, 32, bits=4),
    21: Kind("IQ3_S", 256, 110),
    22: Kind("IQ2_S", 256, 82),
    23: Kind("IQ4_XS", 256, 136, "int8", split.iq4_xs, 32, "float32", bits=4),
    24: Kind("I8", 1, 1, "int8"),
    25: Kind("I16", 1, 2, "int16"),
    26: Kind("I32", 1, 4, "int32"),
    27: Kind("I64", 1, 8, "int64"),
    28: Kind("F64", 1, 8, "float64"),
    29: Kind("IQ1_M", 256, 56),
    30: Kind("BF16", 1, 2, "bfloat16"),
    34: Kind("TQ1_0", 256, 54, "int2", split.tq1_0, 256, bits=1.6),
    35: Kind("TQ2_0", 256, 66, "int2", split.tq2_0, 256),
    39: Kind("MXFP4", 32, 17, "float4_e2m1", split.mxfp4, 32, "e8m0"),
    40: Kind("NVFP4", 64, 36, "int8", split.nvfp4, 16, bits=4),
}


class _Fit(NamedTuple):
    """Blocks in the form of a scheme: bit patterns of codes, scales, and zero points where there are any."""

    codes: Bytes
    scale: NDArray[Any]
    zero: NDArray[np.int32] | None = None


def keep(kind: Kind, data: Bytes, shape: tuple[int, ...]) -> Tensor | None:
    """Return the quantized tensor that equals a quantized one of a file, or None where there is none.

    Parameters
    ----------
    kind : Kind
        A quantized kind with an element type here.
    data : ndarray of uint8, 1-D
        Its blocks.
    shape : tuple of int
        Shape in NumPy order.
    """
    assert kind.dtype is not None
    dtype = BY_NAME[kind.dtype]
    if kind.scale == "e8m0" and not shape[-1]:
        return None  # that scheme has no empty axis
    n_elems = len(data) // kind.n_bytes * kind.block
    codes = np.empty(bit_kernels.packed_nbytes(n_elems, dtype.bit_width), np.uint8)
    scales = np.empty(n_elems // kind.run, _SCALE_STORAGE[kind.scale])
    zeros = np.empty(n_elems // kind.run, "<i4") if dtype.name in _ASYMMETRIC else None
    for at, blocks in _runs(kind, data):
        fit = _fit(kind, dtype, blocks)
        if fit is None:
            return None
        start = at * kind.block
        packed = codes[start * dtype.bit_width // 8 :][: fit.codes.size * dtype.bit_width // 8]
        if dtype.bit_width < 8:
            bit_kernels.pack(fit.codes.reshape(-1), dtype.bit_width, packed)
        else:
            packed[...] = fit.codes.reshape(-1)
        run = slice(start // kind.run, start // kind.run + fit.scale.size)
        scales[run] = fit.scale.reshape(-1)
        if zeros is not None and fit.zero is not None:
            zeros[run] = fit.zero.reshape(-1)
    return _tensor(kind, dtype, shape, codes, scales, zeros)


def is_exact(kind: Kind, data: Bytes) -> bool:
    """Tell whether :func:`keep` keeps a tensor, without making it."""
    assert kind.dtype is not None
    dtype = BY_NAME[kind.dtype]
    return all(_fit(kind, dtype, blocks) is not None for _, blocks in _runs(kind, data))


def decode(kind: Kind, data: Bytes, shape: tuple[int, ...]) -> Tensor:
    """Return the float32 values of a quantized tensor of a file, as ggml computes them."""
    assert kind.split is not None
    values = np.empty(len(data) // kind.n_bytes * kind.block, np.float32)
    with np.errstate(all="ignore"):
        for at, blocks in _runs(kind, data):
            parts = kind.split(blocks)
            out = values[at * kind.block :][: len(blocks) * kind.block].reshape(*parts.scale.shape, -1)
            np.copyto(out, parts.codes.reshape(out.shape))
            np.multiply(parts.scale.astype(np.float32)[..., None], out, out=out)
            if parts.offset is not None:
                np.add(out, parts.offset[..., None], out=out)
    return Tensor._from_parts(new_descriptor(BY_NAME["float32"], shape, values.nbytes), (values.view(np.uint8),))


_SCALE_STORAGE = {"float16": "<f2", "float32": "<f4", "e8m0": "u1"}
_ASYMMETRIC = frozenset({"uint4", "uint8"})


def _runs(kind: Kind, data: Bytes) -> Any:
    """Yield runs of blocks with the number of the first."""
    blocks = data.reshape(-1, kind.n_bytes)
    step = _RUN // kind.block
    return ((at, blocks[at : at + step]) for at in range(0, len(blocks), step))


def _tensor(kind: Kind, dtype: Dtype, shape: tuple[int, ...], codes: Bytes, scales: Any, zeros: Any) -> Tensor:
    axis = len(shape) - 1
    if kind.scale == "e8m0":
        scheme: Scheme = MXFP(axis, kind.run, 1)
    elif zeros is None:
        scheme = PerBlockAffine.symmetric(axis, kind.run, 1, BY_NAME[kind.scale])
    else:
        scheme = PerBlockAffine.asymmetric(axis, kind.run, 1, 2, BY_NAME[kind.scale])
    buffers = (codes, scales.view(np.uint8), *(() if zeros is None else (zeros.view(np.uint8),)))
    descriptor = Descriptor(
        dtype=dtype,
        shape=shape,
        layout=RowMajorLayout(),
        buffer_handles=tuple(handle_for(len(b)) for b in buffers),
        quantization=scheme,
    )
    return Tensor._from_parts(descriptor, buffers)


def _fit(kind: Kind, dtype: Dtype, blocks: Bytes) -> _Fit | None:
    """Express blocks in the form of the kind's scheme, or return None where that would change a value."""
    assert kind.split is not None
    if kind.scale == "e8m0":
        return _fit_mx(blocks)
    with np.errstate(all="ignore"):
        parts = kind.split(blocks)
        if not np.isfinite(parts.scale).all():
            return None
        codes = parts.codes.reshape(*parts.scale.shape, -1)
        if parts.offset is not None:
            return _fit_offset(codes, parts.scale, parts.offset, dtype, 31 if kind.bits else 15)
    bits = dtype.bit_width
    if bits < 8 and codes.size and not -(1 << (bits - 1)) <= int(codes.min()) <= int(codes.max()) < 1 << (bits - 1):
        return None
    empty = parts.scale == 0
    raw = codes.view(np.uint8)
    if empty.any():
        raw = np.where(empty[..., None], np.uint8(0), raw)
    if bits < 8:
        raw = raw & np.uint8((1 << bits) - 1)
    return _Fit(raw, np.where(empty, parts.scale.dtype.type(1), parts.scale))


def _fit_offset(codes: Bytes, scale: NDArray[Any], offset: NDArray[Any], dtype: Dtype, most: int) -> _Fit | None:
    """Turn offsets into zero points; both products with a scale are exact, so equal steps give equal sums.

    ``most`` is the largest code of the file.
    """
    constant = scale == 0
    steps = np.where(constant, 0.0, -offset.astype(np.float64) / np.where(constant, 1, scale.astype(np.float64)))
    highest = (1 << dtype.bit_width) - 1
    if not (np.isfinite(offset).all() and ((steps >= 0) & (steps <= highest) & (np.rint(steps) == steps)).all()):
        return None
    if (np.where(constant, 0.0, steps * scale.astype(np.float64)) + offset != 0)[~constant].any():
        return None  # the quotient was rounded to a whole number
    zero = steps.astype(np.int32)
    # A negative scale would make the code at its zero point -0, where the sum is +0: count from the other end.
    flip = (scale < 0) & (zero <= most) & ~((offset == 0) & np.signbit(offset))
    codes = np.where(flip[..., None], np.uint8(most) - codes, codes)
    zero = np.where(flip, most - zero, zero)
    scale = np.where(flip, -scale, scale)
    has_value = constant & (offset != 0)
    codes = np.where(constant[..., None], has_value.astype(np.uint8)[..., None], codes)
    scale = np.where(constant, np.where(has_value, offset, 1).astype(scale.dtype), scale)
    return _Fit(codes, scale, zero.astype(np.int32))


def _fit_mx(blocks: Bytes) -> _Fit | None:
    # ggml knows no negative zero, so its code becomes that of zero.
    codes = split.mxfp4_codes(blocks)
    codes = np.where(codes == 8, np.uint8(0), codes)
    exponent = blocks[:, :1]
    unnamed = (exponent == 0) | (exponent == 255)
    if unnamed.any():
        if (codes[unnamed[:, 0]] != 0).any():
            return None
        exponent = np.where(unnamed, np.uint8(1), exponent)
    return _Fit(codes, exponent)
