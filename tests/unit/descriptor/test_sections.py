"""Shard, statistics and extension type: what they take, what they refuse, and how they look."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hurray
from hurray import ExtensionType, InvalidDescriptorError, Shard, Statistics
from hurray.descriptor.sections import parse_member, write_member
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

FULL: dict[str, Any] = {
    "nnz": 3, "sparsity_ratio": 0.5, "value_min": -1.0, "value_max": 2.0, "value_abs_max": 2.0, "value_mean": 0.5,
    "value_stddev": 0.25, "nm_n": 2, "nm_m": 4, "has_nan": False, "has_inf": True,
}  # fmt: skip
GROUPS = [
    ("nnz",), ("sparsity_ratio",), ("value_min", "value_max", "value_abs_max"), ("value_mean", "value_stddev"),
    ("nm_n", "nm_m"), ("has_nan", "has_inf"),
]  # fmt: skip


def written(section: Any) -> bytes:
    w = Writer()
    section.write(w)
    return w.getvalue()


# Statistics


@pytest.mark.parametrize("mask", range(64))
def test_statistics_by_group(mask: int) -> None:
    given = {name: FULL[name] for bit, group in enumerate(GROUPS) if mask >> bit & 1 for name in group}
    s = Statistics(**given)
    assert s.computed_mask == mask
    for name in FULL:
        assert getattr(s, name) == given.get(name)
    data = written(s)
    assert len(data) == 72
    assert Statistics.parse(Reader(data)) == s
    assert eval(repr(s), {"Statistics": Statistics}) == s


@pytest.mark.parametrize("group", [g for g in GROUPS if len(g) > 1])
def test_statistics_groups_are_all_or_nothing(group: tuple[str, ...]) -> None:
    for missing in group:
        given = {name: FULL[name] for name in group if name != missing}
        with pytest.raises(InvalidDescriptorError, match=missing):
            Statistics(**given)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"nnz": -1}, InvalidDescriptorError),
        ({"nnz": 2**64}, InvalidDescriptorError),
        ({"nnz": 1.0}, TypeError),
        ({"nnz": True}, TypeError),
        ({"sparsity_ratio": 1.0001}, InvalidDescriptorError),
        ({"sparsity_ratio": -0.1}, InvalidDescriptorError),
        ({"sparsity_ratio": math.nan}, InvalidDescriptorError),
        ({"sparsity_ratio": "0.5"}, TypeError),
        ({"value_mean": 0.0, "value_stddev": -1.0}, InvalidDescriptorError),
        ({"nm_n": 3, "nm_m": 2}, InvalidDescriptorError),
        ({"nm_n": 256, "nm_m": 256}, InvalidDescriptorError),
        ({"has_nan": 1, "has_inf": 0}, TypeError),
        ({"has_nan": "no", "has_inf": False}, TypeError),
    ],
)
def test_statistics_refuse(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Statistics(**given)


def test_statistics_take_what_is_odd_but_legal() -> None:
    assert Statistics(value_mean=0.0, value_stddev=math.nan).computed_mask == 8
    assert Statistics(nm_n=0, nm_m=0).nm_m == 0
    assert Statistics(value_min=2.0, value_max=1.0, value_abs_max=0.0).value_min == 2.0
    assert Statistics(nnz=np.int64(3), sparsity_ratio=np.float32(0.5)).nnz == 3
    assert Statistics(has_nan=np.True_, has_inf=np.False_).has_nan is True
    assert repr(Statistics(value_mean=math.inf, value_stddev=math.nan)) == (
        "Statistics(value_mean=float('inf'), value_stddev=float('nan'))"
    )
    assert Statistics() == Statistics()
    assert Statistics() != "Statistics()"


def test_statistics_are_equal_by_bits() -> None:
    nan = Statistics(value_mean=math.nan, value_stddev=0.0)
    assert nan == Statistics(value_mean=math.nan, value_stddev=0.0)
    assert hash(nan) == hash(Statistics(value_mean=math.nan, value_stddev=0.0))
    assert Statistics(value_mean=0.0, value_stddev=0.0) != Statistics(value_mean=-0.0, value_stddev=0.0)


# Shard


def test_shard() -> None:
    s = Shard([8, np.int32(9)], (4, 0))
    assert (s.parent_shape, s.shard_offset) == ((8, 9), (4, 0))
    assert repr(s) == "Shard(parent_shape=[8, 9], shard_offset=[4, 0])"
    assert Shard.parse(Reader(written(s)), 2) == s
    s.validate_against_shape((4, 9))
    s.validate_against_shape((0, 0))
    for shape, match in [((5, 9), r"shard_offset\[0\] 4 \+ shape\[0\] 5"), ((None, 9), "dynamic"), ((1,), "rank")]:
        with pytest.raises(InvalidDescriptorError, match=match):
            s.validate_against_shape(shape)
    assert Shard([], []).parent_shape == ()


@pytest.mark.parametrize(
    ("parent", "offset", "error"),
    [
        ([8], [4, 0], InvalidDescriptorError),
        ([-1], [0], InvalidDescriptorError),
        ([2**64 - 1], [0], InvalidDescriptorError),
        ([8], [2**64], InvalidDescriptorError),
        ([None], [0], TypeError),
        ([8.0], [0], TypeError),
        (8, 0, TypeError),
        ("88", "00", TypeError),
    ],
)
def test_shard_refuses(parent: Any, offset: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Shard(parent, offset)


def test_shard_near_64_bits() -> None:
    top = 2**64 - 2
    Shard([top], [top]).validate_against_shape((0,))
    Shard([top], [0]).validate_against_shape((top,))
    with pytest.raises(InvalidDescriptorError):
        Shard([top], [2**64 - 1]).validate_against_shape((1,))


# Extension type


@pytest.mark.parametrize(("width", "packing"), [(1, 8), (2, 4), (4, 2), (8, 1), (24, 1), (2**32 - 8, 1)])
def test_extension_widths(width: int, packing: int) -> None:
    e = ExtensionType(width, is_signed=True)
    assert e.packing_factor == packing
    assert ExtensionType.parse(Reader(written(e))) == e
    assert e.buffer_size_bytes(element_count=9) == -(-9 * width // 8)


@pytest.mark.parametrize("width", [0, 3, 5, 6, 7, 9, 12, 2**32, -8])
def test_extension_widths_refused(width: int) -> None:
    with pytest.raises(InvalidDescriptorError):
        ExtensionType(width)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"is_float": True, "is_signed": True}, InvalidDescriptorError),
        ({"is_float": True, "sign_bits": 2}, InvalidDescriptorError),
        ({"exponent_bits": 1}, InvalidDescriptorError),
        ({"mantissa_bits": 1}, InvalidDescriptorError),
        ({"exponent_bias": 1}, InvalidDescriptorError),
        ({"has_nan": True}, InvalidDescriptorError),
        ({"has_inf": True}, InvalidDescriptorError),
        ({"is_float": True, "exponent_bits": 256}, InvalidDescriptorError),
        ({"is_float": 1}, TypeError),
        ({"is_signed": "yes"}, TypeError),
    ],
)
def test_extension_refuses(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ExtensionType(16, **given)


def test_extension_looks_and_sizes() -> None:
    half = ExtensionType(
        16, is_float=True, sign_bits=1, exponent_bits=5, mantissa_bits=10, exponent_bias=15, has_nan=True, has_inf=True
    )
    assert eval(repr(half), {"ExtensionType": ExtensionType}) == half
    assert repr(ExtensionType(8)) == "ExtensionType(bit_width=8)"
    assert half != ExtensionType(16)
    with pytest.raises(hurray.BufferError, match="more bytes than 64 bits count"):
        half.buffer_size_bytes(2**63)
    with pytest.raises(InvalidDescriptorError):
        half.buffer_size_bytes(-1)


def test_the_packing_factor_is_checked() -> None:
    data = bytearray(written(ExtensionType(4)))
    data[4] = 1
    with pytest.raises(InvalidDescriptorError, match="packing_factor must be 2 for 4 bits, but is 1"):
        ExtensionType.parse(Reader(bytes(data)))


# Member


def test_member_roles() -> None:
    for role, byte in (("correction", 0), ("base", 1)):
        w = Writer()
        write_member(w, role)
        assert w.getvalue() == bytes([byte]) + bytes(15)
        assert parse_member(Reader(w.getvalue())) == role
    for data in (bytes([2]) + bytes(15), bytes(15) + b"\1"):
        with pytest.raises(InvalidDescriptorError):
            parse_member(Reader(data))
