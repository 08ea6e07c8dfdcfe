"""What a layout is: wire fields, buffers, and the way from buffers to elements.

A layout is the frozen record of its wire fields.  It knows how to parse and write them, which buffers a shape needs,
and how to find elements in them.  It works on *codes*, arrays of stored bit patterns (``Dtype.storage``), and never
interprets a value; :class:`Payload` gives it the buffers.

Three families share code: :class:`SeparableLayout` (an element's offset is a sum of one term per dimension),
``SparseLayout`` (stored coordinates, in ``_sparse.py``), and the rest.

Format: layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hurray.arguments import as_index_tuple, as_int
from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import bits as bit_kernels
from hurray.layouts._region import Region, axis_array, full_region, region_shape
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = [
    "BufferSpec",
    "Codes",
    "Encoded",
    "Layout",
    "Payload",
    "SeparableLayout",
    "Shape",
    "as_index_tuple",
    "as_int",
    "n_elements",
    "set_field",
]

Codes = NDArray[Any]
Bytes = NDArray[np.uint8]
Shape = Sequence["int | None"]

_U64_MAX = 2**64 - 1


class BufferSpec(NamedTuple):
    """What one buffer of a layout or a scheme has to be.

    ``n_bytes`` is the least size, or the only size when ``exact``; ``index_bits`` is 64 or 32 for index buffers and 0
    for elements and parameters.
    """

    role: str
    n_bytes: int
    exact: bool = False
    index_bits: int = 0


class Encoded(NamedTuple):
    """Elements put into a layout: the layout's record and its buffers as 1-D uint8 arrays."""

    layout: Layout
    buffers: tuple[Bytes, ...]


