"""``hurray convert``: from one format into another."""

from __future__ import annotations

from typing import Annotated

import typer

from hurray.cli._console import progress
from hurray.conversion import FORMATS
from hurray.conversion import convert as convert_file

__all__ = ["convert"]

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
    no_kv: Annotated[bool, typer.Option("--no-kv", help="Leave out the metadata.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Convert a file into another format; the endings of the names say which."""
    with progress("converting", quiet=quiet) as report:
        convert_file(
            source,
            target,
            src_format=source_format,
            dst_format=target_format,
            names=names or None,
            kv={} if no_kv else None,
            dequantize=dequantize,
            densify=densify,
            progress=report,
        )
