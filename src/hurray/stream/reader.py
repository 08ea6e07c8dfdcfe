"""Tensors off a stream, each as soon as its last byte has arrived.

Format: streams, byte stream.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, Self

from hurray.errors import HurrayError
from hurray.stream.inlets import FileInlet, Inlet, MemoryInlet, SocketInlet, open_inlet
from hurray.stream.outlets import as_file_error
from hurray.stream.parser import StreamParser, limits_from
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["StreamReader"]

#: tensors that are taken at once from a stream in memory
_BATCH = 32
#: longest tensor, in bytes, that is read at once when its length is known before
_SMALL = 1 << 14


class StreamReader:
    """Iterate over the tensors and composites of a stream.

    An item is handed over when its last byte has arrived, and nothing behind it is taken from the transport (a file
    that the reader opened itself is read ahead).  Buffers are aligned to 64 bytes; large ones are filled straight from
    the transport.

    Parameters
    ----------
    source : path, bytes-like, socket, object with ``fileno()``, or binary file object
        A descriptor is duplicated where it can be read directly, so the caller may close his own; other file objects
        are used as they are.
    max_descriptor_bytes : int, optional
        Longest descriptor accepted (default 16 MiB).
    max_buffer_bytes : int, optional
        Largest buffer accepted (default: no bound; memory grows with what has arrived, not with what is announced).
    max_composite_depth : int, optional
        Most composite heads on a path (default 8, the format's bound).
    cross_machine : bool
        Refuse tensors whose sync mode is not ``producer_synced``.
    permissive : bool
        Hand over what a strict reader refuses but can carry: unknown element types, layouts and schemes, and the
        members of composites whose rule is private or broken, or that are torn.

    Raises
    ------
    FileError
        The source cannot be opened, or the transport fails.
    StreamError
        The stream ends inside a tensor or a composite, or breaks a limit.
    InvalidDescriptorError
        A descriptor or a composite breaks a rule of the format.
    BufferError
        A buffer is too small for its tensor.

    Examples
    --------
    >>> import hurray
    >>> writer = hurray.StreamWriter()
    >>> writer.write(hurray.ones([2, 2]))
    >>> with hurray.StreamReader(writer.getvalue()) as reader:
    ...     for tensor in reader:
    ...         print(tensor.shape, tensor.dtype)
    (2, 2) float64

    Format: streams, byte stream.
    """

    def __init__(
        self,
        source: Any,
        *,
        max_descriptor_bytes: int | None = None,
        max_buffer_bytes: int | None = None,
        max_composite_depth: int | None = None,
        cross_machine: bool = False,
        permissive: bool = False,
    ) -> None:
        self._parser = StreamParser(
            limits=limits_from(max_descriptor_bytes, max_buffer_bytes, max_composite_depth),
            permissive=permissive,
            cross_machine=cross_machine,
        )
        self._ready: deque[Tensor | Composite] = deque()
        # A small tensor that is read at once: its memory, its length, and how much has come.
        self._small = bytearray()
        self._expected = self._come = 0
        self._inlet: Inlet | None = open_inlet(source)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Tensor | Composite:
        while not self._ready:
            if self._inlet is None:
                raise StopIteration
            self._step(self._inlet)
        return self._ready.popleft()

    def _step(self, inlet: Inlet) -> None:
        """Take what is at hand, up to the end of the tensor at most."""
        try:
            if self._parser.is_between and self._take_ahead(inlet):
                return
            n = inlet.read_into(self._parser.wanted())
            if n:
                self._ready.extend(self._parser.advance(n))
                return
            self._ready.extend(self._parser.eof())
        except TimeoutError:
            # Nothing was lost: the caller may go on iterating.
            raise
        except HurrayError:
            self._stop()
            raise
        except (OSError, ValueError) as error:
            self._stop()
            cause = error if isinstance(error, OSError) else OSError(str(error))
            raise as_file_error(cause, "reading") from error
        self._stop()

    def _take_ahead(self, inlet: Inlet) -> bool:
        """Take whole tensors where more than the next bytes can be seen; tell whether any were taken."""
        if isinstance(inlet, (MemoryInlet, FileInlet)):
            return inlet.take(self._take_batch)
        return isinstance(inlet, SocketInlet) and self._take_small(inlet)

    def _take_small(self, inlet: SocketInlet) -> bool:
        """Read a small tensor with one call, once a look at its first bytes has told its length; False for others."""
        if not self._expected:
            length = self._parser.plain_length(inlet.peek())
            if not 0 < length <= _SMALL:
                return False
            if len(self._small) < length:
                self._small = bytearray(length)
            self._expected, self._come = length, 0
        room = memoryview(self._small)[: self._expected]
        while self._come < self._expected:
            n = inlet.read_into(room[self._come :])
            self._come += n
            if not n:
                break
        self._expected = 0
        self._ready.extend(self._parser.feed(room[: self._come]))
        if self._come < len(room):
            self._ready.extend(self._parser.eof())
            self._stop()
        return True

    def _take_batch(self, data: memoryview, at: int) -> int:
        batch: list[Tensor | Composite] = []
        at = self._parser.take_whole(data, at, batch, _BATCH)
        self._ready.extend(batch)
        return at

    def _stop(self) -> None:
        if self._inlet is not None:
            inlet, self._inlet = self._inlet, None
            inlet.close()

    def close(self) -> None:
        """Let go of the source; the reader is then exhausted."""
        self._ready.clear()
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
