"""Private and unknown layouts: carried, never interpreted.

Format: layouts, private and unknown.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from hurray.dtypes.table import PRIVATE_TAGS
from hurray.errors import ArgumentTypeError, InvalidDescriptorError, UnsupportedError
from hurray.layouts._base import BufferSpec, Codes, Layout, Payload, as_int, set_field
from hurray.layouts._region import Region
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["PrivateExtensionLayout", "UnknownLayout"]


def _raw(data: Any) -> bytes:
    """Return bytes-like data as bytes."""
    try:
        return bytes(memoryview(data))
    except ValueError as error:  # arrays of dates, which have no buffer format
        raise ArgumentTypeError(f"bytes-like data are needed, not {type(data).__name__}: {error}") from None


class _Opaque(Layout):
    """A layout whose buffers mean nothing to this library."""

    __slots__ = ()
    name = "extension"
    kind = "opaque"

    @property
    def buffer_count(self) -> int | None:
        return None

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        return ()

    def read(self, payload: Payload, region: Region) -> Codes:
        raise UnsupportedError(f"{self!r} ('extension') is opaque: its buffers are carried, not interpreted")


@record
class PrivateExtensionLayout(_Opaque):
    """A private layout (tags 0xF0-0xFE): an id and bytes whose meaning only its users know.

    Parameters
    ----------
    tag : int
        Wire tag, 0xF0-0xFE.
    extension_layout_id : int
        Unsigned 64-bit id.
    extension_data : bytes, optional
        Whatever the layout's users need.

    Format: layouts, private and unknown.
    """

    tag: int  # type: ignore[misc]
    extension_layout_id: int
    extension_data: bytes

    def __init__(self, tag: int, extension_layout_id: int, extension_data: bytes | None = None) -> None:
        number = as_int(tag, "tag", high=0xFF)
        if number not in PRIVATE_TAGS:
            raise InvalidDescriptorError(f"a private layout tag lies in 0xF0-0xFE, not {number:#04x}")
        data = b"" if extension_data is None else _raw(extension_data)
        set_field(self, "tag", number)
        set_field(self, "extension_layout_id", as_int(extension_layout_id, "extension_layout_id"))
        set_field(self, "extension_data", data)

    def __repr__(self) -> str:
        return (
            f"PrivateExtensionLayout(tag=0x{self.tag:02X}, extension_layout_id={self.extension_layout_id}, "
            f"extension_data={len(self.extension_data)} bytes)"
        )

    @classmethod
    def parse_tagged(cls, tag: int, r: Reader) -> Self:
        """Read the fields of the private layout ``tag``."""
        layout_id = r.u64("extension_layout_id")
        length = r.u32("extension_data_length")
        return cls(tag, layout_id, r.take(length, "extension_data"))

    def write_fields(self, w: Writer) -> None:
        w.u64(self.extension_layout_id)
        w.u32(len(self.extension_data))
        w.raw(self.extension_data)


@record
class UnknownLayout(_Opaque):
    """A layout tag that this version of the format does not define, kept for relay by permissive readers.

    Parameters
    ----------
    tag : int
        A wire tag without a class of its own.
    raw_bytes : bytes, optional
        The layout's field bytes, or (when they cannot be told apart from what follows) all bytes behind the
        descriptor's byte offset.

    Raises
    ------
    ValueError
        The tag has a class of its own, which is named.
    InvalidDescriptorError
        The tag can never be a layout.

    Format: layouts, private and unknown.
    """

    tag: int  # type: ignore[misc]
    raw_bytes: bytes

    #: filled by the layout table: wire tags that have a class, and its name
    named: ClassVar[dict[int, tuple[str, str]]] = {}

    def __init__(self, tag: int, raw_bytes: bytes | None = None) -> None:
        number = as_int(tag, "tag", high=0xFF)
        if number in self.named:
            name, cls_name = self.named[number]
            raise ValueError(
                f"tag {number:#04x} is the {name} layout, not an unknown one; use hurray.{cls_name} instead"
            )
        if number in PRIVATE_TAGS:
            raise ValueError(f"tag {number:#04x} is private, not unknown; use hurray.PrivateExtensionLayout instead")
        if number in (0x00, 0xFF):
            raise InvalidDescriptorError(f"tag {number:#04x} is invalid and can never be a layout")
        set_field(self, "tag", number)
        set_field(self, "raw_bytes", b"" if raw_bytes is None else _raw(raw_bytes))

    def __repr__(self) -> str:
        return f"UnknownLayout(tag=0x{self.tag:02X}, raw_bytes={len(self.raw_bytes)} bytes)"

    def write_fields(self, w: Writer) -> None:
        w.raw(self.raw_bytes)

    def encode_options(self) -> dict[str, Any]:
        raise UnsupportedError(f"{self!r} is opaque: elements cannot be written in it")
