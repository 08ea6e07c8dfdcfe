"""The memory that a buffer of a stream arrives in.

The bytes go straight to their final place, which is aligned to 64 bytes.  What is set aside is bounded by what has
really come: a buffer no larger than that (or than one step) gets all its memory at once; a larger one gets some pages,
which are doubled as they fill.  Doubling moves page tables, not bytes, where the system can.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.errors import StreamError
from hurray.sources._base import aligned_bytes

__all__ = ["Landing"]

Bytes = NDArray[np.uint8]

_PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
_HUGE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


class Landing:
    """Room for one buffer of ``size`` bytes, filled from the front.

    Parameters
    ----------
    size : int
        Bytes announced.
    trusted : int
        Bytes that may be set aside at once.

    Raises
    ------
    StreamError
        There is not enough memory.
    """

    __slots__ = ("_array", "_capacity", "_filled", "_pages", "_view", "size")

    def __init__(self, size: int, trusted: int) -> None:
        self.size = size
        self._filled = 0
        self._capacity = min(size, trusted)
        self._array: Bytes | None = None
        self._pages: mmap.mmap | None = None
        self._view: memoryview | None = None
        try:
            if self._capacity == size:
                self._array = aligned_bytes(size)
            else:
                self._pages = _new_pages(self._capacity)
        except (MemoryError, OSError, ValueError, OverflowError):
            raise self._refusal() from None

    @property
    def filled(self) -> int:
        """Bytes that have arrived."""
        return self._filled

    @property
    def is_full(self) -> bool:
        """True when every byte has arrived."""
        return self._filled == self.size

    def room(self, trusted: int) -> memoryview:
        """Return the memory of the next bytes; the view that was returned before becomes invalid.

        Raises
        ------
        StreamError
            There is not enough memory.
        """
        if self._array is not None:
            if self._view is None:
                self._view = self._array.data
            return self._view[self._filled :]
        if self._view is not None:
            self._view.release()
        if self._filled == self._capacity:
            self._grow(min(self.size, max(2 * self._capacity, trusted)))
        assert self._pages is not None
        self._view = memoryview(self._pages)[self._filled : self._capacity]
        return self._view

    def advance(self, n_bytes: int) -> None:
        """Note that ``n_bytes`` more bytes were put into the room."""
        self._filled += n_bytes

    def finish(self) -> Bytes:
        """Return the full buffer, 1-D uint8, aligned to 64 bytes, read-only."""
        self._view = None
        if self._array is None:
            assert self._pages is not None
            self._array = np.frombuffer(self._pages, np.uint8, self.size)
        self._array.flags.writeable = False
        return self._array

    def _grow(self, capacity: int) -> None:
        pages = self._pages
        assert pages is not None
        try:
            try:
                pages.resize(capacity)
            except (BufferError, SystemError, OSError):
                # Somebody still holds a view, or the system cannot move pages: copy them.
                self._pages = _new_pages(capacity)
                self._pages[: self._filled] = pages[: self._filled]
            _advise(self._pages)
        except (MemoryError, OSError, ValueError, OverflowError):
            raise self._refusal() from None
        self._capacity = capacity

    def _refusal(self) -> StreamError:
        return StreamError(f"not enough memory for a buffer of {self.size} bytes, of which {self._filled} have arrived")


def _new_pages(n_bytes: int) -> mmap.mmap:
    options: dict[str, Any] = _PRIVATE
    pages = mmap.mmap(-1, n_bytes, **options)
    _advise(pages)
    return pages


def _advise(pages: mmap.mmap | None) -> None:
    """Ask for huge pages, of which each first touch costs far less."""
    if _HUGE is not None and pages is not None:
        try:
            pages.madvise(_HUGE)
        except OSError:
            pass
