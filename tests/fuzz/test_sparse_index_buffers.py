"""Random index buffers under sparse layouts that nobody validated: an error of ours or an answer in bounds.

``HURRAY_FUZZ_INDEX_CASES`` sets the number of cases.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from hurray.errors import BufferError, InvalidDescriptorError
from hurray.layouts import CooLayout, CscLayout, CsfLayout, CsrLayout, Payload, full_region

CASES = int(os.environ.get("HURRAY_FUZZ_INDEX_CASES", "2000"))
ODD = np.array([0, 1, 2**31, 2**32, 2**60, 2**61, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)


def random_index(rng: np.random.Generator, n: int, below: int) -> Any:
    if rng.random() < 0.1:
        return np.frombuffer(rng.bytes(8 * n), "<u8").copy()
    numbers = rng.integers(0, below + 2, n).astype("<u8")
    if rng.random() < 0.7:
        numbers.sort()
    odd = rng.random(n) < rng.choice([0, 0, 0.2])
    numbers[odd] = rng.choice(ODD, int(odd.sum()))
    if n and rng.random() < 0.6:
        numbers[0] = 0
    return numbers


def random_case(rng: np.random.Generator) -> tuple[Any, Payload]:
    nnz = int(rng.integers(0, 12))
    kind = int(rng.integers(4))
    rank = [int(rng.integers(1, 4)), 2, 2, int(rng.integers(3, 5))][kind]
    shape = tuple(int(n) for n in rng.integers(0, 5, rank))
    layouts = (CooLayout(nnz, bool(rng.integers(2))), CsrLayout(nnz), CscLayout(nnz), None)
    layout: Any = layouts[kind] or CsfLayout(nnz, rng.permutation(rank).tolist())
    buffers = [np.frombuffer(rng.bytes(nnz), np.uint8) if nnz else np.empty(0, np.uint8)]
    for spec in layout.specs(shape, 8)[1:]:
        n = spec.n_bytes // 8 + int(rng.integers(0, 6))
        numbers = random_index(rng, n, nnz if "p" in spec.role else 4)
        if rng.random() < 0.5 and "p" in spec.role and n:
            numbers[-1] = nnz
        buffers.append(numbers.view(np.uint8) if n else np.empty(0, np.uint8))
    return layout, Payload(shape, 8, np.dtype("u1"), tuple(buffers))


def attempt(layout: Any, p: Payload, rng: np.random.Generator) -> tuple[bool, int]:
    refused = 0
    try:
        layout.validate(p)
        valid = True
    except (InvalidDescriptorError, BufferError):
        valid = False
    everywhere = np.argwhere(np.ones(p.shape, bool)).reshape(-1, len(p.shape))
    region = tuple(rng.integers(0, n, int(rng.integers(1, 7))) if n else np.empty(0, np.int64) for n in p.shape)
    dense: Any = None
    lookups: Any = None
    try:
        dense = layout.read(p, full_region(p.shape))
        assert dense.shape == p.shape
    except (InvalidDescriptorError, BufferError):
        refused += 1
    try:
        lookups = layout.lookup(p, everywhere)
        assert ((lookups >= -1) & (lookups < layout.nnz)).all()
    except (InvalidDescriptorError, BufferError):
        refused += 1
    try:
        part = layout.read(p, region)
        assert part.shape == tuple(len(axis) for axis in region)
        assert not valid or np.array_equal(part, dense[np.ix_(*region)])
    except (InvalidDescriptorError, BufferError):
        refused += 1
    try:
        coords, codes = layout.stored(p)
        assert coords.shape == (layout.nnz, len(p.shape))
        if valid:
            expected = np.zeros(p.shape, np.uint8)
            expected[tuple(coords.T)] = codes
            assert np.array_equal(dense, expected)
            found = np.where(lookups < 0, 0, codes[lookups]) if len(codes) else np.zeros(len(everywhere), np.uint8)
            assert np.array_equal(found.reshape(p.shape), dense)
    except (InvalidDescriptorError, BufferError):
        refused += 1
    assert not (valid and refused)
    return valid, refused


def test_random_index_buffers() -> None:
    rng = np.random.default_rng(20)
    valid = refused = 0
    for _ in range(CASES):
        outcome = attempt(*random_case(rng), rng)
        valid += outcome[0]
        refused += outcome[1] > 0
    # All three outcomes happen: sound buffers, broken ones that are refused, broken ones that are read in bounds.
    assert valid > CASES // 100
    assert refused > CASES // 100
    assert valid + refused < CASES
