"""Append little-endian fields to a growing byte string."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["Writer"]


class Writer:
    """Collect fields; the caller has checked every range."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def u8(self, value: int) -> None:
        """Append an unsigned byte."""
        self._data.append(value)

    def u16(self, value: int) -> None:
        """Append a u16."""
        self._data += struct.pack("<H", value)

    def u32(self, value: int) -> None:
        """Append a u32."""
        self._data += struct.pack("<I", value)

    def u64(self, value: int) -> None:
        """Append a u64."""
        self._data += struct.pack("<Q", value)

    def i32(self, value: int) -> None:
        """Append an i32."""
        self._data += struct.pack("<i", value)

    def i64(self, value: int) -> None:
        """Append an i64."""
        self._data += struct.pack("<q", value)

    def f32(self, value: float) -> None:
        """Append an f32."""
        self._data += struct.pack("<f", value)

    def f64(self, value: float) -> None:
        """Append an f64."""
        self._data += struct.pack("<d", value)

    def u32s(self, values: Sequence[int]) -> None:
        """Append u32 values back to back."""
        self._data += struct.pack(f"<{len(values)}I", *values)

    def u64s(self, values: Sequence[int]) -> None:
        """Append u64 values back to back."""
        self._data += struct.pack(f"<{len(values)}Q", *values)

    def i64s(self, values: Sequence[int]) -> None:
        """Append i64 values back to back."""
        self._data += struct.pack(f"<{len(values)}q", *values)

    def raw(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes as they are."""
        self._data += data

    def zeros(self, n_bytes: int) -> None:
        """Append ``n_bytes`` zero bytes."""
        self._data += bytes(n_bytes)

    def patch_u32(self, at: int, value: int) -> None:
        """Overwrite the u32 at byte ``at``."""
        struct.pack_into("<I", self._data, at, value)

    def getvalue(self) -> bytes:
        """Return everything appended so far."""
        return bytes(self._data)
