"""The table of converters, and ``hurray.convert`` over it."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hurray
from hurray.conversion import FORMATS, open_tensors, save_tensors
from hurray.interop import CONVERTERS, find_converter

#: what every format of dense arrays can hold
DENSE: dict[str, NDArray[Any]] = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "flags": np.array([True, False, True]),
    "scalar": np.array(-3, np.int64),
    "empty": np.zeros((0, 2), np.uint8),
}


@pytest.mark.parametrize("row", CONVERTERS, ids=lambda row: row.name)
def test_rows_name_functions_that_exist(row: Any) -> None:
    module = import_module(row.module)
    for name in (row.reader, row.writer):
        assert name is None or callable(getattr(module, name))
    assert row.reader or row.writer
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in row.suffixes)


def test_names_and_endings_are_unique() -> None:
    assert len(set(FORMATS)) == len(FORMATS)
    endings = [suffix for row in CONVERTERS for suffix in row.suffixes]
    assert len(set(endings)) == len(endings)
    assert not {".hrry", ".hurray", ".hstream"} & set(endings)


def test_find_converter() -> None:
    found = find_converter(Path("A.SafeTensors"))
    assert found is not None
    assert found.name == "safetensors"
    assert find_converter("m.safetensors.index.json") is found
    assert find_converter("a.hrry") is None
    assert find_converter(io.BytesIO()) is None
    with pytest.raises(hurray.UnsupportedError, match=r"'nope'.*safetensors"):
        find_converter("a", "nope")


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".hstream", ".hurray", ""])
def test_there_and_back(ending: str, tmp_path: Path) -> None:
    start, middle, end = tmp_path / "a.hrry", tmp_path / f"m{ending}", tmp_path / "b.hrry"
    hurray.save(start, DENSE)
    hurray.convert(start, middle)
    hurray.convert(middle, end)
    back = hurray.load(end)
    values = list(back.values())
    for place, (name, want) in enumerate(DENSE.items()):
        got = values[place] if ending == ".hstream" else back[name]
        assert got.shape == want.shape
        assert got.to_numpy().dtype == want.dtype
        assert got.to_numpy().tobytes() == want.tobytes()


def test_formats_by_name_and_file_objects() -> None:
    target = io.BytesIO()
    hurray.save(target, DENSE, kv={"k": "v"})
    other = io.BytesIO()
    hurray.convert(target, other, dst_format="safetensors")
    back = io.BytesIO()
    hurray.convert(other.getvalue(), back, src_format="safetensors")
    assert hurray.load_kv(back) == {"k": "v"}
    assert sorted(hurray.load(back)) == sorted(DENSE)


def test_names_kv_alignment_and_progress(tmp_path: Path) -> None:
    start, end = tmp_path / "a.hrry", tmp_path / "b.hrry"
    hurray.save(start, DENSE, kv={"old": 1})
    seen: list[tuple[str, int, int]] = []
    hurray.convert(
        start,
        end,
        names=["scalar", "a", "scalar"],
        kv={"new": 2},
        alignment=65536,
        progress=lambda *step: seen.append(step),
    )
    with hurray.open(end) as file:
        assert list(file) == ["scalar", "a"]
        assert file.kv == {"new": 2}
        assert file.header.alignment == 65536
    assert seen == [("scalar", 0, 2), ("a", 1, 2)]


def test_progress_counts_both_passes(tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", DENSE)
    seen: list[tuple[str, int, int]] = []
    hurray.convert(tmp_path / "a.hrry", tmp_path / "a.safetensors", progress=lambda *step: seen.append(step))
    assert [(done, total) for _, done, total in seen] == [(k, 8) for k in range(8)]


def test_everything_of_the_format_survives_hurray_to_hurray(tmp_path: Path) -> None:
    start, end = tmp_path / "a.hrry", tmp_path / "b.hrry"
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    items = {
        "csr": hurray.from_numpy(np.eye(4)).to_layout("csr"),
        "nf4": hurray.quantize(np.linspace(-1, 1, 64, dtype=np.float32), "nf4", block_size=32),
        "whole": hurray.Composite("partition", shape=(4, 4), dtype=hurray.float32, members=hurray.shard(x, (2, 1))),
    }
    hurray.save(start, items)
    hurray.convert(start, end)
    assert start.read_bytes() == end.read_bytes()


def test_refusals_name_the_reason_and_keep_the_target(tmp_path: Path) -> None:
    start, end = tmp_path / "a.hrry", tmp_path / "b.npz"
    hurray.save(start, DENSE, kv={"k": 1})
    end.write_bytes(b"old")
    with pytest.raises(hurray.UnsupportedError, match="metadata"):
        hurray.convert(start, end)
    with pytest.raises(hurray.FileError, match="'nope'"):
        hurray.convert(start, end, names=["nope"], kv={})
    with pytest.raises(hurray.UnsupportedError, match=r"b\.txt.*safetensors"):
        hurray.convert(start, tmp_path / "b.txt")
    with pytest.raises(hurray.UnsupportedError, match="metadata"):
        hurray.convert(start, tmp_path / "b.hstream")
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"):
        hurray.convert(tmp_path / "absent.npz", end)
    assert end.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.hrry", "b.npz"]


def test_a_broken_source_leaves_the_target(tmp_path: Path) -> None:
    end = tmp_path / "b.hrry"
    hurray.save(end, {"old": np.ones(2)})
    stream = hurray.StreamWriter()
    stream.write(hurray.ones([1000]))
    (tmp_path / "cut.hstream").write_bytes(stream.getvalue()[:-5])
    with pytest.raises(hurray.StreamError):
        hurray.convert(tmp_path / "cut.hstream", end)
    assert list(hurray.load(end)) == ["old"]


def test_composites_and_quantized_tensors_for_dense_targets(tmp_path: Path) -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    whole = hurray.Composite("partition", shape=(4, 4), dtype=hurray.float32, members=hurray.shard(x, (2, 2)))
    hurray.save(tmp_path / "a.hrry", {"w": whole})
    with pytest.raises(hurray.UnsupportedError, match=r"'w'.*composite.*densify"):
        hurray.convert(tmp_path / "a.hrry", tmp_path / "a.npz")
    hurray.convert(tmp_path / "a.hrry", tmp_path / "a.npz", densify=True)
    assert np.load(tmp_path / "a.npz")["w"].tolist() == x.tolist()


def test_streams_number_their_tensors(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a.hstream", {"x": hurray.ones([2]), "y": hurray.zeros([1])})
    found = open_tensors(tmp_path / "a.hstream")
    assert list(found) == ["0", "1"]
    assert found["0"].shape == (2,)
    assert found.kv == {}
    found.close()
