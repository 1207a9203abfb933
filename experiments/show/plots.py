"""Figures: functions of result tables. Colours can be told apart by colour-blind readers, lines by their dashes too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bands", "price_paths", "save"]

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito (2008)
DASHES = ("-", (0, (5, 2)), "-.", ":", (0, (3, 1, 1, 1)))
_BAND_ALPHA = 0.18
_DOTS_PER_INCH = 150


def bands(weekly: pl.DataFrame, runs: pl.DataFrame, column: str, level: float) -> pl.DataFrame:
    """Mean over seeds and its t interval, by arm, SKU and week.

    Args:
        weekly: ``run``, ``sku``, ``week`` and the column.
        runs: ``id``, ``arm``, ``seed``, ``status``.
        column: what to average.
        level: of the interval.

    Returns:
        ``arm``, ``sku``, ``week``, ``seeds``, ``mean``, ``low``, ``high``; no interval (null) with a single seed.
    """
    from scipy.stats import t

    table = (
        runs.filter(pl.col("status") == "ok")
        .join(weekly, left_on="id", right_on="run", maintain_order="left")
        .group_by("arm", "sku", "week", maintain_order=True)
        .agg(
            pl.col(column).count().alias("seeds"),
            pl.col(column).mean().alias("mean"),
            (pl.col(column).std() / pl.col(column).count().sqrt()).alias("error"),
        )
        .filter(pl.col("seeds") > 0)
    )
    factor = pl.Series(t.ppf((1 + level) / 2, table["seeds"].to_numpy() - 1)).fill_nan(None)
    half = pl.col("error") * factor
    return table.with_columns(low=pl.col("mean") - half, high=pl.col("mean") + half).drop("error")


def price_paths(
    market_week: pl.DataFrame,
    runs: pl.DataFrame,
    arms: Sequence[str],
    *,
    skus: Sequence[str] = ("MI300X", "H100"),
    level: float = 0.95,
) -> Figure:
    """Mean on-demand list price by week, a panel per SKU, a line and band per arm.

    Args:
        market_week: the recorded table of all runs.
        runs: the runs behind it.
        arms: which to draw, in this order.
        skus: panels from left to right.
        level: of the bands: t intervals of the mean over seeds, week by week.
    """
    from matplotlib.figure import Figure

    known = runs.filter(pl.col("arm").is_in(list(arms)))
    table = bands(market_week, known, "list_mean_usd_per_gpu_hour", level)
    figure = Figure(figsize=(5.0 * len(skus), 4.4), layout="constrained")
    panels = figure.subplots(1, len(skus), squeeze=False)[0]
    for panel, sku in zip(panels, skus, strict=True):
        _panel(panel, table.filter(pl.col("sku") == sku), arms)
        panel.set_title(sku)
    panels[0].set_ylabel("list price, USD per GPU-hour")
    panels[0].legend(frameon=False)
    seeds = known.filter(pl.col("status") == "ok")["seed"].n_unique()
    figure.supxlabel(_caption(seeds, level), fontsize="small")
    return figure


def _panel(panel: Axes, table: pl.DataFrame, arms: Sequence[str]) -> None:
    """Lines and bands of one SKU."""
    styles = zip(arms, COLOURS, DASHES, strict=False)
    for arm, colour, dashes in styles:
        path = table.filter(pl.col("arm") == arm).sort("week")
        weeks = path["week"].to_numpy()
        panel.plot(weeks, path["mean"].to_numpy(), color=colour, linestyle=dashes, linewidth=1.8, label=arm)
        low, high = (path[side].cast(pl.Float64).to_numpy() for side in ("low", "high"))
        panel.fill_between(weeks, low, high, color=colour, alpha=_BAND_ALPHA, linewidth=0)
    panel.set_xlabel("week (0 = 2 June 2025)")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", alpha=0.3)


def _caption(seeds: int, level: float) -> str:
    head = "Mean posted on-demand price of neoclouds and marketplaces"
    if seeds < 2:
        return f"{head}; one seed, so no band."
    return f"{head}; {seeds} seeds, bands: {level:.0%} t intervals of the mean, week by week."


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, the same bytes each time; returns the paths."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    folder.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with mpl.rc_context({"svg.hashsalt": "neocloud"}):
        figure.savefig(paths[0], dpi=_DOTS_PER_INCH, metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
