"""Chunking, parameters in broadcast form, and the kernels on the arrays that property tests do not make."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from hurray.kernels import affine, lookup, mx, nf4, scaling


def bits(array: Any) -> list[int]:
    return [int(b) for b in np.ascontiguousarray(array).view(np.uint32).reshape(-1)]


def test_chunks_cover_everything_once() -> None:
    counts = np.zeros((5, 6, 7), int)
    seen = []

    def work(chunk: Any, params: Any) -> None:
        chunk[0][...] += 1
        assert params[1] is None
        assert np.broadcast_shapes(chunk[0].shape, params[0].shape) == chunk[0].shape
        seen.append(chunk[0].size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "CHUNK_ELEMS", 10)
        for axis, block in ((0, 2), (1, 4), (2, 4), (2, 1), (1, 64)):
            shape = [5, 6, 7]
            shape[axis] = scaling.n_blocks(shape[axis], block)
            counts[...] = 0
            scaling.for_each_chunk(work, (counts,), (np.ones(shape), None), axis=axis, block_size=block)
            assert (counts == 1).all()
    assert max(seen) <= 10


def test_threads_share_the_work_and_pass_errors_on() -> None:
    array = np.zeros(4 * scaling._THREADED_CHUNK_ELEMS, np.float32)
    threads = set()

    def work(chunk: Any, params: Any) -> None:
        threads.add(threading.get_ident())
        chunk[0][...] = 1

    scaling.for_each_chunk(work, (array,), workers=2)
    assert (array == 1).all()
    assert threads

    def fail(chunk: Any, params: Any) -> None:
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        scaling.for_each_chunk(fail, (array,), workers=2)


def test_scalars_and_empty_arrays() -> None:
    one = affine.dequantize_affine(np.array(-3, np.int8), 8, True, np.array(0.5, np.float32))
    assert one.shape == ()
    assert one == np.float32(-1.5)
    assert affine.quantize_affine(np.array(2.0), 8, True).codes == 127
    empty = affine.quantize_affine(np.empty((0, 3), np.float32), 8, True, axis=1)
    assert empty.codes.shape == (0, 3)
    assert empty.scale.tolist() == [[1, 1, 1]]
    codes, scale = nf4.quantize_nf4(np.empty((3, 0), np.float32), 1, 8)
    assert codes.shape == scale.shape == (3, 0)


def test_signs_of_zero_follow_the_formula() -> None:
    scale = np.array([-2.0], np.float32)
    assert bits(affine.dequantize_affine(np.zeros(1, np.int8), 8, True, scale)) == [0x80000000]
    zero = np.array([5], np.int32)
    assert bits(affine.dequantize_affine(np.full(1, 5, np.uint8), 8, False, scale, zero)) == [0x80000000]
    levels = lookup.dequantize_by_table(np.array([0, 7], np.uint8), nf4.LEVELS, np.zeros(1, np.float32))
    assert bits(levels) == [0x80000000, 0]


def test_wide_integers_subtract_before_they_round() -> None:
    one = np.ones(1, np.float32)
    codes = np.array([2**31 - 1], np.int32)
    assert affine.dequantize_affine(codes, 32, True, one, np.array([2**31 - 2], np.int32)) == 1
    assert affine.dequantize_affine(codes, 32, True, one, np.array([-(2**31)], np.int32)) == np.float32(2**32 - 1)
    assert affine.dequantize_affine(np.array([2**32 - 1], np.uint32), 32, False, one) == np.float32(2**32)


def test_overflow_and_underflow_stay_quiet() -> None:
    codes = np.array([100, 1], np.int8)
    big, small = np.array([3e38], np.float32), np.array([1e-45], np.float32)
    assert affine.dequantize_affine(codes, 8, True, big)[0] == np.inf
    assert affine.dequantize_affine(codes, 8, True, small)[1] == np.float32(1e-45)
    assert mx.e8m0_values(np.array([1, 254], np.uint8)).tolist() == [2.0**-126, 2.0**127]


@pytest.mark.parametrize("order", ["C", "F", "reversed", "strided", "big-endian", "float64", "float16", "int64"])
def test_quantize_takes_any_array(order: str) -> None:
    base = np.arange(-30, 30, dtype=np.float32).reshape(6, 10)
    forms = {
        "F": np.asfortranarray(base),
        "reversed": np.ascontiguousarray(base[::-1, ::-1])[::-1, ::-1],
        "strided": np.repeat(base, 2, axis=1)[:, ::2],
        "big-endian": base.astype(">f4"),
        "float64": base.astype(np.float64),
        "float16": base.astype(np.float16),
        "int64": base.astype(np.int64),
    }
    x = forms.get(order, base)
    x.flags.writeable = False
    for axis, block in ((None, None), (0, None), (1, None), (0, 4), (1, 4)):
        want = affine.quantize_affine(base, 8, True, axis=axis, block_size=block, symmetric=False)
        got = affine.quantize_affine(x, 8, True, axis=axis, block_size=block, symmetric=False)
        assert np.array_equal(got.codes, want.codes)
        assert np.array_equal(got.scale, want.scale)
    assert np.array_equal(nf4.quantize_nf4(x, 1, 8)[0], nf4.quantize_nf4(base, 1, 8)[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("where", [(0, 0), (2, 31), (3, 5)])
def test_non_finite_input_is_named(bad: float, where: tuple[int, int]) -> None:
    x = np.ones((4, 32))
    x[where] = bad
    x[3, 31] = np.nan
    for call in (
        lambda: affine.quantize_affine(x, 8, True),
        lambda: affine.quantize_affine(x, 8, True, axis=1, symmetric=False),
        lambda: affine.quantize_affine(x, 8, True, axis=1, block_size=16),
        lambda: affine.quantize_affine(x, 8, True, axis=0, block_size=2, symmetric=False),
        lambda: nf4.quantize_nf4(x, 1, 8),
        lambda: mx.quantize_mx_float(x, "float4_e2m1", 2, 1, 16),
        lambda: mx.quantize_mx_int(x, 8, 6, 1, 16),
    ):
        with pytest.raises(scaling.NonFiniteError) as caught:
            call()
        assert caught.value.position == where


def test_scales_that_do_not_fit() -> None:
    with pytest.raises(scaling.ScaleRangeError, match="float16"):
        affine.quantize_affine(np.array([1e9, 0]), 8, True, axis=0, block_size=2, scale_type="float16")
    with pytest.raises(scaling.ScaleRangeError, match="negative"):
        affine.quantize_affine(np.array([1.0, -1]), 8, False)
    tiny = affine.quantize_affine(np.array([1e-30, 0]), 8, True, axis=0, block_size=2, scale_type="float16")
    assert tiny.scale == 2.0**-24
    huge = affine.quantize_affine(np.array([3.4e38, -3.4e38]), 8, True, symmetric=False)
    assert np.isfinite(huge.scale).all()


def test_asymmetric_keeps_zero() -> None:
    for x in ([1.0, 2, 3], [-5.0, -1], [-1.0, 0, 7], [0.0, 0]):
        for n_bits, signed in ((8, True), (8, False), (4, False), (2, True), (16, False)):
            got = affine.quantize_affine(np.array([*x, 0]), n_bits, signed, symmetric=False)
            back = affine.dequantize_affine(got.codes, n_bits, signed, got.scale, got.zero_point)
            assert back[-1] == 0


def test_mx_edges() -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, 16:] = 2.0**-149
    codes, shared = mx.quantize_mx_float(x, "float8_e4m3", 8, 1, 16)
    assert shared.tolist() == [[1, 1]]
    assert not codes.any()
    # 3.0 rounds to 3, 3.5 ties to 4 and 5 ties to 4; the largest saturates at 6.
    x = np.array([[3.0, 3.5, 5.0, 7.9, -0.25, -0.1, 0.75, 1.25] * 2], np.float32)
    codes, shared = mx.quantize_mx_float(x, "float4_e2m1", 2, 1, 16)
    assert shared.tolist() == [[127]]
    assert codes[0, :8].tolist() == [5, 6, 6, 7, 8, 8, 2, 2]
    big = np.full((1, 16), 3.4e38, np.float32)
    assert mx.quantize_mx_int(big, 4, 2, 1, 16)[1].tolist() == [[252]]
    with pytest.raises(ValueError, match="multiple"):
        mx.quantize_mx_int(big, 4, 2, 1, 32)


def test_round_scales_ties_to_even() -> None:
    halves = np.array([0x3F808000, 0x3F818000, 0x3F808001], np.uint32).view(np.float32)
    assert scaling.round_scales(halves, "bfloat16").tolist() == [0x3F80, 0x3F82, 0x3F81]
    assert scaling.round_scales(np.array([1e9], np.float32), "float16") == np.inf
    raw = np.array([1.5], np.float16)
    assert scaling.widen_scales(raw, "float16").tolist() == [1.5]
