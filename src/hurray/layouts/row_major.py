"""Row-major and column-major: the last or the first dimension varies fastest, no fields on the wire.

Format: layouts, row_major and col_major.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.kernels import bits as bit_kernels
from hurray.kernels import strides as stride_kernels
from hurray.layouts._base import (
    BufferSpec,
    Codes,
    Encoded,
    Payload,
    SeparableLayout,
    Shape,
    empty_codes,
    n_elements,
    pack_codes,
)
from hurray.layouts._linear import leading_rows
from hurray.layouts._region import Region, index_view, region_shape
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["ColMajorLayout", "RowMajorLayout"]


class _Contiguous(SeparableLayout):
    """What the two contiguous orders share; ``_order`` is NumPy's letter for the order."""

    __slots__ = ()
    _order = "C"

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        return cls()

    def write_fields(self, w: Writer) -> None:
        pass

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        n_bytes = bit_kernels.packed_nbytes(n_elements(shape), bits)
        return (BufferSpec("data", byte_offset + n_bytes),)

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the strides of a shape, in elements."""
        if self._order == "C":
            return stride_kernels.row_major_strides(shape)
        return stride_kernels.col_major_strides(shape)

    def axis_offsets(self, shape: tuple[int, ...], axis: int, index: NDArray[np.int64]) -> NDArray[np.int64]:
        return index * self.strides(shape)[axis]

    def view(self, payload: Payload) -> Codes | None:
        if payload.bits < 8:
            return None
        shape = payload.shape
        n_elems = n_elements(shape)
        if n_elems == 0:
            return empty_codes(shape, payload.storage)
        return payload.linear(n_elems).reshape(shape, order=self._order)  # type: ignore[call-overload,no-any-return]

    def read(self, payload: Payload, region: Region) -> Codes:
        codes = self.view(payload)
        if codes is not None:
            return index_view(codes, region)
        # Whole rows (or columns, in that order) lie in one piece.
        shape, turn = payload.shape, 1 if self._order == "C" else -1
        rows = leading_rows(region[::turn], shape[::turn])
        if rows is None:
            return super().read(payload, region)
        if 0 in region_shape(region):
            return empty_codes(region_shape(region), payload.storage)
        row = n_elements(shape[::turn][1:])
        part = payload.linear(len(rows) * row, start=rows.start * row)
        return part.reshape((len(rows), *shape[::turn][1:])[::turn], order=self._order)  # type: ignore[call-overload,no-any-return]

    def read_all(self, payload: Payload) -> Codes:
        if 0 in payload.shape:
            return empty_codes(payload.shape, payload.storage)
        return payload.linear(n_elements(payload.shape)).reshape(payload.shape, order=self._order)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        if options:
            raise TypeError(f"layout {cls.name!r} takes no options, got {', '.join(options)}")
        return Encoded(cls(), (pack_codes(codes if cls._order == "C" else codes.T, bits),))


@record
class RowMajorLayout(_Contiguous):
    """Row-major order: the last dimension varies fastest.

    Format: layouts, row_major.
    """

    tag = 0x01
    name = "row_major"
    min_rank = 0

    def transpose(self, payload: Payload, axes: tuple[int, ...]) -> Encoded | None:
        if payload.byte_offset == 0 and axes == tuple(reversed(range(len(axes)))):
            return Encoded(ColMajorLayout() if axes else self, payload.buffers)
        return None


@record
class ColMajorLayout(_Contiguous):
    """Column-major order: the first dimension varies fastest.

    Format: layouts, col_major.
    """

    tag = 0x02
    name = "col_major"
    _order = "F"

    def transpose(self, payload: Payload, axes: tuple[int, ...]) -> Encoded | None:
        if payload.byte_offset == 0 and axes == tuple(reversed(range(len(axes)))):
            return Encoded(RowMajorLayout(), payload.buffers)
        return None
