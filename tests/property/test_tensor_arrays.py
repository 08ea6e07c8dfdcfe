"""Arrays into tensors and back, NumPy keys, and every layout into every other: values decide."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers
import hurray
from arrays import held_arrays, raw_arrays, same_values

DENSE = ["row_major", "col_major", "strided", "tiled", "morton"]
SPARSE = ["coo", "csr", "csc", "csf"]


@settings(max_examples=300)
@given(held_arrays())
def test_any_array_goes_in_and_comes_out_equal(array: np.ndarray[Any, Any]) -> None:
    before = array.copy()
    t = hurray.from_numpy(array)
    assert t.shape == array.shape
    same_values(t.to_numpy(), before)
    same_values(np.asarray(t), before)
    same_values(hurray.from_numpy(array, copy=True).to_numpy(), before)
    try:
        shared = hurray.from_numpy(array, copy=False)
    except hurray.CopyRequiredError:
        return
    if array.size:
        got = shared.to_numpy(copy=False)
        assert got.__array_interface__["data"][0] == array.__array_interface__["data"][0]
        assert not got.flags.writeable
        assert got.strides == array.strides or 1 in array.shape


@settings(max_examples=150)
@given(held_arrays())
def test_any_array_survives_a_file(array: np.ndarray[Any, Any]) -> None:
    file = io.BytesIO()
    hurray.save(file, {"a": hurray.from_numpy(array)})
    back = hurray.load(io.BytesIO(file.getvalue()))["a"]
    same_values(back.to_numpy(), array)


def test_views_with_holes_do_not_drag_foreign_bytes_along() -> None:
    secret = np.full((64, 64), 7, np.uint8)
    secret[:, 0] = 1
    t = hurray.from_numpy(secret[:, 0])
    file = io.BytesIO()
    hurray.save(file, {"a": t})
    back = hurray.load(io.BytesIO(file.getvalue()))["a"]
    assert isinstance(back, hurray.Tensor)
    assert back.buffer(0).shape == (64,)
    assert back.to_numpy().tolist() == [1] * 64


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    def index(n: int) -> Any:
        kinds = ["slice", "slice", "none"]
        if n:
            kinds += ["int", "list", "mask", "array"]
        kind = draw(st.sampled_from(kinds))
        at = st.integers(-n, n - 1) if n else st.just(0)
        if kind == "slice":
            bound = st.none() | st.integers(-n - 2, n + 2)
            return slice(draw(bound), draw(bound), draw(st.none() | st.integers(-3, 3).filter(bool)))
        if kind == "none":
            return slice(None)
        if kind == "int":
            return draw(st.sampled_from([int, np.int64]))(draw(at))
        if kind == "list":
            return draw(st.lists(at, max_size=4))
        if kind == "mask":
            return np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
        return np.array(draw(st.lists(at, min_size=2, max_size=2))).reshape(
            draw(st.sampled_from([(2,), (1, 2), (2, 1)]))
        )

    entries = [index(n) for n in shape[: draw(st.integers(0, len(shape)))]]
    if draw(st.booleans()) and len(entries) < len(shape):
        entries.append(Ellipsis)
    if draw(st.integers(0, 4)) == 0:
        entries.insert(draw(st.integers(0, len(entries))), None)
    return tuple(entries)


def _in_layout(array: np.ndarray[Any, Any], name: str, data: st.DataObject) -> hurray.Tensor:
    t = hurray.from_numpy(array)
    options: dict[str, Any] = {}
    if name == "tiled":
        options["tile_shape"] = [data.draw(st.integers(1, 4)) for _ in array.shape]
        options["outer_layout"] = data.draw(st.sampled_from(["row_major", "col_major"]))
        options["inner_layout"] = data.draw(st.sampled_from(["row_major", "col_major"]))
    if name == "csf":
        options["mode_order"] = data.draw(st.permutations(range(array.ndim)))
    return t.to_layout(name, **options)


def _names(rank: int) -> list[str]:
    names = [*DENSE, "coo"]
    return names + (["csr", "csc"] if rank == 2 else []) + (["csf"] if rank > 2 else [])


@settings(max_examples=300)
@given(st.data())
def test_keys_read_what_numpy_reads(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4)))
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "i2", "?", "c8"])))
    array = data.draw(raw_arrays(dtype, shape))
    array = np.where(array.view("u1").reshape(*shape, dtype.itemsize).max(axis=-1) % 2 == 1, array, dtype.type(0))
    t = _in_layout(array, data.draw(st.sampled_from(_names(len(shape)))), data)
    key = data.draw(keys(shape))
    try:
        want = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            t[key]
        return
    got = t[key]
    same_values(np.asarray(got), np.asarray(want))


@settings(max_examples=40)
@given(st.data(), st.integers(1, 4))
def test_every_layout_into_every_other(data: st.DataObject, rank: int) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank)))
    dtype = np.dtype(data.draw(st.sampled_from(["f4", "f8", "i2", "u8", "?", "c8"])))
    array = data.draw(raw_arrays(dtype, shape))
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=array.size, max_size=array.size)), bool).reshape(shape)
    array = np.where(keep, array, dtype.type(0))
    coords = np.array(list(np.ndindex(shape)), np.int64).reshape(-1, rank)
    for first in _names(rank):
        t = _in_layout(array, first, data)
        t.validate()
        same_values(t.to_numpy(), array)
        same_values(t.lookup(coords), array.reshape(-1))
        for second in _names(rank):
            u = t.to_layout(second, **({"tile_shape": [2] * rank} if second == "tiled" else {}))
            assert u.layout.name == second
            u.validate()
            same_values(u.to_numpy(), array)
            raw = hurray.Descriptor.decode(u.descriptor.encode())
            assert raw == u.descriptor


@settings(max_examples=60)
@given(st.data())
def test_packed_types_in_every_layout(data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(["bool", "int4", "uint4", "int2", "uint2", "float4_e2m1", "float6_e2m3", "float6_e3m2"])
    )
    dtype = hurray.Dtype.from_name(name)
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank)))
    assert dtype.numpy is not None
    array = data.draw(raw_arrays(dtype.numpy, shape))
    for layout in _names(rank):
        t = _in_layout(array, layout, data)
        t.validate()
        helpers.assert_same_bits(t.to_numpy(), array)
        helpers.assert_same_bits(
            np.asarray(t[tuple(slice(None, None, -1) for _ in shape)]), array[(slice(None, None, -1),) * rank]
        )


@settings(max_examples=60)
@given(st.data(), st.integers(1, 4))
def test_transpose_shares_values(data: st.DataObject, rank: int) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    axes = tuple(data.draw(st.permutations(range(rank))))
    for layout in ("row_major", "col_major", "strided", "coo", *(["csf"] if rank > 2 else [])):
        t = _in_layout(array, layout, data).transpose(*axes)
        same_values(t.to_numpy(), array.transpose(axes))
        if layout != "row_major":
            t.validate()
