"""Cases and contenders.

A case is one piece of work. Its contenders do that same work: the physical limit (a plain copy, write or read of the
same bytes), this library, and others. Each is verified before anything is timed; what cannot run is named with the
reason.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.interpreter import Interpreter

__all__ = ["BEST_PEER", "HEAVY", "LEFT_OUT", "Case", "Contender", "Fact", "Goal", "Skipped", "least_sample", "needed"]

#: what a goal says instead of a contender's name
BEST_PEER = "best peer"
# Work quicker than this is repeated within one sample, so that the clock's grain and one interrupt do not decide.
_LEAST_SAMPLE = 0.02
_MOST_LOOPS = 2000


#: slow to load, or slow where cores are shared: a quick run does without them
HEAVY = frozenset({"torch", "bitsandbytes", "sparse"})
#: packages left out of this run
LEFT_OUT: set[str] = set()


class Skipped(Exception):
    """A contender cannot run here; the message says why."""


def needed(*names: str) -> list[Any]:
    """Import modules that a contender needs.

    Raises
    ------
    Skipped
        One of them is not installed, or left out.
    """
    found = []
    for name in names:
        # safetensors.torch needs torch, too.
        for part in name.split("."):
            if part in LEFT_OUT and not name.startswith("scipy"):
                raise Skipped(f"a quick run leaves {part} out (--heavy takes it in)")
        try:
            found.append(importlib.import_module(name))
        except ImportError as error:
            root = name.partition(".")[0]
            missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == root
            raise Skipped(f"{root} is not installed" if missing else f"{name} does not import: {error}") from None
    return found


@dataclass(slots=True)
class Contender:
    """One way to do the work of a case.

    ``measure(loops)`` gives seconds for one piece of work. ``scale`` is how many times the whole work is what the
    contender does (10: it does a tenth, and its seconds count ten times).
    """

    name: str
    role: str
    measure: Callable[[int], float]
    verify: Callable[[], None]
    loops: int | None = None
    scale: float = 1.0
    samples: list[float] = field(default_factory=list)

    def calibrate(self, least: float) -> None:
        """Choose the number of loops from one untimed piece of work, where it is not fixed."""
        if self.loops is None:
            seconds = max(self.measure(1), 1e-9)
            self.loops = max(1, min(_MOST_LOOPS, round(least / seconds)))

    def sample(self) -> None:
        """Take one sample."""
        self.samples.append(self.measure(self.loops or 1) * self.scale)


@dataclass(frozen=True, slots=True)
class Goal:
    """This library's time is at most ``at_most`` times that of ``against``: a contender's name or BEST_PEER."""

    against: str
    at_most: float
    ours: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure that is no time, such as memory against output size."""

    name: str
    value: float
    unit: str
    at_most: float | None = None


class Case:
    """One piece of work and its contenders.

    Parameters
    ----------
    title : str
    n_bytes, n_items : int, optional
        How much work it is, for the rate column.
    """

    def __init__(self, title: str, *, n_bytes: int | None = None, n_items: int | None = None) -> None:
        self.title = title
        self.n_bytes = n_bytes
        self.n_items = n_items
        self.contenders: list[Contender] = []
        self.goals: list[Goal] = []
        self.facts: list[Fact] = []
        self.skipped: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str, str]] = []

    def limit(self, name: str, run: Callable[[], Any], **options: Any) -> None:
        """Add a physical limit; the first one added is the one that ratios are taken to."""
        self._add("limit", name, lambda: run, options)

    def ours(self, name: str, run: Callable[[], Any], **options: Any) -> None:
        """Add a way of this library; the first one added is the one that goals speak of."""
        self._add("ours", name, lambda: run, options)

    def peer(self, name: str, make: Callable[..., Callable[[], Any]], *modules: str, **options: Any) -> None:
        """Add another library: ``make`` gets the imported modules and returns what is timed."""
        self._add("peer", name, lambda: make(*needed(*modules)), options)

    def remote(
        self,
        name: str,
        interpreter: Callable[[], Interpreter],
        run: str,
        *,
        setup: str = "",
        before: str = "",
        after: str = "",
        check: str = "True",
        role: str = "peer",
        loops: int | None = None,
        scale: float = 1.0,
    ) -> None:
        """Add snippets that another interpreter runs and times.

        ``run`` is timed. ``before`` and ``after`` go around every sample, untimed. ``check`` is an expression over what
        ``run`` left behind.
        """
        try:
            process = interpreter()
            process.exec(setup)
        except Skipped as error:
            self.skipped.append((name, str(error)))
            return
        except RuntimeError as error:
            self.failed.append((name, role, str(error)))
            return

        def verify() -> None:
            process.exec(before)
            process.exec(run)
            if not process.eval(f"bool({check})"):
                raise AssertionError(f"wrong values: not {check}")
            process.exec(after)

        def measure(n_loops: int) -> float:
            return process.time(run, n_loops, before=before, after=after)

        fixed = 1 if before or after else loops
        self.contenders.append(Contender(name, role, measure, verify, fixed, scale))

    def measured(self, name: str, role: str, measure: Callable[[int], float], verify: Callable[[], None]) -> None:
        """Add a contender that takes its own time, once a sample."""
        self.contenders.append(Contender(name, role, measure, verify, 1))

    def goal(self, against: str, at_most: float, *, ours: str | None = None) -> None:
        """State what ratio is aimed for."""
        self.goals.append(Goal(against, at_most, ours))

    def fact(self, name: str, value: float, unit: str, at_most: float | None = None) -> None:
        """State a figure that is no time."""
        self.facts.append(Fact(name, value, unit, at_most))

    def _add(self, role: str, name: str, make: Callable[[], Callable[[], Any]], options: dict[str, Any]) -> None:
        try:
            self.contenders.append(_local(name, role, make(), **options))
        except Skipped as error:
            self.skipped.append((name, str(error)))
        except Exception as error:
            self.failed.append((name, role, f"{type(error).__name__}: {error}"))


def _local(
    name: str,
    role: str,
    run: Callable[[], Any],
    *,
    check: Callable[[Any], object] | None = None,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
    loops: int | None = None,
    scale: float = 1.0,
) -> Contender:
    """Return a contender that runs here. ``check`` gets the result, and raises or returns False when it is wrong."""

    def verify() -> None:
        if before is not None:
            before()
        result = run()
        if check is not None and check(result) is False:
            raise AssertionError("wrong values")
        del result
        if after is not None:
            after()

    def measure(n_loops: int) -> float:
        if before is not None:
            before()
        gc.collect()
        start = perf_counter()
        for _ in range(n_loops):
            result = run()
        seconds = (perf_counter() - start) / n_loops
        del result
        if after is not None:
            after()
        return seconds

    return Contender(name, role, measure, verify, 1 if before or after else loops, scale)


def least_sample(quick: bool) -> float:
    """Return the least seconds that one sample should last."""
    return _LEAST_SAMPLE / 10 if quick else _LEAST_SAMPLE
