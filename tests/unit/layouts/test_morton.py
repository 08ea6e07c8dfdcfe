"""MortonLayout: construction, wire fields, sizes, reading and writing."""

from __future__ import annotations

import numpy as np
import pytest

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.layouts._base import Payload
from hurray.layouts.morton import MortonLayout
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer


def test_attributes_equality_and_repr() -> None:
    layout = MortonLayout(np.array([2, 3]).tolist())
    assert (layout.tag, layout.name, layout.buffer_count, layout.is_dense) == (5, "morton", 1, True)
    assert layout.morton_bits == (2, 3)
    assert repr(layout) == "MortonLayout(morton_bits=(2, 3))"
    assert layout == MortonLayout((2, 3))
    assert hash(layout) == hash(MortonLayout((2, 3)))
    assert layout != MortonLayout((3, 2))


@pytest.mark.parametrize("bits", [[0, 2], [], [-1], [2**32]])
def test_refused_bits(bits: list[int]) -> None:
    with pytest.raises(InvalidDescriptorError):
        MortonLayout(bits)


def test_wire_fields() -> None:
    w = Writer()
    MortonLayout([2, 3]).write_fields(w)
    assert w.getvalue().hex() == "0200000003000000"
    assert MortonLayout.parse_fields(Reader(w.getvalue()), (4, 8)) == MortonLayout([2, 3])
    with pytest.raises(InvalidDescriptorError) as caught:
        MortonLayout.parse_fields(Reader(bytes.fromhex("0200000000000000")), (4, 8))
    assert (caught.value.field, caught.value.offset) == ("morton_bits[1]", 4)
    with pytest.raises(InvalidDescriptorError, match="only 5 are left"):
        MortonLayout.parse_fields(Reader(bytes(5)), (4, 8))


def test_shape_must_fit_the_bits() -> None:
    MortonLayout([2, 2]).validate_against_shape((4, None))
    MortonLayout([2**32 - 1, 64]).validate_against_shape((2**64 - 2, 2**64 - 2))
    with pytest.raises(InvalidDescriptorError, match=r"shape\[0\] is 5"):
        MortonLayout([2, 2]).validate_against_shape((5, 3))
    with pytest.raises(InvalidDescriptorError, match="rank 1"):
        MortonLayout([2, 2]).validate_against_shape((4,))
    with pytest.raises(InvalidDescriptorError, match="at least 1"):
        MortonLayout([2]).validate_against_shape(())


def test_sizes() -> None:
    assert MortonLayout([2, 2]).specs((4, 3), 64)[0].n_bytes == 128
    assert MortonLayout([2, 2]).specs((2, 2), 4, 3)[0].n_bytes == 11
    # The largest code in use lies past 2**4 elements.
    assert MortonLayout([1, 3]).specs((2, 8), 8)[0].n_bytes == 44
    assert MortonLayout([1, 3]).specs((2, 0), 8)[0].n_bytes == 0
    with pytest.raises(BufferError):
        MortonLayout([32, 32]).specs((4, 4), 1)
    with pytest.raises(BufferError):
        MortonLayout([2**32 - 1] * 2).specs((4, 4), 8)
    with pytest.raises(BufferError, match="64 bits"):
        MortonLayout([1, 60]).specs((2, 2**60), 8)


