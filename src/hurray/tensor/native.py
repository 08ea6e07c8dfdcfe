"""The native protocol, taking side: ``hurray.from_hurray``.

Format: python-api, native protocol.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.codec import decode_descriptor
from hurray.errors import BufferError, UnsupportedError
from hurray.limits import DEFAULT_LIMITS
from hurray.tensor.capi import capsule_name, capsule_pointer, is_capsule, rename_capsule
from hurray.tensor.capsule import ABI_VERSION, CAPSULE_NAME, USED_NAME, NativeBuffer, NativeTensor, caller
from hurray.tensor.tensor import Tensor

__all__ = ["from_hurray", "from_hurray_buffer"]

_MAX_BUFFERS = 255


def from_hurray(obj: Any) -> Tensor:
    """Return a tensor over the memory of an object that speaks the native protocol, without a copy.

    Parameters
    ----------
    obj
        An object with ``__hurray__(stream=None)`` (or ``__hurray_buffer__``, as the original documents call it).

    Returns
    -------
    Tensor
        Every buffer and the whole descriptor of ``obj``, whatever the layout.

    Raises
    ------
    TypeError
        The object does not speak the protocol.
    BufferError
        The capsule was consumed before, or it is no such capsule, or sizes do not match the descriptor.
    UnsupportedError
        The capsule is of another ABI version.
    InvalidDescriptorError
        The descriptor breaks a rule of the format.

    Examples
    --------
    >>> import hurray
    >>> hurray.from_hurray(hurray.zeros([2, 2], dtype=hurray.float32)).shape
    (2, 2)

    Format: python-api, native protocol.
    """
    export = getattr(obj, "__hurray__", None) or getattr(obj, "__hurray_buffer__", None)
    if export is None or isinstance(obj, type):
        raise TypeError(
            f"an object of type {type(obj).__name__} does not support the __hurray__ protocol; "
            "check with hasattr(obj, '__hurray__')"
        )
    capsule = export()
    if not is_capsule(capsule):
        raise TypeError(f"__hurray__ of {type(obj).__name__} returned {type(capsule).__name__}, no capsule")
    _check_name(capsule_name(capsule))
    native = NativeTensor.from_address(capsule_pointer(capsule, CAPSULE_NAME))
    _check_struct(native)
    descriptor = decode_descriptor(ctypes.string_at(native.descriptor, native.descriptor_size))
    table = _buffer_table(native)
    sizes = [h.byte_size for h in descriptor.buffer_handles]
    if [b.size for b in table] != sizes:
        given = [b.size for b in table]
        raise BufferError(f"the capsule has buffers of {given} bytes, but its descriptor says {sizes}")
    memory = _Memory(native)
    # From here on the memory is ours to release, which _Memory does when the last array over it dies.
    rename_capsule(capsule, USED_NAME)
    memory.take()
    buffers = [_view(memory, b) for b in table]
    tensor = Tensor._from_parts(descriptor, buffers, device_id=max(0, native.device_id))
    # What lies between the elements of another's array is not ours to write: writers put the values in order instead.
    tensor._borrowed = _has_gaps(tensor)
    return tensor


from_hurray_buffer = from_hurray


def _has_gaps(t: Tensor) -> bool:
    return t.layout.name == "strided" and t.size is not None and t.nbytes * 8 > t.size * t.descriptor.element_bits


def _check_name(name: str) -> None:
    if name == CAPSULE_NAME:
        return
    if name.startswith("used_hurray_tensor"):
        raise BufferError(f"the capsule {CAPSULE_NAME!r} has already been consumed; ask the producer for a fresh one")
    if name.startswith("hurray_tensor"):
        raise UnsupportedError(
            f"the capsule is called {name!r}; this library takes ABI version {ABI_VERSION}, {CAPSULE_NAME!r}"
        )
    raise BufferError(f"a native protocol capsule is called {CAPSULE_NAME!r}, but this one {name!r}")


def _check_struct(native: NativeTensor) -> None:
    if native.abi_version != ABI_VERSION:
        raise UnsupportedError(f"the capsule is of ABI version {native.abi_version}; this library takes {ABI_VERSION}")
    if native.struct_size < ctypes.sizeof(NativeTensor):
        raise BufferError(
            f"the capsule's struct has {native.struct_size} bytes, but version {ABI_VERSION} takes "
            f"{ctypes.sizeof(NativeTensor)}"
        )
    if not native.descriptor or native.descriptor_size > DEFAULT_LIMITS.max_descriptor_bytes:
        raise BufferError(f"the capsule has no descriptor, or one of {native.descriptor_size} bytes")
    if native.buffer_count > _MAX_BUFFERS or (native.buffer_count and not native.buffers):
        raise BufferError(f"the capsule announces {native.buffer_count} buffers, which it cannot have")


def _buffer_table(native: NativeTensor) -> list[NativeBuffer]:
    if not native.buffer_count:
        return []
    table = list((NativeBuffer * native.buffer_count).from_address(native.buffers))
    for k, entry in enumerate(table):
        if entry.size >= 2**63 or (entry.size and not entry.data):
            raise BufferError(f"buffer {k} of the capsule has {entry.size} bytes, but no memory for them")
    return table


class _Memory:
    """Memory of a producer; its release function is called once, when nothing refers to it any more."""

    __slots__ = ("_owned", "_release")

    def __init__(self, native: NativeTensor) -> None:
        self._release = caller(native.release, native.manager_ctx or 0) if native.release else None
        self._owned = False

    def take(self) -> None:
        self._owned = True

    def __del__(self) -> None:
        if self._owned and self._release is not None:
            self._owned = False
            self._release()


class _Span:
    """One buffer, as NumPy's array interface describes it."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: _Memory, data: int, size: int) -> None:
        self._memory = memory
        self.__array_interface__ = {"data": (data, True), "shape": (size,), "typestr": "|u1", "version": 3}


def _view(memory: _Memory, entry: NativeBuffer) -> NDArray[np.uint8]:
    if not entry.size:
        return np.empty(0, np.uint8)
    array: NDArray[np.uint8] = np.asarray(_Span(memory, entry.data, entry.size))
    return array
