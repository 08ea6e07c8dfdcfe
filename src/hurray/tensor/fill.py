"""Making tensors from nothing: zeros, ranges, one value everywhere.

Format: types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.devices import Device
from hurray.dtypes.match import from_numpy_dtype, numpy_to_codes, to_numpy_dtype
from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.kernels.bits import packed_nbytes
from hurray.kernels.float128 import float64_to_float128
from hurray.layouts._base import Codes, pack_codes
from hurray.tensor.build import cast, check_new, wrap
from hurray.tensor.memory import aligned_empty
from hurray.tensor.tensor import Tensor

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _allocate(shape: tuple[int, ...], dtype: Dtype) -> NDArray[np.uint8]:
    n_elems = 1
    for n in shape:
        n_elems *= n
    n_bytes = packed_nbytes(n_elems, dtype.bit_width)
    if n_bytes >= 2**62:
        raise UnsupportedError(f"{dtype} of shape {shape} takes {n_bytes} bytes, more than can be addressed")
    try:
        return aligned_empty(n_bytes)
    except MemoryError:
        raise UnsupportedError(f"not enough memory for {n_bytes} bytes ({dtype} of shape {shape})") from None


def _code_of(value: Any, dtype: Dtype) -> Codes:
    """Return the code of one value as a 0-d code array."""
    if dtype.name == "float128":
        return float64_to_float128(np.float64(value).reshape(1)).reshape(16).view("V16").reshape(())
    kind = to_numpy_dtype(dtype)
    array = np.asarray(value)
    if dtype.is_integer and array.dtype.kind in "iu" and dtype.bit_width >= 8:
        info = np.iinfo(kind)
        if not info.min <= int(array) <= info.max:
            raise InvalidDescriptorError(f"{int(array)} does not fit {dtype}")
    if dtype.name == "float8_e8m0" and not float(array) > 0:
        raise InvalidDescriptorError(f"float8_e8m0 holds positive powers of two; it cannot hold {value!r}")
    return numpy_to_codes(array.astype(kind), dtype)


def _filled(shape: tuple[int, ...], dtype: Dtype, value: Any) -> Tensor:
    code = _code_of(value, dtype)
    data = _allocate(shape, dtype)
    if dtype.bit_width >= 8:
        data.view(dtype.storage)[...] = code
        return wrap(data, shape, dtype)
    n_elems = 1
    for n in shape:
        n_elems *= n
    period = pack_codes(np.full(8, code, np.uint8), dtype.bit_width)
    data[...] = np.resize(period, len(data)) if len(data) else 0
    tail = n_elems % (8 // dtype.bit_width if dtype.bit_width != 6 else 4)
    if tail:
        last = pack_codes(np.full(tail, code, np.uint8), dtype.bit_width)
        data[len(data) - len(last) :] = last
    return wrap(data, shape, dtype)


def zeros(shape: Sequence[int], *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return a tensor of zeros; float64 by default.

    Examples
    --------
    >>> import hurray
    >>> hurray.zeros([2], dtype=hurray.int8)
    hurray.Tensor([0 0], dtype=int8)
    """
    return _filled(*check_new(shape, dtype, device), 0)


def ones(shape: Sequence[int], *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return a tensor of ones; float64 by default."""
    return _filled(*check_new(shape, dtype, device), 1)


def empty(shape: Sequence[int], *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return a tensor whose elements are whatever the memory held; float64 by default."""
    dims, kind = check_new(shape, dtype, device)
    return wrap(_allocate(dims, kind), dims, kind)


def full(shape: Sequence[int], fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return a tensor filled with one value; its dtype follows the value by default."""
    kind = from_numpy_dtype(np.asarray(fill_value).dtype) if dtype is None else dtype
    return _filled(*check_new(shape, kind, device), fill_value)


def _like(x: Tensor, dtype: Dtype | None) -> tuple[tuple[int | None, ...], Dtype]:
    if not isinstance(x, Tensor):
        raise TypeError(f"a hurray.Tensor is needed, not {type(x).__name__}")
    return x.shape, x.dtype if dtype is None else dtype


def zeros_like(x: Tensor, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return zeros in the shape and dtype of ``x``."""
    shape, kind = _like(x, dtype)
    return zeros(shape, dtype=kind, device=device)  # type: ignore[arg-type]


def ones_like(x: Tensor, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return ones in the shape and dtype of ``x``."""
    shape, kind = _like(x, dtype)
    return ones(shape, dtype=kind, device=device)  # type: ignore[arg-type]


def empty_like(x: Tensor, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return an uninitialised tensor in the shape and dtype of ``x``."""
    shape, kind = _like(x, dtype)
    return empty(shape, dtype=kind, device=device)  # type: ignore[arg-type]


def full_like(x: Tensor, fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return a tensor filled with one value in the shape and dtype of ``x``."""
    shape, kind = _like(x, dtype)
    return full(shape, fill_value, dtype=kind, device=device)  # type: ignore[arg-type]


def arange(
    start: Any, stop: Any = None, step: Any = None, *, dtype: Dtype | None = None, device: Device | None = None
) -> Tensor:
    """Return evenly spaced values ``start, start + step, ...`` below ``stop`` (``arange(n)`` counts from 0)."""
    if stop is None:
        start, stop = 0, start
    check_new((), dtype, device)
    return cast(np.arange(start, stop, 1 if step is None else step), dtype)


def linspace(
    start: Any, stop: Any, num: int, *, dtype: Dtype | None = None, device: Device | None = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """Return ``num`` evenly spaced values from ``start`` to ``stop``, the latter included by default."""
    check_new((), dtype, device)
    return cast(np.linspace(start, stop, num, endpoint=endpoint), dtype)


def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Dtype | None = None, device: Device | None = None
) -> Tensor:
    """Return a matrix with ones on the ``k``-th diagonal and zeros elsewhere."""
    check_new((), dtype, device)
    return cast(np.eye(n_rows, n_cols, k), dtype)
