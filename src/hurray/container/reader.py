"""Reading a file: a lazy mapping from names to tensors.

Opening reads header, trailer and index only.  A descriptor is decoded when its tensor is asked for, and the tensor's
buffers are views of the source, so a mapped file costs memory only where values are touched.

Format: file container.
"""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from types import TracebackType
from typing import Any, NamedTuple, Self

from hurray.container.checks import check_indices, missing_tensor
from hurray.container.frame import read_frame
from hurray.container.header import Header
from hurray.container.index import Entry
from hurray.container.kv import KVEntry, KVValue, parse_kv
from hurray.container.loading import Item, Loader, PartItems, PartValues
from hurray.container.ranges import check_descriptor_range
from hurray.descriptor import Descriptor
from hurray.dtypes.table import Dtype
from hurray.limits import DEFAULT_LIMITS, Limits
from hurray.sources import is_url, open_source

__all__ = ["File", "TensorInfo"]


class TensorInfo(NamedTuple):
    """What a listing shows of one tensor, from its descriptor alone.

    ``n_bytes`` are the bytes of all buffers, ``members`` the names below a composite, in order.
    """

    name: str
    dtype: Dtype
    shape: tuple[int | None, ...]
    layout: str
    n_bytes: int
    quantization: str | None
    members: tuple[str, ...]


