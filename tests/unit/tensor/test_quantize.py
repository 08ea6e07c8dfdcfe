"""``hurray.quantize`` for every recipe in every layout that the format allows, against a loop over elements."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import helpers
import hurray
from hurray.kernels.nf4 import LEVELS
from hurray.quantization import MXFP, NF4, RECIPES, PerBlockAffine, PerChannelAffine, PerTensorAffine
from hurray.quantization.mxfp import EMAX

Float32 = NDArray[np.float32]

BLOCK = 16
SMALL = {
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float4_e2m1": ml_dtypes.float4_e2m1fn,
    "float6_e2m3": ml_dtypes.float6_e2m3fn,
    "float6_e3m2": ml_dtypes.float6_e3m2fn,
}
#: layouts with their options, and whether code 0 must stand for 0
DENSE: dict[str, dict[str, Any]] = {
    "row_major": {},
    "col_major": {},
    "strided": {"strides": [1, 32]},
    "tiled": {"tile_shape": [8, 12]},
    "morton": {},
    "hilbert": {},
}
SPARSE = ["coo", "csr", "csc"]


def options_of(name: str, **more: Any) -> dict[str, Any]:
    """Return options with which a recipe fits small shapes."""
    given = {"block_size": BLOCK} if "block_size" in RECIPES[name].options else {}
    return given | more


def numbers(shape: tuple[int, ...], name: str, seed: int = 0) -> Float32:
    """Return numbers of several magnitudes; none is negative for symmetric unsigned codes."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * np.exp2(rng.integers(-4, 4, shape))).astype(np.float32)
    x.reshape(-1)[::7] = 0
    return x


# The formulas, element by element


def groups(shape: tuple[int, ...], scheme: Any, axis: int, block: int) -> Any:
    """Yield the index of each run of elements that share parameters."""
    if scheme is PerTensorAffine:
        yield (slice(None),) * len(shape)
    elif scheme is PerChannelAffine:
        for k in range(shape[axis]):
            yield tuple(k if d == axis else slice(None) for d in range(len(shape)))
    else:
        for place in np.ndindex(tuple(1 if d == axis else n for d, n in enumerate(shape))):
            for start in range(0, shape[axis], block):
                yield tuple(slice(start, start + block) if d == axis else k for d, k in enumerate(place))


def affine(x: Float32, dtype: Any, symmetric: bool, scale_type: Any) -> Float32:
    bits, signed = dtype.bit_width, dtype.is_signed
    least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    zero = 0
    if symmetric:
        scale = np.float32(max(-low, high)) / np.float32(greatest)
    else:
        highest = min(greatest, 2**31 - 1)
        scale = np.float32(max((high - low) / (greatest - least), -low / (highest - least)))
    scale = np.float32(scale_type(scale))
    if low == high:
        scale = np.float32(1)
    elif not symmetric:
        zero = min(max(round(least - low / float(scale)), least), min(greatest, 2**31 - 1))
    out = np.empty(x.shape, np.float32)
    for k, number in enumerate(x.reshape(-1)):
        q = min(max(round(float(number / scale)) + zero, least), greatest)
        out.reshape(-1)[k] = scale * np.float32(q - zero)
    return out


def nf4(x: Float32) -> Float32:
    scale = np.abs(x).max()
    out = np.zeros(x.shape, np.float32)
    for k, number in enumerate(x.reshape(-1)):
        if scale:
            away = [abs(float(number / scale) - float(level)) for level in LEVELS]
            best = min(range(16), key=lambda q: (away[q], q % 2))
            out.reshape(-1)[k] = scale * LEVELS[best]
    return out


def mx(x: Float32, dtype: Any) -> Float32:
    top = float(np.abs(x).max())
    shared = 1 if top == 0 else min(max(math.frexp(top)[1] - 1 - EMAX[dtype.name] + 127, 1), 254)
    scale = np.ldexp(np.float32(1), shared - 127)
    scaled = x / scale
    if dtype.is_integer:
        half = 1 << (dtype.bit_width - 1)
        return np.asarray(np.clip(np.rint(scaled), -half, half - 1) * scale, np.float32)
    small = SMALL[dtype.name]
    largest = float(ml_dtypes.finfo(small).max)
    return np.asarray(np.clip(scaled, -largest, largest).astype(small).astype(np.float32) * scale, np.float32)


