"""Files that are replaced, rewritten or read by several at once while tensors lie over them."""

from __future__ import annotations

import gc
import io
import os
import pickle
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
import hurray

X = np.arange(200_000.0)


def save_in_place(path: Path, t: Any) -> None:
    hurray.save(path, {"x": t}, atomic=False)


def save_whole(path: Path, t: Any) -> None:
    hurray.save(path, {"x": t})


def stream(path: Path, t: Any) -> None:
    with hurray.StreamWriter(path) as w:
        w.write(hurray.asarray(t))


def first(path: Path) -> Any:
    head = path.read_bytes()[:8]
    item = hurray.load(path)["x"] if head == b"HRRYFILE" else next(hurray.StreamReader(path))
    return item.to_numpy()


WRITERS: list[Callable[[Path, Any], None]] = [save_whole, save_in_place, stream]


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_written_over_with_its_own_tensors(tmp_path: Path, write: Callable[[Path, Any], None]) -> None:
    # Cutting a mapped file stops whoever reads it, and here that is the writer itself.
    path = tmp_path / "a"
    save_whole(path, X)
    t = hurray.load(path)["x"]
    write(path, t)
    assert np.array_equal(first(path), X)
    assert np.array_equal(t.to_numpy(), X)
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("write", WRITERS)
def test_tensors_survive_the_file_they_came_from(tmp_path: Path, write: Callable[[Path, Any], None]) -> None:
    path = tmp_path / "a"
    save_whole(path, X)
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to("a")
    with hurray.open(link) as f:
        early = f["x"]
        write(link, np.arange(3.0))
        late = f["x"]
    assert np.array_equal(early.to_numpy(), X)
    assert np.array_equal(late.to_numpy(), X)
    assert first(path).tolist() == [0, 1, 2]
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.unlink()
    assert np.array_equal(early.to_numpy(), X)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_protected_file_stays(tmp_path: Path, write: Callable[[Path, Any], None]) -> None:
    path = tmp_path / "a"
    save_whole(path, X)
    path.chmod(0o440)
    with pytest.raises(hurray.FileError):
        write(path, np.arange(3.0))
    assert np.array_equal(first(path), X)


def test_a_name_shared_with_another_folder_is_written_in_place(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    save_whole(path, X)
    os.link(path, other)
    save_in_place(path, np.arange(3.0))
    assert first(other).tolist() == [0, 1, 2]


class Interrupted(dict[str, Any]):
    """A mapping in the middle of which the user loses patience."""

    def items(self) -> Any:
        yield "a", X
        raise KeyboardInterrupt


def test_an_interrupt_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(KeyboardInterrupt):
        hurray.save(path, Interrupted())
    assert os.listdir(tmp_path) == []
    save_whole(path, X)
    with pytest.raises(KeyboardInterrupt):
        hurray.save(path, Interrupted())
    assert np.array_equal(first(path), X)
    assert os.listdir(tmp_path) == ["a"]
    memory = io.BytesIO(b"before")
    memory.seek(6)
    with pytest.raises(KeyboardInterrupt):
        hurray.save(memory, Interrupted())
    assert memory.getvalue() == b"before"


def test_an_interrupt_at_the_very_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("link", "replace", "fsync"):
        real = getattr(os, name)

        def interrupt(*args: Any, real: Any = real, **kwargs: Any) -> None:
            real(*args, **kwargs)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, name, interrupt)
            try:
                save_whole(tmp_path / name, X)
            except KeyboardInterrupt:
                pass
            else:
                continue  # not on the way here
        assert [n for n in os.listdir(tmp_path) if n.endswith(".tmp")] == []


