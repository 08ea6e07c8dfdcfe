"""Random-access bytes, whatever they come from."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.errors import FileError, UnsupportedError
from hurray.sources import (
    FileMissingError,
    FileObjectSource,
    FileSource,
    MappedSource,
    MemorySource,
    is_url,
    mapped,
    open_source,
)

DATA = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "data.bin"
    target.write_bytes(DATA)
    return target


def sources(path: Path) -> dict[str, Any]:
    return {
        "mapped": open_source(path),
        "read": open_source(path, "read"),
        "memory": open_source(DATA),
        "object": open_source(io.BytesIO(DATA)),
    }


@pytest.mark.parametrize("kind", ["mapped", "read", "memory", "object"])
def test_views_show_the_bytes(path: Path, kind: str) -> None:
    source = sources(path)[kind]
    assert source.size == len(DATA)
    for offset, n_bytes in ((0, len(DATA)), (3, 1000), (len(DATA), 0), (0, 0), (len(DATA) - 1, 1)):
        view = source.view(offset, n_bytes)
        assert view.dtype == np.uint8
        assert view.shape == (n_bytes,)
        assert not view.flags.writeable
        assert view.tobytes() == source.read(offset, n_bytes) == DATA[offset : offset + n_bytes]
    source.close()


@pytest.mark.parametrize("kind", ["mapped", "read", "memory", "object"])
@pytest.mark.parametrize(
    ("offset", "n_bytes"), [(-1, 1), (0, -1), (0, len(DATA) + 1), (len(DATA) + 1, 0), (2**63, 2**63)]
)
def test_ranges_outside_are_refused(path: Path, kind: str, offset: int, n_bytes: int) -> None:
    source = sources(path)[kind]
    for get in (source.view, source.read):
        with pytest.raises(FileError, match="outside"):
            get(offset, n_bytes)


def test_strategies_choose_the_source(path: Path) -> None:
    assert isinstance(open_source(path), MappedSource)
    assert isinstance(open_source(str(path), "mmap"), MappedSource)
    assert isinstance(open_source(path, "read"), FileSource)
    assert isinstance(open_source(DATA), MemorySource)
    with path.open("rb") as file:
        assert isinstance(open_source(file), MappedSource)
        assert isinstance(open_source(file, "read"), FileObjectSource)
    with path.open("rb", buffering=0) as file:
        assert isinstance(open_source(file), MappedSource)
    with pytest.raises(ValueError, match="strategy"):
        open_source(path, "guess")
    with pytest.raises(FileError, match="cannot be mapped"):
        open_source(io.BytesIO(DATA), "mmap")


def test_read_memory_is_aligned_and_mapped_memory_is_shared(path: Path) -> None:
    assert open_source(path, "read").view(7, 100).ctypes.data % 64 == 0
    mapped = open_source(path)
    assert mapped.view(10, 5).ctypes.data - mapped.view(0, 5).ctypes.data == 10
    owner = np.arange(6, dtype=">i4").reshape(2, 3)
    memory = open_source(owner)
    assert memory.view(4, 8).ctypes.data == owner.ctypes.data + 4
    assert owner.flags.writeable


def test_views_outlive_the_source_and_the_file(path: Path) -> None:
    for source in sources(path).values():
        view = source.view(5, 50)
        source.close()
        source.close()
        assert view.tobytes() == DATA[5:55]
    view = open_source(path).view(5, 50)
    path.unlink()
    assert view.tobytes() == DATA[5:55]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open descriptors cannot be counted here")
def test_descriptors_go_away_with_the_source(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for strategy in ("mmap", "read"):
        source = open_source(path, strategy)
        source.close()
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_mapped_file_is_read_past_the_map(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(path)
    with path.open("rb") as file:
        file.seek(7)
        assert open_source(file).read(3, 5) == DATA[3:8]
        assert file.tell() == 7
    if hasattr(os, "pread"):
        whole = os.pread
        monkeypatch.setattr(os, "pread", lambda fd, n, at: whole(fd, min(n, 3), at))
        assert source.read(10, 50) == DATA[10:60]
        os.truncate(path, 20)
        with pytest.raises(FileError, match="ends at byte 20"):
            source.read(10, 50)
    monkeypatch.setattr(mapped, "_HAS_PREAD", False)
    path.write_bytes(DATA)
    assert open_source(path).read(10, 50) == DATA[10:60]


@pytest.mark.skipif(not hasattr(os, "dup"), reason="descriptors cannot be duplicated here")
def test_a_map_without_a_descriptor_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(fd: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "dup", none_left)
    assert open_source(path).read(10, 50) == DATA[10:60]


def test_empty_files(tmp_path: Path) -> None:
    target = tmp_path / "empty"
    target.touch()
    for source in (open_source(target), open_source(target, "read"), open_source(b""), open_source(io.BytesIO())):
        assert source.size == 0
        assert source.view(0, 0).shape == (0,)
    assert open_source(np.empty((3, 0))).size == 0


def test_a_missing_file_is_a_file_error_and_a_file_not_found_error(tmp_path: Path) -> None:
    for strategy in ("auto", "mmap", "read"):
        with pytest.raises(FileMissingError, match="absent") as caught:
            open_source(tmp_path / "absent", strategy)
        error = caught.value
        assert isinstance(error, FileNotFoundError)
        assert isinstance(error, hurray.FileError)
        assert error.errno == 2
        assert error.filename == str(tmp_path / "absent")
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.errno, again.filename) == (
            FileMissingError, str(error), 2, error.filename,
        )  # fmt: skip


def test_a_directory_is_refused_by_name(tmp_path: Path) -> None:
    for strategy in ("auto", "mmap", "read"):
        with pytest.raises(IsADirectoryError) as caught:
            open_source(tmp_path, strategy)
        assert isinstance(caught.value, FileError)
    with pytest.raises(FileError):
        open_source(str(tmp_path / "a\0b"))


def test_text_mode_is_refused_with_words(path: Path) -> None:
    with path.open(encoding="latin-1") as file, pytest.raises(TypeError, match="binary"):
        open_source(file)
    with pytest.raises(TypeError, match="binary"):
        open_source(io.StringIO("x"))


def test_what_holds_no_bytes_is_refused() -> None:
    for target in (7, None, ["x"]):
        with pytest.raises(TypeError, match="path"):
            open_source(target)
    with pytest.raises(TypeError, match="contiguous"):
        open_source(np.arange(10)[::2])


def test_a_decompressing_reader_is_read_not_mapped(tmp_path: Path) -> None:
    target = tmp_path / "data.gz"
    target.write_bytes(gzip.compress(DATA))
    with gzip.open(target, "rb") as file:
        source = open_source(file)
        assert isinstance(source, FileObjectSource)
        assert source.view(100, 300).tobytes() == DATA[100:400]


def test_unflushed_bytes_of_a_file_object_are_seen(tmp_path: Path) -> None:
    with (tmp_path / "new").open("w+b") as file:
        file.write(DATA)
        assert open_source(file).view(0, len(DATA)).tobytes() == DATA
        assert not file.closed


class Trickle(io.RawIOBase):
    """A raw file that gives a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def readinto(self, out: Any) -> int:
        return self._inner.readinto(memoryview(out)[:7])


