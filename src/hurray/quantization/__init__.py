"""The quantization schemes: one table from wire tag to class.

Format: quantization.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hurray.errors import InvalidDescriptorError
from hurray.lazy import ClassTable
from hurray.quantization._base import Params, ParamSpec, Quantized, Scheme, SchemeContext, UnknownScheme
from hurray.wire.reader import Reader

if TYPE_CHECKING:
    from hurray.quantization.mxfp import MXFP
    from hurray.quantization.nf4 import NF4
    from hurray.quantization.per_block import PerBlockAffine
    from hurray.quantization.per_channel import PerChannelAffine
    from hurray.quantization.per_tensor import PerTensorAffine
    from hurray.quantization.recipes import RECIPES, Recipe, recipe

__all__ = [
    "MXFP",
    "NF4",
    "RECIPES",
    "SCHEMES",
    "ParamSpec",
    "Params",
    "PerBlockAffine",
    "PerChannelAffine",
    "PerTensorAffine",
    "Quantized",
    "Recipe",
    "Scheme",
    "SchemeContext",
    "UnknownScheme",
    "decode_quantization",
    "parse_payload",
    "recipe",
]

#: Every scheme that the format defines, by wire tag.
SCHEMES: ClassTable[int, Scheme] = ClassTable(
    __name__,
    {
        0x01: ("per_tensor", "PerTensorAffine"),
        0x02: ("per_channel", "PerChannelAffine"),
        0x03: ("per_block", "PerBlockAffine"),
        0x04: ("nf4", "NF4"),
        0x05: ("mxfp", "MXFP"),
    },
)

#: The flag bits that each scheme defines.
_FLAG_BITS = {0x02: 1, 0x03: 1}


def __getattr__(name: str) -> Any:
    # Recipes name all schemes.
    if name in ("RECIPES", "Recipe", "recipe"):
        return getattr(importlib.import_module(f"{__name__}.recipes"), name)
    return SCHEMES.attribute(name)


def decode_quantization(data: bytes | bytearray | memoryview) -> Scheme:
    """Decode the payload of a quantization section, without its length prefix.

    Raises
    ------
    InvalidDescriptorError
        The scheme or its version is unknown, or a field is not legal.

    Examples
    --------
    >>> import hurray
    >>> decode_quantization(hurray.NF4(0, 64, 1).encode())
    NF4(axis=0, block_size=64, scale_buffer_index=1)

    Format: quantization.
    """
    try:
        view = memoryview(data).cast("B") if not isinstance(data, (bytes, bytearray)) else data
    except ValueError as error:  # arrays of dates, which have no buffer format
        raise TypeError(f"bytes-like data are needed, not {type(data).__name__}: {error}") from None
    scheme = parse_payload(Reader(view, what="quantization"))
    if isinstance(scheme, UnknownScheme):
        raise InvalidDescriptorError("quantization: unknown scheme")
    return scheme


def parse_payload(r: Reader, *, permissive: bool = False) -> Scheme | UnknownScheme:
    """Read a payload that takes all that is left of ``r``.

    Parameters
    ----------
    permissive : bool
        Keep the bytes of a scheme with an unknown tag or version for relay, instead of refusing it.
    """
    start, end = r.offset, r.end
    tag = r.u8("scheme_tag")
    version = r.u8("scheme_version")
    flags_at = r.offset
    flags = r.u16("flags")
    scheme = SCHEMES.get(tag)
    if scheme is None or version != scheme.version:
        if permissive and tag not in (0x00, 0xFF):
            # The head has been read already, so it is put in front again.
            head = bytes((tag, version)) + flags.to_bytes(2, "little")
            return UnknownScheme(head + r.take(r.remaining, "unknown"))
        if scheme is None:
            r.fail(f"scheme tag {tag:#04x} is {_tag_kind(tag)}", field="scheme_tag", offset=start)
        r.fail(f"version {version} of scheme {scheme.name} is not supported", field="scheme_version", offset=start + 1)
    if flags & ~_FLAG_BITS.get(tag, 0):
        r.fail(f"undefined flag bits are set: {flags:#06x}", field="flags", offset=flags_at)
    if end - start < scheme.payload_bytes:
        needed = scheme.payload_bytes
        r.fail(f"scheme {scheme.name} needs {needed} bytes, but the payload has {end - start}", offset=start)
    return scheme.parse_fields(r, flags)


def _tag_kind(tag: int) -> str:
    if tag in (0x00, 0xFF):
        return "permanently invalid"
    if tag >= 0xF0:
        return "private"
    return "reserved" if tag >= 0x80 or 0x60 <= tag <= 0x7F else "unassigned"
