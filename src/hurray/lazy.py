"""Tables of classes whose modules are imported when a class is asked for.

A program that reads plain tensors needs few of the layouts and none of the quantization schemes, and their modules,
with the kernels below them, are a third of what there is to import.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

__all__ = ["ClassTable"]

K = TypeVar("K")
C = TypeVar("C")


class ClassTable(Mapping[K, type[C]]):
    """A read-only table of classes.

    Parameters
    ----------
    package : str
        Where the modules are.
    places : mapping
        By key: a module of the package, and the name of a class in it.
    """

    def __init__(self, package: str, places: Mapping[K, tuple[str, str]]) -> None:
        self._package = package
        self._places = places
        self._found: dict[K, type[C]] = {}

    def __getitem__(self, key: K) -> type[C]:
        found = self._found.get(key)
        if found is None:
            module, name = self._places[key]
            found = self._found[key] = getattr(importlib.import_module(f"{self._package}.{module}"), name)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"

    def attribute(self, name: str) -> Any:
        """Return the class called ``name``, for ``__getattr__`` of the package.

        Raises
        ------
        AttributeError
            The table has no such class.
        """
        for key, (_, class_name) in self._places.items():
            if class_name == name:
                return self[key]
        raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
