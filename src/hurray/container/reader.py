"""Reading a file: a lazy mapping from names to tensors.

Opening reads header, trailer and index only.  A descriptor is decoded when its tensor is asked for, and the tensor's
buffers are views of the source, so a mapped file costs memory only where values are touched.

Format: file container.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from types import TracebackType
from typing import Any, NamedTuple

from hurray.container.fold import Folding, fold
from hurray.container.header import HEADER_BYTES, TRAILER_BYTES, Header, Trailer, crc32c, parse_header, parse_trailer
from hurray.container.index import Entry, Index
from hurray.container.kv import KVEntry, KVValue, parse_kv
from hurray.container.ranges import Extent, Region, check_descriptor_range, extents, find_overlap, place_buffers
from hurray.descriptor import Descriptor, decode_descriptor
from hurray.dtypes.table import Dtype
from hurray.errors import FileError, HurrayError
from hurray.limits import DEFAULT_LIMITS, Limits
from hurray.sources import Source, is_url, open_source
from hurray.tensor.assembly import Assembler
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["File", "MissingTensorError", "TensorInfo", "load_items"]

Item = Tensor | Composite

#: distinct descriptors kept decoded; layers of a model share few
_CACHE = 1024
#: names that are compared to find one that was mistyped
_MOST_COMPARED = 5000


class MissingTensorError(FileError, KeyError):
    """A name that a file does not hold: both a FileError and a KeyError."""


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


class Frame(NamedTuple):
    """What opening a file reads."""

    header: Header
    trailer: Trailer
    index: Index
    region: Region


def read_frame(source: Source) -> Frame:
    """Read header, trailer and index of a file, and nothing else.

    Raises
    ------
    FileError
        The file is no Hurray file, is cut short or is corrupt.
    """
    name, size = source.name, source.size
    if size < HEADER_BYTES + TRAILER_BYTES:
        raise FileError(
            f"{name}: {size} bytes are too few for a Hurray file, which has at least {HEADER_BYTES + TRAILER_BYTES}: the "
            "file is empty, cut short, or of another kind",
            filename=name,
        )
    header = parse_header(source.view(0, HEADER_BYTES).tobytes(), name)
    trailer = parse_trailer(source.view(size - TRAILER_BYTES, TRAILER_BYTES).tobytes(), size, header, name)
    data = source.view(trailer.index_offset, trailer.index_length).tobytes()
    check_crc(header, trailer, data, name)
    return Frame(header, trailer, *make_index(header, trailer, data, name))


def check_crc(header: Header, trailer: Trailer, index: bytes, name: str) -> None:
    """Check the index against its checksum, where the header says that it has one."""
    if not header.has_crc:
        return
    computed = crc32c(index)
    if computed != trailer.index_crc:
        raise FileError(
            f"{name}: the index is corrupt: its CRC-32C is {computed:#010x}, the trailer says {trailer.index_crc:#010x}",
            filename=name,
        ).at(field="trailer.index_crc32c", offset=trailer.index_offset)


def make_index(header: Header, trailer: Trailer, data: bytes, name: str) -> tuple[Index, Region]:
    """Scan the index and find the tensor region, which ends where the first section starts."""
    index = Index(data, offset=trailer.index_offset, name=name, is_sorted=header.is_sorted)
    end = min(trailer.index_offset, trailer.kv_offset) if trailer.kv_length else trailer.index_offset
    return index, Region(header.first_descriptor_offset, end, header.alignment, name)


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
        self._source: Source | None = source
        self._name = source.name
        self._header, self._trailer, self._index, self._region = frame
        self._permissive = permissive
        self._limits = limits
        self._reopen: tuple[str | bytes, str] | None = None
        self._decoded: dict[bytes, Descriptor] = {}
        self._folding: Folding | None = None
        self._loaded: dict[str, Item] | None = None
        self._kv: list[KVEntry] | None = None

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
        scheme = None if descriptor.quantization is None else descriptor.quantization.name
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

    def __enter__(self) -> File:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._reopen is None:
            raise TypeError(
                f"the file {self._name} was opened from a file object or from memory and cannot be pickled; open it by path"
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
        if not isinstance(name, str):
            raise MissingTensorError(f"a tensor's name is a str, not {type(name).__name__}: {name!r}", filename=self._name)
        position = self._index.find(name)
        if position is None:
            names = [self._index.name(k) for k in range(min(len(self._index), _MOST_COMPARED))]
            close = difflib.get_close_matches(name, names, 3)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise MissingTensorError(f"{self._name} has no tensor {name!r}{hint}", filename=self._name)
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
            raise error.at(tensor=entry.name)
        own = int.from_bytes(data[6:10], "little")
        if own != len(data):
            raise FileError(
                f"{self._name}: index.descriptor_length: the index says {len(data)} bytes, the descriptor itself {own}",
                filename=self._name,
            ).at(field="index.descriptor_length", offset=entry.descriptor_offset, tensor=entry.name)
        if len(self._decoded) < _CACHE:
            self._decoded[data] = descriptor
        return descriptor

    def _tensor(self, entry: Entry, descriptor: Descriptor, places: list[tuple[int, int]]) -> Tensor:
        source = self._open_source()
        most = self._limits.max_buffer_bytes
        if most is not None and any(size > most for _, size in places):
            raise FileError(
                f"{self._name}: a buffer exceeds the limit of {most} bytes (Limits.max_buffer_bytes)", filename=self._name
            ).at(tensor=entry.name)
        buffers = [source.view(offset, size) for offset, size in places]
        try:
            return Tensor._from_parts(descriptor, buffers, permissive=self._permissive)
        except HurrayError as error:
            raise error.at(tensor=entry.name)

    def _item(self, position: int) -> Item:
        entry = self._index.entry(position)
        descriptor = self._decode(entry)
        if not descriptor.is_head:
            return self._tensor(entry, descriptor, place_buffers(entry, descriptor, self._region))
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
        done: list[Any] = []
        for member in folding.order[start:end]:
            done += self._push(assembler, self._index.entry(member))
        assembler.finish()
        item: Item = done[0][1]
        return item

    def _push(self, assembler: Assembler, entry: Entry, occupied: list[Extent] | None = None) -> list[Any]:
        """Read one entry and hand it to the assembler; note the bytes that it occupies."""
        descriptor = self._decode(entry)
        places = place_buffers(entry, descriptor, self._region)
        if occupied is not None:
            occupied.extend(extents(entry, places))
        tensor = None if descriptor.is_head else self._tensor(entry, descriptor, places)
        try:
            return list(assembler.push(descriptor, tensor, entry.name))
        except HurrayError as error:
            raise error.at(tensor=entry.name)

    # Composites

    def _assembled_only(self) -> bool:
        """Tell whether only assembling can say what is at the top: a permissive reader breaks composites up."""
        return self._permissive and bool(self._heads())

    def _heads(self) -> dict[int, int]:
        """Return the number of members of each composite head, by index position."""
        heads: dict[int, int] = {}
        for position in self._index.without_data():
            descriptor = self._decode(self._index.entry(position))
            if descriptor.is_head:
                heads[position] = descriptor.layout.member_count  # type: ignore[attr-defined]
        return heads

    def _fold(self) -> Folding:
        if self._folding is None:
            heads = self._heads()
            # Without composites the order of descriptors is of no interest.
            order = self._order() if heads else []
            self._folding = fold(order, heads, self._limits.max_composite_depth)
        return self._folding

    def _order(self) -> list[int]:
        return [entry.position for entry in sorted(self._index, key=_descriptor_offset)]

    # Everything at once

    def check_ranges(self) -> None:
        """Check names and byte ranges of all tensors against each other; no value is touched.

        Raises
        ------
        FileError
            A rule is broken; the tensor is named.
        """
        self._index.check()
        occupied: list[Extent] = []
        for entry in self._index:
            descriptor = self._decode(entry)
            occupied.extend(extents(entry, place_buffers(entry, descriptor, self._region)))
        self._refuse_overlap(occupied)

    def _refuse_overlap(self, occupied: list[Extent]) -> None:
        overlap = find_overlap(occupied)
        if overlap is not None:
            before, after = overlap
            raise FileError(
                f"{self._name}: overlap: bytes {after.start} to {min(before.end, after.end)} belong to both "
                f"{before.owner!r} and {after.owner!r}",
                filename=self._name,
            ).at(field="index", offset=after.start, tensor=after.owner)

    def _load(self) -> dict[str, Item]:
        """Read all tensors, checking everything that the structure of the file shows."""
        if self._loaded is not None:
            return self._loaded
        self._index.check()
        assembler = Assembler(self._limits, self._permissive)
        occupied: list[Extent] = []
        found: dict[str, Item] = {}
        entries = list(self._index)
        for entry in sorted(entries, key=_descriptor_offset):
            found.update(self._push(assembler, entry, occupied))
        found.update(assembler.finish())
        self._refuse_overlap(occupied)
        loaded = {entry.name: found[entry.name] for entry in entries if entry.name in found}
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


def check_indices(name: str, item: Item) -> None:
    """Check the index buffers of sparse and paged tensors, which a strict load vouches for."""
    stack: list[Item] = [item]
    while stack:
        top = stack.pop()
        if isinstance(top, Composite):
            stack.extend(top.members)
        elif top.layout.kind in ("sparse", "indirect"):
            try:
                top.validate()
            except HurrayError as error:
                raise error.at(tensor=name)


def load_items(target: Any, names: Iterable[str] | None, **options: Any) -> dict[str, Item]:
    """Open a file, load from it, and close it."""
    with File(target, **options) as file:
        return file.load(names)


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
