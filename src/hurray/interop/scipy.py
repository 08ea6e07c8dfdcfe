"""SciPy's sparse arrays and matrices.

SciPy may leave indices unsorted and repeated and says so with flags that it caches, so a flag may be out of date, and
asking for it stores it in the user's object.  Nothing here reads a flag or calls a method that changes the object:
the index arrays themselves are looked at.

Format: layouts, coo, csr / csc.
"""

from __future__ import annotations

from collections.abc import Callable
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
    signed_index,
    sparse_payload,
    stored_values,
)
from hurray.layouts._base import Payload
from hurray.tensor.tensor import Tensor

__all__ = ["from_scipy", "to_scipy"]

_LIBRARY = "SciPy"
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

Array = NDArray[Any]


def from_scipy(matrix: Any, *, copy: bool | None = None) -> Tensor:
    """Return a SciPy sparse array or matrix as a tensor.

    csr, csc and coo (of any rank) keep their layout.  bsr, dia, dok and lil become csr (rank 1: coo), as does what
    ``tocsr`` makes of them: dia forgets explicit zeros.  Explicit zeros are kept everywhere else.

    Parameters
    ----------
    matrix : sparse array or matrix
        Any index type and value type that the format has.  It is never changed: where its indices are unsorted or
        repeated (the sum of the values counts, as in SciPy), a copy is brought into order.
    copy : bool, optional
        None shares what can be shared: contiguous native values, 64-bit index arrays of csr and csc.  False raises
        instead of copying, True copies everything.

    Raises
    ------
    TypeError
        Not a SciPy sparse array.
    InvalidDescriptorError
        An index is out of bounds, or the component arrays do not fit together.
    UnsupportedError
        The format has no such element type, or SciPy is not installed.
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import hurray, numpy as np, scipy.sparse
    >>> hurray.from_scipy(scipy.sparse.csr_array(np.eye(3)))
    hurray.Tensor(layout='csr', shape=(3, 3), nnz=3, dtype=float64)

    Format: layouts, coo, csr / csc.
    """
    if not require("scipy.sparse", "scipy").issparse(matrix):
        raise TypeError(f"from_scipy takes a SciPy sparse array or matrix, not {type(matrix).__name__}")
    reader = _READERS.get(matrix.format)
    if reader is None:
        raise UnsupportedError(
            f"SciPy format {matrix.format!r} is unknown here; convert it with tocsr() or tocoo() first"
        )
    return reader(matrix, copy)


def _from_compressed(matrix: Any, copy: bool | None) -> Tensor:
    if len(matrix.shape) == 1:
        return _from_vector(matrix, copy)
    major = 0 if matrix.format == "csr" else 1
    return compressed_tensor(
        Compressed(matrix.data, matrix.indices, matrix.indptr, tuple(matrix.shape), major), copy=copy
    )


def _from_vector(vector: Any, copy: bool | None) -> Tensor:
    """Return a csr array of rank 1, whose single slice is a coordinate list."""
    ptr = np.asarray(vector.indptr)
    n = min(len(vector.indices), len(vector.data))
    if ptr.shape != (2,) or ptr[0] != 0 or not 0 <= ptr[1] <= n:
        raise InvalidDescriptorError(f"indptr of a rank 1 array is [0, nnz] with nnz up to {n}, not {ptr.tolist()}")
    nnz = int(ptr[1])
    coords = coords_of_columns([vector.indices[:nnz]], nnz, "indices", copy=copy)
    return coordinate_tensor(coords, np.asarray(vector.data)[:nnz], tuple(vector.shape), duplicates="sum", copy=copy)


def _from_coo(matrix: Any, copy: bool | None) -> Tensor:
    values = np.asarray(matrix.data)
    coords = coords_of_columns(matrix.coords, len(values), "coords", copy=copy)
    if len(matrix.shape) != len(matrix.coords):
        raise InvalidDescriptorError(f"shape {matrix.shape} needs as many index arrays, not {len(matrix.coords)}")
    return coordinate_tensor(coords, values, tuple(matrix.shape), duplicates="sum", copy=copy)


