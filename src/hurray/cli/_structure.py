"""The parts of a file in the order in which they lie: header, descriptors and buffers, metadata, index, trailer."""

from __future__ import annotations

from typing import NamedTuple

from hurray.cli._annotate import Row
from hurray.cli._console import format_bytes, format_scheme, format_shape
from hurray.container.frame import Frame, check_crc, make_index
from hurray.container.header import HEADER_BYTES, TRAILER_BYTES, parse_header, parse_trailer
from hurray.container.index import Entry
from hurray.container.kv import parse_kv
from hurray.container.ranges import check_descriptor_range, place_buffers
from hurray.descriptor import Descriptor, decode_descriptor
from hurray.errors import FileError, HurrayError
from hurray.limits import DEFAULT_LIMITS
from hurray.sources import Source

__all__ = ["Structure", "structure_of"]

#: offset, bytes and name of each field of the header, and of the trailer
_HEADER = (
    (0, 8, "magic"), (8, 1, "version_major"), (9, 1, "version_minor"), (10, 2, "reserved"), (12, 4, "file_flags"),
    (16, 4, "data_buffer_alignment"), (20, 8, "first_descriptor_offset"), (28, 8, "tensor_count_hint"),
    (36, 28, "reserved"),
)  # fmt: skip
_TRAILER = (
    (0, 8, "index_offset"), (8, 8, "index_length"), (16, 8, "kv_offset"), (24, 4, "kv_length"), (28, 4, "index_crc32c"),
    (32, 4, "reserved"), (36, 4, "magic"),
)  # fmt: skip
_FLAGS = ("metadata", "index in name order", "checksum of the index")
_UNKNOWN = 2**64 - 1
_SHOWN_BYTES = 16
_SHOWN_TEXT = 60


class Structure(NamedTuple):
    """The rows, in file order, and the first fault that was found."""

    rows: list[Row]
    error: HurrayError | None


def structure_of(source: Source) -> Structure:
    """Return what a Hurray file consists of; what is damaged is marked, and the rest shown as far as it is found."""
    walk = _Walk(source)
    walk.run()
    # The sort is stable: what has no bytes stays behind the part that it belongs to.
    return Structure(sorted(walk.rows, key=lambda row: row.offset), walk.error)


