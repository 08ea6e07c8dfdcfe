from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hurray.errors import BufferError, InvalidDescriptorError
from hurray.layouts import CooLayout, full_region
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer
from sparse_cases import numbers, of_encoded, payload

SHAPE = (3, 4)
COORDS = [[0, 1], [1, 3], [2, 0]]


def coo(coords: Any = COORDS, *, is_sorted: bool = True, shape: tuple[int, ...] = SHAPE) -> tuple[CooLayout, Any]:
    values = np.arange(1, len(coords) + 1)
    return CooLayout(len(coords), is_sorted), payload(shape, "<f4", values, coords)


def test_fields_round_trip() -> None:
    w = Writer()
    CooLayout(7, is_sorted=True).write_fields(w)
    assert w.getvalue() == b"\x07\0\0\0\0\0\0\0\x01" + bytes(7)
    assert CooLayout.parse_fields(Reader(w.getvalue()), (2, 2)) == CooLayout(7, True)


@pytest.mark.parametrize("fields", [b"\x07" + bytes(7) + b"\x02" + bytes(7), b"\x07" + bytes(14) + b"\x01", bytes(15)])
def test_bad_fields(fields: bytes) -> None:
    with pytest.raises(InvalidDescriptorError):
        CooLayout.parse_fields(Reader(fields), (2, 2))


