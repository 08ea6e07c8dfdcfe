"""Hostile input: items of every kind as records, ways to damage them, and everything a user may do with what opens.

A record is what a file or a stream holds of one tensor: the descriptor's bytes and the bytes of each buffer.  A battery
is run on a tensor whose buffers lie in a larger piece of memory, once for each of two fillings of what surrounds them
(and of what ``numpy.empty`` gives): answers that differ were read from somewhere else than the buffers.
"""

from __future__ import annotations

import builtins
import copy
import io
import itertools
import pickle
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import google_crc32c
import numpy as np

import file_cases
import hurray
from hurray.container.kv import encode_kv
from hurray.descriptor.codec import decode_descriptor
from hurray.tensor.plan import plan_item
from hurray.wire.reader import Field

__all__ = ["SPECIALS", "Record", "battery", "damage", "form", "items_of", "own_items", "quiet_memory"]


class Record(NamedTuple):
    """One tensor as bytes."""

    descriptor: bytes
    buffers: tuple[bytes, ...]


#: numbers that break arithmetic
SPECIALS = (
    0, 1, 2, 3, 7, 8, 63, 64, 65, 127, 128, 255, 256, 4095, 4096, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 2,
    2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**60, 2**61, 2**62, 2**63 - 8, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 4096,
    2**64 - 64, 2**64 - 8, 2**64 - 2, 2**64 - 1,
)  # fmt: skip


def items_of(item: Any) -> list[Record]:
    """Return a tensor or a composite as records, heads before their members."""
    return [Record(plan.descriptor, tuple(b.tobytes() for b in plan.buffers)) for _, plan in plan_item("x", item)]


def _numbers(shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.5, 0, rng.integers(1, 100, shape))


def _dense_items() -> Iterator[Any]:
    names = (
        "float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint32", "int64", "uint64", "bool",
        "float8_e4m3", "float8_e5m2", "float4_e2m1", "float6_e2m3", "float6_e3m2", "int4", "uint4", "int2", "uint2",
        "complex64", "complex128", "float128",
    )  # fmt: skip
    for k, name in enumerate(names):
        dtype = hurray.dtype.Dtype.from_name(name)
        t = hurray.asarray((_numbers((3, 5), k) % (2 if "2" in name[-1] else 3)).astype(np.float64), dtype=dtype)
        yield t
        for layout, options in (
            ("col_major", {}), ("strided", {}), ("tiled", {"tile_shape": [2, 4]}), ("morton", {}), ("coo", {}),
            ("csr", {}), ("csc", {}),
        ):  # fmt: skip
            if k % 4 == 0 or layout in ("tiled", "morton"):
                yield t.to_layout(layout, **options)
        if k % 3 == 0:
            cube = hurray.asarray((_numbers((2, 3, 4), k) % 2).astype(np.float64), dtype=dtype)
            yield cube.to_layout("csf", mode_order=[2, 0, 1])
            yield hurray.asarray((_numbers((4, 4), k) % 2).astype(np.float64), dtype=dtype).to_layout("hilbert")
    e8m0 = np.arange(1, 13, dtype=np.uint8)
    yield hurray.Tensor(e8m0, hurray.dtype.float8_e8m0, [3, 4])
    yield hurray.Tensor(
        e8m0, hurray.dtype.float8_e8m0, [3, 4], layout=hurray.CooLayout(2, True),
        aux_buffers=[np.array([0, 1, 2, 3], "<u8")],
    )  # fmt: skip


