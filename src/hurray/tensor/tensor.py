"""The tensor: one class for every layout.

Format: descriptor, layouts; the Python surface, Tensor.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hurray.descriptor.sections import Shard, Statistics
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import UnsupportedError
from hurray.layouts._base import Layout
from hurray.layouts._region import Region
from hurray.tensor import capsule, dlpack, pickling, relayout, scheme_parts, values
from hurray.tensor.accessors import share_buffer
from hurray.tensor.core import as_shape, check_parts
from hurray.tensor.display import tensor_repr, tensor_str
from hurray.tensor.foreign import foreign
from hurray.tensor.parts import TensorParts

__all__ = ["Tensor", "as_shape"]

_UINT8 = BY_NAME["uint8"]
_FLOAT32 = BY_NAME["float32"]


class Tensor(TensorParts):
    """An immutable tensor in any layout of the format: a descriptor and the buffers that it describes.

    Parameters
    ----------
    buffer : bytes-like, C-contiguous array or plain Tensor
        Buffer 0.  It is taken without a copy, kept alive, and exposed read-only.
    dtype : Dtype
        Element (storage) type.
    shape : sequence of int or None
        Logical shape; None marks a dynamic dimension.
    device : Device, optional
        Where the producer's memory lives; CPU by default.
    aux_buffers : sequence of bytes-like or arrays, optional
        Buffers 1 and up: index buffers of the layout, then parameter buffers of the scheme.
    layout : Layout, optional
        Row-major by default.
    quantization : scheme, optional
        One of PerTensorAffine, PerChannelAffine, PerBlockAffine, NF4, MXFP.
    statistics : Statistics, optional
    shard : Shard, optional
    extension_type : ExtensionType, optional
        Required for private dtypes, and only for them.
    byte_offset : int
        Where element [0, ..., 0] sits in buffer 0, in bytes.
    device_id : int, optional
        Ordinal of the device; it lives in memory only.

    Raises
    ------
    InvalidDescriptorError
        The parts break a rule of the format.
    BufferError
        A buffer is too small; buffer, role, size and need are named.
    TypeError
        An argument of a wrong type, such as a layout or dtype given as a string.

    Examples
    --------
    >>> import numpy as np, hurray
    >>> hurray.Tensor(np.arange(4, dtype=np.float32), hurray.float32, [2, 2])
    hurray.Tensor([[0. 1.]
     [2. 3.]], dtype=float32)

    Format: descriptor; layouts.
    """

    __slots__ = ()

    # Parts

    def buffer(self, index: int) -> Tensor:
        """Return a buffer as a 1-D uint8 tensor of exactly its byte size, sharing memory.

        Raises
        ------
        IndexError
            There is no such buffer; negative indices are none.
        """
        at = operator.index(index)
        if not 0 <= at < len(self._buffers):
            raise IndexError(f"no buffer at index {at}; this tensor has {len(self._buffers)}")
        return share_buffer(self, at, (len(self._buffers[at]),), _UINT8)

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The transposed view of a rank 2 tensor, sharing its values.

        Raises
        ------
        ValueError
            The rank is not 2, or the layout has no transposed view.
        """
        if self.ndim != 2 or None in self.shape:
            raise ValueError(f"T is for rank 2 tensors of known shape; this one has shape {self.shape}")
        result = relayout.transposed(self, (1, 0))
        if result is None:
            raise ValueError(f"layout {self.layout.name!r} has no transposed view; use transpose() for a copy")
        return result

    def transpose(self, *axes: Any) -> Tensor:
        """Return the tensor with its dimensions permuted (reversed by default).

        Values are shared where the layout allows it, else they are copied.
        """
        order = tuple(axes) if axes else tuple(reversed(range(self.ndim)))
        if len(order) == 1 and not isinstance(order[0], int):
            order = tuple(order[0])
        order = tuple(k + self.ndim if k < 0 else k for k in order)
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"axes {axes} are no permutation of {self.ndim} dimensions")
        result = relayout.transposed(self, order)
        if result is None and self.quantization is None and self.layout.kind == "dense":
            dense = relayout.contiguous_row_major(self).to_layout("strided")
            result = relayout.transposed(dense, order)
        if result is None:
            raise UnsupportedError(f"a {self.layout.name} tensor cannot be transposed without decoding it first")
        return result

    # Values

    def to_numpy(
        self, copy: bool | None = None, *, dtype: Any = None, sequence_lengths: Sequence[int] | None = None
    ) -> NDArray[Any]:
        """Return the logical values as a dense array, whatever the layout.

        Parameters
        ----------
        copy : bool, optional
            None copies when needed, False raises instead, True always copies.  A view is read-only.
        dtype : numpy.dtype, optional
            Convert to this type.  float128 needs one: float64 is rounded correctly.
        sequence_lengths : sequence of int, optional
            Tokens of each sequence of a block_paged tensor, where they do not follow from the descriptor.

        Returns
        -------
        ndarray of ``self.shape``
            bool and 1 to 6 bit types are unpacked into arrays of NumPy's or ml_dtypes' type.

        Raises
        ------
        CopyRequiredError
            ``copy=False``, but unpacking, reordering or converting is needed.
        UnsupportedError
            Quantized (see :meth:`dequantize`), private or opaque tensors; a dense result beyond the limit.
        InvalidDescriptorError
            The index buffers break a rule of the layout; the first offending position is named.
        """
        return values.to_numpy(self, copy=copy, dtype=dtype, sequence_lengths=sequence_lengths)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if not self.layout.is_dense and self.quantization is None:
            # NumPy calls this unasked, and what is small as a sparse tensor need not fit memory as a dense one.
            raise UnsupportedError(
                f"a {self.layout.name} tensor does not turn into an array by itself; use to_numpy() for a dense array, "
                "or its components"
            )
        return values.to_numpy(self, copy=copy, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        """Read a region with a NumPy-style key; only the bytes that it needs are touched.

        Returns an array (a read-only view where the layout allows it, else a copy), or a scalar for a full index.

        Raises
        ------
        IndexError
            As NumPy.
        """
        return values.read_key(self, key)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return (self[k] for k in range(values.dense_shape(self)[0]))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        n = values.dense_shape(self)[0]
        if n > sys.maxsize:
            raise UnsupportedError(f"a length of {n} is beyond what Python counts; use shape[0]")
        return n

    def __bool__(self) -> bool:
        return True

    def item(self) -> Any:
        """Return the value of a tensor of one element as a Python number.

        Raises
        ------
        ValueError
            There are more elements, or none.
        """
        if self.size != 1:
            raise ValueError(f"item() is for tensors of one element; this one has shape {self.shape}")
        return self.to_numpy().item()

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers, whatever the layout."""
        return self.to_numpy().tolist()

    def _read_region(self, region: Region) -> NDArray[Any]:
        return values.read_region(self, region)

    def _strided_view(self) -> NDArray[Any] | None:
        return values.strided_view(self)

    def lookup(self, coords: Any) -> NDArray[Any]:
        """Return the values at many coordinates at once.

        Parameters
        ----------
        coords : array_like of int, shape (n, rank)
            Negative indices count from the end.

        Returns
        -------
        ndarray, shape (n,)
            Zero where a sparse layout stores nothing.

        Raises
        ------
        IndexError
            A coordinate is out of bounds.
        """
        return values.lookup(self, coords)

    def nonzeros(self, order: str = "logical") -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return what a sparse tensor stores, or the non-zero elements of another.

        Parameters
        ----------
        order : str
            ``logical`` (row-major) or ``storage`` (as the layout keeps them).

        Returns
        -------
        coords : ndarray of int64, shape (n, rank)
        values : ndarray, shape (n,)
            Explicitly stored zeros are included.
        """
        return values.nonzeros(self, order)

    def validate(self) -> None:
        """Check every invariant of the layout, of element codes and of the scheme's parameters.

        Raises
        ------
        InvalidDescriptorError
            A rule is broken; rule and first offending position are named.
        BufferError
            A buffer is too small for what the index buffers say.
        """
        values.validate(self)

    def to_layout(
        self, layout: str | Layout, *, sequence_lengths: Sequence[int] | None = None, **options: Any
    ) -> Tensor:
        """Return the tensor in another layout, every value kept.

        Parameters
        ----------
        layout : str or Layout
            A name (``options`` are the layout's arguments, such as ``mode_order=[2, 0, 1]`` or
            ``tile_shape=[128, 128]``) or a layout object.
        sequence_lengths : sequence of int, optional
            Tokens of each sequence of a block_paged tensor, before or after: where they do not follow from the
            descriptor, and how a tensor is paged (by default all its tokens are one sequence).

        Raises
        ------
        UnsupportedError
            The layout cannot hold the tensor; the reason is named.
        """
        return relayout.to_layout(self, layout, options, sequence_lengths)

    def storage(self) -> Tensor:
        """Return the same tensor without its quantization section: the stored codes, sharing memory."""
        return relayout.storage(self)

    def scales(self) -> Tensor:
        """Return the scales of a quantized tensor, sharing memory.

        Scalar for per-tensor, (channels,) for per-channel, (other dimensions..., blocks) for block schemes (mxfp:
        float8_e8m0), (slots,) for block_paged.

        Raises
        ------
        UnsupportedError
            The tensor is not quantized.
        """
        return scheme_parts.scales(self)

    def zero_points(self) -> Tensor | None:
        """Return the int32 zero points of a quantized tensor in the shape of its scales, or None when symmetric.

        Raises
        ------
        UnsupportedError
            The tensor is not quantized.
        """
        return scheme_parts.zero_points(self)

    def dequantize(
        self,
        region: Any = None,
        *,
        dtype: Dtype = _FLOAT32,
        out: NDArray[Any] | None = None,
        sequence_lengths: Sequence[int] | None = None,
    ) -> Tensor:
        """Return the real values of a quantized tensor as a dense tensor.

        Parameters
        ----------
        region : NumPy-style key, optional
            Decode only this part; nothing else is touched.
        dtype : Dtype
            float32 (exact), or float16, bfloat16, float64 converted from it.
        out : ndarray, optional
            Receives the values; the result shares its memory.

        Raises
        ------
        UnsupportedError
            The tensor is not quantized, or by an unknown scheme.
        InvalidDescriptorError
            A scale or zero point is not legal.

        Format: quantization, formulas.
        """
        array = relayout.dequantize_region(self, region, dtype, out, sequence_lengths)
        return _dense(array, dtype)

    # Sections

    def with_shard(self, parent_shape: Sequence[int], shard_offset: Sequence[int]) -> Tensor:
        """Return the tensor, sharing memory, as the part of a larger one that starts at ``shard_offset``.

        Raises
        ------
        InvalidDescriptorError
            It sticks out of the parent, or its layout (csf, block_paged) cannot be a shard.

        Format: descriptor, shard.
        """
        return self._replace(shard=Shard(parent_shape, shard_offset))

    def with_statistics(self, statistics: Statistics | None) -> Tensor:
        """Return the tensor, sharing memory, with other statistics; :func:`hurray.compute_statistics` makes some.

        Raises
        ------
        InvalidDescriptorError
            They contradict the layout.

        Format: descriptor, statistics.
        """
        check_parts(statistics, None, None)
        return self._replace(statistics=statistics)

    # Other libraries

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return dlpack.export(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.device_of(self)

    def __hurray__(self, stream: Any = None) -> Any:
        """Return the tensor as a native protocol capsule: every buffer and the descriptor, without a copy."""
        return capsule.export(self, stream=stream)

    __hurray_buffer__ = __hurray__

    def to_torch(self, copy: bool | None = None) -> Any:
        """Return the tensor as a ``torch.Tensor``; ``copy`` as in :func:`hurray.to_torch`."""
        return foreign("to_torch")(self, copy=copy)

    def to_scipy(self, copy: bool | None = None) -> Any:
        """Return a sparse tensor as a SciPy sparse array; ``copy`` as in :func:`hurray.to_scipy`."""
        return foreign("to_scipy")(self, copy=copy)

    # Identity

    def __repr__(self) -> str:
        return tensor_repr(self)

    def __str__(self) -> str:
        return tensor_str(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return pickling.reduce_tensor(self, protocol)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: Any) -> Tensor:
        buffers = [b.copy() for b in self._buffers]
        result = Tensor._from_parts(self._descriptor, buffers, permissive=self._permissive, device_id=self._device_id)
        result._borrowed = self._borrowed
        return result._with_lengths(values.known_lengths(self))


def _dense(array: NDArray[Any], dtype: Dtype) -> Tensor:
    contiguous = np.ascontiguousarray(array)
    descriptor = relayout.new_descriptor(dtype, array.shape, contiguous.nbytes)
    return Tensor._from_parts(descriptor, (contiguous,))
