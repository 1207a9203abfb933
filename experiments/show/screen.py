"""Results on the screen: short tables, and under each one plain sentence made from its numbers."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.engine.plan import Contrast, Plan, Screen
from experiments.measure.stats import display_name

if TYPE_CHECKING:
    from experiments.api import Results

__all__ = ["Numbers", "show", "show_rows"]

_YEAR_WEEKS = 52
_PLAIN_WIDTH = 132  # of output that goes to a file

_FILES = ("summary.csv", "effects.csv", "figures/price_paths.png", "outcomes.parquet", "runs.parquet")

DEFAULT_SCREENS = (
    Screen(
        "Rental prices and their spread",
        (
            "price_mean[MI300X]",
            "price_mean[H100]",
            "price_cv[MI300X]",
            "price_cv[H100]",
            "sigma_trend[H100]",
            "beta[H100]",
        ),
    ),
    Screen(
        "Margins of neoclouds",
        (
            "operating_margin[neocloud]",
            "operating_margin[neocloud amd-heavy]",
            "operating_margin[neocloud nvidia-heavy]",
            "ebitda_margin[neocloud]",
            "lerner_margin[MI300X, neocloud]",
            "lerner_margin[H100, neocloud]",
        ),
    ),
    Screen(
        "AMD's share of the market, and the Developer Cloud",
        (
            "amd_hour_share",
            "amd_spend_share",
            "amd_new_work_share",
            "amd_unit_share",
            "developer_cloud_hours",
            "developer_cloud_fill",
        ),
    ),
)

_WORDS = {
    "price_mean": "the GPU-weighted list price",
    "price_open": "the price of offers not sold out",
    "price_cv": "the spread of list prices",
    "sigma_trend": "the trend of the spread, sigma",
    "beta": "the catch-up of prices, beta",
    "operating_margin": "the operating margin",
    "ebitda_margin": "the EBITDA margin",
    "lerner_margin": "the margin over running cost",
    "amd_hour_share": "AMD's share of GPU-hours",
    "amd_spend_share": "AMD's share of spending",
    "amd_unit_share": "AMD's share of installed GPUs",
    "amd_new_work_share": "AMD's share of new work",
    "developer_cloud_hours": "hours of the Developer Cloud",
    "developer_cloud_fill": "share of the cap sold",
}
_SELLERS = {
    "neocloud": "neoclouds",
    "neocloud amd-heavy": "AMD-heavy neoclouds",
    "neocloud nvidia-heavy": "Nvidia-heavy neoclouds",
}


def in_words(metric: str) -> str:
    """A display name in a sentence: ``price_mean[MI300X]`` is ``the mean list price of MI300X``."""
    words, parts = _parts(metric)
    named = [_SELLERS.get(part, part) for part in parts]
    return f"{words} of {', '.join(named)}" if named else words


def _label(metric: str) -> str:
    """The same at the side of a table."""
    words, parts = _parts(metric)
    return ", ".join(
        [words.removeprefix("the "), *(_SELLERS.get(part, part).removesuffix(" neoclouds") for part in parts)]
    )


def _parts(metric: str) -> tuple[str, list[str]]:
    """Words of a metric, and what it is split by."""
    name, _, dimensions = metric.removesuffix("]").partition("[")
    return _WORDS.get(name, name.replace("_", " ")), [part for part in dimensions.split(", ") if part]


class Numbers:
    """Summary and effects of year one by display name, ready to be shown.

    Args:
        results: of the experiment.
    """

    def __init__(self, results: Results) -> None:
        self.plan: Plan = results.plan
        self.contrasts = results.plan.shown_contrasts()
        self.arms = results.plan.shown_arms()
        self._results = results
        weeks = [arm.scenario.weeks for arm in self.plan.arms]
        self.last_week = min(_YEAR_WEEKS, *weeks)

    @cached_property
    def _summary(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(row["arm"], row["shown"]): row for row in self._rows(self._results.summary)}

    @cached_property
    def _effects(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(row["contrast"], row["shown"]): row for row in self._rows(self._results.effects)}

    def _rows(self, frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
        year_one = frame.filter(pl.col("window_first") == 1, pl.col("window_last") == self.last_week)
        for row in year_one.iter_rows(named=True):
            name = display_name(row["metric"], row["sku"], row["segment"], row["provider_class"], row["vendor"])
            yield {**row, "shown": name}

    def mean(self, arm: str, metric: str) -> dict[str, Any] | None:
        """Row of the summary."""
        return self._summary.get((arm, metric))

    def effect(self, contrast: str, metric: str) -> dict[str, Any] | None:
        """Row of the effects."""
        return self._effects.get((contrast, metric))


# ------------------------------------------------------------------------------------------------ numbers in words


def _scale(metric: str, unit: str, sizes: Sequence[float]) -> tuple[float, int, str]:
    """Factor, decimals and unit in which numbers are shown: shares and margins in percent, large sums in millions."""
    if unit == "1":
        is_share = any(word in metric for word in ("share", "margin", "fill", "utilisation"))
        return (100.0, 2, "%") if is_share else (1.0, 3, "")
    if unit in ("GPU-h", "H100e-h", "USD") and max(map(abs, sizes), default=0.0) >= 1e4:
        return 1e-6, 3, f"million {unit}"
    return 1.0, 3, unit


def _number(value: float, decimals: int, *, sign: bool = False) -> str:
    text = f"{value:+,.{decimals}f}" if sign else f"{value:,.{decimals}f}"
    return text.replace("-", "−")


def with_interval(row: Mapping[str, Any] | None, factor: float, decimals: int, between: str = " ") -> str:
    """``+0.012 [−0.003, 0.027]`` from a row of effects; ``-`` without a value."""
    if row is None or row["difference"] is None:
        return "-"
    found = _number(row["difference"] * factor, decimals, sign=True)
    if row["low"] is None:
        return found
    return f"{found}{between}[{_number(row['low'] * factor, decimals)}, {_number(row['high'] * factor, decimals)}]"


def _in_unit(found: str, unit: str) -> str:
    """A difference with its unit; differences of percentages are points."""
    return f"{found} {'points' if unit == '%' else unit}".rstrip()


def distinguishable(row: Mapping[str, Any] | None) -> bool:
    """Whether the interval of an effect leaves out zero."""
    return row is not None and row["low"] is not None and (row["low"] > 0 or row["high"] < 0)


def sentence(numbers: Numbers, contrast: Contrast, metric: str) -> str:
    """What a contrast does to a metric, in one sentence that claims no more than the interval does."""
    row = numbers.effect(contrast.name, metric)
    name = in_words(metric)
    if row is None or row["difference"] is None:
        reason = row["reason"] if row is not None else "not measured"
        return f"The {contrast.name} on {name} is undefined: {reason}."
    factor, decimals, unit = _scale(metric, row["unit"], [row["difference"]])
    found = _in_unit(with_interval(row, factor, decimals), unit)
    if row["low"] is None:
        return f"The {contrast.name} on {name} is {found}; an interval needs two seeds or more."
    level = f"{100 * row['level']:g} % interval, {row['pairs']} seeds"
    if row["low"] == row["high"] == 0:
        return f"The {contrast.name} leaves {name} exactly as it is in all {row['pairs']} seeds."
    if not distinguishable(row):
        return f"No {contrast.name} on {name} distinguishable from zero: {found} ({level})."
    verb = "raises" if row["difference"] > 0 else "lowers"
    return f"The {contrast.name} {verb} {name}: {found} ({level})."


def assumption_sentence(numbers: Numbers, contrast: Contrast, metric: str) -> str:
    """How much of an effect an assumption carries; blank where the design switches none off."""
    row, without = numbers.effect(contrast.name, metric), numbers.effect(contrast.without, metric)
    if row is None or without is None or row["difference"] is None or without["difference"] is None:
        return ""
    factor, decimals, unit = _scale(metric, row["unit"], [row["difference"]])
    bare = _in_unit(with_interval(without, factor, decimals), unit)
    if row["difference"] == 0:
        return f"without {contrast.assumption} it is {bare}"
    share = (row["difference"] - without["difference"]) / row["difference"]
    carried = f"{contrast.assumption} is {_number(share * 100, 0)} % of the point estimate"
    caution = "" if distinguishable(row) else ", a share of something not distinguishable from zero"
    return f"{carried}{caution}; without it the effect is {bare}"


def cap_sentence(numbers: Numbers, arm: str) -> str:
    """How often the cap of the developer cloud binds in an arm; blank where it sells nothing."""
    binds, fill = (numbers.mean(arm, f"developer_cloud_{name}") for name in ("bind_share", "fill"))
    if binds is None or fill is None or binds["mean"] is None or fill["mean"] is None:
        return ""
    often, full = 100 * binds["mean"], 100 * fill["mean"]
    return f"the cap binds in {often:.0f} % of the offer's weeks and is {full:.0f} % full on average"


def says(numbers: Numbers, screen: Screen, *, first: bool) -> str:
    """The sentence under a table: the first contrast on its first metric, and what an assumption carries of it.

    Under the first table it also says how often the cap binds.
    """
    contrast, metric = numbers.contrasts[0], screen.metrics[0]
    head = sentence(numbers, contrast, metric).removesuffix(".")
    cap = cap_sentence(numbers, contrast.arm) if first else ""
    return "; ".join(filter(None, [head, assumption_sentence(numbers, contrast, metric), cap])) + "."


# ------------------------------------------------------------------------------------------------ printing


def show(results: Results) -> None:
    """Print tables and sentences to standard output, then where the files are."""
    console = _console()
    numbers = Numbers(results)
    console.print(f"[bold]{results.plan.name}[/bold]: {_head(numbers)}")
    for index, screen in enumerate(results.plan.screens or DEFAULT_SCREENS):
        console.print()
        console.print(_table(numbers, screen))
        if numbers.contrasts:
            console.print(escape(says(numbers, screen, first=index == 0)))
    console.print()
    files = [name for name in _FILES if (results.out / name).exists()]
    console.print(escape(f"Files in {results.out}: {', '.join(files)}"), soft_wrap=True)


def _console() -> Console:
    """Standard output; as wide as the tables need where it is no terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=max(_PLAIN_WIDTH, shutil.get_terminal_size().columns))


