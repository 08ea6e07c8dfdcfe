"""Task 8: windows out of a square float32 array that lies in tiles, from an open handle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hurray
from benchmarks.context import Context
from benchmarks.model import Case, needed

Array = NDArray[np.float32]
Window = tuple[slice, slice]


def windows(context: Context) -> Iterator[Case]:
    """Task 8."""
    n, tile = context.size(8192, 1024), context.size(256, 64)
    array: Array = context.rng.random((n, n), np.float32)
    readers = _Readers(context, array, tile)
    side = 2 * tile
    corners = context.rng.integers(0, n - side, (context.size(64, 8), 2)).tolist()
    rows = context.rng.permutation(n)[: context.size(256, 16)].tolist()
    columns = context.rng.permutation(n)[: context.size(8, 4)].tolist()
    full = slice(0, n)
    yield readers.case(
        f"{len(corners)} windows of {side}x{side}", [(slice(r, r + side), slice(c, c + side)) for r, c in corners], 1.4
    )
    yield readers.case(f"{len(rows)} rows", [(slice(r, r + 1), full) for r in rows], 0.75)
    yield readers.case(f"{len(columns)} columns", [(full, slice(c, c + 1)) for c in columns], 0.8)


class _Readers:
    """The same array behind every contender's open handle; files are written once, for all three cases."""

    def __init__(self, context: Context, array: Array, tile: int) -> None:
        self._context = context
        self._array = array
        self._tile = tile
        self._open: dict[str, Any] = {}
        path = context.path("tiled.hrry")
        hurray.save(path, {"x": hurray.from_numpy(array).to_layout("tiled", tile_shape=[tile, tile])})
        self._file = hurray.open(path)

    def case(self, what: str, wanted: list[Window], goal: float) -> Case:
        """Return the case of reading these windows."""
        n, tile, array = len(self._array), self._tile, self._array
        n_bytes = sum(array[w].nbytes for w in wanted)
        case = Case(f"{what} out of {n}x{n} float32 in {tile}x{tile} tiles", n_bytes=n_bytes)
        tensor: Any = self._file["x"]

        def right(found: list[Any]) -> bool:
            return all(np.array_equal(np.asarray(f), array[w]) for f, w in zip(found, wanted, strict=True))

        def each(read: Callable[[Window], Any]) -> Callable[[], list[Any]]:
            return lambda: [read(w) for w in wanted]

        case.limit("slice of an array in memory", each(lambda w: array[w].copy()), check=right)
        case.ours("hurray", each(lambda w: tensor[w]), check=right)
        case.limit("np.memmap, row-major", each(self._row_major()), check=right)
        case.peer("np.memmap of tiles, NumPy loop", lambda: each(self._tiles()), check=right)
        case.peer(
            "tensorstore, cached", lambda ts: each(self._tensorstore(ts, cached=True)), "tensorstore", check=right
        )
        case.peer("tensorstore", lambda ts: each(self._tensorstore(ts, cached=False)), "tensorstore", check=right)
        case.peer("tensorstore, all at once", lambda ts: self._at_once(ts, wanted), "tensorstore", check=right)
        case.peer("h5py chunked", lambda h5py: each(self._h5py(h5py)), "h5py", check=right)
        case.peer("zarr", lambda zarr: each(self._zarr(zarr)), "zarr", check=right)
        case.goal("tensorstore, cached", goal)
        return case

    def _kept(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._open:
            self._open[name] = make()
        return self._open[name]

    def _row_major(self) -> Callable[[Window], Any]:
        def make() -> Any:
            path = self._context.path("rows.bin")
            self._array.tofile(path)
            return np.memmap(path, np.float32, "r", shape=self._array.shape)

        mapped = self._kept("rows", make)
        return lambda w: np.array(mapped[w])

    def _tiles(self) -> Callable[[Window], Any]:
        t, k = self._tile, len(self._array) // self._tile

        def make() -> Any:
            path = self._context.path("tiles.bin")
            np.ascontiguousarray(self._array.reshape(k, t, k, t).transpose(0, 2, 1, 3)).tofile(path)
            return np.memmap(path, np.float32, "r", shape=(k, k, t, t))

        mapped = self._kept("tiles", make)

        def read(w: Window) -> Array:
            rows, columns = w
            out = np.empty((rows.stop - rows.start, columns.stop - columns.start), np.float32)
            for i in range(rows.start // t, (rows.stop - 1) // t + 1):
                top, bottom = max(rows.start, i * t), min(rows.stop, (i + 1) * t)
                for j in range(columns.start // t, (columns.stop - 1) // t + 1):
                    left, right = max(columns.start, j * t), min(columns.stop, (j + 1) * t)
                    out[top - rows.start : bottom - rows.start, left - columns.start : right - columns.start] = mapped[
                        i, j, top - i * t : bottom - i * t, left - j * t : right - j * t
                    ]
            return out

        return read

    def _h5py(self, h5py: Any) -> Callable[[Window], Any]:
        def make() -> Any:
            path = self._context.path("chunked.h5")
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=self._array, chunks=(self._tile, self._tile))
            return h5py.File(path, "r")["x"]

        dataset = self._kept("h5", make)
        return lambda w: dataset[w]

    def _zarr_path(self, zarr: Any) -> str:
        path = self._context.path("x.zarr")

        def make() -> Any:
            made = zarr.create_array(
                path, shape=self._array.shape, chunks=(self._tile, self._tile), dtype="float32", compressors=None
            )
            made[...] = self._array
            return path

        self._kept("zarr written", make)
        return path

    def _zarr(self, zarr: Any) -> Callable[[Window], Any]:
        path = self._zarr_path(zarr)
        opened = self._kept("zarr", lambda: zarr.open_array(path, mode="r"))
        return lambda w: opened[w]

    def _store(self, tensorstore: Any, *, cached: bool) -> Any:
        (zarr,) = needed("zarr")
        path = self._zarr_path(zarr)

        def make() -> Any:
            spec: dict[str, Any] = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}
            if cached:
                spec["context"] = {"cache_pool": {"total_bytes_limit": 2 * self._array.nbytes}}
            return tensorstore.open(spec, read=True).result()

        return self._kept(f"tensorstore {cached}", make)

    def _tensorstore(self, tensorstore: Any, *, cached: bool) -> Callable[[Window], Any]:
        store = self._store(tensorstore, cached=cached)
        return lambda w: store[w].read().result()

    def _at_once(self, tensorstore: Any, wanted: list[Window]) -> Callable[[], list[Any]]:
        store = self._store(tensorstore, cached=False)

        def run() -> list[Any]:
            waiting = [store[w].read() for w in wanted]
            return [future.result() for future in waiting]

        return run
