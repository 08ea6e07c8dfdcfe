"""What a reader says about a missing name, and what a strict load checks inside tensors.

Format: README, three moments of checking; layouts, invariants.
"""

from __future__ import annotations

from hurray.container.index import Index
from hurray.errors import FileError, HurrayError
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["MissingTensorError", "check_indices", "missing_tensor"]

#: names that are compared to find one that was mistyped
_MOST_COMPARED = 5000


class MissingTensorError(FileError, KeyError):
    """A name that a file does not hold: both a FileError and a KeyError."""


def missing_tensor(name: object, index: Index) -> MissingTensorError:
    """Return the error for a name that is not in an index; names close to it are offered."""
    if not isinstance(name, str):
        message = f"a tensor's name is a str, not {type(name).__name__}: {name!r}"
        return MissingTensorError(message, filename=index.file_name)
    names = [index.name(k) for k in range(min(len(index), _MOST_COMPARED))]
    import difflib  # takes a while, and is needed for a mistake only

    close = difflib.get_close_matches(name, names, 3)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    return MissingTensorError(f"{index.file_name} has no tensor {name!r}{hint}", filename=index.file_name)


def check_indices(name: str, item: Tensor | Composite) -> None:
    """Check the index buffers of sparse and paged tensors, which a strict load vouches for.

    Raises
    ------
    InvalidDescriptorError, BufferError
        An invariant is broken; the tensor is named.
    """
    if type(item) is Tensor and item.descriptor.layout.kind == "dense":
        return
    stack: list[Tensor | Composite] = [item]
    while stack:
        top = stack.pop()
        if isinstance(top, Composite):
            stack.extend(top.members)
        elif top.layout.kind in ("sparse", "indirect"):
            try:
                top.validate()
            except HurrayError as error:
                raise error.at(tensor=name) from None
