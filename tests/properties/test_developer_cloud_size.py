"""The developer cloud's effect is bounded by its quantity: it cannot do more than the hours it sells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from experiments.scenario import Scenario
from market.clearing.posted import ClearingParameters, Queue, clear
from tests.worlds import FIXED_RIVALS, OFFER, SAME_HOURS, RunTables, amd_gpus, cloud_gpus, tables_of

CAPS = (0.0, 100.0, 1_000.0, 10_000.0)
START_WEEK = 2
WEEKS = 14
ROWS = 400
SELLING_ARMS: Mapping[str, Mapping[str, Any]] = {"offer": OFFER, "same-hours": SAME_HOURS}


def _scenario(cap_gpus: float, rows: int = ROWS, **changes: Any) -> Scenario:
    return Scenario.load().with_({"tenants.rows": rows, "developer_cloud.cap_gpus": cap_gpus, **changes})


@cache
def _run(cap_gpus: float, seed: int, weeks: int, arm: str = "offer", rows: int = ROWS) -> RunTables:
    return tables_of(_scenario(cap_gpus, rows, **SELLING_ARMS[arm]), seed, weeks)


@pytest.mark.parametrize("arm", SELLING_ARMS)
@pytest.mark.parametrize("cap_gpus", CAPS)
def test_developer_cloud_hours_never_exceed_the_cap(cap_gpus: float, arm: str) -> None:
    for seed in range(3):
        sold = cloud_gpus(_run(cap_gpus, seed, WEEKS, arm))
        assert (sold <= cap_gpus * (1.0 + 1e-9)).all()
        assert (sold[:START_WEEK] == 0.0).all()


@pytest.mark.parametrize("seed", range(3))
def test_developer_cloud_hours_rise_in_the_cap(seed: int) -> None:
    hours = [cloud_gpus(_run(cap, seed, WEEKS)).sum() for cap in CAPS]
    assert hours[0] == 0.0
    assert (np.diff(hours) > 0.0).all(), hours


# ------------------------------------------------------------------------------------------------ rivals fixed


@cache
def _first_week_amd_gpus(cap_gpus: float, seed: int) -> float:
    """AMD GPUs of end tenants, the cloud's included, in the first policy week, rivals' prices fixed."""
    return float(amd_gpus(tables_of(_scenario(cap_gpus, 2000, **FIXED_RIVALS), seed, START_WEEK))[START_WEEK])


@pytest.mark.parametrize("cap_gpus", CAPS[1:])
def test_with_fixed_rivals_the_first_weeks_effect_on_amd_gpus_lies_between_zero_and_the_cap(cap_gpus: float) -> None:
    # So in all of 48 seeds when last tried; in markets of fewer rows or short of GPUs some seeds leave the bounds, by
    # the ways that are worked out below.
    for seed in range(6):
        effect = _first_week_amd_gpus(cap_gpus, seed) - _first_week_amd_gpus(0.0, seed)
        assert -1e-6 <= effect <= cap_gpus + 1e-6, seed


# The bounds are no theorem. A week of two lots (Nvidia's N, an AMD seller's A) and the desk D shows how they break:

N, A, D = 0, 1, 2
NONE = -1


@dataclass(frozen=True)
class Worked:
    """Two tenants in order of service; rankings without and with the desk, GPUs by lot, the effect on AMD GPUs."""

    need: tuple[float, float]
    work_per_gpu: tuple[tuple[float, float, float], tuple[float, float, float]]
    rankings: tuple[tuple[int, ...], tuple[int, ...]]
    free_gpus: tuple[float, float, float]
    effect: float
    tried_maximum: int = 3

    def amd_gpus(self, with_desk: bool) -> float:
        """GPUs of AMD taken, the desk's included."""
        lots = np.full((2, 3), NONE)
        for tenant, ranking in enumerate(self.rankings):
            open_lots = [lot for lot in ranking if with_desk or lot != D][: self.tried_maximum]
            lots[tenant, : len(open_lots)] = open_lots
        need, work = np.array(self.need), np.array(self.work_per_gpu)
        queue = Queue(need, need, lots, np.take_along_axis(work, np.maximum(lots, 0), axis=1), np.full((2, 3), np.inf))
        taken = clear(queue, np.array(self.free_gpus), ClearingParameters()).taken_gpus
        return float(taken[(lots == A) | (lots == D)].sum())