def naive(x: Float32, name: str, **options: Any) -> Float32:
    """Quantize and dequantize group by group."""
    how = RECIPES[name]
    given = {**how.options, **options}
    axis = given.get("axis", 0) % max(1, x.ndim)
    out = np.empty(x.shape, np.float32)
    for place in groups(x.shape, how.scheme, axis, given.get("block_size", 0)):
        part = np.asarray(x[place])
        if how.scheme is NF4:
            out[place] = nf4(part)
        elif how.scheme is MXFP:
            out[place] = mx(part, how.dtype)
        else:
            scale_type = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
            kind = scale_type.get(getattr(given.get("scale_type"), "name", ""), np.float32)
            out[place] = affine(part, how.dtype, given["symmetric"], kind)
    return out


def same(got: Float32, want: Float32) -> None:
    """Assert equal numbers; the sign of a zero comes from a code, which has none."""
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


# Every recipe in every layout


@pytest.mark.parametrize("layout", DENSE)
@pytest.mark.parametrize("name", RECIPES)
def test_dense(name: str, layout: str) -> None:
    x = numbers((32, 32), name)
    t = hurray.from_numpy(x).to_layout(layout, **DENSE[layout])
    q = hurray.quantize(t, name, **options_of(name))
    assert q.layout.name == ("row_major" if layout == "strided" else layout)
    assert q.dtype == RECIPES[name].dtype
    assert isinstance(q.quantization, RECIPES[name].scheme)
    want = naive(x, name, **options_of(name))
    same(q.dequantize().to_numpy(), want)
    q.validate()
    # From row-major into the layout, and from the layout back.
    same(hurray.quantize(x, name, layout=t.layout, **options_of(name)).dequantize().to_numpy(), want)
    same(q.to_layout("row_major").dequantize().to_numpy(), want)


@pytest.mark.parametrize("layout", SPARSE)
@pytest.mark.parametrize("name", RECIPES)
def test_sparse(name: str, layout: str) -> None:
    x = numbers((32, 16), name)
    x[np.random.default_rng(1).random(x.shape) < 0.6] = 0
    t = hurray.from_numpy(x).to_layout(layout)
    q = hurray.quantize(t, name, **options_of(name))
    assert q.layout.name == layout
    want = naive(x, name, **options_of(name))
    want[x == 0] = 0
    same(q.dequantize().to_numpy(), want)
    same(q.dequantize((slice(3, 20, 2), slice(None, None, -1))).to_numpy(), want[3:20:2, ::-1])
    q.validate()


@pytest.mark.parametrize("name", RECIPES)
def test_csf(name: str) -> None:
    x = numbers((4, 3, 16), name)
    x[np.random.default_rng(1).random(x.shape) < 0.6] = 0
    q = hurray.quantize(hurray.from_numpy(x).to_layout("csf", mode_order=[2, 0, 1]), name, **options_of(name))
    want = naive(x, name, **options_of(name))
    want[x == 0] = 0
    same(q.dequantize().to_numpy(), want)


PAGED: dict[str, dict[str, Any]] = {
    "int8": {},
    "uint4": {},
    "int16": {},
    "int8_per_channel": {"axis": 1},
    "uint8_per_channel": {"axis": 2},
    "int8_per_block": {"axis": 0, "block_size": 4},
    "uint4_per_block": {"axis": 0, "block_size": 4},
}


