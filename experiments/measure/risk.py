"""Risk by arm: how often sellers fail, what lenders lose, what vendors pay on their promises, each with an interval.

Counts have Wilson intervals. Failures of one run share its demand, so the interval of the pooled default rate is the
optimistic one, and the share of runs with a failure (runs are independent) stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from experiments.measure.stats import Frame, Interval, t_interval, wilson_interval

__all__ = ["RISK_SCHEMA", "high_quantile", "risk"]

RISK_SCHEMA: dict[str, pl.DataType] = {
    "arm": pl.String(),
    "provider_class": pl.String(),
    "measure": pl.String(),
    "unit": pl.String(),
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "n": pl.UInt32(),
    "reason": pl.String(),
}
"""Columns of the risk table: a measure of an arm with its interval; ``n`` sellers or runs behind it."""

_HIGH = 0.95
_METRICS = ("failed", "sellers", "loss_given_default", "lender_loss", "vendor_payout")


def high_quantile(values: list[float], share: float = _HIGH, level: float = 0.95) -> Interval:
    """A high quantile with bounds from order statistics; a bound that so few values cannot give is null.

    Raises:
        ValueError: a share or level outside (0, 1).
    """
    from scipy.stats import binom

    if not (0.0 < share < 1.0 and 0.0 < level < 1.0):
        raise ValueError(f"share {share} and level {level}: both lie between 0 and 1")
    numbers, n = np.sort(values), len(values)
    if not n:
        return Interval(None, None, None, 0, level, "no value")
    ranks = binom.ppf((1.0 - level) / 2.0, n, share), binom.isf((1.0 - level) / 2.0, n, share) + 1.0
    low, high = (float(numbers[int(rank) - 1]) if 1.0 <= rank <= n else None for rank in ranks)
    reason = f"{n} runs bound it on one side only" if low is None or high is None else None
    return Interval(float(np.quantile(numbers, share)), low, high, n, level, reason)


def risk(outcomes: Frame, runs: pl.DataFrame, provider_class: str, level: float = 0.95) -> pl.DataFrame:
    """Risk table of all arms over the whole run, with `RISK_SCHEMA`.

    Args:
        outcomes: of all runs, as stored.
        runs: id, arm, seed, status.
        provider_class: class of sellers whose failures are counted.
        level: of the intervals.
    """
    whole = outcomes.lazy().filter(pl.col("window_first") == 1)
    last = whole.select(pl.col("window_last").max()).collect(engine="streaming")["window_last"]
    mine = whole.filter(pl.col("window_last").is_in(last.implode()), pl.col("metric").is_in(_METRICS))
    columns = ("run", "metric", "vendor", "provider_class", "value")
    found = mine.select(columns).collect(engine="streaming")
    finished = runs.filter(pl.col("status") == "ok").select("id", "arm")
    measured = finished.join(found, left_on="id", right_on="run", how="inner", maintain_order="left_right")
    rows = [
        (arm, provider_class, measure, unit, found.mean, found.low, found.high, found.n, found.reason)
        for arm in finished["arm"].unique(maintain_order=True)
        for measure, unit, found in _arm(measured.filter(pl.col("arm") == arm), provider_class, level)
    ]
    return pl.DataFrame(rows, schema=RISK_SCHEMA, orient="row")


def _arm(measured: pl.DataFrame, provider_class: str, level: float) -> Iterator[tuple[str, str, Interval]]:
    failed, at_risk = (_values(measured, name, provider_class=provider_class) for name in ("failed", "sellers"))
    yield "default rate", "1", wilson_interval(round(sum(failed)), round(sum(at_risk)), level)
    yield "runs with a default", "1", wilson_interval(sum(count > 0.0 for count in failed), len(failed), level)
    yield "loss given default", "1", _within(t_interval(_values(measured, "loss_given_default"), level))
    yield "lenders' loss", "USD", t_interval(_values(measured, "lender_loss"), level)
    for vendor in ("amd", "nvidia"):
        paid = _values(measured, "vendor_payout", vendor=vendor)
        yield f"payout of {vendor}, mean", "USD", t_interval(paid, level)
        yield f"payout of {vendor}, 95 %", "USD", high_quantile(paid, level=level)


def _within(share: Interval) -> Interval:
    """An interval of a share, cut at 0 and 1."""
    if share.low is None or share.high is None:
        return share
    return Interval(share.mean, max(0.0, share.low), min(1.0, share.high), share.n, share.level)


def _values(measured: pl.DataFrame, metric: str, **dimensions: Any) -> list[float]:
    """Values of an outcome by run, undefined ones left out."""
    wanted = pl.all_horizontal(pl.col("metric") == metric, *(pl.col(name) == text for name, text in dimensions.items()))
    return [float(value) for value in measured.filter(wanted)["value"].drop_nulls()]
