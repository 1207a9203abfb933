"""Flip prices: known answers, units, and what holds tenants back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.study.parity import FlipPrice, Switching, flip_prices, later_maturity
from market.tables import Tables, load_tables
from market.throughput import SoftwareParameters

TABLES = load_tables()
SOFTWARE = SoftwareParameters()
HELD = Switching(port_cost_ln=0.35, switching_cost_ln=0.10)
FREE = Switching(0.0, 0.0)


def flips(
    price: float = 2.5,
    switching: Switching = HELD,
    *,
    tables: Tables = TABLES,
    software: SoftwareParameters = SOFTWARE,
    **options: Any,
) -> dict[str, FlipPrice]:
    """Flip prices of MI300X against an H200 at a price, by segment."""
    skus = {"amd_sku": "MI300X", "nvidia_sku": "H200"}
    found = flip_prices(
        tables.skus, tables.segments, software, switching, nvidia_price_usd_per_gpu_hour=price, **skus, **options
    )
    return {flip.segment: flip for flip in found}


TIES = {
    "developer": 1.85,
    "small_inference": 2.09,
    "large_inference": 1.55,
    "fine_tuning": 1.83,
    "pre_training": 1.35,
}


@pytest.mark.parametrize(("segment", "usd"), TIES.items())
def test_mi300x_ties_an_h200_at_two_and_a_half_dollars(segment: str, usd: float) -> None:
    assert flips()[segment].flip_price_usd_per_gpu_hour == pytest.approx(usd, abs=0.01)


def test_switching_by_hand() -> None:
    # small inference: lock-in 0.18, port 0.35, switch 0.10
    flip = flips()["small_inference"]
    share = flip.flip_price_with_switching_usd_per_gpu_hour / flip.flip_price_usd_per_gpu_hour
    assert share == pytest.approx(math.exp(-0.63))


def test_later_by_hand() -> None:
    # after two weeks at 1 % a gap of 0.28 under the ceiling of 0.98 is 0.28 × 0.99²; the lock-in is what (1 - m) is
    flip = flips(weeks_later=2)["small_inference"]
    maturity = 0.98 - 0.28 * 0.99**2
    assert flip.work_ratio_later / flip.work_ratio == pytest.approx(maturity / 0.70)
    held = 0.18 * (1 - maturity) / 0.30 + 0.35 + 0.10
    assert flip.flip_price_with_switching_later_usd_per_gpu_hour == pytest.approx(
        flip.flip_price_later_usd_per_gpu_hour * math.exp(-held)
    )


def test_use_speeds_software_up() -> None:
    alone, used = (later_maturity(TABLES.segments, SOFTWARE, 52, share) for share in (0.0, 0.08))
    assert (used > alone).all()


def test_software_that_does_not_move_changes_nothing_later() -> None:
    for switch in ("maturity_moves", "maturity_enters_choice"):
        flip = flips(weeks_later=104, software=SOFTWARE.model_copy(update={switch: False}))["developer"]
        assert flip.work_ratio_later == flip.work_ratio
        assert flip.flip_price_with_switching_later_usd_per_gpu_hour == flip.flip_price_with_switching_usd_per_gpu_hour


def test_equal_hardware_flips_at_the_maturity_of_its_software() -> None:
    h200 = TABLES.skus[TABLES.sku_index["H200"]]
    columns = ("hbm_gb", "bandwidth_tb_per_s", "fp8_tflops", "domain_gpus", "scaleup_gb_per_s", "nic_gb_per_s")
    tables = TABLES.with_cells({f"data.hardware.MI300X.{name}": getattr(h200, name) for name in columns})
    assert flips(1.0, tables=tables)["fine_tuning"].flip_price_usd_per_gpu_hour == pytest.approx(0.60)


@given(st.floats(0.01, 100.0), st.floats(0.1, 10.0))
def test_flip_prices_are_homogeneous_of_degree_one(price: float, factor: float) -> None:
    for one, scaled in zip(flips(price).values(), flips(price * factor).values(), strict=True):
        for name in ("flip_price", "flip_price_with_switching", "flip_price_later", "flip_price_with_switching_later"):
            key = f"{name}_usd_per_gpu_hour"
            assert getattr(scaled, key) == pytest.approx(factor * getattr(one, key))


@given(st.integers(0, 400), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_switching_lowers_and_time_raises_the_flip_price(weeks: int, port: float, switch: float) -> None:
    for flip in flips(switching=Switching(port, switch), weeks_later=weeks).values():
        assert flip.flip_price_with_switching_usd_per_gpu_hour <= flip.flip_price_usd_per_gpu_hour
        assert flip.flip_price_later_usd_per_gpu_hour >= flip.flip_price_usd_per_gpu_hour * (1 - 1e-12)
        now = flip.flip_price_with_switching_usd_per_gpu_hour
        assert flip.flip_price_with_switching_later_usd_per_gpu_hour >= now * (1 - 1e-12)


def test_nothing_holds_a_tenant_without_lock_in_port_or_switch() -> None:
    tables = TABLES.with_cells({f"data.segments.{row.name}.lock_in": 0.0 for row in TABLES.segments})
    for flip in flips(switching=FREE, tables=tables).values():
        assert flip.flip_price_with_switching_usd_per_gpu_hour == flip.flip_price_usd_per_gpu_hour
    assert np.isfinite([flip.flip_price_usd_per_gpu_hour for flip in flips().values()]).all()
