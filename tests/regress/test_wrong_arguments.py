"""Arguments of wrong types, and objects that lie: TypeError or one of ours, never something from far below."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import hurray

T = hurray.asarray(np.arange(12.0).reshape(3, 4))
Q = hurray.quantize(T, "int8")
CSR = T.to_layout("csr")
SECTIONS: list[Any] = ["x", 1.5, [1], T, hurray.float32, ...]


@pytest.mark.parametrize("wrong", SECTIONS, ids=repr)
@pytest.mark.parametrize("name", ["shard", "statistics", "extension_type"])
def test_sections_of_composites(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError):
        hurray.Composite("group", shape=(), dtype=hurray.float32, members=[T], **{name: wrong})


@pytest.mark.parametrize("wrong", [None, "float32", np.float32, T])
def test_dtype_of_dequantize(wrong: Any) -> None:
    with pytest.raises(TypeError):
        Q.dequantize(dtype=wrong)


@pytest.mark.parametrize("wrong", [None, "x", np.zeros(3), hurray])
def test_what_takes_tensors_only(wrong: Any) -> None:
    with pytest.raises(TypeError):
        hurray.compute_statistics(wrong)
    with pytest.raises(TypeError):
        hurray.quantization_error(T, wrong)


@pytest.mark.parametrize("wrong", ["x", [("a", 1)], T, 3])
def test_metadata_that_are_no_mapping(wrong: Any) -> None:
    with pytest.raises(TypeError):
        hurray.save(io.BytesIO(), {"t": T}, kv=wrong)
    with pytest.raises(TypeError):
        hurray.to_safetensors(io.BytesIO(), {"t": T}, kv=wrong)


def test_flags_and_hints_of_writers() -> None:
    for flag in (-1, 7, "yes", 0, ""):
        target = io.BytesIO()
        with hurray.Writer(target, sort_index=flag) as w:  # type: ignore[arg-type]
            w.add("b", T)
            w.add("a", T)
        assert list(hurray.load(target)) == (["a", "b"] if flag else ["b", "a"])
    for hint in (1.5, "3", True, np.True_, -1, 2**64):
        with pytest.raises(hurray.FileError):
            hurray.Writer(io.BytesIO(), tensor_count_hint=hint)  # type: ignore[arg-type]


COPIES: dict[str, Any] = {
    "to_numpy": lambda copy: CSR.to_numpy(copy=copy),
    "__array__": lambda copy: hurray.asarray([True, False]).__array__(copy=copy),
    "from_numpy": lambda copy: hurray.from_numpy(np.arange(4, dtype=">i4"), copy=copy),
    "asarray": lambda copy: hurray.asarray([1, 2], copy=copy),
    "from_dlpack": lambda copy: hurray.from_dlpack(np.ones(3, bool), copy=copy),
    "sparse_coo": lambda copy: hurray.sparse_coo([1.0], [[0, 1]], (2, 2), copy=copy),
}


@pytest.mark.parametrize("name", COPIES)
def test_copy_is_a_bool_or_none(name: str) -> None:
    # A False of NumPy, as comparisons give it, was taken for "when needed" and copied without a word.
    for no in (False, np.False_):
        with pytest.raises(hurray.CopyRequiredError):
            COPIES[name](no)
    COPIES[name](None)
    COPIES[name](np.True_)
    for wrong in (0, 1, "no", "", [False], 0.0, object()):
        with pytest.raises(TypeError):
            COPIES[name](wrong)


@pytest.mark.parametrize("wrong", ["x", [1.5, 1.5], ["1", "2"], 3, [True, True], [None, None], [[1], [2]]])
def test_sequence_lengths_are_integers(wrong: Any) -> None:
    layout = hurray.BlockPagedLayout(2, 2, 0, 2)
    tables = [np.array([0, 1], "<u4"), np.array([0, 1, 2], "<u4")]
    t = hurray.Tensor(np.arange(4.0), hurray.float64, [3, 1, 1], layout=layout, aux_buffers=tables)
    assert t.to_numpy(sequence_lengths=[2, 1]).reshape(-1).tolist() == [0, 1, 2]
    for read in (t.to_numpy, hurray.compute_statistics):
        with pytest.raises(TypeError):
            read(sequence_lengths=wrong) if read == t.to_numpy else read(t, sequence_lengths=wrong)


RAGGED = [[1], [1, 2]]


def test_ragged_lists() -> None:
    for t in (T, CSR, Q.storage()):
        with pytest.raises(IndexError):
            t[RAGGED]
        with pytest.raises(IndexError):
            t.lookup(RAGGED)
    with pytest.raises(IndexError):
        Q.dequantize(RAGGED)
    for make in (
        lambda: hurray.asarray(RAGGED), lambda: hurray.full((2,), RAGGED), lambda: hurray.full_like(T, RAGGED),
        lambda: hurray.sparse_coo([1.0, 2.0], RAGGED, (2, 2)), lambda: hurray.to_npy(io.BytesIO(), RAGGED),
        lambda: hurray.quantize(RAGGED, "int8"), lambda: hurray.save(io.BytesIO(), {"a": RAGGED}),
    ):  # fmt: skip
        with pytest.raises((hurray.HurrayError, TypeError)):
            make()


DATES = np.array([1, 2], "M8[s]")


def test_arrays_of_dates_are_no_bytes() -> None:
    for make in (
        lambda: hurray.load(DATES), lambda: hurray.verify(DATES), lambda: hurray.decode_quantization(DATES),
        lambda: hurray.PrivateExtensionLayout(0xF0, 1, DATES), lambda: hurray.UnknownLayout(0x41, DATES),
        lambda: list(hurray.StreamReader(DATES)), lambda: hurray.from_npz(DATES),
    ):  # fmt: skip
        with pytest.raises((hurray.HurrayError, TypeError)):
            make()


def test_names_and_remarks_that_are_no_text() -> None:
    for name in ("\ud800", 3, None, b"x"):
        for write in (hurray.to_npz, hurray.to_safetensors, hurray.save):
            with pytest.raises((hurray.HurrayError, TypeError)):
                write(io.BytesIO(), {name: T})
    for comment in ("\ud800", 3, b"x"):
        with pytest.raises((hurray.HurrayError, TypeError)):
            hurray.to_frostt(io.BytesIO(), CSR, comment=comment)


class LyingMapping(dict[str, Any]):
    """A mapping that has more items than it says, and one of them twice."""

    def __len__(self) -> int:
        return 1

    def items(self) -> Any:
        return [("a", 1), ("b", 2), ("a", 3)]


def test_what_is_written_are_the_entries_not_their_number() -> None:
    target = io.BytesIO()
    hurray.save(target, {}, kv=LyingMapping(x=1))
    assert hurray.load_kv(target) == {"a": 3, "b": 2}


def test_metadata_that_change_after_they_were_given() -> None:
    values: list[Any] = [1, 2]
    given: dict[str, Any] = {"list": values, "np": np.arange(3)}
    target = io.BytesIO()
    with hurray.Writer(target, kv=given) as w:
        values.append("text")
        given["np"][0] = 99
        given["late"] = object()
        w.add("t", T)
    assert hurray.load_kv(target) == {"list": [1, 2], "np": [0, 1, 2]}


class Device:
    """A producer of DLPack capsules whose device is nonsense."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __dlpack__(self, **_: Any) -> Any:
        return 5

    def __dlpack_device__(self) -> Any:
        return self.device


