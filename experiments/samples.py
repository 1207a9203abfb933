"""Samples of a sweep: points spread over the ranges of many levers, the same ones every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from experiments.engine.errors import ScenarioError, nearest
from experiments.measure.screening import LEVELS, salib
from experiments.points import MOST_ARMS, Point, read_cell, refuse_twice
from experiments.scenario import Cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SAMPLES", "Range", "range_of", "sample_points"]

_DIGITS = 6  # of sampled values: enough to fill a range, few enough to read


@dataclass(frozen=True)
class Range:
    """Where a sample may go: between two numbers (``log``: evenly by ratio), or one of several values."""

    key: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    choices: tuple[Cell | None, ...] = ()

    def at(self, share: float) -> Cell | None:
        """The value at a share of the range, from 0 to 1."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.whole:
            return min(int(self.low + share * (self.high - self.low + 1)), int(self.high))
        if self.log:
            return _rounded(exp(log(self.low) + share * (log(self.high) - log(self.low))))
        return _rounded(self.low + share * (self.high - self.low))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def range_of(text: str) -> Range:
    """The range of ``key=lo:hi``, ``key=lo:hi:log``, ``key=a,b,c``, or ``key`` alone: that of the parameter table.

    Raises:
        ScenarioError: not of this form, an unknown key, or a range without extent.
    """
    where, (key, equals, tail) = f"--sample {text}", text.partition("=")
    if not equals:
        return _usual_range(key, where)
    if ":" not in tail:
        return Range(key, choices=tuple(read_cell(key, entry.strip(), where) for entry in tail.split(",")))
    low_text, high_text, *how = tail.split(":")
    low, high = (read_cell(key, end, where) for end in (low_text, high_text))
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    if not numbers or how not in ([], ["log"]):
        raise ScenarioError(f"{where}: allowed: key=lo:hi, key=lo:hi:log or key=a,b,c")
    return _checked(Range(key, float(low), float(high), isinstance(low, int), bool(how)), where)  # type: ignore[arg-type]


def _checked(found: Range, where: str) -> Range:
    if not found.low < found.high or (found.log and found.low <= 0.0):
        least = "0 < lo < hi" if found.log else "lo < hi"
        raise ScenarioError(f"{where}: {found.low:g} to {found.high:g}; allowed: {least}")
    return found


def _usual_range(key: str, where: str) -> Range:
    """The range that the parameter table gives a key to be swept over."""
    from market.parameters import parameter_rows

    row = parameter_rows().get(key)
    if row is None or not row.sweep_low:
        with_range = [name for name, entry in parameter_rows().items() if entry.sweep_low]
        raise ScenarioError(f"{where}: {key} has no range of its own; give {key}=lo:hi{nearest(key, with_range)}")
    whole = isinstance(read_cell(key, row.sweep_low, where), int)
    return _checked(Range(key, float(row.sweep_low), float(row.sweep_high), whole), where)


def _unit_lhs(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    from scipy.stats.qmc import LatinHypercube

    return np.asarray(LatinHypercube(dimensions, seed=np.random.default_rng(seed)).random(count))


def _unit_sobol(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    from scipy.stats.qmc import Sobol

    if count & (count - 1):
        fitting = 1 << (count - 1).bit_length()
        raise ScenarioError(f"--sample sobol:{count}: allowed: a power of two; nearest: {fitting // 2} or {fitting}")
    return np.asarray(Sobol(dimensions, seed=np.random.default_rng(seed)).random(count))


def _unit_morris(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    """Trajectories of Morris (1991): each starts anywhere on a grid of four levels and moves one lever at a time."""
    sample = salib("SALib.sample.morris").sample
    names = [f"lever {index}" for index in range(dimensions)]
    problem = {"num_vars": dimensions, "names": names, "bounds": [[0.0, 1.0]] * dimensions}
    return np.asarray(sample(problem, count, num_levels=LEVELS, seed=seed), np.float64)


SAMPLES: dict[str, Callable[[int, int, int], NDArray[np.float64]]] = {
    "lhs": _unit_lhs,
    "sobol": _unit_sobol,
    "morris": _unit_morris,
}
"""Samplers by name: ``(count, dimensions, seed)`` to points in the unit cube, ``(points, dimensions)``."""


def sample_points(sample: str, ranges: Sequence[Range], *, seed: int = 0) -> list[Point]:
    """Points of a sample.

    Args:
        sample: ``lhs:64``, ``sobol:256`` (a power of two) or ``morris:10`` (trajectories of one point more than
            there are levers).
        ranges: of the levers.
        seed: of the sample, not of the runs: the same points every time.

    Raises:
        ScenarioError: an unknown sample, no levers, one of them twice, or Morris without the package SALib.
    """
    name, _, size = sample.partition(":")
    if name not in SAMPLES:
        raise ScenarioError(f"--sample {sample}: unknown sample {name!r}{nearest(name, SAMPLES)}")
    if not size.isdecimal() or not 1 <= int(size) <= MOST_ARMS:
        raise ScenarioError(f"--sample {sample}: allowed: {name}:N with N from 1 to {MOST_ARMS}")
    if not ranges:
        raise ScenarioError(f"--sample {sample}: no levers; give some as key=lo:hi after the scenario")
    refuse_twice([one.key for one in ranges])
    shares = SAMPLES[name](int(size), len(ranges), seed)
    width = len(str(len(shares)))
    return [
        Point(
            f"point {index:0{width}}", {one.key: one.at(float(share)) for one, share in zip(ranges, row, strict=True)}
        )
        for index, row in enumerate(shares, start=1)
    ]
