"""Read a NumPy-style key from text, such as ``0:4, ::2, -1``."""

from __future__ import annotations

from types import EllipsisType

__all__ = ["Key", "parse_key"]

Key = tuple["int | slice | EllipsisType", ...]


def parse_key(text: str) -> Key:
    """Return the key that ``text`` spells: integers, slices and at most one ``...``, separated by commas.

    Raises
    ------
    ValueError
        It is no such key; the message names the part.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
    if not inner:
        return (...,)
    parts = [part.strip() for part in inner.removesuffix(",").split(",")]
    key = tuple(_parse_part(part) for part in parts)
    if sum(part is ... for part in key) > 1:
        raise ValueError(f"the slice {text!r} has more than one '...'")
    return key


def _parse_part(part: str) -> int | slice | EllipsisType:
    if part == "...":
        return ...
    pieces = part.split(":")
    try:
        numbers = [int(piece) if piece.strip() else None for piece in pieces]
    except ValueError:
        numbers = [None, None, None, None]
    if len(numbers) == 1 and numbers[0] is not None:
        return numbers[0]
    if not 2 <= len(numbers) <= 3:
        raise ValueError(f"{part!r} is not an index or a slice; write for example '0:4, ::2, -1'")
    if len(numbers) == 3 and numbers[2] == 0:
        raise ValueError(f"the step of the slice {part!r} is 0")
    return slice(*numbers)
