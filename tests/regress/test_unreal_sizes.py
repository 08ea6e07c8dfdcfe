"""Shapes that stand for more than is there: broadcast views, empty rows, dimensions beyond what NumPy counts.

A few bytes may describe any number of elements.  What walks through all of them has to refuse, in no time and with one
of our errors; what only describes them, or reads a few of them, has to work.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest

import hurray

HUGE = 2**40
DTYPES = [hurray.float64, hurray.dtype.float8_e8m0, hurray.dtype.uint4]

WALKS: dict[str, Any] = {
    "copy": lambda t: t.to_numpy(copy=True),
    "astype": lambda t: t.to_numpy(dtype=np.float32),
    "nonzeros": lambda t: t.nonzeros(),
    "statistics": hurray.compute_statistics,
    "quantize": lambda t: hurray.quantize(t, "int8"),
    "asarray": lambda t: hurray.asarray(t, dtype=hurray.float32),
    "picked": lambda t: t[::2, [0, 1]],
    "sharded": lambda t: hurray.shard(t, (2, 1)),
    "matrixmarket": lambda t: hurray.to_matrixmarket(io.BytesIO(), t),
    **{
        f"to_{name}": lambda t, name=name, options=options: t.to_layout(name, **options)
        for name, options in (
            ("row_major", {}), ("col_major", {}), ("tiled", {"tile_shape": [2, 2]}), ("morton", {}), ("coo", {}),
            ("csr", {}), ("csc", {}),
        )
    },
}  # fmt: skip


def broadcast(dtype: Any) -> hurray.Tensor:
    return hurray.Tensor(b"\x01" * 8, dtype, [HUGE, 3], layout=hurray.StridedLayout([0, 0]))


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_walks_through_a_broadcast_tensor_refuses(dtype: Any, walk: str) -> None:
    with pytest.raises(hurray.HurrayError):
        WALKS[walk](broadcast(dtype))


def test_a_dlpack_copy_of_a_broadcast_tensor_refuses() -> None:
    with pytest.raises(hurray.UnsupportedError):
        broadcast(hurray.float64).__dlpack__(copy=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_describes_a_broadcast_tensor_works(dtype: Any) -> None:
    t = broadcast(dtype)
    assert str(HUGE) in repr(t) or "..." in repr(t)
    assert t.size == 3 * HUGE
    assert t[5:7].shape == (2, 3)
    assert t[[1, HUGE - 1]].shape == (2, 3)
    assert t.lookup([[HUGE - 1, 2]]).shape == (1,)
    assert t.T.shape == (3, HUGE)
    target = io.BytesIO()
    hurray.save(target, {"t": t})
    assert hurray.load(target)["t"].shape == (HUGE, 3)
    assert pickle.loads(pickle.dumps(t)).shape == (HUGE, 3)


def test_a_view_of_a_broadcast_tensor_is_a_view() -> None:
    t = broadcast(hurray.float64)
    assert t.to_numpy().shape == (HUGE, 3)
    assert t[::2].shape == (HUGE // 2, 3)
    assert np.from_dlpack(t).shape == (HUGE, 3)


def test_index_arrays_do_not_copy_what_they_do_not_pick() -> None:
    # take() of NumPy copies an array that is not contiguous, or not aligned, before it picks.
    memory = np.zeros(4 * 7 + 1, np.uint8)
    memory[1:] = np.arange(7, dtype="<f4").view(np.uint8)
    t = hurray.Tensor(memory, hurray.float32, [HUGE, 7], layout=hurray.StridedLayout([0, 1]), byte_offset=1)
    assert t[[0, HUGE - 1]].tolist() == [[0, 1, 2, 3, 4, 5, 6]] * 2
    assert t[[3], ..., [2]].tolist() == [2]


def test_tokens_without_elements_are_not_listed_page_by_page() -> None:
    t = hurray.Tensor(b"", hurray.float32, [HUGE, 0, 4])
    with pytest.raises(hurray.UnsupportedError, match="pages"):
        t.to_layout("block_paged", page_size=2)
    assert hurray.Tensor(b"", hurray.float32, [7, 0, 4]).to_layout("block_paged", page_size=2).shape == (7, 0, 4)


def test_slots_follow_the_pages_not_the_tokens() -> None:
    # One page of 2**31 tokens without elements, named a thousand times, is 2**41 tokens in some kilobytes.
    layout = hurray.BlockPagedLayout(4, 2, 0, 1)
    scales = np.array([1, 1, 1, 1, 2, 2, 0, np.nan], "<f4")
    t = hurray.Tensor(
        bytes(8), hurray.int8, [4 * 1000 + 2, 1, 1], layout=layout,
        aux_buffers=[np.array([0] * 1000 + [1], "<u4"), np.array([0, 1001], "<u4"), scales],
        quantization=hurray.PerBlockAffine.symmetric(0, 4, 3),
    )  # fmt: skip
    t.validate()
    assert layout.used_slots(t._buffers, 4002).tolist() == [0, 1, 2, 3, 4, 5]


WIDE = (2**63 + 9, 2**64 - 2)


def wide() -> hurray.Tensor:
    index = np.array([1, 2, 2**63 + 8, 2**64 - 3], "<u8")
    return hurray.Tensor(
        np.array([1.0, 2.0]), hurray.float64, WIDE, layout=hurray.CooLayout(2, True), aux_buffers=[index]
    )


def test_coordinates_beyond_int64_are_refused_not_negative() -> None:
    with pytest.raises(hurray.UnsupportedError):
        wide().nonzeros()
    for key in ((-1, 0), (2**63 + 8, 0), ([-1], 0), (np.array([2**63 + 8], np.uint64), [0])):
        with pytest.raises((hurray.UnsupportedError, IndexError)):
            wide()[key]
    for coords in ([[-1, 0]], np.array([[2**63 + 8, 2**64 - 3]], np.uint64)):
        with pytest.raises(hurray.UnsupportedError):
            wide().lookup(coords)


def test_coordinates_within_int64_of_a_wide_tensor_are_read() -> None:
    assert wide()[1, 2] == 1
    assert wide().lookup([[1, 2], [1, 3]]).tolist() == [1, 0]
    assert wide()[0:3, 1:4].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u4", "i8", "u8"])
def test_coordinates_of_every_integer_type(kind: str) -> None:
    x = np.arange(300.0 * 2).reshape(300, 2)
    coords = np.array([[0, 1], [100, 0]] + [[-1, -2]] * (kind[0] == "i"), kind)
    for t in (hurray.from_numpy(x), hurray.from_numpy(x).to_layout("csr")):
        assert t.lookup(coords).tolist() == x[tuple(coords.T.astype(int))].tolist()


@pytest.mark.parametrize("layout", ["row_major", "strided", "tiled", "morton", "coo"])
def test_no_coordinates_of_any_shape(layout: str) -> None:
    shape = (0, 2**40, 2**40)
    made: dict[str, Any] = {
        "strided": hurray.StridedLayout([2**62, 2**62, 1]),
        "tiled": hurray.TiledLayout([1, 2**40, 2**63]),
        "morton": hurray.MortonLayout([1, 40, 41]),
        "coo": hurray.CooLayout(0),
    }
    try:
        t = hurray.Tensor(
            bytes(64), hurray.dtype.uint4, shape, layout=made.get(layout), aux_buffers=[b""] * (layout == "coo")
        )
    except hurray.BufferError:
        return  # a curve or a tile that is stored whole
    assert t.lookup([]).shape == (0,)


# An empty array that NumPy makes of bytes, but not of wider elements.
BYTES_ONLY = (0, 2**31, 2**31)


def test_empty_arrays_of_a_shape_that_only_narrow_elements_have() -> None:
    t = hurray.Tensor(b"", hurray.uint8, BYTES_ONLY)
    assert t.to_numpy().shape == BYTES_ONLY
    assert hurray.compute_statistics(t).nnz == 0
    with pytest.raises(hurray.UnsupportedError):
        t.to_numpy(dtype=np.float64)
    with pytest.raises(hurray.UnsupportedError):
        hurray.asarray(t, dtype=hurray.float64)


def test_a_length_beyond_what_python_counts() -> None:
    with pytest.raises(hurray.UnsupportedError):
        len(wide())


def test_sparse_values_of_long_dimensions_are_dequantized_where_they_are() -> None:
    index = np.array([5, 1, HUGE - 1, 2], "<u8")
    t = hurray.Tensor(
        np.array([3, 4], np.int8), hurray.int8, [HUGE, 3], layout=hurray.CooLayout(2, True), aux_buffers=[index],
        quantization=hurray.PerTensorAffine(0.5, 0),
    )  # fmt: skip
    assert t.dequantize((slice(4, 7), slice(None))).to_numpy().tolist() == [[0, 0, 0], [0, 1.5, 0], [0, 0, 0]]
    assert t.dequantize((slice(-1, -3, -1), 2)).to_numpy().tolist() == [2.0, 0.0]
    with pytest.raises(hurray.UnsupportedError):
        t.dequantize()


@pytest.mark.parametrize("dtype", [hurray.float64, hurray.bool, hurray.dtype.float128], ids=str)
def test_empty_rows_are_not_counted_one_by_one(dtype: Any) -> None:
    for layout in (hurray.RowMajorLayout(), hurray.TiledLayout([2, 2, 2]), hurray.StridedLayout([1, 1, 1])):
        t = hurray.Tensor(b"", dtype, (2**40, 2**20, 0), layout=layout)
        assert hurray.compute_statistics(t, pattern=True).nnz == 0
        t.validate()


@pytest.mark.parametrize("shape", [(2**40, 0), (2**40, 2**20, 0), (0, 2**40)])
def test_scales_of_empty_rows_are_refused_when_they_do_not_fit(shape: tuple[int, ...]) -> None:
    t = hurray.Tensor(b"", hurray.float32, shape)
    for axis in range(len(shape)):
        if shape[axis] > 2**30:
            with pytest.raises(hurray.HurrayError):
                hurray.quantize(t, "int8_per_channel", axis=axis)
        else:
            hurray.quantize(t, "int8_per_channel", axis=axis)
