"""Composites from tensors that do not know yet where they lie.

Format: composite; descriptor, shard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.layouts._base import as_index_tuple, as_int
from hurray.tensor.build import asarray
from hurray.tensor.composite import Composite, Member
from hurray.tensor.foreign import converter_for
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import dense_shape

__all__ = ["as_item", "group", "overlay", "partition"]


def as_item(obj: Any) -> Member:
    """Return a tensor, a composite, or an array of any library as a tensor that shares its memory where it can.

    Raises
    ------
    TypeError
        It is something else; :func:`hurray.asarray` makes tensors of more.
    """
    if isinstance(obj, (Tensor, Composite)):
        return obj
    if isinstance(obj, np.ndarray) or hasattr(obj, "__dlpack__") or converter_for(obj) is not None:
        return asarray(obj)
    raise TypeError(f"expected a hurray.Tensor or a hurray.Composite, got {type(obj).__name__}")


def partition(parts: Iterable[Any], axis: int = 0) -> Composite:
    """Return one tensor in parts, which follow each other along an axis; no value is copied.

    Parameters
    ----------
    parts : iterable of Tensor or array_like
        In order, alike in all other dimensions and in dtype.  Where they lie is written into their shard sections.
        Parts that know that already, as those of :func:`hurray.shard`, are put together by :func:`hurray.assemble`.
    axis : int
        May be negative.

    Raises
    ------
    InvalidDescriptorError
        There is no part, or the parts do not fit; the one at fault is named.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> whole = hurray.partition([np.zeros((2, 3)), np.ones((1, 3))])
    >>> whole.shape, whole[1:, 0].tolist()
    ((3, 3), [0.0, 1.0])

    Format: composite, partition.
    """
    items = [part if isinstance(part, Tensor) else asarray(part) for part in parts]
    if not items:
        raise InvalidDescriptorError("a partition has at least one part")
    shapes = [dense_shape(item) for item in items]
    rank = len(shapes[0])
    along = as_int(axis, "axis", low=-rank, high=rank - 1) % rank if rank else 0
    for k, shape in enumerate(shapes):
        fits = len(shape) == rank and rank and (*shape[:along], *shape[along + 1 :]) == _others(shapes[0], along)
        if not fits:
            raise InvalidDescriptorError(
                f"part {k} has shape {shape}, which does not follow {shapes[0]} along axis {along}"
            )
    whole = (*shapes[0][:along], sum(shape[along] for shape in shapes), *shapes[0][along + 1 :])
    members, start = [], 0
    for item, shape in zip(items, shapes, strict=True):
        members.append(item.with_shard(whole, [start if d == along else 0 for d in range(rank)]))
        start += shape[along]
    return Composite(
        "partition",
        shape=whole,
        dtype=_decoded(items),
        members=members,
        extension_type=items[0].extension_type,
    )


def _others(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def overlay(base: Any, corrections: Iterable[Any], combine_op: str = "replace") -> Composite:
    """Return a base with corrections on top, which are applied when values are read; the base is not copied.

    Parameters
    ----------
    base : Tensor or array_like
        In any layout, quantized too.
    corrections : iterable
        In order.  Each is a tensor of the base's shape, of which a sparse one corrects what it stores; a tensor with a
        shard section, which says where it lies; or a pair ``(offset, values)``.  Arrays take the base's dtype.
    combine_op : str
        ``replace``: the last correction that covers an element rules.  ``add``: corrections are added to the base.

    Raises
    ------
    InvalidDescriptorError
        A correction does not fit the base; it is named.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> fixed = hurray.overlay(np.zeros((2, 3)), [((0, 1), [[5.0]]), hurray.sparse_coo([7.0], [[1, 2]], (2, 3))])
    >>> fixed.to_numpy().tolist()
    [[0.0, 5.0, 0.0], [0.0, 0.0, 7.0]]

    Format: composite, overlay.
    """
    bottom = base if isinstance(base, Tensor) else asarray(base)
    shape = dense_shape(bottom)
    dtype = _decoded([bottom])
    members = [bottom.with_shard(shape, [0] * len(shape))]
    for k, given in enumerate(corrections):
        members.append(_correction(given, k, shape, dtype))
    return Composite(
        "overlay",
        shape=shape,
        dtype=dtype,
        members=members,
        combine_op=combine_op,
        extension_type=bottom.extension_type,
    )


def _correction(given: Any, k: int, shape: tuple[int, ...], dtype: Dtype) -> Tensor:
    offset: tuple[int, ...] | None = None
    if isinstance(given, tuple):
        if len(given) != 2:
            raise InvalidDescriptorError(f"correction {k} has {len(given)} parts; a pair is (offset, values)")
        offset = as_index_tuple(given[0], f"offset of correction {k}")
        given = given[1]
    if isinstance(given, Composite):
        raise UnsupportedError(f"correction {k} is a composite, which the format does not allow in an overlay")
    item = given if isinstance(given, Tensor) else asarray(given, dtype=dtype)
    if offset is None and item.shard is not None:
        return item
    if offset is None and item.shape != shape:
        raise InvalidDescriptorError(
            f"correction {k} has shape {item.shape}, not that of the base, {shape}; give (offset, values) to say where "
            "it lies"
        )
    try:
        return item.with_shard(shape, [0] * len(shape) if offset is None else offset)
    except InvalidDescriptorError as error:
        raise InvalidDescriptorError(f"correction {k}: {error}") from None


def group(members: Iterable[Any]) -> Composite:
    """Return tensors that belong together as one item of a file or stream, such as the keys and values of a cache.

    Parameters
    ----------
    members : iterable of Tensor, Composite or array_like
        Of any shapes and dtypes; at least one.

    Examples
    --------
    >>> import hurray
    >>> pair = hurray.group([hurray.zeros([2, 3]), hurray.arange(4)])
    >>> [m.shape for m in pair.members]
    [(2, 3), (4,)]

    Format: composite, group.
    """
    items: list[Member] = [m if isinstance(m, (Tensor, Composite)) else asarray(m) for m in members]
    if not items:
        raise InvalidDescriptorError("a group has at least one member")
    # The head's shape and dtype are mere advice; a scalar's claims nothing.
    dtype = next((m.dtype for m in items if not m.dtype.is_opaque), BY_NAME["float32"])
    return Composite("group", shape=(), dtype=dtype, members=items)


def _decoded(items: list[Tensor]) -> Dtype:
    """Return the dtype of the whole: that of a part that is not quantized, else float32."""
    return next((item.dtype for item in items if item.quantization is None), BY_NAME["float32"])
