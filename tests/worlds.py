"""Worlds that tests share: small random scenarios, what a run shows, and seeded faults.

Two kinds of world (markets whose prices are known in closed form are in ``tests/theory/textbook.py``):

* `small_world` - a hypothesis strategy: a random, valid `Scenario` with replaced small tables, a seed and a length;
* `few_sellers` - one fixed small market, for claims about rules.
"""

from __future__ import annotations

import atexit
import csv
import hashlib
import io
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

import market.randomness
import market.trade
from agents.rules.participation import PARTICIPATION
from agents.rules.pricing import PRICING
from experiments.build import build
from experiments.events import LIVE_KEYS
from experiments.scenario import Scenario
from market.ledger import Ledger
from market.model import MarketModel

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]
RunTables = dict[str, Columns]

CLOUD_SKU = "MI300X"
PARTNERS = ("Crusoe", "DigitalOcean", "Vultr", "TensorWave")
_HYPERSCALERS = ("AWS", "Azure", "GCP", "OCI")

NO_OFFER: Mapping[str, Any] = {"developer_cloud.cap_gpus": 0.0}
SAME_HOURS: Mapping[str, Any] = {"developer_cloud.price_rule": "partners-median"}
OFFER: Mapping[str, Any] = {"developer_cloud.price_rule": "fixed"}
ARMS: Mapping[str, Mapping[str, Any]] = {"none": NO_OFFER, "same-hours": SAME_HOURS, "offer": OFFER}

FIXED_RIVALS: Mapping[str, Any] = {
    f"pricing.{name}_rule": "fixed" for name in ("neocloud", "marketplace", "hyperscaler")
}


# ------------------------------------------------------------------------------------------------ tables of one's own

