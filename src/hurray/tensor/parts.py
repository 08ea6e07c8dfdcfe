"""The parts of a tensor that depend on its layout: component tensors and sequences.

Format: layouts, buffers of each layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hurray.layouts._base import as_int
from hurray.tensor import sequences
from hurray.tensor.accessors import component, has_part, level_component, missing
from hurray.tensor.core import TensorCore
from hurray.tensor.values import payload_of

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["TensorParts"]


class TensorParts(TensorCore):
    """What tensors of some layouts have; on the others these names raise AttributeError, so ``hasattr`` tells."""

    __slots__ = ()

    @property
    def nnz(self) -> int:
        """Number of stored elements (coo, csr, csc, csf)."""
        if not self.layout.is_sparse:
            raise missing(self, "nnz")
        return self.layout.nnz  # type: ignore[attr-defined,no-any-return]

    @property
    def values(self) -> Tensor:
        """Stored values in storage order, shape (nnz,) (sparse layouts)."""
        return component(self, "values")

    @property
    def indices(self) -> Tensor:
        """Stored coordinates, uint64 of shape (nnz, rank) (coo)."""
        return component(self, "indices")

    @property
    def col_indices(self) -> Tensor:
        """Column of each stored element, uint64 of shape (nnz,) (csr)."""
        return component(self, "col_indices")

    @property
    def row_ptr(self) -> Tensor:
        """Where each row starts, uint64 of shape (rows + 1,) (csr)."""
        return component(self, "row_ptr")

    @property
    def row_indices(self) -> Tensor:
        """Row of each stored element, uint64 of shape (nnz,) (csc)."""
        return component(self, "row_indices")

    @property
    def col_ptr(self) -> Tensor:
        """Where each column starts, uint64 of shape (columns + 1,) (csc)."""
        return component(self, "col_ptr")

    @property
    def page_pool(self) -> Tensor:
        """All pages, shape (pages, page_size, heads, head_dim) (block_paged)."""
        return component(self, "page_pool")

    @property
    def block_table(self) -> Tensor:
        """Page ids of all sequences back to back (block_paged)."""
        return component(self, "block_table")

    @property
    def seq_ptr(self) -> Tensor:
        """Where each sequence starts in the block table (block_paged)."""
        return component(self, "seq_ptr")

    @property
    def sequence_lengths(self) -> tuple[int, ...] | None:
        """Tokens of each sequence; None where neither pages nor program say (block_paged).

        Pages are stored, token counts are not: they follow where all pages are full, or only one sequence can vary.
        :func:`hurray.paged`, ``to_layout`` and :meth:`with_sequence_lengths` make tensors that know them anyway.
        """
        return sequences.lengths_of(self)

    def sequence(self, index: int) -> NDArray[Any]:
        """Return the values of one sequence of a block_paged tensor, gathered from its pages.

        Returns
        -------
        ndarray, shape (tokens, heads, head_dim)
            Of a quantized tensor the real numbers, float32.

        Raises
        ------
        IndexError
            There is no such sequence; negative numbers count from the end.
        UnsupportedError
            The sequence lengths are not known, or the layout is another one.
        """
        return sequences.read_sequence(self, index)

    def with_sequence_lengths(self, lengths: Sequence[int]) -> Tensor:
        """Return a block_paged tensor, sharing memory, that knows how many tokens each sequence has.

        They live in memory (and pickles) only; files and streams do not carry them.

        Raises
        ------
        InvalidDescriptorError
            They do not sum to ``shape[0]``, or do not fit the pages.
        """
        return sequences.with_lengths(self, lengths)

    @property
    def mode_order(self) -> tuple[int, ...]:
        """Dimension stored at each level (csf)."""
        if self.layout.name != "csf":
            raise missing(self, "mode_order")
        return self.layout.mode_order  # type: ignore[attr-defined,no-any-return]

    def __getattr__(self, name: str) -> Any:
        # ``pos`` and ``crd`` exist on csf tensors only, so that hasattr tells the truth.
        if name in ("pos", "crd") and _is_formed(self) and self.layout.name == "csf":
            return lambda level: level_component(self, name, *_csf_level(self, name, level))
        if name.startswith("_") or not _is_formed(self):
            raise AttributeError(f"'Tensor' object has no attribute {name!r}", name=name, obj=self)
        raise missing(self, name)

    def __dir__(self) -> list[str]:
        extra = ("pos", "crd") if self.layout.name == "csf" else ()
        return [name for name in (*object.__dir__(self), *extra) if has_part(self, name)]


def _is_formed(t: TensorCore) -> bool:
    """Tell whether a tensor has its parts: copying and unpickling ask for attributes before it has."""
    try:
        object.__getattribute__(t, "_descriptor")
    except AttributeError:
        return False
    return True


def _csf_level(t: TensorCore, name: str, level: Any) -> tuple[int, int]:
    index = as_int(level, "level", low=-(2**31), high=2**31)
    if not 0 <= index < t.ndim:
        raise IndexError(f"level {index} is out of range: the tensor has {t.ndim} levels")
    pos, crd = t.layout.level(payload_of(t), index)  # type: ignore[attr-defined]
    return index, len(pos if name == "pos" else crd)
