"""Every public name is there, is described, and its example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import hurray
from helpers import ROOT

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(hurray.__path__, "hurray.")
    if not info.name.startswith(("hurray.cli", "hurray.__main__"))
)


def load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name is not None and error.name.startswith("hurray"):
            raise
        pytest.skip(f"{name} needs {error.name}")


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(load(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_all_names_what_is_there(name: str) -> None:
    module = load(name)
    assert module.__doc__, f"{name} has no docstring"
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.__all__ names {public}, which is not there"


@pytest.mark.parametrize("name", hurray.__all__)
def test_public_names_are_described(name: str) -> None:
    value = getattr(hurray, name)
    if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
        assert inspect.getdoc(value), f"hurray.{name} has no docstring"
    assert name in dir(hurray)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        hurray.no_such_name  # noqa: B018


def test_version_is_the_one_of_the_distribution() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == hurray.__version__
