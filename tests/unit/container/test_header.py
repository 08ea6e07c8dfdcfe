"""Header, trailer and checksum: every rule by one wrong field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from file_cases import build
from hurray.container.header import (
    HEADER_BYTES,
    TRAILER_BYTES,
    Header,
    Trailer,
    align_up,
    check_alignment,
    crc32c,
    parse_header,
    parse_trailer,
)
from hurray.errors import FileError


def crc_by_the_bit(data: bytes) -> int:
    """Return the CRC-32C from its definition: reflected polynomial, all ones before and after."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_crc_of_the_check_string() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@given(st.binary(max_size=300))
def test_crc_against_its_definition(data: bytes) -> None:
    assert crc32c(data) == crc_by_the_bit(data)


def test_header_bytes() -> None:
    expected = b"HRRYFILE" + bytes.fromhex("01 00 0000 07000000 00200000 4000000000000000 0500000000000000" + "00" * 28)
    header = Header(has_kv=True, is_sorted=True, alignment=8192, tensor_count_hint=5)
    assert header.encode() == expected
    assert parse_header(expected, "x") == header
    assert Header().encode()[28:36] == b"\xff" * 8
    assert parse_header(Header().encode(), "x").tensor_count_hint is None


@given(
    st.builds(
        Header,
        has_kv=st.booleans(),
        is_sorted=st.booleans(),
        has_crc=st.booleans(),
        alignment=st.integers(12, 21).map(lambda k: 1 << k),
        first_descriptor_offset=st.integers(8, 2**60).map(lambda k: 8 * k),
        tensor_count_hint=st.none() | st.integers(0, 2**64 - 2),
    )
)
def test_header_round_trip(header: Header) -> None:
    data = header.encode()
    assert len(data) == HEADER_BYTES
    assert parse_header(data, "x") == header


@given(st.tuples(*[st.integers(0, 2**64 - 1)] * 3, *[st.integers(0, 2**32 - 1)] * 2).map(lambda t: Trailer(*t)))
def test_trailer_bytes(trailer: Trailer) -> None:
    data = trailer.encode()
    assert len(data) == TRAILER_BYTES
    assert data[32:] == b"\0\0\0\0HRRY"
    places = ((0, 8), (8, 16), (16, 24), (24, 28), (28, 32))
    assert [int.from_bytes(data[a:b], "little") for a, b in places] == [*trailer]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"magic": b"HRRYFILF"}, "not a Hurray file"),
        ({"magic": b"HRRY\1\0\0\0"}, "StreamReader"),
        ({"major": 0}, "version 0.0"),
        ({"major": 2}, "version 2.0"),
        ({"reserved": 1}, "reserved"),
        ({"reserved": 256}, "reserved"),
        ({"flags": 4 | 8}, "file_flags"),
        ({"flags": 4 | 1 << 31}, "file_flags"),
        ({"alignment": 0}, "data_buffer_alignment"),
        ({"alignment": 2048}, "data_buffer_alignment"),
        ({"alignment": 4097}, "data_buffer_alignment"),
        ({"alignment": 1 << 22}, "data_buffer_alignment"),
        ({"first": 0}, "first_descriptor_offset"),
        ({"first": 56}, "first_descriptor_offset"),
        ({"first": 68}, "first_descriptor_offset"),
        ({"reserved2": b"\0" * 27 + b"\1"}, "reserved"),
        ({"flags": 4 | 1}, "kv_length"),
    ],
)
def test_header_rules(change: dict[str, Any], words: str) -> None:
    with pytest.raises(FileError, match=words) as caught:
        hurray.load(build(header=change))
    assert "<memory>" in str(caught.value)
    report = hurray.verify(build(header=change))
    assert not report.ok


def test_a_later_minor_version_is_read() -> None:
    assert list(hurray.load(build(header={"minor": 9}))) == ["a"]


@pytest.mark.parametrize("hint", [0, 1, 10**15, 2**64 - 1])
def test_the_count_hint_is_only_a_hint(hint: int) -> None:
    assert list(hurray.load(build(header={"hint": hint}))) == ["a"]


KV = b"\1\0\0\0\1\0k\2" + bytes(8)
U64 = 2**64 - 1


@pytest.mark.parametrize(
    ("kv", "change", "words"),
    [
        (b"", {"magic": b"HRRX"}, "cut short"),
        (b"", {"reserved": b"\0\1"}, "reserved"),
        (b"", {"crc": 1}, "CRC-32C"),
        (b"", {"crc": 0}, "CRC-32C"),
        (b"", {"index_offset": 4129}, "multiple of 8"),
        (b"", {"index_offset": 56}, "header"),
        (b"", {"index_offset": 0}, "header"),
        (b"", {"index_offset": 1 << 40}, "past the trailer"),
        (b"", {"index_offset": U64 - 7}, "past the trailer"),
        (b"", {"index_length": U64}, "past the trailer"),
        (b"", {"index_length": 7}, "too few"),
        (b"", {"index_length": 0}, "too few"),
        (b"", {"kv_length": 3, "kv_offset": 64}, "too few"),
        (KV, {"kv_offset": 4132}, "multiple of 8"),
        (KV, {"kv_offset": 0}, "header"),
        (KV, {"kv_offset": U64 - 7}, "past the trailer"),
        (KV, {"kv_length": 2**32 - 1}, "past the trailer"),
        (KV, {"kv_length": 40}, "overlap"),
    ],
)
def test_trailer_rules(kv: bytes, change: dict[str, Any], words: str) -> None:
    data = build(kv=kv, trailer=change)
    with pytest.raises(FileError, match=words):
        hurray.load(data)
    assert not hurray.verify(data).ok


def test_the_crc_flag_alone_decides() -> None:
    assert list(hurray.load(build(header={"flags": 0}, trailer={"crc": 0}))) == ["a"]
    with pytest.raises(FileError, match="must be 0"):
        hurray.load(build(header={"flags": 0}))


def test_kv_without_the_flag_is_read() -> None:
    assert hurray.load_kv(build(kv=KV)) == {"k": 0}
    assert hurray.load_kv(build(kv=KV, header={"flags": 5})) == {"k": 0}


@pytest.mark.parametrize("length", [0, 1, 63, 64, 103])
def test_too_short(length: int) -> None:
    with pytest.raises(FileError, match="too few"):
        hurray.load(build([])[:length])
    assert [p.rule for p in hurray.verify(build([])[:length]).problems] == ["size"]


def test_trailer_needs_the_header() -> None:
    data = build([])
    assert parse_trailer(data[-40:], len(data), Header(), "x").index_offset == 64


@given(st.integers(0, 2**70), st.integers(0, 30))
def test_align_up(offset: int, power: int) -> None:
    result = align_up(offset, 1 << power)
    assert result % (1 << power) == 0
    assert 0 <= result - offset < 1 << power


def test_alignments() -> None:
    assert [a for a in (1, 4095, 4096, 6144, 8192, 1 << 21, 1 << 22) if check_alignment(a)] == [4096, 8192, 1 << 21]
