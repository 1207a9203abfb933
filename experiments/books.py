"""The books of one run: statements of agents and classes, the transactions-flow matrix, who paid whom.

A run is the same to the last bit whenever it is repeated, so books are drawn up by playing it again: nothing has to be
kept of every run for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from experiments.build import build
from experiments.design import stored_plan
from experiments.engine.errors import ScenarioError, nearest
from experiments.engine.plan import FIRST_SEED
from experiments.scenario import DEFAULT_SCENARIO, Scenario
from market.statements import Journal, Statement, flow_matrix, keep_journal, received_from, statement

__all__ = ["BOOKS_SCHEMA", "PARTS", "books", "draw_up", "scenario_of"]

PARTS = ("income", "cash", "balance sheet", "flows", "paid")
"""What can be asked for: three statements, the flow matrix, who paid whom."""

BOOKS_SCHEMA: dict[str, pl.DataType] = {
    "part": pl.String(),
    "first_week": pl.Int32(),
    "last_week": pl.Int32(),
    "line": pl.String(),
    "who": pl.String(),
    "usd": pl.Float64(),
}
"""Columns of the books: a line of a part for somebody over some weeks. In ``paid`` the line received, ``who`` paid."""


def books(
    reference: str | Path = DEFAULT_SCENARIO,
    *,
    assignments: Sequence[str] = (),
    arm: str = "",
    seed: int | None = None,
    weeks: int | None = None,
    who: Sequence[str] = (),
    first: int | None = None,
    last: int | None = None,
    every: int | None = None,
    parts: Sequence[str] = PARTS,
) -> pl.DataFrame:
    """Books of a scenario, or of a run in a folder of results, with `BOOKS_SCHEMA`.

    Args:
        reference: a scenario (name, file, ``NAME+key=value``) or a folder of results.
        assignments: texts ``section.key=value`` that change it.
        arm: of the folder's design; by default its first.
        seed: of the run; by default 1.
        weeks: length of the run; by default the scenario's.
        who: agents or classes (``all`` is everybody); by default the classes of sellers, each vendor, lenders.
        first: week covered; by default 1.
        last: last week covered; by default the run's.
        every: draw up statements for periods of so many weeks instead of one for all.
        parts: some of `PARTS`.

    Raises:
        ScenarioError: bad input, in one line.
    """
    scenario = scenario_of(reference, arm).changed(assignments, None, weeks)
    spans = _spans(1 if first is None else first, scenario.weeks if last is None else last, every, scenario.weeks)
    if bad := [part for part in parts if part not in PARTS]:
        raise ScenarioError(f"books: part {bad[0]!r}; allowed: {', '.join(PARTS)}{nearest(bad[0], PARTS)}")
    model = build(scenario, FIRST_SEED if seed is None else seed)
    _check(who, [*model.accounts.ledger.names])
    return draw_up(keep_journal(model, spans[-1][1]), spans, who, parts)


def scenario_of(reference: str | Path, arm: str = "") -> Scenario:
    """The scenario of a name, a file, or an arm of a folder of results.

    Raises:
        ScenarioError: no such scenario, folder or arm.
    """
    folder = Path(reference)
    if not folder.is_dir():
        if arm:
            raise ScenarioError(f"--arm {arm!r}: only a folder of results has arms, and {reference} is none")
        return Scenario.load(reference)
    arms = {one.name: one.scenario for one in stored_plan(folder)[0].arms}
    if arm and arm not in arms:
        raise ScenarioError(f"{folder}: no arm {arm!r}{nearest(arm, arms)}")
    return arms[arm or next(iter(arms))]


_CLASSES = ("hyperscaler", "neocloud", "marketplace", "lender", "tenant", "all")


def _check(who: Sequence[str], agents: Sequence[str]) -> None:
    known = [*agents, *_CLASSES]
    if unknown := [name for name in who if name not in known]:
        raise ScenarioError(f"books: nobody called {unknown[0]!r}{nearest(unknown[0], known)}")


def _spans(first: int, last: int, every: int | None, weeks: int) -> list[tuple[int, int]]:
    if not 1 <= first <= last <= weeks:
        raise ScenarioError(f"books: weeks {first} to {last}; allowed: within 1 to {weeks}")
    step = last - first + 1 if every is None else every
    return [(start, min(start + step - 1, last)) for start in range(first, last + 1, step)]


def draw_up(
    journal: Journal, spans: Sequence[tuple[int, int]], who: Sequence[str] = (), parts: Sequence[str] = PARTS
) -> pl.DataFrame:
    """Books from a journal over some spans of weeks, with `BOOKS_SCHEMA`."""
    rows = [row for span in spans for row in _rows(journal, span, who or _usual(journal), parts)]
    return pl.DataFrame(rows, schema=BOOKS_SCHEMA, orient="row")


def _usual(journal: Journal) -> list[str]:
    """Classes of sellers, each vendor and lenders: those whose books anybody asks for."""
    vendors = [name for name, sector in zip(journal.names, journal.sectors, strict=True) if sector == name.lower()]
    return [*(name for name in _CLASSES[:3] if name in journal.sectors), *vendors, "lender"]


_Row = tuple[str, int, int, str, str, float]


def _rows(journal: Journal, span: tuple[int, int], who: Sequence[str], parts: Sequence[str]) -> Iterator[_Row]:
    found = [statement(journal, name, *span) for name in who]
    for part, lines in {"income": _income, "cash": _cash, "balance sheet": _sheet}.items():
        if part in parts:
            yield from ((part, *span, line, each.who, usd) for each in found for line, usd in lines(each).items())
    if "flows" in parts:
        matrix = flow_matrix(journal, *span)
        for line, row in zip(matrix.rows, matrix.usd, strict=True):
            yield from (("flows", *span, line, name, float(usd)) for name, usd in zip(matrix.columns, row, strict=True))
    if "paid" in parts:
        names, usd = received_from(journal, *span)
        for line, row in zip(names, usd, strict=True):
            yield from (("paid", *span, line, name, float(usd)) for name, usd in zip(names, row, strict=True))


def _income(found: Statement) -> dict[str, float]:
    """Lines that are not zero, EBITDA beside the profit."""
    lines = {line: usd for line, usd in found.income.items() if usd and line != "profit"}
    return lines | {"EBITDA": found.ebitda_usd, "profit": found.income["profit"]}


def _cash(found: Statement) -> dict[str, float]:
    return found.cash


def _sheet(found: Statement) -> dict[str, float]:
    """Lines that are not zero, and equity with GPUs at second-hand value."""
    lines = {line: usd for line, usd in found.balance_sheet.items() if usd}
    return lines | {"equity at second-hand value": found.economic_equity_usd}
