"""The opening state of June 2025: suppliers from tables, and leases with residual lives.

The tables count all third-party rental; ``contestable_share`` scales a seller to the part that trades in this market.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats
from market.choice import search_order
from market.leases import Leases, no_leases
from market.randomness import Purpose, exponential, normal, pair_key, uniform
from market.rows import SegmentRow, SellerRow
from market.suppliers import HYPERSCALER, Suppliers, SupplierSpec
from market.tables import Tables
from market.tenants import Tenants, build_tenants
from market.units import TERM_NAMES, TERM_WEEKS, Term
from market.world import World

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = [
    "Delivery",
    "entrant_specs",
    "firm_gpus_by_partner",
    "opening_ages",
    "opening_leases",
    "opening_prices",
    "opening_tenants",
    "pipeline",
    "seller_specs",
]


_FIXED_TERMS = (Term.THREE_YEARS, Term.ONE_YEAR, Term.FOUR_WEEKS)
_LEAST_ROOM_GPUS = 1e-6
# Restated and component prices are scaled by their authors: good for changes, not for levels.
_LEVEL_BASES = ("posted", "posted later", "class level")


@dataclass(frozen=True, slots=True)
class Delivery:
    """GPUs on their way.

    Attributes:
        supplier: Row of the buyer.
        sku: SKU.
        week: Week of arrival.
        gpus: GPUs at the scale of this market.
        ready_week: Week in which they could arrive if the chip were out by then.
    """

    supplier: int
    sku: int
    week: int
    gpus: float
    ready_week: int

    def not_before(self, launch_week: int) -> Delivery:
        """The same order with another launch of its chip."""
        return replace(self, week=max(self.ready_week, launch_week))


def firm_gpus_by_partner(tables: Tables, sku: str, firm_gpus: float) -> dict[str, float]:
    """Firm leased-back GPUs by partner, pro rata to their fleets of the SKU.

    Partners are the leaseback partners that rent out this SKU and are no hyperscaler.

    Raises:
        ValueError: GPUs are to be leased back and no seller qualifies.
    """
    sellers = {row.name: row for row in tables.sellers}
    held = {
        row.seller: row.gpus * sellers[row.seller].contestable_share
        for row in tables.fleets
        if row.sku == sku
        and sellers[row.seller].leaseback_partner
        and sellers[row.seller].provider_class != "hyperscaler"
    }
    total = sum(held.values())
    if firm_gpus > 0.0 and total <= 0.0:
        raise ValueError(
            f"developer_cloud.firm_gpus: {firm_gpus:g} GPUs to lease back, but no leaseback partner holds {sku}"
        )
    return {name: firm_gpus * gpus / total for name, gpus in held.items()} if firm_gpus > 0.0 else {}


def seller_specs(
    tables: Tables,
    firm: Mapping[str, float],
    firm_sku: str,
    class_premium: Mapping[str, float],
    hyperscaler_quality: float,
) -> list[SupplierSpec]:
    """Suppliers from the seller and fleet tables, at the scale of this market.

    Args:
        tables: Opening tables.
        firm: Firm leased-back GPUs by seller; they join the fleet of ``firm_sku``.
        firm_sku: Their SKU.
        class_premium: List price of a class over the neocloud level, a ratio; the table's premia lie within the class.
        hyperscaler_quality: Quality of hyperscalers, ln USD; other sellers' quality is their premium.
    """
    return [
        _seller_spec(tables, row, firm.get(row.name, 0.0), firm_sku, class_premium, hyperscaler_quality)
        for row in tables.sellers
    ]


def _seller_spec(
    tables: Tables,
    row: SellerRow,
    firm_gpus: float,
    firm_sku: str,
    class_premium: Mapping[str, float],
    hyperscaler_quality: float,
) -> SupplierSpec:
    skus = len(tables.skus)
    installed, firm, posted = np.zeros(skus), np.zeros(skus), np.full(skus, np.nan)
    fixed_share = np.zeros(len(TERM_NAMES))
    for fleet in tables.fleets:
        if fleet.seller != row.name:
            continue
        sku = tables.sku_index[fleet.sku]
        installed[sku] += fleet.gpus * row.contestable_share
        if fleet.price_basis in _LEVEL_BASES:
            posted[sku] = fleet.posted_on_demand_usd_per_gpu_hour or np.nan
        for term in _FIXED_TERMS:
            fixed_share[term] += getattr(fleet, f"term_split_{TERM_NAMES[term]}")
    firm[tables.sku_index[firm_sku]] = firm_gpus
    own = 0.0 if row.price_premium_ln is None else row.price_premium_ln
    premium = own + float(np.log(class_premium.get(row.provider_class, 1.0)))
    return SupplierSpec(
        name=row.name,
        provider_class=row.provider_class,
        vendors=row.vendors,
        alive=True,
        premium_ln=premium,
        quality_ln=hyperscaler_quality if row.provider_class == "hyperscaler" else premium,
        revision_hazard_per_month=row.revision_hazard_per_month or 0.0,
        # Sellers without a sold share at a term are taken not to offer it (some say so).
        offers_term=(fixed_share > 0.0) | (np.arange(len(TERM_NAMES)) < Term.FOUR_WEEKS),
        installed_gpus=installed + firm,
        firm_gpus=firm,
        list_usd=posted,
    )


def entrant_specs(tables: Tables) -> list[SupplierSpec]:
    """Dormant sellers from the entrant table: no fleet, all terms, not trading until they enter."""
    skus = len(tables.skus)
    return [
        SupplierSpec(
            name=row.name,
            provider_class=row.provider_class,
            vendors=row.vendors,
            alive=False,
            premium_ln=row.price_premium_ln,
            quality_ln=row.price_premium_ln,
            revision_hazard_per_month=row.revision_hazard_per_month,
            offers_term=np.ones(len(TERM_NAMES), np.bool_),
            installed_gpus=np.zeros(skus),
            firm_gpus=np.zeros(skus),
            list_usd=np.full(skus, np.nan),
        )
        for row in tables.entrants
    ]


def opening_ages(tables: Tables, rows: Mapping[str, int], shape: tuple[int, ...]) -> Floats:
    """Age of opening fleets in weeks, ``(suppliers, skus)``, from the month by which half of a fleet was bought."""
    ages = np.zeros(shape)
    for fleet in tables.fleets:
        bought = tables.week_of(date.fromisoformat(f"{fleet.vintage}-01"))
        ages[rows[fleet.seller], tables.sku_index[fleet.sku]] = max(0, -bought)
    return ages


def pipeline(tables: Tables, rows: Mapping[str, int]) -> list[Delivery]:
    """Deliveries already ordered, at the scale of this market, for sellers that stand in ``rows``."""
    share = {row.name: row.contestable_share for row in tables.sellers}
    return [
        Delivery(rows[row.seller], tables.sku_index[row.sku], row.week, row.gpus * share[row.seller], row.week)
        for row in tables.deliveries
        if row.seller in rows
    ]


def opening_prices(
    suppliers: Suppliers,
    base_list_usd: Floats,
    sku_keys: NDArray[np.uint64],
    seed: int,
    sku_premium_sd: float,
    floor_usd: Floats,
) -> None:
    """Fill opening list prices and fixed SKU premia.

    Where a price is posted, the SKU premium is what the base list and the seller's premium leave unexplained; elsewhere
    it is a keyed draw (none at hyperscalers) and the price follows from it, not under the floor.
    """
    base = np.log(base_list_usd)[None, :]
    drawn = sku_premium_sd * normal(seed, Purpose.SKU_PREMIUM, 0, suppliers.key[:, None], sku_keys[None, :])
    drawn = np.where((suppliers.provider_class == HYPERSCALER)[:, None], 0.0, drawn)
    posted = ~np.isnan(suppliers.list_ln)
    explained = base + suppliers.premium_ln[:, None]
    suppliers.sku_premium_ln = np.where(posted, suppliers.list_ln - explained, drawn)
    held = (suppliers.installed_gpus > 0.0) & suppliers.third_party[:, None]
    floor = np.log(np.maximum(floor_usd, 1e-300))
    price = np.maximum(np.where(posted, suppliers.list_ln, explained + drawn), floor)
    suppliers.list_ln = np.where(held, price, np.nan)
    suppliers.shadow_ln = suppliers.list_ln.copy()


def opening_tenants(
    segments: Sequence[SegmentRow], world: World, suppliers: Suppliers, seed: int, opening_h100e: float, cohort: int = 0
) -> Tenants:
    """Tenants among these suppliers, with their homes and the order in which they come upon sellers.

    Args:
        segments: Laws by segment.
        world: Parameters of tenants, demand and choice.
        suppliers: Where they may buy.
        seed: Run seed.
        opening_h100e: Rentable capacity at the opening, H100-equivalents.
        cohort: Another cohort is another sample of the same laws.
    """
    homes = np.flatnonzero(suppliers.provider_class == HYPERSCALER)
    tenants = build_tenants(
        segments,
        world.tenants,
        world.demand,
        seed=seed,
        opening_h100e=opening_h100e,
        homes=homes.tolist(),
        home_keys=suppliers.key[homes],
        suppliers=len(suppliers),
        cohort=cohort,
    )
    tenants.search_rank = search_order(tenants, suppliers, seed, world.choice)
    return tenants


class _Rooms:
    """GPUs in use at the opening by lot and term, filled tenant by tenant."""

    def __init__(self, model: MarketModel) -> None:
        tables, suppliers = model.tables, model.suppliers
        shape = (len(suppliers), len(tables.skus), len(TERM_NAMES))
        rooms = np.zeros(shape)
        share = {row.name: row.contestable_share for row in tables.sellers}
        rows = suppliers.rows
        for fleet in tables.fleets:
            used = fleet.gpus * share[fleet.seller] * fleet.utilisation
            for term in _FIXED_TERMS:
                rooms[rows[fleet.seller], tables.sku_index[fleet.sku], term] += used * getattr(
                    fleet, f"term_split_{TERM_NAMES[term]}"
                )
        self.lots = np.flatnonzero(rooms.sum(axis=2).ravel())
        self.room = rooms.reshape(-1, len(TERM_NAMES))[self.lots]
        self.supplier, self.sku = np.divmod(self.lots, shape[1])
        self.key = pair_key(suppliers.key[self.supplier], model.hardware.keys[self.sku])

    def choices(self, term: int, home: int) -> list[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
        """Where a tenant is placed, in order: at home on its term, anywhere on it, then on any fixed term."""
        own, any_fixed = np.array([term]), np.array(_FIXED_TERMS, np.int64)
        everywhere = np.ones(len(self.lots), np.bool_)
        at_home = self.supplier == home
        places = [(everywhere, own), (everywhere, any_fixed)]
        return [(at_home, own), *places] if home >= 0 else places


def opening_leases(model: MarketModel) -> Leases:
    """Leases of four weeks and longer that run at the opening, at week-0 term prices.

    Tenants are placed longest term first, home tenants at home first, at random in proportion to room × throughput (AMD
    × a weight). The residual life is uniform on 1 … term, which for a fixed term is the length-biased law.
    """
    tenants, rooms = model.tenants, _Rooms(model)
    fixed = np.flatnonzero(tenants.term >= Term.FOUR_WEEKS)
    luck = uniform(model.seed, Purpose.OPENING_LEASE, 0, tenants.key[fixed])
    no_home = tenants.home[fixed] < 0
    order = fixed[np.lexsort((luck, no_home, -tenants.term[fixed].astype(int)))]
    bias = np.where(model.hardware.is_amd[rooms.sku], model.world.tenants.amd_opening_weight, 1.0)
    race = exponential(model.seed, Purpose.OPENING_LEASE, 0, tenants.key[order][:, None], rooms.key[None, :], 1)
    placed: list[tuple[int, int, float]] = []
    for tenant, draws in zip(order.tolist(), race, strict=True):
        placed.extend(_place(model, rooms, tenant, draws / bias))
    if not placed:
        return no_leases()
    return _leases_from(model, rooms, placed)


def _place(model: MarketModel, rooms: _Rooms, tenant: int, draws: Floats) -> list[tuple[int, int, float]]:
    """Place one tenant: (tenant, column of ``rooms``, GPUs), in the order of a race weighted by room × throughput."""
    tenants = model.tenants
    term, work_per_gpu = int(tenants.term[tenant]), model.software.throughput[tenants.segment[tenant], rooms.sku]
    need = float(tenants.wanted_h100e[tenant] * tenants.weight[tenant])
    wanted, placed = need, list[tuple[int, int, float]]()
    for places, terms in rooms.choices(term, int(tenants.home[tenant])):
        room = np.where(places, rooms.room[:, terms].sum(axis=1), 0.0)
        open_lots = np.flatnonzero(room > _LEAST_ROOM_GPUS)
        for column in open_lots[
            np.argsort(draws[open_lots] / (room * work_per_gpu)[open_lots], kind="stable")
        ].tolist():
            if need <= model.world.clearing.stop_threshold * wanted:
                return placed
            gpus = min(need / work_per_gpu[column], float(room[column]))
            need -= gpus * work_per_gpu[column]
            rooms.room[column, terms] -= gpus * rooms.room[column, terms] / room[column]
            placed.append((tenant, column, gpus))
    return placed


def _leases_from(model: MarketModel, rooms: _Rooms, placed: list[tuple[int, int, float]]) -> Leases:
    """Lease columns of the placements, and what tenants remember of them."""
    tenants = model.tenants
    tenant = np.array([row[0] for row in placed], np.int32)
    column = np.array([row[1] for row in placed], np.int64)
    gpus = np.array([row[2] for row in placed])
    term, supplier, sku = tenants.term[tenant], rooms.supplier[column], rooms.sku[column]
    length = np.array(TERM_WEEKS)[term]
    life = uniform(model.seed, Purpose.OPENING_LIFE, 0, tenants.key[tenant], rooms.key[column])
    tenants.last_supplier[tenant] = supplier.astype(np.int16)
    tenants.amd_ready[tenant[model.hardware.is_amd[sku]]] = True
    price = model.book.price_usd[supplier, sku, term]
    # A spilled lease lies at a seller whose sheet may lack the term; its on-demand price then stands in.
    price = np.where(np.isnan(price), model.book.price_usd[supplier, sku, Term.ON_DEMAND], price)
    return Leases(
        tenant=tenant,
        lot=rooms.lots[column].astype(np.int32),
        term=term,
        gpus=gpus,
        price_usd=price,
        first_week=np.zeros(len(tenant), np.int32),
        end_week=(1 + np.floor(life * length)).astype(np.int32),
    )
