"""safetensors checkpoints whose tensors are really split."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.interop.safetensors_shards import from_safetensors_shards

W = np.arange(24, dtype=np.float32).reshape(4, 6)
NORM = np.ones(6, np.float32)


def write(path: Path, tensors: dict[str, Any], **kv: str) -> Path:
    hurray.to_safetensors(path, tensors, kv=kv)
    return path


def ranks(folder: Path, *held: dict[str, Any]) -> list[Path]:
    return [write(folder / f"rank{k}.safetensors", tensors) for k, tensors in enumerate(held)]


def test_split_and_repeated_tensors(tmp_path: Path) -> None:
    paths = ranks(
        tmp_path,
        {"up.w": W[:2], "down.w": W[:, :3], "norm": NORM, "step": np.array(3), "only": np.arange(2)},
        {"up.w": W[2:], "down.w": W[:, 3:], "norm": NORM, "step": np.array(3)},
    )
    with from_safetensors_shards(paths, axis=0, axes={"down.*": -1}) as f:
        assert sorted(f) == sorted(f.names) == ["down.w", "norm", "only", "step", "up.w"]
        assert len(f) == 5
        assert "norm" in f
        assert "x" not in f
        assert repr(f) == "<SafetensorsShards of 2 files, 5 tensors>"
        up, down = f["up.w"], f["down.w"]
        assert isinstance(up, hurray.Composite)
        assert isinstance(down, hurray.Composite)
        assert up.composition_rule == down.composition_rule == "partition"
        assert [m.shape for m in up.members] == [(2, 6), (2, 6)]
        assert [m.shard.shard_offset for m in down.members if m.shard] == [(0, 0), (0, 3)]
        for name in ("norm", "step", "only"):
            assert isinstance(f[name], hurray.Tensor)
        assert f["step"].to_numpy() == 3
        with pytest.raises(KeyError):
            f["x"]
    # What was taken outlives the files.
    np.testing.assert_array_equal(up.to_numpy(), W)
    np.testing.assert_array_equal(down.to_numpy(), W)


def test_zero_copy(tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"w": W[:2]}, {"w": W[2:]})
    with from_safetensors_shards(paths, axis=0) as f:
        whole = f["w"]
        assert isinstance(whole, hurray.Composite)
        for member in whole.members:
            assert isinstance(member, hurray.Tensor)
            assert not member.to_numpy(copy=False).flags.owndata


@pytest.mark.parametrize("dtype", ["bool", "float16", "int64", "complex64"])
def test_uneven_pieces_of_every_axis(dtype: str, tmp_path: Path) -> None:
    x = (np.arange(60) % 7).reshape(3, 4, 5).astype(dtype)
    for axis in range(-3, 3):
        cuts = np.array_split(x, [1, 1, 2], axis=axis)
        paths = ranks(tmp_path, *({"w": np.ascontiguousarray(c)} for c in cuts))
        with from_safetensors_shards(paths, axes={"w": axis}) as f:
            np.testing.assert_array_equal(f["w"].to_numpy(), x, strict=True)


def test_equal_pieces_are_split_where_the_name_says_so(tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"b": np.zeros(3), "c": np.zeros(3)}, {"b": np.zeros(3), "c": np.zeros(3)})
    with from_safetensors_shards(paths, axis=0, axes={"b": 0}) as f:
        assert f["b"].shape == (6,)
        assert f["c"].shape == (3,)
    with from_safetensors_shards(paths, axis=0, axes={"b": None}) as f:
        assert f["b"].shape == (3,)
    with from_safetensors_shards(paths) as f:
        assert f["b"].shape == f["c"].shape == (3,)


def test_nan_is_equal_to_itself_bit_for_bit(tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"n": np.full(3, np.nan)}, {"n": np.full(3, np.nan)})
    with from_safetensors_shards(paths) as f:
        assert np.isnan(f["n"].to_numpy()).all()
    paths = ranks(tmp_path, {"n": np.array([0.0])}, {"n": np.array([-0.0])})
    with from_safetensors_shards(paths) as f, pytest.raises(hurray.FileError, match="differs"):
        f["n"]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("pattern", ["w.shard_{k}_of_{n}", "w_shard-{k}-of-{n}", "w.shard_{k:02}_of_{n:02}"])
def test_pieces_named_by_a_suffix(pattern: str, first: int, tmp_path: Path) -> None:
    pieces = {pattern.format(k=k + first, n=12): np.full((1, 2), k) for k in range(12)}
    path = write(tmp_path / "a.safetensors", {**pieces, "other": NORM})
    with from_safetensors_shards(path, axes={"w": 0}) as f:
        assert sorted(f) == ["other", "w"]
        assert f["w"].to_numpy()[:, 0].tolist() == list(range(12))


def test_pieces_named_by_a_suffix_in_several_files(tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"w.shard_1_of_2": W[2:], "n": NORM}, {"w.shard_0_of_2": W[:2], "n": NORM})
    with from_safetensors_shards(paths, axis=0) as f:
        np.testing.assert_array_equal(f["w"].to_numpy(), W)
        assert f["n"].shape == (6,)


def test_ranks_as_a_suffix(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.safetensors",
        {"w.rank_1": W[2:], "w.rank_0": W[:2], "v_tp_rank0": W[:, :1], "v_tp_rank1": W[:, 1:], "low.rank_3": NORM},
    )
    with from_safetensors_shards(path, axis=0, axes={"v": 1}) as f:
        assert sorted(f) == ["low.rank_3", "v", "w"]
        np.testing.assert_array_equal(f["w"].to_numpy(), W)
        np.testing.assert_array_equal(f["v"].to_numpy(), W)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["w.shard_0_of_3", "w.shard_1_of_3"], "piece 2 of 3 is missing"),
        (["w.shard_1_of_3", "w.shard_2_of_3"], "piece 0 of 3 is missing"),
        (["w.shard_3_of_3", "w.shard_2_of_3"], "piece 1 of 3 is missing"),
        (["w.shard_0_of_2", "w.shard_00_of_2", "w.shard_1_of_2"], "piece 0 of 2 is there twice"),
        (["w.shard_0_of_2", "w.shard_1_of_2", "w.shard_1_of_3"], "counted differently"),
        (["w.shard_0_of_2", "w.shard_1_of_2", "w"], "whole and in pieces"),
        (["w.shard_0_of_0"], "there are 1 pieces, but they count 0"),
        (["w.shard_0_of_1", "w.shard_5_of_1"], "there are 2 pieces, but they count 1"),
        (["w.shard_7_of_999999999"], "piece 0 of 999999999 is missing"),
    ],
)
def test_faults_of_suffixes(names: list[str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", {name: np.full(2, k) for k, name in enumerate(names)})
    with pytest.raises(hurray.FileError, match=message) as caught:
        from_safetensors_shards(path, axis=0)
    assert caught.value.tensor == "w"


def test_pieces_want_an_axis(tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", {"w.shard_0_of_2": W, "w.shard_1_of_2": W})
    with pytest.raises(hurray.FileError, match="'w' comes in 2 pieces; say along which axis"):
        from_safetensors_shards(path)


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        (W[:2], W[2:, :5], {"axis": 0}, r"shape \(2, 6\) in rank0.* and \(2, 5\) in rank1.* along axis 0"),
        (W[:2], W[2:].ravel(), {"axis": 0}, "no pieces of one tensor"),
        (W[:2], W[2:].astype(np.float64), {"axis": 0}, "F32 in rank0.safetensors, but F64 in rank1"),
        (W[:2], W[2:], {"axes": {"w": 2}}, "has no axis 2"),
        (W[:2], W[2:], {"axes": {"w": -3}}, "has no axis -3"),
        (W[:2], W[3:], {}, "if it is split, say along which axis"),
        (W, W.astype(np.int32), {"axes": {"*": None}}, "F32 of shape .* but I32"),
        (np.array(1.0), np.array(2.0), {"axes": {"w": 0}}, "has no axis 0"),
    ],
)
def test_pieces_that_do_not_fit(first: Any, second: Any, options: Any, message: str, tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"w": first}, {"w": second})
    with pytest.raises(hurray.FileError, match=message) as caught:
        from_safetensors_shards(paths, **options)
    assert caught.value.tensor == "w"


def test_whole_tensors_that_differ(tmp_path: Path) -> None:
    big = np.zeros(100_000)
    other = big.copy()
    other[-1] = 1
    paths = ranks(tmp_path, {"w": big, "s": np.array(1)}, {"w": big, "s": np.array(1)}, {"w": other, "s": np.array(2)})
    with from_safetensors_shards(paths, axis=1) as f:
        for name in ("w", "s"):
            with pytest.raises(hurray.FileError, match=f"'{name}' differs between rank0.* and rank2.*"):
                f[name]


def test_a_missing_piece(tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"w": W[:1]}, {"x": NORM}, {"w": W[1:]})
    with pytest.raises(hurray.FileError, match="'w' is in 2 of 3 files, but not in rank1"):
        from_safetensors_shards(paths, axis=0)


def test_files_out_of_order(tmp_path: Path) -> None:
    paths = ranks(tmp_path, *({"w": np.array([k])} for k in range(11)))
    with from_safetensors_shards(paths, axis=0) as f:
        assert f["w"].to_numpy().tolist() == list(range(11))
    with pytest.raises(hurray.FileError, match="out of order: rank10.safetensors comes before rank2"):
        from_safetensors_shards(sorted(paths), axis=0)
    with pytest.raises(hurray.FileError, match="given twice"):
        from_safetensors_shards([paths[0], paths[0]], axis=0)


def test_sources(tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"w": W[:2]}, {"w": W[2:]})
    for given in ([p.read_bytes() for p in paths], [io.BytesIO(p.read_bytes()) for p in paths], iter(map(str, paths))):
        with from_safetensors_shards(given, axis=0) as f:
            np.testing.assert_array_equal(f["w"].to_numpy(), W)
    with from_safetensors_shards(paths[0].read_bytes()) as f:
        assert f["w"].shape == (2, 6)
    with pytest.raises(hurray.FileError):
        from_safetensors_shards([paths[0], tmp_path / "missing.safetensors"], axis=0)
    with pytest.raises(hurray.FileError):
        from_safetensors_shards([])
    for bad in ({"axis": "0"}, {"axis": True}, {"axes": {"w": "0"}}):
        with pytest.raises(TypeError):
            from_safetensors_shards(paths, **bad)  # type: ignore[arg-type]


def test_metadata(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"r{k}.safetensors", {"w": np.array([k])}, format="pt", rank=str(k)) for k in range(2)]
    with from_safetensors_shards(paths, axis=0) as f:
        assert f.kv == {"format": "pt", "r0.safetensors/rank": "0", "r1.safetensors/rank": "1"}


def test_saved_streamed_and_pickled(tmp_path: Path) -> None:
    paths = ranks(tmp_path, {"w": W[:, :2], "n": NORM}, {"w": W[:, 2:], "n": NORM})
    hurray.convert(paths, tmp_path / "a.hrry", options={"axis": 1})
    with hurray.open(tmp_path / "a.hrry") as f:
        assert isinstance(f["w"], hurray.Composite)
        np.testing.assert_array_equal(f["w"].to_numpy(), W)
        assert f["n"].shape == (6,)
        assert np.array_equal(pickle.loads(pickle.dumps(f["w"])).to_numpy(), W)
    hurray.convert(paths, tmp_path / "b.safetensors", options={"axis": 1}, densify=True)
    with hurray.from_safetensors(tmp_path / "b.safetensors") as g:
        np.testing.assert_array_equal(g["w"].to_numpy(), W)


def test_against_the_safetensors_package(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    paths = []
    for k, piece in enumerate(np.split(W, 3, axis=1)):
        paths.append(tmp_path / f"model_tp{k}.safetensors")
        package.save_file({"w": np.ascontiguousarray(piece), "n": NORM}, paths[-1])
    with from_safetensors_shards(paths, axis=1) as f:
        np.testing.assert_array_equal(f["w"].to_numpy(), W)
