"""Random-access bytes: memory, a mapped file, a file that is read, a URL.

A source gives read-only views of byte ranges and interprets nothing.
"""

from __future__ import annotations

import os
from typing import Any

from hurray.errors import FileError
from hurray.sources._base import (
    FileMissingError,
    Source,
    check_binary,
    file_error,
    is_url,
    source_name,
)
from hurray.sources.file import FileObjectSource, FileSource
from hurray.sources.fsspec import open_url
from hurray.sources.mapped import MappedSource, mappable
from hurray.sources.memory import MemorySource

__all__ = [
    "STRATEGIES",
    "FileMissingError",
    "FileObjectSource",
    "FileSource",
    "MappedSource",
    "MemorySource",
    "Source",
    "check_binary",
    "file_error",
    "is_url",
    "open_source",
    "source_name",
]

#: ``auto`` maps what can be mapped and reads the rest.
STRATEGIES = ("auto", "mmap", "read")


def open_source(target: Any, strategy: str = "auto") -> Source:
    """Open a path, a URL, bytes in memory or a binary file object for random access.

    Parameters
    ----------
    target : str, os.PathLike, bytes-like, or binary file object
        ``bytes`` are always content, never a path.  A file object stays the caller's: it is never closed.
    strategy : {"auto", "mmap", "read"}
        Map a local file (views of it are free), or read byte ranges into fresh memory.

    Raises
    ------
    FileError
        The file is missing or cannot be opened, or ``strategy="mmap"`` is asked for what cannot be mapped.
    TypeError
        A text-mode file, or nothing that holds bytes.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}: expected one of {', '.join(map(repr, STRATEGIES))}")
    if isinstance(target, str) and is_url(target):
        source: Source = open_url(target)
        return _require_read(source, strategy)
    if isinstance(target, (str, os.PathLike)):
        path = os.fspath(target)
        if isinstance(path, str) and is_url(path):
            return _require_read(open_url(path), strategy)
        return FileSource(path) if strategy == "read" else _map_or_read(path, strategy)
    if hasattr(target, "read"):
        return _open_file_object(target, strategy)
    return MemorySource(target)


def _map_or_read(path: str | bytes, strategy: str) -> Source:
    try:
        return MappedSource.from_path(path)
    except FileError as error:
        # Some file systems and all devices cannot be mapped; a missing file stays missing.
        if strategy == "mmap" or isinstance(error, FileMissingError):
            raise
        return FileSource(path)


def _open_file_object(target: Any, strategy: str) -> Source:
    check_binary(target)
    if strategy != "read" and mappable(target):
        return MappedSource.from_file_object(target)
    return _require_read(FileObjectSource(target), strategy)


def _require_read(source: Source, strategy: str) -> Source:
    if strategy == "mmap":
        source.close()
        raise FileError(f"{source.name} cannot be mapped; use strategy='read' or 'auto'", filename=source.name)
    return source
