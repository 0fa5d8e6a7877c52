"""Many candidates trained side by side in one pass over the rows.

G candidates (a regulariser and a schedule each) with K outputs are G*K columns of
one scaled weight matrix, candidate after candidate.  A row is read once; its
non-zeros meet the weights of all candidates in one stretch of memory.  Each
candidate takes exactly the steps that `SGDLearner` would take alone.

Candidates are scored test-then-train: loss and error of each example before the
step on it.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from osvm._parts cimport LossSpec, StepSpec
from osvm._rows cimport RowSource
from osvm._weights cimport ScaledMatrix
from osvm.core.loss cimport Loss, loss_value_xi, mloss_value_xi
from osvm.core.row cimport Row, Rows, rows_get, rows_prefetch
from osvm.core.smat cimport (
    SMat, smat_axpy, smat_count_average, smat_dot, smat_project_one, smat_shrink_one,
    smat_start_average,
)
from osvm.core.step cimport Step, step_next
from osvm.core.typedefs cimport WEIGHT_F32

cdef enum:
    AHEAD = 4


cdef class SearchLearner:
    """Weights, intercepts and scores of all candidates.

    Parameters
    ----------
    n_features : int
    n_out : int
        Outputs of one candidate: 1 for two classes.
    dtype : float32 or float64
    loss : LossSpec
    steps : list of StepSpec, one per candidate
    regs, radii, intercept_eta0 : float64 arrays, one entry per candidate
    average_from : float
    fit_intercept : bool
    """
    cdef Loss loss
    cdef object loss_spec
    cdef Step *steps
    cdef readonly ScaledMatrix weights
    cdef readonly object intercept          # G x K
    cdef readonly object intercept_sum
    cdef readonly object loss_sum           # G
    cdef readonly object error_sum          # G
    cdef readonly object regs
    cdef readonly object radii
    cdef readonly object intercept_eta0
    cdef double average_from
    cdef bint fit_intercept
    cdef bint projects
    cdef Py_ssize_t n_candidates
    cdef Py_ssize_t n_out
    cdef readonly double seen
    cdef object _scratch

    def __cinit__(self):
        self.steps = NULL

    def __dealloc__(self):
        free(self.steps)

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss, steps, *,
                 regs, radii, intercept_eta0, double average_from=-1.0,
                 bint fit_intercept=True):
        cdef Py_ssize_t g
        cdef StepSpec step
        self.n_candidates = len(steps)
        self.n_out = n_out
        if self.n_candidates < 1:
            raise ValueError("a search needs at least one candidate")
        self.steps = <Step *> calloc(self.n_candidates, sizeof(Step))
        if self.steps == NULL:
            raise MemoryError()
        for g in range(self.n_candidates):
            step = steps[g]
            self.steps[g] = step.step
        self.loss_spec = loss
        self.loss = loss.loss
        self.regs = np.array(regs, dtype=np.float64)
        self.radii = np.array(radii, dtype=np.float64)
        self.intercept_eta0 = np.array(intercept_eta0, dtype=np.float64)
        for array in (self.regs, self.radii, self.intercept_eta0):
            if array.shape != (self.n_candidates,):
                raise ValueError("regs, radii and intercept_eta0 need one entry per candidate")
        self.projects = bool((self.radii > 0).any())
        self.average_from = average_from
        self.fit_intercept = fit_intercept
        self.weights = ScaledMatrix(n_features, self.n_candidates * n_out, dtype, self.projects)
        if average_from >= 0:
            self.weights.reserve_average()
        self.intercept = np.zeros((self.n_candidates, n_out))
        self.intercept_sum = np.zeros((self.n_candidates, n_out))
        self.loss_sum = np.zeros(self.n_candidates)
        self.error_sum = np.zeros(self.n_candidates)
        self._scratch = np.zeros(2 * self.n_candidates * n_out)

    def run(self, RowSource X, targets, order=None, Py_ssize_t start=0, Py_ssize_t stop=-1,
            sample_weight=None):
        """Learn from examples order[start:stop]; targets as for `SGDLearner.run`."""
        cdef const int64_t[::1] order_view
        cdef const double[::1] y_view, weight_view
        cdef const int32_t[::1] label_view
        cdef const int64_t *order_at = NULL
        cdef const double *y = NULL
        cdef const int32_t *labels = NULL
        cdef const double *weight = NULL
        cdef Py_ssize_t n = X.rows.n_rows, end, chunk
        cdef Py_ssize_t failed = -1
        if X.rows.n_features != self.weights.dim:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.weights.dim}")
        if order is not None:
            order_view = order
            n = order_view.shape[0]
            if n:
                order_at = &order_view[0]
        if stop < 0:
            stop = n
        if not 0 <= start <= stop <= n:
            raise ValueError(f"examples {start} to {stop} of {n}")
        if start == stop:
            return
        if self.n_out == 1:
            y_view = targets
            y = &y_view[0]
        else:
            label_view = targets
            labels = &label_view[0]
        if len(targets) != X.rows.n_rows:
            raise ValueError(f"{len(targets)} targets for {X.rows.n_rows} rows")
        if sample_weight is not None:
            weight_view = sample_weight
            if weight_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{weight_view.shape[0]} weights for {X.rows.n_rows} rows")
            weight = &weight_view[0]
        chunk = max(1, 20_000 // (self.n_candidates * self.n_out))
        while start < stop:
            end = min(stop, start + chunk)
            with nogil:
                failed = self._learn(&X.rows, y, labels, order_at, start, end, weight)
            if failed >= 0:
                self.loss_spec.raise_error()
                raise FloatingPointError(
                    f"a candidate's step at row {failed} would overflow: scale the features "
                    "(for example to unit norm), or leave out the smallest reg and largest eta0")
            start = end
            PyErr_CheckSignals()

    cdef Py_ssize_t _learn(self, const Rows *X, const double *y, const int32_t *labels,
                           const int64_t *order, Py_ssize_t start, Py_ssize_t stop,
                           const double *weight) noexcept nogil:
        """Examples start to stop; -1, or the row at which a candidate overflowed."""
        cdef SMat *w = &self.weights.w
        cdef Loss loss = self.loss
        cdef Py_ssize_t G = self.n_candidates, K = self.n_out, n, i, g, k, label, best
        cdef Row row
        cdef double *f
        cdef double *c
        cdef double *b
        cdef double *b_sum
        cdef double *loss_sum
        cdef double *error_sum
        cdef double *regs
        cdef double *radii
        cdef double *eta0_b
        cdef double value, eta, eta_b, example, t, shrink
        cdef double limit = 1e19 if w.kind == WEIGHT_F32 else 1e150
        with gil:
            f = <double *> <size_t> self._scratch.ctypes.data
            b = <double *> <size_t> self.intercept.ctypes.data
            b_sum = <double *> <size_t> self.intercept_sum.ctypes.data
            loss_sum = <double *> <size_t> self.loss_sum.ctypes.data
            error_sum = <double *> <size_t> self.error_sum.ctypes.data
            regs = <double *> <size_t> self.regs.ctypes.data
            radii = <double *> <size_t> self.radii.ctypes.data
            eta0_b = <double *> <size_t> self.intercept_eta0.ctypes.data
        c = f + G * K
        for n in range(start, stop):
            i = n if order == NULL else order[n]
            if n + AHEAD < stop:
                rows_prefetch(X, n + AHEAD if order == NULL else order[n + AHEAD])
            rows_get(X, i, &row)
            smat_dot(w, &row, f)
            t = self.seen + 1.0
            example = 1.0 if weight == NULL else weight[i]
            for g in range(G):
                for k in range(g * K, (g + 1) * K):
                    f[k] += b[k]
                if K == 1:
                    value = loss_value_xi(&loss, y[i], f[g], &c[g])
                    error_sum[g] += (f[g] > 0.0) != (y[i] > 0.0)
                else:
                    label = labels[i]
                    value = mloss_value_xi(&loss, K, label, &f[g * K], 1.0, &c[g * K])
                    best = 0
                    for k in range(1, K):
                        if f[g * K + k] > f[g * K + best]:
                            best = k
                    error_sum[g] += best != label
                loss_sum[g] += value
                eta = step_next(&self.steps[g], t)
                eta_b = eta0_b[g] / sqrt(t) if eta0_b[g] > 0.0 else eta
                shrink = 1.0 - eta * regs[g]
                if shrink < 0.0:
                    shrink = 0.0
                for k in range(g * K, (g + 1) * K):
                    if not (isfinite(value)
                            and fabs(eta * example * c[k]) < limit * fabs(w.scale[k])):
                        return i
                    smat_shrink_one(w, k, shrink)
                    if self.fit_intercept:
                        b[k] -= eta_b * example * c[k]
                    c[k] *= -eta * example
            smat_axpy(w, c, &row)
            if self.projects:
                for g in range(G):
                    if radii[g] > 0.0:
                        for k in range(g * K, (g + 1) * K):
                            smat_project_one(w, k, radii[g])
            if self.average_from >= 0.0 and self.seen >= self.average_from:
                if not w.averaging:
                    smat_start_average(w, w.u)
                smat_count_average(w)
                for k in range(G * K):
                    b_sum[k] += b[k]
            self.seen += 1.0
        return -1

    def candidate_state(self, Py_ssize_t g):
        """(scalars, arrays) of candidate g for `SGDLearner.set_state`."""
        K, w = self.n_out, self.weights
        cut = slice(g * K, (g + 1) * K)
        scalars = {
            "t": self.seen, "seen": self.seen, "loss_sum": float(self.loss_sum[g]),
            "error_sum": float(self.error_sum[g]), "pending": 0.0, "touched_all": 0,
            "eta": self.steps[g].eta, "w_avg_count": w.w.avg_count, "w_low": w.w.low,
            "w_high": w.w.high, "w_averaging": int(w.w.averaging),
            "w_track_norm": int(self.radii[g] > 0),
        }
        arrays = {"w_v": np.ascontiguousarray(w.v[:, cut]),
                  "intercept": self.intercept[g].copy(),
                  "intercept_sum": self.intercept_sum[g].copy()}
        if w.u is not None:
            arrays["w_u"] = np.ascontiguousarray(w.u[:, cut])
        if K == 1:
            arrays["w_v"] = arrays["w_v"].ravel()
            if w.u is not None:
                arrays["w_u"] = arrays["w_u"].ravel()
            scalars |= {"w_scale": float(w.scale[g]), "w_sq_v": float(w.sq_v[g]),
                        "w_avg_scale": float(w.avg_scale[g])}
        else:
            arrays |= {"w_scale": w.scale[cut].copy(), "w_sq_v": w.sq_v[cut].copy(),
                       "w_avg_scale": w.avg_scale[cut].copy()}
        return scalars, arrays
