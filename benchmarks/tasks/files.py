"""Tasks 1 and 2: a checkpoint of a few large tensors, saved and loaded."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hurray
from benchmarks.context import Context
from benchmarks.model import BEST_PEER, Case

Arrays = dict[str, NDArray[Any]]


def checkpoint(context: Context, n_bytes: int, n_tensors: int) -> Arrays:
    """Return float32 arrays of equal size."""
    each = n_bytes // n_tensors // 4
    return {f"layer.{k:03}.weight": context.rng.random(each, np.float32).reshape(16, -1) for k in range(n_tensors)}


def same(arrays: Arrays, found: Any) -> bool:
    """Tell whether a mapping holds the same arrays."""
    return len(found) == len(arrays) and all(np.array_equal(np.asarray(found[name]), a) for name, a in arrays.items())


def write_arrow(pa: Any, path: str, arrays: Arrays) -> None:
    """Write arrays as consecutive Arrow tensor messages."""
    with pa.OSFile(path, "wb") as sink:
        for array in arrays.values():
            pa.ipc.write_tensor(pa.Tensor.from_numpy(array), sink)


def read_arrow(pa: Any, path: str, n_tensors: int) -> list[Any]:
    """Return views of consecutive Arrow tensor messages of a mapped file."""
    source = pa.memory_map(path)
    return [pa.ipc.read_tensor(source).to_numpy() for _ in range(n_tensors)]


def save(context: Context) -> Iterator[Case]:
    """Task 1."""
    n_bytes = context.size(512 << 20, 4 << 20)
    arrays = checkpoint(context, n_bytes, context.size(64, 8))
    tensors = {name: hurray.from_numpy(a) for name, a in arrays.items()}
    path = context.path("saved")
    npz = path + ".npz"

    def remove() -> None:
        for name in (path, npz):
            Path(name).unlink(missing_ok=True)

    def plain_write() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for array in arrays.values():
            view = array.data.cast("B")
            while len(view):
                view = view[os.write(fd, view) :]
        os.close(fd)

    around = {"before": remove, "after": remove}

    def loaded(_: Any) -> bool:
        return same(arrays, hurray.load(path))

    case = Case(f"save {n_bytes >> 20} MiB in {len(arrays)} tensors", n_bytes=n_bytes)
    case.limit("write()", plain_write, check=lambda _: os.path.getsize(path) == n_bytes, **around)
    case.ours("hurray.save", lambda: hurray.save(path, tensors), check=loaded, **around)
    case.ours("hurray.save(atomic=False)", lambda: hurray.save(path, tensors, atomic=False), check=loaded, **around)
    case.ours("hurray.save, arrays", lambda: hurray.save(path, arrays), check=loaded, **around)
    case.peer(
        "safetensors.numpy", lambda st: lambda: st.save_file(arrays, path), "safetensors.numpy",
        check=lambda _: same(arrays, _safetensors(path)), **around,
    )  # fmt: skip
    case.peer(
        "pyarrow tensors", lambda pa, _: lambda: write_arrow(pa, path, arrays), "pyarrow", "pyarrow.ipc", **around
    )
    case.peer(
        "numpy.savez", lambda: lambda: np.savez(npz, **arrays),  # type: ignore[arg-type]
        check=lambda _: same(arrays, np.load(npz)), **around,
    )  # fmt: skip
    case.remote(
        "pyhurray", context.peer, f"hurray.save({path!r}, tensors)", setup=_peer_checkpoint(context, arrays),
        before=_REMOVE.format(path=path), after=_REMOVE.format(path=path),
        check=f"all(np.array_equal(np.asarray(t), arrays[n]) for n, t in hurray.load({path!r}).items())",
    )  # fmt: skip
    case.goal("write()", 1.10)
    case.goal(BEST_PEER, 1.0)
    yield case


_REMOVE = "if os.path.exists({path!r}): os.unlink({path!r})"


def _peer_checkpoint(context: Context, arrays: Arrays) -> str:
    """Return a snippet that gives the published binding the same arrays."""
    folder = context.folder / "arrays"
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return (
        f"arrays = {{n[:-4]: np.load({str(folder)!r} + '/' + n) for n in sorted(os.listdir({str(folder)!r}))}}\n"
        "tensors = {n: hurray.from_numpy(a) for n, a in arrays.items()}\n"
        f"import shutil; shutil.rmtree({str(folder)!r})"
    )


def _safetensors(path: str) -> Any:
    from safetensors.numpy import load_file

    return load_file(path)


def load(context: Context) -> Iterator[Case]:
    """Task 2."""
    n_bytes = context.size(1 << 30, 4 << 20)
    arrays = checkpoint(context, n_bytes, context.size(64, 8))
    total = sum(float(a.sum()) for a in arrays.values())
    n_tensors = len(arrays)
    ours, plain, st, arrow, gguf = (
        context.path(name) for name in ("a.hrry", "a.bin", "a.safetensors", "a.arrow", "a.gguf")
    )
    hurray.save(ours, arrays)
    np.concatenate([a.reshape(-1) for a in arrays.values()]).tofile(plain)

    def right(found: float) -> bool:
        return abs(found - total) < 1e-6 * abs(total)

    summing = Case(f"load {n_bytes >> 20} MiB in {n_tensors} tensors and sum", n_bytes=n_bytes)
    untouched = Case(f"load {n_bytes >> 20} MiB in {n_tensors} tensors without touching values")
    summing.limit("mmap + sum", lambda: _sum_plain(plain, n_tensors), check=right)
    summing.ours("hurray.load", lambda: _sum(hurray.load(ours)), check=right)
    summing.ours("hurray.load(strategy='read')", lambda: _sum(hurray.load(ours, strategy="read")), check=right)
    untouched.limit("open + mmap", lambda: _map_plain(plain))
    untouched.ours("hurray.load", lambda: hurray.load(ours), check=lambda found: same(arrays, found))
    untouched.ours("hurray.load(strategy='read')", lambda: hurray.load(ours, strategy="read"))
    untouched.fact("resident memory that hurray.load adds", _resident_growth(ours) / 2**20, "MiB", 5.0)

    def safetensors(module: Any, *_: Any) -> Any:
        if not os.path.exists(st):
            module.save_file(arrays, st)
        return lambda: module.load_file(st)

    def safetensors_torch(module: Any, numpy_part: Any) -> Any:
        safetensors(numpy_part)
        return lambda: {name: t.numpy() for name, t in module.load_file(st).items()}

    def arrow_views(pa: Any, _: Any) -> Any:
        if not os.path.exists(arrow):
            write_arrow(pa, arrow, arrays)
        return lambda: dict(enumerate(read_arrow(pa, arrow, n_tensors)))

    def gguf_views(module: Any) -> Any:
        if not os.path.exists(gguf):
            write_gguf(module, gguf, arrays)
        return lambda: {t.name: t.data for t in module.GGUFReader(gguf).tensors}

    for name, make, modules in (
        ("safetensors.numpy", safetensors, ("safetensors.numpy",)),
        ("safetensors.torch", safetensors_torch, ("safetensors.torch", "safetensors.numpy")),
        ("pyarrow, mapped", arrow_views, ("pyarrow", "pyarrow.ipc")),
        ("gguf", gguf_views, ("gguf",)),
    ):
        summing.peer(name, _summed(make), *modules, check=right)
        untouched.peer(name, make, *modules, check=lambda found: len(found) == n_tensors)
    summing.remote(
        "pyhurray", context.peer, f"result = sum(float(np.asarray(t).sum()) for t in hurray.load({ours!r}).values())",
        check=f"abs(result - {total}) < 1e-6 * {abs(total)}",
    )  # fmt: skip
    untouched.remote("pyhurray", context.peer, f"result = hurray.load({ours!r})", check=f"len(result) == {n_tensors}")
    summing.goal("mmap + sum", 1.35)
    summing.goal(BEST_PEER, 1.05)
    untouched.goal("pyhurray", 1 / 50)
    untouched.goal("safetensors.numpy", 1.0)
    yield summing
    yield untouched


def _sum(tensors: Any) -> float:
    return sum(float(np.asarray(t).sum()) for t in tensors.values())


def _summed(make: Any) -> Any:
    """Return a contender's maker whose work ends with the sum of what ``make`` reads."""

    def make_summed(*modules: Any) -> Any:
        read = make(*modules)
        return lambda: _sum(read())

    return make_summed


def _sum_plain(path: str, n_tensors: int) -> float:
    values = np.memmap(path, np.float32, "r").reshape(n_tensors, -1)
    return sum(float(part.sum()) for part in values)


def _map_plain(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def write_gguf(gguf: Any, path: str, arrays: Arrays) -> None:
    writer = gguf.GGUFWriter(path, "benchmark")
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _resident_growth(path: str) -> int:
    """Return the bytes of resident memory that loading adds, where the system tells them."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0

    def resident() -> int:
        return int(statm.read_text().split()[1]) * mmap.PAGESIZE

    hurray.load(path)
    before = resident()
    kept = hurray.load(path)
    after = resident()
    del kept
    return after - before
