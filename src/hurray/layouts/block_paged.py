"""Block-paged: tokens of several sequences in pages of a common pool, found through a table.

Buffers are the page pool, the block table (page ids) and seq_ptr (where each sequence's ids begin). How many tokens a
sequence has is not on the wire: where the number of all tokens leaves several answers, the caller supplies them as
``Payload.sequence_lengths``.

Format: layouts, block_paged.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import bits as bit_kernels
from hurray.kernels import paging
from hurray.layouts._base import (
    BufferSpec,
    Codes,
    Encoded,
    Layout,
    Payload,
    Shape,
    as_index_tuple,
    as_int,
    gather_separable,
    n_elements,
    pack_codes,
    set_field,
)
from hurray.layouts._region import Region, axis_array, full_region, is_full, region_shape
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["BlockPagedLayout"]

KV_ROLES = ("key", "value", "fused")
INDEX_TYPES = ("uint32", "uint64")
_NO_LAYER = 0xFFFFFFFF
#: pages without any byte in them that are written all the same
_MOST_BLANK_PAGES = 1 << 20
_INDEX_BITS = {"uint32": 32, "uint64": 64}
POOL, TABLE, SEQ_PTR = 0, 1, 2

Int64 = NDArray[np.int64]


@record
class BlockPagedLayout(Layout):
    """Tokens of ``num_seqs`` sequences in pages of ``page_size`` tokens, as in a paged key-value cache.

    The shape is (tokens of all sequences, heads, head dimension).

    Parameters
    ----------
    page_size : int
        Tokens of a page, at least 1.
    num_pages : int
        Pages of the pool.
    paged_axis : int
        The dimension that is paged: 0.
    num_seqs : int
        Number of sequences.
    kv_role : str
        What the elements are: ``"key"``, ``"value"`` or ``"fused"``.
    layer_index : int, optional
        The model layer they belong to.
    block_table_index_type : str
        Width of the entries of both index buffers: ``"uint32"`` or ``"uint64"``.

    Examples
    --------
    >>> layout = BlockPagedLayout(page_size=4, num_pages=5, paged_axis=0, num_seqs=2)
    >>> layout.validate_index_buffers(seq_ptr=[0, 2, 3], block_table=[0, 1, 0])

    Format: layouts, block_paged.
    """

    page_size: int
    num_pages: int
    paged_axis: int
    num_seqs: int
    kv_role: str
    layer_index: int | None
    block_table_index_type: str

    tag = 0x0A
    name = "block_paged"
    kind = "indirect"
    min_rank = 3
    max_rank = 3

    def __init__(
        self,
        page_size: int,
        num_pages: int,
        paged_axis: int,
        num_seqs: int,
        kv_role: str = "key",
        layer_index: int | None = None,
        block_table_index_type: str = "uint32",
    ) -> None:
        set_field(self, "page_size", as_int(page_size, "page_size", low=1, high=2**32 - 1))
        set_field(self, "num_pages", as_int(num_pages, "num_pages"))
        set_field(self, "paged_axis", as_int(paged_axis, "paged_axis", high=0))
        set_field(self, "num_seqs", as_int(num_seqs, "num_seqs", high=2**32 - 1))
        set_field(self, "kv_role", _choice("kv_role", kv_role, KV_ROLES))
        if layer_index is not None:
            layer_index = as_int(layer_index, "layer_index", high=_NO_LAYER - 1)
        set_field(self, "layer_index", layer_index)
        kind = _choice("block_table_index_type", block_table_index_type, INDEX_TYPES)
        set_field(self, "block_table_index_type", kind)

    @property
    def buffer_count(self) -> int | None:
        return 3

    @property
    def index_bits(self) -> int:
        """Bits of an entry of the block table and of seq_ptr."""
        return _INDEX_BITS[self.block_table_index_type]

    # Wire fields

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        at = r.offset
        page_size = r.u32("page_size")
        if page_size == 0:
            r.fail("must be at least 1, but is 0", field="page_size", offset=at)
        num_pages = r.u64("num_pages")
        paged_axis = r.u32("paged_axis")
        if paged_axis != 0:
            r.fail(f"must be 0, but is {paged_axis}", field="paged_axis", offset=at + 12)
        num_seqs = r.u32("num_seqs")
        kv_role = _parse_choice(r, "kv_role", KV_ROLES)
        layer = r.u32("layer_index")
        index_type = _parse_choice(r, "block_table_index_type", INDEX_TYPES)
        r.reserved(6)
        layer_index = None if layer == _NO_LAYER else layer
        return cls(page_size, num_pages, paged_axis, num_seqs, kv_role, layer_index, index_type)

    def write_fields(self, w: Writer) -> None:
        w.u32(self.page_size)
        w.u64(self.num_pages)
        w.u32(self.paged_axis)
        w.u32(self.num_seqs)
        w.u8(KV_ROLES.index(self.kv_role))
        w.u32(_NO_LAYER if self.layer_index is None else self.layer_index)
        w.u8(INDEX_TYPES.index(self.block_table_index_type))
        w.zeros(6)

    # Rules

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        n_elements(shape)
        n_elems = self.num_pages * self.page_size * shape[1] * shape[2]
        n_bytes = bit_kernels.packed_nbytes(n_elems, bits)
        if n_bytes >= 2**64:
            raise BufferError(f"{self.num_pages} pages hold {n_elems} elements, more than 64 bits count in bytes")
        width = self.index_bits // 8
        pages_used = -(-shape[0] // self.page_size) if shape[0] else 0
        return (
            BufferSpec("page_pool", byte_offset + n_bytes),
            BufferSpec("block_table", min(pages_used * width, 2**64 - 1), index_bits=self.index_bits),
            BufferSpec("seq_ptr", (self.num_seqs + 1) * width, index_bits=self.index_bits),
        )

    def validate(self, payload: Payload) -> None:
        block_table, seq_ptr = self.tables(payload)
        self._check_tables(seq_ptr, block_table)
        if payload.sequence_lengths is not None:
            self._check_lengths(payload.sequence_lengths, seq_ptr, payload.shape[0])
            return
        pages = len(block_table)
        most = pages * self.page_size
        least = most - int(np.count_nonzero(seq_ptr[1:] != seq_ptr[:-1])) * (self.page_size - 1)
        if not least <= payload.shape[0] <= most:
            raise InvalidDescriptorError(
                f"shape[0] is {payload.shape[0]}, but {pages} pages in use hold {least} to {most} tokens"
            )

    def validate_index_buffers(self, seq_ptr: Any, block_table: Any) -> None:
        """Check the content of the two index buffers, given as sequences of integers.

        Raises
        ------
        InvalidDescriptorError
            ``seq_ptr`` has not ``num_seqs + 1`` entries, does not start at 0, decreases or does not end at the length
            of ``block_table``; or a page id is not below ``num_pages``. Sharing a page is no error.
        """
        ptr = np.array(as_index_tuple(seq_ptr, "seq_ptr"), np.uint64)
        table = np.array(as_index_tuple(block_table, "block_table"), np.uint64)
        if len(ptr) != self.num_seqs + 1:
            raise InvalidDescriptorError(f"seq_ptr has {len(ptr)} entries, but {self.num_seqs} sequences need one more")
        self._check_tables(ptr, table)

    def validate_quantization_compatibility(self, quantization: Any) -> None:
        """Check that a quantization scheme goes together with the paging.

        Scales lie per page slot, so that a shared page brings its own: per-block affine runs along axis 0 in blocks of
        a page. Per-channel runs along axis 1 or 2, per-tensor always fits, and nothing else does.

        Raises
        ------
        InvalidDescriptorError
            They do not go together, or it is no scheme.
        """
        name = getattr(quantization, "name", None)
        rule = _QUANTIZATION_RULES.get(name) if isinstance(name, str) else None
        if rule is None:
            shown = name if isinstance(name, str) else type(quantization).__name__
            raise InvalidDescriptorError(f"layout 'block_paged' cannot be quantized by {shown}").at(
                field="quantization"
            )
        problem = rule(self, quantization)
        if problem:
            raise InvalidDescriptorError(f"layout 'block_paged' with scheme {name}: {problem}").at(
                field="quantization.block_size" if problem.startswith("block_size") else "quantization.axis"
            )

    def _check_tables(self, seq_ptr: NDArray[Any], block_table: NDArray[Any]) -> None:
        code, at = paging.check_tables(block_table, seq_ptr, self.num_pages)
        if code == paging.OK:
            return
        table = block_table if code == paging.PAGE_TOO_HIGH else seq_ptr
        found = int(table[at])
        message = {
            paging.PTR_START: f"seq_ptr[0] must be 0, but is {found}",
            paging.PTR_DECREASES: f"seq_ptr[{at}] is {found}, less than the entry before",
            paging.PTR_END: f"seq_ptr[{at}] must be {len(block_table)}, the length of block_table, but is {found}",
            paging.PAGE_TOO_HIGH: f"block_table[{at}] is {found}, but there are {self.num_pages} pages",
        }[code]
        raise InvalidDescriptorError(message)

    def _check_lengths(self, lengths: Sequence[int], seq_ptr: NDArray[Any], total: int) -> None:
        if len(lengths) != self.num_seqs:
            raise InvalidDescriptorError(f"{len(lengths)} sequence lengths are given for {self.num_seqs} sequences")
        for k, n in enumerate(lengths):
            pages = int(seq_ptr[k + 1]) - int(seq_ptr[k])
            if -(-n // self.page_size) != pages or n < 0:
                raise InvalidDescriptorError(
                    f"sequence {k} has {pages} pages of {self.page_size} tokens, which {n} tokens do not fill"
                )
        if sum(lengths) != total:
            raise InvalidDescriptorError(f"the sequence lengths sum to {sum(lengths)}, but shape[0] is {total}")

    # Elements

    def tables(self, payload: Payload) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return block_table and seq_ptr as unsigned views, their content unchecked.

        Raises
        ------
        InvalidDescriptorError
            The block table is no whole number of entries.
        BufferError
            seq_ptr is too short.
        """
        width = self.index_bits // 8
        n_bytes = len(payload.buffers[TABLE])
        if n_bytes % width:
            raise InvalidDescriptorError(f"block_table has {n_bytes} bytes, no whole number of {width}-byte page ids")
        block_table = payload.index(TABLE, n_bytes // width, index_bits=self.index_bits)
        return block_table, payload.index(SEQ_PTR, self.num_seqs + 1, index_bits=self.index_bits)

    def sequence_lengths(self, payload: Payload) -> tuple[int, ...]:
        """Return the number of tokens of each sequence: as given, or derived where only one answer is possible.

        Raises
        ------
        InvalidDescriptorError
            The index buffers are broken, or the given lengths do not fit them.
        UnsupportedError
            The lengths are not derivable and none were given.
        """
        self.validate(payload)
        if payload.sequence_lengths is not None:
            return payload.sequence_lengths
        seq_ptr = self.tables(payload)[1]
        lengths = paging.derive_lengths(seq_ptr, self.page_size, payload.shape[0])
        if lengths is None:
            raise UnsupportedError(
                f"layout 'block_paged': {payload.shape[0]} tokens can be split over {self.num_seqs} sequences in "
                "several ways; give sequence_lengths, or a tensor that knows them: with_sequence_lengths()"
            )
        return tuple(lengths)

    def slots(self, payload: Payload, tokens: Int64) -> Int64:
        """Return the pool position (``page * page_size + slot``) of tokens numbered over all sequences."""
        lengths = self.sequence_lengths(payload)
        block_table, seq_ptr = self.tables(payload)
        return paging.token_slots(tokens, block_table, seq_ptr, lengths, self.page_size)

    def used_slots(self, buffers: Sequence[NDArray[np.uint8]], total: int) -> Int64:
        """Return the pool positions that certainly hold one of ``total`` tokens, whatever the sequence lengths.

        They ascend, each once, so they are no more than the pool has, however often its pages are named.  That is every
        token where the lengths are derivable, otherwise all but those behind the first of a last page.
        """
        payload = Payload(shape=(total, 0, 0), bits=8, storage=np.dtype("u1"), buffers=tuple(buffers))
        self.validate(payload)
        block_table, seq_ptr = self.tables(payload)
        lengths = paging.derive_lengths(seq_ptr, self.page_size, total)
        if lengths is None:
            pages = np.diff(seq_ptr.astype(np.int64))
            lengths = np.maximum(0, (pages - 1) * self.page_size + 1).tolist()
        return paging.used_slots(block_table, seq_ptr, lengths, self.page_size)

    def read(self, payload: Payload, region: Region) -> Codes:
        return self.read_slots(payload, region)[1]

    def read_slots(self, payload: Payload, region: Region) -> tuple[Int64, Codes]:
        """Return the pool positions of a region's tokens, and the codes of the region."""
        slots = self.slots(payload, axis_array(region[0]))
        return slots, self._gather(payload, slots, region)

    def read_sequence(self, payload: Payload, sequence: int) -> Codes:
        """Return the codes of one sequence, of shape (its tokens, heads, head dimension)."""
        lengths = self.sequence_lengths(payload)
        start = sum(lengths[:sequence])
        region = (range(start, start + lengths[sequence]), *full_region(payload.shape)[1:])
        return self.read(payload, region)

    def pool(self, payload: Payload) -> Codes:
        """Return the codes of all pages, of shape (num_pages, page_size, heads, head dimension)."""
        shape = (self.num_pages, self.page_size, *payload.shape[1:])
        n_elems = self.num_pages * self.page_size * payload.shape[1] * payload.shape[2]
        return payload.linear(n_elems, buffer=POOL).reshape(shape) if n_elems else np.empty(shape, payload.storage)

    def _gather(self, payload: Payload, slots: Int64, region: Region) -> Codes:
        shape = region_shape(region)
        if 0 in shape:
            return np.empty(shape, payload.storage)
        heads, dim = payload.shape[1:]
        if payload.bits >= 8 and is_full(region[1:], payload.shape[1:]):
            rows = self.num_pages * self.page_size
            return payload.linear(rows * heads * dim).reshape(rows, heads, dim).take(slots, axis=0)
        terms = [slots * (heads * dim), axis_array(region[1]) * dim, axis_array(region[2])]
        return gather_separable(payload, terms)

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Encoded:
        """Page dense codes of shape (tokens, heads, head dimension).

        Options are those of :meth:`from_sequences`, and ``sequence_lengths``: tokens of each sequence (default: one
        sequence has them all).
        """
        if codes.ndim != 3:
            raise InvalidDescriptorError(f"layout 'block_paged' needs rank 3, but the codes have rank {codes.ndim}")
        lengths = options.pop("sequence_lengths", None)
        parts = as_index_tuple((codes.shape[0],) if lengths is None else lengths, "sequence_lengths")
        total = codes.shape[0]
        if sum(parts) != total:
            raise InvalidDescriptorError(f"the sequence lengths sum to {sum(parts)}, but there are {total} tokens")
        # Tokens without a byte in them cost nothing to announce, but their pages would have to be listed.
        pages = total // as_int(options.get("page_size", 16), "page_size", low=1, high=2**32 - 1)
        if pages > max(codes.nbytes, _MOST_BLANK_PAGES):
            raise UnsupportedError(f"layout 'block_paged' would need {pages} pages for {total} tokens without elements")
        starts = itertools.accumulate(parts, initial=0)
        return cls.from_sequences([codes[a:b] for a, b in itertools.pairwise(starts)], bits, **options)

    def encode_options(self) -> dict[str, Any]:
        return {
            "page_size": self.page_size,
            "kv_role": self.kv_role,
            "layer_index": self.layer_index,
            "block_table_index_type": self.block_table_index_type,
        }

    @classmethod
    def from_sequences(
        cls,
        sequences: Sequence[Codes],
        bits: int,
        *,
        page_size: int = 16,
        kv_role: str = "key",
        layer_index: int | None = None,
        block_table_index_type: str = "uint32",
        share_prefixes: bool = False,
    ) -> Encoded:
        """Page sequences of codes, each of shape (tokens, heads, head dimension).

        Parameters
        ----------
        share_prefixes
            Store equal leading whole pages once.

        Raises
        ------
        InvalidDescriptorError
            The sequences differ in heads or head dimension.
        """
        inner = sequences[0].shape[1:] if sequences else (0, 0)
        for k, sequence in enumerate(sequences):
            if sequence.ndim != 3 or sequence.shape[1:] != inner:
                raise InvalidDescriptorError(f"sequence {k} has shape {sequence.shape}, expected (tokens, *{inner})")
        as_int(page_size, "page_size", low=1, high=2**32 - 1)
        table, ptr, sources = paging.plan_pages([_page_keys(s, page_size, share_prefixes) for s in sequences])
        layout = cls(page_size, len(sources), 0, len(sequences), kv_role, layer_index, block_table_index_type)
        dtype = sequences[0].dtype if sequences else np.dtype(np.uint8)
        # Slots behind the end of a sequence are undefined to readers; zeros keep equal tensors equal in bytes.
        try:
            pool: Codes = np.zeros((len(sources), page_size, *inner), dtype)
        except (MemoryError, ValueError):
            raise UnsupportedError(
                f"layout 'block_paged': {len(sources)} pages of {page_size} tokens of shape {inner} do not fit memory"
            ) from None
        for place, (s, p) in enumerate(sources):
            page = sequences[s][p * page_size : (p + 1) * page_size]
            pool[place, : len(page)] = page
        index = np.dtype(f"<u{layout.index_bits // 8}")
        tables = (np.array(table, index).view(np.uint8), np.array(ptr, index).view(np.uint8))
        return Encoded(layout, (pack_codes(pool, bits), *tables))


def _page_keys(sequence: Codes, page_size: int, share: bool) -> list[bytes | None]:
    whole = len(sequence) // page_size if share else 0
    keys: list[bytes | None] = [sequence[p * page_size : (p + 1) * page_size].tobytes() for p in range(whole)]
    return keys + [None] * (-(-len(sequence) // page_size) - whole)


def _choice(what: str, value: str, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is a string, not {type(value).__name__}")
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, not {value!r}")
    return value


def _parse_choice(r: Reader, field: str, choices: tuple[str, ...]) -> str:
    at = r.offset
    value = r.u8(field)
    if value >= len(choices):
        r.fail(f"must be at most {len(choices) - 1}, but is {value}", field=field, offset=at)
    return choices[value]


def _per_channel_problem(layout: BlockPagedLayout, q: Any) -> str | None:
    return None if q.axis in (1, 2) else f"the axis must be 1 or 2, not {q.axis}"


def _per_block_problem(layout: BlockPagedLayout, q: Any) -> str | None:
    if q.axis != 0:
        return f"the axis must be 0, not {q.axis}"
    if q.block_size != layout.page_size:
        return f"block_size {q.block_size} must equal page_size {layout.page_size}"
    return None


_QUANTIZATION_RULES: dict[Any, Any] = {
    "per_tensor_affine": lambda layout, q: None,
    "per_channel_affine": _per_channel_problem,
    "per_block_affine": _per_block_problem,
}
