"""Making tensors from nothing: zeros, ranges, one value everywhere.

Format: types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.devices import Device
from hurray.dtypes.table import Dtype
from hurray.errors import ArgumentTypeError, InvalidDescriptorError, UnsupportedError
from hurray.kernels.bits import packed_nbytes
from hurray.layouts._base import as_int, pack_codes
from hurray.sources._base import aligned_bytes
from hurray.tensor.build import cast, check_new, wrap
from hurray.tensor.casting import number_type, scalar_code
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


def _allocate(shape: tuple[int, ...], dtype: Dtype, *, zeroed: bool = False) -> NDArray[np.uint8]:
    n_elems = 1
    for n in shape:
        n_elems *= n
    n_bytes = packed_nbytes(n_elems, dtype.bit_width)
    if n_bytes >= 2**62:
        raise UnsupportedError(f"{dtype} of shape {shape} takes {n_bytes} bytes, more than can be addressed")
    try:
        return aligned_bytes(n_bytes, zeroed=zeroed)
    except MemoryError:
        raise UnsupportedError(f"not enough memory for {n_bytes} bytes ({dtype} of shape {shape})") from None


def _filled(shape: tuple[int, ...], dtype: Dtype, value: Any) -> Tensor:
    code = scalar_code(value, dtype)
    is_zero = not any(code.tobytes())
    data = _allocate(shape, dtype, zeroed=is_zero)
    if is_zero:
        return wrap(data, shape, dtype)
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
    # The unused bits of the last byte are zero by the format, so packed types are not left to chance.
    return wrap(_allocate(dims, kind, zeroed=kind.is_sub_byte), dims, kind)


def full(shape: Sequence[int], fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Return a tensor filled with one value; its dtype follows the value by default."""
    kind = number_type(fill_value) if dtype is None else dtype
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
    step = 1 if step is None else step
    check_new((), dtype, device)
    for value in (start, stop, step):
        _check_real(value, "arange")
    if not step:
        raise InvalidDescriptorError("arange: step must not be 0")
    if all(hasattr(value, "__index__") for value in (start, stop, step)):
        return cast(_integers(range(start, stop, step)), dtype)
    ends: list[Any] = [v if isinstance(v, (int, np.number)) else float(v) for v in (start, stop, step)]
    return cast(_made("arange", lambda: np.arange(*ends)), dtype)


def linspace(
    start: Any, stop: Any, num: int, *, dtype: Dtype | None = None, device: Device | None = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """Return ``num`` evenly spaced values from ``start`` to ``stop``, the latter included by default."""
    check_new((), dtype, device)
    for value in (start, stop):
        _check_real(value, "linspace")
    count = as_int(num, "linspace: num")
    return cast(_made("linspace", lambda: np.linspace(start, stop, count, endpoint=endpoint)), dtype)


def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Dtype | None = None, device: Device | None = None
) -> Tensor:
    """Return a matrix with ones on the ``k``-th diagonal and zeros elsewhere."""
    check_new((), dtype, device)
    rows = as_int(n_rows, "eye: n_rows")
    columns = rows if n_cols is None else as_int(n_cols, "eye: n_cols")
    # A diagonal further out than the matrix is wide does not meet it, wherever it is.
    diagonal = max(-rows, min(columns, as_int(k, "eye: k", low=-(2**63), high=2**63)))
    return cast(_made("eye", lambda: np.eye(rows, columns, diagonal)), dtype)


def _check_real(value: Any, what: str) -> None:
    if isinstance(value, (str, bytes, complex, np.complexfloating)) or not hasattr(value, "__float__"):
        raise ArgumentTypeError(f"{what} takes real numbers, not {type(value).__name__}")


def _integers(values: range) -> NDArray[Any]:
    """Return a range as int64, or as uint64 where it needs it; no value is rounded."""
    ends = (values[0], values[-1]) if values else (0, 0)
    kinds = [t for t in (np.int64, np.uint64) if np.iinfo(t).min <= min(ends) and max(ends) <= np.iinfo(t).max]
    if not kinds:
        raise InvalidDescriptorError(f"arange: {min(ends)} to {max(ends)} does not fit a 64-bit integer type")
    if kinds[0] is np.int64 and abs(values.step) < 2**63 and abs(values.stop) < 2**63:
        return _made("arange", lambda: np.arange(values.start, values.stop, values.step, dtype=np.int64))
    return _made("arange", lambda: np.fromiter(values, kinds[0]))


def _made(what: str, build: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Run NumPy's constructor; its errors of size and of values become ours."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return build()
    except MemoryError:
        raise UnsupportedError(f"{what}: not enough memory for the result") from None
    except (ValueError, OverflowError) as error:
        raise InvalidDescriptorError(f"{what}: {error}") from None
