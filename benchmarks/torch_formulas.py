"""The formulas of ``quantization_formulas`` in PyTorch, for a given module ``torch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.quantization_formulas import SCHEMES, Blocks, Float32, pair_table

__all__ = ["torch_dequantize", "torch_quantize"]


def torch_dequantize(torch: Any, name: str, stored: Blocks) -> Callable[[], Any]:
    """Return what dequantizes stored codes."""
    formula = SCHEMES[name]
    codes, scales = torch.from_numpy(stored.codes), torch.from_numpy(stored.scales)[:, :, None]
    rows, n_blocks = stored.scales.shape
    pairs = torch.from_numpy(pair_table(formula.levels())) if formula.packed else None

    def run() -> Any:
        if pairs is not None:
            values = torch.nn.functional.embedding(codes.int(), pairs)
        elif name.startswith("mxfp8"):
            values = codes.view(torch.float8_e4m3fn).to(torch.float32)
        else:
            values = codes.to(torch.float32)
        return (values.reshape(rows, n_blocks, -1) * scales).reshape(rows, -1)

    return run


def torch_quantize(torch: Any, name: str, x: Float32) -> Callable[[], Blocks] | None:
    """Return what quantizes an array, or None where PyTorch has no means but a search."""
    formula = SCHEMES[name]
    if name == "mxfp4":
        return None
    source = torch.from_numpy(x)
    rows, block = len(x), formula.block or x.shape[1]
    middles = torch.from_numpy((formula.levels()[1:] + formula.levels()[:-1]) / 2) if name == "nf4" else None
    top = {"int8_per_channel": 127, "int8_per_block": 127, "int4_per_block": 7}.get(name, 0)

    def run() -> Blocks:
        blocks = source.reshape(rows, -1, block)
        absmax = blocks.abs().amax(dim=2)
        if name == "mxfp8_e4m3":
            scales = torch.exp2(torch.floor(torch.log2(absmax)) - 8)
            codes = (blocks / scales[:, :, None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        elif middles is not None:
            scales = absmax
            codes = torch.bucketize(blocks / scales[:, :, None], middles, out_int32=True).to(torch.uint8)
        else:
            scales = absmax / top
            codes = torch.round(blocks / scales[:, :, None]).clamp(-top, top).to(torch.int8)
        codes = codes.reshape(rows, -1)
        if formula.packed:
            nibbles = codes.view(torch.uint8) & 15
            codes = nibbles[:, ::2] | (nibbles[:, 1::2] << 4)
        return Blocks(np.asarray(codes), np.asarray(scales))

    return run
