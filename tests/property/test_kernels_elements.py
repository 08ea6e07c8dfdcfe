"""Element kernels against loops over single elements, written from the formulas of the format."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hurray.kernels import bits, minifloat, strides

WIDTHS = st.sampled_from([1, 2, 4, 6])
FIELDS = {  # exponent bits, mantissa bits, bias
    "float8_e4m3": (4, 3, 7),
    "float8_e5m2": (5, 2, 15),
    "float4_e2m1": (2, 1, 1),
    "float6_e2m3": (2, 3, 1),
    "float6_e3m2": (3, 2, 3),
}


def element(packed: bytes, width: int, index: int) -> int:
    """Element of a packed buffer, by the addressing rules."""
    if width == 6:
        group = int.from_bytes(packed[3 * (index // 4) : 3 * (index // 4) + 3], "little")
        return group >> 6 * (index % 4) & 0x3F
    per_byte = 8 // width
    return packed[index // per_byte] >> width * (index % per_byte) & ((1 << width) - 1)


@given(WIDTHS, hnp.arrays(np.uint8, st.integers(0, 70)))
def test_pack_places_every_element(width: int, codes: np.ndarray) -> None:
    packed = bits.pack(codes, width)
    assert packed.size == bits.packed_nbytes(codes.size, width)
    assert [element(packed.tobytes(), width, i) for i in range(codes.size)] == [
        c % (1 << width) for c in codes.tolist()
    ]
    assert int.from_bytes(packed.tobytes(), "little") < 1 << codes.size * width


@given(WIDTHS, st.binary(max_size=60), st.data())
def test_unpack_and_take_read_every_element(width: int, packed: bytes, data: st.DataObject) -> None:
    size = len(packed) // 3 * 4 if width == 6 else len(packed) * 8 // width
    start = data.draw(st.integers(0, size))
    n = data.draw(st.integers(0, size - start))
    array = np.frombuffer(packed, np.uint8)
    expected = [element(packed, width, i) for i in range(start, start + n)]
    assert bits.unpack(array, width, n, start).tolist() == expected
    if n:
        offsets = data.draw(st.lists(st.integers(start, start + n - 1), max_size=20))
        got = bits.take(array, width, np.array(offsets, np.int64))
        assert got.tolist() == [element(packed, width, i) for i in offsets]


@given(WIDTHS, hnp.arrays(np.uint8, st.integers(0, 70)))
def test_round_trip(width: int, codes: np.ndarray) -> None:
    assert np.array_equal(bits.unpack(bits.pack(codes, width), width, codes.size), codes & ((1 << width) - 1))


def value(name: str, code: int) -> float:
    """Value of a finite code by its fields."""
    exponent_bits, mantissa_bits, bias = FIELDS[name]
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    return sign * (mantissa * 2.0 ** (1 - bias) if exponent == 0 else (1 + mantissa) * 2.0 ** (exponent - bias))


@pytest.mark.parametrize("name", FIELDS)
def test_codes_decode_by_their_fields(name: str) -> None:
    fmt = minifloat.FORMATS[name]
    for code in range(fmt.max_code + 1):
        for signed in (code, code | 1 << (fmt.bits - 1)):
            got = float(minifloat.decode_table(name)[signed])
            assert got == value(name, signed)
            assert np.signbit(got) == (signed != code)


@pytest.mark.parametrize("name", FIELDS)
@given(x=st.floats(allow_nan=False) | st.floats(-10, 10) | st.floats(-500, 500, width=16))
def test_encode_finds_the_nearest_number(name: str, x: float) -> None:
    fmt = minifloat.FORMATS[name]
    code = int(minifloat.encode(np.array([x]), name)[0])
    assert code >> (fmt.bits - 1) == np.signbit(x)
    magnitude = min(abs(x), value(name, fmt.max_code))
    # The even code comes first among equally near ones.
    best = min(range(fmt.max_code + 1), key=lambda c: (abs(value(name, c) - magnitude), c & 1))
    assert code & ((1 << (fmt.bits - 1)) - 1) == best


shapes = st.lists(st.integers(0, 4), max_size=4)


@given(shapes, st.data())
def test_extent_is_what_is_reached(shape: list[int], data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(-9, 9), min_size=len(shape), max_size=len(shape)))
    reached = [
        sum(i * s for i, s in zip(index, steps, strict=True)) for index in itertools.product(*(range(n) for n in shape))
    ]
    assert strides.extent(shape, steps) == ((min(reached), max(reached)) if reached else (0, -1))
    assert strides.linear_offsets([range(n) for n in shape], steps).ravel().tolist() == reached
    assert strides.checked_product(shape) == len(reached)


@given(shapes, st.data())
def test_orders_are_those_of_numpy(shape: list[int], data: st.DataObject) -> None:
    array = np.empty(shape, np.uint8)
    for order, dense, is_dense in (
        ("C", strides.row_major_strides, strides.is_row_major),
        ("F", strides.col_major_strides, strides.is_col_major),
    ):
        steps = dense(shape)
        assert is_dense(shape, steps)
        if array.size:
            ordered = np.empty(shape, np.uint8, order=order)  # type: ignore[call-overload]
            kept = [s for s, n in zip(steps, shape, strict=True) if n > 1]
            assert kept == [s for s, n in zip(ordered.strides, shape, strict=True) if n > 1]
    steps = tuple(data.draw(st.lists(st.integers(-4, 16), min_size=len(shape), max_size=len(shape))))
    view = np.lib.stride_tricks.as_strided(array, shape, steps)
    assert strides.is_row_major(shape, steps) == view.flags.c_contiguous
    assert strides.is_col_major(shape, steps) == view.flags.f_contiguous


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-50, 50)), max_size=3), st.integers(-9, 9), st.data())
def test_linear_offsets_of_index_lists(dims: list[tuple[int, int]], start: int, data: st.DataObject) -> None:
    indices = [np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=4)), np.int64) for n, _ in dims]
    steps = [s for _, s in dims]
    got = strides.linear_offsets(indices, steps, start)
    assert got.shape == tuple(len(i) for i in indices)
    expected = [start + sum(int(i) * s for i, s in zip(p, steps, strict=True)) for p in itertools.product(*indices)]
    assert got.ravel().tolist() == expected
