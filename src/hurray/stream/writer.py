"""Tensors onto a stream, one at a time.

Format: streams, byte stream.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from hurray.errors import StreamError
from hurray.stream.outlets import Memory, as_file_error, open_outlet
from hurray.tensor.composing import as_item
from hurray.tensor.composite import Composite
from hurray.tensor.plan import Plan, plan_item, plan_tensor
from hurray.tensor.tensor import Tensor

__all__ = ["StreamWriter", "parts_of"]


class StreamWriter:
    """Write tensors and composites to a stream; each is on its way when ``write`` returns.

    Parameters
    ----------
    destination : path, socket, object with ``fileno()`` or ``write()``, or None
        A descriptor is duplicated, so the caller may close his own; other file objects are used as they are.  None
        collects the stream in memory, for :meth:`getvalue`.
    cross_machine : bool
        Refuse tensors whose sync mode is not ``producer_synced``.

    Raises
    ------
    FileError
        The destination cannot be opened.
    TypeError
        Nothing can be written to it.

    Examples
    --------
    >>> import hurray
    >>> with hurray.StreamWriter() as writer:
    ...     writer.write(hurray.zeros([4]))
    >>> [t.shape for t in hurray.StreamReader(writer.getvalue())]
    [(4,)]

    Format: streams, byte stream.
    """

    def __init__(self, destination: Any = None, *, cross_machine: bool = False) -> None:
        self._outlet = open_outlet(destination)
        self._cross_machine = cross_machine
        self._finished = False
        self._broken = False

    def write(self, item: Any) -> None:
        """Write one tensor, a composite with all its members, or an array of any library as a tensor.

        Everything is checked before the first byte leaves.  The buffers are handed to the system as they are.

        Raises
        ------
        TypeError
            ``item`` is no Tensor, Composite or array.
        StreamError
            The stream was finished or broken before, or ``cross_machine`` refuses the item.
        FileError
            The transport failed; the stream is broken.
        """
        if self._finished:
            raise StreamError("this stream has been finished; create a new StreamWriter to write more")
        if self._broken:
            raise StreamError("an earlier write failed part way, so this stream cannot go on")
        parts = parts_of(item, cross_machine=self._cross_machine)
        try:
            self._outlet.write(parts)
        except OSError as error:
            self._broken = True
            raise as_file_error(error, "writing") from error
        except BaseException:
            self._broken = True
            raise

    def write_composite(self, composite: Composite) -> None:
        """Write a composite: its head, then its members.

        Raises
        ------
        TypeError
            ``composite`` is no Composite.
        """
        if not isinstance(composite, Composite):
            raise TypeError(f"expected a hurray.Composite, got {type(composite).__name__}")
        self.write(composite)

    def finish(self) -> None:
        """Flush and let go of the destination; doing it again does nothing.  A stream has no terminator of its own.

        Raises
        ------
        FileError
            The transport failed.
        """
        if self._finished:
            return
        self._finished = True
        try:
            self._outlet.close()
        except OSError as error:
            raise as_file_error(error, "finishing") from error

    def getvalue(self) -> bytes:
        """Return the stream so far, for a writer without a destination.

        Raises
        ------
        StreamError
            The writer has a destination, which has the bytes.
        """
        if not isinstance(self._outlet, Memory):
            raise StreamError("this writer has a destination, which holds the stream; getvalue() is for others")
        return self._outlet.getvalue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.finish()


def parts_of(item: Any, *, cross_machine: bool) -> list[memoryview]:
    """Return the bytes of an item as the list of parts that follow each other on a stream.

    Raises
    ------
    TypeError
        ``item`` is no Tensor, Composite or array.
    StreamError
        ``cross_machine``, and a buffer's sync mode is not ``producer_synced``.
    """
    whole = as_item(item)
    if cross_machine:
        _refuse_unsynced(whole)
    if isinstance(whole, Tensor):
        return _parts(plan_tensor(whole))
    return [part for _, plan in plan_item("", whole) for part in _parts(plan)]


def _parts(plan: Plan) -> list[memoryview]:
    return [memoryview(plan.descriptor), *[buffer.data for buffer in plan.buffers if len(buffer)]]


def _refuse_unsynced(item: Tensor | Composite) -> None:
    if isinstance(item, Composite):
        for member in item.members:
            _refuse_unsynced(member)
        return
    for k, handle in enumerate(item.buffer_handles):
        if handle.sync_mode != "producer_synced":
            raise StreamError(f"buffer {k} has sync mode {handle.sync_mode!r}, which means nothing on another machine")
