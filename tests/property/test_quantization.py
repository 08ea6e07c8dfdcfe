"""Quantization kernels against loops written element by element from the format's formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hurray.kernels import affine, lookup, minifloat, mx, nf4, scaling
from hurray.kernels import bits as bit_kernels

Array = NDArray[Any]
INTEGERS = [(n_bits, signed) for n_bits in (2, 4, 8, 16, 32) for signed in (True, False)]
ML_NAMES = {
    "float8_e4m3": ("float8_e4m3fn", 8, 8),
    "float8_e5m2": ("float8_e5m2", 8, 15),
    "float4_e2m1": ("float4_e2m1fn", 4, 2),
    "float6_e2m3": ("float6_e2m3fn", 6, 2),
    "float6_e3m2": ("float6_e3m2fn", 6, 4),
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks so small that the tests' arrays are cut in every way."""
    monkeypatch.setattr(scaling, "CHUNK_ELEMS", 7)
    monkeypatch.setattr(scaling, "_THREADED_CHUNK_ELEMS", 5)


def values_of(name: str) -> NDArray[np.float32]:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype, n_bits, _ = ML_NAMES[name]
    table: NDArray[np.float32] = np.arange(1 << n_bits, dtype=np.uint8).view(getattr(ml_dtypes, dtype)).astype("f4")
    return table


def integer(code: int, n_bits: int, signed: bool) -> int:
    code &= (1 << n_bits) - 1
    return code - (1 << n_bits) if signed and code >> (n_bits - 1) else code


