"""The options of ``hurray convert``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hurray

X = np.arange(24, dtype=np.float32).reshape(4, 6)
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.hrry"
    hurray.save(path, {"w": X, "v": X.T.copy(), "ids": np.arange(3), "cube": np.ones((2, 3, 4))}, kv={"step": 1})
    return path


@pytest.mark.parametrize(
    ("options", "name", "layout"),
    [
        (("--layout", "tiled", "--tile", "2,3"), "w", hurray.TiledLayout((2, 3))),
        (("--layout", "tiled", "--tile", "2x3"), "w", hurray.TiledLayout((2, 3))),
        (("--layout", "csf", "--mode-order", "2,0,1"), "cube", hurray.CsfLayout(24, (2, 0, 1))),
        (("--layout", "csr"), "w", hurray.CsrLayout(23)),
        (("--layout", "col_major"), "w", hurray.ColMajorLayout()),
        (("--layout", "block_paged", "--page-size", "4"), "cube", hurray.BlockPagedLayout(4, 1, 0, 1)),
    ],
)
def test_layouts(options: tuple[str, ...], name: str, layout: object, call: Call, source: Path, tmp_path: Path) -> None:
    code, out, err = call("convert", source, tmp_path / "b.hrry", *options)
    assert (code, out) == (0, "")
    found = hurray.load(tmp_path / "b.hrry")
    assert found[name].layout == layout
    assert all("ids: not in layout" in line or "not in layout" in line for line in err.splitlines())
    assert ("ids: not in layout" in err) == (found["ids"].layout.name == "row_major")
    for key, want in hurray.load(source).items():
        np.testing.assert_array_equal(found[key].to_numpy(), want.to_numpy())
    assert call("convert", source, tmp_path / "b.hrry", *options, "--quiet") == (0, "", "")


def test_quantization(call: Call, source: Path, tmp_path: Path) -> None:
    end = tmp_path / "b.hrry"
    code, out, err = call(
        "convert", source, end, "--quantize", "int4_per_block", "--axis", 0, "--block-size", 2, "--asymmetric"
    )
    assert (code, out) == (0, "")
    why = "it is of dtype int64; floating tensors of 16 bits or more are quantized"
    assert err == f"ids: not quantized to int4_per_block: {why}\n"
    w = hurray.load(end)["w"]
    assert isinstance(w, hurray.Tensor)
    assert isinstance(w.quantization, hurray.PerBlockAffine)
    assert (w.quantization.axis, w.quantization.block_size) == (0, 2)
    assert w.quantization.zero_point_buffer_index is not None
    np.testing.assert_allclose(w.dequantize().to_numpy(), X, atol=1)
    code, _, err = call("convert", source, end, "--quantize", "int8", "--strict")
    assert code == 1
    assert err.startswith("hurray: tensor 'ids' cannot be quantized to int8: ")


def test_skips_are_summed_up(call: Call, tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {f"v{k}": np.arange(3.0) for k in range(9)})
    _, _, err = call("convert", tmp_path / "a.hrry", tmp_path / "b.hrry", "--layout", "csr")
    assert err == "v0, v1, v2, v3 and 5 more: not in layout csr: layout 'csr' needs rank 2, but shape (3,) has rank 1\n"
    hurray.save(tmp_path / "a.hrry", {f"v{k}": np.arange(k) for k in range(30)})
    _, _, err = call("convert", tmp_path / "a.hrry", tmp_path / "b.hrry", "--layout", "csr")
    assert err.count("\n") == 21
    assert err.endswith("... and 10 more tensors\n")


def test_statistics_alignment_and_patterns(call: Call, source: Path, tmp_path: Path) -> None:
    end = tmp_path / "b.hrry"
    assert call("convert", source, end, "--statistics", "--alignment", 65536, "--only", "?", "--only", "c*") == (
        0,
        "",
        "",
    )
    with hurray.open(end) as file:
        assert list(file) == ["w", "v", "cube"]
        assert file.header.alignment == 65536
        assert file["w"].statistics is not None
        assert file["w"].statistics.value_max == 23
    code, _, err = call("convert", source, end, "--only", "nope")
    assert (code, err) == (1, "hurray: the source has no tensor whose name matches 'nope'\n")


def test_advice_names_options_of_the_command_line(call: Call, source: Path, tmp_path: Path) -> None:
    code, _, err = call("convert", source, tmp_path / "b.npz")
    assert code == 1
    assert "leave it out with --drop-metadata" in err
    for option in ("--drop-metadata", "--no-kv"):
        assert call("convert", source, tmp_path / "b.npz", option) == (0, "", "")
    hurray.save(source, {"q": hurray.quantize(X, "int8"), "s": hurray.from_numpy(X).to_layout("csr")})
    assert "pass --dequantize" in call("convert", source, tmp_path / "b.npz", "-n", "q")[2]
    assert "pass --densify" in call("convert", source, tmp_path / "b.npz", "-n", "s")[2]
    assert call("convert", source, tmp_path / "b.npz", "--dequantize", "--densify") == (0, "", "")


@pytest.mark.parametrize(
    "options",
    [
        ("--layout", "nope"),
        ("--layout", "composite"),
        ("--layout", "tiled"),
        ("--layout", "tiled", "--tile", "a,b"),
        ("--layout", "tiled", "--tile", ""),
        ("--layout", "csr", "--tile", "2,2"),
        ("--tile", "2,2"),
        ("--layout", "csr", "--mode-order", "0,1"),
        ("--page-size", "4"),
        ("--layout", "block_paged", "--page-size", "0"),
        ("--quantize", "nope"),
        ("--quantize", "int8", "--axis", "0"),
        ("--quantize", "nf4", "--asymmetric"),
        ("--quantize", "nf4", "--block-size", "48"),
        ("--axis", "0"),
        ("--asymmetric",),
        ("--alignment", "1000"),
        ("--alignment", "-1"),
        ("--split-axis", "0"),
        ("--other", "skip"),
    ],
)
def test_wrong_calls(options: tuple[str, ...], call: Call, source: Path, tmp_path: Path) -> None:
    code, out, err = call("convert", source, tmp_path / "b.hrry", *options)
    assert (code, out) == (2, ""), err
    assert err.startswith("hurray: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "b.hrry").exists()


def test_shards_of_one_set(call: Call, tmp_path: Path) -> None:
    parts = []
    for k, part in enumerate(hurray.shard(X, (2, 1))):
        parts.append(tmp_path / f"{k}.hrry")
        hurray.save(parts[-1], {"w": part})
    assert call("convert", *parts, tmp_path / "set.hrry") == (0, "", "")
    assert isinstance(hurray.load(tmp_path / "set.hrry")["w"], hurray.Composite)
    assert call("convert", *parts, tmp_path / "one.hrry", "--merge") == (0, "", "")
    one = hurray.load(tmp_path / "one.hrry")["w"]
    assert isinstance(one, hurray.Tensor)
    np.testing.assert_array_equal(one.to_numpy(), X)
    assert call("convert", parts[0], "-", tmp_path / "x.hrry")[0] == 2
    assert call("convert", parts[0], tmp_path / "x.npz", tmp_path / "x.hrry")[0] == 1


def test_split_safetensors(call: Call, tmp_path: Path) -> None:
    ranks = []
    for k in range(2):
        ranks.append(tmp_path / f"rank{k}.safetensors")
        tensors = {"up.w": X[2 * k : 2 * k + 2], "down.w": X[:, 3 * k : 3 * k + 3], "n": np.ones(4), "b": np.zeros(2)}
        hurray.to_safetensors(ranks[-1], tensors)
    axes = ("--split-axis", "0", "--split-axis", "down.*=1", "--split-axis", "b=none")
    assert call("convert", *ranks, tmp_path / "a.hrry", *axes) == (0, "", "")
    found = hurray.load(tmp_path / "a.hrry")
    for name in ("up.w", "down.w"):
        assert isinstance(found[name], hurray.Composite)
        np.testing.assert_array_equal(found[name].to_numpy(), X)
    assert (found["n"].shape, found["b"].shape) == ((4,), (2,))
    assert call("convert", *ranks, tmp_path / "a.safetensors", *axes, "--densify") == (0, "", "")
    code, _, err = call("convert", *ranks, tmp_path / "a.hrry")
    assert code == 1
    assert "say along which axis with --split-axis" in err
    for bad in ("x", "down.*=x", "=", ""):
        assert call("convert", *ranks, tmp_path / "a.hrry", "--split-axis", bad)[0] == 2
    assert call("convert", *ranks, tmp_path / "a.hrry", "--split-axis", "0", "--split-axis", "1")[0] == 2
    # Pieces that are named so may be in one file.
    hurray.to_safetensors(ranks[0], {"w.shard_0_of_2": X[:, :2], "w.shard_1_of_2": X[:, 2:]})
    assert call("convert", ranks[0], tmp_path / "c.hrry", "--split-axis", "1") == (0, "", "")
    np.testing.assert_array_equal(hurray.load(tmp_path / "c.hrry")["w"].to_numpy(), X)
