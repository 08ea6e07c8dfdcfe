"""Foreign objects and files: one module for each, and one table of the files.

A converter's module, and the optional packages that it may need, are imported when it is first used.
"""

from __future__ import annotations

import os
from typing import Any

from hurray.errors import UnsupportedError
from hurray.interop._base import Converter, Tensors, TensorSet

__all__ = ["CONVERTERS", "Converter", "TensorSet", "Tensors", "find_converter"]

#: Every foreign file format.  Longer endings come before those that they end with.
CONVERTERS: tuple[Converter, ...] = (
    Converter(
        "safetensors",
        (".safetensors", ".safetensors.index.json"),
        "hurray.interop.safetensors",
        "from_safetensors",
        "to_safetensors",
        passes=2,
    ),
    Converter("gguf", (".gguf",), "hurray.interop.gguf", "from_gguf", None, options=("other",)),
    # These look like safetensors files, so their endings cannot tell; they are asked for by name.
    Converter("bitsandbytes", (), "hurray.interop.bitsandbytes", "from_bitsandbytes", None, options=("other",)),
    Converter(
        "compressed-tensors",
        (),
        "hurray.interop.compressed_tensors",
        "from_compressed_tensors",
        None,
        options=("config", "other"),
    ),
    Converter("npz", (".npz",), "hurray.interop.npz", "from_npz", "to_npz"),
    Converter(
        "matrixmarket",
        (".mtx", ".mtx.gz"),
        "hurray.interop.matrixmarket",
        "read_matrixmarket_set",
        "write_matrixmarket_set",
    ),
    Converter("frostt", (".tns", ".tns.gz"), "hurray.interop.frostt", "read_frostt_set", "write_frostt_set"),
    Converter("npy", (".npy",), "hurray.interop.npz", "read_npy_set", "write_npy_set"),
)


def find_converter(path: Any, name: str | None = None) -> Converter | None:
    """Return the converter called ``name``, or the one that knows the ending of ``path``; None where there is none.

    Raises
    ------
    UnsupportedError
        No converter is called ``name``.
    """
    if name is not None:
        for row in CONVERTERS:
            if row.name == name:
                return row
        known = ", ".join(row.name for row in CONVERTERS)
        raise UnsupportedError(f"unknown format {name!r}; known: hurray, stream, {known}")
    if not isinstance(path, (str, os.PathLike)):
        return None
    ending = os.fspath(path).lower()
    return next((row for row in CONVERTERS if ending.endswith(row.suffixes)), None)
