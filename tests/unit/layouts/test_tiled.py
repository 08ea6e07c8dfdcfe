"""TiledLayout: construction, wire fields, sizes, reading and writing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import bits as bit_kernels
from hurray.layouts._base import Codes, Encoded, Payload
from hurray.layouts.tiled import TiledLayout
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer


def payload_of(encoded: Encoded, codes: Codes, bits: int) -> Payload:
    return Payload(codes.shape, bits, codes.dtype, encoded.buffers)


def wire(layout: TiledLayout) -> bytes:
    w = Writer()
    layout.write_fields(w)
    return w.getvalue()


def nested(levels: int, tile: tuple[int, ...] = (1,)) -> TiledLayout:
    layout = TiledLayout(tile)
    for _ in range(levels - 1):
        layout = TiledLayout(tile, inner_layout="tiled", inner_tiled=layout)
    return layout


def test_attributes_equality_and_repr() -> None:
    layout = TiledLayout([2, 4], inner_layout="tiled", inner_tiled=TiledLayout(tuple(np.array([1, 2]))))
    assert (layout.tag, layout.name, layout.buffer_count, layout.is_dense) == (4, "tiled", 1, True)
    assert layout.tile_shape == (2, 4)
    assert layout.inner_tiled == TiledLayout((1, 2))
    assert layout.outer_strides is None
    assert layout == TiledLayout((2, 4), "row_major", "tiled", inner_tiled=TiledLayout((1, 2)))
    assert hash(layout) == hash(TiledLayout((2, 4), "row_major", "tiled", inner_tiled=TiledLayout((1, 2))))
    assert layout != TiledLayout((2, 4))
    assert layout != object()
    assert repr(TiledLayout([2, 4])) == (
        "TiledLayout(tile_shape=(2, 4), outer_layout='row_major', inner_layout='row_major')"
    )
    assert eval(repr(layout)) == layout
    with pytest.raises(AttributeError):
        layout.tile_shape = (1, 1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"tile_shape": [0, 4]}, InvalidDescriptorError),
        ({"tile_shape": [-1]}, InvalidDescriptorError),
        ({"tile_shape": [2**64]}, InvalidDescriptorError),
        ({"tile_shape": []}, InvalidDescriptorError),
        ({"tile_shape": 3}, TypeError),
        ({"tile_shape": [2.5]}, TypeError),
        ({"tile_shape": [2], "outer_layout": "bogus"}, ValueError),
        ({"tile_shape": [2], "outer_layout": 1}, TypeError),
        ({"tile_shape": [2], "outer_layout": "tiled"}, InvalidDescriptorError),
        ({"tile_shape": [2], "outer_layout": "strided"}, InvalidDescriptorError),
        ({"tile_shape": [2], "outer_strides": [1]}, InvalidDescriptorError),
        ({"tile_shape": [2], "inner_strides": [1]}, InvalidDescriptorError),
        ({"tile_shape": [2], "inner_layout": "strided", "inner_strides": [1, 2]}, InvalidDescriptorError),
        ({"tile_shape": [2], "inner_layout": "strided", "inner_strides": [2**63]}, InvalidDescriptorError),
        ({"tile_shape": [2], "inner_layout": "tiled"}, InvalidDescriptorError),
        ({"tile_shape": [2], "inner_tiled": TiledLayout([1])}, InvalidDescriptorError),
        ({"tile_shape": [2], "inner_layout": "tiled", "inner_tiled": TiledLayout([1, 1])}, InvalidDescriptorError),
        ({"tile_shape": [2], "inner_layout": "tiled", "inner_tiled": "row_major"}, TypeError),
        ({"tile_shape": [1], "inner_layout": "tiled", "inner_tiled": nested(8)}, InvalidDescriptorError),
    ],
)
def test_refused_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        TiledLayout(**arguments)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (TiledLayout([2, 3]), "02000000000000000300000000000000 01010000"),
        (
            TiledLayout([2], "strided", "strided", [-1], [3]),
            "0200000000000000 03030000 ffffffffffffffff 0300000000000000",
        ),
        (
            TiledLayout([4], "strided", "tiled", [2], inner_tiled=TiledLayout([2], "col_major", "col_major")),
            "0400000000000000 03040000 0200000000000000 0200000000000000 02020000",
        ),
    ],
)
def test_wire_fields(layout: TiledLayout, expected: str) -> None:
    data = bytes.fromhex(expected)
    assert wire(layout) == data
    r = Reader(data)
    assert TiledLayout.parse_fields(r, (7,) * len(layout.tile_shape)) == layout
    assert r.remaining == 0


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        ("0200000000000000 0000000000000000 01010000", "tile_shape[1]", 8),
        ("02000000000000000300000000000000 04010000", "outer_layout", 16),
        ("02000000000000000300000000000000 01000000", "inner_layout", 17),
        ("02000000000000000300000000000000 01060000", "inner_layout", 17),
        ("02000000000000000300000000000000 01010001", "reserved", 18),
        ("02000000000000000300000000000000 0101", "reserved", 18),
        ("02000000000000000300000000000000 03010000 00", "outer_strides", 20),
        ("02000000000000000300000000000000 01040000 01000000000000000000000000000000", "inner_tiled.tile_shape[1]", 28),
        ("02000000000000000300000000000000 01040000", "inner_tiled.tile_shape", 20),
        ("01000000000000000100000000000000 01040000" * 9, 8 * "inner_tiled." + "tile_shape", 160),
    ],
)
def test_damaged_fields_name_their_place(data: str, field: str, offset: int) -> None:
    with pytest.raises(InvalidDescriptorError) as caught:
        TiledLayout.parse_fields(Reader(bytes.fromhex(data)), (4, 4))
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_eight_levels_are_allowed() -> None:
    layout = nested(8)
    assert TiledLayout.parse_fields(Reader(wire(layout)), (5,)) == layout


def test_rank_must_match() -> None:
    TiledLayout([2, 4]).validate_against_shape((3, None))
    with pytest.raises(InvalidDescriptorError, match="rank 1"):
        TiledLayout([2, 4]).validate_against_shape((3,))
    with pytest.raises(InvalidDescriptorError, match="at least 1"):
        TiledLayout([2]).validate_against_shape(())


def test_sizes() -> None:
    assert TiledLayout([2, 2]).specs((5, 3), 32)[0].n_bytes == 96
    assert TiledLayout([2, 2]).specs((5, 3), 32, 8)[0].n_bytes == 104
    assert TiledLayout([3, 4]).specs((7, 3), 1)[0].n_bytes == 5
    assert TiledLayout([2, 2]).specs((5, 0), 32)[0].n_bytes == 0
    # A strided level needs what the shape reaches, not the padding of its last tiles.
    assert TiledLayout([4], "strided", outer_strides=[1]).specs((5,), 32)[0].n_bytes == 20
    assert TiledLayout([4], "strided", outer_strides=[-1]).specs((5,), 32, 16)[0].n_bytes == 32
    assert TiledLayout([4], "strided", outer_strides=[0]).specs((2**40,), 32)[0].n_bytes == 16
    with pytest.raises(BufferError):
        TiledLayout([4], "strided", outer_strides=[-1]).specs((5,), 32, 12)
    with pytest.raises(BufferError, match="64 bits"):
        TiledLayout([2**40, 2**40]).specs((1, 1), 32)
    with pytest.raises(BufferError, match="64 bits"):
        TiledLayout([1], "strided", outer_strides=[2**63 - 1]).specs((9,), 32)
    with pytest.raises(InvalidDescriptorError, match="dynamic"):
        TiledLayout([2]).specs((None,), 32)  # type: ignore[arg-type]


def test_check_value_of_the_format() -> None:
    codes = np.arange(48, dtype=np.int16).reshape(6, 8)
    encoded = TiledLayout.encode(codes, 16, tile_shape=(2, 4))
    assert encoded.buffers[0].view("<i2")[29] == codes[3, 5]
    assert encoded.layout == TiledLayout([2, 4])


def test_too_small_a_buffer_is_refused_on_read() -> None:
    payload = Payload((5, 3), 32, np.dtype("<f4"), (np.zeros(95, np.uint8),))
    for region in ((range(5), range(3)), (range(0, 5, 2), range(3))):
        with pytest.raises(BufferError):
            TiledLayout([2, 2]).read(payload, region)


def test_inner_tiles_that_do_not_divide_are_refused() -> None:
    layout = TiledLayout([4], inner_layout="tiled", inner_tiled=TiledLayout([3]))
    payload = Payload((4,), 8, np.dtype("u1"), (np.zeros(64, np.uint8),))
    with pytest.raises(InvalidDescriptorError, match="divide"):
        layout.read_all(payload)
    with pytest.raises(InvalidDescriptorError, match="divide"):
        TiledLayout.encode(np.zeros(4, np.uint8), 8, **layout.encode_options())
    with pytest.raises(InvalidDescriptorError, match="divide"):
        layout.check_writable()
    data = bytes.fromhex("0400000000000000 01040000 0300000000000000 01010000")
    assert TiledLayout.parse_fields(Reader(data), (4,)) == layout
    assert wire(layout) == data


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8, 32, 128])
@pytest.mark.parametrize(
    "layout",
    [
        TiledLayout([4, 3]),
        TiledLayout([4, 3], "col_major", "col_major"),
        TiledLayout([16, 16]),
        TiledLayout([4, 6], inner_layout="tiled", inner_tiled=TiledLayout([2, 3], "col_major")),
        TiledLayout([4, 3], "strided", "strided", [4, 1], [1, 4]),
    ],
)
def test_round_trip_and_regions(layout: TiledLayout, bits: int) -> None:
    rng = np.random.default_rng(bits)
    dtype = np.dtype({32: "<f4", 128: "V16"}.get(bits, "u1"))
    raw = rng.integers(0, 1 << min(bits, 8), (11, 10, dtype.itemsize), dtype=np.uint8)
    codes = raw.view(dtype)[..., 0]
    encoded = TiledLayout.encode(codes, bits, **layout.encode_options())
    assert encoded.layout == layout
    (spec,) = layout.specs((11, 10), bits)
    assert len(encoded.buffers[0]) == spec.n_bytes
    payload = payload_of(encoded, codes, bits)
    assert layout.read_all(payload).tobytes() == codes.tobytes()
    for region in (
        (range(3, 9), range(1, 10)),
        (range(5, 6), range(7, 8)),
        (range(10, -1, -1), range(0, 10, 3)),
        (np.array([4, 4, 0]), range(2, 5)),
        (range(4, 4), range(10)),
    ):
        want = codes[np.ix_(*(np.asarray(axis, dtype=np.intp) for axis in region))]
        got = layout.read(payload, region)
        assert (got.shape, got.dtype, got.tobytes()) == (want.shape, want.dtype, want.tobytes())


@pytest.mark.parametrize(("bits", "byte_offset"), [(4, 2), (6, 3), (6, 5), (8, 4), (32, 17), (1, 1)])
def test_negative_strides_reach_back_from_the_byte_offset(bits: int, byte_offset: int) -> None:
    layout = TiledLayout([2], "strided", "strided", [-1], [-1])
    n_elems = 64
    stored = np.random.default_rng(0).integers(0, 1 << min(bits, 8), n_elems, dtype=np.uint8)
    if bits < 8:
        data = bit_kernels.pack(stored, bits)
    else:
        data = stored.repeat(bits // 8)
        stored = data
    dtype = np.dtype("<u4" if bits == 32 else "u1")
    payload = Payload((4,), bits, dtype, (np.ascontiguousarray(data),), byte_offset)
    if bits < 8:
        string = int.from_bytes(data.tobytes(), "little")
        want = [(string >> (byte_offset * 8 - k * bits)) & ((1 << bits) - 1) for k in range(4)]
    else:
        width = bits // 8
        want = [
            int.from_bytes(data[byte_offset - k * width : byte_offset - k * width + width].tobytes(), "little")
            for k in range(4)
        ]
    assert layout.read_all(payload).tolist() == want
    assert layout.read(payload, (range(3, 0, -2),)).tolist() == [want[3], want[1]]


def test_zero_strides_broadcast() -> None:
    layout = TiledLayout([2, 1], "strided", "strided", [0, 1], [1, 0])
    payload = Payload((4, 3), 8, np.dtype("u1"), (np.arange(6, dtype=np.uint8),))
    assert layout.read_all(payload).tolist() == [[0, 2, 4], [1, 3, 5]] * 2


def test_a_broadcast_larger_than_memory_is_refused() -> None:
    layout = TiledLayout([2], "strided", outer_strides=[0])
    for bits in (4, 8):
        payload = Payload((2**62,), bits, np.dtype("u1"), (np.arange(2, dtype=np.uint8),))
        with pytest.raises(UnsupportedError, match="too large"):
            layout.read_all(payload)
        assert layout.read(payload, (range(2**61 + 1, 2**61 + 4),)).tolist() == ([0, 0, 0] if bits == 4 else [1, 0, 1])


def test_what_cannot_be_written() -> None:
    codes = np.arange(6, dtype=np.uint8)
    with pytest.raises(TypeError, match="tile_shape"):
        TiledLayout.encode(codes, 8)
    with pytest.raises(InvalidDescriptorError, match="one place"):
        TiledLayout.encode(codes, 8, tile_shape=[2], outer_layout="strided", outer_strides=[0])
    with pytest.raises(UnsupportedError, match="negative"):
        TiledLayout.encode(codes, 8, tile_shape=[2], outer_layout="strided", outer_strides=[-1])
    with pytest.raises(UnsupportedError, match="padding"):
        TiledLayout.encode(codes, 8, tile_shape=[2**45])
    with pytest.raises(InvalidDescriptorError, match="rank"):
        TiledLayout.encode(codes, 8, tile_shape=[2, 2])


def test_padding_is_never_read() -> None:
    data = np.full(24, 0xAA, np.uint8)
    codes = np.arange(15, dtype=np.uint8).reshape(5, 3)
    encoded = TiledLayout.encode(codes + 1, 8, tile_shape=[2, 2])
    stored = encoded.buffers[0]
    data[stored != 0] = stored[stored != 0]
    assert np.array_equal(encoded.layout.read_all(Payload((5, 3), 8, np.dtype("u1"), (data,))), codes + 1)


def test_bits_of_floats_survive() -> None:
    codes = np.array([0x7FA00001, 0x80000000, 0xFFC12345, 0x00000001], "<u4").view("<f4").reshape(2, 2)
    encoded = TiledLayout.encode(codes, 32, tile_shape=[1, 2], outer_layout="col_major")
    assert encoded.layout.read_all(payload_of(encoded, codes, 32)).tobytes() == codes.tobytes()
