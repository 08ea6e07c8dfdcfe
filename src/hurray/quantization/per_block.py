"""Per-block affine: a scale, and perhaps a zero point, for each run of elements along one axis.

Format: quantization.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import InvalidDescriptorError
from hurray.kernels import affine
from hurray.quantization._affine import AffineScheme, parameter_buffers, parse_scale_index, parse_zero_point_index
from hurray.quantization._base import Quantized, SchemeContext, check_storage
from hurray.quantization._checks import as_u32, buffer_index, check_axis, check_indices, fit_block, power_of_two
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["PerBlockAffine"]

_FLOAT32 = BY_NAME["float32"]
_SCALE_TYPES = {dtype.tag: dtype for dtype in (BY_NAME["float16"], BY_NAME["bfloat16"], _FLOAT32)}


@record(kw_only=True)
class PerBlockAffine(AffineScheme):
    """``x = scale[b] * (q - zero_point[b])`` where ``b`` is the block of ``block_size`` elements along one axis.

    Make one with :meth:`symmetric` or :meth:`asymmetric`. Blocks are numbered along the axis first, then over the other
    dimensions in row-major order; the last one of a row may be partial. In a block-paged tensor a block is a slot of
    a page.

    Attributes
    ----------
    axis : int
        The axis along which blocks lie.
    block_size : int
        Elements of a block: a power of two of at least 2.
    scale_buffer_index : int
        Buffer of one scale per block.
    zero_point_buffer_index : int or None
        Buffer of one int32 zero point per block; None when symmetric. It may be the scales' own, behind them.
    scale_type : Dtype
        float16, bfloat16 or float32.

    Format: quantization.
    """

    axis: int
    block_size: int
    scale_buffer_index: int
    zero_point_buffer_index: int | None = None
    scale_type: Dtype = _FLOAT32
    trailing: bytes = field(default=b"", repr=False)

    tag = 0x03
    name = "per_block_affine"
    payload_bytes = 24
    storage_types = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_u32(self.axis, "axis"))
        object.__setattr__(self, "block_size", power_of_two(self.block_size, 2))
        object.__setattr__(self, "scale_buffer_index", buffer_index(self.scale_buffer_index, "scale_buffer_index"))
        if self.zero_point_buffer_index is not None:
            index = buffer_index(self.zero_point_buffer_index, "zero_point_buffer_index")
            object.__setattr__(self, "zero_point_buffer_index", index)
        if not isinstance(self.scale_type, Dtype):
            raise TypeError(f"scale_type is a Dtype, not {type(self.scale_type).__name__}")
        if self.scale_type.tag not in _SCALE_TYPES:
            raise InvalidDescriptorError(f"scale_type must be float16, bfloat16 or float32, not {self.scale_type.name}")

    @classmethod
    def symmetric(cls, axis: int, block_size: int, scale_buffer_index: int, scale_type: Dtype = _FLOAT32) -> Self:
        """Return a scheme without zero points."""
        return cls(axis=axis, block_size=block_size, scale_buffer_index=scale_buffer_index, scale_type=scale_type)

    @classmethod
    def asymmetric(
        cls,
        axis: int,
        block_size: int,
        scale_buffer_index: int,
        zero_point_buffer_index: int,
        scale_type: Dtype = _FLOAT32,
    ) -> Self:
        """Return a scheme with zero points."""
        return cls(
            axis=axis,
            block_size=block_size,
            scale_buffer_index=scale_buffer_index,
            zero_point_buffer_index=buffer_index(zero_point_buffer_index, "zero_point_buffer_index"),
            scale_type=scale_type,
        )

    def __repr__(self) -> str:
        kind = "symmetric" if self.is_symmetric else "asymmetric"
        zero = "" if self.is_symmetric else f"zero_point_buffer_index={self.zero_point_buffer_index}, "
        return (
            f"PerBlockAffine.{kind}(axis={self.axis}, block_size={self.block_size}, "
            f"scale_buffer_index={self.scale_buffer_index}, {zero}scale_type={self.scale_type!r})"
        )

    @classmethod
    def parse_fields(cls, r: Reader, flags: int) -> Self:
        axis = r.u32("axis")
        block_size = r.u32("block_size")
        scale = parse_scale_index(r)
        zero = parse_zero_point_index(r, flags)
        at = r.offset
        scale_type = _SCALE_TYPES.get(tag := r.u8("scale_type"))
        if scale_type is None:
            r.fail(f"must be float16, bfloat16 or float32, but is {tag:#04x}", field="scale_type", offset=at)
        r.reserved(3)
        return cls(
            axis=axis,
            block_size=block_size,
            scale_buffer_index=scale,
            zero_point_buffer_index=zero,
            scale_type=scale_type,
            trailing=r.take(r.remaining, "trailing"),
        )

    def write_fields(self, w: Writer) -> None:
        w.u32s((self.axis, self.block_size, self.scale_buffer_index, self._wire_zero_point_index))
        w.u8(self.scale_type.tag)
        w.zeros(3)

    @property
    def _block(self) -> int | None:
        return self.block_size

    def check(self, context: SchemeContext) -> None:
        check_storage(self, context.dtype)
        n = check_axis(self, self.axis, context.shape)
        check_indices(self, context, self._indices())
        if context.layout.name == "block_paged":
            context.layout.validate_quantization_compatibility(self)
        else:
            fit_block(self, self.block_size, n)

    @classmethod
    def quantize(
        cls,
        x: NDArray[Any],
        dtype: Dtype,
        *,
        axis: int,
        block_size: int = 32,
        symmetric: bool = True,
        scale_type: Dtype = _FLOAT32,
        first_index: int = 1,
        workers: int | None = None,
    ) -> Quantized:
        """Quantize real numbers to codes of ``dtype`` (see :func:`hurray.kernels.affine.quantize_affine`).

        ``first_index`` is the index that the first parameter buffer will have in the buffer table.
        """
        scheme = cls(
            axis=axis,
            block_size=block_size,
            scale_buffer_index=first_index,
            zero_point_buffer_index=None if symmetric else first_index + 1,
            scale_type=scale_type,
        )
        name: Any = scale_type.name
        done = affine.quantize_affine(
            x,
            dtype.bit_width,
            dtype.is_signed,
            axis=axis,
            block_size=block_size,
            symmetric=symmetric,
            scale_type=name,
            workers=workers,
        )
        return Quantized(done.codes, scheme, parameter_buffers(done.scale, done.zero_point, axis, name))

    @classmethod
    def quantize_slots(
        cls,
        x: NDArray[Any],
        dtype: Dtype,
        slots: NDArray[np.int64],
        *,
        page_size: int,
        n_slots: int,
        symmetric: bool = True,
        scale_type: Dtype = _FLOAT32,
        first_index: int = 3,
    ) -> Quantized:
        """Quantize block-paged tokens, each with parameters of its own in the entry of its page slot.

        Parameters
        ----------
        x : ndarray, shape (tokens, heads, head dimension)
            Real numbers.
        slots : ndarray of int64, shape (tokens,)
            Pool position of each token; tokens that share one must be equal.
        page_size, n_slots : int
            Tokens of a page, and slots of the whole pool. Slots without a token get scale 1 and zero point 0.
        """
        scheme = cls(
            axis=0,
            block_size=page_size,
            scale_buffer_index=first_index,
            zero_point_buffer_index=None if symmetric else first_index + 1,
            scale_type=scale_type,
        )
        name: Any = scale_type.name
        signed, bits = dtype.is_signed, dtype.bit_width
        rows = x.reshape(x.shape[0], -1)
        # One block a token: its heads and dimensions in a row, which need not be a power of two here.
        done = affine.quantize_affine(
            rows, bits, signed, axis=1, block_size=max(1, rows.shape[1]), symmetric=symmetric, scale_type=name
        )
        scale = np.ones(n_slots, np.float32)
        scale[slots] = done.scale.reshape(-1) if rows.shape[1] else 1
        zero = None
        if done.zero_point is not None:
            zero = np.zeros(n_slots, np.int32)
            zero[slots] = done.zero_point.reshape(-1) if rows.shape[1] else 0
        return Quantized(done.codes.reshape(x.shape), scheme, parameter_buffers(scale, zero, 0, name))
