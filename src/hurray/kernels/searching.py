"""Look-ups of many coordinates at once in a coordinate list.

Format: layouts, coo.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .coords import first_out_of_bounds
from .keys import BLOCK, I64, U64, KeyFormat, append_positions, key_format, pack, pack_block, positions, sort_keys
from .ordering import run_starts, sort_coords

Bools = npt.NDArray[np.bool_]

_FEW = 4096


def find(coords: U64, shape: Sequence[int], queries: U64, *, is_sorted: bool) -> I64:
    """Return the position of each queried tuple, or -1.

    Parameters
    ----------
    coords
        uint64, shape (n, rank); where it repeats a tuple, any of the positions may be given.
    shape
        Extent of each dimension.
    queries
        uint64, shape (m, rank), within `shape`; coordinates of `coords` out of bounds never match.
    is_sorted
        Whether `coords` ascends; a false promise makes matches go unseen, no more.
    """
    if not len(coords) or not len(queries):
        return np.full(len(queries), -1, np.int64)
    fields = key_format(shape)
    if fields is None:
        return _find_by_groups(coords, queries)
    wanted = pack(queries, fields)
    # Searches in ascending order share their path through the list, and so the cache.
    mixed = append_positions(wanted, fields)
    if mixed is None:
        turn = np.argsort(wanted, kind="stable")
    else:
        turn = positions(sort_keys(mixed[0], mixed[1].n_bits), mixed[1])
    wanted = wanted[turn]
    search = _find_in_order if is_sorted else _find_few if len(queries) <= _FEW else _find_sorting
    found = np.empty(len(queries), np.int64)
    found[turn] = search(coords, np.array(shape, np.uint64), fields, wanted)
    return found


def _matches(keys: U64, wanted: U64) -> tuple[I64, Bools]:
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def _find_in_order(coords: U64, extents: U64, fields: KeyFormat, wanted: U64) -> I64:
    at, hit = _matches(pack(coords, fields), wanted)
    hit[hit] = (coords[at[hit]] < extents).all(axis=1)
    return np.where(hit, at, -1)


def _find_sorting(coords: U64, extents: U64, fields: KeyFormat, wanted: U64) -> I64:
    legal = None
    if first_out_of_bounds(coords, extents.tolist()) >= 0:
        legal = np.flatnonzero((coords < extents).all(axis=1))
    entries = sort_coords(coords if legal is None else coords[legal], extents.tolist())
    if not len(entries):
        return np.full(len(wanted), -1, np.int64)
    keys = np.empty(len(entries), np.uint64)
    for start in range(0, len(keys), BLOCK):
        stop = min(start + BLOCK, len(keys))
        block = np.stack([entries.column(mode, start, stop) for mode in range(len(extents))], axis=1)
        pack_block(block, fields, keys[start:stop])
    at, hit = _matches(keys, wanted)
    found = at if entries.perm is None else entries.perm[at]
    return np.where(hit, found if legal is None else legal[found], -1)


def _find_few(coords: U64, extents: U64, fields: KeyFormat, wanted: U64) -> I64:
    # One pass over the coordinates beats sorting them. A table of hashes lets only likely matches through.
    unique, back = np.unique(wanted, return_inverse=True)
    found = np.full(len(unique), -1, np.int64)
    likely = np.zeros(1 << 16, np.bool_)
    likely[_hash(unique)] = True
    keys = np.empty(BLOCK, np.uint64)
    for start in range(0, len(coords), BLOCK):
        block = coords[start : start + BLOCK]
        part = keys[: len(block)]
        pack_block(block, fields, part)
        maybe = np.flatnonzero(likely.take(_hash(part)))
        at, hit = _matches(unique, part[maybe])
        hit &= (block[maybe] < extents).all(axis=1)
        found[at[hit]] = maybe[hit] + start
    return found[back.reshape(-1)]


def _hash(keys: U64) -> I64:
    return ((keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(48)).view(np.int64)


def _find_by_groups(coords: U64, queries: U64) -> I64:
    both = np.concatenate((coords, queries))
    rank = both.shape[1]
    entries = sort_coords(both, (1 << 64,) * rank)
    starts = np.zeros(len(both), np.bool_)
    starts[run_starts(entries)] = True
    group = np.cumsum(starts) - 1
    if entries.perm is not None:
        scattered = np.empty_like(group)
        scattered[entries.perm] = group
        group = scattered
    holder = np.full(len(both), -1, np.int64)
    holder[group[: len(coords)]] = np.arange(len(coords), dtype=np.int64)
    found: I64 = holder[group[len(coords) :]]
    return found
