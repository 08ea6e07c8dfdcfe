"""Descriptors with a layout tag that this version does not know, for permissive readers.

The field block of an unknown layout has no length, so its end is searched: every split at which the buffer table and
the sections behind it parse to the last byte, and keep the rules, is a candidate.  When exactly one is, the buffer
table is shown; in any case the bytes are kept for relay.

Format: layouts, private and unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hurray.descriptor.check import check_descriptor
from hurray.descriptor.model import Descriptor
from hurray.dtypes.table import Dtype
from hurray.errors import HurrayError
from hurray.layouts.private import UnknownLayout
from hurray.wire.reader import Reader

__all__ = ["decode_unknown"]

#: longest body with a quantization section that is searched, in bytes; in a longer one the split counts as ambiguous
_MAX_SEARCH = 1 << 16
_HANDLE_BYTES = 16
_QUANTIZATION = 1
#: flag: (bytes, further bytes for each dimension) of the sections of fixed length
_FIXED = {2: (0, 16), 4: (20, 0), 8: (72, 0), 16: (16, 0)}


def decode_unknown(
    r: Reader,
    *,
    flags: int,
    dtype: Dtype,
    layout_tag: int,
    shape: tuple[int | None, ...],
    byte_offset: int,
    version: tuple[int, int],
    parse_tail: Callable[..., Descriptor],
    encode: Callable[[Descriptor], bytes],
) -> Descriptor:
    """Decode what stands behind ``byte_offset`` when the layout is unknown."""
    start = r.offset
    body = r.take(r.remaining, "layout.raw_bytes")
    if not body:
        r.fail("nothing stands behind byte_offset, not even a buffer count", offset=start)
    found: list[Descriptor] = []
    # A later minor version may have appended bytes, and then every split is as good as another.
    for split in _splits(body, flags, len(shape)) if version[1] == 0 else ():
        try:
            candidate = parse_tail(
                Reader(body, split),
                flags=flags,
                dtype=dtype,
                layout=UnknownLayout(layout_tag, body[:split]),
                shape=shape,
                byte_offset=byte_offset,
                version=version,
                permissive=True,
            )
            check_descriptor(candidate)
        except HurrayError:
            continue
        if not candidate.trailing:
            found.append(candidate)
        if len(found) > 1:
            break
    # Statistics may hold bytes that are not kept; here the bytes count more than what they say.
    if len(found) == 1 and encode(found[0])[start:] == body:
        return found[0]
    return Descriptor(
        dtype=dtype,
        shape=shape,
        layout=UnknownLayout(layout_tag, body),
        buffer_handles=(),
        byte_offset=byte_offset,
        version=version,
        opaque_flags=flags,
    )


def _splits(body: bytes, flags: int, rank: int) -> Iterator[int]:
    """Yield where a buffer table may start, judging by lengths alone."""
    behind = sum(n + per_dim * rank for bit, (n, per_dim) in _FIXED.items() if flags & bit)
    if not flags & _QUANTIZATION:
        # The number of buffers fixes the length of the rest, so each number has one place.
        for count in range(1, 256):
            split = len(body) - behind - _HANDLE_BYTES * count - 1
            if split >= 0 and body[split] == count:
                yield split
        return
    if len(body) > _MAX_SEARCH:
        return
    for split, count in enumerate(body):
        at = split + 1 + _HANDLE_BYTES * count
        if count and at + 4 + int.from_bytes(body[at : at + 4], "little") + behind == len(body):
            yield split
