"""Rules of the layouts: fields, least sizes, addressing, invariants; all met in bytes made by hand."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import pytest

import hurray
import rawbytes as raw
from hurray.descriptor.codec import decode_descriptor


def read(*buffers: bytes, permissive: bool = False, **about: Any) -> hurray.Tensor:
    """Read one tensor of a stream."""
    [t] = hurray.StreamReader(raw.tensor(*buffers, **about), permissive=permissive)
    assert isinstance(t, hurray.Tensor)
    return t


def refused(match: str, **about: Any) -> hurray.InvalidDescriptorError:
    with pytest.raises(hurray.InvalidDescriptorError, match=match) as caught:
        decode_descriptor(raw.descriptor(**about))
    return caught.value


def numbers(n: int) -> bytes:
    """Return 0, 1, 2, ... as bytes."""
    return bytes(range(n))


U8 = 0x11

# Tags


@pytest.mark.parametrize("tag", [0x0C, 0x3F, 0x41, 0x7F, 0x80, 0xEF])
def test_tags_without_a_layout(tag: int) -> None:
    refused(f"layout tag 0x{tag:02x} is (unassigned|reserved)", layout=tag, shape=(1,), buffers=[64])


def unknown(tag: int = 0x0C, **about: Any) -> bytes:
    return raw.descriptor(**{"layout": tag, "type_tag": U8, "shape": (4,), "buffers": [4], **about})


@pytest.mark.parametrize("tag", [0x0C, 0x3F, 0x41, 0x7F, 0x80, 0xEF])
def test_one_split_shows_the_buffer_table(tag: int) -> None:
    data = unknown(tag, fields=b"\xaa\xbb", shard=raw.shard((9,), (5,)))
    d = decode_descriptor(data, permissive=True)
    assert d.layout == hurray.UnknownLayout(tag, b"\xaa\xbb")
    assert [h.byte_size for h in d.buffer_handles] == [4]
    assert d.shard == hurray.Shard((9,), (5,))
    assert d.encode() == data


@pytest.mark.parametrize("scheme", [raw.per_channel(0, 1), b"\xf0\x01\0\0any bytes", b"\x60\x01\0\0"])
def test_a_split_with_a_scheme(scheme: bytes) -> None:
    data = unknown(fields=b"\xaa\xbb\xcc", buffers=[4, 16], quantization=scheme, statistics=raw.statistics(1, nnz=3))
    d = decode_descriptor(data, permissive=True)
    assert isinstance(d.layout, hurray.UnknownLayout)
    assert d.layout.raw_bytes == b"\xaa\xbb\xcc"
    assert d.quantization is not None
    assert d.quantization.encode() == scheme
    assert (d.buffer_count, d.encode()) == (2, data)


def test_an_ambiguous_split_shows_none() -> None:
    # The scheme's bytes end in a table and a scheme of their own, so there are two splits.
    scheme = b"\xf0\x01\0\0"
    inner = raw.u8s(1) + raw.handle(64) + raw.u32s(len(scheme)) + scheme
    data = unknown(quantization=scheme + inner)
    d = decode_descriptor(data, permissive=True)
    assert d.is_opaque
    assert (d.shape, d.dtype, d.buffer_count, d.quantization) == ((4,), hurray.uint8, 0, None)
    assert d.encode() == data
    # A byte less behind it, and only one split is left.
    d = decode_descriptor(unknown(quantization=scheme + inner[:-1]), permissive=True)
    assert [h.byte_size for h in d.buffer_handles] == [4]


def test_no_split_at_all() -> None:
    for body in (b"\0", bytes(40), b"\1" + raw.handle(4, reserved=1)):
        data = raw.descriptor(layout=0x0C, shape=(4,))[:-1] + body
        data = data[:6] + raw.u32s(len(data)) + data[10:]
        d = decode_descriptor(data, permissive=True)
        assert d.is_opaque
        assert d.encode() == data


def test_statistics_that_would_change_leave_the_descriptor_opaque() -> None:
    data = unknown(statistics=raw.statistics(0, nnz=5))
    d = decode_descriptor(data, permissive=True)
    assert d.is_opaque
    assert d.encode() == data


def test_a_wide_field_block_is_searched_whole() -> None:
    for n in (4000, 9000, 200_000):
        data = unknown(fields=bytes(n), buffers=[4])
        d = decode_descriptor(data, permissive=True)
        assert [h.byte_size for h in d.buffer_handles] == [4]
        assert d.encode() == data
    # With a scheme, whose length is its own, a search is only worth so much.
    scheme = raw.per_channel(0, 1)
    found = [
        decode_descriptor(unknown(fields=bytes(n), buffers=[4, 16], quantization=scheme), permissive=True).buffer_count
        for n in (4000, 60_000, 200_000)
    ]
    assert found == [2, 2, 0]


def test_a_later_minor_version_leaves_every_split_open() -> None:
    data = unknown(version=(1, 1), fields=b"\xaa")
    d = decode_descriptor(data, permissive=True)
    assert d.is_opaque
    assert (d.shape, d.dtype, d.buffer_count) == ((4,), hurray.uint8, 0)
    assert d.encode() == data


def test_values_of_unknown_layouts_are_unsupported() -> None:
    t = read(b"abcd", layout=0x0C, fields=b"\xaa", type_tag=U8, shape=(4,), permissive=True)
    assert t.buffer(0).to_numpy().tobytes() == b"abcd"
    for use in (t.to_numpy, lambda: t[0], lambda: t.lookup([[0]]), lambda: t.to_layout("row_major"), t.nonzeros):
        with pytest.raises(hurray.UnsupportedError):
            use()
    t.validate()


def test_a_stream_cannot_go_on_behind_an_opaque_descriptor() -> None:
    with pytest.raises(hurray.StreamError, match="buffer table cannot be found"):
        list(hurray.StreamReader(unknown(version=(1, 1)) + b"abcd", permissive=True))


# Private


def test_private_layouts_are_carried_by_everyone() -> None:
    fields = raw.u64s(2**64 - 1) + raw.u32s(3) + b"xyz"
    for permissive in (False, True):
        stream = raw.tensor(b"12345", b"678", layout=0xFE, fields=fields, type_tag=U8, shape=(100,))
        [t] = hurray.StreamReader(stream, permissive=permissive)
        assert isinstance(t, hurray.Tensor)
        # Sizes are never checked against the shape.
        assert t.layout == hurray.PrivateExtensionLayout(0xFE, 2**64 - 1, b"xyz")
        with pytest.raises(hurray.UnsupportedError, match="opaque"):
            t.to_numpy()
        with hurray.StreamWriter() as w:
            w.write(t)
        assert w.getvalue() == stream


def test_the_length_of_private_fields_is_checked() -> None:
    error = refused("needs 4294967295 bytes", layout=0xF0, fields=raw.u64s(1) + raw.u32s(2**32 - 1), buffers=[4])
    assert error.field == "layout.extension_data"


def test_a_scheme_over_a_private_layout_keeps_its_own_rules() -> None:
    about: dict[str, Any] = {"layout": 0xF0, "fields": raw.u64s(1) + raw.u32s(0), "type_tag": 0x10, "shape": (4, 4)}
    assert (
        decode_descriptor(raw.descriptor(buffers=[9, 9, 9], quantization=raw.per_channel(1, 2), **about)).buffer_count
        == 3
    )
    for match, scheme, type_tag in [
        ("axis 2 is outside", raw.per_channel(2, 2), 0x10),
        ("names a buffer of the layout", raw.per_channel(1, 0), 0x10),
        ("outside a table of 3", raw.per_channel(1, 3), 0x10),
        ("cannot store float32", raw.per_channel(1, 2), 0x03),
        ("zero_point 128 is outside int8", raw.per_tensor(1.0, 128), 0x10),
        ("block_size 8 exceeds", raw.per_block(1, 8, 1), 0x10),
    ]:
        refused(match, buffers=[9, 9, 9], quantization=scheme, **{**about, "type_tag": type_tag})


# Row-major, column-major, strided


@pytest.mark.parametrize("layout", [0x01, 0x02])
def test_contiguous_orders(layout: int) -> None:
    t = read(b"\xff\xff" + numbers(6), layout=layout, type_tag=U8, shape=(2, 3), byte_offset=2)
    want = [[0, 1, 2], [3, 4, 5]] if layout == 0x01 else [[0, 2, 4], [1, 3, 5]]
    assert t.to_numpy().tolist() == want
    # Larger is legal, smaller is not, and the byte offset counts.
    read(bytes(99), layout=layout, type_tag=U8, shape=(2, 3), byte_offset=2)
    with pytest.raises(hurray.BufferError, match=r"buffer 0 \(data\) has 7 bytes.*at least 8"):
        read(bytes(7), layout=layout, type_tag=U8, shape=(2, 3), byte_offset=2)


def strided(n_bytes: int, strides: tuple[int, ...], *, shape: tuple[int, ...], offset: int = 0, tag: int = U8) -> Any:
    fields = raw.i64s(*strides)
    return read(numbers(n_bytes), layout=0x03, fields=fields, shape=shape, byte_offset=offset, type_tag=tag)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "values"),
    [
        ((2, 3), (1, 2), 0, [[0, 2, 4], [1, 3, 5]]),
        ((2, 3), (-3, 1), 3, [[3, 4, 5], [0, 1, 2]]),
        ((2, 3), (0, 0), 5, [[5, 5, 5], [5, 5, 5]]),
        ((2, 2), (0, -2), 3, [[3, 1], [3, 1]]),
        ((1, 3), (10**18, 1), 0, [[0, 1, 2]]),
    ],
)
def test_strides(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, values: Any) -> None:
    t = strided(6, strides, shape=shape, offset=offset)
    assert t.to_numpy().tolist() == values
    assert [t[at] for at in np.ndindex(*shape)] == np.array(values).reshape(-1).tolist()


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((2, 3), (3, 1), 1),
        ((2,), (-1,), 0),
        ((2, 3), (-3, 1), 2),
        ((3,), (2**62,), 0),
        ((3,), (-(2**62),), 6),
        ((2**40, 2), (2**40, 1), 0),
    ],
)
def test_strides_that_leave_the_buffer(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    with pytest.raises(hurray.BufferError):
        strided(6, strides, shape=shape, offset=offset)


def test_an_empty_strided_tensor_reaches_nothing() -> None:
    for strides in ((2**62, -(2**62)), (-1, -1)):
        t = read(b"", layout=0x03, fields=raw.i64s(*strides), shape=(0, 3), type_tag=U8)
        assert t.to_numpy().shape == (0, 3)


@pytest.mark.parametrize(
    ("tag", "data", "offset", "shape", "strides", "codes"),
    [
        (0x20, "0d", 0, (4,), (2,), [1, 1, 0, 0]),
        (0x49, "214365", 1, (3,), (-1,), [3, 2, 1]),
        (0x4B, "e4e4", 1, (3,), (-2,), [0, 2, 0]),
    ],
)
def test_packed_strides(tag: int, data: str, offset: int, shape: Any, strides: Any, codes: list[int]) -> None:
    t = read(bytes.fromhex(data), layout=0x03, fields=raw.i64s(*strides), shape=shape, byte_offset=offset, type_tag=tag)
    assert t.to_numpy().astype(int).tolist() == codes


def test_packed_strides_are_bounded_in_bits() -> None:
    # Five nibbles from byte 1 on, backwards: two bytes before it are needed.
    fields = raw.i64s(-1)
    with pytest.raises(hurray.BufferError):
        read(bytes(9), layout=0x03, fields=fields, shape=(4,), byte_offset=1, type_tag=0x49)
    assert read(bytes(2), layout=0x03, fields=fields, shape=(3,), byte_offset=1, type_tag=0x49).shape == (3,)
    with pytest.raises(hurray.BufferError, match="at least 2"):
        read(bytes(1), layout=0x03, fields=raw.i64s(2), shape=(5,), type_tag=0x20)
    assert read(bytes(2), layout=0x03, fields=raw.i64s(2), shape=(5,), type_tag=0x20).shape == (5,)


# Tiled


def tiles(
    tile: tuple[int, ...], outer: int = 1, inner: int = 1, rest: bytes = b"", reserved: bytes = bytes(2)
) -> bytes:
    return raw.u64s(*tile) + raw.u8s(outer, inner) + reserved + rest


def test_the_check_value_of_tiles() -> None:
    t = read(numbers(48), layout=0x04, fields=tiles((2, 4)), shape=(6, 8), type_tag=U8)
    assert t[3, 5] == 29
    assert t.lookup([[3, 5]])[0] == 29


@pytest.mark.parametrize("shape", [(6, 8), (5, 7), (1, 1), (2, 9)])
@pytest.mark.parametrize(("outer", "inner"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_tiles_by_the_formula(shape: tuple[int, int], outer: int, inner: int) -> None:
    tile = (2, 4)
    grid = [-(-n // t) for n, t in zip(shape, tile, strict=True)]
    n_stored = grid[0] * grid[1] * 8
    t = read(numbers(n_stored), layout=0x04, fields=tiles(tile, outer, inner), shape=shape, type_tag=U8)
    for i, j in np.ndindex(*shape):
        (ti, ei), (tj, ej) = divmod(i, 2), divmod(j, 4)
        place = ti * grid[1] + tj if outer == 1 else ti + tj * grid[0]
        assert t[i, j] == place * 8 + (ei * 4 + ej if inner == 1 else ei + ej * 2)
    # Edge tiles are stored whole.
    with pytest.raises(hurray.BufferError, match=f"at least {n_stored}"):
        read(numbers(n_stored - 1), layout=0x04, fields=tiles(tile, outer, inner), shape=shape, type_tag=U8)


def test_tiles_with_strides_may_lack_the_padding_of_the_last() -> None:
    # outer strides count tiles, inner strides elements in a tile
    fields = tiles((2, 2), 3, 3, raw.i64s(2, 1) + raw.i64s(2, 1))
    t = read(numbers(13), layout=0x04, fields=fields, shape=(3, 3), type_tag=U8)
    assert t.to_numpy().tolist() == [[0, 1, 4], [2, 3, 6], [8, 9, 12]]
    with pytest.raises(hurray.BufferError, match="at least 13"):
        read(numbers(12), layout=0x04, fields=fields, shape=(3, 3), type_tag=U8)


def test_nested_tiles() -> None:
    fields = tiles((4, 4), 1, 4, tiles((2, 2), 2, 1))
    t = read(numbers(32), layout=0x04, fields=fields, shape=(4, 8), type_tag=U8)
    for i, j in np.ndindex(4, 8):
        ei, ej = i % 4, j % 4
        inner = (ei // 2 + ej // 2 * 2) * 4 + ei % 2 * 2 + ej % 2
        assert t[i, j] == j // 4 * 16 + inner


@pytest.mark.parametrize("levels", [8, 9, 12, 200])
def test_eight_levels_of_tiles(levels: int) -> None:
    fields = b"".join(tiles((1,), 1, 4) for _ in range(levels - 1)) + tiles((1,))
    about: dict[str, Any] = {"layout": 0x04, "fields": fields, "shape": (3,), "type_tag": U8}
    if levels <= 8:
        assert read(numbers(3), **about).to_numpy().tolist() == [0, 1, 2]
    else:
        refused("more than 8 levels", buffers=[3], **about)


def test_tiles_inside_that_do_not_divide() -> None:
    fields = tiles((3, 3), 1, 4, tiles((2, 2)))
    t = read(bytes(64), layout=0x04, fields=fields, shape=(3, 3), type_tag=U8)
    for use in (t.to_numpy, t.validate, lambda: t[0, 0]):
        with pytest.raises(hurray.InvalidDescriptorError, match="do not divide"):
            use()
    with pytest.raises(hurray.InvalidDescriptorError, match="do not divide"):
        hurray.StreamWriter().write(t)
    with pytest.raises(hurray.InvalidDescriptorError, match="do not divide"):
        hurray.zeros([3, 3]).to_layout(
            hurray.TiledLayout([3, 3], "row_major", "tiled", inner_tiled=hurray.TiledLayout([2, 2]))
        )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (tiles((0, 4)), "layout.tile_shape[0]"),
        (tiles((2, 0)), "layout.tile_shape[1]"),
        (tiles((2, 4), 4), "layout.outer_layout"),
        (tiles((2, 4), 0), "layout.outer_layout"),
        (tiles((2, 4), 1, 5), "layout.inner_layout"),
        (tiles((2, 4), 1, 0), "layout.inner_layout"),
        (tiles((2, 4), reserved=b"\0\1"), "layout.reserved"),
        (tiles((2, 4), 1, 4, tiles((0, 1))), "layout.inner_tiled.tile_shape[0]"),
        (tiles((2, 4), 1, 4, tiles((1, 1), 4)), "layout.inner_tiled.outer_layout"),
    ],
)
def test_fields_of_tiles(fields: bytes, field: str) -> None:
    error = refused("layout", layout=0x04, fields=fields, shape=(6, 8), buffers=[64])
    assert error.field == field
    assert field in str(error)


# Morton


def test_the_check_values_of_morton() -> None:
    t = read(numbers(16), layout=0x05, fields=raw.u32s(2, 2), shape=(4, 4), type_tag=U8)
    assert (t[2, 3], t[1, 0], t[0, 1]) == (14, 1, 2)
    with pytest.raises(hurray.BufferError, match="at least 16"):
        read(numbers(15), layout=0x05, fields=raw.u32s(2, 2), shape=(4, 4), type_tag=U8)
    # 2^(sum of bits) elements are stored, whatever the shape.
    with pytest.raises(hurray.BufferError, match="at least 16"):
        read(numbers(15), layout=0x05, fields=raw.u32s(2, 2), shape=(1, 1), type_tag=U8)


def test_morton_with_unequal_bits_follows_the_formula() -> None:
    def code(i: int, j: int) -> int:
        return sum((i >> b & 1) << 2 * b | (j >> b & 1) << 2 * b + 1 for b in range(8))

    shape, bits = (2, 8), (1, 3)
    greatest = max(code(i, j) for i, j in np.ndindex(*shape))
    assert greatest >= 2 ** sum(bits)
    t = read(numbers(greatest + 1), layout=0x05, fields=raw.u32s(*bits), shape=shape, type_tag=U8)
    for i, j in np.ndindex(*shape):
        assert t[i, j] == t.to_numpy()[i, j] == code(i, j)
    # Too small for the formula, though it has the 2^(sum of bits) elements in print.
    with pytest.raises(hurray.BufferError, match=f"at least {greatest + 1}"):
        read(numbers(greatest), layout=0x05, fields=raw.u32s(*bits), shape=shape, type_tag=U8)
    with pytest.raises(hurray.BufferError, match="at least 16"):
        read(numbers(15), layout=0x05, fields=raw.u32s(3, 1), shape=(2, 2), type_tag=U8)


def test_morton_writes_equal_bits() -> None:
    for shape, bits in (((2, 9), 4), ((1, 1, 1), 1), ((5,), 3), ((0, 4), 2)):
        t = hurray.zeros(shape, dtype=hurray.int8).to_layout("morton")
        assert t.layout == hurray.MortonLayout([bits] * len(shape))
        assert t.buffer_handles[0].byte_size == (0 if 0 in shape else 2 ** (bits * len(shape)))


@pytest.mark.parametrize(("bits", "shape"), [((0, 2), (1, 4)), ((2, 0), (4, 1))])
def test_morton_bits_are_positive(bits: tuple[int, ...], shape: tuple[int, ...]) -> None:
    error = refused("must be positive", layout=0x05, fields=raw.u32s(*bits), shape=shape, buffers=[64])
    assert error.field == f"layout.morton_bits[{bits.index(0)}]"


def test_morton_dimensions_fit_their_bits() -> None:
    refused(r"shape\[1\] is 5, more than 2 bits", layout=0x05, fields=raw.u32s(2, 2), shape=(4, 5), buffers=[64])
    decode_descriptor(raw.descriptor(layout=0x05, fields=raw.u32s(64, 2**32 - 1), shape=(2**64 - 2, 4), buffers=[64]))
    for bits in ((63, 1), (2**32 - 1, 1)):
        with pytest.raises(hurray.HurrayError, match="bits in all"):
            read(bytes(64), layout=0x05, fields=raw.u32s(*bits), shape=(4, 2), type_tag=U8).to_numpy()


# Hilbert

CURVE = [
    (0, 0),
    (1, 0),
    (1, 1),
    (0, 1),
    (0, 2),
    (0, 3),
    (1, 3),
    (1, 2),
    (2, 2),
    (2, 3),
    (3, 3),
    (3, 2),
    (3, 1),
    (2, 1),
    (2, 0),
    (3, 0),
]


def test_the_check_values_of_hilbert() -> None:
    t = read(numbers(16), layout=0x40, fields=raw.u32s(2, 2), shape=(4, 4), type_tag=U8)
    assert [t[at] for at in CURVE] == list(range(16))
    assert [t.to_numpy()[at] for at in CURVE] == list(range(16))
    with pytest.raises(hurray.BufferError, match="at least 16"):
        read(numbers(15), layout=0x40, fields=raw.u32s(2, 2), shape=(4, 4), type_tag=U8)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_hilbert_in_three_dimensions_by_the_steps_of_the_text(order: int) -> None:
    rank, side = 3, 2**order

    def index(point: tuple[int, ...]) -> int:
        x = list(point)
        q = 1 << order - 1
        while q > 1:
            p = q - 1
            for i in range(rank):
                if x[i] & q:
                    x[0] ^= p
                else:
                    t = (x[0] ^ x[i]) & p
                    x[0] ^= t
                    x[i] ^= t
            q >>= 1
        for i in range(1, rank):
            x[i] ^= x[i - 1]
        t = 0
        q = 1 << order - 1
        while q > 1:
            if x[rank - 1] & q:
                t ^= q - 1
            q >>= 1
        x = [v ^ t for v in x]
        return sum((x[d] >> b & 1) << b * rank + rank - 1 - d for b in range(order) for d in range(rank))

    data = np.arange(side**rank, dtype="<u2").tobytes()
    t = read(data, layout=0x40, fields=raw.u32s(order, rank), shape=(side,) * rank, type_tag=0x13)
    want = np.array([index(p) for p in np.ndindex(*(side,) * rank)]).reshape((side,) * rank)
    assert (t.to_numpy() == want).all()


@pytest.mark.parametrize(
    ("order", "rank", "shape", "match"),
    [
        (0, 2, (1, 1), "must be positive"),
        (2, 3, (4, 4), "must be the rank 2"),
        (2, 1, (4,), "at least 2"),
        (2, 2, (4, 3), r"shape\[1\] is 3"),
        (1, 2, (4, 4), r"shape\[0\] is 4"),
        (64, 2, (4, 4), r"2\*\*64"),
        (2**32 - 1, 2, (4, 4), "no dimension"),
    ],
)
def test_fields_of_hilbert(order: int, rank: int, shape: tuple[int, ...], match: str) -> None:
    refused(match, layout=0x40, fields=raw.u32s(order, rank), shape=shape, buffers=[64])


# Sparse


def coo(nnz: int, is_sorted: int = 0, reserved: bytes = bytes(7)) -> bytes:
    return raw.u64s(nnz) + raw.u8s(is_sorted) + reserved


def broken(match: str, *buffers: bytes, permissive: bool = False, **about: Any) -> None:
    """Assert that a tensor forms, and that its first use and ``validate`` refuse it."""
    t = read(*buffers, **about)
    for use in (t.validate, t.to_numpy, lambda: t.lookup(np.zeros((1, t.ndim), int)), t.nonzeros):
        with pytest.raises((hurray.InvalidDescriptorError, hurray.BufferError), match=match):
            use()
    # A strict load of a file checks the indices; a lazy open does not.
    file = raw.file([raw.Put("x", raw.descriptor(buffers=[len(b) for b in buffers], **about), buffers)])
    with pytest.raises((hurray.InvalidDescriptorError, hurray.BufferError), match=match) as caught:
        hurray.load(file)
    assert caught.value.tensor == "x"
    assert hurray.open(file)["x"].shape == t.shape
    assert not hurray.verify(file).ok


def test_coo() -> None:
    about: dict[str, Any] = {"layout": 0x06, "type_tag": U8, "shape": (3, 4)}
    t = read(b"\1\2\0", raw.u64s(2, 3, 0, 1, 1, 1), fields=coo(3), **about)
    assert t.to_numpy().tolist() == [[0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    t.validate()  # explicit zeros are legal
    assert t.nonzeros()[0].tolist() == [[0, 1], [1, 1], [2, 3]]
    # Padding is legal in both buffers; too small is not.
    padded = read(b"\1\2\0pad", raw.u64s(2, 3, 0, 1, 1, 1, 9, 9), fields=coo(3), **about)
    assert padded.to_numpy().tolist() == t.to_numpy().tolist()
    for buffers in ((b"\1\2", bytes(48)), (b"\1\2\3", bytes(47))):
        with pytest.raises(hurray.BufferError, match="at least"):
            read(*buffers, fields=coo(3), **about)
    assert read(b"", b"", fields=coo(0, 1), **about).to_numpy().sum() == 0
    broken(r"indices\[1\].*outside", b"\1\2", raw.u64s(0, 0, 3, 0), fields=coo(2), **about)
    broken(r"indices\[0\].*outside", b"\1", raw.u64s(0, 2**64 - 1), fields=coo(1), **about)
    broken(r"indices\[1\].*repeats", b"\1\2", raw.u64s(1, 1, 1, 1), fields=coo(2), **about)
    broken(r"indices\[1\].*repeats", b"\1\2", raw.u64s(1, 1, 1, 1), fields=coo(2, 1), **about)
    broken(r"indices\[1\].*ascending", b"\1\2", raw.u64s(1, 1, 0, 1), fields=coo(2, 1), **about)
    broken("only 12 elements", bytes(13), bytes(208), fields=coo(13), **about)
    for fields in (coo(1, 2), coo(1, 255), coo(1, 0, bytes(6) + b"\1")):
        refused("must be 0", fields=fields, buffers=[4, 16], layout=0x06, shape=(4,))


CSR_CHECK = [[1, 0, 0, 2, 0], [0, 0, 3, 0, 0], [0, 4, 0, 0, 5], [0, 0, 0, 0, 0]]


def test_csr_and_csc_check_values() -> None:
    csr = read(
        numbers(6)[1:],
        raw.u64s(0, 3, 2, 1, 4),
        raw.u64s(0, 2, 3, 5, 5),
        layout=0x07,
        fields=raw.u64s(5, 0),
        shape=(4, 5),
        type_tag=U8,
    )
    csc = read(
        bytes((1, 4, 3, 2, 5)),
        raw.u64s(0, 2, 1, 0, 2),
        raw.u64s(0, 1, 2, 3, 4, 5),
        layout=0x08,
        fields=raw.u64s(5, 0),
        shape=(4, 5),
        type_tag=U8,
    )
    for t in (csr, csc):
        t.validate()
        assert t.to_numpy().tolist() == CSR_CHECK
        assert t.lookup(list(np.ndindex(4, 5))).tolist() == np.array(CSR_CHECK).reshape(-1).tolist()
    dense = hurray.asarray(np.array(CSR_CHECK, np.uint8))
    for name, t in (("csr", csr), ("csc", csc)):
        made = dense.to_layout(name)
        assert [made.buffer(k).to_numpy().tobytes() for k in range(3)] == [
            t.buffer(k).to_numpy().tobytes() for k in range(3)
        ]


@pytest.mark.parametrize("layout", [0x07, 0x08])
def test_csr_and_csc(layout: int) -> None:
    shape = (3, 4) if layout == 0x07 else (4, 3)
    about: dict[str, Any] = {"layout": layout, "type_tag": U8, "shape": shape, "fields": raw.u64s(2, 0)}
    ok = (b"\1\2", raw.u64s(3, 0), raw.u64s(0, 1, 1, 2))
    read(*ok, **about).validate()
    # Every buffer may be longer than needed.
    read(b"\1\2\3", raw.u64s(3, 0, 99), raw.u64s(0, 1, 1, 2, 77), **about).validate()
    for k, short in enumerate((b"\1", bytes(15), bytes(31))):
        buffers = (*ok[:k], short, *ok[k + 1 :])
        with pytest.raises(hurray.BufferError, match=f"buffer {k}.*at least"):
            read(*buffers, **about)
    broken(r"ptr\[0\] is 1", ok[0], ok[1], raw.u64s(1, 1, 1, 2), **about)
    broken(r"ptr\[3\] is 1", ok[0], ok[1], raw.u64s(0, 1, 1, 1), **about)
    broken(r"ptr\[3\] is 3", ok[0], ok[1], raw.u64s(0, 1, 1, 3), **about)
    broken(r"ptr\[2\] is 1, below 2", ok[0], ok[1], raw.u64s(0, 2, 1, 2), **about)
    broken(r"ptr\[1\] is 18446744073709551615", ok[0], ok[1], raw.u64s(0, 2**64 - 1, 1, 2), **about)
    broken(r"indices\[1\] is 4, outside", ok[0], raw.u64s(3, 4), ok[2], **about)
    broken(r"indices\[1\] is 0, not above 3", ok[0], raw.u64s(3, 0), raw.u64s(0, 2, 2, 2), **about)
    broken(r"indices\[1\] is 3, not above 3", ok[0], raw.u64s(3, 3), raw.u64s(0, 2, 2, 2), **about)
    refused("rank 2", layout=layout, shape=(3, 4, 5), fields=raw.u64s(0, 0), buffers=[0, 0, 32])
    refused("rank 2", layout=layout, shape=(3,), fields=raw.u64s(0, 0), buffers=[0, 0, 32])
    refused("reserved", layout=layout, shape=shape, fields=raw.u64s(2, 1), buffers=[64, 64, 64])


def csf(nnz: int, order: tuple[int, ...] = (0, 1, 2), reserved: bytes = bytes(8)) -> bytes:
    return raw.u64s(nnz) + raw.u32s(*order) + reserved


CSF_BUFFERS = (
    bytes((1, 2, 3, 4)),
    raw.u64s(0, 2),
    raw.u64s(0, 1),
    raw.u64s(0, 2, 3),
    raw.u64s(0, 2, 1),
    raw.u64s(0, 1, 2, 4),
    raw.u64s(1, 3, 0, 2),
)
CSF_CHECK = {(0, 0, 1): 1, (0, 2, 3): 2, (1, 1, 0): 3, (1, 1, 2): 4}


def test_the_check_value_of_csf() -> None:
    t = read(*CSF_BUFFERS, layout=0x09, fields=csf(4), shape=(2, 3, 4), type_tag=U8)
    t.validate()
    dense = t.to_numpy()
    assert {at: int(dense[at]) for at in np.ndindex(2, 3, 4) if dense[at]} == CSF_CHECK
    made = hurray.asarray(dense).to_layout("csf")
    assert made.layout == hurray.CsfLayout(4, [0, 1, 2])
    assert tuple(made.buffer(k).to_numpy().tobytes() for k in range(7)) == CSF_BUFFERS


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_mode_order_is_honoured(order: tuple[int, ...]) -> None:
    # The buffers of the check value are read with levels that store other dimensions.
    sizes = [0, 0, 0]
    for level, mode in enumerate(order):
        sizes[mode] = (2, 3, 4)[level]
    t = read(*CSF_BUFFERS, layout=0x09, fields=csf(4, order), shape=tuple(sizes), type_tag=U8)
    want = {tuple(at[order.index(k)] for k in range(3)): v for at, v in CSF_CHECK.items()}
    assert {at: int(t[at]) for at in np.ndindex(*sizes) if t[at]} == want
    assert [tuple(c) for c in t.nonzeros("storage")[0].tolist()] == list(want)


def test_the_counts_of_csf_follow_the_chain() -> None:
    larger = tuple(b + b"\x05" * 16 for b in CSF_BUFFERS)
    t = read(*larger, layout=0x09, fields=csf(4), shape=(2, 3, 4), type_tag=U8)
    t.validate()
    assert {at: int(t[at]) for at in np.ndindex(2, 3, 4) if t[at]} == CSF_CHECK
    assert t.crd(1).to_numpy().tolist() == [0, 2, 1]
    assert t.pos(2).to_numpy().tolist() == [0, 1, 2, 4]
    # The chain asks for more than a buffer has.
    for k, short in [(2, raw.u64s(0)), (3, raw.u64s(0, 2)), (4, raw.u64s(0, 2)), (5, raw.u64s(0, 1, 2))]:
        buffers = (*CSF_BUFFERS[:k], short, *CSF_BUFFERS[k + 1 :])
        broken("buffer|needs", *buffers, layout=0x09, fields=csf(4), shape=(2, 3, 4), type_tag=U8)


def test_csf_without_elements() -> None:
    empty = (b"", raw.u64s(0, 0), b"", raw.u64s(0), b"", raw.u64s(0), b"")
    t = read(*empty, layout=0x09, fields=csf(0), shape=(2, 3, 4), type_tag=U8)
    t.validate()
    assert not t.to_numpy().any()
    made = hurray.zeros([2, 3, 4], dtype=hurray.uint8).to_layout("csf")
    assert tuple(made.buffer(k).to_numpy().tobytes() for k in range(7)) == empty
    wrong = (b"", raw.u64s(0, 1), raw.u64s(0), raw.u64s(0, 1), raw.u64s(0), raw.u64s(0, 0), b"")
    broken("no nodes|nnz", *wrong, layout=0x09, fields=csf(0), shape=(2, 3, 4), type_tag=U8)


@pytest.mark.parametrize(
    ("buffer", "content", "match"),
    [
        (1, raw.u64s(1, 2), r"pos_0\[0\] is 1"),
        (3, raw.u64s(1, 2, 3), r"pos_1\[0\] is 1"),
        (3, raw.u64s(0, 4, 3), r"pos_1"),
        (5, raw.u64s(0, 1, 2, 3), r"pos_2\[3\] is 3"),
        (5, raw.u64s(0, 1, 2, 5), r"pos_2\[3\] is 5"),
        (2, raw.u64s(1, 0), r"crd_0\[1\] is 0, not above 1"),
        (2, raw.u64s(0, 2), r"crd_0\[1\] is 2, outside .* 2"),
        (4, raw.u64s(2, 2, 1), r"crd_1\[1\] is 2, not above 2"),
        (6, raw.u64s(1, 4, 0, 2), r"crd_2\[1\] is 4, outside .* 4"),
        (6, raw.u64s(1, 3, 2, 2), r"crd_2\[3\] is 2, not above 2"),
    ],
)
def test_invariants_of_csf(buffer: int, content: bytes, match: str) -> None:
    buffers = (*CSF_BUFFERS[:buffer], content, *CSF_BUFFERS[buffer + 1 :])
    broken(match, *buffers, layout=0x09, fields=csf(4), shape=(2, 3, 4), type_tag=U8)


def test_fields_of_csf() -> None:
    about: dict[str, Any] = {"layout": 0x09, "shape": (2, 3, 4), "buffers": [64] * 7}
    for order in ((0, 1, 1), (0, 1, 3), (3, 1, 2), (0, 0, 0), (2**32 - 1, 1, 2)):
        refused("not a permutation", fields=csf(1, order), **about)
    refused("reserved", fields=csf(1, reserved=bytes(7) + b"\1"), **about)
    refused("at least 3", layout=0x09, shape=(2, 3), fields=csf(0, (0, 1)), buffers=[64] * 5)


@pytest.mark.parametrize("layout", [0x06, 0x07])
def test_packed_values_of_sparse_layouts(layout: int) -> None:
    index = (raw.u64s(0, 0, 0, 2, 1, 1),) if layout == 0x06 else (raw.u64s(0, 2, 1), raw.u64s(0, 2, 3))
    fields = coo(3) if layout == 0x06 else raw.u64s(3, 0)
    # Three nibbles: 1, -2, 3; the last high nibble is no element.
    t = read(b"\xe1\xf3", *index, layout=layout, fields=fields, shape=(2, 3), type_tag=0x48)
    assert t.to_numpy().astype(int).tolist() == [[1, 0, -2], [0, 3, 0]]
    with pytest.raises(hurray.BufferError, match="at least 2"):
        read(b"\xe1", *index, layout=layout, fields=fields, shape=(2, 3), type_tag=0x48)


# Block-paged


def paged(
    page: int = 2,
    pages: int = 3,
    axis: int = 0,
    seqs: int = 2,
    role: int = 0,
    layer: int = 0xFFFFFFFF,
    wide: int = 0,
    reserved: bytes = bytes(6),
) -> bytes:
    return struct.pack("<IQIIBIB", page, pages, axis, seqs, role, layer, wide) + reserved


def pages(
    table: list[int], ptr: list[int], shape: tuple[int, ...], *, wide: bool = False, **fields: Any
) -> hurray.Tensor:
    pack = raw.u64s if wide else raw.u32s
    about = paged(seqs=len(ptr) - 1, wide=int(wide), **fields)
    n_pool = struct.unpack_from("<IQ", about)
    pool = numbers(n_pool[0] * n_pool[1] * shape[1] * shape[2])
    return read(pool, pack(*table), pack(*ptr), layout=0x0A, fields=about, shape=shape, type_tag=U8)


@pytest.mark.parametrize("wide", [False, True])
def test_block_paged(wide: bool) -> None:
    t = pages([2, 0, 2], [0, 2, 3], (6, 1, 2), wide=wide)
    t.validate()
    layout = t.layout
    assert isinstance(layout, hurray.BlockPagedLayout)
    assert (layout.page_size, layout.num_pages, layout.num_seqs, layout.kv_role) == (2, 3, 2, "key")
    assert layout.layer_index is None
    # Token t of sequence s: page block_table[seq_ptr[s] + t // 2], slot t mod 2; two sequences share page 2.
    assert t.to_numpy().reshape(6, 2).tolist() == [[8, 9], [10, 11], [0, 1], [2, 3], [8, 9], [10, 11]]


def test_lengths_of_sequences() -> None:
    short = pages([2, 0, 2], [0, 2, 3], (5, 1, 1))
    with pytest.raises(hurray.UnsupportedError, match="sequence_lengths"):
        short.to_numpy()
    assert short.to_numpy(sequence_lengths=[3, 2]).reshape(-1).tolist() == [4, 5, 0, 4, 5]
    assert short.to_numpy(sequence_lengths=[4, 1]).reshape(-1).tolist() == [4, 5, 0, 1, 4]
    for lengths, match in [
        ([2, 3], "sequence 0 has 2 pages"),
        ([5, 0], "sequence 0 has 2 pages"),
        ([3, 1], "sum to 4"),
        ([5], "2 sequences"),
        ([3, 3], "sequence 1 has 1 pages"),
    ]:
        with pytest.raises(hurray.InvalidDescriptorError, match=match):
            short.to_numpy(sequence_lengths=lengths)
    # One sequence, and sequences of which only one has pages, need no help.
    assert pages([1, 2], [0, 2], (3, 1, 1)).to_numpy().reshape(-1).tolist() == [2, 3, 4]
    assert pages([1, 2], [0, 0, 2], (3, 1, 1)).to_numpy().reshape(-1).tolist() == [2, 3, 4]


def test_an_empty_batch() -> None:
    t = pages([], [0], (0, 2, 2), pages=0)
    t.validate()
    assert t.to_numpy().shape == (0, 2, 2)


@pytest.mark.parametrize(
    ("table", "ptr", "match"),
    [
        ([2, 0, 3], [0, 2, 3], r"block_table\[2\] is 3, but there are 3 pages"),
        ([2, 0, 1], [1, 2, 3], r"seq_ptr\[0\] must be 0"),
        ([2, 0, 1], [0, 4, 3], r"seq_ptr\[2\] is 3, less"),
        ([2, 0, 1], [0, 2, 2], r"seq_ptr\[2\] must be 3, the length of block_table"),
        ([2, 0, 1, 1], [0, 2, 3], r"seq_ptr\[2\] must be 4"),
    ],
)
def test_invariants_of_block_paged(table: list[int], ptr: list[int], match: str) -> None:
    t = pages(table, ptr, (6, 1, 1))
    for use in (t.validate, t.to_numpy, lambda: t[0]):
        with pytest.raises(hurray.InvalidDescriptorError, match=match):
            use()


def test_sizes_of_block_paged() -> None:
    about: dict[str, Any] = {"layout": 0x0A, "fields": paged(), "shape": (6, 1, 2), "type_tag": U8}
    ok = (bytes(12), bytes(12), bytes(12))
    read(*ok, **about)
    for k in (0, 2):
        with pytest.raises(hurray.BufferError, match=f"buffer {k}.*at least 12"):
            read(*ok[:k], bytes(11), *ok[k + 1 :], **about)
    with pytest.raises(hurray.HurrayError, match="whole number of 4-byte page ids|at least 12"):
        read(bytes(12), bytes(11), bytes(12), **about).validate()
    with pytest.raises(hurray.BufferError, match="64 bits"):
        read(*ok, **{**about, "fields": paged(2**32 - 1, 2**64 - 1)})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (paged(page=0), "page_size"),
        (paged(axis=1), "paged_axis"),
        (paged(role=3), "kv_role"),
        (paged(wide=2), "block_table_index_type"),
        (paged(reserved=bytes(5) + b"\1"), "reserved"),
    ],
)
def test_fields_of_block_paged(fields: bytes, field: str) -> None:
    error = refused("layout", layout=0x0A, fields=fields, shape=(6, 1, 2), buffers=[64] * 3)
    assert error.field == f"layout.{field}"


def test_block_paged_is_rank_three() -> None:
    for shape in ((6,), (6, 2), (6, 1, 2, 1)):
        refused("rank 3", layout=0x0A, fields=paged(), shape=shape, buffers=[64] * 3)


@pytest.mark.parametrize(("role", "name"), [(0, "key"), (1, "value"), (2, "fused")])
def test_roles_and_layers(role: int, name: str) -> None:
    d = decode_descriptor(
        raw.descriptor(layout=0x0A, fields=paged(role=role, layer=7), shape=(6, 1, 2), buffers=[64] * 3)
    )
    assert isinstance(d.layout, hurray.BlockPagedLayout)
    assert (d.layout.kv_role, d.layout.layer_index) == (name, 7)
