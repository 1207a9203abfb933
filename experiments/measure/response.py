"""What an experiment with many arms measured: values by arm and seed, its levers, responses to them, main effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from experiments.engine.errors import ScenarioError, nearest
from experiments.measure.screening import elementary_effects, scaled, trajectories
from experiments.measure.stats import DIMENSIONS, Frame, display_name, t_interval, t_quantile

__all__ = [
    "MainEffect",
    "Names",
    "against",
    "levers",
    "main_effects",
    "metric_names",
    "response",
    "screening",
    "shape",
    "values",
]

_OF_A_RUN = ("id", "arm", "seed", "status", "message")
_FEWEST_FOR_A_CURVE = 3


Names = dict[str, tuple[str | int, ...]]
"""Dimensions of outcomes (the columns `DIMENSIONS`) by their display names."""


def metric_names(outcomes: Frame, weeks: int) -> Names:
    """Display name to dimensions of every outcome over weeks 1 to ``weeks``."""
    window = outcomes.lazy().filter(pl.col("window_first") == 1, pl.col("window_last") == weeks)
    found = window.select(DIMENSIONS).unique().collect(engine="streaming")
    rows = found.sort(DIMENSIONS).iter_rows(named=True)
    return {
        display_name(row["metric"], row["sku"], row["segment"], row["provider_class"], row["vendor"]): tuple(
            row[name] for name in DIMENSIONS
        )
        for row in rows
    }


def values(outcomes: Frame, runs: pl.DataFrame, metric: str, weeks: int, names: Names | None = None) -> pl.DataFrame:
    """An outcome by arm and seed: ``arm``, ``seed``, ``value``; runs that did not end well are left out.

    Args:
        outcomes: of all runs.
        runs: a row per arm and seed.
        metric: by its display name.
        weeks: last week of the window, which starts in week 1.
        names: from `metric_names`, where they are known already.

    Raises:
        ScenarioError: no such outcome.
    """
    names = metric_names(outcomes, weeks) if names is None else names
    if metric not in names:
        raise ScenarioError(f"no outcome {metric!r} over weeks 1-{weeks}{nearest(metric, names)}")
    mine = outcomes.lazy()
    for name, value in zip(DIMENSIONS, names[metric], strict=True):
        mine = mine.filter(pl.col(name) == value)
    finished = runs.filter(pl.col("status") == "ok").select("id", "arm", "seed")
    return finished.join(
        mine.select("run", "value").collect(engine="streaming"), left_on="id", right_on="run", maintain_order="left"
    ).drop("id")


def against(found: pl.DataFrame, base: str) -> pl.DataFrame:
    """The same as differences from one arm, seed by seed; seeds that the other arm has not are left out."""
    theirs = found.filter(pl.col("arm") == base).select("seed", base="value")
    paired = found.join(theirs, on="seed", maintain_order="left")
    return paired.with_columns(value=pl.col("value") - pl.col("base")).drop("base")


# ------------------------------------------------------------------------------------------------ levers


def levers(runs: pl.DataFrame) -> list[str]:
    """Numeric keys in which the arms differ; of several that move together the first stands for all.

    Returns:
        The key that changes least often from arm to arm first, which is the order of a grid; a key that is null in
        some arm is none.
    """
    arms = runs.unique("arm", keep="first", maintain_order=True)
    found: list[str] = []
    for name in arms.columns[len(_OF_A_RUN) :]:
        column = arms[name]
        varies = _numeric(column) and not column.null_count() and column.n_unique() > 1
        if varies and not any(_together(arms, other, name) for other in found):
            found.append(name)
    return sorted(found, key=lambda name: int((arms[name] != arms[name].shift()).sum()))


def _together(arms: pl.DataFrame, one: str, other: str) -> bool:
    """Whether two keys rise and fall in step: each value of one goes with one value of the other, in order."""
    pairs = arms.select(one, other).unique().sort(one)
    if not pairs.height == arms[one].n_unique() == arms[other].n_unique():
        return False
    steps = pairs[other].cast(pl.Float64).diff().drop_nulls()
    return bool((steps > 0).all() or (steps < 0).all())


def shape(runs: pl.DataFrame) -> str:
    """What figure shows the arms: ``curve``, ``map``, ``screening``, ``tornado``, or blank.

    A curve has one lever, a map is a full grid of two, a screening is made of the trajectories of Morris, a tornado
    has many levers. Blank: arms that differ by name only, by words, or in fewer than three steps.
    """
    found = levers(runs)
    arms = runs.unique("arm", keep="first", maintain_order=True)
    words = [name for name in arms.columns[len(_OF_A_RUN) :] if not _numeric(arms[name]) and arms[name].n_unique() > 1]
    if not found or (words and len(found) < 2):
        return ""
    if len(found) == 1:
        return "curve" if arms[found[0]].n_unique() >= _FEWEST_FOR_A_CURVE and not words else ""
    if not words and trajectories(arms, found):
        return "screening"
    counts = [arms[name].n_unique() for name in found]
    if len(found) == 2 and not words and arms.height == counts[0] * counts[1]:
        return "map"
    return "tornado" if arms.height > len(found) + 1 else ""


def _numeric(column: pl.Series) -> bool:
    return bool(column.dtype.is_numeric()) or column.dtype == pl.Boolean


def response(found: pl.DataFrame, runs: pl.DataFrame, keys: Sequence[str], level: float = 0.95) -> pl.DataFrame:
    """Mean and t interval of an outcome at each setting of the levers, sorted by them.

    Args:
        found: from `values`.
        runs: a row per arm and seed.
        keys: the levers.
        level: of the intervals.

    Returns:
        The keys, ``arm``, ``mean``, ``low``, ``high``, ``n``; null where undefined.
    """
    arms = runs.unique("arm", keep="first", maintain_order=True).select(*keys, "arm")
    rows = []
    for arm in arms["arm"]:
        interval = t_interval(found.filter(pl.col("arm") == arm)["value"].to_list(), level)
        rows.append((arm, interval.mean, interval.low, interval.high, interval.n))
    schema = {"arm": pl.String, "mean": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64}
    return arms.join(pl.DataFrame(rows, schema=schema, orient="row"), on="arm", maintain_order="left").sort(
        [*keys], maintain_order=True
    )


# ------------------------------------------------------------------------------------------------ many levers


@dataclass(frozen=True)
class MainEffect:
    """How an outcome moves when a lever goes from the low to the high end of what was swept, all others as they are."""

    key: str
    lowest: float
    highest: float
    change: float
    low: float
    high: float


def main_effects(found: pl.DataFrame, runs: pl.DataFrame, keys: Sequence[str], level: float = 0.95) -> list[MainEffect]:
    """Main effects by least squares on the means of the arms, the largest first.

    A straight line through each lever: what bends or depends on other levers is in the interval, not in the change.
    Empty where there are too few arms for the levers, or two levers that cannot be told apart.

    Args:
        found: from `values`.
        runs: a row per arm and seed.
        keys: the levers.
        level: of the intervals.
    """
    table = response(found, runs, keys, level).drop_nulls("mean")
    design = np.column_stack([np.ones(table.height), scaled(table, keys)])
    free = table.height - design.shape[1]
    if free < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return []
    means = table["mean"].to_numpy()
    slopes, *_ = np.linalg.lstsq(design, means, rcond=None)
    noise = float(((means - design @ slopes) ** 2).sum()) / free
    errors = np.sqrt(noise * np.diag(np.linalg.inv(design.T @ design)))
    half = t_quantile(free, level) * errors
    effects = [
        MainEffect(key, float(table[key].min()), float(table[key].max()), slope, slope - width, slope + width)  # type: ignore[arg-type]
        for key, slope, width in zip(keys, slopes[1:].tolist(), half[1:].tolist(), strict=True)
    ]
    return sorted(effects, key=lambda effect: -abs(effect.change))


def screening(found: pl.DataFrame, runs: pl.DataFrame, keys: Sequence[str], level: float = 0.95) -> pl.DataFrame:
    """Elementary effects on an outcome; see `experiments.measure.screening.elementary_effects`.

    Args:
        found: from `values`.
        runs: a row per arm and seed, of arms whose `shape` is ``screening``.
        keys: the levers.
        level: of the intervals.
    """
    means = found.group_by("arm").agg(pl.col("value").mean().alias("mean"))
    arms = runs.unique("arm", keep="first", maintain_order=True).select("arm", *keys)
    return elementary_effects(arms.join(means, on="arm", how="left", maintain_order="left"), keys, level)
