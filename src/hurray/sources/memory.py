"""A source over bytes in memory, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from hurray.sources._base import Bytes, check_range

__all__ = ["MemorySource"]


class MemorySource:
    """Bytes in memory; views share them and keep their owner alive.

    Parameters
    ----------
    data : bytes-like
        Anything with a C-contiguous buffer.
    name : str
        What messages call it.
    """

    __slots__ = ("_data", "name", "size")

    def __init__(self, data: Any, name: str = "<memory>") -> None:
        try:
            flat = memoryview(data)
        except (TypeError, ValueError):  # ValueError: arrays of dates, which have no buffer format
            raise TypeError(
                f"expected a path, bytes in memory or a binary file object, not {type(data).__name__}"
            ) from None
        if not flat.c_contiguous:
            raise TypeError("the memory is not C-contiguous, so its bytes are in no order")
        self._data: Bytes = np.frombuffer(flat, np.uint8) if flat.nbytes else np.empty(0, np.uint8)
        self._data.flags.writeable = False
        self.size = flat.nbytes
        self.name = name

    def view(self, offset: int, n_bytes: int) -> Bytes:
        """Return a byte range as a read-only view."""
        check_range(self, offset, n_bytes)
        return self._data[offset : offset + n_bytes]

    def read(self, offset: int, n_bytes: int) -> bytes:
        """Return a copy of a byte range."""
        return self.view(offset, n_bytes).tobytes()

    def close(self) -> None:
        """Let go of the memory; views keep it."""
        self._data = np.empty(0, np.uint8)
        self.size = 0
