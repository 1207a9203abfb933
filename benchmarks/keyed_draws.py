"""How many runs keyed draws save, for the effect of the Developer Cloud on AMD's share of GPU-hours.

Both arms of a pair have the same seed, so the same luck. Independent seeds would need (variance with the offer + that
without) / (variance of the paired difference) times as many runs for an interval of the same width. Run it from the
project's folder; it goes on where it was stopped::

    python benchmarks/keyed_draws.py [--seeds 64] [--out out/keyed-draws]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments import compare

LEVEL, RESAMPLES, WINDOW_WEEKS = 0.95, 9999, 26

FIXED = "+".join(f"pricing.{name}_rule=fixed" for name in ("neocloud", "marketplace", "hyperscaler"))
CASES = {
    "prices fixed, 26 weeks": (f"baseline-2025+{FIXED}", 26, 1.0),
    "everything endogenous, 26 weeks": ("baseline-2025", 26, 1.0),
    "everything endogenous, 52 weeks": ("baseline-2025", 52, 1.0),
    "everything endogenous, 156 weeks": ("baseline-2025", 156, 0.5),
}
"""Scenario, weeks, and share of the seeds asked for."""


class Saving(NamedTuple):
    """What pairing saves in one case: factor with its bootstrap interval, and pairs whose sign is the other one."""

    seeds: int
    effect: float
    factor: float
    low: float
    high: float
    opposite: float


def shares(scenario: str, weeks: int, seeds: int, out: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """AMD's share over the last 26 weeks with and without the offer, by seed."""
    offer, none = scenario, f"{scenario}+developer_cloud.cap_gpus=0"
    results = compare(none, offer, seeds=seeds, weeks=weeks, out=out)
    mine = results.outcomes.filter(
        metric="amd_hour_share", provider_class="all", segment="all", window_last=weeks, window_first=weeks - 25
    )
    table = (
        results.runs.join(mine, left_on="id", right_on="run").pivot("arm", index="seed", values="value").sort("seed")
    )
    without, with_offer = (
        table[contrast].to_numpy() for contrast in (results.plan.arms[0].name, results.plan.arms[1].name)
    )
    return with_offer, without


def factor(with_offer: NDArray[np.float64], without: NDArray[np.float64]) -> NDArray[np.float64]:
    """Runs saved, along the last axis."""
    apart = with_offer.var(axis=-1, ddof=1) + without.var(axis=-1, ddof=1)
    return np.asarray(apart / (with_offer - without).var(axis=-1, ddof=1))


def saving(with_offer: NDArray[np.float64], without: NDArray[np.float64]) -> Saving:
    """The factor with a percentile interval over resampled seeds."""
    draws = np.random.default_rng(0).integers(0, len(without), (RESAMPLES, len(without)))
    low, high = np.quantile(factor(with_offer[draws], without[draws]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    difference = with_offer - without
    opposite = float((np.sign(difference) == -np.sign(difference.mean())).mean())
    found = float(factor(with_offer, without))
    return Saving(len(without), float(difference.mean()), found, float(low), float(high), opposite)


def lines(seeds: int, out: Path) -> Iterator[str]:
    """The table of the documentation, a line at a time."""
    yield "| case | seeds | effect, points | runs saved | 95 % interval | pairs of opposite sign |"
    yield "|---|---|---|---|---|---|"
    for name, (scenario, weeks, part) in CASES.items():
        folder = out / name.replace(" ", "-").replace(",", "")
        found = saving(*shares(scenario, weeks, round(seeds * part), folder))
        bounds = f"{found.low:.1f} to {found.high:.1f}"
        effect, opposite = f"{100 * found.effect:+.2f}", f"{100 * found.opposite:.0f} %"
        yield f"| {name} | {found.seeds} | {effect} | {found.factor:.1f} | {bounds} | {opposite} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("out/keyed-draws"))
    arguments = parser.parse_args()
    for line in lines(arguments.seeds, arguments.out):
        print(line, flush=True)
