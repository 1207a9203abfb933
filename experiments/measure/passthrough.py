"""Pass-through: which part of an effect on posted prices reaches what leases pay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from experiments.measure.intervals import fieller_interval
from experiments.measure.stats import DIMENSIONS, EFFECTS_SCHEMA, Frame, compared, paired_differences, pieces

__all__ = ["MEANING", "PAID", "PASS_THROUGH", "POSTED", "pass_through"]

PASS_THROUGH, POSTED, PAID = "pass_through", "price_mean", "price_realised"
"""Its name among outcomes, and those of what it is a ratio of."""

MEANING = "Mean effect on what active leases pay over mean effect on the posted price, between the same two arms."

_OF = [name for name in DIMENSIONS if name != "metric"]
_NO_STEP = "the effect on the posted price may be zero: there is nothing to pass on"


def pass_through(
    outcomes: Frame,
    runs: pl.DataFrame,
    contrasts: Iterable[tuple[str, str, str]],
    level: float = 0.95,
    *,
    experiment: str = "",
) -> pl.DataFrame:
    """Mean effect on the price paid over mean effect on the posted price, by contrast, SKU, class and window.

    Leases lock their price, so after a lasting step in posted prices the part grows as leases end: with one-year leases
    by 1/52 a week. It may exceed 1 where tenants move to what became cheaper. Nothing is corrected for which leases
    there are: it is a ratio of two effects, not the pass-through of cost that theory derives.

    Args:
        outcomes: as in `experiments.measure.stats.effects`, like the others.
        runs: a row per arm and seed; outer draws are left out.
        contrasts: name, arm and base of each.
        level: of Fieller's interval.
        experiment: its name, repeated in every row.

    Returns:
        Rows of `EFFECTS_SCHEMA` with the metric ``pass_through``, a share; null with a reason where the effect on the
        posted price cannot be told from zero at this level.

    Raises:
        ValueError: as `experiments.measure.stats.effects`.
    """
    prices = outcomes.filter(pl.col("metric").is_in([POSTED, PAID]))
    rows = [
        {"experiment": experiment, "contrast": name, "metric": PASS_THROUGH, "unit": "1", "arm": arm, "base": base}
        | dict(zip(_OF, of, strict=True))
        | _part(group, level)
        for (name, arm, base), block in pieces(prices, runs, compared(contrasts, runs), by="sku")
        for of, group in _both(block, runs, arm, base).group_by(_OF, maintain_order=True)
    ]
    return pl.DataFrame(rows, schema=EFFECTS_SCHEMA)


def _both(outcomes: Frame, runs: pl.DataFrame, arm: str, base: str) -> pl.DataFrame:
    """Paired differences of the posted price and the price paid, a row per seed."""
    found = paired_differences(outcomes, runs, arm, base)
    posted, paid = (found.filter(pl.col("metric") == metric) for metric in (POSTED, PAID))
    paid = paid.select("seed", *_OF, paid="value", why="reason")
    return posted.join(paid, on=["seed", *_OF], maintain_order="left")


def _part(group: pl.DataFrame, level: float) -> dict[str, Any]:
    """The ratio of a group of seeds with its bounds, or why there is none."""
    found = fieller_interval(group["paid"].to_list(), group["value"].to_list(), level)
    why = pl.concat([group["reason"], group["why"]]).drop_nulls()
    reason = found.reason if found.n < 2 else _NO_STEP
    if found.mean is not None:
        reason = f"undefined in {group.height - found.n} of {group.height} runs: {why[0]}" if len(why) else None
    elif found.n == 0 and len(why):
        reason = why[0]
    bounds = {"difference": found.mean, "low": found.low, "high": found.high, "level": level, "pairs": found.n}
    return {**bounds, "reason": reason}
