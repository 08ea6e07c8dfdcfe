"""The table of element types, against the table of the format written out."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import hurray
from hurray import Dtype, InvalidDescriptorError
from hurray.dtypes.table import ALL_DTYPES

# name: tag, tier, bits, alignment, (float, integer, signed)
TABLE: dict[str, tuple[int, int, int, int, tuple[bool, bool, bool]]] = {
    "float16": (0x01, 1, 16, 2, (True, False, True)),
    "bfloat16": (0x02, 1, 16, 2, (True, False, True)),
    "float32": (0x03, 1, 32, 4, (True, False, True)),
    "float64": (0x04, 1, 64, 8, (True, False, True)),
    "int8": (0x10, 1, 8, 1, (False, True, True)),
    "uint8": (0x11, 1, 8, 1, (False, True, False)),
    "int16": (0x12, 1, 16, 2, (False, True, True)),
    "uint16": (0x13, 1, 16, 2, (False, True, False)),
    "int32": (0x14, 1, 32, 4, (False, True, True)),
    "uint32": (0x15, 1, 32, 4, (False, True, False)),
    "int64": (0x16, 1, 64, 8, (False, True, True)),
    "uint64": (0x17, 1, 64, 8, (False, True, False)),
    "bool": (0x20, 1, 1, 1, (False, False, False)),
    "float8_e4m3": (0x40, 2, 8, 1, (True, False, True)),
    "float8_e5m2": (0x41, 2, 8, 1, (True, False, True)),
    "float8_e8m0": (0x42, 2, 8, 1, (True, False, False)),
    "float4_e2m1": (0x43, 2, 4, 1, (True, False, True)),
    "float6_e2m3": (0x44, 2, 6, 1, (True, False, True)),
    "float6_e3m2": (0x45, 2, 6, 1, (True, False, True)),
    "float128": (0x46, 2, 128, 16, (True, False, True)),
    "int4": (0x48, 2, 4, 1, (False, True, True)),
    "uint4": (0x49, 2, 4, 1, (False, True, False)),
    "int2": (0x4A, 2, 2, 1, (False, True, True)),
    "uint2": (0x4B, 2, 2, 1, (False, True, False)),
    "complex64": (0x50, 2, 64, 4, (True, False, True)),
    "complex128": (0x51, 2, 128, 8, (True, False, True)),
}


def test_there_are_no_others() -> None:
    assert [d.name for d in ALL_DTYPES] == list(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_rows(name: str) -> None:
    tag, tier, bits, alignment, kinds = TABLE[name]
    d = Dtype.from_name(name)
    assert d is Dtype.from_tag(tag)
    assert (d.name, d.tag, d.tier, d.bit_width, d.element_alignment) == (name, tag, tier, bits, alignment)
    assert (d.is_float, d.is_integer, d.is_signed) == kinds
    assert d.is_array_api == (tier == 1)
    assert d.is_sub_byte == (bits < 8)
    assert not d.is_private
    assert str(d) == name
    assert repr(d) == (f"hurray.{name}" if tier == 1 else f"hurray.dtype.{name}")
    assert eval(repr(d), {"hurray": hurray}) is d
    assert d.storage.itemsize == max(1, bits // 8)


def test_private_types() -> None:
    for tag in range(0xF0, 0xFF):
        d = Dtype.from_tag(tag)
        assert (d.name, d.tag, d.bit_width, d.element_alignment, d.tier) == ("extension", tag, 0, 1, 2)
        assert (d.is_float, d.is_integer, d.is_signed, d.is_sub_byte, d.is_private) == (
            False,
            False,
            False,
            False,
            True,
        )
        assert repr(d) == f"hurray.Dtype.from_tag(0x{tag:02X})"
        assert d is Dtype.from_tag(tag)
    assert Dtype.from_tag(0xF0) != Dtype.from_tag(0xF1)


@pytest.mark.parametrize("tag", [t for t in range(-2, 260) if t not in {row[0] for row in TABLE.values()}])
def test_other_tags(tag: int) -> None:
    if 0xF0 <= tag <= 0xFE:
        return
    with pytest.raises(InvalidDescriptorError, match="type tag"):
        Dtype.from_tag(tag)


@pytest.mark.parametrize("tag", ["3", 3.0, None, True, b"\3"])
def test_a_tag_is_an_int(tag: Any) -> None:
    with pytest.raises(TypeError):
        Dtype.from_tag(tag)


def test_numpy_ints_are_ints() -> None:
    assert Dtype.from_tag(np.uint8(3)) is hurray.float32


def test_names() -> None:
    for name in ("float", "extension", "Float32", "", "unknown"):
        with pytest.raises(InvalidDescriptorError, match="unknown dtype name"):
            Dtype.from_name(name)
    for name in (3, None, hurray.float32):
        with pytest.raises(TypeError):
            Dtype.from_name(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [*ALL_DTYPES, Dtype.from_tag(0xF7)])
def test_singletons(dtype: Dtype) -> None:
    assert copy.copy(dtype) is copy.deepcopy(dtype) is pickle.loads(pickle.dumps(dtype)) is dtype
    assert {dtype: 1}[dtype] == 1
    for other in (str(dtype), dtype.name, dtype.tag, None, dtype.storage):
        assert dtype != other
        assert dtype.__eq__(other) is False


def test_immutable_and_not_constructible() -> None:
    for name in ("name", "_tag", "new"):
        with pytest.raises(AttributeError, match=name):
            setattr(hurray.float32, name, 1)
        with pytest.raises(AttributeError, match=name):
            delattr(hurray.float32, name)
    with pytest.raises(TypeError, match="from_name"):
        Dtype("float32")
