"""A design: the question of an experiment, its arms and what to compare, from a TOML file.

See ``designs/developer-cloud.toml``. A design names a scenario, arms that each set a few keys of it, contrasts (arm
minus base, paired by seed) and the tables to show; `plan` resolves all of it, or says in one line what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from experiments.engine.errors import ScenarioError, nearest
from experiments.engine.plan import (
    DEFAULT_SEEDS,
    Arm,
    Contrast,
    Plan,
    Screen,
    Window,
    make_plan,
    seeds_from,
    variant,
)
from experiments.engine.runner import DERIVED, TABLES
from experiments.scenario import DEFAULT_SCENARIO, Cell, Scenario
from experiments.scenario_files import read_toml, scenario_names
from market.parameters import Parameters

__all__ = ["DEFAULT_DESIGN", "Design", "design_names", "stored_plan"]

DEFAULT_DESIGN = "developer-cloud"


class ArmDesign(Parameters):
    """A variant: a name and the keys it sets in the scenario (its own scenario, where it names one).

    ``seeds``: how many of its own; 0: as many as all others.
    """

    name: str = Field(min_length=1)
    scenario: str = ""
    seeds: int = Field(default=0, ge=0, le=1_000_000)
    set: dict[str, Cell] = Field(default_factory=dict)


class ContrastDesign(Parameters):
    """A paired difference, see `experiments.engine.plan.Contrast`."""

    name: str = Field(min_length=1)
    arm: str
    base: str
    without: str = ""
    assumption: str = ""
    column: bool = True


class TableDesign(Parameters):
    """A table on the screen."""

    title: str
    metrics: list[str]
    window: Window = "year one"


class Design(Parameters):
    """An experiment before its scenarios are resolved; what a design file holds."""

    name: str = Field(min_length=1, pattern=r"^[\w.+=-]+$")
    question: str = ""
    scenario: str = DEFAULT_SCENARIO
    seeds: int = Field(default=DEFAULT_SEEDS, ge=1, le=1_000_000)
    level: float = Field(default=0.95, ge=0.5, le=0.9999)
    arms: list[ArmDesign] = Field(min_length=1)
    contrasts: list[ContrastDesign] = Field(default_factory=list)
    tables: list[TableDesign] = Field(default_factory=list)
    risk: str = ""

    @classmethod
    def load(cls, reference: str | Path = DEFAULT_DESIGN) -> Design:
        """The design of a built-in name or a TOML file.

        Raises:
            ScenarioError: no such design, or a file that cannot be used; one line.
        """
        path = _located(str(reference))
        raw = read_toml(path)
        try:
            design = cls.model_validate({"name": path.stem, **raw})
        except ValidationError as error:
            raise _explained(error, path) from None
        design._check_names(path)
        design._check_metrics(path)
        return design

    def _check_metrics(self, path: Path) -> None:
        from experiments.measure.outcomes import OUTCOMES
        from experiments.measure.passthrough import PASS_THROUGH

        known = [*OUTCOMES, *([PASS_THROUGH] if self.contrasts else [])]  # of two arms
        for table in self.tables:
            for shown in table.metrics:
                name = shown.partition("[")[0]
                if name not in known:
                    raise ScenarioError(
                        f"{path}: table {table.title!r}: no outcome is called {name!r}{nearest(name, known)}"
                    )

    def _check_names(self, path: Path) -> None:
        arms = [arm.name for arm in self.arms]
        contrasts = [contrast.name for contrast in self.contrasts]
        for names, kind in ((arms, "arms"), (contrasts, "contrasts")):
            if twice := [name for name in names if names.count(name) > 1]:
                raise ScenarioError(f"{path}: {kind}: the name {twice[0]!r} stands twice")
        for contrast in self.contrasts:
            for key, name, known in (
                ("arm", contrast.arm, arms),
                ("base", contrast.base, arms),
                ("without", contrast.without or contrasts[0], contrasts),
            ):
                if name not in known:
                    place = f"{path}: contrast {contrast.name!r}, {key} = {name!r}"
                    raise ScenarioError(f"{place}: no such name{nearest(name, known)}")

    def plan(
        self,
        *,
        assignments: Sequence[str] = (),
        changes: Mapping[str, Any] | None = None,
        seeds: int | None = None,
        first_seed: int | None = None,
        weeks: int | None = None,
    ) -> Plan:
        """The plan of this design, everything checked.

        Args:
            assignments: texts ``section.key=value`` that change the scenario before the arms do.
            changes: the same as values by key.
            seeds: number of seeds in place of the design's.
            first_seed: the first of them; the others follow.
            weeks: length of all runs.

        Raises:
            ScenarioError: in one line, the first thing wrong.
        """

        def varied(scenario: Scenario) -> Scenario:
            return scenario.changed(assignments, changes, weeks)

        base = varied(Scenario.load(self.scenario))
        return make_plan(
            self.name,
            base,
            [self._arm(arm, base, varied, first_seed) for arm in self.arms],
            question=self.question,
            seeds=self.seeds if seeds is None else seeds,
            first_seed=first_seed,
            contrasts=[Contrast(**contrast.model_dump()) for contrast in self.contrasts],
            screens=[Screen(table.title, tuple(table.metrics), table.window) for table in self.tables],
            level=self.level,
            risk=self.risk,
        )

    def _arm(
        self, arm: ArmDesign, base: Scenario, varied: Callable[[Scenario], Scenario], first_seed: int | None
    ) -> Arm:
        own = varied(Scenario.load(arm.scenario)) if arm.scenario else base
        seeds = seeds_from(first_seed, arm.seeds) if arm.seeds else ()
        return variant(arm.name, own, arm.set, f"experiment {self.name}, arm {arm.name}", seeds)


def stored_plan(folder: Path) -> tuple[Plan, list[str]]:
    """The plan that fills a folder of results, from its ``design.toml`` and ``scenario.toml``, and the tables kept.

    Raises:
        ScenarioError: one of them is missing, cannot be read, or is not what this version of the program writes.
    """
    base, record = Scenario.load(folder.absolute() / "scenario.toml"), read_toml(folder / "design.toml")
    try:
        unknown = set(record["tables"]) - {"outcomes", *TABLES, *DERIVED}
        if unknown:
            raise KeyError(f"table {unknown.pop()}")
        return _recorded(record, base, f"{folder}/design.toml"), record["tables"]
    except (KeyError, TypeError, AttributeError) as error:
        raise ScenarioError(f"{folder}/design.toml: not written by this version of the program: {error!r}") from None


def _recorded(record: Mapping[str, Any], base: Scenario, where: str) -> Plan:
    """The plan that `Plan.record` and the store wrote down."""
    arms, outer = (tuple(_recorded_arm(arm, base, where) for arm in record.get(part, ())) for part in ("arms", "outer"))
    return Plan(
        record["name"],
        record["question"],
        base,
        arms,
        tuple(record["seeds"]),
        tuple(Contrast(**contrast) for contrast in record["contrasts"]),
        tuple(
            Screen(screen["title"], tuple(screen["metrics"]), screen["window"]) for screen in record.get("screens", ())
        ),
        record["level"],
        record["program"]["tables"],
        record["program"]["sources"],
        record.get("risk", ""),
        outer,
    )


def _recorded_arm(arm: Mapping[str, Any], base: Scenario, where: str) -> Arm:
    seeds = tuple(arm.get("seeds", ()))
    if "problem" in arm:
        return Arm(arm["name"], base, seeds, arm["problem"], arm["set"])
    return Arm(arm["name"], base.with_(arm["set"], where), seeds)


def design_names() -> list[str]:
    """Names of the built-in designs."""
    folder = files("experiments").joinpath("designs")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _located(reference: str) -> Path:
    if reference.endswith(".toml") or "/" in reference:
        return Path(reference)
    if reference in design_names():
        return Path(str(files("experiments").joinpath("designs", f"{reference}.toml")))
    hint = nearest(reference, design_names())
    if reference in scenario_names():
        hint = f"; it is a scenario: neocloud run {reference}"
    elif Path(f"{reference}.toml").is_file():
        hint = f"; {reference}.toml is a file: give its whole name"
    raise ScenarioError(f"unknown experiment {reference!r}{hint}")


def _explained(error: ValidationError, path: Path) -> ScenarioError:
    """The first problem of a refused design in one line."""
    problem = error.errors(include_url=False)[0]
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        known = {
            **Design.model_fields,
            **ArmDesign.model_fields,
            **ContrastDesign.model_fields,
            **TableDesign.model_fields,
        }
        return ScenarioError(f"{path}: unknown key {key}{nearest(str(problem['loc'][-1]), known)}")
    shown = "" if problem["type"] == "missing" else f" = {problem['input']!r}"
    return ScenarioError(f"{path}: {key}{shown}: {problem['msg']}")