class File(Mapping[str, Item]):
    """A Hurray file, opened for reading: a lazy read-only mapping from names to tensors and composites.

    Iteration gives top-level names in index order; members of a composite are folded into it, and are reached by their
    own names, ``<head>.<k>``, too.  Tensors stay valid after the file is closed.

    Parameters
    ----------
    target : str, os.PathLike, URL, bytes-like, or binary file object
        ``bytes`` are content, not a path.  A file object stays the caller's and is never closed.
    strategy : {"auto", "mmap", "read"}
        Map a local file (nothing is read before it is used), or read byte ranges.
    permissive : bool
        Hand over what is unknown or private but can be carried (element types, layouts, schemes, the members of
        composites whose rule is private or broken) instead of refusing it.
    limits : Limits, optional
        Bounds on untrusted input.

    Raises
    ------
    FileError
        The file is missing, is no Hurray file, is cut short or is corrupt.

    Examples
    --------
    >>> import io, numpy as np, hurray
    >>> target = io.BytesIO()
    >>> hurray.save(target, {"a": np.arange(6).reshape(2, 3)})
    >>> with hurray.open(target) as f:
    ...     print(list(f), f["a"][1])
    ['a'] [3 4 5]

    Format: file container.
    """

    _reopen: tuple[str | bytes, str] | None
    _kv: list[KVEntry] | None

    def __init__(
        self, target: Any, *, strategy: str = "auto", permissive: bool = False, limits: Limits | None = None
    ) -> None:
        self._reopen = _reopen_arguments(target, strategy)
        self._limits = DEFAULT_LIMITS if limits is None else limits
        self._permissive = permissive
        self._kv = None
        source = open_source(target, strategy)
        try:
            frame = read_frame(source)
        except BaseException:
            source.close()
            raise
        self._name = source.name
        self._header, self._trailer = frame.header, frame.trailer
        self._index, self._region = frame.index, frame.region
        self._loader = Loader(source, frame, permissive=permissive, limits=self._limits)

    # Inspection

    @property
    def name(self) -> str:
        """What messages call the file: its path, where it has one."""
        return self._name

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._loader.closed

    @property
    def header(self) -> Header:
        """The file's header."""
        return self._header

    @property
    def kv(self) -> dict[str, KVValue]:
        """The file's metadata, in file order.

        Raises
        ------
        FileError
            The key-value section is corrupt.
        """
        return {entry.key: entry.value for entry in self.kv_entries()}

    def kv_entries(self) -> list[KVEntry]:
        """Return the metadata with the wire type of each value."""
        if self._kv is None:
            trailer = self._trailer
            data = b"\0\0\0\0"
            if trailer.kv_length:
                data = self._loader.source.read(trailer.kv_offset, trailer.kv_length)
            self._kv = parse_kv(data, self._name)
        return list(self._kv)

    @property
    def names(self) -> list[str]:
        """Top-level names, in index order."""
        return list(self)

    @property
    def all_names(self) -> list[str]:
        """All names of the index, heads and members included, in index order."""
        self._index.check()
        return self._index.names()

    def descriptor(self, name: str) -> Descriptor:
        """Return the descriptor of a tensor, or of a composite's head.

        Raises
        ------
        FileError
            The file has no such tensor (a KeyError too).
        """
        return self._loader.decode(self._index.entry(self._position(name)))

    def descriptor_bytes(self, name: str) -> tuple[bytes, int]:
        """Return the bytes of a tensor's descriptor as they are in the file, and their offset; nothing is decoded.

        Raises
        ------
        FileError
            The file has no such tensor, or its index points outside.
        """
        entry = self._index.entry(self._position(name))
        check_descriptor_range(entry, self._region, self._limits)
        return self._loader.source.read(entry.descriptor_offset, entry.descriptor_length), entry.descriptor_offset

    def info(self) -> list[TensorInfo]:
        """Return a listing of the file from its descriptors; no value is touched."""
        folding = self._loader.fold()
        self._index.check()
        entries = self._index.entries()
        listing = []
        for entry in entries:
            if entry.position in folding.members:
                continue
            start, end = folding.spans.get(entry.position, (0, 0))
            listing.append(self._info(entry, [entries[k] for k in folding.order[start + 1 : end]] if end else ()))
        return listing

    def _info(self, entry: Entry, below: Sequence[Entry]) -> TensorInfo:
        descriptor = self._loader.decode(entry)
        n_bytes = _n_bytes(descriptor)
        for member in below:
            n_bytes += _n_bytes(self._loader.decode(member))
        scheme = getattr(descriptor.quantization, "name", None if descriptor.quantization is None else "unknown")
        members = tuple([member.name for member in below])
        return TensorInfo(
            entry.name, descriptor.dtype, descriptor.shape, descriptor.layout.name, n_bytes, scheme, members
        )

    # Mapping

    def __getitem__(self, name: str) -> Item:
        return self._loader.item(self._position(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._index.find(name) is not None

    def __len__(self) -> int:
        if self._loader.assembled_only():
            return len(self._loader.load())
        return len(self._index) - len(self._loader.fold().members)

    def __iter__(self) -> Iterator[str]:
        self._index.check()
        if self._loader.assembled_only():
            return iter(list(self._loader.load()))
        members = self._loader.fold().members
        names = self._index.names()
        return iter([name for k, name in enumerate(names) if k not in members] if members else names)

    def items(self) -> ItemsView[str, Item]:
        """Return names with tensors; the ranges of all tensors are checked first, values are read on demand."""
        return PartItems(self, self._loader)

    def values(self) -> ValuesView[Item]:
        """Return the tensors; the ranges of all of them are checked first, values are read on demand."""
        return PartValues(self, self._loader)

    # Closing

    def close(self) -> None:
        """Let go of the file; tensors that were read stay valid."""
        self._loader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._reopen is None:
            raise TypeError(
                f"the file {self._name} was opened from a file object or from memory and cannot be pickled; open it by "
                "path"
            )
        target, strategy = self._reopen
        return _reopened, (target, strategy, self._permissive, self._limits)

    def __repr__(self) -> str:
        n_tensors = len(self._index)
        return f"hurray.File({self._name!r}, {n_tensors} tensor{'s' * (n_tensors != 1)}{', closed' * self.closed})"

    # Reading

    def _position(self, name: object) -> int:
        position = self._index.find(name) if isinstance(name, str) else None
        if position is None:
            raise missing_tensor(name, self._index)
        return position

    # Everything at once

    def check_ranges(self) -> None:
        """Check names and byte ranges of all tensors against each other; no value is touched.

        Raises
        ------
        FileError
            A rule is broken; the tensor is named.
        """
        self._loader.parts()

    def load(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        """Return all tensors, or those with the given names, after checking all that can be checked cheaply.

        Index buffers of sparse tensors are checked; other values are not touched.

        Raises
        ------
        FileError
            A name is missing, or the file is corrupt.
        InvalidDescriptorError, BufferError
            A tensor breaks a rule of the format; it is named.
        """
        if isinstance(names, (str, bytes)):
            raise TypeError(f"names is a list of names, not one {type(names).__name__}: use names=[{names!r}]")
        if names is None:
            self.kv_entries()
            items = self._loader.load()
        else:
            items = {name: self[name] for name in names}
        if not self._permissive:
            for name, item in items.items():
                check_indices(name, item)
        return items


def _n_bytes(descriptor: Descriptor) -> int:
    return sum([handle.byte_size for handle in descriptor.buffer_handles])


def _reopen_arguments(target: Any, strategy: str) -> tuple[str | bytes, str] | None:
    if not isinstance(target, (str, os.PathLike)):
        return None
    path = os.fspath(target)
    if isinstance(path, str) and is_url(path):
        return path, strategy
    # The working directory of the process that unpickles may be another one.
    return os.path.abspath(path), strategy


def _reopened(target: str | bytes, strategy: str, permissive: bool, limits: Limits) -> File:
    return File(target, strategy=strategy, permissive=permissive, limits=limits)
