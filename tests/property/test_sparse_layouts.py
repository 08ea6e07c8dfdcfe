from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import assert_same_bits
from hurray.errors import BufferError, InvalidDescriptorError, UnsupportedError
from hurray.layouts import CooLayout, CscLayout, CsfLayout, CsrLayout, Payload, full_region
from sparse_cases import SPARSE, of_encoded, sparse_class

RANKS = {"coo": (1, 4), "csr": (2, 2), "csc": (2, 2), "csf": (3, 5)}
# Widths in bits and the type of a code array.
WIDTHS = [
    (1, "u1"),
    (2, "u1"),
    (4, "u1"),
    (6, "u1"),
    (8, "i1"),
    (16, "<u2"),
    (32, "<f4"),
    (64, "<f8"),
    (64, "<c8"),
    (128, "<c16"),
    (128, "V16"),
    (24, "V3"),
]


@st.composite
def dense_codes(draw: st.DrawFn, name: str) -> tuple[Any, int, dict[str, Any]]:
    rank = draw(st.integers(*RANKS[name]))
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank)))
    bits, storage = draw(st.sampled_from(WIDTHS))
    dtype = np.dtype(storage)
    size = int(np.prod(shape))
    raw = bytearray(draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize)))
    for k in range(size):
        if draw(st.booleans()):
            raw[k * dtype.itemsize : (k + 1) * dtype.itemsize] = bytes(dtype.itemsize)
    codes = np.frombuffer(bytes(raw), dtype).reshape(shape)
    if bits < 8:
        codes = codes & np.uint8((1 << bits) - 1)
    options: dict[str, Any] = {}
    if name == "csf":
        options["mode_order"] = draw(st.permutations(range(rank)))
    if draw(st.booleans()):
        codes = np.asfortranarray(codes)
    return codes, bits, options