class OnlyRead:
    """The least that a file object can have."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)
        self.seek = self._inner.seek
        self.tell = self._inner.tell
        self.read = self._inner.read


def test_short_reads_and_bare_objects() -> None:
    assert open_source(Trickle(DATA)).view(11, 500).tobytes() == DATA[11:511]
    assert open_source(OnlyRead(DATA)).view(11, 500).tobytes() == DATA[11:511]


def test_the_position_of_a_file_object_does_not_matter() -> None:
    file = io.BytesIO(DATA)
    file.seek(77)
    source = open_source(file)
    assert file.tell() == 77
    assert source.view(0, 3).tobytes() == DATA[:3]


def test_an_object_that_cannot_seek_or_is_closed() -> None:
    class Pipe(io.RawIOBase):
        def readable(self) -> bool:
            return True

    with pytest.raises(FileError, match="cannot seek"):
        open_source(Pipe())
    file = io.BytesIO(DATA)
    source = open_source(file)
    file.close()
    with pytest.raises(FileError, match="closed"):
        source.view(0, 1)
    with pytest.raises(FileError):
        open_source(file)


def test_a_file_cut_while_it_is_open(path: Path) -> None:
    source = open_source(path, "read")
    os.truncate(path, 100)
    with pytest.raises(FileError, match="ends at byte 100"):
        source.view(50, 100)


def test_a_closed_file_source_says_so(path: Path) -> None:
    source = open_source(path, "read")
    source.close()
    with pytest.raises(FileError, match="closed"):
        source.view(0, 1)


def test_a_pipe_cannot_be_read_at_random(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    try:
        with pytest.raises(FileError):
            open_source(fifo)
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("s3://b/k", True), ("memory://x", True), ("https://h/x", True), ("/a/b", False), ("C://x", False), ("", False)],
)
def test_what_a_url_is(text: str, expected: bool) -> None:
    assert is_url(text) is expected


def test_a_url_without_fsspec_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UnsupportedError, match="fsspec"):
        open_source("memory://x")


def test_urls_through_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec")
    assert isinstance(fsspec, types.ModuleType)
    hurray.save("memory://hurray/x.hrry", {"a": np.arange(5000)}, kv={"k": 1})
    loaded = hurray.load("memory://hurray/x.hrry")
    assert np.array_equal(loaded["a"].to_numpy(), np.arange(5000))
    assert hurray.load_kv("memory://hurray/x.hrry") == {"k": 1}
    with hurray.open("memory://hurray/x.hrry") as file:
        assert np.array_equal(pickle.loads(pickle.dumps(file))["a"][10:20], np.arange(10, 20))
    with pytest.raises(FileNotFoundError):
        hurray.open("memory://hurray/absent.hrry")
    with pytest.raises(FileError, match="mapped"):
        hurray.open("memory://hurray/x.hrry", strategy="mmap")
    with pytest.raises(RuntimeError, match="stop"), hurray.Writer("memory://hurray/torn.hrry") as writer:
        writer.add("a", np.arange(3))
        raise RuntimeError("stop")
    with pytest.raises(FileNotFoundError):
        hurray.open("memory://hurray/torn.hrry")
