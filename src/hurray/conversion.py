"""Convert between Hurray's files and streams and the files of other formats, one tensor at a time.

The row of a foreign format is in ``hurray.interop``; Hurray's own two are joined to them here.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, cast

from hurray.container.header import MIN_ALIGNMENT
from hurray.container.reader import File
from hurray.container.sharded import open_sharded
from hurray.container.writer import Writer
from hurray.errors import FileError, UnsupportedError
from hurray.interop import CONVERTERS, Converter, Tensors, TensorSet, find_converter
from hurray.interop._output import output
from hurray.interop.safetensors_shards import from_safetensors_shards
from hurray.layouts._base import Layout
from hurray.quantization import Recipe
from hurray.stream.reader import StreamReader
from hurray.stream.writer import StreamWriter
from hurray.tensor.composite import Composite
from hurray.tensor.rewriting import Rewriting
from hurray.tensor.tensor import Tensor

__all__ = ["FORMATS", "WRITABLE_FORMATS", "Patterns", "convert", "is_stream", "open_tensors", "save_tensors"]

Progress = Callable[[str, int, int], None]

#: what a format argument may be
FORMATS = ("hurray", "stream", *(row.name for row in CONVERTERS))
#: those of them that can be written
WRITABLE_FORMATS = ("hurray", "stream", *(row.name for row in CONVERTERS if row.writer is not None))

_STREAM_SUFFIX = ".hstream"


def open_tensors(path: Any, format: str | None = None, **options: Any) -> Tensors:
    """Open a file of any known format as a lazy mapping from names to tensors, with ``kv`` and ``close``.

    Parameters
    ----------
    path : path, URL, bytes or binary file object, or a list of them
        The file.  A list is a set of Hurray files whose tensors are shards, or of safetensors files, one a rank.
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
    if isinstance(path, (list, tuple)):
        return _open_several(path, format, options)
    if is_stream(path, format):
        with StreamReader(path, **options) as reader:
            return TensorSet({str(k): item for k, item in enumerate(reader)})
    row = None if format == "hurray" else find_converter(path, format)
    if row is None:
        return cast(Tensors, File(path, **options))
    if row.reader is None:
        raise UnsupportedError(f"{row.name} files cannot be read")
    return row.read(path, **options)


def _open_several(paths: Sequence[Any], format: str | None, options: Mapping[str, Any]) -> Tensors:
    if not paths:
        raise FileError("there is no file to read")
    kinds = set()
    for path in paths:
        row = None if format == "hurray" else find_converter(path, format)
        kinds.add("stream" if is_stream(path, format) else "hurray" if row is None else row.name)
    kind = kinds.pop()
    if not kinds and kind == "hurray":
        return cast(Tensors, open_sharded(paths, **options))
    if not kinds and kind == "safetensors":
        return cast(Tensors, from_safetensors_shards(paths, **options))
    found = ", ".join(sorted({kind, *kinds}))
    raise UnsupportedError(f"several files are one set when all are Hurray files, or all safetensors, not {found}")


