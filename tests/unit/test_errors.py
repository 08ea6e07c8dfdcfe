"""The errors: the classes that programs catch, and what an error can tell."""

from __future__ import annotations

import copy
import pickle

import pytest

import hurray
import hurray.errors as errors

TREE = {
    "InvalidDescriptorError": ValueError,
    "BufferError": ValueError,
    "UnsupportedError": NotImplementedError,
    "CopyRequiredError": ValueError,
    "FileError": OSError,
    "StreamError": OSError,
    "ProtocolError": OSError,
    "InternalError": RuntimeError,
}


@pytest.mark.parametrize("name", TREE)
def test_the_tree(name: str) -> None:
    cls = getattr(hurray, name)
    assert issubclass(cls, hurray.HurrayError)
    assert issubclass(cls, TREE[name])
    assert str(cls("what happened")) == "what happened"
    others = [getattr(hurray, other) for other in TREE if other != name]
    assert not any(issubclass(cls, other) for other in others)


def test_wrong_types_are_caught_as_either_class() -> None:
    assert issubclass(errors.ArgumentTypeError, hurray.InvalidDescriptorError)
    assert issubclass(errors.ArgumentTypeError, TypeError)
    assert issubclass(errors.BufferTypeError, hurray.BufferError)
    assert issubclass(errors.BufferTypeError, TypeError)


def test_a_place_is_filled_in_once() -> None:
    error = hurray.InvalidDescriptorError("rank is odd")
    assert (error.field, error.offset, error.tensor) == (None, None, None)
    assert error.at(field="rank", offset=16) is error
    error.at(field="other", offset=0, tensor="w")
    assert (error.field, error.offset, error.tensor) == ("rank", 16, "w")
    assert str(error) == "tensor 'w': rank is odd"
    error.at(tensor="again")
    assert str(error) == "tensor 'w': rank is odd"


def test_a_name_is_not_said_twice() -> None:
    error = hurray.BufferError("tensor 'w' has no buffer").at(tensor="w")
    assert str(error) == "tensor 'w' has no buffer"


def test_file_errors_keep_what_the_system_said() -> None:
    error = hurray.FileError("cannot open 'x'", errno=2, filename="x")
    assert (error.errno, error.filename, str(error)) == (2, "x", "cannot open 'x'")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), other.errno, other.filename, str(other)) == (hurray.FileError, 2, "x", "cannot open 'x'")
    assert hurray.FileError("x").errno is None


@pytest.mark.parametrize("name", [n for n in TREE if n != "FileError"])
def test_errors_pickle(name: str) -> None:
    error = getattr(hurray, name)("text").at(field="a.b", offset=3)
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), other.field, other.offset) == (type(error), "text", "a.b", 3)
