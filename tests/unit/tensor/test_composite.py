"""Composites as authored: rules, values, regions."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import helpers
import hurray

WHOLE = np.arange(60, dtype=np.float32).reshape(6, 10)


def piece(array: Any, offset: tuple[int, ...], parent: tuple[int, ...]) -> hurray.Tensor:
    return hurray.from_numpy(np.ascontiguousarray(array))._replace(shard=hurray.Shard(parent, offset))


def partition(members: Any, shape: Any = (6, 10), dtype: Any = None, **kw: Any) -> hurray.Composite:
    return hurray.Composite("partition", shape=shape, dtype=dtype or hurray.float32, members=members, **kw)


def overlay(members: Any, op: str, shape: Any = (6, 10), dtype: Any = None) -> hurray.Composite:
    return hurray.Composite("overlay", shape=shape, dtype=dtype or hurray.float32, members=members, combine_op=op)


def test_properties_and_repr() -> None:
    left, right = hurray.shard(WHOLE, (1, 2))
    c = partition([left, right])
    assert repr(c) == "hurray.Composite(rule='partition', shape=(6, 10), members=[Tensor, Tensor])"
    assert (c.shape, c.dtype, c.ndim, c.size, c.member_count) == ((6, 10), hurray.float32, 2, 60, 2)
    assert c.members == (left, right)
    assert c.member_roles == (None, None)
    assert c.layout == hurray.CompositeLayout("partition", 2)
    assert c.descriptor.buffer_count == 0
    assert c.descriptor == hurray.Descriptor.decode(c.descriptor.encode())
    assert (c.shard, c.statistics, c.combine_op) == (None, None, None)
    o = overlay([piece(WHOLE, (0, 0), (6, 10)), left], "add")
    assert o.member_roles == ("base", "correction")
    assert o.combine_op == "add"
    nested = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[c, left])
    assert repr(nested) == f"hurray.Composite(rule='group', shape=(), members=[{c!r}, Tensor])"


def test_is_no_array_of_members_and_no_exporter() -> None:
    c = partition(hurray.shard(WHOLE, (2, 2)))
    assert not hasattr(c, "__dlpack__")
    assert not hasattr(c, "__hurray__")
    with pytest.raises(TypeError, match="not iterable"):
        iter(c)
    with pytest.raises(AttributeError, match="immutable"):
        c.dtype = hurray.float64  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        del c._members
    assert c != partition(hurray.shard(WHOLE, (2, 2)))
    assert c in {c}


@pytest.mark.parametrize(
    "key",
    [
        np.s_[:],
        np.s_[2:5],
        np.s_[::-1],
        np.s_[5:0:-2, ::3],
        np.s_[3],
        np.s_[-1, -1],
        np.s_[:, [7, 1, 7]],
        np.s_[[0, 4, 4], [9, 2, 2]],
        np.s_[..., None, 3],
        np.s_[WHOLE[:, 0] > 15],
        np.s_[0:0],
        np.s_[[[1], [5]], 2:4],
    ],
)
@pytest.mark.parametrize("kind", ["partition", "nested", "overlay", "quantized"])
def test_region_equals_numpy(kind: str, key: Any) -> None:
    if kind == "partition":
        c, want = partition(hurray.shard(WHOLE, (4, 3))), WHOLE
    elif kind == "nested":
        inner = hurray.Composite(
            "partition", shape=(6, 4), dtype=hurray.float32, members=hurray.shard(WHOLE[:, :4], (3, 2)),
            shard=hurray.Shard((6, 10), (0, 0)),
        )  # fmt: skip
        c, want = partition([piece(WHOLE[:, 4:], (0, 4), (6, 10)), inner]), WHOLE
    elif kind == "overlay":
        c = overlay(
            [
                piece(WHOLE, (0, 0), (6, 10)),
                piece(-WHOLE[1:4, 2:9], (1, 2), (6, 10)),
                piece(WHOLE[:1], (3, 0), (6, 10)),
            ],
            "add",
        )
        want = WHOLE.copy()
        want[1:4, 2:9] -= WHOLE[1:4, 2:9]
        want[3] += WHOLE[0]
    else:
        codes = (np.arange(60).reshape(6, 10) - 30).astype(np.int8)
        t = hurray.from_numpy(codes)._replace(quantization=hurray.PerTensorAffine(0.5, 3))
        c, want = partition(hurray.shard(t, (2, 3))), ((codes.astype(np.float32) - 3) * np.float32(0.5))
    got = c[key]
    assert np.shape(got) == np.shape(want[key])
    np.testing.assert_array_equal(got, want[key])
    np.testing.assert_array_equal(c.to_numpy(), want)


def test_index_errors_are_numpys() -> None:
    c = partition(hurray.shard(WHOLE, (2, 2)))
    for key in (6, (0, 10), (0, 0, 0), 1.5):
        with pytest.raises(IndexError):
            c[key]


def test_region_touches_only_members_that_it_meets() -> None:
    ok, bad = hurray.shard(WHOLE, (1, 2))
    # Column 7 of a csr matrix of 5 columns: reading it is refused.
    broken = hurray.Tensor(
        np.zeros(1, np.float32), hurray.float32, [6, 5], layout=hurray.CsrLayout(1), shard=bad.shard,
        aux_buffers=[np.array([7], np.uint64), np.array([0, 1, 1, 1, 1, 1, 1], np.uint64)],
    )  # fmt: skip
    c = partition([ok, broken])
    np.testing.assert_array_equal(c[:, :5], WHOLE[:, :5])
    np.testing.assert_array_equal(c[[1, 2], [0, 4]], WHOLE[[1, 2], [0, 4]])
    for read in (lambda: c[:, 4:6], c.to_numpy, c.validate, lambda: c[[1, 2], [0, 5]]):
        with pytest.raises(hurray.InvalidDescriptorError):
            read()


def test_replace_takes_the_latest_and_sparse_only_what_is_stored() -> None:
    base = piece(WHOLE, (0, 0), (6, 10))
    dense = piece(np.zeros((3, 4), np.float32), (2, 3), (6, 10))
    sparse = hurray.sparse_coo(
        np.array([0.0, 7.0], np.float32), np.array([[0, 0], [2, 1]], np.uint64), (4, 4)
    )._replace(shard=hurray.Shard((6, 10), (1, 3)))
    c = overlay([base, dense, sparse], "replace")
    want = WHOLE.copy()
    want[2:5, 3:7] = 0
    want[1, 3], want[3, 4] = 0.0, 7.0
    np.testing.assert_array_equal(c.to_numpy(), want)
    np.testing.assert_array_equal(c[3:0:-1, 2:6], want[3:0:-1, 2:6])
    np.testing.assert_array_equal(c[[1, 3, 3, 0], [3, 4, 5, 9]], want[[1, 3, 3, 0], [3, 4, 5, 9]])
    c = overlay([base, dense, sparse], "add")
    want = WHOLE.copy()
    want[3, 4] += 7
    np.testing.assert_array_equal(c.to_numpy(), want)
    np.testing.assert_array_equal(c[[1, 3], [3, 4]], want[[1, 3], [3, 4]])


@pytest.mark.parametrize("name", ["csr", "csc", "coo"])
@pytest.mark.parametrize("op", ["replace", "add"])
def test_sparse_quantized_corrections(name: str, op: str) -> None:
    codes = np.zeros((6, 10), np.int8)
    codes[1, 2], codes[5, 9] = 4, -6
    scales = np.arange(1, 7, dtype=np.float32)
    t = hurray.from_numpy(codes).to_layout(name)
    t = hurray.Tensor(
        t._buffers[0], t.dtype, [6, 10], layout=t.layout, aux_buffers=[*t._buffers[1:], scales],
        quantization=hurray.PerChannelAffine.symmetric(0, len(t._buffers)), shard=hurray.Shard((6, 10), (0, 0)),
    )  # fmt: skip
    c = overlay([piece(WHOLE, (0, 0), (6, 10)), t], op)
    want = WHOLE.copy()
    want[1, 2] = 8.0 + (want[1, 2] if op == "add" else 0)
    want[5, 9] = -36.0 + (want[5, 9] if op == "add" else 0)
    np.testing.assert_array_equal(c.to_numpy(), want)
    np.testing.assert_array_equal(c[1:6:4, 9:1:-7], want[1:6:4, 9:1:-7])
    np.testing.assert_array_equal(c[[1, 5, 0], [2, 9, 0]], want[[1, 5, 0], [2, 9, 0]])


@pytest.mark.parametrize("dtype", [hurray.float16, hurray.bfloat16, hurray.float32, hurray.float64])
def test_quantized_members_decode_to_a_float_head(dtype: hurray.Dtype) -> None:
    codes = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    q = hurray.from_numpy(codes)._replace(
        quantization=hurray.PerTensorAffine(0.25, 1), shard=hurray.Shard((4, 8), (0, 0))
    )
    plain = hurray.zeros([4, 4], dtype=dtype)._replace(shard=hurray.Shard((4, 8), (0, 4)))
    c = partition([q, plain], (4, 8), dtype)
    got = c.to_numpy()
    assert got.dtype == dtype.numpy
    np.testing.assert_array_equal(got[:, :4].astype(np.float32), (codes.astype(np.float32) - 1) * 0.25)
    np.testing.assert_array_equal(got[:, 4:].astype(np.float32), 0)
    with pytest.raises(hurray.InvalidDescriptorError, match="member 0: it is quantized"):
        partition([q._replace(shard=hurray.Shard((4, 4), (0, 0)))], (4, 4), hurray.int8)


@pytest.mark.parametrize("dtype", [d for d in hurray.dtypes.table.ALL_DTYPES if d.name != "float128"], ids=str)
def test_every_dtype_is_put_together_bit_for_bit(dtype: hurray.Dtype) -> None:
    rng = np.random.default_rng(dtype.tag)
    low, high = (1, 0xFF) if dtype.name == "float8_e8m0" else (0, 256)
    width = max(8, dtype.bit_width) // 8
    if dtype.is_sub_byte:
        high = 1 << dtype.bit_width
    raw = rng.integers(low, high, (4, 6 * width), np.uint8)
    codes = raw.view(dtype.storage).reshape(4, 6)
    whole = hurray.tensor.build.from_codes(codes, dtype)
    c = hurray.assemble(hurray.shard(whole, (2, 2)))
    want = whole.to_numpy()
    helpers.assert_same_bits(c.to_numpy(), want)
    helpers.assert_same_bits(np.ascontiguousarray(c[3:0:-1, ::2]), np.ascontiguousarray(want[3:0:-1, ::2]))


def test_float128_needs_a_dtype() -> None:
    whole = hurray.zeros([2, 2], dtype=hurray.dtype.float128)
    c = hurray.assemble(hurray.shard(whole, (2, 1)))
    with pytest.raises(hurray.UnsupportedError, match="float64"):
        c.to_numpy()
    np.testing.assert_array_equal(c.to_numpy(dtype=np.float64), np.zeros((2, 2)))


def test_array_protocol() -> None:
    c = partition(hurray.shard(WHOLE, (2, 2)))
    np.testing.assert_array_equal(np.asarray(c), WHOLE)
    assert np.asarray(c, dtype=np.float64).dtype == np.float64
    with pytest.raises(hurray.CopyRequiredError):
        c.to_numpy(copy=False)
    with pytest.raises(hurray.CopyRequiredError):
        np.asarray(c, copy=False)


def test_group_names_its_members() -> None:
    c = partition(hurray.shard(WHOLE, (2, 2)))
    g = hurray.Composite("group", shape=(3,), dtype=hurray.int8, members=[c, hurray.zeros([2], dtype=hurray.bool)])
    for read in (g.to_numpy, lambda: g[0], lambda: np.asarray(g)):
        with pytest.raises(hurray.UnsupportedError, match=r"partition composite float32 of shape \(6, 10\), bool of"):
            read()
    empty = hurray.Composite("group", shape=(2,), dtype=hurray.int8, members=[])
    assert empty.member_count == 0
    with pytest.raises(hurray.UnsupportedError, match="none"):
        empty.to_numpy()


def test_empty_partitions() -> None:
    c = partition([], (0, 3))
    assert c.to_numpy().shape == (0, 3)
    with pytest.raises(hurray.InvalidDescriptorError, match="gap"):
        partition([], (1, 3))
    with pytest.raises(hurray.InvalidDescriptorError, match="gap"):
        partition([], ())
    one = hurray.ones([])._replace(shard=hurray.Shard((), ()))
    assert partition([one], (), hurray.float64).to_numpy() == 1.0
    assert partition([one], (), hurray.float64)[()] == 1.0


A, B = hurray.shard(WHOLE, (1, 2))
FULL = piece(WHOLE, (0, 0), (6, 10))
PLAIN = hurray.from_numpy(WHOLE)
DOUBLE = piece(WHOLE[:, :5].astype(np.float64), (0, 0), (6, 10))


@pytest.mark.parametrize(
    ("error", "message", "args"),
    [
        (hurray.InvalidDescriptorError, "gap at index", ("partition", [A])),
        (hurray.InvalidDescriptorError, "member 0 and member 2 overlap", ("partition", [A, B, A])),
        (hurray.InvalidDescriptorError, "member 1: it has no shard section", ("partition", [A, PLAIN])),
        (hurray.InvalidDescriptorError, "member 0: its decoded type float64", ("partition", [DOUBLE, B])),
        (hurray.InvalidDescriptorError, "parent_shape", ("partition", [A, B], (10, 6))),
        (hurray.InvalidDescriptorError, "overlay needs a base", ("overlay", [], (6, 10), "add")),
        (hurray.InvalidDescriptorError, "the base spans", ("overlay", [A, FULL], (6, 10), "add")),
        (hurray.InvalidDescriptorError, "member 1: its decoded type", ("overlay", [FULL, DOUBLE], (6, 10), "add")),
        (hurray.InvalidDescriptorError, "dynamic", ("group", [], (None, 2))),
        (ValueError, "combine_op", ("overlay", [FULL])),
        (ValueError, "takes no combine_op", ("partition", [A, B], (6, 10), "add")),
        (ValueError, "invalid combine_op 'x'", ("overlay", [FULL], (6, 10), "x")),
        (ValueError, "composition_rule 'tile'", ("tile", [A, B])),
        (TypeError, r"members\[1\] must be a hurray.Tensor or a hurray.Composite, got int", ("partition", [A, 1])),
        (TypeError, "shape is a sequence", ("group", [], 8)),
    ],
)
def test_refusals(error: type[Exception], message: str, args: tuple[Any, ...]) -> None:
    rule, members, shape, op = (*args, (6, 10), None)[:4] if len(args) == 2 else (*args, None)[:4]
    with pytest.raises(error, match=message):
        hurray.Composite(rule, shape=shape, dtype=hurray.float32, members=members, combine_op=op)


def test_dtype_and_overlay_of_composites_are_refused() -> None:
    with pytest.raises(TypeError, match="dtype"):
        hurray.Composite("group", shape=(), dtype="int8", members=[])  # type: ignore[arg-type]
    inner = hurray.Composite(
        "partition", shape=(6, 10), dtype=hurray.float32, members=[A, B], shard=hurray.Shard((6, 10), (0, 0))
    )
    with pytest.raises(hurray.InvalidDescriptorError, match="member 1: it is a composite"):
        overlay([FULL, inner], "add")
    without = partition([A, B])
    with pytest.raises(hurray.InvalidDescriptorError, match="member 0: it has no shard section"):
        partition([without])
    assert partition([inner]).to_numpy()[3, 3] == WHOLE[3, 3]


def test_at_most_eight_heads_on_a_path() -> None:
    item: Any = hurray.zeros([1])
    for _ in range(8):
        item = hurray.Composite("group", shape=(1,), dtype=hurray.int8, members=[item])
    with pytest.raises(hurray.InvalidDescriptorError, match="9 deep"):
        hurray.Composite("group", shape=(1,), dtype=hurray.int8, members=[item])


def test_private_dtype_is_carried() -> None:
    kind, about = hurray.Dtype.from_tag(0xF1), hurray.ExtensionType(16)
    halves = [
        hurray.Tensor(bytes(8), kind, [4], extension_type=about, shard=hurray.Shard((8,), (at,))) for at in (0, 4)
    ]
    c = hurray.assemble(halves)
    assert c.extension_type == about
    with pytest.raises(hurray.UnsupportedError, match="private"):
        c.to_numpy()
    with pytest.raises(hurray.InvalidDescriptorError, match="extension type"):
        partition(halves, (8,), kind)


def test_absurd_dense_results_are_refused() -> None:
    n = 2**40
    empty = hurray.sparse_coo(np.empty(0, np.float32), np.empty((0, 1), np.uint64), (n,))
    c = partition([empty._replace(shard=hurray.Shard((n,), (0,)))], (n,))
    with pytest.raises(hurray.UnsupportedError, match="limit"):
        c.to_numpy()
    assert c[n - 1] == 0
    assert c[5:9].tolist() == [0, 0, 0, 0]
    huge = 2**63 + 2
    c = partition([empty._replace(shape=(huge,), shard=hurray.Shard((huge,), (0,)))], (huge,))
    with pytest.raises(hurray.UnsupportedError, match="NumPy can count"):
        c.to_numpy()
    assert c[5:9].tolist() == [0, 0, 0, 0]
    with pytest.raises(hurray.UnsupportedError, match="memory"):
        partition([], (0, 2**62)).to_numpy()


def test_pickle_and_copies() -> None:
    c = hurray.Composite(
        "group", shape=(), dtype=hurray.int8, members=[partition([A, B]), overlay([FULL, A], "add"), PLAIN]
    )
    for protocol in (2, 5):
        back = pickle.loads(pickle.dumps(c, protocol))
        assert back.descriptor == c.descriptor
        helpers.assert_same_bits(back.members[0].to_numpy(), WHOLE)
        helpers.assert_same_bits(back.members[1].to_numpy(), c.members[1].to_numpy())
    assert copy.copy(c) is c
    deep = copy.deepcopy(c)
    assert deep.members[2] is not PLAIN
    helpers.assert_same_bits(deep.members[0].to_numpy(), WHOLE)


@st.composite
def regions(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    entries: list[Any] = []
    for n in shape:
        kind = draw(st.integers(0, 2))
        if kind == 0:
            step = draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
            bound = st.none() | st.integers(-n - 2, n + 2)
            entries.append(slice(draw(bound), draw(bound), step))
        elif kind == 1 and n:
            entries.append(draw(st.lists(st.integers(-n, n - 1), max_size=5)))
        else:
            entries.append(draw(st.integers(-n, n - 1)) if n else slice(None))
    # More than one list would be pointwise, which other tests cover.
    seen = False
    for k, entry in enumerate(entries):
        if isinstance(entry, list):
            if seen:
                entries[k] = slice(None)
            seen = True
    return tuple(entries)


@given(st.data())
def test_any_region_of_any_tiling(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    grid = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    whole = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    shards = hurray.shard(whole, grid)
    layouts = ["row_major", "col_major", "strided", "coo"]
    members = [s.to_layout(data.draw(st.sampled_from(layouts))) for s in shards]
    c = hurray.assemble(data.draw(st.permutations(members)))
    key = data.draw(regions(shape))
    np.testing.assert_array_equal(c[key], whole[key])
    np.testing.assert_array_equal(c.to_numpy(), whole)


@given(st.data())
def test_any_overlay_equals_doing_it_by_hand(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    op = data.draw(st.sampled_from(["replace", "add"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    want = rng.integers(-9, 9, shape).astype(np.int64)
    members = [piece(want, (0,) * len(shape), shape)]
    want = want.copy()
    for _ in range(data.draw(st.integers(0, 4))):
        offset = tuple(data.draw(st.integers(0, n)) for n in shape)
        size = tuple(data.draw(st.integers(0, n - low)) for n, low in zip(shape, offset, strict=True))
        values = rng.integers(-3, 3, size).astype(np.int64)
        where = tuple(slice(low, low + n) for low, n in zip(offset, size, strict=True))
        t = piece(values, offset, shape)
        if data.draw(st.booleans()):
            t = t.to_layout("coo")
            stored = values != 0
        else:
            stored = np.ones(size, bool)
        want[where][stored] = values[stored] + (want[where][stored] if op == "add" else 0)
        members.append(t)
    c = overlay(members, op, shape, hurray.int64)
    key = data.draw(regions(shape))
    np.testing.assert_array_equal(c[key], want[key])
    np.testing.assert_array_equal(c.to_numpy(), want)
    points = rng.integers(0, shape, (7, len(shape)))
    if len(shape) > 1:
        np.testing.assert_array_equal(c[tuple(points.T)], want[tuple(points.T)])
