"""Task 11: quantizing and dequantizing, in GB/s of float32."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hurray
from benchmarks.context import Context
from benchmarks.model import BEST_PEER, Case
from benchmarks.quantization_formulas import SCHEMES, Blocks, dequantize, quantize
from benchmarks.torch_formulas import torch_dequantize, torch_quantize

Array = NDArray[Any]
Float32 = NDArray[np.float32]

_TITLES = {
    "int8_per_channel": "int8 per channel",
    "int8_per_block": "int8 per block of 32",
    "int4_per_block": "int4 per block of 32",
    "nf4": "NF4, blocks of 64",
    "mxfp4": "MXFP4, blocks of 32",
    "mxfp8_e4m3": "MXFP8 e4m3, blocks of 32",
}
_GGUF = {"int8_per_block": "Q8_0", "int4_per_block": "Q4_0", "mxfp4": "MXFP4"}
#: goals: dequantize and quantize, each against whom
_GOALS = {
    "int8_per_channel": ((BEST_PEER, 1.0), ("torch", 0.5)),
    "int8_per_block": ((BEST_PEER, 1.0), ("torch", 1.1)),
    "int4_per_block": ((BEST_PEER, 0.75), ("torch", 1.1)),
    "nf4": (("bitsandbytes", 1.5), ("torch", 0.5)),
    "mxfp4": ((BEST_PEER, 0.75), (BEST_PEER, 1.0)),
    "mxfp8_e4m3": ((BEST_PEER, 0.75), (BEST_PEER, 4.0)),
}


def quantization(context: Context) -> Iterator[Case]:
    """Task 11."""
    side = context.size(6144, 256)
    x = context.rng.standard_normal((side, side), np.float32)
    limits = _Limits(x)
    for name in SCHEMES:
        quantized = hurray.quantize(x, name)
        yield _dequantizing(name, x, quantized, limits)
        yield _quantizing(name, x, quantized, limits)
    limits.close()


class _Limits:
    """Copies of as many bytes as the float32 array has."""

    def __init__(self, x: Float32) -> None:
        self._x = x
        self._warm = np.empty_like(x)
        self._pool = ThreadPoolExecutor(2)

    def add(self, case: Case) -> None:
        """Add the copies to a case."""
        x, warm, half = self._x, self._warm, len(self._x) // 2

        def copy(part: slice) -> None:
            np.copyto(warm[part], x[part])

        case.limit("memcpy, 1 core", lambda: np.copyto(warm, x))
        case.limit("memcpy, 2 threads", lambda: list(self._pool.map(copy, (slice(0, half), slice(half, None)))))
        case.limit("memcpy into new memory", x.copy)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


def stored_blocks(t: hurray.Tensor, name: str) -> Blocks:
    """Return the codes and scales of one of our tensors as the formulas take them."""
    rows = int(t.shape[0] or 0)
    codes = t.buffer(0).to_numpy().reshape(rows, -1)
    raw = t.buffer(1).to_numpy()
    if name.startswith("mxfp"):
        scales = np.exp2(raw.astype(np.float32) - np.float32(127))
    else:
        scales = raw.view(np.float32)
    return Blocks(codes.view(np.int8) if name.startswith("int8") else codes, scales.reshape(rows, -1))


def _near(x: Float32) -> Callable[[Any], bool]:
    """Return a check that values are about those that were quantized, for peers that round in their own way."""
    spread = float(x.std())

    def check(found: Any) -> bool:
        error = np.asarray(found).reshape(x.shape) - x
        return float(np.sqrt(np.mean(np.square(error)))) < 0.2 * spread

    return check


def _dequantizing(name: str, x: Float32, quantized: hurray.Tensor, limits: _Limits) -> Case:
    stored = stored_blocks(quantized, name)
    want = dequantize(name, stored)
    out = np.full_like(x, np.nan)

    def right(found: Any) -> bool:
        return np.array_equal(np.asarray(found), want)

    def gguf(quants: Any, module: Any) -> Callable[[], Any]:
        kind = module.GGMLQuantizationType[_GGUF[name]]
        blocks = quants.quantize(x, kind)
        return lambda: quants.dequantize(blocks, kind)

    def bitsandbytes(functional: Any, torch: Any) -> Callable[[], Any]:
        codes, state = functional.quantize_4bit(torch.from_numpy(x), blocksize=64, quant_type="nf4")
        return lambda: functional.dequantize_4bit(codes, state)

    case = Case(f"dequantize {_TITLES[name]}, {len(x)}x{len(x)}", n_bytes=x.nbytes)
    limits.add(case)
    case.ours("hurray", quantized.dequantize, check=right)
    case.ours("hurray, out=", lambda: quantized.dequantize(out=out), check=right)
    case.peer("NumPy formula", lambda: lambda: dequantize(name, stored), check=right)
    case.peer("torch", lambda torch: torch_dequantize(torch, name, stored), "torch", check=right)
    if name in _GGUF:
        case.peer(f"gguf {_GGUF[name]}", gguf, "gguf.quants", "gguf", check=_near(x))
    if name == "nf4":
        case.peer("bitsandbytes", bitsandbytes, "bitsandbytes.functional", "torch", check=_near(x))
    case.goal(*_GOALS[name][0])
    peak = _peak_bytes(quantized.dequantize)
    case.fact("peak memory of dequantizing, output included, in outputs", peak / x.nbytes, "", 1.2)
    return case


def _peak_bytes(run: Callable[[], Any]) -> int:
    """Return the most memory that a call holds at once, its result included."""
    run()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = run()
        peak = tracemalloc.get_traced_memory()[1]
        del result
    finally:
        tracemalloc.stop()
    return peak - before


def _quantizing(name: str, x: Float32, quantized: hurray.Tensor, limits: _Limits) -> Case:
    source = hurray.from_numpy(x)
    ours = stored_blocks(quantized, name)
    want = dequantize(name, quantize(name, x))
    bound = float(np.sqrt(np.mean(np.square(want - x))))

    def right(found: hurray.Tensor) -> bool:
        error = found.dequantize().to_numpy() - x
        return float(np.sqrt(np.mean(np.square(error)))) <= 1.001 * bound

    def alike(found: Blocks) -> bool:
        return float(np.mean(found.codes == ours.codes)) > 0.999 and np.allclose(found.scales, ours.scales, rtol=1e-6)

    def torch(module: Any) -> Callable[[], Any]:
        run = torch_quantize(module, name, x)
        assert run is not None
        return run

    def gguf(quants: Any, module: Any) -> Callable[[], Any]:
        kind = module.GGMLQuantizationType[_GGUF[name]]
        return lambda: quants.quantize(x, kind)

    def bitsandbytes(functional: Any, module: Any) -> Callable[[], Any]:
        given = module.from_numpy(x)
        return lambda: functional.quantize_4bit(given, blocksize=64, quant_type="nf4")

    case = Case(f"quantize {_TITLES[name]}, {len(x)}x{len(x)}", n_bytes=x.nbytes)
    limits.add(case)
    case.ours("hurray", lambda: hurray.quantize(source, name), check=right)
    case.peer("NumPy formula", lambda: lambda: quantize(name, x), check=alike)
    if name != "mxfp4":
        case.peer("torch", torch, "torch", check=alike)
    if name in _GGUF:
        case.peer(f"gguf {_GGUF[name]}", gguf, "gguf.quants", "gguf")
    if name == "nf4":
        case.peer("bitsandbytes", bitsandbytes, "bitsandbytes.functional", "torch")
    case.goal(*_GOALS[name][1])
    return case
