"""Sources and sinks behind URLs, through the optional package fsspec."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from hurray.errors import FileError, HurrayError, UnsupportedError
from hurray.sources._base import FileMissingError, file_error
from hurray.sources.file import FileObjectSource

__all__ = ["create_url", "open_url"]


def _fsspec() -> Any:
    try:
        return importlib.import_module("fsspec")
    except ImportError:
        raise UnsupportedError(
            "URLs need the package fsspec: pip install fsspec (local files need a plain path)"
        ) from None


def _filesystem(url: str) -> tuple[Any, str]:
    core = _fsspec()
    try:
        fs, path = core.core.url_to_fs(url)
    except ImportError as error:
        raise UnsupportedError(f"{url!r} needs another package: {error}") from None
    except (ValueError, OSError) as error:
        raise FileError(f"cannot open {url!r}: {error}", filename=url) from None
    return fs, path


def open_url(url: str) -> FileObjectSource:
    """Open a URL for random access; each byte range is fetched when it is asked for.

    Raises
    ------
    FileError
        The URL does not exist or cannot be reached.
    UnsupportedError
        fsspec, or a package that it needs for this kind of URL, is not installed.
    """
    fs, path = _filesystem(url)
    try:
        # Whole-file read-ahead would fetch what nobody asked for, so ranges are not cached beyond one block.
        target = fs.open(path, "rb", block_size=1 << 20)
    except FileNotFoundError:
        raise FileMissingError(f"cannot open {url!r}: it does not exist", errno=2, filename=url) from None
    except OSError as error:
        raise file_error(error, url, "open") from None
    except Exception as error:  # the remote libraries raise classes of their own
        if isinstance(error, HurrayError):
            raise
        raise FileError(f"cannot open {url!r}: {error}", filename=url) from None
    return FileObjectSource(target, url, owned=True)


def create_url(url: str) -> tuple[Any, Callable[[], None]]:
    """Open a URL for writing.

    Returns
    -------
    target : file object
        It has ``commit`` and ``discard``, where its kind of file system has them.
    undo : callable
        Removes what discarding leaves behind on file systems without transactions.

    Raises
    ------
    FileError
        The URL cannot be written.
    """
    fs, path = _filesystem(url)
    try:
        existed = fs.exists(path)
        target = fs.open(path, "wb", autocommit=False)
    except (OSError, ValueError, NotImplementedError) as error:
        raise FileError(f"cannot write {url!r}: {error}", filename=url) from None

    def undo() -> None:
        if not existed and fs.exists(path):
            fs.rm_file(path)

    return target, undo
