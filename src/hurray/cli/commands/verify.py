"""``hurray verify``: is a file whole and legal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from hurray.cli._console import clean, print_json, print_line, progress
from hurray.container.verify import Problem, Report
from hurray.container.verify import verify as verify_file

__all__ = ["verify"]


def verify(
    paths: Annotated[list[str], typer.Argument(help="Hurray files.", metavar="PATH...")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing for files that are whole.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a report for each file.")] = False,
) -> None:
    """Check files and name each damaged tensor.

    Everything is checked that the format says: structure, checksums of the index, descriptors, index buffers, scales.
    Values themselves have no checksum. The exit code is 1 if there is damage.
    """
    damaged = 0
    reports: list[dict[str, Any]] = []
    with progress("verifying", quiet=quiet or as_json) as report_progress:
        for k, path in enumerate(paths):
            if report_progress is not None:
                report_progress(path, k, len(paths))
            report = verify_file(path)
            damaged += not report.ok
            reports.append(_as_json(report, path))
            if as_json:
                continue
            if report.ok and not quiet:
                print_line(f"{clean(path)}: ok")
            for problem in report.problems:
                if problem.is_error or not quiet:
                    print_line(_shown(problem, path))
    if as_json:
        print_json(reports)
    if damaged:
        raise typer.Exit(1)


def _as_json(report: Report, path: str) -> dict[str, Any]:
    return {
        "path": path,
        "ok": report.ok,
        "tensors": report.n_tensors,
        "bytes": report.n_bytes,
        "problems": [asdict(problem) for problem in report.problems],
    }


def _shown(problem: Problem, path: str) -> str:
    kind = "error" if problem.is_error else "warning"
    message = " ".join(problem.message.replace(f"{path}: ", "").split())
    if problem.tensor is not None and problem.tensor not in message:
        message = f"tensor {problem.tensor!r}: {message}"
    place = "" if problem.offset is None else f" at byte {problem.offset}"
    return clean(f"{path}: {kind}{place}: {message}")
