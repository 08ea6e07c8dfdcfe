"""Bring a tensor into the form of formats that know dense, row-major, unquantized arrays only.

What such a format cannot express is refused unless the caller asks for the conversion: a sparse tensor made dense may
be thousands of times larger, and a quantized one made of floats is no longer what was stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import ArgumentTypeError, UnsupportedError
from hurray.kernels.bits import packed_nbytes
from hurray.tensor.build import from_numpy
from hurray.tensor.composite import Composite
from hurray.tensor.relayout import contiguous_row_major
from hurray.tensor.tensor import Tensor

__all__ = ["DenseForm", "dense_form", "row_major_bytes"]


class DenseForm(NamedTuple):
    """A tensor that will be made dense: what it will look like, before any of its data are touched."""

    name: str
    item: Tensor | Composite
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def looks(self) -> tuple[Dtype, tuple[int, ...]]:
        """Element type and shape."""
        return self.dtype, self.shape

    def tensor(self) -> Tensor:
        """Return the dense, unquantized, row-major tensor."""
        item = self.item
        if isinstance(item, Composite):
            return _from_codes(item.to_numpy(), self.dtype)
        if item.quantization is not None:
            item = item.dequantize()
        return contiguous_row_major(item)


def dense_form(name: str, item: Any, target: str, *, dequantize: bool = False, densify: bool = False) -> DenseForm:
    """Plan how an item is written to a format of dense arrays.

    Parameters
    ----------
    name : str
        The item's name, for messages.
    item : Tensor, Composite or array
        What to write.
    target : str
        What messages call the format.
    dequantize, densify : bool
        Turn quantized tensors into float32, and sparse, block-paged and composite ones into dense arrays.

    Raises
    ------
    UnsupportedError
        The format cannot express the item, and the conversion was not asked for.
    """
    check_name(name, target)
    if not isinstance(item, (Tensor, Composite)):
        item = from_numpy(_as_array(item))
    shape = item.shape
    if any(n is None for n in shape):
        raise UnsupportedError(f"tensor {name!r} has a dynamic dimension, which {target} cannot express")
    known: tuple[int, ...] = tuple(n for n in shape if n is not None)
    if isinstance(item, Composite):
        if not densify:
            raise UnsupportedError(f"{name!r} is a composite, which {target} cannot express; pass densify=True")
        return DenseForm(name, item, item.dtype, known)
    if item.dtype.is_opaque or item.layout.kind == "opaque":
        raise UnsupportedError(f"tensor {name!r} has a private type or layout: it is carried, not interpreted")
    if item.layout.kind != "dense" and not densify:
        raise UnsupportedError(
            f"tensor {name!r} is in layout {item.layout.name!r}, which {target} cannot express; pass densify=True"
        )
    if item.quantization is None:
        return DenseForm(name, item, item.dtype, known)
    if not dequantize:
        raise UnsupportedError(
            f"tensor {name!r} is quantized, which {target} cannot express; pass dequantize=True to write float32"
        )
    return DenseForm(name, item, BY_NAME["float32"], known)


def check_name(name: object, target: str) -> None:
    """Refuse a tensor's name that is no text."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"a tensor's name is a str, not {type(name).__name__}: {name!r}")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnsupportedError(f"tensor {name!r}: {target} cannot store that name: {error.reason}") from None


def _as_array(item: Any) -> NDArray[Any]:
    try:
        return np.asarray(item)
    except (ValueError, OverflowError) as error:
        raise UnsupportedError(f"an object of type {type(item).__name__} is no array: {error}") from None


def _from_codes(array: NDArray[Any], dtype: Dtype) -> Tensor:
    found = from_numpy(np.ascontiguousarray(array))
    if found.dtype is not dtype:
        raise UnsupportedError(f"the composite's values are {found.dtype}, its head says {dtype}")
    return found


def row_major_bytes(t: Tensor) -> NDArray[np.uint8]:
    """Return the bytes of a dense row-major tensor's elements: a 1-D view, padding left out."""
    n_bytes = packed_nbytes(t.size or 0, t.dtype.bit_width)
    start = t.descriptor.byte_offset
    return t._buffers[0][start : start + n_bytes]
