"""What every tensor is: a descriptor, its buffers, and their inspection.

Format: descriptor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.check import check_descriptor
from hurray.descriptor.model import BufferHandle, Descriptor, handle_for
from hurray.descriptor.plain import slot_setter
from hurray.descriptor.sections import ExtensionType, Shard, Statistics
from hurray.devices import CPU, Device
from hurray.dtypes.table import Dtype
from hurray.errors import ArgumentTypeError, BufferError, BufferTypeError, InvalidDescriptorError, UnsupportedError
from hurray.layouts._base import Layout, as_int
from hurray.layouts.row_major import RowMajorLayout
from hurray.quantization._base import Scheme, UnknownScheme
from hurray.tensor.forming import as_bytes_view, check_sizes, is_plain, read_only

__all__ = ["TensorCore", "as_shape"]

_DYNAMIC = 2**64 - 1


class TensorCore:
    """A descriptor and the buffers that it describes; ``Tensor`` adds what can be done with them."""

    __slots__ = (
        "__weakref__",
        "_borrowed",
        "_buffers",
        "_checked",
        "_descriptor",
        "_device_id",
        "_lengths",
        "_permissive",
    )

    _descriptor: Descriptor
    _buffers: tuple[NDArray[np.uint8], ...]
    _device_id: int
    _permissive: bool
    _checked: bool
    _borrowed: bool
    #: tokens of each sequence of a block_paged tensor that a program told; unset where none did
    _lengths: tuple[int, ...]

    def __init__(
        self,
        buffer: Any,
        dtype: Dtype,
        shape: Sequence[int | None],
        device: Device | None = None,
        *,
        aux_buffers: Sequence[Any] | None = None,
        layout: Layout | None = None,
        quantization: Scheme | None = None,
        statistics: Statistics | None = None,
        shard: Shard | None = None,
        extension_type: ExtensionType | None = None,
        byte_offset: int = 0,
        device_id: int | None = None,
    ) -> None:
        if not isinstance(dtype, Dtype):
            raise TypeError(f"dtype is a hurray.Dtype such as hurray.float32, not {type(dtype).__name__}")
        where = CPU if device is None else device
        if not isinstance(where, Device):
            raise TypeError(f"device is a hurray.Device, not {type(device).__name__}")
        _check_kinds(layout, quantization)
        check_parts(statistics, shard, extension_type)
        buffers = [_bytes_of(buffer, "buffer 0"), *_auxiliary(aux_buffers)]
        base = Device.from_tags(where.tag, where.memory_class_tag)
        ordinal = where.device_id if device_id is None else where.with_id(device_id).device_id
        descriptor = Descriptor(
            dtype=dtype,
            shape=as_shape(shape, dynamic=True),
            layout=RowMajorLayout() if layout is None else layout,
            buffer_handles=tuple(handle_for(len(b), base) for b in buffers),
            byte_offset=as_int(byte_offset, "byte_offset"),
            quantization=quantization,
            statistics=statistics,
            shard=shard,
            extension_type=extension_type,
        )
        n_own = descriptor.layout.buffer_count
        if n_own is not None and len(buffers) < n_own:
            raise InvalidDescriptorError(
                f"a {descriptor.layout.name} layout needs {n_own} buffer(s), but {len(buffers)} were supplied; pass "
                "the rest via aux_buffers=[...]"
            )
        check_descriptor(descriptor, extra_buffers=True)
        check_sizes(descriptor, [len(b) for b in buffers])
        if isinstance(buffer, np.ndarray):
            _check_array(buffer, descriptor)
        self._fill(descriptor, tuple(buffers), ordinal)

    def _fill(
        self, descriptor: Descriptor, buffers: tuple[NDArray[np.uint8], ...], device_id: int, permissive: bool = False
    ) -> None:
        _set_descriptor(self, descriptor)
        _set_buffers(self, buffers)
        _set_device_id(self, device_id)
        _set_permissive(self, permissive)
        _set_checked(self, False)
        _set_borrowed(self, False)

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("_checked", "_borrowed"):
            object.__setattr__(self, name, value)
            return
        raise AttributeError(f"Tensor is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Tensor is immutable: cannot delete {name!r}")

    @classmethod
    def _from_parts(
        cls, descriptor: Descriptor, buffers: Sequence[Any], *, permissive: bool = False, device_id: int = 0
    ) -> Self:
        """Form a tensor from a checked descriptor and its buffers: the way of all readers.

        Raises
        ------
        BufferError
            A declared size is too small for shape, layout and scheme.
        """
        if len(buffers) != len(descriptor.buffer_handles):
            raise InvalidDescriptorError(
                f"the descriptor announces {len(descriptor.buffer_handles)} buffers, but {len(buffers)} are there"
            )
        if not is_plain(descriptor):
            if descriptor.is_head:
                raise InvalidDescriptorError("a composite head owns no buffers, so it makes no tensor by itself")
            check_sizes(descriptor, [h.byte_size for h in descriptor.buffer_handles])
        self = object.__new__(cls)
        own = tuple([read_only(b) if isinstance(b, np.ndarray) else as_bytes_view(b, "buffer") for b in buffers])
        self._fill(descriptor, own, device_id, permissive)
        return self

    @classmethod
    def _from_checked(
        cls, descriptor: Descriptor, buffers: tuple[NDArray[np.uint8], ...], permissive: bool = False
    ) -> Self:
        """Form a tensor like another of the same descriptor, from read-only 1-D uint8 arrays of the declared sizes."""
        self = object.__new__(cls)
        self._fill(descriptor, buffers, 0, permissive)
        return self

    def _replace(self, **changes: Any) -> Self:
        """Return a tensor over the same buffers with changed descriptor fields, checked."""
        descriptor = self._descriptor.with_changes(**changes)
        check_descriptor(descriptor, extra_buffers=True)
        result = type(self)._from_parts(
            descriptor, self._buffers, permissive=self._permissive, device_id=self._device_id
        )
        result._borrowed = self._borrowed
        return result._with_lengths(getattr(self, "_lengths", None))

    def _with_lengths(self, lengths: tuple[int, ...] | None) -> Self:
        """Return this tensor, just made and not handed out yet, knowing the tokens of each sequence."""
        if lengths is not None:
            _set_lengths(self, lengths)
        return self

    def _with_trust(self, *, permissive: bool, checked: bool) -> Self:
        """Return this tensor, just made and not handed out yet, marked with what is known of its content."""
        _set_permissive(self, permissive)
        _set_checked(self, checked)
        return self

    # Inspection

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Logical shape; None marks a dynamic dimension."""
        return self._descriptor.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._descriptor.shape)

    @property
    def size(self) -> int | None:
        """Number of elements; None when a dimension is dynamic, or when 64 bits cannot count them."""
        return self._descriptor.size

    @property
    def dtype(self) -> Dtype:
        """Element type; the storage type when the tensor is quantized."""
        return self._descriptor.dtype

    @property
    def device(self) -> Device:
        """Device of the buffers."""
        return self._descriptor.device.with_id(self._device_id)

    @property
    def layout(self) -> Layout:
        """Layout of the elements."""
        return self._descriptor.layout

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of the format."""
        return self._descriptor

    @property
    def buffer_count(self) -> int:
        """Number of buffers."""
        return len(self._buffers)

    @property
    def buffer_handles(self) -> tuple[BufferHandle, ...]:
        """The rows of the buffer table."""
        return self._descriptor.buffer_handles

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers together."""
        return sum(len(b) for b in self._buffers)

    @property
    def quantization(self) -> Scheme | UnknownScheme | None:
        """The quantization scheme, or None."""
        return self._descriptor.quantization

    @property
    def statistics(self) -> Statistics | None:
        """Advisory statistics, or None."""
        return self._descriptor.statistics

    @property
    def shard(self) -> Shard | None:
        """Where the tensor sits in a larger one, or None."""
        return self._descriptor.shard

    @property
    def extension_type(self) -> ExtensionType | None:
        """What the elements of a private dtype look like, or None."""
        return self._descriptor.extension_type


