"""Tensors of permissive readers, whose index buffers nobody checked: what is made of them is checked or marked."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import hurray
from hurray.descriptor import Descriptor

OUTSIDE = [[9], [2**32], [2**63], [2**64 - 1], [2**63 + 1]]


def broken(layout: str, bad: list[int]) -> hurray.Tensor:
    """Return a 4 x 4 (x 4) tensor of one element at ``bad`` along its last dimension, as permissive readers have it."""
    made: dict[str, tuple[Any, tuple[int, ...], list[Any]]] = {
        "coo": (hurray.CooLayout(1), (4, 4), [[0, *bad]]),
        "csr": (hurray.CsrLayout(1), (4, 4), [bad, [0, 1, 1, 1, 1]]),
        "csc": (hurray.CscLayout(1), (4, 4), [bad, [0, 1, 1, 1, 1]]),
        "csf": (hurray.CsfLayout(1, [0, 1, 2]), (4, 4, 4), [[0, 1], [0], [0, 1], [0], [0, 1], bad]),
    }
    kind, shape, index = made[layout]
    buffers = [np.array([1.0]).view(np.uint8), *(np.array(b, "<u8").view(np.uint8) for b in index)]
    descriptor = Descriptor.build(
        dtype=hurray.float64, shape=shape, layout=kind, buffer_sizes=tuple(len(b) for b in buffers)
    )
    return hurray.Tensor._from_parts(descriptor, buffers, permissive=True)


@pytest.mark.parametrize(("layout", "bad"), list(itertools.product(("coo", "csr", "csc", "csf"), OUTSIDE)))
def test_quantizing_checks_the_coordinates(layout: str, bad: list[int]) -> None:
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("int8", {}), ("int8_per_channel", {}), ("int8_per_channel", {"axis": 1}),
        ("int8_per_block", {"block_size": 4}),
    )  # fmt: skip
    for recipe, options in cases:
        with pytest.raises(hurray.InvalidDescriptorError):
            hurray.quantize(broken(layout, bad), recipe, **options)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "csf"])
def test_a_transposed_view_is_as_unchecked_as_its_tensor(layout: str) -> None:
    t = broken(layout, [9])
    turned = t.transpose()
    with pytest.raises(hurray.InvalidDescriptorError):
        turned.validate()
    with pytest.raises(hurray.InvalidDescriptorError):
        turned.to_layout("coo")
    strict = hurray.Tensor._from_parts(t.descriptor, t._buffers)
    with pytest.raises(hurray.InvalidDescriptorError):
        strict.transpose()


def test_a_tensor_of_an_unknown_scheme_is_not_transposed() -> None:
    data = bytearray(hurray.quantize(np.ones((2, 3), np.float32), "int8_per_channel").descriptor.encode())
    tag = data.index(bytes([2, 1, 1, 0]))
    data[tag] = 0x55
    d = Descriptor.decode(bytes(data), permissive=True)
    buffers = [bytes(h.byte_size) for h in d.buffer_handles]
    t = hurray.Tensor._from_parts(d, buffers, permissive=True)
    with pytest.raises(hurray.UnsupportedError, match="unknown"):
        t.T  # noqa: B018
    with pytest.raises(hurray.UnsupportedError, match="unknown"):
        t.transpose()
