"""NF4 checkpoints of bitsandbytes in: against the tool, and against its packing by a loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import helpers
import hurray
from hurray.kernels.nf4 import LEVELS

STATE = "quant_state.bitsandbytes__nf4"


def weight(
    shape: tuple[int, ...],
    block: int = 64,
    *,
    seed: int = 0,
    name: str = "w",
    nested: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the entries of a weight with random codes and scales."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    n_blocks = -(-n // block)
    codes = rng.integers(0, 16, n + n % 2, dtype=np.uint8)
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": block, "dtype": "bfloat16", "shape": list(shape)}
    entries: dict[str, NDArray[Any]] = {
        name: (codes[0::2] << 4 | codes[1::2]).reshape(-1, 1),
        f"{name}.absmax": rng.random(n_blocks).astype(np.float32),
        f"{name}.quant_map": LEVELS.copy(),
    }
    if nested:
        state |= {"nested_blocksize": nested, "nested_dtype": "float32", "nested_offset": 2.5}
        entries[f"{name}.absmax"] = rng.integers(0, 256, n_blocks, dtype=np.uint8)
        entries[f"{name}.nested_absmax"] = rng.random(-(-n_blocks // nested)).astype(np.float32)
        entries[f"{name}.nested_quant_map"] = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
    state |= changes or {}
    entries[f"{name}.{STATE}"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    return entries


def saved(path: Path, entries: Mapping[str, NDArray[Any]]) -> Path:
    hurray.to_safetensors(path, entries)
    return path


def naive(entries: Mapping[str, NDArray[Any]], shape: tuple[int, ...], block: int, nested: int = 0) -> Any:
    """Dequantize element by element."""
    n = int(np.prod(shape))
    packed = entries["w"].reshape(-1)
    out = np.empty(n, np.float32)
    for k in range(n):
        code = packed[k // 2] & 15 if k % 2 else packed[k // 2] >> 4
        scale = entries["w.absmax"][k // block]
        if nested:
            scale = entries["w.nested_quant_map"][scale] * entries["w.nested_absmax"][k // block // nested]
            scale = scale + np.float32(2.5)
        out[k] = scale * LEVELS[code]
    return out.reshape(shape)


@pytest.mark.parametrize(
    ("shape", "block", "kept_block"),
    [
        ((4, 128), 64, 64),
        ((3, 96), 64, 32),
        ((5, 24), 64, 8),
        ((2, 3, 64), 64, 64),
        ((7, 40), 256, 8),
        ((192,), 64, 64),
    ],
)
@pytest.mark.parametrize("nested", [0, 4])
def test_kept_in_shape(tmp_path: Path, shape: tuple[int, ...], block: int, kept_block: int, nested: int) -> None:
    entries = weight(shape, block, nested=nested)
    with hurray.from_bitsandbytes(saved(tmp_path / "a.safetensors", entries)) as f:
        assert list(f) == ["w"]
        t = f["w"]
        assert f.report.counts("tensor") == {"kept": 1}
    assert t.shape == shape
    assert isinstance(t.quantization, hurray.NF4)
    assert t.quantization.block_size == kept_block
    helpers.assert_same_bits(t.dequantize().to_numpy(), naive(entries, shape, block, nested))
    t.validate()


@pytest.mark.parametrize(("shape", "block"), [((3, 100), 64), ((5, 7), 64), ((3, 3), 128), ((11, 13), 64)])
def test_rows_that_cut_blocks_are_kept_in_one_dimension(tmp_path: Path, shape: tuple[int, ...], block: int) -> None:
    entries = weight(shape, block)
    path = saved(tmp_path / "a.safetensors", entries)
    want = naive(entries, shape, block)
    with hurray.from_bitsandbytes(path) as f:
        t = f["w"]
        assert f.kv["w.shape"] == list(shape)
        assert "one dimension" in f.report.tensors["w"].note
    assert t.shape == (want.size,)
    helpers.assert_same_bits(t.dequantize().to_numpy(), want.reshape(-1))
    t.validate()
    with hurray.from_bitsandbytes(path, other="dequantize") as f:
        assert "w.shape" not in f.kv
        helpers.assert_same_bits(f["w"].to_numpy(), want)


@given(rows=st.integers(1, 5), columns=st.integers(1, 70), block=st.sampled_from([8, 16, 64]), seed=st.integers(0, 99))
def test_any_shape(tmp_path_factory: pytest.TempPathFactory, rows: int, columns: int, block: int, seed: int) -> None:
    entries = weight((rows, columns), block, seed=seed)
    path = saved(tmp_path_factory.mktemp("nf4") / "a.safetensors", entries)
    want = naive(entries, (rows, columns), block)
    with hurray.from_bitsandbytes(path, other="dequantize") as f:
        t = f["w"]
        got = t.to_numpy() if t.quantization is None else t.dequantize().to_numpy()
        helpers.assert_same_bits(got, want)
    if rows * columns >= 8:
        with hurray.from_bitsandbytes(path) as f:
            helpers.assert_same_bits(f["w"].dequantize().to_numpy().reshape(want.shape), want)


def test_other_entries_pass_through(tmp_path: Path) -> None:
    entries = {"bias": np.arange(3, dtype=np.float16), **weight((2, 64)), **weight((1, 64), name="v.weight", nested=2)}
    path = tmp_path / "a.safetensors"
    hurray.to_safetensors(path, entries, kv={"format": "pt"})
    with hurray.from_bitsandbytes(path) as f:
        assert set(f) == {"bias", "w", "v.weight"}
        assert "w.absmax" not in f
        assert len(f) == 3
        assert f["bias"].to_numpy().tolist() == [0, 1, 2]
        assert f.kv == {"format": "pt"}
    hurray.convert(path, tmp_path / "a.hrry", src_format="bitsandbytes")
    loaded = hurray.load(tmp_path / "a.hrry")
    assert isinstance(loaded["w"], hurray.Tensor)
    helpers.assert_same_bits(loaded["w"].dequantize().to_numpy(), naive(entries, (2, 64), 64))


def fp4(entries: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    state = json.loads(entries.pop(f"w.{STATE}").tobytes()) | {"quant_type": "fp4"}
    raw = np.frombuffer(json.dumps(state).encode(), np.uint8)
    return entries | {"w.quant_state.bitsandbytes__fp4": raw}


def test_other_levels_are_refused_or_dequantized(tmp_path: Path) -> None:
    levels = np.linspace(-1, 1, 16, dtype=np.float32)
    for made in (fp4(weight((2, 64))), weight((2, 64)) | {"w.quant_map": levels}):
        path = saved(tmp_path / "a.safetensors", made)
        with pytest.raises(hurray.UnsupportedError, match=r"w: .*levels"):
            hurray.from_bitsandbytes(path)
        with hurray.from_bitsandbytes(path, other="skip") as f:
            assert list(f) == []
        with hurray.from_bitsandbytes(path, other="dequantize") as f:
            assert f["w"].quantization is None
            assert f.report.counts("tensor") == {"dequantized": 1}
            first = int(made["w"][0, 0]) >> 4
            assert f["w"].to_numpy()[0, 0] == made["w.absmax"][0] * made["w.quant_map"][first]


@pytest.mark.parametrize("bad", [-0.5, np.nan, np.inf])
def test_scales_that_nf4_has_not(tmp_path: Path, bad: float) -> None:
    entries = weight((2, 128))
    entries["w.absmax"][2] = bad
    path = saved(tmp_path / "a.safetensors", entries)
    with hurray.from_bitsandbytes(path) as f, pytest.raises(hurray.UnsupportedError, match="scale of block 2"):
        f["w"]
    with hurray.from_bitsandbytes(path, other="dequantize") as f:
        got = f["w"].to_numpy()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, naive(entries, (2, 128), 64))


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [2, 65]},
        {"shape": "2"},
        {"shape": [2, -64]},
        {"shape": [2**62, 2**62]},
        {"blocksize": 48},
        {"blocksize": 4},
        {"blocksize": True},
        {"blocksize": 128},
        {"quant_type": "fp4"},
        {"nested_blocksize": 0},
        {"nested_offset": "x"},
        {"nested_offset": float("nan")},
        {"nested_offset": 10**400},
    ],
)
def test_states_that_lie(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = saved(tmp_path / "a.safetensors", weight((2, 64), changes=changes))
    with pytest.raises(hurray.FileError):
        hurray.from_bitsandbytes(path)


def test_entries_that_do_not_fit(tmp_path: Path) -> None:
    for part in ("w", "w.absmax", "w.quant_map"):
        entries = weight((2, 64))
        del entries[part]
        with pytest.raises(hurray.FileError, match=f"no entry '{part}'"):
            hurray.from_bitsandbytes(saved(tmp_path / "a.safetensors", entries))
        entries = weight((2, 64))
        entries[part] = entries[part].reshape(-1)[:-1]
        with pytest.raises(hurray.FileError, match="should be"):
            hurray.from_bitsandbytes(saved(tmp_path / "a.safetensors", entries))
    entries = weight((2, 64)) | {f"w.{STATE}": np.frombuffer(b"[1]", np.uint8)}
    with pytest.raises(hurray.FileError, match="does not describe"):
        hurray.from_bitsandbytes(saved(tmp_path / "a.safetensors", entries))


def test_large_claims_take_no_memory(tmp_path: Path) -> None:
    entries = weight((2, 64), 64, nested=2**30)
    with hurray.from_bitsandbytes(saved(tmp_path / "a.safetensors", entries)) as f:
        helpers.assert_same_bits(f["w"].dequantize().to_numpy(), naive(entries, (2, 64), 64, 2**30))
    entries = weight((2, 64), 2**30)
    with hurray.from_bitsandbytes(saved(tmp_path / "a.safetensors", entries)) as f:
        helpers.assert_same_bits(f["w"].dequantize().to_numpy(), naive(entries, (2, 64), 2**30))


@pytest.mark.parametrize("shape", [(8, 128), (7, 96), (3, 100)])
@pytest.mark.parametrize("nested", [False, True])
def test_checkpoints_of_the_tool(tmp_path: Path, shape: tuple[int, ...], nested: bool) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("bitsandbytes")
    functional = pytest.importorskip("bitsandbytes.functional")
    x = torch.from_numpy(np.random.default_rng(1).standard_normal(shape).astype(np.float32))
    packed, state = functional.quantize_4bit(x, quant_type="nf4", blocksize=64, compress_statistics=nested)
    entries = {"w": packed.numpy()} | {f"w.{key}": v.numpy() for key, v in state.as_dict(packed=True).items()}
    # In one row: the tool's kernel for the CPU starts a new block with each row, which its quantizer does not.
    state.shape = torch.Size((1, x.numel()))
    want = functional.dequantize_4bit(packed, state).numpy().reshape(shape)
    with hurray.from_bitsandbytes(saved(tmp_path / "a.safetensors", entries)) as f:
        got = f["w"].dequantize().to_numpy().reshape(shape)
    helpers.assert_same_bits(got, want)
