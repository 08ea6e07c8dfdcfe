"""``hurray.compute_statistics`` against NumPy over whole arrays, for every layout and type."""

from __future__ import annotations

import io
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hurray
from hurray.dtypes.table import ALL_DTYPES

LAYOUTS: dict[str, dict[str, Any]] = {
    "row_major": {},
    "col_major": {},
    "strided": {"strides": [1, 16]},
    "tiled": {"tile_shape": [5, 4]},
    "morton": {},
    "hilbert": {},
    "coo": {},
    "csr": {},
    "csc": {},
}
MOMENTS = ("value_min", "value_max", "value_abs_max", "value_mean", "value_stddev")


def check(t: hurray.Tensor, x: NDArray[Any], nnz: int | None = None) -> None:
    """Assert that the statistics of ``t`` are those of the array of its values."""
    found = hurray.compute_statistics(t)
    count = int(np.count_nonzero(x)) if nnz is None else nnz
    assert found.nnz == count
    assert found.sparsity_ratio == ((x.size - count) / x.size if x.size else 0)
    if x.dtype.kind == "c":
        assert found.has_nan is bool(np.isnan(x).any())
        assert found.has_inf is bool(np.isinf(x).any())
        assert all(getattr(found, name) is None for name in MOMENTS)
        return
    wide = x.astype(np.float64)
    assert found.has_nan is bool(np.isnan(wide).any())
    assert found.has_inf is bool(np.isinf(wide).any())
    known = wide[~np.isnan(wide)]
    if not known.size:
        assert all(getattr(found, name) is None for name in MOMENTS)
        return
    assert found.value_min == known.min()
    assert found.value_max == known.max()
    assert found.value_abs_max == np.abs(known).max()
    assert found.value_mean is not None
    assert found.value_stddev is not None
    if not np.isfinite(wide).all():
        assert math.isnan(found.value_mean)
        assert math.isnan(found.value_stddev)
        return
    top = float(np.abs(wide).max())
    # NumPy's squares overflow, those of numbers near 1 do not.
    power = -math.frexp(top)[1]
    near = np.ldexp(wide, power)
    assert found.value_mean == pytest.approx(math.ldexp(near.mean(), -power), rel=1e-12, abs=1e-13 * top)
    assert found.value_stddev == pytest.approx(math.ldexp(near.std(), -power), rel=1e-9, abs=1e-13 * top)


def example(seed: int = 0) -> NDArray[np.float32]:
    x = np.random.default_rng(seed).standard_normal((16, 16)).astype(np.float32)
    x[x < 0.3] = 0
    x[0] -= 2
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    x = example()
    check(hurray.from_numpy(x).to_layout(layout, **LAYOUTS[layout]), x)


def test_csf_and_block_paged() -> None:
    x = example().reshape(4, 4, 16)
    check(hurray.from_numpy(x).to_layout("csf"), x)
    check(hurray.from_numpy(x).to_layout("block_paged", page_size=3), x)


@pytest.mark.parametrize("dtype", [d.name for d in ALL_DTYPES if d.name not in ("float128", "float8_e8m0")])
def test_types(dtype: str) -> None:
    kind = hurray.Tensor(b"\0" * 16, getattr(hurray.dtype, dtype), [1]).to_numpy().dtype
    raw = np.random.default_rng(3).integers(0, 256, 64 * kind.itemsize, dtype=np.uint8)
    if kind.kind == "b":
        raw &= 1
    elif kind.kind not in "fciu" or kind.name in ("int4", "uint4", "int2", "uint2"):
        width = hurray.Tensor(b"\0" * 16, getattr(hurray.dtype, dtype), [1]).dtype.bit_width
        raw &= (1 << min(8, width)) - 1
    x = raw.view(kind).reshape(8, 8)
    with np.errstate(all="ignore"):
        check(hurray.from_numpy(x), x)
        check(hurray.from_numpy(x).to_layout("tiled", tile_shape=[3, 5]), x)


def test_types_without_a_numpy_type_of_their_own() -> None:
    ones = np.full(16, 0, np.uint8).tobytes()
    quad = bytes(14) + b"\xff\x3f" + bytes(14) + b"\x00\xc0"  # 1 and -2
    found = hurray.compute_statistics(hurray.Tensor(quad, hurray.dtype.float128, [2]))
    assert (found.value_min, found.value_max, found.value_mean, found.nnz) == (-2, 1, -0.5, 2)
    found = hurray.compute_statistics(hurray.Tensor(bytes([127, 128]), hurray.dtype.float8_e8m0, [2]))
    assert (found.value_min, found.value_max) == (1, 2)
    with pytest.raises(hurray.UnsupportedError):
        t = hurray.Tensor(ones, hurray.float32, [None, 4])
        hurray.compute_statistics(t)


RECIPES = ["int8", "uint8_per_channel", "int4_per_block", "nf4", "mxfp8_e4m3", "mxfp4", "mxint8"]


