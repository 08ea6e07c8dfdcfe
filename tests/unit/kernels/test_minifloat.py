"""Small floats against their definitions and against ml_dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hurray.kernels import minifloat

ml_dtypes = pytest.importorskip("ml_dtypes")

ML_TYPES = {
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0": ml_dtypes.float8_e8m0fnu,
    "float4_e2m1": ml_dtypes.float4_e2m1fn,
    "float6_e2m3": ml_dtypes.float6_e2m3fn,
    "float6_e3m2": ml_dtypes.float6_e3m2fn,
}
FLOAT8 = ("float8_e4m3", "float8_e5m2")
MAXIMUM = {"float8_e4m3": 448, "float8_e5m2": 57344, "float4_e2m1": 6, "float6_e2m3": 7.5, "float6_e3m2": 28}


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    """Every float16, every upper half of a float32 and its two neighbours, and random float32 bit patterns."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    rng = np.random.default_rng(11)
    words = [upper, upper + 1, upper - 1, upper | 0x8000, rng.integers(0, 1 << 32, 1 << 17, dtype=np.uint32)]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    return np.concatenate([halves, np.concatenate(words).astype(np.uint32).view(np.float32)])


@pytest.mark.parametrize("name", ML_TYPES)
def test_tables(name: str) -> None:
    table = minifloat.decode_table(name)
    assert table.dtype == np.float32
    assert table.size == 1 << minifloat.FORMATS[name].bits
    assert not table.flags.writeable
    assert minifloat.decode_table(name.partition("_")[2]) is not None
    expected = np.arange(table.size, dtype=np.uint8).view(ML_TYPES[name]).astype(np.float32)
    if name == "float8_e8m0":
        expected[0] = np.nan  # reserved here, 2**-127 there
    assert np.array_equal(table, expected, equal_nan=True)
    assert np.array_equal(np.signbit(table[:-1]), np.signbit(expected[:-1]))


def test_landmarks() -> None:
    e4m3 = minifloat.decode_table("float8_e4m3")
    e5m2 = minifloat.decode_table("float8_e5m2")
    assert e4m3[[0x00, 0x01, 0x08, 0x38, 0x7E]].tolist() == [0.0, 2.0**-9, 2.0**-6, 1.0, 448.0]
    assert np.isnan(e4m3[[0x7F, 0xFF]]).all()
    assert np.isnan(e4m3).sum() == 2
    assert e5m2[[0x01, 0x7B, 0x7C, 0xFC]].tolist() == [2.0**-16, 57344.0, math.inf, -math.inf]
    assert np.isnan(e5m2).sum() == 6
    assert minifloat.decode_table("float4_e2m1").tolist()[:8] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert minifloat.decode_table("float6_e2m3").max() == 7.5
    assert minifloat.decode_table("float6_e3m2").max() == 28
    e8m0 = minifloat.decode_table("float8_e8m0")
    assert e8m0[[1, 127, 254]].tolist() == [2.0**-126, 1.0, 2.0**127]
    assert np.flatnonzero(np.isnan(e8m0)).tolist() == [0, 255]


