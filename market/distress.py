"""Distress: sellers who cannot pay, or stay outside their covenants, are rescued, stood still for, or end.

::

    no cash, a missed payment, an uncured breach
      → owners pay if the fleet is worth it          (rescue, or repayment that cures the breach)
      → else lenders stand still for some weeks       (no debt service, no orders; tenants stay)
      → the seller can pay again: it goes on
      → else it defaults: cash and GPUs to the lenders, vendors' guarantees, the rest is lost

Source: the order of remedies in facility agreements; lengths are parameters with their own sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from market.arrays import Bools, Floats, totals
from market.covenants import in_breach, repayment_to_cure
from market.failure import Stored, fleet_value_usd, owners_value_usd, second_hand_value_usd
from market.fleets import close_seller
from market.ledger import Account
from market.liquidation import Recovery, repossess
from market.servicing import prepay
from market.units import HOURS_PER_WEEK

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = ["Default", "fail"]

LOST_TENANT = "lost tenant"


@dataclass(frozen=True, slots=True)
class Default:
    """One default, for the records.

    Attributes:
        seller: Supplier row.
        cause: ``operating loss`` or ``missed payment`` (it ran out of cash), ``covenant`` (an uncured breach), or
            ``lost tenant`` where a large tenant left in the months before.
        debt_usd: Debt and accrued interest at default.
        recovered_usd: What its cash and the repossessed GPUs bring its lenders.
        guaranteed_usd: What vendors' guarantees paid.
        loss_usd: The rest.
        gpus: GPUs repossessed.
    """

    seller: int
    cause: str
    debt_usd: float
    recovered_usd: float
    guaranteed_usd: float
    loss_usd: float
    gpus: float


@dataclass(frozen=True, slots=True)
class _Standing:
    """What lenders see of all sellers at last close, ``(sellers,)`` USD.

    Attributes:
        cash, debt: Balances; ``owed`` what missed payments add up to.
        value: Second-hand value of fleets, by which lenders go; ``worth`` their value to owners who keep them.
        cost: Written-down cost as owners see it.
    """

    cash: Floats
    debt: Floats
    owed: Floats
    value: Floats
    worth: Floats
    cost: Floats


def fail(model: MarketModel) -> list[Default]:
    """Test every living seller at last close, in supplier order; those that end this week."""
    p, accounts = model.world.finance, model.accounts
    if not p.default_enabled:
        return []
    standing, covenants = _standing(model), accounts.covenants
    lives = model.suppliers.alive[accounts.seller_rows]
    covenants.see(_breaches(model, standing) & lives)
    broke = standing.cash < standing.owed
    troubled = lives & (broke | covenants.uncured(p) | covenants.standing_still)
    defaults = []
    for row in np.flatnonzero(troubled).tolist():
        if default := _decide(model, row, standing, bool(broke[row])):
            defaults.append(default)
    return defaults


def _standing(model: MarketModel) -> _Standing:
    accounts, agents = model.accounts, len(model.accounts.ledger.names)
    sellers, ledger = accounts.seller_rows, accounts.ledger
    owed = accounts.loans.due(model.week - 1).by_borrower(agents)
    cost = accounts.assets.tax_by_seller(agents)
    return _Standing(
        ledger.cash()[sellers],
        ledger.balance_of(Account.DEBT)[sellers],
        owed[sellers],
        fleet_value_usd(model)[sellers],
        owners_value_usd(model)[sellers],
        cost[sellers],
    )


def _breaches(model: MarketModel, standing: _Standing) -> Bools:
    """Who is outside a covenant at last close."""
    p, accounts = model.world.finance, model.accounts
    book = accounts.ledger.balance_of(Account.GPUS)[accounts.seller_rows]
    value = standing.value if p.covenant_value == "market" else book
    return in_breach(accounts.dscr, standing.debt, value, accounts.weekly_service(), p)


def _decide(model: MarketModel, row: int, standing: _Standing, broke: bool) -> Default | None:
    """What becomes of a seller in trouble this week; its default, if it comes to that."""
    p, covenants = model.world.finance, model.accounts.covenants
    until = int(covenants.standstill_until[row])
    if until > model.week:
        return None
    uncured = bool(covenants.uncured(p)[row])
    if until:
        if not broke and not uncured:
            covenants.go_on(row)
            return None
        return _default(model, row, covenants.cause[row])
    if _rescued(model, row, standing, broke=broke, uncured=uncured):
        return None
    cause = _cause(model, row, broke)
    if p.standstill_weeks == 0:
        return _default(model, row, cause)
    covenants.stand_still(row, model.week + p.standstill_weeks, cause)
    return None


def _rescued(model: MarketModel, row: int, standing: _Standing, *, broke: bool, uncured: bool) -> bool:
    """Owners pay what is missing if the fleet is worth it and they have not paid too much yet.

    For missed payments and unpaid bills: the hole and a few weeks of service. For a breach: what has to be repaid to
    cure it, cash above the reserve first. A seller without debt is its owners' business: they pay.
    """
    p, accounts = model.world.finance, model.accounts
    service = float(accounts.weekly_service()[row])
    hole = float(standing.owed[row] - standing.cash[row]) + p.rescue_service_weeks * service if broke else 0.0
    cure = _cure_usd(model, row, standing) if uncured else 0.0
    reserve = model.world.capacity.service_reserve_weeks * service
    needed = hole + max(0.0, cure - max(0.0, float(standing.cash[row] - standing.owed[row]) - reserve))
    if needed > 0.0 and not _willing(model, row, standing):
        return False
    accounts.ledger.post("equity_in", accounts.world_row, row, needed)
    accounts.rescued_usd[row] += needed
    if cure > 0.0:
        prepay(accounts, row, cure)
    if uncured:
        accounts.covenants.cured(row)
    return True


def _cure_usd(model: MarketModel, row: int, standing: _Standing) -> float:
    p, accounts = model.world.finance, model.accounts
    book = float(accounts.ledger.balance_of(Account.GPUS)[row])
    value = float(standing.value[row]) if p.covenant_value == "market" else book
    return repayment_to_cure(float(accounts.dscr[row]), float(standing.debt[row]), value, p)


def _willing(model: MarketModel, row: int, standing: _Standing) -> bool:
    """Whether owners pay again: a fleet worth more than the debt, a cover that is not hopeless, money left to spend."""
    p, accounts = model.world.finance, model.accounts
    worth, debt = float(standing.worth[row]), float(standing.debt[row])
    if debt <= 0.0:
        return True
    worth_it = worth - debt > p.rescue_equity_share * worth and accounts.dscr[row] > p.rescue_dscr
    return bool(worth_it and accounts.rescued_usd[row] <= p.rescue_limit_share * standing.cost[row])


def _cause(model: MarketModel, row: int, broke: bool) -> str:
    """What a standstill or a default is put down to."""
    accounts, leases = model.accounts, model.leases
    mine = leases.lot // len(model.tables.skus) == row
    paid = totals(leases.tenant[mine], (leases.gpus * model.prices_paid())[mine], len(model.tenants.segment))
    if accounts.tenant_watch.lost(row, paid * HOURS_PER_WEEK, model.world.finance):
        return LOST_TENANT
    if not broke:
        return "covenant"
    return "operating loss" if accounts.last_ebitda_usd[row] < 0.0 else "missed payment"


def _default(model: MarketModel, row: int, cause: str) -> Default:
    """A seller ends: leases are released, the pipeline is cancelled, lenders take cash and GPUs, losses are split."""
    s, accounts, p = model.suppliers, model.accounts, model.world.finance
    worth = p.recovery_share * second_hand_value_usd(model, model.age_weeks)[row] * s.installed_gpus[row]
    value, gpus = float(worth.sum()), s.installed_gpus[row].copy()
    found = repossess(accounts, model, row, value)
    # GPUs worth more than the debt: the part beyond it stays with the owners, who sell it out of this market.
    share = found.gpus_usd / value if value > 0.0 else 0.0
    for sku in np.flatnonzero(gpus).tolist():
        age, week = float(model.age_weeks[row, sku]), model.week + p.storage_weeks
        model.stored.append(Stored(sku, float(gpus[sku]) * share, age, float(worth[sku]) * share, week))
    close_seller(model, row)
    accounts.covenants.go_on(row)
    return _recorded(row, cause, found, float(gpus.sum()))


def _recorded(row: int, cause: str, found: Recovery, gpus: float) -> Default:
    recovered = found.cash_usd + found.gpus_usd
    loss = max(found.owed_usd - recovered - found.guaranteed_usd, 0.0)
    return Default(row, cause, found.owed_usd, recovered, found.guaranteed_usd, loss, gpus)
