"""Rules of composites, in streams and files put together by hand."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import hurray
import rawbytes as raw
from hurray.descriptor.codec import decode_descriptor

U8, F32, F16 = 0x11, 0x03, 0x01
PARTITION, OVERLAY, GROUP = 1, 2, 3
REPLACE, ADD = 1, 2

Parts = list[raw.Put]


def part(
    data: bytes, shape: Sequence[int], at: Sequence[int] | None = None, parent: Sequence[int] = (4,), **about: Any
) -> raw.Put:
    """Return a uint8 member of one row-major buffer."""
    section = None if at is None else raw.shard(parent, at)
    return raw.Put(
        "",
        raw.descriptor(**{"type_tag": U8, "shape": shape, "buffers": [len(data)], "shard": section, **about}),
        (data,),
    )


def head(rule: int, count: int, *, op: int = 0, shape: Sequence[int] = (4,), **about: Any) -> raw.Put:
    return raw.Put("", raw.head(rule, count, op=op, shape=shape, **{"type_tag": U8, **about}))


def as_stream(parts: Parts) -> list[Any]:
    data = b"".join(p.descriptor + b"".join(p.buffers) for p in parts)
    return list(hurray.StreamReader(data))


def as_file(parts: Parts) -> list[Any]:
    # Members have names of no meaning here: they belong to the head by the order of their descriptors.
    named = [p._replace(name=f"t{k}") for k, p in enumerate(parts)]
    return list(hurray.load(raw.file(named, order=list(range(len(parts)))[::-1])).values())


def carried(parts: Parts) -> list[Any]:
    data = b"".join(p.descriptor + b"".join(p.buffers) for p in parts)
    stream = list(hurray.StreamReader(data, permissive=True))
    named = [p._replace(name=f"t{k}") for k, p in enumerate(parts)]
    file = hurray.load(raw.file(named), permissive=True)
    assert [x.descriptor for x in file.values()] == [x.descriptor for x in stream]
    with hurray.open(raw.file(named), permissive=True) as lazy:
        assert list(lazy) == list(file)
        assert [x.descriptor for x in lazy.values()] == [x.descriptor for x in stream]
    return stream


READERS = pytest.mark.parametrize("read", [as_stream, as_file])


def refused(match: str, parts: Parts) -> None:
    """Assert that both readers refuse parts, and that permissive ones hand over tensors only."""
    for read in (as_stream, as_file):
        with pytest.raises(hurray.HurrayError, match=match):
            read(parts)
    assert not hurray.verify(raw.file([p._replace(name=f"t{k}") for k, p in enumerate(parts)])).ok
    tensors = [p.descriptor for p in parts if p.buffers]
    # A composite inside that keeps the rules is a member like any other.
    got = [t for x in carried(parts) for t in (x.members if isinstance(x, hurray.Composite) else (x,))]
    assert [t.descriptor.encode() for t in got] == tensors


# Heads


@pytest.mark.parametrize("rule", [0x00, 0x04, 0x7F, 0xEF, 0xFF])
@pytest.mark.parametrize("permissive", [False, True])
def test_rules_that_nobody_may_take(rule: int, permissive: bool) -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match=f"composition rule 0x{rule:02x}"):
        decode_descriptor(raw.head(rule, 0), permissive=permissive)


@pytest.mark.parametrize(("rule", "legal"), [(PARTITION, [0]), (OVERLAY, [1, 2]), (GROUP, [0])])
def test_operations(rule: int, legal: list[int]) -> None:
    for op in (0, 1, 2, 3, 0x80, 0xF0, 0xFF):
        data = raw.head(rule, 1, op=op, shape=(4,))
        if op in legal:
            assert decode_descriptor(data).encode() == data
        else:
            with pytest.raises(hurray.InvalidDescriptorError, match=f"combine_op 0x{op:02x}"):
                decode_descriptor(data)


def test_other_fields_of_a_head() -> None:
    for match, data in [
        ("reserved", raw.head(GROUP, 0, reserved=b"\0\1")),
        ("0xFFFFFFFF", raw.head(GROUP, 2**32 - 1)),
        ("member_count is 0", raw.head(OVERLAY, 0, op=1)),
        (
            "never quantized",
            raw.descriptor(
                layout=0x0B, fields=raw.u8s(3, 0, 0, 0) + raw.u32s(0), type_tag=0x10, quantization=raw.per_tensor()
            ),
        ),
        (
            "no composite member section",
            raw.descriptor(layout=0x0B, fields=raw.u8s(3, 0, 0, 0) + raw.u32s(0), member=raw.member(1)),
        ),
        ("owns no buffers", raw.descriptor(layout=0x0B, fields=raw.u8s(3, 0, 0, 0) + raw.u32s(0), buffers=[0])),
        ("byte_offset 0", raw.descriptor(layout=0x0B, fields=raw.u8s(3, 0, 0, 0) + raw.u32s(0), byte_offset=8)),
    ]:
        for permissive in (False, True):
            with pytest.raises(hurray.InvalidDescriptorError, match=match):
                decode_descriptor(data, permissive=permissive)


# Private rules


@pytest.mark.parametrize("rule", [0xF0, 0xF7, 0xFE])
def test_members_under_a_private_rule_are_handed_over(rule: int) -> None:
    parts = [head(rule, 2, op=9), part(b"abcd", (4,), member=raw.member(0)), part(b"xy", (2,))]
    behind = [part(b"z", (1,)), head(GROUP, 1), part(b"q", (1,))]
    for read in (as_stream, as_file):
        with pytest.raises(hurray.InvalidDescriptorError, match=f"composition rule 0x{rule:02x} is private"):
            read(parts)
    got = carried(parts + behind)
    assert [x.to_numpy().tobytes() for x in got[:3]] == [b"abcd", b"xy", b"z"]
    assert isinstance(got[3], hurray.Composite)
    d = decode_descriptor(parts[0].descriptor, permissive=True)
    assert d.encode() == parts[0].descriptor
    assert isinstance(d.layout, hurray.CompositeLayout)
    assert (d.layout.composition_rule, d.layout.member_count) == ("private", 2)


def test_a_private_rule_inside_and_around() -> None:
    parts = [head(GROUP, 3), part(b"a", (1,)), head(0xF1, 1), part(b"b", (1,)), part(b"c", (1,)), part(b"d", (1,))]
    assert [x.to_numpy().tobytes() for x in carried(parts)] == [b"a", b"b", b"c", b"d"]
    parts = [head(0xF1, 2), head(GROUP, 1), part(b"a", (1,)), head(0xF2, 0), part(b"b", (1,))]
    assert [x.to_numpy().tobytes() for x in carried(parts)] == [b"a", b"b"]
    # Depth and the other bounds hold all the same.
    deep = [head(0xF0, 1)] * 9
    with pytest.raises(hurray.HurrayError, match="8 heads|deeper"):
        list(hurray.StreamReader(b"".join(p.descriptor for p in deep), permissive=True))
    for broken in (raw.head(0xF0, 2**32 - 1), raw.head(0xF0, 0, reserved=b"\1\0")):
        with pytest.raises(hurray.InvalidDescriptorError):
            decode_descriptor(broken, permissive=True)


# Partitions


@READERS
def test_a_partition(read: Callable[[Parts], list[Any]]) -> None:
    [c] = read(
        [
            head(PARTITION, 3, shape=(2, 3)),
            part(b"\1\2", (2, 1), (0, 1), (2, 3)),
            part(b"\3\4", (2, 1), (0, 0), (2, 3)),
            part(b"\5\6", (2, 1), (0, 2), (2, 3)),
        ]
    )
    assert c.to_numpy().tolist() == [[3, 1, 5], [4, 2, 6]]


def test_partitions_that_do_not_tile() -> None:
    a, b = part(b"ab", (2,), (0,)), part(b"cd", (2,), (2,))
    refused("gap", [head(PARTITION, 1), a])
    refused("overlap", [head(PARTITION, 3), a, b, part(b"x", (1,), (3,))])
    refused("member 0 and member 1 overlap", [head(PARTITION, 2), a, a])
    refused("overlap", [head(PARTITION, 2), part(b"abc", (3,), (0,)), part(b"abc", (3,), (1,))])
    refused("parent_shape", [head(PARTITION, 2), a, part(b"cd", (2,), (2,), (5,))])
    refused("parent_shape", [head(PARTITION, 2), a, part(b"cd", (2, 1), (2, 0), (4, 1))])
    refused("no shard section", [head(PARTITION, 2), a, part(b"cd", (2,))])
    refused(
        "no composite member section|carries no", [head(PARTITION, 2), a, part(b"cd", (2,), (2,), member=raw.member(1))]
    )
    refused("decoded type int8", [head(PARTITION, 2), a, part(b"cd", (2,), (2,), type_tag=0x10)])


@READERS
def test_empty_boxes_and_empty_partitions(read: Callable[[Parts], list[Any]]) -> None:
    nothing = part(b"", (0,), (3,))
    [c] = read([head(PARTITION, 3), nothing, part(b"abcd", (4,), (0,)), nothing])
    assert c.to_numpy().tobytes() == b"abcd"
    [c] = read([head(PARTITION, 0, shape=(0, 4))])
    assert c.to_numpy().shape == (0, 4)
    with pytest.raises(hurray.HurrayError, match="gap"):
        read([head(PARTITION, 0)])
    with pytest.raises(hurray.HurrayError, match="gap"):
        read([head(PARTITION, 0, shape=())])
    [c] = read([head(PARTITION, 1, shape=()), part(b"a", (), (), ())])
    assert c.to_numpy()[()] == 97


@READERS
def test_thousands_of_members(read: Callable[[Parts], list[Any]]) -> None:
    n = 3000
    [c] = read([head(PARTITION, n, shape=(n,)), *(part(bytes([k % 251]), (1,), (k,), (n,)) for k in range(n))])
    assert c.to_numpy().tolist() == [k % 251 for k in range(n)]


@READERS
def test_quantized_members_decode_to_a_floating_head(read: Callable[[Parts], list[Any]]) -> None:
    quantized = part(b"\x02\x04", (2,), (2,), type_tag=0x10, quantization=raw.per_tensor(0.5, 0))
    for tag, name in ((F32, "<f4"), (F16, "<f2"), (0x04, "<f8")):
        plain = part(np.array([7, 8], name).tobytes(), (2,), (0,), type_tag=tag)
        [c] = read([head(PARTITION, 2, type_tag=tag), plain, quantized])
        assert c.to_numpy().dtype == np.dtype(name)
        assert c.to_numpy().tolist() == [7, 8, 1, 2]


def test_quantized_members_under_other_heads() -> None:
    for tag in (0x10, 0x14, 0x50):
        refused(
            "quantized and decodes to a float",
            [
                head(PARTITION, 1, type_tag=tag),
                part(bytes(4), (4,), (0,), type_tag=0x10, quantization=raw.per_tensor()),
            ],
        )


@READERS
def test_nested_partitions(read: Callable[[Parts], list[Any]]) -> None:
    [c] = read(
        [
            head(PARTITION, 2),
            head(PARTITION, 2, shape=(3,), shard=raw.shard((4,), (1,))),
            part(b"b", (1,), (0,), (3,)),
            part(b"cd", (2,), (1,), (3,)),
            part(b"a", (1,), (0,)),
        ]
    )
    assert c.to_numpy().tobytes() == b"abcd"
    assert isinstance(c.members[0], hurray.Composite)


def test_a_nested_head_needs_a_shard_section() -> None:
    refused("no shard section", [head(PARTITION, 1), head(PARTITION, 1), part(b"abcd", (4,), (0,))])


# Overlays


def layer(data: bytes, shape: Sequence[int], at: Sequence[int], role: int, **about: Any) -> raw.Put:
    return part(data, shape, at, member=raw.member(role), **about)


def sparse(values: bytes, places: Sequence[int], role: int = 0) -> raw.Put:
    index = raw.u64s(*places)
    return raw.Put(
        "",
        raw.descriptor(
            type_tag=U8,
            layout=0x06,
            fields=raw.u64s(len(values), 1),
            shape=(4,),
            buffers=[len(values), len(index)],
            shard=raw.shard((4,), (0,)),
            member=raw.member(role),
        ),
        (values, index),
    )


@READERS
def test_replacing(read: Callable[[Parts], list[Any]]) -> None:
    base = layer(b"\1\2\3\4", (4,), (0,), 1)
    # A dense correction covers its whole box, zeros included; of corrections that overlap the later wins.
    [c] = read([head(OVERLAY, 3, op=REPLACE), base, layer(b"\0\x09", (2,), (1,), 0), layer(b"\x07", (1,), (2,), 0)])
    assert c.to_numpy().tolist() == [1, 0, 7, 4]
    # A sparse one covers what it stores, explicit zeros included.
    [c] = read([head(OVERLAY, 2, op=REPLACE), base, sparse(b"\x09\0", [0, 3])])
    assert c.to_numpy().tolist() == [9, 2, 3, 0]
    assert [c[k] for k in range(4)] == [9, 2, 3, 0]
    assert c.member_roles == ("base", "correction")


@READERS
def test_adding(read: Callable[[Parts], list[Any]]) -> None:
    base = layer(b"\1\2\3\xff", (4,), (0,), 1)
    [c] = read(
        [
            head(OVERLAY, 4, op=ADD),
            base,
            layer(b"\x0a\x0b", (2,), (1,), 0),
            sparse(b"\x64\2", [0, 3]),
            layer(b"\x01", (1,), (2,), 0),
        ]
    )
    # In the head's dtype, so uint8 wraps.
    assert c.to_numpy().tolist() == [101, 12, 15, 1]
    assert [int(c[k]) for k in range(4)] == [101, 12, 15, 1]


def test_overlays_that_are_refused() -> None:
    base = layer(b"\1\2\3\4", (4,), (0,), 1)
    over = layer(b"\x09", (1,), (1,), 0)
    refused("role 'base', but has 'correction'", [head(OVERLAY, 2, op=ADD), layer(bytes(4), (4,), (0,), 0), over])
    refused("role 'correction', but has 'base'", [head(OVERLAY, 2, op=ADD), base, base])
    refused("has none", [head(OVERLAY, 2, op=ADD), base, part(b"x", (1,), (1,))])
    refused("has none", [head(OVERLAY, 1, op=ADD), part(bytes(4), (4,), (0,))])
    refused("spans the whole head", [head(OVERLAY, 1, op=ADD), layer(bytes(3), (3,), (0,), 1)])
    refused(
        "no shard section",
        [
            head(OVERLAY, 2, op=ADD),
            base,
            part(b"x", (1,), None, member=raw.member(0)),
        ],
    )
    refused("parent_shape", [head(OVERLAY, 2, op=ADD), base, layer(b"x", (1,), (1,), 0, parent=(5,))])
    refused("decoded type int8", [head(OVERLAY, 2, op=ADD), base, layer(b"x", (1,), (1,), 0, type_tag=0x10)])
    refused(
        "it is a composite",
        [
            head(OVERLAY, 2, op=ADD),
            base,
            head(PARTITION, 1, shard=raw.shard((4,), (0,))),
            part(b"abcd", (4,), (0,)),
        ],
    )


# Groups


@READERS
def test_groups(read: Callable[[Parts], list[Any]]) -> None:
    [c] = read(
        [
            head(GROUP, 4, shape=(), type_tag=0x04),
            part(b"ab", (2,)),
            part(b"x", (1, 1), (5, 5), (9, 9)),
            part(bytes(16), (2,), type_tag=0x50),
            head(GROUP, 0, shape=(7, 7)),
        ]
    )
    assert [m.shape for m in c.members] == [(2,), (1, 1), (2,), (7, 7)]
    assert (c.shape, c.dtype) == ((), hurray.float64)
    with pytest.raises(hurray.UnsupportedError, match="group"):
        c.to_numpy()
    [c] = read([head(GROUP, 0)])
    assert c.members == ()


def test_members_of_a_group_carry_no_member_section() -> None:
    refused("carries no composite member section", [head(GROUP, 1), part(b"x", (1,), member=raw.member(1))])


# Nesting and ends


@pytest.mark.parametrize("rule", [GROUP, PARTITION])
def test_eight_heads_on_a_path(rule: int) -> None:
    def nested(depth: int) -> Parts:
        section = raw.shard((4,), (0,)) if rule == PARTITION else None
        heads = [head(rule, 1, shard=section if k else None) for k in range(depth)]
        return [*heads, part(b"abcd", (4,), (0,) if rule == PARTITION else None)]

    for read in (as_stream, as_file):
        [c] = read(nested(8))
        depth = 0
        while isinstance(c, hurray.Composite):
            c, depth = c.members[0], depth + 1
        assert depth == 8
        with pytest.raises(hurray.HurrayError, match="8"):
            read(nested(9))
    with pytest.raises(hurray.HurrayError, match="8"):
        list(hurray.StreamReader(b"".join(p.descriptor for p in nested(9)), permissive=True))


@pytest.mark.parametrize("count", [2, 2**16, 2**32 - 2])
def test_torn_composites(count: int) -> None:
    parts = [part(b"z", (1,)), head(GROUP, count), part(b"a", (1,)), head(GROUP, 2), part(b"b", (1,))]
    with pytest.raises(hurray.StreamError, match="torn composite"):
        as_stream(parts)
    with pytest.raises(hurray.FileError, match="torn composite"):
        as_file(parts)
    assert [x.to_numpy().tobytes() for x in carried(parts)] == [b"z", b"a", b"b"]


def test_the_order_of_members_is_that_of_descriptors() -> None:
    parts = [head(PARTITION, 4), *(part(bytes([97 + k]), (1,), (k,)) for k in range(4))]
    named = [p._replace(name=f"n{k}") for k, p in enumerate(parts)]
    for order in itertools.permutations(range(5)):
        loaded = hurray.load(raw.file(named, order=order))
        assert list(loaded) == ["n0"]
        assert loaded["n0"].to_numpy().tobytes() == b"abcd"
        assert [m.to_numpy().tobytes() for m in loaded["n0"].members] == [b"a", b"b", b"c", b"d"]
        # A member can be had by its own name.
        assert hurray.open(raw.file(named, order=order))["n3"].to_numpy().tobytes() == b"c"


def test_names_of_members_that_writers_give() -> None:
    inner = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[hurray.zeros([1])])
    outer = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[hurray.ones([2]), inner])
    target = io.BytesIO()
    hurray.save(target, {"m": outer})
    with hurray.open(target) as file:
        assert file.all_names == ["m", "m.0", "m.1", "m.1.0"]
        assert list(file) == ["m"]
        assert file["m.1.0"].shape == (1,)
    for names in (["m", "m.1"], ["m.1.0", "m"]):
        with pytest.raises(hurray.FileError, match="already in the file"):
            hurray.save(io.BytesIO(), {n: outer if n == "m" else hurray.zeros([1]) for n in names})
