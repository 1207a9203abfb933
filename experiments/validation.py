"""Validation: a scenario's runs scored against public figures, seed by seed.

By default the market of June 2025 is scored on the figures that begin with it, and the market of early 2024, where that
scenario exists, on those that begin earlier. The score is what it is: nothing here can be moved to pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from experiments.api import Results, carry_out
from experiments.engine.plan import DEFAULT_SEEDS, Arm, make_plan
from experiments.engine.runner import TABLES
from experiments.measure.targets import (
    SCORE_SCHEMA,
    Setting,
    Target,
    Verdict,
    joint_share,
    load_targets,
    score,
    verdicts,
    weeks_needed,
    windows_of,
)
from experiments.scenario import DEFAULT_SCENARIO, Scenario
from experiments.scenario_files import scenario_names

__all__ = ["Scores", "SeedScore", "setting_of", "validate"]

EARLIER_SCENARIO = "baseline-2024"
_QUESTION = "How close does the market come to public figures?"


@dataclass(frozen=True, slots=True)
class SeedScore:
    """One seed: ``fail`` if a hard target is outside its band, ``warn`` if a soft one is, else ``pass``."""

    seed: int
    verdict: str
    hard_outside: list[str]
    soft_outside: list[str]


@dataclass(frozen=True)
class Scores:
    """Scores of a scenario's runs.

    Attributes:
        results: the runs behind them.
        table: ``arm``, ``seed`` and the columns of `SCORE_SCHEMA`, a row per target and seed.
    """

    results: Results
    table: pl.DataFrame

    @property
    def failed(self) -> int:
        """Runs without results."""
        return self.results.failed

    @property
    def runs(self) -> pl.DataFrame:
        """A row per arm and seed."""
        return self.results.runs

    @property
    def out(self) -> Path:
        """The folder."""
        return self.results.out

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """A verdict per target, worst first."""
        return verdicts(self.table)

    @cached_property
    def seeds(self) -> list[SeedScore]:
        """A verdict per seed, worst first."""
        hard = {target.id for target in load_targets() if target.hardness == "hard"}
        found = [
            _seed_score(number, rows, hard) for (number,), rows in self.table.group_by("seed", maintain_order=True)
        ]
        return sorted(found, key=lambda each: (-len(each.hard_outside), -len(each.soft_outside), each.seed))

    def passing(self, *, use: str | None = None, without: str | None = None) -> float | None:
        """Share of seeds with every hard target inside its band; of one use, or without one target."""
        ids = [target.id for target in load_targets() if target.hardness == "hard" and use in (None, target.use)]
        return joint_share(self.table, [name for name in ids if name != without])

    def joint(self) -> dict[str, float | None]:
        """Shares of seeds that pass all hard targets, all fitted ones, all held-out ones."""
        name = "share_of_seeds_passing_hard"
        return {name: self.passing(), **{f"{name}_{use}": self.passing(use=use) for use in ("fit", "holdout")}}

    def rows(self) -> list[dict[str, Any]]:
        """A row per target, worst first, in plain values."""
        arms = dict(self.table.select("id", "arm").unique().iter_rows())
        return [self._row(verdict, arms[verdict.target.id]) for verdict in self.verdicts]

    def _row(self, verdict: Verdict, arm: str) -> dict[str, Any]:
        target = verdict.target
        return {
            "id": target.id,
            "metric": target.metric,
            "sku": target.sku,
            "provider_class": target.provider_class,
            "use": target.use,
            "hardness": target.hardness,
            "unit": target.unit,
            "band": verdict.band,
            "measured": target.value,
            "mean": verdict.mean,
            "sd": verdict.sd,
            "lowest": verdict.lowest,
            "highest": verdict.highest,
            "seeds": verdict.seeds,
            "share_of_seeds_inside": verdict.share_inside,
            "verdict": verdict.verdict,
            "held_down_by": verdict.held_down_by,
            "joint_share_without_it": self.passing(without=target.id) if target.hardness == "hard" else None,
            "scenario": arm,
            "reason": verdict.reason,
        }

    def provenance(self) -> dict[str, Any]:
        """What was run, by content: scenarios, tables, sources, seeds."""
        plan = self.results.plan
        return {
            "scenario_digest": " ".join(f"{arm.name}:{arm.scenario.digest()[:16]}" for arm in plan.arms),
            "tables_digest": " ".join(f"{arm.name}:{plan.tables_digest[arm.name][:16]}" for arm in plan.arms),
            "sources_digest": plan.record()["program"]["sources"][:16],
            "first_seed": plan.seeds[0],
            "last_seed": plan.seeds[-1],
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything that is printed, in plain values: what ``--format json`` shows."""
        return {
            "experiment": self.results.plan.name,
            "out": str(self.out),
            "runs": self.runs.height,
            "failed": self.failed,
            **self.provenance(),
            **self.joint(),
            "targets": self.rows(),
            "seeds": [{name: getattr(seed, name) for name in SeedScore.__slots__} for seed in self.seeds],
        }

    def as_csv(self) -> str:
        """The rows of the targets with bands in two columns and what was run in every row."""
        flat = [
            {**row, "low": row["band"][0], "high": row["band"][1], **self.joint(), **self.provenance()}
            for row in self.rows()
        ]
        for row in flat:
            del row["band"]
        return pl.DataFrame(flat, infer_schema_length=None).write_csv()


