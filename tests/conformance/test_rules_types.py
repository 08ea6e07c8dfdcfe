"""Rules of element types, packing, devices and memory classes, each met in bytes put together by hand."""

from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hurray
import rawbytes as raw
from hurray.descriptor.codec import decode_descriptor

# name, tag, tier, bits, alignment in bytes
TABLE = [
    ("float16", 0x01, 1, 16, 2),
    ("bfloat16", 0x02, 1, 16, 2),
    ("float32", 0x03, 1, 32, 4),
    ("float64", 0x04, 1, 64, 8),
    ("int8", 0x10, 1, 8, 1),
    ("uint8", 0x11, 1, 8, 1),
    ("int16", 0x12, 1, 16, 2),
    ("uint16", 0x13, 1, 16, 2),
    ("int32", 0x14, 1, 32, 4),
    ("uint32", 0x15, 1, 32, 4),
    ("int64", 0x16, 1, 64, 8),
    ("uint64", 0x17, 1, 64, 8),
    ("bool", 0x20, 1, 1, 1),
    ("float8_e4m3", 0x40, 2, 8, 1),
    ("float8_e5m2", 0x41, 2, 8, 1),
    ("float8_e8m0", 0x42, 2, 8, 1),
    ("float4_e2m1", 0x43, 2, 4, 1),
    ("float6_e2m3", 0x44, 2, 6, 1),
    ("float6_e3m2", 0x45, 2, 6, 1),
    ("float128", 0x46, 2, 128, 16),
    ("int4", 0x48, 2, 4, 1),
    ("uint4", 0x49, 2, 4, 1),
    ("int2", 0x4A, 2, 2, 1),
    ("uint2", 0x4B, 2, 2, 1),
    ("complex64", 0x50, 2, 64, 4),
    ("complex128", 0x51, 2, 128, 8),
]
TAGS = {tag for _, tag, *_ in TABLE}


def stored(type_tag: int, shape: tuple[int, ...], data: bytes, **about: Any) -> hurray.Tensor:
    """Read one tensor of a stream; its buffer has exactly the bytes of ``data``."""
    [t] = hurray.StreamReader(raw.tensor(data, type_tag=type_tag, shape=shape, **about))
    assert isinstance(t, hurray.Tensor)
    return t


@pytest.mark.parametrize(("name", "tag", "tier", "bits", "alignment"), TABLE, ids=[row[0] for row in TABLE])
def test_every_element_type(name: str, tag: int, tier: int, bits: int, alignment: int) -> None:
    d = decode_descriptor(raw.descriptor(type_tag=tag, shape=(0,), buffers=[0]))
    assert (d.dtype.name, d.dtype.tag, d.dtype.tier) == (name, tag, tier)
    assert (d.dtype.bit_width, d.dtype.element_alignment) == (bits, alignment)
    assert d.dtype is hurray.Dtype.from_tag(tag) is hurray.Dtype.from_name(name)


@pytest.mark.parametrize("tag", sorted(set(range(256)) - TAGS - set(range(0xF0, 0xFF))))
def test_every_other_tag_is_refused(tag: int) -> None:
    data = raw.descriptor(type_tag=tag, shape=(1,), buffers=[16])
    with pytest.raises(hurray.InvalidDescriptorError, match=f"type_tag at byte 14: type tag 0x{tag:02x}") as caught:
        decode_descriptor(data)
    assert (caught.value.field, caught.value.offset) == ("type_tag", 14)


@pytest.mark.parametrize("tag", [0x00, 0x47, 0xFF])
def test_tags_that_nobody_may_take(tag: int) -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match="type tag"):
        decode_descriptor(raw.descriptor(type_tag=tag, shape=(1,), buffers=[16]), permissive=True)


@pytest.mark.parametrize("tag", [0x05, 0x0F, 0x18, 0x3F, 0x4C, 0x52, 0x7F, 0x80, 0xEF])
def test_an_unknown_type_is_a_descriptor_for_permissive_readers(tag: int) -> None:
    data = raw.descriptor(type_tag=tag, shape=(2, 3), buffers=[7], byte_offset=1)
    d = decode_descriptor(data, permissive=True)
    assert (d.dtype.tag, d.dtype.name, d.dtype.bit_width) == (tag, "unknown", 0)
    assert (d.shape, d.byte_offset, d.buffer_handles[0].byte_size) == ((2, 3), 1, 7)
    assert d.encode() == data
    # What is unknown takes no extension type section either: that flag belongs to private tags.
    with pytest.raises(hurray.InvalidDescriptorError, match="takes no extension type section"):
        decode_descriptor(
            raw.descriptor(type_tag=tag, shape=(), buffers=[8], extension=raw.extension(8, 1)), permissive=True
        )


