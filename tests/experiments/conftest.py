"""A simulation of three numbers in place of the market, behind the seam that the real one stands behind."""

import sys
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import numpy as np
import polars as pl
import pytest

from experiments import api, cli
from experiments.engine import runner
from experiments.engine.runner import DERIVED, TABLES
from experiments.measure import outcomes as measured
from experiments.measure import weekly
from experiments.scenario import Scenario
from experiments.show import report

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # worker processes cannot import this file

SKUS = ("H100", "MI300X")


def fake_simulate(scenario: Scenario, seed: int) -> runner.Tables:
    """Prices that fall with the cap and vary with the seed; every other table is empty."""
    weeks = scenario.weeks + 1
    noise = np.random.default_rng(seed).normal(size=weeks * len(SKUS))
    price = 3.0 - 1e-5 * scenario.developer_cloud.cap_gpus + 0.1 * noise
    empty = {name: pl.DataFrame(schema=schema) for name, schema in TABLES.items()}
    rows = {
        "week": np.repeat(np.arange(weeks), len(SKUS)),
        "sku": list(SKUS) * weeks,
        "list_mean_usd_per_gpu_hour": price,
    }
    market = pl.DataFrame({name: rows.get(name) for name in TABLES["market_week"]}, schema=TABLES["market_week"])
    return {**empty, "market_week": market}


def fake_outcomes(tables: runner.Tables, *, weeks: int) -> pl.DataFrame:
    """Mean price by SKU, and an outcome that is never defined."""
    mean = tables["market_week"].group_by("sku", maintain_order=True).agg(pl.col("list_mean_usd_per_gpu_hour").mean())
    rows = [
        ("price_mean", "all", sku, "all", measured.HEADLINE, 1, weeks, value, None, None) for sku, value in mean.rows()
    ]
    rows.append(("half_life", "all", "H100", "all", measured.HEADLINE, 1, weeks, None, None, "prices do not return"))
    return pl.DataFrame(rows, schema=measured.OUTCOME_SCHEMA, orient="row")


def fake_derived(tables: runner.Tables, *, weeks: int) -> runner.Tables:
    """The price of each week, AMD's shares, and one payment."""
    market = tables["market_week"].select("week", "sku", pl.col("list_mean_usd_per_gpu_hour").alias("value"))
    price = market.with_columns(metric=pl.lit("price_mean"), provider_class=pl.lit(measured.HEADLINE))
    share = market.filter(sku="H100").with_columns(
        pl.col("value") / 100, metric=pl.lit("amd_hour_share"), sku=pl.lit("all"), provider_class=pl.lit("all")
    )
    trend = pl.concat([price, share]).with_columns(weight=pl.lit(1.0))
    payment = {"payer_kind": ["tenant"], "payee_kind": ["neocloud"], "reason": ["rent"], "usd": [1e9]}
    return {
        "trend_week": trend.select(list(DERIVED["trend_week"])).cast(DERIVED["trend_week"]),
        "flow_total": pl.DataFrame(payment, schema=DERIVED["flow_total"]),
    }


def _fake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(measured, "outcomes", fake_outcomes)
    patch.setattr(weekly, "derived", fake_derived)
    patch.setattr(runner, "simulate", fake_simulate)


@pytest.fixture(scope="session")
def faked_results(tmp_path_factory: pytest.TempPathFactory) -> Callable[[api.Plan], api.Results]:
    """Results of a plan from the small simulation, in a folder of their own, without figures and report."""

    def carried_out(plan: api.Plan) -> api.Results:
        with pytest.MonkeyPatch.context() as patch:
            _fake(patch)
            patch.setattr(report, "write", lambda results: None)
            return api.carry_out(plan, out=tmp_path_factory.mktemp("faked") / "out", workers=1)

    return carried_out


@pytest.fixture
def fake_market(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., runner.Tables]], None]:
    """Puts the small simulation in the place of the market; called, puts another one there."""
    _fake(monkeypatch)
    return lambda simulate: monkeypatch.setattr(runner, "simulate", simulate)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws nothing and writes no report: figures take longer than everything else together."""
    monkeypatch.setattr(report, "write", lambda results: None)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the place where the program is started."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small_plan() -> api.Plan:
    """Two arms of two seeds, two weeks long."""
    return small_plan_of()


def small_plan_of(*, seeds: int = 2, **changes: object) -> api.Plan:
    base = Scenario.load().with_({"weeks": 2, **changes})
    arms = [api.Arm("without", base.set("developer_cloud.cap_gpus", 0.0)), api.Arm("with", base)]
    return api.make_plan(
        "small", base, arms, seeds=seeds, contrasts=[api.Contrast("effect", "with", "without")], question="Which?"
    )


@pytest.fixture
def neocloud(fake_market, no_figures, in_folder, capsys):
    """Runs a command line; returns exit code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        return (code, *capsys.readouterr())

    return call
