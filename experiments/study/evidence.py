"""How a claim is judged: facts with sources, checks with stated bounds, a verdict that follows from the checks alone.

What is claimed stands in ``market/data/claims.csv``, what is measured comes from tables and functions of the market.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from experiments.engine.errors import ScenarioError
from experiments.study.effects import Effect, Effects, load_effects
from market.reading import Schema, parse, read
from market.rows import SourcedRow
from market.tables import HardwareRow, Sku, Tables

if TYPE_CHECKING:
    from experiments.scenario import Scenario

__all__ = ["Check", "Claim", "Evidence", "FactRow", "Look", "Verdict", "gather", "load_facts", "verdict_of"]

Verdict = Literal["holds", "holds in part", "does not hold", "dated"]


class FactRow(SourcedRow):
    """A figure that a claim states or rests on."""

    claim: str
    quantity: str
    value: float
    unit: str


_SCHEMA = Schema(FactRow, ("claim", "quantity"))


def load_facts() -> Mapping[str, FactRow]:
    """Rows of ``claims.csv`` by ``claim.quantity``."""
    return {
        f"{entry.row.claim}.{entry.row.quantity}": entry.row for entry in parse(_SCHEMA, read("claims", _SCHEMA, None))
    }


@dataclass(frozen=True)
class Check:
    """One comparison behind a verdict.

    Attributes:
        label: what is measured.
        measured: the value.
        low: smallest value in accord with the claim; None: no bound.
        high: largest; None: no bound.
        half_width: of the value's interval, which must lie within the bounds as a whole.
        later: it speaks of a time after the claim was made.
    """

    label: str
    measured: float
    low: float | None = None
    high: float | None = None
    half_width: float = 0.0
    later: bool = False

    @property
    def agrees(self) -> bool:
        """Whether the value, with its interval, lies within the bounds."""
        above = self.low is None or self.measured - self.half_width >= self.low
        return above and (self.high is None or self.measured + self.half_width <= self.high)


def verdict_of(checks: Sequence[Check]) -> Verdict:
    """What checks add up to.

    *dated*: all checks of the time of the claim agree, some later one does not; *holds*: all agree; *does not hold*:
    none does; *holds in part*: the rest.
    """
    then = [check.agrees for check in checks if not check.later]
    agree = [check.agrees for check in checks]
    if all(agree):
        return "holds"
    if then and all(then):
        return "dated"
    return "holds in part" if any(agree) else "does not hold"


@dataclass(frozen=True)
class Claim:
    """A claim of the source article beside what the project's own tables give.

    Attributes:
        name: short, for commands.
        claim: what is claimed, in our words.
        claimed: the figure; None where only a direction is claimed.
        measured: the figure that answers it, in the same unit.
        unit: of both.
        why: what the verdict rests on, from the numbers.
        checks: every comparison, with its bounds.
        sources: addresses of the facts used.
    """

    name: str
    claim: str
    claimed: float | None
    measured: float
    unit: str
    why: str
    checks: tuple[Check, ...]
    sources: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Follows from the checks."""
        return verdict_of(self.checks)


@dataclass(frozen=True)
class Evidence:
    """All that claims are judged by."""

    scenario: Scenario
    tables: Tables
    facts: Mapping[str, FactRow]
    effects: Effects | None


def gather(scenario: Scenario) -> Evidence:
    """The evidence under a scenario: its tables and parameters, the facts and the kept effects."""
    return Evidence(scenario, scenario.tables(), load_facts(), load_effects())


class Look:
    """Reads evidence for one claim and remembers the sources.

    Args:
        evidence: to read.
        claim: name of the claim.
    """

    def __init__(self, evidence: Evidence, claim: str) -> None:
        self.evidence, self.name = evidence, claim
        self._sources: dict[str, None] = {}

    def _remember(self, row: SourcedRow) -> None:
        if row.source.startswith("http"):
            self._sources.setdefault(row.source)

    def fact(self, quantity: str) -> float:
        """A figure of this claim."""
        row = self.evidence.facts[f"{self.name}.{quantity}"]
        self._remember(row)
        return row.value

    @cached_property
    def _hardware(self) -> dict[tuple[str, str], list[HardwareRow]]:
        rows: dict[tuple[str, str], list[HardwareRow]] = {}
        for row in self.evidence.tables.hardware:
            rows.setdefault((row.sku, row.quantity), []).append(row)
        return rows

    def figures(self, sku: str, quantity: str, *, used: bool) -> list[float]:
        """Figures of a chip, the earliest first: the one in use, or those kept for comparison."""
        rows = [row for row in self._hardware.get((sku, quantity), []) if row.used is used and row.value]
        if not rows:
            kind = "in use" if used else "for comparison"
            raise ScenarioError(f"claim {self.name}: table hardware has no {quantity} of {sku} {kind}")
        for row in rows:
            self._remember(row)
        return [float(row.value) for row in sorted(rows, key=lambda row: row.as_of)]

    def figure(self, sku: str, quantity: str) -> float:
        """The figure of a chip that is in use."""
        return self.figures(sku, quantity, used=True)[0]

    def sku(self, name: str) -> Sku:
        """A chip of the tables."""
        tables = self.evidence.tables
        if name not in tables.sku_index:
            raise ScenarioError(f"claim {self.name}: table hardware has no {name}")
        return tables.skus[tables.sku_index[name]]

    def effect(self, contrast: str, metric: str) -> Effect:
        """A simulated effect."""
        effects = self.evidence.effects
        if effects is None or (contrast, metric) not in effects.rows:
            raise ScenarioError(f"claim {self.name}: the {contrast} on {metric} was not kept")
        return effects.rows[contrast, metric]

    def claim(
        self, text: str, *, claimed: float | None, measured: float, unit: str, checks: Sequence[Check], why: str
    ) -> Claim:
        """The claim with the sources of all that was read."""
        return Claim(self.name, text, claimed, measured, unit, why, tuple(checks), tuple(self._sources))
