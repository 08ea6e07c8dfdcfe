"""Bounds-checked reading and plain writing of little-endian fields."""

from __future__ import annotations

from hurray.wire.reader import Field, Reader
from hurray.wire.writer import Writer

__all__ = ["Field", "Reader", "Writer"]
