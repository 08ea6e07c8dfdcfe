"""The sans-I/O parser: what it asks for, what it hands over, what it refuses."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.descriptor.model import BufferHandle

PREFIX = struct.Struct("<4sBBI")


def stream(*items: Any) -> bytes:
    with hurray.StreamWriter() as w:
        for item in items:
            w.write(item)
    return w.getvalue()


def pull(parser: hurray.StreamParser, data: bytes, most: int = 1 << 30) -> list[Any]:
    """Fill the parser's own memory, ``most`` bytes at a time at most."""
    items: list[Any] = []
    at = 0
    while at < len(data):
        room = parser.wanted()
        assert len(room) > 0
        n = min(len(room), most, len(data) - at)
        room[:n] = data[at : at + n]
        at += n
        items += parser.advance(n)
    return items


A = hurray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
EMPTY = hurray.zeros([0, 4])
COO = hurray.from_numpy(np.eye(3)).to_layout("coo")
GROUP = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[A, EMPTY])
NOTHING = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[])


@pytest.mark.parametrize("most", [1, 3, 10, 64, 1 << 20])
def test_pull_any_step(most: int) -> None:
    data = stream(A, GROUP, EMPTY, COO, NOTHING, A)
    parser = hurray.StreamParser()
    items = pull(parser, data, most)
    assert parser.eof() == []
    assert [type(x).__name__ for x in items] == ["Tensor", "Composite", "Tensor", "Tensor", "Composite", "Tensor"]
    assert stream(*items) == data
    assert parser.n_tensors == 8


def test_an_item_is_there_with_its_last_byte() -> None:
    for item in (A, EMPTY, COO, GROUP, NOTHING):
        data = stream(item)
        parser = hurray.StreamParser()
        assert parser.feed(data[:-1]) == []
        assert len(parser.feed(data[-1:])) == 1
        parser.eof()


def test_never_asks_for_more_than_the_tensor_needs() -> None:
    for item in (A, EMPTY, COO, NOTHING):
        data = stream(item)
        parser = hurray.StreamParser()
        taken = 0
        done: Any = []
        while not done:
            room = parser.wanted()
            assert taken + len(room) <= len(data)
            room[:] = data[taken : taken + len(room)]
            taken += len(room)
            done = parser.advance(len(room))
        assert taken == len(data)


def test_buffers_are_ours_and_aligned() -> None:
    source = bytearray(stream(A, COO))
    items = hurray.StreamParser().feed(source)
    source[:] = bytes(len(source))
    for item, want in zip(items, (A, COO), strict=True):
        assert isinstance(item, hurray.Tensor)
        np.testing.assert_array_equal(item.to_numpy(), want.to_numpy())
        for buffer in item._buffers:
            assert buffer.ctypes.data % 64 == 0
            assert not buffer.flags.writeable


@pytest.mark.parametrize("step", [64, 4096, 100_000])
def test_large_buffers_grow_with_what_arrives(step: int) -> None:
    values = np.arange(300_000, dtype=np.uint32)
    data = stream(hurray.from_numpy(values))
    parser = hurray.StreamParser(limits=hurray.Limits(step_bytes=step))
    sizes = []
    at = 0
    items: Any = []
    while at < len(data):
        room = parser.wanted()
        sizes.append(len(room))
        room[:] = data[at : at + len(room)]
        at += len(room)
        items = parser.advance(len(room))
    # No room is larger than what had come before it, or than one step.
    arrived = 0
    for n in sizes:
        assert n <= max(step, arrived)
        arrived += n
    np.testing.assert_array_equal(items[0].to_numpy(), values)
    assert items[0]._buffers[0].ctypes.data % 64 == 0


def test_growth_survives_views_that_the_caller_keeps() -> None:
    values = np.arange(50_000, dtype=np.uint8)
    data = stream(hurray.from_numpy(values))
    parser = hurray.StreamParser(limits=hurray.Limits(step_bytes=4096))
    kept = []
    at = 0
    items: Any = []
    while at < len(data):
        room = parser.wanted()
        kept.append(room[:1])
        n = min(len(room), 1000)
        room[:n] = data[at : at + n]
        at += n
        items = parser.advance(n)
    np.testing.assert_array_equal(items[0].to_numpy(), values)


