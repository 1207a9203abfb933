"""Statements: income, cash flow and balance sheet of agents or classes over any weeks, and who paid whom.

Everything here is a pure function of a `Journal`: the ledger's balances at every close and its postings between. A
figure is positive as people read it: income and cost, assets and claims; in flows what comes in is positive.

    profit          = income - expenses
    change in cash  = operating + investing + financing flows
    assets          = debt + accrued interest + equity,  equity = paid in + profit to date
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats
from market.bookrecords import ledger_kinds
from market.failure import fleet_value_usd
from market.ledger import ENTRY_TYPES, Account, Ledger

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = [
    "ACTIVITIES",
    "CHANGE_IN_MONEY",
    "FlowMatrix",
    "Journal",
    "Statement",
    "flow_matrix",
    "keep_journal",
    "received_from",
    "statement",
]

Rows = NDArray[np.intp]
Names = NDArray[Any]
Activity = Literal["operating", "investing", "financing"]

CHANGE_IN_MONEY = "change in money"
"""Last row of a flow matrix: minus the change of each sector's cash, so that every column sums to zero."""

_OPERATING: tuple[Activity, Activity] = ("operating", "operating")
_OWNERS: tuple[Activity, Activity] = ("investing", "financing")

ACTIVITIES: Mapping[str, tuple[Activity, Activity]] = MappingProxyType(
    {
        **{reason: _OPERATING for reason, kind in ENTRY_TYPES.items() if kind.moves_cash},
        "opening_cash": _OWNERS,
        "equity_in": _OWNERS,
        "capital_returned": ("financing", "investing"),
        "loan_draw": ("investing", "financing"),
        "principal": ("financing", "investing"),
        "capital_purchase": ("investing", "operating"),
        "asset_sale": ("investing", "investing"),
        "scrap_sale": ("investing", "investing"),
    }
)
"""Reason → activity of the payer and of the payee in a cash-flow statement; interest is operating, as under US GAAP."""

_REASONS = tuple(ENTRY_TYPES)
_CASH_REASONS = tuple(reason for reason in _REASONS if ENTRY_TYPES[reason].moves_cash)
_SIGNS = np.array([account.sign for account in Account], np.float64)
_INCOME = [account for account in Account if Account.RENT_INCOME <= account < Account.RENT_PAID]
_EXPENSES = [account for account in Account if account >= Account.RENT_PAID]
_ASSETS = [account for account in Account if account < Account.DEBT]
_CLAIMS = [Account.DEBT, Account.INTEREST_PAYABLE]


@dataclass(frozen=True)
class Journal:
    """A run's books: balances at the close of every week, and every payment and booking between.

    Attributes:
        names: agents, in the order of the ledger's rows.
        sectors: kind of each agent (`market.bookrecords.ledger_kinds`).
        balance: USD, debit positive, ``(weeks + 1, agents, accounts)``; week 0 is the opening.
        week, reason, payer, payee, usd: postings, added up by week, reason, payer and payee; columns of equal length.
        fleet_value_usd: what each agent's GPUs would fetch second-hand, ``(weeks + 1, agents)``: economic value beside
            the book value; 0 for agents without fleet.
    """

    names: tuple[str, ...]
    sectors: tuple[str, ...]
    balance: Floats
    week: Rows
    reason: Rows
    payer: Rows
    payee: Rows
    usd: Floats
    fleet_value_usd: Floats

    @property
    def weeks(self) -> int:
        """Last week."""
        return len(self.balance) - 1

    def flows(self, first: int, last: int) -> Floats:
        """USD posted in weeks ``first`` to ``last``, ``(reasons, agents, agents)``: reason, payer, payee."""
        inside = (self.week >= first) & (self.week <= last)
        shape = (len(_REASONS), len(self.names), len(self.names))
        place = np.ravel_multi_index((self.reason[inside], self.payer[inside], self.payee[inside]), shape)
        return np.asarray(np.bincount(place, self.usd[inside], int(np.prod(shape))), np.float64).reshape(shape)

    def members(self, who: str) -> Rows:
        """Rows of an agent, a sector, or of everybody (``all``).

        Raises:
            KeyError: nobody is called so.
        """
        if who == "all":
            return np.arange(len(self.names))
        if who in self.names:
            return np.array([self.names.index(who)])
        rows = np.flatnonzero(np.array(self.sectors) == who)
        if not len(rows):
            raise KeyError(who)
        return rows


