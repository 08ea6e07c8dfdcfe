"""Statistics of a tensor's values, in one pass over slabs.

Format: descriptor, statistics.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.sections import Statistics
from hurray.errors import ArgumentTypeError, UnsupportedError
from hurray.layouts._base import n_elements
from hurray.tensor.relayout import dequantize_values, numbers_of
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import dense_shape, read_region, refuse_absurd

__all__ = ["compute_statistics"]

_SLAB = 1 << 18
#: N:M patterns that are looked for, the sparsest first
_PATTERNS = ((1, 8), (1, 4), (2, 8), (3, 8), (1, 2), (2, 4), (4, 8))


def compute_statistics(
    t: Tensor, *, pattern: bool = False, sequence_lengths: Sequence[int] | None = None
) -> Statistics:
    """Compute the statistics of a tensor's values.

    Parameters
    ----------
    t : Tensor
        Any layout; quantized tensors are decoded.
    pattern : bool
        Also look for an N:M pattern (at most N of M consecutive elements of the last dimension non-zero).

    Returns
    -------
    Statistics
        Computed in float64; bool counts as 0 and 1.  Extremes leave NaN out and are unknown when nothing else is
        there; mean and deviation are NaN when NaN or infinities take part.  Complex tensors have none of these.

    Raises
    ------
    UnsupportedError
        Opaque tensors, and tensors with a dynamic dimension.

    Format: descriptor, statistics.
    """
    if not isinstance(t, Tensor):
        raise ArgumentTypeError(f"statistics are computed of a hurray.Tensor, not {type(t).__name__}")
    if t.layout.kind == "opaque" or t.dtype.is_opaque:
        raise UnsupportedError(f"{t!r} is opaque: its values cannot be read")
    shape = dense_shape(t)
    total = n_elements(shape)
    refuse_absurd(t, shape)
    sums = _Sums()
    found = dict.fromkeys(_PATTERNS, pattern and bool(shape))
    # An empty tensor may have any number of empty rows.
    for slab in _slabs(t, shape, sequence_lengths) if total else ():
        sums.add(slab)
        for n, m in [p for p, holds in found.items() if holds]:
            found[n, m] = _has_pattern(slab, n, m)
    nnz = t.layout.nnz if t.layout.is_sparse else sums.nnz  # type: ignore[attr-defined]
    known: dict[str, Any] = {"nnz": nnz, "sparsity_ratio": (total - nnz) / total if total else 0.0}
    known.update(has_nan=sums.has_nan, has_inf=sums.has_inf)
    known.update(sums.moments())
    if pattern:
        best = next((p for p, holds in found.items() if holds and total), (0, 0))
        known.update(nm_n=best[0], nm_m=best[1])
    return Statistics(**known)


#: values up to these magnitudes are multiplied by 2 to these powers, so that no square overflows or vanishes
_SCALES = ((1e-130, 600), (1e150, 0), (math.inf, -600))


class _Sums:
    """Running counts, extremes and moments; slabs are merged by Chan's formula.

    Mean and spread are those of the values times ``2**power``, where the power suits the largest value so far.
    """

    def __init__(self) -> None:
        self.nnz = 0
        self.power = _SCALES[0][1]
        self.count = 0
        self.mean = 0.0
        self.spread = 0.0
        self.low = math.inf
        self.high = -math.inf
        self.has_nan = False
        self.has_inf = False
        self.has_values = False
        self.is_complex = False

    def add(self, slab: NDArray[Any]) -> None:
        if not slab.size:
            return
        self.nnz += int(np.count_nonzero(slab))
        if slab.dtype.kind == "c":
            self.is_complex = True
            self.has_nan |= bool(np.isnan(slab).any())
            self.has_inf |= bool(np.isinf(slab).any())
            return
        # Widening a signalling NaN, and sums with infinities, raise flags that mean nothing here.
        with np.errstate(all="ignore"):
            values = slab.astype(np.float64, copy=False).reshape(-1)
            low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
            self.has_nan |= bool(np.isnan(values).any())
            self.has_inf |= math.isinf(low) or math.isinf(high)
            if not math.isnan(low):
                self.has_values = True
                self.low, self.high = min(self.low, low), max(self.high, high)
                self._rescale()
            scaled = np.ldexp(values, self.power) if self.power else values
            mean = float(scaled.sum()) / scaled.size
            apart = scaled - mean
            spread = float(np.dot(apart, apart))
        count = self.count + values.size
        delta = mean - self.mean
        self.mean += delta * values.size / count
        self.spread += spread + delta * delta * self.count * values.size / count
        self.count = count

    def _rescale(self) -> None:
        largest = max(abs(self.low), abs(self.high))
        power = next(power for bound, power in _SCALES if largest <= bound)
        if power != self.power:
            step = power - self.power
            self.mean = math.ldexp(self.mean, step)
            self.spread = math.ldexp(self.spread, 2 * step)
            self.power = power

    def _unscaled(self, number: float) -> float:
        try:
            return math.ldexp(number, -self.power)
        except OverflowError:  # the last bit was rounded up, beyond the largest float
            return math.copysign(sys.float_info.max, number)

    def moments(self) -> dict[str, float]:
        if self.is_complex or not self.has_values:
            return {}
        known = {
            "value_min": self.low,
            "value_max": self.high,
            "value_abs_max": max(abs(self.low), abs(self.high)),
        }
        finite = not (self.has_nan or self.has_inf)
        known["value_mean"] = self._unscaled(self.mean) if finite else math.nan
        deviation = math.sqrt(self.spread / self.count) if finite else math.nan
        known["value_stddev"] = self._unscaled(deviation)
        return known


def _slabs(t: Tensor, shape: tuple[int, ...], lengths: Sequence[int] | None) -> Iterator[NDArray[Any]]:
    """Yield the values in slabs of the first dimension that stay small."""
    if not shape or t.dtype.name == "float128":
        yield np.asarray(numbers_of(t, lengths))
        return
    row = max(1, n_elements(shape[1:]))
    step = max(1, _SLAB // row)
    rest = tuple(range(n) for n in shape[1:])
    for at in range(0, shape[0], step):
        region = (range(at, min(at + step, shape[0])), *rest)
        if t.quantization is not None:
            yield dequantize_values(t, region, None, lengths)
        else:
            yield read_region(t, region, sequence_lengths=lengths)


def _has_pattern(slab: NDArray[Any], n: int, m: int) -> bool:
    if slab.shape[-1] % m:
        return False
    groups = (slab != 0).reshape(-1, m)
    return bool((groups.sum(axis=1) <= n).all())
