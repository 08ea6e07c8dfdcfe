from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from hurray.errors import BufferError, InvalidDescriptorError
from hurray.layouts import CooLayout, CsfLayout, full_region
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer
from sparse_cases import numbers, of_encoded, payload

# The example of the format's reference.
SHAPE = (2, 3, 4)
TREE: list[list[int]] = [[1, 2, 3, 4], [0, 2], [0, 1], [0, 2, 3], [0, 2, 1], [0, 1, 2, 4], [1, 3, 0, 2]]
CELLS = {(0, 0, 1): 1, (0, 2, 3): 2, (1, 1, 0): 3, (1, 1, 2): 4}


def dense() -> Any:
    result = np.zeros(SHAPE, np.float32)
    for cell, value in CELLS.items():
        result[cell] = value
    return result


def csf(buffers: list[list[int]] = TREE, nnz: int = 4) -> tuple[CsfLayout, Any]:
    return CsfLayout(nnz, (0, 1, 2)), payload(SHAPE, "<f4", *buffers)


def test_the_example() -> None:
    layout, p = of_encoded(CsfLayout.encode(dense(), 32), SHAPE, 32, "<f4")
    assert layout == CsfLayout(4, [0, 1, 2])
    assert p.buffers[0].view("<f4").tolist() == TREE[0]
    assert [numbers(b) for b in p.buffers[1:]] == TREE[1:]
    layout.validate(p)
    assert np.array_equal(layout.read(p, full_region(SHAPE)), dense())
    coords, codes = layout.stored(p)
    assert [tuple(c) for c in coords.tolist()] == list(CELLS)
    assert codes.tolist() == list(CELLS.values())
    assert layout.level(p, 1)[0].tolist() == [0, 2, 3]


def test_the_walk_of_a_look_up() -> None:
    layout, p = csf()
    # Root slice 0..2 holds 1 at node 1; its slice 2..3 holds 1 at node 2; its slice 2..4 holds 2 at leaf 3.
    assert layout.lookup(p, np.array([[1, 1, 2]])).tolist() == [3]
    every = np.argwhere(np.ones(SHAPE))
    found = layout.lookup(p, every)
    expected = [CELLS.get((i, j, k), 0) for i, j, k in every.tolist()]
    assert np.where(found < 0, 0, np.array(TREE[0])[found]).tolist() == expected


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_every_mode_order(order: tuple[int, ...]) -> None:
    layout, p = of_encoded(CsfLayout.encode(dense(), 32, mode_order=order), SHAPE, 32, "<f4")
    assert layout == CsfLayout(4, order)
    assert layout.encode_options() == {"mode_order": order}
    layout.validate(p)
    assert np.array_equal(layout.read(p, full_region(SHAPE)), dense())
    coords, codes = layout.stored(p)
    assert coords.tolist() == sorted(coords.tolist(), key=lambda c: [c[m] for m in order])
    assert {tuple(c): v for c, v in zip(coords.tolist(), codes.tolist(), strict=True)} == CELLS
    region: Any = (range(1, -1, -1), np.array([1, 1, 0]), range(0, 4, 2))
    assert np.array_equal(layout.read(p, region), dense()[::-1][:, [1, 1, 0]][..., ::2])
    for axes in permutations(range(3)):
        turned = layout.transpose(p, axes)
        assert turned.buffers is p.buffers
        other, q = of_encoded(turned, tuple(SHAPE[a] for a in axes), 32, "<f4")
        other.validate(q)
        assert np.array_equal(other.read(q, full_region(q.shape)), dense().transpose(axes))
    listed, r = of_encoded(layout.convert(p, CooLayout), SHAPE, 32, "<f4")
    assert listed == CooLayout(4, True)
    again = listed.convert(r, CsfLayout, mode_order=order)
    assert [b.tobytes() for b in again.buffers] == [b.tobytes() for b in p.buffers]


@pytest.mark.parametrize(
    ("buffer", "at", "value", "message"),
    [
        (1, 0, 1, r"pos_0\[0\] is 1, but every pos starts at 0"),
        (1, 1, 1, r"pos_2\[2\] is 2, but level 2 has 4 nodes"),
        (3, 0, 1, r"pos_1\[0\] is 1"),
        (3, 1, 2**64 - 1, r"pos_1\[1\] is 18446744073709551615, but level 1 has 3 nodes"),
        (5, 2, 0, r"pos_2\[2\] is 0, below 1"),
        (5, 3, 3, r"pos_2\[3\] is 3, but level 2 has 4 nodes"),
        (2, 1, 2, r"crd_0\[1\] is 2, outside .* 2"),
        (2, 1, 0, r"crd_0\[1\] is 0, not above 0"),
        (4, 1, 0, r"crd_1\[1\] is 0, not above 0 before it under the same parent"),
        (6, 3, 2**63, r"crd_2\[3\] is 9223372036854775808, outside .* 4"),
    ],
)
def test_invariants(buffer: int, at: int, value: int, message: str) -> None:
    changed = [list(b) for b in TREE]
    changed[buffer][at] = value
    layout, p = csf(changed)
    with pytest.raises(InvalidDescriptorError, match=message):
        layout.validate(p)


