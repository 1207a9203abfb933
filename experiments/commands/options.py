"""What commands share: options, a group that suggests names, the scenario that is meant, forms of output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from experiments.scenario import Scenario

__all__ = ["Suggesting", "format_option", "loaded", "print_in", "print_rows", "set_option"]

format_option = click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", help="Form of the output."
)
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change one key; repeatable."
)


class Suggesting(click.Group):
    """A group that names the nearest command for one it does not have."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant, or a complaint with the nearest one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            close = get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise click.UsageError(f"no such command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


def loaded(scenario: str, assignments: Sequence[str]) -> Scenario:
    """The scenario of a name, a file or NAME+key=value, with the changes of ``--set``."""
    from experiments.scenario import Scenario

    return Scenario.load(scenario).with_text(assignments)


def print_in(form: str, plain: Callable[[], Any], csv: Callable[[], str], show: Callable[[], None]) -> None:
    """Print a result as JSON from plain values, as CSV, or as a table for people."""
    if form == "json":
        click.echo(json.dumps(plain(), indent=1, allow_nan=False))
    elif form == "csv":
        click.echo(csv(), nl=False)
    else:
        show()


def print_rows(rows: Sequence[Mapping[str, Any]], form: str) -> None:
    """Print equal rows as a table, as JSON or as CSV."""
    if form == "json":
        click.echo(json.dumps(rows, indent=1))
    else:
        from experiments.show.screen import show_rows

        show_rows(rows, form)
