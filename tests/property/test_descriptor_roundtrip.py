"""Descriptors of every layout with every section: decode and encode are inverses, and damage gives our errors."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import hurray
from hurray.descriptor.codec import decode_descriptor, encode_descriptor
from hurray.descriptor.model import Descriptor
from strategies import descriptors


@settings(max_examples=400)
@given(descriptors())
def test_decode_inverts_encode(d: Descriptor) -> None:
    raw = encode_descriptor(d)
    again = decode_descriptor(raw + b"what follows is not looked at")
    assert again == d
    assert encode_descriptor(again) == raw
    for field in (
        "dtype",
        "shape",
        "layout",
        "buffer_handles",
        "byte_offset",
        "quantization",
        "shard",
        "statistics",
        "extension_type",
        "member_role",
        "version",
        "trailing",
    ):
        assert getattr(again, field) == getattr(d, field), field
    assert again.encoded_len == len(raw)
    assert hash(again) == hash(d)


@settings(max_examples=60)
@given(descriptors())
def test_every_truncation_is_refused(d: Descriptor) -> None:
    raw = encode_descriptor(d)
    for n in range(len(raw)):
        try:
            decode_descriptor(raw[:n])
        except hurray.InvalidDescriptorError as error:
            assert len(str(error)) > 15
        else:
            raise AssertionError(f"{n} of {len(raw)} bytes were accepted")


@settings(max_examples=150)
@given(descriptors(), st.data())
def test_a_flipped_bit_gives_a_value_or_our_error(d: Descriptor, data: st.DataObject) -> None:
    raw = bytearray(encode_descriptor(d))
    at = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[at // 8] ^= 1 << at % 8
    for permissive in (False, True):
        try:
            decoded = decode_descriptor(bytes(raw), permissive=permissive)
        except hurray.InvalidDescriptorError:
            continue
        length = int.from_bytes(raw[6:10], "little")
        again = encode_descriptor(decoded)
        assert len(again) == length
        if decoded.statistics is None:
            assert again == bytes(raw[:length])
        else:
            # A statistic whose mask bit is clear is read as unknown, whatever its bytes, and written as zero.
            assert decode_descriptor(again, permissive=permissive) == decoded


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 0xFF), st.integers(0, 0xFF), st.integers(0, 31))
def test_random_bodies_give_a_value_or_our_error(body: bytes, dtype: int, layout: int, flags: int) -> None:
    length = 20 + len(body)
    rank = min(len(body), 3)
    head = b"HRRY\x01\x00" + length.to_bytes(4, "little") + flags.to_bytes(4, "little")
    head += bytes([dtype, layout]) + rank.to_bytes(4, "little")
    for permissive in (False, True):
        try:
            decoded = decode_descriptor(head + body, permissive=permissive)
        except hurray.InvalidDescriptorError:
            continue
        assert encode_descriptor(decoded) == head + body
