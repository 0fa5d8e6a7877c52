"""Many candidates trained side by side in one pass over the rows.

G candidates (a regulariser and a schedule each) with K outputs are G*K columns of
one scaled weight matrix, candidate after candidate.  A row is read once; its
non-zeros meet the weights of all candidates in one stretch of memory.  Each
candidate takes exactly the steps that `SGDLearner` would take alone.

Candidates are scored test-then-train: loss and error of each example before the
step on it.

Everything that is done for each candidate is a loop over an array without a branch,
so that the compiler makes it wide; candidates that leave the usual way (an overflow,
a scale to be folded) are looked for once per example, all together.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from osvm._parts.compiled cimport LossSpec, StepSpec
from osvm._input.rows cimport RowSource
from osvm.linear.weights cimport ScaledMatrix
from osvm.core.loss cimport LOSS_HINGE, loss_value_xi, mloss_value_xi
from osvm.core.rows cimport OSVM_PREFETCH, row_index, rows_get, rows_prefetch, rows_prefetch_start
from osvm.core.smat cimport (
    smat_axpy, smat_count_average, smat_dot_ahead, smat_fold, smat_project_one,
    smat_rescale_column, smat_start_average,
)
from osvm.core.step cimport STEP_BOTTOU, STEP_INVERSE_TIME, step_next
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, ROW_F64_I64, WEIGHT_F32, Loss, Row, Rows,
    SMat, Step,
)

cdef enum:
    AHEAD = 4


cdef extern from "../_c/search.h" nogil:
    int osvm_simd_limit(int level)
    ctypedef struct osvm_candidates:
        double *f
        double *c
        double *b
        double *scale
        double *loss_sum
        double *error_sum
        const double *reg
        const double *step_reg
        const double *t0
        const double *eta0_b
    int osvm_search_step(const osvm_candidates *a, Py_ssize_t n, double y, double t,
                         double example, double with_b, double limit, double low, double high)
    bint osvm_search_dot_f32_i32(const float *x, const int32_t *j, Py_ssize_t n, const float *v,
                                 Py_ssize_t K, const int32_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, float *work, double *f)
    bint osvm_search_axpy_f32_i32(const float *x, const int32_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  float *work, float *v)
    bint osvm_search_dot_f32_i64(const float *x, const int64_t *j, Py_ssize_t n, const float *v,
                                 Py_ssize_t K, const int64_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, float *work, double *f)
    bint osvm_search_axpy_f32_i64(const float *x, const int64_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  float *work, float *v)
    bint osvm_search_dot_f64_i32(const double *x, const int32_t *j, Py_ssize_t n, const double *v,
                                 Py_ssize_t K, const int32_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, double *work, double *f)
    bint osvm_search_axpy_f64_i32(const double *x, const int32_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  double *work, double *v)
    bint osvm_search_dot_f64_i64(const double *x, const int64_t *j, Py_ssize_t n, const double *v,
                                 Py_ssize_t K, const int64_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, double *work, double *f)
    bint osvm_search_axpy_f64_i64(const double *x, const int64_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  double *work, double *v)


def limit_simd(int level):
    """Use at most this level of wide instructions here; the level in use.  For tests."""
    return osvm_simd_limit(level)


cdef inline void name_columns(Row *row, const int32_t *every) noexcept nogil:
    """Let a dense row pass for a sparse one that stores every column, for the wide loops."""
    if every != NULL:
        row.indices = every
        row.kind = ROW_F32_I32 if row.kind == ROW_F32_DENSE else ROW_F64_I32


cdef inline bint all_fit(const double *eta, const double *c, const double *scale,
                         Py_ssize_t n, double example, double limit) noexcept nogil:
    """Whether no step overflows; a NaN does."""
    cdef Py_ssize_t k, good = 0
    for k in range(n):
        good += fabs(eta[k] * example * c[k]) < limit * fabs(scale[k])
    return good == n


cdef inline void dot_row(const SMat *w, const Row *row, double *f,
                         const Row *later) noexcept nogil:
    """f[k] = w_k . row, fetching the weights of row `later`"""
    cdef Py_ssize_t k, stride = w.n_out * (4 if w.kind == WEIGHT_F32 else 8)
    if w.kind == WEIGHT_F32:
        if row.kind == ROW_F32_I32 and osvm_search_dot_f32_i32(
                <const float *> row.values, <const int32_t *> row.indices, row.count,
                <const float *> w.v, w.n_out, <const int32_t *> later.indices, later.count,
                w.scale, row.scale, <float *> w.work, f):
            return
        if row.kind == ROW_F32_I64 and osvm_search_dot_f32_i64(
                <const float *> row.values, <const int64_t *> row.indices, row.count,
                <const float *> w.v, w.n_out, <const int64_t *> later.indices, later.count,
                w.scale, row.scale, <float *> w.work, f):
            return
    else:
        if row.kind == ROW_F64_I32 and osvm_search_dot_f64_i32(
                <const double *> row.values, <const int32_t *> row.indices, row.count,
                <const double *> w.v, w.n_out, <const int32_t *> later.indices, later.count,
                w.scale, row.scale, <double *> w.work, f):
            return
        if row.kind == ROW_F64_I64 and osvm_search_dot_f64_i64(
                <const double *> row.values, <const int64_t *> row.indices, row.count,
                <const double *> w.v, w.n_out, <const int64_t *> later.indices, later.count,
                w.scale, row.scale, <double *> w.work, f):
            return
    smat_dot_ahead(w, row, f, later)
    for k in range(row.count, later.count):     # what that has not fetched
        OSVM_PREFETCH(<const char *> w.v + row_index(later, k) * stride)


cdef inline void axpy_row(SMat *w, const double *c, const Row *row) noexcept nogil:
    """w_k += c[k] row"""
    if w.track_norm or w.averaging:
        smat_axpy(w, c, row)
        return
    if w.kind == WEIGHT_F32:
        if row.kind == ROW_F32_I32 and osvm_search_axpy_f32_i32(
                <const float *> row.values, <const int32_t *> row.indices, row.count, c,
                w.scale, row.scale, w.n_out, <float *> w.work, <float *> w.v):
            return
        if row.kind == ROW_F32_I64 and osvm_search_axpy_f32_i64(
                <const float *> row.values, <const int64_t *> row.indices, row.count, c,
                w.scale, row.scale, w.n_out, <float *> w.work, <float *> w.v):
            return
    else:
        if row.kind == ROW_F64_I32 and osvm_search_axpy_f64_i32(
                <const double *> row.values, <const int32_t *> row.indices, row.count, c,
                w.scale, row.scale, w.n_out, <double *> w.work, <double *> w.v):
            return
        if row.kind == ROW_F64_I64 and osvm_search_axpy_f64_i64(
                <const double *> row.values, <const int64_t *> row.indices, row.count, c,
                w.scale, row.scale, w.n_out, <double *> w.work, <double *> w.v):
            return
    smat_axpy(w, c, row)


cdef void fold_outside(SMat *w) noexcept nogil:
    """Fold the scales that have left their range; columns shrunk to nothing are cleared."""
    cdef Py_ssize_t k
    for k in range(w.n_out):
        if w.scale[k] == 0.0:
            smat_rescale_column(w, k, 0.0)
        elif fabs(w.scale[k]) < w.low or fabs(w.scale[k]) > w.high:
            smat_fold(w, k)


cdef void shrink_all(SMat *w, const double *factor) noexcept nogil:
    """w_k *= factor[k]"""
    cdef Py_ssize_t k, inside = 0, n = w.n_out
    cdef double *scale = w.scale
    cdef double low = w.low, high = w.high
    for k in range(n):
        scale[k] *= factor[k]
        inside += fabs(scale[k]) >= low and fabs(scale[k]) <= high
    if inside < n:
        fold_outside(w)


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
    cdef bint inverse_time                  # every step is 1 / (step_reg (t0 + t))
    cdef object _step_reg, _t0, _column_regs, _column_eta0      # one entry per column
    cdef object _scratch
    cdef object _columns                    # 0, 1, ... for dense rows
    cdef const int32_t *every               # them, or NULL

    def __cinit__(self):
        self.steps = NULL

    def __dealloc__(self):
        free(self.steps)

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss, steps, *,
                 regs, radii, intercept_eta0, double average_from=-1.0,
                 bint fit_intercept=True):
        self.n_candidates = len(steps)
        self.n_out = n_out
        if self.n_candidates < 1:
            raise ValueError("a search needs at least one candidate")
        self.steps = <Step *> calloc(self.n_candidates, sizeof(Step))
        if self.steps == NULL:
            raise MemoryError()
        self._take_steps(steps)
        self.loss_spec = loss
        self.loss = loss.loss
        self.regs = np.array(regs, dtype=np.float64)
        self.radii = np.array(radii, dtype=np.float64)
        self.intercept_eta0 = np.array(intercept_eta0, dtype=np.float64)
        for array in (self.regs, self.radii, self.intercept_eta0):
            if array.shape != (self.n_candidates,):
                raise ValueError("regs, radii and intercept_eta0 need one entry per candidate")
        self._column_regs = np.repeat(self.regs, n_out)
        self._column_eta0 = np.repeat(self.intercept_eta0, n_out)
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
        self._scratch = np.zeros(4 * self.n_candidates * n_out)

    def _take_steps(self, steps):
        cdef Py_ssize_t g
        cdef StepSpec step
        self.inverse_time = True
        self._step_reg = np.ones(self.n_candidates * self.n_out)
        self._t0 = np.zeros(self.n_candidates * self.n_out)
        for g in range(self.n_candidates):
            step = steps[g]
            self.steps[g] = step.step
            if step.step.kind not in (STEP_INVERSE_TIME, STEP_BOTTOU):
                self.inverse_time = False
            columns = slice(g * self.n_out, (g + 1) * self.n_out)
            self._step_reg[columns] = step.step.reg
            self._t0[columns] = step.step.t0 if step.step.kind == STEP_BOTTOU else 0.0

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
        self.every = NULL
        if not X.sparse and X.rows.step == 1 and X.rows.n_features < 2**31:
            if self._columns is None:
                self._columns = np.arange(X.rows.n_features, dtype=np.int32)
            self.every = <const int32_t *> <size_t> self._columns.ctypes.data
        chunk = max(1, 400_000 // (self.n_candidates * self.n_out))
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
        cdef Py_ssize_t columns = G * K
        cdef Row pair[2]
        cdef Row *row
        cdef Row *later
        cdef Row none               # dense rows have the same weights: nothing to fetch
        cdef double *f
        cdef double *c
        cdef double *eta
        cdef double *factor
        cdef double *b
        cdef double *b_sum
        cdef double *loss_sum
        cdef double *error_sum
        cdef double *regs
        cdef double *radii
        cdef double *eta0_b
        cdef double *step_reg
        cdef double *t0
        cdef double example, t, root, eta_b
        cdef osvm_candidates arrays
        cdef int step
        # The usual case has a loop of its own (osvm/_c/search.h).
        cdef bint quick = K == 1 and loss.kind == LOSS_HINGE and self.inverse_time
        cdef double limit = 1e19 if w.kind == WEIGHT_F32 else 1e150
        with gil:
            f = <double *> <size_t> self._scratch.ctypes.data
            b = <double *> <size_t> self.intercept.ctypes.data
            b_sum = <double *> <size_t> self.intercept_sum.ctypes.data
            loss_sum = <double *> <size_t> self.loss_sum.ctypes.data
            error_sum = <double *> <size_t> self.error_sum.ctypes.data
            regs = <double *> <size_t> self._column_regs.ctypes.data
            radii = <double *> <size_t> self.radii.ctypes.data
            eta0_b = <double *> <size_t> self._column_eta0.ctypes.data
            step_reg = <double *> <size_t> self._step_reg.ctypes.data
            t0 = <double *> <size_t> self._t0.ctypes.data
        none.indices, none.count = NULL, 0
        c, eta, factor = f + columns, f + 2 * columns, f + 3 * columns
        arrays.f, arrays.c, arrays.b, arrays.scale = f, c, b, w.scale
        arrays.loss_sum, arrays.error_sum, arrays.reg = loss_sum, error_sum, regs
        arrays.step_reg, arrays.t0, arrays.eta0_b = step_reg, t0, eta0_b
        for n in range(start, stop):
            i = n if order == NULL else order[n]
            if order != NULL and n + 2 * AHEAD < stop:
                rows_prefetch_start(X, order[n + 2 * AHEAD])
            if n + AHEAD < stop:
                rows_prefetch(X, n + AHEAD if order == NULL else order[n + AHEAD])
            row = &pair[n & 1]
            later = row
            if n == start:
                rows_get(X, i, row)
                name_columns(row, self.every)
            if n + 1 < stop:
                later = &pair[(n + 1) & 1]
                rows_get(X, n + 1 if order == NULL else order[n + 1], later)
                name_columns(later, self.every)
            dot_row(w, row, f, later if self.every == NULL else &none)
            t = self.seen + 1.0
            example = 1.0 if weight == NULL else weight[i]
            if quick:
                step = osvm_search_step(&arrays, G, y[i], t, example, self.fit_intercept, limit,
                                        w.low, w.high)
                if step & 2:
                    return i
                if step & 1:
                    fold_outside(w)
            else:
                for k in range(columns):
                    f[k] += b[k]
                if K > 1:
                    label = labels[i]
                    for g in range(G):
                        loss_sum[g] += mloss_value_xi(&loss, K, label, &f[g * K], 1.0, &c[g * K])
                        best = 0
                        for k in range(1, K):
                            if f[g * K + k] > f[g * K + best]:
                                best = k
                        error_sum[g] += best != label
                else:
                    for g in range(G):
                        loss_sum[g] += loss_value_xi(&loss, y[i], f[g], &c[g])
                        error_sum[g] += (f[g] > 0.0) != (y[i] > 0.0)
                if self.inverse_time:
                    for k in range(columns):
                        eta[k] = 1.0 / (step_reg[k] * (t0[k] + t))
                else:
                    for k in range(columns):
                        eta[k] = step_next(&self.steps[k // K], t)
                for g in range(G):
                    if not isfinite(loss_sum[g]):
                        return i
                if not all_fit(eta, c, w.scale, columns, example, limit):
                    return i
                for k in range(columns):
                    factor[k] = 1.0 - eta[k] * regs[k]
                    factor[k] = factor[k] if factor[k] > 0.0 else 0.0
                shrink_all(w, factor)
                if self.fit_intercept:
                    root = sqrt(t)
                    for k in range(columns):
                        eta_b = eta0_b[k] / root
                        eta_b = eta_b if eta0_b[k] > 0.0 else eta[k]
                        b[k] -= eta_b * example * c[k]
                for k in range(columns):
                    c[k] *= -eta[k] * example
            axpy_row(w, c, row)
            if self.projects:
                for g in range(G):
                    if radii[g] > 0.0:
                        for k in range(g * K, (g + 1) * K):
                            smat_project_one(w, k, radii[g])
            if self.average_from >= 0.0 and self.seen >= self.average_from:
                if not w.averaging:
                    smat_start_average(w, w.u)
                smat_count_average(w)
                for k in range(columns):
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
