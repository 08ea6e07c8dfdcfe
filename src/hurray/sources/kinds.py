"""What a file is that is not what it should be, so that errors can say so.

A wrong file is most often a whole one of another format, or what a download left in its place.
"""

from __future__ import annotations

__all__ = ["kind_hint"]

#: how contents start, and what they are
_STARTS = (
    (b"HRRYFILE", "a Hurray file: hurray.open opens it"),
    (b"HRRY\x01", "a Hurray stream or a bare descriptor: use hurray.StreamReader"),
    (b"PK\x03\x04", "a zip archive, such as npz (hurray.from_npz opens it) or a PyTorch checkpoint"),
    (b"\x93NUMPY", "an npy file: hurray.from_npy opens it"),
    (b"GGUF", "a GGUF file: hurray.from_gguf opens it"),
    (b"%%MatrixMarket", "a MatrixMarket file: hurray.from_matrixmarket reads it"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file: read its arrays with h5py, and save them"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x80\x02", "a pickle, such as an old PyTorch checkpoint"),
    (b"\x1f\x8b", "gzip-compressed: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed: decompress it first"),
    (b"version https://git-lfs", "a Git LFS pointer: the content itself was not downloaded (git lfs pull)"),
    (b"<!doctype html", "a web page, such as an error message in place of a download"),
    (b"<html", "a web page, such as an error message in place of a download"),
    (b"<?xml", "an XML document, such as an error message in place of a download"),
)


def kind_hint(head: bytes) -> str:
    r"""Return what the content that starts with ``head`` looks like, to be put behind a message; empty when unknown.

    Examples
    --------
    >>> kind_hint(b"GGUF\x03\0\0\0")
    '; it looks like a GGUF file: hurray.from_gguf opens it'
    """
    lower = head[:64].lstrip().lower()
    for start, what in _STARTS:
        if head.startswith(start) or (start[:1] == b"<" and lower.startswith(start)):
            return f"; it looks like {what}" if not what.startswith(("gzip", "zstd")) else f"; it is {what}"
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32:
        return "; it looks like a safetensors file: hurray.from_safetensors opens it"
    if head and not head.strip(b"\0"):
        return "; it starts with zeros only, as a file does whose download was not finished"
    return ""
