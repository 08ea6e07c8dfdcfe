"""PyTorch tensors, both ways, on the CPU.

Dense memory crosses through DLPack without a copy, whatever the installed PyTorch and NumPy think of each other.  Types
that DLPack or an older PyTorch does not know cross as integers of the same width and are viewed as what they are
afterwards, so every bit is kept.  Sparse COO, CSR and CSC tensors keep their layout.

Format: types, element types; layouts, coo, csr and csc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hurray.dtypes.match import from_torch_name, to_torch_name
from hurray.dtypes.table import BY_NAME, Dtype
from hurray.errors import CopyRequiredError, UnsupportedError
from hurray.interop._optional import LazyModule
from hurray.layouts import CscLayout, CsrLayout
from hurray.tensor.build import adopt_codes, sparse_coo
from hurray.tensor.dlpack import import_dlpack, to_capsule
from hurray.tensor.tensor import Tensor
from hurray.tensor.values import check_codes, codes_of, payload_of

if TYPE_CHECKING:
    import torch
else:
    torch = LazyModule("torch", "torch")

__all__ = ["from_torch", "to_torch"]

# Types that cross as they are; every other one crosses as an integer of its width.
_PLAIN = frozenset(
    ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "complex64", "complex128")
)
_CARRIERS = {1: BY_NAME["uint8"], 2: BY_NAME["int16"], 4: BY_NAME["int32"], 8: BY_NAME["int64"]}


def to_torch(tensor: Tensor, *, copy: bool | None = None) -> torch.Tensor:
    """Return a tensor as a ``torch.Tensor`` on the CPU.

    Parameters
    ----------
    tensor : Tensor
        Row-major, column-major and strided tensors share their memory with the result, other dense layouts are put in
        order, coo, csr and csc become sparse tensors of the same layout.
    copy : bool, optional
        None copies when needed, False raises instead, True always copies.

    Returns
    -------
    torch.Tensor
        PyTorch has no read-only tensors: memory that is shared **must not be written to**, since it may belong to a
        mapped file (writing then ends the process) or to immutable bytes.  Ask for ``copy=True`` to change the result
        in place.

    Raises
    ------
    UnsupportedError
        Quantized tensors (see ``dequantize()`` and ``storage()``), element types and layouts that PyTorch has not, data
        on another device.
    CopyRequiredError
        ``copy=False``, but a copy is needed: bools, negative strides, layouts that must be put in order.

    Examples
    --------
    >>> import hurray
    >>> hurray.to_torch(hurray.arange(3, dtype=hurray.float32))  # doctest: +SKIP
    tensor([0., 1., 2.])

    Format: types, element types; layouts.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_torch takes a hurray.Tensor, not {type(tensor).__name__}")
    if tensor.quantization is not None:
        raise UnsupportedError(
            "the tensor is quantized: its stored codes are not its values; use dequantize() for values or storage() "
            "for the codes"
        )
    if tensor.device.tag != 0:
        raise UnsupportedError(f"the tensor is on {tensor.device!r}; only CPU memory can be handed to PyTorch here")
    target = _torch_dtype(tensor.dtype)
    if tensor.layout.kind == "dense":
        return _dense_to_torch(tensor, target, copy)
    build = _TO_SPARSE.get(tensor.layout.name)
    if build is None:
        raise UnsupportedError(
            f"PyTorch has no layout like {tensor.layout.name!r}; use to_numpy() or to_layout() for a dense copy"
        )
    tensor.validate()
    return build(tensor, copy)


def _torch_dtype(dtype: Dtype) -> torch.dtype:
    name = to_torch_name(dtype)
    found = None if name is None else getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise UnsupportedError(f"PyTorch {torch.__version__} has no dtype for {dtype}")
    return found


