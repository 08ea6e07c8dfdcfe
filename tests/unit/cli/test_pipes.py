"""Streams through real pipes, between real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hurray
from helpers import artefacts, corpus, our_env, peer_env

pytest.importorskip("typer")
pytest.importorskip("rich")

HURRAY = [sys.executable, "-m", "hurray"]
Call = Callable[..., tuple[int, str, str]]
TIMEOUT = 60


def env() -> dict[str, str]:
    # Unbuffered text output swallows the error of a pipe that is closed in the middle of a write.
    return {key: value for key, value in our_env().items() if key != "PYTHONUNBUFFERED"}


def start(*arguments: object, stdin: object = None, stdout: object = subprocess.PIPE) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*HURRAY, *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=env(),  # type: ignore[call-overload]
    )
    # Whatever waits for a process that hangs gets an end instead.
    watchdog = threading.Timer(TIMEOUT, process.kill)
    watchdog.daemon = True
    watchdog.start()
    return process


def finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out or b"", err.decode()


def assert_same(got: hurray.Tensor | hurray.Composite, want: hurray.Tensor | hurray.Composite) -> None:
    assert type(got) is type(want)
    if isinstance(got, hurray.Composite) and isinstance(want, hurray.Composite):
        assert got.composition_rule == want.composition_rule
        for a, b in zip(got.members, want.members, strict=True):
            assert_same(a, b)
        return
    assert isinstance(got, hurray.Tensor)
    assert isinstance(want, hurray.Tensor)
    assert (got.dtype, got.shape, got.layout, got.shard) == (want.dtype, want.shape, want.layout, want.shard)
    assert [b.tobytes() for b in got._buffers] == [b.tobytes() for b in want._buffers]


def test_two_processes_and_a_pipe(every_layout: Path, tmp_path: Path) -> None:
    target = tmp_path / "back.hrry"
    writer = start("convert", every_layout, "-", "--drop-metadata")
    reader = start("convert", "-", target, stdin=writer.stdout)
    assert writer.stdout is not None
    writer.stdout.close()
    assert finish(reader) == (0, b"", "")
    assert (writer.wait(TIMEOUT), writer.stderr.read() if writer.stderr else b"") == (0, b"")
    writer.stderr and writer.stderr.close()  # type: ignore[func-returns-value]
    want, got = hurray.load(every_layout), hurray.load(target)
    assert list(got) == [str(k) for k in range(len(want))]
    for a, b in zip(got.values(), want.values(), strict=True):
        assert_same(a, b)


def test_a_shell_pipeline_with_a_filter_between(every_layout: Path, tmp_path: Path) -> None:
    if os.name != "posix":
        pytest.skip("needs a shell")
    command = f"{sys.executable} -m hurray"
    line = (
        f"{command} convert '{every_layout}' - --no-kv --only 'row_*' | {command} convert - - --layout csr "
        f"| {command} convert - '{tmp_path}/out.npz' --densify"
    )
    done = subprocess.run(["sh", "-c", line], env=env(), capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with np.load(tmp_path / "out.npz") as archive:
        assert archive.files == ["0"]
        assert archive["0"].tolist() == np.arange(24).reshape(4, 6).tolist()


def test_a_file_through_stdin_is_recognised(every_layout: Path, tmp_path: Path) -> None:
    for arguments in (("convert", "-", tmp_path / "a.hrry"), ("ls", "-"), ("cat", "-", "ints")):
        with every_layout.open("rb") as file:
            code, out, err = finish(start(*arguments, stdin=file))
        assert (code, err) == (0, "")
    assert out == b"[0, 1, 2, 3, 4]\n"
    assert hurray.load_kv(tmp_path / "a.hrry") == {"step": 12}
    # The same through a pipe, which cannot seek.
    process = start("cat", "-", "ints", stdin=subprocess.PIPE)
    out, err_bytes = process.communicate(every_layout.read_bytes(), timeout=TIMEOUT)
    assert (process.returncode, out, err_bytes) == (0, b"[0, 1, 2, 3, 4]\n", b"")


def test_other_formats_through_pipes(tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {"x": np.arange(6).reshape(2, 3)}, kv={"k": "v"})
    for form in ("safetensors", "npz", "hurray"):
        options = ["--no-kv"] if form == "npz" else []
        code, data, err = finish(start("convert", tmp_path / "a.hrry", "-", "--to", form, *options))
        assert (code, err) == (0, "")
        process = start("convert", "-", tmp_path / "b.hrry", "--from", form, stdin=subprocess.PIPE)
        out, err_bytes = process.communicate(data, timeout=TIMEOUT)
        assert (process.returncode, out, err_bytes) == (0, b"", b"")
        assert hurray.load(tmp_path / "b.hrry")["x"].to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_each_tensor_is_shown_when_it_has_arrived() -> None:
    parts = []
    for k in range(3):
        writer = hurray.StreamWriter()
        writer.write(hurray.from_numpy(np.full(2, k)))
        parts.append(writer.getvalue())
    process = start("cat", "--stream", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for k, data in enumerate(parts):
        # Nothing but what has been sent can be waited for here: a reader that waits for more would hang.
        process.stdin.write(data)
        process.stdin.flush()
        assert process.stdout.readline() == f"{k}: int64 2 row_major 16 B\n".encode()
        assert process.stdout.readline() == f"[{k}, {k}]\n".encode()
    process.stdin.close()
    assert process.wait(TIMEOUT) == 0
    process.stdout.close()
    process.stderr and process.stderr.close()  # type: ignore[func-returns-value]


def test_a_filter_passes_each_tensor_on() -> None:
    process = start("convert", "-", "-", "--layout", "coo", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    reader = hurray.StreamReader(process.stdout)
    for k in range(2):
        hurray.StreamWriter(process.stdin).write(hurray.from_numpy(np.array([0, k + 1])))
        got = next(reader)
        assert isinstance(got, hurray.Tensor)
        assert (got.layout.name, got.to_numpy().tolist()) == ("coo", [0, k + 1])
    process.stdin.close()
    assert list(reader) == []
    assert process.wait(TIMEOUT) == 0
    process.stdout.close()
    process.stderr and process.stderr.close()  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    "arguments", [("convert", "-", "--no-kv"), ("cat", "big", "--full"), ("cat", "big", "--full", "--coords")]
)
def test_a_reader_that_leaves_is_no_noise(arguments: tuple[str, ...], tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {"big": np.ones(300_000)})
    command, *rest = arguments
    process = start(command, tmp_path / "a.hrry", *rest)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(TIMEOUT) == 1


def test_a_writer_that_dies_leaves_the_target(tmp_path: Path) -> None:
    target = tmp_path / "t.hrry"
    hurray.save(target, {"old": np.ones(1)})
    writer = hurray.StreamWriter()
    writer.write(hurray.ones([10]))
    writer.write(hurray.ones([1000]))
    for cut in (1, 4000):
        process = start("convert", "-", target, stdin=subprocess.PIPE)
        out, err = process.communicate(writer.getvalue()[:-cut], timeout=TIMEOUT)
        assert (process.returncode, out) == (1, b"")
        assert err.startswith(b"hurray: ")
        assert err.count(b"\n") == 1
        assert list(hurray.load(target)) == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.hrry"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
@pytest.mark.parametrize("end", ["stdin", "stdout"])
def test_terminals_are_refused(end: str, every_layout: Path) -> None:
    ours, theirs = os.openpty()
    try:
        arguments = ("convert", every_layout, "-", "--no-kv") if end == "stdout" else ("ls", "-")
        process = start(*arguments, **{end: theirs})
        code, _, err = finish(process)
    finally:
        os.close(ours)
        os.close(theirs)
    assert code == 2
    assert "terminal" in err
    assert err.count("\n") == 1


def test_named_pipes(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs named pipes")
    fifo = tmp_path / "p.hstream"
    os.mkfifo(fifo)
    hurray.save(tmp_path / "a.hrry", {"x": np.arange(3)})
    writer = start("convert", tmp_path / "a.hrry", fifo)
    reader = start("convert", fifo, tmp_path / "b.hrry")
    assert finish(writer) == (0, b"", "")
    assert finish(reader) == (0, b"", "")
    assert hurray.load(tmp_path / "b.hrry")["0"].to_numpy().tolist() == [0, 1, 2]


def test_a_named_pipe_gets_each_tensor_at_once(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs named pipes")
    fifo = tmp_path / "p.hstream"
    os.mkfifo(fifo)
    writer = start("convert", "-", fifo, "--from", "stream", stdin=subprocess.PIPE)
    reader = start("cat", fifo)
    assert writer.stdin is not None
    assert reader.stdout is not None
    for k in range(2):
        hurray.StreamWriter(writer.stdin).write(hurray.from_numpy(np.full(2, k)))
        assert reader.stdout.readline() == f"{k}: int64 2 row_major 16 B\n".encode()
        assert reader.stdout.readline() == f"[{k}, {k}]\n".encode()
    assert finish(writer) == (0, b"", "")
    assert finish(reader) == (0, b"", "")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_closed_standard_streams(tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {"x": np.arange(3)})
    command = f"{sys.executable} -m hurray"
    for line, code in (
        (f"{command} ls a.hrry >&-", 0),
        (f"{command} convert a.hrry b.npz >&- 2>&-", 0),
        (f"{command} ls none.hrry 2>&-", 1),
        (f"{command} ls - <&-", 1),
    ):
        done = subprocess.run(
            ["sh", "-c", line], env=env(), cwd=tmp_path, capture_output=True, check=False, timeout=TIMEOUT
        )
        assert done.returncode == code, line
        assert b"Traceback" not in done.stderr
    done = subprocess.run(
        ["sh", "-c", f"{command} convert a.hrry - >&-"], env=env(), cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, b"hurray: the standard output is closed\n")


PEER_READS = """
import sys, hurray
for t in hurray.StreamReader(sys.stdin.buffer):
    print(t.shape, t.dtype, t.layout.__class__.__name__)
