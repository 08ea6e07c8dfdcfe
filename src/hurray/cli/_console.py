"""What all commands share: how they print, how they show progress, and how names from outside reach a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hurray.quantization import Scheme
from hurray.quantization._base import UnknownScheme

__all__ = [
    "clean",
    "format_bytes",
    "format_scheme",
    "format_shape",
    "print_json",
    "print_line",
    "print_table",
    "progress",
    "warn",
]

#: wide enough that a table that is piped into another program is never folded
_PIPE_WIDTH = 4096


def clean(text: str) -> str:
    """Return text from outside with everything that could steer a terminal spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def format_bytes(n_bytes: int) -> str:
    """Return a size as people read it."""
    size = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{n_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_shape(shape: Sequence[int | None]) -> str:
    """Return a shape as people read it; a dynamic dimension is a question mark."""
    return "x".join("?" if n is None else str(n) for n in shape) or "scalar"


def format_scheme(scheme: Scheme | UnknownScheme | None) -> str | None:
    """Return the name of a quantization scheme; None without one."""
    if scheme is None:
        return None
    return scheme.name if isinstance(scheme, Scheme) else "unknown scheme"


def _console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty())


def print_line(text: str) -> None:
    """Print one line of plain text."""
    sys.stdout.write(text + "\n")


def warn(text: str) -> None:
    """Print one line of plain text to stderr."""
    sys.stderr.write(text + "\n")


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table; ``right`` names the columns of numbers.  Rows that start with an exclamation mark stand out."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        marked = bool(row) and row[0].startswith("!")
        # Text objects, so that square brackets in names are not taken for markup.
        table.add_row(*(Text(clean(cell)) for cell in row), style="bold red" if marked else None)
    console = _console()
    if sys.stdout.isatty():
        console.print(table)
        return
    with console.capture() as printed:
        console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show a progress bar on stderr while the block runs; give None when nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def report(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, description=f"{what} {clean(name)[:40]}")

        yield report
