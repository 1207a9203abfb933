"""Imports run one way: the world knows no behaviour, behaviours know no question, and nothing goes in a circle."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from agents.rules.pricing import PRICING, PricingParameters
from tests.contracts import test_pricing_rules as pricing_contract

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("market", "agents", "experiments")  # each may import those before it
STAGES = ("engine", "measure", "study", "show")  # within experiments, likewise


@dataclass(frozen=True)
class Import:
    """``importer`` imports ``imported`` (a module); ``typing_only`` if a type checker alone sees it."""

    importer: str
    imported: str
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported}"


@cache
def _modules() -> dict[str, Path]:
    """All modules of the three packages by name."""
    found = {}
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _for_typing(test: ast.expr) -> bool:
    return ast.unparse(test).removeprefix("typing.") == "TYPE_CHECKING"


def _statements(tree: ast.AST, typing_only: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Import statements anywhere in a module, those inside functions included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, typing_only
        elif isinstance(node, ast.If) and _for_typing(node.test):
            for statement in node.body:
                yield from _statements(ast.Module([statement], []), True)
            for statement in node.orelse:
                yield from _statements(ast.Module([statement], []), typing_only)
        else:
            yield from _statements(node, typing_only)


def _targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Modules of ours that a statement names; ``from package import module`` counts as the module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in _modules())
        return
    assert node.level == 0, "imports are absolute"
    for alias in node.names:
        full = f"{node.module}.{alias.name}"
        if full in _modules():
            yield full
        elif node.module in _modules():
            yield str(node.module)


@cache
def _imports() -> tuple[Import, ...]:
    return tuple(
        Import(importer, target, typing_only)
        for importer, path in _modules().items()
        for node, typing_only in _statements(ast.parse(path.read_text(encoding="utf-8")))
        for target in _targets(node)
    )


def _stage(module: str) -> int | None:
    parts = module.split(".")
    return STAGES.index(parts[1]) if parts[0] == "experiments" and len(parts) > 1 and parts[1] in STAGES else None


def test_the_packages_are_found_and_their_imports_read() -> None:
    assert {module.split(".")[0] for module in _modules()} == set(LAYERS)
    assert any(edge.importer == "experiments.build" and edge.imported == "market.model" for edge in _imports())
    assert any(edge.typing_only for edge in _imports())


def test_imports_run_from_experiments_to_agents_to_market_and_never_back() -> None:
    def layer(module: str) -> int:
        return LAYERS.index(module.split(".")[0])

    assert [str(edge) for edge in _imports() if layer(edge.imported) > layer(edge.importer)] == []


def test_within_experiments_later_stages_use_earlier_ones_and_never_the_other_way() -> None:
    backwards = [
        str(edge)
        for edge in _imports()
        if (own := _stage(edge.importer)) is not None and (other := _stage(edge.imported)) is not None and other > own
    ]
    assert backwards == []


def test_stages_know_nothing_of_what_puts_them_together() -> None:
    above = [
        edge
        for edge in _imports()
        if _stage(edge.importer) is not None
        and _stage(edge.imported) is None
        and edge.imported.startswith("experiments")
        and not edge.typing_only
    ]
    # The engine plays markets: it imports what builds them when a run starts.
    plays = [
        edge for edge in above if edge.importer.startswith("experiments.engine.") and edge.imported.endswith(".build")
    ]
    assert plays
    assert [str(edge) for edge in above if edge not in plays] == []


def test_agents_name_the_model_for_the_type_checker_only() -> None:
    named = [
        str(edge) for edge in _imports() if edge.importer.startswith("agents.") and edge.imported == "market.model"
    ]
    typed = [str(edge) for edge in _imports() if edge.imported == "market.model" and edge.typing_only]
    assert set(named) <= set(typed)


def test_no_module_imports_itself_through_others() -> None:
    reached: dict[str, set[str]] = {module: set() for module in _modules()}
    for edge in _imports():
        if not edge.typing_only:
            reached[edge.importer].add(edge.imported)
    finished: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in finished:
            for target in sorted(reached[module]):
                visit(target, (*path, module))
            finished.add(module)

    for module in sorted(reached):
        visit(module, ())


def test_nothing_is_imported_through_a_package_inside_its_own_package() -> None:
    def inside(edge: Import) -> bool:
        return edge.importer.startswith(f"{edge.imported}.") and _modules()[edge.imported].name == "__init__.py"

    assert [str(edge) for edge in _imports() if inside(edge)] == []


@pytest.mark.parametrize("module", sorted(_modules()))
def test_names_offered_to_others_exist(module: str) -> None:
    if module.endswith("__main__"):
        pytest.skip("a program")
    loaded = importlib.import_module(module)
    assert [name for name in getattr(loaded, "__all__", ()) if not hasattr(loaded, name)] == []


def test_every_pricing_rule_stands_in_the_contract_suite() -> None:
    assert set(pricing_contract.RULES) == set(PRICING)
    for name, test in vars(pricing_contract).items():
        if name.startswith("test_"):
            marks = [mark.args for mark in test.pytestmark if mark.name == "parametrize"]
            assert ("rule", pricing_contract.RULES) in marks, name


def test_the_default_rule_of_every_class_is_registered() -> None:
    pricing = PricingParameters()
    assert {pricing.neocloud_rule, pricing.marketplace_rule, pricing.hyperscaler_rule} <= set(PRICING)
