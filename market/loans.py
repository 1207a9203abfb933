"""Debt and book values: terms of loans, level-payment tranches, straight-line write-off of GPUs.

The books keep tranches apart, each with its own start: a delivery neither extends older debt nor older machines. They
only say what is due; `market.ledger` books it and the model decides what happens when it cannot be paid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import model_validator

from market.parameters import Parameters, parameter
from market.units import HOURS_PER_YEAR, WEEKS_PER_YEAR, per_week

__all__ = [
    "AssetBook",
    "Charges",
    "FinanceParameters",
    "LoanBook",
    "Service",
    "annuity_payment",
    "bankable_share",
    "debt_to_capital",
    "facility",
    "level_payment",
    "loan_rate",
    "loan_to_value",
    "opening_book_share",
    "opening_debt",
    "opening_service",
    "resale_value_usd",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


class FinanceParameters(Parameters):
    """Terms of loans, opening debt, cash and book values, and tax."""

    tax_rate: float = parameter("finance.tax_rate")
    rate_uncontracted: float = parameter("finance.rate_uncontracted")
    rate_contracted_discount: float = parameter("finance.rate_contracted_discount")
    base_rate: float = parameter("finance.base_rate")
    base_rate_quoted: float = parameter("finance.base_rate_quoted")
    strong_tenant_h100e: float = parameter("finance.strong_tenant_h100e")
    weak_contract_weight: float = parameter("finance.weak_contract_weight")
    loss_response: float = parameter("finance.loss_response")
    loss_memory_weeks: int = parameter("finance.loss_memory_weeks")
    opening_loan_rate: float = parameter("finance.opening_loan_rate")
    loan_to_value_base: float = parameter("finance.loan_to_value_base")
    loan_to_value_contracted: float = parameter("finance.loan_to_value_contracted")
    contracted_maximum: float = parameter("finance.contracted_maximum")
    facility_limit_usd: float = parameter("finance.facility_limit_usd")
    tenor_payments: int = parameter("finance.tenor_payments")
    balloon_share: float = parameter("finance.balloon_share")
    refinancing: bool = parameter("finance.refinancing")
    refinancing_gain: float = parameter("finance.refinancing_gain")
    cash_sweep_share: float = parameter("finance.cash_sweep_share")
    service_interval_weeks: int = parameter("finance.service_interval_weeks")
    debt_to_capital_nvidia: float = parameter("finance.debt_to_capital_nvidia")
    debt_to_capital_mixed: float = parameter("finance.debt_to_capital_mixed")
    debt_to_capital_amd: float = parameter("finance.debt_to_capital_amd")
    opening_debt_gross_up: float = parameter("finance.opening_debt_gross_up")
    opening_debt_gross_maximum: float = parameter("finance.opening_debt_gross_maximum")
    opening_debt_remaining: float = parameter("finance.opening_debt_remaining")
    opening_debt_maximum: float = parameter("finance.opening_debt_maximum")
    opening_loan_to_value: float = parameter("finance.opening_loan_to_value")
    opening_debt_weeks_minimum: int = parameter("finance.opening_debt_weeks_minimum")
    opening_debt_weeks_maximum: int = parameter("finance.opening_debt_weeks_maximum")
    opening_cash_share: float = parameter("finance.opening_cash_share")
    depreciation_years: float = parameter("finance.depreciation_years")
    tax_depreciation_years: float = parameter("finance.tax_depreciation_years")
    opening_depreciation_years: float = parameter("finance.opening_depreciation_years")
    opening_book_weeks: int = parameter("finance.opening_book_weeks")
    opening_book_minimum: float = parameter("finance.opening_book_minimum")
    amd_debt_multiple: float = parameter("finance.amd_debt_multiple")
    default_enabled: bool = parameter("finance.default_enabled")
    covenant_dscr: float = parameter("finance.covenant_dscr")
    breach_dscr: float = parameter("finance.breach_dscr")
    covenant_loan_to_value: float = parameter("finance.covenant_loan_to_value")
    covenant_value: Literal["market", "book"] = parameter("finance.covenant_value")
    cure_weeks: int = parameter("finance.cure_weeks")
    standstill_weeks: int = parameter("finance.standstill_weeks")
    lost_tenant_share: float = parameter("finance.lost_tenant_share")
    lost_tenant_weeks: int = parameter("finance.lost_tenant_weeks")
    dscr_memory: float = parameter("finance.dscr_memory")
    rescue_equity_share: float = parameter("finance.rescue_equity_share")
    rescue_dscr: float = parameter("finance.rescue_dscr")
    rescue_limit_share: float = parameter("finance.rescue_limit_share")
    rescue_service_weeks: int = parameter("finance.rescue_service_weeks")
    recovery_share: float = parameter("finance.recovery_share")
    storage_weeks: int = parameter("finance.storage_weeks")
    buyer_size_multiple: float = parameter("finance.buyer_size_multiple")
    resale_quote_factor: float = parameter("finance.resale_quote_factor")
    resale_use: float = parameter("finance.resale_use")
    resale_discount_per_year: float = parameter("finance.resale_discount_per_year")
    resale_life_years: float = parameter("finance.resale_life_years")
    resale_minimum: float = parameter("finance.resale_minimum")
    resale_maximum: float = parameter("finance.resale_maximum")
    amd_hardware_margin: float = parameter("finance.amd_hardware_margin")
    nvidia_hardware_margin: float = parameter("finance.nvidia_hardware_margin")

    @model_validator(mode="after")
    def _ordered_weeks(self) -> Self:
        """The shortest remaining life of opening debt cannot exceed the longest."""
        if self.opening_debt_weeks_minimum > self.opening_debt_weeks_maximum:
            raise ValueError("opening_debt_weeks_minimum must be at most opening_debt_weeks_maximum")
        return self

    @property
    def depreciation_weeks(self) -> float:
        """Weeks over which new units are written off."""
        return self.depreciation_years * WEEKS_PER_YEAR

    @property
    def tax_depreciation_weeks(self) -> float:
        """Weeks over which the tax office lets new units be written off."""
        return self.tax_depreciation_years * WEEKS_PER_YEAR

    @property
    def opening_depreciation_weeks(self) -> float:
        """Weeks over which the opening book value is written off."""
        return self.opening_depreciation_years * WEEKS_PER_YEAR


# --- terms ---------------------------------------------------------------------------------------------------------


def annuity_payment(balance: ArrayLike, period_rate: ArrayLike, payments: ArrayLike) -> Floats:
    """Level payment ``B i / (1 − (1 + i)^−n)`` that repays ``balance`` in ``payments`` periods; ``B / n`` at rate 0.

    Source: any finance text, such as Brealey, Myers & Allen, ch. 2.
    """
    balance, rate = np.asarray(balance, dtype=np.float64), np.asarray(period_rate, dtype=np.float64)
    number = np.asarray(payments, dtype=np.float64)
    safe = np.where(rate == 0, 1.0, rate)
    factor = np.where(rate == 0, 1.0 / number, safe / -np.expm1(-number * np.log1p(safe)))
    return np.asarray(balance * factor)


def level_payment(
    balance: ArrayLike,
    annual_rate: ArrayLike,
    payments: ArrayLike,
    interval_weeks: ArrayLike = 13,
    balloon_share: ArrayLike = 0.0,
) -> Floats:
    """Level payment of a loan served every ``interval_weeks`` weeks, USD; arguments broadcast.

    A period's rate is simple, ``interval_weeks × 168 × annual_rate / 8,760``, as interest accrues weekly in proportion
    and is not itself charged with interest. On a balloon, the part of the loan that falls due with the last payment,
    only interest is paid: a share of 0 is level payments, 1 a bullet.
    """
    period_rate = np.asarray(interval_weeks) * _per_week(annual_rate)
    owed = np.asarray(balance, dtype=np.float64)
    balloon = owed * np.asarray(balloon_share, dtype=np.float64)
    return np.asarray(annuity_payment(owed - balloon, period_rate, payments) + balloon * period_rate)


def loan_rate(contracted: ArrayLike, parameters: FinanceParameters, loss_rate_per_year: ArrayLike = 0.0) -> Floats:
    """Annual rate of a loan whose GPUs are rented out for long terms to the share ``contracted``; never below 0.

    ``base_rate + spread``; the spread of a loan without contracts is ``rate_uncontracted − base_rate_quoted``, it falls
    by ``rate_contracted_discount × min(contracted, contracted_maximum)`` and rises by ``loss_response`` times what
    lenders lost of their loans in the last year.

    Args:
        contracted: share of revenue under long contracts, those of weak tenants counted in part (`bankable_share`).
        parameters: finance parameters.
        loss_rate_per_year: lenders' net losses of the last year over their loans.
    """
    share = np.clip(contracted, 0.0, parameters.contracted_maximum)
    losses = parameters.loss_response * np.asarray(loss_rate_per_year, dtype=np.float64)
    moved = parameters.base_rate - parameters.base_rate_quoted + losses
    rate = parameters.rate_uncontracted - parameters.rate_contracted_discount * share + moved
    return np.asarray(np.maximum(rate, 0.0), dtype=np.float64)


def bankable_share(strong: ArrayLike, weak: ArrayLike, parameters: FinanceParameters) -> Floats:
    """Share of revenue that lenders count as contracted: contracts of weak tenants earn a part of the discount."""
    weighted = parameters.weak_contract_weight * np.asarray(weak, dtype=np.float64)
    return np.asarray(np.asarray(strong, dtype=np.float64) + weighted)


def facility(
    capital_usd: ArrayLike, loan_to_value_share: ArrayLike, owed_usd: ArrayLike, parameters: FinanceParameters
) -> Floats:
    """Loan on new capital, USD: its share of the capital, within what the borrower's facility still allows."""
    room = np.maximum(parameters.facility_limit_usd - np.asarray(owed_usd, dtype=np.float64), 0.0)
    return np.asarray(np.minimum(np.asarray(capital_usd) * loan_to_value_share, room), dtype=np.float64)


