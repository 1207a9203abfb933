"""Small markets in which all sellers follow one rule, and what the contract suites share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from experiments.scenario import Scenario
from tests.worlds import few_sellers

_SMALL = {"tenants.rows": 80, "tenants.rows_per_segment_minimum": 10}

# Demand above capacity: somebody wants to order in every round.
_TIGHT = {"tenants.opening_load": 1.4, "capacity.round_weeks": 2, "capacity.lead_weeks": 2}


def priced_by(rule: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Seven sellers who all price by one rule."""
    own = {f"pricing.{name}_rule": rule for name in ("neocloud", "marketplace", "hyperscaler")}
    return few_sellers({**_SMALL, **own, **(changes or {})})


def pricing_weeks(rule: str) -> int:
    """Weeks to play; sellers who work out their best reply take long over one."""
    return 1 if rule == "best-response" else 8


def ordered_by(rule: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Seven sellers short of GPUs who all order by one rule."""
    return few_sellers({**_SMALL, "capacity.rule": rule, **_TIGHT, **(changes or {})})


def joined_by(rule: str, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Seven sellers who are asked early and often to join a pool."""
    pool = {"lepton.mode": rule, "lepton.open_week": 2, "lepton.review_interval_weeks": 2}
    return few_sellers({**_SMALL, **pool, **(changes or {})})


def arrays(value: Any) -> dict[str, Any]:
    """Array fields of a dataclass by name."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: array for name, array in found.items() if isinstance(array, np.ndarray)}
