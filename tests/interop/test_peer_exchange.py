"""Every kind of tensor between this library and the published binding, in files and streams, in both directions.

One process of the binding authors all cases, and reads all that was written here.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import helpers
import hurray
import peer_cases

SEED = 20240611

PEER = f"""
import hurray, json, struct, sys
{peer_cases.CASES}
{peer_cases.FIELDS}
folder, seed = sys.argv[1], int(sys.argv[2])
items = dict(cases(hurray, seed))
hurray.save(folder + "/theirs.hrry", items, kv=KV)
with hurray.StreamWriter(folder + "/theirs.hstream") as writer:
    for item in items.values():
        writer.write(item)

def shown(v):
    if isinstance(v, list):
        return [shown(x) for x in v]
    return struct.pack("<d", v).hex() if type(v) is float else repr(v)

print(json.dumps({{
    "authored": {{name: described(item) for name, item in items.items()}},
    "own": {{name: described(item) for name, item in hurray.load(folder + "/theirs.hrry").items()}},
    "file": {{name: described(item) for name, item in hurray.load(folder + "/ours.hrry").items()}},
    "stream": [described(item) for item in hurray.StreamReader(folder + "/ours.hstream")],
    "extra": {{name: described(item) for name, item in hurray.load(folder + "/extra.hrry").items()}},
    "kv": {{name: shown(value) for name, value in hurray.load_kv(folder + "/ours.hrry").items()}},
}}))
"""

CODE: dict[str, Any] = {}
exec(peer_cases.CASES, CODE)
exec(peer_cases.FIELDS, CODE)
described = CODE["described"]


def shown(value: Any) -> Any:
    if isinstance(value, list):
        return [shown(v) for v in value]
    return struct.pack("<d", value).hex() if type(value) is float else repr(value)


def extras() -> dict[str, Any]:
    """Return what only this library authors: offsets, strides of any sign, schemes and layouts made from arrays."""
    rng = np.random.default_rng(SEED)
    items: dict[str, Any] = {
        "offset": hurray.Tensor(rng.bytes(24), hurray.float32, [2, 2], byte_offset=8),
        "packed offset": hurray.Tensor(rng.bytes(5), hurray.dtype.int4, [2, 2], byte_offset=3),
        "back": hurray.Tensor(
            rng.bytes(24), hurray.float32, [2, 3], layout=hurray.StridedLayout([3, -1]), byte_offset=8
        ),
        "broadcast": hurray.Tensor(rng.bytes(12), hurray.float32, [4, 3], layout=hurray.StridedLayout([0, 1])),
        "borrowed": hurray.from_numpy(rng.random((6, 8))[::2, ::-3]),
    }
    array = np.where(rng.random((16, 64)) < 0.3, rng.random((16, 64)), 0).astype(np.float32)
    for name in ("col_major", "coo", "csr", "csc"):
        items[name] = hurray.from_numpy(array).to_layout(name)
    items["tiled"] = hurray.from_numpy(array).to_layout("tiled", tile_shape=[5, 7])
    for recipe in hurray.RECIPES:
        items[f"recipe {recipe}"] = hurray.quantize(array, recipe)
    items["assembled"] = hurray.assemble(hurray.shard(array, (3, 2)))
    return items


class Exchange(NamedTuple):
    folder: Path
    ours: dict[str, Any]
    extra: dict[str, Any]
    seen: dict[str, Any]


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Exchange:
    folder = tmp_path_factory.mktemp("exchange")
    ours = dict(CODE["cases"](hurray, SEED))
    extra = extras()
    hurray.save(folder / "ours.hrry", ours, kv=CODE["KV"])
    hurray.save(folder / "extra.hrry", extra)
    with hurray.StreamWriter(folder / "ours.hstream") as writer:
        for item in ours.values():
            writer.write(item)
    return Exchange(folder, ours, extra, json.loads(helpers.run_peer(PEER, str(folder), str(SEED))))


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def without_alignment(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields without what each writer chooses: alignments, which the descriptor's bytes hold as well."""
    kept = {k: v for k, v in fields.items() if k != "descriptor"}
    kept["handles"] = [[size, *rest] for size, _, *rest in fields["handles"]]
    if "members" in fields:
        kept["members"] = [without_alignment(m) for m in fields["members"]]
    return kept


