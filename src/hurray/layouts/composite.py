"""The head of a composite: a layout without buffers.

Format: composite.
"""

from __future__ import annotations

from typing import Any, Self

from hurray.dtypes.table import PRIVATE_TAGS
from hurray.errors import InvalidDescriptorError, UnsupportedError
from hurray.layouts._base import BufferSpec, Codes, Layout, Payload, Shape, as_int, set_field
from hurray.layouts._region import Region
from hurray.records import record
from hurray.wire.reader import Reader
from hurray.wire.writer import Writer

__all__ = ["COMBINE_OPS", "COMPOSITION_RULES", "CompositeLayout", "PrivateCompositeLayout"]

#: wire value by name
COMPOSITION_RULES: dict[str, int] = {"partition": 0x01, "overlay": 0x02, "group": 0x03}
COMBINE_OPS: dict[str, int] = {"replace": 0x01, "add": 0x02}
_RULE_NAMES = {value: name for name, value in COMPOSITION_RULES.items()}
_OP_NAMES = {value: name for name, value in COMBINE_OPS.items()}
_OPEN = 0xFFFFFFFF


@record
class CompositeLayout(Layout):
    """The fields of a composite head.

    Parameters
    ----------
    composition_rule : str
        ``partition``, ``overlay`` or ``group``.
    member_count : int
        Number of members that follow the head directly.
    combine_op : str, optional
        ``replace`` or ``add`` for an overlay, None otherwise.

    Raises
    ------
    ValueError
        An unknown rule or operation.
    InvalidDescriptorError
        The operation does not belong to the rule, an overlay without members, or too many members.

    Format: composite.
    """

    composition_rule: str
    member_count: int
    combine_op: str | None

    tag = 0x0B
    name = "composite"
    kind = "virtual"

    def __init__(self, composition_rule: str, member_count: int, combine_op: str | None = None) -> None:
        for what, name in (("composition_rule", composition_rule), ("combine_op", combine_op)):
            if not isinstance(name, str) and not (name is None and what == "combine_op"):
                raise TypeError(f"{what} is a string, not {type(name).__name__}")
        if composition_rule not in COMPOSITION_RULES:
            raise ValueError(
                f"invalid composition_rule {composition_rule!r}: expected {', '.join(map(repr, COMPOSITION_RULES))}"
            )
        if combine_op is not None and combine_op not in COMBINE_OPS:
            raise ValueError(f"invalid combine_op {combine_op!r}: expected 'replace', 'add' or None")
        if (composition_rule == "overlay") != (combine_op is not None):
            wanted = "needs combine_op 'replace' or 'add'" if combine_op is None else "takes no combine_op"
            raise InvalidDescriptorError(f"a composite of rule {composition_rule!r} {wanted}")
        count = as_int(member_count, "member_count", high=_OPEN - 1)
        if composition_rule == "overlay" and count == 0:
            raise InvalidDescriptorError("an overlay needs a base member, but member_count is 0")
        set_field(self, "composition_rule", composition_rule)
        set_field(self, "member_count", count)
        set_field(self, "combine_op", combine_op)

    def __repr__(self) -> str:
        op = "" if self.combine_op is None else f", combine_op={self.combine_op!r}"
        return f"CompositeLayout(composition_rule={self.composition_rule!r}, member_count={self.member_count}{op})"

    @property
    def buffer_count(self) -> int | None:
        return 0

    @classmethod
    def parse_carried(cls, r: Reader, shape: Shape) -> CompositeLayout:
        """Read the fields for a permissive reader, which takes private rules too."""
        at = r.offset
        rule, op = r.u8("composition_rule"), r.u8("combine_op")
        if rule not in PRIVATE_TAGS:
            return cls._parse_rest(r, at, rule, op)
        r.reserved(2)
        return PrivateCompositeLayout(rule, op, _parse_count(r))

    @classmethod
    def parse_fields(cls, r: Reader, shape: Shape) -> Self:
        at = r.offset
        return cls._parse_rest(r, at, r.u8("composition_rule"), r.u8("combine_op"))

    @classmethod
    def _parse_rest(cls, r: Reader, at: int, rule: int, op: int) -> Self:
        if rule not in _RULE_NAMES:
            kind = "private" if rule in PRIVATE_TAGS else "reserved or invalid"
            r.fail(f"composition rule {rule:#04x} is {kind}", field="composition_rule", offset=at)
        name = _RULE_NAMES[rule]
        if op not in (tuple(_OP_NAMES) if name == "overlay" else (0,)):
            r.fail(f"combine_op {op:#04x} is not one of rule {name!r}", field="combine_op", offset=at + 1)
        r.reserved(2)
        return cls(name, _parse_count(r), _OP_NAMES.get(op))

    def write_fields(self, w: Writer) -> None:
        w.u8(COMPOSITION_RULES[self.composition_rule])
        w.u8(COMBINE_OPS[self.combine_op] if self.combine_op else 0)
        w.zeros(2)
        w.u32(self.member_count)

    def specs(self, shape: tuple[int, ...], bits: int, byte_offset: int = 0) -> tuple[BufferSpec, ...]:
        return ()

    def read(self, payload: Payload, region: Region) -> Codes:
        raise UnsupportedError("a composite head owns no elements; read the Composite")

    @classmethod
    def encode(cls, codes: Codes, bits: int, **options: Any) -> Any:
        raise UnsupportedError("a tensor cannot be written in layout 'composite'; build a hurray.Composite")


@record
class PrivateCompositeLayout(CompositeLayout):
    """The head of a composite with a private rule: permissive readers hand over its members, never the composite.

    ``composition_rule`` is ``private`` and ``combine_op`` None; the wire values are in ``rule_tag`` and ``op_tag``.
    """

    rule_tag: int
    op_tag: int

    def __init__(self, rule_tag: int, op_tag: int, member_count: int) -> None:
        set_field(self, "composition_rule", "private")
        set_field(self, "member_count", member_count)
        set_field(self, "combine_op", None)
        set_field(self, "rule_tag", rule_tag)
        set_field(self, "op_tag", op_tag)

    def write_fields(self, w: Writer) -> None:
        w.u8(self.rule_tag)
        w.u8(self.op_tag)
        w.zeros(2)
        w.u32(self.member_count)


def _parse_count(r: Reader) -> int:
    at = r.offset
    count = r.u32("member_count")
    if count == _OPEN:
        r.fail("member_count 0xFFFFFFFF (an open composite) is reserved", field="member_count", offset=at)
    return count
