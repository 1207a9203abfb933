"""Dated events: what happens to the market from outside, in a week that the scenario names.

The market applies an event at the beginning of its week. Agents are not told of events to come; from that week on they
see new prices, launch dates, tenants and parameters like anything else, and answer by their rules. An event changes a
cause, never an outcome. Several may share a week: they apply in order of week, then name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from market.arrays import Bools, Floats, Ints, totals
from market.parameters import Parameters
from market.suppliers import PROVIDER_CLASSES
from market.tenants import switching_costs_ln
from market.units import Segment

if TYPE_CHECKING:
    from market.model import MarketModel

__all__ = [
    "ChipSlip",
    "DemandChange",
    "Event",
    "ListPriceChange",
    "PolicyChange",
    "TenantsLeave",
    "demand_shift_ln",
    "happen",
    "in_order",
    "leaving_rows",
]


class _Dated(Parameters):
    """What every event has."""

    week: int = Field(
        ge=1, le=10_000, description="week at whose beginning it happens", json_schema_extra={"unit": "week"}
    )


class ListPriceChange(_Dated):
    """A seller, or all sellers of a class, multiply their list prices of one SKU or of all, lastingly.

    What moves: the price sheet, the quote that negotiated terms follow, and the seller's premium for the SKU, held or
    not. A rule that prices around that premium therefore keeps the change; one that prices by cost or by demand returns
    by its own logic. Spot and longer terms are derived as ever, so they follow. No price falls below the floor over
    running cost. What does not move: quality as tenants see it, and the prices without premia that rivals look at:
    rivals answer when they lose tenants.
    """

    kind: Literal["list-price"]
    factor: float = Field(
        ge=0.01, le=100, description="new list price over the old one", json_schema_extra={"unit": "ratio"}
    )
    seller: str = Field(default="", description="name of a seller (or give provider_class)")
    provider_class: Literal["", "hyperscaler", "neocloud", "marketplace"] = Field(
        default="", description="all sellers of a class"
    )
    sku: str = Field(default="", description="one SKU; all where absent")

    @model_validator(mode="after")
    def _whose(self) -> ListPriceChange:
        if bool(self.seller) == bool(self.provider_class):
            raise ValueError("whose list price: give seller or provider_class, one of them")
        return self


class ChipSlip(_Dated):
    """A chip that has not launched slips, and its successors in its roadmap group with it; known from its week on.

    Launch weeks move (an early one not before the week of the event), and each order on its way arrives when its lead
    time is over and the chip is out. A chip that has launched by then slips no more: nothing happens.
    """

    kind: Literal["chip"]
    sku: str = Field(description="the chip")
    slip_weeks: int = Field(
        ge=-260, le=520, description="later, or earlier if negative", json_schema_extra={"unit": "weeks"}
    )


class DemandChange(_Dated):
    """Wanted work changes by a share, for good or for some weeks.

    It multiplies what every tenant (of a segment) wants; tenants on terms of a year and longer follow with their mean.
    """

    kind: Literal["demand"]
    size: float = Field(
        ge=-0.99, le=10, description="relative change: -0.3 is a fall by 30 %", json_schema_extra={"unit": "share"}
    )
    segment: Literal["", Segment] = Field(default="", description="one segment; all where absent")
    weeks: int = Field(default=0, ge=0, le=10_000, description="0: for good", json_schema_extra={"unit": "weeks"})

    def active(self, week: int) -> bool:
        """Whether it holds in a week."""
        return self.week <= week and (not self.weeks or week < self.week + self.weeks)


class TenantsLeave(_Dated):
    """The largest tenants of a seller end all their leases and want no work any more: they build their own.

    They leave in order of the GPUs they lease from it directly (ties: in the order of the tenant table), until at least
    the share of its leased GPUs is reached; a row stands for tenants that are alike, and leaves as a whole. Nobody is
    told: the seller and its rivals see idle GPUs.
    """

    kind: Literal["tenant-leaves"]
    seller: str = Field(description="name of the seller")
    share: float = Field(
        ge=0, le=1, description="part of its GPUs under lease", json_schema_extra={"unit": "share of leased GPUs"}
    )


class PolicyChange(_Dated):
    """From its week on a lever has another value; commitments made before (leases, loans, covers) run on.

    Demand growth goes on from the level reached. The developer cloud's leases shrink to a smaller cap. A change of the
    pool's mode has its members decide anew in that week.
    """

    kind: Literal["policy"]
    key: str = Field(description="a key that is read anew each week, such as lepton.take_rate")
    value: bool | int | float | str = Field(description="its new value, allowed as in a scenario")


Event: TypeAlias = Annotated[
    ListPriceChange | ChipSlip | DemandChange | TenantsLeave | PolicyChange, Field(discriminator="kind")
]


def in_order(events: Mapping[str, Event]) -> dict[str, Event]:
    """Events by name, in the order in which they apply."""
    return dict(sorted(events.items(), key=lambda item: (item[1].week, item[0])))


# ------------------------------------------------------------------------------------------------ the week


def happen(model: MarketModel) -> None:
    """Apply the events of this week."""
    for event in model.world.events:
        if event.week == model.week and event.kind in _APPLY:
            _APPLY[event.kind](model, event)
    names = [segment.name for segment in model.tables.segments]
    model.demand.shift_ln = demand_shift_ln(model.world.events, model.week, names)


def demand_shift_ln(events: Iterable[Event], week: int, segments: Sequence[str]) -> Floats:
    """What dated changes of demand add to wanted work in a week, ln ``(segments,)``."""
    shift = np.zeros(len(segments))
    for event in events:
        if isinstance(event, DemandChange) and event.active(week):
            hit = np.array([event.segment in ("", name) for name in segments])
            shift = shift + np.where(hit, np.log1p(event.size), 0.0)
    return shift


def _reprice(model: MarketModel, event: ListPriceChange) -> None:
    s, step = model.suppliers, float(np.log(event.factor))
    lots = _sellers(model, event)[:, None] & np.array([event.sku in ("", sku.name) for sku in model.tables.skus])
    s.sku_premium_ln = s.sku_premium_ln + np.where(lots, step, 0.0)
    floor = np.log(np.maximum(model.hardware.floor_usd, 1e-300))
    s.list_ln = np.where(lots, np.maximum(s.list_ln + step, np.minimum(s.list_ln, floor)), s.list_ln)
    s.shadow_ln = np.where(lots, np.maximum(s.shadow_ln + step, np.minimum(s.shadow_ln, floor)), s.shadow_ln)


def _sellers(model: MarketModel, event: ListPriceChange) -> Bools:
    """Sellers that an event is about, ``(suppliers,)``."""
    s = model.suppliers
    if event.provider_class:
        return np.asarray(s.provider_class == PROVIDER_CLASSES.index(event.provider_class))
    return np.array([name == event.seller for name in s.names]) & s.third_party


def _slip(model: MarketModel, event: ChipSlip) -> None:
    skus, before = model.tables.skus, model.hardware.launch_week
    chip = model.tables.sku_index[event.sku]
    if before[chip] <= model.week:
        return
    group = np.array([bool(sku.roadmap_group) and sku.roadmap_group == skus[chip].roadmap_group for sku in skus])
    slips = (group & (before >= before[chip])) | (np.arange(len(skus)) == chip)
    launch = np.where(slips, np.maximum(before + event.slip_weeks, model.week), before)
    moved = launch != before
    model.hardware.launch_week = launch
    model.pipeline = [
        order.not_before(int(launch[order.sku])) if moved[order.sku] else order for order in model.pipeline
    ]


def leaving_rows(held_gpus: Floats, share: float) -> Ints:
    """The largest holders, ties in order, that together hold at least ``share``; ``held_gpus (rows,)``."""
    order = np.argsort(-held_gpus, kind="stable")
    reached = np.cumsum(held_gpus[order])
    if share <= 0.0 or not len(reached) or reached[-1] <= 0.0:
        return np.zeros(0, np.int64)
    return np.asarray(order[: int(np.searchsorted(reached, share * reached[-1])) + 1])


def _leave(model: MarketModel, event: TenantsLeave) -> None:
    tenants, leases = model.tenants, model.leases
    here = leases.lot // len(model.tables.skus) == model.suppliers.names.index(event.seller)
    gone = leaving_rows(totals(leases.tenant, leases.gpus * here, len(tenants)), event.share)
    tenants.size_h100e[gone] = 0.0
    tenants.wanted_h100e[gone] = 0.0
    tenants.recent_h100e[:, gone] = 0.0
    model.leases = leases.keep(~np.isin(leases.tenant, gone))


def _start(model: MarketModel, event: PolicyChange) -> None:
    section, _, name = event.key.partition(".")
    before = getattr(model.world, section, None)
    if isinstance(before, Parameters):
        after: dict[str, Any] = {section: before.changed(name, event.value)}
        model.world = replace(model.world, **after)
        if section in _WORKED_OUT:
            _WORKED_OUT[section](model, before)
    for agent in model.deciders():
        agent.adopt(section, name, event.value, model.week)


def _go_on_from_here(model: MarketModel, before: Any) -> None:
    """Growth has another rate from now on; the level reached stays."""
    last = model.week - 1
    model.demand.growth_offset_ln += before.growth_ln(last) - model.world.demand.growth_ln(last)


def _switch_at_new_cost(model: MarketModel, _before: Any) -> None:
    """Everybody's cost of switching moves, and sellers' idea of it; who finds it harder than others stays."""
    for tenants in (model.tenants, model.forecast.tenants):
        tenants.switching_ln = switching_costs_ln(model.seed, tenants.key, model.world.tenants)


def _cost_anew(model: MarketModel, _before: Any) -> None:
    """Running cost, full cost and price floors at new prices of inputs."""
    model.hardware.price_hours(model.world.costs)


_WORKED_OUT: Mapping[str, Callable[[MarketModel, Any], None]] = {
    "demand": _go_on_from_here,
    "tenants": _switch_at_new_cost,
    "costs": _cost_anew,
}
"""Sections from which something was worked out at the opening, and how it is worked out again."""

_APPLY: Mapping[str, Callable[[MarketModel, Any], None]] = {
    "list-price": _reprice,
    "chip": _slip,
    "tenant-leaves": _leave,
    "policy": _start,
}
"""What an event does in its week, by kind; changes of demand hold for weeks and are summed each week instead."""
