"""Numbers of one type as codes of another, refused where the other type cannot hold them.

Floats round to nearest even and may overflow to infinity, as in NumPy; integers never wrap, and nothing complex turns
real.

Format: types.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.match import from_numpy_dtype, numpy_to_codes, to_numpy_dtype
from hurray.dtypes.table import Dtype
from hurray.errors import ArgumentTypeError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import minifloat
from hurray.kernels.float128 import float64_to_float128
from hurray.layouts._base import Codes

__all__ = ["cast_codes", "scalar_code"]

#: floats that NumPy lacks and ml_dtypes rounds twice when they come from float64
_SMALL_FLOATS = frozenset({"float8_e4m3", "float8_e5m2", "float8_e8m0", "float4_e2m1", "float6_e2m3", "float6_e3m2"})


def cast_codes(array: NDArray[Any], dtype: Dtype) -> Codes:
    """Return numbers as codes of ``dtype`` in the same shape.

    Raises
    ------
    InvalidDescriptorError
        A number does not fit the type; it is named.
    TypeError
        Complex numbers for a real type.
    UnsupportedError
        The array holds no numbers, or the type's values have no meaning here.
    """
    given = from_numpy_dtype(array.dtype)
    if given is dtype:
        return numpy_to_codes(array, dtype)
    if given.is_complex and not dtype.is_complex:
        raise ArgumentTypeError(f"complex numbers cannot be converted to {dtype}")
    if given.storage.kind == "u" and given.is_float:  # ml_dtypes arrays know few operations
        array = array.astype(np.float32)
    elif given.is_sub_byte and given.is_integer:
        array = array.astype(np.int16)
    if dtype.is_integer:
        _check_range(array, dtype)
    if dtype.name == "float128":
        raw = float64_to_float128(array.astype(np.float64))
        return np.ascontiguousarray(raw).view("V16").reshape(array.shape)
    if dtype.name in _SMALL_FLOATS:
        return _small_floats(array, dtype)
    target = to_numpy_dtype(dtype)
    if target is None:
        raise UnsupportedError(f"numbers cannot be converted to {dtype!r}")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return numpy_to_codes(array.astype(target), dtype)


def _small_floats(array: NDArray[Any], dtype: Dtype) -> Codes:
    if dtype.bit_width < 8 and array.dtype.kind == "f" and np.isnan(array).any():
        raise InvalidDescriptorError(f"{dtype} has no NaN")
    codes = minifloat.encode(array, dtype.name, saturate=False)
    if dtype.name == "float8_e8m0":
        bad = (codes == 0x00) | (codes == 0xFF)
        if bad.any():
            value = array[np.unravel_index(int(bad.argmax()), bad.shape)]
            raise InvalidDescriptorError(f"{dtype} holds powers of two from 2^-126 to 2^127; it cannot hold {value}")
    return codes


def _check_range(array: NDArray[Any], dtype: Dtype) -> None:
    """Refuse numbers outside an integer type; fractions are cut off, as in NumPy."""
    if not array.size or array.dtype.kind == "b":
        return
    low = -(1 << (dtype.bit_width - 1)) if dtype.is_signed else 0
    high = (1 << (dtype.bit_width - dtype.is_signed)) - 1
    for found in (array.min(), array.max()):
        number = found.item()
        if not math.isfinite(number) or not low <= int(number) <= high:
            raise InvalidDescriptorError(f"{dtype} holds integers from {low} to {high}; it cannot hold {number}")


def scalar_code(value: Any, dtype: Dtype) -> Codes:
    """Return the code of one number as a 0-d code array.

    Raises
    ------
    TypeError
        Not a number, or one of a kind that the type does not hold: a fraction for integers, anything but True, False, 0
        and 1 for bool.
    InvalidDescriptorError
        The number does not fit the type.
    """
    array = _as_array(value)
    if array.dtype == object and isinstance(value, int):
        if not dtype.is_float:
            raise InvalidDescriptorError(f"{dtype} cannot hold {value}")
        array = np.asarray(_as_float(value))
    given = number_type(value, array)
    if dtype.is_integer and given.is_float:
        raise ArgumentTypeError(f"fill_value is an integer for {dtype}, not {value!r}")
    if dtype.name == "bool" and given.name != "bool" and not (given.is_integer and array.item() in (0, 1)):
        raise ArgumentTypeError(f"fill_value is a bool for {dtype}, not {value!r}")
    return cast_codes(array, dtype)


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _as_array(value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:  # lists of lists of different lengths
        raise ArgumentTypeError(f"fill_value is one number, not {type(value).__name__}: {error}") from None


def number_type(value: Any, array: NDArray[Any] | None = None) -> Dtype:
    """Return the element type that a single number has by itself.

    Raises
    ------
    TypeError
        Not a single number.
    """
    array = _as_array(value) if array is None else array
    try:
        if array.ndim == 0:
            return from_numpy_dtype(array.dtype)
    except UnsupportedError:
        pass
    raise ArgumentTypeError(f"fill_value is one number, not {type(value).__name__}: no dtype follows from it") from None
