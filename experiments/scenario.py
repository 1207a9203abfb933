"""A scenario: one value for every parameter, and where each came from if it is wrong.

A scenario file (TOML) names the scenario it extends and only what differs::

    name = "small-offer"
    extends = "baseline-2025"

    [developer_cloud]
    cap_gpus = 300

    [data]
    fleets = "my_fleets.csv"            # a table of one's own, relative to this file

    [data.hardware.MI355X]
    capex_usd = 42000                   # one cell

    [events.recession]                  # what happens in a week
    kind = "demand"
    week = 26
    size = -0.3

The file beats the scenario it extends, ``--set section.key=value`` beats the file. Whatever is wrong is said in one
line: where, key, value, what is allowed, the nearest valid name.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from agents.rules.capacity import CAPACITY
from agents.rules.participation import PARTICIPATION, LeptonParameters
from agents.rules.pricing import PRICING, PricingParameters
from agents.vendor.developer_cloud import DeveloperCloudParameters
from agents.vendor.leaseback import BackstopParameters, BuybackParameters, LeasebackParameters
from experiments.engine.errors import ImpossibleError, ScenarioError, nearest
from experiments.entries import Cell, Entry, bounds, cell_from_text
from experiments.events import check_names, event_cells, event_from_text, read_events, typed_policy
from market.choice import ChoiceParameters
from market.clearing.posted import ClearingParameters
from market.costs import CostParameters
from market.demand import DemandParameters
from market.events import Event, PolicyChange, in_order
from market.finance import FinanceParameters
from market.hardware import RoadmapParameters
from market.outlook import CapacityParameters
from market.parameters import Parameters
from market.tables import PACKAGED, TABLE_NAMES, TableError, Tables, load_tables
from market.tenants import TenantParameters
from market.throughput import SoftwareParameters

__all__ = ["DEFAULT_SCENARIO", "Cell", "Scenario", "ScenarioError", "read_toml", "read_value", "scenario_names"]

DEFAULT_SCENARIO = "baseline-2025"

_LABELS = ("name", "extends", "description", "source")  # say what a scenario is, change nothing in a run
_ASSIGNMENT = re.compile(r"\+(?=[A-Za-z_][\w.]*[^+=]*=)")  # the plus of NAME+key=value, not that of 1e+3


class DataChoice(Parameters):
    """Tables replaced by files, and single cells changed.

    Attributes:
        files: absolute path by table name.
        cells: value by address ``TABLE.ROW.COLUMN``.
    """

    files: dict[str, str] = Field(default_factory=dict)
    cells: dict[str, Cell] = Field(default_factory=dict)

    def keys(self) -> dict[str, Any]:
        """Both, by the keys of a scenario: ``data.TABLE`` and ``data.TABLE.ROW.COLUMN``."""
        return {f"data.{key}": value for key, value in (self.files | self.cells).items()}


class Scenario(Parameters):
    """One value for every parameter: frozen, strict, composed of the parameter models of market and agents.

    Raises:
        ScenarioError: from `load`, `set`, `with_` and `tables`, in one line.
    """

    name: str = "unnamed"
    extends: str = ""
    description: str = ""
    source: str = ""
    weeks: int = Field(
        default=156,
        ge=1,
        le=5200,
        description="weeks simulated after the opening state of week 0",
        json_schema_extra={"unit": "weeks", "kind": "lever"},
    )
    data: DataChoice = DataChoice()
    tenants: TenantParameters = TenantParameters()
    demand: DemandParameters = DemandParameters()
    choice: ChoiceParameters = ChoiceParameters()
    clearing: ClearingParameters = ClearingParameters()
    software: SoftwareParameters = SoftwareParameters()
    costs: CostParameters = CostParameters()
    finance: FinanceParameters = FinanceParameters()
    pricing: PricingParameters = PricingParameters()
    leaseback: LeasebackParameters = LeasebackParameters()
    developer_cloud: DeveloperCloudParameters = DeveloperCloudParameters()
    lepton: LeptonParameters = LeptonParameters()
    capacity: CapacityParameters = CapacityParameters()
    roadmap: RoadmapParameters = RoadmapParameters()
    buyback: BuybackParameters = BuybackParameters()
    backstop: BackstopParameters = BackstopParameters()
    events: dict[str, Event] = Field(default_factory=dict, description="dated events by name")

    @field_validator("events")
    @classmethod
    def _policies_are_typed(cls, events: dict[str, Event]) -> dict[str, Event]:
        """The value of a policy is held to the field that it changes, and takes its type."""
        return {
            name: typed_policy(name, event, _fields()) if isinstance(event, PolicyChange) else event
            for name, event in sorted(events.items())
        }

    @model_validator(mode="after")
    def _rules_exist(self) -> Scenario:
        """Rules are named in the registries of the agents, where a user may add one."""
        chosen: dict[str, tuple[str, Mapping[str, Any]]] = {
            f"pricing.{name}": (getattr(self.pricing, name), PRICING)
            for name in ("neocloud_rule", "marketplace_rule", "hyperscaler_rule")
        }
        chosen["capacity.rule"] = (self.capacity.rule, CAPACITY)
        chosen["lepton.mode"] = (self.lepton.mode, PARTICIPATION)
        for key, (name, known) in chosen.items():
            if name not in known:
                raise ValueError(f"{key} = {name!r}; allowed: {', '.join(known)}{nearest(name, known)}")
        return self

    @model_validator(mode="after")
    def _cap_within_firm(self) -> Scenario:
        """The hours on offer stand on GPUs leased back in full."""
        desk = self.developer_cloud
        if desk.cap_gpus > desk.firm_gpus:
            raise PydanticCustomError(
                "beyond",
                "developer_cloud.cap_gpus = {cap}: more than are leased back; "
                "allowed: 0 to developer_cloud.firm_gpus = {firm} GPUs",
                {"cap": f"{desk.cap_gpus:g}", "firm": f"{desk.firm_gpus:g}"},
            )
        return self

    @model_validator(mode="after")
    def _policies_fit(self) -> Scenario:
        """After each policy the parameters are a scenario that could stand in a file."""
        now = {name: value for name, value in self if name != "events"}
        for name, event in in_order(self.events).items():
            if isinstance(event, PolicyChange):
                section, _, field = event.key.partition(".")
                try:
                    now[section] = now[section].changed(field, event.value)
                    Scenario.model_validate(now)
                except ValidationError as error:
                    message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
                    raise ValueError(f"events.{name}.value = {event.value!r} for {event.key}: {message}") from None
        return self

    @classmethod
    def load(cls, reference: str | Path = DEFAULT_SCENARIO) -> Scenario:
        """The scenario of a built-in name, a TOML file, or either with changes: ``NAME+key=value+key=value``."""
        base, *assignments = _ASSIGNMENT.split(str(reference))
        scenario = _build(_resolved(base))
        return scenario.with_text(assignments, where=str(reference)) if assignments else scenario

    def set(self, key: str, value: Any) -> Scenario:
        """A copy with one key changed: ``scenario.set("developer_cloud.cap_gpus", 300)``."""
        return self.with_({key: value})

    def with_(self, changes: Mapping[str, Any], where: str = "set") -> Scenario:
        """A copy with several keys changed together; ``where`` names their origin in messages."""
        return _build({**self._entries(), **{key: (value, where, Path.cwd()) for key, value in changes.items()}})

    def with_text(self, assignments: Iterable[str], where: str = "--set") -> Scenario:
        """A copy changed by texts ``section.key=value``; the type of the field says how a value is read."""
        return self.with_(dict(_parsed(text, where) for text in assignments), where)

    def changed(
        self, assignments: Iterable[str] = (), changes: Mapping[str, Any] | None = None, weeks: int | None = None
    ) -> Scenario:
        """A copy with all that a user may ask for on top of a scenario: texts, values by key, another length."""
        scenario = self.with_text(assignments).with_(changes or {})
        return scenario if weeks is None else scenario.with_({"weeks": weeks}, "--weeks")

    def _entries(self) -> dict[str, Entry]:
        return {key: (value, f"scenario {self.name}", Path.cwd()) for key, value in self.values().items()}

    def values(self) -> dict[str, Cell]:
        """Every value by its dotted key, labels and changed data included, in the order of the fields."""
        found: dict[str, Cell] = {}
        for name, value in self:
            if isinstance(value, DataChoice):
                found |= value.keys()
            elif name == "events":
                found |= event_cells(value)
            elif isinstance(value, BaseModel):
                found |= {f"{name}.{key}": cell for key, cell in value}
            else:
                found[name] = value
        return found

    def substance(self) -> dict[str, Cell]:
        """What decides a run, tables apart: the values without labels and file names (their content is hashed)."""
        skipped = {*_LABELS, *(f"data.{name}" for name in self.data.files)}
        return {key: value for key, value in sorted(self.values().items()) if key not in skipped}

    def digest(self) -> str:
        """SHA-256 of the substance."""
        return hashlib.sha256(json.dumps(self.substance(), sort_keys=True).encode()).hexdigest()

    def canonical(self, base: Scenario | None = None) -> str:
        """The scenario as TOML with sorted keys; `load` reads it back to the same scenario.

        Args:
            base: a built-in scenario to extend: then only what differs from it is told; else every value.
        """
        values = self.values()
        del values["extends"]
        if base is not None:
            labels = {label: values[label] for label in _LABELS if label in values}
            values = {"extends": base.name, **labels, **self.changes(base)}
        return tomli_w.dumps(_nested(dict(sorted(values.items()))))

    def changes(self, base: Scenario) -> dict[str, Cell]:
        """Keys of substance or files in which this scenario differs from a base, at its own values."""
        return {key: mine for key, (mine, _) in self.differences(base).items() if mine is not None}

    def differences(self, other: Scenario) -> dict[str, tuple[Cell | None, Cell | None]]:
        """Keys of substance or files in which the other differs: this value and its, None where a side has none."""
        mine, theirs = ({k: v for k, v in s.values().items() if k not in _LABELS} for s in (self, other))
        keys = [*mine, *(key for key in theirs if key not in mine)]
        return {key: (mine.get(key), theirs.get(key)) for key in keys if mine.get(key) != theirs.get(key)}

    def tables(self) -> Tables:
        """The tables of this scenario, checked: shipped ones, files in their place, cells changed."""
        try:
            tables = load_tables({name: Path(path) for name, path in self.data.files.items()})
            cells = {f"data.{address}": value for address, value in self.data.cells.items()}
            return tables.with_cells(cells) if cells else tables
        except TableError as error:
            raise ScenarioError(str(error)) from None

    def export_tables(self, folder: Path) -> dict[str, Path]:
        """Write the tables of this scenario, cells changed, as files to edit and bring back; their paths by table.

        Raises:
            ScenarioError: a file exists already or cannot be written; then none is written.
        """
        tables, paths = self.check(), {name: folder / f"{name}.csv" for name in TABLE_NAMES}
        for path in paths.values():
            if path.exists():
                raise ScenarioError(f"{path} exists and is left as it is; choose another folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, path in paths.items():
                path.write_text(tables.csv(name), encoding="utf-8", newline="")
        except OSError as error:
            raise ScenarioError(f"cannot write to {folder}: {error.strerror}") from None
        return paths

    def check(self) -> Tables:
        """The tables, once every name in the scenario that refers to a row of them is found there."""
        tables = self.tables()
        sku = self.developer_cloud.sku
        if sku not in tables.sku_index:
            known = nearest(sku, tables.sku_index)
            raise ScenarioError(f"scenario {self.name}: developer_cloud.sku = {sku!r}: no such SKU in hardware{known}")
        for wrong in check_names(self.events, tables):
            raise ScenarioError(f"scenario {self.name}: {wrong}")
        return tables


# ------------------------------------------------------------------------------------------------ keys and fields


@cache
def _fields() -> dict[str, FieldInfo]:
    """Field of each dotted key that a scenario knows, data and events apart."""
    found: dict[str, FieldInfo] = {}
    for name, field in Scenario.model_fields.items():
        section = field.annotation
        if name == "events":
            continue
        if isinstance(section, type) and issubclass(section, BaseModel):
            if section is not DataChoice:
                found |= {f"{name}.{key}": inner for key, inner in section.model_fields.items()}
        else:
            found[name] = field
    return found


def _sections() -> set[str]:
    return {key.partition(".")[0] for key in _fields() if "." in key}


def _unknown_key(key: str, where: str) -> ScenarioError:
    known = _fields()
    if key in _sections():
        return ScenarioError(f"{where}: {key} is a section; give a key of it{nearest(key + '.', known)}")
    section = key.partition(".")[0]
    inside = [name for name in known if name.startswith(f"{section}.")]
    return ScenarioError(f"{where}: unknown key {key}{nearest(key, inside or known)}")


def _parsed(assignment: str, where: str) -> tuple[str, Any]:
    """Key and value of ``section.key=value``; numbers and switches are read as the field wants them."""
    key, equals, text = (part.strip() for part in assignment.partition("="))
    if not equals or not key:
        raise ScenarioError(f"{where}: {assignment!r} is not of the form section.key=value")
    if key.startswith("data."):
        return key, text if key.count(".") == 1 else cell_from_text(text)
    if key.startswith("events."):
        return key, event_from_text(key, text)
    if key not in _fields():
        raise _unknown_key(key, where)
    try:
        return key, _adapter(key).validate_strings(text)
    except ValidationError:
        return key, text  # refused below, with its place and what is allowed


def read_value(key: str, text: str, where: str) -> Any:
    """The value that a text stands for, read as the field of its key wants it; `Scenario.with_` checks it.

    Raises:
        ScenarioError: no such key.
    """
    return _parsed(f"{key}={text}", where)[1]


@cache
def _adapter(key: str) -> TypeAdapter[Any]:
    """Reads a text as the type of a field."""
    kind: Any = _fields()[key].annotation
    return TypeAdapter(kind)


# ------------------------------------------------------------------------------------------------ reading and building


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


def _resolved(reference: str, folder: Path | None = None, chain: tuple[Path, ...] = ()) -> dict[str, Entry]:
    """Entries of a scenario file over those of what it extends."""
    path = _located(reference, folder or Path.cwd())
    if path in chain:
        circle = " -> ".join(step.stem for step in (*chain, path))
        raise ScenarioError(f"{chain[-1]}: extends = {reference!r} goes in a circle: {circle}")
    own = dict(_flattened(read_toml(path), str(path), path.parent))
    extends = own.get("extends", ("",))[0]
    if not isinstance(extends, str):
        raise ScenarioError(f"{path}: extends = {extends!r}; allowed: a name or a file")
    base = _resolved(extends, path.parent, (*chain, path)) if extends else {}
    named = {"name": (path.stem, str(path), path.parent)}
    return {**base, **named, **own}


def _flattened(raw: Mapping[str, Any], where: str, folder: Path) -> Iterator[tuple[str, Entry]]:
    """Dotted keys of a parsed file; below ``data`` and ``events`` as deep as it goes."""
    for name, value in raw.items():
        if name in ("data", "events") and isinstance(value, dict):
            yield from ((f"{name}.{key}", (cell, where, folder)) for key, cell in _leaves(value))
        elif isinstance(value, dict) and name in _sections():
            yield from ((f"{name}.{key}", (cell, where, folder)) for key, cell in value.items())
        else:
            yield name, (value, where, folder)


def _leaves(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", leaf) for key, leaf in _leaves(value))
        else:
            yield name, value


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
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


def _data(entries: Mapping[str, Entry]) -> DataChoice:
    """Files and cells among the entries; file names become absolute."""
    chosen, cells = {}, {}
    for key, (value, where, folder) in entries.items():
        name = key.removeprefix("data.")
        table = name.partition(".")[0]
        if table not in TABLE_NAMES:
            raise ScenarioError(f"{where}: {key}: unknown table {table!r}{nearest(table, TABLE_NAMES)}")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ScenarioError(f"{where}: {key} = {value!r}; allowed: a file for a table, a value for a cell")
        if name == table:
            if not isinstance(value, str):
                raise ScenarioError(f"{where}: {key} = {value!r}; allowed: a CSV file")
            chosen[table] = value if value.startswith(PACKAGED) else str((folder / value).resolve())
        else:
            cells[name] = value
    return DataChoice(files=chosen, cells=cells)


def _build(entries: Mapping[str, Entry]) -> Scenario:
    """The scenario of the entries; the first thing wrong is told with its origin."""
    plain = {key: entry for key, entry in entries.items() if not key.startswith(("data.", "events."))}
    for key, (_, where, _folder) in plain.items():
        if key not in _fields():
            raise _unknown_key(key, where)
    tree = _nested({key: value for key, (value, _, _) in plain.items()})
    data = _data({key: entry for key, entry in entries.items() if key.startswith("data.")})
    events = read_events({key: entry for key, entry in entries.items() if key.startswith("events.")})
    try:
        return Scenario.model_validate({**tree, "data": data, "events": events})
    except ValidationError as error:
        raise _explained(error, entries) from None


_BEYOND = {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "beyond"}
"""Problems of a value that is of the right kind and out of bounds."""


def _explained(error: ValidationError, entries: Mapping[str, Entry]) -> ScenarioError:
    """The first problem of a refused scenario in one line."""
    problem = error.errors(include_url=False)[0]
    refusal = ImpossibleError if problem["type"] in _BEYOND else ScenarioError
    key = ".".join(map(str, problem["loc"]))
    if key not in entries or key not in _fields():  # a rule over several keys speaks for itself
        message = problem["msg"].removeprefix("Value error, ")
        origins = [where for name, (_, where, _) in entries.items() if "." in name and name in message]
        return refusal(f"{min(origins, key=lambda where: where.startswith('scenario '), default=key)}: {message}")
    value, where, _ = entries[key]
    return refusal(f"{where}: {key} = {value!r}; allowed: {bounds(_fields()[key])}")
