"""Tensors of Apache Arrow: dense, and sparse as COO, CSR, CSC and CSF.

Arrow's arrays are laid out as ours are, with any integer type as index and values of shape (nnz, 1), so 64-bit indices
cross without a copy in both directions.  Arrow keeps no pointer for the root level of CSF, and its Python class does
not tell in which order the axes are stored: comparing with candidates does.

Format: layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from hurray.errors import CopyRequiredError, InvalidDescriptorError, UnsupportedError
from hurray.interop._optional import require
from hurray.interop._stored import (
    Compressed,
    Duplicates,
    compressed_tensor,
    coordinate_tensor,
    index_array,
    signed_index,
    sparse_payload,
    stored_values,
)
from hurray.layouts import CsfLayout
from hurray.layouts._base import Payload
from hurray.tensor.build import from_numpy
from hurray.tensor.tensor import Tensor

__all__ = ["from_arrow", "to_arrow"]

_LIBRARY = "Arrow"
_INT64 = np.dtype(np.int64)
#: orders of axes that are tried before the caller is asked: all up to rank 7
_MAX_ORDERS = 5040

Array = NDArray[Any]


def from_arrow(
    tensor: Any,
    *,
    copy: bool | None = None,
    duplicates: Duplicates = "error",
    axis_order: Sequence[int] | None = None,
) -> Tensor:
    """Return an Arrow tensor as a tensor of the corresponding layout.

    Parameters
    ----------
    tensor : pyarrow.Tensor, SparseCOOTensor, SparseCSRMatrix, SparseCSCMatrix or SparseCSFTensor
        Dense tensors become row-major, column-major or strided; the sparse ones coo, csr, csc and csf.
    copy : bool, optional
        None shares values and 64-bit indices and copies what has to be widened or put in order; False raises instead;
        True copies everything.
    duplicates : {"error", "sum", "last"}
        What becomes of a coordinate that occurs twice in a COO tensor.
    axis_order : sequence of int, optional
        Axis of each level of a CSF tensor.  pyarrow does not tell, so it is found by comparison; that fails when values
        are NaN, which compare equal to nothing, or at high ranks, and then it must be given.

    Raises
    ------
    TypeError
        Not an Arrow tensor.
    InvalidDescriptorError
        An index is out of bounds, or the component arrays do not fit together.
    UnsupportedError
        The axes' order cannot be found, or pyarrow is not installed.
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import numpy as np, pyarrow, hurray
    >>> hurray.from_arrow(pyarrow.SparseCSRMatrix.from_dense_numpy(np.eye(3)))
    hurray.Tensor(layout='csr', shape=(3, 3), nnz=3, dtype=float64)

    Format: layouts.
    """
    arrow = require("pyarrow", "arrow")
    shape = tuple(int(n) for n in getattr(tensor, "shape", ()))
    if isinstance(tensor, arrow.Tensor):
        return from_numpy(tensor.to_numpy(), copy=copy)
    if isinstance(tensor, arrow.SparseCOOTensor):
        values, coords = tensor.to_numpy()
        return _from_coo(_flat(values), coords, shape, copy, duplicates)
    if isinstance(tensor, arrow.SparseCSRMatrix):
        values, ptr, indices = tensor.to_numpy()
        return compressed_tensor(Compressed(_flat(values), indices, ptr, shape, 0), copy=copy)
    if isinstance(tensor, arrow.SparseCSCMatrix):
        values, ptr, indices = tensor.to_numpy()
        return compressed_tensor(Compressed(_flat(values), indices, ptr, shape, 1), copy=copy)
    if isinstance(tensor, arrow.SparseCSFTensor):
        values, ptrs, crds = tensor.to_numpy()
        order = tuple(axis_order) if axis_order is not None else _find_order(arrow, tensor)
        return _from_csf(_flat(values), ptrs, crds, shape, order, copy)
    raise TypeError(f"from_arrow takes a tensor of pyarrow, not {type(tensor).__name__}")


def _flat(values: Array) -> Array:
    """Return values, which Arrow keeps as one column, as one dimension."""
    return values.reshape(-1)


def _from_coo(
    values: Array, coords: Array, shape: tuple[int, ...], copy: bool | None, duplicates: Duplicates
) -> Tensor:
    if coords.ndim != 2 or coords.shape[1] != len(shape):
        raise InvalidDescriptorError(f"coords has shape {coords.shape}, but shape {shape} needs {len(shape)} columns")
    ours = index_array(coords, "coords", copy=copy)
    return coordinate_tensor(ours, values, shape, duplicates=duplicates, copy=copy, keep_order=True)


def _from_csf(
    values: Array, ptrs: Sequence[Array], crds: Sequence[Array], shape: tuple[int, ...], order: tuple[int, ...],
    copy: bool | None,
) -> Tensor:  # fmt: skip
    rank = len(shape)
    if len(crds) != rank or len(ptrs) != max(rank - 1, 0):
        raise InvalidDescriptorError(f"shape {shape} needs {rank} arrays of indices, not {len(crds)}")
    if rank < 3:
        raise UnsupportedError(f"a csf tensor has a rank of at least 3, but shape {shape} has {rank}")
    layout = CsfLayout(len(values), order)
    crd = [index_array(array, f"indices[{level}]", copy=copy) for level, array in enumerate(crds)]
    pos = [np.array([0, len(crd[0])], np.uint64)]
    pos += [index_array(array, f"indptr[{level}]", copy=copy) for level, array in enumerate(ptrs)]
    levels = [array for pair in zip(pos, crd, strict=True) for array in pair]
    data = from_numpy(values, copy=copy)
    tensor = Tensor(data._buffers[0], data.dtype, shape, aux_buffers=levels, layout=layout)
    tensor.validate()
    return tensor


def _find_order(arrow: Any, tensor: Any) -> tuple[int, ...]:
    """Return the axis of each level of a CSF tensor: the candidate that Arrow itself finds equal."""
    values, ptrs, crds = tensor.to_numpy()
    if len(crds) != len(tensor.shape):
        raise InvalidDescriptorError(
            f"shape {tensor.shape} needs {len(tensor.shape)} arrays of indices, not {len(crds)}"
        )
    tops = [int(array.max()) if array.size else -1 for array in crds]
    for order in islice(_orders(tensor.shape), _MAX_ORDERS):
        if any(top >= tensor.shape[axis] for top, axis in zip(tops, order, strict=True)):
            continue
        candidate = arrow.SparseCSFTensor.from_numpy(
            values, ptrs, crds, shape=tensor.shape, axis_order=list(order), dim_names=tensor.dim_names or None
        )
        if candidate.equals(tensor):
            return order
    raise UnsupportedError(
        "the order of the axes of this Arrow CSF tensor cannot be found (pyarrow does not tell it, and values that are "
        "NaN keep tensors from comparing equal); pass axis_order="
    )


def _orders(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Give orders of axes, the likely ones first: by extent, as Arrow writes, then as they are."""
    yield tuple(sorted(range(len(shape)), key=lambda axis: (shape[axis], axis)))
    yield from permutations(range(len(shape)))


