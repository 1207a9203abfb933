"""Simulated effects that were kept: the rows of one experiment that the claims rest on, with what produced them.

``neocloud experiment claims`` measures them; `experiments.claims_effects` takes the rows in use from its folder. A kept
file names the design by a digest, so that a changed design is noticed, and the program by the digest of its sources.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

__all__ = ["COLUMNS", "EFFECTS_FILE", "Effect", "Effects", "load_effects"]

EFFECTS_FILE = Path(__file__).resolve().parents[2] / "docs" / "background" / "data" / "claims_effects.csv"


@dataclass(frozen=True)
class Effect:
    """A paired difference over the last weeks of the runs, with its interval."""

    contrast: str
    metric: str
    unit: str
    difference: float
    low: float
    high: float
    level: float
    pairs: int
    window_first: int
    window_last: int


COLUMNS = tuple(field.name for field in fields(Effect))
"""Columns of a kept file, before the digests of design and program."""


@dataclass(frozen=True)
class Effects:
    """Effects by contrast and metric, and what produced them.

    Attributes:
        rows: effects.
        design: digest of the design.
        program: digest of the sources that ran it.
    """

    rows: Mapping[tuple[str, str], Effect]
    design: str
    program: str


def load_effects(path: Path = EFFECTS_FILE) -> Effects | None:
    """Effects of a kept file; None if there is none, as in an installation without the documentation."""
    if not path.is_file():
        return None
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    numbers = {"difference", "low", "high", "level"}
    effects = [
        Effect(**{name: float(row[name]) if name in numbers else _whole(row[name]) for name in COLUMNS})  # type: ignore[arg-type]
        for row in rows
    ]
    return Effects({(row.contrast, row.metric): row for row in effects}, rows[0]["design"], rows[0]["program"])


def _whole(text: str) -> int | str:
    return int(text) if text.isdigit() else text
