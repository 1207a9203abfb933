"""Builders of small worlds for the tests of choice and clearing: only what a test is about is spelled out."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from market.choice import ChoiceParameters, Market
from market.clearing.pool import PoolLot
from market.clearing.posted import ClearingParameters, Queue
from market.reference import Request
from market.suppliers import Suppliers, SupplierSpec, build_suppliers
from market.tenants import Tenants
from market.units import TERM_NAMES, Term

TERMS = len(TERM_NAMES)
PLAIN_CHOICE: dict[str, Any] = {"size_pull": 0.0, "all_sellers_known": True}
"""Choice with nothing but price, value and the weekly shock: what closed-form logit shares assume."""


def choice(**changes: Any) -> ChoiceParameters:
    return ChoiceParameters().model_copy(update=changes)


def clearing(**changes: Any) -> ClearingParameters:
    return ClearingParameters().model_copy(update=changes)


def plain_clearing(**changes: Any) -> ClearingParameters:
    """No thresholds: whoever needs anything takes anything."""
    return clearing(**({"stop_threshold": 0.0, "skip_threshold": 0.0, "need_threshold": 0.0} | changes))


def sellers(
    prices_usd: list[float] | np.ndarray,
    provider_class: str | list[str] = "neocloud",
    gpus: float | list[float] = 1000.0,
    names: list[str] | None = None,
) -> Suppliers:
    """Sellers of one SKU each, on every term."""
    count = len(prices_usd)
    classes = [provider_class] * count if isinstance(provider_class, str) else provider_class
    fleets = [gpus] * count if isinstance(gpus, float) else gpus
    specs = [
        SupplierSpec(
            name=names[i] if names else f"seller {i}",
            provider_class=classes[i],
            vendors="both",
            alive=True,
            premium_ln=0.0,
            quality_ln=0.0,
            revision_hazard_per_month=0.0,
            offers_term=np.ones(TERMS, np.bool_),
            installed_gpus=np.array([fleets[i]]),
            firm_gpus=np.zeros(1),
            list_usd=np.array([prices_usd[i]]),
        )
        for i in range(count)
    ]
    return build_suppliers(specs, 1)


def market_of(
    suppliers: Suppliers,
    prices_usd: list[float] | np.ndarray,
    *,
    amd: bool = False,
    value_usd: list[float] | np.ndarray | None = None,
    taste_scale: float = 0.0,
    lock_left: float = 1.0,
) -> Market:
    """One SKU, one segment; throughput 1; every term at the same price."""
    price = np.repeat(np.asarray(prices_usd, np.float64)[:, None, None], TERMS, axis=2)
    return Market(
        suppliers=suppliers,
        sku_vendor_is_amd=np.array([amd]),
        price_usd=price,
        throughput=np.ones((1, 1)),
        lock_left=np.array([lock_left]),
        size_gpus=suppliers.available_gpus,
        value_usd=np.zeros((len(suppliers), 1)) if value_usd is None else np.asarray(value_usd, np.float64)[:, None],
        taste_scale=taste_scale,
    )


def tenants_of(count: int, suppliers: int = 0, **traits: Any) -> Tenants:
    """Alike tenants with keys 1 … count, on demand, of size 1; ``traits`` are scalars or columns."""
    defaults: dict[str, tuple[Any, Any]] = {
        "key": (np.arange(1, count + 1), np.uint64),
        "segment": (0, np.uint8),
        "weight": (1.0, np.float64),
        "term": (Term.ON_DEMAND, np.uint8),
        "size_h100e": (1.0, np.float64),
        "sensitivity": (1.0, np.float64),
        "reservation_usd": (1.0, np.float64),
        "lock_in_ln": (0.0, np.float64),
        "vendor_taste_ln": (0.0, np.float64),
        "switching_ln": (0.0, np.float64),
        "quality_weight": (0.0, np.float64),
        "home": (-1, np.int16),
        "pool_user": (False, np.bool_),
        "amd_ready": (True, np.bool_),
        "own_demand_ln": (0.0, np.float64),
        "wanted_h100e": (1.0, np.float64),
        "last_supplier": (-1, np.int16),
        "failures": (0, np.uint8),
    }
    assert set(traits) <= set(defaults)
    columns = {
        name: np.broadcast_to(np.asarray(traits.get(name, value)).astype(kind), (count,)).copy()
        for name, (value, kind) in defaults.items()
    }
    return Tenants(
        **columns,
        recent_h100e=np.tile(columns["wanted_h100e"], (13, 1)),
        search_rank=np.zeros((count, suppliers), np.uint16),
    )


def queue_of(requests: list[Request]) -> Queue:
    """Requests as the columns that `market.clearing.posted.clear` takes; short rankings are filled up with -1."""
    ranks = max((len(request.lots) for request in requests), default=1) or 1

    def table(name: str, fill: float, kind: Any) -> np.ndarray:
        rows = [[*getattr(request, name), *([fill] * (ranks - len(request.lots)))] for request in requests]
        return np.array(rows, kind).reshape(len(requests), ranks)

    return Queue(
        need_h100e=np.array([request.need_h100e for request in requests], np.float64),
        wanted_h100e=np.array([request.wanted_h100e for request in requests], np.float64),
        lots=table("lots", -1, np.int64),
        work_per_gpu=table("work_per_gpu", 1.0, np.float64),
        quota_gpus=table("quota_gpus", np.inf, np.float64),
    )


def request(need: float, lots: tuple[int, ...], *, wanted: float | None = None, work: float = 1.0) -> Request:
    """A tenant that wants ``need`` at the lots named, best first, without quotas."""
    every = len(lots)
    return Request(need, need if wanted is None else wanted, lots, (work,) * every, (float("inf"),) * every)


@st.composite
def scarce_queues(draw: st.DrawFn) -> tuple[list[Request], list[float], ClearingParameters]:
    """Queues that mostly want more than there is, with part fills, quotas and every threshold on or off."""
    lots = draw(st.integers(1, 6))
    amount = st.one_of(st.integers(1, 40).map(float), st.floats(0.01, 50.0))
    requests = []
    for _ in range(draw(st.integers(1, 14))):
        named = draw(st.permutations(range(lots)))[: draw(st.integers(0, lots))]
        need = draw(amount)
        work = [draw(st.sampled_from([0.3, 1.0, 2.5, 7 / 3])) for _ in named]
        quota = [draw(st.sampled_from([np.inf, np.inf, 0.0, 0.5, 3.0])) for _ in named]
        wanted = need * draw(st.sampled_from([1.0, 1.0, 1.7, 15.0]))
        requests.append(Request(need, wanted, tuple(named), tuple(work), tuple(quota)))
    capacity = draw(st.lists(st.one_of(st.just(0.0), amount), min_size=lots, max_size=lots))
    parameters = clearing(
        skip_threshold=draw(st.sampled_from([0.0, 0.02, 0.3])),
        stop_threshold=draw(st.sampled_from([0.0, 0.03, 0.2])),
        unserved=draw(st.sampled_from(["next", "next", "leave"])),
    )
    return requests, capacity, parameters


Pooled = tuple[list[Request], list[float], ClearingParameters, list[PoolLot]]
"""Requests in order of service, GPUs by lot, thresholds, and the pools among the lots."""


def pool(lot: int, members: list[int], share: float = 1.0) -> PoolLot:
    """A pool's lot over members in merit order."""
    return PoolLot(lot, np.array(members, np.int64), share)


@st.composite
def pooled_queues(draw: st.DrawFn) -> Pooled:
    """Scarce queues in which some lots are pools over some others: none, one or two, of no member up to all of them."""
    requests, capacity, parameters = draw(scarce_queues())
    order = draw(st.permutations(range(len(capacity))))
    pools, first = [], 0
    for _ in range(draw(st.integers(0, 2))):
        last = first + 1 + draw(st.integers(0, len(order)))
        if first < len(order):
            capacity[order[first]] = 0.0  # a pool has nothing of its own
            share = draw(st.sampled_from([0.0, 0.5, 0.9, 1.0, 1.0]))
            pools.append(pool(order[first], list(order[first + 1 : last]), share))
        first = last
    return requests, capacity, parameters, pools
