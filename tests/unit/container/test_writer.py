"""Writing files: one pass, all or nothing."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
import hurray
from hurray.errors import FileError, UnsupportedError
from hurray.sources.sink import Output

A = np.arange(6.0).reshape(2, 3)


def listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_one_tensor_to_the_byte(tmp_path: Path) -> None:
    target = tmp_path / "a.hrry"
    with hurray.Writer(target, kv={"k": True}, tensor_count_hint=1) as writer:
        writer.add("n\u00e9", A)
    data = target.read_bytes()
    descriptor = hurray.from_numpy(A).descriptor.encode()
    assert data[:36] == b"HRRYFILE\1\0\0\0\5\0\0\0" + struct.pack("<IQQ", 4096, 64, 1)
    assert data[36:64] == bytes(28)
    assert data[64 : 64 + len(descriptor)] == descriptor
    assert data[64 + len(descriptor) : 4096] == bytes(4096 - 64 - len(descriptor))
    assert data[4096:4144] == A.tobytes()
    kv = b"\1\0\0\0\1\0k\5\1"
    assert data[4144:4160] == kv + bytes(7)
    index = struct.pack("<Q", 1) + b"\3\0n\xc3\xa9" + struct.pack("<QIQQI", 64, len(descriptor), 4096, 48, 0)
    assert data[4160 : 4160 + len(index)] == index
    assert data[-40:-12] == struct.pack("<QQQI", 4160, len(index), 4144, len(kv))
    assert data[-8:] == b"\0\0\0\0HRRY"
    assert len(data) == 4160 + len(index) + 40


def test_buffers_start_at_the_alignment() -> None:
    sparse = hurray.from_numpy(np.eye(5)).to_layout("csr")
    for alignment in (4096, 16384, 1 << 21):
        target = io.BytesIO()
        hurray.save(target, {"s": sparse, "e": np.zeros((0, 2)), "t": sparse}, alignment=alignment)
        file = hurray.open(target)
        assert file.header.alignment == alignment
        for entry in file._index:
            assert entry.descriptor_offset % 8 == 0
            assert entry.data_offset % alignment == 0
        assert [e.data_length for e in file._index] == [2 * alignment + 48, 0, 2 * alignment + 48]
        assert np.array_equal(file["t"].to_numpy(), np.eye(5))
        assert hurray.verify(target).problems == []


@pytest.mark.parametrize("alignment", [0, 1, 64, 2048, 4097, 6144, 1 << 22, -4096])
def test_alignments_that_the_format_forbids(tmp_path: Path, alignment: int) -> None:
    with pytest.raises(FileError, match="alignment"):
        hurray.save(tmp_path / "a.hrry", {"a": A}, alignment=alignment)
    assert listing(tmp_path) == []


def test_the_index_in_name_order() -> None:
    names = ["b", "a", "\u65e5", "ab", "Z", "\u00e9"]
    target = io.BytesIO()
    hurray.save(target, {n: np.full(2, k) for k, n in enumerate(names)}, sort_index=True)
    assert list(hurray.load(target)) == sorted(names, key=str.encode)
    assert hurray.open(target).header.is_sorted
    assert [int(t.to_numpy()[0]) for t in hurray.load(target).values()] == [4, 1, 3, 0, 5, 2]
    plain = io.BytesIO()
    hurray.save(plain, {n: np.full(2, k) for k, n in enumerate(names)})
    assert list(hurray.load(plain)) == names


def test_what_is_unknown_at_the_start_is_filled_in(tmp_path: Path) -> None:
    with hurray.Writer(tmp_path / "a.hrry") as writer:
        writer.add("a", A)
        writer.set_kv({"x": 1, "y": 2})
        writer.add("b", A)
        writer.set_kv({"y": 3})
    with hurray.open(tmp_path / "a.hrry") as file:
        assert file.header.has_kv
        assert file.header.tensor_count_hint == 2
        assert file.kv == {"x": 1, "y": 3}


class Pipe(io.RawIOBase):
    """A sink that cannot seek, and takes a few bytes at a time."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.data = bytearray()
        self._most = most

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = memoryview(data)[: self._most]
        self.data += piece
        return len(piece)