WORKED = {
    # The first tenant goes to the desk and leaves 7 H100 to the second, who had to take 14 AMD GPUs of half the work.
    "freed Nvidia GPUs draw others from AMD": Worked(
        need=(10.0, 7.0),
        work_per_gpu=((1.0, 0.7, 0.7), (1.0, 0.5, 0.5)),
        rankings=((D, N), (N, A)),
        free_gpus=(10.0, 100.0, 10.0),
        effect=10.0 - 14.0,
    ),
    # 12 GPUs of the desk bring a tenant so near its need that it stops before its last resort, 20 AMD GPUs.
    "a tenant stops a little earlier": Worked(
        need=(100.0, 1.0),
        work_per_gpu=((1.0, 0.5, 0.7), (1.0, 0.5, 0.5)),
        rankings=((D, N, A), ()),
        free_gpus=(90.0, 100.0, 12.0),
        effect=12.0 - 20.0,
    ),
    # A tenant looks at so many offers and no more: the desk takes the place of the last one, and is too small to help.
    "the desk takes the place of another offer": Worked(
        need=(1000.0, 1.0),
        work_per_gpu=((1.0, 0.5, 0.5), (1.0, 0.5, 0.5)),
        rankings=((D, N, A), ()),
        free_gpus=(900.0, 1000.0, 10.0),
        effect=-200.0,
        tried_maximum=2,
    ),
    # A rest of 1 GPU was not worth a lease to the second tenant; with 10 more it is, and the seller sells 11, not 10.
    "freed AMD GPUs make a rest worth a lease": Worked(
        need=(5.0, 100.0),
        work_per_gpu=((1.0, 0.5, 0.5), (1.0, 0.5, 0.5)),
        rankings=((D, A), (A,)),
        free_gpus=(0.0, 11.0, 10.0),
        effect=10.0 + 11.0 - 10.0,
    ),
}


@pytest.mark.parametrize("case", WORKED.values(), ids=WORKED.keys())
def test_worked_cases_in_which_the_first_weeks_effect_leaves_its_bounds(case: Worked) -> None:
    effect = case.amd_gpus(with_desk=True) - case.amd_gpus(with_desk=False)
    assert effect == pytest.approx(case.effect)
    assert not 0.0 <= effect <= case.free_gpus[D]


# ------------------------------------------------------------------------------------------------ rivals answer


def _mean_effects(cap_gpus: float, seeds: Sequence[int], weeks: int, rows: int) -> tuple[float, float]:
    """Mean effect on AMD GPUs over the policy weeks, and half the width of its 95 % interval, paired by seed."""
    effects = [
        (amd_gpus(_run(cap_gpus, seed, weeks, rows=rows)) - amd_gpus(_run(0.0, seed, weeks, rows=rows)))[START_WEEK:]
        for seed in seeds
    ]
    by_seed: NDArray[np.float64] = np.array(effects).mean(axis=1)
    half = stats.t.ppf(0.975, len(seeds) - 1) * by_seed.std(ddof=1) / np.sqrt(len(seeds))
    return float(by_seed.mean()), float(half)


def _is_bounded_and_grows(seeds: Sequence[int], weeks: int, rows: int) -> None:
    effects = {cap: _mean_effects(cap, seeds, weeks, rows) for cap in (1_000.0, 10_000.0)}
    for cap, (mean, half) in effects.items():
        assert abs(mean) <= 2.0 * cap + half, effects
    assert effects[10_000.0][0] > effects[1_000.0][0], effects


def test_with_rivals_that_answer_the_effect_on_amd_hours_is_bounded_and_grows_with_the_cap() -> None:
    _is_bounded_and_grows(range(6), weeks=WEEKS, rows=ROWS)


@pytest.mark.soak
def test_over_sixteen_seeds_and_a_year_the_effect_on_amd_hours_is_bounded_and_grows_with_the_cap() -> None:
    _is_bounded_and_grows(range(16), weeks=52, rows=2000)
