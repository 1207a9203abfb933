"""Answers of the calculator and claims on the screen: the formula with the numbers put in, then tables."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.study.calculator import BreakEven, OwnersCost, Return, break_even_price
from experiments.study.credit import LoanPath
from experiments.study.evidence import Claim
from experiments.study.parity import FlipPrice, Switching
from market.costs import CostParameters, capital_recovery
from market.tables import Sku
from market.units import HOURS_PER_MONTH, HOURS_PER_YEAR

__all__ = ["Rows", "Sheet", "break_even_sheet", "claims_sheet", "print_sheet", "tco_sheet", "threshold_sheet"]

Row = Mapping[str, Any]

_PLAIN_WIDTH = 132  # of output that goes to a file
_UNITS = ("_usd_per_gpu_hour", "_usd_per_h100e_hour")


@dataclass(frozen=True)
class Rows:
    """A table of an answer.

    Attributes:
        name: key in JSON.
        title: on the screen; it says the unit of prices.
        rows: equal rows; their keys carry units.
        hidden: columns left out on the screen, where the title says the same.
        on_screen: whether the screen shows it at all.
    """

    name: str
    title: str
    rows: Sequence[Row]
    hidden: Collection[str] = ()
    on_screen: bool = True


@dataclass(frozen=True)
class Sheet:
    """What a command answers.

    Attributes:
        lines: the formula with the numbers put in.
        tables: in order.
        notes: sentences under the tables.
    """

    lines: Sequence[str]
    tables: Sequence[Rows]
    notes: Sequence[str] = ()


# ------------------------------------------------------------------------------------------------ printing


def print_sheet(sheet: Sheet, form: str) -> None:
    """Print to standard output as ``table``, ``json`` (lines and tables) or ``csv`` (tables, empty lines between)."""
    if form == "json":
        content = {"formula": list(sheet.lines), **{table.name: list(table.rows) for table in sheet.tables}}
        print(json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False))
    elif form == "csv":
        sys.stdout.write("\n".join(_csv(table.rows) for table in sheet.tables))
    else:
        _print_tables(sheet)


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _print_tables(sheet: Sheet) -> None:
    width = None if sys.stdout.isatty() else max(_PLAIN_WIDTH, shutil.get_terminal_size().columns)
    console = Console(highlight=False, width=width)
    for line in sheet.lines:
        console.print(escape(line), soft_wrap=True)
    for table in sheet.tables:
        if table.on_screen:
            console.print(f"\n[bold]{escape(table.title)}[/bold]", soft_wrap=True)
            console.print(_drawn(table))
    for note in sheet.notes:
        console.print(escape(note), soft_wrap=True)


def _drawn(table: Rows) -> Table:
    """The table without hidden columns and those that say nothing."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    names = [name for name in table.rows[0] if name not in table.hidden and any(row[name] != "" for row in table.rows)]
    for name in names:
        words = all(isinstance(row[name], str) for row in table.rows)
        drawn.add_column(_heading(name), justify="left" if words else "right")
    for row in table.rows:
        drawn.add_row(*(escape(_shown(row[name])) for name in names))
    return drawn


def _heading(name: str) -> str:
    """A column in words; the unit of prices stands in the title."""
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def _shown(value: Any) -> str:
    """A value as people read it: enough digits, a dash for what is missing."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3f}"
    return str(value)


# ------------------------------------------------------------------------------------------------ cost


def tco_sheet(costs: Sequence[OwnersCost], skus: Sequence[Sku], p: CostParameters) -> Sheet:
    """Owner's cost: parts and formula of one GPU, a row for each of several."""
    if len(costs) == 1:
        parts = Rows("parts", _COST, _part_rows(costs[0]))
        return Sheet(_cost_lines(costs[0], skus[0], p), [parts, _by_work(costs)])
    rows = [{name: value for name, value in asdict(cost).items() if not isinstance(value, dict)} for cost in costs]
    lines = [
        "full cost = capital × annuity / 8,760 + colocation + electricity + operations, of a rented hour",
        f"price at full use = full cost / (1 - {p.overhead_share_of_revenue:g} of revenue for sales and staff)",
    ]
    return Sheet(lines, [Rows("cost", _COST, rows), _by_work(costs)])


_COST = "Owner's cost, USD per GPU-hour"


