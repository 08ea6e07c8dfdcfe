"""Tensors made of what users hold: arrays, numbers, sequences, coordinates."""

from __future__ import annotations

import array
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers
import hurray
from hurray import CopyRequiredError, InvalidDescriptorError, UnsupportedError
from hurray.dtypes.table import ALL_DTYPES

F32 = hurray.float32


def shares(t: hurray.Tensor, source: np.ndarray[Any, Any]) -> bool:
    return bool(np.shares_memory(t.buffer(0).to_numpy(), source))


# from_numpy


@pytest.mark.parametrize(
    ("view", "layout"),
    [
        (lambda a: a, hurray.RowMajorLayout()),
        (lambda a: a.T, hurray.ColMajorLayout()),
        (lambda a: a[::2, 1:], hurray.StridedLayout([8, 1])),
        (lambda a: a[::-1], hurray.StridedLayout([-4, 1])),
        (lambda a: a[:, ::-2], hurray.StridedLayout([4, -2])),
        (lambda a: a[1], hurray.RowMajorLayout()),
        (lambda a: a[:, 1], hurray.StridedLayout([4])),
        (lambda a: a[:, :1], hurray.StridedLayout([4, 1])),
        (lambda a: a[:1, ::-1][:, :1], hurray.RowMajorLayout()),
        (lambda a: a[:0], hurray.RowMajorLayout()),
        (lambda a: a[:, None], hurray.RowMajorLayout()),
        (lambda a: np.broadcast_to(a[0], (3, 4)), hurray.StridedLayout([0, 1])),
        (lambda a: np.broadcast_to(a[:1, :1], (2, 2)), hurray.StridedLayout([0, 0])),
        (lambda a: a[0, 0, ...], hurray.RowMajorLayout()),
    ],
)
def test_any_view_is_shared(view: Any, layout: hurray.Layout) -> None:
    whole = np.arange(24.0).reshape(6, 4)
    source = view(whole)
    for copy in (None, False):
        t = hurray.from_numpy(source, copy=copy)
        assert t.layout == layout
        assert t.shape == source.shape
        helpers.assert_same_bits(t.to_numpy(), np.ascontiguousarray(source).reshape(source.shape))
        assert source.size == 0 or shares(t, whole)
        assert not t.to_numpy().flags.writeable
    own = hurray.from_numpy(source, copy=True)
    assert own.layout == hurray.RowMajorLayout()
    assert not shares(own, whole)
    helpers.assert_same_bits(own.to_numpy(), np.ascontiguousarray(source).reshape(source.shape))


@pytest.mark.parametrize(
    "source",
    [
        np.arange(3, dtype=">f4"),
        np.array([True, False]),
        np.array([1, -2], ml_dtypes.int4),
        np.array([1.5], ml_dtypes.float6_e2m3fn),
        np.zeros(3, [("a", "u1"), ("v", "<f4")])["v"],
    ],
)
def test_what_needs_a_copy(source: np.ndarray[Any, Any]) -> None:
    for copy in (None, True):
        t = hurray.from_numpy(source, copy=copy)
        assert np.array_equal(t.to_numpy(), source)
        assert not shares(t, source)
    with pytest.raises(CopyRequiredError, match=r"copy|split"):
        hurray.from_numpy(source, copy=False)


@pytest.mark.parametrize("dtype", [d for d in ALL_DTYPES if d.name != "float128"])
def test_every_numpy_type(dtype: hurray.Dtype) -> None:
    kind = dtype.numpy
    assert kind is not None
    values = np.array([1, 2] if dtype.name != "bool" and dtype.bit_width > 2 else [1, 0]).astype(kind)
    t = hurray.from_numpy(values)
    assert t.dtype is dtype
    helpers.assert_same_bits(t.to_numpy() if dtype.name != "float8_e8m0" else values, values)
    scalar = hurray.from_numpy(values[0])
    assert (scalar.shape, scalar.dtype) == ((), dtype)
    assert hurray.from_numpy(values[:0]).shape == (0,)