def loan_to_value(contracted: ArrayLike, parameters: FinanceParameters) -> Floats:
    """Loan as a share of capital, ``base + contracted part × min(contracted, contracted_maximum)``; at most 1."""
    share = np.clip(contracted, 0.0, parameters.contracted_maximum)
    value = parameters.loan_to_value_base + parameters.loan_to_value_contracted * share
    return np.asarray(np.minimum(value, 1.0), dtype=np.float64)


def debt_to_capital(vendors: str, provider_class: str, parameters: FinanceParameters) -> float:
    """Leverage assumed for a seller of ``vendors`` (nvidia, amd, both) whose debt is not known; 0 outside neoclouds.

    Raises:
        ValueError: no such vendors.
    """
    shares = {
        "nvidia": parameters.debt_to_capital_nvidia,
        "both": parameters.debt_to_capital_mixed,
        "amd": parameters.debt_to_capital_amd,
    }
    if vendors not in shares:
        raise ValueError(f"vendors must be one of {', '.join(shares)}, not {vendors!r}")
    return shares[vendors] if provider_class == "neocloud" else 0.0


def opening_debt(
    capital_usd: ArrayLike, leverage: ArrayLike, parameters: FinanceParameters, reported_usd: ArrayLike = np.nan
) -> Floats:
    """Debt in June 2025, USD.

    ``capital × min(leverage × gross_up, gross_maximum) × remaining``, or the reported figure where there is one (NaN:
    none); never above ``opening_debt_maximum`` of the fleet's capital.

    Args:
        capital_usd: capital cost of the fleet when new.
        leverage: debt over capital, as `debt_to_capital`.
        parameters: finance parameters.
        reported_usd: debt on GPUs from the seller table, scaled like the fleet.
    """
    capital, reported = np.asarray(capital_usd, dtype=np.float64), np.asarray(reported_usd, dtype=np.float64)
    gross = np.minimum(np.asarray(leverage) * parameters.opening_debt_gross_up, parameters.opening_debt_gross_maximum)
    debt = np.where(np.isnan(reported), capital * gross * parameters.opening_debt_remaining, reported)
    return np.asarray(np.minimum(debt, parameters.opening_debt_maximum * capital))


