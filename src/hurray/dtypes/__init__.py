"""Element types: one table, and the match with the type systems of other libraries."""

from __future__ import annotations

from hurray.dtypes.table import ALL_DTYPES, TIER_1, Dtype

__all__ = ["ALL_DTYPES", "TIER_1", "Dtype"]
