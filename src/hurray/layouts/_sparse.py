"""What the sparse layouts share: stored coordinates with values, everything else zero.

Format: layouts, sparse layouts in general.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import bits as bit_kernels
from hurray.kernels import coords as coord_kernels
from hurray.layouts._base import BufferSpec, Bytes, Codes, Encoded, Layout, Payload, pack_codes
from hurray.layouts._region import Region, is_full, region_shape
from hurray.limits import DEFAULT_LIMITS

__all__ = ["Build", "SparseLayout", "code_is_nonzero", "shown"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

# More entries than this in a pointer array are refused before anything is allocated for them.
MAX_PTR_ENTRIES = 1 << 31


class Build(NamedTuple):
    """Index buffers of new coordinates: how the values have to move, and where a coordinate first repeats (or -1)."""

    layout: SparseLayout
    indices: tuple[U64, ...]
    order: I64 | None
    repeat: int


class SparseLayout(Layout):
    """A layout that stores the coordinates and codes of some elements; all others have the all-zero bit pattern.

    Subclasses have a field ``nnz``, keep values in buffer 0 and are checked by ``validate`` before strict use.
    Without that check every method still stays inside its buffers, whatever the index buffers hold.
    """

    __slots__ = ()
    kind = "sparse"
    min_rank = 1

    nnz: int

    # What a subclass provides

    @property
    def is_lexicographic(self) -> bool:
        """True when the storage order is the lexicographic order of the coordinates."""
        raise NotImplementedError

    def stored(self, payload: Payload) -> tuple[I64, Codes]:
        """Return the stored coordinates, int64 of shape (nnz, rank), and codes, in storage order."""
        raise NotImplementedError

    def stored_in(self, payload: Payload, region: Region) -> tuple[I64, I64]:
        """Return the entries inside a region.

        Returns
        -------
        positions : ndarray of int64, shape (n,)
            Where the entries sit in the value buffer.
        coords : ndarray of int64, shape (n, rank)
            Where they sit in the region (index along each of the region's axes).
        """
        raise NotImplementedError

    def lookup(self, payload: Payload, coords: I64) -> I64:
        """Return the value position of each coordinate, int64 of shape (n,), or -1 where nothing is stored.

        ``coords`` has shape (n, rank) and lies inside the shape.
        """
        raise NotImplementedError

    def _offset_blocks(self, payload: Payload) -> Iterator[tuple[slice, I64]] | None:
        """Return ranges of entries with their row-major offsets, or None where an unchecked index is out of bounds."""
        raise NotImplementedError

    def _region_blocks(self, payload: Payload, region: Region) -> Iterator[tuple[slice, I64]] | None:
        """Return the same for a region whose entries are one run of all, or None where they are not."""
        return self._offset_blocks(payload) if is_full(region, payload.shape) else None

    @classmethod
    def _build(
        cls, coords: U64, shape: tuple[int, ...], options: dict[str, Any], *, ready: bool = False, inside: bool = False
    ) -> Build:
        """Make the index buffers of coordinates, consuming the options that the layout knows.

        Unless they are ``ready``, unique, in bounds and in lexicographic order, or at least ``inside`` the shape,
        nothing is known of the coordinates: :meth:`_check_bounds` comes before anything that relies on bounds.
        """
        raise NotImplementedError

    # What follows from it

    def values(self, payload: Payload) -> Codes:
        """Return the stored codes, 1-D of length nnz, in storage order."""
        return payload.linear(self.nnz)

    @classmethod
    def from_coords(cls, coords: I64, codes: Codes, shape: tuple[int, ...], bits: int, **options: Any) -> Encoded:
        """Store unique coordinates, (n, rank) in any order, with their codes.

        Raises
        ------
        InvalidDescriptorError
            A coordinate occurs twice, or lies outside the shape; the first such entry is named.
        """
        unsigned = np.asarray(coords, np.int64).view(np.uint64)
        return cls._assemble(cls._build(unsigned, shape, options), unsigned, codes, shape, bits, options)

    @classmethod
    def _check_bounds(cls, coords: U64, shape: tuple[int, ...]) -> None:
        outside = coord_kernels.first_out_of_bounds(coords, shape)
        if outside >= 0:
            raise InvalidDescriptorError(
                f"layout {cls.name!r}: entry {outside} is at {shown(coords[outside])}, outside shape {shape}"
            )

    @classmethod
    def _assemble(
        cls, built: Build, coords: U64, codes: Codes, shape: tuple[int, ...], bits: int, options: dict[str, Any]
    ) -> Encoded:
        if options:
            raise TypeError(f"layout {cls.name!r} has no option {', '.join(options)}")
        built.layout.validate_against_shape(shape)
        if built.repeat >= 0:
            raise InvalidDescriptorError(
                f"layout {cls.name!r}: entry {built.repeat} repeats coordinate {shown(coords[built.repeat])}"
            )
        moved = codes if built.order is None else codes.take(built.order, mode="clip")
        return Encoded(built.layout, (pack_codes(moved, bits), *(_as_bytes(index) for index in built.indices)))

    def convert(
        self, payload: Payload, target: type[SparseLayout], *, checked: bool = False, **options: Any
    ) -> Encoded:
        """Store the same elements, explicit zeros included, in another sparse layout.

        ``options`` are the target's. Every invariant is checked on the way, so this needs no ``validate`` first;
        ``checked`` says that there was one.

        Raises
        ------
        InvalidDescriptorError
            An invariant is broken, or the target cannot describe the shape.
        """
        if not checked:
            self.validate(payload)
        return self._convert_checked(payload, target, options)

    def _convert_checked(self, payload: Payload, target: type[SparseLayout], options: dict[str, Any]) -> Encoded:
        coords, codes = self.stored(payload)
        unsigned = coords.view(np.uint64)
        built = target._build(unsigned, payload.shape, options, ready=self.is_lexicographic, inside=True)
        return target._assemble(built, unsigned, codes, payload.shape, payload.bits, options)

    def _encoded(self, built: Build, payload: Payload) -> Encoded:
        # Values that stay in place are shared as they are, whatever their packing.
        values = payload.buffers[0][: payload.n_bytes(self.nnz)]
        if built.order is not None:
            values = pack_codes(self.values(payload).take(built.order, mode="clip"), payload.bits)
        return Encoded(built.layout, (values, *(_as_bytes(index) for index in built.indices)))

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        """Store the elements of a dense code array whose bits are not all zero."""
        flat = np.ascontiguousarray(codes).reshape(-1)
        plain = flat if flat.dtype.kind in "iub" else _as_words(flat)
        offsets = coord_kernels.nonzero_offsets(plain)
        coords = coord_kernels.unravel(offsets.view(np.uint64), codes.shape)
        built = cls._build(coords, codes.shape, options, ready=True)
        return cls._assemble(built, coords, flat.take(offsets, mode="clip"), codes.shape, bits, options)

    def read(self, payload: Payload, region: Region) -> Codes:
        shape = region_shape(region)
        blocks = self._region_blocks(payload, region)
        if blocks is not None:
            filled = _zeros(shape, payload)
            flat = filled.reshape(-1)
            for entries, offsets in blocks:
                flat[offsets] = payload.linear(entries.stop - entries.start, start=entries.start)
            return filled
        positions, coords = self.stored_in(payload, region)
        out = _zeros(shape, payload)
        if len(positions):
            linear = np.zeros(len(positions), np.int64)
            for axis, extent in enumerate(shape):
                linear *= extent
                linear += coords[:, axis]
            out.reshape(-1)[linear] = payload.take(positions)
        return out

    def _check_count(self, shape: tuple[int, ...]) -> None:
        """Refuse more entries than elements, which no check of single entries may see (and which sizes rely on)."""
        count = 1
        for extent in shape:
            count *= extent
        if self.nnz > count:
            raise InvalidDescriptorError(
                f"layout {self.name!r}: nnz is {self.nnz}, but shape {shape} has only {count} elements"
            )

    def _check_values(self, payload: Payload) -> None:
        needed = payload.n_bytes(self.nnz)
        if len(payload.buffers[0]) < needed:
            raise BufferError(f"values holds {len(payload.buffers[0])} bytes, {self.nnz} elements need {needed}")

    def _sized(self, roles: Sequence[tuple[str, int]], bits: int, byte_offset: int) -> tuple[BufferSpec, ...]:
        if byte_offset:
            raise InvalidDescriptorError(f"layout {self.name!r} needs byte_offset 0, but it is {byte_offset}")
        specs = [BufferSpec("values", bit_kernels.packed_nbytes(self.nnz, bits))]
        specs += [BufferSpec(role, 8 * n_entries, index_bits=64) for role, n_entries in roles]
        for spec in specs:
            if spec.n_bytes >= 1 << 64:
                raise BufferError(f"{spec.role} of layout {self.name!r} would need {spec.n_bytes} bytes, over 64 bits")
        return tuple(specs)


def _zeros(shape: tuple[int, ...], payload: Payload) -> Codes:
    try:
        return np.zeros(shape, payload.storage)
    except (MemoryError, ValueError):
        raise UnsupportedError(f"a dense array of shape {shape} does not fit the memory") from None


def check_ptr_entries(n_entries: int, name: str) -> None:
    """Refuse to make a pointer array of absurd length.

    Raises
    ------
    UnsupportedError
        The array would not fit any memory.
    """
    if n_entries > MAX_PTR_ENTRIES or 8 * n_entries > DEFAULT_LIMITS.max_dense_bytes:
        raise UnsupportedError(f"layout {name!r} would need a pointer of {n_entries} entries")


def code_is_nonzero(codes: Codes) -> NDArray[np.bool_]:
    """Tell for each code whether any of its bits is set (so that -0.0 counts)."""
    words: NDArray[Any] = (
        codes if codes.dtype.kind in "iub" else _as_words(np.ascontiguousarray(codes).reshape(-1)).reshape(codes.shape)
    )
    result: NDArray[np.bool_] = words != 0
    return result


def _as_words(flat: Codes) -> NDArray[Any]:
    # Unsigned numbers that are zero exactly where all bits of a code are.
    width = flat.dtype.itemsize
    if width in (1, 2, 4, 8):
        return flat.view(f"<u{width}")
    unit = next(size for size in (8, 4, 2, 1) if width % size == 0)
    words = flat.view(f"<u{unit}").reshape(len(flat), width // unit)
    combined: NDArray[Any] = np.bitwise_or.reduce(words, axis=1)
    return combined


def _as_bytes(index: U64) -> Bytes:
    return np.ascontiguousarray(index, "<u8").reshape(-1).view(np.uint8)


def shown(coordinate: U64) -> str:
    """Return a coordinate as messages show it."""
    return f"({', '.join(str(int(k)) for k in coordinate)})"
