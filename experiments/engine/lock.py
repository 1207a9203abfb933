"""The lock of a folder: one process at a time works in it, and everybody else is told who.

The system holds the lock and lets go of it when its owner ends, however it ends; the file says who the owner is, for
people. So a file without a living owner stops nobody: it is taken over, and that is said.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from experiments.engine.errors import ScenarioError

__all__ = ["claim", "release"]

_TRIES = 5  # a lock file may be removed between its opening and its locking


def claim(path: Path, command: str = "", notice: Callable[[str], None] | None = None) -> int:
    """Hold a lock file; returns its descriptor.

    Args:
        path: the file; made where there is none.
        command: what the owner does, for those who are refused.
        notice: told when the lock of an owner that is gone is taken over.

    Raises:
        ScenarioError: another process holds it.
        OSError: the file cannot be written, or the file system knows no locks.
    """
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _held(descriptor):
            owner = _owner(descriptor) or "another process"
            os.close(descriptor)
            raise ScenarioError(f"{path.parent} is in use by {owner}; wait for it, or choose another folder")
        if _same(descriptor, path):
            try:
                _sign(descriptor, path, command, notice)
            except OSError:
                release(path, descriptor)
                raise
            return descriptor
        os.close(descriptor)
    raise ScenarioError(f"{path.parent} is in use by processes that come and go; try again")


def release(path: Path, descriptor: int) -> None:
    """Let go of a lock."""
    path.unlink(missing_ok=True)
    os.close(descriptor)


def _held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same(descriptor: int, path: Path) -> bool:
    """Whether the path still names the locked file: its last owner may have removed it meanwhile."""
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _owner(descriptor: int) -> str:
    return os.pread(descriptor, 1000, 0).decode(errors="replace").strip()


def _sign(descriptor: int, path: Path, command: str, notice: Callable[[str], None] | None) -> None:
    left = _owner(descriptor)
    if left and notice is not None:
        notice(f"{path.parent}: its last owner has ended without tidying up ({left}); what it finished is kept")
    since = datetime.now(UTC).isoformat(timespec="seconds")
    doing = command or Path(sys.argv[0] or "python").name
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename} since {since} ({doing})\n".encode(), 0)
