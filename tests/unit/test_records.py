"""Records behave like frozen, slotted dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from hurray.records import record


@record
class Point:
    """A record with every kind of field."""

    x: int
    y: float = 2.5
    tags: list[str] = field(default_factory=list, hash=False)
    note: str = field(default="", repr=False, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Plain:
    """The same as a dataclass."""

    x: int
    y: float = 2.5
    tags: list[str] = field(default_factory=list, hash=False)
    note: str = field(default="", repr=False, compare=False, kw_only=True)


@record(kw_only=True)
class Checked:
    """A record that looks at its fields."""

    low: int
    high: int = 9

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low > high")


@record
class Named(Checked):
    """A record that adds a field, and has its own words."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@record
class Own:
    """A record with a constructor and an equality of its own."""

    n: int

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "n", len(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.n % 2 == other.n % 2

    def __hash__(self) -> int:
        return self.n % 2


def test_like_a_dataclass() -> None:
    for args, named in (((1,), {}), ((1, 4.0), {"note": "n"}), ((), {"x": 3, "tags": ["a"]})):
        ours: Any = Point(*args, **named)  # type: ignore[arg-type]
        theirs: Any = Plain(*args, **named)  # type: ignore[arg-type]
        assert repr(ours) == repr(theirs).replace("Plain", "Point")
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
        assert hash(ours) == hash(theirs)
        assert repr(dataclasses.replace(ours, x=7)) == repr(dataclasses.replace(theirs, x=7)).replace("Plain", "Point")
        for again in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            assert again == ours
            assert again.note == ours.note
    assert inspect.signature(Point).parameters.keys() == inspect.signature(Plain).parameters.keys()
    assert [p.kind for p in inspect.signature(Point).parameters.values()] == [
        p.kind for p in inspect.signature(Plain).parameters.values()
    ]
    assert not hasattr(Point(1), "__dict__")
    assert Point.__match_args__ == Plain.__match_args__ == ("x", "y", "tags")
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Checked(1)  # type: ignore[misc]


def test_equality() -> None:
    assert Point(1) == Point(1, note="another") != Point(2)
    assert Point(1) != Plain(1)
    assert Point(1).__eq__(Plain(1)) is NotImplemented
    assert Point(1, math.nan) == Point(1, math.nan)
    assert Checked(low=1) != Named(low=1, name="n")
    assert Own("ab") == Own("abcd") != Own("a")
    assert hash(Own("ab")) == hash(Own("abcd"))
    # Default factories make a new object each time.
    assert Point(1).tags is not Point(1).tags


def test_subclasses_and_checks() -> None:
    named = Named(low=1, name="n")
    assert (named.low, named.high, named.name, repr(named)) == (1, 9, "n", "<n>")
    assert named == dataclasses.replace(named) != dataclasses.replace(named, low=2)
    for make in (lambda: Checked(low=10), lambda: Named(low=10, name="n"), lambda: dataclasses.replace(named, high=0)):
        with pytest.raises(ValueError, match="low > high"):
            make()


@pytest.mark.parametrize("made", [Point(1), Checked(low=1), Named(low=1, name="n"), Own("abc")])
@pytest.mark.parametrize("name", ["x", "n", "low", "name", "other", "_names", "__class__"])
def test_immutable(made: Any, name: str) -> None:
    before = repr(made)
    with pytest.raises(AttributeError, match=f"{type(made).__name__} is immutable: cannot set '{name}'"):
        setattr(made, name, 1)
    with pytest.raises(AttributeError, match=f"cannot delete '{name}'"):
        delattr(made, name)
    assert repr(made) == before
