"""Match the element types with those of NumPy, ml_dtypes and torch, and move arrays across bit for bit.

The types that NumPy lacks come from ml_dtypes. It is imported when the first such type is asked for, never for
NumPy's own types, and not to recognise an array of one of its types either: the dtype's name is enough.

Format: types, element types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import UnsupportedError
from hurray.kernels import bits as bit_kernels

__all__ = [
    "TORCH_NAMES",
    "codes_to_numpy",
    "from_numpy_dtype",
    "from_torch_name",
    "numpy_to_codes",
    "to_numpy_dtype",
    "to_torch_name",
]

# Element type -> name in ml_dtypes. Mind that ml_dtypes.float8_e4m3 is another format than ours, which it calls fn.
_ML_NAMES = {
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
    "float4_e2m1": "float4_e2m1fn",
    "float6_e2m3": "float6_e2m3fn",
    "float6_e3m2": "float6_e3m2fn",
    "int4": "int4",
    "uint4": "uint4",
    "int2": "int2",
    "uint2": "uint2",
}
_NO_NUMPY = ("float128",)
_NATIVE = [dtype for name, dtype in BY_NAME.items() if name not in _ML_NAMES and name not in _NO_NUMPY]

# Tag -> NumPy dtype. The ml_dtypes rows are added when they are first used.
_TO_NUMPY: dict[int, np.dtype[Any]] = {
    dtype.tag: np.dtype(np.bool_) if dtype.name == "bool" else dtype.storage for dtype in _NATIVE
}
_FROM_NUMPY: dict[np.dtype[Any], Dtype] = {_TO_NUMPY[dtype.tag]: dtype for dtype in _NATIVE}
# The same types in the other byte order, or under another C name.
_FROM_KIND = {(found.kind, found.itemsize): dtype for found, dtype in _FROM_NUMPY.items()}
_FROM_ML_NAME = {ml_name: BY_NAME[name] for name, ml_name in _ML_NAMES.items()}

_TORCH_LACKS = ("float4_e2m1", "float6_e2m3", "float6_e3m2", "float128", "int4", "uint4", "int2", "uint2")
TORCH_NAMES: dict[str, str] = {
    name: f"torch.{_ML_NAMES.get(name, name)}" for name in BY_NAME if name not in _TORCH_LACKS
}
"""The torch dtype, as ``str(tensor.dtype)`` gives it, of every element type that torch stores one by one."""

_FROM_TORCH = {torch_name: BY_NAME[name] for name, torch_name in TORCH_NAMES.items()}


def to_numpy_dtype(dtype: Dtype) -> np.dtype[Any] | None:
    """Return the NumPy dtype of an element type's values.

    Parameters
    ----------
    dtype
        Element type.

    Returns
    -------
    numpy.dtype or None
        Little-endian where that matters; from ml_dtypes for the small types; None for float128 and private types.

    Raises
    ------
    UnsupportedError
        ml_dtypes is missing or too old for the type.

    Notes
    -----
    Format: types, element types.
    """
    found = _TO_NUMPY.get(dtype.tag)
    if found is None and dtype.name in _ML_NAMES:
        found = _TO_NUMPY[dtype.tag] = _ml_dtype(dtype)
    return found


def from_numpy_dtype(dtype: object) -> Dtype:
    """Return the element type that stores elements of a NumPy dtype.

    Parameters
    ----------
    dtype
        A NumPy dtype, or what ``numpy.dtype`` makes one of; any byte order. The names of the ml_dtypes types are
        understood as well.

    Raises
    ------
    UnsupportedError
        The format has no such element type.
    TypeError
        It is no dtype at all.

    Notes
    -----
    Format: types, element types.
    """
    if isinstance(dtype, str) and dtype in _FROM_ML_NAME:
        return _FROM_ML_NAME[dtype]
    if dtype is None:  # which NumPy takes for float64
        raise TypeError("a NumPy dtype is needed, not None")
    given: np.dtype[Any] = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)  # type: ignore[call-overload]
    found = _FROM_NUMPY.get(given)
    if found is None:
        # ml_dtypes first: it gives one of its one byte types the kind of NumPy's floats.
        found = _from_ml_dtype(given) or _FROM_KIND.get((given.kind, given.itemsize))
    if found is None:
        wide = " (NumPy's long double is no IEEE binary128)" if given.kind in "fc" and given.itemsize > 8 else ""
        raise UnsupportedError(f"no element type of the format stores the NumPy dtype {given}{wide}")
    return found


def codes_to_numpy(codes: NDArray[Any], dtype: Dtype) -> NDArray[Any]:
    """View codes as an array of the element type's NumPy dtype.

    Parameters
    ----------
    codes
        Array of ``dtype.storage``, any shape and strides. bool codes are 0 and 1.
    dtype
        Element type of the codes.

    Returns
    -------
    ndarray
        Same shape and bits without a copy (except for int4 and int2 with a release of ml_dtypes that stores them
        sign-extended).

    Raises
    ------
    UnsupportedError
        NumPy has no such type, or ml_dtypes is missing.

    Notes
    -----
    Format: types, element types.
    """
    target = to_numpy_dtype(dtype)
    if target is None:
        if dtype.is_opaque:
            raise UnsupportedError(f"elements of the private or unknown type {dtype.tag:#04x} have no NumPy dtype")
        raise UnsupportedError(f"NumPy has no dtype for {dtype}; convert the elements to float64 instead")
    if target == codes.dtype:
        return codes
    if dtype.is_signed and dtype.is_sub_byte and dtype.is_integer and _is_sign_extended(target):
        return bit_kernels.sign_extend(codes, dtype.bit_width).view(target)
    return codes.view(target)


def numpy_to_codes(array: NDArray[Any], dtype: Dtype) -> NDArray[Any]:
    """Return the codes of an array's elements, bit for bit.

    Parameters
    ----------
    array
        Array of the element type's NumPy dtype, or of its storage dtype, that is, of codes. Any shape, strides and
        byte order.
    dtype
        Element type of the elements.

    Returns
    -------
    ndarray
        ``dtype.storage`` array of the same shape in C order, a view where the bytes are already right. The unused
        high bits of packed types are zero.

    Raises
    ------
    UnsupportedError
        The array's elements are of another type. Nothing is converted here.

    Notes
    -----
    Format: types, packing.
    """
    given = array.dtype
    storage = dtype.storage
    if given == storage or given.newbyteorder() == storage:
        codes = np.asarray(array, storage, order="C")
    elif storage.itemsize == given.itemsize and _holds(given, dtype):
        stored = storage.newbyteorder(">") if given.byteorder == ">" else storage
        codes = np.asarray(np.asarray(array).view(stored), storage, order="C")
    else:
        raise UnsupportedError(f"an array of NumPy dtype {given} does not hold elements of type {dtype}")
    return _without_excess(codes, dtype.bit_width) if dtype.is_sub_byte else codes


def to_torch_name(dtype: Dtype) -> str | None:
    """Return the name of an element type's torch dtype ("torch.float32"), or None where torch has none."""
    return TORCH_NAMES.get(dtype.name)