def test_bounds_follow_the_mode_order() -> None:
    _layout, p = csf()
    with pytest.raises(InvalidDescriptorError, match=r"crd_2\[1\] is 3, outside .* 3"):
        CsfLayout(4, (0, 2, 1)).validate(p)


def test_the_pos_chain_decides_what_buffers_must_hold() -> None:
    layout, p = csf([*TREE[:4], [*TREE[4], 9, 9], *TREE[5:]])
    layout.validate(p)
    for buffer in range(7):
        if buffer in (0, 2, 3, 4, 5, 6):
            layout, p = csf([b[:-1] if k == buffer else b for k, b in enumerate(TREE)])
            with pytest.raises(BufferError):
                layout.validate(p)
    changed = [list(b) for b in TREE]
    changed[3][-1] = 2**61
    layout, p = csf(changed)
    with pytest.raises(BufferError):
        layout.validate(p)


def test_an_empty_tree() -> None:
    layout, p = of_encoded(CsfLayout.encode(np.zeros(SHAPE, np.uint8), 4, mode_order=(1, 2, 0)), SHAPE, 4, "u1")
    assert [numbers(b) if len(b) else [] for b in p.buffers] == [[], [0, 0], [], [0], [], [0], []]
    layout.validate(p)
    assert not layout.read(p, full_region(SHAPE)).any()
    assert layout.stored(p)[0].shape == (0, 3)
    layout, p = csf([[], [0, 1], [0], [0, 0], [], [0], []], nnz=0)
    with pytest.raises(InvalidDescriptorError, match=r"pos_0\[1\] is 1"):
        layout.validate(p)


def test_nodes_without_children_are_legal() -> None:
    layout, p = csf([[5], [0, 2], [0, 1], [0, 0, 1], [2], [0, 1], [3]], nnz=1)
    layout.validate(p)
    expected = np.zeros(SHAPE, np.float32)
    expected[1, 2, 3] = 5
    assert np.array_equal(layout.read(p, full_region(SHAPE)), expected)
    assert layout.stored(p)[0].tolist() == [[1, 2, 3]]


def test_fields_and_sizes() -> None:
    layout = CsfLayout(4, (2, 0, 1))
    assert repr(layout) == "CsfLayout(nnz=4, mode_order=(2, 0, 1))"
    assert (layout.buffer_count, hash(layout)) == (7, hash(CsfLayout(4, [2, 0, 1])))
    w = Writer()
    layout.write_fields(w)
    assert w.getvalue() == b"\x04" + bytes(7) + b"\x02\0\0\0\0\0\0\0\x01\0\0\0" + bytes(8)
    assert CsfLayout.parse_fields(Reader(w.getvalue()), SHAPE) == layout
    assert [s.n_bytes for s in layout.specs(SHAPE, 32)] == [16, 16, 8, 16, 8, 16, 32]
    assert [s.n_bytes for s in CsfLayout(0, (2, 0, 1)).specs(SHAPE, 32)] == [0, 16, 0, 8, 0, 8, 0]
    assert [s.role for s in layout.specs(SHAPE, 32)][3:5] == ["pos_1", "crd_1"]
    for bad in ((0, 0, 1), (0, 1, 3), (0, 2**31, 1)):
        with pytest.raises(InvalidDescriptorError, match="permutation"):
            CsfLayout(4, bad)
    with pytest.raises(InvalidDescriptorError, match="rank"):
        CsfLayout(4, (0, 1)).validate_against_shape((2, 2))
    with pytest.raises(InvalidDescriptorError, match="mode_order"):
        layout.validate_against_shape((2, 2, 2, 2))
    with pytest.raises(InvalidDescriptorError, match="rank"):
        CsfLayout.encode(np.zeros((2, 2), np.int8), 8)
    with pytest.raises(TypeError):
        CsfLayout(4, "012")  # type: ignore[arg-type]


def test_rank_64() -> None:
    shape = (2,) * 64
    rng = np.random.default_rng(0)
    coords = np.unique(rng.integers(0, 2, (40, 64)), axis=0)
    order = rng.permutation(64).tolist()
    shuffled = coords[rng.permutation(len(coords))]
    codes = np.arange(1, len(coords) + 1, dtype=np.int16)
    encoded = CsfLayout.from_coords(shuffled, codes, shape, 16, mode_order=order)
    layout, p = of_encoded(encoded, shape, 16, "<i2")
    layout.validate(p)
    found = layout.lookup(p, shuffled)
    assert layout.values(p)[found].tolist() == codes.tolist()
    assert layout.lookup(p, 1 - shuffled).tolist().count(-1) > 30
    where, _ = layout.stored(p)
    assert sorted(where.tolist()) == coords.tolist()
