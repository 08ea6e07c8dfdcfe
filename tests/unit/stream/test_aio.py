"""The asyncio twin."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import numpy as np
import pytest

import hurray
import hurray.aio

A = hurray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
BIG = hurray.from_numpy(np.arange(400_000, dtype=np.int64))
PART = hurray.assemble(hurray.shard(np.arange(12.0).reshape(3, 4), (2, 2)))
ITEMS = (A, BIG, PART, hurray.zeros([0]), A)


def stream(*items: Any) -> bytes:
    with hurray.StreamWriter() as w:
        for item in items:
            w.write(item)
    return w.getvalue()


def fed(data: bytes) -> asyncio.StreamReader:
    pipe = asyncio.StreamReader()
    pipe.feed_data(data)
    pipe.feed_eof()
    return pipe


async def read_all(data: bytes, **options: Any) -> list[Any]:
    return [item async for item in hurray.aio.StreamReader(fed(data), **options)]


def test_both_ends_over_a_socket() -> None:
    async def main() -> list[Any]:
        a, b = socket.socketpair()
        _, out = await asyncio.open_connection(sock=a)
        source, other = await asyncio.open_connection(sock=b)

        async def send() -> None:
            async with hurray.aio.StreamWriter(out) as writer:
                for item in ITEMS:
                    await writer.write(item)
                await writer.write_composite(PART)
            out.close()
            await out.wait_closed()

        task = asyncio.create_task(send())
        got = [item async for item in hurray.aio.StreamReader(source)]
        await task
        other.close()
        await other.wait_closed()
        return got

    assert stream(*asyncio.run(main())) == stream(*ITEMS, PART)


def test_an_item_does_not_wait_for_what_follows() -> None:
    async def main() -> None:
        pipe = asyncio.StreamReader()
        reader = hurray.aio.StreamReader(pipe)
        data = stream(A)
        pipe.feed_data(data + b"rest")
        got = await asyncio.wait_for(anext(reader), 20)
        assert stream(got) == data
        assert await pipe.read(10) == b"rest"

    asyncio.run(main())


def test_a_cancelled_read_loses_nothing() -> None:
    async def main() -> None:
        pipe = asyncio.StreamReader()
        reader = hurray.aio.StreamReader(pipe)
        data = stream(PART)
        pipe.feed_data(data[:150])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(reader), 0.01)
        pipe.feed_data(data[150:])
        assert stream(await anext(reader)) == data

    asyncio.run(main())


def test_faults() -> None:
    data = stream(*ITEMS)
    with pytest.raises(hurray.StreamError, match="unexpected end"):
        asyncio.run(read_all(data[:-1]))
    with pytest.raises(hurray.StreamError, match="limit of 23"):
        asyncio.run(read_all(data, max_buffer_bytes=23))
    with pytest.raises(hurray.InvalidDescriptorError):
        asyncio.run(read_all(data + b"garbage of some length"))
    head = len(PART.descriptor.encode())
    assert asyncio.run(read_all(stream(PART)[:head], permissive=True)) == []


def test_states() -> None:
    async def main() -> None:
        reader = hurray.aio.StreamReader(fed(stream(*ITEMS)))
        await anext(reader)
        reader.close()
        assert [item async for item in reader] == []
        reader = hurray.aio.StreamReader(fed(b"garbage of some length"))
        with pytest.raises(hurray.InvalidDescriptorError):
            await anext(reader)
        assert [item async for item in reader] == []

    asyncio.run(main())


class Sink:
    def __init__(self, fail: bool = False) -> None:
        self.data = bytearray()
        self.fail = fail

    def write(self, part: Any) -> None:
        self.data += part

    async def drain(self) -> None:
        if self.fail:
            raise ConnectionResetError(104, "reset")


def test_writer_states() -> None:
    async def main() -> None:
        sink: Any = Sink()
        writer = hurray.aio.StreamWriter(sink, cross_machine=True)
        with pytest.raises(TypeError, match="got int"):
            await writer.write(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="got Tensor"):
            await writer.write_composite(A)  # type: ignore[arg-type]
        handle = hurray.BufferHandle(24, 4096, hurray.device.cuda, "event")
        t = hurray.Tensor._from_parts(A.descriptor.with_changes(buffer_handles=(handle,)), A._buffers)
        with pytest.raises(hurray.StreamError, match="event"):
            await writer.write(t)
        await writer.write(A)
        await writer.finish()
        await writer.finish()
        assert sink.data == stream(A)
        with pytest.raises(hurray.StreamError, match="finished"):
            await writer.write(A)
        broken = hurray.aio.StreamWriter(Sink(fail=True))  # type: ignore[arg-type]
        with pytest.raises(hurray.FileError, match="reset"):
            await broken.write(A)
        with pytest.raises(hurray.StreamError, match="cannot go on"):
            await broken.write(A)
        with pytest.raises(hurray.FileError, match="reset"):
            await broken.finish()

    asyncio.run(main())
