"""Where ``Tensor`` methods find converters that live in higher layers.

``tensor`` may not import ``interop``; a converter is found by its public name when it is called, so that its module and
the library behind it are only imported then.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["converter_for", "foreign"]

_CONVERTERS = ("from_arrow", "from_scipy", "from_sparse", "from_torch", "to_scipy", "to_torch")
#: by package: what the objects have that its converter takes, and the converter
_SOURCES = {
    "pyarrow": ("dim_names", "from_arrow"),
    "scipy": ("tocoo", "from_scipy"),
    "sparse": ("asformat", "from_sparse"),
    "torch": ("is_sparse", "from_torch"),
}


def converter_for(obj: Any) -> Callable[..., Any] | None:
    """Return the converter for an object of another library that is more than an array, None where there is none."""
    for cls in type(obj).__mro__:
        found = _SOURCES.get(cls.__module__.partition(".")[0])
        if found is not None and hasattr(cls, found[0]):
            return foreign(found[1])
    return None


def foreign(name: str) -> Callable[..., Any]:
    """Return the public converter called ``name``."""
    if name not in _CONVERTERS:
        raise LookupError(f"no converter is called {name!r}")
    found: Callable[..., Any] = getattr(importlib.import_module("hurray"), name)
    return found
