"""``neocloud scenario``: list, show, check and begin scenarios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from experiments.commands.options import Suggesting, format_option, loaded, print_rows, set_option

__all__ = ["scenario_group"]

_BASE = "baseline-2025"


@click.group("scenario", cls=Suggesting)
def scenario_group() -> None:
    """List, show, check and begin scenarios."""


@scenario_group.command("list")
@format_option
def _list(form: str) -> None:
    """Names of the built-in scenarios and what they stand for."""
    from experiments.scenario import Scenario
    from experiments.scenario_files import scenario_names

    shown = ("name", "description") if form == "table" else ("name", "description", "source")
    scenarios = [Scenario.load(name) for name in scenario_names()]
    print_rows([{label: getattr(scenario, label) for label in shown} for scenario in scenarios], form)


@scenario_group.command("show")
@click.argument("scenario", default=_BASE)
@set_option
@click.option("--changed", is_flag=True, help=f"Only what differs from {_BASE}.")
@click.option("--format", "form", type=click.Choice(["toml", "json"]), default="toml")
def _show(scenario: str, assignments: Sequence[str], changed: bool, form: str) -> None:
    """Every value of a scenario, resolved; a scenario file again."""
    from experiments.scenario import Scenario

    chosen, base = loaded(scenario, assignments), Scenario.load(_BASE) if changed else None
    if form == "json":
        click.echo(json.dumps(chosen.values() if base is None else chosen.changes(base), indent=1))
    else:
        click.echo(chosen.canonical(base), nl=False)


@scenario_group.command("check")
@click.argument("scenario")
@set_option
def _check(scenario: str, assignments: Sequence[str]) -> None:
    """Check a scenario, its tables and the names in its events."""
    chosen = loaded(scenario, assignments)
    chosen.check()
    click.echo(f"{chosen.name}: ok, {len(chosen.values())} values, digest {chosen.digest()[:16]}")


@scenario_group.command("schema")
def _schema() -> None:
    """JSON schema of a scenario, with units, ranges and sources."""
    from experiments.scenario import Scenario

    click.echo(json.dumps(Scenario.model_json_schema(), indent=1))


@scenario_group.command("new")
@click.argument("name")
@click.option("--extends", "base", default=_BASE, metavar="SCENARIO", help=f"What it starts from (default {_BASE}).")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Where to write it (default NAME.toml).")
def _new(name: str, base: str, out: Path | None) -> None:
    """Write a commented scenario file to fill in. It never overwrites one."""
    from experiments.template import write_template

    path = write_template(name, base, Path(f"{name}.toml") if out is None else out)
    click.echo(f"{path}: written; check it with: neocloud scenario check {path}")
