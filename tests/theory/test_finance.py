"""Cost of ownership, loans, floors under rents and failure: formulas against the table, books against the formulas.

Sources: Brealey, Myers & Allen; Black 1976; Black & Cox 1976.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from market.arrays import Floats
from market.costs import CostParameters, full_cost_usd_per_gpu_hour
from market.covers import Covers
from market.ledger import Ledger
from market.loans import LoanBook
from market.randomness import Purpose, normal
from market.tables import Sku, load_tables
from market.units import HOURS_PER_WEEK, HOURS_PER_YEAR
from market.valuation import (
    break_even_usd_per_gpu_hour,
    break_even_with_debt,
    failure_probability,
    failure_trigger_usd_per_gpu_hour,
    floor_value_usd,
    levelised_parts_usd_per_gpu_hour,
    rent_value_usd,
)
from tests.theory.table import Case, family
from tests.theory.textbook import Textbook, textbook

# ------------------------------------------------------------------------------------------------ loans


def loan(usd: float, period_rate: float, payments: int) -> LoanBook:
    """A loan in the market's book, a week standing for a period: its simple weekly rate is the period's."""
    book = LoanBook(interval_weeks=1)
    book.append(0, 1, usd, period_rate * HOURS_PER_YEAR / HOURS_PER_WEEK, payments, 1)
    return book


def pay(book: LoanBook, periods: int, first: int = 1) -> list[float]:
    """Let periods pass, all paid; what was paid in each."""
    paid = []
    for week in range(first, first + periods):
        book.accrue_week()
        due = book.due(week)
        book.pay(due)
        paid.append(float((due.interest.usd + due.principal.usd).sum()))
    return paid


@family("annuity")
def test_a_loan_in_the_books_is_repaid_by_level_payments(case: Case) -> None:
    per_year = case["payments_per_year"]
    payments, before = round(case["years"] * per_year), round(case["after_years"] * per_year)
    book = loan(case["loan_usd"], (1.0 + case["annual_rate"]) ** (1.0 / per_year) - 1.0, payments)
    paid = pay(book, before)
    found = {
        "payment": float(book.payment_usd[0]) if len(book) else paid[0],
        "balance_after": float(book.balance_usd.sum()),
    }
    case.agree(found)
    paid += pay(book, payments - before, before + 1)
    assert paid == pytest.approx([found["payment"]] * payments)
    assert len(book) == 0  # nothing remains


# ------------------------------------------------------------------------------------------------ break-even prices


def sku_and_costs(case: Case) -> tuple[Sku, CostParameters]:
    shipped = load_tables()
    sku = shipped.skus[0].model_copy(
        update={"capex_usd": case["capex_usd_per_gpu"], "power_kw": case["power_kw_per_gpu"]}
    )
    costs = CostParameters().model_copy(
        update={
            "cost_of_capital": case["annual_rate"],
            "life_years": case["life_years"],
            "colocation_usd_per_kw_month": case["colocation_usd_per_kw_month"],
            "electricity_usd_per_kwh": case["electricity_usd_per_kwh"],
            "power_usage_effectiveness": case["pue"],
            "load_busy": case["load_factor"],
            "operations_share_of_capital": case["opex_fraction_of_capex_per_year"],
        }
    )
    return sku, costs


def life(price_by_year: Floats, hours: float, running: float, capex: float, residual: float, per_year: int) -> Floats:
    """Cash of every period of a GPU's life, bought at 0, ``(periods + 1,)``."""
    income = np.repeat(np.asarray(price_by_year), per_year) * hours / per_year - running / per_year
    income[-1] += residual
    return np.append(-capex, income)


def present(cash: Floats, annual_rate: float, per_year: int) -> float:
    """Net present value, discounted period by period."""
    total = 0.0
    for flow in cash[::-1]:
        total = flow + total / (1.0 + annual_rate) ** (1.0 / per_year)
    return float(total)


@family("levelised_cost")
def test_the_levelised_cost_of_a_sold_hour_leaves_no_value_over(case: Case) -> None:
    sku, costs = sku_and_costs(case)
    use, hours, per_year = case["utilisation"], case["hours_per_year"], case["periods_per_year"]
    residual = case["residual_fraction_of_capex"]
    parts = levelised_parts_usd_per_gpu_hour(
        sku, costs, utilisation=use, residual_share=residual, periods_per_year=per_year, hours_per_year=hours
    )
    price = sum(parts.values())
    case.agree({"breakeven_price": price, "capital_part": parts["capital"], "energy_part": parts["electricity"]})
    running = (price - parts["capital"]) * hours * use
    flows = life(
        np.full(costs.life_years, price), hours * use, running, sku.capex_usd, residual * sku.capex_usd, per_year
    )
    assert abs(present(flows, case["annual_rate"], per_year)) <= 1e-6 * sku.capex_usd


