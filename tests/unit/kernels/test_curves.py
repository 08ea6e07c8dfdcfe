"""Morton codes and relayouts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hurray.kernels import curves


def naive_code(index: Sequence[int]) -> int:
    """Interleave by the formula: bit b of index d to bit b * rank + d."""
    rank = len(index)
    return sum(((int(i) >> b) & 1) << (b * rank + d) for d, i in enumerate(index) for b in range(64))


def test_check_values_of_the_format() -> None:
    points = np.array([[2, 3], [1, 0], [0, 1]])
    assert curves.morton_encode(points, 2).tolist() == [14, 1, 2]
    assert curves.morton_decode(np.array([14, 1, 2], np.uint64), 2).tolist() == points.tolist()


@pytest.mark.parametrize("rank", [*range(1, 12), 16, 21, 31, 32, 63, 64])
def test_codes_at_full_width(rank: int) -> None:
    rng = np.random.default_rng(rank)
    for bits in {1, 64 // rank}:
        bits = min(bits, 63)
        points = rng.integers(0, (1 << bits) - 1, (40, rank), endpoint=True)
        codes = curves.morton_encode(points, rank)
        assert codes.dtype == np.uint64
        assert codes.tolist() == [naive_code(point) for point in points]
        assert np.array_equal(curves.morton_decode(codes, rank), points)


@pytest.mark.parametrize("rank", range(2, 9))
def test_every_64_bit_code_decodes(rank: int) -> None:
    codes = np.random.default_rng(rank).integers(0, 2**64 - 1, 200, dtype=np.uint64, endpoint=True)
    points = curves.morton_decode(codes, rank)
    assert [naive_code(point) for point in points] == codes.tolist()
    assert np.array_equal(curves.morton_encode(points, rank), codes)


def test_more_points_than_one_block_and_any_order() -> None:
    points = np.asfortranarray(np.random.default_rng(0).integers(0, 1 << 16, (40000, 2), dtype=np.uint32))
    codes = curves.morton_encode(points, 2)
    assert codes[::4999].tolist() == [naive_code(p) for p in points[::4999]]
    assert np.array_equal(curves.morton_decode(codes, 2), points)
    assert np.array_equal(curves.morton_encode(points[::-1], 2), codes[::-1])


def test_axis_codes_add_up() -> None:
    rows = curves.morton_axis_codes(np.arange(4), 2, 0, 2)
    columns = curves.morton_axis_codes(np.arange(4), 2, 1, 2)
    expected = [[naive_code((i, j)) for j in range(4)] for i in range(4)]
    assert (rows[:, None] + columns).tolist() == expected
    assert curves.morton_axis_codes(np.array([2**31 - 1]), 2, 1, 31).tolist() == [naive_code((0, 2**31 - 1))]


def test_empty_input() -> None:
    assert curves.morton_encode(np.empty((0, 3), np.int64), 3).shape == (0,)
    assert curves.morton_decode(np.empty(0, np.uint64), 3).shape == (0, 3)


def test_misuse() -> None:
    with pytest.raises(ValueError, match="coordinates"):
        curves.morton_encode(np.zeros((3, 2), np.int64), 3)
    with pytest.raises(ValueError, match="rank"):
        curves.morton_decode(np.zeros(3, np.uint64), 0)
    with pytest.raises(ValueError, match="shape"):
        curves.from_morton(np.zeros(16), (4, 4), out=np.zeros((2, 2)))


def test_extent() -> None:
    assert curves.morton_extent((4, 4), (2, 2)) == 16
    assert curves.morton_extent((3, 2), (2, 2)) == 16
    # Unequal bits leave gaps: index (1, 7) has code 43, past 2**4.
    assert curves.morton_extent((2, 8), (1, 3)) == 44
    assert curves.morton_extent((0, 8), (1, 3)) == 0


def test_relayout_of_a_4x4() -> None:
    array = np.arange(16).reshape(4, 4)
    stored = curves.to_morton(array, (2, 2))
    assert stored.tolist() == [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15]
    assert np.array_equal(curves.from_morton(stored, (4, 4)), array)


@pytest.mark.parametrize(
    "shape",
    [(300, 700), (256, 256), (512, 31), (33, 40, 70), (1, 5), (70000,), (17, 8, 9, 10), (3,) * 7, (0, 4), (2, 2)],
)
@pytest.mark.parametrize("dtype", ["<u2", "V16"])
def test_relayout_of_odd_shapes(shape: tuple[int, ...], dtype: str) -> None:
    raw = np.random.default_rng(len(shape)).integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    array = raw.view(dtype)[..., 0]
    bits = (max([1, *((n - 1).bit_length() for n in shape if n)]),) * len(shape)
    for source in (array, np.asfortranarray(array), array[::-1]):
        stored = curves.to_morton(source, bits)
        assert len(stored) == (0 if 0 in shape else 1 << sum(bits))
        if source.size:
            for index in np.random.default_rng(0).integers(0, shape, (30, len(shape))):
                assert stored[naive_code(index)].tobytes() == source[tuple(index)].tobytes()
        back = curves.from_morton(stored, shape, out=np.empty(shape, dtype, order="F"))
        assert back.tobytes() == source.tobytes()


def test_unequal_bits_follow_the_formula() -> None:
    array = np.arange(1, 17).reshape(2, 8)
    stored = curves.to_morton(array, (1, 3))
    assert len(stored) == 44
    assert [stored[naive_code((i, j))] for i in range(2) for j in range(8)] == list(range(1, 17))
    assert np.array_equal(curves.from_morton(stored, (2, 8)), array)


def test_gaps_stay_untouched_in_out() -> None:
    out = np.full(16, 9)
    curves.to_morton(np.zeros((3, 3), out.dtype), (2, 2), out=out)
    assert np.count_nonzero(out == 9) == 7


def test_rows_longer_than_a_block_are_descended_into() -> None:
    array = np.arange(3 * 20000, dtype=np.uint32).reshape(3, 20000)
    stored = np.zeros(curves.morton_extent((3, 20000), (2, 15)), np.uint32)
    curves.to_morton(array, (2, 15), out=stored)
    assert stored[naive_code((2, 19999))] == array[2, 19999]
    assert np.array_equal(curves.from_morton(stored, (3, 20000)), array)
