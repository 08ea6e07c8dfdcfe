"""Composites: a head that presents its ordered members as one.

Format: composite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.check import check_descriptor
from hurray.descriptor.codec import decode_descriptor, encode_unchecked
from hurray.descriptor.model import Descriptor
from hurray.descriptor.sections import ExtensionType, Shard, Statistics
from hurray.dtypes.table import Dtype
from hurray.errors import CopyRequiredError, InvalidDescriptorError, UnsupportedError
from hurray.layouts._base import Layout
from hurray.layouts._region import full_region
from hurray.layouts.composite import CompositeLayout
from hurray.limits import MAX_COMPOSITE_DEPTH
from hurray.tensor.core import check_parts
from hurray.tensor.forming import as_copy
from hurray.tensor.indexing import select
from hurray.tensor.membership import box_arrays, check_cover, check_member, role_at
from hurray.tensor.merging import Boxes, pick_points, read_block
from hurray.tensor.tensor import Tensor, as_shape
from hurray.tensor.values import as_numpy_dtype, finish

__all__ = ["Composite", "Member"]

Array = NDArray[Any]


class Composite:
    """Several tensors as one: tiles of a whole, a base with corrections, or a loose group.

    A composite is immutable, compares by identity, and holds its members by reference.

    Parameters
    ----------
    composition_rule : str
        ``partition``: the members' boxes tile the head exactly.  ``overlay``: a base that spans the head, then
        corrections.  ``group``: unrelated members; the head's shape and dtype are advice.
    shape : sequence of int
        Shape of the whole.
    dtype : Dtype
        Element type of the whole.  Quantized members decode to it, where it is a float.
    members : sequence of Tensor or Composite
        In order.  In a partition or overlay each has a shard section that says where it lies; in an overlay the first
        is the base, whatever role a member had before.
    combine_op : str, optional
        ``replace`` (the last correction that covers an index rules) or ``add`` (corrections are added to the base), for
        overlays only.
    shard : Shard, optional
        Where this composite lies in an outer one.
    statistics : Statistics, optional
    extension_type : ExtensionType, optional
        Required for private dtypes, and only for them.

    Raises
    ------
    InvalidDescriptorError
        The members do not fit the rule; the offending ones are named.
    ValueError
        An unknown rule or operation.
    TypeError
        A member is neither a Tensor nor a Composite, or the dtype is no Dtype.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    >>> left, right = hurray.shard(whole, (1, 2))
    >>> hurray.Composite("partition", shape=(8, 8), dtype=hurray.float32, members=[left, right])
    hurray.Composite(rule='partition', shape=(8, 8), members=[Tensor, Tensor])

    Format: composite.
    """

    __slots__ = ("__weakref__", "_boxes", "_depth", "_descriptor", "_members")

    _descriptor: Descriptor
    _members: tuple[Member, ...]
    _depth: int
    _boxes: Boxes | None

    # Members are reached through ``members``; iterating over a composite could mean either those or rows of values.
    __iter__ = None

    def __init__(
        self,
        composition_rule: str,
        *,
        shape: Sequence[int],
        dtype: Dtype,
        members: Iterable[Tensor | Composite],
        combine_op: str | None = None,
        shard: Shard | None = None,
        statistics: Statistics | None = None,
        extension_type: ExtensionType | None = None,
    ) -> None:
        if not isinstance(dtype, Dtype):
            raise TypeError(f"dtype is a hurray.Dtype such as hurray.float32, not {type(dtype).__name__}")
        whole = as_shape(shape, dynamic=True)
        if None in whole:
            raise InvalidDescriptorError(f"a composite needs a known extent, but shape[{whole.index(None)}] is dynamic")
        check_parts(statistics, shard, extension_type)
        parts = tuple(members)
        given: tuple[object, ...] = parts
        for k, member in enumerate(given):
            if not isinstance(member, (Tensor, Composite)):
                kind = type(member).__name__
                raise TypeError(f"members[{k}] must be a hurray.Tensor or a hurray.Composite, got {kind}")
        head = Descriptor(
            dtype=dtype,
            shape=whole,
            layout=CompositeLayout(composition_rule, len(parts), combine_op),
            buffer_handles=(),
            shard=shard,
            statistics=statistics,
            extension_type=extension_type,
        )
        check_descriptor(head)
        for k, part in enumerate(parts):
            check_member(head, k, part.descriptor, authored=True)
        check_cover(head, [m.descriptor for m in parts])
        self._fill(head, parts)

    def _fill(self, head: Descriptor, members: tuple[Member, ...]) -> None:
        depth = 1 + max((m._depth for m in members if isinstance(m, Composite)), default=0)
        if depth > MAX_COMPOSITE_DEPTH:
            raise InvalidDescriptorError(f"composites nest {depth} deep; the format allows {MAX_COMPOSITE_DEPTH}")
        for name, value in (("_descriptor", head), ("_members", members), ("_depth", depth), ("_boxes", None)):
            object.__setattr__(self, name, value)

    @classmethod
    def _from_parts(cls, head: Descriptor, members: Sequence[Tensor | Composite]) -> Composite:
        """Form a composite whose members were checked already: the way of all readers."""
        self = object.__new__(cls)
        self._fill(head, tuple(members))
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Composite is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Composite is immutable: cannot delete {name!r}")

    # Inspection

    @property
    def descriptor(self) -> Descriptor:
        """The head's descriptor."""
        return self._descriptor

    @property
    def layout(self) -> Layout:
        """The head's layout, a ``CompositeLayout``."""
        return self._descriptor.layout

    @property
    def composition_rule(self) -> str:
        """``partition``, ``overlay`` or ``group``."""
        return self._descriptor.layout.composition_rule  # type: ignore[attr-defined,no-any-return]

    @property
    def combine_op(self) -> str | None:
        """``replace`` or ``add`` for an overlay, else None."""
        return self._descriptor.layout.combine_op  # type: ignore[attr-defined,no-any-return]

    @property
    def dtype(self) -> Dtype:
        """Element type of the whole."""
        return self._descriptor.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of the whole; a group's may be mere advice."""
        return self._descriptor.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._descriptor.ndim

    @property
    def size(self) -> int | None:
        """Number of elements of the whole; None when a dimension is dynamic, or when 64 bits cannot count them."""
        return self._descriptor.size

    @property
    def shard(self) -> Shard | None:
        """Where the composite lies in an outer one, or None."""
        return self._descriptor.shard

    @property
    def statistics(self) -> Statistics | None:
        """Advisory statistics, or None."""
        return self._descriptor.statistics

    @property
    def extension_type(self) -> ExtensionType | None:
        """What the elements of a private dtype look like, or None."""
        return self._descriptor.extension_type

    @property
    def members(self) -> tuple[Tensor | Composite, ...]:
        """The members, in order."""
        return self._members

    @property
    def member_count(self) -> int:
        """Number of members; a nested composite counts as one."""
        return len(self._members)

    @property
    def member_roles(self) -> tuple[str | None, ...]:
        """``base`` or ``correction`` for each member of an overlay, None for members of the other rules."""
        return tuple(role_at(self.composition_rule, k) for k in range(len(self._members)))

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers of all members together."""
        return sum(member.nbytes for member in self._members)

    # Values

    def to_numpy(self, copy: bool | None = None, *, dtype: Any = None) -> Array:
        """Return the values of the whole as a new dense array.

        Parameters
        ----------
        copy : bool, optional
            False is refused: the members must be put together.
        dtype : numpy.dtype, optional
            Convert to this type; float128 needs one.

        Returns
        -------
        ndarray of ``self.shape``
            In the head's dtype.  An overlay of rule ``add`` is summed in that type, in the order of the members.

        Raises
        ------
        UnsupportedError
            A group, which has no values of its own, or members whose values cannot be read.
        CopyRequiredError
            ``copy=False``.

        Format: composite, partition and overlay.
        """
        self._refuse_group()
        if as_copy(copy) is False:
            raise CopyRequiredError("a composite's members must be put together, which needs a copy")
        if self.dtype.name == "float128" and dtype is None:
            raise UnsupportedError("NumPy has no IEEE binary128; ask for to_numpy(dtype=numpy.float64)")
        values = read_block(self, full_region(self._known_shape()))
        # Widening a signalling NaN raises a flag that means nothing.
        with np.errstate(invalid="ignore"):
            return values if dtype is None else values.astype(as_numpy_dtype(dtype), copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.to_numpy(copy, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        """Read a region with a NumPy-style key; members that it does not meet are not touched.

        Raises
        ------
        IndexError
            As NumPy.
        UnsupportedError
            A group, which has no values of its own.
        """
        self._refuse_group()
        selection = select(key, self._known_shape())
        return finish(selection, lambda region: read_block(self, region), lambda points: pick_points(self, points))

    def _refuse_group(self) -> None:
        if self.composition_rule == "group":
            shown = ", ".join(_summary(m) for m in self._members[:4]) or "none"
            more = f" and {len(self._members) - 4} more" if len(self._members) > 4 else ""
            raise UnsupportedError(
                f"a group has no values of its own; read its members one by one through .members: {shown}{more}"
            )

    def _known_shape(self) -> tuple[int, ...]:
        return self._descriptor.shape  # type: ignore[return-value]  # no dynamic partition or overlay gets this far

    def _member_boxes(self) -> Boxes:
        boxes = self._boxes
        if boxes is None:
            boxes = box_arrays(self._descriptor, [m.descriptor for m in self._members])
            object.__setattr__(self, "_boxes", boxes)
        return boxes

    def validate(self) -> None:
        """Check every invariant of every member's layout and scheme; the head's own rules always hold.

        Raises
        ------
        InvalidDescriptorError
            A rule is broken; rule and place are named.
        """
        for member in self._members:
            member.validate()

    # Identity

    def __repr__(self) -> str:
        kinds = ["Tensor" if isinstance(m, Tensor) else repr(m) for m in self._members]
        return f"hurray.Composite(rule={self.composition_rule!r}, shape={self.shape}, members=[{', '.join(kinds)}])"

    def __copy__(self) -> Composite:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (encode_unchecked(self._descriptor), self._members)


Member: TypeAlias = Tensor | Composite


def _summary(member: Member) -> str:
    kind = "" if isinstance(member, Tensor) else f"{member.composition_rule} composite "
    return f"{kind}{member.dtype} of shape {member.shape}"


def _restore(head: bytes, members: tuple[Member, ...]) -> Composite:
    """Form a composite from its pickle, which is checked like any other input.

    Raises
    ------
    InvalidDescriptorError
        The parts break a rule of the format.
    """
    descriptor = decode_descriptor(head)
    if not descriptor.is_head or descriptor.layout.member_count != len(members):  # type: ignore[attr-defined]
        raise InvalidDescriptorError(f"the pickle has {len(members)} members, but its head is {descriptor!r}")
    for k, member in enumerate(members):
        check_member(descriptor, k, member.descriptor, authored=True)
    check_cover(descriptor, [m.descriptor for m in members])
    return Composite._from_parts(descriptor, members)
