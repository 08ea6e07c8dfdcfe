"""Pages and slots: where the tokens of paged sequences lie in their pool.

Token ``t`` of sequence ``s`` is slot ``t % page_size`` of page ``block_table[seq_ptr[s] + t // page_size]``, and slot
``k`` of page ``p`` is position ``p * page_size + k`` of the pool. Tokens of all sequences are numbered one after
another.

Index arrays are unsigned, as they are stored, and the checks compare them unsigned: a huge entry must not turn
negative. The other functions expect checked arrays.

Format: layouts, block_paged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "OK",
    "PAGE_TOO_HIGH",
    "PTR_DECREASES",
    "PTR_END",
    "PTR_START",
    "check_tables",
    "derive_lengths",
    "plan_pages",
    "token_slots",
    "used_slots",
]

Int64 = NDArray[np.int64]
Index = NDArray[Any]

OK, PTR_START, PTR_DECREASES, PTR_END, PAGE_TOO_HIGH = range(5)


def check_tables(block_table: Index, seq_ptr: Index, num_pages: int) -> tuple[int, int]:
    """Check the two index arrays; return what is wrong first and where.

    Parameters
    ----------
    block_table, seq_ptr
        1-D unsigned arrays; ``seq_ptr`` has at least one entry.
    num_pages
        Number of pages in the pool.

    Returns
    -------
    code, position
        ``OK`` and -1; ``PTR_START`` (0): the first entry of ``seq_ptr`` is not 0; ``PTR_DECREASES`` (k): entry k is
        below the one before; ``PTR_END``: the last entry is not the length of ``block_table``; ``PAGE_TOO_HIGH`` (k):
        entry k of ``block_table`` is no page.

    Examples
    --------
    >>> check_tables(np.array([1, 7], np.uint32), np.array([0, 2], np.uint32), 4)
    (4, 1)
    """
    if seq_ptr[0] != 0:
        return PTR_START, 0
    down = seq_ptr[1:] < seq_ptr[:-1]
    if down.any():
        return PTR_DECREASES, int(down.argmax()) + 1
    if int(seq_ptr[-1]) != len(block_table):
        return PTR_END, len(seq_ptr) - 1
    if len(block_table) and int(block_table.max()) >= num_pages:
        return PAGE_TOO_HIGH, int((block_table >= num_pages).argmax())
    return OK, -1


def derive_lengths(seq_ptr: Index, page_size: int, total: int) -> list[int] | None:
    """Return the only lengths that ``total`` tokens can be split into, or None where there are several or none.

    Every sequence fits its pages and uses its last one. So its length is fixed when its pages are all full, when all
    last pages hold a single token, or when no other sequence can vary.

    Examples
    --------
    >>> derive_lengths(np.array([0, 2, 3], np.uint32), 4, 12)
    [8, 4]
    >>> derive_lengths(np.array([0, 2, 3], np.uint32), 4, 9) is None
    True
    >>> derive_lengths(np.array([0, 0, 2], np.uint32), 4, 7)
    [0, 7]
    """
    pages = [int(n) for n in np.diff(seq_ptr.astype(np.int64))]
    most = [n * page_size for n in pages]
    least = [max(0, n - page_size + 1) for n in most]
    if total == sum(most):
        return most
    if total == sum(least):
        return least
    free = [k for k, n in enumerate(pages) if n]
    if len(free) != 1 or not least[free[0]] < total < most[free[0]]:
        return None
    return [total if n else 0 for n in pages]


def token_slots(
    tokens: Int64, block_table: Index, seq_ptr: Index, lengths: Sequence[int] | Int64, page_size: int
) -> Int64:
    """Return the pool position of each token.

    Parameters
    ----------
    tokens
        1-D int64 token numbers, over all sequences one after another, each below the sum of ``lengths``.
    block_table, seq_ptr
        Checked index arrays.
    lengths
        Number of tokens of each sequence; each fits its pages.
    page_size
        Slots of a page.

    Examples
    --------
    >>> token_slots(np.arange(5), np.array([2, 0], np.uint32), np.array([0, 1, 2], np.uint32), [2, 3], 3)
    array([6, 7, 0, 1, 2])
    """
    ends = np.cumsum(np.asarray(lengths, np.int64))
    sequence = np.searchsorted(ends, tokens, side="right")
    starts = ends - np.asarray(lengths, np.int64)
    local = tokens - starts[sequence]
    entry = seq_ptr.astype(np.int64)[sequence] + local // page_size
    page = block_table[entry].astype(np.int64)
    result: Int64 = page * page_size + local % page_size
    return result


def used_slots(block_table: Index, seq_ptr: Index, lengths: Sequence[int], page_size: int) -> Int64:
    """Return the pool positions that hold a token, ascending, each once; arguments as for `token_slots`.

    Work and memory follow the tables and the pages that they name, not the number of tokens: a page may be named often.

    Examples
    --------
    >>> used_slots(np.array([2, 0, 2], np.uint32), np.array([0, 2, 3], np.uint32), [4, 2], 3)
    array([0, 6, 7, 8])
    """
    filled = np.full(len(block_table), page_size, np.int64)
    ptr = seq_ptr.astype(np.int64)
    for k, n in enumerate(lengths):
        if ptr[k + 1] > ptr[k]:
            filled[ptr[k + 1] - 1] = n - (ptr[k + 1] - ptr[k] - 1) * page_size
    pages, place = np.unique(block_table, return_inverse=True)
    most = np.zeros(len(pages), np.int64)
    np.maximum.at(most, place, filled)
    starts = pages.astype(np.int64) * page_size - (np.cumsum(most) - most)
    slots: Int64 = np.arange(int(most.sum()), dtype=np.int64) + np.repeat(starts, most)
    return slots


def plan_pages(keys: Sequence[Sequence[bytes | None]]) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Give every page of every sequence a place in the pool, equal leading pages the same one.

    Parameters
    ----------
    keys
        For each sequence, for each of its pages: the page's content, or None for a page that is not to be shared.

    Returns
    -------
    block_table, seq_ptr, sources
        ``sources`` names for each page of the pool the sequence and the page of it that it holds.

    Examples
    --------
    >>> plan_pages([[b"x", b"y"], [b"x", None]])
    ([0, 1, 0, 2], [0, 2, 4], [(0, 0), (0, 1), (1, 1)])
    """
    # A page may stand for another only if everything before it is shared too, so its key includes the page before.
    known: dict[tuple[int, bytes], int] = {}
    table: list[int] = []
    ptr = [0]
    sources: list[tuple[int, int]] = []
    for s, pages in enumerate(keys):
        previous = -1
        for p, key in enumerate(pages):
            place = None if key is None else known.get((previous, key))
            if place is None:
                place = len(sources)
                sources.append((s, p))
                if key is not None:
                    known[previous, key] = place
            table.append(place)
            previous = place
        ptr.append(len(table))
    return table, ptr, sources