def opening_service(luck: ArrayLike, parameters: FinanceParameters) -> tuple[Integers, Integers]:
    """Payments left and week of the first payment for opening debt, so that not all sellers pay in one week.

    The remaining life is uniform between its bounds; counting back from its last week by the service interval gives
    the first payment.

    Args:
        luck: uniform draws in (0, 1), one per tranche.
        parameters: finance parameters.
    """
    shortest, longest = parameters.opening_debt_weeks_minimum, parameters.opening_debt_weeks_maximum
    weeks = shortest + np.floor(np.asarray(luck) * (longest - shortest + 1)).astype(np.int64)
    payments = -(-weeks // parameters.service_interval_weeks)
    return payments, weeks - parameters.service_interval_weeks * (payments - 1)


def opening_book_share(age_weeks: ArrayLike, parameters: FinanceParameters) -> Floats:
    """Book value in June 2025 over capital: linear in age, ``1 − age / opening_book_weeks``, not below a minimum."""
    share = 1.0 - np.asarray(age_weeks, dtype=np.float64) / parameters.opening_book_weeks
    return np.asarray(np.clip(share, parameters.opening_book_minimum, 1.0))


def resale_value_usd(
    quote_usd: ArrayLike, running_usd: ArrayLike, capex_usd: ArrayLike, age_weeks: ArrayLike, p: FinanceParameters
) -> Floats:
    """Value of a used GPU, USD; arguments broadcast.

    ``(quote factor × quote × use - running) × 8,760 × (1 - e^(-r L))/r`` with a remaining life L that falls with age,
    within a share of capital. Source: assumption between the two published resale curves of the H100.

    Args:
        quote_usd: what neoclouds quote on demand, USD per GPU-hour.
        running_usd: cost of keeping it in service, USD per GPU-hour.
        capex_usd: capital cost when new, USD.
        age_weeks: since it was new.
        p: finance parameters.
    """
    quote, running, capital = (np.asarray(usd, dtype=np.float64) for usd in (quote_usd, running_usd, capex_usd))
    years = np.maximum(np.asarray(age_weeks) / WEEKS_PER_YEAR - 0.5, 0.0)
    life = np.clip(p.resale_life_years - years / 2.0, 1.0, p.resale_life_years)
    margin = p.resale_quote_factor * quote * p.resale_use - running
    worth = margin * HOURS_PER_YEAR * -np.expm1(-p.resale_discount_per_year * life) / p.resale_discount_per_year
    return np.asarray(np.clip(worth, p.resale_minimum * capital, p.resale_maximum * capital))


# --- books ---------------------------------------------------------------------------------------------------------


class Charges(NamedTuple):
    """Amounts to post: ``ledger.post(reason, *charges)``."""

    payers: Integers
    payees: Integers
    usd: Floats


class Service(NamedTuple):
    """Payments due in a week, and the tranches that owe them (rows of the book at that moment)."""

    interest: Charges
    principal: Charges
    tranches: Integers

    def by_borrower(self, agents: int) -> Floats:
        """Interest and principal together by agent, USD, shape ``(agents,)``."""
        return _by(self.interest.payers, self.interest.usd + self.principal.usd, agents)

    def of(self, borrowers: NDArray[np.bool_]) -> Service:
        """The part that some borrowers owe; ``borrowers`` by agent."""
        kept = borrowers[self.interest.payers]
        interest, principal = (
            Charges(side.payers[kept], side.payees[kept], side.usd[kept]) for side in (self.interest, self.principal)
        )
        return Service(interest, principal, self.tranches[kept])


class _Book:
    """Columns of equal length that grow and shrink together."""

    def _columns(self) -> dict[str, NDArray[np.generic]]:
        return {name: column for name, column in vars(self).items() if isinstance(column, np.ndarray)}

    def __len__(self) -> int:
        """Number of tranches."""
        return len(next(iter(self._columns().values())))

    def _append(self, **values: ArrayLike) -> None:
        """Add tranches; the values broadcast to one length."""
        rows = np.broadcast_arrays(*(np.atleast_1d(value) for value in values.values()))
        for name, new in zip(values, rows, strict=True):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, new.astype(column.dtype)]))

    def _keep(self, rows: NDArray[np.bool_]) -> None:
        """Drop the tranches outside ``rows``."""
        for name, column in self._columns().items():
            setattr(self, name, column[rows])


