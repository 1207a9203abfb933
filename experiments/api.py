"""What users call, from Python or through the command line: run, compare, experiment.

Each makes a plan and takes the same road: store, executor, compaction, statistics. A folder that already holds part
of the plan is continued; a complete one is read.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from experiments.design import DEFAULT_DESIGN, Design, stored_plan
from experiments.engine import runner
from experiments.engine.drive import Means, Progress, do_missing
from experiments.engine.errors import ScenarioError, nearest
from experiments.engine.executors import Notice
from experiments.engine.plan import DEFAULT_SEEDS, Arm, Contrast, Plan, Window, make_plan, sources_digest
from experiments.engine.store import DEFAULT_TABLES, Store
from experiments.measure import outcomes as measured
from experiments.measure import response, stats, weekly
from experiments.measure.passthrough import pass_through
from experiments.measure.risk import risk as risk_by_arm
from experiments.scenario import DEFAULT_SCENARIO, Scenario

if TYPE_CHECKING:
    from experiments.show.figures import Drawing

__all__ = ["Results", "carry_out", "compare", "comparison", "default_out", "experiment", "report", "run", "steps"]

_PACKAGES = ("neocloud-market", "mesa", "numpy", "scipy", "polars", "pydantic", "loky")


@dataclass(frozen=True)
class Results:
    """An experiment's results in its folder; frames are polars.

    Attributes:
        store: the folder and what fills it.
        failed: number of rows of the plan without results.
        missing: runs of the plan that are not done yet; 0 unless an unfinished folder was opened.
    """

    store: Store
    failed: int
    missing: int = 0

    @classmethod
    def open(cls, folder: str | Path) -> Results:
        """The results in a folder, of the runs that are finished; nothing is run or changed.

        Raises:
            ScenarioError: no such folder, not one of results, or none of its runs is finished.
        """
        store = _stored(Path(folder))
        runs = store.read("runs")
        wanted = {spec.id for spec in store.plan.runs()}
        done = wanted & set(runs["id"])
        if not done:
            raise ScenarioError(f"{folder}: no run is finished; {_go_on(store)}")
        failed = runs.filter(pl.col("status") != "ok").height
        return cls(store, failed, len(wanted - done))

    @property
    def plan(self) -> Plan:
        """What was run."""
        return self.store.plan

    @property
    def out(self) -> Path:
        """The folder."""
        return self.store.out

    @property
    def manifest(self) -> dict[str, Any]:
        """Command, versions, machine and times of the runs."""
        return self.store.manifest()

    def go_on(self) -> str:
        """How many runs are done and what finishes the others; blank where none is missing."""
        if not self.missing:
            return ""
        total = len(self.plan.runs())
        return f"{total - self.missing} of {total} runs are done; {_go_on(self.store)}"

    def _read(self, name: str) -> pl.DataFrame:
        return self.store.read(name)

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row per arm and seed: id, arm, seed, status, message, varied parameters."""
        return self._read("runs")

    @cached_property
    def outcomes(self) -> pl.DataFrame:
        """Every outcome of every run, long."""
        return self._read("outcomes")

    @cached_property
    def market_week(self) -> pl.DataFrame:
        """Prices, GPUs and utilisation by run, week and SKU."""
        return self._read("market_week")

    @cached_property
    def trend_week(self) -> pl.DataFrame:
        """Prices, spread, margins, utilisation and AMD's shares by run and week; see `experiments.measure.weekly`."""
        return self._read("trend_week")

    @cached_property
    def flow_total(self) -> pl.DataFrame:
        """Money that changed hands in each run by kind of payer and payee and by reason, USD."""
        return self._read("flow_total")

    @cached_property
    def desk_week(self) -> pl.DataFrame:
        """Price, cap and sales of the vendor's desks by run and week."""
        return self._read("desk_week")

    def scan(self, name: str) -> pl.LazyFrame:
        """A stored table that is read as far as it is asked for; memory need not grow with the runs."""
        if name not in self._scans:
            self._scans[name] = self.store.scan(name)
        return self._scans[name]

    @cached_property
    def _scans(self) -> dict[str, pl.LazyFrame]:
        return {}

    def metric(self, name: str, weeks: int) -> pl.DataFrame:
        """An outcome by arm and seed; see `experiments.measure.response.values`."""
        return response.values(self.scan("outcomes"), self.runs, name, weeks, self._names(weeks))

    def metric_names(self, weeks: int) -> list[str]:
        """Display names of the outcomes over weeks 1 to ``weeks``."""
        return list(self._names(weeks))

    def _names(self, weeks: int) -> response.Names:
        """Dimensions of the outcomes by display name, looked up once for each window."""
        if weeks not in self._known_names:
            self._known_names[weeks] = response.metric_names(self.scan("outcomes"), weeks)
        return self._known_names[weeks]

    @cached_property
    def _known_names(self) -> dict[int, response.Names]:
        return {}

    def as_dict(self) -> dict[str, Any]:
        """Everything that is printed, in plain values: what ``--format json`` shows."""
        return {
            "experiment": self.plan.name,
            "out": str(self.out),
            "runs": self.runs.height,
            "failed": self.failed,
            "summary": self.summary.to_dicts(),
            "effects": self.effects.to_dicts(),
            **({"risk": self.risk.to_dicts()} if self.plan.risk else {}),
        }

    @cached_property
    def summary(self) -> pl.DataFrame:
        """Mean and interval of every metric by arm."""
        return pl.concat(self.summaries())

    def summaries(self) -> Iterator[pl.DataFrame]:
        """The summary a piece at a time: what is written and shown holds no more of it than that."""
        return stats.summaries_by_arm(self.scan("outcomes"), self.runs, self.plan.level, experiment=self.plan.name)

    @cached_property
    def shown_summary(self) -> pl.DataFrame:
        """The rows of the summary of the arms that are shown, with ``line``, their place in ``summary.csv``."""
        return _lines(self.summaries(), pl.col("arm").is_in(self.plan.shown_arms()))

    @cached_property
    def risk(self) -> pl.DataFrame:
        """Default rate, losses and vendors' payouts by arm, each with an interval; see `experiments.measure.risk`."""
        return risk_by_arm(self.scan("outcomes"), self.runs, self.plan.risk or measured.HEADLINE, self.plan.level)

    @cached_property
    def effects(self) -> pl.DataFrame:
        """Paired difference and interval of every metric by contrast; then what of posted prices reaches leases."""
        return pl.concat(self.differences())

    def differences(self) -> Iterator[pl.DataFrame]:
        """The effects a piece at a time, as `summaries`."""
        arms = set(self.runs["arm"])  # some may have no finished run yet
        contrasts = [
            (contrast.name, contrast.arm, contrast.base)
            for contrast in self.plan.contrasts
            if {contrast.arm, contrast.base} <= arms
        ]
        given = (self.scan("outcomes"), self.runs, contrasts, self.plan.level)
        yield from stats.effects_by_contrast(*given, experiment=self.plan.name)
        yield pass_through(*given, experiment=self.plan.name)

    @cached_property
    def shown_effects(self) -> pl.DataFrame:
        """The rows of the effects of the contrasts that are shown, with ``line``, their place in ``effects.csv``."""
        names = [contrast.name for contrast in self.plan.contrasts if contrast.column]
        return _lines(self.differences(), pl.col("contrast").is_in(names))

    def figure(self, name: str = "price_paths") -> Drawing:
        """A figure of the report by its name, with its caption; a notebook shows both.

        Args:
            name: that of its file in ``figures/``, such as ``price_paths``, ``dispersion`` or ``money_flow``.

        Raises:
            ScenarioError: no such figure, or these results hold nothing for it; the line names those there are.
        """
        from experiments.show.figures import drawing

        return drawing(self, name)

    def effects_table(self, *metrics: str, window: Window = "year one") -> pl.DataFrame:
        """What each contrast does to the outcomes named, as numbers in the unit of the row (no percent).

        Columns: ``metric``, ``unit``, ``contrast``, ``difference``, ``low``, ``high``, ``pairs`` (seeds with a value in
        both arms), ``reason`` (why there is none). Arguments and errors as in `effects_figure`.
        """
        from experiments.show.figures import effects_rows

        return effects_rows(self, metrics, window)

    def effects_figure(self, *metrics: str, window: Window = "year one") -> Drawing:
        """What each contrast does to the outcomes named, with intervals: a column to an outcome, a row to a contrast.

        Args:
            metrics: display names of outcomes, such as ``price_mean[H100]`` or ``operating_margin[neocloud]``.
            window: the weeks over which they are measured.

        Raises:
            ScenarioError: no contrast, no outcome of that name, or a window that is none.
        """
        from experiments.show.figures import effects_drawing

        return effects_drawing(self, metrics, window)


