"""Packing: the check values of the format, edges and misuse."""

from __future__ import annotations

import numpy as np
import pytest

from hurray.kernels import bits

PER_GROUP = {1: (8, 1), 2: (4, 1), 4: (2, 1), 6: (4, 3)}
BIG = (1 << 16) + 13  # more than one block, and no whole number of groups


@pytest.mark.parametrize(
    ("codes", "width", "expected"),
    [
        ([5, 12, 3], 4, "c503"),
        ([3, 1, 2], 2, "27"),
        ([1, 0, 1, 1, 0], 1, "0d"),
        ([1, 2, 4, 8], 6, "814020"),
    ],
)
def test_check_values(codes: list[int], width: int, expected: str) -> None:
    packed = bits.pack(np.array(codes, np.uint8), width)
    assert packed.tobytes().hex() == expected
    assert bits.unpack(packed, width, len(codes)).tolist() == codes


@pytest.mark.parametrize(
    ("n_elems", "width", "expected"),
    [
        (0, 1, 0), (1, 1, 1), (8, 1, 1), (9, 1, 2), (4, 2, 1), (5, 2, 2), (3, 4, 2),
        (0, 6, 0), (1, 6, 3), (2, 6, 3), (3, 6, 3), (4, 6, 3), (5, 6, 6),
        (3, 8, 3), (3, 16, 6), (3, 24, 9), (2, 128, 32), (1 << 70, 4, 1 << 69), (1 << 70, 64, 1 << 73),
    ],
)  # fmt: skip
def test_packed_nbytes(n_elems: int, width: int, expected: int) -> None:
    assert bits.packed_nbytes(n_elems, width) == expected


@pytest.mark.parametrize("width", [0, 3, 5, 7, 9, 12, -1, -8])
def test_other_widths_are_refused(width: int) -> None:
    with pytest.raises(ValueError, match="1, 2, 4 or 6 bits"):
        bits.packed_nbytes(1, width)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        bits.packed_nbytes(-1, 4)
    with pytest.raises(ValueError, match="negative"):
        bits.unpack(np.zeros(4, np.uint8), 4, -1)
    with pytest.raises(ValueError, match="negative"):
        bits.unpack(np.zeros(4, np.uint8), 4, 1, -1)


@pytest.mark.parametrize("width", PER_GROUP)
def test_large_round_trip(width: int) -> None:
    rng = np.random.default_rng(width)
    codes = rng.integers(0, 256, BIG).astype(np.uint8)
    packed = bits.pack(codes, width)
    kept = codes & ((1 << width) - 1)
    assert packed.size == bits.packed_nbytes(BIG, width)
    assert np.array_equal(bits.unpack(packed, width, BIG), kept)
    for start in (1, 2, 3, 5, 7, 8, (1 << 16) - 1):
        assert np.array_equal(bits.unpack(packed, width, BIG - start, start), kept[start:])
    offsets = rng.integers(0, BIG, (3, 17_000))
    assert np.array_equal(bits.take(packed, width, offsets), kept[offsets])


@pytest.mark.parametrize("width", PER_GROUP)
def test_unused_bits_are_zero_when_written_and_ignored_when_read(width: int) -> None:
    per_group, n_bytes = PER_GROUP[width]
    for n in range(1, per_group):
        packed = bits.pack(np.full(n, 0xFF, np.uint8), width)
        assert int.from_bytes(packed.tobytes(), "little") == (1 << n * width) - 1
        dirty = np.full(n_bytes, 0xFF, np.uint8)
        assert bits.unpack(dirty, width, n).tolist() == [(1 << width) - 1] * n