def _integers() -> Integers:
    return np.zeros(0, dtype=np.int64)


def _floats() -> Floats:
    return np.zeros(0)


@dataclass(eq=False)
class LoanBook(_Book):
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
    borrower: Integers = field(default_factory=_integers)
    lender: Integers = field(default_factory=_integers)
    balance_usd: Floats = field(default_factory=_floats)
    annual_rate: Floats = field(default_factory=_floats)
    payment_usd: Floats = field(default_factory=_floats)
    payments_left: Integers = field(default_factory=_integers)
    next_service_week: Integers = field(default_factory=_integers)
    accrued_usd: Floats = field(default_factory=_floats)
    balloon_usd: Floats = field(default_factory=_floats)

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
        self._keep(self.balance_usd > 0)

    def accrue_week(self) -> Charges:
        """Add a week's interest, ``balance × rate × 168 / 8,760``, to every tranche and return it."""
        interest = self.balance_usd * _per_week(self.annual_rate)
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
        self._keep(self.balance_usd > 0)

    def drop(self, borrower: int) -> None:
        """Take all tranches of a borrower off the book, as after a default."""
        self._keep(self.borrower != borrower)

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
        self._keep(self.balance_usd > 0)
        return Service(paid, owed, rows)

    def falls_due(self, week: int) -> NDArray[np.bool_]:
        """Tranches whose last payment is due in ``week``, a balloon with it."""
        return np.asarray((self.payments_left == 1) & (self.next_service_week <= week) & (self.balloon_usd > 0.0))

    def reprice(self, rows: Integers, annual_rate: ArrayLike) -> None:
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
        return _by(self.borrower, self.balance_usd, agents)

    def accrued_by_borrower(self, agents: int) -> Floats:
        """Interest owed and not yet due by agent, USD, shape ``(agents,)``."""
        return _by(self.borrower, self.accrued_usd, agents)

    def weekly_service_by_borrower(self, agents: int) -> Floats:
        """Level payments by agent, spread over the weeks of an interval, USD per week, shape ``(agents,)``."""
        return _by(self.borrower, self.payment_usd / self.interval_weeks, agents)


