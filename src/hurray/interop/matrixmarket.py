"""MatrixMarket files (``.mtx``), read and written by ``scipy.io``.

``scipy.io`` sets memory aside for as many entries as the header promises; a header that promises more than the file
can hold is refused first.

Format: layouts, coo, csr / csc.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import FileError, HurrayError, InvalidDescriptorError, UnsupportedError
from hurray.interop._base import TensorSet
from hurray.interop._optional import require
from hurray.interop._stored import Duplicates, check_duplicates, coordinate_tensor, coords_of_columns
from hurray.interop._text import base_name, only_tensor, open_text, text_bound, text_output
from hurray.interop.scipy import to_scipy
from hurray.layouts import layout_by_name
from hurray.layouts._sparse import SparseLayout
from hurray.sources import Source
from hurray.tensor.build import from_numpy
from hurray.tensor.tensor import Tensor

__all__ = ["from_matrixmarket", "read_matrixmarket_set", "to_matrixmarket", "write_matrixmarket_set"]

Array = NDArray[Any]

_SUFFIXES = (".mtx.gz", ".mtx")
#: shortest text of an entry, in bytes: two indices in a coordinate file, one number in an array file
_MIN_ENTRY = {"coordinate": 4, "array": 2}
_FIELDS = {"integer": np.int64, "unsigned-integer": np.uint64, "complex": np.complex128}


class _Header(NamedTuple):
    shape: tuple[int, int]
    form: str
    field: str


def from_matrixmarket(
    path: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    layout: str | None = None,
    dtype: Dtype | None = None,
    duplicates: Duplicates = "sum",
) -> Tensor:
    """Read a MatrixMarket file: coordinate files as sparse matrices, array files as dense ones.

    Symmetric, skew-symmetric and Hermitian files give the whole matrix; entries of a pattern are ones.

    Parameters
    ----------
    path : path, URL, bytes or binary file object
        Text, or gzip data of text.
    layout : str, optional
        Layout of the result; by default ``coo`` for coordinate files and dense for array files.
    dtype : Dtype, optional
        Element type; by default what the file's field needs (float64, int64, uint64 or complex128).
    duplicates : {"sum", "error", "last"}
        What becomes of coordinates that occur more than once; summing them is the custom.

    Raises
    ------
    FileError
        The file is missing or broken; a line at fault is named.
    UnsupportedError
        SciPy is not installed.

    Examples
    --------
    >>> import hurray
    >>> lines = ["%%MatrixMarket matrix coordinate real general", "2 3 1", "2 3 1.5"]
    >>> hurray.from_matrixmarket(chr(10).join(lines).encode())
    hurray.Tensor(layout='coo', shape=(2, 3), nnz=1, dtype=float64)

    Format: layouts, coo, csr / csc.
    """
    check_duplicates(duplicates)
    if dtype is not None and not isinstance(dtype, Dtype):
        raise TypeError(f"dtype is a hurray.Dtype such as hurray.float32, not {type(dtype).__name__}")
    target = None if layout is None else layout_by_name(layout)
    found = _read(path)
    if isinstance(found, np.ndarray):
        return _in_layout(from_numpy(_converted(found, dtype)), layout)
    values = np.asarray(found.data)
    coords = coords_of_columns((found.row, found.col), len(values), "indices", copy=None)
    sparse = layout if layout is not None and target is not None and issubclass(target, SparseLayout) else "coo"
    try:
        made = coordinate_tensor(
            coords, values, found.shape, layout=sparse, duplicates=duplicates, finish=lambda array: _converted(array, dtype)
        )
    except InvalidDescriptorError as error:
        raise FileError(f"{_name(path)}: {error}", filename=_name(path)) from None
    return _in_layout(made, layout)


def _in_layout(tensor: Tensor, layout: str | None) -> Tensor:
    return tensor if layout in (None, tensor.layout.name) else tensor.to_layout(layout)  # type: ignore[arg-type]


def _name(path: Any) -> str:
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else "<MatrixMarket data>"


def _read(path: Any) -> Any:
    """Return what ``scipy.io`` reads: an array, or a matrix in coordinate form."""
    io = require("scipy.io", "scipy")
    try:
        with open_text(path) as (stream, source):
            header = _checked_header(io, stream, source)
        if header.form == "array" and 0 in header.shape:
            # Some releases of scipy.io divide by the number of rows.
            return np.zeros(header.shape, _FIELDS.get(header.field, np.float64))
        with open_text(path) as (stream, source):
            return io.mmread(stream)
    except (ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, HurrayError):
            raise
        raise FileError(f"{_name(path)}: {error}", filename=_name(path)) from None


def _checked_header(io: Any, stream: BinaryIO, source: Source) -> _Header:
    rows, cols, n_entries, form, field, symmetry = io.mminfo(stream)
    if symmetry != "general" and rows != cols:
        raise ValueError(f"a {symmetry} matrix is square, but the header says {rows} by {cols}")
    promised = n_entries if form == "coordinate" or symmetry == "general" else rows * (rows - 1) // 2
    if int(promised) * _MIN_ENTRY.get(form, 1) > text_bound(source) + 1:
        raise ValueError(f"the header promises {n_entries} entries, more than the file can hold")
    return _Header((int(rows), int(cols)), form, field)


def _converted(values: Array, dtype: Dtype | None) -> Array:
    """Return values in an element type, refusing what it cannot hold."""
    target = None if dtype is None else dtype.numpy
    if dtype is None or target == values.dtype:
        return values
    if target is None:
        raise UnsupportedError(f"the values of a MatrixMarket file cannot be read as {dtype}")
    if dtype.name == "bool":
        return values != 0
    if values.dtype.kind == "c" and target.kind != "c":
        raise UnsupportedError(f"complex values cannot be read as {dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(target)
        if dtype.is_integer and bool((converted.astype(values.dtype) != values).any()):
            raise InvalidDescriptorError(f"a value does not fit {dtype}")
    return converted


def to_matrixmarket(
    path: str | os.PathLike[str] | BinaryIO,
    tensor: Tensor,
    *,
    comment: str = "",
    precision: int | None = None,
) -> None:
    """Write a matrix as a MatrixMarket file: sparse layouts as a coordinate file, dense ones as an array file.

    Every entry is written, explicit zeros included, and no symmetry is used.  The text keeps no element type beyond
    real, integer or complex: pass ``dtype`` to :func:`from_matrixmarket`.

    Parameters
    ----------
    path : path or binary file object
        Where to write; compressed where the name ends in ``.gz``.  A file is replaced when all has been written.
    tensor : Tensor
        Rank 2.
    comment : str
        Written behind the banner.
    precision : int, optional
        Significant digits; by default as many as bring back the same number.

    Raises
    ------
    UnsupportedError
        Another rank; a quantized tensor; an element type that the format lacks; SciPy is not installed.
    FileError
        Writing failed; an existing file is left as it was.

    Format: layouts, coo, csr / csc.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"a hurray.Tensor is needed, not {type(tensor).__name__}")
    if tensor.ndim != 2:
        raise UnsupportedError(f"a MatrixMarket file holds a matrix, not a tensor of shape {tensor.shape}")
    io = require("scipy.io", "scipy")
    matrix = _writable(tensor)
    with text_output(path) as out:
        io.mmwrite(out, matrix, comment=comment, precision=precision, symmetry="general")


