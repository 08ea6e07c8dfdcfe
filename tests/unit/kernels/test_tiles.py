"""Tiled addresses and copies on small cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hurray.kernels import tiles


def test_check_value_of_the_format() -> None:
    stored = tiles.to_tiles(np.arange(48).reshape(6, 8), [[2, 4]], "CC")
    assert stored.tolist().index(3 * 8 + 5) == 29


def test_orders_of_the_grid_and_inside_tiles() -> None:
    array = np.arange(16).reshape(4, 4)
    assert tiles.to_tiles(array, [[2, 2]], "CC").tolist() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert tiles.to_tiles(array, [[2, 2]], "FC").tolist() == [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]
    assert tiles.to_tiles(array, [[2, 2]], "CF").tolist() == [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]


def test_edge_tiles_are_whole_and_padded_with_zeros() -> None:
    stored = tiles.to_tiles(np.arange(1, 16).reshape(5, 3), [[2, 2]], "CC")
    assert stored.tolist() == [1, 2, 4, 5, 3, 0, 6, 0, 7, 8, 10, 11, 9, 0, 12, 0, 13, 14, 0, 0, 15, 0, 0, 0]


def test_nested_tiles() -> None:
    stored = tiles.to_tiles(np.arange(16), [[8], [2]], "CCC")
    assert stored.tolist() == list(range(16))
    stored = tiles.to_tiles(np.arange(16).reshape(4, 4), [[4, 4], [2, 2]], "CFC")
    assert stored.tolist() == [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]


def test_explicit_negative_and_zero_steps() -> None:
    linear = np.arange(10, dtype=np.int32)
    out = np.empty((4,), np.int32)
    tiles.read_tiles(linear, 9, [0], [[2]], [[-4], [-1]], out)
    assert out.tolist() == [9, 8, 5, 4]
    wide = np.empty((3, 2), np.int32)
    tiles.read_tiles(linear, 0, [0, 0], [[3, 1]], [[0, 5], [0, 0]], wide)
    assert wide.tolist() == [[0, 5]] * 3


def test_a_read_never_needs_the_padding_of_the_last_tile() -> None:
    linear = np.arange(5)
    out = np.empty(5, linear.dtype)
    assert tiles.read_tiles(linear, 0, [0], [[4]], [[4], [1]], out).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError):
        tiles.read_tiles(linear, 0, [0], [[4]], [[4], [1]], np.empty(7, linear.dtype))


def test_a_box_across_tiles() -> None:
    array = np.arange(30 * 20).reshape(30, 20)
    stored = tiles.to_tiles(array, [[8, 6]], "CF")
    out = np.empty((17, 11), array.dtype, order="F")
    steps = tiles.packed_steps((30, 20), [[8, 6]], "CF")
    tiles.read_tiles(stored, 0, [5, 3], [[8, 6]], steps, out)
    assert np.array_equal(out, array[5:22, 3:14])


@pytest.mark.parametrize("dtype", ["u1", "<u2", "<f4", "<c16", "V16", "V3"])
def test_any_element_width_and_source_order(dtype: str) -> None:
    width = np.dtype(dtype).itemsize
    raw = np.random.default_rng(1).integers(0, 256, (9, 14, width), dtype=np.uint8)
    array = raw.view(dtype)[..., 0]
    for source in (array, np.asfortranarray(array), array[::-1, ::2], np.broadcast_to(array[:1], (9, 14))):
        stored = tiles.to_tiles(source, [[4, 5]], "FC")
        back = tiles.from_tiles(stored, source.shape, [[4, 5]], "FC")
        assert back.tobytes() == source.tobytes()


def test_many_dimensions_with_edges_everywhere() -> None:
    array = np.arange(3**9, dtype=np.int32).reshape((3,) * 9)
    stored = tiles.to_tiles(array, [[2] * 9], "CC")
    assert np.array_equal(tiles.from_tiles(stored, array.shape, [[2] * 9], "CC"), array)
    thin = np.arange(8, dtype=np.int8).reshape((2, 2, 2) + (1,) * 50)
    assert tiles.to_tiles(thin, [[1] * 53], "CF").tolist() == list(range(8))


def test_more_pieces_than_elements_are_gathered() -> None:
    array = np.arange(2**17, dtype=np.int32).reshape((2,) * 17)
    box = (slice(1, 3),)
    assert tiles.axis_pieces(1, 3, [2], [2, 1])[0].extents == ()
    source = np.arange(4**9, dtype=np.int32).reshape((4,) * 9)
    stored = tiles.to_tiles(source, [[2] * 9], "CC")
    steps = tiles.packed_steps(source.shape, [[2] * 9], "CC")
    out = np.empty((2,) * 9, np.int32)
    assert np.array_equal(tiles.read_tiles(stored, 0, [1] * 9, [[2] * 9], steps, out), source[box * 9])
    # Rows longer than one block of addresses are descended into.
    stored = tiles.to_tiles(array, [[1] * 17], "FF")
    tiles._gather(stored, 0, out17 := np.empty_like(array), [np.array([0, 1 << d]) for d in range(17)], store=False)
    assert np.array_equal(out17, array)


def test_axis_extremes_do_not_depend_on_the_extent() -> None:
    assert tiles.axis_extremes(2**60, [2**40, 2**10], [2**40, 2**10, 1]) == (0, 2**60 - 1)
    assert tiles.axis_extremes(5, [2], [-10, 3]) == (-20, 3)
    assert tiles.axis_extremes(0, [2], [7, 1]) == (0, 0)


def test_axis_offsets_ignores_steps_that_nothing_uses() -> None:
    index = np.arange(4)
    assert tiles.axis_offsets(index, [2**64 - 1], [2**80, 3]).tolist() == [0, 3, 6, 9]
    assert tiles.axis_offsets(np.zeros(2, np.int64), [4], [2**70, 2**70]).tolist() == [0, 0]


def test_out_is_used_and_checked() -> None:
    array = np.arange(6).reshape(2, 3)
    out = np.zeros(8, array.dtype)
    assert tiles.to_tiles(array, [[2, 2]], "CC", out=out) is out
    back = np.empty((2, 3), array.dtype, order="F")
    assert tiles.from_tiles(out, (2, 3), [[2, 2]], "CC", out=back) is back
    assert np.array_equal(back, array)
    with pytest.raises(ValueError, match="8 elements"):
        tiles.to_tiles(array, [[2, 2]], "CC", out=np.zeros(9, array.dtype))
    with pytest.raises(ValueError, match="shape"):
        tiles.from_tiles(out, (2, 3), [[2, 2]], "CC", out=np.empty((3, 2), array.dtype))


def test_misuse() -> None:
    with pytest.raises(ValueError, match="order"):
        tiles.contiguous_steps([2], "K")
    with pytest.raises(ValueError, match="orders"):
        tiles.packed_steps([2], [[2]], "C")


def test_empty_arrays() -> None:
    empty = np.empty((3, 0), np.float32)
    assert tiles.to_tiles(empty, [[2, 2]], "CC").size == 0
    assert tiles.from_tiles(np.empty(0, np.float32), (3, 0), [[2, 2]], "CC").shape == (3, 0)
