"""The recorded tables of one run as dense arrays, and the shape of what is measured from them.

A table becomes a `Panel`: week × series, NaN where a series has no row. NaN stays inside: `cell` turns what is
undefined into null with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = [
    "HEADLINE",
    "OUTCOME_SCHEMA",
    "Bools",
    "Cell",
    "Floats",
    "Panel",
    "Records",
    "Window",
    "cell",
    "mean_over_weeks",
    "members",
    "ratio",
    "windows",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Strings = NDArray[np.str_]
_T = TypeVar("_T")

OUTCOME_SCHEMA: dict[str, pl.DataType] = {
    "metric": pl.String(),
    "vendor": pl.String(),
    "sku": pl.String(),
    "segment": pl.String(),
    "provider_class": pl.String(),
    "window_first": pl.Int32(),
    "window_last": pl.Int32(),
    "value": pl.Float64(),
    "std_error": pl.Float64(),
    "reason": pl.String(),
}
"""Columns of the outcomes of one run; ``all`` where a dimension is not split. A null value has a reason."""

HEADLINE = "neocloud+marketplace"
"""Class of the headline: the sellers whose prices move; hyperscalers stand beside it in ``all``."""

YEAR_WEEKS = 52
LAST_WEEKS = 26


class Window(NamedTuple):
    """Weeks ``first`` to ``last``, both included."""

    first: int
    last: int

    @property
    def rows(self) -> slice:
        """Rows of a panel; row 0 is the opening state."""
        return slice(self.first, self.last + 1)

    @property
    def weeks(self) -> int:
        """Number of weeks."""
        return self.last - self.first + 1


def windows(weeks: int) -> list[Window]:
    """Year one, the last 26 weeks and the whole run, without repetitions.

    Raises:
        ValueError: no week was stepped.
    """
    if weeks < 1:
        raise ValueError(f"outcomes need at least one week, not {weeks}")
    year_one, whole = Window(1, min(YEAR_WEEKS, weeks)), Window(1, weeks)
    return list(dict.fromkeys((year_one, Window(max(1, weeks - LAST_WEEKS + 1), weeks), whole)))


class Cell(NamedTuple):
    """One measured number with its dimensions; ``value`` is null exactly where ``reason`` is not."""

    value: float | None
    std_error: float | None
    reason: str | None
    vendor: str
    sku: str
    segment: str
    provider_class: str


def cell(
    value: float,
    reason: str,
    std_error: float = np.nan,
    *,
    vendor: str = "all",
    sku: str = "all",
    segment: str = "all",
    provider_class: str = "all",
) -> Cell:
    """A cell; a value that is not finite becomes null with ``reason``."""
    if not isfinite(value):
        return Cell(None, None, reason, vendor, sku, segment, provider_class)
    error = float(std_error) if isfinite(std_error) else None
    return Cell(float(value), error, None, vendor, sku, segment, provider_class)


def ratio(numerator: Any, denominator: Any) -> Floats:
    """Elementwise quotient, NaN where the denominator is not positive."""
    bottom = np.asarray(denominator, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = np.where(bottom > 0.0, np.asarray(numerator, float) / bottom, np.nan)
    return quotient


def mean_over_weeks(values: Floats) -> Floats:
    """Mean along the first axis over the weeks that have a value, NaN where none has."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0))


@dataclass(frozen=True)
class Panel:
    """A recorded table by week and series.

    Attributes:
        labels: text columns of each series (as first recorded), ``(series,)``.
        values: number columns, NaN without a row, ``(weeks + 1, series)``.
    """

    labels: dict[str, Strings]
    values: dict[str, Floats]

    def __getitem__(self, column: str) -> Floats:
        """A number column, ``(weeks + 1, series)``, NaN where there is no row."""
        return self.values[column]

    def known(self, column: str) -> Floats:
        """The same with 0 where there is no row: what a seller without GPUs rents out."""
        return np.nan_to_num(self.values[column], nan=0.0)

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame, keys: Sequence[str], weeks: int) -> Panel:
        """The table ``name`` up to week ``weeks``, a series for each combination of ``keys``, sorted by them.

        Raises:
            ValueError: two rows for one week and series.
        """
        frame = frame.filter(pl.col("week").is_between(0, weeks)).sort(*keys, "week")
        series = frame.select(pl.struct(keys).rle_id()).to_series().to_numpy().astype(np.intp)
        week = frame["week"].to_numpy().astype(np.intp)
        starts = np.flatnonzero(np.diff(series, prepend=-1))
        if len(np.unique(series * (weeks + 1) + week)) < len(frame):
            raise ValueError(f"{name}: two rows for one week and {', '.join(keys)}")
        heads = frame[starts].select(pl.selectors.string())
        numbers = frame.select(pl.selectors.numeric() | pl.selectors.boolean()).drop("week").cast(pl.Float64)
        dense = np.full((numbers.width, weeks + 1, len(starts)), np.nan)
        dense[:, week, series] = numbers.to_numpy().T
        labels = {text: heads[text].to_numpy().astype(np.str_) for text in heads.columns}
        return cls(labels, dict(zip(numbers.columns, dense, strict=True)))


