"""Messages that say what to do, for the mistakes that newcomers make."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hurray

ROWS = np.array([[0, 0], [1, 1], [2, 1]])
FILE = io.BytesIO()
hurray.save(FILE, {"layer.weight": np.ones(3), "bias": np.ones(3)})
Q = hurray.quantize(np.ones(64, np.float32), "nf4")

CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "coordinates of SciPy": (lambda: hurray.sparse_coo([1, 2, 3], ROWS.T, (3, 2)), ValueError, "transpose them"),
    "narrow indices": (
        lambda: hurray.Tensor(
            np.ones(3), hurray.float64, [3, 2], layout=hurray.CsrLayout(3),
            aux_buffers=[np.array([0, 1, 1], np.int32), np.arange(4, dtype=np.int32)],
        ), hurray.BufferError, r"\(col_indices\) has 12 bytes.* at least 24; its entries are uint64",
    ),
    "nested names": (lambda: hurray.save(io.BytesIO(), {"a": {"b": np.ones(2)}}), hurray.UnsupportedError, "'a.b'"),
    "nested metadata": (lambda: hurray.save(io.BytesIO(), {}, kv={"c": {"d": 1}}), hurray.FileError, "JSON text"),
    "metadata None": (lambda: hurray.save(io.BytesIO(), {}, kv={"c": None}), hurray.FileError, "NoneType is no kv"),
    "long double": (
        lambda: hurray.asarray(np.zeros(2, np.clongdouble)), hurray.UnsupportedError, "no IEEE binary128",
    ),
    "a list of tensors": (lambda: hurray.save(io.BytesIO(), [np.ones(2)]), TypeError, "mapping of names"),
    "a mistyped name": (
        lambda: hurray.open(FILE)["layer.wieght"], KeyError, "did you mean 'layer.weight'",
    ),
    "a slice of codes": (lambda: Q[:3], hurray.UnsupportedError, r"dequantize\(key\) for those of a slice"),
    "a dtype by name": (lambda: Q.dequantize(dtype="float16"), TypeError, r"hurray\.Dtype such as hurray\.float32"),
    "a recipe": (lambda: hurray.quantize([1.0], "int5"), ValueError, "known: int8, "),
    "a lonely array": (lambda: hurray.from_numpy([1.0]), TypeError, "use asarray"),
    "an array of a sparse tensor": (
        lambda: np.asarray(hurray.eye(2).to_layout("csr")), hurray.UnsupportedError, r"use to_numpy\(\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_to_do_is_said(case: str) -> None:
    make, error, match = CASES[case]
    with pytest.raises(error, match=match):
        make()


def test_dir_has_the_public_names_and_no_others() -> None:
    names = dir(hurray)
    assert {name for name in names if not name.startswith("__")} == set(hurray.__all__) - {"__version__"}
    assert "__doc__" in names


def test_the_docstring_maps_the_package() -> None:
    described = hurray.__doc__ or ""
    for name in ("save", "open", "asarray", "quantize", "to_layout", "paged", "overlay", "share", "convert"):
        assert name in described
