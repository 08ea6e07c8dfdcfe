from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hurray.kernels import keys


def test_fields_hold_the_coordinates_in_lexicographic_order() -> None:
    fields = keys.key_format((5, 1, 300))
    assert fields is not None
    assert (fields.bits, fields.shifts, fields.n_bits) == ((3, 0, 9), (9, 9, 0), 12)
    packed = keys.pack(np.array([[4, 0, 299], [0, 0, 1]], np.uint64), fields)
    assert packed.tolist() == [4 << 9 | 299, 1]
    assert [keys.field(packed, fields, level).tolist() for level in range(3)] == [[4, 0], [0, 0], [299, 1]]


def test_a_key_that_is_too_wide_is_measured_by_the_coordinates_present() -> None:
    shape = (1 << 40, 1 << 40)
    assert keys.key_format(shape) is None
    coords = np.array([[1000, (1 << 40) - 1], [0, 3]], np.uint64)
    fields = keys.fit_format(coords, shape)
    assert fields is not None
    assert fields.bits == (10, 40)
    coords[0, 0] = (1 << 40) - 1
    assert keys.fit_format(coords, shape) is None


def test_first_descent_across_blocks() -> None:
    ascending = np.arange(3 * keys.BLOCK, dtype=np.uint64)
    assert keys.first_descent(ascending, strict=True) == -1
    for at in (1, keys.BLOCK, keys.BLOCK + 1, 3 * keys.BLOCK - 1):
        broken = ascending.copy()
        broken[at] = broken[at - 1]
        assert keys.first_descent(broken, strict=True) == at
        assert keys.first_descent(broken, strict=False) == -1


def test_positions_are_refused_where_they_do_not_fit() -> None:
    fields = keys.key_format((1 << 62,))
    assert fields is not None
    packed = np.zeros(3, np.uint64)
    assert keys.append_positions(packed, fields) is None
    assert keys.append_positions(packed[:2], fields) is not None


@given(st.lists(st.integers(0, 2**40 - 1), max_size=50))
def test_positions_come_back(numbers: list[int]) -> None:
    fields = keys.key_format((1 << 40,))
    assert fields is not None
    mixed = keys.append_positions(np.array(numbers, np.uint64), fields)
    assert mixed is not None
    ordered = keys.sort_keys(mixed[0], mixed[1].n_bits)
    assert keys.field(ordered, mixed[1], 0).tolist() == sorted(numbers)
    assert keys.positions(ordered, mixed[1]).tolist() == sorted(range(len(numbers)), key=lambda k: numbers[k])


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "skewed", "constant", "few bits", "large buckets"])
def test_both_ways_of_sorting_sort(monkeypatch: pytest.MonkeyPatch, slow: bool, kind: str) -> None:
    monkeypatch.setattr(keys, "_partition_is_slow", lambda: slow)
    rng = np.random.default_rng(5)
    n = (1 << 17) + 77
    numbers = {
        "uniform": rng.integers(0, 1 << 50, n, dtype=np.uint64),
        "skewed": rng.zipf(1.2, n).astype(np.uint64) % np.uint64(1 << 50),
        "constant": np.full(n, (1 << 50) - 1, np.uint64),
        "few bits": rng.integers(0, 7, n, dtype=np.uint64),
        "large buckets": rng.integers(0, 200, n, dtype=np.uint64) << np.uint64(42)
        | rng.integers(0, 99, n).astype("u8"),
    }[kind]
    assert np.array_equal(keys.sort_keys(numbers.copy(), 50), np.sort(numbers))


def test_the_choice_of_sort_is_made() -> None:
    keys._partition_is_slow.cache_clear()
    assert keys._partition_is_slow() in (True, False)
