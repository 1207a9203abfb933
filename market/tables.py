"""The tables of the opening state: read, checked row by row, replaceable, each cell with an address.

CSV files in ``data/`` (beside ``parameters.csv``) say what exists in June 2025: the date of the opening, hardware,
sellers, possible entrants, fleets, deliveries already ordered, and demand segments. Each row carries date, source and
confidence; the row types of `market.rows` carry the unit of each column. A blank is missing, never zero.

A scenario may replace any table by a file of its own or by another shipped one (``package:openings/2024-02/...``), or
change single cells such as ``data.hardware.MI355X.capex_usd`` or ``data.fleets.CoreWeave.H100.gpus``.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from market.parameters import ParameterRow, parameter_rows
from market.reading import PACKAGED, SUM_TOLERANCE, Entry, Line, Schema, TableError, cell_error, parse, read, unknown
from market.rows import (
    DeliveryRow,
    EntrantRow,
    Figures,
    FleetRow,
    HardwareRow,
    OpeningRow,
    SegmentRow,
    SellerRow,
    Sku,
    SourcedRow,
    column_units,
)
from market.units import SEGMENTS, week_of

__all__ = [
    "PACKAGED",
    "TABLE_NAMES",
    "DeliveryRow",
    "EntrantRow",
    "FleetRow",
    "HardwareRow",
    "OpeningRow",
    "SegmentRow",
    "SellerRow",
    "Sku",
    "TableDescription",
    "TableError",
    "Tables",
    "column_units",
    "describe_tables",
    "load_tables",
]


def _columns(row: type[BaseModel], prefix: str) -> tuple[str, ...]:
    return tuple(name for name in row.model_fields if name.startswith(prefix))


_SCHEMAS: Mapping[str, Schema] = {
    "opening": Schema(OpeningRow, ("name",)),
    "hardware": Schema(HardwareRow, ("sku", "quantity")),
    "sellers": Schema(SellerRow, ("name",)),
    "entrants": Schema(EntrantRow, ("name",), may_be_empty=True),
    "fleets": Schema(FleetRow, ("seller", "sku"), (_columns(FleetRow, "term_split_"),)),
    "deliveries": Schema(DeliveryRow, ("seller", "sku", "week"), may_be_empty=True),
    "segments": Schema(
        SegmentRow,
        ("name",),
        (("compute_share", "memory_share", "communication_share"), _columns(SegmentRow, "term_share_")),
    ),
}
TABLE_NAMES = tuple(_SCHEMAS)


def _check_figure(entry: Entry) -> None:
    """The quantity exists, its unit is the table's and the value is allowed, whether used or not."""
    row, where = entry.row, entry.line.where
    units = column_units(Figures)
    if row.quantity not in units:
        raise unknown(f"{where}, column quantity", "quantity", row.quantity, units)
    if row.unit != units[row.quantity]:
        raise TableError(f"{where}, column unit: {row.unit!r}; allowed for {row.quantity}: {units[row.quantity]!r}")
    try:
        Figures.model_validate({row.quantity: row.value} if row.value else {})
    except ValidationError as errors:
        for error in errors.errors():
            if error["loc"][0] == row.quantity:
                raise cell_error(Figures, error, f"{where}, {row.quantity}", "value") from None


def _skus(entries: Iterable[Entry], start_week: int) -> tuple[Sku, ...]:
    """The SKUs in the order of their first rows, from the figures in use; their weeks count from the opening."""
    figures: dict[str, dict[str, str]] = {}
    for entry in entries:
        _check_figure(entry)
        figure = figures.setdefault(entry.row.sku, {})
        if entry.row.used and entry.row.value and entry.row.quantity in Sku.model_fields:
            figure[entry.row.quantity] = entry.row.value
    return tuple(_sku(name, figure, start_week) for name, figure in figures.items())


_WEEKS = [column for column, unit in column_units(Sku).items() if unit == "week"]


def _sku(name: str, figure: Mapping[str, str], start_week: int) -> Sku:
    for quantity, field in Sku.model_fields.items():
        if field.is_required() and quantity not in (*figure, "name"):
            raise TableError(f"table hardware: {name} has no row of {quantity} with used = yes")
    sku = Sku.model_validate({"name": name, **figure})
    weeks = {column: getattr(sku, column) for column in _WEEKS}
    return sku.model_copy(update={column: week - start_week for column, week in weeks.items() if week is not None})


def _joined(entries: list[Entry], column: str, known: Iterable[str], *, strict: bool) -> list[Entry]:
    """Rows whose ``column`` names something known; any other row is an error if ``strict``, else left out."""
    names = dict.fromkeys(known)
    for entry in entries:
        name = getattr(entry.row, column)
        if strict and name not in names:
            raise unknown(f"{entry.line.where}, column {column}", column, name, names)
    return [entry for entry in entries if getattr(entry.row, column) in names]


