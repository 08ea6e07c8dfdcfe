"""safetensors checkpoints whose tensors are cut into pieces: by several files, one a rank, or by names with a suffix.

safetensors has no word for a piece of a tensor, so where a tensor was cut has to be said: the files only tell which
pieces there are.  Pieces appear as members of a partition; nothing is copied before values are read.

Format: descriptor, shard; composite, partition.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from hurray.descriptor.sections import Shard
from hurray.errors import FileError
from hurray.interop.safetensors import SafetensorsFile, from_safetensors, merge_metadata
from hurray.layouts._base import as_int
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["SafetensorsShards", "from_safetensors_shards"]

_COUNTED = re.compile(r"(?P<base>.+)[._]shard[_-](?P<k>\d{1,9})[_-]of[_-](?P<n>\d{1,9})", re.S)
_RANKED = re.compile(r"(?P<base>.+?)[._](?:tp_)?rank_?(?P<k>\d{1,9})", re.S)
_NUMBER = re.compile(r"(\d+)")


class _Place(NamedTuple):
    """One piece of a tensor: the file that has it, what messages call that, and the piece's name there."""

    file: SafetensorsFile
    where: str
    name: str

    @property
    def looks(self) -> tuple[str, tuple[int, ...]]:
        """Type and shape, from the header."""
        entry = self.file.entry(self.name)
        return entry.kind, entry.shape


class _Source(NamedTuple):
    """Where a tensor comes from: its pieces in order, and the axis along which they follow each other.

    Axis None: every place has the same whole tensor.  ``may_repeat``: it is whole where all pieces are equal.
    """

    places: tuple[_Place, ...]
    axis: int | None
    may_repeat: bool = False


class SafetensorsShards(Mapping[str, Tensor | Composite]):
    """The tensors of a split safetensors checkpoint: whole ones as tensors, split ones as partitions of their pieces.

    Tensors stay valid after :meth:`close`: they keep the mapped memory alive.

    Attributes
    ----------
    kv : dict of str to str
        The metadata of all files; a key on which they differ is kept once for each, as ``<file>/<key>``.
    """

    def __init__(
        self, files: Sequence[tuple[str, SafetensorsFile]], axis: int | None, axes: Mapping[str, int | None]
    ) -> None:
        self._files = tuple(file for _, file in files)
        self._axis = axis
        self._axes = [(re.compile(fnmatch.translate(pattern)), value) for pattern, value in axes.items()]
        self.kv: dict[str, str] = {}
        merge_metadata(self.kv, [(where, file.kv) for where, file in files])
        self._sources = self._collect(files)

    def _collect(self, files: Sequence[tuple[str, SafetensorsFile]]) -> dict[str, _Source]:
        held: dict[str, list[_Place]] = {}
        for where, file in files:
            for name in file:
                held.setdefault(name, []).append(_Place(file, where, name))
        pieces = _pieces(held)
        inside = {place.name for places in pieces.values() for place in places}
        sources: dict[str, _Source] = {}
        for name, places in held.items():
            if name not in inside:
                sources[name] = self._source(name, places, [where for where, _ in files])
                continue
            base = _base_of(name)
            if base not in sources:
                sources[base] = self._split(base, pieces[base], self._axis_of(base))
        return sources

    def _axis_of(self, name: str) -> tuple[int | None, bool]:
        """Return the axis of a tensor, and whether it was said for this name rather than for all."""
        for pattern, axis in self._axes:
            if pattern.match(name):
                return axis, True
        return self._axis, False

    def _source(self, name: str, places: list[_Place], wheres: list[str]) -> _Source:
        if len(places) == 1:
            return _Source(tuple(places), None)
        if len(places) < len(wheres):
            lacking = next(where for where in wheres if where not in {place.where for place in places})
            raise FileError(f"tensor {name!r} is in {len(places)} of {len(wheres)} files, but not in {lacking}").at(
                tensor=name
            )
        axis, said = self._axis_of(name)
        rank = len(places[0].looks[1])
        if axis is None or (not said and not -rank <= axis < rank):
            _check_same_looks(name, places)
            return _Source(tuple(places), None)
        return self._split(name, places, (axis, said), may_repeat=not said)

    def _split(
        self, name: str, places: Sequence[_Place], chosen: tuple[int | None, bool], *, may_repeat: bool = False
    ) -> _Source:
        axis = chosen[0]
        if axis is None:
            raise FileError(
                f"tensor {name!r} comes in {len(places)} pieces; say along which axis with axis= or axes="
            ).at(tensor=name)
        kind, shape = places[0].looks
        if not -len(shape) <= axis < len(shape):
            raise FileError(
                f"tensor {name!r} has shape {shape} in {places[0].where}, so it has no axis {axis} to be split along"
            ).at(tensor=name)
        axis %= len(shape)
        for place in places[1:]:
            other_kind, other = place.looks
            if other_kind != kind:
                raise FileError(
                    f"tensor {name!r} is {kind} in {places[0].where}, but {other_kind} in {place.where}"
                ).at(tensor=name)
            if len(other) != len(shape) or any(
                a != b for k, (a, b) in enumerate(zip(shape, other, strict=True)) if k != axis
            ):
                raise FileError(
                    f"tensor {name!r}: shape {shape} in {places[0].where} and {other} in {place.where} are no pieces "
                    f"of one tensor along axis {axis}"
                ).at(tensor=name)
        return _Source(tuple(places), axis, may_repeat)

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in the order in which the files bring them."""
        return list(self._sources)

    def __getitem__(self, name: str) -> Tensor | Composite:
        """Return a whole tensor, or a partition of the pieces of a split one.

        Raises
        ------
        FileError
            The files have the tensor whole, but not the same one.
        """
        source = self._sources[name]
        parts = [place.file[place.name] for place in source.places]
        if len(parts) == 1 and source.axis is None:
            return parts[0]
        if source.axis is None or source.may_repeat:
            other = _first_other(parts)
            if other is None:
                return parts[0]
            if source.axis is None:
                raise FileError(
                    f"tensor {name!r} differs between {source.places[0].where} and {source.places[other].where}; if it "
                    "is split, say along which axis with axis= or axes="
                ).at(tensor=name)
        return _partition(parts, source.axis)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def close(self) -> None:
        """Close the files; tensors that were taken stay valid."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SafetensorsShards of {len(self._files)} files, {len(self)} tensors>"