_FOLDER = Path(tempfile.mkdtemp(prefix="worlds-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)

Row = dict[str, str]


@cache
def _shipped(name: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    text = files("market").joinpath(f"data/{name}.csv").read_text(encoding="utf-8")
    return tuple(tuple(row.items()) for row in csv.DictReader(io.StringIO(text)))


def shipped_rows(name: str) -> list[Row]:
    """Rows of a shipped table as written."""
    return [dict(row) for row in _shipped(name)]


def table_file(name: str, rows: Iterable[Mapping[str, object]]) -> str:
    """A table written to a file that lives as long as the tests; columns as in the shipped one."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(shipped_rows(name)[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    content = text.getvalue()
    path = _FOLDER / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.csv"
    path.write_text(content, encoding="utf-8")
    return str(path)


def fleets_of(sellers: Iterable[str]) -> list[Row]:
    """Shipped fleet rows of some sellers."""
    wanted = set(sellers)
    return [row for row in shipped_rows("fleets") if row["seller"] in wanted]


def with_sellers(scenario: Scenario, sellers: Iterable[str]) -> Scenario:
    """The scenario with these of the shipped sellers only."""
    return scenario.with_({"data.fleets": table_file("fleets", fleets_of(sellers))})


# ------------------------------------------------------------------------------------------------ fixed worlds

FEW_SELLERS = ("OCI", "Lambda", "Vultr", "DigitalOcean", "TensorWave", "Hot Aisle", "Vast.ai")


def few_sellers(changes: Mapping[str, Any] | None = None) -> Scenario:
    """A market of seven sellers of all classes and both vendors, with rows enough to trade every week."""
    small = {"tenants.rows": 200, "tenants.rows_per_segment_minimum": 20, "developer_cloud.firm_gpus": 2000.0}
    return with_sellers(Scenario.load(), FEW_SELLERS).with_({**small, **(changes or {})})


def played(scenario: Scenario, seed: int = 0, weeks: int = 10) -> MarketModel:
    """The market of a scenario after some weeks."""
    model = build(scenario, seed)
    model.run(weeks)
    return model


def tables_of(scenario: Scenario, seed: int = 0, weeks: int = 10) -> RunTables:
    """Recorded tables of a run."""
    return played(scenario, seed, weeks).recorder.tables()


def assert_same_tables(one: RunTables, other: RunTables, *, before_week: int | None = None) -> None:
    """Bit-equal in every column of every table (weeks before ``before_week`` only, where given)."""
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].keys() == other[name].keys()
        weeks = [table[name]["week"] for table in (one, other)]
        kept = [np.full(len(w), True) if before_week is None else w < before_week for w in weeks]
        for column in one[name]:
            left, right = one[name][column][kept[0]], other[name][column][kept[1]]
            np.testing.assert_array_equal(left, right, err_msg=f"{name}.{column}", strict=True)


# ------------------------------------------------------------------------------------------------ random worlds


@dataclass(frozen=True)
class SmallWorld:
    """A random scenario with its luck and length; shown by what differs from the default."""

    scenario: Scenario
    seed: int
    weeks: int

    def __repr__(self) -> str:
        changes = {key: theirs for key, (_, theirs) in Scenario.load().differences(self.scenario).items()}
        return f"SmallWorld({changes}, seed={self.seed}, weeks={self.weeks})"

    def build(self) -> MarketModel:
        """The market at its opening."""
        return build(self.scenario, self.seed)


_LEVERS: Mapping[str, st.SearchStrategy[Any]] = {
    "tenants.rows": st.integers(20, 160),
    "tenants.rows_per_segment_minimum": st.integers(1, 12),
    "tenants.home_share": st.floats(0.0, 1.0),
    "tenants.opening_load": st.floats(0.05, 1.6),
    "tenants.size_cap_share": st.floats(0.001, 1.0),
    "tenants.amd_ready_share": st.floats(0.0, 1.0),
    "tenants.taste_scale": st.floats(0.0, 2.0),
    "tenants.switching_cost": st.floats(0.0, 1.0),
    "demand.growth_first_per_year": st.floats(-2.0, 3.0),
    "demand.growth_peak_per_year": st.floats(-2.0, 3.0),
    "demand.common_sd": st.floats(0.0, 0.3),
    "demand.own_sd": st.floats(0.0, 0.5),
    "demand.intensive_elasticity": st.floats(0.0, 3.0),
    "demand.commitment_mean_weeks": st.integers(1, 20),
    "choice.utility": st.sampled_from(("log", "linear")),
    "choice.size_pull": st.floats(0.0, 1.0),
    "choice.search_sellers": st.integers(0, 8),
    "choice.all_sellers_known": st.booleans(),
    "choice.outside_option": st.booleans(),
    "choice.gumbel_scale": st.floats(0.0, 3.0),
    "clearing.need_threshold": st.floats(0.0, 0.5),
    "clearing.stop_threshold": st.floats(0.0, 0.5),
    "clearing.skip_threshold": st.floats(0.0, 0.5),
    "clearing.offers_tried_maximum": st.integers(1, 20),
    "clearing.shrink_threshold": st.floats(1.0, 2.0),
    "clearing.priority_spread": st.floats(0.0, 3.0),
    "clearing.unserved": st.sampled_from(("next", "leave")),
    "costs.overhead_share_of_revenue": st.floats(0.0, 0.5),
    "finance.tax_rate": st.floats(0.0, 0.5),
    "finance.rate_uncontracted": st.floats(0.0, 0.5),
    "finance.opening_loan_rate": st.floats(0.0, 0.5),
    "finance.tenor_payments": st.integers(1, 20),
    "finance.service_interval_weeks": st.integers(1, 15),
    "finance.depreciation_years": st.floats(0.5, 6.0),
    "finance.opening_depreciation_years": st.floats(0.1, 4.0),
    "pricing.adjust_per_week": st.floats(0.0, 2.0),
    "pricing.noise_sd": st.floats(0.0, 0.3),
    "pricing.sku_premium_sd": st.floats(0.0, 1.0),
    "pricing.revision_scale": st.floats(0.0, 20.0),
    "pricing.anchor_weight": st.floats(0.0, 1.0),
    "leaseback.lease_rate_usd_per_gpu_hour": st.floats(0.0, 5.0),
    "developer_cloud.start_week": st.integers(1, 6),
    "developer_cloud.price_usd_per_gpu_hour": st.floats(0.05, 10.0),
    "developer_cloud.price_rule": st.sampled_from(("fixed", "partners-median")),
    "developer_cloud.quota_minimum_gpus": st.floats(0.0, 200.0),
    "developer_cloud.quota_share_of_cap": st.floats(0.0, 1.0),
    "developer_cloud.readiness_hazard": st.floats(0.0, 0.5),
    "lepton.mode": st.sampled_from(sorted(PARTICIPATION)),
    "lepton.open_week": st.integers(1, 6),
    "lepton.review_interval_weeks": st.integers(1, 6),
    "lepton.take_rate": st.floats(0.0, 0.9),
    "lepton.offered_share": st.floats(0.0, 1.0),
    "lepton.identity_erosion": st.floats(0.0, 1.0),
    "capacity.round_weeks": st.integers(1, 4),
    "capacity.lead_weeks": st.integers(0, 6),
    "capacity.supply_limits": st.booleans(),
    "capacity.retirement_patience_weeks": st.integers(1, 4),
    "leaseback.share": st.floats(0.0, 1.0),
    "leaseback.term_weeks": st.integers(1, 20),
    "buyback.share": st.floats(0.0, 1.0),
    "buyback.start_week": st.integers(1, 6),
    "backstop.guarantee_share": st.floats(0.0, 1.0),
    "finance.opening_cash_share": st.floats(0.0, 0.1),
    "finance.amd_debt_multiple": st.floats(0.0, 3.0),
    "finance.storage_weeks": st.integers(0, 6),
    "finance.rescue_dscr": st.floats(0.0, 2.0),
    "finance.opening_loan_to_value": st.floats(0.0, 2.0),
    "finance.facility_limit_usd": st.floats(0.0, 1e9),
    "finance.balloon_share": st.floats(0.0, 1.0),
    "finance.refinancing_gain": st.floats(0.0, 0.05),
    "finance.cash_sweep_share": st.floats(0.0, 1.0),
    "finance.breach_dscr": st.floats(0.0, 4.0),
    "finance.covenant_loan_to_value": st.floats(0.0, 2.0),
    "finance.covenant_value": st.sampled_from(("market", "book")),
    "finance.cure_weeks": st.integers(0, 4),
    "finance.standstill_weeks": st.integers(0, 4),
    "finance.loss_response": st.floats(0.0, 5.0),
    "finance.tax_depreciation_years": st.floats(0.5, 6.0),
    "finance.amd_hardware_margin": st.floats(-1.0, 1.0),
    "leaseback.cap_usd": st.floats(0.0, 1e8),
    "leaseback.revenue_share": st.floats(0.0, 1.0),
    "backstop.revenue_share": st.floats(0.0, 1.0),
    "backstop.cap_usd": st.floats(0.0, 1e8),
    "software.maturity_speed": st.floats(0.0, 0.5),
    "software.frontier_decay": st.floats(0.0, 0.1),
}
# A third of the worlds is poor: failures, repossession, resale and guarantees have to happen in them within weeks.
_POOR: Mapping[str, st.SearchStrategy[Any]] = {
    "finance.opening_cash_share": st.just(0.0),
    "finance.opening_loan_to_value": st.sampled_from((1.0, 1.5)),
    "finance.cure_weeks": st.integers(0, 2),
    "finance.standstill_weeks": st.integers(0, 2),
    "finance.rescue_dscr": st.sampled_from((0.0, 10.0)),
    "finance.storage_weeks": st.integers(0, 2),
    "backstop.guarantee_share": st.sampled_from((0.0, 0.5, 1.0)),
    "leaseback.partners": st.just("all"),
}
_QUICK_RULES = tuple(name for name in PRICING if name != "best-response")


@st.composite
def _levers(draw: st.DrawFn) -> dict[str, Any]:
    """A handful of levers away from their defaults; all at once would make most worlds alike."""
    chosen = draw(st.lists(st.sampled_from(sorted(_LEVERS)), max_size=14, unique=True))
    changes = {key: draw(_LEVERS[key]) for key in chosen}
    if "tenants.rows" not in changes:
        changes["tenants.rows"] = 80
    changes.setdefault("tenants.rows_per_segment_minimum", 5)
    if draw(st.integers(0, 2)) == 2:
        changes |= {key: draw(value) for key, value in _POOR.items()}
    for provider in ("neocloud", "marketplace", "hyperscaler"):
        if draw(st.booleans()):
            changes[f"pricing.{provider}_rule"] = draw(st.sampled_from(_QUICK_RULES))
    firm = draw(st.sampled_from((500.0, 0.0, 20_000.0, 10.0)))
    changes["developer_cloud.firm_gpus"] = firm
    changes["developer_cloud.cap_gpus"] = firm * draw(st.sampled_from((1.0, 0.5, 0.01, 0.0)))
    return changes


@st.composite
def _fleets(draw: st.DrawFn) -> list[Row]:
    """A partner of the developer cloud and up to six other sellers, fleets scaled and filled anew."""
    names = sorted({row["seller"] for row in shipped_rows("fleets")})
    others = draw(st.lists(st.sampled_from(names), max_size=5, unique=True))
    giant = draw(st.lists(st.sampled_from(_HYPERSCALERS), max_size=1))
    rows = fleets_of({draw(st.sampled_from(PARTNERS)), *others, *giant})
    for row in rows:
        row["gpus"] = repr(float(row["gpus"]) * draw(st.sampled_from((0.003, 0.1, 1.0))))
        row["utilisation"] = repr(draw(st.sampled_from((0.0, 0.5, 0.85, 1.0))))
    return rows


@st.composite
def _deliveries(draw: st.DrawFn, fleets: Sequence[Mapping[str, str]]) -> list[dict[str, object]]:
    """Early deliveries to the sellers at hand, of SKUs they hold and SKUs new to them."""
    sellers = sorted({row["seller"] for row in fleets})
    skus = sorted({row["sku"] for row in shipped_rows("hardware")})
    one = st.tuples(st.sampled_from(sellers), st.sampled_from(skus), st.integers(1, 8), st.floats(0.0, 5000.0))
    orders = draw(st.lists(one, max_size=4, unique_by=lambda order: order[:3]))
    provenance = {"as_of": "2025-06", "source": "assumption", "confidence": "assumption", "note": ""}
    return [
        {"seller": seller, "sku": sku, "week": week, "gpus": repr(gpus), **provenance}
        for seller, sku, week, gpus in orders
    ]


_SEGMENTS = tuple(row["name"] for row in shipped_rows("segments"))
_CLASSES = ("hyperscaler", "neocloud", "marketplace")
# Policies whose values are also drawn as levers come from there; these are the ones that take something away mid-way.
_POLICIES: Mapping[str, st.SearchStrategy[Any]] = {
    **{key: values for key, values in _LEVERS.items() if key in LIVE_KEYS and not key.startswith("demand.growth")},
    "developer_cloud.cap_gpus": st.sampled_from((0.0, 1.0, 5.0)),
    "demand.growth_first_per_year": st.floats(-2.0, 3.0),
    "finance.default_enabled": st.booleans(),
    "software.maturity_moves": st.booleans(),
    "costs.electricity_usd_per_kwh": st.floats(0.0, 0.5),
    "choice.port_cost": st.floats(0.0, 1.0),
}


@st.composite
def _event(draw: st.DrawFn, sellers: Sequence[str], firm_gpus: float, weeks: int) -> dict[str, Any]:
    """One event of any kind."""
    seller = st.sampled_from(sellers)
    skus = st.sampled_from(sorted({row["sku"] for row in shipped_rows("hardware")}))
    keys = [key for key in sorted(_POLICIES) if key != "developer_cloud.cap_gpus" or firm_gpus >= 5.0]
    kind = draw(st.sampled_from(("list-price", "chip", "demand", "tenant-leaves", "policy")))
    fields: dict[str, Any] = {"kind": kind, "week": draw(st.integers(1, weeks))}
    if kind == "list-price":
        fields |= {"factor": draw(st.floats(0.01, 10.0)), "sku": draw(st.just("") | skus)}
        fields |= draw(seller.map(lambda name: {"seller": name}) | st.sampled_from(_CLASSES).map(_of_class))
    elif kind == "chip":
        fields |= {"sku": draw(skus), "slip_weeks": draw(st.integers(-20, 20))}
    elif kind == "demand":
        fields |= {"size": draw(st.floats(-0.99, 2.0)), "weeks": draw(st.integers(0, 6))}
        fields["segment"] = draw(st.sampled_from(("", *_SEGMENTS)))
    elif kind == "tenant-leaves":
        fields |= {"seller": draw(seller), "share": draw(st.floats(0.0, 1.0))}
    else:
        key = draw(st.sampled_from(keys))
        fields |= {"key": key, "value": draw(_POLICIES[key])}
    return fields


def _of_class(provider_class: str) -> dict[str, str]:
    return {"provider_class": provider_class}


def event_cells(events: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Changes of a scenario that add events, by dotted key."""
    return {f"events.{name}.{key}": cell for name, event in events.items() for key, cell in event.items()}


@st.composite
def small_world(draw: st.DrawFn, weeks: int = 16) -> SmallWorld:
    """Random small but valid worlds: one to seven shipped sellers, 20 to 160 tenant rows, levers all over their ranges,
    up to four dated events.

    Args:
        draw: hypothesis' hand.
        weeks: longest run; the shortest is half of it.
    """
    fleets = draw(_fleets())
    tables = {
        "data.fleets": table_file("fleets", fleets),
        "data.deliveries": table_file("deliveries", draw(_deliveries(fleets))),
    }
    levers = draw(_levers())
    sellers = sorted({row["seller"] for row in fleets})
    events = draw(st.lists(_event(sellers, levers["developer_cloud.firm_gpus"], weeks), max_size=4))
    dated = event_cells({f"e{number}": event for number, event in enumerate(events)})
    scenario = Scenario.load().with_({**tables, **levers, **dated})
    return SmallWorld(scenario, draw(st.integers(0, 2**63 - 1)), draw(st.integers(weeks // 2, weeks)))


# ------------------------------------------------------------------------------------------------ what a run shows


def by_week(
    table: Columns, column: str, mask: NDArray[np.bool_] | None = None, *, last_week: int | None = None
) -> Floats:
    """Sum of a column by week, ``(weeks + 1,)``; up to ``last_week`` where the table may end before the run does."""
    kept = np.ones(len(table["week"]), np.bool_) if mask is None else mask
    last = int(table["week"].max()) if last_week is None else last_week
    return np.bincount(table["week"][kept], table[column][kept].astype(np.float64), last + 1)


def amd_gpus(tables: RunTables) -> Floats:
    """GPUs of AMD that end tenants hold, the developer cloud's included, by week."""
    return by_week(tables["segment_week"], "amd_gpus")


def cloud_gpus(tables: RunTables) -> Floats:
    """GPUs that end tenants hold at the developer cloud, by week."""
    return by_week(tables["desk_week"], "sold_gpus")


def list_price(tables: RunTables, sku: str, weeks: slice) -> float:
    """Capacity-weighted mean list price of neoclouds and marketplaces over some weeks, USD per GPU-hour."""
    rows = tables["seller_week"]
    kept = (rows["sku"] == sku) & (rows["provider_class"] != "hyperscaler") & (rows["available_gpus"] > 0.0)
    value = {**rows, "value": rows["list_usd_per_gpu_hour"] * rows["available_gpus"]}
    over, under = by_week(value, "value", kept)[weeks], by_week(rows, "available_gpus", kept)[weeks]
    return float(np.mean(over / under))


def utilisation(tables: RunTables, weeks: slice) -> float:
    """End tenants' hours over available hours of third-party sellers over some weeks."""
    rows = tables["seller_week"]
    return float(by_week(rows, "sold_gpus")[weeks].sum() / by_week(rows, "available_gpus")[weeks].sum())


def amd_share(tables: RunTables, weeks: slice) -> float:
    """AMD's share of end tenants' GPU-hours over some weeks."""
    amd, nvidia = (by_week(tables["segment_week"], f"{vendor}_gpus")[weeks].sum() for vendor in ("amd", "nvidia"))
    return float(amd / (amd + nvidia))


def headline(tables: RunTables, weeks: slice) -> dict[str, float]:
    """The figures a reader looks at first."""
    return {
        "price_mean H100": list_price(tables, "H100", weeks),
        "price_mean MI300X": list_price(tables, "MI300X", weeks),
        "amd_hour_share": amd_share(tables, weeks),
        "utilisation": utilisation(tables, weeks),
        "developer_cloud_gpus": float(cloud_gpus(tables)[weeks].mean()),
    }


# ------------------------------------------------------------------------------------------------ recorded luck

DrawKey = tuple[int, int, int, int, int]
"""Purpose, week, draw, agent key, item key."""


def record_draws(monkeypatch: pytest.MonkeyPatch) -> dict[DrawKey, int]:
    """From now on, every draw of the market by its key; to be called before a model is built."""
    original, seen = market.randomness.bits, dict[DrawKey, int]()

    def noting(
        seed: int, purpose: int, week: Any, agent_key: Any, item_key: Any = 0, draw: Any = 0
    ) -> NDArray[np.uint64]:
        value = original(seed, purpose, week, agent_key, item_key, draw)
        fields = (np.asarray(field).astype(np.uint64) for field in (week, draw, agent_key, item_key))
        columns = [column.ravel().tolist() for column in np.broadcast_arrays(value, *fields)]
        for number, *key in zip(*columns, strict=True):
            _note(seen, (int(purpose), *key), number)
        return value

    monkeypatch.setattr(market.randomness, "bits", noting)
    return seen


def _note(seen: dict[DrawKey, int], key: Any, value: int) -> None:
    if seen.setdefault(key, value) != value:
        raise AssertionError(f"the draw {key} has two values")


# ------------------------------------------------------------------------------------------------ seeded faults


def post_twice(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Fault: from now on every posting for a reason is made twice, each in balance."""
    original = Ledger.post

    def faulty(self: Ledger, what: str, *sides: Any) -> None:
        for _ in range(2 if what == reason else 1):
            original(self, what, *sides)

    monkeypatch.setattr(Ledger, "post", faulty)


def book_twice(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Fault: both sides of an entry reach the balances twice while its flow is counted once."""
    original = Ledger.post

    def faulty(self: Ledger, what: str, *sides: Any) -> None:
        original(self, what, *sides)
        if what == reason:
            flow, to_date = self.flow.copy(), self.flow_to_date.copy()
            original(self, what, *sides)
            self.flow[:], self.flow_to_date[:] = flow, to_date

    monkeypatch.setattr(Ledger, "post", faulty)


def sell_twice(monkeypatch: pytest.MonkeyPatch, which: Callable[[MarketModel], NDArray[np.bool_]]) -> None:
    """Fault: after each clearing the largest lease among those that ``which`` marks is signed a second time."""
    original = market.trade.clear_market

    def faulty(model: MarketModel, *terms: Any) -> market.trade.Trades:
        trades = original(model, *terms)
        marked = np.flatnonzero(which(model))
        twin = marked[np.argmax(model.leases.gpus[marked])]
        model.leases = model.leases.joined(model.leases.keep(np.arange(len(model.leases)) == twin))
        return trades

    monkeypatch.setattr(market.trade, "clear_market", faulty)


def in_full_lots(model: MarketModel) -> NDArray[np.bool_]:
    """Leases of lots without an open GPU."""
    return model.book.open_gpus.ravel()[model.leases.lot] <= 0.0


def in_roomy_lots(model: MarketModel) -> NDArray[np.bool_]:
    """Leases of lots with more GPUs open than the lease holds."""
    return model.book.open_gpus.ravel()[model.leases.lot] > 2.0 * model.leases.gpus


def hold_prices(model: MarketModel) -> None:
    """From now on sellers keep their prices."""
    for _, seller in model.sellers:
        seller.rule = PRICING["fixed"]
