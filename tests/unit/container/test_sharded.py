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