def _head(numbers: Numbers) -> str:
    plan = numbers.plan
    seeds = f"{len(plan.seeds)} seeds" if len(plan.seeds) > 1 else "one seed"
    arms = f"{len(plan.arms)} arms x " if len(plan.arms) > 1 else ""
    shown = f"weeks 1-{numbers.last_week}"
    return f"{arms}{seeds}, {shown}; {100 * plan.level:g} % t intervals, paired by seed. {plan.question}"


def _table(numbers: Numbers, screen: Screen) -> Table:
    table = Table(title=screen.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for heading in [*numbers.arms, *(contrast.name for contrast in numbers.contrasts)]:
        table.add_column(heading, justify="right")
    for metric in screen.metrics:
        table.add_row(*map(escape, _cells(numbers, metric)))
    return table


def _cells(numbers: Numbers, metric: str) -> Iterator[str]:
    """A row of a table: label, arm means, contrasts with intervals."""
    means = [numbers.mean(arm, metric) for arm in numbers.arms]
    known = [row for row in means if row is not None]
    unit = known[0]["unit"] if known else ""
    factor, decimals, shown = _scale(metric, unit, [row["mean"] for row in known if row["mean"] is not None])
    yield _label(metric) + (f", {shown}" if shown else "")
    for row in means:
        yield "-" if row is None or row["mean"] is None else _number(row["mean"] * factor, decimals)
    for contrast in numbers.contrasts:
        yield with_interval(numbers.effect(contrast.name, metric), factor, decimals, "\n")


def show_rows(rows: Sequence[Mapping[str, Any]], form: str) -> None:
    """Print equal rows as a table or as CSV."""
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        sys.stdout.write(text.getvalue())
        return
    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="right" if isinstance(rows[0][name], int) else "left")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    _console().print(table)
