"""The figures of a report: which, of what, and what their captions say; all from the stored tables."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, get_args

import polars as pl

from experiments.engine.errors import ScenarioError, nearest
from experiments.engine.plan import Contrast, Window
from experiments.measure.outcomes import HEADLINE
from experiments.measure.stats import EFFECTS_SCHEMA
from experiments.measure.weekly import TREND_CLASSES
from experiments.show import plots, response
from experiments.show.plots import MOST_ARMS, Axis
from experiments.show.words import (
    DEFAULT_SCREENS,
    Numbers,
    difference_of,
    label,
    listed,
    number,
    scale,
    sellers,
    skus_of,
    with_interval,
)
from market.ledger import ENTRY_TYPES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.api import Results

__all__ = [
    "MONEY",
    "Drawing",
    "Weeks",
    "drawing",
    "drawings",
    "effects_drawing",
    "effects_rows",
    "flow_arm",
    "flow_in_words",
    "seed_range",
]


@dataclass(frozen=True)
class Drawing:
    """A figure with its words; a notebook shows picture and caption.

    Attributes:
        name: of its files in ``figures/``.
        title: its heading.
        figure: of matplotlib, to change or save.
        caption: what it shows, of which runs, and what its bands are.
        alt: what it says, for those who do not see it.
    """

    name: str
    title: str
    figure: Figure
    caption: str
    alt: str

    def __repr__(self) -> str:
        return f"{self.title}: {self.caption}"

    def _repr_html_(self) -> str:
        """Picture and caption, asked for by notebooks."""
        picture = b64encode(plots.png(self.figure)).decode("ascii")
        shown = f'<img src="data:image/png;base64,{picture}" alt="{escape(self.alt)}" style="max-width: 100%">'
        return f"<figure>{shown}<figcaption>{escape(self.caption)}</figcaption></figure>"


MONEY = "money_flow"
"""Name of the figure that has a section of its own."""

_PRICE = Axis("list price,\nUSD per GPU-hour", "USD per GPU-hour")
_CV = Axis("spread of list prices,\ncoefficient of variation", "coefficient of variation")
_FAILED = Axis("failed so far,\nsellers", "sellers")
_PERCENT = {
    "ebitda_margin": Axis("EBITDA margin, %", "points", 100.0),
    "operating_margin": Axis("operating margin, %", "points", 100.0),
    "amd_hour_share": Axis("AMD's share, %", "points", 100.0),
}
_KINDS = {
    "tenant": "tenants",
    "neocloud": "neoclouds",
    "hyperscaler": "hyperscalers",
    "marketplace": "marketplaces",
    "amd": "AMD",
    "nvidia": "Nvidia",
    "lender": "lenders",
    "rest_of_world": "rest of the world",
}


class Weeks:
    """Weekly measures of the arms that are drawn, ready for `experiments.show.plots`.

    Args:
        results: of the experiment.
        numbers: of the same.
    """

    def __init__(self, results: Results, numbers: Numbers) -> None:
        self.results = results
        finished = results.runs.filter(pl.col("status") == "ok").select("id", "arm", "seed")
        known = set(finished["arm"])
        shown = [arm for arm in numbers.arms if arm in known]
        self.arms, self.left_out = shown[:MOST_ARMS], shown[MOST_ARMS:]
        self.contrasts = [c for c in numbers.contrasts if {c.arm, c.base} <= known][:MOST_ARMS]
        self.runs = finished
        self.level = results.plan.level
        self.skus = skus_of(results.plan.screens)

    def of(self, metric: str, key: str, panels: Sequence[str], arms: Sequence[str] = ()) -> pl.DataFrame:
        """``line``, ``panel``, ``week``, ``seed``, ``value`` of a metric; ``key`` is what the panels are of.

        No more of the weekly measures is held than this.
        """
        mine = self.runs.filter(pl.col("arm").is_in(list(arms or self.arms))).rename({"arm": "line"})
        wanted = self.results.scan("trend_week").filter(
            pl.col("metric") == metric, pl.col(key).is_in(list(panels)), pl.col("run").is_in(mine["id"].implode())
        )
        if key == "sku":
            wanted = wanted.filter(pl.col("provider_class") == HEADLINE)
        found = wanted.select("run", pl.col(key).alias("panel"), "week", "value").drop_nulls("value")
        joined = mine.join(found.collect(engine="streaming"), left_on="id", right_on="run", maintain_order="left_right")
        return joined.select("line", "panel", "week", "seed", "value")

    def compared(self) -> list[str]:
        """Arms of the contrasts that are drawn."""
        return list(dict.fromkeys(name for c in self.contrasts for name in (c.arm, c.base)))

    def seeds(self) -> str:
        """``seeds 1 to 16``."""
        return seed_range(self.runs["seed"].unique().sort().to_list())

    def source(self) -> str:
        """Which runs a figure is made of."""
        left = f" Not drawn: {listed(self.left_out)}." if self.left_out else ""
        arms = f"arms {listed(self.arms)}" if len(self.arms) > 1 else f"arm {self.arms[0]}"
        return f"From trend_week.parquet: {arms}; {self.seeds()}.{left}"


def seed_range(seeds: Sequence[int]) -> str:
    """Seeds in words: ``seeds 1 to 16``, ``seed 3``."""
    if len(seeds) < 2:
        return f"seed {seeds[0]}" if seeds else "no seed"
    whole = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]} to {seeds[-1]}" if whole else f"seeds {', '.join(map(str, seeds))}"


def drawings(results: Results, numbers: Numbers) -> Iterator[Drawing]:
    """Every figure for which the results hold something, one at a time."""
    weeks = Weeks(results, numbers)
    if not weeks.arms:
        return
    if response.applies(results):
        yield _response(results, weeks)
        yield from _money(weeks)
        return
    for make in _MAKERS.values():
        yield from make(weeks)


def drawing(results: Results, name: str) -> Drawing:
    """One of them by its name.

    Raises:
        ScenarioError: no figure is called so, or the results hold nothing for it; one line.
    """
    weeks = Weeks(results, Numbers(results))
    if name not in _MAKERS:
        raise ScenarioError(f"figure {name!r}; allowed: {', '.join(_MAKERS)}{nearest(name, _MAKERS)}")
    found = next(_MAKERS[name](weeks), None) if weeks.arms else None
    if found is None:
        raise ScenarioError(f"figure {name!r}: {results.out} holds nothing that it could show")
    return found


def _response(results: Results, weeks: Weeks) -> Drawing:
    """What was swept, and what it does."""
    metrics = response.shown_metrics(results)
    drawn = response.figure(results, metrics)
    source = f"and outcomes.parquet: {len(results.plan.arms)} arms; {weeks.seeds()}."
    said = " ".join(response.sentences(results))
    return Drawing("response", "Response to what was swept", drawn, f"{response.described(results)} {source}", said)


# ------------------------------------------------------------------------------------------------ prices

_LIST = (
    "Posted on-demand price of neoclouds and marketplaces, weighted by the GPUs they can rent out (outcome price_mean)"
)


def _band(weeks: Weeks) -> str:
    seeds = weeks.runs["seed"].n_unique()
    if seeds < 2:
        return "one path of one seed"
    return f"means of {seeds} seeds with {100 * weeks.level:g} % t intervals, week by week"


def _below(weeks: Weeks) -> str:
    if len(weeks.arms) < 2:
        return ""
    return (
        f" Arms that do not differ lie on top of one another. Below: differences from {weeks.arms[0]}, paired by seed."
    )


def _present(values: pl.DataFrame, panels: Sequence[str]) -> list[str]:
    return [panel for panel in panels if panel in set(values["panel"])]


def _price_paths(weeks: Weeks) -> Iterator[Drawing]:
    values = weeks.of("price_mean", "sku", weeks.skus)
    if skus := _present(values, weeks.skus):
        yield Drawing(
            "price_paths",
            "Prices by arm",
            plots.paths(values, weeks.arms, skus, _PRICE, weeks.level),
            f"List prices of {' and '.join(skus)} by week and arm: {_band(weeks)}.{_below(weeks)} {_LIST}; scales "
            f"differ. {weeks.source()}",
            _ends(values, _PRICE, "USD per GPU-hour"),
        )


def _price_fans(weeks: Weeks) -> Iterator[Drawing]:
    values = weeks.of("price_mean", "sku", weeks.skus)
    if skus := _present(values, weeks.skus):
        yield Drawing(
            "price_fans",
            "Prices: how far luck moves them",
            plots.fans(values, weeks.arms, skus, _PRICE),
            f"List prices of {' and '.join(skus)}, an arm to a column: the median of the seeds, and where the middle "
            f"50 and 90 % of them lie: how far luck alone moves the price. {weeks.source()}",
            _ends(values, _PRICE, "USD per GPU-hour", "median"),
        )


def _price_differences(weeks: Weeks) -> Iterator[Drawing]:
    if not weeks.contrasts:
        return
    values = weeks.of("price_mean", "sku", weeks.skus, weeks.compared())
    triples = [(contrast.name, contrast.arm, contrast.base) for contrast in weeks.contrasts]
    paired = plots.seed_differences(values, triples)
    if skus := _present(paired, weeks.skus):
        yield Drawing(
            "price_difference_fans",
            "Prices: what each contrast does, seed by seed",
            plots.fans(paired, [contrast.name for contrast in weeks.contrasts], skus, _PRICE, of_differences=True),
            f"What each contrast does to list prices, seed by seed: {_defined(weeks.contrasts)}. The median of the "
            "paired differences, and where the middle 50 and 90 % of them lie: the same luck in both arms, so what is "
            f"left is the policy and what it sets in motion. From trend_week.parquet, {weeks.seeds()}.",
            _ends(paired, _PRICE, "USD per GPU-hour", "median difference"),
        )


def _defined(contrasts: Sequence[Contrast]) -> str:
    return "; ".join(f"{contrast.name} = {difference_of(contrast)}" for contrast in contrasts)


def _ends(values: pl.DataFrame, axis: Axis, unit: str, measure: str = "mean") -> str:
    """What the lines of a figure end at, for a reader who hears it."""
    last = values.filter(pl.col("week") == values["week"].max())
    middle = pl.mean("value") if measure == "mean" else pl.median("value")
    ends = last.group_by("panel", "line", maintain_order=True).agg(middle)
    said = [f"{panel}, {line}: {number(value * axis.factor, 3)}" for panel, line, value in ends.rows()]
    return f"Lines by week. In week {last['week'][0]} the {measure} in {unit} is: {'; '.join(said)}."


# ------------------------------------------------------------------------------------------------ the others


def _spread(weeks: Weeks) -> Iterator[Drawing]:
    values = weeks.of("price_cv", "sku", weeks.skus)
    skus = _present(values, weeks.skus)
    if skus:
        yield Drawing(
            "dispersion",
            "Spread of prices",
            plots.paths(values, weeks.arms, skus, _CV, weeks.level),
            "Spread of list prices across neoclouds and marketplaces by week (standard deviation over mean, each "
            f"seller counted once; outcome price_cv): {_band(weeks)}.{_below(weeks)} Where it falls, prices converge. "
            f"{weeks.source()}",
            _ends(values, _CV, "standard deviation over mean"),
        )


def _margins(weeks: Weeks, metric: str) -> Iterator[Drawing]:
    in_title = dict(zip(TREND_CLASSES, map(sellers, TREND_CLASSES), strict=True))
    values = weeks.of(metric, "provider_class", TREND_CLASSES).with_columns(pl.col("panel").replace(in_title))
    if shown := _present(values, list(in_title.values())):
        axis = _PERCENT[metric]
        name = axis.name.partition(",")[0]
        yield Drawing(
            metric,
            f"{name[0].upper()}{name[1:]}",
            plots.paths(values, weeks.arms, shown, axis, weeks.level),
            f"{name[0].upper()}{name[1:]} by week and class of seller, from the sellers' books (outcome {metric}): "
            f"{_band(weeks)}.{_below(weeks)} Scales differ. {weeks.source()}",
            _ends(values, axis, "percent"),
        )


def _shares(weeks: Weeks) -> Iterator[Drawing]:
    titles = {"amd_hour_share": "of GPU-hours", "amd_spend_share": "of spending"}
    found = [
        weeks.of(metric, "provider_class", ["all"]).with_columns(panel=pl.lit(title))
        for metric, title in titles.items()
    ]
    values = pl.concat(found)
    shown = _present(values, list(titles.values()))
    if shown:
        axis = _PERCENT["amd_hour_share"]
        yield Drawing(
            "amd_share",
            "AMD's share",
            plots.paths(values, weeks.arms, shown, axis, weeks.level),
            f"AMD's share of what end tenants rent and of what they pay, by week, hyperscalers and the Developer Cloud "
            f"included (outcomes amd_hour_share, amd_spend_share): {_band(weeks)}.{_below(weeks)} {weeks.source()}",
            _ends(values, axis, "percent"),
        )


def _failures(weeks: Weeks) -> Iterator[Drawing]:
    in_title = dict(zip(TREND_CLASSES, map(sellers, TREND_CLASSES), strict=True))
    values = weeks.of("defaults_to_date", "provider_class", TREND_CLASSES)
    failed = set(values.filter(pl.col("value") > 0)["panel"])
    shown = [name for name in in_title if name in failed]
    if shown:
        values = values.with_columns(pl.col("panel").replace(in_title))
        yield Drawing(
            "failures",
            "Sellers that have failed",
            plots.paths(values, weeks.arms, [in_title[name] for name in shown], _FAILED, weeks.level),
            f"Sellers that have failed by week and class (outcome defaults, counted from the opening): {_band(weeks)}."
            f"{_below(weeks)} A class without a failure is left out; scales differ. {weeks.source()}",
            _ends(values.filter(pl.col("panel").is_in([in_title[name] for name in shown])), _FAILED, "sellers"),
        )


def flow_in_words(results: Results, arm: str) -> pl.DataFrame:
    """Flow of money in an arm, mean over seeds: ``payer``, ``payee``, ``meaning``, ``usd_bn``, largest first."""
    runs = results.runs.filter(pl.col("status") == "ok", pl.col("arm") == arm)
    flows = results.scan("flow_total").filter(pl.col("run").is_in(runs["id"].implode())).collect(engine="streaming")
    keys = ["payer_kind", "payee_kind", "reason"]
    # A run without a flow counts as one of nothing: the mean is over all runs of the arm.
    means = flows.sort(*keys, "run").group_by(keys, maintain_order=True).agg(pl.sum("usd") / max(1, len(runs)) / 1e9)
    reasons = {reason: kind.meaning for reason, kind in ENTRY_TYPES.items()}
    return means.select(
        pl.col("payer_kind").replace(_KINDS).alias("payer"),
        pl.col("payee_kind").replace(_KINDS).alias("payee"),
        pl.col("reason").replace(reasons).alias("meaning"),
        pl.col("usd").alias("usd_bn"),
    ).sort("usd_bn", "payer", "payee", "meaning", descending=[True, False, False, False])


def flow_arm(weeks: Weeks) -> str:
    """The arm whose flow of money is drawn: that of the first contrast."""
    return weeks.contrasts[0].arm if weeks.contrasts else weeks.arms[0]


def _money(weeks: Weeks) -> Iterator[Drawing]:
    arm = flow_arm(weeks)
    flows = flow_in_words(weeks.results, arm)
    if flows.is_empty():
        return
    seeds = weeks.runs.filter(pl.col("arm") == arm)["seed"].sort().to_list()
    kinds = [kind for kind in _KINDS.values() if kind in {*flows["payer"], *flows["payee"]}]
    largest = [
        f"{payer} to {payee} ({meaning}) {number(usd, 2)}" for payer, payee, meaning, usd in flows.head(5).rows()
    ]
    yield Drawing(
        MONEY,
        "Who paid whom",
        plots.money_flow(flows, kinds, arm, len(seeds)),
        f"Who paid whom in arm {arm} over the whole run, USD billion, mean of {seed_range(seeds)}: rows pay, "
        "columns receive; on the right the largest flows with their reasons. Every payment is in it once, so that "
        "what a kind of agent receives less what it pays is the change of its cash (table below). "
        f"From flow_total.parquet, {seed_range(seeds)}.",
        f"A map of payers and payees. The largest flows in USD billion: {'; '.join(largest)}.",
    )


# ------------------------------------------------------------------------------------------------ effects


def _effects(weeks: Weeks) -> Iterator[Drawing]:
    """Of the first outcome of each table of the screen."""
    screens = weeks.results.plan.screens or DEFAULT_SCREENS
    chosen = [(screen.metrics[0], Numbers(weeks.results, screen.window)) for screen in screens]
    yield from _effects_of(weeks, chosen)


def effects_drawing(results: Results, metrics: Sequence[str], window: Window) -> Drawing:
    """What each contrast does to outcomes, with intervals.

    Args:
        results: of the experiment.
        metrics: display names of outcomes.
        window: the weeks.

    Raises:
        ScenarioError: see `experiments.api.Results.effects_figure`.
    """
    numbers = _measured(results, metrics, window)
    found = next(_effects_of(Weeks(results, numbers), [(metric, numbers) for metric in metrics]), None)
    if found is None:
        raise ScenarioError(
            f"effects of {', '.join(metrics) or 'no outcome'}: {results.out} holds none; compare two arms"
        )
    return found


def effects_rows(results: Results, metrics: Sequence[str], window: Window) -> pl.DataFrame:
    """A row to an outcome and contrast; arguments and errors as in `effects_drawing`."""
    numbers = _measured(results, metrics, window)
    columns = ["metric", "unit", "contrast", "difference", "low", "high", "pairs", "reason"]
    rows = [
        {**row, "metric": metric}
        for metric in metrics
        for contrast in numbers.contrasts
        if (row := numbers.effect(contrast.name, metric))
    ]
    return pl.DataFrame(rows, schema={name: EFFECTS_SCHEMA[name] for name in columns})


def _measured(results: Results, metrics: Sequence[str], window: Window) -> Numbers:
    """The numbers of a window, once all outcomes asked for are among them."""
    windows = get_args(Window)
    if window not in windows:
        raise ScenarioError(f"window {window!r}; allowed: {', '.join(windows)}{nearest(window, windows)}")
    numbers = Numbers(results, window)
    known = numbers.measured()
    for metric in metrics:
        if metric not in known:
            raise ScenarioError(f"no outcome {metric!r} in these results{nearest(metric, known)}")
    return numbers


def _effects_of(weeks: Weeks, chosen: Sequence[tuple[str, Numbers]]) -> Iterator[Drawing]:
    """A drawing of the contrasts with a column of their own; none where nothing is compared."""
    panels = {metric: _effect_rows(numbers, metric) for metric, numbers in chosen}
    panels = {metric: panel for metric, panel in panels.items() if panel.rows.height}
    if not panels:
        return
    numbers = chosen[0][1]
    seeds = weeks.runs["seed"].n_unique()
    windows = dict.fromkeys(f"{first} to {last}" for first, last in (found.weeks for _, found in chosen))
    yield Drawing(
        "effects",
        "What each contrast does",
        plots.dots(list(panels.values()), [contrast.name for contrast in numbers.contrasts], weeks.level, seeds),
        f"Paired differences, seed by seed: {_defined(numbers.contrasts)}. Dots are means, bars "
        f"{100 * weeks.level:g} % t intervals; where a bar crosses zero, luck can explain the difference. "
        f"Weeks {listed(list(windows))}; scales differ. From effects.csv, {weeks.seeds()}.",
        "; ".join(_effects_said(found, metric) for metric, found in chosen if metric in panels) + ".",
    )


def _effect_rows(numbers: Numbers, metric: str) -> plots.Dots:
    """Effects of all contrasts on a metric, in the unit in which they are shown."""
    found = [(contrast.name, numbers.effect(contrast.name, metric)) for contrast in numbers.contrasts]
    rows = [(name, row) for name, row in found if row is not None and row["difference"] is not None]
    factor, _, unit = (
        scale(metric, rows[0][1]["unit"], [row["difference"] for _, row in rows]) if rows else (1.0, 0, "")
    )
    values = [(name, *(_times(row[key], factor) for key in ("difference", "low", "high"))) for name, row in rows]
    named = f"{label(metric)}, {'points' if unit == '%' else unit}" if unit else label(metric)
    return plots.Dots(pl.DataFrame(values, schema=plots.DOTS, orient="row"), named)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _effects_said(numbers: Numbers, metric: str) -> str:
    rows = [(contrast.name, numbers.effect(contrast.name, metric)) for contrast in numbers.contrasts]
    known = [(name, row) for name, row in rows if row is not None and row["difference"] is not None]
    factor, decimals, unit = scale(metric, known[0][1]["unit"], [row["difference"] for _, row in known])
    said = [f"{name} {with_interval(row, factor, decimals)}" for name, row in known]
    return f"{label(metric)} in {'points' if unit == '%' else unit or 'its unit'}: {', '.join(said)}"


_MAKERS: dict[str, Callable[[Weeks], Iterator[Drawing]]] = {
    "price_paths": _price_paths,
    "price_fans": _price_fans,
    "price_difference_fans": _price_differences,
    "dispersion": _spread,
    "ebitda_margin": partial(_margins, metric="ebitda_margin"),
    "operating_margin": partial(_margins, metric="operating_margin"),
    "failures": _failures,
    "amd_share": _shares,
    "effects": _effects,
    MONEY: _money,
}
"""What draws each figure, in the order of the report; it gives none where there is nothing to show."""
