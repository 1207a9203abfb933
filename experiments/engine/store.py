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
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import tomli_w

from experiments.engine import lock as locks
from experiments.engine.errors import ScenarioError, StoreError
from experiments.engine.parts import Parts, checksum, remove
from experiments.engine.plan import Plan, RunSpec
from experiments.engine.runner import DERIVED, TABLES

__all__ = ["DEFAULT_TABLES", "Store"]

DEFAULT_TABLES = ("market_week", "desk_week", "trend_week", "flow_total")
"""Tables kept besides the outcomes; the other recorded ones are large."""

_ROWS_PER_GROUP = 50_000  # fixed, so that the same rows make the same bytes
_FIRST_FILES = {"scenario.toml", ".lock"}  # what a start that was cut short may leave


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
        self.parts = Parts(out / "parts", self.schemas)

    @contextmanager
    def open(self, command: str = "", notice: Callable[[str], None] | None = None) -> Iterator[None]:
        """Claim the folder for this plan while the block runs.

        Args:
            command: what is being done, for those who find the folder in use.
            notice: told when an earlier owner left its lock behind.

        Raises:
            ScenarioError: the folder cannot be written, is held by another process, or holds something else.
        """
        self._refuse_foreign()
        made = _missing_folders(self.out)
        lock = self.out / ".lock"
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            held = locks.claim(lock, command, notice)
        except OSError as error:
            raise self._unwritable(error, made) from None
        try:
            self._refuse_foreign()
            try:
                self._begin()
            except (OSError, StoreError) as error:
                raise self._unwritable(error, made) from None
            yield
        finally:
            locks.release(lock, held)

    def _unwritable(self, error: Exception, made: Sequence[Path]) -> ScenarioError:
        """The refusal of a folder that cannot be written; folders made for it are taken away again."""
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        reason = error.strerror if isinstance(error, OSError) else error
        return ScenarioError(f"cannot write to {self.out}: {reason}")

    def _begin(self) -> None:
        for left in self.out.glob(".tmp-*"):
            remove(left)
        self.write_text("scenario.toml", self.plan.base.canonical())
        screens = [
            {"title": screen.title, "metrics": list(screen.metrics), "window": screen.window}
            for screen in self.plan.screens
        ]
        shown = {"screens": screens, "risk": self.plan.risk}
        self.write_text("design.toml", tomli_w.dumps({**self._record(), **shown}))
        self.parts.open()

    def _record(self) -> dict[str, Any]:
        return {**self.plan.record(), "tables": sorted(self.schemas)}

    def _refuse_foreign(self) -> None:
        """Refuse a folder that holds another experiment, or anything else."""
        if not self.out.exists():
            return
        if not self.out.is_dir():
            raise ScenarioError(f"cannot write to {self.out}: it is a file")
        held = {entry.name for entry in self.out.iterdir()}
        if "design.toml" in held:
            differences = list(self._differences())
            if differences:
                shown = "; ".join(differences[:4]) + (f"; {len(differences) - 4} more" if len(differences) > 4 else "")
                raise ScenarioError(f"{self.out} holds another experiment ({shown}); give another --out or remove it")
        elif not held <= _FIRST_FILES and not all(name.startswith(".tmp-") for name in held - _FIRST_FILES):
            raise ScenarioError(f"{self.out} is not empty and holds no experiment; give another --out")

    def _differences(self) -> Iterator[str]:
        """Keys in which the folder's experiment differs from this plan's: ``key: held -> wanted``."""
        try:
            design = tomllib.loads((self.out / "design.toml").read_text(encoding="utf-8"))
            scenario = tomllib.loads((self.out / "scenario.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ScenarioError(f"{self.out}: its design or scenario cannot be read: {error}") from None
        for shown in ("screens", "risk"):  # what is shown of an experiment does not make it another
            design.pop(shown, None)
        wanted_scenario = tomllib.loads(self.plan.base.canonical())
        held = _flat({"design": design, "scenario": _substance(scenario)})
        wanted = _flat({"design": self._record(), "scenario": _substance(wanted_scenario)})
        for key in sorted(held.keys() | wanted.keys()):
            if held.get(key) != wanted.get(key):
                name = key.removeprefix("design.").removeprefix("scenario.")
                yield f"{name}: {_brief(held.get(key))} -> {_brief(wanted.get(key))}"

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
            for name, schema in self.schemas.items():
                self._join(name, {"run": pl.String(), **schema}, whole)
            with self._renamed("runs.parquet") as path:
                self._runs(statuses, self.plan.rows()).write_parquet(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise StoreError(f"cannot write to {self.out}: {' '.join(str(error).split())}") from None

    def _join(self, name: str, schema: Mapping[str, Any], whole: Sequence[str]) -> None:
        with self._renamed(f"{name}.parquet") as path:
            if whole:
                paths = [self.parts.folder / run / f"{name}.parquet" for run in whole]
                frames = pl.scan_parquet(paths, schema=dict(schema), glob=False)
                frames.sink_parquet(path, row_group_size=_ROWS_PER_GROUP, maintain_order=True)
            else:
                pl.DataFrame(schema=dict(schema)).write_parquet(path)

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
        self.write_text("manifest.json", json.dumps({**manifest, "complete": False}, indent=2) + "\n")

    def finish(self, manifest: Mapping[str, Any], *, keep_parts: bool) -> None:
        """Write the manifest with the checksums of the tables, then drop the parts that they replace.

        Args:
            manifest: what else to write down: versions, machine, command, times.
            keep_parts: leave them: some run may be tried again.
        """
        names = [*(f"{name}.parquet" for name in self.schemas), "runs.parquet"]
        tables = {name: checksum(self.out / name) for name in names}
        entry = {**manifest, "complete": not keep_parts, "tables": tables}
        self.write_text("manifest.json", json.dumps(entry, indent=2) + "\n")
        if not keep_parts:
            remove(self.parts.folder)

    def discard_empty_parts(self) -> None:
        """Take away the folder of parts where nothing is left to be tried again."""
        with suppress(OSError):
            self.parts.folder.rmdir()

    # ------------------------------------------------------------------------------------------------- files

    def write_csv(self, name: str, pieces: Iterable[pl.DataFrame]) -> None:
        """Write frames of the same columns, one after the other, as ``NAME.csv``; of many pieces one is held.

        Raises:
            StoreError: the disk refuses.
        """
        with self._renamed(f"{name}.csv") as path, path.open("wb") as file:
            for at, piece in enumerate(pieces):
                piece.write_csv(file, include_header=at == 0)

    def read(self, name: str) -> pl.DataFrame:
        """A table of all runs; while some are missing, of those that are finished.

        Raises:
            ScenarioError: a table that is no table.
        """
        if self.compacted():
            return _read(self.out / f"{name}.parquet")
        done = self.done()
        if name == "runs":
            return self._runs(done, [spec for spec in self.plan.rows() if spec.id in done or spec.problem])
        whole = [spec.id for spec in self.plan.runs() if done.get(spec.id, {}).get("status") == "ok"]
        frames = [_read(self.parts.folder / run / f"{name}.parquet") for run in whole]
        return pl.concat(frames) if frames else pl.DataFrame(schema={"run": pl.String, **self.schemas[name]})

    def scan(self, name: str) -> pl.LazyFrame:
        """The same, read piece by piece where the tables of all runs are there."""
        path = self.out / f"{name}.parquet"
        return pl.scan_parquet(path) if self.compacted() else self.read(name).lazy()

    def done(self) -> dict[str, dict[str, str]]:
        """Status and message of every finished run; unlike `finished` it changes nothing."""
        found = {spec.id: self.parts.status(spec.id) for spec in self.plan.runs()}
        return {run: entry for run, entry in found.items() if entry is not None}

    def write_text(self, name: str, text: str) -> None:
        """Write a file; it appears whole or not at all.

        Raises:
            StoreError: the disk refuses.
        """
        with self._renamed(name) as path:
            path.write_text(text, encoding="utf-8")

    @contextmanager
    def _renamed(self, name: str) -> Iterator[Path]:
        """A temporary path that takes the name once the block is through."""
        path = self.out / f".tmp-{name}"
        try:
            yield path
            os.replace(path, self.out / name)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise StoreError(f"cannot write {self.out / name}: {reason}") from None
        finally:
            path.unlink(missing_ok=True)


def _read(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ScenarioError(f"cannot read {path}: {' '.join(str(error).split())}") from None


def _missing_folders(out: Path) -> list[Path]:
    """Folders that do not exist yet, innermost first."""
    return [folder for folder in (out, *out.parents) if not folder.exists()]


def _column(values: Iterable[Any]) -> pl.Series:
    """A varied parameter as a column of its own type; absent is null."""
    cells = list(values)
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} and kinds:
        return pl.Series(cells, dtype=pl.Int64 if kinds == {int} else pl.Float64, strict=False)
    if kinds == {bool}:
        return pl.Series(cells, dtype=pl.Boolean)
    return pl.Series([None if cell is None else str(cell) for cell in cells], dtype=pl.String)


def _substance(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """A stored scenario without what changes no run: labels, and names of files whose content is hashed."""
    cells = {key: value for key, value in scenario.get("data", {}).items() if "." in key}
    labels = ("name", "description", "source", "data")
    return {key: value for key, value in scenario.items() if key not in labels} | {"data": cells}


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves by dotted path; items of a list by their name, else their position."""
    if isinstance(tree, Mapping):
        pairs = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, list) and any(isinstance(item, Mapping) for item in tree):
        pairs = [(str(item.get("name", at)), item) for at, item in enumerate(tree)]
    else:
        return {prefix: tree}
    return {key: leaf for name, value in pairs for key, leaf in _flat(value, f"{prefix}.{name}".lstrip(".")).items()}


def _brief(value: Any) -> str:
    """A value short enough for a line."""
    if value is None:
        return "absent"
    if isinstance(value, list) and len(value) > 3:
        return f"{value[0]} ... {value[-1]} ({len(value)})"
    text = str(value)
    return text if len(text) <= 40 else text[:12] + "..."
