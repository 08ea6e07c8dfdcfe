"""What ``import hurray`` costs: counted in modules, not in time."""

from __future__ import annotations

import subprocess
import sys

from helpers import our_env

#: none of these may come with a plain import
HEAVY = (
    "ml_dtypes", "scipy", "torch", "pyarrow", "sparse", "safetensors", "dask", "fsspec", "gguf", "typer", "rich",
    "h5py", "asyncio", "concurrent.futures", "multiprocessing", "google_crc32c", "zipfile", "socket",
)  # fmt: skip


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=our_env(), check=True)
    return set(done.stdout.split())


def test_import_pulls_in_nothing_heavy() -> None:
    before = modules_after("import numpy")
    added = modules_after("import hurray") - before
    assert not [name for name in HEAVY if name in added]
    assert not [name for name in added if not name.startswith(("hurray", "numpy", "_")) and name in HEAVY]


def test_saving_and_loading_pulls_in_no_optional_package() -> None:
    code = (
        "import io, numpy, hurray\n"
        "target = io.BytesIO()\n"
        "hurray.save(target, {'a': numpy.arange(3.0), 'b': numpy.eye(2) > 0}, kv={'k': 1})\n"
        "assert hurray.load(target)['a'].to_numpy().tolist() == [0, 1, 2]\n"
    )
    added = modules_after(code)
    heavy = set(HEAVY) - {"google_crc32c", "zipfile", "socket", "asyncio", "concurrent.futures", "multiprocessing"}
    assert not heavy & added