def test_a_sink_that_cannot_seek() -> None:
    pipe = Pipe(1000)
    with hurray.Writer(pipe, kv={"k": 1}) as writer:
        writer.add("a", np.arange(100_000))
    header = hurray.open(bytes(pipe.data)).header
    assert header.has_kv
    assert header.tensor_count_hint is None
    assert np.array_equal(hurray.load(bytes(pipe.data))["a"].to_numpy(), np.arange(100_000))
    late = Pipe()
    with hurray.Writer(late) as writer:
        writer.set_kv({"k": 1})
    assert not hurray.open(bytes(late.data)).header.has_kv
    assert hurray.load_kv(bytes(late.data)) == {"k": 1}


def test_compressed_and_appending_file_objects(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        hurray.save(file, {"a": np.arange(50_000)}, kv={"k": 1})
    with gzip.open(tmp_path / "a.gz", "rb") as file:
        assert np.array_equal(hurray.load(file)["a"].to_numpy(), np.arange(50_000))
    with (tmp_path / "b.hrry").open("ab") as file:
        hurray.save(file, {"a": A}, kv={"k": 1})
        assert not file.closed
    assert np.array_equal(hurray.load(tmp_path / "b.hrry")["a"].to_numpy(), A)
    with (tmp_path / "c").open("w") as file, pytest.raises(TypeError, match="binary"):
        hurray.save(file, {"a": A})
    with pytest.raises(TypeError, match="path"):
        hurray.save(3, {"a": A})


def test_a_file_object_is_rolled_back() -> None:
    target = io.BytesIO(b"before")
    target.seek(0, 2)
    with pytest.raises(UnsupportedError):
        hurray.save(target, {"a": A, "b": np.array(["x"])})
    assert target.getvalue() == b"before"


class Full(Pipe):
    def write(self, data: Any) -> int:
        if len(self.data) > 5000:
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_full_disk() -> None:
    with pytest.raises(FileError, match="No space left") as caught:
        hurray.save(Full(), {"a": np.arange(400_000), "b": A})
    assert caught.value.errno == 28
    writer = hurray.Writer(Full())
    with pytest.raises(FileError, match="No space"):
        for k in range(1000):
            writer.add(f"t{k}", np.arange(100_000))
    with pytest.raises(FileError, match="aborted after an error"):
        writer.add("more", A)

    class Stuck(Pipe):
        def write(self, data: Any) -> Any:
            return None

    with pytest.raises(FileError, match="takes no bytes"):
        hurray.save(Stuck(), {"a": A})


@pytest.mark.parametrize("bad", [np.array([{}, None]), np.array(["x"]), np.zeros(1, "i4,f8"), object(), "text"])
def test_what_is_no_tensor_is_refused_by_name(tmp_path: Path, bad: Any) -> None:
    target = tmp_path / "a.hrry"
    with pytest.raises(UnsupportedError, match="the_bad_one"):
        hurray.save(target, {"good": A, "the_bad_one": bad})
    assert listing(tmp_path) == []


def test_anything_that_is_an_array_is_taken() -> None:
    target = io.BytesIO()
    hurray.save(target, {"list": [[1, 2], [3, 4]], "number": 2.5, "array": A[:, ::2], "tensor": hurray.ones([2])})
    loaded = hurray.load(target)
    assert np.array_equal(loaded["list"].to_numpy(), [[1, 2], [3, 4]])
    assert loaded["number"].to_numpy() == 2.5
    assert np.array_equal(loaded["array"].to_numpy(), A[:, ::2])
    with pytest.raises(TypeError, match="mapping"):
        hurray.save(io.BytesIO(), [A])  # type: ignore[arg-type]


def test_only_the_elements_of_a_view_are_written() -> None:
    secret = np.full((64, 64), 7, np.uint8)
    target = io.BytesIO()
    secret[:, 0] = 1
    hurray.save(target, {"column": secret[:, 0]})
    assert b"\7\7\7" not in target.getvalue()
    assert np.array_equal(hurray.load(target)["column"].to_numpy(), np.ones(64, np.uint8))


@pytest.mark.parametrize("name", ["", "x" * 65536, "\ud800", 3, b"a", None])
def test_impossible_names(tmp_path: Path, name: Any) -> None:
    kind: Any = ValueError if isinstance(name, str) else TypeError
    with pytest.raises(kind) as caught:
        hurray.save(tmp_path / "a.hrry", {name: A})
    assert isinstance(caught.value, FileError)
    assert listing(tmp_path) == []


def test_names_taken_twice() -> None:
    group = hurray.Composite("group", shape=[], dtype=hurray.float32, members=[hurray.ones([1])])
    with hurray.Writer(io.BytesIO()) as writer:
        writer.add("a", A)
        with pytest.raises(FileError, match="already"):
            writer.add("a", A)
        writer.add("g", group)
        with pytest.raises(FileError, match=r"'g\.0' is already"):
            writer.add("g.0", A)
        writer.add("h.0", A)
        with pytest.raises(FileError, match="member of composite 'h'"):
            writer.add("h", group)
        writer.add("h", A)
        assert "5 tensors" in repr(writer)


def test_metadata_that_cannot_be_stored(tmp_path: Path) -> None:
    target = tmp_path / "a.hrry"
    hurray.save(target, {"a": A}, kv={"k": 1})
    for kv, kind in (({"nested": {"a": 1}}, TypeError), ({"big": 2**64}, ValueError), ({1: 2}, TypeError)):
        with pytest.raises(kind) as caught:
            hurray.save(target, {}, kv=kv)  # type: ignore[arg-type]
        assert isinstance(caught.value, FileError)
        assert str(next(iter(kv))) in str(caught.value)
    assert hurray.load_kv(target) == {"k": 1}
    assert listing(tmp_path) == ["a.hrry"]


class Boom(Exception):
    pass


def test_an_error_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.hrry"
    hurray.save(target, {"a": A})
    before = target.read_bytes()

    class Lazy(dict[str, Any]):
        def items(self) -> Any:
            yield "a", np.zeros(200_000)
            raise Boom

    with pytest.raises(Boom):
        hurray.save(target, Lazy())
    with pytest.raises(Boom), hurray.Writer(target) as writer:
        writer.add("b", A)
        raise Boom
    writer = hurray.Writer(target)
    writer.add("b", A)
    writer.abort()
    writer.abort()
    with pytest.raises(FileError, match="aborted"):
        writer.close()
    forgotten = hurray.Writer(target)
    forgotten.add("b", A)
    del forgotten
    assert target.read_bytes() == before
    assert listing(tmp_path) == ["a.hrry"]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="the system has no files without a name")
