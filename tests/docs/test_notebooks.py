"""The notebooks: each runs from top to bottom with smaller levers, and is committed as it is before it runs."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import experiments

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SMALL: dict[str, Any] = {
    "seeds": 2,
    "weeks": 3,
    "rows": 300,
    "prices": [1.99],
    "caps": [300],
    "scenarios": ["lepton-off"],
}
"""Levers of a quick run; each notebook has some of them."""

Notebook = Any  # nbformat carries no types


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Notebook:
    return nbformat.read(request.param, as_version=4)


def _code(notebook: Notebook) -> list[Notebook]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _levers(notebook: Notebook) -> Notebook:
    """The cell of the levers, the first with code."""
    first = _code(notebook)[0]
    assert first.metadata.get("tags") == ["parameters"]
    return first


def _assigned(source: str) -> set[str]:
    found = [node.targets for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    return {target.id for targets in found for target in targets if isinstance(target, ast.Name)}


def _with(notebook: Notebook, levers: dict[str, Any]) -> None:
    """Other values of levers, set right below the cell that has them, where they are levers of this notebook."""
    cell = _levers(notebook)
    cell.source += "".join(f"\n{name} = {value!r}" for name, value in levers.items() if name in _assigned(cell.source))


@pytest.fixture
def executed(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """The notebook after it has run with small levers in an empty folder."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")  # older versions of jupyter_core warn without it
    _with(notebook, {**SMALL, "root": str(tmp_path / "results")})
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    return notebook


def _pages(notebook: Notebook) -> Iterator[tuple[str, str]]:
    """What each cell of code shows as HTML, with its source."""
    for cell in _code(notebook):
        shown = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
        yield cell.source, "".join(shown)


def test_it_runs_from_top_to_bottom_and_a_figure_stands_where_one_is_asked_for(
    executed: Notebook, tmp_path: Path
) -> None:
    for source, page in _pages(executed):
        wanted = source.count(".figure(") + source.count(".effects_figure(")
        assert page.count('<img src="data:image/png;base64,') == wanted, source
        assert page.count("<figcaption>") == wanted, source
        assert wanted <= 1, "one figure to a cell"
        for caption in re.findall(r"<figcaption>(.*?)</figcaption>", page, re.DOTALL):
            assert "t intervals" in caption or "USD billion" in caption
            assert "seeds 1 to 2" in caption
    assert sum(page.count("<figure>") for _, page in _pages(executed)) >= 6
    assert not any(output.get("name") == "stderr" for cell in _code(executed) for output in cell.outputs)
    assert [path.name for path in tmp_path.iterdir()] == ["results"], "results stand where the levers say"


def test_it_is_committed_without_outputs_and_with_no_more_than_it_needs(notebook: Notebook) -> None:
    for cell in _code(notebook):
        assert cell.outputs == []
        assert cell.execution_count is None
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


def test_a_sentence_says_what_to_look_for_above_every_cell(notebook: Notebook) -> None:
    for above, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
        if cell.cell_type == "code":
            assert above.cell_type == "markdown"
            assert (
                cell is _levers(notebook)
                or re.search(r"\b[Ll]ook (at|for)\b", above.source)
                or "numbers" in above.source
            )


def test_it_uses_the_public_face_alone(notebook: Notebook) -> None:
    for cell in _code(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom) and node.module != "pathlib":
                assert node.module == "experiments"
                assert {alias.name for alias in node.names} <= set(experiments.__all__)
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= {"polars", "tempfile"}


def test_a_lever_that_is_none_is_left_alone(notebook: Notebook) -> None:
    before = _levers(notebook).source
    _with(notebook, {"no_lever": 1})
    assert _levers(notebook).source == before


def test_the_notebooks_are_there_and_told_of() -> None:
    assert {path.name for path in NOTEBOOKS} >= {"developer_cloud.ipynb", "policy_scenarios.ipynb"}
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS if f"notebooks/{path.name}" not in text] == []
