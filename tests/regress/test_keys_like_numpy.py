"""Keys at the edges of NumPy's rules, on tensors of every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hurray

CUBE = np.arange(24.0).reshape(2, 3, 4)
LAYOUTS = ["row_major", "col_major", "strided", "tiled", "morton", "coo", "csf", "block_paged"]
# An ellipsis that stands for no dimension still stands between index arrays, whose axes then come first.
KEYS: list[Any] = [
    (0, ..., [1, 2], slice(None)), ([0, 1], ..., slice(None), [0, 3]), (slice(None), 1, ..., [[0], [2]]),
    (slice(None, None, -1), np.int64(2), ..., np.array([False, True, True, False])), ([0], ..., [1], [2]),
    ([[0], [1]], slice(None), ..., 2), (0, ..., None, [1, 2], slice(None)), (..., 0, [0, 1], slice(1, 3)),
    (0, [0, 1], slice(1, 3), ...), (slice(0, 0), 1, ..., [1]), (None, 0, ..., [1, 2], 0), (1, ..., 2, 3),
    (1, 2, 3, ...),
]  # fmt: skip


def tensor(name: str, array: Any = CUBE) -> hurray.Tensor:
    options = {"tiled": {"tile_shape": [2, 2, 2]}, "block_paged": {"page_size": 2}}.get(name, {})
    return hurray.from_numpy(array).to_layout(name, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_empty_ellipsis_separates(layout: str) -> None:
    t = tensor(layout)
    for key in KEYS:
        got, want = t[key], CUBE[key]
        assert got.shape == want.shape, key
        assert np.array_equal(got, want), key


def test_an_empty_ellipsis_separates_in_quantized_and_composite_tensors() -> None:
    q = hurray.quantize(CUBE, "int8")
    whole = hurray.assemble(list(hurray.shard(CUBE, (2, 1, 2))), merge=False)
    values = q.dequantize().to_numpy()
    for key in KEYS:
        assert np.array_equal(q.dequantize(key).to_numpy(), values[key])
        assert np.array_equal(whole[key], CUBE[key])


@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16", "float8_e5m2", "int4", "bool", "uint2"])
def test_a_tensor_without_dimensions(dtype: str) -> None:
    t = hurray.ones([], dtype=hurray.dtype.Dtype.from_name(dtype))
    array = t.to_numpy()
    for key in ((), ..., (...,), None, (None, ...), (..., None)):
        got, want = t[key], array[key]
        assert type(got) is type(want)
        assert got.dtype == want.dtype
        assert np.shape(got) == np.shape(want)
        assert got == want
