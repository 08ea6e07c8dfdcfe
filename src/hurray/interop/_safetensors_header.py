"""The header of a safetensors file: a length, a JSON object, and what may be believed of them.

The file is a u64 (little-endian) length, a JSON object of that length, and the tensors' bytes.  The object maps each
name to its ``dtype``, ``shape`` and ``data_offsets`` (begin and end in the bytes behind the header); ``__metadata__``
maps strings to strings.  The tensors cover the bytes exactly: no hole, no overlap, nothing behind the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import FileError, UnsupportedError
from hurray.limits import MAX_RANK

__all__ = [
    "MAX_HEADER_BYTES",
    "Entry",
    "Header",
    "arrange",
    "format_header",
    "loads_json",
    "parse_header",
    "safetensors_name",
]

#: longest header that the format allows
MAX_HEADER_BYTES = 100_000_000
PREFIX_BYTES = 8
METADATA = "__metadata__"

# In the format's own order, which is also the order (from last to first) in which tensors are laid out in a file.
# name there, bits of an element there, name here (None: no such type here)
_ROWS: tuple[tuple[str, int, str | None], ...] = (
    ("BOOL", 8, "bool"),
    ("F4", 4, "float4_e2m1"),
    ("F6_E2M3", 6, "float6_e2m3"),
    ("F6_E3M2", 6, "float6_e3m2"),
    ("U8", 8, "uint8"),
    ("I8", 8, "int8"),
    ("F8_E5M2", 8, "float8_e5m2"),
    ("F8_E4M3", 8, "float8_e4m3"),
    ("F8_E8M0", 8, "float8_e8m0"),
    ("F8_E4M3FNUZ", 8, None),
    ("F8_E5M2FNUZ", 8, None),
    ("I16", 16, "int16"),
    ("U16", 16, "uint16"),
    ("F16", 16, "float16"),
    ("BF16", 16, "bfloat16"),
    ("I32", 32, "int32"),
    ("U32", 32, "uint32"),
    ("F32", 32, "float32"),
    ("C64", 64, "complex64"),
    ("F64", 64, "float64"),
    ("I64", 64, "int64"),
    ("U64", 64, "uint64"),
)
_BITS = {name: bits for name, bits, _ in _ROWS}
_RANK = {name: k for k, (name, _, _) in enumerate(_ROWS)}
_OURS = {name: BY_NAME[ours] for name, _, ours in _ROWS if ours is not None}
_THEIRS = {dtype: name for name, dtype in _OURS.items()}


class Entry(NamedTuple):
    """One tensor of a file: its type's name there, its shape, and where its bytes are (behind the header)."""

    kind: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def dtype(self) -> Dtype:
        """Element type here.

        Raises
        ------
        UnsupportedError
            There is no such element type in this format.
        """
        found = _OURS.get(self.kind)
        if found is None:
            raise UnsupportedError(f"the safetensors dtype {self.kind} has no counterpart in the Hurray format")
        return found


class Header(NamedTuple):
    """A parsed header: tensors in the order of the header, metadata, and where the tensors' bytes begin."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    data_start: int


def safetensors_name(dtype: Dtype) -> str | None:
    """Return the safetensors name of an element type, or None where it has none."""
    return _THEIRS.get(dtype)


def loads_json(raw: bytes, what: str) -> Any:
    """Return the value of a JSON text from outside: UTF-8, no key twice, any fault a FileError."""
    # json costs several milliseconds to import, and only files of other formats need it.
    import json

    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{what} is not valid JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} occurs twice")
            seen.add(key)
    return found


def header_length(prefix: bytes, file_size: int, what: str) -> int:
    """Return the length of the JSON text that the first 8 bytes announce.

    Raises
    ------
    FileError
        The file is too short for it, or it is longer than the format allows.
    """
    if len(prefix) < PREFIX_BYTES:
        raise FileError(f"{what} is not a safetensors file: {len(prefix)} bytes are too few for its header length")
    length = int.from_bytes(prefix[:PREFIX_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        raise FileError(f"{what} is not a safetensors file: a header of {length} bytes exceeds {MAX_HEADER_BYTES}")
    if length > file_size - PREFIX_BYTES:
        raise FileError(f"{what}: the header takes {length} bytes, but only {file_size - PREFIX_BYTES} are there")
    return length


def parse_header(raw: bytes, file_size: int, what: str) -> Header:
    """Parse the JSON text of a header and check it against the size of the file.

    Parameters
    ----------
    raw : bytes
        The JSON text, without the length before it.
    file_size : int
        Size of the whole file, in bytes.
    what : str
        Name of the file, for messages.

    Raises
    ------
    FileError
        The header breaks a rule of the format.
    """
    if not raw.startswith(b"{"):
        raise FileError(f"{what} is not a safetensors file: its header does not start with '{{'")
    table = loads_json(raw, f"{what}: the header")
    metadata = table.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FileError(f"{what}: {METADATA} must map strings to strings")
    for text in (*metadata, *metadata.values()):
        check_text(text, f"{what}: {METADATA}")
    entries = {}
    for name, fields in table.items():
        check_text(name, f"{what}: the name of a tensor")
        entries[name] = _parse_entry(fields, f"{what}: tensor {shown(name)}")
    data_start = PREFIX_BYTES + len(raw)
    _check_cover(entries, file_size - data_start, what)
    return Header(entries, metadata, data_start)


def check_text(text: str, what: str) -> None:
    """Refuse text that UTF-8 cannot store: JSON can spell half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise FileError(f"{what} is not valid Unicode: {shown(text)}") from None


