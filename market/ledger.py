"""Money: balanced posting for all agents at once, statements for people, and identities that must hold.

Every payment has a reason, and every reason says which accounts of the payer and of the payee it moves and how
(`ENTRY_TYPES`). Debits are positive, credits negative, so each agent's accounts always add up to zero:

    assets + expenses − (debt, claims of others, paid-in capital, income) = 0.

``rest_of_world`` stands for everybody who is not simulated (landlords, power companies, owners, the state); with it the
system is closed, and cash is only moved, never made. The ledger refuses what is malformed and reports what does not
add up; it decides nothing. An agent without cash is a matter for the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from market.randomness import agent_key

__all__ = [
    "ENTRY_TYPES",
    "REST_OF_WORLD",
    "TOLERANCE",
    "Account",
    "Entry",
    "EntryType",
    "Ledger",
    "account_residuals",
    "cash_residual",
    "check",
    "claim_residuals",
    "flow_residuals",
    "posting_residuals",
    "subsidiary_residuals",
]

Floats: TypeAlias = NDArray[np.float64]
Agents: TypeAlias = NDArray[np.intp]

REST_OF_WORLD = "rest_of_world"
TOLERANCE = 1e-8
"""Largest residual, as a share of all money moved so far, that counts as rounding."""


class Account(IntEnum):
    """An agent's accounts; the value is the column in `Ledger.balance`."""

    CASH = 0
    INTEREST_RECEIVABLE = 1
    LOANS = 2
    GPUS = 3
    EQUITY_HELD = 4
    DEBT = 5
    INTEREST_PAYABLE = 6
    PAID_IN = 7
    RENT_INCOME = 8
    DEVELOPER_CLOUD_INCOME = 9
    POOL_INCOME = 10
    LEASEBACK_INCOME = 11
    FEE_INCOME = 12
    HARDWARE_SALES = 13
    INTEREST_INCOME = 14
    GUARANTEE_INCOME = 15
    FUNDING = 16
    SALE_RESULT = 17
    DEBT_RELIEF = 18
    EXTERNAL = 19
    RENT_PAID = 20
    LEASEBACK_PAID = 21
    FEE_PAID = 22
    GUARANTEE_PAID = 23
    RUNNING = 24
    OVERHEAD = 25
    PROGRAMME = 26
    DEPRECIATION = 27
    INTEREST_EXPENSE = 28
    CREDIT_LOSS = 29
    TAX = 30
    COST_OF_SALES = 31

    @property
    def label(self) -> str:
        """Name as people write it: ``rent income``."""
        return self.name.lower().replace("_", " ")

    @property
    def sign(self) -> int:
        """What turns a balance into the figure people read: +1 for assets and expenses, −1 for claims and income."""
        return -1 if Account.DEBT <= self < Account.RENT_PAID else 1


