"""Vendor nests: the part of a week's taste that all offers of one vendor share.

With correlation ``s`` in [0, 1) the shock of an offer is ``Z_vendor + (1 - s) × Gumbel``, where Z follows the one law
that makes the sum standard Gumbel again: ``Z = (1 - s) ln S`` with S positive stable of exponent ``1 - s`` (Cardell
1997). Shares are then those of nested logit (McFadden 1978; Berry 1994)::

    I_n = ln Σ_{i in n} exp(V_i / (1 - s)),   P_n = exp((1 - s) I_n) / (exp(V_0) + Σ_m exp((1 - s) I_m)),
    P_i = P_n × exp(V_i / (1 - s) - I_n)

At 0 the shocks are independent and this is plain logit; as s goes to 1, offers of one vendor become one offer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from market.arrays import Floats, Ints
from market.randomness import Purpose, exponential, uniform

__all__ = ["Nests", "nested_inclusive", "nested_log_sum", "nested_probabilities", "vendor_shock"]

_LOWEST = -1e300  # stands in for -infinity where a difference is taken


@dataclass(frozen=True, slots=True)
class Nests:
    """Which vendor's an offer is, ``(offers,)``, and the correlation of tastes within a vendor, in [0, 1)."""

    vendor: Ints
    correlation: float


def vendor_shock(seed: int, week: int, tenant_key: ArrayLike, vendor: ArrayLike, correlation: float) -> Floats:
    """The shared part of the week's shock for tenants × vendors; the keys broadcast.

    The stable law is drawn by Kanter's formula from one uniform and one exponential (Kanter 1975).
    """
    angle = np.pi * uniform(seed, Purpose.VENDOR_SHOCK, week, tenant_key, vendor)
    wait = exponential(seed, Purpose.VENDOR_SHOCK, week, tenant_key, vendor, 1)
    own = np.sin((1.0 - correlation) * angle)
    tail = np.log(np.sin(correlation * angle)) - np.log(own) - np.log(wait)
    return np.asarray(np.log(own) - np.log(np.sin(angle)) + correlation * tail)


def nested_inclusive(utility: Floats, nests: Nests) -> tuple[Floats, Floats]:
    """Inclusive values ``(1 - s) I_n`` by tenant and nest ``(tenants, nests)``, -inf where a nest is empty.

    Returns:
        The values, and shares within the own nest ``(tenants, offers)``.
    """
    free = 1.0 - nests.correlation
    count = int(nests.vendor.max(initial=-1)) + 1
    inclusive, within = np.full((len(utility), count), -np.inf), np.zeros(utility.shape)
    for nest in range(count):
        mine = np.flatnonzero(nests.vendor == nest)
        scaled = utility[:, mine] / free
        top = np.maximum(scaled.max(axis=1, initial=-np.inf), _LOWEST)
        weight = np.exp(scaled - top[:, None])
        total = weight.sum(axis=1)
        with np.errstate(divide="ignore"):
            inclusive[:, nest] = np.where(total > 0.0, free * (top + np.log(total)), -np.inf)
        within[:, mine] = weight / np.maximum(total, 1e-300)[:, None]
    return inclusive, within


def nested_probabilities(utility: Floats, outside: Floats, nests: Nests) -> Floats:
    """Nested logit probabilities ``(tenants, offers)``; offers at -inf are not available."""
    inclusive, within = nested_inclusive(utility, nests)
    top = np.maximum(np.maximum(inclusive.max(axis=1, initial=-np.inf), outside), _LOWEST)
    weight = np.exp(inclusive - top[:, None])
    total = weight.sum(axis=1) + np.exp(outside - top)
    share = weight / np.maximum(total, 1e-300)[:, None]
    return np.asarray(share[:, nests.vendor] * within)


def nested_log_sum(position: Ints, gain: Floats, rows: int, nests: Nests) -> Floats:
    """``ln(1 + Σ_n exp((1 - s) I_n))`` of pairs by tenant ``(rows,)``; ``gain`` is utility over buying nothing.

    ``nests.vendor`` is by pair, ``(pairs,)``.
    """
    free, count = 1.0 - nests.correlation, int(nests.vendor.max(initial=0)) + 1
    cell = position * count + nests.vendor
    top = np.full(rows * count, -np.inf)
    np.maximum.at(top, cell, gain / free)
    top = np.maximum(top, _LOWEST)
    total = np.bincount(cell, np.exp(gain / free - top[cell]), rows * count)
    with np.errstate(divide="ignore"):
        inclusive = np.where(total > 0.0, free * (top + np.log(total)), -np.inf)
    return np.asarray(np.log1p(np.exp(np.minimum(inclusive, 700.0)).reshape(rows, count).sum(axis=1)))
