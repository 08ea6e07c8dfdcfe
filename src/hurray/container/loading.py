"""From index entries to tensors: descriptors are read and decoded, buffers are placed, tensors are formed.

What a file's tensors are is worked out once for all of them where all are wanted: in the order of descriptor offsets,
which is the order of the bytes, so that one pass sees whether any two of them share some.

Format: file container, tensor region.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from operator import itemgetter

from hurray.container.fold import Folding, fold
from hurray.container.frame import Frame
from hurray.container.index import Entry
from hurray.container.ranges import (
    Extent,
    Part,
    check_descriptor_range,
    extents,
    find_overlaps,
    in_sequence,
    overlap_message,
    place_buffers,
)
from hurray.descriptor import Descriptor, decode_descriptor
from hurray.errors import FileError, HurrayError
from hurray.limits import MAX_COMPOSITE_DEPTH, Limits
from hurray.sources import Source
from hurray.tensor.assembly import Assembler, Finished
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["Item", "Loader", "PartItems", "PartValues"]

Item = Tensor | Composite

#: distinct descriptors kept decoded (layers of a model share few), and the longest that is kept, in bytes
_CACHE, _CACHED_BYTES = 1024, 4096
_DESCRIPTOR_OFFSET = itemgetter(Entry._fields.index("descriptor_offset"))


class Loader:
    """Gives the tensors of a file whose frame was read.

    Parameters
    ----------
    source : Source
        The file.
    frame : Frame
        Its header, trailer and index.
    permissive : bool
        Hand over unknown layouts and schemes, and break up composites that break a rule.
    limits : Limits
        Bounds on untrusted input.
    """

    __slots__ = (
        "_decoded", "_fitting", "_folding", "_index", "_limits", "_loaded", "_name", "_permissive", "_region",
        "_source",
    )  # fmt: skip

    def __init__(self, source: Source, frame: Frame, *, permissive: bool, limits: Limits) -> None:
        self._source: Source | None = source
        self._name = source.name
        self._index, self._region = frame.index, frame.region
        self._permissive = permissive
        self._limits = limits
        self._decoded: dict[bytes, Descriptor] = {}
        # Descriptors whose sizes were checked, by identity: what follows from a descriptor alone is checked once.
        self._fitting: dict[int, Descriptor] = {}
        self._folding: Folding | None = None
        self._loaded: dict[str, Item] | None = None

    # Bytes

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._source is None

    @property
    def source(self) -> Source:
        """The file's bytes.

        Raises
        ------
        FileError
            The file is closed.
        """
        if self._source is None:
            raise FileError(f"the file {self._name!r} is closed", filename=self._name)
        return self._source

    def close(self) -> None:
        """Let go of the file; tensors stay valid."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    # One tensor

    def decode(self, entry: Entry) -> Descriptor:
        """Return an entry's descriptor, after checking that it is where and as long as the index says."""
        check_descriptor_range(entry, self._region, self._limits)
        data = self.source.read(entry.descriptor_offset, entry.descriptor_length)
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

    def part(self, entry: Entry) -> Part:
        """Return what index and descriptor say about a tensor, checked against each other."""
        descriptor = self.decode(entry)
        return Part(entry, descriptor, place_buffers(entry, descriptor, self._region))

    def tensor(self, part: Part) -> Tensor:
        """Form a tensor over views of the file."""
        entry, descriptor, places = part
        source = self.source
        most = self._limits.max_buffer_bytes
        if most is not None and any(size > most for _, size in places):
            raise FileError(
                f"{self._name}: a buffer exceeds the limit of {most} bytes (Limits.max_buffer_bytes)",
                filename=self._name,
            ).at(tensor=entry.name)
        buffers = tuple([source.view(offset, size) for offset, size in places])
        if self._fitting.get(id(descriptor)) is descriptor:
            return Tensor._from_checked(descriptor, buffers, self._permissive)
        try:
            tensor = Tensor._from_parts(descriptor, buffers, permissive=self._permissive)
        except HurrayError as error:
            raise error.at(tensor=entry.name) from None
        if len(self._fitting) < _CACHE:
            self._fitting[id(descriptor)] = descriptor
        return tensor

    def item(self, position: int) -> Item:
        """Return the tensor at a position of the index, or the composite whose head is there."""
        part = self.part(self._index.entry(position))
        if not part.descriptor.is_head:
            return self.tensor(part)
        if self._permissive:
            found = self.load().get(part.entry.name)
            if found is None:
                raise FileError(
                    f"{self._name}: the composite is broken, so its members stand for themselves", filename=self._name
                ).at(tensor=part.entry.name)
            return found
        start, end = self.fold().spans[position]
        below = self.fold().order[start + 1 : end]
        return self._composite([part, *(self.part(self._index.entry(k)) for k in below)])

    def _composite(self, parts: Iterable[Part]) -> Item:
        assembler = Assembler(self._limits)
        done: list[Finished] = []
        for part in parts:
            done += self._push(assembler, part)
        assembler.finish()
        return done[0][1]

    def _push(self, assembler: Assembler, part: Part) -> list[Finished]:
        """Form one tensor and hand it, or a head, to the assembler."""
        entry, descriptor, _ = part
        tensor = None if descriptor.is_head else self.tensor(part)
        try:
            return assembler.push(descriptor, tensor, entry.name)
        except HurrayError as error:
            raise error.at(tensor=entry.name) from None

    # Composites

    def assembled_only(self) -> bool:
        """Tell whether only assembling can say what is at the top: a permissive reader breaks composites up."""
        return self._permissive and bool(self._heads())

    def _heads(self) -> dict[int, int]:
        """Return the number of members of each composite head, by index position."""
        heads: dict[int, int] = {}
        candidates = self._index.without_data()
        if candidates:
            self._in_order()
        for position in candidates:
            descriptor = self.decode(self._index.entry(position))
            if descriptor.is_head:
                heads[position] = descriptor.layout.member_count  # type: ignore[attr-defined]
        return heads

    def fold(self) -> Folding:
        """Return which tensors are members of which composite."""
        if self._folding is None:
            heads = self._heads()
            # Without composites the order of descriptors is of no interest.
            order = [entry.position for entry in self._in_order()] if heads else []
            self._folding = fold(order, heads, min(self._limits.max_composite_depth, MAX_COMPOSITE_DEPTH))
        return self._folding

    # Everything at once

    def _in_order(self) -> list[Entry]:
        """Return all entries by descriptor offset, after checking that no two descriptors share bytes."""
        entries = self._index.entries()
        entries.sort(key=_DESCRIPTOR_OFFSET)
        # Before any is decoded: a small file could point to one large descriptor from many entries.
        before = None
        end = 0
        for entry in entries:
            at = entry.descriptor_offset
            if at < end and before is not None:
                self._refuse_overlap([*extents(before, ()), *extents(entry, ())])
            before, end = entry, at + entry.descriptor_length
        return entries

    def parts(self) -> list[Part]:
        """Return all tensors by descriptor offset, after checking names and ranges.

        Raises
        ------
        FileError
            A rule is broken; the tensor is named.
        """
        self._index.check()
        parts = [self.part(entry) for entry in self._in_order()]
        if not in_sequence(parts):
            self._refuse_overlap([extent for part in parts for extent in part.extents()])
        return parts

    def _refuse_overlap(self, occupied: Iterable[Extent]) -> None:
        for before, after in find_overlaps(occupied):
            message = f"{self._name}: overlap: {overlap_message(before, after)}"
            raise FileError(message, filename=self._name).at(field="index", offset=after[0], tensor=after[2])

    def load(self) -> dict[str, Item]:
        """Read all tensors, checking everything that the structure of the file shows."""
        if self._loaded is not None:
            return self._loaded
        parts = self.parts()
        names = self._index.names()
        if not any(part.descriptor.is_head for part in parts if not part.entry.data_length):
            tensors = {part.entry.position: self.tensor(part) for part in parts}
            return {name: tensors[k] for k, name in enumerate(names)}
        assembler = Assembler(self._limits, self._permissive)
        found: dict[str | None, Item] = {}
        for part in parts:
            found.update(self._push(assembler, part))
        try:
            found.update(assembler.finish())
        except HurrayError as error:
            raise FileError(f"{self._name}: {error}", filename=self._name) from None
        loaded = {name: found[name] for name in names if name in found}
        if self._permissive:
            # Each look-up of a composite asks for all of it.
            self._loaded = loaded
        return loaded

    def top_level(self, parts: Iterable[Part]) -> Iterator[tuple[str, Item]]:
        """Give names with tensors and composites, in index order, from the parts of all of them."""
        if self.assembled_only():
            yield from self.load().items()
            return
        folding = self.fold()
        by_position = {part.entry.position: part for part in parts}
        for position in range(len(by_position)):
            if position in folding.members:
                continue
            part = by_position[position]
            if part.descriptor.is_head:
                start, end = folding.spans[position]
                yield part.entry.name, self._composite(by_position[k] for k in folding.order[start:end])
            else:
                yield part.entry.name, self.tensor(part)


class PartItems(ItemsView[str, Item]):
    """Names with tensors, formed as they are asked for from parts that were checked already."""

    __slots__ = ("_loader", "_parts")

    def __init__(self, mapping: Mapping[str, Item], loader: Loader) -> None:
        ItemsView.__init__(self, mapping)
        self._loader = loader
        self._parts = loader.parts()

    def __iter__(self) -> Iterator[tuple[str, Item]]:
        return self._loader.top_level(self._parts)


class PartValues(ValuesView[Item]):
    """Tensors, formed as they are asked for from parts that were checked already."""

    __slots__ = ("_loader", "_parts")

    def __init__(self, mapping: Mapping[str, Item], loader: Loader) -> None:
        ValuesView.__init__(self, mapping)
        self._loader = loader
        self._parts = loader.parts()

    def __iter__(self) -> Iterator[Item]:
        return (item for _, item in self._loader.top_level(self._parts))