def convert(
    src: Any,
    dst: Any,
    *,
    src_format: str | None = None,
    dst_format: str | None = None,
    names: Iterable[str] | None = None,
    only: Iterable[str] | None = None,
    kv: Mapping[str, Any] | None = None,
    transform: Callable[[str, Tensor | Composite], Any] | None = None,
    merge: bool = False,
    layout: str | Layout | None = None,
    layout_options: Mapping[str, Any] | None = None,
    quantize: str | Recipe | None = None,
    quantize_options: Mapping[str, Any] | None = None,
    statistics: bool = False,
    strict: bool = False,
    skipped: Callable[[str, str, str], None] | None = None,
    dequantize: bool = False,
    densify: bool = False,
    alignment: int = MIN_ALIGNMENT,
    progress: Progress | None = None,
    options: Mapping[str, Any] | None = None,
) -> object:
    """Convert a file of tensors into another format, and its tensors into other layouts or quantizations.

    Tensors pass one at a time, so memory stays bounded by the largest; of a stream, each is written as soon as it has
    arrived, where the target is a Hurray file or a stream.  What the target cannot express is refused, and a refused
    conversion leaves an existing target as it was.

    Parameters
    ----------
    src, dst : path, URL or binary file object
        Source and target.  They may be the same path.  A list of sources is a set of Hurray files whose tensors are
        shards, or of safetensors files, one a rank (``options={"axis": 0}`` says where tensors were split).
    src_format, dst_format : str, optional
        ``hurray``, ``stream``, ``safetensors``, ``npz``, ``npy`` ...; by default the endings of the names say it.  A
        stream keeps the order of tensors, not their names: they are called 0, 1, 2 ...
    names : iterable of str, optional
        Convert these tensors only, in this order.
    only : iterable of str, optional
        Convert tensors only whose name matches one of these patterns (``*``, ``?``, ``[abc]``).
    kv : mapping, optional
        Metadata for the target, in place of the source's; ``{}`` leaves them out.
    transform : callable, optional
        ``transform(name, item)`` returns what is written in place of a tensor: a tensor, a composite or an array.
        Formats whose header comes first (safetensors) call it twice for each tensor.
    merge : bool
        Write a partition or overlay as one dense tensor.
    layout : str or Layout, optional
        Write every tensor in this layout, by name or as an object; ``layout_options`` are its arguments, such as
        ``{"tile_shape": (128, 128)}``, ``{"mode_order": (2, 0, 1)}``, ``{"page_size": 16}``.  In a composite, members
        are laid out, corrections of an overlay excepted.
    quantize : str or Recipe, optional
        Quantize floating tensors of 16 bits or more and rank 1 or more by this recipe (see ``hurray.RECIPES``);
        ``quantize_options`` are ``axis``, ``block_size``, ``symmetric`` and ``scale_type``, where it has them.
    statistics : bool
        For Hurray files and streams: write the statistics of every tensor into its descriptor.
    strict : bool
        Refuse a tensor that cannot be laid out, quantized or merged as asked; by default it passes unchanged.
    skipped : callable, optional
        Called as ``skipped(name, what, why)`` for each tensor that passes unchanged although a change was asked for.
    dequantize, densify : bool
        For targets of dense arrays: write quantized tensors as float32, and sparse, block-paged and composite ones as
        dense arrays, instead of refusing them.
    alignment : int
        For Hurray files: where buffers start, in bytes.
    progress : callable, optional
        Called as ``progress(name, done, total)`` before each tensor is read; formats whose header comes first read
        each twice.  ``total`` is 0 while a stream arrives, whose length is unknown.
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
        A format is unknown, or the target cannot express a tensor, the metadata, or something that was asked for.
    InvalidDescriptorError
        There is no such layout or recipe.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, hurray
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.savez(folder / "a.npz", w=np.arange(3))
    >>> hurray.convert(folder / "a.npz", folder / "a.hrry")
    >>> hurray.load(folder / "a.hrry")["w"].to_numpy()
    array([0, 1, 2])
    >>> hurray.convert(folder / "a.hrry", folder / "sparse.hrry", layout="coo")
    >>> hurray.load(folder / "sparse.hrry")["w"]
    hurray.Tensor(layout='coo', shape=(3,), nnz=2, dtype=int64)
    """
    target = _writable(dst, dst_format)
    to_stream = is_stream(dst, dst_format)
    if statistics and target is not None:
        raise UnsupportedError(f"{target.name} files have no place for statistics")
    if alignment != MIN_ALIGNMENT and (to_stream or target is not None):
        raise UnsupportedError("only Hurray files align their buffers; leave the alignment out")
    rewriting = Rewriting(
        transform=transform, merge=merge, layout=layout, layout_options=layout_options, quantize=quantize,
        quantize_options=quantize_options, statistics=statistics, strict=strict, skipped=skipped,
    )  # fmt: skip
    patterns = None if only is None else Patterns(only)
    if target is None and names is None and is_stream(src, src_format):
        with StreamReader(src, **(options or {})) as reader:
            _write_own(dst, to_stream, _arriving(reader, patterns, rewriting, progress), kv or {}, alignment)
        return None
    with closing(open_tensors(src, src_format, **(options or {}))) as source:
        chosen = _Chosen(source, _pick(source, names, patterns), rewriting, progress, target.passes if target else 1)
        metadata = source.kv if kv is None else kv
        if target is not None:
            target.write(dst, chosen, kv=metadata, dequantize=dequantize, densify=densify)
        else:
            _write_own(dst, to_stream, chosen.items(), metadata, alignment)
        return getattr(source, "report", None)


Items = Iterable[tuple[str, Tensor | Composite]]


def _write_own(path: Any, to_stream: bool, items: Items, kv: Mapping[str, Any], alignment: int) -> None:
    (_write_stream if to_stream else _write_file)(path, items, kv, alignment)


