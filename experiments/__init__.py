"""Questions put to the market: scenarios, experiments, statistics, figures.

From Python, the same functions that the command line calls::

    from experiments import Scenario, compare, experiment, run

    results = run("baseline-2025")
    results.summary          # a polars frame

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.api import Results, compare, experiment, report, run
    from experiments.design import Design
    from experiments.engine.errors import ScenarioError
    from experiments.scenario import Scenario
    from experiments.scenario_files import scenario_names
    from experiments.sweeps import sweep

__all__ = [
    "Design",
    "Results",
    "Scenario",
    "ScenarioError",
    "compare",
    "experiment",
    "report",
    "run",
    "scenario_names",
    "sweep",
]

_HOMES = {
    "Design": "experiments.design",
    "Results": "experiments.api",
    "Scenario": "experiments.scenario",
    "ScenarioError": "experiments.engine.errors",
    "compare": "experiments.api",
    "experiment": "experiments.api",
    "report": "experiments.api",
    "run": "experiments.api",
    "scenario_names": "experiments.scenario_files",
    "sweep": "experiments.sweeps",
}


def _check_neighbours() -> None:
    """Refuse to work with a package of somebody else that is also called ``market`` or ``agents``."""
    here = Path(__file__).resolve().parent.parent
    for name in ("market", "agents"):
        spec = find_spec(name)
        place = Path(spec.origin).resolve().parent.parent if spec and spec.origin else None
        if place != here:
            found = f"was found in {place}" if place else "was not found"
            raise ImportError(
                f"neocloud-market needs its package {name!r} beside 'experiments' in {here}, but {name!r} {found}: "
                "another project installed a package of that name; use a separate environment"
            )


_check_neighbours()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'experiments' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
