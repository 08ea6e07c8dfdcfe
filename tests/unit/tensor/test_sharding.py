"""Cutting tensors into shards, and putting shards together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import helpers
import hurray

WHOLE = np.arange(35, dtype=np.int64).reshape(5, 7)


def test_grid_sizes_and_offsets() -> None:
    got = [(t.shape, t.shard.shard_offset) for t in hurray.shard(WHOLE, (2, 3)) if t.shard]
    assert got == [
        ((3, 3), (0, 0)), ((3, 2), (0, 3)), ((3, 2), (0, 5)), ((2, 3), (3, 0)), ((2, 2), (3, 3)), ((2, 2), (3, 5)),
    ]  # fmt: skip
    for t in hurray.shard(WHOLE, (9, 1)):
        assert t.shard is not None
        assert t.shard.parent_shape == (5, 7)
        row = t.shard.shard_offset[0]
        np.testing.assert_array_equal(t.to_numpy(), WHOLE[row : row + t.shape[0]])  # type: ignore[operator]


def test_boxes_as_slices_and_as_offset_and_shape() -> None:
    boxes = [np.s_[0:2, :], ((2, 0), (3, 7)), [slice(None), slice(6, 7)]]
    got = hurray.shard(WHOLE, boxes)
    assert [t.shape for t in got] == [(2, 7), (3, 7), (5, 1)]
    np.testing.assert_array_equal(got[1].to_numpy(), WHOLE[2:])
    np.testing.assert_array_equal(got[2].to_numpy(), WHOLE[:, 6:])
    line = hurray.shard(np.arange(4), [np.s_[1:3], ((0,), (1,))])
    assert [t.to_numpy().tolist() for t in line] == [[1, 2], [0]]


def test_rows_share_memory() -> None:
    for t in hurray.shard(WHOLE, (2, 1)):
        assert np.shares_memory(t._buffers[0], WHOLE)


@pytest.mark.parametrize("layout", ["row_major", "col_major", "strided", "coo", "csr", "csc"])
def test_layouts_round_trip(layout: str) -> None:
    sparse = np.where(WHOLE % 3 == 0, WHOLE, 0)
    t = hurray.from_numpy(sparse).to_layout(layout)
    shards = hurray.shard(t, (2, 2))
    assert {s.layout.name for s in shards} == {layout if t.layout.is_sparse else "row_major"}
    helpers.assert_same_bits(hurray.assemble(shards).to_numpy(), sparse)
    merged = hurray.assemble(shards, merge=True)
    assert isinstance(merged, hurray.Tensor)
    helpers.assert_same_bits(merged.to_numpy(), sparse)
    assert merged.shard is None


def test_csf_gives_coo() -> None:
    cube = np.zeros((4, 4, 4))
    cube[1, 2, 3], cube[3, 0, 0] = 5, 7
    shards = hurray.shard(hurray.from_numpy(cube).to_layout("csf"), (2, 1, 2))
    assert {s.layout.name for s in shards} == {"coo"}
    np.testing.assert_array_equal(hurray.assemble(shards).to_numpy(), cube)


def test_per_channel_parameters_are_cut() -> None:
    codes = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    scales, zeros = np.arange(1, 5, dtype=np.float32), np.arange(4, dtype=np.int32)
    t = hurray.Tensor(
        codes,
        hurray.int8,
        [4, 6],
        aux_buffers=[scales, zeros],
        quantization=hurray.PerChannelAffine.asymmetric(0, 1, 2),
    )
    want = (codes.astype(np.float32) - zeros[:, None]) * scales[:, None]
    c = hurray.assemble(hurray.shard(t, (3, 2)))
    assert c.dtype == hurray.float32
    np.testing.assert_array_equal(c.to_numpy(), want)
    np.testing.assert_array_equal(c[1:3, ::-2], want[1:3, ::-2])
    np.testing.assert_array_equal(c[[0, 3, 3], [5, 0, 5]], want[[0, 3, 3], [5, 0, 5]])


def test_block_parameters_are_not() -> None:
    t = hurray.Tensor(
        np.zeros((2, 8), np.int8), hurray.int8, [2, 8], aux_buffers=[np.ones(4, np.float32)],
        quantization=hurray.PerBlockAffine.symmetric(1, 4, 1, hurray.float32),
    )  # fmt: skip
    with pytest.raises(hurray.UnsupportedError, match="dequantize"):
        hurray.shard(t, (1, 2))


def test_a_scalar_is_its_own_shard() -> None:
    [t] = hurray.shard(np.float32(3), ())
    assert t.shard == hurray.Shard((), ())
    assert hurray.assemble([t]).to_numpy() == 3


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ((2,), hurray.InvalidDescriptorError),
        ((0, 1), hurray.InvalidDescriptorError),
        ((2, -1), hurray.InvalidDescriptorError),
        ([np.s_[0:5:2, :]], hurray.InvalidDescriptorError),
        ([((0, 0), (6, 7))], hurray.InvalidDescriptorError),
        ([((0,), (5,))], hurray.InvalidDescriptorError),
        ([((0, 0), (5, 7), (1, 1))], hurray.InvalidDescriptorError),
        (3, TypeError),
        ("22", TypeError),
    ],
)
def test_bad_parts(parts: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        hurray.shard(WHOLE, parts)


def test_assemble_refuses() -> None:
    shards = hurray.shard(WHOLE, (2, 2))
    with pytest.raises(hurray.InvalidDescriptorError, match="no shards"):
        hurray.assemble([])
    with pytest.raises(hurray.InvalidDescriptorError, match="no shard section"):
        hurray.assemble([hurray.zeros([2])])
    with pytest.raises(hurray.InvalidDescriptorError, match="gap"):
        hurray.assemble(shards[1:])
    with pytest.raises(hurray.InvalidDescriptorError, match="overlap"):
        hurray.assemble([*shards, shards[0]])
    with pytest.raises(hurray.InvalidDescriptorError, match="decoded type"):
        hurray.assemble([*shards[:3], hurray.shard(WHOLE.astype(np.int32), (2, 2))[3]])
    with pytest.raises(hurray.InvalidDescriptorError, match="parent_shape"):
        hurray.assemble([*shards, *hurray.shard(WHOLE.T, (2, 2))])
    with pytest.raises(TypeError, match=r"shards\[0\]"):
        hurray.assemble([3])  # type: ignore[list-item]
