"""The rules that tie the parts of a descriptor together.

Format: descriptor; README, three moments of checking (these are all decode rules).
"""

from __future__ import annotations

from hurray.descriptor.model import BufferHandle, Descriptor
from hurray.errors import InvalidDescriptorError
from hurray.layouts._base import Layout
from hurray.quantization._base import Scheme, SchemeContext

__all__ = ["check_descriptor", "check_handle", "expected_buffers"]

_NO_SHARD = ("csf", "block_paged")


def check_descriptor(d: Descriptor, *, extra_buffers: bool = False) -> None:
    """Check everything that a descriptor shows by itself; tensors in memory may have extra buffers.

    Raises
    ------
    InvalidDescriptorError
        A rule is broken.
    """
    if d.dtype.is_private != (d.extension_type is not None):
        wanted = "needs an" if d.dtype.is_private else "takes no"
        raise InvalidDescriptorError(f"dtype {d.dtype!r} {wanted} extension type section (extension_type)")
    try:
        d.layout.validate_against_shape(d.shape)
    except InvalidDescriptorError as error:
        raise error.at(field="shape" if d.shape else "rank") from None
    if d.layout.is_virtual:
        _check_head(d)
    else:
        check_handles(d.buffer_handles)
        _check_byte_offset(d)
    _check_sections(d)
    # The scheme's own rules come before the count, so that an index outside the table is named as such.
    if isinstance(d.quantization, Scheme):
        # A private or unknown layout has buffers of its own too, at least one.
        layout_buffers = 1 if d.layout.buffer_count is None else d.layout.buffer_count
        d.quantization.check(
            SchemeContext(
                dtype=d.dtype,
                shape=d.shape,
                layout=d.layout,
                layout_buffers=layout_buffers,
                buffer_count=d.buffer_count,
            )
        )
    check_buffer_count(d, extra_buffers=extra_buffers)


def expected_buffers(layout: Layout, scheme: object) -> int | None:
    """Return the exact number of buffers of a layout with a scheme, or None where the format does not fix it."""
    count = layout.buffer_count
    if count is None or not (scheme is None or isinstance(scheme, Scheme)):
        return None
    return count + (len(scheme.buffer_indices()) if scheme is not None else 0)


def check_buffer_count(d: Descriptor, *, extra_buffers: bool = False) -> None:
    """Check that the buffer table has exactly the buffers of the layout and the scheme."""
    expected = expected_buffers(d.layout, d.quantization)
    if expected is None:
        least = d.layout.buffer_count or 1
        if d.buffer_count < least and not d.is_opaque:
            raise InvalidDescriptorError(
                f"layout {d.layout.name!r} needs at least {_buffers(least)}, but the table has {d.buffer_count}"
            ).at(field="buffer_count")
    elif d.buffer_count < expected or (d.buffer_count > expected and not extra_buffers):
        scheme = f" with scheme {d.quantization.name}" if isinstance(d.quantization, Scheme) else ""
        raise InvalidDescriptorError(
            f"layout {d.layout.name!r}{scheme} has exactly {_buffers(expected)}, but the table has {d.buffer_count}"
        ).at(field="buffer_count")


def _buffers(n: int) -> str:
    return "1 buffer" if n == 1 else f"{n} buffers"


def check_handle(handle: BufferHandle) -> None:
    """Check one row of the buffer table."""
    alignment = handle.alignment
    if alignment == 0 or alignment & (alignment - 1):
        raise InvalidDescriptorError(f"alignment {alignment} is not a power of two").at(field="alignment")
    if handle.byte_size and alignment < 64:
        raise InvalidDescriptorError(f"alignment {alignment} is below 64 for a buffer of {handle.byte_size} bytes").at(
            field="alignment"
        )
    if handle.device.tag == 0 and handle.sync_mode != "producer_synced":
        raise InvalidDescriptorError(f"a CPU buffer must be producer_synced, not {handle.sync_mode}").at(
            field="sync_mode"
        )


def check_handles(handles: tuple[BufferHandle, ...]) -> None:
    """Check every row of the buffer table, and that all share one device and memory class."""
    if len(handles) > 255:
        raise InvalidDescriptorError(f"a tensor has at most 255 buffers, not {len(handles)}")
    for k, handle in enumerate(handles):
        try:
            check_handle(handle)
        except InvalidDescriptorError as error:
            raise InvalidDescriptorError(f"buffer {k}: {error}").at(field=f"buffers[{k}].{error.field}") from None
        first = handles[0].device
        if handle.device is not first and (
            handle.device.tag != first.tag or handle.device.memory_class_tag != first.memory_class_tag
        ):
            raise InvalidDescriptorError(
                f"all buffers share one device: buffer {k} is on {handle.device!r}, 0 on {first!r}"
            ).at(field=f"buffers[{k}].device_tag")


def _check_head(d: Descriptor) -> None:
    if d.buffer_handles:
        raise InvalidDescriptorError(f"a composite head owns no buffers, but the table has {d.buffer_count}").at(
            field="buffer_count"
        )
    if d.byte_offset:
        raise InvalidDescriptorError(f"a composite head has byte_offset 0, not {d.byte_offset}").at(field="byte_offset")
    if d.quantization is not None:
        raise InvalidDescriptorError("a composite head is never quantized").at(field="quantization")
    if d.member_role is not None:
        raise InvalidDescriptorError("a composite head carries no composite member section").at(
            field="composite_member"
        )


def _check_byte_offset(d: Descriptor) -> None:
    kind = d.layout.kind
    if kind in ("sparse", "indirect") and d.byte_offset:
        raise InvalidDescriptorError(f"layout {d.layout.name!r} has byte_offset 0, not {d.byte_offset}").at(
            field="byte_offset"
        )
    if d.buffer_handles and d.byte_offset > d.buffer_handles[0].byte_size:
        raise InvalidDescriptorError(
            f"byte_offset {d.byte_offset} lies behind buffer 0, which has {d.buffer_handles[0].byte_size} bytes"
        ).at(field="byte_offset")


def _check_sections(d: Descriptor) -> None:
    if d.shard is not None:
        if d.layout.name in _NO_SHARD:
            raise InvalidDescriptorError(f"a {d.layout.name} tensor may not be a shard").at(field="shard")
        try:
            d.shard.validate_against_shape(d.shape)
        except InvalidDescriptorError as error:
            raise error.at(field="shard") from None
    if d.statistics is not None and d.statistics.nnz is not None and d.layout.is_sparse:
        stored = d.layout.nnz  # type: ignore[attr-defined]
        if d.statistics.nnz != stored:
            raise InvalidDescriptorError(f"statistics nnz is {d.statistics.nnz}, but the layout's nnz is {stored}").at(
                field="statistics.nnz"
            )
