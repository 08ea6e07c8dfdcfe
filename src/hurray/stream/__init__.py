"""Tensors one after another: the byte stream, parsed without I/O, read and written over any transport.

Format: streams.
"""

from __future__ import annotations

from hurray.stream.parser import StreamParser
from hurray.stream.reader import StreamReader
from hurray.stream.writer import StreamWriter

__all__ = ["StreamParser", "StreamReader", "StreamWriter"]