@pytest.mark.parametrize("name", PAGED)
def test_block_paged(name: str) -> None:
    x = numbers((11, 3, 8), name)
    t = hurray.from_numpy(x).to_layout("block_paged", page_size=4)
    q = hurray.quantize(t, name, **PAGED[name])
    assert q.layout.name == "block_paged"
    if "per_block" in name:
        # Every token has parameters of its own.
        symmetric = RECIPES[name].options["symmetric"]
        want = np.stack([affine(token, RECIPES[name].dtype, symmetric, np.float32) for token in x])
    else:
        want = naive(x, name, **PAGED[name])
    same(q.dequantize().to_numpy(), want)
    same(q.dequantize((slice(2, 9, 3), 1)).to_numpy(), want[2:9:3, 1])
    out = np.empty_like(x)
    q.dequantize(out=out)
    same(out, want)
    scales, zeros = q.scales(), q.zero_points()
    expected = {"per_tensor": (), "per_channel": (3 if PAGED[name].get("axis") == 1 else 8,), "per_block": (12,)}
    kind = q.quantization.name.removesuffix("_affine")  # type: ignore[union-attr]
    assert scales.shape == expected[kind]
    assert zeros is None or zeros.shape == scales.shape


FORBIDDEN: list[tuple[str, str, tuple[int, ...], dict[str, Any], dict[str, Any]]] = [
    ("nf4", "block_paged", (8, 2, 16), {"page_size": 4}, {"axis": 0, "block_size": 8}),
    ("mxfp8_e4m3", "block_paged", (16, 2, 16), {"page_size": 16}, {"axis": 0, "block_size": 16}),
    ("int8_per_channel", "block_paged", (8, 2, 16), {"page_size": 4}, {"axis": 0}),
    ("int8_per_block", "block_paged", (8, 2, 16), {"page_size": 4}, {"axis": 2, "block_size": 4}),
    ("int8_per_block", "block_paged", (8, 2, 16), {"page_size": 4}, {"axis": 0, "block_size": 8}),
    ("int8_per_channel", "row_major", (), {}, {}),
    ("nf4", "row_major", (), {}, {}),
    ("int8_per_block", "row_major", (4, 8), {}, {"block_size": 16}),
    ("nf4", "tiled", (4, 32), {"tile_shape": [2, 2]}, {"block_size": 64}),
    ("mxfp4", "row_major", (4, 40), {}, {"block_size": 32}),
    ("mxfp4", "csr", (4, 24), {}, {"block_size": 16}),
    ("mxint8", "row_major", (4, 0), {}, {"block_size": 16}),
    ("int8_per_block", "row_major", (4, 48), {}, {"block_size": 24}),
    ("nf4", "row_major", (4, 48), {}, {"block_size": 4}),
    ("mxfp4", "row_major", (4, 48), {}, {"block_size": 8}),
    ("int8_per_channel", "coo", (4, 4), {}, {"axis": 2}),
]


@pytest.mark.parametrize(("name", "layout", "shape", "layout_options", "options"), FORBIDDEN)
def test_what_the_format_forbids(
    name: str, layout: str, shape: tuple[int, ...], layout_options: dict[str, Any], options: dict[str, Any]
) -> None:
    t = hurray.from_numpy(np.ones(shape, np.float32)).to_layout(layout, **layout_options)
    with pytest.raises(hurray.InvalidDescriptorError):
        hurray.quantize(t, name, **options)


@pytest.mark.parametrize("dtype", ["int16", "uint32"])
@pytest.mark.parametrize("scheme", [PerBlockAffine, NF4, MXFP])
def test_storage_types_that_a_scheme_has_not(scheme: Any, dtype: str) -> None:
    how = hurray.Recipe(scheme=scheme, dtype=getattr(hurray, dtype), options={"axis": 0, "block_size": 16})
    with pytest.raises(hurray.InvalidDescriptorError, match="cannot store"):
        hurray.quantize(np.ones(16, np.float32), how)


def test_moves_that_would_change_values() -> None:
    x = numbers((32, 32), "nf4")
    for name in ("nf4", "uint8", "uint4_per_block"):
        q = hurray.quantize(x, name, **options_of(name))
        with pytest.raises(hurray.UnsupportedError, match="code 0 is not the value 0"):
            q.to_layout("csr")
    with pytest.raises(hurray.UnsupportedError, match="block_paged"):
        hurray.quantize(numbers((8, 2, 16), "int8"), "int8").to_layout("block_paged", page_size=4)


