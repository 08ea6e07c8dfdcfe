"""The values of partitions and overlays, put together from the members that a region meets.

A region of the head is clipped to each member's box: the clipped region is read from the member, and the positions of
its indices say where they go.  Sparse corrections are never made dense: only their stored entries are touched.

Format: composite, partition and overlay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hurray.errors import UnsupportedError
from hurray.kernels.boxes import meeting
from hurray.layouts._base import n_elements
from hurray.layouts._region import Axis, Region, axis_array, axis_bounds, region_shape
from hurray.layouts._sparse import SparseLayout
from hurray.limits import DEFAULT_LIMITS
from hurray.quantization._base import Scheme
from hurray.tensor.relayout import dequantize_values
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import as_values, check_content, lookup, params_of, payload_of, read_region

if TYPE_CHECKING:
    from hurray.tensor.composite import Composite

__all__ = ["Boxes", "pick_points", "read_block"]

Array = NDArray[Any]
I64 = NDArray[np.int64]
#: offsets and sizes of the members, uint64 of shape (n, rank)
Boxes: TypeAlias = "tuple[NDArray[np.uint64], NDArray[np.uint64]]"
#: where the indices of a clipped axis go in the block
Place: TypeAlias = "slice | I64"


def read_block(c: Composite, region: Region) -> Array:
    """Return the values of a region of a partition or overlay, in the head's dtype."""
    target = _target(c)
    shape = region_shape(region)
    n_bytes = n_elements(shape) * target.itemsize
    if n_bytes > DEFAULT_LIMITS.max_dense_bytes:
        raise UnsupportedError(
            f"a dense array of shape {shape} takes {n_bytes} bytes, more than the limit of "
            f"{DEFAULT_LIMITS.max_dense_bytes}; read a region of the composite instead"
        )
    try:
        out: Array = np.empty(shape, target)
    except (MemoryError, ValueError, OverflowError):
        raise UnsupportedError(f"not enough memory for a dense array of shape {shape}") from None
    if 0 in shape:
        return out
    offsets, sizes = c._member_boxes()
    bounds = tuple(axis_bounds(axis) for axis in region)
    add = c.combine_op == "add"
    with np.errstate(all="ignore"):
        for k in meeting(offsets, sizes, bounds).tolist():
            clipped = _clip(region, offsets[k].tolist(), sizes[k].tolist())
            if clipped is None:
                continue
            part, places = clipped
            member = c.members[k]
            # The base of an overlay covers every index, so nothing of ``out`` stays unset.
            if k and c.composition_rule == "overlay":
                _correct(out, member, part, places, add=add)
            else:
                out[_block(places)] = _member_values(member, part, target)
    return out


def _target(c: Composite) -> np.dtype[Any]:
    if c.dtype.is_opaque:
        raise UnsupportedError(f"dtype {c.dtype!r} is private or unknown: its elements are carried, not interpreted")
    found = c.dtype.numpy
    # float128 values are handed over as float64, as those of a tensor are.
    return np.dtype(np.float64) if found is None else found


def _member_values(member: Tensor | Composite, region: Region, target: np.dtype[Any]) -> Array:
    if not isinstance(member, Tensor):
        return read_block(member, region)
    if member.quantization is None:
        return read_region(member, region)
    return dequantize_values(member, region, None).astype(target, copy=False)


def _correct(out: Array, member: Tensor, part: Region, places: tuple[Place, ...], *, add: bool) -> None:
    if isinstance(member.layout, SparseLayout):
        coords, values = _stored_values(member, part, out.dtype)
        index: Any = tuple(_positions(place, coords[:, k]) for k, place in enumerate(places))
    else:
        index, values = _block(places), _member_values(member, part, out.dtype)
    if add:
        out[index] = out[index] + values
    else:
        out[index] = values


def _stored_values(t: Tensor, region: Region, target: np.dtype[Any]) -> tuple[I64, Array]:
    """Return the stored entries inside a region: their places on its axes, and their values."""
    payload = payload_of(t)
    check_content(t, payload)
    layout: Any = t.layout
    positions, coords = layout.stored_in(payload, region)
    codes = layout.values(payload)[positions]
    if t.quantization is None:
        return coords, as_values(t, codes)
    scheme = t.quantization
    if not isinstance(scheme, Scheme):
        raise UnsupportedError("a member has an unknown quantization scheme: it is carried, not interpreted")
    params = params_of(t)
    scheme.check_values(params)
    absolute = np.empty_like(coords)
    for k, axis in enumerate(region):
        absolute[:, k] = axis_array(axis)[coords[:, k]]
    return coords, scheme.dequantize_stored(codes, absolute, params).astype(target, copy=False)


