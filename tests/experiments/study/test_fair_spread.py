"""Fair spreads: limits known by heart, the closed form, and the direction of cover and cap."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.engine.errors import ScenarioError
from experiments.scenario import Scenario
from experiments.study.fair_spread import (
    Deal,
    closed_form_spread,
    deal_of,
    fair_spread,
    tabled,
    trigger_usd,
    will_have_failed,
)

DEAL = Deal()
OPTIONS = {"price": 2.2, "utilisation": 0.8, "drift": -0.1, "volatility": 0.25, "ltv": 0.6, "recovery": 0.6}


@pytest.mark.parametrize(
    ("share", "trigger", "ever"), [(0.0, 1.5625, 0.8981349458), (0.5, 1.125, 0.6807633939), (0.8, -0.1875, 0.0)]
)
def test_the_chance_to_fail_is_the_published_first_passage(share, trigger, ever):
    """Need 1.25, lease 1.60, use .8, rent 2.20 falling by .2 a year at volatility .3, three years."""
    deal = replace(DEAL, drift_per_year=-0.2, volatility_per_year=0.3, cover_share=share, lease_usd=1.6)
    short = 1.25 - share * 1.6
    assert short / deal.sold_share == pytest.approx(trigger)
    assert will_have_failed(deal, trigger, np.array([3.0]))[0] == pytest.approx(ever, abs=1e-8)


@pytest.mark.parametrize("cover", ["firm", "floor"])
@pytest.mark.parametrize("share", [0.0, 0.15, 0.5])
def test_the_simulated_spread_meets_the_closed_form(cover, share):
    deal = replace(DEAL, cover=cover, cover_share=share)
    assert fair_spread(deal).spread_per_year == pytest.approx(closed_form_spread(deal), abs=0.004)


def test_who_cannot_fail_pays_no_spread():
    safe = replace(DEAL, cover_share=1.0, lease_usd=5.0)
    assert trigger_usd(safe, 0.0) == -np.inf
    assert fair_spread(safe, paths=200).spread_per_year == closed_form_spread(safe) == 0.0


def test_a_loan_that_recovers_everything_needs_no_spread():
    """What is owed includes the interest of the quarter, so a failure costs nothing."""
    assert fair_spread(replace(DEAL, recovery_share=1.0), paths=2000).spread_per_year == pytest.approx(0.0, abs=0.004)


def test_where_the_rent_never_covers_the_service_no_spread_pays():
    assert fair_spread(replace(DEAL, rent_usd=0.5), paths=200).spread_per_year is None
    assert closed_form_spread(replace(DEAL, rent_usd=0.5)) is None


def test_more_cover_lowers_the_spread_and_a_cap_takes_some_of_it_back():
    bare, covered = (fair_spread(replace(DEAL, cover_share=share)) for share in (0.0, 0.5))
    capped = fair_spread(replace(DEAL, cover_share=0.5, cap_usd=0.3 * covered.payout_usd))
    assert covered.spread_per_year < capped.spread_per_year < bare.spread_per_year
    assert capped.payout_95_usd == pytest.approx(0.3 * covered.payout_usd)
    assert bare.payout_usd == 0.0


def test_watching_more_often_fails_more():
    assert closed_form_spread(DEAL, 0.0) > closed_form_spread(DEAL, 1.0) > closed_form_spread(DEAL, 13.0)


def test_a_deal_takes_its_cost_from_the_tables_and_an_unknown_gpu_is_refused():
    deal = deal_of(Scenario.load().set("finance.base_rate", 0.05), sku="MI300X", cover="floor", **OPTIONS)
    assert (deal.capital_usd, deal.lease_usd, deal.risk_free_per_year) == (31_100, 1.3, 0.05)
    with pytest.raises(ScenarioError, match="nearest: MI300X"):
        deal_of(Scenario.load(), sku="MI300", cover="floor", **OPTIONS)


def test_the_table_has_a_row_for_each_share_and_cap():
    found = tabled(DEAL, [0.0, 0.5], [1000.0], 500, 0)
    assert found["cap_usd_per_gpu"].to_list() == [None, 1000.0, None, 1000.0]
    assert found["closed_form_per_year"].is_null().to_list() == [False, True, False, True]
