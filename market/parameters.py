"""Parameters: frozen, strict models whose defaults, bounds, units and sources come from one table.

``data/parameters.csv`` holds a row per parameter: key, default value, what is allowed, a range for sweeps, unit,
kind (``lever``: somebody can choose it; ``uncertainty``: nobody knows it), date, source and confidence.
A model declares the field beside the code that uses it; the number stands in the table alone.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ParameterRow", "Parameters", "cell_from_text", "parameter", "parameter_rows"]


class Parameters(BaseModel):
    """Base of all parameter models: immutable, unknown keys refused, no text for numbers, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

    def changed(self, name: str, value: Any) -> Self:
        """A copy with one field changed, checked like the original."""
        return type(self).model_validate(dict(self) | {name: value})


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A row of ``parameters.csv``; text as written, blanks as ``""``."""

    key: str
    value: str
    minimum: str
    maximum: str
    sweep_low: str
    sweep_high: str
    unit: str
    kind: str
    as_of: str
    source: str
    confidence: str
    note: str


@cache
def parameter_rows() -> dict[str, ParameterRow]:
    """All rows of the parameter table by key, in the order of the file."""
    text = files("market").joinpath("data/parameters.csv").read_text(encoding="utf-8")
    rows = [ParameterRow(**row) for row in csv.DictReader(text.splitlines())]
    table = {row.key: row for row in rows}
    if len(table) != len(rows):
        raise ValueError("parameters.csv: a key stands twice")
    return table


def cell_from_text(text: str) -> bool | int | float | str:
    """The value of a cell written as text: a switch or a number where it reads as one, else the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parameter(key: str) -> Any:
    """Field of a parameter model, filled from the row ``key`` (``section.name``) of ``parameters.csv``.

    Raises:
        KeyError: the table has no such row.
    """
    row = parameter_rows()[key]
    return Field(
        default=cell_from_text(row.value),
        ge=float(row.minimum) if row.minimum else None,
        le=float(row.maximum) if row.maximum else None,
        description=row.note,
        json_schema_extra={
            "unit": row.unit,
            "kind": row.kind,
            "source": row.source,
            "confidence": row.confidence,
            "sweep": [cell_from_text(row.sweep_low), cell_from_text(row.sweep_high)] if row.sweep_low else None,
        },
    )
