"""Tenants as columns: who wants how much work, for how long, and what each of them cares about.

A row stands for ``weight`` tenants that are alike. Sizes, quotas and needs are per tenant; every quantity that
meets the market is multiplied by the weight. All traits are keyed draws, so that a row keeps its luck whatever
else changes: more rows, other prices, another policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats
from market.demand import DemandParameters
from market.parameters import Parameters, parameter
from market.randomness import Purpose, exponential, normal, tenant_keys, uniform
from market.rows import SegmentRow
from market.units import TERM_NAMES

__all__ = [
    "TenantParameters",
    "TenantRow",
    "Tenants",
    "build_tenants",
    "segment_rows",
    "switching_costs_ln",
    "work_size",
]


class TenantParameters(Parameters):
    """How many rows stand for the tenants, and the laws their traits are drawn from."""

    rows: int = parameter("tenants.rows")
    rows_per_segment_minimum: int = parameter("tenants.rows_per_segment_minimum")
    home_share: float = parameter("tenants.home_share")
    size_cap_sd: float = parameter("tenants.size_cap_sd")
    size_cap_share: float = parameter("tenants.size_cap_share")
    opening_load: float = parameter("tenants.opening_load")
    opening_demand_factor: float = parameter("tenants.opening_demand_factor")
    amd_ready_share: float = parameter("tenants.amd_ready_share")
    sensitivity_sd: float = parameter("tenants.sensitivity_sd")
    reservation_sd: float = parameter("tenants.reservation_sd")
    lock_in_sd: float = parameter("tenants.lock_in_sd")
    vendor_taste_sd: float = parameter("tenants.vendor_taste_sd")
    switching_cost: float = parameter("tenants.switching_cost")
    switching_cost_sd: float = parameter("tenants.switching_cost_sd")
    quality_weight: float = parameter("tenants.quality_weight")
    quality_weight_sd: float = parameter("tenants.quality_weight_sd")
    taste_scale: float = parameter("tenants.taste_scale")
    amd_opening_weight: float = parameter("tenants.amd_opening_weight")


@dataclass(slots=True)
class Tenants:
    """Columns of all tenant rows, sorted by segment; shapes ``(rows,)`` unless said.

    Attributes:
        key: Identity of the row, 64 bits.
        segment: Index of the segment.
        weight: Tenants that the row stands for.
        term: Contract term the tenant buys (``units.Term``).
        size_h100e: Work wanted at the opening, H100-equivalents per tenant.
        sensitivity: Price sensitivity, utility per ln USD (log utility) or per USD (linear).
        reservation_usd: Reservation price, USD per H100-equivalent hour.
        lock_in_ln: Cost of leaving CUDA at opening maturity, ln USD.
        vendor_taste_ln: Personal distaste for AMD, ln USD.
        switching_ln: Cost of a seller other than the last, ln USD.
        quality_weight: Weight of seller quality.
        home: Supplier index of the home hyperscaler, -1 without.
        pool_user: Whether the tenant bought from the pool and still knows it.
        amd_ready: Whether the tenant can run on ROCm without porting.
        own_demand_ln: State of the tenant's own demand.
        wanted_h100e: Work wanted this week, per tenant.
        recent_h100e: Last weeks' wanted work ``(commitment_mean_weeks, rows)``, a ring.
        last_supplier: Supplier of the latest lease, -1 without.
        failures: Consecutive weeks in which a request was not filled.
        search_rank: Place of each supplier in the row's search order ``(rows, suppliers)``.
    """

    key: NDArray[np.uint64]
    segment: NDArray[np.uint8]
    weight: Floats
    term: NDArray[np.uint8]
    size_h100e: Floats
    sensitivity: Floats
    reservation_usd: Floats
    lock_in_ln: Floats
    vendor_taste_ln: Floats
    switching_ln: Floats
    quality_weight: Floats
    home: NDArray[np.int16]
    pool_user: NDArray[np.bool_]
    amd_ready: NDArray[np.bool_]
    own_demand_ln: Floats
    wanted_h100e: Floats
    recent_h100e: Floats
    last_supplier: NDArray[np.int16]
    failures: NDArray[np.uint8]
    search_rank: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.key)

    def slice_of(self, segment: int) -> slice:
        """Rows of a segment."""
        first, last = np.searchsorted(self.segment, [segment, segment + 1])
        return slice(int(first), int(last))

    def row(self, index: int, segments: Sequence[str], suppliers: Sequence[str]) -> TenantRow:
        """One row for people, with names in place of numbers.

        Args:
            index: Its place.
            segments: Names of segments.
            suppliers: Names of suppliers.
        """
        home, last = int(self.home[index]), int(self.last_supplier[index])
        return TenantRow(
            index=index,
            segment=segments[int(self.segment[index])],
            weight=float(self.weight[index]),
            term=TERM_NAMES[int(self.term[index])],
            size_h100e=float(self.size_h100e[index]),
            wanted_h100e=float(self.wanted_h100e[index]),
            sensitivity=float(self.sensitivity[index]),
            reservation_usd=float(self.reservation_usd[index]),
            amd_ready=bool(self.amd_ready[index]),
            home=suppliers[home] if home >= 0 else None,
            last_supplier=suppliers[last] if last >= 0 else None,
        )


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant row for people: a copy of its columns."""

    index: int
    segment: str
    weight: float
    term: str
    size_h100e: float
    wanted_h100e: float
    sensitivity: float
    reservation_usd: float
    amd_ready: bool
    home: str | None
    last_supplier: str | None


