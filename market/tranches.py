"""Books of tranches: columns that grow and shrink together, and the amounts that come out of them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from market.arrays import Bools, Floats, Ints

__all__ = ["Charges", "Tranches", "no_floats", "no_ints"]

Column: TypeAlias = NDArray[np.generic]


def no_ints() -> Ints:
    """An empty column of whole numbers."""
    return np.zeros(0, np.int64)


def no_floats() -> Floats:
    """An empty column of numbers."""
    return np.zeros(0)


class Charges(NamedTuple):
    """Amounts to post: ``ledger.post(reason, *charges)``."""

    payers: Ints
    payees: Ints
    usd: Floats


class Tranches:
    """Columns of equal length, the array attributes of a book."""

    def _columns(self) -> dict[str, Column]:
        return {name: column for name, column in vars(self).items() if isinstance(column, np.ndarray)}

    def __len__(self) -> int:
        """Number of tranches."""
        return len(next(iter(self._columns().values())))

    def _append(self, **values: ArrayLike) -> None:
        """Add tranches; the values broadcast to one length."""
        rows = np.broadcast_arrays(*(np.atleast_1d(value) for value in values.values()))
        for name, new in zip(values, rows, strict=True):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, new.astype(column.dtype)]))

    def keep(self, rows: Bools) -> None:
        """Drop the tranches outside ``rows``."""
        for name, column in self._columns().items():
            setattr(self, name, column[rows])
