from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.layouts import CooLayout, CscLayout, CsfLayout, CsrLayout, full_region
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer
from sparse_cases import numbers, of_encoded, payload

# The example of the format's reference.
DENSE = np.array([[1, 0, 0, 2, 0], [0, 0, 3, 0, 0], [0, 4, 0, 0, 5], [0, 0, 0, 0, 0]], np.int32)
SHAPE = (4, 5)
CSR = ([1, 2, 3, 4, 5], [0, 3, 2, 1, 4], [0, 2, 3, 5, 5])
CSC = ([1, 4, 3, 2, 5], [0, 2, 1, 0, 2], [0, 1, 2, 3, 4, 5])
CASES = [(CsrLayout, CSR), (CscLayout, CSC)]


@pytest.mark.parametrize(("cls", "arrays"), CASES)
def test_the_example(cls: Any, arrays: Any) -> None:
    layout, p = of_encoded(cls.encode(DENSE, 32), SHAPE, 32, "<i4")
    assert layout == cls(5)
    assert p.buffers[0].view("<i4").tolist() == arrays[0]
    assert numbers(p.buffers[1]) == arrays[1]
    assert numbers(p.buffers[2]) == arrays[2]
    layout.validate(p)
    assert np.array_equal(layout.read(p, full_region(SHAPE)), DENSE)
    everywhere = np.stack(np.divmod(np.arange(20), 5), axis=1)
    found = layout.lookup(p, everywhere)
    assert np.where(found < 0, 0, np.array(arrays[0])[found]).tolist() == DENSE.reshape(-1).tolist()
    coords, codes = layout.stored(p)
    assert DENSE[tuple(coords.T)].tolist() == codes.tolist() == arrays[0]


@pytest.mark.parametrize(("cls", "arrays"), CASES)
@pytest.mark.parametrize(
    "region",
    [
        (range(1, 3), range(5)),
        (range(3, -1, -2), range(4, 0, -1)),
        (np.array([2, 2, 0]), np.array([4, 1, 4, 0])),
        (range(0), range(5)),
        (range(4), np.array([], np.int64)),
        (range(4), range(1, 4)),
        (range(2, 4), range(5)),
        (range(4), range(4, 5)),
        (range(3, 4), range(5)),
    ],
)
def test_regions(cls: Any, arrays: Any, region: Any) -> None:
    layout, p = of_encoded(cls.encode(DENSE, 32), SHAPE, 32, "<i4")
    expected = DENSE[np.ix_(*(np.array(list(axis), int) for axis in region))]
    assert np.array_equal(layout.read(p, region), expected)


@pytest.mark.parametrize("bits", [4, 6, 32])
@pytest.mark.parametrize("cls", [CsrLayout, CscLayout])
def test_windows_of_whole_slices(cls: Any, bits: int) -> None:
    rng = np.random.default_rng(bits)
    storage = "u1" if bits < 8 else "<i4"
    dense = (rng.integers(1, 15, (90, 70)) * (rng.random((90, 70)) < 0.3)).astype(storage)
    dense[40:50], dense[:, 20:30] = 0, 0
    layout, p = of_encoded(cls.encode(dense, bits), dense.shape, bits, storage)
    for start, stop in ((0, 1), (3, 41), (40, 50), (45, 70), (69, 70)):
        assert np.array_equal(layout.read(p, (range(start, stop), range(70))), dense[start:stop])
        assert np.array_equal(layout.read(p, (range(90), range(start, stop))), dense[:, start:stop])


@pytest.mark.parametrize(("cls", "arrays"), CASES)
@pytest.mark.parametrize("ptr", [[0, 9, 3, 5, 5], [0, 4, 2, 5, 5], [7, 7, 7, 7, 7], [2**63, 0, 0, 2**64 - 1, 5]])
def test_windows_over_pointers_that_lie(cls: Any, arrays: Any, ptr: list[int]) -> None:
    shape = (4, 5) if cls is CsrLayout else (5, 4)
    p = payload(shape, "<i4", *arrays[:2], ptr)
    for start in range(4):
        for stop in range(start + 1, 5):
            window = (range(start, stop), range(5)) if cls is CsrLayout else (range(5), range(start, stop))
            try:
                assert cls(5).read(p, window).shape == tuple(map(len, window))
            except InvalidDescriptorError as error:
                assert "overlap" in str(error)


@pytest.mark.parametrize(("cls", "arrays"), CASES)
def test_transposition_changes_the_class_only(cls: Any, arrays: Any) -> None:
    p = payload(SHAPE, "<i4", *arrays)
    turned = cls(5).transpose(p, (1, 0))
    assert turned.buffers is p.buffers
    assert type(turned.layout) is ({CsrLayout: CscLayout, CscLayout: CsrLayout}[cls])
    other, q = of_encoded(turned, SHAPE[::-1], 32, "<i4")
    assert np.array_equal(other.read(q, full_region(q.shape)), DENSE.T)


@pytest.mark.parametrize("bits", [4, 32])
def test_conversion_between_the_two(bits: int) -> None:
    rng = np.random.default_rng(1)
    dense = (rng.integers(0, 4, (40, 30)) * rng.integers(0, 2, (40, 30))).astype(np.uint8 if bits == 4 else np.int32)
    storage = dense.dtype
    layout, p = of_encoded(CsrLayout.encode(dense, bits), dense.shape, bits, storage)
    turned, q = of_encoded(layout.convert(p, CscLayout), dense.shape, bits, storage)
    reference = sp.csr_array(dense).tocsc()
    assert numbers(q.buffers[2]) == reference.indptr.tolist()
    assert numbers(q.buffers[1]) == reference.indices.tolist()
    assert turned.values(q).tolist() == reference.data.tolist()
    back = turned.convert(q, CsrLayout)
    assert [b.tobytes() for b in back.buffers] == [b.tobytes() for b in p.buffers]
    listed, r = of_encoded(layout.convert(p, CooLayout), dense.shape, bits, storage)
    assert np.array_equal(listed.read(r, full_region(dense.shape)), dense)
    with pytest.raises(InvalidDescriptorError, match="rank"):
        layout.convert(p, CsfLayout)
    with pytest.raises(TypeError, match="is_sorted"):
        layout.convert(p, CscLayout, is_sorted=True)


