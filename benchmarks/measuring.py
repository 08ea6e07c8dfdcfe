"""Verify the contenders of a case, then time them in turn: A B C A B C, so that a slow moment hits them all."""

from __future__ import annotations

import statistics
import sys
from typing import Any

from benchmarks.model import BEST_PEER, Case, Contender, Goal, least_sample

__all__ = ["FLAG_ABOVE", "measure_case"]

#: a row whose slowest sample is more than this times its quickest is flagged
FLAG_ABOVE = 2.0


def measure_case(case: Case, *, repeat: int, quick: bool) -> dict[str, Any]:
    """Run a case and return its figures as plain data."""
    able = [c for c in case.contenders if _verified(case, c, quick)]
    for _ in range(repeat):
        for contender in able:
            if not _guarded(case, contender, contender.sample):
                contender.samples.clear()
        able = [c for c in able if c.samples]
    rows = [_row(c, case) for c in able]
    _add_ratios(rows)
    return {
        "title": case.title,
        "n_bytes": case.n_bytes,
        "n_items": case.n_items,
        "rows": rows,
        "goals": [g for goal in case.goals if (g := _judge(goal, rows)) is not None],
        "facts": [_fact(f.name, f.value, f.unit, f.at_most) for f in case.facts],
        "skipped": [{"name": name, "reason": reason} for name, reason in case.skipped],
        "failed": [{"name": name, "role": role, "reason": reason} for name, role, reason in case.failed],
    }


def _verified(case: Case, contender: Contender, quick: bool) -> bool:
    return _guarded(case, contender, contender.verify) and _guarded(
        case, contender, lambda: contender.calibrate(least_sample(quick))
    )


def _guarded(case: Case, contender: Contender, step: Any) -> bool:
    """Run a step; what goes wrong drops the contender and is told."""
    try:
        step()
    except Exception as error:
        case.failed.append((contender.name, contender.role, f"{type(error).__name__}: {error}"))
        print(f"    {contender.name} failed: {error}", file=sys.stderr)
        return False
    return True


def _row(contender: Contender, case: Case) -> dict[str, Any]:
    samples = contender.samples
    median = statistics.median(samples)
    row = {
        "name": contender.name,
        "role": contender.role,
        "samples": samples,
        "min": min(samples),
        "median": median,
        "max": max(samples),
        "spread": max(samples) > FLAG_ABOVE * min(samples),
        "scale": contender.scale,
        "loops": contender.loops,
    }
    if case.n_bytes:
        row["bytes_per_second"] = case.n_bytes / median
    if case.n_items:
        row["items_per_second"] = case.n_items / median
    return row


def _add_ratios(rows: list[dict[str, Any]]) -> None:
    limit = next((row for row in rows if row["role"] == "limit"), None)
    peer = best_peer(rows)
    for row in rows:
        row["x_limit"] = row["median"] / limit["median"] if limit else None
        row["x_best_peer"] = row["median"] / peer["median"] if peer else None


def best_peer(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the quickest peer's row."""
    return min((row for row in rows if row["role"] == "peer"), key=lambda row: row["median"], default=None)


def _judge(goal: Goal, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return a goal with the ratio that was reached; None when one of the two did not run."""
    ours = next((r for r in rows if r["role"] == "ours" and goal.ours in (None, r["name"])), None)
    if goal.against == BEST_PEER:
        other = best_peer(rows)
    else:
        other = next((r for r in rows if r["name"] == goal.against), None)
    if ours is None or other is None:
        return None
    ratio = ours["median"] / other["median"]
    return {
        "ours": ours["name"],
        "against": goal.against if goal.against != BEST_PEER else f"{BEST_PEER} ({other['name']})",
        "ratio": ratio,
        "at_most": goal.at_most,
        "met": ratio <= goal.at_most,
        "spread": ours["spread"] or other["spread"],
    }


def _fact(name: str, value: float, unit: str, at_most: float | None) -> dict[str, Any]:
    met = None if at_most is None else value <= at_most
    return {"name": name, "value": value, "unit": unit, "at_most": at_most, "met": met}
