"""How often the intervals cover what they should, over made-up experiments of known truth.

Prints the tables of docs/background/statistics.md (two minutes on one core)::

    python benchmarks/intervals.py [--experiments 2000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import exp, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.measure.intervals import bootstrap_t_interval, paired_binary_interval, quantile_interval, too_skewed
from experiments.measure.sequential import stop_at
from experiments.measure.stats import (
    Interval,
    bca_interval,
    paired,
    t_interval,
    welch_interval,
    wilson_interval,
)

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
RARE, RESAMPLES, LEVEL = 0.05, 999, 0.95


class Law(NamedTuple):
    """A law of outcomes: its name, how to draw from it, its mean, other intervals to try beside t."""

    name: str
    draw: Draw
    mean: float
    fitting: dict[str, Callable[[Floats], Interval]]


def _bca(values: Floats) -> Interval:
    return bca_interval(values, LEVEL, resamples=RESAMPLES)


def _wilson(values: Floats) -> Interval:
    return wilson_interval(int(values.sum()), len(values), LEVEL)


def _bootstrap_t(values: Floats) -> Interval:
    return bootstrap_t_interval(values, LEVEL, resamples=RESAMPLES)


BOOTSTRAPS = {"BCa": _bca, "bootstrap-t": _bootstrap_t}
LAWS = (
    Law("normal", lambda g, n: g.normal(1.0, 1.0, n), 1.0, BOOTSTRAPS),
    Law("uniform", lambda g, n: g.uniform(0.0, 1.0, n), 0.5, BOOTSTRAPS),
    Law("exponential", lambda g, n: g.exponential(1.0, n), 1.0, BOOTSTRAPS),
    Law("lognormal, sd of ln 1", lambda g, n: g.lognormal(0.0, 1.0, n), exp(0.5), BOOTSTRAPS),
    Law("rare event, 5 %", lambda g, n: (g.random(n) < RARE).astype(float), RARE, {"Wilson": _wilson}),
)


def covers(found: Interval, truth: float) -> bool:
    """Whether an interval holds the truth; an open side holds everything beyond it."""
    low, high = (-np.inf if found.low is None else found.low), (np.inf if found.high is None else found.high)
    return bool(low <= truth <= high)


def coverage(interval: Callable[[Floats], Interval], draw: Draw, truth: float, n: int, experiments: int) -> float:
    """Share of experiments whose interval holds the truth."""
    generator = np.random.default_rng(n)
    return float(np.mean([covers(interval(draw(generator, n)), truth) for _ in range(experiments)]))


def means(experiments: int) -> Iterator[str]:
    """Coverage of intervals of a mean, and how often a warning is printed."""
    yield "| law | n | t | warned | BCa | bootstrap-t | Wilson |"
    yield "|---|---|---|---|---|---|---|"
    for law in LAWS:
        for n in (16, 64):
            generator = np.random.default_rng(n)
            warned = np.mean([too_skewed(law.draw(generator, n)) for _ in range(experiments)])
            t = coverage(lambda values: t_interval(values, LEVEL), law.draw, law.mean, n, experiments)
            cells = [
                _percent(coverage(law.fitting[name], law.draw, law.mean, n, experiments)) if name in law.fitting else ""
                for name in ("BCa", "bootstrap-t", "Wilson")
            ]
            yield f"| {law.name} | {n} | {_percent(t)} | {_percent(warned)} | {' | '.join(cells)} |"


def others(experiments: int) -> Iterator[str]:
    """Coverage of the intervals of a median and of a paired difference of shares."""
    yield "| what | n | covers |"
    yield "|---|---|---|"
    for n in (16, 64):
        median = coverage(lambda values: quantile_interval(values, 0.5), LAWS[3].draw, 1.0, n, experiments)
        yield f"| median of the lognormal law, order statistics | {n} | {_percent(median)} |"
    for n in (16, 64):
        found = coverage(_changes, lambda g, n: g.random(n), 0.1, n, experiments)
        yield f"| paired yes or no, 15 % up and 5 % down, exact | {n} | {_percent(found)} |"


def _changes(draws: Floats) -> Interval:
    """Pairs of which 15 % go from no to yes and 5 % the other way."""
    up, down = draws < 0.15, draws > 0.95
    base = np.where(down, 1.0, np.where(up, 0.0, (draws > 0.5).astype(float)))
    arm = np.where(up, 1.0, np.where(down, 0.0, base))
    return paired_binary_interval(arm, base, LEVEL)


def sequential(experiments: int) -> Iterator[str]:
    """Coverage at the stop by width on normal outcomes of sd 1, and of as many fresh seeds."""
    yield "| half width wanted | seeds used, mean | covers at the stop | fresh seeds cover |"
    yield "|---|---|---|---|"
    for wanted in (0.5, 0.4, 0.3, 0.2):
        generator = np.random.default_rng(0)
        used, at_stop, fresh = [], [], []
        for _ in range(experiments):
            values = generator.normal(0.0, 1.0, 256)
            n = stop_at(values, wanted, maximum=256) or len(values)
            used.append(n)
            at_stop.append(covers(t_interval(values[:n], LEVEL), 0.0))
            fresh.append(covers(t_interval(generator.normal(0.0, 1.0, n), LEVEL), 0.0))
        shares = f"{_percent(np.mean(at_stop))} | {_percent(np.mean(fresh))}"
        yield f"| {wanted} | {np.mean(used):.0f} | {shares} |"


def pairing(experiments: int) -> Iterator[str]:
    """Width of independent over paired intervals, against theory: the root of 1 / (1 - correlation)."""
    yield "| correlation of the arms | paired covers | width ratio, measured | theory |"
    yield "|---|---|---|---|"
    for rho in (0.5, 0.9, 0.99):
        generator, ratios, covered = np.random.default_rng(1), [], []
        for _ in range(experiments):
            luck, own = generator.normal(size=16), generator.normal(size=(2, 16))
            arm, base = (sqrt(rho) * luck + sqrt(1 - rho) * mine for mine in own)
            ours, theirs = paired(arm, base, LEVEL), welch_interval(arm, base, LEVEL)
            covered.append(covers(ours, 0.0))
            ratios.append((_width(theirs), _width(ours)))
        apart, together = np.square(ratios).mean(axis=0)
        yield f"| {rho} | {_percent(np.mean(covered))} | {sqrt(apart / together):.2f} | {sqrt(1 / (1 - rho)):.2f} |"


def _width(found: Interval) -> float:
    return (found.high or 0.0) - (found.low or 0.0)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiments", type=int, default=2000)
    count = parser.parse_args().experiments
    for table in (means, others, sequential, pairing):
        print("\n".join(table(count)), end="\n\n", flush=True)
