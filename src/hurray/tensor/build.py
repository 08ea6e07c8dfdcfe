"""Making tensors from arrays, other libraries' memory, and coordinates.

Format: types; layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray import layouts
from hurray.descriptor.model import Descriptor, handle_for
from hurray.devices import Device
from hurray.dtypes.match import from_numpy_dtype, numpy_to_codes
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import (
    ArgumentTypeError,
    CopyRequiredError,
    HurrayError,
    InvalidDescriptorError,
    UnsupportedError,
)
from hurray.kernels.strides import is_col_major, is_row_major
from hurray.layouts._base import Codes, Layout, pack_codes
from hurray.layouts.row_major import ColMajorLayout, RowMajorLayout
from hurray.tensor.casting import cast_codes
from hurray.tensor.dlpack import import_dlpack
from hurray.tensor.foreign import converter_for
from hurray.tensor.forming import as_copy
from hurray.tensor.tensor import Tensor, as_shape
from hurray.tensor.values import dense_shape, refuse_absurd

__all__ = ["adopt_codes", "asarray", "from_codes", "from_dlpack", "from_numpy", "sparse_coo"]

_FLOAT64 = BY_NAME["float64"]


def from_codes(codes: Codes, dtype: Dtype, *, layout: Layout | None = None) -> Tensor:
    """Return a row-major tensor over codes (``dtype.storage`` items in the logical shape), shared where possible."""
    shape = codes.shape
    data = pack_codes(codes, dtype.bit_width)
    descriptor = Descriptor(
        dtype=dtype, shape=shape, layout=layout or RowMajorLayout(), buffer_handles=(handle_for(len(data)),)
    )
    return Tensor._from_parts(descriptor, (data,))


def wrap(data: NDArray[np.uint8], shape: tuple[int, ...], dtype: Dtype) -> Tensor:
    descriptor = Descriptor(dtype=dtype, shape=shape, layout=RowMajorLayout(), buffer_handles=(handle_for(len(data)),))
    return Tensor._from_parts(descriptor, (data,))


def check_new(shape: Any, dtype: Dtype | None, device: Device | None) -> tuple[tuple[int, ...], Dtype]:
    if dtype is not None and not isinstance(dtype, Dtype):
        raise ArgumentTypeError(
            f"dtype is a hurray.Dtype such as hurray.float32, not {dtype!r}; Dtype.from_numpy finds those of NumPy"
        )
    if device is not None and not isinstance(device, Device):
        raise ArgumentTypeError(f"device is a hurray.Device, not {type(device).__name__}")
    if device is not None and device.tag != 0:
        raise UnsupportedError(f"memory can only be allocated on the CPU, not on {device!r}")
    kind = _FLOAT64 if dtype is None else dtype
    if kind.is_opaque:
        raise UnsupportedError(f"dtype {kind!r} is private or unknown: its values have no meaning here")
    return as_shape(shape), kind  # type: ignore[return-value]


def cast(array: NDArray[Any], dtype: Dtype | None) -> Tensor:
    if dtype is None or from_numpy_dtype(array.dtype) is dtype:
        return from_numpy(array)
    try:
        codes = cast_codes(array, dtype)
    except MemoryError:
        raise UnsupportedError(f"not enough memory for an array of shape {array.shape} and {dtype}") from None
    except ValueError as error:
        # NumPy refuses some shapes, even empty ones, for wide elements only.
        if isinstance(error, HurrayError) or array.size:
            raise
        raise UnsupportedError(f"NumPy cannot make an array of shape {array.shape} and {dtype}") from None
    return from_codes(codes, dtype)


def from_numpy(array: NDArray[Any], *, copy: bool | None = None) -> Tensor:
    """Return an array's values as a tensor.

    Parameters
    ----------
    array : ndarray or NumPy scalar
        Any order, strides, byte order and alignment; NumPy's or ml_dtypes' types.
    copy : bool, optional
        None shares the array's memory where the format can express it (C and Fortran order, strides that are whole
        elements, negative and zero ones included) and copies otherwise (big-endian, bool and packed types, strides that
        split elements); False raises instead of copying; True always copies, into row-major order.

    Raises
    ------
    UnsupportedError
        The format has no such element type (objects, strings, records, dates).
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> hurray.from_numpy(np.asfortranarray(np.ones((2, 3)))).layout
    ColMajorLayout()
    """
    if not isinstance(array, (np.ndarray, np.generic)):
        raise TypeError(f"from_numpy takes an ndarray, not {type(array).__name__}; use asarray")
    copy = as_copy(copy)
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise UnsupportedError("a masked array has no value where it is masked; fill it first (array.filled(...))")
        array = array.data
    array = np.asarray(array)
    dtype = from_numpy_dtype(array.dtype)
    swapped = array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not _LITTLE)
    if copy or dtype.is_sub_byte or (swapped and array.dtype.itemsize > 1):
        if copy is False:
            why = "unpacked elements must be packed" if dtype.is_sub_byte else "big-endian elements must be swapped"
            raise CopyRequiredError(f"{array.dtype}: {why}, which needs a copy")
        codes = numpy_to_codes(array, dtype)
        if dtype.bit_width >= 8 and np.may_share_memory(codes, array):
            codes = codes.copy()
        return from_codes(codes, dtype)
    shared = _share(array, dtype)
    if shared is not None:
        return shared
    if copy is False:
        raise CopyRequiredError(
            f"strides {array.strides} split elements of {array.dtype.itemsize} bytes, which needs a copy"
        )
    return from_codes(np.ascontiguousarray(numpy_to_codes(array, dtype)).reshape(array.shape), dtype)


_LITTLE = np.dtype("<i2").isnative


def _share(array: NDArray[Any], dtype: Dtype) -> Tensor | None:
    """Return a tensor over an array's own memory, or None where its strides are no whole elements."""
    width = array.dtype.itemsize
    if array.size == 0 or array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        return wrap(flat, array.shape, dtype)
    if array.flags.f_contiguous:
        flat = array.T.reshape(-1).view(np.uint8)
        descriptor = Descriptor(
            dtype=dtype, shape=array.shape, layout=ColMajorLayout(), buffer_handles=(handle_for(len(flat)),)
        )
        return Tensor._from_parts(descriptor, (flat,))
    if any(s % width for n, s in zip(array.shape, array.strides, strict=True) if n > 1):
        return None
    steps = tuple(s // width if n > 1 else 1 for n, s in zip(array.shape, array.strides, strict=True))
    if is_row_major(array.shape, steps) or is_col_major(array.shape, steps):
        ordered = np.lib.stride_tricks.as_strided(array, array.shape, tuple(s * width for s in steps), writeable=False)
        if ordered.flags.c_contiguous or ordered.flags.f_contiguous:
            return _share(ordered, dtype)
    span, byte_offset = _span(array, steps, width)
    descriptor = Descriptor(
        dtype=dtype,
        shape=array.shape,
        layout=layouts.StridedLayout(steps),
        buffer_handles=(handle_for(len(span)),),
        byte_offset=byte_offset,
    )
    tensor = Tensor._from_parts(descriptor, (span,))
    # A span with bytes between the elements is not ours to write: writers put the values in order instead.
    tensor._borrowed = len(span) > array.size * width
    return tensor


def _span(array: NDArray[Any], steps: tuple[int, ...], width: int) -> tuple[NDArray[np.uint8], int]:
    """Return the memory from an array's lowest to its highest byte, and where its first element sits in it."""
    forward = array[tuple(slice(None, None, -1 if s < 0 else 1) for s in steps)]
    length = sum((n - 1) * abs(s) for n, s in zip(array.shape, steps, strict=True)) * width + width
    first = forward[tuple(slice(0, 1) for _ in steps)].reshape(1, copy=False).view(np.uint8)
    span = np.lib.stride_tricks.as_strided(first, (length,), (1,), writeable=False)
    return span, sum((n - 1) * -s for n, s in zip(array.shape, steps, strict=True) if s < 0) * width


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over memory that another library exports through DLPack.

    Parameters
    ----------
    x : object with ``__dlpack__``, or a DLPack capsule
        Legacy and versioned capsules both work.
    device : optional
        Only the CPU.
    copy : bool, optional
        As in :func:`from_numpy`.

    Raises
    ------
    UnsupportedError
        The memory cannot be reached from the CPU, or the format has no such element type.
    CopyRequiredError
        ``copy=False``, but a copy is needed.
    """
    if device is not None and not ((isinstance(device, Device) and device.tag == 0) or device in ("cpu", (1, 0))):
        raise UnsupportedError(f"from_dlpack gives CPU tensors, not tensors on {device!r}")
    copy = as_copy(copy)
    codes, dtype, is_copy = import_dlpack(x, copy=copy)
    return adopt_codes(codes, dtype, copy=None if is_copy else copy)


def adopt_codes(codes: Codes, dtype: Dtype, *, copy: bool | None = None) -> Tensor:
    """Return a tensor over an array of codes, whose memory is shared where the format can express it.

    Parameters
    ----------
    codes : ndarray of ``dtype.storage``
        Any order and strides; 1 to 6 bit types one byte an element.

    Raises
    ------
    CopyRequiredError
        ``copy=False``, but a copy is needed.
    """
    if dtype.is_sub_byte or copy:
        if copy is False:
            raise CopyRequiredError(f"{dtype} elements must be packed, which needs a copy")
        return from_codes(codes.copy(order="C"), dtype)
    shared = _share(codes, dtype)
    if shared is None:
        if copy is False:
            raise CopyRequiredError(f"strides {codes.strides} split elements, which needs a copy")
        return from_codes(np.ascontiguousarray(codes).reshape(codes.shape), dtype)
    return shared


def asarray(obj: Any, *, dtype: Dtype | None = None, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """Return any array-like object as a tensor.

    Parameters
    ----------
    obj : Tensor, ndarray, number, nested sequence, bytes-like, or object of another array library
        Sparse ones of SciPy, PyData Sparse, PyTorch and Arrow stay sparse.
    dtype : Dtype, optional
        Convert the values to this type.
    copy : bool, optional
        As in :func:`from_numpy`.
    """
    check_new((), dtype, device)
    copy = as_copy(copy)
    if isinstance(obj, Tensor):
        if dtype is None or dtype is obj.dtype:
            return _copied(obj) if copy else obj
        if copy is False:
            raise CopyRequiredError(f"converting {obj.dtype} to {dtype} needs a copy")
        refuse_absurd(obj, dense_shape(obj))
        return _converted(obj, dtype)
    if isinstance(obj, np.ndarray):
        keeps = dtype is None or _stores(dtype, obj)
        tensor = from_numpy(obj, copy=copy if keeps else None)
    elif (convert := converter_for(obj)) is not None:
        tensor = convert(obj, copy=copy)
    elif hasattr(obj, "__dlpack__") and not isinstance(obj, np.generic):
        tensor = from_dlpack(obj, copy=copy)
    else:
        if copy is False:
            raise CopyRequiredError(f"an object of type {type(obj).__name__} can only be copied")
        tensor = from_numpy(_to_array(obj))
    return tensor if dtype is None or tensor.dtype is dtype else asarray(tensor, dtype=dtype, copy=copy)


def _converted(t: Tensor, dtype: Dtype) -> Tensor:
    """Return a tensor's values in another type; a sparse tensor keeps its layout and its coordinates."""
    kind = np.float64 if t.dtype.name == "float128" else None
    if not t.layout.is_sparse or t.quantization is not None:
        return cast(t.to_numpy(dtype=kind), dtype)
    data = pack_codes(cast_codes(t.values.to_numpy(dtype=kind), dtype), dtype.bit_width)
    own = t._buffers[1 : t.layout.buffer_count]
    return Tensor(data, dtype, t.shape, aux_buffers=own, layout=t.layout, shard=t.shard)


def _stores(dtype: Dtype, array: NDArray[Any]) -> bool:
    """Tell whether ``dtype`` is the element type of an array."""
    return from_numpy_dtype(array.dtype) is dtype


def _to_array(obj: Any) -> NDArray[Any]:
    try:
        return np.asarray(obj)
    except (ValueError, OverflowError) as error:
        raise InvalidDescriptorError(f"an object of type {type(obj).__name__} is no array: {error}") from None


def _copied(t: Tensor) -> Tensor:
    return t.__deepcopy__({})


def sparse_coo(
    values: Any, indices: Any, shape: Sequence[int], *, copy: bool | None = None, is_sorted: bool | None = None
) -> Tensor:
    """Return a coo tensor from component arrays.

    Parameters
    ----------
    values : Tensor or array_like, shape (nnz,)
        Stored values.
    indices : Tensor or array_like of int, shape (nnz, rank)
        One coordinate tuple a value.  uint64 and non-negative int64 arrays are shared.
    shape : sequence of int
        Logical shape.
    copy : bool, optional
        As in :func:`from_numpy`.
    is_sorted : bool, optional
        Promise of strictly increasing coordinates; found out by default.

    Raises
    ------
    InvalidDescriptorError
        The arrays do not fit together, or a coordinate is out of bounds or occurs twice.

    Format: layouts, coo.
    """
    dims = as_shape(shape)
    copy = as_copy(copy)
    stored = asarray(values, copy=copy)
    if stored.quantization is not None:
        raise UnsupportedError("quantized values have parameters of their own; use dequantize() or to_layout('coo')")
    where = indices.to_numpy() if isinstance(indices, Tensor) else _to_array(indices)
    if where.size == 0 and where.shape[:1] == (0,):
        where = np.empty((0, len(dims)), np.uint64)
    if where.ndim != 2 or where.shape[1] != len(dims) or where.dtype.kind not in "iu":
        turned = "; transpose them" if where.ndim == 2 and where.shape[0] == len(dims) else ""
        raise InvalidDescriptorError(
            f"indices must be integers of shape (nnz, {len(dims)}), not {where.dtype} of shape {where.shape}{turned}"
        )
    if stored.ndim != 1 or stored.shape[0] != where.shape[0]:
        raise InvalidDescriptorError(
            f"{where.shape[0]} coordinates need as many values, not values of shape {stored.shape}"
        )
    if where.dtype.kind == "i" and where.size and int(where.min()) < 0:
        row = int(np.argwhere((where < 0).any(axis=1))[0, 0])
        raise InvalidDescriptorError(f"coordinate {row}, {tuple(where[row].tolist())}, is negative")
    shareable = where.dtype.itemsize == 8 and where.dtype.isnative and where.flags.c_contiguous
    if copy is False and not shareable:
        raise CopyRequiredError(f"indices of {where.dtype} must be brought into uint64 rows, which needs a copy")
    rows = np.ascontiguousarray(where, dtype=where.dtype if shareable else np.uint64)
    rows = rows.copy() if copy else rows
    if stored.layout.name != "row_major" or stored.descriptor.byte_offset:
        # Buffer 0 has to hold the values back to back, from its first byte on.
        if copy is False:
            raise CopyRequiredError("values with strides or a byte offset must be put in order, which needs a copy")
        stored = stored.to_layout(RowMajorLayout())
    if is_sorted is None:
        is_sorted = _strictly_sorted(rows.view(np.uint64))
    return _checked_coo(stored, rows.view(np.uint8).reshape(-1), dims, is_sorted)  # type: ignore[arg-type]


def _strictly_sorted(rows: NDArray[np.uint64]) -> bool:
    if len(rows) < 2:
        return True
    before, after = rows[:-1], rows[1:]
    decided = np.zeros(len(before), np.bool_)
    for k in range(rows.shape[1]):
        less = before[:, k] < after[:, k]
        if bool((~decided & (before[:, k] > after[:, k])).any()):
            return False
        decided |= less
    return bool(decided.all())


def _checked_coo(values: Tensor, index: NDArray[np.uint8], shape: tuple[int, ...], is_sorted: bool) -> Tensor:
    nnz = values.shape[0] or 0
    result = Tensor(
        values._buffers[0], values.dtype, shape, aux_buffers=[index], layout=layouts.CooLayout(nnz, is_sorted)
    )
    result.validate()
    return result