def _odd_items() -> Iterator[Any]:
    e8m0, uint4 = hurray.dtype.float8_e8m0, hurray.dtype.uint4
    yield hurray.Tensor(np.arange(1, 25, dtype=np.uint8), e8m0, [3, 4], layout=hurray.StridedLayout([6, 1]))
    yield hurray.Tensor(np.arange(1, 25, dtype=np.uint8), e8m0, [6, 4], layout=hurray.TiledLayout([2, 2]))
    yield hurray.Tensor(b"\x21" * 16, uint4, [3, 4], layout=hurray.StridedLayout([0, 1]), byte_offset=3)
    yield hurray.Tensor(b"\x21" * 16, hurray.float16, [5, 3], layout=hurray.StridedLayout([1, 1]))
    yield hurray.Tensor(b"", hurray.int16, [0, 2**40, 2**20])
    yield hurray.Tensor(
        b"", hurray.float32, [6, 0, 4], layout=hurray.BlockPagedLayout(4, 3, 0, 2),
        aux_buffers=[np.array([0, 2], "<u4"), np.array([0, 1, 2], "<u4")],
    )  # fmt: skip
    for shape in ((0, 7), (7, 0), (5, 0, 2**40), (2**40, 2**20, 0)):
        rank = len(shape)
        for layout in (
            hurray.ColMajorLayout(), hurray.StridedLayout([3] * rank), hurray.TiledLayout([2] * rank),
            hurray.MortonLayout([3] * rank), hurray.CooLayout(0, True),
        ):  # fmt: skip
            for dtype in (hurray.int16, uint4, hurray.bool):
                try:
                    layout.validate_against_shape(shape)
                    sizes = [spec.n_bytes for spec in layout.specs(shape, dtype.bit_width)]
                except hurray.HurrayError:
                    continue
                if sum(sizes) < 1 << 16:
                    buffers = [bytes(n) for n in sizes]
                    yield hurray.Tensor(buffers[0], dtype, shape, layout=layout, aux_buffers=buffers[1:])
    empty = hurray.PerChannelAffine.symmetric(0, 1)
    yield hurray.Tensor(b"", hurray.int8, [0, 4], aux_buffers=[b""], quantization=empty)
    blocks = hurray.NF4(1, 8, 1)
    yield hurray.Tensor(b"", uint4, [0, 16], aux_buffers=[b""], quantization=blocks)
    wide = (2**63 + 9, 2**64 - 2)
    yield hurray.Tensor(
        np.array([1.0, 2.0]), hurray.float64, wide, layout=hurray.CooLayout(2, True),
        aux_buffers=[np.array([1, 2, 2**63 + 8, 2**64 - 3], "<u8")],
    )  # fmt: skip
    yield hurray.Tensor(
        np.array([1.0, 2.0]), hurray.float64, [2, 2**64 - 2], layout=hurray.CsrLayout(2),
        aux_buffers=[np.array([3, 2**64 - 3], "<u8"), np.array([0, 1, 2], "<u8")],
    )  # fmt: skip
    yield hurray.zeros([])
    yield hurray.zeros([0, 3])
    yield hurray.from_numpy(np.broadcast_to(np.arange(4.0), (3, 4)))
    yield hurray.from_numpy(np.arange(12.0)[::-2])
    yield hurray.from_numpy(np.arange(24.0).reshape(4, 6)[::2, ::-3])
    yield hurray.Tensor(np.arange(64.0), hurray.float64, [4, 6], layout=hurray.StridedLayout([-7, 1]), byte_offset=240)
    inner = hurray.TiledLayout([2, 1], "col_major", "col_major")
    yield hurray.asarray(_numbers((5, 7)).astype(np.int16)).to_layout(
        hurray.TiledLayout([4, 2], "row_major", "tiled", inner_tiled=inner)
    )
    strided = hurray.TiledLayout([2, 2], "strided", "strided", outer_strides=[3, 1], inner_strides=[2, 1])
    yield hurray.asarray(_numbers((4, 5)).astype(np.int16)).to_layout(strided)
    yield hurray.Tensor(
        np.zeros(512, np.uint8), hurray.uint8, [3, 5, 2], layout=hurray.MortonLayout([2, 3, 1]), byte_offset=1
    )
    extension = hurray.ExtensionType(24, is_signed=True)
    yield hurray.Tensor(bytes(36), hurray.dtype.Dtype.from_tag(0xF1), [3, 4], extension_type=extension)
    yield hurray.Tensor(
        bytes(36), hurray.dtype.Dtype.from_tag(0xF1), [3, 4], extension_type=hurray.ExtensionType(2),
        layout=hurray.ColMajorLayout(),
    )  # fmt: skip
    private = hurray.PrivateExtensionLayout(0xF2, 77, b"abc")
    yield hurray.Tensor(bytes(36), hurray.float32, [3, None], layout=private, aux_buffers=[b"xyz"])
    yield hurray.Tensor(bytes(36), hurray.float32, [None, 3])
    t = hurray.asarray(_numbers((4, 6)).astype(np.float32))
    stats = hurray.compute_statistics(t, pattern=True)
    yield hurray.Tensor(t.to_numpy(), hurray.float32, [4, 6], statistics=stats, shard=hurray.Shard([8, 6], [4, 0]))
    gpu = hurray.Device("cuda", 0, "standard")
    yield hurray.Tensor(bytes(16), hurray.float32, [4], gpu)


