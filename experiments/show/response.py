"""Figures and tables of sweeps: response curves, maps of two levers, main effects of many.

What a figure shows stands in ``response.csv`` too, number by number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import polars as pl

from experiments.engine.plan import Plan
from experiments.measure import response as measured
from experiments.measure.intervals import bootstrap_t_interval, false_alarms, too_skewed
from experiments.measure.outcomes import UNITS
from experiments.show import plots

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from experiments.api import Results

__all__ = [
    "DEFAULT_METRICS",
    "applies",
    "caption",
    "described",
    "figure",
    "head_and_rows",
    "response_table",
    "screened",
    "screening_rows",
    "screening_table",
    "sentences",
    "show",
    "shown_metrics",
    "warnings",
]

DEFAULT_METRICS = ("operating_margin[neocloud amd-heavy]", "amd_hour_share", "price_mean[H100]", "price_mean[MI300X]")
"""What a sweep shows where nothing else is asked for."""

_YEAR_WEEKS = 52
_CHANGE = "change of "
_MOST_METRICS = 6
_MOST_LINES = len(plots.COLOURS)
_MOST_BARS = 15
_MOST_ROWS = 60
_PANEL_INCHES = (3.6, 3.0)


def window_weeks(plan: Plan) -> int:
    """Last week of what is shown: the first year, or the shortest run."""
    return min(_YEAR_WEEKS, *(arm.scenario.weeks for arm in plan.arms))


def shown_metrics(results: Results) -> list[str]:
    """The first outcomes of the plan's tables, else those of `DEFAULT_METRICS`, as far as they were measured."""
    asked = [metric for screen in results.plan.screens for metric in screen.metrics]
    known = results.metric_names(window_weeks(results.plan))
    return [metric for metric in asked or DEFAULT_METRICS if metric in known][:_MOST_METRICS]


def _values(results: Results, metric: str) -> pl.DataFrame:
    return results.metric(metric, window_weeks(results.plan))


def response_table(results: Results) -> pl.DataFrame:
    """Mean and interval by arm, long: ``metric``, ``unit``, levers, ``arm``, ``mean``, ``low``, ``high``, ``n``."""
    keys, metrics = measured.levers(results.runs), shown_metrics(results)
    frames = []
    for metric in metrics:
        table = measured.response(_values(results, metric), results.runs, keys, results.plan.level)
        unit = UNITS.get(metric.partition("[")[0], "")
        frames.append(table.select(pl.lit(metric).alias("metric"), pl.lit(unit).alias("unit"), pl.all()))
    return pl.concat(frames)


# ------------------------------------------------------------------------------------------------ figures


def applies(results: Results) -> bool:
    """Whether the arms make a response (a curve, a map, many levers) and the plan compares none of them by name."""
    plain = not results.plan.shown_contrasts() and not results.plan.outer
    return plain and bool(measured.shape(results.runs)) and bool(shown_metrics(results))


def described(results: Results) -> str:
    """What the figure shows, and the file that holds its numbers."""
    if screened(results):
        return f"{_screening_caption(results)} From screening.csv"
    return f"{caption(results, '')} From response.csv"


def screened(results: Results) -> bool:
    """Whether the arms are the trajectories of Morris, so that there are elementary effects."""
    return applies(results) and measured.shape(results.runs) == "screening"


def figure(results: Results, metrics: Sequence[str]) -> Figure:
    """The figure that fits the levers of an experiment to which `applies` says yes."""
    return _FIGURES[measured.shape(results.runs)](results, metrics)


def _panels(columns: int, rows: int, width: float = 1.0) -> tuple[Figure, NDArray[np.object_]]:
    from matplotlib.figure import Figure

    size = (width * _PANEL_INCHES[0] * columns, 0.6 + _PANEL_INCHES[1] * rows)
    drawn = Figure(figsize=size, layout="constrained")
    return drawn, drawn.subplots(rows, columns, squeeze=False)


