"""Hurray: tensors in any layout, in files, streams and memory.

Where to start::

    files        save, load, open (lazy), Writer (larger than memory), load_kv, verify, convert, open_sharded
    in           asarray, from_numpy, from_scipy, from_torch, from_dlpack ...; zeros, ones, full, arange ...
    out          Tensor.to_numpy, t[slices], Tensor.lookup, to_scipy, to_torch ...
    layouts      Tensor.to_layout("csr" | "tiled" | "hilbert" | ...), sparse_coo, sparse_csr, sparse_csc, paged
    quantized    quantize(x, "nf4" | "mxfp4" | "int8_per_channel" | ...), Tensor.dequantize, RECIPES
    composites   shard, assemble, partition, overlay, group, Composite
    streams      StreamWriter, StreamReader, StreamParser, hurray.aio
    processes    share, attach
    other files  from_safetensors, from_npz, from_gguf, from_matrixmarket, from_frostt ..., to_safetensors ...
    types        float32, int8 ...; all 26 in hurray.dtype
    errors       all are HurrayError: FileError, InvalidDescriptorError, BufferError, UnsupportedError ...

A module is imported when one of its names is first used, so ``import hurray`` itself costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hurray import aio, device, dtype
    from hurray.api import load, load_kv, open, save
    from hurray.container.reader import File
    from hurray.container.sharded import open_sharded
    from hurray.container.verify import verify
    from hurray.container.writer import Writer
    from hurray.conversion import convert
    from hurray.descriptor.model import MIN_BUFFER_ALIGNMENT, PAGE_ALIGNMENT, BufferHandle, Descriptor
    from hurray.descriptor.sections import ExtensionType, Shard, Statistics
    from hurray.devices import Device
    from hurray.dtype import (
        bfloat16,
        bool,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from hurray.dtypes.table import Dtype
    from hurray.errors import (
        BufferError,
        CopyRequiredError,
        FileError,
        HurrayError,
        InternalError,
        InvalidDescriptorError,
        ProtocolError,
        StreamError,
        UnsupportedError,
    )
    from hurray.interop.arrow import from_arrow, to_arrow
    from hurray.interop.bitsandbytes import from_bitsandbytes
    from hurray.interop.compressed_tensors import from_compressed_tensors
    from hurray.interop.frostt import from_frostt, to_frostt
    from hurray.interop.gguf import from_gguf
    from hurray.interop.matrixmarket import from_matrixmarket, to_matrixmarket
    from hurray.interop.npz import from_npy, from_npz, to_npy, to_npz
    from hurray.interop.safetensors import from_safetensors, to_safetensors
    from hurray.interop.safetensors_shards import from_safetensors_shards
    from hurray.interop.scipy import from_scipy, to_scipy
    from hurray.interop.sparse import from_sparse, to_sparse
    from hurray.interop.torch import from_torch, to_torch
    from hurray.layouts import (
        BlockPagedLayout,
        ColMajorLayout,
        CompositeLayout,
        CooLayout,
        CscLayout,
        CsfLayout,
        CsrLayout,
        HilbertLayout,
        Layout,
        MortonLayout,
        PrivateExtensionLayout,
        RowMajorLayout,
        StridedLayout,
        TiledLayout,
        UnknownLayout,
        layout_tag_kind,
    )
    from hurray.limits import Limits
    from hurray.net.shared_memory import SharedHandle, attach, share
    from hurray.quantization import (
        MXFP,
        NF4,
        RECIPES,
        PerBlockAffine,
        PerChannelAffine,
        PerTensorAffine,
        Recipe,
        Scheme,
        decode_quantization,
    )
    from hurray.stream.parser import StreamParser
    from hurray.stream.reader import StreamReader
    from hurray.stream.writer import StreamWriter
    from hurray.tensor.build import asarray, from_dlpack, from_numpy, sparse_coo
    from hurray.tensor.composing import group, overlay, partition
    from hurray.tensor.composite import Composite
    from hurray.tensor.compressed import sparse_csc, sparse_csr
    from hurray.tensor.display import PrintOptionsCtx, get_print_options, print_options, set_print_options
    from hurray.tensor.fill import (
        arange,
        empty,
        empty_like,
        eye,
        full,
        full_like,
        linspace,
        ones,
        ones_like,
        zeros,
        zeros_like,
    )
    from hurray.tensor.memory import AlignedAllocatorCtx, aligned_allocator, buffer_size_bytes
    from hurray.tensor.native import from_hurray, from_hurray_buffer
    from hurray.tensor.paged import paged
    from hurray.tensor.quantize import QuantizationError, quantization_error, quantize
    from hurray.tensor.sharding import assemble, shard
    from hurray.tensor.statistics import compute_statistics
    from hurray.tensor.tensor import Tensor

__version__ = "0.1.0"

#: module -> public names in it
_MODULES: dict[str, tuple[str, ...]] = {
    "hurray.api": ("load", "load_kv", "open", "save"),
    "hurray.container.reader": ("File",),
    "hurray.container.sharded": ("open_sharded",),
    "hurray.container.verify": ("verify",),
    "hurray.container.writer": ("Writer",),
    "hurray.conversion": ("convert",),
    "hurray.descriptor.model": ("MIN_BUFFER_ALIGNMENT", "PAGE_ALIGNMENT", "BufferHandle", "Descriptor"),
    "hurray.descriptor.sections": ("ExtensionType", "Shard", "Statistics"),
    "hurray.devices": ("Device",),
    "hurray.dtype": (
        "bfloat16",
        "bool",
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ),
    "hurray.dtypes.table": ("Dtype",),
    "hurray.errors": (
        "BufferError",
        "CopyRequiredError",
        "FileError",
        "HurrayError",
        "InternalError",
        "InvalidDescriptorError",
        "ProtocolError",
        "StreamError",
        "UnsupportedError",
    ),
    "hurray.interop.arrow": ("from_arrow", "to_arrow"),
    "hurray.interop.bitsandbytes": ("from_bitsandbytes",),
    "hurray.interop.compressed_tensors": ("from_compressed_tensors",),
    "hurray.interop.frostt": ("from_frostt", "to_frostt"),
    "hurray.interop.gguf": ("from_gguf",),
    "hurray.interop.matrixmarket": ("from_matrixmarket", "to_matrixmarket"),
    "hurray.interop.npz": ("from_npy", "from_npz", "to_npy", "to_npz"),
    "hurray.interop.safetensors": ("from_safetensors", "to_safetensors"),
    "hurray.interop.safetensors_shards": ("from_safetensors_shards",),
    "hurray.interop.scipy": ("from_scipy", "to_scipy"),
    "hurray.interop.sparse": ("from_sparse", "to_sparse"),
    "hurray.interop.torch": ("from_torch", "to_torch"),
    "hurray.layouts": (
        "BlockPagedLayout",
        "ColMajorLayout",
        "CompositeLayout",
        "CooLayout",
        "CscLayout",
        "CsfLayout",
        "CsrLayout",
        "HilbertLayout",
        "Layout",
        "MortonLayout",
        "PrivateExtensionLayout",
        "RowMajorLayout",
        "StridedLayout",
        "TiledLayout",
        "UnknownLayout",
        "layout_tag_kind",
    ),
    "hurray.limits": ("Limits",),
    "hurray.net.shared_memory": ("SharedHandle", "attach", "share"),
    "hurray.quantization": (
        "MXFP",
        "NF4",
        "PerBlockAffine",
        "PerChannelAffine",
        "PerTensorAffine",
        "RECIPES",
        "Recipe",
        "Scheme",
        "decode_quantization",
    ),
    "hurray.stream.parser": ("StreamParser",),
    "hurray.stream.reader": ("StreamReader",),
    "hurray.stream.writer": ("StreamWriter",),
    "hurray.tensor.build": ("asarray", "from_dlpack", "from_numpy", "sparse_coo"),
    "hurray.tensor.fill": (
        "arange",
        "empty",
        "empty_like",
        "eye",
        "full",
        "full_like",
        "linspace",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
    ),
    "hurray.tensor.memory": ("AlignedAllocatorCtx", "aligned_allocator", "buffer_size_bytes"),
    "hurray.tensor.composing": ("group", "overlay", "partition"),
    "hurray.tensor.composite": ("Composite",),
    "hurray.tensor.compressed": ("sparse_csc", "sparse_csr"),
    "hurray.tensor.display": ("PrintOptionsCtx", "get_print_options", "print_options", "set_print_options"),
    "hurray.tensor.native": ("from_hurray", "from_hurray_buffer"),
    "hurray.tensor.paged": ("paged",),
    "hurray.tensor.sharding": ("assemble", "shard"),
    "hurray.tensor.quantize": ("QuantizationError", "quantization_error", "quantize"),
    "hurray.tensor.statistics": ("compute_statistics",),
    "hurray.tensor.tensor": ("Tensor",),
}
_NAMES: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names}
#: public submodules
_SUBMODULES = ("aio", "device", "dtype")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"hurray.{name}")
    module = _NAMES.get(name)
    if module is None:
        # With name and obj, Python offers a name close to a mistyped one.
        raise AttributeError(f"module 'hurray' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__"]


__all__ = [
    "MIN_BUFFER_ALIGNMENT",
    "MXFP",
    "NF4",
    "PAGE_ALIGNMENT",
    "RECIPES",
    "AlignedAllocatorCtx",
    "BlockPagedLayout",
    "BufferError",
    "BufferHandle",
    "ColMajorLayout",
    "Composite",
    "CompositeLayout",
    "CooLayout",
    "CopyRequiredError",
    "CscLayout",
    "CsfLayout",
    "CsrLayout",
    "Descriptor",
    "Device",
    "Dtype",
    "ExtensionType",
    "File",
    "FileError",
    "HilbertLayout",
    "HurrayError",
    "InternalError",
    "InvalidDescriptorError",
    "Layout",
    "Limits",
    "MortonLayout",
    "PerBlockAffine",
    "PerChannelAffine",
    "PerTensorAffine",
    "PrintOptionsCtx",
    "PrivateExtensionLayout",
    "ProtocolError",
    "QuantizationError",
    "Recipe",
    "RowMajorLayout",
    "Scheme",
    "Shard",
    "SharedHandle",
    "Statistics",
    "StreamError",
    "StreamParser",
    "StreamReader",
    "StreamWriter",
    "StridedLayout",
    "Tensor",
    "TiledLayout",
    "UnknownLayout",
    "UnsupportedError",
    "Writer",
    "__version__",
    "aio",
    "aligned_allocator",
    "arange",
    "asarray",
    "assemble",
    "attach",
    "bfloat16",
    "bool",
    "buffer_size_bytes",
    "compute_statistics",
    "convert",
    "decode_quantization",
    "device",
    "dtype",
    "empty",
    "empty_like",
    "eye",
    "float16",
    "float32",
    "float64",
    "from_arrow",
    "from_bitsandbytes",
    "from_compressed_tensors",
    "from_dlpack",
    "from_frostt",
    "from_gguf",
    "from_hurray",
    "from_hurray_buffer",
    "from_matrixmarket",
    "from_npy",
    "from_npz",
    "from_numpy",
    "from_safetensors",
    "from_safetensors_shards",
    "from_scipy",
    "from_sparse",
    "from_torch",
    "full",
    "full_like",
    "get_print_options",
    "group",
    "int8",
    "int16",
    "int32",
    "int64",
    "layout_tag_kind",
    "linspace",
    "load",
    "load_kv",
    "ones",
    "ones_like",
    "open",
    "open_sharded",
    "overlay",
    "paged",
    "partition",
    "print_options",
    "quantization_error",
    "quantize",
    "save",
    "set_print_options",
    "shard",
    "share",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "to_arrow",
    "to_frostt",
    "to_matrixmarket",
    "to_npy",
    "to_npz",
    "to_safetensors",
    "to_scipy",
    "to_sparse",
    "to_torch",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "verify",
    "zeros",
    "zeros_like",
]
