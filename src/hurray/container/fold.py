"""Which tensors of a file are members of which composite.

Members follow their head in the order of descriptor offsets, whatever the order of the index.  A walk over that order
with a stack of open heads finds all of it; counts only ever count down, so none of them can allocate anything.

Format: composite; file container, members of a composite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hurray.errors import FileError, InvalidDescriptorError

__all__ = ["Folding", "fold"]


class Folding(NamedTuple):
    """The composites of a file.

    ``order`` are index positions by descriptor offset; ``spans`` gives for each head the slice of ``order`` that holds
    it and everything below it; ``members`` are the positions that lie inside some composite.
    """

    order: Sequence[int]
    spans: Mapping[int, tuple[int, int]]
    members: frozenset[int]


def fold(order: Sequence[int], member_counts: Mapping[int, int], max_depth: int) -> Folding:
    """Find the members of every head.

    Parameters
    ----------
    order : sequence of int
        Index positions by descriptor offset.
    member_counts : mapping of int to int
        Number of direct members of each head, by index position.
    max_depth : int
        Most heads on one path.

    Raises
    ------
    InvalidDescriptorError
        Heads nest too deep.
    FileError
        A composite lacks members.
    """
    spans: dict[int, tuple[int, int]] = {}
    members: set[int] = set()
    # (head, where it starts, direct members still to come)
    stack: list[list[int]] = []

    def close(end: int) -> None:
        while stack and stack[-1][2] == 0:
            head, start, _ = stack.pop()
            spans[head] = (start, end)

    for k, position in enumerate(order):
        close(k)
        if stack:
            stack[-1][2] -= 1
            members.add(position)
        count = member_counts.get(position)
        if count is not None:
            stack.append([position, k, count])
            if len(stack) > max_depth:
                raise InvalidDescriptorError(f"composites nest more than {max_depth} deep")
    close(len(order))
    if stack:
        missing = stack[-1][2]
        raise FileError(f"torn composite: {missing} member(s) of a head are missing at the end of the file")
    return Folding(order, spans, frozenset(members))
