"""What every participation rule must keep, whatever its idea: one suite over all of ``PARTICIPATION``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.rules.participation import PARTICIPATION, LeptonParameters
from market.model import MarketModel
from market.view import OwnBooks
from tests.contracts.worlds_of_rules import arrays, joined_by
from tests.worlds import played

every_rule = pytest.mark.parametrize("rule", PARTICIPATION)


@pytest.fixture(scope="module")
def model() -> MarketModel:
    return played(joined_by("mandatory"), seed=1, weeks=4)


@pytest.fixture(scope="module")
def books(model: MarketModel) -> OwnBooks:
    return model.own_books(model.sellers[1][0])


_terms = st.fixed_dictionaries(
    {
        "take_rate": st.floats(0.0, 0.99),
        "allocation_pressure": st.floats(0.0, 10.0),
        "join_intercept": st.floats(-20.0, 20.0),
        "join_spare_weight": st.floats(-50.0, 50.0),
        "join_premium_weight": st.floats(-50.0, 50.0),
        "join_pressure_weight": st.floats(-50.0, 50.0),
        "join_fee_weight": st.floats(-50.0, 50.0),
    }
)


@every_rule
@given(premium=st.floats(-5.0, 5.0), spare=st.floats(0.0, 1.0), terms=_terms)
@settings(max_examples=60, deadline=None)
def test_the_chance_to_join_lies_between_nothing_and_certainty(
    rule: str, books: OwnBooks, premium: float, spare: float, terms: dict[str, Any]
) -> None:
    chance = PARTICIPATION[rule](replace(books, premium_ln=premium), spare, LeptonParameters(**terms))
    assert 0.0 <= chance <= 1.0


@every_rule
def test_a_seller_under_the_quality_floor_does_not_join(rule: str) -> None:
    model = played(joined_by(rule, {"lepton.quality_floor_ln": 5.0}), seed=1, weeks=4)
    assert not model.pool_member.any()
    for row, seller in model.sellers:
        assert seller.join_pool(model.own_books(row), 0.5).join_probability == 0.0


def test_no_pool_has_no_members_and_a_mandatory_one_has_every_seller_of_nvidia_gpus_above_its_floor() -> None:
    assert not played(joined_by("off"), seed=1, weeks=4).pool_member.any()
    model = played(joined_by("mandatory"), seed=1, weeks=4)
    s = model.suppliers
    nvidia = s.third_party & s.alive & (s.available_gpus[:, ~model.hardware.is_amd].sum(axis=1) > 0.0)
    floor = LeptonParameters().quality_floor_ln
    np.testing.assert_array_equal(model.pool_member, nvidia & (s.premium_ln >= floor))
    assert model.pool_member.any()


def test_spare_hours_draw_sellers_in_and_fees_and_premia_keep_them_out(books: OwnBooks) -> None:
    rule, p = PARTICIPATION["voluntary"], LeptonParameters()
    base = rule(books, 0.3, p)
    assert rule(books, 0.6, p) > base
    assert rule(books, 0.3, LeptonParameters(take_rate=0.3)) < base
    assert rule(replace(books, premium_ln=books.premium_ln + 1.0), 0.3, p) < base


def test_pressure_raises_the_chance_and_no_pressure_leaves_the_free_choice(books: OwnBooks) -> None:
    free, pressed = PARTICIPATION["voluntary"], PARTICIPATION["pressed"]
    none, some = LeptonParameters(allocation_pressure=0.0), LeptonParameters(allocation_pressure=1.0)
    assert pressed(books, 0.2, none) == free(books, 0.2, none)
    assert pressed(books, 0.2, some) > free(books, 0.2, some)


@every_rule
def test_a_rule_does_not_write_its_inputs(rule: str, model: MarketModel) -> None:
    for row, _ in model.sellers:
        own = model.own_books(row)
        before = {name: array.copy() for name, array in arrays(own).items()}
        PARTICIPATION[rule](own, 0.4, LeptonParameters())
        for name, array in arrays(own).items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_an_ask_lies_between_the_floor_and_the_core_quote_and_does_not_write_its_inputs(model: MarketModel) -> None:
    for row, seller in model.sellers:
        own = model.own_books(row)
        before = {name: array.copy() for name, array in arrays(own).items()}
        floor = seller.pricing.floor_factor * own.running_usd
        core = np.exp(own.shadow_ln - own.premium_ln - own.sku_premium_ln)
        tops = np.maximum(floor, seller.lepton.core_share * core)
        for share in (0.0, 0.2, 1.0):
            ask = seller.ask(own, np.full(len(floor), share))
            assert (ask[own.holds] >= floor[own.holds]).all()
            assert (ask[own.holds] <= tops[own.holds] * (1.0 + 1e-12)).all()
            assert np.isnan(ask[~own.holds]).all()
        for name, array in arrays(own).items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)
