"""What a source is, and how errors of the operating system become ours."""

from __future__ import annotations

import io
import os
import re
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hurray.errors import FileError

__all__ = [
    "ALIGNMENT",
    "Bytes",
    "FileMissingError",
    "Source",
    "aligned_bytes",
    "check_binary",
    "check_range",
    "file_error",
    "is_url",
    "source_name",
]

Bytes = NDArray[np.uint8]

#: Start of every freshly read buffer, in bytes: what the format asks of non-empty buffers.
ALIGNMENT = 64

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Source(Protocol):
    """Random access to bytes that never change.

    ``size`` is in bytes; ``name`` is what messages call the source.
    """

    size: int
    name: str

    def view(self, offset: int, n_bytes: int) -> Bytes:
        """Return bytes ``offset`` to ``offset + n_bytes`` as a read-only 1-D uint8 array.

        Raises
        ------
        FileError
            The range does not lie inside the source, or reading fails.
        """
        ...

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return a copy of a few bytes, such as a descriptor, in the cheapest way.

        Raises
        ------
        FileError
            As :meth:`view`.
        """
        ...

    def close(self) -> None:
        """Let go of the source; views stay valid."""
        ...


class FileMissingError(FileError, FileNotFoundError):
    """A file that does not exist: both a FileError and a FileNotFoundError."""


class _FileDeniedError(FileError, PermissionError):
    """A file that may not be opened."""


class _FileIsDirectoryError(FileError, IsADirectoryError):
    """A directory where a file was expected."""


# Users catch the built-in classes too, so each common kind is both.
_KINDS: tuple[tuple[type[OSError], type[FileError]], ...] = (
    (FileNotFoundError, FileMissingError),
    (PermissionError, _FileDeniedError),
    (IsADirectoryError, _FileIsDirectoryError),
)


def file_error(error: OSError, name: str, doing: str) -> FileError:
    """Return an error of the operating system as a FileError that keeps errno and file name.

    Parameters
    ----------
    error : OSError
        What the operating system said.
    name : str
        The file, for the message and ``filename``.
    doing : str
        What was attempted, such as ``"open"``.
    """
    if isinstance(error, FileError):
        return error
    cls = next((ours for builtin, ours in _KINDS if isinstance(error, builtin)), FileError)
    reason = error.strerror or str(error) or type(error).__name__
    return cls(f"cannot {doing} {name!r}: {reason}", errno=error.errno, filename=name)


def check_binary(target: Any) -> None:
    """Refuse a text-mode file object.

    Raises
    ------
    TypeError
        The object is a text file.
    """
    if isinstance(target, io.TextIOBase) or (hasattr(target, "encoding") and not isinstance(target, io.IOBase)):
        name = getattr(target, "name", None)
        shown = f" {name!r}" if isinstance(name, str) else ""
        raise TypeError(f"the file object{shown} is opened in text mode; open it in binary mode, such as 'rb' or 'wb'")


def check_range(source: Source, offset: int, n_bytes: int) -> None:
    """Refuse a byte range that does not lie inside ``source``."""
    if offset < 0 or n_bytes < 0 or offset + n_bytes > source.size:
        raise FileError(
            f"{source.name}: bytes {offset} to {offset + n_bytes} lie outside its {source.size} bytes",
            filename=source.name,
        ).at(offset=offset)


def aligned_bytes(n_bytes: int, *, zeroed: bool = False) -> Bytes:
    """Return ``n_bytes`` new bytes that start at a multiple of 64; uninitialised unless ``zeroed``."""
    raw = (np.zeros if zeroed else np.empty)(n_bytes + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[start : start + n_bytes]


def is_url(target: str) -> bool:
    """Tell whether a string is a URL rather than a path."""
    return _URL.match(target) is not None


def source_name(target: Any) -> str:
    """Return what messages call a path or a file object."""
    if isinstance(target, (str, bytes, os.PathLike)):
        return os.fsdecode(target)
    name = getattr(target, "name", None)
    return name if isinstance(name, str) else f"<{type(target).__name__}>"
