"""DLPack, both ways.

Export puts a tensor's own memory into a capsule; import takes the memory of another library without a copy.  How the
memory's lifetime is kept is told in ``capi.py``.  Import leaves the consuming to NumPy, for the same reason: its
destructor calls the producer's deleter exactly once, when the last view of the memory dies.  What NumPy has no type or
no device for is described to it as plain integers on the CPU while it takes over, and described truly again afterwards.

Every tensor is read-only.  A versioned capsule says so.  The older form cannot, so a consumer that asks for it gets a
copy that it may write to, or a ``BufferError`` when it forbids copies.  Memory that is walked backwards is copied too
unless copies are forbidden, because there are consumers that a negative stride brings down.

Format: python-api, Tensor; types, element types and device to DLPack.
"""

from __future__ import annotations

import builtins
import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hurray.devices import dlpack_device_type
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import BufferError, CopyRequiredError, UnsupportedError
from hurray.limits import MAX_RANK
from hurray.tensor.capi import (
    COPIED,
    READ_ONLY,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
    Loan,
    capsule_name,
    capsule_pointer,
    is_capsule,
    lend,
)
from hurray.tensor.values import refuse_absurd

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["Imported", "device_of", "export", "import_dlpack", "to_capsule"]

Codes = NDArray[Any]

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

# Element type -> (type code, bits). What is missing here does not leave over DLPack.
_TO_DLPACK: dict[int, tuple[int, int]] = {
    BY_NAME[name].tag: (code, BY_NAME[name].bit_width)
    for code, names in (
        (_INT, "int8 int16 int32 int64"),
        (_UINT, "uint8 uint16 uint32 uint64"),
        (_FLOAT, "float16 float32 float64"),
        (_BFLOAT, "bfloat16"),
        (_COMPLEX, "complex64 complex128"),
    )
    for name in names.split()
}
# Import also takes bool, one byte an element, and the one-byte floats that DLPack 1.1 has codes for.
_FROM_DLPACK: dict[tuple[int, int], Dtype] = {
    **{key: Dtype.from_tag(tag) for tag, key in _TO_DLPACK.items()},
    (_BOOL, 8): BY_NAME["bool"],
    (10, 8): BY_NAME["float8_e4m3"],
    (12, 8): BY_NAME["float8_e5m2"],
    (14, 8): BY_NAME["float8_e8m0"],
}
_CODE_NAMES = {0: "int", 1: "uint", 2: "float", 3: "opaque handle", 4: "bfloat", 5: "complex", 6: "bool"}

# Device types whose memory the CPU may read: its own, pinned for CUDA and ROCm, and managed by CUDA.
_READABLE = frozenset((1, 3, 11, 13))
_DEVICE_NAMES = {
    1: "CPU",
    2: "CUDA",
    3: "CUDA host",
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    9: "VPI",
    10: "ROCm",
    11: "ROCm host",
    12: "extension device",
    13: "CUDA managed",
    14: "oneAPI",
    15: "WebGPU",
    16: "Hexagon",
    17: "MAIA",
    18: "Trainium",
}

_STRUCTS: dict[str, Any] = {"dltensor": DLManagedTensor, "dltensor_versioned": DLManagedTensorVersioned}


# Export


def device_of(tensor: Tensor) -> tuple[int, int]:
    """Return the DLPack device of a tensor: ``(type, device id)``.

    Raises
    ------
    UnsupportedError
        DLPack has no type for the device and memory class.
    """
    device = tensor.device
    return dlpack_device_type(device), device.device_id


