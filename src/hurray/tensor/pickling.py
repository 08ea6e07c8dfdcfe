"""Pickles of tensors.

A pickle holds the descriptor's bytes and every buffer.  From protocol 5 on the buffers are ``PickleBuffer`` objects:
with ``buffer_callback`` they leave the pickle as they are, and ``pickle.loads(..., buffers=...)`` takes whatever comes
back, both without a copy.  Loading checks a pickle like any other input.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hurray.descriptor.codec import decode_descriptor, encode_descriptor
from hurray.errors import BufferError, InvalidDescriptorError
from hurray.layouts._base import as_int
from hurray.tensor.forming import as_bytes_view
from hurray.tensor.values import known_lengths

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["reduce_tensor"]


def reduce_tensor(tensor: Tensor, protocol: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what ``Tensor.__reduce_ex__`` returns.

    A view into a larger array is compacted first, so that nothing but its own elements leaves the process.

    Raises
    ------
    InvalidDescriptorError
        The tensor has more buffers than its layout and scheme take, which no descriptor can tell.
    """
    source = tensor.to_layout("row_major") if tensor._borrowed else tensor
    buffers: tuple[Any, ...]
    if protocol >= 5:
        buffers = tuple(pickle.PickleBuffer(b) for b in source._buffers)  # type: ignore[arg-type]
    else:
        buffers = tuple(b.tobytes() for b in source._buffers)
    descriptor = encode_descriptor(source.descriptor)
    lengths = known_lengths(tensor)
    return _restore, (type(tensor), descriptor, buffers, source._device_id, source._permissive, lengths)


def _restore(
    cls: type[Tensor],
    descriptor: bytes,
    buffers: tuple[Any, ...],
    device_id: int,
    permissive: bool,
    lengths: tuple[int, ...] | None = None,
) -> Tensor:
    """Form a tensor from its pickle.

    Raises
    ------
    InvalidDescriptorError
        The descriptor breaks a rule of the format, or there are more or fewer buffers than it announces.
    BufferError
        A buffer has another size than the descriptor announces, or than shape, layout and scheme need.
    """
    decoded = decode_descriptor(descriptor, permissive=bool(permissive))
    ordinal = as_int(device_id, "device_id", high=2**31 - 1)
    if len(buffers) != len(decoded.buffer_handles):
        raise InvalidDescriptorError(
            f"the pickle has {len(buffers)} buffers, but its descriptor announces {len(decoded.buffer_handles)}"
        )
    views = [as_bytes_view(b, f"buffer {k}") for k, b in enumerate(buffers)]
    for k, (view, handle) in enumerate(zip(views, decoded.buffer_handles, strict=True)):
        if len(view) != handle.byte_size:
            raise BufferError(f"buffer {k} has {len(view)} bytes, but the descriptor announces {handle.byte_size}")
    tensor = cls._from_parts(decoded, views, permissive=bool(permissive), device_id=ordinal)
    return tensor if lengths is None else tensor.with_sequence_lengths(lengths)
