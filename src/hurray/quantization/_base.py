"""What a quantization scheme is: payload fields, parameter buffers, and the formula.

A scheme maps codes (stored elements) to float32 values and back; the layout places the codes, ``Tensor`` composes
the two.

Format: quantization.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import Dtype
from hurray.errors import InvalidDescriptorError
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["ParamSpec", "Params", "Quantized", "Scheme", "SchemeContext", "UnknownScheme"]

Bytes = NDArray[np.uint8]
Float32 = NDArray[np.float32]

#: the zero-point index of a symmetric scheme
UNSET_INDEX = 0xFFFFFFFF


class ParamSpec(NamedTuple):
    """One parameter buffer: its index in the buffer table, its role, and its exact size in bytes."""

    index: int  # type: ignore[assignment]  # a field hides tuple.index
    role: str
    n_bytes: int


@record(kw_only=True)
class SchemeContext:
    """What a scheme is checked against when a descriptor is decoded or built.

    ``shape`` may hold None (dynamic); ``layout_name`` and ``layout`` are those of the tensor; ``layout_buffers`` is the
    number of buffers that belong to the layout itself, ``buffer_count`` that of the whole table (None: still unknown).
    """

    dtype: Dtype
    shape: tuple[int | None, ...]
    layout: Any
    layout_buffers: int
    buffer_count: int | None


@record(kw_only=True)
class Params:
    """What dequantizing needs beside codes: the logical shape, the storage type, the layout, all buffers as uint8."""

    shape: tuple[int, ...]
    dtype: Dtype
    layout: Any
    buffers: tuple[Bytes, ...]


class Quantized(NamedTuple):
    """The result of quantizing: codes in the logical shape, the scheme, and its parameter buffers."""

    codes: NDArray[Any]
    scheme: Scheme
    buffers: tuple[Bytes, ...]


class Scheme:
    """Base of all schemes; not constructible itself.  Schemes are immutable and equal by value.

    Format: quantization.
    """

    __slots__ = ()

    tag: ClassVar[int]
    name: ClassVar[str]
    version: ClassVar[int] = 1
    #: names of the storage types that the scheme allows
    storage_types: ClassVar[frozenset[str]]
    #: payload bytes that the scheme needs, its 4-byte head included
    payload_bytes: ClassVar[int]

    #: bytes behind the known fields, kept for relay (a later minor version may append some)
    trailing: bytes

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        if cls is Scheme:
            raise TypeError("Scheme cannot be constructed; use PerTensorAffine(...), NF4(...) and so on")
        return object.__new__(cls)

    # Wire payload

    @classmethod
    def parse_fields(cls, r: Reader, flags: int) -> Self:
        """Read the fields behind the 4-byte head; bytes that remain in ``r`` are kept as ``trailing``."""
        raise NotImplementedError

    def write_fields(self, w: Writer) -> None:
        """Append the fields behind the 4-byte head (``trailing`` is appended by :meth:`encode`)."""
        raise NotImplementedError

    @property
    def flags(self) -> int:
        """The flags of the payload's head."""
        return 0

    def encode(self) -> bytes:
        """Return the payload of the quantization section, without its length prefix."""
        w = Writer()
        w.u8(self.tag)
        w.u8(self.version)
        w.u16(self.flags)
        self.write_fields(w)
        w.raw(self.trailing)
        return w.getvalue()

    # Rules

    def check(self, context: SchemeContext) -> None:
        """Check axis, block size, storage type, indices and inline parameters.

        Raises
        ------
        InvalidDescriptorError
            A limit of the scheme is broken.
        """
        raise NotImplementedError

    def buffer_indices(self) -> tuple[int, ...]:
        """Return the distinct indices of the scheme's parameter buffers, ascending."""
        raise NotImplementedError

    def param_specs(self, shape: tuple[int, ...], layout: Any) -> tuple[ParamSpec, ...]:
        """Return the parameter buffers with their exact sizes for a shape without dynamic dimensions."""
        raise NotImplementedError

    def check_values(self, params: Params) -> None:
        """Check the values inside the parameter buffers (scales finite, zero points in range).

        Raises
        ------
        InvalidDescriptorError
            A value is not legal; its index is named.
        """
        raise NotImplementedError

    # Values

    def dequantize(
        self, codes: NDArray[Any], region: Sequence[Any], params: Params, out: Float32 | None = None
    ) -> Float32:
        """Return the float32 values of the codes of a region of the logical shape."""
        raise NotImplementedError

    def dequantize_stored(self, codes: NDArray[Any], coords: NDArray[np.int64], params: Params) -> Float32:
        """Return the float32 values of stored elements: codes (n,), logical coordinates (n, rank)."""
        raise NotImplementedError

    def dequantize_slots(
        self, codes: NDArray[Any], slots: NDArray[np.int64], params: Params, region: Sequence[Any] | None = None
    ) -> Float32:
        """Return the float32 values of block-paged tokens: codes (n, heads, dim), pool slots (n,).

        ``region`` tells which heads and dimensions the codes are of (None: all); its first entry is not looked at.
        """
        raise NotImplementedError

    def dequantize_packed(self, params: Params, byte_offset: int, out: Float32) -> bool:
        """Fill ``out`` from a whole row-major buffer 0 without unpacking it first; False when there is no such path."""
        return False


@record
class UnknownScheme:
    """A quantization payload that this version cannot interpret, kept for relay by permissive readers."""

    raw: bytes

    @property
    def tag(self) -> int | None:
        """The scheme tag, where there is one."""
        return self.raw[0] if self.raw else None

    def encode(self) -> bytes:
        """Return the payload as it was read."""
        return self.raw


def check_storage(scheme: Scheme, dtype: Dtype) -> None:
    """Refuse a storage type that the scheme does not allow."""
    if dtype.name not in scheme.storage_types:
        allowed = ", ".join(sorted(scheme.storage_types))
        raise InvalidDescriptorError(f"scheme {scheme.name} cannot store {dtype.name}; it stores {allowed}").at(
            field="type_tag"
        )
