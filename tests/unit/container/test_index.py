"""The index: found by scanning, checked to the byte."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from file_cases import Entry, build, entry
from hurray.container.index import Index, encode_entry, encode_index, encode_name
from hurray.errors import FileError

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), unique=True, max_size=30)


def section(names: list[str], fields: tuple[int, int, int, int] = (64, 53, 4096, 16)) -> bytes:
    return encode_index([encode_entry(n.encode(), *fields) for n in names], len(names))


@given(NAMES, st.booleans())
def test_every_name_is_found_and_no_other(names: list[str], many: bool) -> None:
    index = Index(section(names))
    assert len(index) == len(names)
    for k, name in enumerate(names):
        fresh = index if many else Index(section(names))
        assert fresh.find(name) == k
        assert fresh.name(k) == name
        assert fresh.entry(k)[2:] == (64, 53, 4096, 16, 0)
    for other in ("", "absent from it", "\ud800", "x" * 70000):
        assert index.find(other) is None
    index.check()
    assert [e.name for e in index] == index.names() == names
    assert index.entries() == list(index)


@given(st.lists(st.sampled_from(["a", "b", "aa", "\0a", "\1\0a", "\2\0aa"]), unique=True, max_size=6))
def test_a_name_hidden_in_another_or_in_a_number_is_not_found(names: list[str]) -> None:
    # 0x6100_01 holds "\1\0a" as its bytes, the way a name of one letter starts.
    fields = (0x610001, 0x610001, 0x6101610001, 0x01610001)
    index = Index(section(names, fields))
    for name in ("a", "b", "aa", "\0a", "\1\0a", "\2\0aa"):
        assert Index(section(names, fields)).find(name) == (names.index(name) if name in names else None)
    assert [e.descriptor_offset for e in index] == [0x610001] * len(names)


def test_a_name_that_is_no_text_is_named_by_every_way_to_the_entries() -> None:
    index = Index(encode_index([encode_entry(n, 64, 53, 4096, 16) for n in (b"a", b"\xff")], 2))
    for use in (index.names, index.entries, lambda: list(index), index.check):
        with pytest.raises(FileError, match=r"entries\[1\]\.name"):
            use()


def test_names_without_data() -> None:
    entries = [encode_entry(n.encode(), 64, 53, 4096, size) for n, size in (("a", 0), ("b", 1), ("c", 0), ("d", 2**63))]
    assert Index(encode_index(entries, 4)).without_data() == [0, 2]
    assert Index(encode_index([], 0)).without_data() == []


@pytest.mark.parametrize("count", [2, 3, 2**32, 2**63, 2**64 - 1])
def test_a_count_beyond_the_section(count: int) -> None:
    data = struct.pack("<Q", count) + section(["a"])[8:]
    with pytest.raises(FileError, match="fit"):
        hurray.load(build(index=data))
    assert not hurray.verify(build(index=data)).ok


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (section(["a"]) + b"\0", "left"),
        (struct.pack("<Q", 0) + section(["a"])[8:], "left"),
        (struct.pack("<Q", 1) + b"\0\0" + bytes(33), "at least 1 byte"),
        (struct.pack("<Q", 1) + b"\2\0" + bytes(33), "past"),
        (struct.pack("<Q", 1) + b"\xff\xff" + bytes(33), "past"),
        (struct.pack("<Q", 2) + section(["abcdefgh"])[8:] + bytes(30), "past|at least|left|fit"),
    ],
)
def test_sections_that_are_not_their_entries(data: bytes, words: str) -> None:
    with pytest.raises(FileError, match=words):
        hurray.open(build(index=data))
    with pytest.raises(FileError, match=words):
        Index(data)


@pytest.mark.parametrize("name", [b"\xc0\xaf", b"\xed\xa0\x80", b"\xff", b"a\x80"])
def test_names_are_strict_utf8(name: bytes) -> None:
    e = entry("a", np.arange(4.0))
    data = build([Entry(name, e.descriptor, e.buffers)])
    with pytest.raises(FileError, match="UTF-8"):
        hurray.load(data)
    with pytest.raises(FileError, match="UTF-8"):
        list(hurray.open(data))
    assert any("UTF-8" in p.message for p in hurray.verify(data).problems)


def test_names_are_unique() -> None:
    data = build([entry("a", np.arange(4.0)), entry("b", np.arange(4.0)), entry("a", np.arange(4.0))])
    for use in (hurray.load, lambda d: hurray.open(d)["a"], lambda d: list(hurray.open(d))):
        with pytest.raises(FileError, match="twice"):
            use(data)
    assert hurray.open(data)["b"].shape == (4,)
    assert any("twice" in p.message for p in hurray.verify(data).problems)


def test_the_sorted_flag_is_checked() -> None:
    def file(names: list[str], flags: int) -> bytes:
        return build([entry(n, np.arange(4.0)) for n in names], header={"flags": flags})

    assert list(hurray.load(file(["a", "ab", "b", "\u00e9", "\u65e5"], 6))) == ["a", "ab", "b", "\u00e9", "\u65e5"]
    assert list(hurray.load(file(["b", "a"], 4))) == ["b", "a"]
    with pytest.raises(FileError, match="order"):
        hurray.load(file(["b", "a"], 6))
    assert not hurray.verify(file(["b", "a"], 6)).ok


@pytest.mark.parametrize("name", ["", "x" * 65536, "\u00e9" * 32768, "\ud800"])
def test_names_that_cannot_be_written(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        encode_name(name)


def test_names_at_the_limit() -> None:
    name = "x" * 65535
    data = build([entry(name, np.arange(4.0))])
    assert list(hurray.load(data)) == [name]
    not_text: Any = b"a"
    with pytest.raises(TypeError, match="str"):
        encode_name(not_text)
