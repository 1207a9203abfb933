from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import sweep
from experiments.engine.errors import ScenarioError
from experiments.points import Lever, grid_points, lever_of, table_points
from experiments.samples import range_of, sample_points
from experiments.scenario import Scenario
from experiments.sweeps import planned, points_of

CAP, TAKE = "developer_cloud.cap_gpus", "lepton.take_rate"


def arms(points, **options):
    return planned("baseline-2025", points, weeks=2, seeds=2, **options).arms


def test_a_grid_has_every_combination_and_the_first_lever_moves_slowest():
    points = points_of(grid=[f"{CAP}=0,1000", f"{TAKE}=0,0.1,0.2"])
    assert [tuple(point.values.values()) for point in points] == [
        (cap, take) for cap in (0, 1000) for take in (0, 0.1, 0.2)
    ]
    assert points[3].name == "cap_gpus=1000, take_rate=0"


def test_a_range_has_no_rounding_surprises():
    assert [step for (step,) in lever_of(f"{TAKE}=0.1:0.5:0.1").steps] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert [step for (step,) in lever_of(f"{TAKE}=0.5:0.1:-0.2").steps] == [0.5, 0.3, 0.1]
    assert [step for (step,) in lever_of(f"{TAKE}=0:1:0.3").steps] == [0.0, 0.3, 0.6, 0.9]


@given(st.integers(-500, 500), st.integers(0, 300), st.sampled_from([1, 2, 5, 10, 25]))
def test_a_range_in_hundredths_is_the_numbers_one_would_type(low, count, step):
    texts = [f"{(low + index * step) / 100:.2f}" for index in range(count + 1)]
    lever = lever_of(f"{TAKE}={texts[0]}:{texts[-1]}:{step / 100}")
    assert [value for (value,) in lever.steps] == [float(text) for text in texts]


def test_several_keys_move_together():
    (lever,) = [lever_of("weeks,demand.regime=26|true,52|false")]
    assert lever == Lever(("weeks", "demand.regime"), ((26, True), (52, False)))
    assert lever == points_lever({("weeks", "demand.regime"): [(26, True), (52, False)]})


def points_lever(grid):
    (keys,) = grid
    points = points_of(grid=grid)
    return Lever(keys, tuple(tuple(point.values.values()) for point in points))


def test_null_leaves_a_key_as_the_scenario_has_it():
    base = Scenario.load()
    cell = "data.hardware.MI355X.capex_usd"
    without, with_ = arms(points_of(grid=[f"{cell}=null,40000"]))
    assert cell not in without.values()
    assert with_.values()[cell] == 40000
    assert arms(points_of(grid={CAP: [None, 0.0]}))[0].scenario.developer_cloud == base.developer_cloud


def test_a_parameter_that_is_absent_in_some_arms_is_null_in_the_table(fake_market, no_figures, in_folder):
    results = sweep(grid=["data.hardware.MI355X.capex_usd=null,40000"], seeds=1, weeks=2, workers=1)
    assert results.runs["data.hardware.MI355X.capex_usd"].to_list() == [None, 40000]


