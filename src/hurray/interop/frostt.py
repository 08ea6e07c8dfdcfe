"""FROSTT text files of sparse tensors (``.tns``): one entry a line, one-based indices, then the value.

The text says neither shape nor type.  Numbers are read as float64, or exactly as integers, and become the element type
that was asked for at the end, so that sums of repeated entries are not rounded one by one.

Format: layouts, coo and csf.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import ArgumentTypeError, FileError, InvalidDescriptorError, UnsupportedError
from hurray.interop._base import TensorSet
from hurray.interop._entry_lines import LineReader, Values, joined, line_of
from hurray.interop._stored import Duplicates, check_duplicates, coordinate_tensor
from hurray.interop._text import base_name, only_tensor, open_text, text_output
from hurray.layouts import layout_by_name
from hurray.layouts._sparse import SparseLayout
from hurray.tensor.tensor import Tensor, as_shape

__all__ = ["from_frostt", "read_frostt_set", "to_frostt", "write_frostt_set"]

U64 = NDArray[np.uint64]
Array = NDArray[Any]

_SUFFIXES = (".tns.gz", ".tns")
#: entries written at a time
_ROWS = 1 << 14


def from_frostt(
    path: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    shape: Sequence[int] | None = None,
    layout: str = "coo",
    dtype: Dtype | None = None,
    duplicates: Duplicates = "error",
    **options: Any,
) -> Tensor:
    """Read a FROSTT file as a sparse tensor.

    Parameters
    ----------
    path : path, URL, bytes or binary file object
        Text, or gzip data of text.  ``#`` starts a comment; blank lines are skipped.
    shape : sequence of int, optional
        Logical shape; by default as large as the largest indices.
    layout : str
        ``coo`` or ``csf``, or ``csr`` or ``csc`` for two indices; ``options`` are the layout's arguments, such as
        ``mode_order=[2, 0, 1]``.
    dtype : Dtype, optional
        Element type of the values, float64 by default.  Integer types read whole numbers only, and those exactly.
    duplicates : {"error", "sum", "last"}
        What becomes of coordinates that occur more than once.

    Returns
    -------
    Tensor

    Raises
    ------
    FileError
        The file is missing, or a line is no entry: an index is no positive integer or lies outside ``shape``, the
        number of columns changes, the value is no number, a coordinate repeats.  The line is named.
    InvalidDescriptorError
        The shape or the layout's arguments are not legal.

    Examples
    --------
    >>> import hurray
    >>> text = "1 1 1 2.0  # one-based" + chr(10) + "2 3 1 5.5"
    >>> hurray.from_frostt(text.encode())
    hurray.Tensor(layout='coo', shape=(2, 3, 1), nnz=2, dtype=float64)

    Format: layouts, coo and csf.
    """
    check_duplicates(duplicates)
    if not issubclass(layout_by_name(layout), SparseLayout):
        raise UnsupportedError(
            f"a FROSTT file is read into a sparse layout, not {layout!r}; use to_layout() afterwards"
        )
    known = None if shape is None else tuple(n for n in as_shape(shape) if n is not None)
    wanted = _value_type(dtype)
    with open_text(path) as (stream, source):
        reader = LineReader(source.name, wanted, b"#", shape=known)
        blocks = list(reader.blocks(stream))
    lines = [block.lines for block in blocks]
    coords, values = joined(blocks, reader.rank or 0, wanted)

    def name_entry(k: int) -> str:
        return f"{reader.name}: line {line_of(lines, k)}"

    try:
        return coordinate_tensor(
            coords, values[:, 0], _shape_of(reader), layout=layout, duplicates=duplicates, name_entry=name_entry,
            finish=_conversion(dtype), **options,
        )  # fmt: skip
    except InvalidDescriptorError as error:
        if not str(error).startswith(f"{reader.name}: line"):
            raise
        raise FileError(str(error), filename=reader.name) from None


def _value_type(dtype: Dtype | None) -> Values:
    """Return the NumPy type in which values are read and summed, and the bounds of integers."""
    if dtype is None:
        return Values(np.dtype(np.float64))
    if not isinstance(dtype, Dtype):
        raise TypeError(f"dtype is a hurray.Dtype such as hurray.float32, not {type(dtype).__name__}")
    if dtype.name.startswith("complex") or dtype.numpy is None:
        raise UnsupportedError(f"the values of a FROSTT file cannot be read as {dtype}")
    if not dtype.is_integer:
        return Values(np.dtype(np.float64))
    half = 1 << (dtype.bit_width - 1)
    if dtype.is_signed:
        return Values(np.dtype(np.int64), -half, half - 1)
    return Values(np.dtype(np.uint64), 0, 2 * half - 1)


def _shape_of(reader: LineReader) -> tuple[int, ...]:
    if reader.shape is not None:
        return reader.shape
    if reader.rank is None:
        raise FileError(f"{reader.name} has no entries, so that no shape follows; pass shape=", filename=reader.name)
    return tuple(top + 1 for top in reader.tops)


def _conversion(dtype: Dtype | None) -> Callable[[Array], Array]:
    """Return what turns the numbers that were read into elements."""

    def convert(values: Array) -> Array:
        target = None if dtype is None else dtype.numpy
        if dtype is None or target is None or target == values.dtype:
            return values
        if values.dtype.kind in "iu":
            _check_sums(values, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            return values != 0 if dtype.name == "bool" else values.astype(target)

    return convert


def _check_sums(values: Array, dtype: Dtype) -> None:
    bounds = _value_type(dtype)
    if len(values) and not (bounds.low or 0) <= int(values.min()) <= int(values.max()) <= (bounds.high or 0):
        raise InvalidDescriptorError(f"a sum of repeated entries does not fit {dtype}")


def to_frostt(path: str | os.PathLike[str] | BinaryIO, tensor: Tensor, *, comment: str | None = None) -> None:
    """Write what a tensor stores as a FROSTT file, in row-major order; dense layouts write their non-zero elements.

    Numbers are written so that they read back to the same value.  The text keeps neither shape nor element type: pass
    them to :func:`from_frostt`.

    Parameters
    ----------
    path : path or binary file object
        Where to write; compressed where the name ends in ``.gz``.  A file is replaced when all has been written.
    tensor : Tensor
        Any layout, of rank 1 or more.
    comment : str, optional
        Written first, each line behind ``#``.

    Raises
    ------
    UnsupportedError
        A quantized tensor, or elements that are no real numbers of at most 64 bits.
    FileError
        Writing failed; an existing file is left as it was.

    Examples
    --------
    >>> import io, numpy as np, hurray
    >>> out = io.BytesIO()
    >>> hurray.to_frostt(out, hurray.from_numpy(np.array([[0.0, 1.5], [2.0, 0.0]])))
    >>> out.getvalue().splitlines()
    [b'1 2 1.5', b'2 1 2.0']

    Format: layouts, coo and csf.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"a hurray.Tensor is needed, not {type(tensor).__name__}")
    if not tensor.ndim:
        raise UnsupportedError(
            "a FROSTT file has at least one index on each line, so it cannot hold a tensor of rank 0"
        )
    if tensor.dtype.name.startswith("complex") or tensor.dtype.bit_width > 64:
        raise UnsupportedError(f"a FROSTT file holds real numbers of at most 64 bits, not {tensor.dtype}")
    remarks = _remarks(comment)
    coords, values = tensor.nonzeros()
    with text_output(path) as out:
        out.write(remarks)
        for at in range(0, len(values), _ROWS):
            out.write(_text_of(coords[at : at + _ROWS], values[at : at + _ROWS], tensor.dtype.is_integer))


