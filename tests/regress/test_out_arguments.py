"""``out=``: of a wrong type, shape or element type, read-only, strided, or over the very memory that is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hurray

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
MAKERS: dict[str, Callable[[], hurray.Tensor]] = {
    "row_major": lambda: hurray.quantize(X, "int8"),
    "packed": lambda: hurray.quantize(X, "int4_per_block", block_size=8),
    "tiled": lambda: hurray.quantize(X, "int8").to_layout("tiled", tile_shape=[2, 3]),
    "csr": lambda: hurray.quantize(hurray.asarray(X * (X > 0)).to_layout("csr"), "int8"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_wrong_outputs_are_refused(kind: str) -> None:
    t = MAKERS[kind]()
    locked = np.empty(X.shape, np.float32)
    locked.flags.writeable = False
    wrong: list[Any] = [
        [[0.0] * 8] * 4, np.empty(X.shape), np.empty(X.shape, np.int32), np.empty(X.shape, ">f4"),
        np.empty((8, 4), np.float32), np.empty(32, np.float32), locked,
    ]  # fmt: skip
    for out in wrong:
        for region in (None, slice(None)):
            with pytest.raises((hurray.HurrayError, TypeError)):
                t.dequantize(region, out=out)
    with pytest.raises(hurray.BufferError):
        t.dequantize(dtype=hurray.float64, out=np.empty(X.shape, np.int64))
    with pytest.raises(hurray.BufferError):
        t.dequantize(slice(0, 2), dtype=hurray.float64, out=np.empty(X.shape))


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("dtype", [hurray.float32, hurray.float64, hurray.float16], ids=str)
def test_outputs_of_any_strides(kind: str, dtype: Any) -> None:
    t = MAKERS[kind]()
    want = t.dequantize(dtype=dtype).to_numpy()
    outputs = (
        np.empty((4, 8), dtype.numpy), np.empty((8, 4), dtype.numpy).T, np.empty((8, 16), dtype.numpy)[::-2, ::2],
    )  # fmt: skip
    for out in outputs:
        got = t.dequantize(dtype=dtype, out=out)
        assert np.array_equal(out, want)
        assert np.array_equal(got.to_numpy(), want)
        out[...] = 0
        t.dequantize((slice(1, 3), slice(None)), dtype=dtype, out=out[1:3])
        assert np.array_equal(out[1:3], want[1:3])


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("start", [0, 3, 64])
def test_an_output_over_the_input(kind: str, start: int) -> None:
    t = MAKERS[kind]()
    want = t.dequantize().to_numpy().copy()
    # All buffers in one piece of memory, and the output on top of it.
    memory = np.zeros(4096, np.uint8)
    at, buffers = start, []
    for buffer in t._buffers:
        part = memory[at : at + len(buffer)]
        part[:] = buffer
        buffers.append(part)
        at += -(-len(buffer) // 8) * 8
    shared = hurray.Tensor._from_parts(t.descriptor, buffers)
    out = memory[: X.size * 4].view(np.float32).reshape(X.shape)
    shared.dequantize(out=out)
    assert np.array_equal(out, want)


def test_a_single_number() -> None:
    for recipe in ("int8", "uint8", "int4", "int16", "int2"):
        t = hurray.quantize(np.float32(3.5), recipe)
        out = np.full((), np.nan, np.float32)
        assert t.dequantize(out=out).to_numpy() == t.dequantize().to_numpy() == t.dequantize(()).to_numpy() == out
        assert abs(float(out) - 3.5) < 1
