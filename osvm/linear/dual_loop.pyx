"""Dual coordinate ascent on one binary problem: epochs, order, shrinking, stopping.

Minimizes ``reg/2 ||w||^2 + 1/n sum_i c_i loss(y_i (w.x_i + b))`` for the hinge and the
squared hinge to a proven relative duality gap.  The steps, the dual problem and the
treatment of the offset are written down in `osvm/linear/dual_steps.pxd`; this file holds
what surrounds them:

- each epoch visits the active rows in random order, permuted within windows of 16
  random blocks of 64 neighboring rows, so that memory is read almost in file order;
- rows whose dual variable sits at a bound and is pushed against it rest for up to three
  epochs, and are shrunk (set aside) by the bounds of Hsieh et al. (2008);
- the sum of the rows' own gaps at their visits estimates the duality gap; when the
  estimate is low enough, one pass over all rows computes the true gap, and either
  proves convergence or puts the wrongly shrunk rows back.

Weights and dual variables belong together at every moment, so that an interrupted run
leaves a usable model.

`AlmaState` at the end is the other loop whose weights follow from dual numbers.

ALMA_p on rows: p-norm perceptron steps with a growing margin, O(non-zeros) per row.

Follows Gentile, "A new approximate maximal margin classification algorithm" (JMLR 2001).
With 1/p + 1/q = 1, theta = f(w) is the gradient of ||w||_q^2/2, so that
w_j = sign(theta_j) |theta_j|^(p-1) / ||theta||_p^(p-2) and ||w||_q = ||theta||_p.  On a row
x of p-norm 1 with y w.x <= (1 - slack) B sqrt(p-1)/sqrt(k), the k-th correction adds
C/(sqrt(p-1) sqrt(k)) y x to theta and projects ||theta||_p back to 1.

Invariants
- theta = scale * raw; `power` = sum_j |raw_j|^p, kept up to date entry by entry;
- repeated columns of a row add up before anything else; an empty row changes nothing.
"""
from cpython.exc cimport PyErr_CheckSignals

import numpy as np

from libc.math cimport INFINITY, fabs, pow, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t

from osvm.linear.dual_steps cimport (
    BLOCK, WINDOW, Dual, DualCheck, drop_idle, dual_check_rows, dual_move_center,
    dual_start_epoch, dual_visits, fill_window, full_sq_norm, shuffle32,
)
from osvm._input.rows cimport RowSource
from osvm.linear.weights cimport ScaledVector
from osvm.core.rows cimport row_index, row_value, rows_get
from osvm.core.svec cimport svec_axpy, svec_recompute_norm, svec_reset, svec_sq_norm
from osvm.core.typedefs cimport Row
# A pass over all rows after so many times their number of visits, so that rows that
# were shrunk by mistake do not wait until the others are solved.
cdef enum:
    CHECK_VISITS = 10


