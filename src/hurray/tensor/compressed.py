"""Compressed sparse tensors from their component arrays.

Format: layouts, csr and csc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.errors import CopyRequiredError, InvalidDescriptorError, UnsupportedError
from hurray.layouts import CscLayout, CsrLayout, RowMajorLayout
from hurray.tensor.build import asarray
from hurray.tensor.core import as_shape
from hurray.tensor.forming import as_copy
from hurray.tensor.tensor import Tensor

__all__ = ["sparse_csc", "sparse_csr"]


def sparse_csr(
    values: Any, col_indices: Any, row_ptr: Any, shape: Sequence[int], *, copy: bool | None = None
) -> Tensor:
    """Return a csr tensor from component arrays: those that SciPy calls data, indices and indptr.

    Parameters
    ----------
    values : Tensor or array_like, shape (nnz,)
        Stored values, row by row.
    col_indices : Tensor or array_like of int, shape (nnz,)
        Column of each value, strictly increasing inside each row.  uint64 and int64 arrays are shared, others copied.
    row_ptr : Tensor or array_like of int, shape (rows + 1,)
        Where each row starts.
    shape : sequence of int
        (rows, columns).
    copy : bool, optional
        As in :func:`hurray.from_numpy`.

    Raises
    ------
    InvalidDescriptorError
        The arrays do not fit together, or break a rule of the layout; the first offending position is named.
        ``from_scipy`` sorts, and adds up what occurs twice.

    Examples
    --------
    >>> import hurray
    >>> hurray.sparse_csr([5.0, 7.0], [1, 0], [0, 1, 2], (2, 3)).to_numpy().tolist()
    [[0.0, 5.0, 0.0], [7.0, 0.0, 0.0]]

    Format: layouts, csr.
    """
    return _compressed(CsrLayout, values, (col_indices, "col_indices"), (row_ptr, "row_ptr"), shape, as_copy(copy))


def sparse_csc(
    values: Any, row_indices: Any, col_ptr: Any, shape: Sequence[int], *, copy: bool | None = None
) -> Tensor:
    """Return a csc tensor from component arrays; like :func:`sparse_csr`, column by column.

    Parameters
    ----------
    values : Tensor or array_like, shape (nnz,)
    row_indices : Tensor or array_like of int, shape (nnz,)
    col_ptr : Tensor or array_like of int, shape (columns + 1,)
    shape : sequence of int
    copy : bool, optional

    Raises
    ------
    InvalidDescriptorError
        The arrays do not fit together, or break a rule of the layout.

    Examples
    --------
    >>> import hurray
    >>> hurray.sparse_csc([7.0, 5.0], [1, 0], [0, 1, 2, 2], (2, 3)).to_numpy().tolist()
    [[0.0, 5.0, 0.0], [7.0, 0.0, 0.0]]

    Format: layouts, csc.
    """
    return _compressed(CscLayout, values, (row_indices, "row_indices"), (col_ptr, "col_ptr"), shape, as_copy(copy))


def _compressed(
    layout: type[CsrLayout | CscLayout],
    values: Any,
    indices: tuple[Any, str],
    pointers: tuple[Any, str],
    shape: Sequence[int],
    copy: bool | None,
) -> Tensor:
    dims = as_shape(shape)
    stored = asarray(values, copy=copy)
    if stored.quantization is not None:
        raise UnsupportedError("quantized values have parameters of their own; use dequantize() first")
    if stored.ndim != 1:
        raise InvalidDescriptorError(f"values have one dimension, not shape {stored.shape}")
    if stored.layout.name != "row_major" or stored.descriptor.byte_offset:
        # Buffer 0 has to hold the values back to back, from its first byte on.
        if copy is False:
            raise CopyRequiredError("values with strides or a byte offset must be put in order, which needs a copy")
        stored = stored.to_layout(RowMajorLayout())
    nnz = stored.shape[0] or 0
    if len(dims) != 2:
        raise InvalidDescriptorError(f"layout {layout.name!r} needs rank 2, but shape {dims} has rank {len(dims)}")
    rows = dims[0 if layout is CsrLayout else 1] or 0
    index = [_index(*indices, nnz, copy), _index(*pointers, rows + 1, copy)]
    result = Tensor(stored._buffers[0], stored.dtype, dims, aux_buffers=index, layout=layout(nnz))
    result.validate()
    return result


def _index(given: Any, name: str, length: int, copy: bool | None) -> NDArray[Any]:
    try:
        array = given.to_numpy() if isinstance(given, Tensor) else np.asarray(given)
    except (ValueError, OverflowError) as error:
        raise InvalidDescriptorError(f"{name} is no array: {error}") from None
    if array.size == 0 and length == 0:
        return np.empty(0, np.uint64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) != length:
        raise InvalidDescriptorError(
            f"{name} must be integers of shape ({length},), not {array.dtype} of shape {array.shape}"
        )
    if array.dtype.kind == "i" and array.size and int(array.min()) < 0:
        at = int((array < 0).argmax())
        raise InvalidDescriptorError(f"{name}[{at}] is {int(array[at])}, but no index is negative")
    shareable = array.dtype.itemsize == 8 and array.dtype.isnative and array.flags.c_contiguous
    if shareable and np.little_endian:
        return array.copy() if copy else array
    if copy is False:
        raise CopyRequiredError(f"{name} of {array.dtype} must be brought into uint64, which needs a copy")
    return array.astype("<u8")
