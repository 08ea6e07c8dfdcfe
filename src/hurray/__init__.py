"""Hurray: tensors in any layout, in files, streams and memory.

The public names are listed in ``_NAMES`` with the module that holds them; a module is imported when one of its names is
first used, so that ``import hurray`` costs little more than ``import numpy``.
"""

from __future__ import annotations

import importlib
from typing import Any

from hurray import device, dtype
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
from hurray.quantization import (
    MXFP,
    NF4,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    Scheme,
    decode_quantization,
)
from hurray.tensor.build import (
    aligned_allocator,
    arange,
    asarray,
    buffer_size_bytes,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    sparse_coo,
    zeros,
    zeros_like,
)
from hurray.tensor.capsule import from_hurray
from hurray.tensor.display import get_print_options, print_options, set_print_options
from hurray.tensor.foreign import register as _register
from hurray.tensor.tensor import Tensor

__version__ = "0.1.0"

from_hurray_buffer = from_hurray

#: names that are imported when they are first used: public name -> module
_NAMES: dict[str, str] = {
    "Composite": "hurray.tensor.composite",
    "File": "hurray.container.reader",
    "StreamReader": "hurray.stream.reader",
    "StreamWriter": "hurray.stream.writer",
    "Writer": "hurray.container.writer",
    "from_torch": "hurray.interop.torch",
    "to_torch": "hurray.interop.torch",
    "from_scipy": "hurray.interop.scipy",
    "to_scipy": "hurray.interop.scipy",
    "load": "hurray.api",
    "load_kv": "hurray.api",
    "open": "hurray.api",
    "save": "hurray.api",
    "verify": "hurray.api",
}

#: converters that Tensor methods and asarray reach
_CONVERTERS = ("to_torch", "to_scipy", "from_scipy")


def __getattr__(name: str) -> Any:
    module = _NAMES.get(name)
    if module is None:
        raise AttributeError(f"module 'hurray' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})


for _name in _CONVERTERS:
    _register(_name, lambda name=_name: __getattr__(name))  # type: ignore[misc]
del _name

__all__ = [
    "MIN_BUFFER_ALIGNMENT",
    "MXFP",
    "NF4",
    "PAGE_ALIGNMENT",
    "BlockPagedLayout",
    "BufferError",
    "BufferHandle",
    "ColMajorLayout",
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
    "PrivateExtensionLayout",
    "ProtocolError",
    "RowMajorLayout",
    "Scheme",
    "Shard",
    "Statistics",
    "StreamError",
    "StridedLayout",
    "Tensor",
    "TiledLayout",
    "UnknownLayout",
    "UnsupportedError",
    "__version__",
    "aligned_allocator",
    "arange",
    "asarray",
    "bfloat16",
    "bool",
    "buffer_size_bytes",
    "decode_quantization",
    "device",
    "dtype",
    "empty",
    "empty_like",
    "eye",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_hurray",
    "from_hurray_buffer",
    "from_numpy",
    "full",
    "full_like",
    "get_print_options",
    "int8",
    "int16",
    "int32",
    "int64",
    "layout_tag_kind",
    "linspace",
    "ones",
    "ones_like",
    "print_options",
    "set_print_options",
    "sparse_coo",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
    "zeros_like",
    *_NAMES,
]
