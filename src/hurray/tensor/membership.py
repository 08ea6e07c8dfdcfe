"""The rules of composition: which members a head may have, and whether they close it.

They look at descriptors only, so that the constructor, the file and the stream share them.

Format: composite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.model import Descriptor
from hurray.errors import InvalidDescriptorError
from hurray.kernels.boxes import cover_fault

__all__ = ["box_arrays", "check_cover", "check_member", "role_at"]

U64 = NDArray[np.uint64]


def role_at(rule: str, k: int) -> str | None:
    """Return the role of member ``k``: ``base`` or ``correction`` in an overlay, None elsewhere."""
    if rule != "overlay":
        return None
    return "correction" if k else "base"


def check_member(head: Descriptor, k: int, member: Descriptor, *, authored: bool = False) -> None:
    """Check that ``member`` may be member ``k`` of ``head``.

    Parameters
    ----------
    authored : bool
        The member comes from a program, where its place gives its role, and not from bytes, where a section does.

    Raises
    ------
    InvalidDescriptorError
        A rule is broken; the member is named.
    """
    rule: str = head.layout.composition_rule  # type: ignore[attr-defined]
    if not authored and member.member_role != role_at(rule, k) and not (member.is_head and rule == "overlay"):
        wanted = role_at(rule, k)
        raise _fault(
            head,
            k,
            (
                "a member of this rule carries no composite member section"
                if wanted is None
                else f"it needs a composite member section with role {wanted!r}, but has "
                f"{'none' if member.member_role is None else repr(member.member_role)}; the base comes first and alone"
            ),
        )
    _CHECKS[rule](head, k, member)


def _check_part(head: Descriptor, k: int, member: Descriptor) -> None:
    if member.shard is None:
        raise _fault(head, k, "it has no shard section, which says where it lies; with_shard() gives it one")
    if member.shard.parent_shape != head.shape:
        parent = member.shard.parent_shape
        raise _fault(head, k, f"its shard's parent_shape {parent} is not the head's shape {head.shape}")
    if member.quantization is not None:
        if not head.dtype.is_float or head.dtype.is_complex:
            raise _fault(head, k, f"it is quantized and decodes to a float, but the head's dtype is {head.dtype}")
    elif member.dtype is not head.dtype or member.extension_type != head.extension_type:
        raise _fault(head, k, f"its decoded type {member.dtype} is not the head's dtype {head.dtype}")


def _check_layer(head: Descriptor, k: int, member: Descriptor) -> None:
    if member.is_head:
        raise _fault(head, k, "it is a composite, which cannot carry the composite member section that it needs here")
    _check_part(head, k, member)
    assert member.shard is not None
    if k == 0 and (member.shape != head.shape or any(member.shard.shard_offset)):
        at = member.shard.shard_offset
        raise _fault(head, k, f"the base spans the whole head of shape {head.shape}, not shape {member.shape} at {at}")


def _check_loose(head: Descriptor, k: int, member: Descriptor) -> None:
    """Members of a group are unrelated: nothing to check."""


_CHECKS: dict[str, Callable[[Descriptor, int, Descriptor], None]] = {
    "partition": _check_part,
    "overlay": _check_layer,
    "group": _check_loose,
}


def _fault(head: Descriptor, k: int, message: str) -> InvalidDescriptorError:
    return InvalidDescriptorError(f"{head.layout.composition_rule} composite, member {k}: {message}")  # type: ignore[attr-defined]


def box_arrays(head: Descriptor, members: Sequence[Descriptor]) -> tuple[U64, U64]:
    """Return the members' offsets and sizes, uint64 of shape (n, rank)."""
    # The number of rank-0 boxes does not show in their data, so the shape is given, not inferred.
    shape = (len(members), len(head.shape))
    offsets = np.array([m.shard.shard_offset for m in members if m.shard is not None], np.uint64)
    return offsets.reshape(shape), np.array([m.shape for m in members], np.uint64).reshape(shape)


def check_cover(head: Descriptor, members: Sequence[Descriptor]) -> None:
    """Check what only all members together show: the boxes of a partition tile the head exactly.

    Raises
    ------
    InvalidDescriptorError
        Members overlap, which are named, or an index is left uncovered.
    """
    if head.layout.composition_rule != "partition":  # type: ignore[attr-defined]
        return
    if None in head.shape:
        raise InvalidDescriptorError(f"partition composite: the head's shape {head.shape} has a dynamic dimension")
    fault = cover_fault(*box_arrays(head, members), head.shape)  # type: ignore[arg-type]
    if fault is None:
        return
    where = "" if fault.place is None else f" at index {fault.place}"
    if fault.kind == "overlap":
        first, second = fault.boxes
        raise InvalidDescriptorError(f"partition composite: member {first} and member {second} overlap{where}")
    raise InvalidDescriptorError(
        f"partition composite: the members do not cover the head of shape {head.shape}: there is a gap{where}"
    )
