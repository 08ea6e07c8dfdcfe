"""``hurray convert``: from one format, layout or quantization into another."""

from __future__ import annotations

import errno
from enum import StrEnum
from typing import Annotated, Any

import typer

from hurray.cli._changes import LAYOUT_NAMES, Skips, layout_options, quantize_options, split_axes
from hurray.cli._console import clean, print_line, progress, warn
from hurray.cli._pipes import PIPE, source_of, stdout_of
from hurray.container.header import MIN_ALIGNMENT, check_alignment
from hurray.conversion import FORMATS, WRITABLE_FORMATS
from hurray.conversion import convert as convert_file
from hurray.errors import FileError
from hurray.interop import find_converter

__all__ = ["convert"]


class Other(StrEnum):
    """What becomes of tensors whose quantization cannot be kept."""

    REFUSE = "refuse"
    DEQUANTIZE = "dequantize"
    SKIP = "skip"


_KNOWN = ", ".join(FORMATS)
_WRITABLE = ", ".join(WRITABLE_FORMATS)


def convert(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE... TARGET",
            help="What to convert, and the file to write, which is replaced only when everything is written; - is the "
            "standard input or output, with a stream. Several sources are the shards of one set.",
        ),
    ],
    source_format: Annotated[str | None, typer.Option("--from", help=f"Format of the source: {_KNOWN}.")] = None,
    target_format: Annotated[str | None, typer.Option("--to", help=f"Format of the target: {_WRITABLE}.")] = None,
    names: Annotated[list[str] | None, typer.Option("--name", "-n", help="Only this tensor; may be repeated.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Only tensors whose name matches, as '*.weight'; may be repeated."),
    ] = None,
    layout: Annotated[
        str | None, typer.Option("--layout", help=f"Write tensors in this layout: {', '.join(LAYOUT_NAMES)}.")
    ] = None,
    tile: Annotated[str | None, typer.Option("--tile", help="Shape of a tile, as 128,128 (tiled).")] = None,
    mode_order: Annotated[
        str | None, typer.Option("--mode-order", help="Dimension of each level, as 2,0,1 (csf).")
    ] = None,
    page_size: Annotated[int | None, typer.Option("--page-size", min=1, help="Tokens of a page (block_paged).")] = None,
    quantize: Annotated[
        str | None,
        typer.Option("--quantize", help="Quantize floating tensors: int8, int4_per_block, nf4, mxfp4 and others."),
    ] = None,
    axis: Annotated[int | None, typer.Option("--axis", help="Axis of channels or blocks.")] = None,
    block_size: Annotated[int | None, typer.Option("--block-size", min=1, help="Elements of a block.")] = None,
    symmetric: Annotated[
        bool | None, typer.Option("--symmetric/--asymmetric", help="Without or with zero points.")
    ] = None,
    statistics: Annotated[bool, typer.Option("--statistics", help="Write the statistics of every tensor.")] = False,
    merge: Annotated[bool, typer.Option("--merge", help="Write a partition or overlay as one dense tensor.")] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse a tensor that cannot be changed as asked, instead of passing it on."),
    ] = False,
    split_axis: Annotated[
        list[str] | None,
        typer.Option(
            "--split-axis",
            help="Where the tensors of safetensors files, one a rank, were split: 0, or 'PATTERN=1'; repeatable.",
        ),
    ] = None,
    dequantize: Annotated[
        bool, typer.Option("--dequantize", help="Write quantized tensors as float32 where the target needs it.")
    ] = False,
    densify: Annotated[
        bool, typer.Option("--densify", help="Write sparse tensors as dense ones where the target needs it.")
    ] = False,
    other: Annotated[
        Other | None,
        typer.Option(help="What becomes of tensors of a quantized checkpoint whose quantization cannot be kept."),
    ] = None,
    no_kv: Annotated[bool, typer.Option("--drop-metadata", "--no-kv", help="Leave out the metadata.")] = False,
    alignment: Annotated[
        int, typer.Option("--alignment", help="Where buffers start in a Hurray file: 4096 to 2097152 bytes.")
    ] = MIN_ALIGNMENT,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress, and no report of what was kept or passed over.")
    ] = False,
) -> None:
    """Convert a file into another format.

    The endings of the names say which. Tensors can be written in another layout, or quantized, on the way; those that
    cannot take it pass unchanged, and are named on stderr.
    """
    if len(paths) < 2:
        raise typer.BadParameter("a source and a target are needed", param_hint="SOURCE... TARGET")
    *sources, target = paths
    changes: dict[str, Any] = {
        "layout": layout,
        "layout_options": layout_options(layout, tile=tile, mode_order=mode_order, page_size=page_size),
        "quantize": quantize,
        "quantize_options": quantize_options(quantize, axis=axis, block_size=block_size, symmetric=symmetric),
        "statistics": statistics,
        "merge": merge,
        "strict": strict,
    }
    if not check_alignment(alignment):
        raise typer.BadParameter("must be a power of two from 4096 to 2097152", param_hint="--alignment")
    options = _reader_options(sources, source_format, other, split_axis)
    skips = Skips()
    src, source_format = _source(sources, source_format, is_set=len(sources) > 1 or bool(split_axis))
    dst: Any = target
    if target == PIPE:
        dst, target_format = stdout_of(target_format)
    try:
        with progress("converting", quiet=quiet) as report:
            kept = convert_file(
                src,
                dst,
                src_format=source_format,
                dst_format=target_format,
                names=names or None,
                only=only or None,
                kv={} if no_kv else None,
                **changes,
                skipped=skips,
                dequantize=dequantize,
                densify=densify,
                alignment=alignment,
                progress=report,
                options=options,
            )
    except FileError as error:
        if target == PIPE and error.errno == errno.EPIPE:
            # Whoever reads our output has seen enough.
            raise BrokenPipeError from None
        raise
    if quiet:
        return
    skips.show()
    if kept is not None:
        for line in str(kept).splitlines():
            (warn if target == PIPE else print_line)(clean(line))


def _source(sources: list[str], format: str | None, *, is_set: bool) -> tuple[Any, str | None]:
    if not is_set:
        return source_of(sources[0], format, "SOURCE")
    if PIPE in sources:
        raise typer.BadParameter("the standard input is no part of a set of files", param_hint="SOURCE")
    return sources, format


def _reader_options(
    sources: list[str], format: str | None, other: Other | None, split_axis: list[str] | None
) -> dict[str, Any]:
    """Return what the reader of the source takes besides the path, after checking that it takes it."""
    options: dict[str, Any] = {}
    if other is not None:
        row = find_converter(sources[0], format) if format not in ("hurray", "stream") else None
        if row is None or "other" not in row.options:
            raise typer.BadParameter("only GGUF files and quantized checkpoints take it", param_hint="--other")
        options["other"] = other.value
    if split_axis:
        rows = [None if format in ("hurray", "stream") else find_converter(path, format) for path in sources]
        if any(row is None or row.name != "safetensors" for row in rows):
            raise typer.BadParameter("it belongs to safetensors files, one a rank", param_hint="--split-axis")
        options.update(split_axes(split_axis))
    return options
