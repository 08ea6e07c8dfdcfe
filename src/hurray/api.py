"""The front door: short functions that join the packages.

Format: file container.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hurray.container.header import MIN_ALIGNMENT
from hurray.container.kv import KVValue
from hurray.container.reader import File
from hurray.container.writer import Writer
from hurray.limits import Limits
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["load", "load_kv", "open", "save"]


def save(
    path: Any,
    tensors: Mapping[str, Any],
    *,
    kv: Mapping[str, Any] | None = None,
    alignment: int = MIN_ALIGNMENT,
    sort_index: bool = False,
    statistics: bool = False,
    atomic: bool = True,
) -> None:
    """Write tensors to a Hurray file.

    Parameters
    ----------
    path : str, os.PathLike, URL, or binary file object
        A path is replaced whole, and only when everything is written.
    tensors : mapping of str to Tensor, Composite, or anything that ``asarray`` takes
        Taken one at a time, so a mapping that makes them on demand needs little memory.
    kv : mapping, optional
        Metadata: str, int, float, bool, bytes, or lists of one of them.
    alignment : int
        Where buffers start, in bytes: a power of two, 4096 to 2 MiB.
    sort_index : bool
        Write the index in name order.
    statistics : bool
        Compute the statistics of every plain tensor that has none, and write them into its descriptor.
    atomic : bool
        False writes a path in place, without waiting for the disk.

    Raises
    ------
    FileError
        The path cannot be written, or a name or a key-value pair is impossible; the old file is intact.
    UnsupportedError
        A value is no tensor and cannot be made one; its name is given.

    Examples
    --------
    >>> import io, hurray
    >>> target = io.BytesIO()
    >>> hurray.save(target, {"w": hurray.zeros([2, 2])}, kv={"step": 12})
    >>> hurray.load_kv(target)
    {'step': 12}

    Format: file container.
    """
    if not hasattr(tensors, "items"):
        raise TypeError(f"tensors is a mapping of names to tensors, not {type(tensors).__name__}")
    with Writer(
        path, kv=kv, alignment=alignment, sort_index=sort_index, statistics=statistics, atomic=atomic
    ) as writer:
        for name, item in tensors.items():
            writer.add(name, item)


def load(
    path: Any,
    *,
    names: Iterable[str] | None = None,
    strategy: str = "auto",
    permissive: bool = False,
    limits: Limits | None = None,
) -> dict[str, Tensor | Composite]:
    """Load the tensors of a Hurray file.

    A local file is mapped, so values cost memory only when they are touched.

    Parameters
    ----------
    path : str, os.PathLike, URL, bytes-like, or binary file object
    names : iterable of str, optional
        Load these only, in this order; a member of a composite is called ``<head>.<k>``.
    strategy : {"auto", "mmap", "read"}
        How byte ranges are had.
    permissive : bool
        Hand over what is unknown or private but can be carried (element types, layouts, schemes, the members of
        composites whose rule is private or broken) instead of refusing it.
    limits : Limits, optional
        Bounds on untrusted input.

    Returns
    -------
    dict
        In index order; a composite once, its members folded in.

    Raises
    ------
    FileError
        The file is missing or corrupt, or has no such name.
    InvalidDescriptorError, BufferError
        A tensor breaks a rule of the format; it is named.

    Format: file container.
    """
    with File(path, strategy=strategy, permissive=permissive, limits=limits) as file:
        return file.load(names)


def load_kv(path: Any) -> dict[str, KVValue]:
    """Return the metadata of a Hurray file; no tensor is looked at.

    Raises
    ------
    FileError
        The file is missing or corrupt.

    Format: file container, KV section.
    """
    with File(path) as file:
        return file.kv


def open(
    path: Any,
    mode: str = "r",
    *,
    strategy: str = "auto",
    permissive: bool = False,
    limits: Limits | None = None,
) -> File:
    """Open a Hurray file as a lazy read-only mapping from names to tensors.

    Parameters
    ----------
    path : str, os.PathLike, URL, bytes-like, or binary file object
    mode : {"r"}
        Files are written with :func:`save` or :class:`Writer`.
    strategy : {"auto", "mmap", "read"}
        How byte ranges are had.
    permissive, limits
        As in :func:`load`.

    Raises
    ------
    FileError
        The file is missing, is no Hurray file, is cut short or is corrupt.

    Examples
    --------
    >>> import io, hurray
    >>> target = io.BytesIO()
    >>> hurray.save(target, {"w": hurray.zeros([2, 2])})
    >>> with hurray.open(target) as f:
    ...     f["w"].shape
    (2, 2)

    Format: file container.
    """
    if mode not in ("r", "rb"):
        raise ValueError(f"a Hurray file is opened for reading only, not in mode {mode!r}; write with save() or Writer")
    return File(path, strategy=strategy, permissive=permissive, limits=limits)
