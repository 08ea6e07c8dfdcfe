"""Numbers at the ends of their types: no warning, no overflow on the way, no fault that comparisons swallow."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hurray


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def exact_moments(values: list[float]) -> tuple[Fraction, Fraction]:
    numbers = [Fraction(v) for v in values]
    mean = sum(numbers, Fraction(0)) / len(numbers)
    return mean, sum(((n - mean) ** 2 for n in numbers), Fraction(0)) / len(numbers)


MAX = float(np.finfo(np.float64).max)
EXTREMES = [
    [1e308, 1e308, -1e308], [MAX, MAX], [-MAX, MAX], [MAX, MAX, 0.0], [1e-310, 3e-310], [5e-324] * 3, [5e-324, 0.0],
    [1e-300, 1e300], [1e-200, 2e-200, 5e-200], [1e160, -3e160, 2e155], [1.0, 2.0, 4.5], [-0.0, 0.0], [1e150, 1e151],
]  # fmt: skip


@pytest.mark.parametrize("values", EXTREMES, ids=str)
@pytest.mark.parametrize("order", [1, -1])
def test_moments_neither_overflow_nor_vanish(values: list[float], order: int) -> None:
    mean, variance = exact_moments(values)
    found = hurray.compute_statistics(hurray.asarray(np.array(values[::order])))
    assert found.value_mean is not None
    assert found.value_stddev is not None
    assert found.value_mean == pytest.approx(float(mean), rel=1e-12, abs=5e-324)
    # The square root of a fraction by its logarithm: the variance itself may be no float.
    root = math.exp((math.log(variance.numerator) - math.log(variance.denominator)) / 2) if variance else 0.0
    assert found.value_stddev == pytest.approx(root, rel=1e-9, abs=5e-324)
    assert (found.value_min, found.value_max) == (min(values), max(values))


def test_slabs_of_very_different_numbers_merge() -> None:
    x = np.concatenate([np.full(300_000, 1e-200), np.full(300_000, 1e10), np.full(300_000, 1e200)])
    found = hurray.compute_statistics(hurray.asarray(x))
    assert found.value_mean == pytest.approx(1e200 / 3, rel=1e-12)
    assert found.value_stddev == pytest.approx(1e200 * math.sqrt(2) / 3, rel=1e-12)


SPECIALS: list[Any] = [
    np.array([np.inf, -np.inf, 1]), np.array([np.nan, 1, 2]), np.array([np.nan]),
    np.array([0x7F800001, 0x3F800000], "<u4").view("<f4"), np.array([0x7C01], "<u2").view("<f2"),
    np.array([np.inf + 0j, complex(1, np.nan)]), np.array([2**64 - 1, 0], np.uint64), np.array([-(2**63)]),
]  # fmt: skip


@pytest.mark.parametrize("x", SPECIALS, ids=str)
def test_nothing_warns_of_special_numbers(x: Any) -> None:
    t = hurray.from_numpy(x)
    found = hurray.compute_statistics(t, pattern=True)
    if x.dtype.kind in "fc":
        assert found.has_nan == bool(np.isnan(x).any())
        assert found.has_inf == bool(np.isinf(x).any())
    hurray.save(io.BytesIO(), {"x": x}, statistics=True)
    if x.dtype.kind == "f":
        wide = t.to_numpy(dtype=np.float64)
        assert np.array_equal(np.isnan(wide), np.isnan(x))
    repr(t)


def quantized(n: int) -> hurray.Tensor:
    return hurray.quantize(np.arange(1, n + 1, dtype=np.float32), "int8")


def test_an_error_that_is_no_number_is_not_zero() -> None:
    # max(0.0, nan) is 0.0 in Python: the worst error of NaN was reported as none.
    found = hurray.quantization_error(np.array([np.nan, 1, 3]), quantized(3))
    assert math.isnan(found.max_error)
    assert math.isnan(found.rms_error)
    late = np.arange(1, 200_001, dtype=np.float32)
    late[5] = np.nan
    assert math.isnan(hurray.quantization_error(late, quantized(200_000)).max_error)


@pytest.mark.parametrize("x", [[np.inf, 2, 3], [1e308, 2, 3], [1e-160, 0, 0], [1e-200] * 3, [0, 0, 0], [MAX, -MAX, 0]])
def test_errors_of_extreme_numbers(x: list[float]) -> None:
    q = hurray.Tensor(bytes([100, 100, 100]), hurray.int8, [3], quantization=hurray.PerTensorAffine(1e30, 0))
    found = hurray.quantization_error(np.array(x), q)
    assert found.max_error >= 1e31
    assert not found.snr_db > 1e9


def test_complex_numbers_are_not_compared_by_half() -> None:
    with pytest.raises(hurray.UnsupportedError, match="complex"):
        hurray.quantization_error(np.array([1j, 2j, 3j]), quantized(3))


BIG = float(np.finfo(np.float32).max)
ENDS = [
    [BIG] * 64, [-BIG] * 64, [BIG, -BIG] * 32, [-BIG, *[0.0] * 63], [1.0, BIG, *[0.0] * 62], [2.0**127] * 64,
    [-(2.0**127), *[1.0] * 63], [1e-45] * 64, [-1e-45, *[0.0] * 63], [1.2e-38, -1e-40, *[0.0] * 62],
    [1e-35, -3e-36] * 32,
]  # fmt: skip


@pytest.mark.parametrize("recipe", sorted(hurray.RECIPES))
@pytest.mark.parametrize("values", ENDS, ids=lambda v: f"{v[0]:g},{v[1]:g}")
def test_finite_numbers_stay_finite_when_quantized(recipe: str, values: list[float]) -> None:
    # A scale that is rounded up, or the least code of a signed type, took the largest numbers to infinity.
    x = np.array([values, values], np.float32)
    q = hurray.quantize(x, recipe)
    q.validate()
    got = q.dequantize().to_numpy().astype(np.float64)
    assert np.isfinite(got).all()
    # One step of the coarsest type (2 bits) and of MX, which saturates, as a share of the largest number.
    step = {2: 1.0, 4: 0.3, 6: 0.15, 8: 0.15 if recipe.startswith("mx") else 0.011}.get(q.dtype.bit_width, 1e-4)
    assert np.abs(got - x).max() <= step * np.abs(x).max() + 1e-45


@pytest.mark.parametrize("scale_type", [hurray.float16, hurray.bfloat16, hurray.float32], ids=str)
@pytest.mark.parametrize("recipe", ["int8_per_block", "int4_per_block", "uint8_per_block"])
@pytest.mark.parametrize("power", [-30, -24, -22, -20, -16, 0, 10])
def test_subnormal_scales_are_not_rounded_below_the_numbers(recipe: str, scale_type: Any, power: int) -> None:
    rng = np.random.default_rng(power + 100)
    x = np.abs(rng.standard_normal((16, 64))).astype(np.float32) * np.float32(2.0**power)
    if scale_type is hurray.float32:
        x = (x * np.float32(2.0**-110)).astype(np.float32)
    q = hurray.quantize(x, recipe, scale_type=scale_type)
    got = q.dequantize().to_numpy()
    scales = np.repeat(q.scales().to_numpy().astype(np.float64), 32, axis=1)
    assert (np.abs(got.astype(np.float64) - x) <= scales * (0.5 + 2.0**-7) + np.abs(x) * 2.0**-7).all()
