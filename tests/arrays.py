"""Strategies for arrays as users hold them: any dtype, order, strides and byte order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

NATIVE = ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c8", "c16", "?"]
SMALL = [
    "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "int4", "uint4",
    "int2", "uint2",
]  # fmt: skip


@st.composite
def raw_arrays(draw: st.DrawFn, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Draw a C-contiguous array of random bits (of 0 and 1 for bool; within the width of packed types)."""
    n = int(np.prod(shape, dtype=object))
    seed = draw(st.integers(0, 2**32 - 1))
    data = np.random.default_rng(seed).integers(0, 256, n * dtype.itemsize, dtype=np.uint8)
    if dtype.kind == "b":
        data &= 1
    width = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
    if dtype.name in width:
        data &= (1 << width[dtype.name]) - 1
    return data.view(dtype).reshape(shape)


def dtypes() -> st.SearchStrategy[np.dtype[Any]]:
    return st.sampled_from([np.dtype(n) for n in NATIVE] + [np.dtype(getattr(ml_dtypes, n)) for n in SMALL])


@st.composite
def held_arrays(draw: st.DrawFn, max_rank: int = 4) -> np.ndarray[Any, Any]:
    """Draw an array in any state that NumPy allows: steps, swapped axes, broadcasts, unaligned, read-only and so on."""
    dtype = draw(dtypes())
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=max_rank)))
    array = draw(raw_arrays(dtype, shape))
    for _ in range(draw(st.integers(0, 3))):
        how = draw(
            st.sampled_from(
                ["step", "flip", "swap", "fortran", "broadcast", "swapped", "read-only", "unaligned", "field"]
            )
        )
        if how == "step" and array.ndim:
            array = array[tuple(slice(draw(st.integers(0, 1)), None, draw(st.integers(1, 3))) for _ in array.shape)]
        elif how == "flip" and array.ndim:
            array = array[tuple(slice(None, None, draw(st.sampled_from([1, -1, -2]))) for _ in array.shape)]
        elif how == "swap" and array.ndim:
            array = array.transpose(draw(st.permutations(range(array.ndim))))
        elif how == "fortran":
            array = np.asfortranarray(array).reshape(array.shape)
        elif how == "broadcast" and array.ndim < max_rank:
            array = np.broadcast_to(array, (draw(st.integers(1, 3)), *array.shape))
        elif how == "swapped" and array.dtype.kind in "fiuc" and array.dtype.itemsize > 1 and array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder(">"))
        elif how == "read-only":
            array = array.view()
            array.flags.writeable = False
        elif how == "unaligned":
            room = np.zeros(array.nbytes + 1, np.uint8)
            other = room[1:].view(array.dtype).reshape(array.shape)
            other[...] = array
            array = other
        elif how == "field" and array.dtype.kind in "fiuc" and array.dtype.isnative:
            records = np.zeros(array.shape, dtype=[("pad", "u1"), ("v", array.dtype)])
            records["v"] = array
            array = records["v"]
    return array


def same_values(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Assert equal shape, type and bits, whatever the byte order of ``want``."""
    native = want.dtype if want.dtype.isnative else want.dtype.newbyteorder("=")
    assert got.dtype == native
    assert got.shape == want.shape
    assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want.astype(native)).tobytes()
