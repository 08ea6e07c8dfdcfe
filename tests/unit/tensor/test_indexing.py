"""Keys: what NumPy reads, ours read; where NumPy raises IndexError, ours raises IndexError."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hurray

SHAPES: list[tuple[int, ...]] = [(), (4,), (3, 4), (2, 3, 4), (0, 3)]
KEYS: list[Any] = [
    (), ..., None, 0, -1, 3, slice(None), slice(1, None, 2), slice(None, None, -1), slice(5, 1, -2), (..., 0), (0, ...),
    (0, 0), (0, ..., 0), (None, ..., None), (slice(1), None), (0, 0, 0), (..., 0, 0, 0), [0, 1], [], [[0, 1], [1, 0]],
    (slice(None), [1, 0]), ([0, 1], [1, 0]), ([0], slice(None), [1]), (0, [1, 0]), np.array([True, False, True, False]),
    np.array([True, False, True]), np.uint8(1), np.array(1), (np.int64(0), np.array([2, 0])), (np.array([], int), 0),
    (slice(-100, 100), 0), [-1, -2], (..., [1, 1, 1]), 4, -5, (0, 0, 0, 0), (..., ...), 1.0, "a", [0.5], 2**70,
    slice(None, None, 0), np.array([True, False]), np.array([2**63], np.uint64), (slice("a"),), [7], b"x",
]  # fmt: skip


def numpys(array: np.ndarray[Any, Any], key: Any) -> Any:
    try:
        return array[key]
    except (IndexError, ValueError, TypeError):  # NumPy has all three for keys that it does not take
        return IndexError


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("layout", ["row_major", "col_major", "coo"])
def test_keys(shape: tuple[int, ...], key: Any, layout: str) -> None:
    array = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    t = hurray.from_numpy(array)
    if layout != "row_major":
        if not shape:
            return
        t = t.to_layout(layout)
    want = numpys(array, key)
    if want is IndexError:
        with pytest.raises(IndexError):
            t[key]
        return
    got = t[key]
    assert type(got) is type(want)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_a_single_boolean_is_no_index() -> None:
    for key in (True, np.False_, (0, True)):
        with pytest.raises(IndexError, match="boolean"):
            hurray.zeros([2, 2])[key]


def test_nothing_but_the_elements_is_read() -> None:
    huge = hurray.Tensor(np.array([7.0]), hurray.float64, [2**40, 2**18], layout=hurray.StridedLayout([0, 0]))
    assert huge[2**40 - 1, 5] == 7
    assert huge[:: 2**38, -1].tolist() == [7] * 4
    assert huge[[0, 2**40 - 1], [0, 1]].tolist() == [7, 7]
    with pytest.raises(IndexError):
        huge[2**40, 0]


def test_lookup() -> None:
    array = np.arange(12.0).reshape(3, 4)
    for t in (hurray.from_numpy(array), hurray.from_numpy(array).to_layout("csr")):
        assert t.lookup([[0, 1], [2, -1], [0, 1]]).tolist() == [1, 11, 1]
        assert t.lookup([]).shape == (0,)
        assert t.lookup(np.zeros((0, 2), np.uint8)).shape == (0,)
        for coords in ([[3, 0]], [[0, -5]], [0, 1], [[0]], [[0.0, 1.0]], 3, "ab", [[2**70, 0]]):
            with pytest.raises(IndexError):
                t.lookup(coords)
    assert hurray.full([], 5).lookup(np.zeros((3, 0), int)).tolist() == [5, 5, 5]
