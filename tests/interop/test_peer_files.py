"""Files between this library and the published binding, in both directions, with equal fields and bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
import hurray

#: describes a file as the binding sees it: descriptors, hashes of buffers, metadata
DESCRIBE = """
import hashlib, hurray, json, struct, sys
import numpy as np

def shown(v):
    if isinstance(v, list): return [shown(x) for x in v]
    if isinstance(v, bool) or isinstance(v, str): return v
    if isinstance(v, int): return str(v)
    return v.hex() if isinstance(v, bytes) else struct.pack("<d", v).hex()

def item(t):
    out = {"descriptor": t.descriptor.encode().hex()}
    if isinstance(t, hurray.Composite):
        out["members"] = [item(m) for m in t.members]
    else:
        parts = [t.buffer(i) for i in range(t.buffer_count)]
        out["buffers"] = [hashlib.sha256(np.asarray(p).tobytes()).hexdigest() for p in parts]
    return out

result = {}
for path in sys.argv[1:]:
    tensors = {name: item(t) for name, t in hurray.load(path).items()}
    result[path] = {"tensors": tensors, "kv": {k: shown(v) for k, v in hurray.load_kv(path).items()}}
print(json.dumps(result))
"""

#: writes one file with what the binding can construct
WRITE = """
import hurray, sys
import numpy as np
rng = np.random.default_rng(5)
f32 = rng.random((6, 4)).astype(np.float32)
tensors = {
    "float": hurray.from_numpy(f32),
    "ints": hurray.from_numpy(np.arange(-3, 7)),
    "scalar": hurray.Tensor(np.float64(1.5).tobytes(), hurray.float64, []),
    "empty": hurray.zeros((0, 3), dtype=hurray.int16),
    "bool": hurray.Tensor(bytes([0b101]), hurray.bool, [3]),
    "int4": hurray.Tensor(bytes([0x21, 0x03]), hurray.dtype.int4, [3]),
    "coo": hurray.sparse_coo(np.array([1.0, 2.0]), np.array([[0, 1], [2, 0]], np.uint64), (3, 2)),
    "nf4": hurray.Tensor(bytes(32), hurray.dtype.uint4, [64], quantization=hurray.NF4(0, 64, 1),
                         aux_buffers=[np.ones(1, np.float32).tobytes()]),
}
tensors["group"] = hurray.Composite("group", shape=(), dtype=hurray.float32,
                                    members=[tensors["float"], tensors["ints"]])
kv = {"s": "h\\u00e9", "i": -5, "big": 2**63 - 1, "f": float("nan"), "b": True, "raw": b"\\0\\xff",
      "list": [1, 2], "names": ["a", ""]}
