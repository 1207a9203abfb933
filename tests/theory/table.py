"""The table of known answers: one quantity a row, read strictly; every complaint is one line.

``family, case_id, inputs, quantity, unit, value, tolerance, source, verified_by``: ``inputs`` is JSON with units in the
key names, ``tolerance`` absolute in the unit of the row. Tests read every input from the row.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import pytest

SHIPPED = Path(__file__).parent / "cases" / "theory_cases.csv"
OTHER_VALUES = SHIPPED.with_name("other_values.csv")
COLUMNS = ("family", "case_id", "inputs", "quantity", "unit", "value", "tolerance", "source", "verified_by")
_NEEDED = COLUMNS[:7]
_Test = TypeVar("_Test", bound=Callable[..., Any])


class CaseError(ValueError):
    """A table that cannot be used; one line."""


@dataclass(frozen=True)
class Known:
    """A known quantity and how far from it an answer may lie."""

    value: float
    tolerance: float


@dataclass
class Case:
    """A case of a family: inputs, known quantities, and how far off the answers were, as shares of the tolerance."""

    family: str
    name: str
    inputs: dict[str, Any]
    known: dict[str, Known] = field(default_factory=dict)
    off: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        """An input of the case."""
        if key not in self.inputs:
            raise CaseError(f"{self.name}: no input {key!r}; there are {', '.join(sorted(self.inputs))}")
        return self.inputs[key]

    def agree(self, found: Mapping[str, float], *, within: float = 0.0, partly: bool = False) -> None:
        """Every known quantity was found, within its tolerance (or ``within``, where that is wider).

        Args:
            found: Answers by quantity; more than are known may stand there.
            within: Wider bound, for short runs of random families.
            partly: Whether other tests find the rest.
        """
        missing = [name for name in self.known if name not in found]
        assert partly or not missing, f"{self.name}: nothing is measured for {', '.join(missing)}"
        misses = []
        for name in set(found) & set(self.known):
            known = self.known[name]
            off, bound = abs(found[name] - known.value), max(known.tolerance, within)
            self.off[name] = max(self.off.get(name, 0.0), off / known.tolerance)
            if not off <= bound:
                misses.append(f"{name} is {found[name]:.6g}, known {known.value:.6g} ± {bound:g}")
        assert not misses, f"{self.name}: {'; '.join(misses)}"


def family(*names: str) -> Callable[[_Test], _Test]:
    """The test is run on every case of these families in the table at hand."""
    return pytest.mark.family(*names)


def read_cases(path: Path) -> dict[str, list[Case]]:
    """Cases by family, in the order of the table.

    Raises:
        CaseError: no such file, a missing column, a cell that is no number or no JSON, a row twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CaseError(f"{path}: {error.strerror}") from None
    reader = csv.DictReader(text.splitlines())
    lacking = [column for column in _NEEDED if column not in (reader.fieldnames or ())]
    if lacking:
        raise CaseError(f"{path}: no column {', '.join(lacking)}")
    cases: dict[str, Case] = {}
    for row in reader:
        _add(cases, row, f"{path.name}, line {reader.line_num}")
    by_family: dict[str, list[Case]] = {}
    for case in cases.values():
        by_family.setdefault(case.family, []).append(case)
    return by_family


def _add(cases: dict[str, Case], row: Mapping[str, str], where: str) -> None:
    """One row joins its case."""
    try:
        inputs = json.loads(row["inputs"])
    except json.JSONDecodeError as error:
        raise CaseError(f"{where}, column inputs: no JSON ({error})") from None
    case = cases.setdefault(row["case_id"], Case(row["family"], row["case_id"], inputs))
    if (case.family, case.inputs) != (row["family"], inputs):
        raise CaseError(f"{where}: case {row['case_id']!r} stands above with another family or other inputs")
    if row["quantity"] in case.known:
        raise CaseError(f"{where}: quantity {row['quantity']!r} of case {row['case_id']!r} stands twice")
    case.known[row["quantity"]] = Known(*(_number(row, column, where) for column in ("value", "tolerance")))


def _number(row: Mapping[str, str], column: str, where: str) -> float:
    try:
        number = float(row[column])
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise CaseError(f"{where}, column {column}: {row[column]!r}; allowed: a finite number")
    return number


def unknown_families(table: Mapping[str, object], known: set[str]) -> list[str]:
    """A line for each family of a table that no test answers for."""
    return [
        f"unknown family {name!r}; nearest: {''.join(get_close_matches(name, sorted(known), 1, 0.0))!r}"
        for name in table
        if name not in known
    ]
