"""Reading a file: a lazy mapping from names to tensors.

Opening reads header, trailer and index only.  A descriptor is decoded when its tensor is asked for, and the tensor's
buffers are views of the source, so a mapped file costs memory only where values are touched.

Format: file container.
"""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, Self

from hurray.container.checks import check_indices, missing_tensor
from hurray.container.fold import Folding, fold
from hurray.container.frame import Frame, read_frame
from hurray.container.header import Header
from hurray.container.index import Entry
from hurray.container.kv import KVEntry, KVValue, parse_kv
from hurray.container.ranges import (
    Extent,
    Part,
    check_descriptor_range,
    extents,
    find_overlaps,
    overlap_message,
    place_buffers,
)
from hurray.descriptor import Descriptor, decode_descriptor
from hurray.dtypes.table import Dtype
from hurray.errors import FileError, HurrayError
from hurray.limits import DEFAULT_LIMITS, MAX_COMPOSITE_DEPTH, Limits
from hurray.sources import Source, is_url, open_source
from hurray.tensor.assembly import Assembler, Finished
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["File", "TensorInfo"]

Item = Tensor | Composite

#: distinct descriptors kept decoded (layers of a model share few), and the longest that is kept, in bytes
_CACHE, _CACHED_BYTES = 1024, 4096


class TensorInfo(NamedTuple):
    """What a listing shows of one tensor, from its descriptor alone.

    ``n_bytes`` are the bytes of all buffers, ``members`` the names below a composite, in order.
    """

    name: str
    dtype: Dtype
    shape: tuple[int | None, ...]
    layout: str
    n_bytes: int
    quantization: str | None
    members: tuple[str, ...]


