"""``asarray``, ``save`` and streams take the tensors of other libraries as they are."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hurray

DENSE = np.array([[0, 2.5, 0], [1, 0, 0]])


def _scipy(form: str) -> Any:
    return pytest.importorskip("scipy.sparse").coo_array(DENSE).asformat(form)


def _sparse(form: str) -> Any:
    return pytest.importorskip("sparse").COO.from_numpy(DENSE).asformat(form)


def _arrow(kind: str) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.Tensor.from_numpy(DENSE) if kind == "Tensor" else getattr(pa, kind).from_dense_numpy(DENSE)


def _torch(form: str) -> Any:
    torch = pytest.importorskip("torch")
    dense = torch.from_numpy(DENSE)
    return torch.nn.Parameter(dense) if form == "parameter" else dense.to_sparse(layout=getattr(torch, form))


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "SciPy csr": (lambda: _scipy("csr"), "csr"),
    "SciPy csc": (lambda: _scipy("csc"), "csc"),
    "SciPy lil": (lambda: _scipy("lil"), "csr"),
    "PyData COO": (lambda: _sparse("coo"), "coo"),
    "PyData GCXS": (lambda: _sparse("gcxs"), "csr"),
    "Arrow tensor": (lambda: _arrow("Tensor"), "row_major"),
    "Arrow coo": (lambda: _arrow("SparseCOOTensor"), "coo"),
    "Arrow csc": (lambda: _arrow("SparseCSCMatrix"), "csc"),
    "torch parameter": (lambda: _torch("parameter"), "row_major"),
    "torch coo": (lambda: _torch("sparse_coo"), "coo"),
    "torch csr": (lambda: _torch("sparse_csr"), "csr"),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_the_form_is_kept(case: str) -> None:
    make, layout = CASES[case]
    given = make()
    t = hurray.asarray(given)
    assert t.layout.name == layout
    np.testing.assert_array_equal(t.to_numpy(), DENSE)
    narrow = hurray.asarray(given, dtype=hurray.float32)
    assert (narrow.layout.name, narrow.dtype) == (layout, hurray.float32)
    file = io.BytesIO()
    hurray.save(file, {"x": given})
    with hurray.StreamWriter() as out:
        out.write(given)
    for again in (hurray.load(file)["x"], *hurray.StreamReader(out.getvalue())):
        assert again.layout.name == layout
        np.testing.assert_array_equal(again.to_numpy(), DENSE)
