"""Where a stream's bytes come from: one way to read for paths, descriptors, sockets, file objects and memory.

Format: streams, byte stream.
"""

from __future__ import annotations

import io
import os
import select
import socket
import stat
from collections.abc import Callable
from typing import Any, Protocol

from hurray.errors import FileError
from hurray.sources._base import check_binary
from hurray.sources.sink import open_emptied
from hurray.tensor.forming import as_bytes_view

__all__ = ["FileInlet", "Inlet", "MemoryInlet", "SocketInlet", "open_inlet"]

#: rooms from this size on are waited for as a whole
_LARGE = 1 << 16
_WAIT_ALL: int = getattr(socket, "MSG_WAITALL", 0)
_HAS_READV = hasattr(os, "readv")
_PEEK: int = getattr(socket, "MSG_PEEK", 0)


class Inlet(Protocol):
    """A place to read bytes from."""

    def read_into(self, room: memoryview) -> int:
        """Fill the front of ``room`` with at least one byte, as many as are at hand; 0 at the end of the input."""

    def close(self) -> None:
        """Let go of the place; what the caller gave stays open."""


class MemoryInlet:
    """Bytes at hand."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def read_into(self, room: memoryview) -> int:
        n = min(len(room), len(self._data) - self._at)
        room[:n] = self._data[self._at : self._at + n]
        self._at += n
        return n

    def take(self, take: Callable[[memoryview, int], int]) -> bool:
        """Offer ``take`` the bytes at hand, of which it returns where the rest starts; tell whether it took any."""
        before = self._at
        self._at = take(self._data, before)
        return self._at > before

    def close(self) -> None:
        self._data = memoryview(b"")
        self._at = 0


class FileInlet:
    """A regular file of our own, which is read ahead.

    Nobody waits for the bytes behind a tensor, and nobody else reads through the same descriptor.  The more small
    tensors there are, the more is read at once; of large ones, which are better read to their place, next to nothing.
    """

    #: bytes read ahead: with a descriptor, of small tensors at first, and at most
    _LEAST, _FIRST, _MOST = 128, 1 << 12, 1 << 16
    #: tensors that are read one by one after one that was too large
    _PAUSE = 32

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._block = memoryview(bytearray(self._MOST))
        self._at = self._end = 0
        self._ahead = self._FIRST
        self._pause = 0

    def read_into(self, room: memoryview) -> int:
        n = min(len(room), self._end - self._at)
        room[:n] = self._block[self._at : self._at + n]
        if n == len(room):
            self._at += n
            return n
        # Nothing is lost when reading fails: what was copied is taken from the block afterwards only.
        rest = room[n:]
        if len(rest) >= _LARGE or not _HAS_READV:
            more = self._file.readinto(rest) or 0
            self._at = self._end
        else:
            more = os.readv(self._file.fileno(), [rest, self._block[: self._LEAST]])
            self._at, self._end = 0, max(0, more - len(rest))
        return n + min(more, len(rest))

    def take(self, take: Callable[[memoryview, int], int]) -> bool:
        """Offer ``take`` the bytes at hand, of which it returns where the rest starts; tell whether it took any."""
        if self._pause:
            self._pause -= 1
            return False
        if self._offer(take):
            return True
        # A tensor may lie across the end of what is there.
        if not self._refill() or not self._offer(take):
            self._ahead, self._pause = self._FIRST, self._PAUSE
            return False
        self._ahead = min(self._MOST, self._ahead * 2)
        return True

    def _offer(self, take: Callable[[memoryview, int], int]) -> bool:
        before = self._at
        if before < self._end:
            self._at = take(self._block[: self._end], before)
        return self._at > before

    def _refill(self) -> int:
        """Put more bytes behind those that are there; return how many."""
        rest = self._end - self._at
        if rest >= self._ahead:
            return 0
        self._block[:rest] = self._block[self._at : self._end]
        # What is there stays there when reading fails.
        self._at, self._end = 0, rest
        n = self._file.readinto(self._block[rest : self._ahead]) or 0
        self._end += n
        return n

    def close(self) -> None:
        self._file.close()

    # A reader that is dropped half way lets go quietly, as a file in C would.
    __del__ = close


class _Filling:
    """A source that gives little at a time: a large room is filled here, where each turn costs least.

    The room never goes beyond the current tensor, which is of no use before all of it has come.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        # Bytes at the front of the room that an interrupted call has read already; the next call gets the same room.
        self._kept = 0

    def read_into(self, room: memoryview) -> int:
        n, self._kept = self._kept, 0
        try:
            while True:
                more = self._read(room[n:] if n else room)
                if more is None:
                    if n:
                        return n
                    wait(self._target, writable=False)
                    continue
                n += more
                if more == 0 or n == len(room) or len(room) < _LARGE:
                    return n
        except BaseException:
            self._kept = n
            raise

    def _read(self, room: memoryview) -> int | None:
        """Read once; None when a non-blocking source has nothing."""
        raise NotImplementedError


class _Raw(_Filling):
    """A file descriptor of our own, read without a buffer."""

    _target: io.FileIO

    def _read(self, room: memoryview) -> int | None:
        return self._target.readinto(room)

    def close(self) -> None:
        self._target.close()

    # A reader or writer that is dropped half way lets go quietly, as a file in C would.
    __del__ = close


