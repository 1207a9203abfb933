"""Scores against public figures on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from experiments.measure.targets import Verdict
from experiments.show.screen import console_out

if TYPE_CHECKING:
    from experiments.validation import Scores

__all__ = ["show"]

_USES = {"fit": "Figures that parameters were moved towards", "holdout": "Held-out figures"}
_STYLES = {"fail": "bold red", "warn": "yellow", "pass": "green", "not measured": "dim"}
_SEEDS_SHOWN = 5


def show(scores: Scores) -> None:
    """Print a table for each use, worst first, then what the seeds come to."""
    screen = console_out()
    for use, title in _USES.items():
        screen.print(_table(title, [verdict for verdict in scores.verdicts if verdict.target.use == use]))
        screen.print()
    for line in _sentences(scores):
        screen.print(escape(line))
    screen.print(escape(f"Files in {scores.out}: targets.csv, scores.csv"), soft_wrap=True)


def _table(title: str, verdicts: list[Verdict]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("verdict")
    table.add_column("figure")
    for heading in ("band", "mean (sd)", "seeds inside"):
        table.add_column(heading, justify="right")
    table.add_column("held down by, or why there is no score")
    for verdict in verdicts:
        shown, *cells = _cells(verdict)
        table.add_row(f"[{_STYLES[shown]}]{shown}[/]", *map(escape, cells))
    return table


def _cells(verdict: Verdict) -> Iterator[str]:
    target = verdict.target
    yield verdict.verdict
    yield f"{target.id}, {target.hardness}"
    yield f"{_number(target.low)} to {_number(target.high)}"
    sd = f" ({_number(verdict.sd)})" if verdict.sd is not None else ""
    yield "-" if verdict.mean is None else _number(verdict.mean) + sd
    yield "-" if verdict.share_inside is None else f"{100 * verdict.share_inside:.0f} % of {verdict.seeds}"
    yield verdict.reason or verdict.held_down_by


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _sentences(scores: Scores) -> Iterator[str]:
    count = len(scores.seeds)
    shares = [scores.passing(), scores.passing(use="fit"), scores.passing(use="holdout")]
    if None in shares:
        yield "No hard figure could be scored."
        return
    every, fit, holdout = (f"{100 * (share or 0.0):.0f} %" for share in shares)
    yield f"{every} of {count} seeds pass every hard figure scored; {fit} the fitted ones, {holdout} the held-out ones."
    for seed in [seed for seed in scores.seeds if seed.hard_outside][:_SEEDS_SHOWN]:
        yield f"Seed {seed.seed} fails {', '.join(seed.hard_outside)}."
