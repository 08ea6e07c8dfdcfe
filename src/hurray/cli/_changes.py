"""The options of ``convert`` that change tensors, read into what ``hurray.convert`` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from hurray.cli._console import clean, warn
from hurray.layouts import LAYOUTS_BY_NAME
from hurray.quantization import RECIPES, recipe

__all__ = ["LAYOUT_NAMES", "Skips", "layout_options", "quantize_options", "split_axes"]

#: layouts that a tensor can be written in
LAYOUT_NAMES = tuple(name for name, cls in LAYOUTS_BY_NAME.items() if cls.kind not in ("opaque", "virtual"))
_MOST_LINES = 20
_MOST_NAMES = 4


class Skips:
    """Collects the tensors that a change has passed over, for a few lines at the end."""

    def __init__(self) -> None:
        self._why: dict[tuple[str, str], list[str]] = {}

    def __call__(self, name: str, what: str, why: str) -> None:
        self._why.setdefault((what, why), []).append(name)

    def show(self) -> None:
        """Say on stderr which tensors were passed over, and why."""
        for k, ((what, why), names) in enumerate(self._why.items()):
            if k == _MOST_LINES:
                rest = sum(len(more) for more in list(self._why.values())[k:])
                warn(f"... and {rest} more tensors")
                break
            shown = ", ".join(names[:_MOST_NAMES])
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            warn(clean(f"{shown}{more}: not {what}: {' '.join(why.split())}"))


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no list of numbers; write for example {option} 2,0,1", param_hint=option
        ) from None


def layout_options(
    layout: str | None, *, tile: str | None, mode_order: str | None, page_size: int | None
) -> dict[str, Any]:
    """Return the options of a layout, after checking that it has them.

    Raises
    ------
    typer.BadParameter
        There is no such layout, or an option belongs to another one.
    """
    if layout is not None and layout not in LAYOUT_NAMES:
        raise typer.BadParameter(f"{layout!r} is none of {', '.join(LAYOUT_NAMES)}", param_hint="--layout")
    options: dict[str, Any] = {}
    for owner, option, field, value in (
        ("tiled", "--tile", "tile_shape", tile),
        ("csf", "--mode-order", "mode_order", mode_order),
        ("block_paged", "--page-size", "page_size", page_size),
    ):
        if value is None:
            continue
        if layout != owner:
            raise typer.BadParameter(f"it belongs to --layout {owner}", param_hint=option)
        options[field] = value if isinstance(value, int) else _numbers(value, option)
    if layout == "tiled" and not options:
        raise typer.BadParameter("--layout tiled needs the shape of a tile: --tile 128,128", param_hint="--tile")
    return options


def quantize_options(
    name: str | None, *, axis: int | None, block_size: int | None, symmetric: bool | None
) -> dict[str, Any]:
    """Return the options of a recipe, after checking that it has them.

    Raises
    ------
    typer.BadParameter
        There is no such recipe, or it does not have an option.
    """
    given = (("axis", axis), ("block_size", block_size), ("symmetric", symmetric))
    options: dict[str, Any] = {option: value for option, value in given if value is not None}
    if name is None:
        if options:
            raise typer.BadParameter(f"{', '.join(options)} belong to --quantize", param_hint="--quantize")
        return options
    if name not in RECIPES:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(RECIPES)}", param_hint="--quantize")
    if block_size is not None and block_size & (block_size - 1):
        raise typer.BadParameter(f"{block_size} is no power of two", param_hint="--block-size")
    try:
        recipe(name, **options)
    except TypeError as error:
        raise typer.BadParameter(str(error), param_hint="--quantize") from None
    return options


def split_axes(texts: Sequence[str]) -> Mapping[str, Any]:
    """Return the reader's options for ``--split-axis``: ``0`` for all tensors, ``PATTERN=1`` for some.

    Raises
    ------
    typer.BadParameter
        It is neither, or there are two axes for all tensors.
    """
    options: dict[str, Any] = {}
    for text in texts:
        pattern, equals, number = text.rpartition("=")
        none = bool(equals) and number == "none"
        if not none and not number.removeprefix("-").isdecimal():
            message = f"{text!r} is no axis; write 0, or 'PATTERN=1', or 'PATTERN=none' for tensors that are not split"
            raise typer.BadParameter(message, param_hint="--split-axis")
        if equals:
            options.setdefault("axes", {})[pattern] = None if none else int(number)
        elif "axis" in options:
            raise typer.BadParameter("two axes are given for all tensors", param_hint="--split-axis")
        else:
            options["axis"] = int(number)
    return options
