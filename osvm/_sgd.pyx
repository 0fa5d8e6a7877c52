"""Stochastic (sub)gradient descent on sparse rows: the linear learners' loop.

One step on example (x, y), with f = w.x + b and xi = dloss/df:

    w <- (1 - eta reg) w - eta c xi x        c: the example's weight
    b <- b - eta_b c xi
    w <- w min(1, radius/||w||)              with projection
    average <- average + w                   with averaging

Sources: Bagnell's notes (1/(reg t) steps, projection, averaging, mini-batches),
the slides on f(w, b), Kitani's lecture (online subgradient descent, SoftSVM,
perceptron); K outputs share one pass, feature-major.

Invariants
- the state after n examples does not depend on how they were split into calls;
- rows are validated before they come here; a step that would overflow is not
  made, and the loop returns the row;
- with mini-batches, gradients are summed in `grad` and the step is made when
  the batch is full, or by `flush`.
"""
import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from osvm._check import largest_magnitude

from osvm._parts cimport LossSpec, StepSpec
from osvm._rows cimport RowSource
from osvm._sgd_sparse cimport (
    Stretch, clamp_shrink, fits, learn_stretch, row_largest, step_limit,
)
from osvm._weights cimport ScaledMatrix, ScaledVector
from osvm.core.loss cimport (
    LOSS_CUSTOM, LOSS_HUBER, LOSS_MODIFIED_HUBER, LOSS_SQUARED, LOSS_SQUARED_HINGE, Loss,
    loss_value_xi, mloss_value_xi,
)
from osvm.core.row cimport (
    ROW_F32_DENSE, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I64, Row, Rows, row_axpy, row_index,
    rows_get, rows_prefetch, rows_prefetch_start,
)
from osvm.core.smat cimport (
    SMat, row_axpy_all, smat_average_dot, smat_axpy, smat_count_average, smat_dot, smat_dot_ahead,
    smat_project_one, smat_shrink, smat_start_average,
)
from osvm.core.step cimport STEP_CONSTANT, Step, step_eta, step_next
from osvm.core.svec cimport (
    SVec, svec_average_dot, svec_axpy, svec_count_average, svec_dot, svec_dot_ahead,
    svec_project, svec_shrink, svec_start_average,
)
from osvm.core.typedefs cimport WEIGHT_F32, float32_t, float64_t, weight_t

cdef extern from "osvm_simd.h" nogil:
    void OSVM_PREFETCH(const void *address)

# Rows fetched ahead of their use; four hide the memory's latency.
cdef enum:
    AHEAD = 4
    RING = 8                # rows looked up and not used yet; a power of two above AHEAD


cdef void *pointer(object array) except NULL:
    """Where a contiguous numpy array of ours keeps its numbers."""
    cdef size_t where = array.__array_interface__["data"][0]
    return <void *> where


cdef void clear(void *array, Py_ssize_t n, int kind) noexcept nogil:
    memset(array, 0, n * (4 if kind == WEIGHT_F32 else 8))


cdef inline bint fits_all(double eta, double pull, const SMat *w, double limit) noexcept nogil:
    """The same for K outputs, whose largest |xi| times the example's weight is `pull`."""
    cdef Py_ssize_t k
    cdef double size = eta * pull, smallest = fabs(w.scale[0]), average = 1.0
    # Scales stay within [low, high], which settles it nearly always.
    if pull < 1e145 and size * (1.0 + w.avg_count * w.high) < limit * w.low:
        return True
    for k in range(w.n_out):
        smallest = fabs(w.scale[k]) if fabs(w.scale[k]) < smallest else smallest
    if w.averaging:
        for k in range(w.n_out):
            average = w.avg_scale[k] if w.avg_scale[k] > average else average
    return pull < 1e145 and size * average < limit * smallest


cdef inline double largest_of(const double *xi, Py_ssize_t K) noexcept nogil:
    cdef Py_ssize_t k
    cdef double largest = 0.0
    for k in range(K):
        largest = fabs(xi[k]) if fabs(xi[k]) > largest else largest
    return largest


cdef inline bint any_of(const double *xi, Py_ssize_t K) noexcept nogil:
    cdef Py_ssize_t k, n = 0
    for k in range(K):
        n += xi[k] != 0.0
    return n > 0


cdef inline Py_ssize_t outranking(const double *f, Py_ssize_t K,
                                  Py_ssize_t label) noexcept nogil:
    """How many outputs come before the label's: larger, or equal and earlier."""
    cdef Py_ssize_t k, n = 0
    cdef double own = f[label]
    for k in range(label):
        n += f[k] >= own
    for k in range(label + 1, K):
        n += f[k] > own
    return n


