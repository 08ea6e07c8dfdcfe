"""MX: small floats or integers that share a power of two per block.

Format: quantization.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError
from hurray.kernels import affine, lookup, minifloat, mx
from hurray.quantization._affine import integer_table, parse_scale_index
from hurray.quantization._axis import AxisScheme, flat_params
from hurray.quantization._base import Float32, Params, ParamSpec, Quantized, SchemeContext, check_storage
from hurray.quantization._checks import (
    as_u32,
    buffer_index,
    check_axis,
    check_indices,
    param_array,
    power_of_two,
    refuse,
)
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["EMAX", "MXFP"]

#: exponent of the largest power of two of each element type
EMAX = {
    "float8_e4m3": 8,
    "float8_e5m2": 15,
    "float6_e3m2": 4,
    "float6_e2m3": 2,
    "float4_e2m1": 2,
    "int8": 6,
    "int4": 2,
}


@record
class MXFP(AxisScheme):
    """``x = 2 ** (e[b] - 127) * value(q)`` where ``b`` is the block along one axis.

    Parameters
    ----------
    axis : int
        The axis along which blocks lie; its size is a positive multiple of the block size.
    block_size : int
        Elements of a block: a power of two within 16..2048.
    scale_buffer_index : int
        Buffer of one float8_e8m0 exponent per block.

    Format: quantization.
    """

    axis: int
    block_size: int
    scale_buffer_index: int
    trailing: bytes = field(default=b"", kw_only=True, repr=False)

    tag = 0x05
    name = "mxfp"
    payload_bytes = 16
    storage_types = frozenset(EMAX)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_u32(self.axis, "axis"))
        object.__setattr__(self, "block_size", power_of_two(self.block_size, 16, 2048))
        object.__setattr__(self, "scale_buffer_index", buffer_index(self.scale_buffer_index, "scale_buffer_index"))

    @classmethod
    def parse_fields(cls, r: Reader, flags: int) -> Self:
        axis = r.u32("axis")
        block_size = r.u32("block_size")
        scale = parse_scale_index(r)
        return cls(axis, block_size, scale, trailing=r.take(r.remaining, "trailing"))

    def write_fields(self, w: Writer) -> None:
        w.u32s((self.axis, self.block_size, self.scale_buffer_index))

    @property
    def _block(self) -> int | None:
        return self.block_size

    def check(self, context: SchemeContext) -> None:
        check_storage(self, context.dtype)
        n = check_axis(self, self.axis, context.shape)
        check_indices(self, context, {"scale_buffer_index": self.scale_buffer_index})
        if context.layout.name == "block_paged":
            context.layout.validate_quantization_compatibility(self)
        self._check_multiple(n)

    def _check_multiple(self, n: int) -> None:
        if n == 0 or n % self.block_size:
            raise InvalidDescriptorError(
                f"scheme {self.name}: the axis must be a positive multiple of block_size {self.block_size}, but has {n}"
            ).at(field="quantization.block_size")

    def buffer_indices(self) -> tuple[int, ...]:
        return (self.scale_buffer_index,)

    def param_specs(self, shape: tuple[int, ...], layout: Any) -> tuple[ParamSpec, ...]:
        return (ParamSpec(self.scale_buffer_index, "e8m0 scales", self._count(shape, layout)),)

    def _scales(self, params: Params, count: int) -> Float32:
        return mx.e8m0_values(param_array(self, params.buffers, self.scale_buffer_index, 0, count, "u1"))

    def _check(
        self, scales: Float32, zeros: NDArray[np.int32] | None, dtype: Dtype, what: str, places: Any = None
    ) -> None:
        # The codes 0x00 and 0xFF, which are no values, became 0 and infinity.
        bad = (scales == 0) | np.isinf(scales)
        if bad.any():
            codes = np.where(scales == 0, 0x00, 0xFF)
            refuse(self, "e8m0 scale", codes, bad, "must not be 0 or 255 (0x00 or 0xFF)", what, places)

    def _formula(
        self,
        codes: NDArray[Any],
        dtype: Dtype,
        scale: Float32,
        zero: NDArray[np.int32] | None,
        *,
        axis: int = 0,
        block_size: int = 1,
        out: Float32 | None = None,
    ) -> Float32:
        if dtype.is_integer:
            return affine.dequantize_affine(
                codes, dtype.bit_width, True, scale, axis=axis, block_size=block_size, out=out
            )
        table = minifloat.decode_table(dtype.name)
        return lookup.dequantize_by_table(codes, table, scale, axis=axis, block_size=block_size, out=out)

    def _table(self, dtype: Dtype) -> Float32 | None:
        if not dtype.is_integer:
            return minifloat.decode_table(dtype.name)
        return integer_table(dtype) if dtype.bit_width < 8 else None

    @classmethod
    def quantize(
        cls,
        x: NDArray[Any],
        dtype: Dtype,
        *,
        axis: int,
        block_size: int = 32,
        first_index: int = 1,
        workers: int | None = None,
    ) -> Quantized:
        """Quantize real numbers to MX elements (see :mod:`hurray.kernels.mx`).

        ``first_index`` is the index that the scale buffer will have in the buffer table.
        """
        scheme = cls(axis, block_size, first_index)
        if dtype.name not in EMAX:
            raise InvalidDescriptorError(f"scheme mxfp stores {', '.join(sorted(EMAX))}, not {dtype.name}")
        scheme._check_multiple(x.shape[axis])
        emax = EMAX[dtype.name]
        if dtype.is_integer:
            codes, exponents = mx.quantize_mx_int(x, dtype.bit_width, emax, axis, block_size, workers=workers)
        else:
            codes, exponents = mx.quantize_mx_float(x, dtype.name, emax, axis, block_size, workers=workers)
        return Quantized(codes, scheme, (flat_params(exponents, axis),))