def _quantized_items() -> Iterator[Any]:
    for k, name in enumerate(sorted(hurray.RECIPES)):
        x = np.random.default_rng(k).standard_normal((4, 64)).astype(np.float32)
        options: dict[str, Any] = {}
        if "per_block" in name:
            options = {"block_size": 16, "symmetric": name.startswith("int")}
        elif name.startswith("mx") or name == "nf4":
            options = {"block_size": 32}
        yield hurray.quantize(x, name, **options)
        if k % 2 and "32" not in name:
            yield hurray.quantize(hurray.asarray(x * (np.abs(x) > 1)).to_layout("csr"), name, **options)
        if k % 3 == 0:
            yield hurray.quantize(x, name, **options).to_layout("tiled", tile_shape=[3, 8])
        if "per_channel" in name:
            yield hurray.quantize(x[:, :5], name, axis=1, symmetric=name.startswith("int"))
    cube = _numbers((3, 4, 4)).astype(np.float32)
    yield hurray.quantize(hurray.asarray(cube).to_layout("csf"), "int8_per_block", block_size=4, axis=1)
    scheme = hurray.PerBlockAffine.asymmetric(0, 2, 1, 1)
    both = np.concatenate([np.full(4, 2.0, "<f4").view(np.uint8), np.zeros(4, "<i4").view(np.uint8)])
    yield hurray.Tensor(bytes(8), hurray.int8, [4, 2], aux_buffers=[both], quantization=scheme)


def _paged_items() -> Iterator[Any]:
    for kind, symmetric in (("uint32", True), ("uint64", False)):
        layout = hurray.BlockPagedLayout(2, 5, 0, 2, "fused", 3, kind)
        pool = (_numbers((10, 2, 4)) % 5).astype(np.float32)
        index = np.dtype("<u4" if kind == "uint32" else "<u8")
        table, ptr = np.array([1, 3, 3, 0], index), np.array([0, 3, 4], index)
        t = hurray.Tensor(pool, hurray.float32, [7, 2, 4], layout=layout, aux_buffers=[table, ptr])
        yield t
        lengths = [5, 2]
        for name in ("int8", "int4_per_block", "int8_per_channel"):
            options: dict[str, Any] = {} if name == "int8" else {"symmetric": symmetric}
            if name == "int8_per_channel":
                options["axis"] = 1
            yield hurray.quantize(t, name, sequence_lengths=lengths, **options)


def _composites() -> Iterator[Any]:
    x = _numbers((8, 8)).astype(np.float32)
    parts = list(hurray.shard(x, (2, 2)))
    parts[1] = parts[1].to_layout("csr")
    parts[2] = hurray.quantize(parts[2], "int8")
    yield hurray.Composite("partition", shape=(8, 8), dtype=hurray.float32, members=parts)
    whole = hurray.Shard((4, 4), (0, 0))
    base = hurray.Tensor(x[:4, :4].copy(), hurray.float32, [4, 4], shard=whole)
    box = hurray.Tensor(x[4:6, :2].copy(), hurray.float32, [2, 2], shard=hurray.Shard((4, 4), (1, 2)))
    sparse = hurray.Tensor(
        np.array([5, 6], "<f4"), hurray.float32, [4, 4], layout=hurray.CooLayout(2, True),
        aux_buffers=[np.array([0, 1, 3, 3], "<u8")], shard=whole,
    )  # fmt: skip
    for op in ("replace", "add"):
        yield hurray.Composite(
            "overlay", shape=(4, 4), dtype=hurray.float32, members=[base, box, sparse], combine_op=op
        )
    yield hurray.Composite("group", shape=(), dtype=hurray.float32, members=[hurray.zeros([2]), hurray.ones([3, 1])])
    yield hurray.Composite("group", shape=(), dtype=hurray.float32, members=[])
    halves = list(hurray.shard(x[:4], (2, 1)))
    inner = hurray.Composite(
        "partition", shape=(4, 8), dtype=hurray.float32, members=halves, shard=hurray.Shard((8, 8), (0, 0))
    )
    other = hurray.Tensor(x[4:].copy(), hurray.float32, [4, 8], shard=hurray.Shard((8, 8), (4, 0)))
    yield hurray.Composite("partition", shape=(8, 8), dtype=hurray.float32, members=[inner, other])


def own_items() -> list[list[Record]]:
    """Return small items of every layout, scheme and rule, as records."""
    sources = (_dense_items, _odd_items, _quantized_items, _paged_items, _composites)
    return [items_of(item) for source in sources for item in source()]


