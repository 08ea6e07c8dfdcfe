"""The parameters of a quantized tensor as tensors of their own.

Format: quantization, limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hurray.descriptor.model import Descriptor, handle_for
from hurray.dtypes.table import BY_NAME
from hurray.errors import UnsupportedError
from hurray.layouts.row_major import RowMajorLayout
from hurray.quantization._base import Scheme
from hurray.tensor.values import dense_shape

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["scales", "zero_points"]


def scales(t: Tensor) -> Tensor:
    """Return the scales of a quantized tensor: see ``Tensor.scales``."""
    scheme = t.quantization
    if not isinstance(scheme, Scheme):
        raise UnsupportedError("the tensor is not quantized by a scheme that this library knows")
    index = getattr(scheme, "scale_buffer_index", None)
    if index is None:
        return _scalar(t, np.float32(scheme.scale), "float32")  # type: ignore[attr-defined]
    kind = "float8_e8m0" if scheme.name == "mxfp" else getattr(scheme, "scale_type", BY_NAME["float32"])
    dtype = BY_NAME[kind] if isinstance(kind, str) else kind
    return _parameters(t, scheme, index, dtype, 0)


def zero_points(t: Tensor) -> Tensor | None:
    """Return the zero points of a quantized tensor, or None: see ``Tensor.zero_points``."""
    scheme = t.quantization
    if not isinstance(scheme, Scheme):
        raise UnsupportedError("the tensor is not quantized by a scheme that this library knows")
    if scheme.name == "per_tensor_affine":
        return _scalar(t, np.int32(scheme.zero_point), "int32")  # type: ignore[attr-defined]
    index = getattr(scheme, "zero_point_buffer_index", None)
    if index is None:
        return None
    shared = index == scheme.scale_buffer_index  # type: ignore[attr-defined]
    offset = scales(t).nbytes if shared else 0
    return _parameters(t, scheme, index, BY_NAME["int32"], offset)


def _parameters(t: Tensor, scheme: Any, index: int, dtype: Any, offset: int) -> Tensor:
    data = t._buffers[index]
    n = len(data) - offset
    if offset == 0 and index == getattr(scheme, "zero_point_buffer_index", None) == scheme.scale_buffer_index:
        # One buffer holds scales, then int32 zero points, as many of each.
        width = dtype.bit_width // 8
        n = len(data) // (width + 4) * width
    part = data[offset : offset + n]
    count = n * 8 // dtype.bit_width
    shape = _parameter_shape(t, scheme, count)
    descriptor = Descriptor(dtype=dtype, shape=shape, layout=RowMajorLayout(), buffer_handles=(handle_for(n),))
    return type(t)._from_parts(descriptor, (part,))


def _parameter_shape(t: Tensor, scheme: Any, count: int) -> tuple[int, ...]:
    """Return (other dimensions..., blocks along the axis) for block schemes on dense shapes, else one dimension."""
    block = getattr(scheme, "block_size", None)
    if block is None or t.layout.kind == "indirect" or None in t.shape:
        return (count,)
    shape = dense_shape(t)
    others = [n for k, n in enumerate(shape) if k != scheme.axis]
    return (*others, -(-shape[scheme.axis] // block))


def _scalar(t: Tensor, value: Any, dtype: str) -> Tensor:
    data = np.asarray(value).reshape(1).view(np.uint8)
    descriptor = Descriptor(
        dtype=BY_NAME[dtype], shape=(), layout=RowMajorLayout(), buffer_handles=(handle_for(len(data)),)
    )
    return type(t)._from_parts(descriptor, (data,))
