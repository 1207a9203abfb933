"""Intervals for what a t interval does not fit: quantiles, paired yes-or-no outcomes, ratios; and when it does not fit.

How often each of them covers what it should, over 2,000 made-up experiments, stands in docs/background/statistics.md.
"""

from __future__ import annotations

from functools import cache
from math import sqrt

import numpy as np

from experiments.measure.stats import Interval, Values, defined, t_interval, t_quantile

__all__ = [
    "bootstrap_t_interval",
    "false_alarms",
    "fieller_interval",
    "paired_binary_interval",
    "quantile_interval",
    "ratio_bootstrap_interval",
    "runs_for_width",
    "skewness",
    "too_skewed",
    "warm_up",
]

_SKEW_PER_ROOT_N = 0.25
_SPANS = "the difference in the denominator may be zero"


def skewness(values: Values) -> float:
    """Sample skewness of the defined values (third central moment over the variance to 3/2); 0 where all are equal."""
    numbers = defined(values)
    if len(numbers) < 2 or np.ptp(numbers) == 0.0:
        return 0.0
    centred = numbers - numbers.mean()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def too_skewed(values: Values) -> bool:
    """Whether a t interval of these values may cover clearly less often than it says.

    Cochran's rule as Sugden, Smith and Jones (2000) give it, n > 25 skewness², is turned round: |skewness| above
    0.25 √n, or (for samples so small that normal ones would trip over that) above twice its standard error.
    """
    n = len(defined(values))
    if n < 3:
        return False
    error = sqrt(6.0 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))
    return abs(skewness(values)) > max(_SKEW_PER_ROOT_N * sqrt(n), 2.0 * error)


def bootstrap_t_interval(values: Values, level: float = 0.95, *, resamples: int = 9999, seed: int = 0) -> Interval:
    """Bootstrap-t interval of the mean (Efron 1979): the t interval with quantiles that lean as the sample does.

    For skewed outcomes at few runs it covers more often than t and BCa do, and is wider; the same draws every time.

    Raises:
        ValueError: a level outside (0, 1).
    """
    numbers, plain = defined(values), t_interval(values, level)
    if plain.mean is None or plain.low is None or np.ptp(numbers) == 0.0:
        return plain
    n = len(numbers)
    drawn = numbers[np.random.default_rng(seed).integers(0, n, (resamples, n))]
    errors = drawn.std(axis=1, ddof=1)
    leaning = (drawn.mean(axis=1) - plain.mean)[errors > 0.0] / errors[errors > 0.0]
    low, high = np.quantile(leaning, [0.5 * (1.0 + level), 0.5 * (1.0 - level)]) * numbers.std(ddof=1)
    return Interval(plain.mean, plain.mean - float(low), plain.mean - float(high), n, level)


def quantile_interval(values: Values, share: float, level: float = 0.95) -> Interval:
    """Interval of a quantile from order statistics: right for any law, at least as often as it says.

    Args:
        values: a sample; undefined values are left out.
        share: which quantile, between 0 and 1 (0.5: the median).
        level: of the interval.

    Returns:
        The sample quantile as ``mean``; bounds are values of the sample, null where the sample is too small for them.

    Raises:
        ValueError: a share or level outside (0, 1).
    """
    from scipy.stats import binom

    if not (0.0 < share < 1.0 and 0.0 < level < 1.0):
        raise ValueError(f"share {share} and level {level}: both lie between 0 and 1")
    numbers = np.sort(defined(values))
    n = len(numbers)
    if n == 0:
        return Interval(None, None, None, 0, level, "no value")
    tail = 0.5 * (1.0 - level)
    below = int(binom.ppf(tail, n, share))  # the order statistic of this rank (from 1) is low enough
    above = int(binom.isf(tail, n, share)) + 1
    low = float(numbers[below - 1]) if below >= 1 else None
    high = float(numbers[above - 1]) if above <= n else None
    reason = None if low is not None and high is not None else f"{n} values are too few for this quantile"
    return Interval(float(np.quantile(numbers, share)), low, high, n, level, reason)


def paired_binary_interval(arm: Values, base: Values, level: float = 0.95) -> Interval:
    """Exact interval of a difference of shares, both sides yes (1) or no (0) within a seed.

    Seeds that answer alike say nothing about the direction; the shares that change one way and the other get a
    Clopper-Pearson interval each, and the difference of the two is bounded by their corners (Bonferroni). It covers at
    least as often as it says at every n, and is wider than the approximate ones.

    Raises:
        ValueError: the two differ in length, hold anything but 0 and 1, or a level outside (0, 1).
    """
    pairs = [(a, b) for a, b in zip(arm, base, strict=True) if a is not None and b is not None]
    if any(value not in (0.0, 1.0) for pair in pairs for value in pair):
        raise ValueError("paired binary values are 0 or 1")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level} is not between 0 and 1")
    n = len(pairs)
    if n == 0:
        return Interval(None, None, None, 0, level, "no value")
    up, down = (sum(pair == change for pair in pairs) for change in ((1, 0), (0, 1)))
    rises, falls = (_clopper_pearson(count, n, 0.5 * (1.0 + level)) for count in (up, down))
    return Interval((up - down) / n, rises[0] - falls[1], rises[1] - falls[0], n, level)


