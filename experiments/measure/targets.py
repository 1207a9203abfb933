"""Targets: public figures that a run is scored against, each with a band that nobody moves to pass.

``experiments/targets.csv`` has a row per target: what is measured, where, when, the band, how hard it is and whether
the model's parameters were moved with it in sight (``fit``) or not (``holdout``). A score is a pure function of the
recorded tables of one run; verdicts put the scores of many seeds together.

Time is the calendar's: figures end in September 2026, and a run that opens later than a figure begins is not scored on
it. A figure of "any half-year" is the mean over the complete calendar half-years, its extremes beside it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from math import ceil
from typing import Any, Literal, NamedTuple

import polars as pl

from experiments.measure.outcomes import OUTCOMES
from experiments.measure.records import Cell, Records, Window
from market.units import WEEKS_PER_MONTH

__all__ = [
    "FIGURES_END",
    "SCORE_SCHEMA",
    "Setting",
    "Target",
    "Verdict",
    "joint_share",
    "load_targets",
    "score",
    "verdicts",
    "weeks_needed",
    "windows_of",
]

FIGURES_END = date(2026, 9, 30)
"""Last day of the public figures behind the targets; later weeks are scored against nothing."""

SCORE_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),
    "value": pl.Float64(),
    "lowest": pl.Float64(),
    "highest": pl.Float64(),
    "inside": pl.Boolean(),
    "reason": pl.String(),
}
"""Columns of the scores of one run. ``inside`` is null where the run does not cover the figure's time, and false where
it does and the value is undefined."""


@dataclass(frozen=True, slots=True)
class Target:
    """A public figure with its band; see ``targets.csv``.

    Attributes:
        start: month, YYYY-MM, at whose first Monday its time begins.
        window: its time in words, see `windows_of`.
        value: what was measured.
        low, high: band.
        hardness: ``hard`` or ``soft``; a soft one outside its band is a warning.
        use: ``fit`` or ``holdout``.
        mechanism: what produces it in the model.
    """

    id: str
    metric: str
    sku: str
    provider_class: str
    start: str
    window: str
    value: float
    low: float
    high: float
    unit: str
    hardness: Literal["hard", "soft"]
    use: Literal["fit", "holdout"]
    source: str
    mechanism: str

    def holds(self, value: float | None) -> bool:
        """Whether a value lies in the band, bounds included."""
        return value is not None and self.low <= value <= self.high

    def distance(self, value: float) -> float:
        """How far a value lies outside, in widths of the band; 0 inside."""
        return max(self.low - value, value - self.high, 0.0) / (self.high - self.low)


@cache
def load_targets() -> tuple[Target, ...]:
    """All targets in the order of the file."""
    text = files("experiments").joinpath("targets.csv").read_text(encoding="utf-8")
    rows: Iterator[dict[str, Any]] = csv.DictReader(text.splitlines())
    return tuple(Target(**row | {name: float(row[name]) for name in ("value", "low", "high")}) for row in rows)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run's tables do not say of themselves.

    Attributes:
        opening: Monday of week 0.
        weeks: weeks stepped.
        offer_week: week in which the Developer Cloud's offer starts; None without one.
        base_rate: reference rate under the loans, 1/year.
    """

    opening: date
    weeks: int
    offer_week: int | None
    base_rate: float

    def span(self, first: date, last: date) -> Window:
        """Weeks whose Monday lies between two days; week 0 is no week of trade."""
        return Window(max(1, ceil((first - self.opening).days / 7)), (last - self.opening).days // 7)


class _Measured(NamedTuple):
    value: float | None
    reason: str | None


# ------------------------------------------------------------------------------------------------ time


def weeks_needed(opening: date) -> int:
    """Weeks that a run of this opening needs to cover the figures."""
    return (FIGURES_END - opening).days // 7


def windows_of(target: Target, setting: Setting) -> tuple[list[Window], str]:
    """Weeks of a run to measure a target over, or none and why.

    ``whole run`` is from the target's start to the end of the figures; ``year one`` the 52 weeks after the start;
    ``YYYY``, ``to YYYY-MM`` and ``YYYY-MM to YYYY-MM`` are months, both included.
    """
    if target.start < f"{setting.opening:%Y-%m}":
        return [], f"needs an opening by {target.start}; this run opens in {setting.opening:%Y-%m}"
    if target.window == "26 weeks after start" and setting.offer_week is None:
        return [], "the scenario has no offer of the Developer Cloud"
    wanted = list(_windows(target, setting))
    found = [window for window in wanted if window.last <= setting.weeks]
    complete = len(found) == len(wanted) or (found and target.window == "any half-year")
    needed = min(window.last for window in wanted) if target.window == "any half-year" else wanted[-1].last
    return (found, "") if complete else ([], f"needs {needed} weeks; the run has {setting.weeks}")


def _windows(target: Target, setting: Setting) -> Iterator[Window]:
    start = _first_monday(target.start)
    first = max(0, (start - setting.opening).days // 7)
    if target.window == "any half-year":
        yield from (setting.span(*half) for half in _half_years(start))
    elif target.window == "year one":
        yield Window(first + 1, first + 52)
    elif target.window == "last 26 weeks of year one":
        yield Window(first + 27, first + 52)
    elif target.window == "26 weeks after start":
        offer = setting.offer_week or 0
        yield Window(offer, offer + 25)
    else:
        yield setting.span(*_months(target.window, start))


def _first_monday(month: str) -> date:
    """First Monday of a month."""
    day = date.fromisoformat(f"{month}-01")
    return day + timedelta(days=-day.weekday() % 7)


def _half_years(start: date) -> Iterator[tuple[date, date]]:
    """First and last days of the complete calendar half-years between ``start`` and the end of the figures."""
    for year in range(start.year, FIGURES_END.year + 1):
        for first, last in ((date(year, 1, 1), date(year, 6, 30)), (date(year, 7, 1), date(year, 12, 31))):
            if start <= first and last <= FIGURES_END:
                yield first, last


def _months(window: str, start: date) -> tuple[date, date]:
    """First and last day of a window in words."""
    if window == "whole run":
        return start, FIGURES_END
    if match := re.fullmatch(r"(?:(\d{4}-\d\d) )?to (\d{4}-\d\d)", window):
        first = _day(match[1]) if match[1] else start
        return first, min(_month_end(match[2]), FIGURES_END)
    if re.fullmatch(r"\d{4}", window):
        return _day(f"{window}-01"), min(date(int(window), 12, 31), FIGURES_END)
    raise ValueError(f"targets.csv: window {window!r}; allowed: whole run, year one, YYYY, to YYYY-MM, ...")


def _day(month: str) -> date:
    return date.fromisoformat(f"{month}-01")


def _month_end(month: str) -> date:
    return (_day(month) + timedelta(days=31)).replace(day=1) - timedelta(days=1)


# ------------------------------------------------------------------------------------------------ metrics

_CLASSES = {
    "same seller": "same seller",
    "sellers with a spot tier": "all",
    "AMD neoclouds": "neocloud amd-heavy",
    # Its customers' contracts are .96 of its sales; the figures are what it reports.
    "neocloud with contracted share above 0.8": "neocloud largest",
}
"""Classes of targets by the names that outcomes use, where they differ."""


def _outcome(records: Records, window: Window, target: Target, setting: Setting, metric: str = "") -> _Measured:
    """The cell of an outcome that a target names."""
    wanted = target.sku, _CLASSES.get(target.provider_class, target.provider_class)
    cells: Iterable[Cell] = OUTCOMES[metric or target.metric].measure(records, window)
    for found in cells:
        if found.segment == "all" and (found.sku, found.provider_class) == wanted:
            return _Measured(found.value, found.reason)
    return _Measured(None, f"nobody of the class ever holds {target.sku}")


def beta_per_month(records: Records, window: Window, target: Target, setting: Setting) -> _Measured:
    """`beta` compounded from four weeks to a month."""
    found = _outcome(records, window, target, setting)
    if found.value is None:
        return found
    return _Measured((1.0 + found.value) ** (WEEKS_PER_MONTH / 4.0) - 1.0, None)


def revision_hazard(records: Records, window: Window, target: Target, setting: Setting) -> _Measured:
    """Revisions per month of a price; of hyperscalers the dates of their price changes per month of a provider."""
    by_date = target.provider_class == "hyperscaler"
    return _outcome(records, window, target, setting, "revision_date_hazard" if by_date else "revision_hazard")


def loan_rate_minus_base(records: Records, window: Window, target: Target, setting: Setting) -> _Measured:
    """Rate of loans drawn in the window, by what stands behind them, less the reference rate."""
    metric = "loan_rate_uncontracted" if target.provider_class == "on-demand revenue" else "loan_rate_contracted"
    found = next(iter(OUTCOMES[metric].measure(records, window)))
    return _Measured(None if found.value is None else found.value - setting.base_rate, found.reason)


_Metric = Callable[[Records, Window, Target, Setting], _Measured]

_METRICS: dict[str, _Metric] = {
    "beta": beta_per_month,
    "revision_hazard": revision_hazard,
    "loan_rate_minus_base": loan_rate_minus_base,
}
"""Metrics that are more than an outcome of the same name."""


def score(
    tables: Mapping[str, pl.DataFrame], setting: Setting, targets: Sequence[Target] | None = None
) -> pl.DataFrame:
    """Scores of one run, a row per target, with `SCORE_SCHEMA`.

    Args:
        tables: recorded tables by name; week 0 is the opening state.
        setting: calendar and parameters that the tables do not hold.
        targets: which; all by default.

    Raises:
        ValueError: the records end before the run does, or a table has a row twice.
    """
    records = cache(lambda: Records.of(tables, setting.weeks))  # not read for a run too short for any target
    rows = [_score(records, target, setting) for target in targets or load_targets()]
    return pl.DataFrame(rows, schema=SCORE_SCHEMA, orient="row")


def _score(records: Callable[[], Records], target: Target, setting: Setting) -> tuple[object, ...]:
    spans, why_not = windows_of(target, setting)
    if not spans:
        return target.id, None, None, None, None, why_not
    metric = _METRICS.get(target.metric, _outcome)
    found = [metric(records(), window, target, setting) for window in spans]
    values = [each.value for each in found if each.value is not None]
    if not values:
        return target.id, None, None, None, False, found[0].reason
    mean = sum(values) / len(values)
    return target.id, mean, min(values), max(values), target.holds(mean), None


# ------------------------------------------------------------------------------------------------ verdicts

_ENOUGH_SEEDS = 0.5  # a mean of seeds on both sides of a band passes nothing
_WORST_FIRST = ("fail", "warn", "pass", "not measured")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target over all seeds.

    Attributes:
        mean, sd: of the seeds with a value; null where none has one.
        lowest, highest: extremes over seeds and half-years.
        seeds: seeds scored; 0 where no run covers the figure's time.
        share_inside: share of them inside the band.
        verdict: ``pass`` if the mean and at least half of the seeds are inside; ``warn`` if the mean alone is, or if a
            soft target's is outside; ``fail`` if a hard target's is outside; ``not measured``.
        held_down_by: ``model`` if it does not pass, ``seeds`` if it does and some seeds are outside, else blank.
        reason: why there is no value, in all or some seeds.
    """

    target: Target
    mean: float | None
    sd: float | None
    lowest: float | None
    highest: float | None
    seeds: int
    share_inside: float | None
    verdict: str
    held_down_by: str
    reason: str | None

    @property
    def band(self) -> list[float]:
        """Low and high."""
        return [self.target.low, self.target.high]


def verdicts(scores: pl.DataFrame, targets: Sequence[Target] | None = None) -> list[Verdict]:
    """A verdict per target, worst first: fail, warn, pass, each by the distance of the mean from the band.

    Args:
        scores: ``seed`` and the columns of `SCORE_SCHEMA`, a row per target and seed.
        targets: which; all by default.
    """
    found = [_verdict(target, scores.filter(pl.col("id") == target.id)) for target in targets or load_targets()]
    return sorted(found, key=_badness)


def _badness(verdict: Verdict) -> tuple[int, float, float]:
    far = float("inf") if verdict.mean is None else verdict.target.distance(verdict.mean)
    return _WORST_FIRST.index(verdict.verdict), -far, verdict.share_inside or 0.0


def _verdict(target: Target, rows: pl.DataFrame) -> Verdict:
    scored = rows.filter(pl.col("inside").is_not_null())
    values = scored["value"].drop_nulls()
    reason = next(iter(rows["reason"].drop_nulls()), None)
    if not len(scored):
        return Verdict(target, None, None, None, None, 0, None, "not measured", "", reason or "no run")
    mean = float(values.to_numpy().mean()) if len(values) else None
    share = float(scored["inside"].to_numpy().mean())
    word = _word(target, target.holds(mean), share)
    return Verdict(
        target,
        mean,
        float(values.to_numpy().std(ddof=1)) if len(values) > 1 else None,
        float(scored["lowest"].drop_nulls().to_numpy().min()) if len(values) else None,
        float(scored["highest"].drop_nulls().to_numpy().max()) if len(values) else None,
        len(scored),
        share,
        word,
        "model" if word != "pass" else "seeds" if share < 1.0 else "",
        reason,
    )


def _word(target: Target, mean_inside: bool, share: float) -> str:
    if mean_inside:
        return "pass" if share >= _ENOUGH_SEEDS else "warn"
    return "fail" if target.hardness == "hard" else "warn"


def joint_share(scores: pl.DataFrame, ids: Iterable[str]) -> float | None:
    """Share of seeds in which all of the named targets that are covered lie inside their bands; null without any."""
    rows = scores.filter(pl.col("id").is_in(list(ids)), pl.col("inside").is_not_null())
    by_seed = rows.group_by("seed").agg(pl.col("inside").all())["inside"]
    return float(by_seed.to_numpy().mean()) if len(by_seed) else None