def _start_date(entries: list[Entry], fleets: Iterable[Entry]) -> date:
    """First day of the opening; no fleet may be younger, as if one table of another opening had been left behind."""
    if len(entries) != 1:
        raise TableError(f"{entries[1].line.where}: a second opening; one row is allowed")
    start: date = entries[0].row.start_date
    for entry in fleets:
        if entry.row.vintage > f"{start:%Y-%m}":
            where = f"{entry.line.where}, column vintage"
            raise TableError(f"{where}: {entry.row.vintage!r}; allowed: up to the month of the opening, {start:%Y-%m}")
    return start


def _check_entrants(entrants: Iterable[Entry], sellers: Iterable[Entry]) -> None:
    """An entrant has a name of its own: luck goes by name."""
    taken = {entry.row.name: entry.line.where for entry in sellers}
    for entry in entrants:
        if entry.row.name in taken:
            where = f"{entry.line.where}, column name"
            raise TableError(f"{where}: {entry.row.name!r} is a seller already, at {taken[entry.row.name]}")


def _join(entries: dict[str, list[Entry]], skus: Sequence[str], replaced: frozenset[str]) -> dict[str, list[Entry]]:
    """Sellers with their fleets and deliveries.

    A shipped table gives way: its rows about sellers that a replacing table does not name are left out. Rows of a
    replacing table must name sellers that exist. Sellers without a fleet are left out.
    """
    strict = {name: name in replaced or not replaced for name in entries}
    for name in ("fleets", "deliveries"):
        _joined(entries[name], "sku", skus, strict=True)
    sellers = [entry.row.name for entry in entries["sellers"]]
    fleets = _joined(entries["fleets"], "seller", sellers, strict=strict["fleets"])
    owners = dict.fromkeys(entry.row.seller for entry in fleets)
    if not owners:
        raise TableError("table fleets: no seller of table sellers has a fleet")
    return entries | {
        "sellers": _joined(entries["sellers"], "name", owners, strict=False),
        "fleets": fleets,
        "deliveries": _joined(entries["deliveries"], "seller", owners, strict=strict["deliveries"]),
    }


def _in_order(entries: list[Entry]) -> list[Entry]:
    """All five segments, in the order of ``SEGMENTS``, with demand shares that sum to 1."""
    by_name = {entry.row.name: entry for entry in entries}
    for name in SEGMENTS:
        if name not in by_name:
            raise TableError(f"table segments: no row of {name}; all of {', '.join(SEGMENTS)} are needed")
    total = math.fsum(entry.row.demand_share for entry in entries)
    if abs(total - 1) > SUM_TOLERANCE:
        raise TableError(f"table segments, column demand_share: sum {total:g}; allowed: 1 within {SUM_TOLERANCE}")
    return [by_name[name] for name in SEGMENTS]


def _build(lines: Mapping[str, Iterable[Line]], replaced: frozenset[str]) -> Tables:
    """Tables from lines: each table by itself, then one against another."""
    entries = {name: parse(schema, lines[name]) for name, schema in _SCHEMAS.items()}
    start = _start_date(entries["opening"], entries["fleets"])
    _check_entrants(entries["entrants"], entries["sellers"])
    skus = _skus(entries["hardware"], week_of(start))
    entries["segments"] = _in_order(entries["segments"])
    entries = _join(entries, [sku.name for sku in skus], replaced)
    rows = {name: tuple(entry.row for entry in entries[name]) for name in _SCHEMAS}
    return Tables(skus=skus, lines={name: tuple(entry.line for entry in entries[name]) for name in _SCHEMAS}, **rows)