@pytest.mark.parametrize("layout", ["row_major", "tiled", "csr", "block_paged"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["int8", "int4_per_channel", "uint8_per_block", "nf4", "mxfp8_e4m3", "mxint8"])
def test_numbers_that_cannot_be_quantized_are_named(name: str, bad: float, layout: str) -> None:
    if layout == "block_paged":
        x = np.ones((8, 2, 16), np.float32)
        x[5, 1, 3] = bad
        t = hurray.from_numpy(x).to_layout(layout, page_size=4)
        if name in ("nf4", "mxfp8_e4m3", "mxint8"):
            pytest.skip("the format forbids the pair")
        options: dict[str, Any] = {"axis": 1} if "channel" in name else {}
        options |= {"axis": 0, "block_size": 4} if "block" in name else {}
    else:
        x = np.ones((4, 32), np.float32)
        x[2, 5] = bad
        t = hurray.from_numpy(x).to_layout(layout, **({"tile_shape": [2, 8]} if layout == "tiled" else {}))
        options = options_of(name)
    place = "5, 1, 3" if layout == "block_paged" else "2, 5"
    with pytest.raises(hurray.InvalidDescriptorError, match=rf"element \[{place}\] is {bad}"):
        hurray.quantize(t, name, **options)


def test_numbers_of_other_types() -> None:
    x = np.arange(-16, 16).reshape(2, 16)
    want = hurray.quantize(x.astype(np.float32), "int8").dequantize().to_numpy()
    for dtype in (np.int8, np.int64, np.float16, np.float64, ml_dtypes.bfloat16, ">f4", ">i2"):
        same(hurray.quantize(x.astype(dtype), "int8").dequantize().to_numpy(), want)
    same(hurray.quantize(np.asfortranarray(x)[:, ::-1], "int8").dequantize().to_numpy(), want[:, ::-1])
    same(hurray.quantize(x > 0, "int8").dequantize().to_numpy(), (x > 0).astype(np.float32))
    with pytest.raises(hurray.UnsupportedError, match="complex"):
        hurray.quantize(x.astype(np.complex64), "int8")
    with pytest.raises(hurray.InvalidDescriptorError, match="negative"):
        hurray.quantize(np.array([-1.0]), "uint8", symmetric=True)


# Errors stay within what each scheme promises


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(RECIPES)))
def test_error_bounds(seed: int, name: str) -> None:
    x = numbers((8, 32), name, seed)
    q = hurray.quantize(x, name, **options_of(name))
    got = q.dequantize().to_numpy()
    how = RECIPES[name]
    axis = how.options.get("axis", 0) % 2
    for place in groups(x.shape, how.scheme, axis, BLOCK):
        part, back = x[place].astype(np.float64), got[place].astype(np.float64)
        top = np.abs(part).max()
        if how.scheme is NF4:
            # Half the widest gap between two levels.
            bound = np.full(part.shape, 0.1520 * top)
        elif how.scheme is MXFP:
            step = 2.0 ** math.floor(math.log2(top) - EMAX[how.dtype.name]) if top else 1.0
            if how.dtype.is_integer:
                bound = np.full(part.shape, step)
            else:
                info = ml_dtypes.finfo(SMALL[how.dtype.name])
                # Half a unit in the last place, or what saturation takes from the largest.
                bound = np.maximum(np.abs(part) * 2.0 ** -(info.nmant + 1), step * float(info.smallest_subnormal))
                bound = np.maximum(bound, np.abs(part) - step * float(info.max))
        else:
            span = top if how.options["symmetric"] else max(part.max(), 0) - min(part.min(), 0)
            n_steps = (1 << how.dtype.bit_width) - 1
            step = span / (n_steps // 2 if how.options["symmetric"] else n_steps)
            # The zero point is rounded too, which costs up to a step at the ends.
            bound = np.full(part.shape, step * (0.5 if how.options["symmetric"] else 1))
        assert (np.abs(part - back) <= bound * (1 + 1e-5) + 1e-6 * top).all()


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(RECIPES)))
def test_quantizing_again_is_stable(seed: int, name: str) -> None:
    x = numbers((4, 32), name, seed)
    once = hurray.quantize(x, name, **options_of(name))
    values = once.dequantize().to_numpy()
    again = hurray.quantize(values, name, **options_of(name)).dequantize().to_numpy()
    if RECIPES[name].scheme is NF4 or (RECIPES[name].scheme is MXFP and not RECIPES[name].dtype.is_integer):
        same(again, values)
        return
    if RECIPES[name].scheme is MXFP:
        # The least integer has a power of two more than any other, with which the next scale is twice as large.
        top = np.repeat(np.abs(values).reshape(4, -1, BLOCK).max(axis=2), BLOCK, axis=1)
        assert (np.abs(again - values) <= top * 2.0 ** (2 - RECIPES[name].dtype.bit_width)).all()
        return
    # A scale that is computed anew from the largest value may differ in its last bit.
    np.testing.assert_allclose(again, values, rtol=1e-5, atol=1e-6 * float(np.abs(x).max()))


