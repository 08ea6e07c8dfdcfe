"""Shared memory: hand-over between processes of every start method, lifetimes, killed processes, damaged segments."""

from __future__ import annotations

import fcntl
import gc
import multiprocessing as mp
import os
import pickle
import signal
import struct
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
import hurray
from hurray.net import segments, shared_memory
from hurray.net.segments import KINDS, FileSegment, MemorySegment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")

linux = pytest.mark.skipif(not segments._SEALS, reason="needs sealed memory files")
NAMED = [pytest.param(False, marks=linux, id="memory"), pytest.param(True, id="file")]


def files() -> list[str]:
    return sorted(p.name for p in Path(os.environ["HURRAY_SHM_DIR"]).glob("hurray-*"))


def memory_maps() -> int:
    """Return how many mappings of nameless segments this process has."""
    path = Path("/proc/self/maps")
    return path.read_text().count("/memfd:hurray-") if path.exists() else 0


@pytest.fixture(scope="module", autouse=True)
def folder_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # Named segments of other processes, such as other test workers, come and go in the usual place.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HURRAY_SHM_DIR", str(tmp_path_factory.mktemp("shm")))
        yield


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    # Other modules of the same worker may have left something for the collector.
    shared_memory._LINGERING.clear()
    gc.collect()
    before = files(), memory_maps()
    yield
    shared_memory._LINGERING.clear()
    if (files(), memory_maps()) != before:
        gc.collect()
    assert (files(), memory_maps()) == before


def dense() -> hurray.Tensor:
    return hurray.from_numpy(np.arange(10_000.0).reshape(100, 100))


def composite() -> hurray.Composite:
    parts = [
        hurray.Tensor(np.full(32, k, np.float32), hurray.float32, [8, 4], shard=hurray.Shard((8, 8), (0, 4 * k)))
        for k in range(2)
    ]
    whole = hurray.Composite("partition", shape=(8, 8), dtype=hurray.float32, members=parts)
    csr = hurray.sparse_coo(np.ones(2), np.array([[1, 2], [3, 0]]), (4, 4)).to_layout("csr")
    return hurray.Composite("group", shape=(), dtype=hurray.float32, members=[whole, csr, hurray.zeros([0, 2])])


