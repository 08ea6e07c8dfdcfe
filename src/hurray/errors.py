"""The errors of the library.

::

    HurrayError
    ├── InvalidDescriptorError (ValueError)          bytes or arguments that break the format
    ├── BufferError            (ValueError)          a buffer too small, misaligned or missing
    ├── UnsupportedError       (NotImplementedError) legal, but not possible here
    ├── CopyRequiredError      (ValueError)          ``copy=False`` could not be honoured
    ├── FileError              (OSError)             container or file problem
    ├── StreamError            (OSError)             broken or truncated stream
    ├── ProtocolError          (OSError)             a network peer broke the protocol
    └── InternalError          (RuntimeError)        a fault of the library itself

Every message names what was read, what was expected and where.  ``field``, ``offset`` and ``tensor`` repeat the
place for programs: the field path, the byte offset inside what was read, the tensor's name.
"""

from __future__ import annotations

__all__ = [
    "ArgumentTypeError",
    "BufferError",
    "BufferTypeError",
    "CopyRequiredError",
    "FileError",
    "HurrayError",
    "InternalError",
    "InvalidDescriptorError",
    "ProtocolError",
    "StreamError",
    "UnsupportedError",
]


class HurrayError(Exception):
    """Base of every error that the library raises on purpose.

    Attributes
    ----------
    field : str or None
        Path of the field at fault, such as ``layout.tile_shape[1]``.
    offset : int or None
        Byte offset of that field inside the bytes that were read.
    tensor : str or None
        Name of the tensor, where one is known.
    """

    field: str | None = None
    offset: int | None = None
    tensor: str | None = None

    def at(self, *, field: str | None = None, offset: int | None = None, tensor: str | None = None) -> HurrayError:
        """Fill in the place of the fault where it is still unknown, and return the error."""
        if self.field is None:
            self.field = field
        if self.offset is None:
            self.offset = offset
        if self.tensor is None and tensor is not None:
            self.tensor = tensor
            if self.args and isinstance(self.args[-1], str) and repr(tensor) not in self.args[-1]:
                self.args = (*self.args[:-1], f"tensor {tensor!r}: {self.args[-1]}")
        return self


class InvalidDescriptorError(HurrayError, ValueError):
    """Bytes or arguments break a rule of the format."""


class BufferError(HurrayError, ValueError):
    """A buffer is too small, misaligned or missing."""


class UnsupportedError(HurrayError, NotImplementedError):
    """The request is legal in the format, but cannot be met here."""


class CopyRequiredError(HurrayError, ValueError):
    """``copy=False`` was asked for, but the result needs a copy."""


class FileError(HurrayError, OSError):
    """A file is missing, unreadable, not a Hurray file, or corrupt.

    ``errno`` and ``filename`` are kept when the operating system gave them.
    """

    def __init__(self, message: str, *, errno: int | None = None, filename: str | None = None) -> None:
        super().__init__(message)
        self.errno = errno
        self.filename = filename

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_file_error, (type(self), str(self), self.errno, self.filename)


class StreamError(HurrayError, OSError):
    """A stream is broken: it ends inside a tensor, breaks a limit, or was used after its end."""


class ProtocolError(HurrayError, OSError):
    """A network peer broke the protocol, or answered with an ERROR message.

    Attributes
    ----------
    code : int or None
        The error code of the message, where there was one.
    """

    code: int | None = None


class ArgumentTypeError(InvalidDescriptorError, TypeError):
    """An argument is of a wrong type.

    Programs catch such mistakes as either class: TypeError is what Python calls them, and the published binding raises
    InvalidDescriptorError for these arguments.
    """


class BufferTypeError(BufferError, TypeError):
    """An object given as a buffer has no memory to share; like :class:`ArgumentTypeError`, both classes catch it."""


class InternalError(HurrayError, RuntimeError):
    """A fault of the library itself: please report it."""


def _rebuild_file_error(cls: type[FileError], message: str, errno: int | None, filename: str | None) -> FileError:
    return cls(message, errno=errno, filename=filename)
