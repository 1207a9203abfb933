"""Elementary effects against functions whose effects are known."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from experiments.engine.errors import ScenarioError
from experiments.measure.screening import SCREENING_SCHEMA, elementary_effects, trajectories
from experiments.points import grid_points, lever_of
from experiments.samples import range_of, sample_points

TAKE, SELLERS, ORDERS = "lepton.take_rate", "choice.search_sellers", "capacity.orders"
KEYS = [TAKE, SELLERS, ORDERS]


def arms_of(points) -> pl.DataFrame:
    return pl.DataFrame([dict(point.values) for point in points])


def screened(function, count=30) -> pl.DataFrame:
    """Effects of a rate from 0 to 0.2, a number of sellers from 3 to 20 and a switch on what a function makes."""
    ranges = [range_of(text) for text in (f"{TAKE}=0:0.2", f"{SELLERS}=3:20", f"{ORDERS}=false,true")]
    arms = arms_of(sample_points(f"morris:{count}", ranges))
    return elementary_effects(arms.with_columns(mean=function(*(pl.col(key).cast(pl.Float64) for key in KEYS))), KEYS)


def test_a_plane_has_the_effects_of_its_slopes_over_the_whole_ranges_and_no_spread():
    found = screened(lambda take, sellers, orders: 10.0 * take - 0.5 * sellers + 3.0 * orders)
    assert dict(found.schema) == SCREENING_SCHEMA
    assert found["key"].to_list() == [SELLERS, ORDERS, TAKE]
    means = dict(found.select("key", "mean").rows())
    assert means[TAKE] == pytest.approx(2.0)
    assert means[ORDERS] == pytest.approx(3.0)
    assert means[SELLERS] == pytest.approx(-0.5 * 17, rel=0.05)  # whole numbers: a step is not always two thirds
    assert found["mean_size"].to_list() == pytest.approx(found["mean"].abs().to_list())
    assert found.filter(key=TAKE)["spread"].item() == pytest.approx(0.0, abs=1e-4)
    assert found["trajectories"].to_list() == [30] * 3


def test_levers_that_depend_on_one_another_have_a_spread_and_those_that_cancel_a_size():
    found = screened(lambda take, sellers, orders: take * (orders - 0.5) * 20.0)
    take = found.filter(key=TAKE).row(0, named=True)
    assert take["mean_size"] == pytest.approx(2.0)
    assert abs(take["mean"]) < 1.0
    assert take["spread"] > 1.5
    assert found.filter(key=SELLERS).row(0, named=True)["mean_size"] == 0.0


def test_the_interval_of_a_mean_size_covers_that_of_many_trajectories():
    def bent(take, sellers, orders):
        return (10.0 * take) ** 3 + sellers * orders

    whole = dict(screened(bent, 2000).select("key", "mean_size").rows())
    for row in screened(bent, 40).iter_rows(named=True):
        assert row["low"] < whole[row["key"]] < row["high"]


def test_a_trajectory_with_an_undefined_arm_is_left_out():
    ranges = [range_of(f"{TAKE}=0:0.2"), range_of(f"{SELLERS}=3:20")]
    arms = arms_of(sample_points("morris:3", ranges)).with_columns(mean=pl.col(TAKE) * 5.0)
    holed = arms.with_columns(mean=pl.when(pl.int_range(pl.len()) == 4).then(None).otherwise("mean"))
    found = elementary_effects(holed, KEYS[:2])
    assert found["trajectories"].to_list() == [2, 2]
    assert found.filter(key=TAKE)["mean"].item() == pytest.approx(1.0)
    none = arms.with_columns(mean=pl.lit(None, pl.Float64))
    assert elementary_effects(none, KEYS[:2]).height == 0


def test_trajectories_are_known_by_their_moves():
    ranges = [range_of(f"{TAKE}=0:0.2"), range_of(f"{SELLERS}=3:20")]
    arms = arms_of(sample_points("morris:4", ranges))
    assert trajectories(arms, KEYS[:2]) == 4
    assert trajectories(arms[:9], KEYS[:2]) == 3
    assert trajectories(arms[:3], KEYS[:2]) == 0
    assert trajectories(arms[1:10], KEYS[:2]) == 0
    grid = arms_of(grid_points([lever_of(f"{TAKE}=0,0.1,0.2"), lever_of(f"{SELLERS}=3,5")]))
    assert trajectories(grid, KEYS[:2]) == 0
    assert trajectories(arms_of(sample_points("lhs:12", ranges)), KEYS[:2]) == 0


@pytest.mark.parametrize("asked", ["sample", "effects"])
def test_without_the_package_one_line_names_the_extra(asked, monkeypatch):
    monkeypatch.setitem(sys.modules, f"SALib.{'sample' if asked == 'sample' else 'analyze'}.morris", None)
    with pytest.raises(ScenarioError) as caught:
        screened(lambda take, sellers, orders: take)
    assert str(caught.value) == (
        "screening by Morris needs the package SALib: pip install 'neocloud-market[sensitivity]' gets it"
    )


def test_nothing_imports_the_package_before_it_is_needed():
    script = (
        "import sys, experiments.api, experiments.sweeps, experiments.show.report; assert 'SALib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_effects_are_the_same_every_time():
    first, second = (screened(lambda take, sellers, orders: np.e * take * sellers) for _ in range(2))
    assert first.equals(second)
