"""Streams over everything that they may be read from and written to."""

from __future__ import annotations

import gzip
import io
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
import hurray
from hurray.errors import InvalidDescriptorError, StreamError
from hurray.stream import inlets

A = hurray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
BIG = hurray.from_numpy(np.arange(300_000, dtype=np.int64))
PART = hurray.assemble(hurray.shard(np.arange(12.0).reshape(3, 4), (2, 2)))
EMPTY = hurray.zeros([0, 2])
ITEMS = (A, BIG, PART, EMPTY, A)


def stream(*items: Any) -> bytes:
    with hurray.StreamWriter() as w:
        for item in items:
            w.write(item)
    return w.getvalue()


DATA = stream(*ITEMS)


def assert_items(got: list[Any]) -> None:
    assert stream(*got) == DATA


class OnlyFileno:
    def __init__(self, number: int) -> None:
        self.number = number

    def fileno(self) -> int:
        return self.number


class OnlyRead:
    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)

    def read(self, n: int) -> bytes:
        return self.inner.read(min(n, 1000))


class OnlyWrite:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, part: Any) -> None:
        self.data += part


class Trickle(io.RawIOBase):
    """A raw file that takes and gives little, and is not ready now and then."""

    def __init__(self, data: bytes = b"") -> None:
        self.source = io.BytesIO(data)
        self.sink = bytearray()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        return self.source.readinto(memoryview(room)[:7])

    def write(self, part: Any) -> int:
        taken = bytes(part[:1000])
        self.sink += taken
        return len(taken)


# Reading


def test_bytes_like() -> None:
    for source in (DATA, bytearray(DATA), memoryview(DATA), np.frombuffer(DATA, np.uint8)):
        assert_items(list(hurray.StreamReader(source)))
    assert list(hurray.StreamReader(b"")) == []


def test_paths(tmp_path: Path) -> None:
    path = tmp_path / "x.hstream"
    with hurray.StreamWriter(path) as w:
        for item in ITEMS:
            w.write(item)
    assert path.read_bytes() == DATA
    assert_items(list(hurray.StreamReader(path)))
    assert_items(list(hurray.StreamReader(str(path))))
    with hurray.StreamWriter(str(path)) as w:
        w.write(A)
    assert path.read_bytes() == stream(A)


@pytest.mark.parametrize("use", [hurray.StreamReader, hurray.StreamWriter])
def test_paths_that_cannot_be_opened(use: Any, tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "such", tmp_path):
        with pytest.raises(hurray.FileError, match="could not open") as caught:
            use(path)
        assert caught.value.errno
        assert caught.value.filename == str(path)
    with pytest.raises(hurray.FileError, match="could not open"):
        use("nul\0byte")


