"""Rows of the tables: what each column means, its unit and what it may hold."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from market.units import ProviderClass, Segment, Vendor

__all__ = [
    "DeliveryRow",
    "EntrantRow",
    "Figures",
    "FleetRow",
    "HardwareRow",
    "OpeningRow",
    "SegmentRow",
    "SellerRow",
    "Sku",
    "SourcedRow",
    "column_declaration",
    "column_units",
]


def _measured(unit: str, *, ge: float | None = None, gt: float | None = None, le: float | None = None) -> Any:
    """Field of a number with its unit and bounds."""
    return Field(json_schema_extra={"unit": unit}, ge=ge, gt=gt, le=le)


def _flag(text: object) -> object:
    """``unknown`` counts as ``no``: a seller is a partner only where somebody says so."""
    return False if text == "unknown" else text


def _monday(text: object) -> object:
    """Weeks run from Monday to Sunday, so an opening begins on one."""
    try:
        day = date.fromisoformat(str(text))
    except ValueError:
        raise ValueError("a Monday, YYYY-MM-DD") from None
    if day.weekday() != 0:
        raise ValueError(f"a Monday, such as {day - timedelta(days=day.weekday())}")
    return day


Flag = Annotated[bool, BeforeValidator(_flag)]
Month = Annotated[
    str,
    Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="a month, YYYY-MM", json_schema_extra={"unit": "YYYY-MM"}),
]
AsOf = Annotated[
    str,
    Field(
        pattern=r"^\d{4}(-(Q[1-4]|H[12]|(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?))?$",
        description="a date: YYYY, YYYY-Q1, YYYY-MM or YYYY-MM-DD",
    ),
]
Monday = Annotated[date, BeforeValidator(_monday)]
Confidence = Literal["high", "medium", "low", "assumption"]
Share = Annotated[float, _measured("share", ge=0, le=1)]
Rate = Annotated[float, _measured("1/year", ge=0, le=1)]
Gpus = Annotated[float, _measured("GPUs", ge=0)]
UsdMillion = Annotated[float, _measured("million USD", ge=0)]
Rent = Annotated[float, _measured("USD/GPU-h", gt=0)]
Tflops = Annotated[float, _measured("TFLOPS", gt=0)]
PremiumLn = Annotated[float, _measured("ln", ge=-2, le=2)]
MonthlyHazard = Annotated[float, _measured("1/month", ge=0)]
Week = Annotated[int, _measured("week")]


class _Row(BaseModel):
    """Base of all rows: immutable, unknown columns refused, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SourcedRow(_Row):
    """A row with its provenance."""

    as_of: AsOf
    source: str
    confidence: Confidence
    note: str = ""


class Sku(_Row):
    """One accelerator model as sold; weeks count from the opening (in the file from June 2025).

    Chips of one ``roadmap_group`` are launched one after another: what delays the first delays the rest.
    """

    name: str
    vendor: Annotated[Vendor, _measured("name")]
    announced_week: Week
    launch_week: Week
    last_order_week: Week | None = None
    roadmap_group: Annotated[str, _measured("name")] | None = None
    capex_usd: Annotated[float, _measured("USD/GPU", gt=0)]
    power_kw: Annotated[float, _measured("kW/GPU", gt=0)]
    hbm_gb: Annotated[float, _measured("GB/GPU", gt=0)]
    bandwidth_tb_per_s: Annotated[float, _measured("TB/s", gt=0)]
    fp8_tflops: Tflops
    domain_gpus: Annotated[int, _measured("GPUs", ge=1)]
    scaleup_gb_per_s: Annotated[float, _measured("GB/s", gt=0)]
    nic_gb_per_s: Annotated[float, _measured("GB/s", gt=0)]
    base_list_usd_per_gpu_hour: Rent


class Figures(Sku):
    """Every quantity that ``hardware.csv`` may hold, those for comparison included."""

    owner_cost_usd_per_gpu_hour: Rent | None = None
    hyperscaler_cost_usd_per_gpu_hour: Rent | None = None
    running_cost_usd_per_gpu_hour: Rent | None = None
    bf16_tflops: Tflops | None = None
    fp6_tflops: Tflops | None = None
    fp4_tflops: Tflops | None = None
    tdp_w: Annotated[float, _measured("W/GPU", gt=0)] | None = None
    announced_month: Month | None = None
    volume_month: Month | None = None
    volume_month_late: Month | None = None


