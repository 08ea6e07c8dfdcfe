"""``repr`` and ``str`` of tensors, and the print options.

Dense tensors show their values elided like NumPy's; only the elements that are shown are read.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from hurray.errors import HurrayError
from hurray.layouts._region import Region
from hurray.tensor.accessors import ACCESSORS

if TYPE_CHECKING:
    from hurray.tensor.tensor import Tensor

__all__ = ["PrintOptionsCtx", "get_print_options", "print_options", "set_print_options", "tensor_repr", "tensor_str"]

_SPARSE_DISPLAY: ContextVar[str] = ContextVar("hurray_sparse_display", default="metadata")
_CHOICES = ("metadata", "content")
_EDGE = 3
#: component arrays that repr shows, in this order, for the layouts that have the short form
_CONTENT = {
    "coo": ("indices", "values"),
    "csr": ("values", "col_indices", "row_ptr"),
    "csc": ("values", "row_indices", "col_ptr"),
    "csf": ("values",),
}


def get_print_options() -> dict[str, Any]:
    """Return the print options in force in this task or thread."""
    return {"sparse_display": _SPARSE_DISPLAY.get()}


def set_print_options(*, sparse_display: str | None = None) -> None:
    """Set print options for this task or thread.

    Parameters
    ----------
    sparse_display : str, optional
        ``metadata`` (default) or ``content``: whether ``repr`` of a sparse tensor shows its component arrays.
    """
    chosen = _checked(sparse_display)
    if chosen is not None:
        _SPARSE_DISPLAY.set(chosen)


def _checked(sparse_display: str | None) -> str | None:
    if sparse_display is not None and sparse_display not in _CHOICES:
        raise ValueError(f"sparse_display is 'metadata' or 'content', not {sparse_display!r}")
    return sparse_display


class PrintOptionsCtx:
    """Print options for the duration of a ``with`` block; what :func:`print_options` returns.

    One object may be entered again, also inside itself.
    """

    __slots__ = ("_before", "_sparse_display")

    def __init__(self, *, sparse_display: str | None = None) -> None:
        self._sparse_display = _checked(sparse_display)
        self._before: list[str] = []

    def __enter__(self) -> None:
        self._before.append(_SPARSE_DISPLAY.get())
        set_print_options(sparse_display=self._sparse_display)

    def __exit__(self, *exc_info: object) -> None:
        _SPARSE_DISPLAY.set(self._before.pop())


def print_options(*, sparse_display: str | None = None) -> PrintOptionsCtx:
    """Set print options for the duration of a ``with`` block.

    Examples
    --------
    >>> import hurray
    >>> with hurray.print_options(sparse_display="content"):
    ...     hurray.eye(2).to_layout("coo")
    hurray.Tensor(layout='coo', shape=(2, 2), nnz=2, dtype=float64, indices=[[0 0]
     [1 1]], values=[1. 1.])
    """
    return PrintOptionsCtx(sparse_display=sparse_display)


def _edges(n: int) -> Any:
    if n <= 2 * _EDGE + 1:
        return range(n)
    return np.array([*range(_EDGE + 1), *range(n - _EDGE, n)], np.int64)


def _shown_values(t: Tensor) -> str | None:
    """Return the array text of a dense tensor whose values NumPy can print, else None."""
    d = t.descriptor
    if d.layout.kind != "dense" or d.quantization is not None or d.device.tag != 0 or None in d.shape:
        return None
    if d.dtype.is_opaque or (d.dtype.tier != 1 and not d.dtype.is_complex):
        return None
    size = t.size or 0
    limit = np.get_printoptions()["threshold"]
    region: Region | None = None if size <= limit else tuple(_edges(n) for n in t.shape if n is not None)
    try:
        values = t.to_numpy() if region is None else t._read_region(region)
    except HurrayError:
        return None
    return np.array2string(values, threshold=limit if region is None else 0, edgeitems=_EDGE)


def tensor_str(t: Tensor) -> str:
    """Return the bare array text of a dense tensor, else its ``repr``."""
    text = _shown_values(t)
    return tensor_repr(t) if text is None else text


def tensor_repr(t: Tensor) -> str:
    """Return the ``repr`` of a tensor."""
    text = _shown_values(t)
    if text is not None:
        return f"hurray.Tensor({text}, dtype={t.dtype})"
    name = t.layout.name
    quantized = f", quantization={t.quantization!r}" if t.quantization is not None else ""
    if name == "block_paged":
        layout: Any = t.layout
        pages = f"sequences={layout.num_seqs}, pages={layout.num_pages}, page_size={layout.page_size}"
        return f"hurray.Tensor(layout={name!r}, shape={t.shape}, {pages}, dtype={t.dtype}{quantized})"
    if name not in _CONTENT:
        return f"hurray.Tensor(shape={t.shape}, dtype={t.dtype}{quantized}, device={t.device!r})"
    parts = f"layout={name!r}, shape={t.shape}, nnz={t.layout.nnz}, dtype={t.dtype}"  # type: ignore[attr-defined]
    if _SPARSE_DISPLAY.get() == "content":
        names = [n for n in _CONTENT[name] if n in ACCESSORS[name]]
        parts += "".join(f", {n}={getattr(t, n)!s}" for n in names)
    return f"hurray.Tensor({parts})"
