"""Pointer arrays from runs of equal coordinates.

Ascending coordinates change in few places, and those are found by comparing neighbours, which vector units do at once;
counting every coordinate takes several times as long.

Format: layouts, csr / csc.
"""

from __future__ import annotations

import numpy as np

from .keys import I64, U64

__all__ = ["RunCounter"]


class RunCounter:
    """Make the pointer array of ascending major coordinates from the places where runs of equal ones start."""

    def __init__(self, n_major: int) -> None:
        self._ptr = np.zeros(n_major + 1, np.uint64)
        self._counts = self._ptr[1:].view(np.int64)
        # The run that has not ended yet.
        self._major = -1
        self._start = 0

    def add(self, starts: I64, majors: U64) -> None:
        """Take in ascending starts of runs, behind all that came before, and the major of each, below `n_major`."""
        if not len(starts):
            return
        if self._major >= 0:
            self._counts[self._major] = int(starts[0]) - self._start
        # Indices and values of the array's own type: NumPy converts any other ones value by value.
        self._counts[majors[:-1].view(np.int64)] = starts[1:] - starts[:-1]
        self._major, self._start = int(majors[-1]), int(starts[-1])

    def finish(self, n_entries: int) -> U64:
        """Return the pointer array."""
        if self._major >= 0:
            self._counts[self._major] = n_entries - self._start
        np.cumsum(self._counts, out=self._counts)
        return self._ptr
