"""Hilbert indices and relayouts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hurray.kernels import hilbert


def naive_index(point: Sequence[int], order: int) -> int:
    """Skilling's transform, step by step as the format gives it."""
    x = [int(v) for v in point]
    rank = len(x)
    q = 1 << (order - 1)
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
    q = 1 << (order - 1)
    while q > 1:
        if x[rank - 1] & q:
            t ^= q - 1
        q >>= 1
    x = [v ^ t for v in x]
    return sum(((x[d] >> b) & 1) << (b * rank + rank - 1 - d) for b in range(order) for d in range(rank))


CHECK = [
    *[(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 3), (1, 3), (1, 2)],
    *[(2, 2), (2, 3), (3, 3), (3, 2), (3, 1), (2, 1), (2, 0), (3, 0)],
]


def test_check_values_of_the_format() -> None:
    assert hilbert.hilbert_decode(np.arange(16, dtype=np.uint64), 2, 2).tolist() == [list(p) for p in CHECK]
    assert hilbert.hilbert_encode(np.array(CHECK), 2).tolist() == list(range(16))


def test_number_of_states() -> None:
    assert [len(hilbert._machine(rank).digit) for rank in (2, 3, 4)] == [4, 24, 192]


@pytest.mark.parametrize("rank", [2, 3, 4, 5, 6, 7, 16, 32])
def test_every_order_up_to_64_bits(rank: int) -> None:
    rng = np.random.default_rng(rank)
    for order in range(1, 64 // rank + 1):
        points = rng.integers(0, 1 << order, (12, rank))
        points[0], points[1] = 0, (1 << order) - 1
        index = hilbert.hilbert_encode(points, order)
        assert index.dtype == np.uint64
        assert index.tolist() == [naive_index(point, order) for point in points]
        assert np.array_equal(hilbert.hilbert_decode(index, rank, order), points)


@pytest.mark.parametrize(("rank", "order"), [(2, 8), (3, 5), (4, 4), (5, 3)])
def test_neighbours_along_the_curve_touch(rank: int, order: int) -> None:
    points = hilbert.hilbert_decode(np.arange(1 << (rank * order), dtype=np.uint64), rank, order)
    assert np.array_equal(np.abs(np.diff(points, axis=0)).sum(axis=1), np.ones(len(points) - 1))
    assert len(np.unique(points, axis=0)) == len(points)


@pytest.mark.parametrize(
    ("rank", "order"), [(2, 1), (2, 2), (2, 6), (2, 7), (2, 8), (2, 9), (3, 1), (3, 4), (3, 5), (4, 3), (4, 4), (5, 3)]
)
@pytest.mark.parametrize("dtype", ["<u4", "V16"])
def test_relayout(rank: int, order: int, dtype: str) -> None:
    shape = (1 << order,) * rank
    size = 1 << (rank * order)
    words = np.arange(size * (np.dtype(dtype).itemsize // 4), dtype="<u4")
    array = words.view(dtype).reshape(shape)
    points = hilbert.hilbert_decode(np.arange(size, dtype=np.uint64), rank, order)
    for source in (array, np.asfortranarray(array), array[::-1]):
        stored = hilbert.to_hilbert(source, order)
        assert stored.tobytes() == source[tuple(points.T)].tobytes()
        back = hilbert.from_hilbert(stored, rank, order, out=np.empty(shape, dtype, order="F"))
        assert back.tobytes() == source.tobytes()
        assert hilbert.from_hilbert(stored, rank, order).tobytes() == source.tobytes()


def test_more_points_than_one_block_and_any_order() -> None:
    points = np.random.default_rng(0).integers(0, 1 << 31, (40000, 2), dtype=np.uint32)
    index = hilbert.hilbert_encode(points, 31)
    assert index[::7919].tolist() == [naive_index(p, 31) for p in points[::7919]]
    assert np.array_equal(hilbert.hilbert_decode(index, 2, 31), points)
    assert np.array_equal(hilbert.hilbert_encode(np.asfortranarray(points)[::-1], 31), index[::-1])


def test_empty_input() -> None:
    assert hilbert.hilbert_encode(np.empty((0, 2), np.int64), 3).shape == (0,)
    assert hilbert.hilbert_decode(np.empty(0, np.uint64), 5, 3).shape == (0, 5)


def test_misuse() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        hilbert.hilbert_encode(np.zeros((1, 2), np.int64), 33)
    with pytest.raises(ValueError, match="rank 1"):
        hilbert.hilbert_encode(np.zeros((1, 1), np.int64), 3)
    with pytest.raises(ValueError, match="rank 0"):
        hilbert.hilbert_encode(np.zeros(4, np.int64), 3)
    with pytest.raises(ValueError, match="order 0"):
        hilbert.hilbert_decode(np.zeros(1, np.uint64), 2, 0)
    with pytest.raises(ValueError, match="1-D"):
        hilbert.hilbert_decode(np.zeros((1, 1), np.uint64), 2, 1)
    with pytest.raises(ValueError, match="fills extents"):
        hilbert.to_hilbert(np.zeros((4, 8)), 2)
    with pytest.raises(ValueError, match="shape"):
        hilbert.from_hilbert(np.zeros(16), 2, 2, out=np.zeros((4, 2)))
