"""What became of the parts of a foreign file: one row for each tensor and each key of its metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["DEQUANTIZED", "KEPT", "REFUSED", "SKIPPED", "UNDECIDED", "WIDENED", "ImportReport", "ReportRow"]

KEPT = "kept"
WIDENED = "widened"
DEQUANTIZED = "dequantized"
REFUSED = "refused"
SKIPPED = "skipped"
#: the data decide, and they have not been looked at yet
UNDECIDED = "undecided"

_ORDER = (KEPT, WIDENED, DEQUANTIZED, UNDECIDED, SKIPPED, REFUSED)


class ReportRow(NamedTuple):
    """One tensor or key.

    Parameters
    ----------
    what : str
        ``tensor`` or ``key``.
    name : str
        Its name in the foreign file.
    source : str
        Its type there.
    outcome : str
        ``kept``, ``widened`` (every value kept, in a wider type), ``dequantized``, ``refused``, ``skipped``, or
        ``undecided`` (until it is read).
    target : str
        Its type here; empty where there is none.
    note : str
        Why, where that needs words.
    """

    what: str
    name: str
    source: str
    outcome: str
    target: str = ""
    note: str = ""

    def __str__(self) -> str:
        target = f" -> {self.target}" if self.target else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.outcome}: {self.what} {self.name}: {self.source}{target}{note}"


class ImportReport:
    """What was kept, widened, dequantized, skipped or refused of a foreign file; it is complete once all is read.

    ``str(report)`` gives the counts, and a line for every tensor and key that is not simply there.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], ReportRow] = {}

    def add(self, row: ReportRow) -> None:
        """Set the row of a tensor or key, in place of an earlier one."""
        self._rows[row.what, row.name] = row

    def __iter__(self) -> Iterator[ReportRow]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def tensors(self) -> dict[str, ReportRow]:
        """Rows of the tensors, by name."""
        return {name: row for (what, name), row in self._rows.items() if what == "tensor"}

    @property
    def keys(self) -> dict[str, ReportRow]:
        """Rows of the metadata, by key."""
        return {name: row for (what, name), row in self._rows.items() if what == "key"}

    def counts(self, what: str) -> dict[str, int]:
        """Return how many tensors or keys had each outcome."""
        found = Counter(row.outcome for row in self if row.what == what)
        return {outcome: found[outcome] for outcome in _ORDER if outcome in found}

    def __str__(self) -> str:
        lines = []
        for what, plural in (("tensor", "tensors"), ("key", "metadata keys")):
            counts = ", ".join(f"{n} {outcome}" for outcome, n in self.counts(what).items())
            lines.append(f"{plural}: {counts or 'none'}")
        kinds = Counter(
            (row.source, row.target, row.outcome) for row in self if row.what == "tensor" and row.source != row.target
        )
        lines += [f"  {n} x {source} -> {target or outcome}" for (source, target, outcome), n in kinds.items()]
        lines += [str(row) for row in self if row.outcome not in (KEPT, WIDENED)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ImportReport of {len(self.tensors)} tensors and {len(self.keys)} keys>"
