"""Keys of a scenario, ``section.name``: the field behind each, texts read as it wants them, refusals in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from experiments.engine.errors import ImpossibleError, ScenarioError, nearest
from experiments.entries import Entry, bounds
from experiments.events import event_from_text
from market.parameters import cell_from_text

__all__ = ["Keys"]

_BEYOND = {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "beyond"}
"""Problems of a value that is of the right kind and out of bounds."""


class Keys:
    """Dotted keys of a model of sections.

    Attributes:
        fields: field of each key.
        sections: names of sections.

    Args:
        model: what is composed of sections.
        apart: fields of it that have keys of their own kind: data and events.
    """

    def __init__(self, model: type[BaseModel], apart: Collection[str]) -> None:
        self.fields: dict[str, FieldInfo] = {}
        for name, field in model.model_fields.items():
            section = field.annotation
            if name in apart:
                continue
            if isinstance(section, type) and issubclass(section, BaseModel):
                self.fields |= {f"{name}.{key}": inner for key, inner in section.model_fields.items()}
            else:
                self.fields[name] = field
        self.sections = {key.partition(".")[0] for key in self.fields if "." in key}
        self._readers: dict[str, TypeAdapter[Any]] = {}

    def unknown(self, key: str, where: str) -> ScenarioError:
        """The refusal of a key that is none."""
        if key in self.sections:
            return ScenarioError(f"{where}: {key} is a section; give a key of it{nearest(key + '.', self.fields)}")
        section = key.partition(".")[0]
        inside = [name for name in self.fields if name.startswith(f"{section}.")]
        return ScenarioError(f"{where}: unknown key {key}{nearest(key, inside or self.fields)}")

    def read(self, assignment: str, where: str) -> tuple[str, Any]:
        """Key and value of ``section.key=value``; numbers and switches are read as the field wants them.

        Raises:
            ScenarioError: no assignment, or no such key.
        """
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not key:
            raise ScenarioError(f"{where}: {assignment!r} is not of the form section.key=value")
        if key.startswith("data."):
            return key, text if key.count(".") == 1 else cell_from_text(text)
        if key.startswith("events."):
            return key, event_from_text(key, text)
        if key not in self.fields:
            raise self.unknown(key, where)
        try:
            return key, self._reader(key).validate_strings(text)
        except ValidationError:
            return key, text  # refused when a scenario is built of it, with its place and what is allowed

    def _reader(self, key: str) -> TypeAdapter[Any]:
        """Reads a text as the type of a field."""
        if key not in self._readers:
            kind: Any = self.fields[key].annotation
            self._readers[key] = TypeAdapter(kind)
        return self._readers[key]

    def explained(self, error: ValidationError, entries: Mapping[str, Entry]) -> ScenarioError:
        """The first problem of refused entries in one line."""
        problem = error.errors(include_url=False)[0]
        refusal = ImpossibleError if problem["type"] in _BEYOND else ScenarioError
        key = ".".join(map(str, problem["loc"]))
        if key not in entries or key not in self.fields:  # a rule over several keys speaks for itself
            message = problem["msg"].removeprefix("Value error, ")
            origins = [where for name, (_, where, _) in entries.items() if "." in name and name in message]
            return refusal(f"{min(origins, key=lambda where: where.startswith('scenario '), default=key)}: {message}")
        value, where, _ = entries[key]
        return refusal(f"{where}: {key} = {value!r}; allowed: {bounds(self.fields[key])}")
