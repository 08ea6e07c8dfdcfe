"""Tiled, Morton and Hilbert against loops over elements written straight from the format's formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hurray.kernels import bits as bit_kernels
from hurray.kernels import curves, hilbert, tiles
from hurray.layouts._base import Codes, Layout, Payload
from hurray.layouts._region import Region
from hurray.layouts.hilbert import HilbertLayout
from hurray.layouts.morton import MortonLayout
from hurray.layouts.tiled import TiledLayout

Offset = Callable[[Sequence[int]], int]
BITS = st.sampled_from([1, 2, 4, 6, 8, 16, 32, 128])


def ordered(index: Sequence[int], extents: Sequence[int], order: str, strides: Sequence[int] | None) -> int:
    """Offset in one block: explicit strides, or the last (row-major) or first (column-major) dimension fastest."""
    if strides is not None:
        return sum(i * s for i, s in zip(index, strides, strict=True))
    pairs = list(zip(index, extents, strict=True))
    total = 0
    for i, n in pairs if order == "row_major" else reversed(pairs):
        total = total * n + i
    return total


def tiled_offset(layout: TiledLayout, shape: Sequence[int]) -> Offset:
    """Offset = outer(t) * prod(tile_shape) + inner(e), the inner one recursive."""

    def offset(index: Sequence[int]) -> int:
        tile = layout.tile_shape
        grid = [math.ceil(n / t) for n, t in zip(shape, tile, strict=True)]
        t = [i // n for i, n in zip(index, tile, strict=True)]
        e = [i % n for i, n in zip(index, tile, strict=True)]
        outer = ordered(t, grid, layout.outer_layout, layout.outer_strides)
        if layout.inner_tiled is not None:
            inner = tiled_offset(layout.inner_tiled, tile)(e)
        else:
            inner = ordered(e, tile, layout.inner_layout, layout.inner_strides)
        return outer * math.prod(tile) + inner

    return offset


def morton_offset(index: Sequence[int]) -> int:
    return sum(((i >> b) & 1) << (b * len(index) + d) for d, i in enumerate(index) for b in range(16))


def hilbert_offset(order: int) -> Offset:
    def offset(index: Sequence[int]) -> int:
        x = list(index)
        r = len(x)
        for b in range(order - 1, 0, -1):
            p = (1 << b) - 1
            for i in range(r):
                if x[i] >> b & 1:
                    x[0] ^= p
                else:
                    t = (x[0] ^ x[i]) & p
                    x[0] ^= t
                    x[i] ^= t
        for i in range(1, r):
            x[i] ^= x[i - 1]
        t = 0
        for b in range(order - 1, 0, -1):
            if x[-1] >> b & 1:
                t ^= (1 << b) - 1
        return sum((((x[d] ^ t) >> b) & 1) << (b * r + r - 1 - d) for b in range(order) for d in range(r))

    return offset


def stored_elements(data: NDArray[np.uint8], bits: int) -> Callable[[int], bytes]:
    """Return a function that reads one stored element by the packing rule, as the bytes of its code."""
    raw = data.tobytes()
    if bits >= 8:
        width = bits // 8
        return lambda at: raw[at * width : (at + 1) * width]
    string = int.from_bytes(raw, "little")
    return lambda at: bytes([(string >> (at * bits)) & ((1 << bits) - 1)])


def codes_of(shape: Sequence[int], bits: int, seed: int) -> Codes:
    dtype = np.dtype({16: "<u2", 32: "<f4", 128: "V16"}.get(bits, "u1"))
    raw = np.random.default_rng(seed).integers(0, 1 << min(bits, 8), (*shape, dtype.itemsize), dtype=np.uint8)
    codes: Codes = raw.view(dtype)[..., 0]
    return np.asfortranarray(codes) if seed % 2 else codes


@st.composite
def regions(draw: st.DrawFn, shape: Sequence[int]) -> Region:
    region: list[range | NDArray[np.int64]] = []
    for n in shape:
        kind = draw(st.sampled_from(["box", "steps", "list"])) if n else "box"
        if kind == "list":
            region.append(np.array(draw(st.lists(st.integers(0, n - 1), max_size=4)), np.int64))
        elif kind == "steps":
            region.append(range(n)[:: draw(st.sampled_from([-2, -1, 2, 3]))])
        else:
            start = draw(st.integers(0, n))
            region.append(range(start, draw(st.integers(start, n))))
    return tuple(region)


def check(layout: Layout, offset: Offset, codes: Codes, bits: int, region: Region) -> None:
    """Encode with the layout, read every element back by formula, then compare whole and partial reads."""
    encoded = type(layout).encode(codes, bits, **layout.encode_options())
    assert encoded.layout == layout
    (data,) = encoded.buffers
    assert len(data) == layout.specs(codes.shape, bits)[0].n_bytes
    element = stored_elements(data, bits)
    for index in np.ndindex(codes.shape):
        assert element(offset(index)) == codes[index].tobytes()
    payload = Payload(codes.shape, bits, codes.dtype, (data,))
    assert layout.read_all(payload).tobytes() == codes.tobytes()
    want = codes[np.ix_(*(np.asarray(axis, dtype=np.intp) for axis in region))]
    got = layout.read(payload, region)
    assert (got.shape, got.dtype, got.tobytes()) == (want.shape, want.dtype, want.tobytes())


@st.composite
def tiled_layouts(draw: st.DrawFn, rank: int) -> TiledLayout:
    orders = st.sampled_from(["row_major", "col_major"])
    inner: TiledLayout | None = None
    tile = [draw(st.integers(1, 3)) for _ in range(rank)]
    for _ in range(draw(st.integers(1, 3))):
        inside = draw(orders) if inner is None else "tiled"
        inner = TiledLayout(tile, draw(orders), inside, inner_tiled=inner)
        tile = [t * draw(st.integers(1, 3)) for t in tile]
    assert inner is not None
    return inner


@given(st.data(), BITS, st.integers(0, 99))
def test_tiled(data: st.DataObject, bits: int, seed: int) -> None:
    shape = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=3))
    layout = data.draw(tiled_layouts(len(shape)))
    check(layout, tiled_offset(layout, shape), codes_of(shape, bits, seed), bits, data.draw(regions(shape)))


@given(st.data(), st.sampled_from([1, 4, 6, 8, 32]), st.integers(0, 99))
def test_tiled_with_any_strides(data: st.DataObject, bits: int, seed: int) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    steps = st.lists(st.integers(-4, 4), min_size=len(shape), max_size=len(shape))
    tile = data.draw(st.lists(st.integers(1, 4), min_size=len(shape), max_size=len(shape)))
    layout = TiledLayout(tile, "strided", "strided", data.draw(steps), data.draw(steps))
    offset = tiled_offset(layout, shape)
    reached = [offset(index) for index in np.ndindex(*shape)]
    back = 8 * max(0, -min(reached))  # elements before element 0, a whole number of groups
    stored = codes_of([back + max(reached) + 1], bits, seed).ravel()
    packed = bit_kernels.pack(stored, bits) if bits < 8 else stored.view(np.uint8)
    byte_offset = bit_kernels.packed_nbytes(back, bits)
    payload = Payload(tuple(shape), bits, stored.dtype, (packed,), byte_offset)
    assert layout.specs(tuple(shape), bits, byte_offset)[0].n_bytes <= len(packed)
    whole = layout.read_all(payload)
    assert whole.tobytes() == stored[back + np.array(reached)].tobytes()
    region = data.draw(regions(shape))
    want = whole[np.ix_(*(np.asarray(axis, dtype=np.intp) for axis in region))]
    assert layout.read(payload, region).tobytes() == want.tobytes()


@given(st.data(), BITS, st.integers(0, 99))
def test_morton(data: st.DataObject, bits: int, seed: int) -> None:
    shape = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    needed = max(1, *((n - 1).bit_length() for n in shape if n), 1)
    layout = MortonLayout([needed + data.draw(st.integers(0, 1))] * len(shape))
    check(layout, morton_offset, codes_of(shape, bits, seed), bits, data.draw(regions(shape)))


@given(st.data(), BITS, st.integers(0, 99))
def test_hilbert(data: st.DataObject, bits: int, seed: int) -> None:
    order, rank = data.draw(st.sampled_from([(1, 2), (2, 2), (3, 2), (4, 2), (1, 3), (2, 3), (1, 4), (2, 4), (1, 5)]))
    layout = HilbertLayout(order, rank)
    shape = (1 << order,) * rank
    check(layout, hilbert_offset(order), codes_of(shape, bits, seed), bits, data.draw(regions(shape)))


@given(st.integers(1, 64), st.data())
def test_morton_codes_of_any_rank(rank: int, data: st.DataObject) -> None:
    bits = min(63, 64 // rank)
    points = data.draw(
        st.lists(st.lists(st.integers(0, (1 << bits) - 1), min_size=rank, max_size=rank), min_size=1, max_size=4)
    )
    want = [sum(((i >> b) & 1) << (b * rank + d) for d, i in enumerate(p) for b in range(bits)) for p in points]
    codes = curves.morton_encode(np.array(points), rank)
    assert codes.tolist() == want
    assert curves.morton_decode(codes, rank).tolist() == points


@given(st.integers(2, 32), st.data())
def test_hilbert_indices_of_any_rank(rank: int, data: st.DataObject) -> None:
    order = data.draw(st.integers(1, 64 // rank))
    points = data.draw(
        st.lists(st.lists(st.integers(0, (1 << order) - 1), min_size=rank, max_size=rank), min_size=1, max_size=4)
    )
    index = hilbert.hilbert_encode(np.array(points), order)
    assert index.tolist() == [hilbert_offset(order)(point) for point in points]
    assert hilbert.hilbert_decode(index, rank, order).tolist() == points


@given(st.data())
@settings(max_examples=60)
def test_pieces_and_extremes_of_one_dimension(data: st.DataObject) -> None:
    levels = data.draw(st.integers(0, 3))
    extents = data.draw(st.lists(st.integers(1, 7), min_size=levels, max_size=levels))
    steps = data.draw(st.lists(st.integers(-20, 20), min_size=levels + 1, max_size=levels + 1))

    def term(i: int) -> int:
        total = 0
        for tile, step in zip(extents, steps, strict=False):
            total += (i // tile) * step
            i %= tile
        return total + i * steps[-1]

    start = data.draw(st.integers(0, 30))
    stop = data.draw(st.integers(start, 40))
    found: dict[int, int] = {}
    for piece in tiles.axis_pieces(start, stop, extents, steps):
        for turn in np.ndindex(piece.extents):
            logical = piece.logical + sum(t * s for t, s in zip(turn, piece.logical_steps, strict=True))
            assert logical not in found
            found[logical] = piece.storage + sum(t * s for t, s in zip(turn, piece.storage_steps, strict=True))
    assert found == {i - start: term(i) for i in range(start, stop)}
    if stop:
        terms = [term(i) for i in range(stop)]
        assert tiles.axis_extremes(stop, extents, steps) == (min(terms), max(terms))
        assert tiles.axis_offsets(np.arange(stop), extents, steps).tolist() == terms
