"""HilbertLayout: construction, wire fields, sizes, reading and writing."""

from __future__ import annotations

import numpy as np
import pytest

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.layouts._base import Payload
from hurray.layouts.hilbert import HilbertLayout
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer


def test_attributes_equality_and_repr() -> None:
    layout = HilbertLayout(3, hilbert_rank=2)
    assert (layout.tag, layout.name, layout.buffer_count, layout.is_dense) == (0x40, "hilbert", 1, True)
    assert (layout.hilbert_order, layout.hilbert_rank) == (3, 2)
    assert repr(layout) == "HilbertLayout(hilbert_order=3, hilbert_rank=2)"
    assert layout == HilbertLayout(3, 2)
    assert hash(layout) == hash(HilbertLayout(3, 2))
    assert layout != HilbertLayout(2, 3)


@pytest.mark.parametrize(("order", "rank"), [(0, 2), (2, 1), (-1, 2), (2**32, 2), (2, 2**32)])
def test_refused_fields(order: int, rank: int) -> None:
    with pytest.raises(InvalidDescriptorError):
        HilbertLayout(order, rank)


def test_wire_fields() -> None:
    w = Writer()
    HilbertLayout(3, 2).write_fields(w)
    assert w.getvalue().hex() == "0300000002000000"
    assert HilbertLayout.parse_fields(Reader(w.getvalue()), (8, 8)) == HilbertLayout(3, 2)


@pytest.mark.parametrize(
    ("data", "shape", "field"),
    [
        ("0000000002000000", (1, 1), "hilbert_order"),
        ("0200000003000000", (4, 4), "hilbert_rank"),
        ("0200000001000000", (4,), "hilbert_rank"),
        ("0200000000000000", (), "hilbert_rank"),
        ("02000000", (4, 4), "hilbert_rank"),
    ],
)
def test_damaged_fields_name_their_place(data: str, shape: tuple[int, ...], field: str) -> None:
    with pytest.raises(InvalidDescriptorError) as caught:
        HilbertLayout.parse_fields(Reader(bytes.fromhex(data)), shape)
    assert caught.value.field == field


def test_every_dimension_is_two_to_the_order() -> None:
    HilbertLayout(2, 3).validate_against_shape((4, None, 4))
    HilbertLayout(63, 2).validate_against_shape((2**63, 2**63))
    for order, shape in ((2, (4, 3)), (2, (8, 8)), (2, (4, 0)), (64, (1, 1)), (2**32 - 1, (0, 0)), (64, (None, None))):
        with pytest.raises(InvalidDescriptorError):
            HilbertLayout(order, 2).validate_against_shape(shape)
    with pytest.raises(InvalidDescriptorError, match="rank 3"):
        HilbertLayout(2, 2).validate_against_shape((4, 4, 4))


def test_sizes() -> None:
    assert HilbertLayout(2, 2).specs((4, 4), 16)[0].n_bytes == 32
    assert HilbertLayout(1, 3).specs((2, 2, 2), 6, 3)[0].n_bytes == 9
    with pytest.raises(BufferError):
        HilbertLayout(32, 2).specs((2**32, 2**32), 1)
    with pytest.raises(BufferError):
        HilbertLayout(63, 64).specs((2**63,) * 64, 8)


def test_check_values_of_the_format() -> None:
    codes = np.arange(16, dtype=np.uint8).reshape(4, 4)
    encoded = HilbertLayout.encode(codes, 8)
    assert encoded.layout == HilbertLayout(2, 2)
    assert encoded.buffers[0].tolist() == [0, 4, 5, 1, 2, 3, 7, 6, 10, 11, 15, 14, 13, 9, 8, 12]


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8, 64, 128])
@pytest.mark.parametrize(("order", "rank"), [(1, 2), (3, 2), (2, 3), (1, 5), (2, 4), (8, 2)])
def test_round_trip_and_regions(order: int, rank: int, bits: int) -> None:
    rng = np.random.default_rng(bits)
    shape = (1 << order,) * rank
    dtype = np.dtype({64: "<f8", 128: "V16"}.get(bits, "u1"))
    codes = rng.integers(0, 1 << min(bits, 8), (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
    layout, buffers = HilbertLayout.encode(codes, bits)
    assert layout == HilbertLayout(order, rank)
    assert len(buffers[0]) == layout.specs(shape, bits)[0].n_bytes
    payload = Payload(shape, bits, dtype, buffers)
    assert layout.read_all(payload).tobytes() == codes.tobytes()
    got = layout.read(payload, tuple(range(n - 1, -1, -2) for n in shape))
    assert got.tobytes() == codes[tuple(slice(None, None, -2) for _ in shape)].tobytes()
    pick = tuple(rng.integers(0, n, 3) for n in shape)
    assert layout.read(payload, pick).tobytes() == codes[np.ix_(*pick)].tobytes()
    assert layout.read(payload, (range(0), *pick[1:])).shape == (0, *[3] * (rank - 1))


def test_byte_offset_and_short_buffers() -> None:
    codes = np.arange(16, dtype=np.uint16).reshape(4, 4)
    layout, (data,) = HilbertLayout.encode(codes, 16)
    shifted = np.concatenate([np.full(3, 99, np.uint8), data])
    payload = Payload((4, 4), 16, np.dtype("<u2"), (shifted,), 3)
    assert np.array_equal(layout.read_all(payload), codes)
    assert np.array_equal(layout.read(payload, (range(1, 3), range(4))), codes[1:3])
    for region in ((range(4), range(4)), (range(1), range(1))):
        with pytest.raises(BufferError):
            layout.read(Payload((4, 4), 16, np.dtype("<u2"), (data[:-1],)), region)


def test_more_than_63_bits_are_refused_on_read() -> None:
    payload = Payload((2**32, 2**32), 8, np.dtype("u1"), (np.zeros(64, np.uint8),))
    with pytest.raises(BufferError):
        HilbertLayout(32, 2).read(payload, (range(1), range(1)))
    with pytest.raises(BufferError):
        HilbertLayout(31, 2).read(
            Payload((2**31, 2**31), 8, np.dtype("u1"), (np.zeros(64, np.uint8),)), (range(1), range(1))
        )


@pytest.mark.parametrize("shape", [(4,), (4, 8), (3, 3), (1, 1), (0, 0), ()])
def test_shapes_that_no_curve_fills(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError, match="power of two"):
        HilbertLayout.encode(np.zeros(shape, np.uint8), 8)


def test_options() -> None:
    codes = np.zeros((4, 4), np.uint8)
    layout = HilbertLayout(2, 2)
    assert HilbertLayout.encode(codes, 8, **layout.encode_options()).layout == layout
    with pytest.raises(InvalidDescriptorError):
        HilbertLayout.encode(codes, 8, hilbert_order=3)
    with pytest.raises(InvalidDescriptorError):
        HilbertLayout.encode(codes, 8, hilbert_rank=3)
    with pytest.raises(TypeError, match="order"):
        HilbertLayout.encode(codes, 8, order=2)


def test_regions_are_read_in_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.arange(8**3, dtype=np.uint16).reshape(8, 8, 8)
    layout, buffers = HilbertLayout.encode(codes, 16)
    payload = Payload(codes.shape, 16, codes.dtype, buffers)
    region = (range(1, 8), range(7, -1, -1), np.array([0, 5, 5]))
    want = codes[1:8, ::-1][:, :, [0, 5, 5]]
    for points in (3, 5, 24, 60, 1000):
        monkeypatch.setattr("hurray.layouts.hilbert._POINTS", points)
        assert np.array_equal(layout.read(payload, region), want)
