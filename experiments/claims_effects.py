"""The experiment behind the claims: its design, and the rows of its results that are kept for `experiments.study`."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

from experiments.design import Design
from experiments.engine.errors import ScenarioError
from experiments.measure.stats import display_name
from experiments.scenario_files import read_toml
from experiments.study.effects import COLUMNS

__all__ = ["DESIGN", "design_digest", "kept_effects"]

DESIGN = "claims"

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
    writer = csv.DictWriter(text, [*COLUMNS, "design", "program"], lineterminator="\n")
    writer.writeheader()
    for key in _ROWS:
        if key not in found or not found[key]["low"]:
            raise ScenarioError(f"{folder}: the {key[0]} on {key[1]} is not measured")
        kept = {column: found[key][column] for column in COLUMNS}
        writer.writerow({**kept, "design": design_digest(design), "program": program})
    return text.getvalue()
