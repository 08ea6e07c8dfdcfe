"""Composites put together from tensors in pre-order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hurray
from hurray.descriptor.model import Descriptor
from hurray.tensor.assembly import Assembler
from hurray.tensor.plan import plan_item


def wire(item: Any, name: str = "x") -> list[tuple[str, Descriptor, hurray.Tensor | None]]:
    """Return what a reader has in hand for each tensor of an item."""
    found = []
    for at, plan in plan_item(name, item):
        d = Descriptor.decode(plan.descriptor)
        found.append((at, d, None if d.is_head else hurray.Tensor._from_parts(d, plan.buffers)))
    return found


def push_all(a: Assembler, parts: list[tuple[str, Descriptor, hurray.Tensor | None]]) -> list[tuple[str | None, Any]]:
    done = []
    for name, d, t in parts:
        done += a.push(d, t, name)
    return done


def ones(n: int = 1) -> hurray.Tensor:
    return hurray.ones([n])


def group(*members: Any) -> hurray.Composite:
    return hurray.Composite("group", shape=(1,), dtype=hurray.int8, members=members)


def head(rule: str, count: int, shape: tuple[int, ...] = (4,), op: str | None = None) -> Descriptor:
    return Descriptor(
        dtype=hurray.float64, shape=shape, layout=hurray.CompositeLayout(rule, count, op), buffer_handles=()
    )


def test_plain_tensors_pass() -> None:
    a = Assembler()
    t = ones()
    assert a.push(t.descriptor, t, "a") == [("a", t)]
    assert not a.is_open
    assert a.finish() == []


def test_nested_composites_close_together() -> None:
    item = group(ones(), group(ones(2), group(), ones(3)), group(group(ones(4))))
    a = Assembler()
    parts = wire(item)
    assert [name for name, _, _ in parts] == [
        "x", "x.0", "x.1", "x.1.0", "x.1.1", "x.1.2", "x.2", "x.2.0", "x.2.0.0",
    ]  # fmt: skip
    assert push_all(a, parts[:-1]) == []
    assert a.is_open
    assert a.depth == 3
    [(name, got)] = push_all(a, parts[-1:])
    assert name == "x"
    assert not a.is_open
    assert [p.descriptor for _, p in plan_item("x", got)] == [p.descriptor for _, p in plan_item("x", item)]


def test_depth_is_bounded() -> None:
    a = Assembler()
    for _ in range(8):
        a.push(head("group", 1), None)
    with pytest.raises(hurray.InvalidDescriptorError, match="8 heads"):
        a.push(head("group", 1), None)
    a = Assembler(hurray.Limits(max_composite_depth=1))
    a.push(head("group", 1), None)
    with pytest.raises(hurray.InvalidDescriptorError, match="1 heads"):
        a.push(head("group", 0), None)


def test_a_member_count_is_not_trusted() -> None:
    a = Assembler()
    a.push(head("group", 2**32 - 2), None, "h")
    t = ones()
    a.push(t.descriptor, t, "h.0")
    with pytest.raises(hurray.InvalidDescriptorError, match="'h' announces 4294967294 members, but only 1 came"):
        a.finish()


def test_faults_name_the_tensor() -> None:
    a = Assembler()
    a.push(head("partition", 2), None, "p")
    t = ones(2)
    with pytest.raises(hurray.InvalidDescriptorError, match="'p.0'.*member 0: it has no shard section") as caught:
        a.push(t.descriptor, t, "p.0")
    assert caught.value.tensor == "p.0"


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (("correction", "correction"), "member 0: it needs .* role 'base', but has 'correction'"),
        (("base", "base"), "member 1: it needs .* role 'correction', but has 'base'"),
        (("base", None), "member 1: it needs .* role 'correction', but has none"),
        ((None, "correction"), "member 0: it needs .* role 'base', but has none"),
    ],
)
def test_roles_come_from_bytes(roles: tuple[str | None, ...], message: str) -> None:
    a = Assembler()
    a.push(head("overlay", 2, op="add"), None)
    member = ones(4)._replace(shard=hurray.Shard((4,), (0,)))
    with pytest.raises(hurray.InvalidDescriptorError, match=message):
        for role in roles:
            t = member._replace(member_role=role)
            a.push(t.descriptor, t)


@pytest.mark.parametrize("rule", ["partition", "group"])
def test_roles_belong_to_overlays(rule: str) -> None:
    a = Assembler()
    a.push(head(rule, 1), None)
    t = ones(4)._replace(shard=hurray.Shard((4,), (0,)), member_role="base")
    with pytest.raises(hurray.InvalidDescriptorError, match="carries no composite member section"):
        a.push(t.descriptor, t)


def test_a_head_in_an_overlay_is_refused() -> None:
    a = Assembler()
    a.push(head("overlay", 1, op="add"), None)
    inner = head("group", 0).with_changes(shard=hurray.Shard((4,), (0,)))
    with pytest.raises(hurray.InvalidDescriptorError, match="it is a composite"):
        a.push(inner, None)


def test_cover_is_checked_when_the_last_member_is_in() -> None:
    shards = hurray.shard(np.arange(6.0), (3,))
    a = Assembler()
    a.push(head("partition", 3, (6,)), None, "p")
    assert a.push(shards[0].descriptor, shards[0]) == []
    assert a.push(shards[2].descriptor, shards[2]) == []
    with pytest.raises(hurray.InvalidDescriptorError, match=r"member 0 and member 2 overlap at index \(0,\)"):
        a.push(shards[0].descriptor, shards[0])


def test_dynamic_heads_of_partitions_are_refused() -> None:
    a = Assembler()
    with pytest.raises(hurray.InvalidDescriptorError, match="dynamic"):
        a.push(head("partition", 0, (None,)), None)  # type: ignore[arg-type]


# Permissive


def names(done: list[tuple[str | None, Any]]) -> list[str | None]:
    return [name for name, _ in done]


def test_permissive_keeps_composites_that_hold() -> None:
    item = group(ones(), hurray.assemble(hurray.shard(np.arange(4.0), (2,))))
    a = Assembler(permissive=True)
    [(_, got)] = push_all(a, wire(item))
    assert isinstance(got, hurray.Composite)
    assert a.finish() == []


def test_permissive_hands_over_the_members_of_a_bad_composite_in_order() -> None:
    a = Assembler(permissive=True)
    t = ones(2)
    assert a.push(head("group", 3), None, "g") == []
    assert a.push(t.descriptor, t, "g.0") == []
    assert a.push(head("partition", 2), None, "g.1") == []
    good = t._replace(shard=hurray.Shard((4,), (0,)))
    assert a.push(good.descriptor, good, "g.1.0") == []
    assert names(a.push(t.descriptor, t, "g.1.1")) == ["g.0", "g.1.0", "g.1.1"]
    assert a.is_open
    assert names(a.push(t.descriptor, t, "g.2")) == ["g.2"]
    assert not a.is_open
    assert names(a.push(t.descriptor, t, "h")) == ["h"]
    # What follows is looked at afresh.
    assert isinstance(push_all(a, wire(group(t)))[0][1], hurray.Composite)


def test_permissive_hands_over_members_that_leave_a_gap() -> None:
    shards = hurray.shard(np.arange(6.0), (3,))
    a = Assembler(permissive=True)
    a.push(head("partition", 2, (6,)), None, "p")
    a.push(shards[0].descriptor, shards[0], "p.0")
    assert names(a.push(shards[2].descriptor, shards[2], "p.1")) == ["p.0", "p.1"]
    assert not a.is_open


def test_permissive_hands_over_a_torn_composite_at_the_end() -> None:
    a = Assembler(permissive=True)
    a.push(head("group", 5), None, "g")
    t = ones()
    a.push(t.descriptor, t, "g.0")
    a.push(head("group", 2), None, "g.1")
    a.push(t.descriptor, t, "g.1.0")
    assert names(a.finish()) == ["g.0", "g.1.0"]
    assert not a.is_open
    assert a.finish() == []
