"""Streams over asyncio: the same parser and the same plans as the blocking reader and writer.

Format: streams, byte stream.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hurray.errors import HurrayError, StreamError
from hurray.stream.outlets import as_file_error
from hurray.stream.parser import StreamParser, limits_from
from hurray.stream.writer import parts_of
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

if TYPE_CHECKING:
    import asyncio

__all__ = ["StreamReader", "StreamWriter"]

#: bytes taken from, or handed to, the event loop at once
_CHUNK = 1 << 18


class StreamReader:
    """Iterate asynchronously over the tensors and composites that come through an ``asyncio.StreamReader``.

    Parameters
    ----------
    source : asyncio.StreamReader
        Anything with a coroutine ``read(n)``.  Nothing behind the current tensor is taken from it.
    max_descriptor_bytes, max_buffer_bytes, max_composite_depth, cross_machine, permissive
        As of :class:`hurray.StreamReader`.

    Raises
    ------
    StreamError, InvalidDescriptorError, BufferError, FileError
        As :class:`hurray.StreamReader`.

    Examples
    --------
    >>> import asyncio, hurray, hurray.aio
    >>> async def main(data):
    ...     pipe = asyncio.StreamReader()
    ...     pipe.feed_data(data)
    ...     pipe.feed_eof()
    ...     return [t.shape async for t in hurray.aio.StreamReader(pipe)]
    >>> writer = hurray.StreamWriter()
    >>> writer.write(hurray.zeros([2, 3]))
    >>> asyncio.run(main(writer.getvalue()))
    [(2, 3)]

    Format: streams, byte stream.
    """

    def __init__(
        self,
        source: asyncio.StreamReader,
        *,
        max_descriptor_bytes: int | None = None,
        max_buffer_bytes: int | None = None,
        max_composite_depth: int | None = None,
        cross_machine: bool = False,
        permissive: bool = False,
    ) -> None:
        self._parser = StreamParser(
            limits=limits_from(max_descriptor_bytes, max_buffer_bytes, max_composite_depth),
            permissive=permissive,
            cross_machine=cross_machine,
        )
        self._source: asyncio.StreamReader | None = source
        self._ready: deque[Tensor | Composite] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Tensor | Composite:
        while not self._ready:
            if self._source is None:
                raise StopAsyncIteration
            try:
                await self._step(self._source)
            except HurrayError:
                self._source = None
                raise
            except OSError as error:
                self._source = None
                raise as_file_error(error, "reading") from error
        return self._ready.popleft()

    async def _step(self, source: asyncio.StreamReader) -> None:
        # The room is asked for again after the wait: a cancelled read leaves the parser as it was.
        data = await source.read(min(len(self._parser.wanted()), _CHUNK))
        if not data:
            self._source = None
            self._ready.extend(self._parser.eof())
            return
        self._parser.wanted()[: len(data)] = data
        self._ready.extend(self._parser.advance(len(data)))

    def close(self) -> None:
        """Let go of the source; the reader is then exhausted."""
        self._ready.clear()
        self._source = None


class StreamWriter:
    """Write tensors and composites through an ``asyncio.StreamWriter``.

    Parameters
    ----------
    destination : asyncio.StreamWriter
        Anything with ``write`` and a coroutine ``drain``.  It stays open.
    cross_machine : bool
        Refuse tensors whose sync mode is not ``producer_synced``.

    Format: streams, byte stream.
    """

    def __init__(self, destination: asyncio.StreamWriter, *, cross_machine: bool = False) -> None:
        self._destination = destination
        self._cross_machine = cross_machine
        self._finished = False
        self._broken = False

    async def write(self, item: Any) -> None:
        """Write one tensor, composite or array, no faster than the other side takes it.

        Raises
        ------
        TypeError
            ``item`` is no Tensor, Composite or array.
        StreamError
            The stream was finished or broken before, or ``cross_machine`` refuses the item.
        FileError
            The transport failed; the stream is broken.
        """
        if self._finished:
            raise StreamError("this stream has been finished; create a new StreamWriter to write more")
        if self._broken:
            raise StreamError("an earlier write failed part way, so this stream cannot go on")
        parts = parts_of(item, cross_machine=self._cross_machine)
        # A write that is cancelled half way leaves half a tensor behind.
        self._broken = True
        try:
            for part in parts:
                for at in range(0, len(part), _CHUNK):
                    self._destination.write(part[at : at + _CHUNK])
                    await self._destination.drain()
        except OSError as error:
            raise as_file_error(error, "writing") from error
        self._broken = False

    async def write_composite(self, composite: Composite) -> None:
        """Write a composite: its head, then its members.

        Raises
        ------
        TypeError
            ``composite`` is no Composite.
        """
        if not isinstance(composite, Composite):
            raise TypeError(f"expected a hurray.Composite, got {type(composite).__name__}")
        await self.write(composite)

    async def finish(self) -> None:
        """Hand over what is left; doing it again does nothing.

        Raises
        ------
        FileError
            The transport failed.
        """
        if self._finished:
            return
        self._finished = True
        try:
            await self._destination.drain()
        except OSError as error:
            raise as_file_error(error, "finishing") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.finish()