def _part_rows(cost: OwnersCost) -> list[Row]:
    """The parts of one GPU's full cost, their sum, and what overhead adds."""
    parts = ("capital", "colocation", "electricity", "operations")
    usd = {part: float(getattr(cost, f"{part}_usd_per_gpu_hour")) for part in parts}
    full, price = cost.full_cost_usd_per_gpu_hour, cost.price_at_full_use_usd_per_gpu_hour
    usd["full cost"] = full
    added = {"overhead": None if price is None else price - full, "price at full use": price}
    return [
        {"part": name, "cost_usd_per_gpu_hour": value, "share_of_full_cost": None if value is None else value / full}
        for name, value in {**usd, **added}.items()
    ]


def _by_work(costs: Sequence[OwnersCost]) -> Rows:
    """Full cost by segment, a row for each GPU."""
    rows = [
        {"sku": cost.sku}
        | {f"{name}_usd_per_h100e_hour": usd for name, usd in cost.full_cost_usd_per_h100e_hour.items()}
        for cost in costs
    ]
    return Rows("by_segment", "Full cost by kind of work, USD per H100-equivalent hour", rows)


def _cost_lines(cost: OwnersCost, sku: Sku, p: CostParameters) -> list[str]:
    annuity = capital_recovery(p.cost_of_capital, p.life_years)
    energy = f"{p.power_usage_effectiveness:g} × {p.load_busy:g} × {p.electricity_usd_per_kwh:g}"
    return [
        f"annuity   = r / (1 - (1 + r)^-{p.life_years:g}) = {annuity:.4f} at r = {p.cost_of_capital:g} a year",
        "full cost = capital × annuity / 8,760 + kW × colocation / 730 + kW × PUE × load × electricity + operations × "
        "capital / 8,760",
        f"          = {sku.capex_usd:,.0f} × {annuity:.4f} / {HOURS_PER_YEAR:,} + {sku.power_kw:g} × "
        f"{p.colocation_usd_per_kw_month:g} / {HOURS_PER_MONTH:.0f} + {sku.power_kw:g} × {energy} + "
        f"{p.operations_share_of_capital:g} × {sku.capex_usd:,.0f} / {HOURS_PER_YEAR:,}",
        f"          = {cost.capital_usd_per_gpu_hour:.4f} + {cost.colocation_usd_per_gpu_hour:.4f} + "
        f"{cost.electricity_usd_per_gpu_hour:.4f} + {cost.operations_usd_per_gpu_hour:.4f} = "
        f"{cost.full_cost_usd_per_gpu_hour:.4f} USD per GPU-hour",
    ]


# ------------------------------------------------------------------------------------------------ break-even


def break_even_sheet(
    cost: OwnersCost, asked: Sequence[BreakEven], uses: Sequence[float], found: Return | None, loan: LoanPath | None
) -> Sheet:
    """Break-even points, what a price and a use earn, and the loan.

    Args:
        cost: of the GPU.
        asked: points asked for by price or use.
        uses: for the table of break-even prices.
        found: payback and return, if both price and use are given.
        loan: quarter by quarter, if asked for.
    """
    points = asked or [break_even_price(cost, use) for use in uses]
    title = f"Break-even of {cost.sku}, USD per GPU-hour"
    tables = [Rows("break_even", title, [asdict(point) for point in points], hidden=("sku",))]
    if found is not None:
        title = "Payback and return of one GPU, before tax and without residual value"
        tables.append(Rows("return", title, [_return_row(found)], hidden=("payback_reason", "irr_reason")))
    if loan is not None:
        tables.append(Rows("loan", _loan_title(loan), [asdict(quarter) for quarter in loan.quarters] or [_NO_LOAN]))
    reasons = {} if found is None else {"payback": found.payback_reason, "return": found.irr_reason}
    notes = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    return Sheet(_break_even_lines(cost, asked), tables, notes)


_NO_LOAN = {"loan": "none: the lender's terms allow none"}


