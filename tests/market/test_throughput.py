"""Throughput: worked by hand, against measured ratios, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from market.tables import Tables, load_tables
from market.throughput import (
    SoftwareParameters,
    maturity_start,
    relative_throughput,
    throughput,
    vendor_index,
)
from market.units import SEGMENTS, VENDORS

TABLES = load_tables()
H100 = TABLES.sku_index["H100"]


def opening_work(tables: Tables = TABLES) -> NDArray[np.float64]:
    relative = relative_throughput(tables.skus, tables.segments)
    return throughput(relative, vendor_index(tables.skus), maturity_start(tables.segments, SoftwareParameters()))


def ratio(segment: str, sku: str, base: str, work: NDArray[np.float64]) -> float:
    row = work[SEGMENTS.index(segment)]
    return float(row[TABLES.sku_index[sku]] / row[TABLES.sku_index[base]])


def test_an_h100_does_one_unit_of_work_in_every_segment() -> None:
    assert relative_throughput(TABLES.skus, TABLES.segments)[:, H100] == pytest.approx(1, abs=0)


def test_h200_in_small_inference_by_hand() -> None:
    by_hand = (141 / 80) ** 0.10 / (0.25 + 0.70 * 3.35 / 4.8 + 0.05)
    assert ratio("small_inference", "H200", "H100", opening_work()) == pytest.approx(by_hand)


def test_gb200_in_large_inference_by_hand() -> None:
    link_time_h100 = (8 / 64) / 450 + (56 / 64) / 50
    time = 0.20 * 1979 / 5000 + 0.35 * 3.35 / 8 + 0.45 * (1 / 900) / link_time_h100
    assert ratio("large_inference", "GB200", "H100", opening_work()) == pytest.approx((186 / 80) ** 0.10 / time)


@pytest.mark.parametrize(
    ("segment", "share"),
    list(zip(SEGMENTS, (0.74, 0.835, 0.62, 0.73, 0.54), strict=True)),
)
def test_mi300x_against_h200_at_the_opening_software(segment: str, share: float) -> None:
    assert ratio(segment, "MI300X", "H200", opening_work()) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    ("segment", "usd"), [("small_inference", 2.09), ("developer", 1.85), ("large_inference", 1.55)]
)
def test_mi300x_ties_an_h200_at_two_fifty(segment: str, usd: float) -> None:
    assert 2.50 * ratio(segment, "MI300X", "H200", opening_work()) == pytest.approx(usd, abs=0.015)


def test_a_rack_of_72_helps_most_where_work_spans_many_gpus() -> None:
    relative = relative_throughput(TABLES.skus, TABLES.segments)
    assert ratio("large_inference", "GB200", "H100", relative) == pytest.approx(4.3, abs=0.05)
    assert ratio("small_inference", "GB200", "H100", relative) == pytest.approx(2.6, abs=0.05)


def test_mi400_in_large_inference_by_hand() -> None:
    link_time_h100 = (8 / 64) / 450 + (56 / 64) / 50
    time = 0.20 * 1979 / 20000 + 0.35 * 3.35 / 19.6 + 0.45 * (1 / 1800) / link_time_h100
    by_hand = 0.55 * (432 / 80) ** 0.10 / time
    assert ratio("large_inference", "MI400", "H100", opening_work()) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("old", "new"), [("GB300", "VR200"), ("VR200", "VR300"), ("MI355X", "MI400"), ("MI400", "MI500")]
)
def test_a_roadmap_chip_does_more_work_everywhere_than_the_one_before(old: str, new: str) -> None:
    relative = relative_throughput(TABLES.skus, TABLES.segments)
    assert (relative[:, TABLES.sku_index[new]] > relative[:, TABLES.sku_index[old]]).all()


def test_inside_a_domain_of_eight_the_network_card_does_not_matter() -> None:
    faster = TABLES.with_cell("data.hardware.B200.nic_gb_per_s", 800)
    before, after = opening_work(), opening_work(faster)
    small, large = SEGMENTS.index("small_inference"), SEGMENTS.index("large_inference")
    assert (after[small] == before[small]).all()
    assert after[large, TABLES.sku_index["B200"]] > before[large, TABLES.sku_index["B200"]]


def test_mi355x_starts_at_three_quarters_of_a_b200_in_small_inference() -> None:
    assert ratio("small_inference", "MI355X", "B200", opening_work()) == pytest.approx(0.73, abs=0.01)


def test_cuda_is_one_and_rocm_starts_at_its_parameters() -> None:
    maturity = maturity_start(TABLES.segments, SoftwareParameters(developer_start=0.5))
    assert maturity.shape == (len(VENDORS), len(SEGMENTS))
    assert (maturity[VENDORS.index("nvidia")] == 1).all()
    assert maturity[VENDORS.index("amd"), 0] == 0.5


def test_maturity_of_one_vendor_leaves_the_other_alone() -> None:
    relative, vendors = relative_throughput(TABLES.skus, TABLES.segments), vendor_index(TABLES.skus)
    half = throughput(relative, vendors, np.array([np.ones(5), np.full(5, 0.5)]))
    amd = vendors == VENDORS.index("amd")
    assert (half[:, ~amd] == relative[:, ~amd]).all()
    assert half[:, amd] == pytest.approx(relative[:, amd] / 2)


def test_without_an_h100_there_is_no_unit_of_work() -> None:
    with pytest.raises(ValueError, match="the unit of work is the H100"):
        relative_throughput(TABLES.skus[4:], TABLES.segments)


@given(
    quantity=st.sampled_from(["fp8_tflops", "bandwidth_tb_per_s", "scaleup_gb_per_s", "nic_gb_per_s", "hbm_gb"]),
    factor=st.floats(1.01, 20),
)
def test_better_hardware_never_does_less_work(quantity: str, factor: float) -> None:
    position = TABLES.sku_index["MI300X"]
    sku = TABLES.skus[position]
    better = sku.model_copy(update={quantity: getattr(sku, quantity) * factor})
    after = relative_throughput([*TABLES.skus[:position], better, *TABLES.skus[position + 1 :]], TABLES.segments)
    before = relative_throughput(TABLES.skus, TABLES.segments)
    assert (after[:, position] >= before[:, position] * (1 - 1e-12)).all()
