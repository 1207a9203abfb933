from types import SimpleNamespace

import polars as pl
import pytest

from experiments.engine.plan import Arm, Contrast, Screen
from experiments.measure.stats import EFFECTS_SCHEMA, SUMMARY_SCHEMA
from experiments.scenario import Scenario
from experiments.show.words import (
    DEFAULT_SCREENS,
    Numbers,
    cap_sentence,
    cells,
    in_words,
    level_sentence,
    riders,
    says,
    sentence,
    titled,
)

PRICE = Contrast("price effect", "offer", "same-hours", "price effect, anchor off", "the assumed public anchor")
OFF = Contrast("price effect, anchor off", "offer, anchor off", "same-hours, anchor off")
DIMENSIONS = {"vendor": "amd", "sku": "MI300X", "segment": "all", "provider_class": "neocloud+marketplace"}
WINDOW = {"window_first": 1, "window_last": 52}


def effect(contrast, difference, low, high, metric="price_mean", unit="USD/GPU-h", **of):
    row = {"experiment": "x", "contrast": contrast.name, "metric": metric, **DIMENSIONS, **WINDOW, **of, "unit": unit}
    bounds = {"difference": difference, "low": low, "high": high, "level": 0.95, "pairs": 16, "reason": None}
    return row | {"arm": contrast.arm, "base": contrast.base} | bounds


def mean(arm, metric, value):
    row = {"experiment": "x", "arm": arm, "metric": metric, **DIMENSIONS, **WINDOW, "sku": "all", "unit": "1"}
    all_sellers = {"provider_class": "all", "mean": value, "low": value, "high": value, "level": 0.95}
    return row | all_sellers | {"runs": 16, "failed": 0, "reason": None}


def numbers(effects, means=(), weeks=52):
    base = Scenario.load().with_({"weeks": weeks})
    same_hours = base.set("developer_cloud.price_rule", "partners-median")
    plan = SimpleNamespace(
        arms=[Arm("offer", base), Arm("same-hours", same_hours), Arm("other", base.set("lepton.mode", "off"))],
        contrasts=(PRICE, OFF),
        shown_contrasts=lambda: [PRICE],
        shown_arms=lambda: ["offer"],
    )
    return Numbers(
        SimpleNamespace(
            plan=plan,
            shown_summary=pl.DataFrame(list(means), schema=SUMMARY_SCHEMA, orient="row"),
            shown_effects=pl.DataFrame(list(effects), schema=EFFECTS_SCHEMA, orient="row"),
        )
    )


def test_an_effect_whose_interval_includes_zero_is_not_claimed():
    said = sentence(numbers([effect(PRICE, -0.01, -0.03, 0.01)]), PRICE, "price_mean[MI300X]")
    assert said == (
        "No price effect on the GPU-weighted list price of MI300X distinguishable from zero: "
        "−0.010 [−0.030, 0.010] USD/GPU-h (95 % interval, 16 seeds)."
    )


@pytest.mark.parametrize(("difference", "verb"), [(-0.05, "lowers"), (0.05, "raises")])
def test_an_effect_whose_interval_leaves_out_zero_has_a_direction(difference, verb):
    row = effect(PRICE, difference, difference - 0.01, difference + 0.01)
    said = sentence(numbers([row]), PRICE, "price_mean[MI300X]")
    assert f"The price effect {verb} the GPU-weighted list price" in said


def test_an_effect_that_is_exactly_nothing_is_said_to_be_nothing():
    assert "exactly" in sentence(numbers([effect(PRICE, 0.0, 0.0, 0.0)]), PRICE, "price_mean[MI300X]")


def test_one_pair_of_seeds_claims_nothing():
    assert "needs two seeds" in sentence(numbers([effect(PRICE, -1.0, None, None)]), PRICE, "price_mean[MI300X]")


def test_an_undefined_effect_gives_its_reason():
    row = effect(PRICE, None, None, None) | {"reason": "one seller"}
    assert sentence(numbers([row]), PRICE, "price_mean[MI300X]").endswith("is undefined: one seller.")


def test_shares_are_told_in_points():
    row = effect(PRICE, 0.001, 0.0005, 0.0015, "amd_hour_share", "1", sku="all", provider_class="all")
    assert "+0.10 [0.05, 0.15] points" in sentence(numbers([row]), PRICE, "amd_hour_share")


def test_the_first_sentence_says_what_the_assumption_carries_and_how_often_the_cap_binds():
    effects = [effect(PRICE, -0.045, -0.06, -0.03), effect(OFF, -0.009, -0.03, 0.01)]
    means = [mean("offer", "developer_cloud_bind_share", 0.25), mean("offer", "developer_cloud_fill", 0.6)]
    said = says(numbers(effects, means), DEFAULT_SCREENS[0], first=True)
    assert "the assumed public anchor is 80 % of the point estimate; without it the effect is −0.009" in said
    assert "the cap binds in 25 % of the offer's weeks and is 60 % full on average" in said
    assert said.count(".  ") == 0
    assert said.endswith(".")


def test_a_share_of_an_effect_that_may_be_zero_is_called_that():
    effects = [effect(PRICE, -0.01, -0.03, 0.01), effect(OFF, -0.009, -0.03, 0.01)]
    said = says(numbers(effects), DEFAULT_SCREENS[0], first=True)
    assert "a share of something not distinguishable from zero" in said


