"""The layouts: one table from wire tag to class.

Format: layouts.
"""

from __future__ import annotations

from hurray.errors import InvalidDescriptorError
from hurray.layouts._base import BufferSpec, Encoded, Layout, Payload, SeparableLayout
from hurray.layouts._region import Region, full_region
from hurray.layouts._sparse import SparseLayout
from hurray.layouts.block_paged import BlockPagedLayout
from hurray.layouts.composite import CompositeLayout
from hurray.layouts.coo import CooLayout
from hurray.layouts.csc import CscLayout
from hurray.layouts.csf import CsfLayout
from hurray.layouts.csr import CsrLayout
from hurray.layouts.hilbert import HilbertLayout
from hurray.layouts.morton import MortonLayout
from hurray.layouts.private import PrivateExtensionLayout, UnknownLayout
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

#: Every layout that the format defines, by wire tag.
LAYOUTS: dict[int, type[Layout]] = {
    0x01: RowMajorLayout,
    0x02: ColMajorLayout,
    0x03: StridedLayout,
    0x04: TiledLayout,
    0x05: MortonLayout,
    0x06: CooLayout,
    0x07: CsrLayout,
    0x08: CscLayout,
    0x09: CsfLayout,
    0x0A: BlockPagedLayout,
    0x0B: CompositeLayout,
    0x40: HilbertLayout,
}
LAYOUTS_BY_NAME: dict[str, type[Layout]] = {cls.name: cls for cls in LAYOUTS.values()}
UnknownLayout.named.update({tag: (cls.name, cls.__name__) for tag, cls in LAYOUTS.items()})


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
