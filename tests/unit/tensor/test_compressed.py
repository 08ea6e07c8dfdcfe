"""csr and csc tensors from their component arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hurray

DENSE = np.array([[1, 0, 0, 2, 0], [0, 0, 3, 0, 0], [0, 4, 0, 0, 5], [0, 0, 0, 0, 0]], np.float32)
CSR = ([1, 2, 3, 4, 5], [0, 3, 2, 1, 4], [0, 2, 3, 5, 5])
CSC = ([1, 4, 3, 2, 5], [0, 2, 1, 0, 2], [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", ">i8", ">u2"])
@pytest.mark.parametrize(("make", "parts"), [(hurray.sparse_csr, CSR), (hurray.sparse_csc, CSC)])
def test_every_kind_of_index(make: Any, parts: Any, dtype: str) -> None:
    values = np.array(parts[0], np.float32)
    indices, pointers = (np.array(p, dtype) for p in parts[1:])
    t = make(values, indices, pointers, (4, 5))
    np.testing.assert_array_equal(t.to_numpy(), DENSE)
    assert t.nnz == 5
    assert t.dtype is hurray.float32
    shared = np.dtype(dtype).itemsize == 8 and np.dtype(dtype).isnative
    assert np.shares_memory(t.buffer(1).to_numpy(), indices) is shared
    assert not np.shares_memory(make(values, indices, pointers, (4, 5), copy=True).buffer(1).to_numpy(), indices)
    if not shared:
        with pytest.raises(hurray.CopyRequiredError, match="indices"):
            make(values, indices, pointers, (4, 5), copy=False)


def test_tensors_and_strided_values_are_taken() -> None:
    t = hurray.sparse_csr(*map(hurray.asarray, CSR), (4, 5))
    again = hurray.sparse_csr(t.values, t.col_indices, t.row_ptr, t.shape)
    np.testing.assert_array_equal(again.to_numpy(), DENSE)
    spaced = np.repeat(np.array(CSR[0], np.float32), 2)[::2]
    np.testing.assert_array_equal(hurray.sparse_csr(spaced, *CSR[1:], (4, 5)).to_numpy(), DENSE)
    with pytest.raises(hurray.CopyRequiredError, match="order"):
        hurray.sparse_csr(spaced, *(np.array(p, "u8") for p in CSR[1:]), (4, 5), copy=False)


def test_nothing_stored() -> None:
    t = hurray.sparse_csc(np.empty(0), [], [0, 0, 0], (3, 2))
    assert t.nnz == 0
    assert t.to_numpy().tolist() == [[0, 0]] * 3
    assert hurray.sparse_csr([], [], [0], (0, 2)).shape == (0, 2)


@pytest.mark.parametrize(
    ("parts", "shape", "match"),
    [
        ((CSR[0], CSR[1], [0, 2]), (4, 5), r"row_ptr must be integers of shape \(5,\)"),
        ((CSR[0], CSR[1][:4], CSR[2]), (4, 5), r"col_indices must be integers of shape \(5,\)"),
        ((CSR[0], [0.5] * 5, CSR[2]), (4, 5), "col_indices must be integers"),
        ((CSR[0], [0, 3, -2, 1, 4], CSR[2]), (4, 5), r"col_indices\[2\] is -2"),
        ((CSR[0], [3, 0, 2, 1, 4], CSR[2]), (4, 5), r"col_indices\[1\]"),
        ((CSR[0], [0, 5, 2, 1, 4], CSR[2]), (4, 5), r"col_indices\[1\]"),
        ((CSR[0], CSR[1], [0, 3, 2, 5, 5]), (4, 5), r"row_ptr"),
        (([CSR[0]], CSR[1], CSR[2]), (4, 5), "one dimension"),
        (CSR, (4, 5, 1), "rank 2"),
        ((CSR[0], [[1], [2, 3]], CSR[2]), (4, 5), "no array"),
    ],
)
def test_parts_that_do_not_fit(parts: Any, shape: tuple[int, ...], match: str) -> None:
    with pytest.raises(hurray.InvalidDescriptorError, match=match):
        hurray.sparse_csr(*parts, shape)


def test_quantized_values_are_refused() -> None:
    with pytest.raises(hurray.UnsupportedError, match="dequantize"):
        hurray.sparse_csr(hurray.quantize(np.ones(5, np.float32), "int8"), *CSR[1:], (4, 5))
