"""The header and the trailer of a file, and the checksum of its index.

Format: file container.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from hurray.errors import FileError
from hurray.records import record
from hurray.sources.kinds import kind_hint
from hurray.wire.reader import Reader

__all__ = [
    "FILE_MAGIC",
    "HEADER_BYTES",
    "MAX_ALIGNMENT",
    "MIN_ALIGNMENT",
    "TRAILER_BYTES",
    "UNKNOWN_COUNT",
    "Header",
    "Trailer",
    "align_up",
    "check_alignment",
    "crc32c",
    "parse_header",
    "parse_trailer",
]

FILE_MAGIC = b"HRRYFILE"
TRAILER_MAGIC = b"HRRY"
HEADER_BYTES = 64
TRAILER_BYTES = 40
MIN_ALIGNMENT = 4096
MAX_ALIGNMENT = 2 * 1024 * 1024
UNKNOWN_COUNT = 2**64 - 1

_HAS_KV, _SORTED, _HAS_CRC = 1, 2, 4
_HEADER = struct.Struct("<8sBBHIIQQ28x")
_TRAILER = struct.Struct("<QQQII4x4s")


@record(kw_only=True)
class Header:
    """The first 64 bytes of a file.

    Parameters
    ----------
    has_kv, is_sorted, has_crc : bool
        The file flags: a key-value section, an index in name order, a checksum of the index.
    alignment : int
        Every buffer starts at a multiple of it, in bytes.
    first_descriptor_offset : int
        Where the tensor region starts.
    tensor_count_hint : int or None
        About how many tensors there are; None when unknown.
    version : tuple of int
        Container version.

    Format: file container, header.
    """

    has_kv: bool = False
    is_sorted: bool = False
    has_crc: bool = True
    alignment: int = MIN_ALIGNMENT
    first_descriptor_offset: int = HEADER_BYTES
    tensor_count_hint: int | None = None
    version: tuple[int, int] = (1, 0)

    def encode(self) -> bytes:
        """Return the 64 bytes."""
        flags = self.has_kv * _HAS_KV | self.is_sorted * _SORTED | self.has_crc * _HAS_CRC
        hint = UNKNOWN_COUNT if self.tensor_count_hint is None else self.tensor_count_hint
        return _HEADER.pack(FILE_MAGIC, *self.version, 0, flags, self.alignment, self.first_descriptor_offset, hint)


class Trailer(NamedTuple):
    """The last 40 bytes of a file; ``kv_length`` 0 means that there is no key-value section.

    Format: file container, trailer.
    """

    index_offset: int
    index_length: int
    kv_offset: int
    kv_length: int
    index_crc: int

    def encode(self) -> bytes:
        """Return the 40 bytes."""
        return _TRAILER.pack(*self, TRAILER_MAGIC)


def align_up(offset: int, alignment: int) -> int:
    """Return the least multiple of ``alignment`` (a power of two) that is not below ``offset``."""
    return (offset + alignment - 1) & -alignment


def check_alignment(alignment: int) -> bool:
    """Tell whether a data alignment is one that the format allows."""
    return MIN_ALIGNMENT <= alignment <= MAX_ALIGNMENT and alignment & (alignment - 1) == 0


def parse_header(data: bytes, name: str) -> Header:
    """Decode the header of the file called ``name``.

    Raises
    ------
    FileError
        Not a Hurray file, a version that is not 1.x, or a field that breaks the format.
    """
    if data[:8] != FILE_MAGIC:
        message = f"{name}: not a Hurray file: it starts with {data[:8]!r}, not {FILE_MAGIC!r}{kind_hint(data)}"
        raise FileError(message, filename=name)
    r = Reader(data, 8, HEADER_BYTES, error=FileError, what=f"{name}: file header")
    major, minor = r.u8("version_major"), r.u8("version_minor")
    if major != 1:
        message = f"container version {major}.{minor} is not supported; this library reads 1.x"
        r.fail(message, field="version_major", offset=8)
    r.reserved(2)
    flags = r.u32("file_flags")
    if flags & ~(_HAS_KV | _SORTED | _HAS_CRC):
        r.fail(f"reserved flag bits are set: {flags:#010x}", field="file_flags", offset=12)
    alignment = r.u32("data_buffer_alignment")
    if not check_alignment(alignment):
        r.fail(
            f"must be a power of two in {MIN_ALIGNMENT}..{MAX_ALIGNMENT}, but is {alignment}",
            field="data_buffer_alignment", offset=16,
        )  # fmt: skip
    first = r.u64("first_descriptor_offset")
    if first < HEADER_BYTES or first % 8:
        r.fail(
            f"must be a multiple of 8 and at least {HEADER_BYTES}, but is {first}",
            field="first_descriptor_offset", offset=20,
        )  # fmt: skip
    count = r.u64("tensor_count_hint")
    r.reserved(28)
    return Header(
        has_kv=bool(flags & _HAS_KV), is_sorted=bool(flags & _SORTED), has_crc=bool(flags & _HAS_CRC),
        alignment=alignment, first_descriptor_offset=first, tensor_count_hint=None if count == UNKNOWN_COUNT else count,
        version=(major, minor),
    )  # fmt: skip


def parse_trailer(data: bytes, file_size: int, header: Header, name: str) -> Trailer:
    """Decode the trailer of the file called ``name`` and check where its sections lie.

    Parameters
    ----------
    data : bytes
        The last 40 bytes.
    file_size : int
        Size of the whole file, in bytes.
    header : Header
        The header, whose flags must agree.

    Raises
    ------
    FileError
        The file is cut short, or a section lies where it cannot.
    """
    base = file_size - TRAILER_BYTES
    if data[-4:] != TRAILER_MAGIC:
        raise FileError(
            f"{name}: ends with {data[-4:]!r}, not the trailer's {TRAILER_MAGIC!r}: the file is cut short or has bytes "
            "appended",
            filename=name,
        ).at(field="trailer.magic", offset=file_size - 4)
    trailer = Trailer(*_TRAILER.unpack(data)[:5])

    def fail(field: str, message: str) -> FileError:
        error = FileError(f"{name}: file trailer, {field}: {message}", filename=name)
        error.at(field=f"trailer.{field}", offset=base)
        return error

    if any(data[32:36]):
        raise fail("reserved", f"reserved bytes must be 0, but hold {data[32:36].hex()}")
    if not header.has_crc and trailer.index_crc:
        crc = trailer.index_crc
        raise fail("index_crc32c", f"must be 0 when the header's checksum flag is clear, but is {crc:#010x}")
    if header.has_kv and trailer.kv_length == 0:
        raise fail("kv_length", "is 0, but the header's flags announce a key-value section")
    sections = [("index", trailer.index_offset, trailer.index_length, 8)]
    if trailer.kv_length:
        sections.append(("kv", trailer.kv_offset, trailer.kv_length, 4))
    for section, offset, length, least in sections:
        if offset % 8:
            raise fail(f"{section}_offset", f"must be a multiple of 8, but is {offset}")
        if offset < HEADER_BYTES:
            raise fail(f"{section}_offset", f"{offset} lies inside the {HEADER_BYTES}-byte header")
        if offset + length > base:
            raise fail(f"{section}_length", f"{length} bytes at {offset} run past the trailer, which starts at {base}")
        if length < least:
            raise fail(f"{section}_length", f"{length} bytes are too few for the section's count")
    if len(sections) == 2:
        (_, a, a_length, _), (_, b, b_length, _) = sections
        if a < b + b_length and b < a + a_length:
            raise fail("kv_offset", "the index and the key-value section overlap")
    return trailer


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of ``data``.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    # Imported here because the package costs milliseconds and only files need it.
    import google_crc32c

    return int(google_crc32c.value(data))
