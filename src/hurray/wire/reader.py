"""A cursor over untrusted bytes.

Every read names the field that it is about to read, so that an error can say where the input broke, and so that a
trace of all fields (``hurray inspect``) costs the parsers nothing extra.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, NoReturn

from hurray.errors import FileError, HurrayError, InvalidDescriptorError

__all__ = ["Field", "Reader"]

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_F32 = struct.Struct("<f")
_F64 = struct.Struct("<d")


class Field(NamedTuple):
    """One field as it was read: where, how long, its path and its value."""

    offset: int
    n_bytes: int
    path: str
    value: object


class Reader:
    """Read little-endian fields from ``data[offset:end]`` without ever reading past ``end``.

    Parameters
    ----------
    data : bytes, bytearray or memoryview
        The input; a memoryview must be of bytes.
    offset, end : int
        Where to start and where to stop, in bytes; ``end`` None means the end of the input.
    error : type of HurrayError
        Raised for any violation.
    what : str
        What is being read, for messages.
    trace : list of Field, optional
        Receives every field that is read.
    """

    __slots__ = ("_data", "_end", "_error", "_offset", "_prefix", "_trace", "what")

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        offset: int = 0,
        end: int | None = None,
        *,
        error: type[HurrayError] = InvalidDescriptorError,
        what: str = "descriptor",
        trace: list[Field] | None = None,
    ) -> None:
        self._data = data
        self._offset = offset
        self._end = len(data) if end is None else min(end, len(data))
        self._error = error
        self._prefix = ""
        self._trace = trace
        self.what = what

    @property
    def offset(self) -> int:
        """Offset of the next byte."""
        return self._offset

    @property
    def end(self) -> int:
        """Offset behind the last byte that may be read."""
        return self._end

    @property
    def is_traced(self) -> bool:
        """True when every field is noted."""
        return self._trace is not None

    def peek(self, n_bytes: int) -> bytes | bytearray | memoryview:
        """Return the next ``n_bytes`` bytes, which the caller has checked to be there, without reading them."""
        return self._data[self._offset : self._offset + n_bytes]

    def skip(self, n_bytes: int) -> None:
        """Pass over bytes that were read by :meth:`peek`."""
        self._offset += n_bytes

    @property
    def remaining(self) -> int:
        """Number of bytes left."""
        return self._end - self._offset

    def limit(self, end: int) -> None:
        """Move the end of the readable range to ``end``, which the caller has checked."""
        self._end = end

    def find(self, field: str) -> Field | None:
        """Return the first traced field with the path ``field``, inside the prefix or whole, or the first one below."""
        for path in dict.fromkeys((self._prefix + field, field)):
            for found in self._trace or ():
                if found.path == path or found.path.startswith((f"{path}.", f"{path}[")):
                    return found
        return None

    def fail(
        self, message: str, *, field: str | None = None, offset: int | None = None, absolute: bool = False
    ) -> NoReturn:
        """Raise the reader's error for ``field`` (default: at the cursor), a path inside the prefix or a whole one."""
        at = self._offset if offset is None else offset
        path = field if field is None or absolute else self._prefix + field
        place = f"{self.what}, byte {at}" if path is None else f"{self.what}, {path} at byte {at}"
        error = self._error(f"{place}: {message}")
        if isinstance(error, FileError):
            error.errno = None
        raise error.at(field=path, offset=at)

    def inside(self, prefix: str) -> _Scope:
        """Prepend ``prefix`` and a dot to the paths of the fields read in a ``with`` block."""
        return _Scope(self, prefix)

    def _claim(self, n_bytes: int, field: str) -> int:
        at = self._offset
        if n_bytes > self._end - at:
            self.fail(f"needs {n_bytes} bytes, but only {self._end - at} are left", field=field)
        self._offset = at + n_bytes
        return at

    def _note(self, at: int, n_bytes: int, field: str, value: object) -> None:
        if self._trace is not None:
            self._trace.append(Field(at, n_bytes, self._prefix + field, value))

    def u8(self, field: str) -> int:
        """Read an unsigned byte."""
        at = self._claim(1, field)
        value = self._data[at]
        self._note(at, 1, field, value)
        return value

    def u16(self, field: str) -> int:
        """Read a u16."""
        return self._int(_U16, field)

    def u32(self, field: str) -> int:
        """Read a u32."""
        return self._int(_U32, field)

    def u64(self, field: str) -> int:
        """Read a u64."""
        return self._int(_U64, field)

    def i32(self, field: str) -> int:
        """Read an i32."""
        return self._int(_I32, field)

    def i64(self, field: str) -> int:
        """Read an i64."""
        return self._int(_I64, field)

    def f32(self, field: str) -> float:
        """Read an f32, widened exactly (a signalling NaN may come back quiet)."""
        return self._float(_F32, field)

    def f64(self, field: str) -> float:
        """Read an f64."""
        return self._float(_F64, field)

    def take(self, n_bytes: int, field: str) -> bytes:
        """Read ``n_bytes`` raw bytes as a copy."""
        at = self._claim(n_bytes, field)
        value = bytes(self._data[at : at + n_bytes])
        self._note(at, n_bytes, field, value)
        return value

    def u32s(self, count: int, field: str) -> tuple[int, ...]:
        """Read ``count`` u32 values."""
        return self._array("I", 4, count, field)

    def u64s(self, count: int, field: str) -> tuple[int, ...]:
        """Read ``count`` u64 values."""
        return self._array("Q", 8, count, field)

    def i64s(self, count: int, field: str) -> tuple[int, ...]:
        """Read ``count`` i64 values."""
        return self._array("q", 8, count, field)

    def reserved(self, n_bytes: int, field: str = "reserved") -> None:
        """Read ``n_bytes`` reserved bytes, which must be zero."""
        at = self._offset
        value = self.take(n_bytes, field)
        if any(value):
            self.fail(f"reserved bytes must be 0, but hold {value.hex()}", field=field, offset=at)

    def flag(self, field: str) -> bool:
        """Read a byte that may be 0 or 1."""
        at = self._offset
        value = self.u8(field)
        if value > 1:
            self.fail(f"must be 0 or 1, but is {value}", field=field, offset=at)
        return value == 1

    def _int(self, kind: struct.Struct, field: str) -> int:
        at = self._offset
        if at + kind.size > self._end:
            self._claim(kind.size, field)
        self._offset = at + kind.size
        value: int = kind.unpack_from(self._data, at)[0]
        if self._trace is not None:
            self._note(at, kind.size, field, value)
        return value

    def _float(self, kind: struct.Struct, field: str) -> float:
        at = self._claim(kind.size, field)
        value: float = kind.unpack_from(self._data, at)[0]
        self._note(at, kind.size, field, value)
        return value

    def _array(self, code: str, width: int, count: int, field: str) -> tuple[int, ...]:
        # The bytes are claimed before anything is sized by ``count``, so a lie costs nothing.
        at = self._claim(count * width, field)
        values: tuple[int, ...] = struct.unpack_from(f"<{count}{code}", self._data, at)
        if self._trace is not None:
            for k, value in enumerate(values):
                self._note(at + k * width, width, f"{field}[{k}]", value)
        return values


class _Scope:
    """A prefix of field paths for the time of a ``with`` block."""

    __slots__ = ("_before", "_prefix", "_reader")

    def __init__(self, reader: Reader, prefix: str) -> None:
        self._reader = reader
        self._prefix = prefix
        self._before = ""

    def __enter__(self) -> None:
        self._before = self._reader._prefix
        self._reader._prefix = f"{self._before}{self._prefix}."

    def __exit__(self, *_: object) -> None:
        self._reader._prefix = self._before
