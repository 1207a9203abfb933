"""What a plan will take, judged by one of its runs: time, disk, number of runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.api import steps
from experiments.engine.drive import Job
from experiments.engine.errors import ScenarioError
from experiments.engine.executors import available_cores
from experiments.engine.plan import Plan, RunSpec
from experiments.engine.store import DEFAULT_TABLES, Store
from experiments.measure import outcomes as measured

__all__ = ["Estimate", "estimate"]

_WARM_WEEKS = 1  # loads and compiles what the first run of a process waits for


@dataclass(frozen=True)
class Estimate:
    """What a plan will take.

    Attributes:
        arms: of the plan.
        impossible: arms among them that cannot be.
        runs: to do.
        weeks: of all runs together.
        run_weeks: of the timed run.
        run_seconds: it took.
        run_bytes: it stored.
        workers: that the total is for.
    """

    arms: int
    impossible: int
    runs: int
    weeks: int
    run_weeks: int
    run_seconds: float
    run_bytes: int
    workers: int

    @property
    def seconds(self) -> float:
        """Of all runs, on so many workers."""
        return self.run_seconds * self.weeks / self.run_weeks / min(self.workers, self.runs)

    @property
    def bytes(self) -> float:
        """Of all runs on disk; figures and reports come on top."""
        return self.run_bytes * self.weeks / self.run_weeks

    def lines(self) -> Iterator[str]:
        """What it says, for people."""
        impossible = f", {self.impossible} of them impossible" if self.impossible else ""
        yield f"{self.arms} arms{impossible}: {self.runs} runs, {self.weeks:,} weeks in all"
        yield f"one run of {self.run_weeks} weeks, timed here: {self.run_seconds:.2f} s, {_size(self.run_bytes)}"
        yield f"all: about {_duration(self.seconds)} with {self.workers} workers, {_size(self.bytes)} on disk"


def _size(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(1.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def estimate(plan: Plan, *, workers: int | None = None, tables: Sequence[str] = DEFAULT_TABLES) -> Estimate:
    """Time one run of a plan and say what all will take; nothing is kept.

    Args:
        plan: to judge.
        workers: processes; default one per core.
        tables: recorded tables that would be kept.

    Raises:
        ScenarioError: the run that was tried failed.
    """
    runs = plan.runs()
    spec = runs[0]
    with tempfile.TemporaryDirectory(prefix="neocloud-") as folder:
        store = Store(Path(folder), plan, measured.OUTCOME_SCHEMA, tables)
        job = Job(store.parts, steps())
        job.compute(RunSpec(spec.id, spec.arm, spec.seed, spec.scenario.set("weeks", _WARM_WEEKS)))
        store.parts.open()
        start = time.perf_counter()
        report = job(spec)
        seconds = time.perf_counter() - start
        if report.status != "ok":
            raise ScenarioError(f"{spec.label}, tried for its time: {report.message}")
        size = sum(path.stat().st_size for path in (store.parts.folder / spec.id).iterdir())
    return Estimate(
        arms=len(plan.arms),
        impossible=sum(bool(arm.problem) for arm in plan.arms),
        runs=len(runs),
        weeks=sum(run.scenario.weeks for run in runs),
        run_weeks=spec.scenario.weeks,
        run_seconds=seconds,
        run_bytes=size,
        workers=workers or available_cores(),
    )