def keep_journal(model: MarketModel, weeks: int) -> Journal:
    """Play ``weeks`` weeks of a model and keep its books; the model runs as it does without them."""
    balances, values, postings = [], [], []
    for week in range(weeks + 1):
        if week:
            model.step()
            postings.append(_postings(model.accounts.ledger))
        balances.append(model.accounts.ledger.balance.copy())
        values.append(_fleet_values(model))
    columns = np.concatenate(postings, axis=1) if postings else np.zeros((5, 0))
    week, reason, payer, payee = columns[:4].astype(np.intp)
    names, balance, value = tuple(model.accounts.ledger.names), np.array(balances), np.array(values)
    return Journal(names, tuple(ledger_kinds(model).tolist()), balance, week, reason, payer, payee, columns[4], value)


def _postings(ledger: Ledger) -> Floats:
    """Postings of the open week in columns: week, reason, payer, payee, USD."""
    reason, payer, payee = np.nonzero(ledger.flow)
    week = np.full(len(reason), ledger.week)
    return np.array([week, reason, payer, payee, ledger.flow[reason, payer, payee]], np.float64)


def _fleet_values(model: MarketModel) -> Floats:
    """Second-hand value of fleets by agent; lenders hold repossessed GPUs at what they took them for."""
    values = np.zeros(len(model.accounts.ledger.names))
    sellers = model.accounts.seller_rows
    values[sellers] = fleet_value_usd(model)[sellers]
    values[model.accounts.lender_row] = model.accounts.repossessed_usd
    return values


# ------------------------------------------------------------------------------------------------ statements


@dataclass(frozen=True)
class Statement:
    """Three statements of one agent, or of several added up, USD.

    Attributes:
        who: name of the agent or the sector.
        first, last: weeks covered; the balance sheet stands at the end of the last.
        income: lines of the income statement, ending in ``profit``.
        cash: flows by activity and reason, ``operating: rent``, ending in ``change in cash``.
        balance_sheet: assets, claims and ``equity``.
        economic_equity_usd: equity with GPUs at second-hand value in place of book value.
    """

    who: str
    first: int
    last: int
    income: dict[str, float]
    cash: dict[str, float]
    balance_sheet: dict[str, float]
    economic_equity_usd: float

    @property
    def ebitda_usd(self) -> float:
        """Earnings of the trade in GPU-hours before interest, tax and depreciation."""
        gains = ("rent income", "pool income", "leaseback income", "developer cloud income", "fee income")
        costs = ("running", "overhead", "fee paid", "leaseback paid", "programme")
        return sum(self.income[name] for name in gains) - sum(self.income[name] for name in costs)


def statement(journal: Journal, who: str, first: int, last: int) -> Statement:
    """Statements of an agent, a sector or ``all`` over weeks ``first`` to ``last``.

    Raises:
        KeyError: nobody is called so.
        ValueError: weeks outside the journal.
    """
    if not 1 <= first <= last <= journal.weeks:
        raise ValueError(f"weeks {first} to {last}; allowed: within 1 to {journal.weeks}")
    rows = journal.members(who)
    end = (journal.balance[last, rows] * _SIGNS).sum(axis=0)
    moved = end - (journal.balance[first - 1, rows] * _SIGNS).sum(axis=0)
    income = {account.label: float(moved[account]) for account in (*_INCOME, *_EXPENSES)}
    income["profit"] = float(moved[_INCOME].sum() - moved[_EXPENSES].sum())
    sheet = {account.label: float(end[account]) for account in (*_ASSETS, *_CLAIMS)}
    sheet["equity"] = float(end[Account.PAID_IN] + end[_INCOME].sum() - end[_EXPENSES].sum())
    revalued = float(journal.fleet_value_usd[last, rows].sum()) - sheet[Account.GPUS.label]
    cash = _cash_flow(journal.flows(first, last), rows)
    return Statement(who, first, last, income, cash, sheet, sheet["equity"] + revalued)