def test_a_table_has_an_arm_a_row_with_a_name_and_seeds_of_its_own(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text(f"arm,seeds,{CAP},{TAKE}\nfew,,300,\nmany,5,3000,0.2\n", encoding="utf-8")
    few, many = arms(table_points(path))
    assert (few.name, few.seeds, few.scenario.developer_cloud.cap_gpus) == ("few", (), 300)
    assert few.scenario.lepton == Scenario.load().lepton
    assert (many.name, many.seeds, many.scenario.lepton.take_rate) == ("many", (1, 2, 3, 4, 5), 0.2)


@pytest.mark.parametrize("kind", ["lhs:16", "sobol:16", "morris:4"])
def test_a_sample_stays_in_its_ranges_and_is_the_same_every_time(kind):
    ranges = [
        range_of(f"{TAKE}=0:0.2"),
        range_of("choice.search_sellers=3:20"),
        range_of("capacity.orders=true,false"),
        range_of("pricing.floor_factor=0.01:1:log"),
    ]
    points = sample_points(kind, ranges)
    assert points == sample_points(kind, ranges)
    assert points != sample_points(kind, ranges, seed=1)
    for point in points:
        assert 0 <= point.values[TAKE] <= 0.2
        assert point.values["choice.search_sellers"] in range(3, 21)
        assert point.values["capacity.orders"] in (True, False)
        assert 0.01 <= point.values["pricing.floor_factor"] <= 1
    assert all(not arm.problem for arm in arms(points, sampled=True))


def test_a_latin_hypercube_has_one_point_in_every_slice_of_every_lever():
    points = sample_points("lhs:10", [range_of(f"{TAKE}=0:0.1"), range_of(f"{CAP}=0:1000")])
    assert sorted(int(point.values[TAKE] * 100) for point in points) == list(range(10))
    assert sorted(int(point.values[CAP] / 100) for point in points) == list(range(10))


def test_a_trajectory_of_morris_moves_one_lever_at_a_time_and_every_lever_once():
    points = sample_points("morris:5", [range_of(f"{TAKE}=0:0.3"), range_of(f"{CAP}=0:900"), range_of("weeks=1:100")])
    assert len(points) == 5 * 4
    for start in range(0, 20, 4):
        steps = [tuple(point.values.values()) for point in points[start : start + 4]]
        moved = [[a != b for a, b in zip(one, two, strict=True)] for one, two in pairwise(steps)]
        assert [sum(move) for move in moved] == [1, 1, 1]
        assert [any(column) for column in zip(*moved, strict=True)] == [True, True, True]


def test_a_key_alone_is_swept_over_the_range_of_the_parameter_table():
    assert (range_of(TAKE).low, range_of(TAKE).high) == (0.0, 0.2)
    assert range_of("choice.search_sellers").whole


def test_arms_with_their_own_seeds_share_none():
    found = arms(points_of(grid=[f"{CAP}=0,1,2"]), own_seeds=True, first_seed=5)
    assert [arm.seeds for arm in found] == [(5, 6), (7, 8), (9, 10)]


def test_every_arm_of_a_grid_is_compared_with_the_first(fake_market, no_figures, in_folder):
    results = sweep(grid={CAP: [0, 1000, 2000]}, seeds=3, weeks=2, workers=1)
    prices = results.effects.filter(metric="price_mean", sku="H100")
    assert prices["base"].unique().to_list() == ["cap_gpus=0"]
    assert prices["difference"].to_list() == pytest.approx([-0.01, -0.02])


def test_an_impossible_point_is_rows_and_the_others_are_run(fake_market, no_figures, in_folder):
    results = sweep(grid=[f"{CAP}=0,20000,1000"], seeds=2, weeks=2, workers=1)
    assert results.runs["status"].to_list() == ["ok", "ok", "invalid", "invalid", "ok", "ok"]
    assert "allowed: 0 to developer_cloud.firm_gpus = 10000" in results.runs["message"][2]
    assert results.runs[CAP].to_list() == [0, 0, 20000, 20000, 1000, 1000]
    assert [contrast.arm for contrast in results.plan.contrasts] == ["cap_gpus=1000"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"grid": ["developer_cloud.cap_gpu=1"]},
            "unknown key developer_cloud.cap_gpu; nearest: developer_cloud.cap_g",
        ),
        ({"grid": [CAP]}, "not of the form key=a,b,c"),
        ({"grid": [f"{CAP}="]}, "no value"),
        ({"grid": [f"{CAP}=1:2"]}, "'1:2'"),
        ({"grid": [f"{CAP}=1:2:0"]}, "goes nowhere"),
        ({"grid": [f"{CAP}=2:1:1"]}, "goes nowhere"),
        ({"grid": [f"{CAP}=0:nan:1"]}, "goes nowhere"),
        ({"grid": [f"{CAP}=0:1e9:1"]}, "1000000001 steps"),
        ({"grid": [f"{CAP}=1", f"{CAP}=2"]}, "swept twice"),
        ({"grid": [f"{CAP}=1,1.0"]}, "two arms are 'cap_gpus=1'"),
        ({"grid": [f"{CAP},weeks=1|2,3"]}, "'3' has 1 values; allowed: 2"),
        ({"grid": {(CAP, "weeks"): [(1,)]}}, "allowed: 2 values"),
        ({"grid": [f"{CAP}=20000"]}, "firm_gpus = 10000"),
        ({"grid": [f"{CAP}=cheap"]}, "= 'cheap'; allowed: a number"),
        ({"grid": [f"{CAP}=nan"]}, "= nan; allowed: a number"),
        ({}, "needs one of grid, sample and table; given: none"),
        ({"grid": [f"{CAP}=1"], "sample": "lhs:4"}, "given: grid and sample"),
        ({"sample": "lhs:4"}, "no levers"),
        ({"sample": "lhd:4", "ranges": [TAKE]}, "unknown sample 'lhd'; nearest: lhs"),
        ({"sample": "lhs:0", "ranges": [TAKE]}, "allowed: lhs:N"),
        ({"sample": "sobol:100", "ranges": [TAKE]}, "nearest: 64 or 128"),
        ({"sample": "lhs:4", "ranges": [f"{TAKE}=1:0"]}, "allowed: lo < hi"),
        ({"sample": "lhs:4", "ranges": [f"{TAKE}=0:1:log"]}, "allowed: 0 < lo < hi"),
        ({"sample": "lhs:4", "ranges": ["weeks"]}, "weeks has no range of its own; give weeks=lo:hi"),
        ({"sample": "lhs:4", "ranges": {TAKE: (0, 0.1), CAP: "1:b"}}, "allowed: key=lo:hi"),
        ({"table": "absent.csv"}, "absent.csv: No such file"),
        ({"grid": [f"{CAP}=1"], "show": ["amd_hour"]}, "no such outcome; nearest: amd_hour_share"),
        ({"grid": [f"{CAP}=1"], "executor": "slurm"}, "executor = 'slurm'; allowed: local, dask"),
        ({"grid": [f"{CAP}=1"], "timeout": 0}, "allowed: more than 0 seconds"),
    ],
)
def test_a_bad_sweep_is_refused_in_one_line_and_nothing_is_written(arguments, told, fake_market, in_folder):
    with pytest.raises(ScenarioError) as caught:
        sweep(seeds=1, weeks=1, workers=1, **arguments)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(in_folder.iterdir())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no rows"),
        (f"{CAP}\n", "no rows"),
        (f"{CAP},weeks\n1\n", "line 2: 1 cells; allowed: 2"),
        (f"{CAP},{CAP}\n1,2\n", "swept twice"),
        ("developer_cloud.cap\n1\n", "line 2: unknown key developer_cloud.cap"),
        (f"{CAP},seeds\n1,-2\n", "line 2, column seeds: '-2'"),
    ],
)
def test_a_bad_table_is_refused_with_file_and_line(text, told, tmp_path):
    path = tmp_path / "points.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        table_points(path)
    assert str(path) in str(caught.value) or "swept twice" in told
    assert told in str(caught.value)


def test_names_of_points_are_as_short_as_they_can_be():
    (point,) = grid_points([Lever(("leaseback.share", "buyback.share", "weeks"), ((0.5, 0.25, 3),))])
    assert point.name == "leaseback.share=0.5, buyback.share=0.25, weeks=3"