@pytest.mark.parametrize("announced", [2**20, 2**40, 2**63, 2**64 - 1])
def test_a_lie_about_a_size_costs_nothing(announced: int) -> None:
    d = A.descriptor
    d = d.with_changes(buffer_handles=(BufferHandle(announced, 64, d.device, "producer_synced"),))
    parser = hurray.StreamParser()
    tracemalloc.start()
    try:
        assert parser.feed(d.encode() + bytes(100)) == []
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(hurray.StreamError, match=f"buffer 0 has 100 of {announced} bytes"):
        parser.eof()


def test_a_lie_about_the_descriptor_costs_nothing() -> None:
    data = PREFIX.pack(b"HRRY", 1, 0, 16 << 20) + bytes(90)
    parser = hurray.StreamParser()
    tracemalloc.start()
    try:
        assert parser.feed(data) == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()
    with pytest.raises(hurray.StreamError, match="100 of 16777216 bytes of its descriptor"):
        parser.eof()


def test_limits() -> None:
    data = stream(A)
    with pytest.raises(hurray.StreamError, match="announces 61 bytes, more than the limit of 60"):
        hurray.StreamParser(limits=hurray.Limits(max_descriptor_bytes=60)).feed(data)
    assert hurray.StreamParser(limits=hurray.Limits(max_descriptor_bytes=61, max_buffer_bytes=24)).feed(data)
    with pytest.raises(hurray.StreamError, match="buffer 0 announces 24 bytes, more than the limit of 23"):
        hurray.StreamParser(limits=hurray.Limits(max_buffer_bytes=23)).feed(data)
    nested = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[GROUP])
    assert hurray.StreamParser(limits=hurray.Limits(max_composite_depth=2)).feed(stream(nested))
    with pytest.raises(hurray.StreamError, match="deeper than the limit of 1"):
        hurray.StreamParser(limits=hurray.Limits(max_composite_depth=1)).feed(stream(nested))
    with pytest.raises(hurray.StreamError, match="deeper than the limit of 0"):
        hurray.StreamParser(limits=hurray.Limits(max_composite_depth=0)).feed(stream(NOTHING))


def synced(mode: str) -> hurray.Tensor:
    handle = BufferHandle(24, 4096, hurray.device.cuda, mode)
    return hurray.Tensor._from_parts(A.descriptor.with_changes(buffer_handles=(handle,)), A._buffers)


@pytest.mark.parametrize("mode", ["event", "consumer_stream"])
def test_cross_machine(mode: str) -> None:
    data = stream(synced(mode))
    assert hurray.StreamParser().feed(data)
    with pytest.raises(hurray.StreamError, match=f"sync mode '{mode}'"):
        hurray.StreamParser(cross_machine=True).feed(data)
    assert hurray.StreamParser(cross_machine=True).feed(stream(synced("producer_synced")))


def test_a_file_is_named() -> None:
    with pytest.raises(hurray.StreamError, match="HRRYFILE.*hurray.open"):
        hurray.StreamParser().feed(b"HRRYFILE" + bytes(56))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"garbage, more than ten bytes", "magic"),
        (PREFIX.pack(b"HRRY", 2, 0, 61), "version"),
        (PREFIX.pack(b"HRRY", 0, 0, 61), "version"),
        (PREFIX.pack(b"HRRY", 1, 0, 19), "at least 20"),
        (PREFIX.pack(b"HRRY", 1, 0, 20) + bytes(27), "type"),
        (PREFIX.pack(b"HRRY", 1, 0, 36) + bytes(27), "type"),
    ],
)
def test_bad_descriptors(data: bytes, message: str) -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match=message):
        hurray.StreamParser().feed(data)


def test_items_before_a_fault_are_handed_over() -> None:
    parser = hurray.StreamParser()
    [item] = parser.feed(stream(A) + b"garbage, more than ten bytes")
    assert item.shape == (2, 3)
    with pytest.raises(hurray.InvalidDescriptorError, match="magic"):
        parser.feed(b"more")
    for use in (lambda: parser.feed(stream(A)), parser.wanted, parser.eof):
        with pytest.raises(hurray.StreamError, match="the stream is broken: .*magic"):
            use()


