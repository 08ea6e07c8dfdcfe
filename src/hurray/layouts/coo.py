"""COO: a list of coordinate tuples with their values.

Format: layouts, coo.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from hurray.errors import InvalidDescriptorError
from hurray.kernels import coords as coord_kernels
from hurray.kernels import ordering, searching
from hurray.layouts._base import BufferSpec, Codes, Encoded, Payload, Shape, as_int, set_field
from hurray.layouts._region import Region, axis_bounds
from hurray.layouts._sparse import I64, U64, Build, SparseLayout, shown
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["CooLayout"]

# Entries whose offsets are made at a time.
_BLOCK = 1 << 15


@record
class CooLayout(SparseLayout):
    """Coordinates and values of the stored elements, tuple after tuple.

    Parameters
    ----------
    nnz : int
        Number of stored elements.
    is_sorted : bool
        Promise that the tuples ascend lexicographically, so that they can be searched as they are.

    Examples
    --------
    >>> CooLayout(4, is_sorted=True)
    CooLayout(nnz=4, is_sorted=True)

    Format: layouts, coo.
    """

    nnz: int
    is_sorted: bool = False

    tag = 0x06
    name = "coo"

    def __post_init__(self) -> None:
        set_field(self, "nnz", as_int(self.nnz, "nnz"))
        if not isinstance(self.is_sorted, (bool, np.bool_)):
            raise TypeError(f"is_sorted is a bool, not {type(self.is_sorted).__name__}")
        set_field(self, "is_sorted", bool(self.is_sorted))

    @property
    def buffer_count(self) -> int:
        return 2

    @property
    def is_lexicographic(self) -> bool:
        return self.is_sorted

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        nnz, is_sorted = r.u64("nnz"), r.flag("is_sorted")
        r.reserved(7)
        return cls(nnz, is_sorted)

    def write_fields(self, w: Writer) -> None:
        w.u64(self.nnz)
        w.u8(int(self.is_sorted))
        w.zeros(7)

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        return self._sized([("indices", self.nnz * len(shape))], bits, byte_offset)

    def validate(self, payload: Payload) -> None:
        self._check_cheaply(payload)
        if not self.is_sorted:
            coords = self._coords(payload)
            at = ordering.first_duplicate(coords, payload.shape)
            if at >= 0:
                raise InvalidDescriptorError(f"coo indices[{at}] {shown(coords[at])} repeats an earlier coordinate")

    def convert(
        self, payload: Payload, target: type[SparseLayout], *, checked: bool = False, **options: Any
    ) -> Encoded:
        # Every target looks at bounds and order itself, and meets repeated coordinates when it sorts.
        self._check_count(payload.shape)
        self._check_values(payload)
        coords, codes = self._coords(payload), self.values(payload)
        ready = checked and self.is_sorted
        built = target._build(coords, payload.shape, options, ready=ready, inside=checked)
        if self.is_sorted and not ready and not (built.order is None and built.layout.is_lexicographic):
            self._check_cheaply(payload)
        return target._assemble(built, coords, codes, payload.shape, payload.bits, options)

    def _check_cheaply(self, payload: Payload) -> None:
        """Check every invariant but the one that takes sorting."""
        self._check_count(payload.shape)
        self._check_values(payload)
        coords = self._coords(payload)
        outside = coord_kernels.first_out_of_bounds(coords, payload.shape)
        if outside >= 0:
            raise InvalidDescriptorError(
                f"coo indices[{outside}] is {shown(coords[outside])}, outside shape {payload.shape}"
            )
        if self.is_sorted:
            at = coord_kernels.first_unsorted(coords, payload.shape)
            if at >= 0:
                before, here = shown(coords[at - 1]), shown(coords[at])
                fault = "repeats" if before == here else f"is below {before},"
                raise InvalidDescriptorError(
                    f"coo indices[{at}] {here} {fault} the entry before it, although is_sorted promises ascending order"
                )

    def stored(self, payload: Payload) -> tuple[I64, Codes]:
        return self._coords(payload).view(np.int64), self.values(payload)

    def stored_in(self, payload: Payload, region: Region) -> tuple[I64, I64]:
        coords = self._coords(payload)
        first = 0
        if self.is_sorted and len(coords) and all(len(axis) for axis in region):
            low, high = axis_bounds(region[0])
            first = bisect_left(coords[:, 0], low)
            coords = coords[first : bisect_left(coords[:, 0], high, lo=first)]
        positions, places = coord_kernels.select(coords, region)
        return positions + first, places

    def lookup(self, payload: Payload, coords: I64) -> I64:
        return searching.find(self._coords(payload), payload.shape, coords.view(np.uint64), is_sorted=self.is_sorted)

    def transpose(self, payload: Payload, axes: tuple[int, ...]) -> Encoded | None:
        moved = np.ascontiguousarray(self._coords(payload)[:, axes])
        shape = tuple(payload.shape[axis] for axis in axes)
        inside = coord_kernels.first_out_of_bounds(moved, shape) < 0
        layout = CooLayout(self.nnz, inside and coord_kernels.is_strictly_sorted(moved, shape))
        return Encoded(layout, (payload.buffers[0], moved.reshape(-1).view(np.uint8), *payload.buffers[2:]))

    def encode_options(self) -> dict[str, Any]:
        return {"is_sorted": self.is_sorted}

    @classmethod
    def _build(
        cls, coords: U64, shape: tuple[int, ...], options: dict[str, Any], *, ready: bool = False, inside: bool = False
    ) -> Build:
        if not (ready or inside):
            cls._check_bounds(coords, shape)
        # is_sorted False keeps the order as given; True, the default, brings the entries in order.
        keep = options.pop("is_sorted", None) is False
        if ready or (not keep and coord_kernels.is_strictly_sorted(coords, shape)):
            return Build(cls(len(coords), is_sorted=not keep), (coords,), None, -1)
        if not len(shape):
            return Build(cls(len(coords)), (coords,), None, -1)
        entries = ordering.sort_coords(coords, shape)
        repeat = ordering.first_repeat(entries)
        if keep:
            return Build(cls(len(coords)), (coords,), None, repeat)
        moved = np.empty(coords.shape, np.uint64)
        ordering.fill_columns(entries, moved)
        return Build(cls(len(coords), is_sorted=True), (moved,), entries.perm, repeat)

    def _coords(self, payload: Payload) -> U64:
        rank = len(payload.shape)
        return payload.index(1, self.nnz * rank).reshape(self.nnz, rank)

    def _offset_blocks(self, payload: Payload) -> Iterator[tuple[slice, I64]] | None:
        coords = self._coords(payload)
        if coord_kernels.first_out_of_bounds(coords, payload.shape) >= 0:
            return None
        if coord_kernels.linear_keys(coords[:0], payload.shape) is None:
            return None
        return self._blocks(coords, payload.shape)

    def _blocks(self, coords: U64, shape: tuple[int, ...]) -> Iterator[tuple[slice, I64]]:
        for start in range(0, len(coords), _BLOCK):
            entries = slice(start, min(start + _BLOCK, len(coords)))
            offsets = coord_kernels.linear_keys(coords[entries], shape)
            assert offsets is not None
            yield entries, offsets.view(np.int64)
