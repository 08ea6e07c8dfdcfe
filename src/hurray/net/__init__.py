"""Tensors on the move: between processes and between machines."""
