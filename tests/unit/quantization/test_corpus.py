"""Every quantized artefact of the peer corpus dequantizes to the recorded float32, bit for bit, by every path."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import artefacts, corpus, peer_arrays
from hurray.descriptor.codec import decode_descriptor
from hurray.descriptor.model import Descriptor
from hurray.layouts import BlockPagedLayout, Payload, full_region
from hurray.layouts._region import axis_array, index_view
from hurray.quantization import Params, Scheme

Bytes = NDArray[np.uint8]


def _stream_items(artefact: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Bytes]]]:
    data = np.frombuffer((corpus("peer") / artefact["file"]).read_bytes(), np.uint8)
    at = 0
    for item in artefact["items"]:
        at += len(item["descriptor_hex"]) // 2
        buffers = []
        for handle in item["buffers"]:
            buffers.append(data[at : at + handle["byte_size"]])
            at += handle["byte_size"]
        yield item, buffers
    assert at == len(data)


def _file_items(artefact: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Bytes]]]:
    """Find the buffers of a file by their hashes, so that no container reader is needed here."""
    data = (corpus("peer") / artefact["file"]).read_bytes()
    for item in artefact["items"]:
        buffers = []
        for handle in item["buffers"]:
            size = handle["byte_size"]
            places = range(0, len(data) - size + 1, 64)
            at = next(k for k in places if sha256(data[k : k + size]).hexdigest() == handle["sha256"])
            buffers.append(np.frombuffer(data[at : at + size], np.uint8))
        yield item, buffers


def _items(wanted: str) -> list[Any]:
    return list(_find_items(wanted))


def _find_items(wanted: str) -> Iterator[Any]:
    reader = {"stream": _stream_items, "file": _file_items}
    for artefact in artefacts():
        relevant = [i for i in artefact.get("items", []) if i.get("type") == "tensor" and i.get(wanted)]
        plain = all(i.get("type") == "tensor" for i in artefact.get("items", []))
        if not relevant or artefact["kind"] not in reader or not plain:
            continue
        for k, (item, buffers) in enumerate(reader[artefact["kind"]](artefact)):
            if item.get(wanted):
                yield pytest.param(artefact, item, tuple(buffers), id=f"{artefact['id']}-{k}")


def _open(item: dict[str, Any], buffers: tuple[Bytes, ...]) -> tuple[Descriptor, Payload, Params]:
    raw = bytes.fromhex(item["descriptor_hex"])
    d = decode_descriptor(raw)
    shape = tuple(n or 0 for n in d.shape)
    lengths = item.get("sequence_tokens")
    payload = Payload(
        shape=shape,
        bits=d.dtype.bit_width,
        storage=d.dtype.storage,
        buffers=buffers,
        byte_offset=d.byte_offset,
        sequence_lengths=None if lengths is None else tuple(lengths),
    )
    return d, payload, Params(shape=shape, dtype=d.dtype, layout=d.layout, buffers=buffers)


def same_bits(got: Any, expected: Any) -> None:
    assert got.dtype == expected.dtype == np.float32
    assert got.shape == expected.shape
    assert np.array_equal(np.ascontiguousarray(got).view(np.uint32), np.ascontiguousarray(expected).view(np.uint32))


@pytest.mark.parametrize(("artefact", "item", "buffers"), _items("dequantized"))
def test_dequantize(artefact: dict[str, Any], item: dict[str, Any], buffers: tuple[Bytes, ...]) -> None:
    d, payload, params = _open(item, buffers)
    scheme = d.quantization
    assert isinstance(scheme, Scheme)
    expected = peer_arrays(artefact["arrays"])[item["dequantized"]]
    scheme.check_values(params)
    for spec in scheme.param_specs(params.shape, d.layout):
        assert len(buffers[spec.index]) == spec.n_bytes
    if isinstance(d.layout, BlockPagedLayout):
        tokens = np.arange(params.shape[0])
        codes = d.layout.read_all(payload)
        same_bits(scheme.dequantize_slots(codes, d.layout.slots(payload, tokens), params), expected)
        return
    codes = d.layout.read_all(payload)
    same_bits(scheme.dequantize(codes, full_region(params.shape), params), expected)
    coords = np.argwhere(np.ones(params.shape, bool))
    same_bits(scheme.dequantize_stored(codes.reshape(-1), coords, params), expected.reshape(-1))
    out = np.full(params.shape, np.nan, np.float32)
    if d.layout.name == "row_major" and scheme.dequantize_packed(params, d.byte_offset, out):
        same_bits(out, expected)


@pytest.mark.parametrize(("artefact", "item", "buffers"), _items("dequantized"))
def test_dequantize_regions(artefact: dict[str, Any], item: dict[str, Any], buffers: tuple[Bytes, ...]) -> None:
    d, payload, params = _open(item, buffers)
    scheme = d.quantization
    assert isinstance(scheme, Scheme)
    if isinstance(d.layout, BlockPagedLayout):
        pytest.skip("tokens are reached by slots")
    expected = peer_arrays(artefact["arrays"])[item["dequantized"]]
    rng = np.random.default_rng(len(buffers[0]))
    for _ in range(12):
        region = tuple(_axis(rng, n) for n in params.shape)
        codes = d.layout.read(payload, region)
        same_bits(scheme.dequantize(codes, region, params), index_view(expected, region))


def _axis(rng: np.random.Generator, n: int) -> Any:
    start, stop = sorted(rng.integers(0, n + 1, 2).tolist())
    kind = int(rng.integers(4))
    if kind == 0:
        return range(n)
    if kind == 1:
        return range(start, stop)
    if kind == 2:
        return range(start, stop, 3) if rng.random() < 0.5 else range(stop - 1, start - 1, -2)
    return axis_array(range(n))[rng.integers(0, n, int(rng.integers(0, 6)))] if n else range(0)


@pytest.mark.parametrize(("artefact", "item", "buffers"), _items("slots"))
def test_paged(artefact: dict[str, Any], item: dict[str, Any], buffers: tuple[Bytes, ...]) -> None:
    d, payload, _ = _open(item, buffers)
    layout = d.layout
    assert isinstance(layout, BlockPagedLayout)
    arrays = peer_arrays(artefact["arrays"])
    layout.validate(payload)
    table, ptr = layout.tables(payload)
    assert table.tolist() == item["block_table"]
    assert ptr.tolist() == item["seq_ptr"]
    assert list(layout.sequence_lengths(payload)) == item["sequence_tokens"]
    logical = arrays[item["logical"]]
    _same_numbers(d, layout.read_all(payload), logical)
    _same_numbers(d, layout.pool(payload)[table.astype(np.int64)], arrays[item["slots"]])
    start = 0
    for k, n in enumerate(item["sequence_tokens"]):
        _same_numbers(d, layout.read_sequence(payload, k), logical[start : start + n])
        start += n
    region = tuple(range(0, n, 2) for n in payload.shape)
    _same_numbers(d, layout.read(payload, region), index_view(logical, region))
    for spec, buffer in zip(layout.specs(payload.shape, payload.bits), buffers, strict=False):
        assert len(buffer) >= spec.n_bytes


def _same_numbers(d: Descriptor, codes: NDArray[Any], expected: NDArray[Any]) -> None:
    values = (codes.astype(np.uint32) << 16).view(np.float32) if d.dtype.name == "bfloat16" else codes
    assert np.array_equal(values.astype(expected.dtype), expected, equal_nan=True)
