"""What all immutable records of the library share: assignment and deletion are refused, for every name.

A frozen dataclass with slots refuses its own fields only: for any other name its generated method calls ``super()``
with the class as it was before the slots were made, which ends in a TypeError that speaks of something else.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import NoReturn, TypeVar

__all__ = ["immutable"]

_T = TypeVar("_T", bound=type)


def immutable(cls: _T) -> _T:
    """Make a class refuse assignment and deletion of any attribute with an AttributeError that names both."""
    for name, refuse in (("__setattr__", _refuse_set), ("__delattr__", _refuse_delete)):
        setattr(cls, name, refuse)
    return cls


def _refuse_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"{type(self).__name__} is immutable: cannot set {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"{type(self).__name__} is immutable: cannot delete {name!r}")