def _remarks(comment: object) -> bytes:
    if comment is None:
        return b""
    if not isinstance(comment, str):
        raise ArgumentTypeError(f"a comment is a str, not {type(comment).__name__}")
    try:
        return "".join(f"# {line}\n" for line in comment.splitlines()).encode()
    except UnicodeEncodeError as error:
        raise UnsupportedError(f"the comment cannot be written as UTF-8: {error.reason}") from None


def _text_of(coords: NDArray[np.int64], values: Array, integers: bool) -> bytes:
    columns: list[list[Any]] = [(coords[:, k].view(np.uint64) + np.uint64(1)).tolist() for k in range(coords.shape[1])]
    if values.dtype.type.__module__ != "numpy":  # small types, which ml_dtypes does not spell as Python does
        values = values.astype(np.int64 if integers else np.float32)
    columns.append((values.view(np.uint8) if values.dtype == np.bool_ else values).tolist())
    template = "%d " * coords.shape[1] + "%r\n"
    return "".join([template % row for row in zip(*columns, strict=True)]).encode()


def read_frostt_set(path: str | os.PathLike[str] | bytes | BinaryIO, **options: Any) -> TensorSet:
    """Read a FROSTT file as a set of one tensor, which is called as the file is, without its ending."""
    return TensorSet({base_name(path, _SUFFIXES): from_frostt(path, **options)})


def write_frostt_set(
    path: str | os.PathLike[str] | BinaryIO, tensors: Mapping[str, Any], *, kv: Mapping[str, Any] | None = None,
    dequantize: bool = False, densify: bool = False, **options: Any,
) -> None:  # fmt: skip
    """Write a set of one tensor to a FROSTT file.

    Raises
    ------
    UnsupportedError
        There is not exactly one tensor, or there is metadata.
    """
    to_frostt(path, only_tensor(tensors, kv, "a FROSTT file", dequantize=dequantize, densify=densify), **options)