def _curves(results: Results, metrics: Sequence[str]) -> Figure:
    """Above, the level over the lever; below, the difference from its first value, seed by seed."""
    (key,) = measured.levers(results.runs)
    drawn, panels = _panels(len(metrics), 2)
    for (above, below), metric in zip(panels.T, metrics, strict=True):
        found = _values(results, metric)
        for panel, table in ((above, found), (below, measured.against(found, _base(results)))):
            _curve(panel, measured.response(table, results.runs, [key], results.plan.level), key, 0)
        _axes(above, metric, key)
        _axes(below, f"{_CHANGE}{metric}", key)
    drawn.supxlabel(caption(results, _PAIRED), fontsize="small")
    return drawn


_PAIRED = "Changes are from the first arm, paired by seed. Bands:"


def _base(results: Results) -> str:
    """The arm that others are compared with: the first that can be."""
    return next(arm.name for arm in results.plan.arms if not arm.problem)


def _maps(results: Results, metrics: Sequence[str]) -> Figure:
    """Above, the change over the first lever for each value of the second; below, the level over both at once."""
    first, second = measured.levers(results.runs)
    drawn, panels = _panels(len(metrics), 2)
    for (above, below), metric in zip(panels.T, metrics, strict=True):
        found, keys, level = _values(results, metric), [first, second], results.plan.level
        changes = measured.response(measured.against(found, _base(results)), results.runs, keys, level)
        for line, value in enumerate(_some(changes[second].unique().sort().to_list())):
            _curve(above, changes.filter(pl.col(second) == value), first, line, f"{_end(second)} {value:g}")
        _axes(above, f"{_CHANGE}{metric}", first)
        _map(drawn, below, measured.response(found, results.runs, keys, level), first, second)
        _axes(below, metric, first, _end(second))
    drawn.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    drawn.supxlabel(caption(results, _PAIRED), fontsize="small")
    return drawn


def _some(values: list[float]) -> list[float]:
    """As many values as lines can be told apart, spread over all of them, both ends kept."""
    if len(values) <= _MOST_LINES:
        return values
    last = _MOST_LINES - 1
    return [values[round(index * (len(values) - 1) / last)] for index in range(_MOST_LINES)]


def _curve(panel: Axes, table: pl.DataFrame, key: str, line: int, label: str = "") -> None:
    x, mean, low, high = (table[name].cast(pl.Float64).to_numpy() for name in (key, "mean", "low", "high"))
    colour = plots.COLOURS[line]
    panel.plot(x, mean, color=colour, linestyle=plots.DASHES[line], marker="o", markersize=3, label=label)
    panel.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    panel.grid(axis="y", alpha=0.3)


def _map(drawn: Figure, panel: Axes, table: pl.DataFrame, first: str, second: str) -> None:
    """Colours by the order of the values, so that steps of any size are seen; contours where there are enough."""
    import numpy as np

    columns, rows = (table[key].unique().sort().to_list() for key in (first, second))
    grid = table.sort(second, first)["mean"].cast(pl.Float64).to_numpy().reshape(len(rows), len(columns))
    image = panel.imshow(grid, origin="lower", aspect="auto", cmap="viridis")
    bar = drawn.colorbar(image, ax=panel, fraction=0.05, pad=0.02)
    bar.formatter.set_useOffset(False)  # type: ignore[attr-defined]
    bar.ax.tick_params(labelsize="x-small")
    if min(grid.shape) > 1 and np.isfinite(grid).all() and np.ptp(grid) > 0:
        lines = panel.contour(grid, colors="white", linewidths=0.8, levels=4)
        panel.clabel(lines, fontsize="x-small", fmt="%.4g")
    for axis, found in ((panel.xaxis, columns), (panel.yaxis, rows)):
        axis.set_ticks(range(len(found)), [f"{value:g}" for value in found])


def _tornado(results: Results, metrics: Sequence[str]) -> Figure:
    keys = measured.levers(results.runs)
    drawn, panels = _bar_panels(keys, metrics)
    for panel, metric in zip(panels, metrics, strict=True):
        effects = measured.main_effects(_values(results, metric), results.runs, keys, results.plan.level)
        _bars(panel, metric, [(e.key, e.lowest, e.highest, e.change, e.low, e.high) for e in effects])
        panel.set_xlabel("change, low to high end", fontsize="small")
    drawn.supxlabel(caption(results, "Lines: main effects by least squares on arm means,"), fontsize="small")
    return drawn


