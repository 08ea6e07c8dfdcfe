"""The tasks, by number."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.context import Context
from benchmarks.model import Case

__all__ = ["TASKS", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """A group of cases that run in one process; ``function`` of ``module`` yields them."""

    number: int
    name: str
    title: str
    module: str
    function: str

    def build(self, context: Context) -> Iterator[Case]:
        """Yield the cases, each measured before the next is made."""
        build: Callable[[Context], Iterator[Case]] = getattr(
            importlib.import_module(f"benchmarks.tasks.{self.module}"), self.function
        )
        return build(context)


_ROWS = (
    Task(1, "save", "save a checkpoint to a file system in memory", "files", "save"),
    Task(2, "load", "load a file: values summed, and nothing touched", "files", "load"),
    Task(3, "list", "open lazily and list 300 tensors", "many", "list_tensors"),
    Task(4, "read-one", "open 10,000 tensors and read one", "many", "read_one"),
    Task(5, "read-all", "read all of 10,000 tensors", "many", "read_all"),
    Task(6, "stream", "tensors between processes: sockets, pipes, shared memory", "streams", "streams"),
    Task(7, "descriptor", "decode and encode descriptors", "descriptors", "descriptors"),
    Task(8, "windows", "windows out of a tiled file", "windows", "windows"),
    Task(9, "sparse", "build and unpack sparse layouts", "sparse", "conversions"),
    Task(10, "lookup", "100,000 look-ups in sparse tensors", "sparse", "lookups"),
    Task(11, "quantization", "quantize and dequantize", "quantization", "quantization"),
    Task(12, "layouts", "row-major to tiles and curves and back; curve indices", "layouts", "layouts"),
    Task(13, "import", "import, as whole processes", "imports", "imports"),
)
TASKS: dict[int, Task] = {task.number: task for task in _ROWS}
