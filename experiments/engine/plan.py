"""A plan: which runs an experiment needs, each known by its content.

Arms × seeds → `RunSpec`. The id of a run hashes everything that decides its result (resolved scenario, seed, data
tables, sources of market/ and agents/ and of what turns a run into stored numbers), so that a finished run is found
again wherever it stands, and never mistaken for another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from experiments.engine.errors import ImpossibleError, ScenarioError

if TYPE_CHECKING:
    from experiments.scenario import Scenario

__all__ = [
    "DEFAULT_SEEDS",
    "FIRST_SEED",
    "OUTER_SEEDS",
    "Arm",
    "Contrast",
    "Plan",
    "RunSpec",
    "Screen",
    "Window",
    "make_plan",
    "seeds_from",
    "sources_digest",
    "variant",
]

DEFAULT_SEEDS = 16  # the fewest for which a t interval keeps its word on mildly skewed outcomes
FIRST_SEED = 1
OUTER_SEEDS = 4
"""Seeds of an outer draw: the first of the experiment's. Luck is taken out of the range, so a few are enough."""

Window = Literal["year one", "last half-year", "whole run"]
"""Weeks over which outcomes are measured."""

_SOURCES = ("market", "agents", "experiments/build.py", "experiments/engine/runner.py", "experiments/measure")
_ANEW = ("intervals", "outer", "passthrough", "response", "risk", "screening", "sequential", "stats")
"""Modules that compute from what is stored, each time anew."""
_NOT_STORED = tuple(f"experiments/measure/{name}.py" for name in _ANEW)


