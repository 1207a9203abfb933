"""Sweeps: the plan that runs every point of a grid, a table or a sample, and the call that carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.engine.errors import ScenarioError, nearest
from experiments.engine.plan import DEFAULT_SEEDS, Arm, Contrast, Plan, Screen, make_plan, seeds_from, variant
from experiments.points import Lever, Point, grid_points, lever_of, table_points
from experiments.samples import range_of, sample_points
from experiments.scenario import DEFAULT_SCENARIO, Scenario

if TYPE_CHECKING:
    from experiments.api import Results

__all__ = ["planned", "points_of", "sweep", "sweep_plan"]


def sweep_plan(
    scenario: Scenario,
    points: Iterable[Point],
    *,
    seeds: int | None = None,
    first_seed: int | None = None,
    own_seeds: bool = False,
    compared: bool = True,
    level: float = 0.95,
) -> Plan:
    """The plan that runs every point.

    Args:
        scenario: what the points change.
        points: one arm each.
        seeds: of every arm that does not say how many of its own.
        first_seed: the first of them.
        own_seeds: no two arms share a seed: independent luck in place of paired.
        compared: measure every arm against the first.
        level: of the intervals.

    Raises:
        ScenarioError: a key or value is unknown, two arms have one name, or no arm can be.
    """
    count = DEFAULT_SEEDS if seeds is None else seeds
    arms: list[Arm] = []
    start = seeds_from(first_seed, 1)[0]
    for point in points:
        own = seeds_from(start, point.seeds or count) if own_seeds or point.seeds else ()
        start += len(own) if own_seeds else 0
        arms.append(variant(point.name, scenario, point.values, f"sweep, arm {point.name}", own))
    names = [arm.name for arm in arms]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ScenarioError(f"sweep: two arms are {twice[0]!r}; allowed: each value once")
    contrasts = list(_against_first(arms)) if compared and not own_seeds else []
    name = f"{scenario.name}-sweep"
    return make_plan(name, scenario, arms, seeds=count, first_seed=first_seed, contrasts=contrasts, level=level)


def _against_first(arms: Sequence[Arm]) -> Iterator[Contrast]:
    first, *others = [arm.name for arm in arms if not arm.problem] or [""]
    return (Contrast(f"{other} against {first}", other, first, column=False) for other in others)


# ------------------------------------------------------------------------------------------------ the call

Grid = Mapping[str | tuple[str, ...], "str | Iterable[Any]"]
"""Values by key (or by several keys, then each value is a tuple): a list, or a text as on the command line."""


def _lever(keys: str | tuple[str, ...], steps: str | Iterable[Any]) -> Lever:
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if isinstance(steps, str):
        return lever_of(f"{','.join(names)}={steps}")
    rows: list[Any] = [step if isinstance(keys, tuple) else (step,) for step in steps]
    if wrong := [row for row in rows if not isinstance(row, tuple) or len(row) != len(names)]:
        raise ScenarioError(f"grid of {', '.join(names)}: {wrong[0]!r}; allowed: {len(names)} values, one for each key")
    return Lever(names, tuple(rows))


def points_of(
    grid: Grid | Sequence[str] = (),
    sample: str = "",
    ranges: Mapping[str, Any] | Sequence[str] = (),
    table: str | Path | None = None,
    sample_seed: int = 0,
) -> list[Point]:
    """The points of a grid, a sample or a table, whichever is given; see `sweep`.

    Raises:
        ScenarioError: none or several of them, or one that cannot be used.
    """
    given = [name for name, asked in (("grid", grid), ("sample", sample), ("table", table)) if asked]
    if len(given) != 1:
        raise ScenarioError(f"a sweep needs one of grid, sample and table; given: {' and '.join(given) or 'none'}")
    if ranges and not sample:
        raise ScenarioError(f"{next(iter(ranges))}: ranges are for a sample; a grid is --grid key=a,b,c")
    if table:
        return table_points(Path(table))
    if sample:
        texts = [f"{key}={_span(one)}" for key, one in ranges.items()] if isinstance(ranges, Mapping) else ranges
        return sample_points(sample, [range_of(text) for text in texts], seed=sample_seed)
    if isinstance(grid, Mapping):
        return grid_points([_lever(keys, steps) for keys, steps in grid.items()])
    return grid_points([lever_of(text) for text in grid])


def _span(asked: Any) -> str:
    """``(0, 0.2)`` as on the command line; texts as they are."""
    return asked if isinstance(asked, str) else ":".join(map(str, asked))


def planned(
    scenario: str | Path | Scenario,
    points: Sequence[Point],
    *,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    weeks: int | None = None,
    show: Sequence[str] = (),
    sampled: bool = False,
    **luck: Any,
) -> Plan:
    """The plan of a sweep, everything checked; arguments as in `sweep`.

    Raises:
        ScenarioError: bad input, in one line.
    """
    from experiments.measure.outcomes import OUTCOMES

    for metric in show:
        if metric.partition("[")[0] not in OUTCOMES:
            raise ScenarioError(f"show {metric!r}: no such outcome{nearest(metric.partition('[')[0], OUTCOMES)}")
    base = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    plan = sweep_plan(base.changed(assignments, set, weeks), points, compared=not sampled, **luck)
    return replace(plan, screens=(Screen("Response", tuple(show)),)) if show else plan


def sweep(
    scenario: str | Path | Scenario = DEFAULT_SCENARIO,
    *,
    grid: Grid | Sequence[str] = (),
    sample: str = "",
    ranges: Mapping[str, Any] | Sequence[str] = (),
    table: str | Path | None = None,
    sample_seed: int = 0,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seeds: int | None = None,
    seed: int | None = None,
    own_seeds: bool = False,
    weeks: int | None = None,
    show: Sequence[str] = (),
    **options: Any,
) -> Results:
    """Run a scenario at every point of a grid, a sample or a table, each with every seed.

    Args:
        scenario: name, file or `Scenario`.
        grid: ``{"developer_cloud.cap_gpus": [0, 1000], "lepton.take_rate": "0:0.2:0.05"}``; keys moved together:
            ``{("weeks", "demand.regime"): [(26, True), (52, False)]}``; None leaves a key as it is.
        sample: ``lhs:64``, ``sobol:256`` or ``morris:10``.
        ranges: of a sample: ``{"lepton.take_rate": (0, 0.2)}``, or texts ``key=lo:hi``, ``key=lo:hi:log``, ``key``.
        table: CSV file, a row an arm.
        sample_seed: of the sample.
        set: changes of the scenario before those of the arms, by key.
        assignments: the same as texts.
        seeds: number of seeds of each arm (default 16).
        seed: the first of them.
        own_seeds: no two arms share a seed.
        weeks: length of each run.
        show: outcomes to show, by display name.
        options: see `experiments.api.carry_out`.

    Raises:
        ScenarioError: bad input, in one line; nothing is run or written.
    """
    from experiments.api import carry_out

    points = points_of(grid, sample, ranges, table, sample_seed)
    luck: dict[str, Any] = {"seeds": seeds, "first_seed": seed, "own_seeds": own_seeds}
    changes: dict[str, Any] = {"set": set, "assignments": assignments, "weeks": weeks, "show": show}
    return carry_out(planned(scenario, points, sampled=bool(sample), **changes, **luck), **options)
