"""Programs of their own for tests: a script that runs the small simulation of `conftest` in place of the market."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

FAKE_MARKET = f"""
import os, signal, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import cloudpickle
import conftest
from experiments import api, cli, sweep
from experiments.engine import runner
from experiments.measure import outcomes, weekly
from experiments.show import report

cloudpickle.register_pickle_by_value(conftest)
runner.simulate, outcomes.outcomes, weekly.derived = (
    conftest.fake_simulate, conftest.fake_outcomes, conftest.fake_derived
)
with_figures, report.write = report.write, lambda results: None
"""


def environment() -> dict[str, str]:
    """Of a program that finds this project first."""
    paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def start(script: str, folder: Path) -> subprocess.Popen[str]:
    """Start a script with the small simulation in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", FAKE_MARKET + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=folder,
    )


def finish(script: str, folder: Path, code: int = 0) -> str:
    """Run a script to its end; returns what it printed."""
    process = start(script, folder)
    output, complaints = process.communicate(timeout=300)
    assert process.returncode == code, complaints
    return output
