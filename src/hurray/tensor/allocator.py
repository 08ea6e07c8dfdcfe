"""NumPy arrays that start at a multiple of 64 bytes, for the duration of a ``with`` block.

NumPy lets a program replace the four functions that make and free the memory of new arrays.  Two of them stay NumPy's
own here: the one that frees, since it frees whatever the C library allocated, and the one that resizes.  New memory
comes from the C library's ``aligned_alloc``, whose first argument, the alignment, is just where NumPy passes its
context pointer; so no Python code runs when an array is made with undefined content, nor ever when an array goes away.

Where the C library has no such function, or NumPy's allocator was replaced already, the block changes nothing: tensors
take arrays of any alignment without a copy, so aligned memory is a convenience, never a need.

Format: python-api, construction.
"""

from __future__ import annotations

import ctypes
import sys
from importlib import import_module
from typing import Any

from hurray.tensor.capi import capsule_pointer, new_capsule

__all__ = ["restore_allocator", "use_aligned_allocator"]

_ALIGN = 64
_NAME = b"hurray_aligned"
# Places of PyDataMem_SetHandler and PyDataMem_GetHandler in NumPy's table of C functions, fixed since 1.22.
_SET_HANDLER, _GET_HANDLER = 304, 305

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_ZEROED = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """``PyDataMem_Handler`` of NumPy's ndarraytypes.h, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("ctx", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


def use_aligned_allocator() -> object:
    """Make NumPy align new arrays in this context; return what :func:`restore_allocator` takes."""
    handler = _handler()
    return None if handler is None else _call(_SET_HANDLER, handler)


def restore_allocator(before: object) -> None:
    """Give NumPy back the allocator that it had."""
    if before is not None:
        _call(_SET_HANDLER, before)


def _call(place: int, *args: object) -> Any:
    core = import_module("numpy._core._multiarray_umath")
    table = ctypes.cast(_capsule_address(core._ARRAY_API), ctypes.POINTER(ctypes.c_void_p))
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, *(ctypes.py_object for _ in args))
    return kind(table[place])(*args)


def _capsule_address(capsule: object) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, None) or 0)


def _is_replaceable() -> bool:
    """Tell whether NumPy has the allocator that it comes with, on a platform whose C library suits it."""
    try:
        numpy = import_module("numpy._core.multiarray")
        found = (numpy.get_handler_name(), numpy.get_handler_version())
    except (ImportError, AttributeError):
        return False
    return sys.platform == "linux" and found == ("default_allocator", 1)


_KEPT: list[object] = []


def _handler() -> object | None:
    """Return the capsule of our handler, which is made once, or None where the allocator cannot be replaced."""
    if _KEPT:
        return _KEPT[0]
    if not _is_replaceable():
        return None
    library = ctypes.CDLL(None)
    aligned_alloc: Any = library.aligned_alloc
    aligned_alloc.restype, aligned_alloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)

    def zeroed(ctx: int | None, count: int, size: int) -> int | None:
        address = aligned_alloc(_ALIGN, count * size)
        if address:
            ctypes.memset(address, 0, count * size)
        return int(address) if address else None

    own = _Handler.from_buffer_copy(_Handler.from_address(capsule_pointer(_call(_GET_HANDLER), "mem_handler")))
    own.name, own.ctx = _NAME, _ALIGN
    own.malloc = ctypes.cast(aligned_alloc, ctypes.c_void_p).value
    callback = _ZEROED(zeroed)
    own.calloc = ctypes.cast(callback, ctypes.c_void_p).value
    # Arrays refer to the struct for as long as they live, which may be longer than this module does.
    for kept in (own, callback, library):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    _KEPT.append(new_capsule(ctypes.addressof(own), "mem_handler"))
    return _KEPT[0]