def test_nothing_is_said_of_a_cap_that_is_the_same_in_both_arms():
    means = [mean("offer", "developer_cloud_bind_share", 0.25), mean("offer", "developer_cloud_fill", 0.6)]
    found = numbers([], means)
    found.contrasts = [Contrast("Lepton", "offer", "other")]
    assert riders(found, DEFAULT_SCREENS[0], first=True) == []


@pytest.mark.parametrize(
    ("window", "weeks"), [("year one", (1, 52)), ("last half-year", (131, 156)), ("whole run", (1, 156))]
)
def test_a_table_shows_the_weeks_it_names(window, weeks):
    first, last = weeks
    there = effect(PRICE, -0.5, -0.6, -0.4) | {"window_first": first, "window_last": last}
    elsewhere = effect(PRICE, 0.1, 0.0, 0.2) | {"window_first": 2, "window_last": 3}
    screen = Screen("Prices", ("price_mean[MI300X]",), window)
    shown = numbers([elsewhere, there], weeks=156).of(screen)
    assert shown.effect("price effect", "price_mean[MI300X]")["difference"] == -0.5
    assert titled(shown, screen) == f"Prices, weeks {first}-{last}"


def test_nothing_is_said_of_a_cap_that_does_not_exist():
    assert cap_sentence(numbers([]), "offer") == ""


@pytest.mark.parametrize(
    ("name", "noun", "actor"),
    [
        ("total", "total effect", "The total effect"),
        ("price effect, off", "price effect (off)", "The price effect (off)"),
        ("effect", "effect", "The effect"),
        ("effect of Lepton", "effect of Lepton", "The effect of Lepton"),
        ("mine", "effect of contrast 'mine'", "Contrast 'mine'"),
        ("60 % leave", "effect of contrast '60 % leave'", "Contrast '60 % leave'"),
        ("1.99, 1,000 GPUs", "effect of contrast '1.99, 1,000 GPUs'", "Contrast '1.99, 1,000 GPUs'"),
        ("effective-cap", "effect of contrast 'effective-cap'", "Contrast 'effective-cap'"),
    ],
)
def test_the_sentence_reads_well_whatever_a_contrast_is_called(name, noun, actor):
    contrast, metric = Contrast(name, "offer", "none"), "price_mean[MI300X]"

    def said(*bounds):
        return sentence(numbers([effect(contrast, *bounds)]), contrast, metric)

    price = "the GPU-weighted list price of MI300X"
    assert said(-0.05, -0.06, -0.04).startswith(f"{actor} lowers {price}: ")
    assert said(0.0, 0.0, 0.0) == f"{actor} leaves {price} exactly as it is in all 16 seeds."
    assert said(-0.01, -0.03, 0.01).startswith(f"No {noun} on {price} distinguishable from zero: ")
    assert said(0.1, None, None).startswith(f"The {noun} on {price} is +0.100")
    assert said(None, None, None).startswith(f"The {noun} on {price} is undefined")


def test_a_level_is_told_with_its_interval():
    row = mean("offer", "amd_hour_share", 0.05) | {"low": 0.04, "high": 0.06, "vendor": "amd"}
    said = level_sentence(numbers([], [row]), "offer", "amd_hour_share")
    assert said == "AMD's share of GPU-hours in offer is 5.00 [4.00, 6.00] % (95 % interval, 16 seeds)."


def test_names_can_be_read():
    assert in_words("operating_margin[neocloud amd-heavy]") == "the operating margin of AMD-heavy neoclouds"
    assert in_words("unmet_work") == "unmet work"


def passed(difference, low, high, reason=None):
    row = effect(PRICE, difference, low, high, metric="pass_through", unit="1")
    return row | {"reason": reason}


def test_what_leases_pay_of_an_effect_on_list_prices_is_said_beside_it():
    found = numbers([effect(PRICE, -0.1, -0.15, -0.05), passed(0.174, 0.09, 0.26)])
    screen = Screen("Rents", ("price_mean[MI300X]", "pass_through[MI300X]"))
    assert "; what leases pay moves by 17 % [9, 26] of it" in says(found, screen, first=False)
    assert riders(found, Screen("Rents", ("price_cv[MI300X]",)), first=False) == []
    assert list(cells(found, "pass_through[MI300X]"))[-1] == "17.40 [9.00, 26.00]"
    assert found.measured() == ["price_mean[MI300X]", "pass_through[MI300X]"]


def test_a_part_of_an_effect_is_no_rise_or_fall_and_without_an_effect_gives_its_reason():
    told = sentence(numbers([passed(0.174, 0.09, 0.26)]), PRICE, "pass_through[MI300X]")
    assert told == (
        "What leases pay moves by 17 % [9, 26] of the price effect on the GPU-weighted list price of MI300X "
        "(95 % interval, 16 seeds)."
    )
    nothing = numbers([effect(PRICE, 0.0, -0.1, 0.1), passed(None, None, None, "there is nothing to pass on")])
    assert sentence(nothing, PRICE, "pass_through[MI300X]").endswith("is undefined: there is nothing to pass on.")
    assert riders(nothing, Screen("Rents", ("price_mean[MI300X]",)), first=False) == []
