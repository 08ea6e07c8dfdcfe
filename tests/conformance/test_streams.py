"""Streams of the corpora: what must read reads and re-writes to the same bytes, what must be refused is."""

from __future__ import annotations

import hashlib
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import helpers
import hurray

STREAMS = helpers.artefacts("stream")


def rewritten(items: list[Any]) -> bytes:
    with hurray.StreamWriter() as w:
        for item in items:
            w.write(item)
    return w.getvalue()


def same_values(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got.astype(want.dtype), want)


def compare(item: Any, want: dict[str, Any], arrays: dict[str, Any]) -> int:
    """Compare an item with its entry in the manifest; return the number of tensors and heads looked at."""
    assert item.descriptor.encode().hex() == want["descriptor_hex"]
    assert list(item.shape) == want["shape"]
    if want["type"] == "composite":
        assert isinstance(item, hurray.Composite)
        assert (item.composition_rule, item.combine_op) == (want["rule"], want["combine_op"])
        if "logical" in want:
            same_values(item.to_numpy(), arrays[want["logical"]])
        return 1 + sum(compare(m, w, arrays) for m, w in zip(item.members, want["members"], strict=True))
    assert isinstance(item, hurray.Tensor)
    for buffer, about in zip(item._buffers, want["buffers"], strict=True):
        assert len(buffer) == about["byte_size"]
        assert hashlib.sha256(buffer.data).hexdigest() == about["sha256"]
        assert len(buffer) == 0 or buffer.ctypes.data % 64 == 0
    plain = want.get("quantization") is None and want["layout"]["name"] in ("row_major", "col_major", "strided")
    if plain and "logical" in want and want["dtype"] != "float128":
        same_values(item.to_numpy(), arrays[want["logical"]])
    return 1


@pytest.mark.parametrize("artefact", STREAMS, ids=[a["id"] for a in STREAMS])
def test_peer_stream(artefact: dict[str, Any]) -> None:
    data = (helpers.corpus("peer") / artefact["file"]).read_bytes()
    arrays = helpers.peer_arrays(artefact["arrays"]) if artefact.get("arrays") else {}
    items = list(hurray.StreamReader(data))
    for item, want in zip(items, artefact["items"], strict=True):
        assert compare(item, want, arrays) > 0
    assert rewritten(items) == data
    parser = hurray.StreamParser()
    pushed = [item for at in range(0, len(data), 97) for item in parser.feed(data[at : at + 97])]
    assert parser.eof() == []
    assert rewritten(pushed) == data


REFUSED = [c for c in helpers.negative_cases("stream") if c["strength"] != "ambiguous"]


@pytest.mark.parametrize("case", REFUSED, ids=[c["id"] for c in REFUSED])
def test_negative_stream(case: dict[str, Any]) -> None:
    data = (helpers.corpus("negative") / case["file"]).read_bytes()

    def read() -> None:
        items = list(hurray.StreamReader(data))
        if case["phase"] != "decode":
            for item in items:
                item.validate()

    tracemalloc.start()
    begin = time.perf_counter()
    try:
        if case["expect"] == "accept":
            read()
        else:
            with pytest.raises(hurray.HurrayError) as caught:
                read()
            assert str(caught.value)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.perf_counter() - begin < 1
    assert peak < 64 << 20


def test_every_decode_case_is_refused_while_reading() -> None:
    for case in helpers.negative_cases("stream", "decode"):
        if case["expect"] == "accept":
            continue
        with pytest.raises((hurray.StreamError, hurray.InvalidDescriptorError, hurray.BufferError)):
            list(hurray.StreamReader((helpers.corpus("negative") / case["file"]).read_bytes()))
