"""Rules of the quantization section, its limits, parameter buffers and formulas; all met in bytes made by hand."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

import hurray
import rawbytes as raw
from hurray.descriptor.codec import decode_descriptor

F32 = np.float32
TAGS = {
    "int8": 0x10,
    "uint8": 0x11,
    "int16": 0x12,
    "uint16": 0x13,
    "int32": 0x14,
    "uint32": 0x15,
    "int64": 0x16,
    "uint64": 0x17,
    "bool": 0x20,
    "float16": 0x01,
    "bfloat16": 0x02,
    "float32": 0x03,
    "float64": 0x04,
    "float8_e4m3": 0x40,
    "float8_e5m2": 0x41,
    "float8_e8m0": 0x42,
    "float4_e2m1": 0x43,
    "float6_e2m3": 0x44,
    "float6_e3m2": 0x45,
    "float128": 0x46,
    "int4": 0x48,
    "uint4": 0x49,
    "int2": 0x4A,
    "uint2": 0x4B,
    "complex64": 0x50,
    "complex128": 0x51,
}
WIDE = {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int4", "uint4", "int2", "uint2"}
STORAGE = {
    "per_tensor": WIDE,
    "per_channel": WIDE,
    "per_block": {"int8", "uint8", "int4", "uint4", "int2", "uint2"},
    "nf4": {"uint4"},
    "mxfp": {"float8_e4m3", "float8_e5m2", "float4_e2m1", "float6_e2m3", "float6_e3m2", "int8", "int4"},
}
PAYLOADS: dict[str, tuple[bytes, int]] = {
    "per_tensor": (raw.per_tensor(), 1),
    "per_channel": (raw.per_channel(0, 1), 2),
    "per_block": (raw.per_block(0, 2, 1), 2),
    "nf4": (raw.nf4(0, 8, 1), 2),
    "mxfp": (raw.mxfp(0, 16, 1), 2),
}


def described(
    payload: bytes, n_buffers: int, *, tag: int = 0x10, shape: tuple[int, ...] = (32, 4), **about: Any
) -> bytes:
    return raw.descriptor(type_tag=tag, shape=shape, buffers=[64] * n_buffers, quantization=payload, **about)


def refused(match: str, payload: bytes, n_buffers: int = 2, **about: Any) -> hurray.InvalidDescriptorError:
    with pytest.raises(hurray.InvalidDescriptorError, match=match) as caught:
        decode_descriptor(described(payload, n_buffers, **about))
    return caught.value


def read(data: bytes, *parameters: bytes, permissive: bool = False, **about: Any) -> hurray.Tensor:
    [t] = hurray.StreamReader(raw.tensor(data, *parameters, **about), permissive=permissive)
    assert isinstance(t, hurray.Tensor)
    return t


# The payload


@pytest.mark.parametrize("scheme", STORAGE)
def test_storage_types(scheme: str) -> None:
    payload, n_buffers = PAYLOADS[scheme]
    for name, tag in TAGS.items():
        data = described(payload, n_buffers, tag=tag)
        if name in STORAGE[scheme]:
            d = decode_descriptor(data)
            assert d.quantization is not None
            assert d.quantization.encode() == payload
            assert d.encode() == data
        else:
            with pytest.raises(hurray.InvalidDescriptorError, match=f"cannot store {name}"):
                decode_descriptor(data)


@pytest.mark.parametrize("scheme", STORAGE)
def test_lengths_of_payloads(scheme: str) -> None:
    payload, n_buffers = PAYLOADS[scheme]
    tag = TAGS[sorted(STORAGE[scheme])[0]]
    for n in range(len(payload)):
        refused("needs", payload[:n], n_buffers, tag=tag)
    # Longer: a later minor version of the scheme, kept and skipped.
    longer = payload + b"later"
    data = described(longer, n_buffers, tag=tag)
    d = decode_descriptor(data)
    assert d.encode() == data
    assert hurray.decode_quantization(longer).encode() == longer


def test_a_length_that_runs_past_the_descriptor() -> None:
    data = bytearray(described(raw.per_tensor(), 1))
    at = data.index(raw.u32s(16) + raw.per_tensor())
    data[at : at + 4] = raw.u32s(2**32 - 1)
    with pytest.raises(hurray.InvalidDescriptorError, match="announces 4294967295 bytes") as caught:
        decode_descriptor(bytes(data))
    assert caught.value.offset == at


@pytest.mark.parametrize("tag", [0x00, 0x06, 0x3F, 0x40, 0x60, 0x7F, 0x80, 0xEF, 0xF0, 0xFE, 0xFF])
def test_unknown_schemes(tag: int) -> None:
    payload = raw.u8s(tag, 1, 0, 0) + b"whatever follows"
    refused(f"scheme tag 0x{tag:02x}", payload)
    about: dict[str, Any] = {"shape": (8, 4)}
    data = described(payload, 3, **about) + bytes(192)
    if tag in (0x00, 0xFF):
        with pytest.raises(hurray.InvalidDescriptorError, match="permanently invalid"):
            decode_descriptor(data, permissive=True)
        return
    [t] = hurray.StreamReader(data, permissive=True)
    assert isinstance(t, hurray.Tensor)
    assert t.quantization is not None
    assert t.quantization.encode() == payload
    # Carried, never interpreted; relayed byte for byte, also through a file.
    for use in (t.to_numpy, t.dequantize, lambda: t[0], lambda: t.lookup([[0, 0]]), lambda: t.to_layout("col_major")):
        with pytest.raises(hurray.UnsupportedError):
            use()
    with hurray.StreamWriter() as w:
        w.write(t)
    assert w.getvalue() == data
    file = raw.file([raw.Put("q", described(payload, 3, **about), (bytes(64),) * 3)])
    with pytest.raises(hurray.InvalidDescriptorError, match="scheme tag") as caught:
        hurray.load(file)
    assert caught.value.tensor == "q"
    assert hurray.load(file, permissive=True)["q"].descriptor.encode() == described(payload, 3, **about)


@pytest.mark.parametrize("scheme", STORAGE)
@pytest.mark.parametrize("version", [0, 2, 255])
def test_versions(scheme: str, version: int) -> None:
    payload, n_buffers = PAYLOADS[scheme]
    other = payload[:1] + raw.u8s(version) + payload[2:]
    error = refused(f"version {version}", other, n_buffers, tag=TAGS[sorted(STORAGE[scheme])[0]])
    assert error.field == "quantization.scheme_version"


@pytest.mark.parametrize("scheme", STORAGE)
def test_flags(scheme: str) -> None:
    payload, n_buffers = PAYLOADS[scheme]
    known = 1 if scheme in ("per_channel", "per_block") else 0
    for bit in range(16):
        flags = 1 << bit
        if flags & ~known:
            flags |= known
            other = payload[:2] + struct.pack("<H", flags) + payload[4:]
            error = refused("undefined flag bits", other, n_buffers, tag=TAGS[sorted(STORAGE[scheme])[0]])
            assert error.field == "quantization.flags"


@pytest.mark.parametrize("make", [raw.per_channel, lambda a, *rest, **kw: raw.per_block(a, 2, *rest, **kw)])
def test_symmetric_and_asymmetric(make: Any) -> None:
    assert decode_descriptor(described(make(0, 1), 2)).quantization.zero_point_buffer_index is None  # type: ignore[union-attr]
    assert decode_descriptor(described(make(0, 1, 2), 3)).quantization.zero_point_buffer_index == 2  # type: ignore[union-attr]
    refused("symmetric scheme leaves it at 0xffffffff", make(0, 1, 2, flags=1), 3)
    refused("asymmetric scheme needs a zero-point buffer", make(0, 1, flags=0), 2)


def test_scale_types() -> None:
    for tag, name in ((0x01, "float16"), (0x02, "bfloat16"), (0x03, "float32")):
        d = decode_descriptor(described(raw.per_block(0, 2, 1, scale_type=tag), 2))
        assert isinstance(d.quantization, hurray.PerBlockAffine)
        assert d.quantization.scale_type.name == name
    for tag in (0x00, 0x04, 0x10, 0x42, 0xF0, 0xFF):
        refused("scale_type", raw.per_block(0, 2, 1, scale_type=tag))
    for tag in (0x00, 0x01, 0x02, 0x04, 0xFF):
        refused("scale_type", raw.per_channel(0, 1, scale_type=tag))


@pytest.mark.parametrize(("scheme", "first"), [("per_tensor", 12), ("per_channel", 17), ("per_block", 21)])
def test_reserved_bytes(scheme: str, first: int) -> None:
    payload, n_buffers = PAYLOADS[scheme]
    for k in range(first, len(payload)):
        refused("reserved", payload[:k] + b"\1" + payload[k + 1 :], n_buffers)


# Limits


@pytest.mark.parametrize(
    ("payload", "tag"),
    [
        (raw.per_channel(2, 1), 0x10),
        (raw.per_block(2, 2, 1), 0x10),
        (raw.nf4(2, 8, 1), 0x49),
        (raw.mxfp(2, 16, 1), 0x10),
        (raw.per_channel(2**32 - 1, 1), 0x10),
    ],
)
def test_the_axis_lies_in_the_shape(payload: bytes, tag: int) -> None:
    refused("axis", payload, tag=tag)
    refused("axis", payload, tag=tag, shape=())


@pytest.mark.parametrize(
    ("payload", "tag"),
    [
        (raw.per_channel(0, 1), 0x10),
        (raw.per_block(0, 2, 1), 0x10),
        (raw.nf4(0, 8, 1), 0x49),
        (raw.mxfp(0, 16, 1), 0x10),
    ],
)
def test_scalars_are_quantized_per_tensor_only(payload: bytes, tag: int) -> None:
    refused("axis 0 is outside a shape of rank 0", payload, tag=tag, shape=())
    t = read(b"\x06", type_tag=0x10, quantization=raw.per_tensor(0.5, 2))
    assert t.dequantize().to_numpy() == F32(2.0)


@pytest.mark.parametrize("scale", [0.0, -0.0, math.inf, -math.inf, math.nan])
def test_inline_scales(scale: float) -> None:
    error = refused("finite and non-zero", raw.per_tensor(scale), 1)
    assert error.field == "quantization.scale"


@pytest.mark.parametrize("scale", [-0.5, 1e-45, 3.4e38])
def test_inline_scales_that_are_legal(scale: float) -> None:
    t = read(b"\x02", type_tag=0x10, shape=(1,), quantization=raw.per_tensor(scale))
    with np.errstate(over="ignore"):
        assert t.dequantize().to_numpy().tolist() == [F32(scale) * F32(2)]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("int16", -32768, 32767),
        ("uint16", 0, 65535),
        ("int4", -8, 7),
        ("uint4", 0, 15),
        ("int2", -2, 1),
        ("uint2", 0, 3),
        ("int32", -(2**31), 2**31 - 1),
        ("uint32", 0, 2**31 - 1),
    ],
)
def test_inline_zero_points(name: str, low: int, high: int) -> None:
    for zero in (low, high):
        decode_descriptor(described(raw.per_tensor(1.0, zero), 1, tag=TAGS[name]))
    for zero in (low - 1, high + 1):
        if -(2**31) <= zero < 2**31:
            refused(f"zero_point {zero} is outside {name}", raw.per_tensor(1.0, zero), 1, tag=TAGS[name])


@pytest.mark.parametrize(
    ("make", "tag", "legal"),
    [
        (raw.per_block, 0x10, [2, 4, 8, 16, 32]),
        (raw.nf4, 0x49, [8, 16, 32]),
        (raw.mxfp, 0x10, [16, 32]),
    ],
)
def test_block_sizes(make: Any, tag: int, legal: list[int]) -> None:
    for block in (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 4096, 2**31, 2**32 - 1):
        if block in legal:
            assert decode_descriptor(described(make(0, block, 1), 2, tag=tag)).quantization.block_size == block  # type: ignore[union-attr]
        else:
            refused("block_size", make(0, block, 1), tag=tag)


def test_mxfp_blocks() -> None:
    for block in (2048, 4096):
        data = described(raw.mxfp(0, block, 1), 2, shape=(8192, 1))
        if block == 2048:
            decode_descriptor(data)
        else:
            refused("at most 2048", raw.mxfp(0, block, 1), shape=(8192, 1))
    for n in (0, 15, 17, 40):
        refused("positive multiple of block_size 16", raw.mxfp(0, 16, 1), shape=(n, 2))


def test_blocks_of_an_empty_axis() -> None:
    for payload, tag in ((raw.per_block(0, 32, 1), 0x10), (raw.nf4(0, 64, 1), 0x49)):
        t = read(b"", b"", type_tag=tag, shape=(0, 4), quantization=payload)
        assert t.dequantize().shape == (0, 4)
        with pytest.raises(hurray.BufferError, match="exactly 0"):
            read(b"", bytes(4), type_tag=tag, shape=(0, 4), quantization=payload)
    t = read(b"", b"", type_tag=0x10, shape=(0, 4), quantization=raw.per_channel(0, 1))
    assert t.dequantize().shape == (0, 4)


@pytest.mark.parametrize("scheme", ["per_channel", "per_block", "nf4", "mxfp"])
def test_indices_of_parameter_buffers(scheme: str) -> None:
    make: Any = {
        "per_channel": lambda s, *z: raw.per_channel(0, s, *z),
        "per_block": lambda s, *z: raw.per_block(0, 2, s, *z),
        "nf4": lambda s: raw.nf4(0, 8, s),
        "mxfp": lambda s: raw.mxfp(0, 16, s),
    }[scheme]
    tag = TAGS[sorted(STORAGE[scheme])[0]]
    refused("names a buffer of the layout", make(0), tag=tag)
    refused("outside a table of 2", make(2), tag=tag)
    refused("names no buffer|outside", make(2**32 - 1), tag=tag)
    csr: dict[str, Any] = {"layout": 0x07, "fields": raw.u64s(0, 0), "tag": tag}
    refused("names a buffer of the layout", make(2), 4, **csr)
    assert decode_descriptor(described(make(3), 4, **csr)).buffer_count == 4
    if scheme in ("per_channel", "per_block"):
        refused("zero_point_buffer_index 0 names a buffer of the layout", make(1, 0), 2, tag=tag)
        refused("zero_point_buffer_index 3 is outside", make(1, 3), 3, tag=tag)


@pytest.mark.parametrize(
    ("payload", "tag", "n_data", "sizes", "roles"),
    [
        (raw.per_channel(1, 1), 0x10, 12, [16], ["scales"]),
        (raw.per_channel(1, 1, 2), 0x10, 12, [16, 16], ["scales", "zero points"]),
        (raw.per_channel(1, 2, 1), 0x10, 12, [16, 16], ["zero points", "scales"]),
        (raw.per_channel(1, 1, 1), 0x10, 12, [32], ["scales and zero points"]),
        (raw.per_block(1, 2, 1), 0x10, 12, [24], ["scales"]),
        (raw.per_block(1, 2, 1, scale_type=1), 0x10, 12, [12], ["scales"]),
        (raw.per_block(1, 2, 1, 2, scale_type=2), 0x10, 12, [12, 24], ["scales", "zero points"]),
        (raw.per_block(1, 2, 1, 1, scale_type=1), 0x10, 12, [36], ["scales and zero points"]),
        (raw.per_block(0, 2, 1), 0x10, 12, [32], ["scales"]),
    ],
)
def test_sizes_of_parameter_buffers(payload: bytes, tag: int, n_data: int, sizes: list[int], roles: list[str]) -> None:
    def formed(*n: int) -> hurray.Tensor:
        return read(bytes(n_data), *(bytes(k) for k in n), type_tag=tag, shape=(3, 4), quantization=payload)

    formed(*sizes)
    for k, role in enumerate(roles):
        for wrong in (sizes[k] - 1, sizes[k] + 1, 0):
            with pytest.raises(hurray.BufferError, match=rf"buffer {k + 1} \({role}\).*exactly {sizes[k]}"):
                formed(*sizes[:k], wrong, *sizes[k + 1 :])


def test_sizes_of_nf4_and_mxfp() -> None:
    for payload, tag, n_data, size in (
        (raw.nf4(1, 8, 1), 0x49, 10, 24),
        (raw.mxfp(1, 16, 1), 0x43, 32, 4),
    ):
        shape = (2, 10 if tag == 0x49 else 32)
        read(bytes(n_data), bytes(16) if tag == 0x49 else bytes(size), type_tag=tag, shape=shape, quantization=payload)
        for wrong in (15, 17, 24) if tag == 0x49 else (3, 5, 16):
            with pytest.raises(hurray.BufferError, match="exactly"):
                read(bytes(n_data), bytes(wrong), type_tag=tag, shape=shape, quantization=payload)


# Values inside parameter buffers


@pytest.mark.parametrize(
    ("payload", "tag", "parameters", "match"),
    [
        (raw.per_channel(0, 1), 0x10, [raw.f32s(1.0, 0.0)], "scale of channel 1 is 0.0"),
        (raw.per_channel(0, 1), 0x10, [raw.f32s(math.nan, 1.0)], "scale of channel 0 is nan"),
        (raw.per_channel(0, 1), 0x10, [raw.f32s(1.0, math.inf)], "scale of channel 1 is inf"),
        (
            raw.per_channel(0, 1, 2),
            0x10,
            [raw.f32s(1, 1), struct.pack("<2i", 0, 128)],
            "zero point of channel 1 is 128",
        ),
        (raw.per_channel(0, 1, 1), 0x11, [raw.f32s(1, 1) + struct.pack("<2i", 0, -1)], "zero point of channel 1 is -1"),
        (raw.per_block(1, 16, 1, scale_type=1), 0x10, [struct.pack("<2e", 1.0, 0.0)], "scale of block"),
        (raw.per_block(1, 16, 1, scale_type=1), 0x10, [raw.u8s(0, 0x3C, 0, 0x7C)], "scale of block .* is inf"),
        (raw.per_block(1, 16, 1, scale_type=2), 0x10, [raw.u8s(0x80, 0x3F, 0xC0, 0x7F)], "scale of block .* is nan"),
        (raw.nf4(1, 16, 1), 0x49, [raw.f32s(1.0, -1.0)], "scale of block .* is -1.0"),
        (raw.nf4(1, 16, 1), 0x49, [raw.f32s(1.0, math.inf)], "scale of block .* is inf"),
        (raw.mxfp(1, 16, 1), 0x10, [b"\x7f\x00"], "scale of block .* is (0|255), it must not be"),
        (raw.mxfp(1, 16, 1), 0x10, [b"\x7f\xff"], "scale of block .* is (0|255), it must not be"),
    ],
)
@pytest.mark.parametrize("permissive", [False, True])
def test_parameters_are_checked_on_use(
    payload: bytes, tag: int, parameters: list[bytes], match: str, permissive: bool
) -> None:
    about: dict[str, Any] = {"type_tag": tag, "shape": (2, 16), "quantization": payload}
    t = read(bytes(32), *parameters, permissive=permissive, **about)
    for use in (t.dequantize, t.validate):
        with pytest.raises(hurray.InvalidDescriptorError, match=match):
            use()
    assert t.storage().to_numpy().shape == (2, 16)
    file = raw.file(
        [raw.Put("q", raw.descriptor(buffers=[32, *map(len, parameters)], **about), (bytes(32), *parameters))]
    )
    [problem] = hurray.verify(file).problems
    assert problem.tensor == "q"
    # Loading looks at structure, not at parameters.
    assert hurray.load(file)["q"].shape == (2, 16)


def test_a_zero_scale_of_nf4_is_legal() -> None:
    t = read(b"\xf0" * 4, raw.f32s(0.0), type_tag=0x49, shape=(8,), quantization=raw.nf4(0, 8, 1))
    t.validate()
    assert t.dequantize().to_numpy().tolist() == [0.0] * 8


# Formulas


def test_affine_in_order() -> None:
    scale = F32(0.1)
    q = np.array([-128, -3, 0, 5, 127], np.int8)
    t = read(q.tobytes(), type_tag=0x10, shape=(5,), quantization=raw.per_tensor(0.1, -7))
    want = [scale * F32(int(v) + 7) for v in q]
    assert t.dequantize().to_numpy().tolist() == want


def test_differences_of_32_bit_storage_do_not_overflow() -> None:
    q = np.array([2**31 - 1, -(2**31)], np.int32)
    t = read(q.tobytes(), type_tag=0x14, shape=(2,), quantization=raw.per_tensor(1.0, -(2**31)))
    assert t.dequantize().to_numpy().tolist() == [F32(2**32 - 1), 0.0]
    u = np.array([2**32 - 1, 0], np.uint32)
    t = read(u.tobytes(), type_tag=0x15, shape=(2,), quantization=raw.per_tensor(1.0, 2**31 - 1))
    assert t.dequantize().to_numpy().tolist() == [F32(2**31), F32(-(2**31 - 1))]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shared", [False, True])
def test_per_channel_values(axis: int, shared: bool) -> None:
    shape = (2, 3, 4)
    q = np.arange(24, dtype=np.uint8).reshape(shape)
    n = shape[axis]
    scales = np.arange(1, n + 1, dtype=F32) / F32(3)
    zeros = np.arange(n, dtype=np.int32) * 5
    parameters = [scales.tobytes() + zeros.tobytes()] if shared else [scales.tobytes(), zeros.tobytes()]
    payload = raw.per_channel(axis, 1, 1 if shared else 2)
    t = read(q.tobytes(), *parameters, type_tag=0x11, shape=shape, quantization=payload)
    for at in np.ndindex(*shape):
        want = scales[at[axis]] * F32(int(q[at]) - int(zeros[at[axis]]))
        assert t.dequantize().to_numpy()[at] == want
        assert t.dequantize(at).to_numpy() == want


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("scale_type", ["<f2", "<f4"])
def test_per_block_values_with_a_partial_last_block(axis: int, scale_type: str) -> None:
    shape, block = (5, 3, 6), 4
    if shape[axis] < block:
        block = 2
    q = np.arange(90, dtype=np.int64).astype(np.int8).reshape(shape)
    n_along = -(-shape[axis] // block)
    others = [k for k in range(3) if k != axis]
    n_blocks = n_along * shape[others[0]] * shape[others[1]]
    scales = (np.arange(1, n_blocks + 1) / 8).astype(scale_type)
    zeros = (np.arange(n_blocks) % 7 - 3).astype(np.int32)
    tag = 1 if scale_type == "<f2" else 3
    about: dict[str, Any] = {
        "type_tag": 0x10,
        "shape": shape,
        "quantization": raw.per_block(axis, block, 1, 2, scale_type=tag),
    }
    parameters = (scales.tobytes(), zeros.tobytes())
    plain = read(q.tobytes(), *parameters, **about).dequantize().to_numpy()
    for at in np.ndindex(*shape):
        outer = at[others[0]] * shape[others[1]] + at[others[1]]
        b = outer * n_along + at[axis] // block
        assert plain[at] == F32(scales[b]) * F32(int(q[at]) - int(zeros[b]))
    # Zeros that make the last block of the buffer whole change nothing, nor does their absence.
    padded = read(q.tobytes() + bytes(-q.size % block), *parameters, **about).dequantize().to_numpy()
    assert padded.tobytes() == plain.tobytes()


def test_writers_make_the_last_block_of_the_buffer_whole() -> None:
    for recipe, n, n_bytes in (("nf4", 70, 64), ("int4_per_block", 70, 48), ("int8_per_block", 70, 96)):
        options: dict[str, Any] = {"block_size": 64} if recipe == "nf4" else {"block_size": 32}
        q = hurray.quantize(np.arange(n, dtype=np.float32), recipe, **options)
        data = q.buffer(0).to_numpy()
        assert len(data) == n_bytes
        bits = q.dtype.bit_width
        assert not data[-(-n * bits // 8) :].any()
        assert q.dequantize().shape == (n,)


NF4_TABLE = [
    -1,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1,
]


def test_nf4_values() -> None:
    codes = bytes(a | b << 4 for a, b in zip(range(0, 16, 2), range(1, 16, 2), strict=True))
    t = read(codes, raw.f32s(1.0, 3.25), type_tag=0x49, shape=(16,), quantization=raw.nf4(0, 8, 1))
    got = t.dequantize().to_numpy()
    assert got.tolist() == [F32(1 if k < 8 else 3.25) * F32(v) for k, v in enumerate(NF4_TABLE)]


@pytest.mark.parametrize(
    ("tag", "data", "first"),
    [
        (0x40, bytes([0x7E] + [0] * 15), 448.0),
        (0x41, bytes([0x7B] + [0] * 15), 57344.0),
        (0x43, bytes([0x07] + [0] * 7), 6.0),
        (0x44, bytes([0x1F] + [0] * 11), 7.5),
        (0x45, bytes([0x1F] + [0] * 11), 28.0),
        (0x10, bytes([0x81] + [0] * 15), -127.0),
        (0x48, bytes([0x08] + [0] * 7), -8.0),
    ],
)
def test_mxfp_values(tag: int, data: bytes, first: float) -> None:
    for e in (1, 120, 127, 130, 254):
        t = read(data, bytes([e]), type_tag=tag, shape=(16,), quantization=raw.mxfp(0, 16, 1))
        with np.errstate(over="ignore"):
            want = F32(2.0 ** (e - 127)) * F32(first)
        assert t.dequantize().to_numpy().tolist() == [want] + [0.0] * 15


def test_quantized_values_are_no_plain_values() -> None:
    t = read(b"\x06", type_tag=0x10, shape=(1,), quantization=raw.per_tensor())
    for use in (t.to_numpy, t.__array__, lambda: t[0], lambda: t.lookup([[0]]), t.nonzeros):
        with pytest.raises(hurray.UnsupportedError, match=r"dequantize\(\).*storage\(\)"):
            use()


# With sparse and block-paged layouts


def test_sparse_values_take_the_parameters_of_their_logical_place() -> None:
    index = (raw.u64s(0, 3, 1), raw.u64s(0, 2, 3))
    about: dict[str, Any] = {"layout": 0x07, "fields": raw.u64s(3, 0), "type_tag": 0x10, "shape": (2, 4)}
    scales = raw.f32s(2.0, 3.0, 5.0, 7.0)
    t = read(b"\1\2\3", *index, scales, quantization=raw.per_channel(1, 3), **about)
    assert t.dequantize().to_numpy().tolist() == [[2, 0, 0, 14], [0, 9, 0, 0]]
    t = read(b"\1\2\3", *index, scales, quantization=raw.per_block(1, 2, 3), **about)
    assert t.dequantize().to_numpy().tolist() == [[2, 0, 0, 6], [0, 15, 0, 0]]
    # Unstored coordinates are zero, whatever code 0 stands for.
    t = read(b"\1\2\3", *index, quantization=raw.per_tensor(1.0, 5), **about)
    assert t.dequantize().to_numpy().tolist() == [[-4, 0, 0, -3], [0, -2, 0, 0]]
    t = read(
        b"\xff\x0f",
        *index,
        raw.f32s(1.0, 1.0),
        **{
            **about,
            "type_tag": 0x49,
            "shape": (2, 8),
            "quantization": raw.nf4(1, 8, 3),
        },
    )
    assert t.dequantize().to_numpy().sum() == 3.0


def paged(
    scheme: bytes, *parameters: bytes, shape: tuple[int, int, int] = (4, 2, 16), tag: int = 0x10
) -> hurray.Tensor:
    fields = struct.pack("<IQIIBIB6x", 2, 3, 0, 1, 0, 0xFFFFFFFF, 0)
    n_pool = 6 * shape[1] * shape[2]
    pool = (np.arange(n_pool) % 100).astype(np.int8).tobytes()[: n_pool // (2 if tag >= 0x48 else 1)]
    buffers = (pool, raw.u32s(2, 0), raw.u32s(0, 2), *parameters)
    return read(*buffers, layout=0x0A, fields=fields, shape=shape, type_tag=tag, quantization=scheme)


def test_block_paged_combinations() -> None:
    codes = (np.arange(6 * 32) % 100).astype(np.int8).reshape(6, 2, 16)[[4, 5, 0, 1]]
    assert paged(raw.per_tensor(0.5, 1)).dequantize().to_numpy().tolist() == ((codes - 1) * F32(0.5)).tolist()
    heads = np.array([2, 3], F32)
    t = paged(raw.per_channel(1, 3), heads.tobytes())
    assert t.dequantize().to_numpy().tolist() == (codes * heads[None, :, None]).tolist()
    # Per slot: entry page * page_size + slot, reached through the block table; zero points too.
    slots = np.arange(1, 7, dtype=F32)
    zeros = np.arange(6, dtype=np.int32)
    t = paged(raw.per_block(0, 2, 3, 4), slots.tobytes(), zeros.tobytes())
    used = [4, 5, 0, 1]
    want = slots[used, None, None] * (codes.astype(np.int32) - zeros[used, None, None]).astype(F32)
    assert t.dequantize().to_numpy().tolist() == want.tolist()
    t = paged(raw.per_block(0, 2, 3, 3), slots.tobytes() + zeros.tobytes())
    assert t.dequantize().to_numpy().tolist() == want.tolist()
    for wrong in (bytes(20), bytes(28), bytes(8)):
        with pytest.raises(hurray.BufferError, match="exactly 24"):
            paged(raw.per_block(0, 2, 3), wrong)


@pytest.mark.parametrize(
    ("scheme", "tag", "match"),
    [
        (raw.per_channel(0, 3), 0x10, "axis must be 1 or 2, not 0"),
        (raw.per_block(1, 2, 3), 0x10, "axis must be 0, not 1"),
        (raw.per_block(2, 2, 3), 0x10, "axis must be 0, not 2"),
        (raw.per_block(0, 4, 3), 0x10, "block_size 4 must equal page_size 2"),
        (raw.nf4(2, 8, 3), 0x49, "cannot be quantized by nf4"),
        (raw.mxfp(2, 16, 3), 0x10, "cannot be quantized by mxfp"),
    ],
)
def test_block_paged_combinations_that_are_refused(scheme: bytes, tag: int, match: str) -> None:
    fields = struct.pack("<IQIIBIB6x", 2, 3, 0, 1, 0, 0xFFFFFFFF, 0)
    with pytest.raises(hurray.InvalidDescriptorError, match=match):
        decode_descriptor(
            raw.descriptor(
                layout=0x0A, fields=fields, shape=(4, 2, 16), type_tag=tag, buffers=[192, 8, 8, 64], quantization=scheme
            )
        )


def test_a_block_of_a_page_may_be_larger_than_the_axis() -> None:
    fields = struct.pack("<IQIIBIB6x", 8, 1, 0, 1, 0, 0xFFFFFFFF, 0)
    pool = bytes(range(8))
    scales = np.arange(1, 9, dtype=F32)
    t = read(
        pool,
        raw.u32s(0),
        raw.u32s(0, 1),
        scales.tobytes(),
        layout=0x0A,
        fields=fields,
        shape=(3, 1, 1),
        type_tag=0x10,
        quantization=raw.per_block(0, 8, 3),
    )
    assert t.dequantize().to_numpy().reshape(-1).tolist() == [0, 2, 6]


def test_slots_past_the_end_may_hold_anything() -> None:
    fields = struct.pack("<IQIIBIB6x", 4, 1, 0, 1, 0, 0xFFFFFFFF, 0)
    t = read(
        bytes(4),
        raw.u32s(0),
        raw.u32s(0, 1),
        raw.f32s(1, 1, math.nan, 0),
        layout=0x0A,
        fields=fields,
        shape=(2, 1, 1),
        type_tag=0x10,
        quantization=raw.per_block(0, 4, 3),
    )
    t.validate()
    assert t.dequantize().shape == (2, 1, 1)
    with pytest.raises(hurray.InvalidDescriptorError, match="slot 2"):
        read(
            bytes(4),
            raw.u32s(0),
            raw.u32s(0, 1),
            raw.f32s(1, 1, math.nan, 0),
            layout=0x0A,
            fields=fields,
            shape=(3, 1, 1),
            type_tag=0x10,
            quantization=raw.per_block(0, 4, 3),
        ).dequantize()


# Quantizing


def test_what_writers_choose() -> None:
    x = np.array([-1.0, 0.5, 2.54, 0.0], F32)
    q = hurray.quantize(x, "int8")
    assert isinstance(q.quantization, hurray.PerTensorAffine)
    assert q.quantization.scale == float(F32(2.54) / F32(127))
    assert q.quantization.zero_point == 0
    u = hurray.quantize(np.array([1.0, 2.0], F32), "uint8")
    assert isinstance(u.quantization, hurray.PerTensorAffine)
    # Zero is kept exactly representable, so the range reaches down to it.
    assert u.quantization.zero_point == 0
    zeros = hurray.quantize(np.zeros(32, F32), "int8_per_block")
    assert zeros.scales().to_numpy().tolist() == [[1.0]] or zeros.scales().to_numpy().reshape(-1).tolist() == [1.0]
    assert hurray.quantize(np.zeros(64, F32), "nf4").scales().to_numpy().reshape(-1).tolist() == [0.0]
    mx = hurray.quantize(np.zeros(32, F32), "mxfp4")
    assert mx.buffer(1).to_numpy().tolist() == [1]


@pytest.mark.parametrize(
    ("recipe", "emax"),
    [("mxfp8_e4m3", 8), ("mxfp8_e5m2", 15), ("mxfp6_e3m2", 4), ("mxfp6_e2m3", 2), ("mxfp4", 2), ("mxint8", 6)],
)
def test_shared_exponents(recipe: str, emax: int) -> None:
    for absmax in (1.0, 1.99, 2.0, 3e-38, 3e38):
        x = np.zeros(32, F32)
        x[3] = -absmax
        e = math.floor(math.log2(float(F32(absmax)))) - emax + 127
        assert hurray.quantize(x, recipe).buffer(1).to_numpy().tolist() == [min(max(e, 1), 254)]


@pytest.mark.parametrize("recipe", ["int8", "int8_per_channel", "int4_per_block", "nf4", "mxfp4", "mxint8"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_not_quantized(recipe: str, bad: float) -> None:
    x = np.ones((2, 64), F32)
    x[1, 5] = bad
    with pytest.raises(hurray.InvalidDescriptorError, match=r"1.*5"):
        hurray.quantize(x, recipe)
