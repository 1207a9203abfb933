"""Suppliers as columns: third-party sellers first, vendors' desks behind them.

The model alone writes these arrays; a seller agent sees its own row and returns decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from market.arrays import Bools, Floats, column_medians
from market.randomness import agent_keys

__all__ = [
    "DESK",
    "HYPERSCALER",
    "MARKETPLACE",
    "NEOCLOUD",
    "PROVIDER_CLASSES",
    "SupplierSpec",
    "Suppliers",
    "build_suppliers",
]

PROVIDER_CLASSES = ("hyperscaler", "neocloud", "marketplace", "vendor_desk")
HYPERSCALER, NEOCLOUD, MARKETPLACE, DESK = range(4)


@dataclass(frozen=True, slots=True)
class SupplierSpec:
    """What stands about a supplier in the tables, ready for the columns.

    Attributes:
        name: Unique name.
        provider_class: One of ``PROVIDER_CLASSES``.
        vendors: Whose GPUs it runs: nvidia, amd or both.
        alive: Whether it trades from the start; entrants do not.
        premium_ln: Stable list premium of the seller against the base list, ln.
        quality_ln: Quality as tenants see it, ln USD.
        revision_hazard_per_month: Mean rate of list revisions.
        offers_term: Terms on sale, ``(terms,)``.
        installed_gpus: Fleet by SKU, firm hours included, ``(skus,)``.
        firm_gpus: GPUs leased back in full, ``(skus,)``.
        list_usd: Posted on-demand price by SKU, NaN where none is posted.
    """

    name: str
    provider_class: str
    vendors: str
    alive: bool
    premium_ln: float
    quality_ln: float
    revision_hazard_per_month: float
    offers_term: NDArray[np.bool_]
    installed_gpus: Floats
    firm_gpus: Floats
    list_usd: Floats


@dataclass(slots=True)
class Suppliers:
    """Columns by supplier ``(suppliers,)`` and by supplier and SKU ``(suppliers, skus)``; prices in ln USD.

    Attributes:
        names: Name, its identity.
        key: Identity in draws, 64 bits.
        provider_class: Hyperscaler, neocloud, marketplace or vendor's desk.
        runs_nvidia, runs_amd: Whose GPUs it can run.
        premium_ln: Stable premium of its list prices.
        quality_ln: What tenants value it at, in units of price.
        revision_hazard_per_month: How often it opens its price sheet.
        offers_term: Terms it sells ``(suppliers, terms)``.
        opening_gpus: GPUs of all SKUs at the opening.
        alive: Whether it trades; dormant entrants and failed sellers do not.
        installed_gpus: Fleet by SKU.
        firm_gpus: Part of it that a vendor leases back in full.
        sku_premium_ln: Fixed premium for one SKU beside ``premium_ln``.
        shadow_ln: What it would quote today.
        list_ln: What stands on its price sheet.
        tightness: Smoothed use with turned-away demand.
        revised: Whether the list price moved this week.
        delivered_gpus: GPUs that joined the fleet this week.
    """

    names: list[str]
    key: NDArray[np.uint64]
    provider_class: NDArray[np.int8]
    runs_nvidia: NDArray[np.bool_]
    runs_amd: NDArray[np.bool_]
    premium_ln: Floats
    quality_ln: Floats
    revision_hazard_per_month: Floats
    offers_term: NDArray[np.bool_]
    opening_gpus: Floats
    alive: NDArray[np.bool_]
    installed_gpus: Floats
    firm_gpus: Floats
    sku_premium_ln: Floats
    shadow_ln: Floats
    list_ln: Floats
    tightness: Floats
    revised: NDArray[np.bool_]
    delivered_gpus: Floats

    def __len__(self) -> int:
        return len(self.names)

    @property
    def available_gpus(self) -> Floats:
        """GPUs a seller may offer: its fleet less the hours leased back in full."""
        return np.asarray(self.installed_gpus - self.firm_gpus)

    @property
    def third_party(self) -> NDArray[np.bool_]:
        """Suppliers that are not a vendor's desk."""
        return np.asarray(self.provider_class != DESK)

    @property
    def borrows(self) -> NDArray[np.bool_]:
        """Suppliers that buy GPUs on GPU-backed loans: neoclouds (hyperscalers and hosts pay with their own money)."""
        return np.asarray(self.provider_class == NEOCLOUD)

    @property
    def core_list_ln(self) -> Floats:
        """List price without the seller's and its SKU premium, ln USD."""
        return np.asarray(self.list_ln - self.premium_ln[:, None] - self.sku_premium_ln)

    @property
    def core_median_ln(self) -> Floats:
        """Median list price without premia by SKU over living third parties, ln USD; NaN where nobody sells."""
        counts = (self.third_party & self.alive)[:, None] & (self.installed_gpus > 0.0)
        return column_medians(np.where(counts, self.core_list_ln, np.nan))

    @property
    def rows(self) -> dict[str, int]:
        """Row of each supplier by name."""
        return {name: row for row, name in enumerate(self.names)}

    def runs(self, amd: bool) -> Bools:
        """Suppliers that can run AMD's (or Nvidia's) GPUs."""
        return self.runs_amd if amd else self.runs_nvidia

    def columns(self) -> list[str]:
        """Names of all columns."""
        return [field.name for field in fields(self)]


def build_suppliers(specs: Sequence[SupplierSpec], skus: int) -> Suppliers:
    """Columns from specifications; prices and tightness are filled by the opening state.

    Raises:
        ValueError: two suppliers share a name or a key.
    """
    names = [spec.name for spec in specs]
    shape = (len(specs), skus)
    installed = np.array([spec.installed_gpus for spec in specs], np.float64).reshape(shape)
    return Suppliers(
        names=names,
        key=agent_keys(names),
        provider_class=np.array([PROVIDER_CLASSES.index(spec.provider_class) for spec in specs], np.int8),
        runs_nvidia=np.array([spec.vendors != "amd" for spec in specs]),
        runs_amd=np.array([spec.vendors != "nvidia" for spec in specs]),
        premium_ln=np.array([spec.premium_ln for spec in specs]),
        quality_ln=np.array([spec.quality_ln for spec in specs]),
        revision_hazard_per_month=np.array([spec.revision_hazard_per_month for spec in specs]),
        offers_term=np.array([spec.offers_term for spec in specs], np.bool_),
        opening_gpus=installed.sum(axis=1),
        alive=np.array([spec.alive for spec in specs], np.bool_),
        installed_gpus=installed,
        firm_gpus=np.array([spec.firm_gpus for spec in specs], np.float64).reshape(shape),
        sku_premium_ln=np.zeros(shape),
        shadow_ln=np.full(shape, np.nan),
        list_ln=np.array([np.log(spec.list_usd) for spec in specs]).reshape(shape),
        tightness=np.zeros(shape),
        revised=np.zeros(shape, np.bool_),
        delivered_gpus=np.zeros(shape),
    )