@dataclass(eq=False)
class AssetBook(_Book):
    """GPUs at book value, one row per seller, SKU and purchase, written off in equal weekly amounts.

    Sellers are rows of the ledger, amounts USD. A tranche without book value keeps its row: its GPUs still run.

    Attributes:
        seller, sku: Whose GPUs of which SKU.
        gpus: GPUs of the tranche.
        book_usd: Book value left.
        weekly_depreciation_usd: Written off a week.
        weeks_left: Weeks until it is written off.
        tax_usd, weekly_tax_usd, tax_weeks_left: The same three as the tax office counts.
    """

    seller: Integers = field(default_factory=_integers)
    sku: Integers = field(default_factory=_integers)
    gpus: Floats = field(default_factory=_floats)
    book_usd: Floats = field(default_factory=_floats)
    weekly_depreciation_usd: Floats = field(default_factory=_floats)
    weeks_left: Floats = field(default_factory=_floats)
    tax_usd: Floats = field(default_factory=_floats)
    weekly_tax_usd: Floats = field(default_factory=_floats)
    tax_weeks_left: Floats = field(default_factory=_floats)

    def append(
        self,
        seller: ArrayLike,
        sku: ArrayLike,
        gpus: ArrayLike,
        book_usd: ArrayLike,
        weeks: ArrayLike,
        tax_weeks: ArrayLike | None = None,
    ) -> None:
        """Add tranches to be written off over ``weeks`` weeks (a part of a week counts); the arguments broadcast.

        For the tax office they are written off over ``tax_weeks``, by default the same.

        Raises:
            ValueError: GPUs or book value that are negative or not finite, or a life that is not positive.
        """
        tax = weeks if tax_weeks is None else tax_weeks
        units, book, life, tax_life = (np.asarray(value, dtype=np.float64) for value in (gpus, book_usd, weeks, tax))
        if not (np.isfinite(units) & (units >= 0)).all() or not (np.isfinite(book) & (book >= 0)).all():
            raise ValueError("GPUs and their book value must be finite and at least 0")
        if not all((np.isfinite(span) & (span > 0)).all() for span in (life, tax_life)):
            raise ValueError("the life of a GPU must be finite and above 0 weeks")
        self._append(
            seller=seller,
            sku=sku,
            gpus=units,
            book_usd=book,
            weekly_depreciation_usd=book / life,
            weeks_left=life,
            tax_usd=book,
            weekly_tax_usd=book / tax_life,
            tax_weeks_left=tax_life,
        )

    def depreciate_week(self) -> Charges:
        """Write a week off every tranche and return the amounts, each from the seller to itself.

        The last week, or part of one, takes what is left, so that book values end at exactly 0.
        """
        usd = _written_off(self.book_usd, self.weekly_depreciation_usd, self.weeks_left)
        tax = _written_off(self.tax_usd, self.weekly_tax_usd, self.tax_weeks_left)
        self.book_usd, self.tax_usd = self.book_usd - usd, self.tax_usd - tax
        self.weeks_left = np.maximum(self.weeks_left - 1.0, 0.0)
        self.tax_weeks_left = np.maximum(self.tax_weeks_left - 1.0, 0.0)
        return Charges(self.seller, self.seller, usd)

    def retire(self, seller: int, sku: int, gpus: float) -> float:
        """Take GPUs of a seller out of all its tranches of the SKU in proportion; returns the book value that leaves.

        Raises:
            ValueError: the seller has fewer GPUs of the SKU, or the number is negative.
        """
        rows = (self.seller == seller) & (self.sku == sku)
        held = float(self.gpus[rows].sum())
        if not 0 <= gpus <= held * (1 + 1e-12):
            raise ValueError(f"cannot retire {gpus} GPUs of {held}")
        share = min(gpus / held, 1.0) if held else 0.0
        leaving = float(self.book_usd[rows].sum()) * share
        for column in (self.gpus, self.book_usd, self.weekly_depreciation_usd, self.tax_usd, self.weekly_tax_usd):
            column[rows] *= 1.0 - share
        return leaving

    def drop(self, seller: int) -> None:
        """Take all tranches of a seller off the book, as after a repossession."""
        self._keep(self.seller != seller)

    def book_by_seller(self, agents: int) -> Floats:
        """Book value by agent, USD, shape ``(agents,)``."""
        return _by(self.seller, self.book_usd, agents)

    def tax_by_seller(self, agents: int) -> Floats:
        """Value for the tax office by agent, USD, shape ``(agents,)``."""
        return _by(self.seller, self.tax_usd, agents)

    def gpus_by_seller_and_sku(self, agents: int, skus: int) -> Floats:
        """GPUs held, shape ``(agents, skus)``."""
        return _by(self.seller * skus + self.sku, self.gpus, agents * skus).reshape(agents, skus)


def _written_off(value_usd: Floats, weekly_usd: Floats, weeks_left: Floats) -> Floats:
    """A week's write-off; the last week, or part of one, takes what is left."""
    return np.where(weeks_left <= 1.0, value_usd, np.minimum(weekly_usd, value_usd))


def _by(rows: Integers, usd: Floats, size: int) -> Floats:
    """Sums of a column by row number."""
    return np.bincount(rows, weights=usd, minlength=size).astype(np.float64)


def _per_week(annual_rate: ArrayLike) -> Floats:
    """Simple weekly rate of every annual rate."""
    return np.asarray(annual_rate, dtype=np.float64) * per_week(1.0)
