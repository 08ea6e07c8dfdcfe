"""Aligned memory: the allocator of NumPy's arrays is replaced inside a block, and put back."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from numpy._core import multiarray

import helpers
import hurray
from hurray.sources._base import aligned_bytes

linux = pytest.mark.skipif(sys.platform != "linux", reason="NumPy's allocator is replaced on Linux only")
SIZES = [0, 1, 3, 17, 100, 1000, 5000, 100_000, 3_000_000]


@pytest.mark.parametrize("n_bytes", SIZES)
@pytest.mark.parametrize("zeroed", [False, True])
def test_aligned_bytes(n_bytes: int, zeroed: bool) -> None:
    a = aligned_bytes(n_bytes, zeroed=zeroed)
    assert (a.shape, a.dtype) == ((n_bytes,), np.uint8)
    assert n_bytes == 0 or a.ctypes.data % 64 == 0
    assert not zeroed or not a.any()


@pytest.mark.parametrize("shape", [(), 5, (0,), (3, 4), [2, 2, 2], np.int64(3)])
@pytest.mark.parametrize("dtype", ["float32", np.int8, "c16", "?"])
def test_the_blocks_own_function(shape: Any, dtype: Any) -> None:
    with hurray.aligned_allocator() as empty:
        a = empty(shape, dtype)
        assert empty((2,)).dtype == np.float64
    assert a.shape == np.empty(shape).shape
    assert a.dtype == np.dtype(dtype)
    assert a.size == 0 or a.ctypes.data % 64 == 0
    a[...] = 1


@linux
@pytest.mark.parametrize("n", SIZES)
def test_new_arrays_are_aligned_inside_the_block(n: int) -> None:
    rng = np.random.default_rng(0)
    with hurray.aligned_allocator():
        made = [np.zeros(n, np.uint8), np.empty(n), np.ones(n), np.arange(n), rng.random(n), np.full(n, 2.5)]
        made += [made[2].copy(), made[2] + made[2], np.asfortranarray(np.ones((3, n)))]
        assert all(a.ctypes.data % 64 == 0 for a in made)
        assert not made[0].any()
        assert made[6].tolist() == [1.0] * n
        grown = np.zeros(n)
        grown.resize(2 * n + 3, refcheck=False)
        assert not grown.any()
        shared = hurray.from_numpy(made[2], copy=False).buffer(0).to_numpy()
        assert n == 0 or np.shares_memory(shared, made[2])
    # arrays live on outside, and go away there
    assert made[3].tolist() == list(range(n))
    del made, grown
    gc.collect()
    assert np.zeros(n).sum() == 0


@linux
def test_blocks_nest_and_are_put_back() -> None:
    before = multiarray.get_handler_name()
    block = hurray.aligned_allocator()
    assert isinstance(block, hurray.AlignedAllocatorCtx)
    with pytest.raises(ZeroDivisionError), block:
        with block, hurray.aligned_allocator():
            assert multiarray.get_handler_name() == "hurray_aligned"
        assert multiarray.get_handler_name() == "hurray_aligned"
        raise ZeroDivisionError
    assert multiarray.get_handler_name() == before


@linux
def test_other_threads_keep_their_allocator() -> None:
    seen: list[str] = []
    with hurray.aligned_allocator():
        thread = threading.Thread(target=lambda: seen.append(multiarray.get_handler_name()))
        thread.start()
        thread.join()
    assert seen == ["default_allocator"]


@linux
@pytest.mark.parametrize("options", [[], ["-X", "tracemalloc"], ["-X", "dev"]])
def test_arrays_may_outlive_the_interpreter(options: list[str]) -> None:
    code = """
import sys, numpy as np, hurray
with hurray.aligned_allocator():
    sys.kept = [np.ones(n) for n in (1, 1000, 100000)]
    sys.more = np.zeros(50000)
    assert all(a.ctypes.data % 64 == 0 for a in sys.kept)
print("done")
"""
    command = [sys.executable, *options, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=helpers.our_env(), check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
