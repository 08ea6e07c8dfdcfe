"""Elements out of tensors: decoding, regions, look-ups, other layouts, dequantizing.

``Tensor``'s methods delegate to these functions; they compose layouts (which place codes) with dtypes and schemes
(which interpret them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.match import codes_to_numpy
from hurray.dtypes.table import ALL_DTYPES
from hurray.errors import (
    ArgumentTypeError,
    BufferError,
    CopyRequiredError,
    InvalidDescriptorError,
    UnsupportedError,
)
from hurray.kernels import ordering
from hurray.kernels.float128 import float128_to_float64
from hurray.kernels.minifloat import decode as decode_minifloat
from hurray.layouts._base import Codes, Payload, as_index_tuple, n_elements
from hurray.layouts._region import Region, index_view, region_shape
from hurray.layouts._sparse import SparseLayout, code_is_nonzero
from hurray.limits import DEFAULT_LIMITS
from hurray.quantization._base import Params, Scheme
from hurray.tensor.forming import as_copy
from hurray.tensor.indexing import Selection, select

if TYPE_CHECKING:
    from hurray.tensor.core import TensorCore
    from hurray.tensor.tensor import Tensor

__all__ = [
    "as_numpy_dtype",
    "check_content",
    "codes_of",
    "dense_shape",
    "known_lengths",
    "lookup",
    "nonzeros",
    "params_of",
    "payload_of",
    "read_key",
    "read_region",
    "refuse_absurd",
    "strided_view",
    "to_numpy",
]

Array = NDArray[Any]

#: types whose codes are NumPy values as they are
_NATIVE = frozenset(d.tag for d in ALL_DTYPES if d.bit_width >= 8 and d.storage.name == d.name)
_CODE_CHECKS = {0x42: (0x00, 0xFF)}  # float8_e8m0 reserves both


def dense_shape(t: TensorCore) -> tuple[int, ...]:
    """Return the shape, refusing dynamic dimensions."""
    if None in t.shape:
        raise UnsupportedError(f"shape {t.shape} has a dynamic dimension: values need a known shape")
    return t.shape  # type: ignore[return-value]


def known_lengths(t: TensorCore) -> tuple[int, ...] | None:
    """Return the tokens of each sequence that a program told, None where none did."""
    return getattr(t, "_lengths", None)


def payload_of(t: TensorCore, sequence_lengths: Sequence[int] | None = None) -> Payload:
    """Return what the tensor's layout needs to reach its elements."""
    d = t.descriptor
    bits = d.element_bits
    if not bits:
        raise UnsupportedError(f"{d.dtype!r} is unknown to this library: its elements are carried, not interpreted")
    storage = d.dtype.storage
    if d.dtype.is_private and bits >= 8:
        storage = np.dtype((np.void, bits // 8))
    if sequence_lengths is not None:
        lengths: tuple[int, ...] | None = as_index_tuple(sequence_lengths, "sequence_lengths")
    else:
        lengths = known_lengths(t) if d.layout.kind == "indirect" else None
    return Payload(dense_shape(t), bits, storage, t._buffers, d.byte_offset, lengths)


def params_of(t: Tensor) -> Params:
    """Return what the tensor's scheme needs to dequantize."""
    return Params(shape=dense_shape(t), dtype=t.dtype, layout=t.layout, buffers=t._buffers)


def check_content(t: Tensor, payload: Payload) -> None:
    """Check index buffers on first use, unless the tensor was read permissively.

    Raises
    ------
    InvalidDescriptorError
        An invariant of the layout is broken.
    """
    if t._checked:
        return
    if not t._permissive:
        t.layout.validate(payload)
    if t.dtype.tag in _CODE_CHECKS and isinstance(t.layout, SparseLayout):
        # Among the zeros that are filled in, a reserved code could not be told any more.
        check_codes(t, t.layout.values(payload))
    t._checked = not t._permissive


def _refuse_opaque(t: Tensor) -> None:
    if t.dtype.is_opaque:
        kind = "private" if t.dtype.is_private else "unknown to this library"
        raise UnsupportedError(f"dtype {t.dtype!r} is {kind}: its elements are carried, not interpreted")
    if t.layout.kind == "opaque":
        raise UnsupportedError(f"layout {t.layout!r} is opaque: its buffers are carried, not interpreted")


def _refuse_quantized(t: Tensor) -> None:
    if t.quantization is not None:
        name = getattr(t.quantization, "name", "an unknown scheme")
        raise UnsupportedError(
            f"the tensor is quantized ({name}): its stored codes are not its values; use dequantize() for values "
            "(dequantize(key) for those of a slice) or storage() for the codes"
        )


def refuse_absurd(t: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse to work through a dense array that no machine should try, before anything is allocated.

    What sparse layouts leave out, and zero or overlapping strides repeat, costs a hostile descriptor nothing; elements
    that are really there may be as many as they are.
    """
    count = n_elements(shape)
    n_bytes = count * max(1, t.dtype.storage.itemsize)
    if n_bytes > DEFAULT_LIMITS.max_dense_bytes and count * t.descriptor.element_bits > t.nbytes * 8:
        raise UnsupportedError(
            f"a dense array of shape {shape} takes {n_bytes} bytes, more than the limit of "
            f"{DEFAULT_LIMITS.max_dense_bytes}; read a region of the {t.layout.name} tensor instead"
        )


def codes_of(t: Tensor, payload: Payload, region: Region | None = None, *, lazy: bool = False) -> tuple[Codes, bool]:
    """Return the codes of a region (None: all) and whether they share the tensor's memory.

    ``lazy`` says that a view will not be worked through: only then may it stand for more elements than memory holds.
    """
    _refuse_opaque(t)
    check_content(t, payload)
    shape = payload.shape if region is None else region_shape(region)
    view = t.layout.view(payload)
    if view is not None:
        shared = region is None or all(isinstance(axis, range) for axis in region)
        if not (lazy and shared):
            refuse_absurd(t, shape)
        return view if region is None else index_view(view, region), shared
    refuse_absurd(t, shape)
    try:
        codes = t.layout.read_all(payload) if region is None else t.layout.read(payload, region)
    except MemoryError:
        raise UnsupportedError(f"not enough memory for a dense array of shape {shape}") from None
    return codes, False


def check_codes(t: Tensor, codes: Codes) -> None:
    """Refuse element codes that the format reserves (float8_e8m0 0x00 and 0xFF)."""
    reserved = _CODE_CHECKS.get(t.dtype.tag)
    if reserved is None:
        return
    refuse_absurd(t, codes.shape)
    bad = np.isin(codes, reserved)
    if bad.any():
        at = tuple(int(k) for k in np.argwhere(bad)[0])
        raise InvalidDescriptorError(f"{t.dtype} element {at} holds the reserved code {int(codes[at]):#04x}")


def as_values(t: Tensor, codes: Codes, *, filled: bool = False) -> Array:
    """Return codes as the NumPy array of their values (float128: as float64).

    ``filled`` says that zeros were filled in for what a sparse layout does not store.  float8_e8m0 has no zero, so
    such arrays are float32.
    """
    if filled and t.dtype.name == "float8_e8m0":
        return np.where(codes == 0, np.float32(0), decode_minifloat(codes, "float8_e8m0"))
    check_codes(t, codes)
    if t.dtype.name == "float128":
        raw = np.ascontiguousarray(codes)[..., None].view(np.uint8)
        return float128_to_float64(raw.reshape(*codes.shape, 16))
    return codes_to_numpy(codes, t.dtype)


def as_numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a ``dtype`` argument as a NumPy dtype that numbers can be converted to."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except ValueError as error:
        raise ArgumentTypeError(f"dtype is a NumPy dtype, not {dtype!r}: {error}") from None
    if found.names is not None:
        raise ArgumentTypeError(f"numbers cannot be converted to records: {found}")
    return found


def strided_view(t: Tensor) -> Codes | None:
    """Return the codes as a zero-copy array of the logical shape, or None where layout or type do not allow it."""
    if t.layout.kind != "dense" or t.dtype.is_opaque or None in t.shape:
        return None
    return t.layout.view(payload_of(t))


def to_numpy(
    t: Tensor, *, copy: bool | None = None, dtype: Any = None, sequence_lengths: Sequence[int] | None = None
) -> Array:
    """Return the logical values as a dense array: see ``Tensor.to_numpy``."""
    d = t.descriptor
    simple = d.layout.tag == 1 and d.quantization is None and d.dtype.tag in _NATIVE and None not in d.shape
    if simple and not copy and dtype is None:
        # The commonest case by far, a view over one buffer, without the steps that only other cases need.
        try:
            return np.ndarray(d.shape, d.dtype.storage, t._buffers[0], d.byte_offset)  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            pass  # NumPy cannot hold the shape; the long way says so
    copy = as_copy(copy)
    _refuse_quantized(t)
    _refuse_opaque(t)
    wanted = None if dtype is None else as_numpy_dtype(dtype)
    if t.dtype.name == "float128" and wanted is None:
        raise UnsupportedError(
            "NumPy has no IEEE binary128; ask for to_numpy(dtype=numpy.float64), or take the bytes with buffer(0)"
        )
    if copy is False and (t.dtype.is_sub_byte or t.dtype.name == "float128"):
        raise CopyRequiredError(f"{t.dtype} elements must be unpacked or converted, which needs a copy")
    if copy is False and t.layout.kind != "dense":
        raise CopyRequiredError(f"layout {t.layout.name!r} must be made dense, which needs a copy")
    codes, shared = codes_of(t, payload_of(t, sequence_lengths), lazy=not copy and wanted is None)
    if copy is False and not shared:
        raise CopyRequiredError(f"layout {t.layout.name!r} must be put in order, which needs a copy")
    values = as_values(t, codes, filled=t.layout.is_sparse)
    shared = shared and not t.dtype.is_sub_byte and t.dtype.name != "float128"
    if wanted is not None and wanted != values.dtype:
        if copy is False:
            raise CopyRequiredError(f"converting {t.dtype} to {wanted} needs a copy")
        refuse_absurd(t, values.shape)
        # Widening a signalling NaN raises a flag that means nothing; a NaN that becomes an integer does.
        with np.errstate(invalid="ignore" if wanted.kind in "fc" else None):
            try:
                return values.astype(wanted)
            except (MemoryError, ValueError) as error:
                raise UnsupportedError(f"no array of shape {values.shape} and {wanted}: {error}") from None
    return values.copy() if shared and copy else values


def read_region(
    t: Tensor, region: Region, *, out: Array | None = None, sequence_lengths: Sequence[int] | None = None
) -> Array:
    """Return the values of a region as a dense array, written into ``out`` where it is given."""
    _refuse_quantized(t)
    codes, _ = codes_of(t, payload_of(t, sequence_lengths), region, lazy=out is None)
    values = as_values(t, codes, filled=t.layout.is_sparse)
    if out is None:
        return values
    if out.shape != values.shape:
        raise BufferError(f"out has shape {out.shape}, but the region has shape {values.shape}")
    out[...] = values
    return out


def read_key(t: Tensor, key: Any, sequence_lengths: Sequence[int] | None = None) -> Any:
    """Return what a NumPy-style key picks."""
    selection = select(key, dense_shape(t))
    return finish(
        selection,
        lambda region: read_region(t, region, sequence_lengths=sequence_lengths),
        lambda points: lookup(t, points),
    )


def finish(selection: Selection, read: Any, pick: Any) -> Any:
    """Read a selection: ``read`` gives the block of a region, ``pick`` the values of coordinates."""
    if selection.points is not None:
        return pick(selection.points).reshape(selection.point_shape)
    block = read(selection.region)
    return block if selection.finish is None else block[selection.finish]


def _as_coords(coords: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    try:
        array = np.asarray(coords)
    except ValueError as error:
        raise IndexError(f"coordinates are an integer array of shape (n, {len(shape)}): {error}") from None
    if array.size == 0:
        # A scalar has empty coordinates, of which there may be many.
        fits = array.ndim == 2 and array.shape[1] == len(shape)
        return np.empty(array.shape if fits else (0, len(shape)), np.int64)
    if array.ndim != 2 or array.shape[1] != len(shape) or array.dtype.kind not in "iu":
        raise IndexError(
            f"coordinates are an integer array of shape (n, {len(shape)}), not {array.dtype} of shape {array.shape}"
        )
    result = np.empty(array.shape, np.int64)
    for k, n in enumerate(shape):
        column = array[:, k]
        low, high = int(column.min()), int(column.max())
        if low < -n or high >= n:
            raise IndexError(f"index {low if low < -n else high} is out of bounds for axis {k} with size {n}")
        if high >= 2**63 or (low < 0 and n >= 2**63):
            raise UnsupportedError(f"axis {k} with size {n} has indices beyond what NumPy can count")
        if low < 0:
            column = column.astype(np.int64)
            column[column < 0] += n
        result[:, k] = column
    return result


def lookup(t: Tensor, coords: Any) -> Array:
    """Return the values at coordinates, shape (n,): see ``Tensor.lookup``."""
    _refuse_quantized(t)
    _refuse_opaque(t)
    shape = dense_shape(t)
    wanted = _as_coords(coords, shape)
    payload = payload_of(t)
    check_content(t, payload)
    return as_values(t, lookup_codes(t, payload, wanted), filled=t.layout.is_sparse)


def lookup_codes(t: Tensor, payload: Payload, coords: NDArray[np.int64]) -> Codes:
    """Return the codes at in-bounds coordinates."""
    layout = t.layout
    if not len(coords):
        return np.empty(0, payload.storage)
    if isinstance(layout, SparseLayout):
        positions = layout.lookup(payload, coords)
        codes: Codes = np.zeros(len(coords), payload.storage)
        found = positions >= 0
        if found.any():
            codes[found] = payload.take(positions[found])
        return codes
    view = layout.view(payload)
    if view is not None:
        picked: Codes = view[tuple(coords.T)] if coords.shape[1] else np.repeat(view.reshape(1), len(coords))
        return picked
    offsets = getattr(layout, "element_offsets", None)
    if offsets is not None:
        return payload.take(offsets(payload.shape, coords))
    axis_offsets = getattr(layout, "axis_offsets", None)
    if axis_offsets is None:
        chosen: Codes = codes_of(t, payload)[0][tuple(coords.T)]
        return chosen
    total = np.zeros(len(coords), np.int64)
    for k in range(coords.shape[1]):
        total += axis_offsets(payload.shape, k, coords[:, k])
    return payload.take(total)


def nonzeros(t: Tensor, order: str) -> tuple[NDArray[np.int64], Array]:
    """Return coordinates and values of the stored (sparse) or non-zero (other layouts) elements."""
    _refuse_quantized(t)
    _refuse_opaque(t)
    if order not in ("logical", "storage"):
        raise ValueError(f"order is 'logical' or 'storage', not {order!r}")
    payload = payload_of(t)
    check_content(t, payload)
    coords, codes = stored_codes(t, payload)
    if max(payload.shape, default=0) > 2**63 and len(coords) and int(coords.min()) < 0:
        raise UnsupportedError(f"a coordinate of shape {payload.shape} is beyond what int64 counts")
    if order == "logical" and t.layout.is_sparse and len(coords) > 1:
        rank = ordering.sort_order(coords.view(np.uint64), payload.shape)
        if rank is not None:
            coords, codes = coords[rank], codes[rank]
    return coords, as_values(t, codes)


def stored_codes(t: Tensor, payload: Payload) -> tuple[NDArray[np.int64], Codes]:
    """Return coordinates and codes of what is stored, or of the elements with any bit set."""
    if isinstance(t.layout, SparseLayout):
        return t.layout.stored(payload)
    codes, _ = codes_of(t, payload)
    check_codes(t, codes)
    where = np.nonzero(code_is_nonzero(codes)) if codes.ndim else ()
    if not codes.ndim:
        keep = bool(code_is_nonzero(codes[None])[0])
        return np.empty((int(keep), 0), np.int64), codes.reshape(1)[: int(keep)]
    return np.stack(where, axis=1).astype(np.int64, copy=False), codes[where]


def validate(t: Tensor) -> None:
    """Check every invariant of layout, element codes and scheme: see ``Tensor.validate``."""
    if t.layout.kind == "opaque" or None in t.shape or not t.descriptor.element_bits:
        return
    payload = payload_of(t)
    t.layout.validate(payload)
    if isinstance(t.layout, SparseLayout) and t.dtype.tag in _CODE_CHECKS:
        check_codes(t, t.layout.values(payload))
    t._checked = True
    if isinstance(t.quantization, Scheme):
        t.quantization.check_values(params_of(t))
    if t.dtype.tag in _CODE_CHECKS and t.layout.kind == "dense":
        check_codes(t, codes_of(t, payload)[0])
    elif t.layout.kind == "dense" and 0 not in payload.shape and t.layout.view(payload) is None:
        # Curve and tile orders have rules of their own on value access; the last element shows them.
        t.layout.read(payload, tuple(range(n - 1, n) for n in payload.shape))
