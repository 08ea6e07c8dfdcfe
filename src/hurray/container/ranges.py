"""Where the parts of a tensor may lie in a file, and where its buffers are.

The index gives the place of the first buffer; each further one starts at the next multiple of the data alignment.

Format: file container, tensor region; trailer, what is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, NoReturn

from hurray.container.header import align_up
from hurray.container.index import Entry
from hurray.descriptor import Descriptor
from hurray.errors import FileError
from hurray.limits import Limits

__all__ = [
    "Extent",
    "Part",
    "Region",
    "check_descriptor_range",
    "extents",
    "find_overlaps",
    "in_sequence",
    "overlap_message",
    "place_buffers",
]

_LEAST_DESCRIPTOR = 20


class Region(NamedTuple):
    """The tensor region of a file and the alignment of data in it, in bytes."""

    start: int
    end: int
    alignment: int
    file_name: str


#: bytes from a start to an end, and whose they are; a plain tuple, because files have many
Extent = tuple[int, int, str]


class Part(NamedTuple):
    """One tensor of a file as its index and its descriptor describe it: where each buffer starts, and its size."""

    entry: Entry
    descriptor: Descriptor
    places: list[tuple[int, int]]

    def extents(self) -> list[Extent]:
        """Return the bytes that the tensor occupies; those of an unknown layout are known from the index alone."""
        entry = self.entry
        return extents(entry, [(entry.data_offset, entry.data_length)] if self.descriptor.is_opaque else self.places)


def _fail(entry: Entry, region: Region, rule: str, message: str, offset: int) -> NoReturn:
    error = FileError(f"{region.file_name}: {rule}: {message}", filename=region.file_name)
    raise error.at(field=rule, offset=offset, tensor=entry.name)


def check_descriptor_range(entry: Entry, region: Region, limits: Limits) -> None:
    """Check where an index entry says that its descriptor is.

    Raises
    ------
    FileError
        Outside the tensor region, unaligned, of an impossible length, or reserved flags are set.
    """
    _, _, at, length, _, _, flags = entry
    if (
        flags
        or at % 8
        or at < region.start
        or at + length > region.end
        or not _LEAST_DESCRIPTOR <= length <= limits.max_descriptor_bytes
    ):
        _refuse_descriptor_range(entry, region, limits)


def _refuse_descriptor_range(entry: Entry, region: Region, limits: Limits) -> NoReturn:
    at, length = entry.descriptor_offset, entry.descriptor_length
    if entry.flags:
        _fail(entry, region, "index.flags", f"reserved flag bits are set: {entry.flags:#010x}", at)
    if at % 8:
        _fail(entry, region, "index.descriptor_offset", f"must be a multiple of 8, but is {at}", at)
    if at < region.start or at + length > region.end:
        _fail(
            entry, region, "index.descriptor_offset",
            f"bytes {at} to {at + length} lie outside the tensor region, {region.start} to {region.end}", at,
        )  # fmt: skip
    if length < _LEAST_DESCRIPTOR:
        _fail(entry, region, "index.descriptor_length", f"a descriptor has at least 20 bytes, not {length}", at)
    _fail(
        entry, region, "index.descriptor_length",
        f"{length} bytes exceed the limit of {limits.max_descriptor_bytes} (Limits.max_descriptor_bytes)", at,
    )  # fmt: skip


def place_buffers(entry: Entry, descriptor: Descriptor, region: Region) -> list[tuple[int, int]]:
    """Return offset and size of each buffer, in bytes, after checking that the index agrees.

    Raises
    ------
    FileError
        The data are unaligned, outside the tensor region, on top of the descriptor, or of another length than the
        index says.
    """
    _, _, own, own_length, start, length, _ = entry
    kind = descriptor.layout.kind
    if kind == "virtual":
        if length:
            message = f"a composite head has no data, but the index says {length} bytes"
            _fail(entry, region, "index.data_length", message, start)
        return []
    alignment = region.alignment
    if start % alignment:
        _fail(entry, region, "index.data_offset", f"must be a multiple of {alignment}, but is {start}", start)
    if start < region.start or start + length > region.end:
        _fail(
            entry, region, "index.data_offset",
            f"bytes {start} to {start + length} lie outside the tensor region, {region.start} to {region.end}", start,
        )  # fmt: skip
    if kind == "opaque" and descriptor.is_opaque:
        # The buffer table of an unknown layout cannot be read, so its length cannot be compared.
        return []
    places: list[tuple[int, int]] = []
    at = start
    for handle in descriptor.buffer_handles:
        at = (at + alignment - 1) & -alignment
        size = handle.byte_size
        places.append((at, size))
        at += size
    extent = at - start
    if extent != length and not extent <= length <= align_up(extent, alignment):
        _fail(
            entry, region, "index.data_length",
            f"the buffers take {extent} bytes with the padding between them, but the index says {length}", start,
        )  # fmt: skip
    if start < own + own_length and own < at:
        for offset, size in places:
            if size and offset < own + own_length and own < offset + size:
                _fail(entry, region, "index.data_offset", "the data overlap the tensor's own descriptor", offset)
    return places


def extents(entry: Entry, places: Iterable[tuple[int, int]]) -> list[Extent]:
    """Return the bytes that a tensor occupies: its descriptor and its non-empty buffers."""
    own = (entry.descriptor_offset, entry.descriptor_offset + entry.descriptor_length, entry.name)
    return [own, *[(offset, offset + size, entry.name) for offset, size in places if size]]


def in_sequence(parts: Iterable[Part]) -> bool:
    """Tell in little time that tensors lie one behind the other, as writers put them, so that none share bytes."""
    at = 0
    for entry, descriptor, places in parts:
        offset = entry.descriptor_offset
        if offset < at or descriptor.layout.kind == "opaque":
            return False
        at = offset + entry.descriptor_length
        for offset, size in places:
            if size:
                if offset < at:
                    return False
                at = offset + size
    return True


def find_overlaps(occupied: Iterable[Extent]) -> Iterator[tuple[Extent, Extent]]:
    """Yield the pairs of neighbouring extents that share bytes."""
    for before, after in pairwise(sorted(occupied)):
        if after[0] < before[1]:
            yield before, after


def overlap_message(before: Extent, after: Extent) -> str:
    """Return in words which bytes two extents share."""
    return f"bytes {after[0]} to {min(before[1], after[1])} belong to both {before[2]!r} and {after[2]!r}"