def param_index(index: tuple[int, ...], shape: tuple[int, ...], axis: int | None, block: int | None) -> int:
    """Return where an element's parameter is in the wire order of the parameter buffer."""
    if axis is None:
        return 0
    if block is None:
        return index[axis]
    outer = 0
    for k, n in enumerate(shape):
        if k != axis:
            outer = outer * n + index[k]
    return outer * -(-shape[axis] // block) + index[axis] // block


def broadcast_form(flat: Array, shape: tuple[int, ...], axis: int | None, block: int | None) -> Array:
    if axis is None:
        return flat.reshape((1,) * len(shape))
    if block is None:
        return scaling.channel_params(flat, len(shape), axis)
    return scaling.block_params(flat, shape, axis, block)


@st.composite
def problems(draw: st.DrawFn, *, blocks_only: bool = False) -> tuple[tuple[int, ...], int | None, int | None]:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    kind = "block" if blocks_only else draw(st.sampled_from(["tensor", "channel", "block"]))
    if kind == "tensor":
        return shape, None, None
    axis = draw(st.integers(0, len(shape) - 1))
    return shape, axis, draw(st.sampled_from([2, 4, 8] if blocks_only else [1, 2, 4, 8])) if kind == "block" else None


def n_params(shape: tuple[int, ...], axis: int | None, block: int | None) -> int:
    if axis is None:
        return 1
    if block is None:
        return shape[axis]
    return int(np.prod(shape)) // shape[axis] * -(-shape[axis] // block)


def same_bits(a: Array, b: Array) -> None:
    assert a.dtype == b.dtype == np.float32
    assert np.array_equal(a.view(np.uint32), b.view(np.uint32)), (a, b)


def scales(rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    return (rng.normal(size=n) * 10.0 ** rng.integers(-38, 30, n)).astype(np.float32)


@given(problems(), st.sampled_from(INTEGERS), st.booleans(), st.sampled_from([1, 2]), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_dequantize_affine(
    problem: tuple[tuple[int, ...], int | None, int | None],
    kind: tuple[int, bool],
    symmetric: bool,
    workers: int,
    seed: int,
) -> None:
    shape, axis, block = problem
    n_bits, signed = kind
    rng = np.random.default_rng(seed)
    dtype = affine.storage_dtype(n_bits, signed)
    codes = rng.integers(0, 1 << n_bits, shape).astype(f"u{dtype.itemsize}").view(dtype)
    codes = np.asfortranarray(codes) if seed % 2 else codes
    n = n_params(shape, axis, block)
    scale = scales(rng, n)
    least, greatest = affine.code_range(n_bits, signed)
    zero = rng.integers(least, min(greatest, 2**31 - 1), n, endpoint=True).astype(np.int32)
    expected = np.empty(shape, np.float32)
    with np.errstate(all="ignore"):
        for index in itertools.product(*map(range, shape)):
            p = param_index(index, shape, axis, block)
            difference = integer(int(codes[index]), n_bits, signed) - (0 if symmetric else int(zero[p]))
            expected[index] = scale[p] * np.int64(difference).astype(np.float32)
    got = affine.dequantize_affine(
        codes,
        n_bits,
        signed,
        broadcast_form(scale, shape, axis, block),
        None if symmetric else broadcast_form(zero, shape, axis, block),
        axis=axis or 0,
        block_size=block or 1,
        workers=workers,
    )
    same_bits(got, expected)


@given(
    problems(), st.sampled_from([2, 4, 8]), st.booleans(), st.booleans(), st.sampled_from([1, 2]), st.integers(0, 2**32)
)
@settings(max_examples=60, deadline=None)
def test_dequantize_packed(
    problem: tuple[tuple[int, ...], int | None, int | None],
    n_bits: int,
    symmetric: bool,
    wide: bool,
    workers: int,
    seed: int,
) -> None:
    shape, axis, block = problem
    shape = (*shape[:-1], shape[-1] * (8 // n_bits))
    if axis == len(shape) - 1 and (block is None or block % (8 // n_bits)):
        axis, block = None, None
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 1 << n_bits, shape).astype(np.uint8)
    packed = bit_kernels.pack(codes, n_bits) if n_bits < 8 else codes.reshape(-1)
    table = rng.normal(size=1 << n_bits).astype(np.float32)
    n = n_params(shape, axis, block)
    scale, zero = scales(rng, n), rng.integers(-8, 8, n).astype(np.float32)
    expected = np.empty(shape, np.float32)
    with np.errstate(all="ignore"):
        for index in itertools.product(*map(range, shape)):
            p = param_index(index, shape, axis, block)
            value = table[codes[index]]
            expected[index] = scale[p] * (value if symmetric else value - zero[p])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_WIDE_ELEMS", 0 if wide else 1 << 30)
        got = lookup.dequantize_packed(
            packed,
            n_bits,
            table,
            broadcast_form(scale, shape, axis, block),
            None if symmetric or n_bits == 8 else broadcast_form(zero, shape, axis, block),
            shape=shape,
            axis=axis or 0,
            block_size=block or 1,
            workers=workers,
        )
    if n_bits == 8 and not symmetric:
        return
    same_bits(got, expected)


@given(problems(blocks_only=True), st.sampled_from([1, 2]), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_dequantize_packed_six(
    problem: tuple[tuple[int, ...], int | None, int | None], workers: int, seed: int
) -> None:
    shape, axis, block = problem
    shape = (*shape[:-1], shape[-1] * 4)
    assert axis is not None
    block = 8 if axis == len(shape) - 1 else block
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 64, shape).astype(np.uint8)
    table = rng.normal(size=64).astype(np.float32)
    scale = scales(rng, n_params(shape, axis, block))
    expected = np.empty(shape, np.float32)
    with np.errstate(all="ignore"):
        for index in itertools.product(*map(range, shape)):
            expected[index] = scale[param_index(index, shape, axis, block)] * table[codes[index]]
    got = lookup.dequantize_packed_six(
        bit_kernels.pack(codes, 6),
        table,
        broadcast_form(scale, shape, axis, block),
        shape=shape,
        axis=axis,
        block_size=block or 1,
        workers=workers,
    )
    same_bits(got, expected)


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = (rng.normal(size=shape) * 10.0 ** float(rng.integers(-20, 20))).astype(np.float32)
    x[rng.random(shape) < 0.2] = 0
    return np.asfortranarray(x) if rng.random() < 0.5 else x


@given(
    problems(),
    st.sampled_from(INTEGERS),
    st.booleans(),
    st.sampled_from(["float16", "bfloat16", "float32"]),
    st.sampled_from([1, 2]),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_quantize_affine(
    problem: tuple[tuple[int, ...], int | None, int | None],
    kind: tuple[int, bool],
    symmetric: bool,
    scale_type: Any,
    workers: int,
    seed: int,
) -> None:
    shape, axis, block = problem
    n_bits, signed = kind
    rng = np.random.default_rng(seed)
    x = numbers(rng, shape)
    if symmetric and not signed:
        x = np.abs(x)
    if scale_type == "float16":
        x = np.clip(x, -60000, 60000)
    got = affine.quantize_affine(
        x, n_bits, signed, axis=axis, block_size=block, symmetric=symmetric, scale_type=scale_type, workers=workers
    )
    least, greatest = affine.code_range(n_bits, signed)
    groups: dict[int, list[tuple[int, ...]]] = {}
    for index in itertools.product(*map(range, shape)):
        groups.setdefault(param_index(index, shape, axis, block), []).append(index)
    wide_scale = np.broadcast_to(_spread(got.scale, shape, axis, block), shape)
    for members in groups.values():
        block_values = np.array([x[i] for i in members], np.float64)
        s = np.float32(wide_scale[members[0]])
        assert np.isfinite(s)
        assert s > 0
        zero = 0
        if got.zero_point is not None:
            zero = int(np.broadcast_to(_spread(got.zero_point, shape, axis, block), shape)[members[0]])
        assert least <= zero <= greatest
        if not block_values.any():
            assert s == 1
        elif symmetric and scale_type == "float32":
            exact = np.float32(np.float32(np.abs(block_values).max()) / np.float32(greatest))
            assert s == max(exact, np.float32(2.0**-149))
        for i in members:
            q = integer(int(got.codes[i]), n_bits, signed)
            exact_q = float(np.rint(np.float32(x[i]) / s)) + zero
            assert q == int(min(max(exact_q, least), greatest))
            if x[i] == 0:
                assert q == zero
            if scale_type == "float32" and n_bits <= 16 and s > 1e-30:
                assert abs(float(s) * (q - zero) - float(x[i])) <= float(s) * (0.5001 if symmetric else 1.0001)


def _spread(p: Array, shape: tuple[int, ...], axis: int | None, block: int | None) -> Array:
    if block is None or axis is None:
        return p
    return np.repeat(p, block, axis=axis)[tuple(slice(0, n) for n in shape)]


@given(problems(blocks_only=True), st.sampled_from([1, 2]), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_quantize_nf4(problem: tuple[tuple[int, ...], int | None, int | None], workers: int, seed: int) -> None:
    shape, axis, block = problem
    assert axis is not None
    assert block is not None
    x = numbers(np.random.default_rng(seed), shape)
    codes, scale = nf4.quantize_nf4(x, axis, block, workers=workers)
    spread = np.broadcast_to(_spread(scale, shape, axis, block), shape)
    levels = nf4.LEVELS.astype(np.float64)
    for index in itertools.product(*map(range, shape)):
        s = spread[index]
        y = float(np.float32(x[index]) / s) if s else 0.0
        distance = np.abs(levels - y)
        assert distance[codes[index]] == distance.min()
    for start in range(0, shape[axis], block):
        part = np.take(np.abs(x), range(start, min(start + block, shape[axis])), axis=axis).max(axis=axis)
        assert np.array_equal(np.take(scale, start // block, axis=axis), part)


def test_nf4_ties_and_levels() -> None:
    assert np.array_equal(nf4.nearest_levels(nf4.LEVELS), np.arange(16))
    wide = nf4.LEVELS.astype(np.float64)
    for k in range(15):
        middle = (wide[k] + wide[k + 1]) / 2
        near = np.float32(middle)
        for y in (np.nextafter(near, np.float32(-2)), near, np.nextafter(near, np.float32(2))):
            expected = k if float(y) < middle or (float(y) == middle and k % 2 == 0) else k + 1
            assert nf4.nearest_levels(np.array([y]))[0] == expected


@pytest.mark.parametrize("name", sorted(ML_NAMES))
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200))
@settings(max_examples=40, deadline=None)
def test_encode_small_float(name: str, patterns: list[int]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    table = values_of(name)
    x = np.array(patterns, np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    finite = table[np.isfinite(table)]
    extra = np.concatenate([finite, (finite[:-1] + finite[1:]) / 2, finite * np.float32(1.0000001)]).astype(np.float32)
    x = np.concatenate([x, extra, (x * np.float32(2.0**-60)), np.array([0.0, -0.0], np.float32)])
    codes = minifloat.encode(x, name)
    limit = finite.max()
    oracle = np.clip(x, -limit, limit).astype(getattr(ml_dtypes, ML_NAMES[name][0])).view(np.uint8)
    assert np.array_equal(codes, oracle)


@pytest.mark.parametrize("name", sorted(ML_NAMES))
@given(st.integers(0, 1), st.sampled_from([2, 16]), st.sampled_from([1, 2]), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_quantize_mx_float(name: str, axis: int, block: int, workers: int, seed: int) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    table, emax = values_of(name), ML_NAMES[name][2]
    rng = np.random.default_rng(seed)
    shape = (2 * block, 3) if axis == 0 else (3, 2 * block)
    x = (rng.normal(size=shape) * 2.0 ** float(rng.integers(-140, 125))).astype(np.float32)
    x[rng.random(shape) < 0.3] = 0
    codes, shared = mx.quantize_mx_float(x, name, emax, axis, block, workers=workers)
    limit = table[np.isfinite(table)].max()
    for outer in range(3):
        for b in range(2):
            run = slice(b * block, (b + 1) * block)
            part = x[run, outer] if axis == 0 else x[outer, run]
            got = codes[run, outer] if axis == 0 else codes[outer, run]
            e = int(shared[b, outer] if axis == 0 else shared[outer, b])
            top = float(np.abs(part).max())
            assert e == (min(max(int(np.floor(np.log2(top))) - emax + 127, 1), 254) if top else 1)
            scaled = np.clip(part.astype(np.float64) / 2.0 ** (e - 127), -limit, limit)
            oracle = scaled.astype(np.float32).astype(getattr(ml_dtypes, ML_NAMES[name][0])).view(np.uint8)
            assert np.array_equal(got, oracle)


@given(st.sampled_from([(8, 6), (4, 2)]), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_quantize_mx_int(kind: tuple[int, int], seed: int) -> None:
    n_bits, emax = kind
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(3, 32)) * 2.0 ** float(rng.integers(-120, 120))).astype(np.float32)
    x[0, :16] = 0
    codes, shared = mx.quantize_mx_int(x, n_bits, emax, 1, 16)
    limit = 1 << (n_bits - 1)
    for r in range(3):
        for c in range(32):
            e = int(shared[r, c // 16])
            top = float(np.abs(x[r, c // 16 * 16 : c // 16 * 16 + 16]).max())
            assert e == (int(np.floor(np.log2(top))) - emax + 127 if top else 1)
            q = int(np.clip(np.rint(float(x[r, c]) / 2.0 ** (e - 127)), -limit, limit - 1))
            assert integer(int(codes[r, c]), n_bits, True) == q
