"""The report on a file: everything that is wrong, each with its place."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import hurray
from file_cases import build, entry, head
from hurray.container.kv import encode_kv
from hurray.container.verify import Problem, Report

A = np.arange(4.0)


def rules(report: Report) -> list[tuple[str | None, str]]:
    return [(p.tensor, p.rule) for p in report.problems]


def test_a_good_file() -> None:
    sparse = hurray.from_numpy(np.eye(4)).to_layout("coo")
    group = hurray.Composite("group", shape=[], dtype=hurray.float32, members=[hurray.ones([2])])
    target = io.BytesIO()
    hurray.save(target, {"a": A, "s": sparse, "g": group, "e": np.zeros(0)}, kv={"k": "v"})
    report = hurray.verify(target)
    assert report.ok
    assert report
    assert report.problems == []
    assert report.n_tensors == 5
    descriptors = sum(len(hurray.open(target).descriptor(n).encode()) for n in ("a", "s", "g", "g.0", "e"))
    index = 8 + 5 * 34 + len("asgg.0e")
    sections = 64 + 40 + index + len(encode_kv({"k": "v"}))
    assert report.n_bytes == descriptors + 32 + 32 + 64 + 16 + sections
    assert str(report).endswith("ok: 5 tensors, " + str(report.n_bytes) + " bytes checked")


def test_all_damaged_tensors_are_named() -> None:
    entries = [entry(name, A) for name in "abcdef"]
    entries[1].descriptor = b"XXXX" + entries[1].descriptor[4:]
    entries[2].changes["data_offset"] = 4096 + 8
    sparse = entry("d", hurray.from_numpy(np.eye(3)).to_layout("csr"))
    sparse.buffers[1] = bytes(range(24))
    entries[3] = sparse
    entries[4].descriptor = entries[4].descriptor[:20] + (5).to_bytes(8, "little") + entries[4].descriptor[28:]
    report = hurray.verify(build(entries))
    assert not report.ok
    assert [p.tensor for p in report.problems] == ["b", "c", "d", "e"]
    assert [p.rule for p in report.problems][:2] == ["magic", "index.data_offset"]
    assert all(p.offset is not None and p.message for p in report.problems)
    text = str(report)
    assert "damaged" in text
    assert all(f"\n  {name}, " in text for name in "bcde")
    assert pickle.loads(pickle.dumps(report)) == report


def test_it_goes_on_after_a_damaged_header_and_crc() -> None:
    entries = [entry("a", A), entry("b", A, data_length=31)]
    report = hurray.verify(build(entries, header={"reserved": 7}, trailer={"crc": 5}))
    assert rules(report) == [
        (None, "reserved"),
        (None, "trailer.index_crc32c"),
        ("b", "index.data_length"),
    ]
    report = hurray.verify(build(entries, header={"alignment": 5}))
    assert rules(report) == [(None, "data_buffer_alignment"), ("b", "index.data_length")]


def test_metadata_names_and_composites() -> None:
    kv = b"\1\0\0\0\1\0k\5\2"
    entries = [
        head("h", "partition", (8,), 2),
        entry("h.0", A),
        entry("h.1", A),
        entry("x", A),
        entry("x", A),
        head("t", "group", (), 3),
        entry("t.0", A),
    ]
    entries[6].name = b"\xff"
    report = hurray.verify(build(entries, kv=kv))
    found = rules(report)
    assert (None, "entries[0].value") in found
    assert ("x", "index.entries[4].name") in found
    assert any(p.tensor == "h.0" and "shard" in p.message for p in report.problems)
    assert any("UTF-8" in p.message for p in report.problems)
    assert any("torn" in p.message for p in report.problems)
    place = next(p.offset for p in report.problems if p.rule == "entries[0].value")
    data = build(entries, kv=kv)
    assert place is not None
    assert data[place] == 2


def test_padding_that_is_not_zero_is_noted(tmp_path: Path) -> None:
    target = tmp_path / "a.hrry"
    hurray.save(target, {"a": A, "b": A})
    data = bytearray(target.read_bytes())
    data[200] = 1
    target.write_bytes(data)
    report = hurray.verify(target)
    assert report.ok
    assert report.problems == [
        Problem(
            tensor=None, rule="padding", offset=200, is_error=False, message="the padding in front of 'a' is not zero"
        )
    ]
    assert "note: file, padding at byte 200" in str(report)
    assert np.array_equal(hurray.load(target)["a"].to_numpy(), A)


@pytest.mark.parametrize("data", [b"", b"x" * 200, b"HRRYFILE" + bytes(200), build()[:-1], build()[1:]])
def test_what_is_no_file_is_reported(data: bytes) -> None:
    report = hurray.verify(data)
    assert not report.ok
    assert report.n_tensors == 0
    assert report.problems