def test_both_author_the_same(exchange: Exchange) -> None:
    authored = exchange.seen["authored"]
    assert list(authored) == list(exchange.ours)
    for name, item in exchange.ours.items():
        mine = through_json(described(item))
        assert without_alignment(mine) == without_alignment(authored[name]), name
        if not name.startswith("device") and item.descriptor.device.tag == 0:
            assert mine == authored[name], name


def test_the_peer_reads_our_file(exchange: Exchange) -> None:
    seen = exchange.seen["file"]
    assert list(seen) == list(exchange.ours)
    for name, item in hurray.load(exchange.folder / "ours.hrry").items():
        assert seen[name] == through_json(described(item)), name
    assert exchange.seen["kv"] == {name: shown(value) for name, value in CODE["KV"].items()}


def test_the_peer_reads_our_stream(exchange: Exchange) -> None:
    items = hurray.StreamReader(exchange.folder / "ours.hstream")
    for name, item, seen in zip(exchange.ours, items, exchange.seen["stream"], strict=True):
        assert seen == through_json(described(item)), name


def test_the_peer_reads_what_only_we_author(exchange: Exchange) -> None:
    loaded = hurray.load(exchange.folder / "extra.hrry")
    assert list(exchange.seen["extra"]) == list(exchange.extra)
    for name, item in loaded.items():
        assert exchange.seen["extra"][name] == through_json(described(item)), name


def same_values(got: Any, want: Any) -> None:
    if isinstance(got, hurray.Composite):
        assert got.member_count == want.member_count
        for a, b in zip(got.members, want.members, strict=True):
            same_values(a, b)
        return
    if got.layout.name == "extension" or got.dtype.is_private or None in got.shape or got.dtype.name == "float8_e8m0":
        return
    got.validate()
    if got.quantization is not None:
        helpers.assert_same_bits(got.dequantize().to_numpy(), want.dequantize().to_numpy())
        return
    kind = np.float64 if got.dtype.name == "float128" else None
    helpers.assert_same_bits(got.to_numpy(dtype=kind), want.to_numpy(dtype=kind))


def test_we_read_their_file(exchange: Exchange) -> None:
    path = exchange.folder / "theirs.hrry"
    # random bytes hit the codes that float8_e8m0 reserves, and nothing else is wrong
    assert [p for p in hurray.verify(path).problems if "float8_e8m0" not in p.message] == []
    loaded = hurray.load(path)
    assert list(loaded) == list(exchange.ours)
    for name, item in loaded.items():
        assert through_json(described(item)) == exchange.seen["own"][name], name
        same_values(item, exchange.ours[name])
    kv = hurray.load_kv(path)
    assert list(kv) == list(CODE["KV"])
    assert {k: shown(v) for k, v in kv.items()} == {k: shown(v) for k, v in CODE["KV"].items()}


def test_we_read_their_stream_and_write_it_again(exchange: Exchange) -> None:
    data = (exchange.folder / "theirs.hstream").read_bytes()
    items = list(hurray.StreamReader(data))
    for (name, want), item in zip(exchange.seen["own"].items(), items, strict=True):
        assert through_json(described(item)) == want, name
    with hurray.StreamWriter() as writer:
        for item in items:
            writer.write(item)
    assert writer.getvalue() == data


def test_our_round_trip_through_memory(exchange: Exchange) -> None:
    for name, item in hurray.load((exchange.folder / "ours.hrry").read_bytes()).items():
        if item.descriptor.layout.is_virtual:
            continue  # members that were read know their roles
        assert described(item) == described(exchange.ours[name]), name
        same_values(item, exchange.ours[name])
