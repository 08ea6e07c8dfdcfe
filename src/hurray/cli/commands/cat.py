"""``hurray cat``: the values of a tensor, of a slice of it, or of all tensors of a stream as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hurray.cli._console import clean, format_bytes, format_scheme, format_shape, print_line
from hurray.cli._pipes import source_of
from hurray.cli._slices import parse_key
from hurray.cli._values import Wanted, complete_name, find, read_stored, read_values
from hurray.conversion import is_stream, open_tensors, save_tensors
from hurray.errors import FileError, UnsupportedError
from hurray.interop import TensorSet
from hurray.stream.reader import StreamReader
from hurray.tensor.build import from_numpy
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["cat"]

#: stored elements that are printed without ``--full``
_MOST_STORED = 1000


def cat(
    path: Annotated[str, typer.Argument(help="A Hurray file, or one of a format that convert reads; - is a stream.")],
    name: Annotated[
        str | None, typer.Argument(help="The tensor; of a stream, its number.", autocompletion=complete_name)
    ] = None,
    key: Annotated[str, typer.Argument(metavar="SLICE", help="What to read, as NumPy slices: '0:4, ::2'.")] = "...",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the values to this file: .npy, .npz, .hrry ...")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every value, however many.")] = False,
    codes: Annotated[
        bool, typer.Option("--codes", "--storage", help="The stored codes of a quantized tensor, not its values.")
    ] = False,
    coords: Annotated[
        bool, typer.Option("--coords", help="Coordinates and values of what is stored; of dense tensors, of non-zeros.")
    ] = False,
    sequence_lengths: Annotated[
        str | None,
        typer.Option("--sequence-lengths", help="Tokens of each sequence of a block_paged tensor, as 7,3,12."),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="PATH is a stream: without NAME, print each tensor as it arrives.")
    ] = False,
    format: Annotated[
        str | None, typer.Option("--format", help="The file's format, where its name does not say.")
    ] = None,
) -> None:
    """Print or save values, whole or a slice.

    A quantized tensor is dequantized. A Hurray stream needs no NAME: each tensor is printed as it arrives.
    """
    try:
        wanted = Wanted(parse_key(key), codes, _lengths(sequence_lengths))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="SLICE") from None
    source, format = source_of(path, "stream" if stream else format)
    show = _Show(wanted, coords, full, output)
    if is_stream(source, format):
        with StreamReader(source) as reader:
            _cat_stream(reader, name, show)
    elif name is None:
        raise typer.BadParameter("which tensor? 'hurray ls' lists them", param_hint="NAME")
    else:
        with closing(open_tensors(source, format)) as tensors:
            show.one(name, find(tensors, name))
    show.save()


def _lengths(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise typer.BadParameter(
            f"{text!r} is no list of counts; write for example 7,3", param_hint="--sequence-lengths"
        )
    return tuple(int(part) for part in parts)


def _cat_stream(reader: Iterable[Tensor | Composite], name: str | None, show: _Show) -> None:
    """Show the tensors of a stream, each when it has arrived, or the one called ``name``."""
    number = None if name is None else name.partition(".")[0]
    if number is not None and not number.isdecimal():
        raise typer.BadParameter(f"the tensors of a stream are called 0, 1, 2 ..., not {name!r}", param_hint="NAME")
    count = 0
    for count, item in enumerate(reader, 1):
        place = str(count - 1)
        if name is None or number is None:
            show.listed(place, item)
            sys.stdout.flush()
        elif place == str(int(number)):
            show.one(name, find(TensorSet({number: item}), name))
            return
    if name is not None:
        raise FileError(f"no tensor {name!r}: the stream has {count}")


class _Show:
    """Prints values, or keeps them for the output file."""

    def __init__(self, wanted: Wanted, coords: bool, full: bool, output: str | None) -> None:
        self._wanted = wanted
        self._coords = coords
        self._options: dict[str, Any] = {"threshold": sys.maxsize} if full else {}
        self._most = sys.maxsize if full else _MOST_STORED
        self._output = output
        self._kept: dict[str, NDArray[Any]] = {}

    def one(self, name: str, item: Tensor | Composite) -> None:
        """Print the values of a tensor."""
        if self._coords:
            where, values = read_stored(item, self._wanted)
            if self._output is not None:
                self._kept.update(coords=where, values=values)
            else:
                self._print_stored(where, values)
            return
        values = read_values(item, self._wanted)
        if self._output is not None:
            self._kept[name] = values
        else:
            print_line(np.array2string(values, separator=", ", **self._options))

    def listed(self, name: str, item: Tensor | Composite) -> None:
        """Print a line about a tensor, then its values, or why there are none; of a group, its members."""
        if self._output is not None:
            if self._coords:
                raise typer.BadParameter("name one tensor to save its coordinates", param_hint="NAME")
            self.one(name, item)
            return
        print_line(clean(_headline(name, item)))
        if isinstance(item, Composite) and item.composition_rule == "group":
            for k, member in enumerate(item.members):
                self.listed(f"{name}.{k}", member)
            return
        try:
            self.one(name, item)
        except UnsupportedError as error:
            print_line(clean(f"({error})"))

    def _print_stored(self, where: NDArray[np.int64], values: NDArray[Any]) -> None:
        for row, value in zip(where[: self._most].tolist(), values[: self._most], strict=True):
            print_line(f"({', '.join(map(str, row))})  {value}")
        if len(where) > self._most:
            print_line(f"... and {len(where) - self._most} more; --full prints all")

    def save(self) -> None:
        """Write the output file, where one was asked for."""
        if self._output is not None:
            save_tensors(self._output, {name: from_numpy(np.asarray(v)) for name, v in self._kept.items()})


def _headline(name: str, item: Tensor | Composite) -> str:
    d = item.descriptor
    layout = d.layout.name
    if isinstance(item, Composite):
        return f"{name}: {d.dtype} {format_shape(d.shape)} {item.composition_rule} of {item.member_count}"
    scheme = format_scheme(d.quantization)
    quantized = f" ({scheme})" if scheme else ""
    return f"{name}: {d.dtype}{quantized} {format_shape(d.shape)} {layout} {format_bytes(item.nbytes)}"
