"""A deadline for a block of code: what is not done in time is interrupted.

In the main thread of a process a timer signal does it, so that waiting ends too; in any other thread (a cluster's
worker, a server) an exception is put into the thread, which sees it at its next line of Python. Neither stops compiled
code that never returns: executors give up on such a run from outside.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

__all__ = ["DeadlineError", "deadline"]

_AGAIN_SECONDS = 1.0  # an interruption that something swallowed is repeated


class DeadlineError(BaseException):
    """The time is over. Not an `Exception`, so that code which handles those does not handle this."""


def deadline(seconds: float | None) -> AbstractContextManager[None]:
    """Interrupt the block with `DeadlineError` after this many seconds; None: never."""
    if seconds is None:
        return nullcontext()
    return _by_signal(seconds) if threading.current_thread() is threading.main_thread() else _in_thread(seconds)


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def over(*_: object) -> None:
        raise DeadlineError

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _in_thread(seconds: float) -> Iterator[None]:
    thread, done = threading.get_ident(), threading.Event()
    put, seen = 0, 0

    def watch() -> None:
        nonlocal put
        wait = seconds
        while not done.wait(wait):
            put += 1
            _put(thread, DeadlineError)
            wait = _AGAIN_SECONDS

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except DeadlineError:
        seen = 1
        raise
    finally:
        done.set()
        watcher.join()
        # Take back what was put and not yet seen, and only then: with nothing to take, a traced thread of Python 3.11
        # never gets out of looking for it.
        if put > seen:
            _put(thread, None)


def _put(thread: int, exception: type[BaseException] | None) -> None:
    found = ctypes.py_object(exception) if exception is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), found)
