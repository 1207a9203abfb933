"""Pass-through on a step of known size, and where there is nothing to pass on."""

from functools import cache

import numpy as np
import polars as pl
import pytest

from experiments.measure import stats
from experiments.measure.outcomes import Window, outcomes
from experiments.measure.passthrough import pass_through
from experiments.measure.stats import EFFECTS_SCHEMA

WEEKS = 52


@cache
def stored(made, step_usd, seeds=8, luck=0.01, spans=(13, 52)):
    """Outcomes of two arms: in ``offer`` list prices step up in week 1, and a 52nd of year leases renews each week."""
    frames, runs = [], []
    for arm, step in (("none", 0.0), ("offer", step_usd)):
        for seed in range(seeds):
            rng = np.random.default_rng([7, seed])
            level = 2.0 + 0.1 * rng.normal()
            noise = luck * np.random.default_rng([8, seed, step > 0]).normal(size=2)
            listed = np.full(WEEKS + 1, level + step + noise[0])
            renewed = np.clip(np.arange(WEEKS + 1), 0, 52) / 52
            paid = 500.0 * 168 * (level + step * renewed + noise[1])
            tables = made.fabricate({("a", "H100"): listed}, lots={"revenue_usd": {("a", "H100"): paid}})
            run = f"{arm} {seed}"
            found = outcomes(tables, weeks=WEEKS, spans=[Window(week, week) for week in spans])
            frames.append(found.select(pl.lit(run).alias("run"), pl.all()))
            runs.append({"id": run, "arm": arm, "seed": seed, "status": "ok"})
    return pl.concat(frames), pl.DataFrame(runs)


def shares(made, *arguments, **options):
    found = pass_through(*stored(made, *arguments, **options), [("total", "offer", "none")])
    assert found.schema == pl.Schema(EFFECTS_SCHEMA)
    assert set(found["metric"]) == {"pass_through"}
    rows = found.filter(pl.col("sku") == "H100", pl.col("provider_class") == "neocloud")
    return {row["window_first"]: row for row in rows.iter_rows(named=True)}


def test_a_step_under_one_year_leases_passes_through_by_a_fifty_second_a_week(made):
    """The trap: posted prices step at once, what leases pay follows only as they are renewed."""
    found = shares(made, 0.5)
    assert found[13]["difference"] == pytest.approx(13 / 52, abs=0.02)
    assert found[52]["difference"] == pytest.approx(1.0, abs=0.02)
    assert all(row["low"] < row["difference"] < row["high"] for row in found.values())
    assert found[13]["low"] < 13 / 52 < found[13]["high"]


def test_without_luck_the_part_is_exact(made):
    found = shares(made, 0.5, luck=0.0)
    assert (found[13]["difference"], found[52]["difference"]) == pytest.approx((0.25, 1.0))


def test_where_posted_prices_do_not_move_nothing_is_passed_through(made):
    for luck in (0.01, 0.0):
        row = shares(made, 0.0, luck=luck)[13]
        assert (row["difference"], row["low"]) == (None, None)
        assert "the effect on the posted price may be zero" in row["reason"]


def test_it_is_null_exactly_where_the_effect_on_the_posted_price_cannot_be_told_from_zero(made):
    for step in (0.0, 0.01):
        given = stored(made, step, seeds=4, spans=(13,))
        effects = stats.effects(*given, [("total", "offer", "none")]).filter(pl.col("metric") == "price_mean")
        found = {(row["sku"], row["provider_class"]): row for row in effects.iter_rows(named=True)}
        for row in pass_through(*given, [("total", "offer", "none")]).iter_rows(named=True):
            step_of = found[row["sku"], row["provider_class"]]
            told = step_of["low"] is not None and not step_of["low"] <= 0.0 <= step_of["high"]
            assert told == (row["difference"] is not None)


def test_a_price_that_some_runs_do_not_pay_is_left_out_and_said(made):
    found, runs = stored(made, 0.5, spans=(13,))
    nobody = (pl.col("metric") == "price_realised") & pl.col("run").is_in(["offer 0", "none 3"])
    found = found.with_columns(
        value=pl.when(~nobody).then("value"), reason=pl.when(nobody).then(pl.lit("no active lease")).otherwise("reason")
    )
    rows = pass_through(found, runs, [("total", "offer", "none")]).filter(pl.col("provider_class") == "neocloud")
    assert rows.select("pairs", "reason").row(0) == (6, "undefined in 2 of 8 runs: no active lease")
    unpaid = found.with_columns(
        value=pl.when(pl.col("metric") != "price_realised").then("value"), reason=pl.lit("no active lease")
    )
    rows = pass_through(unpaid, runs, [("total", "offer", "none")]).filter(pl.col("provider_class") == "neocloud")
    assert rows.select("difference", "pairs", "reason").row(0) == (None, 0, "no active lease")


def test_one_seed_has_no_part_and_says_why(made):
    row = shares(made, 0.5, seeds=1)[13]
    assert (row["difference"], row["pairs"]) == (None, 1)
    assert "two values" in row["reason"]


def test_a_scan_read_a_sku_at_a_time_gives_the_same_and_draws_are_left_out(made, monkeypatch):
    found, runs = stored(made, 0.5, spans=(13,))
    more = pl.concat([found, found.with_columns(sku=pl.lit("H200"), value=2.0 * pl.col("value"))])
    drawn = runs.with_columns(id=pl.lit("draw ") + pl.col("id"), arm=pl.col("arm") + " @ draw 1")
    whole = pass_through(more, runs, [("total", "offer", "none")])
    monkeypatch.setattr(stats, "_ROWS_AT_ONCE", 1)
    seen = []
    monkeypatch.setattr(
        "experiments.measure.passthrough.paired_differences",
        lambda block, *given: (
            seen.append(block.collect()["sku"].unique().to_list()) or stats.paired_differences(block, *given)
        ),
    )
    in_pieces = pass_through(more.lazy(), pl.concat([runs, drawn]), [("total", "offer", "none")])
    assert in_pieces.equals(whole)
    assert seen == [["H100"], ["H200"]]


def test_a_contrast_of_an_unknown_arm_is_refused(made):
    with pytest.raises(ValueError, match="no arm 'offre' among none, offer"):
        pass_through(*stored(made, 0.5, seeds=2, spans=(13,)), [("total", "offre", "none")])