def _lines(pieces: Iterable[pl.DataFrame], wanted: pl.Expr) -> pl.DataFrame:
    """Some rows of a table that comes in pieces, with the line on which they stand in its CSV file, behind the head."""
    kept, first = [], 2
    for piece in pieces:
        kept.append(piece.with_row_index("line", first).filter(wanted))
        first += piece.height
    return pl.concat(kept)


def _stored(folder: Path) -> Store:
    """The store of a folder that an experiment filled."""
    if not folder.is_dir():
        near = [*_folders_of_results(folder.parent), *_folders_of_results(Path("out"))]
        why = "it is a file" if folder.exists() else f"no such folder{nearest(str(folder), near)}"
        raise ScenarioError(f"{folder}: {why}")
    if missing := [name for name in ("design.toml", "scenario.toml") if not (folder / name).is_file()]:
        inside = nearest(str(folder), _folders_of_results(folder))
        raise ScenarioError(f"{folder}: not a folder of results: it has no {' and no '.join(missing)}{inside}")
    plan, tables = stored_plan(folder)
    return Store(folder, plan, measured.OUTCOME_SCHEMA, [name for name in tables if name != "outcomes"])


def _folders_of_results(place: Path) -> list[str]:
    """Those right inside a folder."""
    return sorted(str(design.parent) for design in place.glob("*/design.toml"))


