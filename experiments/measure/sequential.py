"""Stopping by precision: run until an interval is narrow enough, not before a minimum and not beyond a maximum.

Looking at the data to decide when to stop makes the interval at the stop a little too narrow (it is reached more easily
when the spread happens to look small). A minimum of 16 keeps that within two points of coverage on normal outcomes;
the interval of as many fresh seeds, which decided nothing, stands beside it.
"""

from __future__ import annotations

from experiments.measure.stats import Values, defined, t_interval

__all__ = ["MINIMUM", "STEP", "half_width", "stop_at"]

MINIMUM = 16
"""Seeds before the first look."""

STEP = 8
"""Seeds between two looks."""


def half_width(values: Values, level: float = 0.95) -> float | None:
    """Half the width of the t interval; None where there is none."""
    found = t_interval(values, level)
    return None if found.low is None or found.high is None else 0.5 * (found.high - found.low)


def stop_at(values: Values, wanted: float, *, maximum: int, minimum: int = MINIMUM, level: float = 0.95) -> int | None:
    """How many of the values, in their order, are used by the rule; None if they are not enough to tell.

    Args:
        values: by seed; undefined ones count as runs and not as values.
        wanted: half width at which to stop.
        maximum: values after which to stop in any case.
        minimum: values before the first look.
        level: of the interval.
    """
    n = min(minimum, maximum)
    while n <= len(values):
        found = half_width(values[:n], level)
        if n >= maximum or (found is not None and found <= wanted and len(defined(values[:n])) >= min(minimum, n)):
            return n
        n = min(n + STEP, maximum)
    return None
