"""What ``-`` stands for: the standard input and output as binary files."""

from __future__ import annotations

import sys
from typing import IO, Any

import typer

from hurray.container.header import FILE_MAGIC
from hurray.errors import FileError

__all__ = ["PIPE", "source_of", "stdout_of"]

#: the argument that means standard input or output
PIPE = "-"


def source_of(path: str, format: str | None, hint: str = "PATH") -> tuple[Any, str | None]:
    """Return what a reader takes for a path, and its format.

    ``-`` is the standard input: a stream, which is read as it comes, unless its first bytes or ``format`` say that it
    is a file, which is read whole.
    """
    if path != PIPE:
        return path, format
    if sys.stdin is None:
        raise FileError("the standard input is closed")
    if sys.stdin.isatty():
        raise typer.BadParameter("nothing is piped in: the standard input is a terminal", param_hint=hint)
    pipe = sys.stdin.buffer
    if format is None:
        format = "hurray" if _first_bytes(pipe) == FILE_MAGIC else "stream"
    return (pipe, format) if format == "stream" else (pipe.read(), format)


def _first_bytes(pipe: Any) -> bytes:
    """Return the bytes that come next, which stay where they are; fewer than asked for where little has arrived."""
    peek = getattr(pipe, "peek", None)
    return bytes(peek(len(FILE_MAGIC))[: len(FILE_MAGIC)]) if peek is not None else b""


def stdout_of(format: str | None, hint: str = "TARGET") -> tuple[IO[bytes], str]:
    """Return the standard output as a binary file, and the format to write there: a stream by default.

    Raises
    ------
    typer.BadParameter
        It is a terminal, which binary output would spoil.
    """
    if sys.__stdout__ is None:
        raise FileError("the standard output is closed")
    if sys.stdout.isatty():
        message = "tensors are binary and would spoil the terminal; pipe them into a program or a file"
        raise typer.BadParameter(message, param_hint=hint)
    sys.stdout.flush()
    return sys.stdout.buffer, format or "stream"