def _write_file(path: Any, items: Items, kv: Mapping[str, Any], alignment: int) -> None:
    with Writer(path, kv=kv, alignment=alignment) as writer:
        for name, item in items:
            writer.add(name, item)


def _write_stream(path: Any, items: Items, kv: Mapping[str, Any], alignment: int) -> None:
    if kv:
        raise UnsupportedError(f"a stream has no place for metadata ({', '.join(kv)}); leave it out with kv={{}}")
    with ExitStack() as opened:
        # A file keeps its old content until everything is written; whatever else gets each tensor as it comes.
        target = opened.enter_context(output(path)) if _is_replaceable(path) else path
        writer = opened.enter_context(StreamWriter(target))
        for _, item in items:
            writer.write(item)


def _is_replaceable(path: Any) -> bool:
    """Tell whether a target is a path that can be replaced: not a named pipe or a device, and no open object."""
    return isinstance(path, (str, os.PathLike)) and (not os.path.exists(path) or os.path.isfile(path))


def _arriving(
    reader: StreamReader, patterns: Patterns | None, rewriting: Rewriting, progress: Progress | None
) -> Iterator[tuple[str, Tensor | Composite]]:
    """Yield the tensors of a stream under their numbers, each when its last byte has come."""
    for k, item in enumerate(reader):
        name = str(k)
        if progress is not None:
            progress(name, k, 0)
        if patterns is None or patterns.match(name):
            yield name, rewriting(name, item)
    if patterns is not None:
        patterns.check()


class Patterns:
    """Name patterns, as a shell has them; remembers which have matched.

    Parameters
    ----------
    patterns : iterable of str
        A name matches when one of them does; ``*``, ``?`` and ``[abc]`` have their usual meaning.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        if isinstance(patterns, str):
            raise TypeError("patterns are an iterable of strings, not one string")
        self._left = {pattern: re.compile(fnmatch.translate(pattern)) for pattern in patterns}
        self._all = list(self._left.values())

    def match(self, name: str) -> bool:
        """Tell whether a name matches."""
        found = any(pattern.match(name) for pattern in self._all)
        if found and self._left:
            self._left = {text: pattern for text, pattern in self._left.items() if not pattern.match(name)}
        return found

    def check(self) -> None:
        """Refuse patterns that have matched nothing.

        Raises
        ------
        FileError
            A pattern has matched no name.
        """
        if self._left:
            raise FileError(f"the source has no tensor whose name matches {next(iter(self._left))!r}")


def _pick(source: Tensors, names: Iterable[str] | None, patterns: Patterns | None) -> list[str]:
    chosen = list(source) if names is None else list(dict.fromkeys(names))
    if names is not None:
        for name in chosen:
            if name not in source:
                raise FileError(f"the source has no tensor {name!r}")
    if patterns is None:
        return chosen
    chosen = [name for name in chosen if patterns.match(name)]
    patterns.check()
    return chosen


def is_stream(path: Any, format: str | None = None) -> bool:
    """Tell whether a file is a stream, by its format where one is given, else by the ending of its name."""
    if format is None and isinstance(path, (str, os.PathLike)):
        return os.fspath(path).lower().endswith(_STREAM_SUFFIX)
    return format == "stream"


def _writable(path: Any, format: str | None) -> Converter | None:
    """Return the converter that writes a file; None for Hurray's own files and streams."""
    if format == "hurray" or is_stream(path, format):
        return None
    target = find_converter(path, format)
    if target is None and format is None and not _is_hurray_name(path):
        raise UnsupportedError(
            f"the ending of {os.fspath(path)!r} names no known format; say which: {', '.join(WRITABLE_FORMATS)}"
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
    """Some tensors of a set, in the order asked for, changed as asked for; reports each one that is read."""

    def __init__(
        self, source: Tensors, names: list[str], rewriting: Rewriting, progress: Progress | None, passes: int
    ) -> None:
        self._source = source
        self._names = dict.fromkeys(names)
        self._rewriting = rewriting
        self._progress = progress
        self._total = passes * len(names)
        self._done = 0

    def __getitem__(self, name: str) -> Tensor | Composite:
        if self._progress is not None:
            self._progress(name, self._done, self._total)
            self._done += 1
        return self._rewriting(name, self._source[name])

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
    elif is_stream(path, format):
        _write_stream(path, tensors.items(), {}, MIN_ALIGNMENT)
    else:
        _write_file(path, tensors.items(), {}, MIN_ALIGNMENT)
