"""Tests of known answers run on a table: every test of a family on every case of it, other families skipped."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.theory.table import SHIPPED, Case, CaseError, read_cases

_FOUND = "theory_off"
TABLE = pytest.StashKey[dict[str, list[Case]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "family(*names): families of known answers that a test answers for")
    path = config.getoption("theory_cases", None)
    try:
        config.stash[TABLE] = read_cases(SHIPPED if path is None else Path(config.invocation_params.dir, path))
    except CaseError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def table(request: pytest.FixtureRequest) -> dict[str, list[Case]]:
    """The table at hand."""
    return request.config.stash[TABLE]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise the argument ``case`` by the cases of the families named."""
    marker = metafunc.definition.get_closest_marker("family")
    if "case" in metafunc.fixturenames and marker is not None:
        table = metafunc.config.stash[TABLE]
        cases = [case for name in marker.args for case in table.get(name, [])]
        metafunc.parametrize("case", cases, ids=[case.name for case in cases])


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """How far off the answers of a test were goes into its report, in plain numbers that a worker process can send."""
    case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
    if call.when == "call" and isinstance(case, Case):
        item.user_properties += [(_FOUND, (case.family, name, float(off))) for name, off in case.off.items()]
        case.off.clear()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With ``--theory-closeness``: the worst answer of each family as a share of its tolerance."""
    if not config.getoption("theory_closeness", False):
        return
    worst: dict[str, tuple[float, str]] = defaultdict(lambda: (0.0, ""))
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for key, found in report.user_properties:
            if key == _FOUND and report.when == "call":
                family, name, off = found
                worst[family] = max(worst[family], (off, name))
    for family, (off, name) in worst.items():
        terminalreporter.write_line(f"{family}: worst {name}, {off:.3g} of its tolerance")
