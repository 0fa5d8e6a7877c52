"""The problems of one task, solved side by side by working sets on growing prefixes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osvm.kernel.cached.task import FEW_ROWS
from osvm.kernel.cached.working_sets import BlockSolver, grow_together, solve_together

Array = NDArray[np.float64]
MANY_ROWS = 6000  # from here on, columns cost more than the steps inside a working set
LONG_ROWS = 512  # numbers; the same from a thousand rows on


def most_passes(n: int) -> int:
    """Passes after which a solver to a tolerance gives up: 10**7 rows, at least a hundred."""
    return max(100, -(-(10**7) // n))


def solve_sets(
    columns: Any,
    Y: Array,
    upper: Array,
    *,
    bias: bool,
    size: int | None,
    tol: float,
    passes: int,
    grow: bool = True,
    start: Array | None = None,
    target: Array | None = None,
) -> tuple[list[Any], list[bool]]:
    """A solved `BlockSolver` for each line of Y, and whether it reached tol.

    A pass is as many rows in working sets as there are rows.  Learning begins on a prefix
    of the rows that doubles (`grow`), or on all rows with the signed coefficients `start`,
    whose sums are kept.  All lines share the columns, and go on side by side.
    """
    n = columns.n
    if size is None:
        size = 64 if n < FEW_ROWS else 128
        if columns.depth >= LONG_ROWS and n >= FEW_ROWS // 2:
            size = 192
        if len(Y) == 1 and n >= MANY_ROWS and not columns.near:
            size = 256
    machines = [BlockSolver(columns, y, upper, target=target, bias=bias, size=size) for y in Y]
    budget = max(1, -(-passes * n // machines[0].size))
    m = min(n, max(512, n // 8)) if grow and start is None else n
    for q in range(0 if start is None else len(machines)):
        assert start is not None
        machines[q].start(start[q], total=float(np.sum(start[q])))
    while True:
        grow_together(machines, m)
        good = solve_together(machines, tol if m == n else max(tol, 0.1), budget)
        if m == n:
            return machines, good
        m = min(n, 2 * m)
