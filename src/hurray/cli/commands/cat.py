"""``hurray cat``: the values of a tensor, or of a slice of it."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Annotated, Any

import numpy as np
import typer

from hurray.cli._console import print_line
from hurray.cli._slices import parse_key
from hurray.conversion import open_tensors, save_tensors
from hurray.interop import Tensors
from hurray.tensor.build import from_numpy
from hurray.tensor.composite import Composite

__all__ = ["cat"]


def _complete_name(context: typer.Context) -> list[str]:
    """Offer the names of the tensors of the file that was typed before."""
    try:
        with closing(open_tensors(context.params["path"])) as tensors:
            return list(tensors)
    except (KeyError, OSError, ValueError):
        return []


def cat(
    path: Annotated[str, typer.Argument(help="A Hurray file, or one of a format that convert reads.")],
    name: Annotated[str, typer.Argument(help="The tensor.", autocompletion=_complete_name)],
    key: Annotated[str, typer.Argument(metavar="SLICE", help="What to read, as NumPy slices: '0:4, ::2'.")] = "...",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the values to this file: .npy, .hrry ...")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every value, however many.")] = False,
    storage: Annotated[
        bool, typer.Option("--storage", help="The stored codes of a quantized tensor, not its values.")
    ] = False,
    format: Annotated[
        str | None, typer.Option("--format", help="The file's format, where its name does not say.")
    ] = None,
) -> None:
    """Print or save the values of a tensor or of a slice of it; a quantized tensor is dequantized."""
    try:
        picked = parse_key(key)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="SLICE") from None
    with closing(open_tensors(path, format)) as tensors:
        values = np.asarray(_read(tensors, name, picked, storage))
    if output is not None:
        save_tensors(output, {name: from_numpy(values)})
        return
    options: dict[str, Any] = {"threshold": sys.maxsize} if full else {}
    print_line(np.array2string(values, separator=", ", **options))


def _read(tensors: Tensors, name: str, key: Any, storage: bool) -> Any:
    item = tensors[name]
    if not isinstance(item, Composite) and item.quantization is not None:
        return item.storage()[key] if storage else item.dequantize(key).to_numpy()
    return item[key]
