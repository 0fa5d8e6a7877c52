"""One-vs-rest outputs in blocks, each trained by a thread of its own.

A binary loss treats the K outputs of a model apart from each other: they share the
examples, their order and the step sizes, and nothing else.  So K outputs can be cut
into blocks that learn side by side, and the result is bit for bit that of one thread.

`OutputBlock` copies its columns out of a learner, learns without the GIL, and writes
them back; `osvm._estimator.threads` runs the blocks and joins them.

Invariants
- every number of a column is computed as in `osvm.linear.learner`, whatever block it is in;
- blocks are at the same example whenever `learn` returns, so that an interrupt between
  two calls leaves a consistent model;
- the learner changes in `hand_back` alone, so that a failure leaves it as it was.
"""
import numpy as np

from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t

from osvm._input.rows cimport RowSource
from osvm.linear.learner cimport Options, SGDLearner
from osvm.linear.steps cimport take_row
from osvm.linear.weights cimport ScaledMatrix
from osvm.core.loss cimport (
    LOSS_CUSTOM, LOSS_HINGE, Loss, hinge_against, loss_value_xi, mloss_value_xi,
)
from osvm.core.row cimport Row, Rows, row_value
from osvm.core.smat cimport (
    SMat, smat_count_average, smat_dot_ahead, smat_project_one, smat_shrink, smat_start_average,
)
from osvm.core.smat_step cimport Debt, smat_settle, smat_step
from osvm.core.step cimport Step, step_next
from osvm.core.typedefs cimport WEIGHT_F32

cdef enum Status:               # as in osvm.linear.learner
    DONE = 0
    NOT_FINITE = 1
    STEP_TOO_LARGE = 2

cdef enum:
    PAD = 4                     # columns are padded to whole half registers


cdef inline double block_loss(const Loss *loss, Py_ssize_t K, Py_ssize_t label, const double *f,
                              double *xi) noexcept nogil:
    """Value and xi of K outputs; `label` lies outside of 0 .. K-1 when it is another block's."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    if 0 <= label < K:
        return mloss_value_xi(loss, K, label, f, 1.0, xi)
    if loss.kind == LOSS_HINGE:
        return hinge_against(K, f, 1.0, xi, 0.0)
    for k in range(K):
        total += loss_value_xi(loss, -1.0, f[k], &xi[k])
    return total


cdef bint block_fits(const SMat *w, double eta, double pull, double largest) noexcept nogil:
    """Whether a step of eta pull x, |x| <= largest, overflows nothing."""
    cdef Py_ssize_t k
    cdef double room = 1e30 if w.kind == WEIGHT_F32 else 1e145, smallest = INFINITY, average = 1.0
    for k in range(w.n_out):
        smallest = min(smallest, fabs(w.scale[k]))
        average = max(average, w.avg_scale[k])
    return pull < 1e145 and eta * pull * largest * average < room * smallest


cdef double row_largest(const Row *row) noexcept nogil:
    """The row's own bound, where the bound of all rows is too large."""
    cdef Py_ssize_t k
    cdef double largest = 0.0
    for k in range(row.count):
        largest = max(largest, fabs(row_value(row, k)))
    return largest


def is_separable(SGDLearner learner):
    """Whether the outputs of this learner do not look at each other."""
    return (learner.n_out > 1 and learner.loss.kind < LOSS_CUSTOM
            and learner.options.batch_size == 1)


