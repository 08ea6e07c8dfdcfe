"""Pages and slots against loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hurray.kernels import paging


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize(
    ("table", "ptr", "expected"),
    [
        ([0, 1, 0], [0, 2, 3], (paging.OK, -1)),
        ([], [0], (paging.OK, -1)),
        ([], [0, 0, 0], (paging.OK, -1)),
        ([0], [1, 1], (paging.PTR_START, 0)),
        ([0, 1], [0, 2, 1, 2], (paging.PTR_DECREASES, 2)),
        ([0, 1], [0, 2**32 - 1, 2], (paging.PTR_DECREASES, 2)),
        ([0, 1], [0, 3], (paging.PTR_END, 1)),
        ([0, 1, 2], [0, 2], (paging.PTR_END, 1)),
        ([0, 3, 4], [0, 3], (paging.PAGE_TOO_HIGH, 1)),
        ([0, 2**32 - 1], [0, 2], (paging.PAGE_TOO_HIGH, 1)),
    ],
)
def test_check_tables(dtype: Any, table: list[int], ptr: list[int], expected: tuple[int, int]) -> None:
    assert paging.check_tables(np.array(table, dtype), np.array(ptr, dtype), 3) == expected


def test_check_tables_is_unsigned() -> None:
    assert paging.check_tables(np.array([2**63], np.uint64), np.array([0, 1], np.uint64), 2**63) == (
        paging.PAGE_TOO_HIGH,
        0,
    )
    assert paging.check_tables(np.array([2**63 - 1], np.uint64), np.array([0, 1], np.uint64), 2**63)[0] == paging.OK


def _splits(pages: list[int], page_size: int, total: int) -> list[tuple[int, ...]]:
    choices = [range((n - 1) * page_size + 1, n * page_size + 1) if n else range(1) for n in pages]
    return [split for split in itertools.product(*choices) if sum(split) == total]


@given(st.lists(st.integers(0, 3), max_size=4), st.integers(1, 3), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_lengths_are_derived_exactly_when_they_are_unique(pages: list[int], page_size: int, total: int) -> None:
    ptr = np.cumsum([0, *pages]).astype(np.uint32)
    splits = _splits(pages, page_size, total)
    got = paging.derive_lengths(ptr, page_size, total)
    assert (None if got is None else tuple(got)) == (splits[0] if len(splits) == 1 else None)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_token_slots(lengths: list[int], page_size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pages = [-(-n // page_size) for n in lengths]
    ptr = np.cumsum([0, *pages]).astype(np.uint64)
    table = rng.integers(0, 9, sum(pages)).astype(np.uint64)
    expected = [
        int(table[int(ptr[s]) + t // page_size]) * page_size + t % page_size
        for s, n in enumerate(lengths)
        for t in range(n)
    ]
    assert paging.token_slots(np.arange(sum(lengths)), table, ptr, lengths, page_size).tolist() == expected
    if expected:
        some = rng.integers(0, len(expected), 5)
        assert paging.token_slots(some, table, ptr, lengths, page_size).tolist() == [expected[k] for k in some]


def test_pages_are_shared_from_the_front_only() -> None:
    keys: list[list[bytes | None]] = [[b"a", b"b", None], [b"a", b"c"], [b"b", b"a"], [], [b"a", b"b", None]]
    table, ptr, sources = paging.plan_pages(keys)
    assert ptr == [0, 3, 5, 7, 7, 10]
    assert table == [0, 1, 2, 0, 3, 4, 5, 0, 1, 6]
    assert sources == [(0, 0), (0, 1), (0, 2), (1, 1), (2, 0), (2, 1), (4, 2)]
