"""Checkpoints of compressed-tensors in: against the tool, and against its packing by a loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import helpers
import hurray

Arrays = dict[str, NDArray[Any]]


def config(form: str = "pack-quantized", **weights: Any) -> dict[str, Any]:
    """Return what ``config.json`` holds for one group of modules."""
    given = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32} | weights
    section = {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": {"weights": given}}}
    return {"quantization_config": section}


def pack(codes: NDArray[np.int8], bits: int) -> NDArray[np.int32]:
    """Pack along the last axis, the first code in the lowest bits, half the range added."""
    per_word = 32 // bits
    n_words = -(-codes.shape[-1] // per_word)
    words = np.zeros((*codes.shape[:-1], n_words), np.uint32)
    for k in range(codes.shape[-1]):
        stored = (codes[..., k].astype(np.int64) + (1 << (bits - 1))).astype(np.uint32)
        words[..., k // per_word] |= stored << np.uint32(bits * (k % per_word))
    return words.view(np.int32)


def random_codes(shape: tuple[int, ...], bits: int, seed: int = 0) -> NDArray[np.int8]:
    half = 1 << (bits - 1)
    return np.random.default_rng(seed).integers(-half, half, shape).astype(np.int8)


def random_scales(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 1) -> NDArray[Any]:
    return np.random.default_rng(seed).uniform(0.01, 1, shape).astype(dtype)


def packed_module(codes: NDArray[np.int8], bits: int, scale: NDArray[Any], name: str = "m.") -> Arrays:
    return {
        f"{name}weight_packed": pack(codes, bits),
        f"{name}weight_scale": scale,
        f"{name}weight_shape": np.array(codes.shape, np.int64),
    }


def opened(folder: Path, entries: Mapping[str, Any], settings: Mapping[str, Any], **options: Any) -> Any:
    hurray.to_safetensors(folder / "model.safetensors", entries)
    (folder / "config.json").write_text(json.dumps(settings))
    return hurray.from_compressed_tensors(folder, **options)


def naive(codes: NDArray[np.int8], scale: NDArray[Any], zero: NDArray[Any] | None, group: int) -> NDArray[np.float32]:
    out = np.empty(codes.shape, np.float32)
    for place in np.ndindex(codes.shape):
        at = (*place[:-1], place[-1] // group)
        point = 0 if zero is None else int(zero[at])
        out[place] = np.float32(scale[at]) * np.float32(int(codes[place]) - point)
    return out


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize(("columns", "group"), [(64, 32), (50, 16), (96, 96), (72, 24), (20, 128), (37, 8)])
def test_groups(tmp_path: Path, bits: int, dtype: Any, columns: int, group: int) -> None:
    codes = random_codes((3, columns), bits)
    scale = random_scales((3, -(-columns // group)), dtype)
    with opened(tmp_path, packed_module(codes, bits, scale), config(num_bits=bits, group_size=group)) as f:
        assert list(f) == ["m.weight"]
        t = f["m.weight"]
        assert f.report.counts("tensor") == {"kept": 1}
    assert t.shape == codes.shape
    assert t.dtype.name == f"int{bits}"
    assert isinstance(t.quantization, hurray.PerBlockAffine)
    assert t.quantization.is_symmetric
    assert t.quantization.block_size == min(group & -group, 1 << (columns.bit_length() - 1))
    np.testing.assert_array_equal(t.storage().to_numpy().astype(np.int8), codes)
    helpers.assert_same_bits(t.dequantize().to_numpy(), naive(codes, scale, None, group))
    t.validate()


@pytest.mark.parametrize("rows", [3, 8, 10])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_zero_points(tmp_path: Path, rows: int, is_packed: bool, bits: int) -> None:
    codes = random_codes((rows, 48), bits)
    scale = random_scales((rows, 3), np.float16)
    zero = random_codes((rows, 3), bits, seed=3)
    stored = np.ascontiguousarray(pack(np.ascontiguousarray(zero.T), bits).T) if is_packed else zero
    entries = packed_module(codes, bits, scale) | {"m.weight_zero_point": stored}
    with opened(tmp_path, entries, config(num_bits=bits, group_size=16, symmetric=False)) as f:
        t = f["m.weight"]
        assert not t.quantization.is_symmetric
        helpers.assert_same_bits(t.dequantize().to_numpy(), naive(codes, scale, zero, 16))
        t.validate()


def test_zero_points_that_are_all_zero_are_none(tmp_path: Path) -> None:
    codes, scale = random_codes((2, 32), 4), random_scales((2, 1))
    entries = packed_module(codes, 4, scale) | {"m.weight_zero_point": np.zeros((2, 1), np.int8)}
    with opened(tmp_path, entries, config()) as f:
        assert f["m.weight"].quantization.is_symmetric


@pytest.mark.parametrize("strategy", ["tensor", "channel"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("is_packed", [True, False])
def test_tensors_and_channels(tmp_path: Path, strategy: str, symmetric: bool, is_packed: bool) -> None:
    bits = 4 if is_packed else 8
    codes = random_codes((5, 24), bits)
    shape = (1,) if strategy == "tensor" else (5, 1)
    scale = random_scales(shape, ml_dtypes.bfloat16)
    entries: Arrays = packed_module(codes, bits, scale) if is_packed else {"m.weight": codes, "m.weight_scale": scale}
    zero = None
    if not symmetric:
        zero = random_codes(shape, bits, seed=3)
        entries["m.weight_zero_point"] = zero
    form = "pack-quantized" if is_packed else "int-quantized"
    settings = config(form, num_bits=bits, strategy=strategy, group_size=None, symmetric=symmetric)
    with opened(tmp_path, entries, settings) as f:
        t = f["m.weight"]
    assert t.quantization.name == f"per_{strategy}_affine"
    spread = np.broadcast_to(scale.reshape(-1, 1), (5, 1))
    points = None if zero is None else np.broadcast_to(zero.reshape(-1, 1), (5, 1))
    helpers.assert_same_bits(t.dequantize().to_numpy(), naive(codes, spread, points, 24))


def test_experts_in_three_dimensions(tmp_path: Path) -> None:
    codes = random_codes((2, 3, 32), 4)
    for strategy, group in (("group", 16), ("channel", 32)):
        scale = random_scales((2, 3, 32 // group))
        with opened(tmp_path, packed_module(codes, 4, scale), config(strategy=strategy, group_size=group)) as f:
            helpers.assert_same_bits(f["m.weight"].dequantize().to_numpy(), naive(codes, scale, None, group))


def test_other_entries_pass_through_and_convert(tmp_path: Path) -> None:
    codes, scale = random_codes((2, 32), 4), random_scales((2, 1))
    entries = {
        "norm.weight": np.ones(3, np.float16),
        "m.input_scale": np.ones(1, np.float32),
        "plain.weight": np.ones((2, 2), np.float32),
        "plain.weight_scale": np.ones(1, np.float32),
        **packed_module(codes, 4, scale),
    }
    with opened(tmp_path, entries, config()) as f:
        assert set(f) == {"norm.weight", "m.input_scale", "plain.weight", "plain.weight_scale", "m.weight"}
        assert f["plain.weight"].quantization is None
    path = tmp_path / "model.safetensors"
    hurray.convert(path, tmp_path / "m.hrry", src_format="compressed-tensors")
    loaded = hurray.load(tmp_path / "m.hrry")["m.weight"]
    assert isinstance(loaded, hurray.Tensor)
    helpers.assert_same_bits(loaded.dequantize().to_numpy(), naive(codes, scale, None, 32))
    with hurray.from_compressed_tensors(path.read_bytes(), config=config()) as f:
        assert f["m.weight"].shape == (2, 32)
    with pytest.raises(hurray.UnsupportedError, match="config="):
        hurray.from_compressed_tensors(path.read_bytes())


def test_float8_is_refused_or_dequantized(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 126, (4, 8), dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    cases = {"tensor": (1,), "channel": (4, 1), "block": (2, 2)}
    for strategy, shape in cases.items():
        scale = random_scales(shape)
        entries = {"m.weight": codes, "m.weight_scale": scale}
        settings = config(
            "float-quantized", num_bits=8, type="float", strategy=strategy, group_size=None, block_structure=[2, 4]
        )
        with pytest.raises(hurray.UnsupportedError, match=r"m.weight: float-quantized float8.*no scheme"):
            opened(tmp_path, entries, settings)
        with opened(tmp_path, entries, settings, other="dequantize") as f:
            got = f["m.weight"].to_numpy()
        spread = np.repeat(np.repeat(scale, 2, 0), 4, 1) if strategy == "block" else scale
        np.testing.assert_array_equal(got, codes.astype(np.float32) * spread)


@pytest.mark.parametrize("is_four", [True, False])
def test_mx_is_kept(tmp_path: Path, is_four: bool) -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (3, 32 if is_four else 64), dtype=np.uint8)
    exponents = rng.integers(1, 255, (3, 2), dtype=np.uint8)
    if is_four:
        entries: Arrays = {"m.weight_packed": raw, "m.weight_scale": exponents}
        codes = np.stack([raw & 15, raw >> 4], axis=2).reshape(3, 64).view(ml_dtypes.float4_e2m1fn)
        form, bits = "mxfp4-pack-quantized", 4
    else:
        raw[(raw & 127) == 127] = 0
        codes = raw.view(ml_dtypes.float8_e4m3fn)
        entries = {"m.weight": codes, "m.weight_scale": exponents}
        form, bits = "mxfp8-quantized", 8
    settings = config(form, num_bits=bits, type="float")
    with np.errstate(over="ignore"):
        want = np.repeat(np.ldexp(np.float32(1), exponents.astype(int) - 127), 32, 1) * codes.astype(np.float32)
    with opened(tmp_path, entries, settings) as f:
        t = f["m.weight"]
        assert isinstance(t.quantization, hurray.MXFP)
        helpers.assert_same_bits(t.dequantize().to_numpy(), want)
    entries["m.weight_scale"] = np.where(exponents == exponents.max(), 255, exponents).astype(np.uint8)
    with opened(tmp_path, entries, settings) as f, pytest.raises(hurray.UnsupportedError, match="0x00 or 0xFF"):
        f["m.weight"]


def test_what_no_scheme_has(tmp_path: Path) -> None:
    codes, scale = random_codes((2, 32), 4), random_scales((2, 1))
    entries = packed_module(codes, 4, scale)
    order = np.random.default_rng(0).permutation(32).astype(np.int32) % 2
    grouped = packed_module(codes, 4, random_scales((2, 2)))
    with pytest.raises(hurray.UnsupportedError, match="activation order"):
        opened(tmp_path, grouped | {"m.weight_g_idx": order}, config(group_size=16))
    runs = np.repeat([0, 1], 16).astype(np.int32)
    with opened(tmp_path, grouped | {"m.weight_g_idx": runs}, config(group_size=16)) as f:
        assert list(f) == ["m.weight"]
    three = {**entries, "m.weight_packed": np.zeros((2, 3), np.int32)}
    with pytest.raises(hurray.UnsupportedError, match="packed differently"):
        opened(tmp_path, three, config(num_bits=3))
    odd = packed_module(random_codes((2, 21), 4), 4, random_scales((2, 3)))
    with pytest.raises(hurray.UnsupportedError, match="no power of two"):
        opened(tmp_path, odd, config(group_size=7))
    with opened(tmp_path, odd, config(group_size=7), other="dequantize") as f:
        want = naive(random_codes((2, 21), 4), random_scales((2, 3)), None, 7)
        np.testing.assert_array_equal(f["m.weight"].to_numpy(), want)
    with opened(tmp_path, odd, config(group_size=7), other="skip") as f:
        assert list(f) == []


def test_scales_that_are_no_floats(tmp_path: Path) -> None:
    entries = packed_module(random_codes((2, 32), 4), 4, np.ones((2, 1), np.complex64))
    for other in ("refuse", "dequantize"):
        with pytest.raises(hurray.UnsupportedError, match="scales of complex64"):
            opened(tmp_path, entries, config(), other=other)


def test_scales_of_zero(tmp_path: Path) -> None:
    codes = random_codes((2, 32), 4)
    scale = np.array([[0.5], [0]], np.float16)
    entries = packed_module(codes, 4, scale)
    with opened(tmp_path, entries, config()) as f, pytest.raises(hurray.UnsupportedError, match="scale is 0"):
        f["m.weight"]
    with opened(tmp_path, entries, config(), other="dequantize") as f:
        np.testing.assert_array_equal(f["m.weight"].to_numpy(), naive(codes, scale, None, 32))


def test_entries_that_do_not_fit(tmp_path: Path) -> None:
    entries = packed_module(random_codes((2, 32), 4), 4, random_scales((2, 1)))
    for changes, message in (
        ({"m.weight_shape": np.array([3, 32])}, "codes are"),
        ({"m.weight_shape": np.array([2, 40])}, "no group"),
        ({"m.weight_shape": np.array([2, -1])}, "codes are"),
        ({"m.weight_shape": np.array([[2, 32]])}, "holds no shape"),
        ({"m.weight_scale": random_scales((2, 2))}, "no group"),
        ({"m.weight_scale": random_scales((3, 1))}, "no group"),
        ({"m.weight": np.ones((2, 32), np.float32)}, "would be called"),
    ):
        with pytest.raises(hurray.FileError, match=message):
            opened(tmp_path, entries | changes, config())
    lacking = {name: array for name, array in entries.items() if name != "m.weight_scale"}
    with pytest.raises(hurray.FileError, match="no entry 'm.weight_scale'"):
        opened(tmp_path, lacking, config())
    for zero in (None, np.zeros((2, 2), np.int8), np.zeros((2, 1), np.float32)):
        given = entries if zero is None else entries | {"m.weight_zero_point": zero}
        with opened(tmp_path, given, config(symmetric=False)) as f, pytest.raises(hurray.FileError, match="zero_point"):
            f["m.weight"]


def test_configurations(tmp_path: Path) -> None:
    entries = packed_module(random_codes((2, 32), 4), 4, random_scales((2, 1)))
    with pytest.raises(hurray.FileError, match="config_groups"):
        opened(tmp_path, entries, {"model_type": "x"})
    gptq = {"quantization_config": {"quant_method": "gptq", "config_groups": {}}}
    with pytest.raises(hurray.UnsupportedError, match="gptq"):
        opened(tmp_path, entries, gptq)
    sparse = config()
    sparse["quantization_config"]["sparsity_config"] = {"format": "sparse-24-bitmask"}
    with pytest.raises(hurray.UnsupportedError, match="sparse-24"):
        opened(tmp_path, entries, sparse)
    for bad in (
        {"num_bits": 0}, {"num_bits": "4"}, {"type": "x"}, {"strategy": "x"}, {"group_size": "x"}, {"group_size": -7},
        {"strategy": "block"}, {"block_structure": [1]}, {"block_structure": "ab"}, {"strategy": ["group"]},
    ):  # fmt: skip
        with pytest.raises(hurray.FileError):
            opened(tmp_path, entries, config(**bad))
    two = config()
    groups = two["quantization_config"]["config_groups"]
    groups["same"] = groups["group_0"]
    with opened(tmp_path, entries, two) as f:
        assert f["m.weight"].shape == (2, 32)
    groups["other"] = {"weights": {"num_bits": 4, "strategy": "channel"}}
    with pytest.raises(hurray.UnsupportedError, match="several groups"):
        opened(tmp_path, entries, two)


def compressor(form: str) -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("compressed_tensors")
    compressors = pytest.importorskip("compressed_tensors.compressors")
    return compressors.BaseCompressor.get_value_from_registry(form)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("columns", [64, 80])
def test_checkpoints_of_the_tool(tmp_path: Path, symmetric: bool, bits: int, columns: int) -> None:
    cls = compressor("pack-quantized")
    import torch
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    rng = np.random.default_rng(0)
    args = QuantizationArgs(num_bits=bits, symmetric=symmetric, strategy="group", group_size=16)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    half = 1 << (bits - 1)
    zero = rng.integers(-half, half, (16, columns // 16)) * (not symmetric)
    state = {
        "weight": torch.from_numpy(rng.standard_normal((16, columns)).astype(np.float32)),
        "weight_scale": torch.from_numpy(rng.uniform(0.01, 0.1, (16, columns // 16)).astype(np.float32)),
        "weight_zero_point": torch.from_numpy(zero.astype(np.int8)),
    }
    packed = cls.compress(dict(state), scheme)
    want = cls.decompress(dict(packed), scheme)["weight"].numpy()
    entries = {f"m.{name}": tensor.numpy() for name, tensor in packed.items()}
    with opened(tmp_path, entries, config(num_bits=bits, group_size=16, symmetric=symmetric)) as f:
        helpers.assert_same_bits(f["m.weight"].dequantize().to_numpy(), want)
