"""How many threads a call may use, and a team of them that survives Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from osvm._input.parameters import check_integer

__all__ = ["Team", "resolve_jobs"]


def resolve_jobs(n_jobs: int | None) -> int:
    """Threads to use: None is one, a negative number counts back from all cores."""
    if n_jobs is None:
        return 1
    n_jobs = check_integer("n_jobs", n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: give a number of threads, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


class Team:
    """The calling thread and n - 1 others, which work in turns.

    A Ctrl-C waits until all threads are through with their turn, so that it always finds
    a consistent model.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._interrupt: tuple[Any, ...] | None = None
        self._handler: Any = None

    def __enter__(self) -> Team:
        self._pool = ThreadPoolExecutor(self.n - 1)
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if error[0] is None:
            self.raise_interrupt()

    def _note(self, *interrupt: Any) -> None:
        self._interrupt = interrupt

    def each(self, work: Callable[[int], Any]) -> list[Any]:
        """work(0) .. work(n - 1), all at once; the results."""
        others = [self._pool.submit(work, k) for k in range(1, self.n)]
        try:
            own = work(0)
        finally:
            wait(others)
        return [own, *(other.result() for other in others)]

    def raise_interrupt(self) -> None:
        """What the program does at the Ctrl-C that came meanwhile, if one came."""
        if self._interrupt is not None:
            interrupt, self._interrupt = self._interrupt, None
            self._handler(*interrupt)
