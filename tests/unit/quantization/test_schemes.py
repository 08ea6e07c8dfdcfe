"""The schemes: payloads, rules, and values by every path."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hurray.dtypes.table import ALL_DTYPES, BY_NAME, Dtype
from hurray.errors import BufferError, HurrayError, InvalidDescriptorError
from hurray.kernels import bits as bit_kernels
from hurray.layouts import RowMajorLayout, full_region
from hurray.layouts._region import index_view
from hurray.quantization import (
    MXFP,
    NF4,
    RECIPES,
    SCHEMES,
    Params,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    SchemeContext,
    UnknownScheme,
    decode_quantization,
    parse_payload,
)
from hurray.wire.reader import Reader

BF16 = BY_NAME["bfloat16"]
PAYLOADS = {
    "010100000000c03f0300000000000000": PerTensorAffine(1.5, 3),
    "020101000000000003000000ffffffff03000000": PerChannelAffine.symmetric(0, 3),
    "0201000000000000030000000400000003000000": PerChannelAffine.asymmetric(0, 3, 4),
    "03010100000000000400000003000000ffffffff03000000": PerBlockAffine.symmetric(0, 4, 3),
    "030100000000000004000000030000000300000002000000": PerBlockAffine.asymmetric(0, 4, 3, 3, BF16),
    "04010000000000004000000003000000": NF4(0, 64, 3),
    "05010000000000002000000003000000": MXFP(0, 32, 3),
}
REPRS = [
    "PerTensorAffine(scale=1.5, zero_point=3)",
    "PerChannelAffine.symmetric(axis=0, scale_buffer_index=3)",
    "PerChannelAffine.asymmetric(axis=0, scale_buffer_index=3, zero_point_buffer_index=4)",
    "PerBlockAffine.symmetric(axis=0, block_size=4, scale_buffer_index=3, scale_type=hurray.float32)",
    (
        "PerBlockAffine.asymmetric(axis=0, block_size=4, scale_buffer_index=3, zero_point_buffer_index=3, "
        "scale_type=hurray.bfloat16)"
    ),
    "NF4(axis=0, block_size=64, scale_buffer_index=3)",
    "MXFP(axis=0, block_size=32, scale_buffer_index=3)",
]


@pytest.mark.parametrize(("raw", "scheme", "shown"), [(*p, r) for p, r in zip(PAYLOADS.items(), REPRS, strict=True)])
def test_payloads(raw: str, scheme: Any, shown: str) -> None:
    data = bytes.fromhex(raw)
    assert scheme.encode() == data
    assert len(data) == scheme.payload_bytes
    decoded = decode_quantization(data)
    assert decoded == scheme
    assert hash(decoded) == hash(scheme)
    assert repr(scheme) == shown
    assert SCHEMES[scheme.tag] is type(scheme)
    assert pickle.loads(pickle.dumps(scheme)) == copy.deepcopy(scheme) == scheme
    with pytest.raises((AttributeError, TypeError)):
        setattr(scheme, "trailing", b"x")  # noqa: B010
    # A later minor version may append bytes: they are kept.
    longer = decode_quantization(memoryview(data + b"later"))
    assert longer.trailing == b"later"
    assert longer.encode() == data + b"later"
    assert longer != scheme
    for n in range(len(data)):
        with pytest.raises(InvalidDescriptorError):
            decode_quantization(data[:n])


def test_permissive_keeps_unknown_schemes() -> None:
    for raw in (b"\x60\x01\x00\x00rest", b"\xf0\x07\x01\x80", b"\x01\x02\x00\x00" + bytes(12)):
        with pytest.raises(InvalidDescriptorError):
            decode_quantization(raw)
        kept = parse_payload(Reader(raw), permissive=True)
        assert isinstance(kept, UnknownScheme)
        assert kept.encode() == raw
    for raw in (b"\x00\x01\x00\x00", b"\xff\x01\x00\x00", b"\x01"):
        with pytest.raises(InvalidDescriptorError):
            parse_payload(Reader(raw), permissive=True)


@given(st.binary(max_size=30), st.sampled_from([1, 2, 3, 4, 5, 6]))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_a_scheme_or_an_error(tail: bytes, tag: int) -> None:
    for data in (tail, bytes((tag, 1, tail[0] & 1 if tail else 0, 0)) + tail[1:]):
        try:
            scheme = decode_quantization(data)
        except HurrayError:
            continue
        assert scheme.encode() == data


def test_arguments() -> None:
    assert PerTensorAffine(0.1, 0).scale == float(np.float32(0.1))
    from_numpy: Any = (np.float32(2), np.int8(3))
    assert PerTensorAffine(*from_numpy).zero_point == 3
    for call in (
        lambda: PerTensorAffine(0.0, 0),
        lambda: PerTensorAffine(-0.0, 0),
        lambda: PerTensorAffine(float("nan"), 0),
        lambda: PerTensorAffine(1e300, 0),
        lambda: PerTensorAffine(1e-60, 0),
        lambda: PerTensorAffine(1.0, 2**31),
        lambda: PerChannelAffine.symmetric(-1, 1),
        lambda: PerChannelAffine.symmetric(0, 0xFFFFFFFF),
        lambda: PerChannelAffine.asymmetric(0, 1, 0xFFFFFFFF),
        lambda: PerBlockAffine.symmetric(0, 3, 1),
        lambda: PerBlockAffine.symmetric(0, 1, 1),
        lambda: PerBlockAffine.symmetric(0, 4, 1, BY_NAME["float64"]),
        lambda: NF4(0, 4, 1),
        lambda: NF4(0, 12, 1),
        lambda: MXFP(0, 8, 1),
        lambda: MXFP(0, 4096, 1),
    ):
        with pytest.raises(InvalidDescriptorError):
            call()
    for wrong in (
        lambda: PerTensorAffine("1", 0),  # type: ignore[arg-type]
        lambda: PerTensorAffine(1.0, 0.5),  # type: ignore[arg-type]
        lambda: PerBlockAffine.symmetric(0, 4, 1, "float32"),  # type: ignore[arg-type]
        lambda: PerChannelAffine(0, 1),  # type: ignore[call-arg]
        lambda: NF4(0, True, 1),
    ):
        with pytest.raises(TypeError):
            wrong()


ALLOWED = {
    "per_tensor_affine": "int8 uint8 int16 uint16 int32 uint32 int4 uint4 int2 uint2",
    "per_channel_affine": "int8 uint8 int16 uint16 int32 uint32 int4 uint4 int2 uint2",
    "per_block_affine": "int8 uint8 int4 uint4 int2 uint2",
    "nf4": "uint4",
    "mxfp": "float8_e4m3 float8_e5m2 float4_e2m1 float6_e2m3 float6_e3m2 int8 int4",
}


def context(dtype: str = "int8", shape: tuple[int | None, ...] = (32, 64), **changes: Any) -> SchemeContext:
    parts = {"layout": RowMajorLayout(), "layout_buffers": 1, "buffer_count": 3, **changes}
    return SchemeContext(dtype=BY_NAME[dtype], shape=shape, **parts)


def test_storage_types() -> None:
    schemes = (
        PerTensorAffine(1, 0),
        PerChannelAffine.symmetric(0, 1),
        PerBlockAffine.symmetric(0, 2, 1),
        NF4(0, 8, 1),
        MXFP(0, 16, 1),
    )
    for scheme in schemes:
        for dtype in ALL_DTYPES:
            if dtype.name in ALLOWED[scheme.name].split():
                scheme.check(context(dtype.name))
            else:
                with pytest.raises(InvalidDescriptorError, match=dtype.name):
                    scheme.check(context(dtype.name))


def test_rules_of_axis_block_and_indices() -> None:
    PerBlockAffine.symmetric(1, 64, 1).check(context())
    PerBlockAffine.symmetric(0, 64, 1).check(context(shape=(0, 64)))
    PerBlockAffine.symmetric(0, 8, 1).check(context(shape=(12, 64)))
    PerChannelAffine.symmetric(1, 1).check(context(shape=(None, 64), buffer_count=None))
    NF4(0, 8, 2).check(context("uint4"))
    for scheme, where in (
        (PerBlockAffine.symmetric(0, 64, 1), context()),
        (PerBlockAffine.symmetric(2, 2, 1), context()),
        (PerChannelAffine.symmetric(0, 1), context(shape=())),
        (PerChannelAffine.symmetric(0, 1), context(shape=(None, 64))),
        (PerChannelAffine.symmetric(0, 0), context()),
        (PerChannelAffine.symmetric(0, 3), context()),
        (PerChannelAffine.asymmetric(0, 1, 0), context()),
        (PerChannelAffine.asymmetric(0, 1, 3), context()),
        (NF4(0, 64, 1), context("uint4")),
        (MXFP(0, 64, 1), context()),
        (MXFP(0, 16, 1), context(shape=(24, 64))),
        (MXFP(0, 16, 1), context(shape=(0, 64))),
        (PerTensorAffine(1, 128), context()),
        (PerTensorAffine(1, -1), context("uint32")),
    ):
        with pytest.raises(InvalidDescriptorError):
            scheme.check(where)


def test_parameter_buffers_have_exact_sizes() -> None:
    layout = RowMajorLayout()
    shape = (5, 3, 20)

    def sizes(scheme: Any) -> list[Any]:
        return [tuple(s) for s in scheme.param_specs(shape, layout)]

    assert sizes(PerTensorAffine(1, 0)) == []
    assert sizes(PerChannelAffine.symmetric(2, 1)) == [(1, "scales", 80)]
    assert sizes(PerChannelAffine.asymmetric(0, 2, 1)) == [(1, "zero points", 20), (2, "scales", 20)]
    assert sizes(PerBlockAffine.symmetric(2, 8, 1, BF16)) == [(1, "scales", 15 * 3 * 2)]
    assert sizes(PerBlockAffine.asymmetric(0, 4, 1, 1, BF16)) == [(1, "scales and zero points", 2 * 60 * 6)]
    assert sizes(NF4(2, 8, 1)) == [(1, "scales", 15 * 3 * 4)]
    assert [s.n_bytes for s in MXFP(0, 16, 1).param_specs((32, 3), layout)] == [6]
    assert PerBlockAffine.asymmetric(0, 4, 1, 1).buffer_indices() == (1,)
    assert PerBlockAffine.asymmetric(0, 4, 2, 1).buffer_indices() == (1, 2)
    short = Params(shape=(4,), dtype=BY_NAME["int8"], layout=layout, buffers=(np.zeros(4, "u1"), np.zeros(15, "u1")))
    with pytest.raises(BufferError):
        PerChannelAffine.symmetric(0, 1).check_values(short)
    with pytest.raises(BufferError):
        PerChannelAffine.symmetric(0, 2).check_values(short)


@pytest.mark.parametrize("shared", [False, True])
def test_shared_buffer_is_scales_then_zero_points(shared: bool) -> None:
    scales, zeros = np.array([0.5, 2], "<f2"), np.array([-1, 3], "<i4")
    parts = (np.zeros(0, "u1"), scales.view("u1"), zeros.view("u1"))
    buffers = (parts[0], np.concatenate(parts[1:])) if shared else parts
    scheme = PerBlockAffine.asymmetric(0, 2, 1, 1 if shared else 2, BY_NAME["float16"])
    params = Params(shape=(4,), dtype=BY_NAME["int8"], layout=RowMajorLayout(), buffers=buffers)
    scheme.check_values(params)
    codes = np.array([0, 1, 2, 3], np.int8)
    assert scheme.dequantize(codes, (range(4),), params).tolist() == [0.5, 1, -2, 0]


@pytest.mark.parametrize(
    ("scheme", "dtype", "scales", "zeros", "word"),
    [
        (PerChannelAffine.symmetric(0, 1), "int8", "<f4:1 0 1", None, "channel 1"),
        (PerChannelAffine.symmetric(0, 1), "int8", "<f4:1 1 nan", None, "channel 2"),
        (PerChannelAffine.asymmetric(0, 1, 2), "int8", "<f4:1 1 1", [0, 0, 128], "zero point of channel 2"),
        (PerChannelAffine.asymmetric(0, 1, 2), "uint32", "<f4:1 1 1", [0, -1, 0], "zero point of channel 1"),
        (PerBlockAffine.symmetric(0, 2, 1, BY_NAME["float16"]), "int8", "<f2:1 inf", None, "block 1"),
        (PerBlockAffine.asymmetric(0, 2, 1, 2), "uint2", "<f4:1 1", [0, 4], "zero point of block 1"),
        (NF4(0, 8, 1), "uint4", "<f4:-1", None, "scale of block 0"),
        (NF4(0, 8, 1), "uint4", "<f4:inf", None, "scale of block 0"),
    ],
)
def test_bad_values_are_named(scheme: Any, dtype: str, scales: str, zeros: Any, word: str) -> None:
    kind, numbers = scales.split(":")
    buffers = [np.zeros(4, "u1"), np.array([float(n) for n in numbers.split()], kind).view("u1")]
    if zeros is not None:
        buffers.append(np.array(zeros, "<i4").view("u1"))
    shape = (3,)
    params = Params(shape=shape, dtype=BY_NAME[dtype], layout=RowMajorLayout(), buffers=tuple(buffers))
    with pytest.raises(InvalidDescriptorError, match=word):
        scheme.check_values(params)
    codes = np.zeros(shape, BY_NAME[dtype].storage)
    with pytest.raises(InvalidDescriptorError, match=word):
        scheme.dequantize(codes, full_region(shape), params)
    with pytest.raises(InvalidDescriptorError, match=word):
        scheme.dequantize_stored(codes, np.arange(3)[:, None], params)
    if "0" not in word:
        scheme.dequantize(codes[:1], (range(1),), params)


def test_mx_scales_without_value() -> None:
    buffers = (np.zeros(32, "u1"), np.array([1, 255], "u1"))
    params = Params(shape=(32,), dtype=BY_NAME["int8"], layout=RowMajorLayout(), buffers=buffers)
    scheme = MXFP(0, 16, 1)
    with pytest.raises(InvalidDescriptorError, match="block 1"):
        scheme.check_values(params)
    assert scheme.dequantize(np.ones(16, np.int8), (range(16),), params)[0] == np.float32(2.0**-126)


def quantized(name: str, shape: tuple[int, ...], axis: int | None, seed: int) -> tuple[Any, Dtype, Params, Any]:
    recipe = RECIPES[name]
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    options = dict(recipe.options)
    if "axis" in options:
        options["axis"] = axis
    if "block_size" in options:
        options["block_size"] = 16
    done = recipe.scheme.quantize(x, recipe.dtype, **options)
    bits = recipe.dtype.bit_width
    data = bit_kernels.pack(done.codes, bits) if bits < 8 else np.ascontiguousarray(done.codes).reshape(-1).view("u1")
    params = Params(shape=shape, dtype=recipe.dtype, layout=RowMajorLayout(), buffers=(data, *done.buffers))
    return x, recipe.dtype, params, done


# Largest error of each recipe, as a part of the largest magnitude of the block.
BOUNDS = {
    "int8": 1 / 254, "uint8": 1 / 127, "int4": 1 / 14, "uint4": 1 / 7, "int2": 1 / 2, "uint2": 1, "int16": 1 / 60000,
    "uint16": 1 / 30000, "int32": 1e-6, "uint32": 1e-6, "nf4": 0.16, "mxfp8_e4m3": 1 / 8, "mxfp8_e5m2": 1 / 7,
    "mxfp6_e2m3": 1 / 14, "mxfp6_e3m2": 1 / 7, "mxfp4": 1 / 3, "mxint8": 1 / 64, "mxint4": 1 / 4,
}  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_by_every_path(name: str, axis: int) -> None:
    shape = tuple(48 if k == axis else 4 for k in range(3))
    x, dtype, params, done = quantized(name, shape, axis, seed=axis)
    scheme = done.scheme
    scheme.check(context(dtype.name, shape, buffer_count=1 + len(done.buffers)))
    assert [len(params.buffers[s.index]) for s in scheme.param_specs(shape, params.layout)] == [
        s.n_bytes for s in scheme.param_specs(shape, params.layout)
    ]
    scheme.check_values(params)
    values = scheme.dequantize(done.codes, full_region(shape), params)
    bound = BOUNDS[name.removesuffix("_per_channel").removesuffix("_per_block")]
    assert np.abs(values - x).max() <= bound * np.abs(x).max() * 1.001
    out = np.full(shape, np.nan, np.float32)
    assert scheme.dequantize(done.codes, full_region(shape), params, out) is out
    assert np.array_equal(out, values)
    packed = np.full(shape, np.nan, np.float32)
    if scheme.dequantize_packed(params, 0, packed):
        assert np.array_equal(packed.view("u4"), values.view("u4"))
    else:
        assert dtype.bit_width >= 8 or axis == 2
    coords = np.argwhere(np.ones(shape, bool))
    assert np.array_equal(scheme.dequantize_stored(done.codes.reshape(-1), coords, params), values.reshape(-1))
    # A second round changes nothing: the values are exact multiples of their scales.
    again = RECIPES[name].scheme.quantize(values, dtype, **_options(name, axis))
    second = scheme.dequantize(again.codes, full_region(shape), _with(params, again))
    if scheme.name == "nf4":
        assert np.array_equal(second, values)
    elif scheme.name == "mxfp":
        # Where rounding up reached the next power of two, the block has another exponent now.
        same = _spread_blocks(done.buffers[0] == again.buffers[0], shape, axis)
        assert same.mean() > 0.3
        assert np.array_equal(second[same], values[same])
    else:
        assert np.abs(second - values).max() <= bound * np.abs(x).max() * 1.001


def _spread_blocks(flat: Any, shape: tuple[int, ...], axis: int) -> Any:
    others = [n for k, n in enumerate(shape) if k != axis]
    return np.repeat(np.moveaxis(flat.reshape(*others, -1), -1, axis), 16, axis=axis)


def _options(name: str, axis: int) -> dict[str, Any]:
    options = dict(RECIPES[name].options)
    if "axis" in options:
        options["axis"] = axis
    if "block_size" in options:
        options["block_size"] = 16
    return options


def _with(params: Params, done: Any) -> Params:
    return replace(params, buffers=(params.buffers[0], *done.buffers))


@given(
    st.sampled_from([n for n in sorted(RECIPES) if "16" not in n and "32" not in n]),
    st.integers(0, 2),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_regions(name: str, axis: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    partial = not name.startswith("mx")
    shape = tuple((35 if partial else 48) if k == axis else int(rng.integers(1, 5)) for k in range(3))
    _, _, params, done = quantized(name, shape, axis, seed=seed)
    whole = done.scheme.dequantize(done.codes, full_region(shape), params)
    region: list[Any] = []
    for n in shape:
        start, stop = sorted(rng.integers(0, n + 1, 2).tolist())
        region.append(
            [
                range(n),
                range(start, stop),
                range(start, stop, 3),
                range(stop - 1, start - 1, -2),
                rng.integers(0, n, int(rng.integers(0, 7))),
            ][int(rng.integers(5))]
        )
    codes = index_view(done.codes, tuple(region))
    got = done.scheme.dequantize(codes, tuple(region), params)
    assert np.array_equal(got.view("u4"), index_view(whole, tuple(region)).view("u4"))
    out = np.full(got.shape[::-1], np.nan, np.float32).T
    done.scheme.dequantize(codes, tuple(region), params, out)
    assert np.array_equal(out, got)


def test_stored_coordinates_outside_are_refused() -> None:
    _, _, params, done = quantized("int8_per_block", (32, 4), 0, 1)
    for coords in ([[0, 0], [0, 4]], [[0, 0], [-1, 0]], [[0, 0], [32, 0]]):
        with pytest.raises(InvalidDescriptorError, match="stored element 1"):
            done.scheme.dequantize_stored(np.zeros(2, np.int8), np.array(coords), params)


def test_packed_declines_rows_that_split_bytes() -> None:
    for name, shape, axis in (("nf4", (3, 17), 1), ("int4_per_channel", (4, 6), 1), ("mxfp6_e2m3", (16, 6), 0)):
        _, _, params, done = quantized(name, shape, axis, 0)
        assert not done.scheme.dequantize_packed(params, 0, np.empty(shape, np.float32))
    _, _, params, done = quantized("nf4", (4, 18), 1, 0)
    out = np.full((4, 18), np.nan, np.float32)
    assert done.scheme.dequantize_packed(params, 0, out)
    assert np.array_equal(out, done.scheme.dequantize(done.codes, full_region((4, 18)), params))
    assert not done.scheme.dequantize_packed(params, 0, np.empty((18, 4), np.float32).T)
    padded = np.concatenate([np.zeros(3, "u1"), params.buffers[0]])
    shifted = replace(params, buffers=(padded, *params.buffers[1:]))
    again = np.full((4, 18), np.nan, np.float32)
    assert done.scheme.dequantize_packed(shifted, 3, again)
    assert np.array_equal(again, out)
