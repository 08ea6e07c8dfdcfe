"""The methods of ``Tensor`` that hand over to converters."""

from __future__ import annotations

import numpy as np
import pytest

import hurray


def test_to_scipy_passes_copy_on() -> None:
    pytest.importorskip("scipy.sparse")
    t = hurray.from_numpy(np.eye(3)).to_layout("csr")
    held = t.values.to_numpy(copy=False)
    assert np.shares_memory(t.to_scipy(copy=False).data, held)
    assert np.shares_memory(t.to_scipy().data, held)
    assert not np.shares_memory(t.to_scipy(copy=True).data, held)


def test_to_torch_passes_copy_on() -> None:
    pytest.importorskip("torch")
    t = hurray.from_numpy(np.arange(3.0))
    assert t.to_torch(copy=True).tolist() == [0, 1, 2]
    with pytest.raises(hurray.CopyRequiredError):
        hurray.from_numpy(np.array([True, False])).to_torch(copy=False)
