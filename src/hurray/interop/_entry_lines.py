"""Lines of one-based indices and values, read a block at a time by array operations: FROSTT and MatrixMarket text.

Bytes are classified once; where tokens begin and end follows from neighbouring classes, and all indices of a block grow
digit by digit together.  What is not beyond doubt is left to a second reader that goes line by line: it knows every
rule, and names the line that breaks one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from hurray.errors import FileError
from hurray.limits import MAX_RANK

__all__ = ["MAX_LINE", "Entries", "LineReader", "Values", "joined", "line_of"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
Array = NDArray[Any]
Bytes = NDArray[np.uint8]

#: bytes of text handled at a time; the temporaries are about forty times as large
_BLOCK = 1 << 18
#: longest line accepted, in bytes
MAX_LINE = 1 << 16
#: so many digits fit 64 bits for sure
_MAX_DIGITS = 19
_MAX_WIDTH = 40
_MAX_INDEX = 2**64 - 2

_SPACE, _DIGIT, _SIGN, _OTHER = 0, 1, 2, 3
_CLASS = np.full(256, _OTHER, np.uint8)
_CLASS[list(b" \t\r\n\v\f")] = _SPACE
_CLASS[list(b"0123456789")] = _DIGIT
_CLASS[list(b"+-.eE\0")] = _SIGN
_NEWLINE, _MINUS, _ZERO = 10, 45, 48

_INDEX = re.compile(rb"[0-9]+\Z")
_WHOLE = re.compile(rb"[+-]?[0-9]+\Z")
_NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)\Z", re.IGNORECASE)


class Values(NamedTuple):
    """How values are read: a NumPy type, bounds of whole numbers (None: any number), and how many end a line."""

    kind: np.dtype[Any]
    low: int | None = None
    high: int | None = None
    n: int = 1


class Entries(NamedTuple):
    """Entries of one block: zero-based coordinates, shape (n, rank), values, shape (n, values), and their lines."""

    coords: U64
    values: Array
    lines: range | I64


class LineReader:
    """Turn text into blocks of entries, remembering what holds for the whole file.

    Parameters
    ----------
    name : str
        What messages call the file.
    values : Values
        How to read what follows the indices.
    comment : bytes
        One character that starts a comment.
    shape : tuple of int, optional
        Bounds of the indices, where they are given.
    rank : int, optional
        Number of indices on each line; the first line tells by default.
    n_lines : int
        Lines of the file that have been read already.

    Attributes
    ----------
    rank : int or None
        Number of indices on each line; None until it is known.
    tops : list of int
        Largest zero-based index of each dimension so far, -1 for none.
    n_lines : int
        Lines read so far.
    """

    def __init__(
        self,
        name: str,
        values: Values,
        comment: bytes,
        *,
        shape: tuple[int, ...] | None = None,
        rank: int | None = None,
        n_lines: int = 0,
    ) -> None:
        self.name = name
        self.shape = shape
        self.rank = len(shape) if rank is None and shape is not None else rank
        self.tops: list[int] = [-1] * (self.rank or 0)
        self.n_lines = n_lines
        self._values = values
        self._comment = comment
        self._comments = re.compile(re.escape(comment) + rb"[^\n]*")

    def blocks(self, stream: BinaryIO) -> Iterator[Entries]:
        """Read a stream to its end.

        Raises
        ------
        FileError
            A line is no entry; it is named.
        """
        rest = b""
        while data := stream.read(_BLOCK):
            end = data.rfind(b"\n") + 1
            if end:
                yield self._read(rest + data[:end])
            rest = data[end:] if end else rest + data
            if len(rest) > MAX_LINE:
                self.fault(self.n_lines + 1, f"is longer than {MAX_LINE} bytes")
        if rest:
            yield self._read(rest)

    def fault(self, line: int, what: str) -> NoReturn:
        """Raise the error of a line."""
        raise FileError(f"{self.name}: line {line} {what}", filename=self.name)

    def _read(self, text: bytes) -> Entries:
        if self._comment in text:
            text = self._comments.sub(b"", text)
        found = self._read_fast(text)
        if found is None:
            found = self._read_slow(text)
        self.n_lines += text.count(b"\n")
        if found.coords.size:
            tops = [int(top) for top in found.coords.max(axis=0)]
            self.tops = [max(pair) for pair in zip(self.tops, tops, strict=True)]
        return found

    def _settle_rank(self, rank: int) -> None:
        if self.rank is None:
            self.rank, self.tops = rank, [-1] * rank

    def _nothing(self) -> Entries:
        values = np.empty((0, self._values.n), self._values.kind)
        return Entries(np.empty((0, self.rank or 0), np.uint64), values, range(0))

    # Whole blocks

    def _read_fast(self, text: bytes) -> Entries | None:
        """Return the entries where every line is beyond doubt, else None."""
        data = np.frombuffer(text, np.uint8)
        kinds = _CLASS[data]
        edges = np.flatnonzero(np.diff(kinds != _SPACE, prepend=False, append=False))
        starts, ends = edges[0::2], edges[1::2]
        if not len(starts):
            return self._nothing()
        n_tokens = np.bincount(np.searchsorted(np.flatnonzero(data == _NEWLINE), starts))
        lines = np.flatnonzero(n_tokens)
        n_columns = int(n_tokens[lines[0]])
        rank = n_columns - self._values.n if self.rank is None else self.rank
        if not self._is_legal(n_columns) or (n_tokens[lines] != n_columns).any():
            return None
        starts, ends = starts.reshape(-1, n_columns), ends.reshape(-1, n_columns)
        coords = _read_indices(data, kinds, starts[:, :rank], ends[:, :rank], self.shape)
        if coords is None:
            return None
        values = _read_values(data, kinds, starts[:, rank:], ends[:, rank:], self._values)
        if values is None:
            return None
        self._settle_rank(rank)
        lines += self.n_lines + 1
        if int(lines[-1]) - int(lines[0]) + 1 == len(lines):
            return Entries(coords, values, range(int(lines[0]), int(lines[-1]) + 1))
        return Entries(coords, values, lines)

    def _is_legal(self, n_columns: int) -> bool:
        if self.rank is not None:
            return n_columns == self.rank + self._values.n
        return 1 <= n_columns - self._values.n <= MAX_RANK

    # Line by line

    def _read_slow(self, text: bytes) -> Entries:
        """Return the entries, or name the line at fault."""
        coords: list[list[int]] = []
        values: list[list[int | float]] = []
        lines: list[int] = []
        for number, line in enumerate(text.split(b"\n"), self.n_lines + 1):
            tokens = line.split()
            if not tokens:
                continue
            rank = self._check_columns(number, len(tokens))
            coords.append([self._index(number, k, token) for k, token in enumerate(tokens[:rank])])
            values.append([self._value(number, token) for token in tokens[rank:]])
            lines.append(number)
        if not lines:
            return self._nothing()
        n = len(lines)
        return Entries(
            np.array(coords, np.uint64).reshape(n, self.rank or 0),
            np.array(values, self._values.kind).reshape(n, self._values.n),
            np.array(lines, np.int64),
        )

    def _check_columns(self, line: int, n_columns: int) -> int:
        """Return the number of indices of a line."""
        count = self._values.n
        if not self._is_legal(n_columns):
            columns = "one column" if n_columns == 1 else f"{n_columns} columns"
            if self.rank is None:
                self.fault(line, f"has {columns}, expected 1 to {MAX_RANK} indices and {count} value")
            self.fault(line, f"has {columns}, expected {self.rank + count} ({self.rank} indices, {count} values)")
        self._settle_rank(n_columns - count)
        return n_columns - count

    def _index(self, line: int, k: int, token: bytes) -> int:
        if _INDEX.match(token) is None:
            self.fault(line, f"has {_quoted(token)} as index {k + 1}, expected a positive integer")
        digits = token.lstrip(b"0") or b"0"
        index = int(digits) if len(digits) <= 20 else _MAX_INDEX + 2
        if index == 0:
            self.fault(line, f"has 0 as index {k + 1}, but indices start at 1")
        if index > _MAX_INDEX:
            self.fault(line, f"has {_quoted(token)} as index {k + 1}, which does not fit 64 bits")
        if self.shape is not None and index > self.shape[k]:
            self.fault(line, f"has {index} as index {k + 1}, outside shape {self.shape}")
        return index - 1

    def _value(self, line: int, token: bytes) -> int | float:
        low, high = self._values.low, self._values.high
        if low is None or high is None:
            if _NUMBER.match(token) is None:
                self.fault(line, f"has {_quoted(token)} as value, expected a number")
            return float(token)
        if _WHOLE.match(token) is None:
            self.fault(line, f"has {_quoted(token)} as value, expected an integer")
        value = int(token) if len(token) <= _MAX_WIDTH else high + 1
        if not low <= value <= high:
            self.fault(line, f"has {_quoted(token)} as value, outside {low} to {high}")
        return value


def joined(blocks: list[Entries], rank: int, values: Values) -> tuple[U64, Array]:
    """Return the coordinates and values of all blocks, letting go of each block once it has been copied."""
    n = sum(len(block.values) for block in blocks)
    coords, found = np.empty((n, rank), np.uint64), np.empty((n, values.n), values.kind)
    at = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        end = at + len(block.values)
        if end > at:
            coords[at:end], found[at:end] = block.coords, block.values
        at = end
    return coords, found


def line_of(lines: Sequence[range | I64], entry: int) -> int:
    """Return the line of an entry, given the lines of all blocks."""
    for block in lines:
        if entry < len(block):
            return int(block[entry])
        entry -= len(block)
    return -1


def _quoted(token: bytes) -> str:
    text = token[:_MAX_WIDTH].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(token) > _MAX_WIDTH else text)


def _read_digits(data: Bytes, kinds: Bytes, starts: I64, ends: I64) -> U64 | None:
    """Return the numbers that tokens of digits spell, or None where a token is something else or long."""
    numbers = np.zeros(starts.shape, np.uint64)
    if not numbers.size:
        return numbers
    lengths = ends - starts
    longest = int(lengths.max())
    if longest > _MAX_DIGITS or (lengths < 1).any():
        return None
    for k in range(longest):
        inside = lengths > k
        at = np.where(inside, starts + k, starts)
        if (kinds.take(at) != _DIGIT).any():
            return None
        grown = numbers * np.uint64(10) + (data.take(at) - np.uint8(_ZERO))
        np.copyto(numbers, grown, where=inside)
    return numbers


def _read_indices(data: Bytes, kinds: Bytes, starts: I64, ends: I64, shape: tuple[int, ...] | None) -> U64 | None:
    """Return zero-based indices, shape (n, rank), or None where one is not beyond doubt."""
    indices = _read_digits(data, kinds, starts, ends)
    if indices is None or not indices.all():
        return None
    if shape is not None and indices.size and (indices > np.array(shape, np.uint64)).any():
        return None
    indices -= np.uint64(1)
    return indices


def _read_values(data: Bytes, kinds: Bytes, starts: I64, ends: I64, wanted: Values) -> Array | None:
    """Return the values, shape (n, values), or None where one is not beyond doubt."""
    if not starts.size:
        return np.empty(starts.shape, wanted.kind)
    if wanted.low is not None and wanted.high is not None:
        return _read_integers(data, kinds, starts, ends, wanted)
    width = int((ends - starts).max())
    if width > _MAX_WIDTH:
        return None
    places = np.arange(width)
    chars = data.take(starts[..., None] + places, mode="clip")
    chars[places >= (ends - starts)[..., None]] = 0
    if (_CLASS[chars] > _SIGN).any():
        return None
    try:
        return chars.view(f"S{width}")[..., 0].astype(wanted.kind)
    except ValueError:
        return None


def _read_integers(data: Bytes, kinds: Bytes, starts: I64, ends: I64, wanted: Values) -> Array | None:
    negative = data.take(starts) == _MINUS
    numbers = _read_digits(data, kinds, starts + negative, ends)
    if numbers is None or int(numbers.max()) >= 1 << 63:
        return None
    signed = np.where(negative, -numbers.view(np.int64), numbers.view(np.int64))
    low, high = wanted.low or 0, wanted.high or 0
    if int(signed.min()) < low or int(signed.max()) > high:
        return None
    return signed.astype(wanted.kind)