@st.composite
def regions(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    axes: list[Any] = []
    for n in shape:
        ends = st.integers(-n, n) | st.none()
        cut = st.builds(slice, ends, ends, st.sampled_from([-3, -2, -1, 1, 2, 3]))
        index = st.lists(st.integers(0, n - 1), max_size=5) if n else st.just([])
        axes.append(draw(cut.map(range(n).__getitem__) | index.map(lambda x: np.array(x, np.int64))))
    return tuple(axes)


def is_set(code: Any) -> bool:
    return any(np.asarray(code).tobytes())


@pytest.mark.parametrize("name", SPARSE)
@given(data=st.data())
def test_every_element_survives(name: str, data: st.DataObject) -> None:
    codes, bits, options = data.draw(dense_codes(name))
    layout, p = of_encoded(sparse_class(name).encode(codes, bits, **options), codes.shape, bits, codes.dtype)
    layout.validate(p)
    specs = layout.specs(codes.shape, bits)
    assert [len(b) >= s.n_bytes for b, s in zip(p.buffers, specs, strict=True)] == [True] * len(specs)
    assert layout.nnz == sum(is_set(codes[i]) for i in np.ndindex(codes.shape))
    assert_same_bits(layout.read(p, full_region(codes.shape)), np.ascontiguousarray(codes))
    region = data.draw(regions(codes.shape))
    lists = [np.array(list(axis), np.int64) for axis in region]
    assert_same_bits(layout.read(p, region), np.ascontiguousarray(codes[np.ix_(*lists)]))
    everywhere = np.argwhere(np.ones(codes.shape, bool))
    found = layout.lookup(p, everywhere)
    values = layout.values(p)
    for where, at in zip(everywhere.tolist(), found.tolist(), strict=True):
        code = codes[tuple(where)]
        assert is_set(code) == (at >= 0)
        assert at < 0 or values[at].tobytes() == code.tobytes()
    axes = tuple(data.draw(st.permutations(range(codes.ndim))))
    turned, q = of_encoded(layout.transpose(p, axes), tuple(codes.shape[a] for a in axes), bits, codes.dtype)
    turned.validate(q)
    assert_same_bits(turned.read(q, full_region(q.shape)), np.ascontiguousarray(codes.transpose(axes)))


@pytest.mark.parametrize("source", SPARSE)
@pytest.mark.parametrize("target", SPARSE)
@given(data=st.data())
@settings(max_examples=20)
def test_conversions(source: str, target: str, data: st.DataObject) -> None:
    codes, bits, options = data.draw(dense_codes(source))
    low, high = RANKS[target]
    layout, p = of_encoded(sparse_class(source).encode(codes, bits, **options), codes.shape, bits, codes.dtype)
    if not low <= codes.ndim <= high:
        if target != "coo":
            with pytest.raises(InvalidDescriptorError):
                layout.convert(p, sparse_class(target))
        return
    other, q = of_encoded(layout.convert(p, sparse_class(target)), codes.shape, bits, codes.dtype)
    other.validate(q)
    assert_same_bits(other.read(q, full_region(codes.shape)), np.ascontiguousarray(codes))


@pytest.mark.parametrize("name", SPARSE)
@given(data=st.data())
def test_coordinates_in_any_order(name: str, data: st.DataObject) -> None:
    codes, bits, options = data.draw(dense_codes(name))
    coords = np.argwhere(np.ones(codes.shape, bool))
    chosen = data.draw(st.permutations(range(len(coords)))) if len(coords) < 40 else list(range(len(coords)))[::-1]
    coords = coords[np.array(chosen, int)].reshape(-1, codes.ndim)
    stored = codes[tuple(coords.T)]
    if name == "coo":
        options["is_sorted"] = data.draw(st.sampled_from([True, False, None]))
    encoded = sparse_class(name).from_coords(coords, stored, codes.shape, bits, **options)
    layout, p = of_encoded(encoded, codes.shape, bits, codes.dtype)
    layout.validate(p)
    # Explicit zeros are kept.
    assert layout.nnz == codes.size
    assert_same_bits(layout.read(p, full_region(codes.shape)), np.ascontiguousarray(codes))
    if len(coords):
        twice = np.concatenate((coords, coords[-1:]))
        with pytest.raises(InvalidDescriptorError, match=f"entry {len(coords)} repeats"):
            sparse_class(name).from_coords(twice, np.append(stored, stored[-1:]), codes.shape, bits, **options)


SHAPES = {"coo": (3, 4), "csr": (3, 4), "csc": (3, 4), "csf": (2, 3, 4)}
NUMBER = st.integers(0, 5) | st.integers(0, 2**64 - 1) | st.sampled_from([2**63, 2**63 - 1, 2**64 - 1])


@st.composite
def hostile(draw: st.DrawFn, name: str) -> tuple[Any, Payload]:
    shape = SHAPES[name]
    nnz = draw(st.integers(0, 8))
    makers: dict[str, Callable[[], Any]] = {
        "coo": lambda: CooLayout(nnz, draw(st.booleans())),
        "csr": lambda: CsrLayout(nnz),
        "csc": lambda: CscLayout(nnz),
        "csf": lambda: CsfLayout(nnz, draw(st.permutations(range(3)))),
    }
    layout = makers[name]()
    buffers = [np.arange(nnz, dtype=np.uint8)]
    for spec in layout.specs(shape, 8)[1:]:
        length = spec.n_bytes // 8 + draw(st.integers(0, 4))
        small = draw(st.booleans())
        numbers = st.integers(0, 4) if small else NUMBER
        content = draw(st.lists(numbers, min_size=length, max_size=length))
        if draw(st.booleans()):
            content = sorted(content)
        if content and spec.role.startswith(("pos", "row_ptr", "col_ptr")) and draw(st.booleans()):
            content[0] = 0
        buffers.append(np.array(content, "<u8").view(np.uint8))
    return layout, Payload(shape, 8, np.dtype("u1"), tuple(buffers))


@pytest.mark.parametrize("name", SPARSE)
@given(data=st.data())
@settings(max_examples=100)
def test_index_buffers_never_checked_do_no_harm(name: str, data: st.DataObject) -> None:
    layout, p = data.draw(hostile(name))
    ours = (InvalidDescriptorError, BufferError, UnsupportedError)
    try:
        layout.validate(p)
        valid = True
    except ours:
        valid = False
    everywhere = np.argwhere(np.ones(p.shape, bool))
    rank = len(p.shape)
    actions: list[Any] = [
        lambda: layout.read(p, full_region(p.shape)).shape == p.shape,
        lambda: layout.read(p, tuple(range(n - 1, -1, -1) for n in p.shape)).shape == p.shape,
        lambda: layout.read(p, tuple(np.array([1, 0, 1]) for _ in p.shape)).shape == (3,) * rank,
        lambda: layout.stored(p)[0].shape == (layout.nnz, rank),
        lambda: all(-1 <= at < layout.nnz for at in layout.lookup(p, everywhere).tolist()),
        lambda: layout.transpose(p, tuple(range(rank))[::-1]) is not None,
    ]
    actions += [
        lambda t=t: layout.convert(p, sparse_class(t)) is not None for t in SPARSE if RANKS[t][0] <= rank <= RANKS[t][1]
    ]
    for action in actions:
        try:
            assert action()
        except ours:
            # A refusal is only for broken index buffers.
            assert not valid
