"""Shared by the tests: where things are, and the few comparisons that everyone needs."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SRC = ROOT / "src"
SHARED = ROOT.parent / "shared"


def corpus(name: str) -> Path:
    """Return a folder of the corpus: the copy beside the tests, else the project's shared one; skip without either."""
    for folder in (TESTS / "data" / name, SHARED / "corpus" / name):
        if (folder / "manifest.json").is_file():
            return folder
    pytest.skip(f"the corpus {name!r} is not here", allow_module_level=True)


@cache
def manifest(name: str) -> dict[str, Any]:
    """Return the manifest of a corpus folder."""
    found: dict[str, Any] = json.loads((corpus(name) / "manifest.json").read_text(encoding="utf-8"))
    return found


def artefacts(kind: str | None = None) -> list[dict[str, Any]]:
    """Return the artefacts of the peer corpus, of one kind (file, stream, descriptor) or all."""
    return [a for a in manifest("peer")["artefacts"] if kind in (None, a["kind"])]


def negative_cases(kind: str | None = None, phase: str | None = None) -> list[dict[str, Any]]:
    """Return the cases of the negative corpus, of one kind and phase or all."""
    return [c for c in manifest("negative")["cases"] if kind in (None, c["kind"]) and phase in (None, c["phase"])]


@cache
def peer_arrays(key: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the expected arrays of an artefact: ``key`` is its ``arrays`` entry."""
    with np.load(corpus("peer") / key, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def peer_python() -> str | None:
    """Return the interpreter that has the published binding, or None.

    The binding has the same import name as this library, so it only ever runs in a process of its own.
    """
    candidate = os.environ.get("HURRAY_PEER_PYTHON") or str(ROOT / ".venv-peer" / "bin" / "python")
    if not os.path.exists(candidate):
        return None
    return candidate if _has_peer(candidate) else None


@cache
def _has_peer(python: str) -> bool:
    probe = "from importlib.metadata import version; version('pyhurray'); import hurray"
    return subprocess.run([python, "-c", probe], capture_output=True, env=peer_env(), check=False).returncode == 0


def peer_env() -> dict[str, str]:
    """Return an environment in which the peer's interpreter finds its own packages only."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def run_peer(code: str, *args: str, timeout: float = 120) -> str:
    """Run ``code`` with the published binding and return what it printed; skip where it is not installed."""
    python = peer_python()
    if python is None:
        pytest.skip("the published binding is not installed; `make test` installs it")
    done = subprocess.run(
        [python, "-c", code, *args], capture_output=True, text=True, env=peer_env(), timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def our_env() -> dict[str, str]:
    """Return an environment in which a new interpreter imports this library from the source tree."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }


def bits(array: np.ndarray[Any, Any]) -> bytes:
    """Return the stored bits of an array in C order: NaN payloads and the signs of zeros count."""
    return np.ascontiguousarray(array).tobytes()


def assert_same_bits(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Assert that two arrays have one dtype, one shape and the same bits."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert bits(got) == bits(want)
