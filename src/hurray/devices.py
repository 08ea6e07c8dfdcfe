"""Devices, memory classes and sync modes.

Format: types, devices; types, device to DLPack.
"""

from __future__ import annotations

from hurray.errors import InvalidDescriptorError, UnsupportedError

__all__ = [
    "CPU",
    "DEVICE_TAGS",
    "MEMORY_CLASS_TAGS",
    "SYNC_MODES",
    "Device",
    "dlpack_device_type",
]

_PRIVATE = range(0xF0, 0xFF)

MEMORY_CLASS_TAGS: dict[str, int] = {"standard": 0, "host_pinned": 1, "unified": 2, "peer": 3}
_CLASS_NAMES = {tag: name for name, tag in MEMORY_CLASS_TAGS.items()}

_SPU = ("standard", "host_pinned", "unified")
_ALL = (*_SPU, "peer")

# kind: (tag, memory classes that the format allows)
_KINDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "cpu": (0x00, _SPU),
    "cuda": (0x01, _ALL),
    "rocm": (0x02, _ALL),
    "metal": (0x03, _SPU),
    "vulkan": (0x04, _ALL),
    "webgpu": (0x05, ("standard",)),
    "hexagon": (0x06, _SPU),
    "level_zero": (0x07, _ALL),
    "opencl": (0x08, _SPU),
}
DEVICE_TAGS: dict[str, int] = {kind: tag for kind, (tag, _) in _KINDS.items()}
_KIND_NAMES = {tag: kind for kind, tag in DEVICE_TAGS.items()}

#: Sync mode names by wire value.
SYNC_MODES: tuple[str, ...] = ("producer_synced", "event", "consumer_stream")

# (kind, memory class): DLPack device type; a missing pair cannot cross DLPack
_DLPACK: dict[tuple[str, str], int] = {
    **{("cpu", c): 1 for c in _SPU},
    ("cuda", "standard"): 2,
    ("cuda", "host_pinned"): 3,
    ("cuda", "unified"): 13,
    ("rocm", "standard"): 10,
    ("rocm", "host_pinned"): 11,
    **{("metal", c): 8 for c in _SPU},
    **{("vulkan", c): 7 for c in _SPU},
    ("webgpu", "standard"): 15,
    **{("hexagon", c): 16 for c in _SPU},
    **{("level_zero", c): 14 for c in _SPU},
    **{("opencl", c): 4 for c in _SPU},
}


class Device:
    """Where a tensor's buffers live: a device kind, an ordinal and a memory class.

    Parameters
    ----------
    kind : str or int
        ``cpu``, ``cuda``, ``rocm``, ``metal``, ``vulkan``, ``webgpu``, ``hexagon``, ``level_zero`` or ``opencl``; or a
        private tag 0xF0-0xFE.
    device_id : int
        Ordinal among devices of the kind.  It lives in memory only; the wire format has no place for it.
    memory_class : str or int
        ``standard``, ``host_pinned``, ``unified`` or ``peer``; private devices also take a tag 0xF0-0xFE.

    Raises
    ------
    InvalidDescriptorError
        The kind, the class or their pair is not one that the format allows.

    Examples
    --------
    >>> import hurray
    >>> hurray.Device("cuda", 1).tag
    1

    Format: types, devices.
    """

    __slots__ = ("_class_tag", "_id", "_tag")

    _tag: int
    _id: int
    _class_tag: int

    def __init__(self, kind: str | int, device_id: int = 0, memory_class: str | int = "standard") -> None:
        tag = _device_tag(kind)
        class_tag = _memory_class_tag(memory_class)
        _check_pair(tag, class_tag)
        if isinstance(device_id, bool) or not isinstance(device_id, int) or device_id < 0:
            raise InvalidDescriptorError(f"device_id must be a non-negative int, not {device_id!r}")
        object.__setattr__(self, "_tag", tag)
        object.__setattr__(self, "_class_tag", class_tag)
        object.__setattr__(self, "_id", device_id)

    @classmethod
    def from_tags(cls, tag: int, memory_class_tag: int) -> Device:
        """Return the device of two wire bytes.

        Raises
        ------
        InvalidDescriptorError
            A reserved or invalid tag, or a pair that the format does not allow.
        """
        found = _INTERNED.get((tag, memory_class_tag))
        if found is not None:
            return found
        if tag not in _KIND_NAMES and tag not in _PRIVATE:
            raise InvalidDescriptorError(f"device tag {tag:#04x} is {'invalid' if tag == 0xFF else 'reserved'}")
        if memory_class_tag not in _CLASS_NAMES and memory_class_tag not in _PRIVATE:
            kind = "invalid" if memory_class_tag == 0xFF else "reserved"
            raise InvalidDescriptorError(f"memory class tag {memory_class_tag:#04x} is {kind}")
        device = cls(
            _KIND_NAMES.get(tag, tag), 0, _CLASS_NAMES.get(memory_class_tag, memory_class_tag)
        )
        _INTERNED[tag, memory_class_tag] = device
        return device

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Device is immutable: cannot set {name!r}")

    @property
    def kind(self) -> str:
        """Name of the kind; ``private`` for private devices."""
        return _KIND_NAMES.get(self._tag, "private")

    @property
    def device_id(self) -> int:
        """Ordinal among devices of the kind."""
        return self._id

    @property
    def memory_class(self) -> str:
        """Name of the memory class; ``private`` for private classes."""
        return _CLASS_NAMES.get(self._class_tag, "private")

    @property
    def tag(self) -> int:
        """Wire tag of the kind."""
        return self._tag

    @property
    def memory_class_tag(self) -> int:
        """Wire tag of the memory class."""
        return self._class_tag

    @property
    def is_private(self) -> bool:
        """True for the private tags 0xF0-0xFE."""
        return self._tag in _PRIVATE

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self._tag, self._id, self._class_tag) == (other._tag, other._id, other._class_tag)

    def __hash__(self) -> int:
        return hash((self._tag, self._id, self._class_tag))

    def __str__(self) -> str:
        name = self.kind if not self.is_private else f"private:{self._tag:#04x}"
        return f"{name}:{self._id}" if self._id else name

    def __repr__(self) -> str:
        kind = f"{self.kind!r} (0x{self._tag:02X})" if self.is_private else repr(self.kind)
        named = self._class_tag in _CLASS_NAMES
        memory_class = repr(self.memory_class) if named else f"'private' (0x{self._class_tag:02X})"
        return f"hurray.Device(kind={kind}, device_id={self._id}, memory_class={memory_class})"

    def __reduce__(self) -> tuple[object, ...]:
        kind = _KIND_NAMES.get(self._tag, self._tag)
        return Device, (kind, self._id, _CLASS_NAMES.get(self._class_tag, self._class_tag))


