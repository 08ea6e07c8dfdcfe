"""The benchmarks run: one quick task through the command, and the arithmetic of the tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT, our_env

sys.path.insert(0, str(ROOT))

from benchmarks.measuring import measure_case
from benchmarks.model import BEST_PEER, Case, Skipped, needed
from benchmarks.table import render_task, seconds_text
from benchmarks.tasks import TASKS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT, env=our_env(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_quick_task_runs_and_reports(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    done = run("descriptor", "--quick", "--repeat", "1", "--json", str(out))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "task 7 (descriptor)" in done.stdout
    (task,) = json.loads(out.read_text())["tasks"]
    assert task["error"] is None
    rows = {row["name"]: row for row in task["cases"][0]["rows"]}
    assert {"one struct.unpack each", "hurray", "safetensors' JSON entry"} <= set(rows)
    assert rows["hurray"]["x_limit"] == pytest.approx(
        rows["hurray"]["median"] / rows["one struct.unpack each"]["median"]
    )
    assert all(len(row["samples"]) == 1 for row in rows.values())
    assert not [entry for case in task["cases"] for entry in case["failed"] if entry["role"] == "ours"]


def test_unknown_tasks_are_refused() -> None:
    done = run("no-such-task")
    assert done.returncode == 2
    assert "no-such-task" in done.stderr


def test_tasks_are_listed() -> None:
    done = run("--list")
    assert done.returncode == 0
    assert [line.split()[1] for line in done.stdout.splitlines()] == [task.name for task in TASKS.values()]


def _measured(times: dict[str, tuple[str, list[float]]], repeat: int = 3) -> Case:
    case = Case("case")
    for name, (role, samples) in times.items():
        left = iter(samples)
        case.measured(name, role, lambda _, left=left: next(left), lambda: None)  # type: ignore[misc]
    return case


def test_contenders_take_turns() -> None:
    order: list[str] = []
    case = Case("case")
    for name in "abc":
        case.measured(name, "ours", lambda _, name=name: float(order.append(name) is None), lambda: None)  # type: ignore[misc,func-returns-value]
    measure_case(case, repeat=2, quick=True)
    assert order == list("abcabc")


def test_ratios_goals_and_spread() -> None:
    case = _measured(
        {
            "copy": ("limit", [1.0, 1.0, 1.0]),
            "ours": ("ours", [2.0, 3.0, 5.0]),
            "slow": ("peer", [9.0, 9.0, 9.0]),
            "quick": ("peer", [1.5, 1.5, 1.5]),
        }
    )
    case.goal(BEST_PEER, 1.5)
    case.goal("copy", 3.0)
    case.goal("absent", 1.0)
    result = measure_case(case, repeat=3, quick=False)
    ours = next(row for row in result["rows"] if row["name"] == "ours")
    assert (ours["min"], ours["median"], ours["max"]) == (2.0, 3.0, 5.0)
    assert (ours["x_limit"], ours["x_best_peer"], ours["spread"]) == (3.0, 2.0, True)
    assert [(g["against"], g["ratio"], g["met"]) for g in result["goals"]] == [
        ("best peer (quick)", 2.0, False),
        ("copy", 3.0, True),
    ]
    text = render_task({"number": 0, "name": "x", "title": "y", "cases": [result]})
    assert "best peer (quick) = 2.00, at most 1.5: MISSED" in text
    assert "! spread" in text


def test_wrong_values_are_never_timed() -> None:
    case = Case("case")
    case.ours("wrong", lambda: 1, check=lambda found: found == 2)
    case.ours("right", lambda: 2, check=lambda found: found == 2)
    result = measure_case(case, repeat=1, quick=True)
    assert [row["name"] for row in result["rows"]] == ["right"]
    assert [(f["name"], f["role"]) for f in result["failed"]] == [("wrong", "ours")]


def test_missing_packages_are_named() -> None:
    with pytest.raises(Skipped, match="no_such_package is not installed"):
        needed("no_such_package.part")
    case = Case("case")
    case.peer("other", lambda module: lambda: None, "no_such_package")
    assert case.skipped == [("other", "no_such_package is not installed")]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (0.0031, "3.1 ms"), (4.2e-5, "42 us"), (3.3e-8, "33 ns"), (0.9999, "1e+03 ms")],
)
def test_times_have_units(seconds: float, text: str) -> None:
    assert seconds_text(seconds) in (text, "1000 ms")
