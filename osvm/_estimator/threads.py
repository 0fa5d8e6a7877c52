"""How many threads a call may use, their shares, and a team of them that survives Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from osvm._input.parameters import check_integer
from osvm._input.rows import RowSource
from osvm._input.scan import open_csr, open_dense, repeats_columns

FEW_ROWS = 1000  # are scored sooner than threads start,
MANY_VALUES = 1 << 20  # and fewer than these are checked


def resolve_jobs(n_jobs: int | None) -> int:
    """Threads to use: None is one, a negative number counts back from all cores."""
    if n_jobs is None:
        return 1
    n_jobs = check_integer("n_jobs", n_jobs)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: give a number of threads, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def row_parts(X: Any, jobs: int) -> list[Any]:
    """X in shares of its rows that view its arrays; X alone where it is small or no such X.

    What is not valid in a CSR matrix is not valid in one of its shares.
    """
    kind = type(X)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if jobs == 1 or len(shape) != 2 or shape[0] < FEW_ROWS:
        return [X]
    edges = np.linspace(0, shape[0], jobs + 1).astype(int).tolist()
    if kind is np.ndarray:
        return [X[a:b] for a, b in pairwise(edges)]
    if kind not in (sp.csr_matrix, sp.csr_array) or len(X.indptr) != shape[0] + 1:
        return [X]
    parts = []
    for a, b in pairwise(edges):
        part = kind((b - a, shape[1]), dtype=X.dtype)
        begin = int(X.indptr[a]) if a else 0
        end = int(X.indptr[b]) if b < shape[0] else len(X.indices)
        # set, not given to the constructor, which may convert the indices
        part.data, part.indices = X.data[begin:end], X.indices[begin:end]
        part.indptr = X.indptr[a : b + 1] - X.indptr.dtype.type(begin)
        parts.append(part)
    return parts


def open_in_shares(X: Any, jobs: int) -> RowSource | None:
    """X, checked by threads; None where one of them does it as soon, or has to name a fault."""
    if jobs == 1 or len(parts := row_parts(X, jobs)) == 1:
        return None
    if (X.size if isinstance(X, np.ndarray) else len(X.indices)) < MANY_VALUES:
        return None

    def opened(k: int) -> RowSource | None:
        part = parts[k]
        if isinstance(part, np.ndarray):
            return open_dense(part)
        source = open_csr(part.data, part.indices, part.indptr, *part.shape)
        return None if source is None or repeats_columns(source) else source

    with Team(jobs) as team:
        sources = team.each(opened)
    if any(source is None for source in sources):
        return None
    if isinstance(X, np.ndarray):
        whole = RowSource.dense(X)
    else:
        whole = RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    whole.largest = max(source.largest for source in sources if source is not None)
    return whole


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
