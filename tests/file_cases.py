"""Building Hurray files by hand, field by field, so that every field can be given a wrong value."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import google_crc32c
import numpy as np

import hurray


def align(data: bytearray, alignment: int) -> int:
    """Append zeros up to a multiple of ``alignment`` and return the length."""
    data += bytes(-len(data) % alignment)
    return len(data)


@dataclass
class Entry:
    """One entry of a file made by hand; ``changes`` overwrite what its index entry says."""

    name: bytes
    descriptor: bytes
    buffers: list[bytes]
    changes: dict[str, int] = field(default_factory=dict)


def entry(name: str, array: Any, **changes: int) -> Entry:
    """Return the entry of an array or a tensor."""
    tensor = hurray.asarray(array)
    return Entry(name.encode(), tensor.descriptor.encode(), [b.tobytes() for b in tensor._buffers], changes)


def head(name: str, rule: str, shape: tuple[int, ...], count: int, op: str | None = None, **changes: int) -> Entry:
    """Return the entry of a composite head."""
    descriptor = hurray.Descriptor.build(
        dtype=hurray.float64, shape=shape, layout=hurray.CompositeLayout(rule, count, op), buffer_sizes=()
    )
    return Entry(name.encode(), descriptor.encode(), [], changes)


def build(
    entries: list[Entry] | None = None,
    *,
    kv: bytes = b"",
    header: dict[str, Any] | None = None,
    trailer: dict[str, Any] | None = None,
    alignment: int = 4096,
    index: bytes | None = None,
    order: list[int] | None = None,
) -> bytes:
    """Return the bytes of a file; ``header`` and ``trailer`` overwrite fields by name."""
    entries = [entry("a", np.arange(4.0))] if entries is None else entries
    data = bytearray(64)
    rows: list[bytes] = []
    for e in entries:
        at = align(data, 8)
        data += e.descriptor
        start = end = len(data)
        for k, buffer in enumerate(e.buffers):
            end = align(data, alignment)
            start = start if k else end
            data += buffer
            end += len(buffer)
        fields = {
            "descriptor_offset": at, "descriptor_length": len(e.descriptor), "data_offset": start,
            "data_length": end - start, "flags": 0, **e.changes,
        }  # fmt: skip
        rows.append(struct.pack("<H", len(e.name)) + e.name + struct.pack("<QIQQI", *fields.values()))
    kv_offset = align(data, 8)
    data += kv
    ordered = rows if order is None else [rows[k] for k in order]
    section = struct.pack("<Q", len(rows)) + b"".join(ordered) if index is None else index
    index_offset = align(data, 8)
    data += section
    tail: dict[str, Any] = {
        "index_offset": index_offset, "index_length": len(section), "kv_offset": kv_offset if kv else 0,
        "kv_length": len(kv), "crc": google_crc32c.value(section), "reserved": b"", "magic": b"HRRY", **(trailer or {}),
    }  # fmt: skip
    data += struct.pack("<QQQII4s4s", *tail.values())
    top: dict[str, Any] = {
        "magic": b"HRRYFILE", "major": 1, "minor": 0, "reserved": 0, "flags": 4, "alignment": alignment, "first": 64,
        "hint": 2**64 - 1, "reserved2": b"", **(header or {}),
    }  # fmt: skip
    data[:64] = struct.pack("<8sBBHIIQQ28s", *top.values())
    return bytes(data)