def start(code: str, *args: str) -> subprocess.Popen[str]:
    """Start an unrelated process."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=helpers.our_env(),
    )


def finish(process: subprocess.Popen[str], words: str = "") -> str:
    out, err = process.communicate(words, timeout=60)
    assert (process.returncode, err) == (0, ""), err
    return out


# In one process


@pytest.mark.parametrize("named", NAMED)
def test_items_come_back_equal_page_aligned_and_read_only(named: bool) -> None:
    tensor = dense()
    with hurray.share(tensor, named=named) as handle:
        for source in (handle, str(handle), pickle.loads(pickle.dumps(handle))):
            twin = hurray.attach(source)
            assert isinstance(twin, hurray.Tensor)
            helpers.assert_same_bits(twin.to_numpy(), tensor.to_numpy())
            assert twin.buffer_handles[0].alignment == 4096
            assert twin.to_numpy().ctypes.data % 4096 == 0
            assert not twin.to_numpy().flags.writeable
        assert handle.nbytes == 4096 + 80_000
    assert twin[99, 99] == 9999  # attached items outlive the handle
    with pytest.raises(hurray.FileError, match="gone"):
        hurray.attach(repr(handle).split("'")[1]) if not named else hurray.attach("hurray-shm:file:" + "0" * 32)


@pytest.mark.parametrize("named", NAMED)
def test_every_layout_and_section_travels(named: bool) -> None:
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    for tensor in (
        hurray.from_numpy(array.T),
        hurray.from_numpy(array).to_layout("tiled", tile_shape=[4, 4]),
        hurray.from_numpy(array > 9),
        hurray.sparse_coo(np.ones(1), np.zeros((1, 2), np.uint64), (2, 2)),
        hurray.from_numpy(np.array(2.5)),
        hurray.zeros([0, 3]),
        hurray.Tensor(
            np.arange(64, dtype=np.int8),
            hurray.int8,
            [8, 8],
            aux_buffers=[np.ones(8, np.float32)],
            quantization=hurray.PerChannelAffine.symmetric(0, 1),
            statistics=hurray.Statistics(nnz=63),
            shard=hurray.Shard((16, 8), (8, 0)),
        ),
    ):
        twin = hurray.share(tensor, named=named).item
        assert isinstance(twin, hurray.Tensor)
        assert [h.byte_size for h in twin.buffer_handles] == [h.byte_size for h in tensor.buffer_handles]
        assert twin.descriptor.with_changes(buffer_handles=()) == tensor.descriptor.with_changes(buffer_handles=())
        assert [b.tobytes() for b in twin._buffers] == [b.tobytes() for b in tensor._buffers]


def test_a_view_takes_only_its_own_elements_along() -> None:
    handle = hurray.share(hurray.from_numpy(np.arange(1_000_000)[::1000]))
    assert handle.nbytes is not None
    assert handle.nbytes < 20_000
    assert np.array_equal(np.asarray(handle.item), np.arange(0, 1_000_000, 1000))


@pytest.mark.parametrize("named", NAMED)
def test_composites(named: bool) -> None:
    item = composite()
    with hurray.share(item, named=named) as handle:
        twin = hurray.attach(str(handle))
    assert isinstance(twin, hurray.Composite)
    assert twin.descriptor == item.descriptor
    np.testing.assert_array_equal(twin.members[0].to_numpy(), item.members[0].to_numpy())
    np.testing.assert_array_equal(twin.members[1].to_numpy(), item.members[1].to_numpy())
    assert twin.members[2].shape == (0, 2)


def test_sharing_what_lies_there_already_copies_nothing() -> None:
    first = hurray.share(dense())
    twin = hurray.attach(str(first))
    second = hurray.share(twin)
    first.close()
    assert np.asarray(second.item).ctypes.data == np.asarray(twin).ctypes.data
    assert second.nbytes == 4096 + 80_000
    third = hurray.share(twin, named=True)  # the other kind is a copy
    assert np.asarray(third.item).ctypes.data != np.asarray(twin).ctypes.data


def test_handles() -> None:
    handle = hurray.share(dense())
    copy = pickle.loads(pickle.dumps(handle))
    assert copy == handle
    assert hash(copy) == hash(handle)
    assert copy != hurray.share(dense())
    assert copy != "text"
    assert copy.nbytes is None
    assert len(pickle.dumps(handle)) < 200
    assert repr(handle).startswith("hurray.SharedHandle('hurray-shm:")
    for bad in (3, None, [1.0]):
        with pytest.raises(TypeError):
            hurray.share(bad)
        with pytest.raises(TypeError):
            hurray.attach(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hurray.attach(np.ones(2))  # type: ignore[arg-type]
    with hurray.share(np.asfortranarray([[1, 2], [3, 4]])) as handle:
        assert hurray.attach(handle).to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "hurray-shm",
        "hurray-shm:memory",
        "hurray-shm:memory:",
        "hurray-shm:other:1",
        "hurray-shm:file:../x",
        "hurray-shm:file:" + "g" * 32,
        "hurray-shm:file:" + "0" * 32,
        "hurray-shm:file:" + "0" * 33,
        "hurray-shm:memory:1.2",
        "hurray-shm:memory:99999999999.1." + "0" * 32,
        "hurray-shm:memory:SELF.0." + "0" * 32,  # SELF stands for this process
        "hurray-shm:memory:4194304.1." + "0" * 32,
        "hurray-shm:memory:-1.1." + "0" * 32,
        "hurray-shm:memory:\u0661.1." + "0" * 32,
    ],
)
def test_texts_that_are_no_handles(text: str) -> None:
    with pytest.raises(hurray.FileError):
        hurray.attach(text.replace("SELF", str(os.getpid())))


# Damaged segments


def image(tensor: hurray.Tensor) -> bytearray:
    handle = hurray.share(tensor)
    assert handle._segment is not None
    return bytearray(handle._segment.map[:])


def forge(data: bytes, kind: str) -> hurray.SharedHandle:
    segment = KINDS[kind].create(len(data), [(0, data)])
    return hurray.SharedHandle(f"hurray-shm:{kind}:{segment.address}", segment)


@pytest.mark.parametrize("kind", [pytest.param("memory", marks=linux), "file"])
def test_damage_anywhere_in_the_index_gives_a_value_or_our_error(kind: str) -> None:
    good = image(hurray.arange(4, dtype=hurray.int16))
    index_bytes = struct.unpack_from("<Q", good, 16)[0]
    for at in range(64 + index_bytes):
        bad = bytearray(good)
        bad[at] ^= 0x81
        try:
            item = hurray.attach(forge(bytes(bad), kind))
        except hurray.HurrayError:
            continue
        assert isinstance(item, hurray.Tensor)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"HRRYSHM2"),
        (8, struct.pack("<I", 0)),
        (8, struct.pack("<I", 2)),
        (8, struct.pack("<I", 2**32 - 1)),
        (12, b"\x01"),
        (16, struct.pack("<Q", 2**63)),
        (24, struct.pack("<Q", 2**63)),
        (64, struct.pack("<I", 2**32 - 1)),
        (68, struct.pack("<I", 2)),
    ],
)
def test_lies_are_found(at: int, value: bytes) -> None:
    bad = image(hurray.arange(4, dtype=hurray.int16))
    bad[at : at + len(value)] = value
    with pytest.raises(hurray.FileError):
        hurray.attach(forge(bytes(bad), "file"))


@pytest.mark.parametrize("offset", [0, 64, 4097, 8192, 2**64 - 4096])
def test_buffers_outside_are_found(offset: int) -> None:
    bad = image(hurray.arange(4, dtype=hurray.int16))
    index_bytes = struct.unpack_from("<Q", bad, 16)[0]
    struct.pack_into("<Q", bad, 64 + index_bytes - 8, offset)
    with pytest.raises(hurray.FileError, match="do not lie"):
        hurray.attach(forge(bytes(bad), "file"))


def test_short_segments_are_found() -> None:
    good = image(hurray.arange(4, dtype=hurray.int16))
    for size in (1, 63, 64, 100, len(good) - 1):
        with pytest.raises(hurray.FileError):
            hurray.attach(forge(bytes(good[:size]), "file"))


@linux
def test_memory_that_is_not_sealed_is_refused() -> None:
    token = "0" * 32
    fd = os.memfd_create("hurray-" + token)
    try:
        os.write(fd, image(hurray.arange(4)))
        with pytest.raises(hurray.FileError, match="sealed"):
            hurray.attach(f"hurray-shm:memory:{os.getpid()}.{fd}.{token}")
    finally:
        os.close(fd)


@linux
def test_sealed_memory_cannot_be_changed() -> None:
    handle = hurray.share(dense())
    assert isinstance(handle._segment, MemorySegment)
    path = f"/proc/self/fd/{handle._segment.fd}"
    os.chmod(path, 0o600)
    fd = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", 4096)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def test_no_room_is_an_error_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    for kind in ("memory", "file"):
        if kind == "memory" and not segments._SEALS:
            continue
        with pytest.raises(hurray.FileError, match="No space") as caught:
            hurray.share(dense(), named=kind == "file")
        assert caught.value.errno == 28


# Other processes


def report(handle: Any, queue: Any, folder: str) -> None:
    os.environ["HURRAY_SHM_DIR"] = folder  # a fork server may be older than this test
    item = hurray.attach(handle)
    if isinstance(item, hurray.Composite):
        item = item.members[0]
    queue.put((float(np.asarray(item).sum()), item.descriptor.dtype.name))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_start_methods(method: str, named: bool) -> None:
    context: Any = mp.get_context(method)
    queue, folder = context.Queue(), os.environ["HURRAY_SHM_DIR"]
    for item, text in ((dense(), False), (dense(), True), (composite(), False)):
        with hurray.share(item, named=named) as handle:
            process = context.Process(target=report, args=(str(handle) if text else handle, queue, folder))
            process.start()
            got = queue.get(timeout=60)
            process.join(60)
            assert process.exitcode == 0
            whole = item.members[0] if isinstance(item, hurray.Composite) else item
            assert got == (float(np.asarray(whole).sum()), whole.dtype.name)
    queue.close()
    queue.join_thread()


@pytest.mark.parametrize("named", NAMED)
def test_a_handle_that_was_sent_and_forgotten_still_arrives(named: bool) -> None:
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    process = context.Process(target=_send_and_wait, args=(queue, done, named))
    process.start()
    twin = hurray.attach(queue.get(timeout=60))
    done.put(None)
    process.join(60)
    assert process.exitcode == 0
    assert np.asarray(twin).sum() == np.arange(10_000.0).sum()
    for q in (queue, done):
        q.close()
        q.join_thread()


def _send_and_wait(queue: Any, done: Any, named: bool) -> None:
    queue.put(hurray.share(dense(), named=named))
    gc.collect()
    done.get(timeout=60)


def test_forgotten_segments_go_once_they_were_taken() -> None:
    handle = hurray.share(dense())
    text = str(handle)
    del handle
    assert len(shared_memory._LINGERING) == 1
    twin = hurray.attach(text)
    assert np.asarray(twin)[0, 1] == 1
    shared_memory._settle()
    assert shared_memory._LINGERING == []
    closed = hurray.share(dense())
    str(closed)
    closed.close()
    del closed
    assert shared_memory._LINGERING == []


CONSUMER = """
import sys, hurray, numpy as np
item = hurray.attach(sys.argv[1])
print(np.asarray(item).sum(), flush=True)
sys.stdin.readline()
print(np.asarray(item).sum(), flush=True)
"""
PRODUCER = """
import sys, hurray, numpy as np
handle = hurray.share(hurray.from_numpy(np.arange(1000.)), named=sys.argv[1] == "True")
print(handle, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("named", NAMED)
def test_the_last_of_several_consumers_ends_it(named: bool) -> None:
    handle = hurray.share(hurray.from_numpy(np.arange(1000.0)), named=named)
    consumers = [start(CONSUMER, str(handle)) for _ in range(2)]
    for consumer in consumers:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "499500.0\n"
    handle.close()
    gc.collect()
    if named:
        assert len(files()) >= 1
    for consumer in consumers:
        assert finish(consumer, "\n") == "499500.0\n"


@pytest.mark.parametrize("named", NAMED)
def test_a_killed_consumer_leaves_nothing(named: bool) -> None:
    with hurray.share(hurray.from_numpy(np.arange(1000.0)), named=named) as handle:
        consumer = start(CONSUMER, str(handle))
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "499500.0\n"
        consumer.kill()
        consumer.communicate(timeout=60)
        assert np.asarray(handle.item).sum() == 499500


@pytest.mark.parametrize("named", NAMED)
def test_a_killed_producer_leaves_its_consumers_whole_and_nothing_behind(named: bool) -> None:
    producer = start(PRODUCER, str(named))
    assert producer.stdout is not None
    twin = hurray.attach(producer.stdout.readline().strip())
    producer.kill()
    producer.communicate(timeout=60)
    assert np.asarray(twin).sum() == 499500
    again = hurray.share(twin)  # the survivor can pass it on
    assert np.asarray(hurray.attach(str(again))).sum() == 499500


@pytest.mark.parametrize("named", NAMED)
def test_a_dead_producers_handle_is_gone(named: bool) -> None:
    producer = start(PRODUCER, str(named))
    text = finish(producer, "\n").strip()
    with pytest.raises(hurray.FileError, match="gone"):
        hurray.attach(text)


def test_a_file_that_everyone_died_on_is_removed_by_the_next_share() -> None:
    producer = start(PRODUCER, "True")
    assert producer.stdout is not None
    name = producer.stdout.readline().strip().rpartition(":")[2]
    producer.kill()
    producer.communicate(timeout=60)
    assert f"hurray-{name}" in files()
    with hurray.share(dense(), named=True) as handle:
        assert f"hurray-{name}" not in files()
        assert isinstance(handle._segment, FileSegment)


def share_and_die(call: int, named: bool) -> None:
    """Share, attach and let go, in a forked child that kills itself at its n-th call to the system."""
    left = [call]

    def counted(function: Any) -> Any:
        def run(*args: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **keywords)

        return run

    for module, names in ((os, "open fstat ftruncate pwrite fchmod close unlink"), (fcntl, "flock fcntl")):
        for name in names.split():
            setattr(module, name, counted(getattr(module, name)))
    handle = hurray.share(dense(), named=named)
    twin = hurray.attach(str(handle))
    handle.close()
    del twin, handle
    left[0] = 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_any_call_to_the_system(named: bool) -> None:
    for call in range(1, 100):
        pid = os.fork()
        if not pid:
            try:
                share_and_die(call, named)
            finally:
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, -signal.SIGKILL)
        hurray.share(hurray.zeros([1]), named=True).close()
        assert files() == []
        if status == 0:
            break
    else:
        pytest.fail("the child never came to its end")
    assert call > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_neither_ends_the_parents_segment_nor_keeps_it(named: bool) -> None:
    handle = hurray.share(hurray.from_numpy(np.arange(1000.0)), named=named)
    reader, writer = os.pipe()
    ready, tell = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(writer)
            inherited = handle.item
            text = str(handle)
            fresh = hurray.attach(text)
            del fresh
            handle.close()
            gc.collect()
            os.write(tell, b"x")
            os.read(reader, 1)
            code = 0 if np.asarray(inherited).sum() == 499500 else 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(reader)
    assert os.read(ready, 1) == b"x"
    assert np.asarray(hurray.attach(str(handle))).sum() == 499500
    handle.close()
    gc.collect()
    if named:
        assert files() == []
    os.write(writer, b"x")
    for fd in (writer, ready, tell):
        os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("named", NAMED)
def test_arrays_alive_at_exit_leave_nothing(named: bool) -> None:
    code = (
        "import sys, hurray, numpy as np\n"
        "h = hurray.share(hurray.from_numpy(np.arange(9.)), named=sys.argv[1] == 'True')\n"
        "np.left = hurray.attach(str(h)); np.more = hurray.from_hurray(np.left); np.handle = h; str(h)\n"
        "np.array_left = np.asarray(np.left)\n"
    )
    assert finish(start(code, str(named))) == ""
