"""Groups of HDF5 and zarr, saved as the mappings that they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hurray


def test_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as h:
        h["a"] = np.arange(6).reshape(2, 3)
        h.create_group("g")["b"] = np.ones(3, ">f4")
        h["s"] = 1.5
    with h5py.File(tmp_path / "x.h5") as h:
        names: list[str] = []
        h.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        hurray.save(tmp_path / "x.hrry", {name.replace("/", "."): h[name] for name in names})
        with pytest.raises(hurray.UnsupportedError, match=r"'g': a Group is no tensor; names are flat"):
            hurray.save(tmp_path / "y.hrry", h)
    found = hurray.load(tmp_path / "x.hrry")
    assert {name: t.to_numpy().tolist() for name, t in found.items()} == {
        "a": [[0, 1, 2], [3, 4, 5]],
        "g.b": [1.0, 1.0, 1.0],
        "s": 1.5,
    }
    with pytest.raises(hurray.FileError, match="h5py"):
        hurray.open(tmp_path / "x.h5")


def test_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    group["a"] = np.arange(6)
    hurray.save(tmp_path / "z.hrry", dict(group.arrays()))
    assert hurray.load(tmp_path / "z.hrry")["a"].to_numpy().tolist() == list(range(6))
