"""Hilbert: a cube of ``2**order`` along every dimension, stored along a Hilbert curve.

Format: layouts, hilbert.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import hilbert
from hurray.layouts._base import (
    BufferSpec,
    Codes,
    Encoded,
    Layout,
    Payload,
    Shape,
    as_int,
    empty_codes,
    n_elements,
    pack_codes,
    set_field,
)
from hurray.layouts._linear import PackedCodes, data_spec, leading_rows, require
from hurray.layouts._region import Region, axis_array, is_full, region_shape
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["HilbertLayout"]

_U32_MAX = 2**32 - 1
# An extent of 2**64 is no u64.
_MAX_ORDER = 63
# Element offsets are int64.
_MAX_INDEX_BITS = 63
# Points whose place along the curve is computed at a time.
_POINTS = 1 << 16


@record
class HilbertLayout(Layout):
    """Elements along a Hilbert curve, in Skilling's orientation.

    Parameters
    ----------
    hilbert_order : int
        Bits of an index: every dimension is ``2 ** hilbert_order`` long.
    hilbert_rank : int
        Number of dimensions, at least 2.

    Format: layouts, hilbert.
    """

    hilbert_order: int
    hilbert_rank: int

    tag = 0x40
    name = "hilbert"
    kind = "dense"
    min_rank = 2

    def __init__(self, hilbert_order: int, hilbert_rank: int) -> None:
        set_field(self, "hilbert_order", as_int(hilbert_order, "hilbert_order", low=1, high=_U32_MAX))
        set_field(self, "hilbert_rank", as_int(hilbert_rank, "hilbert_rank", low=2, high=_U32_MAX))

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        at = r.offset
        order = r.u32("hilbert_order")
        if order == 0:
            r.fail("must be positive, but is 0", field="hilbert_order", offset=at)
        rank = r.u32("hilbert_rank")
        if rank != len(shape) or rank < 2:
            r.fail(f"must be the rank {len(shape)} and at least 2, but is {rank}", field="hilbert_rank", offset=at + 4)
        return cls(order, rank)

    def write_fields(self, w: Writer) -> None:
        w.u32(self.hilbert_order)
        w.u32(self.hilbert_rank)

    def validate_against_shape(self, shape: Shape) -> None:
        Layout.validate_against_shape(self, shape)
        if self.hilbert_rank != len(shape):
            raise InvalidDescriptorError(
                f"layout 'hilbert' has hilbert_rank {self.hilbert_rank}, but the shape has rank {len(shape)}"
            )
        if self.hilbert_order > _MAX_ORDER:
            raise InvalidDescriptorError(f"layout 'hilbert': no dimension is 2**{self.hilbert_order} long")
        for dim, n in enumerate(shape):
            if n is not None and n != 1 << self.hilbert_order:
                raise InvalidDescriptorError(
                    f"layout 'hilbert' of order {self.hilbert_order} needs every dimension to be "
                    f"{1 << self.hilbert_order} long, but shape[{dim}] is {n}"
                )

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        # The curve fills its cube, so the elements stored are those of the shape.
        return data_spec(n_elements(shape), bits, byte_offset)

    def element_offsets(self, shape: tuple[int, ...], coords: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the element offset of each coordinate, (n, rank) to (n,)."""
        return hilbert.hilbert_encode(coords, self.hilbert_order).astype(np.int64)

    def read(self, payload: Payload, region: Region) -> Codes:
        order, rank = self.hilbert_order, self.hilbert_rank
        self.validate_against_shape(payload.shape)
        if rank * order > _MAX_INDEX_BITS:
            raise BufferError(f"layout 'hilbert' of shape {payload.shape} stores 2**{rank * order} elements")
        require(self, payload)
        if is_full(region, payload.shape):
            return hilbert.from_hilbert(payload.linear(1 << (rank * order)), rank, order)
        out = empty_codes(region_shape(region), payload.storage)
        rows, side = leading_rows(region, payload.shape), hilbert.cube_side(rank, order)
        if rows is not None and side is not None and not (rows.start % side or len(rows) % side):
            return hilbert.from_hilbert(PackedCodes(payload), rank, order, out, first=rows.start)
        if out.size:
            self._read_points(payload, [axis_array(axis) for axis in region], (), out)
        return out

    def _read_points(
        self, payload: Payload, axes: list[NDArray[np.int64]], leading: tuple[int, ...], out: Codes
    ) -> None:
        """Look up the outer product of index lists behind fixed leading indices, in slabs of bounded size."""
        row = math.prod(out.shape[1:])
        if row > _POINTS:
            for k, index in enumerate(axes[0].tolist()):
                self._read_points(payload, axes[1:], (*leading, index), out[k])
            return
        rows = _POINTS // row
        for start in range(0, len(out), rows):
            slab = out[start : start + rows]
            points = np.empty((*slab.shape, self.hilbert_rank), np.int64)
            points[..., : len(leading)] = leading
            for k, axis in enumerate([axes[0][start : start + rows], *axes[1:]]):
                points[..., len(leading) + k] = axis.reshape([-1 if d == k else 1 for d in range(slab.ndim)])
            positions = hilbert.hilbert_encode(points.reshape(-1, self.hilbert_rank), self.hilbert_order)
            slab[...] = payload.take(positions.view(np.int64)).reshape(slab.shape)

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        layout = cls._for_shape(codes.shape, options)
        if layout.hilbert_rank * layout.hilbert_order > _MAX_INDEX_BITS:
            raise UnsupportedError(f"layout 'hilbert' of shape {codes.shape} needs an index of more than 63 bits")
        return Encoded(layout, (pack_codes(hilbert.to_hilbert(codes, layout.hilbert_order), bits),))

    @classmethod
    def _for_shape(cls, shape: Sequence[int], options: dict[str, Any]) -> Self:
        unknown = options.keys() - {"hilbert_order", "hilbert_rank"}
        if unknown:
            raise TypeError(f"layout 'hilbert' takes hilbert_order and hilbert_rank only, got {', '.join(unknown)}")
        side = shape[0] if shape else 0
        fits = len(shape) >= 2 and side >= 2 and side & (side - 1) == 0 and all(n == side for n in shape)
        if not fits and not options:
            raise UnsupportedError(
                f"layout 'hilbert' needs at least 2 dimensions, all of one length that is a power of two from 2 on; "
                f"shape {tuple(shape)} is not"
            )
        order = options.get("hilbert_order", max(1, side.bit_length() - 1))
        layout = cls(order, options.get("hilbert_rank", len(shape)))
        layout.validate_against_shape(tuple(shape))
        return layout

    def encode_options(self) -> dict[str, Any]:
        return {"hilbert_order": self.hilbert_order, "hilbert_rank": self.hilbert_rank}
