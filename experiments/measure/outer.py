"""The second interval: how far an effect moves over a sample of what nobody knows.

An outer draw is a set of arms of its own: the arms of the experiment with uncertain parameters at drawn values, all
with the same seeds. Within a draw an effect is a paired difference as ever; over draws its range says what the
assumptions carry. More seeds sharpen the first interval and leave the range as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

__all__ = ["RANGE_SCHEMA", "apart", "arm_of_draw", "range_over_draws"]

RANGE_SCHEMA: dict[str, pl.DataType] = {
    "range_low": pl.Float64(),
    "range_high": pl.Float64(),
    "draws": pl.Int64(),
}
"""Columns of a range: quantiles of the effect over the draws that have one, and their number; null without any."""

_NAME = r"^(.*) @ draw (\d+)$"
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

    The means of draws differ by the parameters and by luck. The part of their variance that is luck, known from the
    spread over seeds within draws, is taken out by drawing the means together: each deviation from their common mean is
    multiplied by ``√(1 - within/seeds / between)``, 0 where luck explains all. So the range does not depend on the
    number of seeds; with one seed a draw nothing is known of luck, and it is left in.

    Args:
        differences: ``draw``, the columns of ``by`` and ``value``, a row per draw and seed.
        by: what a range is of.
        level: share of the draws inside.

    Returns:
        ``by`` and the columns of `RANGE_SCHEMA`; fewer than four draws have a number and no bounds.
    """
    keys = list(by)
    means = (
        differences.group_by([*keys, "draw"], maintain_order=True)
        .agg(pl.col("value").mean().alias("mean"), pl.col("value").var().alias("within"), seeds=pl.col("value").count())
        .filter(pl.col("seeds") > 0)
    )
    luck = (pl.col("within") / pl.col("seeds")).mean().fill_null(0.0)
    shrink = (1.0 - luck / pl.col("mean").var()).clip(0.0, 1.0).fill_nan(1.0).sqrt()
    centre, tail = pl.col("mean").mean(), 0.5 * (1.0 - level)
    enough = pl.len() >= _FEWEST_DRAWS

    def bound(share: float) -> pl.Expr:
        return pl.when(enough).then(centre + shrink * (pl.col("mean").quantile(share, "linear") - centre))

    return means.group_by(keys, maintain_order=True).agg(
        bound(tail).alias("range_low"), bound(1.0 - tail).alias("range_high"), pl.len().cast(pl.Int64).alias("draws")
    )
