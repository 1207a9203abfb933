"""Sweeps: which values a user asks for, by grid, table or sample, and the plan that runs them all.

A *lever* is a key of the scenario, or several moved together. A *point* is what one arm sets. Values are texts as on
the command line (``0.1:0.5:0.1``) or values from Python; null (None) leaves a key as the scenario has it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import product
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.engine.errors import ScenarioError, nearest
from experiments.engine.plan import DEFAULT_SEEDS, Arm, Contrast, Plan, Screen, make_plan, seeds_from, variant
from experiments.scenario import DEFAULT_SCENARIO, Cell, Scenario, read_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from experiments.api import Results

__all__ = [
    "SAMPLES",
    "Lever",
    "Point",
    "Range",
    "grid_points",
    "lever_of",
    "planned",
    "points_of",
    "range_of",
    "sample_points",
    "sweep",
    "sweep_plan",
    "table_points",
]

NULL = "null"
"""How a text says that a key is left alone."""

_MOST_ARMS = 100_000
_LABELS = ("arm", "seeds")  # columns of a table that are no keys
_DIGITS = 6  # of sampled values: enough to fill a range, few enough to read


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
    _refuse_twice(keys)
    size = 1
    for lever in levers:
        if not lever.steps:
            raise ScenarioError(f"--grid {','.join(lever.keys)}: no value; allowed: one or more")
        size *= len(lever.steps)
    if size > _MOST_ARMS:
        raise ScenarioError(f"--grid: {size} combinations; allowed: up to {_MOST_ARMS}; a sample needs fewer")
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
        yield from ((_read(keys[0], text, where),) for text in _range(entry, where))
        return
    texts = [text.strip() for text in entry.split("|")] if len(keys) > 1 else [entry]
    if len(texts) != len(keys):
        raise ScenarioError(f"{where}: {entry!r} has {len(texts)} values; allowed: {len(keys)}, one for each key")
    yield tuple(_read(key, text, where) for key, text in zip(keys, texts, strict=True))


def _range(entry: str, where: str) -> list[str]:
    """``0.1:0.5:0.1`` in decimal steps, its end included where a step meets it: no rounding on the way."""
    try:
        low, high, step = (Decimal(text) for text in entry.split(":"))
    except InvalidOperation:
        raise ScenarioError(f"{where}: {entry!r} is no range; allowed: lo:hi:step in numbers") from None
    if not all(number.is_finite() for number in (low, high, step)) or step == 0 or (high - low) / step < 0:
        raise ScenarioError(f"{where}: {entry!r} goes nowhere; allowed: a step from lo towards hi")
    count = int((high - low) / step) + 1
    if count > _MOST_ARMS:
        raise ScenarioError(f"{where}: {entry!r} has {count} steps; allowed: up to {_MOST_ARMS}")
    return [f"{low + index * step:f}" for index in range(count)]


def _read(key: str, text: str, where: str) -> Cell | None:
    value: Cell | None = None if text == NULL else read_value(key, text, where)
    return value


def _refuse_twice(keys: Sequence[str]) -> None:
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
    _refuse_twice(header)
    numbered = enumerate(lines[1:], start=2)
    return [_row(header, cells, f"{path}, line {line}") for line, cells in numbered if any(map(str.strip, cells))]


def _row(header: Sequence[str], cells: Sequence[str], where: str) -> Point:
    if len(cells) != len(header):
        raise ScenarioError(f"{where}: {len(cells)} cells; allowed: {len(header)}, one for each column")
    texts = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    values = {key: _read(key, text or NULL, where) for key, text in texts.items() if key not in _LABELS}
    point = _named(values)
    seeds = texts.get("seeds") or "0"
    if not seeds.isdecimal():
        raise ScenarioError(f"{where}, column seeds: {seeds!r}; allowed: a whole number of at least 1")
    return Point(texts.get("arm") or point.name, values, int(seeds))


# ------------------------------------------------------------------------------------------------ samples


@dataclass(frozen=True)
class Range:
    """Where a sample may go: between two numbers (``log``: evenly by ratio), or one of several values."""

    key: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    choices: tuple[Cell | None, ...] = ()

    def at(self, share: float) -> Cell | None:
        """The value at a share of the range, from 0 to 1."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        if self.whole:
            return min(int(self.low + share * (self.high - self.low + 1)), int(self.high))
        if self.log:
            return _rounded(exp(log(self.low) + share * (log(self.high) - log(self.low))))
        return _rounded(self.low + share * (self.high - self.low))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def range_of(text: str) -> Range:
    """The range of ``key=lo:hi``, ``key=lo:hi:log``, ``key=a,b,c``, or ``key`` alone: that of the parameter table.

    Raises:
        ScenarioError: not of this form, an unknown key, or a range without extent.
    """
    where, (key, equals, tail) = f"--sample {text}", text.partition("=")
    if not equals:
        return _usual_range(key, where)
    if ":" not in tail:
        return Range(key, choices=tuple(_read(key, entry.strip(), where) for entry in tail.split(",")))
    low_text, high_text, *how = tail.split(":")
    low, high = (_read(key, end, where) for end in (low_text, high_text))
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    if not numbers or how not in ([], ["log"]):
        raise ScenarioError(f"{where}: allowed: key=lo:hi, key=lo:hi:log or key=a,b,c")
    return _checked(Range(key, float(low), float(high), isinstance(low, int), bool(how)), where)  # type: ignore[arg-type]


