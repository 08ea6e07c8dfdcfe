"""Devices, memory classes and sync modes.

Format: types, devices; types, device to DLPack.
"""

from __future__ import annotations

from collections.abc import Callable

from hurray.errors import ArgumentTypeError, InvalidDescriptorError, UnsupportedError

__all__ = [
    "CPU",
    "DEVICE_TAGS",
    "MEMORY_CLASS_TAGS",
    "SYNC_MODES",
    "Device",
    "dlpack_device_type",
]

_PRIVATE = range(0xF0, 0xFF)
#: DLPack and the native protocol carry ordinals as i32
_MAX_ID = 2**31 - 1

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
        wire tag, which is how private ones (0xF0-0xFE) are given.
    device_id : int, optional
        Ordinal among devices of the kind, 0 by default.  It lives in memory only; the wire format has no place for it.
    memory_class : str or int, optional
        ``standard`` (the default), ``host_pinned``, ``unified`` or ``peer``, or a wire tag; private devices also take a
        private tag 0xF0-0xFE.

    Raises
    ------
    InvalidDescriptorError
        The kind, the class or their pair is not one that the format allows; the ordinal is negative or too large.
    TypeError
        An argument is of a wrong type.

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

    def __init__(self, kind: str | int, device_id: int | None = None, memory_class: str | int | None = None) -> None:
        tag = _tag_of(kind, "device kind", DEVICE_TAGS, _check_device_tag)
        class_tag = 0
        if memory_class is not None:
            class_tag = _tag_of(memory_class, "memory class", MEMORY_CLASS_TAGS, _check_memory_class_tag)
        _check_pair(tag, class_tag)
        object.__setattr__(self, "_tag", tag)
        object.__setattr__(self, "_class_tag", class_tag)
        object.__setattr__(self, "_id", 0 if device_id is None else _ordinal(device_id))

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
        device = cls(tag, 0, memory_class_tag)
        _INTERNED[tag, memory_class_tag] = device
        return device

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Device is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Device is immutable: cannot delete {name!r}")

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

    def __repr__(self) -> str:
        kind = f"{self.kind!r} (0x{self._tag:02X})" if self.is_private else repr(self.kind)
        named = self._class_tag in _CLASS_NAMES
        memory_class = repr(self.memory_class) if named else f"'private' (0x{self._class_tag:02X})"
        return f"hurray.Device(kind={kind}, device_id={self._id}, memory_class={memory_class})"

    def __reduce__(self) -> tuple[object, ...]:
        return Device, (self._tag, self._id, self._class_tag)

    def with_id(self, device_id: int) -> Device:
        """Return the device of the same kind and memory class with another ordinal."""
        return self if device_id == self._id else Device(self._tag, device_id, self._class_tag)


def _tag_of(given: str | int, what: str, names: dict[str, int], check: Callable[[int], None]) -> int:
    """Return the wire tag that an argument names."""
    if isinstance(given, str):
        if given not in names:
            raise InvalidDescriptorError(f"unknown {what} {given!r}; known: {', '.join(names)}")
        return names[given]
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise ArgumentTypeError(f"a {what} is a name or a wire tag, not {type(given).__name__}")
    tag = int(given.__index__())
    check(tag)
    return tag


def _check_device_tag(tag: int) -> None:
    if tag not in _KIND_NAMES and tag not in _PRIVATE:
        raise InvalidDescriptorError(f"device tag {tag:#04x} is {_tag_state(tag)}")


def _check_memory_class_tag(tag: int) -> None:
    if tag not in _CLASS_NAMES and tag not in _PRIVATE:
        raise InvalidDescriptorError(f"memory class tag {tag:#04x} is {_tag_state(tag)}")


def _tag_state(tag: int) -> str:
    if not 0 <= tag <= 0xFF:
        return "not a byte"
    return "invalid" if tag == 0xFF else "reserved"


def _ordinal(device_id: int) -> int:
    if isinstance(device_id, bool) or not hasattr(device_id, "__index__"):
        raise ArgumentTypeError(f"device_id is an int, not {type(device_id).__name__}")
    number = int(device_id.__index__())
    if not 0 <= number <= _MAX_ID:
        raise InvalidDescriptorError(f"device_id must lie in 0..{_MAX_ID}, but is {number}")
    return number


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
