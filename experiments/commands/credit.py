"""Commands for accountants and lenders: ``books``, ``fair-spread``.

Heavy modules are imported inside commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from experiments.commands.options import format_option, loaded, print_in, set_option

if TYPE_CHECKING:
    import polars as pl

__all__ = ["credit_commands"]


@click.command("books")
@set_option
@format_option
@click.argument("reference", default="baseline-2025", metavar="[SCENARIO or DIR]")
@click.option("--arm", default="", help="Arm of the results in DIR (default: the first).")
@click.option("--seed", type=click.IntRange(min=0, max=2**62), help="Seed of the run (default 1).")
@click.option("--weeks", type=click.IntRange(min=1), help="Length of the run.")
@click.option("--who", multiple=True, metavar="NAME", help="A seller, vendor, class or all; repeatable.")
@click.option("--first", type=int, help="First week covered.")
@click.option("--last", type=int, help="Last week covered.")
@click.option("--every", type=click.IntRange(min=1), metavar="WEEKS", help="A statement for every so many weeks.")
@click.option("--part", "parts", multiple=True, metavar="PART", help="income, cash, balance sheet, flows or paid.")
def _books(reference: str, form: str, parts: Sequence[str], **options: Any) -> None:
    """Books of one run: income, cash flow, balance sheet, flow matrix, who paid whom.

    Of a scenario, or of a run in a folder of results (played again: the same run to the last bit).
    """
    from experiments.books import PARTS, books
    from experiments.show.books import show_books

    found = books(reference, parts=parts or PARTS, **options)
    print_in(form, found.to_dicts, found.write_csv, lambda: show_books(found))


@click.command("fair-spread")
@set_option
@format_option
@click.argument("scenario", default="baseline-2025")
@click.option("--sku", default="MI300X", show_default=True, help="GPU behind the loan.")
@click.option(
    "--price", type=click.FloatRange(min=0.01, max=1e4), default=2.2, show_default=True, help="Rent, USD/GPU-h."
)
@click.option("--utilisation", type=click.FloatRange(0.01, 1.0), default=0.8, show_default=True)
@click.option(
    "--drift", type=click.FloatRange(-5.0, 5.0), default=-0.1, show_default=True, help="Of the rent, per year."
)
@click.option("--volatility", type=click.FloatRange(0.0, 3.0), default=0.25, show_default=True, help="Per root year.")
@click.option("--ltv", type=click.FloatRange(0.01, 2.0), default=0.6, show_default=True, help="Loan over capital.")
@click.option("--recovery", type=click.FloatRange(0.0, 1.0), default=0.6, show_default=True, help="Of what is owed.")
@click.option("--cover", type=click.Choice(["firm", "floor"]), default="firm", show_default=True)
@click.option("--share", "shares", multiple=True, type=click.FloatRange(0.0, 1.0), help="Covered hours; repeatable.")
@click.option("--cap", "caps", multiple=True, type=click.FloatRange(min=0.0), help="USD per GPU; repeatable.")
@click.option("--paths", type=click.IntRange(100, 200_000), default=20_000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0, max=2**62), default=0, show_default=True)
def _fair_spread(scenario: str, assignments: Sequence[str], form: str, **options: Any) -> None:
    """Fair spread of a GPU loan by share of hours that a vendor covers, and by its cap.

    Simulated rents beside the closed form (first passage, Black and Cox 1976), which knows no cap.
    """
    from experiments.show.screen import show_rows
    from experiments.study.fair_spread import deal_of, tabled

    shares, caps = options.pop("shares") or (0.0, 0.3, 0.6), options.pop("caps")
    paths, seed = options.pop("paths"), options.pop("seed")
    deal = deal_of(loaded(scenario, assignments), **options)
    found = tabled(deal, shares, caps, paths, seed)
    print_in(form, found.to_dicts, found.write_csv, lambda: show_rows(_in_words(found), form))


def _in_words(found: pl.DataFrame) -> list[dict[str, str]]:
    """Rows of the table of spreads as people read them."""

    def shown(value: float | None, of: str) -> str:
        if value is None:
            return "-"
        return f"{100 * value:.2f} %" if of.endswith(("share", "per_year")) else f"{value:,.0f}"

    heads = {
        "cover_share": "hours covered",
        "cap_usd_per_gpu": "cap, USD/GPU",
        "fair_spread_per_year": "fair spread",
        "closed_form_per_year": "closed form",
        "failed_share": "fail",
        "vendor_pays_usd_per_gpu": "vendor pays, USD/GPU",
        "vendor_pays_95_usd_per_gpu": "95 %",
    }
    return [{head: shown(row[name], name) for name, head in heads.items()} for row in found.to_dicts()]


credit_commands = (_books, _fair_spread)