@record
class Payload:
    """The buffers of one tensor, as a layout sees them.

    Parameters
    ----------
    shape : tuple of int
        Logical shape; no dynamic dimension.
    bits : int
        Bits of one element.
    storage : numpy.dtype
        Type of a code array.
    buffers : tuple of ndarray of uint8, 1-D
        All buffers in table order, the layout's own first.
    byte_offset : int
        Where element 0 sits in buffer 0, in bytes.
    sequence_lengths : tuple of int or None
        Tokens of each sequence of a block-paged tensor, where the caller gave them.
    """

    shape: tuple[int, ...]
    bits: int
    storage: np.dtype[Any]
    buffers: tuple[Bytes, ...]
    byte_offset: int = 0
    sequence_lengths: tuple[int, ...] | None = field(default=None)

    def n_bytes(self, n_elems: int) -> int:
        """Return the bytes of ``n_elems`` elements stored back to back."""
        return bit_kernels.packed_nbytes(n_elems, self.bits)

    def capacity(self, buffer: int = 0) -> int:
        """Return how many whole elements buffer ``buffer`` holds behind the byte offset."""
        n_bytes = len(self.buffers[buffer]) - (self.byte_offset if buffer == 0 else 0)
        if self.bits == 6:
            return max(0, n_bytes // 3 * 4)
        return max(0, n_bytes * 8 // self.bits)

    def linear(self, n_elems: int, *, start: int = 0, buffer: int = 0) -> Codes:
        """Return elements ``start`` to ``start + n_elems`` as 1-D codes: a view for whole-byte types, else a copy."""
        data = self.buffers[buffer]
        offset = self.byte_offset if buffer == 0 else 0
        if start < 0 or offset + self.n_bytes(start + n_elems) > len(data):
            raise BufferError(
                f"buffer {buffer} holds {len(data)} bytes, elements {start} to {start + n_elems} need "
                f"{offset + self.n_bytes(start + n_elems)}"
            )
        if self.bits < 8:
            return bit_kernels.unpack(data[offset:], self.bits, n_elems, start)
        at = offset + start * self.bits // 8
        return np.ndarray((n_elems,), self.storage, data, at) if n_elems else np.empty(0, self.storage)

    def take(self, offsets: NDArray[np.int64], *, buffer: int = 0, checked: bool = False) -> Codes:
        """Gather the elements at ``offsets`` (element offsets, any shape); refuse offsets outside the buffer."""
        if offsets.size == 0:
            return np.empty(offsets.shape, self.storage)
        if not checked:
            low, high = int(offsets.min()), int(offsets.max())
            capacity = self.capacity(buffer)
            if low < 0 or high >= capacity:
                at = low if low < 0 else high
                raise BufferError(f"buffer {buffer} holds {capacity} elements, element offset {at} is outside")
        data = self.buffers[buffer]
        base = self.byte_offset if buffer == 0 else 0
        if self.bits < 8:
            return bit_kernels.take(data[base:], self.bits, offsets)
        codes: Codes = np.ndarray((self.capacity(buffer),), self.storage, data, base)
        # take() is the faster way, but it first copies the whole of an unaligned array.
        return codes.take(offsets) if codes.flags.aligned else codes[offsets]

    def index(self, buffer: int, n_entries: int, *, start: int = 0, index_bits: int = 64) -> NDArray[Any]:
        """Return ``n_entries`` index entries of a buffer as a 1-D unsigned view."""
        width = index_bits // 8
        data = self.buffers[buffer]
        if start < 0 or n_entries < 0 or (start + n_entries) * width > len(data):
            raise BufferError(
                f"buffer {buffer} holds {len(data)} bytes, {start + n_entries} index entries of {width} bytes need "
                f"{(start + n_entries) * width}"
            )
        if n_entries == 0:
            return np.empty(0, f"<u{width}")
        entries: NDArray[Any] = np.ndarray((n_entries,), f"<u{width}", data, start * width)
        # One copy here, because many steps of NumPy would copy all of an unaligned array again and again.
        return entries if entries.flags.aligned else entries.copy()

    def rebased(self, low: int) -> tuple[Payload, int]:
        """Return the payload seen from far enough before the byte offset that no offset from ``low`` on is negative.

        Also returns the number of elements to add to every offset.  Strides may reach back from the byte offset.
        """
        if low >= 0:
            return self, 0
        if self.byte_offset * 8 + low * self.bits < 0:
            raise BufferError(f"the layout reaches {-low} elements before byte {self.byte_offset} of buffer 0")
        group = 4 if self.bits == 6 else max(1, 8 // self.bits)
        shift = -(low // group) * group
        start = self.byte_offset - self.n_bytes(shift)
        first = self.buffers[0]
        if start < 0:  # a six bit group that begins before the buffer: only its last elements exist
            first = np.concatenate([np.zeros(-start, np.uint8), first])
        return replace(self, buffers=(first, *self.buffers[1:]), byte_offset=max(start, 0)), shift

    def pack(self, codes: Codes) -> Bytes:
        """Return codes (any shape, C order) as the bytes of a buffer."""
        return pack_codes(codes, self.bits)


def pack_codes(codes: Codes, bits: int) -> Bytes:
    """Return codes, in C order, as a 1-D uint8 buffer: a view where no packing is needed."""
    if bits < 8:
        return bit_kernels.pack(codes, bits)
    return np.ascontiguousarray(codes).reshape(-1).view(np.uint8) if codes.size else np.empty(0, np.uint8)


def empty_codes(shape: tuple[int, ...], storage: np.dtype[Any]) -> Codes:
    """Return an uninitialised code array; NumPy refuses some shapes, even empty ones, which the format allows.

    Raises
    ------
    UnsupportedError
        NumPy cannot make an array of that shape.
    """
    try:
        return np.empty(shape, storage)
    except (MemoryError, OverflowError, ValueError):
        raise UnsupportedError(f"NumPy cannot make an array of shape {shape}") from None


def set_field(record: object, name: str, value: object) -> None:
    """Set a field of a frozen record while it is being constructed."""
    object.__setattr__(record, name, value)


def check_shape(shape: Shape) -> None:
    """Refuse what is no shape: a sequence of dimensions, each a non-negative int below 2**64 - 1 or None (dynamic).

    Raises
    ------
    TypeError
        Not a sequence of ints.
    InvalidDescriptorError
        A dimension is out of range.
    """
    if isinstance(shape, (str, bytes)) or not hasattr(shape, "__len__"):
        raise TypeError(f"shape is a sequence of ints, not {type(shape).__name__}")
    for k, n in enumerate(shape):
        if n is not None and not (type(n) is int and 0 <= n < _U64_MAX):
            as_int(n, f"shape[{k}]", high=_U64_MAX - 1)


def n_elements(shape: Shape) -> int:
    """Return the number of elements of a shape, as a checked 64-bit product.

    Raises
    ------
    InvalidDescriptorError
        A dimension is dynamic.
    BufferError
        The product does not fit 64 bits, so no buffer holds the elements.
    """
    count = 1
    for k, n in enumerate(shape):
        if n is None:
            raise InvalidDescriptorError(f"shape[{k}] is dynamic: nothing can be sized from it")
        count *= n
    if count > _U64_MAX:
        raise BufferError(f"shape {tuple(shape)} has {count} elements, more than 64 bits count")
    return count


class Layout:
    """Base of all layouts; not constructible itself.

    Layouts are immutable, hashable and equal by value.

    Format: layouts.
    """

    __slots__ = ()

    tag: ClassVar[int]
    name: ClassVar[str]
    #: dense, sparse, indirect, virtual or opaque
    kind: ClassVar[str]
    #: how many dimensions the layout can describe
    min_rank: ClassVar[int] = 0
    max_rank: ClassVar[int] = 64

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        if cls is Layout:
            raise TypeError("Layout cannot be constructed; use RowMajorLayout(), CsrLayout(nnz) and so on")
        return object.__new__(cls)

    @property
    def buffer_count(self) -> int | None:
        """Number of buffers before quantization; None where the layout does not fix it."""
        return 1

    @property
    def is_dense(self) -> bool:
        """True when every element has a place of its own in one buffer."""
        return self.kind == "dense"

    @property
    def is_sparse(self) -> bool:
        """True for coo, csr, csc and csf."""
        return self.kind == "sparse"

    @property
    def is_virtual(self) -> bool:
        """True for a composite head, which owns no buffer."""
        return self.kind == "virtual"

    # Wire fields

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        """Read the layout's fields; ``validate_against_shape`` is called afterwards by the codec."""
        raise NotImplementedError

    def write_fields(self, w: Writer) -> None:
        """Append the layout's fields."""
        raise NotImplementedError

    # Rules

    def validate_against_shape(self, shape: Shape) -> None:
        """Check the fields against a shape (None: dynamic).

        Raises
        ------
        InvalidDescriptorError
            The layout cannot describe the shape.
        """
        check_shape(shape)
        rank = len(shape)
        if not self.min_rank <= rank <= self.max_rank:
            if self.min_rank == self.max_rank:
                wanted = f"rank {self.min_rank}"
            elif rank < self.min_rank:
                wanted = f"a rank of at least {self.min_rank}"
            else:
                wanted = f"a rank of at most {self.max_rank}"
            raise InvalidDescriptorError(
                f"layout {self.name!r} needs {wanted}, but shape {_shown(shape)} has rank {rank}"
            )

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        """Return what each of the layout's buffers has to be for a shape without dynamic dimensions.

        Raises
        ------
        BufferError
            A size does not fit 64 bits, or an element would lie before the buffer.
        """
        raise NotImplementedError

    def validate(self, payload: Payload) -> None:
        """Check the content of index buffers.

        Raises
        ------
        InvalidDescriptorError
            An invariant of the layout is broken; the first offending position is named.
        """

    def check_writable(self) -> None:
        """Refuse fields that the format takes on reading but that writers may not produce.

        Raises
        ------
        InvalidDescriptorError
            The fields may not be written.
        """

    # Elements

    def view(self, payload: Payload) -> Codes | None:
        """Return the codes as a zero-copy array of the logical shape, or None where that is impossible."""
        return None

    def read(self, payload: Payload, region: Region) -> Codes:
        """Return the codes of a region (dense; sparse layouts fill in zeros), touching only what it needs."""
        raise UnsupportedError(f"layout {self.name!r} gives no values")

    def read_all(self, payload: Payload) -> Codes:
        """Return all codes in the logical shape."""
        return self.read(payload, full_region(payload.shape))

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        """Put dense codes (logical shape, any memory order) into this layout.

        ``options`` are the constructor's arguments that the data do not fix.
        """
        raise UnsupportedError(f"elements cannot be written in layout {cls.name!r}")

    def encode_options(self) -> dict[str, Any]:
        """Return the options with which :meth:`encode` writes in this very layout."""
        return {}

    def transpose(self, payload: Payload, axes: tuple[int, ...]) -> Encoded | None:
        """Return the tensor with its dimensions permuted, sharing all values, or None where that is impossible."""
        return None


class SeparableLayout(Layout):
    """A dense layout in which the offset of an element is a sum of one term per dimension."""

    __slots__ = ()
    kind = "dense"
    min_rank = 1

    def axis_offsets(self, shape: tuple[int, ...], axis: int, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the contribution of indices along ``axis`` to the element offset."""
        raise NotImplementedError

    def read(self, payload: Payload, region: Region) -> Codes:
        shape = region_shape(region)
        if 0 in shape:
            return empty_codes(shape, payload.storage)
        terms = [self.axis_offsets(payload.shape, k, axis_array(axis)) for k, axis in enumerate(region)]
        return gather_separable(payload, terms)


def gather_separable(payload: Payload, terms: Sequence[NDArray[np.int64]]) -> Codes:
    """Gather the elements at the outer sum of per-dimension offsets, a slab of the leading axis at a time."""
    # The extremes are separable, so bounds are checked once on the terms; offsets are made in slabs that stay small.
    low = sum(int(t.min()) for t in terms)
    high = sum(int(t.max()) for t in terms)
    if low < 0:
        payload, shift = payload.rebased(low)
        terms = [terms[0] + shift, *terms[1:]]
        low, high = low + shift, high + shift
    capacity = payload.capacity()
    if low < 0 or high >= capacity:
        raise BufferError(
            f"buffer 0 holds {capacity} elements behind byte {payload.byte_offset}, the layout reaches element offsets "
            f"{low} to {high}"
        )
    shape = tuple(len(t) for t in terms)
    if not terms:
        return payload.take(np.zeros((), np.int64), checked=True)
    inner = np.zeros((), np.int64)
    for term in terms[1:]:
        inner = np.add.outer(inner, term)
    out = empty_codes(shape, payload.storage)
    rows = max(1, (1 << 16) // max(1, inner.size))
    for at in range(0, shape[0], rows):
        out[at : at + rows] = payload.take(np.add.outer(terms[0][at : at + rows], inner), checked=True)
    return out


def _shown(shape: Shape) -> str:
    return "(" + ", ".join("dynamic" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