def _go_on(store: Store) -> str:
    command = store.manifest().get("command")
    return f"to go on: {command}" if command else "to go on, give the same call again"


def experiment(
    design: str | Path | Design = DEFAULT_DESIGN,
    *,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seeds: int | None = None,
    seed: int | None = None,
    weeks: int | None = None,
    uncertainty: int | None = None,
    **options: Any,
) -> Results:
    """Carry out a design: every arm with every seed, differences paired by seed.

    Args:
        design: built-in name, file, or a `Design`.
        set: changes of its scenario by key, before the arms' own.
        assignments: the same as texts ``section.key=value``.
        seeds: number of seeds (default: the design's).
        seed: the first of them.
        weeks: length of each run.
        uncertainty: number of outer draws of the uncertain parameters; each effect then has a range over them.
        options: see `carry_out`: ``out``, ``root``, ``tables``, ``progress``, ``notice``, ``command``, and `Means`:
            ``workers`` and others.

    Raises:
        ScenarioError: bad input, in one line; nothing is run or written.
    """
    chosen = design if isinstance(design, Design) else Design.load(design)
    plan = chosen.plan(assignments=assignments, changes=set, seeds=seeds, first_seed=seed, weeks=weeks)
    usual = (
        not (set or assignments or seeds or weeks or uncertainty) and seed is None and not isinstance(design, Design)
    )
    return carry_out(_with_draws(plan, uncertainty), usual=usual, **options)