def test_check_values_of_the_format() -> None:
    codes = np.arange(16, dtype=np.uint16).reshape(4, 4)
    encoded = MortonLayout.encode(codes, 16)
    assert encoded.layout == MortonLayout([2, 2])
    stored = encoded.buffers[0].view("<u2")
    assert (stored[14], stored[1], stored[2]) == (codes[2, 3], codes[1, 0], codes[0, 1])


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8, 64, 128])
@pytest.mark.parametrize("shape", [(5, 9), (1, 1), (8,), (3, 4, 5), (0, 4), (130, 70)])
def test_round_trip_and_regions(shape: tuple[int, ...], bits: int) -> None:
    rng = np.random.default_rng(bits)
    dtype = np.dtype({64: "<f8", 128: "V16"}.get(bits, "u1"))
    codes = rng.integers(0, 1 << min(bits, 8), (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
    layout, buffers = MortonLayout.encode(codes, bits)
    payload = Payload(shape, bits, dtype, buffers)
    assert len(set(layout.morton_bits)) == 1  # type: ignore[attr-defined]
    assert len(buffers[0]) == layout.specs(shape, bits)[0].n_bytes
    assert layout.read_all(payload).tobytes() == codes.tobytes()
    region = tuple(range(n - 1, -1, -2) for n in shape)
    want = codes[tuple(slice(None, None, -2) for _ in shape)]
    got = layout.read(payload, region)
    assert (got.shape, got.tobytes()) == (want.shape, want.tobytes())
    if codes.size:
        pick = tuple(rng.integers(0, n, 3) for n in shape)
        assert layout.read(payload, pick).tobytes() == codes[np.ix_(*pick)].tobytes()


def test_byte_offset() -> None:
    codes = np.arange(16, dtype=np.uint8).reshape(4, 4)
    layout, (data,) = MortonLayout.encode(codes, 8)
    payload = Payload((4, 4), 8, np.dtype("u1"), (np.concatenate([np.full(5, 99, np.uint8), data]),), 5)
    assert np.array_equal(layout.read_all(payload), codes)
    assert np.array_equal(layout.read(payload, (range(1, 3), range(4))), codes[1:3])


def test_unequal_bits_are_read_by_the_formula() -> None:
    layout = MortonLayout([1, 3])
    data = np.zeros(44, np.uint8)
    for i in range(2):
        for j in range(8):
            data[i + sum(((j >> b) & 1) << (2 * b + 1) for b in range(3))] = 10 * i + j
    payload = Payload((2, 8), 8, np.dtype("u1"), (data,))
    want = [[10 * i + j for j in range(8)] for i in range(2)]
    assert layout.read_all(payload).tolist() == want
    assert layout.read(payload, (range(2), range(7, 8))).tolist() == [[7], [17]]
    with pytest.raises(BufferError):
        layout.read_all(Payload((2, 8), 8, np.dtype("u1"), (data[:43],)))
    # Codes in use would fit 4 elements, but the published size counts too.
    with pytest.raises(BufferError):
        layout.read_all(Payload((2, 2), 8, np.dtype("u1"), (data[:15],)))
    assert layout.read_all(Payload((2, 2), 8, np.dtype("u1"), (data[:16],))).tolist() == [[0, 1], [10, 11]]


def test_more_than_63_bits_are_refused_on_read() -> None:
    payload = Payload((2, 2), 8, np.dtype("u1"), (np.zeros(64, np.uint8),))
    for bits in ([32, 32], [2**32 - 1, 1]):
        with pytest.raises(BufferError):
            MortonLayout(bits).read_all(payload)


def test_what_is_written() -> None:
    codes = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert MortonLayout.encode(codes, 8, morton_bits=[3, 3]).layout == MortonLayout([3, 3])
    # Where the formula stays inside 2**sum(bits), unequal bits are as good as any.
    assert MortonLayout.encode(codes.T, 8, morton_bits=[2, 1]).layout == MortonLayout([2, 1])
    assert MortonLayout.encode(np.zeros((1, 1), np.uint8), 8).layout == MortonLayout([1, 1])
    with pytest.raises(UnsupportedError, match="equal bits"):
        MortonLayout.encode(np.zeros((2, 8), np.uint8), 8, morton_bits=[1, 3])
    with pytest.raises(UnsupportedError, match="padding"):
        MortonLayout.encode(np.zeros((1, 2**20), np.uint8), 8)
    with pytest.raises(UnsupportedError, match="63"):
        MortonLayout.encode(np.zeros((1,) * 31 + (5,), np.uint8), 8)
    with pytest.raises(InvalidDescriptorError):
        MortonLayout.encode(codes, 8, morton_bits=[1, 1])
    with pytest.raises(InvalidDescriptorError):
        MortonLayout.encode(np.zeros((), np.uint8), 8)
    with pytest.raises(TypeError, match="morton_bits only"):
        MortonLayout.encode(codes, 8, hilbert_order=2)
    layout = MortonLayout([2, 2])
    assert MortonLayout.encode(codes, 8, **layout.encode_options()).layout == layout
