"""The same work on a Dask cluster: a scheduler somewhere, workers anywhere, results stored here.

Workers need the program (the same version of it) and no shared disk: what a run made travels back and is stored by
this process, so that tables are the same as from any other executor. Without an address a scheduler and workers are
started on this machine, as programs of their own, so that a script needs no ``__main__`` guard.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from experiments.engine.errors import ScenarioError, StoreError
from experiments.engine.executors import Notice, Pooled, Report, available_cores
from experiments.engine.plan import RunSpec, sources_digest
from experiments.engine.runner import RunResult
from experiments.engine.threads import ONE_THREAD

if TYPE_CHECKING:
    from experiments.engine.drive import Job

__all__ = ["DaskCluster", "LocalCluster"]

_START_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_END_SECONDS = 2.0
_IDLE_SECONDS = 60  # a scheduler that lost its owner ends itself
_POLL_SECONDS = 0.05

_Answer = list[tuple[RunResult, float]]


def _remote(chunk: Sequence[RunSpec], job: Job, sources: str) -> _Answer:
    """The task of a worker: results and seconds of a few runs."""
    if sources_digest() != sources:
        raise ScenarioError(f"the cluster's worker on {os.uname().nodename} has another version of the program")
    answers = []
    for spec in chunk:
        start = time.perf_counter()
        result = job.compute(spec)
        answers.append((result, time.perf_counter() - start))
    return answers


class DaskCluster(Pooled):
    """Workers of a Dask cluster.

    Args:
        scheduler: its address; blank: a cluster is started on this machine, and ended with the work.
        workers: of a cluster started here (None: one per core), and how much is sent ahead to one that stands.
        notice: told in one line when a worker dies.
        timeout: seconds that a run may take.
    """

    def __init__(
        self, scheduler: str = "", workers: int | None = None, notice: Notice = print, timeout: float | None = None
    ) -> None:
        super().__init__(workers or available_cores(), notice, timeout)
        self._address = scheduler
        self._given = workers
        self._own: LocalCluster | None = None
        self._client: Any = None
        self._executor: Any = None

    def reports(self, specs: Sequence[RunSpec], work: Any) -> Iterator[Report]:
        """One report per spec, as they finish; a cluster that was started here ends with them."""
        try:
            yield from super().reports(specs, work)
        except ImportError as error:
            raise ScenarioError(f"the cluster's workers cannot run the program ({error}); install it there") from None
        finally:
            self._stop()

    def _open(self, workers: int) -> None:
        """Connect; a cluster replaces dead workers by itself, so there is nothing to do the second time."""
        if self._client is not None:
            return
        distributed = _distributed()
        self._lost = (distributed.scheduler.KilledWorker, CancelledError, distributed.CancelledError)
        if not self._address:
            self._own = LocalCluster(workers)
        address = self._own.address if self._own else self._address
        try:
            self._client = distributed.Client(address, timeout=_ANSWER_SECONDS)
            self._client.wait_for_workers(1, timeout=_START_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            self._stop()
            reason = " ".join(str(error).split())
            raise ScenarioError(f"scheduler = {address!r}: no cluster answers there ({reason})") from None
        if self._given is None and not self._own:
            self.workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
        self._executor = self._client.get_executor(pure=False)

    def _send(self, chunk: Sequence[RunSpec], work: Job) -> Future[Any]:
        return cast("Future[Any]", self._executor.submit(_remote, chunk, work, sources_digest()))

    def _received(self, chunk: Sequence[RunSpec], answer: _Answer, work: Job) -> list[Report]:
        pairs = zip(chunk, answer, strict=True)
        return [replace(work.keep(spec, result), seconds=seconds) for spec, (result, seconds) in pairs]

    def _stop(self) -> None:
        with suppress(Exception):  # nothing that a cluster says in parting matters any more
            if self._executor is not None:
                self._executor.shutdown(wait=False)
            if self._client is not None:
                self._client.close(timeout=_END_SECONDS)
        self._client = self._executor = None
        if self._own is not None:
            self._own.stop()
            self._own = None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ScenarioError(
            "executor = 'dask' needs the package dask[distributed]: pip install 'neocloud-market[cluster]' gets it"
        ) from None
    return distributed


class LocalCluster:
    """A scheduler and workers of one thread each on the loopback of this machine, each a program of its own.

    Args:
        workers: how many.

    Attributes:
        address: of the scheduler.
        processes: scheduler, then workers.

    Raises:
        StoreError: the scheduler does not start.
    """

    def __init__(self, workers: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="neocloud-dask-")
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            self.address = self._start_scheduler()
            for _ in range(workers):
                self._start("dask_worker", self.address, "--nthreads", "1", "--no-dashboard", "--death-timeout", "30")
        except BaseException:
            self.stop()
            raise

    def _start_scheduler(self) -> str:
        told = Path(self._folder.name) / "scheduler.json"
        idle = ("--idle-timeout", f"{_IDLE_SECONDS} s")
        self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *idle, scheduler_file=told
        )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self.processes[0].poll() is None:
            with suppress(OSError, ValueError, KeyError):
                return str(json.loads(told.read_text(encoding="utf-8"))["address"])
            time.sleep(_POLL_SECONDS)
        raise StoreError(f"a Dask scheduler does not start here: {self._last_words()}")

    def _start(self, program: str, *arguments: str, scheduler_file: Path | None = None) -> None:
        """Start a part of the cluster, out of reach of the terminal's Ctrl-C: this process ends it."""
        root = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0", "PYTHONPATH": paths}
        told = ("--scheduler-file", str(scheduler_file)) if scheduler_file else ("--local-directory", self._folder.name)
        with self._log(len(self.processes)).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *arguments, *told],
                env={**os.environ, **ONE_THREAD, **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)

    def _log(self, index: int) -> Path:
        return Path(self._folder.name) / f"{index}.log"

    def _last_words(self) -> str:
        lines = self._log(0).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")

    def stop(self) -> None:
        """End all of it at once: nothing is kept there."""
        for process in reversed(self.processes):
            _kill_group(process)
        self.processes.clear()
        self._folder.cleanup()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """A worker and the nanny over it are one session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
