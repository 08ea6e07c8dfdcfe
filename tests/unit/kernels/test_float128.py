"""binary128 against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hurray.kernels.float128 import float64_to_float128, float128_to_float64

INFINITY = 0x7FFF << 112
ONE = 16383 << 112


def raw(*patterns: int) -> np.ndarray:
    """Bytes of binary128 bit patterns."""
    return np.frombuffer(b"".join(p.to_bytes(16, "little") for p in patterns), np.uint8).reshape(-1, 16)


def exact(pattern: int) -> Fraction:
    """Value of a finite binary128 bit pattern, by its definition."""
    exponent, fraction = (pattern >> 112) & 0x7FFF, pattern & ((1 << 112) - 1)
    significand = fraction + ((1 << 112) if exponent else 0)
    value = Fraction(significand) * Fraction(2) ** (max(exponent, 1) - 16383 - 112)
    return -value if pattern >> 127 else value


def nearest(pattern: int) -> float:
    """The float64 nearest to a finite pattern, as Python's own division of integers rounds it."""
    value = exact(pattern)
    try:
        rounded = value.numerator / value.denominator
    except OverflowError:
        rounded = math.inf
    return math.copysign(rounded, -1.0 if pattern >> 127 else 1.0)


def random_patterns(n: int, lowest: int, highest: int) -> list[int]:
    """Patterns with exponent fields in a range, many of them at or next to the middle of two float64."""
    rng = np.random.default_rng(n)
    patterns = []
    for _ in range(n):
        fraction = int.from_bytes(rng.bytes(14), "little")
        shape = int(rng.integers(6))
        if shape < 4:  # low part 0, half, just below or just above
            cut = int(rng.integers(55, 113))
            fraction &= ~((1 << cut) - 1)
            fraction += (0, 1 << (cut - 1), (1 << (cut - 1)) - 1, (1 << (cut - 1)) + 1)[shape]
            fraction &= (1 << 112) - 1
        sign = int(rng.integers(2))
        patterns.append(sign << 127 | int(rng.integers(lowest, highest)) << 112 | fraction)
    return patterns


@pytest.mark.parametrize(
    ("lowest", "highest"),
    [(16383 - 3, 16383 + 3), (16383 + 1020, 16383 + 1026), (16383 - 1030, 16383 - 1015), (16383 - 1080, 16383 - 1020),
     (0, 2), (0, 0x7FFF)],
)  # fmt: skip
def test_rounding(lowest: int, highest: int) -> None:
    patterns = random_patterns(600, lowest, highest)
    expected = np.array([nearest(p) for p in patterns])
    got = float128_to_float64(raw(*patterns))
    assert np.array_equal(got.view(np.uint64), expected.view(np.uint64))


def test_boundaries() -> None:
    largest = 16383 + 1023 << 112 | ((1 << 52) - 1) << 60
    smallest = 16383 - 1074 << 112
    cases = {
        0: 0.0,
        ONE: 1.0,
        largest: np.finfo(np.float64).max,
        largest + (1 << 59) - 1: np.finfo(np.float64).max,
        largest + (1 << 59): math.inf,
        INFINITY: math.inf,
        INFINITY - 1: math.inf,
        smallest: 5e-324,
        smallest - (1 << 112): 0.0,  # a half, ties to even
        smallest - (1 << 112) + 1: 5e-324,
        1: 0.0,
        (16383 - 1022 << 112) - 1: 2.0**-1022,  # rounds up into the normal numbers
    }
    for pattern, expected in cases.items():
        both = float128_to_float64(raw(pattern, pattern | 1 << 127))
        assert both.tolist() == [expected, -expected], hex(pattern)
        assert np.signbit(both).tolist() == [False, True]


def test_nan_payloads() -> None:
    patterns = [
        INFINITY | 1,
        INFINITY | 1 << 59,
        INFINITY | 1 << 60,
        INFINITY | 1 << 111 | 5 << 60,
        0xFFFF << 112 | 1 << 63,
    ]
    words = float128_to_float64(raw(*patterns)).view(np.uint64).tolist()
    assert [hex(w) for w in words] == [
        "0x7ff8000000000000",
        "0x7ff8000000000000",
        "0x7ff0000000000001",
        "0x7ff8000000000005",
        "0xfff0000000000008",
    ]


def test_widening_is_exact_and_reversible() -> None:
    rng = np.random.default_rng(3)
    words = rng.integers(0, 1 << 64, 20_000, dtype=np.uint64)
    words[:2000] &= 0x800FFFFFFFFFFFFF  # subnormals
    words[:200] >>= np.arange(200, dtype=np.uint64) % 63
    words[2000:2200] |= 0x7FF << 52  # NaN
    words[2200:2206] = [0, 1 << 63, 1, (1 << 52) - 1, 0x7FF << 52, 0xFFF << 52]
    x = words.view(np.float64)
    wide = float64_to_float128(x)
    assert wide.shape == (20_000, 16)
    assert np.array_equal(float128_to_float64(wide).view(np.uint64), words)
    for number, pattern in zip(
        x[:2200:7].tolist() + x[2200:2400].tolist(), [*wide[:2200:7], *wide[2200:2400]], strict=True
    ):
        if math.isfinite(number):
            assert exact(int.from_bytes(pattern.tobytes(), "little")) == Fraction(number)
    assert float64_to_float128(np.array([np.inf])).tobytes() == INFINITY.to_bytes(16, "little")


def test_shapes_orders_and_misuse() -> None:
    x = np.arange(12.0).reshape(3, 4)
    wide = float64_to_float128(x)
    assert wide.shape == (3, 4, 16)
    assert np.array_equal(float64_to_float128(np.asfortranarray(x)), wide)
    assert np.array_equal(float64_to_float128(x.astype(">f8")), wide)
    assert np.array_equal(float128_to_float64(wide.transpose(1, 0, 2)), x.T)
    out = np.empty((3, 8))[:, ::2]
    assert float128_to_float64(wide, out=out) is out
    assert np.array_equal(out, x)
    assert float128_to_float64(wide[1, 1]).shape == ()
    assert float64_to_float128(np.array(2.5)).shape == (16,)
    assert float128_to_float64(np.empty((0, 16), np.uint8)).shape == (0,)
    assert float64_to_float128(np.empty((2, 0))).shape == (2, 0, 16)
    for bad in (np.zeros((3, 8), np.uint8), np.zeros((2, 16), np.int8), np.array(1, np.uint8)):
        with pytest.raises(ValueError, match="raw must be"):
            float128_to_float64(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="out must be"):
        float128_to_float64(wide, out=np.empty(3))
    with pytest.raises(ValueError, match="float64"):
        float64_to_float128(np.zeros(2, np.float32))