def _clip(region: Region, offset: list[int], size: list[int]) -> tuple[Region, tuple[Place, ...]] | None:
    """Return the part of a region inside a box, relative to it, and where that part goes; None when it is empty."""
    part: list[Axis] = []
    places: list[Place] = []
    for axis, low, n in zip(region, offset, size, strict=True):
        if isinstance(axis, range):
            first, last = _inside(axis, low, low + n)
            if first >= last:
                return None
            kept = axis[first:last]
            part.append(range(kept.start - low, kept.stop - low, kept.step))
            places.append(slice(first, last))
        else:
            where = np.flatnonzero((axis >= low) & (axis < low + n)).astype(np.int64, copy=False)
            if not len(where):
                return None
            part.append(axis[where] - low)
            places.append(where)
    return tuple(part), tuple(places)


def _inside(axis: range, low: int, high: int) -> tuple[int, int]:
    """Return the positions on ``axis`` of the indices in ``low..high-1``, as a half-open interval."""
    if axis.step > 0:
        first = -((axis.start - low) // axis.step)
        last = -((axis.start - high) // axis.step)
    else:
        first = (axis.start - high) // -axis.step + 1
        last = (axis.start - low) // -axis.step + 1
    return max(0, first), min(len(axis), last)


def _block(places: tuple[Place, ...]) -> Any:
    """Return the index of a block: slices where all places are, else an outer product of positions."""
    if all(isinstance(place, slice) for place in places):
        return places
    return np.ix_(*(np.arange(p.start, p.stop) if isinstance(p, slice) else p for p in places))


def _positions(place: Place, coords: I64) -> I64:
    return coords + place.start if isinstance(place, slice) else place[coords]


def pick_points(c: Composite, points: I64) -> Array:
    """Return the values at coordinates, int64 of shape (n, rank), in the head's dtype; only members there are read."""
    out: Array = np.empty(len(points), _target(c))
    if not len(points):
        return out
    offsets, sizes = c._member_boxes()
    bounds = tuple((int(column.min()), int(column.max()) + 1) for column in points.T)
    overlay = c.composition_rule == "overlay"
    with np.errstate(all="ignore"):
        for k in meeting(offsets, sizes, bounds).tolist():
            low, n = offsets[k].tolist(), sizes[k].tolist()
            inside = np.ones(len(points), np.bool_)
            for axis in range(points.shape[1]):
                inside &= (points[:, axis] >= low[axis]) & (points[:, axis] < low[axis] + n[axis])
            where = np.flatnonzero(inside)
            if not len(where):
                continue
            member = c.members[k]
            relative = points[where] - np.array(low, np.int64)
            if overlay and k and isinstance(member, Tensor) and isinstance(member.layout, SparseLayout):
                payload = payload_of(member)
                check_content(member, payload)
                stored = member.layout.lookup(payload, relative) >= 0
                where, relative = where[stored], relative[stored]
            values = _point_values(member, relative, out.dtype)
            out[where] = out[where] + values if k and c.combine_op == "add" else values
    return out


def _point_values(member: Tensor | Composite, points: I64, target: np.dtype[Any]) -> Array:
    if not isinstance(member, Tensor):
        return pick_points(member, points)
    if member.quantization is None:
        return lookup(member, points)
    # Schemes decode blocks, not points: a block per distinct row keeps what is decoded close to what is asked for.
    values = np.empty(len(points), np.float32)
    rows, inverse = np.unique(points[:, :-1], axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    ends = np.searchsorted(inverse.reshape(-1)[order], np.arange(len(rows) + 1))
    for k, row in enumerate(rows.tolist()):
        chosen = order[ends[k] : ends[k + 1]]
        columns, place = np.unique(points[chosen, -1], return_inverse=True)
        region: Region = (*(range(at, at + 1) for at in row), columns)
        values[chosen] = dequantize_values(member, region, None).reshape(-1)[place.reshape(-1)]
    return values.astype(target, copy=False)
