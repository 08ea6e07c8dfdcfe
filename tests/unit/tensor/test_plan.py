"""What writers write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hurray
from hurray.descriptor.model import BufferHandle, Descriptor
from hurray.tensor.plan import Plan, plan_item, plan_tensor


def test_plain_tensor() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    t = hurray.from_numpy(a)
    plan = plan_tensor(t)
    assert plan.descriptor == t.descriptor.encode()
    assert plan.buffers[0].tobytes() == a.tobytes()
    assert np.shares_memory(plan.buffers[0], a)
    assert plan.n_bytes == len(plan.descriptor) + 48


def test_standard_alignments_of_tensors_made_here() -> None:
    d = Descriptor.decode(plan_tensor(hurray.zeros([3])).descriptor)
    assert d.buffer_handles[0].alignment == 64
    d = Descriptor.decode(plan_tensor(hurray.zeros([0])).descriptor)
    assert d.buffer_handles[0].alignment == 1
    cuda = hurray.Tensor(bytes(8), hurray.int8, [8], hurray.device.cuda)
    assert Descriptor.decode(plan_tensor(cuda).descriptor).buffer_handles[0].alignment == 4096


def test_handles_that_were_read_are_kept() -> None:
    d = hurray.zeros([3]).descriptor
    handle = BufferHandle(24, 65536, d.device, "producer_synced")
    d = d.with_changes(buffer_handles=(handle,), version=(1, 3), trailing=b"later")
    t = hurray.Tensor._from_parts(d, [np.zeros(24, np.uint8)])
    assert plan_tensor(t).descriptor == d.encode()


@pytest.mark.parametrize("key", [np.s_[::2, ::3], np.s_[:, 1], np.s_[::-2], np.s_[1:3, 2:4]])
def test_views_with_holes_are_compacted(key: Any) -> None:
    a = np.arange(60, dtype=np.int16).reshape(6, 10)[key]
    t = hurray.from_numpy(a)
    plan = plan_tensor(t)
    assert plan.buffers[0].tobytes() == a.tobytes()
    assert Descriptor.decode(plan.descriptor).layout == hurray.RowMajorLayout()


def test_roles_follow_the_place() -> None:
    base = hurray.ones([4])._replace(shard=hurray.Shard((4,), (0,)))
    part = hurray.ones([2])._replace(shard=hurray.Shard((4,), (1,)))
    c = hurray.Composite("overlay", shape=(4,), dtype=hurray.float64, members=[base, part, base], combine_op="add")
    roles = [Descriptor.decode(p.descriptor).member_role for _, p in plan_item("c", c)]
    assert roles == [None, "base", "correction", "correction"]
    [_, read, *_] = [Descriptor.decode(p.descriptor) for _, p in plan_item("c", c)]
    taken_out = hurray.Tensor._from_parts(read, base._buffers)
    assert taken_out.descriptor.member_role == "base"
    assert Descriptor.decode(plan_tensor(taken_out).descriptor).member_role is None


def test_names_and_order() -> None:
    inner = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[hurray.zeros([1]), hurray.zeros([2])])
    outer = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[hurray.zeros([3]), inner])
    assert [(name, len(p.buffers)) for name, p in plan_item("m", outer)] == [
        ("m", 0), ("m.0", 1), ("m.1", 0), ("m.1.0", 1), ("m.1.1", 1),
    ]  # fmt: skip
    assert [name for name, _ in plan_item("t", hurray.zeros([1]))] == ["t"]


def test_wrong_buffer_count_is_refused() -> None:
    t = hurray.Tensor(bytes(8), hurray.int8, [8], aux_buffers=[bytes(4)])
    with pytest.raises(hurray.InvalidDescriptorError, match="exactly 1 buffer"):
        plan_tensor(t)


def test_anything_else_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="got int"):
        list(plan_item("x", 3))  # type: ignore[arg-type]
    assert Plan(b"abc", ()).n_bytes == 3