def export(
    tensor: Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """Return a DLPack capsule of a tensor's values: what ``Tensor.__dlpack__`` does.

    Parameters
    ----------
    stream : int or None
        A stream handle of the consumer.  Only tensors whose producer has synchronised already can leave, so nothing is
        waited for.
    max_version : (int, int) or None
        Highest DLPack version that the consumer reads; without one, or below 1.0, the capsule is the older form, over
        a copy, because that form cannot say that memory is read-only.
    dl_device : (int, int) or None
        Device on which the consumer wants the data; only the tensor's own.
    copy : bool or None
        True: the capsule is over fresh, writable memory.  False: never.  None: only when needed.

    Raises
    ------
    UnsupportedError
        The tensor is quantized, or its device has no DLPack type.
    builtins.BufferError
        The element type or layout cannot cross, the data is on another device, or a copy is needed but forbidden.
    """
    _check_arguments(stream, max_version, copy)
    _refuse(tensor)
    device = device_of(tensor)
    if dl_device is not None and not _same_device(dl_device, device):
        raise builtins.BufferError(f"the tensor is on DLPack device {device}; it cannot be exported to {dl_device}")
    view = tensor._strided_view()
    if view is None:
        raise builtins.BufferError(
            f"layout {tensor.layout.name!r} is not strided memory, which is all that DLPack describes; use to_numpy() "
            "or to_layout() for a dense copy"
        )
    versioned = max_version is not None and max_version[0] >= 1
    on_cpu = device[0] == 1
    if copy is None and on_cpu and _runs_backwards(view):
        # A consumer that trips over a negative stride may end the process instead of raising: torch does.
        copy = True
    if copy or not versioned:
        if copy is False:
            raise builtins.BufferError(
                "the memory is read-only, which a capsule older than DLPack 1.0 cannot say: ask for "
                "max_version=(1, 0), or allow a copy"
            )
        if not on_cpu:
            raise builtins.BufferError(f"memory of {tensor.device!r} cannot be copied here")
        refuse_absurd(tensor, view.shape)
        return to_capsule(view.copy(), tensor.dtype, versioned=versioned, flags=COPIED)
    if on_cpu:
        return to_capsule(view, tensor.dtype, versioned=True, flags=READ_ONLY)
    # Some devices' pointers are handles that take no arithmetic, so the offset stays apart.
    start = int(tensor._buffers[0].__array_interface__["data"][0])
    offset = tensor.descriptor.byte_offset
    loan = _loan(view, tensor.dtype)._replace(data=start, byte_offset=offset, device=device)
    return lend(loan, view, versioned=True, flags=READ_ONLY)


def to_capsule(codes: Codes, dtype: Dtype, *, versioned: bool, flags: int = 0) -> object:
    """Return a DLPack capsule over an array of codes in CPU memory, which it keeps alive."""
    return lend(_loan(codes, dtype), codes, versioned=versioned, flags=flags)


def _loan(codes: Codes, dtype: Dtype) -> Loan:
    code, bits = _TO_DLPACK[dtype.tag]
    data = int(codes.__array_interface__["data"][0]) if codes.size else 0
    return Loan(data, codes.shape, _element_strides(codes), code, bits)


def _element_strides(codes: Codes) -> tuple[int, ...]:
    """Return strides in elements; those that no element is reached by are as in a contiguous array."""
    strides = []
    step = 1
    for n, n_bytes in zip(reversed(codes.shape), reversed(codes.strides), strict=True):
        unused = n <= 1 or codes.size == 0
        elements, rest = divmod(n_bytes, codes.itemsize)
        if rest and not unused:
            raise builtins.BufferError(f"a stride of {n_bytes} bytes splits elements of {codes.itemsize} bytes")
        strides.append(step if unused else elements)
        step *= max(1, n)
    return tuple(reversed(strides))


def _runs_backwards(codes: Codes) -> bool:
    return codes.size > 0 and any(n > 1 and step < 0 for n, step in zip(codes.shape, codes.strides, strict=True))


def _check_arguments(stream: object, max_version: object, copy: object) -> None:
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
        raise TypeError(f"stream is an int or None, not {type(stream).__name__}")
    if max_version is not None and (not isinstance(max_version, (tuple, list)) or len(max_version) != 2):
        raise TypeError(f"max_version is a pair (major, minor), not {max_version!r}")
    if copy is not None and not isinstance(copy, (bool, np.bool_)):
        raise TypeError(f"copy is a bool or None, not {type(copy).__name__}")


def _refuse(tensor: Tensor) -> None:
    """Refuse what DLPack has no words for."""
    if tensor.quantization is not None:
        raise UnsupportedError(
            "the tensor is quantized: its stored codes are not its values; use dequantize() for values or storage() "
            "for the codes"
        )
    dtype = tensor.dtype
    if dtype.tag not in _TO_DLPACK:
        reason = "its elements are packed into bits" if dtype.is_sub_byte else "consumers know no such type"
        raise builtins.BufferError(f"dtype {dtype} does not cross DLPack: {reason}")
    if None in tensor.shape:
        raise builtins.BufferError(f"shape {tensor.shape} has a dynamic dimension; DLPack needs a known shape")
    for handle in tensor.descriptor.buffer_handles:
        if handle.sync_mode != "producer_synced":
            raise builtins.BufferError(
                f"the data is ready only after its {handle.sync_mode.replace('_', ' ')}, which cannot be waited for "
                "here; DLPack takes producer-synced tensors"
            )


def _same_device(wanted: tuple[int, int], device: tuple[int, int]) -> bool:
    try:
        kind, number = (int(part) for part in wanted)
    except (TypeError, ValueError):
        raise TypeError(f"dl_device is a pair (device type, device id), not {wanted!r}") from None
    return kind == device[0] and (number == device[1] or kind == 1)


# Import


class Imported(NamedTuple):
    """Memory taken over from another library.

    ``codes`` is a read-only array in the logical shape, of the element type's storage dtype, that keeps the memory
    alive.  bool comes one byte an element and has to be packed, which is a copy.  ``is_copy`` tells that the producer
    made a copy for us.
    """

    codes: Codes
    dtype: Dtype
    is_copy: bool


def import_dlpack(x: Any, *, copy: bool | None = None) -> Imported:
    """Take the memory of a DLPack capsule, or of an object that exports one; nothing is copied here.

    Parameters
    ----------
    x
        A capsule, or an object with ``__dlpack__``.
    copy : bool or None
        What the producer is asked for; False refuses what can only be had by copying.

    Raises
    ------
    TypeError
        ``x`` is neither.
    BufferError
        The capsule was consumed before, or describes no sane array.
    CopyRequiredError
        ``copy=False``, but the producer made a copy or the elements are bools, which are stored packed.
    UnsupportedError
        The data is where the CPU cannot read it, or of a type that the format does not have.

    Format: types, element types and device to DLPack.
    """
    capsule = x if is_capsule(x) else _request(x, copy)
    name = capsule_name(capsule)
    if name not in _STRUCTS:
        if name.startswith("used_"):
            raise BufferError("the DLPack capsule has been consumed already; it can be taken once")
        raise BufferError(f"a DLPack capsule is called 'dltensor' or 'dltensor_versioned', but this one {name!r}")
    managed = _STRUCTS[name].from_address(capsule_pointer(capsule, name))
    if name == "dltensor_versioned" and managed.major != 1:
        raise UnsupportedError(f"the capsule is of DLPack {managed.major}.{managed.minor}; this library reads 1.x")
    dtype = _check_tensor(managed.dl_tensor)
    copied = name == "dltensor_versioned" and bool(managed.flags & COPIED)
    if copy is False and (copied or dtype.is_sub_byte):
        why = "the producer made a copy" if copied else f"{dtype} elements are stored packed"
        raise CopyRequiredError(f"copy=False, but {why}")
    codes = _consume(capsule, managed.dl_tensor, dtype)
    codes.flags.writeable = False
    return Imported(codes, dtype, copied)


def _request(x: Any, copy: bool | None) -> object:
    """Ask an object for a capsule, with fewer words when it does not know the newer ones."""
    exporter = getattr(x, "__dlpack__", None)
    if exporter is None:
        raise TypeError(f"a DLPack capsule or an object with __dlpack__ is needed, not {type(x).__name__}")
    locate = getattr(x, "__dlpack_device__", None)
    if locate is not None:
        try:
            kind, number = (int(part) for part in locate())
        except ValueError as error:
            raise TypeError(f"__dlpack_device__ of {type(x).__name__} gives no device: {error}") from None
        _check_readable(kind, number)
    attempts: list[dict[str, Any]] = [{"max_version": (1, 1)}, {}]
    if copy is not None:
        attempts.insert(0, {"max_version": (1, 1), "copy": copy})
    failure: TypeError | None = None
    for keywords in attempts:
        try:
            capsule = exporter(**keywords)
        except TypeError as error:
            failure = failure or error
        else:
            if not is_capsule(capsule):
                raise TypeError(f"__dlpack__ of {type(x).__name__} returned {type(capsule).__name__}, no capsule")
            return capsule
    assert failure is not None
    raise failure


def _check_readable(kind: int, number: int) -> None:
    if kind not in _READABLE:
        name = _DEVICE_NAMES.get(kind, "unknown device")
        raise UnsupportedError(f"the data is on {name} (DLPack device {kind}, {number}), which the CPU cannot read")


def _check_tensor(dl: DLTensor) -> Dtype:
    """Check a DLTensor as far as it can be, and return its element type."""
    _check_readable(dl.device_type, dl.device_id)
    if not 0 <= dl.ndim <= MAX_RANK:
        raise BufferError(f"the DLPack capsule has {dl.ndim} dimensions; 0 to {MAX_RANK} are possible")
    if dl.ndim and not dl.shape:
        raise BufferError("the DLPack capsule has no shape")
    dtype = _FROM_DLPACK.get((dl.code, dl.bits))
    if dtype is None or dl.lanes != 1:
        kind = _CODE_NAMES.get(dl.code, f"type code {dl.code}")
        raise UnsupportedError(f"no element type of the format is DLPack's {kind} of {dl.bits} bits x {dl.lanes} lanes")
    row = ctypes.c_int64 * dl.ndim
    shape = tuple(row.from_address(dl.shape)) if dl.ndim else ()
    n_elems = 1
    for n in shape:
        n_elems *= n
        if n < 0:
            raise BufferError(f"the DLPack capsule has shape {shape}")
    if n_elems * (dl.bits // 8) >= 2**63:
        raise BufferError(f"the DLPack capsule has {n_elems} elements, more than memory can hold")
    if n_elems and not dl.data:
        raise BufferError(f"the DLPack capsule has shape {shape}, but no data")
    if n_elems and dl.strides:
        strides = row.from_address(dl.strides)
        reach = sum(abs(s) * (n - 1) for n, s in zip(shape, strides, strict=True))
        if reach * (dl.bits // 8) >= 2**63:
            raise BufferError(f"the DLPack capsule has strides {tuple(strides)}, which leave the address space")
    return dtype


class _Handover:
    """An exporter of one capsule, for ``numpy.from_dlpack``."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **keywords: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _consume(capsule: object, dl: DLTensor, dtype: Dtype) -> Codes:
    """Let NumPy take the memory over; the array it gives calls the producer's deleter when it dies."""
    told = dl.device_type, dl.device_id, dl.code
    name = capsule_name(capsule)
    dl.device_type, dl.device_id = 1, 0
    dl.code = dl.code if dl.code in (_INT, _UINT, _FLOAT, _COMPLEX) else _UINT
    try:
        array: Codes = np.from_dlpack(_Handover(capsule))  # type: ignore[arg-type]
    except (RuntimeError, ValueError, builtins.BufferError) as error:
        if capsule_name(capsule) == name:
            dl.device_type, dl.device_id, dl.code = told
        raise BufferError(f"NumPy cannot take the DLPack capsule: {error}") from error
    # The struct lives as long as the array, and the producer's deleter may look at its own fields.
    dl.device_type, dl.device_id, dl.code = told
    return array if array.dtype == dtype.storage else array.view(dtype.storage)
