"""What a converter is: one row that says which files it knows, and where its two functions are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol, cast

from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["Converter", "Item", "TensorSet", "Tensors"]

Item = Tensor | Composite


class Tensors(Protocol):
    """What a reader returns: a lazy read-only mapping from names to tensors, with metadata."""

    @property
    def kv(self) -> Mapping[str, Any]:
        """Metadata."""
        ...

    def __getitem__(self, name: str) -> Item: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...

    def __contains__(self, name: object, /) -> bool: ...

    def close(self) -> None:
        """Let go of the file; tensors that were taken stay valid."""
        ...


class TensorSet(Mapping[str, Item]):
    """Tensors that are in memory, in the form that readers return."""

    def __init__(self, tensors: Mapping[str, Item], kv: Mapping[str, Any] | None = None) -> None:
        self._tensors = dict(tensors)
        self.kv: dict[str, Any] = dict(kv or {})

    def __getitem__(self, name: str) -> Item:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def close(self) -> None:
        """Do nothing: there is no file."""


class Converter(NamedTuple):
    """One foreign format.

    Parameters
    ----------
    name : str
        What users call the format.
    suffixes : tuple of str
        Endings of file names, in lower case; none for a format that is only chosen by its name.
    module : str
        The module with the two functions; it is imported when one of them is called.
    reader : str or None
        Name of a function ``reader(path, **options)`` that returns :class:`Tensors`; None: cannot be read.
    writer : str or None
        Name of a function ``writer(path, tensors, *, kv, dequantize, densify, **options)``; None: cannot be written.
    passes : int
        How often the writer takes each tensor.
    options : tuple of str
        Names of the reader's options.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    reader: str | None
    writer: str | None
    passes: int = 1
    options: tuple[str, ...] = ()

    def read(self, path: Any, **options: Any) -> Tensors:
        """Open a file of this format."""
        return cast(Tensors, self._function(self.reader)(path, **options))

    def write(self, path: Any, tensors: Mapping[str, Item], **options: Any) -> None:
        """Write a file of this format."""
        self._function(self.writer)(path, tensors, **options)

    def _function(self, name: str | None) -> Callable[..., Any]:
        assert name is not None
        return cast("Callable[..., Any]", getattr(import_module(self.module), name))
