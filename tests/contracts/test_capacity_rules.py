"""What every capacity rule must keep, whatever its idea, and what vendors keep when they allocate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agents.rules.capacity import CAPACITY, Buyer
from market.decisions import HardwareOrder
from market.model import MarketModel
from market.outlook import Outlook, allocate, see_outlook
from market.ownbooks import SellersFinance
from tests.contracts.worlds_of_rules import arrays, ordered_by
from tests.worlds import played

every_rule = pytest.mark.parametrize("rule", CAPACITY)


def _buyer(model: MarketModel, row: int, seller: Any) -> Buyer:
    own = model.own_books(row)
    entrant = seller.entrant and not own.holds.any()
    return Buyer(seller.provider_class, seller.vendors, entrant, 0.0, SellersFinance(model).of(row))


def _outlooks(model: MarketModel) -> list[Outlook]:
    """What stands, a shortage, a glut, riches, ruin, and nothing to order."""
    now = see_outlook(model)
    return [
        now,
        replace(now, forecast_h100e=now.forecast_h100e * 10.0),
        replace(now, forecast_h100e=0.0),
        replace(now, forecast_h100e=now.forecast_h100e * 3.0, price_usd=now.price_usd * 20.0, best_index=3.0),
        replace(now, price_usd=np.zeros_like(now.price_usd)),
        replace(now, orderable=np.zeros_like(now.orderable)),
    ]


@pytest.fixture(scope="module")
def model() -> MarketModel:
    return played(ordered_by("lifetime-margin"), seed=1, weeks=5)


@every_rule
def test_orders_are_finite_and_not_negative(rule: str, model: MarketModel) -> None:
    for row, seller in model.sellers:
        for outlook in _outlooks(model):
            order = CAPACITY[rule](model.own_books(row), _buyer(model, row, seller), outlook, model.world.capacity)
            assert order.work_h100e.shape == order.profit_index.shape == outlook.price_usd.shape
            assert np.isfinite(order.work_h100e).all(), seller.name
            assert (order.work_h100e >= 0.0).all(), seller.name
            assert not np.isnan(order.profit_index).any(), seller.name
            assert not order.work_h100e[~outlook.orderable].any(), seller.name


@every_rule
def test_a_seller_orders_no_more_than_its_share_of_its_fleet_and_an_allowance(rule: str, model: MarketModel) -> None:
    p = model.world.capacity
    for row, seller in model.sellers:
        own, buyer = model.own_books(row), _buyer(model, row, seller)
        for outlook in _outlooks(model):
            most = p.fleet_share_maximum * float(own.available_gpus @ outlook.work_per_gpu) + p.order_allowance_h100e
            if buyer.entrant:
                most = p.entrant_allowance_h100e
            ordered = CAPACITY[rule](own, buyer, outlook, p).work_h100e.sum()
            assert ordered <= most * (1.0 + 1e-12), seller.name


def test_the_default_rule_orders_in_a_shortage_and_not_in_a_glut(model: MarketModel) -> None:
    now, shortage, glut, *_ = _outlooks(model)
    rule = CAPACITY["lifetime-margin"]

    def ordered(outlook: Outlook) -> float:
        pairs = [(model.own_books(row), _buyer(model, row, seller)) for row, seller in model.sellers]
        return float(sum(rule(own, buyer, outlook, model.world.capacity).work_h100e.sum() for own, buyer in pairs))

    assert ordered(shortage) >= ordered(now)
    assert ordered(shortage) > 0.0
    assert ordered(glut) == 0.0


@every_rule
def test_a_seller_of_amd_gpus_alone_orders_no_nvidia_gpus(rule: str, model: MarketModel) -> None:
    for row, seller in model.sellers:
        if seller.vendors == "amd":
            buyer = _buyer(model, row, seller)
            for outlook in _outlooks(model):
                order = CAPACITY[rule](model.own_books(row), buyer, outlook, model.world.capacity)
                assert not order.work_h100e[~model.hardware.is_amd].any()


@every_rule
def test_a_rule_does_not_write_its_inputs(rule: str, model: MarketModel) -> None:
    for row, seller in model.sellers:
        own, buyer, outlook = model.own_books(row), _buyer(model, row, seller), _outlooks(model)[3]
        parts = (own, buyer.finance, outlook)
        before = [{name: array.copy() for name, array in arrays(part).items()} for part in parts]
        CAPACITY[rule](own, buyer, outlook, model.world.capacity)
        for part, kept in zip(parts, before, strict=True):
            for name, array in arrays(part).items():
                np.testing.assert_array_equal(array, kept[name], err_msg=name)


@every_rule
def test_a_rule_has_no_memory_of_its_own(rule: str, model: MarketModel) -> None:
    row, seller = model.sellers[1]
    arguments = (model.own_books(row), _buyer(model, row, seller), _outlooks(model)[1], model.world.capacity)
    first = CAPACITY[rule](*arguments)
    for other, rival in model.sellers:
        CAPACITY[rule](model.own_books(other), _buyer(model, other, rival), arguments[2], arguments[3])
    again = CAPACITY[rule](*arguments)
    np.testing.assert_array_equal(first.work_h100e, again.work_h100e)
    np.testing.assert_array_equal(first.profit_index, again.profit_index)


# ------------------------------------------------------------------------------------------------ allocation


@st.composite
def _rounds(draw: st.DrawFn) -> tuple[list[HardwareOrder], Any, Any, dict[bool, float], Any]:
    buyers, skus = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    amount = st.one_of(st.just(0.0), st.floats(1e-3, 1e5))

    def row(elements: st.SearchStrategy[float]) -> Any:
        return np.array(draw(st.lists(elements, min_size=skus, max_size=skus)))

    orders = [HardwareOrder(row(amount), row(st.floats(0.0, 3.0) | st.just(-np.inf))) for _ in range(buyers)]
    vendor = {False: draw(amount), True: draw(amount)}
    is_amd = np.array(draw(st.lists(st.booleans(), min_size=skus, max_size=skus)))
    return orders, row(st.floats(0.1, 10.0)), row(amount), vendor, is_amd


def _slack(case: Any) -> float:
    """Rounding allowed in GPUs."""
    orders, work, *_ = case
    return float(1e-9 * (1.0 + sum(order.work_h100e.sum() for order in orders)) / work.min())


@given(_rounds())
@settings(max_examples=100, deadline=None)
def test_allocation_keeps_limits_of_skus_and_gives_nobody_more_work_than_it_asked(case: Any) -> None:
    orders, work, limit, vendor_limit, is_amd = case
    got, slack = allocate(orders, work, limit.copy(), dict(vendor_limit), is_amd), _slack(case)
    asked = np.array([order.work_h100e for order in orders])
    assert np.isfinite(got).all()
    assert (got.sum(axis=0) <= limit + slack).all()
    assert ((got @ work) <= asked.sum(axis=1) + slack * work.max()).all()
    index = np.array([order.profit_index for order in orders])
    assert (index[(got > slack) & (asked == 0.0)] > 1.0).all()


def test_allocation_shares_out_a_vendor_limit_over_its_skus() -> None:
    order = HardwareOrder(np.array([600.0, 600.0]), np.array([2.0, 1.5]))
    got = allocate([order], np.ones(2), np.full(2, 1000.0), {False: 1000.0, True: 0.0}, np.zeros(2, np.bool_))
    assert got.sum() == pytest.approx(1000.0)


@given(_rounds())
@settings(max_examples=100, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_allocation_keeps_limits_of_vendors_and_takes_nothing_back(case: Any) -> None:
    orders, work, limit, vendor_limit, is_amd = case
    got, slack = allocate(orders, work, limit.copy(), dict(vendor_limit), is_amd), _slack(case)
    assert (got >= 0.0).all()
    for amd, most in vendor_limit.items():
        assert got[:, is_amd == amd].sum() <= most + slack


@given(_rounds())
@settings(max_examples=60, deadline=None)
def test_allocation_without_limits_gives_what_was_asked(case: Any) -> None:
    orders, work, limit, vendor_limit, is_amd = case
    free = np.full(len(limit), np.inf)
    got = allocate(orders, work, free, dict.fromkeys(vendor_limit, np.inf), is_amd)
    np.testing.assert_allclose(got, np.array([order.work_h100e / work for order in orders]), rtol=1e-12)


@given(_rounds(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_allocation_does_not_depend_on_the_order_of_buyers(case: Any, luck: Any) -> None:
    orders, work, limit, vendor_limit, is_amd = case
    places = list(range(len(orders)))
    luck.shuffle(places)
    straight = allocate(orders, work, limit.copy(), dict(vendor_limit), is_amd)
    mixed = allocate([orders[place] for place in places], work, limit.copy(), dict(vendor_limit), is_amd)
    np.testing.assert_allclose(mixed, straight[places], rtol=1e-7, atol=_slack(case))


@given(_rounds())
@settings(max_examples=30, deadline=None)
def test_allocation_does_not_write_its_inputs(case: Any) -> None:
    orders, work, limit, vendor_limit, is_amd = case
    before = [limit.copy(), work.copy(), is_amd.copy(), *(order.work_h100e.copy() for order in orders)]
    limits = dict(vendor_limit)
    allocate(orders, work, limit, vendor_limit, is_amd)
    after = [limit, work, is_amd, *(order.work_h100e for order in orders)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert vendor_limit == limits


def test_nothing_is_allocated_where_nobody_orders() -> None:
    assert allocate([], np.ones(3), np.ones(3), {False: 1.0, True: 1.0}, np.zeros(3, np.bool_)).shape == (0, 3)
