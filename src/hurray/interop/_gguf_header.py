"""The head of a GGUF file: metadata, the table of tensors, and what may be believed of them.

The file is the magic ``GGUF``, a version, two counts, key-value pairs, one record for each tensor (name, dimensions
with the fastest first, kind, offset), and behind them, at a multiple of the alignment, the tensors' bytes.  Strings
and arrays are counted in 64 bits.  Nothing is allocated for a count that the bytes left cannot satisfy.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from hurray.errors import FileError, UnsupportedError
from hurray.interop._gguf_kinds import KINDS, Kind
from hurray.limits import MAX_RANK
from hurray.sources import Source

__all__ = ["Entry", "Head", "Key", "read_head"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_ALIGNMENT_KEY = "general.alignment"
_MAX_KEY_BYTES = 65535
_MAX_NESTING = 8
_WINDOW = 1 << 20

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

_STRING, _ARRAY, _BOOL = 8, 9, 7
#: name, and how NumPy reads one, of the values of fixed size
_SCALARS = {
    0: ("uint8", "<u1"),
    1: ("int8", "<i1"),
    2: ("uint16", "<u2"),
    3: ("int16", "<i2"),
    4: ("uint32", "<u4"),
    5: ("int32", "<i4"),
    6: ("float32", "<f4"),
    _BOOL: ("bool", "<u1"),
    10: ("uint64", "<u8"),
    11: ("int64", "<i8"),
    12: ("float64", "<f8"),
}
# Least bytes of a key-value pair and of a tensor record: what their counts are checked against.
_LEAST_PAIR = 8 + 1 + 4 + 1
_LEAST_RECORD = 8 + 1 + 4 + 4 + 8


class Key(NamedTuple):
    """One value of the metadata: its type there, and what it is; ``refused`` says why it has no place here."""

    type: str
    value: Any
    refused: str = ""


class Entry(NamedTuple):
    """One tensor: its kind (None when the number is unknown), shape in NumPy order, and place in the file."""

    number: int
    shape: tuple[int, ...]
    offset: int
    n_bytes: int

    @property
    def kind(self) -> Kind | None:
        """The kind, or None when its number is unknown (and with it the size)."""
        return KINDS.get(self.number)

    @property
    def kind_name(self) -> str:
        """What ggml calls the kind."""
        kind = self.kind
        return f"type {self.number}" if kind is None else kind.name


class Head(NamedTuple):
    """The parsed head of a file."""

    version: int
    entries: dict[str, Entry]
    keys: dict[str, Key]


class _Cursor:
    """A forward cursor over a source that never looks past its end and holds little of it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.at = 0
        self._window = b""
        self._start = 0

    @property
    def remaining(self) -> int:
        return self.source.size - self.at

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        where = self.at if offset is None else offset
        raise FileError(f"{self.source.name}: {message} (at byte {where})", filename=self.source.name).at(offset=where)

    def claim(self, n_bytes: int, what: str) -> None:
        """Refuse to read more than is there."""
        if n_bytes > self.source.size - self.at:
            self.fail(f"{what} needs {n_bytes} bytes, but only {self.remaining} are left")

    def take(self, n_bytes: int, what: str) -> bytes:
        begin = self.at - self._start
        end = begin + n_bytes
        if end > len(self._window):
            self.claim(n_bytes, what)
            self._start, begin, end = self.at, 0, n_bytes
            self._window = self.source.view(self.at, min(max(n_bytes, _WINDOW), self.remaining)).tobytes()
        self.at += n_bytes
        return self._window[begin:end]

    def u32(self, what: str) -> int:
        number: int = _U32.unpack(self.take(4, what))[0]
        return number

    def u64(self, what: str) -> int:
        number: int = _U64.unpack(self.take(8, what))[0]
        return number

    def blob(self, what: str) -> bytes:
        return self.take(self.u64(what), what)

    def name(self, what: str) -> str:
        at = self.at
        length = self.u64(what)
        if not 1 <= length <= _MAX_KEY_BYTES:
            self.fail(f"{what} has {length} bytes, expected 1 to {_MAX_KEY_BYTES}", at)
        blob = self.take(length, what)
        try:
            return blob.decode("utf-8")
        except UnicodeDecodeError as error:
            self.fail(f"{what} {blob[:40]!r} is not UTF-8: {error.reason}", at)


