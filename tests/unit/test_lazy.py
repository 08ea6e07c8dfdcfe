"""Tables whose classes are imported on demand."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import hurray
from helpers import our_env
from hurray import layouts, quantization
from hurray.layouts import LAYOUTS, LAYOUTS_BY_NAME, Layout
from hurray.lazy import ClassTable
from hurray.quantization import SCHEMES


def test_a_table_is_a_mapping_of_classes() -> None:
    table: ClassTable[int, Any] = ClassTable("collections", {1: ("abc", "Mapping"), 2: ("abc", "Sized")})
    assert len(table) == 2
    assert list(table) == [1, 2]
    assert 1 in table
    assert 3 not in table
    assert table.get(3) is None
    assert dict(table)[2].__name__ == "Sized"
    assert table[1] is table[1] is table.attribute("Mapping")
    assert "Sized" in repr(table)
    with pytest.raises(KeyError):
        table[3]
    with pytest.raises(AttributeError, match="'collections' has no attribute 'Other'"):
        table.attribute("Other")


def test_the_tables_say_what_the_classes_say() -> None:
    assert {tag: cls.tag for tag, cls in LAYOUTS.items()} == {tag: tag for tag in LAYOUTS}
    assert {name: cls.name for name, cls in LAYOUTS_BY_NAME.items()} == {name: name for name in LAYOUTS_BY_NAME}
    assert list(LAYOUTS.values()) == list(LAYOUTS_BY_NAME.values())
    assert {tag: cls.tag for tag, cls in SCHEMES.items()} == {tag: tag for tag in SCHEMES}
    named = hurray.UnknownLayout.named
    assert named == {tag: (cls.name, cls.__name__) for tag, cls in LAYOUTS.items()}


@pytest.mark.parametrize("package", [layouts, quantization])
def test_every_public_name_is_there(package: Any) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        package.Other  # noqa: B018


@pytest.mark.parametrize("first", ["csr", "csc"])
def test_csr_and_csc_know_each_other_whichever_comes_first(first: str) -> None:
    code = (
        f"import hurray.layouts.{first} as m; from hurray.layouts import CsrLayout, CscLayout; "
        "assert CsrLayout.transposed is CscLayout and CscLayout.transposed is CsrLayout"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, env=our_env()).returncode == 0


def test_plain_files_need_no_other_layouts() -> None:
    code = (
        "import io, sys, numpy, hurray; f = io.BytesIO(); hurray.save(f, {'a': numpy.arange(6)}); "
        "hurray.load(f)['a'].to_numpy(); "
        "print(sum(m.startswith(('hurray.layouts.', 'hurray.quantization.')) for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=our_env())
    assert int(done.stdout) <= 8
    assert issubclass(LAYOUTS[0x01], Layout)
