"""A short way for the commonest descriptor: row-major, one CPU buffer, no sections, version 1.0.

Such descriptors have a fixed make-up for each rank, so one ``struct`` call reads them.  Whatever is not exactly as
expected goes the general way, which knows how to say what is wrong.

Format: descriptor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from hurray.descriptor.model import BufferHandle, Descriptor
from hurray.devices import CPU
from hurray.dtypes.table import ALL_DTYPES
from hurray.layouts.row_major import RowMajorLayout

__all__ = ["MAX_PLAIN_BYTES", "PLAIN_BYTES", "decode_plain", "encode_plain", "slot_setter"]

_DTYPES = {dtype.tag: dtype for dtype in ALL_DTYPES}
_ROW_MAJOR = RowMajorLayout()
_DYNAMIC = 2**64 - 1
_MAX_PLAIN_RANK = 8
# magic, major, minor, length, flags, type, layout, rank | shape | byte_offset, count | one handle
_PLAIN = [struct.Struct(f"<4sBBIIBBI{rank}QQBQIBBBB") for rank in range(_MAX_PLAIN_RANK + 1)]
_BY_LENGTH = {kind.size: (rank, kind.unpack_from) for rank, kind in enumerate(_PLAIN)}
#: length of a plain descriptor of rank 0, which grows by 8 with each dimension; length of the longest
PLAIN_BYTES = _PLAIN[0].size
MAX_PLAIN_BYTES = _PLAIN[-1].size
_ALIGNMENTS = frozenset(1 << k for k in range(32))
_HANDLES: dict[tuple[int, int], BufferHandle] = {}
_MAX_HANDLES = 4096


def slot_setter(cls: type, name: str) -> Callable[[Any, Any], None]:
    """Return the function that sets slot ``name`` of an instance, past the class's own ``__setattr__``."""
    setter: Callable[[Any, Any], None] = cls.__dict__[name].__set__
    return setter


# Setting slots through their descriptors costs a third of a frozen dataclass's constructor.
_FIELDS = (
    "quantization", "shard", "statistics", "extension_type", "member_role", "opaque_flags",
)  # fmt: skip
_set_none = [slot_setter(Descriptor, name) for name in _FIELDS]
_get_none = [attrgetter(name) for name in _FIELDS]
_set_dtype = slot_setter(Descriptor, "dtype")
_set_shape = slot_setter(Descriptor, "shape")
_set_layout = slot_setter(Descriptor, "layout")
_set_handles = slot_setter(Descriptor, "buffer_handles")
_set_offset = slot_setter(Descriptor, "byte_offset")
_set_version = slot_setter(Descriptor, "version")
_set_trailing = slot_setter(Descriptor, "trailing")


def encode_plain(d: Descriptor) -> bytes | None:
    """Encode a plain descriptor, or return None when it is anything else."""
    handles = d.buffer_handles
    rank = len(d.shape)
    if d.layout.tag != 1 or len(handles) != 1 or rank > _MAX_PLAIN_RANK or d.version != (1, 0) or d.trailing:
        return None
    if any(get(d) is not None for get in _get_none) or None in d.shape:
        return None
    handle = handles[0]
    if handle.device is not CPU or handle.sync_mode != "producer_synced":
        return None
    kind = _PLAIN[rank]
    return kind.pack(
        b"HRRY", 1, 0, kind.size, 0, d.dtype.tag, 1, rank, *d.shape, d.byte_offset, 1,
        handle.byte_size, handle.alignment, 0, 0, 0, 0,
    )  # fmt: skip


def decode_plain(data: bytes | bytearray | memoryview) -> Descriptor | None:
    """Decode a plain descriptor, or return None when it is anything else (a broken one included)."""
    if len(data) < 45:
        return None
    found = _BY_LENGTH.get(data[6] | data[7] << 8 | data[8] << 16 | data[9] << 24)
    if found is None:
        return None
    rank, unpack = found
    try:
        fields = unpack(data)
    except struct.error:
        return None
    magic, major, minor, _, flags, type_tag, layout_tag, wire_rank = fields[:8]
    offset, count, size, alignment, device, sync, memory, reserved = fields[-8:]
    dtype = _DTYPES.get(type_tag)
    if (
        magic != b"HRRY"
        or dtype is None
        or (major, minor, flags, layout_tag, wire_rank, count) != (1, 0, 0, 1, rank, 1)
        or (device, sync, memory, reserved) != (0, 0, 0, 0)
        or alignment not in _ALIGNMENTS
        or (size and alignment < 64)
        or offset > size
    ):
        return None
    shape = fields[8:-8]
    if _DYNAMIC in shape:
        return None
    handle = _HANDLES.get((size, alignment))
    if handle is None:
        if len(_HANDLES) >= _MAX_HANDLES:
            _HANDLES.clear()
        handle = _HANDLES[size, alignment] = BufferHandle(size, alignment, CPU, "producer_synced")
    d = object.__new__(Descriptor)
    _set_dtype(d, dtype)
    _set_shape(d, shape)
    _set_layout(d, _ROW_MAJOR)
    _set_handles(d, (handle,))
    _set_offset(d, offset)
    _set_version(d, (1, 0))
    _set_trailing(d, b"")
    for set_none in _set_none:
        set_none(d, None)
    return d
