"""Recorded tables made by hand: prices as given, everything else a plain number that a test may replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from experiments.engine.runner import TABLES, framed

AMD = ("MI300X", "MI325X", "MI355X")
GPUS = 1_000.0
_NO_SELLERS = ("vendor", "lender")


def fabricate(
    prices: Mapping[tuple[str, str], Any],
    *,
    classes: Mapping[str, str] | None = None,
    heavy: Mapping[str, str] | None = None,
    lots: Mapping[str, Mapping[tuple[str, str], Any]] | None = None,
    books: Mapping[str, Mapping[str, Any]] | None = None,
    segments: Mapping[str, Any] | None = None,
    market: Mapping[str, Any] | None = None,
    desk: Mapping[str, Any] | None = None,
) -> dict[str, pl.DataFrame]:
    """Tables of a run with the given posted prices, week 0 first.

    Args:
        prices: by (seller, SKU), one a week; NaN: the seller has no such GPU that week.
        classes: provider class by seller (default neocloud; ``vendor`` or ``lender`` for those of ``books``).
        heavy: ``amd`` or ``nvidia`` by seller (default nvidia).
        lots: columns of ``seller_week`` by (seller, SKU), one a week or one for all.
        books: columns of ``book_week`` by agent, the same.
        segments: columns of ``segment_week`` for its one segment ``developer``, the same.
        market: columns of ``market_week`` for H100, the same.
        desk: columns of ``desk_week``, the same; None: no desk.
    """
    weeks = len(next(iter(prices.values())))
    kinds, heavies = dict(classes or {}), dict(heavy or {})

    def repeated(value: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(value), (weeks,))

    def table(name: str, keys: list[dict[str, str]], numbers: list[dict[str, Any]]) -> dict[str, np.ndarray]:
        blocks = [
            {column: repeated({"week": np.arange(weeks), **key, **values}.get(column, 0.0)) for column in TABLES[name]}
            for key, values in zip(keys, numbers, strict=True)
        ]
        if not blocks:
            return {column: np.array([]) for column in TABLES[name]}
        return {column: np.concatenate([block[column] for block in blocks]) for column in TABLES[name]}

    def label(seller: str) -> dict[str, str]:
        return {"provider_class": kinds.get(seller, "neocloud"), "heavy": heavies.get(seller, "nvidia")}

    def lot(key: tuple[str, str]) -> dict[str, Any]:
        price = np.asarray(prices[key], float)
        moved = np.diff(price, prepend=price[0]) != 0.0
        usual = {
            "list_usd_per_gpu_hour": price,
            "installed_gpus": np.where(np.isfinite(price), GPUS, 0.0),
            "available_gpus": GPUS,
            "sold_gpus": 0.5 * GPUS,
            "open_gpus": 0.5 * GPUS,
            "idle_gpus": 0.5 * GPUS,
            "revenue_usd": 0.5 * GPUS * 168 * np.nan_to_num(price),
            "revised": moved & np.isfinite(np.diff(price, prepend=np.nan)),
            "running_usd_per_gpu_hour": 0.5,
            "full_cost_usd_per_gpu_hour": 1.5,
        }
        return usual | {column: values[key] for column, values in (lots or {}).items() if key in values}

    def book(agent: str) -> dict[str, Any]:
        usual = {"rent_usd": 100.0, "running_usd": 20.0, "overhead_usd": 17.0, "depreciation_usd": 30.0}
        usual = {} if kinds.get(agent) in _NO_SELLERS else usual | {"interest_usd": 15.0, "tax_usd": 3.0}
        given = {column: values[agent] for column, values in (books or {}).items() if agent in values}
        return usual | {"alive": True} | given

    sellers = list(dict.fromkeys(seller for seller, _ in prices))
    agents = sellers + [agent for agent, kind in kinds.items() if kind in _NO_SELLERS]
    vendor = {sku: "amd" if sku in AMD else "nvidia" for _, sku in prices}
    recorded = {
        "seller_week": table(
            "seller_week",
            [{"seller": seller, "sku": sku, "vendor": vendor[sku], **label(seller)} for seller, sku in prices],
            [lot(key) for key in prices],
        ),
        "book_week": table(
            "book_week", [{"agent": agent, **label(agent)} for agent in agents], [book(agent) for agent in agents]
        ),
        "segment_week": table("segment_week", [{"segment": "developer"}], [dict(segments or {})]),
        "market_week": table("market_week", [{"sku": "H100", "vendor": "nvidia"}], [dict(market or {})]),
        "desk_week": table(
            "desk_week",
            [] if desk is None else [{"desk": "developer_cloud", "sku": "MI300X"}],
            [] if desk is None else [dict(desk)],
        ),
        "flow_week": table("flow_week", [], []),
        "default_week": table("default_week", [], []),
        "loan_week": table("loan_week", [], []),
    }
    frames = framed(recorded)
    frames["seller_week"] = frames["seller_week"].filter(pl.col("installed_gpus") > 0.0)
    return frames


def panel(logs: np.ndarray, sku: str = "H100") -> dict[tuple[str, str], np.ndarray]:
    """Prices by seller from ln prices ``(weeks, sellers)``."""
    return {(f"seller {i:03d}", sku): np.exp(column) for i, column in enumerate(logs.T)}


def value(table: pl.DataFrame, metric: str, **dimensions: Any) -> Any:
    """The one value of a metric; dimensions not named are ``all``, the window whichever is first."""
    wanted = {"metric": metric, "vendor": None, "sku": "all", "segment": "all", "provider_class": None, **dimensions}
    found = table.filter(*(pl.col(name) == text for name, text in wanted.items() if text is not None))
    return found["value"][0]
