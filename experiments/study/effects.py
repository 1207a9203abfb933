"""Simulated effects that were kept: the rows of one experiment that the claims rest on, with what produced them.

``neocloud experiment claims`` measures them; `kept_effects` takes the rows in use from its folder. A kept file names
the design by a digest, so that a changed design is noticed, and the program by the digest of its sources.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.design import Design
from experiments.engine.errors import ScenarioError
from experiments.measure.stats import display_name
from experiments.scenario import read_toml

__all__ = ["DESIGN", "EFFECTS_FILE", "Effect", "Effects", "design_digest", "kept_effects", "load_effects"]

DESIGN = "claims"
EFFECTS_FILE = Path(__file__).resolve().parents[2] / "docs" / "background" / "data" / "claims_effects.csv"

_ROWS = (
    ("effect of Lepton", "ebitda_margin[neocloud]"),
    ("effect of Lepton", "amd_hour_share"),
    ("effect of Lepton", "amd_shipment_share"),
    ("effect of leaseback", "price_mean[MI300X]"),
    ("effect of leaseback", "price_mean[MI355X]"),
    ("effect of leaseback", "price_mean[MI355X, all]"),
    ("effect of leaseback", "price_mean[MI355X, hyperscaler]"),
    ("effect of leaseback", "amd_unit_share"),
)
_COLUMNS = ("contrast", "metric", "unit", "difference", "low", "high", "level", "pairs", "window_first", "window_last")


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


def design_digest(design: Design) -> str:
    """SHA-256 of what a design runs and compares; what it shows of that moves no number."""
    told = design.model_dump(exclude={"tables", "question", "risk"})
    for arm in told["arms"]:
        if not arm["seeds"]:  # as many as all others
            del arm["seeds"]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _last_weeks(folder: Path) -> Iterator[dict[str, str]]:
    """Effects of the latest window of a folder, by display name."""
    rows = list(csv.DictReader((folder / "effects.csv").read_text(encoding="utf-8").splitlines()))
    latest = max(int(row["window_first"]) for row in rows)
    for row in rows:
        if int(row["window_first"]) == latest:
            name = display_name(row["metric"], row["sku"], row["segment"], row["provider_class"], row["vendor"])
            yield {**row, "metric": name}


def kept_effects(folder: Path) -> str:
    """The rows in use from the folder of ``neocloud experiment claims``, as the text of a CSV file.

    Raises:
        ScenarioError: no such folder, another experiment, or a row that is missing or undefined.
    """
    design = Design.load(DESIGN)
    record, wanted = read_toml(folder / "design.toml"), design.plan().record()
    program = record["program"]["sources"]
    if any(record[key] != value for key, value in wanted.items() if key != "program"):
        raise ScenarioError(f"{folder}: not the experiment {DESIGN} as it stands")
    found = {(row["contrast"], row["metric"]): row for row in _last_weeks(folder)}
    text = io.StringIO()
    writer = csv.DictWriter(text, [*_COLUMNS, "design", "program"], lineterminator="\n")
    writer.writeheader()
    for key in _ROWS:
        if key not in found or not found[key]["low"]:
            raise ScenarioError(f"{folder}: the {key[0]} on {key[1]} is not measured")
        kept = {column: found[key][column] for column in _COLUMNS}
        writer.writerow({**kept, "design": design_digest(design), "program": program})
    return text.getvalue()


def load_effects(path: Path = EFFECTS_FILE) -> Effects | None:
    """Effects of a kept file; None if there is none, as in an installation without the documentation."""
    if not path.is_file():
        return None
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    numbers = {"difference", "low", "high", "level"}
    effects = [
        Effect(**{name: float(row[name]) if name in numbers else _whole(row[name]) for name in _COLUMNS})  # type: ignore[arg-type]
        for row in rows
    ]
    return Effects({(row.contrast, row.metric): row for row in effects}, rows[0]["design"], rows[0]["program"])


def _whole(text: str) -> int | str:
    return int(text) if text.isdigit() else text