def _from_blocks(matrix: Any, copy: bool | None) -> Tensor:
    """Return a bsr matrix as csr, after a look at its indices, which the compiled conversion trusts."""
    data = np.asarray(matrix.data)
    n_rows, n_cols = matrix.shape
    if data.ndim != 3 or 0 in data.shape[1:] or n_rows % data.shape[1] or n_cols % data.shape[2]:
        raise InvalidDescriptorError(f"blocks of shape {data.shape[1:]} do not tile a matrix of shape {matrix.shape}")
    grid = (n_rows // data.shape[1], n_cols // data.shape[2])
    # One number stands for each block: its index arrays are a csr matrix of the grid of blocks.
    compressed_tensor(Compressed(np.arange(len(data)), matrix.indices, matrix.indptr, grid, 0), copy=None)
    return _from_convertible(matrix, copy)


def _from_diagonals(matrix: Any, copy: bool | None) -> Tensor:
    # The constructor checks what the compiled conversion trusts; attributes may have been set since.
    sparse = require("scipy.sparse", "scipy")
    try:
        fresh = sparse.dia_array((np.asarray(matrix.data), np.asarray(matrix.offsets)), shape=matrix.shape)
    except (ValueError, TypeError) as error:
        raise InvalidDescriptorError(f"the parts of this dia matrix do not fit together: {error}") from None
    return _from_convertible(fresh, copy)


def _from_lists(matrix: Any, copy: bool | None) -> Tensor:
    rows, data = matrix.rows, matrix.data
    if len(rows) != matrix.shape[0] or len(data) != matrix.shape[0]:
        raise InvalidDescriptorError(f"a lil matrix of shape {matrix.shape} has {len(rows)} lists of indices")
    for k, (indices, values) in enumerate(zip(rows, data, strict=True)):
        if len(indices) != len(values):
            raise InvalidDescriptorError(f"row {k} of a lil matrix has {len(indices)} indices and {len(values)} values")
    return _from_convertible(matrix, copy)


def _from_convertible(matrix: Any, copy: bool | None) -> Tensor:
    if copy is False:
        raise CopyRequiredError(f"format {matrix.format!r} must be converted to csr, which needs a copy")
    try:
        converted = matrix.tocsr()
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise InvalidDescriptorError(f"SciPy cannot convert this {matrix.format} matrix to csr: {error}") from None
    return _from_compressed(converted, copy)


_READERS: dict[str, Callable[[Any, bool | None], Tensor]] = {
    "bsr": _from_blocks,
    "coo": _from_coo,
    "csc": _from_compressed,
    "csr": _from_compressed,
    "dia": _from_diagonals,
    "dok": _from_convertible,
    "lil": _from_lists,
}


def to_scipy(tensor: Tensor, *, copy: bool | None = None) -> Any:
    """Return a sparse tensor as a SciPy sparse array: csr and csc as they are, coo and csf as ``coo_array``.

    Parameters
    ----------
    tensor : Tensor
        Layout coo, csr, csc or csf.
    copy : bool, optional
        None shares the values (they are read-only then, as is every array over memory that others hold) and gives
        indices the type that SciPy itself would choose: int32 when shape and nnz fit, else int64 without a copy for csr
        and csc.  False shares the indices too, as int64 whatever their size, and raises where that is impossible.
        True gives arrays of one's own that can be changed in place.

    Returns
    -------
    scipy.sparse.csr_array, csc_array or coo_array

    Raises
    ------
    UnsupportedError
        A dense, block-paged or other layout, which is named; a quantized tensor; an element type that SciPy lacks.
    InvalidDescriptorError
        The index buffers break a rule of the layout.
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import hurray, numpy as np
    >>> t = hurray.sparse_coo(np.ones(2), np.array([[0, 1], [1, 0]]), [2, 2])
    >>> hurray.to_scipy(t).toarray()
    array([[0., 1.],
           [1., 0.]])

    Format: layouts, coo, csr / csc, csf.
    """
    payload = sparse_payload(tensor, _LIBRARY)
    if tensor.dtype.name == "float16":
        raise UnsupportedError("SciPy's sparse arrays have no float16; convert the values to float32 first")
    values = stored_values(tensor, payload, _LIBRARY, copy=copy)
    if max(payload.shape) > _INT64_MAX:
        raise UnsupportedError(f"shape {payload.shape} has a dimension beyond SciPy's 64-bit signed indices")
    sparse = require("scipy.sparse", "scipy")
    name = tensor.layout.name
    if name in ("csr", "csc"):
        return _to_compressed(sparse, tensor, payload, values, copy)
    if copy is False and name == "csf":
        raise CopyRequiredError("layout 'csf' must be expanded to coordinates, which needs a copy")
    return _to_coo(sparse, tensor, payload, values, copy)


def _index_dtype(shape: tuple[int, ...], nnz: int, copy: bool | None) -> np.dtype[Any]:
    small = copy is not False and max(*shape, nnz) <= _INT32_MAX
    return np.dtype(np.int32 if small else np.int64)


def _to_compressed(sparse: Any, tensor: Tensor, payload: Payload, values: Array, copy: bool | None) -> Any:
    layout: Any = tensor.layout
    ptr, indices = layout.arrays(payload)
    dtype = _index_dtype(payload.shape, layout.nnz, copy)
    # SciPy's constructor would look through the indices to narrow them; the parts are known to be right.
    made = _empty(sparse.csr_array if layout.name == "csr" else sparse.csc_array, payload.shape, values.dtype)
    made.data = values
    made.indices = signed_index(indices, dtype, copy=copy)
    made.indptr = signed_index(ptr, dtype, copy=copy)
    made.has_sorted_indices = True
    made.has_canonical_format = True
    return made


def _to_coo(sparse: Any, tensor: Tensor, payload: Payload, values: Array, copy: bool | None) -> Any:
    layout: Any = tensor.layout
    coords, _ = layout.stored(payload)
    dtype = _index_dtype(payload.shape, layout.nnz, copy)
    made = _empty(sparse.coo_array, payload.shape, values.dtype)
    made.data = values
    columns = [coords[:, k] for k in range(len(payload.shape))]
    if copy is False:
        made.coords = tuple(signed_index(column, dtype, copy=False) for column in columns)
    else:
        made.coords = tuple(np.array(column, dtype, order="C") for column in columns)
    made.has_canonical_format = _ascends(layout)
    return made


def _ascends(layout: Any) -> bool:
    """Tell whether a layout's storage order is row-major, which is SciPy's canonical order of coordinates."""
    return bool(layout.is_sorted) if layout.name == "coo" else layout.mode_order == tuple(range(len(layout.mode_order)))


def _empty(cls: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    try:
        return cls(shape, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise UnsupportedError(f"this release of SciPy has no {cls.__name__} of shape {shape}: {error}") from None