class HardwareRow(SourcedRow):
    """One quantity of one SKU; rows with ``used = no`` are second figures kept for comparison."""

    sku: str
    quantity: str
    value: str = ""
    unit: str
    used: Flag


class OpeningRow(SourcedRow):
    """When week 0 begins; weeks of deliveries count from there."""

    name: str
    start_date: Monday


class SellerRow(SourcedRow):
    """A seller; the premium is against the median list price of its own class."""

    name: str
    provider_class: ProviderClass
    vendors: Literal["nvidia", "amd", "both"]
    price_premium_ln: PremiumLn | None = None
    revision_hazard_per_month: MonthlyHazard | None = None
    pricing_rule: str | None = None
    contestable_share: Share
    contracted_share: Share | None = None
    lepton_member: Literal["yes", "no", "unknown"]
    leaseback_partner: Flag
    debt_usd_m: UsdMillion | None = None
    gpu_debt: Flag
    loan_rate: Rate | None = None
    loan_to_value: Share | None = None
    cash_usd_m: UsdMillion | None = None


class EntrantRow(SourcedRow):
    """A seller that does not exist yet: what it would be if it entered, with no GPUs and this much cash."""

    name: str
    provider_class: ProviderClass
    vendors: Literal["nvidia", "amd", "both"]
    price_premium_ln: PremiumLn
    revision_hazard_per_month: MonthlyHazard
    cash_usd_m: UsdMillion


class FleetRow(SourcedRow):
    """GPUs of one SKU that a seller rents out, before the contestable share; splits are of the GPUs in use."""

    seller: str
    sku: str
    gpus: Gpus
    gpus_low: Gpus | None = None
    gpus_high: Gpus | None = None
    gpus_owned: Gpus | None = None
    vintage: Month
    term_split_on_demand: Share
    term_split_4w: Share
    term_split_52w: Share
    term_split_156w: Share
    utilisation: Share
    posted_on_demand_usd_per_gpu_hour: Rent | None = None
    price_date: Month | None = None
    price_basis: str | None = None


class DeliveryRow(SourcedRow):
    """GPUs already ordered at the opening, before the contestable share."""

    seller: str
    sku: str
    week: Annotated[int, _measured("week", ge=1)]
    gpus: Gpus


class SegmentRow(SourcedRow):
    """A kind of work: how it uses hardware, who asks for it, on which terms and at what price at most."""

    name: Segment
    compute_share: Share
    memory_share: Share
    communication_share: Share
    group_gpus: Annotated[int, _measured("GPUs", ge=1)]
    hbm_exponent: Annotated[float, _measured("exponent", ge=0, le=2)]
    demand_share: Share
    tenant_count: Annotated[int, _measured("tenants", ge=1)]
    size_sd: Annotated[float, _measured("sd of ln H100e", ge=0, le=5)]
    term_share_spot: Share
    term_share_on_demand: Share
    term_share_4w: Share
    term_share_52w: Share
    term_share_156w: Share
    price_sensitivity: Annotated[float, _measured("utility per ln USD", ge=0)]
    reservation_usd_per_h100e_hour: Annotated[float, _measured("USD/H100e-h", gt=0)]
    lock_in: Annotated[float, _measured("ln USD", ge=0)]
    software_ceiling: Annotated[float, _measured("ratio to CUDA", gt=0, le=1.5)]
    review_hazard_per_week: Annotated[float, _measured("1/week", ge=0, le=1)]


@cache
def column_declaration(row: type[BaseModel], column: str) -> dict[str, Any]:
    """What a column may hold, as JSON schema with ``unit`` and ``description``; of an optional one, what if filled."""
    declared = row.model_json_schema()["properties"][column]
    filled: dict[str, Any] = declared.get("anyOf", [declared])[0]
    return filled


@cache
def column_units(row: type[BaseModel]) -> dict[str, str]:
    """Unit of each column that has one; ``YYYY-MM`` for months."""
    declared = {column: column_declaration(row, column) for column in row.model_fields}
    return {column: schema["unit"] for column, schema in declared.items() if "unit" in schema}
