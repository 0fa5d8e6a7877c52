"""LASVM: PROCESS and REPROCESS on an active set of rows, with cached outputs.

Follows Bordes, Ertekin, Weston and Bottou, "Fast kernel classifiers with online and active
learning" (JMLR 2005), section 3.  Coefficients are signed: alpha_i y_i in [0, upper_i] and
sum_i alpha_i = 0.  g = y - o is known for all rows, not only for the active ones, so an
example that violates nothing is dismissed without a kernel value; when a column is needed,
those of the next violators in order are computed in the same block.

Invariants
- o is exact for all rows; rows outside the active set have alpha = 0.
- `up` and `down` are the active rows with the largest g that may grow and the smallest g
  that may fall, or -1; gradients that differ by less than 1e-10 count as equal (rounding
  must not decide), and among equals the first to enter is taken.
"""
from libc.math cimport fabs, fmax, fmin

from osvm.kernel.cached.columns cimport Columns

import numpy as np

from osvm.kernel.cached.working_sets import BlockSolver

cdef enum:
    AHEAD = 24        # columns computed together
    LOOK = 512        # rows looked at for candidates
    FINISH_SET = 128  # rows in a working set of the finishing step

cdef double TIE = 1e-10


cdef class Lasvm:
    """PROCESS and REPROCESS on an active set of rows.

    Parameters
    ----------
    columns : Columns
    y : (n,) array of -1 and +1
    upper : (n,) array
        Largest |alpha| of each row.
    tau : float
        A pair violates when its gradients differ by more.
    admit_all : bool
        Let every row into the active set, as Bordes et al. print it, not violators alone.
    """

    cdef readonly Columns columns
    cdef readonly object y, upper, alpha, outputs
    cdef bint admit_all
    cdef double[::1] yv, uv, av, ov
    cdef Py_ssize_t[::1] active
    cdef unsigned char[::1] inside
    cdef readonly Py_ssize_t n_active, n_steps, t
    cdef Py_ssize_t up, down
    cdef double g_up, g_down
    cdef readonly double tau, b, gap
    cdef readonly bint finished        # did the finishing step reach its tolerance?

    def __init__(self, Columns columns, y, upper, double tau=1e-3, *, bint admit_all=False):
        self.columns = columns
        self.admit_all = admit_all
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.upper = np.ascontiguousarray(upper, dtype=np.float64)
        if self.y.shape != (columns.n,) or self.upper.shape != (columns.n,):
            raise ValueError("y and upper need one entry per row")
        self.alpha, self.outputs = np.zeros(columns.n), np.zeros(columns.n)
        self.yv, self.uv, self.av, self.ov = self.y, self.upper, self.alpha, self.outputs
        self.active = np.zeros(columns.n, np.intp)
        self.inside = np.zeros(columns.n, np.uint8)
        self.tau = tau
        self.gap = np.inf
        self.up = self.down = -1

    @property
    def active_(self):
        """Rows of the active set, in the order of their entry."""
        return np.asarray(self.active)[:self.n_active].copy()

    def run(self, order):
        """PROCESS and REPROCESS for each row in turn; how many steps were made."""
        cdef Py_ssize_t[::1] rows = np.ascontiguousarray(order, dtype=np.intp)
        cdef Py_ssize_t k, before = self.n_steps
        if rows.shape[0] and (np.min(order) < 0 or np.max(order) >= self.columns.n):
            raise IndexError("order names a row that does not exist")
        with nogil:
            for k in range(rows.shape[0]):
                self.t += 1
                self.process(&rows[k], rows.shape[0] - k)
                self.reprocess()
        return self.n_steps - before

    def finish(self, tau=None, *, bint everywhere=False, Py_ssize_t max_sets=1000000):
        """REPROCESS until no active pair violates by more than tau; how many steps that took.

        The pairs are taken from working sets of the most violating rows
        (`BlockSolver`): few steps touch the outputs of all rows, and the
        partner of a row is the one with the largest gain, not the most violating one.
        `everywhere` lets rows outside the active set come in again when they violate.
        """
        cdef Py_ssize_t k, kept = 0
        if self.n_active == 0:
            return 0
        active = self.active_
        upper = self.upper
        if not everywhere:  # rows outside the active set cannot move
            upper = np.zeros(self.columns.n)
            upper[active] = self.upper[active]
        solver = BlockSolver(self.columns, self.y, upper, bias=True, size=FINISH_SET)
        solver.start(self.alpha, self.outputs)
        self.finished = solver.solve(self.tau if tau is None else tau, max_sets)
        self.alpha[:] = solver.alpha_
        self.outputs[:] = solver.outputs
        self.n_steps += solver.n_steps
        if everywhere:
            for k in np.flatnonzero(self.alpha):
                if not self.inside[k]:
                    self.active[self.n_active] = k
                    self.inside[k] = 1
                    self.n_active += 1
        self.find_extremes()
        for k in range(self.n_active):
            if not self.is_idle(self.active[k]):
                self.active[kept] = self.active[k]
                kept += 1
            else:
                self.inside[self.active[k]] = 0
        self.n_active = kept
        self.find_extremes()
        if self.up >= 0 and self.down >= 0:
            self.b = 0.5 * (self.g_up + self.g_down)
            self.gap = self.g_up - self.g_down
        return solver.n_steps

    # ----------------------------------------------------------------- parts

    cdef bint may_grow(self, Py_ssize_t i) noexcept nogil:
        return self.av[i] < (self.uv[i] if self.yv[i] > 0.0 else 0.0)

    cdef bint may_fall(self, Py_ssize_t i) noexcept nogil:
        return self.av[i] > (0.0 if self.yv[i] > 0.0 else -self.uv[i])

    cdef void snap(self, Py_ssize_t i) noexcept nogil:
        """Land on a bound exactly."""
        cdef double bound = self.uv[i] if self.yv[i] > 0.0 else -self.uv[i]
        if fabs(self.av[i]) < 1e-12 * self.uv[i]:
            self.av[i] = 0.0
        elif fabs(self.av[i] - bound) < 1e-12 * self.uv[i]:
            self.av[i] = bound

    cdef void find_extremes(self) noexcept nogil:
        cdef Py_ssize_t k, i
        cdef double g
        self.up = self.down = -1
        for k in range(self.n_active):
            i = self.active[k]
            g = self.yv[i] - self.ov[i]
            if (self.up < 0 or g > self.g_up + TIE) and self.may_grow(i):
                self.up, self.g_up = i, g
            if (self.down < 0 or g < self.g_down - TIE) and self.may_fall(i):
                self.down, self.g_down = i, g

    cdef bint is_idle(self, Py_ssize_t s) noexcept nogil:
        """Without weight, and no partner in the active set that could give it some?"""
        cdef double g = self.yv[s] - self.ov[s]
        if self.av[s] != 0.0 or self.up < 0 or self.down < 0:
            return False
        return g >= self.g_up - TIE if self.yv[s] < 0.0 else g <= self.g_down + TIE

    cdef bint violates(self, Py_ssize_t k) noexcept nogil:
        """Would PROCESS of this row make a step?"""
        cdef double g = self.yv[k] - self.ov[k]
        if self.yv[k] > 0.0:
            return self.down >= 0 and g - self.g_down > self.tau
        return self.up >= 0 and self.g_up - g > self.tau

    cdef int prepare(self, const Py_ssize_t *rows, Py_ssize_t ahead) except -1 nogil:
        """Compute the column of rows[0], with those of the next violators."""
        cdef Py_ssize_t wanted[AHEAD]
        cdef void *pointers[AHEAD]
        cdef Py_ssize_t slot, k, count = 1
        slot = self.columns.slot_of[rows[0]]
        if slot >= 0 and self.columns.length[slot] == self.columns.n:
            return 0
        wanted[0] = rows[0]
        if self.columns.near:  # a block would cost as much as its columns
            ahead = 1
        for k in range(1, ahead if ahead < LOOK else LOOK):
            if count == AHEAD:
                break
            if self.inside[rows[k]] or not self.violates(rows[k]):
                continue
            slot = self.columns.slot_of[rows[k]]
            if slot < 0 or self.columns.length[slot] < self.columns.n:
                wanted[count] = rows[k]
                count += 1
        self.columns.fetch(wanted, count, self.columns.n, pointers)
        return 0

    cdef int step(self, Py_ssize_t i, Py_ssize_t j) except -1 nogil:
        """Move as much weight from j to i as helps."""
        cdef Py_ssize_t pair[2]
        cdef void *pointers[2]
        cdef double delta[2]
        cdef double own, curve, size, room_i, room_j
        pair[0], pair[1] = i, j
        self.columns.fetch(pair, 2, self.columns.n, pointers)
        if self.columns.wide:
            own = (<double *> pointers[0])[i] + (<double *> pointers[1])[j]
            curve = own - 2.0 * (<double *> pointers[0])[j]
        else:
            own = <double> (<float *> pointers[0])[i] + (<float *> pointers[1])[j]
            curve = own - 2.0 * (<float *> pointers[0])[j]
        own = fmin(2.0, fmax(fabs(own), 1e-288))
        curve = fmax(curve, 0.5e-12 * own)
        size = ((self.yv[i] - self.ov[i]) - (self.yv[j] - self.ov[j])) / curve
        room_i = (self.uv[i] if self.yv[i] > 0.0 else 0.0) - self.av[i]
        room_j = self.av[j] - (0.0 if self.yv[j] > 0.0 else -self.uv[j])
        size = room_i if room_i < size else size
        size = room_j if room_j < size else size
        self.av[i] += size
        self.av[j] -= size
        self.snap(i)
        self.snap(j)
        delta[0], delta[1] = size, -size
        self.columns.combine(&self.ov[0], self.columns.n, pointers, delta, 2)
        self.n_steps += 1
        return 0

    cdef int process(self, const Py_ssize_t *rows, Py_ssize_t ahead) except -1 nogil:
        """A step on rows[0] if it violates together with an active row, which admits it."""
        cdef Py_ssize_t k = rows[0], i = self.up, j = self.down
        if self.inside[k]:
            return 0
        if self.yv[k] > 0.0:
            i = k
        else:
            j = k
        if i >= 0 and j >= 0:
            if self.violates(k):
                self.prepare(rows, ahead)
                self.step(i, j)
            elif not self.admit_all:
                return 0
        self.active[self.n_active] = k
        self.inside[k] = 1
        self.n_active += 1
        self.find_extremes()
        return 0

    cdef bint reprocess(self) except? -1 nogil:
        """One step on the most violating active pair, then drop idle rows."""
        cdef Py_ssize_t k, s, kept = 0
        cdef bint gone = False
        if self.up < 0 or self.down < 0:
            return False
        if self.g_up - self.g_down <= self.tau:
            self.b = 0.5 * (self.g_up + self.g_down)
            self.gap = self.g_up - self.g_down
            return False
        self.step(self.up, self.down)
        self.find_extremes()
        if self.up < 0 or self.down < 0:
            return False
        self.b = 0.5 * (self.g_up + self.g_down)
        self.gap = self.g_up - self.g_down
        for k in range(self.n_active):
            s = self.active[k]
            if self.is_idle(s):
                self.inside[s] = 0
                gone = gone or s == self.up or s == self.down
                continue
            self.active[kept] = s
            kept += 1
        self.n_active = kept
        if gone:
            self.find_extremes()
        return True