_BALANCE_SHEET = tuple(account for account in Account if account < Account.RENT_INCOME)
_INCOME = tuple(account for account in Account if account >= Account.RENT_INCOME)
_SIGNS = np.array([account.sign for account in Account], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class EntryType:
    """What one USD posted for a reason does to the accounts of the payer and of the payee.

    Args:
        meaning: the reason in a few words.
        payer: changes of the payer's accounts per USD, debit positive.
        payee: changes of the payee's accounts; empty where an entry concerns one agent only (depreciation).

    Raises:
        ValueError: a side does not sum to zero, or cash leaves one side without reaching the other.
    """

    meaning: str
    payer: Mapping[Account, int]
    payee: Mapping[Account, int]

    def __post_init__(self) -> None:
        """Refuse a type that would unbalance the books."""
        if sum(self.payer.values()) or sum(self.payee.values()) or not self.payer:
            raise ValueError(f"{self.meaning}: the changes of each side must sum to zero")
        if self.payer.get(Account.CASH, 0) != -self.payee.get(Account.CASH, 0):
            raise ValueError(f"{self.meaning}: the payee must receive the cash that the payer pays")

    @property
    def moves_cash(self) -> bool:
        """Whether money changes hands."""
        return Account.CASH in self.payer

    @property
    def one_sided(self) -> bool:
        """Whether the entry concerns one agent only."""
        return not self.payee


def _paid(meaning: str, gets: Account, gives: Account) -> EntryType:
    """A cash payment: the payer debits ``gets`` (an expense, an asset, less debt), the payee credits ``gives``."""
    return EntryType(meaning, {gets: 1, Account.CASH: -1}, {Account.CASH: 1, gives: -1})


def _booked(meaning: str, payer: tuple[Account, Account], payee: tuple[Account, Account] | None = None) -> EntryType:
    """An entry without cash; each side names the account debited, then the account credited."""
    debit, credit = payer
    return EntryType(meaning, {debit: 1, credit: -1}, {payee[0]: 1, payee[1]: -1} if payee else {})


_A = Account
ENTRY_TYPES: Mapping[str, EntryType] = MappingProxyType(
    {
        # Opening state. Payer of equipment and cash is the rest of the world; a debt lowers the borrower's own capital.
        "opening_gpus": _booked("GPUs owned at the start", (_A.EQUITY_HELD, _A.EXTERNAL), (_A.GPUS, _A.PAID_IN)),
        "opening_cash": _paid("cash held at the start", _A.EQUITY_HELD, _A.PAID_IN),
        "opening_debt": _booked("debt owed at the start", (_A.PAID_IN, _A.DEBT), (_A.LOANS, _A.PAID_IN)),
        # Trade in GPU-hours.
        "rent": _paid("tenants' rent to a seller", _A.RENT_PAID, _A.RENT_INCOME),
        "developer_cloud_rent": _paid("rent to a vendor's cloud", _A.RENT_PAID, _A.DEVELOPER_CLOUD_INCOME),
        "pool_rent": _paid("rent of pooled GPUs before the fee", _A.RENT_PAID, _A.POOL_INCOME),
        "pool_fee": _paid("a member's fee to the pool", _A.FEE_PAID, _A.FEE_INCOME),
        "leaseback": _paid("a vendor's rent for leased-back GPUs", _A.LEASEBACK_PAID, _A.LEASEBACK_INCOME),
        "cover": _paid("a vendor's rent for covered hours that stayed idle", _A.LEASEBACK_PAID, _A.LEASEBACK_INCOME),
        "guarantee_fee": _paid("a seller's share of rent for a guarantee of its loans", _A.FEE_PAID, _A.FEE_INCOME),
        "rent_share": _paid("a seller's share of rent to a vendor that covers it", _A.FEE_PAID, _A.FEE_INCOME),
        # Cost of the business.
        "running": _paid("power, space and repairs", _A.RUNNING, _A.EXTERNAL),
        "overhead": _paid("sales and staff", _A.OVERHEAD, _A.EXTERNAL),
        "programme": _paid("a vendor's software programme", _A.PROGRAMME, _A.EXTERNAL),
        "tax": _paid("tax on profit", _A.TAX, _A.EXTERNAL),
        "depreciation": _booked("fall of the book value", (_A.DEPRECIATION, _A.GPUS)),
        # Capital.
        "capital_purchase": _paid("new GPUs", _A.GPUS, _A.HARDWARE_SALES),
        "hardware_cost": _paid("what a vendor's sales cost it: chips, boards, servers", _A.COST_OF_SALES, _A.EXTERNAL),
        "equity_in": _paid("owners' money", _A.EQUITY_HELD, _A.PAID_IN),
        "segment_funding": _paid("tenants' own revenue", _A.EXTERNAL, _A.FUNDING),
        # Loans; the payer is the lender in a draw and the borrower in everything else.
        "loan_draw": _paid("a loan paid out", _A.LOANS, _A.DEBT),
        "interest_accrual": _booked(
            "interest of the week",
            (_A.INTEREST_EXPENSE, _A.INTEREST_PAYABLE),
            (_A.INTEREST_RECEIVABLE, _A.INTEREST_INCOME),
        ),
        "interest_payment": _paid("accrued interest paid", _A.INTEREST_PAYABLE, _A.INTEREST_RECEIVABLE),
        "principal": _paid("debt repaid", _A.DEBT, _A.LOANS),
        # Failure. A sale at a price other than the book value is two entries: the price in, the book value out.
        "write_off": _booked("debt never repaid", (_A.DEBT, _A.DEBT_RELIEF), (_A.CREDIT_LOSS, _A.LOANS)),
        "interest_write_off": _booked(
            "interest never paid", (_A.INTEREST_PAYABLE, _A.DEBT_RELIEF), (_A.CREDIT_LOSS, _A.INTEREST_RECEIVABLE)
        ),
        "repossession": _booked("GPUs taken for debt", (_A.DEBT, _A.SALE_RESULT), (_A.GPUS, _A.LOANS)),
        "repossession_interest": _booked(
            "GPUs taken for interest", (_A.INTEREST_PAYABLE, _A.SALE_RESULT), (_A.GPUS, _A.INTEREST_RECEIVABLE)
        ),
        "guarantee": _paid("a vendor's guarantee to a lender", _A.GUARANTEE_PAID, _A.GUARANTEE_INCOME),
        "unpaid_bills": _paid("bills of a failed seller that nobody pays", _A.EXTERNAL, _A.DEBT_RELIEF),
        "capital_returned": _paid("cash left to owners", _A.PAID_IN, _A.EQUITY_HELD),
        "scrap_sale": _paid("used GPUs that leave this market", _A.EXTERNAL, _A.SALE_RESULT),
        "asset_sale": _paid("used GPUs, at their price", _A.GPUS, _A.SALE_RESULT),
        "asset_disposal": _booked("used GPUs, their book value leaves", (_A.SALE_RESULT, _A.GPUS)),
    }
)
"""Reason → accounts. The order is the first dimension of `Ledger.flow`."""

_REASONS = tuple(ENTRY_TYPES)
_ROW = {reason: row for row, reason in enumerate(_REASONS)}
_CASH_ROWS = np.flatnonzero([kind.moves_cash for kind in ENTRY_TYPES.values()])


class Entry(NamedTuple):
    """What one agent paid (or booked to) another in a week for one reason."""

    week: int
    reason: str
    payer: str
    payee: str
    usd: float


class Ledger:
    """Books of all agents.

    Args:
        names: names of the agents; ``rest_of_world`` is added behind them.
        keys: their stable 64-bit keys (`market.randomness.agent_key` of the name if left out).

    Attributes:
        names: names, in the order of the rows.
        keys: their keys.
        week: the week that is open.
        rest_of_world: row of the agent that closes the system.
        balance: USD since the start, debit positive, shape ``(agents, accounts)``.
        flow: USD of the open week, shape ``(reasons, agents, agents)``: reason, payer, payee.
        flow_to_date: the same since the start.
        repeated: reasons of entries of the open week that were made twice, equal in every amount.

    Raises:
        ValueError: a name or key stands twice.
    """

    def __init__(self, names: Sequence[str], keys: Sequence[int] | None = None) -> None:
        self.names: list[str] = []
        self.keys: list[int] = []
        self.week = 0
        self.repeated: list[str] = []
        self._posted: set[tuple[str, bytes]] = set()
        self.balance: Floats = np.zeros((0, len(Account)))
        self.flow: Floats = np.zeros((len(_REASONS), 0, 0))
        self.flow_to_date: Floats = self.flow
        self._opening: Floats = self.balance
        keys = [agent_key(name) for name in names] if keys is None else keys
        for name, key in zip([*names, REST_OF_WORLD], [*keys, agent_key(REST_OF_WORLD)], strict=True):
            self.add_agent(name, key)
        self.rest_of_world = len(names)

    def add_agent(self, name: str, key: int | None = None) -> int:
        """Open empty books for another agent and return its row; the rows of the others stay.

        Raises:
            ValueError: the name or the key is taken.
        """
        key = agent_key(name) if key is None else int(key)
        if name in self.names or key in self.keys:
            raise ValueError(f"agent {name!r}: the name or its key is already in the ledger")
        self.names.append(name)
        self.keys.append(key)
        self.balance = np.pad(self.balance, ((0, 1), (0, 0)))
        self._opening = np.pad(self._opening, ((0, 1), (0, 0)))
        self.flow = np.pad(self.flow, ((0, 0), (0, 1), (0, 1)))
        self.flow_to_date = np.pad(self.flow_to_date, ((0, 0), (0, 1), (0, 1)))
        return len(self.names) - 1

    def index(self, agent: str | int) -> int:
        """Row of an agent given by name (or by row).

        Raises:
            ValueError: there is no such agent.
        """
        if isinstance(agent, str):
            if agent not in self.names:
                raise ValueError(f"no agent {agent!r} in the ledger; there are {', '.join(self.names)}")
            return self.names.index(agent)
        return int(self._rows(agent, "agent")[0])

    def open_week(self, week: int) -> None:
        """Start a week: its flows are empty and its income is counted from here."""
        self.week = week
        self.flow[:] = 0.0
        self._posted.clear()
        self.repeated.clear()
        self._opening = self.balance.copy()

    def post(self, reason: str, payers: ArrayLike, payees: ArrayLike, usd: ArrayLike) -> None:
        """Book amounts for one reason; rows of payers and payees and USD broadcast to one vector.

        Entries that concern one agent only (``depreciation``, ``asset_disposal``) name it as payer and as payee.

        Raises:
            ValueError: unknown reason, no such agent, negative or non-finite amount, or two agents in a one-sided
                entry; nothing is booked then.
        """
        if reason not in ENTRY_TYPES:
            raise ValueError(f"unknown reason {reason!r}; known are {', '.join(_REASONS)}")
        kind = ENTRY_TYPES[reason]
        amounts = np.asarray(usd, dtype=np.float64)
        if not (np.isfinite(amounts) & (amounts >= 0)).all():
            raise ValueError(f"{reason}: amounts must be finite and at least 0 USD")
        payer, payee, amount = np.broadcast_arrays(self._rows(payers, reason), self._rows(payees, reason), amounts)
        if kind.one_sided and (payer != payee).any():
            raise ValueError(f"{reason} concerns one agent: payer and payee must be the same")
        self._note(reason, payer, payee, amount)
        self._book(payer, kind.payer, amount)
        self._book(payee, kind.payee, amount)
        np.add.at(self.flow[_ROW[reason]], (payer, payee), amount)
        np.add.at(self.flow_to_date[_ROW[reason]], (payer, payee), amount)

    def _note(self, reason: str, payer: Agents, payee: Agents, usd: Floats) -> None:
        """Keep the reason of an entry that repeats another of the week to the last bit.

        A whole entry made twice is balanced in itself, so no identity of sums can show it.
        """
        if not usd.any():
            return
        entry = (reason, payer.tobytes() + payee.tobytes() + usd.tobytes())
        if entry in self._posted:
            self.repeated.append(reason)
        self._posted.add(entry)

    def _rows(self, agents: ArrayLike, what: str) -> Agents:
        """Rows of agents as a vector, checked."""
        rows = np.atleast_1d(np.asarray(agents))
        if rows.size == 0:
            return rows.astype(np.intp)
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(self.names):
            raise ValueError(f"{what}: agents are rows from 0 to {len(self.names) - 1}")
        return rows.astype(np.intp, copy=False)

    def _book(self, agents: Agents, changes: Mapping[Account, int], usd: Floats) -> None:
        """Add one side of an entry to the balances."""
        total = np.bincount(agents.ravel(), weights=usd.ravel(), minlength=len(self.names))
        for account, sign in changes.items():
            self.balance[:, account] += sign * total

    def cash(self) -> Floats:
        """USD of cash by agent; may be negative."""
        return self.balance[:, Account.CASH].copy()

    def balance_of(self, account: Account) -> Floats:
        """USD on an account by agent as people read it: debt owed, income earned and cost incurred are positive."""
        return self.balance[:, account] * account.sign

    def week_income(self, account: Account) -> Floats:
        """USD of the open week on an account by agent, income earned and cost incurred both positive."""
        return (self.balance[:, account] - self._opening[:, account]) * account.sign

    def week_profit(self) -> Floats:
        """Income less expenses of the open week by agent, USD, after whatever has been posted so far."""
        income: Floats = -(self.balance - self._opening)[:, _INCOME].sum(axis=1)
        return income

    def week_total(self, reason: str) -> float:
        """USD posted for a reason in the open week, all agents together."""
        return float(self.flow[_ROW[reason]].sum())

    def cash_flows(self, group: Agents, groups: int) -> tuple[Agents, Floats]:
        """Cash that moved in the open week, added up between groups of agents.

        Args:
            group: group of each agent, ``(agents,)``.
            groups: how many there are.

        Returns:
            Place of each sum that is not zero, ``(3, sums)``: reason (as in `ENTRY_TYPES`), paying and receiving group;
            and the sums, USD.
        """
        moved = self.flow[_CASH_ROWS]
        reason, payer, payee = np.nonzero(moved)
        shape = (len(_CASH_ROWS), groups, groups)
        place = np.ravel_multi_index((reason, group[payer], group[payee]), shape)
        sums = np.bincount(place, moved[reason, payer, payee], int(np.prod(shape)))
        found = np.flatnonzero(sums)
        row, paying, receiving = np.unravel_index(found, shape)
        return np.array([_CASH_ROWS[row], paying, receiving]), np.asarray(sums[found], np.float64)

    def paid_to_date(self, reason: str) -> Floats:
        """USD that each agent has paid for a reason since the start, ``(agents,)``."""
        return np.asarray(self.flow_to_date[_ROW[reason]].sum(axis=1))

    def week_paid(self, reason: str) -> Floats:
        """USD that each agent has paid for a reason in the open week, ``(agents,)``."""
        return np.asarray(self.flow[_ROW[reason]].sum(axis=1))

    def entries(self, week: int) -> list[Entry]:
        """The open week's postings, added up by reason, payer and payee, in that order.

        Raises:
            ValueError: another week is asked for; closed weeks are kept as balances only.
        """
        if week != self.week:
            raise ValueError(f"entries are kept for the open week {self.week}, not for week {week}")
        return [
            Entry(week, _REASONS[reason], self.names[payer], self.names[payee], float(self.flow[reason, payer, payee]))
            for reason, payer, payee in np.argwhere(self.flow)
        ]

    def statement(self, agent: str | int) -> dict[str, dict[str, float]]:
        """Income statement of the open week and since the start, and balance sheet, USD by account.

        Income and expenses, assets and claims are all positive; ``profit`` closes the income statements, ``equity``
        (paid-in capital and profit to date) the balance sheet.
        """
        row = self.index(agent)
        to_date = self.balance[row] * _SIGNS
        week = to_date - self._opening[row] * _SIGNS
        sheet = {account.label: float(to_date[account]) for account in _BALANCE_SHEET}
        profit = _with_profit(to_date)
        sheet["equity"] = sheet["paid in"] + profit["profit"]
        return {"week": _with_profit(week), "to date": profit, "balance sheet": sheet}


def _with_profit(figures: Floats) -> dict[str, float]:
    """Lines of an income statement and their result."""
    lines = {account.label: float(figures[account]) for account in _INCOME}
    return lines | {"profit": float(-(figures * _SIGNS)[list(_INCOME)].sum())}


def account_residuals(ledger: Ledger) -> Floats:
    """Sum over each agent's accounts, USD; zero as every entry balances."""
    sums: Floats = ledger.balance.sum(axis=1)
    return sums


def cash_residual(ledger: Ledger) -> float:
    """Cash of all agents together, USD; zero as cash is moved, never made."""
    return float(ledger.balance[:, Account.CASH].sum())


def claim_residuals(ledger: Ledger) -> Floats:
    """What is owed plus what is held, over all agents, USD: loans, accrued interest, owners' capital; each is zero."""
    claims = (
        (Account.LOANS, Account.DEBT),
        (Account.INTEREST_RECEIVABLE, Account.INTEREST_PAYABLE),
        (Account.EQUITY_HELD, Account.PAID_IN),
    )
    totals = ledger.balance.sum(axis=0)
    return np.array([totals[held] + totals[owed] for held, owed in claims])


def flow_residuals(ledger: Ledger) -> Floats:
    """Change of cash in the open week plus payments made less payments received, USD by agent; zero."""
    moves: Floats = ledger.flow[[ENTRY_TYPES[reason].moves_cash for reason in _REASONS]].sum(axis=0)
    paid, received = moves.sum(axis=1), moves.sum(axis=0)
    return np.asarray(ledger.week_income(Account.CASH) + paid - received)


def posting_residuals(ledger: Ledger) -> Floats:
    """Balances less what the flows since the start imply, USD, shape ``(agents, accounts)``; zero.

    An amount that reached the balances twice, on one side only, or not at all shows here.
    """
    paid, received = ledger.flow_to_date.sum(axis=2), ledger.flow_to_date.sum(axis=1)
    return np.asarray(ledger.balance - paid.T @ _PAYER_CHANGES - received.T @ _PAYEE_CHANGES)


def subsidiary_residuals(ledger: Ledger, account: Account, usd: ArrayLike) -> Floats:
    """An account less what another book says it should be (loan book, asset book, lease book), USD by agent.

    An entry posted twice, or forgotten, is balanced in itself: only a second source of the same figure shows it.

    Args:
        ledger: the books.
        account: the account to compare, signed as people read it.
        usd: amounts by agent from the other book.
    """
    return ledger.balance_of(account) - np.asarray(usd, dtype=np.float64)


def check(ledger: Ledger) -> float:
    """Largest residual of all identities, as a share of the money moved so far (at least 1 USD).

    The books are sound if it is at most `TOLERANCE`.
    """
    residuals = (
        account_residuals(ledger),
        np.array([cash_residual(ledger)]),
        claim_residuals(ledger),
        flow_residuals(ledger),
        posting_residuals(ledger).ravel(),
    )
    return float(np.abs(np.concatenate(residuals)).max() / max(1.0, float(ledger.flow_to_date.sum())))


def _changes(side: str) -> Floats:
    """Changes of the accounts per USD on one side, shape ``(reasons, accounts)``."""
    table = np.zeros((len(_REASONS), len(Account)))
    for row, kind in enumerate(ENTRY_TYPES.values()):
        for account, sign in getattr(kind, side).items():
            table[row, account] = sign
    return table


_PAYER_CHANGES, _PAYEE_CHANGES = _changes("payer"), _changes("payee")
