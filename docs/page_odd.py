"""The tables inside the ODD page, read off the program; the text between them is written by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from inspect import getdoc
from pathlib import Path
from types import ModuleType

import numpy as np

from experiments.engine.runner import TABLES
from market import decisions, week
from market.assets import AssetBook
from market.covers import Covers
from market.demand import DemandState
from market.leases import Leases
from market.loans import LoanBook
from market.offers import OfferBook
from market.parameters import parameter_rows
from market.randomness import Purpose
from market.rows import Sku, column_units
from market.suppliers import Suppliers
from market.tables import describe_tables, load_tables
from market.tenants import Tenants

PAGE = Path(__file__).resolve().parent / "background" / "odd.md"

ENTITIES: dict[str, type] = {
    "Sellers and desks": Suppliers,
    "Tenants": Tenants,
    "Leases": Leases,
    "Offers": OfferBook,
    "Demand": DemandState,
    "Loans": LoanBook,
    "GPUs at book value": AssetBook,
    "Covers": Covers,
}
"""Entities by the name that the page gives them, with the class that holds their state in columns."""

_BLOCK = re.compile(r"(<!-- from the program: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Table = Callable[..., str]


def attributes(holder: type) -> dict[str, str]:
    """What a class says of its attributes in its docstring; ``a, b: text`` tells of both."""
    _, _, section = (getdoc(holder) or "").partition("Attributes:\n")
    section = re.split(r"\n(?=\S)", section, maxsplit=1)[0]
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?= {4}\S)", section):
        names, _, text = entry.strip().partition(": ")
        found |= {name.strip(): " ".join(text.split()) for name in names.split(",") if text}
    return found


def state_variables(holder: type) -> list[str]:
    """Names of a class's columns, in order."""
    if is_dataclass(holder):
        return [field.name for field in fields(holder)]
    empty = holder(np.zeros(0, np.int8), 0) if holder is OfferBook else holder(np.zeros(0))
    sizes = ("skus", "terms")  # of the arrays, no state
    return [name for name in vars(empty) if name not in sizes]


def _entities(table: Table) -> str:
    parts = []
    for title, holder in ENTITIES.items():
        said = attributes(holder)
        body = [[f"`{name}`", said[name]] for name in state_variables(holder)]
        parts += [
            f"**{title}** (`{holder.__module__}.{holder.__name__}`)",
            table(["state variable", "what it is"], body),
        ]
    return "\n\n".join(parts)


def _hardware(table: Table) -> str:
    units = column_units(Sku)
    return table(["attribute of a SKU", "unit"], [[f"`{name}`", units.get(name, "")] for name in Sku.model_fields])


def schedule() -> list[tuple[str, str]]:
    """Phases of a week in order, each with the comment that stands beside it in ``market/week.py``."""
    source = Path(str(week.__file__)).read_text(encoding="utf-8")
    play = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    lines = source.splitlines()
    return [
        (_call(statement), lines[statement.lineno - 1].partition("  # ")[2])
        for statement in play.body
        if not _is_docstring(statement)
    ]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _call(statement: ast.stmt) -> str:
    """Name of the one call in a statement."""
    call = next(node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return ast.unparse(call.func).removeprefix("model.")


def _schedule(table: Table) -> str:
    return table(
        ["", "phase", "what happens"], [[str(n), f"`{name}`", said] for n, (name, said) in enumerate(schedule(), 1)]
    )


def _values(module: ModuleType) -> Iterable[tuple[str, str]]:
    """Value types of a module with the first sentence of their docstrings."""
    for name in module.__all__:
        yield name, " ".join((getdoc(getattr(module, name)) or "").partition("\n\n")[0].split())


def _decisions(table: Table) -> str:
    return table(["value", "what an agent says with it"], [[f"`{name}`", said] for name, said in _values(decisions)])


def _draws(_table: Table) -> str:
    return ", ".join(purpose.name.lower().replace("_", " ") for purpose in Purpose) + "."


def _inputs(table: Table) -> str:
    body = [[f"`{entry.name}`", str(entry.rows), str(entry.columns)] for entry in describe_tables(load_tables())]
    return table(["table", "rows", "columns"], body)


def _parameters(table: Table) -> str:
    counts: dict[str, list[int]] = {}
    for key, row in parameter_rows().items():
        one = counts.setdefault(key.partition(".")[0], [0, 0, 0])
        one[0] += 1
        one[1] += row.kind == "lever"
        one[2] += row.confidence == "assumption"
    body = [[f"`{section}`", *map(str, numbers)] for section, numbers in sorted(counts.items())]
    return table(["section", "parameters", "levers", "assumptions"], body)


def _records(table: Table) -> str:
    return table(["table", "columns"], [[f"`{name}`", str(len(columns))] for name, columns in TABLES.items()])


_PARTS: dict[str, Callable[[Table], str]] = {
    "entities": _entities,
    "hardware": _hardware,
    "schedule": _schedule,
    "decisions": _decisions,
    "draws": _draws,
    "inputs": _inputs,
    "parameters": _parameters,
    "records": _records,
}


def page(table: Table) -> str:
    """The page with its tables made anew.

    Raises:
        KeyError: a state variable that its class does not explain, or a block that nothing fills.
    """
    text = PAGE.read_text(encoding="utf-8")
    return _BLOCK.sub(lambda found: f"{found[1]}\n{_PARTS[found[2]](table)}\n\n{found[3]}", text)
