"""Shapes and strides: sizes, orders, extents, offsets."""

from __future__ import annotations

import numpy as np
import pytest

from hurray.kernels import strides


def test_products_do_not_wrap() -> None:
    assert strides.checked_product(()) == 1
    assert strides.checked_product((3, 0, 5)) == 0
    assert strides.checked_product((2**63, 2**63)) == 2**126
    assert strides.checked_product(tuple(np.array([2**40, 2**40]))) == 2**80


@pytest.mark.parametrize(
    ("shape", "row", "col"),
    [
        ((), (), ()),
        ((5,), (1,), (1,)),
        ((2, 3, 4), (12, 4, 1), (1, 2, 6)),
        ((2, 0, 4), (4, 4, 1), (1, 2, 2)),
        ((1, 1), (1, 1), (1, 1)),
        ((2**40, 2**40), (2**40, 1), (1, 2**40)),
    ],
)
def test_dense_strides(shape: tuple[int, ...], row: tuple[int, ...], col: tuple[int, ...]) -> None:
    assert strides.row_major_strides(shape) == row
    assert strides.col_major_strides(shape) == col
    assert strides.is_row_major(shape, row)
    assert strides.is_col_major(shape, col)


@pytest.mark.parametrize(
    ("shape", "steps", "expected"),
    [
        ((), (), (0, 0)),
        ((0,), (7,), (0, -1)),
        ((3, 0), (-5, 7), (0, -1)),
        ((3, 4), (4, 1), (0, 11)),
        ((3, 4), (-4, 1), (-8, 3)),
        ((3, 4), (0, -1), (-3, 0)),
        ((1, 4), (10**30, 2), (0, 6)),
        ((2**63, 2), (2**62, -1), (-1, (2**63 - 1) * 2**62)),
    ],
)
def test_extent(shape: tuple[int, ...], steps: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert strides.extent(shape, steps) == expected


@pytest.mark.parametrize(
    ("shape", "steps", "row", "col"),
    [
        ((2, 3), (3, 1), True, False),
        ((2, 3), (1, 2), False, True),
        ((6,), (1,), True, True),
        ((6,), (2,), False, False),
        ((6,), (-1,), False, False),
        ((6,), (0,), False, False),
        ((1, 6, 1), (0, 1, -9), True, True),
        ((2, 1, 3), (3, 77, 1), True, False),
        ((2, 0, 3), (-1, 77, 5), True, True),
        ((1,), (0,), True, True),
        ((), (), True, True),
    ],
)
def test_orders(shape: tuple[int, ...], steps: tuple[int, ...], row: bool, col: bool) -> None:
    assert strides.is_row_major(shape, steps) is row
    assert strides.is_col_major(shape, steps) is col


def test_lengths_must_agree() -> None:
    for call in (strides.extent, strides.is_row_major, strides.is_col_major):
        with pytest.raises(ValueError, match="zip"):
            call((2, 3), (1,))
    with pytest.raises(ValueError, match="zip"):
        strides.linear_offsets([range(2)], (1, 2))


def test_linear_offsets() -> None:
    scalar = strides.linear_offsets([], (), start=7)
    assert scalar.shape == ()
    assert scalar == 7
    got = strides.linear_offsets([range(2), np.array([2, 0, 2]), range(3, -1, -2)], (100, -10, 1), start=5)
    assert got.dtype == np.int64
    expected = [[[5 + 100 * i - 10 * j + k for k in (3, 1)] for j in (2, 0, 2)] for i in range(2)]
    assert got.tolist() == expected
    assert strides.linear_offsets([range(0), range(3)], (1, 1)).shape == (0, 3)
    assert strides.linear_offsets([np.array([0, 3], np.uint8)], (1000,)).tolist() == [0, 3000]
    assert strides.linear_offsets([range(1)], (-(2**63),)).tolist() == [0]
