"""Checkpoints in safetensors files whose quantized tensors are spread over several entries.

A quantization library stores codes, scales and the rest as plain entries beside each other.  Here they become one
quantized tensor again; every other entry passes through as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.check import check_descriptor
from hurray.descriptor.model import Descriptor, handle_for
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import FileError, UnsupportedError
from hurray.interop._report import DEQUANTIZED, KEPT, REFUSED, SKIPPED, ImportReport, ReportRow
from hurray.interop._safetensors_header import shown
from hurray.interop.safetensors import SafetensorsFile
from hurray.layouts.row_major import RowMajorLayout
from hurray.quantization._base import Scheme
from hurray.tensor.relayout import new_descriptor
from hurray.tensor.tensor import Tensor

__all__ = ["Checkpoint", "NotExactError", "Other", "Quantized", "check_other"]

Other = Literal["refuse", "dequantize", "skip"]
Bytes = NDArray[np.uint8]
_SHOWN = 20


class NotExactError(Exception):
    """Stored data have no equal in the format; says why."""


class Quantized:
    """One quantized tensor of a checkpoint.

    Parameters
    ----------
    name : str
        What the tensor is called here.
    parts : sequence of str
        The entries that it is made of; they are not shown themselves.
    source, target : str
        Its form there, and here (empty: it cannot be kept).
    note : str
        Why it cannot be kept, or what is special about it.
    keep, decode : callable or None
        Make the quantized tensor, and its float32 values; None where that is impossible.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[str],
        source: str,
        target: str = "",
        note: str = "",
        keep: Callable[[], Tensor] | None = None,
        decode: Callable[[], NDArray[np.float32]] | None = None,
        prefer_decode: bool = False,
    ) -> None:
        self.name = name
        self.parts = tuple(parts)
        self.source = source
        self.target = target
        self.note = note
        self.keep = keep
        self.decode = decode
        self.prefer_decode = prefer_decode

    def row(self, other: Other) -> ReportRow:
        """Return what will become of the tensor."""
        if self.keep is not None and not (self.prefer_decode and other == "dequantize"):
            return ReportRow("tensor", self.name, self.source, KEPT, self.target, self.note)
        if other == "dequantize" and self.decode is not None:
            return ReportRow("tensor", self.name, self.source, DEQUANTIZED, "float32", self.note)
        return ReportRow("tensor", self.name, self.source, SKIPPED if other == "skip" else REFUSED, note=self.note)


class Checkpoint(Mapping[str, Tensor]):
    """A quantized checkpoint as a lazy read-only mapping from names to tensors.

    Tensors stay valid after :meth:`close`.

    Attributes
    ----------
    kv : dict
        The metadata of the files.
    report : ImportReport
        What became of each tensor; complete once every tensor has been read.
    """

    def __init__(self, file: SafetensorsFile, found: Sequence[Quantized], kv: Mapping[str, Any], other: Other) -> None:
        self._file = file
        self._other = other
        self.kv: dict[str, Any] = dict(kv)
        self.report = ImportReport()
        owner = {part: q for q in found for part in q.parts}
        self._made: dict[str, Quantized | None] = {}
        for name in file:
            q = owner.get(name)
            shown_name = name if q is None else q.name
            is_taken = name in self._made if q is None else self._made.get(shown_name, q) is not q
            if is_taken:
                raise FileError(f"two entries of the checkpoint would be called {shown(shown_name)}")
            self._made[shown_name] = q
            if q is not None:
                self.report.add(q.row(other))
        for name, row in self.report.tensors.items():
            if row.outcome == SKIPPED:
                del self._made[name]
        refused = [row for row in self.report if row.outcome == REFUSED]
        if refused:
            raise UnsupportedError(_refusal(refused, other))

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in the order of the files."""
        return list(self._made)

    def __getitem__(self, name: str) -> Tensor:
        q = self._made[name]
        if q is None:
            t = self._file[name]
            self.report.add(ReportRow("tensor", name, t.dtype.name, KEPT, t.dtype.name))
            return t
        row = q.row(self._other)
        if row.outcome == KEPT and q.keep is not None:
            try:
                return q.keep()
            except NotExactError as error:
                why = str(error)
        else:
            why = q.note
        if self._other == "dequantize" and q.decode is not None:
            self.report.add(ReportRow("tensor", name, q.source, DEQUANTIZED, "float32", why))
            values = q.decode()
            descriptor = new_descriptor(BY_NAME["float32"], values.shape, values.nbytes)
            return Tensor._from_parts(descriptor, (values.reshape(-1).view(np.uint8),))
        self.report.add(ReportRow("tensor", name, q.source, REFUSED, note=why))
        raise UnsupportedError(
            f"tensor {name!r} ({q.source}) cannot be kept: {why}; open the checkpoint with other='dequantize' to have "
            "its values as float32"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def close(self) -> None:
        """Close the files; tensors that were taken stay valid."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} tensors>"


def check_other(other: str) -> None:
    """Refuse an unknown value of the option ``other``."""
    if other not in get_args(Other):
        raise ValueError(f"other is one of {', '.join(map(repr, get_args(Other)))}, not {other!r}")


def form(dtype: str | Dtype, shape: tuple[int, ...], buffers: Sequence[Bytes], scheme: Scheme) -> Tensor:
    """Form a row-major quantized tensor: codes, then the scheme's parameters."""
    descriptor = Descriptor(
        dtype=BY_NAME[dtype] if isinstance(dtype, str) else dtype,
        shape=shape,
        layout=RowMajorLayout(),
        buffer_handles=tuple(handle_for(len(b)) for b in buffers),
        quantization=scheme,
    )
    check_descriptor(descriptor)
    return Tensor._from_parts(descriptor, tuple(buffers))


def as_bytes(array: NDArray[Any]) -> Bytes:
    """Return the bytes of an array in C order, 1-D; a view where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _refusal(refused: list[ReportRow], other: Other) -> str:
    lines = [f"  {row.name}: {row.source} ({row.note})" for row in refused[:_SHOWN]]
    if len(refused) > _SHOWN:
        lines.append(f"  ... and {len(refused) - _SHOWN} more")
    advice = "; open the checkpoint with other='dequantize' (float32 where possible) or other='skip' (leave them out)"
    if other == "dequantize":
        advice = "; open the checkpoint with other='skip' to leave them out"
    return f"{len(refused)} tensors cannot be kept as they are{advice}:\n" + "\n".join(lines)