def test_the_record() -> None:
    layout = CooLayout(4)
    assert repr(layout) == "CooLayout(nnz=4, is_sorted=False)"
    assert (layout.buffer_count, layout.is_dense, layout.is_sparse, layout.is_virtual) == (2, False, True, False)
    assert layout == CooLayout(nnz=4)
    assert layout != CooLayout(4, True)
    assert hash(layout) == hash(CooLayout(4))
    assert layout.specs(SHAPE, 4)[0].n_bytes == 2
    assert [s.n_bytes for s in layout.specs(SHAPE, 32)] == [16, 64]
    with pytest.raises(AttributeError):
        layout.nnz = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        CooLayout(4, is_sorted=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        CooLayout("4")  # type: ignore[arg-type]
    with pytest.raises(InvalidDescriptorError):
        CooLayout(-1)
    with pytest.raises(InvalidDescriptorError, match="rank"):
        layout.validate_against_shape(())
    with pytest.raises(BufferError):
        CooLayout(2**63).specs(SHAPE, 64)
    with pytest.raises(InvalidDescriptorError, match="byte_offset"):
        layout.specs(SHAPE, 32, 8)


def test_reading() -> None:
    layout, p = coo()
    layout.validate(p)
    expected = np.zeros(SHAPE, np.float32)
    expected[0, 1], expected[1, 3], expected[2, 0] = 1, 2, 3
    assert np.array_equal(layout.read(p, full_region(SHAPE)), expected)
    assert np.array_equal(layout.read(p, (range(2, 0, -1), np.array([3, 0, 3]))), expected[2:0:-1][:, [3, 0, 3]])
    assert np.array_equal(layout.read(p, (range(0), range(4))), expected[:0])
    coords, codes = layout.stored(p)
    assert (coords.tolist(), codes.tolist()) == (COORDS, [1, 2, 3])
    assert layout.lookup(p, np.array([[1, 3], [1, 2], [0, 1]])).tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("coords", "is_sorted", "message"),
    [
        ([[0, 1], [1, 4], [2, 0]], True, r"indices\[1\] is \(1, 4\), outside shape \(3, 4\)"),
        ([[0, 1], [2**64 - 1, 0], [2, 0]], False, r"indices\[1\]"),
        ([[0, 1], [2, 0], [1, 3]], True, r"indices\[2\] \(1, 3\) is below \(2, 0\)"),
        ([[0, 1], [0, 1], [1, 3]], True, r"indices\[1\] \(0, 1\) repeats"),
        ([[2, 1], [0, 0], [2, 1], [0, 0]], False, r"indices\[2\] \(2, 1\) repeats"),
        ([[k // 4 % 3, k % 4] for k in range(13)], False, "nnz is 13, but shape .* has only 12"),
    ],
)
def test_invariants(coords: Any, is_sorted: bool, message: str) -> None:
    layout, p = coo(coords, is_sorted=is_sorted)
    with pytest.raises(InvalidDescriptorError, match=message):
        layout.validate(p)


def test_buffers_may_be_longer_but_not_shorter() -> None:
    layout, _ = coo()
    layout.validate(payload(SHAPE, "<f4", [1, 2, 3, 9], [*COORDS, [7, 7]]))
    with pytest.raises(BufferError):
        layout.validate(payload(SHAPE, "<f4", [1, 2], COORDS))
    with pytest.raises(BufferError):
        layout.validate(payload(SHAPE, "<f4", [1, 2, 3], COORDS[:2]))


def test_encoding_sorts_unless_told_not_to() -> None:
    coords, codes = np.array(COORDS[::-1]), np.array([3, 2, 1], np.uint8)
    layout, p = of_encoded(CooLayout.from_coords(coords, codes, SHAPE, 4), SHAPE, 4, "u1")
    assert layout == CooLayout(3, True)
    assert p.buffers[0].tobytes() == b"\x21\x03"
    assert numbers(p.buffers[1]) == [0, 1, 1, 3, 2, 0]
    kept, p = of_encoded(CooLayout.from_coords(coords, codes, SHAPE, 4, is_sorted=False), SHAPE, 4, "u1")
    assert kept == CooLayout(3, False)
    assert p.buffers[0].tobytes() == b"\x23\x01"
    assert numbers(p.buffers[1]) == [2, 0, 1, 3, 0, 1]
    assert kept.encode_options() == {"is_sorted": False}


@pytest.mark.parametrize("is_sorted", [None, True, False])
def test_encoding_refuses_what_the_format_forbids(is_sorted: bool | None) -> None:
    codes = np.ones(3, np.float32)
    with pytest.raises(InvalidDescriptorError, match=r"entry 2 repeats coordinate \(1, 1\)"):
        CooLayout.from_coords(np.array([[1, 1], [0, 0], [1, 1]]), codes, SHAPE, 32, is_sorted=is_sorted)
    with pytest.raises(InvalidDescriptorError, match=r"entry 1 is at \(3, 0\), outside"):
        CooLayout.from_coords(np.array([[1, 1], [3, 0], [1, 1]]), codes, SHAPE, 32, is_sorted=is_sorted)
    with pytest.raises(TypeError, match="mode_order"):
        CooLayout.from_coords(np.array([[0, 0], [0, 1], [1, 1]]), codes, SHAPE, 32, mode_order=(0, 1))


def test_transposition_shares_the_values() -> None:
    layout, p = coo()
    turned = layout.transpose(p, (1, 0))
    assert turned is not None
    assert turned.buffers[0] is p.buffers[0]
    other, q = of_encoded(turned, SHAPE[::-1], 32, "<f4")
    assert other == CooLayout(3, False)
    other.validate(q)
    assert np.array_equal(other.read(q, full_region(q.shape)), layout.read(p, full_region(SHAPE)).T)
    same, _ = of_encoded(layout.transpose(p, (0, 1)), SHAPE, 32, "<f4")  # type: ignore[arg-type]
    assert same == layout


def test_negative_zero_is_stored() -> None:
    dense = np.array([[0.0, -0.0], [np.nan, 0.0]], np.float32)
    layout, p = of_encoded(CooLayout.encode(dense, 32), (2, 2), 32, "<f4")
    assert layout.nnz == 2
    assert layout.read(p, full_region((2, 2))).tobytes() == dense.tobytes()


def test_dimensions_beyond_one_key() -> None:
    shape = (2**40, 2**40, 2**40)
    coords = [[0, 2**39, 1], [2**39, 0, 2], [2**39, 0, 3]]
    layout, p = coo(coords, shape=shape)
    layout.validate(p)
    assert layout.lookup(p, np.array([coords[2], [0, 0, 0]])).tolist() == [2, -1]
    region = (range(2**39, 2**39 + 1), range(3), range(5, -1, -1))
    assert layout.read(p, region).tolist() == [[[0, 0, 3, 2, 0, 0], [0] * 6, [0] * 6]]


def test_a_scalar_cannot_be_sparse() -> None:
    with pytest.raises(InvalidDescriptorError, match="rank"):
        CooLayout.encode(np.array(5, np.int8), 8)
    with pytest.raises(InvalidDescriptorError, match="rank"):
        CooLayout.from_coords(np.empty((1, 0), np.int64), np.ones(1, np.int8), (), 8)
