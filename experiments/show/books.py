"""Books on the screen: a table a part, lines down, agents or classes across, in million USD."""

from __future__ import annotations

import polars as pl
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["TITLES", "show_books"]

TITLES = {
    "income": "Income statement",
    "cash": "Cash flow",
    "balance sheet": "Balance sheet",
    "flows": "Transactions-flow matrix: received less paid",
    "paid": "Who paid whom: the row received from the column",
}
_TOTALS = ("profit", "EBITDA", "operating", "investing", "financing", "change in cash", "equity", "change in money")


def show_books(found: pl.DataFrame, width: int | None = None) -> None:
    """Print books to standard output.

    Args:
        found: as `experiments.books.books`.
        width: of the output; by default the terminal's, or what the widest table needs.
    """
    console = Console(highlight=False, width=width or (None if Console().is_terminal else 160))
    for (part, first, last), rows in found.group_by("part", "first_week", "last_week", maintain_order=True):
        title = f"{TITLES[str(part)]}, weeks {first} to {last}, million USD"
        console.print(_table(title, rows))


def _table(title: str, rows: pl.DataFrame) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    columns = rows["who"].unique(maintain_order=True).to_list()
    for name in columns:
        table.add_column(escape(str(name)).replace("_", " "), justify="right")
    usd = {(line, who): value for line, who, value in rows.select("line", "who", "usd").iter_rows()}
    for line in _in_order(rows):
        cells = [_millions(usd.get((line, name))) for name in columns]
        table.add_row(escape(line.replace("_", " ")), *cells, style="bold" if line in _TOTALS else "")
    return table


def _in_order(rows: pl.DataFrame) -> list[str]:
    """Lines in the order of the fullest column, what others add before their own next line."""
    order: list[str] = []
    for (_,), lines in rows.group_by("who", maintain_order=True):
        place = 0
        for line in lines["line"]:
            if line in order:
                place = order.index(line) + 1
            else:
                order.insert(place, line)
                place += 1
    return order


def _millions(usd: float | None) -> str:
    if usd is None or abs(usd) < 5e2:
        return "-"
    return f"{usd / 1e6:,.1f}".replace("-", "−")
