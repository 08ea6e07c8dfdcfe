"""Shared-memory segments: memory that processes of one machine map, and how it goes away.

Two kinds, each written once, then only read:

*memory* (Linux).  The segment has no name: it is a sealed memory file, reached as ``/proc/<pid>/fd/<n>`` of a process
that holds it.  The kernel counts its users and frees it with the last one, however that one ends, so nothing can be
left behind.  The seals promise every reader that nobody writes to it or shortens it.

*file*.  The segment is a file in ``/dev/shm`` (or ``$HURRAY_SHM_DIR``), for systems without the first kind and for
processes that do not see each other's ``/proc`` entries (containers).  Every user holds a shared ``flock`` on it, which
the kernel drops when the process dies.  Whoever lets go closes its own lock first and then tries for an exclusive one:
the last user gets it and removes the file.  A forked child leaves the lock to its parent.  A file that every user died
on is removed when the next segment is made.

A segment that somebody has mapped once is marked by its mode bits, the one thing that a reader may still change.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import stat
import weakref
from collections.abc import Iterable
from typing import Any, ClassVar

from hurray.errors import FileError, UnsupportedError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["KINDS", "FileSegment", "MemorySegment", "Segment", "default_kind"]

_TOKEN = re.compile(r"[0-9a-f]{32}")
_PREFIX = "hurray-"
_STEP = 1 << 30
_UNTAKEN, _TAKEN = 0o600, 0o400

#: (offset, bytes-like) pieces of a segment; what lies between them is zero
Pieces = Iterable[tuple[int, Any]]


class Segment:
    """One segment, open in this process.

    ``map`` is the read-only mapping.  The segment stays open until the mapping is freed, that is, until the last array
    over it dies.
    """

    kind: ClassVar[str]

    def __init__(self, fd: int, token: str) -> None:
        #: empty once the descriptor is closed
        self._cell = [fd]
        self.token = token
        size = os.fstat(fd).st_size
        if size <= 0:
            raise FileError(f"the shared-memory segment {token} is empty")
        self.map = self._open_map(size)

    def _open_map(self, size: int) -> mmap.mmap:
        return mmap.mmap(self.fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)

    @property
    def fd(self) -> int:
        """The descriptor; -1 when a forked child has none of its own."""
        return self._cell[0] if self._cell else -1

    @property
    def was_taken(self) -> bool:
        """True when some process has attached to the segment."""
        try:
            return stat.S_IMODE(os.fstat(self.fd).st_mode) == _TAKEN
        except OSError:
            return True

    def mark_taken(self) -> None:
        """Record that a process has attached."""
        # Only a hint for the producer; another user's segment cannot be marked.
        with contextlib.suppress(OSError):
            os.fchmod(self.fd, _TAKEN)

    @property
    def address(self) -> str:
        """Where another process finds the segment, as text."""
        raise NotImplementedError

    @classmethod
    def create(cls, size: int, pieces: Pieces) -> Segment:
        """Make a segment of ``size`` bytes and fill it.

        Raises
        ------
        FileError
            The system has no room for it.
        """
        raise NotImplementedError

    @classmethod
    def find(cls, address: str) -> Segment:
        """Open the segment that another process's ``address`` names.

        Raises
        ------
        FileError
            The text names no segment, or the segment is gone.
        """
        raise NotImplementedError


def _fill(fd: int, size: int, pieces: Pieces) -> None:
    """Write the pieces; unlike writing to a mapping, this fails with an error when memory is short."""
    os.ftruncate(fd, size)
    for offset, piece in pieces:
        view = memoryview(piece).cast("B")
        while len(view):
            n = os.pwrite(fd, view[:_STEP], offset)
            view, offset = view[n:], offset + n


def _gone(what: str, reason: object = "") -> FileError:
    tail = f" ({reason})" if reason else ""
    return FileError(
        f"the shared-memory segment {what} is gone{tail}: whoever shares must keep it until others have attached",
        errno=errno.ENOENT,
    )


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def _close_all(cell: list[int]) -> None:
    while cell:
        _close(cell.pop())


class MemorySegment(Segment):
    """A segment without a name, which the kernel frees with its last user."""

    kind = "memory"

    def __init__(self, fd: int, token: str) -> None:
        super().__init__(fd, token)
        weakref.finalize(self.map, _close_all, self._cell)

    @property
    def address(self) -> str:
        return f"{os.getpid()}.{self.fd}.{self.token}"

    @classmethod
    def create(cls, size: int, pieces: Pieces) -> Segment:
        token = os.urandom(16).hex()
        fd = os.memfd_create(_PREFIX + token, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.fchmod(fd, _UNTAKEN)
            _fill(fd, size, pieces)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
            # Through a descriptor that cannot write, since older kernels map sealed memory no other way.
            reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(fd)
        return cls._own(reader, token)

    @classmethod
    def find(cls, address: str) -> Segment:
        parts = re.fullmatch(rf"([0-9]{{1,10}})\.([0-9]{{1,10}})\.({_TOKEN.pattern})", address, re.ASCII)
        if parts is None:
            raise FileError(f"{address!r} is no shared-memory segment")
        path, token = f"/proc/{parts[1]}/fd/{parts[2]}", parts[3]
        try:
            # The number may belong to another file by now; opening just anything could block or do harm.
            if not _is_ours(path, token):
                raise _gone(token)
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except PermissionError as error:
            raise FileError(
                f"process {parts[1]} does not let this one reach its shared memory: {error}", errno=error.errno
            ) from error
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise _gone(token, error.strerror) from error
        try:
            sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS == _SEALS
            named = _is_ours(f"/proc/self/fd/{fd}", token)
        except OSError:
            sealed = named = False
        if not (sealed and named):
            _close(fd)
            raise FileError(f"the shared memory behind {address!r} is no sealed segment")
        return cls._own(fd, token)

    @classmethod
    def _own(cls, fd: int, token: str) -> Segment:
        try:
            return cls(fd, token)
        except (OSError, ValueError) as error:
            _close(fd)
            raise FileError(f"the shared-memory segment {token} cannot be mapped: {error}") from error


def _is_ours(path: str, token: str) -> bool:
    return os.readlink(path).startswith(f"/memfd:{_PREFIX}{token} ")


_SEALS = 0
if fcntl is not None and hasattr(fcntl, "F_SEAL_WRITE"):
    _SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class FileSegment(Segment):
    """A segment with a name, removed by its last user."""

    kind = "file"

    #: lock descriptors of this process, by the address of their cells
    _locks: ClassVar[dict[int, list[int]]] = {}

    def __init__(self, fd: int, token: str) -> None:
        super().__init__(fd, token)
        FileSegment._locks[id(self._cell)] = self._cell
        # Runs at the end of the process too, while arrays are still alive.
        weakref.finalize(self.map, _let_go, self._cell, _path(token))

    def _open_map(self, size: int) -> mmap.mmap:
        # A mapping keeps a duplicate of its descriptor, and a duplicate would keep the lock.
        fd = os.open(_path(self.token), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.path.samestat(os.fstat(fd), os.fstat(self.fd)):
                raise _gone(self.token)
            return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        finally:
            os.close(fd)

    @property
    def address(self) -> str:
        return self.token

    @classmethod
    def create(cls, size: int, pieces: Pieces) -> Segment:
        _remove_orphans()
        while True:
            token = os.urandom(16).hex()
            fd = os.open(_path(token), os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _UNTAKEN)
            fcntl.flock(fd, fcntl.LOCK_SH)
            # Between the two calls another process may have taken the file for an orphan.
            if os.fstat(fd).st_nlink:
                break
            os.close(fd)
        try:
            os.fchmod(fd, _UNTAKEN)
            _fill(fd, size, pieces)
            return cls(fd, token)
        except BaseException:
            _let_go([fd], _path(token))
            raise

    @classmethod
    def find(cls, address: str) -> Segment:
        if not _TOKEN.fullmatch(address):
            raise FileError(f"{address!r} is no shared-memory segment")
        try:
            fd = os.open(_path(address), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            raise _gone(address, error.strerror) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            if not os.fstat(fd).st_nlink:
                raise _gone(address)
            return cls(fd, address)
        except (OSError, ValueError) as error:
            _let_go([fd], _path(address))
            if isinstance(error, FileError):
                raise
            raise FileError(f"the shared-memory segment {address} cannot be mapped: {error}") from error


def _folder() -> str:
    given = os.environ.get("HURRAY_SHM_DIR")
    if given:
        return given
    return "/dev/shm" if os.path.isdir("/dev/shm") else os.environ.get("TMPDIR", "/tmp")


def _path(token: str) -> str:
    return os.path.join(_folder(), _PREFIX + token)


def _let_go(cell: list[int], path: str) -> None:
    """Close a lock, and remove the file if nobody else holds one."""
    FileSegment._locks.pop(id(cell), None)
    _close_all(cell)
    _remove_if_unused(path)


def _remove_if_unused(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        # The lock is only given when no process holds the file, and whoever attaches now waits and then finds it gone.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd)):
            os.unlink(path)
    except OSError:
        pass
    finally:
        os.close(fd)


def _remove_orphans() -> None:
    """Remove the files of processes that all died."""
    with contextlib.suppress(OSError):
        for name in os.listdir(_folder()):
            if name.startswith(_PREFIX) and _TOKEN.fullmatch(name.removeprefix(_PREFIX)):
                _remove_if_unused(os.path.join(_folder(), name))


def _leave_locks_to_the_parent() -> None:
    """Close the locks that a forked child inherited: they are the parent's, and would outlive it unnoticed."""
    for cell in FileSegment._locks.values():
        _close_all(cell)
    FileSegment._locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks_to_the_parent)

KINDS: dict[str, type[Segment]] = {cls.kind: cls for cls in (MemorySegment, FileSegment)}


def default_kind(named: bool | None) -> type[Segment]:
    """Return the kind of segment to make: with a name, without one, or (None) without one where that is possible.

    Raises
    ------
    UnsupportedError
        The system has no such segments.
    """
    if fcntl is None:
        raise UnsupportedError("shared memory needs a POSIX system")
    if named:
        return FileSegment
    if _SEALS and hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        return MemorySegment
    if named is False:
        raise UnsupportedError("shared memory without a name needs Linux with /proc; ask for named=True")
    return FileSegment
