"""Results in words and short numbers, the same on the screen and in the report: names, scales, sentences, cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from experiments.engine.plan import Contrast, Plan, Screen, Window
from experiments.measure.passthrough import PASS_THROUGH, POSTED
from experiments.measure.records import LAST_WEEKS, YEAR_WEEKS
from experiments.measure.stats import display_name

if TYPE_CHECKING:
    from experiments.api import Results

__all__ = [
    "DEFAULT_SCREENS",
    "Numbers",
    "assumption_sentence",
    "bounds",
    "cap_sentence",
    "carried",
    "cells",
    "difference_of",
    "extent",
    "headings",
    "headline",
    "in_words",
    "label",
    "level_sentence",
    "listed",
    "noun",
    "number",
    "passed_on",
    "range_sentence",
    "riders",
    "says",
    "scale",
    "sellers",
    "sentence",
    "skus_of",
    "titled",
    "with_interval",
    "with_range",
]

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
    "price_realised": "the price paid",
    PASS_THROUGH: "the change of what leases pay over that of list prices",
    "price_cv": "the spread of list prices",
    "price_cv_balanced": "the spread among the same sellers",
    "price_range": "the dearest over the cheapest list price",
    "price_premium_share": "the stable part of the spread",
    "law_of_one_price_gap": "the gap to the cheapest open offer",
    "sigma_trend": "the trend of the spread, sigma",
    "beta": "the catch-up of prices, beta",
    "beta_within": "the catch-up to the own premium, beta",
    "half_life": "the half-life of a price gap",
    "operating_margin": "the operating margin",
    "operating_margin_cohort": "the operating margin of the opening cohort",
    "operating_margin_survivors": "the operating margin of survivors",
    "operating_margin_trend": "the trend of the operating margin",
    "ebitda_margin": "the EBITDA margin",
    "ebitda_margin_trend": "the trend of the EBITDA margin",
    "lerner_margin": "the margin over running cost",
    "lerner_margin_trend": "the trend of the margin over running cost",
    "net_margin": "the net margin",
    "utilisation": "the utilisation",
    "defaults": "the number of defaults",
    "default_rate": "the share of sellers that fail",
    "unmet_share": "the share of work turned away",
    "tenant_surplus": "tenants' surplus",
    "hhi_seller": "the concentration of sellers, HHI",
    "hhi_vendor": "the concentration of vendors, HHI",
    "loss_given_default": "the loss given default",
    "pool_hour_share": "the pool's share of GPU-hours",
    "pool_participation": "the part of GPUs whose owners joined the pool",
    "switching_rate": "the rate of switching",
    "vendor_net_cost": "the vendor's net cost",
    "vendor_hardware_sales": "the vendor's sales of GPUs",
    "amd_hour_share": "AMD's share of GPU-hours",
    "amd_spend_share": "AMD's share of spending",
    "amd_unit_share": "AMD's share of installed GPUs",
    "amd_shipment_share": "AMD's share of deliveries",
    "amd_new_work_share": "AMD's share of new work",
    "developer_cloud_hours": "hours of the Developer Cloud",
    "developer_cloud_fill": "share of the cap sold",
}
_SELLERS = {
    "neocloud": "neoclouds",
    "neocloud amd-heavy": "AMD-heavy neoclouds",
    "neocloud nvidia-heavy": "Nvidia-heavy neoclouds",
    "hyperscaler": "hyperscalers",
}


def sellers(provider_class: str) -> str:
    """A class of sellers as people write it: ``AMD-heavy neoclouds``."""
    return _SELLERS.get(provider_class, provider_class)


def skus_of(screens: Sequence[Screen]) -> list[str]:
    """SKUs whose prices the tables show, in their order."""
    shown = [metric for screen in screens or DEFAULT_SCREENS for metric in screen.metrics]
    found = [sku for metric in shown for sku in re.findall(r"^price_\w+\[(\w+)\]$", metric)]
    return list(dict.fromkeys(found)) or skus_of(DEFAULT_SCREENS)


def in_words(metric: str) -> str:
    """A display name in a sentence: ``price_mean[MI300X]`` is ``the mean list price of MI300X``."""
    words, parts = _parts(metric)
    named = [sellers(part) for part in parts]
    return f"{words} of {', '.join(named)}" if named else words


def label(metric: str) -> str:
    """The same at the side of a table."""
    words, parts = _parts(metric)
    return ", ".join([words.removeprefix("the "), *(sellers(part).removesuffix(" neoclouds") for part in parts)])


def _parts(metric: str) -> tuple[str, list[str]]:
    """Words of a metric, and what it is split by."""
    name, _, dimensions = metric.removesuffix("]").partition("[")
    return _WORDS.get(name, name.replace("_", " ")), [part for part in dimensions.split(", ") if part]


class Numbers:
    """Summary and effects of some weeks by display name, ready to be shown.

    Args:
        results: of the experiment.
        window: the weeks.
    """

    def __init__(self, results: Results, window: Window = "year one") -> None:
        self.plan: Plan = results.plan
        self.contrasts = results.plan.shown_contrasts()
        self.arms = results.plan.shown_arms()
        self._results = results
        length = min(arm.scenario.weeks for arm in self.plan.arms)
        last = min(YEAR_WEEKS, length) if window == "year one" else length
        self.weeks = (max(1, length - LAST_WEEKS + 1) if window == "last half-year" else 1, last)

    def of(self, screen: Screen) -> Numbers:
        """The numbers that a table shows."""
        return Numbers(self._results, screen.window)

    @cached_property
    def _summary(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(row["arm"], row["shown"]): row for row in self._rows(self._results.shown_summary)}

    @cached_property
    def _effects(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(row["contrast"], row["shown"]): row for row in self._rows(self._results.shown_effects)}

    def _rows(self, frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
        first, last = self.weeks
        window = frame.filter(pl.col("window_first") == first, pl.col("window_last") == last)
        for row in window.iter_rows(named=True):
            name = display_name(row["metric"], row["sku"], row["segment"], row["provider_class"], row["vendor"])
            yield {**row, "shown": name}

    def mean(self, arm: str, metric: str) -> dict[str, Any] | None:
        """Row of the summary."""
        return self._summary.get((arm, metric))

    def effect(self, contrast: str, metric: str) -> dict[str, Any] | None:
        """Row of the effects."""
        return self._effects.get((contrast, metric))

    def measured(self) -> list[str]:
        """Display names of what was measured in these weeks, in single arms or of two."""
        return list(dict.fromkeys(metric for _, metric in (*self._summary, *self._effects)))


# ------------------------------------------------------------------------------------------------ numbers in words


def scale(metric: str, unit: str, sizes: Sequence[float]) -> tuple[float, int, str]:
    """Factor, decimals and unit in which numbers are shown: shares and margins in percent, large sums in millions."""
    if unit == "1":
        is_share = any(word in metric for word in ("share", "margin", "fill", "utilisation", PASS_THROUGH))
        return (100.0, 2, "%") if is_share else (1.0, 3, "")
    if unit in ("GPU-h", "H100e-h", "USD") and max(map(abs, sizes), default=0.0) >= 1e4:
        return 1e-6, 3, f"million {unit}"
    return 1.0, 3, unit


def number(value: float, decimals: int, *, sign: bool = False) -> str:
    """A number as people read it: thousands apart, a true minus."""
    text = f"{value:+,.{decimals}f}" if sign else f"{value:,.{decimals}f}"
    return text.replace("-", "−")


def with_interval(row: Mapping[str, Any] | None, factor: float, decimals: int, between: str = " ") -> str:
    """``+0.012 [−0.003, 0.027]`` from a row of effects; ``-`` without a value."""
    if row is None or row["difference"] is None:
        return "-"
    found = number(row["difference"] * factor, decimals, sign=row.get("metric") != PASS_THROUGH)
    return found if row["low"] is None else f"{found}{between}{bounds(row, factor, decimals)}"


def with_range(row: Mapping[str, Any] | None, factor: float, decimals: int) -> str:
    """``−0.081 to 0.014 over 32 draws``: the range of an effect over outer draws; blank without."""
    if row is None or row.get("range_low") is None:
        return ""
    low, high = (number(row[end] * factor, decimals) for end in ("range_low", "range_high"))
    return f"{low} to {high} over {row['draws']} draws"


def range_sentence(numbers: Numbers, contrast: Contrast, metric: str) -> str:
    """How far an effect moves over the uncertain parameters; blank where none were drawn."""
    row = numbers.effect(contrast.name, metric)
    if row is None or row.get("range_low") is None:
        return ""
    factor, decimals, unit = scale(metric, row["unit"], [row["range_low"], row["range_high"]])
    low, high = (number(row[end] * factor, decimals) for end in ("range_low", "range_high"))
    return f"over {row['draws']} draws of the uncertain parameters it ranges {_in_unit(f'from {low} to {high}', unit)}"


def bounds(row: Mapping[str, Any], factor: float, decimals: int) -> str:
    """``[−0.003, 0.027]`` from a row that has an interval."""
    return f"[{number(row['low'] * factor, decimals)}, {number(row['high'] * factor, decimals)}]"


def _in_unit(found: str, unit: str) -> str:
    """A difference with its unit; differences of percentages are points."""
    return f"{found} {'points' if unit == '%' else unit}".rstrip()


def distinguishable(row: Mapping[str, Any] | None) -> bool:
    """Whether the interval of an effect leaves out zero."""
    return row is not None and row["low"] is not None and (row["low"] > 0 or row["high"] < 0)


_KINDS_OF_EFFECT = ("total", "net", "direct", "indirect")


def noun(contrast: Contrast) -> str:
    """A contrast in a sentence: ``price effect (anchor off)``, ``total effect``, ``effect of contrast 'fee cap'``."""
    name, _, part = contrast.name.partition(", ")
    if not _is_an_effect(contrast):
        return f"effect of contrast '{contrast.name}'"
    named = f"{name} effect" if name in _KINDS_OF_EFFECT else name
    return f"{named} ({part})" if part else named


def _is_an_effect(contrast: Contrast) -> bool:
    """Whether its name says so; any other name (that of a scenario, say) is only quoted."""
    name = contrast.name.partition(", ")[0]
    return "effect" in name.split() or name in _KINDS_OF_EFFECT


def _actor(contrast: Contrast) -> str:
    """A contrast that does something: ``The price effect``, ``Contrast 'fee cap'``."""
    return f"The {noun(contrast)}" if _is_an_effect(contrast) else f"Contrast '{contrast.name}'"


def sentence(numbers: Numbers, contrast: Contrast, metric: str) -> str:
    """What a contrast does to a metric, in one sentence that claims no more than the interval does."""
    row = numbers.effect(contrast.name, metric)
    name = in_words(metric)
    if metric.startswith(PASS_THROUGH) and row is not None:
        return _part_sentence(row, contrast, metric)
    if row is None or row["difference"] is None:
        reason = row["reason"] if row is not None else "not measured"
        return f"The {noun(contrast)} on {name} is undefined: {reason}."
    factor, decimals, unit = scale(metric, row["unit"], [row["difference"]])
    found = _in_unit(with_interval(row, factor, decimals), unit)
    if row["low"] is None:
        return f"The {noun(contrast)} on {name} is {found}; an interval needs two seeds or more."
    level = f"{100 * row['level']:g} % interval, {row['pairs']} seeds"
    if row["low"] == row["high"] == 0:
        return f"{_actor(contrast)} leaves {name} exactly as it is in all {row['pairs']} seeds."
    if not distinguishable(row):
        return f"No {noun(contrast)} on {name} distinguishable from zero: {found} ({level})."
    verb = "raises" if row["difference"] > 0 else "lowers"
    return f"{_actor(contrast)} {verb} {name}: {found} ({level})."


def _part_sentence(row: Mapping[str, Any], contrast: Contrast, metric: str) -> str:
    """How far what leases pay follows an effect on list prices, in one sentence: a ratio neither rises nor falls."""
    effect = f"the {noun(contrast)} on {in_words(metric.replace(PASS_THROUGH, POSTED, 1))}"
    if row["difference"] is None:
        return f"By how much of {effect} what leases pay moves is undefined: {row['reason']}."
    level = f"{100 * row['level']:g} % interval, {row['pairs']} seeds"
    return f"What leases pay moves by {_part(row)} of {effect} ({level})."


def _part(row: Mapping[str, Any]) -> str:
    """``17 % [9, 25]``: a part of a whole with its interval."""
    return f"{number(100 * row['difference'], 0)} % {bounds(row, 100.0, 0)}"


def passed_on(numbers: Numbers, contrast: Contrast, metric: str) -> str:
    """By which part of an effect on list prices what leases pay moves; blank for anything else, or without a part."""
    row = numbers.effect(contrast.name, metric.replace(POSTED, PASS_THROUGH, 1))
    if not metric.startswith(f"{POSTED}[") or row is None or row["difference"] is None:
        return ""
    return f"what leases pay moves by {_part(row)} of it"


def level_sentence(numbers: Numbers, arm: str, metric: str) -> str:
    """What a metric comes to in an arm, in one sentence."""
    row, name = numbers.mean(arm, metric), in_words(metric)
    head = f"{name[0].upper()}{name[1:]} in {arm}"
    if row is None or row["mean"] is None:
        return f"{head} is undefined: {row['reason'] if row is not None else 'not measured'}."
    factor, decimals, unit = scale(metric, row["unit"], [row["mean"]])
    found = number(row["mean"] * factor, decimals)
    if row["low"] is None:
        return f"{head} is {found} {unit}".rstrip() + "; an interval needs two seeds or more."
    level = f"{100 * row['level']:g} % interval, {row['runs']} seeds"
    return f"{head} is {found} {bounds(row, factor, decimals)} {unit}".rstrip() + f" ({level})."


class Carried(NamedTuple):
    """An effect with and without an assumption.

    Attributes:
        whole: the effect with its interval.
        bare: the same without the assumption.
        share: the part of the point estimate that the assumption is, in percent; blank where the estimate is 0.
        certain: whether the effect can be told from zero; if not, the share means little.
    """

    whole: str
    bare: str
    share: str
    certain: bool


def carried(numbers: Numbers, contrast: Contrast, metric: str) -> Carried | None:
    """How much of an effect an assumption carries; None where the design switches none off or nothing is measured."""
    row, without = numbers.effect(contrast.name, metric), numbers.effect(contrast.without, metric)
    if row is None or without is None or row["difference"] is None or without["difference"] is None:
        return None
    factor, decimals, unit = scale(metric, row["unit"], [row["difference"]])
    whole, bare = (_in_unit(with_interval(entry, factor, decimals), unit) for entry in (row, without))
    difference = row["difference"]
    share = f"{number(100 * (difference - without['difference']) / difference, 0)} %" if difference else ""
    return Carried(whole, bare, share, distinguishable(row))


def assumption_sentence(numbers: Numbers, contrast: Contrast, metric: str) -> str:
    """How much of an effect an assumption carries; blank where the design switches none off."""
    found = carried(numbers, contrast, metric)
    if found is None:
        return ""
    if not found.share:
        return f"without {contrast.assumption} it is {found.bare}"
    caution = "" if found.certain else ", a share of something not distinguishable from zero"
    part = f"{contrast.assumption} is {found.share} of the point estimate"
    return f"{part}{caution}; without it the effect is {found.bare}"


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
    return "; ".join([headline(numbers, screen), *riders(numbers, screen, first=first)]) + "."


def headline(numbers: Numbers, screen: Screen) -> str:
    """What the first contrast does to the first metric of a table, without a full stop."""
    return sentence(numbers, numbers.contrasts[0], screen.metrics[0]).removesuffix(".")


def riders(numbers: Numbers, screen: Screen, *, first: bool) -> list[str]:
    """What goes with a headline: its range, what leases pay of it, what an assumption carries, how the cap binds."""
    contrast, metric = numbers.contrasts[0], screen.metrics[0]
    cap = cap_sentence(numbers, contrast.arm) if first and _differ_in_the_cloud(numbers.plan, contrast) else ""
    told = (range_sentence, passed_on, assumption_sentence)
    return [rider for rider in (*(tell(numbers, contrast, metric) for tell in told), cap) if rider]


def _differ_in_the_cloud(plan: Plan, contrast: Contrast) -> bool:
    """Whether the arms of a contrast differ in what the developer cloud offers."""
    arm, base = (next(one.scenario for one in plan.arms if one.name == name) for name in (contrast.arm, contrast.base))
    return any(key.startswith("developer_cloud.") for key in arm.differences(base))


def difference_of(contrast: Contrast) -> str:
    """``offer − none``; names with a comma stand in brackets."""
    arm, base = (f"({name})" if "," in name else name for name in (contrast.arm, contrast.base))
    return f"{arm} − {base}"


def listed(names: Sequence[str]) -> str:
    """Names one after another; those that hold a comma stand in brackets."""
    return ", ".join(f"({name})" if "," in name else name for name in names)


def extent(numbers: Numbers) -> str:
    """How much was run and how intervals are made: ``5 arms x 16 seeds, weeks 1-52; 95 % t intervals ...``."""
    plan = numbers.plan
    seeds = f"{len(plan.seeds)} seeds" if len(plan.seeds) > 1 else "one seed"
    arms = f"{len(plan.arms)} arms x " if len(plan.arms) > 1 else ""
    return f"{arms}{seeds}; {100 * plan.level:g} % t intervals, paired by seed."


def titled(numbers: Numbers, screen: Screen) -> str:
    """Title of a table, with its weeks."""
    first, last = numbers.weeks
    return f"{screen.title}, weeks {first}-{last}"


def headings(numbers: Numbers) -> list[str]:
    """Heads of the columns behind the label: arms, then contrasts."""
    return [*numbers.arms, *(contrast.name for contrast in numbers.contrasts)]


def cells(numbers: Numbers, metric: str, between: str = " ") -> Iterator[str]:
    """A row of a table: label, arm means, contrasts with intervals (``between`` stands before an interval)."""
    means = [numbers.mean(arm, metric) for arm in numbers.arms]
    known = [row for row in means if row is not None]
    unit = known[0]["unit"] if known else "1" if metric.startswith(PASS_THROUGH) else ""
    factor, decimals, shown = scale(metric, unit, [row["mean"] for row in known if row["mean"] is not None])
    yield label(metric) + (f", {shown}" if shown else "")
    for row in means:
        yield "-" if row is None or row["mean"] is None else number(row["mean"] * factor, decimals)
    for contrast in numbers.contrasts:
        effect = numbers.effect(contrast.name, metric)
        parts = (with_interval(effect, factor, decimals, between), with_range(effect, factor, decimals))
        yield (between if between == "\n" else "; ").join(filter(None, parts))
