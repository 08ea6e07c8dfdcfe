"""Bytes to descriptor and back, exact inverses of each other.

Format: descriptor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from hurray.descriptor.check import check_buffer_count, check_descriptor
from hurray.descriptor.model import BufferHandle, Descriptor
from hurray.descriptor.plain import decode_plain, encode_plain
from hurray.descriptor.relay import decode_unknown
from hurray.descriptor.sections import ExtensionType, Shard, Statistics, parse_member, write_member
from hurray.devices import DEVICE_TAGS, SYNC_MODES, Device
from hurray.dtypes.table import ALL_DTYPES, Dtype
from hurray.errors import HurrayError, InvalidDescriptorError
from hurray.layouts import LAYOUTS
from hurray.layouts._base import Layout
from hurray.layouts.composite import CompositeLayout
from hurray.layouts.private import PrivateExtensionLayout
from hurray.limits import MAX_RANK
from hurray.quantization import parse_payload
from hurray.wire.reader import Field, Reader
from hurray.wire.writer import Writer

__all__ = [
    "DYNAMIC",
    "FIXED_BYTES",
    "MAGIC",
    "check_descriptor",
    "decode_descriptor",
    "descriptor_length",
    "encode_descriptor",
    "encode_unchecked",
    "parse_tail",
    "section_flags",
]

MAGIC = b"HRRY"
FIXED_BYTES = 20
DYNAMIC = 2**64 - 1

QUANTIZATION, SHARD, EXTENSION, STATISTICS, MEMBER = 1, 2, 4, 8, 16
_KNOWN_FLAGS = 31
_PUBLIC_DTYPES = {dtype.tag: dtype for dtype in ALL_DTYPES}
_HEAD = struct.Struct("<4sBBIIBBI")
_HANDLE = struct.Struct("<QIBBBB")
_T = TypeVar("_T")


def descriptor_length(prefix: bytes | bytearray | memoryview) -> int:
    """Return the length that a descriptor announces in its first 10 bytes.

    Raises
    ------
    InvalidDescriptorError
        Wrong magic or major version, a length below 20, or fewer than 10 bytes.
    """
    r = Reader(prefix)
    return _parse_prefix(r)[1]


def decode_descriptor(
    data: bytes | bytearray | memoryview, *, permissive: bool = False, trace: list[Field] | None = None
) -> Descriptor:
    """Decode the descriptor at the start of ``data``; input beyond its length is ignored.

    Parameters
    ----------
    permissive : bool
        Hand over unknown element types, layouts and schemes, and private composition rules, instead of refusing them.
    trace : list of Field, optional
        Receives every field that is read, up to where an error breaks off.

    Raises
    ------
    InvalidDescriptorError
        A rule of the format is broken; the message says which, and where.
    """
    if trace is None:
        plain = decode_plain(data)
        if plain is not None:
            return plain
        try:
            return _decode(Reader(data), len(data), permissive)
        except InvalidDescriptorError:
            # Once more, with a note of where every field is, so that the error can say it.
            trace = []
    return _decode(Reader(data, trace=trace), len(data), permissive)


def _decode(r: Reader, n_bytes: int, permissive: bool) -> Descriptor:
    head = _sound_head(r, n_bytes)
    if head is None:
        (major, minor), length = _parse_prefix(r)
        if length > n_bytes:
            what = f"descriptor_length is {length}, but only {n_bytes} bytes are there"
            r.fail(what, field="descriptor_length", offset=6)
        r.limit(length)
        flags, dtype, layout_tag, shape = _parse_fixed(r, permissive)
    else:
        major, minor, flags, dtype, layout_tag, shape = head
    byte_offset = r.u64("byte_offset")
    layout_class = _layout_class(r, layout_tag, permissive)
    if layout_class is None:
        return decode_unknown(
            r,
            flags=flags,
            dtype=dtype,
            layout_tag=layout_tag,
            shape=shape,
            byte_offset=byte_offset,
            version=(major, minor),
            parse_tail=parse_tail,
            encode=encode_unchecked,
        )
    at = r.offset
    with r.inside("layout"):
        layout = _guard(r, at, "fields", lambda: layout_class(r, shape))
    descriptor = parse_tail(
        r,
        flags=flags,
        dtype=dtype,
        layout=layout,
        shape=shape,
        byte_offset=byte_offset,
        version=(major, minor),
        permissive=permissive,
    )
    _guard(r, 0, None, lambda: check_descriptor(descriptor))
    return descriptor


def _guard(r: Reader, at: int, field: str | None, build: Callable[[], _T]) -> _T:
    """Run ``build``; give errors of values, which know no place, the place of what was read.

    Messages about a value start with the name of its field.
    """
    try:
        return build()
    except InvalidDescriptorError as error:
        if error.offset is not None:
            raise
        message, own = str(error), error.field
    except HurrayError:
        raise
    except ValueError as error:
        message, own = str(error), None
    place = r.find(own or message.partition(" ")[0]) if own or field else None
    if place is not None:
        r.fail(message, field=own or place.path, offset=place.offset, absolute=True)
    r.fail(message, field=own or field, offset=at)


def _parse_prefix(r: Reader) -> tuple[tuple[int, int], int]:
    magic = r.take(4, "magic")
    if magic != MAGIC:
        r.fail(f"magic must be {MAGIC!r}, but is {magic!r}", field="magic", offset=0)
    major = r.u8("version_major")
    minor = r.u8("version_minor")
    if major != 1:
        r.fail(f"version {major}.{minor} is not supported; this library reads 1.x", field="version_major", offset=4)
    length = r.u32("descriptor_length")
    if length < FIXED_BYTES:
        r.fail(f"must be at least {FIXED_BYTES}, but is {length}", field="descriptor_length", offset=6)
    return (major, minor), length


def _parse_fixed(r: Reader, permissive: bool) -> tuple[int, Dtype, int, tuple[int | None, ...]]:
    flags = r.u32("flags")
    if flags >> 5:
        r.fail(f"reserved flag bits are set: {flags:#010x}", field="flags", offset=10)
    type_tag = r.u8("type_tag")
    dtype = _guard(r, 14, "type_tag", lambda: Dtype._carried(type_tag) if permissive else Dtype.from_tag(type_tag))
    layout_tag = r.u8("layout_tag")
    if layout_tag in (0x00, 0xFF):
        r.fail(f"layout tag {layout_tag:#04x} is permanently invalid", field="layout_tag", offset=15)
    rank = r.u32("rank")
    if rank > MAX_RANK:
        r.fail(f"rank {rank} exceeds {MAX_RANK}", field="rank", offset=16)
    if dtype.is_private != bool(flags & EXTENSION):
        wanted = "needs an" if dtype.is_private else "takes no"
        r.fail(f"type tag {type_tag:#04x} {wanted} extension type section", field="flags", offset=10)
    shape = tuple(None if n == DYNAMIC else n for n in r.u64s(rank, "shape"))
    return flags, dtype, layout_tag, shape


def _sound_head(r: Reader, n_bytes: int) -> tuple[int, int, int, Dtype, int, tuple[int | None, ...]] | None:
    """Read the fixed header and the shape at once, or nothing when fields are traced or one is not as it should be."""
    if r.is_traced or n_bytes < FIXED_BYTES:
        return None
    magic, major, minor, length, flags, type_tag, layout_tag, rank = _HEAD.unpack(r.peek(FIXED_BYTES))
    dtype = _PUBLIC_DTYPES.get(type_tag)
    if magic != MAGIC or major != 1 or not FIXED_BYTES + 8 * rank <= length <= n_bytes or flags & ~_KNOWN_FLAGS:
        return None
    if dtype is None or flags & EXTENSION or layout_tag in (0x00, 0xFF) or rank > MAX_RANK:
        return None
    r.limit(length)
    r.skip(FIXED_BYTES)
    shape: tuple[int | None, ...] = r.u64s(rank, "shape")
    if DYNAMIC in shape:
        shape = tuple(None if n == DYNAMIC else n for n in shape)
    return major, minor, flags, dtype, layout_tag, shape


def _layout_class(r: Reader, tag: int, permissive: bool) -> Callable[[Reader, tuple[int | None, ...]], Layout] | None:
    known = LAYOUTS.get(tag)
    if known is not None:
        return CompositeLayout.parse_carried if permissive and known is CompositeLayout else known.parse_fields
    if 0xF0 <= tag < 0xFF:
        return lambda reader, shape: PrivateExtensionLayout.parse_tagged(tag, reader)
    if not permissive:
        kind = "reserved" if tag >= 0x80 else "unassigned"
        r.fail(f"layout tag {tag:#04x} is {kind}", field="layout_tag", offset=15)
    return None


def parse_tail(
    r: Reader,
    *,
    flags: int,
    dtype: Dtype,
    layout: Layout,
    shape: tuple[int | None, ...],
    byte_offset: int,
    version: tuple[int, int],
    permissive: bool,
) -> Descriptor:
    """Read everything behind the layout's fields: buffer table, sections, and what a later minor version appended."""
    handles = _parse_handles(r)
    scheme = shard = statistics = extension = role = None
    if flags & QUANTIZATION:
        length = r.u32("quantization_length")
        at, end = r.offset, r.end
        if length > r.remaining:
            r.fail(
                f"announces {length} bytes, but only {r.remaining} are left", field="quantization_length", offset=at - 4
            )
        r.limit(at + length)
        with r.inside("quantization"):
            scheme = _guard(r, at, "fields", lambda: parse_payload(r, permissive=permissive))
        r.limit(end)
    if flags & SHARD:
        at = r.offset
        with r.inside("shard"):
            shard = _guard(r, at, "fields", lambda: Shard.parse(r, len(shape)))
    if flags & STATISTICS:
        at = r.offset
        with r.inside("statistics"):
            statistics = _guard(r, at, "fields", lambda: Statistics.parse(r))
    if flags & EXTENSION:
        at = r.offset
        with r.inside("extension_type"):
            extension = _guard(r, at, "fields", lambda: ExtensionType.parse(r))
    if flags & MEMBER:
        with r.inside("composite_member"):
            role = parse_member(r)
    if r.remaining and version[1] == 0 and not permissive:
        r.fail(f"{r.remaining} bytes are left behind the last part, which version 1.0 does not allow")
    trailing = r.take(r.remaining, "appended") if r.remaining else b""
    return Descriptor(
        dtype=dtype,
        shape=shape,
        layout=layout,
        buffer_handles=handles,
        byte_offset=byte_offset,
        quantization=scheme,
        shard=shard,
        statistics=statistics,
        extension_type=extension,
        member_role=role,
        version=version,
        trailing=trailing,
    )


