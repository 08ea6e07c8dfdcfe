"""Convert between Hurray's files and streams and the files of other formats, one tensor at a time.

The row of a foreign format is in ``hurray.interop``; Hurray's own two are joined to them here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, cast

from hurray.container.header import MIN_ALIGNMENT
from hurray.container.reader import File
from hurray.container.writer import Writer
from hurray.errors import FileError, UnsupportedError
from hurray.interop import CONVERTERS, Converter, Tensors, TensorSet, find_converter
from hurray.stream.reader import StreamReader
from hurray.stream.writer import StreamWriter
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["FORMATS", "convert", "open_tensors", "save_tensors"]

Progress = Callable[[str, int, int], None]

#: what a format argument may be
FORMATS = ("hurray", "stream", *(row.name for row in CONVERTERS))

_STREAM_SUFFIX = ".hstream"


def open_tensors(path: Any, format: str | None = None, **options: Any) -> Tensors:
    """Open a file of any known format as a lazy mapping from names to tensors, with ``kv`` and ``close``.

    Parameters
    ----------
    path : path, URL, bytes or binary file object
        The file.
    format : str, optional
        One of ``FORMATS``; by default the ending of the name says it, and a file without a known ending is a Hurray
        file.  The tensors of a stream are called 0, 1, 2 ... and are read into memory.
    **options
        What the format's reader takes.

    Raises
    ------
    FileError
        The file is missing or damaged.
    UnsupportedError
        The format is unknown, or cannot be read.
    """
    if _is_stream(path, format):
        with StreamReader(path, **options) as reader:
            return TensorSet({str(k): item for k, item in enumerate(reader)})
    row = None if format == "hurray" else find_converter(path, format)
    if row is None:
        return cast(Tensors, File(path, **options))
    if row.reader is None:
        raise UnsupportedError(f"{row.name} files cannot be read")
    return row.read(path, **options)


def convert(
    src: Any,
    dst: Any,
    *,
    src_format: str | None = None,
    dst_format: str | None = None,
    names: Iterable[str] | None = None,
    kv: Mapping[str, Any] | None = None,
    dequantize: bool = False,
    densify: bool = False,
    alignment: int = MIN_ALIGNMENT,
    progress: Progress | None = None,
    options: Mapping[str, Any] | None = None,
) -> object:
    """Convert a file of tensors into another format.

    Tensors pass one at a time, so memory stays bounded by the largest.  What the target cannot express is refused, and
    a refused conversion leaves an existing target as it was.

    Parameters
    ----------
    src, dst : path, URL or binary file object
        Source and target.  They may be the same path.
    src_format, dst_format : str, optional
        ``hurray``, ``stream``, ``safetensors``, ``npz``, ``npy`` ...; by default the endings of the names say it.  A
        stream keeps the order of tensors, not their names.
    names : iterable of str, optional
        Convert these tensors only, in this order.
    kv : mapping, optional
        Metadata for the target, in place of the source's.
    dequantize, densify : bool
        For targets of dense arrays: write quantized tensors as float32, and sparse, block-paged and composite ones as
        dense arrays, instead of refusing them.
    alignment : int
        For Hurray files: where buffers start, in bytes.
    progress : callable, optional
        Called as ``progress(name, done, total)`` before each tensor is read; formats whose header comes first read
        each twice.
    options : mapping, optional
        What the source's reader takes, such as ``{"other": "dequantize"}`` for GGUF files.

    Returns
    -------
    ImportReport or None
        For sources that can hold more than this format: what became of each tensor and key.

    Raises
    ------
    FileError
        The source is missing or damaged, has no such name, or the target cannot be written.
    UnsupportedError
        A format is unknown, or the target cannot express a tensor or the metadata.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, hurray
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.savez(folder / "a.npz", w=np.arange(3))
    >>> hurray.convert(folder / "a.npz", folder / "a.hrry")
    >>> hurray.load(folder / "a.hrry")["w"].to_numpy()
    array([0, 1, 2])
    """
    target = _writable(dst, dst_format)
    with closing(open_tensors(src, src_format, **(options or {}))) as source:
        chosen = _Chosen(source, names, progress, 1 if target is None else target.passes)
        metadata = source.kv if kv is None else kv
        if target is not None:
            target.write(dst, chosen, kv=metadata, dequantize=dequantize, densify=densify)
        elif _is_stream(dst, dst_format):
            _write_stream(dst, chosen, metadata)
        else:
            _write_file(dst, chosen, metadata, alignment)
        return getattr(source, "report", None)


def _write_file(path: Any, tensors: Mapping[str, Tensor | Composite], kv: Mapping[str, Any], alignment: int) -> None:
    with Writer(path, kv=kv, alignment=alignment) as writer:
        for name in tensors:
            writer.add(name, tensors[name])


def _write_stream(path: Any, tensors: Mapping[str, Tensor | Composite], kv: Mapping[str, Any]) -> None:
    if kv:
        raise UnsupportedError(f"a stream has no place for metadata ({', '.join(kv)}); leave it out with kv={{}}")
    with StreamWriter(path) as writer:
        for name in tensors:
            writer.write(tensors[name])


def _is_stream(path: Any, format: str | None) -> bool:
    if format is None and isinstance(path, (str, os.PathLike)):
        return os.fspath(path).lower().endswith(_STREAM_SUFFIX)
    return format == "stream"


def _writable(path: Any, format: str | None) -> Converter | None:
    """Return the converter that writes a file; None for Hurray's own files and streams."""
    if format == "hurray" or _is_stream(path, format):
        return None
    target = find_converter(path, format)
    if target is None and format is None and not _is_hurray_name(path):
        raise UnsupportedError(
            f"the ending of {os.fspath(path)!r} names no known format; say which: {', '.join(FORMATS)}"
        )
    if target is not None and target.writer is None:
        raise UnsupportedError(f"{target.name} files cannot be written")
    return target


def _is_hurray_name(path: Any) -> bool:
    if not isinstance(path, (str, os.PathLike)):
        return True
    ending = os.path.splitext(os.fspath(path))[1]
    return str(ending).lower() in (".hrry", ".hurray", "")


class _Chosen(Mapping[str, "Tensor | Composite"]):
    """Some tensors of a set, in the order asked for; reports each one that is read."""

    def __init__(self, source: Tensors, names: Iterable[str] | None, progress: Progress | None, passes: int) -> None:
        self._source = source
        self._names = list(source) if names is None else list(dict.fromkeys(names))
        self._progress = progress
        self._total = passes * len(self._names)
        self._done = 0
        for name in self._names:
            if names is not None and name not in source:
                raise FileError(f"the source has no tensor {name!r}")

    def __getitem__(self, name: str) -> Tensor | Composite:
        if self._progress is not None:
            self._progress(name, self._done, self._total)
            self._done += 1
        return self._source[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def save_tensors(path: Any, tensors: Mapping[str, Tensor | Composite], format: str | None = None) -> None:
    """Write tensors to a file of the format that its ending, or ``format``, says.

    Raises
    ------
    FileError
        The file cannot be written.
    UnsupportedError
        The format is unknown or cannot express a tensor.
    """
    target = _writable(path, format)
    if target is not None:
        target.write(path, tensors, kv={})
    elif _is_stream(path, format):
        _write_stream(path, tensors, {})
    else:
        _write_file(path, tensors, {}, MIN_ALIGNMENT)
