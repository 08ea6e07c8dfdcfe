"""Per-channel affine: a scale, and perhaps a zero point, for each index of one axis.

Format: quantization.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self

from numpy.typing import NDArray

from hurray.dtypes.table import BY_NAME, Dtype
from hurray.kernels import affine
from hurray.quantization._affine import AffineScheme, parameter_buffers, parse_scale_index, parse_zero_point_index
from hurray.quantization._base import Quantized, SchemeContext, check_storage
from hurray.quantization._checks import as_u32, buffer_index, check_axis, check_indices
from hurray.quantization.per_tensor import PerTensorAffine
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["PerChannelAffine"]

_FLOAT32 = BY_NAME["float32"]


@record(kw_only=True)
class PerChannelAffine(AffineScheme):
    """``x = scale[i] * (q - zero_point[i])`` where ``i`` is the index along one axis.

    Make one with :meth:`symmetric` or :meth:`asymmetric`.

    Attributes
    ----------
    axis : int
        The axis along which scales change.
    scale_buffer_index : int
        Buffer of ``shape[axis]`` float32 scales.
    zero_point_buffer_index : int or None
        Buffer of as many int32 zero points; None when symmetric. It may be the scales' own, behind them.

    Examples
    --------
    >>> PerChannelAffine.symmetric(0, 1)
    PerChannelAffine.symmetric(axis=0, scale_buffer_index=1)

    Format: quantization.
    """

    axis: int
    scale_buffer_index: int
    zero_point_buffer_index: int | None = None
    trailing: bytes = field(default=b"", repr=False)

    tag = 0x02
    name = "per_channel_affine"
    payload_bytes = 20
    storage_types = PerTensorAffine.storage_types
    unit = "channel"

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", as_u32(self.axis, "axis"))
        object.__setattr__(self, "scale_buffer_index", buffer_index(self.scale_buffer_index, "scale_buffer_index"))
        if self.zero_point_buffer_index is not None:
            index = buffer_index(self.zero_point_buffer_index, "zero_point_buffer_index")
            object.__setattr__(self, "zero_point_buffer_index", index)

    @classmethod
    def symmetric(cls, axis: int, scale_buffer_index: int) -> Self:
        """Return a scheme without zero points."""
        return cls(axis=axis, scale_buffer_index=scale_buffer_index)

    @classmethod
    def asymmetric(cls, axis: int, scale_buffer_index: int, zero_point_buffer_index: int) -> Self:
        """Return a scheme with zero points."""
        index = buffer_index(zero_point_buffer_index, "zero_point_buffer_index")
        return cls(axis=axis, scale_buffer_index=scale_buffer_index, zero_point_buffer_index=index)

    def __repr__(self) -> str:
        if self.zero_point_buffer_index is None:
            return f"PerChannelAffine.symmetric(axis={self.axis}, scale_buffer_index={self.scale_buffer_index})"
        return (
            f"PerChannelAffine.asymmetric(axis={self.axis}, scale_buffer_index={self.scale_buffer_index}, "
            f"zero_point_buffer_index={self.zero_point_buffer_index})"
        )

    @property
    def scale_type(self) -> Dtype:  # type: ignore[override]
        """Type of the scales: float32, the only one allowed."""
        return _FLOAT32

    @classmethod
    def parse_fields(cls, r: Reader, flags: int) -> Self:
        axis = r.u32("axis")
        scale = parse_scale_index(r)
        zero = parse_zero_point_index(r, flags)
        at = r.offset
        scale_type = r.u8("scale_type")
        if scale_type != _FLOAT32.tag:
            r.fail(f"must be {_FLOAT32.tag:#04x} (float32), but is {scale_type:#04x}", field="scale_type", offset=at)
        r.reserved(3)
        trailing = r.take(r.remaining, "trailing")
        return cls(axis=axis, scale_buffer_index=scale, zero_point_buffer_index=zero, trailing=trailing)

    def write_fields(self, w: Writer) -> None:
        w.u32s((self.axis, self.scale_buffer_index, self._wire_zero_point_index))
        w.u8(_FLOAT32.tag)
        w.zeros(3)

    @property
    def _block(self) -> int | None:
        return None

    def check(self, context: SchemeContext) -> None:
        check_storage(self, context.dtype)
        check_axis(self, self.axis, context.shape)
        check_indices(self, context, self._indices())
        if context.layout.name == "block_paged":
            context.layout.validate_quantization_compatibility(self)

    @classmethod
    def quantize(
        cls,
        x: NDArray[Any],
        dtype: Dtype,
        *,
        axis: int,
        symmetric: bool = True,
        first_index: int = 1,
        workers: int | None = None,
    ) -> Quantized:
        """Quantize real numbers to codes of ``dtype`` (see :func:`hurray.kernels.affine.quantize_affine`).

        ``first_index`` is the index that the first parameter buffer will have in the buffer table.
        """
        done = affine.quantize_affine(
            x, dtype.bit_width, dtype.is_signed, axis=axis, symmetric=symmetric, workers=workers
        )
        scheme = cls(
            axis=axis, scale_buffer_index=first_index, zero_point_buffer_index=None if symmetric else first_index + 1
        )
        return Quantized(done.codes, scheme, parameter_buffers(done.scale, done.zero_point, axis, "float32"))
