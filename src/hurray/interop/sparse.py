"""Arrays of PyData sparse: COO and GCXS.

GCXS compresses some axes against the others.  At rank 2 that is csr or csc; at any other rank the row and the column
of an entry are offsets in the two groups of axes, which unravel to coordinates.

Format: layouts, coo, csr / csc.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.errors import CopyRequiredError, InvalidDescriptorError, UnsupportedError
from hurray.interop._optional import require
from hurray.interop._stored import (
    Compressed,
    compressed_tensor,
    coordinate_tensor,
    coords_of_columns,
    index_array,
    signed_index,
    sparse_payload,
    stored_values,
)
from hurray.kernels import coords as coord_kernels
from hurray.kernels import ordering, pointers
from hurray.layouts._base import Payload
from hurray.tensor.tensor import Tensor

__all__ = ["from_sparse", "to_sparse"]

_LIBRARY = "PyData sparse"
_INT64 = np.dtype(np.int64)

Array = NDArray[Any]


def from_sparse(array: Any, *, copy: bool | None = None) -> Tensor:
    """Return an array of PyData sparse as a tensor.

    COO becomes coo; GCXS (CSR and CSC included) becomes csr or csc at rank 2 and coo at any other; DOK becomes coo.

    Parameters
    ----------
    array : sparse.COO, sparse.GCXS or sparse.DOK
        Its fill value must be zero: what a sparse tensor does not store is zero.
    copy : bool, optional
        None shares what can be shared: contiguous native values, 64-bit index arrays of GCXS at rank 2.  False raises
        instead of copying, True copies everything.

    Raises
    ------
    TypeError
        Not an array of PyData sparse.
    UnsupportedError
        Another fill value, or an element type that the format lacks.
    InvalidDescriptorError
        An index is out of bounds, a coordinate occurs twice, or the component arrays do not fit together.
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import numpy as np, sparse, hurray
    >>> hurray.from_sparse(sparse.COO.from_numpy(np.eye(3)))
    hurray.Tensor(layout='coo', shape=(3, 3), nnz=3, dtype=float64)

    Format: layouts, coo, csr / csc.
    """
    sparse = require("sparse", "sparse")
    if isinstance(array, sparse.DOK):
        if copy is False:
            raise CopyRequiredError("a DOK must be converted to coo, which needs a copy")
        array = array.to_coo()
    if not isinstance(array, (sparse.COO, sparse.GCXS)):
        raise TypeError(f"from_sparse takes a COO, GCXS or DOK of PyData sparse, not {type(array).__name__}")
    _check_fill_value(array)
    if isinstance(array, sparse.COO):
        return _from_coo(array, copy)
    return _from_matrix(array, copy) if len(array.shape) == 2 else _from_gcxs(array, copy)


def _check_fill_value(array: Any) -> None:
    fill = np.asarray(array.fill_value)
    if fill.size != 1 or any(fill.tobytes()):
        raise UnsupportedError(
            f"elements that a sparse tensor does not store are zero, but the array's fill value is {array.fill_value!r}"
        )


def _from_coo(array: Any, copy: bool | None) -> Tensor:
    values, coords = np.asarray(array.data), np.asarray(array.coords)
    if coords.ndim != 2 or len(coords) != len(array.shape):
        raise InvalidDescriptorError(
            f"coords has shape {coords.shape}, but shape {array.shape} needs {len(array.shape)} rows"
        )
    columns = coords_of_columns(list(coords), coords.shape[1], "coords", copy=copy)
    return coordinate_tensor(columns, values, tuple(array.shape), copy=copy)


def _from_matrix(array: Any, copy: bool | None) -> Tensor:
    axes = tuple(array.compressed_axes)
    if axes not in ((0,), (1,)):
        raise InvalidDescriptorError(f"compressed axes {axes} are not one of the two of a matrix")
    return compressed_tensor(
        Compressed(array.data, array.indices, array.indptr, tuple(array.shape), axes[0]), copy=copy
    )


def _from_gcxs(array: Any, copy: bool | None) -> Tensor:
    shape = tuple(int(n) for n in array.shape)
    rank = len(shape)
    if rank < 2:
        return coordinate_tensor(
            coords_of_columns([array.indices], len(array.data), "indices", copy=copy),
            np.asarray(array.data),
            shape,
            copy=copy,
        )
    if copy is False:
        raise CopyRequiredError("a GCXS of this rank must be expanded to coordinates, which needs a copy")
    rows = tuple(int(axis) for axis in array.compressed_axes)
    cols = tuple(axis for axis in range(rank) if axis not in rows)
    if len(set(rows)) != len(rows) or not all(0 <= axis < rank for axis in rows):
        raise InvalidDescriptorError(f"compressed axes {rows} are not axes of rank {rank}")
    row_shape, col_shape = tuple(shape[axis] for axis in rows), tuple(shape[axis] for axis in cols)
    if max(prod(row_shape), prod(col_shape)) >= 2**63:
        raise UnsupportedError(f"the offsets of a GCXS of shape {shape} do not fit 64 bits")
    flat = compressed_tensor(
        Compressed(array.data, array.indices, array.indptr, (prod(row_shape), prod(col_shape)), 0), copy=None
    )
    ptr, indices = (index_array(part.to_numpy(), "index", copy=None) for part in (flat.row_ptr, flat.col_indices))
    coords = np.empty((len(indices), rank), np.uint64)
    coords[:, rows] = coord_kernels.unravel(pointers.expand_ptr(ptr, len(indices)), row_shape)
    coords[:, cols] = coord_kernels.unravel(indices, col_shape)
    return coordinate_tensor(coords, flat.values.to_numpy(), shape, copy=copy)


def to_sparse(tensor: Tensor, *, copy: bool | None = None) -> Any:
    """Return a sparse tensor as an array of PyData sparse.

    coo and csf become COO; csr and csc become GCXS with rows or columns compressed.

    Parameters
    ----------
    tensor : Tensor
        Layout coo, csr, csc or csf.
    copy : bool, optional
        None shares values, and the indices of csr and csc, which are read-only then.  False raises where that is
        impossible, True copies everything.

    Returns
    -------
    sparse.COO or sparse.GCXS

    Raises
    ------
    UnsupportedError
        A dense, block-paged or other layout, which is named; a quantized tensor; an element type that NumPy lacks.
    InvalidDescriptorError
        The index buffers break a rule of the layout.
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> hurray.to_sparse(hurray.from_numpy(np.eye(3)).to_layout("coo"))
    <COO: shape=(3, 3), dtype=float64, nnz=3, fill_value=0.0>

    Format: layouts, coo, csr / csc, csf.
    """
    payload = sparse_payload(tensor, _LIBRARY)
    values = stored_values(tensor, payload, _LIBRARY, copy=copy)
    if max(payload.shape) >= 2**63:
        raise UnsupportedError(f"shape {payload.shape} has a dimension beyond the 64-bit signed indices of {_LIBRARY}")
    sparse = require("sparse", "sparse")
    layout: Any = tensor.layout
    zero = values.dtype.type(0)
    if layout.name in ("csr", "csc"):
        if values.dtype == np.float16:
            raise UnsupportedError(f"{_LIBRARY} has compressed arrays of no float16: use to_layout('coo') first")
        ptr, indices = (signed_index(index, _INT64, copy=copy) for index in layout.arrays(payload))
        return sparse.GCXS(
            (values, indices, ptr), shape=payload.shape, compressed_axes=(layout.major,), fill_value=zero
        )
    if copy is False:
        raise CopyRequiredError(f"{_LIBRARY} keeps one array for each dimension; separating them needs a copy")
    coords, values = _in_order(layout, payload, values)
    # The constructor would sort by offsets, which overflow for large shapes.
    return sparse.COO(coords, values, shape=payload.shape, has_duplicates=False, sorted=True, fill_value=zero)


def _in_order(layout: Any, payload: Payload, values: Array) -> tuple[Array, Array]:
    """Return coordinates, shape (rank, n), in ascending order, with their values."""
    stored = layout.stored(payload)[0].view(np.uint64)
    entries = ordering.sort_coords(stored, payload.shape)
    if entries.perm is not None:
        values = values.take(entries.perm)
        moved = np.empty_like(stored)
        ordering.fill_columns(entries, moved)
        stored = moved
    return np.array(stored.view(np.int64).T, order="C"), values
