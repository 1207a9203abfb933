"""A scenario file to begin with: what may be changed stands in it as a comment, at the values that it has now."""

from __future__ import annotations

import re
from pathlib import Path

import tomli_w

from experiments.engine.errors import ScenarioError
from experiments.scenario import Scenario
from experiments.scenario_files import scenario_names
from market.parameters import parameter_rows

__all__ = ["template", "write_template"]

_LEVERS = (
    "developer_cloud.price_usd_per_gpu_hour",
    "developer_cloud.cap_gpus",
    "leaseback.share",
    "lepton.mode",
    "lepton.take_rate",
    "pricing.anchor_weight",
    "demand.growth_peak_per_year",
    "software.maturity_speed",
    "finance.amd_debt_multiple",
)

_EVENTS = """\
#[events.cut]
#kind = "list-price"
#week = 13
#provider_class = "hyperscaler"      # or seller = "AWS"
#sku = "H100"                        # all where absent
#factor = 0.56

#[events.late-chip]
#kind = "chip"
#week = 20
#sku = "MI400"
#slip_weeks = 26                     # its successors slip with it

#[events.recession]
#kind = "demand"
#week = 26
#size = -0.3
#weeks = 52                          # for good where absent
#segment = "fine_tuning"             # all where absent

#[events.exodus]
#kind = "tenant-leaves"
#week = 52
#seller = "CoreWeave"
#share = 0.6                         # of its leased GPUs, largest tenants first

#[events.dearer-pool]
#kind = "policy"
#week = 30
#key = "lepton.take_rate"
#value = 0.2
"""


def template(name: str, base: Scenario, extends: str) -> str:
    """Text of a scenario that extends ``base`` and changes nothing yet; lines of code are commented out by a bare #."""
    labels = {
        "name": name,
        "extends": extends,
        "description": f"What {name} stands for, in two lines at most",
        "source": "assumption: why these numbers; or a fact with its address",
    }
    parts = [
        f"# A scenario says what differs from what it extends. Try it: neocloud run {name}.toml --weeks 4",
        tomli_w.dumps(labels).rstrip(),
        f"#weeks = {base.weeks}",
        "# All keys: neocloud scenario show. Take the # from a section and its key to change one.",
        *_levers(base),
        "# Dated events, in tables of your naming. Kinds and their fields: docs/reference/scenarios.md",
        _EVENTS.rstrip(),
        "# A table of your own (neocloud data export DIR writes them all), or one cell.",
        '#[data]\n#fleets = "my_fleets.csv"',
        "#[data.hardware.MI355X]\n#capex_usd = 42000",
    ]
    return "\n\n".join(parts) + "\n"


def _levers(base: Scenario) -> list[str]:
    """Sections of often wanted keys at the values of the base, commented out."""
    values, rows, sections = base.values(), parameter_rows(), dict[str, list[str]]()
    for key in _LEVERS:
        section, _, name = key.partition(".")
        line = tomli_w.dumps({name: values[key]}).strip()
        sections.setdefault(section, []).append(f"#{line:<36} # {rows[key].unit}: {rows[key].note}")
    return ["\n".join([f"#[{section}]", *lines]) for section, lines in sections.items()]


def write_template(name: str, base: str, out: Path) -> Path:
    """Write the template of a scenario ``name`` that extends the scenario ``base``.

    Raises:
        ScenarioError: a name that cannot be one, an unknown base, a file that exists or cannot be written; one line.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise ScenarioError(f"NAME = {name!r}; allowed: letters, digits, _ . and -")
    if name in scenario_names():
        raise ScenarioError(f"NAME = {name!r}: a built-in scenario has this name; choose another")
    extended = Scenario.load(base)
    extends = base if base in scenario_names() else Path(base).resolve().as_posix()
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(template(name, extended, extends))
    except FileExistsError:
        raise ScenarioError(f"{out} exists and is left as it is; choose another --out") from None
    except OSError as error:
        raise ScenarioError(f"cannot write {out}: {error.strerror}") from None
    return out
