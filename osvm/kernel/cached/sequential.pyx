"""One example after another over a fixed training set, with the outputs kept up to date.

Follows Kecman and Melki, "Fast online algorithms for support vector machines", lists 1, 2,
3a and 3b, and the perceptron family surveyed by Vishwanathan, Schraudolph and Smola (JMLR
2006), section 3.  f(x) = s sum_i beta_i k(x_i, x) + b; the vector o of sum_i beta_i k(x_i, .)
on all rows is kept, so that an example that needs no correction costs O(1).

The examples are taken in blocks, in their order (`osvm/core/fixed.pxd`).

Several outputs (classes, values of C, folds) are learnt in the same pass: each has its own
labels, mask, step count and scale, and they share the kernel values.

Invariants
- alpha = s beta; the shrink of all coefficients is one multiplication of s; a shrink by
  exactly 0 resets beta and o; s is folded into both when it leaves [1e-9, 1e9]
  ([1e-3, 1e3] when averaging).
- the average of alpha over the steps is (S beta - u + banked)/T with S the sum of all s.
- t counts the examples an output has seen, over all epochs; a masked example does not count.
"""
from libc.math cimport fabs, sqrt

from osvm._c.engine cimport columns_fixed
from osvm.core.fixed cimport (
    FIXED_BLOCK, STATUS_OK, Fixed, fixed_add, fixed_flush, fixed_free, fixed_load, fixed_output,
    fixed_scale,
)
from osvm.kernel.cached.columns cimport Columns

import numpy as np

cdef enum Rule:
    OL_SVM = 0
    OL_SVM_REGULARIZED = 1
    NORMA = 2
    NORMA_PRINTED = 3
    PEGAZ = 4
    PERCEPTRON = 5
    ADATRON = 6
    BALLSEPTRON = 7
    ALMA = 8

RULES = {"ol_svm": OL_SVM, "ol_svm_regularized": OL_SVM_REGULARIZED, "norma": NORMA,
         "norma_printed": NORMA_PRINTED, "pegaz": PEGAZ, "perceptron": PERCEPTRON,
         "adatron": ADATRON, "ballseptron": BALLSEPTRON, "alma": ALMA}

# What one output carries from step to step.
cdef struct Output:
    double scale       # s
    double bias
    double t           # examples seen
    double C
    double sq_norm     # ||f||^2 without the bias: ballseptron and ALMA
    double corrections  # ALMA's k
    double scale_sum   # S: sum of s over the steps since the last fold
    double bias_sum
    double worst       # largest violation met in this epoch (adatron)
    double loss        # sum of hinge losses before the steps
    double mistakes    # scores of the wrong sign, or 0, before the steps


