"""What figures draw: a few outcomes week by week, and who paid whom over the run.

Weekly values are what the outcomes of the same name are made of, so that a figure and a table cannot disagree: over
any window an outcome is the mean of its weekly values, weighted by ``weight`` where that is not 1 (revenue of a margin,
GPUs of a utilisation). ``defaults_to_date`` is a count that grows and has no weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from experiments.measure.margins import Margin, failures, lives, profit_and_revenue
from experiments.measure.outcomes import UNITS
from experiments.measure.prices import weekly_cv, weekly_mean
from experiments.measure.records import HEADLINE, Floats, Records, Window, ratio
from experiments.measure.shares import amd_and_all, cloud_rent, rented_and_available, sellers_rent, tenants_gpus

__all__ = ["TREND_CLASSES", "TREND_UNITS", "derived", "flow_total", "trend_week"]

TREND_CLASSES = ("neocloud", "neocloud amd-heavy", "neocloud nvidia-heavy", "hyperscaler")
"""Classes whose margins and utilisation are followed."""


class _Series(NamedTuple):
    """One line of a figure, ``(weeks + 1,)``; NaN where undefined."""

    metric: str
    value: Floats
    weight: Floats
    sku: str = "all"
    provider_class: str = "all"


def _prices(metric: str, records: Records, weekly: Callable[[Records, str], Floats]) -> Iterator[_Series]:
    values = weekly(records, HEADLINE)
    for sku, value in zip(records.skus, values.T, strict=True):
        yield _Series(metric, value, np.ones(len(value)), sku, HEADLINE)


def _share(metric: str, part: Floats, whole: Floats, provider_class: str = "all") -> _Series:
    return _Series(metric, ratio(part, whole), whole, provider_class=provider_class)


def _margins(margin: Margin, records: Records) -> Iterator[_Series]:
    for name in TREND_CLASSES:
        earned, revenue = profit_and_revenue(records, Window(0, records.weeks), margin, "", name)
        yield _share(f"{margin}_margin", earned, revenue, name)


def _utilisation(records: Records) -> Iterator[_Series]:
    rented, available = rented_and_available(records)
    for name in TREND_CLASSES:
        inside = records.in_class(name)
        yield _share("utilisation", rented[:, inside].sum(axis=1), available[:, inside].sum(axis=1), name)


def _defaults(records: Records) -> Iterator[_Series]:
    for name, alive in lives(records, Window(1, records.weeks)):
        if name in TREND_CLASSES:
            to_date = np.concatenate([[0.0], np.cumsum(failures(alive))])
            yield _Series("defaults_to_date", to_date, np.full(len(to_date), np.nan), provider_class=name)


def _series(records: Records) -> Iterator[_Series]:
    """Every line, in the order of the table."""
    yield from _prices("price_mean", records, weekly_mean)
    yield from _prices("price_cv", records, weekly_cv)
    yield from _margins("ebitda", records)
    yield from _margins("operating", records)
    yield from _utilisation(records)
    yield _share("amd_hour_share", *amd_and_all(records, tenants_gpus(records), "all"))
    cloud = cloud_rent(records)
    amd, every = (rent + cloud for rent in amd_and_all(records, sellers_rent(records), "all"))
    yield _share("amd_spend_share", amd, every)
    yield from _defaults(records)


TREND_UNITS = {**UNITS, "defaults_to_date": "count"}
"""Unit of a weekly measure by name."""


def trend_week(records: Records) -> pl.DataFrame:
    """Weekly measures, long: ``week``, ``metric``, ``sku``, ``provider_class``, ``value``, ``weight``.

    Week 0 is the opening state. A value that is undefined in a week (no revenue yet, a SKU not on sale) is null.
    """
    lines = list(_series(records))
    weeks = records.weeks + 1

    def repeated(name: str) -> pl.Series:
        texts = np.array([getattr(line, name) for line in lines])
        return pl.Series(name, np.repeat(texts, weeks), dtype=pl.String)

    numbers = {
        name: pl.Series(np.concatenate([getattr(line, name) for line in lines])).fill_nan(None)
        for name in ("value", "weight")
    }
    week = pl.Series("week", np.tile(np.arange(weeks), len(lines)), dtype=pl.Int32)
    return pl.DataFrame([week, *map(repeated, ("metric", "sku", "provider_class"))]).with_columns(**numbers)


def flow_total(flow_week: pl.DataFrame, weeks: int) -> pl.DataFrame:
    """Money that changed hands in weeks 1 to ``weeks`` by kind of payer and payee and by reason, USD."""
    kinds = ["payer_kind", "payee_kind", "reason"]
    run = flow_week.filter(pl.col("week").is_between(1, weeks)).sort(*kinds, "week")
    group = run.select(pl.struct(kinds).rle_id()).to_series().to_numpy().astype(np.intp)
    heads = run.select(kinds)[np.flatnonzero(np.diff(group, prepend=-1))]
    # Added up in the order of the weeks: the same bits with any number of threads.
    return heads.with_columns(usd=pl.Series(np.bincount(group, run["usd"], len(heads)), dtype=pl.Float64))


def derived(tables: Mapping[str, pl.DataFrame], *, weeks: int) -> dict[str, pl.DataFrame]:
    """The small tables that are kept of every run, by name.

    Args:
        tables: recorded tables; week 0 is the opening state.
        weeks: weeks stepped.

    Raises:
        ValueError: as `Records.of`.
    """
    return {
        "trend_week": trend_week(Records.of(tables, weeks)),
        "flow_total": flow_total(tables["flow_week"], weeks),
    }
