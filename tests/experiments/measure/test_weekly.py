"""Weekly measures are what the outcomes are made of, and the flow of money balances."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from experiments.build import build
from experiments.engine.runner import DERIVED, framed
from experiments.measure.outcomes import outcomes
from experiments.measure.weekly import TREND_UNITS, derived, flow_total
from experiments.scenario import Scenario
from market.bookrecords import ledger_kinds
from market.model import MarketModel

WEEKS = 12
KEYS = ["metric", "sku", "provider_class"]


@pytest.fixture(scope="module")
def model() -> MarketModel:
    scenario = Scenario.load().with_({"weeks": WEEKS, "tenants.rows": 300, "finance.opening_cash_share": 0.0})
    played = build(scenario, 3)
    opening = played.accounts.ledger.cash()
    played.run(WEEKS)
    played.opening_cash = opening
    return played


@pytest.fixture(scope="module")
def tables(model: MarketModel) -> dict[str, pl.DataFrame]:
    return framed(model.recorder.tables())


@pytest.fixture(scope="module")
def trend(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    return derived(tables, weeks=WEEKS)["trend_week"]


def test_derived_tables_have_the_declared_columns(tables):
    for name, frame in derived(tables, weeks=WEEKS).items():
        assert dict(frame.schema) == DERIVED[name]
        assert len(frame)


def test_every_weekly_measure_has_a_unit(trend):
    assert set(trend["metric"]) <= set(TREND_UNITS)


@pytest.mark.parametrize(
    "metric",
    [
        "price_mean",
        "price_cv",
        "ebitda_margin",
        "operating_margin",
        "utilisation",
        "amd_hour_share",
        "amd_spend_share",
    ],
)
def test_the_weighted_mean_of_the_weeks_is_the_outcome(tables, trend, metric):
    run = trend.filter(pl.col("metric") == metric, pl.col("week") >= 1).drop_nulls("value")
    value, weight = pl.col("value"), pl.col("weight")
    means = run.group_by(KEYS).agg((value * weight).sum() / weight.sum())
    wanted = outcomes(tables, weeks=WEEKS).filter(pl.col("window_first") == 1, pl.col("segment") == "all")
    both = means.join(wanted, on=KEYS, suffix="_outcome")
    assert len(both) == len(means) > 0
    np.testing.assert_allclose(both["value"], both["value_outcome"], rtol=1e-12)


def test_defaults_to_date_end_at_the_outcome(tables, trend):
    last = trend.filter(pl.col("metric") == "defaults_to_date", pl.col("week") == WEEKS)
    wanted = outcomes(tables, weeks=WEEKS).filter(pl.col("metric") == "defaults", pl.col("window_first") == 1)
    both = last.join(wanted, on="provider_class", suffix="_outcome")
    assert both["value"].to_list() == both["value_outcome"].to_list()
    assert len(both) == len(last) > 0


def test_money_received_less_money_paid_is_the_change_of_cash_of_each_kind(model, tables):
    flow = flow_total(tables["flow_week"], WEEKS)
    kinds = ledger_kinds(model)
    change = model.accounts.ledger.cash() - model.opening_cash
    for kind in np.unique(kinds):
        received = flow.filter(payee_kind=kind)["usd"].sum()
        paid = flow.filter(payer_kind=kind)["usd"].sum()
        assert received - paid == pytest.approx(change[kinds == kind].sum(), abs=1e-9 * flow["usd"].sum()), kind


def test_the_flow_holds_the_rent_of_the_books(tables):
    flow = flow_total(tables["flow_week"], WEEKS)
    rent = tables["book_week"].filter(pl.col("week") >= 1)["rent_usd"].sum()
    assert flow.filter(reason="rent")["usd"].sum() == pytest.approx(rent, rel=1e-12)


def test_a_run_without_payments_has_no_flow(tables):
    assert flow_total(tables["flow_week"].clear(), WEEKS).is_empty()
