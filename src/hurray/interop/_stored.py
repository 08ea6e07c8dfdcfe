"""Stored entries of other libraries' sparse arrays, into tensors and out of them.

Every library keeps the same few arrays under other names and with other index types.  Here they become ours: integer
arrays are shared as uint64 where their bytes allow it, checked before anything follows an index, and brought into
canonical form (ascending, no repeats) on a copy where they are not, because a foreign object is never changed.

Format: layouts, sparse layouts in general.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.match import codes_to_numpy, from_numpy_dtype, numpy_to_codes
from hurray.dtypes.table import Dtype
from hurray.errors import CopyRequiredError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import coords as coord_kernels
from hurray.kernels import ordering, pointers
from hurray.layouts import CooLayout, CscLayout, CsrLayout, layout_by_name
from hurray.layouts._base import Payload, pack_codes
from hurray.layouts._sparse import SparseLayout
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import payload_of

__all__ = [
    "Compressed",
    "Duplicates",
    "check_duplicates",
    "compressed_tensor",
    "coordinate_tensor",
    "coords_of_columns",
    "index_array",
    "shown",
    "signed_index",
    "sparse_payload",
    "stored_values",
]

U64 = NDArray[np.uint64]
Array = NDArray[Any]

Duplicates = Literal["error", "sum", "last"]

_BY_MAJOR = (CsrLayout, CscLayout)


class Compressed(NamedTuple):
    """A compressed matrix of another library: slices along ``major`` (0: rows)."""

    values: Array
    indices: Any
    ptr: Any
    shape: tuple[int, ...]
    major: int
    #: what the library calls the two index arrays
    names: tuple[str, str] = ("indices", "indptr")


def check_duplicates(how: str) -> None:
    """Refuse an unknown way to treat coordinates that occur more than once."""
    if how not in ("error", "sum", "last"):
        raise ValueError(f"duplicates is 'error', 'sum' or 'last', not {how!r}")


def shown(coordinate: Array) -> str:
    """Return a coordinate as text; what was negative shows as such."""
    signed = np.ascontiguousarray(coordinate).view(np.int64)
    return f"({', '.join(str(int(k)) for k in signed)}{',' if len(signed) == 1 else ''})"


# Arrays of other libraries, as ours


def index_array(array: Any, what: str, *, copy: bool | None) -> U64:
    """Return an index array as uint64, shared where it is 64 bits wide, native and contiguous.

    Negative numbers come out as numbers beyond any extent, so that one comparison finds both kinds of fault.

    Parameters
    ----------
    array : array_like of int, 1-D or 2-D
        Any integer type and byte order.
    what : str
        What messages call it.

    Raises
    ------
    InvalidDescriptorError
        The array holds no integers.
    CopyRequiredError
        ``copy=False``, but the numbers have to be widened or moved.
    """
    given = np.asarray(array)
    if given.size == 0:
        return np.empty(given.shape, np.uint64)
    if given.dtype.kind not in "iu":
        raise InvalidDescriptorError(f"{what} holds {given.dtype}, not integers")
    if given.dtype.itemsize == 8 and given.dtype.isnative and given.flags.c_contiguous:
        ours: U64 = (given.copy() if copy else given).view(np.uint64)
        return ours
    if copy is False:
        if given.dtype.itemsize < 8:
            raise CopyRequiredError(f"{what} of {given.dtype} must be widened to 64 bits, which needs a copy")
        raise CopyRequiredError(f"{what} must be made contiguous and little-endian, which needs a copy")
    wide = given.astype(np.int64 if given.dtype.kind == "i" else np.uint64, order="C")
    return wide.view(np.uint64)


def coords_of_columns(columns: Sequence[Any], n: int, what: str, *, copy: bool | None) -> U64:
    """Interleave one index array for each dimension into coordinates, shape (n, rank)."""
    rank = len(columns)
    arrays = [np.asarray(column) for column in columns]
    for k, array in enumerate(arrays):
        if array.shape != (n,):
            raise InvalidDescriptorError(f"{what}[{k}] has shape {array.shape}, but there are {n} values")
    if rank == 1:
        return index_array(arrays[0], f"{what}[0]", copy=copy).reshape(n, 1)
    if copy is False:
        raise CopyRequiredError(f"{what} keeps one array for each dimension; interleaving them needs a copy")
    coords = np.empty((n, rank), np.uint64)
    for k, array in enumerate(arrays):
        coords[:, k] = index_array(array, f"{what}[{k}]", copy=None)
    return coords


def _value_buffer(values: Array, *, copy: bool | None) -> tuple[Dtype, NDArray[np.uint8]]:
    """Return values as the bytes of a buffer, shared where they are contiguous, native and not packed."""
    dtype = from_numpy_dtype(values.dtype)
    if copy is False:
        if dtype.is_sub_byte:
            raise CopyRequiredError(f"values of {values.dtype} must be packed, which needs a copy")
        if not values.dtype.isnative or not values.flags.c_contiguous:
            raise CopyRequiredError("the values must be made contiguous and little-endian, which needs a copy")
    codes = numpy_to_codes(values, dtype)
    if copy and dtype.bit_width >= 8:
        codes = codes.copy()
    return dtype, pack_codes(codes, dtype.bit_width)


def _form(
    layout: SparseLayout, values: Array, shape: Sequence[int], indices: Sequence[U64], copy: bool | None
) -> Tensor:
    """Return a tensor over arrays that are known to keep the layout's rules."""
    dtype, data = _value_buffer(values, copy=copy)
    tensor = Tensor(data, dtype, shape, aux_buffers=list(indices), layout=layout)
    tensor._checked = True
    return tensor


