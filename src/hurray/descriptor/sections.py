"""The optional sections of a descriptor: shard, statistics, extension type, composite member.

Format: descriptor, the section of the same name.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from hurray.errors import BufferError, InvalidDescriptorError
from hurray.layouts._base import as_index_tuple, as_int, set_field
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["MEMBER_ROLES", "ExtensionType", "Shard", "Statistics", "parse_member", "write_member"]

_DYNAMIC = 2**64 - 1
_U32 = 2**32 - 1

#: names of the composite member roles, by wire value
MEMBER_ROLES: tuple[str, ...] = ("correction", "base")


def _as_float(value: Any, what: str) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} is a number, not {type(value).__name__}")
    return float(value)


def _shown(value: object) -> str:
    """Return a value as Python reads it back, NaN and infinities included."""
    return f"float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _as_bool(value: object, what: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{what} is a bool, not {type(value).__name__}")
    return bool(value)


@record
class Shard:
    """Where a tensor sits inside a larger one.

    Parameters
    ----------
    parent_shape : sequence of int
        Shape of the whole.
    shard_offset : sequence of int
        Index of this tensor's first element in it.

    Raises
    ------
    InvalidDescriptorError
        The ranks differ, or a value is negative, dynamic or too large.

    Format: descriptor, shard.
    """

    parent_shape: tuple[int, ...]
    shard_offset: tuple[int, ...]

    def __init__(self, parent_shape: Sequence[int], shard_offset: Sequence[int]) -> None:
        set_field(self, "parent_shape", as_index_tuple(parent_shape, "parent_shape", high=_DYNAMIC - 1))
        set_field(self, "shard_offset", as_index_tuple(shard_offset, "shard_offset"))
        if len(self.parent_shape) != len(self.shard_offset):
            raise InvalidDescriptorError(
                f"parent_shape has rank {len(self.parent_shape)}, shard_offset rank {len(self.shard_offset)}"
            )

    def __repr__(self) -> str:
        return f"Shard(parent_shape={list(self.parent_shape)}, shard_offset={list(self.shard_offset)})"

    def validate_against_shape(self, shape: Sequence[int | None]) -> None:
        """Check that a tensor of ``shape`` lies inside the parent.

        Raises
        ------
        InvalidDescriptorError
            The ranks differ, a dimension is dynamic, or the box sticks out.
        """
        if len(shape) != len(self.parent_shape):
            raise InvalidDescriptorError(
                f"the shard's parent has rank {len(self.parent_shape)}, but the tensor has rank {len(shape)}"
            )
        for k, (n, parent, offset) in enumerate(zip(shape, self.parent_shape, self.shard_offset, strict=True)):
            if n is None:
                raise InvalidDescriptorError(f"a shard has no dynamic dimension, but shape[{k}] is dynamic")
            if offset + n > parent:
                raise InvalidDescriptorError(
                    f"the shard sticks out of its parent: shard_offset[{k}] {offset} + shape[{k}] {n} > "
                    f"parent_shape[{k}] {parent}"
                )

    @classmethod
    def parse(cls, r: Reader, rank: int) -> Shard:
        """Read a shard section."""
        at = r.offset
        parent = r.u64s(rank, "parent_shape")
        offset = r.u64s(rank, "shard_offset")
        for k, n in enumerate(parent):
            if n == _DYNAMIC:
                r.fail("a shard's parent has no dynamic dimension", field=f"parent_shape[{k}]", offset=at + 8 * k)
        return cls(parent, offset)

    def write(self, w: Writer) -> None:
        """Append the section."""
        w.u64s(self.parent_shape)
        w.u64s(self.shard_offset)


# (mask bit, fields of the group), in the order of the mask
_GROUPS: tuple[tuple[str, ...], ...] = (
    ("nnz",),
    ("sparsity_ratio",),
    ("value_min", "value_max", "value_abs_max"),
    ("value_mean", "value_stddev"),
    ("nm_n", "nm_m"),
    ("has_nan", "has_inf"),
)
_STATS = struct.Struct("<IIQddddddBBBB4x")


@record
class Statistics:
    """Advisory facts about a tensor's values; None where unknown.

    Parameters
    ----------
    nnz : int, optional
        Number of non-zero elements.
    sparsity_ratio : float, optional
        Share of zeros, 0 to 1.
    value_min, value_max, value_abs_max : float, optional
        Extremes of the decoded values; all three or none.
    value_mean, value_stddev : float, optional
        Mean and population standard deviation; both or none.
    nm_n, nm_m : int, optional
        N:M sparsity pattern, (0, 0) for none; both or none.
    has_nan, has_inf : bool, optional
        Whether NaN or infinities occur; both or none.

    Raises
    ------
    InvalidDescriptorError
        A group is given in part, or a value is out of range.

    Format: descriptor, statistics.
    """

    nnz: int | None
    sparsity_ratio: float | None
    value_min: float | None
    value_max: float | None
    value_abs_max: float | None
    value_mean: float | None
    value_stddev: float | None
    nm_n: int | None
    nm_m: int | None
    has_nan: bool | None
    has_inf: bool | None

    def __init__(
        self,
        *,
        nnz: int | None = None,
        sparsity_ratio: float | None = None,
        value_min: float | None = None,
        value_max: float | None = None,
        value_abs_max: float | None = None,
        value_mean: float | None = None,
        value_stddev: float | None = None,
        nm_n: int | None = None,
        nm_m: int | None = None,
        has_nan: bool | None = None,
        has_inf: bool | None = None,
    ) -> None:
        set_field(self, "nnz", None if nnz is None else as_int(nnz, "nnz"))
        floats = (sparsity_ratio, value_min, value_max, value_abs_max, value_mean, value_stddev)
        for name, value in zip(_FLOATS, floats, strict=True):
            set_field(self, name, None if value is None else _as_float(value, name))
        set_field(self, "nm_n", None if nm_n is None else as_int(nm_n, "nm_n", high=255))
        set_field(self, "nm_m", None if nm_m is None else as_int(nm_m, "nm_m", high=255))
        set_field(self, "has_nan", None if has_nan is None else _as_bool(has_nan, "has_nan"))
        set_field(self, "has_inf", None if has_inf is None else _as_bool(has_inf, "has_inf"))
        self._check()

    def _check(self) -> None:
        for group in _GROUPS:
            known = [name for name in group if getattr(self, name) is not None]
            if known and len(known) < len(group):
                missing = [name for name in group if name not in known]
                raise InvalidDescriptorError(
                    f"statistics {', '.join(group)} belong together: {', '.join(missing)} is missing"
                )
        if self.sparsity_ratio is not None and not 0.0 <= self.sparsity_ratio <= 1.0:
            raise InvalidDescriptorError(f"sparsity_ratio must lie in 0..1, but is {self.sparsity_ratio}")
        if self.value_stddev is not None and self.value_stddev < 0:
            raise InvalidDescriptorError(f"value_stddev must not be negative, but is {self.value_stddev}")
        if self.nm_n is not None and self.nm_m is not None and self.nm_n > self.nm_m:
            raise InvalidDescriptorError(f"nm_n {self.nm_n} must not exceed nm_m {self.nm_m}")

    @property
    def computed_mask(self) -> int:
        """The wire mask of the groups that are known."""
        return sum(1 << bit for bit, group in enumerate(_GROUPS) if getattr(self, group[0]) is not None)

    def _packed(self) -> bytes:
        return _STATS.pack(
            self.computed_mask,
            0,
            self.nnz or 0,
            # Not "or": minus zero would lose its sign.
            *(0.0 if (value := getattr(self, name)) is None else value for name in _FLOATS),
            self.nm_n or 0,
            self.nm_m or 0,
            bool(self.has_nan),
            bool(self.has_inf),
        )

    def __eq__(self, other: object) -> bool:
        return self._packed() == other._packed() if isinstance(other, Statistics) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._packed())

    def __repr__(self) -> str:
        known = [f"{n}={_shown(getattr(self, n))}" for group in _GROUPS for n in group if getattr(self, n) is not None]
        return f"Statistics({', '.join(known)})"

    @classmethod
    def parse(cls, r: Reader) -> Statistics:
        """Read a statistics section."""
        at = r.offset
        mask = r.u32("computed_mask")
        if mask >> len(_GROUPS):
            r.fail(f"computed_mask {mask:#010x} sets reserved bits", field="computed_mask", offset=at)
        r.reserved(4)
        nnz = r.u64("nnz")
        floats = [r.f64(name) for name in _FLOATS]
        nm = [r.u8("nm_n"), r.u8("nm_m")]
        flags = [r.flag("has_nan"), r.flag("has_inf")]
        r.reserved(4)
        values = dict(zip(_FIELDS, (nnz, *floats, *nm, *flags), strict=True))
        known: dict[str, object] = {}
        for bit, group in enumerate(_GROUPS):
            if mask >> bit & 1:
                known.update({name: values[name] for name in group})
        return cls(**known)  # type: ignore[arg-type]

    def write(self, w: Writer) -> None:
        """Append the section; unknown fields are written as zero."""
        w.raw(self._packed())


_FLOATS = ("sparsity_ratio", "value_min", "value_max", "value_abs_max", "value_mean", "value_stddev")
_FIELDS = ("nnz", *_FLOATS, "nm_n", "nm_m", "has_nan", "has_inf")


@record
class ExtensionType:
    """What the elements of a private type look like.

    Parameters
    ----------
    bit_width : int
        A multiple of 8, or 1, 2 or 4.
    is_float, is_signed : bool
        A float carries its sign in ``sign_bits`` and has ``is_signed`` False.
    sign_bits, exponent_bits, mantissa_bits, exponent_bias, has_nan, has_inf
        Make-up of a float; all zero for integers.

    Raises
    ------
    InvalidDescriptorError
        The width or the combination is not legal.

    Format: descriptor, extension type.
    """

    bit_width: int
    is_float: bool
    is_signed: bool
    sign_bits: int
    exponent_bits: int
    mantissa_bits: int
    exponent_bias: int
    has_nan: bool
    has_inf: bool

    def __init__(
        self,
        bit_width: int,
        *,
        is_float: bool = False,
        is_signed: bool = False,
        sign_bits: int = 0,
        exponent_bits: int = 0,
        mantissa_bits: int = 0,
        exponent_bias: int = 0,
        has_nan: bool = False,
        has_inf: bool = False,
    ) -> None:
        width = as_int(bit_width, "bit_width", high=_U32)
        if width not in (1, 2, 4) and (width < 8 or width % 8):
            raise InvalidDescriptorError(f"bit_width must be 1, 2, 4 or a multiple of 8, but is {width}")
        set_field(self, "bit_width", width)
        set_field(self, "is_float", _as_bool(is_float, "is_float"))
        set_field(self, "is_signed", _as_bool(is_signed, "is_signed"))
        set_field(self, "sign_bits", as_int(sign_bits, "sign_bits", high=255))
        set_field(self, "exponent_bits", as_int(exponent_bits, "exponent_bits", high=255))
        set_field(self, "mantissa_bits", as_int(mantissa_bits, "mantissa_bits", high=255))
        set_field(self, "exponent_bias", as_int(exponent_bias, "exponent_bias", high=_U32))
        set_field(self, "has_nan", _as_bool(has_nan, "has_nan"))
        set_field(self, "has_inf", _as_bool(has_inf, "has_inf"))
        if self.is_float and (self.is_signed or self.sign_bits > 1):
            raise InvalidDescriptorError("a float extension type has is_signed False and sign_bits 0 or 1")
        if not self.is_float and any(
            (self.sign_bits, self.exponent_bits, self.mantissa_bits, self.exponent_bias, self.has_nan, self.has_inf)
        ):
            raise InvalidDescriptorError("an integer extension type has no sign, exponent or mantissa bits, NaN or inf")

    def __repr__(self) -> str:
        parts = [f"bit_width={self.bit_width}"]
        parts += [f"{name}={getattr(self, name)!r}" for name in _EXTENSION_FIELDS if getattr(self, name)]
        return f"ExtensionType({', '.join(parts)})"

    @property
    def packing_factor(self) -> int:
        """Elements in a byte for widths below 8, else 1."""
        return 8 // self.bit_width if self.bit_width < 8 else 1

    def buffer_size_bytes(self, element_count: int) -> int:
        """Return the bytes of ``element_count`` elements.

        Raises
        ------
        BufferError
            64 bits cannot count them.
        """
        n_bytes = -(-as_int(element_count, "element_count") * self.bit_width // 8)
        if n_bytes >= 2**64:
            raise BufferError(f"{element_count} elements of {self.bit_width} bits take more bytes than 64 bits count")
        return n_bytes

    @classmethod
    def parse(cls, r: Reader) -> ExtensionType:
        """Read an extension type section."""
        at = r.offset
        width = r.u32("bit_width")
        packing = r.u8("packing_factor")
        is_float, is_signed = r.flag("is_float"), r.flag("is_signed")
        sign, exponent, mantissa = r.u8("sign_bits"), r.u8("exponent_bits"), r.u8("mantissa_bits")
        r.reserved(2)
        bias = r.u32("exponent_bias")
        has_nan, has_inf = r.flag("has_nan"), r.flag("has_inf")
        r.reserved(2, "reserved2")
        result = cls(
            width,
            is_float=is_float,
            is_signed=is_signed,
            sign_bits=sign,
            exponent_bits=exponent,
            mantissa_bits=mantissa,
            exponent_bias=bias,
            has_nan=has_nan,
            has_inf=has_inf,
        )
        if packing != result.packing_factor:
            r.fail(
                f"packing_factor must be {result.packing_factor} for {width} bits, but is {packing}",
                field="packing_factor",
                offset=at + 4,
            )
        return result

    def write(self, w: Writer) -> None:
        """Append the section."""
        w.u32(self.bit_width)
        for value in (self.packing_factor, self.is_float, self.is_signed, self.sign_bits, self.exponent_bits):
            w.u8(int(value))
        w.u8(self.mantissa_bits)
        w.zeros(2)
        w.u32(self.exponent_bias)
        w.u8(int(self.has_nan))
        w.u8(int(self.has_inf))
        w.zeros(2)


_EXTENSION_FIELDS = (
    "is_float", "is_signed", "sign_bits", "exponent_bits", "mantissa_bits", "exponent_bias", "has_nan", "has_inf",
)  # fmt: skip


def parse_member(r: Reader) -> str:
    """Read a composite member section and return the role's name."""
    at = r.offset
    role = r.u8("member_role")
    if role >= len(MEMBER_ROLES):
        r.fail(f"member_role must be 0 or 1, but is {role:#04x}", field="member_role", offset=at)
    r.reserved(15)
    return MEMBER_ROLES[role]


def write_member(w: Writer, role: str) -> None:
    """Append a composite member section."""
    w.u8(MEMBER_ROLES.index(role))
    w.zeros(15)
