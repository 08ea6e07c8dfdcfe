"""Turn the trace of a descriptor into the rows of an annotated hex table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hurray.devices import SYNC_MODES, Device
from hurray.dtypes.table import Dtype
from hurray.errors import HurrayError
from hurray.layouts import LAYOUTS, layout_tag_kind
from hurray.quantization import SCHEMES
from hurray.wire.reader import Field

__all__ = ["Row", "annotate"]

_SHOWN_BYTES = 16
_FLAGS = ("quantization", "shard", "extension type", "statistics", "composite member")
_STATISTICS = ("nnz", "sparsity", "min, max, abs_max", "mean, stddev", "n:m pattern", "has_nan, has_inf")
_RULES = {1: "partition", 2: "overlay", 3: "group"}
_OPS = {0: "none", 1: "replace", 2: "add"}
_DYNAMIC = 2**64 - 1


class Row(NamedTuple):
    """One row: where, which bytes, which field, what it means; ``broken`` marks the place of the fault."""

    offset: int
    n_bytes: int
    hex: str
    field: str
    meaning: str
    broken: bool = False


def _type_name(value: int) -> str:
    try:
        return Dtype.from_tag(value).name
    except HurrayError as error:
        return str(error)


def _layout_name(value: int) -> str:
    known = LAYOUTS.get(value)
    return known.name if known is not None else layout_tag_kind(value)


def _scheme_name(value: int) -> str:
    known = SCHEMES.get(value)
    return known.name if known is not None else "unknown scheme"


def _device_name(value: int) -> str:
    try:
        return str(Device.from_tags(value, 0).kind)
    except HurrayError as error:
        return str(error)


def _bit_names(names: Sequence[str]) -> Callable[[int], str]:
    def meaning(value: int) -> str:
        found = [name for k, name in enumerate(names) if value >> k & 1]
        if value >> len(names):
            found.append("undefined bits")
        return ", ".join(found) or "none"

    return meaning


def _pick(names: dict[int, str]) -> Callable[[int], str]:
    return lambda value: names.get(value, "undefined")


#: last part of a field's path -> meaning of its value
_MEANINGS: dict[str, Callable[[int], str]] = {
    "flags": _bit_names(_FLAGS),
    "type_tag": _type_name,
    "scale_type": _type_name,
    "layout_tag": _layout_name,
    "outer_layout": _layout_name,
    "inner_layout": _layout_name,
    "scheme_tag": _scheme_name,
    "device_tag": _device_name,
    "sync_mode": _pick(dict(enumerate(SYNC_MODES))),
    "memory_class": _pick({0: "standard", 1: "host_pinned", 2: "unified", 3: "peer"}),
    "composition_rule": _pick(_RULES),
    "combine_op": _pick(_OPS),
    "member_role": _pick({0: "correction", 1: "base"}),
    "computed_mask": _bit_names(_STATISTICS),
    "shape": lambda value: "dynamic" if value == _DYNAMIC else "",
}


def _meaning(field: Field) -> str:
    leaf = field.path.rpartition(".")[2].partition("[")[0]
    value = field.value
    if isinstance(value, bytes):
        if not any(value):
            return "0"
        shown = value[:_SHOWN_BYTES]
        return repr(shown) if shown.isascii() and shown.decode("ascii").isprintable() else f"{len(value)} bytes"
    text = str(value)
    explain = _MEANINGS.get(leaf)
    if explain is None or not isinstance(value, int) or field.path == "quantization.flags":
        return text
    name = explain(value)
    return f"{text}: {name}" if name else text


def _hex(data: bytes | memoryview) -> str:
    shown = bytes(data[:_SHOWN_BYTES]).hex(" ")
    return f"{shown} ..." if len(data) > _SHOWN_BYTES else shown


def annotate(data: bytes, trace: Sequence[Field], error: HurrayError | None = None, base: int = 0) -> list[Row]:
    """Return the rows of a hex table.

    Parameters
    ----------
    data : bytes
        The descriptor's bytes.
    trace : sequence of Field
        The fields that were read.
    error : HurrayError, optional
        What the decoder refused; the row at its place is marked and says why.
    base : int
        Offset of the descriptor in its file, added to every offset that is shown.
    """
    place = _broken_row(trace, error)
    rows = [
        Row(
            base + field.offset,
            field.n_bytes,
            _hex(data[field.offset : field.offset + field.n_bytes]),
            field.path,
            f"{_meaning(field)}  <- {error}" if k == place else _meaning(field),
            k == place,
        )
        for k, field in enumerate(trace)
    ]
    end = max((field.offset + field.n_bytes for field in trace), default=0)
    if error is not None and place is None:
        # The field at fault could not be read, or the fault lies between fields that are fine by themselves.
        at = end if error.field is None or error.offset is None else error.offset
        path = error.field or ("(rule)" if end >= len(data) else "(next)")
        rows.append(Row(base + at, len(data) - at, _hex(data[at:]), path, f"<- {error}", True))
    elif end < len(data):
        rows.append(Row(base + end, len(data) - end, _hex(data[end:]), "(not read)", f"{len(data) - end} bytes"))
    return rows


def _broken_row(trace: Sequence[Field], error: HurrayError | None) -> int | None:
    """Return the place in the trace of the field that an error names; None where it is not there."""
    if error is None or error.field is None:
        return None
    named = [k for k, field in enumerate(trace) if field.path == error.field]
    if not named:
        named = [k for k, field in enumerate(trace) if field.offset == error.offset and field.n_bytes]
    return named[-1] if named else None
