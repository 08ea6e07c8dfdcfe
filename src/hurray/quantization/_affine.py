"""What per-channel and per-block affine share: symmetric or not, two parameter buffers or one.

Format: quantization.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.kernels import affine, scaling
from hurray.kernels.bits import sign_extend
from hurray.quantization._axis import AxisScheme, flat_params
from hurray.quantization._base import UNSET_INDEX, Bytes, Float32, Params, ParamSpec
from hurray.quantization._checks import check_scales, check_zero_points, param_array
from hurray.wire.reader import Reader

__all__ = ["AffineScheme", "parse_zero_point_index"]

Int32 = NDArray[np.int32]
_FLAG_SYMMETRIC = 1
_RAW_SCALES = {"float16": "<f2", "bfloat16": "<u2", "float32": "<f4"}


class AffineScheme(AxisScheme):
    """An affine scheme with scales, and perhaps zero points, in parameter buffers."""

    __slots__ = ()

    scale_buffer_index: int
    zero_point_buffer_index: int | None
    scale_type: Dtype

    @property
    def is_symmetric(self) -> bool:
        """True without zero points."""
        return self.zero_point_buffer_index is None

    @property
    def flags(self) -> int:
        return _FLAG_SYMMETRIC if self.is_symmetric else 0

    @property
    def _wire_zero_point_index(self) -> int:
        return UNSET_INDEX if self.zero_point_buffer_index is None else self.zero_point_buffer_index

    def _indices(self) -> dict[str, int]:
        indices = {"scale_buffer_index": self.scale_buffer_index}
        if self.zero_point_buffer_index is not None:
            indices["zero_point_buffer_index"] = self.zero_point_buffer_index
        return indices

    def buffer_indices(self) -> tuple[int, ...]:
        return tuple(sorted(set(self._indices().values())))

    def param_specs(self, shape: tuple[int, ...], layout: Any) -> tuple[ParamSpec, ...]:
        count = self._count(shape, layout)
        n_scales = count * (self.scale_type.bit_width // 8)
        scales = ParamSpec(self.scale_buffer_index, "scales", n_scales)
        if self.zero_point_buffer_index is None:
            return (scales,)
        if self.zero_point_buffer_index == self.scale_buffer_index:
            return (ParamSpec(self.scale_buffer_index, "scales and zero points", n_scales + count * 4),)
        zeros = ParamSpec(self.zero_point_buffer_index, "zero points", count * 4)
        return tuple(sorted((scales, zeros)))

    def _scales(self, params: Params, count: int) -> Float32:
        name = self.scale_type.name
        raw = param_array(self, params.buffers, self.scale_buffer_index, 0, count, _RAW_SCALES[name])
        return scaling.widen_scales(raw, name)  # type: ignore[arg-type]

    def _zero_points(self, params: Params, count: int) -> Int32 | None:
        if self.zero_point_buffer_index is None:
            return None
        shared = self.zero_point_buffer_index == self.scale_buffer_index
        start = count * (self.scale_type.bit_width // 8) if shared else 0
        return param_array(self, params.buffers, self.zero_point_buffer_index, start, count, "<i4")

    def _check(self, scales: Float32, zeros: Int32 | None, dtype: Dtype, what: str, places: Any = None) -> None:
        check_scales(self, scales, what, places)
        check_zero_points(self, zeros, dtype.bit_width, dtype.is_signed, what, places)

    def _formula(
        self,
        codes: NDArray[Any],
        dtype: Dtype,
        scale: Float32,
        zero: Int32 | None,
        *,
        axis: int = 0,
        block_size: int = 1,
        out: Float32 | None = None,
    ) -> Float32:
        return affine.dequantize_affine(
            codes, dtype.bit_width, dtype.is_signed, scale, zero, axis=axis, block_size=block_size, out=out
        )

    def _table(self, dtype: Dtype) -> Float32 | None:
        return integer_table(dtype) if dtype.bit_width < 8 else None


def integer_table(dtype: Dtype) -> Float32:
    """Return the value of every code of an integer type of less than 8 bits, as float32."""
    codes = np.arange(1 << dtype.bit_width, dtype=np.uint8)
    return (sign_extend(codes, dtype.bit_width) if dtype.is_signed else codes).astype(np.float32)


def parse_zero_point_index(r: Reader, flags: int) -> int | None:
    """Read the zero-point index, which must be unset exactly when the symmetric flag is set."""
    at = r.offset
    index = r.u32("zero_point_buffer")
    if flags & _FLAG_SYMMETRIC:
        if index != UNSET_INDEX:
            message = f"a symmetric scheme leaves it at {UNSET_INDEX:#x}, but it is {index}"
            r.fail(message, field="zero_point_buffer", offset=at)
        return None
    if index == UNSET_INDEX:
        r.fail("an asymmetric scheme needs a zero-point buffer", field="zero_point_buffer", offset=at)
    return index


def parse_scale_index(r: Reader) -> int:
    """Read the index of the scale buffer, which every scheme with buffers has."""
    at = r.offset
    index = r.u32("scale_buffer")
    if index == UNSET_INDEX:
        r.fail(f"{UNSET_INDEX:#x} names no buffer", field="scale_buffer", offset=at)
    return index


def parameter_buffers(
    scale: Float32, zero: Int32 | None, axis: int, scale_type: scaling.ScaleType, *, shared: bool = False
) -> tuple[Bytes, ...]:
    """Return parameters in broadcast form as buffers: scales and zero points, or one that holds both."""
    raw = scaling.round_scales(flat_params(scale, axis), scale_type)
    scales = np.ascontiguousarray(raw, _RAW_SCALES[scale_type]).view(np.uint8)
    if zero is None:
        return (scales,)
    zeros = np.ascontiguousarray(flat_params(zero, axis), "<i4").view(np.uint8)
    return (np.concatenate([scales, zeros]),) if shared else (scales, zeros)
