"""Files: the container with random access by name.

Format: file container.
"""