def test_elements_of_an_unknown_type_are_carried() -> None:
    stream = raw.tensor(b"abcdefg", type_tag=0x4C, shape=(2, 3)) + raw.tensor(bytes(4), shape=())
    first, second = hurray.StreamReader(stream, permissive=True)
    assert isinstance(first, hurray.Tensor)
    assert first.buffer(0).to_numpy().tobytes() == b"abcdefg"
    for refused in (first.to_numpy, lambda: first[0, 0], lambda: first.lookup([[0, 0]]), first.nonzeros):
        with pytest.raises(hurray.UnsupportedError, match="unknown"):
            refused()
    with pytest.raises(hurray.UnsupportedError, match="unknown"):
        first.to_layout("col_major")
    first.validate()
    assert "dtype=unknown" in repr(first)
    with hurray.StreamWriter() as w:
        w.write(first)
        w.write(second)
    assert w.getvalue() == stream


def test_an_unknown_type_holds_back_no_other_rule() -> None:
    for broken, match in [
        ({"buffers": []}, "exactly 1 buffer"),
        ({"buffers": [7], "byte_offset": 8}, "byte_offset 8"),
        ({"buffers": [7], "layout": 0x05, "fields": raw.u32s(0)}, "morton_bits"),
        ({"buffers": [7], "quantization": raw.per_tensor()}, "cannot store unknown"),
    ]:
        with pytest.raises(hurray.InvalidDescriptorError, match=match):
            decode_descriptor(raw.descriptor(type_tag=0x4C, shape=(3,), **broken), permissive=True)  # type: ignore[arg-type]


# Values


@pytest.mark.parametrize(
    ("tag", "codes", "values"),
    [
        (0x40, [0x7E, 0xFE, 0x01, 0x08, 0x80], [448.0, -448.0, 2.0**-9, 2.0**-6, -0.0]),
        (0x41, [0x7B, 0x7C, 0xFC, 0x01, 0x04], [57344.0, np.inf, -np.inf, 2.0**-16, 2.0**-14]),
        (0x42, [0x01, 0x7F, 0x80, 0xFE], [2.0**-126, 1.0, 2.0, 2.0**127]),
    ],
)
def test_eight_bit_floats(tag: int, codes: list[int], values: list[float]) -> None:
    got = stored(tag, (len(codes),), bytes(codes)).to_numpy().astype(np.float64)
    assert got.tolist() == values
    assert np.signbit(got).tolist() == np.signbit(values).tolist()


@pytest.mark.parametrize(("tag", "codes"), [(0x40, [0x7F, 0xFF]), (0x41, [0x7D, 0x7E, 0x7F, 0xFD, 0xFF])])
def test_eight_bit_nans_keep_their_bits(tag: int, codes: list[int]) -> None:
    t = stored(tag, (len(codes),), bytes(codes))
    assert np.isnan(t.to_numpy().astype(np.float32)).all()
    assert t.to_numpy().view(np.uint8).tolist() == codes


def test_four_bit_floats() -> None:
    t = stored(0x43, (16,), bytes([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]))
    halves = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert t.to_numpy().astype(np.float64).tolist() == halves + [-v for v in halves]


@pytest.mark.parametrize(("tag", "greatest", "least"), [(0x44, 7.5, 0.125), (0x45, 28.0, 0.0625)])
def test_six_bit_floats(tag: int, greatest: float, least: float) -> None:
    word = 0x1F | 0x3F << 6 | 0x01 << 12 | 0x21 << 18
    got = stored(tag, (4,), word.to_bytes(3, "little")).to_numpy().astype(np.float64)
    assert got.tolist() == [greatest, -greatest, least, -least]


