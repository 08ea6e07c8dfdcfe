"""Where a file's bytes go: a path that is replaced whole, a path written in place, or a file object.

Small pieces gather in one buffer; a big piece goes straight from its own memory to the system, so no payload is ever
copied or joined.  A replaced path is first written to a file without a name (or, where the system has none, to a
temporary name beside the target), flushed to the disk, and only then put under the target's name: a crash leaves the
old file or the new one.

Format: file container, our writer.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import Any, Protocol

from hurray.errors import FileError
from hurray.sources._base import check_binary, file_error, is_url, source_name
from hurray.sources.fsspec import create_url

__all__ = ["Output", "open_emptied", "open_output"]

#: small pieces are gathered up to this many bytes
_GATHER = 1 << 20
#: pieces from here on are written from their own memory
_BIG = 1 << 17
# One write call moves less than 2 GiB on every system.
_MOST = 1 << 30
_ZEROS = bytes(1 << 16)


class _Sink(Protocol):
    """Raw bytes out, in one pass."""

    name: str

    def write(self, data: memoryview) -> int: ...

    def patch(self, offset: int, data: bytes) -> bool:
        """Overwrite bytes already written; return False where the sink cannot seek."""
        ...

    def commit(self) -> None:
        """Finish: what was written becomes what the target holds."""
        ...

    def discard(self) -> None:
        """Give up: leave the target as it was, as far as the sink can."""
        ...


class Output:
    """A sink with a position, gathering, and alignment.

    ``position`` is the number of bytes written so far, gathered ones included.
    """

    __slots__ = ("_gathered", "_sink", "name", "position")

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self._gathered = bytearray()
        self.name = sink.name
        self.position = 0

    def write(self, data: Any) -> None:
        """Append a bytes-like object or a 1-D uint8 array."""
        # A view, because += on a bytearray would let an array on the right add itself element by element.
        view = memoryview(data)
        n_bytes = view.nbytes
        if n_bytes < _BIG:
            self._gathered += view
            if len(self._gathered) >= _GATHER:
                self._flush()
        else:
            self._flush()
            self._send(view)
        self.position += n_bytes

    def pad_to(self, alignment: int) -> int:
        """Append zeros up to the next multiple of ``alignment`` and return the new position."""
        missing = -self.position % alignment
        while missing:
            piece = min(missing, len(_ZEROS))
            self.write(_ZEROS[:piece])
            missing -= piece
        return self.position

    def _flush(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._send(memoryview(gathered))

    def _send(self, rest: memoryview) -> None:
        try:
            while rest.nbytes:
                n = self._sink.write(rest[:_MOST])
                if not isinstance(n, int) or not 0 < n <= min(rest.nbytes, _MOST):
                    message = f"{self.name}: the sink takes no bytes (it returned {n!r} for {rest.nbytes} bytes)"
                    raise FileError(message, filename=self.name)
                rest = rest[n:]
        except OSError as error:
            raise file_error(error, self.name, "write") from error
        except ValueError as error:
            raise FileError(f"cannot write {self.name!r}: {error}", filename=self.name) from error

    def patch(self, offset: int, data: bytes) -> bool:
        """Overwrite bytes already written; return False where the sink cannot seek."""
        self._flush()
        try:
            return self._sink.patch(offset, data)
        except (OSError, ValueError):
            return False

    def commit(self) -> None:
        """Write what was gathered and finish."""
        self._flush()
        try:
            self._sink.commit()
        except OSError as error:
            raise file_error(error, self.name, "write") from error

    def discard(self) -> None:
        """Give up; problems on the way are not worth hiding the reason for it."""
        self._gathered = bytearray()
        with contextlib.suppress(OSError, ValueError):
            self._sink.discard()


def open_output(target: Any, *, atomic: bool) -> Output:
    """Open a path, a URL or a binary file object for writing.

    Raises
    ------
    FileError
        The target cannot be written.
    TypeError
        A text-mode file, or neither a path nor a file object.
    """
    if isinstance(target, (str, bytes, os.PathLike)):
        path = os.fspath(target)
        if isinstance(path, str) and is_url(path):
            return Output(_RemoteSink(path))
        return Output(_open_path(path, atomic))
    if not hasattr(target, "write"):
        raise TypeError(f"expected a path or a binary file object to write to, not {type(target).__name__}")
    check_binary(target)
    return Output(_ObjectSink(target))


class _ObjectSink:
    """A binary file object of the caller's: never closed here, and never undone."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.name = source_name(target)
        self._start = self._tell()

    def _tell(self) -> int | None:
        seekable = getattr(self._target, "seekable", None)
        mode = getattr(self._target, "mode", None)
        if isinstance(mode, str) and "a" in mode:
            return None  # writing always goes to the end, wherever one seeks
        try:
            return int(self._target.tell()) if seekable is not None and seekable() else None
        except (OSError, ValueError):
            return None

    def write(self, data: memoryview) -> int:
        n = self._target.write(data)
        # Objects that follow only the oldest protocol return None and have taken everything.
        return data.nbytes if n is None and not isinstance(self._target, io.RawIOBase) else n

    def patch(self, offset: int, data: bytes) -> bool:
        if self._start is None:
            return False
        here = self._target.tell()
        self._target.seek(self._start + offset)
        self._target.write(data)
        self._target.seek(here)
        return True

    def commit(self) -> None:
        if hasattr(self._target, "flush"):
            self._target.flush()

    def discard(self) -> None:
        # Bytes that were appended to a seekable object are taken back, so that no torn file stays behind.
        if self._start is not None and hasattr(self._target, "truncate"):
            self._target.seek(self._start)
            self._target.truncate()