hurray.save(sys.argv[1], tensors, kv=kv)
"""


def shown(value: Any) -> Any:
    """Return a metadata value in the form that DESCRIBE prints."""
    if isinstance(value, list):
        return [shown(v) for v in value]
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return str(value)
    return value.hex() if isinstance(value, bytes) else np.float64(value).tobytes().hex()


def described(item: Any) -> dict[str, Any]:
    """Return a tensor or composite in the form that DESCRIBE prints."""
    out: dict[str, Any] = {"descriptor": item.descriptor.encode().hex()}
    if isinstance(item, hurray.Composite):
        out["members"] = [described(m) for m in item.members]
    else:
        parts = [item.buffer(k).to_numpy() for k in range(item.buffer_count)]
        out["buffers"] = [hashlib.sha256(p.tobytes()).hexdigest() for p in parts]
    return out


def file_described(path: Path) -> dict[str, Any]:
    kv = {key: shown(value) for key, value in hurray.load_kv(path).items()}
    return {"tensors": {name: described(t) for name, t in hurray.load(path).items()}, "kv": kv}


def as_the_peer_sees(*paths: Path) -> list[dict[str, Any]]:
    seen = json.loads(helpers.run_peer(DESCRIBE, *map(str, paths)))
    return [seen[str(path)] for path in paths]


def our_tensors() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((12, 9)) < 0.3, rng.random((12, 9)), 0.0)
    cube = np.where(rng.random((4, 5, 6)) < 0.2, rng.random((4, 5, 6)), 0.0)
    tensors: dict[str, Any] = {}
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16", "?"):
        tensors[f"dense {dtype}"] = (rng.random((3, 5)) * 9).astype(dtype)
    tensors["fortran"] = np.asfortranarray(rng.random((3, 4)))
    tensors["strided"] = rng.random((6, 8))[::2, ::-2]
    tensors["big-endian"] = rng.random(5).astype(">f8")
    tensors["scalar"] = np.array(3.5)
    tensors["empty"] = np.zeros((0, 7), np.int32)
    for layout in ("coo", "csr", "csc"):
        tensors[layout] = hurray.from_numpy(dense).to_layout(layout)
    tensors["csf"] = hurray.from_numpy(cube).to_layout("csf", mode_order=[2, 0, 1])
    tensors["tiled"] = hurray.from_numpy(dense).to_layout("tiled", tile_shape=[4, 4])
    tensors["morton"] = hurray.from_numpy(dense[:8, :8]).to_layout("morton", morton_bits=[3, 3])
    tensors["hilbert"] = hurray.from_numpy(dense[:8, :8]).to_layout("hilbert", hilbert_order=3, hilbert_rank=2)
    for recipe in ("nf4", "mxfp4", "int8_per_channel"):
        tensors[f"quantized {recipe}"] = hurray.quantize(rng.random((4, 64)).astype(np.float32), recipe)
    left = hurray.Tensor(dense[:, :4].tobytes(), hurray.float64, [12, 4], shard=hurray.Shard([12, 9], [0, 0]))
    right = hurray.Tensor(dense[:, 4:].tobytes(), hurray.float64, [12, 5], shard=hurray.Shard([12, 9], [0, 4]))
    tensors["partition"] = hurray.Composite("partition", shape=[12, 9], dtype=hurray.float64, members=[left, right])
    inner = hurray.Composite("group", shape=[], dtype=hurray.float32, members=[hurray.ones([2])])
    tensors["group"] = hurray.Composite("group", shape=[], dtype=hurray.float32, members=[inner, hurray.zeros([3])])
    return tensors


KV = {"s": "h\u00e9", "i": -5, "u": 2**64 - 1, "f": -0.0, "b": True, "raw": b"\0\xff", "l": [1, 2], "n": ["a", ""]}


def test_the_peer_reads_what_we_write(tmp_path: Path) -> None:
    paths: list[Path] = []
    choices: list[dict[str, Any]] = [{}, {"alignment": 16384}, {"sort_index": True}]
    for options in choices:
        path = tmp_path / f"ours{len(paths)}.hrry"
        hurray.save(path, our_tensors(), kv=KV, **options)
        paths.append(path)
    for path, seen in zip(paths, as_the_peer_sees(*paths), strict=True):
        ours = file_described(path)
        assert list(seen["tensors"]) == list(ours["tensors"])
        assert seen == ours


@pytest.mark.parametrize("n_tensors", [0, 1, 255, 256, 257])
def test_the_peer_reads_any_number_of_tensors(tmp_path: Path, n_tensors: int) -> None:
    path = tmp_path / "many.hrry"
    hurray.save(path, {f"t{k}": np.full(2, k) for k in range(n_tensors)}, kv={"n": n_tensors})
    assert as_the_peer_sees(path) == [file_described(path)]


def test_the_peer_reads_what_a_sink_without_seek_got(tmp_path: Path) -> None:
    path = tmp_path / "late.hrry"
    with hurray.Writer(path) as writer:
        writer.add("a", np.arange(5))
        writer.set_kv(KV)
    assert as_the_peer_sees(path) == [file_described(path)]


def test_we_read_what_the_peer_writes(tmp_path: Path) -> None:
    path = tmp_path / "theirs.hrry"
    helpers.run_peer(WRITE, str(path))
    ours = file_described(path)
    assert as_the_peer_sees(path) == [ours]
    loaded = hurray.load(path)
    f32 = np.random.default_rng(5).random((6, 4)).astype(np.float32)
    assert np.array_equal(loaded["float"].to_numpy(), f32)
    assert np.array_equal(loaded["ints"].to_numpy(), np.arange(-3, 7))
    assert loaded["bool"].to_numpy().tolist() == [True, False, True]
    assert loaded["coo"].to_numpy().tolist() == [[0, 1], [0, 0], [2, 0]]
    assert loaded["group"].member_count == 2
    assert hurray.verify(path).problems == []


def test_a_file_of_the_peer_through_us_and_back(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.hrry", tmp_path / "ours.hrry"
    helpers.run_peer(WRITE, str(theirs))
    with hurray.open(theirs) as file:
        hurray.save(ours, file, kv=file.kv)
    before, after = as_the_peer_sees(theirs, ours)
    assert before == after
