"""The negative corpus, as far as schemes and block-paged tensors are concerned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers import corpus, negative_cases
from hurray.descriptor.codec import decode_descriptor, descriptor_length
from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.layouts import BlockPagedLayout, Payload, full_region
from hurray.quantization import Params, Scheme

_DESCRIPTORS = ("d-q-", "d-paged-", "ok-desc-q-")
_STREAMS = ("s-pca-", "s-pba-", "s-nf4-", "s-mxfp-", "s-paged-", "ok-stream-paged", "ok-stream-q")


def _cases(kind: str, prefixes: tuple[str, ...]) -> list[Any]:
    return [pytest.param(c, id=c["id"]) for c in negative_cases(kind) if c["id"].startswith(prefixes)]


@pytest.mark.parametrize("case", _cases("descriptor", _DESCRIPTORS))
def test_descriptors(case: dict[str, Any]) -> None:
    data = (corpus("negative") / case["file"]).read_bytes()
    if case["expect"] == "accept":
        assert decode_descriptor(data).encode() == data
        return
    with pytest.raises(InvalidDescriptorError) as caught:
        decode_descriptor(data)
    assert str(caught.value)


def _use(data: bytes, dequantize: bool) -> None:
    """Do with one tensor what a reader does, up to its values."""
    d = decode_descriptor(data)
    at = descriptor_length(data)
    buffers = []
    for handle in d.buffer_handles:
        buffers.append(np.frombuffer(data[at : at + handle.byte_size], np.uint8))
        at += handle.byte_size
    shape = tuple(n or 0 for n in d.shape)
    scheme = d.quantization
    for spec, buffer in zip(d.layout.specs(shape, d.dtype.bit_width, d.byte_offset), buffers, strict=False):
        if len(buffer) < spec.n_bytes:
            raise BufferError(spec.role)
    assert scheme is None or isinstance(scheme, Scheme)
    for param in () if scheme is None else scheme.param_specs(shape, d.layout):
        if len(buffers[param.index]) != param.n_bytes:
            raise BufferError(param.role)
    payload = Payload(shape=shape, bits=d.dtype.bit_width, storage=d.dtype.storage, buffers=tuple(buffers))
    d.layout.validate(payload)
    if scheme is None or isinstance(d.layout, BlockPagedLayout):
        # What is left to refuse must not need the lengths of the sequences.
        with pytest.raises(UnsupportedError, match="sequence_lengths"):
            d.layout.read_all(payload)
        assert d.layout.read_all(replace(payload, sequence_lengths=(4, 1))).shape == shape
        return
    params = Params(shape=shape, dtype=d.dtype, layout=d.layout, buffers=tuple(buffers))
    if dequantize:
        scheme.dequantize(d.layout.read_all(payload), full_region(shape), params)
    else:
        scheme.check_values(params)


@pytest.mark.parametrize("dequantize", [True, False])
@pytest.mark.parametrize("case", _cases("stream", _STREAMS))
def test_streams(case: dict[str, Any], dequantize: bool) -> None:
    data = (corpus("negative") / case["file"]).read_bytes()
    if case["expect"] == "accept":
        _use(data, dequantize)
        return
    with pytest.raises((InvalidDescriptorError, BufferError)):
        _use(data, dequantize)
