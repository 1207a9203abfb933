"""The ODD page against the program: schedule, state variables, files and ranges are those that run."""

import ast
import re
from pathlib import Path

import pytest

from market.assets import AssetBook
from market.demand import DemandState
from market.leases import Leases
from market.loans import LoanBook
from market.parameters import parameter_rows
from market.suppliers import Suppliers
from market.tenants import Tenants

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "background" / "odd.md").read_text(encoding="utf-8")


def test_the_schedule_on_the_page_is_the_week_that_is_played():
    source = (ROOT / "market" / "week.py").read_text(encoding="utf-8")
    play = next(node for node in ast.parse(source).body if getattr(node, "name", "") == "play_week")
    calls = [ast.unparse(node.func) for step in play.body for node in ast.walk(step) if isinstance(node, ast.Call)]
    on_page = re.findall(r"^\| \d+ \| `([\w.]+)` \| (.+) \|$", TEXT, re.MULTILINE)
    assert [name for name, _ in on_page] == [call.removeprefix("model.") for call in calls]
    assert all(said in source for _, said in on_page)


@pytest.mark.parametrize("holder", [Suppliers, Tenants, Leases, LoanBook, AssetBook])
def test_every_state_variable_of_an_entity_is_on_the_page(holder):
    start = TEXT.index(f"`{holder.__module__}.{holder.__name__}`")
    table = TEXT[start : TEXT.find("**", start + 1)]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(holder.__dataclass_fields__)


def test_states_of_demand_are_those_of_a_run():
    import numpy as np

    assert all(f"| `{name}` |" in TEXT for name in vars(DemandState(np.zeros(2))))


def test_sections_are_those_of_the_protocol_in_order():
    wanted = [
        *("Overview", "Purpose and patterns", "Entities, state variables and scales"),
        *("Process overview and scheduling", "Design concepts", "Theoretical and empirical background"),
        *("Individual decision-making", "Learning", "Individual sensing", "Individual prediction", "Interaction"),
        *("Collectives", "Heterogeneity", "Stochasticity", "Observation", "Details", "Implementation"),
        *("Initialisation", "Input data", "Submodels", "Parameters"),
    ]
    assert [name for name in re.findall(r"^#{2,3} (.+)$", TEXT, re.MULTILINE) if name in wanted] == wanted


def test_files_named_as_submodels_exist():
    named = re.findall(r"`((?:market|agents|experiments)/[\w/.]*)`", TEXT)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def _is_number(text):
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) is not None


def test_every_assumption_says_that_it_is_one_and_every_number_has_a_range_around_it():
    for key, row in parameter_rows().items():
        assert row.source, key
        assert row.as_of, key
        assert row.source != "assumption" or row.confidence == "assumption", key
        if _is_number(row.value):
            assert float(row.minimum) <= float(row.value) <= float(row.maximum), key
        if row.sweep_low and row.kind == "uncertainty":
            assert float(row.sweep_low) <= float(row.value) <= float(row.sweep_high), key