def test_encoding_clamps_and_rounds_to_even() -> None:
    values = np.array([1e9, -1e9, 0.25, 0.75, 1.25, 2.5, 3.5, 5.0], np.float32)
    got = hurray.asarray(values, dtype=hurray.dtype.float4_e2m1).to_numpy().astype(np.float32)
    assert got.tolist() == [6.0, -6.0, 0.0, 1.0, 1.0, 2.0, 4.0, 4.0]
    assert hurray.asarray(np.array([9.0], np.float32), dtype=hurray.dtype.float6_e2m3).to_numpy()[0] == 7.5


def test_float128_bytes_and_values() -> None:
    # 1 sign, 15 exponent bits with bias 16383, 112 fraction bits.
    one = 16383 << 112
    data = b"".join(
        n.to_bytes(16, "little") for n in (one, 1 << 127 | one | 1 << 111, 32767 << 112, (16383 - 1074) << 112)
    )
    t = stored(0x46, (4,), data)
    assert t.to_numpy(dtype=np.float64).tolist() == [1.0, -1.5, np.inf, 2.0**-1074]
    assert t.buffer(0).to_numpy().tobytes() == data
    with pytest.raises(hurray.UnsupportedError, match="binary128"):
        t.to_numpy()


def test_complex_is_real_then_imaginary() -> None:
    assert stored(0x50, (1,), struct.pack("<2f", 1.5, -2.0)).to_numpy().tolist() == [1.5 - 2j]
    assert stored(0x51, (), struct.pack("<2d", 1.5, -2.0)).to_numpy()[()] == 1.5 - 2j


def test_bit_patterns_survive() -> None:
    codes = [0x7FA00001, 0xFFFFFFFF, 0x00000001, 0x80000000]
    t = stored(0x03, (4,), raw.u32s(*codes))
    assert t.to_numpy().view(np.uint32).tolist() == codes
    for layout in ("col_major", "strided", "morton", "coo"):
        assert t.to_layout(layout).to_numpy().view(np.uint32).tolist() == codes


@pytest.mark.parametrize("code", [0x00, 0xFF])
@pytest.mark.parametrize("permissive", [False, True])
def test_reserved_e8m0_elements(code: int, permissive: bool) -> None:
    stream = raw.tensor(bytes([0x7F, code, 0x80]), type_tag=0x42, shape=(3,))
    [t] = hurray.StreamReader(stream, permissive=permissive)
    assert isinstance(t, hurray.Tensor)
    for refused in (t.to_numpy, t.validate, lambda: t[0:2], lambda: t.lookup([[1]]), t.nonzeros):
        with pytest.raises(hurray.InvalidDescriptorError, match=f"float8_e8m0 element .* reserved code 0x{code:x}"):
            refused()
    # Elsewhere the tensor reads, and its bytes relay untouched.
    assert t[0] == ml_dtypes.float8_e8m0fnu(1.0)
    with hurray.StreamWriter() as w:
        w.write(t)
    assert w.getvalue() == stream


# Packing


@pytest.mark.parametrize(
    ("tag", "data", "values"),
    [
        (0x49, "c503", [5, 12, 3]),
        (0x4B, "27", [3, 1, 2]),
        (0x20, "0d", [True, False, True, True, False]),
        (0x48, "c503", [5, -4, 3]),
        (0x4A, "27", [-1, 1, -2]),
    ],
)
def test_check_values_of_packing(tag: int, data: str, values: list[Any]) -> None:
    dtype = hurray.Dtype.from_tag(tag)
    t = stored(tag, (len(values),), bytes.fromhex(data))
    assert t.to_numpy().tolist() == values
    assert hurray.asarray(np.array(values), dtype=dtype).buffer(0).to_numpy().tobytes().hex() == data
    # Unused high bits are ignored when read.
    packed = bytearray.fromhex(data)
    packed[-1] |= 0xFF << (len(values) * dtype.bit_width - 1) % 8 + 1 & 0xFF
    assert stored(tag, (len(values),), bytes(packed)).to_numpy().tolist() == values


def test_six_bit_check_value() -> None:
    t = stored(0x44, (4,), bytes.fromhex("814020"))
    wanted = np.array([1, 2, 4, 8], np.uint8).view(ml_dtypes.float6_e2m3fn)
    assert t.to_numpy().tolist() == wanted.tolist()
    assert hurray.asarray(wanted).buffer(0).to_numpy().tobytes().hex() == "814020"


