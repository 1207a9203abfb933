"""Risk by arm: arms down, measures across, intervals under the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

__all__ = ["risk_rows", "risk_title"]


def risk_title(found: pl.DataFrame) -> str:
    """What a table of `experiments.measure.risk.risk` shows."""
    who = found["provider_class"][0] if len(found) else ""
    return f"Risk over the whole run: defaults of {who}, losses and payouts"


def risk_rows(found: pl.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Heads of the measures, and a row an arm with its name first: shares in percent, money in million USD."""
    units = dict(found.select("measure", "unit").unique(maintain_order=True).iter_rows())
    heads = [f"{measure}, {'%' if unit == '1' else 'million USD'}" for measure, unit in units.items()]
    cells = {(row["arm"], row["measure"]): _cell(row) for row in found.iter_rows(named=True)}
    arms = found["arm"].unique(maintain_order=True)
    return heads, [[arm, *(cells.get((arm, measure), "-") for measure in units)] for arm in arms]


def _cell(row: Mapping[str, Any]) -> str:
    """Value and interval; a bound that the runs cannot give is left open."""
    factor, decimals = (100.0, 1) if row["unit"] == "1" else (1e-6, 0)
    if row["value"] is None:
        return "-"
    low, high = ("…" if row[side] is None else f"{row[side] * factor:,.{decimals}f}" for side in ("low", "high"))
    return f"{row['value'] * factor:,.{decimals}f}\n[{low}, {high}]".replace("-", "−")
