"""The tensor descriptor: its model, its codec and the rules that tie its parts together.

Format: descriptor.
"""

from __future__ import annotations

from hurray.descriptor.codec import decode_descriptor, descriptor_length, encode_descriptor
from hurray.descriptor.model import BufferHandle, Descriptor
from hurray.descriptor.sections import ExtensionType, Shard, Statistics

__all__ = [
    "BufferHandle",
    "Descriptor",
    "ExtensionType",
    "Shard",
    "Statistics",
    "decode_descriptor",
    "descriptor_length",
    "encode_descriptor",
]
