"""Codes times scales, a cache-sized chunk at a time: what all quantization kernels share.

The idea: every scheme multiplies an N-D array of codes by parameters that are constant along some axes and change
every ``block_size`` elements along one of them. Parameters therefore come in *broadcast form*: an array with the rank
of the codes whose every dimension is 1 or that of the codes, except along ``axis``, where it counts blocks. Splitting
``axis`` into (block, element) turns that into plain NumPy broadcasting, and working through it in chunks that stay in
the cache doubles the speed of whole-array formulas and makes no large temporaries. NumPy releases the GIL inside
a chunk, so two threads share a large input.

Format: quantization, limits and formulas.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NonFiniteError",
    "ScaleRangeError",
    "as_float32",
    "block_params",
    "channel_params",
    "first_non_finite",
    "for_each_chunk",
    "n_blocks",
    "output",
    "reduce_blocks",
    "round_scales",
    "widen_scales",
]

Array: TypeAlias = NDArray[Any]
Float32: TypeAlias = NDArray[np.float32]
ScaleType = Literal["float16", "bfloat16", "float32"]

# Half a MiB of float32 stays in a second level cache, and is enough work for a chunk to outweigh its dozen calls.
# Threads get twice as much, because they wait for each other at every call.
CHUNK_ELEMS = 1 << 17
_THREADED_CHUNK_ELEMS = 1 << 18
_THREAD_ELEMS = 1 << 20
_MAX_THREADS = 4


class NonFiniteError(ValueError):
    """The input holds a NaN or an infinity, or a number beyond float32.

    Attributes
    ----------
    position : tuple of int
        Index of the first such element in C order.
    value : float
        The element.
    """

    def __init__(self, position: tuple[int, ...], value: float) -> None:
        super().__init__(f"element {list(position)} is {value}")
        self.position = position
        self.value = value


class ScaleRangeError(ValueError):
    """A scale does not fit the scale type, or codes without a sign meet a negative number."""


def n_blocks(n: int, block_size: int) -> int:
    """Return the number of blocks along an axis of ``n`` elements.

    Examples
    --------
    >>> n_blocks(10, 4)
    3
    """
    return -(-n // block_size)


def channel_params(flat: Array, rank: int, axis: int) -> Array:
    """Bring one parameter per index of ``axis`` (shape (n,)) into broadcast form.

    Examples
    --------
    >>> channel_params(np.ones(3), 2, 0).shape
    (3, 1)
    """
    return flat.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))


def block_params(flat: Array, shape: Sequence[int], axis: int, block_size: int) -> Array:
    """Bring one parameter per block, in wire order (the block fastest), into broadcast form: a view.

    Examples
    --------
    >>> block_params(np.arange(6), (4, 3), 0, 2)[:, 1]
    array([2, 3])
    """
    others = tuple(n for k, n in enumerate(shape) if k != axis)
    return np.moveaxis(flat.reshape(*others, n_blocks(shape[axis], block_size)), -1, axis)


def widen_scales(raw: Array, scale_type: ScaleType) -> Float32:
    """Return stored scales as float32: float16 values, bfloat16 bit patterns (uint16), or float32 values.

    Examples
    --------
    >>> widen_scales(np.array([0x3F80], np.uint16), "bfloat16")
    array([1.], dtype=float32)
    """
    if scale_type == "bfloat16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32, copy=False)


def round_scales(scales: Float32, scale_type: ScaleType) -> Array:
    """Round float32 scales to the nearest of ``scale_type`` (ties to even), as :func:`widen_scales` takes them."""
    if scale_type == "bfloat16":
        wide = scales.view(np.uint32)
        return ((wide + (((wide >> 16) & 1) + 0x7FFF)) >> 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        return scales.astype(np.float16 if scale_type == "float16" else np.float32)


def as_float32(chunk: Array) -> Float32:
    """Return numbers of any real type as native float32 (rounded to nearest), copying only where needed."""
    return chunk.astype(np.float32, copy=False)


# Chunks


def _boxes(shape: Sequence[int], limit: int) -> list[tuple[slice, ...]]:
    """Cut an index space into boxes of about ``limit`` elements, each a run in C order, in C order."""
    if 0 in shape:
        return []
    axis = len(shape)
    inner = 1
    while axis > 0 and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        return [(slice(None),) * len(shape)]
    axis -= 1
    step = n_blocks(shape[axis], n_blocks(shape[axis], max(1, limit // inner)))
    runs = [slice(at, min(at + step, shape[axis])) for at in range(0, shape[axis], step)]
    rest = (slice(None),) * (len(shape) - axis - 1)
    return [(*(slice(k, k + 1) for k in outer), run, *rest) for outer in np.ndindex(*shape[:axis]) for run in runs]


def _boxes_around(shape: Sequence[int], kept: int, limit: int) -> list[tuple[slice, ...]]:
    """Cut an index space into boxes like :func:`_boxes`, each with all of dimension ``kept``."""
    others = [n for k, n in enumerate(shape) if k != kept]
    return [(*box[:kept], slice(None), *box[kept:]) for box in _boxes(others, max(1, limit // max(1, shape[kept])))]


def n_threads(n_elems: int, workers: int | None) -> int:
    """Return how many threads to use: ``workers``, or by default the available cores for large inputs."""
    if workers is not None:
        return max(1, workers)
    if n_elems < _THREAD_ELEMS:
        return 1
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(cores, _MAX_THREADS)


def _run(tasks: Sequence[Callable[[], None]], threads: int) -> None:
    """Run tasks in order, or on a few threads that take the next one as they become free."""

    def drain() -> None:
        with np.errstate(all="ignore"):
            for at in counter:
                if at >= len(tasks):
                    return
                tasks[at]()

    counter = itertools.count()
    if threads == 1 or len(tasks) < 2 * threads:
        drain()
        return
    # Imported here because `import hurray` must stay cheap and small tensors never need it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(drain) for _ in range(threads)]:
            done.result()


Chunk: TypeAlias = "tuple[Array, ...]"
Work: TypeAlias = "Callable[[Chunk, tuple[Any, ...]], None]"


def for_each_chunk(
    work: Work,
    arrays: tuple[Array, ...],
    params: tuple[Array | None, ...] = (),
    *,
    rank: int | None = None,
    axis: int = 0,
    block_size: int = 1,
    elems_per_item: int = 1,
    keep_blocks: bool = False,
    workers: int | None = None,
) -> None:
    """Call ``work`` on matching chunks of arrays and parameters.

    Parameters
    ----------
    work
        Called with the chunks of ``arrays`` and of ``params``, which broadcast against each other. With a
        ``block_size`` above 1 the chunks of whole blocks have one more dimension, the elements of a block, behind
        ``axis``.
    arrays
        Arrays whose first ``rank`` dimensions are equal, any strides; all are views for ``work`` to read or write.
    params
        Arrays in broadcast form, or None; dimensions behind ``rank`` must be there for broadcasting.
    rank
        Number of shared dimensions; by default all of the first array's.
    axis, block_size
        The axis along which parameters change, and every how many items.
    elems_per_item
        Output elements of one item, for sizing the chunks.
    keep_blocks
        Never cut a block, for work that reduces over it. Otherwise a large one may fall into several chunks.
    workers
        Number of threads; by default one for small inputs.
    """
    rank = arrays[0].ndim if rank is None else rank
    shape = arrays[0].shape[:rank]
    threads = n_threads(math.prod(shape) * elems_per_item, workers)
    limit = max(1, (CHUNK_ELEMS if threads == 1 else _THREADED_CHUNK_ELEMS) // elems_per_item)
    tasks: list[Callable[[], None]] = []
    for part_arrays, part_params, part_shape in _split(arrays, params, shape, axis, block_size):
        kept = axis + len(part_shape) - rank if keep_blocks and block_size > 1 else None
        boxes = _boxes(part_shape, limit) if kept is None else _boxes_around(part_shape, kept, limit)
        tasks += [_task(work, part_arrays, part_params, box) for box in boxes]
    _run(tasks, threads)


def _split(
    arrays: Chunk, params: tuple[Array | None, ...], shape: tuple[int, ...], axis: int, block_size: int
) -> list[tuple[Chunk, tuple[Array | None, ...], tuple[int, ...]]]:
    """Split ``axis`` into whole blocks (one more dimension) and the partial last block."""
    if block_size == 1 or not shape or all(p is None for p in params):
        return [(arrays, params, shape)]
    before = (slice(None),) * axis
    whole = shape[axis] // block_size
    at = whole * block_size
    parts: list[tuple[Chunk, tuple[Array | None, ...], tuple[int, ...]]] = []
    if whole:
        folded = (*shape[:axis], whole, block_size, *shape[axis + 1 :])
        parts.append(
            (
                tuple(a[(*before, slice(0, at))].reshape(folded + a.shape[len(shape) :]) for a in arrays),
                tuple(None if p is None else np.expand_dims(p[(*before, slice(0, whole))], axis + 1) for p in params),
                folded,
            )
        )
    if at < shape[axis]:
        parts.append(
            (
                tuple(a[(*before, slice(at, None))] for a in arrays),
                tuple(None if p is None else p[(*before, slice(whole, None))] for p in params),
                (*shape[:axis], shape[axis] - at, *shape[axis + 1 :]),
            )
        )
    return parts


def _task(work: Work, arrays: Chunk, params: tuple[Array | None, ...], box: tuple[slice, ...]) -> Callable[[], None]:
    # The ellipsis keeps 0-d arrays arrays.
    key: tuple[Any, ...] = (*box, ...)

    def task() -> None:
        work(tuple(a[key] for a in arrays), tuple(None if p is None else p[_broadcast_key(p, box)] for p in params))

    return task


def _broadcast_key(param: Array, box: tuple[slice, ...]) -> tuple[Any, ...]:
    return (*(slice(None) if param.shape[k] == 1 else run for k, run in enumerate(box)), ...)


def reduce_blocks(ufunc: np.ufunc, chunk: Array, axis: int) -> Array:
    """Reduce the elements of every block, keeping the dimension.

    NumPy reduces short rows one by one at a few bytes a nanosecond; a transposed copy or ``reduceat`` over the flat
    chunk are up to four times faster.
    """
    n = chunk.shape[axis]
    if axis == chunk.ndim - 1 and 1 < n <= 512 and chunk.flags.c_contiguous:
        lead = (*chunk.shape[:-1], 1)
        if n < 32:
            columns = np.ascontiguousarray(chunk.reshape(-1, n).T)
            return ufunc.reduce(columns, axis=0).reshape(lead)  # type: ignore[no-any-return]
        return ufunc.reduceat(chunk.reshape(-1), np.arange(0, chunk.size, n)).reshape(lead)
    return ufunc.reduce(chunk, axis=axis, keepdims=True)  # type: ignore[no-any-return]


def first_non_finite(x: Array) -> NonFiniteError | None:
    """Return an error that names the first element which is not finite in float32, or None.

    Examples
    --------
    >>> first_non_finite(np.array([[1.0, np.nan]])).position
    (0, 1)
    """
    for box in _boxes(x.shape, CHUNK_ELEMS):
        key: tuple[Any, ...] = (*box, ...)
        chunk = x[key]
        with np.errstate(all="ignore"):
            bad = ~np.isfinite(as_float32(chunk))
        if bad.any():
            place = np.unravel_index(int(bad.argmax()), bad.shape)
            position = tuple(int(k) + (s.start or 0) for k, s in zip(place, box, strict=True))
            return NonFiniteError(position, float(x[position]))
    return None


def output(out: Float32 | None, shape: tuple[int, ...]) -> Float32:
    """Return ``out`` after a check, or a new float32 array."""
    if out is None:
        return np.empty(shape, np.float32)
    if out.dtype != np.float32 or not out.dtype.isnative or out.shape != shape:
        raise ValueError(f"out must be a float32 array of shape {shape}, got {out.dtype} {out.shape}")
    return out
