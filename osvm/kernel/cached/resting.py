"""Working sets on the rows that matter, where the cache cannot hold the columns of all rows.

Few rows of a large set are support vectors or come near the margin; the others can rest while
those are learnt (Joachims, "Making large-scale SVM learning practical", 1999, section 4).  A
quarter of the rows is learnt first; its machine says which of all rows may matter, these are
learnt to the tolerance from there, and the rows that rested are looked at again.

Invariants
- rows that rest have no coefficient; a row that violates by more than half of tol does not rest;
- the outputs of a resting row are computed again unless its margin, as it was when they were
  last computed, exceeds |f - f'| <= ||w - w'|| sqrt(k(x, x)), the most that they can have changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from osvm._input.types import Array
from osvm.kernel.cached.task import Task
from osvm.kernel.cached.working_sets import BlockSolver

FIRST = 4  # one row in so many is learnt first
NEAR = 0.2  # rows that exceed the margin by less may come to matter
CHUNK = 1 << 22  # kernel values computed at once


def can_rest(task: Task, dtype: str) -> bool:
    """One output, and a cache for fewer than a quarter of the columns?"""
    computed = task.kernel.name not in ("precomputed", "python")
    room = task.cache_size * 2**20 / (task.n * np.dtype(dtype).itemsize)
    return computed and len(task.Y) == 1 and FIRST * room < task.n


@dataclass
class Resting:
    """One output of a task; `upper` are the largest coefficients."""

    task: Task
    upper: Array
    bias: bool
    dtype: str

    def __post_init__(self) -> None:
        n = self.task.n
        self.y = self.task.Y[0]
        self.alpha, self.outputs = np.zeros(n), np.zeros(n)
        self.b = 0.0
        self.n_sets = 0
        self.stats = {"computed": 0.0, "hits": 0.0}

    def solve(self, learn_first: Any, size: int, max_sets: int) -> bool:
        """Work until no violation exceeds tol; True when that was reached.

        `learn_first(columns, rows)` gives a solved machine of these rows.
        """
        task, y, n = self.task, self.y, self.task.n
        rows = task.order(True)[: n // FIRST]
        self._take(learn_first(task.columns(self.dtype, order=rows), rows), rows)
        roots = np.sqrt(task.kernel.diagonal(task.X))
        slack = np.full(n, -np.inf)  # what the margin of a resting row can lose at least
        active = np.zeros(n, bool)
        active[rows] = True
        to_tol = False
        while True:
            stale = np.flatnonzero(~active & (slack < 0))
            self._evaluate(stale)
            margin = y * (self.outputs + self.b) - 1.0
            violates = (margin[stale] < -0.5 * task.tol) & (self.upper[stale] > 0)
            if to_tol and not violates.any():
                return True
            known = active.copy()
            known[stale] = True
            active = known & ((self.alpha != 0) | ((margin < NEAR) & (self.upper > 0)))
            slack[known] = margin[known]
            rows = np.flatnonzero(active)
            alpha, outputs, b = self.alpha[rows], self.outputs[rows], self.b
            columns = task.columns(self.dtype, order=rows)
            machine = BlockSolver(columns, y[rows], self.upper[rows], bias=self.bias, size=size)
            machine.start(alpha, outputs)
            to_tol = machine.solve(task.tol, max_sets - self.n_sets)
            self._take(machine, rows)
            square = (self.alpha[rows] - alpha) @ (self.outputs[rows] - outputs)
            slack -= max(float(square), 0.0) ** 0.5 * roots + abs(self.b - b)
            if not to_tol:
                return False

    def _take(self, machine: Any, rows: Array) -> None:
        """What was learnt of these rows."""
        self.alpha[rows], self.outputs[rows] = machine.alpha_, machine.outputs
        self.b = machine.b if self.bias else 0.0
        self.n_sets += machine.n_sets
        share = len(rows) / self.task.n
        self.stats["computed"] += machine.columns.computed * share
        self.stats["hits"] += machine.columns.hits

    def _evaluate(self, rows: Array) -> None:
        """Outputs of these rows, without an offset."""
        support = np.flatnonzero(self.alpha)
        vectors = self.task.X[support].astype(self.dtype, copy=False)
        weights = self.alpha[support].astype(self.dtype)
        step = max(1, CHUNK // max(1, len(support)))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            values = self.task.kernel(self.task.X[part].astype(self.dtype, copy=False), vectors)
            self.outputs[part] = values @ weights
        self.stats["computed"] += len(support) * len(rows) / self.task.n
