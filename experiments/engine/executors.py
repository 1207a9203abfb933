"""Executors: the same work done here, or in processes of this machine.

Both take ``work(spec) -> report`` and yield reports as runs finish; the work itself stores its result, so nothing
large travels and the memory of the parent stays flat. A worker that dies breaks its pool: every run that was in the
pool's hands is done alone, in new pools, and retried once; one that keeps killing its worker is reported as ``died``.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Protocol, cast

from experiments.engine.plan import RunSpec
from experiments.engine.threads import ONE_THREAD

__all__ = ["Executor", "InProcess", "LocalProcesses", "Report", "available_cores", "executor"]

_SMALLEST_TASK_SECONDS = 0.1  # shorter runs travel together: sending a task costs about a millisecond
_TASKS_PER_WORKER = 2  # one running, one waiting
_TRIES_ALONE = 2  # a suspect may only have waited in the pool that broke: its own run and one retry
_IDLE_SECONDS = 120  # an unused pool stays warm this long
_WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Report:
    """What became of a run: ``ok``, ``failed`` or ``died``, with a message and the seconds it took."""

    id: str
    status: str
    message: str = ""
    seconds: float = 0.0


Work = Callable[[RunSpec], Report]
Notice = Callable[[str], None]


class Executor(Protocol):
    """Does the work for every spec and yields the reports in the order in which runs finish."""

    def reports(self, specs: Sequence[RunSpec], work: Work) -> Iterator[Report]:
        """One report per spec."""
        ...


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def executor(workers: int | None, runs: int, notice: Notice = print) -> Executor:
    """In-process for one worker or one run, else local processes; None: as many workers as there are cores."""
    count = min(available_cores() if workers is None else workers, runs)
    return LocalProcesses(count, notice) if count > 1 else InProcess()


def _timed(spec: RunSpec, work: Work) -> Report:
    start = time.perf_counter()
    report = work(spec)
    return replace(report, seconds=time.perf_counter() - start)


def _chunk(specs: Sequence[RunSpec], work: Work) -> list[Report]:
    """The task of a worker: a few runs, one after the other."""
    return [_timed(spec, work) for spec in specs]


class InProcess:
    """One run after the other in this process: nothing to start, errors easy to follow in a debugger."""

    def reports(self, specs: Sequence[RunSpec], work: Work) -> Iterator[Report]:
        """One report per spec, in order."""
        for spec in specs:
            yield _timed(spec, work)


class LocalProcesses:
    """Processes of this machine (loky: own start method, safe in notebooks), one thread each, kept warm.

    Args:
        workers: number of processes.
        notice: told in one line when a worker dies.
    """

    def __init__(self, workers: int, notice: Notice = print) -> None:
        self.workers = workers
        self._notice = notice
        self._pool: Any = None

    def reports(self, specs: Sequence[RunSpec], work: Work) -> Iterator[Report]:
        """One report per spec, as they finish; leaves no process behind when it is stopped."""
        suspects: list[RunSpec] = []
        finished = False
        try:
            yield from self._through_pool(specs, work, suspects)
            for spec in suspects:
                yield self._alone(spec, work)
            finished = True
        finally:
            if not finished:
                self._stop()

    def _through_pool(self, specs: Sequence[RunSpec], work: Work, suspects: list[RunSpec]) -> Iterator[Report]:
        """Reports of the runs whose workers live; the others are added to the suspects."""
        queue = list(reversed(specs))
        pending: dict[Future[list[Report]], list[RunSpec]] = {}
        size = 1
        self._pool = _pool(self.workers)
        while queue or pending:
            while queue and len(pending) < _TASKS_PER_WORKER * self.workers:
                chunk = [queue.pop() for _ in range(min(size, len(queue)))]
                future = self._submit(chunk, work)
                if future is None:  # broken before it took the task
                    queue.extend(reversed(chunk))
                    if not pending:
                        self._restart(self.workers)
                    break
                pending[future] = chunk
            broken: list[RunSpec] = []
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                chunk = pending.pop(future)
                try:
                    reports = future.result()
                except BrokenProcessPool:
                    broken.extend(chunk)
                    continue
                size = _next_size(reports, len(queue), self.workers)
                yield from reports
            if broken:
                broken.extend(spec for chunk in pending.values() for spec in chunk)
                pending.clear()
                self._announce(broken)
                suspects.extend(broken)
                self._restart(self.workers)

    def _submit(self, chunk: list[RunSpec], work: Work) -> Future[list[Report]] | None:
        try:
            future: Future[list[Report]] = self._pool.submit(_chunk, chunk, work)
        except BrokenProcessPool:
            return None
        return future

    def _announce(self, broken: list[RunSpec]) -> None:
        names = "; ".join(spec.label for spec in broken)
        self._notice(f"a worker process died during one of: {names}. Each is now done alone.")

    def _alone(self, spec: RunSpec, work: Work) -> Report:
        """A suspect in a pool where nothing else can be at fault: a first try of its own, and one more."""
        for _ in range(_TRIES_ALONE):
            self._restart(1)
            try:
                (report,) = self._pool.submit(_chunk, [spec], work).result()
            except BrokenProcessPool:
                continue
            return cast(Report, report)
        self._notice(f"{spec.label}: its worker process died again and again; given up.")
        return Report(spec.id, "died", "the worker process died at every try")

    def _restart(self, workers: int) -> None:
        self._stop()
        self._pool = _pool(workers)

    def _stop(self) -> None:
        """End the processes of the pool, whatever they are doing."""
        if self._pool is not None:
            with suppress(Exception):  # a broken pool may complain about being stopped
                self._pool.shutdown(wait=True, kill_workers=True)


def _next_size(reports: Sequence[Report], waiting: int, workers: int) -> int:
    """Runs per task: enough to fill a tenth of a second, few enough that all workers end together."""
    mean = sum(report.seconds for report in reports) / len(reports)
    fair = ceil(waiting / (_TASKS_PER_WORKER * workers))
    return max(1, min(ceil(_SMALLEST_TASK_SECONDS / max(mean, 1e-6)), fair))


def _pool(workers: int) -> Any:
    from loky import get_reusable_executor

    return get_reusable_executor(
        max_workers=workers,
        context="loky",
        timeout=_IDLE_SECONDS,
        env=ONE_THREAD,
        initializer=_start_worker,
        initargs=(os.getpid(),),
    )


def _start_worker(parent: int) -> None:
    """Leave interrupts to the parent, and never outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)