def read_head(source: Source) -> Head:
    """Read and check the head of a file.

    Raises
    ------
    FileError
        The file breaks a rule of the format.
    UnsupportedError
        It is of another version or byte order.
    """
    c = _Cursor(source)
    version = _read_version(c)
    n_tensors = c.u64("the number of tensors")
    n_keys = c.u64("the number of keys")
    c.claim(n_keys * _LEAST_PAIR + n_tensors * _LEAST_RECORD, f"a table of {n_keys} keys and {n_tensors} tensors")
    keys: dict[str, Key] = {}
    for _ in range(n_keys):
        at = c.at
        name = c.name("a key")
        if name in keys:
            c.fail(f"the key {name[:200]!r} occurs twice", at)
        keys[name] = _read_value(c, f"key {name[:200]!r}")
    alignment = _alignment(c, keys)
    records: dict[str, tuple[int, tuple[int, ...], int, int]] = {}
    for _ in range(n_tensors):
        at = c.at
        name = c.name("the name of a tensor")
        if name in records:
            c.fail(f"the tensor {name[:200]!r} occurs twice", at)
        records[name] = (*_read_record(c, f"tensor {name[:200]!r}", alignment), at)
    return Head(version, _place(c, records, -(-c.at // alignment) * alignment), keys)


def _read_version(c: _Cursor) -> int:
    if c.take(min(4, c.remaining), "the magic") != _MAGIC:
        c.fail("not a GGUF file: it does not start with 'GGUF'", 0)
    raw = c.take(4, "the version")
    version: int = _U32.unpack(raw)[0]
    if version not in _VERSIONS:
        if int.from_bytes(raw, "big") in (1, *_VERSIONS):
            raise UnsupportedError(f"{c.source.name} is a big-endian GGUF file; only little-endian ones can be read")
        raise UnsupportedError(f"{c.source.name} is a GGUF file of version {version}; versions 2 and 3 can be read")
    return version


def _alignment(c: _Cursor, keys: dict[str, Key]) -> int:
    found = keys.get(_ALIGNMENT_KEY)
    if found is None:
        return _DEFAULT_ALIGNMENT
    value = found.value
    if type(value) is not int or not 0 < value < 2**32 or value & (value - 1):
        c.fail(f"{_ALIGNMENT_KEY} must be a power of two, but is {str(value)[:40]}")
    return value


def _read_value(c: _Cursor, what: str) -> Key:
    tag = c.u32(f"{what}: its type")
    if tag != _ARRAY:
        kind = _type_name(c, tag, what)
        values = _read_run(c, tag, 1, what)
        return Key(kind, values[0])
    tag = c.u32(f"{what}: the type of its elements")
    count = c.u64(f"{what}: the number of its elements")
    if tag == _ARRAY:
        _skip_arrays(c, count, what)
        return Key("array of arrays", None, "metadata have no arrays of arrays here")
    kind = _type_name(c, tag, what)
    return Key(f"array of {kind}", _read_run(c, tag, count, what))


def _type_name(c: _Cursor, tag: int, what: str) -> str:
    if tag == _STRING:
        return "string"
    if tag not in _SCALARS:
        c.fail(f"{what} has the unknown type {tag}", c.at - 4)
    return _SCALARS[tag][0]


def _read_run(c: _Cursor, tag: int, count: int, what: str) -> list[Any]:
    """Read ``count`` values of one type."""
    if tag == _STRING:
        return _read_strings(c, count, what)
    dtype = np.dtype(_SCALARS[tag][1])
    at = c.at
    c.claim(count * dtype.itemsize, f"{what} of {count} values")
    values = np.frombuffer(c.take(count * dtype.itemsize, what), dtype)
    if tag == _BOOL:
        if count and int(values.max()) > 1:
            c.fail(f"{what} holds a boolean that is neither 0 nor 1", at)
        values = values.astype(bool)
    found: list[Any] = values.tolist()
    return found


def _read_strings(c: _Cursor, count: int, what: str) -> list[Any]:
    c.claim(8 * count, f"{what} of {count} strings")
    blobs = [c.blob(what) for _ in range(count)]
    try:
        return [blob.decode("utf-8") for blob in blobs]
    except UnicodeDecodeError:
        return blobs


def _skip_arrays(c: _Cursor, count: int, what: str) -> None:
    """Step over the elements of an array of arrays."""
    left = [count]
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        tag = c.u32(f"{what}: the type of its elements")
        n = c.u64(f"{what}: the number of its elements")
        if tag != _ARRAY:
            _type_name(c, tag, what)
            _read_run(c, tag, n, what)
            continue
        if len(left) >= _MAX_NESTING:
            c.fail(f"{what} is nested deeper than {_MAX_NESTING} arrays")
        left.append(n)


def _read_record(c: _Cursor, what: str, alignment: int) -> tuple[int, tuple[int, ...], int]:
    rank = c.u32(f"{what}: its rank")
    if rank > MAX_RANK:
        c.fail(f"{what} has {rank} dimensions, more than {MAX_RANK}", c.at - 4)
    c.claim(8 * rank, f"{what}: its shape")
    dims = [c.u64(f"{what}: its shape") for _ in range(rank)]
    number = c.u32(f"{what}: its type")
    offset = c.u64(f"{what}: its offset")
    if offset % alignment:
        c.fail(f"{what} lies at offset {offset}, which is no multiple of the alignment {alignment}", c.at - 8)
    shape = tuple(reversed(dims))
    if any(n >= 2**63 for n in shape) or prod(n for n in shape if n) >= 2**63:
        c.fail(f"{what}: shape {shape} has more elements than 63 bits count")
    kind = KINDS.get(number)
    if kind is not None and kind.block > 1 and (not rank or shape[-1] % kind.block):
        c.fail(f"{what}: rows of shape {shape} do not fill {kind.name} blocks of {kind.block} elements")
    return number, shape, offset


def _place(c: _Cursor, records: dict[str, tuple[int, tuple[int, ...], int, int]], start: int) -> dict[str, Entry]:
    """Give each tensor its place in the file, and check that they lie inside it and apart."""
    entries = {}
    for name, (number, shape, offset, at) in records.items():
        kind = KINDS.get(number)
        n_bytes = 0 if kind is None else prod(shape) // kind.block * kind.n_bytes
        if n_bytes and start + offset + n_bytes > c.source.size:
            c.fail(
                f"tensor {name[:200]!r} takes bytes {start + offset} to {start + offset + n_bytes} of a file of "
                f"{c.source.size}",
                at,
            )
        entries[name] = Entry(number, shape, start + offset, n_bytes)
    end, before = 0, ""
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].offset, item[1].n_bytes)):
        if entry.n_bytes and entry.offset < end:
            c.fail(f"tensor {name[:200]!r} overlaps tensor {before[:200]!r}", entry.offset)
        if entry.n_bytes:
            end, before = entry.offset + entry.n_bytes, name
    return entries
