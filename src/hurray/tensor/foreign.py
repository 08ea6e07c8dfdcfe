"""Where ``Tensor`` methods find converters that live in higher layers.

``tensor`` may not import ``interop``; the package's top registers loaders here by name, and a converter's module is
only imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hurray.errors import UnsupportedError

__all__ = ["foreign", "register"]

_LOADERS: dict[str, Callable[[], Callable[..., Any]]] = {}


def register(name: str, loader: Callable[[], Callable[..., Any]]) -> None:
    """Register the loader of a converter called ``name``."""
    _LOADERS[name] = loader


def foreign(name: str) -> Callable[..., Any]:
    """Return the converter called ``name``.

    Raises
    ------
    UnsupportedError
        No converter of that name is registered.
    """
    loader = _LOADERS.get(name)
    if loader is None:
        raise UnsupportedError(f"the converter {name!r} is not available in this installation")
    return loader()
