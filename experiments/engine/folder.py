"""A folder that one process at a time writes, and in which every file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from experiments.engine import lock as locks
from experiments.engine.errors import ScenarioError, StoreError
from experiments.engine.parts import remove

__all__ = ["Folder"]


class Folder:
    """A folder of results.

    Args:
        path: where it stands.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def held(self, command: str = "", notice: Callable[[str], None] | None = None) -> Iterator[None]:
        """Be the one process that writes here while the block runs; a folder made for it stays only if it is filled.

        Args:
            command: what is being done, for those who find the folder in use.
            notice: told when an earlier owner left its lock behind.

        Raises:
            ScenarioError: the folder cannot be written, or another process holds it.
        """
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        lock = self.path / ".lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            held = locks.claim(lock, command, notice)
        except OSError as error:
            _take_away(made)
            raise self.unwritable(error) from None
        try:
            yield
        finally:
            locks.release(lock, held)
            _take_away(made)

    def unwritable(self, error: Exception) -> ScenarioError:
        """The refusal of a folder that cannot be written."""
        reason = error.strerror if isinstance(error, OSError) else error
        return ScenarioError(f"cannot write to {self.path}: {reason}")

    def tidy(self) -> None:
        """Take away what was being written when an earlier process ended."""
        for left in self.path.glob(".tmp-*"):
            remove(left)

    def write_csv(self, name: str, pieces: Iterable[pl.DataFrame]) -> None:
        """Write frames of the same columns, one after the other, as ``NAME.csv``; of many pieces one is held.

        Raises:
            StoreError: the disk refuses.
        """
        with self.renamed(f"{name}.csv") as path, path.open("wb") as file:
            for at, piece in enumerate(pieces):
                piece.write_csv(file, include_header=at == 0)

    def write_text(self, name: str, text: str) -> None:
        """Write a file.

        Raises:
            StoreError: the disk refuses.
        """
        with self.renamed(name) as path:
            path.write_text(text, encoding="utf-8")

    @contextmanager
    def renamed(self, name: str) -> Iterator[Path]:
        """A temporary path that takes the name once the block is through.

        Raises:
            StoreError: the disk refuses.
        """
        path = self.path / f".tmp-{name}"
        try:
            yield path
            os.replace(path, self.path / name)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise StoreError(f"cannot write {self.path / name}: {reason}") from None
        finally:
            path.unlink(missing_ok=True)


def _take_away(folders: Sequence[Path]) -> None:
    """Remove folders, innermost first, as far as they are empty."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
