"""Small array helpers: sums by index, ratios and medians that say "missing" instead of warning."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Bools", "Floats", "Ints", "column_means", "column_medians", "frozen", "ratio", "totals"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]


def totals(index: NDArray[Any], values: ArrayLike, size: int) -> Floats:
    """Sums of ``values`` by ``index``, ``(size,)``."""
    return np.bincount(index, np.asarray(values, np.float64), size).astype(np.float64, copy=False)


def ratio(over: Floats, under: Floats) -> Floats:
    """Elementwise ratio, NaN where the denominator is not positive."""
    return np.asarray(np.divide(over, under, out=np.full(np.shape(under), np.nan), where=under > 0.0))


def column_means(values: Floats) -> Floats:
    """Means along the first axis without NaN; NaN where nothing is known."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def column_medians(values: Floats) -> Floats:
    """Medians along the first axis without NaN; NaN where nothing is known."""
    medians = np.full(values.shape[1:], np.nan)
    known = ~np.isnan(values).all(axis=0)
    medians[known] = np.nanmedian(values[:, known], axis=0)
    return medians


def frozen(values: Floats) -> Floats:
    """A copy that refuses to be written."""
    copy = np.array(values)
    copy.setflags(write=False)
    return copy