def test_requantizing_between_schemes() -> None:
    x = numbers((16, 32), "int8")
    for before in ("int8_per_channel", "nf4", "mxfp8_e4m3", "uint4_per_block"):
        q = hurray.quantize(x, before, **options_of(before))
        real = q.dequantize().to_numpy()
        for after in ("int8", "int4_per_block", "mxfp4", "nf4"):
            again = hurray.quantize(q, after, **options_of(after))
            same(again.dequantize().to_numpy(), naive(real, after, **options_of(after)))
    sparse = hurray.from_numpy(np.where(x > 0.5, x, 0)).to_layout("csr")
    q = hurray.quantize(sparse, "int8_per_channel")
    for after in ("int8", "int4_per_block"):
        again = hurray.quantize(q, after, **options_of(after))
        dense = q.dequantize().to_numpy()
        want = naive(dense, after, **options_of(after))
        same(again.dequantize().to_numpy(), np.where(x > 0.5, want, 0))


def test_quantization_error() -> None:
    x = numbers((16, 32), "int8")
    q = hurray.quantize(x, "int4_per_block", block_size=BLOCK)
    away = x.astype(np.float64) - q.dequantize().to_numpy()
    found = hurray.quantization_error(x, q)
    assert found.max_error == np.abs(away).max()
    assert found.rms_error == pytest.approx(math.sqrt((away**2).mean()), rel=1e-12)
    assert found.snr_db == pytest.approx(10 * math.log10((x.astype(np.float64) ** 2).sum() / (away**2).sum()))
    exact = hurray.quantize(np.array([0.0, 1, -127]), "int8")
    assert hurray.quantization_error(np.array([0.0, 1, -127]), exact) == hurray.QuantizationError(0, 0, math.inf)
    empty = hurray.quantize(np.zeros((0, 4), np.float32), "int8")
    assert hurray.quantization_error(np.zeros((0, 4), np.float32), empty).max_error == 0
    with pytest.raises(hurray.InvalidDescriptorError, match="shapes differ"):
        hurray.quantization_error(x[:3], q)
    with pytest.raises(hurray.UnsupportedError, match="not a quantized"):
        hurray.quantization_error(x, hurray.from_numpy(x))


# Parts of a quantized tensor


@pytest.mark.parametrize("layout", ["row_major", "tiled", "csr"])
@pytest.mark.parametrize(
    "name", ["int8", "uint8_per_channel", "int4_per_block", "uint4_per_block", "nf4", "mxfp6_e3m2"]
)
def test_parts_give_the_values(name: str, layout: str) -> None:
    x = numbers((4, 32), name)
    t = hurray.from_numpy(x).to_layout(layout, **({"tile_shape": [2, 8]} if layout == "tiled" else {}))
    q = hurray.quantize(t, name, **options_of(name))
    codes, scales, zeros = q.storage(), q.scales(), q.zero_points()
    assert codes.quantization is None
    assert codes.layout == q.layout
    shape = {"int8": (), "uint8_per_channel": (4,)}.get(name, (4, 2))
    assert scales.shape == shape
    stored = codes.to_numpy()
    factor = scales.to_numpy().astype(np.float32)
    if name == "uint8_per_channel":
        factor = factor[:, None]
    elif shape:
        factor = np.repeat(factor, BLOCK, 1)
    values = LEVELS[stored.astype(np.uint8)] if name == "nf4" else stored.astype(np.float32)
    if zeros is not None:
        assert zeros.dtype == hurray.int32
        assert zeros.shape == shape
        offset = zeros.to_numpy()
        values = values - (offset[:, None] if offset.ndim == 1 else np.repeat(offset, BLOCK, 1) if shape else offset)
    else:
        assert name in ("int4_per_block", "nf4", "mxfp6_e3m2")
    want = values * factor
    if layout == "csr":
        want = np.where(x != 0, want, 0)
    same(q.dequantize().to_numpy(), want.astype(np.float32))