@family("levelised_cost")
def test_at_full_use_and_without_resale_it_is_the_full_cost_of_the_cost_module(case: Case) -> None:
    sku, costs = sku_and_costs(case)
    parts = levelised_parts_usd_per_gpu_hour(sku, costs, utilisation=1.0)
    assert sum(parts.values()) == pytest.approx(float(full_cost_usd_per_gpu_hour([sku], costs)[0]))


def shared(case: Case) -> dict[str, Any]:
    """Arguments that both families of break-even prices have."""
    return {
        "capex_usd": case["capex_usd_per_gpu"],
        "running_usd_per_year": case["running_cost_usd_per_year"],
        "sold_hours_per_year": case["sold_gpu_hours_per_year"],
        "years": case["life_years"],
        "residual_usd": case["residual_usd"],
    }


@family("breakeven_with_falling_rents")
def test_falling_rents_call_for_a_higher_first_price(case: Case) -> None:
    terms, fall = shared(case), case["annual_price_decline"]
    first = break_even_usd_per_gpu_hour(**terms, annual_rate=case["annual_rate"], annual_price_decline=fall)
    case.agree({"first_year_breakeven_price": first})
    prices = first * (1.0 - fall) ** np.arange(terms["years"])
    flows = life(
        prices,
        terms["sold_hours_per_year"],
        terms["running_usd_per_year"],
        terms["capex_usd"],
        terms["residual_usd"],
        1,
    )
    assert abs(present(flows, case["annual_rate"], 1)) <= 1e-6 * terms["capex_usd"]


@family("debt_and_equity")
def test_equity_just_earns_its_return_after_the_loan_in_the_books_is_served(case: Case) -> None:
    terms, share, wanted = shared(case), case["debt_fraction"], case["annual_required_equity_return"]
    found = break_even_with_debt(**terms, debt_share=share, debt_rate=case["annual_debt_rate"], equity_return=wanted)
    answers = {"breakeven_price": found.price_usd_per_gpu_hour, "debt_service": found.service_usd_per_year}
    case.agree(answers if found.service_cover is None else answers | {"debt_service_cover": found.service_cover})
    flows = life(
        np.full(terms["years"], found.price_usd_per_gpu_hour),
        terms["sold_hours_per_year"],
        terms["running_usd_per_year"],
        terms["capex_usd"],
        terms["residual_usd"],
        1,
    )
    borrowed = share * terms["capex_usd"]
    flows[0] += borrowed
    flows[1:] -= pay(loan(borrowed, case["annual_debt_rate"], terms["years"]), terms["years"]) if borrowed else 0.0
    assert abs(present(flows, wanted, 1)) <= 1e-6 * terms["capex_usd"]


# ------------------------------------------------------------------------------------------------ a floor under rents


def put_arguments(case: Case) -> tuple[float, float, float, float, float, Floats, float]:
    return (
        case["rent_usd_per_gpu_hour"],
        case["floor_usd_per_gpu_hour"],
        case["annual_drift"],
        case["annual_volatility"],
        case["annual_rate_continuous"],
        np.arange(1, case["quarters"] + 1) / 4.0,
        case["gpu_hours_per_quarter"],
    )


@family("leaseback_put")
def test_a_floor_is_worth_a_strip_of_puts(case: Case) -> None:
    rent, floor, drift, volatility, rate, dates, hours = put_arguments(case)
    value = floor_value_usd(rent, floor, drift, volatility, rate, dates, hours)
    without = rent_value_usd(rent, drift, rate, dates, hours)
    case.agree({"put_value": value, "put_value_over_unfloored_revenue": value / without})


@family("leaseback_put")
def test_payments_under_a_cover_average_to_the_put(case: Case) -> None:
    """A seller leaves hours idle where the cover pays more than the rent; rents at evenly spread quantiles."""
    rent, floor, drift, volatility, rate, dates, hours = put_arguments(case)
    count, worth = 4000, 0.0
    even = ndtri((np.arange(count) + 0.5) / count)
    covers = Covers()
    covers.add(
        np.arange(count),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.ones(count),
        np.full(count, floor),
        10**6,
    )
    for date in dates:
        now = rent * np.exp((drift - volatility**2 / 2.0) * date + volatility * np.sqrt(date) * even)
        idle = (now < floor).astype(np.float64)
        paid = covers.pay(np.ones((count, 1)), idle[:, None])
        received = now * (1.0 - idle) + np.bincount(paid.seller, paid.idle_gpus * paid.rate_usd, count)
        worth += float(hours * np.exp(-rate * date) * (received - now).mean())
    assert worth == pytest.approx(case.known["put_value"].value, rel=2e-3)


