"""The command ``validate``: score runs against public figures. Heavy modules are imported inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from experiments.commands.options import print_in

if TYPE_CHECKING:
    from experiments.validation import Scores

__all__ = ["validate_command"]


def validate_command(common: Callable[[Any], Any], carried_out: Callable[..., int]) -> click.Command:
    """The command.

    Args:
        common: decorator with the options of every command that runs something.
        carried_out: calls a function with these options, prints what it returns and gives the exit code.
    """

    @click.command("validate")
    @click.option("--scenario", metavar="SCENARIO", help="What to score (default: the markets of 2025 and 2024).")
    @common
    def validate(scenario: str | None, **options: Any) -> int:
        """Score every seed against public figures, worst first; fitted and held-out figures apart.

        Exit code 0 says that the scores stand, not that they pass.
        """
        from experiments import validation

        return carried_out(validation.validate, (scenario,), options, printed=_print)

    # Scoring needs every recorded table, so there is nothing to choose.
    validate.params = [option for option in validate.params if option.name != "tables"]
    return validate


def _print(scores: Scores, form: str) -> None:
    from experiments.show.scores import show

    print_in(form, scores.as_dict, scores.as_csv, lambda: show(scores))