class SocketInlet(_Filling):
    """A socket; what comes can be looked at before it is taken."""

    def __init__(self, sock: Any, *, owned: bool) -> None:
        super().__init__(sock)
        self._owned = owned
        self._window = memoryview(bytearray(128))

    def peek(self) -> memoryview:
        """Wait for bytes and show the first few, as many as are there; nothing where the socket does not show them."""
        if not _PEEK or not self._owned or self._kept:
            return self._window[:0]
        try:
            return self._window[: self._target.recv_into(self._window, 0, _PEEK)]
        except BlockingIOError:
            return self._window[:0]

    def _read(self, room: memoryview) -> int | None:
        try:
            if self._owned and len(room) >= _LARGE:
                return self._target.recv_into(room, 0, _WAIT_ALL)  # type: ignore[no-any-return]
            return self._target.recv_into(room)  # type: ignore[no-any-return]
        except BlockingIOError:
            return None

    def close(self) -> None:
        if self._owned:
            self._target.close()

    __del__ = close


class _FileObject:
    def __init__(self, file: Any) -> None:
        self._file = file

    def read_into(self, room: memoryview) -> int:
        while (n := self._file.readinto(room)) is None:
            wait(self._file, writable=False)
        if not isinstance(n, int) or not 0 <= n <= len(room):
            # Believing it would take memory that nobody filled for bytes of the stream, or wait for ever.
            raise FileError(f"the source says that it gave {n!r} bytes when at most {len(room)} were asked for")
        return n

    def close(self) -> None:
        """The file object belongs to the caller."""


class _Readable:
    """An object with nothing but ``read(n)``."""

    #: bytes asked for at once, since they come in an object of their own
    _MOST = 1 << 20

    def __init__(self, file: Any) -> None:
        self._file = file

    def read_into(self, room: memoryview) -> int:
        data = self._file.read(min(len(room), self._MOST))
        if isinstance(data, str):
            raise TypeError("the source gives text; open it in binary mode")
        if len(data) > len(room):
            raise FileError(f"the source gave {len(data)} bytes when at most {len(room)} were asked for")
        room[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """The object belongs to the caller."""


def open_inlet(source: Any) -> Inlet:
    """Return the inlet for whatever a stream may be read from.

    Raises
    ------
    FileError
        The path cannot be opened, or the object is closed.
    TypeError
        Nothing can be read from the object.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return MemoryInlet(as_bytes_view(source, "the stream").data)
    if isinstance(source, (str, os.PathLike)):
        file = open_raw(source, "rb")
        return FileInlet(file) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else _Raw(file)
    if hasattr(source, "recv_into"):
        # A plain socket is duplicated like any descriptor; one with a layer on top (TLS) has to be read through itself.
        plain = type(source) is socket.socket
        return SocketInlet(duplicate(source, source.dup) if plain else source, owned=plain)
    refuse_text_layer(source)
    if isinstance(source, (io.FileIO, io.BufferedReader, io.BufferedRandom)):
        found = _duplicated_file(source)
        if found is not None:
            return found
    # A file object may keep bytes of its own or decode them, so its descriptor is only the second choice.
    if hasattr(source, "readinto"):
        return _FileObject(source)
    number = file_number(source)
    if number is not None:
        return _Raw(io.FileIO(duplicate(source, lambda: os.dup(number)), "rb"))
    if hasattr(source, "read"):
        return _Readable(source)
    try:
        return MemoryInlet(as_bytes_view(source, "the stream").data)
    except TypeError:
        raise TypeError(
            f"a stream is read from a path, a bytes-like object, a socket or a binary file, not {type(source).__name__}"
        ) from None


def _duplicated_file(source: Any) -> Inlet | None:
    """Return an inlet over a duplicate of a file's descriptor, or None where its buffer might hold bytes already."""
    number = file_number(source)
    if number is None:
        return None
    if not isinstance(source, io.FileIO):
        if not source.seekable():
            return None
        if source.writable():
            source.flush()
        os.lseek(number, source.tell(), os.SEEK_SET)
    return _Raw(io.FileIO(duplicate(source, lambda: os.dup(number)), "rb"))


def refuse_text_layer(target: Any) -> None:
    """Refuse text files that have no descriptor under them."""
    if isinstance(target, io.TextIOBase) and file_number(target) is not None:
        return
    check_binary(target)


def open_raw(path: Any, mode: str) -> io.FileIO:
    """Open a path without a buffer.

    Raises
    ------
    FileError
        The system refuses; its errno and the file's name are kept.
    """
    name = os.fsdecode(path)
    try:
        if mode == "wb":
            return io.FileIO(open_emptied(os.fspath(path)), mode)
        return io.FileIO(path, mode)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(
            f"could not open {name}: {reason}", errno=getattr(error, "errno", None), filename=name
        ) from error


def file_number(target: Any) -> int | None:
    """Return an object's file descriptor, or None when it has none.

    Raises
    ------
    FileError
        The object is closed.
    """
    get = getattr(target, "fileno", None)
    if get is None:
        return None
    try:
        number = get()
    except io.UnsupportedOperation:
        return None
    except (OSError, ValueError) as error:
        raise FileError(f"{type(target).__name__} cannot be used: {error}") from error
    return number if isinstance(number, int) and number >= 0 else None


def duplicate(target: Any, dup: Any) -> Any:
    """Return what ``dup`` gives, naming ``target`` when it fails."""
    try:
        return dup()
    except OSError as error:
        raise FileError(f"{type(target).__name__} cannot be used: {error}", errno=error.errno) from error


def wait(target: Any, *, writable: bool) -> None:
    """Block until a non-blocking descriptor is ready."""
    if not hasattr(select, "poll"):
        select.select(*(([], [target], []) if writable else ([target], [], [])))
        return
    poll = select.poll()
    poll.register(target, select.POLLOUT if writable else select.POLLIN)
    poll.poll()
