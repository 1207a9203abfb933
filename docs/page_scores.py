"""The page of scores against public figures, from the stored scores of one validation."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from experiments.measure.targets import load_targets

_DATA = Path(__file__).resolve().parent / "background" / "data"
_USES = {"fit": "Figures that parameters were moved towards", "holdout": "Held-out figures"}


def _stored(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((_DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


def _short(text: str) -> str:
    """Three digits of a number, as people write it; a dash for none."""
    return f"{float(text):.3g}".replace("-", "−") if text else "-"


def _percent(text: str) -> str:
    return f"{100 * float(text):.0f} %" if text else "-"


def _score_row(row: dict[str, str]) -> list[str]:
    spread = f" ({_short(row['sd'])})" if row["sd"] else ""
    extremes = f"{_short(row['lowest'])} to {_short(row['highest'])}" if row["mean"] else "-"
    return [
        row["verdict"],
        f"`{row['id']}`",
        row["hardness"],
        f"{_short(row['low'])} to {_short(row['high'])}",
        _short(row["measured"]),
        _short(row["mean"]) + spread,
        extremes,
        _percent(row["share_of_seeds_inside"]),
        row["held_down_by"] or row["reason"],
    ]


def page(notice: str, table: Callable[..., str]) -> str:
    """The page.

    Args:
        notice: first line of generated pages.
        table: a Markdown table from its head and its rows.
    """
    rows, notes = _stored("validation"), {note["id"]: note["note"] for note in _stored("validation-notes")}
    targets = {target.id: target for target in load_targets()}
    head = [
        "verdict",
        "figure",
        "",
        "band",
        "measured",
        "mean (sd)",
        "extremes",
        "seeds inside",
        "held down by, or why not",
    ]
    first = rows[0]
    joint = "share_of_seeds_passing_hard"
    seeds = f"{first['first_seed']} to {first['last_seed']}"
    parts = [
        notice,
        "# Scores against public figures",
        "Each run is compared with figures that were written down, with their bands, before any run, in "
        "`experiments/targets.csv`. A test holds the bands; nothing is tuned here to pass, and what fails is listed as "
        "failing.",
        f"**{_percent(first[joint])}** of the seeds pass every hard figure that was scored at once; "
        f"{_percent(first[joint + '_fit'])} pass all fitted ones, {_percent(first[joint + '_holdout'])} all held-out "
        f"ones. Seeds {seeds}, by",
        f"    neocloud validate --seeds {first['last_seed']} --format csv > docs/background/data/validation.csv",
        f"with scenario {first['scenario_digest']}, tables {first['tables_digest']}, sources "
        f"{first['sources_digest']} (first digits of their digests).",
        "A figure *passes* if the mean over seeds and at least half of the seeds lie inside its band. A hard figure "
        "whose mean is outside *fails*; a soft one, or a mean inside with most seeds outside, is a *warning*. *Held "
        "down by* says the model where a figure does not pass, and the seeds where it does and some of them miss. "
        "Figures of any half-year are means over the complete half-years up to September 2026; *extremes* are over "
        "seeds and half-years. A figure that begins before the run is not measured.",
    ]
    for use, title in _USES.items():
        parts += [f"## {title}", table(head, [_score_row(row) for row in rows if row["use"] == use])]
    held = [row for row in rows if row["hardness"] == "hard" and row["joint_share_without_it"] and row["held_down_by"]]
    parts += [
        "## What holds the joint share down",
        "Share of seeds that would pass every other hard figure, for each hard figure that some seed misses:",
        table(["figure", "without it"], [[f"`{row['id']}`", _percent(row["joint_share_without_it"])] for row in held]),
        "## What fails, and why",
        table(["figure", "why"], [[f"`{row['id']}`", notes[row["id"]]] for row in rows if row["id"] in notes]),
        "## Which mechanism produces what",
        table(
            ["figure", "where it is measured", "mechanism", "source of the band"],
            [
                [
                    f"`{target.id}`",
                    f"{target.metric}, {target.sku}, {target.provider_class}; {target.window} from {target.start}",
                    target.mechanism,
                    target.source,
                ]
                for target in targets.values()
            ],
        ),
    ]
    return "\n\n".join(parts) + "\n"
