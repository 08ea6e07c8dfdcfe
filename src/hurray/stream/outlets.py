"""Where a stream's bytes go: one way to write to paths, descriptors, sockets, file objects and memory.

The parts of a tensor are handed to the system together and never joined.

Format: streams, byte stream.
"""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hurray.errors import FileError
from hurray.stream.inlets import duplicate, file_number, open_raw, refuse_text_layer, wait

__all__ = ["Memory", "Outlet", "open_outlet"]

#: parts handed over in one call; every system takes that many
_MOST_PARTS = 512
#: below this many bytes, joining the parts costs less than a call with several
_SMALL = 1 << 12


class Outlet(Protocol):
    """A place to write bytes to."""

    def write(self, parts: Sequence[memoryview]) -> None:
        """Write all parts, which are not empty."""

    def close(self) -> None:
        """Hand over what is still held, and let go; what the caller gave stays open."""


class Memory:
    """Bytes that stay in the process."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, parts: Sequence[memoryview]) -> None:
        for part in parts:
            self._data += part

    def close(self) -> None:
        """Nothing to let go: the bytes stay readable."""

    def getvalue(self) -> bytes:
        """Return a copy of all bytes."""
        return bytes(self._data)


class _Raw:
    """A file descriptor of our own, written without a buffer."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw

    def write(self, parts: Sequence[memoryview]) -> None:
        send_all(parts, self._send, self._raw)

    def _send(self, parts: Sequence[memoryview]) -> int | None:
        if len(parts) == 1 or not hasattr(os, "writev"):
            return self._raw.write(parts[0])
        return os.writev(self._raw.fileno(), parts)

    def close(self) -> None:
        self._raw.close()

    # A reader or writer that is dropped half way lets go quietly, as a file in C would.
    __del__ = close


class _Socket:
    def __init__(self, sock: Any, *, owned: bool) -> None:
        self._sock = sock
        self._owned = owned

    def write(self, parts: Sequence[memoryview]) -> None:
        send_all(parts, self._send, self._sock)

    def _send(self, parts: Sequence[memoryview]) -> int:
        if len(parts) == 1 or not self._owned or not hasattr(self._sock, "sendmsg"):
            return self._sock.send(parts[0])  # type: ignore[no-any-return]
        return self._sock.sendmsg(parts)  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._owned:
            self._sock.close()

    __del__ = close


class _FileObject:
    """A file object, written with its own ``write``."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, parts: Sequence[memoryview]) -> None:
        send_all(parts, self._send, self._file)

    def _send(self, parts: Sequence[memoryview]) -> int | None:
        n = self._file.write(parts[0])
        if n is None and isinstance(self._file, io.RawIOBase):
            return None
        # Only raw files write less than they are given; anything else took it all, whatever it returned.
        return n if isinstance(self._file, io.RawIOBase) else len(parts[0])

    def close(self) -> None:
        flush = getattr(self._file, "flush", None)
        if flush is not None and not getattr(self._file, "closed", False):
            flush()


def send_all(parts: Sequence[memoryview], send: Callable[[Sequence[memoryview]], int | None], target: Any) -> None:
    """Call ``send`` until it has taken every byte; it may take less than it is given, or None when not ready."""
    if len(parts) > 1 and sum(map(len, parts)) <= _SMALL:
        parts = [memoryview(b"".join(parts))]
    at = 0
    rest: memoryview | None = None
    while at < len(parts):
        chunk = list(parts[at : at + _MOST_PARTS])
        if rest is not None:
            chunk[0] = rest
        try:
            n = send(chunk)
        except BlockingIOError:
            n = None
        if n is None:
            wait(target, writable=True)
            continue
        for part in chunk:
            if n < len(part):
                rest = part[n:]
                break
            n -= len(part)
            rest = None
            at += 1


def open_outlet(destination: Any) -> Outlet:
    """Return the outlet for whatever a stream may be written to.

    Raises
    ------
    FileError
        The path cannot be opened, or the object is closed.
    TypeError
        Nothing can be written to the object.
    """
    if destination is None:
        return Memory()
    if isinstance(destination, (str, os.PathLike)):
        return _Raw(open_raw(destination, "wb"))
    if hasattr(destination, "sendmsg") or (hasattr(destination, "send") and hasattr(destination, "recv_into")):
        plain = type(destination) is socket.socket
        return _Socket(duplicate(destination, destination.dup) if plain else destination, owned=plain)
    refuse_text_layer(destination)
    number = file_number(destination)
    own_layer = hasattr(destination, "write") and not isinstance(
        destination, (io.FileIO, io.BufferedWriter, io.BufferedRandom, io.TextIOBase)
    )
    if number is not None and not own_layer:
        if hasattr(destination, "flush"):
            # What the caller wrote before comes first.
            destination.flush()
        return _Raw(io.FileIO(duplicate(destination, lambda: os.dup(number)), "wb"))
    if hasattr(destination, "write"):
        return _FileObject(destination)
    raise TypeError(
        f"a stream is written to a path, a socket, a binary file or memory (None), not {type(destination).__name__}"
    )


def as_file_error(error: OSError, verb: str) -> FileError:
    """Return the transport's error as one of ours."""
    return FileError(f"{verb} the stream failed: {error.strerror or error}", errno=error.errno)