def from_torch_name(name: str) -> Dtype:
    """Return the element type of a torch dtype's name ("torch.float32" or "float32").

    Raises
    ------
    UnsupportedError
        The format has no such element type.
    """
    found = _FROM_TORCH.get(name if name.startswith("torch.") else f"torch.{name}")
    if found is None:
        raise UnsupportedError(f"no element type of the format stores the torch dtype {name}")
    return found


def _ml_dtype(dtype: Dtype) -> np.dtype[Any]:
    """Fetch a type from ml_dtypes."""
    name = _ML_NAMES[dtype.name]
    try:
        found: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
    except ImportError as error:
        raise UnsupportedError(f"arrays of {dtype} need the package ml_dtypes: {error}") from error
    except AttributeError:
        raise UnsupportedError(f"arrays of {dtype} need a newer release of ml_dtypes, one with {name}") from None
    return found


def _from_ml_dtype(given: np.dtype[Any]) -> Dtype | None:
    """Recognise a type of ml_dtypes by its name and size."""
    found = _FROM_ML_NAME.get(given.name)
    if found is not None and found.storage.itemsize == given.itemsize:
        return found
    return None


def _holds(given: np.dtype[Any], dtype: Dtype) -> bool:
    """Tell whether a NumPy dtype is the one of an element type."""
    if dtype.name == "bool":
        return given == np.bool_
    found = _from_ml_dtype(given) or _FROM_KIND.get((given.kind, given.itemsize))
    return found is dtype


def _is_sign_extended(target: np.dtype[Any]) -> bool:
    """Tell whether ml_dtypes keeps a negative small integer as a negative byte."""
    return bool(np.array(-1, np.int8).astype(target).view(np.uint8) == 0xFF)


def _without_excess(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Clear the bits above an element's width; for one bit, let any bit count as true, as NumPy does."""
    mask = (1 << bits) - 1
    if codes.size == 0 or codes.max() <= mask:
        return codes
    return (codes != 0).view(np.uint8) if bits == 1 else codes & np.uint8(mask)