def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "a.hrry"
    hurray.save(target, {"a": A})
    code = (
        "import hurray, numpy as np, os, signal, sys\n"
        "w = hurray.Writer(sys.argv[1])\n"
        "w.add('b', np.zeros(300_000))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(target)], env=helpers.our_env(), timeout=60, check=False)
    assert done.returncode == -9
    assert listing(tmp_path) == ["a.hrry"]
    assert np.array_equal(hurray.load(target)["a"].to_numpy(), A)


def test_a_system_without_nameless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    target = tmp_path / ("n" * 240 + ".hrry")
    writer = hurray.Writer(target)
    writer.add("a", A)
    assert len(listing(tmp_path)) == 1
    assert listing(tmp_path)[0].endswith(".tmp")
    writer.close()
    writer.close()
    assert listing(tmp_path) == [target.name]
    with pytest.raises(Boom), hurray.Writer(target) as writer:
        raise Boom
    assert listing(tmp_path) == [target.name]


def test_links_and_permissions_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "real.hrry", tmp_path / "link.hrry"
    hurray.save(target, {"a": A})
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    target.chmod(0o640)
    link.symlink_to(target.name)
    hurray.save(link, {"b": A})
    assert link.is_symlink()
    assert list(hurray.load(target)) == ["b"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    dangling = tmp_path / "dangling.hrry"
    dangling.symlink_to("made.hrry")
    hurray.save(dangling, {"c": A})
    assert list(hurray.load(tmp_path / "made.hrry")) == ["c"]


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hurray.save(tmp_path / "no" / "a.hrry", {"a": A})
    with pytest.raises(IsADirectoryError):
        hurray.save(tmp_path, {"a": A})
    with pytest.raises(FileError):
        hurray.save(str(tmp_path / "a\0b"), {"a": A})
    if os.getuid():
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError):
            hurray.save(tmp_path / "a.hrry", {"a": A})
        tmp_path.chmod(0o700)


def test_writing_in_place(tmp_path: Path) -> None:
    target = tmp_path / "a.hrry"
    hurray.save(target, {"a": A}, atomic=False)
    inode = target.stat().st_ino
    hurray.save(target, {"b": A}, atomic=False, kv={"k": 1})
    assert target.stat().st_ino == inode
    assert list(hurray.load(target)) == ["b"]
    with pytest.raises(Boom), hurray.Writer(tmp_path / "new.hrry", atomic=False):
        raise Boom
    assert listing(tmp_path) == ["a.hrry"]


def test_devices_and_pipes_are_written_in_place(tmp_path: Path) -> None:
    hurray.save(os.devnull, {"a": A})
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with (tmp_path / "received").open("wb") as received:
        reader = subprocess.Popen(["cat", str(fifo)], stdout=received)
        hurray.save(fifo, {"a": np.arange(100_000)}, kv={"k": 1})
        assert reader.wait(timeout=60) == 0
    data = (tmp_path / "received").read_bytes()
    assert np.array_equal(hurray.load(data)["a"].to_numpy(), np.arange(100_000))
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    writer = hurray.Writer(tmp_path / "a.hrry")
    writer.close()
    writer.close()
    with pytest.raises(FileError, match="closed"):
        writer.add("a", A)
    with pytest.raises(FileError, match="closed"):
        writer.set_kv({"a": 1})
    assert hurray.load(tmp_path / "a.hrry") == {}
    with pytest.raises(FileError, match="hint"):
        hurray.Writer(io.BytesIO(), tensor_count_hint=-1)


def test_statistics_on_request() -> None:
    target = io.BytesIO()
    known = hurray.Statistics(nnz=1)
    tensor = hurray.Tensor(A, hurray.float64, A.shape, statistics=known)
    hurray.save(target, {"a": A, "b": tensor, "c": np.arange(12).reshape(3, 4)[:, ::2]}, statistics=True)
    loaded: dict[str, Any] = hurray.load(target)
    assert loaded["a"].statistics.nnz == 5
    assert loaded["a"].statistics.value_max == 5.0
    assert loaded["b"].statistics == known
    assert loaded["c"].statistics.value_max == 10.0
    assert np.array_equal(loaded["c"].to_numpy(), np.arange(12).reshape(3, 4)[:, ::2])


class Recorder:
    """A sink that keeps the pieces apart."""

    name = "recorder"

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []

    def write(self, data: memoryview) -> int:
        self.pieces.append(data)
        return data.nbytes

    def patch(self, offset: int, data: bytes) -> bool:
        return False

    def commit(self) -> None: ...

    def discard(self) -> None: ...


def test_big_buffers_are_never_copied_and_small_ones_gathered() -> None:
    sink = Recorder()
    output = Output(sink)
    for k in range(1000):
        output.write(bytes([k % 256]) * 100)
    big = np.arange(1 << 18, dtype=np.uint8)
    output.write(big)
    output.pad_to(4096)
    output.write(np.full(5, 9, np.uint8))
    output.commit()
    assert [p.nbytes for p in sink.pieces] == [100_000, 1 << 18, 4096 - (100_000 + (1 << 18)) % 4096 + 5]
    assert np.frombuffer(sink.pieces[1], np.uint8).ctypes.data == big.ctypes.data
    assert output.position == sum(p.nbytes for p in sink.pieces)
    assert bytes(sink.pieces[2][-5:]) == b"\t" * 5