def test_a_broken_parser_stays_broken() -> None:
    parser = hurray.StreamParser()
    with pytest.raises(hurray.InvalidDescriptorError):
        parser.feed(b"garbage, more than ten bytes")
    with pytest.raises(hurray.StreamError, match="broken"):
        parser.feed(stream(A))
    parser = hurray.StreamParser()
    parser.feed(stream(A)[:20])
    with pytest.raises(hurray.StreamError, match="20 of 61 bytes"):
        parser.eof()
    with pytest.raises(hurray.StreamError, match="broken"):
        parser.feed(b"x")


def test_too_small_a_buffer_is_refused() -> None:
    d = A.descriptor
    d = d.with_changes(buffer_handles=(BufferHandle(23, 64, d.device, "producer_synced"),))
    with pytest.raises(hurray.BufferError, match="buffer 0"):
        hurray.StreamParser().feed(d.encode() + bytes(23))


def test_index_contents_are_checked_on_first_use() -> None:
    data = bytearray(stream(COO))
    data[-8:] = (99).to_bytes(8, "little")
    [t] = hurray.StreamParser().feed(data)
    assert isinstance(t, hurray.Tensor)
    with pytest.raises(hurray.InvalidDescriptorError):
        t.to_numpy()


def test_torn_composites() -> None:
    data = stream(GROUP)
    head = len(GROUP.descriptor.encode())
    for cut in (head, head + A.descriptor.encoded_len + 24):
        parser = hurray.StreamParser()
        assert parser.feed(data[:cut]) == []
        with pytest.raises(hurray.StreamError, match="torn composite .* announces 2 members, but only [01] came"):
            parser.eof()


def test_permissive_hands_over_members() -> None:
    data = stream(GROUP)
    head = len(GROUP.descriptor.encode())
    parser = hurray.StreamParser(permissive=True)
    assert parser.feed(data[: head + A.descriptor.encoded_len + 24]) == []
    [t] = parser.eof()
    assert t.shape == (2, 3)
    parser = hurray.StreamParser(permissive=True)
    parser.feed(data[:-1])
    with pytest.raises(hurray.StreamError, match="unexpected end"):
        parser.eof()


def test_permissive_relays_an_unknown_layout() -> None:
    data = bytearray(stream(A))
    data[15] = 0x0C
    with pytest.raises(hurray.InvalidDescriptorError, match="layout tag"):
        hurray.StreamParser().feed(data)
    [t] = hurray.StreamParser(permissive=True).feed(bytes(data) + stream(A))[:1]
    assert isinstance(t, hurray.Tensor)
    assert t.layout.tag == 0x0C
    assert stream(t) == data
    with pytest.raises(hurray.UnsupportedError):
        t.to_numpy()


def test_empty_input_is_an_empty_stream() -> None:
    parser = hurray.StreamParser()
    assert parser.feed(b"") == []
    assert parser.eof() == []


def test_feed_takes_any_bytes_like_object() -> None:
    data = stream(A)
    for form in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8), memoryview(data)[::1]):
        [t] = hurray.StreamParser().feed(form)  # type: ignore[arg-type]
        assert t.shape == (2, 3)


def test_whole_plain_tensors_before_a_fault_come_first() -> None:
    good = hurray.from_numpy(np.arange(6, dtype=np.int16))
    writer = hurray.StreamWriter()
    for _ in range(3):
        writer.write(good)
    small = good.descriptor.with_changes(shape=(7,)).encode() + good.buffer(0).to_numpy().tobytes()
    data = writer.getvalue() + small + writer.getvalue()
    reader = hurray.StreamReader(data)
    for _ in range(3):
        np.testing.assert_array_equal(next(reader).to_numpy(), np.arange(6))
    with pytest.raises(hurray.BufferError, match="at least 14"):
        next(reader)
    assert list(reader) == []
    parser = hurray.StreamParser()
    assert len(parser.feed(data)) == 3
    with pytest.raises(hurray.BufferError, match="at least 14"):
        parser.feed(b"")
    with pytest.raises(hurray.StreamError, match="broken"):
        parser.feed(data)


def test_buffers_of_whole_tensors_are_owned_and_aligned() -> None:
    writer = hurray.StreamWriter()
    for k in range(5):
        writer.write(hurray.from_numpy(np.full(k, k, np.uint8)))
    data = bytearray(writer.getvalue())
    items = list(hurray.StreamReader(data))
    data[:] = bytes(len(data))
    for k, t in enumerate(items):
        assert t.to_numpy().tolist() == [k] * k
        assert not k or t.to_numpy().ctypes.data % 64 == 0