def segment_rows(segments: Sequence[SegmentRow], rows: int, minimum: int) -> list[int]:
    """Rows of each segment: in proportion to its tenants, at least ``minimum``."""
    total = sum(segment.tenant_count for segment in segments)
    return [max(minimum, round(rows * segment.tenant_count / total)) for segment in segments]


def work_size(draw: Floats, weight: Floats, total_h100e: float, cap_h100e: float) -> Floats:
    """Sizes proportional to ``draw`` that add up to ``total_h100e`` with no tenant above ``cap_h100e``.

    Args:
        draw: Unscaled sizes of one segment, ``(rows,)``.
        weight: Tenants per row.
        total_h100e: Weighted sum to reach.
        cap_h100e: Largest tenant; where even equal sizes exceed it, it is ignored.
    """
    cap = max(cap_h100e, total_h100e / float(weight.sum()))
    size = draw * (total_h100e / float(draw @ weight))
    for _ in range(100):
        over = size >= cap
        if not (size > cap).any():
            break
        rest = total_h100e - cap * float(weight[over].sum())
        size = np.where(over, cap, size * (rest / max(float(size[~over] @ weight[~over]), 1e-300)))
    return size


def _homes(
    seed: int, keys: NDArray[np.uint64], share: float, homes: Sequence[int], home_keys: NDArray[np.uint64]
) -> NDArray[np.int16]:
    """Home hyperscaler by lot: a keyed race, so that a further hyperscaler moves only those who go to it."""
    if not homes:
        return np.full(len(keys), -1, np.int16)
    has_home = uniform(seed, Purpose.HOME, 0, keys) < share
    race = exponential(seed, Purpose.HOME, 0, keys[:, None], home_keys[None, :], 1)
    return np.where(has_home, np.asarray(homes, np.int16)[race.argmin(axis=1)], np.int16(-1)).astype(np.int16)


def switching_costs_ln(seed: int, keys: NDArray[np.uint64], parameters: TenantParameters) -> Floats:
    """Cost of a seller other than the last by tenant, ln USD: the mean times a keyed spread."""
    spread = np.exp(parameters.switching_cost_sd * normal(seed, Purpose.SWITCHING, 0, keys))
    return np.asarray(parameters.switching_cost * spread)