def test_unquantized_tensors_have_no_parts() -> None:
    t = hurray.from_numpy(np.ones(3, np.float32))
    assert t.storage() is t
    for get in (t.scales, t.zero_points, t.dequantize):
        with pytest.raises(hurray.UnsupportedError):
            get()


def test_one_buffer_of_scales_and_zero_points() -> None:
    codes = np.array([[1, 2], [3, 4]], np.uint8)
    both = np.concatenate([np.array([0.5, 2], np.float32).view(np.uint8), np.array([1, 3], np.int32).view(np.uint8)])
    t = hurray.Tensor(
        codes, hurray.uint8, [2, 2], aux_buffers=[both], quantization=PerChannelAffine.asymmetric(0, 1, 1)
    )
    assert t.scales().to_numpy().tolist() == [0.5, 2]
    zeros = t.zero_points()
    assert zeros is not None
    assert zeros.to_numpy().tolist() == [1, 3]
    assert t.dequantize().to_numpy().tolist() == [[0, 0.5], [0, 2]]


# Regions, types and places of the values

KEYS: list[Any] = [
    (),
    ...,
    3,
    (slice(5, 29), slice(3, 31)),
    (slice(None, None, -3), slice(30, 1, -2)),
    ([1, 1, 7], slice(None)),
    (slice(None), [31, 0, 5]),
    (np.array([1, 2]), np.array([3, 30])),
    (5, 7),
    (slice(4, 4), slice(None)),
    None,
]


@pytest.mark.parametrize("layout", [*DENSE, *SPARSE])
@pytest.mark.parametrize("name", ["int8", "int4_per_channel", "uint4_per_block", "nf4", "mxfp6_e2m3", "mxfp8_e5m2"])
def test_regions(name: str, layout: str) -> None:
    x = numbers((32, 32), name)
    if layout in SPARSE:
        t = hurray.from_numpy(x).to_layout(layout)
        q = hurray.quantize(t, name, **options_of(name))
    else:
        q = hurray.quantize(x, name, **options_of(name)).to_layout(layout, **DENSE[layout])
    whole = q.dequantize().to_numpy()
    for key in KEYS:
        want = whole if key is None else whole[key]
        helpers.assert_same_bits(q.dequantize(key).to_numpy(), np.asarray(want))


@pytest.mark.parametrize("layout", [*DENSE, *SPARSE])
@pytest.mark.parametrize("name", ["int8", "int4_per_block", "mxfp4"])
def test_types_and_places(name: str, layout: str) -> None:
    x = numbers((32, 32), name)
    base = hurray.from_numpy(x).to_layout(layout, **DENSE.get(layout, {}))
    q = hurray.quantize(base, name, **options_of(name))
    whole = q.dequantize().to_numpy()
    types = {hurray.float16: np.float16, hurray.bfloat16: ml_dtypes.bfloat16, hurray.float64: np.float64}
    for dtype, numpy_type in types.items():
        got = q.dequantize(dtype=dtype)
        assert got.dtype == dtype
        helpers.assert_same_bits(got.to_numpy(), whole.astype(numpy_type))
        place = np.empty(x.shape, numpy_type)
        q.dequantize(dtype=dtype, out=place)
        helpers.assert_same_bits(place, whole.astype(numpy_type))
    for out in (
        np.empty((32, 32), np.float32),
        np.empty((32, 32), np.float32).T,
        np.empty((32, 64), np.float32)[:, ::2],
    ):
        q.dequantize(out=out)
        helpers.assert_same_bits(np.ascontiguousarray(out), whole)
    part = np.empty((5, 32), np.float32)
    q.dequantize(slice(2, 7), out=part)
    helpers.assert_same_bits(part, whole[2:7])
    with pytest.raises(hurray.BufferError):
        q.dequantize(out=np.empty((32, 31), np.float32))
    with pytest.raises(hurray.InvalidDescriptorError, match="dequantize gives"):
        q.dequantize(dtype=hurray.int8)