@dataclass(frozen=True)
class Tables:
    """The opening state. GPU counts are unscaled: multiply by the seller's ``contestable_share``.

    Attributes:
        skus: hardware in use, in the order of the file, weeks counted from the opening; index by ``sku_index``.
        opening: one row, the date of week 0.
        hardware: all figures behind ``skus``, second ones included, weeks counted from June 2025.
        sellers: sellers with a fleet.
        entrants: sellers that may enter later.
        fleets: one row per seller and SKU.
        deliveries: one row per seller, SKU and week of the opening's calendar, from week 1 on.
        segments: in the order of ``market.units.SEGMENTS``.
        lines: the rows as written, by table.
    """

    skus: tuple[Sku, ...]
    opening: tuple[OpeningRow, ...]
    hardware: tuple[HardwareRow, ...]
    sellers: tuple[SellerRow, ...]
    entrants: tuple[EntrantRow, ...]
    fleets: tuple[FleetRow, ...]
    deliveries: tuple[DeliveryRow, ...]
    segments: tuple[SegmentRow, ...]
    lines: Mapping[str, tuple[Line, ...]]

    @cached_property
    def sku_index(self) -> dict[str, int]:
        """Position of each SKU by name."""
        return {sku.name: index for index, sku in enumerate(self.skus)}

    @property
    def start_week(self) -> int:
        """Week of the opening on the calendar of `market.units`: 0 in June 2025, negative before."""
        return week_of(self.opening[0].start_date)

    def date_of(self, week: int) -> date:
        """Monday on which a week of this opening's calendar begins."""
        return self.opening[0].start_date + timedelta(weeks=week)

    def week_of(self, day: date) -> int:
        """Week of this opening's calendar that contains ``day``."""
        return week_of(day) - self.start_week

    def csv(self, name: str) -> str:
        """A table as the text of a CSV file that `load_tables` reads back to the same rows."""
        own = [column for column in _SCHEMAS[name].row.model_fields if column not in SourcedRow.model_fields]
        columns = [*own, *SourcedRow.model_fields]
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(line.cells for line in self.lines[name])
        return text.getvalue()

    def digest(self) -> str:
        """SHA-256 of the content of all tables, ``parameters.csv`` included; layout of the files does not count."""
        content = {name: [row.model_dump(mode="json") for row in getattr(self, name)] for name in _SCHEMAS}
        content["parameters"] = [asdict(row) for row in parameter_rows().values()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def with_cell(self, address: str, value: object) -> Tables:
        """A copy with one cell changed; see `with_cells`."""
        return self.with_cells({address: value})

    def with_cells(self, changes: Mapping[str, object]) -> Tables:
        """A copy with some cells changed together, checked like a file.

        Args:
            changes: values by address, ``data.TABLE.ROW.COLUMN``. ROW is the seller, seller and SKU, seller, SKU and
                week, or segment, joined by dots; for hardware ``data.hardware.SKU.QUANTITY``. None makes a cell blank.

        Raises:
            TableError: unknown table, row or column (the nearest is named), or a value that is not allowed.
        """
        lines = {name: list(rows) for name, rows in self.lines.items()}
        for address, value in changes.items():
            table, index, column = self._locate(address)
            cells = {**lines[table][index].cells, column: _cell_text(value)}
            lines[table][index] = Line(address.rpartition(".")[0], cells)
        return _build(lines, frozenset(_SCHEMAS))

    def _locate(self, address: str) -> tuple[str, int, str]:
        """Table, position of the row and column that an address means."""
        prefix, _, rest = address.partition(".")
        table, _, path = rest.partition(".")
        if prefix != "data" or table not in _SCHEMAS:
            raise unknown(address, "table", f"{prefix}.{table}", [f"data.{name}" for name in _SCHEMAS])
        key, column = (path, "value") if table == "hardware" else path.rpartition(".")[::2]
        schema = _SCHEMAS[table]
        keys = [schema.key_of(row) for row in getattr(self, table)]
        if key not in keys:
            raise unknown(address, f"row of {table}", key, filter(None, keys))
        columns = [name for name in schema.row.model_fields if name not in schema.key]
        if column not in columns:
            raise unknown(address, f"column of {table}", column, columns)
        return table, keys.index(key), column


def _cell_text(value: object) -> str:
    """A value as it would stand in a file."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def load_tables(replacements: Mapping[str, Path | str] = MappingProxyType({})) -> Tables:
    """The shipped tables, some replaced by files of the same columns (those with a default may be left out).

    Args:
        replacements: file by table name; ``package:`` begins the name of a shipped file, such as
            ``package:openings/2024-02/fleets.csv``. Replacing sellers or fleets by a part leaves the other sellers
            out of all tables; replacing deliveries or entrants by a header alone means that nothing is on order and
            nobody enters.

    Raises:
        TableError: in one line, the first thing wrong.
    """
    for name in replacements:
        if name not in _SCHEMAS:
            raise unknown("data", "table", name, _SCHEMAS)
    return _build(
        {name: read(name, schema, replacements.get(name)) for name, schema in _SCHEMAS.items()}, frozenset(replacements)
    )


@dataclass(frozen=True)
class TableDescription:
    """A line of ``neocloud data list``: size of a table, number of distinct sources, first and last date."""

    name: str
    rows: int
    columns: int
    sources: int
    first_as_of: str
    last_as_of: str


def _described(name: str, rows: Sequence[Any], columns: int) -> TableDescription:
    dates = sorted(row.as_of for row in rows) or [""]
    sources = {row.source for row in rows} - {"assumption"}
    return TableDescription(name, len(rows), columns, len(sources), dates[0], dates[-1])


def describe_tables(tables: Tables) -> list[TableDescription]:
    """All tables in the order of ``TABLE_NAMES``, then the parameters."""
    described = [
        _described(name, getattr(tables, name), len(schema.row.model_fields)) for name, schema in _SCHEMAS.items()
    ]
    return [*described, _described("parameters", [*parameter_rows().values()], len(fields(ParameterRow)))]
