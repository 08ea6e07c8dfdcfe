"""The key-value section: metadata of a whole file.

One table row per value type holds how it is read, written and recognised.  In Python a bool is not an int, an int that
needs 64 unsigned bits becomes a uint64, and a list holds values of one type; an empty list, which has no type of its
own, is written as an array of strings.

Format: file container, KV section.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hurray.errors import FileError
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["KVEntry", "KVValue", "decode_kv", "encode_kv", "parse_kv"]

KVScalar = str | int | float | bool | bytes
KVValue = KVScalar | list[str] | list[int] | list[float] | list[bool] | list[bytes]

_ARRAY = 0x07
_I64 = range(-(2**63), 2**63)
_U64 = range(2**64)
_U32_MAX = 2**32 - 1
_U16_MAX = 2**16 - 1


class KVEntry(NamedTuple):
    """One entry with its wire type, such as ``int64`` or ``array<string>``."""

    key: str
    type: str
    value: KVValue


# Reading: one function per scalar type gives ``count`` values


def _read_blobs(r: Reader, count: int, field: str) -> list[bytes]:
    blobs: list[bytes] = []
    for _ in range(count):
        n_bytes = r.u32(f"{field}.length")
        blobs.append(r.take(n_bytes, field))
    return blobs


def _read_strings(r: Reader, count: int, field: str) -> list[str]:
    at = r.offset
    return [_text(r, blob, field, at) for blob in _read_blobs(r, count, field)]


def _read_i64s(r: Reader, count: int, field: str) -> list[int]:
    return list(r.i64s(count, field))


def _read_u64s(r: Reader, count: int, field: str) -> list[int]:
    return list(r.u64s(count, field))


def _read_f64s(r: Reader, count: int, field: str) -> list[float]:
    # take() claims the bytes first, so a count that lies costs nothing.
    return list(struct.unpack(f"<{count}d", r.take(8 * count, field)))


def _read_bools(r: Reader, count: int, field: str) -> list[bool]:
    at = r.offset
    data = r.take(count, field)
    if data.strip(b"\0\1"):
        k = next(k for k, byte in enumerate(data) if byte > 1)
        r.fail(f"a bool must be 0 or 1, but is {data[k]}", field=field, offset=at + k)
    return [byte == 1 for byte in data]


def _text(r: Reader, blob: bytes, field: str, at: int) -> str:
    try:
        return blob.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        r.fail(f"{blob[:40]!r} is not UTF-8: {error.reason} at byte {error.start}", field=field, offset=at)


# Writing


def _write_strings(w: Writer, values: Sequence[str]) -> None:
    _write_blobs(w, [value.encode("utf-8") for value in values])


def _write_blobs(w: Writer, values: Sequence[bytes]) -> None:
    for value in values:
        if len(value) > _U32_MAX:
            raise ValueError(f"a string or bytes value holds at most {_U32_MAX} bytes, not {len(value)}")
        w.u32(len(value))
        w.raw(value)


def _write_f64s(w: Writer, values: Sequence[float]) -> None:
    w.raw(struct.pack(f"<{len(values)}d", *values))


def _write_bools(w: Writer, values: Sequence[bool]) -> None:
    w.raw(bytes(values))


class _Kind(NamedTuple):
    name: str
    read: Callable[[Reader, int, str], list[Any]]
    write: Callable[[Writer, Any], None]


_KINDS: dict[int, _Kind] = {
    0x01: _Kind("string", _read_strings, _write_strings),
    0x02: _Kind("int64", _read_i64s, Writer.i64s),
    0x03: _Kind("uint64", _read_u64s, Writer.u64s),
    0x04: _Kind("float64", _read_f64s, _write_f64s),
    0x05: _Kind("bool", _read_bools, _write_bools),
    0x06: _Kind("bytes", _read_blobs, _write_blobs),
}
_STRING, _INT64, _UINT64, _FLOAT64, _BOOL, _BYTES = _KINDS


def parse_kv(data: bytes, name: str = "<memory>") -> list[KVEntry]:
    """Decode a key-value section into its entries, in file order.

    Raises
    ------
    FileError
        The section is not exactly its entries, a key occurs twice, or a value breaks the format.
    """
    r = Reader(data, error=FileError, what=f"{name}: key-value section")
    count = r.u32("count")
    entries: list[KVEntry] = []
    keys: set[str] = set()
    for k in range(count):
        entry = _parse_entry(r, f"entries[{k}]")
        if entry.key in keys:
            r.fail(f"the key {entry.key!r} occurs twice", field=f"entries[{k}].key")
        keys.add(entry.key)
        entries.append(entry)
    if r.remaining:
        r.fail(f"{r.remaining} bytes are left behind the last of {count} entries")
    return entries


def decode_kv(data: bytes, name: str = "<memory>") -> dict[str, KVValue]:
    """Decode a key-value section into a dict, in file order."""
    return {entry.key: entry.value for entry in parse_kv(data, name)}


def _parse_entry(r: Reader, where: str) -> KVEntry:
    at = r.offset
    length = r.u16(f"{where}.key_length")
    if length == 0:
        r.fail("a key has at least 1 byte", field=f"{where}.key_length", offset=at)
    key = _text(r, r.take(length, f"{where}.key"), f"{where}.key", at + 2)
    at = r.offset
    tag = r.u8(f"{where}.value_tag")
    is_array = tag == _ARRAY
    if is_array:
        at = r.offset
        tag = r.u8(f"{where}.element_tag")
    kind = _KINDS.get(tag)
    if kind is None:
        what = "element" if is_array else "value"
        r.fail(f"key {key!r}: {what} tag {tag:#04x} is not defined", field=f"{where}.{what}_tag", offset=at)
    if is_array:
        count = r.u32(f"{where}.count")
        return KVEntry(key, f"array<{kind.name}>", kind.read(r, count, f"{where}.value"))
    return KVEntry(key, kind.name, kind.read(r, 1, f"{where}.value")[0])


def encode_kv(values: Mapping[str, Any]) -> bytes:
    """Encode metadata as a key-value section.

    Parameters
    ----------
    values : mapping of str to str, int, float, bool, bytes, or a list of one of them
        NumPy scalars and 1-D arrays are taken as what they hold.

    Raises
    ------
    TypeError
        A key is not a string, or a value is of another type (the key is named).
    ValueError
        A key is empty or too long, a number needs more than 64 bits, or a list mixes types.
    """
    if not hasattr(values, "items"):
        raise TypeError(f"metadata are a mapping of keys to values, not {type(values).__name__}")
    # A plain dict, because the count that is written must be that of the entries, whatever the mapping says or becomes.
    entries = dict(values.items())
    w = Writer()
    w.u32(len(entries))
    for key, value in entries.items():
        encoded = _encode_key(key)
        w.u16(len(encoded))
        w.raw(encoded)
        try:
            _write_value(w, value)
        except UnicodeEncodeError as error:
            raise ValueError(f"kv[{key!r}] cannot be written as UTF-8: {error.reason}") from None
        except (TypeError, ValueError) as error:
            raise type(error)(f"kv[{key!r}]: {error}") from None
    if len(w) > _U32_MAX:
        raise ValueError(f"all metadata together hold at most {_U32_MAX} bytes, not {len(w)}")
    return w.getvalue()


def _encode_key(key: object) -> bytes:
    if not isinstance(key, str):
        raise TypeError(f"a kv key is a str, not {type(key).__name__}: {key!r}")
    try:
        encoded = key.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"kv key {key!r} cannot be written as UTF-8: {error.reason}") from None
    if not 1 <= len(encoded) <= _U16_MAX:
        raise ValueError(f"a kv key has 1 to {_U16_MAX} bytes in UTF-8, not {len(encoded)}: {key[:40]!r}")
    return encoded


def _write_value(w: Writer, value: Any) -> None:
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise TypeError(f"an array of {value.ndim} dimensions is no kv value; save it as a tensor")
        value = list(value)
    if not isinstance(value, (list, tuple)):
        tag, plain = _scalar(value)
        w.u8(tag)
        _KINDS[tag].write(w, [plain])
        return
    tag, plains = _homogeneous(value)
    if len(plains) > _U32_MAX:
        raise ValueError(f"a list holds at most {_U32_MAX} values, not {len(plains)}")
    w.u8(_ARRAY)
    w.u8(tag)
    w.u32(len(plains))
    _KINDS[tag].write(w, plains)


def _homogeneous(values: Sequence[Any]) -> tuple[int, list[Any]]:
    if not values:
        return _STRING, []
    tagged = [_scalar(value) for value in values]
    plains = [plain for _, plain in tagged]
    tags = {tag for tag, _ in tagged}
    if tags == {_INT64, _UINT64}:
        # Small numbers fit both types; only a negative one cannot stand beside one above int64.
        if min(plains) < 0:
            raise ValueError(f"a list cannot hold both {min(plains)} and {max(plains)}: no 64-bit type has both")
        tags = {_UINT64}
    if len(tags) > 1:
        kinds = " and ".join(sorted(_KINDS[tag].name for tag in tags))
        raise ValueError(f"a list holds values of one type, not {kinds}")
    return tags.pop(), plains


def _scalar(value: Any) -> tuple[int, Any]:
    """Return the wire tag of a scalar and its plain Python value."""
    if isinstance(value, (bool, np.bool_)):
        return _BOOL, bool(value)
    if isinstance(value, (int, np.integer)):
        number = int(value)
        if number in _I64:
            return _INT64, number
        if number in _U64:
            return _UINT64, number
        raise ValueError(f"{number} needs more than 64 bits")
    if isinstance(value, (float, np.floating)):
        return _FLOAT64, float(value)
    if isinstance(value, str):
        return _STRING, value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _BYTES, bytes(value)
    raise TypeError(
        f"{type(value).__name__} is no kv value: expected str, int, float, bool, bytes or a list of one of them"
        f"{'; nested values can be stored as JSON text' if isinstance(value, (dict, list, tuple)) else ''}"
    )
