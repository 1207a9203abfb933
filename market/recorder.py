"""Records: flat rows of every week, kept as columns until the run ends. Measures are computed from them, later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from market.arrays import Floats, column_means, column_medians, ratio, totals
from market.failure import fleet_value_usd
from market.ledger import ENTRY_TYPES, REST_OF_WORLD, Account
from market.suppliers import HYPERSCALER, PROVIDER_CLASSES
from market.units import HOURS_PER_WEEK, Term

if TYPE_CHECKING:
    from market.distress import Default
    from market.model import MarketModel
    from market.trade import Trades

__all__ = ["Recorder", "ledger_kinds"]

Columns = dict[str, NDArray[Any]]


class Recorder:
    """Rows by table: seller, book, segment, market, desk, flow, loan and default weeks."""

    def __init__(self, model: MarketModel) -> None:
        suppliers, tables = model.suppliers, model.tables
        self._names = np.array(suppliers.names)
        self._classes = np.array(PROVIDER_CLASSES)[suppliers.provider_class]
        self._skus = np.array([sku.name for sku in tables.skus])
        self._vendors = np.array([sku.vendor for sku in tables.skus])
        amd = suppliers.installed_gpus[:, model.hardware.is_amd].sum(axis=1)
        mostly_amd = np.where(suppliers.opening_gpus > 0.0, amd >= 0.5 * suppliers.opening_gpus, ~suppliers.runs_nvidia)
        self._heavy = np.where(mostly_amd, "amd", "nvidia")
        self._weeks: dict[str, list[Columns]] = {}

    def record(self, model: MarketModel, trades: Trades, retired_gpus: Floats, defaults: list[Default]) -> None:
        """Record the week that closes."""
        held = _holdings(model)
        self._add("seller_week", model.week, self._seller_week(model, trades, held, retired_gpus))
        self._add("default_week", model.week, self._default_week(defaults))
        self._add("book_week", model.week, self._book_week(model))
        self._add("loan_week", model.week, self._loan_week(model))
        self._add("segment_week", model.week, self._segment_week(model, trades))
        self._add("market_week", model.week, self._market_week(model, held))
        self._add("desk_week", model.week, self._desk_week(model, trades))
        self._add("flow_week", model.week, self._flow_week(model))

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
        quote = np.zeros(len(self._skus)) if model.pool_offer is None else np.nan_to_num(model.pool_offer.quote_usd)
        return {
            "seller": self._names[supplier],
            "provider_class": self._classes[supplier],
            "heavy": self._heavy[supplier],
            "sku": self._skus[sku],
            "vendor": self._vendors[sku],
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

    def _book_week(self, model: MarketModel) -> Columns:
        accounts, ledger = model.accounts, model.accounts.ledger
        rows = np.array([*accounts.seller_rows, *accounts.vendor_rows, accounts.lender_row])
        sellers, others = len(accounts.seller_rows), len(accounts.vendor_rows) + 1

        def week(account: Account) -> Floats:
            return np.asarray(ledger.week_income(account)[rows])

        names = np.array(ledger.names)[rows]
        kinds = [*(["vendor"] * (others - 1)), "lender"]
        classes = np.concatenate([self._classes[:sellers], np.array(kinds)])
        heavy = np.concatenate([self._heavy[:sellers], accounts.vendor_names, np.array(["none"])])
        alive = np.concatenate([model.suppliers.alive[:sellers], np.ones(others, np.bool_)])
        contracted = np.concatenate([accounts.contracted_share[:sellers], np.zeros(others)])
        cover = np.concatenate([accounts.dscr, np.full(others, np.nan)])
        fleet_value = np.concatenate([fleet_value_usd(model)[:sellers], np.zeros(others)])
        apart = np.zeros(others, np.bool_)
        breach = np.concatenate([accounts.covenants.breach_weeks > 0, apart])
        standstill = np.concatenate([accounts.covenants.standing_still, apart])
        return {
            "agent": names,
            "provider_class": classes,
            "heavy": heavy,
            "rent_usd": week(Account.RENT_INCOME),
            "pool_usd": week(Account.POOL_INCOME),
            "leaseback_usd": week(Account.LEASEBACK_INCOME),
            "running_usd": week(Account.RUNNING),
            "overhead_usd": week(Account.OVERHEAD),
            "fee_usd": week(Account.FEE_PAID),
            "fee_income_usd": week(Account.FEE_INCOME),
            "depreciation_usd": week(Account.DEPRECIATION),
            "interest_usd": week(Account.INTEREST_EXPENSE),
            "tax_usd": week(Account.TAX),
            "cash_usd": ledger.cash()[rows],
            "debt_usd": ledger.balance_of(Account.DEBT)[rows],
            "book_value_usd": ledger.balance_of(Account.GPUS)[rows],
            "alive": alive,
            "contracted_share": contracted,
            "dscr": cover,
            "hardware_sales_usd": week(Account.HARDWARE_SALES),
            "leaseback_paid_usd": week(Account.LEASEBACK_PAID),
            "developer_cloud_rent_usd": week(Account.DEVELOPER_CLOUD_INCOME),
            "programme_usd": week(Account.PROGRAMME),
            "guarantee_paid_usd": week(Account.GUARANTEE_PAID),
            "credit_loss_usd": week(Account.CREDIT_LOSS),
            "guarantee_income_usd": week(Account.GUARANTEE_INCOME),
            "resale_result_usd": week(Account.SALE_RESULT),
            "hardware_cost_usd": week(Account.COST_OF_SALES),
            "cover_paid_usd": ledger.week_paid("cover")[rows],
            "equity_in_usd": week(Account.PAID_IN),
            "profit_usd": ledger.week_profit()[rows],
            "fleet_value_usd": fleet_value,
            "breach": breach,
            "standstill": standstill,
        }

    def _loan_week(self, model: MarketModel) -> Columns:
        drawn = model.accounts.drawn
        return {
            "seller": self._names[drawn.seller],
            "provider_class": self._classes[drawn.seller],
            "sku": self._skus[drawn.sku],
            "loan_usd": drawn.usd,
            "annual_rate": drawn.annual_rate,
            "contracted_share": drawn.contracted_share,
            "bankable_share": drawn.bankable_share,
        }

    def _default_week(self, defaults: list[Default]) -> Columns:
        seller = np.array([default.seller for default in defaults], np.int64)
        return {
            "seller": self._names[seller],
            "provider_class": self._classes[seller],
            "heavy": self._heavy[seller],
            "cause": np.array([default.cause for default in defaults], "<U16"),
            "debt_usd": np.array([default.debt_usd for default in defaults], np.float64),
            "recovered_usd": np.array([default.recovered_usd for default in defaults], np.float64),
            "guaranteed_usd": np.array([default.guaranteed_usd for default in defaults], np.float64),
            "loss_usd": np.array([default.loss_usd for default in defaults], np.float64),
            "gpus": np.array([default.gpus for default in defaults], np.float64),
        }

    def _segment_week(self, model: MarketModel, trades: Trades) -> Columns:
        t, leases, signed = model.tenants, model.leases, trades.leases
        count = len(model.tables.segments)
        segment, sku = t.segment[leases.tenant], leases.lot % len(self._skus)
        amd = model.hardware.is_amd[sku]
        new_segment, new_sku = t.segment[signed.tenant], signed.lot % len(self._skus)
        new_work, new_amd = (
            signed.gpus * model.software.base_throughput[new_segment, new_sku],
            model.hardware.is_amd[new_sku],
        )
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
            "sku": self._skus,
            "vendor": self._vendors,
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
            "sku": self._skus[[model.desk_sku]],
            "price_usd_per_gpu_hour": np.array([price]),
            "cap_gpus": np.array([0.0 if offer is None else offer.cap_gpus]),
            "sold_gpus": np.array([sold]),
            "requested_gpus": np.array([trades.desk_requested_gpus]),
            "filled_gpus": np.array([_signed_at_desk(model, trades)]),
            "rent_usd": np.array([model.accounts.ledger.week_total("developer_cloud_rent")]),
            "lease_cost_usd": np.array([model.accounts.ledger.week_total("leaseback")]),
            "salience": np.array([0.0 if offer is None else offer.salience]),
        }

    def _flow_week(self, model: MarketModel) -> Columns:
        """Money that changes hands between kinds of agents."""
        kinds, kind_of = np.unique(ledger_kinds(model), return_inverse=True)
        (reason, payer, payee), usd = model.accounts.ledger.cash_flows(kind_of, len(kinds))
        return {
            "payer_kind": kinds[payer],
            "payee_kind": kinds[payee],
            "reason": np.array(list(ENTRY_TYPES))[reason],
            "usd": usd,
        }


def ledger_kinds(model: MarketModel) -> NDArray[Any]:
    """Kind of each row of the ledger: class of a seller, name of a vendor, lender, tenant, rest of the world."""
    accounts, classes = model.accounts, np.array(PROVIDER_CLASSES)[model.suppliers.provider_class]
    sellers, tenants = len(accounts.seller_rows), len(accounts.segment_rows)
    others = np.array(["lender", *["tenant"] * tenants, REST_OF_WORLD])
    return np.concatenate([classes[:sellers], accounts.vendor_names, others])


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
