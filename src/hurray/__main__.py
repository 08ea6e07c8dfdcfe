"""Entry point of ``python -m hurray`` and of the ``hurray`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

try:
    from hurray.cli.main import run
except ModuleNotFoundError as _error:
    if _error.name is None or _error.name.partition(".")[0] not in ("typer", "rich"):
        raise
    _missing = _error.name

    def run(arguments: Sequence[str] | None = None) -> int:
        """Say what is missing."""
        sys.stderr.write(f"hurray: the command line needs the package {_missing!r}: pip install typer rich\n")
        return 1


if __name__ == "__main__":
    sys.exit(run())
