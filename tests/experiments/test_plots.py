"""What figures show is what the tables hold, and nothing in them runs into anything else."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from itertools import pairwise

import polars as pl
import pytest
from scipy import stats as scipy_stats

from experiments import Scenario, ScenarioError, api
from experiments.engine.plan import Arm, Contrast, Screen, make_plan
from experiments.show import plots
from experiments.show.figures import Drawing, drawings
from experiments.show.words import Numbers
from tests.experiments.legible import outside, overlapping, texts

AXIS = plots.Axis("list price, USD per GPU-hour", "USD per GPU-hour")
BILLS = pl.DataFrame(
    {
        "payer": ["tenants", "tenants"],
        "payee": ["neoclouds", "AMD"],
        "meaning": ["rent", "rent"],
        "usd_bn": [12.5, 0.02],
    }
)
SCHEMA = ["line", "panel", "week", "seed", "value"]


def prices(seeds: int = 4, weeks: int = 3, arms: tuple[str, ...] = ("none", "offer")) -> pl.DataFrame:
    rows = [
        (arm, sku, week, seed, 2.0 + seed + week - (arm == "offer"))
        for arm in arms
        for sku in ("H100", "MI300X")
        for seed in range(seeds)
        for week in range(weeks)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def at(table: pl.DataFrame, **where: object) -> dict[str, float]:
    return table.filter(**where).row(0, named=True)


def test_bands_of_means_are_t_intervals_over_seeds():
    first = at(plots.intervals(prices(), 0.9), line="none", panel="H100", week=0)
    half = scipy_stats.t.ppf(0.95, 3) * math.sqrt(pl.Series([2.0, 3.0, 4.0, 5.0]).var() / 4)
    assert (first["seeds"], first["middle"]) == (4, 3.5)
    assert (first["low"], first["high"]) == pytest.approx((3.5 - half, 3.5 + half), abs=1e-12)


def test_fans_hold_half_and_nine_tenths_of_the_seeds():
    first = at(plots.quantiles(prices(seeds=21)), line="none", panel="H100", week=0)
    assert [first[name] for name in ("low", "inner_low", "middle", "inner_high", "high")] == [
        3.0,
        7.0,
        12.0,
        17.0,
        21.0,
    ]


def test_one_seed_has_no_band():
    assert plots.intervals(prices(seeds=1), 0.9)["low"].null_count() == 12


def test_differences_are_taken_seed_by_seed():
    found = plots.seed_differences(prices(), [("effect", "offer", "none")])
    assert found["line"].unique().to_list() == ["effect"]
    assert found["value"].to_list() == [-1.0] * 24


def test_a_seed_that_failed_in_one_arm_is_in_no_difference():
    values = prices().filter(~((pl.col("line") == "none") & (pl.col("seed") == 2)))
    assert set(plots.seed_differences(values, [("effect", "offer", "none")])["seed"]) == {0, 1, 3}


def test_paths_show_levels_and_paired_differences():
    figure = plots.paths(prices(), ["none", "offer"], ["H100"], AXIS, 0.95)
    levels, differences = figure.axes
    assert [line.get_gid() for line in levels.lines] == ["none", "offer"]
    assert differences.lines[-1].get_ydata().tolist() == [-1.0, -1.0, -1.0]
    assert "USD per GPU-hour" in levels.get_ylabel().replace("\n", " ")


def test_a_figure_is_the_same_bytes_each_time(tmp_path):
    for name in ("a", "b"):
        plots.save(plots.paths(prices(), ["none", "offer"], ["H100"], AXIS, 0.95), tmp_path, name)
    for kind in ("png", "svg"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


# ------------------------------------------------------------------------------------------------ one by one


@pytest.fixture(scope="module")
def compared(faked_results) -> api.Results:
    """Three arms of three seeds: two contrasts."""
    return faked_results(_plan(["none", "small", "large"], 3))


def test_a_figure_is_had_by_the_name_of_its_file_and_is_that_of_the_report(compared):
    for drawing in drawings(compared, Numbers(compared)):
        asked = compared.figure(drawing.name)
        assert (asked.name, asked.caption, asked.alt) == (drawing.name, drawing.caption, drawing.alt)


def test_a_figure_that_is_not_there_is_refused_with_the_names_there_are(compared):
    with pytest.raises(ScenarioError, match=r"'price_pths'; allowed: price_paths, .*nearest: price_paths"):
        compared.figure("price_pths")
    with pytest.raises(ScenarioError, match="holds nothing that it could show"):
        compared.figure("dispersion")  # the small simulation has prices alone


def test_a_notebook_shows_picture_and_caption_and_none_of_it_is_markup():
    drawing = Drawing("x", "X", plots.paths(prices(), ["none"], ["H100"], AXIS, 0.9), "a < b", 'say "x"')
    page = drawing._repr_html_()
    assert 'alt="say &quot;x&quot;"' in page
    assert "<figcaption>a &lt; b</figcaption>" in page
    picture = b64decode(re.search(r"base64,([^\"]+)", page)[1])
    assert picture.startswith(b"\x89PNG")
    assert repr(drawing) == "X: a < b"


def test_dots_and_bars_are_the_effects_of_the_table(compared):
    figure = compared.effects_figure("price_mean[H100]").figure
    rows = compared.effects.filter(pl.col("metric") == "price_mean", pl.col("sku") == "H100")
    (panel,) = figure.axes
    assert panel.lines[-1].get_xdata().tolist() == rows["difference"].to_list()
    bars = [segment[:, 0].tolist() for segment in panel.collections[0].get_segments()]
    assert bars == [list(bounds) for bounds in rows.select("low", "high").rows()]
    assert [tick.get_text().replace("\n", " ") for tick in panel.get_yticklabels()] == rows["contrast"].to_list()


def test_the_table_of_effects_holds_what_the_figure_shows_and_says_why_a_row_is_empty(compared):
    table = compared.effects_table("price_mean[H100]", "half_life[H100]")
    rows = compared.effects.filter(pl.col("metric").is_in(["price_mean", "half_life"]), pl.col("sku") == "H100")
    assert table["contrast"].to_list() == ["effect of small", "effect of large"] * 2
    assert table["low"].head(2).to_list() == rows.filter(metric="price_mean")["low"].to_list()
    assert table["reason"].tail(2).to_list() == rows.filter(metric="half_life")["reason"].to_list()
    assert table["reason"].null_count() == 2


def test_effects_of_what_was_not_measured_are_refused_with_the_nearest_name(compared):
    with pytest.raises(ScenarioError, match=r"no outcome 'price_mean\[H10\]'.*nearest: price_mean\[H100\]"):
        compared.effects_figure("price_mean[H10]")
    with pytest.raises(ScenarioError, match="window 'year'; allowed: year one, last half-year, whole run"):
        compared.effects_figure("price_mean[H100]", window="year")
    with pytest.raises(ScenarioError, match="holds none"):
        compared.effects_figure()


# ------------------------------------------------------------------------------------------------ can it be read


LONG = "developer_cloud.price_usd_per_gpu_hour=1.49, pricing.anchor_weight=0, ..."


def _plan(arms: list[str], seeds: int, skus: tuple[str, ...] = ("MI300X", "H100")) -> api.Plan:
    """Arms with any names, the first against each of the others."""
    base = Scenario.load().with_({"weeks": 3})
    scenarios = [base.set("developer_cloud.cap_gpus", 10.0 * number) for number in range(len(arms))]
    return make_plan(
        "shown",
        base,
        [Arm(name, scenario) for name, scenario in zip(arms, scenarios, strict=True)],
        seeds=seeds,
        contrasts=[Contrast(f"effect of {name}", name, arms[0]) for name in arms[1:]],
        screens=[Screen("Prices", tuple(f"price_mean[{sku}]" for sku in skus))],
    )


CASES = {
    "one arm, one seed": (["baseline-2025"], 1),
    "two arms, one with a long name and a price in dollars": (["a $1.99 offer for $1", LONG], 3),
    "five arms": (["none", "same-hours", "offer", "same-hours, anchor off", "offer, anchor off"], 3),
    "seven arms": ([f"cap of {number},000 GPUs" for number in range(7)], 2),
}


@pytest.fixture(scope="module", params=CASES, ids=list(CASES))
def drawn(request, faked_results) -> list[Drawing]:
    arms, seeds = CASES[request.param]
    results = faked_results(_plan(arms, seeds))
    found = list(drawings(results, Numbers(results)))
    assert {"price_paths", "price_fans", "money_flow"} <= {drawing.name for drawing in found}
    return found


def test_no_text_of_a_figure_lies_on_another_or_leaves_it(drawn):
    for drawing in drawn:
        assert overlapping(drawing.figure) == [], drawing.name
        assert outside(drawing.figure) == [], drawing.name


def test_a_test_of_overlap_sees_an_overlap():
    figure = plots.paths(prices(), ["none", "offer"], ["H100"], AXIS, 0.95)
    figure.text(0.5, 0.5, "here")
    figure.text(0.505, 0.5, "there")
    assert ("here", "there") in overlapping(figure)


def test_a_dollar_sign_is_never_mathematics(drawn):
    for drawing in drawn:
        for text, _ in texts(drawing.figure):
            assert not re.search(r"(?<!\\)\$", text), text


def test_every_figure_says_unit_seeds_and_what_its_band_is(drawn):
    for drawing in drawn:
        said = " ".join(text for text, _ in texts(drawing.figure)).replace("\n", " ")
        assert re.search(r"USD|%|coefficient|sellers", said), drawing.name
        assert re.search(r"\d+ seeds|one seed|One seed", said), drawing.name
        assert re.search(r"band", said), drawing.name
        assert re.search(r"seeds? \d", drawing.caption), drawing.name
        assert drawing.alt


def test_one_panel_never_holds_more_lines_than_can_be_told_apart(drawn):
    for drawing in drawn:
        assert max(len(panel.lines) for panel in drawing.figure.axes) <= plots.MOST_ARMS + 1  # and the line of zero


def test_arms_that_are_not_drawn_are_named(faked_results):
    results = faked_results(_plan([f"arm {number}" for number in range(7)], 2))
    paths = next(iter(drawings(results, Numbers(results))))
    assert "Not drawn: arm 5, arm 6." in paths.caption


def test_a_figure_is_light(drawn, tmp_path):
    for drawing in drawn:
        png, svg = plots.save(drawing.figure, tmp_path, drawing.name)
        assert svg.stat().st_size < 300_000
        assert png.stat().st_size < 500_000


def test_colours_can_be_told_apart_in_grey():
    """Okabe and Ito's colours differ in hue; dashes differ for who sees none."""
    assert len(set(map(str, plots.DASHES))) == len(plots.COLOURS)
    assert all(one != other for one, other in pairwise(plots.COLOURS))


def test_the_map_of_money_shows_every_flow_that_can_be_seen():
    figure = plots.money_flow(BILLS, ["tenants", "neoclouds", "AMD"], "offer", 3)
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown == ["12.5", "0.020"]
    assert overlapping(figure) == []
