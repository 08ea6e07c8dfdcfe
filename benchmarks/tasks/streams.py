"""Task 6: tensors from one process to another."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hurray
from benchmarks.channel import KINDS, Receiver, receive_into
from benchmarks.codecs import RECEIVERS
from benchmarks.context import Context
from benchmarks.interpreter import Interpreter
from benchmarks.model import Case, Skipped

_ARRAYS = "np.random.default_rng(7).random(({count}, {each}), np.float32)"
_SENDER_SETUP = """
import numpy as np
from benchmarks.channel import connect
from benchmarks.codecs import SENDERS, prepare
arrays = list({arrays})
ready = {{codec: prepare(codec, arrays) for codec in {codecs!r}}}
def send(codec):
    data = connect({folder!r}, {kind!r})
    SENDERS[codec](data, ready[codec])
    data.close()
"""
_PEER_SENDER_SETUP = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
import hurray
from channel import connect
tensors = [hurray.from_numpy(a) for a in {arrays}]
def send():
    data = connect({folder!r}, {kind!r})
    writer = hurray.StreamWriter(data)
    for tensor in tensors:
        writer.write(tensor)
    writer.finish()
    data.close()
"""


def streams(context: Context) -> Iterator[Case]:
    """Task 6."""
    n_bytes = context.size(512 << 20, 2 << 20)
    n_tensors = context.size(64, 8)
    for kind in KINDS:
        case = Case(f"stream {n_bytes >> 20} MiB in {n_tensors} tensors through a {kind}", n_bytes=n_bytes)
        channel = Channel(context, kind, n_tensors, n_bytes // n_tensors // 4)
        _raw(case, channel)
        _codecs(case, channel, {"hurray": "hurray", "arrow": "pyarrow IPC", "pickle": "pickle 5",
                                "pickle out of band": "pickle 5, out of band"})  # fmt: skip
        _peer(case, channel)
        case.goal("into new buffers", 1.15)
        case.goal("pyarrow IPC", 1.0)
        yield case
        channel.close()
    n_tiny = context.size(100_000, 1_000)
    case = Case(f"{n_tiny} tensors of 16 bytes through a socket", n_items=n_tiny)
    channel = Channel(context, "socket", n_tiny, 4)
    _raw(case, channel, new=False)
    _codecs(case, channel, {"hurray": "hurray", "pickle": "pickle 5"})
    _peer(case, channel)
    yield case
    channel.close()
    yield from _shared(context)


class Channel:
    """A receiver here and a sender in a process of its own, connected anew for each sample."""

    def __init__(self, context: Context, kind: str, count: int, each: int) -> None:
        self.context = context
        self.kind = kind
        self.folder = context.folder / f"channel-{kind}-{count}"
        self.folder.mkdir()
        self.recipe = _ARRAYS.format(count=count, each=each)
        self.count = count
        self.want: NDArray[np.float32] = np.random.default_rng(7).random((count, each), np.float32)
        self.receiver = Receiver(str(self.folder), kind)
        codecs = ["raw", "hurray", "arrow", "pickle", "pickle out of band"]
        self.sender = context.python()
        self.sender.exec(_SENDER_SETUP.format(arrays=self.recipe, codecs=codecs, folder=str(self.folder), kind=kind))
        self.peers: list[Interpreter] = []

    def opening(self, codec: str) -> Callable[[], None]:
        """Return what comes before a sample: the sender connects and waits for the sign."""

        def before() -> None:
            self.sender.start(f"send({codec!r})")
            self.receiver.open()

        return before

    def after(self) -> None:
        """End a sample."""
        self.receiver.shut()
        self.sender.wait()

    def right(self, arrays: Any) -> bool:
        """Tell whether what came is what was sent."""
        return len(arrays) == self.count and all(map(np.array_equal, arrays, self.want))

    def close(self) -> None:
        """End the processes, so that their memory is free for the next case."""
        self.receiver.close()
        for process in (self.sender, *self.peers):
            process.close()


def _raw(case: Case, channel: Channel, *, new: bool = True) -> None:
    warm = np.empty_like(channel.want)
    around: dict[str, Any] = {"before": channel.opening("raw"), "after": channel.after, "check": channel.right}

    def into_warm() -> Any:
        data = channel.receiver.go()
        for row in warm:
            receive_into(data, row.data.cast("B"))
        return warm

    def into_new() -> Any:
        data = channel.receiver.go()
        arrays = []
        for _ in range(channel.count):
            array = np.empty(channel.want.shape[1], np.float32)
            receive_into(data, array.data.cast("B"))
            arrays.append(array)
        return arrays

    case.limit("raw bytes, into warm buffers", into_warm, **around)
    if new:
        case.limit("into new buffers", into_new, **around)


def _codecs(case: Case, channel: Channel, names: dict[str, str]) -> None:
    for codec, name in names.items():
        around: dict[str, Any] = {"before": channel.opening(codec), "after": channel.after, "check": channel.right}

        def run(receive: Any = RECEIVERS[codec]) -> Any:
            return receive(channel.receiver.go(), channel.count)

        if codec == "hurray":
            case.ours(name, run, **around)
        else:
            modules = ("pyarrow", "pyarrow.ipc") if codec == "arrow" else ()
            case.peer(name, lambda *_, run=run: run, *modules, **around)


def _peer(case: Case, channel: Channel) -> None:
    """Both ends in interpreters of the published binding; the receiving one gives the sign and takes the time."""
    here = str(Path(__file__).resolve().parent.parent)
    folder = str(channel.folder / "peer")
    Path(folder).mkdir()
    try:
        python = channel.context.peer_python()
        sender = channel.context.start(Interpreter(python, isolated=True))
        receiver = channel.context.start(Interpreter(python, isolated=True))
    except Skipped as error:
        case.skipped.append(("pyhurray", str(error)))
        return
    channel.peers += [sender, receiver]
    sender.exec(_PEER_SENDER_SETUP.format(here=here, arrays=channel.recipe, folder=folder, kind=channel.kind))
    receiver.exec(
        f"import sys; sys.path.insert(0, {here!r})\n"
        "import numpy as np, hurray\nfrom channel import Receiver\n"
        f"want = {channel.recipe}\nreceiver = Receiver({folder!r}, {channel.kind!r})"
    )
    run = "result = [np.asarray(t) for t in hurray.StreamReader(receiver.go())]"

    def before() -> None:
        sender.start("send()")
        receiver.exec("receiver.open()")

    def after() -> None:
        receiver.exec("result = None; receiver.shut()")
        sender.wait()

    def check() -> None:
        before()
        receiver.exec(run)
        if not receiver.eval("len(result) == len(want) and all(map(np.array_equal, result, want))"):
            raise AssertionError("wrong values")
        after()

    def measure(_: int) -> float:
        before()
        seconds = receiver.time(run, 1)
        after()
        return seconds

    case.measured("pyhurray", "peer", measure, check)


def _shared(context: Context) -> Iterator[Case]:
    """Hand tensors over in shared memory: the time must not grow with their size."""
    small, large = 1 << 20, context.size(1 << 30, 8 << 20)
    case = Case(f"hand over {large >> 20} MiB in shared memory: attach and read one element")
    consumer = context.python()
    consumer.exec("import pickle, hurray\nfrom multiprocessing import shared_memory, resource_tracker")
    segment = shared_memory.SharedMemory(create=True, size=large)
    try:
        segment.buf[-1] = 5  # type: ignore[index]
        attach = f"s = shared_memory.SharedMemory({segment.name!r}); result = s.buf[{large - 1}]; s.close()"
        # Attaching makes the consumer's tracker think that it has to remove the segment.
        forget = f"resource_tracker.unregister('/' + {segment.name!r}, 'shared_memory')"
        case.remote("multiprocessing.shared_memory", lambda: consumer, attach, after=forget, role="limit",
                    check="result == 5")  # fmt: skip
        share = getattr(hurray, "share", None)
        if share is None:
            case.skipped.append(("hurray.attach", "this version has no hurray.share"))
            yield case
            return
        kept = []
        for n_bytes, title in ((large, "hurray.attach"), (small, f"hurray.attach, {small >> 20} MiB")):
            values = np.zeros(n_bytes // 4, np.float32)
            values[-1] = 5
            handle = share(hurray.from_numpy(values))
            kept.append(handle)
            consumer.exec(f"handle_{n_bytes} = {pickle.dumps(handle)!r}")
            case.remote(
                title, lambda: consumer,
                f"t = hurray.attach(pickle.loads(handle_{n_bytes})); result = float(t.to_numpy()[-1]); del t",
                check="result == 5.0", role="ours",
            )  # fmt: skip
        case.goal(f"hurray.attach, {small >> 20} MiB", 2.0)
        yield case
        del handle
        kept.clear()
    finally:
        segment.close()
        segment.unlink()
    yield _sharing(context, large)


def _sharing(context: Context, n_bytes: int) -> Case:
    """Putting a tensor into shared memory copies it once."""
    case = Case(f"share {n_bytes >> 20} MiB", n_bytes=n_bytes)
    values = context.rng.random(n_bytes // 4, np.float32)
    tensor = hurray.from_numpy(values)

    def plain() -> None:
        segment = shared_memory.SharedMemory(create=True, size=n_bytes)
        array = np.frombuffer(segment.buf, np.float32, len(values))  # type: ignore[arg-type]
        array[...] = values
        del array
        segment.close()
        segment.unlink()

    case.limit("copy into new shared memory", plain)
    case.ours("hurray.share", lambda: hurray.share(tensor))
    case.goal("copy into new shared memory", 1.15)
    return case
