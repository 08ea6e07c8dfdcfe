"""Quantizing tensors in any layout that a scheme allows, and measuring what it cost.

Format: quantization, quantizing; with sparse, block-paged and composite layouts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.check import check_descriptor
from hurray.descriptor.model import Descriptor, handle_for
from hurray.errors import ArgumentTypeError, InvalidDescriptorError, UnsupportedError
from hurray.kernels.bits import packed_nbytes
from hurray.layouts import BlockPagedLayout, RowMajorLayout, SparseLayout
from hurray.layouts._base import Encoded, Layout, pack_codes
from hurray.quantization import RECIPES, PerBlockAffine, Quantized, Recipe, recipe
from hurray.quantization._base import Scheme
from hurray.records import record
from hurray.tensor.build import asarray
from hurray.tensor.relayout import dequantize_values, numbers_of
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import check_content, dense_shape, payload_of, stored_codes

__all__ = ["QuantizationError", "quantization_error", "quantize"]

_RUN = 1 << 16


def quantize(
    x: Any,
    spec: str | Recipe,
    *,
    layout: str | Layout | None = None,
    sequence_lengths: Sequence[int] | None = None,
    workers: int | None = None,
    **options: Any,
) -> Tensor:
    """Return numbers quantized under one of the five schemes.

    Parameters
    ----------
    x : Tensor or array_like
        Real numbers of any dtype, shape and layout.  A tensor keeps its layout (strided becomes row-major); one that
        is quantized already is dequantized first.
    spec : str or Recipe
        The recipe: ``int8``, ``uint8``, ``int8_per_channel``, ``int4_per_block``, ``int8_per_block``, ``nf4``,
        ``mxfp8_e4m3``, ``mxfp8_e5m2``, ``mxfp6_e2m3``, ``mxfp6_e3m2``, ``mxfp4``, ``mxint8`` and so on; see
        ``hurray.RECIPES``.
    layout : str or Layout, optional
        Write the codes in this dense layout.
    sequence_lengths : sequence of int, optional
        Tokens of each sequence of a block_paged tensor, where they do not follow from the descriptor.
    workers : int, optional
        Number of threads; one for small inputs by default.
    **options
        ``axis`` (may be negative), ``block_size``, ``symmetric`` and ``scale_type``, where the scheme has them.

    Raises
    ------
    InvalidDescriptorError
        A number is NaN or infinite (its position is named), or axis, block or layout do not fit the scheme.
    UnsupportedError
        The numbers are complex, or the layout is opaque.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> q = hurray.quantize(np.linspace(-1, 1, 64, dtype=np.float32), "int4_per_block", block_size=32)
    >>> q.dtype, q.quantization.block_size
    (hurray.dtype.int4, 32)
    >>> float(np.abs(q.dequantize().to_numpy() - np.linspace(-1, 1, 64)).max()) < 0.08
    True

    Format: quantization, quantizing.
    """
    how = recipe(spec, **options)
    t = x if isinstance(x, Tensor) else asarray(x)
    if t.layout.kind == "opaque" or t.dtype.is_opaque:
        raise UnsupportedError(f"{t!r} is opaque: its numbers cannot be read, so they cannot be quantized")
    if isinstance(t.layout, SparseLayout):
        result = _quantize_sparse(t, how, workers)
    elif isinstance(t.layout, BlockPagedLayout):
        result = _quantize_paged(t, how, sequence_lengths, workers)
    else:
        result = _quantize_dense(t, how, layout, workers)
        layout = None
    return result if layout is None else result.to_layout(layout)


def _assemble(t: Tensor, how: Recipe, encoded: Encoded, done: Quantized) -> Tensor:
    buffers = (*encoded.buffers, *done.buffers)
    d = t.descriptor
    descriptor = Descriptor(
        dtype=how.dtype,
        shape=d.shape,
        layout=encoded.layout,
        buffer_handles=tuple(handle_for(len(b)) for b in buffers),
        quantization=done.scheme,
        shard=d.shard,
    )
    check_descriptor(descriptor)
    result = Tensor._from_parts(descriptor, buffers)
    result._checked = True
    return result


def _quantize_dense(t: Tensor, how: Recipe, layout: str | Layout | None, workers: int | None) -> Tensor:
    done = how.quantize(numbers_of(t), first_index=1, workers=workers)
    target = t.layout if t.layout.name != "strided" and layout is None else RowMajorLayout()
    bits = how.dtype.bit_width
    encoded = type(target).encode(done.codes, bits, **target.encode_options())
    data = _whole_last_block(encoded.buffers[0], done, bits) if target.name in ("row_major", "col_major") else None
    result = _assemble(t, how, encoded if data is None else Encoded(encoded.layout, (data,)), done)
    return result if layout is None else result.to_layout(layout)


def _whole_last_block(data: NDArray[np.uint8], done: Quantized, bits: int) -> NDArray[np.uint8]:
    """Append zeros so that the last block of the buffer is whole (quantization, erratum on partial last blocks)."""
    block = getattr(done.scheme, "block_size", None)
    if block is None or not done.codes.size:
        return data
    n_bytes = packed_nbytes(-(-done.codes.size // block) * block, bits)
    if n_bytes == len(data):
        return data
    whole = np.zeros(n_bytes, np.uint8)
    whole[: len(data)] = data
    return whole


def _quantize_sparse(t: Tensor, how: Recipe, workers: int | None) -> Tensor:
    """Quantize stored values; unstored ones are zero under every scheme, so they take no part but in block ranges."""
    layout: Any = t.layout
    payload = payload_of(t)
    # Whoever read it, and though it may have been checked before its memory changed: the coordinates index arrays here.
    layout.validate(payload)
    n_own = layout.buffer_count
    bits = how.dtype.bit_width
    if how.scheme.name == "per_tensor_affine":
        stored = t.storage().values if t.quantization is not None else t.values
        numbers = stored.to_numpy(dtype=np.float64 if t.dtype.name == "float128" else None)
        if t.quantization is not None:
            coords, _ = stored_codes(t, payload)
            numbers = dequantize_values(t, None, None)[tuple(coords.T)]
        _check_finite(t, payload, how, numbers)
        done = how.quantize(numbers, first_index=n_own, workers=workers)
        codes = done.codes
    else:
        coords, _ = stored_codes(t, payload)
        done = how.quantize(numbers_of(t), first_index=n_own, workers=workers)
        codes = done.codes[tuple(coords.T)]
    encoded = Encoded(layout, (pack_codes(codes, bits), *t._buffers[1:n_own]))
    return _assemble(t, how, encoded, done)


def _quantize_paged(t: Tensor, how: Recipe, lengths: Sequence[int] | None, workers: int | None) -> Tensor:
    layout: Any = t.layout
    payload = payload_of(t, lengths)
    check_content(t, payload)
    tokens, heads, dim = dense_shape(t)
    slots = layout.slots(payload, np.arange(tokens, dtype=np.int64))
    n_slots = layout.num_pages * layout.page_size
    numbers = numbers_of(t, lengths)
    if how.scheme is PerBlockAffine:
        _check_paged(how, layout)
        done = how.quantize_slots(numbers, slots, page_size=layout.page_size, n_slots=n_slots)
    else:
        done = how.quantize(numbers, first_index=3, workers=workers)
    pool = np.zeros((n_slots, heads, dim), done.codes.dtype)
    pool[slots] = done.codes
    encoded = Encoded(layout, (pack_codes(pool, how.dtype.bit_width), *t._buffers[1:3]))
    return _assemble(t, how, encoded, done)._with_lengths(payload.sequence_lengths)


def _check_finite(t: Tensor, payload: Any, how: Recipe, numbers: NDArray[Any]) -> None:
    """Refuse stored numbers that are not finite by their coordinates; how they are numbered is the layout's affair."""
    if numbers.dtype.kind != "f":
        return
    for start in range(0, len(numbers), _RUN):
        bad = ~np.isfinite(numbers[start : start + _RUN])
        if bad.any():
            at = start + int(bad.argmax())
            coords, _ = stored_codes(t, payload)
            what = f"{how.name or how.scheme.name}: element {coords[at].tolist()}"
            raise InvalidDescriptorError(f"{what} is {float(numbers[at])}, which cannot be quantized")