@pytest.mark.parametrize(
    "source",
    [
        np.array(["a"]), np.array([b"a"]), np.array([object()]), np.array([1], "M8[s]"), np.array([1], "m8[s]"),
        np.zeros(2, [("a", "i4")]), np.zeros(2, np.longdouble), np.zeros(2, "V3"),
        np.ma.masked_array([1.0, 2], [False, True]),
    ],
)  # fmt: skip
def test_arrays_without_a_type_here(source: Any) -> None:
    for make in (hurray.from_numpy, hurray.asarray):
        with pytest.raises(UnsupportedError):
            make(source)


def test_subclasses_and_wrong_types() -> None:
    assert hurray.from_numpy(np.ma.masked_array([1.0, 2])).to_numpy().tolist() == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert hurray.from_numpy(np.matrix([[1, 2]])).shape == (1, 2)
    for source in ([1, 2], 3, b"abc", hurray.zeros([2]), None):
        with pytest.raises(TypeError, match="asarray"):
            hurray.from_numpy(source)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hurray.from_numpy(np.zeros(2), True)  # type: ignore[misc]


# asarray


@pytest.mark.parametrize(
    ("obj", "dtype", "values"),
    [
        ([1, 2, 3], "int64", [1, 2, 3]),
        ((1.5, 2), "float64", [1.5, 2.0]),
        ([[1, 2], [3, 4]], "int64", [[1, 2], [3, 4]]),
        (3, "int64", 3),
        (2.5, "float64", 2.5),
        (True, "bool", True),
        ([True, False], "bool", [True, False]),
        (1 + 2j, "complex128", 1 + 2j),
        ([2**63, 2**64 - 1], "uint64", [2**63, 2**64 - 1]),
        ([], "float64", []),
        ([[]], "float64", [[]]),
        (np.float32(3), "float32", 3.0),
        ([np.float16(1)], "float16", [1.0]),
        (range(3), "int64", [0, 1, 2]),
        (bytearray(b"ab"), "uint8", [97, 98]),
        (memoryview(b"ab"), "uint8", [97, 98]),
        (array.array("h", [1, -1]), "int16", [1, -1]),
    ],
)
def test_asarray(obj: Any, dtype: str, values: Any) -> None:
    t = hurray.asarray(obj)
    assert t.dtype.name == dtype
    assert t.to_numpy().tolist() == values


@pytest.mark.parametrize("obj", ["x", b"x", None, object(), [1, "a"], {1: 2}, {1, 2}, [2**70], (x for x in [1])])
def test_asarray_refuses(obj: Any) -> None:
    with pytest.raises(UnsupportedError):
        hurray.asarray(obj)


def test_asarray_of_ragged_sequences() -> None:
    with pytest.raises(InvalidDescriptorError, match="no array"):
        hurray.asarray([[1, 2], [3]])


def test_asarray_keeps_tensors() -> None:
    t = hurray.from_numpy(np.eye(3)).to_layout("csr")
    assert hurray.asarray(t) is t
    assert hurray.asarray(t, dtype=hurray.float64, copy=False) is t
    own = hurray.asarray(t, copy=True)
    assert own.layout == t.layout
    assert not np.shares_memory(own.values.to_numpy(), t.values.to_numpy())
    with pytest.raises(CopyRequiredError):
        hurray.asarray(t, dtype=F32, copy=False)
    narrow = hurray.asarray(t, dtype=F32)
    assert (narrow.layout, narrow.dtype) == (t.layout, F32)
    assert narrow.to_numpy().tolist() == np.eye(3).tolist()
    quantized = hurray.quantize(np.ones(4, np.float32), "int8")
    with pytest.raises(UnsupportedError, match="dequantize"):
        hurray.asarray(quantized, dtype=F32)


