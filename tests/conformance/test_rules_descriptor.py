"""Rules of the descriptor: header, shape, buffer table, optional sections, versions; all met in bytes made by hand."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

import hurray
import rawbytes as raw
from hurray.descriptor.codec import decode_descriptor


def refused(match: str, data: bytes, *, permissive: bool = False) -> hurray.InvalidDescriptorError:
    with pytest.raises(hurray.InvalidDescriptorError, match=match) as caught:
        decode_descriptor(data, permissive=permissive)
    return caught.value


def plain(**changes: Any) -> bytes:
    return raw.descriptor(**{"shape": (3, 4), "buffers": [192], **changes})


def test_the_worked_example() -> None:
    wanted = (
        "48525259 01 00 3d000000 00000000 03 01 02000000 0300000000000000 0400000000000000 0000000000000000"
        "01 c000000000000000 40000000 00 00 00 00"
    )
    assert plain() == bytes.fromhex(wanted)
    d = decode_descriptor(plain() + b"what follows is not looked at")
    assert (d.dtype, d.shape, d.layout, d.encoded_len) == (hurray.float32, (3, 4), hurray.RowMajorLayout(), 61)
    assert d.encode() == plain()


# Header


@pytest.mark.parametrize(
    ("changes", "field", "offset", "match"),
    [
        ({"magic": b"HRRX"}, "magic", 0, "magic must be b'HRRY'"),
        ({"version": (0, 0)}, "version_major", 4, "version 0.0 is not supported"),
        ({"version": (2, 0)}, "version_major", 4, "version 2.0 is not supported"),
        ({"length": 19}, "descriptor_length", 6, "at least 20, but is 19"),
        ({"length": 62}, "descriptor_length", 6, "descriptor_length is 62, but only 61 bytes are there"),
        ({"length": 2**32 - 1}, "descriptor_length", 6, "only 61 bytes"),
        ({"layout": 0x00}, "layout_tag", 15, "layout tag 0x00 is permanently invalid"),
        ({"layout": 0xFF}, "layout_tag", 15, "layout tag 0xff is permanently invalid"),
        ({"rank": 65}, "rank", 16, "rank 65 exceeds 64"),
        ({"rank": 2**32 - 1}, "rank", 16, "exceeds 64"),
    ],
)
@pytest.mark.parametrize("permissive", [False, True])
def test_header_fields(changes: dict[str, Any], field: str, offset: int, match: str, permissive: bool) -> None:
    error = refused(match, plain(**changes), permissive=permissive)
    assert (error.field, error.offset) == (field, offset)


@pytest.mark.parametrize("bit", range(5, 32))
@pytest.mark.parametrize("permissive", [False, True])
def test_reserved_flags(bit: int, permissive: bool) -> None:
    error = refused("reserved flag bits are set", plain(flags=1 << bit), permissive=permissive)
    assert (error.field, error.offset) == ("flags", 10)


@pytest.mark.parametrize("n", range(61))
@pytest.mark.parametrize("permissive", [False, True])
def test_every_length_that_ends_inside(n: int, permissive: bool) -> None:
    refused("bytes", plain()[:n], permissive=permissive)
    # Bytes are there, but the descriptor's own length ends before them.
    refused("descriptor_length|bytes, but only", plain(length=n), permissive=permissive)


@pytest.mark.parametrize("minor", [0, 1, 255])
def test_bytes_behind_the_last_part(minor: int) -> None:
    longer = plain(version=(1, minor), appended=b"later")
    if minor == 0:
        refused("5 bytes are left behind the last part, which version 1.0 does not allow", longer)
    for permissive in (False, True)[minor == 0 :]:
        d = decode_descriptor(longer, permissive=permissive)
        assert (d.version, d.trailing, d.shape) == ((1, minor), b"later", (3, 4))
        assert d.encode() == longer
    d = decode_descriptor(plain(version=(1, minor)))
    assert (d.version, d.encode()) == ((1, minor), plain(version=(1, minor)))


def test_a_later_minor_version_defines_no_flag_or_tag() -> None:
    refused("reserved flag bits", plain(version=(1, 9), flags=32))
    refused("layout tag 0x0c is unassigned", plain(version=(1, 9), layout=0x0C))
    refused("type tag 0x47", plain(version=(1, 9), type_tag=0x47))


def test_the_extension_flag_goes_with_private_types_exactly() -> None:
    section = raw.extension(8, 1)
    assert decode_descriptor(plain(type_tag=0xF0, extension=section)).extension_type == hurray.ExtensionType(8)
    error = refused("type tag 0xf0 needs an extension type section", plain(type_tag=0xF0))
    assert error.field == "flags"
    refused("type tag 0x03 takes no .*extension type section", plain(extension=section))


# Shape


def test_dimensions() -> None:
    huge = 2**64 - 2
    d = decode_descriptor(raw.descriptor(shape=(huge, 0, raw.DYNAMIC), buffers=[0]))
    assert d.shape == (huge, 0, None)
    assert d.size is None
    assert decode_descriptor(raw.descriptor(shape=(huge, 0), buffers=[0])).size == 0
    assert decode_descriptor(raw.descriptor(buffers=[4])).size == 1
    rank_64 = raw.descriptor(shape=(1,) * 64, buffers=[4])
    assert decode_descriptor(rank_64).ndim == 64


@pytest.mark.parametrize("shape", [(2**63, 2), (2**32, 2**32), (2**64 - 2, 2**64 - 2)])
def test_the_element_count_does_not_wrap(shape: tuple[int, ...]) -> None:
    for data in (raw.tensor(b"", shape=shape), raw.tensor(b"", shape=shape, layout=0x02)):
        with pytest.raises(hurray.BufferError, match="64 bits|at least"):
            list(hurray.StreamReader(data))


@pytest.mark.parametrize(
    ("about", "buffers"),
    [
        ({"layout": 0x03, "fields": raw.i64s(0, 0)}, (b"\5",)),
        ({"layout": 0x06, "fields": raw.u64s(1, 1)}, (b"\5", raw.u64s(2**40 - 1, 3))),
    ],
)
def test_shapes_that_no_dense_layout_could_have(about: dict[str, Any], buffers: tuple[bytes, ...]) -> None:
    [t] = hurray.StreamReader(raw.tensor(*buffers, type_tag=0x11, shape=(2**40, 2**40), **about))
    assert isinstance(t, hurray.Tensor)
    assert t.size is None
    assert "1099511627776" in repr(t)
    if t.layout.is_sparse:
        assert t.lookup([[2**40 - 1, 3], [0, 0]]).tolist() == [5, 0]
    with pytest.raises(hurray.HurrayError):
        t.to_numpy()


def test_nothing_is_sized_by_a_dynamic_shape() -> None:
    [t] = hurray.StreamReader(raw.tensor(b"1234567", shape=(raw.DYNAMIC, 4)))
    assert isinstance(t, hurray.Tensor)
    assert (t.shape, t.size) == ((None, 4), None)
    with pytest.raises(hurray.UnsupportedError, match="dynamic"):
        t.to_numpy()
    quantized = raw.descriptor(
        type_tag=0x10, shape=(raw.DYNAMIC, 4), buffers=[8, 8], quantization=raw.per_channel(0, 1)
    )
    refused("axis 0 is dynamic", quantized)
    beside = raw.descriptor(type_tag=0x10, shape=(raw.DYNAMIC, 4), buffers=[8, 16], quantization=raw.per_channel(1, 1))
    assert decode_descriptor(beside).quantization == hurray.PerChannelAffine.symmetric(1, 1)
    refused("dynamic", raw.descriptor(shape=(raw.DYNAMIC,), buffers=[8], shard=raw.shard((8,), (0,))))
    refused("dynamic", raw.descriptor(shape=(2,), buffers=[8], shard=raw.shard((raw.DYNAMIC,), (0,))))


SCALARS = [
    (0x01, b"", 1, True),
    (0x02, b"", 1, False),
    (0x03, b"", 1, False),
    (0x04, raw.u8s(1, 1, 0, 0), 1, False),
    (0x05, b"", 1, False),
    (0x06, raw.u64s(0, 0), 2, False),
    (0x07, raw.u64s(0, 0), 3, False),
    (0x08, raw.u64s(0, 0), 3, False),
    (0x09, raw.u64s(0, 0), 1, False),
    (0x0A, struct.pack("<IQIIBIB6x", 1, 0, 0, 0, 0, 0, 0), 3, False),
    (0x0B, raw.u8s(3, 0, 0, 0) + raw.u32s(0), 0, True),
    (0x40, raw.u32s(1, 0), 1, False),
    (0xF0, raw.u64s(7) + raw.u32s(0), 1, True),
]


@pytest.mark.parametrize(("layout", "fields", "n_buffers", "legal"), SCALARS, ids=[hex(s[0]) for s in SCALARS])
def test_scalars(layout: int, fields: bytes, n_buffers: int, legal: bool) -> None:
    data = raw.descriptor(layout=layout, fields=fields, buffers=[64] * n_buffers)
    if legal:
        assert decode_descriptor(data).encode() == data
    else:
        refused("rank|empty", data)


def test_empty_tensors_are_whole_tensors() -> None:
    for shape in ((0,), (3, 0, 5), (0, 2**63)):
        stream = raw.tensor(b"", shape=shape)
        [t] = hurray.StreamReader(stream)
        with hurray.StreamWriter() as w:
            w.write(t)
        assert w.getvalue() == stream
    [t] = hurray.StreamReader(raw.tensor(b"", shape=(3, 0)))
    assert isinstance(t, hurray.Tensor)
    assert t.to_numpy().shape == (3, 0)


def test_byte_offset() -> None:
    assert decode_descriptor(plain(byte_offset=192)).byte_offset == 192
    refused("byte_offset 193 lies behind buffer 0, which has 192 bytes", plain(byte_offset=193))
    refused("byte_offset 193", plain(byte_offset=193, layout=0xF0, fields=raw.u64s(1) + raw.u32s(0)))
    for layout, fields, shape, n in [
        (0x06, raw.u64s(0, 0), (4,), 2),
        (0x07, raw.u64s(0, 0), (2, 2), 3),
        (0x08, raw.u64s(0, 0), (2, 2), 3),
        (0x09, raw.u64s(0) + raw.u32s(0, 1, 2) + bytes(8), (2, 2, 2), 7),
        (0x0A, struct.pack("<IQIIBIB6x", 1, 0, 0, 0, 0, 0, 0), (0, 1, 1), 3),
        (0x0B, raw.u8s(3, 0, 0, 0) + raw.u32s(0), (), 0),
    ]:
        data = raw.descriptor(layout=layout, fields=fields, shape=shape, buffers=[64] * n, byte_offset=1)
        refused("byte_offset 0, not 1", data)
        assert (
            decode_descriptor(raw.descriptor(layout=layout, fields=fields, shape=shape, buffers=[64] * n)).byte_offset
            == 0
        )


# Buffer table


@pytest.mark.parametrize("permissive", [False, True])
def test_alignment(permissive: bool) -> None:
    for n_bytes in (0, 8):
        for alignment in (0, 1, 2, 3, 32, 63, 64, 65, 96, 4096, 2**31, 2**32 - 1):
            row = raw.handle(n_bytes, alignment=alignment)
            data = raw.descriptor(type_tag=0x10, shape=(n_bytes,), buffers=[row])
            power = alignment > 0 and alignment & (alignment - 1) == 0
            if power and (alignment >= 64 or n_bytes == 0):
                assert decode_descriptor(data, permissive=permissive).buffer_handles[0].alignment == alignment
            else:
                refused(f"buffer 0: alignment {alignment}", data, permissive=permissive)


def test_the_reserved_byte_of_a_handle() -> None:
    error = refused("reserved bytes must be 0", plain(buffers=[raw.handle(192, reserved=1)]), permissive=True)
    assert error.field == "buffers[0].reserved"


def csf(rank: int) -> dict[str, Any]:
    fields = raw.u64s(0) + raw.u32s(*range(rank)) + bytes(8)
    return {"layout": 0x09, "shape": (2,) * rank, "fields": fields}


COUNTS: list[tuple[dict[str, Any], int]] = [
    ({"shape": (4,)}, 1),
    ({"layout": 0x02, "shape": (4,)}, 1),
    ({"layout": 0x03, "shape": (4,), "fields": bytes(8)}, 1),
    ({"layout": 0x04, "shape": (4,), "fields": raw.u64s(2) + raw.u8s(1, 1, 0, 0)}, 1),
    ({"layout": 0x05, "shape": (4,), "fields": raw.u32s(2)}, 1),
    ({"layout": 0x06, "shape": (4,), "fields": bytes(16)}, 2),
    ({"layout": 0x07, "shape": (4, 4), "fields": bytes(16)}, 3),
    ({"layout": 0x08, "shape": (4, 4), "fields": bytes(16)}, 3),
    (csf(3), 7),
    (csf(5), 11),
    ({"layout": 0x0A, "shape": (0, 1, 1), "fields": struct.pack("<IQIIBIB6x", 1, 0, 0, 0, 0, 0, 0)}, 3),
    ({"layout": 0x0B, "fields": raw.u8s(3, 0, 0, 0) + raw.u32s(0)}, 0),
    ({"layout": 0x40, "shape": (4, 4), "fields": raw.u32s(2, 2)}, 1),
]


@pytest.mark.parametrize(("about", "n"), COUNTS, ids=[hex(c[0].get("layout", 1)) for c in COUNTS])
def test_buffer_counts_are_exact(about: dict[str, Any], n: int) -> None:
    assert decode_descriptor(raw.descriptor(buffers=[64] * n, **about)).buffer_count == n
    for wrong in {max(0, n - 1), n + 1, 255} - {n}:
        refused("buffers?", raw.descriptor(buffers=[64] * wrong, **about))
        refused("buffers?", raw.descriptor(buffers=[64] * wrong, **about), permissive=True)


def test_buffer_counts_with_parameters() -> None:
    def counted(n: int, **about: Any) -> bytes:
        return raw.descriptor(type_tag=0x10, shape=(4, 4), buffers=[64] * n, **about)

    csr: dict[str, Any] = {"layout": 0x07, "fields": raw.u64s(0, 0)}
    cases: list[tuple[int, dict[str, Any]]] = [
        (1, {"quantization": raw.per_tensor()}),
        (2, {"quantization": raw.per_channel(0, 1)}),
        (3, {"quantization": raw.per_channel(0, 1, 2)}),
        (3, {"quantization": raw.per_channel(0, 2, 1)}),
        (2, {"quantization": raw.per_channel(0, 1, 1)}),
        (3, {"quantization": raw.per_tensor(), **csr}),
        (4, {"quantization": raw.per_channel(0, 3), **csr}),
        (5, {"quantization": raw.per_channel(0, 3, 4), **csr}),
    ]
    for n, about in cases:
        assert decode_descriptor(counted(n, **about)).buffer_count == n
        refused("buffers?", counted(n + 1, **about))
        refused("buffers?", counted(n - 1, **about))


def test_private_and_unknown_layouts_have_at_least_one_buffer() -> None:
    private: dict[str, Any] = {"layout": 0xF3, "fields": raw.u64s(7) + raw.u32s(2) + b"ab", "shape": (2,)}
    for n in (1, 2, 255):
        d = decode_descriptor(raw.descriptor(buffers=[64] * n, **private))
        assert (d.buffer_count, d.layout) == (n, hurray.PrivateExtensionLayout(0xF3, 7, b"ab"))
    refused("at least 1 buffer, but the table has 0", raw.descriptor(buffers=[], **private))


# Sections


def test_the_order_of_sections() -> None:
    data = raw.descriptor(
        type_tag=0xF1,
        shape=(2,),
        buffers=[8],
        shard=raw.shard((9,), (7,)),
        statistics=raw.statistics(1, nnz=2),
        extension=raw.extension(32, 1, is_float=1, parts=bytes((1, 8, 23)), bias=127, has_nan=1),
        member=raw.member(1),
    )
    d = decode_descriptor(data)
    assert d.shard == hurray.Shard((9,), (7,))
    assert d.statistics == hurray.Statistics(nnz=2)
    assert d.extension_type == hurray.ExtensionType(
        32, is_float=True, sign_bits=1, exponent_bits=8, mantissa_bits=23, exponent_bias=127, has_nan=True
    )
    assert d.member_role == "base"
    assert d.encode() == data


@pytest.mark.parametrize(
    ("parent", "offset", "legal"),
    [
        ((4, 5), (0, 0), True),
        ((4, 5), (2, 2), True),
        ((2, 3), (0, 0), True),
        ((4, 5), (3, 0), False),
        ((1, 9), (0, 0), False),
        ((2**64 - 2, 5), (2**64 - 4, 0), True),
        ((2**64 - 2, 5), (2**64 - 1, 0), False),
    ],
)
def test_shards(parent: tuple[int, ...], offset: tuple[int, ...], legal: bool) -> None:
    data = raw.descriptor(shape=(2, 3), buffers=[24], shard=raw.shard(parent, offset))
    if legal:
        assert decode_descriptor(data).shard == hurray.Shard(parent, offset)
    else:
        refused(r"shard_offset\[\d\] \d+ \+ shape\[\d\] \d > parent_shape", data)


def test_layouts_that_are_no_shards() -> None:
    paged = struct.pack("<IQIIBIB6x", 1, 0, 0, 0, 0, 0, 0)
    whole = raw.shard((2, 2, 2), (0, 0, 0))
    refused("csf tensor may not be a shard", raw.descriptor(buffers=[64] * 7, shard=whole, **csf(3)))
    refused(
        "block_paged tensor may not be a shard",
        raw.descriptor(layout=0x0A, shape=(0, 2, 2), fields=paged, buffers=[0] * 3, shard=whole),
    )


# Statistics


def stats(mask: int, **about: Any) -> bytes:
    return plain(statistics=raw.statistics(mask, **about))


def test_statistics_are_read_group_by_group() -> None:
    floats = (0.25, -2.0, 3.0, 3.0, 0.5, 1.5)
    small = bytes((2, 4, 1, 0)) + bytes(4)
    groups: list[dict[str, Any]] = [
        {"nnz": 9},
        {"sparsity_ratio": 0.25},
        {"value_min": -2.0, "value_max": 3.0, "value_abs_max": 3.0},
        {"value_mean": 0.5, "value_stddev": 1.5},
        {"nm_n": 2, "nm_m": 4},
        {"has_nan": True, "has_inf": False},
    ]
    for mask in range(64):
        want: dict[str, Any] = {}
        for bit, group in enumerate(groups):
            want.update(group if mask >> bit & 1 else {})
        d = decode_descriptor(stats(mask, nnz=9, floats=floats, small=small))
        assert d.statistics == hurray.Statistics(**want)
        assert d.statistics.computed_mask == mask
        # What is unknown is written as zero, whatever was read.
        again = decode_descriptor(d.encode())
        assert again.statistics == d.statistics
    assert decode_descriptor(stats(63, nnz=9, floats=floats, small=small)).encode() == stats(
        63, nnz=9, floats=floats, small=small
    )
    assert decode_descriptor(stats(0, nnz=9, floats=floats, small=small)).encode() == stats(0)


@pytest.mark.parametrize(
    ("mask", "about", "match"),
    [
        (64, {}, "computed_mask"),
        (1 << 31, {}, "computed_mask"),
        (2, {"floats": (1.5, 0, 0, 0, 0, 0)}, "sparsity_ratio"),
        (2, {"floats": (-0.5, 0, 0, 0, 0, 0)}, "sparsity_ratio"),
        (2, {"floats": (math.nan, 0, 0, 0, 0, 0)}, "sparsity_ratio"),
        (8, {"floats": (0, 0, 0, 0, 0, -1.0)}, "value_stddev"),
        (16, {"small": bytes((3, 2)) + bytes(6)}, "nm_n 3 must not exceed nm_m 2"),
        (32, {"small": bytes((0, 0, 2, 0)) + bytes(4)}, "has_nan"),
        (0, {"small": bytes((0, 0, 0, 255)) + bytes(4)}, "has_inf"),
        (0, {"small": bytes(4) + b"\0\0\0\1"}, "reserved"),
    ],
)
def test_statistics_that_are_refused(mask: int, about: dict[str, Any], match: str) -> None:
    refused(match, stats(mask, **about))


def test_statistics_whose_bit_is_clear_are_not_looked_at() -> None:
    d = decode_descriptor(stats(0, floats=(9.0, 1, 0, 0, 0, -1.0), small=bytes((9, 1)) + bytes(6)))
    assert d.statistics == hurray.Statistics()


def test_statistics_keep_their_bits() -> None:
    nan = struct.unpack("<d", raw.u64s(0x7FF8000000001234))[0]
    data = stats(12, floats=(0.0, -0.0, -0.0, -0.0, nan, nan))
    d = decode_descriptor(data)
    assert d.statistics is not None
    assert d.statistics.value_min is not None
    assert math.copysign(1, d.statistics.value_min) == -1
    assert d.encode() == data
    assert d.statistics != decode_descriptor(stats(12, floats=(0.0, 0.0, 0.0, 0.0, nan, nan))).statistics


def test_the_reserved_word_of_statistics() -> None:
    section = bytearray(raw.statistics(0))
    section[4] = 1
    refused("statistics.reserved", plain(statistics=bytes(section)))


def test_sparse_statistics_repeat_the_nnz_of_the_layout() -> None:
    def sparse(mask: int, nnz: int) -> bytes:
        section = raw.statistics(mask, nnz=nnz)
        return raw.descriptor(layout=0x06, shape=(4,), fields=raw.u64s(3, 0), buffers=[12, 24], statistics=section)

    assert decode_descriptor(sparse(1, 3)).statistics == hurray.Statistics(nnz=3)
    assert decode_descriptor(sparse(0, 4)).statistics == hurray.Statistics()
    refused("statistics nnz is 4, but the layout's nnz is 3", sparse(1, 4))


def test_no_n_m_pattern() -> None:
    assert decode_descriptor(stats(16)).statistics == hurray.Statistics(nm_n=0, nm_m=0)


# Extension type


@pytest.mark.parametrize(
    ("section", "match"),
    [
        (raw.extension(32, 1, is_float=2), "is_float"),
        (raw.extension(32, 1, is_signed=2), "is_signed"),
        (raw.extension(32, 1, has_nan=2), "has_nan"),
        (raw.extension(32, 1, has_inf=3), "has_inf"),
        (raw.extension(32, 1, reserved=b"\1\0"), "reserved"),
        (raw.extension(32, 1, reserved2=b"\0\1"), "reserved2"),
        (raw.extension(32, 1, is_float=1, is_signed=1), "is_signed False"),
        (raw.extension(32, 1, is_float=1, parts=b"\2\0\0"), "sign_bits 0 or 1"),
        (raw.extension(32, 1, parts=b"\1\0\0"), "integer extension type"),
        (raw.extension(32, 1, parts=b"\0\1\0"), "integer extension type"),
        (raw.extension(32, 1, parts=b"\0\0\1"), "integer extension type"),
        (raw.extension(32, 1, bias=1), "integer extension type"),
        (raw.extension(32, 1, has_nan=1), "integer extension type"),
        (raw.extension(32, 1, has_inf=1), "integer extension type"),
    ],
)
def test_extension_types_that_are_refused(section: bytes, match: str) -> None:
    refused(match, raw.descriptor(type_tag=0xF0, shape=(), buffers=[64], extension=section))


# Composite member


def test_member_sections() -> None:
    for role, name in ((0, "correction"), (1, "base")):
        d = decode_descriptor(plain(member=raw.member(role)))
        assert (d.member_role, d.encode()) == (name, plain(member=raw.member(role)))
    for role in (2, 0x80, 0xF0, 0xFF):
        refused(f"member_role must be 0 or 1, but is 0x{role:02x}", plain(member=raw.member(role)))
    for k in range(1, 16):
        section = bytearray(16)
        section[k] = 1
        refused("composite_member.reserved", plain(member=bytes(section)))


# Writers


def test_alignments_that_writers_write() -> None:
    for device, alignment in ((hurray.device.cpu, 64), (hurray.device.cuda, 4096)):
        t = hurray.Tensor(bytes(8), hurray.int8, [8], device)
        assert t.buffer_handles[0].alignment == alignment
        assert hurray.Tensor(b"", hurray.int8, [0], device).buffer_handles[0].alignment == 1


def test_what_was_read_is_relayed_as_it_was() -> None:
    row = raw.handle(8, alignment=65536)
    stream = raw.descriptor(type_tag=0x10, shape=(8,), buffers=[row], version=(1, 2), appended=b"later") + b"abcdefgh"
    [t] = hurray.StreamReader(stream)
    with hurray.StreamWriter() as w:
        w.write(t)
    assert w.getvalue() == stream


def test_statistics_that_writers_compute() -> None:
    data = raw.f32s(0.0, -3.0, 1.0, 0.0)
    [plain, booleans, quantized, sparse, empty] = hurray.StreamReader(
        raw.tensor(data, shape=(2, 2))
        + raw.tensor(b"\x05", type_tag=0x20, shape=(4,))
        + raw.tensor(b"\2\4\2\0", type_tag=0x10, shape=(4,), quantization=raw.per_tensor(0.5, 2))
        + raw.tensor(b"\7\0", raw.u64s(1, 3), type_tag=0x11, shape=(5,), layout=0x06, fields=raw.u64s(2, 1))
        + raw.tensor(b"", shape=(0,))
    )
    found = hurray.compute_statistics(plain)  # type: ignore[arg-type]
    assert (found.nnz, found.sparsity_ratio) == (2, 0.5)
    assert (found.value_min, found.value_max, found.value_abs_max) == (-3.0, 1.0, 3.0)
    assert (found.value_mean, found.value_stddev) == (-0.5, math.sqrt(2.25))
    assert (found.has_nan, found.has_inf) == (False, False)
    # bool counts as 0 and 1
    found = hurray.compute_statistics(booleans)  # type: ignore[arg-type]
    assert (found.nnz, found.value_max, found.value_mean, found.value_stddev) == (2, 1.0, 0.5, 0.5)
    # of the dequantized values
    found = hurray.compute_statistics(quantized)  # type: ignore[arg-type]
    assert (found.nnz, found.value_min, found.value_max, found.value_abs_max) == (2, -1.0, 1.0, 1.0)
    # the layout's nnz rules, explicit zeros included
    found = hurray.compute_statistics(sparse)  # type: ignore[arg-type]
    assert (found.nnz, found.sparsity_ratio, found.value_max, found.value_mean) == (2, 0.6, 7.0, 1.4)
    found = hurray.compute_statistics(empty)  # type: ignore[arg-type]
    assert (found.nnz, found.sparsity_ratio, found.value_min) == (0, 0.0, None)


@pytest.mark.parametrize(
    "group",
    [
        {"value_min": 1.0},
        {"value_min": 1.0, "value_max": 2.0},
        {"value_mean": 1.0},
        {"value_stddev": 1.0},
        {"nm_n": 1},
        {"nm_m": 1},
        {"has_nan": True},
        {"has_inf": True},
    ],
)
def test_groups_of_statistics_are_authored_whole(group: dict[str, Any]) -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match="belong together"):
        hurray.Statistics(**group)
