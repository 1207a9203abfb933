"""The second interval: how far an effect moves over a sample of what nobody knows.

An outer draw is a set of arms of its own: the arms of the experiment with uncertain parameters at drawn values, all
with the same seeds. Within a draw an effect is a paired difference as ever; over draws its range says what the
assumptions carry. More seeds sharpen the first interval and leave the range as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from experiments.measure.records import Floats

__all__ = ["RANGE_SCHEMA", "apart", "arm_of_draw", "range_over_draws"]

RANGE_SCHEMA: dict[str, pl.DataType] = {
    "range_low": pl.Float64(),
    "range_high": pl.Float64(),
    "draws": pl.Int64(),
}
"""Columns of a range: quantiles of the effect over the draws that have one, and their number; null without any."""

Counts = NDArray[np.int64]

_NAME = r"^(.*) @ draw (\d+)$"
_TOO_NARROW = 0.05  # share of cases in which more luck is taken out than there is
_FEWEST_DRAWS = 4  # of a range: fewer have no tails to speak of


def arm_of_draw(arm: str, draw: int, draws: int) -> str:
    """Name of an arm under a draw, 1 to ``draws``: what tells it from the arms of the experiment itself."""
    return f"{arm} @ draw {draw:0{len(str(draws))}}"


def apart(runs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Runs of the experiment itself, and those of its draws with ``arm`` and ``draw``."""
    drawn = pl.col("arm").str.contains(_NAME)
    named = runs.filter(drawn).with_columns(
        arm=pl.col("arm").str.extract(_NAME, 1), draw=pl.col("arm").str.extract(_NAME, 2).cast(pl.Int64)
    )
    return runs.filter(~drawn), named


def range_over_draws(differences: pl.DataFrame, by: Sequence[str], level: float) -> pl.DataFrame:
    """Range of the mean difference over draws: its quantiles at ``level``, by group.

    The means of draws differ by the parameters and by luck. Luck is known from the spread over seeds within draws, and
    is taken out by drawing the means together: each deviation from their common mean is multiplied by
    ``√(1 - F × (within/seeds) / between)``. F, the 5 % quantile of the F law of the two variances, errs on the wide
    side and tends to 1 with many draws. So the range hardly depends on the number of seeds, and does not shrink to a
    point where few draws cannot tell parameters from luck. With one seed a draw nothing is known of luck, and it is
    left in.

    Args:
        differences: ``draw``, the columns of ``by`` and ``value``, a row per draw and seed.
        by: what a range is of.
        level: share of the draws inside.

    Returns:
        ``by`` and the columns of `RANGE_SCHEMA`; fewer than four draws have a number and no bounds.
    """
    keys, tail = list(by), 0.5 * (1.0 - level)
    means = (
        differences.group_by([*keys, "draw"], maintain_order=True)
        .agg(pl.col("value").mean().alias("mean"), pl.col("value").var().alias("within"), seeds=pl.col("value").count())
        .filter(pl.col("seeds") > 0)
    )
    groups = means.group_by(keys, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("draws"),
        centre=pl.col("mean").mean(),
        low=pl.col("mean").quantile(tail, "linear"),
        high=pl.col("mean").quantile(1.0 - tail, "linear"),
        between=pl.col("mean").var().fill_null(0.0),
        luck=(pl.col("within") / pl.col("seeds")).mean().fill_null(0.0),
        freedom=(pl.col("seeds") - 1).sum(),
    )
    shrunk = pl.Series(
        "shrink", _shrink(*(groups[name].to_numpy() for name in ("draws", "between", "luck", "freedom")))
    )

    def bound(end: str) -> pl.Expr:
        centre = pl.col("centre")
        return pl.when(pl.col("draws") >= _FEWEST_DRAWS).then(centre + pl.col("shrink") * (pl.col(end) - centre))

    bounds = {f"range_{end}": bound(end) for end in ("low", "high")}
    return groups.with_columns(shrunk).with_columns(**bounds).select(*keys, *RANGE_SCHEMA)


def _shrink(draws: Counts, between: Floats, luck: Floats, freedom: Counts) -> Floats:
    """Factor by which deviations of draws' means shrink, at most 1; 1 where luck is nothing or unknown."""
    from scipy.special import fdtri

    known = (luck > 0.0) & (draws > 1)
    quantile = fdtri(np.where(known, draws - 1, 1), np.maximum(freedom, 1), _TOO_NARROW)
    part = quantile * luck / np.where(between > 0.0, between, np.inf)
    return np.asarray(np.where(known, np.sqrt(np.clip(1.0 - part, 0.0, 1.0)), 1.0))
