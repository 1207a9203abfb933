"""Points of a sweep, by grid or by table: what each arm sets.

A *lever* is a key of the scenario, or several moved together. A *point* is what one arm sets. Values are texts as on
the command line (``0.1:0.5:0.1``) or values from Python; null (None) leaves a key as the scenario has it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from pathlib import Path

from experiments.engine.errors import ScenarioError
from experiments.scenario import Cell, read_value

__all__ = [
    "MOST_ARMS",
    "NULL",
    "Lever",
    "Point",
    "grid_points",
    "lever_of",
    "read_cell",
    "refuse_twice",
    "table_points",
]

NULL = "null"
"""How a text says that a key is left alone."""

MOST_ARMS = 100_000
"""Of a sweep."""

_LABELS = ("arm", "seeds")  # columns of a table that are no keys


@dataclass(frozen=True)
class Point:
    """What one arm sets: values by key (None leaves a key alone), its name, and how many seeds of its own (0: none)."""

    name: str
    values: Mapping[str, Cell | None]
    seeds: int = 0


@dataclass(frozen=True)
class Lever:
    """Keys moved together and the values they take, a tuple a step."""

    keys: tuple[str, ...]
    steps: tuple[tuple[Cell | None, ...], ...]


# ------------------------------------------------------------------------------------------------ grids


def grid_points(levers: Sequence[Lever]) -> list[Point]:
    """Every combination of the steps of the levers; the first lever moves slowest.

    Raises:
        ScenarioError: a key stands twice, a lever has no value, or there are too many combinations.
    """
    keys = [key for lever in levers for key in lever.keys]
    refuse_twice(keys)
    size = 1
    for lever in levers:
        if not lever.steps:
            raise ScenarioError(f"--grid {','.join(lever.keys)}: no value; allowed: one or more")
        size *= len(lever.steps)
    if size > MOST_ARMS:
        raise ScenarioError(f"--grid: {size} combinations; allowed: up to {MOST_ARMS}; a sample needs fewer")
    points = [sum(steps, ()) for steps in product(*(lever.steps for lever in levers))]
    return [_named(dict(zip(keys, values, strict=True))) for values in points]


def lever_of(text: str) -> Lever:
    """The lever of ``key=a,b,c``, ``key=lo:hi:step`` or ``key1,key2=a|b,c|d``.

    Raises:
        ScenarioError: not of this form, an unknown key, or a range that cannot be walked.
    """
    where = f"--grid {text}"
    head, equals, tail = text.partition("=")
    keys = tuple(key.strip() for key in head.split(","))
    if not equals or not all(keys):
        raise ScenarioError(f"{where}: not of the form key=a,b,c or key=lo:hi:step or key1,key2=a|b,c|d")
    entries = [entry.strip() for entry in tail.split(",") if entry.strip()]
    steps = [step for entry in entries for step in _steps(keys, entry, where)]
    return Lever(keys, tuple(steps))


def _steps(keys: tuple[str, ...], entry: str, where: str) -> Iterator[tuple[Cell | None, ...]]:
    """Values of one entry between commas: one step, or as many as a range has."""
    if len(keys) == 1 and entry.count(":") == 2:
        yield from ((read_cell(keys[0], text, where),) for text in _range(entry, where))
        return
    texts = [text.strip() for text in entry.split("|")] if len(keys) > 1 else [entry]
    if len(texts) != len(keys):
        raise ScenarioError(f"{where}: {entry!r} has {len(texts)} values; allowed: {len(keys)}, one for each key")
    yield tuple(read_cell(key, text, where) for key, text in zip(keys, texts, strict=True))


def _range(entry: str, where: str) -> list[str]:
    """``0.1:0.5:0.1`` in decimal steps, its end included where a step meets it: no rounding on the way."""
    try:
        low, high, step = (Decimal(text) for text in entry.split(":"))
    except InvalidOperation:
        raise ScenarioError(f"{where}: {entry!r} is no range; allowed: lo:hi:step in numbers") from None
    if not all(number.is_finite() for number in (low, high, step)) or step == 0 or (high - low) / step < 0:
        raise ScenarioError(f"{where}: {entry!r} goes nowhere; allowed: a step from lo towards hi")
    count = int((high - low) / step) + 1
    if count > MOST_ARMS:
        raise ScenarioError(f"{where}: {entry!r} has {count} steps; allowed: up to {MOST_ARMS}")
    return [f"{low + index * step:f}" for index in range(count)]


def read_cell(key: str, text: str, where: str) -> Cell | None:
    """The value of a key from a text, None for ``null``.

    Raises:
        ScenarioError: an unknown key, or a value of the wrong kind.
    """
    value: Cell | None = None if text == NULL else read_value(key, text, where)
    return value


def refuse_twice(keys: Sequence[str]) -> None:
    """Refuse a key that stands twice in a sweep."""
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ScenarioError(f"{twice[0]} is swept twice; allowed: each key in one lever")


def _named(values: Mapping[str, Cell | None]) -> Point:
    """A point called by its values, with the shortest names that tell its keys apart."""
    ends = [key.rpartition(".")[2] for key in values]
    shown = [end if ends.count(end) == 1 else key for key, end in zip(values, ends, strict=True)]
    pairs = [f"{name}={_text(value)}" for name, value in zip(shown, values.values(), strict=True)]
    return Point(", ".join(pairs), values)


def _text(value: Cell | None) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return NULL if value is None else str(value)


# ------------------------------------------------------------------------------------------------ tables


def table_points(path: Path) -> list[Point]:
    """A point a row of a CSV file: columns are keys, an empty cell leaves its key alone.

    The columns ``arm`` (name) and ``seeds`` (how many of its own) may stand among them.

    Raises:
        ScenarioError: the file cannot be read or used; names line and column.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(lines) < 2:
        raise ScenarioError(f"{path}: no rows; allowed: a line of keys and a line for each arm")
    header = [name.strip() for name in lines[0]]
    refuse_twice(header)
    numbered = enumerate(lines[1:], start=2)
    return [_row(header, cells, f"{path}, line {line}") for line, cells in numbered if any(map(str.strip, cells))]


def _row(header: Sequence[str], cells: Sequence[str], where: str) -> Point:
    if len(cells) != len(header):
        raise ScenarioError(f"{where}: {len(cells)} cells; allowed: {len(header)}, one for each column")
    texts = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    values = {key: read_cell(key, text or NULL, where) for key, text in texts.items() if key not in _LABELS}
    point = _named(values)
    seeds = texts.get("seeds") or "0"
    if not seeds.isdecimal():
        raise ScenarioError(f"{where}, column seeds: {seeds!r}; allowed: a whole number of at least 1")
    return Point(texts.get("arm") or point.name, values, int(seeds))