# ------------------------------------------------------------------------------------------------ failure


def trigger(case: Case) -> float:
    names = ("cash_need_usd_per_gpu_hour", "leased_share", "lease_price_usd_per_gpu_hour", "utilisation")
    return failure_trigger_usd_per_gpu_hour(*(case[name] for name in names))


@family("floor_and_default")
def test_a_firm_lease_lowers_the_rent_at_which_cash_fails(case: Case) -> None:
    walk = (case["rent_usd_per_gpu_hour"], trigger(case), case["annual_drift"], case["annual_volatility"])
    found = {
        "trigger_price": trigger(case),
        "probability_at_year_end": failure_probability(*walk, 1.0, "end"),
        "probability_ever_continuous": failure_probability(*walk, case["years"], "continuous"),
        "probability_ever_weekly": failure_probability(*walk, case["years"], "weekly"),
    }
    case.agree(found)


@family("floor_and_default")
def test_in_the_market_cash_falls_just_below_the_trigger_and_not_above(case: Case) -> None:
    """One seller with a part of its fleet leased back in full, tenants who take what they need at any price."""
    rent = trigger(case)
    prices = [0.01, 1.0] if rent <= 0.0 else [0.99 * rent, 1.01 * rent]
    for price in prices:
        fleet = 1.0 / (case["utilisation"] * (1.0 - case["leased_share"]))
        world = Textbook(
            [0.0],
            [case["cash_need_usd_per_gpu_hour"]],
            1.0,
            capacity=[fleet],
            outside=False,
            firm_share=case["leased_share"],
            firm_lease_usd=case["lease_price_usd_per_gpu_hour"],
        )
        market = textbook(world, [price])
        market.hold()
        before = market.model.accounts.ledger.cash()[0]
        market.model.step()
        assert (market.model.accounts.ledger.cash()[0] < before) == (price < rent)


def failed_share(case: Case, sellers: int, rounds: int) -> Floats:
    """Part of sellers whose books ran out of cash by the end of each week; each has a rent path of its own.

    Rent, lease and need are posted weekly per installed GPU; owners take what is over, so cash never carries on.
    """
    weeks, step = round(52 * case["years"]), 1.0 / 52.0
    drift, volatility = case["annual_drift"], case["annual_volatility"]
    share, lease = case["leased_share"], case["lease_price_usd_per_gpu_hour"]
    rows, world = np.arange(sellers), np.full(sellers, sellers)
    alive = np.zeros(weeks + 1)
    for block in range(rounds):
        ledger = Ledger([f"seller {n}" for n in rows])
        rent, sound = np.full(sellers, case["rent_usd_per_gpu_hour"]), np.ones(sellers, np.bool_)
        for week in range(1, weeks + 1):
            luck = normal(block, Purpose.PRICE_NOISE, week, rows)
            rent = rent * np.exp((drift - volatility**2 / 2.0) * step + volatility * np.sqrt(step) * luck)
            ledger.open_week(week)
            ledger.post("rent", world, rows, (1.0 - share) * case["utilisation"] * rent)
            ledger.post("leaseback", world, rows, np.full(sellers, share * lease))
            ledger.post("running", rows, world, np.full(sellers, case["cash_need_usd_per_gpu_hour"]))
            cash = ledger.cash()[rows]
            sound &= cash >= 0.0
            ledger.post("capital_returned", rows, world, np.maximum(cash, 0.0))
            ledger.post("equity_in", world, rows, np.maximum(-cash, 0.0))
            alive[week] += sound.sum()
    return 1.0 - alive / (sellers * rounds)


@family("floor_and_default")
def test_sellers_in_the_books_fail_as_often_as_stated(case: Case) -> None:
    """Within 4.5 standard errors of 600 paths; the soak test below holds the tolerance of the table."""
    known, paths = case.known["probability_ever_weekly"].value, 600
    found = failed_share(case, 60, paths // 60)[-1]
    assert abs(found - known) <= 4.5 * np.sqrt(max(known * (1.0 - known), 1e-12) / paths) + 1e-9


@pytest.mark.soak
@family("floor_and_default")
def test_sellers_in_the_books_fail_as_often_as_stated_within_the_tolerance(case: Case) -> None:
    case.agree({"probability_ever_weekly": float(failed_share(case, 60, 740)[-1])}, partly=True)