@cache
def _clopper_pearson(count: int, n: int, level: float) -> tuple[float, float]:
    from scipy.stats import binomtest

    found = binomtest(count, n).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


# ------------------------------------------------------------------------------------------------ ratios


def _both(costs: Values, gains: Values) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    rows = [(c, g) for c, g in zip(costs, gains, strict=True) if c is not None and g is not None]
    table = np.array(rows, float).reshape(-1, 2)
    kept = table[np.isfinite(table).all(axis=1)]
    return kept[:, 0], kept[:, 1]


def fieller_interval(costs: Values, gains: Values, level: float = 0.95) -> Interval:
    """Fieller's interval of mean cost over mean gain, both paired differences of the same seeds.

    Args:
        costs: numerator by seed, such as USD.
        gains: denominator by seed, such as points of share.
        level: of the interval.

    Returns:
        Null with a reason where the interval of the denominator spans zero: a cost per nothing has no bounds.
    """
    cost, gain = _both(costs, gains)
    denominator = t_interval(gain, level)
    n = denominator.n
    if denominator.low is None or denominator.high is None:
        return Interval(None, None, None, n, level, denominator.reason)
    if denominator.low <= 0.0 <= denominator.high:
        return Interval(None, None, None, n, level, _SPANS)
    top, bottom = float(cost.mean()), float(gain.mean())
    (v11, v12), (_, v22) = np.cov(cost, gain, ddof=1) / n
    square = t_quantile(n - 1, level) ** 2
    a, b, c = bottom**2 - square * v22, top * bottom - square * v12, top**2 - square * v11
    half = sqrt(max(b**2 - a * c, 0.0))
    return Interval(top / bottom, float((b - half) / a), float((b + half) / a), n, level)


def ratio_bootstrap_interval(
    costs: Values, gains: Values, level: float = 0.95, *, resamples: int = 9999, seed: int = 0
) -> Interval:
    """The same by a paired bootstrap (percentiles of resampled seeds), for skewed costs; null where it may divide by 0.

    Returns:
        Null with a reason where more than half of one tail of the resampled denominators has the other sign.
    """
    cost, gain = _both(costs, gains)
    n = len(cost)
    plain = fieller_interval(cost, gain, level)
    if plain.low is None:
        return plain
    draws = np.random.default_rng(seed).integers(0, n, (resamples, n))
    top, bottom = cost[draws].mean(axis=1), gain[draws].mean(axis=1)
    tail = 0.5 * (1.0 - level)
    if min((bottom > 0).mean(), (bottom < 0).mean()) > 0.5 * tail:
        return Interval(None, None, None, n, level, _SPANS)
    low, high = np.quantile(top / bottom, [tail, 1.0 - tail])
    return Interval(plain.mean, float(low), float(high), n, level)


# ------------------------------------------------------------------------------------------------ planning


def runs_for_width(values: Values, half_width: float, level: float = 0.95) -> int:
    """How many runs (or pairs) make a t interval of this half width, judged by the spread of those at hand.

    Raises:
        ValueError: a half width that is not positive, or fewer than two values.
    """
    numbers = defined(values)
    if not half_width > 0.0:
        raise ValueError(f"half width {half_width} is not positive")
    if len(numbers) < 2:
        raise ValueError("two values or more are needed to judge their spread")
    spread = float(numbers.std(ddof=1))

    def wide(n: int) -> bool:
        return t_quantile(n - 1, level) * spread / sqrt(n) > half_width

    few, enough = 1, 2
    while wide(enough):
        few, enough = enough, 2 * enough
    while enough - few > 1:  # the width falls with every run
        middle = (few + enough) // 2
        few, enough = (middle, enough) if wide(middle) else (few, middle)
    return enough


def false_alarms(comparisons: int, level: float = 0.95) -> float:
    """How many of so many intervals leave out a zero that is true, by luck alone, on average."""
    return comparisons * (1.0 - level)


def warm_up(series: Values, batch: int = 5) -> int:
    """Weeks at the start of a series that are still on their way, by the rule MSER-5 (White 1997).

    Means of batches are cut at the place where the standard error of the rest is least, within the first half.
    """
    numbers = defined(series)
    means = numbers[: len(numbers) // batch * batch].reshape(-1, batch).mean(axis=1)
    if len(means) < 4:
        return 0
    errors = [means[cut:].var() / (len(means) - cut) for cut in range(len(means) // 2 + 1)]
    return int(np.argmin(errors)) * batch