def _seed_score(seed: Any, rows: pl.DataFrame, hard: set[str]) -> SeedScore:
    outside = rows.filter(~pl.col("inside"))["id"].to_list()
    hard_ones = [name for name in outside if name in hard]
    verdict = "fail" if hard_ones else "warn" if outside else "pass"
    return SeedScore(int(seed), verdict, hard_ones, [name for name in outside if name not in hard])


def validate(
    scenario: str | Path | Scenario | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seeds: int | None = None,
    seed: int | None = None,
    weeks: int | None = None,
    **options: Any,
) -> Scores:
    """Run a scenario with several seeds and score every seed against the targets.

    Args:
        scenario: name, file or `Scenario`; None: the built-in market of 2025 and, for earlier figures, that of 2024.
        set: changes of it by key.
        assignments: the same as texts ``section.key=value``.
        seeds: how many (default 16).
        seed: the first of them.
        weeks: length of the runs (default: to the end of the figures).
        options: as of `experiments.api.experiment`: ``out``, ``workers``, ``progress``, ``notice``, ``command``.

    Raises:
        ScenarioError: bad input, in one line; nothing is run or written.
    """
    chosen = [_to_the_end(each.changed(assignments, set), weeks) for each in _scenarios(scenario)]
    arms = [Arm(each.name, each) for each in chosen]
    count = DEFAULT_SEEDS if seeds is None else seeds
    plan = make_plan("validate", chosen[0], arms, question=_QUESTION, seeds=count, first_seed=seed)
    usual = scenario is None and not (set or assignments or seeds or weeks) and seed is None
    options.pop("tables", None)
    results = carry_out(plan, tables=tuple(TABLES), usual=usual, **options)
    found = Scores(results, _score_runs(results))
    (results.out / "scores.csv").write_text(found.table.write_csv(), encoding="utf-8")
    (results.out / "targets.csv").write_text(found.as_csv(), encoding="utf-8")
    return found


def _scenarios(scenario: str | Path | Scenario | None) -> list[Scenario]:
    if isinstance(scenario, Scenario):
        return [scenario]
    if scenario is not None:
        return [Scenario.load(scenario)]
    earlier = [EARLIER_SCENARIO] if EARLIER_SCENARIO in scenario_names() else []
    return [Scenario.load(name) for name in (DEFAULT_SCENARIO, *earlier)]


def _to_the_end(scenario: Scenario, weeks: int | None) -> Scenario:
    """As long as the figures need, or as asked."""
    needed = max(1, weeks_needed(scenario.tables().opening[0].start_date))
    return scenario.with_({"weeks": needed if weeks is None else weeks}, "--weeks")


def setting_of(scenario: Scenario) -> Setting:
    """Calendar and parameters that scores need from a scenario."""
    cloud = scenario.developer_cloud
    return Setting(
        opening=scenario.tables().opening[0].start_date,
        weeks=scenario.weeks,
        offer_week=cloud.start_week if cloud.cap_gpus > 0 else None,
        base_rate=scenario.finance.base_rate,
    )


def _score_runs(results: Results) -> pl.DataFrame:
    """Every target in every seed, each scored in the arm that opens last of those that cover its time."""
    settings = {arm.name: setting_of(arm.scenario) for arm in results.plan.arms}
    by_arm = {name: [target for target in load_targets() if _home(target, settings) == name] for name in settings}
    done = results.runs.filter(pl.col("status") == "ok").select("id", "arm", "seed").iter_rows()
    frames = [
        score(_tables_of(results.out, run), settings[arm], by_arm[arm]).select(
            pl.lit(arm).alias("arm"), pl.lit(number, pl.Int64()).alias("seed"), *SCORE_SCHEMA
        )
        for run, arm, number in done
        if by_arm[arm]
    ]
    return pl.concat([pl.DataFrame(schema={"arm": pl.String(), "seed": pl.Int64(), **SCORE_SCHEMA}), *frames])


def _home(target: Target, settings: Mapping[str, Setting]) -> str:
    """The arm a target is scored in; the first where none covers its time: it says why not."""
    covering = [name for name, setting in settings.items() if windows_of(target, setting)[0]]
    return max(covering, key=lambda name: settings[name].opening, default=next(iter(settings)))


def _tables_of(out: Path, run: str) -> dict[str, pl.DataFrame]:
    """Stored tables of one run."""
    return {
        name: pl.scan_parquet(out / f"{name}.parquet").filter(pl.col("run") == run).drop("run").collect()
        for name in TABLES
    }
