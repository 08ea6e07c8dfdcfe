"""Tasks 3 to 5: files of many tensors."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hurray
from benchmarks.context import Context
from benchmarks.model import BEST_PEER, Case
from benchmarks.tasks.files import Arrays, checkpoint, read_arrow, same, write_arrow, write_gguf


def list_tensors(context: Context) -> Iterator[Case]:
    """Task 3: no values are read, only what tensors there are; then a lazy tensor of each."""
    n_tensors = context.size(300, 30)
    arrays = checkpoint(context, n_tensors * context.size(1 << 20, 1 << 14), n_tensors)
    ours, st, h5, arrow, gguf = (context.path(n) for n in ("a.hrry", "a.safetensors", "a.h5", "a.arrow", "a.gguf"))
    hurray.save(ours, arrays)
    yield _listing(context, arrays, ours, st, h5)
    yield _lazy(context, arrays, ours, st, arrow, gguf)


def _listing(context: Context, arrays: Arrays, ours: str, st: str, h5: str) -> Case:
    want = sorted((name, a.shape) for name, a in arrays.items())

    def listed(found: Any) -> bool:
        return sorted((name, tuple(shape)) for name, shape, _ in found) == want

    def opened() -> list[Any]:
        with hurray.open(ours) as file:
            return [(i.name, i.shape, i.dtype) for i in file.info()]

    def safe_open(module: Any, numpy_part: Any) -> Any:
        numpy_part.save_file(arrays, st)

        def run() -> list[Any]:
            with module.safe_open(st, "np") as file:
                parts = [(name, file.get_slice(name)) for name in file.keys()]  # noqa: SIM118
                return [(name, part.get_shape(), part.get_dtype()) for name, part in parts]

        return run

    def h5py(module: Any) -> Any:
        write_h5(module, h5, arrays)

        def run() -> list[Any]:
            with module.File(h5, "r") as file:
                return [(name, d.shape, d.dtype) for name, d in file.items()]

        return run

    case = Case(f"open and list name, shape and type of {len(arrays)} tensors")
    case.limit("open + mmap", lambda: np.memmap(ours, np.uint8, "r"))
    case.ours("hurray.open, info", opened, check=listed)
    case.peer("safetensors.safe_open", safe_open, "safetensors", "safetensors.numpy", check=listed)
    case.peer("h5py", h5py, "h5py", check=listed)
    case.remote(
        "pyhurray (reads all)", context.peer,
        f"result = [(n, t.shape, t.dtype) for n, t in hurray.load({ours!r}).items()]",
        check=f"len(result) == {len(arrays)}",
    )  # fmt: skip
    return case


def _lazy(context: Context, arrays: Arrays, ours: str, st: str, arrow: str, gguf: str) -> Case:
    def complete(found: Any) -> bool:
        return len(found) == len(arrays)

    def opened() -> Any:
        with hurray.open(ours) as file:
            return dict(file.items())

    def torch(module: Any, numpy_part: Any) -> Any:
        numpy_part.save_file(arrays, st)
        return lambda: module.load_file(st)

    def arrow_views(pa: Any, _: Any) -> Any:
        write_arrow(pa, arrow, arrays)
        return lambda: read_arrow(pa, arrow, len(arrays))

    def gguf_views(module: Any) -> Any:
        write_gguf(module, gguf, arrays)
        return lambda: [t.data for t in module.GGUFReader(gguf).tensors]

    case = Case(f"open {len(arrays)} tensors lazily: a tensor object of each, no values read")
    case.limit("open + mmap", lambda: np.memmap(ours, np.uint8, "r"))
    case.ours("hurray.load", lambda: hurray.load(ours), check=lambda found: same(arrays, found))
    case.ours("hurray.open, items", opened, check=lambda found: same(arrays, found))
    case.peer("safetensors.torch", torch, "safetensors.torch", "safetensors.numpy", check=complete)
    case.peer("pyarrow, mapped", arrow_views, "pyarrow", "pyarrow.ipc", check=complete)
    case.peer("gguf", gguf_views, "gguf", check=complete)
    case.goal(BEST_PEER, 0.5)
    return case


def write_h5(h5py: Any, path: str, arrays: Arrays) -> None:
    """Write arrays as contiguous datasets."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def _small(context: Context) -> Arrays:
    n_tensors = context.size(10_000, 300)
    values = context.rng.random((n_tensors, 16, 16), np.float32)
    return {f"layer.{k:05}.weight": values[k] for k in range(n_tensors)}


