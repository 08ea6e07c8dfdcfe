"""What opening a file reads: header, trailer and index.

Format: file container.
"""

from __future__ import annotations

from hurray.container.header import (
    HEADER_BYTES,
    TRAILER_BYTES,
    Header,
    Trailer,
    crc32c,
    parse_header,
    parse_trailer,
)
from hurray.container.index import Index
from hurray.container.ranges import Region
from hurray.errors import FileError
from hurray.records import record
from hurray.sources import Source
from hurray.sources.kinds import kind_hint

__all__ = ["Frame", "check_crc", "make_index", "read_frame"]


@record
class Frame:
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
        hint = kind_hint(source.read(0, size)) or ": it is empty, cut short, or of another kind"
        raise FileError(
            f"{name}: {size} bytes are too few for a Hurray file, which has at least {HEADER_BYTES + TRAILER_BYTES}"
            f"{hint}",
            filename=name,
        )
    header = parse_header(source.read(0, HEADER_BYTES), name)
    trailer = parse_trailer(source.read(size - TRAILER_BYTES, TRAILER_BYTES), size, header, name)
    data = source.read(trailer.index_offset, trailer.index_length)
    check_crc(header, trailer, data, name)
    return Frame(header, trailer, *make_index(header, trailer, data, name))


def check_crc(header: Header, trailer: Trailer, index: bytes, name: str) -> None:
    """Check the index against its checksum, where the header says that it has one."""
    if not header.has_crc:
        return
    computed = crc32c(index)
    if computed != trailer.index_crc:
        raise FileError(
            f"{name}: the index is corrupt: its CRC-32C is {computed:#010x}, the trailer says "
            f"{trailer.index_crc:#010x}",
            filename=name,
        ).at(field="trailer.index_crc32c", offset=trailer.index_offset)


def make_index(header: Header, trailer: Trailer, data: bytes, name: str) -> tuple[Index, Region]:
    """Scan the index and find the tensor region, which ends where the first section starts."""
    index = Index(data, offset=trailer.index_offset, name=name, is_sorted=header.is_sorted)
    end = min(trailer.index_offset, trailer.kv_offset) if trailer.kv_length else trailer.index_offset
    return index, Region(header.first_descriptor_offset, end, header.alignment, name)
