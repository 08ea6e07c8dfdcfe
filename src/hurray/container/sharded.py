"""Several files whose tensors are shards of larger ones, opened as one.

Format: descriptor, shard; composite, partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from hurray.container.checks import MissingTensorError
from hurray.container.reader import File, Item
from hurray.errors import HurrayError, InvalidDescriptorError
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


def open_sharded(paths: Iterable[Any], *, strategy: str = "auto", limits: Limits | None = None) -> ShardedFiles:
    """Open a set of files whose tensors are shards of larger ones as one mapping.

    Parameters
    ----------
    paths : iterable
        Whatever :func:`hurray.open` takes, in any order.  Shards of one tensor have the same name in their files.
    strategy, limits
        As of :func:`hurray.open`.

    Raises
    ------
    FileError
        A file is missing, is no Hurray file, is cut short or is corrupt.

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
    if isinstance(paths, (str, bytes, os.PathLike)) or not hasattr(paths, "__iter__"):
        raise TypeError(f"paths is an iterable of paths or files, not {type(paths).__name__}")
    files: list[File] = []
    try:
        for path in paths:
            files.append(File(path, strategy=strategy, limits=limits))  # noqa: PERF401 - closed when a later one fails
        return ShardedFiles(files)
    except BaseException:
        for file in files:
            file.close()
        raise