@pytest.mark.parametrize("buffering", [0, -1])
def test_open_files_are_duplicated_where_they_stand(buffering: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before" + DATA)
    with open(path, "rb", buffering=buffering) as f:
        assert f.read(6) == b"before"
        reader = hurray.StreamReader(f)
    assert_items(list(reader))


def test_open_files_are_written_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with open(path, "wb") as f:
        f.write(b"before")
        writer = hurray.StreamWriter(f)
    for item in ITEMS:
        writer.write(item)
    writer.finish()
    assert path.read_bytes() == b"before" + DATA


def test_read_back_through_one_temporary_file() -> None:
    with tempfile.TemporaryFile() as f:
        with hurray.StreamWriter(f) as w:
            for item in ITEMS:
                w.write(item)
        f.seek(0)
        assert_items(list(hurray.StreamReader(f)))


def test_file_objects_without_a_descriptor() -> None:
    assert_items(list(hurray.StreamReader(io.BytesIO(DATA))))
    assert_items(list(hurray.StreamReader(OnlyRead(DATA))))
    assert_items(list(hurray.StreamReader(Trickle(DATA))))
    for sink, value in (
        (io.BytesIO(), lambda s: s.getvalue()),
        (OnlyWrite(), lambda s: bytes(s.data)),
        (Trickle(), lambda s: bytes(s.sink)),
    ):
        with hurray.StreamWriter(sink) as w:
            for item in ITEMS:
                w.write(item)
        assert value(sink) == DATA
        assert not getattr(sink, "closed", False)


def test_compressed_files_are_used_through_their_own_layer(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    with gzip.open(path, "wb") as f, hurray.StreamWriter(f) as w:
        for item in ITEMS:
            w.write(item)
    assert gzip.decompress(path.read_bytes()) == DATA
    with gzip.open(path, "rb") as f:
        assert_items(list(hurray.StreamReader(f)))


@pytest.mark.parametrize(
    "make", [OnlyFileno, lambda n: os.fdopen(os.dup(n), "rb", 0), lambda n: os.fdopen(os.dup(n), "rb")]
)
def test_pipes(make: Callable[[int], Any]) -> None:
    r, w = os.pipe()

    def send() -> None:
        with hurray.StreamWriter(OnlyFileno(w)) as writer:
            os.close(w)
            for item in ITEMS:
                writer.write(item)

    thread = threading.Thread(target=send)
    thread.start()
    source = make(r)
    reader = hurray.StreamReader(source)
    os.close(r)
    assert_items(list(reader))
    thread.join()
    if not isinstance(source, OnlyFileno):
        source.close()


def test_sockets() -> None:
    a, b = socket.socketpair()

    def send() -> None:
        writer = hurray.StreamWriter(a)
        a.close()
        for item in ITEMS:
            writer.write(item)
        writer.finish()

    thread = threading.Thread(target=send)
    thread.start()
    reader = hurray.StreamReader(b)
    b.close()
    assert_items(list(reader))
    thread.join()


def test_sockets_that_do_not_block() -> None:
    a, b = socket.socketpair()
    a.setblocking(False)
    b.setblocking(False)

    def send() -> None:
        with a, hurray.StreamWriter(a) as writer:
            for item in ITEMS:
                writer.write(item)

    thread = threading.Thread(target=send)
    thread.start()
    with b:
        assert_items(list(hurray.StreamReader(b)))
    thread.join()


def test_descriptors_that_do_not_block() -> None:
    r, w = os.pipe()
    os.set_blocking(r, False)
    os.set_blocking(w, False)

    def send() -> None:
        with hurray.StreamWriter(OnlyFileno(w)) as writer:
            os.close(w)
            for item in ITEMS:
                writer.write(item)

    thread = threading.Thread(target=send)
    thread.start()
    reader = hurray.StreamReader(OnlyFileno(r))
    os.close(r)
    assert_items(list(reader))
    thread.join()


class WrappedSocket:
    """A socket with a layer on top, which must be used through its own methods."""

    def __init__(self, inner: socket.socket) -> None:
        self.inner = inner

    def fileno(self) -> int:
        raise AssertionError("the layer was passed by")

    def recv_into(self, room: Any) -> int:
        n = self.inner.recv_into(room)
        room[:n] = bytes(255 - x for x in room[:n])
        return n

    def send(self, part: Any) -> int:
        return self.inner.send(bytes(255 - x for x in part[:1000]))


def test_layered_sockets() -> None:
    a, b = socket.socketpair()
    with a, b:
        with hurray.StreamWriter(WrappedSocket(a)) as w:
            w.write(A)
            w.write(PART)
        a.close()
        got = list(hurray.StreamReader(WrappedSocket(b)))
    assert stream(*got) == stream(A, PART)


def test_an_item_does_not_wait_for_what_follows() -> None:
    a, b = socket.socketpair()
    with a, b:
        b.settimeout(20)
        writer, reader = hurray.StreamWriter(a), hurray.StreamReader(b)
        for item in ITEMS:
            if item is BIG:
                continue
            writer.write(item)
            assert stream(next(reader)) == stream(item)
        # Nothing behind an item was taken from the socket.
        writer.write(A)
        a.sendall(b"for somebody else")
        next(reader)
        assert b.recv(100) == b"for somebody else"


def test_a_timeout_loses_nothing() -> None:
    a, b = socket.socketpair()
    with a, b:
        b.settimeout(0.01)
        reader = hurray.StreamReader(b)
        data = stream(A)
        a.sendall(data[:70])
        with pytest.raises(TimeoutError):
            next(reader)
        a.sendall(data[70:])
        assert stream(next(reader)) == data


def test_a_timeout_inside_a_large_buffer_loses_nothing() -> None:
    a, b = socket.socketpair()
    with a, b:
        b.settimeout(0.01)
        reader = hurray.StreamReader(b)
        data = stream(BIG)
        for at in range(0, len(data), 150_000):
            with pytest.raises(TimeoutError):
                next(reader)
            a.sendall(data[at : at + 150_000])
        assert stream(next(reader)) == data


@pytest.mark.parametrize("at", [1, 9, 36, 53, 60, 61, 76])
def test_a_timeout_inside_a_small_tensor_loses_nothing(at: int) -> None:
    a, b = socket.socketpair()
    with a, b:
        b.settimeout(0.01)
        reader = hurray.StreamReader(b)
        small = stream(hurray.from_numpy(np.arange(4, dtype=np.float32)))
        assert len(small) == 69
        a.sendall(small[:at])
        if at < 69:
            with pytest.raises(TimeoutError):
                next(reader)
        a.sendall(small[at:] + b"for somebody else")
        assert stream(next(reader)) == small
        assert b.recv(100) == b"for somebody else"


@pytest.mark.parametrize("peek", [True, False])
@pytest.mark.parametrize("cut", [20, 40, 60, 76])
def test_a_socket_that_ends_inside_a_small_tensor(cut: int, peek: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not peek:
        monkeypatch.setattr(inlets, "_PEEK", 0)
    a, b = socket.socketpair()
    with a, b:
        reader = hurray.StreamReader(b)
        a.sendall(stream(A) + stream(A)[:cut])
        a.shutdown(socket.SHUT_WR)
        assert stream(next(reader)) == stream(A)
        with pytest.raises(StreamError, match="unexpected end of stream: tensor 1"):
            next(reader)
        with pytest.raises(StopIteration):
            next(reader)


def mixed() -> list[Any]:
    """Return tensors of very different sizes, which lie across the ends of blocks in many ways."""
    rng = np.random.default_rng(3)
    sizes = [*[4] * 300, 40_000, *[3] * 40, *rng.integers(0, 3000, 60), 200_000, *[9000] * 40, *[5] * 200]
    items: list[Any] = [hurray.from_numpy(rng.integers(0, 255, n, np.uint8)) for n in sizes]
    items[100:100] = [PART, EMPTY, hurray.zeros([3, 4]).to_layout("csr"), PART]
    items[400:400] = [BIG, PART]
    return items


@pytest.mark.parametrize("readv", [True, False])
def test_small_and_large_tensors_from_a_file(readv: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not readv:
        monkeypatch.setattr(inlets, "_HAS_READV", False)
    items = mixed()
    data = stream(*items)
    path = tmp_path / "mixed.hrs"
    path.write_bytes(data)
    with hurray.StreamReader(path) as reader:
        got = list(reader)
    assert stream(*got) == data
    buffers = [buffer for t in got if isinstance(t, hurray.Tensor) for buffer in t._buffers if len(buffer)]
    assert all(buffer.ctypes.data % 64 == 0 and not buffer.flags.writeable for buffer in buffers)
    for cut in (1, 40, 100, 5000):
        path.write_bytes(data[:-cut])
        with hurray.StreamReader(path) as reader, pytest.raises(StreamError, match="unexpected end"):
            list(reader)
    path.write_bytes(data + b"no tensor")
    with hurray.StreamReader(path) as reader:
        for _ in items:
            next(reader)
        with pytest.raises(InvalidDescriptorError, match=f"tensor {len(items) + 3 * 4} of"):
            next(reader)


@pytest.mark.parametrize("peek", [True, False])
def test_small_and_large_tensors_from_a_socket(peek: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not peek:
        monkeypatch.setattr(inlets, "_PEEK", 0)
    data = stream(*mixed())
    a, b = socket.socketpair()
    with a, b:

        def send() -> None:
            a.sendall(data)
            a.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        got = list(hurray.StreamReader(b))
        thread.join()
    assert stream(*got) == data


def test_a_size_that_lies_is_refused_however_it_is_read(tmp_path: Path) -> None:
    good = bytearray(stream(A))
    good[45:53] = (8).to_bytes(8, "little")
    a, b = socket.socketpair()
    path = tmp_path / "lying.hrs"
    path.write_bytes(good)
    with a, b:
        a.sendall(good)
        for source in (b, path, bytes(good)):
            with pytest.raises(hurray.BufferError, match="tensor 0"):
                next(hurray.StreamReader(source))
        # Only the bytes that the tensor claims were taken.
        assert b.recv(100) == good[69:]


class Interrupted(io.RawIOBase):
    """A raw file whose reads are interrupted every now and then."""

    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)
        self.turn = 0

    def recv_into(self, room: Any) -> int:
        self.turn += 1
        if self.turn % 5 == 0:
            raise KeyboardInterrupt
        return self.inner.readinto(room[:70_000])


def test_an_interrupt_loses_nothing() -> None:
    reader = hurray.StreamReader(Interrupted(DATA))
    got: list[Any] = []
    interrupts = 0
    while True:
        try:
            got.append(next(reader))
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert interrupts > 5
    assert_items(got)


def test_many_parts_in_one_write() -> None:
    shards = hurray.shard(np.arange(3000, dtype=np.uint8), (1500,))
    c = hurray.assemble(shards)
    r, w = os.pipe()

    def send() -> None:
        with hurray.StreamWriter(OnlyFileno(w)) as writer:
            os.close(w)
            writer.write(c)

    thread = threading.Thread(target=send)
    thread.start()
    [got] = hurray.StreamReader(OnlyFileno(r))
    os.close(r)
    thread.join()
    np.testing.assert_array_equal(got.to_numpy(), np.arange(3000, dtype=np.uint8))


def test_nothing_is_copied_on_the_way_out() -> None:
    seen: list[Any] = []

    class Sink:
        def write(self, part: Any) -> None:
            seen.append(np.frombuffer(part, np.uint8))

    hurray.StreamWriter(Sink()).write(BIG)
    assert any(np.shares_memory(part, BIG._buffers[0]) for part in seen)


def test_through_a_process_and_back() -> None:
    code = (
        "import sys, hurray\n"
        "w = hurray.StreamWriter(sys.stdout)\n"
        "for item in hurray.StreamReader(sys.stdin): w.write(item)\n"
        "w.finish()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=helpers.our_env()
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def send() -> None:
        with process.stdin, hurray.StreamWriter(process.stdin) as writer:  # type: ignore[union-attr]
            for item in ITEMS:
                writer.write(item)

    thread = threading.Thread(target=send)
    thread.start()
    with process.stdout:
        assert_items(list(hurray.StreamReader(process.stdout)))
    thread.join()
    assert process.wait(30) == 0


# Refusals


def test_things_that_are_no_transport() -> None:
    for thing in (3, None, object()):
        with pytest.raises(TypeError, match="a stream is read from"):
            hurray.StreamReader(thing)
    for thing in (3, b"bytes", object()):
        with pytest.raises(TypeError, match="a stream is written to"):
            hurray.StreamWriter(thing)
    with pytest.raises(TypeError, match="text mode"):
        hurray.StreamReader(io.StringIO("text"))
    with pytest.raises(TypeError, match="text mode"):
        hurray.StreamWriter(io.StringIO())


def test_closed_files(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(DATA)
    for mode, use in (("rb", hurray.StreamReader), ("r+b", hurray.StreamWriter)):
        with open(path, mode) as f:
            pass
        with pytest.raises(hurray.FileError, match="cannot be used"):
            use(f)
    source = io.BytesIO(DATA)
    reader = hurray.StreamReader(source)
    source.close()
    with pytest.raises(hurray.FileError, match="reading the stream failed"):
        next(reader)
    assert list(reader) == []


def test_a_peer_that_is_gone() -> None:
    r, w = os.pipe()
    with hurray.StreamWriter(OnlyFileno(w)) as writer:
        os.close(r)
        os.close(w)
        with pytest.raises(hurray.FileError, match="writing the stream failed"):
            writer.write(A)
        with pytest.raises(hurray.StreamError, match="cannot go on"):
            writer.write(A)


def test_writer_states() -> None:
    w = hurray.StreamWriter()
    assert w.getvalue() == b""
    with pytest.raises(TypeError, match="expected a hurray.Tensor or a hurray.Composite, got int"):
        w.write(3)
    with pytest.raises(TypeError, match="expected a hurray.Composite, got Tensor"):
        w.write_composite(A)  # type: ignore[arg-type]
    w.write_composite(PART)
    assert w.getvalue() == w.getvalue() == stream(PART)
    w.finish()
    w.finish()
    assert w.getvalue() == stream(PART)
    with pytest.raises(hurray.StreamError, match="finished"):
        w.write(A)
    with pytest.raises(hurray.StreamError, match="finished"):
        w.write_composite(PART)


def test_getvalue_is_for_memory(tmp_path: Path) -> None:
    with hurray.StreamWriter(tmp_path / "x") as w, pytest.raises(hurray.StreamError, match="destination"):
        w.getvalue()


def test_nothing_is_written_of_an_item_that_is_refused() -> None:
    w = hurray.StreamWriter()
    bad = hurray.Tensor(bytes(8), hurray.int8, [8], aux_buffers=[bytes(4)])
    with pytest.raises(hurray.InvalidDescriptorError):
        w.write(hurray.Composite("group", shape=(), dtype=hurray.int8, members=[A, bad]))
    assert w.getvalue() == b""
    w.write(A)
    assert w.getvalue() == stream(A)


def test_cross_machine_writer() -> None:
    handle = hurray.BufferHandle(24, 4096, hurray.device.cuda, "event")
    t = hurray.Tensor._from_parts(A.descriptor.with_changes(buffer_handles=(handle,)), A._buffers)
    group = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[A, t])
    w = hurray.StreamWriter(cross_machine=True)
    for item in (t, group):
        with pytest.raises(hurray.StreamError, match="sync mode 'event'"):
            w.write(item)
    w.write(A)
    assert w.getvalue() == stream(A)
    with pytest.raises(hurray.StreamError, match="sync mode 'event'"):
        list(hurray.StreamReader(stream(t), cross_machine=True))


def test_reader_states() -> None:
    reader = hurray.StreamReader(DATA)
    assert iter(reader) is reader
    next(reader)
    reader.close()
    reader.close()
    assert list(reader) == []
    with hurray.StreamReader(DATA) as reader:
        next(reader)
    assert list(reader) == []
    with pytest.raises(hurray.StreamError, match="unexpected end"):
        list(hurray.StreamReader(DATA[:-1]))


def test_reader_limits() -> None:
    with pytest.raises(hurray.StreamError, match="limit of 60"):
        list(hurray.StreamReader(DATA, max_descriptor_bytes=60))
    with pytest.raises(hurray.StreamError, match="limit of 23"):
        list(hurray.StreamReader(DATA, max_buffer_bytes=23))
    with pytest.raises(hurray.StreamError, match="limit of 0"):
        list(hurray.StreamReader(DATA, max_composite_depth=0))
    assert_items(list(hurray.StreamReader(DATA, max_buffer_bytes=2_400_000, max_composite_depth=100)))
    for bad in (-1, 1.5, True):
        with pytest.raises(ValueError, match="max_buffer_bytes"):
            hurray.StreamReader(DATA, max_buffer_bytes=bad)  # type: ignore[arg-type]


def test_a_fault_ends_the_iteration() -> None:
    reader = hurray.StreamReader(stream(A) + b"garbage, more than ten bytes")
    assert stream(next(reader)) == stream(A)
    with pytest.raises(hurray.InvalidDescriptorError):
        next(reader)
    assert list(reader) == []


def test_permissive_reader() -> None:
    torn = stream(PART)[: -len(PART.members[3].descriptor.encode()) - 16]
    with pytest.raises(hurray.StreamError, match="torn"):
        list(hurray.StreamReader(torn))
    got = list(hurray.StreamReader(torn, permissive=True))
    assert [t.shape for t in got] == [(2, 2), (2, 2), (1, 2)]


def test_arrays_are_written_as_tensors() -> None:
    with hurray.StreamWriter() as writer:
        writer.write(np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]))
        writer.write(np.array([True, False]))
    fortran, flags = hurray.StreamReader(writer.getvalue())
    assert (fortran.layout.name, fortran.to_numpy().tolist()) == ("col_major", [[1.0, 2.0], [3.0, 4.0]])
    assert flags.to_numpy().tolist() == [True, False]
    for what in ([1.0], {"a": A}, "abc", None):
        with pytest.raises(TypeError, match=type(what).__name__):
            hurray.StreamWriter().write(what)
