"""Tensors changed on their way from one file to another: merged, laid out anew, quantized, measured.

A change that a tensor cannot take leaves it as it is; the caller is told, or the run ends when it is strict.

Format: layouts; quantization, quantizing; descriptor, statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.layouts import layout_by_name
from hurray.layouts._base import Layout
from hurray.quantization import Recipe, recipe
from hurray.tensor.build import asarray, from_numpy
from hurray.tensor.composite import Composite
from hurray.tensor.quantize import quantize
from hurray.tensor.statistics import compute_statistics
from hurray.tensor.tensor import Tensor

__all__ = ["Rewriting"]

Item: TypeAlias = Tensor | Composite
#: called with the tensor's name, what was asked for, and why it was not done
Skipped: TypeAlias = Callable[[str, str, str], None]
T = TypeVar("T")

#: narrower floats are the result of a quantization, not its input
_LEAST_BITS = 16


class Rewriting:
    """What happens to each tensor of a conversion, in this order: transform, merge, layout, quantization, statistics.

    Parameters
    ----------
    transform : callable, optional
        ``transform(name, item)`` returns what takes the item's place: a tensor, a composite or an array.
    merge : bool
        Replace partitions and overlays by one dense tensor each.
    layout : str or Layout, optional
        Lay out every tensor so; ``layout_options`` are arguments of the layout, such as ``tile_shape``.
    quantize : str or Recipe, optional
        Quantize floating tensors of 16 bits or more and rank 1 or more; ``quantize_options`` change the recipe.
    statistics : bool
        Compute the statistics of tensors that have none.
    strict : bool
        Refuse what cannot be laid out, quantized or merged as asked, instead of passing it on unchanged.
    skipped : callable, optional
        Called as ``skipped(name, what, why)``, once for each tensor and each change that it could not take.

    Raises
    ------
    InvalidDescriptorError
        There is no such layout or recipe.
    UnsupportedError
        Elements cannot be written in the layout.
    TypeError
        An option that the recipe does not have.
    """

    def __init__(
        self,
        *,
        transform: Callable[[str, Item], Any] | None = None,
        merge: bool = False,
        layout: str | Layout | None = None,
        layout_options: Mapping[str, Any] | None = None,
        quantize: str | Recipe | None = None,
        quantize_options: Mapping[str, Any] | None = None,
        statistics: bool = False,
        strict: bool = False,
        skipped: Skipped | None = None,
    ) -> None:
        if layout is None and layout_options:
            raise TypeError("layout_options need a layout")
        if quantize is None and quantize_options:
            raise TypeError("quantize_options need a recipe to quantize with")
        self._transform = transform
        self._merge = merge
        self._layout = layout
        self._layout_name = "" if layout is None else _layout_name(layout)
        self._layout_options = dict(layout_options or {})
        self._recipe = None if quantize is None else recipe(quantize, **(quantize_options or {}))
        self._statistics = statistics
        self._strict = strict
        self._skipped = skipped
        self._told: set[tuple[str, str]] = set()

    def __call__(self, name: str, item: Item) -> Item:
        """Return what is written in place of ``item``.

        Raises
        ------
        UnsupportedError, InvalidDescriptorError
            Strict only: the tensor cannot take a change; it is named.
        """
        if self._transform is not None:
            changed = self._transform(name, item)
            if changed is None:
                raise TypeError(f"transform returned nothing for tensor {name!r}; it returns what takes its place")
            item = changed if isinstance(changed, (Tensor, Composite)) else asarray(changed)
        return self._item(name, item)

    def _item(self, name: str, item: Item) -> Item:
        if isinstance(item, Composite):
            if not self._merge or item.composition_rule == "group":
                return self._composite(name, item)
            whole = item
            merged = self._try(name, "merged", lambda: _merged(whole))
            if merged is None:
                return item
            item = merged
        return self._tensor(name, item)

    def _composite(self, name: str, whole: Composite) -> Item:
        """Change the members; the corrections of an overlay stay, since what they store says what they replace."""
        members = [
            member if role == "correction" else self._item(f"{name}.{k}", member)
            for k, (member, role) in enumerate(zip(whole.members, whole.member_roles, strict=True))
        ]
        if all(new is old for new, old in zip(members, whole.members, strict=True)):
            return whole
        return Composite(
            whole.composition_rule,
            shape=whole.shape,  # type: ignore[arg-type]  # only groups have dynamic shapes, and those are not written
            dtype=whole.dtype,
            members=members,
            combine_op=whole.combine_op,
            shard=whole.shard,
            statistics=whole.statistics,
            extension_type=whole.extension_type,
        )

    def _tensor(self, name: str, t: Tensor) -> Tensor:
        if self._layout is not None and (t.layout.name != self._layout_name or self._layout_options):
            t = self._laid_out(name, t)
        if self._recipe is not None:
            t = self._quantized(name, t, self._recipe)
        if self._statistics and t.statistics is None:
            t = _measured(t)
        return t

    def _laid_out(self, name: str, t: Tensor) -> Tensor:
        assert self._layout is not None
        layout = self._layout
        what = f"in layout {self._layout_name}"
        return self._try(name, what, lambda: t.to_layout(layout, **self._layout_options)) or t

    def _quantized(self, name: str, t: Tensor, how: Recipe) -> Tensor:
        what = f"quantized to {how.name or how.scheme.name}"

        def make() -> Tensor:
            if t.quantization is not None:
                raise UnsupportedError("it is quantized already")
            if not t.ndim or not _is_quantizable(t.dtype):
                kind = "a scalar" if not t.ndim else f"of dtype {t.dtype}"
                raise UnsupportedError(f"it is {kind}; floating tensors of 16 bits or more are quantized")
            made = quantize(t, how)
            # Quantizing puts strided tensors in order.
            return made.to_layout(t.layout) if made.layout.name != t.layout.name == self._layout_name else made

        return self._try(name, what, make) or t

    def _try(self, name: str, what: str, change: Callable[[], T]) -> T | None:
        """Return the changed tensor, or None where it stays as it is."""
        try:
            return change()
        except (UnsupportedError, InvalidDescriptorError) as error:
            if self._strict:
                why = str(error)
                error.args = (f"tensor {name!r} cannot be {_be(what)}: {why}",)
                raise error.at(tensor=name) from None
            if self._skipped is not None and (name, what) not in self._told:
                # Writers that take a tensor twice are no reason to say it twice.
                self._told.add((name, what))
                self._skipped(name, what, str(error))
            return None


def _be(what: str) -> str:
    return f"written {what}" if what.startswith("in ") else what


def _layout_name(layout: str | Layout) -> str:
    if not isinstance(layout, (str, Layout)):
        raise TypeError(f"layout is a name or a hurray.Layout, not {type(layout).__name__}")
    kind = layout_by_name(layout) if isinstance(layout, str) else type(layout)
    if kind.kind in ("opaque", "virtual"):
        raise UnsupportedError(f"elements cannot be written in layout {kind.name!r}")
    return kind.name


def _is_quantizable(dtype: Dtype) -> bool:
    return dtype.is_float and not dtype.is_complex and dtype.bit_width >= _LEAST_BITS


def _merged(whole: Composite) -> Tensor:
    merged = from_numpy(whole.to_numpy())
    return merged if whole.shard is None else merged._replace(shard=whole.shard)


def _measured(t: Tensor) -> Tensor:
    try:
        return t._replace(statistics=compute_statistics(t))
    except UnsupportedError:
        return t  # opaque or dynamic: there is nothing that could be computed
