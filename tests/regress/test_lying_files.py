"""File objects that miscount: an error, never memory that nobody filled, and never an endless loop."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import hurray

X = np.arange(500.0)
TARGET = io.BytesIO()
hurray.save(TARGET, {"x": X})
FILE = TARGET.getvalue()
with hurray.StreamWriter() as _writer:
    _writer.write(hurray.asarray(X))
    STREAM = _writer.getvalue()


class Miscounting(io.BytesIO):
    """Reads and writes truly, but tells something else."""

    tell_read: Any = None
    tell_write: Any = None

    def readinto(self, room: Any) -> Any:
        n = super().readinto(room)
        return self.tell_read(n) if self.tell_read is not None and n else n

    def write(self, data: Any) -> Any:
        n = super().write(data)
        return self.tell_write(n) if self.tell_write is not None else n


COUNTS: dict[str, Any] = {
    "more": lambda n: n + 5, "huge": lambda n: 2**70, "negative": lambda n: -3, "text": lambda n: "x",
    "float": lambda n: 1.5,
}  # fmt: skip


@pytest.mark.parametrize("count", ["more", "huge", "negative", "text"])
def test_counts_of_reading(count: str) -> None:
    for data, read in ((FILE, hurray.load), (STREAM, lambda source: list(hurray.StreamReader(source)))):
        source = Miscounting(data)
        source.tell_read = COUNTS[count]
        with pytest.raises((hurray.HurrayError, TypeError, ValueError)):
            read(source)


@pytest.mark.parametrize("count", ["more", "huge", "negative", "text", "float"])
def test_counts_of_writing(count: str) -> None:
    target = Miscounting()
    target.tell_write = COUNTS[count]
    with pytest.raises((hurray.HurrayError, TypeError)):
        hurray.save(target, {"x": X})
    assert target.getvalue() == b""


class Reads:
    """Only ``read``, which gives what it likes."""

    def __init__(self, data: bytes, give: Any) -> None:
        self.inner = io.BytesIO(data)
        self.give = give
        self.seek, self.tell = self.inner.seek, self.inner.tell

    def read(self, n: int = -1) -> Any:
        return self.give(self.inner.read(n))


@pytest.mark.parametrize("give", [lambda b: b + b"zz", lambda b: "text", lambda b: None, lambda b: 5], ids=range(4))
def test_what_reading_gives(give: Any) -> None:
    for data, read in ((FILE, hurray.load), (STREAM, lambda source: list(hurray.StreamReader(source)))):
        with pytest.raises((hurray.HurrayError, TypeError)):
            read(Reads(data, give))


def test_short_reads_and_writes_are_legal() -> None:
    class Slow(io.RawIOBase):
        def __init__(self, data: bytes = b"") -> None:
            self.inner = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def writable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, *args: Any) -> int:
            return self.inner.seek(*args)

        def tell(self) -> int:
            return self.inner.tell()

        def readinto(self, room: Any) -> int:
            return self.inner.readinto(memoryview(room)[:7])

        def write(self, data: Any) -> int:
            return self.inner.write(bytes(memoryview(data)[:1000]))

        def truncate(self, size: int | None = None) -> int:
            return self.inner.truncate(size)

    assert np.array_equal(hurray.load(Slow(FILE))["x"].to_numpy(), X)
    assert np.array_equal(next(hurray.StreamReader(Slow(STREAM))).to_numpy(), X)
    target = Slow()
    hurray.save(target, {"x": X})
    assert target.inner.getvalue() == FILE
