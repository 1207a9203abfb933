"""Screening many levers with few runs: elementary effects of Morris (1991), computed by the package SALib.

The arms are trajectories: from a point somewhere in the ranges one lever after the other is moved. The change of an
outcome at a move is an elementary effect of its lever. Their mean size (Campolongo, Cariboni and Saltelli 2007) says
how much a lever matters; their spread says that its effect bends or depends on the other levers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import polars as pl

from experiments.engine.errors import ScenarioError
from experiments.measure.records import Floats

__all__ = ["LEVELS", "SCREENING_SCHEMA", "elementary_effects", "salib", "scaled", "trajectories"]

LEVELS = 4
"""Of the grid on which trajectories run."""

_STEP = LEVELS / (2.0 * (LEVELS - 1))  # of a move, as a share of the range
_RESAMPLES = 1000
_FEWEST = 2  # trajectories: one has no spread

SCREENING_SCHEMA: dict[str, pl.DataType] = {
    "key": pl.String(),
    **dict.fromkeys(("lowest", "highest", "mean_size", "low", "high", "mean", "spread"), pl.Float64()),
    "trajectories": pl.Int64(),
}
"""Columns of `elementary_effects`: effects are changes of the outcome over the whole range of a lever, in its unit."""


def salib(module: str) -> Any:
    """A module of SALib, which is imported here alone: it brings pandas along.

    Raises:
        ScenarioError: it is not installed; names the extra that brings it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise ScenarioError(
            "screening by Morris needs the package SALib: pip install 'neocloud-market[sensitivity]' gets it"
        ) from None


def trajectories(arms: pl.DataFrame, keys: Sequence[str]) -> int:
    """How many trajectories arms are, one after the other: in each every lever moves once, one at a time; 0: none.

    Args:
        arms: a row an arm, in the order of the plan.
        keys: the levers.
    """
    size = len(keys) + 1
    if len(keys) < 2 or arms.height % size or arms.height < _FEWEST * size:
        return 0
    values = arms.select(pl.col(key).cast(pl.Float64) for key in keys).to_numpy().reshape(-1, size, len(keys))
    moved = np.diff(values, axis=1) != 0.0
    return len(values) if (moved.sum(axis=1) == 1).all() and (moved.sum(axis=2) == 1).all() else 0


def elementary_effects(means: pl.DataFrame, keys: Sequence[str], level: float = 0.95) -> pl.DataFrame:
    """Elementary effects of every lever, the largest mean size first; trajectories with an undefined arm are left out.

    Args:
        means: a row an arm in the order of the plan: the levers, and ``mean`` of an outcome (null: undefined).
        keys: the levers.
        level: of the interval of the mean size, from resampled trajectories: it knows their choice, not luck.

    Returns:
        `SCREENING_SCHEMA`: ``mean_size`` (of the absolute effects) with its interval, ``mean`` and ``spread``
        (standard deviation) of the effects; no rows where fewer than two trajectories are whole.

    Raises:
        ScenarioError: SALib is not installed.
    """
    size = len(keys) + 1
    outcome = means["mean"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    whole = np.isfinite(outcome).reshape(-1, size).all(axis=1)
    if whole.sum() < _FEWEST:
        return pl.DataFrame(schema=SCREENING_SCHEMA)
    used = np.repeat(whole, size)
    size_of, half, mean, spread = _over_ranges(scaled(means, keys)[used], outcome[used], level)
    ends = [[means[key].cast(pl.Float64).min() for key in keys], [means[key].cast(pl.Float64).max() for key in keys]]
    columns = [list(keys), *ends, size_of, size_of - half, size_of + half, mean, spread, [int(whole.sum())] * len(keys)]
    table = pl.DataFrame(dict(zip(SCREENING_SCHEMA, columns, strict=True)), schema=SCREENING_SCHEMA)
    return table.sort("mean_size", descending=True, maintain_order=True)


def _over_ranges(shares: Floats, outcome: Floats, level: float) -> Iterator[Floats]:
    """Mean size, half its interval, mean and spread of the effects, ``(levers,)`` each, over the whole ranges."""
    levers = shares.shape[1]
    names = [f"lever {index}" for index in range(levers)]
    problem = {"num_vars": levers, "names": names, "bounds": [[0.0, 1.0]] * levers}
    options = {"num_resamples": _RESAMPLES, "conf_level": level, "num_levels": LEVELS, "seed": 0}
    found = salib("SALib.analyze.morris").analyze(problem, shares, outcome, **options)
    # SALib divides every move by two thirds of a range; levers of few values move further, or less far.
    moves = np.abs(np.diff(shares.reshape(-1, levers + 1, levers), axis=1)).sum(axis=1)
    factor = _STEP / moves.mean(axis=0)
    return (np.asarray(found[name], float) * factor for name in ("mu_star", "mu_star_conf", "mu", "sigma"))


def scaled(table: pl.DataFrame, keys: Sequence[str]) -> Floats:
    """Levers from 0 (lowest) to 1 (highest), ``(arms, levers)``."""
    columns = [table[key].cast(pl.Float64).to_numpy() for key in keys]
    return np.column_stack([(column - column.min()) / np.ptp(column) for column in columns])