def _cash_flow(flows: Floats, rows: Rows) -> dict[str, float]:
    """Flows by activity and reason, zero lines left out, with the sum of each activity and the change in cash."""
    lines: dict[Activity, dict[str, float]] = {"operating": {}, "investing": {}, "financing": {}}
    for reason in _CASH_REASONS:
        of_reason = flows[_REASONS.index(reason)]
        sides = zip(ACTIVITIES[reason], (-of_reason[rows].sum(), of_reason[:, rows].sum()), strict=True)
        for activity, usd in sides:
            if usd:
                lines[activity][reason] = lines[activity].get(reason, 0.0) + float(usd)
    found: dict[str, float] = {}
    for activity, by_reason in lines.items():
        found |= {f"{activity}: {reason.replace('_', ' ')}": usd for reason, usd in by_reason.items()}
        found[activity] = float(np.sum(list(by_reason.values())))
    found["change in cash"] = float(np.sum([found[activity] for activity in lines]))
    return found


# ------------------------------------------------------------------------------------------------ flows between sectors


@dataclass(frozen=True)
class FlowMatrix:
    """A transactions-flow matrix: rows flow types, columns sectors, received less paid.

    Attributes:
        rows: flow types that moved money, then `CHANGE_IN_MONEY`.
        columns: sectors.
        usd: ``(rows, columns)``; every row and every column sums to zero.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    usd: Floats


def _indicator(sectors: Sequence[str]) -> tuple[tuple[str, ...], Floats]:
    """Sectors in order of first appearance, and who belongs to which, ``(agents, sectors)``."""
    columns = tuple(dict.fromkeys(sectors))
    return columns, np.array([[sector == column for column in columns] for sector in sectors], np.float64)


def flow_matrix(journal: Journal, first: int, last: int) -> FlowMatrix:
    """Transactions-flow matrix of weeks ``first`` to ``last``. Source: Godley and Lavoie (2007), chapter 2.

    The change in money is taken from the balances, not from the flows, so a column that sums to zero is a check.
    """
    columns, belongs = _indicator(journal.sectors)
    flows = journal.flows(first, last)[[_REASONS.index(reason) for reason in _CASH_REASONS]]
    net = (flows.sum(axis=1) - flows.sum(axis=2)) @ belongs
    moved = flows.sum(axis=(1, 2)) > 0.0
    change = journal.balance[last, :, Account.CASH] - journal.balance[first - 1, :, Account.CASH]
    reasons = [reason.replace("_", " ") for reason, any_usd in zip(_CASH_REASONS, moved, strict=True) if any_usd]
    return FlowMatrix((*reasons, CHANGE_IN_MONEY), columns, np.vstack([net[moved], -(change @ belongs)]))


def received_from(journal: Journal, first: int, last: int, *, by_sector: bool = True) -> tuple[tuple[str, ...], Floats]:
    """Who paid whom: names, and USD that the row received from the column, ``(names, names)``.

    A row's sum less its column's is the change of its cash.
    """
    paid = journal.flows(first, last)[[_REASONS.index(reason) for reason in _CASH_REASONS]].sum(axis=0)
    if not by_sector:
        return journal.names, paid.T
    columns, belongs = _indicator(journal.sectors)
    return columns, (belongs.T @ paid @ belongs).T
