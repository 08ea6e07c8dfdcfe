"""Bytes in, tensors out: the stream's grammar without any I/O.

A parser is either pushed (:meth:`StreamParser.feed`), or lets itself be read into: :meth:`StreamParser.wanted` is the
very memory that the next bytes belong in, never more than the current tensor still needs, so that a reader takes
nothing from a transport that it does not hand on.

Format: streams.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.codec import FIXED_BYTES, MAGIC, decode_descriptor, descriptor_length
from hurray.descriptor.model import Descriptor
from hurray.descriptor.plain import MAX_PLAIN_BYTES, PLAIN_BYTES, decode_plain
from hurray.errors import HurrayError, InvalidDescriptorError, StreamError
from hurray.limits import DEFAULT_LIMITS, MAX_COMPOSITE_DEPTH, Limits
from hurray.sources._base import aligned_bytes
from hurray.stream.landing import Landing
from hurray.tensor.assembly import Assembler
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor

__all__ = ["StreamParser"]

#: bytes that show a descriptor's length
_PREFIX = 10
#: length of the shortest legal descriptor, that of a composite head of rank 0; asking for fewer at first gains nothing
_SHORTEST = 37
_FILE_MAGIC = b"HRRYFILE"
#: magic, major version, (minor version,) length
_HEAD = struct.Struct("<4sBxI")
#: magic, version, length, flags, element type, layout, rank
_FIXED = struct.Struct("<4sBBIIBBI")
_U64 = struct.Struct("<Q")
#: one row of the buffer table, which starts with the size and is the last part of a plain descriptor
_HANDLE_BYTES = 16


class StreamParser:
    """Parse a stream of tensors from bytes that arrive in any split.

    Parameters
    ----------
    limits : Limits
        Bounds on what the stream may announce.
    permissive : bool
        Hand over what a strict parser refuses but can carry: unknown element types, layouts and schemes, and the
        members of composites whose rule is private or broken.
    cross_machine : bool
        Refuse any sync mode but ``producer_synced``: nothing else means anything on another machine.

    Examples
    --------
    >>> import hurray
    >>> with hurray.StreamWriter() as w:
    ...     w.write(hurray.zeros([2, 3]))
    >>> parser = hurray.StreamParser()
    >>> data = w.getvalue()
    >>> parser.feed(data[:50]), [t.shape for t in parser.feed(data[50:])]
    ([], [(2, 3)])
    >>> parser.eof()
    []

    Format: streams, byte stream.
    """

    __slots__ = (
        "_arrived",
        "_assembler",
        "_buffers",
        "_cross_machine",
        "_descriptor",
        "_fault",
        "_have",
        "_landing",
        "_length",
        "_limits",
        "_pending",
        "_permissive",
        "_staging",
        "n_tensors",
    )

    def __init__(
        self, *, limits: Limits = DEFAULT_LIMITS, permissive: bool = False, cross_machine: bool = False
    ) -> None:
        self._limits = limits
        self._permissive = permissive
        self._cross_machine = cross_machine
        self._assembler = Assembler(limits, permissive)
        self._staging = bytearray(256)
        self._have = 0
        self._length: int | None = None
        self._descriptor: Descriptor | None = None
        self._buffers: list[NDArray[np.uint8]] = []
        self._landing: Landing | None = None
        self._arrived = 0
        self._fault: str | None = None
        #: a fault that came behind items of the same bytes and is still to be raised
        self._pending: HurrayError | None = None
        #: tensors and heads that have come so far
        self.n_tensors = 0

    # Pushing

    def feed(self, data: bytes | bytearray | memoryview) -> list[Tensor | Composite]:
        """Take the next bytes and return the items that they finish, in order.

        Items that were finished before a fault in the same bytes are still returned; the next call then raises.

        Raises
        ------
        InvalidDescriptorError
            A descriptor, or a composite, breaks a rule.
        BufferError
            A buffer is too small for its tensor.
        StreamError
            A limit is exceeded, or the stream was broken before.
        """
        source = memoryview(data).cast("B")
        items: list[Tensor | Composite] = []
        at = 0
        try:
            self._refuse_broken()
            while at < len(source):
                at = self.take_whole(source, at, items)
                if at == len(source):
                    break
                room = self.wanted()
                n = min(len(room), len(source) - at)
                room[:n] = source[at : at + n]
                at += n
                items += self.advance(n)
        except HurrayError as error:
            if not items:
                raise
            self._pending = error
        return items

    def take_whole(self, source: memoryview, at: int, items: list[Tensor | Composite], most: int = sys.maxsize) -> int:
        """Append the plain tensors that lie whole in ``source[at:]``, at most ``most``; return where the rest starts.

        A short way that does what the general one does, for streams of many small tensors.

        Raises
        ------
        BufferError, StreamError
            As :meth:`feed`.
        """
        self._refuse_broken()
        if not self.is_between or self._assembler.is_open:
            return at
        end = len(source)
        largest = self._limits.max_buffer_bytes
        first = len(items)
        try:
            while at < end and len(items) - first < most:
                descriptor = decode_plain(source[at : at + MAX_PLAIN_BYTES])
                if descriptor is None:
                    break
                start = at + PLAIN_BYTES + 8 * len(descriptor.shape)
                size = descriptor.buffer_handles[0].byte_size
                if start + size > end or start - at > self._limits.max_descriptor_bytes:
                    break
                if largest is not None and size > largest:
                    break
                try:
                    landing = aligned_bytes(size)
                except MemoryError:
                    raise self._refusal(f"not enough memory for a buffer of {size} bytes") from None
                landing.data[:] = source[start : start + size]
                landing.flags.writeable = False
                self.n_tensors += 1
                items.append(Tensor._from_parts(descriptor, (landing,), permissive=self._permissive))
                self._arrived += start + size - at
                at = start + size
        except HurrayError as error:
            self._break(error)
            if len(items) == first:
                raise
            # What came before the fault is handed over first.
            self._pending = error
        return at

    @property
    def is_between(self) -> bool:
        """True while nothing of the next tensor has come."""
        return not self._have and self._descriptor is None

    def plain_length(self, head: memoryview) -> int:
        """Return how long the tensor is that starts with ``head``, 0 unless its descriptor is a plain one.

        The bytes are believed in nothing else: where they say that the tensor ends, any reader finds its end, or a
        fault.
        """
        if not self.is_between or len(head) < PLAIN_BYTES:
            return 0
        magic, major, minor, length, flags, _, layout_tag, rank = _FIXED.unpack_from(head)
        if (magic, major, minor, flags, layout_tag) != (MAGIC, 1, 0, 0, 1):
            return 0
        if length != PLAIN_BYTES + 8 * rank or length > len(head) or head[length - _HANDLE_BYTES - 1] != 1:
            return 0
        (size,) = _U64.unpack_from(head, length - _HANDLE_BYTES)
        return int(length + size)

    def eof(self) -> list[Tensor | Composite]:
        """Take the end of the input; return what a permissive parser is owed still.

        Raises
        ------
        StreamError
            The input ends inside a tensor, or a composite misses members.
        InvalidDescriptorError
            The last few bytes are the start of no descriptor.
        """
        self._refuse_broken()
        try:
            if self._descriptor is not None or self._have:
                self._check_magic()
                raise StreamError(f"unexpected end of stream: {self._place()}")
            if self._assembler.is_open and not self._permissive:
                raise StreamError(f"torn composite at the end of the stream: {self._assembler.missing}")
            return [item for _, item in self._assembler.finish()]
        except HurrayError as error:
            self._fault = str(error)
            raise

    # Reading into

    def wanted(self) -> memoryview:
        """Return the writable memory, never empty, that the next bytes of the stream belong in.

        The view of an earlier call becomes invalid.

        Raises
        ------
        StreamError
            The stream is broken, or memory is lacking.
        """
        self._refuse_broken()
        if self._landing is not None:
            try:
                return self._landing.room(self._trusted())
            except HurrayError as error:
                self._fault = str(error)
                raise
        target = _SHORTEST if self._length is None else self._length
        if target > len(self._staging):
            # Twice what has arrived, so that a lie about the length sets nothing aside.
            target = min(target, max(256, 2 * self._have))
            if target > len(self._staging):
                larger = bytearray(target)
                larger[: self._have] = self._staging[: self._have]
                self._staging = larger
        return memoryview(self._staging)[self._have : target]

    def advance(self, n_bytes: int) -> Sequence[Tensor | Composite]:
        """Note that the first ``n_bytes`` bytes of :meth:`wanted` were filled; return the items that this finishes.

        Raises
        ------
        InvalidDescriptorError, BufferError, StreamError
            As :meth:`feed`.
        """
        self._arrived += n_bytes
        try:
            if self._landing is not None:
                self._landing.advance(n_bytes)
                if not self._landing.is_full:
                    return ()
                self._buffers.append(self._landing.finish())
                self._landing = None
                return self._next_buffer()
            self._have += n_bytes
            return self._take_descriptor()
        except HurrayError as error:
            self._break(error)
            raise

    def _take_descriptor(self) -> Sequence[Tensor | Composite]:
        if self._length is None:
            if self._have < _PREFIX:
                return ()
            self._length = self._announced_length()
        if self._have < self._length:
            return ()
        descriptor = decode_descriptor(bytes(self._staging[: self._length]), permissive=self._permissive)
        if self._have > self._length:
            raise InvalidDescriptorError(f"a descriptor has at least {_SHORTEST} bytes, not {self._length}")
        self._check_announced(descriptor)
        self._have = 0
        self._length = None
        if len(self._staging) > 1 << 16:
            self._staging = bytearray(256)
        self.n_tensors += 1
        if descriptor.is_head:
            return [item for _, item in self._assembler.push(descriptor, None)]
        self._descriptor = descriptor
        return self._next_buffer()

    def _announced_length(self) -> int:
        if self._staging.startswith(_FILE_MAGIC):
            raise StreamError(
                "this is a Hurray file (it starts with HRRYFILE), not a stream; read it with hurray.open or hurray.load"
            )
        magic, major, length = _HEAD.unpack_from(self._staging)
        if magic != MAGIC or major != 1 or length < FIXED_BYTES:
            # Never returns: it names what is wrong.
            length = descriptor_length(bytes(self._staging[:_PREFIX]))
        limit = self._limits.max_descriptor_bytes
        if length > limit:
            raise self._refusal(f"the descriptor announces {length} bytes, more than the limit of {limit}")
        return int(length)

    def _check_magic(self) -> None:
        """Tell bytes that are no descriptor from one that is cut short."""
        found = bytes(self._staging[: min(self._have, len(MAGIC))])
        if self._descriptor is None and not MAGIC.startswith(found):
            raise InvalidDescriptorError(
                f"tensor {self.n_tensors} of the stream: a descriptor starts with {MAGIC!r}, not {found!r} (its magic)"
            )

    def _check_announced(self, descriptor: Descriptor) -> None:
        if descriptor.is_opaque:
            raise self._refusal(
                f"layout {descriptor.layout!r} is unknown and its buffer table cannot be found, so reading cannot go on"
            )
        limit = self._limits.max_buffer_bytes
        for k, handle in enumerate(descriptor.buffer_handles):
            if limit is not None and handle.byte_size > limit:
                raise self._refusal(f"buffer {k} announces {handle.byte_size} bytes, more than the limit of {limit}")
            if self._cross_machine and handle.sync_mode != "producer_synced":
                raise self._refusal(
                    f"buffer {k} has sync mode {handle.sync_mode!r}, which means nothing on another machine"
                )
        if descriptor.is_head:
            self._check_depth()

    def _check_depth(self) -> None:
        limit = self._limits.max_composite_depth
        if limit < MAX_COMPOSITE_DEPTH and self._assembler.depth >= limit:
            raise self._refusal(f"composites nest deeper than the limit of {limit}")

    def _next_buffer(self) -> Sequence[Tensor | Composite]:
        """Make room for the next buffer that has bytes, or form the tensor when there is none."""
        descriptor = self._descriptor
        assert descriptor is not None
        handles = descriptor.buffer_handles
        while len(self._buffers) < len(handles):
            size = handles[len(self._buffers)].byte_size
            if size:
                self._landing = Landing(size, self._trusted())
                return ()
            self._buffers.append(np.empty(0, np.uint8))
        buffers, self._buffers, self._descriptor = self._buffers, [], None
        tensor = Tensor._from_parts(descriptor, buffers, permissive=self._permissive)
        return [item for _, item in self._assembler.push(descriptor, tensor)]

    def _break(self, error: HurrayError) -> None:
        """Take note of a fault, and say in it which tensor it is about, since that has no name."""
        if not isinstance(error, StreamError):
            # A descriptor that is not complete has not been counted yet.
            number = self.n_tensors - (self._have == 0)
            error.args = (f"tensor {number} of the stream: {error}",)
        self._fault = str(error)

    def _refusal(self, message: str) -> StreamError:
        return StreamError(f"tensor {self.n_tensors} of the stream: {message}")

    def _trusted(self) -> int:
        return max(self._limits.step_bytes, self._arrived)

    def _refuse_broken(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            raise pending
        if self._fault is not None:
            raise StreamError(f"the stream is broken: {self._fault}")

    def _place(self) -> str:
        if self._descriptor is None:
            of = "" if self._length is None else f" of {self._length}"
            return f"tensor {self.n_tensors} has {self._have}{of} bytes of its descriptor"
        k = len(self._buffers)
        size = self._descriptor.buffer_handles[k].byte_size
        filled = self._landing.filled if self._landing is not None else 0
        return f"tensor {self.n_tensors - 1}, buffer {k} has {filled} of {size} bytes"


def limits_from(
    max_descriptor_bytes: int | None, max_buffer_bytes: int | None, max_composite_depth: int | None
) -> Limits:
    """Return the default limits with those that are given."""
    given: dict[str, Any] = {
        "max_descriptor_bytes": max_descriptor_bytes,
        "max_buffer_bytes": max_buffer_bytes,
        "max_composite_depth": max_composite_depth,
    }
    for name, value in given.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise ValueError(f"{name} is a non-negative int or None, not {value!r}")
    return Limits(**{name: value for name, value in given.items() if value is not None})
