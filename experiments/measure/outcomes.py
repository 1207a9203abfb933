"""Outcomes: every number the program reports about a run, each a pure function of the recorded tables.

`OUTCOMES` lists them by name with their units. An outcome is called with the `Records` of a run and a `Window` and
yields cells, one for each SKU, segment or class it is split by. Undefined is null with a reason, never 0 or NaN.
To add one, write the function and give it a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import getdoc
from typing import Any

import polars as pl

from experiments.measure import composition, convergence, credit, lending, margins, policy, prices, revisions, shares
from experiments.measure.records import HEADLINE, OUTCOME_SCHEMA, Cell, Records, Window, windows

__all__ = [
    "HEADLINE",
    "OUTCOMES",
    "OUTCOME_SCHEMA",
    "UNITS",
    "Outcome",
    "Records",
    "Window",
    "meaning",
    "outcomes",
    "windows",
]


@dataclass(frozen=True)
class Outcome:
    """An outcome: how it is measured, its unit and where it is measured.

    Attributes:
        measure: ``(records, window)`` to cells.
        unit: of its values; ``1`` for shares and ratios.
        provider_class: the class meant when none is named.
        trend: measured over year one and the whole run, not over the last 26 weeks.
    """

    measure: Callable[[Records, Window], Iterable[Cell]]
    unit: str
    provider_class: str = HEADLINE
    trend: bool = False


_PRICE = "USD/GPU-h"

OUTCOMES: dict[str, Outcome] = {
    "price_mean": Outcome(prices.price_mean, _PRICE),
    "price_open": Outcome(prices.price_open, _PRICE),
    "price_realised": Outcome(prices.price_realised, _PRICE),
    "price_new_lease": Outcome(prices.price_new_lease, _PRICE),
    "price_cv": Outcome(prices.price_cv, "1"),
    "price_cv_balanced": Outcome(prices.price_cv_balanced, "1"),
    "price_range": Outcome(prices.price_range, "1"),
    "price_premium_share": Outcome(convergence.price_premium_share, "1"),
    "price_multiple": Outcome(prices.price_multiple, "1", "hyperscaler/neocloud"),
    "price_ratio": Outcome(prices.price_ratio, "1", "same seller"),
    "term_ratio": Outcome(prices.term_ratio, "1"),
    "spot_over_on_demand": Outcome(prices.spot_over_on_demand, "1"),
    "price_change": Outcome(prices.price_change, "1"),
    "law_of_one_price_gap": Outcome(prices.law_of_one_price_gap, "1", "all"),
    "price_drift": Outcome(convergence.price_drift, "1/year"),
    "price_mean_change": Outcome(partial(composition.change_of_mean, part="total"), _PRICE),
    "price_mean_change_within": Outcome(partial(composition.change_of_mean, part="within"), _PRICE),
    "price_mean_change_between": Outcome(partial(composition.change_of_mean, part="between"), _PRICE),
    "price_mean_change_entry": Outcome(partial(composition.change_of_mean, part="entry"), _PRICE),
    "price_mean_change_exit": Outcome(partial(composition.change_of_mean, part="exit"), _PRICE),
    "price_cv_change": Outcome(partial(composition.change_of_cv, part="total"), "1"),
    "price_cv_change_within": Outcome(partial(composition.change_of_cv, part="within"), "1"),
    "price_cv_change_composition": Outcome(partial(composition.change_of_cv, part="composition"), "1"),
    "sigma_trend": Outcome(convergence.sigma_trend, "1/year", trend=True),
    "beta": Outcome(convergence.beta, "per 4 weeks"),
    "beta_within": Outcome(convergence.beta_within, "per 4 weeks"),
    "half_life": Outcome(convergence.half_life, "weeks"),
    "half_life_within": Outcome(convergence.half_life_within, "weeks"),
    "revision_hazard": Outcome(revisions.revision_hazard, "1/month"),
    "revision_date_hazard": Outcome(revisions.revision_date_hazard, "1/month"),
    "revision_gap_closed": Outcome(revisions.revision_gap_closed, "1"),
    "revision_size_median": Outcome(revisions.revision_size_median, "1"),
    "revision_cut_share": Outcome(revisions.revision_cut_share, "1"),
    "lerner_margin": Outcome(margins.lerner_margin, "1"),
    "lerner_margin_trend": Outcome(margins.lerner_margin_trend, "1/year", trend=True),
    "margin_over_full_cost": Outcome(margins.margin_over_full_cost, "1"),
    **{
        "_".join(filter(None, (margin, "margin", population))): Outcome(
            partial(margins.book_margin, margin=margin, population=population), "1"
        )
        for margin in margins.MARGINS
        for population in margins.POPULATIONS
    },
    **{
        "_".join(filter(None, (margin, "margin_trend", population))): Outcome(
            partial(margins.book_margin_trend, margin=margin, population=population), "1/year", trend=True
        )
        for margin in margins.MARGINS
        for population in margins.POPULATIONS
    },
    "loan_rate_contracted": Outcome(partial(lending.loan_rate, contracts="long"), "1/year", "all"),
    "loan_rate_uncontracted": Outcome(partial(lending.loan_rate, contracts="none"), "1/year", "all"),
    "defaults": Outcome(margins.defaults, "count"),
    "default_rate": Outcome(margins.default_rate, "1"),
    **{
        f"defaults_{cause}": Outcome(partial(credit.defaults_by_cause, cause=cause), "count") for cause in credit.CAUSES
    },
    "sellers": Outcome(credit.sellers, "count"),
    "failed": Outcome(credit.failed, "count"),
    "covenant_breaches": Outcome(credit.breaches, "count"),
    "loan_to_value": Outcome(credit.leverage, "1"),
    "debt_service_cover": Outcome(credit.cover, "1"),
    "profit": Outcome(credit.profit, "USD"),
    "amd_hour_share": Outcome(shares.amd_hour_share, "1", "all"),
    "amd_spend_share": Outcome(shares.amd_spend_share, "1", "all"),
    "amd_unit_share": Outcome(shares.amd_unit_share, "1", "all"),
    "amd_shipment_share": Outcome(shares.amd_shipment_share, "1", "all"),
    "amd_new_work_share": Outcome(shares.amd_new_work_share, "1", "all"),
    "utilisation": Outcome(shares.utilisation, "1"),
    "pool_hour_share": Outcome(shares.pool_hour_share, "1", "all"),
    "hhi_vendor": Outcome(shares.hhi_vendor, "1", "all"),
    "hhi_seller": Outcome(shares.hhi_seller, "1", "all"),
    "developer_cloud_hours": Outcome(policy.developer_cloud_hours, "GPU-h", "all"),
    "developer_cloud_queue": Outcome(policy.developer_cloud_queue, "1", "all"),
    "developer_cloud_fill": Outcome(policy.developer_cloud_fill, "1", "all"),
    "developer_cloud_bind_share": Outcome(policy.developer_cloud_bind_share, "1", "all"),
    "pool_fee": Outcome(policy.pool_fee, "USD", "all"),
    "pool_participation": Outcome(policy.pool_participation, "1", "all"),
    "stranded_debt": Outcome(policy.stranded_debt, "USD", "all"),
    "loss_given_default": Outcome(policy.loss_given_default, "1", "all"),
    "lender_loss": Outcome(credit.lender_loss, "USD", "all"),
    "lender_exposure": Outcome(credit.lender_exposure, "USD", "all"),
    "credit_loss_rate": Outcome(credit.credit_loss_rate, "1", "all"),
    "vendor_payout": Outcome(credit.vendor_payout, "USD", "all"),
    "vendor_gross_profit": Outcome(credit.vendor_gross_profit, "USD", "all"),
    "vendor_funded_share": Outcome(credit.vendor_funded_share, "1"),
    "vendor_funded_hours": Outcome(credit.vendor_funded_hours, "GPU-h", "all"),
    "leaseback_relet_share": Outcome(credit.relet_share, "1", "all"),
    "leaseback_cost": Outcome(policy.leaseback_cost, "USD", "all"),
    "vendor_net_cost": Outcome(policy.vendor_net_cost, "USD", "all"),
    "vendor_hardware_sales": Outcome(policy.vendor_hardware_sales, "USD", "all"),
    "tenant_surplus": Outcome(policy.tenant_surplus, "USD", "all"),
    "unmet_work": Outcome(policy.unmet_work, "H100e-h", "all"),
    "unmet_share": Outcome(policy.unmet_share, "1", "all"),
    "switching_share": Outcome(policy.switching_share, "1", "all"),
    "switching_rate": Outcome(policy.switching_rate, "1/year", "all"),
}
"""Every outcome by name."""

UNITS: dict[str, str] = {name: outcome.unit for name, outcome in OUTCOMES.items()}
"""Unit of every outcome by name."""


def meaning(name: str) -> str:
    """What an outcome is, in one sentence or two: the head of its measure's docstring, and the part it is fixed to.

    Raises:
        KeyError: there is no such outcome.
    """
    measure: Any = OUTCOMES[name].measure
    fixed = ""
    if isinstance(measure, partial):
        fixed = ", ".join(f"{key} {value}".strip() for key, value in measure.keywords.items() if value)
        measure = measure.func
    text = " ".join((getdoc(measure) or "").partition("\n\n")[0].split())
    return f"{text} ({fixed})" if fixed else text


def outcomes(tables: Mapping[str, pl.DataFrame], *, weeks: int, spans: Sequence[Window] | None = None) -> pl.DataFrame:
    """All outcomes of one run, long, with `OUTCOME_SCHEMA`.

    Args:
        tables: recorded tables by name; week 0 is the opening state.
        weeks: weeks stepped.
        spans: windows to measure; by default `windows`, the last 26 weeks left out for trends.

    Raises:
        ValueError: no week was stepped, the records end earlier, or a recorded table has a row twice.
    """
    default = windows(weeks)
    if any(not 1 <= span.first <= span.last <= weeks for span in spans or ()):
        raise ValueError(f"windows lie within weeks 1 to {weeks}")
    records = Records.of(tables, weeks)
    rows = [
        (name, *found[3:], *window, *found[:3])
        for name, outcome in OUTCOMES.items()
        for window in (spans if spans is not None else _for(outcome, default))
        for found in outcome.measure(records, window)
    ]
    columns = zip(*rows, strict=True)
    return pl.DataFrame(dict(zip(OUTCOME_SCHEMA, columns, strict=True)), schema=OUTCOME_SCHEMA)


def _for(outcome: Outcome, spans: list[Window]) -> list[Window]:
    """A trend starts in week 1; everything else is measured over all windows."""
    return [span for span in spans if span.first == 1] if outcome.trend else spans
