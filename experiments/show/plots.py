"""Figures: functions of result tables. Colours can be told apart by colour-blind readers, lines by their dashes too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["bands", "price_paths", "save"]

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito (2008)
DASHES = ("-", (0, (5, 2)), "-.", ":", (0, (3, 1, 1, 1)))
_BAND_ALPHA = 0.18
_DOTS_PER_INCH = 150


_PRICE = "list_mean_usd_per_gpu_hour"


def bands(values: pl.DataFrame, column: str, level: float) -> pl.DataFrame:
    """Mean over seeds and its t interval, by arm, SKU and week.

    Args:
        values: ``arm``, ``seed``, ``sku``, ``week`` and the column.
        column: what to average.
        level: of the interval.

    Returns:
        ``arm``, ``sku``, ``week``, ``seeds``, ``mean``, ``low``, ``high``; no interval (null) with a single seed.
    """
    from scipy.special import stdtrit

    table = (
        values.drop_nulls(column)
        .group_by("arm", "sku", "week", maintain_order=True)
        .agg(
            pl.len().alias("seeds"),
            pl.col(column).mean().alias("mean"),
            (pl.col(column).std() / pl.len().sqrt()).alias("error"),
        )
    )
    degrees = table["seeds"].cast(pl.Float64).to_numpy() - 1
    factor = pl.Series(stdtrit(degrees, (1 + level) / 2), dtype=pl.Float64).fill_nan(None)
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
    """Mean on-demand list price by week, a column per SKU: levels by arm above, differences from the first arm below.

    Args:
        market_week: the recorded table of all runs.
        runs: the runs behind it.
        arms: which to draw, in this order; with one arm there are no differences.
        skus: columns from left to right.
        level: of the bands: t intervals of the mean over seeds, week by week; differences are paired by seed.
    """
    from matplotlib.figure import Figure

    finished = runs.filter(pl.col("arm").is_in(list(arms)), pl.col("status") == "ok").select("id", "arm", "seed")
    prices = finished.join(market_week, left_on="id", right_on="run").filter(pl.col("sku").is_in(list(skus)))
    rows = [(bands(prices, _PRICE, level), arms)]
    if len(arms) > 1:
        rows.append((bands(_differences(prices, arms[0]), _PRICE, level), arms[1:]))
    figure = Figure(figsize=(5.0 * len(skus), 1.0 + 2.9 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), len(skus), squeeze=False, sharex=True)
    for row, (table, shown) in zip(panels, rows, strict=True):
        for panel, sku in zip(row, skus, strict=True):
            _panel(panel, table.filter(pl.col("sku") == sku), arms, shown)
    _label(panels, arms, skus)
    figure.supxlabel(_caption(finished["seed"].n_unique(), level), fontsize="small")
    return figure


def _differences(prices: pl.DataFrame, base: str) -> pl.DataFrame:
    """Price minus that of the base arm, with the same seed, SKU and week."""
    keys = ["seed", "sku", "week"]
    theirs = prices.filter(pl.col("arm") == base).select(*keys, pl.col(_PRICE).alias("base"))
    others = prices.filter(pl.col("arm") != base).join(theirs, on=keys)
    return others.with_columns((pl.col(_PRICE) - pl.col("base")).alias(_PRICE))


def _panel(panel: Axes, table: pl.DataFrame, arms: Sequence[str], shown: Sequence[str]) -> None:
    """Lines and bands of one SKU; an arm keeps its colour and dashes in every panel."""
    for arm, colour, dashes in zip(arms, COLOURS, DASHES, strict=False):
        if arm not in shown:
            panel.axhline(0.0, color=colour, linestyle=dashes, linewidth=1.0)
            continue
        path = table.filter(pl.col("arm") == arm).sort("week")
        weeks = path["week"].to_numpy()
        panel.plot(weeks, path["mean"].to_numpy(), color=colour, linestyle=dashes, linewidth=1.8, label=arm)
        low, high = (path[side].cast(pl.Float64).to_numpy() for side in ("low", "high"))
        panel.fill_between(weeks, low, high, color=colour, alpha=_BAND_ALPHA, linewidth=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", alpha=0.3)


def _label(panels: NDArray[np.object_], arms: Sequence[str], skus: Sequence[str]) -> None:
    """Titles, units and legend."""
    for panel, sku in zip(panels[0], skus, strict=True):
        panel.set_title(sku)
    for panel in panels[-1]:
        panel.set_xlabel("week (0 = 2 June 2025)")
    panels[0][0].set_ylabel("list price, USD per GPU-hour")
    panels[0][0].legend(frameon=False)
    if len(panels) > 1:
        panels[1][0].set_ylabel(f"difference from {arms[0]},\nUSD per GPU-hour")


def _caption(seeds: int, level: float) -> str:
    head = "Posted on-demand price, mean over neoclouds and marketplaces, each counted once"
    if seeds < 2:
        return f"{head}; one seed, so no band."
    bands = (
        f"Scales differ. Bands: {100 * level:g} % t intervals of the mean, week by week; differences paired by seed."
    )
    return f"{head}; {seeds} seeds.\n{bands}"


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
