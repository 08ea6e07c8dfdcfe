"""Tensors and composites: what users hold."""
