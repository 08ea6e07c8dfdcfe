"""Pure functions on NumPy arrays: the arithmetic of the format and nothing else.

Kernels import NumPy and the standard library, never another part of this library. They trust their
callers: whatever came from outside is checked before a kernel sees it, and the only error a kernel raises
is :class:`ValueError`, for a call that no input can justify.
"""
