"""The sequences of a block_paged tensor: how long each is, and its values.

The format stores pages, not token counts.  Where the counts do not follow from the pages, a program knows them; a
tensor keeps what it was told in memory, never in its descriptor.

Format: layouts, block_paged.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import NDArray

from hurray.errors import UnsupportedError
from hurray.layouts._base import as_index_tuple
from hurray.tensor.accessors import missing
from hurray.tensor.core import TensorCore
from hurray.tensor.relayout import dequantize_values
from hurray.tensor.values import dense_shape, known_lengths, payload_of, read_region

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["lengths_of", "read_sequence", "with_lengths"]


def lengths_of(t: TensorCore) -> tuple[int, ...] | None:
    """Return the tokens of each sequence, None where they are not known: see ``Tensor.sequence_lengths``."""
    if t.layout.kind != "indirect":
        raise missing(t, "sequence_lengths")
    known = known_lengths(t)
    if known is not None:
        return known
    try:
        return t.layout.sequence_lengths(payload_of(t))  # type: ignore[attr-defined,no-any-return]
    except UnsupportedError:
        return None


def with_lengths(t: TensorCore, lengths: Sequence[int]) -> Tensor:
    """Return the tensor, sharing its buffers, that knows its token counts: see ``Tensor.with_sequence_lengths``."""
    if t.layout.kind != "indirect":
        raise UnsupportedError(f"a {t.layout.name} tensor has no sequences; only block_paged has")
    counts = as_index_tuple(lengths, "sequence_lengths")
    t.layout.validate(payload_of(t, counts))
    return cast("Tensor", t._replace()._with_lengths(counts))


def read_sequence(t: TensorCore, index: int) -> NDArray[Any]:
    """Return the values of one sequence: see ``Tensor.sequence``."""
    if t.layout.kind != "indirect":
        raise UnsupportedError(f"a {t.layout.name} tensor has no sequences; only block_paged has")
    number = operator.index(index)
    lengths = t.layout.sequence_lengths(payload_of(t))  # type: ignore[attr-defined]
    if not -len(lengths) <= number < len(lengths):
        raise IndexError(f"there is no sequence {number}: the tensor has {len(lengths)}")
    number %= len(lengths)
    start = sum(lengths[:number])
    region = (range(start, start + lengths[number]), *(range(n) for n in dense_shape(t)[1:]))
    tensor = cast("Tensor", t)
    if t.quantization is not None:
        return dequantize_values(tensor, region, None)
    return read_region(tensor, region)
