"""Descriptors with a layout tag that this version does not know, for permissive readers.

The field block of an unknown layout has no length, so its end is searched: every split at which the buffer table and
the sections behind it parse to the last byte is a candidate.  When exactly one is, the buffer table is shown; in any
case the bytes are kept for relay.

Format: layouts, private and unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from hurray.descriptor.check import check_handles
from hurray.descriptor.model import Descriptor
from hurray.dtypes.table import Dtype
from hurray.errors import HurrayError
from hurray.layouts.private import UnknownLayout
from hurray.wire.reader import Reader

__all__ = ["decode_unknown"]

#: longest field block that is searched for, in bytes; beyond it the split counts as ambiguous
_MAX_SEARCH = 4096


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
) -> Descriptor:
    """Decode what stands behind ``byte_offset`` when the layout is unknown."""
    start = r.offset
    body = r.take(r.remaining, "layout.raw_bytes")
    found: list[Descriptor] = []
    for split in range(min(len(body), _MAX_SEARCH)):
        count = body[split]
        if count == 0 or split + 1 + 16 * count > len(body):
            continue
        layout = UnknownLayout(layout_tag, body[:split])
        try:
            candidate = parse_tail(
                Reader(body, split),
                flags=flags,
                dtype=dtype,
                layout=layout,
                shape=shape,
                byte_offset=byte_offset,
                version=(version[0], 0),
                permissive=True,
            )
            check_handles(candidate.buffer_handles)
        except HurrayError:
            continue
        found.append(candidate.with_changes(version=version))
        if len(found) > 1:
            break
    if len(found) == 1 and version[1] == 0:
        return found[0]
    if not body:
        r.fail("nothing stands behind byte_offset, not even a buffer count", offset=start)
    return Descriptor(
        dtype=dtype,
        shape=shape,
        layout=UnknownLayout(layout_tag, body),
        buffer_handles=(),
        byte_offset=byte_offset,
        version=version,
        opaque_flags=flags,
    )