class File(Mapping[str, Item]):
    """A Hurray file, opened for reading: a lazy read-only mapping from names to tensors and composites.

    Iteration gives top-level names in index order; members of a composite are folded into it, and are reached by their
    own names, ``<head>.<k>``, too.  Tensors stay valid after the file is closed.

    Parameters
    ----------
    target : str, os.PathLike, URL, bytes-like, or binary file object
        ``bytes`` are content, not a path.  A file object stays the caller's and is never closed.
    strategy : {"auto", "mmap", "read"}
        Map a local file (nothing is read before it is used), or read byte ranges.
    permissive : bool
        Hand over unknown layouts and schemes for relay instead of refusing them.
    limits : Limits, optional
        Bounds on untrusted input.

    Raises
    ------
    FileError
        The file is missing, is no Hurray file, is cut short or is corrupt.

    Examples
    --------
    >>> import io, numpy as np, hurray
    >>> target = io.BytesIO()
    >>> hurray.save(target, {"a": np.arange(6).reshape(2, 3)})
    >>> with hurray.open(target) as f:
    ...     print(list(f), f["a"][1])
    ['a'] [3 4 5]

    Format: file container.
    """

    _source: Source | None
    _reopen: tuple[str | bytes, str] | None
    _decoded: dict[bytes, Descriptor]
    _folding: Folding | None
    _loaded: dict[str, Item] | None
    _kv: list[KVEntry] | None

    def __init__(
        self, target: Any, *, strategy: str = "auto", permissive: bool = False, limits: Limits | None = None
    ) -> None:
        reopen = _reopen_arguments(target, strategy)
        source = open_source(target, strategy)
        try:
            frame = read_frame(source)
        except BaseException:
            source.close()
            raise
        self._fill(source, frame, permissive, DEFAULT_LIMITS if limits is None else limits)
        self._reopen = reopen

    def _fill(self, source: Source, frame: Frame, permissive: bool, limits: Limits) -> None:
        self._source = source
        self._name = source.name
        self._header, self._trailer = frame.header, frame.trailer
        self._index, self._region = frame.index, frame.region
        self._permissive = permissive
        self._limits = limits
        self._reopen = None
        self._decoded = {}
        self._folding = None
        self._loaded = None
        self._kv = None

    @classmethod
    def _over(cls, source: Source, frame: Frame, limits: Limits) -> File:
        """Return a strict file over a frame that was read already: the way of ``verify``."""
        self = object.__new__(cls)
        self._fill(source, frame, False, limits)
        return self

    # Inspection

    @property
    def name(self) -> str:
        """What messages call the file: its path, where it has one."""
        return self._name

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._source is None

    @property
    def header(self) -> Header:
        """The file's header."""
        return self._header

    @property
    def kv(self) -> dict[str, KVValue]:
        """The file's metadata, in file order.

        Raises
        ------
        FileError
            The key-value section is corrupt.
        """
        return {entry.key: entry.value for entry in self.kv_entries()}

    def kv_entries(self) -> list[KVEntry]:
        """Return the metadata with the wire type of each value."""
        if self._kv is None:
            trailer = self._trailer
            data = self._bytes(trailer.kv_offset, trailer.kv_length) if trailer.kv_length else b"\0\0\0\0"
            self._kv = parse_kv(data, self._name)
        return list(self._kv)

    @property
    def names(self) -> list[str]:
        """Top-level names, in index order."""
        return list(self)

    @property
    def all_names(self) -> list[str]:
        """All names of the index, heads and members included, in index order."""
        self._index.check()
        return [self._index.name(k) for k in range(len(self._index))]

    def descriptor(self, name: str) -> Descriptor:
        """Return the descriptor of a tensor, or of a composite's head.

        Raises
        ------
        FileError
            The file has no such tensor (a KeyError too).
        """
        return self._decode(self._index.entry(self._position(name)))

    def descriptor_bytes(self, name: str) -> tuple[bytes, int]:
        """Return the bytes of a tensor's descriptor as they are in the file, and their offset; nothing is decoded.

        Raises
        ------
        FileError
            The file has no such tensor, or its index points outside.
        """
        entry = self._index.entry(self._position(name))
        check_descriptor_range(entry, self._region, self._limits)
        return self._bytes(entry.descriptor_offset, entry.descriptor_length), entry.descriptor_offset

    def info(self) -> list[TensorInfo]:
        """Return a listing of the file from its descriptors; no value is touched."""
        folding = self._fold()
        self._index.check()
        listing = []
        for position in range(len(self._index)):
            if position in folding.members:
                continue
            start, end = folding.spans.get(position, (0, 0))
            listing.append(self._info(position, folding.order[start + 1 : end] if end else ()))
        return listing

    def _info(self, position: int, below: Iterable[int]) -> TensorInfo:
        entry = self._index.entry(position)
        descriptor = self._decode(entry)
        n_bytes = sum(h.byte_size for h in descriptor.buffer_handles)
        members = []
        for member in below:
            inner = self._index.entry(member)
            members.append(inner.name)
            n_bytes += sum(h.byte_size for h in self._decode(inner).buffer_handles)
        scheme = getattr(descriptor.quantization, "name", None if descriptor.quantization is None else "unknown")
        return TensorInfo(
            entry.name, descriptor.dtype, descriptor.shape, descriptor.layout.name, n_bytes, scheme, tuple(members)
        )

    # Mapping

    def __getitem__(self, name: str) -> Item:
        return self._item(self._position(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._index.find(name) is not None

    def __len__(self) -> int:
        if self._assembled_only():
            return len(self._load())
        return len(self._index) - len(self._fold().members)

    def __iter__(self) -> Iterator[str]:
        self._index.check()
        if self._assembled_only():
            return iter(list(self._load()))
        members = self._fold().members
        names = [self._index.name(k) for k in range(len(self._index)) if k not in members]
        return iter(names)

    def items(self) -> ItemsView[str, Item]:
        """Return names with tensors; the ranges of all tensors are checked first, values are read on demand."""
        self.check_ranges()
        return ItemsView(self)

    def values(self) -> ValuesView[Item]:
        """Return the tensors; the ranges of all of them are checked first, values are read on demand."""
        self.check_ranges()
        return ValuesView(self)

    # Closing

    def close(self) -> None:
        """Let go of the file; tensors that were read stay valid."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._reopen is None:
            raise TypeError(
                f"the file {self._name} was opened from a file object or from memory and cannot be pickled; open it by "
                "path"
            )
        target, strategy = self._reopen
        return _reopened, (target, strategy, self._permissive, self._limits)

    def __repr__(self) -> str:
        n_tensors = len(self._index)
        return f"hurray.File({self._name!r}, {n_tensors} tensor{'s' * (n_tensors != 1)}{', closed' * self.closed})"

    # Reading

    def _bytes(self, offset: int, n_bytes: int) -> bytes:
        return self._open_source().view(offset, n_bytes).tobytes()

    def _open_source(self) -> Source:
        if self._source is None:
            raise FileError(f"the file {self._name!r} is closed", filename=self._name)
        return self._source

    def _position(self, name: object) -> int:
        position = self._index.find(name) if isinstance(name, str) else None
        if position is None:
            raise missing_tensor(name, self._index)
        return position

    def _decode(self, entry: Entry) -> Descriptor:
        """Return an entry's descriptor, after checking that it is where and as long as the index says."""
        check_descriptor_range(entry, self._region, self._limits)
        data = self._bytes(entry.descriptor_offset, entry.descriptor_length)
        known = self._decoded.get(data)
        if known is not None:
            return known
        try:
            descriptor = decode_descriptor(data, permissive=self._permissive)
        except HurrayError as error:
            raise error.at(tensor=entry.name) from None
        own = int.from_bytes(data[6:10], "little")
        if own != len(data):
            raise FileError(
                f"{self._name}: index.descriptor_length: the index says {len(data)} bytes, the descriptor itself {own}",
                filename=self._name,
            ).at(field="index.descriptor_length", offset=entry.descriptor_offset, tensor=entry.name)
        if len(data) <= _CACHED_BYTES and len(self._decoded) < _CACHE:
            self._decoded[data] = descriptor
        return descriptor

    def _tensor(self, entry: Entry, descriptor: Descriptor, places: list[tuple[int, int]]) -> Tensor:
        source = self._open_source()
        most = self._limits.max_buffer_bytes
        if most is not None and any(size > most for _, size in places):
            raise FileError(
                f"{self._name}: a buffer exceeds the limit of {most} bytes (Limits.max_buffer_bytes)",
                filename=self._name,
            ).at(tensor=entry.name)
        buffers = [source.view(offset, size) for offset, size in places]
        try:
            return Tensor._from_parts(descriptor, buffers, permissive=self._permissive)
        except HurrayError as error:
            raise error.at(tensor=entry.name) from None

    def _item(self, position: int) -> Item:
        entry = self._index.entry(position)
        descriptor = self._decode(entry)
        places = place_buffers(entry, descriptor, self._region)
        if not descriptor.is_head:
            return self._tensor(entry, descriptor, places)
        if self._permissive:
            found = self._load().get(entry.name)
            if found is None:
                raise FileError(
                    f"{self._name}: the composite is broken, so its members stand for themselves", filename=self._name
                ).at(tensor=entry.name)
            return found
        return self._composite(position)

    def _composite(self, position: int) -> Item:
        folding = self._fold()
        start, end = folding.spans[position]
        assembler = Assembler(self._limits)
        done: list[Finished] = []
        for member in folding.order[start:end]:
            done += self._push(assembler, self._part(self._index.entry(member)))
        assembler.finish()
        return done[0][1]

    def _part(self, entry: Entry) -> Part:
        descriptor = self._decode(entry)
        return Part(entry, descriptor, place_buffers(entry, descriptor, self._region))

    def _push(self, assembler: Assembler, part: Part) -> list[Finished]:
        """Form one tensor and hand it, or a head, to the assembler."""
        entry, descriptor, places = part
        tensor = None if descriptor.is_head else self._tensor(entry, descriptor, places)
        try:
            return assembler.push(descriptor, tensor, entry.name)
        except HurrayError as error:
            raise error.at(tensor=entry.name) from None

    # Composites

    def _assembled_only(self) -> bool:
        """Tell whether only assembling can say what is at the top: a permissive reader breaks composites up."""
        return self._permissive and bool(self._heads())

    def _heads(self) -> dict[int, int]:
        """Return the number of members of each composite head, by index position."""
        heads: dict[int, int] = {}
        candidates = self._index.without_data()
        if candidates:
            self._in_order()
        for position in candidates:
            descriptor = self._decode(self._index.entry(position))
            if descriptor.is_head:
                heads[position] = descriptor.layout.member_count  # type: ignore[attr-defined]
        return heads

    def _fold(self) -> Folding:
        if self._folding is None:
            heads = self._heads()
            # Without composites the order of descriptors is of no interest.
            order = [entry.position for entry in self._in_order()] if heads else []
            self._folding = fold(order, heads, min(self._limits.max_composite_depth, MAX_COMPOSITE_DEPTH))
        return self._folding

    def _in_order(self) -> list[Entry]:
        """Return all entries by descriptor offset, after checking that no two descriptors share bytes."""
        entries = sorted(self._index, key=_descriptor_offset)
        # Before any is decoded: a small file could point to one large descriptor from many entries.
        for before, after in pairwise(entries):
            if after.descriptor_offset < before.descriptor_offset + before.descriptor_length:
                self._refuse_overlap([*extents(before, ()), *extents(after, ())])
        return entries

    # Everything at once

    def check_ranges(self) -> None:
        """Check names and byte ranges of all tensors against each other; no value is touched.

        Raises
        ------
        FileError
            A rule is broken; the tensor is named.
        """
        self._parts()

    def _parts(self) -> list[Part]:
        """Return all tensors by descriptor offset, after checking names and ranges."""
        self._index.check()
        parts = [self._part(entry) for entry in self._in_order()]
        self._refuse_overlap([extent for part in parts for extent in part.extents()])
        return parts

    def _refuse_overlap(self, occupied: Iterable[Extent]) -> None:
        for before, after in find_overlaps(occupied):
            message = f"{self._name}: overlap: {overlap_message(before, after)}"
            raise FileError(message, filename=self._name).at(field="index", offset=after[0], tensor=after[2])

    def _load(self) -> dict[str, Item]:
        """Read all tensors, checking everything that the structure of the file shows."""
        if self._loaded is not None:
            return self._loaded
        parts = self._parts()
        assembler = Assembler(self._limits, self._permissive)
        found: dict[str | None, Item] = {}
        for part in parts:
            found.update(self._push(assembler, part))
        try:
            found.update(assembler.finish())
        except HurrayError as error:
            raise FileError(f"{self._name}: {error}", filename=self._name) from None
        names = (self._index.name(k) for k in range(len(self._index)))
        loaded = {name: found[name] for name in names if name in found}
        if self._permissive:
            self._loaded = loaded
        return loaded

    def load(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        """Return all tensors, or those with the given names, after checking all that can be checked cheaply.

        Index buffers of sparse tensors are checked; other values are not touched.

        Raises
        ------
        FileError
            A name is missing, or the file is corrupt.
        InvalidDescriptorError, BufferError
            A tensor breaks a rule of the format; it is named.
        """
        if isinstance(names, (str, bytes)):
            raise TypeError(f"names is a list of names, not one {type(names).__name__}: use names=[{names!r}]")
        if names is None:
            self.kv_entries()
            items = self._load()
        else:
            items = {name: self[name] for name in names}
        if not self._permissive:
            for name, item in items.items():
                check_indices(name, item)
        return items


def _descriptor_offset(entry: Entry) -> int:
    return entry.descriptor_offset


def _reopen_arguments(target: Any, strategy: str) -> tuple[str | bytes, str] | None:
    if not isinstance(target, (str, os.PathLike)):
        return None
    path = os.fspath(target)
    if isinstance(path, str) and is_url(path):
        return path, strategy
    # The working directory of the process that unpickles may be another one.
    return os.path.abspath(path), strategy


def _reopened(target: str | bytes, strategy: str, permissive: bool, limits: Limits) -> File:
    return File(target, strategy=strategy, permissive=permissive, limits=limits)
