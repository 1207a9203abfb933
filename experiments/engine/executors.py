"""Executors: the same work done here, in processes of this machine, or on a cluster (see `cluster`).

All yield reports as runs finish; what a run made is stored as it finishes, so that nothing gathers in the parent. A
worker that dies takes what it had in hand with it: each such run is done alone and tried twice; one that keeps killing
its worker is reported as ``died``, one that holds its worker beyond the time it was given as ``timeout``.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Protocol, cast

from experiments.engine.plan import RunSpec
from experiments.engine.threads import ONE_THREAD

__all__ = [
    "Executor",
    "InProcess",
    "LocalProcesses",
    "Notice",
    "Pooled",
    "Report",
    "available_cores",
    "executor",
    "overdue",
]

_SMALLEST_TASK_SECONDS = 0.1  # shorter runs travel together: sending a task costs about a millisecond
_TASKS_PER_WORKER = 2  # one running, one waiting
_GRACE_SECONDS = 60.0  # for a worker to start, and for a run to notice that its time is over
_TRIES_ALONE = 2  # a suspect may only have waited in the pool that broke: its own run and one retry
_IDLE_SECONDS = 120  # an unused pool stays warm this long
_WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Report:
    """What became of a run: ``ok``, ``failed``, ``timeout`` or ``died``, with a message and the seconds it took."""

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


def executor(workers: int | None, runs: int, notice: Notice = print, timeout: float | None = None) -> Executor:
    """In-process for one worker or one run, else local processes; None: as many workers as there are cores."""
    count = min(available_cores() if workers is None else workers, runs)
    return LocalProcesses(count, notice, timeout) if count > 1 else InProcess()


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


class Pooled:
    """Work sent to a pool of workers in small chunks, and what to do when workers die or never answer.

    A kind of pool says how it is opened, fed and ended, and which errors mean that a worker is gone.

    Args:
        workers: number of workers.
        notice: told in one line when a worker dies.
        timeout: seconds that a run may take; None: any time.
    """

    _lost: tuple[type[BaseException], ...] = ()

    def __init__(self, workers: int, notice: Notice = print, timeout: float | None = None) -> None:
        self.workers = workers
        self._notice = notice
        self._timeout = timeout

    def _open(self, workers: int) -> None:
        """Have this many workers, none of them broken."""
        raise NotImplementedError

    def _stop(self) -> None:
        """End the workers, whatever they are doing."""
        raise NotImplementedError

    def _send(self, chunk: Sequence[RunSpec], work: Any) -> Future[Any]:
        """Send a chunk to a worker; an error of `_lost` if the pool is broken."""
        raise NotImplementedError

    def _received(self, chunk: Sequence[RunSpec], answer: Any, work: Any) -> list[Report]:
        """Reports from the answer of a worker."""
        return cast("list[Report]", answer)

    def reports(self, specs: Sequence[RunSpec], work: Any) -> Iterator[Report]:
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

    def _through_pool(self, specs: Sequence[RunSpec], work: Any, suspects: list[RunSpec]) -> Iterator[Report]:
        """Reports of the runs whose workers live; the others are added to the suspects."""
        queue = list(reversed(specs))
        pending: dict[Future[Any], list[RunSpec]] = {}
        size = 1
        self._open(self.workers)
        while queue or pending:
            if not self._fill(queue, pending, size, work) and not pending:
                self._open(self.workers)
                continue
            done = wait(pending, timeout=self._patience(pending.values()), return_when=FIRST_COMPLETED).done
            lost: list[RunSpec] = [] if done else _joined(pending.values())
            for future in done:
                chunk = pending.pop(future)
                try:
                    reports = self._received(chunk, future.result(), work)
                except self._lost:
                    lost.extend(chunk)
                    continue
                size = _next_size(reports, len(queue), self.workers)
                yield from reports
            if lost:
                suspects.extend(self._after_loss(lost, pending, bool(done)))

    def _fill(self, queue: list[RunSpec], pending: dict[Future[Any], list[RunSpec]], size: int, work: Any) -> bool:
        """Keep every worker busy and one chunk waiting for it; False when the pool is broken."""
        while queue and len(pending) < _TASKS_PER_WORKER * self.workers:
            chunk = [queue.pop() for _ in range(min(size, len(queue)))]
            try:
                pending[self._send(chunk, work)] = chunk
            except self._lost:
                queue.extend(reversed(chunk))
                return False
        return True

    def _patience(self, chunks: Iterable[Sequence[RunSpec]]) -> float | None:
        """Seconds after which a pool that answers nothing is stuck: runs interrupt themselves before that."""
        return None if self._timeout is None else self._timeout * max(map(len, chunks)) + _GRACE_SECONDS

    def _after_loss(self, lost: list[RunSpec], pending: dict[Future[Any], list[RunSpec]], died: bool) -> list[RunSpec]:
        """Start anew after a death or a standstill; returns the runs that may be to blame."""
        blamed = list({spec.id: spec for spec in [*lost, *_joined(pending.values())]}.values())
        pending.clear()
        names = "; ".join(spec.label for spec in blamed)
        what = "died" if died else "did not come back"
        self._notice(f"a worker process {what} during one of: {names}. Each is now done alone.")
        self._open(self.workers)
        return blamed

    def _alone(self, spec: RunSpec, work: Any) -> Report:
        """A suspect in a pool where nothing else can be at fault: a first try of its own, and one more."""
        for _ in range(_TRIES_ALONE):
            self._open(1)
            try:
                answer = self._send([spec], work).result(self._patience([[spec]]))
                (report,) = self._received([spec], answer, work)
            except self._lost:
                continue
            except TimeoutError:
                self._notice(f"{spec.label}: its worker did not come back; given up.")
                return Report(spec.id, "timeout", overdue(self._timeout or 0.0))
            return report
        self._notice(f"{spec.label}: its worker process died again and again; given up.")
        return Report(spec.id, "died", "the worker process died at every try")


def overdue(seconds: float) -> str:
    """The message of a run that was not done in time."""
    return f"not done after {seconds:g} s"


def _joined(chunks: Iterable[Sequence[RunSpec]]) -> list[RunSpec]:
    return [spec for chunk in chunks for spec in chunk]


class LocalProcesses(Pooled):
    """Processes of this machine (loky: own start method, safe in notebooks), one thread each, kept warm."""

    _lost = (BrokenProcessPool,)
    _pool: Any = None

    def _open(self, workers: int) -> None:
        if self._pool is not None:
            self._stop()
        self._pool = _pool(workers)

    def _send(self, chunk: Sequence[RunSpec], work: Work) -> Future[Any]:
        return cast("Future[Any]", self._pool.submit(_chunk, chunk, work))

    def _stop(self) -> None:
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
