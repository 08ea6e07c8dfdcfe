"""Hand tensors to other processes of the same machine without copying them.

``share`` copies a tensor or composite once into a segment that other processes map; ``attach`` maps it and forms the
item over it, in constant time whatever its size.  A segment holds its own table of contents, so the handle is only a
place:

    64 bytes         magic, record count, index size, segment size
    index            per tensor, heads before members: descriptor size u32, buffer count u32, the descriptor, and a u64
                     offset for every buffer
    buffers          each at a multiple of 4096, which is also what the descriptors announce

Segments are written once and never changed, and go away with their last user (see ``segments.py``).

Format: streams and shared memory, shared memory.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.codec import decode_descriptor, encode_descriptor
from hurray.descriptor.model import PAGE_ALIGNMENT, BufferHandle, Descriptor
from hurray.errors import FileError
from hurray.limits import DEFAULT_LIMITS
from hurray.net.segments import KINDS, Segment, default_kind
from hurray.tensor.assembly import Assembler
from hurray.tensor.composing import as_item
from hurray.tensor.composite import Composite
from hurray.tensor.plan import plan_item
from hurray.tensor.tensor import Tensor
from hurray.wire.reader import Reader

__all__ = ["SharedHandle", "attach", "share"]

_MAGIC = b"HRRYSHM1"
_HEAD = struct.Struct("<8sIIQQ")
_HEAD_BYTES = 64
_SCHEME = "hurray-shm"

Item = Tensor | Composite
Bytes = NDArray[np.uint8]

# Items that lie in a segment already: sharing them again copies nothing.
_HOMES: weakref.WeakKeyDictionary[Any, Segment] = weakref.WeakKeyDictionary()
# Segments whose handle was sent and then dropped, kept until the other side has attached.
_LINGERING: list[Segment] = []


class SharedHandle:
    """Where a shared tensor or composite is: small, picklable, and usable as text.

    The handle that :func:`share` returns keeps the segment; so does every item that was attached.  Copies that
    travelled, as pickles or as text, only name it.  Keep the handle until the other processes have attached, best in a
    ``with`` block.  A handle that was sent and then forgotten keeps its segment until one process has attached, or this
    one ends.

    Examples
    --------
    >>> import hurray
    >>> with hurray.share(hurray.arange(4)) as handle:
    ...     hurray.attach(str(handle)).to_numpy()
    array([0, 1, 2, 3])

    Format: streams and shared memory, shared memory.
    """

    __slots__ = ("__weakref__", "_segment", "_sent", "_text")

    def __init__(self, text: str, segment: Segment | None = None) -> None:
        _split(text)
        self._text = text
        self._segment = segment
        self._sent = False

    @property
    def item(self) -> Tensor | Composite:
        """The shared item, over the segment's memory."""
        return attach(self)

    @property
    def nbytes(self) -> int | None:
        """Size of the segment in bytes; None for a handle that only names it."""
        return None if self._segment is None else len(self._segment.map)

    def close(self) -> None:
        """Let go of the segment; items that are attached anywhere stay valid."""
        self._segment = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        segment = getattr(self, "_segment", None)
        if segment is not None and self._sent and not segment.was_taken:
            _LINGERING.append(segment)

    def _place(self) -> str:
        # A forked child that holds the segment is as good a place as its parent.
        if self._segment is not None and self._segment.fd >= 0:
            return f"{_SCHEME}:{self._segment.kind}:{self._segment.address}"
        return self._text

    def __str__(self) -> str:
        self._sent = True
        return self._place()

    def __repr__(self) -> str:
        return f"hurray.SharedHandle({self._place()!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return SharedHandle, (str(self),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SharedHandle):
            return NotImplemented
        return self._text.rpartition(".")[2] == other._text.rpartition(".")[2]

    def __hash__(self) -> int:
        return hash(self._text.rpartition(".")[2])


def share(item: Any, *, named: bool | None = None) -> SharedHandle:
    """Put a tensor or composite into shared memory, and return a handle for other processes.

    Parameters
    ----------
    item : Tensor, Composite or array
        Its bytes are copied once; an item that was attached lies in shared memory already and is not copied.
    named : bool, optional
        True makes a segment with a name in ``/dev/shm``, or in the folder that the environment variable
        ``HURRAY_SHM_DIR`` names, for processes that do not see each other's ``/proc`` entries, such as those of
        different containers.  False makes one without a name.  None makes one without, where the system can.

    Returns
    -------
    SharedHandle
        Keep it until the other processes have attached.

    Raises
    ------
    FileError
        There is no room for the segment.
    InvalidDescriptorError
        A tensor has more buffers than its layout and scheme take.
    UnsupportedError
        The system has no such shared memory.

    Examples
    --------
    >>> import hurray
    >>> handle = hurray.share(hurray.arange(3))
    >>> str(handle).startswith("hurray-shm:")
    True

    Format: streams and shared memory, shared memory.
    """
    item = as_item(item)
    _settle()
    kind = default_kind(named)
    segment = _HOMES.get(item)
    if segment is None or segment.fd < 0 or (named is not None and not isinstance(segment, kind)):
        segment = _new_segment(item, kind)
    return SharedHandle(f"{_SCHEME}:{segment.kind}:{segment.address}", segment)


