"""What the schemes with parameters along an axis share: where the parameter of an element is.

A scheme says how many parameters it has and what they hold; this file brings them into the form of the kernels for a
region, for stored coordinates, for page slots, and for a whole packed buffer.

Format: quantization, limits; with sparse, block-paged and composite layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError
from hurray.kernels import lookup, scaling
from hurray.quantization._base import Float32, Params, Scheme
from hurray.quantization._checks import n_others

__all__ = ["AxisScheme", "flat_params"]

Int32 = NDArray[np.int32]
# Stored elements and expanded parameters are worked through in runs of about this many.
_RUN = 1 << 17


class AxisScheme(Scheme):
    """A scheme whose parameters change along one axis, by index or by block."""

    __slots__ = ()

    axis: int
    #: what one parameter belongs to, for messages
    unit: ClassVar[str] = "block"

    @property
    def _block(self) -> int | None:
        """Elements of a block, or None for one parameter per index of the axis."""
        raise NotImplementedError

    def _scales(self, params: Params, count: int) -> Float32:
        """Return the first ``count`` scales as float32, in wire order, unchecked."""
        raise NotImplementedError

    def _zero_points(self, params: Params, count: int) -> Int32 | None:
        """Return the first ``count`` zero points, unchecked, or None."""
        return None

    def _check(self, scales: Float32, zeros: Int32 | None, dtype: Dtype, what: str, places: Any = None) -> None:
        """Check values of parameters."""
        raise NotImplementedError

    def _formula(
        self,
        codes: NDArray[Any],
        dtype: Dtype,
        scale: Float32,
        zero: Int32 | None,
        *,
        axis: int = 0,
        block_size: int = 1,
        out: Float32 | None = None,
    ) -> Float32:
        """Apply the scheme's formula with parameters in broadcast form."""
        raise NotImplementedError

    # Where parameters are

    def _count(self, shape: Sequence[int], layout: Any) -> int:
        """Return the number of parameters."""
        if self._block is None:
            return shape[self.axis]
        if _is_paged(layout):
            return int(layout.num_pages) * int(layout.page_size)
        return n_others(shape, self.axis) * scaling.n_blocks(shape[self.axis], self._block)

    def _params(self, params: Params) -> tuple[Float32, Int32 | None]:
        count = self._count(params.shape, params.layout)
        return self._scales(params, count), self._zero_points(params, count)

    def _spread(self, flat: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        if self._block is None:
            return scaling.channel_params(flat, len(shape), self.axis)
        return scaling.block_params(flat, shape, self.axis, self._block)

    def check_values(self, params: Params) -> None:
        scales, zeros = self._params(params)
        if self._block is not None and _is_paged(params.layout):
            # Slots behind the end of a sequence are undefined, and so are their scales.
            slots = params.layout.used_slots(params.buffers, params.shape[0])
            self._check(scales[slots], None if zeros is None else zeros[slots], params.dtype, "slot", (slots,))
            return
        self._check(scales, zeros, params.dtype, self.unit)

    # Values

    def dequantize(
        self, codes: NDArray[Any], region: Sequence[Any], params: Params, out: Float32 | None = None
    ) -> Float32:
        result = scaling.output(out, codes.shape)
        if codes.size == 0:
            return result
        flat_scales, flat_zeros = self._params(params)
        fields = [flat_scales] if flat_zeros is None else [flat_scales, flat_zeros]
        spread = [self._spread(flat, params.shape) for flat in fields]
        # Dimensions that the parameters do not have are broadcast; the others follow the region.
        for k, indices in enumerate(region):
            if k != self.axis and spread[0].shape[k] != 1:
                spread = [_pick(p, k, indices) for p in spread]
        for run, block_size, wanted in self._runs(region[self.axis], codes.shape):
            part = (slice(None),) * self.axis + (run,)
            picked = [_pick(p, self.axis, wanted) for p in spread]
            zero = picked[1] if len(picked) > 1 else None
            places = [wanted if k == self.axis else axis for k, axis in enumerate(region)]
            self._check_picked(picked[0], zero, params.dtype, places)
            self._formula(
                codes[part], params.dtype, picked[0], zero, axis=self.axis, block_size=block_size, out=result[part]
            )
        return result

    def _check_picked(self, scale: Float32, zero: Int32 | None, dtype: Dtype, places: list[Any]) -> None:
        """Check parameters in broadcast form, as picked for ``places``."""
        if self._block is None:
            flat_zero = None if zero is None else zero.reshape(-1)
            self._check(scale.reshape(-1), flat_zero, dtype, self.unit, (places[self.axis],))
        else:
            self._check(scale, zero, dtype, self.unit, places)

    def _runs(self, indices: Any, shape: tuple[int, ...]) -> list[tuple[slice, int, Any]]:
        """Cut the indices along the axis into runs; give each its block size and the parameters it wants."""
        n = len(indices)
        block = self._block
        if block is None:
            return [(slice(0, n), 1, indices)]
        if isinstance(indices, range) and (indices.step == 1 or n == 1):
            start, stop = indices[0], indices[-1] + 1
            head = min(-start % block, n)
            runs: list[tuple[slice, int, Any]] = []
            if head:
                runs.append((slice(0, head), block, range(start // block, start // block + 1)))
            if head < n:
                first = (start + head) // block
                runs.append((slice(head, n), block, range(first, scaling.n_blocks(stop, block))))
            return runs
        # No order is known: every index brings its own parameters, a run at a time so that they stay small.
        step = max(1, _RUN // max(1, n_others(shape, self.axis)))
        entries = np.asarray(indices, np.int64) // block
        return [(slice(at, min(at + step, n)), 1, entries[at : at + step]) for at in range(0, n, step)]

    def dequantize_stored(self, codes: NDArray[Any], coords: NDArray[np.int64], params: Params) -> Float32:
        result = np.empty(codes.shape, np.float32)
        scales, zeros = self._params(params)
        for at in range(0, len(codes), _RUN):
            run = slice(at, at + _RUN)
            entries = self._entries(coords[run], params.shape, at)
            scale = scales[entries]
            zero = None if zeros is None else zeros[entries]
            self._check(scale, zero, params.dtype, self.unit, (entries,))
            self._formula(codes[run], params.dtype, scale, zero, out=result[run])
        return result

    def _entries(self, coords: NDArray[np.int64], shape: tuple[int, ...], start: int) -> NDArray[np.int64]:
        """Return the wire position of the parameter of each coordinate, refusing coordinates outside the shape."""
        # Sizes beyond int64 bound no coordinate of that type.
        limits = np.array([min(n, 2**63 - 1) for n in shape], np.int64)
        outside = ((coords < 0) | (coords >= limits)).any(axis=1)
        if outside.any():
            at = int(outside.argmax())
            place = coords[at].tolist()
            raise InvalidDescriptorError(f"stored element {start + at} at {place} is outside shape {shape}")
        if self._block is None:
            return coords[:, self.axis]
        entries = np.zeros(len(coords), np.int64)
        for k, n in enumerate(shape):
            if k != self.axis:
                entries = entries * n + coords[:, k]
        n_along = scaling.n_blocks(shape[self.axis], self._block)
        return entries * n_along + coords[:, self.axis] // self._block

    def dequantize_slots(
        self, codes: NDArray[Any], slots: NDArray[np.int64], params: Params, region: Sequence[Any] | None = None
    ) -> Float32:
        scales, zeros = self._params(params)
        # Channels are heads or dimensions; blocks are the slots themselves.
        axis, what = (self.axis, self.unit) if self._block is None else (0, "slot")
        wanted = slots if axis == 0 else range(params.shape[axis]) if region is None else region[axis]
        scale = _pick(scales, 0, wanted)
        zero = None if zeros is None else _pick(zeros, 0, wanted)
        self._check(scale, zero, params.dtype, what, (wanted,))
        spread_zero = None if zero is None else scaling.channel_params(zero, codes.ndim, axis)
        return self._formula(codes, params.dtype, scaling.channel_params(scale, codes.ndim, axis), spread_zero)

    def dequantize_packed(self, params: Params, byte_offset: int, out: Float32) -> bool:
        bits, shape = params.dtype.bit_width, params.shape
        per_item = 4 if bits == 6 else 8 // bits if bits <= 8 else 0
        table = self._table(params.dtype)
        if table is None or not shape or 0 in shape or not per_item or not out.flags.c_contiguous:
            return False
        along_last = self.axis == len(shape) - 1
        if shape[-1] % per_item or (along_last and (self._block is None or self._block % per_item)):
            return False
        n_bytes = out.size // per_item * (3 if bits == 6 else 1)
        data = params.buffers[0][byte_offset : byte_offset + n_bytes]
        scales, zeros = self._params(params)
        self._check(scales, zeros, params.dtype, self.unit)
        scale = self._spread(scales, shape)
        block = self._block or 1
        if bits == 6:
            lookup.dequantize_packed_six(data, table, scale, shape=shape, axis=self.axis, block_size=block, out=out)
            return True
        zero = None if zeros is None else self._spread(zeros, shape).astype(np.float32)
        lookup.dequantize_packed(data, bits, table, scale, zero, shape=shape, axis=self.axis, block_size=block, out=out)
        return True

    def _table(self, dtype: Dtype) -> Float32 | None:
        """Return the float32 value of every code for :meth:`dequantize_packed`, or None where there is no such path."""
        return None


def flat_params(spread: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return parameters in broadcast form in their wire order, contiguous and 1-D."""
    return np.ascontiguousarray(np.moveaxis(spread, axis, -1)).reshape(-1)


def _pick(param: NDArray[Any], axis: int, wanted: Any) -> NDArray[Any]:
    """Pick entries along an axis: a view for a range, else a copy."""
    if isinstance(wanted, range):
        stop = wanted.stop if wanted.step > 0 or wanted.stop >= 0 else None
        return param[(slice(None),) * axis + (slice(wanted.start, stop, wanted.step),)]
    return param.take(np.asarray(wanted), axis=axis)


def _is_paged(layout: Any) -> bool:
    return getattr(layout, "name", None) == "block_paged"
