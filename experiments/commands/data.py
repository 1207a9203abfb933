"""``neocloud data``: list, check and export the tables of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from experiments.commands.options import Suggesting, format_option, loaded, print_rows, set_option

__all__ = ["data_group"]


@click.group("data", cls=Suggesting)
def data_group() -> None:
    """List, check and export the tables."""


@data_group.command("list")
@click.argument("scenario", default="baseline-2025")
@set_option
@format_option
def _list(scenario: str, assignments: Sequence[str], form: str) -> None:
    """Tables of a scenario: rows, columns, sources, dates."""
    from dataclasses import asdict

    from market.tables import describe_tables

    print_rows([asdict(entry) for entry in describe_tables(loaded(scenario, assignments).check())], form)


@data_group.command("check")
@click.argument("scenario", default="baseline-2025")
@set_option
def _check(scenario: str, assignments: Sequence[str]) -> None:
    """Check every row of the tables of a scenario."""
    tables = loaded(scenario, assignments).check()
    click.echo(f"tables: ok, digest {tables.digest()[:16]}")


@data_group.command("export")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("scenario", default="baseline-2025")
@set_option
def _export(folder: Path, scenario: str, assignments: Sequence[str]) -> None:
    """Write the tables of a scenario as CSV files to edit, and print what brings them back. It overwrites nothing.

    Files replace shipped tables one by one: keep the lines of [data] whose files you changed. Fleets, sellers and
    deliveries belong together.
    """
    files = loaded(scenario, assignments).export_tables(folder)
    click.echo("# For a scenario file in this folder, below its other keys; keep the lines whose files you changed.")
    click.echo("[data]")
    for name, path in files.items():
        click.echo(f'{name} = "{path.as_posix()}"')