class _RemoteSink(_ObjectSink):
    """An object store: the object appears when it is closed, and not at all when it is discarded."""

    def __init__(self, url: str) -> None:
        target, self._undo = create_url(url)
        super().__init__(target)
        self.name = url
        self._start = None

    def commit(self) -> None:
        self._target.close()
        if hasattr(self._target, "commit"):
            self._target.commit()

    def discard(self) -> None:
        if hasattr(self._target, "discard"):
            self._target.discard()
        self._undo()


class _DescriptorSink:
    """A file that is written in place; ``created`` is its path when it did not exist before."""

    def __init__(self, fd: int, name: str, created: str | bytes | None = None) -> None:
        self._fd = fd
        self.name = name
        self._created = created

    def write(self, data: memoryview) -> int:
        return os.write(self._fd, data)

    def patch(self, offset: int, data: bytes) -> bool:
        here = os.lseek(self._fd, 0, os.SEEK_CUR)
        os.lseek(self._fd, offset, os.SEEK_SET)
        os.write(self._fd, data)
        os.lseek(self._fd, here, os.SEEK_SET)
        return True

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def commit(self) -> None:
        self.close()

    def discard(self) -> None:
        self.close()
        if self._created is not None:
            os.unlink(self._created)


class _ReplacingSink(_DescriptorSink):
    """A new file that takes the target's name when it is complete.

    ``temporary`` is its name until then; None while it has none.
    """

    def __init__(self, fd: int, name: str, path: str | bytes, temporary: str | bytes | None) -> None:
        super().__init__(fd, name)
        self._path = path
        self._temporary = temporary

    def commit(self) -> None:
        os.fsync(self._fd)
        if self._temporary is None:
            # Noted before it is there, so that an interrupt between the two leaves nothing behind.
            self._temporary = _temporary_name(self._path)
            # With a directory descriptor (unused, as the path is absolute) Python lets the system follow the link.
            os.link(f"/proc/self/fd/{self._fd}", self._temporary, src_dir_fd=self._fd, follow_symlinks=True)
        self.close()
        os.replace(self._temporary, self._path)
        self._temporary = None
        _sync_directory(os.path.dirname(self._path))

    def discard(self) -> None:
        self.close()
        if self._temporary is not None:
            os.unlink(self._temporary)


def _open_path(path: str | bytes, atomic: bool) -> _Sink:
    name = source_name(path)
    try:
        # A link stays a link: the file behind it is replaced.
        real = os.path.realpath(path)
        status = _status(real)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "Is a directory")
        if not atomic or (status is not None and not stat.S_ISREG(status.st_mode)):
            # Pipes and devices cannot be replaced; they are written in place.
            return _DescriptorSink(open_emptied(real), name, real if status is None else None)
        if status is not None and not os.access(real, os.W_OK):
            # Replacing needs no right to write the old file, but a user who took that right away meant it.
            raise PermissionError(13, "Permission denied (the existing file is write-protected)")
        fd, temporary = _new_file(real)
        if status is not None:
            _keep_owner(fd, status)
        return _ReplacingSink(fd, name, real, temporary)
    except OSError as error:
        raise file_error(error, name, "write") from None
    except ValueError as error:
        raise FileError(f"cannot write {name!r}: {error}", filename=name) from None


def open_emptied(path: str | bytes) -> int:
    """Open a file for writing from its start, created or emptied; return its descriptor.

    An old file is taken out of its folder instead of being cut where that is possible, because whoever has it mapped
    would be stopped by the system on the next access: tensors that were loaded from it, and may be what is written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    real = os.path.realpath(path)
    status = _status(real)
    removed = False
    if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and os.access(real, os.W_OK):
        with contextlib.suppress(OSError):
            os.unlink(real)
            removed = True
    fd = os.open(real, flags, 0o666)
    if removed and status is not None:
        _keep_owner(fd, status)
    return fd


def _status(path: str | bytes) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _new_file(path: str | bytes) -> tuple[int, str | bytes | None]:
    """Create the file that will take the name ``path``; return its descriptor, and its name while it has one."""
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    folder = os.path.dirname(path)
    if hasattr(os, "O_TMPFILE"):
        # A file without a name vanishes by itself when the process is killed.
        with contextlib.suppress(OSError):
            fd = os.open(folder, flags | os.O_TMPFILE, 0o666)
            if os.path.exists(f"/proc/self/fd/{fd}"):
                return fd, None
            os.close(fd)
    temporary = _temporary_name(path)
    return os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o666), temporary


def _temporary_name(path: str | bytes) -> str | bytes:
    folder, base = os.path.split(os.fsdecode(path))
    # The name stays within what file systems allow, whatever the length of the target's own.
    return os.path.join(folder, f".{base[:40]}.{os.urandom(6).hex()}.tmp")


def _keep_owner(fd: int, status: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        now = os.fstat(fd)
        if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
            with contextlib.suppress(OSError):
                os.fchown(fd, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):
            os.fchmod(fd, stat.S_IMODE(status.st_mode))


def _sync_directory(folder: str | bytes) -> None:
    """Make a rename durable, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