class _Walk:
    """Collects rows; a fault ends the part that it is in, not the walk."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.rows: list[Row] = []
        self.error: HurrayError | None = None

    def run(self) -> None:
        size, name = self._source.size, self._source.name
        self._fields(0, _HEADER, "header")
        base = size - TRAILER_BYTES
        if base < HEADER_BYTES:
            message = f"{name}: {size} bytes are too few for a file, which has at least {HEADER_BYTES + TRAILER_BYTES}"
            self._fail(FileError(message, filename=name), size, 0, "(end)")
            return
        self._fields(base, _TRAILER, "trailer")
        frame = self._frame(base, name)
        if frame is None:
            return
        try:
            entries = sorted(frame.index, key=lambda entry: entry.descriptor_offset)
        except HurrayError as error:
            self._fail(error, frame.trailer.index_offset, frame.trailer.index_length, "index")
            entries = []
        for entry in entries:
            self._tensor(frame, entry)
        self._gaps(frame.region.end)
        self._metadata(frame, name)

    def _bytes(self, at: int, n_bytes: int) -> bytes:
        return self._source.view(at, n_bytes).tobytes()

    def _add(self, at: int, n_bytes: int, field: str, meaning: str, *, shown: bool = True) -> None:
        n_there = max(0, min(n_bytes, _SHOWN_BYTES, self._source.size - at)) if shown else 0
        text = self._bytes(at, n_there).hex(" ") if n_there else ""
        if n_bytes > n_there:
            text = f"{text} ... ({format_bytes(n_bytes)})".strip()
        self.rows.append(Row(at, n_bytes, text, field, meaning))

    def _fail(self, error: HurrayError, at: int, n_bytes: int, field: str) -> None:
        """Mark the row that an error points to, or the one of the part that it is in."""
        self.error = self.error or error
        wanted = {error.field, f"{field}.{error.field}"}
        rows = [k for k, row in enumerate(self.rows) if row.field in wanted]
        rows += [k for k, row in enumerate(self.rows) if row.field == field and row.offset == at]
        if not rows:
            self.rows.append(Row(at, n_bytes, "", field, f"<- {error}", True))
            return
        k = next((k for k in rows if self.rows[k].offset == error.offset), rows[0])
        self.rows[k] = self.rows[k]._replace(meaning=f"{self.rows[k].meaning}  <- {error}".strip(), broken=True)

    def _fields(self, base: int, table: tuple[tuple[int, int, str], ...], part: str) -> None:
        for at, n_bytes, field in table:
            if base + at + n_bytes <= self._source.size:
                self._add(base + at, n_bytes, f"{part}.{field}", _meaning(field, self._bytes(base + at, n_bytes)))

    def _frame(self, base: int, name: str) -> Frame | None:
        try:
            header = parse_header(self._bytes(0, HEADER_BYTES), name)
        except HurrayError as error:
            self._fail(error, 0, HEADER_BYTES, "header")
            return None
        try:
            trailer = parse_trailer(self._bytes(base, TRAILER_BYTES), self._source.size, header, name)
        except HurrayError as error:
            self._fail(error, base, TRAILER_BYTES, "trailer")
            return None
        at, n_bytes = trailer.index_offset, trailer.index_length
        data = self._bytes(at, n_bytes)
        self._add(at, n_bytes, "index", f"{int.from_bytes(data[:8], 'little')} entries")
        try:
            check_crc(header, trailer, data, name)
        except HurrayError as error:
            self._fail(error, base, TRAILER_BYTES, "trailer")
        try:
            return Frame(header, trailer, *make_index(header, trailer, data, name))
        except HurrayError as error:
            self._fail(error, at, n_bytes, "index")
            return None

    def _tensor(self, frame: Frame, entry: Entry) -> None:
        """Add the descriptor and the buffers of a tensor."""
        at, n_bytes = entry.descriptor_offset, entry.descriptor_length
        own = f"{entry.name}: descriptor"
        try:
            check_descriptor_range(entry, frame.region, DEFAULT_LIMITS)
            data = self._bytes(at, n_bytes)
            said = int.from_bytes(data[6:10], "little")
            if said != n_bytes:
                raise FileError(f"the descriptor says that it has {said} bytes, the index says {n_bytes}")
            descriptor = decode_descriptor(data)
            places = place_buffers(entry, descriptor, frame.region)
        except HurrayError as error:
            self._add(at, n_bytes, own, "")
            self._fail(error, at, n_bytes, own)
            return
        self._add(at, n_bytes, own, _looks(descriptor))
        roles = _roles(descriptor)
        for k, (start, size) in enumerate(places):
            self._add(start, size, f"{entry.name}: buffer {k}", roles[k] if k < len(roles) else "parameters")

    def _gaps(self, end: int) -> None:
        """Add a row for each stretch between the parts of the tensor region, and mark parts that share bytes."""
        at, before = HEADER_BYTES, ""
        parts = sorted(
            (r.offset, r.n_bytes, r.field) for r in self.rows if HEADER_BYTES <= r.offset < end and r.n_bytes
        )
        for offset, n_bytes, field in [*parts, (end, 0, "")]:
            if offset > at:
                self._add(at, offset - at, "(padding)", "", shown=False)
            elif offset < at and n_bytes:
                error = FileError(f"{field!r} shares bytes with {before!r}, which ends at {at}")
                self._fail(error, offset, n_bytes, field)
            if offset + n_bytes > at:
                at, before = offset + n_bytes, field

    def _metadata(self, frame: Frame, name: str) -> None:
        at, n_bytes = frame.trailer.kv_offset, frame.trailer.kv_length
        if not n_bytes:
            return
        self._add(at, n_bytes, "metadata", "")
        try:
            entries = parse_kv(self._bytes(at, n_bytes), name)
        except HurrayError as error:
            self._fail(error, at, n_bytes, "metadata")
            return
        for entry in entries:
            text = repr(entry.value)
            shown = text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}..."
            self.rows.append(Row(at, 0, "", f"metadata[{entry.key!r}]", f"{entry.type} {shown}"))


def _meaning(field: str, raw: bytes) -> str:
    if field == "magic":
        return repr(raw)
    if field == "reserved":
        return "" if any(raw) else "0"
    value = int.from_bytes(raw, "little")
    if field == "file_flags":
        names = [name for k, name in enumerate(_FLAGS) if value >> k & 1]
        if value >> len(_FLAGS):
            names.append("undefined bits")
        return f"{value}: {', '.join(names) or 'none'}"
    if field == "tensor_count_hint" and value == _UNKNOWN:
        return "unknown"
    return f"{value:#010x}" if field == "index_crc32c" else str(value)


def _looks(d: Descriptor) -> str:
    scheme = format_scheme(d.quantization)
    quantized = f" ({scheme})" if scheme else ""
    return f"{d.dtype}{quantized} {format_shape(d.shape)} {d.layout.name}"


def _roles(d: Descriptor) -> list[str]:
    """Return what the layout's own buffers hold, as far as the shape is known."""
    if d.is_head or d.is_opaque or None in d.shape:
        return []
    try:
        return [spec.role for spec in d.layout.specs(d.shape, d.element_bits)]  # type: ignore[arg-type]
    except HurrayError:
        return []
