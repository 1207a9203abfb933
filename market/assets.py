"""GPUs at book value, in tranches written off in a straight line.

Each purchase has its own start: a delivery does not extend the life of older machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from market.arrays import Floats, Ints, totals
from market.tranches import Charges, Tranches, no_floats, no_ints

__all__ = ["AssetBook"]


@dataclass(eq=False)
class AssetBook(Tranches):
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

    seller: Ints = field(default_factory=no_ints)
    sku: Ints = field(default_factory=no_ints)
    gpus: Floats = field(default_factory=no_floats)
    book_usd: Floats = field(default_factory=no_floats)
    weekly_depreciation_usd: Floats = field(default_factory=no_floats)
    weeks_left: Floats = field(default_factory=no_floats)
    tax_usd: Floats = field(default_factory=no_floats)
    weekly_tax_usd: Floats = field(default_factory=no_floats)
    tax_weeks_left: Floats = field(default_factory=no_floats)

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
        self.keep(self.seller != seller)

    def book_by_seller(self, agents: int) -> Floats:
        """Book value by agent, USD, shape ``(agents,)``."""
        return totals(self.seller, self.book_usd, agents)

    def tax_by_seller(self, agents: int) -> Floats:
        """Value for the tax office by agent, USD, shape ``(agents,)``."""
        return totals(self.seller, self.tax_usd, agents)

    def gpus_by_seller_and_sku(self, agents: int, skus: int) -> Floats:
        """GPUs held, shape ``(agents, skus)``."""
        return totals(self.seller * skus + self.sku, self.gpus, agents * skus).reshape(agents, skus)


def _written_off(value_usd: Floats, weekly_usd: Floats, weeks_left: Floats) -> Floats:
    """A week's write-off; the last week, or part of one, takes what is left."""
    return np.where(weeks_left <= 1.0, value_usd, np.minimum(weekly_usd, value_usd))