"""
PEER_WRITES = """
import sys, numpy as np, hurray
w = hurray.StreamWriter(sys.stdout.buffer)
for k in range(3):
    w.write(hurray.Tensor(np.arange(k + 1, dtype=np.float32).tobytes(), hurray.float32, (k + 1,)))
w.finish()
"""


def test_pipes_with_the_published_binding(peer_python: str, tmp_path: Path) -> None:
    hurray.save(tmp_path / "a.hrry", {"x": np.zeros((2, 3)), "s": hurray.from_numpy(np.eye(2)).to_layout("csr")})
    writer = start("convert", tmp_path / "a.hrry", "-")
    done = subprocess.run(
        [peer_python, "-c", PEER_READS],
        stdin=writer.stdout,
        capture_output=True,
        text=True,
        env=peer_env(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split(")")[0] for line in done.stdout.splitlines()] == ["(2, 3", "(2, 2"]
    assert finish(writer)[0] == 0
    with subprocess.Popen([peer_python, "-c", PEER_WRITES], stdout=subprocess.PIPE, env=peer_env()) as peer:
        reader = start("convert", "-", tmp_path / "b.hrry", stdin=peer.stdout)
        assert finish(reader) == (0, b"", "")
    assert [
        t.to_numpy().tolist() for t in hurray.load(tmp_path / "b.hrry").values() if isinstance(t, hurray.Tensor)
    ] == [
        [0],
        [0, 1],
        [0, 1, 2],
    ]


# In this process


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "s.hstream"
    group = hurray.Composite("group", shape=[], dtype=hurray.int8, members=[hurray.ones([1]), hurray.zeros([2])])
    with hurray.StreamWriter(path) as writer:
        writer.write(hurray.from_numpy(np.arange(6).reshape(2, 3)))
        writer.write(group)
        writer.write(hurray.quantize(np.linspace(-1, 1, 4, dtype=np.float32), "int8"))
    return path


def test_ls_of_a_stream(call: Call, stream: Path) -> None:
    code, out, _ = call("ls", stream)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:-1]] == ["0", "1", "1.0", "1.1", "2"]
    found = json.loads(call("ls", "--json", stream)[1])
    assert [t["name"] for t in found["tensors"]] == ["0", "1", "1.0", "1.1", "2"]
    assert found["kv"] == {}


def test_cat_of_a_stream(call: Call, stream: Path, tmp_path: Path) -> None:
    whole = (
        "0: int64 2x3 row_major 48 B\n[[0, 1, 2],\n [3, 4, 5]]\n"
        "1: int8 scalar group of 2\n1.0: float64 1 row_major 8 B\n[1.]\n1.1: float64 2 row_major 16 B\n[0., 0.]\n"
        "2: int8 (per_tensor_affine) 4 row_major 4 B\n"
    )
    code, out, err = call("cat", stream)
    assert (code, err) == (0, "")
    assert out.startswith(whole)
    assert call("cat", stream, "0", "1, ::2") == (0, "[3, 5]\n", "")
    assert call("cat", stream, "1.1") == (0, "[0., 0.]\n", "")
    assert call("cat", stream, "2", "--codes")[1] == "[-127,  -42,   42,  127]\n"
    # A stream under another name is one when asked for.
    other = stream.rename(tmp_path / "s.bin")
    assert call("cat", "--stream", other, "0", "0")[1] == "[0, 1, 2]\n"
    assert call("cat", other, "0", "--format", "stream")[1] == "[[0, 1, 2],\n [3, 4, 5]]\n"
    assert call("cat", "--stream", other, "0", "0", "--coords")[1] == "(0, 1)  1\n(0, 2)  2\n"
    code, _, err = call("cat", "--stream", other, "7")
    assert (code, err) == (1, "hurray: no tensor '7': the stream has 3\n")
    assert call("cat", "--stream", other, "x")[0] == 2
    assert call("cat", "--stream", tmp_path / "none")[0] == 1


def test_cat_saves_a_stream(call: Call, tmp_path: Path) -> None:
    with hurray.StreamWriter(tmp_path / "s.hstream") as writer:
        writer.write(hurray.ones([2]))
        writer.write(hurray.from_numpy(np.eye(2)).to_layout("csr"))
    assert call("cat", tmp_path / "s.hstream", "-o", tmp_path / "a.npz") == (0, "", "")
    with np.load(tmp_path / "a.npz") as archive:
        assert {name: archive[name].tolist() for name in archive.files} == {"0": [1, 1], "1": [[1, 0], [0, 1]]}
    assert call("cat", tmp_path / "s.hstream", "--coords", "-o", tmp_path / "b.npz")[0] == 2


def test_a_broken_stream_shows_what_came_before(call: Call, stream: Path) -> None:
    stream.write_bytes(stream.read_bytes()[:-1])
    code, out, err = call("cat", stream)
    assert code == 1
    assert out.startswith("0: int64")
    assert err.count("\n") == 1


def test_streams_of_the_corpus(call: Call, tmp_path: Path) -> None:
    for artefact in artefacts("stream"):
        path = corpus("peer") / artefact["file"]
        assert call("convert", path, tmp_path / "a.hrry", "--from", "stream") == (0, "", "")
        assert call("convert", tmp_path / "a.hrry", tmp_path / "b.hstream") == (0, "", "")
        with hurray.StreamReader(path) as a, hurray.StreamReader(tmp_path / "b.hstream") as b:
            for x, y in zip(a, b, strict=True):
                assert_same(y, x)
        assert call("cat", "--stream", path)[0] == 0


def test_streams_replace_their_target_whole(call: Call, stream: Path) -> None:
    before = stream.read_bytes()
    assert call("convert", stream, stream) == (0, "", "")
    assert stream.read_bytes() == before
    assert call("convert", stream, stream, "--layout", "csf", "--strict")[0] == 1
    assert stream.read_bytes() == before
    assert [p.name for p in stream.parent.iterdir()] == [stream.name]