cdef double loss_slope(const Loss *loss) noexcept nogil:
    """Bound of |xi|; infinity where there is none."""
    if loss.kind in (LOSS_SQUARED_HINGE, LOSS_SQUARED, LOSS_CUSTOM):
        return INFINITY
    if loss.kind == LOSS_MODIFIED_HUBER:
        return 4.0
    return loss.p0 if loss.kind == LOSS_HUBER else 1.0


cdef class SGDLearner:
    """Weights, intercepts and counters of one linear model, and its loops.

    Parameters
    ----------
    n_features, n_out : int
        One output for binary, regression and novelty losses.
    dtype : float32 or float64
        Of the weights.
    loss : LossSpec
    step : StepSpec
    reg : float
    radius : float
        Of the ball that w is projected onto; 0 for none.
    average_from : float
        Number of examples before averaging starts; negative for never.
    intercept_eta0 : float
        The intercept's step is this / sqrt(t); 0 to use the weights' step.
    batch_size : int
    fit_intercept : bool
    error_kind : {"class", "absolute", "novel"}
    """

    def __init__(self, Py_ssize_t n_features, Py_ssize_t n_out, dtype, LossSpec loss,
                 StepSpec step, *, double reg, double radius=0.0, double average_from=-1.0,
                 double intercept_eta0=0.0, Py_ssize_t batch_size=1, bint fit_intercept=False,
                 error_kind="class", weights=None):
        dtype = np.dtype(dtype)
        self.n_out = n_out
        self.options.reg = reg
        self.options.radius = radius
        self.options.average_from = average_from
        self.options.intercept_eta0 = intercept_eta0
        self.options.batch_size = batch_size
        self.options.fit_intercept = fit_intercept
        self.options.error_kind = {"class": ERROR_CLASS, "absolute": ERROR_ABSOLUTE,
                                   "novel": ERROR_NOVEL}[error_kind]
        self.set_parts(loss, step)
        if weights is None:
            track = radius > 0.0
            weights = (ScaledVector(n_features, dtype, track) if n_out == 1
                       else ScaledMatrix(n_features, n_out, dtype, track))
            self.reach = 0.0
        else:
            self.reach = -1.0
        self._adopt(weights)
        if average_from >= 0.0:
            weights.reserve_average()
        self.intercept = np.zeros(n_out)
        self.intercept_sum = np.zeros(n_out)
        self._scratch = np.zeros(2 * n_out)
        self._bind()
        if batch_size > 1:
            self._grad = np.zeros((n_features, n_out), dtype)
            self._grad_b = np.zeros(n_out)
            self._touched = np.zeros(n_features, np.int64)
            self._values = np.zeros(n_features, dtype)
            self.grad = pointer(self._grad)
            self.grad_b = <double *> pointer(self._grad_b)
            self.touched = <int64_t *> pointer(self._touched)
            self.values = pointer(self._values)

    def set_parts(self, LossSpec loss, StepSpec step):
        """Use this loss and schedule from now on."""
        self.loss_spec = loss       # owns what the struct points at
        self.loss = loss.loss
        self.step = step.step

    cdef _adopt(self, weights):
        cdef ScaledVector vector
        cdef ScaledMatrix matrix
        self.weights = weights
        self.vec = NULL
        self.mat = NULL
        if self.n_out == 1:
            vector = weights
            self.vec = &vector.w
        else:
            matrix = weights
            self.mat = &matrix.w

    cdef _bind(self):
        self.b = <double *> pointer(self.intercept)
        self.b_sum = <double *> pointer(self.intercept_sum)
        self.f = <double *> pointer(self._scratch)
        self.xi = self.f + self.n_out

    # ------------------------------------------------------------- learning

    def run(self, RowSource X, targets, order=None, Py_ssize_t start=0, Py_ssize_t stop=-1,
            sample_weight=None, record=None, bint undo=False):
        """Learn from examples order[start:stop] (rows start:stop without an order).

        Parameters
        ----------
        X : RowSource
            Validated rows.
        targets : float64 array (one output) or int32 array of labels (several)
        order : int64 array, optional
            Row numbers.
        sample_weight : float64 array, optional
        record : dict of float64 arrays, optional
            "eta", "loss" and "error" of example n go to entry n - start; "score", with a
            column per output, is what prediction would have given before the step.
        undo : bool
            Go back to the state before the call when it fails (an interrupt is no
            failure).

        Raises
        ------
        FloatingPointError
            A step would overflow; the examples before it have been learnt, unless
            `undo` is set.
        """
        cdef const int64_t[::1] order_view
        cdef const double[::1] y_view, weight_view
        cdef const int32_t[::1] label_view
        cdef double[::1] eta_view, loss_view, error_view
        cdef double[:, ::1] score_view
        cdef const int64_t *order_at = NULL
        cdef const double *y = NULL
        cdef const double *weight = NULL
        cdef const int32_t *labels = NULL
        cdef Record at
        cdef Py_ssize_t end, chunk, n = X.rows.n_rows, first = start, failed = 0
        cdef int status = DONE
        cdef double largest
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
            if y_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{y_view.shape[0]} targets for {X.rows.n_rows} rows")
            y = &y_view[0]
        else:
            label_view = targets
            if label_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{label_view.shape[0]} labels for {X.rows.n_rows} rows")
            labels = &label_view[0]
        if sample_weight is not None:
            weight_view = sample_weight
            if weight_view.shape[0] != X.rows.n_rows:
                raise ValueError(f"{weight_view.shape[0]} weights for {X.rows.n_rows} rows")
            weight = &weight_view[0]
        largest = X.largest if X.largest >= 0.0 else largest_magnitude(X)
        at.eta = at.loss = at.error = at.score = NULL
        if record is not None and "eta" in record:
            eta_view, loss_view, error_view = record["eta"], record["loss"], record["error"]
            at.eta, at.loss, at.error = &eta_view[0], &loss_view[0], &error_view[0]
        if record is not None and "score" in record:
            score_view = record["score"]
            if score_view.shape[0] < stop - start or score_view.shape[1] != self.n_out:
                raise ValueError("record['score'] does not fit")
            at.score = &score_view[0, 0]
        chunk = self._mean_count(X)
        saved = None
        if not undo or stop - start == 1:   # one example fails before it changes anything
            self.reach = -1.0
        elif not self._cannot_fail(
                stop - start, X.rows.n_rows * (1.0 + chunk), largest,
                1.0 if sample_weight is None else np.max(sample_weight)):
            saved = self.get_state()
            self.reach = -1.0
        # Signals are looked at between chunks of a few milliseconds.
        chunk = max(1, 4_000_000 // (self.n_out * (1 + chunk)))
        while start < stop:
            end = min(stop, start + chunk)
            with nogil:
                if self.n_out == 1:
                    status = self._learn_scalar(&X.rows, y, order_at, &start, end, weight,
                                                largest, at)
                else:
                    status = self._learn_multi(&X.rows, labels, order_at, &start, end, weight,
                                               largest, at)
            if status != DONE:
                failed = order[start] if order is not None else start
                if saved is not None:
                    self.set_state(*saved)
                self._complain(status, failed)
            if at.eta != NULL:
                at.eta = &eta_view[0] + (start - first) if start < stop else NULL
                at.loss = &loss_view[0] + (start - first) if start < stop else NULL
                at.error = &error_view[0] + (start - first) if start < stop else NULL
            if at.score != NULL and start < stop:
                at.score = &score_view[start - first, 0]
            PyErr_CheckSignals()

    cdef bint _cannot_fail(self, double n, double count, double largest, double heaviest):
        """Whether n more examples are sure to be learnt without an overflow.

        The answer is by bounds: each step moves a weight by at most eta |xi| |x|.
        It is yes for any sensible data and a loss whose slope is bounded, and
        saves the copy of the weights that `undo` would need.

        Parameters
        ----------
        n : examples
        count : stored values, all rows together
        largest : bound of |x|
        heaviest : bound of the examples' weights
        """
        cdef double slope = loss_slope(&self.loss), step, room, score, averaged
        if self.step.kind > STEP_CONSTANT or not slope < INFINITY:
            return False
        if self.reach < 0.0:
            self.reach = max(
                np.abs(self.weights.v).max() * np.max(np.abs(self.weights.scale)),
                np.abs(self.intercept).max())
        step = step_eta(&self.step, self.t + 1.0)
        if self.options.intercept_eta0 > step:
            step = self.options.intercept_eta0
        step *= slope * heaviest
        self.reach += n * step * max(largest, 1.0)
        score = self.reach * (1.0 + largest * count)
        averaged = 1.0 + n + self.weights.averaged_count
        room = 1e30 if self.weights.v.itemsize == 4 else 1e145
        # v is w over its scale, which is 1e-9 or more
        return (score + step * max(largest, 1.0) * averaged) * 1e9 < room

    cdef Py_ssize_t _mean_count(self, RowSource X):
        """Stored values per row, about."""
        cdef Row last
        if not X.sparse:
            return X.rows.n_features
        rows_get(&X.rows, X.rows.n_rows - 1, &last)
        return (<const char *> last.values - <const char *> X.rows.values) // (4 * X.rows.n_rows)

    def _complain(self, int status, Py_ssize_t row):
        self.loss_spec.raise_error()
        if status == NOT_FINITE:
            raise FloatingPointError(
                f"the loss is not finite at row {row}: scale the features (for example to unit "
                "norm) or the targets, or lower the step size")
        raise FloatingPointError(
            f"the step at row {row} would overflow the weights: scale the features (for example "
            "to unit norm), raise reg or lower eta0")

    cdef int _learn_scalar(self, const Rows *X, const double *y, const int64_t *order,
                           Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                           double largest, Record record) noexcept nogil:
        """One output.  `at` moves on with each example; on failure it names the culprit.

        Rows are looked up AHEAD examples before their use and, in another order
        than the file's, fetched meanwhile (in file order the processor does it).
        """
        cdef SVec *w = self.vec
        cdef Options options = self.options
        cdef Loss loss = self.loss
        cdef Step step = self.step
        cdef Py_ssize_t n, i, start = at[0]
        cdef Row ring[RING]
        cdef Row *row
        cdef Row *later
        cdef double f, xi, value, c, eta, eta_b, target, error = 0.0, b = self.b[0]
        cdef double t = self.t, seen = self.seen
        cdef double loss_sum = self.loss_sum, error_sum = self.error_sum
        cdef double limit = step_limit(w.kind, largest)
        cdef bint batched = options.batch_size > 1
        cdef bint averaging = options.average_from >= 0.0
        cdef int status = DONE
        if X.indices != NULL and not batched and record.eta == NULL and record.score == NULL:
            return self._learn_sparse(X, y, order, at, stop, weight, largest)
        for n in range(start, min(start + AHEAD, stop)):
            rows_get(X, n if order == NULL else order[n], &ring[n & (RING - 1)])
        for n in range(start, stop):
            row = &ring[n & (RING - 1)]
            later = row
            if order == NULL:
                i = n
                if n + AHEAD < stop:
                    rows_get(X, n + AHEAD, &ring[(n + AHEAD) & (RING - 1)])
                f = svec_dot(w, row) + b
            else:
                i = order[n]
                if n + 2 * AHEAD < stop:
                    rows_prefetch_start(X, order[n + 2 * AHEAD])
                    OSVM_PREFETCH(y + order[n + 2 * AHEAD])
                if n + AHEAD < stop:
                    later = &ring[(n + AHEAD) & (RING - 1)]
                    rows_get(X, order[n + AHEAD], later)
                f = svec_dot_ahead(w, row, later) + b
            target = y[i]
            value = loss_value_xi(&loss, target, f, &xi)
            if not isfinite(value):
                status = NOT_FINITE
                break
            if record.score != NULL:
                record.score[n - start] = f
                if w.avg_count > 0.0:
                    record.score[n - start] = (svec_average_dot(w, row)
                                               + self.b_sum[0] / w.avg_count)
            c = 1.0 if weight == NULL else weight[i]
            eta = step_next(&step, t + 1.0)
            if batched:
                self.t, self.seen = t, seen
                status = self._take_into_batch(row, &xi, c, largest)
                if status != DONE:
                    break
                t, b = self.t, self.b[0]
            else:
                if xi != 0.0 and not fits(eta, c * xi, w, limit) \
                        and not fits(eta, c * xi, w, step_limit(w.kind, row_largest(row))):
                    status = STEP_TOO_LARGE
                    break
                t += 1.0
                svec_shrink(w, clamp_shrink(1.0 - eta * options.reg))
                if xi != 0.0:
                    svec_axpy(w, -eta * c * xi, row)
                    if options.fit_intercept:
                        if options.intercept_eta0 > 0.0:
                            eta_b = options.intercept_eta0 / sqrt(t)
                        else:
                            eta_b = eta
                        b -= eta_b * c * xi
                if options.radius > 0.0:
                    svec_project(w, options.radius)
                if averaging and seen >= options.average_from:
                    if not w.averaging:
                        svec_start_average(w, w.u)
                    svec_count_average(w)
                    self.b_sum[0] += b
            seen += 1.0
            if options.error_kind == ERROR_CLASS:
                error = (f > 0.0) != (target > 0.0)
            elif options.error_kind == ERROR_ABSOLUTE:
                error = fabs(f - target)
            else:
                error = f < 1.0
            loss_sum += value
            error_sum += error
            if record.eta != NULL:
                record.eta[n - start] = eta
                record.loss[n - start] = value
                record.error[n - start] = error_sum / seen
            at[0] = n + 1
        self.b[0] = b
        self.t, self.seen = t, seen
        self.loss_sum, self.error_sum = loss_sum, error_sum
        return status

    cdef int _learn_sparse(self, const Rows *X, const double *y, const int64_t *order,
                           Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                           double largest) noexcept nogil:
        """The usual case of _learn_scalar, in a loop for its types (osvm/_sgd_sparse.pxd)."""
        cdef Stretch s
        cdef int status
        s.X, s.y, s.order, s.weight = X, y, order, weight
        s.at, s.stop, s.largest = at[0], stop, largest
        s.t, s.seen, s.b, s.b_sum = self.t, self.seen, self.b[0], self.b_sum[0]
        s.loss_sum, s.error_sum = self.loss_sum, self.error_sum
        status = learn_stretch(&s, self.vec, &self.options, &self.loss, &self.step)
        at[0] = s.at
        self.t, self.seen, self.b[0], self.b_sum[0] = s.t, s.seen, s.b, s.b_sum
        self.loss_sum, self.error_sum = s.loss_sum, s.error_sum
        return status

    cdef int _learn_multi(self, const Rows *X, const int32_t *labels, const int64_t *order,
                          Py_ssize_t *at, Py_ssize_t stop, const double *weight,
                          double largest, Record record) noexcept nogil:
        """K outputs in one pass; otherwise as _learn_scalar."""
        cdef SMat *w = self.mat
        cdef Options options = self.options
        cdef Loss loss = self.loss
        cdef Step step = self.step
        cdef Py_ssize_t n, i, k, label, better, start = at[0], K = self.n_out
        cdef Py_ssize_t stride = K * (4 if w.kind == WEIGHT_F32 else 8)
        cdef Row pair[2]
        cdef Row *row
        cdef Row *later
        cdef double *f = self.f
        cdef double *xi = self.xi
        cdef double *b = self.b
        cdef double value, c, eta, eta_b, pull
        cdef double limit = step_limit(w.kind, largest), slope = loss_slope(&loss)
        cdef bint batched = options.batch_size > 1
        for n in range(start, stop):
            i = n if order == NULL else order[n]
            if order != NULL and n + 2 * AHEAD < stop:
                rows_prefetch_start(X, order[n + 2 * AHEAD])
                OSVM_PREFETCH(labels + order[n + 2 * AHEAD])
            if n + AHEAD < stop:
                rows_prefetch(X, n + AHEAD if order == NULL else order[n + AHEAD])
            row = &pair[n & 1]
            later = row
            if n == start:
                rows_get(X, i, row)
            if n + 1 < stop:
                later = &pair[(n + 1) & 1]
                rows_get(X, n + 1 if order == NULL else order[n + 1], later)
            label = labels[i]
            smat_dot_ahead(w, row, f, later)
            for k in range(row.count, later.count):     # what that has not fetched
                OSVM_PREFETCH(<const char *> w.v + row_index(later, k) * stride)
                OSVM_PREFETCH(<const char *> w.v + row_index(later, k) * stride + stride - 1)
            for k in range(K):
                f[k] += b[k]
            value = mloss_value_xi(&loss, K, label, f, 1.0, xi)
            if not isfinite(value):
                return NOT_FINITE
            if record.score != NULL:
                self._record_scores(row, record.score + (n - start) * K)
            c = 1.0 if weight == NULL else weight[i]
            eta = step_next(&step, self.t + 1.0)
            better = outranking(f, K, label)
            if batched:
                k = self._take_into_batch(row, xi, c, largest)
                if k != DONE:
                    return <int> k
            else:
                # where the slope is bounded, the bound will do
                pull = c * (slope if slope < INFINITY else largest_of(xi, K))
                if not any_of(xi, K):
                    pull = 0.0
                if pull > 0.0 and not fits_all(eta, pull, w, limit) \
                        and not fits_all(eta, pull, w, step_limit(w.kind, row_largest(row))):
                    return STEP_TOO_LARGE
                self.t += 1.0
                smat_shrink(w, clamp_shrink(1.0 - eta * options.reg))
                if pull > 0.0:
                    if options.fit_intercept:
                        eta_b = eta
                        if options.intercept_eta0 > 0.0:
                            eta_b = options.intercept_eta0 / sqrt(self.t)
                        for k in range(K):
                            b[k] -= eta_b * c * xi[k]
                    for k in range(K):
                        xi[k] *= -eta * c
                    smat_axpy(w, xi, row)
                self._after_step()
            self.seen += 1.0
            self.loss_sum += value
            self.error_sum += better > 0
            if record.eta != NULL:
                record.eta[n - start] = eta
                record.loss[n - start] = value
                record.error[n - start] = self.error_sum / self.seen
            at[0] = n + 1
        return DONE

    cdef void _record_scores(self, const Row *row, double *out) noexcept nogil:
        """What prediction gives for this row now; the last scores are at hand."""
        cdef Py_ssize_t k
        if self.mat.avg_count == 0.0:
            for k in range(self.n_out):
                out[k] = self.f[k]
            return
        smat_average_dot(self.mat, row, out)
        for k in range(self.n_out):
            out[k] += self.b_sum[k] / self.mat.avg_count

    cdef void _after_step(self) noexcept nogil:
        """Project, then count the iterate."""
        cdef Py_ssize_t k
        if self.options.radius > 0.0:
            if self.vec != NULL:
                svec_project(self.vec, self.options.radius)
            else:
                for k in range(self.n_out):
                    smat_project_one(self.mat, k, self.options.radius)
        if self.options.average_from >= 0.0 and self.seen >= self.options.average_from:
            if self.vec != NULL:
                if not self.vec.averaging:
                    svec_start_average(self.vec, self.vec.u)
                svec_count_average(self.vec)
            else:
                if not self.mat.averaging:
                    smat_start_average(self.mat, self.mat.u)
                smat_count_average(self.mat)
            for k in range(self.n_out):
                self.b_sum[k] += self.b[k]

    # --------------------------------------------------------- mini-batches

    cdef int _take_into_batch(self, const Row *row, const double *xi, double c,
                              double largest) noexcept nogil:
        """Sum one example's gradient, and make the step when the batch is full.

        The pulls of the examples add up to a bound of the step, so that an example
        that would overflow it is refused before anything changes.
        """
        cdef double size = c * largest_of(xi, self.n_out)
        if not self._fits_batch(self.batch_pull + size * largest):
            largest = row_largest(row)
            if not self._fits_batch(self.batch_pull + size * largest):
                return STEP_TOO_LARGE
        self.batch_pull += size * largest
        self._sum_gradient(row, xi, c)
        if self.pending >= self.options.batch_size:
            self._apply_batch()
        return DONE

    cdef bint _fits_batch(self, double pull) noexcept nogil:
        """Whether a gradient with entries up to `pull` can be summed, and a step made."""
        cdef double eta = step_next(&self.step, self.t + 1.0)
        cdef double limit
        if self.vec != NULL:
            limit = step_limit(self.vec.kind, 1.0)
            return pull < limit and fits(eta, pull, self.vec, limit)
        limit = step_limit(self.mat.kind, 1.0)
        return pull < limit and fits_all(eta, pull, self.mat, limit)

    cdef void _sum_gradient(self, const Row *row, const double *xi, double c) noexcept nogil:
        """Add c xi x to the batch's gradient and remember which features it touched."""
        cdef Py_ssize_t k, i, n_active = 0
        cdef Py_ssize_t K = self.n_out, dim
        for k in range(K):
            n_active += xi[k] != 0.0
        self.pending += 1.0
        if n_active == 0:
            return
        if self.options.fit_intercept:
            for k in range(K):
                self.grad_b[k] += c * xi[k]
        if self.vec != NULL:
            dim = self.vec.dim
            if self.vec.kind == WEIGHT_F32:
                row_axpy(row, c * xi[0], <float32_t *> self.grad)
            else:
                row_axpy(row, c * xi[0], <float64_t *> self.grad)
        else:
            dim = self.mat.dim
            if self.mat.kind == WEIGHT_F32:
                for k in range(K):
                    (<float32_t *> self.mat.work)[k] = <float32_t> (c * xi[k] * row.scale)
                row_axpy_all(row, <const float32_t *> self.mat.work, K, <float32_t *> self.grad)
            else:
                for k in range(K):
                    (<float64_t *> self.mat.work)[k] = c * xi[k] * row.scale
                row_axpy_all(row, <const float64_t *> self.mat.work, K, <float64_t *> self.grad)
        if self.touched_all or row.indices == NULL or self.n_touched + row.count > dim:
            self.touched_all = True
            return
        for i in range(row.count):
            self.touched[self.n_touched + i] = row_index(row, i)
        self.n_touched += row.count

    cdef void _apply_batch(self) noexcept nogil:
        """One step with the mean of the batch's gradients."""
        cdef Row row
        cdef double eta, eta_b, c
        cdef Py_ssize_t k
        if self.pending == 0.0:
            return
        self.t += 1.0
        eta = step_next(&self.step, self.t)
        c = -eta / self.pending
        if self.vec != NULL:
            svec_shrink(self.vec, clamp_shrink(1.0 - eta * self.options.reg))
            if self.vec.kind == WEIGHT_F32:
                self._take_gradient(<float32_t *> self.grad, <float32_t *> self.values, &row)
            else:
                self._take_gradient(<float64_t *> self.grad, <float64_t *> self.values, &row)
            svec_axpy(self.vec, c, &row)
            if self.touched_all:
                clear(self.grad, self.vec.dim, self.vec.kind)
        else:
            smat_shrink(self.mat, clamp_shrink(1.0 - eta * self.options.reg))
            if self.mat.kind == WEIGHT_F32:
                self._add_gradient(<float32_t *> self.grad, <float32_t *> self.mat.v,
                                   <float32_t *> self.mat.u, c)
            else:
                self._add_gradient(<float64_t *> self.grad, <float64_t *> self.mat.v,
                                   <float64_t *> self.mat.u, c)
        if self.options.fit_intercept:
            eta_b = eta
            if self.options.intercept_eta0 > 0.0:
                eta_b = self.options.intercept_eta0 / sqrt(self.t)
            for k in range(self.n_out):
                self.b[k] -= eta_b / self.pending * self.grad_b[k]
                self.grad_b[k] = 0.0
        self.n_touched = 0
        self.touched_all = False
        self.pending = 0.0
        self.batch_pull = 0.0
        self._after_step()

    cdef void _take_gradient(self, weight_t *grad, weight_t *values, Row *row) noexcept nogil:
        """The summed gradient as a row; a sparse one is cleared at once."""
        cdef Py_ssize_t i, n = 0
        cdef int64_t j
        row.struct_size = sizeof(Row)
        row.scale = 1.0
        row.step = 1
        if self.touched_all:
            row.values = grad
            row.indices = NULL
            row.count = self.vec.dim
            row.kind = ROW_F32_DENSE if weight_t is float32_t else ROW_F64_DENSE
            return
        for i in range(self.n_touched):
            j = self.touched[i]
            if grad[j] != 0:            # a feature touched twice is there once
                values[n] = grad[j]
                self.touched[n] = j
                grad[j] = 0
                n += 1
        row.values = values
        row.indices = self.touched
        row.count = n
        row.kind = ROW_F32_I64 if weight_t is float32_t else ROW_F64_I64

    cdef void _add_gradient(self, weight_t *grad, weight_t *v, weight_t *u,
                            double c) noexcept nogil:
        """W += c grad on the touched features, and clear them."""
        cdef SMat *w = self.mat
        cdef Py_ssize_t K = self.n_out, i, k, at
        cdef Py_ssize_t n = w.dim if self.touched_all else self.n_touched
        cdef double step, old, new
        for i in range(n):
            at = (i if self.touched_all else self.touched[i]) * K
            for k in range(K):
                if grad[at + k] != 0:
                    step = c * grad[at + k] / w.scale[k]
                    old = v[at + k]
                    v[at + k] += <weight_t> step
                    new = v[at + k]
                    if w.track_norm:
                        w.sq_v[k] += (new - old) * (new + old)
                    if w.avg_scale[k] != 0.0:
                        u[at + k] += <weight_t> (step * w.avg_scale[k])
                    grad[at + k] = 0

    def flush(self):
        """Make the step of a batch that is not full; the end of an epoch calls it."""
        self._apply_batch()

    @property
    def pending_examples(self):
        """Examples summed into a mini-batch that is not full yet."""
        return int(self.pending)

    # ----------------------------------------------------------- predicting

    def decide(self, RowSource X, double[:, ::1] out, bint averaged=False,
               Py_ssize_t start=0, Py_ssize_t stop=-1):
        """out[i] = scores of row i, intercepts included, for rows start:stop."""
        cdef Py_ssize_t i
        cdef Row row
        cdef bint mean = averaged and self.weights.averaged_count > 0
        if X.rows.n_features != self.weights.dim:
            raise ValueError(f"rows have {X.rows.n_features} features, "
                             f"the model {self.weights.dim}")
        if stop < 0:
            stop = X.rows.n_rows
        if not 0 <= start <= stop <= X.rows.n_rows or out.shape[0] != X.rows.n_rows \
                or out.shape[1] != self.n_out:
            raise ValueError("out does not fit the rows")
        # The average is written out once when there are enough rows to pay for it.
        if mean and (stop - start) * (1 + self._mean_count(X)) > 2 * self.weights.dim:
            frozen = self.frozen_average()
            frozen.decide(X, out, False, start, stop)
            return
        with nogil:
            for i in range(start, stop):
                rows_get(&X.rows, i, &row)
                self._score(&row, mean, &out[i, 0])

    cdef void _score(self, const Row *row, bint mean, double *out) noexcept nogil:
        """Scores of one row, intercepts included; of the average with `mean`."""
        cdef Py_ssize_t k
        if self.vec != NULL:
            if mean:
                out[0] = svec_average_dot(self.vec, row) + self.b_sum[0] / self.vec.avg_count
            else:
                out[0] = svec_dot(self.vec, row) + self.b[0]
        elif mean:
            smat_average_dot(self.mat, row, out)
            for k in range(self.n_out):
                out[k] += self.b_sum[k] / self.mat.avg_count
        else:
            smat_dot(self.mat, row, out)
            for k in range(self.n_out):
                out[k] += self.b[k]

    def frozen_average(self):
        """A learner whose plain weights are this one's average, for prediction."""
        cdef SGDLearner twin = self._like(None)
        twin.weights.set_array(self.weights.array(averaged=True))
        twin.intercept[:] = self.average_intercept()
        return twin

    def average_intercept(self):
        """The averaged intercepts; the last ones while nothing has been averaged."""
        n = self.weights.averaged_count
        return self.intercept_sum / n if n else self.intercept.copy()

    # ------------------------------------------------------- saving, copying

    cdef SGDLearner _like(self, weights, Py_ssize_t n_out=0):
        """A learner with the same options and given (or zero) weights."""
        cdef StepSpec step = StepSpec.__new__(StepSpec, 0)
        cdef SGDLearner twin
        step.step = self.step
        twin = SGDLearner(
            self.weights.dim, n_out or self.n_out, self.weights.v.dtype, self.loss_spec, step,
            reg=self.options.reg, radius=self.options.radius,
            average_from=self.options.average_from if weights is not None else -1.0,
            intercept_eta0=self.options.intercept_eta0, batch_size=self.options.batch_size,
            fit_intercept=self.options.fit_intercept, weights=weights)
        twin.options.error_kind = self.options.error_kind
        return twin

    def get_state(self):
        """(scalars, arrays): everything learnt, for `set_state` of an equal learner."""
        scalars, arrays = self.weights.get_state()
        scalars = {f"w_{name}": value for name, value in scalars.items()}
        scalars |= {"t": self.t, "seen": self.seen, "loss_sum": self.loss_sum,
                    "error_sum": self.error_sum, "pending": self.pending,
                    "touched_all": int(self.touched_all), "eta": self.step.eta}
        arrays = {f"w_{name}": value for name, value in arrays.items()}
        arrays |= {"intercept": self.intercept.copy(),
                   "intercept_sum": self.intercept_sum.copy()}
        if self.options.batch_size > 1:
            arrays |= {"grad": self._grad.copy(), "grad_b": self._grad_b.copy(),
                       "touched": self._touched[:self.n_touched].copy()}
        return scalars, arrays

    def set_state(self, scalars, arrays):
        """Take over what `get_state` gave; shapes must agree."""
        cls = ScaledVector if self.n_out == 1 else ScaledMatrix
        weights = cls.from_state(
            {name[2:]: value for name, value in scalars.items() if name.startswith("w_")},
            {name[2:]: value for name, value in arrays.items() if name.startswith("w_")})
        if weights.dim != self.weights.dim or weights.n_out != self.n_out:
            raise ValueError("the saved weights have another shape than the model")
        touched = arrays.get("touched")
        if touched is not None and touched.size and not (
                0 <= touched.min() and touched.max() < weights.dim):
            raise ValueError("the saved mini-batch names features that do not exist")
        for name in ("intercept", "intercept_sum"):
            if arrays[name].shape != getattr(self, name).shape:
                raise ValueError(f"the saved {name} has another shape than the model's")
        self._adopt(weights)
        self.reach = -1.0
        for name in ("intercept", "intercept_sum"):
            getattr(self, name)[:] = arrays[name]
        self.t, self.seen = scalars["t"], scalars["seen"]
        self.loss_sum, self.error_sum = scalars["loss_sum"], scalars["error_sum"]
        self.step.eta = scalars["eta"]
        if touched is not None:
            self._grad[:] = arrays["grad"]
            self._grad_b[:] = arrays["grad_b"]
            self._touched[:touched.size] = touched
            self.n_touched = touched.size
            self.pending = scalars["pending"]
            self.batch_pull = float(np.abs(arrays["grad"]).max(initial=0.0))
            self.touched_all = scalars["touched_all"]

    def copy(self):
        """An independent copy, bit for bit."""
        cdef SGDLearner twin = self._like(self.weights.copy())
        twin.set_state(*self.get_state())
        return twin

    def with_outputs(self, Py_ssize_t n_out):
        """A learner with more outputs: the old ones as they are, the new ones zero."""
        cdef SGDLearner wide
        old = self.n_out
        if n_out <= max(old, 2):
            raise ValueError(f"cannot go from {old} to {n_out} outputs")
        if self.pending:
            raise ValueError("a mini-batch is pending: flush it first")
        if old == 1:
            # The one score of a binary model is the second label's, and minus the first's.
            weights = ScaledMatrix.from_binary(self.weights, n_out)
            keep, sign = [0, 0], np.array([-1.0, 1.0])
        else:
            weights = self.weights.with_outputs(n_out)
            keep, sign = list(range(old)), np.ones(old)
        wide = self._like(weights, n_out)
        wide.intercept[:len(keep)] = self.intercept[keep] * sign
        wide.intercept_sum[:len(keep)] = self.intercept_sum[keep] * sign
        wide.t, wide.seen = self.t, self.seen
        wide.loss_sum, wide.error_sum = self.loss_sum, self.error_sum
        return wide