def run(
    scenario: str | Path | Scenario = DEFAULT_SCENARIO,
    *,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seeds: int = 1,
    seed: int | None = None,
    weeks: int | None = None,
    **options: Any,
) -> Results:
    """Run one scenario, by default with one seed; arguments as in `experiment`."""
    chosen = _loaded(scenario).changed(assignments, set, weeks)
    plan = make_plan(chosen.name, chosen, [Arm(chosen.name, chosen)], seeds=seeds, first_seed=seed)
    named = isinstance(scenario, str | Path) and "+" not in str(scenario)
    return carry_out(plan, usual=named and not (set or assignments or weeks or seed) and seeds == 1, **options)


def compare(
    base: str | Path | Scenario,
    *variants: str | Path | Scenario,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seeds: int | None = None,
    seed: int | None = None,
    weeks: int | None = None,
    uncertainty: int | None = None,
    **options: Any,
) -> Results:
    """Run scenarios with the same seeds and measure each variant minus the base; other arguments as in `experiment`.

    An arm has the name of its scenario (``scenario.set("name", ...)`` gives another), or says what it changes where it
    has the name of the base. The contrast of a single variant is called ``effect``, those of several as their arms.
    """
    first, *others = (_loaded(scenario).changed(assignments, set, weeks) for scenario in (base, *variants))
    plan = comparison(first, others, seeds=seeds, seed=seed)
    return carry_out(_with_draws(plan, uncertainty), **options)


def comparison(
    first: Scenario, others: Sequence[Scenario], *, seeds: int | None = None, seed: int | None = None
) -> Plan:
    """The plan of `compare`: an arm a scenario, each of the others against the first."""
    if not others:
        raise ScenarioError("compare: nothing to compare with; allowed: one scenario or more after the base")
    arms = [Arm(first.name, first), *(Arm(_variant_name(first, other), other) for other in others)]
    names = [arm.name for arm in arms]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ScenarioError(f"compare: two scenarios are called {twice!r}; give one another name: {twice}+name=other")
    return make_plan(
        _comparison(first, others),
        first,
        arms,
        seeds=DEFAULT_SEEDS if seeds is None else seeds,
        first_seed=seed,
        contrasts=[Contrast("effect" if len(others) == 1 else arm.name, arm.name, first.name) for arm in arms[1:]],
    )


def _with_draws(plan: Plan, draws: int | None) -> Plan:
    """The plan with outer draws, if any are asked for."""
    if draws is None:
        return plan
    from experiments.uncertainty import with_draws

    return with_draws(plan, draws)


def _comparison(base: Scenario, variants: Sequence[Scenario]) -> str:
    """Name of a comparison."""
    if len(variants) > 1:
        return f"{base.name}-against-{len(variants)}-others"
    return f"{base.name}-against-{variants[0].name}" if variants[0].name != base.name else f"{base.name}-compared"


def _loaded(scenario: str | Path | Scenario) -> Scenario:
    return scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)


def _variant_name(base: Scenario, variant: Scenario) -> str:
    """The variant's name, or what it changes where the names are the same."""
    if variant.name != base.name:
        return variant.name
    changes = [f"{key}={theirs}" for key, (_, theirs) in base.differences(variant).items()]
    return ", ".join(changes[:2]) + (", ..." if len(changes) > 2 else "") or f"{variant.name} again"


# ------------------------------------------------------------------------------------------------ the common road


def default_out(plan: Plan, *, usual: bool, root: str | Path = "out") -> Path:
    """``ROOT/NAME`` for a built-in experiment as it stands; a changed one has a folder of its own beside it."""
    return Path(root) / (plan.name if usual else f"{plan.name}-{plan.digest()[:8]}")


