"""The public names: sorted, complete, found lazily, documented, and none in the way of another."""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import helpers
import hurray
from hurray.dtypes.table import ALL_DTYPES, TIER_1

SOURCE = Path(inspect.getfile(hurray)).read_text(encoding="utf-8")


def test_all_is_complete() -> None:
    assert len(set(hurray.__all__)) == len(hurray.__all__)
    listed = {name for names in hurray._MODULES.values() for name in names} | set(hurray._SUBMODULES)
    assert listed | {"__version__"} == set(hurray.__all__)
    assert set(hurray.__all__) <= set(dir(hurray))


def test_type_checkers_see_the_same_names() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            imported = {alias.name for statement in node.body for alias in getattr(statement, "names", [])}
    assert imported == set(hurray.__all__) - {"__version__"}


@pytest.mark.parametrize("name", sorted(set(hurray.__all__) - {"__version__"}))
def test_every_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(hurray, name)  # also the converters whose packages are not installed
    assert getattr(hurray, name) is value
    if callable(value) or inspect.ismodule(value):
        doc = value.__doc__
        assert doc
        assert doc[0].isupper() or doc.startswith("``")
        assert doc.split("\n")[0].rstrip().endswith((".", ":"))


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="module 'hurray' has no attribute 'int4'"):
        hurray.int4  # noqa: B018
    assert not hasattr(hurray, "complex64")


def test_star_import() -> None:
    code = "from hurray import *; print(sorted(n for n in dir() if not n.startswith('_')) != [])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=helpers.our_env(), check=False
    )
    # the converters of packages that are not here may be missing, and nothing else
    assert done.returncode == 0 or "pip install" in done.stderr, done.stderr


def test_dtypes_are_the_same_objects_everywhere() -> None:
    assert len(ALL_DTYPES) == 26
    for dtype in ALL_DTYPES:
        assert getattr(hurray.dtype, dtype.name) is dtype
        assert hasattr(hurray, dtype.name) == (dtype in TIER_1)
    for dtype in TIER_1:
        assert getattr(hurray, dtype.name) is dtype
    assert set(hurray.dtype.__all__) == {d.name for d in ALL_DTYPES} | {"Dtype"}


def test_devices() -> None:
    kinds = {"cpu", "cuda", "rocm", "metal", "vulkan", "webgpu", "hexagon", "level_zero", "opencl"}
    assert set(hurray.device.__all__) == kinds | {"Device"}
    for kind in kinds:
        assert getattr(hurray.device, kind) == hurray.Device(kind)


def test_constants() -> None:
    assert (hurray.MIN_BUFFER_ALIGNMENT, hurray.PAGE_ALIGNMENT) == (64, 4096)
    assert hurray.__version__.split(".")[0].isdigit()


def test_our_buffer_error_is_not_the_built_in_one() -> None:
    assert hurray.BufferError is not builtins.BufferError
    assert not issubclass(hurray.BufferError, builtins.BufferError)
