"""PyCapsules and the C structs of DLPack, through ctypes, and the one trick that makes them safe.

A struct lent to another library needs a ``deleter`` that may be called from any thread, with or without the GIL, while
an exception is on its way, and even after the interpreter has ended.  A Python callback cannot be that: ctypes loses a
pending exception (the caller then sees ``SystemError``), and calling into an ended interpreter crashes.  NumPy owns a
deleter that is right in all these cases, written in C.  So NumPy makes the struct, over a small stand-in array which
holds the real owner, and :func:`lend` then fills in the memory that is meant.  The struct's layout is public, NumPy's
deleter never looks at those fields, and no code of ours runs when the memory comes back.

Format: python-api, DLPack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hurray.errors import InternalError

__all__ = [
    "COPIED",
    "READ_ONLY",
    "DLManagedTensor",
    "DLManagedTensorVersioned",
    "DLTensor",
    "Loan",
    "capsule_name",
    "capsule_pointer",
    "is_capsule",
    "lend",
    "new_capsule",
    "rename_capsule",
    "take_deleter",
]

#: flags of DLManagedTensorVersioned
READ_ONLY, COPIED = 1, 2


class DLTensor(ctypes.Structure):
    """``DLTensor`` of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """``DLManagedTensor`` of dlpack.h, the struct of capsules called ``dltensor``."""

    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned`` of dlpack.h, the struct of capsules called ``dltensor_versioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


# Prototypes of our own: the attributes of ctypes.pythonapi are shared by everyone, and so are their argument types.
_NEW = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_NAME = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_SET_NAME = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_INCREF = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))

# A capsule keeps the bare pointer to its name, so the bytes must outlive every capsule, and the interpreter too.
_NAMES: dict[str, bytes] = {}


def _immortal(name: str) -> bytes:
    found = _NAMES.get(name)
    if found is None:
        found = _NAMES[name] = name.encode("ascii")
        _INCREF(found)
    return found


def is_capsule(value: object) -> bool:
    """Tell whether ``value`` is a PyCapsule."""
    return type(value) is _CAPSULE_TYPE


def new_capsule(address: int, name: str) -> object:
    """Return a capsule without a destructor; whoever makes it looks after what it points to."""
    return _NEW(address, _immortal(name), None)


def capsule_name(capsule: object) -> str:
    """Return a capsule's name; empty when it has none."""
    name = _NAME(capsule)
    return "" if name is None else name.decode("ascii", "replace")


def capsule_pointer(capsule: object, name: str) -> int:
    """Return the pointer of a capsule called ``name``; ValueError when it is called otherwise."""
    address = _POINTER(capsule, _immortal(name))
    return int(address)


def rename_capsule(capsule: object, name: str) -> None:
    """Give a capsule another name."""
    _SET_NAME(capsule, _immortal(name))


class _Anchor(np.ndarray[Any, Any]):
    """The stand-in that NumPy exports: one byte of its own, and a reference to what must stay alive."""

    held: object = None


_BYTE = np.zeros(1, np.uint8)
_CAPSULE_TYPE = type(_BYTE.__dlpack__())


class Loan(NamedTuple):
    """What a DLPack struct says about memory: pointer, shape and strides in elements, type, device."""

    data: int
    shape: Sequence[int]
    strides: Sequence[int]
    code: int
    bits: int
    device: tuple[int, int] = (1, 0)
    byte_offset: int = 0


def lend(loan: Loan, owner: object, *, versioned: bool, flags: int = 0) -> object:
    """Return a DLPack capsule that describes ``loan`` and keeps ``owner`` alive until its deleter is called.

    Parameters
    ----------
    versioned : bool
        Make a ``dltensor_versioned`` capsule (with ``flags``), or the older ``dltensor``, which has no flags.
    """
    ndim = len(loan.shape)
    # Zero strides over two elements are not contiguous, so NumPy gives the struct an array of strides to fill in.
    anchor: Any = _Anchor((*(1,) * (ndim - 1), 2) if ndim else (), np.uint8, _BYTE, 0, (0,) * ndim)
    anchor.held = owner
    managed: Any
    if versioned:
        capsule = anchor.__dlpack__(max_version=(1, 0))
        managed = DLManagedTensorVersioned.from_address(capsule_pointer(capsule, "dltensor_versioned"))
        managed.flags = flags
    else:
        capsule = anchor.__dlpack__()
        managed = DLManagedTensor.from_address(capsule_pointer(capsule, "dltensor"))
    dl = managed.dl_tensor
    if dl.ndim != ndim or (ndim and not (dl.shape and dl.strides)):
        raise InternalError("NumPy exports an array with another number of dimensions, or without strides")
    dl.data = loan.data
    dl.device_type, dl.device_id = loan.device
    dl.code, dl.bits, dl.lanes = loan.code, loan.bits, 1
    dl.byte_offset = loan.byte_offset
    if ndim:
        row = ctypes.c_int64 * ndim
        row.from_address(dl.shape)[:] = list(loan.shape)
        row.from_address(dl.strides)[:] = list(loan.strides)
    return capsule


def take_deleter(owner: object) -> tuple[int, int]:
    """Return ``(function, argument)``: calling the C function with the argument, once, lets go of ``owner``.

    The function takes one pointer and may be called from any thread, whether it holds the GIL or not.
    """
    capsule = lend(Loan(0, (), (), 1, 8), owner, versioned=True)
    address = capsule_pointer(capsule, "dltensor_versioned")
    deleter = int(DLManagedTensorVersioned.from_address(address).deleter)
    # As if it had been consumed: the struct is now the caller's to delete.
    rename_capsule(capsule, "used_dltensor_versioned")
    return deleter, address