def carry_out(
    plan: Plan,
    *,
    out: str | Path | None = None,
    root: str | Path = "out",
    tables: Sequence[str] = DEFAULT_TABLES,
    progress: Progress | None = None,
    notice: Notice | None = None,
    command: str = "",
    usual: bool = False,
    **means: Any,
) -> Results:
    """Do what is missing of a plan, store it, measure it.

    Args:
        plan: what to run.
        out: folder of the results; default: one named after the plan in ``root``, so that equal plans share theirs.
        root: folder of such folders.
        tables: recorded tables to keep besides the outcomes.
        progress: told how many runs are done, of how many.
        notice: told in one line when a worker dies; default: standard error.
        command: the command behind it, for the manifest.
        usual: the plan is a built-in experiment as it stands.
        means: ``workers``, ``executor``, ``scheduler``, ``timeout``, ``fail_fast``, ``retry_failed``; see `Means`.

    Raises:
        ScenarioError: the folder cannot be used, or the means make no sense.
        StoppedError: a run did not end well and ``fail_fast`` is on.
        StoreError: writing failed on the way; what is finished is kept.
    """
    folder = Path(out) if out is not None else default_out(plan, usual=usual, root=root)
    store, chosen, say = Store(folder, plan, measured.OUTCOME_SCHEMA, tables), Means(**means), notice or _say
    start, clock = datetime.now(UTC), time.perf_counter()
    with store.open(command, say):
        if not store.complete():
            store.begin(_manifest(plan, command, start))
            statuses = do_missing(store, steps(), chosen, progress or _silent, say)
            store.compact(statuses)
            bad = sum(entry["status"] != "ok" for entry in statuses.values())
            ended = {"seconds": round(time.perf_counter() - clock, 3), "runs": _counts(plan, bad)}
            store.finish(_manifest(plan, command, start) | ended, keep_parts=bool(bad))
        failed = store.read("runs").filter(pl.col("status") != "ok").height
        results = Results(store, failed)
        store.discard_empty_parts()
        _report(results)
    return results


def report(folder: str | Path, *, notice: Notice | None = None) -> Results:
    """Write tables, figures and report of a folder anew from what is stored in it; nothing is run.

    Of an unfinished experiment the finished runs are reported, under a banner that says so. While another process
    works in the folder there is no report of it: `Results.open` reads what is finished and writes nothing.

    Args:
        folder: of an experiment.
        notice: told in one line when an earlier owner of the folder ended without tidying up; default: standard error.

    Raises:
        ScenarioError: as `Results.open`, or the folder cannot be written or is held by another process.
        StoreError: writing failed on the way.
    """
    store = _stored(Path(folder))
    with store.folder.held(f"neocloud report {folder}", notice or _say):
        results = Results.open(folder)
        _report(results)
    return results


def steps() -> tuple[runner.Simulate, runner.Measure, runner.Derive]:
    """What is done for every run: simulate, measure, derive the small tables."""
    return runner.simulate, measured.outcomes, weekly.derived


def _report(results: Results) -> None:
    """Everything that follows from the tables: summary, effects, responses, figures, report."""
    from experiments.show import report as shown
    from experiments.show import response as swept

    results.store.folder.write_csv("summary", results.summaries())
    results.store.folder.write_csv("effects", results.differences())
    if results.plan.risk:
        results.store.folder.write_csv("risk", [results.risk])
    if swept.applies(results):
        results.store.folder.write_csv("response", [swept.response_table(results)])
    if swept.screened(results):
        results.store.folder.write_csv("screening", [swept.screening_table(results)])
    shown.write(results)


def _silent(done: int, total: int) -> None:
    """No progress."""


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _counts(plan: Plan, failed: int) -> dict[str, int]:
    return {"rows": len(plan.rows()), "done": len(plan.runs()), "failed": failed}


def _manifest(plan: Plan, command: str, start: datetime) -> dict[str, Any]:
    """Where, when and with what the tables were made: all that must not stand in them."""
    return {
        "experiment": plan.name,
        "command": command,
        "started": start.isoformat(timespec="seconds"),
        "machine": {"name": platform.node(), "system": platform.platform(), "processor": platform.machine()},
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "sources": sources_digest(),
        "data": dict(plan.tables_digest),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
