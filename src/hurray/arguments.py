"""Integers that programs pass in, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hurray.errors import InvalidDescriptorError

__all__ = ["as_index_tuple", "as_int"]

_U64_MAX = 2**64 - 1


def as_int(value: Any, what: str, *, low: int = 0, high: int = _U64_MAX) -> int:
    """Return ``value`` as a Python int within ``low..high``.

    Raises
    ------
    TypeError
        Not an integer; a bool is none.
    InvalidDescriptorError
        The value is out of range.
    """
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an int, not {type(value).__name__}")
    number = int(value.__index__())
    if not low <= number <= high:
        raise InvalidDescriptorError(f"{what} must lie in {low}..{high}, but is {number}")
    return number


def as_index_tuple(values: Sequence[int], what: str, *, low: int = 0, high: int = _U64_MAX) -> tuple[int, ...]:
    """Return integers as a tuple of Python ints, each within ``low..high``.

    Raises
    ------
    TypeError
        Not a sequence of integers.
    InvalidDescriptorError
        A value is out of range.
    """
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} is a sequence of ints, not {type(values).__name__}")
    return tuple(as_int(v, f"{what}[{k}]", low=low, high=high) for k, v in enumerate(values))
