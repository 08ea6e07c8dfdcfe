"""Where ``Tensor`` methods find converters that live in higher layers.

``tensor`` may not import ``interop``; a converter is found by its public name when it is called, so that its module and
the library behind it are only imported then.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["foreign"]

_CONVERTERS = ("from_scipy", "to_scipy", "to_torch")


def foreign(name: str) -> Callable[..., Any]:
    """Return the public converter called ``name``."""
    if name not in _CONVERTERS:
        raise LookupError(f"no converter is called {name!r}")
    found: Callable[..., Any] = getattr(importlib.import_module("hurray"), name)
    return found