def test_copy_means_what_it_says_with_a_dtype() -> None:
    source = np.arange(3, dtype=np.float32)
    assert shares(hurray.asarray(source, dtype=F32, copy=None), source)
    assert shares(hurray.asarray(source, dtype=F32, copy=False), source)
    assert not shares(hurray.asarray(source, dtype=F32, copy=True), source)
    assert not shares(hurray.asarray(source, dtype=hurray.float64, copy=True), source)
    for swapped in (source.astype(">f4"), source.astype(np.float64)):
        with pytest.raises(CopyRequiredError):
            hurray.asarray(swapped, dtype=F32, copy=False)
    with pytest.raises(CopyRequiredError):
        hurray.asarray([1, 2], copy=False)


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"dtype": int}, {"device": "cpu"}])
def test_asarray_checks_its_options(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        hurray.asarray([1], **options)
    with pytest.raises(UnsupportedError):
        hurray.asarray([1], device=hurray.device.cuda)


NUMBERS = [d for d in ALL_DTYPES if d.name not in ("bool", "float8_e8m0")]


@given(st.sampled_from(NUMBERS), st.lists(st.integers(-(2**66), 2**66), max_size=6))
def test_integers_fit_or_are_refused(dtype: hurray.Dtype, values: list[int]) -> None:
    kind = np.asarray(values).dtype
    if kind.hasobject:
        return
    low, high = 0, 0
    if dtype.is_integer:
        low = -(2 ** (dtype.bit_width - 1)) if dtype.is_signed else 0
        high = 2 ** (dtype.bit_width - dtype.is_signed) - 1
        if kind.kind == "f":  # what NumPy makes of mixed signs
            values = [int(v) for v in np.asarray(values)]
        if values and not (low <= min(values) and max(values) <= high):
            with pytest.raises(InvalidDescriptorError, match=f"{dtype} holds integers from {low} to {high}"):
                hurray.asarray(np.asarray(values, kind), dtype=dtype)
            return
    t = hurray.asarray(np.asarray(values, kind), dtype=dtype)
    assert t.dtype is dtype
    if dtype.is_integer:
        assert [int(v) for v in t.to_numpy()] == values


@pytest.mark.parametrize(
    ("values", "dtype", "want"),
    [
        ([1.9, -1.9], "int8", [1, -1]),
        ([-0.9], "uint8", [0]),
        ([-(2.0**63)], "int64", [-(2**63)]),
        ([1e300, -1e300], "float32", [np.inf, -np.inf]),
        ([448.0, 464.0, 465.0], "float8_e4m3", [448.0, 448.0, np.nan]),
        ([1e9], "float8_e5m2", [np.inf]),
        ([7.0, -100.0, 0.25], "float4_e2m1", [6.0, -6.0, 0.0]),
        ([3.75, 100], "float6_e2m3", [3.75, 7.5]),
        ([0.5, 3.0], "float8_e8m0", [0.5, 4.0]),
        ([1, 2], "complex64", [1, 2]),
        ([0.0, 0.5, -3], "bool", [False, True, True]),
        ([1 + 2j], "complex64", [1 + 2j]),
    ],
)
def test_numbers_are_converted(values: list[Any], dtype: str, want: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t = hurray.asarray(values, dtype=getattr(hurray.dtype, dtype))
    got = t.to_numpy().astype(complex if t.dtype.is_complex else float)
    np.testing.assert_array_equal(got, np.array(want).astype(got.dtype))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2.0**63], "int64"), ([2.0**64], "uint64"), ([np.nan], "int32"), ([np.inf], "int8"), ([128.0], "int8"),
        ([0.0], "float8_e8m0"), ([-1.0], "float8_e8m0"), ([np.nan], "float4_e2m1"), ([np.nan], "float6_e3m2"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit(values: list[Any], dtype: str) -> None:
    with pytest.raises(InvalidDescriptorError):
        hurray.asarray(values, dtype=getattr(hurray.dtype, dtype))


def test_complex_numbers_never_turn_real() -> None:
    for name in ("float64", "int8", "bool", "float128", "float8_e4m3"):
        with pytest.raises(TypeError, match="complex"):
            hurray.asarray([1 + 0j], dtype=getattr(hurray.dtype, name))


@pytest.mark.parametrize("source", ALL_DTYPES)
@pytest.mark.parametrize("target", [hurray.float64, hurray.dtype.complex128, hurray.dtype.float128, hurray.int16])
def test_conversions_out_of_every_type(source: hurray.Dtype, target: hurray.Dtype) -> None:
    if source.is_complex and not target.is_complex:
        return
    t = hurray.asarray(hurray.ones([3], dtype=source), dtype=target)
    got = t.to_numpy(dtype=np.float64 if target.name == "float128" else None)
    assert got.tolist() == [1, 1, 1]


# sparse_coo


def test_components_are_shared() -> None:
    values, where = np.array([5.0, 7.0]), np.array([[0, 0], [1, 1]], np.uint64)
    t = hurray.sparse_coo(values, where, [2, 2])
    assert (t.layout.name, t.nnz, t.shape, t.dtype) == ("coo", 2, (2, 2), hurray.float64)
    assert np.shares_memory(t.values.to_numpy(), values)
    assert np.shares_memory(t.indices.to_numpy(), where)
    signed = hurray.sparse_coo(values, where.astype(np.int64), [2, 2], copy=False)
    assert signed.indices.to_numpy().tolist() == where.tolist()
    own = hurray.sparse_coo(values, where, shape=(2, 2), copy=True)
    assert not np.shares_memory(own.values.to_numpy(), values)
    assert not np.shares_memory(own.indices.to_numpy(), where)
    again = hurray.sparse_coo(t.values, t.indices, t.shape, copy=False)
    assert np.shares_memory(again.values.to_numpy(), values)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(10.0)[::2],
        np.arange(10.0)[::-2],
        np.arange(5.0).astype(">f8"),
        hurray.Tensor(np.arange(7.0), hurray.float64, [5], byte_offset=16),
        hurray.Tensor(np.arange(9.0), hurray.float64, [5], layout=hurray.StridedLayout([2])),
        hurray.from_numpy(np.arange(5.0)).to_layout("tiled", tile_shape=[2]),
        hurray.from_numpy(np.arange(5.0)).to_layout("coo"),
        np.broadcast_to(np.float64(3), 5),
        [1, 2, 3, 4, 5],
        np.array([True, False, True, True, False]),
    ],
)
def test_values_in_any_order_are_the_values(values: Any) -> None:
    where = [[9], [7], [5], [3], [1]]
    want = values.to_numpy() if isinstance(values, hurray.Tensor) else np.asarray(values)
    t = hurray.sparse_coo(values, where, [10])
    assert t.to_numpy()[[9, 7, 5, 3, 1]].tolist() == want.tolist()
    assert not t.layout.is_sorted  # type: ignore[attr-defined]
    assert t.values.to_numpy().tolist() == want.tolist()


