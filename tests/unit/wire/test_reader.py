"""The cursor over untrusted bytes: values, bounds, and where its errors say they are."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray.wire.reader import Field, Reader

NUMBERS = {"u8": ("<B", 200), "u16": ("<H", 65000), "u32": ("<I", 2**32 - 2), "u64": ("<Q", 2**64 - 3)}
NUMBERS |= {"i32": ("<i", -5), "i64": ("<q", -(2**63)), "f32": ("<f", 1.5), "f64": ("<d", -0.1)}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(kind: str) -> None:
    code, value = NUMBERS[kind]
    data = b"xx" + struct.pack(code, value) + b"yy"
    for source in (data, bytearray(data), memoryview(data)):
        r = Reader(source, 2)
        assert getattr(r, kind)("n") == value
        assert r.offset == 2 + struct.calcsize(code)
        assert r.remaining == 2


@pytest.mark.parametrize("kind", NUMBERS)
def test_nothing_is_read_past_the_end(kind: str) -> None:
    width = struct.calcsize(NUMBERS[kind][0])
    for end in range(width):
        r = Reader(bytes(20), 3, 3 + end, what="thing")
        with pytest.raises(hurray.InvalidDescriptorError) as caught:
            getattr(r, kind)("some.field")
        assert (caught.value.field, caught.value.offset) == ("some.field", 3)
        assert f"thing, some.field at byte 3: needs {width} bytes, but only {end} are left" in str(caught.value)
        assert r.offset == 3


def test_the_end_is_never_behind_the_data() -> None:
    assert Reader(b"abc", end=100).end == 3
    assert Reader(b"abc", 1, 2).remaining == 1


@given(st.binary(max_size=40), st.integers(0, 9), st.sampled_from(["u32s", "u64s", "i64s"]))
def test_arrays(data: bytes, count: int, kind: str) -> None:
    dtype = {"u32s": "<u4", "u64s": "<u8", "i64s": "<i8"}[kind]
    r = Reader(data)
    n_bytes = count * np.dtype(dtype).itemsize
    if n_bytes > len(data):
        with pytest.raises(hurray.InvalidDescriptorError):
            getattr(r, kind)(count, "a")
        return
    assert getattr(r, kind)(count, "a") == tuple(np.frombuffer(data[:n_bytes], dtype).tolist())
    assert r.take(len(data) - n_bytes, "rest") == data[n_bytes:]


def test_a_lie_about_a_count_costs_nothing() -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match="needs 147573952589676412920 bytes, but only 8 are left"):
        Reader(bytes(8)).u64s(2**64 - 1, "a")


def test_reserved_and_flags() -> None:
    r = Reader(bytes([0, 0, 1, 0, 2]))
    r.reserved(2)
    assert r.flag("yes") is True
    assert r.flag("no") is False
    with pytest.raises(hurray.InvalidDescriptorError, match="must be 0 or 1, but is 2") as caught:
        r.flag("bad")
    assert caught.value.offset == 4
    with pytest.raises(hurray.InvalidDescriptorError, match="reserved bytes must be 0, but hold 000102") as caught:
        Reader(bytes([0, 1, 2])).reserved(3, "pad")
    assert (caught.value.field, caught.value.offset) == ("pad", 0)


def test_paths_nest_and_unwind() -> None:
    r = Reader(b"")
    with pytest.raises(hurray.InvalidDescriptorError) as caught, r.inside("a"), r.inside("b[2]"):
        r.u8("c")
    assert caught.value.field == "a.b[2].c"
    with pytest.raises(hurray.InvalidDescriptorError) as caught:
        r.u8("c")
    assert caught.value.field == "c"


def test_another_error_class_and_a_moved_end() -> None:
    r = Reader(bytes(8), error=hurray.FileError, what="index")
    r.limit(1)
    with pytest.raises(hurray.FileError, match="index, n at byte 0: needs 2 bytes, but only 1 are left") as caught:
        r.u16("n")
    assert caught.value.errno is None
    with pytest.raises(hurray.FileError, match="index, byte 0: odd") as caught:
        r.fail("odd")
    assert (caught.value.field, caught.value.offset) == (None, 0)


def test_a_trace_has_every_field() -> None:
    trace: list[Field] = []
    r = Reader(struct.pack("<BHQQ2x", 1, 2, 3, 4), trace=trace)
    r.u8("a")
    with r.inside("in"):
        r.u16("b")
        r.u64s(2, "c")
    r.reserved(2)
    assert trace == [
        Field(0, 1, "a", 1),
        Field(1, 2, "in.b", 2),
        Field(3, 8, "in.c[0]", 3),
        Field(11, 8, "in.c[1]", 4),
        Field(19, 2, "reserved", b"\0\0"),
    ]