# Coordinates


def coordinate_tensor(
    coords: U64,
    values: Array,
    shape: tuple[int, ...],
    *,
    layout: str = "coo",
    duplicates: Duplicates = "error",
    copy: bool | None = None,
    keep_order: bool = False,
    name_entry: Callable[[int], str] = "entry {}".format,
    finish: Callable[[Array], Array] | None = None,
    **options: Any,
) -> Tensor:
    """Return a tensor of coordinates in any order.

    Parameters
    ----------
    coords : ndarray of uint64, shape (n, rank), C order
        Shared by a coo tensor when they ascend.
    values : ndarray, shape (n,)
        Any NumPy type that the format stores.
    shape : tuple of int
        Logical shape.
    layout : str
        Name of a sparse layout; ``options`` are its arguments.
    duplicates : {"error", "sum", "last"}
        What becomes of values whose coordinates are equal.
    keep_order : bool
        Leave entries of a coo tensor where they are even when they do not ascend.
    name_entry : callable
        Turns an entry's position into words for messages.
    finish : callable, optional
        Converts the values at the end.

    Raises
    ------
    InvalidDescriptorError
        A coordinate lies outside the shape, or occurs twice.
    CopyRequiredError
        ``copy=False``, but entries have to be moved.
    """
    check_duplicates(duplicates)
    _check_pairs(coords, values, shape)
    from_numpy_dtype(values.dtype)
    outside = coord_kernels.first_out_of_bounds(coords, shape)
    if outside >= 0:
        raise InvalidDescriptorError(f"{name_entry(outside)} is at {shown(coords[outside])}, outside shape {shape}")
    ascending = coord_kernels.is_strictly_sorted(coords, shape)
    if not ascending:
        entries = ordering.sort_coords(coords, shape)
        repeat = ordering.first_repeat(entries)
        if repeat >= 0 and duplicates == "error":
            raise InvalidDescriptorError(
                f"{name_entry(repeat)} repeats coordinate {shown(coords[repeat])}; duplicates='sum' or 'last' allows it"
            )
        if repeat >= 0 or not keep_order:
            if copy is False:
                raise CopyRequiredError("the entries must be put in order, which needs a copy")
            coords, values, ascending = *_unique(entries, coords, values, duplicates), True
    if finish is not None:
        values = finish(values)
    if layout == "coo" and not options:
        return _form(CooLayout(len(coords), ascending), values, shape, [coords], copy)
    return _encode(coords, values, shape, layout, options, copy)