def read_one(context: Context) -> Iterator[Case]:
    """Task 4."""
    arrays = _small(context)
    name = list(arrays)[len(arrays) * 2 // 3]
    want = arrays[name]
    ours, plain, st, h5, npz = (context.path(n) for n in ("a.hrry", "a.bin", "a.safetensors", "a.h5", "a.npz"))
    hurray.save(ours, arrays)
    Path(plain).write_bytes(b"".join(a.tobytes() for a in arrays.values()))
    offset = list(arrays).index(name) * want.nbytes

    def right(found: Any) -> bool:
        return np.array_equal(np.asarray(found), want)

    def plain_read() -> Any:
        fd = os.open(plain, os.O_RDONLY)
        data = os.pread(fd, want.nbytes, offset)
        os.close(fd)
        return np.frombuffer(data, np.float32).reshape(want.shape)

    def opened() -> Any:
        with hurray.open(ours) as file:
            return file[name].to_numpy()

    def safe_open(module: Any, numpy_part: Any) -> Any:
        numpy_part.save_file(arrays, st)

        def run() -> Any:
            with module.safe_open(st, "np") as file:
                return file.get_tensor(name)

        return run

    def h5py(module: Any) -> Any:
        write_h5(module, h5, arrays)

        def run() -> Any:
            with module.File(h5, "r") as file:
                return file[name][...]

        return run

    def npz_member() -> Any:
        np.savez(npz, **arrays)  # type: ignore[arg-type]

        def run() -> Any:
            with np.load(npz) as file:
                return file[name]

        return run

    case = Case(f"open a file of {len(arrays)} tensors and read one")
    case.limit("open + pread", plain_read, check=right)
    case.ours("hurray.open", opened, check=right)
    case.ours("hurray.load(names=)", lambda: hurray.load(ours, names=[name])[name].to_numpy(), check=right)
    case.peer("safetensors.safe_open", safe_open, "safetensors", "safetensors.numpy", check=right)
    case.peer("h5py", h5py, "h5py", check=right)
    case.peer("numpy npz", npz_member, check=right)
    case.remote(
        "pyhurray", context.peer, f"result = np.asarray(hurray.load({ours!r}, names=[{name!r}])[{name!r}])",
        check=f"result.sum() == np.float32({float(want.sum())!r})",
    )  # fmt: skip
    case.goal("pyhurray", 1.0)
    case.goal("h5py", 3.5)
    case.goal("safetensors.safe_open", 1.0)
    yield case


def read_all(context: Context) -> Iterator[Case]:
    """Task 5."""
    arrays = _small(context)
    ours, plain, st, h5, pickled = (context.path(n) for n in ("a.hrry", "a.bin", "a.safetensors", "a.h5", "a.pickle"))
    hurray.save(ours, arrays)
    Path(plain).write_bytes(b"".join(a.tobytes() for a in arrays.values()))
    Path(pickled).write_bytes(pickle.dumps({n: a.copy() for n, a in arrays.items()}, protocol=5))
    each, shape, names = arrays[next(iter(arrays))].nbytes, (16, 16), list(arrays)

    def right(found: Any) -> bool:
        return same(arrays, found)

    def plain_read() -> Any:
        data = Path(plain).read_bytes()
        return {n: np.frombuffer(data, np.float32, each // 4, k * each).reshape(shape) for k, n in enumerate(names)}

    def opened() -> Any:
        with hurray.open(ours) as file:
            return {n: t.to_numpy() for n, t in file.items()}

    def pickle_read() -> Any:
        with open(pickled, "rb") as file:
            return pickle.load(file)

    def safetensors(module: Any) -> Any:
        module.save_file(arrays, st)
        return lambda: module.load_file(st)

    def h5py(module: Any) -> Any:
        write_h5(module, h5, arrays)

        def run() -> Any:
            with module.File(h5, "r") as file:
                return {n: d[...] for n, d in file.items()}

        return run

    case = Case(f"read all of {len(arrays)} tensors", n_items=len(arrays))
    case.limit("read() + frombuffer", plain_read, check=right)
    case.ours("hurray.load, to_numpy", lambda: {n: t.to_numpy() for n, t in hurray.load(ours).items()}, check=right)
    case.ours("hurray.open, to_numpy", opened, check=right)
    case.peer("safetensors.numpy", safetensors, "safetensors.numpy", check=right)
    case.peer("pickle", lambda: pickle_read, check=right)
    case.peer("h5py", h5py, "h5py", check=right)
    case.remote(
        "pyhurray", context.peer, f"result = {{n: np.asarray(t) for n, t in hurray.load({ours!r}).items()}}",
        check=f"len(result) == {len(arrays)}",
    )  # fmt: skip
    case.goal("safetensors.numpy", 2.0)
    case.goal("pyhurray", 0.05)
    yield case
