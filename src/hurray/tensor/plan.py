"""What writers write: descriptor bytes and buffers, computed before a byte moves.

File, stream and network share the plan, so equal tensors give equal bytes everywhere.

Format: descriptor, buffer handle; composite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.codec import encode_descriptor
from hurray.layouts.row_major import RowMajorLayout
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["Plan", "plan_item", "plan_tensor"]


class Plan(NamedTuple):
    """One tensor as it is written: the descriptor's bytes, and every buffer (1-D uint8) in table order."""

    descriptor: bytes
    buffers: tuple[NDArray[np.uint8], ...]

    @property
    def n_bytes(self) -> int:
        """Bytes of the descriptor and the buffers together."""
        return len(self.descriptor) + sum(len(b) for b in self.buffers)


def plan_tensor(t: Tensor, *, member_role: str | None = None) -> Plan:
    """Return the writers' form of a tensor.

    The handles of a tensor that was read are kept, so that relaying gives the same bytes; tensors made here have the
    standard alignments already.  A view into a foreign array with holes is compacted to row-major order, so that
    nothing but its own elements leaves the process.

    Parameters
    ----------
    t : Tensor
        The tensor.
    member_role : str or None
        ``base`` or ``correction`` for a member of an overlay.  Any other tensor is written without a role, also one
        that was taken out of an overlay.

    Raises
    ------
    InvalidDescriptorError
        The tensor has more or fewer buffers than its layout and scheme take, or a layout that may not be written.

    Format: descriptor; composite.
    """
    if t._borrowed:
        t = t.to_layout(RowMajorLayout())
    t.layout.check_writable()
    descriptor = t.descriptor
    if descriptor.member_role != member_role:
        descriptor = descriptor.with_changes(member_role=member_role)
    return Plan(encode_descriptor(descriptor), t._buffers)


def plan_item(name: str, item: Tensor | Composite) -> Iterator[tuple[str, Plan]]:
    """Yield the plans of a tensor or a composite, heads before their members, members named ``<head>.<k>``.

    Raises
    ------
    TypeError
        ``item`` is neither a Tensor nor a Composite.
    """
    yield from _plan(name, item, None)


def _plan(name: str, item: Tensor | Composite, role: str | None) -> Iterator[tuple[str, Plan]]:
    if isinstance(item, Tensor):
        yield name, plan_tensor(item, member_role=role)
        return
    if not isinstance(item, Composite):
        raise TypeError(f"expected a hurray.Tensor or a hurray.Composite, got {type(item).__name__}")
    yield name, Plan(encode_descriptor(item.descriptor), ())
    # At most 8 heads are nested, which is what bounds this recursion.
    for k, (member, member_role) in enumerate(zip(item.members, item.member_roles, strict=True)):
        yield from _plan(f"{name}.{k}", member, member_role)