@pytest.mark.parametrize(("cls", "arrays"), CASES)
@pytest.mark.parametrize(
    ("buffer", "at", "value", "message"),
    [
        (2, 0, 1, r"_ptr\[0\] is 1, but the pointer starts at 0"),
        (2, 2, 0, r"_ptr\[2\] is 0, below"),
        (2, 1, 2**64 - 1, r"_ptr\[1\] is 18446744073709551615, but the pointer ends at nnz = 5"),
        (2, -1, 4, r"_ptr\[\d\] is 4, (but|below)"),
        (2, -1, 6, r"_ptr\[\d\] is 6, but the pointer ends"),
        (1, 3, 5, r"_indices\[3\] is 5, outside .* \d"),
        (1, 0, 2**63, r"_indices\[0\] is 9223372036854775808, outside .* \d"),
    ],
)
def test_invariants(cls: Any, arrays: Any, buffer: int, at: int, value: int, message: str) -> None:
    changed = [list(a) for a in arrays]
    if (buffer, at, value) == (2, 2, 0) and cls is CscLayout:
        changed[2][1] = 1
    changed[buffer][at] = value
    with pytest.raises(InvalidDescriptorError, match=message) as caught:
        cls(5).validate(payload(SHAPE, "<i4", *changed))
    assert str(caught.value).startswith(cls.name)


@pytest.mark.parametrize("second", [0, 2])
def test_indices_ascend_in_each_slice(second: int) -> None:
    p = payload((2, 5), "u1", [1, 2, 3], [2, second, 1], [0, 2, 3])
    with pytest.raises(InvalidDescriptorError, match=rf"col_indices\[1\] is {second}, not above 2"):
        CsrLayout(3).validate(p)


def test_sizes_and_fields() -> None:
    assert [s.n_bytes for s in CsrLayout(5).specs(SHAPE, 1)] == [1, 40, 40]
    assert [s.n_bytes for s in CscLayout(5).specs(SHAPE, 128)] == [80, 40, 48]
    assert [s.role for s in CscLayout(5).specs(SHAPE, 8)] == ["values", "row_indices", "col_ptr"]
    assert repr(CsrLayout(nnz=4)) == "CsrLayout(nnz=4)"
    layouts: list[Any] = [CsrLayout(4), CscLayout(4)]
    assert layouts[0] != layouts[1]
    assert CsrLayout(4).buffer_count == 3
    w = Writer()
    CscLayout(300).write_fields(w)
    assert w.getvalue() == b"\x2c\x01" + bytes(14)
    assert CscLayout.parse_fields(Reader(w.getvalue()), SHAPE) == CscLayout(300)
    with pytest.raises(InvalidDescriptorError):
        CsrLayout.parse_fields(Reader(bytes(15) + b"\x01"), SHAPE)
    for shape in ((5,), (2, 2, 2)):
        with pytest.raises(InvalidDescriptorError, match="rank 2"):
            CsrLayout(1).validate_against_shape(shape)
    for short in (([1, 2], *CSR[1:]), (CSR[0], CSR[1][:4], CSR[2]), (*CSR[:2], CSR[2][:4])):
        with pytest.raises(BufferError):
            CsrLayout(5).validate(payload(SHAPE, "<i4", *short))
    with pytest.raises(InvalidDescriptorError, match="has only 20"):
        CsrLayout(21).validate(payload(SHAPE, "u1", [0] * 21, [0] * 21, [0] * 5))


def test_empty_matrices() -> None:
    for shape in ((0, 0), (0, 3), (3, 0), (2, 2)):
        for cls in (CsrLayout, CscLayout):
            layout, p = of_encoded(cls.encode(np.zeros(shape, np.int8), 8), shape, 8, "i1")
            layout.validate(p)
            assert layout.nnz == 0
            assert numbers(p.buffers[2]) == [0] * (shape[cls.major] + 1)
            assert layout.read(p, full_region(shape)).shape == shape
            assert layout.stored(p)[0].shape == (0, 2)
            assert layout.lookup(p, np.empty((0, 2), np.int64)).tolist() == []


def test_absurd_pointers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="pointer"):
        CsrLayout.from_coords(np.array([[0, 0]]), np.ones(1), (2**50, 3), 64)
    with pytest.raises(UnsupportedError, match="memory"):
        CscLayout(0).read(payload((2**50, 3), "<f8", [], [], [0, 0, 0, 0]), full_region((2**50, 3)))


def test_a_wide_matrix_converts() -> None:
    dense = sp.random_array((50, 70_000), density=1e-4, format="csr", rng=np.random.default_rng(2))
    p = payload(dense.shape, "<f8", dense.data, dense.indices, dense.indptr)
    encoded = CsrLayout(dense.nnz).convert(p, CscLayout)
    reference = dense.tocsc()
    assert numbers(encoded.buffers[1]) == reference.indices.tolist()
    assert encoded.buffers[0].view("<f8").tolist() == reference.data.tolist()
