"""GGUF files written by hand, so that any field of theirs can be wrong."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

TYPES = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "str": 8, "arr": 9}
TYPES |= {"u64": 10, "i64": 11, "f64": 12}
_FORMATS = {"u8": "<B", "i8": "<b", "u16": "<H", "i16": "<h", "u32": "<I", "i32": "<i", "f32": "<f", "bool": "<B"}
_FORMATS |= {"u64": "<Q", "i64": "<q", "f64": "<d"}


class Record(NamedTuple):
    """A tensor record: dimensions as they stand in the file, the fastest first."""

    name: bytes
    dims: Sequence[int]
    kind: int
    offset: int


def text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def value(kind: str, given: Any) -> bytes:
    """Return a value without its type."""
    if kind == "str":
        return text(given)
    if kind == "arr":
        of, items = given
        return struct.pack("<IQ", TYPES[of], len(items)) + b"".join(value(of, item) for item in items)
    return struct.pack(_FORMATS[kind], given)


def pair(key: bytes, kind: str, given: Any) -> bytes:
    return text(key) + struct.pack("<I", TYPES[kind]) + value(kind, given)


def record(r: Record) -> bytes:
    dims = b"".join(struct.pack("<Q", n) for n in r.dims)
    return text(r.name) + struct.pack("<I", len(r.dims)) + dims + struct.pack("<IQ", r.kind, r.offset)


def gguf_file(
    pairs: Sequence[bytes] = (),
    records: Sequence[Record] = (),
    data: bytes = b"",
    *,
    alignment: int = 32,
    version: int = 3,
    n_tensors: int | None = None,
    n_keys: int | None = None,
    magic: bytes = b"GGUF",
) -> bytes:
    """Return a file; the counts are true unless they are given."""
    head = magic + struct.pack("<I", version)
    head += struct.pack("<Q", len(records) if n_tensors is None else n_tensors)
    head += struct.pack("<Q", len(pairs) if n_keys is None else n_keys)
    head += b"".join(pairs) + b"".join(record(r) for r in records)
    return head + bytes(-len(head) % alignment) + data


def one_tensor(kind: int, dims: Sequence[int], data: bytes, name: bytes = b"w") -> bytes:
    return gguf_file((), [Record(name, dims, kind, 0)], data)
