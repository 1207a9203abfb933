"""Results on the screen: short tables, and under each one plain sentence made from its numbers."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.engine.plan import Screen
from experiments.show.words import DEFAULT_SCREENS, Numbers, cells, extent, headings, says

if TYPE_CHECKING:
    from experiments.api import Results

__all__ = ["show", "show_rows"]

_PLAIN_WIDTH = 132  # of output that goes to a file

_FILES = ("summary.csv", "effects.csv", "outcomes.parquet", "runs.parquet", "figures")
_REPORT = "report.html"


def show(results: Results) -> None:
    """Print tables and sentences to standard output, then where the files are."""
    console = _console()
    numbers = Numbers(results)
    console.print(f"[bold]{results.plan.name}[/bold]: {extent(numbers)} {results.plan.question}")
    for index, screen in enumerate(results.plan.screens or DEFAULT_SCREENS):
        console.print()
        console.print(_table(numbers, screen))
        if numbers.contrasts:
            console.print(escape(says(numbers, screen, first=index == 0)))
    console.print()
    files = [name for name in _FILES if (results.out / name).exists()]
    console.print(escape(f"Files in {results.out}: {', '.join(files)}"), soft_wrap=True)
    if (results.out / _REPORT).exists():
        console.print(escape(f"Report: {results.out / _REPORT}"), soft_wrap=True)


def _console() -> Console:
    """Standard output; as wide as the tables need where it is no terminal."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=max(_PLAIN_WIDTH, shutil.get_terminal_size().columns))


def _table(numbers: Numbers, screen: Screen) -> Table:
    table = Table(title=screen.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for heading in headings(numbers):
        table.add_column(heading, justify="right")
    for metric in screen.metrics:
        table.add_row(*map(escape, cells(numbers, metric, "\n")))
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
    _console().print(table)
