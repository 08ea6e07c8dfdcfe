"""Sparse payloads for the tests: from lists, and out of the corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import helpers
from hurray.descriptor import Descriptor, decode_descriptor
from hurray.layouts import LAYOUTS_BY_NAME, Encoded, Payload, SparseLayout

SPARSE = ("coo", "csr", "csc", "csf")


def payload(shape: tuple[int, ...], dtype: str, *buffers: Any, bits: int | None = None) -> Payload:
    """Return a payload whose first buffer is made from numbers of ``dtype`` and the others from u64 numbers."""
    storage = np.dtype(dtype)
    values = np.asarray(buffers[0], storage).reshape(-1).view(np.uint8)
    indices = [np.asarray(b, "<u8").reshape(-1).view(np.uint8) for b in buffers[1:]]
    return Payload(shape, storage.itemsize * 8 if bits is None else bits, storage, (values, *indices))


def of_encoded(encoded: Encoded, shape: tuple[int, ...], bits: int, storage: Any) -> tuple[Any, Payload]:
    """Return layout and payload of something encoded."""
    return encoded.layout, Payload(shape, bits, np.dtype(storage), encoded.buffers)


def sparse_class(name: str) -> type[SparseLayout]:
    """Return the class of a sparse layout."""
    found = LAYOUTS_BY_NAME[name]
    assert issubclass(found, SparseLayout)
    return found


def numbers(array: Any) -> list[int]:
    """Return an index buffer's content."""
    return np.asarray(array).view("<u8").tolist()  # type: ignore[no-any-return]


def split(data: bytes, start: int = 0) -> tuple[Descriptor, tuple[np.ndarray[Any, Any], ...], int]:
    """Return the tensor at ``start`` of a stream, descriptor and buffers back to back, and where the next begins."""
    descriptor = decode_descriptor(data[start:])
    at = start + descriptor.encoded_len
    buffers = []
    for handle in descriptor.buffer_handles:
        buffers.append(
            np.frombuffer(data, np.uint8, handle.byte_size, at) if handle.byte_size else np.empty(0, np.uint8)
        )
        at += handle.byte_size
    return descriptor, tuple(buffers), at


def payload_of(descriptor: Descriptor, buffers: tuple[Any, ...]) -> Payload:
    """Return the payload of a tensor."""
    shape = tuple(int(n) for n in descriptor.shape if n is not None)
    return Payload(shape, descriptor.element_bits, np.dtype(descriptor.dtype.storage), buffers)


def peer_tensors() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield id, artefact and item of every sparse tensor that the published binding wrote."""
    for artefact in helpers.artefacts("stream") + helpers.artefacts("file"):
        for k, item in enumerate(artefact["items"]):
            if item["type"] == "tensor" and item["layout"]["name"] in SPARSE:
                yield f"{artefact['id']}-{k}", artefact, item


def peer_payload(artefact: dict[str, Any], item: dict[str, Any]) -> tuple[Descriptor, Payload]:
    """Return descriptor and payload of a peer artefact's item, its buffers found by place or by their digests."""
    data = (helpers.corpus("peer") / artefact["file"]).read_bytes()
    wanted = bytes.fromhex(item["descriptor_hex"])
    if artefact["kind"] == "stream":
        at = 0
        while True:
            start = at
            descriptor, buffers, at = split(data, start)
            digests = [hashlib.sha256(b.tobytes()).hexdigest() for b in buffers]
            if data.startswith(wanted, start) and digests == [b["sha256"] for b in item["buffers"]]:
                return descriptor, payload_of(descriptor, buffers)
    descriptor = decode_descriptor(wanted)
    return descriptor, payload_of(descriptor, tuple(_in_file(data, b) for b in item["buffers"]))


def _in_file(data: bytes, buffer: dict[str, Any]) -> np.ndarray[Any, Any]:
    size = buffer["byte_size"]
    for at in range(0, len(data) - size + 1, 64):
        if hashlib.sha256(data[at : at + size]).hexdigest() == buffer["sha256"]:
            return np.frombuffer(data, np.uint8, size, at) if size else np.empty(0, np.uint8)
    raise AssertionError("the buffer is not in the file")
