"""Metadata: every type, both ways, and every rule."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hurray.container.kv import decode_kv, encode_kv, parse_kv
from hurray.errors import FileError

I64 = st.integers(-(2**63), 2**63 - 1)
U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS: list[st.SearchStrategy[Any]] = [TEXT, I64, U64, st.floats(), st.booleans(), st.binary()]
VALUES = st.one_of(*SCALARS, *[st.lists(s, max_size=5) for s in SCALARS])
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def same(a: Any, b: Any) -> bool:
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, float):
        return isinstance(a, float) and struct.pack("<d", a) == struct.pack("<d", b)
    return type(a) is type(b) and bool(a == b)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_round_trip(kv: dict[str, Any]) -> None:
    data = encode_kv(kv)
    back = decode_kv(data)
    assert list(back) == list(kv)
    for key, value in kv.items():
        assert same(back[key], value)
    assert encode_kv(back) == data


def test_bytes_of_each_type() -> None:
    kv = {"s": "\u00e9", "i": -2, "u": 2**64 - 1, "f": 1.5, "t": True, "b": b"\xff", "l": [1, 2]}
    expected = b"\7\0\0\0"
    expected += b"\1\0s\1" + b"\2\0\0\0\xc3\xa9"
    expected += b"\1\0i\2" + b"\xfe" + b"\xff" * 7
    expected += b"\1\0u\3" + b"\xff" * 8
    expected += b"\1\0f\4" + struct.pack("<d", 1.5)
    expected += b"\1\0t\5\1"
    expected += b"\1\0b\6\1\0\0\0\xff"
    expected += b"\1\0l\7\2\2\0\0\0" + struct.pack("<qq", 1, 2)
    assert encode_kv(kv) == expected
    assert decode_kv(expected) == kv


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "bool"),
        (np.True_, "bool"),
        (1, "int64"),
        (2**63, "uint64"),
        (np.uint64(5), "int64"),
        (np.int8(-5), "int64"),
        (np.float32(0.5), "float64"),
        (np.str_("x"), "string"),
        (bytearray(b"x"), "bytes"),
        ([], "array<string>"),
        ((1, 2), "array<int64>"),
        ([1, 2**63], "array<uint64>"),
        ([False], "array<bool>"),
        (np.arange(3), "array<int64>"),
        (np.ones(2, np.float32), "array<float64>"),
        (np.ones(2, bool), "array<bool>"),
    ],
)
def test_types_on_the_wire(value: Any, kind: str) -> None:
    assert [entry.type for entry in parse_kv(encode_kv({"k": value}))] == [kind]


@pytest.mark.parametrize(
    ("kv", "error", "words"),
    [
        ({"nested": {"a": 1}}, TypeError, "nested"),
        ({"none": None}, TypeError, "none"),
        ({"deep": [[1]]}, TypeError, "deep"),
        ({"grid": np.ones((2, 2))}, TypeError, "grid"),
        ({"c": 1j}, TypeError, "'c'"),
        ({1: 2}, TypeError, "key"),
        ({"": 2}, ValueError, "key"),
        ({"k" * 65536: 2}, ValueError, "key"),
        ({"\ud800": 2}, ValueError, "UTF-8"),
        ({"s": "\ud800"}, ValueError, "'s'"),
        ({"mix": [1, 1.0]}, ValueError, "mix"),
        ({"mix": [1, True]}, ValueError, "mix"),
        ({"mix": ["a", b"a"]}, ValueError, "mix"),
        ({"wide": [2**63, -1]}, ValueError, "wide"),
        ({"big": 2**64}, ValueError, "big"),
        ({"low": -(2**63) - 1}, ValueError, "low"),
    ],
)
def test_what_cannot_be_stored_names_the_key(kv: dict[Any, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        encode_kv(kv)


def section(*entries: bytes, count: int | None = None) -> bytes:
    return struct.pack("<I", len(entries) if count is None else count) + b"".join(entries)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "count"),
        (b"\1\0\0", "count"),
        (section(count=1), "key_length"),
        (section(count=2**32 - 1), "key_length"),
        (section(b"\0\0\2" + bytes(8)), "at least 1 byte"),
        (section(b"\2\0\xc0\xaf\2" + bytes(8)), "UTF-8"),
        (section(b"\3\0\xed\xa0\x80\2" + bytes(8)), "UTF-8"),
        (section(b"\xff\xffk"), "key"),
        *[(section(b"\1\0k" + bytes([tag]) + bytes(8)), "tag") for tag in (0, 8, 0xF0, 0xFE, 0xFF)],
        *[(section(b"\1\0k\7" + bytes([tag]) + bytes(12)), "tag") for tag in (0, 7, 8, 0xF0, 0xFF)],
        (section(b"\1\0k\2" + bytes(7)), "needs 8 bytes"),
        (section(b"\1\0k\5\2"), "0 or 1"),
        (section(b"\1\0k\7\5\3\0\0\0\1\2\1"), "0 or 1"),
        (section(b"\1\0k\1\2\0\0\0\xff\xff"), "UTF-8"),
        (section(b"\1\0k\1\xff\xff\xff\xff"), "needs 4294967295"),
        (section(b"\1\0k\7\2\xff\xff\xff\xff" + bytes(16)), "needs"),
        (section(b"\1\0k\7\4\xff\xff\xff\xff" + bytes(16)), "needs"),
        (section(b"\1\0k\7\5\xff\xff\xff\xff" + bytes(16)), "needs"),
        (section(b"\1\0k\7\1\xff\xff\xff\xff" + bytes(16)), "needs"),
        (section(b"\1\0k\5\0", b"\1\0k\5\0"), "twice"),
        (section(b"\1\0k\5\0") + b"\0", "left"),
        (section(b"\1\0k\5\0", b"\1\0j\5\0", count=1), "left"),
    ],
)
def test_rules(data: bytes, words: str) -> None:
    with pytest.raises(FileError, match=words):
        decode_kv(data)


def test_nan_payloads_and_empty_values() -> None:
    payload = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
    back = decode_kv(encode_kv({"n": payload, "e": "", "b": b"", "l": [math.inf, payload]}))
    assert struct.pack("<d", back["n"]).hex() == "010000000000f8ff"
    assert back["e"] == ""
    assert back["b"] == b""
    assert struct.pack("<d", back["l"][1]).hex() == "010000000000f8ff"  # type: ignore[index]


@given(st.binary(max_size=80))
def test_any_bytes_give_values_or_a_file_error(data: bytes) -> None:
    try:
        entries = parse_kv(data)
    except FileError:
        return
    assert encode_kv({e.key: e.value for e in entries})[:4] == data[:4]