cdef class DualProblem:
    """One binary problem while it is being solved; `osvm.linear.dual` makes them.

    Parameters
    ----------
    X : RowSource
    y : int8 array of -1 and +1
    weight : float64 array or None
        c_i; not negative.
    reg : float
    squared, shrinking, shuffle : bool
    bias_sq : float
        0: no offset; else the square of the constant feature.
    free_offset : bool
        The offset has no penalty, and `bias_sq` is the multipliers' step.
    weights : ScaledVector
        sum alpha_i y_i x_i on entry; the result afterwards.
    alpha : float64 array
        Dual variables, changed in place.
    intercept : float
        Where a free offset starts.
    sq : float32 array
        ||x_i||^2 where known, negative elsewhere; filled in on the way.
    seed : int
    """

    cdef Dual p
    cdef DualCheck check
    cdef RowSource X
    cdef ScaledVector weights
    cdef object y, weight, alpha, scratch, f     # the arrays behind p's pointers
    cdef float[::1] sq
    cdef unsigned char[:, ::1] flags        # idle, quiet, rest
    cdef int64_t[::1] active
    cdef int32_t[::1] blocks
    cdef int64_t[::1] window
    cdef Py_ssize_t n_active, n_visits, chunk     # n_visits: since the last full pass
    cdef readonly Py_ssize_t n_rows_read          # by visits and full passes
    cdef double best_b                            # of the last full pass
    cdef uint64_t random
    cdef bint shuffle, free_offset
    cdef readonly double reg
    cdef public bint stopped       # set from another thread: stop soon

    def __init__(self, RowSource X, signed char[::1] y, weight, double reg, bint squared,
                 bint shrinking, bint shuffle, double bias_sq, bint free_offset,
                 ScaledVector weights, double[::1] alpha, double intercept, float[::1] sq,
                 uint64_t seed):
        cdef Py_ssize_t n = X.rows.n_rows, n_blocks = (n + BLOCK - 1) // BLOCK
        cdef const double[::1] weight_view
        cdef double[::1] scratch
        cdef Py_ssize_t nnz = X._buffers[0].shape[0] if X.sparse else n * X.rows.n_features
        self.X = X
        self.y, self.weight, self.alpha, self.weights = y, weight, alpha, weights
        self.scratch = np.zeros(X.rows.n_features)
        scratch = self.scratch
        self.sq = sq
        self.flags = np.zeros((3, n), np.uint8)
        self.active = np.arange(n, dtype=np.int64)
        self.blocks = np.empty(n_blocks, np.int32)
        self.window = np.empty(WINDOW, np.int64)
        self.n_active = n
        self.chunk = max(16, <Py_ssize_t> (2e6 / max(nnz / <double> n, 1.0)))
        self.random = seed
        self.shuffle, self.free_offset, self.reg = shuffle, free_offset, reg
        self.p.X = &X.rows
        self.p.y = &y[0]
        self.p.weight = NULL
        if weight is not None:
            weight_view = weight
            self.p.weight = &weight_view[0]
        self.p.alpha = &alpha[0]
        self.p.sq = &sq[0]
        self.p.idle, self.p.quiet = &self.flags[0, 0], &self.flags[1, 0]
        self.p.rest = &self.flags[2, 0]
        self.p.w = weights.w.v
        self.p.scratch = &scratch[0]
        self.p.kind = weights.w.kind
        self.p.squared = squared
        self.p.shrinking = shrinking
        self.p.cap = 1.0 / (reg * n)
        self.p.bias_sq = bias_sq
        self.p.upper = INFINITY
        self.p.lower = -INFINITY
        self.p.bad_row = -1
        self.p.f = NULL
        if free_offset:
            scratch = self.f = np.zeros(n)
            self.p.f = &scratch[0]
        self.rebuild(intercept)

    def restart(self, double intercept, w=None):
        """Go on from dual variables that were changed outside, and from this offset.

        `w` is their sum over the rows where the caller has it with fewer rounding errors.
        """
        self.rebuild(intercept)
        if w is not None:
            self.weights.v[:] = w
        self.run_check()

    cdef int rebuild(self, double intercept) except -1:
        """w, r and b from alpha, which is first brought within its bounds."""
        cdef Py_ssize_t i, n = self.X.rows.n_rows
        cdef double cap
        cdef Row x
        self.p.r = 0.0
        svec_reset(&self.weights.w)
        for i in range(n):
            if self.p.alpha[i] == 0.0:
                continue
            cap = self.p.cap if self.p.weight == NULL else self.p.cap * self.p.weight[i]
            if cap == 0.0 or (self.p.alpha[i] > cap and not self.p.squared):
                self.p.alpha[i] = cap
            self.p.r += self.p.alpha[i] * self.p.y[i]
            rows_get(&self.X.rows, i, &x)
            svec_axpy(&self.weights.w, self.p.alpha[i] * self.p.y[i], &x)
        self.p.center = intercept - self.p.bias_sq * self.p.r if self.free_offset else 0.0
        self.p.b = self.best_b = self.p.center + self.p.bias_sq * self.p.r
        return 0

    def finish(self):
        """Leave the weights in order, wherever the work ended."""
        svec_recompute_norm(&self.weights.w)

    @property
    def intercept(self):
        return self.best_b if self.free_offset else self.p.b

    @property
    def primal(self):
        """The objective, by the last pass over all rows."""
        return self.reg * self.check.primal

    @property
    def dual(self):
        """The proven lower bound on the minimum, by the same pass."""
        return self.reg * self.check.dual

    cdef int raise_if_bad(self) except -1:
        if self.p.bad_row >= 0:
            raise ValueError(
                f"row {self.p.bad_row}: the numbers overflow (its values are too large for "
                "the type of the weights); scale the features or use float64 weights")

    cdef int raise_if_stopped(self) except -1:
        PyErr_CheckSignals()
        if self.stopped:
            raise KeyboardInterrupt

    cdef int run_epoch(self) except -1:
        """Visit every active row once, then shrink and move the offset's center."""
        cdef Py_ssize_t k, n, done, stop, since = 0
        cdef Py_ssize_t n_blocks = (self.n_active + BLOCK - 1) // BLOCK
        for k in range(n_blocks):
            self.blocks[k] = <int32_t> k
        if self.shuffle and n_blocks > 1:
            shuffle32(&self.blocks[0], n_blocks, &self.random)
        dual_start_epoch(&self.p)
        for k in range(0, n_blocks, WINDOW // BLOCK):
            n = fill_window(&self.active[0], self.n_active, &self.blocks[0], n_blocks, k,
                            self.shuffle, self.p.rest, &self.window[0], &self.random)
            self.n_visits += n
            self.n_rows_read += n
            done = 0
            while done < n:
                stop = min(n, done + self.chunk - since)
                with nogil:
                    dual_visits(&self.p, &self.window[0], done, stop, n)
                self.raise_if_bad()
                since += stop - done
                done = stop
                if since >= self.chunk:
                    since = 0
                    self.raise_if_stopped()
        self.raise_if_stopped()
        if self.p.n_idle > 0:
            self.n_active = drop_idle(&self.active[0], self.n_active, self.p.idle)
        self.p.upper = self.p.pg_max if self.p.pg_max > 0.0 else INFINITY
        self.p.lower = self.p.pg_min if self.p.pg_min < 0.0 else -INFINITY
        if self.free_offset:
            dual_move_center(&self.p)

    cdef int run_check(self) except -1:
        """A pass over all rows: the true objectives, and who is active."""
        cdef Py_ssize_t n = self.X.rows.n_rows, done = 0, stop
        cdef DualCheck *c = &self.check
        cdef int excess = 0
        cdef double sq_norm, excess_sq, t
        if self.free_offset and self.p.r != 0.0:
            excess = 1 if self.p.r > 0.0 else -1
        c.loss = c.sum_alpha = c.sum_plus = c.sum_minus = 0.0
        c.excess_cross = c.excess_sum = c.excess_quad = 0.0
        c.n_active = 0
        while done < n:
            stop = min(n, done + self.chunk)
            with nogil:
                dual_check_rows(&self.p, done, stop, excess, &self.active[0], c)
            self.raise_if_bad()
            done = stop
            self.raise_if_stopped()
        self.n_active = c.n_active
        self.n_rows_read += n
        svec_recompute_norm(&self.weights.w)
        sq_norm = svec_sq_norm(&self.weights.w)
        self.p.r = c.sum_plus - c.sum_minus
        self.p.b = self.p.center + self.p.bias_sq * self.p.r
        if self.free_offset:
            self.best_b, c.loss = exact_offset(
                self.f, self.y, self.p.cap, self.weight, self.p.squared)
        c.primal = 0.5 * sq_norm + c.loss
        c.dual = c.sum_alpha - 0.5 * sq_norm
        self.p.value = (c.dual - self.p.center * self.p.r
                        - 0.5 * self.p.bias_sq * self.p.r * self.p.r)
        if self.p.bias_sq > 0.0 and not self.free_offset:
            c.primal += 0.5 * self.p.bias_sq * self.p.r * self.p.r
            c.dual -= 0.5 * self.p.bias_sq * self.p.r * self.p.r
        elif excess:
            # alpha breaks the condition r = 0; scaled down by t in the heavier class it
            # keeps it, and its dual value is a lower bound.
            t = min(c.sum_plus, c.sum_minus) / max(c.sum_plus, c.sum_minus)
            excess_sq = float(np.dot(self.scratch, self.scratch))
            self.scratch[:] = 0.0
            c.dual += ((t - 1.0) * c.excess_sum + (1.0 - t * t) * c.excess_quad
                       + (1.0 - t) * c.excess_cross - 0.5 * (1.0 - t) ** 2 * excess_sq)
        return 0

    def solve(self, double tol, Py_ssize_t max_epochs, history, callback):
        """Epochs until the relative gap is at most `tol`, or as many rows have been read as
        in `max_epochs` passes over all of them, or the arithmetic goes no further: "solved" or
        "limit"; "stopped" by the callback.
        """
        cdef Py_ssize_t epoch = len(history)
        cdef double estimate = INFINITY, last, predicted, primal, gap, before
        cdef double trust = 1.0     # true gap over predicted gap, at the last check
        cdef double most = <double> max_epochs * self.X.rows.n_rows
        cdef int n_stalled = 0
        cdef bint checked
        if epoch == 0 and (self.p.r != 0.0 or np.any(self.alpha)):   # a warm start
            self.run_check()
        while True:
            last = estimate
            before = self.p.value
            self.run_epoch()
            epoch += 1
            estimate = self.p.gap
            # The visits saw the gap of the epoch's middle; it shrinks on till the end.
            predicted = estimate
            if estimate < last < INFINITY:
                predicted *= sqrt(estimate / last)
            primal = self.p.value + predicted
            checked = (trust * predicted <= tol * abs(primal) or self.n_rows_read >= most
                       or self.n_visits > CHECK_VISITS * self.X.rows.n_rows)
            if abs(self.p.value - before) <= 1e-15 * abs(self.p.value):
                n_stalled += 1      # as far as the arithmetic goes, on the active rows
                checked = True
            else:
                n_stalled = 0
            if checked:
                self.run_check()
                self.n_visits = 0
                gap = self.check.primal - self.check.dual
                trust = min(max(gap / predicted, 0.3), 10.0) if predicted > 0.0 else 1.0
                row = (epoch, self.n_active, self.reg * self.check.primal,
                       self.reg * self.check.dual, self.reg * gap)
            else:
                gap = INFINITY
                row = (epoch, self.n_active, np.nan, self.reg * self.p.value, np.nan)
            history.append(row)
            if callback is not None and callback(*row):
                if not checked:
                    self.run_check()
                return "stopped"
            if checked and gap <= tol * abs(self.check.primal):
                return "solved"
            if self.n_rows_read >= most or n_stalled > 2:
                return "limit"


def exact_offset(scores, y, double cap, weight, bint squared):
    """The b that minimizes ``sum_i U_i loss(1 - y_i (f_i + b))``, and the minimum.

    The slope in b is piecewise constant (hinge) or piecewise linear (squared hinge) and
    grows from one break point, where a row meets its margin, to the next: b lies where it
    changes its sign.  U_i is cap times weight.
    """
    distances = np.asarray(y, dtype=np.float64) - scores
    cdef const double[::1] breaks = distances, sign = np.asarray(y, dtype=np.float64)
    cdef const double[::1] c = None if weight is None else np.asarray(weight, dtype=np.float64)
    cdef const Py_ssize_t[::1] order = np.argsort(distances)
    cdef Py_ssize_t n = breaks.shape[0], i, k
    cdef double U = cap, b = 0.0, m, loss = 0.0
    # Right of the break points so far: the slope (hinge), or curvature b - pull.
    cdef double slope = 0.0, curvature = 0.0, pull = 0.0, next_curvature, next_pull
    for i in order:     # in this order, so that equal weights cancel exactly
        if sign[i] > 0.0:
            U = cap if weight is None else cap * c[i]
            slope -= U
            curvature += U
            pull += U * breaks[i]
    next_curvature, next_pull = curvature, pull
    for k in range(n):
        i = order[k]
        b = breaks[i]
        U = cap if weight is None else cap * c[i]
        if squared:
            m = U if sign[i] < 0.0 else -U
            next_curvature += m
            next_pull += m * b
            if k > 0 and next_curvature * b - next_pull >= 0.0:
                break
            curvature, pull = next_curvature, next_pull
        else:
            slope += U
            if slope >= 0.0:
                if slope == 0.0 and k + 1 < n:      # any b between the two: the middle
                    b = 0.5 * (b + breaks[order[k + 1]])
                break
    if squared and curvature > 0.0:
        b = pull / curvature
    for i in range(n):
        m = breaks[i] - b if sign[i] > 0.0 else b - breaks[i]
        if m > 0.0:
            U = cap if weight is None else cap * c[i]
            loss += U * (m * m if squared else m)
    return b, loss


def sample_sq_norms(RowSource X, float[::1] sq, Py_ssize_t every=0):
    """||x||^2 of every `every`-th row (0: of about 1000 rows), also kept in `sq`."""
    cdef Py_ssize_t i = 0, n = X.rows.n_rows
    cdef double[::1] scratch = np.zeros(X.rows.n_features)
    cdef Row x
    if every < 1:
        every = max(1, n // 1000)
    with nogil:
        while i < n:
            if sq[i] < 0.0:
                rows_get(&X.rows, i, &x)
                sq[i] = <float> full_sq_norm(&x, &scratch[0])
            i += every
    return np.asarray(sq)[::every]


# ------------------------------------------------------------------ ALMA_p

cdef inline double power_of(double x, double p) noexcept nogil:
    """|x|^p."""
    return x * x if p == 2.0 else pow(fabs(x), p)


cdef inline double turned(double x, double p) noexcept nogil:
    """sign(x) |x|^(p-1)."""
    if p == 2.0:
        return x
    return pow(x, p - 1.0) if x > 0.0 else -pow(-x, p - 1.0) if x < 0.0 else 0.0


cdef class AlmaState:
    """theta of one or more outputs."""

    cdef readonly object raw            # (n_outputs, d)
    cdef readonly object scale, power, count
    cdef readonly double p, slack, margin, step

    def __init__(self, Py_ssize_t n_outputs, Py_ssize_t d, double p, double slack,
                 double margin, double step):
        self.raw = np.zeros((n_outputs, d))
        self.scale, self.power = np.ones(n_outputs), np.zeros(n_outputs)
        self.count = np.ones(n_outputs)
        self.p, self.slack, self.margin, self.step = p, slack, margin, step

    def __reduce__(self):
        return restore_alma, ((self.p, self.slack, self.margin, self.step),
                              (self.raw, self.scale, self.power, self.count))

    def set_arrays(self, raw, scale, power, count):
        """Put arrays in place."""
        if raw.ndim != 2 or not len(raw) == len(scale) == len(power) == len(count):
            raise ValueError("arrays of an ALMA state disagree")
        self.raw, self.scale = np.ascontiguousarray(raw, float), np.array(scale, float)
        self.power, self.count = np.array(power, float), np.array(count, float)

    def weights(self):
        """w, (n_outputs, d)."""
        theta = self.scale[:, None] * self.raw
        norm = np.linalg.norm(theta, self.p, axis=1)
        norm[norm == 0] = 1.0
        w = np.sign(theta) * np.abs(theta) ** (self.p - 1)
        return w / norm[:, None] ** (self.p - 2)

    def learn(self, RowSource source, const double[:, ::1] Y, const Py_ssize_t[::1] order):
        """Take the rows in this order; how many corrections were made."""
        cdef double[:, ::1] raw = self.raw
        cdef double[::1] scale = self.scale, power = self.power, count = self.count
        cdef double p = self.p, slack = self.slack, margin = self.margin, step = self.step
        cdef double root = sqrt(p - 1.0)
        cdef Py_ssize_t longest = source.n_features, t, k, j, q, found, made = 0
        cdef double[::1] line = np.zeros(longest)
        cdef double[::1] values = np.zeros(longest)
        cdef Py_ssize_t[::1] places = np.zeros(longest, np.intp)
        cdef double norm, score, add, new, size, y
        cdef Row row
        if raw.shape[1] != longest or Y.shape[0] != raw.shape[0] or Y.shape[1] != source.n_rows:
            raise ValueError("rows, labels and state disagree")
        with nogil:
            for t in range(order.shape[0]):
                rows_get(&source.rows, order[t], &row)
                for k in range(row.count):
                    line[row_index(&row, k)] += row_value(&row, k)
                found = 0
                norm = 0.0
                for k in range(row.count):
                    j = row_index(&row, k)
                    if line[j] != 0.0:
                        places[found] = j
                        values[found] = line[j]
                        norm += power_of(line[j], p)
                        line[j] = 0.0
                        found += 1
                if found == 0:
                    continue
                norm = sqrt(norm) if p == 2.0 else pow(norm, 1.0 / p)
                for q in range(raw.shape[0]):
                    y = Y[q, order[t]]
                    score = 0.0
                    for k in range(found):
                        score += turned(raw[q, places[k]], p) * values[k]
                    if power[q] > 0.0:
                        if p != 2.0:
                            score /= pow(power[q], (p - 2.0) / p)
                        score *= scale[q] / norm
                    if y * score > (1.0 - slack) * margin * root / sqrt(count[q]):
                        continue
                    add = step / (root * sqrt(count[q])) * y / (norm * scale[q])
                    for k in range(found):
                        new = raw[q, places[k]] + add * values[k]
                        power[q] += power_of(new, p) - power_of(raw[q, places[k]], p)
                        raw[q, places[k]] = new
                    power[q] = 0.0 if power[q] < 0.0 else power[q]
                    count[q] += 1.0
                    made += 1
                    size = scale[q] * (sqrt(power[q]) if p == 2.0 else pow(power[q], 1.0 / p))
                    if size > 1.0:
                        scale[q] /= size
                    if scale[q] < 1e-6:  # fold, and sum the powers afresh
                        power[q] = 0.0
                        for j in range(longest):
                            raw[q, j] *= scale[q]
                            power[q] += power_of(raw[q, j], p)
                        scale[q] = 1.0
        return made


def restore_alma(numbers, arrays):
    """The state with these numbers and arrays."""
    made = AlmaState(1, 1, *numbers)
    made.set_arrays(*arrays)
    return made
