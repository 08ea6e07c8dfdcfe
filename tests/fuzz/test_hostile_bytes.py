"""Damaged tensors, files, streams and pickles: one of our errors, or answers that come from the input alone.

Every case opens what it can and does some of everything that users do with it, twice, with two fillings of the memory
around the buffers.  ``HURRAY_FUZZ_CASES`` sets the number of cases, ``HURRAY_FUZZ_START`` the first seed.
"""

from __future__ import annotations

import io
import os
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import hostile
import hurray
from hurray.container.kv import decode_kv
from hurray.limits import DEFAULT_LIMITS

CASES = int(os.environ.get("HURRAY_FUZZ_CASES", "2000"))
START = int(os.environ.get("HURRAY_FUZZ_START", "0"))
OPS_PER_CASE = 8
FILLINGS = (0xA5, 0x3C)


@pytest.fixture(autouse=True)
def small_and_strict() -> Iterator[None]:
    # Dense results stay small, so that what is too large for a test is refused as what is too large for a machine.
    before = DEFAULT_LIMITS.max_dense_bytes
    object.__setattr__(DEFAULT_LIMITS, "max_dense_bytes", 1 << 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    object.__setattr__(DEFAULT_LIMITS, "max_dense_bytes", before)


@cache
def pool() -> list[list[hostile.Record]]:
    return hostile.own_items()


def seeds(share: int) -> range:
    return range(START, START + max(1, CASES // share))


def test_undamaged_items_answer_everything() -> None:
    for k, records in enumerate(pool()):
        for item in hostile.form(records, permissive=bool(k % 2), filling=0):
            hostile.battery(item, k, n_ops=30)


def test_damaged_tensors() -> None:
    formed = 0
    for seed in seeds(1):
        rng = random.Random(seed)
        records = hostile.damage(rng, rng.choice(pool()), pool())
        permissive = rng.random() < 0.35
        answers = []
        for filling in FILLINGS:
            try:
                items = hostile.form(records, permissive=permissive, filling=filling)
            except hurray.HurrayError:
                break
            with hostile.quiet_memory(filling):
                answers.append([hostile.battery(item, seed, n_ops=OPS_PER_CASE) for item in items])
        assert answers == answers[::-1], f"seed {seed}: an answer depends on memory around the buffers"
        formed += bool(answers)
    assert CASES < 100 or formed > len(seeds(1)) // 5


def use_file(data: bytes, seed: int, rng: random.Random) -> Iterator[Callable[[], Any]]:
    permissive = rng.random() < 0.35
    yield lambda: str(hurray.verify(data))
    yield lambda: hurray.load_kv(data)
    f = hurray.open(data if rng.random() < 0.5 else io.BytesIO(data), permissive=permissive)
    yield lambda: f.names
    yield lambda: f.all_names
    yield f.info
    yield f.kv_entries
    yield f.check_ranges
    yield lambda: [f.descriptor(name) for name in f.all_names]
    yield lambda: [f.descriptor_bytes(name) for name in f.all_names]
    yield lambda: (len(f), repr(f), "a" in f, f.get("a"))
    yield lambda: [hostile.battery(item, seed, n_ops=3) for item in f.load().values()]
    yield lambda: [hostile.battery(f[name], seed, n_ops=3) for name in f.all_names]
    yield lambda: dict(f.items())
    f.close()
    yield lambda: f["a"]


def test_damaged_files() -> None:
    for seed in seeds(4):
        rng = random.Random(seed)
        records = rng.choice(pool())
        if rng.random() < 0.5:
            records = hostile.damage(rng, records, pool())
        if rng.random() < 0.3:
            records = [*records, *rng.choice(pool())]
        data = hostile.file_of(rng, records, hostile.kv_of(rng) if rng.random() < 0.4 else b"")
        try:
            for step in use_file(data, seed, rng):
                try:
                    step()
                except hurray.HurrayError:
                    continue
        except hurray.HurrayError:
            continue


def parse(data: bytes, seed: int, rng: random.Random) -> None:
    parser = hurray.StreamParser(permissive=rng.random() < 0.5)
    at = 0
    while at < len(data):
        n = rng.choice((1, 7, 64, 4096))
        for item in parser.feed(data[at : at + n]):
            hostile.battery(item, seed, n_ops=3)
        at += n
    parser.eof()


def test_damaged_streams() -> None:
    limits: list[dict[str, Any]] = [{}, {"max_descriptor_bytes": 100}, {"max_buffer_bytes": 64}]
    for seed in seeds(4):
        rng = random.Random(seed)
        records = [r for _ in range(rng.choice((1, 1, 2))) for r in hostile.damage(rng, rng.choice(pool()), pool())]
        data = hostile.stream_of(rng, records)
        for read in (
            lambda data=data, rng=rng: list(hurray.StreamReader(data, **rng.choice(limits))),
            lambda data=data, seed=seed, rng=rng: parse(data, seed, rng),
        ):
            try:
                read()
            except hurray.HurrayError:
                continue


def test_damaged_metadata_and_schemes() -> None:
    payloads = [
        scheme.encode()
        for records in pool()
        for record in records
        if (scheme := hurray.Descriptor.decode(record.descriptor).quantization) is not None
    ]
    for seed in seeds(1):
        rng = random.Random(seed)
        try:
            decode_kv(hostile.kv_of(rng))
        except hurray.HurrayError:
            pass
        try:
            scheme = hurray.decode_quantization(hostile.cut(rng, rng.choice(payloads)))
            assert hurray.decode_quantization(scheme.encode()) == scheme
            assert repr(scheme)
        except hurray.HurrayError:
            pass


def test_damaged_descriptors_decode_to_what_they_encode() -> None:
    others = [records[0].descriptor for records in pool()]
    for seed in seeds(1):
        rng = random.Random(seed)
        data = hostile.damage_descriptor(rng, rng.choice(others), others)
        permissive = rng.random() < 0.5
        try:
            d = hurray.Descriptor.decode(data, permissive=permissive)
        except hurray.HurrayError:
            continue
        again = d.encode()
        assert hurray.Descriptor.decode(again, permissive=permissive) == d
        # Statistics that are not computed read as unknown, whatever their bytes.
        assert d.statistics is not None or again == data[: len(again)]
        assert repr(d)
        hash(d)


def test_damaged_pickles() -> None:
    whole = []
    for records in pool()[::3]:
        item = hostile.form(records, permissive=False, filling=0)[0]
        whole += [(pickle.dumps(item, protocol=p), [r.descriptor for r in records]) for p in (4, 5)]
    for seed in seeds(4):
        rng = random.Random(seed)
        data, descriptors = rng.choice(whole)
        descriptor = rng.choice(descriptors)
        changed = hostile.damage_descriptor(rng, descriptor, descriptors)
        if len(changed) != len(descriptor) or descriptor not in data:
            continue  # a pickle says how long its parts are; what breaks that is for pickle itself to refuse
        try:
            hostile.battery(pickle.loads(data.replace(descriptor, changed)), seed, n_ops=3)
        except hurray.HurrayError:
            continue
