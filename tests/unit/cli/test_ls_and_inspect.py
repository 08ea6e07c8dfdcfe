"""``hurray ls --long`` and ``hurray inspect --file-structure``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hurray
from helpers import artefacts, corpus, negative_cases

Call = Callable[..., tuple[int, str, str]]
#: faults that only reading whole tensors and composites shows, which ``verify`` does
_DEEPER = {"f-torn", "f-partition-type", "f-overlay-no-section", "f-nest-10", "f-data-small"}


def details(call: Call, path: Path) -> dict[str, str]:
    code, out, _ = call("ls", "--long", path)
    assert code == 0
    head, *lines = out.splitlines()
    at = head.index("details")
    return {line.split()[0]: line[at:].strip() for line in lines[1:-1]}


def test_long(call: Call, every_layout: Path) -> None:
    found = details(call, every_layout)
    assert found["row_major"] == ""
    assert found["coo"] == "nnz 4"
    assert found["csf"] == "nnz 4, mode order 2,0,1"
    assert found["tiled"] == "tile shape 2,4"
    assert found["strided"] == "strides 6,1"
    assert found["block_paged"] == "page size 2, num pages 4, num seqs 2, kv role key"
    assert found["q"] == "axis 0, not symmetric"
    assert found["q_csr"].startswith("nnz 4, scale ")
    assert found["part"] == "at 0, 3 of 4x6"
    assert found["parts"] == "partition"
    assert found["parts.1"] == "at 2, 0 of 4x6"


def test_long_statistics_and_device(call: Call, tmp_path: Path) -> None:
    tensor = hurray.Tensor(
        np.array([1, 2], np.float32), hurray.float32, [2], device=hurray.Device("cuda", memory_class="unified")
    )
    nan = hurray.from_numpy(np.array([np.nan, 1.0]))
    hurray.save(tmp_path / "a.hrry", {"t": tensor, "nan": nan, "x": np.arange(-3.5, 2)}, statistics=True)
    found = details(call, tmp_path / "a.hrry")
    assert "on cuda (unified)" in found["t"]
    assert found["x"] == "values -3.5 to 1.5"
    rows = json.loads(call("ls", "--long", "--json", tmp_path / "a.hrry")[1])["tensors"]
    assert (rows[0]["device"], rows[0]["memory_class"]) == ("cuda", "unified")
    assert rows[1]["statistics"]["value_mean"] == "nan"
    assert rows[1]["statistics"]["has_nan"] is True


def test_long_json(call: Call, every_layout: Path) -> None:
    rows = {row["name"]: row for row in json.loads(call("ls", "-l", "--json", every_layout)[1])["tensors"]}
    assert rows["csf"]["nnz"] == 4
    assert rows["csf"]["layout_options"] == {"mode_order": [2, 0, 1]}
    assert rows["q"]["quantization_options"] == {"axis": 0, "symmetric": False}
    assert rows["part"]["shard"] == {"offset": [0, 3], "parent_shape": [4, 6]}
    assert "nnz" not in rows["row_major"]
    short = json.loads(call("ls", "--json", every_layout)[1])["tensors"]
    assert set(short[0]) == {"name", "dtype", "shape", "layout", "bytes", "quantization", "depth", "members"}


@pytest.mark.parametrize("artefact", artefacts("file"), ids=lambda a: a["file"])
def test_long_and_structure_of_the_corpus(artefact: dict[str, str], call: Call) -> None:
    path = corpus("peer") / artefact["file"]
    assert call("ls", "--long", path)[0] == 0
    code, out, err = call("inspect", "--file-structure", path)
    assert (code, err) == (0, "")
    assert "!" not in [line.split()[0] for line in out.splitlines()]


def rows_of(out: str) -> list[tuple[int, list[str]]]:
    cells = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()[2:]]
    return [(int(row[0].removeprefix("! ")), row[1:]) for row in cells]


def test_structure(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "a.hrry"
    sparse = hurray.from_numpy(np.eye(3)).to_layout("csr")
    parts = hurray.assemble(hurray.shard(np.arange(4), (2,)))
    hurray.save(path, {"s": sparse, "p": parts}, kv={"step": 12, "names": ["a", "b"]})
    code, out, err = call("inspect", path, "--file-structure")
    assert (code, err) == (0, "")
    rows = rows_of(out)
    assert [at for at, _ in rows] == sorted(at for at, _ in rows)
    text = {row[-2] if len(row) > 2 else row[-1]: row for _, row in rows}
    assert "header.magic" in text
    assert text["header.data_buffer_alignment"][-1] == "4096"
    assert text["header.file_flags"][-1] == "5: metadata, checksum of the index"
    assert text["s: descriptor"][-1] == "float64 3x3 csr"
    assert text["s: buffer 2"][-1] == "row_ptr"
    assert text["p: descriptor"][-1] == "int64 4 composite"
    assert text["p.1: buffer 0"][-1] == "data"
    assert "metadata['step']" in out
    assert "int64 12" in out
    assert "array<string> ['a', 'b']" in out
    assert text["trailer.magic"][-1] == "b'HRRY'"
    offsets = {row[-2]: at for at, row in rows if len(row) > 2}
    assert offsets["s: buffer 0"] == 4096
    assert offsets["trailer.magic"] == path.stat().st_size - 4


def test_structure_is_complete(call: Call, every_layout: Path) -> None:
    # Every byte of the file belongs to a row: rows without bytes of their own are entries of the metadata.
    from hurray.cli._structure import structure_of
    from hurray.sources import open_source

    found = structure_of(open_source(every_layout))
    assert found.error is None
    at = 0
    for row in found.rows:
        if row.n_bytes:
            assert row.offset - at in range(8)
            at = max(at, row.offset + row.n_bytes)
    assert at == every_layout.stat().st_size


@pytest.mark.parametrize("case", negative_cases("file"), ids=lambda c: c["id"])
def test_structure_marks_the_fault(case: dict[str, str], call: Call) -> None:
    code, out, err = call("inspect", "--file-structure", corpus("negative") / case["file"])
    marked = [line for line in out.splitlines() if line.strip().startswith("! ")]
    if case["expect"] == "accept" or case["id"] in _DEEPER:
        assert (code, marked, err) == (0, [], "")
    else:
        assert code == 1
        assert marked
        assert err.count("\n") == 1


def test_structure_wrong_calls(call: Call, every_layout: Path, tmp_path: Path) -> None:
    assert call("inspect", every_layout, "q", "--file-structure")[0] == 2
    assert call("inspect", tmp_path / "none.hrry", "--file-structure")[0] == 1
    (tmp_path / "text.txt").write_bytes(b"no such file, but a text of more than a hundred and four bytes " * 3)
    code, out, err = call("inspect", tmp_path / "text.txt", "--file-structure")
    assert code == 1
    assert "! 0" in out
    assert "not a Hurray file" in err
