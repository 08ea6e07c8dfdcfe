"""How a large dense array is worked through in slabs, so that what is only on the way stays small.

A slab is a run of indices along one axis.  The axis is the one along which the layout stores slabs apart from each
other, and the cuts fall between tiles, curve cubes and quantization blocks, so that nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm, prod
from typing import TYPE_CHECKING, Any

from hurray.layouts._region import Region, region_shape

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["slabs"]

#: smallest slab in elements, and how many there are at most
_LEAST_ELEMS = 1 << 17
_MOST_SLABS = 8
#: extents of the cubes by which curves are read, by rank
_CUBES = {2: 128, 3: 16, 4: 8}


def slabs(t: Tensor, region: Region) -> Iterator[tuple[tuple[Any, ...], Region]]:
    """Yield the slabs of a region: where each sits in an array of the region's shape, and its own region."""
    shape = region_shape(region)
    total = prod(shape)
    if total <= _LEAST_ELEMS:
        # An ellipsis, because an empty tuple would pick the number out of an array without dimensions.
        yield (...,), region
        return
    axis = _axis(t, shape)
    row = total // shape[axis]
    rows = max(1, max(_LEAST_ELEMS, total // _MOST_SLABS) // row)
    unit = _unit(t, axis)
    if rows > unit:
        rows -= rows % unit
    elif unit * row <= total // 4:
        rows = unit
    first = region[axis]
    start = (-first.start) % unit if isinstance(first, range) and first.step == 1 and rows >= unit else 0
    for begin, end in _cuts(shape[axis], start, rows):
        place = tuple(slice(begin, end) if k == axis else slice(None) for k in range(len(shape)))
        yield place, tuple(indices[begin:end] if k == axis else indices for k, indices in enumerate(region))


def _cuts(n: int, head: int, step: int) -> Iterator[tuple[int, int]]:
    """Cut ``n`` indices into runs of ``step``, the first of which may be shorter."""
    begin = 0
    while begin < n:
        end = min(n, begin + step if begin or not head else head)
        yield begin, end
        begin = end


def _axis(t: Tensor, shape: tuple[int, ...]) -> int:
    layout: Any = t.layout
    order = list(range(len(shape)))
    if layout.name == "col_major" or (layout.name == "tiled" and layout.outer_layout == "col_major"):
        order.reverse()
    elif layout.name == "strided":
        order.sort(key=lambda k: -abs(layout.strides[k]))
    # A short axis would leave slabs that are large.
    return next((k for k in order if shape[k] >= _MOST_SLABS), max(order, key=lambda k: shape[k]))


def _unit(t: Tensor, axis: int) -> int:
    """Return the number of indices along an axis that are best read together."""
    layout: Any = t.layout
    unit = 1
    if layout.name == "tiled":
        unit = layout.tile_shape[axis]
    elif layout.name in ("morton", "hilbert") and axis == 0:
        unit = _CUBES.get(t.ndim, 1)
    scheme: Any = t.quantization
    if getattr(scheme, "axis", None) == axis:
        unit = lcm(unit, getattr(scheme, "block_size", 1))
    return int(unit)
