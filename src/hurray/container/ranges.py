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

__all__ = ["Extent", "Region", "check_descriptor_range", "extents", "find_overlap", "place_buffers"]

_LEAST_DESCRIPTOR = 20


class Region(NamedTuple):
    """The tensor region of a file and the alignment of data in it, in bytes."""

    start: int
    end: int
    alignment: int
    file_name: str


class Extent(NamedTuple):
    """Bytes ``start`` to ``end`` of a file, and whose they are."""

    start: int
    end: int
    owner: str


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
    if length > limits.max_descriptor_bytes:
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
    start, length = entry.data_offset, entry.data_length
    if descriptor.is_head:
        if length:
            message = f"a composite head has no data, but the index says {length} bytes"
            _fail(entry, region, "index.data_length", message, start)
        return []
    if start % region.alignment:
        _fail(entry, region, "index.data_offset", f"must be a multiple of {region.alignment}, but is {start}", start)
    if start < region.start or start + length > region.end:
        _fail(
            entry, region, "index.data_offset",
            f"bytes {start} to {start + length} lie outside the tensor region, {region.start} to {region.end}", start,
        )  # fmt: skip
    if descriptor.is_opaque:
        # The buffer table of an unknown layout cannot be read, so its length cannot be compared.
        return []
    places: list[tuple[int, int]] = []
    at = start
    for handle in descriptor.buffer_handles:
        at = align_up(at, region.alignment)
        places.append((at, handle.byte_size))
        at += handle.byte_size
    extent = at - start
    if not extent <= length <= align_up(extent, region.alignment):
        _fail(
            entry, region, "index.data_length",
            f"the buffers take {extent} bytes with the padding between them, but the index says {length}", start,
        )  # fmt: skip
    own = entry.descriptor_offset + entry.descriptor_length
    for offset, size in places:
        if size and offset < own and entry.descriptor_offset < offset + size:
            _fail(entry, region, "index.data_offset", "the data overlap the tensor's own descriptor", offset)
    return places


def extents(entry: Entry, places: Iterable[tuple[int, int]]) -> Iterator[Extent]:
    """Yield the bytes that a tensor occupies: its descriptor and its non-empty buffers."""
    yield Extent(entry.descriptor_offset, entry.descriptor_offset + entry.descriptor_length, entry.name)
    for offset, size in places:
        if size:
            yield Extent(offset, offset + size, entry.name)


def find_overlap(occupied: list[Extent]) -> tuple[Extent, Extent] | None:
    """Return two extents that share bytes, or None."""
    occupied.sort()
    for before, after in pairwise(occupied):
        if after.start < before.end:
            return before, after
    return None