def _device_tag(kind: str | int) -> int:
    if isinstance(kind, str):
        if kind not in DEVICE_TAGS:
            raise InvalidDescriptorError(f"unknown device kind {kind!r}; known: {', '.join(DEVICE_TAGS)}")
        return DEVICE_TAGS[kind]
    if isinstance(kind, bool) or not isinstance(kind, int):
        raise TypeError(f"a device kind is a name or a private tag, not {type(kind).__name__}")
    if kind not in _PRIVATE:
        raise InvalidDescriptorError(f"a private device tag lies in 0xF0-0xFE, not {kind:#04x}")
    return kind


def _memory_class_tag(memory_class: str | int) -> int:
    if isinstance(memory_class, str):
        if memory_class not in MEMORY_CLASS_TAGS:
            raise InvalidDescriptorError(
                f"unknown memory class {memory_class!r}; known: {', '.join(MEMORY_CLASS_TAGS)}"
            )
        return MEMORY_CLASS_TAGS[memory_class]
    if isinstance(memory_class, bool) or not isinstance(memory_class, int):
        raise TypeError(f"a memory class is a name or a private tag, not {type(memory_class).__name__}")
    if memory_class not in _PRIVATE:
        raise InvalidDescriptorError(f"a private memory class tag lies in 0xF0-0xFE, not {memory_class:#04x}")
    return memory_class


def _check_pair(tag: int, class_tag: int) -> None:
    if tag in _PRIVATE:
        if class_tag != 0 and class_tag not in _PRIVATE:
            raise InvalidDescriptorError(
                f"a private device has memory class standard or a private one, not {_CLASS_NAMES[class_tag]!r}"
            )
        return
    kind = _KIND_NAMES[tag]
    allowed = _KINDS[kind][1]
    if _CLASS_NAMES.get(class_tag) not in allowed:
        name = _CLASS_NAMES.get(class_tag, f"{class_tag:#04x}")
        raise InvalidDescriptorError(f"device {kind!r} has no memory class {name!r}; it has {', '.join(allowed)}")


def dlpack_device_type(device: Device) -> int:
    """Return the DLPack device type code of ``device``.

    Raises
    ------
    UnsupportedError
        DLPack has no code for the device and memory class.

    Format: types, device to DLPack.
    """
    code = _DLPACK.get((device.kind, device.memory_class))
    if code is None:
        raise UnsupportedError(f"DLPack has no device type for {device!r}")
    return code


_INTERNED: dict[tuple[int, int], Device] = {}
CPU = Device.from_tags(0, 0)
for _kind in DEVICE_TAGS:
    Device.from_tags(DEVICE_TAGS[_kind], 0)
