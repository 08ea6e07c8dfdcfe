"""The layouts: one table from wire tag to class.

Format: layouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hurray.errors import InvalidDescriptorError
from hurray.layouts._base import BufferSpec, Encoded, Layout, Payload, SeparableLayout
from hurray.layouts._region import Region, full_region
from hurray.layouts._sparse import SparseLayout
from hurray.layouts.private import PrivateExtensionLayout, UnknownLayout
from hurray.lazy import ClassTable

if TYPE_CHECKING:
    from hurray.layouts.block_paged import BlockPagedLayout
    from hurray.layouts.composite import CompositeLayout
    from hurray.layouts.coo import CooLayout
    from hurray.layouts.csc import CscLayout
    from hurray.layouts.csf import CsfLayout
    from hurray.layouts.csr import CsrLayout
    from hurray.layouts.hilbert import HilbertLayout
    from hurray.layouts.morton import MortonLayout
    from hurray.layouts.row_major import ColMajorLayout, RowMajorLayout
    from hurray.layouts.strided import StridedLayout
    from hurray.layouts.tiled import TiledLayout

__all__ = [
    "LAYOUTS",
    "LAYOUTS_BY_NAME",
    "BlockPagedLayout",
    "BufferSpec",
    "ColMajorLayout",
    "CompositeLayout",
    "CooLayout",
    "CscLayout",
    "CsfLayout",
    "CsrLayout",
    "Encoded",
    "HilbertLayout",
    "Layout",
    "MortonLayout",
    "Payload",
    "PrivateExtensionLayout",
    "Region",
    "RowMajorLayout",
    "SeparableLayout",
    "SparseLayout",
    "StridedLayout",
    "TiledLayout",
    "UnknownLayout",
    "full_region",
    "layout_by_name",
    "layout_tag_kind",
]

#: wire tag, name, module and class of every layout that the format defines
_TABLE = (
    (0x01, "row_major", "row_major", "RowMajorLayout"),
    (0x02, "col_major", "row_major", "ColMajorLayout"),
    (0x03, "strided", "strided", "StridedLayout"),
    (0x04, "tiled", "tiled", "TiledLayout"),
    (0x05, "morton", "morton", "MortonLayout"),
    (0x06, "coo", "coo", "CooLayout"),
    (0x07, "csr", "csr", "CsrLayout"),
    (0x08, "csc", "csc", "CscLayout"),
    (0x09, "csf", "csf", "CsfLayout"),
    (0x0A, "block_paged", "block_paged", "BlockPagedLayout"),
    (0x0B, "composite", "composite", "CompositeLayout"),
    (0x40, "hilbert", "hilbert", "HilbertLayout"),
)
LAYOUTS: ClassTable[int, Layout] = ClassTable(__name__, {tag: (module, cls) for tag, _, module, cls in _TABLE})
LAYOUTS_BY_NAME: ClassTable[str, Layout] = ClassTable(__name__, {name: (mod, cls) for _, name, mod, cls in _TABLE})
UnknownLayout.named.update({tag: (name, cls) for tag, name, _, cls in _TABLE})


def __getattr__(name: str) -> Any:
    return LAYOUTS.attribute(name)


def layout_by_name(name: str) -> type[Layout]:
    """Return the layout class called ``name``.

    Raises
    ------
    InvalidDescriptorError
        No layout has that name.
    """
    found = LAYOUTS_BY_NAME.get(name)
    if found is None:
        raise InvalidDescriptorError(f"unknown layout {name!r}; known: {', '.join(LAYOUTS_BY_NAME)}")
    return found


def layout_tag_kind(tag: int) -> str:
    """Tell what a layout tag is: ``named``, ``reserved``, ``private`` or ``invalid``.

    Examples
    --------
    >>> import hurray
    >>> hurray.layout_tag_kind(0x07)
    'named'

    Format: layouts.
    """
    if isinstance(tag, bool) or not hasattr(tag, "__index__"):
        raise TypeError(f"a layout tag is an int, not {type(tag).__name__}")
    number = tag.__index__()
    if not 0 < number < 0xFF:
        return "invalid"
    if number in LAYOUTS:
        return "named"
    return "private" if number >= 0xF0 else "reserved"
