"""Running until an interval is narrow enough, and once more with fresh seeds.

Each batch of seeds is an experiment of its own in a folder of its own (``seeds-1-16``, ``seeds-17-24``, ... and
``fresh``), so that all of them can be interrupted, continued and looked into like any other; the same call again reads
what is there and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from experiments.api import Results, carry_out, comparison, default_out
from experiments.engine.errors import ScenarioError, nearest
from experiments.engine.plan import Arm, Contrast, Plan, make_plan
from experiments.measure import response
from experiments.measure.outcomes import OUTCOMES
from experiments.measure.sequential import MINIMUM, STEP, half_width, stop_at
from experiments.measure.stats import Interval, t_interval
from experiments.scenario import Scenario

__all__ = ["Precision", "precise", "until"]

_YEAR_WEEKS = 52


@dataclass(frozen=True)
class Precision:
    """What came of it.

    Attributes:
        metric: display name of the outcome.
        of: the contrast, or the arm where there is none.
        wanted: half width asked for.
        reached: whether the seeds that decided reach it.
        deciding: interval of the seeds that were looked at to decide when to stop.
        fresh: interval of as many seeds that decided nothing.
        out: the folder.
    """

    metric: str
    of: str
    wanted: float
    reached: bool
    deciding: Interval
    fresh: Interval
    out: Path

    def lines(self) -> Iterator[str]:
        """What it says, for people."""
        word = "narrow enough" if self.reached else "still too wide at the maximum"
        yield f"{self.metric}, {self.of}: {self.deciding.n} seeds, {word} (half width {self.wanted:g} wanted)"
        for name, found in (("seeds that decided when to stop", self.deciding), ("fresh seeds", self.fresh)):
            bounds = "no interval" if found.low is None else f"[{found.low:.6g}, {found.high:.6g}]"
            mean = "undefined" if found.mean is None else f"{found.mean:.6g}"
            yield f"  {name}: {mean} {bounds} ({100 * found.level:g} %, {found.n} seeds)"


def precise(
    metric: str,
    wanted: float,
    base: str | Path | Scenario,
    variant: str | Path | Scenario | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seed: int | None = None,
    weeks: int | None = None,
    **options: Any,
) -> Precision:
    """`until` for one scenario, or for the difference of two; arguments as in `experiments.compare`."""
    given = [base] if variant is None else [base, variant]
    loaded = [one if isinstance(one, Scenario) else Scenario.load(one) for one in given]
    changed = [scenario.changed(assignments, set, weeks) for scenario in loaded]
    if variant is None:
        plan = make_plan(changed[0].name, changed[0], [Arm(changed[0].name, changed[0])], first_seed=seed)
    else:
        plan = comparison(changed[0], changed[1:], seed=seed)
    return until(plan, metric, wanted, **options)


def until(
    plan: Plan,
    metric: str,
    wanted: float,
    *,
    maximum: int = 256,
    minimum: int = MINIMUM,
    out: str | Path | None = None,
    **options: Any,
) -> Precision:
    """Add seeds until the interval of an outcome has a half width, then repeat with fresh ones.

    Args:
        plan: what to run; its first seed is where the seeds start.
        metric: display name of the outcome over the first year: of the first contrast, or of the first arm.
        wanted: half width to stop at.
        maximum: seeds after which to stop in any case.
        minimum: seeds before the first look.
        out: folder; default `default_out`.
        options: see `carry_out`.

    Raises:
        ScenarioError: no such outcome, a width that is not positive, or an arm with seeds of its own.
    """
    _check(plan, metric, wanted, minimum, maximum)
    folder = Path(out) if out is not None else default_out(plan, usual=False)
    first, found = plan.seeds[0], list[float | None]()
    size = min(minimum, maximum)
    while stop_at(found, wanted, maximum=maximum, minimum=minimum, level=plan.level) is None:
        found += _batch(plan, metric, first + len(found), size, folder, "", options)
        size = min(STEP, maximum - len(found)) or STEP
    fresh = _batch(plan, metric, first + len(found), len(found), folder, "fresh", options)
    width = half_width(found, plan.level)
    deciding, beside = (t_interval(values, plan.level) for values in (found, fresh))
    reached = width is not None and width <= wanted
    result = Precision(metric, _subject(plan), wanted, reached, deciding, beside, folder)
    _write(result)
    return result


def _check(plan: Plan, metric: str, wanted: float, minimum: int, maximum: int) -> None:
    if metric.partition("[")[0] not in OUTCOMES:
        raise ScenarioError(f"until {metric!r}: no such outcome{nearest(metric.partition('[')[0], OUTCOMES)}")
    if not wanted > 0:
        raise ScenarioError(f"until {metric}={wanted:g}; allowed: a half width above 0")
    if not 2 <= minimum <= maximum:
        raise ScenarioError(
            f"until {metric}: at least {minimum} and at most {maximum} seeds; allowed: 2 <= least <= most"
        )
    if any(arm.seeds for arm in plan.arms):
        raise ScenarioError("until: an arm has seeds of its own; allowed: arms that share theirs")


def _batch(
    plan: Plan, metric: str, first: int, count: int, folder: Path, name: str, options: dict[str, Any]
) -> list[float | None]:
    """Values by seed of some more seeds, in their order."""
    seeds = tuple(range(first, first + count))
    place = folder / (name or f"seeds-{seeds[0]}-{seeds[-1]}")
    results = carry_out(replace(plan, seeds=seeds), out=place, **options)
    found = _values(results, metric)
    return [found.get(seed) for seed in seeds]


def _values(results: Results, metric: str) -> dict[int, float | None]:
    weeks = min(_YEAR_WEEKS, *(arm.scenario.weeks for arm in results.plan.arms))
    table = results.metric(metric, weeks)
    contrast = _contrast(results.plan)
    if contrast is not None:
        table = response.against(table, contrast.base)
    arm = contrast.arm if contrast else results.plan.arms[0].name
    return {row["seed"]: row["value"] for row in table.iter_rows(named=True) if row["arm"] == arm}


def _contrast(plan: Plan) -> Contrast | None:
    return plan.contrasts[0] if plan.contrasts else None


def _subject(plan: Plan) -> str:
    contrast = _contrast(plan)
    return contrast.name if contrast else plan.arms[0].name


def _write(result: Precision) -> None:
    entry = asdict(result) | {"out": str(result.out)}
    (result.out / "precision.json").write_text(json.dumps(entry, indent=2) + "\n", encoding="utf-8")
