"""How much memory the program takes that starts runs, keeps them and reports: at ten times the runs hardly more.

Runs are small (few tenants, few weeks); they are done by other processes, so that what is measured is the program that
started them, to the end of its report: statistics, figures, document. Each line is the highest memory of a process of
its own (``ru_maxrss``). From the project's folder::

    python benchmarks/memory.py [--few 50] [--many 500] [--weeks 4] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

GOAL = 1.2
"""Highest memory of the many runs over that of the few."""

SEEDS, TENANTS = 10, 100
BASE, CAP = "baseline-2025", "developer_cloud.cap_gpus"


def sweep(runs: int, **options: object) -> None:
    """More runs are more arms."""
    import experiments

    experiments.sweep(BASE, grid={CAP: range(0, 10 * runs // SEEDS, 10)}, seeds=SEEDS, **options)


def compare(runs: int, **options: object) -> None:
    """More runs are more seeds."""
    import experiments

    experiments.compare(f"{BASE}+{CAP}=0", BASE, seeds=runs // 2, **options)


DESIGNS = {"sweep": sweep, "compare": compare}


def peak_mb(design: str, runs: int, weeks: int, workers: int) -> float:
    """Highest memory of a fresh process that carries out a design, megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"out": f"{folder}/out", "weeks": weeks, "workers": workers, "set": {"tenants.rows": TENANTS}}
        arguments = [sys.executable, __file__, "--alone", json.dumps([design, runs, options])]
        done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout) / 1024.0


def _alone(design: str, runs: int, options: dict[str, object]) -> None:
    """What the fresh process does: a design, then one number on standard output, kilobytes."""
    import resource

    DESIGNS[design](runs, **options)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def lines(few: int, many: int, weeks: int, workers: int) -> Iterator[str]:
    """The table of the documentation, a line at a time."""
    yield f"| design | {few} runs, MB | {many} runs, MB | ratio | goal |"
    yield "|---|---|---|---|---|"
    for design in DESIGNS:
        small, large = (peak_mb(design, runs, weeks, workers) for runs in (few, many))
        yield f"| {design} | {small:.0f} | {large:.0f} | {large / small:.2f} | at most {GOAL} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--few", type=int, default=50)
    parser.add_argument("--many", type=int, default=500)
    parser.add_argument("--weeks", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--alone", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        _alone(*arguments.alone)
    else:
        for line in lines(arguments.few, arguments.many, arguments.weeks, arguments.workers):
            print(line, flush=True)
