"""GGUF files in, by a reader of our own.

Plain tensors are views of the mapped file.  A quantized tensor keeps its quantization where a scheme of this format
gives the same values bit for bit; its blocks are taken apart into codes and scales when it is asked for.  What cannot
be kept is refused when the file is opened, with a list, unless the caller chooses otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.table import BY_NAME
from hurray.errors import UnsupportedError
from hurray.interop._gguf_header import Entry, Head, Key, read_head
from hurray.interop._gguf_kinds import Kind, decode, is_exact, keep
from hurray.interop._report import (
    DEQUANTIZED,
    KEPT,
    REFUSED,
    SKIPPED,
    UNDECIDED,
    WIDENED,
    ImportReport,
    ReportRow,
)
from hurray.sources import Source, open_source
from hurray.tensor.relayout import new_descriptor
from hurray.tensor.tensor import Tensor

__all__ = ["GgufFile", "from_gguf"]

Other = Literal["refuse", "dequantize", "skip"]

#: value types that the metadata of this format have not, and what holds their values here
_WIDER = dict.fromkeys(("uint8", "int8", "uint16", "int16", "uint32", "int32"), "int64") | {"float32": "float64"}
_SHOWN = 20


class GgufFile(Mapping[str, Tensor]):
    """A GGUF file as a lazy read-only mapping from names to tensors.

    Tensors stay valid after :meth:`close`: they keep the mapped memory alive, or have their own.

    Attributes
    ----------
    kv : dict
        The metadata: str (bytes where it is not UTF-8), int, float, bool, and lists of one of them.
    report : ImportReport
        What became of each tensor and key; complete once every tensor has been read.
    """

    def __init__(self, source: Source, head: Head, other: Other) -> None:
        self._source = source
        self._other = other
        self.report = ImportReport()
        self.kv: dict[str, Any] = {}
        self._entries: dict[str, Entry] = {}
        self._read_keys(head.keys)
        for name, entry in head.entries.items():
            row = self._judge(name, entry)
            self.report.add(row)
            if row.outcome not in (REFUSED, SKIPPED):
                self._entries[name] = entry
        refused = [row for row in self.report if row.outcome == REFUSED]
        if refused and (other == "refuse" or any(row.what == "tensor" for row in refused)):
            raise UnsupportedError(_refusal(source.name, refused, other))

    def _read_keys(self, keys: Mapping[str, Key]) -> None:
        for name, (kind, value, refused) in keys.items():
            if refused:
                outcome = REFUSED if self._other == "refuse" else SKIPPED
                self.report.add(ReportRow("key", name, kind, outcome, note=refused))
                continue
            self.kv[name] = value
            base = kind.removeprefix("array of ")
            target, note = kind.replace(base, _WIDER.get(base, base)), ""
            if base == "string" and isinstance(value[0] if isinstance(value, list) and value else value, bytes):
                target, note = kind.replace(base, "bytes"), "not UTF-8"
            elif value == []:
                target, note = "array of string", "empty"
            self.report.add(ReportRow("key", name, kind, WIDENED if base in _WIDER else KEPT, target, note))

    def _judge(self, name: str, entry: Entry) -> ReportRow:
        """Say what will become of a tensor, as far as that is known before it is read."""
        kind, given = entry.kind, entry.kind_name
        if kind is None:
            note, fate = "its size is unknown", None
        elif kind.is_plain:
            return ReportRow("tensor", name, given, KEPT, kind.target)
        elif kind.dtype is not None:
            return self._judge_quantized(name, entry, kind)
        elif kind.split is not None:
            note, fate = "its minima are no whole steps", DEQUANTIZED
        else:
            note, fate = "it needs tables that this library has not", None
        if self._other == "skip":
            return ReportRow("tensor", name, given, SKIPPED, note=note)
        if self._other == "dequantize" and fate is not None:
            return ReportRow("tensor", name, given, fate, "float32")
        return ReportRow("tensor", name, given, REFUSED, note=note)

    def _judge_quantized(self, name: str, entry: Entry, kind: Kind) -> ReportRow:
        if not kind.by_data:
            return ReportRow("tensor", name, kind.name, WIDENED if kind.is_widened else KEPT, kind.target)
        # Leaving out what cannot be kept means to know it before the names are shown.
        if self._other == "skip" and not is_exact(kind, self._data(entry)):
            return ReportRow("tensor", name, kind.name, SKIPPED, note="its minima are no whole steps")
        return ReportRow("tensor", name, kind.name, UNDECIDED, kind.target)

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in the order of the file."""
        return list(self._entries)

    def __getitem__(self, name: str) -> Tensor:
        entry = self._entries[name]
        kind = entry.kind
        assert kind is not None
        data = self._data(entry)
        if kind.is_plain:
            return Tensor._from_parts(new_descriptor(BY_NAME[kind.target], entry.shape, len(data)), (data,))
        kept = keep(kind, data, entry.shape) if kind.dtype is not None else None
        if kept is not None:
            outcome = WIDENED if kind.is_widened else KEPT
            self.report.add(ReportRow("tensor", name, kind.name, outcome, kind.target))
            return kept
        if self._other == "dequantize":
            self.report.add(ReportRow("tensor", name, kind.name, DEQUANTIZED, "float32"))
            return decode(kind, data, entry.shape)
        self.report.add(ReportRow("tensor", name, kind.name, REFUSED, note="its values have no scheme here"))
        raise UnsupportedError(
            f"tensor {name!r} is {kind.name}, and {_reason(kind)}; open the file with other='dequantize' to have its "
            "values as float32"
        )

    def _data(self, entry: Entry) -> NDArray[np.uint8]:
        return self._source.view(entry.offset, entry.n_bytes) if entry.n_bytes else np.empty(0, np.uint8)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def close(self) -> None:
        """Close the file; tensors that were taken stay valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<GgufFile of {len(self)} tensors>"


def from_gguf(path: str | os.PathLike[str] | bytes | BinaryIO, *, other: Other = "refuse") -> GgufFile:
    """Open a GGUF file as a lazy mapping.

    Parameters
    ----------
    path : path, URL, bytes or binary file object
        A little-endian file of version 2 or 3.
    other : {"refuse", "dequantize", "skip"}
        What becomes of tensors whose quantization cannot be kept bit for bit (Q2_K, Q4_K, Q5_K; Q4_1 and Q5_1 when a
        minimum is no whole number of steps; the other IQ kinds, which cannot be dequantized either): refuse the file
        (Q4_1 and Q5_1: the tensor, when it is asked for), give float32, or leave them out.

    Returns
    -------
    GgufFile
        Mapping from names to tensors, dimensions in NumPy's order; ``kv`` holds the metadata, ``report`` says what was
        kept.

    Raises
    ------
    FileError
        The file is missing, or breaks a rule of the format.
    UnsupportedError
        It is of another version or byte order, or has tensors that cannot be kept; they are listed.
    """
    if other not in get_args(Other):
        raise ValueError(f"other is one of {', '.join(map(repr, get_args(Other)))}, not {other!r}")
    source = open_source(path)
    try:
        return GgufFile(source, read_head(source), other)
    except BaseException:
        source.close()
        raise


def _reason(kind: Kind) -> str:
    if kind.by_data:
        return "a minimum in it is no whole number of steps, as a zero point must be"
    return "a scale in it is one that no scheme allows"


def _refusal(path: str, refused: list[ReportRow], other: Other) -> str:
    lines = [f"  {row.what} {row.name}: {row.source} ({row.note})" for row in refused[:_SHOWN]]
    if len(refused) > _SHOWN:
        lines.append(f"  ... and {len(refused) - _SHOWN} more")
    advice = "open it with other='dequantize' (float32 where possible) or other='skip' (leave them out)"
    if other == "dequantize":
        advice = "open it with other='skip' to leave them out"
    return f"{path}: {len(refused)} parts cannot be kept as they are; {advice}:\n" + "\n".join(lines)
