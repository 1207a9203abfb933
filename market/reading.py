"""From a CSV file to checked rows: every complaint is one line that says where, what and what is allowed."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from market.rows import SourcedRow, column_declaration

__all__ = [
    "PACKAGED",
    "SUM_TOLERANCE",
    "Entry",
    "Line",
    "Schema",
    "TableError",
    "cell_error",
    "packaged_files",
    "parse",
    "read",
    "unknown",
]

PACKAGED = "package:"
"""Begins the name of a file that ships with the program: ``package:openings/2024-02/fleets.csv``."""

SUM_TOLERANCE = 0.005  # shares are written with two or three decimals


class TableError(ValueError):
    """A table that cannot be used; one line: file and line, column, value, what is allowed, the nearest valid name."""


@dataclass(frozen=True)
class Schema:
    """What a table is made of; ``shares`` are groups of columns that sum to 1 in each row."""

    row: type[SourcedRow]
    key: tuple[str, ...]
    shares: tuple[tuple[str, ...], ...] = ()
    may_be_empty: bool = False

    def key_of(self, row: Any) -> str | None:
        """Name of a row, parts joined by dots; None for a second figure, which has no address."""
        return ".".join(str(getattr(row, column)) for column in self.key) if getattr(row, "used", True) else None


def _nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like ``name``, whatever its case."""
    folded = {candidate.casefold(): candidate for candidate in known}
    return folded[get_close_matches(name.casefold(), folded, n=1, cutoff=0)[0]]


def unknown(where: str, kind: str, name: str, known: Iterable[str]) -> TableError:
    """An error about a name that is not among ``known``; it names the nearest one."""
    known = tuple(known)
    hint = f"nearest: {_nearest(name, known)!r}" if known else "there is none"
    return TableError(f"{where}: unknown {kind} {name!r}; {hint}")


_ALLOWED = {
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "bool_parsing": "yes, no or unknown",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
}


def _allowed(row: type[BaseModel], error: Any) -> str:
    """What a cell may hold, from pydantic's complaint about it."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return str(column_declaration(row, error["loc"][0])["description"])
    if kind == "literal_error":
        names = re.findall(r"'([^']*)'", context["expected"])
        return f"{', '.join(names)}; nearest: {_nearest(error['input'], names)!r}"
    if kind == "less_than_equal" and context["le"] == 1:
        return "0 to 1 (shares and rates: 30 is not 30 %, 0.3 is)"
    return _ALLOWED[kind].format(**context) if kind in _ALLOWED else str(error["msg"]).removeprefix("Value error, ")


def cell_error(row: type[BaseModel], error: Any, where: str, column: str) -> TableError:
    """An error about one cell, from pydantic's complaint: what it holds and what it may hold."""
    if error["type"] == "missing":
        return TableError(f"{where}, column {column}: blank; a value is required (a blank is missing, never zero)")
    return TableError(f"{where}, column {column}: {error['input']!r}; allowed: {_allowed(row, error)}")


@dataclass(frozen=True)
class Line:
    """A row as written: where it stands (file and line, or address) and its cells by column."""

    where: str
    cells: Mapping[str, str]


@dataclass(frozen=True)
class Entry:
    """A row as written and as understood."""

    line: Line
    row: Any


def _text(label: str, file: Path | Traversable) -> str:
    """Content of a file as UTF-8, a byte order mark removed."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{label}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise TableError(f"{label}: {error.strerror}") from None


def _csv_rows(label: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """Place and stripped cells of each row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    first_line = 1
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield f"{label}, line {first_line}", cells
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise TableError(f"{label}, line {reader.line_num}: {error}") from None


def _check_header(where: str, header: Sequence[str], row: type[BaseModel]) -> None:
    """Each column known and named once, no required column missing."""
    for column in header:
        if column not in row.model_fields:
            raise unknown(where, "column", column, row.model_fields)
        if header.count(column) > 1:
            raise TableError(f"{where}: column {column!r} stands twice")
    for column, field in row.model_fields.items():
        if field.is_required() and column not in header:
            raise TableError(f"{where}: column {column!r} is missing")


def _csv_files(folder: Traversable, prefix: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _csv_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".csv"):
            yield prefix + entry.name


def packaged_files() -> list[str]:
    """Shipped tables as ``package:`` names them, those of other openings included."""
    return sorted(_csv_files(files("market").joinpath("data")))


def _located(name: str, path: Path | str | None) -> tuple[str, Path | Traversable]:
    """What to call the file of a table in messages, and the file."""
    shipped = files("market").joinpath("data")
    if path is None:
        return f"{name}.csv", shipped.joinpath(f"{name}.csv")
    written = Path(path).as_posix()
    if not written.startswith(PACKAGED):
        return str(path), Path(path)
    inside, known = written.removeprefix(PACKAGED), packaged_files()
    if inside not in known:
        raise unknown(f"data.{name}", "packaged table", inside, known)
    return written, shipped.joinpath(*inside.split("/"))


def read(name: str, schema: Schema, path: Path | str | None) -> list[Line]:
    """Lines of a table, from ``path`` (a file, or ``package:`` and a shipped one) or else from the usual shipped file.

    Raises:
        TableError: no such file, no text, no header, an unknown or missing column, a row of another length.
    """
    label, file = _located(name, path)
    rows = _csv_rows(label, _text(label, file))
    where, header = next(rows, (label, []))
    if not header:
        raise TableError(f"{label}: the file is empty; its first line must name the columns")
    _check_header(where, header, schema.row)
    lines = []
    for where, cells in rows:
        if len(cells) != len(header):
            raise TableError(f"{where}: {len(cells)} cells under {len(header)} columns")
        lines.append(Line(where, dict(zip(header, cells, strict=True))))
    if not lines and not schema.may_be_empty:
        raise TableError(f"{label}: no rows below the header")
    return lines


def parse(schema: Schema, lines: Iterable[Line]) -> list[Entry]:
    """Rows of a table, each checked by itself and against a twin."""
    entries: list[Entry] = []
    seen: dict[str, str] = {}
    for line in lines:
        try:
            row = schema.row.model_validate({column: cell for column, cell in line.cells.items() if cell})
        except ValidationError as errors:
            error = errors.errors()[0]
            raise cell_error(schema.row, error, line.where, str(error["loc"][0])) from None
        _check_shares(schema, line.where, row)
        key = schema.key_of(row)
        if key is not None and seen.setdefault(key, line.where) != line.where:
            raise TableError(f"{line.where}: {', '.join(schema.key)} {key!r} already stands at {seen[key]}")
        entries.append(Entry(line, row))
    return entries


def _check_shares(schema: Schema, where: str, row: BaseModel) -> None:
    for group in schema.shares:
        total = math.fsum(getattr(row, column) for column in group)
        if abs(total - 1) > SUM_TOLERANCE:
            raise TableError(f"{where}, columns {', '.join(group)}: sum {total:g}; allowed: 1 within {SUM_TOLERANCE}")
