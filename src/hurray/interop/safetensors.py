"""safetensors files in and out, by a reader and a writer of our own.

Reading maps the file: a tensor's bytes are shared, not copied, whatever their alignment; only booleans, a byte each
there and a bit each here, are packed when they are asked for.  A sharded checkpoint is read as one set through its
index file (``model.safetensors.index.json``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from hurray.errors import ArgumentTypeError, FileError, UnsupportedError
from hurray.interop._dense import DenseForm, dense_form, row_major_bytes
from hurray.interop._output import output
from hurray.interop._safetensors_header import (
    METADATA,
    PREFIX_BYTES,
    Entry,
    Header,
    arrange,
    check_text,
    format_header,
    header_length,
    loads_json,
    parse_header,
    shown,
)
from hurray.kernels import bits as bit_kernels
from hurray.sources import Source, open_source
from hurray.tensor.relayout import new_descriptor
from hurray.tensor.tensor import Tensor

__all__ = ["SafetensorsFile", "from_safetensors", "to_safetensors"]

#: an index file names shards; it is small
_MAX_INDEX_BYTES = 100_000_000
_BLOCK = 1 << 20


class SafetensorsFile(Mapping[str, Tensor]):
    """A safetensors file, or a sharded set of them, as a lazy read-only mapping from names to tensors.

    Tensors stay valid after :meth:`close`: they keep the mapped memory alive.

    Attributes
    ----------
    kv : dict of str to str
        The metadata.
    """

    def __init__(self, parts: list[tuple[Source, Header]], kv: dict[str, str]) -> None:
        self._sources = [source for source, _ in parts]
        self._places = {
            name: (source, header.data_start, entry)
            for source, header in parts
            for name, entry in header.entries.items()
        }
        self.kv = kv

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in the order of the header."""
        return list(self._places)

    def entry(self, name: str) -> Entry:
        """Return what the header says of a tensor."""
        return self._places[name][2]

    def __getitem__(self, name: str) -> Tensor:
        source, start, entry = self._places[name]
        try:
            dtype = entry.dtype
        except UnsupportedError as error:
            raise UnsupportedError(f"tensor {name!r}: {error}") from None
        data = source.view(start + entry.begin, entry.end - entry.begin)
        if dtype.name == "bool":
            data = _pack_bools(data, name)
        return Tensor._from_parts(new_descriptor(dtype, entry.shape, len(data)), (data,))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def close(self) -> None:
        """Close the files; tensors that were taken stay valid."""
        for source in self._sources:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SafetensorsFile of {len(self)} tensors>"


def from_safetensors(path: str | os.PathLike[str] | bytes | BinaryIO) -> SafetensorsFile:
    """Open a safetensors file, or the index of a sharded checkpoint, as a lazy mapping.

    Parameters
    ----------
    path : path, URL, bytes or binary file object
        The file; a path that ends in ``.json`` is an index file, whose shards lie beside it.

    Returns
    -------
    SafetensorsFile
        Mapping from names to tensors; ``kv`` holds the metadata.

    Raises
    ------
    FileError
        The file is missing, or breaks a rule of the format.
    """
    if isinstance(path, (str, os.PathLike)) and os.fspath(path).endswith(".json"):
        return _open_sharded(os.fspath(path))
    source = open_source(path)
    try:
        header = _read_header(source)
    except BaseException:
        source.close()
        raise
    return SafetensorsFile([(source, header)], header.metadata)


def _read_header(source: Source) -> Header:
    prefix = source.view(0, min(PREFIX_BYTES, source.size)).tobytes()
    length = header_length(prefix, source.size, source.name)
    return parse_header(source.view(PREFIX_BYTES, length).tobytes(), source.size, source.name)


def _open_sharded(path: str) -> SafetensorsFile:
    weight_map, kv = _read_index(path)
    wanted: dict[str, list[str]] = {}
    for name, file_name in weight_map.items():
        wanted.setdefault(file_name, []).append(name)
    parts: list[tuple[Source, Header]] = []
    with ExitStack() as opened:
        for file_name, names in wanted.items():
            source = open_source(os.path.join(os.path.dirname(path), file_name))
            opened.callback(source.close)
            parts.append((source, _pick(_read_header(source), names, source.name)))
        opened.pop_all()
    merge_metadata(kv, [(os.path.basename(source.name), header.metadata) for source, header in parts])
    return SafetensorsFile(parts, kv)


