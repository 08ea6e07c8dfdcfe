"""Every file of the corpora: those that the published binding wrote, and those that a reader must refuse."""

from __future__ import annotations

import hashlib
import io
import struct
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import helpers
import hurray
from hurray.errors import HurrayError

PEER = helpers.artefacts("file")
BAD = helpers.negative_cases("file")
STRATEGIES = ["mmap", "read"]


def check(item: Any, spec: dict[str, Any]) -> None:
    """Compare a tensor or a composite with what the manifest says of it."""
    assert item.descriptor.encode().hex() == spec["descriptor_hex"]
    assert str(item.dtype) == spec["dtype"]
    assert list(item.shape) == spec["shape"]
    if spec["type"] == "composite":
        assert len(item.members) == len(spec["members"])
        for member, inner in zip(item.members, spec["members"], strict=True):
            check(member, inner)
        return
    assert [h.byte_size for h in item.buffer_handles] == [b["byte_size"] for b in spec["buffers"]]
    assert [h.alignment for h in item.buffer_handles] == [b["alignment"] for b in spec["buffers"]]
    hashes = [hashlib.sha256(item.buffer(k).to_numpy()).hexdigest() for k in range(item.buffer_count)]
    assert hashes == [b["sha256"] for b in spec["buffers"]]


def kv_value(kind: str, value: Any) -> Any:
    """Return a value of the manifest as a Python value."""
    if kind.startswith("array<"):
        return [kv_value(kind[6:-1], v) for v in value]
    if kind in ("int64", "uint64"):
        return int(value)
    if kind == "float64":
        return struct.unpack("<d", bytes.fromhex(value))[0]
    return bytes.fromhex(value) if kind == "bytes" else value


def exact(value: Any) -> Any:
    """Return a value in a form whose equality tells types and bits apart."""
    if isinstance(value, list):
        return [exact(v) for v in value]
    return (type(value), struct.pack("<d", value) if isinstance(value, float) else value)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("artefact", PEER, ids=lambda a: a["id"])
def test_a_file_of_the_peer(artefact: dict[str, Any], strategy: str) -> None:
    path = helpers.corpus("peer") / artefact["file"]
    loaded = hurray.load(path, strategy=strategy)
    assert list(loaded) == [spec["name"] for spec in artefact["items"]]
    for spec in artefact["items"]:
        check(loaded[spec["name"]], spec)
    with hurray.open(path, strategy=strategy) as file:
        assert list(file) == list(loaded)
        assert len(file) == len(loaded)
        for spec in artefact["items"]:
            check(file[spec["name"]], spec)
            for member in spec.get("members", ()):
                check(file[member["name"]], member)
        assert [row.name for row in file.info()] == list(loaded)
        entries = file.kv_entries()
    expected = [(kv["key"], kv["type"], exact(kv_value(kv["type"], kv["value"]))) for kv in artefact["kv"]]
    assert [(e.key, e.type, exact(e.value)) for e in entries] == expected
    assert hurray.verify(path).problems == []


@pytest.mark.parametrize("artefact", PEER, ids=lambda a: a["id"])
def test_a_file_of_the_peer_written_again(artefact: dict[str, Any]) -> None:
    with hurray.open(helpers.corpus("peer") / artefact["file"]) as file:
        kv = file.kv
        target = io.BytesIO()
        hurray.save(target, file, kv=kv)
    loaded = hurray.load(target)
    assert list(loaded) == [spec["name"] for spec in artefact["items"]]
    for spec in artefact["items"]:
        check(loaded[spec["name"]], spec)
    assert exact(list(hurray.load_kv(target).values())) == exact(list(kv.values()))
    assert hurray.verify(target).problems == []


def test_the_reference_file(reference_corpus: Any) -> None:
    path = reference_corpus / "files" / "basic.hrry"
    loaded = hurray.load(path)
    assert loaded
    assert hurray.verify(path).ok
    for tensor in loaded.values():
        assert np.asarray(tensor).shape == tensor.shape


@pytest.mark.parametrize("case", BAD, ids=lambda c: c["id"])
def test_a_case_of_the_negative_corpus(case: dict[str, Any]) -> None:
    path = helpers.corpus("negative") / case["file"]
    start = time.perf_counter()
    tracemalloc.start()
    try:
        if case["expect"] == "accept":
            hurray.load(path)
        else:
            with pytest.raises(HurrayError) as caught:
                hurray.load(path)
            assert len(str(caught.value)) > 8
        assert hurray.verify(path).ok is (case["expect"] == "accept")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    # The bound of the format's test plan; a hundredth of it is what reading takes.
    assert time.perf_counter() - start < 2
