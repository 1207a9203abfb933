"""Records: flat rows of every week, kept as columns until the run ends. Measures are computed from them, later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats, column_means, column_medians, ratio, totals
from market.bookrecords import book_week, default_week, flow_week, loan_week
from market.labels import Columns, labels_of
from market.suppliers import HYPERSCALER
from market.units import HOURS_PER_WEEK, Term

if TYPE_CHECKING:
    from market.distress import Default
    from market.model import MarketModel
    from market.trade import Trades

__all__ = ["Recorder"]


class Recorder:
    """Rows by table: seller, book, segment, market, desk, flow, loan and default weeks."""

    def __init__(self, model: MarketModel) -> None:
        self._labels = labels_of(model)
        self._weeks: dict[str, list[Columns]] = {}

    def record(self, model: MarketModel, trades: Trades, retired_gpus: Floats, defaults: list[Default]) -> None:
        """Record the week that closes."""
        held = _holdings(model)
        self._add("seller_week", model.week, self._seller_week(model, trades, held, retired_gpus))
        self._add("default_week", model.week, default_week(self._labels, defaults))
        self._add("book_week", model.week, book_week(self._labels, model))
        self._add("loan_week", model.week, loan_week(self._labels, model.accounts.drawn))
        self._add("segment_week", model.week, self._segment_week(model, trades))
        self._add("market_week", model.week, self._market_week(model, held))
        self._add("desk_week", model.week, self._desk_week(model, trades))
        self._add("flow_week", model.week, flow_week(model))

    def _add(self, table: str, week: int, columns: Columns) -> None:
        rows = len(next(iter(columns.values())))
        self._weeks.setdefault(table, []).append({"week": np.full(rows, week, np.int32), **columns})

    def tables(self) -> dict[str, Columns]:
        """All rows recorded so far, as columns by table."""
        return {
            table: {name: np.concatenate([week[name] for week in weeks]) for name in weeks[0]}
            for table, weeks in self._weeks.items()
        }

    def _seller_week(self, model: MarketModel, trades: Trades, held: Columns, retired_gpus: Floats) -> Columns:
        s = model.suppliers
        supplier, sku = np.nonzero((s.installed_gpus > 0.0) & s.third_party[:, None])
        at = (supplier, sku)
        signed = trades.leases
        lots, shape = model.book.open_gpus.size, model.book.open_gpus.shape
        new_gpus = signed.gpus_by_lot(lots).reshape(shape)
        new_revenue = totals(signed.lot, signed.gpus * signed.price_usd, lots).reshape(shape) * HOURS_PER_WEEK
        cloud, own_use = held["developer_cloud_gpus"][at], held["vendor_use_gpus"][at]
        sold, installed, pooled = held["sold_gpus"][at], s.installed_gpus[at], model.pooled_gpus[at]
        quote = np.zeros(model.book.skus) if model.pool_offer is None else np.nan_to_num(model.pool_offer.quote_usd)
        return {
            "seller": self._labels.names[supplier],
            "provider_class": self._labels.classes[supplier],
            "heavy": self._labels.heavy[supplier],
            "sku": self._labels.skus[sku],
            "vendor": self._labels.vendors[sku],
            "list_usd_per_gpu_hour": np.exp(s.list_ln[at]),
            "spot_usd_per_gpu_hour": model.book.price_usd[*at, Term.SPOT],
            "one_year_usd_per_gpu_hour": model.book.price_usd[*at, Term.ONE_YEAR],
            "installed_gpus": installed,
            "firm_gpus": s.firm_gpus[at],
            "available_gpus": s.available_gpus[at],
            "delivered_gpus": s.delivered_gpus[at],
            "sold_gpus": sold,
            "retired_gpus": retired_gpus[at],
            "pool_member": model.pool_member[supplier],
            "pool_gpus": pooled,
            "developer_cloud_gpus": cloud,
            "vendor_use_gpus": own_use,
            "down_gpus": np.zeros(len(sku)),
            "idle_gpus": s.available_gpus[at] - sold - pooled,
            "open_gpus": model.book.open_gpus[at],
            "revenue_usd": held["revenue_usd"][at],
            "pool_revenue_usd": pooled * quote[sku] * HOURS_PER_WEEK,
            "new_gpus": new_gpus[at],
            "new_revenue_usd": new_revenue[at],
            "turned_away_gpus": trades.turned_away_gpus[at],
            "revised": s.revised[at],
            "running_usd_per_gpu_hour": model.hardware.running_usd[sku],
            "full_cost_usd_per_gpu_hour": model.hardware.full_cost_usd[sku],
        }

    def _segment_week(self, model: MarketModel, trades: Trades) -> Columns:
        t, leases, signed = model.tenants, model.leases, trades.leases
        count = len(model.tables.segments)
        segment, sku = t.segment[leases.tenant], leases.lot % model.book.skus
        new_segment, new_sku = t.segment[signed.tenant], signed.lot % model.book.skus
        amd, new_amd = model.hardware.is_amd[sku], model.hardware.is_amd[new_sku]
        new_work = signed.gpus * model.software.base_throughput[new_segment, new_sku]
        spend = leases.gpus * model.prices_paid() * HOURS_PER_WEEK

        def by(segments: NDArray[Any], values: NDArray[Any]) -> Floats:
            return totals(segments, values, count)

        return {
            "segment": np.array([row.name for row in model.tables.segments]),
            "tenants": by(t.segment, t.weight),
            "amd_maturity": model.software.maturity[1].copy(),
            "amd_ready_share": ratio(by(t.segment, t.weight * t.amd_ready), by(t.segment, t.weight)),
            "wanted_h100e": by(t.segment, t.wanted_h100e * t.weight),
            "held_h100e": by(segment, leases.gpus * model.software.throughput[segment, sku]),
            "unmet_h100e": trades.unmet_h100e,
            "spend_usd": by(segment, spend),
            "amd_gpus": by(segment, leases.gpus * amd),
            "nvidia_gpus": by(segment, leases.gpus * ~amd),
            "amd_new_work_h100e": by(new_segment, new_work * new_amd),
            "nvidia_new_work_h100e": by(new_segment, new_work * ~new_amd),
            "movers": trades.movers,
            "switchers": trades.switchers,
            "surplus_usd": trades.surplus_usd,
            "cheapest_open_usd_per_h100e_hour": _cheapest_open(model),
            "mean_paid_usd_per_h100e_hour": _mean_paid(model, segment, sku, spend),
        }

    def _market_week(self, model: MarketModel, held: Columns) -> Columns:
        s = model.suppliers
        members = s.third_party & s.alive & (s.provider_class != HYPERSCALER)
        listed = np.where(members[:, None] & (s.available_gpus > 0.0), np.exp(s.list_ln), np.nan)
        third = s.third_party
        pooled = model.pooled_gpus.sum(axis=0)
        sold = held["sold_gpus"][third].sum(axis=0)
        available = s.available_gpus[third].sum(axis=0)
        total = sold + pooled + held["developer_cloud_gpus"].sum(axis=0)
        revenue = held["revenue_usd"][third].sum(axis=0)
        return {
            "sku": self._labels.skus,
            "vendor": self._labels.vendors,
            "list_mean_usd_per_gpu_hour": column_means(listed),
            "list_median_usd_per_gpu_hour": np.exp(column_medians(np.log(listed))),
            "realised_usd_per_gpu_hour": ratio(revenue, sold * HOURS_PER_WEEK),
            "one_year_usd_per_gpu_hour": column_means(model.book.price_usd[members, :, Term.ONE_YEAR]),
            "installed_gpus": s.installed_gpus[third].sum(axis=0),
            "sold_gpus": total,
            "utilisation": ratio(sold + pooled, available),
            "pool_gpus": pooled,
            "pool_quote_usd_per_gpu_hour": model.view.pool_quote_usd,
            "ordered_gpus": model.announced_gpus(),
        }

    def _desk_week(self, model: MarketModel, trades: Trades) -> Columns:
        offer = model.desk_offer
        sold = model.desk_sold_gpus()
        price = np.nan if offer is None else offer.price_usd
        return {
            "desk": np.array(["developer_cloud"]),
            "sku": self._labels.skus[[model.desk_sku]],
            "price_usd_per_gpu_hour": np.array([price]),
            "cap_gpus": np.array([0.0 if offer is None else offer.cap_gpus]),
            "sold_gpus": np.array([sold]),
            "requested_gpus": np.array([trades.desk_requested_gpus]),
            "filled_gpus": np.array([_signed_at_desk(model, trades)]),
            "rent_usd": np.array([model.accounts.ledger.week_total("developer_cloud_rent")]),
            "lease_cost_usd": np.array([model.accounts.ledger.week_total("leaseback")]),
            "salience": np.array([0.0 if offer is None else offer.salience]),
        }


def _signed_at_desk(model: MarketModel, trades: Trades) -> float:
    at_desk = trades.leases.lot // len(model.tables.skus) == model.cloud_row
    return float(trades.leases.gpus[at_desk].sum())


def _holdings(model: MarketModel) -> Columns:
    """GPUs sold, used by the vendor, and rent by supplier and SKU; the desk's hours lie on its partners' firm GPUs."""
    s, shape = model.suppliers, model.book.open_gpus.shape
    leases = model.leases
    sold = model.sold_gpus()
    rent = totals(leases.lot, leases.gpus * model.prices_paid(), model.book.open_gpus.size).reshape(shape)
    firm = np.where(s.third_party[:, None], s.firm_gpus, 0.0)
    share = firm / np.maximum(firm.sum(axis=0), 1e-300)
    cloud = share * model.cloud_gpus()
    return {
        "sold_gpus": sold,
        "revenue_usd": rent * HOURS_PER_WEEK,
        "developer_cloud_gpus": cloud,
        "vendor_use_gpus": firm - cloud,
    }


def _cheapest_open(model: MarketModel) -> Floats:
    """Cheapest open on-demand offer by segment, USD per H100e-hour, NaN where nothing is open."""
    third = model.suppliers.third_party
    price = np.where(model.book.open_gpus[third] > 0.0, model.book.price_usd[third][:, :, Term.ON_DEMAND], np.nan)
    per_work = np.where(np.isnan(price), np.inf, price).min(axis=0) / model.software.throughput
    cheapest = per_work.min(axis=1)
    return np.where(np.isinf(cheapest), np.nan, cheapest)


def _mean_paid(model: MarketModel, segment: NDArray[Any], sku: NDArray[Any], spend: Floats) -> Floats:
    """Mean price that short-term holders pay by segment, USD per H100e-hour."""
    short = model.leases.term <= Term.ON_DEMAND
    count = len(model.tables.segments)
    work = totals(segment[short], (model.leases.gpus * model.software.throughput[segment, sku])[short], count)
    return ratio(totals(segment[short], spend[short], count), work * HOURS_PER_WEEK)
