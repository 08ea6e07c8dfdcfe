"""Tensors into other layouts, out of quantization, and into it.

Format: layouts; quantization, with sparse, block-paged and composite layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.model import Descriptor, handle_for
from hurray.descriptor.sections import Shard
from hurray.dtypes.table import Dtype
from hurray.errors import ArgumentTypeError, BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import coords as coord_kernels
from hurray.layouts import RowMajorLayout, layout_by_name
from hurray.layouts._base import Encoded, Layout, as_index_tuple
from hurray.layouts._region import Region, axis_array, full_region, is_full, region_shape
from hurray.layouts._sparse import SparseLayout
from hurray.quantization._base import Scheme
from hurray.tensor.forming import read_only
from hurray.tensor.indexing import select
from hurray.tensor.slabs import slabs
from hurray.tensor.values import (
    check_codes,
    check_content,
    codes_of,
    dense_shape,
    finish,
    known_lengths,
    params_of,
    payload_of,
    refuse_absurd,
)

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["dequantize_region", "dequantize_values", "numbers_of", "storage", "to_layout", "transposed"]

_FLOAT_TARGETS = ("float32", "float16", "bfloat16", "float64")


def to_layout(
    t: Tensor, layout: str | Layout, options: dict[str, Any], sequence_lengths: Sequence[int] | None = None
) -> Tensor:
    """Return the tensor in another layout: see ``Tensor.to_layout``."""
    if isinstance(layout, str):
        target = layout_by_name(layout)
    elif isinstance(layout, Layout):
        target = type(layout)
        options = {**layout.encode_options(), **options}
    else:
        raise TypeError(f"layout is a name or a hurray.Layout, not {type(layout).__name__}")
    if target.kind in ("opaque", "virtual"):
        raise UnsupportedError(f"elements cannot be written in layout {target.name!r}")
    shape = dense_shape(t)
    payload = payload_of(t, sequence_lengths)
    _check_scheme_fits(t, target)
    bits = payload.bits
    if target.kind == "indirect" and (sequence_lengths is not None or t.layout.kind == "indirect"):
        # Pages are filled sequence by sequence, whether the tokens come from pages or not.
        lengths = t.layout.sequence_lengths(payload) if sequence_lengths is None else sequence_lengths  # type: ignore[attr-defined]
        options = {"sequence_lengths": as_index_tuple(lengths, "sequence_lengths"), **options}
    try:
        if isinstance(t.layout, SparseLayout) and issubclass(target, SparseLayout):
            encoded = t.layout.convert(payload, target, checked=t._checked, **options)
        else:
            codes, _ = codes_of(t, payload)
            encoded = target.encode(codes, bits, **options)
    except MemoryError:
        raise UnsupportedError(f"not enough memory to put shape {shape} in layout {target.name!r}") from None
    encoded.layout.validate_against_shape(shape)
    return rebuild(t, encoded)._with_lengths(options.get("sequence_lengths"))


def _check_scheme_fits(t: Tensor, target: type[Layout]) -> None:
    scheme = t.quantization
    if scheme is None:
        return
    if not isinstance(scheme, Scheme):
        raise UnsupportedError("the tensor has an unknown quantization scheme: it is carried, not interpreted")
    if "indirect" in (t.layout.kind, target.kind):
        raise UnsupportedError(
            "a quantized tensor does not move into or out of block_paged: its parameters are per page slot there; "
            "dequantize() it first"
        )
    if t.layout.is_sparse != issubclass(target, SparseLayout) and not zero_code_is_zero(scheme):
        raise UnsupportedError(
            f"under scheme {scheme.name} code 0 is not the value 0, so a quantized tensor does not move between dense "
            "and sparse layouts; dequantize() it first"
        )


def zero_code_is_zero(scheme: Scheme) -> bool:
    """Tell whether the all-zero code stands for the value zero everywhere under a scheme."""
    if scheme.name == "nf4":
        return False
    if scheme.name == "per_tensor_affine":
        return scheme.zero_point == 0  # type: ignore[attr-defined,no-any-return]
    return getattr(scheme, "zero_point_buffer_index", None) is None


def rebuild(t: Tensor, encoded: Encoded, *, shape: tuple[int, ...] | None = None, **changes: Any) -> Tensor:
    """Return a tensor of the same meaning over other layout buffers; parameter buffers follow them."""
    d = t.descriptor
    scheme = changes.pop("quantization", d.quantization)
    own = [read_only(b) for b in encoded.buffers]
    if isinstance(scheme, Scheme):
        old = scheme.buffer_indices()
        scheme = renumber(scheme, {index: len(own) + k for k, index in enumerate(old)})
        own += [t._buffers[index] for index in old]
    handles = tuple(handle_for(len(b), d.device) for b in own)
    descriptor = d.with_changes(
        layout=encoded.layout,
        shape=d.shape if shape is None else shape,
        buffer_handles=handles,
        byte_offset=changes.pop("byte_offset", 0),
        quantization=scheme,
        version=(1, 0),
        trailing=b"",
        **changes,
    )
    result = type(t)._from_parts(descriptor, own, device_id=t._device_id)
    result._checked = True
    return result


def renumber(scheme: Scheme, places: dict[int, int]) -> Scheme:
    """Return the scheme with its parameter buffers at other places of the table."""
    changes = {
        name: places[getattr(scheme, name)]
        for name in ("scale_buffer_index", "zero_point_buffer_index")
        if getattr(scheme, name, None) is not None
    }
    return replace(scheme, **changes) if changes else scheme  # type: ignore[type-var]


def transposed(t: Tensor, axes: tuple[int, ...]) -> Tensor | None:
    """Return the tensor with its dimensions permuted, sharing its values, or None where that needs a copy."""
    payload = payload_of(t)
    check_content(t, payload)
    encoded = t.layout.transpose(payload, axes)
    if encoded is None:
        return None
    d = t.descriptor
    changes: dict[str, Any] = {"byte_offset": d.byte_offset}
    scheme = d.quantization
    if scheme is not None:
        if not isinstance(scheme, Scheme):
            raise UnsupportedError("the tensor has an unknown quantization scheme: it is carried, not interpreted")
        axis = getattr(scheme, "axis", None)
        if axis is not None:
            # Block parameters are numbered by the other dimensions in order, which only two dimensions keep.
            if scheme.name != "per_channel_affine" and len(axes) > 2:
                return None
            scheme = replace(scheme, axis=axes.index(axis))  # type: ignore[type-var]
        changes["quantization"] = scheme
    if d.shard is not None:
        parent, offset = d.shard.parent_shape, d.shard.shard_offset
        changes["shard"] = Shard([parent[k] for k in axes], [offset[k] for k in axes])
    n_own = t.layout.buffer_count or 0
    own = Encoded(encoded.layout, tuple(encoded.buffers[:n_own]))
    result = rebuild(t, own, shape=tuple(payload.shape[k] for k in axes), **changes)
    result._borrowed = t._borrowed
    # The index buffers are the tensor's own, so what was not checked there is not checked here.
    return result._with_trust(permissive=t._permissive, checked=t._checked)


def storage(t: Tensor) -> Tensor:
    """Return the tensor without its quantization: see ``Tensor.storage``."""
    if t.quantization is None:
        return t
    n_own = t.layout.buffer_count
    if n_own is None:
        raise UnsupportedError(f"layout {t.layout!r} is opaque: its own buffers cannot be told from the parameters")
    d = t.descriptor.with_changes(
        quantization=None, buffer_handles=t.descriptor.buffer_handles[:n_own], statistics=None
    )
    plain = type(t)._from_parts(d, t._buffers[:n_own], permissive=t._permissive, device_id=t._device_id)
    return plain._with_lengths(known_lengths(t))


def dequantize_values(
    t: Tensor, region: Region | None, out: NDArray[np.float32] | None, sequence_lengths: Sequence[int] | None = None
) -> NDArray[np.float32]:
    """Return the float32 values of a quantized tensor or a region of it, in ``out`` where it is given."""
    scheme = t.quantization
    if not isinstance(scheme, Scheme):
        raise UnsupportedError(
            "the tensor is not quantized; use to_numpy()"
            if scheme is None
            else "the tensor has an unknown quantization scheme: it is carried, not interpreted"
        )
    payload = payload_of(t, sequence_lengths)
    params = params_of(t)
    check_content(t, payload)
    # The scheme checks the parameters that it uses; checking all of them would cost every small region the whole.
    shape = payload.shape if region is None else region_shape(region)
    if out is not None and (out.shape != shape or out.dtype != np.float32):
        raise BufferError(f"out must be float32 of shape {shape}, but is {out.dtype} of shape {out.shape}")
    if out is not None and any(np.may_share_memory(out, b) for b in t._buffers):
        # Writing there would change what is still to be read.
        return _into(out, dequantize_values(t, region, None, sequence_lengths))
    refuse_absurd(t, shape)
    if isinstance(t.layout, SparseLayout):
        return _dequantize_sparse(t, scheme, payload, params, region, out)
    if t.layout.kind == "indirect":
        return _dequantize_paged(t, scheme, payload, params, region or full_region(payload.shape), out)
    if t.layout.name == "row_major" and (region is None or is_full(region, payload.shape)):
        target = out if out is not None and out.flags.c_contiguous else _new_values(shape)
        if scheme.dequantize_packed(params, payload.byte_offset, target):
            return target if out is None or target is out else _into(out, target)
        out = target if out is None else out
    return _dequantize_dense(t, scheme, payload, params, region or full_region(payload.shape), out)


def numbers_of(t: Tensor, sequence_lengths: Sequence[int] | None = None) -> NDArray[Any]:
    """Return the real values of a tensor, dequantized where it is quantized."""
    if t.quantization is not None:
        return dequantize_values(t, None, None, sequence_lengths)
    refuse_absurd(t, dense_shape(t))
    wide = np.float64 if t.dtype.name == "float128" else None
    return t.to_numpy(dtype=wide, sequence_lengths=sequence_lengths)


def _new_values(shape: tuple[int, ...]) -> NDArray[np.float32]:
    try:
        return np.empty(shape, np.float32)
    except (MemoryError, ValueError):
        raise UnsupportedError(f"not enough memory for float32 values of shape {shape}") from None


def _dequantize_dense(
    t: Tensor, scheme: Scheme, payload: Any, params: Any, region: Region, out: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    """Dequantize a view as it is, and in slabs what must be brought into order or unpacked first."""
    result = _new_values(region_shape(region)) if out is None else out
    is_view = t.layout.view(payload) is not None and all(isinstance(axis, range) for axis in region)
    whole: Any = (((...,), region),)
    for place, part in whole if is_view else slabs(t, region):
        # A layout reads everything faster than a region that happens to be everything.
        codes, _ = codes_of(t, payload, None if is_full(part, payload.shape) else part)
        check_codes(t, codes)
        scheme.dequantize(codes, part, params, result[place])
    return result


def _dequantize_paged(
    t: Tensor, scheme: Scheme, payload: Any, params: Any, region: Region, out: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    layout: Any = t.layout
    result = _new_values(region_shape(region)) if out is None else out
    for place, part in slabs(t, region):
        slots, codes = layout.read_slots(payload, part)
        result[place] = scheme.dequantize_slots(codes, slots, params, part)
    return result


def _dequantize_sparse(
    t: Tensor, scheme: Scheme, payload: Any, params: Any, region: Region | None, out: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    layout: Any = t.layout
    shape = payload.shape if region is None else region_shape(region)
    result = _new_values(shape) if out is None else out
    result[...] = 0
    if region is None or is_full(region, payload.shape):
        if _fill_stored(layout, scheme, payload, params, result):
            return result
        region = full_region(payload.shape)
    for place, part in slabs(t, region):
        positions, relative = layout.stored_in(payload, part)
        coords = np.empty_like(relative)
        for k, axis in enumerate(part):
            coords[:, k] = axis_array(axis)[relative[:, k]]
        result[place][tuple(relative.T)] = scheme.dequantize_stored(payload.take(positions), coords, params)
    return result


def _fill_stored(layout: Any, scheme: Scheme, payload: Any, params: Any, result: NDArray[np.float32]) -> bool:
    """Dequantize all stored elements to their places, a block at a time; False where the layout gives no blocks."""
    blocks = layout._offset_blocks(payload) if payload.shape else None
    if blocks is None:
        return False
    flat = result.reshape(-1) if result.flags.c_contiguous else None
    for entries, offsets in blocks:
        codes = payload.linear(entries.stop - entries.start, start=entries.start)
        coords = coord_kernels.unravel(offsets.view(np.uint64), payload.shape).view(np.int64)
        values = scheme.dequantize_stored(codes, coords, params)
        if flat is None:
            result[tuple(coords.T)] = values
        else:
            flat[offsets] = values
    return True


def _into(out: NDArray[np.float32] | None, values: NDArray[np.float32]) -> NDArray[np.float32]:
    if out is None:
        return values
    out[...] = values
    return out


def dequantize_region(
    t: Tensor, key: Any, dtype: Dtype, out: Any, sequence_lengths: Sequence[int] | None = None
) -> NDArray[Any]:
    """Return dequantized values for a NumPy-style key as an array of ``dtype``."""
    if not isinstance(dtype, Dtype):
        raise ArgumentTypeError(f"dtype is a hurray.Dtype such as hurray.float32, not {type(dtype).__name__}")
    if dtype.name not in _FLOAT_TARGETS:
        raise InvalidDescriptorError(f"dequantize gives {', '.join(_FLOAT_TARGETS)}, not {dtype.name}")
    if out is not None:
        _check_out(out, dtype)
    if key is None:
        return _dequantize_as(t, dtype, out, sequence_lengths)
    selection = select(key, dense_shape(t))

    def read(region: Region) -> NDArray[np.float32]:
        return dequantize_values(t, region, None, sequence_lengths)

    def pick(points: NDArray[np.int64]) -> NDArray[np.float32]:
        bounds = tuple(np.unique(points[:, k]) for k in range(points.shape[1]))
        block = dequantize_values(t, bounds, None, sequence_lengths)
        return block[tuple(np.searchsorted(b, points[:, k]) for k, b in enumerate(bounds))]

    values = np.asarray(finish(selection, read, pick))
    if out is None:
        with np.errstate(over="ignore"):
            return values.astype(dtype.numpy) if dtype.name != "float32" else values
    _check_shape(out, values.shape)
    with np.errstate(over="ignore"):
        out[...] = values
    return out  # type: ignore[no-any-return]


def _dequantize_as(t: Tensor, dtype: Dtype, out: Any, sequence_lengths: Sequence[int] | None) -> NDArray[Any]:
    """Return all values as an array of ``dtype``; other types than float32 are rounded slab by slab."""
    if dtype.name == "float32":
        return dequantize_values(t, None, out, sequence_lengths)
    shape = dense_shape(t)
    if out is not None:
        _check_shape(out, shape)
    if out is not None and any(np.may_share_memory(out, b) for b in t._buffers):
        # Writing there would change what is still to be read.
        out[...] = _dequantize_as(t, dtype, None, sequence_lengths)
        return out  # type: ignore[no-any-return]
    if out is None:
        refuse_absurd(t, shape)
        out = np.empty(shape, dtype.numpy)
    with np.errstate(over="ignore"):
        for place, part in slabs(t, full_region(shape)):
            out[place] = dequantize_values(t, part, None, sequence_lengths)
    return out  # type: ignore[no-any-return]


def _check_out(out: Any, dtype: Dtype) -> None:
    if not isinstance(out, np.ndarray):
        raise ArgumentTypeError(f"out is an ndarray, not {type(out).__name__}")
    if out.dtype != dtype.numpy:
        raise BufferError(f"out must be an array of {dtype}, but is of {out.dtype}")
    if not out.flags.writeable:
        raise BufferError("out is read-only")


def _check_shape(out: NDArray[Any], shape: tuple[int, ...]) -> None:
    if out.shape != shape:
        raise BufferError(f"out has shape {out.shape}, but the values have shape {shape}")


def contiguous_row_major(t: Tensor) -> Tensor:
    """Return the tensor in row-major order, itself when it is."""
    return t if t.layout.name == "row_major" else to_layout(t, RowMajorLayout(), {})


def new_descriptor(dtype: Dtype, shape: tuple[int, ...], n_bytes: int) -> Descriptor:
    """Return the descriptor of a row-major CPU tensor."""
    return Descriptor(dtype=dtype, shape=shape, layout=RowMajorLayout(), buffer_handles=(handle_for(n_bytes),))