def test_a_float16_that_is_too_small_becomes_infinite() -> None:
    q = hurray.quantize(np.array([1e9, -1e9, 1.0]), "int8")
    assert q.dequantize(dtype=hurray.float16).to_numpy().tolist() == [np.inf, -np.inf, 0]


# Large tensors are worked through in slabs


BIG = (256, 48, 192)
#: what tables, index conversions and chunks take whatever the size
FIXED = 5 << 20


@pytest.mark.parametrize(
    ("layout", "options"),
    [
        ("row_major", {}),
        ("col_major", {}),
        ("strided", {"strides": [1, 256 * 192, 256]}),
        ("tiled", {"tile_shape": [16, 16, 16]}),
        ("tiled", {"tile_shape": [16, 16, 16], "outer_layout": "col_major"}),
        ("morton", {}),
    ],
)
@pytest.mark.parametrize(
    ("name", "axis"), [("int8", None), ("int4_per_block", 2), ("nf4", 0), ("mxfp6_e2m3", 2), ("uint8_per_channel", 1)]
)
def test_slabs(name: str, axis: int | None, layout: str, options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).standard_normal(BIG).astype(np.float32)
    given: dict[str, Any] = {} if axis is None else {"axis": axis}
    q = hurray.quantize(x, name, **given)
    want = q.dequantize().to_numpy()
    t = q.to_layout(layout, **options)
    tracemalloc.start()
    try:
        got = t.dequantize().to_numpy()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    helpers.assert_same_bits(got, want)
    assert peak < 1.2 * got.nbytes + FIXED
    key = (slice(3, 250), slice(None, None, -1), np.arange(150))
    helpers.assert_same_bits(t.dequantize(key).to_numpy(), want[key])


@pytest.mark.parametrize("layout", ["hilbert", "coo", "csr", "csc"])
@pytest.mark.parametrize("name", ["int8", "int4_per_block", "mxfp8_e4m3"])
def test_slabs_of_two_dimensions(name: str, layout: str) -> None:
    x = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    if layout == "hilbert":
        t = hurray.quantize(x, name).to_layout(layout)
        want = hurray.quantize(x, name).dequantize().to_numpy()
    else:
        x[x < 0.5] = 0
        t = hurray.quantize(hurray.from_numpy(x).to_layout(layout), name)
        want = np.where(x != 0, hurray.quantize(x, name).dequantize().to_numpy(), 0).astype(np.float32)
    tracemalloc.start()
    try:
        got = t.dequantize().to_numpy()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(got, want)
    assert peak < 1.2 * got.nbytes + FIXED
    np.testing.assert_array_equal(t.dequantize((slice(1, 900), slice(None))).to_numpy(), want[1:900])


def test_slabs_of_paged_tokens() -> None:
    x = np.random.default_rng(0).standard_normal((4096, 4, 64)).astype(np.float32)
    t = hurray.quantize(
        hurray.from_numpy(x).to_layout("block_paged", page_size=16), "int8_per_block", axis=0, block_size=16
    )
    tracemalloc.start()
    try:
        got = t.dequantize().to_numpy()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    want = hurray.quantize(x.reshape(4096, 256), "int8_per_block", block_size=256).dequantize().to_numpy()
    np.testing.assert_array_equal(got, want.reshape(x.shape))
    assert peak < 1.2 * got.nbytes + FIXED
