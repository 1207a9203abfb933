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
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from agents.rules.capacity import CAPACITY
from agents.rules.participation import PARTICIPATION, LeptonParameters
from agents.rules.pricing import PRICING, PricingParameters
from agents.vendor.developer_cloud import DeveloperCloudParameters
from agents.vendor.leaseback import BackstopParameters, BuybackParameters, LeasebackParameters
from experiments.engine.errors import ScenarioError, nearest
from experiments.entries import Cell, Entry
from experiments.events import check_names, event_cells, read_events, typed_policy
from experiments.keys import Keys
from experiments.own_tables import DataChoice, read_data, write_tables
from experiments.scenario_files import nested, resolved
from market.choice import ChoiceParameters
from market.clearing.posted import ClearingParameters
from market.costs import CostParameters
from market.demand import DemandParameters
from market.events import Event, PolicyChange, in_order
from market.finance import FinanceParameters
from market.hardware import RoadmapParameters
from market.outlook import CapacityParameters
from market.parameters import Parameters
from market.tables import Tables
from market.tenants import TenantParameters
from market.throughput import SoftwareParameters

__all__ = ["DEFAULT_SCENARIO", "Cell", "Scenario", "ScenarioError", "read_value"]

DEFAULT_SCENARIO = "baseline-2025"

_LABELS = ("name", "extends", "description", "source")  # say what a scenario is, change nothing in a run
_ASSIGNMENT = re.compile(r"\+(?=[A-Za-z_][\w.]*[^+=]*=)")  # the plus of NAME+key=value, not that of 1e+3


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
            name: typed_policy(name, event, _keys().fields) if isinstance(event, PolicyChange) else event
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
        scenario = _build(resolved(base, _keys().sections))
        return scenario.with_text(assignments, where=str(reference)) if assignments else scenario

    def set(self, key: str, value: Any) -> Scenario:
        """A copy with one key changed: ``scenario.set("developer_cloud.cap_gpus", 300)``."""
        return self.with_({key: value})

    def with_(self, changes: Mapping[str, Any], where: str = "set") -> Scenario:
        """A copy with several keys changed together; ``where`` names their origin in messages."""
        return _build({**self._entries(), **{key: (value, where, Path.cwd()) for key, value in changes.items()}})

    def with_text(self, assignments: Iterable[str], where: str = "--set") -> Scenario:
        """A copy changed by texts ``section.key=value``; the type of the field says how a value is read."""
        return self.with_(dict(_keys().read(text, where) for text in assignments), where)

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
        return tomli_w.dumps(nested(dict(sorted(values.items()))))

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
        return self.data.tables()

    def export_tables(self, folder: Path) -> dict[str, Path]:
        """Write the tables of this scenario, cells changed, as files to edit and bring back; their paths by table.

        Raises:
            ScenarioError: a file exists already or cannot be written; then none is written.
        """
        return write_tables(self.check(), folder)

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


@cache
def _keys() -> Keys:
    """Keys of a scenario, data and events apart."""
    return Keys(Scenario, apart=("data", "events"))


def read_value(key: str, text: str, where: str) -> Any:
    """The value that a text stands for, read as the field of its key wants it; `Scenario.with_` checks it.

    Raises:
        ScenarioError: no such key.
    """
    return _keys().read(f"{key}={text}", where)[1]


def _build(entries: Mapping[str, Entry]) -> Scenario:
    """The scenario of the entries; the first thing wrong is told with its origin."""
    kinds: dict[str, dict[str, Entry]] = {"data": {}, "events": {}, "": {}}
    for key, entry in entries.items():
        kinds[next((kind for kind in ("data", "events") if key.startswith(f"{kind}.")), "")][key] = entry
    for key, (_, where, _folder) in kinds[""].items():
        if key not in _keys().fields:
            raise _keys().unknown(key, where)
    tree = nested({key: value for key, (value, _, _) in kinds[""].items()})
    data, events = read_data(kinds["data"]), read_events(kinds["events"])
    try:
        return Scenario.model_validate({**tree, "data": data, "events": events})
    except ValidationError as error:
        raise _keys().explained(error, entries) from None
