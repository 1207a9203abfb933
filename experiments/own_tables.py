"""Tables of one's own: files in the place of shipped tables, single cells changed, and tables written out to edit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from experiments.engine.errors import ScenarioError, nearest
from experiments.entries import Cell, Entry
from market.parameters import Parameters
from market.tables import PACKAGED, TABLE_NAMES, TableError, Tables, load_tables

__all__ = ["DataChoice", "read_data", "write_tables"]


class DataChoice(Parameters):
    """Tables replaced by files, and single cells changed.

    Attributes:
        files: absolute path by table name.
        cells: value by address ``TABLE.ROW.COLUMN``.
    """

    files: dict[str, str] = Field(default_factory=dict)
    cells: dict[str, Cell] = Field(default_factory=dict)

    def keys(self) -> dict[str, Any]:
        """Both, by the keys of a scenario: ``data.TABLE`` and ``data.TABLE.ROW.COLUMN``."""
        return {f"data.{key}": value for key, value in (self.files | self.cells).items()}

    def tables(self) -> Tables:
        """The tables, checked: shipped ones, files in their place, cells changed.

        Raises:
            ScenarioError: what is wrong in a table, in one line.
        """
        try:
            tables = load_tables({name: Path(path) for name, path in self.files.items()})
            cells = {f"data.{address}": value for address, value in self.cells.items()}
            return tables.with_cells(cells) if cells else tables
        except TableError as error:
            raise ScenarioError(str(error)) from None


def read_data(entries: Mapping[str, Entry]) -> DataChoice:
    """Files and cells of the entries ``data.TABLE`` and ``data.TABLE.ROW.COLUMN``; file names become absolute.

    Raises:
        ScenarioError: no such table, or a value of another kind.
    """
    chosen, cells = {}, {}
    for key, (value, where, folder) in entries.items():
        name = key.removeprefix("data.")
        table = name.partition(".")[0]
        if table not in TABLE_NAMES:
            raise ScenarioError(f"{where}: {key}: unknown table {table!r}{nearest(table, TABLE_NAMES)}")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ScenarioError(f"{where}: {key} = {value!r}; allowed: a file for a table, a value for a cell")
        if name == table:
            if not isinstance(value, str):
                raise ScenarioError(f"{where}: {key} = {value!r}; allowed: a CSV file")
            chosen[table] = value if value.startswith(PACKAGED) else str((folder / value).resolve())
        else:
            cells[name] = value
    return DataChoice(files=chosen, cells=cells)


def write_tables(tables: Tables, folder: Path) -> dict[str, Path]:
    """Write tables as files to edit and bring back; their paths by table.

    Raises:
        ScenarioError: a file exists already or cannot be written; then none is written.
    """
    paths = {name: folder / f"{name}.csv" for name in TABLE_NAMES}
    for path in paths.values():
        if path.exists():
            raise ScenarioError(f"{path} exists and is left as it is; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in paths.items():
            path.write_text(tables.csv(name), encoding="utf-8", newline="")
    except OSError as error:
        raise ScenarioError(f"cannot write to {folder}: {error.strerror}") from None
    return paths
