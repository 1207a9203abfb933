"""Figures: functions of result tables. Colours can be told apart by colour-blind readers, lines by their dashes too.

Two kinds of bands, and each figure says which it has: *paths* show the mean over seeds and its t interval, several arms
in a panel, with differences paired by seed below; *fans* show the median of the seeds and where half and nine tenths
of them lie, an arm or a contrast to a panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Literal, NamedTuple

import polars as pl

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = [
    "DOTS",
    "MOST_ARMS",
    "Axis",
    "Dots",
    "dots",
    "fans",
    "intervals",
    "money_flow",
    "paths",
    "png",
    "quantiles",
    "save",
    "seed_differences",
]

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito (2008)
DASHES = ("-", (0, (5, 2)), "-.", ":", (0, (3, 1, 1, 1)))
MOST_ARMS = len(COLOURS)
"""As many arms as one panel shows, or as a row of panels holds."""

_BAND_ALPHA = 0.18
_DOTS_PER_INCH = 150
_WIDTH_INCHES = 10.0
_ROW_INCHES = 2.3
_WEEK = "week (0 = 2 June 2025)"
_VALUES = ("line", "panel", "week")


@dataclass(frozen=True)
class Axis:
    """What a vertical axis measures.

    Attributes:
        name: of the quantity, with its unit.
        difference: the same of a difference.
        factor: what values are multiplied with.
    """

    name: str
    difference: str
    factor: float = 1.0


class _Lines(NamedTuple):
    """Lines of one panel: ``line``, ``week``, ``middle``, ``low``, ``high`` and, for fans, ``inner_low``/``_high``."""

    table: pl.DataFrame
    title: str
    label: str
    zero: bool = False


# ------------------------------------------------------------------------------------------------ over seeds


def intervals(values: pl.DataFrame, level: float) -> pl.DataFrame:
    """Mean over seeds and its t interval, by line, panel and week.

    Args:
        values: ``line``, ``panel``, ``week``, ``seed``, ``value``.
        level: of the interval.

    Returns:
        ``line``, ``panel``, ``week``, ``seeds``, ``middle``, ``low``, ``high``; no interval (null) with a single seed.
    """
    from scipy.special import stdtrit

    table = _by_week(values, pl.mean("value").alias("middle"), (pl.std("value") / pl.len().sqrt()).alias("error"))
    degrees = table["seeds"].cast(pl.Float64).to_numpy() - 1
    factor = pl.Series(stdtrit(degrees, (1 + level) / 2), dtype=pl.Float64).fill_nan(None)
    half = pl.col("error") * factor
    return table.with_columns(low=pl.col("middle") - half, high=pl.col("middle") + half).drop("error")


_QUANTILES = {"low": 0.05, "inner_low": 0.25, "middle": 0.5, "inner_high": 0.75, "high": 0.95}


def quantiles(values: pl.DataFrame) -> pl.DataFrame:
    """Median of the seeds, and the bounds of the middle 50 and 90 % of them, interpolated; columns as `intervals`.

    Args:
        values: ``line``, ``panel``, ``week``, ``seed``, ``value``.
    """
    return _by_week(values, *(pl.quantile("value", q, "linear").alias(name) for name, q in _QUANTILES.items()))


def _by_week(values: pl.DataFrame, *measures: pl.Expr) -> pl.DataFrame:
    known = values.drop_nulls("value").sort(*_VALUES, "seed")
    return known.group_by(_VALUES, maintain_order=True).agg(pl.len().alias("seeds"), *measures)


def seed_differences(values: pl.DataFrame, contrasts: Sequence[tuple[str, str, str]]) -> pl.DataFrame:
    """Value of an arm minus that of its base with the same seed, panel and week; the lines are the contrasts.

    Args:
        values: ``line`` (the arm), ``panel``, ``week``, ``seed``, ``value``.
        contrasts: name, arm and base of each.
    """
    keys = ["seed", "panel", "week"]
    found = [values.clear()]
    for name, arm, base in contrasts:
        theirs = values.filter(pl.col("line") == base).select(*keys, pl.col("value").alias("base"))
        ours = values.filter(pl.col("line") == arm).join(theirs, on=keys, maintain_order="left")
        found.append(ours.with_columns(pl.col("value") - pl.col("base"), line=pl.lit(name)).select(values.columns))
    return pl.concat(found)


# ------------------------------------------------------------------------------------------------ figures


def paths(
    values: pl.DataFrame,
    arms: Sequence[str],
    panels: Sequence[str],
    axis: Axis,
    level: float,
    *,
    differences: bool = True,
    titles: Sequence[str] = (),
) -> Figure:
    """Means by week, a column to a panel: arms above, their paired differences from the first arm below.

    Args:
        values: ``line`` (the arm), ``panel``, ``week``, ``seed``, ``value``.
        arms: which to draw, in this order; with one arm there are no differences.
        panels: columns from left to right.
        axis: what is measured.
        level: of the bands.
        differences: whether to draw them.
        titles: of the columns, where they are not the names of the panels.
    """
    heads = titles or panels
    rows = [_row(intervals(_scaled(values, axis), level), panels, heads, axis.name)]
    if differences and len(arms) > 1:
        paired = seed_differences(_scaled(values, axis), [(arm, arm, arms[0]) for arm in arms[1:]])
        label = f"difference from {arms[0]},\n{axis.difference}"
        rows.append(_row(intervals(paired, level), panels, [""] * len(panels), label, zero=True))
    seeds = values["seed"].n_unique()
    paired_too = "; differences are paired by seed" if len(rows) > 1 else ""
    bands = f"band: {100 * level:g} % t interval of the mean, week by week{paired_too}"
    return _drawn(rows, arms, _note("line: mean over seeds", bands, seeds))


def fans(
    values: pl.DataFrame, lines: Sequence[str], panels: Sequence[str], axis: Axis, *, of_differences: bool = False
) -> Figure:
    """Median and spread over seeds by week: a column to an arm or contrast, a row to a panel.

    Args:
        values: ``line`` (arm or contrast), ``panel``, ``week``, ``seed``, ``value``.
        lines: columns from left to right.
        panels: rows from top to bottom.
        axis: what is measured.
        of_differences: the values are differences: zero is marked.
    """
    table = quantiles(_scaled(values, axis))
    label = f"difference,\n{axis.difference}" if of_differences else axis.name
    rows = [
        [
            _Lines(
                table.filter(pl.col("panel") == panel, pl.col("line") == line).with_columns(line=pl.lit("")),
                line if panel == panels[0] else "",
                f"{panel}:\n{label}" if line == lines[0] else "",
                zero=of_differences,
            )
            for line in lines
        ]
        for panel in panels
    ]
    bands = "dark band: the middle 50 % of seeds; light band: the middle 90 %"
    return _drawn(rows, [""], _note("line: median over seeds", bands, values["seed"].n_unique()), share="row")


def _scaled(values: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    return values.with_columns(pl.col("value") * axis.factor)


def _row(
    table: pl.DataFrame, panels: Sequence[str], titles: Sequence[str], label: str, *, zero: bool = False
) -> list[_Lines]:
    """A row of panels; the label stands on the left."""
    return [
        _Lines(table.filter(pl.col("panel") == panel), title, label if at == 0 else "", zero)
        for at, (panel, title) in enumerate(zip(panels, titles, strict=True))
    ]


def _note(line: str, bands: str, seeds: int) -> str:
    return f"{seeds} seeds; {line}; {bands}" if seeds > 1 else "One seed: a single path, so no band."


def _drawn(
    rows: Sequence[Sequence[_Lines]], lines: Sequence[str], note: str, share: Literal["none", "row"] = "none"
) -> Figure:
    """A grid of panels; ``lines`` fixes colour and dashes of each line in every panel."""
    from matplotlib.figure import Figure

    width, height = max(_WIDTH_INCHES, 2.4 * len(rows[0])), _ROW_INCHES * len(rows) + 0.9
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(len(rows), len(rows[0]), squeeze=False, sharex=True, sharey=share)
    for axes_row, row in zip(axes, rows, strict=True):
        for panel, content in zip(axes_row, row, strict=True):
            _panel(panel, content, lines)
    for panel in axes[-1]:
        panel.set_xlabel(_WEEK, fontsize="small")
    if len(lines) > 1:
        handles = axes[0][0].get_lines()
        figure.legend(
            handles,
            [_plain(line, 46) for line in lines[: len(handles)]],
            loc="outside upper left",
            ncols=_columns(lines),
            frameon=False,
        )
    figure.supxlabel(_plain(note, int(width * 15)), fontsize="small")
    return figure


def _columns(lines: Sequence[str]) -> int:
    """Columns of a legend, so that long names stand below one another."""
    return max(1, min(len(lines), 100 // (8 + max(map(len, lines)))))


def _panel(panel: Axes, content: _Lines, lines: Sequence[str]) -> None:
    """Lines and bands of one panel."""
    if content.zero:
        panel.axhline(0.0, color="#555555", linewidth=0.8)
    for line, colour, dashes in zip(lines, COLOURS, DASHES, strict=False):
        path = content.table.filter(pl.col("line") == line).sort("week")
        if line == "":
            colour, dashes = COLOURS[1], DASHES[0]
        elif content.zero and path.is_empty():
            continue
        weeks = path["week"].to_numpy()
        panel.plot(weeks, _numbers(path, "middle"), color=colour, linestyle=dashes, linewidth=1.6, gid=line)
        _band(panel, path, "low", "high", colour)
        if "inner_low" in path.columns:
            _band(panel, path, "inner_low", "inner_high", colour)
    panel.set_title(_plain(content.title, 26), fontsize="medium")
    panel.set_ylabel(_plain(content.label, 30), fontsize="small")
    panel.tick_params(labelsize="small")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", alpha=0.3)


def _band(panel: Axes, path: pl.DataFrame, low: str, high: str, colour: str) -> None:
    if path[low].null_count() < path.height:
        bounds = (_numbers(path, low), _numbers(path, high))
        panel.fill_between(path["week"].to_numpy(), *bounds, color=colour, alpha=_BAND_ALPHA, linewidth=0)


def _numbers(path: pl.DataFrame, column: str) -> NDArray[np.float64]:
    return path[column].cast(pl.Float64).to_numpy()


def _plain(text: str, width: int) -> str:
    """A text in lines of at most ``width`` characters, safe from mathematics: a dollar sign stays one."""
    lines = [part for line in text.splitlines() for part in wrap(line, width) or [""]]
    return "\n".join(lines).replace("$", r"\$")


# ------------------------------------------------------------------------------------------------ effects

DOTS = {"line": pl.String(), "middle": pl.Float64(), "low": pl.Float64(), "high": pl.Float64()}
"""Columns of a panel of dots: a row of it, its mean and its interval (null where there is none)."""

_DOT_INCHES = 0.34


class Dots(NamedTuple):
    """A panel of dots: a table with the columns of `DOTS`, and the name of the axis with its unit."""

    rows: pl.DataFrame
    name: str


def dots(panels: Sequence[Dots], lines: Sequence[str], level: float, seeds: int) -> Figure:
    """Means with their intervals, a row to a line, a column to a panel; zero is marked.

    Args:
        panels: from left to right.
        lines: rows from top to bottom.
        level: of the intervals.
        seeds: number of seeds behind them.
    """
    from matplotlib.figure import Figure

    width, height = max(_WIDTH_INCHES, 2.4 * len(panels) + 2.0), _DOT_INCHES * max(3, len(lines)) + 1.3
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for panel, content in zip(axes, panels, strict=True):
        _dots_panel(panel, content, lines)
    axes[0].set_yticks(range(len(lines)), [_plain(line, 34) for line in lines], fontsize="small")
    axes[0].set_ylim(len(lines) - 0.5, -0.5)  # first line on top
    bars = (
        f"{seeds} seeds; dot: mean of the paired differences; bar, in place of a band: its {100 * level:g} % t interval"
    )
    figure.supxlabel(
        _plain(bars if seeds > 1 else "One seed: no interval and so no bar or band.", 130), fontsize="small"
    )
    return figure


def _dots_panel(panel: Axes, content: Dots, lines: Sequence[str]) -> None:
    rows = content.rows.with_columns(at=pl.col("line").replace_strict(lines, range(len(lines))).cast(pl.Float64))
    panel.axvline(0.0, color="#555555", linewidth=0.8)
    panel.hlines(rows["at"].to_numpy(), _numbers(rows, "low"), _numbers(rows, "high"), color=COLOURS[1], linewidth=2.0)
    panel.plot(_numbers(rows, "middle"), rows["at"].to_numpy(), "o", color=COLOURS[1], markersize=5)
    panel.set_xlabel(_plain(content.name, 30), fontsize="small")
    panel.locator_params(axis="x", nbins=4)
    panel.tick_params(labelsize="small")
    panel.margins(x=0.1)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="x", alpha=0.3)


# ------------------------------------------------------------------------------------------------ money


_BARS = 12


def money_flow(flows: pl.DataFrame, kinds: Sequence[str], arm: str, seeds: int) -> Figure:
    """Who paid whom over the run: a map of payers and payees, and the largest flows with their reasons.

    Args:
        flows: ``payer``, ``payee``, ``meaning``, ``usd_bn``: means over seeds, in words.
        kinds: order of payers and payees.
        arm: the arm they are of.
        seeds: number of seeds in the means.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    _heat_map(left, flows, kinds)
    _largest(right, flows)
    figure.supxlabel(
        _plain(f"Arm {arm}; {'mean of ' if seeds > 1 else ''}{_seeds(seeds)}, whole run, USD billion; no band.", 150),
        fontsize="small",
    )
    return figure


