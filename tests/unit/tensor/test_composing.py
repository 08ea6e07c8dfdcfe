"""Partitions, overlays and groups of tensors that do not say where they lie."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import hurray

W = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(("axis", "cuts"), [(0, [1, 3]), (1, [2, 2, 5]), (-1, [6]), (-2, [])])
def test_partition_is_concatenation(axis: int, cuts: list[int]) -> None:
    parts = np.split(W, cuts, axis)
    whole = hurray.partition(parts, axis)
    assert whole.composition_rule == "partition"
    assert whole.shape == W.shape
    np.testing.assert_array_equal(whole.to_numpy(), W)
    file = io.BytesIO()
    hurray.save(file, {"w": whole})
    np.testing.assert_array_equal(hurray.load(file)["w"].to_numpy(), W)


def test_partition_of_mixed_layouts() -> None:
    top, bottom = hurray.quantize(W[:2], "int8"), hurray.asarray(W[2:]).to_layout("csr")
    whole = hurray.partition([top, bottom])
    assert whole.dtype is hurray.float32
    np.testing.assert_array_equal(whole[2:], W[2:])
    assert np.abs(whole.to_numpy() - W).max() < 0.1


@pytest.mark.parametrize(
    ("parts", "axis", "match"),
    [
        ([], 0, "at least one"),
        ([np.float32(1)], 0, "part 0 has shape"),
        ([W, W[:, :5]], 0, "part 1 has shape"),
        ([W, W[0]], 0, "part 1 has shape"),
        ([W, W], 2, "axis"),
        ([W, W.astype(np.float64)], 0, "member 1: its decoded type float64"),
    ],
)
def test_parts_that_do_not_fit(parts: list[Any], axis: int, match: str) -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match=match):
        hurray.partition(parts, axis)


def test_overlay_replaces() -> None:
    sparse = hurray.sparse_coo(np.array([70, 80], np.float32), [[0, 0], [3, 5]], (4, 6))
    known = hurray.asarray(np.full((1, 2), 9, np.float32)).with_shard((4, 6), (2, 0))
    t = hurray.overlay(W, [((0, 0), np.ones((2, 2))), sparse, known])
    want = W.copy()
    want[:2, :2] = 1
    want[0, 0], want[3, 5], want[2, :2] = 70, 80, 9
    np.testing.assert_array_equal(t.to_numpy(), want)
    assert t.member_roles == ("base", "correction", "correction", "correction")
    assert t.members[0].to_numpy().ctypes.data == W.ctypes.data


def test_overlay_adds_to_a_quantized_base() -> None:
    base = hurray.quantize(W, "int8")
    t = hurray.overlay(base, [((1, 1), np.full((1, 1), 0.5))], combine_op="add")
    want = base.dequantize().to_numpy().copy()
    want[1, 1] += 0.5
    assert t.dtype is hurray.float32
    np.testing.assert_array_equal(t.to_numpy(), want)


@pytest.mark.parametrize(
    ("correction", "error", "match"),
    [
        (W[:2], hurray.InvalidDescriptorError, "correction 0 has shape"),
        (((3, 0), W), hurray.InvalidDescriptorError, "correction 0: the shard sticks out"),
        ((1, 2, 3), hurray.InvalidDescriptorError, "correction 0 has 3 parts"),
        (hurray.asarray(W, dtype=hurray.float64), hurray.InvalidDescriptorError, "member 1"),
        (hurray.group([W]), hurray.UnsupportedError, "correction 0 is a composite"),
    ],
)
def test_corrections_that_do_not_fit(correction: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        hurray.overlay(W, [correction])
    with pytest.raises(ValueError, match="combine_op"):
        hurray.overlay(W, [], "sum")


def test_group() -> None:
    t = hurray.group([W, hurray.arange(3), hurray.partition([W])])
    assert [m.shape for m in t.members] == [(4, 6), (3,), (4, 6)]
    assert t.shape == ()
    assert t.dtype is hurray.float32
    assert t.nbytes == 2 * W.nbytes + 24
    file = io.BytesIO()
    hurray.save(file, {"g": t})
    with hurray.open(file) as f:
        np.testing.assert_array_equal(f["g.2.0"].to_numpy(), W)
    with pytest.raises(hurray.InvalidDescriptorError, match="at least one"):
        hurray.group([])


def test_a_tensor_that_knows_its_place() -> None:
    t = hurray.quantize(W[:2], "int8_per_channel").with_shard((4, 6), (2, 0))
    assert t.shard == hurray.Shard((4, 6), (2, 0))
    assert t.quantization is not None
    with pytest.raises(hurray.InvalidDescriptorError, match="sticks out"):
        t.with_shard((3, 6), (2, 0))
    stats = hurray.compute_statistics(t)
    assert t.with_statistics(stats).statistics == stats
    assert t.with_statistics(stats).shard == t.shard
    with pytest.raises(TypeError, match="Statistics"):
        t.with_statistics({"nnz": 3})  # type: ignore[arg-type]
