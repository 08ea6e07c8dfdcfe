"""Sets of files whose tensors are shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hurray

WHOLE = np.arange(48, dtype=np.float32).reshape(6, 8)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Three files: "w" is cut into three, "v" into two, "alone" is whole in one, "same" is in two but no shard."""
    w = hurray.shard(WHOLE, (3, 1))
    v = hurray.shard(WHOLE, (1, 2))
    held: list[dict[str, Any]] = [
        {"w": w[0], "v": v[1], "same": hurray.zeros([1])},
        {"w": w[2], "alone": hurray.ones([2]), "same": hurray.zeros([1])},
        {"v": v[0], "w": w[1], "lost": v[0]},
    ]
    found = []
    for k, tensors in enumerate(held):
        found.append(tmp_path / f"{k}.hrry")
        hurray.save(found[-1], tensors)
    return found


def test_mapping(paths: list[Path]) -> None:
    with hurray.open_sharded(paths) as f:
        assert list(f) == f.names == ["w", "v", "same", "alone", "lost"]
        assert len(f) == 5
        assert "w" in f
        assert "x" not in f
        assert len(f.files) == 3
        assert repr(f) == "<hurray.ShardedFiles of 3 files, 5 tensors>"
        w, v = f["w"], f["v"]
        assert isinstance(w, hurray.Composite)
        np.testing.assert_array_equal(w[1:5, ::3], WHOLE[1:5, ::3])
        assert isinstance(f["alone"], hurray.Tensor)
    # What was taken outlives the files.
    np.testing.assert_array_equal(v.to_numpy(), WHOLE)
    assert all(file.closed for file in f.files)


def test_faults_name_the_tensor(paths: list[Path]) -> None:
    with hurray.open_sharded(iter(paths)) as f:
        with pytest.raises(hurray.InvalidDescriptorError, match="tensor 'lost': .*gap"):
            f["lost"]
        with pytest.raises(hurray.InvalidDescriptorError, match="'same' is in 2 files, but is no shard in"):
            f["same"]
        with pytest.raises(hurray.FileError, match="none of the 3 files has a tensor 'x'"):
            f["x"]
        with pytest.raises(KeyError):
            f["x"]
    with hurray.open_sharded(paths[:2]) as f, pytest.raises(hurray.InvalidDescriptorError, match="gap at index"):
        f["w"]


def test_saved_again_as_composites(paths: list[Path], tmp_path: Path) -> None:
    with hurray.open_sharded(paths) as f:
        hurray.save(tmp_path / "whole.hrry", {"w": f["w"], "v": f["v"]})
    with hurray.open(tmp_path / "whole.hrry") as g:
        assert list(g) == ["w", "v"]
        assert isinstance(g["w"], hurray.Composite)
        np.testing.assert_array_equal(g["w"].to_numpy(), WHOLE)


def test_files_that_cannot_be_opened(paths: list[Path], tmp_path: Path) -> None:
    with pytest.raises(hurray.FileError):
        hurray.open_sharded([*paths, tmp_path / "none.hrry"])
    for bad in (paths[0].read_bytes(), 3, None):
        with pytest.raises(TypeError, match="iterable"):
            hurray.open_sharded(bad)  # type: ignore[arg-type]
    assert len(hurray.open_sharded([])) == 0


def test_a_pattern_for_paths(paths: list[Path], tmp_path: Path) -> None:
    for pattern in (f"{tmp_path}/*.hrry", tmp_path / "[0-2].hrry"):
        with hurray.open_sharded(pattern) as f:
            np.testing.assert_array_equal(f["w"].to_numpy(), WHOLE)
    with hurray.open_sharded(paths[1]) as f:
        assert f["alone"].shape == (2,)
    with pytest.raises(hurray.FileError, match="no file matches"):
        hurray.open_sharded(tmp_path / "nope*.hrry")
    # A name that exists is no pattern.
    odd = tmp_path / "[a].hrry"
    hurray.save(odd, {"x": hurray.ones([1])})
    with hurray.open_sharded(odd) as f:
        assert list(f) == ["x"]


def save_each(folder: Path, *tensors: Any) -> list[Path]:
    found = []
    for k, tensor in enumerate(tensors):
        found.append(folder / f"part{k}.hrry")
        hurray.save(found[-1], {"w": tensor})
    return found


def placed(array: Any, parent: tuple[int, ...], offset: tuple[int, ...]) -> hurray.Tensor:
    return hurray.from_numpy(np.asarray(array))._replace(shard=hurray.Shard(parent, offset))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (placed(WHOLE[2:], (6, 8), (2, 0)), "member 0 and member 1 overlap"),
        (placed(WHOLE[4:], (6, 8), (4, 0)), "gap at index"),
        (placed(WHOLE[3:].astype(np.float64), (6, 8), (3, 0)), "float64"),
        (placed(WHOLE[3:], (7, 8), (3, 0)), "parent"),
        (placed(WHOLE[3:].reshape(3, 2, 4), (6, 2, 4), (3, 0, 0)), "rank|parent|shape"),
        (placed(WHOLE[:3], (6, 8), (0, 0)), "overlap"),
    ],
)
def test_shards_that_do_not_fit(second: hurray.Tensor, message: str, tmp_path: Path) -> None:
    found = save_each(tmp_path, placed(WHOLE[:3], (6, 8), (0, 0)), second)
    with hurray.open_sharded(found) as f:
        assert list(f) == ["w"]
        with pytest.raises(hurray.InvalidDescriptorError, match=message) as caught:
            f["w"]
    assert caught.value.tensor == "w"


def test_shards_of_other_layouts_and_schemes(tmp_path: Path) -> None:
    top, bottom = hurray.shard(WHOLE, (2, 1))
    found = save_each(tmp_path, top.to_layout("csr"), hurray.quantize(bottom, "int8_per_channel"))
    with hurray.open_sharded(found) as f:
        np.testing.assert_allclose(f["w"].to_numpy(), WHOLE, atol=0.3)
        np.testing.assert_array_equal(f["w"][:3], WHOLE[:3])


def test_one_file_given_twice(paths: list[Path]) -> None:
    with hurray.open_sharded([*paths, paths[0]]) as f, pytest.raises(hurray.InvalidDescriptorError, match="overlap"):
        f["w"]


def test_metadata(tmp_path: Path) -> None:
    found = []
    for k in range(2):
        folder = tmp_path / str(k)
        folder.mkdir()
        found.append(folder / "m.hrry")
        hurray.save(found[-1], {}, kv={"step": 3, "rank": k, "ids": [1, 2], "one": 1 if k else 1.0, f"own{k}": "x"})
    with hurray.open_sharded(found) as f:
        assert f.kv == {
            "step": 3,
            "ids": [1, 2],
            "m.hrry/rank": 0,
            "1/m.hrry/rank": 1,
            "m.hrry/one": 1.0,
            "1/m.hrry/one": 1,
            "own0": "x",
            "own1": "x",
        }
