"""Task 13: what an import costs, as whole processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks.context import Context
from benchmarks.interpreter import find_peer
from benchmarks.model import Case, Skipped, needed

_PEERS = ("safetensors.numpy", "ml_dtypes", "pyarrow", "h5py", "gguf", "tensorstore", "scipy.sparse", "zarr", "sparse")
_HEAVY = ("torch", "bitsandbytes")
#: what importing this library must not bring along
_UNWANTED = (
    "torch", "scipy", "pyarrow", "ml_dtypes", "sparse", "safetensors", "typer", "rich", "asyncio", "json",
    "concurrent.futures", "multiprocessing",
)  # fmt: skip
_USED = "import hurray; hurray.load, hurray.save, hurray.open, hurray.from_numpy, hurray.Tensor, hurray.float32"
_EXTRA = f"""
import sys, json, numpy
before = set(sys.modules)
{{code}}
print(json.dumps([m for m in {_UNWANTED!r} if m in sys.modules and m not in before]))
"""


# Without compiled files an import would mostly be a compilation.
_ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _process(code: str, python: str = sys.executable, *options: str) -> Callable[[], None]:
    def run() -> None:
        subprocess.run([python, *options, "-c", code], check=True, capture_output=True, env=_ENV)

    return run


def _importing(name: str) -> Callable[[], None]:
    run = _process(f"import {name}")
    try:
        run()
    except subprocess.CalledProcessError:
        needed(name)
        raise Skipped(f"{name} does not import in a process of its own") from None
    return run


def imports(context: Context) -> Iterator[Case]:
    """Task 13."""
    case = Case("whole process with the import")
    case.limit("import numpy", _process("import numpy"), loops=1)
    case.limit("python alone", _process("pass"), loops=1)
    case.ours("import hurray", _process("import hurray"), loops=1)
    case.ours("import hurray, use load and save", _process(_USED), loops=1)
    for name in context.size(_PEERS + _HEAVY, _PEERS[:3]):
        case.peer(f"import {name}", lambda name=name: _importing(name), loops=1)
    python = find_peer()
    if python is None:
        case.skipped.append(("import pyhurray", "no interpreter with pyhurray"))
    else:
        case.peer("import pyhurray", lambda: _process("import hurray", python, "-I"), loops=1)
    case.goal("import numpy", 1.25)
    case.goal("import numpy", 1.25, ours="import hurray, use load and save")
    for title, code in (("import hurray", "import hurray"), ("its first use", _USED)):
        extra = _brought_along(code)
        case.fact(
            f"unwanted modules that {title} brings along{': ' + ', '.join(extra) if extra else ''}", len(extra), "", 0
        )
    yield case


def _brought_along(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", _EXTRA.format(code=code)], check=True, capture_output=True, text=True)
    found: list[str] = json.loads(done.stdout)
    return found
