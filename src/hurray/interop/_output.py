"""Write a file so that a failure leaves the old one, or none: never half of the new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, cast

from hurray.errors import HurrayError
from hurray.sources import check_binary, file_error, source_name

__all__ = ["output"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def output(target: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    """Open a binary output: a path is replaced when the block ends well, a file object is written as it is.

    Raises
    ------
    FileError
        The operating system refuses.
    TypeError
        A file object in text mode.
    """
    if hasattr(target, "write"):
        check_binary(target)
        yield cast(BinaryIO, target)
        return
    path = os.path.realpath(os.fspath(target))
    folder, base = os.path.split(path)
    temporary = os.path.join(folder, f".{base[:100]}.{secrets.token_hex(6)}.part")
    try:
        # Created as any new file is, so that the umask rules its permissions.
        with os.fdopen(os.open(temporary, _NEW, 0o666), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        with suppress(OSError):
            os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and not isinstance(error, HurrayError):
            raise file_error(error, source_name(target), "write") from None
        raise
