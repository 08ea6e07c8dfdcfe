"""Devices: kinds, classes, the pairs that the format allows, and their likeness."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import hurray
from hurray import Device, InvalidDescriptorError
from hurray.devices import DEVICE_TAGS, MEMORY_CLASS_TAGS, dlpack_device_type

SPU = ["standard", "host_pinned", "unified"]
#: the table of the format, written out
ALLOWED: dict[str, list[str]] = {
    "cpu": SPU, "cuda": [*SPU, "peer"], "rocm": [*SPU, "peer"], "metal": SPU, "vulkan": [*SPU, "peer"],
    "webgpu": ["standard"], "hexagon": SPU, "level_zero": [*SPU, "peer"], "opencl": SPU,
}  # fmt: skip
DLPACK = {
    ("cpu", "standard"): 1, ("cpu", "host_pinned"): 1, ("cpu", "unified"): 1,
    ("cuda", "standard"): 2, ("cuda", "host_pinned"): 3, ("cuda", "unified"): 13,
    ("rocm", "standard"): 10, ("rocm", "host_pinned"): 11,
    ("metal", "standard"): 8, ("metal", "host_pinned"): 8, ("metal", "unified"): 8,
    ("vulkan", "standard"): 7, ("vulkan", "host_pinned"): 7, ("vulkan", "unified"): 7,
    ("webgpu", "standard"): 15,
    ("hexagon", "standard"): 16, ("hexagon", "host_pinned"): 16, ("hexagon", "unified"): 16,
    ("level_zero", "standard"): 14, ("level_zero", "host_pinned"): 14, ("level_zero", "unified"): 14,
    ("opencl", "standard"): 4, ("opencl", "host_pinned"): 4, ("opencl", "unified"): 4,
}  # fmt: skip


def test_tags() -> None:
    assert list(DEVICE_TAGS.values()) == list(range(9))
    assert list(MEMORY_CLASS_TAGS.values()) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ALLOWED)
@pytest.mark.parametrize("memory_class", MEMORY_CLASS_TAGS)
def test_pairs(kind: str, memory_class: str) -> None:
    if memory_class not in ALLOWED[kind]:
        with pytest.raises(InvalidDescriptorError, match=f"device {kind!r} has no memory class {memory_class!r}"):
            Device(kind, 0, memory_class)
        return
    d = Device(kind, 3, memory_class)
    assert (d.kind, d.device_id, d.memory_class, d.is_private) == (kind, 3, memory_class, False)
    assert (d.tag, d.memory_class_tag) == (DEVICE_TAGS[kind], MEMORY_CLASS_TAGS[memory_class])
    assert Device.from_tags(d.tag, d.memory_class_tag) == Device(kind, memory_class=memory_class)
    assert Device(d.tag, 3, d.memory_class_tag) == d
    assert repr(d) == f"hurray.Device(kind={kind!r}, device_id=3, memory_class={memory_class!r})"
    code = DLPACK.get((kind, memory_class))
    if code is None:
        with pytest.raises(hurray.UnsupportedError, match=kind):
            dlpack_device_type(d)
    else:
        assert dlpack_device_type(d) == code


@pytest.mark.parametrize("tag", [0xF0, 0xFE])
def test_private_devices(tag: int) -> None:
    d = Device(tag, 1, 0xF3)
    assert (d.kind, d.memory_class, d.tag, d.memory_class_tag, d.is_private) == ("private", "private", tag, 0xF3, True)
    assert repr(d) == f"hurray.Device(kind='private' (0x{tag:02X}), device_id=1, memory_class='private' (0xF3))"
    assert Device(tag).memory_class == "standard"
    for memory_class in ("host_pinned", "unified", "peer"):
        with pytest.raises(InvalidDescriptorError, match="private device"):
            Device(tag, 0, memory_class)
    with pytest.raises(InvalidDescriptorError):
        Device("cuda", 0, 0xF3)
    with pytest.raises(hurray.UnsupportedError):
        dlpack_device_type(d)


@pytest.mark.parametrize("tag", [0x09, 0x7F, 0xEF, 0xFF, -1, 256])
def test_tags_that_are_none(tag: int) -> None:
    with pytest.raises(InvalidDescriptorError):
        Device(tag)
    with pytest.raises(InvalidDescriptorError):
        Device.from_tags(tag, 0)


@pytest.mark.parametrize("tag", [0x04, 0x7F, 0xEF, 0xFF, -1, 256])
def test_class_tags_that_are_none(tag: int) -> None:
    for kind in ("cuda", 0xF0):
        with pytest.raises(InvalidDescriptorError):
            Device(kind, 0, tag)
    with pytest.raises(InvalidDescriptorError):
        Device.from_tags(1, tag)


@pytest.mark.parametrize(
    "arguments",
    [("gpu",), ("CPU",), ("private",), ("cuda", -1), ("cuda", 2**31), ("cuda", 0, "pinned"), ("",)],
)
def test_bad_values(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidDescriptorError):
        Device(*arguments)


@pytest.mark.parametrize(
    "arguments", [(None,), (1.5,), (b"cpu",), ("cuda", "1"), ("cuda", 1.0), ("cuda", True), ("cuda", 0, 1.5)]
)
def test_wrong_types(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError) as caught:
        Device(*arguments)
    assert isinstance(caught.value, InvalidDescriptorError)


def test_defaults_and_numpy_ints() -> None:
    assert Device("cuda", None, None) == Device("cuda", 0, "standard") == Device(kind="cuda")
    d = Device(np.uint8(0xF1), np.int64(7), np.uint8(0xF2))
    assert d == Device(0xF1, 7, 0xF2)
    assert all(type(v) is int for v in (d.tag, d.device_id, d.memory_class_tag))


def test_likeness() -> None:
    a, b = Device("cuda", 1, "unified"), Device("cuda", 1, "unified")
    assert a == b
    assert hash(a) == hash(b)
    assert len({a, b, Device("cuda", 2, "unified"), Device("cuda", 1)}) == 3
    assert a != "cuda"
    assert a != repr(a)
    assert pickle.loads(pickle.dumps(a)) == copy.copy(a) == copy.deepcopy(a) == a
    assert a.with_id(1) is a
    assert a.with_id(5) == Device("cuda", 5, "unified")
    assert Device(0xF1, 2, 0xF2) == pickle.loads(pickle.dumps(Device(0xF1, 2, 0xF2)))


def test_immutable() -> None:
    d = Device("cpu")
    for name in ("kind", "_tag", "new"):
        with pytest.raises(AttributeError, match=name):
            setattr(d, name, 1)
        with pytest.raises(AttributeError, match=name):
            delattr(d, name)
