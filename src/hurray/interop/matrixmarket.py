"""MatrixMarket files (``.mtx``): read here, written by ``scipy.io``.

``scipy.io`` would read them too, but its compiled reader sets memory aside for whatever the header promises and runs
out of its arrays on some malformed files, which a reader of untrusted files must not.

Format: layouts, coo, csr / csc.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import FileError, InvalidDescriptorError, UnsupportedError
from hurray.interop._base import TensorSet
from hurray.interop._entry_lines import MAX_LINE, Entries, LineReader, Values, joined, line_of
from hurray.interop._optional import require
from hurray.interop._stored import Duplicates, check_duplicates, coordinate_tensor
from hurray.interop._text import base_name, only_tensor, open_text, text_output
from hurray.interop.scipy import to_scipy
from hurray.layouts import layout_by_name
from hurray.layouts._sparse import SparseLayout
from hurray.tensor.build import from_numpy
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import dense_shape, refuse_absurd

__all__ = ["from_matrixmarket", "read_matrixmarket_set", "to_matrixmarket", "write_matrixmarket_set"]

U64 = NDArray[np.uint64]
Array = NDArray[Any]

_SUFFIXES = (".mtx.gz", ".mtx")
_REAL = Values(np.dtype(np.float64))
_FIELDS = {
    "real": _REAL,
    "double": _REAL,
    "integer": Values(np.dtype(np.int64), -(2**63), 2**63 - 1),
    "unsigned-integer": Values(np.dtype(np.uint64), 0, 2**64 - 1),
    "complex": Values(np.dtype(np.float64), n=2),
    "pattern": Values(np.dtype(np.float64), n=0),
}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
_FORMS = ("coordinate", "array")
_BANNER = b"%%matrixmarket"


class _Header(NamedTuple):
    form: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    #: numbers or entries that follow
    n_entries: int
    n_lines: int


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
        Layout of the result; by default ``coo`` for coordinate files and, for array files, ``col_major`` as the file
        is (``row_major`` for packed types).
    dtype : Dtype, optional
        Element type; by default what the file's field needs (float64, int64, uint64 or complex128).
    duplicates : {"sum", "error", "last"}
        What becomes of coordinates that occur more than once; summing them is the custom.

    Raises
    ------
    FileError
        The file is missing or broken; a line at fault is named.
    UnsupportedError
        The element type cannot hold the values.

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
    wanted = None if layout is None else layout_by_name(layout)
    with open_text(path) as (stream, source):
        header = _read_header(stream, source.name)
        values = _FIELDS[header.field]
        rank, bounds = (2, header.shape) if header.form == "coordinate" else (0, None)
        reader = LineReader(source.name, values, b"%", shape=bounds, rank=rank, n_lines=header.n_lines)
        blocks = _counted(reader, stream, header)
    lines = [block.lines for block in blocks]
    coords, found = joined(blocks, rank, values)
    try:
        if header.form == "array":
            return _in_layout(from_numpy(_converted(_square(_numbers(found, header), header), dtype)), layout)
        coords, stored, origin = _mirrored(coords, _numbers(found, header), header)
        sparse = wanted.name if wanted is not None and issubclass(wanted, SparseLayout) else "coo"
        tensor = coordinate_tensor(
            coords,
            stored,
            header.shape,
            layout=sparse,
            duplicates=duplicates,
            name_entry=lambda k: f"line {line_of(lines, int(origin[k]))}",
            finish=lambda array: _converted(array, dtype),
        )
    except InvalidDescriptorError as error:
        raise FileError(f"{reader.name}: {error}", filename=reader.name) from None
    return _in_layout(tensor, layout)


def _in_layout(tensor: Tensor, layout: str | None) -> Tensor:
    return tensor if layout is None or layout == tensor.layout.name else tensor.to_layout(layout)


def _read_header(stream: BinaryIO, name: str) -> _Header:
    words = stream.readline(MAX_LINE).lower().split()
    if len(words) != 5 or words[0] != _BANNER:
        raise FileError(f"{name}: line 1 is not the banner of a MatrixMarket file", filename=name)
    kind, form, field, symmetry = (word.decode("ascii", "backslashreplace") for word in words[1:])
    for word, known in ((kind, ("matrix",)), (form, _FORMS), (field, tuple(_FIELDS)), (symmetry, _SYMMETRIES)):
        if word not in known:
            raise FileError(f"{name}: line 1 has {word[:40]!r}, expected {' or '.join(known)}", filename=name)
    if (field == "pattern" and form == "array") or (symmetry == "hermitian" and field != "complex"):
        raise FileError(f"{name}: line 1 combines {form} {field} {symmetry}, which means nothing", filename=name)
    n_lines, line = 1, b"%"
    while line.startswith(b"%") or (line and not line.strip()):
        line = stream.readline(MAX_LINE)
        n_lines += 1
    sizes = line.split()
    if len(sizes) != (3 if form == "coordinate" else 2) or not all(w.isdigit() and len(w) < 19 for w in sizes):
        raise FileError(f"{name}: line {n_lines} is not the size of a {form} matrix", filename=name)
    rows, cols, *rest = map(int, sizes)
    if symmetry != "general" and rows != cols:
        raise FileError(
            f"{name}: line {n_lines} says {rows} by {cols}, but a {symmetry} matrix is square", filename=name
        )
    triangle = rows * (rows + 1) // 2 - (rows if symmetry == "skew-symmetric" else 0)
    n_entries = rest[0] if rest else (rows * cols if symmetry == "general" else triangle)
    return _Header(form, field, symmetry, (rows, cols), n_entries, n_lines)


def _counted(reader: LineReader, stream: BinaryIO, header: _Header) -> list[Entries]:
    """Return all blocks of entries, as many as the header promises."""
    blocks: list[Entries] = []
    n = 0
    for block in reader.blocks(stream):
        blocks.append(block)
        n += len(block.values)
        if n > header.n_entries:
            at = len(block.values) - (n - header.n_entries)
            reader.fault(int(block.lines[at]), f"is one more than the {header.n_entries} that the header promises")
    if n < header.n_entries:
        raise FileError(f"{reader.name}: {n} entries, but the header promises {header.n_entries}", filename=reader.name)
    return blocks


def _numbers(found: Array, header: _Header) -> Array:
    """Return one number for each entry."""
    if header.field == "pattern":
        return np.ones(len(found))
    if header.field == "complex":
        return np.ascontiguousarray(found).view(np.complex128)[:, 0]
    return found[:, 0]


def _reflection(values: Array, header: _Header) -> Array:
    """Return the values on the other side of the diagonal."""
    if header.symmetry == "symmetric":
        return values
    if header.symmetry == "hermitian":
        conjugate: Array = values.conj()
        return conjugate
    if (values.dtype.kind == "u" and values.any()) or (values.dtype.kind == "i" and (values == -(2**63)).any()):
        raise InvalidDescriptorError(
            f"the negative of a value of this skew-symmetric matrix does not fit {values.dtype}"
        )
    negative: Array = -values
    return negative


def _mirrored(coords: U64, values: Array, header: _Header) -> tuple[U64, Array, NDArray[np.int64]]:
    """Return the entries on both sides of the diagonal, and which entry of the file each comes from."""
    origin = np.arange(len(coords))
    if header.symmetry == "general":
        return coords, values, origin
    off = np.flatnonzero(coords[:, 0] != coords[:, 1])
    both = np.concatenate([coords, coords[off, ::-1]])
    return both, np.concatenate([values, _reflection(values[off], header)]), np.concatenate([origin, off])


def _square(values: Array, header: _Header) -> Array:
    """Return the matrix of an array file, which goes down the columns (of the lower triangle)."""
    if header.symmetry == "general":
        return values.reshape(header.shape, order="F")
    made = np.zeros(header.shape, values.dtype, order="F")
    # Row by row, the upper triangle of the transpose is the lower one column by column.
    cols, rows = np.triu_indices(header.shape[0], 1 if header.symmetry == "skew-symmetric" else 0)
    made[cols, rows] = _reflection(values, header)
    made[rows, cols] = values
    return made


def _converted(values: Array, dtype: Dtype | None) -> Array:
    """Return values in an element type, refusing what it cannot hold."""
    target = None if dtype is None else dtype.numpy
    if dtype is None or target == values.dtype:
        return values
    if target is None:
        raise UnsupportedError(f"the values of a MatrixMarket file cannot be read as {dtype}")
    if dtype.name == "bool":
        return np.asarray(values != 0)
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

    Examples
    --------
    >>> import io, numpy as np, hurray
    >>> out = io.BytesIO()
    >>> hurray.to_matrixmarket(out, hurray.from_numpy(np.eye(2)).to_layout("csr"))
    >>> out.getvalue().splitlines()[2:]
    [b'2 2 2', b'1 1 1', b'2 2 1']

    Format: layouts, coo, csr / csc.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"a hurray.Tensor is needed, not {type(tensor).__name__}")
    if tensor.ndim != 2:
        raise UnsupportedError(f"a MatrixMarket file holds a matrix, not a tensor of shape {tensor.shape}")
    io = require("scipy.io", "scipy")
    matrix = _writable(tensor)
    with text_output(path) as out:
        io.mmwrite(_Sink(out), matrix, comment=comment, precision=precision, symmetry="general")


class _Sink:
    """What ``scipy.io`` writes to: it would seek in a file that has ``seek``, and not all outputs can."""

    def __init__(self, out: BinaryIO) -> None:
        self.write = out.write
        self.flush = out.flush


def _writable(tensor: Tensor) -> Any:
    """Return a tensor as something ``scipy.io`` writes."""
    sparse = isinstance(tensor.layout, SparseLayout)
    found = tensor.dtype.numpy
    if found is None:
        raise UnsupportedError(f"a MatrixMarket file has no field for {tensor.dtype}")
    if not sparse:
        refuse_absurd(tensor, dense_shape(tensor))
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
