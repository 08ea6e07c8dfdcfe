"""``hurray ls``: what a file holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any, NamedTuple

import typer

from hurray.cli._console import format_bytes, format_scheme, format_shape, print_json, print_line, print_table
from hurray.cli._details import details_of, details_text
from hurray.cli._pipes import source_of
from hurray.container.reader import File
from hurray.conversion import is_stream, open_tensors
from hurray.descriptor import Descriptor
from hurray.interop import Tensors
from hurray.layouts import CompositeLayout
from hurray.stream.reader import StreamReader
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["ls"]


class _Line(NamedTuple):
    """One tensor of a listing; ``depth`` is 0 at the top and grows inside composites."""

    depth: int
    name: str
    dtype: str
    shape: tuple[int | None, ...]
    layout: str
    n_bytes: int
    quantization: str | None
    members: int
    descriptor: Descriptor

    def as_json(self, *, long: bool = False) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "layout": self.layout,
            "bytes": self.n_bytes,
            "quantization": self.quantization,
            "depth": self.depth,
            "members": self.members,
            **(details_of(self.descriptor) if long else {}),
        }

    def as_row(self, *, long: bool = False) -> tuple[str, ...]:
        row = (
            "  " * self.depth + self.name,
            f"{self.dtype} ({self.quantization})" if self.quantization else self.dtype,
            format_shape(self.shape),
            self.layout + (f" of {self.members}" if self.members else ""),
            format_bytes(self.n_bytes),
        )
        return (*row, details_text(self.descriptor)) if long else row


def ls(
    path: Annotated[str, typer.Argument(help="A Hurray file, or one of a format that convert reads; - is a stream.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    kv: Annotated[bool, typer.Option("--kv", help="Show the metadata as well.")] = False,
    long: Annotated[
        bool,
        typer.Option("--long", "-l", help="Show stored elements, parameters, shards, devices and statistics as well."),
    ] = False,
    format: Annotated[
        str | None, typer.Option("--format", help="The file's format, where its name does not say.")
    ] = None,
) -> None:
    """List the tensors of a file.

    Name, dtype, shape, layout and bytes of each; composites are trees.
    """
    source, format = source_of(path, format)
    metadata: dict[str, Any] = {}
    if is_stream(source, format):
        with StreamReader(source) as reader:
            # One tensor at a time: a stream may hold more than memory does.
            lines = [line for k, item in enumerate(reader) for line in _of_item(item, str(k), 0)]
    else:
        with closing(open_tensors(source, format)) as tensors:
            lines = list(_of_file(tensors) if isinstance(tensors, File) else _of_tensors(tensors))
            metadata = dict(tensors.kv)
    if as_json:
        tensor_rows = [line.as_json(long=long) for line in lines]
        print_json({"path": path, "kv": _jsonable(metadata), "tensors": tensor_rows})
        return
    if lines:
        columns = ("name", "dtype", "shape", "layout", "bytes", *(("details",) if long else ()))
        print_table(columns, [line.as_row(long=long) for line in lines], right=("bytes",))
    top = [line for line in lines if line.depth == 0]
    total = format_bytes(sum(line.n_bytes for line in top))
    entries = f", {len(metadata)} metadata entr{'y' if len(metadata) == 1 else 'ies'}" if metadata else ""
    print_line(f"{len(top)} tensor{'s' * (len(top) != 1)}, {total}{entries}")
    if kv and metadata:
        print_table(("key", "value"), [(key, _short(value)) for key, value in metadata.items()])


def _of_file(file: File) -> Iterator[_Line]:
    """List a Hurray file from its descriptors."""
    for info in file.info():
        depths = {info.name: 0}
        for name in info.members:
            depths[name] = depths[name.rpartition(".")[0]] + 1
        sizes = _sizes(file, list(depths))
        for name, depth in depths.items():
            yield _line(file.descriptor(name), name, depth, sizes[name])


def _sizes(file: File, names: list[str]) -> dict[str, int]:
    """Return the bytes of a composite and of all that is below it; a head counts what its members count."""
    sizes: dict[str, int] = {}
    for name in reversed(names):
        own = sum(h.byte_size for h in file.descriptor(name).buffer_handles)
        sizes[name] = sizes.get(name, 0) + own
        if name != names[0]:
            head = name.rpartition(".")[0]
            sizes[head] = sizes.get(head, 0) + sizes[name]
    return sizes


def _line(d: Descriptor, name: str, depth: int, n_bytes: int) -> _Line:
    members = d.layout.member_count if isinstance(d.layout, CompositeLayout) else 0
    return _Line(depth, name, str(d.dtype), d.shape, d.layout.name, n_bytes, format_scheme(d.quantization), members, d)


def _of_tensors(tensors: Tensors) -> Iterator[_Line]:
    for name in tensors:
        yield from _of_item(tensors[name], name, 0)


def _of_item(item: Tensor | Composite, name: str, depth: int) -> Iterator[_Line]:
    if isinstance(item, Composite):
        inner = [line for k, m in enumerate(item.members) for line in _of_item(m, f"{name}.{k}", depth + 1)]
        yield _line(item.descriptor, name, depth, sum(line.n_bytes for line in inner if line.depth == depth + 1))
        yield from inner
        return
    yield _line(item.descriptor, name, depth, item.nbytes)


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {key: _jsonable(inner) for key, inner in value.items()}
    return [_jsonable(inner) for inner in value] if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
