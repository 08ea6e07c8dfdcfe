"""NF4: sixteen fixed levels times a float32 scale per block.

Format: quantization.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError
from hurray.kernels import lookup, nf4
from hurray.quantization._affine import parse_scale_index
from hurray.quantization._axis import AxisScheme, flat_params
from hurray.quantization._base import Float32, Params, ParamSpec, Quantized, SchemeContext, check_storage
from hurray.quantization._checks import (
    as_u32,
    buffer_index,
    check_axis,
    check_indices,
    fit_block,
    param_array,
    power_of_two,
    refuse,
)
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["NF4"]


@record
class NF4(AxisScheme):
    """``x = scale[b] * level[q]`` with sixteen fixed levels, where ``b`` is the block along one axis.

    Parameters
    ----------
    axis : int
        The axis along which blocks lie.
    block_size : int
        Elements of a block: a power of two of at least 8.
    scale_buffer_index : int
        Buffer of one float32 scale per block, finite and not negative.

    Format: quantization.
    """

    axis: int
    block_size: int
    scale_buffer_index: int
    trailing: bytes = field(default=b"", kw_only=True, repr=False)

    tag = 0x04
    name = "nf4"
    payload_bytes = 16
    storage_types = frozenset({"uint4"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_u32(self.axis, "axis"))
        object.__setattr__(self, "block_size", power_of_two(self.block_size, 8))
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
        fit_block(self, self.block_size, n)

    def buffer_indices(self) -> tuple[int, ...]:
        return (self.scale_buffer_index,)

    def param_specs(self, shape: tuple[int, ...], layout: Any) -> tuple[ParamSpec, ...]:
        return (ParamSpec(self.scale_buffer_index, "scales", self._count(shape, layout) * 4),)

    def _scales(self, params: Params, count: int) -> Float32:
        return param_array(self, params.buffers, self.scale_buffer_index, 0, count, "<f4")

    def _check(
        self, scales: Float32, zeros: NDArray[np.int32] | None, dtype: Dtype, what: str, places: Any = None
    ) -> None:
        bad = ~(np.isfinite(scales) & (scales >= 0))
        refuse(self, "scale", scales, bad, "must be finite and not negative", what, places)

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
        return lookup.dequantize_by_table(codes, nf4.LEVELS, scale, axis=axis, block_size=block_size, out=out)

    def _table(self, dtype: Dtype) -> Float32 | None:
        return nf4.LEVELS

    @classmethod
    def quantize(
        cls,
        x: NDArray[Any],
        dtype: Dtype,
        *,
        axis: int,
        block_size: int = 64,
        first_index: int = 1,
        workers: int | None = None,
    ) -> Quantized:
        """Quantize real numbers to NF4 codes (see :func:`hurray.kernels.nf4.quantize_nf4`).

        ``first_index`` is the index that the scale buffer will have in the buffer table.
        """
        scheme = cls(axis, block_size, first_index)
        if dtype.name not in cls.storage_types:
            raise InvalidDescriptorError(f"scheme nf4 stores uint4, not {dtype.name}")
        codes, scale = nf4.quantize_nf4(x, axis, block_size, workers=workers)
        return Quantized(codes, scheme, (np.ascontiguousarray(flat_params(scale, axis), "<f4").view(np.uint8),))
