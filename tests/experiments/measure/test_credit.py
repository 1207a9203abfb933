"""Credit outcomes on tables made by hand."""

import numpy as np
import polars as pl
import pytest

from experiments.measure.outcomes import outcomes

PRICES = {("a", "H100"): np.full(53, 2.0), ("b", "MI300X"): np.full(53, 1.0)}
KINDS = {"AMD": "vendor", "lenders": "lender"}
YEAR = {"window_first": 1, "window_last": 52}


@pytest.fixture
def measured(made):
    tables = made.fabricate(
        PRICES,
        classes={**KINDS},
        heavy={"b": "amd"},
        lots={
            "vendor_use_gpus": {("b", "MI300X"): 30.0},
            "developer_cloud_gpus": {("b", "MI300X"): 10.0},
            "firm_gpus": {("b", "MI300X"): 40.0},
        },
        books={
            "profit_usd": {"a": 3.0, "b": -1.0, "lenders": 2.0, "AMD": 5.0},
            "debt_usd": {"a": 60.0, "b": 40.0},
            "fleet_value_usd": {"a": 100.0, "b": 50.0},
            "dscr": {"a": 1.5, "b": 1.0},
            "breach": {"b": np.arange(53) == 7},
            "leaseback_usd": {"b": 25.0},
            "cover_paid_usd": {"AMD": 4.0},
            "guarantee_paid_usd": {"AMD": 1.0},
            "hardware_sales_usd": {"AMD": 100.0},
            "hardware_cost_usd": {"AMD": 69.0},
            "credit_loss_usd": {"lenders": 2.0},
            "guarantee_income_usd": {"lenders": 1.0},
            "resale_result_usd": {"lenders": 0.5},
        },
    )
    row = {name: [0.0] for name in ("debt_usd", "recovered_usd", "guaranteed_usd", "loss_usd", "gpus")}
    labels = {"seller": ["b", "a"], "provider_class": ["neocloud"] * 2, "heavy": ["amd", "nvidia"]}
    failed = pl.DataFrame(
        {"week": [9, 60], **labels, "cause": ["missed payment", "covenant"], **{name: [0.0, 0.0] for name in row}},
        schema=tables["default_week"].schema,
    )
    return outcomes({**tables, "default_week": failed}, weeks=52)


@pytest.mark.parametrize(
    ("metric", "dimensions", "expected"),
    [
        ("profit", {"provider_class": "neocloud"}, 52 * 2.0),
        ("profit", {"provider_class": "lender"}, 52 * 2.0),
        ("profit", {"vendor": "amd", "provider_class": "vendor"}, 52 * 5.0),
        ("loan_to_value", {"provider_class": "neocloud"}, 100 / 150),
        ("loan_to_value", {"provider_class": "neocloud amd-heavy"}, 0.8),
        ("debt_service_cover", {"provider_class": "neocloud"}, (60 * 1.5 + 40) / 100),
        ("covenant_breaches", {"provider_class": "neocloud"}, 1.0),
        ("vendor_payout", {"vendor": "amd"}, 52 * 5.0),
        ("vendor_gross_profit", {"vendor": "amd"}, 52 * 31.0),
        ("vendor_funded_share", {"provider_class": "neocloud amd-heavy"}, 0.2),
        ("vendor_funded_share", {"provider_class": "neocloud nvidia-heavy"}, 0.0),
        ("vendor_funded_hours", {}, 52 * 30 * 168),
        ("leaseback_relet_share", {}, 0.25),
        ("lender_loss", {}, 52 * 0.5),
        ("lender_exposure", {}, 100.0),
        ("credit_loss_rate", {}, 0.26),
        ("defaults_cash", {"provider_class": "neocloud"}, 1.0),
        ("defaults_cash", {"provider_class": "neocloud nvidia-heavy"}, 0.0),
        ("defaults_covenant", {"provider_class": "neocloud"}, 0.0),
    ],
)
def test_credit_outcomes_are_those_worked_by_hand(made, measured, metric, dimensions, expected):
    assert made.value(measured, metric, **YEAR, **dimensions) == pytest.approx(expected)