@pytest.mark.parametrize("name", [row[0] for row in TABLE if row[3] < 8])
@pytest.mark.parametrize("n", range(1, 10))
def test_bytes_of_packed_elements(name: str, n: int) -> None:
    dtype = hurray.Dtype.from_name(name)
    wanted = -(-n // 4) * 3 if dtype.bit_width == 6 else -(-n * dtype.bit_width // 8)
    assert hurray.buffer_size_bytes(dtype, n) == wanted
    stored(dtype.tag, (n,), bytes(wanted))
    with pytest.raises(hurray.BufferError, match=rf"\(data\) has {wanted - 1} bytes.* needs at least {wanted}"):
        stored(dtype.tag, (n,), bytes(wanted - 1))


@pytest.mark.parametrize("name", [row[0] for row in TABLE if row[3] < 8])
def test_the_byte_offset_of_packed_elements_is_whole_bytes(name: str) -> None:
    dtype = hurray.Dtype.from_name(name)
    plain = hurray.asarray(np.array([1, 0, 1, 1, 1, 0, 0, 1, 1]), dtype=dtype)
    data = plain.buffer(0).to_numpy().tobytes()
    moved = stored(dtype.tag, (9,), b"\xff\xff" + data, byte_offset=2)
    assert moved.to_numpy().tobytes() == plain.to_numpy().tobytes()
    assert moved[8] == plain[8]
    # Strides address elements, never bits of a byte of their own.
    step = raw.i64s(2)
    odd = stored(dtype.tag, (5,), b"\xff\xff" + data, byte_offset=2, layout=0x03, fields=step)
    assert odd.to_numpy().tobytes() == plain.to_numpy()[::2].tobytes()


# Private types


@pytest.mark.parametrize(("bits", "packing"), [(1, 8), (2, 4), (4, 2), (8, 1), (24, 1), (256, 1)])
def test_private_types(bits: int, packing: int) -> None:
    n_bytes = -(-5 * bits // 8)
    section = raw.extension(bits, packing, is_signed=1)
    t = stored(0xF3, (5,), bytes(n_bytes), extension=section)
    assert t.extension_type == hurray.ExtensionType(bits, is_signed=True)
    assert t.extension_type.buffer_size_bytes(5) == n_bytes
    with pytest.raises(hurray.UnsupportedError, match="private"):
        t.to_numpy()
    with pytest.raises(hurray.BufferError, match=f"at least {n_bytes}"):
        stored(0xF3, (5,), bytes(n_bytes - 1), extension=section)


@pytest.mark.parametrize(
    ("bits", "packing"), [(0, 1), (3, 1), (5, 1), (6, 1), (7, 1), (12, 1), (1, 4), (4, 4), (8, 2), (8, 0), (16, 0)]
)
def test_private_types_of_other_widths(bits: int, packing: int) -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match="bit_width|packing_factor"):
        decode_descriptor(raw.descriptor(type_tag=0xF0, shape=(), buffers=[64], extension=raw.extension(bits, packing)))


# Devices

DEVICES = {
    "cpu": (0x00, [0, 1, 2]),
    "cuda": (0x01, [0, 1, 2, 3]),
    "rocm": (0x02, [0, 1, 2, 3]),
    "metal": (0x03, [0, 1, 2]),
    "vulkan": (0x04, [0, 1, 2, 3]),
    "webgpu": (0x05, [0]),
    "hexagon": (0x06, [0, 1, 2]),
    "level_zero": (0x07, [0, 1, 2, 3]),
    "opencl": (0x08, [0, 1, 2]),
}
CLASSES = ["standard", "host_pinned", "unified", "peer"]


def on_device(device: int, memory: int, sync: int = 0) -> hurray.Descriptor:
    row = raw.handle(8, device=device, memory=memory, sync=sync)
    return decode_descriptor(raw.descriptor(type_tag=0x10, shape=(8,), buffers=[row]))


@pytest.mark.parametrize("kind", DEVICES)
def test_devices_and_their_memory_classes(kind: str) -> None:
    tag, allowed = DEVICES[kind]
    for memory in range(256):
        if memory in allowed:
            device = on_device(tag, memory).device
            assert (device.kind, device.memory_class, device.tag) == (kind, CLASSES[memory], tag)
        else:
            with pytest.raises(hurray.InvalidDescriptorError, match="memory class"):
                on_device(tag, memory)


def test_private_devices() -> None:
    for tag in (0xF0, 0xFE):
        for memory in range(256):
            if memory == 0 or 0xF0 <= memory <= 0xFE:
                assert on_device(tag, memory).device.memory_class_tag == memory
            else:
                with pytest.raises(hurray.InvalidDescriptorError, match="memory class"):
                    on_device(tag, memory)


@pytest.mark.parametrize("tag", [0x09, 0x7F, 0x80, 0xEF, 0xFF])
@pytest.mark.parametrize("permissive", [False, True])
def test_reserved_devices(tag: int, permissive: bool) -> None:
    data = raw.descriptor(shape=(), buffers=[raw.handle(4, device=tag)])
    with pytest.raises(
        hurray.InvalidDescriptorError, match=rf"buffers\[0\].device_tag at byte 41: device tag 0x{tag:02x}"
    ):
        decode_descriptor(data, permissive=permissive)


def test_sync_modes() -> None:
    for sync, name in enumerate(["producer_synced", "event", "consumer_stream"]):
        assert on_device(0x01, 0, sync).buffer_handles[0].sync_mode == name
        assert on_device(0xF0, 0, sync).buffer_handles[0].sync_mode == name
        if sync:
            with pytest.raises(
                hurray.InvalidDescriptorError, match=f"a CPU buffer must be producer_synced, not {name}"
            ):
                on_device(0x00, 0, sync)
    for sync in (3, 0x80, 0xF0, 0xFF):
        with pytest.raises(hurray.InvalidDescriptorError, match="sync mode"):
            on_device(0x01, 0, sync)


def test_one_device_for_all_buffers() -> None:
    def two(*rows: bytes) -> None:
        decode_descriptor(raw.descriptor(layout=0x06, shape=(4,), fields=raw.u64s(0, 0), buffers=rows))

    two(raw.handle(0, device=1), raw.handle(0, device=1, sync=1))
    for other in (raw.handle(0, device=2), raw.handle(0, device=1, memory=1), raw.handle(0)):
        with pytest.raises(hurray.InvalidDescriptorError, match="all buffers share one device: buffer 1"):
            two(raw.handle(0, device=1), other)


def test_a_tensor_of_another_device_is_described_and_carried() -> None:
    row = raw.handle(8, alignment=4096, device=1, sync=1)
    stream = raw.descriptor(type_tag=0x10, shape=(8,), buffers=[row]) + b"12345678"
    [t] = hurray.StreamReader(stream)
    assert isinstance(t, hurray.Tensor)
    assert (t.device.kind, t.buffer_handles[0].sync_mode) == ("cuda", "event")
    with hurray.StreamWriter() as w:
        w.write(t)
    assert w.getvalue() == stream


# Devices of DLPack: codes by memory class standard, host_pinned, unified, peer; None cannot cross
CODES: dict[str, list[int | None]] = {
    "cpu": [1, 1, 1, None],
    "cuda": [2, 3, 13, None],
    "rocm": [10, 11, None, None],
    "metal": [8, 8, 8, None],
    "vulkan": [7, 7, 7, None],
    "webgpu": [15, None, None, None],
    "hexagon": [16, 16, 16, None],
    "level_zero": [14, 14, 14, None],
    "opencl": [4, 4, 4, None],
}


@pytest.mark.parametrize("kind", DEVICES)
def test_device_codes_of_dlpack(kind: str) -> None:
    tag, allowed = DEVICES[kind]
    for memory in allowed:
        row = raw.handle(8, alignment=4096, device=tag, memory=memory)
        [t] = hurray.StreamReader(raw.descriptor(type_tag=0x10, shape=(8,), buffers=[row]) + bytes(8))
        assert isinstance(t, hurray.Tensor)
        code = CODES[kind][memory]
        if code is None:
            with pytest.raises(hurray.UnsupportedError, match="DLPack"):
                t.__dlpack_device__()
        else:
            assert t.__dlpack_device__() == (code, 0)


def test_private_devices_do_not_cross_dlpack() -> None:
    [t] = hurray.StreamReader(raw.descriptor(type_tag=0x10, shape=(0,), buffers=[raw.handle(0, device=0xF0)]))
    assert isinstance(t, hurray.Tensor)
    with pytest.raises(hurray.UnsupportedError, match="DLPack"):
        t.__dlpack_device__()