def to_arrow(tensor: Tensor, *, copy: bool | None = None) -> Any:
    """Return a tensor as an Arrow tensor of the corresponding layout.

    Parameters
    ----------
    tensor : Tensor
        A dense layout gives a ``pyarrow.Tensor``; coo, csr, csc and csf their Arrow namesakes.
    copy : bool, optional
        None shares memory where Arrow can express it, False raises where it cannot, True copies everything.

    Returns
    -------
    pyarrow.Tensor, SparseCOOTensor, SparseCSRMatrix, SparseCSCMatrix or SparseCSFTensor

    Raises
    ------
    UnsupportedError
        A block-paged or other layout, which is named; a quantized tensor; an element type that Arrow lacks (it has
        integers and floats of 16, 32 and 64 bits).
    InvalidDescriptorError
        The index buffers break a rule of the layout.
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> hurray.to_arrow(hurray.from_numpy(np.ones((2, 3)))).shape
    (2, 3)

    Format: layouts.
    """
    if isinstance(tensor, Tensor) and tensor.layout.is_dense:
        return _to_dense(tensor, copy)
    payload = sparse_payload(tensor, _LIBRARY, "use to_numpy() first")
    values = stored_values(tensor, payload, _LIBRARY, copy=copy, kinds="iuf").reshape(-1, 1)
    if max(payload.shape) >= 2**63:
        raise UnsupportedError(f"shape {payload.shape} has a dimension beyond Arrow's 64-bit signed sizes")
    arrow = require("pyarrow", "arrow")
    layout: Any = tensor.layout
    if layout.name == "coo":
        coords = signed_index(layout.stored(payload)[0].view(np.uint64), _INT64, copy=copy)
        return arrow.SparseCOOTensor.from_numpy(values, _contiguous(coords), shape=payload.shape)
    if layout.name == "csf":
        return _to_csf(arrow, layout, payload, values, copy)
    ptr, indices = (signed_index(index, _INT64, copy=copy) for index in layout.arrays(payload))
    cls = arrow.SparseCSRMatrix if layout.name == "csr" else arrow.SparseCSCMatrix
    return cls.from_numpy(values, ptr, indices, shape=payload.shape)


def _contiguous(coords: Array) -> Array:
    # NumPy calls an array without elements contiguous whatever its strides; Arrow wants them to be equal then.
    if coords.size:
        return coords
    return as_strided(np.empty(1, np.int64), coords.shape, (8, 8))


def _to_csf(arrow: Any, layout: Any, payload: Payload, values: Array, copy: bool | None) -> Any:
    tree = layout.tree(payload)
    pos = [signed_index(array, _INT64, copy=copy) for array in tree.pos[1:]]
    crd = [signed_index(array, _INT64, copy=copy) for array in tree.crd]
    return arrow.SparseCSFTensor.from_numpy(values, pos, crd, shape=payload.shape, axis_order=list(layout.mode_order))


def _to_dense(tensor: Tensor, copy: bool | None) -> Any:
    found = tensor.dtype.numpy
    if tensor.quantization is None and (found is None or found.kind not in "iuf" or found.type.__module__ != "numpy"):
        raise UnsupportedError(f"{_LIBRARY} has no tensor of {tensor.dtype}; convert the values first")
    array = tensor.to_numpy(copy)
    if any(step < 0 for step in array.strides):
        if copy is False:
            raise CopyRequiredError("Arrow has no negative strides; putting the elements in order needs a copy")
        array = np.ascontiguousarray(array)
    arrow = require("pyarrow", "arrow")
    return arrow.Tensor.from_numpy(array)
