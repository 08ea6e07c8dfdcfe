"""Checkpoints that bitsandbytes quantized to NF4, in.

There a weight is one run of 4-bit codes, the first of a byte in its high half, cut into blocks without regard to
rows; a block has one float32 scale.  Here blocks follow the rows.  Where a row is no whole number of blocks, the
largest power of two that divides both takes the block's place, and each scale is repeated: the values stay the same.
Only where that leaves less than eight elements a weight becomes one-dimensional.

Format: quantization, nf4.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import gcd, prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.errors import FileError
from hurray.interop._checkpoint import Checkpoint, NotExactError, Other, Quantized, as_bytes, check_other, form
from hurray.interop._safetensors_header import loads_json, shown
from hurray.interop.safetensors import SafetensorsFile, from_safetensors
from hurray.kernels import lookup, nf4
from hurray.quantization import NF4
from hurray.tensor.tensor import Tensor

__all__ = ["from_bitsandbytes"]

Bytes = NDArray[np.uint8]
Float32 = NDArray[np.float32]

_STATE = ".quant_state.bitsandbytes__"
_LEAST_BLOCK = 8
_RUN = 1 << 16


class _State(NamedTuple):
    """What the JSON entry of a weight says."""

    kind: str
    shape: tuple[int, ...]
    block: int
    nested_block: int
    nested_offset: float


def from_bitsandbytes(path: str | os.PathLike[str] | bytes | BinaryIO, *, other: Other = "refuse") -> Checkpoint:
    """Open a checkpoint with NF4 weights as a lazy mapping.

    Each weight becomes one tensor of its name under the scheme NF4; scales that were quantized themselves are expanded
    to float32.  Everything else passes through.  Values are ``scale * level`` in float32; bitsandbytes rounds them to
    the weight's type afterwards.

    A weight whose rows share no block of eight elements with its blocks is kept as one dimension, and its shape is kept
    in ``kv`` under ``<name>.shape``.

    Parameters
    ----------
    path : path, URL, bytes or binary file object
        A safetensors file, or the index of a sharded checkpoint.
    other : {"refuse", "dequantize", "skip"}
        ``dequantize`` gives weights that cannot be kept (FP4, negative scales after expansion, other levels than those
        of NF4), or not in their shape, as float32; ``skip`` leaves out those that cannot be kept.

    Raises
    ------
    FileError
        A file is missing or damaged, or the entries of a weight do not fit together.
    UnsupportedError
        A weight cannot be kept; all such are listed.

    Format: quantization, nf4.
    """
    check_other(other)
    file = from_safetensors(path)
    try:
        found, kv = [], dict[str, Any](file.kv)
        for name in file:
            base, mark, kind = name.partition(_STATE)
            if mark:
                weight = _Weight(file, base, name, kind)
                found.append(weight.quantized())
                if weight.is_flat and other != "dequantize":
                    kv[f"{base}.shape"] = list(weight.state.shape)
        return Checkpoint(file, found, kv, other)
    except BaseException:
        file.close()
        raise


class _Weight:
    """The entries of one weight."""

    def __init__(self, file: SafetensorsFile, name: str, state_name: str, kind: str) -> None:
        self.file = file
        self.name = name
        self.state = _parse_state(file[state_name].to_numpy().tobytes(), kind, state_name)
        self.parts = [state_name] + [p for p in self._names() if p in file]
        self.n = prod(self.state.shape)
        self.n_blocks = -(-self.n // self.state.block)
        self._array("", "uint8", (self.n + 1) // 2)
        self.levels: Float32 = self._array(".quant_map", "float32", 16)
        nested = f"{name}.nested_absmax" in file
        self._array(".absmax", "uint8" if nested else "float32", self.n_blocks)
        self.is_nested = nested
        # Blocks lie along a row where a power of two divides both.
        last = self.state.shape[-1] if self.state.shape else 1
        block = gcd(last, self.state.block)
        self.is_flat = block < _LEAST_BLOCK and self.n > 0
        if self.is_flat:
            block = min(self.state.block, 1 << (self.n.bit_length() - 1))
        self.block = block

    def _names(self) -> Iterator[str]:
        for part in ("", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"):
            yield self.name + part

    def _array(self, part: str, dtype: str, n: int) -> Any:
        name = self.name + part
        if name not in self.file:
            raise FileError(f"the checkpoint has no entry {shown(name)}")
        t = self.file[name]
        if t.dtype.name != dtype or t.size != n:
            raise FileError(
                f"entry {shown(name)} should be {n} elements of {dtype}, but is {t.dtype.name} of shape {t.shape}"
            )
        return t.to_numpy().reshape(-1)

    def quantized(self) -> Quantized:
        """Return the weight as a checkpoint takes it."""
        source = f"{self.state.kind}, blocks of {self.state.block}{', nested scales' if self.is_nested else ''}"
        note = ""
        if self.state.kind != "nf4":
            note = f"{self.state.kind} has levels that no scheme here has"
        elif self.levels.tobytes() != nf4.LEVELS.tobytes():
            note = "its levels are not those of NF4"
        elif self.is_flat and self.block < _LEAST_BLOCK:
            note = f"it has fewer than {_LEAST_BLOCK} elements"
        keep = None if note else self.keep
        if keep is not None and self.is_flat:
            note = f"kept in one dimension: rows of {self.state.shape[-1]} elements cut its blocks"
        target = f"uint4 nf4, block {self.block}"
        return Quantized(self.name, self.parts, source, target, note, keep, self.decode, self.is_flat)

    def scales(self) -> Float32:
        """Return the scale of each block as float32, shape (blocks,)."""
        if not self.is_nested:
            found: Float32 = self._array(".absmax", "float32", self.n_blocks)
            return found
        run = self.state.nested_block
        codes = self._array(".absmax", "uint8", self.n_blocks)
        outer = self._array(".nested_absmax", "float32", -(-self.n_blocks // run))
        levels = self._array(".nested_quant_map", "float32", 256)
        scales: Float32 = levels[codes] * outer[np.arange(self.n_blocks) // run]
        scales += np.float32(self.state.nested_offset)
        return scales

    def keep(self) -> Tensor:
        """Return the weight under the scheme NF4."""
        scales = self.scales()
        bad = ~(np.isfinite(scales) & (scales >= 0))
        if bad.any():
            at = int(bad.argmax())
            raise NotExactError(f"the scale of block {at} is {scales[at]}, and NF4 has no such scale")
        shape = (self.n,) if self.is_flat else self.state.shape
        if self.block != self.state.block:
            scales = scales[np.arange(-(-self.n // self.block)) * self.block // self.state.block]
        n_bytes = -(-self.n // self.block) * self.block // 2
        codes = np.zeros(n_bytes, np.uint8)
        packed = self._array("", "uint8", (self.n + 1) // 2)
        _swap_halves(packed, codes[: len(packed)])
        if self.n % 2:
            codes[len(packed) - 1] &= 15
        return form("uint4", shape, (codes, as_bytes(scales)), NF4(len(shape) - 1, self.block, 1))

    def decode(self) -> Float32:
        """Return the values as float32 in the weight's shape."""
        values = np.empty(self.n, np.float32)
        scales = self.scales()
        packed = self._array("", "uint8", (self.n + 1) // 2)
        whole = max(1, _RUN // self.state.block) * self.state.block
        for at in range(0, self.n, whole):
            n = min(whole, self.n - at)
            halves = packed[at // 2 : (at + n + 1) // 2]
            codes = np.stack([halves >> np.uint8(4), halves & np.uint8(15)], axis=1).reshape(-1)[:n]
            scale = scales[(at + np.arange(n)) // self.state.block]
            lookup.dequantize_by_table(codes, self.levels, scale, out=values[at : at + n])
        return values.reshape(self.state.shape)


def _swap_halves(packed: Bytes, out: Bytes) -> None:
    """Put the first element of each byte into its low half."""
    for at in range(0, len(packed), _RUN):
        run = packed[at : at + _RUN]
        np.left_shift(run, np.uint8(4), out=out[at : at + _RUN])
        out[at : at + _RUN] |= run >> np.uint8(4)


def _parse_state(raw: bytes, kind: str, what: str) -> _State:
    table = loads_json(raw, f"entry {shown(what)}")
    if not isinstance(table, dict) or table.get("quant_type") != kind:
        raise FileError(f"entry {shown(what)} does not describe {shown(kind)} codes")
    shape, block = table.get("shape"), table.get("blocksize")
    if not isinstance(shape, list) or len(shape) > 64 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise FileError(f"entry {shown(what)}: shape is {shown(shape)}, not a list of sizes")
    if type(block) is not int or not _LEAST_BLOCK <= block < 2**31 or block & (block - 1):
        raise FileError(f"entry {shown(what)}: blocksize is {shown(block)}, not a power of two of at least 8")
    nested, offset = table.get("nested_blocksize", 1), table.get("nested_offset", 0.0)
    if type(nested) is not int or not 1 <= nested < 2**31:
        raise FileError(f"entry {shown(what)}: nested_blocksize is {shown(nested)}, not a number of elements")
    if type(offset) not in (int, float) or not -3.4e38 < offset < 3.4e38:
        raise FileError(f"entry {shown(what)}: nested_offset is {shown(offset)}, not a number")
    return _State(kind, tuple(shape), block, nested, float(offset))