@dataclass(frozen=True)
class Arm:
    """One variant of an experiment: a name and the scenario it runs.

    Attributes:
        name: what tables call it.
        scenario: what is run; of an arm that cannot be, the scenario that it wanted to change.
        seeds: its own; none: those of the plan.
        problem: why there can be no such arm, or blank; its runs are rows with the status ``invalid``.
        asked: what such an arm wanted to set, by key.
    """

    name: str
    scenario: Scenario
    seeds: tuple[int, ...] = ()
    problem: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Every value of the arm by its dotted key."""
        return {**self.scenario.values(), **self.asked}


def variant(name: str, base: Scenario, changes: Mapping[str, Any], where: str, seeds: tuple[int, ...] = ()) -> Arm:
    """The arm that changes a scenario; values out of bounds make an arm with a problem.

    Args:
        name: of the arm.
        base: the scenario that it changes.
        changes: values by key; None leaves a key as the scenario has it.
        where: the origin of the changes, for messages.
        seeds: its own seeds.

    Raises:
        ScenarioError: an unknown key, or a value of the wrong kind.
    """
    asked = {key: value for key, value in changes.items() if value is not None}
    try:
        return Arm(name, base.with_(asked, where) if asked else base, seeds)
    except ImpossibleError as error:
        return Arm(name, base, seeds, str(error), asked)


@dataclass(frozen=True)
class Contrast:
    """A paired difference: arm minus base, seed by seed.

    Attributes:
        name: what it is called on the screen (``price effect``).
        arm: name of the arm.
        base: name of the arm subtracted.
        without: name of the same contrast with an assumption switched off, or blank.
        assumption: that assumption in words (``the assumed public anchor``).
        column: whether it has a column of its own on the screen.
    """

    name: str
    arm: str
    base: str
    without: str = ""
    assumption: str = ""
    column: bool = True


@dataclass(frozen=True)
class Screen:
    """A table on the screen.

    Attributes:
        title: what it shows.
        metrics: its rows, by their display names.
        window: the weeks it shows.
    """

    title: str
    metrics: tuple[str, ...]
    window: Window = "year one"


@dataclass(frozen=True)
class RunSpec:
    """One run to do: id, name of the first arm that needs it, scenario and seed; ``problem`` if it cannot be done."""

    id: str
    arm: str
    seed: int
    scenario: Scenario
    problem: str = ""

    @property
    def label(self) -> str:
        """For people: ``arm offer, seed 3``."""
        return f"arm {self.arm}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Arms × seeds, with the contrasts to measure and the tables to show.

    Attributes:
        name: name of the experiment.
        question: what it answers, in one sentence.
        base: the scenario that arms vary.
        arms: in the order of the tables.
        seeds: of every arm that has none of its own; differences are paired by seed.
        contrasts: paired differences; the effects.
        screens: tables on the screen; none: a choice by the program.
        level: of all intervals.
        risk: class of sellers whose defaults, losses and payouts are tabled by arm; blank: none.
        tables_digest: SHA-256 of the data tables, by arm.
        sources: SHA-256 of the program that makes the runs.
        outer: the compared arms under draws of uncertain parameters, see `experiments.uncertainty`; they run with the
            first few seeds and are shown nowhere but in the range of an effect.
    """

    name: str
    question: str
    base: Scenario
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    contrasts: tuple[Contrast, ...] = ()
    screens: tuple[Screen, ...] = ()
    level: float = 0.95
    tables_digest: Mapping[str, str] = field(default_factory=dict)
    sources: str = ""
    risk: str = ""
    outer: tuple[Arm, ...] = ()

    def rows(self) -> list[RunSpec]:
        """One per arm and seed, in the order of the plan. Arms that are the same scenario share their runs' ids."""
        outer = [spec for arm in self.outer for spec in self._specs(arm, self.seeds[:OUTER_SEEDS])]
        return [spec for arm in self.arms for spec in self._specs(arm, self.seeds)] + outer

    def _specs(self, arm: Arm, seeds: Sequence[int]) -> list[RunSpec]:
        data = self.tables_digest[arm.name] + (json.dumps(arm.asked, sort_keys=True) if arm.problem else "")
        return [
            RunSpec(run_id(arm.scenario, seed, data, self.sources), arm.name, seed, arm.scenario, arm.problem)
            for seed in arm.seeds or seeds
        ]

    def runs(self) -> list[RunSpec]:
        """The runs to do: the rows without repetitions, and without those that cannot be."""
        rows = [spec for spec in self.rows() if not spec.problem]
        return list({spec.id: spec for spec in reversed(rows)}.values())[::-1]

    def varied(self) -> list[str]:
        """Keys in which the arms differ, sorted."""
        first = self.arms[0].scenario
        return sorted({key for arm in self.arms for key in [*first.differences(arm.scenario), *arm.asked]})

    def columns(self) -> list[str]:
        """Keys in which any runs differ, draws included, sorted."""
        first = self.arms[0].scenario
        return sorted({*self.varied(), *(key for arm in self.outer for key in first.differences(arm.scenario))})

    def shown_contrasts(self) -> list[Contrast]:
        """Contrasts with a column of their own."""
        return [contrast for contrast in self.contrasts if contrast.column]

    def shown_arms(self) -> list[str]:
        """Arms with a column and a line of their own: those compared with all assumptions on; without contrasts all."""
        off = {contrast.without for contrast in self.contrasts}
        on = [contrast for contrast in self.shown_contrasts() if contrast.name not in off]
        used = {name for contrast in on for name in (contrast.arm, contrast.base)}
        return [arm.name for arm in self.arms if arm.name in used or not used]

    def record(self) -> dict[str, Any]:
        """The experiment in plain values: what ``design.toml`` stores, and what a folder is compared by."""
        return {
            "name": self.name,
            "question": self.question,
            "level": self.level,
            "seeds": list(self.seeds),
            "arms": [self._arm(arm) for arm in self.arms],
            "contrasts": [_without_blanks(vars(contrast)) for contrast in self.contrasts],
            "program": {"sources": self.sources, "tables": dict(self.tables_digest)},
            **({"outer": [self._arm(arm) for arm in self.outer]} if self.outer else {}),
        }

    def digest(self) -> str:
        """SHA-256 of the record and the base scenario: equal plans fill equal folders."""
        content = json.dumps([self.record(), self.base.substance()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def _arm(self, arm: Arm) -> dict[str, Any]:
        """An arm in plain values: its name, what it changes in the base scenario, seeds and problem if it has any."""
        changes = self.base.differences(arm.scenario)
        changed = {key: theirs for key, (_, theirs) in changes.items() if theirs is not None} | dict(arm.asked)
        return {
            "name": arm.name,
            "set": changed,
            **_without_blanks({"seeds": list(arm.seeds), "problem": arm.problem}),
        }


def _without_blanks(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in ("", [])}


def make_plan(
    name: str,
    base: Scenario,
    arms: Iterable[Arm],
    *,
    question: str = "",
    seeds: int = DEFAULT_SEEDS,
    first_seed: int | None = None,
    contrasts: Iterable[Contrast] = (),
    screens: Iterable[Screen] = (),
    level: float = 0.95,
    risk: str = "",
) -> Plan:
    """A plan with its tables loaded and checked.

    Args:
        name: of the experiment.
        base: the scenario that the arms vary.
        arms: variants.
        question: what is asked.
        seeds: how many, the same for each arm.
        first_seed: the first of them; the others follow.
        contrasts: paired differences to measure.
        screens: tables to show.
        level: of all intervals.
        risk: class of sellers whose risk is tabled, blank for none.

    Raises:
        ScenarioError: no seeds, tables that cannot be used, or no arm that can be.
    """
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}; allowed: a whole number of at least 1")
    chosen = tuple(arms)
    if all(arm.problem for arm in chosen):
        raise ScenarioError(chosen[0].problem)
    numbers = seeds_from(first_seed, seeds)
    digests = _tables_digests(chosen)
    return Plan(
        name, question, base, chosen, numbers, tuple(contrasts), tuple(screens), level, digests, sources_digest(), risk
    )


def seeds_from(first: int | None, count: int) -> tuple[int, ...]:
    """As many seeds as asked for, one after the other."""
    start = FIRST_SEED if first is None else first
    return tuple(range(start, start + count))


def _tables_digests(arms: Iterable[Arm]) -> dict[str, str]:
    """Digest of the checked tables by arm; arms with the same data and names in them are checked once."""
    known: dict[str, str] = {}
    digests: dict[str, str] = {}
    for arm in arms:
        key = f"{arm.scenario.data!r} {arm.scenario.developer_cloud.sku} {arm.scenario.events!r}"
        known[key] = known.get(key) or arm.scenario.check().digest()
        digests[arm.name] = known[key]
    return digests


def run_id(scenario: Scenario, seed: int, tables_digest: str, sources: str = "") -> str:
    """Sixteen hexadecimal digits that stand for everything a run's result depends on; default sources: this program."""
    content = json.dumps([scenario.digest(), seed, tables_digest, sources or sources_digest()])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


@cache
def sources_digest() -> str:
    """SHA-256 of the source files that decide a run's result, by path and content."""
    digest = hashlib.sha256()
    for path, name in sorted(_source_files(), key=lambda entry: entry[1]):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _source_files() -> Iterable[tuple[Path, str]]:
    """Source files with their names relative to the folder of the three packages."""
    spec = find_spec("market")
    root = Path(str(spec.origin if spec else "")).parent.parent
    for source in _SOURCES:
        place = root / source
        for path in place.rglob("*.py") if place.is_dir() else [place]:
            name = path.relative_to(root).as_posix()
            if path.is_file() and name not in _NOT_STORED:
                yield path, name
