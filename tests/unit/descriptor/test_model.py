"""Descriptor and buffer handle as objects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.descriptor.codec import decode_descriptor
from hurray.descriptor.model import BufferHandle, Descriptor, handle_for

PRINTED = bytes.fromhex(
    "48525259 01 00 3d000000 00000000 03 01 02000000 0300000000000000 0400000000000000 0000000000000000"
    "01 c000000000000000 40000000 00 00 00 00"
)


def test_the_printed_example() -> None:
    d = hurray.Descriptor.decode(PRINTED)
    assert (d.dtype, d.shape, d.ndim, d.size, d.version) == (hurray.float32, (3, 4), 2, 12, (1, 0))
    assert (d.layout, d.byte_offset, d.buffer_count, d.encoded_len) == (hurray.RowMajorLayout(), 0, 1, 61)
    assert (d.quantization, d.statistics, d.shard, d.extension_type) == (None, None, None, None)
    handle = d.buffer_handles[0]
    assert (handle.byte_size, handle.alignment, handle.sync_mode, handle.is_empty) == (
        192,
        64,
        "producer_synced",
        False,
    )
    assert handle.device == d.device == hurray.device.cpu
    assert d.encode() == PRINTED
    assert hurray.Descriptor.decode(PRINTED + b"whatever") == d


@pytest.mark.parametrize(
    "as_given",
    [
        bytes,
        bytearray,
        memoryview,
        lambda b: np.frombuffer(b, np.uint8),
        lambda b: memoryview(b + bytes(3)).cast("d"),
        lambda b: memoryview(bytes(b)).cast("B", (1, len(b))),
    ],
)
def test_any_bytes_decode(as_given: Any) -> None:
    assert hurray.Descriptor.decode(as_given(PRINTED)).encode() == PRINTED


@pytest.mark.parametrize("data", ["HRRY", None, 3, [1, 2], object()])
def test_what_is_not_bytes_is_a_type_error(data: Any) -> None:
    with pytest.raises(TypeError):
        hurray.Descriptor.decode(data)


@pytest.mark.parametrize("length", range(len(PRINTED)))
def test_every_truncation_says_where(length: int) -> None:
    with pytest.raises(hurray.InvalidDescriptorError) as caught:
        hurray.Descriptor.decode(PRINTED[:length])
    assert caught.value.offset is not None
    assert caught.value.field is not None
    assert "descriptor" in str(caught.value)


@pytest.mark.parametrize(
    ("at", "value", "field"),
    [
        (0, 0, "magic"),
        (4, 2, "version_major"),
        (6, 19, "descriptor_length"),
        (10, 32, "flags"),
        (14, 0x47, "type_tag"),
        (15, 0x0C, "layout_tag"),
        (16, 65, "rank"),
        (57, 9, "buffers[0].device_tag"),
        (58, 3, "buffers[0].sync_mode"),
        (60, 1, "buffers[0].reserved"),
    ],
)
def test_errors_name_the_field(at: int, value: int, field: str) -> None:
    data = bytearray(PRINTED)
    data[at] = value
    with pytest.raises(hurray.InvalidDescriptorError) as caught:
        hurray.Descriptor.decode(bytes(data))
    assert caught.value.field == field
    assert field in str(caught.value)


def test_equal_by_value() -> None:
    a, b = hurray.Descriptor.decode(PRINTED), hurray.Descriptor.decode(PRINTED)
    assert a == b
    assert hash(a) == hash(b)
    assert a != hurray.zeros([3, 4]).descriptor
    assert a != PRINTED
    assert a != "descriptor"
    assert copy.copy(a) == copy.deepcopy(a) == pickle.loads(pickle.dumps(a)) == a
    assert repr(a) == "hurray.Descriptor(dtype=float32, shape=(3, 4), layout='row_major', buffers=1)"


def test_immutable() -> None:
    d = hurray.Descriptor.decode(PRINTED)
    for record in (d, d.buffer_handles[0]):
        for name in ("shape", "byte_size", "anything"):
            with pytest.raises(AttributeError, match=name):
                setattr(record, name, 1)
            with pytest.raises(AttributeError, match=name):
                delattr(record, name)


def test_the_builder() -> None:
    d = Descriptor.build(
        dtype=hurray.int8,
        shape=(4, 4),
        layout=hurray.RowMajorLayout(),
        buffer_sizes=(16, 16),
        quantization=hurray.PerChannelAffine.symmetric(0, 1),
        shard=hurray.Shard([8, 8], [4, 4]),
    )
    assert hurray.Descriptor.decode(d.encode()) == d
    with pytest.raises(hurray.InvalidDescriptorError):
        Descriptor.build(dtype=hurray.int8, shape=(4,), layout=hurray.CsrLayout(0), buffer_sizes=(0, 0, 16))


def test_handles_of_writers() -> None:
    assert handle_for(0).alignment == 1
    assert handle_for(1).alignment == 64
    assert handle_for(1, hurray.device.cuda).alignment == 4096
    assert handle_for(0).is_empty
    assert repr(handle_for(16)) == (
        "BufferHandle(byte_size=16, alignment=64, sync_mode='producer_synced', "
        "device=hurray.Device(kind='cpu', device_id=0, memory_class='standard'))"
    )
    assert handle_for(16) == BufferHandle(16, 64, hurray.device.cpu, "producer_synced")


@pytest.mark.parametrize("rank", range(12))
def test_the_short_way_and_the_general_way_agree(rank: int) -> None:
    # Ranks up to 8 are read by one struct; dynamic shapes, sections and other layouts never are.
    t = hurray.Tensor(bytes(4), hurray.float32, (1,) * rank, byte_offset=0)
    data = t.descriptor.encode()
    trace: list[Any] = []
    general = decode_descriptor(data, trace=trace)
    assert general == hurray.Descriptor.decode(data) == t.descriptor
    assert trace
    assert general.encode() == data
    for at in range(len(data)):
        for bit in (1, 0x80):
            changed = bytearray(data)
            changed[at] ^= bit
            outcomes = []
            for tracing in (None, []):
                try:
                    outcomes.append(decode_descriptor(bytes(changed), trace=tracing))
                except hurray.InvalidDescriptorError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]


def test_size() -> None:
    assert hurray.Tensor(bytes(4), hurray.int8, []).size == 1
    assert hurray.Tensor(b"", hurray.int8, [0, 2**60, 2**60]).size == 0
    assert hurray.Tensor(bytes(4), hurray.int8, [None, 4]).size is None