def _writable(tensor: Tensor) -> Any:
    """Return a tensor as something ``scipy.io`` writes."""
    sparse = isinstance(tensor.layout, SparseLayout)
    found = tensor.dtype.numpy
    if found is None:
        raise UnsupportedError(f"a MatrixMarket file has no field for {tensor.dtype}")
    narrow = found.type.__module__ != "numpy" or tensor.dtype.name == "float16"
    if not narrow:
        return to_scipy(tensor) if sparse else np.ascontiguousarray(tensor.to_numpy())
    wide = np.float32 if tensor.dtype.is_float else np.int64
    if not sparse:
        return tensor.to_numpy().astype(wide)
    coords, stored = tensor.nonzeros()
    scipy_sparse = require("scipy.sparse", "scipy")
    return scipy_sparse.coo_array((stored.astype(wide), tuple(coords.T)), shape=tensor.shape)


def read_matrixmarket_set(path: str | os.PathLike[str] | bytes | BinaryIO, **options: Any) -> TensorSet:
    """Read a MatrixMarket file as a set of one tensor, which is called as the file is, without its ending."""
    return TensorSet({base_name(path, _SUFFIXES): from_matrixmarket(path, **options)})


def write_matrixmarket_set(
    path: str | os.PathLike[str] | BinaryIO, tensors: Mapping[str, Any], *, kv: Mapping[str, Any] | None = None,
    dequantize: bool = False, densify: bool = False, **options: Any,
) -> None:  # fmt: skip
    """Write a set of one tensor to a MatrixMarket file.

    Raises
    ------
    UnsupportedError
        There is not exactly one tensor, or there is metadata.
    """
    tensor = only_tensor(tensors, kv, "a MatrixMarket file", dequantize=dequantize, densify=densify)
    to_matrixmarket(path, tensor, **options)
