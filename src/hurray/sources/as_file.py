"""A source as the seekable file object that other libraries read from."""

from __future__ import annotations

import io
from typing import Any

from hurray.sources._base import Source

__all__ = ["SourceFile"]


class SourceFile(io.RawIOBase):
    """Read a source through a position of its own; closing it leaves the source open."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        out = memoryview(buffer).cast("B")
        n_bytes = max(0, min(len(out), self._source.size - self._at))
        if n_bytes:
            out[:n_bytes] = self._source.view(self._at, n_bytes).data
            self._at += n_bytes
        return n_bytes
