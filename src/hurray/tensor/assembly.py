"""Putting composites together again from tensors in pre-order.

A stack of open heads takes each tensor as it comes; when the last member of the innermost head is there, the head is
closed and becomes a member itself.  Nothing is sized by a member count, and nothing recurses.

Format: composite.
"""

from __future__ import annotations

from hurray.descriptor.model import Descriptor
from hurray.errors import HurrayError, InvalidDescriptorError
from hurray.limits import DEFAULT_LIMITS, MAX_COMPOSITE_DEPTH, Limits
from hurray.tensor.composite import Composite
from hurray.tensor.membership import check_cover, check_member
from hurray.tensor.tensor import Tensor

__all__ = ["Assembler", "Finished"]

#: a top-level item and its name (None in a stream)
Finished = tuple["str | None", "Tensor | Composite"]


class _Frame:
    """One open head: what it announced and what has come."""

    __slots__ = ("count", "head", "members", "name", "seen")

    def __init__(self, head: Descriptor, name: str | None) -> None:
        self.head = head
        self.name = name
        self.count: int = head.layout.member_count  # type: ignore[attr-defined]
        self.seen = 0
        self.members: list[Finished] = []


class Assembler:
    """Fold heads and their members, given in pre-order, into composites.

    Parameters
    ----------
    limits : Limits
        ``max_composite_depth`` bounds the heads on one path; the format's own bound of 8 always holds.
    permissive : bool
        When members break a rule of their head, are missing, or stand under a private rule, hand them over as
        independent tensors instead of refusing the whole.

    Format: composite.
    """

    __slots__ = ("_broken", "_max_depth", "_permissive", "_stack")

    def __init__(self, limits: Limits = DEFAULT_LIMITS, permissive: bool = False) -> None:
        self._max_depth = min(limits.max_composite_depth, MAX_COMPOSITE_DEPTH)
        self._permissive = permissive
        self._stack: list[_Frame] = []
        # Permissive only: the composite at hand broke a rule, so its members pass through.
        self._broken = False

    @property
    def is_open(self) -> bool:
        """True while a composite misses members."""
        return bool(self._stack)

    @property
    def depth(self) -> int:
        """Number of open heads."""
        return len(self._stack)

    @property
    def missing(self) -> str:
        """What the innermost open composite still misses, in words."""
        if not self._stack:
            return "nothing"
        frame = self._stack[-1]
        named = "" if frame.name is None else f" {frame.name!r}"
        return f"{_rule(frame)} composite{named} announces {frame.count} members, but only {frame.seen} came"

    def push(self, descriptor: Descriptor, tensor: Tensor | None, name: str | None = None) -> list[Finished]:
        """Take the next tensor (None for a head), and return the top-level items that it finishes.

        Raises
        ------
        InvalidDescriptorError
            A member does not fit its head, members do not tile a partition, or heads nest too deep.
        """
        if tensor is not None:
            return self._deliver(name, tensor)
        if len(self._stack) >= self._max_depth:
            raise InvalidDescriptorError(f"composites nest deeper than {self._max_depth} heads on a path")
        frame = _Frame(descriptor, name)
        if _rule(frame) == "private":
            if not self._permissive:
                raise InvalidDescriptorError(f"{descriptor.layout!r}: a private composition rule")
            # Nobody here knows what its members make together, so the composites around it cannot be had either.
            self._broken = True
        self._stack.append(frame)
        return self._close_full([])

    def finish(self) -> list[Finished]:
        """Take the end of the input; return what a permissive reader is owed still.

        Raises
        ------
        InvalidDescriptorError
            A composite is torn: its last members are missing.
        """
        if not self._stack:
            return []
        if not self._permissive:
            raise InvalidDescriptorError(f"torn composite: {self.missing}")
        left = self._release()
        self._stack.clear()
        self._broken = False
        return left

    def _deliver(self, name: str | None, item: Tensor | Composite) -> list[Finished]:
        if not self._stack:
            return [(name, item)]
        done = self._add(name, item)
        return self._close_full(done)

    def _add(self, name: str | None, item: Tensor | Composite) -> list[Finished]:
        """Make ``item`` the next member of the innermost head; return what has to be handed over at once."""
        frame = self._stack[-1]
        if not self._broken:
            try:
                check_member(frame.head, frame.seen, item.descriptor)
            except HurrayError as error:
                if not self._permissive:
                    raise error.at(tensor=name) from None
                self._broken = True
        frame.seen += 1
        frame.members.append((name, item))
        return self._release() if self._broken else []

    def _close_full(self, done: list[Finished]) -> list[Finished]:
        """Close heads for as long as the innermost one has all its members."""
        while self._stack and self._stack[-1].seen == self._stack[-1].count:
            frame = self._stack[-1]
            whole = None if self._broken else self._close(frame)
            if whole is None:
                done += self._release()
                self._stack.pop()
                if self._stack:
                    self._stack[-1].seen += 1
                else:
                    self._broken = False
                continue
            self._stack.pop()
            if not self._stack:
                done.append((frame.name, whole))
                return done
            done += self._add(frame.name, whole)
        return done

    def _close(self, frame: _Frame) -> Composite | None:
        members = [item for _, item in frame.members]
        try:
            check_cover(frame.head, [m.descriptor for m in members])
        except HurrayError as error:
            if not self._permissive:
                raise error.at(tensor=frame.name) from None
            self._broken = True
            return None
        return Composite._from_parts(frame.head, members)

    def _release(self) -> list[Finished]:
        """Hand over the members of all open heads, in the order in which they came."""
        out = []
        for frame in self._stack:
            out += frame.members
            frame.members = []
        return out


def _rule(frame: _Frame) -> str:
    return frame.head.layout.composition_rule  # type: ignore[attr-defined,no-any-return]
