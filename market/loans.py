"""Loans in tranches of level payments.

Each tranche has its own start: a new loan does not extend older debt. The book only says what is due; `market.ledger`
books it and the model decides what happens when it cannot be paid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from market.arrays import Bools, Floats, Ints, totals
from market.credit import level_payment, weekly_rate
from market.tranches import Charges, Tranches, no_floats, no_ints

__all__ = ["LoanBook", "Service"]


class Service(NamedTuple):
    """Payments due in a week, and the tranches that owe them (rows of the book at that moment)."""

    interest: Charges
    principal: Charges
    tranches: Ints

    def by_borrower(self, agents: int) -> Floats:
        """Interest and principal together by agent, USD, shape ``(agents,)``."""
        return totals(self.interest.payers, self.interest.usd + self.principal.usd, agents)

    def of(self, borrowers: Bools) -> Service:
        """The part that some borrowers owe; ``borrowers`` by agent."""
        kept = borrowers[self.interest.payers]
        interest, principal = (
            Charges(side.payers[kept], side.payees[kept], side.usd[kept]) for side in (self.interest, self.principal)
        )
        return Service(interest, principal, self.tranches[kept])


@dataclass(eq=False)
class LoanBook(Tranches):
    """Loans, one row per tranche; agents are rows of the ledger, amounts USD.

    A week goes: `accrue_week`, then `due` and, if the borrowers pay, `pay`. A tranche that is paid off leaves the book.

    Attributes:
        interval_weeks: Weeks between payments.
        borrower, lender: Rows of the ledger.
        balance_usd: Principal owed.
        annual_rate: Interest, 1/year.
        payment_usd: Level payment of an interval.
        payments_left: Payments still to come.
        next_service_week: Week of the next.
        accrued_usd: Interest owed and not yet due.
        balloon_usd: Part of the principal that is due with the last payment.
    """

    interval_weeks: int = 13
    borrower: Ints = field(default_factory=no_ints)
    lender: Ints = field(default_factory=no_ints)
    balance_usd: Floats = field(default_factory=no_floats)
    annual_rate: Floats = field(default_factory=no_floats)
    payment_usd: Floats = field(default_factory=no_floats)
    payments_left: Ints = field(default_factory=no_ints)
    next_service_week: Ints = field(default_factory=no_ints)
    accrued_usd: Floats = field(default_factory=no_floats)
    balloon_usd: Floats = field(default_factory=no_floats)

    def append(
        self,
        borrower: ArrayLike,
        lender: ArrayLike,
        balance_usd: ArrayLike,
        annual_rate: ArrayLike,
        payments: ArrayLike,
        first_service_week: ArrayLike,
        balloon_share: float = 0.0,
    ) -> None:
        """Add tranches of level payments every ``interval_weeks`` weeks; the arguments broadcast.

        A part ``balloon_share`` of each is repaid with the last payment only.

        Loans of nothing are left out. A first payment that comes before a whole interval has accrued repays more
        principal, so the last payment is smaller.

        Raises:
            ValueError: a balance or rate that is negative or not finite, or fewer than one payment.
        """
        balance, rate, number = (np.asarray(value) for value in (balance_usd, annual_rate, payments))
        if not (np.isfinite(balance) & (balance >= 0)).all() or not (np.isfinite(rate) & (rate >= 0)).all():
            raise ValueError("balance and annual rate of a loan must be finite and at least 0")
        if (number < 1).any():
            raise ValueError("a loan has at least one payment")
        self._append(
            borrower=borrower,
            lender=lender,
            balance_usd=balance,
            annual_rate=rate,
            payment_usd=level_payment(balance, rate, number, self.interval_weeks, balloon_share),
            payments_left=number,
            next_service_week=first_service_week,
            accrued_usd=0.0,
            balloon_usd=balance * balloon_share,
        )
        self.keep(self.balance_usd > 0)

    def accrue_week(self) -> Charges:
        """Add a week's interest, ``balance × rate × 168 / 8,760``, to every tranche and return it."""
        interest = self.balance_usd * weekly_rate(self.annual_rate)
        self.accrued_usd = self.accrued_usd + interest
        return Charges(self.borrower, self.lender, interest)

    def due(self, week: int) -> Service:
        """What is to be paid in ``week``: all accrued interest and the rest of the level payment as principal.

        A payment that was missed stays due; when it is paid, the next of its tranche is due at once if its day is past.

        The principal is never negative and never above the balance; the last payment takes the whole balance, so that
        nothing remains by rounding. Nothing changes until `pay`.
        """
        rows = np.flatnonzero(self.next_service_week <= week)
        balance, interest = self.balance_usd[rows], self.accrued_usd[rows]
        level = np.clip(self.payment_usd[rows] - interest, 0.0, balance)
        principal = np.where(self.payments_left[rows] == 1, balance, level)
        borrower, lender = self.borrower[rows], self.lender[rows]
        return Service(Charges(borrower, lender, interest), Charges(borrower, lender, principal), rows)

    def pay(self, service: Service) -> None:
        """Take payments off the book; the next are due an interval later."""
        rows = service.tranches
        self.accrued_usd[rows] -= service.interest.usd
        self.balance_usd[rows] -= service.principal.usd
        self.payments_left[rows] -= 1
        self.next_service_week[rows] += self.interval_weeks
        self.keep(self.balance_usd > 0)

    def drop(self, borrower: int) -> None:
        """Take all tranches of a borrower off the book, as after a default."""
        self.keep(self.borrower != borrower)

    def prepay(self, borrower: int, usd: float) -> Service:
        """Repay before it is due: all tranches of a borrower shrink in proportion, and their later payments with them.

        Whoever repays everything also pays the interest accrued so far. The book is changed; the result is to post.
        """
        rows = np.flatnonzero(self.borrower == borrower)
        balance = self.balance_usd[rows]
        total = float(balance.sum())
        share = min(max(usd, 0.0) / total, 1.0) if total > 0.0 else 0.0
        principal = balance * share
        interest = self.accrued_usd[rows] * (share >= 1.0)
        paid, owed = (Charges(self.borrower[rows], self.lender[rows], amount) for amount in (interest, principal))
        self.accrued_usd[rows] -= interest
        self.balance_usd[rows] = balance - principal
        self.payment_usd[rows] *= 1.0 - share
        self.balloon_usd[rows] *= 1.0 - share
        self.keep(self.balance_usd > 0)
        return Service(paid, owed, rows)

    def falls_due(self, week: int) -> Bools:
        """Tranches whose last payment is due in ``week``, a balloon with it."""
        return np.asarray((self.payments_left == 1) & (self.next_service_week <= week) & (self.balloon_usd > 0.0))

    def reprice(self, rows: Ints, annual_rate: ArrayLike) -> None:
        """Give tranches another rate: their level payments are worked out anew over what is left of their life."""
        self.annual_rate[rows] = annual_rate
        self.payment_usd[rows] = level_payment(
            self.balance_usd[rows],
            self.annual_rate[rows],
            self.payments_left[rows],
            self.interval_weeks,
            np.minimum(self.balloon_usd[rows] / self.balance_usd[rows], 1.0),
        )

    def balance_by_borrower(self, agents: int) -> Floats:
        """Debt by agent, USD, shape ``(agents,)``."""
        return totals(self.borrower, self.balance_usd, agents)

    def accrued_by_borrower(self, agents: int) -> Floats:
        """Interest owed and not yet due by agent, USD, shape ``(agents,)``."""
        return totals(self.borrower, self.accrued_usd, agents)

    def weekly_service_by_borrower(self, agents: int) -> Floats:
        """Level payments by agent, spread over the weeks of an interval, USD per week, shape ``(agents,)``."""
        return totals(self.borrower, self.payment_usd / self.interval_weeks, agents)