def attach(handle: SharedHandle | str, *, permissive: bool = False) -> Tensor | Composite:
    """Return the tensor or composite behind a handle, over the shared memory itself.

    Parameters
    ----------
    handle : SharedHandle or str
        A handle, or its text.
    permissive : bool
        Take unknown layouts and schemes, for relay.

    Returns
    -------
    Tensor or Composite
        Its memory is read-only and stays valid until the last array over it is gone, whatever becomes of the process
        that shared it.

    Raises
    ------
    FileError
        The text is no handle, the segment is gone or cannot be reached, or its content is damaged.
    InvalidDescriptorError
        A descriptor in it breaks a rule of the format.

    Format: streams and shared memory, shared memory.
    """
    _settle()
    segment: Segment | None = None
    if isinstance(handle, SharedHandle):
        segment = handle._segment
        text = handle._text
    elif isinstance(handle, str):
        text = handle
    else:
        raise TypeError(f"attach takes a SharedHandle or its text, not {type(handle).__name__}")
    if segment is None:
        kind, address = _split(text)
        default_kind(None)
        segment = kind.find(address)
        segment.mark_taken()
    item = _read(segment, permissive)
    _HOMES[item] = segment
    return item


def _split(text: str) -> tuple[type[Segment], str]:
    scheme, _, rest = text.partition(":")
    kind, _, address = rest.partition(":")
    if scheme != _SCHEME or kind not in KINDS or not address:
        raise FileError(f"{text[:80]!r} is no handle of shared memory")
    return KINDS[kind], address


def _settle() -> None:
    """Let go of forgotten segments that somebody has attached to."""
    _LINGERING[:] = [segment for segment in _LINGERING if not segment.was_taken]


# Writing


def _new_segment(item: Item, kind: type[Segment]) -> Segment:
    plans = []
    for _, plan in plan_item("", item):
        descriptor = decode_descriptor(plan.descriptor, permissive=True)
        plans.append((_page_aligned(descriptor), plan.buffers))
    index_bytes = sum(8 + len(d) + 8 * len(buffers) for d, buffers in plans)
    at = _HEAD_BYTES + index_bytes
    index = bytearray()
    pieces: list[tuple[int, Any]] = []
    for descriptor_bytes, buffers in plans:
        index += struct.pack("<II", len(descriptor_bytes), len(buffers)) + descriptor_bytes
        for buffer in buffers:
            if not buffer.size:
                index += struct.pack("<Q", 0)
                continue
            at += -at % PAGE_ALIGNMENT
            index += struct.pack("<Q", at)
            pieces.append((at, buffer))
            at += buffer.size
    head = _HEAD.pack(_MAGIC, len(plans), 0, index_bytes, at).ljust(_HEAD_BYTES, b"\0")
    try:
        return kind.create(at, [(0, head + index), *pieces])
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"no shared memory for {at} bytes: {error.strerror}", errno=error.errno) from error


def _page_aligned(descriptor: Descriptor) -> bytes:
    handles = tuple(
        BufferHandle(h.byte_size, PAGE_ALIGNMENT if h.byte_size else 1, h.device, h.sync_mode)
        for h in descriptor.buffer_handles
    )
    return encode_descriptor(descriptor.with_changes(buffer_handles=handles))


# Reading


def _read(segment: Segment, permissive: bool) -> Item:
    """Form the item of a segment; nothing in it is trusted."""
    data: Bytes = np.frombuffer(segment.map, np.uint8)
    if len(data) < _HEAD_BYTES:
        raise FileError(f"a shared-memory segment of {len(data)} bytes has no room for its header")
    magic, n_records, reserved, index_bytes, size = _HEAD.unpack(data[: _HEAD.size].tobytes())
    if magic != _MAGIC or reserved:
        raise FileError(f"the shared memory holds no segment of this library: it starts with {magic!r}")
    if size != len(data) or index_bytes > size - _HEAD_BYTES:
        raise FileError(f"the segment announces {size} bytes and an index of {index_bytes}, but has {len(data)} bytes")
    r = Reader(data[_HEAD_BYTES : _HEAD_BYTES + index_bytes].tobytes(), error=FileError, what="segment index")
    assembler = Assembler(permissive=permissive)
    items: list[Item] = []
    for descriptor, buffers in _records(r, n_records, data, permissive):
        tensor = None if descriptor.is_head else Tensor._from_parts(descriptor, buffers, permissive=permissive)
        items += [item for _, item in assembler.push(descriptor, tensor)]
    items += [item for _, item in assembler.finish()]
    if len(items) != 1 or r.remaining:
        raise FileError(f"the segment's index holds {len(items)} items and {r.remaining} more bytes, but not one item")
    return items[0]


def _records(r: Reader, n_records: int, data: Bytes, permissive: bool) -> Iterator[tuple[Descriptor, list[Bytes]]]:
    start = _HEAD_BYTES + r.end
    for k in range(n_records):
        with r.inside(f"records[{k}]"):
            length, count = r.u32("descriptor_size"), r.u32("buffer_count")
            if length > DEFAULT_LIMITS.max_descriptor_bytes:
                r.fail(f"a descriptor of {length} bytes exceeds the limit", field="descriptor_size")
            descriptor = decode_descriptor(r.take(length, "descriptor"), permissive=permissive)
            if count != descriptor.buffer_count:
                r.fail(f"{count} buffers, but the descriptor has {descriptor.buffer_count}", field="buffer_count")
            offsets = r.u64s(count, "offsets")
            buffers = []
            for offset, handle in zip(offsets, descriptor.buffer_handles, strict=True):
                n_bytes = handle.byte_size
                if n_bytes and (offset % PAGE_ALIGNMENT or offset < start or offset + n_bytes > len(data)):
                    r.fail(f"{n_bytes} bytes at {offset} do not lie in {len(data)} bytes", field="offsets")
                buffers.append(data[offset : offset + n_bytes] if n_bytes else np.empty(0, np.uint8))
        yield descriptor, buffers
