"""Every bound on untrusted input, in one place."""

from __future__ import annotations

from hurray.records import record

__all__ = ["DEFAULT_LIMITS", "MAX_COMPOSITE_DEPTH", "MAX_RANK", "MAX_TILED_LEVELS", "Limits"]

#: Bounds that the format itself fixes.
MAX_RANK = 64
MAX_TILED_LEVELS = 8
MAX_COMPOSITE_DEPTH = 8


@record(kw_only=True)
class Limits:
    """Bounds that a reader applies before it allocates or descends.

    Parameters
    ----------
    max_descriptor_bytes : int
        Longest descriptor accepted, in bytes.
    max_buffer_bytes : int or None
        Largest single buffer accepted from a stream, in bytes; None for no bound.
    max_composite_depth : int
        Most composite heads on one path, the outermost included (the format allows 8).
    max_dense_bytes : int
        Largest dense array that a sparse, broadcast or curve-ordered tensor is expanded to, in bytes.
    step_bytes : int
        How much memory is set aside ahead of bytes that have arrived, in bytes.
    """

    max_descriptor_bytes: int = 16 * 1024 * 1024
    max_buffer_bytes: int | None = None
    max_composite_depth: int = MAX_COMPOSITE_DEPTH
    max_dense_bytes: int = 1 << 35
    step_bytes: int = 4 * 1024 * 1024


DEFAULT_LIMITS = Limits()
