"""``hurray inspect``: a descriptor, byte by byte."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from hurray.cli._annotate import Row, annotate
from hurray.cli._console import clean, format_bytes, format_scheme, format_shape, print_line, print_table
from hurray.cli._structure import structure_of
from hurray.cli._values import complete_name
from hurray.container.reader import File
from hurray.descriptor import Descriptor, decode_descriptor
from hurray.errors import FileError, HurrayError
from hurray.limits import DEFAULT_LIMITS
from hurray.sources import MemorySource, Source, open_source
from hurray.wire.reader import Field

__all__ = ["inspect"]

_FILE_MAGIC = b"HRRYFILE"
#: where the length of a descriptor ends
_PREFIX_BYTES = 10


def inspect(
    path: Annotated[str, typer.Argument(help="A Hurray file, a stream or a bare descriptor; - reads from stdin.")],
    name: Annotated[str | None, typer.Argument(help="The tensor, in a file.", autocompletion=complete_name)] = None,
    at: Annotated[int, typer.Option("--at", min=0, help="Where the descriptor starts, in a stream.")] = 0,
    file_structure: Annotated[
        bool,
        typer.Option("--file-structure", help="The parts of a file: header, tensors, metadata, index and trailer."),
    ] = False,
) -> None:
    """Show a descriptor byte by byte.

    Each field is named and explained; where a malformed descriptor breaks is marked.
    """
    source: Source = MemorySource(sys.stdin.buffer.read(), "<stdin>") if path == "-" else open_source(path)
    if file_structure:
        _show_structure(source, name)
        return
    try:
        is_file = source.view(0, min(8, source.size)).tobytes() == _FILE_MAGIC
        if is_file:
            data, base = _from_file(path if path != "-" else source.view(0, source.size).tobytes(), name)
        elif name is not None:
            raise typer.BadParameter(f"{path} is no Hurray file: it has no tensor {name!r}")
        else:
            data, base = _from_bytes(source, at), at
    finally:
        source.close()
    trace: list[Field] = []
    error: HurrayError | None = None
    try:
        descriptor = decode_descriptor(data, trace=trace)
        print_line(_summary(descriptor))
    except HurrayError as found:
        error = found
    _print_rows(annotate(data, trace, error, base), error)


def _show_structure(source: Source, name: str | None) -> None:
    if name is not None:
        raise typer.BadParameter("--file-structure shows the whole file, not one tensor", param_hint="NAME")
    try:
        rows, error = structure_of(source)
    finally:
        source.close()
    _print_rows(rows, error)


def _print_rows(rows: Iterable[Row], error: HurrayError | None) -> None:
    """Print a table with the faults marked, then raise the error, if there is one."""
    cells = [(f"{'! ' if row.broken else ''}{row.offset}", row.hex, row.field, row.meaning) for row in rows]
    print_table(("offset", "bytes", "field", "meaning"), cells, right=("offset",))
    if error is not None:
        sys.stdout.flush()
        raise error


def _from_file(target: str | bytes, name: str | None) -> tuple[bytes, int]:
    with File(target) as file:
        if name is None:
            names = file.all_names
            if len(names) != 1:
                shown = ", ".join(map(clean, names[:5])) + (" ..." if len(names) > 5 else "")
                raise typer.BadParameter(
                    f"name one of the {len(names)} tensors: {shown}" if names else "the file is empty"
                )
            name = names[0]
        return file.descriptor_bytes(name)


def _from_bytes(source: Source, at: int) -> bytes:
    if at >= source.size and at:
        raise FileError(f"{source.name} has {source.size} bytes, nothing is at {at}")
    prefix = source.view(at, min(_PREFIX_BYTES, source.size - at)).tobytes()
    # The length may be a lie: the decoder says so, with what is there.
    length = int.from_bytes(prefix[6:10], "little") if len(prefix) == _PREFIX_BYTES else len(prefix)
    length = min(max(length, _PREFIX_BYTES), DEFAULT_LIMITS.max_descriptor_bytes, source.size - at)
    return source.view(at, length).tobytes()


def _summary(d: Descriptor) -> str:
    n_bytes = sum(h.byte_size for h in d.buffer_handles)
    parts = [
        f"{d.dtype} {format_shape(d.shape)}",
        f"layout {d.layout.name}",
        f"{d.buffer_count} buffer{'s' * (d.buffer_count != 1)} of {format_bytes(n_bytes)}",
        f"on {d.device.kind}",
    ]
    if d.quantization is not None:
        parts.append(f"quantized {format_scheme(d.quantization)}")
    return ", ".join(parts)
