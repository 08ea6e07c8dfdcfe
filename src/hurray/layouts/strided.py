"""Strided: an arbitrary step in elements for each dimension.

Format: layouts, strided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import strides as stride_kernels
from hurray.layouts._base import (
    BufferSpec,
    Codes,
    Encoded,
    Payload,
    SeparableLayout,
    Shape,
    as_index_tuple,
    empty_codes,
    pack_codes,
    set_field,
)
from hurray.layouts._region import Region, index_view
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["StridedLayout", "reach"]

_I64 = 2**63


@record
class StridedLayout(SeparableLayout):
    """Elements at ``sum(index * stride)`` from the byte offset.

    Parameters
    ----------
    strides : sequence of int
        One step per dimension, in elements (NumPy's are in bytes); negative and zero (broadcast) are legal.

    Format: layouts, strided.
    """

    strides: tuple[int, ...]

    tag = 0x03
    name = "strided"

    def __init__(self, strides: Sequence[int]) -> None:
        set_field(self, "strides", as_index_tuple(strides, "strides", low=-_I64, high=_I64 - 1))

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        return cls(r.i64s(len(shape), "strides"))

    def write_fields(self, w: Writer) -> None:
        w.i64s(self.strides)

    def validate_against_shape(self, shape: Shape) -> None:
        SeparableLayout.validate_against_shape(self, shape)
        if len(self.strides) != len(shape):
            raise InvalidDescriptorError(
                f"layout 'strided' has {len(self.strides)} strides, but the shape has rank {len(shape)}"
            )

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        return (BufferSpec("data", reach(stride_kernels.extent(shape, self.strides), bits, byte_offset)),)

    def axis_offsets(self, shape: tuple[int, ...], axis: int, index: NDArray[np.int64]) -> NDArray[np.int64]:
        return index * self.strides[axis]

    def view(self, payload: Payload) -> Codes | None:
        if payload.bits < 8:
            return None
        if 0 in payload.shape:
            return empty_codes(payload.shape, payload.storage)
        width = payload.bits // 8
        reached = reach(stride_kernels.extent(payload.shape, self.strides), payload.bits, payload.byte_offset)
        if reached > len(payload.buffers[0]):
            raise BufferError(f"buffer 0 holds {len(payload.buffers[0])} bytes, the strides reach byte {reached}")
        # A stride of a dimension of size 1 is never walked; it may be any number, so it is not multiplied out.
        steps = tuple(s * width if n > 1 else width for n, s in zip(payload.shape, self.strides, strict=True))
        try:
            return np.ndarray(payload.shape, payload.storage, payload.buffers[0], payload.byte_offset, steps)
        except (ValueError, OverflowError) as error:
            raise UnsupportedError(f"NumPy cannot hold an array of shape {payload.shape}: {error}") from None

    def read(self, payload: Payload, region: Region) -> Codes:
        codes = self.view(payload)
        return SeparableLayout.read(self, payload, region) if codes is None else index_view(codes, region)

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        strides = options.pop("strides", None)
        if options:
            raise TypeError(f"layout 'strided' takes strides only, got {', '.join(options)}")
        if strides is None:
            strides = stride_kernels.row_major_strides(codes.shape)
        layout = cls(strides)
        layout.validate_against_shape(codes.shape)
        low, high = stride_kernels.extent(codes.shape, layout.strides)
        if low < 0:
            raise UnsupportedError(
                "writing with negative strides needs a byte offset; build the Tensor from its buffer"
            )
        if high + 1 > 2 * max(1, codes.size) + 4096:
            raise UnsupportedError(f"strides {layout.strides} spread {codes.size} elements over {high + 1} places")
        linear: Codes = np.zeros(high + 1, codes.dtype)
        place: Codes = np.ndarray(
            codes.shape, codes.dtype, linear, 0, tuple(s * codes.dtype.itemsize for s in layout.strides)
        )
        place[...] = codes
        if not stride_kernels.is_row_major(codes.shape, layout.strides) and place.tobytes() != codes.tobytes():
            raise InvalidDescriptorError("the strides put different elements at one place")
        return Encoded(layout, (pack_codes(linear, bits),))

    def encode_options(self) -> dict[str, Any]:
        return {"strides": self.strides}

    def transpose(self, payload: Payload, axes: tuple[int, ...]) -> Encoded | None:
        return Encoded(StridedLayout([self.strides[k] for k in axes]), payload.buffers)


def reach(extent: tuple[int, int], bits: int, byte_offset: int) -> int:
    """Return the bytes that a buffer needs so that the reachable offsets ``extent`` lie inside it.

    Raises
    ------
    BufferError
        An element would lie before the buffer, or at a place that 64 bits cannot count.
    """
    low, high = extent
    if high < low:
        return byte_offset
    if byte_offset * 8 + low * bits < 0:
        raise BufferError(
            f"the strides reach {-low} elements before byte {byte_offset}, where the buffer has no room for them"
        )
    n_bytes = byte_offset + -(-(high + 1) * bits // 8)
    if bits == 6:
        n_bytes = byte_offset + -(-(high + 1) // 4) * 3
    if n_bytes >= 2**64:
        raise BufferError(f"the strides reach element {high}, more than 64 bits count in bytes")
    return n_bytes
