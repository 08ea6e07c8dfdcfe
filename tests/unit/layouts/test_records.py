"""Layouts as records: arguments and attributes, likeness, immutability, and the errors of their constructors."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import hurray
from hurray import InvalidDescriptorError
from hurray.layouts import LAYOUTS, LAYOUTS_BY_NAME
from hurray.quantization import SCHEMES, UnknownScheme

NESTED = hurray.TiledLayout([4, 4], "strided", "tiled", [1, 2], None, hurray.TiledLayout([2, 2]))
# layout: repr, tag, name, buffers, dense, virtual
EACH: list[tuple[hurray.Layout, str, int, str, int | None, bool, bool]] = [
    (hurray.RowMajorLayout(), "RowMajorLayout()", 0x01, "row_major", 1, True, False),
    (hurray.ColMajorLayout(), "ColMajorLayout()", 0x02, "col_major", 1, True, False),
    (hurray.StridedLayout([2, -1]), "StridedLayout(strides=(2, -1))", 0x03, "strided", 1, True, False),
    (
        hurray.TiledLayout([2, 3]),
        "TiledLayout(tile_shape=(2, 3), outer_layout='row_major', inner_layout='row_major')",
        0x04, "tiled", 1, True, False,
    ),
    (
        NESTED,
        ("TiledLayout(tile_shape=(4, 4), outer_layout='strided', inner_layout='tiled', outer_strides=(1, 2), "
        "inner_tiled=TiledLayout(tile_shape=(2, 2), outer_layout='row_major', inner_layout='row_major'))"),
        0x04, "tiled", 1, True, False,
    ),
    (hurray.MortonLayout([2, 3]), "MortonLayout(morton_bits=(2, 3))", 0x05, "morton", 1, True, False),
    (hurray.CooLayout(3), "CooLayout(nnz=3, is_sorted=False)", 0x06, "coo", 2, False, False),
    (hurray.CooLayout(3, is_sorted=True), "CooLayout(nnz=3, is_sorted=True)", 0x06, "coo", 2, False, False),
    (hurray.CsrLayout(nnz=4), "CsrLayout(nnz=4)", 0x07, "csr", 3, False, False),
    (hurray.CscLayout(4), "CscLayout(nnz=4)", 0x08, "csc", 3, False, False),
    (hurray.CsfLayout(4, [2, 0, 1]), "CsfLayout(nnz=4, mode_order=(2, 0, 1))", 0x09, "csf", 7, False, False),
    (
        hurray.BlockPagedLayout(4, 5, 0, 2),
        ("BlockPagedLayout(page_size=4, num_pages=5, paged_axis=0, num_seqs=2, kv_role='key', layer_index=None, "
        "block_table_index_type='uint32')"),
        0x0A, "block_paged", 3, False, False,
    ),
    (
        hurray.CompositeLayout("partition", 3),
        "CompositeLayout(composition_rule='partition', member_count=3)",
        0x0B, "composite", 0, False, True,
    ),
    (
        hurray.CompositeLayout("overlay", 3, "add"),
        "CompositeLayout(composition_rule='overlay', member_count=3, combine_op='add')",
        0x0B, "composite", 0, False, True,
    ),
    (
        hurray.HilbertLayout(3, 2), "HilbertLayout(hilbert_order=3, hilbert_rank=2)", 0x40, "hilbert", 1, True, False,
    ),
    (
        hurray.PrivateExtensionLayout(0xF1, 7, b"abc"),
        "PrivateExtensionLayout(tag=0xF1, extension_layout_id=7, extension_data=3 bytes)",
        0xF1, "extension", None, False, False,
    ),
    (
        hurray.UnknownLayout(0x0C, b"xy"), "UnknownLayout(tag=0x0C, raw_bytes=2 bytes)",
        0x0C, "extension", None, False, False,
    ),
]  # fmt: skip
IDS = [row[1][:40] for row in EACH]


@pytest.mark.parametrize("row", EACH, ids=IDS)
def test_what_a_layout_tells(row: tuple[Any, ...]) -> None:
    layout, text, tag, name, buffers, dense, virtual = row
    assert repr(layout) == str(layout) == text
    assert (layout.tag, layout.name, layout.buffer_count) == (tag, name, buffers)
    assert (layout.is_dense, layout.is_virtual) == (dense, virtual)
    assert isinstance(layout, hurray.Layout)
    if "bytes" not in text:
        names = {n: getattr(hurray, n) for n in hurray.__all__ if n.endswith("Layout")}
        assert eval(text, names) == layout


@pytest.mark.parametrize("row", EACH, ids=IDS)
def test_likeness(row: tuple[Any, ...]) -> None:
    layout = row[0]
    for other in (copy.copy(layout), copy.deepcopy(layout), pickle.loads(pickle.dumps(layout))):
        assert other == layout
        assert hash(other) == hash(layout)
        assert type(other) is type(layout)
    assert sum(layout == other[0] for other in EACH) == 1
    for stranger in (layout.name, repr(layout), layout.tag, None, type(layout)):
        assert layout != stranger


SCHEME_EACH = [
    hurray.PerTensorAffine(0.5, 3),
    hurray.PerChannelAffine.symmetric(0, 1),
    hurray.PerBlockAffine.asymmetric(1, 32, 1, 2, hurray.float16),
    hurray.NF4(1, 64, 1),
    hurray.MXFP(1, 32, 1),
    UnknownScheme(b"\x7f\1\0\0"),
]
RECORDS = [row[0] for row in EACH] + SCHEME_EACH + [
    hurray.Statistics(nnz=1), hurray.Shard([1], [0]), hurray.ExtensionType(8), hurray.Limits(),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: repr(r)[:30])
def test_nothing_can_be_set_or_deleted(record: Any) -> None:
    before = repr(record)
    fields = [n for n in dir(record) if not n.startswith("_")]
    for name in [*fields, "anything", "__dict__", "__class__"]:
        with pytest.raises(AttributeError, match=name):
            setattr(record, name, 1)
        with pytest.raises(AttributeError, match=name):
            delattr(record, name)
    assert repr(record) == before
    assert not hasattr(record, "__dict__")
    assert record == copy.deepcopy(record) == pickle.loads(pickle.dumps(record))
    assert {record: 1}[copy.deepcopy(record)] == 1
    assert record != repr(record)


def test_the_bases_cannot_be_constructed() -> None:
    for base in (hurray.Layout, hurray.Scheme):
        with pytest.raises(TypeError, match="cannot be constructed"):
            base()


def test_every_layout_of_the_table_is_tested_here() -> None:
    tested = {type(row[0]) for row in EACH}
    assert set(LAYOUTS.values()) | {hurray.PrivateExtensionLayout, hurray.UnknownLayout} == tested
    assert {type(s) for s in SCHEME_EACH} == {*SCHEMES.values(), UnknownScheme}
    assert list(LAYOUTS_BY_NAME) == [cls.name for cls in LAYOUTS.values()]


SIGNATURES = {
    "RowMajorLayout": "",
    "ColMajorLayout": "",
    "StridedLayout": "strides",
    "TiledLayout": "tile_shape outer_layout inner_layout outer_strides inner_strides inner_tiled",
    "MortonLayout": "morton_bits",
    "HilbertLayout": "hilbert_order hilbert_rank",
    "CooLayout": "nnz is_sorted",
    "CsrLayout": "nnz",
    "CscLayout": "nnz",
    "CsfLayout": "nnz mode_order",
    "BlockPagedLayout": "page_size num_pages paged_axis num_seqs kv_role layer_index block_table_index_type",
    "CompositeLayout": "composition_rule member_count combine_op",
    "PrivateExtensionLayout": "tag extension_layout_id extension_data",
    "UnknownLayout": "tag raw_bytes",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_attributes_are_the_arguments(name: str) -> None:
    cls = getattr(hurray, name)
    arguments = SIGNATURES[name].split()
    assert list(inspect.signature(cls).parameters) == arguments
    for layout in (row[0] for row in EACH if type(row[0]) is cls):
        values = {a: getattr(layout, a) for a in arguments}
        assert cls(**values) == cls(*values.values()) == layout


def test_sequences_become_tuples_of_python_ints() -> None:
    for layout, name in (
        (hurray.StridedLayout(np.array([3, -1])), "strides"),
        (hurray.TiledLayout((np.int8(2), 3)), "tile_shape"),
        (hurray.MortonLayout(np.array([2], np.uint32)), "morton_bits"),
        (hurray.CsfLayout(np.int64(0), range(3)), "mode_order"),
    ):
        value = getattr(layout, name)
        assert type(value) is tuple
        assert all(type(n) is int for n in value)
    assert type(hurray.CooLayout(np.uint64(3), np.True_).is_sorted) is bool
    assert type(hurray.CsrLayout(np.uint64(3)).nnz) is int


BAD: list[tuple[str, tuple[Any, ...], type[Exception]]] = [
    ("StridedLayout", ([2**63],), InvalidDescriptorError),
    ("StridedLayout", ([1.0],), TypeError),
    ("StridedLayout", (3,), TypeError),
    ("StridedLayout", ("ab",), TypeError),
    ("TiledLayout", ([],), InvalidDescriptorError),
    ("TiledLayout", ([0, 2],), InvalidDescriptorError),
    ("TiledLayout", ([-1, 2],), InvalidDescriptorError),
    ("TiledLayout", ([2], "rows"), ValueError),
    ("TiledLayout", ([2], "ROW_MAJOR"), ValueError),
    ("TiledLayout", ([2], "row_major", "rows"), ValueError),
    ("TiledLayout", ([2], 1), TypeError),
    ("TiledLayout", ([2], "tiled"), InvalidDescriptorError),
    ("TiledLayout", ([2], "strided"), InvalidDescriptorError),
    ("TiledLayout", ([2], "row_major", "row_major", [1]), InvalidDescriptorError),
    ("TiledLayout", ([2], "row_major", "strided"), InvalidDescriptorError),
    ("TiledLayout", ([2, 2], "strided", "row_major", [1]), InvalidDescriptorError),
    ("TiledLayout", ([2], "row_major", "tiled"), InvalidDescriptorError),
    ("TiledLayout", ([2], "row_major", "row_major", None, None, hurray.TiledLayout([2])), InvalidDescriptorError),
    ("TiledLayout", ([2], "row_major", "tiled", None, None, 3), TypeError),
    ("TiledLayout", ([2, 2], "row_major", "tiled", None, None, hurray.TiledLayout([2])), InvalidDescriptorError),
    ("MortonLayout", ([],), InvalidDescriptorError),
    ("MortonLayout", ([0],), InvalidDescriptorError),
    ("MortonLayout", ([2**32],), InvalidDescriptorError),
    ("MortonLayout", (3,), TypeError),
    ("HilbertLayout", (0, 2), InvalidDescriptorError),
    ("HilbertLayout", (2, 1), InvalidDescriptorError),
    ("HilbertLayout", (2**32, 2), InvalidDescriptorError),
    ("HilbertLayout", ("2", 2), TypeError),
    ("CooLayout", (-1,), InvalidDescriptorError),
    ("CooLayout", (2**64,), InvalidDescriptorError),
    ("CooLayout", (3.0,), TypeError),
    ("CooLayout", (True,), TypeError),
    ("CooLayout", (3, 1), TypeError),
    ("CooLayout", (), TypeError),
    ("CsrLayout", ("3",), TypeError),
    ("CscLayout", (-1,), InvalidDescriptorError),
    ("CsfLayout", (4, [0, 1, 1]), InvalidDescriptorError),
    ("CsfLayout", (4, [0, 1, 3]), InvalidDescriptorError),
    ("CsfLayout", (4, [-1, 0, 1]), InvalidDescriptorError),
    ("CsfLayout", (4, 3), TypeError),
    ("BlockPagedLayout", (0, 5, 0, 2), InvalidDescriptorError),
    ("BlockPagedLayout", (2**32, 5, 0, 2), InvalidDescriptorError),
    ("BlockPagedLayout", (4, 5, 1, 2), InvalidDescriptorError),
    ("BlockPagedLayout", (4, 5, 0, -1), InvalidDescriptorError),
    ("BlockPagedLayout", (4, 5, 0, 2, "keys"), ValueError),
    ("BlockPagedLayout", (4, 5, 0, 2, "Key"), ValueError),
    ("BlockPagedLayout", (4, 5, 0, 2, 0), TypeError),
    ("BlockPagedLayout", (4, 5, 0, 2, "key", 2**32 - 1), InvalidDescriptorError),
    ("BlockPagedLayout", (4, 5, 0, 2, "key", None, "int32"), ValueError),
    ("CompositeLayout", ("tiles", 3), ValueError),
    ("CompositeLayout", ("Partition", 3), ValueError),
    ("CompositeLayout", (1, 3), TypeError),
    ("CompositeLayout", ("overlay", 3, "mul"), ValueError),
    ("CompositeLayout", ("overlay", 3, 2), TypeError),
    ("CompositeLayout", ("overlay", 3), InvalidDescriptorError),
    ("CompositeLayout", ("group", 3, "add"), InvalidDescriptorError),
    ("CompositeLayout", ("overlay", 0, "add"), InvalidDescriptorError),
    ("CompositeLayout", ("group", 2**32 - 1), InvalidDescriptorError),
    ("PrivateExtensionLayout", (0xEF, 7), InvalidDescriptorError),
    ("PrivateExtensionLayout", (0xFF, 7), InvalidDescriptorError),
    ("PrivateExtensionLayout", (0x01, 7), InvalidDescriptorError),
    ("PrivateExtensionLayout", (0xF1, 2**64), InvalidDescriptorError),
    ("PrivateExtensionLayout", (0xF1, 7, "abc"), TypeError),
    ("UnknownLayout", (0x00,), InvalidDescriptorError),
    ("UnknownLayout", (0xFF,), InvalidDescriptorError),
    ("UnknownLayout", (256,), InvalidDescriptorError),
    ("UnknownLayout", (0x0C, "ab"), TypeError),
]


@pytest.mark.parametrize(("name", "arguments", "error"), BAD)
def test_constructors_refuse(name: str, arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        getattr(hurray, name)(*arguments)
    if error is ValueError:  # a bad name of an enumeration is a plain ValueError
        assert not isinstance(caught.value, hurray.HurrayError)


@pytest.mark.parametrize("tag", list(LAYOUTS))
def test_an_unknown_layout_has_no_class(tag: int) -> None:
    with pytest.raises(ValueError, match=LAYOUTS[tag].__name__):
        hurray.UnknownLayout(tag)
    with pytest.raises(ValueError, match="PrivateExtensionLayout"):
        hurray.UnknownLayout(0xF3)


def test_tag_kinds() -> None:
    for tag in range(-3, 300):
        want = "named" if tag in LAYOUTS else "private" if 0xF0 <= tag < 0xFF else "reserved"
        assert hurray.layout_tag_kind(tag) == ("invalid" if not 0 < tag < 0xFF else want)
    assert hurray.layout_tag_kind(np.uint8(7)) == "named"
    for tag in ("7", 7.0, None, True):
        with pytest.raises(TypeError):
            hurray.layout_tag_kind(tag)  # type: ignore[arg-type]


SHAPES: list[tuple[int | None, ...]] = [
    (), (4,), (4, 4), (2, 3), (8, 8), (4, 4, 4), (None, 4), (0, 4), (2**63, 2**63), (1,) * 64, (1,) * 65,
]  # fmt: skip


def fits(layout: hurray.Layout, shape: tuple[int | None, ...]) -> bool:
    """Say what the format says about a layout and a shape."""
    rank = len(shape)
    if rank > 64:
        return False
    rules: dict[str, Any] = {
        "row_major": True,
        "col_major": rank >= 1,
        "strided": rank == 2,
        "tiled": rank == 2,
        "morton": rank == 2 and all(n is None or n <= 2**b for n, b in zip(shape, (2, 3), strict=False)),
        "coo": rank >= 1,
        "csr": rank == 2,
        "csc": rank == 2,
        "csf": rank == 3,
        "block_paged": rank == 3,
        "composite": True,
        "extension": True,
        "hilbert": rank == 2 and all(n is None or n == 8 for n in shape),
    }
    return bool(rules[layout.name])


@pytest.mark.parametrize("row", EACH, ids=IDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(row: tuple[Any, ...], shape: tuple[int | None, ...]) -> None:
    layout = row[0]
    if fits(layout, shape):
        assert layout.validate_against_shape(shape) is None
        assert layout.validate_against_shape(shape=list(shape)) is None
    else:
        with pytest.raises(InvalidDescriptorError, match=r"rank|dimensions|shape"):
            layout.validate_against_shape(shape)


@pytest.mark.parametrize("row", EACH, ids=IDS)
@pytest.mark.parametrize(
    ("shape", "error"),
    [
        (3, TypeError),
        ("ab", TypeError),
        ([2, 2.0], TypeError),
        ([2, -1], InvalidDescriptorError),
        ([2**64 - 1, 2], InvalidDescriptorError),
    ],
)
def test_what_is_no_shape(row: tuple[Any, ...], shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        row[0].validate_against_shape(shape)


def test_block_paged_checks() -> None:
    layout = hurray.BlockPagedLayout(page_size=4, num_pages=5, paged_axis=0, num_seqs=2)
    layout.validate_index_buffers(seq_ptr=[0, 2, 3], block_table=[0, 1, 0])
    layout.validate_index_buffers(np.array([0, 2, 3]), np.array([0, 1, 0], np.uint32))
    three = [0, 1, 0]
    for ptr, table in (
        ([0, 2], [0, 1]),
        ([1, 2, 3], three),
        ([0, 3, 2], three),
        ([0, 1, 2], three),
        ([0, 2, 3], [0, 5, 0]),
    ):
        with pytest.raises(InvalidDescriptorError):
            layout.validate_index_buffers(ptr, table)
    block = hurray.PerBlockAffine.symmetric
    layout.validate_quantization_compatibility(block(0, 4, 3))
    layout.validate_quantization_compatibility(quantization=hurray.PerTensorAffine(1.0, 0))
    layout.validate_quantization_compatibility(hurray.PerChannelAffine.symmetric(2, 3))
    for scheme in (block(0, 8, 3), block(1, 4, 3), hurray.PerChannelAffine.symmetric(0, 3), hurray.NF4(0, 8, 3),
                   hurray.MXFP(0, 16, 3), "per_tensor_affine", None, 3):  # fmt: skip
        with pytest.raises(InvalidDescriptorError, match="block_paged"):
            layout.validate_quantization_compatibility(scheme)