def from_safetensors_shards(
    paths: Any, *, axis: int | None = None, axes: Mapping[str, int | None] | None = None
) -> SafetensorsShards:
    """Open a safetensors checkpoint whose tensors are really split, as a lazy mapping to whole ones.

    Tensors are split in one of two ways.  Several files, one a rank in the order given, have pieces under one name; or
    pieces have a suffix: ``<name>.shard_<k>_of_<n>`` (counted from 0 or from 1), ``<name>.rank_<k>``.

    Parameters
    ----------
    paths : iterable of paths, or one path
        The files; each is whatever :func:`from_safetensors` takes.
    axis : int, optional
        Where tensors were split, for all of them.  What is equal in all files (norms, for example) is not split but
        repeated, and appears once.
    axes : mapping of str to int or None, optional
        Name patterns (``*``, ``?``, ``[abc]``) with their axes, before ``axis``; the first that matches rules.  Such a
        tensor is split even if its pieces are equal; None: it is whole in every file.

    Returns
    -------
    SafetensorsShards
        Split tensors are partition composites, whole ones tensors.

    Raises
    ------
    FileError
        A file is missing or broken; a tensor is missing in some files; types or shapes do not fit together; whole
        tensors differ; numbers in the files' names show that they are out of order.

    Examples
    --------
    >>> import io, numpy as np, hurray
    >>> w = np.arange(12, dtype=np.float32).reshape(4, 3)
    >>> ranks = []
    >>> for half in (w[:2], w[2:]):
    ...     ranks.append(io.BytesIO())
    ...     hurray.to_safetensors(ranks[-1], {"w": half, "norm": np.ones(3)})
    >>> with hurray.from_safetensors_shards([r.getvalue() for r in ranks], axis=0) as f:
    ...     print(f["w"], f["w"][1:3, 0], f["norm"].shape)
    hurray.Composite(rule='partition', shape=(4, 3), members=[Tensor, Tensor]) [3. 6.] (3,)

    Format: descriptor, shard; composite, partition.
    """
    single = isinstance(paths, (str, bytes, bytearray, memoryview, os.PathLike)) or not hasattr(paths, "__iter__")
    given = [paths] if single or hasattr(paths, "read") else list(paths)
    if not given:
        raise FileError("there is no file to read")
    for pattern, value in (axes or {}).items():
        if value is not None:
            as_int(value, f"axes[{pattern!r}]", low=-64, high=63)
    if axis is not None:
        as_int(axis, "axis", low=-64, high=63)
    wheres = _names_of(given)
    with ExitStack() as opened:
        files = []
        for where, path in zip(wheres, given, strict=True):
            file = from_safetensors(path)
            opened.callback(file.close)
            files.append((where, file))
        shards = SafetensorsShards(files, axis, axes or {})
        opened.pop_all()
    return shards


