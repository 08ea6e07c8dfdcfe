"""CSF: a tree of coordinates, one level for each dimension in the order that ``mode_order`` says.

Format: layouts, csf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from hurray.errors import InvalidDescriptorError
from hurray.kernels import fibers, pointers
from hurray.layouts._base import BufferSpec, Codes, Encoded, Payload, Shape, as_index_tuple, as_int, set_field
from hurray.layouts._region import Region
from hurray.layouts._sparse import I64, U64, Build, SparseLayout
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["CsfLayout"]

_U32_MAX = 2**32 - 1


@record
class CsfLayout(SparseLayout):
    """Compressed sparse fibers: coordinates that share a prefix store it once.

    Parameters
    ----------
    nnz : int
        Number of stored elements.
    mode_order : sequence of int
        The dimension that each level stores, root first; a permutation of the dimensions.

    Examples
    --------
    >>> CsfLayout(4, [0, 1, 2])
    CsfLayout(nnz=4, mode_order=(0, 1, 2))

    Format: layouts, csf.
    """

    nnz: int
    mode_order: tuple[int, ...]

    tag = 0x09
    name = "csf"
    min_rank = 3

    def __init__(self, nnz: int, mode_order: Sequence[int]) -> None:
        set_field(self, "nnz", as_int(nnz, "nnz"))
        set_field(self, "mode_order", as_index_tuple(mode_order, "mode_order", high=_U32_MAX))
        fault = _permutation_fault(self.mode_order)
        if fault >= 0:
            raise InvalidDescriptorError(_no_permutation(self.mode_order, fault))

    @property
    def buffer_count(self) -> int:
        return 2 * len(self.mode_order) + 1

    @property
    def is_lexicographic(self) -> bool:
        return self.mode_order == tuple(range(len(self.mode_order)))

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        nnz = r.u64("nnz")
        at = r.offset
        mode_order = r.u32s(len(shape), "mode_order")
        fault = _permutation_fault(mode_order)
        if fault >= 0:
            r.fail(_no_permutation(mode_order, fault), field=f"mode_order[{fault}]", offset=at + 4 * fault)
        r.reserved(8)
        return cls(nnz, mode_order)

    def write_fields(self, w: Writer) -> None:
        w.u64(self.nnz)
        w.u32s(self.mode_order)
        w.zeros(8)

    def validate_against_shape(self, shape: Shape) -> None:
        SparseLayout.validate_against_shape(self, shape)
        if len(self.mode_order) != len(shape):
            raise InvalidDescriptorError(
                f"layout 'csf' has a mode_order of {len(self.mode_order)}, but the shape has rank {len(shape)}"
            )

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        # The node counts are in the pos buffers; from the fields alone a non-empty tree has one node on each level.
        roles = [("pos_0", 2)]
        for level in range(len(self.mode_order)):
            if level:
                roles.append((f"pos_{level}", 2 if self.nnz else 1))
            leaves = level == len(self.mode_order) - 1
            roles.append((f"crd_{level}", self.nnz if leaves else min(self.nnz, 1)))
        return self._sized(roles, bits, byte_offset)

    def tree(self, payload: Payload) -> fibers.Tree:
        """Return views of all pos and crd arrays, cut to the lengths that the pos chain gives.

        Raises
        ------
        BufferError
            A buffer is shorter than that.
        InvalidDescriptorError
            There are more stored elements than elements.
        """
        self._check_count(payload.shape)
        pos: list[U64] = []
        crd: list[U64] = []
        n_nodes = 1
        for level in range(len(self.mode_order)):
            pos.append(payload.index(2 * level + 1, n_nodes + 1))
            leaves = level == len(self.mode_order) - 1
            n_nodes = self.nnz if leaves else int(pos[-1][-1])
            crd.append(payload.index(2 * level + 2, n_nodes))
        return fibers.Tree(tuple(pos), tuple(crd))

    def level(self, payload: Payload, level: int) -> tuple[U64, U64]:
        """Return views of pos and crd of one level, uint64."""
        tree = self.tree(payload)
        return tree.pos[level], tree.crd[level]

    def validate(self, payload: Payload) -> None:
        self._check_count(payload.shape)
        self._check_values(payload)
        tree = self.tree(payload)
        if self.nnz == 0 and tree.pos[0][1] != 0:
            raise InvalidDescriptorError(f"csf pos_0[1] is {tree.pos[0][1]}, but a tree with nnz = 0 has no nodes")
        fault = fibers.check(tree, [payload.shape[mode] for mode in self.mode_order], self.nnz)
        if fault is not None:
            raise InvalidDescriptorError(_fault(tree, fault, payload.shape[self.mode_order[fault.level]]))

    def stored(self, payload: Payload) -> tuple[I64, Codes]:
        coords = fibers.expand(self._sane_tree(payload), self.mode_order)
        return coords.view(np.int64), self.values(payload)

    def stored_in(self, payload: Payload, region: Region) -> tuple[I64, I64]:
        try:
            positions, places = fibers.select(self.tree(payload), [region[mode] for mode in self.mode_order])
        except ValueError as error:
            raise InvalidDescriptorError(f"csf pos: {error}") from None
        coords = np.empty((len(positions), len(region)), np.int64, order="F")
        for mode, column in zip(self.mode_order, places, strict=True):
            coords[:, mode] = column
        return positions, coords

    def lookup(self, payload: Payload, coords: I64) -> I64:
        return fibers.find(self.tree(payload), coords.view(np.uint64), self.mode_order)

    def transpose(self, payload: Payload, axes: tuple[int, ...]) -> Encoded | None:
        return Encoded(CsfLayout(self.nnz, [axes.index(mode) for mode in self.mode_order]), payload.buffers)

    def encode_options(self) -> dict[str, Any]:
        return {"mode_order": self.mode_order}

    @classmethod
    def _build(
        cls, coords: U64, shape: tuple[int, ...], options: dict[str, Any], *, ready: bool = False, inside: bool = False
    ) -> Build:
        wanted = options.pop("mode_order", None)
        layout = cls(len(coords), range(len(shape)) if wanted is None else wanted)
        layout.validate_against_shape(shape)
        order, repeat = None, -1
        tree = fibers.build_in_order(coords, shape, layout.mode_order)
        if tree is None:
            if not (ready or inside):
                cls._check_bounds(coords, shape)
            tree, order, repeat = fibers.build_coords(coords, shape, layout.mode_order)
        levels = [array for pair in zip(tree.pos, tree.crd, strict=True) for array in pair]
        return Build(layout, tuple(levels), order, repeat)

    def _sane_tree(self, payload: Payload) -> fibers.Tree:
        tree = self.tree(payload)
        pos = [pointers.sane(pos, len(crd)) for pos, crd in zip(tree.pos, tree.crd, strict=True)]
        if any(len(starts) == 1 and len(crd) for starts, crd in zip(pos, tree.crd, strict=True)):
            raise InvalidDescriptorError("csf pos: a level has nodes, but the level above it has none")
        return fibers.Tree(tuple(pos), tree.crd)

    def _offset_blocks(self, payload: Payload) -> Iterator[tuple[slice, I64]] | None:
        tree = self._sane_tree(payload)
        for crd, mode in zip(tree.crd, self.mode_order, strict=True):
            if pointers.first_index_out_of_bounds(crd, payload.shape[mode]) >= 0:
                return None
        strides = [1] * len(payload.shape)
        for mode in range(len(payload.shape) - 2, -1, -1):
            strides[mode] = strides[mode + 1] * payload.shape[mode + 1]
        return fibers.offset_blocks(tree, [strides[mode] for mode in self.mode_order])


def _permutation_fault(mode_order: Sequence[int]) -> int:
    """Return the first level whose dimension does not exist or is stored already, or -1."""
    seen: set[int] = set()
    for level, mode in enumerate(mode_order):
        if mode >= len(mode_order) or mode in seen:
            return level
        seen.add(mode)
    return -1


def _no_permutation(mode_order: Sequence[int], level: int) -> str:
    last = len(mode_order) - 1
    return f"mode_order {mode_order} is not a permutation of 0..{last}: mode_order[{level}] is {mode_order[level]}"


def _fault(tree: fibers.Tree, fault: fibers.Fault, extent: int) -> str:
    level, at = fault.level, fault.position
    if fault.code in (fibers.CRD_BOUNDS, fibers.CRD_ORDER):
        crd = tree.crd[level]
        if fault.code == fibers.CRD_BOUNDS:
            return f"csf crd_{level}[{at}] is {crd[at]}, outside a dimension of size {extent}"
        return f"csf crd_{level}[{at}] is {crd[at]}, not above {crd[at - 1]} before it under the same parent"
    pos = tree.pos[level]
    if fault.code == fibers.PTR_START:
        return f"csf pos_{level}[0] is {pos[0]}, but every pos starts at 0"
    if fault.code == fibers.PTR_DECREASES:
        return f"csf pos_{level}[{at}] is {pos[at]}, below {pos[at - 1]} before it"
    return f"csf pos_{level}[{at}] is {pos[at]}, but level {level} has {len(tree.crd[level])} nodes"
