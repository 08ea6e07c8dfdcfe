"""What a task is given: sizes, a folder in memory, other interpreters."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.interpreter import Interpreter, find_peer
from benchmarks.model import Skipped

__all__ = ["Context", "warm_memory"]

T = TypeVar("T")
_SHM = Path("/dev/shm")
_PEER_SETUP = """
import os
import numpy as np
import hurray
"""


class Context:
    """The surroundings of one task in one process.

    Parameters
    ----------
    quick : bool
        Small sizes: shows that everything runs, its figures say nothing.
    folder : Path
        Where files go.
    """

    def __init__(self, *, quick: bool, folder: Path) -> None:
        self.quick = quick
        self.folder = folder
        self.rng = np.random.default_rng(20240229)
        self._interpreters: list[Interpreter] = []
        self._peer: Interpreter | None = None
        self._peer_python: str | None = None

    def size(self, full: T, quick: T) -> T:
        """Return one of two sizes."""
        return quick if self.quick else full

    def path(self, name: str) -> str:
        """Return a path in the task's folder."""
        return str(self.folder / name)

    def peer(self) -> Interpreter:
        """Return the interpreter with the published binding, started on first use.

        Raises
        ------
        Skipped
            There is none.
        """
        if self._peer is None:
            self._peer = self.start(Interpreter(self.peer_python(), isolated=True))
            self._peer.exec(_PEER_SETUP)
        return self._peer

    def peer_python(self) -> str:
        """Return the path of the interpreter with the published binding.

        Raises
        ------
        Skipped
            There is none.
        """
        if self._peer_python is None:
            self._peer_python = find_peer() or ""
        if not self._peer_python:
            raise Skipped("no interpreter with pyhurray (HURRAY_PEER_PYTHON names one; `make bench` installs it)")
        return self._peer_python

    def python(self) -> Interpreter:
        """Return a new interpreter with this library."""
        return self.start(Interpreter())

    def start(self, interpreter: Interpreter) -> Interpreter:
        """Close an interpreter when the task ends."""
        self._interpreters.append(interpreter)
        return interpreter

    def close(self) -> None:
        """End the interpreters."""
        for interpreter in self._interpreters:
            interpreter.close()


def memory_folder() -> Path:
    """Return a new folder on a file system in memory where there is one, else among the temporary files."""
    home = _SHM if _SHM.is_dir() and os.access(_SHM, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="hurray-bench-", dir=home))


def remove_folder(folder: Path) -> None:
    """Remove a folder and all in it."""
    shutil.rmtree(folder, ignore_errors=True)


def warm_memory(n_bytes: int) -> None:
    """Touch memory once and give it back.

    A virtual machine's host backs a page when it is first touched, at a fraction of the usual speed. The pages come
    from the system, not from the heap, so that the heap keeps no hole that later arrays would find already mapped.
    """
    if n_bytes <= 0:
        return
    with mmap.mmap(-1, n_bytes) as area:
        for start in range(0, n_bytes, 1 << 20):
            stop = min(start + (1 << 20), n_bytes)
            area[start:stop] = b"\1" * (stop - start)