def _names_of(paths: Sequence[Any]) -> list[str]:
    """Return what messages call the files, after checking that numbered ones are in order.

    A list sorted as text has rank 10 before rank 2, and pieces put together in that order would be wrong silently.
    """
    texts = [os.fsdecode(path) if isinstance(path, (str, os.PathLike)) else "" for path in paths]
    found = [os.path.basename(text) or f"file {k}" for k, text in enumerate(texts)]
    if len(set(found)) < len(found):
        found = [text or f"file {k}" for k, text in enumerate(texts)]
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise FileError(f"{twice} is given twice", filename=twice)
    split = [_NUMBER.split(name) for name in found]
    if len({tuple(parts[::2]) for parts in split}) == 1:
        numbers = [tuple(map(int, parts[1::2])) for parts in split]
        for k in range(1, len(numbers)):
            if numbers[k] < numbers[k - 1]:
                raise FileError(
                    f"the files are out of order: {found[k - 1]} comes before {found[k]}; give them by rank, first to "
                    "last"
                )
    return found


def _base_of(name: str) -> str:
    found = _COUNTED.fullmatch(name) or _RANKED.fullmatch(name)
    return found["base"] if found else name


def _pieces(held: Mapping[str, list[_Place]]) -> dict[str, list[_Place]]:
    """Return the tensors that come in pieces by a suffix of their names, each with its pieces in order.

    Raises
    ------
    FileError
        A piece of a counted set is missing or there twice, or the counts differ.
    """
    counted: dict[str, list[tuple[int, int, list[_Place]]]] = {}
    ranked: dict[str, dict[int, list[_Place]]] = {}
    for name, places in held.items():
        if found := _COUNTED.fullmatch(name):
            counted.setdefault(found["base"], []).append((int(found["k"]), int(found["n"]), places))
        elif found := _RANKED.fullmatch(name):
            ranked.setdefault(found["base"], {})[int(found["k"])] = places
    pieces: dict[str, list[_Place]] = {}
    for base, rows in counted.items():
        _check_free(base, held)
        pieces[base] = _in_order(base, rows)
    for base, by_rank in ranked.items():
        # One name that ends so, or names that leave gaps, are names like any other.
        whole = len(by_rank) > 1 and sorted(by_rank) == list(range(len(by_rank)))
        if whole and base not in held and base not in pieces and all(len(places) == 1 for places in by_rank.values()):
            pieces[base] = [by_rank[k][0] for k in range(len(by_rank))]
    return pieces


def _check_free(base: str, held: Mapping[str, list[_Place]]) -> None:
    if base in held:
        raise FileError(f"tensor {base!r} is there whole and in pieces").at(tensor=base)


def _in_order(base: str, rows: list[tuple[int, int, list[_Place]]]) -> list[_Place]:
    counts = {n for _, n, _ in rows}
    if len(counts) > 1:
        raise FileError(f"tensor {base!r}: its pieces are counted differently: {sorted(counts)}").at(tensor=base)
    n = counts.pop()
    numbers = sorted(k for k, _, places in rows for _ in places)
    first = 1 if numbers[-1] == n else 0
    # The count is a claim: what is there bounds the work.
    for k, number in enumerate([*numbers, -1], first):
        if number != k and k < first + n:
            twice = number == k - 1 and k > first
            fault = f"piece {number} of {n} is there twice" if twice else f"piece {k} of {n} is missing"
            raise FileError(f"tensor {base!r}: {fault}").at(tensor=base)
    if len(numbers) > n:
        raise FileError(f"tensor {base!r}: there are {len(numbers)} pieces, but they count {n}").at(tensor=base)
    return [places[0] for _, _, places in sorted(rows, key=lambda row: row[0])]


def _check_same_looks(name: str, places: Iterable[_Place]) -> None:
    first, *rest = places
    for place in rest:
        if place.looks != first.looks:
            (kind, shape), (other_kind, other) = first.looks, place.looks
            raise FileError(
                f"tensor {name!r} is {kind} of shape {shape} in {first.where}, but {other_kind} of shape {other} in "
                f"{place.where}; if it is split, say along which axis with axis= or axes="
            ).at(tensor=name)


def _first_other(parts: Sequence[Tensor]) -> int | None:
    """Return the place of the first tensor that is not bit for bit the first one."""
    first = parts[0]
    for k, other in enumerate(parts[1:], 1):
        if other.shape != first.shape or other.dtype is not first.dtype:
            return k
        a, b = first._buffers[0], other._buffers[0]
        # Tensors that differ mostly do so at once.
        if not np.array_equal(a[:4096], b[:4096]) or not np.array_equal(a, b):
            return k
    return None


def _partition(parts: Sequence[Tensor], axis: int) -> Composite:
    shapes: list[Any] = [part.shape for part in parts]
    whole = list(shapes[0])
    whole[axis] = sum(shape[axis] for shape in shapes)
    members, at = [], 0
    for part, shape in zip(parts, shapes, strict=True):
        offset = [0] * len(whole)
        offset[axis] = at
        members.append(part._replace(shard=Shard(whole, offset)))
        at += shape[axis]
    return Composite("partition", shape=whole, dtype=parts[0].dtype, members=members)
