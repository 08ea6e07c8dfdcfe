"""Figures as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["render_task", "seconds_text"]

_HEADER = ("", "contender", "median", "min", "max", "rate", "x limit", "x best peer", "")
_ROLES = {"limit": "limit", "ours": "ours", "peer": "peer"}


def seconds_text(seconds: float) -> str:
    """Return a time with the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or (unit == "us" and seconds * factor >= 0.1):
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _rate_text(row: dict[str, Any]) -> str:
    if "bytes_per_second" in row:
        return f"{row['bytes_per_second'] / 1e9:.3g} GB/s"
    if "items_per_second" not in row:
        return ""
    rate = row["items_per_second"]
    for unit, factor in ((" M/s", 1e6), (" k/s", 1e3), (" /s", 1.0)):
        if rate >= factor:
            return f"{rate / factor:.3g}{unit}"
    return f"{rate:.3g} /s"


def _ratio_text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    notes = []
    if row["spread"]:
        notes.append("! spread")
    if row["scale"] != 1:
        notes.append(f"measured on 1/{row['scale']:g} of the work")
    times = (seconds_text(row[key]) for key in ("median", "min", "max"))
    ratios = (_ratio_text(row["x_limit"]), _ratio_text(row["x_best_peer"]))
    return (_ROLES[row["role"]], row["name"], *times, _rate_text(row), *ratios, ", ".join(notes))


def _table(lines: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        cells = [
            c.ljust(w) if k in (0, 1, len(widths) - 1) else c.rjust(w)
            for k, (c, w) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()


def _goal_line(goal: dict[str, Any], quick: bool) -> str:
    verdict = "not judged on small sizes" if quick else "met" if goal["met"] else "MISSED"
    doubt = "; the spread is too wide to decide" if goal["spread"] and not quick else ""
    ratio, most = _ratio_text(goal["ratio"]), f"{goal['at_most']:.3g}"
    if goal["ratio"] < 0.1:
        ratio = f"{goal['ratio']:.3g}"
    return f"  goal: {goal['ours']} / {goal['against']} = {ratio}, at most {most}: {verdict}{doubt}"


def _fact_line(fact: dict[str, Any], quick: bool) -> str:
    text = f"  {fact['name']}: {fact['value']:.4g} {fact['unit']}".rstrip()
    if fact["at_most"] is None:
        return text
    verdict = "not judged on small sizes" if quick else "met" if fact["met"] else "MISSED"
    return f"{text}, at most {fact['at_most']:.4g}: {verdict}"


def _case_lines(case: dict[str, Any], quick: bool) -> Iterator[str]:
    yield ""
    yield f"{case['title']}"
    if case["rows"]:
        yield from _table([_HEADER, *(_cells(row) for row in case["rows"])])
    yield from (_fact_line(fact, quick) for fact in case["facts"])
    yield from (_goal_line(goal, quick) for goal in case["goals"])
    if any(row["spread"] for row in case["rows"]):
        yield "  ! spread: the slowest sample took over twice the quickest; repeat before deciding on that row"
    yield from (f"  skipped {entry['name']}: {entry['reason']}" for entry in case["skipped"])
    yield from (f"  FAILED {entry['name']}: {entry['reason']}" for entry in case["failed"])


def render_task(task: dict[str, Any], *, quick: bool = False) -> str:
    """Return the tables of a task."""
    head = f"task {task['number']} ({task['name']}): {task['title']}"
    lines = [head, "=" * len(head)]
    if "seconds" in task:
        lines.append(f"({task['seconds']:.1f} s in all)")
    for case in task["cases"]:
        lines += _case_lines(case, quick)
    if task.get("error"):
        lines.append(f"  FAILED: {task['error']}")
    lines += [f"  skipped: {reason}" for reason in task.get("skipped", ())]
    return "\n".join(lines)