def _screening(results: Results, metrics: Sequence[str]) -> Figure:
    """How large the elementary effects of each lever are, and how far they are spread."""
    drawn, panels = _bar_panels(measured.levers(results.runs), metrics)
    for panel, metric in zip(panels, metrics, strict=True):
        effects = _effects(results, metric).head(_MOST_BARS)
        columns = ("key", "lowest", "highest", "mean_size", "low", "high")
        _bars(panel, metric, effects.select(columns).rows())
        panel.plot(effects["spread"], range(effects.height), "D", color="black", markersize=4, linestyle="none")
        panel.set_xlabel("mean size of an elementary effect", fontsize="small")
    drawn.supxlabel("\n".join(wrap(_screening_caption(results), 50 * len(metrics))), fontsize="small")
    return drawn


def _screening_caption(results: Results) -> str:
    return (
        f"{_measured_in(results)}. An elementary effect is what the move of one lever does, carried over its whole "
        "range. Diamonds: spread of the effects of a lever; where it is large, the lever bends or depends on others. "
        f"Lines: {100 * results.plan.level:g} % intervals over resampled trajectories."
    )


def _effects(results: Results, metric: str) -> pl.DataFrame:
    keys = measured.levers(results.runs)
    return measured.screening(_values(results, metric), results.runs, keys, results.plan.level)


def screening_table(results: Results) -> pl.DataFrame:
    """Elementary effects by outcome and lever, long: ``metric``, ``unit``, and the columns of `SCREENING_SCHEMA`."""
    frames = [
        _effects(results, metric).select(
            pl.lit(metric).alias("metric"), pl.lit(UNITS.get(metric.partition("[")[0], "")).alias("unit"), pl.all()
        )
        for metric in shown_metrics(results)
    ]
    return pl.concat(frames)


def _bar_panels(keys: Sequence[str], metrics: Sequence[str]) -> tuple[Figure, Sequence[Axes]]:
    drawn, panels = _panels(len(metrics), max(1, round(min(len(keys), _MOST_BARS) / 6)), 1.25)
    return drawn, list(panels[0])


