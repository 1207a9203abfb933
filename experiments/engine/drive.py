"""Driving a plan to its end: what is missing is sent to an executor, and whatever comes back is kept as it comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.engine import runner
from experiments.engine.deadline import DeadlineError, deadline
from experiments.engine.errors import ScenarioError, StoppedError, nearest
from experiments.engine.executors import Executor, InProcess, Notice, Report, executor, overdue
from experiments.engine.parts import Parts
from experiments.engine.plan import RunSpec
from experiments.engine.runner import RunResult
from experiments.engine.store import Store

__all__ = ["EXECUTORS", "Job", "Means", "Progress", "do_missing"]

EXECUTORS = ("local", "dask")

Progress = Callable[[int, int], None]
"""Told how many runs are done, of how many."""


@dataclass(frozen=True)
class Means:
    """With what runs are done, and what happens to those that do not end well.

    Attributes:
        workers: processes; None: one per core.
        executor: ``local`` (this process or processes of this machine) or ``dask``.
        scheduler: address of a Dask cluster (``tcp://host:port``); blank: one is started here.
        timeout: seconds that a run may take; None: any time.
        fail_fast: stop at the first run that does not end well.
        retry_failed: run again what failed before.
    """

    workers: int | None = None
    executor: str = "local"
    scheduler: str = ""
    timeout: float | None = None
    fail_fast: bool = False
    retry_failed: bool = False

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            known = nearest(self.executor, EXECUTORS)
            raise ScenarioError(f"executor = {self.executor!r}; allowed: {', '.join(EXECUTORS)}{known}")
        if self.scheduler and self.executor != "dask":
            raise ScenarioError(f"scheduler = {self.scheduler!r}: allowed with executor dask only")
        if self.workers is not None and self.workers < 1:
            raise ScenarioError(f"workers = {self.workers}; allowed: a whole number of at least 1")
        if self.timeout is not None and not self.timeout > 0:
            raise ScenarioError(f"timeout = {self.timeout:g}; allowed: more than 0 seconds")

    def open(self, runs: int, notice: Notice) -> Executor:
        """The executor for this many runs."""
        if self.executor == "local":
            return executor(self.workers, runs, notice, self.timeout)
        from experiments.engine.cluster import DaskCluster

        return DaskCluster(self.scheduler, self.workers, notice, self.timeout)


@dataclass(frozen=True)
class Job:
    """What is done for one run, from its scenario to its part in the store; small enough to travel to a worker.

    Attributes:
        parts: where finished runs are kept.
        steps: arguments of `runner.execute` after the spec.
        timeout: seconds that a run may take.
    """

    parts: Parts
    steps: tuple[Callable[..., Any], ...]
    timeout: float | None = None

    def __call__(self, spec: RunSpec) -> Report:
        """Do a run and keep it, where the store can be reached."""
        known = self.parts.status(spec.id)
        if known is not None:  # done by a worker that died before it could say so
            return Report(spec.id, known["status"], known["message"])
        return self.keep(spec, self.compute(spec))

    def compute(self, spec: RunSpec) -> RunResult:
        """Do a run; a run that takes too long is a result too."""
        _load()
        try:
            with deadline(self.timeout):
                result = runner.execute(spec, *self.steps)
        except DeadlineError:
            return RunResult("timeout", overdue(self.timeout or 0.0), {})
        kept = {name: frame for name, frame in result.frames.items() if name in self.parts.schemas}
        return RunResult(result.status, result.message, kept, result.traceback)

    def keep(self, spec: RunSpec, result: RunResult) -> Report:
        """Store a finished run."""
        self.parts.save(spec.id, result)
        return Report(spec.id, result.status, result.message)


def _load() -> None:
    """Import what a run needs before its time starts."""
    import experiments.build  # noqa: F401


def do_missing(
    store: Store, steps: tuple[Callable[..., Any], ...], means: Means, progress: Progress, notice: Notice
) -> dict[str, dict[str, str]]:
    """Status and message of every run of the plan, once the missing ones are done.

    Raises:
        StoppedError: a run did not end well and `Means.fail_fast` is on.
        ScenarioError: the work cannot be sent to other processes.
    """
    _hear_interrupts()
    if means.retry_failed:
        store.forget_failed()
    statuses: dict[str, Mapping[str, str]] = dict(store.finished())
    specs = store.plan.runs()
    missing = [spec for spec in specs if spec.id not in statuses]
    labels = {spec.id: spec.label for spec in specs}
    job = Job(store.parts, steps, means.timeout)
    progress(len(statuses), len(specs))
    if means.fail_fast:
        for run, entry in statuses.items():
            _stop_if_bad(labels[run], entry, len(missing))
    for report in _reports(missing, job, means, notice):
        statuses[report.id] = {"status": report.status, "message": report.message}
        _keep_word(report, store.parts)
        progress(len(statuses), len(specs))
        if means.fail_fast:
            _stop_if_bad(labels[report.id], statuses[report.id], len(specs) - len(statuses))
    return {run: dict(entry) for run, entry in statuses.items()}


def _hear_interrupts() -> None:
    """Put Python's handler of Ctrl-C back in place: polars puts its own there when imported, which misses some."""
    usual = signal.default_int_handler
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is usual:
        signal.signal(signal.SIGINT, usual)


def _reports(missing: list[RunSpec], job: Job, means: Means, notice: Notice) -> Any:
    chosen = means.open(len(missing), notice)
    if missing and not isinstance(chosen, InProcess):
        _refuse_unpicklable(missing, job)
    return chosen.reports(missing, job)


def _keep_word(report: Report, parts: Parts) -> None:
    """Store what a worker could not store itself: that it died, or never came back."""
    if report.status in ("died", "timeout") and parts.status(report.id) is None:
        parts.save(report.id, RunResult(report.status, report.message, {}))


def _stop_if_bad(label: str, entry: Mapping[str, str], left: int) -> None:
    if entry["status"] != "ok":
        raise StoppedError(f"{label}: {entry['status']}: {entry['message']}; stopped there, {left} runs not done")


def _refuse_unpicklable(specs: list[RunSpec], job: Job) -> None:
    """Nothing is started that could not be sent."""
    import cloudpickle

    for label, thing in {"what is run": job, **{spec.label: spec for spec in specs}}.items():
        try:
            cloudpickle.dumps(thing)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ScenarioError(
                f"{label} cannot be sent to another process ({reason}); allowed: what pickle can take, or workers = 1"
            ) from None
