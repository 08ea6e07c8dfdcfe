"""Files: the container with random access by name.

Format: file container.
"""

from __future__ import annotations

from hurray.container.reader import File
from hurray.container.verify import Problem, Report
from hurray.container.writer import Writer

__all__ = ["File", "Problem", "Report", "Writer"]
