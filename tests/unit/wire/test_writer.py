"""The writer is the reader backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

KINDS = {
    "u8": st.integers(0, 2**8 - 1),
    "u16": st.integers(0, 2**16 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "f32": st.floats(width=32, allow_nan=False),
    "f64": st.floats(allow_nan=False),
}
FIELDS = st.lists(st.one_of(*[st.tuples(st.just(kind), values) for kind, values in KINDS.items()]), max_size=12)


@given(FIELDS)
def test_fields_come_back(fields: list[tuple[str, object]]) -> None:
    w = Writer()
    for kind, value in fields:
        getattr(w, kind)(value)
    r = Reader(w.getvalue())
    assert len(w) == r.end
    for kind, value in fields:
        got = getattr(r, kind)("f")
        assert got == value
        assert str(got) == str(value)  # the sign of zero counts
    assert r.remaining == 0


def test_arrays_bytes_and_patches() -> None:
    w = Writer()
    w.u32(0)
    w.u32s([1, 2])
    w.u64s([3])
    w.i64s([-1])
    w.raw(memoryview(b"ab"))
    w.zeros(3)
    w.patch_u32(0, len(w))
    r = Reader(w.getvalue())
    assert r.u32("n") == len(w)
    assert (r.u32s(2, "a"), r.u64s(1, "b"), r.i64s(1, "c")) == ((1, 2), (3,), (-1,))
    assert r.take(5, "rest") == b"ab\0\0\0"


def test_every_kind_is_little_endian() -> None:
    w = Writer()
    w.u16(0x0102)
    w.i32(-2)
    assert w.getvalue() == bytes.fromhex("0201feffffff")
    with pytest.raises(IndexError):
        w.getvalue()[6]
