"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hurray

Run = tuple[int, str, str]
Call = Callable[..., Run]

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs the command line in this process."""
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    from hurray.cli.main import run

    def call(*arguments: object) -> Run:
        code = run([str(a) for a in arguments])
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


@pytest.fixture(scope="session")
def every_layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a tensor in every layout, quantized ones, a shard and composites."""
    sparse = np.where(X % 5 == 0, X, 0)
    pages = hurray.from_numpy(np.arange(56, dtype=np.float32).reshape(7, 4, 2)).to_layout(
        "block_paged", page_size=2, sequence_lengths=[3, 4]
    )
    path = tmp_path_factory.mktemp("cli") / "every.hrry"
    tensors = {
        "row_major": X,
        "col_major": np.asfortranarray(X),
        "strided": hurray.from_numpy(X).to_layout("strided"),
        "tiled": hurray.from_numpy(X).to_layout("tiled", tile_shape=(2, 4)),
        "morton": hurray.from_numpy(X).to_layout("morton"),
        "hilbert": hurray.from_numpy(X[:, :4].copy()).to_layout("hilbert"),
        **{name: hurray.from_numpy(sparse).to_layout(name) for name in ("coo", "csr", "csc")},
        "csf": hurray.from_numpy(sparse.reshape(2, 2, 6)).to_layout("csf", mode_order=(2, 0, 1)),
        "block_paged": pages,
        "q": hurray.quantize(X, "int8_per_channel", symmetric=False),
        "q_csr": hurray.quantize(hurray.from_numpy(sparse).to_layout("csr"), "int8"),
        "scalar": np.float64(2.5),
        "ints": np.arange(5),
        "part": hurray.shard(X, (1, 2))[1],
        "parts": hurray.assemble(hurray.shard(X, (2, 1))),
        "group": hurray.Composite("group", shape=[], dtype=hurray.float32, members=[hurray.ones([2])]),
    }
    hurray.save(path, tensors, kv={"step": 12})
    return path