def _check_pairs(coords: U64, values: Array, shape: tuple[int, ...]) -> None:
    if not shape:
        raise InvalidDescriptorError("a sparse tensor has a rank of at least 1, but the shape is ()")
    if values.ndim != 1 or len(values) != len(coords):
        raise InvalidDescriptorError(
            f"{len(coords)} coordinates need as many values, not an array of shape {values.shape}"
        )


def _unique(entries: ordering.SortedCoords, coords: U64, values: Array, duplicates: Duplicates) -> tuple[U64, Array]:
    """Return sorted coordinates without repeats, and their values."""
    moved = np.empty(coords.shape, np.uint64)
    ordering.fill_columns(entries, moved)
    if entries.perm is not None:
        values = values.take(entries.perm)
    starts = ordering.run_starts(entries)
    if len(starts) == len(moved):
        return moved, values
    how: Literal["sum", "last"] = "last" if duplicates == "last" else "sum"
    return moved[starts], ordering.reduce_duplicates(starts, len(moved), values, how)


def _encode(
    coords: U64, values: Array, shape: tuple[int, ...], layout: str, options: dict[str, Any], copy: bool | None
) -> Tensor:
    target = layout_by_name(layout)
    if not issubclass(target, SparseLayout):
        raise UnsupportedError(f"layout {layout!r} is not sparse: choose coo, csr, csc or csf")
    if copy is False:
        raise CopyRequiredError(f"coordinates must be compressed into layout {layout!r}, which needs a copy")
    dtype = from_numpy_dtype(values.dtype)
    codes = numpy_to_codes(values, dtype)
    encoded = target.from_coords(coords.view(np.int64), codes, shape, dtype.bit_width, **options)
    own = encoded.buffers
    tensor = Tensor(own[0], dtype, shape, aux_buffers=own[1:], layout=encoded.layout)
    tensor._checked = True
    return tensor


# Compressed matrices


def compressed_tensor(parts: Compressed, *, copy: bool | None) -> Tensor:
    """Return a compressed matrix as a csr or csc tensor.

    Indices out of order, or repeated in a slice (whose values are summed then), are brought into order on a copy.

    Raises
    ------
    InvalidDescriptorError
        The arrays do not fit together, or an index is out of bounds.
    CopyRequiredError
        ``copy=False``, but something has to be copied.
    """
    n_major, n_minor = parts.shape[parts.major], parts.shape[1 - parts.major]
    ptr, nnz = _pointer(parts, n_major)
    values = np.asarray(parts.values)[:nnz]
    from_numpy_dtype(values.dtype)
    indices = index_array(np.asarray(parts.indices)[:nnz], parts.names[0], copy=copy)
    at = pointers.first_index_out_of_bounds(indices, n_minor)
    if at >= 0:
        raise InvalidDescriptorError(f"{parts.names[0]}[{at}] is {indices.view(np.int64)[at]}, outside {n_minor}")
    if pointers.first_unsorted_in_slice(indices, ptr) >= 0:
        if copy is False:
            raise CopyRequiredError(f"{parts.names[0]} must be put in order, which needs a copy")
        ptr, indices, values = _canonical(ptr, indices, values, n_minor)
    elif copy and np.may_share_memory(ptr, np.asarray(parts.ptr)):
        ptr = ptr.copy()
    elif copy is False:
        index_array(parts.ptr, parts.names[1], copy=False)
    return _form(_BY_MAJOR[parts.major](len(indices)), values, parts.shape, [indices, ptr], copy)