# Slots are set through their descriptors: the class forbids assignment, and this way is the fastest.
_set_descriptor = slot_setter(TensorCore, "_descriptor")
_set_buffers = slot_setter(TensorCore, "_buffers")
_set_device_id = slot_setter(TensorCore, "_device_id")
_set_permissive = slot_setter(TensorCore, "_permissive")
_set_checked = slot_setter(TensorCore, "_checked")
_set_borrowed = slot_setter(TensorCore, "_borrowed")
_set_lengths = slot_setter(TensorCore, "_lengths")


def as_shape(shape: Any, *, dynamic: bool = False) -> tuple[int | None, ...]:
    """Return a shape as a tuple of Python ints (None where ``dynamic`` allows it).

    Raises
    ------
    TypeError
        ``shape`` is not a sequence of ints.
    InvalidDescriptorError
        A dimension is negative or too large.
    """
    if isinstance(shape, (str, bytes, set, frozenset, dict)) or not hasattr(shape, "__iter__"):
        raise TypeError(f"shape is a sequence of ints, not {type(shape).__name__}")
    return tuple(_dimension(n, k, dynamic) for k, n in enumerate(shape))


def _dimension(n: Any, k: int, dynamic: bool) -> int | None:
    if n is not None:
        return as_int(n, f"shape[{k}]", high=_DYNAMIC - 1)
    if not dynamic:
        raise InvalidDescriptorError(f"shape[{k}] is None (dynamic), but a known size is needed here")
    return None


