"""Optional packages, imported when a converter needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hurray.errors import UnsupportedError

__all__ = ["LazyModule", "require"]


def require(module: str, extra: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
        Full name of the module, such as ``scipy.sparse``.
    extra : str
        The extra of this distribution that installs it.

    Raises
    ------
    UnsupportedError
        The package is not installed; how to install it is named.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UnsupportedError(
            f"this needs the package {package}, of the extra {extra!r}: pip install {package} ({error})"
        ) from None


class LazyModule:
    """An optional package that is imported when something in it is first used.

    Parameters
    ----------
    module, extra : str
        As in :func:`require`.
    """

    def __init__(self, module: str, extra: str) -> None:
        self._module = module
        self._extra = extra

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            # Tools that look into modules ask every object for such names; that is no reason to import anything.
            raise AttributeError(name)
        value = getattr(require(self._module, self._extra), name)
        setattr(self, name, value)
        return value