def shown(value: object) -> str:
    """Return a value as it goes into a message: a name from outside may be megabytes long."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _parse_entry(fields: Any, what: str) -> Entry:
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise FileError(f"{what}: dtype, shape and data_offsets are needed, and nothing else")
    kind, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(kind, str) or kind not in _BITS:
        raise FileError(f"{what}: unknown dtype {shown(kind)}")
    if not _is_sizes(shape) or len(shape) > MAX_RANK:
        raise FileError(f"{what}: shape must be a list of at most {MAX_RANK} integers from 0 to 2**64 - 2")
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise FileError(f"{what}: data_offsets must be two integers from 0 to 2**64 - 2")
    begin, end = offsets
    n_bits = _BITS[kind]
    for n in shape:
        n_bits *= n
        if n_bits >= 2**67:
            raise FileError(f"{what}: shape {shape} has more bytes than 64 bits count")
    if n_bits % 8:
        raise FileError(f"{what}: {kind} elements of shape {shape} do not fill whole bytes")
    if begin > end or end - begin != n_bits // 8:
        raise FileError(f"{what}: {kind} elements of shape {shape} take {n_bits // 8} bytes, not {begin}..{end}")
    return Entry(kind, tuple(shape), begin, end)


def _is_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**64 - 1 for n in values)


def _check_cover(entries: Mapping[str, Entry], n_bytes: int, what: str) -> None:
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            fault = "overlaps the tensor before it" if entry.begin < at else f"leaves a hole at {at}"
            raise FileError(f"{what}: tensor {shown(name)} at {entry.begin} {fault}")
        at = entry.end
    if at != n_bytes:
        raise FileError(f"{what}: the tensors take {at} bytes, but {n_bytes} bytes follow the header")


def arrange(tensors: Iterable[tuple[str, Dtype, Sequence[int]]]) -> dict[str, Entry]:
    """Give each tensor its place in a new file: wide types first, then by name, so that all are aligned.

    Raises
    ------
    UnsupportedError
        A type has no counterpart in safetensors, or the elements do not fill whole bytes.
    """
    sized = []
    for name, dtype, shape in tensors:
        kind = _THEIRS.get(dtype)
        if kind is None:
            raise UnsupportedError(f"tensor {name!r}: safetensors has no dtype for {dtype}")
        n_bits = _BITS[kind]
        for n in shape:
            n_bits *= n
        if n_bits % 8:
            raise UnsupportedError(
                f"tensor {name!r}: safetensors stores {dtype} in whole bytes only, {tuple(shape)} does not fill them"
            )
        sized.append((-_RANK[kind], name.encode("utf-8"), name, kind, tuple(shape), n_bits // 8))
    sized.sort()
    entries, at = {}, 0
    for _, _, name, kind, shape, n_bytes in sized:
        entries[name] = Entry(kind, shape, at, at + n_bytes)
        at += n_bytes
    return entries


def format_header(entries: Mapping[str, Entry], metadata: Mapping[str, str]) -> bytes:
    """Return a header with its length before it, padded with spaces so that the tensors start at a multiple of 8.

    Raises
    ------
    UnsupportedError
        The header would be longer than the format allows.
    """
    import json

    table: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    for name, entry in entries.items():
        table[name] = {"dtype": entry.kind, "shape": list(entry.shape), "data_offsets": [entry.begin, entry.end]}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise UnsupportedError(
            f"a safetensors header holds {MAX_HEADER_BYTES} bytes at most, this one takes {len(text)}"
        )
    return len(text).to_bytes(PREFIX_BYTES, "little") + text
