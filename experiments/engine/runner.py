"""One run: build the market of a scenario, run its weeks, return its records as typed frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from experiments.engine.plan import RunSpec

if TYPE_CHECKING:
    from experiments.scenario import Scenario

__all__ = ["DERIVED", "TABLES", "RunResult", "Tables", "execute", "framed", "simulate"]

Tables = dict[str, pl.DataFrame]
"""Recorded tables of a run by name."""

_KINDS: dict[str, pl.DataType] = {
    "week": pl.Int32(),
    **dict.fromkeys(
        (
            *("seller", "provider_class", "heavy", "sku", "vendor", "agent", "segment", "desk", "cause", "metric"),
            *("payer_kind", "payee_kind", "reason"),
        ),
        pl.String(),
    ),
    **dict.fromkeys(("revised", "alive", "pool_member", "breach", "standstill"), pl.Boolean()),
}  # every other column is a quantity

_COLUMNS = {
    "seller_week": (
        "week seller provider_class heavy sku vendor list_usd_per_gpu_hour spot_usd_per_gpu_hour "
        "one_year_usd_per_gpu_hour installed_gpus firm_gpus available_gpus sold_gpus pool_gpus developer_cloud_gpus "
        "vendor_use_gpus down_gpus idle_gpus revenue_usd pool_revenue_usd new_gpus new_revenue_usd turned_away_gpus "
        "revised running_usd_per_gpu_hour full_cost_usd_per_gpu_hour open_gpus delivered_gpus retired_gpus pool_member"
    ),
    "book_week": (
        "week agent provider_class heavy rent_usd pool_usd leaseback_usd running_usd overhead_usd depreciation_usd "
        "interest_usd tax_usd cash_usd debt_usd book_value_usd alive hardware_sales_usd leaseback_paid_usd "
        "developer_cloud_rent_usd fee_usd fee_income_usd contracted_share dscr programme_usd guarantee_paid_usd "
        "credit_loss_usd guarantee_income_usd resale_result_usd hardware_cost_usd cover_paid_usd equity_in_usd "
        "profit_usd fleet_value_usd breach standstill"
    ),
    "segment_week": (
        "week segment wanted_h100e held_h100e unmet_h100e spend_usd amd_gpus nvidia_gpus amd_new_work_h100e "
        "nvidia_new_work_h100e movers switchers surplus_usd mean_paid_usd_per_h100e_hour "
        "cheapest_open_usd_per_h100e_hour tenants amd_maturity amd_ready_share"
    ),
    "market_week": (
        "week sku vendor list_mean_usd_per_gpu_hour list_median_usd_per_gpu_hour realised_usd_per_gpu_hour "
        "one_year_usd_per_gpu_hour installed_gpus sold_gpus utilisation pool_gpus pool_quote_usd_per_gpu_hour "
        "ordered_gpus"
    ),
    "desk_week": (
        "week desk sku price_usd_per_gpu_hour cap_gpus sold_gpus requested_gpus filled_gpus rent_usd "
        "lease_cost_usd salience"
    ),
    "flow_week": "week payer_kind payee_kind reason usd",
    "loan_week": "week seller provider_class sku loan_usd annual_rate contracted_share bankable_share",
    "default_week": ("week seller provider_class heavy cause debt_usd recovered_usd guaranteed_usd loss_usd gpus"),
}

_DERIVED_COLUMNS = {
    "trend_week": "week metric sku provider_class value weight",
    "flow_total": "payer_kind payee_kind reason usd",
}


def _schemas(tables: Mapping[str, str]) -> dict[str, dict[str, pl.DataType]]:
    return {
        table: {column: _KINDS.get(column, pl.Float64()) for column in columns.split()}
        for table, columns in tables.items()
    }


TABLES = _schemas(_COLUMNS)
"""Columns and types of every recorded table; units stand in the names, USD flows are per week."""

DERIVED = _schemas(_DERIVED_COLUMNS)
"""The same of the small tables that are computed from them at the end of a run."""


@dataclass(frozen=True)
class RunResult:
    """What one run came to: its frames, or why there are none.

    Attributes:
        status: ``ok`` or ``failed``.
        message: blank, or error and reason in one line.
        frames: ``outcomes`` and recorded tables by name; empty for a failed run.
        traceback: for a failed run, where it happened.
    """

    status: str
    message: str
    frames: Tables
    traceback: str = ""


def simulate(scenario: Scenario, seed: int) -> Tables:
    """The recorded tables of one run: week 0 is the opening state, then ``scenario.weeks`` weeks."""
    from experiments.build import build

    model = build(scenario, seed)
    model.run(scenario.weeks)
    return framed(model.recorder.tables())


def framed(recorded: Mapping[str, Mapping[str, Any]]) -> Tables:
    """Frames with the declared columns from recorded arrays; a value that is not a number is null.

    Raises:
        KeyError: a declared table or column is missing.
        ValueError: a table or column nobody declared.
    """
    if unknown := set(recorded) - set(TABLES):
        raise ValueError(f"recorded tables without declared columns: {', '.join(sorted(unknown))}")
    return {table: _framed(table, recorded[table]) for table in TABLES}


def _framed(table: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    schema = TABLES[table]
    if unknown := set(columns) - set(schema):
        raise ValueError(f"recorded table {table}: undeclared columns {', '.join(sorted(unknown))}")
    series = [pl.Series(name, columns[name], dtype=kind, strict=False) for name, kind in schema.items()]
    return pl.DataFrame(series).with_columns(pl.selectors.float().fill_nan(None))


Simulate = Callable[["Scenario", int], Tables]
Measure = Callable[..., pl.DataFrame]
"""``measure(tables, weeks=...)`` returns the outcomes of a run, one row each."""
Derive = Callable[..., Tables]
"""``derive(tables, weeks=...)`` returns the tables of `DERIVED`."""


def execute(spec: RunSpec, simulate: Simulate, measure: Measure, derive: Derive) -> RunResult:
    """Run and measure; whatever a run raises becomes data, so that one failure loses nothing else."""
    try:
        tables, weeks = simulate(spec.scenario, spec.seed), spec.scenario.weeks
        measured = {"outcomes": measure(tables, weeks=weeks), **derive(tables, weeks=weeks)}
    except Exception as error:
        return _failed(error)
    return RunResult("ok", "", {**measured, **tables})


def _failed(error: Exception) -> RunResult:
    import traceback

    reason = " ".join(str(error).split())
    return RunResult("failed", f"{type(error).__name__}: {reason}", {}, "".join(traceback.format_exception(error)))