def _dense_to_torch(tensor: Tensor, target: torch.dtype, copy: bool | None) -> torch.Tensor:
    if copy is False and tensor.dtype.is_sub_byte:
        raise CopyRequiredError(f"{tensor.dtype} elements must be unpacked, which needs a copy")
    codes, shared = codes_of(tensor, payload_of(tensor))
    shared = shared and not tensor.dtype.is_sub_byte
    if copy is False and not shared:
        raise CopyRequiredError(f"layout {tensor.layout.name!r} must be put in order, which needs a copy")
    check_codes(tensor, codes)
    odd = _is_odd(codes)
    if copy is False and odd:
        raise CopyRequiredError("PyTorch takes no negative strides or unaligned elements, so a copy is needed")
    if (copy and shared) or odd:
        codes = codes.copy()
    if not codes.size:
        return torch.empty(codes.shape, dtype=target)
    return _lend_codes(codes, tensor.dtype, target)


def _is_odd(codes: NDArray[Any]) -> bool:
    """Tell whether PyTorch cannot take the memory as it is."""
    backwards = any(s < 0 and n > 1 for n, s in zip(codes.shape, codes.strides, strict=True))
    return backwards or codes.ctypes.data % max(1, codes.dtype.alignment) != 0


def _lend_codes(codes: NDArray[Any], dtype: Dtype, target: torch.dtype) -> torch.Tensor:
    carrier = dtype
    if dtype.name not in _PLAIN:
        carrier = _CARRIERS[codes.itemsize]
        codes = codes.view(carrier.storage)
    # The older form of capsule: every PyTorch reads it, and none looks at the read-only flag of the newer one.
    lent: torch.Tensor = torch.from_dlpack(to_capsule(codes, carrier, versioned=False))
    return lent if carrier is dtype else lent.view(target)


def _coo_to_torch(tensor: Tensor, copy: bool | None) -> torch.Tensor:
    if copy is False:
        raise CopyRequiredError("PyTorch keeps the coordinates of a coo tensor by dimension, which needs a copy")
    where = tensor.indices.to_numpy().astype(np.int64).T
    index = torch.from_dlpack(to_capsule(np.ascontiguousarray(where), BY_NAME["int64"], versioned=False))
    coalesced = tensor.layout.is_sorted  # type: ignore[attr-defined]
    return torch.sparse_coo_tensor(
        index, to_torch(tensor.values, copy=copy), _size(tensor), is_coalesced=coalesced or None, check_invariants=False
    )


def _csr_to_torch(tensor: Tensor, copy: bool | None) -> torch.Tensor:
    pointers, entries = _index_to_torch(tensor.row_ptr, copy), _index_to_torch(tensor.col_indices, copy)
    return torch.sparse_csr_tensor(
        pointers, entries, to_torch(tensor.values, copy=copy), _size(tensor), check_invariants=False
    )


def _csc_to_torch(tensor: Tensor, copy: bool | None) -> torch.Tensor:
    pointers, entries = _index_to_torch(tensor.col_ptr, copy), _index_to_torch(tensor.row_indices, copy)
    return torch.sparse_csc_tensor(
        pointers, entries, to_torch(tensor.values, copy=copy), _size(tensor), check_invariants=False
    )


_TO_SPARSE = {"coo": _coo_to_torch, "csr": _csr_to_torch, "csc": _csc_to_torch}


def _size(tensor: Tensor) -> tuple[int, ...]:
    return tuple(int(n) for n in tensor.shape if n is not None)


def _index_to_torch(index: Tensor, copy: bool | None) -> torch.Tensor:
    # A valid index lies below 2^63, so its bits are the same as int64.
    return to_torch(index, copy=copy).view(torch.int64)


