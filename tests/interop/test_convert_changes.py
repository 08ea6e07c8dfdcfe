"""``hurray.convert`` with layouts, quantization, statistics, merging, patterns and streams."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.conversion import open_tensors

X = np.arange(24, dtype=np.float32).reshape(4, 6)
CUBE = np.where(np.arange(24.0).reshape(2, 3, 4) % 5 == 0, 1.5, 0.0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.hrry"
    tensors = {
        "w": X,
        "deep.w": X.T.copy(),
        "cube": CUBE,
        "bias": np.linspace(-1, 1, 6, dtype=np.float32),
        "ids": np.arange(4),
        "parts": hurray.assemble(hurray.shard(X, (2, 1))),
    }
    hurray.save(path, tensors, kv={"step": 1})
    return path


def items(path: Any) -> dict[str, Any]:
    return dict(hurray.load(path))


LAYOUTS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("col_major", {}, {"w", "deep.w", "cube", "bias", "ids", "parts"}),
    ("strided", {}, {"w", "deep.w", "cube", "bias", "ids", "parts"}),
    ("tiled", {"tile_shape": (2, 3)}, {"w", "deep.w", "parts"}),
    ("morton", {}, {"w", "deep.w", "cube", "bias", "ids", "parts"}),
    ("coo", {}, {"w", "deep.w", "cube", "bias", "ids", "parts"}),
    ("csr", {}, {"w", "deep.w", "parts"}),
    ("csc", {}, {"w", "deep.w", "parts"}),
    ("csf", {"mode_order": (2, 0, 1)}, {"cube"}),
    ("block_paged", {"page_size": 2}, {"cube"}),
    ("hilbert", {}, set()),
]


@pytest.mark.parametrize(("layout", "options", "changed"), LAYOUTS, ids=lambda v: v if isinstance(v, str) else "")
def test_layouts(layout: str, options: dict[str, Any], changed: set[str], source: Path, tmp_path: Path) -> None:
    skipped: list[tuple[str, str, str]] = []
    end = tmp_path / "b.hrry"
    hurray.convert(source, end, layout=layout, layout_options=options, skipped=lambda *row: skipped.append(row))
    before, after = items(source), items(end)
    assert list(before) == list(after)
    for name, want in before.items():
        got = after[name]
        np.testing.assert_array_equal(got.to_numpy(), want.to_numpy(), strict=True)
        leaves = got.members if name == "parts" else [got]
        assert {leaf.layout.name for leaf in leaves} == {layout if name in changed else "row_major"}, name
        for leaf in leaves:
            for option, value in options.items():
                assert name not in changed or getattr(leaf.layout, option) == value
    assert {name.partition(".0")[0].partition(".1")[0] for name, _, _ in skipped} == set(before) - changed
    assert all(what == f"in layout {layout}" and why for _, what, why in skipped)


def test_layout_objects_and_strict(source: Path, tmp_path: Path) -> None:
    end = tmp_path / "b.hrry"
    hurray.convert(source, end, names=["w"], layout=hurray.TiledLayout((2, 2), outer_layout="col_major"), strict=True)
    assert items(end)["w"].layout == hurray.TiledLayout((2, 2), outer_layout="col_major")
    with pytest.raises(hurray.InvalidDescriptorError, match="tensor 'bias' cannot be written in layout csr: .*rank"):
        hurray.convert(source, end, layout="csr", only=["bias"], strict=True)
    assert list(items(end)) == ["w"]


def test_row_major_makes_sparse_tensors_dense(tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {"s": hurray.from_numpy(CUBE).to_layout("csf")})
    hurray.convert(tmp_path / "a.hrry", tmp_path / "a.hrry", layout="row_major")
    assert items(tmp_path / "a.hrry")["s"].layout.name == "row_major"


@pytest.mark.parametrize("layout", [None, "tiled", "csr", "col_major", "strided"])
def test_quantization(layout: str | None, source: Path, tmp_path: Path) -> None:
    skipped: list[tuple[str, str, str]] = []
    options = {"tile_shape": (2, 2)} if layout == "tiled" else {}
    hurray.convert(
        source, tmp_path / "b.hrry", layout=layout, layout_options=options, quantize="int8_per_channel",
        quantize_options={"axis": -1, "symmetric": False}, skipped=lambda *row: skipped.append(row),
    )  # fmt: skip
    before, after = items(source), items(tmp_path / "b.hrry")
    assert after["w"].quantization.axis == 1
    assert after["w"].quantization.zero_point_buffer_index is not None
    assert after["w"].layout.name == (layout or "row_major")
    for name in ("w", "deep.w", "bias", "cube"):
        assert np.abs(after[name].dequantize().to_numpy() - before[name].to_numpy()).max() < 0.1
    np.testing.assert_allclose(after["parts"].to_numpy(), X, atol=0.1)
    assert after["ids"].quantization is None
    quantized = [row for row in skipped if row[1] == "quantized to int8_per_channel"]
    assert [(name, "int64" in why) for name, _, why in quantized] == [("ids", True)]


def test_quantization_passes_over_what_does_not_fit(tmp_path: Path) -> None:
    tensors = {
        "scalar": np.float32(1),
        "half": np.ones(64, np.float16),
        "small": hurray.ones([4], dtype=hurray.dtype.float8_e4m3),
        "complex": np.ones(32, np.complex64),
        "done": hurray.quantize(np.ones(32, np.float32), "int8"),
        "nan": np.full(32, np.nan, np.float32),
        "short": np.ones(8, np.float32),
    }
    hurray.save(tmp_path / "a.hrry", tensors)
    skipped: dict[str, str] = {}
    hurray.convert(
        tmp_path / "a.hrry", tmp_path / "b.hrry", quantize="int4_per_block", quantize_options={"block_size": 32},
        skipped=lambda name, what, why: skipped.update({name: why}),
    )  # fmt: skip
    after = items(tmp_path / "b.hrry")
    assert after["half"].quantization.block_size == 32
    assert set(skipped) == set(tensors) - {"half"}
    assert "scalar" in skipped["scalar"]
    assert "already" in skipped["done"]
    assert "nan" in skipped["nan"]
    assert "block_size 32 exceeds" in skipped["short"]
    with pytest.raises(hurray.InvalidDescriptorError, match="tensor 'short' cannot be quantized to int4_per_block"):
        hurray.convert(
            tmp_path / "a.hrry", tmp_path / "b.hrry", names=["short"], quantize="int4_per_block", strict=True
        )


def test_wrong_changes_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    missing, end = tmp_path / "missing.hrry", tmp_path / "b.hrry"
    for error, changes in (
        (hurray.InvalidDescriptorError, {"layout": "nope"}),
        (hurray.UnsupportedError, {"layout": "composite"}),
        (TypeError, {"layout": 3}),
        (TypeError, {"layout_options": {"tile_shape": (2, 2)}}),
        (hurray.InvalidDescriptorError, {"quantize": "nope"}),
        (TypeError, {"quantize": "int8", "quantize_options": {"axis": 0}}),
        (TypeError, {"quantize_options": {"axis": 0}}),
        (TypeError, {"only": "w"}),
    ):
        with pytest.raises(error):  # type: ignore[arg-type]
            hurray.convert(missing, end, **changes)  # type: ignore[arg-type]
    for changes in ({"statistics": True}, {"alignment": 8192}):
        with pytest.raises(hurray.UnsupportedError):
            hurray.convert(missing, tmp_path / "b.npz", **changes)  # type: ignore[arg-type]
    with pytest.raises(hurray.UnsupportedError, match="align"):
        hurray.convert(missing, tmp_path / "b.hstream", alignment=8192)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_layout_option_is_a_type_error(source: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="tile_shape"):
        hurray.convert(source, tmp_path / "b.hrry", layout="tiled")
    with pytest.raises(TypeError, match="mode_order"):
        hurray.convert(source, tmp_path / "b.hrry", layout="csr", layout_options={"mode_order": (0, 1)})
    assert not (tmp_path / "b.hrry").exists()


def test_statistics(source: Path, tmp_path: Path) -> None:
    for end in ("b.hrry", "b.hstream"):
        hurray.convert(source, tmp_path / end, statistics=True, layout="coo", kv={})
        with open_tensors(tmp_path / end) if end.endswith("hrry") else _closing(open_tensors(tmp_path / end)) as found:
            first = found[next(iter(found))]
            assert first.statistics is not None
            assert (first.statistics.nnz, first.statistics.value_max) == (23, 23)
            whole = found[list(found)[-1]]
            assert isinstance(whole, hurray.Composite)
            assert [m.statistics.value_min for m in whole.members if m.statistics] == [0, 12]


def _closing(tensors: Any) -> Any:
    from contextlib import closing

    return closing(tensors)


def test_merge(source: Path, tmp_path: Path) -> None:
    base = hurray.from_numpy(X)._replace(shard=hurray.Shard((4, 6), (0, 0)))
    fix = hurray.from_numpy(np.full((1, 6), -1, np.float32))._replace(shard=hurray.Shard((4, 6), (1, 0)))
    overlay = hurray.Composite("overlay", shape=(4, 6), dtype=hurray.float32, members=[base, fix], combine_op="replace")
    inner = hurray.assemble(hurray.shard(X, (1, 2)))
    group = hurray.Composite("group", shape=[], dtype=hurray.float32, members=[inner, hurray.ones([1])])
    hurray.save(tmp_path / "c.hrry", {"o": overlay, "g": group})
    hurray.convert(tmp_path / "c.hrry", tmp_path / "d.hrry", merge=True, layout="csr")
    found = items(tmp_path / "d.hrry")
    assert found["o"].layout.name == "csr"
    np.testing.assert_array_equal(found["o"].to_numpy(), overlay.to_numpy())
    assert [m.layout.name for m in found["g"].members] == ["csr", "row_major"]
    hurray.convert(source, tmp_path / "e.hrry", merge=True)
    assert isinstance(items(tmp_path / "e.hrry")["parts"], hurray.Tensor)


def test_corrections_of_an_overlay_stay(tmp_path: Path) -> None:
    base = hurray.from_numpy(X)._replace(shard=hurray.Shard((4, 6), (0, 0)))
    stored = hurray.sparse_coo(np.array([7.0], np.float32), np.array([[1, 1]]), (4, 6))
    fix = stored._replace(shard=hurray.Shard((4, 6), (0, 0)))
    overlay = hurray.Composite("overlay", shape=(4, 6), dtype=hurray.float32, members=[base, fix], combine_op="replace")
    hurray.save(tmp_path / "a.hrry", {"o": overlay})
    for change in ({"layout": "row_major"}, {"layout": "col_major"}, {"quantize": "int8"}):
        hurray.convert(tmp_path / "a.hrry", tmp_path / "b.hrry", **change)  # type: ignore[arg-type]
        got = items(tmp_path / "b.hrry")["o"]
        assert got.members[1].layout == fix.layout
        assert got.members[1].quantization is None
        np.testing.assert_allclose(got.to_numpy(), overlay.to_numpy(), atol=0.1)


def test_transform(source: Path, tmp_path: Path) -> None:
    def change(name: str, item: Any) -> Any:
        return item.to_numpy() * 2 if name == "w" else hurray.zeros([2]) if name == "parts" else item

    hurray.convert(source, tmp_path / "b.hrry", transform=change, quantize="int8", only=["w", "parts", "ids"])
    found = items(tmp_path / "b.hrry")
    np.testing.assert_allclose(found["w"].dequantize().to_numpy(), 2 * X, atol=0.2)
    assert found["parts"].shape == (2,)
    with pytest.raises(TypeError, match="'w'"):
        hurray.convert(source, tmp_path / "b.hrry", transform=lambda name, item: None, names=["w"])
    hurray.convert(source, tmp_path / "b.safetensors", transform=change, only=["w", "ids"], kv={})
    with hurray.from_safetensors(tmp_path / "b.safetensors") as f:
        np.testing.assert_array_equal(f["w"].to_numpy(), 2 * X)


def test_said_once_for_writers_that_take_tensors_twice(source: Path, tmp_path: Path) -> None:
    skipped: list[str] = []
    hurray.convert(
        source, tmp_path / "b.safetensors", only=["ids"], layout="csr", skipped=lambda name, *_: skipped.append(name)
    )
    assert skipped == ["ids"]


def test_patterns(source: Path, tmp_path: Path) -> None:
    end = tmp_path / "b.hrry"
    hurray.convert(source, end, only=["*w", "[ci]*"])
    assert list(items(end)) == ["w", "deep.w", "cube", "ids"]
    hurray.convert(source, end, names=["ids", "w"], only=["?", "ids"])
    assert list(items(end)) == ["ids", "w"]
    with pytest.raises(hurray.FileError, match="'nope\\*'"):
        hurray.convert(source, end, only=["w", "nope*"])
    assert list(items(end)) == ["ids", "w"]


def test_streams_pass_one_tensor_at_a_time(tmp_path: Path) -> None:
    if not hasattr(os, "pipe"):
        pytest.skip("needs pipes")
    r, w = os.pipe()
    end = io.BytesIO()
    seen: list[tuple[str, int, int]] = []
    arrived = threading.Event()

    def progress(*step: Any) -> None:
        seen.append(step)
        arrived.set()

    def read() -> None:
        with os.fdopen(r, "rb") as source:
            hurray.convert(
                source, end, src_format="stream", dst_format="stream", progress=progress, only=["[02]"], layout="coo"
            )

    thread = threading.Thread(target=read)
    thread.start()
    with os.fdopen(w, "wb", buffering=0) as pipe:
        writer = hurray.StreamWriter(pipe)
        for k in range(3):
            arrived.clear()
            writer.write(hurray.from_numpy(np.array([0, k])))
            # Only what has been sent can be waited for: were it held back, this would time out.
            assert arrived.wait(30)
        writer.finish()
    thread.join(30)
    assert seen == [("0", 0, 0), ("1", 1, 0), ("2", 2, 0)]
    got = list(hurray.StreamReader(end.getvalue()))
    assert [(t.layout.name, t.to_numpy().tolist()) for t in got if isinstance(t, hurray.Tensor)] == [
        ("coo", [0, 0]),
        ("coo", [0, 2]),
    ]


def test_streams_to_other_formats_and_in_another_order(tmp_path: Path) -> None:
    stream = hurray.StreamWriter()
    for k in range(3):
        stream.write(hurray.full([2], k))
    data = stream.getvalue()
    hurray.convert(data, tmp_path / "a.npz", src_format="stream")
    with np.load(tmp_path / "a.npz") as archive:
        assert archive.files == ["0", "1", "2"]
    hurray.convert(data, tmp_path / "a.hrry", src_format="stream", names=["2", "0"], kv={"k": 1})
    assert [(name, t[0]) for name, t in items(tmp_path / "a.hrry").items()] == [("2", 2), ("0", 0)]
    assert hurray.load_kv(tmp_path / "a.hrry") == {"k": 1}
    hurray.convert(data, tmp_path / "a.hrry", src_format="stream", kv={"k": 2})
    assert hurray.load_kv(tmp_path / "a.hrry") == {"k": 2}
    with pytest.raises(hurray.FileError, match="matches '9'"):
        hurray.convert(data, tmp_path / "a.hrry", src_format="stream", only=["9"])
    with pytest.raises(hurray.StreamError):
        hurray.convert(data[:-1], tmp_path / "a.hstream", src_format="stream")
    assert not (tmp_path / "a.hstream").exists()


def test_sets_of_files(tmp_path: Path) -> None:
    for k, part in enumerate(hurray.shard(X, (2, 1))):
        hurray.save(tmp_path / f"{k}.hrry", {"w": part}, kv={"rank": k, "step": 7})
    hurray.convert([tmp_path / "0.hrry", tmp_path / "1.hrry"], tmp_path / "whole.hrry", merge=True)
    assert items(tmp_path / "whole.hrry")["w"].to_numpy().tolist() == X.tolist()
    assert hurray.load_kv(tmp_path / "whole.hrry") == {"0.hrry/rank": 0, "step": 7, "1.hrry/rank": 1}
    for bad in ([], [tmp_path / "0.hrry", tmp_path / "x.safetensors"], [tmp_path / "x.npz", tmp_path / "y.npz"]):
        with pytest.raises((hurray.UnsupportedError, hurray.FileError)):
            hurray.convert(bad, tmp_path / "whole.hrry")
