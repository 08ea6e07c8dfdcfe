"""The examples of the README and of every page of the documentation run, and their links lead somewhere.

A ``python`` block runs after the ones before it on its page, in an empty folder.  A comment ``# -> text`` behind an
expression says its ``repr``.  Lines of a ``console`` block that start with ``$ hurray`` run in the same folder; what
follows such a line is what it prints, where ``...`` stands for any text.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT, our_env

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
EXPECTED = "# -> "


def run_python(code: str, names: dict[str, Any]) -> None:
    lines = code.splitlines()
    for node in ast.parse(code).body:
        source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.Expr) and EXPECTED in lines[(node.end_lineno or 1) - 1]:
            want = lines[(node.end_lineno or 1) - 1].partition(EXPECTED)[2]
            got = eval(compile(ast.Expression(node.value), "<example>", "eval"), names)
            assert repr(got) == want, source
        else:
            exec(compile(ast.Module([node], []), "<example>", "exec"), names)


def run_console(text: str, folder: Path) -> None:
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    for part in parts:
        command, _, want = part.partition("\n")
        words = shlex.split(command)
        if words[0] != "hurray":
            continue
        done = subprocess.run(
            [sys.executable, "-m", "hurray", *words[1:]],
            capture_output=True,
            text=True,
            cwd=folder,
            env=our_env(),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if want.strip():
            pattern = re.escape(want.strip()).replace(re.escape("..."), ".*")
            assert re.fullmatch(pattern, done.stdout.strip(), re.S), f"{command} printed\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    if any("scipy" in text for _, text in blocks):
        pytest.importorskip("scipy")
    if any(kind == "console" for kind, _ in blocks):
        pytest.importorskip("typer")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for kind, text in blocks:
        if kind == "python":
            run_python(text, names)
        elif kind == "console":
            run_console(text, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        assert os.path.exists(page.parent / target), f"{page.name} links to {target}"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {target for target, _ in LINK.findall(index)}
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or page.name in linked, f"docs/index.md does not link to {page.name}"
