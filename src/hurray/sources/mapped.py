"""A source over a memory-mapped file.

The map belongs to the views: it goes away with the last of them, so closing the source never invalidates an array.
The file's own descriptor stays open as long as the source (from Python 3.13 on the map keeps none of its own):
descriptors and sections are read through it, because a page of the map that is touched for the first time costs ten
times as much as reading the few bytes that are wanted of it.  A file that another program truncates while it is mapped
makes the operating system stop the process on access; writers that replace a file by renaming (as ours does) never do
that.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
import sys
from typing import Any

import numpy as np

from hurray.errors import FileError
from hurray.sources._base import Bytes, check_range, file_error, source_name

__all__ = ["MappedSource", "mappable"]

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# The map would keep a duplicate of the descriptor only to be resized.
_UNTRACKED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) and os.name == "posix" else {}
_HAS_PREAD = hasattr(os, "pread")


class MappedSource:
    """A read-only map of a regular file.

    Parameters
    ----------
    fd : int
        Descriptor of the file; it stays the caller's and may be closed at once.
    name : str
        What messages call the file.
    """

    __slots__ = ("_data", "_fd", "name", "size")

    def __init__(self, fd: int, name: str) -> None:
        self._fd = -1
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise file_error(IsADirectoryError(21, "Is a directory"), name, "map")
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{name!r} is not a regular file and cannot be mapped", filename=name)
        self.name = name
        self.size = status.st_size
        try:
            # An empty file cannot be mapped, but has no bytes to show either.
            mapped = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ, **_UNTRACKED) if self.size else b""
        except (OSError, ValueError, OverflowError) as error:
            if isinstance(error, OSError):
                raise file_error(error, name, "map") from None
            raise FileError(f"cannot map {name!r}: {error}", filename=name) from None
        self._data: Bytes = np.frombuffer(mapped, np.uint8)
        if _HAS_PREAD and self.size:
            try:
                self._fd = os.dup(fd)
            except OSError:
                pass  # no descriptor is left: the map gives the same bytes

    @classmethod
    def from_path(cls, path: str | bytes) -> MappedSource:
        """Map the file at ``path``."""
        name = source_name(path)
        try:
            fd = os.open(path, _OPEN_FLAGS)
        except OSError as error:
            raise file_error(error, name, "open") from None
        except ValueError as error:
            raise FileError(f"cannot open {name!r}: {error}", filename=name) from None
        try:
            return cls(fd, name)
        finally:
            os.close(fd)

    @classmethod
    def from_file_object(cls, target: Any) -> MappedSource:
        """Map the file behind an open binary file object, which stays open."""
        if target.writable():
            target.flush()
        return cls(target.fileno(), source_name(target))

    def view(self, offset: int, n_bytes: int) -> Bytes:
        """Return a byte range as a read-only view of the map."""
        check_range(self, offset, n_bytes)
        return self._data[offset : offset + n_bytes]

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return a copy of a byte range, past the map where that is possible."""
        if self._fd < 0:
            return self.view(offset, n_bytes).tobytes()
        check_range(self, offset, n_bytes)
        data = self._pread(offset, n_bytes)
        while len(data) < n_bytes:
            # One call moves less than 2 GiB.
            more = self._pread(offset + len(data), n_bytes - len(data))
            if not more:
                raise FileError(
                    f"{self.name}: ends at byte {offset + len(data)}, expected {self.size} bytes (was it cut while "
                    "open?)",
                    filename=self.name,
                ).at(offset=offset + len(data))
            data += more
        return data

    def _pread(self, offset: int, n_bytes: int) -> bytes:
        try:
            return os.pread(self._fd, n_bytes, offset)
        except OSError as error:
            raise file_error(error, self.name, "read") from None

    def close(self) -> None:
        """Let go of the map; views keep it."""
        self._data = np.empty(0, np.uint8)
        self.size = 0
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def mappable(target: Any) -> bool:
    """Tell whether a file object is a plain local file.

    Other objects with a ``fileno`` (such as a decompressing reader) show bytes that differ from those of the file
    behind it.
    """
    raw = target.raw if isinstance(target, (io.BufferedReader, io.BufferedRandom)) else target
    if not isinstance(raw, io.FileIO) or raw.closed:
        return False
    return raw.readable() and stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
