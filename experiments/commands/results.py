"""The command that looks into what is stored: ``results``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from experiments.commands.options import format_option, print_rows

__all__ = ["metric_and_width", "print_plain", "results_command"]


@click.command("results")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--sql", default="", help="Query over the tables, such as 'SELECT arm, count(*) FROM runs GROUP BY arm'.")
@click.option(
    "--seeds-for", default="", metavar="OUTCOME=HALF_WIDTH", help="How many seeds so narrow an interval needs."
)
@click.option(
    "--cost-per-point", is_flag=True, help="What AMD pays for a point of its share of GPU-hours, by contrast."
)
@format_option
def results_command(folder: Path, sql: str, seeds_for: str, cost_per_point: bool, form: str) -> None:
    """Say what a folder of results holds, or ask its tables with SQL."""
    from experiments import query

    if sql:
        _print(query.query(folder, sql).to_dicts(), form)
    elif seeds_for:
        metric, half_width = metric_and_width(seeds_for)
        _print(query.seeds_for(folder, metric, half_width), form)
    elif cost_per_point:
        _print(query.cost_per_point(folder), form)
    elif form == "csv":
        _print(query.overview(folder)["tables"], form)
    elif form == "json":
        print_plain(query.overview(folder))
    else:
        _print_overview(query.overview(folder))


def metric_and_width(text: str) -> tuple[str, float]:
    """Display name and half width of ``OUTCOME=HALF_WIDTH``."""
    metric, _, number = text.rpartition("=")
    try:
        return metric, float(number)
    except ValueError:
        raise click.BadParameter(f"{text!r}; allowed: OUTCOME=HALF_WIDTH, such as amd_hour_share=0.001") from None


def print_plain(found: Mapping[str, Any]) -> None:
    """Print plain values as JSON."""
    import json

    click.echo(json.dumps(found, indent=1, allow_nan=False, default=str))


def _print(rows: list[dict[str, Any]], form: str) -> None:
    if rows or form == "json":
        print_rows([{key: _flat(value) for key, value in row.items()} for row in rows], form)


def _flat(value: Any) -> Any:
    """A value that fits into a cell."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, int | float | bool) or value is None else str(value)


def _print_overview(found: Mapping[str, Any]) -> None:
    statuses = ", ".join(f"{count} {status}" for status, count in found["statuses"].items())
    click.echo(f"{found['experiment']} in {found['out']}: {found['progress']} ({statuses})")
    for line in filter(None, [found["question"], found["command"] and f"made by: {found['command']}"]):
        click.echo(line)
    for table in found["tables"]:
        click.echo(f"{table['table']}: {table['rows']:,} rows: {', '.join(table['columns'])}")