def _read_index(path: str) -> tuple[dict[str, str], dict[str, str]]:
    source = open_source(path, "read")
    try:
        if source.size > _MAX_INDEX_BYTES:
            raise FileError(f"{path}: an index of {source.size} bytes exceeds {_MAX_INDEX_BYTES}")
        table = loads_json(source.view(0, source.size).tobytes(), path)
    finally:
        source.close()
    if not isinstance(table, dict) or not isinstance(table.get("weight_map"), dict):
        raise FileError(f"{path} is not the index of a sharded checkpoint: it has no weight_map")
    weight_map: dict[str, str] = table["weight_map"]
    for name, file_name in weight_map.items():
        check_text(name, f"{path}: the name of a tensor")
        # An index from outside must not reach files elsewhere.
        if not isinstance(file_name, str) or os.path.basename(file_name) != file_name or file_name in ("", ".", ".."):
            raise FileError(
                f"{path}: tensor {shown(name)} is said to be in {shown(file_name)}, which is no file beside it"
            )
        if "\0" in file_name or "\\" in file_name or ":" in file_name:
            raise FileError(f"{path}: {shown(file_name)} is not the name of a file")
        check_text(file_name, f"{path}: the name of a file")
    metadata = table.get("metadata")
    kv = {k: v for k, v in metadata.items() if isinstance(v, str)} if isinstance(metadata, dict) else {}
    return weight_map, kv


def _pick(header: Header, names: list[str], what: str) -> Header:
    for name in names:
        if name not in header.entries:
            raise FileError(f"{what} has no tensor {shown(name)}, although the index says so")
    return Header({name: header.entries[name] for name in names}, header.metadata, header.data_start)


def merge_metadata(kv: dict[str, str], parts: list[tuple[str, dict[str, str]]]) -> None:
    """Add the shards' metadata: a key on which they differ is kept once for each file."""
    for file_name, metadata in parts:
        for key, value in metadata.items():
            if all(other.get(key, value) == value for _, other in parts) and kv.get(key, value) == value:
                kv[key] = value
            else:
                kv[f"{file_name}/{key}"] = value


def _pack_bools(data: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    if len(data) and int(data.max()) > 1:
        at = int(np.flatnonzero(data > 1)[0])
        raise FileError(f"tensor {name!r}: boolean {at} is the byte {int(data[at])}, expected 0 or 1")
    return bit_kernels.pack(data, 1)


def to_safetensors(
    path: str | os.PathLike[str] | BinaryIO,
    tensors: Mapping[str, Any],
    *,
    kv: Mapping[str, Any] | None = None,
    dequantize: bool = False,
    densify: bool = False,
) -> None:
    """Write tensors to a safetensors file.

    Any dense layout is written in row-major order.  The file is written beside the target and renamed over it.

    Parameters
    ----------
    path : path or binary file object
        Where to write.
    tensors : mapping of str to Tensor, Composite or array
        What to write; a lazy mapping is read one tensor at a time.
    kv : mapping of str to value, optional
        Metadata.  Strings are kept as they are; numbers, booleans and lists of them become JSON text.
    dequantize, densify : bool
        Write quantized tensors as float32, and sparse, block-paged and composite ones as dense arrays, instead of
        refusing them.

    Raises
    ------
    UnsupportedError
        safetensors cannot express a tensor or a metadata value.
    FileError
        Writing failed; an existing file is left as it was.
    """
    if METADATA in tensors:
        raise UnsupportedError(f"safetensors keeps the name {METADATA!r} for itself")

    def form(name: str) -> DenseForm:
        # Taken anew each time, so that no more than one tensor is held.
        return dense_form(name, tensors[name], "safetensors", dequantize=dequantize, densify=densify)

    entries = arrange((name, *form(name).looks) for name in tensors)
    header = format_header(entries, metadata_text(kv or {}))
    with output(path) as out:
        out.write(header)
        for name, entry in entries.items():
            now = form(name)
            if now.looks != (entry.dtype, entry.shape):
                raise UnsupportedError(f"tensor {name!r} has changed while it was written")
            _write_data(out, now.tensor(), entry)


def _write_data(out: BinaryIO, t: Tensor, entry: Entry) -> None:
    data = row_major_bytes(t)
    if t.dtype.name != "bool":
        out.write(data.data)
        return
    n_elems = entry.end - entry.begin
    for at in range(0, n_elems, _BLOCK):
        out.write(bit_kernels.unpack(data, 1, min(_BLOCK, n_elems - at), at).data)


def metadata_text(kv: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata as strings: other values than strings as JSON text.

    Raises
    ------
    UnsupportedError
        A value is bytes, or a list that holds bytes.
    """
    import json

    if not hasattr(kv, "items"):
        raise ArgumentTypeError(f"metadata are a mapping of keys to values, not {type(kv).__name__}")
    found = {}
    for key, value in kv.items():
        try:
            found[key] = value if isinstance(value, str) else json.dumps(value)
        except TypeError:
            raise UnsupportedError(
                f"metadata {key!r}: safetensors stores text only, not {type(value).__name__}"
            ) from None
    return found
