"""What can go wrong in ways a user can mend, each in one line."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["ImpossibleError", "ScenarioError", "StoppedError", "StoreError", "nearest"]


class ScenarioError(ValueError):
    """Bad input: one line with what is wrong, where, the value, what is allowed and the nearest valid name."""


class ImpossibleError(ScenarioError):
    """A value of the right kind outside what is allowed: as one arm of many it is a row that says so."""


class StoppedError(RuntimeError):
    """A run did not end well and the user asked to stop there; what is finished is kept."""


class StoreError(RuntimeError):
    """Results cannot be written or read: one line with the path and the reason."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; nearest: NAME"``, or the known names where none is close (at most twelve)."""
    names = list(known)
    folded = {each.casefold(): each for each in names}
    if close := get_close_matches(name.casefold(), folded, n=1, cutoff=0.5):
        return f"; nearest: {folded[close[0]]}"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"; known: {shown}" if shown else ""
