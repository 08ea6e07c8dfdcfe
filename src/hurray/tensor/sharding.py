"""Cutting tensors into shards, and shards put together again.

Format: descriptor, shard; composite, partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.model import Descriptor, handle_for
from hurray.descriptor.sections import Shard
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.kernels.boxes import grid_boxes
from hurray.layouts import CooLayout, RowMajorLayout
from hurray.layouts._base import Encoded, Payload, as_index_tuple
from hurray.layouts._region import Region
from hurray.layouts._sparse import SparseLayout
from hurray.quantization._base import Scheme
from hurray.tensor.build import asarray, from_numpy
from hurray.tensor.composite import Composite
from hurray.tensor.forming import read_only
from hurray.tensor.relayout import renumber
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import check_content, codes_of, payload_of

__all__ = ["assemble", "shard"]

#: offset and size of a shard
Box = tuple[tuple[int, ...], tuple[int, ...]]


def shard(x: Any, parts: Sequence[Any]) -> list[Tensor]:
    """Cut a tensor into shards: tensors that know where they lie in the whole.

    Parameters
    ----------
    x : Tensor or array_like
        What to cut.  Sparse tensors give sparse shards (csf: coo), others row-major ones; a view is taken where memory
        order allows it.  Per-tensor and per-channel quantization is kept.
    parts : sequence
        Either a grid, the number of shards along each dimension (their sizes differ by at most one), or boxes: each a
        tuple of slices of step 1, or a pair ``(offset, shape)``.

    Returns
    -------
    list of Tensor
        In row-major order of the grid, or in the order of the boxes.  Whether boxes tile the whole is checked by
        :func:`assemble`.

    Raises
    ------
    InvalidDescriptorError
        A grid or a box does not fit the shape.
    UnsupportedError
        A quantization scheme whose parameters cannot be cut, a block-paged or opaque tensor.

    Examples
    --------
    >>> import hurray
    >>> [(t.shape, t.shard.shard_offset) for t in hurray.shard(hurray.zeros([5, 4]), (2, 1))]
    [((3, 4), (0, 0)), ((2, 4), (3, 0))]

    Format: descriptor, shard.
    """
    t = x if isinstance(x, Tensor) else asarray(x)
    if t.layout.kind in ("indirect", "opaque"):
        raise UnsupportedError(f"a {t.layout.name} tensor cannot be cut into shards")
    payload = payload_of(t)
    return [_cut(t, payload, box) for box in _boxes(parts, payload.shape)]


def _boxes(parts: Sequence[Any], shape: tuple[int, ...]) -> list[Box]:
    if isinstance(parts, (str, bytes)) or not hasattr(parts, "__iter__"):
        raise TypeError(f"a grid or a sequence of boxes is needed, not {type(parts).__name__}")
    entries = list(parts)
    if entries and not all(hasattr(entry, "__index__") for entry in entries):
        return [_box(entry, shape, k) for k, entry in enumerate(entries)]
    grid = as_index_tuple(entries, "grid", low=1)
    if len(grid) != len(shape):
        raise InvalidDescriptorError(f"the grid {grid} needs one count for each of the {len(shape)} dimensions")
    return grid_boxes(shape, grid)


def _box(entry: Any, shape: tuple[int, ...], k: int) -> Box:
    items = entry if isinstance(entry, (tuple, list)) else (entry,)
    if len(items) == len(shape) and all(isinstance(item, slice) for item in items):
        spans = [range(*item.indices(n)) for item, n in zip(items, shape, strict=True)]
        if any(span.step != 1 for span in spans):
            raise InvalidDescriptorError(f"box {k}: a shard is contiguous, so its slices have step 1: {entry}")
        return tuple(span.start for span in spans), tuple(len(span) for span in spans)
    if len(items) != 2:
        raise InvalidDescriptorError(
            f"box {k} must be a slice for each of {len(shape)} dimensions, or a pair (offset, shape), not {entry!r}"
        )
    offset, size = (as_index_tuple(item, f"box {k}") for item in items)
    if len(offset) != len(shape) or len(size) != len(shape):
        raise InvalidDescriptorError(f"box {k} must have {len(shape)} dimensions, like the shape {shape}")
    if any(low + n > whole for low, n, whole in zip(offset, size, shape, strict=True)):
        raise InvalidDescriptorError(f"box {k} at {offset} of shape {size} sticks out of the shape {shape}")
    return offset, size


def _cut(t: Tensor, payload: Payload, box: Box) -> Tensor:
    offset, size = box
    region: Region = tuple(range(low, low + n) for low, n in zip(offset, size, strict=True))
    encoded = _encode(t, payload, region, size)
    buffers = [read_only(b) for b in encoded.buffers]
    scheme = t.quantization
    if isinstance(scheme, Scheme):
        old = scheme.buffer_indices()
        buffers += _cut_params(t, scheme, box)
        scheme = renumber(scheme, {index: len(encoded.buffers) + k for k, index in enumerate(old)})
    elif scheme is not None:
        raise UnsupportedError("the tensor has an unknown quantization scheme: it is carried, not interpreted")
    device = t.descriptor.device
    descriptor = Descriptor(
        dtype=t.dtype,
        shape=size,
        layout=encoded.layout,
        quantization=scheme,
        shard=Shard(payload.shape, offset),
        buffer_handles=tuple(handle_for(len(b), device) for b in buffers),
        extension_type=t.extension_type,
    )
    return Tensor._from_parts(descriptor, buffers)._replace()


def _encode(t: Tensor, payload: Payload, region: Region, size: tuple[int, ...]) -> Encoded:
    layout = t.layout
    if not isinstance(layout, SparseLayout):
        codes, _ = codes_of(t, payload, region)
        return RowMajorLayout.encode(codes, payload.bits)
    check_content(t, payload)
    positions, coords = layout.stored_in(payload, region)
    target: type[SparseLayout] = CooLayout if layout.name == "csf" else type(layout)
    codes = layout.values(payload)[positions]
    return target.from_coords(coords, codes, size, payload.bits)


def _cut_params(t: Tensor, scheme: Scheme, box: Box) -> list[NDArray[np.uint8]]:
    """Return the parameter buffers of one shard."""
    indices = scheme.buffer_indices()
    if not indices:
        return []
    if scheme.name != "per_channel_affine":
        raise UnsupportedError(
            f"the parameters of scheme {scheme.name} belong to blocks, which a shard may cut; dequantize() first"
        )
    axis: int = scheme.axis  # type: ignore[attr-defined]
    low, n = box[0][axis], box[1][axis]
    # Scales are f32 and zero points i32, one a channel.
    return [t._buffers[index][4 * low : 4 * (low + n)] for index in indices]


@overload
def assemble(shards: Iterable[Tensor | Composite], *, merge: Literal[False] = False) -> Composite: ...
@overload
def assemble(shards: Iterable[Tensor | Composite], *, merge: Literal[True]) -> Tensor: ...
def assemble(shards: Iterable[Tensor | Composite], *, merge: bool = False) -> Composite | Tensor:
    """Put shards together: a partition that holds them, or one dense tensor.

    Parameters
    ----------
    shards : iterable of Tensor or Composite
        In any order; each has a shard section.
    merge : bool
        Copy the values into one row-major tensor instead of holding the shards.

    Raises
    ------
    InvalidDescriptorError
        A shard section is missing, the parents or dtypes differ, or the shards do not tile the parent; the ones at
        fault are named.

    Examples
    --------
    >>> import hurray
    >>> whole = hurray.assemble(reversed(hurray.shard(hurray.eye(4), (2, 2))))
    >>> whole[1, :2].tolist()
    [0.0, 1.0]

    Format: composite, partition.
    """
    members = list(shards)
    if not members:
        raise InvalidDescriptorError("there are no shards to assemble")
    for k, member in enumerate(members):
        if not isinstance(member, (Tensor, Composite)):
            raise TypeError(f"shards[{k}] must be a hurray.Tensor or a hurray.Composite, got {type(member).__name__}")
    first = members[0].shard
    if first is None:
        raise InvalidDescriptorError(
            "shard 0 has no shard section, which says where it lies; partition() puts parts in a row"
        )
    whole = Composite(
        "partition",
        shape=first.parent_shape,
        dtype=_decoded_dtype(members),
        members=members,
        extension_type=members[0].extension_type,
    )
    return from_numpy(whole.to_numpy()) if merge else whole


def _decoded_dtype(members: Sequence[Tensor | Composite]) -> Dtype:
    """Return the dtype of the whole: that of a member that is not quantized, else float32."""
    for member in members:
        if member.descriptor.quantization is None:
            return member.dtype
    return BY_NAME["float32"]
