"""Intervals and paired differences: is the difference between two arms real?

Arms share seeds, and a seed is the same luck in every arm, so effects are differences within a seed; their spread is
what the t interval sees. An outcome that is undefined in a run is left out of its interval and the row says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TypeVar

import numpy as np
import polars as pl

from experiments.measure.outcomes import OUTCOMES, UNITS
from experiments.measure.outer import RANGE_SCHEMA, apart, range_over_draws
from experiments.measure.records import HEADLINE, Floats

__all__ = [
    "DIMENSIONS",
    "EFFECTS_SCHEMA",
    "SUMMARY_SCHEMA",
    "UNITS",
    "Interval",
    "Values",
    "bca_interval",
    "compared",
    "defined",
    "display_name",
    "effects",
    "effects_by_contrast",
    "paired",
    "paired_differences",
    "pieces",
    "summaries_by_arm",
    "summarise",
    "t_interval",
    "t_quantile",
    "welch_interval",
    "wilson_interval",
]

DIMENSIONS = ("metric", "vendor", "sku", "segment", "provider_class", "window_first", "window_last")
"""Columns that say what a number is of."""

_TEXT, _WEEK, _NUMBER, _COUNT = pl.String(), pl.Int32(), pl.Float64(), pl.Int64()
_OF: dict[str, pl.DataType] = {name: _WEEK if name.startswith("window") else _TEXT for name in DIMENSIONS}
_BOUNDS: dict[str, pl.DataType] = dict.fromkeys(("low", "high", "level"), _NUMBER)

SUMMARY_SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys(("experiment", "arm"), _TEXT),
    **_OF,
    "unit": _TEXT,
    "mean": _NUMBER,
    **_BOUNDS,
    "runs": _COUNT,
    "failed": _COUNT,
    "reason": _TEXT,
}
"""Columns of `summarise`: ``runs`` have a value, ``failed`` runs of the arm have none of anything."""

EFFECTS_SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys(("experiment", "contrast"), _TEXT),
    **_OF,
    **dict.fromkeys(("unit", "arm", "base"), _TEXT),
    "difference": _NUMBER,
    **_BOUNDS,
    "pairs": _COUNT,
    **RANGE_SCHEMA,
    "reason": _TEXT,
}
"""Columns of `effects`: ``pairs`` are the seeds with a value in both arms; the range is over outer draws, if any."""

_ONE = "an interval needs two values or more"
_NONE = "no value"

Values = Sequence[float | None] | Floats


@dataclass(frozen=True)
class Interval:
    """A mean (or share, or difference) with its bounds; null bounds have a reason."""

    mean: float | None
    low: float | None
    high: float | None
    n: int
    level: float
    reason: str | None = None


def defined(values: Values) -> Floats:
    """The values that are numbers."""
    numbers = np.array([np.nan if value is None else value for value in values], float)
    return np.asarray(numbers[np.isfinite(numbers)])


def _checked(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level} is not between 0 and 1")
    return level


def t_quantile(degrees: float, level: float) -> float:
    """Two-sided t quantile; from scipy.special, which loads ten times faster than scipy.stats."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 * (1.0 + level)))


def t_interval(values: Values, level: float = 0.95) -> Interval:
    """Student's interval of the mean; undefined values are left out.

    Raises:
        ValueError: a level outside (0, 1).
    """
    numbers, n = defined(values), len(defined(values))
    _checked(level)
    if n < 2:
        return Interval(float(numbers[0]) if n else None, None, None, n, level, _ONE if n else _NONE)
    mean = float(numbers.mean())
    half = t_quantile(n - 1, level) * float(numbers.std(ddof=1)) / sqrt(n)
    return Interval(mean, mean - half, mean + half, n, level)


def paired(arm: Values, base: Values, level: float = 0.95) -> Interval:
    """Student's interval of ``arm - base``, value by value; pairs with an undefined side are left out.

    Raises:
        ValueError: the two differ in length, or a level outside (0, 1).
    """
    pairs = zip(arm, base, strict=True)
    return t_interval([None if a is None or b is None else a - b for a, b in pairs], level)


