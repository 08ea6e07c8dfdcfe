"""Look-up of packed codes: what it refuses, and that codes at odd addresses are read as any others."""

from __future__ import annotations

import numpy as np
import pytest

from hurray.kernels import lookup, nf4


def test_packed_refuses_what_it_cannot_do() -> None:
    data = np.zeros(3, np.uint8)
    with pytest.raises(ValueError, match="whole bytes"):
        lookup.dequantize_packed(data, 4, nf4.LEVELS, None, shape=(2, 3))
    with pytest.raises(ValueError, match="whole bytes"):
        lookup.dequantize_packed(data, 4, nf4.LEVELS, np.ones((1, 6), np.float32), shape=(1, 6), axis=1)
    with pytest.raises(ValueError, match="whole groups"):
        lookup.dequantize_packed_six(data, np.zeros(64, np.float32), None, shape=(2, 2))
    with pytest.raises(ValueError, match="float32"):
        lookup.dequantize_packed(data, 4, nf4.LEVELS, None, shape=(6,), out=np.empty(6))  # type: ignore[arg-type]


@pytest.mark.parametrize("wide", [0, 1 << 30])
def test_unaligned_bytes(monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    monkeypatch.setattr(lookup, "_WIDE_ELEMS", wide)
    data = np.arange(33, dtype=np.uint8)
    codes = np.stack([data[1:] & 15, data[1:] >> 4], axis=-1).reshape(-1)
    got = lookup.dequantize_packed(data[1:], 4, nf4.LEVELS, None, shape=(64,))
    assert np.array_equal(got, nf4.LEVELS[codes])
    table = np.arange(256, dtype=np.float32) - 7
    got = lookup.dequantize_packed(data[1:], 8, table, np.full((1, 1), 2, np.float32), shape=(2, 16), axis=0)
    assert np.array_equal(got.reshape(-1), 2 * table[data[1:]])


def test_two_bit_codes_by_two_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_WIDE_ELEMS", 0)
    data = np.random.default_rng(0).integers(0, 256, 64).astype(np.uint8)
    table = np.array([0, 1, -2, -1], np.float32)
    scale = np.arange(1, 17, dtype=np.float32).reshape(1, 16)
    got = lookup.dequantize_packed(data, 2, table, scale, shape=(1, 256), axis=1, block_size=16)
    codes = np.stack([(data >> s) & 3 for s in (0, 2, 4, 6)], axis=-1).reshape(1, 256)
    assert np.array_equal(got, np.repeat(scale, 16, axis=1) * table[codes])