# Damage


def traced(descriptor: bytes) -> list[Field]:
    """Return the fields of a descriptor, as far as it can be read."""
    trace: list[Field] = []
    try:
        decode_descriptor(descriptor, permissive=True, trace=trace)
    except hurray.HurrayError:
        pass
    return trace


def _number(rng: random.Random, width: int, old: int, others: list[int]) -> bytes:
    kind = rng.random()
    if kind < 0.45:
        value = rng.choice(SPECIALS)
    elif kind < 0.65:
        value = old + rng.choice((-2, -1, 1, 2, 8, 64))
    elif kind < 0.75:
        value = old * rng.choice((2, 3, 2**32)) + rng.randrange(2)
    elif kind < 0.9:
        value = rng.choice(others)
    else:
        value = rng.getrandbits(8 * width)
    return (value & (1 << 8 * width) - 1).to_bytes(width, "little")


def damage_descriptor(rng: random.Random, descriptor: bytes, others: list[bytes]) -> bytes:
    """Return a descriptor with a few fields, sections or bytes changed."""
    data = bytearray(descriptor)
    fields = traced(descriptor)
    values = [f.value for f in fields if isinstance(f.value, int)] or [0]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        kind = rng.random()
        if kind < 0.75 and fields:
            field = rng.choice(fields)
            if field.offset < 6 and rng.random() < 0.9:
                continue
            if field.n_bytes in (1, 2, 4, 8) and field.offset + field.n_bytes <= len(data):
                old = int.from_bytes(data[field.offset : field.offset + field.n_bytes], "little")
                data[field.offset : field.offset + field.n_bytes] = _number(rng, field.n_bytes, old, values)
        elif kind < 0.85:
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.9:
            at, n = rng.randrange(len(data)), rng.randrange(1, 24)
            del data[at : at + n]
        elif kind < 0.95:
            at, n = rng.randrange(len(data)), rng.randrange(1, 24)
            data[at:at] = data[at : at + n]
        else:
            other = rng.choice(others)
            at = rng.randrange(min(len(data), len(other)))
            data[at:] = other[at:]
        if len(data) < 10:
            data = bytearray(descriptor)
    if rng.random() < 0.85:
        data[6:10] = len(data).to_bytes(4, "little")
    return bytes(data)


