"""Paged tensors from the arrays of their sequences.

Format: layouts, block_paged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hurray.descriptor.model import Descriptor, handle_for
from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.layouts import BlockPagedLayout
from hurray.tensor.build import asarray
from hurray.tensor.forming import read_only
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import codes_of, payload_of

__all__ = ["paged"]


def paged(
    sequences: Iterable[Any],
    *,
    page_size: int = 16,
    share_prefixes: bool = False,
    dtype: Dtype | None = None,
    kv_role: str = "key",
    layer_index: int | None = None,
    block_table_index_type: str = "uint32",
) -> Tensor:
    """Return a block_paged tensor, as of an attention cache, that holds sequences of tokens.

    Parameters
    ----------
    sequences : iterable of Tensor or array_like, each of shape (tokens, heads, head_dim)
        At least one, of one dtype; any of them may be empty.
    page_size : int
        Tokens of a page.
    share_prefixes : bool
        Store whole pages that sequences have in common from their start on once.
    dtype : Dtype, optional
        Convert the values to this type.
    kv_role : str
        ``key``, ``value`` or ``fused``.
    layer_index : int, optional
        The model layer they belong to.
    block_table_index_type : str
        ``uint32`` or ``uint64``.

    Returns
    -------
    Tensor of shape (all tokens, heads, head_dim)
        It knows its ``sequence_lengths``; files and streams do not carry them, so store them beside the tensor and
        give them back with :meth:`Tensor.with_sequence_lengths`.

    Raises
    ------
    InvalidDescriptorError
        There is no sequence, or they differ in heads, head dimension or dtype; the one at fault is named.
    UnsupportedError
        A sequence is quantized; quantize the paged tensor instead.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> prompt = np.arange(8.0).reshape(4, 1, 2)
    >>> cache = hurray.paged([np.concatenate([prompt, prompt]), prompt], page_size=4, share_prefixes=True)
    >>> cache
    hurray.Tensor(layout='block_paged', shape=(12, 1, 2), sequences=2, pages=2, page_size=4, dtype=float64)
    >>> cache.sequence(1).shape, cache.sequence_lengths
    ((4, 1, 2), (8, 4))

    Format: layouts, block_paged.
    """
    items = [asarray(sequence, dtype=dtype) for sequence in sequences]
    if not items:
        raise InvalidDescriptorError("at least one sequence is needed, which says how many heads there are")
    first = items[0]
    for k, item in enumerate(items):
        if item.quantization is not None:
            raise UnsupportedError(f"sequence {k} is quantized; page real numbers, then quantize the paged tensor")
        if item.ndim != 3:
            raise InvalidDescriptorError(f"sequence {k} has shape {item.shape}, not (tokens, heads, head_dim)")
        if item.dtype is not first.dtype or item.extension_type != first.extension_type:
            raise InvalidDescriptorError(
                f"sequence {k} is of {item.dtype}, but sequence 0 of {first.dtype}; dtype= converts all of them"
            )
    codes = [codes_of(item, payload_of(item))[0] for item in items]
    encoded = BlockPagedLayout.from_sequences(
        codes,
        first.descriptor.element_bits,
        page_size=page_size,
        kv_role=kv_role,
        layer_index=layer_index,
        block_table_index_type=block_table_index_type,
        share_prefixes=share_prefixes,
    )
    lengths = tuple(len(c) for c in codes)
    descriptor = Descriptor(
        dtype=first.dtype,
        shape=(sum(lengths), *codes[0].shape[1:]),
        layout=encoded.layout,
        buffer_handles=tuple(handle_for(len(b)) for b in encoded.buffers),
        extension_type=first.extension_type,
    )
    tensor = Tensor._from_parts(descriptor, [read_only(b) for b in encoded.buffers])
    return tensor._with_trust(permissive=False, checked=True)._with_lengths(lengths)