def test_copies_that_were_forbidden() -> None:
    for values, where in (
        (np.arange(4.0)[::2], np.array([[0], [1]], np.uint64)),
        (np.arange(2.0), np.array([[0], [1]], np.int32)),
        (np.arange(2.0), np.array([[0, 1]], np.uint64).T[:, ::1][::-1]),
        ([1.0, 2.0], np.array([[0], [1]], np.uint64)),
        (np.array([True, False]), np.array([[0], [1]], np.uint64)),
    ):
        with pytest.raises(CopyRequiredError):
            hurray.sparse_coo(values, where, [5], copy=False)


def test_sorting_is_found_out_and_promises_are_checked() -> None:
    where = np.array([[0, 1], [1, 0], [1, 2]], np.uint64)
    assert hurray.sparse_coo([1, 2, 3], where, [2, 3]).layout == hurray.CooLayout(3, True)
    assert hurray.sparse_coo([1, 2, 3], where[::-1], [2, 3]).layout == hurray.CooLayout(3, False)
    assert hurray.sparse_coo([1, 2, 3], where, [2, 3], is_sorted=False).layout == hurray.CooLayout(3, False)
    with pytest.raises(InvalidDescriptorError, match="sorted"):
        hurray.sparse_coo([1, 2, 3], where[::-1], [2, 3], is_sorted=True)