def _checked(found: Range, where: str) -> Range:
    if not found.low < found.high or (found.log and found.low <= 0.0):
        least = "0 < lo < hi" if found.log else "lo < hi"
        raise ScenarioError(f"{where}: {found.low:g} to {found.high:g}; allowed: {least}")
    return found


def _usual_range(key: str, where: str) -> Range:
    """The range that the parameter table gives a key to be swept over."""
    from market.parameters import parameter_rows

    row = parameter_rows().get(key)
    if row is None or not row.sweep_low:
        with_range = [name for name, entry in parameter_rows().items() if entry.sweep_low]
        raise ScenarioError(f"{where}: {key} has no range of its own; give {key}=lo:hi{nearest(key, with_range)}")
    whole = isinstance(_read(key, row.sweep_low, where), int)
    return _checked(Range(key, float(row.sweep_low), float(row.sweep_high), whole), where)


def _unit_lhs(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    from scipy.stats.qmc import LatinHypercube

    return np.asarray(LatinHypercube(dimensions, seed=np.random.default_rng(seed)).random(count))


def _unit_sobol(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    from scipy.stats.qmc import Sobol

    if count & (count - 1):
        fitting = 1 << (count - 1).bit_length()
        raise ScenarioError(f"--sample sobol:{count}: allowed: a power of two; nearest: {fitting // 2} or {fitting}")
    return np.asarray(Sobol(dimensions, seed=np.random.default_rng(seed)).random(count))


_MORRIS_LEVELS = 4


def _unit_morris(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    """Trajectories of Morris (1991): each starts anywhere on a grid of four levels and moves one lever at a time."""
    generator, jump = np.random.default_rng(seed), _MORRIS_LEVELS / (2 * (_MORRIS_LEVELS - 1))
    points = []
    for _ in range(count):
        low = generator.integers(0, _MORRIS_LEVELS // 2, dimensions) / (_MORRIS_LEVELS - 1)
        up = generator.random(dimensions) < 0.5
        here = np.where(up, low, low + jump)
        points.append(here)
        for lever in generator.permutation(dimensions):
            here = here.copy()
            here[lever] += jump if up[lever] else -jump
            points.append(here)
    return np.asarray(np.clip(np.array(points), 0.0, 1.0), np.float64)


SAMPLES = {"lhs": _unit_lhs, "sobol": _unit_sobol, "morris": _unit_morris}
"""Samplers by name: ``(count, dimensions, seed)`` to points in the unit cube, ``(points, dimensions)``."""


def sample_points(sample: str, ranges: Sequence[Range], *, seed: int = 0) -> list[Point]:
    """Points of a sample.

    Args:
        sample: ``lhs:64``, ``sobol:256`` (a power of two) or ``morris:10`` (trajectories of one point more than
            there are levers).
        ranges: of the levers.
        seed: of the sample, not of the runs: the same points every time.

    Raises:
        ScenarioError: an unknown sample, no levers, or one of them twice.
    """
    name, _, size = sample.partition(":")
    if name not in SAMPLES:
        raise ScenarioError(f"--sample {sample}: unknown sample {name!r}{nearest(name, SAMPLES)}")
    if not size.isdecimal() or not 1 <= int(size) <= _MOST_ARMS:
        raise ScenarioError(f"--sample {sample}: allowed: {name}:N with N from 1 to {_MOST_ARMS}")
    if not ranges:
        raise ScenarioError(f"--sample {sample}: no levers; give some as key=lo:hi after the scenario")
    _refuse_twice([one.key for one in ranges])
    shares = SAMPLES[name](int(size), len(ranges), seed)
    width = len(str(len(shares)))
    return [
        Point(
            f"point {index:0{width}}", {one.key: one.at(float(share)) for one, share in zip(ranges, row, strict=True)}
        )
        for index, row in enumerate(shares, start=1)
    ]


# ------------------------------------------------------------------------------------------------ the plan


def sweep_plan(
    scenario: Scenario,
    points: Iterable[Point],
    *,
    seeds: int | None = None,
    first_seed: int | None = None,
    own_seeds: bool = False,
    compared: bool = True,
    level: float = 0.95,
) -> Plan:
    """The plan that runs every point.

    Args:
        scenario: what the points change.
        points: one arm each.
        seeds: of every arm that does not say how many of its own.
        first_seed: the first of them.
        own_seeds: no two arms share a seed: independent luck in place of paired.
        compared: measure every arm against the first.
        level: of the intervals.

    Raises:
        ScenarioError: a key or value is unknown, two arms have one name, or no arm can be.
    """
    count = DEFAULT_SEEDS if seeds is None else seeds
    arms: list[Arm] = []
    start = seeds_from(first_seed, 1)[0]
    for point in points:
        own = seeds_from(start, point.seeds or count) if own_seeds or point.seeds else ()
        start += len(own) if own_seeds else 0
        arms.append(variant(point.name, scenario, point.values, f"sweep, arm {point.name}", own))
    names = [arm.name for arm in arms]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ScenarioError(f"sweep: two arms are {twice[0]!r}; allowed: each value once")
    contrasts = list(_against_first(arms)) if compared and not own_seeds else []
    name = f"{scenario.name}-sweep"
    return make_plan(name, scenario, arms, seeds=count, first_seed=first_seed, contrasts=contrasts, level=level)


def _against_first(arms: Sequence[Arm]) -> Iterator[Contrast]:
    first, *others = [arm.name for arm in arms if not arm.problem] or [""]
    return (Contrast(f"{other} against {first}", other, first, column=False) for other in others)


# ------------------------------------------------------------------------------------------------ the call

Grid = Mapping[str | tuple[str, ...], "str | Iterable[Any]"]
"""Values by key (or by several keys, then each value is a tuple): a list, or a text as on the command line."""


def _lever(keys: str | tuple[str, ...], steps: str | Iterable[Any]) -> Lever:
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if isinstance(steps, str):
        return lever_of(f"{','.join(names)}={steps}")
    rows: list[Any] = [step if isinstance(keys, tuple) else (step,) for step in steps]
    if wrong := [row for row in rows if not isinstance(row, tuple) or len(row) != len(names)]:
        raise ScenarioError(f"grid of {', '.join(names)}: {wrong[0]!r}; allowed: {len(names)} values, one for each key")
    return Lever(names, tuple(rows))


def points_of(
    grid: Grid | Sequence[str] = (),
    sample: str = "",
    ranges: Mapping[str, Any] | Sequence[str] = (),
    table: str | Path | None = None,
    sample_seed: int = 0,
) -> list[Point]:
    """The points of a grid, a sample or a table, whichever is given; see `sweep`.

    Raises:
        ScenarioError: none or several of them, or one that cannot be used.
    """
    given = [name for name, asked in (("grid", grid), ("sample", sample), ("table", table)) if asked]
    if len(given) != 1:
        raise ScenarioError(f"a sweep needs one of grid, sample and table; given: {' and '.join(given) or 'none'}")
    if ranges and not sample:
        raise ScenarioError(f"{next(iter(ranges))}: ranges are for a sample; a grid is --grid key=a,b,c")
    if table:
        return table_points(Path(table))
    if sample:
        texts = [f"{key}={_span(one)}" for key, one in ranges.items()] if isinstance(ranges, Mapping) else ranges
        return sample_points(sample, [range_of(text) for text in texts], seed=sample_seed)
    if isinstance(grid, Mapping):
        return grid_points([_lever(keys, steps) for keys, steps in grid.items()])
    return grid_points([lever_of(text) for text in grid])


def _span(asked: Any) -> str:
    """``(0, 0.2)`` as on the command line; texts as they are."""
    return asked if isinstance(asked, str) else ":".join(map(str, asked))


def planned(
    scenario: str | Path | Scenario,
    points: Sequence[Point],
    *,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    weeks: int | None = None,
    show: Sequence[str] = (),
    sampled: bool = False,
    **luck: Any,
) -> Plan:
    """The plan of a sweep, everything checked; arguments as in `sweep`.

    Raises:
        ScenarioError: bad input, in one line.
    """
    from experiments.measure.outcomes import OUTCOMES

    for metric in show:
        if metric.partition("[")[0] not in OUTCOMES:
            raise ScenarioError(f"show {metric!r}: no such outcome{nearest(metric.partition('[')[0], OUTCOMES)}")
    base = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    plan = sweep_plan(base.changed(assignments, set, weeks), points, compared=not sampled, **luck)
    return replace(plan, screens=(Screen("Response", tuple(show)),)) if show else plan


def sweep(
    scenario: str | Path | Scenario = DEFAULT_SCENARIO,
    *,
    grid: Grid | Sequence[str] = (),
    sample: str = "",
    ranges: Mapping[str, Any] | Sequence[str] = (),
    table: str | Path | None = None,
    sample_seed: int = 0,
    set: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
    seeds: int | None = None,
    seed: int | None = None,
    own_seeds: bool = False,
    weeks: int | None = None,
    show: Sequence[str] = (),
    **options: Any,
) -> Results:
    """Run a scenario at every point of a grid, a sample or a table, each with every seed.

    Args:
        scenario: name, file or `Scenario`.
        grid: ``{"developer_cloud.cap_gpus": [0, 1000], "lepton.take_rate": "0:0.2:0.05"}``; keys moved together:
            ``{("weeks", "demand.regime"): [(26, True), (52, False)]}``; None leaves a key as it is.
        sample: ``lhs:64``, ``sobol:256`` or ``morris:10``.
        ranges: of a sample: ``{"lepton.take_rate": (0, 0.2)}``, or texts ``key=lo:hi``, ``key=lo:hi:log``, ``key``.
        table: CSV file, a row an arm.
        sample_seed: of the sample.
        set: changes of the scenario before those of the arms, by key.
        assignments: the same as texts.
        seeds: number of seeds of each arm (default 16).
        seed: the first of them.
        own_seeds: no two arms share a seed.
        weeks: length of each run.
        show: outcomes to show, by display name.
        options: see `experiments.api.carry_out`.

    Raises:
        ScenarioError: bad input, in one line; nothing is run or written.
    """
    from experiments.api import carry_out

    points = points_of(grid, sample, ranges, table, sample_seed)
    luck: dict[str, Any] = {"seeds": seeds, "first_seed": seed, "own_seeds": own_seeds}
    changes: dict[str, Any] = {"set": set, "assignments": assignments, "weeks": weeks, "show": show}
    return carry_out(planned(scenario, points, sampled=bool(sample), **changes, **luck), **options)
