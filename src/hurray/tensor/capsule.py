"""The native protocol, exporting side: a capsule over a documented C struct.

``docs/native-protocol.md`` is the struct's specification; :class:`NativeTensor` is the same in ctypes.

Whoever takes the capsule renames it and calls ``release(manager_ctx)`` once, from any thread.  That function is NumPy's
(``capi.py`` tells why), so no code of ours runs then.  A capsule that nobody takes has no destructor either, for the
same reason: a list holds it, and lets go of it, and of the tensor's memory, as soon as nobody else does.  The list is
looked through at every export and after every garbage collection, and is simply left alone when the interpreter ends.

Format: python-api, native protocol.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import itertools
import sys
from _thread import allocate_lock
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.codec import encode_descriptor
from hurray.tensor.capi import READ_ONLY, capsule_name, new_capsule, take_deleter

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["ABI_VERSION", "CAPSULE_NAME", "USED_NAME", "NativeBuffer", "NativeTensor", "caller", "export"]

ABI_VERSION = 1
CAPSULE_NAME = "hurray_tensor_v1"
USED_NAME = "used_hurray_tensor_v1"


class NativeBuffer(ctypes.Structure):
    """``HurrayBufferV1``: one buffer's memory."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_uint64))


class NativeTensor(ctypes.Structure):
    """``HurrayTensorV1``: a descriptor, its buffers, and how to let go of them."""

    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("descriptor", ctypes.c_void_p),
        ("descriptor_size", ctypes.c_uint64),
        ("buffers", ctypes.c_void_p),
        ("buffer_count", ctypes.c_uint32),
        ("device_id", ctypes.c_int32),
        ("manager_ctx", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
    )


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def caller(function: int, argument: int) -> Callable[[], None]:
    """Return a function that calls the C function ``function`` with the pointer ``argument``."""
    call = _RELEASE(function)
    return lambda: call(argument)


def export(tensor: Tensor, *, stream: int | None = None) -> object:
    """Return a native protocol capsule of a tensor: what ``Tensor.__hurray__`` does.

    Parameters
    ----------
    stream : int or None
        Taken for symmetry with DLPack; the descriptor says how the data is synchronised.

    Raises
    ------
    InvalidDescriptorError
        The tensor has more buffers than its layout and scheme take, which no descriptor can tell.

    Format: python-api, native protocol.
    """
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
        raise TypeError(f"stream is an int or None, not {type(stream).__name__}")
    return _offer(encode_descriptor(tensor.descriptor), tensor._buffers, tensor._device_id)


def _offer(descriptor: bytes, buffers: Sequence[NDArray[np.uint8]], device_id: int) -> object:
    table = (NativeBuffer * max(1, len(buffers)))()
    for entry, buffer in zip(table, buffers, strict=False):
        if buffer.size:
            entry.data = buffer.__array_interface__["data"][0]
        entry.size = buffer.size
    text = ctypes.create_string_buffer(descriptor, len(descriptor))
    native = NativeTensor(
        abi_version=ABI_VERSION,
        struct_size=ctypes.sizeof(NativeTensor),
        flags=READ_ONLY,
        descriptor=ctypes.addressof(text),
        descriptor_size=len(descriptor),
        buffers=ctypes.addressof(table),
        buffer_count=len(buffers),
        device_id=device_id,
    )
    native.release, native.manager_ctx = take_deleter((native, table, text, tuple(buffers)))
    capsule = new_capsule(ctypes.addressof(native), CAPSULE_NAME)
    _OFFERS.add(capsule, caller(native.release, native.manager_ctx))
    return capsule


class _Offers:
    """Capsules that were handed out and may not have been taken.

    Threads and collections meet here at any point, so only single steps of the dict are relied on.
    """

    def __init__(self) -> None:
        self._open: dict[int, tuple[object, Callable[[], None]]] = {}
        self._keys = itertools.count()
        self._sweeping = allocate_lock()
        self._over = False
        probe: dict[int, tuple[object, Callable[[], None]]] = {0: (object(), self.close)}
        #: what sys.getrefcount says of an object that only the dict refers to
        self._alone = _references(probe[0])

    def add(self, capsule: object, release: Callable[[], None]) -> None:
        """Remember a capsule; look after the older ones."""
        if self._over:
            return
        self.sweep()
        self._open[next(self._keys)] = (capsule, release)
        if self._on_collection not in gc.callbacks:
            gc.callbacks.append(self._on_collection)

    def sweep(self) -> None:
        """Let go of capsules that nobody else holds; free the memory of those that nobody took."""
        if not self._sweeping.acquire(blocking=False):
            return
        try:
            for key in list(self._open):
                offer = self._open[key]
                untaken = capsule_name(offer[0]) == CAPSULE_NAME
                if untaken and _references(offer) > self._alone:
                    continue
                del self._open[key]
                if untaken:
                    offer[1]()
        finally:
            self._sweeping.release()

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and self._open and not self._over:
            self.sweep()

    def close(self) -> None:
        """Leave everything as it is from now on: the process ends."""
        self._over = True
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)


def _references(offer: tuple[object, Callable[[], None]]) -> int:
    return sys.getrefcount(offer[0])


_OFFERS = _Offers()
atexit.register(_OFFERS.close)