def _break_even_lines(cost: OwnersCost, asked: Sequence[BreakEven]) -> list[str]:
    capital, busy, idle = cost.capital_usd_per_gpu_hour, cost.running_usd_per_gpu_hour, cost.idle_usd_per_gpu_hour
    lines = [
        "price(u) = (capital + u × busy + (1 - u) × idle) / (u × (1 - overhead))",
        f"         = ({capital:.4f} + u × {busy:.4f} + (1 - u) × {idle:.4f}) / (u × (1 - "
        f"{cost.overhead_share_of_revenue:g})) USD per GPU-hour at utilisation u",
    ]
    for point in asked:
        price = "-" if point.price_usd_per_gpu_hour is None else f"{point.price_usd_per_gpu_hour:.4f}"
        use = "-" if point.utilisation is None else f"{point.utilisation:.4f}"
        lines.append(f"         u = {use}: price {price}" + (f" ({point.reason})" if point.reason else ""))
    return lines


def _return_row(found: Return) -> Row:
    return {
        "price_usd_per_gpu_hour": found.rent.price_usd_per_gpu_hour,
        "utilisation": found.rent.utilisation,
        "price_fall_per_year": found.rent.price_fall_per_year,
        "cash_usd_per_year": found.cash_usd_per_year,
        "payback_weeks": found.payback_weeks,
        "payback_years": found.payback_years,
        "payback_reason": found.payback_reason,
        "irr_per_year": found.irr_per_year,
        "irr_reason": found.irr_reason,
        "weeks_in_service": found.weeks_in_service,
    }


def _loan_title(loan: LoanPath) -> str:
    return (
        f"Loan of {loan.loan_usd:,.0f} USD on {loan.gpus:,g} {loan.sku} ({loan.capital_usd:,.0f} USD) at "
        f"{loan.loan_rate_per_year:g} a year; covenant {loan.covenant_dscr:g}"
    )


# ------------------------------------------------------------------------------------------------ flip prices


def threshold_sheet(flips: Sequence[FlipPrice], switching: Switching, lock_in: Mapping[str, float]) -> Sheet:
    """Flip prices by segment; ``lock_in`` by segment, ln USD."""
    first = flips[0]
    held = lock_in[first.segment] + switching.port_cost_ln + switching.switching_cost_ln
    lines = [
        f"flip price     = {first.nvidia_sku} price × work per hour of {first.amd_sku} / work per hour of "
        f"{first.nvidia_sku}",
        f"               = {first.nvidia_price_usd_per_gpu_hour:g} × {first.work_ratio:.4f} = "
        f"{first.flip_price_usd_per_gpu_hour:.4f} USD per GPU-hour ({first.segment})",
        "with switching = flip price × e^-(lock-in + port cost + switching cost)",
        f"               = {first.flip_price_usd_per_gpu_hour:.4f} × e^-({lock_in[first.segment]:g} + "
        f"{switching.port_cost_ln:g} + {switching.switching_cost_ln:g} = {held:g}) = "
        f"{first.flip_price_with_switching_usd_per_gpu_hour:.4f}; the lock-in shrinks as ROCm matures",
    ]
    title = (
        f"{first.amd_sku} against {first.nvidia_sku} at {first.nvidia_price_usd_per_gpu_hour:g} USD per GPU-hour, "
        f"now and {first.weeks_later} weeks later"
    )
    hidden = ("amd_sku", "nvidia_sku", "nvidia_price_usd_per_gpu_hour", "weeks_later")
    return Sheet(lines, [Rows("flip_prices", title, [asdict(flip) for flip in flips], hidden)])


# ------------------------------------------------------------------------------------------------ claims


def claims_sheet(claims: Sequence[Claim]) -> Sheet:
    """A row per claim, and under the table what each verdict rests on."""
    title = "Claims of June 2025 beside this project's own numbers"
    rows = [_claim_row(claim) for claim in claims]
    checks = [
        {"claim": claim.name, **asdict(check), "agrees": check.agrees} for claim in claims for check in claim.checks
    ]
    tables = [Rows("claims", title, rows, ("why", "sources")), Rows("checks", "Checks", checks, on_screen=False)]
    return Sheet([], tables, [f"{claim.name}: {claim.why}" for claim in claims])


def _claim_row(claim: Claim) -> Row:
    return {
        "name": claim.name,
        "claim": claim.claim,
        "claimed": claim.claimed,
        "measured": claim.measured,
        "unit": claim.unit,
        "verdict": claim.verdict,
        "why": claim.why,
        "sources": " ".join(claim.sources),
    }