def _bytes_of(buffer: Any, what: str) -> NDArray[np.uint8]:
    """Return a buffer argument as bytes; a plain tensor stands for its own memory."""
    if not isinstance(buffer, TensorCore):
        return as_bytes_view(buffer, what)
    d = buffer.descriptor
    if buffer.buffer_count != 1 or d.layout.name != "row_major" or d.byte_offset:
        raise BufferError(f"{what}: a {d.layout.name} tensor is no plain memory; give its buffer(i)")
    return buffer._buffers[0]


def _check_array(array: NDArray[Any], descriptor: Descriptor) -> None:
    """Refuse an array as buffer 0 whose elements are plainly meant, but are stored in another way there.

    Raises
    ------
    BufferError
        Unpacked elements of a packed type, or as many elements as the tensor has of another width.
    """
    dtype = descriptor.dtype
    held = array.dtype
    if dtype.is_sub_byte and held in (np.dtype(np.bool_), dtype.numpy) and held.kind != "u":
        raise BufferError(
            f"buffer 0: the array holds {held} elements one a byte, but the format packs {dtype}; {_ADVICE}"
        )
    if dtype.is_opaque or dtype.is_sub_byte or held.itemsize == 1 or held.kind not in "fciu":
        return
    stored = descriptor.layout.nnz if descriptor.layout.is_sparse else descriptor.size  # type: ignore[attr-defined]
    if held.itemsize * 8 != dtype.bit_width and array.size == stored and array.size:
        raise BufferError(f"buffer 0: the array holds elements of {held}, not of {dtype}; {_ADVICE}")


_ADVICE = "hurray.from_numpy and hurray.asarray take arrays as they are"


def _auxiliary(aux_buffers: Any) -> list[NDArray[np.uint8]]:
    if aux_buffers is None:
        return []
    if isinstance(aux_buffers, (np.ndarray, bytes, bytearray, memoryview, str)) or not hasattr(aux_buffers, "__iter__"):
        raise BufferTypeError(f"aux_buffers is a sequence of buffers, not one {type(aux_buffers).__name__}")
    return [_bytes_of(b, f"buffer {k} (aux_buffers[{k - 1}])") for k, b in enumerate(aux_buffers, 1)]


def check_parts(statistics: Any, shard: Any, extension_type: Any) -> None:
    """Refuse descriptor sections of a wrong type."""
    for value, cls in ((statistics, Statistics), (shard, Shard), (extension_type, ExtensionType)):
        if value is not None and not isinstance(value, cls):
            raise ArgumentTypeError(f"expected a hurray.{cls.__name__}, not {type(value).__name__}")


def _check_kinds(layout: Any, quantization: Any) -> None:
    if layout is not None:
        if not isinstance(layout, Layout):
            raise TypeError(
                f"layout must be a hurray.Layout instance (e.g. hurray.CsrLayout(nnz=4)), not {type(layout).__name__}"
            )
        if layout.is_virtual:
            raise UnsupportedError(
                "a composite head owns no buffers; use hurray.Composite, which holds its members too"
            )
    if quantization is not None and not isinstance(quantization, Scheme):
        raise ArgumentTypeError(
            "quantization must be a PerTensorAffine, PerChannelAffine, PerBlockAffine, NF4 or MXFP, not "
            f"{type(quantization).__name__}"
        )
