"""Checkpoints that compressed-tensors stored, in.

A module's weight lies in several entries: codes (``weight_packed``, int32 words with the first code in the lowest bits,
or ``weight``), ``weight_scale``, perhaps ``weight_zero_point`` and ``weight_shape``.  Packed integers are stored with
half their range added.  What the entries are follows from their shapes and from ``config.json``.

Scales are kept as they are where the scheme can have them.  Groups need no power of two: the largest one that divides a
group takes its place, and each scale is repeated.

Format: quantization, per-block, per-channel and per-tensor affine; mxfp.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import BY_NAME
from hurray.errors import FileError, UnsupportedError
from hurray.interop._checkpoint import Checkpoint, NotExactError, Other, Quantized, as_bytes, check_other, form
from hurray.interop._compressed_config import Weights, read_config
from hurray.interop._safetensors_header import shown
from hurray.interop.safetensors import SafetensorsFile, from_safetensors
from hurray.kernels import bits as bit_kernels
from hurray.kernels import minifloat
from hurray.quantization import MXFP, PerBlockAffine, PerChannelAffine, PerTensorAffine
from hurray.tensor.tensor import Tensor

__all__ = ["from_compressed_tensors"]

Float32 = NDArray[np.float32]
_FILES = ("model.safetensors.index.json", "model.safetensors")
_FLOATS = frozenset({"float16", "bfloat16", "float32"})
_PACKED_BITS = (2, 4, 8)
_COMPANIONS = ("scale", "zero_point", "shape", "g_idx", "global_scale")


def from_compressed_tensors(
    path: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    other: Other = "refuse",
) -> Checkpoint:
    """Open a compressed-tensors checkpoint as a lazy mapping.

    The entries of a module's weight become one quantized tensor ``<module>.weight``; everything else passes through.
    Integer weights with a scale per tensor, channel or group are kept, and so are MXFP4 and MXFP8.  Values are computed
    in float32, where compressed-tensors computes in the type of the scales.

    Parameters
    ----------
    path : path, URL, bytes or binary file object
        A safetensors file, the index of a sharded checkpoint, or the folder that holds one of them.
    config : path or mapping, optional
        The checkpoint's configuration; by default ``config.json`` beside the file.
    other : {"refuse", "dequantize", "skip"}
        ``dequantize`` gives weights that cannot be kept (float8 with float scales, scales per 2-D block, scales that
        are 0) as float32; ``skip`` leaves out those that are known to be such when the checkpoint is opened.

    Raises
    ------
    FileError
        A file is missing or damaged, or the entries of a weight do not fit together.
    UnsupportedError
        A weight cannot be kept; all such are listed.

    Format: quantization.
    """
    check_other(other)
    is_path = isinstance(path, (str, os.PathLike))
    if isinstance(path, (str, os.PathLike)) and os.path.isdir(path):
        folder = os.fspath(path)
        names = [name for name in _FILES if os.path.exists(os.path.join(folder, name))]
        path = os.path.join(folder, names[0] if names else _FILES[-1])
    if config is None:
        if not is_path:
            raise UnsupportedError("the configuration of a checkpoint that is no path must be given as config=")
        config = os.path.join(os.path.dirname(os.fspath(path)), "config.json")  # type: ignore[arg-type]
    ways = read_config(config)
    file = from_safetensors(path)
    try:
        found = [_Module(file, base, ways).quantized() for base in _modules(file)]
        return Checkpoint(file, found, file.kv, other)
    except BaseException:
        file.close()
        raise


def _modules(file: SafetensorsFile) -> list[str]:
    """Return the modules whose weights are quantized, in the order of the file."""
    bases: dict[str, None] = {}
    for name in file:
        if name.endswith("weight_packed"):
            bases[name.removesuffix("weight_packed")] = None
        elif name.endswith("weight_scale"):
            base = name.removesuffix("weight_scale")
            # A float weight with a scale is not compressed.
            if f"{base}weight" in file and file[f"{base}weight"].dtype.name in ("int8", "float8_e4m3"):
                bases[base] = None
    return list(bases)


class _Module:
    """The entries of one module's weight."""

    def __init__(self, file: SafetensorsFile, base: str, ways: list[Weights]) -> None:
        self.file = file
        self.base = base
        self.is_packed = f"{base}weight_packed" in file
        self.codes = file[f"{base}weight_packed" if self.is_packed else f"{base}weight"]
        entries = {part: file[f"{base}weight_{part}"] for part in _COMPANIONS if f"{base}weight_{part}" in file}
        if "scale" not in entries:
            raise FileError(f"the checkpoint has no entry {shown(base + 'weight_scale')}")
        self.scale, self.entries = entries["scale"], entries
        self.shape = self._shape()
        self.parts = [f"{base}weight_packed" if self.is_packed else f"{base}weight"]
        self.parts += [f"{base}weight_{part}" for part in entries]
        self.way = self._choose(ways)

    def _shape(self) -> tuple[int, ...]:
        given = self.entries.get("shape")
        if not self.is_packed:
            return _known(self.codes)
        if given is None:
            # Only 4-bit floats, two in a byte, come without their shape.
            packed = _known(self.codes)
            return (*packed[:-1], 2 * packed[-1]) if packed else packed
        if not given.dtype.is_integer or given.ndim != 1 or not 1 <= (given.size or 0) <= 64:
            raise FileError(f"entry {shown(self.base + 'weight_shape')} holds no shape")
        shape = tuple(int(n) for n in given.to_numpy())
        if any(n < 0 for n in shape) or shape[:-1] != _known(self.codes)[:-1]:
            raise FileError(f"{shown(self.base + 'weight_shape')} is {shape}, but the codes are {self.codes.shape}")
        return shape

    def _choose(self, ways: list[Weights]) -> Weights:
        """Return the one way of storing weights that fits the entries' shapes."""
        fitting = list(dict.fromkeys(way for way in ways if self._fits(way)))
        name = shown(self.base + "weight")
        if not fitting:
            raise FileError(
                f"{name}: no group of the configuration fits codes of shape {self.codes.shape} with scales of shape "
                f"{self.scale.shape}"
            )
        if len({way._replace(format="") for way in fitting}) > 1:
            raise UnsupportedError(f"{name}: its shapes fit several groups of the configuration")
        return fitting[0]

    def _fits(self, way: Weights) -> bool:
        if way.is_float != (self.codes.dtype.name not in ("int8", "int32")) or not self.shape or not self.codes.ndim:
            return False
        if self.is_packed:
            word = self.codes.dtype.bit_width
            if word not in (8, 32) or _known(self.codes)[-1] != -(-self.shape[-1] * way.bits // word):
                return False
        elif way.bits > 8:
            return False
        rows, last, scales = self.shape[:-1], self.shape[-1], _known(self.scale)
        wanted = {
            "tensor": [(), (1,)],
            "channel": [(*rows, 1), rows],
            "group": [(*rows, -(-last // max(1, way.group)))],
            "tensor_group": [(*rows, -(-last // max(1, way.group)))],
            "block": [tuple(-(-n // max(1, b)) for n, b in zip(self.shape, way.block, strict=False))],
        }
        return scales in wanted[way.strategy]

    # What it becomes

    def quantized(self) -> Quantized:
        """Return the weight as a checkpoint takes it."""
        way = self.way
        kind = "float" if way.is_float else "int"
        packing = way.format or ("pack-quantized" if self.is_packed else "naive-quantized")
        source = f"{packing} {kind}{way.bits}, {way.strategy}"
        note = self._obstacle()
        decode: Callable[[], Float32] | None = self.decode
        unknown = self.is_packed and not (self._is_integer_pack() or self._is_mx())
        unknown = unknown or not (self._is_mx() or self.scale.dtype.name in _FLOATS)
        if note and (unknown or "g_idx" in self.entries or way.strategy == "tensor_group"):
            decode = None
        if note:
            return Quantized(f"{self.base}weight", self.parts, source, note=note, decode=decode)
        target = f"{self._dtype()} {self._scheme_name()}"
        return Quantized(f"{self.base}weight", self.parts, source, target, "", self.keep, decode)

    def _is_integer_pack(self) -> bool:
        return not self.way.is_float and self.way.bits in _PACKED_BITS and self.codes.dtype.name == "int32"

    def _is_mx(self) -> bool:
        way = self.way
        is_four = self.is_packed and way.bits == 4 and self.codes.dtype.name == "uint8"
        is_eight = not self.is_packed and way.bits == 8 and self.codes.dtype.name == "float8_e4m3"
        return way.is_float and self.scale.dtype.name == "uint8" and way.strategy == "group" and (is_four or is_eight)

    def _obstacle(self) -> str:
        """Say why the weight cannot be kept, or nothing."""
        way, rank = self.way, len(self.shape)
        if not prod(self.shape):
            return "it is empty"
        if self._is_mx():
            return "" if self.shape[-1] % 32 == 0 and way.group == 32 else "MX blocks have 32 elements"
        if way.is_float:
            what = f"float{way.bits} with scales of {self.scale.dtype.name}"
            return f"{what} ({way.strategy}) has no scheme here"
        if self.is_packed and not self._is_integer_pack():
            return f"{way.bits}-bit codes are packed differently by versions; {_PACKED_BITS} are known"
        if way.strategy == "block":
            return "scales per 2-D block have no scheme here"
        if self.scale.dtype.name not in _FLOATS:
            return f"scales of {self.scale.dtype.name} have no scheme here"
        if "g_idx" in self.entries and not self._is_ordered():
            return "its columns are in activation order: groups are no runs"
        if way.strategy == "group" and way.group % 2:
            return f"groups of {way.group} elements hold no power of two"
        if way.strategy == "channel" and rank != 2 and self.shape[-1] % 2:
            return f"channels of {self.shape[-1]} elements in {rank} dimensions hold no power of two"
        if way.strategy == "group" and self.shape[-1] < 2:
            return "its rows are shorter than any block"
        return ""

    def _is_ordered(self) -> bool:
        index = self.entries["g_idx"].to_numpy().reshape(-1)
        if len(index) != self.shape[-1]:
            return False
        return bool((index == -1).all() or (index == np.arange(len(index)) // max(1, self.way.group)).all())

    def _dtype(self) -> str:
        if self._is_mx():
            return "float4_e2m1" if self.is_packed else "float8_e4m3"
        return f"int{self.way.bits}" if self.is_packed else "int8"

    def _scheme_name(self) -> str:
        if self._is_mx():
            return f"mxfp, block {self.way.group}"
        if self.way.strategy == "tensor":
            return "per_tensor_affine"
        if self._is_per_channel():
            return "per_channel_affine"
        return f"per_block_affine, block {self._block()}"

    def _is_per_channel(self) -> bool:
        return self.way.strategy == "channel" and len(self.shape) == 2

    def _run(self) -> int:
        """Return how many elements of a row share a scale."""
        return self.way.group if self.way.strategy == "group" else max(1, self.shape[-1])

    def _block(self) -> int:
        """Return the largest power of two that divides a group and is no longer than a row."""
        run = self._run()
        block = run & -run
        while block > max(2, self.shape[-1]):
            block //= 2
        return block

    # Data

    def keep(self) -> Tensor:
        """Return the quantized tensor."""
        if self._is_mx():
            scale = self.scale.to_numpy().reshape(-1)
            if ((scale == 0) | (scale == 255)).any():
                raise NotExactError("an exponent is 0x00 or 0xFF, which is no value here")
            buffers = (self._bytes(self.codes), self._bytes(self.scale))
            return form(self._dtype(), self.shape, buffers, MXFP(len(self.shape) - 1, self.way.group, 1))
        zero = self._checked_zero_points()
        scale = np.asarray(self.scale.to_numpy())
        numbers = scale.astype(np.float32)
        if not (np.isfinite(numbers) & (numbers != 0)).all():
            raise NotExactError("a scale is 0 or not finite")
        codes = self._codes()
        if self.way.strategy == "tensor":
            point = 0 if zero is None else int(zero.reshape(-1)[0])
            return form(self._dtype(), self.shape, (codes,), PerTensorAffine(float(numbers.reshape(-1)[0]), point))
        if self._is_per_channel():
            parameters = [as_bytes(numbers)] + ([] if zero is None else [as_bytes(zero)])
            channel = PerChannelAffine(
                axis=0, scale_buffer_index=1, zero_point_buffer_index=None if zero is None else 2
            )
            return form(self._dtype(), self.shape, (codes, *parameters), channel)
        axis = len(self.shape) - 1
        blocks = PerBlockAffine(
            axis=axis,
            block_size=self._block(),
            scale_buffer_index=1,
            zero_point_buffer_index=None if zero is None else 2,
            scale_type=self.scale.dtype,
        )
        parameters = [as_bytes(self._repeated(scale))] + ([] if zero is None else [as_bytes(self._repeated(zero))])
        return form(self._dtype(), self.shape, (codes, *parameters), blocks)

    def _repeated(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give each block the parameter of its group."""
        rows = values.reshape(prod(self.shape[:-1]), -1)
        block, run = self._block(), self._run()
        if block == run:
            return rows
        return rows[:, np.arange(-(-self.shape[-1] // block)) * block // run]

    def _bytes(self, t: Tensor) -> NDArray[np.uint8]:
        return t._buffers[0]

    def _codes(self) -> NDArray[np.uint8]:
        """Return the codes as this format packs them."""
        if not self.is_packed:
            return self._bytes(self.codes)
        bits, last = self.way.bits, self.shape[-1]
        # Adding half the range and flipping the top bit are the same for codes of a whole number of bits.
        flip = np.uint8(sum(1 << at for at in range(bits - 1, 8, bits)))
        words = self._bytes(self.codes)
        if last * bits % 32 == 0:
            return words ^ flip
        rows = self._unpack(words, bits, prod(self.shape[:-1]), last)
        return bit_kernels.pack(rows, bits) if bits < 8 else rows.reshape(-1)

    def _unpack(self, data: NDArray[np.uint8], bits: int, n_rows: int, last: int) -> NDArray[np.uint8]:
        """Return the codes in rows of ``last``, as bit patterns of signed integers."""
        stored = -(-last * bits // 32) * 32 // bits
        codes = bit_kernels.unpack(data, bits, n_rows * stored) if bits < 8 else data
        return np.ascontiguousarray(codes.reshape(n_rows, stored)[:, :last]) ^ np.uint8(1 << (bits - 1))

    def _checked_zero_points(self) -> NDArray[np.int32] | None:
        zero = self._zero_points()
        if zero is None or not zero.any():
            return None
        dtype = BY_NAME[self._dtype()]
        half = 1 << (dtype.bit_width - 1)
        if int(zero.min()) < -half or int(zero.max()) >= half:
            raise NotExactError(f"a zero point is outside {dtype.name}")
        return zero

    def _zero_points(self) -> NDArray[np.int32] | None:
        """Return the zero points in the shape of the scales, or None where there are none."""
        t = self.entries.get("zero_point")
        if t is None:
            if not self.way.symmetric:
                raise FileError(f"the checkpoint has no entry {shown(self.base + 'weight_zero_point')}")
            return None
        shape = _known(self.scale)
        if t.dtype.is_integer and t.shape == shape:
            return t.to_numpy().astype(np.int32)
        bits = self.way.bits
        rows = self.shape[-2] if len(self.shape) > 1 else 1
        packed = (*shape[:-2], -(-rows * bits // 32), *shape[-1:])
        if t.dtype.name != "int32" or t.shape != packed or bits not in _PACKED_BITS or len(shape) < 2:
            raise FileError(
                f"entry {shown(self.base + 'weight_zero_point')} of {t.dtype.name} {t.shape} does not fit scales of "
                f"shape {shape}"
            )
        # They are packed along the rows, which are brought to the end for that.
        words = as_bytes(np.swapaxes(t.to_numpy(), -1, -2))
        codes = self._unpack(words, bits, prod(shape[:-2]) * shape[-1], rows)
        values = bit_kernels.sign_extend(codes, bits) if bits < 8 else codes.view(np.int8)
        across = values.reshape(*shape[:-2], shape[-1], rows)
        return np.ascontiguousarray(np.swapaxes(across, -1, -2)).astype(np.int32)

    def decode(self) -> Float32:
        """Return the values as float32, codes minus zero points times scales."""
        if self._is_mx():
            name = self._dtype()
            data = self._bytes(self.codes)
            codes = bit_kernels.unpack(data, 4, prod(self.shape)) if self.is_packed else data
            values = minifloat.decode(codes.reshape(self.shape), name)
            scale = np.ldexp(np.float32(1), self.scale.to_numpy().astype(np.int32) - 127)
        elif self.way.is_float:
            values = self.codes.to_numpy(dtype=np.float32)
            scale = self.scale.to_numpy(dtype=np.float32)
        else:
            values = self._integers().astype(np.float32)
            scale = self.scale.to_numpy(dtype=np.float32)
        zero = None if self.way.is_float else self._zero_points()
        if zero is not None:
            values = values - self._spread(zero.astype(np.float32))
        return np.ascontiguousarray(values * self._spread(scale.astype(np.float32)), np.float32)

    def _integers(self) -> NDArray[np.int8]:
        if not self.is_packed:
            return np.asarray(self.codes.to_numpy())
        codes = self._unpack(self._bytes(self.codes), self.way.bits, prod(self.shape[:-1]), self.shape[-1])
        values = bit_kernels.sign_extend(codes, self.way.bits) if self.way.bits < 8 else codes.view(np.int8)
        return values.reshape(self.shape)

    def _spread(self, values: Float32) -> Float32:
        """Give each element the parameter of its group, as far as broadcasting does not."""
        way = self.way
        if way.strategy == "tensor":
            return values.reshape(())
        if way.strategy == "channel":
            return values.reshape(*self.shape[:-1], 1)
        if way.strategy == "block":
            rows = np.arange(self.shape[0]) // way.block[0]
            return values[rows][:, np.arange(self.shape[1]) // way.block[1]]
        return values[..., np.arange(self.shape[-1]) // way.group]


def _known(t: Tensor) -> tuple[int, ...]:
    """Return the shape of an entry, which has no dynamic dimension."""
    return tuple(n for n in t.shape if n is not None)
