"""The folder of an experiment: written run by run, complete at any moment, few files at the end.

::

    out/  scenario.toml design.toml manifest.json runs.parquet outcomes.parquet market_week.parquet desk_week.parquet
          trend_week.parquet flow_total.parquet [seller_week.parquet ...] summary.csv effects.csv figures/
          parts/ID/  finished runs, until all of them are compacted

Every file is written under a temporary name and renamed when complete. Tables hold no clock, host or duration: those
stand in the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from experiments.engine.errors import ScenarioError, StoreError
from experiments.engine.folder import Folder
from experiments.engine.identity import Identity
from experiments.engine.parts import Parts, checksum, remove
from experiments.engine.plan import Plan, RunSpec
from experiments.engine.runner import DERIVED, TABLES

__all__ = ["DEFAULT_TABLES", "Store"]

DEFAULT_TABLES = ("market_week", "desk_week", "trend_week", "flow_total")
"""Tables kept besides the outcomes; the other recorded ones are large."""

_ROWS_PER_GROUP = 50_000  # fixed, so that the same rows make the same bytes


class Store:
    """The folder of one plan.

    Args:
        out: the folder; made when it is opened.
        plan: what belongs in it.
        outcome_schema: columns and types of a run's outcomes.
        tables: recorded tables to keep; the derived ones are kept always, a report is made of them.
    """

    def __init__(
        self,
        out: Path,
        plan: Plan,
        outcome_schema: Mapping[str, Any],
        tables: Sequence[str] = DEFAULT_TABLES,
    ) -> None:
        self.out = out
        self.plan = plan
        kept = {table: (TABLES | DERIVED)[table] for table in dict.fromkeys([*tables, *DERIVED])}
        self.schemas: dict[str, dict[str, Any]] = {"outcomes": dict(outcome_schema), **kept}
        self.folder = Folder(out)
        self.parts = Parts(out / "parts", self.schemas)
        self._identity = Identity(plan, list(self.schemas))

    @contextmanager
    def open(self, command: str = "", notice: Callable[[str], None] | None = None) -> Iterator[None]:
        """Claim the folder for this plan while the block runs; arguments as in `Folder.held`.

        Raises:
            ScenarioError: the folder cannot be written, is held by another process, or holds something else.
        """
        self._identity.refuse_another(self.out)
        with self.folder.held(command, notice):
            self._identity.refuse_another(self.out)
            try:
                self._begin()
            except (OSError, StoreError) as error:
                raise self.folder.unwritable(error) from None
            yield

    def _begin(self) -> None:
        self.folder.tidy()
        self._identity.write(self.folder)
        self.parts.open()

    def finished(self) -> dict[str, dict[str, str]]:
        """Status and message of every run that need not be run again; what cannot be believed is removed."""
        if self.complete():
            runs = pl.read_parquet(self.out / "runs.parquet").to_dicts()
            return {row["id"]: {"status": row["status"], "message": row["message"]} for row in runs}
        found = {spec.id: self.parts.believed(spec.id) for spec in self.plan.runs()}
        return {run: entry for run, entry in found.items() if entry is not None}

    def forget_failed(self) -> None:
        """Take away the runs that did not end well, so that they are run again."""
        for run, entry in self.finished().items():
            if entry["status"] != "ok":
                remove(self.parts.folder / run)

    # ------------------------------------------------------------------------------------------------- compaction

    def manifest(self) -> dict[str, Any]:
        """What is written down beside the tables; empty where nothing can be read."""
        try:
            entry = json.loads((self.out / "manifest.json").read_text(encoding="utf-8"))
            return entry if isinstance(entry, dict) else {}
        except (OSError, ValueError):
            return {}

    def complete(self) -> bool:
        """Whether no run is to be tried (again) and the tables are what the manifest says."""
        return self.manifest().get("complete") is True and self.compacted()

    def compacted(self) -> bool:
        """Whether the tables of all runs are there and are what the manifest says."""
        try:
            sums = self.manifest()["tables"]
            return bool(sums) and all(checksum(self.out / name) == sums[name] for name in sums)
        except (OSError, KeyError, TypeError):
            return False

    def compact(self, statuses: Mapping[str, Mapping[str, str]]) -> None:
        """Join the parts in the order of the plan, a table at a time and without holding it in memory.

        Args:
            statuses: status and message by run id, of every run of the plan.
        """
        whole = [spec.id for spec in self.plan.runs() if statuses[spec.id]["status"] == "ok"]
        try:
            for name in self.schemas:
                self._join(name, whole)
            with self.folder.renamed("runs.parquet") as path:
                self._runs(statuses, self.plan.rows()).write_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise StoreError(f"cannot write to {self.out}: {' '.join(str(error).split())}") from None

    def _join(self, name: str, whole: Sequence[str]) -> None:
        with self.folder.renamed(f"{name}.parquet") as path:
            frames = self._joined(name, whole)
            frames.sink_parquet(path, row_group_size=_ROWS_PER_GROUP, maintain_order=True)

    def _joined(self, name: str, whole: Sequence[str]) -> pl.LazyFrame:
        """A table of the parts of some runs, in their order."""
        schema = {"run": pl.String(), **self.schemas[name]}
        paths = [self.parts.folder / run / f"{name}.parquet" for run in whole]
        return pl.scan_parquet(paths, schema=schema, glob=False) if paths else pl.LazyFrame(schema=schema)

    def _runs(self, statuses: Mapping[str, Mapping[str, str]], rows: Sequence[RunSpec]) -> pl.DataFrame:
        """``runs.parquet``: id, arm, seed, status, message, and every key in which runs differ."""
        invalid = {spec.id: {"status": "invalid", "message": spec.problem} for spec in rows if spec.problem}
        said = {**statuses, **invalid}
        columns = {
            "id": pl.Series([spec.id for spec in rows], dtype=pl.String),
            "arm": pl.Series([spec.arm for spec in rows], dtype=pl.String),
            "seed": pl.Series([spec.seed for spec in rows], dtype=pl.Int64),
            "status": pl.Series([said[spec.id]["status"] for spec in rows], dtype=pl.String),
            "message": pl.Series([said[spec.id]["message"] for spec in rows], dtype=pl.String),
        }
        values = {arm.name: arm.values() for arm in (*self.plan.arms, *self.plan.outer)}
        for key in self.plan.columns():
            columns[key] = _column([values[spec.arm].get(key) for spec in rows])
        return pl.DataFrame(columns)

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Write down what is being run, until `finish`: a report of half an experiment says how to go on."""
        self.folder.write_text("manifest.json", json.dumps({**manifest, "complete": False}, indent=2) + "\n")

    def finish(self, manifest: Mapping[str, Any], *, keep_parts: bool) -> None:
        """Write the manifest with the checksums of the tables, then drop the parts that they replace.

        Args:
            manifest: what else to write down: versions, machine, command, times.
            keep_parts: leave them: some run may be tried again.
        """
        names = [*(f"{name}.parquet" for name in self.schemas), "runs.parquet"]
        tables = {name: checksum(self.out / name) for name in names}
        entry = {**manifest, "complete": not keep_parts, "tables": tables}
        self.folder.write_text("manifest.json", json.dumps(entry, indent=2) + "\n")
        if not keep_parts:
            remove(self.parts.folder)

    def discard_empty_parts(self) -> None:
        """Take away the folder of parts where nothing is left to be tried again."""
        with suppress(OSError):
            self.parts.folder.rmdir()

    # ------------------------------------------------------------------------------------------------- reading

    def read(self, name: str) -> pl.DataFrame:
        """A table of all runs; while some are missing, of those that are finished.

        Raises:
            ScenarioError: a table that is no table.
        """
        try:
            return self.scan(name).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ScenarioError(f"cannot read {name} of {self.out}: {' '.join(str(error).split())}") from None

    def scan(self, name: str) -> pl.LazyFrame:
        """The same, read as far as it is asked for."""
        if self.compacted():
            return pl.scan_parquet(self.out / f"{name}.parquet")
        done = self.done()
        if name == "runs":
            return self._runs(done, [spec for spec in self.plan.rows() if spec.id in done or spec.problem]).lazy()
        whole = [spec.id for spec in self.plan.runs() if done.get(spec.id, {}).get("status") == "ok"]
        return self._joined(name, whole)

    def done(self) -> dict[str, dict[str, str]]:
        """Status and message of every finished run; unlike `finished` it changes nothing."""
        found = {spec.id: self.parts.status(spec.id) for spec in self.plan.runs()}
        return {run: entry for run, entry in found.items() if entry is not None}


def _column(values: Iterable[Any]) -> pl.Series:
    """A varied parameter as a column of its own type; absent is null."""
    cells = list(values)
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} and kinds:
        return pl.Series(cells, dtype=pl.Int64 if kinds == {int} else pl.Float64, strict=False)
    if kinds == {bool}:
        return pl.Series(cells, dtype=pl.Boolean)
    return pl.Series([None if cell is None else str(cell) for cell in cells], dtype=pl.String)