def welch_interval(first: Values, second: Values, level: float = 0.95) -> Interval:
    """Welch's interval of the difference of two independent means, ``first - second``; n is the smaller sample.

    Raises:
        ValueError: a level outside (0, 1).
    """
    one, two = defined(first), defined(second)
    n = min(len(one), len(two))
    _checked(level)
    difference = float(one.mean() - two.mean()) if n else None
    if n < 2 or difference is None:
        return Interval(difference, None, None, n, level, _ONE if n else _NONE)
    parts = [float(sample.var(ddof=1)) / len(sample) for sample in (one, two)]
    variance = sum(parts)
    if variance == 0.0:
        return Interval(difference, difference, difference, n, level)
    degrees = variance**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (one, two), strict=True))
    half = t_quantile(degrees, level) * sqrt(variance)
    return Interval(difference, difference - half, difference + half, n, level)


def wilson_interval(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Wilson's interval of a share, for counts.

    Raises:
        ValueError: more successes than trials, a negative count, or a level outside (0, 1).
    """
    from scipy.stats import binomtest

    _checked(level)
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if trials == 0:
        return Interval(None, None, None, 0, level, _NONE)
    bounds = binomtest(successes, trials).proportion_ci(level, method="wilson")
    return Interval(successes / trials, float(bounds.low), float(bounds.high), trials, level)


def bca_interval(values: Values, level: float = 0.95, *, resamples: int = 9999, seed: int = 0) -> Interval:
    """Bias-corrected and accelerated bootstrap interval of the mean, for skew; the same draws every time.

    Raises:
        ValueError: a level outside (0, 1).
    """
    numbers = defined(values)
    plain = t_interval(numbers, level)
    if plain.reason or np.ptp(numbers) == 0.0:
        return plain
    from scipy.stats import bootstrap

    found = bootstrap(
        (numbers,),
        np.mean,
        confidence_level=level,
        n_resamples=resamples,
        method="BCa",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    if not (isfinite(found.low) and isfinite(found.high)):
        return Interval(plain.mean, None, None, plain.n, level, "the bootstrap distribution is degenerate")
    return Interval(plain.mean, float(found.low), float(found.high), plain.n, level)


Frame = pl.DataFrame | pl.LazyFrame
"""Outcomes in memory, or a scan of them of which an arm at a time is read: memory does not grow with the arms."""


def summarise(outcomes: Frame, runs: pl.DataFrame, level: float = 0.95, *, experiment: str = "") -> pl.DataFrame:
    """Mean and t interval of every outcome by arm, in the order of ``runs`` and ``outcomes``; outer draws left out.

    Args:
        outcomes: ``run`` and the columns of `OUTCOME_SCHEMA`.
        runs: ``id``, ``arm``, ``seed``, ``status`` (``ok`` or not), a row per arm and seed; arms may share a run.
        level: of the intervals.
        experiment: its name, repeated in every row.

    Raises:
        ValueError: a seed twice in one arm, or a level outside (0, 1).
    """
    return pl.concat(summaries_by_arm(outcomes, runs, level, experiment=experiment))


def summaries_by_arm(
    outcomes: Frame, runs: pl.DataFrame, level: float = 0.95, *, experiment: str = ""
) -> Iterator[pl.DataFrame]:
    """The rows of `summarise` a piece at a time, the first one empty, so that nobody has to hold all of them."""
    runs, _ = apart(runs)
    failed = runs.group_by("arm").agg(failed=(pl.col("status") != "ok").sum().cast(_COUNT))
    yield pl.DataFrame(schema=SUMMARY_SCHEMA)
    for arm, block in pieces(outcomes, runs, ([arm] for arm in runs["arm"].unique(maintain_order=True))):
        measured = _measured(block, runs.filter(pl.col("arm").is_in(arm)))
        rows = _bounds(measured, ["arm", *DIMENSIONS], level, mean="mean", count="runs")
        rows = rows.join(failed, on="arm", how="left", maintain_order="left")
        yield _arranged(rows.with_columns(experiment=pl.lit(experiment)), SUMMARY_SCHEMA)


def effects(
    outcomes: Frame,
    runs: pl.DataFrame,
    contrasts: Iterable[tuple[str, str, str]],
    level: float = 0.95,
    *,
    experiment: str = "",
) -> pl.DataFrame:
    """Paired differences with t intervals of every outcome, contrast by contrast, and their range over outer draws.

    Args:
        outcomes: as in `summarise`.
        runs: as in `summarise`.
        contrasts: name, arm and base of each; the difference is arm minus base within a seed.
        level: of the intervals.
        experiment: its name, repeated in every row.

    Raises:
        ValueError: a contrast names no arm of ``runs``, a seed stands twice in one arm, or a level outside (0, 1).
    """
    return pl.concat(effects_by_contrast(outcomes, runs, contrasts, level, experiment=experiment))


def effects_by_contrast(
    outcomes: Frame,
    runs: pl.DataFrame,
    contrasts: Iterable[tuple[str, str, str]],
    level: float = 0.95,
    *,
    experiment: str = "",
) -> Iterator[pl.DataFrame]:
    """The rows of `effects` a piece at a time, the first one empty, so that nobody has to hold all of them."""
    runs, drawn = apart(runs)
    yield pl.DataFrame(schema=EFFECTS_SCHEMA)
    for (name, arm, base), block in pieces(outcomes, runs, compared(contrasts, runs)):
        measured, outer = (
            _measured(block, of.filter(pl.col("arm").is_in([arm, base])), *also)
            for of, also in ((runs, ()), (drawn, ("draw",)))
        )
        rows = _bounds(_differences(measured, arm, base), list(DIMENSIONS), level, mean="difference", count="pairs")
        ranges = range_over_draws(_differences(outer, arm, base, "draw"), DIMENSIONS, level)
        rows = rows.join(ranges, on=list(DIMENSIONS), how="left", maintain_order="left")
        labels = {"experiment": experiment, "contrast": name, "arm": arm, "base": base}
        yield _arranged(rows.with_columns(**{key: pl.lit(text) for key, text in labels.items()}), EFFECTS_SCHEMA)


def paired_differences(outcomes: Frame, runs: pl.DataFrame, arm: str, base: str) -> pl.DataFrame:
    """Outcomes of ``arm`` minus those of ``base``: a row per seed and `DIMENSIONS`; outer draws left out."""
    own, _ = apart(runs)
    return _differences(_measured(outcomes, own.filter(pl.col("arm").is_in([arm, base]))), arm, base)


def compared(contrasts: Iterable[tuple[str, str, str]], runs: pl.DataFrame) -> list[tuple[str, str, str]]:
    """The contrasts, once their arms are known to be among those of ``runs``.

    Raises:
        ValueError: one names no arm of ``runs``.
    """
    arms = apart(runs)[0]["arm"].unique(maintain_order=True).to_list()
    named = list(contrasts)
    for name, *pair in named:
        if unknown := [one for one in pair if one not in arms]:
            raise ValueError(f"contrast {name}: no arm {unknown[0]!r} among {', '.join(arms)}")
    return named


_ROWS_AT_ONCE = 10_000

Asked = TypeVar("Asked")


def pieces(
    outcomes: Frame, runs: pl.DataFrame, asked: Iterable[Asked], by: str = "metric"
) -> Iterator[tuple[Asked, Frame]]:
    """For each thing asked the outcomes, a few metrics at a time where an arm has many runs: memory stays flat.

    Args:
        outcomes: as in `summarise`.
        runs: as in `summarise`.
        asked: arms, contrasts or what else is looked at one by one.
        by: column that is taken apart; what belongs together has one value of it.
    """
    values = outcomes.lazy().select(pl.col(by).unique(maintain_order=True)).collect()[by].to_list()
    rows = outcomes.lazy().select(pl.len()).collect().item()
    by_arm = rows * int(runs.group_by("arm").len()["len"].max() or 0) / max(1, runs.height)  # type: ignore[arg-type]
    size = max(1, int(len(values) * _ROWS_AT_ONCE / max(by_arm, _ROWS_AT_ONCE)))
    for one in asked:
        for at in range(0, max(1, len(values)), size):
            block = outcomes
            if size < len(values):
                block = outcomes.filter(pl.col(by).is_in(values[at : at + size]))
            yield one, block


def _measured(outcomes: Frame, runs: pl.DataFrame, *also: str) -> pl.DataFrame:
    """Outcomes with arm and seed of their run, and other columns of it."""
    if runs.select("arm", "seed", *also).is_duplicated().any():
        raise ValueError("runs: a seed stands twice in one arm")
    finished = runs.filter(pl.col("status") == "ok").select("id", "arm", "seed", *also)
    mine = outcomes.lazy().filter(pl.col("run").is_in(finished["id"].implode()))
    wanted = mine.select("run", *DIMENSIONS, "value", "reason").collect()
    return finished.join(wanted, left_on="id", right_on="run", how="inner", maintain_order="left_right")


def _differences(measured: pl.DataFrame, arm: str, base: str, *within: str) -> pl.DataFrame:
    """Value and reason of ``arm - base`` by seed, and by the columns ``within``."""
    ours, theirs = (measured.filter(pl.col("arm") == name) for name in (arm, base))
    joined = ours.join(theirs, on=[*within, "seed", *DIMENSIONS], how="inner", suffix="_base", maintain_order="left")
    return joined.with_columns(
        value=pl.col("value") - pl.col("value_base"), reason=pl.coalesce("reason", "reason_base")
    )


def _bounds(rows: pl.DataFrame, by: list[str], level: float, *, mean: str, count: str) -> pl.DataFrame:
    """Mean, bounds, number of values and reason of ``value`` by group; one t quantile for each number of values."""
    _checked(level)
    groups = rows.group_by(by, maintain_order=True).agg(
        pl.col("value").mean().alias(mean),
        pl.col("value").std().alias("sd"),
        pl.col("value").count().cast(_COUNT).alias(count),
        pl.len().cast(_COUNT).alias("asked"),
        pl.col("reason").drop_nulls().first().alias("why"),
    )
    sizes = [n for n in groups[count].unique().to_list() if n > 1]
    quantiles = pl.DataFrame(
        {count: sizes, "quantile": [t_quantile(n - 1, level) for n in sizes]},
        schema={count: _COUNT, "quantile": _NUMBER},
    )
    half = pl.col("quantile") * pl.col("sd") / pl.col(count).cast(_NUMBER).sqrt()
    return groups.join(quantiles, on=count, how="left", maintain_order="left").with_columns(
        low=pl.col(mean) - half,
        high=pl.col(mean) + half,
        level=pl.lit(level, _NUMBER),
        reason=_reason(pl.col(count), pl.col("asked"), pl.col("why")),
        unit=pl.col("metric").replace_strict(UNITS, default=None, return_dtype=_TEXT),
    )


def _reason(count: pl.Expr, asked: pl.Expr, why: pl.Expr) -> pl.Expr:
    """Why a row, or some of its runs, have no value; null if all have one."""
    some = pl.format("undefined in {} of {} runs: {}", asked - count, asked, why)
    return pl.when(count == 0).then(why).when(count < asked).then(some).when(count == 1).then(pl.lit(_ONE))


def _arranged(rows: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    return rows.select(pl.col(name).cast(kind) for name, kind in schema.items())


def display_name(
    metric: str, sku: str = "all", segment: str = "all", provider_class: str | None = None, vendor: str = "all"
) -> str:
    """Short name of a number: ``price_cv[H100]``, ``ebitda_margin[neocloud amd-heavy]``, ``amd_hour_share``.

    The class is named where it is not the one that the metric is usually meant of; the vendor where neither SKU nor
    metric tells it.
    """
    usual = OUTCOMES[metric].provider_class if metric in OUTCOMES else HEADLINE  # a ratio of outcomes
    parts = [part for part in (sku, segment) if part != "all"]
    if provider_class not in (None, usual) and not (provider_class == "all" and segment != "all"):
        parts.append(str(provider_class))
    if vendor != "all" and sku == "all" and not metric.startswith(("amd_", "developer_cloud_")):
        parts.append(vendor)
    return f"{metric}[{', '.join(parts)}]" if parts else metric
