"""Outer draws: an experiment repeated under a Latin hypercube of what nobody knows.

Every parameter of kind *uncertainty* that has a range for sweeps is drawn, unless the scenario or an arm gives it a
value of its own: what somebody states is no uncertainty. A draw repeats the compared arms with a few of the seeds;
`experiments.measure.stats.effects` turns the draws into a range beside each interval.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.engine.errors import ScenarioError
from experiments.engine.plan import Arm, Plan
from experiments.measure.outer import arm_of_draw
from experiments.measure.records import Floats
from experiments.scenario import Scenario
from market.parameters import ParameterRow, parameter_rows

__all__ = ["draw", "uncertain_keys", "with_draws"]

_SAMPLE_SEED = 0  # of the hypercube, not of runs: the same draws every time
_DIGITS = 6  # of drawn values: enough to fill a range, few enough to read


def uncertain_keys(scenario: Scenario) -> list[str]:
    """Uncertain parameters with a range, in the order of the table, without those that the scenario sets."""
    mine, usual = scenario.values(), Scenario().values()
    return [
        key
        for key, row in parameter_rows().items()
        if row.kind == "uncertainty" and row.sweep_low and mine.get(key) == usual.get(key)
    ]


def draw(keys: list[str], draws: int) -> list[dict[str, float | int]]:
    """Values by key of each draw: a Latin hypercube over the ranges of the parameter table."""
    from scipy.stats.qmc import LatinHypercube

    shares = LatinHypercube(len(keys), seed=np.random.default_rng(_SAMPLE_SEED)).random(draws)
    columns = [_values(parameter_rows()[key], column) for key, column in zip(keys, shares.T, strict=True)]
    return [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(row: ParameterRow, shares: Floats) -> list[float | int]:
    """Values at shares of a parameter's range; whole numbers where its ends are."""
    low, high = float(row.sweep_low), float(row.sweep_high)
    if row.value.lstrip("-").isdecimal():
        return [min(int(low + share * (high - low + 1.0)), int(high)) for share in shares]
    return [float(f"{low + share * (high - low):.{_DIGITS}g}") for share in shares]


def with_draws(plan: Plan, draws: int) -> Plan:
    """The plan with the compared arms repeated under each of ``draws`` draws.

    Raises:
        ScenarioError: nothing is compared, or fewer than one draw.
    """
    if draws < 1:
        raise ScenarioError(f"uncertainty = {draws}; allowed: a whole number of at least 1")
    if not plan.contrasts:
        raise ScenarioError(f"{plan.name}: --uncertainty is for effects, and nothing is compared")
    compared = {name for contrast in plan.contrasts for name in (contrast.arm, contrast.base)}
    arms = [(arm, plan.base.differences(arm.scenario)) for arm in plan.arms if arm.name in compared]
    outer = [
        (arm.name, _under(arm, {key: value for key, value in values.items() if key not in own}, number, draws))
        for number, values in enumerate(draw(uncertain_keys(plan.base), draws), start=1)
        for arm, own in arms
    ]
    digests = {**plan.tables_digest, **{drawn.name: plan.tables_digest[name] for name, drawn in outer}}
    return replace(plan, outer=tuple(drawn for _, drawn in outer), tables_digest=digests)


def _under(arm: Arm, values: dict[str, float | int], number: int, draws: int) -> Arm:
    """An arm under a draw."""
    return Arm(arm_of_draw(arm.name, number, draws), arm.scenario.with_(values, f"draw {number}"))
