"""Task 12: row-major arrays into tiles and along curves and back, and the curves' indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hurray
from benchmarks import curve_formulas as formulas
from benchmarks.context import Context
from benchmarks.model import BEST_PEER, Case
from hurray.kernels.curves import morton_decode, morton_encode
from hurray.kernels.hilbert import hilbert_decode, hilbert_encode

Array = NDArray[Any]
_TILE = 128
#: the whole-array Hilbert formula is slow, so it gets a square of a quarter of the side
_PART = 4


def layouts(context: Context) -> Iterator[Case]:
    """Task 12."""
    side = context.size(4096, 512)
    square = context.rng.random((side, side), np.float32)
    yield from _tiles(square)
    yield from _morton(square)
    yield from _hilbert(square)
    count = context.size(1_000_000, 10_000)
    points = context.rng.integers(0, 1 << 16, (count, 2))
    yield from _morton_indices(points)
    yield from _hilbert_indices(points)


def _case(title: str, array: Array) -> Case:
    case = Case(title, n_bytes=array.nbytes)
    warm = np.empty_like(array)
    case.limit("memcpy", lambda: np.copyto(warm, array))
    case.limit("memcpy into new memory", array.copy)
    return case


def _stored(t: hurray.Tensor) -> Array:
    return t.buffer(0).to_numpy().view(np.float32)


def _tiles(square: Array) -> Iterator[Case]:
    side, k = len(square), len(square) // _TILE
    tensor = hurray.from_numpy(square)
    parts = square.reshape(k, _TILE, k, _TILE)
    want = np.ascontiguousarray(parts.transpose(0, 2, 1, 3))
    tiled = tensor.to_layout("tiled", tile_shape=[_TILE, _TILE])

    def torch(array: Array, extents: tuple[int, ...]) -> Callable[[Any], Callable[[], Any]]:
        def make(module: Any) -> Callable[[], Any]:
            given = module.from_numpy(array)
            return lambda: given.view(*extents).permute(0, 2, 1, 3).contiguous()

        return make

    case = _case(f"row-major -> tiles of {_TILE}x{_TILE}, {side}x{side} float32", square)
    case.ours("hurray", lambda: tensor.to_layout("tiled", tile_shape=[_TILE, _TILE]),
              check=lambda t: np.array_equal(_stored(t), want.reshape(-1)))  # fmt: skip
    case.peer(
        "torch permute", torch(square, (k, _TILE, k, _TILE)), "torch", check=lambda f: np.array_equal(f.numpy(), want)
    )
    case.peer("NumPy transpose", lambda: lambda: np.ascontiguousarray(parts.transpose(0, 2, 1, 3)))
    case.goal("torch permute", 1.25)
    yield case
    case = _case(f"tiles of {_TILE}x{_TILE} -> row-major, {side}x{side} float32", square)
    case.ours("hurray", tiled.to_numpy, check=lambda f: np.array_equal(f, square))
    case.peer("torch permute", torch(want, (k, k, _TILE, _TILE)), "torch")
    case.peer("NumPy transpose", lambda: lambda: np.ascontiguousarray(want.transpose(0, 2, 1, 3)).reshape(side, side),
              check=lambda f: np.array_equal(f, square))  # fmt: skip
    case.goal("torch permute", 1.25)
    yield case


def _morton(square: Array) -> Iterator[Case]:
    side = len(square)
    tensor = hurray.from_numpy(square)
    linear = formulas.to_morton(square)
    stored = tensor.to_layout("morton")
    case = _case(f"row-major -> Morton, {side}x{side} float32", square)
    case.ours("hurray", lambda: tensor.to_layout("morton"), check=lambda t: np.array_equal(_stored(t), linear))
    case.peer("NumPy formula", lambda: lambda: formulas.to_morton(square))
    case.goal("NumPy formula", 1.0)
    yield case
    case = _case(f"Morton -> row-major, {side}x{side} float32", square)
    case.ours("hurray", stored.to_numpy, check=lambda f: np.array_equal(f, square))
    case.peer("NumPy formula", lambda: lambda: formulas.from_morton(linear), check=lambda f: np.array_equal(f, square))
    case.goal("NumPy formula", 1.0)
    yield case


def _indices(side: int) -> tuple[Array, Array]:
    rows, columns = np.mgrid[:side, :side]
    return rows, columns


def _hilbert(square: Array) -> Iterator[Case]:
    side = len(square)
    order = side.bit_length() - 1
    tensor = hurray.from_numpy(square)
    stored = tensor.to_layout("hilbert")
    rows, columns = _indices(side)
    linear = np.empty(square.size, np.float32)
    linear[formulas.skilling_index(rows, columns, order)] = square
    part = np.ascontiguousarray(square[: side // _PART, : side // _PART])
    scale = _PART * _PART
    part_linear = part.reshape(-1)

    def index() -> Array:
        part_rows, part_columns = _indices(len(part))
        return formulas.skilling_index(part_rows, part_columns, order - _PART.bit_length() + 1)

    def formula() -> Array:
        out = np.empty(part.size, np.float32)
        out[index()] = part
        return out

    case = _case(f"row-major -> Hilbert, {side}x{side} float32", square)
    case.ours("hurray", lambda: tensor.to_layout("hilbert"), check=lambda t: np.array_equal(_stored(t), linear))
    case.peer("NumPy, Skilling's loop", lambda: formula, scale=scale)
    case.goal("memcpy", 10)
    yield case
    case = _case(f"Hilbert -> row-major, {side}x{side} float32", square)
    case.ours("hurray", stored.to_numpy, check=lambda f: np.array_equal(f, square))
    case.peer("NumPy, Skilling's loop", lambda: lambda: part_linear[index()], scale=scale)
    case.goal("memcpy", 10)
    yield case


def _index_case(title: str, points: Array) -> Case:
    case = Case(f"{title}, {len(points)} points", n_items=len(points))
    case.limit("copy of the indices", points[:, 0].astype(np.uint64).copy)
    return case


def _morton_indices(points: Array) -> Iterator[Case]:
    rows, columns = (np.ascontiguousarray(points[:, k]) for k in (0, 1))
    codes = formulas.morton_index(rows, columns)
    few = max(1, len(points) // 100)
    some, some_codes = points[:few].tolist(), codes[:few].tolist()
    case = _index_case("Morton encode", points)
    case.ours("hurray", lambda: morton_encode(points, 2), check=lambda found: np.array_equal(found, codes))
    case.peer("NumPy masks and shifts", lambda: lambda: formulas.morton_index(rows, columns))
    case.peer("pymorton", lambda m: lambda: [m.interleave2(r, c) for r, c in some], "pymorton", scale=len(points) / few,
              check=lambda found: found == some_codes)  # fmt: skip
    case.goal("pymorton", 1 / 50)
    yield case
    case = _index_case("Morton decode", points)
    case.ours("hurray", lambda: morton_decode(codes, 2), check=lambda found: np.array_equal(found, points))
    case.peer("pymorton", lambda m: lambda: [m.deinterleave2(c) for c in some_codes], "pymorton",
              scale=len(points) / few, check=lambda found: [list(p) for p in found] == some)  # fmt: skip
    case.goal("pymorton", 1 / 50)
    yield case


def _hilbert_indices(points: Array) -> Iterator[Case]:
    order = 16
    rows, columns = (np.ascontiguousarray(points[:, k]) for k in (0, 1))
    index = hilbert_encode(points, order)
    want = formulas.skilling_index(rows, columns, order).astype(np.uint64)
    few, least = max(1, len(points) // 10), max(1, len(points) // 100)
    some, some_index = points[:least].tolist(), index[:least].tolist()
    case = _index_case("Hilbert encode", points)
    case.ours("hurray", lambda: hilbert_encode(points, order), check=lambda found: np.array_equal(found, want))
    case.peer("NumPy, Skilling's loop", lambda: lambda: formulas.skilling_index(rows, columns, order))
    case.peer(
        "numpy-hilbert-curve", lambda m: lambda: m.encode(points[:few], 2, order), "hilbert", scale=len(points) / few
    )
    case.peer("hilbertcurve", lambda m: lambda: m.HilbertCurve(order, 2).distances_from_points(some),
              "hilbertcurve.hilbertcurve", scale=len(points) / least)  # fmt: skip
    case.goal("numpy-hilbert-curve", 1 / 100)
    case.goal(BEST_PEER, 1.0)
    yield case
    case = _index_case("Hilbert decode", points)
    case.ours("hurray", lambda: hilbert_decode(index, 2, order), check=lambda found: np.array_equal(found, points))
    case.peer(
        "numpy-hilbert-curve", lambda m: lambda: m.decode(index[:few], 2, order), "hilbert", scale=len(points) / few
    )
    case.peer("hilbertcurve", lambda m: lambda: m.HilbertCurve(order, 2).points_from_distances(some_index),
              "hilbertcurve.hilbertcurve", scale=len(points) / least,
              check=lambda found: len(found) == least)  # fmt: skip
    case.goal("numpy-hilbert-curve", 1 / 100)
    yield case
