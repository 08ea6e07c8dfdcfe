"""Where tensors may lie in a file: every rule by one wrong number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from file_cases import Entry, build, entry, head
from hurray.container import index
from hurray.container.fold import fold
from hurray.container.ranges import Part, find_overlaps, in_sequence
from hurray.errors import FileError, HurrayError, InvalidDescriptorError

A = np.arange(4.0)
U64 = 2**64 - 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flags": 1}, "flag"),
        ({"flags": 2**31}, "flag"),
        ({"descriptor_offset": 0}, "region"),
        ({"descriptor_offset": 65}, "multiple of 8"),
        ({"descriptor_offset": 4128}, "region"),
        ({"descriptor_offset": U64 - 7}, "region"),
        ({"descriptor_offset": 72}, "magic"),
        ({"descriptor_length": 0}, "20 bytes"),
        ({"descriptor_length": 19}, "20 bytes"),
        ({"descriptor_length": 52}, "53"),
        ({"descriptor_length": 54}, "54"),
        ({"descriptor_length": 2**32 - 1}, "region"),
        ({"data_offset": 4104}, "multiple of 4096"),
        ({"data_offset": 0}, "region"),
        ({"data_offset": 8192}, "region"),
        ({"data_offset": U64 - 4095}, "region"),
        ({"data_length": 31}, "32 bytes"),
        ({"data_length": 0}, "32 bytes"),
        ({"data_length": 33}, "region"),
        ({"data_length": U64}, "region"),
    ],
)
def test_index_entries_that_lie(changes: dict[str, int], words: str) -> None:
    data = build([entry("the one", A, **changes)])
    for use in (hurray.load, lambda d: hurray.open(d)["the one"], lambda d: list(hurray.open(d).items())):
        with pytest.raises(HurrayError, match=words) as caught:
            use(data)
        assert caught.value.tensor == "the one"
        assert "'the one'" in str(caught.value)
    report = hurray.verify(data)
    assert [p.tensor for p in report.problems if p.is_error] == ["the one"]


def test_a_data_length_up_to_the_alignment_is_accepted() -> None:
    after = entry("b", A)
    assert np.array_equal(hurray.load(build([entry("a", A, data_length=4096), after]))["a"].to_numpy(), A)
    with pytest.raises(FileError, match="32 bytes"):
        hurray.load(build([entry("a", A, data_length=4097), after]))


def test_padding_in_front_of_the_region() -> None:
    data = build([entry("a", A)])
    # The only descriptor stands at 64, in front of a region that starts at 128.
    with pytest.raises(FileError, match="region"):
        hurray.load(build([entry("a", A)], header={"first": 128}))
    assert list(hurray.load(data)) == ["a"]


def test_a_buffer_on_its_own_descriptor() -> None:
    e = entry("a", np.zeros(512), descriptor_offset=4096)
    # The descriptor is repeated inside the data, so all that is wrong is that the two share bytes.
    e.buffers = [e.descriptor + bytes(4096 - len(e.descriptor))]
    for use in (hurray.load, lambda d: hurray.open(d)["a"]):
        with pytest.raises(FileError, match="own descriptor"):
            use(build([e]))


def test_two_tensors_on_the_same_bytes() -> None:
    a, b = entry("a", A), entry("b", A, data_offset=4096)
    with pytest.raises(FileError, match="overlap") as caught:
        hurray.load(build([a, b]))
    assert {caught.value.tensor} <= {"a", "b"}
    lazy = hurray.open(build([a, b]))
    assert np.array_equal(lazy["a"].to_numpy(), A)
    with pytest.raises(FileError, match="overlap"):
        lazy.items()
    with pytest.raises(FileError, match="overlap"):
        lazy.values()
    twice = build([a, entry("b", A, descriptor_offset=64)])
    with pytest.raises(FileError, match="overlap"):
        hurray.load(twice)
    assert any(p.rule == "overlap" for p in hurray.verify(build([a, b])).problems)


def test_empty_buffers_share_no_bytes() -> None:
    empty = entry("e", np.zeros((0, 4)))
    data = build([empty, entry("a", A), entry("z", np.zeros(0))])
    loaded = hurray.load(data)
    assert [t.shape for t in loaded.values()] == [(0, 4), (4,), (0,)]
    assert hurray.verify(data).ok


def test_one_large_descriptor_is_not_decoded_for_many_entries() -> None:
    private = hurray.PrivateExtensionLayout(0xF0, 1, bytes(200_000))
    tensor = hurray.Tensor(bytes(8), hurray.float64, [1], layout=private)
    first = entry("0", tensor)
    there = {"descriptor_offset": 64, "descriptor_length": len(first.descriptor)}
    rest = [entry(str(k), np.zeros(0), **there) for k in range(1, 300)]
    data = build([first, *rest])
    for use in (hurray.load, lambda d: hurray.open(d).info()):
        with pytest.raises(FileError, match="overlap"):
            use(data)


def test_limits_are_applied() -> None:
    data = build([entry("a", np.zeros(1000))])
    with pytest.raises(FileError, match="max_descriptor_bytes"):
        hurray.load(data, limits=hurray.Limits(max_descriptor_bytes=52))
    with pytest.raises(FileError, match="max_buffer_bytes"):
        hurray.open(data, limits=hurray.Limits(max_buffer_bytes=7999))["a"]
    assert hurray.load(data, limits=hurray.Limits(max_buffer_bytes=8000, max_descriptor_bytes=53))["a"].shape == (1000,)


def test_a_head_has_no_data() -> None:
    members = [entry("h.0", A), entry("h.1", A)]
    good = [head("h", "group", (), 2), *members]
    assert hurray.load(build(good))["h"].member_count == 2
    lying = [head("h", "group", (), 2, data_length=8), *members]
    for use in (hurray.load, lambda d: hurray.open(d)["h"]):
        with pytest.raises(FileError, match="head has no data"):
            use(build(lying))
    anywhere = [head("h", "group", (), 2, data_offset=2**63), *members]
    assert list(hurray.load(build(anywhere))) == ["h"]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=12))
def test_overlap_against_counting(ranges: list[tuple[int, int]]) -> None:
    owners = [0] * 80
    for start, size in ranges:
        for k in range(start, start + size):
            owners[k] += 1
    found = list(find_overlaps((start, start + size, str(k)) for k, (start, size) in enumerate(ranges)))
    assert bool(found) == (max(owners) > 1)
    for before, after in found:
        assert before[0] <= after[0] < before[1]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12), st.integers(0, 90), st.integers(0, 12)), max_size=5))
def test_what_is_in_sequence_does_not_overlap(numbers: list[tuple[int, int, int, int]]) -> None:
    descriptor = hurray.asarray(A).descriptor
    parts = [
        Part(index.Entry(str(k), k, at, length, start, size, 0), descriptor, [(start, size), (start + 40, size)])
        for k, (at, length, start, size) in enumerate(sorted(numbers))
    ]
    occupied = [extent for part in parts for extent in part.extents()]
    if in_sequence(parts):
        assert list(find_overlaps(occupied)) == []
        assert [e[0] for e in occupied] == sorted(e[0] for e in occupied)
    else:
        starts = [e[0] for e in occupied]
        assert starts != sorted(starts) or list(find_overlaps(occupied)) != []


def tree(draw: Any, depth: int) -> Any:
    if depth == 0 or draw(st.booleans()):
        return None
    return [tree(draw, depth - 1) for _ in range(draw(st.integers(0, 3)))]


@st.composite
def forests(draw: st.DrawFn) -> list[Any]:
    return [tree(draw, 4) for _ in range(draw(st.integers(0, 4)))]


@given(forests(), st.randoms(use_true_random=False))
def test_fold_against_a_recursive_walk(forest: list[Any], random: Any) -> None:
    counts: list[int | None] = []
    spans: list[tuple[int, int]] = []
    inside: set[int] = set()

    def walk(node: Any, nested: bool) -> None:
        here = len(counts)
        counts.append(None if node is None else len(node))
        if nested:
            inside.add(here)
        for child in node or ():
            walk(child, True)
        spans.append((here, len(counts)))

    for node in forest:
        walk(node, False)
    order = list(range(len(counts)))
    random.shuffle(order)
    heads = {order[k]: n for k, n in enumerate(counts) if n is not None}
    folding = fold(order, heads, 8)
    assert folding.members == {order[k] for k in inside}
    assert folding.spans == {order[a]: (a, b) for a, b in spans if counts[a] is not None}


def test_fold_is_bounded() -> None:
    with pytest.raises(FileError, match="torn"):
        fold([0, 1], {0: 2**32 - 2}, 8)
    with pytest.raises(InvalidDescriptorError, match="deep"):
        fold(list(range(5000)), dict.fromkeys(range(5000), 1), 8)
    assert fold([], {}, 8).spans == {}
    eight = fold(list(range(9)), dict.fromkeys(range(8), 1), 8)
    assert eight.spans[0] == (0, 9)


def test_members_follow_their_head_in_descriptor_order() -> None:
    entries = [head("h", "group", (), 2), entry("h.0", A), entry("h.1", A + 1), entry("x", A + 2)]
    data = build(entries, order=[3, 2, 0, 1])
    loaded = hurray.load(data)
    assert list(loaded) == ["x", "h"]
    assert [m.to_numpy()[0] for m in loaded["h"].members] == [0.0, 1.0]
    with hurray.open(data) as file:
        assert list(file) == ["x", "h"]
        assert [m.to_numpy()[0] for m in file["h"].members] == [0.0, 1.0]
        assert file["h.1"].to_numpy()[0] == 1.0


@pytest.mark.parametrize("count", [3, 2**32 - 2])
def test_torn_composites(count: int) -> None:
    data = build([head("h", "group", (), count), entry("h.0", A), entry("h.1", A)])
    for use in (hurray.load, list, len, lambda f: f["h"]):
        with pytest.raises(FileError, match="torn"):
            use(data if use is hurray.load else hurray.open(data))
    assert hurray.open(data)["h.1"].shape == (4,)
    assert any("torn" in p.message for p in hurray.verify(data).problems)


def test_permissive_hands_over_the_members_of_a_broken_composite() -> None:
    data = build([entry("x", A), head("h", "partition", (4,), 2), entry("h.0", A), entry("h.1", A)])
    with pytest.raises(InvalidDescriptorError):
        hurray.load(data)
    assert list(hurray.load(data, permissive=True)) == ["x", "h.0", "h.1"]
    with hurray.open(data, permissive=True) as file:
        assert list(file) == ["x", "h.0", "h.1"]
        assert len(file) == 3
        assert file["h.1"].shape == (4,)
        with pytest.raises(FileError, match="members"):
            file["h"]


def test_entry_helper_lays_out_like_the_writer() -> None:
    tensors = {"a": A, "b": np.zeros((0, 3)), "c": np.arange(5, dtype=np.int8)}
    import io

    target = io.BytesIO()
    with hurray.Writer(target, tensor_count_hint=3) as writer:
        for name, array in tensors.items():
            writer.add(name, array)
    assert target.getvalue() == build([entry(n, a) for n, a in tensors.items()], header={"hint": 3})
    assert isinstance(entry("a", A), Entry)
