"""Layout-specific parts of a tensor as tensors of their own that share memory.

One table says which accessor belongs to which layout, so that ``hasattr`` tells the truth.

Format: layouts, buffers of each layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hurray.descriptor.model import Descriptor, handle_for
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.layouts.row_major import RowMajorLayout

if TYPE_CHECKING:
    from hurray.tensor.core import TensorCore
    from hurray.tensor.tensor import Tensor

__all__ = ["ACCESSORS", "component", "has_part", "level_component", "missing"]

_U64 = BY_NAME["uint64"]
_U32 = BY_NAME["uint32"]

#: how to find a component: buffer index, shape, dtype (None: the tensor's own)
_Find = Callable[["TensorCore"], "tuple[int, tuple[int, ...], Dtype | None]"]


def _nnz(t: TensorCore) -> int:
    return int(t.layout.nnz)  # type: ignore[attr-defined]


def _values(t: TensorCore) -> tuple[int, tuple[int, ...], Dtype | None]:
    return 0, (_nnz(t),), None


def _entries(t: TensorCore) -> tuple[int, tuple[int, ...], Dtype | None]:
    return 1, (_nnz(t),), _U64


def _pointers(axis: int) -> _Find:
    def find(t: TensorCore) -> tuple[int, tuple[int, ...], Dtype | None]:
        n = t.shape[axis]
        # Nothing follows from a dynamic dimension: the buffer shows how many entries there are.
        return 2, (t.buffer_handles[2].byte_size // 8 if n is None else n + 1,), _U64

    return find


def _pool(t: TensorCore) -> tuple[int, tuple[int, ...], Dtype | None]:
    layout: Any = t.layout
    return 0, (layout.num_pages, layout.page_size, *t.shape[1:]), None


def _paged_index(buffer: int) -> _Find:
    def find(t: TensorCore) -> tuple[int, tuple[int, ...], Dtype | None]:
        dtype = _U32 if t.layout.block_table_index_type == "uint32" else _U64  # type: ignore[attr-defined]
        n_bytes = t.descriptor.buffer_handles[buffer].byte_size
        return buffer, (n_bytes * 8 // dtype.bit_width,), dtype

    return find


ACCESSORS: dict[str, dict[str, _Find]] = {
    "coo": {"values": _values, "indices": lambda t: (1, (_nnz(t), t.ndim), _U64)},
    "csr": {"values": _values, "col_indices": _entries, "row_ptr": _pointers(0)},
    "csc": {"values": _values, "row_indices": _entries, "col_ptr": _pointers(1)},
    "csf": {"values": _values},
    "block_paged": {"page_pool": _pool, "block_table": _paged_index(1), "seq_ptr": _paged_index(2)},
}


#: what is there in spite of an accessor's absence, for names that other libraries use
_ELSEWHERE = {
    "array": "to_numpy() gives a dense array",
    "astype": "to_numpy(dtype=...) converts, and so does hurray.asarray(t, dtype=...)",
    "ccol_indices": "a csc tensor calls them col_ptr",
    "coords": "a coo tensor calls them indices, and nonzeros() gives coordinates of every tensor",
    "crow_indices": "a csr tensor calls them row_ptr",
    "data": "the stored values of a sparse tensor are values, and buffer(k) gives the bytes of any tensor",
    "indptr": "a csr tensor calls it row_ptr, a csc tensor col_ptr",
    "itemsize": "the bits of an element are dtype.bit_width",
    "numpy": "to_numpy() gives a dense array",
    "strides": "a strided tensor's are layout.strides",
    "to_dense": "to_numpy() gives a dense array, to_layout('row_major') a dense tensor",
    "toarray": "to_numpy() gives a dense array",
    "tocoo": "to_layout('coo') converts",
    "tocsc": "to_layout('csc') converts",
    "tocsr": "to_layout('csr') converts",
    "todense": "to_numpy() gives a dense array",
}

_PART_NAMES = frozenset(name for names in ACCESSORS.values() for name in names)


def has_part(t: TensorCore, name: str) -> bool:
    """Tell whether a tensor's layout has a part called ``name``; names that are no parts are on every tensor."""
    layout = t.layout
    if name == "nnz":
        return layout.is_sparse
    if name == "mode_order":
        return layout.name == "csf"
    if name in ("sequence", "sequence_lengths", "with_sequence_lengths"):
        return layout.kind == "indirect"
    return name not in _PART_NAMES or name in ACCESSORS.get(layout.name, {})


def missing(t: TensorCore, name: str) -> AttributeError:
    """Return the error for an accessor that the layout does not have, or a name that no tensor has."""
    message = f"'Tensor' object has no attribute {name!r}; this is a {t.layout.name} tensor"
    advice = _ELSEWHERE.get(name)
    if advice is None and name not in _PART_NAMES and hasattr(np.ndarray, name):
        advice = f"arrays compute, tensors do not: to_numpy().{name}"
    return AttributeError(message if advice is None else f"{message}; {advice}", name=name, obj=t)


def component(t: TensorCore, name: str) -> Tensor:
    """Return one component of the tensor, sharing its memory.

    Raises
    ------
    AttributeError
        The layout has no such component; the layout is named.
    """
    find = ACCESSORS.get(t.layout.name, {}).get(name)
    if find is None:
        raise missing(t, name)
    buffer, shape, dtype = find(t)
    return share_buffer(t, buffer, shape, dtype)


def level_component(t: TensorCore, name: str, level: int, length: int) -> Tensor:
    """Return ``pos(level)`` or ``crd(level)`` of a csf tensor, ``length`` entries long."""
    return share_buffer(t, 2 * level + (1 if name == "pos" else 2), (length,), _U64)


def share_buffer(t: TensorCore, buffer: int, shape: tuple[int, ...], dtype: Dtype | None) -> Tensor:
    """Return a row-major tensor over one of the tensor's buffers."""
    descriptor = Descriptor(
        dtype=t.dtype if dtype is None else dtype,
        shape=shape,
        layout=RowMajorLayout(),
        buffer_handles=(handle_for(len(t._buffers[buffer]), t.descriptor.device),),
        extension_type=t.descriptor.extension_type if dtype is None else None,
    )
    return cast("Tensor", type(t)._from_parts(descriptor, (t._buffers[buffer],), device_id=t._device_id))
