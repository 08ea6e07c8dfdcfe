"""Values of every tensor that the published binding wrote, against arrays that were computed without either library.

Streams are cut by hand here (descriptor, then buffers back to back), so that this suite needs no reader of ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import helpers
import hurray
from hurray.descriptor.codec import decode_descriptor
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import codes_of, payload_of

_LIMIT = 4096


def _nodes(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield item
    for member in item.get("members", ()):
        yield from _nodes(member)


def _tensors() -> Iterator[tuple[str, Tensor, dict[str, Any], dict[str, Any]]]:
    for artefact in helpers.artefacts("stream"):
        data = (helpers.corpus("peer") / artefact["file"]).read_bytes()
        arrays = helpers.peer_arrays(artefact["arrays"]) if "arrays" in artefact else {}
        at = 0
        for k, item in enumerate(artefact["items"]):
            for n, node in enumerate(_nodes(item)):
                d = decode_descriptor(memoryview(data)[at:])
                at += d.encoded_len
                buffers = []
                for handle in d.buffer_handles:
                    buffers.append(np.frombuffer(data, np.uint8, handle.byte_size, at))
                    at += handle.byte_size
                if node["type"] == "tensor":
                    yield f"{artefact['id']}-{k}-{n}", Tensor._from_parts(d, buffers), node, arrays
        assert at == len(data)


ALL = list(_tensors())
IDS = [a[0] for a in ALL]


def _as_logical(array: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(invalid="ignore"):
        return array.astype(want.dtype)


@pytest.mark.parametrize(("t", "node", "arrays"), [a[1:] for a in ALL], ids=IDS)
def test_buffers(t: Tensor, node: dict[str, Any], arrays: dict[str, Any]) -> None:
    assert t.buffer_count == len(node["buffers"])
    for k, want in enumerate(node["buffers"]):
        content = t.buffer(k).to_numpy().tobytes()
        assert len(content) == want["byte_size"]
        assert hashlib.sha256(content).hexdigest() == want["sha256"]


@pytest.mark.parametrize(
    ("t", "node", "arrays"), [a[1:] for a in ALL if "logical" in a[2]], ids=[a[0] for a in ALL if "logical" in a[2]]
)
def test_logical_values(t: Tensor, node: dict[str, Any], arrays: dict[str, Any]) -> None:
    want = arrays[node["logical"]]
    lengths = node.get("sequence_tokens")
    stored = t.storage()
    stored.validate()
    got = stored.to_numpy(dtype=np.float64 if t.dtype.name == "float128" else None, sequence_lengths=lengths)
    assert got.shape == want.shape
    np.testing.assert_array_equal(_as_logical(got, want), want)
    codes, _ = codes_of(stored, payload_of(stored, lengths))
    if "codes" in node:
        expected = arrays[node["codes"]]
        raw = np.ascontiguousarray(codes)
        assert (raw.tobytes() if raw.dtype.kind == "V" else raw.astype(expected.dtype).tobytes()) == expected.tobytes()
    if "stored_codes" in node:
        values = stored.layout.values(payload_of(stored))  # type: ignore[attr-defined]
        assert np.ascontiguousarray(values).tobytes() == arrays[node["stored_codes"]].tobytes()
    if not t.layout.is_sparse and lengths is None and want.size:
        for at in list(np.ndindex(want.shape))[:_LIMIT:7]:
            element = stored[at] if t.dtype.name != "float128" else got[at]
            np.testing.assert_array_equal(_as_logical(np.asarray(element), want), want[at])


@pytest.mark.parametrize(
    ("t", "node", "arrays"),
    [a[1:] for a in ALL if "dequantized" in a[2]],
    ids=[a[0] for a in ALL if "dequantized" in a[2]],
)
def test_dequantized_values(t: Tensor, node: dict[str, Any], arrays: dict[str, Any]) -> None:
    want = arrays[node["dequantized"]]
    lengths = node.get("sequence_tokens")
    t.validate()
    got = t.dequantize(sequence_lengths=lengths).to_numpy()
    helpers.assert_same_bits(got, want)
    out = np.full(want.shape, np.nan, np.float32)
    t.dequantize(out=out, sequence_lengths=lengths)
    helpers.assert_same_bits(out, want)
    for refused in (t.to_numpy, t.__array__, lambda: t[...]):
        with pytest.raises(hurray.UnsupportedError, match=r"dequantize\(\).*storage\(\)"):
            refused()
    if want.ndim and want.size:
        key = (slice(None, None, 2), *[slice(None, None, -1)] * (want.ndim - 1))
        helpers.assert_same_bits(t.dequantize(key, sequence_lengths=lengths).to_numpy(), want[key])
        with np.errstate(over="ignore"):
            half = t.dequantize(dtype=hurray.float16, sequence_lengths=lengths).to_numpy()
            helpers.assert_same_bits(half, want.astype(np.float16))


@pytest.mark.parametrize(
    ("t", "node", "arrays"),
    [a[1:] for a in ALL if "slots" in a[2]],
    ids=[a[0] for a in ALL if "slots" in a[2]],
)
def test_paged_pool(t: Tensor, node: dict[str, Any], arrays: dict[str, Any]) -> None:
    want = arrays[node["slots"]]
    assert t.seq_ptr.to_numpy().tolist() == node["seq_ptr"]
    assert t.block_table.to_numpy().tolist() == node["block_table"]
    assert t.page_pool.shape[0] == t.layout.num_pages  # type: ignore[attr-defined]
    pages = t.storage().page_pool.to_numpy()[t.block_table.to_numpy()]
    np.testing.assert_array_equal(pages.astype(want.dtype), want)


@pytest.mark.parametrize(
    ("t", "node", "arrays"),
    [a[1:] for a in ALL if a[2]["layout"]["name"] in ("coo", "csr", "csc", "csf")],
    ids=[a[0] for a in ALL if a[2]["layout"]["name"] in ("coo", "csr", "csc", "csf")],
)
def test_sparse_lookup_equals_dense_indexing(t: Tensor, node: dict[str, Any], arrays: dict[str, Any]) -> None:
    if "logical" not in node or "dequantized" in node:
        return
    want = arrays[node["logical"]]
    coords = np.array(list(np.ndindex(want.shape)), np.int64).reshape(-1, want.ndim)
    got = t.lookup(coords)
    np.testing.assert_array_equal(got.astype(want.dtype), want.reshape(-1))
    where, values = t.nonzeros()
    dense = np.zeros(want.shape, want.dtype)
    dense[tuple(where.T)] = values.astype(want.dtype)
    np.testing.assert_array_equal(dense, want)