def test_nothing_stored() -> None:
    empties: list[Any] = [[], np.zeros((0, 2)), np.zeros((0, 2), np.uint64), np.zeros((0, 2), np.int8)]
    for where in empties:
        t = hurray.sparse_coo([], where, [5, 6])
        assert (t.nnz, t.shape, t.to_numpy().sum()) == (0, (5, 6), 0)


@pytest.mark.parametrize(
    ("values", "where", "shape", "error"),
    [
        ([1.0], [[0], [1]], [5], InvalidDescriptorError),
        ([[1.0]], [[0]], [5], InvalidDescriptorError),
        (1.0, [[0]], [5], InvalidDescriptorError),
        ([1.0], [0], [5], InvalidDescriptorError),
        ([1.0], [[0, 0]], [5], InvalidDescriptorError),
        ([1.0], [[5]], [5], InvalidDescriptorError),
        ([1.0], [[-1]], [5], InvalidDescriptorError),
        ([1.0, 2.0], [[1], [1]], [5], InvalidDescriptorError),
        ([1.0], [[0.5]], [5], InvalidDescriptorError),
        ([1.0], [[True]], [5], InvalidDescriptorError),
        ([1.0], [[]], [], InvalidDescriptorError),
        ([1.0], [[0]], [None], InvalidDescriptorError),
        ([1.0], [[0]], 5, TypeError),
        (["a"], [[0]], [5], UnsupportedError),
        (
            hurray.Tensor(b"a", hurray.int8, [1], quantization=hurray.PerTensorAffine(1, 0)),
            [[0]],
            [5],
            UnsupportedError,
        ),
    ],
)
def test_components_that_do_not_fit(values: Any, where: Any, shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        hurray.sparse_coo(values, where, shape)


def test_coordinates_near_64_bits() -> None:
    top = 2**64 - 3
    t = hurray.sparse_coo([1.5], np.array([[top]], np.uint64), [2**64 - 2])
    assert t.indices.to_numpy().tolist() == [[top]]
    with pytest.raises(UnsupportedError):
        t.to_numpy()


# Memory


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_buffer_sizes(dtype: hurray.Dtype) -> None:
    for count in (0, 1, 2, 3, 4, 5, 7, 8, 9, 1000):
        groups = -(-count // 4) * 3
        want = groups if dtype.bit_width == 6 else -(-count * dtype.bit_width // 8)
        assert hurray.buffer_size_bytes(dtype, count) == want
    top = hurray.buffer_size_bytes(dtype, 2**59)
    assert top < 2**64
    if dtype.bit_width > 8:
        with pytest.raises(hurray.BufferError, match="64 bits"):
            hurray.buffer_size_bytes(dtype, 2**64 - 1)


def test_buffer_sizes_refused() -> None:
    assert hurray.buffer_size_bytes(dtype=F32, count=np.int64(3)) == 12
    with pytest.raises(InvalidDescriptorError, match="ExtensionType"):
        hurray.buffer_size_bytes(hurray.Dtype.from_tag(0xF2), 3)
    for count in (-1, 2**64):
        with pytest.raises(InvalidDescriptorError):
            hurray.buffer_size_bytes(F32, count)
    wrong: list[tuple[Any, Any]] = [("float32", 3), (F32, 1.5), (F32, "3"), (F32, True), (None, 3)]
    for dtype, count in wrong:
        with pytest.raises(TypeError):
            hurray.buffer_size_bytes(dtype, count)
