"""Descriptors, streams and files put together from bytes by hand, without any writer of the library.

Every function packs exactly what it is given, legal or not: the tests say what a reader has to make of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import google_crc32c

DYNAMIC = 2**64 - 1
QUANTIZATION, SHARD, EXTENSION, STATISTICS, MEMBER = 1, 2, 4, 8, 16


def u8s(*values: int) -> bytes:
    return bytes(values)


def u32s(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def u64s(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def i64s(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def f32s(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def f64s(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def handle(
    n_bytes: int, alignment: int | None = None, device: int = 0, sync: int = 0, memory: int = 0, reserved: int = 0
) -> bytes:
    """Return one row of a buffer table; the alignment is by default what writers write for the CPU."""
    if alignment is None:
        alignment = 64 if n_bytes else 1
    return struct.pack("<QIBBBB", n_bytes, alignment, device, sync, memory, reserved)


def descriptor(
    *,
    type_tag: int = 0x03,
    layout: int = 0x01,
    shape: Sequence[int] = (),
    byte_offset: int = 0,
    fields: bytes = b"",
    buffers: Iterable[int | bytes] = (),
    quantization: bytes | None = None,
    shard: bytes | None = None,
    statistics: bytes | None = None,
    extension: bytes | None = None,
    member: bytes | None = None,
    flags: int | None = None,
    magic: bytes = b"HRRY",
    version: tuple[int, int] = (1, 0),
    rank: int | None = None,
    length: int | None = None,
    appended: bytes = b"",
) -> bytes:
    """Return a descriptor; ``buffers`` are sizes or whole handles, sections are their bytes."""
    rows = [row if isinstance(row, bytes) else handle(row) for row in buffers]
    sections = (
        (QUANTIZATION, None if quantization is None else u32s(len(quantization)) + quantization),
        (SHARD, shard),
        (STATISTICS, statistics),
        (EXTENSION, extension),
        (MEMBER, member),
    )
    if flags is None:
        flags = sum(bit for bit, section in sections if section is not None)
    body = u64s(*shape) + u64s(byte_offset) + fields + u8s(len(rows)) + b"".join(rows)
    body += b"".join(section for _, section in sections if section is not None) + appended
    n_bytes = 20 + len(body) if length is None else length
    head = struct.pack(
        "<4sBBIIBBI", magic, *version, n_bytes, flags, type_tag, layout, len(shape) if rank is None else rank
    )
    return head + body


def per_tensor(scale: float = 0.5, zero_point: int = 0, *, flags: int = 0, version: int = 1, tag: int = 0x01) -> bytes:
    return struct.pack("<BBHfi4x", tag, version, flags, scale, zero_point)


def per_channel(
    axis: int, scale: int, zero: int = 0xFFFFFFFF, *, scale_type: int = 0x03, flags: int | None = None, version: int = 1
) -> bytes:
    wanted = int(zero == 0xFFFFFFFF) if flags is None else flags
    return struct.pack("<BBHIIIB3x", 0x02, version, wanted, axis, scale, zero, scale_type)


def per_block(
    axis: int, block: int, scale: int, zero: int = 0xFFFFFFFF, *, scale_type: int = 0x03, flags: int | None = None
) -> bytes:
    wanted = int(zero == 0xFFFFFFFF) if flags is None else flags
    return struct.pack("<BBHIIIIB3x", 0x03, 1, wanted, axis, block, scale, zero, scale_type)


def nf4(axis: int, block: int, scale: int, *, flags: int = 0) -> bytes:
    return struct.pack("<BBHIII", 0x04, 1, flags, axis, block, scale)


def mxfp(axis: int, block: int, scale: int, *, flags: int = 0) -> bytes:
    return struct.pack("<BBHIII", 0x05, 1, flags, axis, block, scale)


def statistics(mask: int, *, nnz: int = 0, floats: Sequence[float] = (0.0,) * 6, small: bytes = bytes(8)) -> bytes:
    """Return a statistics section: the floats in wire order, then nm_n, nm_m, has_nan, has_inf and 4 reserved bytes."""
    return u32s(mask, 0) + u64s(nnz) + f64s(*floats) + small


def extension(
    bits: int,
    packing: int,
    *,
    is_float: int = 0,
    is_signed: int = 0,
    parts: bytes = bytes(3),
    bias: int = 0,
    has_nan: int = 0,
    has_inf: int = 0,
    reserved: bytes = bytes(2),
    reserved2: bytes = bytes(2),
) -> bytes:
    return (
        u32s(bits)
        + u8s(packing, is_float, is_signed)
        + parts
        + reserved
        + u32s(bias)
        + u8s(has_nan, has_inf)
        + reserved2
    )


def shard(parent: Sequence[int], offset: Sequence[int]) -> bytes:
    return u64s(*parent) + u64s(*offset)


def member(role: int) -> bytes:
    return u8s(role) + bytes(15)


def head(
    rule: int,
    count: int,
    *,
    op: int = 0,
    shape: Sequence[int] = (),
    type_tag: int = 0x03,
    reserved: bytes = bytes(2),
    shard: bytes | None = None,
) -> bytes:
    """Return the descriptor of a composite head."""
    fields = u8s(rule, op) + reserved + u32s(count)
    return descriptor(type_tag=type_tag, layout=0x0B, shape=shape, fields=fields, shard=shard)


def tensor(*buffers: bytes, **about: object) -> bytes:
    """Return a tensor as it stands in a stream: its descriptor, and its buffers in table order."""
    return descriptor(buffers=[len(b) for b in buffers], **about) + b"".join(buffers)  # type: ignore[arg-type]


class Put(NamedTuple):
    """One tensor of a file: its name, its descriptor and its buffers."""

    name: str | bytes
    descriptor: bytes
    buffers: tuple[bytes, ...] = ()


def up(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def file(
    items: Sequence[Put],
    *,
    kv: bytes | None = None,
    order: Sequence[int] | None = None,
    alignment: int = 4096,
    flags: int = 4,
    version: tuple[int, int] = (1, 0),
    pad_behind: bool = False,
    pad_heads: bool = False,
    first: int = 64,
    crc: int | None = None,
    hint: int = DYNAMIC,
    changes: dict[int, dict[str, int]] | None = None,
    counts: int | None = None,
) -> bytes:
    """Return a file.

    ``order`` is the order of the index (positions in ``items``), ``pad_behind`` pads to the data alignment behind the
    last buffer, ``pad_heads`` pads composite heads like tensors, and ``changes`` replaces fields of index entries.
    """
    out = bytearray(struct.pack("<8sBBHIIQQ28x", b"HRRYFILE", *version, 0, flags, alignment, first, hint))
    out += bytes(first - len(out))
    entries = []
    for k, item in enumerate(items):
        out += bytes(up(len(out), 8) - len(out))
        at = len(out)
        out += item.descriptor
        start = end = len(out)
        if pad_heads and not item.buffers:
            out += bytes(up(len(out), alignment) - len(out))
        for n, buffer in enumerate(item.buffers):
            out += bytes(up(len(out), alignment) - len(out))
            start = len(out) if n == 0 else start
            out += buffer
            end = len(out)
        if pad_behind and item.buffers:
            out += bytes(up(len(out), alignment) - len(out))
        entry = {
            "descriptor_offset": at,
            "descriptor_length": len(item.descriptor),
            "data_offset": start,
            "data_length": end - start,
            "flags": 0,
        }
        entry.update((changes or {}).get(k, {}))
        name = item.name.encode() if isinstance(item.name, str) else item.name
        entries.append(struct.pack("<H", len(name)) + name + struct.pack("<QIQQI", *entry.values()))
    out += bytes(up(len(out), 8) - len(out))
    kv_offset = len(out) if kv is not None else 0
    out += kv or b""
    out += bytes(up(len(out), 8) - len(out))
    index = u64s(len(entries) if counts is None else counts)
    index += b"".join(entries[k] for k in (range(len(entries)) if order is None else order))
    index_offset = len(out)
    out += index
    if crc is None:
        crc = int(google_crc32c.value(bytes(index))) if flags & 4 else 0
    return bytes(out) + struct.pack("<QQQII4x4s", index_offset, len(index), kv_offset, len(kv or b""), crc, b"HRRY")


def kv(*entries: tuple[bytes, int, bytes], count: int | None = None) -> bytes:
    """Return a key-value section of entries (key, value tag, value bytes)."""
    body = b"".join(struct.pack("<H", len(key)) + key + u8s(tag) + value for key, tag, value in entries)
    return u32s(len(entries) if count is None else count) + body
