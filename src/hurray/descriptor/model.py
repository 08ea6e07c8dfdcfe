"""The descriptor as an object: a frozen record of every field.

Format: descriptor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hurray.devices import CPU, Device
from hurray.dtypes.table import Dtype
from hurray.errors import BufferError
from hurray.layouts._base import Layout, n_elements
from hurray.layouts.private import UnknownLayout
from hurray.quantization._base import Scheme, UnknownScheme
from hurray.records import record

if TYPE_CHECKING:
    from hurray.descriptor.sections import ExtensionType, Shard, Statistics

__all__ = ["MIN_BUFFER_ALIGNMENT", "PAGE_ALIGNMENT", "BufferHandle", "Descriptor", "handle_for"]

MIN_BUFFER_ALIGNMENT = 64
PAGE_ALIGNMENT = 4096


@record
class BufferHandle:
    """One row of the buffer table.

    Format: descriptor, buffer handle.
    """

    byte_size: int
    alignment: int
    device: Device
    sync_mode: str

    @property
    def is_empty(self) -> bool:
        """True when the buffer has no bytes."""
        return self.byte_size == 0

    def __repr__(self) -> str:
        return (
            f"BufferHandle(byte_size={self.byte_size}, alignment={self.alignment}, sync_mode={self.sync_mode!r}, "
            f"device={self.device!r})"
        )


def _flat(data: Any) -> memoryview:
    """Return the bytes of any other bytes-like object."""
    view = memoryview(data)
    if view.nbytes == 0:
        return memoryview(b"")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def handle_for(n_bytes: int, device: Device = CPU, sync_mode: str = "producer_synced") -> BufferHandle:
    """Return the handle that our writers give a buffer, so that equal tensors give equal bytes."""
    if n_bytes == 0:
        alignment = 1
    else:
        alignment = MIN_BUFFER_ALIGNMENT if device.tag == 0 else PAGE_ALIGNMENT
    return BufferHandle(n_bytes, alignment, device, sync_mode)


@record(kw_only=True)
class Descriptor:
    """Everything that the format says about one tensor: immutable, equal by value.

    Get one from ``Tensor.descriptor``, :meth:`decode` or :meth:`build`.

    Format: descriptor.
    """

    dtype: Dtype
    shape: tuple[int | None, ...]
    layout: Layout
    buffer_handles: tuple[BufferHandle, ...]
    byte_offset: int = 0
    quantization: Scheme | UnknownScheme | None = None
    shard: Shard | None = None
    statistics: Statistics | None = None
    extension_type: ExtensionType | None = None
    member_role: str | None = None
    version: tuple[int, int] = (1, 0)
    #: bytes behind the last known part, which a later minor version may append
    trailing: bytes = b""
    #: for an unknown layout whose fields cannot be told from the rest: the wire flags, else None
    opaque_flags: int | None = None

    @staticmethod
    def decode(data: bytes | bytearray | memoryview, *, permissive: bool = False) -> Descriptor:
        """Decode the descriptor at the start of ``data``; input beyond its length is ignored.

        Raises
        ------
        InvalidDescriptorError
            Any rule of the format is broken; the message says where.
        TypeError
            ``data`` is not bytes-like.
        """
        if not isinstance(data, (bytes, bytearray)):
            data = _flat(data)
        return _codec.decode_descriptor(data, permissive=permissive)

    @staticmethod
    def build(
        *,
        dtype: Dtype,
        shape: tuple[int | None, ...],
        layout: Layout,
        buffer_sizes: tuple[int, ...],
        device: Device = CPU,
        sync_mode: str = "producer_synced",
        **sections: Any,
    ) -> Descriptor:
        """Build a descriptor from its parts, with the alignments that our writers use, and check it.

        ``sections`` are ``byte_offset``, ``quantization``, ``shard``, ``statistics``, ``extension_type`` and
        ``member_role``.

        Raises
        ------
        InvalidDescriptorError
            The parts do not fit together.
        """
        handles = tuple(handle_for(n, device, sync_mode) for n in buffer_sizes)
        descriptor = Descriptor(dtype=dtype, shape=tuple(shape), layout=layout, buffer_handles=handles, **sections)
        _codec.check_descriptor(descriptor)
        return descriptor

    def encode(self) -> bytes:
        """Return the descriptor's bytes; :meth:`decode` is the exact inverse.

        Raises
        ------
        InvalidDescriptorError
            The tensor has more or fewer buffers than its layout and scheme take.
        """
        return _codec.encode_descriptor(self)

    @property
    def encoded_len(self) -> int:
        """Length of the encoded descriptor in bytes."""
        return len(self.encode())

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int | None:
        """Number of elements; None when a dimension is dynamic, or when 64 bits cannot count them."""
        if None in self.shape:
            return None
        try:
            return n_elements(self.shape)
        except BufferError:  # the dense layouts are refused then; sparse and broadcast ones need no such number
            return None

    @property
    def device(self) -> Device:
        """Device of the buffers."""
        return self.buffer_handles[0].device if self.buffer_handles else CPU

    @property
    def buffer_count(self) -> int:
        """Number of buffers."""
        return len(self.buffer_handles)

    @property
    def element_bits(self) -> int:
        """Bits of one element, whatever the type."""
        if self.extension_type is not None:
            return self.extension_type.bit_width
        return self.dtype.bit_width

    @property
    def is_head(self) -> bool:
        """True for the head of a composite."""
        return self.layout.is_virtual

    @property
    def is_opaque(self) -> bool:
        """True when the buffers cannot be told apart (an unknown layout, permissive reading)."""
        return isinstance(self.layout, UnknownLayout) and self.opaque_flags is not None

    def with_changes(self, **changes: Any) -> Descriptor:
        """Return a copy with some fields replaced; nothing is checked."""
        return replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Descriptor):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> bytes:
        return _codec.encode_unchecked(self)

    def __repr__(self) -> str:
        parts = [f"dtype={self.dtype}, shape={self.shape}, layout={self.layout.name!r}, buffers={self.buffer_count}"]
        if isinstance(self.quantization, Scheme):
            parts.append(f"quantization={self.quantization.name!r}")
        return f"hurray.Descriptor({', '.join(parts)})"


# The codec needs the classes above, so it is imported last; the methods only reach it when they are called.
import hurray.descriptor.codec as _codec  # noqa: E402
