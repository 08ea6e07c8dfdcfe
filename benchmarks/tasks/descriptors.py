"""Task 7: descriptors, a thousand different ones at a time so that nothing is remembered from the last round."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import hurray
from benchmarks.context import Context
from benchmarks.model import Case

_PLAIN = struct.Struct("<4sBBIIBBI2QQBQIBBBB")
_PEER_SETUP = """
blobs = [bytes.fromhex(h) for h in {blobs!r}]
read = hurray.Descriptor.decode
made = [read(b) for b in blobs]
"""


def descriptors(context: Context) -> Iterator[Case]:
    """Task 7."""
    count = context.size(1_000, 200)
    shapes = [(k % 97 + 1, k // 97 + 1) for k in range(count)]
    dense = [hurray.from_numpy(np.zeros(shape, np.float32)) for shape in shapes]
    quantized = [
        hurray.Tensor(
            bytes(64), hurray.dtype.int4, [k % 96 + 1, 1], aux_buffers=[bytes(4 * (k % 96 + 1))],
            quantization=hurray.PerChannelAffine.symmetric(0, 1),
        )
        for k in range(count)
    ]  # fmt: skip
    for title, tensors in (("row-major", dense), ("quantized, two buffers", quantized)):
        blobs = [t.descriptor.encode() for t in tensors]
        yield _decode(context, title, blobs, shapes)
        yield _encode(context, title, blobs)


def _fields(d: Any) -> tuple[Any, Any, Any]:
    return d.shape, d.dtype, d.layout


def _decode(context: Context, title: str, blobs: list[bytes], shapes: list[tuple[int, int]]) -> Case:
    decode = hurray.Descriptor.decode
    entries = [
        json.dumps({"dtype": "F32", "shape": list(s), "data_offsets": [0, 4 * s[0] * s[1]]}).encode() for s in shapes
    ]

    def ours() -> Any:
        return [_fields(decode(b)) for b in blobs]

    def json_entries() -> Any:
        found = [json.loads(e) for e in entries]
        return [(tuple(e["shape"]), e["dtype"], e["data_offsets"]) for e in found]

    def arrow(pa: Any) -> Callable[[], Any]:
        schemas = [pa.schema([(f"x{k}", pa.float32())]).serialize() for k in range(len(blobs))]
        return lambda: [pa.ipc.read_schema(s) for s in schemas]

    case = Case(f"decode descriptors ({title}), read shape, dtype and layout", n_items=len(blobs))
    if len(blobs[0]) == _PLAIN.size:
        case.limit("one struct.unpack each", lambda: [_PLAIN.unpack(b) for b in blobs])
    case.ours(
        "hurray",
        ours,
        check=lambda found: [d.encode() for d in map(decode, blobs)] == blobs and len(found) == len(blobs),
    )
    case.ours("hurray, fields not read", lambda: [decode(b) for b in blobs])
    case.peer("safetensors' JSON entry", lambda: json_entries)
    case.peer("pyarrow schema", arrow, "pyarrow")
    case.remote(
        "pyhurray", context.peer, "result = [((d := read(b)).shape, d.dtype, d.layout) for b in blobs]",
        setup=_PEER_SETUP.format(blobs=[b.hex() for b in blobs]), check=f"len(result) == {len(blobs)}",
    )  # fmt: skip
    if title == "row-major":
        case.goal("safetensors' JSON entry", 1.5)
    return case


def _encode(context: Context, title: str, blobs: list[bytes]) -> Case:
    made = [hurray.Descriptor.decode(b) for b in blobs]
    headers = [{"dtype": "F32", "shape": [k, 4], "data_offsets": [0, 16 * k]} for k in range(len(blobs))]

    def arrow(pa: Any) -> Callable[[], Any]:
        schemas = [pa.schema([(f"x{k}", pa.float32())]) for k in range(len(blobs))]
        return lambda: [s.serialize() for s in schemas]

    case = Case(f"encode descriptors ({title})", n_items=len(blobs))
    if len(blobs[0]) == _PLAIN.size:
        fields = [_PLAIN.unpack(b) for b in blobs]
        case.limit(
            "one struct.pack each", lambda: [_PLAIN.pack(*f) for f in fields], check=lambda found: found == blobs
        )
    case.ours("hurray", lambda: [d.encode() for d in made], check=lambda found: found == blobs)
    case.peer("safetensors' JSON entry", lambda: lambda: [json.dumps(h) for h in headers])
    case.peer("pyarrow schema", arrow, "pyarrow")
    case.remote(
        "pyhurray", context.peer, "result = [d.encode() for d in made]",
        setup=_PEER_SETUP.format(blobs=[b.hex() for b in blobs]), check="result == blobs",
    )  # fmt: skip
    return case
