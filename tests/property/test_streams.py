"""Streams in any split, cut anywhere, with any bit flipped."""

from __future__ import annotations

import io
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hurray


def stream(items: Any) -> bytes:
    with hurray.StreamWriter() as w:
        for item in items:
            w.write(item)
    return w.getvalue()


def _sample() -> list[Any]:
    """Return a small stream that has a bit of everything."""
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    matrix[0] = 0
    t = hurray.from_numpy(matrix)
    codes = hurray.from_numpy(np.arange(8, dtype=np.int8).reshape(2, 4))
    quantized = hurray.Tensor(
        codes._buffers[0], hurray.int8, [2, 4], aux_buffers=[np.ones(2, np.float32)],
        quantization=hurray.PerChannelAffine.symmetric(0, 1),
    )  # fmt: skip
    base = t._replace(shard=hurray.Shard((3, 4), (0, 0)))
    overlay = hurray.Composite(
        "overlay", shape=(3, 4), dtype=hurray.float32, combine_op="add",
        members=[base, base.to_layout("coo")],
    )  # fmt: skip
    part = hurray.assemble(hurray.shard(t, (1, 2)))
    group = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[part, hurray.zeros([0]), overlay])
    stats = t._replace(statistics=hurray.Statistics(nnz=8, has_nan=False, has_inf=False))
    return [t, t.to_layout("csr"), hurray.zeros([0, 3]), quantized, group, stats, hurray.ones([], dtype=hurray.bool)]


ITEMS = _sample()
DATA = stream(ITEMS)
#: offsets at which a stream may end
ENDS = {0}
for _n in range(len(ITEMS)):
    ENDS.add(len(stream(ITEMS[: _n + 1])))


def touch(item: Any) -> None:
    """Use an item in every way that reads it; errors of ours are right answers."""
    if isinstance(item, hurray.Composite):
        for member in item.members:
            touch(member)
    else:
        str(item)
    for use in (item.validate, item.to_numpy):
        try:
            use()
        except hurray.HurrayError:
            pass


@given(st.lists(st.integers(0, len(DATA)), max_size=40))
def test_any_split_gives_the_same_tensors(cuts: list[int]) -> None:
    parser = hurray.StreamParser()
    ends = [0, *sorted(cuts), len(DATA)]
    items = [item for low, high in pairwise(ends) for item in parser.feed(DATA[low:high])]
    assert parser.eof() == []
    assert stream(items) == DATA


def test_byte_by_byte() -> None:
    parser = hurray.StreamParser()
    items: list[Any] = []
    for at in range(len(DATA)):
        done = parser.feed(DATA[at : at + 1])
        assert bool(done) == (at + 1 in ENDS)
        items += done
    assert stream(items) == DATA


class _Chopped(io.RawIOBase):
    def __init__(self, data: bytes, seed: int) -> None:
        self.inner = io.BytesIO(data)
        self.random = random.Random(seed)

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        return self.inner.readinto(memoryview(room)[: self.random.randint(1, 100)])


@pytest.mark.parametrize("seed", range(5))
def test_any_split_by_the_transport(seed: int) -> None:
    assert stream(hurray.StreamReader(_Chopped(DATA, seed))) == DATA


def test_truncation_at_every_byte() -> None:
    for cut in range(len(DATA)):
        reader = hurray.StreamReader(DATA[:cut])
        got: list[Any] = []
        if cut in ENDS:
            got = list(reader)
        else:
            with pytest.raises(hurray.StreamError):
                for item in reader:
                    got.append(item)
        # Whatever was complete before the cut is handed over unharmed.
        whole = max(end for end in ENDS if end <= cut)
        assert stream(got) == DATA[:whole]


def _read(data: bytes, **options: Any) -> list[Any]:
    items: list[Any] = []
    try:
        for item in hurray.StreamReader(data, **options):
            items.append(item)
    except hurray.HurrayError:
        pass
    return items


@pytest.mark.parametrize("k", range(len(ITEMS)))
def test_single_bits_flipped(k: int) -> None:
    # Each byte once, with a bit that moves along, so that neighbours differ; a sound tensor follows.
    sound = stream([ITEMS[k], ITEMS[2]])
    for at in range(len(sound)):
        data = bytearray(sound)
        data[at] ^= 1 << (at * 5 + k) % 8
        for item in _read(bytes(data), permissive=bool(at % 2), max_buffer_bytes=1 << 20):
            touch(item)


@settings(max_examples=100)
@given(st.data())
def test_random_damage(data: st.DataObject) -> None:
    damaged = bytearray(DATA)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        kind = data.draw(st.integers(0, 2))
        if kind == 0:
            damaged[at] = data.draw(st.integers(0, 255))
        elif kind == 1:
            del damaged[at : at + data.draw(st.integers(1, 20))]
        else:
            damaged[at:at] = data.draw(st.binary(max_size=20))
        if not damaged:
            break
    for permissive in (False, True):
        for item in _read(bytes(damaged), permissive=permissive, max_buffer_bytes=1 << 20):
            touch(item)


@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_behind_a_head(tail: bytes, permissive: bool) -> None:
    head = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[hurray.zeros([1])])
    raw = head.descriptor.encode()
    for item in _read(raw + tail, permissive=permissive) + _read(raw[:10] + tail, permissive=permissive):
        touch(item)


@st.composite
def trees(draw: st.DrawFn, depth: int = 1) -> Any:
    if depth < 4 and draw(st.integers(0, 2)) == 0:
        members = draw(st.lists(trees(depth=depth + 1), max_size=3))
        return hurray.Composite("group", shape=(len(members),), dtype=hurray.int8, members=members)
    shape: tuple[int, ...] = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(-2, 3, shape)
    t = hurray.from_numpy(values.astype(draw(st.sampled_from(["i1", "<f4", ">f8", "<c8", "?"]))))
    sparse = bool(shape) and draw(st.booleans())
    return t.to_layout("coo") if sparse else t


@given(st.lists(trees(), max_size=5))
def test_round_trip_of_generated_streams(items: list[Any]) -> None:
    data = stream(items)
    got = list(hurray.StreamReader(data))
    assert stream(got) == data
    assert len(got) == len(items)

    def compare(a: Any, b: Any) -> None:
        assert type(a) is type(b)
        assert a.shape == b.shape
        if isinstance(a, hurray.Composite):
            for x, y in zip(a.members, b.members, strict=True):
                compare(x, y)
        else:
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())

    for a, b in zip(got, items, strict=True):
        compare(a, b)