@pytest.mark.parametrize("name", ML_TYPES)
def test_encode_equals_ml_dtypes(name: str, numbers: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = numbers.astype(ML_TYPES[name]).view(np.uint8)
    codes = minifloat.encode(numbers, name, saturate=False)
    compared = np.ones(numbers.shape, bool)
    if name not in FLOAT8 and name != "float8_e8m0":
        compared = ~np.isnan(numbers)
        assert not codes[~compared].any()
    if name == "float8_e8m0":
        # Between 2**-127 and halfway to 2**-126 ml_dtypes rounds up, away from the nearer number.
        compared = ~((numbers > 2.0**-127) & (numbers < 1.5 * 2.0**-127))
        assert not codes[~compared].any()
    assert np.array_equal(codes[compared], expected[compared])


@pytest.mark.parametrize("name", MAXIMUM)
def test_saturation(name: str, numbers: np.ndarray) -> None:
    codes = minifloat.encode(numbers, name)
    clamped = np.clip(numbers, -MAXIMUM[name], MAXIMUM[name])
    known = ~np.isnan(numbers)
    with np.errstate(all="ignore"):
        expected = clamped.astype(ML_TYPES[name]).view(np.uint8)
    assert np.array_equal(codes[known], expected[known])
    extremes = minifloat.encode(np.array([np.inf, -np.inf, 1e30, -1e30], np.float32), name)
    top = MAXIMUM[name]
    assert minifloat.decode(extremes, name).tolist() == [top, -top, top, -top]


def test_nan_codes() -> None:
    nan = np.array([np.nan, -np.nan], np.float32)
    nan[1] = np.copysign(nan[1], -1)
    assert minifloat.encode(nan, "float8_e4m3").tolist() == [0x7F, 0xFF]
    assert minifloat.encode(nan, "float8_e5m2").tolist() == [0x7E, 0xFE]
    assert minifloat.encode(nan, "float8_e8m0").tolist() == [0xFF, 0xFF]
    for name in ("float4_e2m1", "float6_e2m3", "float6_e3m2"):
        assert minifloat.encode(nan, name).tolist() == [0, 0]


def test_saturating_scales_stay_legal() -> None:
    x = np.array([0.0, -0.0, 1e-45, 2.0**-127, 2.0**-126, 1.0, 1.5, 3.0, 2.9, 3.4e38, np.inf, -1.0, -1e-45])
    codes = minifloat.encode(x.astype(np.float32), "float8_e8m0").tolist()
    assert codes == [1, 1, 1, 1, 1, 127, 128, 129, 128, 254, 254, 255, 255]
    assert minifloat.encode(np.array([1e300, 1e-300, -1e300]), "float8_e8m0").tolist() == [254, 1, 255]


@pytest.mark.parametrize("name", MAXIMUM)
def test_float64_is_rounded_once(name: str) -> None:
    table = np.unique(minifloat.decode_table(name).astype(np.float64))
    table = table[np.isfinite(table)]
    halfway = (table[1:] + table[:-1]) / 2
    for direction in (-np.inf, np.inf):
        x = np.nextafter(halfway, direction)
        nearest = table[:-1] if direction < 0 else table[1:]
        assert np.array_equal(minifloat.decode(minifloat.encode(x, name), name), nearest)
    tie = minifloat.encode(halfway, name)
    assert not (tie & 1).any()
    assert minifloat.encode(np.array([1e300, -1e300, 1e-300]), name, saturate=True)[2] == 0


def test_float64_equals_float32_where_exact(numbers: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        wide = numbers.astype(np.float64)
    for name in ML_TYPES:
        for saturate in (False, True):
            expected = minifloat.encode(numbers, name, saturate=saturate)
            assert np.array_equal(minifloat.encode(wide, name, saturate=saturate), expected)


def test_other_inputs() -> None:
    expected = [0x38, 0x40, 0xC0, 0x7E]
    x = np.array([1, 2, -2, 500])
    for dtype in (np.int16, np.int64, np.float16, ">f4", ">f8", np.longdouble, ml_dtypes.bfloat16):
        assert minifloat.encode(x.astype(dtype), "e4m3").tolist() == expected
    with pytest.raises(ValueError, match="real"):
        minifloat.encode(x.astype(np.complex64), "e4m3")
    with pytest.raises(ValueError, match="no small floating point format 'e9m9'"):
        minifloat.encode(x, "e9m9")
    with pytest.raises(ValueError, match="uint8"):
        minifloat.decode(x, "e4m3")


@pytest.mark.parametrize("n", [0, 1, 7, 70_001])
def test_shapes_orders_and_out(n: int) -> None:
    codes = np.random.default_rng(n).integers(0, 256, (n, 2)).astype(np.uint8)
    expected = minifloat.decode_table("float6_e3m2")[codes & 0x3F]
    out = np.empty((n, 4), np.float32)[:, ::2]
    assert minifloat.decode(codes, "float6_e3m2", out=out) is out
    assert np.array_equal(out, expected)
    assert np.array_equal(minifloat.decode(np.asfortranarray(codes), "float6_e3m2"), expected)
    assert np.array_equal(minifloat.decode(codes[::-1], "float6_e3m2"), expected[::-1])
    target = np.empty((2, n), np.uint8).T
    assert minifloat.encode(out, "float6_e3m2", out=target) is target
    assert np.array_equal(target, codes & 0x3F)
    with pytest.raises(ValueError, match="out must be"):
        minifloat.decode(codes, "e3m2", out=np.empty((n, 3), np.float32))
    with pytest.raises(ValueError, match="out must be"):
        minifloat.encode(out, "e3m2", out=np.empty((n, 2), np.int8))


def test_scalars_and_unaligned_arrays() -> None:
    assert minifloat.decode(np.array(0x38, np.uint8), "e4m3").shape == ()
    assert minifloat.encode(np.array(1.0), "e4m3") == 0x38
    n = 40_000
    raw = np.zeros(4 * n + 1, np.uint8)
    out = raw[1:].view(np.float32)
    codes = np.arange(n + 1, dtype=np.uint8)[1:]
    minifloat.decode(codes, "e4m3", out=out)
    assert np.array_equal(out, minifloat.decode_table("e4m3")[codes], equal_nan=True)


def test_bfloat16_codes_survive() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = minifloat.bfloat16_to_float32(codes)
    assert np.array_equal(values.view(np.uint32), codes.astype(np.uint32) << 16)
    assert np.array_equal(minifloat.float32_to_bfloat16(values), codes)
    big = np.tile(codes, 3)[1:]
    out = np.empty(2 * big.size, np.float32)[::2]
    assert minifloat.bfloat16_to_float32(big, out=out) is out
    assert np.array_equal(out.view(np.uint32), big.astype(np.uint32) << 16)


def test_bfloat16_rounding_equals_ml_dtypes(numbers: np.ndarray) -> None:
    known = ~np.isnan(numbers)
    with np.errstate(invalid="ignore"):
        expected = numbers.astype(ml_dtypes.bfloat16).view(np.uint16)
    codes = minifloat.float32_to_bfloat16(numbers)
    assert np.array_equal(codes[known], expected[known])
    lost = np.array([0x7F800001, 0xFF80FFFF, 0x7FC12345, 0x7F810000], np.uint32).view(np.float32)
    assert minifloat.float32_to_bfloat16(lost).tolist() == [0x7FC0, 0xFFC0, 0x7FC1, 0x7F81]


def test_bfloat16_shapes_and_misuse() -> None:
    x = np.arange(6, dtype=">f4").reshape(2, 3).T
    assert minifloat.float32_to_bfloat16(x).tolist() == [[0, 0x4040], [0x3F80, 0x4080], [0x4000, 0x40A0]]
    assert minifloat.float32_to_bfloat16(np.empty((0, 3), np.float32)).shape == (0, 3)
    with pytest.raises(ValueError, match="float32"):
        minifloat.float32_to_bfloat16(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="out must be"):
        minifloat.bfloat16_to_float32(np.zeros(3, np.uint16), out=np.zeros(2, np.float32))
