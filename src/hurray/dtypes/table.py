"""The element types of the format: one row each.

Format: types, element types.  Arrays of *codes* hold the stored bit patterns of elements one by one: NumPy's own type
where it has one, otherwise an unsigned integer wide enough (``storage`` below).
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from hurray.errors import InvalidDescriptorError

__all__ = ["ALL_DTYPES", "BY_NAME", "PRIVATE_TAGS", "TIER_1", "Dtype"]

PRIVATE_TAGS = range(0xF0, 0xFF)
#: the one tag below the private ones that even permissive readers refuse
_NEVER = 0x47


class Dtype:
    """An element type of the format.

    Dtypes are singletons: compare them with ``is`` or ``==``.  They are equal by tag and never equal to a string.
    Get one as ``hurray.float32``, ``hurray.dtype.int4``, :meth:`from_name` or :meth:`from_tag`.

    Examples
    --------
    >>> import hurray
    >>> hurray.dtype.int4.bit_width
    4
    >>> hurray.Dtype.from_tag(0x03)
    hurray.float32

    Format: types, element types.
    """

    __slots__ = ("_align", "_bits", "_is_float", "_is_integer", "_is_signed", "_name", "_storage", "_tag", "_tier")

    _by_tag: ClassVar[dict[int, Dtype]] = {}
    _unknown_by_tag: ClassVar[dict[int, Dtype]] = {}

    _align: int
    _bits: int
    _is_float: bool
    _is_integer: bool
    _is_signed: bool
    _name: str
    _storage: np.dtype[Any]
    _tag: int
    _tier: int

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        raise TypeError("Dtype cannot be constructed; use hurray.float32, Dtype.from_name(...) or Dtype.from_tag(...)")

    @classmethod
    def _make(
        cls, name: str, tag: int, tier: int, bits: int, kind: str, signed: bool, storage: str, align: int
    ) -> Dtype:
        self = object.__new__(cls)
        set_ = object.__setattr__
        set_(self, "_name", name)
        set_(self, "_tag", tag)
        set_(self, "_tier", tier)
        set_(self, "_bits", bits)
        set_(self, "_is_float", kind == "f")
        set_(self, "_is_integer", kind == "i")
        set_(self, "_is_signed", signed)
        set_(self, "_storage", np.dtype(storage))
        set_(self, "_align", align)
        (cls._unknown_by_tag if kind == "?" else cls._by_tag)[tag] = self
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Dtype is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Dtype is immutable: cannot delete {name!r}")

    @classmethod
    def from_name(cls, name: str) -> Dtype:
        """Return the dtype called ``name``.

        Raises
        ------
        TypeError
            ``name`` is not a string.
        InvalidDescriptorError
            No element type has that name.
        """
        if not isinstance(name, str):
            raise TypeError(f"a dtype name is a string, not {type(name).__name__}")
        found = BY_NAME.get(name)
        if found is None:
            raise InvalidDescriptorError(f"unknown dtype name {name!r}; known: {', '.join(sorted(BY_NAME))}")
        return found

    @classmethod
    def from_tag(cls, tag: int) -> Dtype:
        """Return the dtype with wire tag ``tag``; private tags 0xF0-0xFE give a dtype named ``extension``.

        Raises
        ------
        TypeError
            ``tag`` is not an integer.
        InvalidDescriptorError
            The tag is invalid, reserved or unassigned.
        """
        if isinstance(tag, bool) or not hasattr(tag, "__index__"):
            raise TypeError(f"a dtype tag is an int, not {type(tag).__name__}")
        number = tag.__index__()
        found = cls._by_tag.get(number)
        if found is None:
            raise InvalidDescriptorError(f"type tag {number:#04x} is {_tag_kind(number)}")
        return found

    @classmethod
    def _carried(cls, tag: int) -> Dtype:
        """Return the dtype of a tag for a permissive reader; a tag that a later version may define is ``unknown``.

        Raises
        ------
        InvalidDescriptorError
            The tag is never legal.
        """
        return cls._unknown_by_tag.get(tag) or cls.from_tag(tag)

    @classmethod
    def from_numpy(cls, dtype: object) -> Dtype:
        """Return the dtype that stores elements of the NumPy dtype ``dtype`` (ml_dtypes types included).

        Byte order does not matter: elements are always stored little-endian.

        Raises
        ------
        UnsupportedError
            The format has no such element type (objects, strings, records, dates, long doubles).
        """
        return _from_numpy_dtype(dtype)

    @property
    def name(self) -> str:
        """Name, such as ``float32``."""
        return self._name

    @property
    def tag(self) -> int:
        """Wire tag."""
        return self._tag

    @property
    def tier(self) -> int:
        """1 for the types that every reader has, 2 for the others."""
        return self._tier

    @property
    def bit_width(self) -> int:
        """Bits of one element; 0 for an unknown type, and for a private one, whose extension section tells."""
        return self._bits

    @property
    def element_alignment(self) -> int:
        """Alignment of one element in bytes (1 for packed and private types)."""
        return self._align

    @property
    def is_array_api(self) -> bool:
        """True for the 13 tier 1 types."""
        return self._tier == 1

    @property
    def is_float(self) -> bool:
        """True for floating-point types, complex ones included."""
        return self._is_float

    @property
    def is_integer(self) -> bool:
        """True for integer types; False for bool."""
        return self._is_integer

    @property
    def is_signed(self) -> bool:
        """True when negative numbers can be stored."""
        return self._is_signed

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self._tag in (0x50, 0x51)

    @property
    def is_sub_byte(self) -> bool:
        """True when several elements share a byte (bool included)."""
        return 0 < self._bits < 8

    @property
    def is_private(self) -> bool:
        """True for the private tags 0xF0-0xFE."""
        return self._tag in PRIVATE_TAGS

    @property
    def is_opaque(self) -> bool:
        """True for private and unknown types, whose elements are carried and never interpreted."""
        return self._bits == 0

    @property
    def storage(self) -> np.dtype[np.generic]:
        """NumPy dtype of an array of this type's codes: little-endian, one item an element."""
        return self._storage

    @property
    def numpy(self) -> np.dtype[np.generic] | None:
        """NumPy dtype of decoded values (from ml_dtypes for small types), or None where there is none."""
        return _to_numpy_dtype(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(("hurray.Dtype", self._tag))

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        if self.is_private:
            return f"hurray.Dtype.from_tag(0x{self._tag:02X})"
        if self.is_opaque:
            return f"<unknown hurray.Dtype 0x{self._tag:02X}>"
        return f"hurray.{self._name}" if self._tier == 1 else f"hurray.dtype.{self._name}"

    def __reduce__(self) -> tuple[object, ...]:
        return Dtype._carried, (self._tag,)

    def __copy__(self) -> Dtype:
        return self

    def __deepcopy__(self, memo: object) -> Dtype:
        return self


def _tag_kind(tag: int) -> str:
    if tag in (0x00, 0xFF):
        return "permanently invalid"
    if not 0 <= tag <= 0xFF:
        return "not a byte"
    return "reserved" if tag >= 0x80 or tag == _NEVER else "unassigned"


# name, tag, tier, bits, kind (f float, i integer, b bool, x private, ? unknown), signed, storage, alignment
_ROWS: tuple[tuple[str, int, int, int, str, bool, str, int], ...] = (
    ("float16", 0x01, 1, 16, "f", True, "<f2", 2),
    ("bfloat16", 0x02, 1, 16, "f", True, "<u2", 2),
    ("float32", 0x03, 1, 32, "f", True, "<f4", 4),
    ("float64", 0x04, 1, 64, "f", True, "<f8", 8),
    ("int8", 0x10, 1, 8, "i", True, "i1", 1),
    ("uint8", 0x11, 1, 8, "i", False, "u1", 1),
    ("int16", 0x12, 1, 16, "i", True, "<i2", 2),
    ("uint16", 0x13, 1, 16, "i", False, "<u2", 2),
    ("int32", 0x14, 1, 32, "i", True, "<i4", 4),
    ("uint32", 0x15, 1, 32, "i", False, "<u4", 4),
    ("int64", 0x16, 1, 64, "i", True, "<i8", 8),
    ("uint64", 0x17, 1, 64, "i", False, "<u8", 8),
    ("bool", 0x20, 1, 1, "b", False, "u1", 1),
    ("float8_e4m3", 0x40, 2, 8, "f", True, "u1", 1),
    ("float8_e5m2", 0x41, 2, 8, "f", True, "u1", 1),
    ("float8_e8m0", 0x42, 2, 8, "f", False, "u1", 1),
    ("float4_e2m1", 0x43, 2, 4, "f", True, "u1", 1),
    ("float6_e2m3", 0x44, 2, 6, "f", True, "u1", 1),
    ("float6_e3m2", 0x45, 2, 6, "f", True, "u1", 1),
    ("float128", 0x46, 2, 128, "f", True, "V16", 16),
    ("int4", 0x48, 2, 4, "i", True, "u1", 1),
    ("uint4", 0x49, 2, 4, "i", False, "u1", 1),
    ("int2", 0x4A, 2, 2, "i", True, "u1", 1),
    ("uint2", 0x4B, 2, 2, "i", False, "u1", 1),
    ("complex64", 0x50, 2, 64, "f", True, "<c8", 4),
    ("complex128", 0x51, 2, 128, "f", True, "<c16", 8),
)

#: Every named element type, in tag order.
ALL_DTYPES: tuple[Dtype, ...] = tuple(Dtype._make(*row) for row in _ROWS)
TIER_1: tuple[Dtype, ...] = tuple(d for d in ALL_DTYPES if d.tier == 1)
BY_NAME: dict[str, Dtype] = {d.name: d for d in ALL_DTYPES}

for _tag in PRIVATE_TAGS:
    Dtype._make("extension", _tag, 2, 0, "x", False, "u1", 1)
for _tag in sorted(set(range(0x01, 0xF0)) - Dtype._by_tag.keys() - {_NEVER}):
    Dtype._make("unknown", _tag, 0, 0, "?", False, "u1", 1)

# match.py needs the table, so it is imported last; the two names serve Dtype.numpy and Dtype.from_numpy.
from hurray.dtypes.match import from_numpy_dtype as _from_numpy_dtype  # noqa: E402
from hurray.dtypes.match import to_numpy_dtype as _to_numpy_dtype  # noqa: E402
