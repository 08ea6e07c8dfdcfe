"""Morton (Z-order): the bits of all coordinates interleaved, dimension 0 lowest.

Format: layouts, morton.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import curves
from hurray.layouts._base import (
    BufferSpec,
    Codes,
    Encoded,
    Payload,
    SeparableLayout,
    Shape,
    as_index_tuple,
    empty_codes,
    n_elements,
    pack_codes,
    set_field,
)
from hurray.layouts._linear import PackedCodes, blank, data_spec, leading_rows, require
from hurray.layouts._region import Region, is_full, region_shape
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["MortonLayout"]

# Codes are int64 offsets.
_MAX_CODE_BITS = 63
# Rows that start at a multiple of this are read in cubes of that extent or larger.
_ALIGNED_ROWS = 8


@record
class MortonLayout(SeparableLayout):
    """Elements along the Z-order curve: bit ``b`` of index ``d`` is bit ``b * rank + d`` of the element offset.

    Parameters
    ----------
    morton_bits : sequence of int
        Bits of each index; dimension ``k`` is at most ``2 ** morton_bits[k]`` long.

    Format: layouts, morton.
    """

    morton_bits: tuple[int, ...]

    tag = 0x05
    name = "morton"

    def __init__(self, morton_bits: Sequence[int]) -> None:
        bits = as_index_tuple(morton_bits, "morton_bits", low=1, high=2**32 - 1)
        if not bits:
            raise InvalidDescriptorError("morton_bits must not be empty")
        set_field(self, "morton_bits", bits)

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        at = r.offset
        bits = r.u32s(len(shape), "morton_bits")
        if 0 in bits:
            dim = bits.index(0)
            r.fail("must be positive, but is 0", field=f"morton_bits[{dim}]", offset=at + 4 * dim)
        return cls(bits)

    def write_fields(self, w: Writer) -> None:
        w.u32s(self.morton_bits)

    def validate_against_shape(self, shape: Shape) -> None:
        SeparableLayout.validate_against_shape(self, shape)
        if len(self.morton_bits) != len(shape):
            raise InvalidDescriptorError(
                f"layout 'morton' has {len(self.morton_bits)} morton_bits, but the shape has rank {len(shape)}"
            )
        for dim, (n, bits) in enumerate(zip(shape, self.morton_bits, strict=True)):
            # 64 bits hold every extent; never shift by a number from outside.
            if n is not None and bits < 64 and n > 1 << bits:
                raise InvalidDescriptorError(f"layout 'morton': shape[{dim}] is {n}, more than {bits} bits can index")

    def _n_stored(self, shape: Sequence[int]) -> int:
        if 0 in shape:
            return 0
        total = sum(self.morton_bits)
        if total > _MAX_CODE_BITS:
            raise BufferError(f"layout 'morton' has {total} bits in all: 2**{total} elements fit no buffer")
        return curves.morton_extent(shape, self.morton_bits)

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        n_elements(shape)
        return data_spec(self._n_stored(shape), bits, byte_offset)

    def axis_offsets(self, shape: tuple[int, ...], axis: int, index: NDArray[np.int64]) -> NDArray[np.int64]:
        return curves.morton_axis_codes(index, len(shape), axis, (shape[axis] - 1).bit_length())

    def read(self, payload: Payload, region: Region) -> Codes:
        require(self, payload)
        if is_full(region, payload.shape):
            out = empty_codes(payload.shape, payload.storage)
            return curves.from_morton(payload.linear(self._n_stored(payload.shape)), payload.shape, out=out)
        rows = leading_rows(region, payload.shape)
        if rows is None or rows.start % _ALIGNED_ROWS:
            return SeparableLayout.read(self, payload, region)
        # Whole rows go cube by cube, like the whole array.
        out = empty_codes(region_shape(region), payload.storage)
        return curves.from_morton(PackedCodes(payload), out.shape, out=out, first=rows.start)

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        morton_bits = options.pop("morton_bits", None)
        if options:
            raise TypeError(f"layout 'morton' takes morton_bits only, got {', '.join(options)}")
        if morton_bits is None:
            needed = max((n - 1).bit_length() if n else 0 for n in codes.shape) if codes.ndim else 0
            morton_bits = (max(1, needed),) * max(1, codes.ndim)
        layout = cls(morton_bits)
        layout.validate_against_shape(codes.shape)
        total = sum(layout.morton_bits)
        if total > _MAX_CODE_BITS:
            raise UnsupportedError(f"layout 'morton' of shape {codes.shape} would need codes of {total} bits, not 63")
        n_elems = layout._n_stored(codes.shape)
        if n_elems > 1 << total:
            # With unequal bits the interleaving leaves gaps, and readers differ on how large the buffer is.
            raise UnsupportedError(
                f"layout 'morton' with unequal bits {layout.morton_bits} puts elements of shape {codes.shape} past "
                f"2**{total}; write with equal bits"
            )
        linear = blank(n_elems, codes.dtype, cls.name)
        return Encoded(layout, (pack_codes(curves.to_morton(codes, layout.morton_bits, out=linear), bits),))

    def encode_options(self) -> dict[str, Any]:
        return {"morton_bits": self.morton_bits}
