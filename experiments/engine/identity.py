"""Whose folder it is: the experiment written down in it, and in what it differs from the one that is wanted.

``scenario.toml`` has the base scenario, ``design.toml`` the arms, seeds and contrasts; what is only shown of an
experiment, and labels, do not make it another.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from experiments.engine.errors import ScenarioError
from experiments.engine.folder import Folder
from experiments.engine.plan import Plan

__all__ = ["Identity"]

_FIRST_FILES = {"scenario.toml", ".lock"}  # what a start that was cut short may leave
_ONLY_SHOWN = ("screens", "risk")


class Identity:
    """An experiment as a folder is known by it.

    Args:
        plan: the experiment.
        tables: names of the tables that are kept of it.
    """

    def __init__(self, plan: Plan, tables: list[str]) -> None:
        self._plan = plan
        self._tables = tables

    def write(self, folder: Folder) -> None:
        """Write it down.

        Raises:
            StoreError: the disk refuses.
        """
        screens = [
            {"title": screen.title, "metrics": list(screen.metrics), "window": screen.window}
            for screen in self._plan.screens
        ]
        shown = dict(zip(_ONLY_SHOWN, (screens, self._plan.risk), strict=True))
        folder.write_text("scenario.toml", self._plan.base.canonical())
        folder.write_text("design.toml", tomli_w.dumps({**self._record(), **shown}))

    def refuse_another(self, out: Path) -> None:
        """Refuse a folder that holds another experiment, or anything else.

        Raises:
            ScenarioError: it does; the line names the keys that differ.
        """
        if not out.exists():
            return
        if not out.is_dir():
            raise ScenarioError(f"cannot write to {out}: it is a file")
        held = {entry.name for entry in out.iterdir()}
        if "design.toml" in held:
            differences = list(self._differences(out))
            if differences:
                shown = "; ".join(differences[:4]) + (f"; {len(differences) - 4} more" if len(differences) > 4 else "")
                raise ScenarioError(f"{out} holds another experiment ({shown}); give another --out or remove it")
        elif not held <= _FIRST_FILES and not all(name.startswith(".tmp-") for name in held - _FIRST_FILES):
            raise ScenarioError(f"{out} is not empty and holds no experiment; give another --out")

    def _record(self) -> dict[str, Any]:
        return {**self._plan.record(), "tables": sorted(self._tables)}

    def _differences(self, out: Path) -> Iterator[str]:
        """Keys in which the folder's experiment differs from this one: ``key: held -> wanted``."""
        try:
            design = tomllib.loads((out / "design.toml").read_text(encoding="utf-8"))
            scenario = tomllib.loads((out / "scenario.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ScenarioError(f"{out}: its design or scenario cannot be read: {error}") from None
        for shown in _ONLY_SHOWN:
            design.pop(shown, None)
        wanted_scenario = tomllib.loads(self._plan.base.canonical())
        held = _flat({"design": design, "scenario": _substance(scenario)})
        wanted = _flat({"design": self._record(), "scenario": _substance(wanted_scenario)})
        for key in sorted(held.keys() | wanted.keys()):
            if held.get(key) != wanted.get(key):
                name = key.removeprefix("design.").removeprefix("scenario.")
                yield f"{name}: {_brief(held.get(key))} -> {_brief(wanted.get(key))}"


def _substance(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """A stored scenario without what changes no run: labels, and names of files whose content is hashed."""
    cells = {key: value for key, value in scenario.get("data", {}).items() if "." in key}
    labels = ("name", "description", "source", "data")
    return {key: value for key, value in scenario.items() if key not in labels} | {"data": cells}


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves by dotted path; items of a list by their name, else their position."""
    if isinstance(tree, Mapping):
        pairs = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, list) and any(isinstance(item, Mapping) for item in tree):
        pairs = [(str(item.get("name", at)), item) for at, item in enumerate(tree)]
    else:
        return {prefix: tree}
    return {key: leaf for name, value in pairs for key, leaf in _flat(value, f"{prefix}.{name}".lstrip(".")).items()}


def _brief(value: Any) -> str:
    """A value short enough for a line."""
    if value is None:
        return "absent"
    if isinstance(value, list) and len(value) > 3:
        return f"{value[0]} ... {value[-1]} ({len(value)})"
    text = str(value)
    return text if len(text) <= 40 else text[:12] + "..."
