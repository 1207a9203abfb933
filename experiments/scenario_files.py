"""Files of scenarios: the built-in ones, TOML that extends other TOML, and its keys as a list or a tree."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from experiments.engine.errors import ScenarioError, nearest
from experiments.entries import Entry

__all__ = ["nested", "read_toml", "resolved", "scenario_names"]


def scenario_names() -> list[str]:
    """Names of the built-in scenarios."""
    folder = files("experiments").joinpath("scenarios")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_toml(path: Path) -> dict[str, Any]:
    """Content of a TOML file.

    Raises:
        ScenarioError: it cannot be read or is not TOML; the line says why.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not a TOML file: {error}") from None


def _located(reference: str, folder: Path) -> Path:
    """File of a reference: a path (relative to the folder) where it looks like one, else a built-in name."""
    if reference.endswith(".toml") or "/" in reference:
        return (folder / reference).resolve()
    if reference in scenario_names():
        return Path(str(files("experiments").joinpath("scenarios", f"{reference}.toml")))
    file = f"{reference}.toml"
    hint = f"; {file} is a file: give its whole name" if (folder / file).is_file() else ""
    raise ScenarioError(f"unknown scenario {reference!r}{hint or nearest(reference, scenario_names())}")


def resolved(
    reference: str, sections: Collection[str], folder: Path | None = None, chain: tuple[Path, ...] = ()
) -> dict[str, Entry]:
    """Entries of a scenario over those of what it extends.

    Args:
        reference: a built-in name or a TOML file.
        sections: names of tables in a file whose keys are told as ``section.key``.
        folder: that file names are relative to; default: the current one.
        chain: files that led here by ``extends``.

    Raises:
        ScenarioError: no such scenario, no TOML, or files that extend each other in a circle.
    """
    path = _located(reference, folder or Path.cwd())
    if path in chain:
        circle = " -> ".join(step.stem for step in (*chain, path))
        raise ScenarioError(f"{chain[-1]}: extends = {reference!r} goes in a circle: {circle}")
    own = dict(_flattened(read_toml(path), sections, str(path), path.parent))
    extends = own.get("extends", ("",))[0]
    if not isinstance(extends, str):
        raise ScenarioError(f"{path}: extends = {extends!r}; allowed: a name or a file")
    base = resolved(extends, sections, path.parent, (*chain, path)) if extends else {}
    named = {"name": (path.stem, str(path), path.parent)}
    return {**base, **named, **own}


def _flattened(
    raw: Mapping[str, Any], sections: Collection[str], where: str, folder: Path
) -> Iterator[tuple[str, Entry]]:
    """Dotted keys of a parsed file; below ``data`` and ``events`` as deep as it goes."""
    for name, value in raw.items():
        if name in ("data", "events") and isinstance(value, dict):
            yield from ((f"{name}.{key}", (cell, where, folder)) for key, cell in _leaves(value))
        elif isinstance(value, dict) and name in sections:
            yield from ((f"{name}.{key}", (cell, where, folder)) for key, cell in value.items())
        else:
            yield name, (value, where, folder)


def _leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", leaf) for key, leaf in _leaves(value))
        else:
            yield name, value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sections and events from dotted keys. A cell keeps its row's name in one piece: it may hold dots of its own."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        if section == "events":
            event, _, field = name.partition(".")
            tree.setdefault(section, {}).setdefault(event, {})[field] = value
        elif name:
            tree.setdefault(section, {})[name] = value
        else:
            tree[section] = value
    return tree
