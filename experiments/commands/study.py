"""Commands that answer without a run: ``tco``, ``break-even``, ``threshold``, ``claims``.

Heavy modules are imported inside commands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from experiments.commands.options import format_option, loaded, set_option
from experiments.engine.errors import ScenarioError, nearest

if TYPE_CHECKING:
    from experiments.scenario import Scenario
    from experiments.study.calculator import OwnersCost
    from market.tables import Sku, Tables

__all__ = ["study_commands"]

_ALL = "all"
_USES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # shown where no price or use is asked for
_SWITCHING_FORM = "log"


# ------------------------------------------------------------------------------------------------ values


def _number(allowed: str, low: float, high: float) -> Callable[..., float | None]:
    """Reads a finite number within bounds; others, percent and currency signs are refused with what may be meant."""

    def within(number: float) -> bool:
        return low <= number <= high and math.isfinite(number)

    def read(_context: click.Context, _option: click.Parameter, text: str | float | None) -> float | None:
        if text is None:
            return None
        number = _float(str(text))
        if not within(number):
            meant = _float(str(text).strip("%$ ")) / (100.0 if high == 1.0 else 1.0)
            hint = f"; did you mean {meant:g}?" if within(meant) else ""
            raise click.BadParameter(f"{text}: {allowed}{hint}")
        return number

    return read


def _float(text: str) -> float:
    """A number, NaN for any other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


_share = _number("a share 0 to 1", 0.0, 1.0)
_usd = _number("a price in USD per GPU-hour, 0 to 10,000", 0.0, 1e4)
_gpus = _number("a number of GPUs, 1 to 100 million", 1.0, 1e8)


def _loaded(scenario: str, assignments: Sequence[str]) -> tuple[Scenario, Tables]:
    from market.throughput import relative_throughput

    chosen = loaded(scenario, assignments)
    tables = chosen.tables()
    try:
        relative_throughput(tables.skus, tables.segments)
    except ValueError as error:
        raise ScenarioError(f"scenario {chosen.name}, table hardware: {error}") from None
    return chosen, tables


def _sku(name: str, tables: Tables, vendor: str = "") -> Sku:
    """A chip by name, of a vendor where one is asked for."""
    known = [sku.name for sku in tables.skus if vendor in ("", sku.vendor)]
    if name not in known:
        kind = {"": "", "amd": "AMD ", "nvidia": "Nvidia "}[vendor]
        raise ScenarioError(f"{name}: no {kind}SKU of the hardware table{nearest(name, known)}")
    return tables.skus[tables.sku_index[name]]


def _costs(scenario: Scenario, tables: Tables) -> dict[str, OwnersCost]:
    """Owner's costs by SKU."""
    from experiments.study.calculator import owners_costs

    costs = owners_costs(tables.skus, tables.segments, scenario.costs, scenario.software)
    return {cost.sku: cost for cost in costs}


_scenario = click.argument("scenario", default="baseline-2025", metavar="[SCENARIO]")


# ------------------------------------------------------------------------------------------------ commands


@click.command("tco")
@set_option
@format_option
@click.argument("sku", default=_ALL, metavar="[SKU]")
@_scenario
def _tco(sku: str, scenario: str, assignments: Sequence[str], form: str) -> None:
    """What a GPU-hour costs its owner: all SKUs, or one in parts."""
    from experiments.show.study import print_sheet, tco_sheet

    chosen, tables = _loaded(scenario, assignments)
    skus = tables.skus if sku == _ALL else (_sku(sku, tables),)
    costs = _costs(chosen, tables)
    print_sheet(tco_sheet([costs[one.name] for one in skus], skus, chosen.costs), form)


