"""Per-tensor affine: one scale and one zero point, inside the payload.

Format: quantization.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.arguments import as_int
from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError
from hurray.kernels import affine, lookup
from hurray.quantization._base import Float32, Params, ParamSpec, Quantized, Scheme, SchemeContext, check_storage
from hurray.quantization._checks import zero_point_range
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["PerTensorAffine"]


@record
class PerTensorAffine(Scheme):
    """``x = scale * (q - zero_point)`` with one scale and one zero point for the whole tensor.

    Parameters
    ----------
    scale : float
        Rounded to float32; finite and not 0.
    zero_point : int
        Within the storage type.

    Examples
    --------
    >>> PerTensorAffine(0.5, 3).encode().hex()
    '010100000000003f0300000000000000'

    Format: quantization.
    """

    scale: float
    zero_point: int
    trailing: bytes = field(default=b"", kw_only=True, repr=False)

    tag = 0x01
    name = "per_tensor_affine"
    payload_bytes = 16
    storage_types = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int4", "uint4", "int2", "uint2"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _as_float32(self.scale))
        object.__setattr__(self, "zero_point", as_int(self.zero_point, "zero_point", low=-(2**31), high=2**31 - 1))

    def __repr__(self) -> str:
        # The shortest digits that give the same float32.
        return f"PerTensorAffine(scale={np.float32(self.scale)!s}, zero_point={self.zero_point})"

    @classmethod
    def parse_fields(cls, r: Reader, flags: int) -> Self:
        at = r.offset
        scale = r.f32("scale")
        if not math.isfinite(scale) or scale == 0:
            r.fail(f"must be finite and non-zero, but is {scale}", field="scale", offset=at)
        zero_point = r.i32("zero_point")
        r.reserved(4)
        return cls(scale, zero_point, trailing=r.take(r.remaining, "trailing"))

    def write_fields(self, w: Writer) -> None:
        w.f32(self.scale)
        w.i32(self.zero_point)
        w.zeros(4)

    def check(self, context: SchemeContext) -> None:
        check_storage(self, context.dtype)
        low, high = zero_point_range(context.dtype.bit_width, context.dtype.is_signed)
        if not low <= self.zero_point <= high:
            raise InvalidDescriptorError(
                f"scheme {self.name}: zero_point {self.zero_point} is outside {context.dtype.name}, {low}..{high}"
            ).at(field="quantization.zero_point")
        if context.layout.name == "block_paged":
            context.layout.validate_quantization_compatibility(self)

    def buffer_indices(self) -> tuple[int, ...]:
        return ()

    def param_specs(self, shape: tuple[int, ...], layout: Any) -> tuple[ParamSpec, ...]:
        return ()

    def check_values(self, params: Params) -> None:
        pass

    def dequantize(
        self, codes: NDArray[Any], region: Sequence[Any], params: Params, out: Float32 | None = None
    ) -> Float32:
        ones = (1,) * codes.ndim
        return affine.dequantize_affine(
            codes,
            params.dtype.bit_width,
            params.dtype.is_signed,
            np.full(ones, self.scale, np.float32),
            np.full(ones, self.zero_point, np.int32) if self.zero_point else None,
            out=out,
        )

    def dequantize_stored(self, codes: NDArray[Any], coords: NDArray[np.int64], params: Params) -> Float32:
        return self.dequantize(codes, (), params)

    def dequantize_slots(
        self, codes: NDArray[Any], slots: NDArray[np.int64], params: Params, region: Sequence[Any] | None = None
    ) -> Float32:
        return self.dequantize(codes, (), params)

    def dequantize_packed(self, params: Params, byte_offset: int, out: Float32) -> bool:
        bits = params.dtype.bit_width
        n_elems = out.size
        if bits >= 8 or n_elems == 0 or n_elems % (8 // bits) or not out.flags.c_contiguous:
            return False
        # With one scale for all, the table can hold finished values.
        every = np.arange(1 << bits, dtype=np.uint8)
        table = self.dequantize(every, (), params)
        data = params.buffers[0][byte_offset : byte_offset + n_elems * bits // 8]
        lookup.dequantize_packed(data, bits, table, None, shape=(n_elems,), out=out.reshape(-1))
        return True

    @classmethod
    def quantize(
        cls, x: NDArray[Any], dtype: Dtype, *, symmetric: bool = True, first_index: int = 1, workers: int | None = None
    ) -> Quantized:
        """Quantize real numbers to codes of ``dtype`` (see :func:`hurray.kernels.affine.quantize_affine`)."""
        done = affine.quantize_affine(x, dtype.bit_width, dtype.is_signed, symmetric=symmetric, workers=workers)
        zero = 0 if done.zero_point is None else int(done.zero_point.reshape(-1)[0])
        return Quantized(done.codes, cls(float(done.scale.reshape(-1)[0]), zero), ())


def _as_float32(value: Any) -> float:
    """Return a scale as the float32 number nearest to it."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"scale is a number, not {type(value).__name__}")
    try:
        number: float = struct.unpack("<f", struct.pack("<f", float(value)))[0]
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number == 0:
        raise InvalidDescriptorError(f"scale must be finite and non-zero in float32, but is {value}")
    return number