def _parse_handles(r: Reader) -> tuple[BufferHandle, ...]:
    count = r.u8("buffer_count")
    handles = _sound_handles(r, count)
    if handles is not None:
        return handles
    handles = ()
    for k in range(count):
        with r.inside(f"buffers[{k}]"):
            at = r.offset
            byte_size = r.u64("byte_size")
            alignment = r.u32("alignment")
            device_tag = r.u8("device_tag")
            sync = r.u8("sync_mode")
            class_tag = r.u8("memory_class")
            device = _guard(r, at + 12, "device_tag", lambda d=device_tag, c=class_tag: Device.from_tags(d, c))  # type: ignore[misc]
            if sync >= len(SYNC_MODES):
                r.fail(f"sync mode {sync:#04x} is not defined", field="sync_mode", offset=at + 13)
            r.reserved(1)
            handles += (BufferHandle(byte_size, alignment, device, SYNC_MODES[sync]),)
    return handles


def _sound_handles(r: Reader, count: int) -> tuple[BufferHandle, ...] | None:
    """Read ``count`` handles at once, or none of them when fields are traced or one is not as it should be."""
    if r.is_traced or count * _HANDLE.size > r.remaining:
        return None
    handles = []
    for byte_size, alignment, device_tag, sync, class_tag, reserved in _HANDLE.iter_unpack(
        r.peek(count * _HANDLE.size)
    ):
        device = _KNOWN_DEVICES.get((device_tag, class_tag))
        if device is None or sync >= len(SYNC_MODES) or reserved:
            return None
        handles.append(BufferHandle(byte_size, alignment, device, SYNC_MODES[sync]))
    r.skip(count * _HANDLE.size)
    return tuple(handles)


