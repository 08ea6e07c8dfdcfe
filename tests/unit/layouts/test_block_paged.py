"""BlockPagedLayout: fields, rules, reading and building."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hurray.dtypes.table import BY_NAME
from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.kernels import bits as bit_kernels
from hurray.layouts import BlockPagedLayout, Payload, RowMajorLayout
from hurray.layouts._region import index_view
from hurray.quantization import MXFP, NF4, Params, PerBlockAffine, PerChannelAffine, PerTensorAffine
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer


def make(**changes: Any) -> BlockPagedLayout:
    return BlockPagedLayout(**{"page_size": 4, "num_pages": 10, "paged_axis": 0, "num_seqs": 2, **changes})


def test_fields_on_the_wire() -> None:
    layout = make(kv_role="value", layer_index=7, block_table_index_type="uint64")
    w = Writer()
    layout.write_fields(w)
    assert w.getvalue().hex() == "040000000a000000000000000000000002000000010700000001000000000000"
    assert BlockPagedLayout.parse_fields(Reader(w.getvalue()), (8, 1, 2)) == layout
    w = Writer()
    make().write_fields(w)
    assert w.getvalue()[21:25] == b"\xff\xff\xff\xff"
    assert BlockPagedLayout.parse_fields(Reader(w.getvalue()), (8, 1, 2)) == make()
    assert repr(make()) == (
        "BlockPagedLayout(page_size=4, num_pages=10, paged_axis=0, num_seqs=2, kv_role='key', layer_index=None, "
        "block_table_index_type='uint32')"
    )
    assert (make().tag, make().buffer_count, make().is_dense, make().kind) == (0x0A, 3, False, "indirect")
    assert len({make(), make(), layout}) == 2


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0), (12, 1), (20, 3), (25, 2), (26, 1), (31, 1)],
    ids=["size", "axis", "role", "type", "reserved", "last"],
)
def test_bad_fields(at: int, value: int) -> None:
    w = Writer()
    make().write_fields(w)
    data = bytearray(w.getvalue())
    data[at] = value
    with pytest.raises(InvalidDescriptorError) as caught:
        BlockPagedLayout.parse_fields(Reader(data), (8, 1, 2))
    assert caught.value.offset is not None
    for n in range(len(data)):
        with pytest.raises(InvalidDescriptorError):
            BlockPagedLayout.parse_fields(Reader(w.getvalue()[:n]), (8, 1, 2))


@pytest.mark.parametrize(
    "changes",
    [{"page_size": 0}, {"page_size": 2**32}, {"num_pages": -1}, {"paged_axis": 1}, {"num_seqs": 2**32},
     {"layer_index": 0xFFFFFFFF}, {"layer_index": -1}],
)  # fmt: skip
def test_bad_arguments(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidDescriptorError):
        make(**changes)


def test_bad_words() -> None:
    for changes in ({"kv_role": "both"}, {"block_table_index_type": "u16"}):
        with pytest.raises(ValueError, match="must be one of"):
            make(**changes)
    with pytest.raises(TypeError):
        make(kv_role=0)
    with pytest.raises(TypeError):
        make(page_size=1.5)


def test_rank_and_sizes() -> None:
    with pytest.raises(InvalidDescriptorError):
        make().validate_against_shape((8, 2))
    pool, table, ptr = make(block_table_index_type="uint64").specs((8, 2, 3), 16)
    assert (pool.n_bytes, table.n_bytes, ptr.n_bytes) == (10 * 4 * 6 * 2, 16, 24)
    assert make().specs((8, 1, 3), 4)[0].n_bytes == 60
    with pytest.raises(BufferError):
        make(num_pages=2**62).specs((8, 2, 3), 8)


def test_validate_index_buffers() -> None:
    layout = make()
    layout.validate_index_buffers([0, 1, 3], [1, 2, 9])
    layout.validate_index_buffers(seq_ptr=np.array([0, 2, 2]), block_table=np.array([0, 0]))
    make(num_seqs=0).validate_index_buffers([0], [])
    for ptr, table, word in (
        ([0, 1, 3], [1, 2, 10], r"block_table\[2\] is 10"),
        ([0, 1], [1], "seq_ptr has 2 entries"),
        ([1, 1, 1], [1], r"seq_ptr\[0\]"),
        ([0, 2, 1], [1], r"seq_ptr\[2\] is 1, less"),
        ([0, 1, 1], [1, 2], r"seq_ptr\[2\] must be 2"),
    ):
        with pytest.raises(InvalidDescriptorError, match=word):
            layout.validate_index_buffers(ptr, table)


def test_quantization_compatibility() -> None:
    layout = make()
    for good in (
        PerTensorAffine(1.0, 0),
        PerChannelAffine.symmetric(1, 3),
        PerChannelAffine.asymmetric(2, 3, 4),
        PerBlockAffine.symmetric(0, 4, 3),
    ):
        layout.validate_quantization_compatibility(good)
    for bad in (
        PerChannelAffine.symmetric(0, 3),
        PerBlockAffine.symmetric(1, 4, 3),
        PerBlockAffine.symmetric(0, 8, 3),
        NF4(0, 8, 3),
        MXFP(0, 16, 3),
        None,
        RowMajorLayout(),
    ):
        with pytest.raises(InvalidDescriptorError):
            layout.validate_quantization_compatibility(bad)


def payload_for(encoded: Any, shape: tuple[int, ...], bits: int, storage: Any, lengths: Any = None) -> Payload:
    return Payload(shape=shape, bits=bits, storage=np.dtype(storage), buffers=encoded.buffers, sequence_lengths=lengths)


@given(
    st.lists(st.integers(0, 7), max_size=4),
    st.integers(1, 4),
    st.sampled_from([("float32", "<f4"), ("int8", "i1"), ("uint4", "u1"), ("int2", "u1"), ("float6_e2m3", "u1")]),
    st.booleans(),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_round_trip(lengths: list[int], page_size: int, kind: tuple[str, str], share: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = BY_NAME[kind[0]].bit_width
    inner = (int(rng.integers(1, 3)), int(rng.integers(1, 4)))
    sequences = [rng.integers(0, 1 << min(bits, 7), (n, *inner)).astype(kind[1]) for n in lengths]
    if share and len(sequences) > 1:
        n = min(lengths[0], lengths[1])
        sequences[1][:n] = sequences[0][:n]
    encoded = BlockPagedLayout.from_sequences(sequences, bits, page_size=page_size, share_prefixes=share)
    layout = encoded.layout
    assert isinstance(layout, BlockPagedLayout)
    inner = inner if lengths else (0, 0)
    shape = (sum(lengths), *inner)
    payload = payload_for(encoded, shape, bits, kind[1], tuple(lengths))
    layout.validate(payload)
    for spec, buffer in zip(layout.specs(shape, bits), encoded.buffers, strict=True):
        assert len(buffer) >= spec.n_bytes
    whole = np.concatenate([np.empty((0, *inner), kind[1]), *sequences])
    assert np.array_equal(layout.read_all(payload), whole)
    for k, sequence in enumerate(sequences):
        assert np.array_equal(layout.read_sequence(payload, k), sequence)
    region = tuple(rng.integers(0, n, 4) if n else range(0) for n in shape)
    assert np.array_equal(layout.read(payload, region), index_view(whole, region))
    region = tuple(range(n - 1, -1, -2) for n in shape)
    assert np.array_equal(layout.read(payload, region), index_view(whole, region))
    again = BlockPagedLayout.encode(whole, bits, sequence_lengths=lengths, **layout.encode_options())
    assert again.layout.num_seqs == len(lengths)  # type: ignore[attr-defined]
    if share and len(sequences) > 1:
        shared = min(lengths[0], lengths[1]) // page_size
        assert layout.num_pages <= sum(-(-n // page_size) for n in lengths) - shared


def test_one_sequence_by_default() -> None:
    codes = np.arange(14, dtype=np.int8).reshape(7, 1, 2)
    encoded = BlockPagedLayout.encode(codes, 8, page_size=4)
    payload = payload_for(encoded, codes.shape, 8, "i1")
    assert np.array_equal(encoded.layout.read_all(payload), codes)
    assert encoded.buffers[0].view("i1").tolist() == [*range(14), 0, 0]
    with pytest.raises(InvalidDescriptorError, match="sum"):
        BlockPagedLayout.encode(codes, 8, sequence_lengths=[3, 3])
    with pytest.raises(InvalidDescriptorError, match="rank"):
        BlockPagedLayout.encode(codes[0], 8)
    with pytest.raises(InvalidDescriptorError, match="sequence 1"):
        BlockPagedLayout.from_sequences([codes, codes[:, :, :1]], 8)


def test_lengths_are_checked_and_asked_for() -> None:
    codes = np.arange(7, dtype=np.int8).reshape(7, 1, 1)
    encoded = BlockPagedLayout.encode(codes, 8, page_size=2, sequence_lengths=[3, 4])
    payload = payload_for(encoded, codes.shape, 8, "i1")
    with pytest.raises(UnsupportedError, match="sequence_lengths"):
        encoded.layout.read_all(payload)
    given_ = replace(payload, sequence_lengths=(4, 3))
    assert encoded.layout.read_all(given_).shape == (7, 1, 1)
    for lengths in ((2, 5), (4, 4), (7,), (-1, 8)):
        with pytest.raises(InvalidDescriptorError):
            encoded.layout.read_all(replace(payload, sequence_lengths=lengths))
    for total in (5, 9):
        with pytest.raises(InvalidDescriptorError, match="hold 6 to 8"):
            encoded.layout.validate(replace(payload, shape=(total, 1, 1)))


def test_broken_buffers_are_refused_before_any_read() -> None:
    codes = np.arange(8, dtype=np.int8).reshape(8, 1, 1)
    encoded = BlockPagedLayout.encode(codes, 8, page_size=2)
    pool, table, ptr = encoded.buffers
    payload = payload_for(encoded, codes.shape, 8, "i1")
    for buffers, error in (
        ((pool, table[:-1], ptr), InvalidDescriptorError),
        ((pool, table, ptr[:-1]), BufferError),
        ((pool[:-1], table, ptr), BufferError),
        ((pool, np.full_like(table, 255), ptr), InvalidDescriptorError),
        ((pool, table, np.full_like(ptr, 255)), InvalidDescriptorError),
    ):
        with pytest.raises(error):
            encoded.layout.read_all(replace(payload, buffers=buffers))


@pytest.mark.parametrize("symmetric", [True, False])
def test_per_slot_quantization(symmetric: bool) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(7, 2, 3)).astype(np.float32)
    dtype = BY_NAME["int8"]
    frame = BlockPagedLayout.encode(np.zeros(x.shape, np.int8), 8, page_size=2, sequence_lengths=[3, 4])
    layout = frame.layout
    assert isinstance(layout, BlockPagedLayout)
    payload = payload_for(frame, x.shape, 8, "i1", (3, 4))
    slots = layout.slots(payload, np.arange(7))
    done = PerBlockAffine.quantize_slots(
        x, dtype, slots, page_size=2, n_slots=layout.num_pages * 2, symmetric=symmetric
    )
    layout.validate_quantization_compatibility(done.scheme)
    encoded = BlockPagedLayout.encode(done.codes, 8, page_size=2, sequence_lengths=[3, 4])
    buffers = (*encoded.buffers, *done.buffers)
    params = Params(shape=x.shape, dtype=dtype, layout=layout, buffers=buffers)
    assert [len(buffers[s.index]) for s in done.scheme.param_specs(x.shape, layout)] == [
        s.n_bytes for s in done.scheme.param_specs(x.shape, layout)
    ]
    done.scheme.check_values(params)
    whole = replace(payload, buffers=buffers)
    back = done.scheme.dequantize_slots(layout.read_all(whole), slots, params)
    limit = np.abs(x).max(axis=(1, 2), keepdims=True) / 127
    assert (np.abs(back - x) <= limit * 1.01).all()
    region = (range(1, 6, 2), range(1, 2), range(2, -1, -1))
    part_slots, codes = layout.read_slots(whole, region)
    part = done.scheme.dequantize_slots(codes, part_slots, params, region)
    assert np.array_equal(part, index_view(back, region))
    # The scale of a slot that no token can use is undefined; that of a used one is not.
    scales = buffers[3].copy().view("<f4")
    unused = sorted(set(range(8)) - set(slots.tolist()))
    scales[unused] = np.nan
    spoiled = replace(params, buffers=(*buffers[:3], scales.view(np.uint8), *buffers[4:]))
    done.scheme.check_values(spoiled)
    scales[slots[4]] = 0
    with pytest.raises(InvalidDescriptorError, match=f"slot {slots[4]}"):
        done.scheme.check_values(spoiled)
    with pytest.raises(InvalidDescriptorError, match=f"slot {slots[4]}"):
        done.scheme.dequantize_slots(layout.read_all(whole), slots, spoiled)


def test_per_channel_slots_follow_the_region() -> None:
    x = np.arange(12, dtype=np.int8).reshape(2, 2, 3)
    encoded = BlockPagedLayout.encode(x, 8, page_size=2)
    scheme = PerChannelAffine.symmetric(2, 3)
    scales = np.array([1, 10, 100], "<f4")
    layout = encoded.layout
    params = Params(
        shape=x.shape, dtype=BY_NAME["int8"], layout=layout, buffers=(*encoded.buffers, scales.view(np.uint8))
    )
    payload = payload_for(encoded, x.shape, 8, "i1")
    region = (range(2), range(2), range(2, 0, -1))
    slots, codes = layout.read_slots(payload, region)  # type: ignore[attr-defined]
    got = scheme.dequantize_slots(codes, slots, params, region)
    assert np.array_equal(got, x[:, :, :0:-1] * scales[:0:-1])


def test_sub_byte_pool_packs_across_pages() -> None:
    codes = np.arange(5, dtype=np.uint8).reshape(5, 1, 1)
    encoded = BlockPagedLayout.encode(codes, 4, page_size=3)
    assert bit_kernels.unpack(encoded.buffers[0], 4, 6).tolist() == [0, 1, 2, 3, 4, 0]
