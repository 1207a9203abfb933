"""Entries of scenario files before they are checked, and words for what a field allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias, get_args

from pydantic.fields import FieldInfo

__all__ = ["Cell", "Entry", "bounds"]

Cell = float | int | bool | str
"""A value that TOML can hold in one cell."""

Entry: TypeAlias = tuple[Any, str, Path]
"""Value, origin for messages, folder that file names are relative to."""


def bounds(field: FieldInfo) -> str:
    """What a field allows, in words: ``0 to 1 share``, ``true or false``, ``fixed, partners-median``."""
    unit = field.json_schema_extra.get("unit", "") if isinstance(field.json_schema_extra, dict) else ""
    low = next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
    high = next((limit.le for limit in field.metadata if hasattr(limit, "le")), None)
    if bool in get_args(field.annotation):
        return "true or false, a number, or a text"
    if choices := _choices(field):
        return ", ".join(choices)
    if field.annotation is bool:
        return "true or false"
    if field.annotation is str:
        return f"a text ({unit})" if unit else "a text"
    kind = "a whole number" if field.annotation is int else "a number"
    span = f" from {low:.15g} to {high:.15g}" if low is not None and high is not None else ""
    at_least = f" of at least {low:.15g}" if low is not None and high is None else ""
    return f"{kind}{span}{at_least} {unit}".rstrip()


def _choices(field: FieldInfo) -> list[str]:
    """Words that a field allows, without the blank; none where it is no list of words."""
    return [str(choice) for choice in get_args(field.annotation) if choice != ""]