def from_torch(tensor: torch.Tensor, *, copy: bool | None = None) -> Tensor:
    """Return the values of a ``torch.Tensor`` as a tensor.

    Parameters
    ----------
    tensor : torch.Tensor
        On the CPU; strided in any way (expanded ones too), or sparse COO, CSR or CSC without dense or batch dimensions.
        A tensor that requires a gradient is taken detached: only its values are kept.
    copy : bool, optional
        None shares the memory where the format can express it, and copies otherwise (bools are packed; conjugated and
        negated views are resolved; COO coordinates are put into rows; uncoalesced COO tensors are coalesced); False
        raises instead of copying; True always copies.

    Raises
    ------
    TypeError
        ``tensor`` is no ``torch.Tensor``.
    UnsupportedError
        The device, dtype or layout has no counterpart here.
    CopyRequiredError
        ``copy=False``, but a copy is needed.

    Examples
    --------
    >>> import hurray, torch  # doctest: +SKIP
    >>> hurray.from_torch(torch.ones(2, 3).T).layout  # doctest: +SKIP
    ColMajorLayout()

    Format: types, element types; layouts.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"from_torch takes a torch.Tensor, not {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise UnsupportedError(f"the tensor is on {tensor.device}; bring it to the CPU first, with .cpu()")
    if tensor.is_quantized or tensor.is_nested:
        kind = "quantized" if tensor.is_quantized else "nested"
        raise UnsupportedError(f"a {kind} torch.Tensor has no plain values here")
    dtype = from_torch_name(str(tensor.dtype))
    values = tensor.detach()
    if values.layout == torch.strided:
        return _dense_from_torch(values, dtype, copy)
    build = _FROM_SPARSE.get(str(values.layout))
    if build is None:
        raise UnsupportedError(f"a torch.Tensor of layout {values.layout} has no counterpart here; use t.to_dense()")
    if values.ndim != values.sparse_dim() + values.dense_dim() or values.dense_dim():
        shape = tuple(tensor.shape)
        raise UnsupportedError(f"a sparse torch.Tensor with batch or dense dimensions is not taken: {shape}")
    return build(values, copy)


def _dense_from_torch(t: torch.Tensor, dtype: Dtype, copy: bool | None) -> Tensor:
    if t.is_conj() or t.is_neg():
        if copy is False:
            raise CopyRequiredError("the tensor is a conjugated or negated view; resolving it needs a copy")
        t, copy = t.resolve_conj().resolve_neg(), None
    if not t.numel():
        return adopt_codes(np.empty(tuple(t.shape), dtype.storage), dtype)
    carrier = t if dtype.name in _PLAIN else t.view(_torch_dtype(_CARRIERS[t.element_size()]))
    codes = import_dlpack(carrier).codes
    return adopt_codes(codes.view(dtype.storage), dtype, copy=copy)


def _coo_from_torch(t: torch.Tensor, copy: bool | None) -> Tensor:
    if copy is False:
        raise CopyRequiredError("coordinates of a sparse_coo torch.Tensor must be put into rows, which needs a copy")
    whole = t.coalesce()
    rows = np.ascontiguousarray(import_dlpack(whole.indices()).codes.T).reshape(-1, t.ndim)
    return sparse_coo(from_torch(whole.values(), copy=copy), rows, tuple(t.shape), is_sorted=True)


def _csr_from_torch(t: torch.Tensor, copy: bool | None) -> Tensor:
    return _compressed(t, CsrLayout(int(t.values().shape[0])), t.crow_indices(), t.col_indices(), copy)


def _csc_from_torch(t: torch.Tensor, copy: bool | None) -> Tensor:
    return _compressed(t, CscLayout(int(t.values().shape[0])), t.ccol_indices(), t.row_indices(), copy)


_FROM_SPARSE = {
    "torch.sparse_coo": _coo_from_torch,
    "torch.sparse_csr": _csr_from_torch,
    "torch.sparse_csc": _csc_from_torch,
}


def _compressed(
    t: torch.Tensor, layout: CsrLayout | CscLayout, pointers: torch.Tensor, entries: torch.Tensor, copy: bool | None
) -> Tensor:
    values = from_torch(t.values().contiguous(), copy=copy)
    aux = [_index_from_torch(entries, copy), _index_from_torch(pointers, copy)]
    result = Tensor(values._buffers[0], values.dtype, tuple(t.shape), aux_buffers=aux, layout=layout)
    # PyTorch checks its index arrays only when it is told to.
    result.validate()
    return result


def _index_from_torch(index: torch.Tensor, copy: bool | None) -> NDArray[Any]:
    codes = import_dlpack(index.contiguous()).codes if index.numel() else np.empty(0, np.int64)
    if codes.dtype != np.int64:
        if copy is False:
            raise CopyRequiredError(f"indices of {codes.dtype} must be widened to 64 bits, which needs a copy")
        return codes.astype(np.int64)
    return codes.copy() if copy else codes