def build_tenants(
    segments: Sequence[SegmentRow],
    parameters: TenantParameters,
    demand: DemandParameters,
    *,
    seed: int,
    opening_h100e: float,
    homes: Sequence[int] = (),
    home_keys: NDArray[np.uint64] | None = None,
    suppliers: int = 0,
    cohort: int = 0,
) -> Tenants:
    """Draw the tenant table.

    Args:
        segments: Laws by segment.
        parameters: Spreads and counts.
        demand: Law of a tenant's own demand.
        seed: Run seed.
        opening_h100e: Rentable capacity at the opening in H100-equivalents; demand is set against it.
        homes: Supplier indices of hyperscalers.
        home_keys: Their 64-bit keys.
        suppliers: Columns of the search order.
        cohort: Arrival week that enters the keys; another cohort is another sample of the same laws.
    """
    counts = segment_rows(segments, parameters.rows, parameters.rows_per_segment_minimum)
    rows = _Rows.of(segments, counts, seed, cohort)
    weight = np.array([row.tenant_count / count for row, count in zip(segments, counts, strict=True)])[rows.segment]
    size = _sizes(rows, parameters, weight, opening_h100e)
    own_sd = demand.own_stationary_sd
    own = own_sd * normal(seed, Purpose.OWN_DEMAND, 0, rows.key)
    # Less half the variance: the mean of exp(own) is then one, and demand does not drift as the state settles.
    wanted = size * np.exp(own - own_sd**2 / 2)
    home_keys = np.zeros(0, np.uint64) if home_keys is None else home_keys
    return Tenants(
        key=rows.key,
        segment=rows.segment,
        weight=weight,
        term=_terms(rows),
        size_h100e=size,
        **_tastes(rows, parameters),
        home=_homes(seed, rows.key, parameters.home_share, homes, home_keys),
        pool_user=np.zeros(len(size), np.bool_),
        amd_ready=uniform(seed, Purpose.AMD_READY, 0, rows.key) < parameters.amd_ready_share,
        own_demand_ln=own,
        wanted_h100e=wanted,
        recent_h100e=np.tile(wanted, (demand.commitment_mean_weeks, 1)),
        last_supplier=np.full(len(size), -1, np.int16),
        failures=np.zeros(len(size), np.uint8),
        search_rank=np.zeros((len(size), suppliers), np.uint16),
    )


@dataclass(frozen=True)
class _Rows:
    """Tenant rows before their traits are drawn."""

    segments: Sequence[SegmentRow]
    seed: int
    segment: NDArray[np.uint8]
    key: NDArray[np.uint64]

    @classmethod
    def of(cls, segments: Sequence[SegmentRow], counts: Sequence[int], seed: int, cohort: int) -> _Rows:
        """So many rows of each segment."""
        segment = np.repeat(np.arange(len(segments), dtype=np.uint8), counts)
        ordinal = np.concatenate([np.arange(count, dtype=np.int64) for count in counts])
        return cls(segments, seed, segment, tenant_keys(segment, cohort, ordinal))

    def law(self, name: str) -> Floats:
        """A figure of the segment table for each row."""
        return np.array([getattr(row, name) for row in self.segments], np.float64)[self.segment]

    def spread(self, purpose: Purpose, sd: float) -> Floats:
        """Keyed lognormal draws around 1."""
        return np.exp(sd * normal(self.seed, purpose, 0, self.key))


def _terms(rows: _Rows) -> NDArray[np.uint8]:
    """Contract term that each tenant buys, drawn from the shares of its segment."""
    shares = [[getattr(row, f"term_share_{name}") for name in TERM_NAMES] for row in rows.segments]
    cumulated = np.cumsum(shares, axis=1)[rows.segment]
    term = (uniform(rows.seed, Purpose.TERM, 0, rows.key)[:, None] > cumulated[:, :-1]).sum(axis=1)
    return np.asarray(term.astype(np.uint8))


def _sizes(rows: _Rows, parameters: TenantParameters, weight: Floats, opening_h100e: float) -> Floats:
    """Work wanted at the opening, H100-equivalents per tenant: lognormal in a segment, adding up to its share."""
    luck = np.clip(normal(rows.seed, Purpose.SIZE, 0, rows.key), -np.inf, parameters.size_cap_sd)
    draw = np.exp(rows.law("size_sd") * luck)
    load = parameters.opening_load * parameters.opening_demand_factor * opening_h100e
    cap = parameters.size_cap_share * opening_h100e
    size = np.empty(len(draw))
    for index, row in enumerate(rows.segments):
        here = rows.segment == index
        size[here] = work_size(draw[here], weight[here], row.demand_share * load, cap)
    return size


def _tastes(rows: _Rows, p: TenantParameters) -> dict[str, Floats]:
    """What tenants care about, by column: the law of their segment times a keyed spread."""
    return {
        "sensitivity": rows.law("price_sensitivity") * rows.spread(Purpose.SENSITIVITY, p.sensitivity_sd),
        "reservation_usd": rows.law("reservation_usd_per_h100e_hour")
        * rows.spread(Purpose.RESERVATION, p.reservation_sd),
        "lock_in_ln": rows.law("lock_in") * rows.spread(Purpose.LOCK_IN, p.lock_in_sd),
        "vendor_taste_ln": p.vendor_taste_sd * normal(rows.seed, Purpose.VENDOR_TASTE, 0, rows.key),
        "switching_ln": switching_costs_ln(rows.seed, rows.key, p),
        "quality_weight": p.quality_weight * rows.spread(Purpose.QUALITY, p.quality_weight_sd),
    }
