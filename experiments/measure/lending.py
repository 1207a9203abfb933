"""What loans cost by what stands behind them: the customers' contracts, not the chips."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import polars as pl

from experiments.measure.records import Cell, Records, Window, cell, ratio

__all__ = ["loan_rate"]

Contracts = Literal["long", "none"]

_SHARES: dict[Contracts, tuple[float, float]] = {"long": (0.8, 1.0), "none": (0.0, 0.2)}


def loan_rate(records: Records, window: Window, contracts: Contracts) -> Iterator[Cell]:
    """Annual rate of loans drawn in the window, weighted by USD.

    ``long``: at least four fifths of the borrower's rented GPUs are on terms of a year and longer or covered by a
    vendor; ``none``: at most one fifth.
    """
    low, high = _SHARES[contracts]
    drawn = records.loans.filter(
        pl.col("week").is_between(window.first, window.last), pl.col("contracted_share").is_between(low, high)
    )
    weighted = (drawn["annual_rate"] * drawn["loan_usd"]).sum()
    yield cell(float(ratio(weighted, drawn["loan_usd"].sum())), "no such loan is drawn")
