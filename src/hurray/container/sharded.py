"""Several files whose tensors are shards of larger ones, opened as one.

Format: descriptor, shard; composite, partition.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from hurray.container.checks import MissingTensorError
from hurray.container.kv import KVValue
from hurray.container.loading import Item
from hurray.container.reader import File
from hurray.errors import FileError, HurrayError, InvalidDescriptorError
from hurray.limits import Limits
from hurray.tensor.sharding import assemble

__all__ = ["ShardedFiles", "open_sharded"]


class ShardedFiles(Mapping[str, Item]):
    """A lazy read-only mapping over several files: what they hold shards of appears whole.

    Iteration gives every top-level name once, in the order in which the files bring them.  Opening reads the files'
    indices only; the shards of a tensor are looked at when it is asked for, and their values when those are.

    Format: descriptor, shard.
    """

    def __init__(self, files: Iterable[File]) -> None:
        self._files = tuple(files)
        self._where: dict[str, list[File]] = {}
        for file in self._files:
            for name in file:
                self._where.setdefault(name, []).append(file)

    @property
    def files(self) -> tuple[File, ...]:
        """The files, in the order given."""
        return self._files

    @property
    def names(self) -> list[str]:
        """All names."""
        return list(self._where)

    @property
    def kv(self) -> dict[str, KVValue]:
        """The metadata of all files; a key on which they differ is kept once for each, as ``<file>/<key>``."""
        held = [(os.path.basename(file.name), file.kv) for file in self._files]
        merged: dict[str, KVValue] = {}
        for k, (name, metadata) in enumerate(held):
            for key, value in metadata.items():
                agreed = all(_same(other.get(key, value), value) for _, other in held)
                place = key if agreed else f"{name}/{key}"
                # Files in several folders may have one name.
                merged[place if agreed or place not in merged else f"{k}/{place}"] = value
        return merged

    def __getitem__(self, name: str) -> Item:
        """Return a tensor: the only one of its name when it is no shard, else a partition of all shards of its name.

        Raises
        ------
        FileError
            No file has such a tensor (a KeyError too).
        InvalidDescriptorError
            Shards are missing, overlap or do not fit together, or a tensor that is no shard is in several files.
        """
        files = self._where.get(name)
        if files is None:
            raise MissingTensorError(f"none of the {len(self._files)} files has a tensor {name!r}")
        items = [file[name] for file in files]
        if len(items) == 1 and items[0].shard is None:
            return items[0]
        unplaced = [file.name for file, item in zip(files, items, strict=True) if item.shard is None]
        if unplaced:
            raise InvalidDescriptorError(
                f"tensor {name!r} is in {len(files)} files, but is no shard in {', '.join(unplaced)}"
            ).at(tensor=name)
        try:
            return assemble(items)
        except HurrayError as error:
            raise error.at(tensor=name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, name: object) -> bool:
        return name in self._where

    def close(self) -> None:
        """Close all files; tensors that were taken stay valid."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<hurray.ShardedFiles of {len(self._files)} files, {len(self)} tensors>"


def _same(a: KVValue, b: KVValue) -> bool:
    return type(a) is type(b) and repr(a) == repr(b)


def open_sharded(paths: Any, *, strategy: str = "auto", limits: Limits | None = None) -> ShardedFiles:
    """Open a set of files whose tensors are shards of larger ones as one mapping.

    Parameters
    ----------
    paths : iterable, or a path
        Whatever :func:`hurray.open` takes, in any order.  Shards of one tensor have the same name in their files.  A
        single path may be a pattern, such as ``"model-*.hrry"``.
    strategy, limits
        As of :func:`hurray.open`.

    Raises
    ------
    FileError
        A file is missing, is no Hurray file, is cut short or is corrupt; no file matches a pattern.

    Examples
    --------
    >>> import io, numpy as np, hurray
    >>> files = []
    >>> for shard in hurray.shard(np.arange(6), (3,)):
    ...     files.append(io.BytesIO())
    ...     hurray.save(files[-1], {"w": shard})
    >>> with hurray.open_sharded(files) as f:
    ...     print(f["w"], f["w"][1:5])
    hurray.Composite(rule='partition', shape=(6,), members=[Tensor, Tensor, Tensor]) [1 2 3 4]

    Format: descriptor, shard.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = _matching(os.fsdecode(paths))
    if isinstance(paths, (bytes, bytearray, memoryview)) or hasattr(paths, "read") or not hasattr(paths, "__iter__"):
        raise TypeError(f"paths is an iterable of paths or files, or a pattern, not {type(paths).__name__}")
    files: list[File] = []
    try:
        for path in paths:
            files.append(File(path, strategy=strategy, limits=limits))  # noqa: PERF401 - closed when a later one fails
        return ShardedFiles(files)
    except BaseException:
        for file in files:
            file.close()
        raise


def _matching(pattern: str) -> list[str]:
    """Return the files that a pattern stands for, in name order; a path that exists stands for itself."""
    if os.path.exists(pattern) or not glob.has_magic(pattern):
        return [pattern]
    found = sorted(glob.glob(pattern))
    if not found:
        raise FileError(f"no file matches {pattern!r}", filename=pattern)
    return found