def _pointer(parts: Compressed, n_major: int) -> tuple[U64, int]:
    """Return the checked pointer, and how many entries it covers."""
    name = parts.names[1]
    given, values, indices = np.asarray(parts.ptr), np.asarray(parts.values), np.asarray(parts.indices)
    if values.ndim != 1 or indices.ndim != 1:
        raise InvalidDescriptorError(
            f"values and {parts.names[0]} are 1-D arrays, not of shapes {values.shape} and {indices.shape}"
        )
    if given.shape != (n_major + 1,):
        raise InvalidDescriptorError(f"{name} has shape {given.shape}, but shape {parts.shape} needs ({n_major + 1},)")
    ptr = index_array(given, name, copy=None)
    end, room = int(ptr.view(np.int64)[-1]), min(len(indices), len(values))
    code, at = pointers.check_ptr(ptr, max(end, 0))
    if code != pointers.PTR_OK:
        here = int(ptr.view(np.int64)[at])
        rule = "it starts at 0" if code == pointers.PTR_START else "it never decreases and never exceeds its last entry"
        raise InvalidDescriptorError(f"{name}[{at}] is {here}, but {rule}")
    if end > room:
        raise InvalidDescriptorError(f"{name} ends at {end}, but there are only {room} entries")
    return ptr, end


def _canonical(ptr: U64, indices: U64, values: Array, n_minor: int) -> tuple[U64, U64, Array]:
    n_major = len(ptr) - 1
    coords = np.empty((len(indices), 2), np.uint64)
    coords[:, 0], coords[:, 1] = pointers.expand_ptr(ptr, len(indices)), indices
    coords, values = _unique(ordering.sort_coords(coords, (n_major, n_minor)), coords, values, "sum")
    return pointers.ptr_of_sorted(coords[:, 0], n_major), np.ascontiguousarray(coords[:, 1]), values


# Out of tensors


def sparse_payload(t: Any, library: str, advice: str = "use to_numpy(), or to_layout('coo') first") -> Payload:
    """Return what a sparse tensor holds, checked, for another library.

    Raises
    ------
    UnsupportedError
        The tensor is not sparse, is quantized, or has a private type.
    InvalidDescriptorError
        The index buffers break a rule of the layout.
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"a hurray.Tensor is needed, not {type(t).__name__}")
    if not isinstance(t.layout, SparseLayout):
        raise UnsupportedError(f"layout {t.layout.name!r} is not sparse, {library} cannot represent it; {advice}")
    if t.quantization is not None:
        raise UnsupportedError(
            f"the tensor is quantized: its stored codes are not its values, so {library} cannot represent it; use "
            "dequantize() for values or storage() for the codes"
        )
    if t.dtype.is_opaque:
        raise UnsupportedError(f"dtype {t.dtype!r} is private: its elements are carried, not interpreted")
    payload = payload_of(t)
    if not t._checked:
        # Even a tensor read permissively: another library's compiled code follows indices without checking them.
        t.layout.validate(payload)
        t._checked = True
    return payload


def stored_values(t: Tensor, payload: Payload, library: str, *, copy: bool | None, kinds: str = "biufc") -> Array:
    """Return the stored values as a 1-D array of one of NumPy's own types, shared where possible.

    Raises
    ------
    UnsupportedError
        The library has no such element type.
    CopyRequiredError
        ``copy=False``, but the values have to be unpacked.
    """
    if copy is False and t.dtype.is_sub_byte:
        raise CopyRequiredError(f"{t.dtype} elements must be unpacked, which needs a copy")
    found = t.dtype.numpy
    if found is None or found.kind not in kinds or found.type.__module__ != "numpy":
        raise UnsupportedError(f"{library} has no element type for {t.dtype}; convert the values first")
    values = codes_to_numpy(t.layout.values(payload), t.dtype)  # type: ignore[attr-defined]
    return _usable(values, copy, "values")


def signed_index(index: U64, dtype: np.dtype[Any], *, copy: bool | None) -> Array:
    """Return checked indices as signed integers: a view where 64 bits are asked for and the memory is aligned."""
    if dtype.itemsize == 8:
        return _usable(index.view(np.int64), copy, "the indices")
    return index.astype(dtype)


def _usable(array: Array, copy: bool | None, what: str) -> Array:
    if copy:
        return array.copy()
    if not array.flags.aligned:
        if copy is False:
            raise CopyRequiredError(f"{what} lie unaligned in memory, which needs a copy")
        return array.copy()
    return array
