"""Values of tensors in every layout, for printing and saving: whole, sliced, or only what is stored."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hurray.cli._pipes import PIPE
from hurray.cli._slices import Key
from hurray.conversion import open_tensors
from hurray.errors import FileError, UnsupportedError
from hurray.interop import Tensors
from hurray.quantization import Scheme
from hurray.tensor.composite import Composite
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import check_content, dense_shape, params_of, payload_of, read_key, stored_codes

__all__ = ["Wanted", "complete_name", "find", "read_stored", "read_values"]

Item = Tensor | Composite

#: names that a mistyped one is compared with
_MOST_COMPARED = 10_000


class Wanted(NamedTuple):
    """What is to be shown of a tensor.

    ``codes``: the stored codes of a quantized one, not its values.  ``lengths``: tokens of each sequence of a
    block_paged one.
    """

    key: Key = (...,)
    codes: bool = False
    lengths: tuple[int, ...] | None = None


def complete_name(context: typer.Context) -> list[str]:
    """Offer the names of the tensors of the file that was typed before."""
    if context.params["path"] == PIPE:
        return []
    try:
        with closing(open_tensors(context.params["path"])) as tensors:
            return list(tensors)
    except (KeyError, OSError, ValueError):
        return []


def find(tensors: Tensors, name: str) -> Item:
    """Return a tensor, or a member of a composite as ``<head>.<k>``.

    Raises
    ------
    FileError
        There is none.
    """
    if name in tensors:
        return tensors[name]
    head, dot, number = name.rpartition(".")
    if dot and number.isdecimal() and (head in tensors or "." in head):
        whole = find(tensors, head)
        if isinstance(whole, Composite) and int(number) < whole.member_count:
            return whole.members[int(number)]
    names = list(itertools.islice(tensors, _MOST_COMPARED))
    close = difflib.get_close_matches(name, names, 3) or (names if len(names) < 4 else [])
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else "; 'hurray ls' lists them"
    raise FileError(f"no tensor {name!r}{hint}")


def read_values(item: Item, wanted: Wanted) -> NDArray[Any]:
    """Return the values of a slice as a dense array."""
    if isinstance(item, Composite):
        return np.asarray(item[wanted.key])
    try:
        if item.quantization is None or wanted.codes:
            plain = item if item.quantization is None else item.storage()
            return np.asarray(read_key(plain, wanted.key, wanted.lengths))
        return item.dequantize(wanted.key, sequence_lengths=wanted.lengths).to_numpy()
    except UnsupportedError as error:
        advice = "give sequence_lengths, or a tensor that knows them: with_sequence_lengths()"
        raise UnsupportedError(str(error).replace(advice, "give --sequence-lengths")) from None


def read_stored(item: Item, wanted: Wanted) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return coordinates and values of what a sparse tensor stores in a slice, of others the non-zero values.

    Returns
    -------
    coords : ndarray of int64, shape (n, rank)
        Counted in the whole tensor, in row-major order.
    values : ndarray, shape (n,)
    """
    shape = item.shape if isinstance(item, Composite) else dense_shape(item)
    slices = _as_slices(wanted.key, shape)
    spans = [range(*part.indices(n or 0)) for part, n in zip(slices, shape, strict=True)]
    if isinstance(item, Tensor) and item.layout.is_sparse:
        coords, values = _stored(item, wanted.codes)
        inside = np.ones(len(coords), np.bool_)
        for k, span in enumerate(spans):
            if not span:
                inside[:] = False
                continue
            low, high = min(span[0], span[-1]), max(span[0], span[-1])
            column = coords[:, k]
            inside &= (column >= low) & (column <= high) & ((column - low) % abs(span.step) == 0)
        return coords[inside], values[inside]
    block = read_values(item, wanted._replace(key=tuple(slices)))
    if not block.ndim:
        keep = int(bool(block))
        return np.empty((keep, 0), np.int64), block.reshape(1)[:keep]
    where = np.nonzero(block)
    axes = [np.arange(span.start, span.stop, span.step)[at] for span, at in zip(spans, where, strict=True)]
    order = np.lexsort(axes[::-1])
    return np.stack(axes, axis=1)[order].astype(np.int64), block[where][order]


def _stored(t: Tensor, codes_wanted: bool) -> tuple[NDArray[np.int64], NDArray[Any]]:
    if t.quantization is None or codes_wanted:
        return t.storage().nonzeros() if t.quantization is not None else t.nonzeros()
    scheme = t.quantization
    if not isinstance(scheme, Scheme):
        raise UnsupportedError("the tensor has an unknown quantization scheme; --codes shows what is stored")
    payload = payload_of(t)
    check_content(t, payload)
    coords, codes = stored_codes(t, payload)
    order = np.lexsort(coords.T[::-1])
    coords, codes = coords[order], codes[order]
    return coords, scheme.dequantize_stored(codes, coords, params_of(t))


def _as_slices(key: Key, shape: Sequence[int | None]) -> list[slice]:
    """Return one slice for each dimension; an index becomes a slice of one.

    Raises
    ------
    IndexError
        There are too many entries, or an index is out of bounds.
    """
    entries = list(key)
    if ... not in entries:
        entries.append(...)
    at = entries.index(...)
    if len(entries) - 1 > len(shape):
        raise IndexError(f"{len(entries) - 1} indices are too many for {len(shape)} dimensions")
    entries[at : at + 1] = [slice(None)] * (len(shape) - len(entries) + 1)
    slices = []
    for k, (entry, n) in enumerate(zip(entries, shape, strict=True)):
        if isinstance(entry, slice):
            slices.append(entry)
            continue
        assert isinstance(entry, int)
        size = n or 0
        if not -size <= entry < size:
            raise IndexError(f"index {entry} is out of bounds for axis {k} with size {size}")
        slices.append(slice(entry % size, entry % size + 1))
    return slices