def _bars(panel: Axes, metric: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Bars with intervals: key, low and high end of its range, length, low and high bound of each."""
    rows = rows[:_MOST_BARS]
    names = [f"{key}\n{lowest:g} to {highest:g}" for key, lowest, highest, *_ in rows]
    lengths = [length for *_, length, _, _ in rows]
    error = [[length - low for *_, length, low, _ in rows], [high - length for *_, length, _, high in rows]]
    colours = [plots.COLOURS[1] if length > 0 else plots.COLOURS[2] for length in lengths]
    panel.barh(names, lengths, xerr=error, color=colours, ecolor="#444444", capsize=2)
    panel.invert_yaxis()
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.tick_params(labelsize="x-small")
    panel.locator_params(axis="x", nbins=4)
    panel.ticklabel_format(axis="x", scilimits=(-3, 5))
    panel.set_title(f"{metric}{_unit(metric)}", fontsize="small")


_FIGURES: dict[str, Callable[[Results, Sequence[str]], Figure]] = {
    "curve": _curves,
    "map": _maps,
    "screening": _screening,
    "tornado": _tornado,
}


def _axes(panel: Axes, metric: str, key: str, side: str = "") -> None:
    panel.set_title(f"{metric}{_unit(metric)}", fontsize="small")
    panel.set_xlabel(_end(key), fontsize="small")
    panel.set_ylabel(side, fontsize="small")
    panel.tick_params(labelsize="small")


def _end(key: str) -> str:
    """A key without its section."""
    return key.rpartition(".")[2]


def _unit(metric: str) -> str:
    unit = UNITS.get(metric.removeprefix(_CHANGE).partition("[")[0], "1")
    return "" if unit == "1" else f", {unit}"


def head_and_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """A table of all arms: its head and, an arm a row, the cells under it."""
    metrics = shown_metrics(results)
    return ["arm", *(metric + _unit(metric) for metric in metrics)], list(_rows(results, metrics))


def screening_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """A table of elementary effects: its head and, an outcome and lever a row, the cells under it."""
    head = ["outcome", "lever", "from", "to", "mean size", "its interval", "mean", "spread"]
    rows = [
        [
            row["metric"] + _unit(row["metric"]),
            row["key"],
            *(_plain(f"{row[name]:g}") for name in ("lowest", "highest")),
            f"{row['mean_size']:.3g}",
            _plain(_bounds(row, ".3g").strip()),
            *(_plain(f"{row[name]:.3g}") for name in ("mean", "spread")),
        ]
        for row in screening_table(results).iter_rows(named=True)
    ]
    return head, rows


def sentences(results: Results) -> Iterator[str]:
    """Where each outcome is lowest and highest, or which lever moves it most; then what to be careful about."""
    metrics = shown_metrics(results)
    said = _SAYINGS.get(measured.shape(results.runs), _span)
    for metric in metrics:
        yield said(results, metric)
    yield from warnings(results, metrics)


def _span(results: Results, metric: str) -> str:
    table = measured.response(_values(results, metric), results.runs, [], results.plan.level).drop_nulls("mean")
    if not table.height:
        return f"{metric} is undefined in every arm."
    ends = table.sort("mean", maintain_order=True).to_dicts()
    low, high = (f"{_cell(row, None)} in {row['arm']}" for row in (ends[0], ends[-1]))
    return f"{metric}{_unit(metric)}: lowest {low}, highest {high}."


def _largest(results: Results, metric: str) -> str:
    keys = measured.levers(results.runs)
    effects = measured.main_effects(_values(results, metric), results.runs, keys, results.plan.level)
    if not effects:
        return f"{metric}: too few arms to tell its {len(keys)} levers apart."
    first = effects[0]
    change = _plain(f"{first.change:+.3g} [{first.low:.3g}, {first.high:.3g}]")
    ends = f"from {first.lowest:g} to {first.highest:g}"
    return f"{metric}{_unit(metric)} moves most with {first.key} {ends}: {change}."


def _matters(results: Results, metric: str) -> str:
    """Which lever has the largest elementary effects, and whether they agree."""
    found = _effects(results, metric)
    if not found.height:
        return f"{metric}: fewer than two whole trajectories tell nothing of its levers."
    first = found.row(0, named=True)
    if first["mean_size"] == 0.0:
        return f"{metric}: no lever moves it."
    size = f"{first['mean_size']:.3g} [{first['low']:.3g}, {first['high']:.3g}]"
    mean, ends = f"{first['mean']:+.3g}", f"from {first['lowest']:g} to {first['highest']:g}"
    return (
        f"{metric}{_unit(metric)} moves most with {first['key']} {ends}: elementary effects of {_plain(size)} in size, "
        f"{_plain(mean)} on average, spread {first['spread']:.3g}."
    )


_SAYINGS: dict[str, Callable[[Results, str], str]] = {"tornado": _largest, "screening": _matters}


def caption(results: Results, what: str) -> str:
    """Weeks, seeds and level behind a figure; ``what`` stands before the level."""
    return f"{_measured_in(results)}. {what} {100 * results.plan.level:g} % t intervals of the mean."


def _measured_in(results: Results) -> str:
    """Weeks and seeds."""
    finished = results.runs.filter(pl.col("status") == "ok")
    seeds = finished.group_by("arm").len()["len"]
    fewest, most = (int(bound) for bound in (min(seeds), max(seeds)))
    counted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    weeks = window_weeks(results.plan)
    return f"Weeks 1-{weeks}; {counted} seeds an arm"


# ------------------------------------------------------------------------------------------------ the screen


def show(results: Results) -> None:
    """Print a row an arm, which of many levers matters most, what to be careful about, and where the files are."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from experiments.show.screen import show_files

    chosen = shown_metrics(results)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(f"[bold]{escape(results.plan.name)}[/bold]: {_extent(results)}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("arm")
    for metric in chosen:
        table.add_column(escape(f"{metric}{_unit(metric)}"), justify="right")
    rows = list(_rows(results, chosen))
    for row in rows[:_MOST_ROWS]:
        table.add_row(*map(escape, row))
    console.print(table)
    if len(rows) > _MOST_ROWS:
        console.print(f"... and {len(rows) - _MOST_ROWS} more arms in {results.out}/summary.csv")
    if said := _SAYINGS.get(measured.shape(results.runs)):
        for metric in chosen:
            console.print(escape(said(results, metric)))
    for line in warnings(results, chosen):
        console.print(escape(line))
    show_files(results)


def _extent(results: Results) -> str:
    runs, plan = results.runs, results.plan
    ended = runs.group_by("status", maintain_order=True).len().rows()
    bad = ", ".join(f"{count} {status}" for status, count in ended if status != "ok")
    what = " (and difference from the first arm, paired by seed)" if plan.contrasts else ""
    rows = f"{len(plan.arms)} arms, {runs.height} runs" + (f" ({bad})" if bad else "")
    return f"{rows}; weeks 1-{window_weeks(plan)}; mean{what} with {100 * plan.level:g} % t interval."


def _rows(results: Results, metrics: Sequence[str]) -> Iterator[list[str]]:
    by_metric = [_cells(results, metric) for metric in metrics]
    for arm in results.plan.arms:
        yield [arm.name, *(cells[arm.name] for cells in by_metric)]


def _cells(results: Results, metric: str) -> dict[str, str]:
    """Cells of a column by arm: the mean, and the difference from the first arm where seeds are shared, or interval."""
    found, base = _values(results, metric), _base(results)
    by_arm, changes = (
        {
            row["arm"]: row
            for row in measured.response(table, results.runs, [], results.plan.level).iter_rows(named=True)
        }
        for table in (found, measured.against(found, base))
    )
    shown = {}
    for arm in results.plan.arms:
        change = changes[arm.name] if results.plan.contrasts and arm.name != base else None
        shown[arm.name] = _cell(by_arm[arm.name], change)
    return shown


def _cell(row: Mapping[str, Any], change: Mapping[str, Any] | None) -> str:
    """``3.013 (+0.012 [0.001, 0.023])``: mean and paired difference; ``3.013 [2.9, 3.1]`` without one."""
    if row["mean"] is None:
        return "-"
    if change is None or change["mean"] is None:
        return _plain(f"{row['mean']:.4g}{_bounds(row)}")
    return _plain(f"{row['mean']:.4g} ({change['mean']:+.3g}{_bounds(change, '.3g')})")


def _bounds(row: Mapping[str, Any], form: str = ".4g") -> str:
    return "" if row["low"] is None else f" [{row['low']:{form}}, {row['high']:{form}}]"


def _plain(text: str) -> str:
    return text.replace("-", "−")


def warnings(results: Results, metrics: Sequence[str]) -> Iterator[str]:
    """Lines to print under a table: how many comparisons it invites, and which outcomes a t interval does not fit."""
    comparisons = len(metrics) * max(0, len(results.plan.arms) - 1)
    if comparisons > 1:
        luck = false_alarms(comparisons, results.plan.level)
        yield (
            f"{comparisons} comparisons with the first arm: about {luck:.2g} of their {100 * results.plan.level:g} % "
            "intervals leave out a true zero by luck alone."
        )
    for metric in metrics:
        yield from _skewed(results, metric)


def _skewed(results: Results, metric: str) -> Iterator[str]:
    found = _values(results, metric)
    if results.plan.contrasts:  # what is shown with an interval then
        found = measured.against(found, _base(results))
    skewed = [arm.name for arm in results.plan.arms if too_skewed(_of(found, arm.name))]
    if skewed:
        interval = bootstrap_t_interval(_of(found, skewed[0]), results.plan.level)
        bounds = "" if interval.low is None else f" (bootstrap-t there: [{interval.low:.4g}, {interval.high:.4g}])"
        yield f"Warning: {metric} is too skewed for a t interval in {len(skewed)} arms, first {skewed[0]}{bounds}."


def _of(found: pl.DataFrame, arm: str) -> list[float | None]:
    return found.filter(pl.col("arm") == arm)["value"].to_list()
