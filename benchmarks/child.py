"""One task in a process of its own: ``python -m benchmarks.child NUMBER FOLDER OUT REPEAT WARM_BYTES QUICK HEAVY``."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.context import Context, warm_memory
from benchmarks.measuring import measure_case
from benchmarks.model import HEAVY, LEFT_OUT, Skipped
from benchmarks.tasks import TASKS


def main(arguments: list[str]) -> int:
    """Run a task and write its figures to a file."""
    number, folder, out, repeat, warm, quick, heavy = arguments
    task = TASKS[int(number)]
    start = perf_counter()
    result: dict[str, Any] = {
        "number": task.number, "name": task.name, "title": task.title, "cases": [], "skipped": [], "error": None,
    }  # fmt: skip
    if heavy != "1":
        LEFT_OUT.update(HEAVY)
    warm_memory(int(warm))
    context = Context(quick=quick == "1", folder=Path(folder))
    try:
        for case in task.build(context):
            print(f"  task {number}: {case.title}", file=sys.stderr)
            result["cases"].append(measure_case(case, repeat=int(repeat), quick=context.quick))
    except Skipped as error:
        result["skipped"].append(str(error))
    except Exception as error:
        traceback.print_exc()
        result["error"] = f"{type(error).__name__}: {error}"
    finally:
        context.close()
    result["seconds"] = perf_counter() - start
    Path(out).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