def damage_buffer(rng: random.Random, buffer: bytes) -> bytes:
    """Return a buffer with some of its numbers changed, or cut or lengthened."""
    data = bytearray(buffer)
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind = rng.random()
        width = rng.choice((8, 8, 8, 4, 1))
        if kind < 0.75 and len(data) >= width:
            at = rng.randrange(len(data) // width) * width
            old = int.from_bytes(data[at : at + width], "little")
            other = rng.randrange(len(data) // width) * width
            data[at : at + width] = _number(rng, width, old, [int.from_bytes(data[other : other + width], "little")])
        elif kind < 0.82 and len(data) >= 2 * width:
            a, b = (rng.randrange(len(data) // width) * width for _ in range(2))
            data[a : a + width], data[b : b + width] = data[b : b + width], data[a : a + width]
        elif kind < 0.88:
            del data[rng.randrange(len(data) + 1) :]
        elif kind < 0.94:
            data += rng.randbytes(rng.choice((1, 4, 8, 16)))
        elif data:
            data[:] = rng.randbytes(len(data))
    return bytes(data)


def _with_sizes(descriptor: bytes, sizes: list[int]) -> bytes:
    """Write true buffer sizes into a descriptor, so that what is left is judged."""
    data = bytearray(descriptor)
    for field in traced(descriptor):
        if field.path.startswith("buffers[") and field.path.endswith(".byte_size"):
            k = int(field.path[8:].split("]")[0])
            if k < len(sizes):
                data[field.offset : field.offset + 8] = sizes[k].to_bytes(8, "little")
    return bytes(data)


def damage(rng: random.Random, records: list[Record], pool: list[list[Record]]) -> list[Record]:
    """Return records with damaged descriptors, buffers or order."""
    result = list(records)
    for _ in range(rng.choice((1, 1, 2))):
        k = rng.randrange(len(result))
        descriptor, buffers = result[k]
        kind = rng.random()
        if kind < 0.55 or not buffers:
            others = [rng.choice(pool)[0].descriptor for _ in range(2)]
            descriptor = damage_descriptor(rng, descriptor, others)
        if kind >= 0.45 and buffers:
            at = rng.randrange(len(buffers))
            buffers = (*buffers[:at], damage_buffer(rng, buffers[at]), *buffers[at + 1 :])
            if rng.random() < 0.8:
                descriptor = _with_sizes(descriptor, [len(b) for b in buffers])
        result[k] = Record(descriptor, buffers)
    if len(result) > 1 and rng.random() < 0.2:
        kind = rng.random()
        if kind < 0.4:
            a, b = rng.randrange(len(result)), rng.randrange(len(result))
            result[a], result[b] = result[b], result[a]
        elif kind < 0.6:
            result.pop(rng.randrange(len(result)))
        elif kind < 0.8:
            result.insert(rng.randrange(len(result) + 1), rng.choice(rng.choice(pool)))
        else:
            result[rng.randrange(len(result))] = rng.choice(rng.choice(pool))
    return result


# Forming


@contextmanager
def quiet_memory(filling: int) -> Iterator[None]:
    """Let ``numpy.empty`` give memory with one known byte everywhere, so that reading it shows."""
    empty, like = np.empty, np.empty_like

    def filled(array: Any) -> Any:
        if 0 < array.nbytes <= 1 << 22 and not array.dtype.hasobject and array.base is None:
            array.reshape(-1, order="A").view(np.uint8)[:] = filling
        return array

    numpy: Any = np
    numpy.empty = lambda *args, **kwargs: filled(empty(*args, **kwargs))
    numpy.empty_like = lambda *args, **kwargs: filled(like(*args, **kwargs))
    try:
        yield
    finally:
        numpy.empty, numpy.empty_like = empty, like


def _placed(buffer: bytes, size: int, filling: int) -> Any:
    """Return ``size`` bytes of a buffer inside a larger piece of memory full of ``filling``."""
    margin = 512
    memory = np.full(2 * margin + size, filling, np.uint8)
    part = memory[margin : margin + size]
    data = (buffer * (size // len(buffer) + 1) if buffer else bytes(size))[:size]
    part[:] = np.frombuffer(data, np.uint8)
    part.flags.writeable = False
    return part


def form(records: list[Record], *, permissive: bool, filling: int) -> list[Any]:
    """Form tensors and composites from records as readers do; raise the library's errors."""
    assembler = hurray.tensor.assembly.Assembler(permissive=permissive)
    done: list[Any] = []
    for descriptor, buffers in records:
        d = decode_descriptor(descriptor, permissive=permissive)
        if d.is_head:
            done += assembler.push(d, None)
            continue
        sizes = [h.byte_size for h in d.buffer_handles]
        if sum(sizes) > 1 << 20:
            # As long as a buffer is not there, no reader forms the tensor.
            hurray.tensor.forming.check_sizes(d, sizes)
            raise hurray.FileError("buffers of that size are not there")
        given = [buffers[k] if k < len(buffers) else b"" for k in range(len(sizes))]
        views = [_placed(b, n, filling) for b, n in zip(given, sizes, strict=True)]
        done += assembler.push(d, hurray.Tensor._from_parts(d, views, permissive=permissive))
    done += assembler.finish()
    return [item for _, item in done]


# Everything a user may do


def shown(value: Any) -> Any:
    """Return an answer in a form that two runs can compare."""
    if isinstance(value, (hurray.Tensor, hurray.Composite)):
        return [(r.descriptor, r.buffers) for r in items_of(value)]
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes() if value.nbytes < 1 << 22 else None)
    if isinstance(value, np.generic):
        return (str(value.dtype), value.tobytes())
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    return repr(value)


Op = tuple[str, Callable[[Any, random.Random], Any], tuple[type[BaseException], ...]]
_ACCESS = (AttributeError,)
_INDEX = (IndexError,)


def _key(t: Any, rng: random.Random) -> Any:
    entries: list[Any] = []
    for n in t.shape:
        n = n or 1
        kind = rng.randrange(6)
        last = min(n, 2**40)
        if kind == 0:
            entries.append(rng.randrange(-last, last))
        elif kind == 1:
            entries.append(slice(None, None, rng.choice((1, 2, -1, -3))) if n < 1000 else slice(n - 2, None))
        elif kind == 2:
            start = rng.randrange(last)
            entries.append(slice(start, start + 3))
        elif kind == 3:
            entries.append([rng.randrange(last) for _ in range(2)])
        elif kind == 4:
            entries.append(slice(0, 0))
        else:
            entries.append(slice(max(0, n - 3), n))
    return tuple(entries)


def _coords(t: Any, rng: random.Random) -> Any:
    shape = [n or 0 for n in t.shape]
    if 0 in shape:
        return np.empty((0, len(shape)), np.int64)
    return np.array([[rng.randrange(min(n, 2**63 - 1)) for n in shape] for _ in range(5)], np.int64).reshape(5, -1)


def _save(t: Any, _: random.Random) -> Any:
    target = io.BytesIO()
    hurray.save(target, {"x": t}, kv={"k": 1})
    return target.getvalue()


def _stream(t: Any, _: random.Random) -> Any:
    with hurray.StreamWriter() as writer:
        writer.write(t)
        writer.finish()
        data = writer.getvalue()
    return [data, list(hurray.StreamReader(data))]


def _options(name: str, t: Any, rng: random.Random) -> dict[str, Any]:
    if name == "tiled":
        return {"tile_shape": [rng.choice((1, 2, 3)) for _ in t.shape]}
    if name == "csf":
        return {"mode_order": rng.sample(range(t.ndim), t.ndim)}
    if name == "block_paged":
        return {"page_size": 2}
    return {}


def _to_layout(name: str) -> Callable[[Any, random.Random], Any]:
    return lambda t, rng: t.to_layout(name, **_options(name, t, rng))


def _everything(t: Any, rng: random.Random) -> Any:
    d = t.descriptor
    assert decode_descriptor(d.encode(), permissive=True) == d or t._permissive
    return [
        repr(d), hash(d), d == d, d.encoded_len, repr(d.layout), repr(d.quantization), repr(d.statistics),
        repr(d.shard), repr(d.extension_type), d.buffer_handles, d.element_bits, t.shape, t.ndim, t.nbytes, t.dtype,
        t.device, t.buffer_count, dir(t),
    ]  # fmt: skip


def _displayed(t: Any, rng: random.Random) -> Any:
    with hurray.print_options(sparse_display="content"):
        return [repr(t), str(t)]


def _native(t: Any, rng: random.Random) -> Any:
    return hurray.from_hurray(t)


def _level(name: str) -> Callable[[Any, random.Random], Any]:
    return lambda t, rng: [getattr(t, name)(k) for k in range(t.ndim)]


def _conversions(t: Any, rng: random.Random) -> Any:
    convert = rng.choice((hurray.to_scipy, hurray.to_sparse, hurray.to_arrow))
    return type(convert(t)).__name__


OPS: list[Op] = [
    ("repr", lambda t, r: repr(t), ()),
    ("str", lambda t, r: str(t), ()),
    ("display", _displayed, ()),
    ("everything", _everything, ()),
    ("size", lambda t, r: t.size, ()),
    ("to_numpy", lambda t, r: t.to_numpy(), ()),
    ("to_numpy(copy=False)", lambda t, r: t.to_numpy(copy=False), ()),
    ("to_numpy(float64)", lambda t, r: t.to_numpy(dtype=np.float64), ()),
    ("to_numpy(lengths)", lambda t, r: t.to_numpy(sequence_lengths=[3, r.randrange(9)]), ()),
    ("asarray", lambda t, r: np.asarray(t), ()),
    ("t[...]", lambda t, r: t[...], ()),
    ("t[key]", lambda t, r: t[_key(t, r)], _INDEX),
    ("t[0]", lambda t, r: t[0], _INDEX),
    ("t[-1, ..., 0]", lambda t, r: t[-1, ..., 0], _INDEX),
    ("lookup", lambda t, r: t.lookup(_coords(t, r)), _INDEX),
    ("nonzeros", lambda t, r: t.nonzeros(), ()),
    ("nonzeros(storage)", lambda t, r: t.nonzeros("storage"), ()),
    ("validate", lambda t, r: t.validate(), ()),
    ("dequantize", lambda t, r: t.dequantize(), ()),
    ("dequantize(key)", lambda t, r: t.dequantize(_key(t, r), dtype=hurray.float64), _INDEX),
    ("dequantize(lengths)", lambda t, r: t.dequantize(sequence_lengths=[5, 2]), ()),
    ("scales", lambda t, r: t.scales(), ()),
    ("zero_points", lambda t, r: t.zero_points(), ()),
    ("storage", lambda t, r: t.storage(), ()),
    ("storage.to_numpy", lambda t, r: t.storage().to_numpy(), ()),
    ("T", lambda t, r: t.T, (ValueError,)),
    ("transpose", lambda t, r: t.transpose(*r.sample(range(t.ndim), t.ndim)), ()),
    ("transpose.to_numpy", lambda t, r: t.transpose().to_numpy(), ()),
    ("nnz", lambda t, r: t.nnz, _ACCESS),
    ("mode_order", lambda t, r: t.mode_order, _ACCESS),
    *((name, lambda t, r, n=name: getattr(t, n), _ACCESS) for name in (
        "values", "indices", "col_indices", "row_ptr", "row_indices", "col_ptr", "page_pool", "block_table", "seq_ptr",
    )),
    ("values.to_numpy", lambda t, r: t.values.to_numpy(), _ACCESS),
    ("pos", _level("pos"), _ACCESS),
    ("crd", _level("crd"), _ACCESS),
    ("buffer", lambda t, r: [t.buffer(k) for k in range(t.buffer_count)], ()),
    ("buffer(n)", lambda t, r: t.buffer(t.buffer_count), _INDEX),
    ("len", lambda t, r: len(t), (TypeError,)),
    ("iter", lambda t, r: list(itertools.islice(t, 2)), (TypeError,)),
    ("dlpack", lambda t, r: np.from_dlpack(t), (builtins.BufferError, RuntimeError)),
    ("from_dlpack", lambda t, r: hurray.from_dlpack(t), (builtins.BufferError,)),
    ("native", _native, ()),
    ("pickle", lambda t, r: pickle.loads(pickle.dumps(t, protocol=r.choice((2, 4, 5)))), ()),
    ("deepcopy", lambda t, r: copy.deepcopy(t), ()),
    ("save", _save, ()),
    ("stream", _stream, ()),
    ("statistics", lambda t, r: hurray.compute_statistics(t, pattern=True), ()),
    ("quantize", lambda t, r: hurray.quantize(t, r.choice(sorted(hurray.RECIPES))), ()),
    ("error", lambda t, r: hurray.quantization_error(t.dequantize(), t), ()),
    ("convert", _conversions, ()),
    ("asarray(copy)", lambda t, r: hurray.asarray(t, copy=True), ()),
    ("asarray(dtype)", lambda t, r: hurray.asarray(t, dtype=r.choice((hurray.float32, hurray.int8, hurray.bool))), ()),
    *((f"to_layout({name})", _to_layout(name), (TypeError,) if name == "block_paged" else ()) for name in (
        "row_major", "col_major", "strided", "tiled", "morton", "hilbert", "coo", "csr", "csc", "csf", "block_paged",
    )),
]  # fmt: skip

COMPOSITE_OPS: list[Op] = [
    ("repr", lambda c, r: repr(c), ()),
    ("to_numpy", lambda c, r: c.to_numpy(), ()),
    ("to_numpy(float64)", lambda c, r: c.to_numpy(dtype=np.float64), ()),
    ("c[...]", lambda c, r: c[...], ()),
    ("c[key]", lambda c, r: c[_key(c, r)], _INDEX),
    ("c[points]", lambda c, r: c[tuple(_coords(c, r).T)], _INDEX),
    ("validate", lambda c, r: c.validate(), ()),
    ("pickle", lambda c, r: pickle.loads(pickle.dumps(c)), ()),
    ("deepcopy", lambda c, r: copy.deepcopy(c), ()),
    ("save", _save, ()),
    ("stream", _stream, ()),
    ("parts", lambda c, r: [c.members, c.member_roles, c.member_count, c.size, c.shard, repr(c.layout)], ()),
    ("roles", lambda c, r: [repr(c.descriptor), hash(c.descriptor), c.statistics, c.extension_type], ()),
]


class Escaped(AssertionError):
    """Something other than the library's own errors came out."""


def battery(
    item: Any, seed: int, *, n_ops: int | None = None, guard: Callable[[str], Any] | None = None
) -> list[tuple[str, Any]]:
    """Do a random selection (all, by default) of what users do, and return what came out of each.

    Raises
    ------
    Escaped
        An operation raised something that it does not promise.
    """
    rng = random.Random(seed)
    ops = COMPOSITE_OPS if isinstance(item, hurray.Composite) else OPS
    chosen = rng.sample(ops, min(len(ops), n_ops)) if n_ops else ops
    answers: list[tuple[str, Any]] = []
    for name, do, allowed in chosen:
        expected: tuple[type[BaseException], ...] = (hurray.HurrayError, *allowed)
        own = random.Random(rng.getrandbits(32))
        if guard is not None:
            guard(name)
        try:
            answers.append((name, shown(do(item, own))))
        except expected as error:
            answers.append((name, f"{type(error).__name__}: {error}"))
        except np.exceptions.ComplexWarning:
            pass  # NumPy's word to those who ask for real numbers
        except Exception as error:
            raise Escaped(f"{name}: {type(error).__name__}: {error}") from error
    if isinstance(item, hurray.Composite):
        for member in item.members:
            answers += battery(member, seed, n_ops=n_ops, guard=guard)
    return answers


def cut(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few of them changed, cut out, doubled or replaced by numbers that break arithmetic."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not result:
            break
        at = rng.randrange(len(result))
        kind = rng.random()
        if kind < 0.3:
            result[at] = rng.randrange(256)
        elif kind < 0.6:
            width = rng.choice((1, 2, 4, 8))
            at -= at % width
            old = int.from_bytes(result[at : at + width], "little")
            result[at : at + width] = _number(rng, width, old, [0])[: len(result) - at]
        elif kind < 0.75:
            del result[at:]
        elif kind < 0.88:
            del result[at : at + rng.randrange(1, 64)]
        else:
            result[at:at] = result[at : at + rng.randrange(1, 64)]
    return bytes(result)


def pack(code: str, *values: Any) -> bytes:
    """Return packed little-endian numbers."""
    return struct.pack("<" + code, *values)


# Files and streams


def file_of(rng: random.Random, records: list[Record], kv: bytes = b"") -> bytes:
    """Return a file of records, some of its fields wrong, the checksum most often right."""
    names = [b"a", *(b"a.%d" % k for k in range(len(records) - 1))]
    entries = [file_cases.Entry(name, r.descriptor, list(r.buffers)) for name, r in zip(names, records, strict=True)]
    header: dict[str, Any] = {}
    trailer: dict[str, Any] = {}
    if rng.random() < 0.3:
        header[rng.choice(("flags", "alignment", "first", "hint", "minor", "major"))] = rng.choice(SPECIALS)
    for _ in range(rng.choice((0, 0, 1, 2))):
        e = rng.choice(entries)
        field = rng.choice(("descriptor_offset", "descriptor_length", "data_offset", "data_length", "flags"))
        most = 2**32 if field in ("descriptor_length", "flags") else 2**64
        e.changes[field] = rng.choice((*SPECIALS, 64, 128, 4096, 8192, 12288)) % most
    if rng.random() < 0.1:
        entries.append(rng.choice(entries))
    try:
        data = bytearray(file_cases.build(entries, kv=kv, header=header, trailer=trailer))
    except struct.error:
        data = bytearray(file_cases.build(entries, kv=kv))
    if rng.random() < 0.4:
        index_offset, index_length = struct.unpack_from("<QQ", data, len(data) - 40)
        if rng.random() < 0.5:
            at = len(data) - 40 + rng.choice((0, 8, 16, 24, 28, 32, 36))
            data[at : at + 4] = _number(rng, 4, int.from_bytes(data[at : at + 4], "little"), [index_offset])
        elif index_offset + index_length <= len(data):
            part = bytes(data[index_offset : index_offset + index_length])
            changed = cut(rng, part)[:index_length].ljust(index_length, b"\0")
            data[index_offset : index_offset + index_length] = changed
            if rng.random() < 0.9:
                data[-12:-8] = google_crc32c.value(changed).to_bytes(4, "little")
    if rng.random() < 0.1:
        data = bytearray(cut(rng, bytes(data)))
    return bytes(data)


def stream_of(rng: random.Random, records: list[Record]) -> bytes:
    """Return a stream of records, sometimes cut or changed somewhere."""
    data = b"".join(r.descriptor + b"".join(r.buffers) for r in records)
    return cut(rng, data) if rng.random() < 0.4 else data


def kv_of(rng: random.Random) -> bytes:
    """Return a key-value section, often damaged."""
    whole = encode_kv({
        "s": "text", "i": -1, "u": 2**63, "f": float("nan"), "b": True, "y": b"\0\xff", "as": ["x", ""],
        "ai": [1, 2], "au": [2**64 - 1], "af": [0.5], "ab": [True, False], "ay": [b"1"], "e": [],
    })  # fmt: skip
    return cut(rng, whole) if rng.random() < 0.7 else whole
