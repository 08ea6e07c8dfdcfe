"""The part of a checkpoint's ``config.json`` that says how compressed-tensors stored its weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from hurray.errors import FileError, UnsupportedError
from hurray.interop._safetensors_header import loads_json, shown
from hurray.sources import open_source

__all__ = ["Weights", "read_config"]

_MAX_BYTES = 100_000_000
_SECTIONS = ("quantization_config", "compression_config")
_STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")


class Weights(NamedTuple):
    """How the weights of one group of modules were quantized and stored."""

    bits: int
    is_float: bool
    symmetric: bool
    strategy: str
    group: int
    block: tuple[int, int]
    format: str


def read_config(config: Any) -> list[Weights]:
    """Return the distinct ways in which a checkpoint's weights are stored.

    Parameters
    ----------
    config : path or mapping
        A ``config.json``, or what it holds, or its quantization section.

    Raises
    ------
    FileError
        The file is missing, or its quantization section makes no sense.
    UnsupportedError
        It is of another method, or the weights are also compressed as sparse ones.
    """
    what = "the configuration" if isinstance(config, Mapping) else os.fspath(config)
    section: Any = config if isinstance(config, Mapping) else _load(config, what)
    for name in _SECTIONS:
        if isinstance(section, Mapping) and isinstance(section.get(name), Mapping):
            section = section[name]
    if not isinstance(section, Mapping) or not isinstance(section.get("config_groups"), Mapping):
        raise FileError(f"{what} has no quantization section with config_groups")
    method = section.get("quant_method", "compressed-tensors")
    if method != "compressed-tensors":
        raise UnsupportedError(f"{what} is of the quantization method {shown(method)}, not compressed-tensors")
    sparsity = section.get("sparsity_config")
    if isinstance(sparsity, Mapping) and sparsity.get("format", "dense") != "dense":
        raise UnsupportedError(f"{what}: weights in the sparse form {shown(sparsity.get('format'))} cannot be read")
    found = []
    for name, group in section["config_groups"].items():
        if not isinstance(group, Mapping):
            raise FileError(f"{what}: the group {shown(name)} is no object")
        given = group.get("weights")
        if given is not None:
            form = group.get("format") or section.get("format") or ""
            found.append(_parse(given, str(form), f"{what}: the group {shown(name)}"))
    return list(dict.fromkeys(found))


def _load(path: Any, what: str) -> Any:
    source = open_source(path, "read")
    try:
        if source.size > _MAX_BYTES:
            raise FileError(f"{what}: a configuration of {source.size} bytes exceeds {_MAX_BYTES}")
        return loads_json(source.view(0, source.size).tobytes(), what)
    finally:
        source.close()


def _parse(given: Any, form: str, what: str) -> Weights:
    if not isinstance(given, Mapping):
        raise FileError(f"{what}: its weights are no object")
    bits, kind = given.get("num_bits", 8), given.get("type", "int")
    if type(bits) is not int or not 1 <= bits <= 16 or kind not in ("int", "float"):
        raise FileError(f"{what}: weights of {shown(bits)} bits of type {shown(kind)} are not known")
    group = given.get("group_size")
    group = -1 if group is None else group
    strategy = given.get("strategy") or ("group" if group not in (-1, 0) else "channel" if group == -1 else "tensor")
    if strategy not in _STRATEGIES or type(group) is not int:
        raise FileError(f"{what}: the strategy {shown(strategy)} with group size {shown(group)} is not known")
    if strategy == "group" and group == -1:
        strategy = "channel"
    if strategy in ("group", "tensor_group") and not 0 < group < 2**31:
        raise FileError(f"{what}: a group size of {group} is none")
    block = given.get("block_structure") or (0, 0)
    if isinstance(block, str) or len(block) != 2 or not all(type(n) is int and 0 <= n < 2**31 for n in block):
        raise FileError(f"{what}: the block structure {shown(block)} is none")
    if strategy == "block" and 0 in block:
        raise FileError(f"{what}: the strategy block needs a block structure")
    symmetric = given.get("symmetric", True) is not False
    return Weights(bits, kind == "float", symmetric, strategy, group, (block[0], block[1]), form)
