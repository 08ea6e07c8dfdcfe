"""Checking everything in a file, and going on after damage where that makes sense.

Format: file container; README, three moments of checking.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from hurray.container.frame import Frame, check_crc, make_index
from hurray.container.header import (
    FILE_MAGIC,
    HEADER_BYTES,
    MIN_ALIGNMENT,
    TRAILER_BYTES,
    Header,
    check_alignment,
    parse_header,
    parse_trailer,
)
from hurray.container.index import Entry, Index
from hurray.container.kv import parse_kv
from hurray.container.loading import Loader
from hurray.container.ranges import Extent, Part, extents, find_overlaps, overlap_message, place_buffers
from hurray.errors import HurrayError, UnsupportedError
from hurray.limits import DEFAULT_LIMITS, Limits
from hurray.records import record
from hurray.sources import Source, open_source
from hurray.sources.kinds import kind_hint
from hurray.tensor.assembly import Assembler

__all__ = ["Problem", "Report", "verify"]

_FLAGS_AND_ALIGNMENT = struct.Struct("<II")
#: padding is compared in pieces of this many bytes
_PIECE = 1 << 20


@record(kw_only=True)
class Problem:
    """One fault of a file.

    Parameters
    ----------
    tensor : str or None
        Name of the tensor; None when the fault is the file's.
    rule : str
        What is broken: a field path, or the kind of error.
    offset : int or None
        Where in the file, in bytes; for a fault inside a descriptor, where the descriptor starts.
    message : str
        What was found and what was expected.
    is_error : bool
        False for what breaks no reader, such as padding that is not zero.
    """

    tensor: str | None
    rule: str
    offset: int | None
    message: str
    is_error: bool = True


@dataclass(slots=True, kw_only=True)
class Report:
    """What :func:`hurray.verify` found.

    Parameters
    ----------
    name : str
        The file.
    problems : list of Problem
        Every fault, in the order in which they were found.
    n_tensors : int
        Entries of the index, heads and members included.
    n_bytes : int
        Bytes that were checked: sections, descriptors and buffers.
    """

    name: str
    problems: list[Problem] = field(default_factory=list)
    n_tensors: int = 0
    n_bytes: int = 0

    @property
    def ok(self) -> bool:
        """True when nothing illegal was found."""
        return not any(p.is_error for p in self.problems)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        state = "ok" if self.ok else "damaged or illegal"
        lines = [f"{self.name}: {state}: {self.n_tensors} tensors, {self.n_bytes} bytes checked"]
        for p in self.problems:
            place = "" if p.offset is None else f" at byte {p.offset}"
            lines.append(f"  {'' if p.is_error else 'note: '}{p.tensor or 'file'}, {p.rule}{place}: {p.message}")
        return "\n".join(lines)

    def add(self, error: HurrayError, rule: str, tensor: str | None = None, offset: int | None = None) -> None:
        """Record an error as a problem."""
        self.problems.append(
            Problem(
                tensor=tensor or error.tensor, rule=error.field or rule,
                offset=error.offset if offset is None else offset, message=str(error),
            )
        )  # fmt: skip


def verify(path: Any, *, limits: Limits | None = None) -> Report:
    """Check everything in a Hurray file and report what is damaged or illegal.

    Returns
    -------
    Report
        ``ok``, and one entry of ``problems`` for each fault, with the tensor's name, the rule and the byte offset.

    Raises
    ------
    FileError
        The file is missing or cannot be read; damage is reported, not raised.

    Format: file container; README, three moments of checking.
    """
    source = open_source(path)
    try:
        report = Report(name=source.name)
        frame = _check_frame(source, report)
        if frame is not None:
            report.n_tensors = len(frame.index)
            _Check(source, frame, DEFAULT_LIMITS if limits is None else limits, report).run()
        return report
    finally:
        source.close()


def _check_frame(source: Source, report: Report) -> Frame | None:
    """Check header, trailer and index; return them, or None when tensors cannot be found."""
    if source.size < HEADER_BYTES + TRAILER_BYTES:
        least = HEADER_BYTES + TRAILER_BYTES
        hint = kind_hint(source.read(0, source.size)) or ": it is empty, cut short, or of another kind"
        message = f"{source.size} bytes are too few for a Hurray file, which has at least {least}{hint}"
        report.problems.append(Problem(tensor=None, rule="size", offset=0, message=message))
        return None
    head = source.read(0, HEADER_BYTES)
    try:
        header = parse_header(head, source.name)
    except HurrayError as error:
        report.add(error, "header")
        if head[:8] != FILE_MAGIC:
            return None
        header = _guess_header(head)
    tail = source.read(source.size - TRAILER_BYTES, TRAILER_BYTES)
    try:
        trailer = parse_trailer(tail, source.size, header, source.name)
    except HurrayError as error:
        report.add(error, "trailer")
        return None
    report.n_bytes += HEADER_BYTES + TRAILER_BYTES + trailer.index_length + trailer.kv_length
    data = source.read(trailer.index_offset, trailer.index_length)
    try:
        check_crc(header, trailer, data, source.name)
    except HurrayError as error:
        report.add(error, "trailer.index_crc32c")
    try:
        return Frame(header, trailer, *make_index(header, trailer, data, source.name))
    except HurrayError as error:
        report.add(error, "index")
        return None


def _guess_header(data: bytes) -> Header:
    """Return what a damaged header most likely said, so that the tensors can still be looked at."""
    flags, alignment = _FLAGS_AND_ALIGNMENT.unpack_from(data, 12)
    return Header(
        is_sorted=bool(flags & 2), has_crc=bool(flags & 4),
        alignment=alignment if check_alignment(alignment) else MIN_ALIGNMENT,
    )  # fmt: skip


class _Check:
    """One pass over the tensors of a file whose frame could be read."""

    def __init__(self, source: Source, frame: Frame, limits: Limits, report: Report) -> None:
        self._source = source
        self._frame = frame
        self._limits = limits
        self._report = report
        self._loader = Loader(source, frame, permissive=False, limits=limits)
        self._occupied: list[Extent] = []

    def run(self) -> None:
        """Check metadata, names, tensors, composites, overlaps and padding."""
        trailer = self._frame.trailer
        base = trailer.kv_offset
        try:
            if trailer.kv_length:
                parse_kv(self._source.read(base, trailer.kv_length), self._source.name)
        except HurrayError as error:
            # The parser counts from the start of the section.
            self._report.add(error, "kv", offset=None if error.offset is None else base + error.offset)
        entries = self._check_names(self._frame.index)
        entries.sort(key=lambda entry: entry.descriptor_offset)
        assembler = Assembler(self._limits)
        for entry in entries:
            assembler = self._check_entry(entry, assembler)
        try:
            assembler.finish()
        except HurrayError as error:
            self._report.add(error, "composite")
        self._check_overlap()
        if self._report.ok:
            self._check_padding()

    def _check_names(self, index: Index) -> list[Entry]:
        entries: list[Entry] = []
        try:
            index.check()
        except HurrayError as error:
            self._report.add(error, "index.name")
        for position in range(len(index)):
            try:
                entries.append(index.entry(position))
            except HurrayError as error:
                if not any(p.offset == error.offset and p.rule == error.field for p in self._report.problems):
                    self._report.add(error, "index.name")
        return entries

    def _check_entry(self, entry: Entry, assembler: Assembler) -> Assembler:
        """Check one tensor; return the assembler for the next one, a new one when a composite is beyond help."""
        try:
            descriptor = self._loader.decode(entry)
            places = place_buffers(entry, descriptor, self._frame.region)
        except HurrayError as error:
            self._report.add(error, "descriptor", entry.name, entry.descriptor_offset)
            return Assembler(self._limits)
        self._occupied.extend(extents(entry, places))
        self._report.n_bytes += entry.descriptor_length + sum(size for _, size in places)
        try:
            tensor = None if descriptor.is_head else self._loader.tensor(Part(entry, descriptor, places))
        except HurrayError as error:
            self._report.add(error, "buffers", entry.name, entry.data_offset)
            return Assembler(self._limits)
        if tensor is not None:
            try:
                tensor.validate()
            except UnsupportedError:
                pass  # an opaque layout or a private type has no rules that could be checked here
            except HurrayError as error:
                self._report.add(error, "values", entry.name, entry.data_offset)
        try:
            assembler.push(descriptor, tensor, entry.name)
        except HurrayError as error:
            self._report.add(error, "composite", entry.name, entry.descriptor_offset)
            return Assembler(self._limits)
        return assembler

    def _check_overlap(self) -> None:
        for before, after in find_overlaps(self._occupied):
            self._report.problems.append(
                Problem(tensor=after[2], rule="overlap", offset=after[0], message=overlap_message(before, after))
            )

    def _check_padding(self) -> None:
        """Note bytes between the parts that are not zero: no reader minds them, but no writer of ours makes them."""
        trailer = self._frame.trailer
        parts = [*self._occupied, (trailer.index_offset, trailer.index_offset + trailer.index_length, "index")]
        if trailer.kv_length:
            parts.append((trailer.kv_offset, trailer.kv_offset + trailer.kv_length, "kv"))
        parts.append((self._source.size - TRAILER_BYTES, self._source.size, "trailer"))
        at = HEADER_BYTES
        for start, end, owner in sorted(parts):
            while at < start:
                piece = self._source.view(at, min(start - at, _PIECE))
                if piece.any():
                    where = at + int((piece != 0).argmax())
                    self._report.problems.append(
                        Problem(
                            tensor=None, rule="padding", offset=where, is_error=False,
                            message=f"the padding in front of {owner!r} is not zero",
                        )
                    )  # fmt: skip
                    at = start
                    break
                at += len(piece)
            at = max(at, end)