def _check_paged(how: Recipe, layout: Any) -> None:
    """Refuse blocks that are no page slots; those of a recipe by name were not asked for."""
    usual = RECIPES.get(how.name)
    for option, wanted in (("axis", 0), ("block_size", layout.page_size)):
        value = how.options.get(option, wanted)
        if value != wanted and not (option == "axis" and value == -3):
            if usual is not None and usual.options.get(option) == value:
                continue
            what = f"{how.name or how.scheme.name}: in layout 'block_paged' blocks are page slots"
            raise InvalidDescriptorError(f"{what}, so {option} is {wanted}, not {value}")


@record
class QuantizationError:
    """What quantizing cost: the largest and the root-mean-square error, and the signal-to-noise ratio in decibels."""

    max_error: float
    rms_error: float
    snr_db: float


def quantization_error(x: Any, q: Tensor, *, sequence_lengths: Sequence[int] | None = None) -> QuantizationError:
    """Compare numbers with their quantized form.

    Parameters
    ----------
    x : Tensor or array_like
        The numbers before quantizing.
    q : Tensor
        The quantized tensor, of the same shape.

    Returns
    -------
    QuantizationError
        Errors in the numbers' own unit, computed in float64; ``snr_db`` is infinite without any error.
    """
    if not isinstance(q, Tensor):
        raise ArgumentTypeError(f"the second argument is a quantized hurray.Tensor, not {type(q).__name__}")
    if not isinstance(q.quantization, Scheme):
        raise UnsupportedError("the second argument is not a quantized tensor")
    t = x if isinstance(x, Tensor) else asarray(x)
    if t.shape != q.shape:
        raise InvalidDescriptorError(f"shapes differ: {t.shape} before, {q.shape} after quantizing")
    if t.dtype.is_complex:
        raise UnsupportedError(f"{t.dtype} cannot be quantized: only real numbers can")
    before = numbers_of(t, sequence_lengths).reshape(-1)
    after = dequantize_values(q, None, None, sequence_lengths).reshape(-1)
    worst = noise = signal = 0.0
    block = 1 << 16
    # NaN and infinities give NaN and infinite errors, of which NumPy need not warn.
    with np.errstate(all="ignore"):
        for at in range(0, before.size, block):
            exact = before[at : at + block].astype(np.float64)
            error = exact - after[at : at + block]
            largest = float(np.abs(error).max())
            worst = largest if largest > worst or math.isnan(largest) else worst
            noise += float(np.dot(error, error))
            signal += float(np.dot(exact, exact))
    rms = math.sqrt(noise / before.size) if before.size else 0.0
    if noise == 0:
        return QuantizationError(worst, rms, math.inf)
    # The quotient of a small and a large number may vanish, the difference of their logarithms does not.
    return QuantizationError(worst, rms, 10 * (math.log10(signal) - math.log10(noise)) if signal else -math.inf)
