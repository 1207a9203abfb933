"""Events of a scenario: from entries ``events.NAME.FIELD`` to checked events; which levers a policy may move.

Whatever is wrong is said in one line with the nearest valid name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from experiments.engine.errors import ScenarioError, nearest
from experiments.entries import Cell, Entry, bounds
from market.events import Event, ListPriceChange, PolicyChange, TenantsLeave
from market.parameters import cell_from_text
from market.tables import Tables

__all__ = ["EVENT_KINDS", "LIVE_KEYS", "check_names", "event_cells", "event_from_text", "read_events", "typed_policy"]

EVENT_KINDS: dict[str, Any] = {
    get_args(event.model_fields["kind"].annotation)[0]: event for event in get_args(get_args(Event)[0])
}
"""Event types by the word that a scenario file has for them."""

_LIVE: Mapping[str, tuple[str, ...]] = {
    "tenants": ("switching_cost", "taste_scale"),
    "demand": (
        "growth_first_per_year",
        "growth_peak_per_year",
        "growth_final_per_year",
        "growth_rise_week",
        "growth_peak_week",
        "growth_fall_week",
        "growth_final_week",
        "regime",
        "common_persistence",
        "common_sd",
        "price_smoothing",
    ),
    "choice": (
        "size_pull",
        "home_advantage",
        "port_cost",
        "developer_cloud_port_factor",
        "search_sellers",
        "search_extra_maximum",
        "all_sellers_known",
        "outside_option",
        "pool_switching_factor",
        "pool_user_switching_factor",
        "pool_user_forgets",
        "readiness_hazard",
        "readiness_gap_weight",
    ),
    "software": (
        "maturity_speed",
        "maturity_use_weight",
        "maturity_use_reference",
        "programme_spending",
        "programme_usd_per_week",
        "frontier_decay",
        "maturity_moves",
        "use_raises_maturity",
    ),
    "costs": ("colocation_usd_per_kw_month", "electricity_usd_per_kwh", "overhead_share_of_revenue"),
    "finance": (
        "tax_rate",
        "rate_uncontracted",
        "rate_contracted_discount",
        "loan_to_value_base",
        "loan_to_value_contracted",
        "contracted_maximum",
        "tenor_payments",
        "depreciation_years",
        "default_enabled",
        "covenant_dscr",
        "rescue_equity_share",
        "rescue_dscr",
        "rescue_limit_share",
        "rescue_service_weeks",
        "recovery_share",
        "storage_weeks",
    ),
    "capacity": (
        "orders",
        "lead_weeks",
        "hurdle_rate",
        "nvidia_limit_gpus_per_quarter",
        "amd_limit_gpus_per_quarter",
        "supply_limits",
        "entry",
        "retirement",
    ),
    "leaseback": ("share", "term_weeks", "enters_orders", "enters_loans"),
    "buyback": ("share", "revenue_share", "term_weeks"),
    "backstop": ("guarantee_share", "cap_usd"),
    "developer_cloud": (
        "price_usd_per_gpu_hour",
        "cap_gpus",
        "price_rule",
        "quota_minimum_gpus",
        "quota_share_of_cap",
        "readiness_hazard",
    ),
    "lepton": (
        "mode",
        "take_rate",
        "allocation_pressure",
        "pool_rivalry",
        "offered_share",
        "identity_erosion",
        "quality_floor_ln",
        "resentment",
    ),
}
# Left out: what is settled at the opening (fleets, debt, traits, the firm lease and its rent), calendars of programmes
# (start weeks, review intervals: they are dates already), what would shift a level that has a history, and parameters
# of rules that nobody decides.

LIVE_KEYS = tuple(f"{section}.{name}" for section, names in _LIVE.items() for name in names)
"""Keys that are read anew each week, so that a policy can start."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")


@cache
def _fields() -> dict[str, FieldInfo]:
    """Fields of all kinds by name; kinds that share a name share its type, but for what is required."""
    return {name: field for kind in EVENT_KINDS.values() for name, field in kind.model_fields.items()}


def event_cells(events: Mapping[str, Event]) -> dict[str, Cell]:
    """Events as values by dotted key, blanks included, so that equal events have equal keys."""
    return {f"events.{name}.{field}": value for name, event in events.items() for field, value in event}


def event_from_text(key: str, text: str) -> Any:
    """The value that a text stands for in a field of an event; what does not read is refused later, as it stands."""
    field = _fields().get(key.rpartition(".")[2])
    if field is None or field is PolicyChange.model_fields["value"]:
        return cell_from_text(text)
    kind: Any = str if key.endswith(".kind") else field.annotation
    try:
        return TypeAdapter(kind).validate_strings(text)
    except ValidationError:
        return text


