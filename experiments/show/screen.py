"""Results on the screen: short tables, and under each one plain sentence made from its numbers."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.engine.plan import Screen
from experiments.show.risk import risk_rows, risk_title
from experiments.show.words import DEFAULT_SCREENS, Numbers, cells, extent, headings, says, titled

if TYPE_CHECKING:
    from experiments.api import Results

__all__ = ["console_out", "show", "show_rows"]

_MOST_COLUMNS = 6  # of numbers side by side
_LABEL_WIDTH = 24
_PLAIN_WIDTH = 132  # of output that goes to a file

_FILES = ("summary.csv", "effects.csv", "risk.csv", "response.csv", "outcomes.parquet", "runs.parquet", "figures")
_REPORT = "report.html"


def show(results: Results) -> None:
    """Print tables and sentences to standard output, then where the files are."""
    console = console_out()
    numbers = Numbers(results)
    console.print(f"[bold]{results.plan.name}[/bold]: {extent(numbers)} {results.plan.question}")
    for index, screen in enumerate(results.plan.screens or DEFAULT_SCREENS):
        console.print()
        shown = numbers.of(screen)
        for table in _tables(shown, screen):
            console.print(table)
        if numbers.contrasts:
            console.print(escape(says(shown, screen, first=index == 0)))
    if results.plan.risk:
        console.print()
        console.print(_table(risk_title(results.risk), *risk_rows(results.risk)))
    console.print()
    show_files(results)


def show_files(results: Results) -> None:
    """Print where the files of an experiment are."""
    console = console_out()
    files = [name for name in _FILES if (results.out / name).exists()]
    console.print(escape(f"Files in {results.out}: {', '.join(files)}"), soft_wrap=True)
    if (results.out / _REPORT).exists():
        console.print(escape(f"Report: {results.out / _REPORT}"), soft_wrap=True)


def console_out() -> Console:
    """Standard output; as wide as the tables need where it is no terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=max(_PLAIN_WIDTH, shutil.get_terminal_size().columns))


def _tables(numbers: Numbers, screen: Screen) -> Iterator[Table]:
    """Arms and contrasts side by side; one table after the other where they are too many for that."""
    title, heads = titled(numbers, screen), headings(numbers)
    rows = [list(cells(numbers, metric, "\n")) for metric in screen.metrics]
    arms = len(numbers.arms)
    if len(heads) <= _MOST_COLUMNS or not numbers.contrasts:
        yield _table(title, heads, rows)
        return
    yield _table(title, heads[:arms], [row[: arms + 1] for row in rows])
    yield _table("Paired differences", heads[arms:], [[row[0], *row[arms + 1 :]] for row in rows])


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", min_width=_LABEL_WIDTH)
    for heading in heads:
        table.add_column(escape(heading), justify="right")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def show_rows(rows: Sequence[Mapping[str, Any]], form: str) -> None:
    """Print equal rows as a table or as CSV."""
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        sys.stdout.write(text.getvalue())
        return
    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="right" if isinstance(rows[0][name], int) else "left")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console_out().print(table)