cdef class OutputBlock:
    """Outputs first .. first + count - 1 of a one-vs-rest learner.

    Parameters
    ----------
    learner : SGDLearner
        With several outputs, a binary loss and no mini-batches.
    first, count : int
    """
    cdef SGDLearner learner
    cdef ScaledMatrix weights           # count columns, then columns of zeros
    cdef readonly Py_ssize_t first, count
    cdef object _numbers, _active
    cdef Py_ssize_t *active
    cdef double *owed
    cdef double *b
    cdef double *b_sum
    cdef double *f
    cdef double *xi
    cdef readonly double loss_sum       # of the last call of `learn`
    cdef readonly object best           # largest score of each example of that call
    cdef readonly object best_output    # and its output, the first of equals

    def __init__(self, SGDLearner learner, Py_ssize_t first, Py_ssize_t count):
        cdef ScaledMatrix whole = learner.weights
        cdef Py_ssize_t width = (count + PAD - 1) // PAD * PAD
        cdef double[:, ::1] numbers
        cdef Py_ssize_t[::1] active
        part = slice(first, first + count)
        self.learner = learner
        self.first, self.count = first, count
        self.weights = ScaledMatrix(whole.w.dim, width, whole.v.dtype, whole.w.track_norm)
        self.weights.v[:, :count] = whole.v[:, part]
        if whole.u is not None:
            self.weights.reserve_average()
            self.weights.u[:, :count] = whole.u[:, part]
        for name in ("scale", "sq_v", "avg_scale"):
            getattr(self.weights, name)[:count] = getattr(whole, name)[part]
        self.weights.w.avg_count = whole.w.avg_count
        self.weights.w.averaging = whole.w.averaging
        self.weights.w.low, self.weights.w.high = whole.w.low, whole.w.high
        self._numbers = np.zeros((5, width))
        self._active = active = np.zeros(width, np.intp)
        numbers = self._numbers
        self.b, self.b_sum = &numbers[0, 0], &numbers[1, 0]
        self.f, self.xi = &numbers[2, 0], &numbers[3, 0]
        self.owed, self.active = &numbers[4, 0], &active[0]
        self._numbers[0, :count] = learner.intercept[part]
        self._numbers[1, :count] = learner.intercept_sum[part]

    def hand_back(self):
        """Write the columns into the learner, which the other blocks do as well."""
        cdef ScaledMatrix whole = self.learner.weights
        part = slice(self.first, self.first + self.count)
        whole.v[:, part] = self.weights.v[:, :self.count]
        if whole.u is not None:
            whole.u[:, part] = self.weights.u[:, :self.count]
        for name in ("scale", "sq_v", "avg_scale"):
            getattr(whole, name)[part] = getattr(self.weights, name)[:self.count]
        whole.w.avg_count = self.weights.w.avg_count
        whole.w.averaging = self.weights.w.averaging
        whole.w.low, whole.w.high = self.weights.w.low, self.weights.w.high
        self.learner.reach = -1.0
        self.learner.intercept[part] = self._numbers[0, :self.count]
        self.learner.intercept_sum[part] = self._numbers[1, :self.count]

    def learn(self, RowSource X, const int32_t[::1] labels, const int64_t[::1] order,
              Py_ssize_t start, Py_ssize_t stop, const double[::1] weight, double largest,
              double t, double seen):
        """Learn examples start:stop, t and seen of which came before.

        Returns
        -------
        status, position
            0 and `stop`, or what failed and at which example.
        """
        cdef Py_ssize_t at = start
        cdef int status
        cdef double[::1] best
        cdef int32_t[::1] best_output
        if self.best is None or len(self.best) < stop - start:
            self.best = np.empty(stop - start)
            self.best_output = np.empty(stop - start, np.int32)
        best, best_output = self.best, self.best_output
        if start == stop:
            return 0, stop
        with nogil:
            status = self._learn(
                &X.rows, &labels[0], &order[0] if order is not None else NULL, &at, stop,
                &weight[0] if weight is not None else NULL, largest, t, seen,
                &best[0], &best_output[0])
        return status, at

    cdef int _learn(self, const Rows *X, const int32_t *labels, const int64_t *order,
                    Py_ssize_t *at, Py_ssize_t stop, const double *weight, double largest,
                    double t, double seen, double *best, int32_t *best_output) noexcept nogil:
        cdef SMat *w = &self.weights.w
        cdef Options options = self.learner.options
        cdef Loss loss = self.learner.loss
        cdef Step step = self.learner.step
        cdef Py_ssize_t K = self.count, first = self.first
        cdef Py_ssize_t n, i, k, top, start = at[0]
        cdef Row pair[2]
        cdef Row *row
        cdef Row *later
        cdef double *f = self.f
        cdef double *xi = self.xi
        cdef double *b = self.b
        cdef double value, c, eta, eta_b, pull
        cdef Debt debt
        debt.c, debt.active, debt.n_active = self.owed, self.active, 0
        self.loss_sum = 0.0
        for n in range(start, stop):
            i = take_row(X, order, n, start, stop, pair, &row, &later)
            smat_dot_ahead(w, row, f, later)
            smat_settle(w, &debt)
            top = 0
            for k in range(K):
                f[k] += b[k]
                if f[k] > f[top]:
                    top = k
            value = block_loss(&loss, K, labels[i] - first, f, xi)
            if not isfinite(value):
                return NOT_FINITE
            best[n - start] = f[top]
            best_output[n - start] = <int32_t> (first + top)
            c = 1.0 if weight == NULL else weight[i]
            eta = step_next(&step, t + 1.0)
            pull = 0.0
            for k in range(K):
                pull = max(pull, c * fabs(xi[k]))
            if pull > 0.0 and not block_fits(w, eta, pull, largest) \
                    and not block_fits(w, eta, pull, row_largest(row)):
                return STEP_TOO_LARGE
            t += 1.0
            smat_shrink(w, max(1.0 - eta * options.reg, 0.0))
            if pull > 0.0:
                if options.fit_intercept:
                    eta_b = eta
                    if options.intercept_eta0 > 0.0:
                        eta_b = options.intercept_eta0 / sqrt(t)
                    for k in range(K):
                        b[k] -= eta_b * c * xi[k]
                for k in range(K):
                    xi[k] *= -eta * c
                smat_step(w, xi, row, &debt)
            if options.radius > 0.0:
                smat_settle(w, &debt)
                for k in range(K):
                    smat_project_one(w, k, options.radius)
            if options.average_from >= 0.0 and seen >= options.average_from:
                if not w.averaging:
                    smat_start_average(w, w.u)
                smat_count_average(w)
                for k in range(K):
                    self.b_sum[k] += b[k]
            seen += 1.0
            self.loss_sum += value
            at[0] = n + 1
        smat_settle(w, &debt)
        return DONE


def count_errors(blocks, const int32_t[::1] labels, const int64_t[::1] order, Py_ssize_t start,
                 Py_ssize_t stop):
    """Examples start:stop whose largest score, of all blocks' last calls, is another label's."""
    cdef Py_ssize_t n, i, errors = 0
    best, output = blocks[0].best, blocks[0].best_output
    cdef double[::1] score, other_score
    cdef int32_t[::1] winner, other_winner
    score, winner = best, output
    for block in blocks[1:]:
        other_score, other_winner = block.best, block.best_output
        with nogil:
            for n in range(stop - start):
                if other_score[n] > score[n]:
                    score[n], winner[n] = other_score[n], other_winner[n]
    for n in range(start, stop):
        i = n if order is None else order[n]
        errors += winner[n - start] != labels[i]
    return errors
