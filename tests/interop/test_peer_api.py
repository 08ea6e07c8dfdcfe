"""The surface that programs already use: expressions, examples and signatures here and in the published binding.

The expressions are in ``tests/data/peer_api``: ``agree.txt`` gives the same outcome in both, ``ours.txt`` says where
this library does otherwise, with the reason.
"""

from __future__ import annotations

import builtins
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
import hurray

DATA = helpers.TESTS / "data" / "peer_api"
SETUP = (DATA / "setup.txt").read_text(encoding="utf-8")

#: evaluates the expressions of a file in a folder, the names of the setup given; prints one outcome for each
EVALUATE = """
import hurray, json, os, sys
setup, expressions, folder = sys.argv[1:]
os.chdir(folder)
names = {"hurray": hurray}
exec(setup, names)
outcomes = {}
for line in json.loads(expressions):
    try:
        outcomes[line] = ["value", repr(eval(line, names))]
    except Exception as error:
        outcomes[line] = ["error", [f"{c.__module__.split('.')[0]}.{c.__name__}" for c in type(error).__mro__]]
print(json.dumps(outcomes))
"""


def lines_of(name: str) -> list[str]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


AGREE = lines_of("agree.txt")
OURS = dict(line.split(" ==> ") for line in lines_of("ours.txt"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("theirs")
    every = json.dumps(AGREE + list(OURS))
    found: dict[str, Any] = json.loads(helpers.run_peer(EVALUATE, SETUP, every, str(folder)).splitlines()[-1])
    return found


def evaluate(expressions: list[str]) -> dict[str, Any]:
    """Return our outcomes: the repr of the value, or the error."""
    names: dict[str, Any] = {"hurray": hurray}
    exec(SETUP, names)
    outcomes: dict[str, Any] = {}
    for line in expressions:
        try:
            outcomes[line] = repr(eval(line, names))
        except Exception as error:
            outcomes[line] = error
    return outcomes


def class_name(error: Exception) -> str:
    """Return the name of the most special public class of an error."""
    for cls in type(error).__mro__:
        if getattr(hurray, cls.__name__, None) is cls or getattr(builtins, cls.__name__, None) is cls:
            return cls.__name__
    raise AssertionError(type(error))


def test_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evaluate(AGREE)  # some of ours read what these wrote
    got = {line: v if isinstance(v, str) else f"!{class_name(v)}" for line, v in evaluate(list(OURS)).items()}
    assert got == OURS


def test_the_same_outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for line, ours in evaluate(AGREE).items():
        kind, outcome = theirs[line]
        if kind == "value":
            if ours != outcome:
                wrong.append((line, outcome, ours))
            continue
        accepted = {f"{c.__module__.split('.')[0]}.{c.__name__}" for c in type(ours).__mro__}
        if "builtins.ValueError" in accepted:  # a number out of range is a ValueError here, never an OverflowError
            accepted.add("builtins.OverflowError")
        if outcome[0] not in accepted:
            wrong.append((line, outcome[0], ours))
    assert not wrong


def test_what_is_listed_as_ours_differs(theirs: dict[str, Any]) -> None:
    for line, ours in OURS.items():
        if "copy=False" not in line:  # there it depends on where the array happens to lie
            kind, outcome = theirs[line]
            assert (outcome if kind == "value" else f"!{outcome[0].split('.')[-1]}") != ours, line


#: collects the runnable examples of every docstring of the binding
EXAMPLES = """
import hurray, json, re
found = {}
def collect(path, value):
    for k, code in enumerate(re.findall("```python\\n(.*?)```", getattr(value, "__doc__", None) or "", re.S)):
        found.setdefault(code, f"{path}#{k}")
    if isinstance(value, type):
        for name in sorted(dir(value)):
            if name != "__class__":
                collect(f"{path}.{name}", getattr(value, name, None))
for module in (hurray, hurray.dtype, hurray.device):
    collect(module.__name__, module)
    for name in sorted(vars(module)):
        if not name.startswith("_") and name != "hurray":
            collect(name, getattr(module, name))
passing = {}
for code, name in found.items():
    names = {"hurray": hurray}
    exec("import numpy as np", names)
    try:
        exec(code, names)
    except Exception:
        continue
    passing[name] = code
print(json.dumps(passing))
"""
#: examples that rest on what this library refuses: a private memory class of a device that is not private
NOT_OURS = {"Device.memory_class_tag#0"}


def test_the_examples_of_the_binding_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    ours = tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    code = f"import os; os.chdir({str(theirs)!r})\n{EXAMPLES}"
    examples = json.loads(helpers.run_peer(code).splitlines()[-1])
    assert len(examples) > 150
    monkeypatch.chdir(ours)
    for name, text in examples.items():
        if name in NOT_OURS:
            continue
        names: dict[str, Any] = {"hurray": hurray, "np": np}
        try:
            exec(compile(text, name, "exec"), names)
        except Exception as error:
            pytest.fail(f"{name}: {type(error).__name__}: {error}\n{text}")


#: names, members and signatures of the binding
SURFACE = """
import hurray, inspect, json
def parameters(value):
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind.name, None if p.default is p.empty else repr(p.default)) for p in found]
surface = {}
for name in hurray.__all__:
    value = getattr(hurray, name)
    entry = {"type": type(value).__name__, "parameters": parameters(value) if callable(value) else None, "members": {}}
    if isinstance(value, type):
        for member in dir(value):
            if not member.startswith("_") or member in ("__array__", "__dlpack__", "__dlpack_device__", "__hurray__"):
                inner = getattr(value, member)
                entry["members"][member] = parameters(inner) if callable(inner) else None
    surface[name] = entry
modules = {m: sorted(n for n in vars(getattr(hurray, m)) if not n.startswith("_")) for m in ("dtype", "device")}
print(json.dumps([surface, modules]))
"""


@pytest.fixture(scope="module")
def surface() -> tuple[dict[str, Any], dict[str, list[str]]]:
    found = json.loads(helpers.run_peer(SURFACE))
    return found[0], found[1]


def test_every_name_is_here(surface: tuple[dict[str, Any], dict[str, list[str]]]) -> None:
    names, modules = surface
    listed = set(hurray.__all__)
    for name, entry in names.items():
        value = getattr(hurray, name)
        assert name in listed
        for member in entry["members"]:
            # the accessors of layouts are found on the class, whatever a tensor says
            assert hasattr(value, member) or member in inspect.get_annotations(value), f"{name}.{member}"
    for module, members in modules.items():
        assert set(members) <= set(dir(getattr(hurray, module)))


def compatible(name: str, theirs: list[list[Any]], ours: inspect.Signature) -> None:
    """Assert that every call which fits the binding's signature fits ours and means the same."""
    parameters = {k: p for k, p in ours.parameters.items() if k != "self"}
    positional = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    place = 0
    for argument, kind, default in theirs:
        if argument in ("self", "args", "kwargs", "_args") or argument.startswith("_"):
            continue
        assert argument in parameters, f"{name}: no argument {argument}"
        found = parameters[argument]
        if kind == "POSITIONAL_OR_KEYWORD":
            assert positional[place] == argument, f"{name}: {argument} is elsewhere"
            assert found.kind == found.POSITIONAL_OR_KEYWORD
            place += 1
        if default is not None:
            assert found.default is not inspect.Parameter.empty, f"{name}: {argument} has a default"
            same = repr(found.default) == default or (name, argument) in OTHER_DEFAULTS
            assert same, f"{name}: {argument} is {found.default!r}, not {default}"
    for extra in set(parameters) - {argument for argument, _, _ in theirs}:
        assert parameters[extra].default is not inspect.Parameter.empty, f"{name}: {extra} has no default"


#: defaults that say the same in another way
OTHER_DEFAULTS: set[tuple[str, str]] = set()
#: classes that neither library lets programs construct, or whose signature Python cannot tell
NOT_CONSTRUCTED = {"BufferHandle", "Descriptor", "Dtype", "Layout", "PerBlockAffine", "PerChannelAffine"}


def test_signatures(surface: tuple[dict[str, Any], dict[str, list[str]]]) -> None:
    for name, entry in surface[0].items():
        value = getattr(hurray, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        if callable(value) and entry["parameters"] is not None and name not in NOT_CONSTRUCTED and not is_error:
            compatible(name, entry["parameters"], inspect.signature(value))
        if is_error:
            continue
        for member, parameters in entry["members"].items():
            if parameters is None:
                continue
            found = inspect.getattr_static(value, member)
            found = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
            assert callable(found), f"{name}.{member}"
            signature = inspect.signature(found)
            if isinstance(inspect.getattr_static(value, member), classmethod):
                kept = [p for k, p in signature.parameters.items() if k != "cls"]
                signature = signature.replace(parameters=kept)
            compatible(f"{name}.{member}", parameters, signature)
