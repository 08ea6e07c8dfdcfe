"""CSR, and with it CSC: a matrix cut into slices of one axis, each a sorted list of indices along the other.

The two differ in which axis has the pointer and in nothing else, so both are written once here, over the *major* axis
(rows in CSR, columns in CSC) and the *minor* one.

Format: layouts, csr / csc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from hurray.errors import InvalidDescriptorError
from hurray.kernels import pointers
from hurray.layouts._base import BufferSpec, Codes, Encoded, Payload, Shape, as_int, set_field
from hurray.layouts._region import Region, is_full
from hurray.layouts._sparse import I64, U64, Build, SparseLayout, check_ptr_entries
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["CompressedLayout", "CsrLayout"]


@record
class CompressedLayout(SparseLayout):
    """What csr and csc share; not constructed itself."""

    nnz: int

    min_rank = max_rank = 2
    #: the axis that the pointer runs along
    major: ClassVar[int]
    #: roles of the index buffer and the pointer buffer
    roles: ClassVar[tuple[str, str]]
    #: the class that reads the same buffers as the transposed matrix
    transposed: ClassVar[type[CompressedLayout]]

    def __post_init__(self) -> None:
        set_field(self, "nnz", as_int(self.nnz, "nnz"))

    @property
    def buffer_count(self) -> int:
        return 3

    @property
    def is_lexicographic(self) -> bool:
        return self.major == 0

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        nnz = r.u64("nnz")
        r.reserved(8)
        return cls(nnz)

    def write_fields(self, w: Writer) -> None:
        w.u64(self.nnz)
        w.zeros(8)

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        indices, ptr = self.roles
        return self._sized([(indices, self.nnz), (ptr, shape[self.major] + 1)], bits, byte_offset)

    def arrays(self, payload: Payload) -> tuple[U64, U64]:
        """Return views of pointer and minor indices, uint64."""
        self._check_count(payload.shape)
        return payload.index(2, payload.shape[self.major] + 1), payload.index(1, self.nnz)

    def validate(self, payload: Payload) -> None:
        self._check_count(payload.shape)
        self._check_values(payload)
        ptr, indices = self.arrays(payload)
        index_role, ptr_role = self.roles
        code, at = pointers.check_ptr(ptr, self.nnz)
        if code != pointers.PTR_OK:
            raise InvalidDescriptorError(f"{self.name} {ptr_role}[{at}] is {ptr[at]}{_fault(code, ptr, at, self.nnz)}")
        extent = payload.shape[1 - self.major]
        at = pointers.first_index_out_of_bounds(indices, extent)
        if at >= 0:
            raise InvalidDescriptorError(
                f"{self.name} {index_role}[{at}] is {indices[at]}, outside a dimension of size {extent}"
            )
        at = pointers.first_unsorted_in_slice(indices, ptr)
        if at >= 0:
            raise InvalidDescriptorError(
                f"{self.name} {index_role}[{at}] is {indices[at]}, not above {indices[at - 1]} before it in its slice"
            )

    def stored(self, payload: Payload) -> tuple[I64, Codes]:
        ptr, indices = self.arrays(payload)
        coords = np.empty((self.nnz, 2), np.uint64)
        coords[:, self.major] = pointers.expand_ptr(ptr, self.nnz)
        coords[:, 1 - self.major] = indices
        return coords.view(np.int64), self.values(payload)

    def stored_in(self, payload: Payload, region: Region) -> tuple[I64, I64]:
        ptr, indices = self.arrays(payload)
        try:
            positions, majors, minors = pointers.select(ptr, indices, region[self.major], region[1 - self.major])
        except ValueError as error:
            raise InvalidDescriptorError(f"{self.name} {self.roles[1]}: {error}") from None
        coords = np.empty((len(positions), 2), np.int64, order="F")
        coords[:, self.major], coords[:, 1 - self.major] = majors, minors
        return positions, coords

    def lookup(self, payload: Payload, coords: I64) -> I64:
        ptr, indices = self.arrays(payload)
        return pointers.find(ptr, indices, coords[:, self.major], coords[:, 1 - self.major].view(np.uint64))

    def _convert_checked(self, payload: Payload, target: type[SparseLayout], options: dict[str, Any]) -> Encoded:
        if target is not self.transposed or options:
            return SparseLayout._convert_checked(self, payload, target, options)
        ptr, indices = self.arrays(payload)
        n_minor = payload.shape[1 - self.major]
        check_ptr_entries(n_minor + 1, target.name)
        turned, others, order = pointers.transpose(ptr, indices, n_minor)
        return self._encoded(Build(self.transposed(self.nnz), (others, turned), order, -1), payload)

    def transpose(self, payload: Payload, axes: tuple[int, ...]) -> Encoded | None:
        return Encoded(self if axes == (0, 1) else self.transposed(self.nnz), payload.buffers)

    @classmethod
    def _build(
        cls, coords: U64, shape: tuple[int, ...], options: dict[str, Any], *, ready: bool = False, inside: bool = False
    ) -> Build:
        if len(shape) != 2:
            raise InvalidDescriptorError(f"layout {cls.name!r} needs rank 2, but shape {shape} has rank {len(shape)}")
        check_ptr_entries(shape[cls.major] + 1, cls.name)
        quick = pointers.compress_in_order(coords, shape, cls.major)
        if quick is not None:
            return Build(cls(len(coords)), quick[::-1], None, -1)
        if not (ready or inside):
            cls._check_bounds(coords, shape)
        ptr, indices, order, repeat = pointers.compress_coords(coords, shape, cls.major)
        return Build(cls(len(coords)), (indices, ptr), order, repeat)

    def _offset_blocks(self, payload: Payload) -> Iterator[tuple[slice, I64]] | None:
        ptr, indices = self.arrays(payload)
        if pointers.first_index_out_of_bounds(indices, payload.shape[1 - self.major]) >= 0:
            return None
        return self._blocks(pointers.sane(ptr, self.nnz), indices.view(np.int64), payload.shape[1])

    def _region_blocks(self, payload: Payload, region: Region) -> Iterator[tuple[slice, I64]] | None:
        majors, minors = region[self.major], region[1 - self.major]
        n_minor = payload.shape[1 - self.major]
        if is_full(region, payload.shape):
            return self._offset_blocks(payload)
        if not isinstance(majors, range) or majors.step != 1 or not majors or not is_full((minors,), (n_minor,)):
            return None
        ptr, indices = self.arrays(payload)
        slices = ptr[majors.start : majors.stop + 1]
        first, last = int(slices[0]), int(slices[-1])
        slices = slices - slices[0]
        if not first <= last <= self.nnz or pointers.check_ptr(slices, last - first)[0] != pointers.PTR_OK:
            return None
        part = indices[first:last]
        if pointers.first_index_out_of_bounds(part, n_minor) >= 0:
            return None
        n_columns = len(majors) if self.major else n_minor
        blocks = self._blocks(slices, part.view(np.int64), n_columns)
        return ((slice(e.start + first, e.stop + first), offsets) for e, offsets in blocks)

    def _blocks(self, ptr: U64, minors: I64, n_columns: int) -> Iterator[tuple[slice, I64]]:
        majors = np.arange(len(ptr) - 1, dtype=np.int64)
        if not self.major:
            majors *= n_columns
        for entries, offsets in pointers.spread_blocks(majors, ptr):
            offsets += minors[entries] * n_columns if self.major else minors[entries]
            yield entries, offsets


@record
class CsrLayout(CompressedLayout):
    """Compressed rows: column indices of the stored elements, row after row, and where each row starts.

    Parameters
    ----------
    nnz : int
        Number of stored elements.

    Examples
    --------
    >>> CsrLayout(4)
    CsrLayout(nnz=4)

    Format: layouts, csr.
    """

    tag = 0x07
    name = "csr"
    major = 0
    roles = ("col_indices", "row_ptr")


def _fault(code: int, ptr: U64, at: int, nnz: int) -> str:
    if code == pointers.PTR_START:
        return ", but the pointer starts at 0"
    if code == pointers.PTR_DECREASES:
        return f", below {ptr[at - 1]} before it"
    return f", but the pointer ends at nnz = {nnz} and never exceeds it"


# Each needs the other; csc, which needs the classes above, ties the knot.
import hurray.layouts.csc  # noqa: E402, F401
