"""Looking into a folder of results: what is there, and SQL over its tables. Nothing is run or changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from experiments.api import Results
from experiments.engine.errors import ScenarioError
from experiments.measure import response as measured
from experiments.measure.intervals import fieller_interval, runs_for_width

__all__ = ["cost_per_point", "overview", "query", "seeds_for"]

_YEAR_WEEKS = 52


def _tables(results: Results) -> dict[str, pl.LazyFrame]:
    """Tables by name, of an unfinished experiment those of the runs that are done; also what stands there as CSV."""
    out = results.out
    found = {name: results.scan(name) for name in ("runs", *results.store.schemas)}
    return found | {path.stem: pl.scan_csv(path, infer_schema_length=None) for path in sorted(out.glob("[!.]*.csv"))}


def overview(path: Path) -> dict[str, Any]:
    """What a folder holds, in plain values: experiment, progress, statuses, tables with rows and columns.

    Raises:
        ScenarioError: it holds no results.
    """
    results = Results.open(path)
    plan = results.plan
    return {
        "experiment": plan.name,
        "question": plan.question,
        "out": str(path),
        "progress": f"{results.runs.height} of {len(plan.rows())} runs done",
        "statuses": dict(results.runs["status"].value_counts().sort("status").iter_rows()),
        "arms": [arm.name for arm in plan.arms],
        "command": results.manifest.get("command", ""),
        "tables": [
            {"table": name, "rows": frame.select(pl.len()).collect().item(), "columns": frame.collect_schema().names()}
            for name, frame in _tables(results).items()
        ],
    }


def query(path: Path, sql: str) -> pl.DataFrame:
    """The answer to a query in SQL over the tables of a folder.

    Raises:
        ScenarioError: it holds no results, or the query cannot be answered; names the tables there are.
    """
    tables = _tables(Results.open(path))
    try:
        with pl.SQLContext(frames=tables) as context:
            return context.execute(sql, eager=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ScenarioError(f"--sql: {reason}; tables: {', '.join(tables)}") from None


def seeds_for(path: Path, metric: str, half_width: float, *, level: float = 0.95) -> list[dict[str, Any]]:
    """How many seeds give an interval of a half width, for the mean of each arm and its change from the first.

    Args:
        path: folder of an experiment.
        metric: by its display name.
        half_width: wanted, in the unit of the outcome.
        level: of the interval.

    Raises:
        ScenarioError: no results, no such outcome, or fewer than two seeds to judge by.
    """
    results = Results.open(path)
    weeks = min(_YEAR_WEEKS, *(arm.scenario.weeks for arm in results.plan.arms))
    found = results.metric(metric, weeks)
    first = str(found["arm"][0]) if found.height else ""
    changes = measured.against(found, first)
    return [
        {
            "arm": arm,
            "seeds": len(mine),
            "for the mean": _needed(mine, half_width, level),
            **_change(arm, first, changes, half_width, level),
        }
        for arm in found["arm"].unique(maintain_order=True)
        for mine in [_of(found, arm)]
    ]


def cost_per_point(
    path: Path, cost: str = "vendor_net_cost[amd]", share: str = "amd_hour_share"
) -> list[dict[str, Any]]:
    """What a point of share costs in each contrast, with Fieller's interval; null where the share may not move at all.

    Args:
        path: folder of an experiment.
        cost: display name of the outcome that is paid, USD.
        share: display name of the share that is gained.

    Raises:
        ScenarioError: no results, or no such outcome.
    """
    results = Results.open(path)
    weeks = min(_YEAR_WEEKS, *(arm.scenario.weeks for arm in results.plan.arms))
    paid, gained = (results.metric(name, weeks) for name in (cost, share))
    rows = []
    for contrast in results.plan.contrasts:
        costs, gains = (_paired(table, contrast.arm, contrast.base) for table in (paid, gained))
        points = [None if gain is None else 100.0 * gain for gain in gains]
        found = fieller_interval(costs, points, results.plan.level)
        bounds = {"low": found.low, "high": found.high, "pairs": found.n, "reason": found.reason}
        rows.append({"contrast": contrast.name, "USD per point": found.mean, **bounds})
    return rows


def _paired(table: pl.DataFrame, arm: str, base: str) -> list[float | None]:
    """Differences of an arm from another, in the order of the seeds."""
    return measured.against(table, base).filter(pl.col("arm") == arm).sort("seed")["value"].to_list()


def _change(arm: str, first: str, changes: pl.DataFrame, half_width: float, level: float) -> dict[str, int | None]:
    needed = None if arm == first else _needed(_of(changes, arm), half_width, level)
    return {f"for the change from {first}": needed}


def _of(found: pl.DataFrame, arm: str) -> list[float]:
    return found.filter(pl.col("arm") == arm)["value"].drop_nulls().to_list()


def _needed(values: list[float], half_width: float, level: float) -> int:
    try:
        return runs_for_width(values, half_width, level)
    except ValueError as error:
        raise ScenarioError(f"seeds for a width: {error}") from None
