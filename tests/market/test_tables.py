"""The tables: provenance of every number, every kind of complaint, replacement, addresses."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market.parameters import parameter_rows
from market.rows import (
    DeliveryRow,
    EntrantRow,
    Figures,
    FleetRow,
    HardwareRow,
    OpeningRow,
    SegmentRow,
    SellerRow,
    SourcedRow,
)
from market.tables import PACKAGED, TABLE_NAMES, TableError, Tables, column_units, describe_tables, load_tables
from market.units import SEGMENTS, date_of

TABLES = load_tables()
EARLY_FILES = {
    name: f"{PACKAGED}openings/2024-02/{name}.csv" for name in ("opening", "sellers", "fleets", "deliveries")
}
EARLY = load_tables(EARLY_FILES)
ROADMAP = {"VR200": "vr", "VR300": "vr", "MI400": "mi400", "MI500": "mi400"}
ROW_TYPES = {
    "opening": OpeningRow,
    "hardware": HardwareRow,
    "sellers": SellerRow,
    "entrants": EntrantRow,
    "fleets": FleetRow,
    "deliveries": DeliveryRow,
    "segments": SegmentRow,
}
Edit = Callable[[list[list[str]]], object]


def shipped(name: str) -> list[list[str]]:
    """Header and rows of a shipped table as text."""
    text = files("market").joinpath(f"data/{name}.csv").read_text(encoding="utf-8")
    return list(csv.reader(text.splitlines()))


def written(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def fleet_file(tmp_path: Path, *rows: str) -> Path:
    """A small fleets table: AWS and CoreWeave rows by default columns, given as ``column=value`` edits."""
    base = dict(
        seller="CoreWeave", sku="H100", gpus="1000", vintage="2024-07", term_split_on_demand="0.1",
        term_split_4w="0.1", term_split_52w="0.3", term_split_156w="0.5", utilisation="0.9",
        as_of="2025-06", source="own books", confidence="high",
    )  # fmt: skip
    lines = [list(base)]
    for row in rows or ("",):
        edits = dict(edit.split("=", 1) for edit in row.split(";") if edit)
        lines.append([*(base | edits).values()])
    return written(tmp_path / "my_fleets.csv", lines)


def complaint(**replacements: Path | str) -> str:
    with pytest.raises(TableError) as caught:
        load_tables(replacements)
    text = str(caught.value)
    assert "\n" not in text
    return text


# ------------------------------------------------------------------------------------------- what is shipped


@pytest.mark.parametrize("tables", [TABLES, EARLY], ids=["2025-06", "2024-02"])
@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_row_has_date_source_and_confidence(name: str, tables: Tables) -> None:
    for row in getattr(tables, name):
        assert isinstance(row, SourcedRow)
        assert row.source == "assumption" or row.source.startswith(("https://", "http://"))
        assert (row.confidence == "assumption") or row.source != "assumption"


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_column_of_numbers_has_a_unit(name: str) -> None:
    row_type = ROW_TYPES[name]
    numbers = {
        column
        for row in getattr(TABLES, name)
        for column, value in row
        if isinstance(value, float | int) and not isinstance(value, bool)
    }
    assert numbers <= set(column_units(row_type))


def test_every_quantity_of_hardware_has_the_declared_unit() -> None:
    assert all(row.unit == column_units(Figures)[row.quantity] for row in TABLES.hardware)


def test_second_figures_are_kept_and_not_used() -> None:
    second = [row for row in TABLES.hardware if not row.used]
    assert {"capex_usd", "power_kw", "owner_cost_usd_per_gpu_hour", "announced_month"} <= {
        row.quantity for row in second
    }
    assert TABLES.skus[TABLES.sku_index["H200"]].capex_usd == 41_000


def test_skus_stand_in_their_order() -> None:
    nvidia = ["A100", "H100", "H200", "B200", "GB200", "B300", "GB300", "VR200", "VR300"]
    amd = ["MI300X", "MI325X", "MI350X", "MI355X", "MI400", "MI500"]
    assert list(TABLES.sku_index) == nvidia + amd
    assert list(TABLES.sku_index.values()) == list(range(len(nvidia + amd)))
    assert [sku.vendor for sku in TABLES.skus] == ["nvidia"] * len(nvidia) + ["amd"] * len(amd)


def test_a_slip_of_a_roadmap_chip_meets_its_successor_too() -> None:
    assert {sku.name: sku.roadmap_group for sku in TABLES.skus if sku.roadmap_group} == ROADMAP
    for group in set(ROADMAP.values()):
        launches = [sku.launch_week for sku in TABLES.skus if sku.roadmap_group == group]
        assert launches == sorted(launches)
        assert min(launches) == 70


def test_chips_of_the_roadmap_are_announcements_and_placeholders() -> None:
    rows = [row for row in TABLES.hardware if row.sku in ROADMAP and row.used]
    assert {row.confidence for row in rows} <= {"low", "assumption"}
    assert all(row.launch_week > 52 for row in TABLES.skus if row.name in ROADMAP)


def test_every_chip_is_announced_in_its_month_and_not_after_its_launch() -> None:
    months = {row.sku: row.value for row in TABLES.hardware if row.quantity == "announced_month"}
    for sku in TABLES.skus:
        first = date_of(sku.announced_week)
        assert months[sku.name] in {f"{first + timedelta(days=day):%Y-%m}" for day in range(7)}
        assert sku.announced_week <= sku.launch_week


def test_all_chips_are_known_by_the_week_after_the_opening() -> None:
    late = {sku.name for sku in TABLES.skus if sku.announced_week > 0}
    assert late == {"MI350X", "MI355X", "MI400", "MI500"}  # AMD's event of 12 June 2025
    assert {TABLES.skus[TABLES.sku_index[name]].announced_week for name in late} == {1}


@pytest.mark.parametrize(
    ("sku", "quantity", "value"),
    [
        ("MI355X", "fp6_tflops", 10066),
        ("B200", "fp6_tflops", 4500),
        ("B300", "fp4_tflops", 13500),
        ("H100", "bf16_tflops", 989),
        ("VR200", "fp4_tflops", 33300),
        ("MI355X", "tdp_w", 1400),
    ],
)
def test_other_rates_and_ratings_are_kept_for_comparison(sku: str, quantity: str, value: float) -> None:
    rows = [row for row in TABLES.hardware if (row.sku, row.quantity) == (sku, quantity)]
    assert float(rows[0].value) == value
    assert not any(row.used for row in rows)


def test_four_entrants_spread_like_the_quarters_of_a_normal_law() -> None:
    premia = [row.price_premium_ln for row in TABLES.entrants]
    by_hand = [-0.1 + 0.2 * quarter for quarter in (-1.271, -0.325, 0.325, 1.271)]
    assert premia == pytest.approx(by_hand, abs=0.006)
    assert {row.cash_usd_m for row in TABLES.entrants} == {120}
    assert {row.name for row in TABLES.entrants}.isdisjoint(row.name for row in TABLES.sellers)


def test_segments_stand_in_their_order_and_carry_all_demand() -> None:
    assert tuple(row.name for row in TABLES.segments) == SEGMENTS
    assert math.fsum(row.demand_share for row in TABLES.segments) == pytest.approx(1)


def test_sellers_own_what_their_vendors_make() -> None:
    vendor = {sku.name: sku.vendor for sku in TABLES.skus}
    for seller in TABLES.sellers:
        held = {vendor[row.sku] for row in TABLES.fleets if row.seller == seller.name}
        assert held <= ({"nvidia", "amd"} if seller.vendors == "both" else {seller.vendors})
        assert held


def test_only_three_sellers_have_debt_on_their_gpus() -> None:
    assert [row.name for row in TABLES.sellers if row.gpu_debt] == ["CoreWeave", "Lambda", "Crusoe"]
    assert all(row.debt_usd_m for row in TABLES.sellers if row.gpu_debt)


def test_contestable_part_is_near_a_million_gpus() -> None:
    share = {row.name: row.contestable_share for row in TABLES.sellers}
    assert math.fsum(row.gpus * share[row.seller] for row in TABLES.fleets) == pytest.approx(950e3, rel=0.05)
    assert math.fsum(row.gpus for row in TABLES.fleets) == pytest.approx(1_734e3, rel=0.01)


def test_nothing_is_delivered_before_its_launch_or_after_week_26() -> None:
    launch = {sku.name: sku.launch_week for sku in TABLES.skus}
    assert all(launch[row.sku] <= row.week <= 26 for row in TABLES.deliveries)
    assert {row.week for row in TABLES.deliveries if row.sku == "B300"} == {20, 24}
    assert {row.week for row in TABLES.deliveries if row.sku == "GB300"} == {16, 20, 24}


def test_each_b200_delivery_is_eleven_thousandths_of_the_fleet() -> None:
    fleet = math.fsum(row.gpus for row in TABLES.fleets if row.seller == "AWS")
    assert {row.gpus for row in TABLES.deliveries if (row.seller, row.sku) == ("AWS", "B200")} == {round(0.011 * fleet)}


def test_oracle_gets_2500_mi355x_after_the_contestable_share() -> None:
    rows = [row for row in TABLES.deliveries if (row.seller, row.sku) == ("OCI", "MI355X")]
    assert [row.week for row in rows] == [10, 14, 18, 22, 26]
    assert all(row.gpus * 0.43 == pytest.approx(2500, abs=1) for row in rows)


def test_no_amd_cloud_grows_by_more_than_a_twentieth_with_a_delivery() -> None:
    sizes = {row.seller: row.gpus for row in TABLES.deliveries if row.sku == "MI355X" and row.seller != "OCI"}
    assert sizes == {"TensorWave": 450, "Vultr": 375, "Crusoe": 400, "DigitalOcean": 175, "Hot Aisle": 6}
    fleet = {name: math.fsum(row.gpus for row in TABLES.fleets if row.seller == name) for name in sizes}
    assert all(gpus <= 0.05 * fleet[name] + 0.5 for name, gpus in sizes.items())


def test_a_blank_is_missing_and_not_zero() -> None:
    nscale = next(row for row in TABLES.sellers if row.name == "Nscale")
    assert nscale.price_premium_ln is None
    assert nscale.debt_usd_m is None


# ------------------------------------------------------------------------------------- the opening of early 2024


def gpus(rows: Iterable[FleetRow | DeliveryRow], *skus: str) -> float:
    return math.fsum(row.gpus for row in rows if row.sku in skus)


def test_the_early_opening_begins_seventy_weeks_before_the_usual_one() -> None:
    assert (TABLES.start_week, EARLY.start_week) == (0, -70)
    assert TABLES.date_of(0) == EARLY.date_of(70) == date(2025, 6, 2)
    assert EARLY.week_of(date(2024, 2, 1)) == 0
    assert EARLY.week_of(date(2025, 6, 12)) == 71


def test_weeks_of_the_chips_count_from_the_opening() -> None:
    assert len(EARLY.skus) == len(TABLES.skus)
    for early, usual in zip(EARLY.skus, TABLES.skus, strict=True):
        assert early.launch_week - usual.launch_week == early.announced_week - usual.announced_week == 70
        if usual.last_order_week is None:
            assert early.last_order_week is None
        else:
            assert early.last_order_week == usual.last_order_week + 70


def test_a_launch_moved_by_its_address_moves_in_both_openings() -> None:
    for tables in (TABLES, EARLY):
        slipped = tables.with_cell("data.hardware.VR200.launch_week", 80)
        assert slipped.date_of(slipped.skus[slipped.sku_index["VR200"]].launch_week) == date_of(80)


def test_the_early_fleets_are_a100_and_h100_alone() -> None:
    assert gpus(EARLY.fleets, "A100", "H100") == gpus(EARLY.fleets, *EARLY.sku_index) == pytest.approx(388e3, rel=0.01)
    assert {row.seller for row in EARLY.fleets} == {row.name for row in EARLY.sellers}


def test_an_amd_cloud_without_gpus_yet_takes_part() -> None:
    assert [row.gpus for row in EARLY.fleets if row.seller == "TensorWave"] == [0]
    assert [row.week for row in EARLY.deliveries if row.seller == "TensorWave"] == list(range(12, 70, 4))


def test_early_deliveries_follow_their_pace() -> None:
    weeks = {sku: {row.week for row in EARLY.deliveries if row.sku == sku} for sku in EARLY.sku_index}
    assert {sku: (min(found), max(found)) for sku, found in weeks.items() if found} == {
        "H100": (4, 48),
        "H200": (40, 68),
        "B200": (60, 68),
        "GB200": (60, 68),
        "MI300X": (12, 68),
    }
    assert all(week % 4 == 0 for found in weeks.values() for week in found)
    hosts = {row.name for row in EARLY.sellers if row.provider_class == "marketplace"}
    first = gpus((row for row in EARLY.fleets if row.seller not in hosts), "H100")
    assert gpus(EARLY.deliveries, "H100") == pytest.approx(12 * 3 / 45 * first, rel=1e-3)


def test_nothing_is_delivered_before_its_launch_in_early_2024_either() -> None:
    launch = {sku.name: sku.launch_week for sku in EARLY.skus}
    assert all(launch[row.sku] <= row.week for row in EARLY.deliveries)


def test_early_sellers_are_those_of_the_usual_table_apart_from_their_money() -> None:
    usual = {row.name: row for row in TABLES.sellers}
    money = {"debt_usd_m", "loan_rate", "loan_to_value", "cash_usd_m", *SourcedRow.model_fields}
    for row in EARLY.sellers:
        assert row.model_dump(exclude=money) == usual[row.name].model_dump(exclude=money)
    assert all(row.as_of <= "2024-02" for row in EARLY.sellers if row.debt_usd_m is not None)


def test_nothing_in_the_early_fleets_is_dated_after_the_opening_year() -> None:
    assert all(row.vintage <= "2024-01" for row in EARLY.fleets)
    assert all(row.as_of <= "2024-03" for row in EARLY.fleets)


def test_half_an_opening_is_refused() -> None:
    text = complaint(opening=EARLY_FILES["opening"])
    assert "fleets.csv, line " in text
    assert "allowed: up to the month of the opening, 2024-01" in text


def test_a_packaged_table_is_the_file_itself() -> None:
    assert load_tables({"fleets": f"{PACKAGED}fleets.csv"}).digest() == TABLES.digest()
    path = files("market").joinpath("data/openings/2024-02/fleets.csv")
    assert load_tables(EARLY_FILES | {"fleets": Path(str(path))}).digest() == EARLY.digest()
    assert load_tables({name: Path(file) for name, file in EARLY_FILES.items()}).digest() == EARLY.digest()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("openings/2024-02/fleet.csv", "openings/2024-02/fleets.csv"),
        ("../data/fleets.csv", "fleets.csv"),
        ("openings/2024-02", "openings/2024-02/"),
    ],
)
def test_an_unknown_packaged_table_is_named_with_the_nearest(name: str, near: str) -> None:
    text = complaint(fleets=f"{PACKAGED}{name}")
    assert f"data.fleets: unknown packaged table {name!r}; nearest: '{near}" in text


def test_a_complaint_about_a_packaged_table_names_it() -> None:
    assert complaint(sellers=EARLY_FILES["fleets"]).startswith("package:openings/2024-02/fleets.csv, line 1: ")


# ------------------------------------------------------------------------------------- one complaint per kind


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ("gpus=", ["line 2", "column gpus", "blank", "never zero"]),
        ("gpus=many", ["line 2", "column gpus", "'many'", "a number"]),
        ("gpus=-1", ["column gpus", "'-1'", "at least 0"]),
        ("gpus=nan", ["column gpus", "'nan'", "finite"]),
        ("gpus=1e999", ["column gpus", "'1e999'", "finite"]),
        ("utilisation=30", ["column utilisation", "'30'", "0 to 1", "30 is not 30 %"]),
        ("term_split_4w=0.9", ["term_split_on_demand", "sum 1.8", "1 within 0.005"]),
        ("vintage=July 2024", ["column vintage", "'July 2024'", "YYYY-MM"]),
        ("vintage=2024-13", ["column vintage", "YYYY-MM"]),
        ("as_of=last year", ["column as_of", "YYYY"]),
        ("source=", ["column source", "blank"]),
        ("confidence=hgih", ["column confidence", "high, medium, low, assumption", "nearest: 'high'"]),
        ("sku=h100", ["column sku", "unknown sku 'h100'", "nearest: 'H100'"]),
        ("seller=Core Weave", ["column seller", "unknown seller 'Core Weave'", "nearest: 'CoreWeave'"]),
    ],
)
def test_a_wrong_cell_is_named_with_what_is_allowed(tmp_path: Path, row: str, parts: list[str]) -> None:
    text = complaint(fleets=fleet_file(tmp_path, row))
    assert text.startswith(str(tmp_path / "my_fleets.csv"))
    for part in parts:
        assert part in text


def test_the_line_is_that_of_the_file_with_blank_lines_and_quoted_breaks(tmp_path: Path) -> None:
    path = fleet_file(tmp_path, "source=two\nlines", "sku=H200", "sku=A100;gpus=x")  # lines 2-3, 4, 5
    path.write_text(path.read_text().replace("own books,high\n", "own books,high\n\n ,,\n", 1))
    assert "line 7, column gpus" in complaint(fleets=path)


def test_a_row_that_stands_twice_is_refused(tmp_path: Path) -> None:
    text = complaint(fleets=fleet_file(tmp_path, "", "gpus=5"))
    assert "line 3: seller, sku 'CoreWeave.H100' already stands at" in text
    assert text.endswith("line 2")


@pytest.mark.parametrize(
    ("table", "edit", "part"),
    [
        ("sellers", lambda rows: rows[1].__setitem__(1, "hyperscale"), "nearest: 'hyperscaler'"),
        ("sellers", lambda rows: rows[1].__setitem__(2, "nvidea"), "nearest: 'nvidia'"),
        ("sellers", lambda rows: rows[1].__setitem__(9, "perhaps"), "yes, no or unknown"),
        ("deliveries", lambda rows: rows[1].__setitem__(2, "0"), "at least 1"),
        ("deliveries", lambda rows: rows[1].__setitem__(2, "4.5"), "a whole number"),
        ("deliveries", lambda rows: rows[1].__setitem__(0, "AWX"), "unknown seller 'AWX'; nearest: 'AWS'"),
        ("opening", lambda rows: rows[1].__setitem__(1, "2025-06-04"), "allowed: a Monday, such as 2025-06-02"),
        ("opening", lambda rows: rows[1].__setitem__(1, "June"), "'June'; allowed: a Monday, YYYY-MM-DD"),
        ("opening", lambda rows: rows[1].__setitem__(1, ""), "column start_date: blank"),
        ("opening", lambda rows: rows.append(["other", *rows[1][1:]]), "line 3: a second opening; one row is allowed"),
        ("entrants", lambda rows: rows[1].__setitem__(0, "Lambda"), "'Lambda' is a seller already, at sellers.csv"),
        ("entrants", lambda rows: rows[1].__setitem__(5, ""), "column cash_usd_m: blank"),
        ("segments", lambda rows: rows[1].__setitem__(0, "developers"), "nearest: 'developer'"),
        ("segments", lambda rows: rows.pop(), "no row of pre_training"),
        ("segments", lambda rows: rows[1].__setitem__(6, "0.5"), "column demand_share: sum 1.46"),
        ("hardware", lambda rows: rows[1].__setitem__(2, "NVIDIA"), "vendor, column value: 'NVIDIA'"),
        ("hardware", lambda rows: rows[3].__setitem__(1, "launch_weak"), "nearest: 'launch_week'"),
        ("hardware", lambda rows: rows[5].__setitem__(3, "EUR/GPU"), "allowed for capex_usd: 'USD/GPU'"),
        ("hardware", lambda rows: rows[5].__setitem__(2, ""), "capex_usd, column value: blank"),
        ("hardware", lambda rows: rows.pop(5), "A100 has no row of capex_usd with used = yes"),
        ("hardware", lambda rows: rows[5].__setitem__(4, "no"), "A100 has no row of capex_usd with used = yes"),
        ("hardware", lambda rows: rows.append([*rows[5]]), "already stands at"),
        ("hardware", lambda rows: rows[14].__setitem__(2, "cheap"), "'cheap'; allowed: a number"),
    ],
)
def test_each_table_is_checked(tmp_path: Path, table: str, edit: Edit, part: str) -> None:
    rows = shipped(table)
    edit(rows)
    assert part in complaint(**{table: written(tmp_path / "table.csv", rows)})


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "the file is empty"),
        (b"\n\n , \n", "the file is empty"),
        (b"seller,sku,week,gpus\n", "column 'as_of' is missing"),
        (b"seller,sku,week,gpuz\n", "unknown column 'gpuz'; nearest: 'gpus'"),
        (b"seller,sku,week,gpus,gpus\n", "column 'gpus' stands twice"),
        (b"seller,sku,week,gpus,as_of,source,confidence\nAWS,H200\n", "line 2: 2 cells under 7 columns"),
        (b'seller,sku,week,gpus,as_of,source,confidence\n"AWS,H200\n', "line 2: "),
        (b"\xff\xfes\x00e\x00", "not UTF-8 text"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "deliveries.csv"
    path.write_bytes(content)
    text = complaint(deliveries=path)
    assert text.startswith(str(path))
    assert part in text


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "No such file" in complaint(fleets=tmp_path / "absent.csv")
    assert str(tmp_path) in complaint(fleets=tmp_path)


def test_an_unknown_table_is_named_with_the_nearest() -> None:
    assert "unknown table 'fleet'; nearest: 'fleets'" in complaint(fleet=Path("fleet.csv"))


def test_a_table_without_rows_is_refused_unless_nothing_is_on_order(tmp_path: Path) -> None:
    assert "no rows" in complaint(sellers=written(tmp_path / "sellers.csv", shipped("sellers")[:1]))
    orders = written(tmp_path / "deliveries.csv", shipped("deliveries")[:1])
    assert load_tables({"deliveries": orders}).deliveries == ()


def test_a_table_of_entrants_without_rows_means_that_nobody_enters(tmp_path: Path) -> None:
    nobody = written(tmp_path / "entrants.csv", shipped("entrants")[:1])
    assert load_tables({"entrants": nobody}).entrants == ()


# ----------------------------------------------------------------------------------------------- own tables


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_byte_order_mark_line_ends_and_blank_lines_do_not_matter(tmp_path: Path, name: str) -> None:
    text = files("market").joinpath(f"data/{name}.csv").read_text(encoding="utf-8")
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n\r\n").encode())
    again = load_tables({name: path})
    assert again.digest() == TABLES.digest()


def test_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    rows = [row[::-1] for row in shipped("fleets")]
    assert load_tables({"fleets": written(tmp_path / "fleets.csv", rows)}).digest() == TABLES.digest()


def test_fleets_of_some_sellers_leave_the_others_out(tmp_path: Path) -> None:
    tables = load_tables({"fleets": fleet_file(tmp_path, "", "seller=AWS")})
    assert [row.name for row in tables.sellers] == ["AWS", "CoreWeave"]
    assert {row.seller for row in tables.deliveries} == {"AWS", "CoreWeave"}


def test_some_sellers_leave_the_fleets_of_the_others_out(tmp_path: Path) -> None:
    rows = [row for row in shipped("sellers") if row[0] in ("name", "OCI", "Hot Aisle")]
    tables = load_tables({"sellers": written(tmp_path / "sellers.csv", rows)})
    assert {row.seller for row in tables.fleets} == {row.seller for row in tables.deliveries} == {"OCI", "Hot Aisle"}


def test_orders_of_a_seller_without_fleet_are_refused_in_an_own_table(tmp_path: Path) -> None:
    orders = written(tmp_path / "deliveries.csv", shipped("deliveries")[:3])
    assert "unknown seller 'AWS'" in complaint(deliveries=orders, fleets=fleet_file(tmp_path))


def test_fleets_without_any_known_seller_are_refused(tmp_path: Path) -> None:
    rows = shipped("sellers")[:2]
    rows[1][0] = "Nobody"
    assert "no seller" in complaint(sellers=written(tmp_path / "sellers.csv", rows))


def test_digest_notices_any_changed_number() -> None:
    assert TABLES.with_cell("data.fleets.AWS.H100.gpus", 180_001).digest() != TABLES.digest()
    assert TABLES.with_cell("data.fleets.AWS.H100.gpus", "180000.0").digest() == TABLES.digest()


# ------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("address", "value", "read"),
    [
        ("data.hardware.MI355X.capex_usd", 30_000.5, lambda t: t.skus[t.sku_index["MI355X"]].capex_usd),
        ("data.hardware.MI355X.launch_week", 30, lambda t: t.skus[t.sku_index["MI355X"]].launch_week),
        ("data.hardware.A100.last_order_week", 10, lambda t: t.skus[0].last_order_week),
        ("data.hardware.MI400.roadmap_group", None, lambda t: t.skus[t.sku_index["MI400"]].roadmap_group),
        ("data.opening.2025-06.start_date", date(2025, 6, 9), lambda t: t.date_of(0)),
        ("data.entrants.New neocloud 4.cash_usd_m", 300, lambda t: t.entrants[3].cash_usd_m),
        ("data.sellers.CoreWeave.loan_rate", 0.09, lambda t: t.sellers[4].loan_rate),
        ("data.sellers.CoreWeave.debt_usd_m", None, lambda t: t.sellers[4].debt_usd_m),
        ("data.sellers.AWS.gpu_debt", True, lambda t: t.sellers[0].gpu_debt),
        ("data.fleets.AWS.A100.gpus", 7.5, lambda t: t.fleets[0].gpus),
        ("data.deliveries.AWS.H200.4.gpus", 0, lambda t: t.deliveries[0].gpus),
        ("data.segments.developer.lock_in", 0.0, lambda t: t.segments[0].lock_in),
    ],
)
def test_a_cell_can_be_changed_by_its_address(address: str, value: object, read: Callable[[Tables], object]) -> None:
    before = read(TABLES)
    assert read(TABLES.with_cell(address, value)) == value
    assert read(TABLES) == before


def test_a_seller_with_a_dot_in_its_name_has_addresses() -> None:
    changed = TABLES.with_cell("data.fleets.Vast.ai.H100.gpus", 3)
    assert [row.gpus for row in changed.fleets if (row.seller, row.sku) == ("Vast.ai", "H100")] == [3]


def test_cells_that_only_fit_together_are_changed_together() -> None:
    address = "data.fleets.AWS.H100.term_split_{}".format
    changed = TABLES.with_cells({address("on_demand"): 0.35, address("4w"): 0.0})
    row = next(row for row in changed.fleets if (row.seller, row.sku) == ("AWS", "H100"))
    assert (row.term_split_on_demand, row.term_split_4w) == (0.35, 0.0)


def test_changes_add_up() -> None:
    twice = TABLES.with_cell("data.segments.developer.lock_in", 0.1).with_cell("data.hardware.H100.capex_usd", 40_000)
    assert (twice.segments[0].lock_in, twice.skus[1].capex_usd) == (0.1, 40_000)


@pytest.mark.parametrize(
    ("address", "value", "part"),
    [
        ("data.hardwear.MI355X.capex_usd", 1, "nearest: 'data.hardware'"),
        ("hardware.MI355X.capex_usd", 1, "nearest: 'data.hardware'"),
        ("data.hardware.MI355.capex_usd", 1, "nearest: 'MI355X.capex_usd'"),
        ("data.hardware.MI355X.capex", 1, "nearest: 'MI355X.capex_usd'"),
        ("data.hardware.MI355X.announced_month", "2025-07", "unknown row of hardware"),
        ("data.segments.developer.lockin", 1, "nearest: 'lock_in'"),
        ("data.fleets.AWS.H100.sku", "H200", "unknown column of fleets 'sku'"),
        ("data.fleets.AWS.H100.gpus", "lots", "data.fleets.AWS.H100, column gpus: 'lots'; allowed: a number"),
        ("data.fleets.AWS.H100.gpus", float("nan"), "allowed: a finite number"),
        ("data.hardware.H100.power_kw", None, "blank; a value is required"),
    ],
)
def test_a_wrong_address_or_value_names_what_is_near_or_allowed(address: str, value: object, part: str) -> None:
    with pytest.raises(TableError, match=re.escape(part)):
        TABLES.with_cell(address, value)


def test_a_table_without_rows_has_no_addresses(tmp_path: Path) -> None:
    tables = load_tables({"deliveries": written(tmp_path / "d.csv", shipped("deliveries")[:1])})
    with pytest.raises(TableError, match="there is none"):
        tables.with_cell("data.deliveries.AWS.H200.4.gpus", 1)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_any_count_comes_back_bit_for_bit(gpus: float) -> None:
    assert TABLES.with_cell("data.fleets.AWS.A100.gpus", gpus).fleets[0].gpus == gpus


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_in_a_number_is_taken_or_refused_in_one_line(text: str) -> None:
    complaint = ""
    try:
        TABLES.with_cell("data.fleets.AWS.A100.gpus", text)
    except TableError as error:
        complaint = str(error)
    assert len(complaint.splitlines()) <= 1


# ----------------------------------------------------------------------------------------------- description


def test_the_list_of_tables_counts_rows_sources_and_dates() -> None:
    described = {row.name: row for row in describe_tables(TABLES)}
    assert list(described) == [*TABLE_NAMES, "parameters"]
    assert (described["segments"].rows, described["segments"].sources) == (5, 0)
    assert described["fleets"].rows == len(shipped("fleets")) - 1
    assert (described["fleets"].first_as_of, described["fleets"].last_as_of) == ("2023-09", "2025-10")
    assert described["parameters"].rows == len(parameter_rows())