def _seeds(seeds: int) -> str:
    return f"{seeds} seeds" if seeds > 1 else "one seed"


def _heat_map(panel: Axes, flows: pl.DataFrame, kinds: Sequence[str]) -> None:
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    table = np.zeros((len(kinds), len(kinds)))
    for payer, payee, usd in flows.select("payer", "payee", "usd_bn").rows():
        table[kinds.index(payer), kinds.index(payee)] += usd
    shown = np.where(table >= 0.0005, table, np.nan)
    top = max(1.0, float(np.nanmax(np.nan_to_num(shown))))
    scale, colours = LogNorm(top / 1e4, top, clip=True), colormaps["Blues"]
    panel.imshow(shown, cmap=colours, norm=scale, aspect="auto")
    for (row, column), usd in np.ndenumerate(shown):
        if np.isfinite(usd):
            ink = "white" if scale(usd) > 0.65 else "black"
            panel.text(column, row, _billions(usd), ha="center", va="center", fontsize="small", color=ink)
    panel.set_xticks(range(len(kinds)), [_narrow(kind) for kind in kinds], fontsize="x-small")
    panel.set_yticks(range(len(kinds)), [_plain(kind, 20) for kind in kinds], fontsize="small")
    panel.set_xlabel("receives", fontsize="small")
    panel.set_ylabel("pays", fontsize="small")
    panel.set_title("Money that changed hands, USD billion", fontsize="medium")


