from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import helpers
import sparse_cases
from hurray.descriptor import decode_descriptor
from hurray.dtypes.match import codes_to_numpy
from hurray.dtypes.table import Dtype
from hurray.errors import BufferError, HurrayError, InvalidDescriptorError
from hurray.layouts import SparseLayout, full_region

PEER = list(sparse_cases.peer_tensors())
NEGATIVE = [c for c in helpers.negative_cases() if c["id"].split("-")[1] in sparse_cases.SPARSE]
STREAMS = [c for c in helpers.negative_cases("stream") if c["id"].split("-")[1] in sparse_cases.SPARSE]
CONTROLS = [c for c in helpers.negative_cases("stream") if c["id"].startswith(("ok-stream-cs", "ok-stream-coo"))]


def assert_logical(dense: Any, dtype: Dtype, expected: Any) -> None:
    assert dense.shape == expected.shape
    if dtype.name == "float128":
        # NumPy has no such numbers; the stored codes are compared as they are, here only where they are.
        words = np.ascontiguousarray(dense).view("<u8").reshape(*dense.shape, 2)
        assert np.array_equal(words.any(axis=-1), expected != 0)
        return
    got = codes_to_numpy(dense, dtype).astype(expected.dtype)
    if dtype.name == "float8_e8m0":
        # The type has no zero: its code 0 only says that nothing is stored.
        got[dense == 0] = 0
    assert np.array_equal(got, expected, equal_nan=expected.dtype.kind in "fc")


@pytest.mark.parametrize(("artefact", "item"), [c[1:] for c in PEER], ids=[c[0] for c in PEER])
def test_peer_tensors(artefact: dict[str, Any], item: dict[str, Any]) -> None:
    descriptor, payload = sparse_cases.peer_payload(artefact, item)
    layout = descriptor.layout
    assert isinstance(layout, SparseLayout)
    layout.validate(payload)
    specs = layout.specs(payload.shape, payload.bits)
    assert all(len(b) >= s.n_bytes for b, s in zip(payload.buffers, specs, strict=True))
    arrays = helpers.peer_arrays(artefact["arrays"])
    expected = arrays[item["logical"]]
    dense = layout.read(payload, full_region(payload.shape))
    assert_logical(dense, descriptor.dtype, expected)
    coords, codes = layout.stored(payload)
    if "stored_codes" in item:
        assert helpers.bits(codes) == helpers.bits(arrays[item["stored_codes"]])
    assert len(coords) == layout.nnz == item["layout"]["nnz"]
    helpers.assert_same_bits(dense[tuple(coords.T)], np.ascontiguousarray(codes))
    assert layout.lookup(payload, coords).tolist() == list(range(layout.nnz))
    again = type(layout).from_coords(coords, codes, payload.shape, payload.bits, **layout.encode_options())
    assert again.layout == layout
    assert [b.tobytes() for b in again.buffers] == [b.tobytes() for b in payload.buffers]


def test_the_corpus_has_all_four_layouts() -> None:
    assert {item["layout"]["name"] for _, _, item in PEER} == set(sparse_cases.SPARSE)
    assert len(PEER) >= 70


@pytest.mark.parametrize("case", [c for c in NEGATIVE if c["kind"] == "descriptor"], ids=lambda c: c["id"])
def test_damaged_descriptors(case: dict[str, Any]) -> None:
    data = (helpers.corpus("negative") / case["file"]).read_bytes()
    if case["expect"] == "accept":
        decode_descriptor(data)
    else:
        with pytest.raises(InvalidDescriptorError):
            decode_descriptor(data)


@pytest.mark.parametrize("case", STREAMS, ids=lambda c: c["id"])
def test_damaged_buffers(case: dict[str, Any]) -> None:
    data = (helpers.corpus("negative") / case["file"]).read_bytes()
    descriptor, buffers, _ = sparse_cases.split(data)
    payload = sparse_cases.payload_of(descriptor, buffers)
    layout: Any = descriptor.layout
    specs = layout.specs(payload.shape, payload.bits)
    small = [s.role for b, s in zip(buffers, specs, strict=True) if len(b) < s.n_bytes]
    if case["id"].endswith("-short"):
        assert small
        with pytest.raises(BufferError):
            layout.validate(payload)
        return
    with pytest.raises(HurrayError) as caught:
        layout.validate(payload)
    assert layout.name in str(caught.value) or isinstance(caught.value, BufferError)


@pytest.mark.parametrize("case", CONTROLS, ids=lambda c: c["id"])
def test_controls(case: dict[str, Any]) -> None:
    descriptor, buffers, _ = sparse_cases.split((helpers.corpus("negative") / case["file"]).read_bytes())
    payload = sparse_cases.payload_of(descriptor, buffers)
    descriptor.layout.validate(payload)
    assert descriptor.layout.read(payload, full_region(payload.shape)).shape == payload.shape
