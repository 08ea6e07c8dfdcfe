"""Sources that read byte ranges into fresh, 64-byte aligned memory."""

from __future__ import annotations

import io
import os
import stat
from _thread import allocate_lock
from collections.abc import Callable
from typing import Any

from hurray.errors import FileError
from hurray.sources._base import Bytes, aligned_bytes, check_binary, check_range, file_error, source_name

__all__ = ["FileObjectSource", "FileSource"]

# One read call moves less than 2 GiB on every system.
_MOST = 1 << 30
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _fill(
    out: Bytes, read_at: Callable[[memoryview, int], int], source: FileSource | FileObjectSource, offset: int
) -> Bytes:
    """Fill ``out`` from ``offset`` on; ``read_at`` may return fewer bytes than it was asked for."""
    rest = memoryview(out.data)
    at = offset
    while rest.nbytes:
        try:
            n = read_at(rest[:_MOST], at)
        except OSError as error:
            raise file_error(error, source.name, "read") from None
        if n <= 0:
            raise FileError(
                f"{source.name}: ends at byte {at}, expected {source.size} bytes (was it cut while open?)",
                filename=source.name,
            ).at(offset=at)
        if n > min(rest.nbytes, _MOST):
            # Believing it would hand over memory that nobody filled.
            raise FileError(f"{source.name}: gave {n} bytes, more than it was asked for", filename=source.name)
        rest = rest[n:]
        at += n
    out.flags.writeable = False
    return out


class FileSource:
    """A local file that is read range by range.

    Parameters
    ----------
    path : str or bytes
        The file; its descriptor stays open until :meth:`close`.
    """

    __slots__ = ("_fd", "_lock", "name", "size")

    def __init__(self, path: str | bytes) -> None:
        self._fd = -1
        self._lock = allocate_lock()
        self.name = source_name(path)
        try:
            self._fd = os.open(path, _OPEN_FLAGS)
            status = os.fstat(self._fd)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(21, "Is a directory")
            # A block device has no st_size; its end is where seeking ends.  A pipe cannot seek and is refused here.
            self.size = status.st_size if stat.S_ISREG(status.st_mode) else os.lseek(self._fd, 0, os.SEEK_END)
        except (OSError, ValueError) as error:
            self.close()
            if isinstance(error, OSError):
                raise file_error(error, self.name, "open") from None
            raise FileError(f"cannot open {self.name!r}: {error}", filename=self.name) from None

    def view(self, offset: int, n_bytes: int) -> Bytes:
        """Return a byte range as fresh memory."""
        check_range(self, offset, n_bytes)
        if self._fd < 0:
            raise FileError(f"{self.name} is closed", filename=self.name)
        return _fill(aligned_bytes(n_bytes), self._read_at, self, offset)

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return a copy of a byte range."""
        return self.view(offset, n_bytes).tobytes()

    def _read_at(self, out: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._fd, [out], offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            data = os.read(self._fd, out.nbytes)
        out[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file; what was read stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class FileObjectSource:
    """A binary file object that can seek; all of it is the source, whatever its position.

    Parameters
    ----------
    target : binary file object
        With ``seek`` and ``read`` or ``readinto``.
    name : str, optional
        What messages call it.
    owned : bool
        Close the object with the source; False leaves it to the caller.
    """

    __slots__ = ("_lock", "_owned", "_target", "name", "size")

    def __init__(self, target: Any, name: str | None = None, *, owned: bool = False) -> None:
        check_binary(target)
        self.name = name or source_name(target)
        self._target = target
        self._owned = owned
        self._lock = allocate_lock()
        try:
            seekable = getattr(target, "seekable", None)
            if not hasattr(target, "seek") or (seekable is not None and not seekable()):
                raise FileError(
                    f"{self.name} cannot seek, and a Hurray file is read from its end; read it into memory first, or "
                    "write a stream instead of a file",
                    filename=self.name,
                )
            here = target.tell()
            end = target.seek(0, io.SEEK_END)
            # Some objects follow the old protocol and return None from seek.
            self.size = int(target.tell() if end is None else end)
            target.seek(here)
        except OSError as error:
            raise file_error(error, self.name, "seek in") from None
        except ValueError as error:
            raise FileError(f"cannot read {self.name}: {error}", filename=self.name) from None

    def view(self, offset: int, n_bytes: int) -> Bytes:
        """Return a byte range as fresh memory."""
        check_range(self, offset, n_bytes)
        with self._lock:
            try:
                return _fill(aligned_bytes(n_bytes), self._read_at, self, offset)
            except ValueError as error:
                # "I/O operation on closed file": the caller closed its own object.
                raise FileError(f"cannot read {self.name}: {error}", filename=self.name) from None

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return a copy of a byte range."""
        return self.view(offset, n_bytes).tobytes()

    def _read_at(self, out: memoryview, offset: int) -> int:
        self._target.seek(offset)
        if hasattr(self._target, "readinto"):
            return int(self._target.readinto(out) or 0)
        data = self._target.read(out.nbytes)
        if isinstance(data, str):
            raise TypeError(f"{self.name} gives text instead of bytes; open it in binary mode")
        out[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the object when the source owns it."""
        if self._owned:
            self._target.close()
