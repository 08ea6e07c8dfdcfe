"""Text files of numbers, compressed or not, from anywhere that bytes come from.

Format: none of ours; FROSTT and MatrixMarket files are text.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from hurray.errors import FileError, UnsupportedError
from hurray.interop._dense import dense_form
from hurray.interop._output import output
from hurray.sources import Source, open_source
from hurray.sources.as_file import SourceFile
from hurray.tensor.tensor import Tensor

__all__ = ["base_name", "only_tensor", "open_text", "text_output"]

#: what broken gzip data raises
_GZIP_FAULTS = (gzip.BadGzipFile, zlib.error, EOFError)

_MAGIC = b"\x1f\x8b"


def _is_gzip(source: Source) -> bool:
    """Tell whether a source's first bytes are those of gzip, which no text begins with."""
    return source.view(0, min(2, source.size)).tobytes() == _MAGIC


@contextmanager
def open_text(target: Any) -> Iterator[tuple[BinaryIO, Source]]:
    """Open a text file for reading in bytes; gzip is recognised by its first bytes.

    Parameters
    ----------
    target : path, URL, bytes or binary file object
        As for :func:`hurray.sources.open_source`.

    Yields
    ------
    tuple
        The stream of text and the source behind it.

    Raises
    ------
    FileError
        The file is missing or unreadable, or its compressed data are broken.
    """
    source = open_source(target)
    try:
        raw = io.BufferedReader(SourceFile(source), 1 << 18)
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb") if _is_gzip(source) else raw)
        yield stream, source
    except _GZIP_FAULTS as error:
        raise FileError(f"{source.name}: the gzip data are broken: {error}", filename=source.name) from None
    finally:
        source.close()


@contextmanager
def text_output(target: str | os.PathLike[str] | BinaryIO) -> Iterator[BinaryIO]:
    """Open a text file for writing in bytes, compressed where its name ends in ``.gz``; see :func:`output`."""
    with output(target) as out:
        if isinstance(target, (str, os.PathLike)) and os.fspath(target).lower().endswith(".gz"):
            # No name and no time inside, so that equal tensors give equal files.
            with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield out


def base_name(path: Any, suffixes: tuple[str, ...]) -> str:
    """Return a file's name without its folder and ending, as the name of the only tensor in it."""
    name = os.path.basename(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else ""
    for suffix in suffixes:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or "tensor"
    return name or "tensor"


def only_tensor(
    tensors: Mapping[str, Any], kv: Mapping[str, Any] | None, what: str, *, dequantize: bool, densify: bool
) -> Tensor:
    """Return the only tensor of a set, for formats that hold one and nothing beside it.

    Raises
    ------
    UnsupportedError
        There is another number of tensors, or metadata, or a composite or quantized tensor that may not be converted.
    """
    if kv:
        raise UnsupportedError(
            f"{what} has no place for metadata ({', '.join(map(str, kv))}); leave it out with kv={{}}"
        )
    if len(tensors) != 1:
        raise UnsupportedError(f"{what} holds one tensor, not {len(tensors)}; choose one by its name")
    name = next(iter(tensors))
    item = tensors[name]
    if not isinstance(item, Tensor):
        return dense_form(name, item, what, dequantize=dequantize, densify=densify).tensor()
    if item.quantization is not None:
        if not dequantize:
            raise UnsupportedError(f"tensor {name!r} is quantized, which {what} cannot express; pass dequantize=True")
        item = item.dequantize()
    return item
