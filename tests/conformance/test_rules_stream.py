"""Rules of the byte stream, met in bytes made by hand."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import numpy as np
import pytest

import hurray
import rawbytes as raw

A = raw.tensor(b"abcd", type_tag=0x11, shape=(4,))
EMPTY = raw.tensor(b"", type_tag=0x11, shape=(0, 3))
CSR = raw.tensor(
    b"\1\2", raw.u64s(0, 1), raw.u64s(0, 1, 2), type_tag=0x11, layout=0x07, fields=raw.u64s(2, 0), shape=(2, 2)
)
GROUP = raw.head(3, 2) + A + CSR


def read(data: bytes, **options: Any) -> list[Any]:
    return list(hurray.StreamReader(data, **options))


def test_tensor_after_tensor() -> None:
    assert read(b"") == []
    items = read(A + EMPTY + CSR + GROUP + A)
    assert [x.shape for x in items] == [(4,), (0, 3), (2, 2), (), (4,)]
    assert items[0].to_numpy().tobytes() == b"abcd"
    assert items[2].to_numpy().tolist() == [[1, 0], [0, 2]]
    assert isinstance(items[3], hurray.Composite)


def test_every_place_to_end() -> None:
    data = A + CSR
    for n in range(len(data) + 1):
        if n in (0, len(A), len(data)):
            assert len(read(data[:n])) == {0: 0, len(A): 1, len(data): 2}[n]
        else:
            with pytest.raises(hurray.StreamError, match="end of stream"):
                read(data[:n])
    for n in range(1, len(GROUP)):
        with pytest.raises(hurray.StreamError, match="end of stream|torn composite"):
            read(GROUP[:n])


def test_items_in_front_of_a_fault_are_handed_over() -> None:
    reader = hurray.StreamReader(A + A[:-1])
    assert next(reader).shape == (4,)
    with pytest.raises(hurray.StreamError, match="tensor 1, buffer 0 has 3 of 4 bytes"):
        next(reader)


def test_only_descriptors_follow_tensors() -> None:
    for behind in (b"\0" * 8, b"HRRX" + bytes(60), b"garbage, and enough of it to be looked at closely"):
        with pytest.raises(hurray.InvalidDescriptorError, match="magic"):
            read(A + behind)
    with pytest.raises(hurray.InvalidDescriptorError, match="version 2.0"):
        read(A + raw.descriptor(version=(2, 0), buffers=[4]))


def test_a_file_is_no_stream() -> None:
    file = raw.file([raw.Put("a", raw.descriptor(type_tag=0x11, shape=(4,), buffers=[4]), (b"abcd",))])
    with pytest.raises(hurray.StreamError, match="HRRYFILE"):
        read(file)
    with pytest.raises(hurray.FileError, match="stream"):
        hurray.load(A + bytes(64))


def test_the_limit_on_descriptors() -> None:
    n = 16 * 1024 * 1024
    private: dict[str, Any] = {"layout": 0xF0, "type_tag": 0x11, "shape": (1,), "buffers": [0]}
    fits = n - len(raw.descriptor(fields=raw.u64s(1) + raw.u32s(0), **private))
    for extra in (0, 1):
        fields = raw.u64s(1) + raw.u32s(fits + extra) + bytes(fits + extra)
        data = raw.descriptor(fields=fields, **private)
        if extra:
            with pytest.raises(hurray.StreamError, match="more than the limit of 16777216"):
                read(data)
        else:
            assert len(read(data)) == 1
    with pytest.raises(hurray.StreamError, match="announces 61 bytes, more than the limit of 60"):
        read(EMPTY, max_descriptor_bytes=60)
    assert len(read(EMPTY, max_descriptor_bytes=61)) == 1


def test_the_limit_on_buffers() -> None:
    assert len(read(A, max_buffer_bytes=4)) == 1
    with pytest.raises(hurray.StreamError, match="buffer 0 announces 4 bytes, more than the limit of 3"):
        read(A, max_buffer_bytes=3)
    with pytest.raises(hurray.StreamError, match="deeper than the limit of 1"):
        read(raw.head(3, 1) + raw.head(3, 1) + A, max_composite_depth=1)


@pytest.mark.parametrize("n_bytes", [2**32, 2**50, 2**64 - 1])
def test_a_lie_about_a_size_costs_nothing(n_bytes: int) -> None:
    data = raw.descriptor(type_tag=0x11, shape=(4,), buffers=[n_bytes]) + b"abcd"
    tracemalloc.start()
    try:
        with pytest.raises(hurray.StreamError):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_cross_machine() -> None:
    def remote(device: int, sync: int) -> bytes:
        row = raw.handle(4, alignment=4096, device=device, sync=sync)
        return raw.descriptor(type_tag=0x11, shape=(4,), buffers=[row]) + b"abcd"

    for device in (0x01, 0xF0):
        assert len(read(remote(device, 0), cross_machine=True)) == 1
        for sync, name in ((1, "event"), (2, "consumer_stream")):
            [t] = read(remote(device, sync))
            with pytest.raises(hurray.StreamError, match=f"sync mode '{name}'"):
                read(remote(device, sync), cross_machine=True)
            with pytest.raises(hurray.StreamError, match=f"sync mode '{name}'"):
                hurray.StreamWriter(cross_machine=True).write(t)
            writer = hurray.StreamWriter()
            writer.write(t)
            assert writer.getvalue() == remote(device, sync)
            # A member of a composite is looked at like a tensor of its own.
            group = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[t])
            with pytest.raises(hurray.StreamError, match=f"sync mode '{name}'"):
                hurray.StreamWriter(cross_machine=True).write(group)
            with pytest.raises(hurray.StreamError, match=f"sync mode '{name}'"):
                read(raw.head(3, 1) + remote(device, sync), cross_machine=True)


@pytest.mark.parametrize("n_bytes", [1, 63, 4096, 70_000, 5_000_000])
def test_buffers_are_owned_and_aligned(n_bytes: int) -> None:
    data = bytearray(raw.tensor(bytes(n_bytes), type_tag=0x11, shape=(n_bytes,)))
    [t] = read(bytes(data))
    [u] = hurray.StreamReader(io.BytesIO(data))
    for item in (t, u):
        array = item.to_numpy()
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable
        assert not np.shares_memory(array, np.frombuffer(data, np.uint8))


def test_a_buffer_too_small_for_its_tensor() -> None:
    with pytest.raises(hurray.BufferError, match=r"buffer 0 \(data\) has 3 bytes"):
        read(raw.tensor(b"abc", type_tag=0x11, shape=(4,)))


def test_a_transport_that_fails() -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, room: Any) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(hurray.FileError, match="Input/output error") as caught:
        list(hurray.StreamReader(Failing()))
    assert caught.value.errno == 5
    with pytest.raises(OSError, match="no-such-file"):
        hurray.StreamReader("/no-such-file")


def test_bytes_that_writers_write() -> None:
    with hurray.StreamWriter() as w:
        w.write(hurray.asarray(np.frombuffer(b"abcd", np.uint8)))
        w.write(hurray.zeros([0, 3], dtype=hurray.uint8))
        w.write(hurray.asarray(np.array([[1, 0], [0, 2]], np.uint8)).to_layout("csr"))
    assert w.getvalue() == A + EMPTY + CSR