@pytest.mark.parametrize("layout", ["row_major", "tiled", "hilbert", "csr", "coo"])
@pytest.mark.parametrize("name", RECIPES)
def test_quantized(name: str, layout: str) -> None:
    x = example()
    options: dict[str, Any] = {} if name in ("int8", "uint8_per_channel") else {"block_size": 16}
    q = hurray.quantize(hurray.from_numpy(x).to_layout(layout, **LAYOUTS[layout]), name, **options)
    stored = int(np.count_nonzero(x)) if layout in ("csr", "coo") else None
    check(q, q.dequantize().to_numpy(), stored)


SPECIAL = [0.0, -0.0, 1.0, -3.5, math.nan, math.inf, -math.inf, 1e30]


@given(
    values=st.lists(st.sampled_from(SPECIAL), max_size=12),
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.complex64, ml_dtypes.bfloat16]),
)
def test_nan_and_infinities(values: list[float], dtype: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.array(values).astype(dtype)
        check(hurray.from_numpy(x), x)
        if len(x):
            check(hurray.from_numpy(x.reshape(1, -1)).to_layout("csr"), x, int(np.count_nonzero(_stored(x))))


def _stored(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell what a sparse layout stores: all that has any bit set, so -0 too."""
    return np.asarray(np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1).any(axis=1), np.bool_)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), ()])
def test_empty_and_scalar(shape: tuple[int, ...]) -> None:
    x = np.full(shape, -2.5, np.float32)
    check(hurray.from_numpy(x), x)
    found = hurray.compute_statistics(hurray.from_numpy(x), pattern=True)
    assert (found.nm_n, found.nm_m) == (0, 0)


@settings(max_examples=15)
@given(
    shape=st.sampled_from([(1000, 700), (3, 300_001), (600_000,), (2, 3, 150_000)]),
    seed=st.integers(0, 1000),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_slabs_are_merged(shape: tuple[int, ...], seed: int, offset: float) -> None:
    x = (np.random.default_rng(seed).standard_normal(shape) + offset).astype(np.float64)
    check(hurray.from_numpy(x), x)


def test_integers_beyond_float64_are_rounded() -> None:
    x = np.array([2**63 - 1, -(2**63), 0], np.int64)
    check(hurray.from_numpy(x), x)
    u = np.array([2**64 - 1, 0], np.uint64)
    check(hurray.from_numpy(u), u)


def patterned(n: int, m: int, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float32]:
    """Return numbers of which exactly ``n`` of ``m`` in a row are not zero."""
    rng = np.random.default_rng(seed)
    x = np.zeros((math.prod(shape) // m, m), np.float32)
    for row in x:
        row[rng.choice(m, n, replace=False)] = rng.uniform(1, 2, n)
    return x.reshape(shape)


@pytest.mark.parametrize("layout", ["row_major", "tiled", "csr"])
@pytest.mark.parametrize(("n", "m"), [(1, 8), (1, 4), (3, 8), (1, 2), (2, 4), (4, 8)])
def test_patterns(n: int, m: int, layout: str) -> None:
    x = patterned(n, m, (6, 16))
    options: dict[str, Any] = {"tile_shape": [2, 8]} if layout == "tiled" else {}
    t = hurray.from_numpy(x).to_layout(layout, **options)
    found = hurray.compute_statistics(t, pattern=True)
    assert (found.nm_n, found.nm_m) == (n, m)
    assert hurray.compute_statistics(t).nm_m is None


def test_patterns_that_do_not_hold_everywhere() -> None:
    x = patterned(2, 4, (6, 16))
    x[5, 12:] = 1
    found = hurray.compute_statistics(hurray.from_numpy(x), pattern=True)
    assert (found.nm_n, found.nm_m) == (0, 0)
    # Rows of six hold no whole groups of four or eight.
    found = hurray.compute_statistics(hurray.from_numpy(patterned(1, 2, (4, 6))), pattern=True)
    assert (found.nm_n, found.nm_m) == (1, 2)
    found = hurray.compute_statistics(hurray.from_numpy(np.zeros((4, 5), np.float32)), pattern=True)
    assert (found.nm_n, found.nm_m) == (0, 0)


def test_a_pattern_must_hold_in_every_slab() -> None:
    x = patterned(2, 4, (3, 400_000))
    found = hurray.compute_statistics(hurray.from_numpy(x), pattern=True)
    assert (found.nm_n, found.nm_m) == (2, 4)
    x[2, -4:] = 1
    found = hurray.compute_statistics(hurray.from_numpy(x), pattern=True)
    assert (found.nm_n, found.nm_m) == (0, 0)


def test_saving_with_statistics() -> None:
    x = example()
    q = hurray.quantize(x, "int4_per_block", block_size=16)
    own = hurray.Statistics(nnz=7, sparsity_ratio=0.5)
    given_statistics = hurray.Tensor(x, hurray.float32, x.shape, statistics=own)
    target = io.BytesIO()
    hurray.save(target, {"x": x, "q": q, "given": given_statistics}, statistics=True)
    loaded = hurray.load(target)
    for name, values in (("x", x), ("q", q.dequantize().to_numpy())):
        t = loaded[name]
        assert isinstance(t, hurray.Tensor)
        assert t.statistics is not None
        assert t.statistics.value_max == values.max()
        assert t.statistics == hurray.compute_statistics(t)
    assert loaded["given"].statistics == own
