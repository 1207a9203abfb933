"""Parts: finished runs on disk, one folder each, from the moment they finish until they are compacted.

::

    parts/ID/  run.json and a parquet file per table

A part is written under a temporary name and renamed when complete, and believed only if the checksums in its
``run.json`` agree: what a crash, a full disk or a stray edit left is found, and run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from experiments.engine.errors import StoreError
from experiments.engine.runner import RunResult

__all__ = ["Parts", "checksum", "remove"]

_SAVED = ("status", "message", "traceback")


class Parts:
    """The folder of finished runs; small enough to travel to a worker, which writes its results there.

    Args:
        folder: where they stand.
        schemas: columns and types of the tables to keep, by name.
    """

    def __init__(self, folder: Path, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder = folder.absolute()
        self.schemas = schemas

    def open(self) -> None:
        """Make the folder; take away what was being written when an earlier process ended."""
        self.folder.mkdir(exist_ok=True)
        for left in self.folder.glob(".tmp-*"):
            remove(left)

    def save(self, run: str, result: RunResult) -> None:
        """Write a finished run; it appears whole or not at all.

        Raises:
            StoreError: the disk refuses.
        """
        temporary = self.folder / f".tmp-{run}-{os.getpid()}"
        try:
            temporary.mkdir()
            sums = {name: self._save_table(temporary, run, name, result) for name in self.schemas if result.frames}
            entry = {name: getattr(result, name) for name in _SAVED} | {"sums": sums}
            (temporary / "run.json").write_text(json.dumps(entry), encoding="utf-8")
            remove(self.folder / run)
            os.replace(temporary, self.folder / run)
        except OSError as error:
            remove(temporary)
            raise StoreError(f"cannot write {self.folder / run}: {error.strerror or error}") from None

    def _save_table(self, folder: Path, run: str, name: str, result: RunResult) -> str:
        schema = self.schemas[name]
        frame = result.frames[name].select(pl.col(column).cast(kind) for column, kind in schema.items())
        path = folder / f"{name}.parquet"
        whole = frame.select(pl.lit(run, pl.String).alias("run"), pl.all())
        try:
            whole.write_parquet(path)
        except pl.exceptions.PolarsError as error:  # how polars passes on some refusals of the disk
            raise OSError(" ".join(str(error).split())) from None
        return checksum(path)

    def status(self, run: str) -> dict[str, str] | None:
        """Status and message of a finished run, None where there is none that can be believed."""
        folder = self.folder / run
        try:
            entry = json.loads((folder / "run.json").read_text(encoding="utf-8"))
            whole = all(checksum(folder / f"{name}.parquet") == total for name, total in entry["sums"].items())
            complete = entry["status"] != "ok" or entry["sums"].keys() == self.schemas.keys()
            return {name: entry[name] for name in _SAVED} if whole and complete else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def believed(self, run: str) -> dict[str, str] | None:
        """As `status`; what cannot be believed is removed."""
        entry = self.status(run)
        if entry is None:
            remove(self.folder / run)
        return entry


def checksum(path: Path) -> str:
    """BLAKE2b of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def remove(path: Path) -> None:
    """Remove a file or folder; nothing there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
