"""The tables: provenance of every number, every kind of complaint, replacement, addresses."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from market.parameters import parameter_rows
from market.rows import DeliveryRow, Figures, FleetRow, HardwareRow, SegmentRow, SellerRow, SourcedRow
from market.tables import TABLE_NAMES, TableError, Tables, column_units, describe_tables, load_tables
from market.units import SEGMENTS

TABLES = load_tables()
ROW_TYPES = {
    "hardware": HardwareRow,
    "sellers": SellerRow,
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


def complaint(**replacements: Path) -> str:
    with pytest.raises(TableError) as caught:
        load_tables(replacements)
    text = str(caught.value)
    assert "\n" not in text
    return text


# ------------------------------------------------------------------------------------------- what is shipped


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_row_has_date_source_and_confidence(name: str) -> None:
    for row in getattr(TABLES, name):
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
    names = ["A100", "H100", "H200", "B200", "GB200", "B300", "GB300", "MI300X", "MI325X", "MI350X", "MI355X"]
    assert list(TABLES.sku_index) == names
    assert list(TABLES.sku_index.values()) == list(range(len(names)))


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


def test_a_tiny_amd_cloud_at_most_doubles_with_a_delivery() -> None:
    sizes = {row.seller: row.gpus for row in TABLES.deliveries if row.sku == "MI355X" and row.seller != "OCI"}
    assert sizes == {"TensorWave": 540, "Vultr": 400, "Crusoe": 400, "DigitalOcean": 400, "Hot Aisle": 130}


def test_a_blank_is_missing_and_not_zero() -> None:
    nscale = next(row for row in TABLES.sellers if row.name == "Nscale")
    assert nscale.price_premium_ln is None
    assert nscale.debt_usd_m is None


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
        ("segments", lambda rows: rows[1].__setitem__(0, "developers"), "nearest: 'developer'"),
        ("segments", lambda rows: rows.pop(), "no row of pre_training"),
        ("segments", lambda rows: rows[1].__setitem__(6, "0.5"), "column demand_share: sum 1.46"),
        ("hardware", lambda rows: rows[1].__setitem__(2, "NVIDIA"), "vendor, column value: 'NVIDIA'"),
        ("hardware", lambda rows: rows[2].__setitem__(1, "launch_weak"), "nearest: 'launch_week'"),
        ("hardware", lambda rows: rows[4].__setitem__(3, "EUR/GPU"), "allowed for capex_usd: 'USD/GPU'"),
        ("hardware", lambda rows: rows[4].__setitem__(2, ""), "capex_usd, column value: blank"),
        ("hardware", lambda rows: rows.pop(4), "A100 has no row of capex_usd with used = yes"),
        ("hardware", lambda rows: rows[4].__setitem__(4, "no"), "A100 has no row of capex_usd with used = yes"),
        ("hardware", lambda rows: rows.append([*rows[4]]), "already stands at"),
        ("hardware", lambda rows: rows[13].__setitem__(2, "cheap"), "'cheap'; allowed: a number"),
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