def read_events(entries: Mapping[str, Entry]) -> dict[str, Event]:
    """Events by name from the entries below ``events``, each checked by itself.

    Raises:
        ScenarioError: no name, no or an unknown kind, an unknown, missing or impossible field; one line.
    """
    raw: dict[str, dict[str, Entry]] = {}
    for key, entry in entries.items():
        name, _, field = key.removeprefix("events.").partition(".")
        if not field or "." in field or not _NAME.fullmatch(name):
            raise ScenarioError(
                f"{entry[1]}: {key}: an event stands in a table [events.NAME], NAME of letters, digits, - and _"
            )
        raw.setdefault(name, {})[field] = entry
    return {name: _read(name, fields) for name, fields in sorted(raw.items())}


def _read(name: str, fields: Mapping[str, Entry]) -> Event:
    """One event."""
    where = min((entry[1] for entry in fields.values()), key=lambda origin: origin.startswith("scenario "))
    if "kind" not in fields:
        raise ScenarioError(f"{where}: events.{name}.kind is missing; allowed: {', '.join(EVENT_KINDS)}")
    word, origin, _ = fields["kind"]
    if word not in EVENT_KINDS:
        allowed = ", ".join(EVENT_KINDS)
        raise ScenarioError(
            f"{origin}: events.{name}.kind = {word!r}; allowed: {allowed}{nearest(str(word), EVENT_KINDS)}"
        )
    kind = EVENT_KINDS[word]
    for field, (_, place, _folder) in fields.items():
        if field not in kind.model_fields:
            raise ScenarioError(
                f"{place}: unknown key events.{name}.{field} of kind {word}{nearest(field, kind.model_fields)}"
            )
    try:
        event: Event = kind.model_validate({field: value for field, (value, _, _) in fields.items()})
    except ValidationError as error:
        raise _explained(error, name, kind, fields, where) from None
    return event


def _explained(error: ValidationError, name: str, kind: Any, fields: Mapping[str, Entry], where: str) -> ScenarioError:
    """The first problem of a refused event in one line."""
    problem = error.errors(include_url=False)[0]
    if not problem["loc"]:  # a rule over several fields speaks for itself
        return ScenarioError(f"{where}: events.{name}: {problem['msg'].removeprefix('Value error, ')}")
    field = str(problem["loc"][0])
    allowed = bounds(kind.model_fields[field])
    if problem["type"] == "missing":
        return ScenarioError(f"{where}: events.{name}.{field} is missing; allowed: {allowed}")
    value, place, _ = fields[field]
    hint = nearest(str(value), allowed.split(", ")) if problem["type"] == "literal_error" else ""
    return ScenarioError(f"{place}: events.{name}.{field} = {value!r}; allowed: {allowed}{hint}")


def typed_policy(name: str, policy: PolicyChange, fields: Mapping[str, FieldInfo]) -> PolicyChange:
    """A policy whose value has the type of the field that it changes.

    Args:
        name: of the event, for messages.
        policy: the event.
        fields: of all keys of a scenario.

    Raises:
        ValueError: the key is none that is read anew each week, or the value is not allowed; one line.
    """
    if policy.key not in LIVE_KEYS:
        settled = "is settled at the opening" if policy.key in fields else "is no key of a scenario"
        raise ValueError(
            f"events.{name}.key = {policy.key!r} {settled}; a policy changes a key that is read anew each week"
            f"{nearest(policy.key, LIVE_KEYS)}"
        )
    field = fields[policy.key]
    kind: Any = Annotated[field.annotation, field]
    try:
        value: Any = TypeAdapter(kind).validate_python(policy.value, strict=True)
    except ValidationError:
        raise ValueError(f"events.{name}.value = {policy.value!r}; allowed for {policy.key}: {bounds(field)}") from None
    return policy.model_copy(update={"value": value})


def check_names(events: Mapping[str, Event], tables: Tables) -> Iterator[str]:
    """What is wrong with the sellers and SKUs that events name, one line each."""
    sellers = [*(row.name for row in tables.sellers), *(row.name for row in tables.entrants)]
    for name, event in events.items():
        if isinstance(event, ListPriceChange | TenantsLeave) and event.seller:
            yield from _unknown(f"events.{name}.seller", event.seller, "seller in this market", sellers)
        if sku := getattr(event, "sku", ""):
            yield from _unknown(f"events.{name}.sku", sku, "SKU in hardware", tables.sku_index)


def _unknown(key: str, value: str, kind: str, known: Iterable[str]) -> Iterator[str]:
    names = list(known)
    if value not in names:
        yield f"{key} = {value!r}: no such {kind}{nearest(value, names)}"
