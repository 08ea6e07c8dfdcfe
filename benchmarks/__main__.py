"""Run benchmarks: ``python -m benchmarks [task ...]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.context import memory_folder, remove_folder
from benchmarks.interpreter import ROOT, find_peer
from benchmarks.table import render_task
from benchmarks.tasks import TASKS

_SHOWN_VERSIONS = (
    "numpy", "ml_dtypes", "google-crc32c", "safetensors", "h5py", "zarr", "tensorstore", "pyarrow", "scipy", "sparse",
    "gguf", "torch", "bitsandbytes", "pymorton", "numpy-hilbert-curve", "hilbertcurve",
)  # fmt: skip
_GIB = 1 << 30


def main(arguments: list[str] | None = None) -> int:
    """Run tasks, print their tables, and return 1 when one of our own rows failed."""
    options = _parser().parse_args(arguments)
    if options.list:
        for task in TASKS.values():
            print(f"{task.number:3}  {task.name:14}  {task.title}")
        return 0
    try:
        numbers = _chosen(options.task)
    except KeyError as error:
        print(f"there is no task {error.args[0]!r}; --list shows them", file=sys.stderr)
        return 2
    repeat = options.repeat or (2 if options.quick else 5)
    warm = options.warm if options.warm is not None else (0.0 if options.quick else 4.0)
    report: dict[str, Any] = {
        "machine": _machine(),
        "quick": options.quick,
        "repeat": repeat,
        "warm_gib": warm,
        "tasks": [],
    }
    print(_head(report))
    for number in numbers:
        heavy = options.heavy or not options.quick
        result = _run_task(number, repeat=repeat, warm=int(warm * _GIB), quick=options.quick, heavy=heavy)
        report["tasks"].append(result)
        print("\n" + render_task(result, quick=options.quick), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 1 if any(_broken(task) for task in report["tasks"]) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Side-by-side benchmarks, in ratios.")
    parser.add_argument("task", nargs="*", help="numbers or names of tasks (all by default; --list shows them)")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: shows that all runs, the figures say nothing"
    )
    parser.add_argument("--heavy", action="store_true", help="with --quick: torch, bitsandbytes and sparse too")
    parser.add_argument("--repeat", type=int, metavar="N", help="samples of each contender (5; with --quick 2)")
    parser.add_argument(
        "--warm", type=float, metavar="GIB", help="memory to touch before each task (4; with --quick 0)"
    )
    parser.add_argument("--json", metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--list", action="store_true", help="list the tasks")
    return parser


def _chosen(wanted: list[str]) -> list[int]:
    names = {task.name: number for number, task in TASKS.items()}
    numbers = []
    for word in wanted:
        number = int(word) if word.isdigit() else names.get(word)
        if number is None or number not in TASKS:
            raise KeyError(word)
        numbers.append(number)
    return numbers or list(TASKS)


def _run_task(number: int, *, repeat: int, warm: int, quick: bool, heavy: bool) -> dict[str, Any]:
    folder = memory_folder()
    out = folder.with_suffix(".json")
    command = [sys.executable, "-m", "benchmarks.child", str(number), str(folder), str(out), str(repeat), str(warm)]
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    try:
        done = subprocess.run([*command, str(int(quick)), str(int(heavy))], cwd=ROOT, env=env, check=False)
        if not out.exists():
            task = TASKS[number]
            error = f"the process ended with status {done.returncode}"
            return {
                "number": number,
                "name": task.name,
                "title": task.title,
                "cases": [],
                "error": error,
                "skipped": [],
            }
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return result
    finally:
        out.unlink(missing_ok=True)
        remove_folder(folder)


def _broken(task: dict[str, Any]) -> bool:
    """Tell whether a task, or one of our own rows in it, failed; a peer's failure is shown, and no more."""
    return bool(task["error"]) or any(entry["role"] == "ours" for case in task["cases"] for entry in case["failed"])


def _machine() -> dict[str, Any]:
    versions: dict[str, str | None] = {}
    for name in _SHOWN_VERSIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "pyhurray": find_peer() is not None,
        "versions": versions,
    }


def _head(report: dict[str, Any]) -> str:
    machine = report["machine"]
    there = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    lines = [
        f"Python {machine['python']}, {machine['system']}, {machine['cores']} cores; {there}",
        f"{report['repeat']} samples of each contender, in turn; medians; ratios are times, less is better",
    ]
    if machine["load"] is not None and machine["load"] > 0.5:
        lines.append(f"! the machine is busy (load {machine['load']:.1f}): figures taken now are noise")
    if report["quick"]:
        lines.append("! --quick: small sizes that show that everything runs; these figures say nothing about speed")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
