"""Paged tensors from sequences, and their sequences again."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import hurray

RNG = np.random.default_rng(7)


def tokens(n: int) -> NDArray[Any]:
    return RNG.normal(size=(n, 2, 3)).astype(np.float32)


PROMPT = tokens(8)
SEQUENCES = [np.concatenate([PROMPT, tokens(3)]), tokens(0), np.concatenate([PROMPT, tokens(9)]), tokens(5)]


def test_sequences_come_back() -> None:
    t = hurray.paged(SEQUENCES, page_size=4, kv_role="value", layer_index=3)
    assert t.layout == hurray.BlockPagedLayout(4, 3 + 5 + 2, 0, 4, "value", 3)
    assert t.shape == (33, 2, 3)
    assert t.sequence_lengths == (11, 0, 17, 5)
    for k, want in enumerate(SEQUENCES):
        np.testing.assert_array_equal(t.sequence(k), want)
        np.testing.assert_array_equal(t.sequence(k - 4), want)
    whole = np.concatenate(SEQUENCES)
    np.testing.assert_array_equal(t.to_numpy(), whole)
    np.testing.assert_array_equal(t[9:13, 1], whole[9:13, 1])
    assert t.lookup([[32, 1, 2]])[0] == whole[32, 1, 2]
    t.validate()


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    common=st.integers(0, 7),
    page_size=st.integers(1, 5),
    share=st.booleans(),
    index=st.sampled_from(["uint32", "uint64"]),
)
def test_any_lengths_and_prefixes(lengths: list[int], common: int, page_size: int, share: bool, index: str) -> None:
    start = np.arange(common * 2, dtype=np.int16).reshape(common, 1, 2)
    parts = [np.concatenate([start, np.full((n, 1, 2), 100 + k, np.int16)]) for k, n in enumerate(lengths)]
    t = hurray.paged(parts, page_size=page_size, share_prefixes=share, block_table_index_type=index)
    t.validate()
    assert t.sequence_lengths == tuple(map(len, parts))
    for k, want in enumerate(parts):
        assert t.sequence(k).tolist() == want.tolist()
    if share:
        spared = (len(parts) - 1) * (common // page_size)
        assert t.layout.num_pages <= sum(-(-len(p) // page_size) for p in parts) - spared  # type: ignore[attr-defined]


def test_other_types_and_sources() -> None:
    narrow = [s.astype(ml_dtypes.bfloat16) for s in SEQUENCES]
    assert hurray.paged(narrow, page_size=4).sequence(2).tobytes() == narrow[2].tobytes()
    assert hurray.paged(SEQUENCES, dtype=hurray.bfloat16).sequence(0).tobytes() == narrow[0].tobytes()
    packed = hurray.asarray(np.arange(12).reshape(2, 2, 3) % 8, dtype=hurray.dtype.int4)
    t = hurray.paged([packed, packed.to_layout("col_major")], page_size=2, share_prefixes=True)
    assert t.dtype is hurray.dtype.int4
    assert t.layout.num_pages == 1
    assert t.sequence(1).astype(int).tolist() == (np.arange(12).reshape(2, 2, 3) % 8).tolist()


@pytest.mark.parametrize(
    ("sequences", "error", "match"),
    [
        ([], hurray.InvalidDescriptorError, "at least one sequence"),
        ([np.ones((2, 3))], hurray.InvalidDescriptorError, "sequence 0 has shape"),
        ([np.ones((1, 2, 3)), np.ones((1, 3, 3))], hurray.InvalidDescriptorError, "sequence 1 has shape"),
        ([np.ones((1, 2, 3)), np.ones((1, 2, 3), "f4")], hurray.InvalidDescriptorError, "sequence 1 is of float32"),
        ([hurray.quantize(np.ones((1, 2, 3)), "int8")], hurray.UnsupportedError, "sequence 0 is quantized"),
    ],
)
def test_sequences_that_do_not_fit(sequences: list[Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        hurray.paged(sequences)


def test_files_do_not_carry_lengths_and_programs_give_them_back() -> None:
    file = io.BytesIO()
    hurray.save(file, {"k": hurray.paged(SEQUENCES, page_size=4)}, kv={"k": [11, 0, 17, 5]})
    with hurray.open(file) as f:
        t = f["k"]
        lengths = f.kv["k"]
    assert isinstance(t, hurray.Tensor)
    assert t.sequence_lengths is None
    with pytest.raises(hurray.UnsupportedError, match="with_sequence_lengths"):
        t.sequence(0)
    known = t.with_sequence_lengths(lengths)
    np.testing.assert_array_equal(known.sequence(2), SEQUENCES[2])
    assert known.buffer(0).to_numpy().ctypes.data == t.buffer(0).to_numpy().ctypes.data
    for wrong in ([11, 0, 17], [11, 0, 16, 6], [11, 1, 16, 5], [-1, 0, 29, 5]):
        with pytest.raises(hurray.InvalidDescriptorError):
            t.with_sequence_lengths(wrong)


def test_lengths_stay_with_what_is_made_of_a_tensor() -> None:
    t = hurray.paged(SEQUENCES, page_size=4)
    want = t.sequence_lengths
    again = hurray.asarray(np.concatenate(SEQUENCES)).to_layout("block_paged", page_size=2, sequence_lengths=want)
    quantized = hurray.quantize(t, "int8_per_block")
    for u in (
        copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t)), pickle.loads(pickle.dumps(t, protocol=2)),
        again, t.to_layout("block_paged", page_size=3), quantized, quantized.storage(), t.with_statistics(None),
    ):  # fmt: skip
        assert u.sequence_lengths == want
    real = quantized.sequence(2)
    assert real.dtype == np.float32
    assert np.abs(real - SEQUENCES[2]).max() < 0.03
    np.testing.assert_array_equal(real, quantized.dequantize().to_numpy()[11:28])


def test_lengths_that_follow_need_not_be_told() -> None:
    t = hurray.Tensor(
        np.arange(8, dtype=np.float32),
        hurray.float32,
        [4, 1, 2],
        layout=hurray.BlockPagedLayout(2, 2, 0, 2),
        aux_buffers=[np.array([1, 0], np.uint32), np.array([0, 1, 2], np.uint32)],
    )
    assert t.sequence_lengths == (2, 2)
    assert t.sequence(0)[:, 0].tolist() == [[4.0, 5.0], [6.0, 7.0]]
    with pytest.raises(IndexError, match="no sequence 2"):
        t.sequence(2)
    with pytest.raises(IndexError):
        t.sequence(-3)


def test_other_layouts_have_no_sequences() -> None:
    t = hurray.zeros([2, 2, 2])
    assert not hasattr(t, "sequence_lengths")
    assert not {"sequence", "sequence_lengths", "with_sequence_lengths"} & set(dir(t))
    assert {"sequence", "sequence_lengths", "block_table"} <= set(dir(hurray.paged([np.ones((1, 1, 1))])))
    with pytest.raises(hurray.UnsupportedError, match="row_major"):
        t.sequence(0)
    with pytest.raises(hurray.UnsupportedError, match="row_major"):
        t.with_sequence_lengths([2])