cdef class OnlineLoop:
    """Run one of the rules over rows in a given order.

    Parameters
    ----------
    columns : Columns
    y : (n_outputs, n) float64 array of -1 and +1
    rule : str, a key of RULES
    C : float or one per output
    mask : (n_outputs, n) bool array, optional
        Rows that an output learns from; the outputs of the others are kept as well.
    weights : (n,) float64 array, optional
        Factor of each row's loss.
    bias, average : bool
    eta : float
        Fixed step of the adatron; 0 for the exact one, 1/k(x, x).
    radius : float
        Ballseptron.
    slack, margin, step : float
        ALMA's alpha, B and C.
    record : bool
        Keep `trace`: one row (eta, y f before the step, support, b) per example (first output
        only), in an array for each call of `run`.
    keep_corrections : bool
        Keep `corrections`: (row, t) of every change, for voting.
    """

    cdef readonly Columns columns
    cdef readonly object alpha_raw, outputs_raw, y, mask, weights
    cdef readonly object trace, corrections
    cdef object states, u, banked
    cdef double[:, ::1] beta, uv, bv, yv
    cdef unsigned char[:, ::1] mv
    cdef const double[::1] wv
    cdef int rule
    cdef bint bias, average, has_mask, has_weights, record, keep_corrections
    cdef double eta, radius, slack, margin, step
    cdef readonly Py_ssize_t n_outputs
    cdef Py_ssize_t support
    cdef Output *state
    cdef Fixed *fixed

    def __cinit__(self):
        self.fixed = NULL

    def __dealloc__(self):
        fixed_free(self.fixed)

    def __init__(self, Columns columns, y, rule, C=1.0, *, mask=None, weights=None, bias=False,
                 average=False, double eta=0.0, double radius=0.0, double slack=0.5,
                 double margin=0.0, double step=0.0, record=False, keep_corrections=False):
        cdef Py_ssize_t q
        self.columns = columns
        self.y = np.ascontiguousarray(np.atleast_2d(y), dtype=np.float64)
        self.yv = self.y
        self.n_outputs = self.y.shape[0]
        if self.y.shape[1] != columns.n:
            raise ValueError(f"y has {self.y.shape[1]} entries for {columns.n} rows")
        self.rule = RULES[rule]
        self.bias, self.average = bias, average
        self.record, self.keep_corrections = record, keep_corrections
        self.eta, self.radius = eta, radius
        self.slack = slack
        self.margin = margin if margin > 0 else sqrt(8.0) / slack
        self.step = step if step > 0 else sqrt(2.0)
        shape = (self.n_outputs, columns.n)
        self.alpha_raw = np.zeros(shape)
        self.outputs_raw = np.zeros(shape)
        self.beta = self.alpha_raw
        fixed_free(self.fixed)
        self.fixed = <Fixed *> columns_fixed(
            &columns.cache, <double *> <size_t> self.alpha_raw.ctypes.data,
            <double *> <size_t> self.outputs_raw.ctypes.data, self.n_outputs)
        if self.fixed == NULL:
            raise MemoryError("no memory for the outputs of a block")
        kept = shape if average else (1, 1)
        self.u, self.banked = np.zeros(kept), np.zeros(kept)
        self.uv, self.bv = self.u, self.banked
        self.has_mask = mask is not None
        self.mask = np.ascontiguousarray(mask if self.has_mask else [[1]], dtype=np.uint8)
        self.mv = self.mask
        if self.has_mask and self.mask.shape != shape:
            raise ValueError(f"mask has shape {self.mask.shape}, expected {shape}")
        self.has_weights = weights is not None
        self.weights = np.ascontiguousarray(weights if self.has_weights else [1.0], np.float64)
        self.wv = self.weights
        self.trace = []
        self.corrections = [[] for _ in range(self.n_outputs)]
        self.states = np.zeros(self.n_outputs * sizeof(Output), np.uint8)
        self.state = <Output *> <size_t> self.states.ctypes.data
        penalties = np.broadcast_to(np.asarray(C, dtype=np.float64), (self.n_outputs,))
        for q in range(self.n_outputs):
            self.state[q].scale = 1.0
            self.state[q].C = penalties[q]
            self.state[q].corrections = 1.0

    @property
    def t(self):
        """Examples seen by each output."""
        return np.array([self.state[q].t for q in range(self.n_outputs)])

    @property
    def progress(self):
        """Sums over all steps and outputs: hinge losses and mistakes before each step."""
        return (sum(self.state[q].loss for q in range(self.n_outputs)),
                sum(self.state[q].mistakes for q in range(self.n_outputs)))

    @property
    def bias_(self):
        """b of each output, averaged when asked for."""
        if self.average:
            return np.array([self.state[q].bias_sum / max(self.state[q].t, 1.0)
                             for q in range(self.n_outputs)])
        return np.array([self.state[q].bias for q in range(self.n_outputs)])

    @property
    def alpha_(self):
        """Coefficients (n_outputs, n), averaged when asked for."""
        s = np.array([[self.state[q].scale] for q in range(self.n_outputs)])
        if not self.average:
            return s * self.alpha_raw
        total = np.array([[self.state[q].scale_sum] for q in range(self.n_outputs)])
        t = np.maximum(self.t, 1.0)[:, None]
        return (total * self.alpha_raw - self.u + self.banked) / t

    @property
    def outputs_(self):
        """f on all rows, of the last (not the averaged) coefficients."""
        s = np.array([[self.state[q].scale] for q in range(self.n_outputs)])
        b = np.array([[self.state[q].bias] for q in range(self.n_outputs)])
        return s * self.outputs_raw + b

    def run_once(self):
        """Visit the rows from the last to the first, for a single epoch.

        As `run`, but outputs of rows that were visited are not kept up to date, so that only
        half of the kernel values are needed; `outputs_` is right for no row afterwards.
        """
        return self.run(np.arange(self.columns.n - 1, -1, -1), falling=True)

    def run(self, order, *, bint falling=False):
        """Visit the rows in this order (each at most once); (changes, largest violation)."""
        cdef Py_ssize_t[::1] rows = np.ascontiguousarray(order, dtype=np.intp)
        cdef Py_ssize_t start, count, q, total = rows.shape[0], changed = 0
        cdef double worst = 0.0
        cdef int status = STATUS_OK
        cdef double[:, ::1] trace
        cdef Py_ssize_t[:, ::1] fixes
        cdef Py_ssize_t[::1] n_fixes = np.zeros(self.n_outputs, np.intp)
        if total and (np.min(order) < 0 or np.max(order) >= self.columns.n):
            raise IndexError("order names a row that does not exist")
        fixed = np.zeros((self.n_outputs, 2 * total if self.keep_corrections else 1), np.intp)
        fixes = fixed
        steps = np.zeros((total if self.record else 1, 4))
        trace = steps
        for q in range(self.n_outputs):
            self.state[q].worst = 0.0
        start = 0
        with nogil:
            while start < total:
                count = total - start if total - start < FIXED_BLOCK else FIXED_BLOCK
                status = fixed_load(self.fixed, &rows[start], count)
                if status != STATUS_OK:
                    break
                for q in range(self.n_outputs):
                    changed += self.work(q, &trace[start if self.record else 0, 0],
                                         &fixes[q, 0], &n_fixes[q])
                start += count
                status = fixed_flush(self.fixed, total - start if falling else self.columns.n)
                if status != STATUS_OK:
                    break
        self.columns.check(status)
        for q in range(self.n_outputs):
            worst = max(worst, self.state[q].worst)
            if self.keep_corrections:
                self.corrections[q].append(
                    fixed[q, :2 * n_fixes[q]].reshape(-1, 2).copy())
        if self.record:
            self.trace.append(steps)
        return changed, worst

    # -------------------------------------------------------- inside one block

    cdef void fold(self, Py_ssize_t q) noexcept nogil:
        """Multiply beta and o (and what is pending) by s, which becomes 1."""
        cdef Py_ssize_t i
        if self.average:
            for i in range(self.columns.n):
                self.bv[q, i] += self.state[q].scale_sum * self.beta[q, i] - self.uv[q, i]
                self.uv[q, i] = 0.0
            self.state[q].scale_sum = 0.0
        fixed_scale(self.fixed, q, self.state[q].scale)
        self.state[q].scale = 1.0

    cdef void shrink(self, Py_ssize_t q, double factor) noexcept nogil:
        """f *= factor."""
        cdef Output *state = &self.state[q]
        cdef double size
        state.scale *= factor
        size = fabs(state.scale)
        # S beta and u grow like 1/s while their difference does not: fold earlier for averages
        if size < (1e-3 if self.average else 1e-9) or size > (1e3 if self.average else 1e9):
            self.fold(q)

    cdef Py_ssize_t work(self, Py_ssize_t q, double *trace, Py_ssize_t *fixes,
                         Py_ssize_t *n_fixes) noexcept nogil:
        """The rule on the block's examples in turn; how many coefficients changed."""
        cdef Output *state = &self.state[q]
        cdef Fixed *fixed = self.fixed
        cdef int rule = self.rule
        cdef double y, f, f0, w, eta, a, target, d, root, norm, k_ii, C = state.C
        cdef Py_ssize_t k, i, count = fixed.count, changed = 0
        cdef bint violates
        for k in range(count):
            i = fixed.rows[k]
            if self.has_mask and not self.mv[q, i]:
                continue
            state.t += 1.0
            y = self.yv[q, i]
            w = self.wv[i] if self.has_weights else 1.0
            k_ii = fixed.gram[k * count + k]
            root = sqrt(2.0 / state.t)
            eta = C * root
            if rule == PEGAZ:
                state.scale = eta
            f0 = state.scale * fixed_output(fixed, q, k)
            f = f0 + state.bias
            violates = y * f < 1.0
            if violates:
                state.loss += 1.0 - y * f
                state.mistakes += y * f <= 0.0
            d = 0.0
            if rule == OL_SVM:
                if violates:
                    d = eta * y * w
            elif rule == OL_SVM_REGULARIZED:
                d = -eta * self.beta[q, i] / C
                if violates:
                    d += eta * y * w
            elif rule == NORMA:
                self.shrink(q, 1.0 - root)
                if violates:
                    d = eta * y * w / state.scale
            elif rule == NORMA_PRINTED:
                target = eta * y * w if violates else state.scale * self.beta[q, i]
                self.shrink(q, 1.0 - root)
                d = target / state.scale - self.beta[q, i]
            elif rule == PEGAZ:
                if violates:
                    d = y * w
            elif rule == PERCEPTRON:
                eta = 1.0
                violates = y * f <= 0.0
                if violates:
                    d = y * w
            elif rule == ADATRON:
                a = y * self.beta[q, i]
                eta = self.eta if self.eta > 0.0 else (1.0 / k_ii if k_ii > 0.0 else 0.0)
                target = a + eta * (1.0 - y * f)
                target = 0.0 if target < 0.0 else (w * C if target > w * C else target)
                d = y * (target - a)
                # the violation: the gradient, unless a bound forbids to follow it
                a = 0.0 if d == 0.0 else fabs(1.0 - y * f)
                if a > state.worst:
                    state.worst = a
            elif rule == BALLSEPTRON:
                eta = 1.0
                norm = sqrt(state.sq_norm)
                if norm == 0.0:
                    d = y * w
                    state.sq_norm = k_ii * w * w
                elif y * f0 < self.radius * norm:  # w <- w + y x', x' = x - r y w/||w||
                    a = 1.0 - w * self.radius / norm
                    self.shrink(q, a)
                    state.sq_norm = a * a * state.sq_norm + 2.0 * a * y * w * f0 + w * w * k_ii
                    state.sq_norm = 0.0 if state.sq_norm < 0.0 else state.sq_norm
                    d = y * w / state.scale
            else:  # ALMA, p = 2, on inputs of unit norm
                eta = self.step / sqrt(state.corrections)
                norm = sqrt(k_ii)
                a = (1.0 - self.slack) * self.margin / sqrt(state.corrections)
                if norm > 0.0 and y * f0 / norm <= a:
                    target = eta * y * w / norm
                    state.sq_norm += 2.0 * target * f0 + target * target * k_ii
                    state.corrections += 1.0
                    d = target / state.scale
            if d != 0.0:
                if self.average:
                    self.uv[q, i] += d * state.scale_sum
                if self.record and q == 0:
                    self.support += (self.beta[q, i] == 0.0)
                fixed_add(fixed, q, k, d)
                if self.record and q == 0:
                    self.support -= (self.beta[q, i] == 0.0)
                changed += 1
                if self.keep_corrections:
                    fixes[2 * n_fixes[0]] = i
                    fixes[2 * n_fixes[0] + 1] = <Py_ssize_t> state.t
                    n_fixes[0] += 1
                if rule == ALMA and state.sq_norm > 1.0:
                    self.shrink(q, 1.0 / sqrt(state.sq_norm))
                    state.sq_norm = 1.0
            if self.bias and violates and rule <= PERCEPTRON:
                state.bias += (y if rule == PERCEPTRON else eta * y) * w
                if d == 0.0:
                    changed += 1
            if self.average:
                state.scale_sum += state.scale
                state.bias_sum += state.bias
            if self.record and q == 0:
                trace[4 * k] = eta
                trace[4 * k + 1] = y * f
                trace[4 * k + 2] = self.support
                trace[4 * k + 3] = state.bias
        return changed
