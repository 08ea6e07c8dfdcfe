"""What ``hurray ls --long`` adds about a tensor: stored elements, shard, parameters, device, statistics."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from hurray.cli._console import format_shape
from hurray.descriptor import Descriptor
from hurray.dtypes.table import Dtype
from hurray.layouts import CompositeLayout
from hurray.quantization import Scheme

__all__ = ["details_of", "details_text"]

#: fields that say where things are, not what they are
_PLACES = ("scale_buffer_index", "zero_point_buffer_index", "trailing")
#: parts of layouts that are shown beside the name
_LAYOUT_FIELDS = (
    "tile_shape", "outer_layout", "inner_layout", "strides", "morton_bits", "hilbert_order", "is_sorted", "mode_order",
    "page_size", "num_pages", "num_seqs", "kv_role", "layer_index", "composition_rule", "combine_op",
)  # fmt: skip
#: values that are the usual ones, and so are left out of the text
_USUAL = {"outer_layout": "row_major", "inner_layout": "row_major", "is_sorted": True, "scale_type": "float32"}


def details_of(d: Descriptor) -> dict[str, Any]:
    """Return what is to be known about a tensor beyond its line, as JSON values; parts that it lacks are left out."""
    found: dict[str, Any] = {}
    if d.layout.is_sparse:
        found["nnz"] = d.layout.nnz  # type: ignore[attr-defined]
    parts = {name: getattr(d.layout, name, None) for name in _LAYOUT_FIELDS}
    # Layouts of a fixed order have a method called strides.
    options = {name: _plain(value) for name, value in parts.items() if value is not None and not callable(value)}
    if options:
        found["layout_options"] = options
    if isinstance(d.quantization, Scheme):
        found["quantization_options"] = _scheme(d.quantization)
    if d.shard is not None:
        found["shard"] = {"offset": list(d.shard.shard_offset), "parent_shape": list(d.shard.parent_shape)}
    if d.device.tag != 0 or d.device.memory_class_tag != 0:
        found["device"] = d.device.kind
        found["memory_class"] = d.device.memory_class
    if d.statistics is not None:
        found["statistics"] = {
            f.name: _number(getattr(d.statistics, f.name))
            for f in fields(d.statistics)
            if isinstance(getattr(d.statistics, f.name), (bool, int, float))
        }
    return found


def _scheme(scheme: Scheme) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for f in fields(scheme):  # type: ignore[arg-type]  # every scheme is a dataclass
        if f.name not in _PLACES:
            options[f.name] = _plain(getattr(scheme, f.name))
    if hasattr(scheme, "zero_point_buffer_index"):
        options["symmetric"] = scheme.zero_point_buffer_index is None
    return options


def _number(value: bool | float) -> Any:
    # JSON has no NaN and no infinities.
    return value if isinstance(value, int) or math.isfinite(value) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Dtype):
        return value.name
    return list(value) if isinstance(value, tuple) else value


def details_text(d: Descriptor) -> str:
    """Return the same in one line for people."""
    found = details_of(d)
    parts = [f"nnz {found['nnz']}"] if "nnz" in found else []
    parts += [_option(name, value) for name, value in found.get("layout_options", {}).items() if _is_told(name, value)]
    parts += [_option(n, v) for n, v in found.get("quantization_options", {}).items() if _is_told(n, v)]
    shard = found.get("shard")
    if shard is not None:
        parts.append(
            f"at {', '.join(map(str, shard['offset'])) or 'the start'} of {format_shape(shard['parent_shape'])}"
        )
    if "device" in found:
        memory = found["memory_class"]
        parts.append(f"on {found['device']}" + (f" ({memory})" if memory != "standard" else ""))
    statistics = found.get("statistics")
    if statistics is not None:
        low, high = statistics.get("value_min"), statistics.get("value_max")
        parts.append("statistics" if low is None or high is None else f"values {float(low):g} to {float(high):g}")
    if isinstance(d.layout, CompositeLayout):
        parts = [part.removeprefix("composition rule ").removeprefix("combine op ") for part in parts]
    return ", ".join(parts)


def _is_told(name: str, value: Any) -> bool:
    return value is not None and _USUAL.get(name) != value and not (name == "symmetric" and value is True)


def _option(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name.replace("_", " ") if value else f"not {name.removeprefix('is_').replace('_', ' ')}"
    shown = (
        ",".join(map(str, value)) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else value
    )
    return f"{name.replace('_', ' ')} {shown}"
