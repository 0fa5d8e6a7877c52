"""Dual coefficients with cached outputs: the adatron on working sets.

The adatron's step alpha_i <- clip(alpha_i + (1 - y_i o_i)/k(x_i, x_i), 0, C) with the next
example chosen by the largest violation (Friess, Cristianini and Campbell 1998; Kecman, Vogt
and Huang 2003, who show it equal to sequential minimal optimisation without bias).  With a
bias the coefficients obey sum_i y_i alpha_i = 0, and the step is LASVM's and SMO's: it moves
weight between the most violating pair (Bordes, Ertekin, Weston and Bottou 2005).

Working sets.  A set of the largest violators, together with coefficients that were free in
the set before, is solved alone, with the kernel values inside the set; only then do their
columns reach the outputs of all rows.  A set of one row is the plain largest-violation
adatron.  Columns are fetched as one block, so they cost a matrix product.  A block of few
columns costs three times as much a column as one of 64 (the product reads all rows anew), so
several problems over the same rows take their sets in turns and their columns together, and
a small block is filled up with the columns of the next violators (`solve_together`).

Growing.  Rows stand in random order and learning starts on a prefix that doubles: what is
no support vector of a prefix seldom becomes one, so few columns are computed in full.

Invariants
- 0 <= a_i <= upper_i for rows below `m`, a_i = 0 beyond it; o is exact for rows below m.
- with a bias, sum_i y_i a_i = 0 up to rounding.
- the violation of a row is |1 - y o|, or 0 where a bound forbids the step; with a bias the
  gap between the largest y - o that may grow and the smallest that may fall.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs
from libc.stdint cimport int64_t

from osvm.kernel.cached.columns cimport MAX_BLOCK, Columns
from osvm.kernel.cached.heap cimport offer

import numpy as np

cdef extern from "../_c/pairs.h" nogil:
    Py_ssize_t osvm_pair_steps(Py_ssize_t count, Py_ssize_t stride, const double *gram,
                               const double *diagonal, double *g, double *s, const double *low,
                               const double *high, int64_t *up, int64_t *down, double tol,
                               Py_ssize_t limit)
    Py_ssize_t osvm_single_steps(Py_ssize_t count, Py_ssize_t stride, const double *gram,
                                 const double *diagonal, double *g, double *s, const double *low,
                                 const double *high, int64_t *up, int64_t *down, double tol,
                                 Py_ssize_t limit)


cdef enum:
    FULL = 64  # columns that make a matrix product cheap

cdef double NEXT = 0.1  # rows that violate by minus this are expected to


cdef class BlockSolver:
    """Dual coefficients of a support vector machine by working sets.

    Parameters
    ----------
    columns : Columns
    y : (n,) float64 array of -1 and +1
        The sign of each row's coefficient.
    upper : (n,) float64 array
        Largest coefficient of each row (C, times the row's weight).
    target : (n,) float64 array, optional
        The output that each row asks for: y, as for classes, by default.  A regression has
        every row twice, with y = +1 and target t - epsilon, and with -1 and t + epsilon.
    bias : bool
        Pair steps under sum y a = 0 instead of single ones.
    size : int, default=64
        Rows in a working set, at most 256; 1 without a bias is the plain adatron.
    """

    cdef readonly Columns columns
    cdef readonly object y, upper, target, a, outputs
    cdef double[::1] yv, uv, tv, av, ov
    cdef readonly Py_ssize_t m, size, n_sets, n_steps
    cdef readonly double violation, b
    cdef readonly bint bias
    cdef object room
    cdef double *gram
    cdef unsigned char[::1] inside
    cdef Py_ssize_t set_[MAX_BLOCK]
    cdef Py_ssize_t n_set

    def __init__(self, Columns columns, y, upper, *, target=None, bias=False,
                 Py_ssize_t size=64):
        if size < 1 or size > MAX_BLOCK or (bias and size < 2):
            raise ValueError(f"a working set has 1 to {MAX_BLOCK} rows (2 with a bias), "
                             f"got {size}")
        self.columns = columns
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.upper = np.ascontiguousarray(upper, dtype=np.float64)
        self.target = self.y
        if target is not None:
            self.target = np.ascontiguousarray(target, dtype=np.float64)
        if not self.y.shape == self.upper.shape == self.target.shape == (columns.n,):
            raise ValueError("y, upper and target need one entry per row")
        self.a = np.zeros(columns.n)
        self.outputs = np.zeros(columns.n)
        self.yv, self.uv, self.av, self.ov = self.y, self.upper, self.a, self.outputs
        self.tv = self.target
        self.bias = bias
        self.size = min(size, columns.n)
        self.room = np.zeros((self.size + 4) * (self.size + 4))
        self.gram = <double *> <size_t> self.room.ctypes.data
        self.inside = np.zeros(columns.n, np.uint8)
        self.m = 0
        self.n_set = 0
        self.violation = np.inf

    def start(self, alpha, outputs=None, *, double total=0.0):
        """Begin with these signed coefficients (of any rows) instead of 0.

        `outputs` are theirs on all rows, where known; all rows take part then.  With a bias
        the coefficients sum to `total`, as they will after every step.
        """
        self.a[:] = np.clip(self.y * np.asarray(alpha, dtype=np.float64), 0, self.upper)
        if self.bias and abs(self.y @ self.a - total) > 1e-9 * (1 + self.a.sum()):
            raise ValueError(f"with a bias the coefficients must sum to {total:g}")
        if outputs is not None:
            self.outputs[:] = outputs
            self.m = self.columns.n
            self.n_set = 0
            self.violation = np.inf
            return
        self.outputs[:] = 0.0
        cdef Py_ssize_t m = self.m if self.m else self.columns.n
        self.m = 0
        self.grow(m)

    def grow(self, Py_ssize_t m):
        """Let the first m rows take part: bring their outputs up to date."""
        cdef Py_ssize_t i, k, count = 0, size, old = self.m
        cdef Py_ssize_t rows[MAX_BLOCK]
        cdef double delta[MAX_BLOCK]
        cdef void *pointers[MAX_BLOCK]
        m = min(m, self.columns.n)
        if m <= old:
            return
        size = 8 if self.columns.wide else 4
        with nogil:
            for i in range(self.columns.n):
                if self.av[i] > 0.0:
                    rows[count] = i
                    delta[count] = self.yv[i] * self.av[i]
                    count += 1
                if count == MAX_BLOCK or (i == self.columns.n - 1 and count):
                    self.columns.fetch(rows, count, m, pointers)
                    for k in range(count):
                        pointers[k] = <char *> pointers[k] + old * size
                    self.columns.combine(&self.ov[old], m - old, pointers, delta, count)
                    count = 0
        self.m = m
        self.n_set = 0
        self.violation = np.inf

    def solve(self, double tol, Py_ssize_t max_sets=1000000, double inner=0.1):
        """Work until no violation exceeds tol; True when that was reached."""
        return bool(solve_together([self], tol, self.n_sets + max_sets, inner)[0])

    @property
    def alpha_(self):
        """Signed coefficients."""
        return self.y * self.a

    # ------------------------------------------------------------- choosing rows

    cdef double choose(self) noexcept nogil:
        """Fill `set_`; the largest violation."""
        cdef double keys[MAX_BLOCK]
        cdef double low_keys[MAX_BLOCK]
        cdef Py_ssize_t items[MAX_BLOCK]
        cdef Py_ssize_t low_items[MAX_BLOCK]
        cdef Py_ssize_t kept = 0, k, i, n_high = 0, n_low = 0, limit, low_limit
        cdef double g, worst = 0.0, highest = -1e300, lowest = 1e300
        cdef Py_ssize_t i_high = -1, i_low = -1
        cdef bint grows, falls
        # free coefficients of the set before, newest first, at most half of the set
        limit = self.size // 2
        for k in range(self.n_set - 1, -1, -1):
            i = self.set_[k]
            if kept < limit and self.av[i] > 0.0 and self.av[i] < self.uv[i]:
                items[kept] = i
                kept += 1
        for k in range(kept):
            self.set_[kept - 1 - k] = items[k]
            self.inside[items[k]] = 1
        limit = self.size - kept
        low_limit = limit
        if self.bias:
            low_limit = limit // 2
            limit -= low_limit
        for i in range(self.m):
            g = self.tv[i] - self.ov[i]
            if self.bias:
                grows = self.av[i] < self.uv[i] if self.yv[i] > 0.0 else self.av[i] > 0.0
                falls = self.av[i] > 0.0 if self.yv[i] > 0.0 else self.av[i] < self.uv[i]
                if grows and g > highest:
                    highest = g
                    i_high = i
                if falls and g < lowest:
                    lowest = g
                    i_low = i
                if self.inside[i]:
                    continue
                if grows and (n_high < limit or g > keys[0]):
                    n_high = offer(keys, items, n_high, limit, g, i)
                if falls and (n_low < low_limit or -g > low_keys[0]):
                    n_low = offer(low_keys, low_items, n_low, low_limit, -g, i)
            else:
                g *= self.yv[i]
                if g > 0.0:
                    if self.av[i] >= self.uv[i]:
                        continue
                else:
                    if self.av[i] <= 0.0:
                        continue
                    g = -g
                if g > worst:
                    worst = g
                if self.inside[i] or (n_high == limit and g <= keys[0]):
                    continue
                n_high = offer(keys, items, n_high, limit, g, i)
        self.n_set = kept
        for k in range(n_high):
            self.set_[self.n_set] = items[k]
            self.inside[items[k]] = 1
            self.n_set += 1
        for k in range(n_low):
            if not self.inside[low_items[k]]:
                self.set_[self.n_set] = low_items[k]
                self.inside[low_items[k]] = 1
                self.n_set += 1
        for k in range(self.n_set):
            self.inside[self.set_[k]] = 0
        if self.bias:
            if i_high < 0 or i_low < 0:
                self.b = highest if i_high >= 0 else lowest
                return 0.0
            self.b = 0.5 * (highest + lowest)
            worst = highest - lowest
        return worst

    cdef Py_ssize_t look_ahead(self, Py_ssize_t *rows, Py_ssize_t limit) noexcept nogil:
        """Up to `limit` rows that violate most among those whose columns are not there."""
        cdef double keys[MAX_BLOCK]
        cdef Py_ssize_t i, count = 0
        cdef double g
        for i in range(self.m):
            g = self.tv[i] - self.ov[i] - (self.b if self.bias else 0.0)
            # up to its bounds a coefficient can follow g
            if self.av[i] >= self.uv[i] if g * self.yv[i] > 0.0 else self.av[i] <= 0.0:
                g = -fabs(g)
            else:
                g = fabs(g)
            if g <= -NEXT or (count == limit and g <= keys[0]):
                continue
            if not self.columns.has(i, self.m) and not self.columns.listed[i]:
                count = offer(keys, rows, count, limit, g, i)
        return count

    # ----------------------------------------------------------- one working set

    cdef int work(self, double inner_tol) except -1 nogil:
        """Solve the set alone, then bring its changes to all outputs."""
        cdef Py_ssize_t count = self.n_set, stride = (self.n_set + 3) // 4 * 4
        cdef Py_ssize_t k, j, i, moved = 0, limit = 50 * count + 100
        cdef void *pointers[MAX_BLOCK]
        cdef double before[MAX_BLOCK]
        cdef double delta[MAX_BLOCK]
        cdef double g[MAX_BLOCK]        # y - o
        cdef double s[MAX_BLOCK]        # signed coefficients, between low and high
        cdef double low[MAX_BLOCK]
        cdef double high[MAX_BLOCK]
        cdef double diagonal[MAX_BLOCK]
        cdef int64_t up[MAX_BLOCK]
        cdef int64_t down[MAX_BLOCK]
        cdef double value
        cdef double *gram = self.gram
        self.columns.fetch(self.set_, count, self.m, pointers)
        for k in range(count):
            for j in range(k + 1):
                if self.columns.wide:
                    value = (<double *> pointers[k])[self.set_[j]]
                else:
                    value = (<float *> pointers[k])[self.set_[j]]
                gram[k * stride + j] = value
                gram[j * stride + k] = value
        for k in range(stride):
            if k >= count:  # padding: no room to move
                g[k] = s[k] = low[k] = high[k] = diagonal[k] = 0.0
                for j in range(count):
                    gram[j * stride + k] = 0.0
                continue
            i = self.set_[k]
            s[k] = before[k] = self.yv[i] * self.av[i]
            low[k] = 0.0 if self.yv[i] > 0.0 else -self.uv[i]
            high[k] = self.uv[i] if self.yv[i] > 0.0 else 0.0
            g[k] = self.tv[i] - self.ov[i]
            diagonal[k] = gram[k * stride + k]
        if self.bias:
            self.n_steps += osvm_pair_steps(count, stride, gram, diagonal, g, s, low, high, up,
                                            down, inner_tol, limit)
        else:
            self.n_steps += osvm_single_steps(count, stride, gram, diagonal, g, s, low, high, up,
                                              down, inner_tol, limit)
        for k in range(count):
            if s[k] != before[k]:
                self.av[self.set_[k]] = fabs(s[k])
                delta[moved] = s[k] - before[k]
                pointers[moved] = pointers[k]
                moved += 1
        self.columns.combine(&self.ov[0], self.m, pointers, delta, moved)
        return 0


# ------------------------------------------------------ several problems at once

def grow_together(list solvers, Py_ssize_t m):
    """`BlockSolver.grow` for solvers that share columns, which are computed once for all."""
    cdef BlockSolver solver = solvers[0]
    cdef Columns columns = solver.columns
    if len(solvers) > 1:
        rows = np.flatnonzero(np.any([one.a > 0 for one in solvers], axis=0))
        if len(rows) <= columns.n_slots:
            for start in range(0, len(rows), MAX_BLOCK):
                columns.touch_block(rows[start:start + MAX_BLOCK], m)
    for solver in solvers:
        solver.grow(m)


def solve_together(list solvers, double tol, Py_ssize_t max_sets, double inner=0.1):
    """Work until no violation exceeds tol; for each solver, whether that was reached.

    The solvers share their columns and take turns: each chooses a working set, the columns
    that are missing for all of them are computed in blocks, and each works on its set.
    `max_sets` limits `n_sets` of each solver.
    """
    cdef BlockSolver solver
    cdef double violation, goal
    good = [False] * len(solvers)
    left = list(range(len(solvers)))
    for solver in solvers:
        if solver.m == 0:
            raise ValueError("no rows take part yet: call grow first")
    while left:
        PyErr_CheckSignals()
        going = []
        for q in left:
            solver = solvers[q]
            with nogil:
                violation = solver.choose()
            solver.violation = violation
            good[q] = violation <= tol
            if not good[q] and solver.n_sets < max_sets:
                going.append(q)
        left = going
        group, held = [], 0
        for k, q in enumerate(left):
            solver = solvers[q]
            group.append(solver)
            held += solver.n_set
            # as many as have their columns in the cache at the same time
            if k + 1 == len(left) or held + MAX_BLOCK > solver.columns.n_slots:
                fetch_together(group, len(solvers) == 1)
                for solver in group:
                    goal = max(tol, solver.violation * inner)
                    with nogil:
                        solver.work(goal)
                    solver.n_sets += 1
                group, held = [], 0
    return good


cdef int fetch_together(list solvers, bint ahead) except -1:
    """Compute the columns that the sets of these solvers miss, in few large blocks.

    `ahead` fills up a small block; several problems fill it by themselves.
    """
    cdef BlockSolver solver = solvers[0]
    cdef Columns columns = solver.columns
    cdef Py_ssize_t m = solver.m, count = 0, total = 0, held = 0, k
    cdef Py_ssize_t missing[MAX_BLOCK]
    cdef void *pointers[MAX_BLOCK]
    cdef unsigned char[::1] listed = columns.listed
    for solver in solvers:
        held += solver.n_set
        for k in range(solver.n_set):
            columns.keep(solver.set_[k])
    for solver in solvers:
        for k in range(solver.n_set):
            if columns.has(solver.set_[k], m) or listed[solver.set_[k]]:
                continue
            listed[solver.set_[k]] = 1
            missing[count] = solver.set_[k]
            count += 1
            total += 1
            if count == MAX_BLOCK:
                flush(columns, missing, count, m, pointers)
                count = 0
    # into free memory only: what was computed is worth more
    if (ahead and 0 < total < FULL and not columns.near
            and columns.cache.used + FULL <= columns.n_slots):
        with nogil:
            count += solver.look_ahead(&missing[count], FULL - count)
    flush(columns, missing, count, m, pointers)
    return 0


cdef int flush(Columns columns, Py_ssize_t *missing, Py_ssize_t count, Py_ssize_t m,
               void **pointers) except -1:
    cdef Py_ssize_t k
    cdef unsigned char[::1] listed = columns.listed
    for k in range(count):
        listed[missing[k]] = 0
    with nogil:
        columns.fetch(missing, count, m, pointers)
    return 0