@pytest.mark.parametrize("device", ["x", "xy", None, (1,), (1, 2, 3), (1, None), (2**70, 0), (1, 0)])
def test_producers_that_lie(device: Any) -> None:
    for take in (hurray.from_dlpack, hurray.asarray):
        with pytest.raises((hurray.HurrayError, TypeError)):
            take(Device(device))


def test_records_are_no_dtype_for_numbers() -> None:
    for dtype in ({}, [("a", "f4")], "\ud800"):
        for t in (T, CSR):
            with pytest.raises(TypeError):
                t.to_numpy(dtype=dtype)


def test_a_composite_pickle_that_is_none() -> None:
    restore, (head, members) = hurray.Composite("group", shape=(), dtype=hurray.float32, members=[T]).__reduce__()
    assert callable(restore)
    for wrong in ((T.descriptor.encode(), members), (head, ()), (head, (T, T))):
        with pytest.raises(hurray.InvalidDescriptorError):
            restore(*wrong)


def test_nested_tiles_that_do_not_divide_are_refused_by_every_reader() -> None:
    inner = hurray.TiledLayout([2, 2**63])
    layout = hurray.TiledLayout([4, 4], "row_major", "tiled", inner_tiled=inner)
    t = hurray.Tensor(bytes(4096), hurray.int16, [6, 6], layout=layout)
    for read in (t.to_numpy, lambda: t[0, 0], lambda: t.lookup([[0, 1]]), lambda: t[[1, 2], [3, 4]], t.nonzeros):
        with pytest.raises(hurray.InvalidDescriptorError):
            read()