FULL = """
import os, pathlib, resource, signal, sys
import numpy as np, hurray
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
os.chdir(sys.argv[1])
t = hurray.asarray(np.arange(50_000.0).reshape(500, 100))
hurray.save("old", {"x": np.arange(3.0)})
before = pathlib.Path("old").read_bytes()
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writes = {
    "save": lambda: hurray.save("old", {"x": t}), "in place": lambda: hurray.save("new", {"x": t}, atomic=False),
    "npz": lambda: hurray.to_npz("n.npz", {"x": t}), "npy": lambda: hurray.to_npy("n.npy", t),
    "safetensors": lambda: hurray.to_safetensors("n.st", {"x": t}), "mtx": lambda: hurray.to_matrixmarket("n.mtx", t),
    "tns": lambda: hurray.to_frostt("n.tns", t.to_layout("coo")), "shm": lambda: hurray.share(t),
    "named": lambda: hurray.share(t, named=True),
}
for name, write in writes.items():
    try:
        write()
    except hurray.FileError as error:
        assert error.errno == 27, error
    else:
        raise SystemExit(f"{name} did not fail")
assert pathlib.Path("old").read_bytes() == before
assert os.listdir(".") == ["old"], os.listdir(".")
assert not [n for n in os.listdir("/proc/self/fd") if "hurray" in os.path.realpath("/proc/self/fd/" + n)]
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the size of files as Linux does")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", FULL, str(tmp_path)],
        env={**helpers.our_env(), "HURRAY_SHM_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_threads_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    hurray.save(path, {str(k): np.full(3000, float(k)) for k in range(40)}, kv={"k": 1})
    for strategy in ("mmap", "read"):
        with hurray.open(path, strategy=strategy) as f, ThreadPoolExecutor(8) as pool:
            gate = threading.Barrier(8)

            def read(worker: int, f: Any = f, gate: threading.Barrier = gate) -> float:
                gate.wait()
                total = 0.0
                for k in range(40):
                    name = str((k * 7 + worker) % 40)
                    total += float(f[name].to_numpy().sum())
                    assert f.kv == {"k": 1}
                    assert len(f) == 40
                return total

            assert set(pool.map(read, range(8))) == {3000.0 * sum(range(40))}


def _sum_of(args: tuple[Any, str]) -> float:
    f, name = args
    return float(f[name].to_numpy().sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_open_file_goes_to_other_processes(tmp_path: Path, method: str) -> None:
    path = tmp_path / "a"
    hurray.save(path, {"a": np.ones(10), "b": np.ones(20)})
    context = get_context(method)
    with hurray.open(path) as f, ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(_sum_of, [(f, "a"), (f, "b")])) == [10.0, 20.0]
        again = pickle.loads(pickle.dumps(f))
        assert _sum_of((again, "b")) == 20.0
        again.close()


OUTLIVED = """
import sys, os
import numpy as np, hurray
os.chdir(sys.argv[1])
hurray.save("a", {"x": np.arange(9.0), "s": hurray.asarray(np.eye(3)).to_layout("csr")})
f = hurray.open("a"); g = hurray.open("a", strategy="read")
t = f["x"]; u = g["s"]; v = t.to_numpy(); w = hurray.Writer("w"); w.add("x", t)
s = hurray.StreamWriter("s"); s.write(t); r = hurray.StreamReader("a")
h = hurray.share(t); n = hurray.share(t, named=True); b = hurray.attach(h); c = hurray.attach(str(n))
capsules = [t.__hurray__(), t.__dlpack__(max_version=(1, 0)), t.__dlpack__(), b.__hurray__()]
d = np.from_dlpack(t); e = hurray.from_hurray(t); k = hurray.from_dlpack(np.ones(3))
cycle = [t, capsules]; cycle.append(cycle)
class Late:
    def __del__(self): assert len(v) == 9 and v[8] == 8.0 and t.shape == (9,) and t[8] == 8.0
late = Late()
if len(sys.argv) > 2: os._exit(0) if sys.argv[2] == "hard" else sys.exit(3)
"""


@pytest.mark.parametrize("end", ["", "soft", "hard"])
def test_an_interpreter_that_ends_with_everything_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    shared = tmp_path / "shm"
    shared.mkdir()
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", OUTLIVED, str(tmp_path), *end.split()],
        env={**helpers.our_env(), "HURRAY_SHM_DIR": str(shared)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == {"": 0, "soft": 3, "hard": 0}[end], done.stderr
    assert done.stderr == ""
    if end == "hard":
        # Nobody could clean up; the next one who shares does.
        monkeypatch.setenv("HURRAY_SHM_DIR", str(shared))
        hurray.share(hurray.zeros([2]), named=True).close()
        gc.collect()
    assert os.listdir(shared) == []
    assert {n for n in os.listdir(tmp_path) if not n.endswith(".tmp")} == {"a", "s", "shm"}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_descriptors_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    hurray.save(path, {"x": X[:10]})
    (tmp_path / "bad").write_bytes(path.read_bytes()[:-1] + b"x")

    def use() -> None:
        for strategy in ("mmap", "read"):
            f = hurray.open(path, strategy=strategy)
            assert f["x"].to_numpy().sum() == 45
            for broken in ("bad", "missing"):
                with pytest.raises(hurray.FileError):
                    hurray.open(tmp_path / broken, strategy=strategy)
        assert not hurray.verify(tmp_path / "bad").ok
        with pytest.raises(hurray.HurrayError):
            list(hurray.StreamReader(path))
        hurray.StreamReader(path)
        hurray.StreamWriter(tmp_path / "s")
        hurray.Writer(tmp_path / "w")
        handle = hurray.share(hurray.asarray(X))
        hurray.attach(handle)
        hurray.attach(str(handle))

    use()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        use()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