@click.command("break-even")
@set_option
@format_option
@click.argument("sku")
@_scenario
@click.option("--price", callback=_usd, help="USD per sold GPU-hour: at which utilisation does it break even?")
@click.option("--utilisation", callback=_share, help="Share of hours sold: at which price does it break even?")
@click.option("--fall", callback=_share, default=0.0, help="Share by which the price falls each year (default 0).")
@click.option("--loan", is_flag=True, help="Show a loan on the fleet, quarter by quarter.")
@click.option("--gpus", callback=_gpus, default=1.0, help="GPUs of the fleet behind the loan (default 1).")
@click.option(
    "--contracted", callback=_share, default=0.0, help="Share of hours on long contracts, for the loan's terms."
)
def _break_even(
    sku: str,
    scenario: str,
    assignments: Sequence[str],
    form: str,
    price: float | None,
    utilisation: float | None,
    fall: float,
    loan: bool,
    gpus: float,
    contracted: float,
) -> None:
    """Break-even price or utilisation of a GPU; with both --price and --utilisation also payback, return and loan."""
    from experiments.show.study import break_even_sheet, print_sheet
    from experiments.study.calculator import Rent, break_even_price, break_even_utilisation, returns
    from experiments.study.credit import loan_path

    chosen, tables = _loaded(scenario, assignments)
    chip = _sku(sku, tables)
    cost = _costs(chosen, tables)[chip.name]
    asked = [] if price is None else [break_even_utilisation(cost, price)]
    asked += [] if utilisation is None else [break_even_price(cost, utilisation)]
    found = path = None
    if price is not None and utilisation is not None:
        rent = Rent(price, utilisation, fall)
        found = returns(cost, chip.capex_usd, chosen.costs.life_years, rent)
        if loan:
            path = loan_path(cost, chip.capex_usd, rent, chosen.finance, gpus=gpus, contracted_share=contracted)
    elif loan or fall:
        raise click.UsageError("--loan and --fall need both --price and --utilisation")
    print_sheet(break_even_sheet(cost, asked, _USES, found, path), form)


@click.command("threshold")
@set_option
@format_option
@_scenario
@click.option("--amd", default="MI300X", help="AMD SKU (default MI300X).")
@click.option("--nvidia", default="H200", help="Nvidia SKU (default H200).")
@click.option("--price", callback=_usd, default=2.5, help="Price of the Nvidia SKU, USD per GPU-hour (default 2.50).")
@click.option(
    "--weeks-later", type=click.IntRange(0, 5200), default=104, help="Weeks ahead of June 2025 (default 104)."
)
@click.option(
    "--amd-share", callback=_share, default=0.0, help="AMD's share of use till then, which speeds software up."
)
def _threshold(
    scenario: str,
    assignments: Sequence[str],
    form: str,
    amd: str,
    nvidia: str,
    price: float,
    weeks_later: int,
    amd_share: float,
) -> None:
    """AMD price at which a tenant pays the same per unit of work as on Nvidia, by kind of work, now and later."""
    from experiments.show.study import print_sheet, threshold_sheet
    from experiments.study.parity import Switching, flip_prices

    chosen, tables = _loaded(scenario, assignments)
    if chosen.choice.utility != _SWITCHING_FORM:
        raise ScenarioError(f"choice.utility = {chosen.choice.utility!r}: threshold needs {_SWITCHING_FORM!r}")
    switching = Switching(chosen.choice.port_cost, chosen.tenants.switching_cost)
    flips = flip_prices(
        tables.skus,
        tables.segments,
        chosen.software,
        switching,
        amd_sku=_sku(amd, tables, "amd").name,
        nvidia_sku=_sku(nvidia, tables, "nvidia").name,
        nvidia_price_usd_per_gpu_hour=price,
        weeks_later=weeks_later,
        share_of_use=amd_share,
    )
    print_sheet(threshold_sheet(flips, switching, {row.name: row.lock_in for row in tables.segments}), form)


@click.command("claims")
@set_option
@format_option
@_scenario
def _claims(scenario: str, assignments: Sequence[str], form: str) -> None:
    """Claims of the article this project starts from, beside its own numbers: what holds, what is dated."""
    from experiments.engine.plan import sources_digest
    from experiments.show.study import claims_sheet, print_sheet
    from experiments.study.claims import SIMULATED, judge
    from experiments.study.evidence import gather

    evidence = gather(_loaded(scenario, assignments)[0])
    print_sheet(claims_sheet(judge(evidence)), form)
    names = " and ".join(SIMULATED)
    if evidence.effects is None:
        click.echo(f"left out: {names}; they rest on runs kept with the documentation", err=True)
    elif evidence.effects.program != sources_digest():
        said = f"{names} rest on runs of another version of the program; to measure anew: neocloud experiment claims"
        click.echo(said, err=True)


study_commands = (_tco, _break_even, _threshold, _claims)
