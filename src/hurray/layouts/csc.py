"""CSC: CSR of the columns.

Format: layouts, csr / csc.
"""

from __future__ import annotations

from hurray.layouts.csr import CompressedLayout, CsrLayout
from hurray.records import record

__all__ = ["CscLayout"]


@record
class CscLayout(CompressedLayout):
    """Compressed columns: row indices of the stored elements, column after column, and where each column starts.

    Parameters
    ----------
    nnz : int
        Number of stored elements.

    Examples
    --------
    >>> CscLayout(4)
    CscLayout(nnz=4)

    Format: layouts, csc.
    """

    tag = 0x08
    name = "csc"
    major = 1
    roles = ("row_indices", "col_ptr")


# Each needs the other, so this module, which csr imports last, ties the knot.
CsrLayout.transposed = CscLayout
CscLayout.transposed = CsrLayout
