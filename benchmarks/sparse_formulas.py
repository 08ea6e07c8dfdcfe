"""Straightforward NumPy ways to build, unpack and search sparse layouts: what one writes without a library."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Csf",
    "Csr",
    "csf_from_coo",
    "csf_from_dense",
    "csf_lookup",
    "csf_to_coo",
    "csr_from_coo",
    "csr_lookup",
    "scatter",
]

Array = NDArray[Any]


class Csr(NamedTuple):
    """Compressed rows."""

    row_ptr: Array
    columns: Array
    values: Array


class Csf(NamedTuple):
    """A fiber tree of three levels in the order of the dimensions."""

    pos: tuple[Array, Array, Array]
    crd: tuple[Array, Array, Array]
    values: Array


def csr_from_coo(coords: Array, values: Array, shape: tuple[int, ...], *, is_sorted: bool) -> Csr:
    """Build compressed rows from unique coordinates."""
    rows, columns = coords[:, 0], coords[:, 1]
    if not is_sorted:
        order = np.argsort(rows * shape[1] + columns, kind="stable")
        rows, columns, values = rows[order], columns[order], values[order]
    row_ptr = np.zeros(shape[0] + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=row_ptr[1:])
    return Csr(row_ptr, np.ascontiguousarray(columns), values)


def csr_lookup(csr: Csr, shape: tuple[int, ...], wanted: Array) -> Array:
    """Return values at coordinates: one binary search over (row, column) keys."""
    rows = np.repeat(np.arange(shape[0]), np.diff(csr.row_ptr))
    return _found(rows * shape[1] + csr.columns, wanted[:, 0] * shape[1] + wanted[:, 1], csr.values)


def _found(keys: Array, wanted: Array, values: Array) -> Array:
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], values.dtype.type(0))


def csf_from_coo(coords: Array, values: Array, shape: tuple[int, ...], *, is_sorted: bool) -> Csf:
    """Build a fiber tree from unique coordinates of rank 3."""
    if not is_sorted:
        order = np.argsort(np.ravel_multi_index(tuple(coords.T), shape), kind="stable")
        coords, values = coords[order], values[order]
    new_root = np.ones(len(coords), np.bool_)
    new_root[1:] = coords[1:, 0] != coords[:-1, 0]
    new_middle = new_root.copy()
    new_middle[1:] |= coords[1:, 1] != coords[:-1, 1]
    roots, middles = np.flatnonzero(new_root), np.flatnonzero(new_middle)
    pos = (
        np.array([0, len(roots)]),
        np.append(np.searchsorted(middles, roots), len(middles)),
        np.append(middles, len(coords)),
    )
    crd = (coords[roots, 0], coords[middles, 1], np.ascontiguousarray(coords[:, 2]))
    return Csf(pos, crd, values)


def csf_from_dense(dense: Array) -> Csf:
    """Build a fiber tree from the non-zero elements of an array of rank 3."""
    coords = np.argwhere(dense)
    return csf_from_coo(coords, dense[tuple(coords.T)], dense.shape, is_sorted=True)


def csf_to_coo(csf: Csf) -> Array:
    """Return the coordinates that a fiber tree stores."""
    leaves = np.diff(csf.pos[2])
    out = np.empty((len(csf.crd[2]), 3), np.int64)
    out[:, 0] = np.repeat(np.repeat(csf.crd[0], np.diff(csf.pos[1])), leaves)
    out[:, 1] = np.repeat(csf.crd[1], leaves)
    out[:, 2] = csf.crd[2]
    return out


def csf_lookup(csf: Csf, shape: tuple[int, ...], wanted: Array) -> Array:
    """Return values at coordinates: a binary search on each level over (parent, coordinate) keys."""
    parent = np.zeros(len(wanted), np.int64)
    hit = np.ones(len(wanted), np.bool_)
    for level in range(3):
        counts = np.diff(csf.pos[level])
        keys = np.repeat(np.arange(len(counts)), counts) * shape[level] + csf.crd[level]
        key = parent * shape[level] + wanted[:, level]
        parent = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        hit &= keys[parent] == key
    return np.where(hit, csf.values[parent], csf.values.dtype.type(0))


def scatter(coords: Array, values: Array, shape: tuple[int, ...]) -> Array:
    """Return the dense array of coordinates and values."""
    dense = np.zeros(shape, values.dtype)
    dense[tuple(coords.T)] = values
    return dense