#: devices in their usual memory class
_KNOWN_DEVICES = {(tag, 0): Device.from_tags(tag, 0) for tag in DEVICE_TAGS.values()}


def section_flags(d: Descriptor) -> int:
    """Return the flags of the fixed header that the descriptor's sections set."""
    if d.opaque_flags is not None:
        return d.opaque_flags
    return (
        (QUANTIZATION if d.quantization is not None else 0)
        | (SHARD if d.shard is not None else 0)
        | (EXTENSION if d.extension_type is not None else 0)
        | (STATISTICS if d.statistics is not None else 0)
        | (MEMBER if d.member_role is not None else 0)
    )


def encode_descriptor(d: Descriptor) -> bytes:
    """Return the bytes of a descriptor.

    Raises
    ------
    InvalidDescriptorError
        The number of buffers is not that of the layout and the scheme.
    """
    check_buffer_count(d)
    return encode_unchecked(d)


def encode_unchecked(d: Descriptor) -> bytes:
    """Return the bytes of a descriptor, whatever its buffer count."""
    plain = encode_plain(d)
    if plain is not None:
        return plain
    w = Writer()
    w.raw(_HEAD.pack(MAGIC, *d.version, 0, section_flags(d), d.dtype.tag, d.layout.tag, len(d.shape)))
    w.u64s([DYNAMIC if n is None else n for n in d.shape])
    w.u64(d.byte_offset)
    d.layout.write_fields(w)
    if d.opaque_flags is None:
        _write_tail(w, d)
    w.patch_u32(6, len(w))
    return w.getvalue()


def _write_tail(w: Writer, d: Descriptor) -> None:
    w.u8(len(d.buffer_handles))
    for h in d.buffer_handles:
        sync = SYNC_MODES.index(h.sync_mode)
        w.raw(_HANDLE.pack(h.byte_size, h.alignment, h.device.tag, sync, h.device.memory_class_tag, 0))
    if d.quantization is not None:
        payload = d.quantization.encode()
        w.u32(len(payload))
        w.raw(payload)
    if d.shard is not None:
        d.shard.write(w)
    if d.statistics is not None:
        d.statistics.write(w)
    if d.extension_type is not None:
        d.extension_type.write(w)
    if d.member_role is not None:
        write_member(w, d.member_role)
    w.raw(d.trailing)
