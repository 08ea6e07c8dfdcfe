"""SciPy's sparse arrays in and out, with SciPy itself as the oracle."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers
import hurray
from hurray import CopyRequiredError, InvalidDescriptorError, UnsupportedError, from_scipy, to_scipy

sp = pytest.importorskip("scipy.sparse")

VALUE_TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16"]
FORMATS = ["csr", "csc", "coo"]


def dense(shape: tuple[int, ...], dtype: str = "f8", seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.4, values, np.zeros((), dtype))


def parts(m: Any) -> dict[str, Any]:
    """Everything that a matrix holds, as copies, flags included."""
    return {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in m.__dict__.items()}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", VALUE_TYPES)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_value_type_goes_in_and_out(format: str, dtype: str, kind: str) -> None:
    want = dense((5, 4), dtype)
    m = getattr(sp, f"{format}_{kind}")(want)
    t = from_scipy(m)
    assert t.layout.name == format
    helpers.assert_same_bits(t.to_numpy(), want)
    back = t.to_scipy()
    assert back.format == format
    assert isinstance(back, sp.sparray)
    helpers.assert_same_bits(back.toarray(), want)


@pytest.mark.parametrize("shape", [(7,), (3, 4, 5), (2, 3, 2, 3), (1, 1, 1, 1, 2)])
@pytest.mark.parametrize("layout", ["coo", "csf"])
def test_every_rank(shape: tuple[int, ...], layout: str) -> None:
    want = dense(shape)
    t = from_scipy(sp.coo_array(want))
    assert t.layout == hurray.CooLayout(int(np.count_nonzero(want)), is_sorted=True)
    if layout == "csf":
        if len(shape) < 3:
            return
        t = t.to_layout("csf", mode_order=list(range(len(shape)))[::-1])
    helpers.assert_same_bits(t.to_numpy(), want)
    back = to_scipy(t)
    assert back.format == "coo"
    helpers.assert_same_bits(back.toarray(), want)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (3, 4)])
@pytest.mark.parametrize("format", FORMATS)
def test_nothing_stored(shape: tuple[int, int], format: str) -> None:
    t = from_scipy(getattr(sp, f"{format}_array")(shape, dtype=np.float32))
    assert (t.shape, t.nnz, t.dtype) == (shape, 0, hurray.float32)
    back = t.to_scipy()
    assert (back.shape, back.nnz, back.dtype, back.format) == (shape, 0, np.float32, format)


@pytest.mark.parametrize("index", ["i1", "u1", "i2", "i4", "u4", "i8", "u8", ">i4", ">i8"])
@pytest.mark.parametrize("format", FORMATS)
def test_any_index_type(index: str, format: str) -> None:
    m = getattr(sp, f"{format}_array")(dense((6, 5)))
    for name in ("indices", "indptr"):
        if hasattr(m, name):
            setattr(m, name, getattr(m, name).astype(index))
    if format == "coo":
        m.coords = tuple(c.astype(index) for c in m.coords)
    assert np.array_equal(from_scipy(m).to_numpy(), dense((6, 5)))


def test_big_endian_and_strided_values_are_copied() -> None:
    m = sp.csr_array(dense((6, 5)))
    want = m.toarray()
    m.data = m.data.astype(">f8")
    assert np.array_equal(from_scipy(m).to_numpy(), want)
    m.data = np.repeat(m.data.astype("<f8"), 2)[::2]
    assert np.array_equal(from_scipy(m).to_numpy(), want)
    m.indices = np.repeat(m.indices.astype(np.int64), 2)[::2]
    assert np.array_equal(from_scipy(m).to_numpy(), want)


def wide(format: str = "csr") -> Any:
    m = getattr(sp, f"{format}_array")(dense((6, 5)))
    m.indices, m.indptr = m.indices.astype(np.int64), m.indptr.astype(np.int64)
    return m


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_wide_indices_and_values_are_shared(format: str) -> None:
    m = wide(format)
    t = from_scipy(m, copy=False)
    for k, array in enumerate((m.data, m.indices, m.indptr)):
        assert np.shares_memory(t._buffers[k], array)
    back = to_scipy(t, copy=False)
    assert back.indices.dtype == back.indptr.dtype == np.int64
    for name in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(back, name), getattr(m, name))
    own = from_scipy(m, copy=True)
    assert not any(np.shares_memory(b, a) for b in own._buffers for a in (m.data, m.indices, m.indptr))
    mine = to_scipy(t, copy=True)
    mine.data[:] = 0
    mine.indices[:] = 0
    assert np.array_equal(t.to_numpy(), m.toarray())


def test_copy_false_names_what_needs_a_copy() -> None:
    m = sp.csr_array(dense((6, 5)))
    with pytest.raises(CopyRequiredError, match="indices of int32 must be widened"):
        from_scipy(m, copy=False)
    m = wide()
    m.indptr = m.indptr.astype(np.int32)
    with pytest.raises(CopyRequiredError, match="indptr of int32"):
        from_scipy(m, copy=False)
    m = wide()
    m.data = m.data.astype(">f8")
    with pytest.raises(CopyRequiredError, match="little-endian"):
        from_scipy(m, copy=False)
    m = wide()
    m.data = m.data != 0
    with pytest.raises(CopyRequiredError, match="packed"):
        from_scipy(m, copy=False)
    with pytest.raises(CopyRequiredError, match="unpacked"):
        to_scipy(from_scipy(m), copy=False)
    with pytest.raises(CopyRequiredError, match="interleaving"):
        from_scipy(sp.coo_array(dense((2, 3))), copy=False)
    with pytest.raises(CopyRequiredError, match="tocsr|converted to csr"):
        from_scipy(sp.lil_array(dense((2, 3))), copy=False)
    unsorted = sp.csr_array((np.ones(2), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    unsorted.indices, unsorted.indptr = unsorted.indices.astype(np.int64), unsorted.indptr.astype(np.int64)
    with pytest.raises(CopyRequiredError, match="in order"):
        from_scipy(unsorted, copy=False)
    with pytest.raises(CopyRequiredError, match="csf"):
        to_scipy(hurray.zeros([1, 2, 3]).to_layout("csf"), copy=False)


@pytest.mark.parametrize("name", ["lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_other_formats_become_csr(name: str, kind: str) -> None:
    want = dense((6, 4))
    t = from_scipy(getattr(sp, f"{name}_{kind}")(sp.csr_array(want)))
    assert t.layout.name == "csr"
    assert np.array_equal(t.to_scipy().toarray(), want)


def test_blocks_keep_their_zeros_and_repeats() -> None:
    data = np.arange(24.0).reshape(4, 2, 3)
    m = sp.bsr_array((data, np.array([1, 0, 1, 1]), np.array([0, 2, 4])), shape=(4, 6))
    before = parts(m)
    t = from_scipy(m)
    assert np.array_equal(t.to_numpy(), m.toarray())
    assert t.nnz == 18
    assert all(np.array_equal(before[k], v) for k, v in m.__dict__.items() if isinstance(v, np.ndarray))


def test_rank_one_csr_and_dok() -> None:
    want = dense((9,))
    for m in (sp.csr_array(want), sp.dok_array(want)):
        t = from_scipy(m)
        assert (t.layout.name, t.shape) == ("coo", (9,))
        assert np.array_equal(t.to_scipy().toarray(), want)
    m = sp.csr_array(want)
    m.indptr = np.array([0, 99])
    with pytest.raises(InvalidDescriptorError, match="indptr of a rank 1 array"):
        from_scipy(m)


def test_explicit_zeros_and_negative_zero_are_kept() -> None:
    m = sp.csr_array((np.array([0.0, -0.0, np.nan]), np.array([0, 2, 1]), np.array([0, 2, 3])), shape=(2, 3))
    t = from_scipy(m)
    assert t.nnz == 3
    helpers.assert_same_bits(t.to_scipy().data, m.data)


@pytest.mark.parametrize("lie", [True, False, None])
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_unsorted_and_repeated_indices_are_put_in_order_on_a_copy(format: str, lie: bool | None) -> None:
    indices, ptr = np.array([2, 0, 2, 1, 1, 0], np.int64), np.array([0, 3, 3, 6], np.int64)
    cls = getattr(sp, f"{format}_array")
    shape = (3, 4) if format == "csr" else (4, 3)
    m = cls((np.array([1.0, 2, 3, 4, 5, 6]), indices, ptr), shape=shape)
    want = m.toarray()
    m.indices, m.indptr = indices.copy(), ptr.copy()
    if lie is not None:
        m.has_sorted_indices = m.has_canonical_format = lie
    before = parts(m)
    t = from_scipy(m)
    t.validate()
    assert t.nnz == 4
    assert np.array_equal(t.to_numpy(), want)
    after = parts(m)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[k], after[k]) for k in before)


def test_repeated_coordinates_are_summed_as_in_scipy() -> None:
    m = sp.coo_array((np.array([200, 100, 1], "u1"), ([1, 1, 0], [2, 2, 0])), shape=(2, 3))
    m.has_canonical_format = True  # which is not true
    t = from_scipy(m)
    assert np.array_equal(t.to_numpy(), np.array([[1, 0, 0], [0, 0, 44]], "u1"))
    flags = sp.coo_array((np.array([True, True]), ([0, 0], [0, 0])), shape=(1, 1))
    assert from_scipy(flags).to_numpy().tolist() == [[True]]


def test_entries_beyond_the_pointer_are_left_out() -> None:
    m = wide()
    want = m.toarray()
    m.data, m.indices = np.append(m.data, 9.0), np.append(m.indices, 999)
    t = from_scipy(m, copy=False)
    assert t.nnz == m.indptr[-1]
    assert np.array_equal(t.to_numpy(), want)


def corrupt(**changes: Any) -> Any:
    m = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    for name, value in changes.items():
        setattr(m, name, np.array(value))
    return m


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"indices": [0, 3, 1]}, r"indices\[1\] is 3, outside 3"),
        ({"indices": [0, 2, -1]}, r"indices\[2\] is -1, outside 3"),
        ({"indices": [0, 2]}, "only 2 entries"),
        ({"indices": [0.0, 2.0, 1.0]}, "holds float64, not integers"),
        ({"indices": [[0, 2, 1]]}, "1-D"),
        ({"indptr": [0, 2]}, r"indptr has shape \(2,\)"),
        ({"indptr": [1, 2, 3]}, "starts at 0"),
        ({"indptr": [0, 3, 2]}, "never decreases"),
        ({"indptr": [0, 2, 5]}, "only 3 entries"),
        ({"indptr": [0, 2, -1]}, "never"),
        ({"indptr": [0, 2**62, 3]}, "never"),
        ({"data": [1.0, 2.0]}, "only 2 entries"),
        ({"data": [[1.0], [2.0], [3.0]]}, "1-D"),
    ],
)
def test_a_corrupt_matrix_is_an_error_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDescriptorError, match=words):
        from_scipy(corrupt(**changes))


def test_other_corrupt_objects() -> None:
    coo = sp.coo_array(np.eye(3))
    coo.coords = (np.array([0, 1, 7]), coo.coords[1])
    with pytest.raises(InvalidDescriptorError, match=r"entry 2 is at \(7, 2\), outside shape \(3, 3\)"):
        from_scipy(coo)
    coo.coords = (np.array([0, 1]), coo.coords[1])
    with pytest.raises(InvalidDescriptorError, match=r"coords\[0\] has shape \(2,\)"):
        from_scipy(coo)
    bsr = sp.bsr_array(np.ones((4, 4)), blocksize=(2, 2))
    bsr.indices = np.array([0, 10**9, 0, 1])
    with pytest.raises(InvalidDescriptorError, match=r"indices\[1\]"):
        from_scipy(bsr)
    lil = sp.lil_array(np.eye(3))
    lil.data[1] = [1.0] * 1000
    with pytest.raises(InvalidDescriptorError, match="1 indices and 1000 values"):
        from_scipy(lil)
    lil = sp.lil_array(np.eye(3))
    lil.rows[1] = [77]
    with pytest.raises(InvalidDescriptorError, match="77, outside 3"):
        from_scipy(lil)
    dia = sp.dia_array(np.eye(3))
    dia.offsets = np.array([0, 1, 2])
    with pytest.raises(InvalidDescriptorError, match="dia"):
        from_scipy(dia)


@pytest.mark.parametrize("object_", [np.eye(2), [[1]], None, "csr"])
def test_what_is_not_sparse_is_a_type_error(object_: Any) -> None:
    with pytest.raises(TypeError, match="SciPy sparse"):
        from_scipy(object_)


def test_value_types_that_the_format_lacks() -> None:
    with pytest.raises(UnsupportedError, match="longdouble|float128"):
        from_scipy(sp.csr_array(np.eye(2, dtype=np.longdouble)))
    m = sp.csr_array(np.eye(2))
    m.data = np.array([1, "x"], object)
    with pytest.raises(UnsupportedError, match="object"):
        from_scipy(m)


@pytest.mark.parametrize("layout", ["row_major", "col_major", "strided", "tiled", "morton"])
def test_layouts_that_scipy_lacks_are_named(layout: str) -> None:
    options = {"tile_shape": [2, 2]} if layout == "tiled" else {}
    t = hurray.from_numpy(np.eye(4)).to_layout(layout, **options)
    with pytest.raises(UnsupportedError, match=layout):
        to_scipy(t)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3", "int4", "float4_e2m1", "uint2"])
def test_element_types_that_scipy_lacks_are_named(name: str) -> None:
    dtype = hurray.Dtype.from_name(name)
    t = hurray.asarray(np.eye(4), dtype=dtype).to_layout("csr")
    with pytest.raises(UnsupportedError, match=name):
        to_scipy(t)


def test_a_quantized_tensor_is_refused_with_advice() -> None:
    t = from_scipy(sp.csr_array(np.eye(4, dtype="i1")))
    quantized = t._replace(quantization=hurray.PerTensorAffine(0.5, 0))
    with pytest.raises(UnsupportedError, match=r"dequantize\(\)"):
        to_scipy(quantized)
    assert np.array_equal(to_scipy(quantized.storage()).toarray(), np.eye(4))
    with pytest.raises(TypeError, match="Tensor"):
        to_scipy(np.eye(2))  # type: ignore[arg-type]


def test_index_buffers_are_checked_before_scipy_follows_them() -> None:
    layout = hurray.CsrLayout(1)
    index = [np.array([9], "<u8"), np.array([0, 1, 1], "<u8")]
    t = hurray.Tensor(np.ones(1), hurray.float64, [2, 3], layout=layout, aux_buffers=index)
    permissive = hurray.Tensor._from_parts(t.descriptor, t._buffers, permissive=True)
    for bad in (t, permissive):
        with pytest.raises(InvalidDescriptorError, match=r"col_indices\[0\] is 9"):
            to_scipy(bad)
    huge = hurray.Tensor(
        np.ones(1), hurray.float64, [2**63, 3], layout=hurray.CooLayout(1), aux_buffers=[np.zeros(2, "<u8")]
    )
    with pytest.raises(UnsupportedError, match="64-bit"):
        to_scipy(huge)


@pytest.mark.parametrize("format", FORMATS)
def test_the_result_is_usable_without_warnings(format: str) -> None:
    want = dense((40, 30))
    t = from_scipy(getattr(sp, f"{format}_array")(want))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for copy in (None, True, False):
            m = to_scipy(t, copy=copy)
            assert np.allclose(m @ np.ones(30), want.sum(1))
            assert np.array_equal((m + m).toarray(), 2 * want)
            assert np.allclose((m @ m.T).toarray(), want @ want.T)
            assert np.array_equal((m * 3).toarray(), want * 3)
            assert np.array_equal(m.T.toarray(), want.T)
            assert np.allclose(m.sum(axis=0), want.sum(axis=0))
            for c in (m.tocsr(), m.tocsc()):
                assert c.indices.dtype == c.indptr.dtype
                assert c.indices.dtype.kind == "i"
                assert np.array_equal(c[[3, 1]].toarray(), want[[3, 1]])
                assert np.array_equal(c[5:9, ::2].toarray(), want[5:9, ::2])
                c.sum_duplicates()
                c.sort_indices()
            m.sum_duplicates()
            assert np.array_equal(pickle.loads(pickle.dumps(m)).toarray(), want)
            own = m.copy()
            own.data *= 2
            assert np.array_equal(own.toarray(), 2 * want)
    assert np.array_equal(t.to_numpy(), want)


def test_indices_have_the_type_that_scipy_would_choose() -> None:
    small = to_scipy(from_scipy(sp.csr_array(np.eye(3))))
    assert small.indices.dtype == small.indptr.dtype == np.int32
    m = sp.coo_array((np.ones(1), (np.array([2**40]), np.array([5]))), shape=(2**41, 6))
    back = to_scipy(from_scipy(m))
    assert {c.dtype for c in back.coords} == {np.dtype(np.int64)}
    assert (back.coords[0][0], back.shape) == (2**40, (2**41, 6))


def test_unsorted_coo_is_not_called_canonical() -> None:
    t = hurray.sparse_coo(np.arange(2.0), np.array([[1, 0], [0, 1]]), [2, 2])
    m = to_scipy(t)
    assert not m.has_canonical_format
    m.sum_duplicates()
    assert m.toarray().tolist() == [[0, 1], [0, 0]]
    assert to_scipy(from_scipy(m)).has_canonical_format


@given(data=st.data(), format=st.sampled_from(FORMATS), rows=st.integers(0, 6), cols=st.integers(0, 6))
def test_any_entries_give_scipys_dense_matrix(data: st.DataObject, format: str, rows: int, cols: int) -> None:
    n = data.draw(st.integers(0, 20)) if rows and cols else 0
    row = np.array(data.draw(st.lists(st.integers(0, max(rows - 1, 0)), min_size=n, max_size=n)), np.int64)
    col = np.array(data.draw(st.lists(st.integers(0, max(cols - 1, 0)), min_size=n, max_size=n)), np.int64)
    values = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)), np.int16)
    if format == "coo":
        m = sp.coo_array((values, (row, col)), shape=(rows, cols))
    else:
        # Slices in the order drawn: unsorted and with repeats.
        major, minor, n_major = (row, col, rows) if format == "csr" else (col, row, cols)
        order = np.argsort(major, kind="stable")
        ptr = np.append(0, np.cumsum(np.bincount(major, minlength=n_major)))
        m = getattr(sp, f"{format}_array")((values[order], minor[order], ptr), shape=(rows, cols))
    want = m.toarray()
    t = from_scipy(m)
    t.validate()
    assert np.array_equal(t.to_numpy(), want)
    assert np.array_equal(t.to_scipy().toarray(), want)


@given(data=st.data())
def test_random_index_arrays_never_crash(data: st.DataObject) -> None:
    number = st.one_of(st.integers(-2, 5), st.sampled_from([2**31, 2**62, -(2**63), 2**63 - 1]))
    lists = st.lists(number, max_size=6)
    m = sp.csr_array((4, 4))
    m.data = np.arange(data.draw(st.integers(0, 6)), dtype=np.float64)
    m.indices = np.array(data.draw(lists), np.int64)
    m.indptr = np.array(data.draw(st.one_of(lists, st.lists(number, min_size=5, max_size=5))), np.int64)
    try:
        t = from_scipy(m)
    except InvalidDescriptorError:
        return
    t.validate()
    assert t.to_scipy().toarray().shape == (4, 4)