def _narrow(kind: str) -> str:
    """A kind of agent in lines short enough to stand under a column."""
    broken = kind.replace("hyper", "hyper- ").replace("market", "market- ").replace("neo", "neo- ")
    return _plain(broken, 9)


def _billions(usd_bn: float) -> str:
    """Two or three digits that tell."""
    return (
        f"{usd_bn:,.0f}"
        if usd_bn >= 100
        else f"{usd_bn:.1f}"
        if usd_bn >= 9.95
        else f"{usd_bn:.2f}"
        if usd_bn >= 0.095
        else f"{usd_bn:.3f}"
    )


def _largest(panel: Axes, flows: pl.DataFrame) -> None:
    biggest = flows.sort("usd_bn", descending=True).head(_BARS)
    names = [
        f"{payer} to {payee}:\n{meaning}"
        for payer, payee, meaning in biggest.select("payer", "payee", "meaning").rows()
    ]
    bars = panel.barh(range(len(names)), biggest["usd_bn"].to_numpy(), color=COLOURS[1])
    panel.bar_label(bars, [_billions(usd) for usd in biggest["usd_bn"]], padding=3, fontsize="small")
    panel.set_yticks(range(len(names)), [_plain(name, 44) for name in names], fontsize="x-small")
    panel.invert_yaxis()
    panel.margins(x=0.12)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="x", labelsize="small")
    panel.set_xlabel("USD billion", fontsize="small")
    panel.set_title("The largest flows", fontsize="medium")


# ------------------------------------------------------------------------------------------------ files


def png(figure: Figure) -> bytes:
    """A figure as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    written = BytesIO()
    figure.savefig(written, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return written.getvalue()


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, the same bytes each time; returns the paths."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    folder.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with mpl.rc_context({"svg.hashsalt": "neocloud"}):
        figure.savefig(paths[0], dpi=_DOTS_PER_INCH, metadata={"Software": None})
        figure.set_layout_engine("none")  # all stands where it was just put
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
