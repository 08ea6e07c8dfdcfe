"""Recipes: names, options, refusals, and the tools of the field as oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hurray.dtypes.table import BY_NAME
from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.layouts import RowMajorLayout, full_region
from hurray.quantization import MXFP, RECIPES, Params, PerBlockAffine, Recipe, recipe


def test_names() -> None:
    for name in (
        "int8", "uint8", "int8_per_channel", "int4_per_block", "int8_per_block", "nf4", "mxfp8_e4m3", "mxfp8_e5m2",
        "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "mxint8", "mxint4",
    ):  # fmt: skip
        assert RECIPES[name].name == name
        assert recipe(name) is RECIPES[name]
    with pytest.raises(InvalidDescriptorError, match="known: int8"):
        recipe("int7")
    with pytest.raises(TypeError):
        recipe(8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes no option 'block_size'"):
        recipe("int8", block_size=4)
    assert len({*RECIPES.values()}) == len(RECIPES)


def test_options() -> None:
    x = np.ones((4, 64), np.float32)
    done = recipe("int4_per_block", axis=0, block_size=4, scale_type=BY_NAME["float16"], symmetric=False).quantize(x)
    assert done.scheme == PerBlockAffine.asymmetric(0, 4, 1, 2, BY_NAME["float16"])
    assert recipe("mxfp4").quantize(x, first_index=3).scheme == MXFP(1, 32, 3)
    custom = Recipe(scheme=MXFP, dtype=BY_NAME["int8"], options={"axis": -2, "block_size": 16})
    assert recipe(custom).quantize(np.ones((16, 3, 1))[:, 0]).scheme == MXFP(0, 16, 1)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_refusals_name_the_element(name: str) -> None:
    x = np.ones((2, 64), np.float32)
    x[1, 5] = np.nan
    with pytest.raises(InvalidDescriptorError, match=rf"{name}: element \[1, 5\] is nan"):
        recipe(name).quantize(x)
    for bad in (np.ones((2, 64), complex), np.full((2, 64), "a"), np.empty((2, 64), object)):
        with pytest.raises(UnsupportedError):
            recipe(name).quantize(bad)


def test_other_refusals() -> None:
    with pytest.raises(InvalidDescriptorError, match="exceeds axis 1"):
        recipe("nf4").quantize(np.ones((2, 32)))
    with pytest.raises(InvalidDescriptorError, match="multiple"):
        recipe("mxfp4").quantize(np.ones((2, 48)))
    with pytest.raises(InvalidDescriptorError, match="rank 0"):
        recipe("int8_per_channel").quantize(np.array(1.0))
    with pytest.raises(InvalidDescriptorError, match="float16"):
        recipe("int8_per_block", scale_type=BY_NAME["float16"]).quantize(np.full(32, 1e9))
    with pytest.raises(InvalidDescriptorError, match="negative"):
        recipe("uint8", symmetric=True).quantize(np.array([-1.0]))
    with pytest.raises(InvalidDescriptorError, match="cannot store"):
        Recipe(scheme=MXFP, dtype=BY_NAME["int16"], options={"axis": 0}).quantize(np.ones(32))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int16", "bool", "bfloat16"])
def test_input_types(dtype: str) -> None:
    kind: Any = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    x = np.tile(np.array([0, 1, 3, 2], np.float32), 16)
    want = recipe("int8_per_block").quantize(x.astype(kind).astype(np.float32))
    got = recipe("int8_per_block").quantize(x.astype(kind))
    assert np.array_equal(got.codes, want.codes)


# The quantized types of GGUF, whose blocks map onto per-block affine and MX without loss.


def _gguf(kind: str, blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    gguf = pytest.importorskip("gguf")
    with np.errstate(all="ignore"):
        return np.asarray(gguf.quants.dequantize(blocks, getattr(gguf.GGMLQuantizationType, kind)))


def _dequantize(scheme: Any, dtype: str, codes: np.ndarray[Any, Any], *buffers: np.ndarray[Any, Any]) -> Any:
    raw = tuple(np.ascontiguousarray(b).reshape(-1).view("u1") for b in buffers)
    params = Params(shape=codes.shape, dtype=BY_NAME[dtype], layout=RowMajorLayout(), buffers=(np.zeros(0, "u1"), *raw))
    return scheme.dequantize(codes, full_region(codes.shape), params)


def _scales(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    scales = (rng.normal(size=n) * 10.0 ** rng.integers(-6, 4, n)).astype("<f2")
    scales[scales == 0] = 1
    scales[:4] = [6e-8, -65504, 1, -6e-8]
    return scales


def _nibbles(rng: np.random.Generator, n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    packed = rng.integers(0, 256, (n, 16)).astype("u1")
    return packed, np.concatenate([packed & 15, packed >> 4], axis=1)


def test_gguf_q8_0() -> None:
    rng = np.random.default_rng(0)
    scales, codes = _scales(rng, 50), rng.integers(-128, 128, (50, 32)).astype("i1")
    blocks = np.concatenate([scales.view("u1").reshape(50, 2), codes.view("u1")], axis=1)
    scheme = PerBlockAffine.symmetric(1, 32, 1, BY_NAME["float16"])
    assert np.array_equal(_dequantize(scheme, "int8", codes, scales).view("u4"), _gguf("Q8_0", blocks).view("u4"))


def test_gguf_q4_0() -> None:
    rng = np.random.default_rng(1)
    scales, (packed, codes) = _scales(rng, 50), _nibbles(rng, 50)
    blocks = np.concatenate([scales.view("u1").reshape(50, 2), packed], axis=1)
    scheme = PerBlockAffine.asymmetric(1, 32, 1, 2, BY_NAME["float16"])
    got = _dequantize(scheme, "uint4", codes, scales, np.full(50, 8, "<i4"))
    assert np.array_equal(got, _gguf("Q4_0", blocks))


def test_gguf_mxfp4() -> None:
    rng = np.random.default_rng(2)
    exponents, (packed, codes) = rng.integers(1, 255, 50).astype("u1"), _nibbles(rng, 50)
    blocks = np.concatenate([exponents[:, None], packed], axis=1)
    got = _dequantize(MXFP(1, 32, 1), "float4_e2m1", codes, exponents)
    assert np.array_equal(got, _gguf("MXFP4", blocks))


def test_torch_float8_casts() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 32)).astype(np.float32)
    x[:, 0] = 256
    done = recipe("mxfp8_e4m3").quantize(x)
    assert set(done.buffers[0].tolist()) == {127}
    oracle = torch.from_numpy(x).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert np.array_equal(done.codes, oracle)
