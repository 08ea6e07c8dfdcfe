"""Foreign files are written as Hurray files are: the old file stays, whole, until the new one is."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from hurray.sources.sink import Output, open_output

__all__ = ["output"]


class _Stream(io.RawIOBase):
    """An output as the binary file object that zipfile, gzip and NumPy write to."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._out.position

    def write(self, data: Any) -> int:
        n_bytes = memoryview(data).nbytes
        self._out.write(memoryview(data).cast("B") if n_bytes else b"")
        return n_bytes


@contextmanager
def output(target: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    """Open a binary output: a path is replaced when the block ends well, a file object is written as it is.

    Raises
    ------
    FileError
        The target cannot be written.
    TypeError
        A file object in text mode, or nothing that can be written to.
    """
    out = open_output(target, atomic=True)
    try:
        yield cast(BinaryIO, _Stream(out))
    except BaseException:
        out.discard()
        raise
    out.commit()
