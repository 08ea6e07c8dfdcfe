"""``hurray convert``: from one format into another."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hurray.cli._console import clean, print_line, progress
from hurray.conversion import FORMATS
from hurray.conversion import convert as convert_file
from hurray.interop import find_converter

__all__ = ["convert"]


class Other(StrEnum):
    """What becomes of tensors whose quantization cannot be kept."""

    REFUSE = "refuse"
    DEQUANTIZE = "dequantize"
    SKIP = "skip"


_KNOWN = ", ".join(FORMATS)


def convert(
    source: Annotated[str, typer.Argument(help="The file to convert; the index of a sharded checkpoint is one set.")],
    target: Annotated[str, typer.Argument(help="The file to write; it is replaced only when everything is written.")],
    source_format: Annotated[str | None, typer.Option("--from", help=f"Format of the source: {_KNOWN}.")] = None,
    target_format: Annotated[str | None, typer.Option("--to", help=f"Format of the target: {_KNOWN}.")] = None,
    names: Annotated[list[str] | None, typer.Option("--name", "-n", help="Only this tensor; may be repeated.")] = None,
    dequantize: Annotated[
        bool, typer.Option(help="Write quantized tensors as float32 where the target needs it.")
    ] = False,
    densify: Annotated[
        bool, typer.Option(help="Write sparse tensors as dense ones where the target needs it.")
    ] = False,
    other: Annotated[
        Other | None,
        typer.Option(help="What becomes of tensors of a quantized checkpoint whose quantization cannot be kept."),
    ] = None,
    no_kv: Annotated[bool, typer.Option("--no-kv", help="Leave out the metadata.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress, and no report of what was kept.")
    ] = False,
) -> None:
    """Convert a file into another format; the endings of the names say which."""
    if other is not None:
        row = find_converter(source, source_format) if source_format not in ("hurray", "stream") else None
        if row is None or "other" not in row.options:
            raise typer.BadParameter("only GGUF files and quantized checkpoints take it", param_hint="--other")
    with progress("converting", quiet=quiet) as report:
        kept = convert_file(
            source,
            target,
            src_format=source_format,
            dst_format=target_format,
            names=names or None,
            kv={} if no_kv else None,
            dequantize=dequantize,
            densify=densify,
            progress=report,
            options={} if other is None else {"other": other.value},
        )
    if kept is not None and not quiet:
        for line in str(kept).splitlines():
            print_line(clean(line))