@pytest.mark.parametrize("width", PER_GROUP)
@pytest.mark.parametrize("n", [5, BIG])
def test_out(width: int, n: int) -> None:
    codes = np.random.default_rng(0).integers(0, 1 << width, n).astype(np.uint8)
    packed = np.full(bits.packed_nbytes(n, width), 0xAA, np.uint8)
    assert bits.pack(codes, width, packed) is packed
    for out in (np.empty(n, np.uint8), np.empty(n + 1, np.uint8)[1:], np.empty(2 * n, np.uint8)[::-2]):
        assert bits.unpack(packed, width, n, out=out) is out
        assert np.array_equal(out, codes)


def test_memory_order_and_kind_of_codes_do_not_matter() -> None:
    codes = np.arange(24, dtype=np.uint8).reshape(2, 3, 4) % 16
    expected = bits.pack(codes.copy(), 4)
    assert np.array_equal(bits.pack(np.asfortranarray(codes), 4), expected)
    assert np.array_equal(bits.pack(np.repeat(codes, 2, axis=2)[:, :, ::2], 4), expected)
    assert np.array_equal(bits.pack(codes.view(np.int8), 4), expected)
    assert np.array_equal(bits.pack(np.array([-1, 7, -8], np.int8), 4), [0x7F, 0x08])
    assert bits.pack(np.array([True, False, True]), 1).tolist() == [5]
    assert bits.pack(np.array(3, np.uint8), 2).tolist() == [3]
    assert bits.pack(np.broadcast_to(np.uint8(3), (5,)), 2).tolist() == [0xFF, 3]


@pytest.mark.parametrize("width", PER_GROUP)
def test_empty(width: int) -> None:
    nothing = np.empty(0, np.uint8)
    assert bits.pack(np.empty((3, 0), np.uint8), width).shape == (0,)
    assert bits.unpack(nothing, width, 0).shape == (0,)
    assert bits.unpack(nothing, width, 0, start=5).shape == (0,)
    assert bits.take(nothing, width, np.empty((0, 2), np.int64)).shape == (0, 2)


@pytest.mark.parametrize(
    ("width", "n_bytes", "n_elems", "start"), [(4, 2, 5, 0), (4, 2, 3, 2), (6, 5, 4, 4), (1, 0, 1, 0)]
)
def test_too_few_bytes(width: int, n_bytes: int, n_elems: int, start: int) -> None:
    with pytest.raises(ValueError, match=f"{n_bytes} bytes"):
        bits.unpack(np.zeros(n_bytes, np.uint8), width, n_elems, start)


def test_out_and_codes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="out must be"):
        bits.unpack(np.zeros(2, np.uint8), 4, 3, out=np.empty(4, np.uint8))
    with pytest.raises(ValueError, match="out must be"):
        bits.pack(np.zeros(3, np.uint8), 4, np.empty(3, np.uint8))
    with pytest.raises(ValueError, match="one byte"):
        bits.pack(np.zeros(3, np.int64), 4)


def test_take_shapes_and_read_only_input() -> None:
    packed = np.frombuffer(bytes([0x81, 0x40, 0x20]), np.uint8)
    assert bits.take(packed, 6, np.array(3)).shape == ()
    assert bits.take(packed, 6, np.array([[3, 2], [1, 0]])).tolist() == [[8, 4], [2, 1]]
    assert bits.take(packed, 6, np.array([0, 9, 1, 9, 3])[::2]).tolist() == [1, 2, 8]


def test_sign_extend() -> None:
    codes = np.arange(256, dtype=np.uint8)
    for width in range(1, 9):
        low = np.arange(256) % (1 << width)
        expected = np.where(low >= 1 << (width - 1), low - (1 << width), low)
        values = bits.sign_extend(codes, width)
        assert values.dtype == np.int8
        assert np.array_equal(values, expected)
    assert codes.tolist() == list(range(256))
    assert bits.sign_extend(np.array(2, np.uint8), 2).shape == ()
    assert bits.sign_extend(np.full((2, 3), 0xFF, np.uint8).T, 4).tolist() == [[-1, -1]] * 3
    for width in (0, 9):
        with pytest.raises(ValueError, match="1 to 8"):
            bits.sign_extend(codes, width)
