"""``hurray verify``: is a file whole and legal."""

from __future__ import annotations

from typing import Annotated

import typer

from hurray.api import verify as verify_file
from hurray.cli._console import clean, print_line, progress
from hurray.container.verify import Problem

__all__ = ["verify"]


def verify(
    paths: Annotated[list[str], typer.Argument(help="Hurray files.", metavar="PATH...")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing for files that are whole.")] = False,
) -> None:
    """Check everything in files and name each damaged or illegal tensor; exit code 1 if there is one."""
    damaged = 0
    with progress("verifying", quiet=quiet) as report_progress:
        for k, path in enumerate(paths):
            if report_progress is not None:
                report_progress(path, k, len(paths))
            report = verify_file(path)
            damaged += not report.ok
            if report.ok and not quiet:
                print_line(f"{clean(path)}: ok")
            for problem in report.problems:
                if problem.is_error or not quiet:
                    print_line(_shown(problem, path))
    if damaged:
        raise typer.Exit(1)


def _shown(problem: Problem, path: str) -> str:
    kind = "error" if problem.is_error else "warning"
    message = " ".join(problem.message.replace(f"{path}: ", "").split())
    if problem.tensor is not None and problem.tensor not in message:
        message = f"tensor {problem.tensor!r}: {message}"
    place = "" if problem.offset is None else f" at byte {problem.offset}"
    return clean(f"{path}: {kind}{place}: {message}")