@dataclass(frozen=True)
class Records:
    """The recorded tables of a run, ready to measure.

    Attributes:
        weeks: weeks stepped; week 0 is the opening state.
        lots: ``seller_week``, a series per SKU and seller, SKU by SKU.
        books: ``book_week``, a series per agent.
        segments: ``segment_week``, a series per segment.
        market: ``market_week``, a series per SKU.
        desks: ``desk_week``, a series per desk and SKU.
        failures: ``default_week``, a row per default.
        loans: ``loan_week``, a row per loan drawn.
        memory: intermediate results shared by several outcomes.
    """

    weeks: int
    lots: Panel
    books: Panel
    segments: Panel
    market: Panel
    desks: Panel
    failures: pl.DataFrame
    loans: pl.DataFrame
    memory: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, tables: Mapping[str, pl.DataFrame], weeks: int) -> Records:
        """Arrays of the recorded ``tables``.

        Raises:
            ValueError: sellers' records end before week ``weeks``, or a table has a row twice.
        """
        recorded = tables["seller_week"]["week"]
        if not (recorded >= weeks).any():
            raise ValueError(f"seller_week ends at week {recorded.max()!r}, not {weeks}")
        keys = {
            "seller_week": ("sku", "seller"),
            "book_week": ("agent",),
            "segment_week": ("segment",),
            "market_week": ("sku",),
            "desk_week": ("desk", "sku"),
        }
        lots, books, segments, market, desks = (Panel.of(name, tables[name], by, weeks) for name, by in keys.items())
        return cls(weeks, lots, books, segments, market, desks, tables["default_week"], tables["loan_week"])

    def once(self, key: Hashable, compute: Callable[[], _T]) -> _T:
        """``compute()`` the first time ``key`` is asked for, the same result afterwards."""
        if key not in self.memory:
            self.memory[key] = compute()
        result: _T = self.memory[key]
        return result

    @property
    def skus(self) -> list[str]:
        """Names of the SKUs with a lot, sorted; the order of the SKU axis."""
        return self.once("skus", lambda: np.unique(self.lots.labels["sku"]).tolist())

    @property
    def sku_starts(self) -> NDArray[np.intp]:
        """First series of each SKU, ``(skus,)``."""
        return self.once("starts", lambda: np.searchsorted(self.lots.labels["sku"], self.skus))

    @property
    def sku_of(self) -> NDArray[np.intp]:
        """SKU of each series, ``(series,)``."""
        return self.once("of", lambda: np.searchsorted(np.asarray(self.skus), self.lots.labels["sku"]))

    def by_sku(self, values: Floats) -> Floats:
        """Sums over the sellers of each SKU, ``(…, series)`` to ``(…, skus)``."""
        return np.asarray(np.add.reduceat(values, self.sku_starts, axis=-1))

    def in_class(self, provider_class: str) -> Bools:
        """Lots of a class, ``(series,)``."""
        labels = self.lots.labels
        return self.once(
            ("lots", provider_class),
            lambda: members(provider_class, labels["seller"], labels["provider_class"], labels["heavy"], self.largest),
        )

    def agents_in(self, provider_class: str) -> Bools:
        """Agents of a class, ``(agents,)``."""
        labels = self.books.labels
        return self.once(
            ("books", provider_class),
            lambda: members(provider_class, labels["agent"], labels["provider_class"], labels["heavy"], self.largest),
        )

    @property
    def largest(self) -> str:
        """The neocloud with the most GPUs at the opening, blank if there is none."""
        return self.once("largest", self._largest)

    def _largest(self) -> str:
        neocloud = self.lots.labels["provider_class"] == "neocloud"
        names, owner = np.unique(self.lots.labels["seller"][neocloud], return_inverse=True)
        fleets = np.bincount(owner, self.lots.known("installed_gpus")[0, neocloud], len(names))
        return str(names[np.argmax(fleets)]) if len(names) else ""

    def sku_cells(
        self, provider_class: str, values: Floats, reason: str, std_errors: Floats | None = None
    ) -> Iterator[Cell]:
        """A cell for each SKU that the class ever holds, from ``values`` in the order of `skus`."""
        errors = np.full(len(self.skus), np.nan) if std_errors is None else std_errors
        for k, sku, vendor in self.once(("held", provider_class), lambda: self._held(provider_class)):
            yield cell(values[k], reason, errors[k], vendor=vendor, sku=sku, provider_class=provider_class)

    def _held(self, provider_class: str) -> list[tuple[int, str, str]]:
        """Place, name and vendor of the SKUs that a class ever holds."""
        held = self.by_sku(self.in_class(provider_class).astype(float)) > 0.0
        vendors = self.lots.labels["vendor"][self.sku_starts]
        return [(int(k), self.skus[k], str(vendors[k])) for k in np.flatnonzero(held)]


def members(provider_class: str, names: Strings, kinds: Strings, heavy: Strings, largest: str = "") -> Bools:
    """Which of the named sellers belong to a class.

    ``all`` is every seller and never a vendor's desk; classes joined by ``+`` are united; after a space stands a part:
    ``amd-heavy``, ``nvidia-heavy`` (at least half of the opening GPUs are AMD, or not) or ``largest``.
    """
    united, _, part = provider_class.partition(" ")
    inside = np.isin(kinds, ["hyperscaler", "neocloud", "marketplace"] if united == "all" else united.split("+"))
    if part == "largest":
        return np.asarray(inside & (names == largest))
    return np.asarray(inside & (heavy == part.removesuffix("-heavy"))) if part else np.asarray(inside)
