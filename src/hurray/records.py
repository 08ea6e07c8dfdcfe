"""Records: the classes that stand for what is written in the format.

A record is a dataclass: ``dataclasses.fields`` and ``dataclasses.replace`` work.  It has slots, is equal and hashable
by value, and refuses assignment and deletion of every name.  Two things are done in another way than in a frozen,
slotted ``dataclass``, of which the library has some forty:

- Methods that look at the list of fields are shared instead of compiled for each class.  Compiling them took a third of
  the time that importing the library takes.
- Slots are filled through their descriptors, which takes half the time of ``object.__setattr__``; and every name is
  refused, where a frozen dataclass with slots ends in a TypeError about something else for names that are no fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform, overload

__all__ = ["record"]

_T = TypeVar("_T")


class _Shared:
    """The methods of all records, and the names of fields that they go by."""

    _names: ClassVar[tuple[str, ...]]
    _shown: ClassVar[tuple[str, ...]]
    _compared: ClassVar[tuple[str, ...]]
    _hashed: ClassVar[tuple[str, ...]]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"{type(self).__name__} is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"{type(self).__name__} is immutable: cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = self._compared
        # As lists, which take a NaN as equal to itself.
        return [getattr(self, name) for name in names] == [getattr(other, name) for name in names]

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, name) for name in self._hashed]))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in self._shown])})"

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in self._names]

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip(self._names, state, strict=True):
            object.__setattr__(self, name, value)


_METHODS = ("__setattr__", "__delattr__", "__eq__", "__hash__", "__repr__", "__getstate__", "__setstate__")


@overload
def record(cls: type[_T], /) -> type[_T]: ...


@overload
def record(*, kw_only: bool = ...) -> Callable[[type[_T]], type[_T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T] | None = None, /, *, kw_only: bool = False) -> type[_T] | Callable[[type[_T]], type[_T]]:
    """Make a class with annotated fields an immutable record.

    Methods that the class defines are kept.  Subclasses that add nothing are decorated, too.

    Parameters
    ----------
    kw_only : bool
        The constructor takes the fields by name only.
    """
    if cls is None:
        return lambda given: _make(given, kw_only)
    return _make(cls, kw_only)


def _make(cls: type[_T], kw_only: bool) -> type[_T]:
    own = set(cls.__dict__)
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    kept = fields(made)
    made._names = tuple([f.name for f in kept])
    made._shown = tuple([f.name for f in kept if f.repr])
    made._compared = tuple([f.name for f in kept if f.compare])
    made._hashed = tuple([f.name for f in kept if (f.compare if f.hash is None else f.hash)])
    for name in _METHODS:
        # Equality and hash belong together.
        if name not in own and not (name == "__hash__" and "__eq__" in own):
            setattr(made, name, _Shared.__dict__[name])
    if "__init__" not in own:
        made.__init__ = _constructor(made, kept)
    return made  # type: ignore[no-any-return]


def _constructor(cls: type, kept: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Compile a constructor that fills the slots."""
    names: dict[str, Any] = {"_MISSING": MISSING}
    by_place: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for f in kept:
        names[f"_set_{f.name}"] = getattr(cls, f.name).__set__
        parameter, value = f.name, f.name
        if f.default is not MISSING:
            names[f"_default_{f.name}"] = f.default
            parameter += f"=_default_{f.name}"
        elif f.default_factory is not MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            parameter += "=_MISSING"
            value = f"_make_{f.name}() if {f.name} is _MISSING else {f.name}"
        (by_name if f.kw_only else by_place).append(parameter)
        body.append(f" _set_{f.name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ["self", *by_place, *(["*"] if by_name else []), *by_name]
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(body or [" pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {f.name: f.type for f in kept} | {"return": None}
    return init
