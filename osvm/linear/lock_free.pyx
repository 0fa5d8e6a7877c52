"""Lock-free stochastic gradient descent: threads add to shared weights without waiting.

After Niu, Recht, Ré, Wright, "Hogwild!" (NIPS 2011).  On sparse rows two threads seldom
touch the same feature at the same moment, and an update that is lost now and then is
noise of the size of the gradient's own.

With w = s v and no projection, the scale after t examples is a function of t alone.
So example t does what it does in one thread, with its own eta(t) and s(t),

    v <- v - eta(t) c xi x / s(t),

and only *when* threads see each other's changes is left to chance.  Thread j of p takes
stretches j, j + p, j + 2p, ... of the examples.

Invariants
- s is folded before the threads start, so that it stays within the range where a
  division is harmless;
- between two calls of `LockFree.advance` no thread runs, and the learner is consistent.

The result depends on timing: two runs differ, by about as much as two orders of the
examples do.
"""
import numpy as np

from libc.math cimport fabs, isfinite, pow, sqrt
from libc.stdint cimport int32_t, int64_t

from osvm._input.rows cimport RowSource
from osvm.linear.learner cimport Options, SGDLearner
from osvm.core.loss cimport Loss, loss_value_xi, mloss_value_xi
from osvm.core.row cimport Row, Rows, row_value, rows_get, rows_prefetch, rows_prefetch_start
from osvm.core.smat cimport SMat, smat_axpy, smat_dot_ahead, smat_fold
from osvm.core.step cimport STEP_BOTTOU, STEP_CONSTANT, STEP_INVERSE_TIME, Step, step_eta
from osvm.core.svec cimport SVec, svec_axpy, svec_dot, svec_dot_ahead, svec_fold
from osvm.core.typedefs cimport WEIGHT_F32

cdef extern from *:
    """
    /* A number that other threads change: read and written each time. */
    typedef volatile double osvm_shared;
    typedef volatile int osvm_flag;
    """
    ctypedef double shared "osvm_shared"
    ctypedef int flag "osvm_flag"

cdef enum Status:               # as in osvm.linear.learner
    DONE = 0
    NOT_FINITE = 1
    STEP_TOO_LARGE = 2

cdef enum:
    STRETCH = 256               # examples that a thread takes at a time
    RING = 8                    # rows looked up and not used yet
    AHEAD = 4

# s may fall to this share within one call of `advance`.
cdef double LEAST_SHRINK = 1e-6


cdef double shrink_between(const Step *step, double reg, double t, double later) noexcept nogil:
    """The product of 1 - eta reg over the examples t + 1 .. later."""
    cdef double product = 1.0, factor
    if later <= t or reg == 0.0:
        return 1.0
    if step.reg == reg and step.kind == STEP_BOTTOU:        # the product telescopes
        return (step.t0 + t) / (step.t0 + later)
    if step.reg == reg and step.kind == STEP_INVERSE_TIME:
        return t / later
    if step.kind == STEP_CONSTANT:
        factor = 1.0 - step.eta0 * reg
        return pow(factor, later - t) if factor > 0.0 else 0.0
    while t < later:
        t += 1.0
        factor = 1.0 - step_eta(step, t) * reg
        if factor <= 0.0:
            return 0.0
        product *= factor
    return product


cdef inline bint step_fits(int kind, double scale, double eta, double pull,
                           double largest) noexcept nogil:
    """Whether a step of eta pull x, |x| <= largest, overflows nothing."""
    cdef double room = 1e30 if kind == WEIGHT_F32 else 1e145
    return fabs(pull) < 1e145 and fabs(eta * pull) * largest < room * scale


cdef double row_largest(const Row *row) noexcept nogil:
    """The row's own bound, where the bound of all rows is too large."""
    cdef Py_ssize_t k
    cdef double largest = 0.0
    for k in range(row.count):
        largest = max(largest, fabs(row_value(row, k)))
    return largest


cdef class LockFree:
    """The threads' view of one learner while they train it.

    Parameters
    ----------
    learner : SGDLearner
        Without projection, averaging, mini-batches and meta-descent.
    n_threads : int
    """
    cdef SGDLearner learner
    cdef readonly Py_ssize_t n_threads
    cdef object _numbers            # per thread: scores, xi, scales
    cdef object _work
    cdef double[:, ::1] sums        # loss and error, per thread, a cache line apart
    cdef flag failed                # a status; the threads look at it between stretches
    cdef readonly Py_ssize_t position   # of the failure

    def __init__(self, SGDLearner learner, Py_ssize_t n_threads):
        self.learner = learner
        self.n_threads = n_threads
        self._numbers = np.zeros((n_threads, 3, max(8, learner.n_out)))
        self._work = np.zeros((n_threads, max(16, learner.n_out)), learner.weights.v.dtype)
        self.sums = np.zeros((n_threads, 8))

    def prepare(self, Py_ssize_t n):
        """Get ready for n more examples; False when they shrink w too much at once.

        Then one thread should learn them, as in the first steps of 1/(reg t).
        """
        cdef SGDLearner learner = self.learner
        cdef Py_ssize_t k
        cdef double factor = shrink_between(&learner.step, learner.options.reg, learner.t,
                                            learner.t + n)
        if factor < LEAST_SHRINK:
            return False
        if learner.vec != NULL:
            if fabs(learner.vec.scale) * factor < learner.vec.low:
                svec_fold(learner.vec)
        elif fabs(learner.mat.scale[0]) * factor < learner.mat.low:
            for k in range(learner.n_out):
                smat_fold(learner.mat, k)
        self.failed = DONE
        self.position = -1
        self.sums[:, :] = 0.0
        return True

    def learn(self, Py_ssize_t thread, RowSource X, targets, const int64_t[::1] order,
              Py_ssize_t start, Py_ssize_t stop, const double[::1] weight, double largest):
        """The stretches of one thread of the examples start:stop."""
        cdef const double[::1] y_view
        cdef const int32_t[::1] label_view
        cdef const double *y = NULL
        cdef const int32_t *labels = NULL
        cdef const int64_t *order_at = NULL
        cdef const double *weight_at = NULL
        cdef SVec vec
        cdef SMat mat
        cdef double[:, :, ::1] numbers = self._numbers
        cdef size_t work = self._work[thread].__array_interface__["data"][0]
        cdef Py_ssize_t first, last
        cdef double t, scale
        cdef SGDLearner learner = self.learner
        if learner.n_out == 1:
            y_view = targets
            y = &y_view[0]
            vec = learner.vec[0]        # v is shared, the scale is this thread's
            scale = vec.scale
        else:
            label_view = targets
            labels = &label_view[0]
            mat = learner.mat[0]
            mat.work = <void *> work
            mat.scale = &numbers[thread, 2, 0]
            scale = learner.mat.scale[0]
        if order is not None:
            order_at = &order[0]
        if weight is not None:
            weight_at = &weight[0]
        with nogil:
            t = learner.t
            first = start + thread * STRETCH
            while first < stop and self.failed == DONE:
                last = min(first + STRETCH, stop)
                scale *= shrink_between(&learner.step, learner.options.reg, t,
                                        learner.t + (first - start))
                t = learner.t + (first - start)
                if learner.n_out == 1:
                    vec.scale = scale
                    self._learn_scalar(&vec, thread, &X.rows, y, order_at, first, last, stop,
                                       weight_at, largest, t)
                    scale = vec.scale
                else:
                    self._learn_multi(&mat, thread, &X.rows, labels, order_at, first, last,
                                      stop, weight_at, largest, t, &numbers[thread, 0, 0],
                                      &numbers[thread, 1, 0], scale)
                    scale = mat.scale[0]
                t += last - first
                first += STRETCH * self.n_threads

    cdef void _fail(self, int status, Py_ssize_t n) noexcept nogil:
        """Of several failures, one is reported."""
        self.position = n
        self.failed = status

    cdef void _learn_scalar(self, SVec *w, Py_ssize_t thread, const Rows *X, const double *y,
                            const int64_t *order, Py_ssize_t start, Py_ssize_t stop,
                            Py_ssize_t end, const double *weight, double largest,
                            double t) noexcept nogil:
        """Examples start .. stop - 1 of one output."""
        cdef Options options = self.learner.options
        cdef Loss loss = self.learner.loss
        cdef Step step = self.learner.step
        cdef shared *b = <shared *> self.learner.b
        cdef Row ring[RING]
        cdef Row *row
        cdef Row *later
        cdef Py_ssize_t n, i
        cdef double f, xi, value, c, eta, eta_b, loss_sum = 0.0, error_sum = 0.0
        for n in range(start, min(start + AHEAD, stop)):
            rows_get(X, n if order == NULL else order[n], &ring[n & (RING - 1)])
        for n in range(start, stop):
            row = &ring[n & (RING - 1)]
            later = row
            i = n if order == NULL else order[n]
            if n + AHEAD < stop:
                later = &ring[(n + AHEAD) & (RING - 1)]
                rows_get(X, n + AHEAD if order == NULL else order[n + AHEAD], later)
            if order == NULL:
                f = svec_dot(w, row) + b[0]
            else:
                if n + 2 * AHEAD < stop:
                    rows_prefetch_start(X, order[n + 2 * AHEAD])
                f = svec_dot_ahead(w, row, later) + b[0]
            value = loss_value_xi(&loss, y[i], f, &xi)
            if not isfinite(value):
                self._fail(NOT_FINITE, n)
                return
            c = 1.0 if weight == NULL else weight[i]
            t += 1.0
            eta = step_eta(&step, t)
            if xi != 0.0 and not step_fits(w.kind, w.scale, eta, c * xi, largest) \
                    and not step_fits(w.kind, w.scale, eta, c * xi, row_largest(row)):
                self._fail(STEP_TOO_LARGE, n)
                return
            w.scale *= 1.0 - eta * options.reg
            if xi != 0.0:
                svec_axpy(w, -eta * c * xi, row)
                if options.fit_intercept:
                    eta_b = eta
                    if options.intercept_eta0 > 0.0:
                        eta_b = options.intercept_eta0 / sqrt(t)
                    b[0] = b[0] - eta_b * c * xi
            loss_sum += value
            if options.error_kind == 0:
                error_sum += (f > 0.0) != (y[i] > 0.0)
            elif options.error_kind == 1:
                error_sum += fabs(f - y[i])
            else:
                error_sum += f < 1.0
        self.sums[thread, 0] += loss_sum
        self.sums[thread, 1] += error_sum

    cdef void _learn_multi(self, SMat *w, Py_ssize_t thread, const Rows *X,
                           const int32_t *labels, const int64_t *order, Py_ssize_t start,
                           Py_ssize_t stop, Py_ssize_t end, const double *weight, double largest,
                           double t, double *f, double *xi, double scale) noexcept nogil:
        """Examples start .. stop - 1 of K outputs, whose scales are equal."""
        cdef Options options = self.learner.options
        cdef Loss loss = self.learner.loss
        cdef Step step = self.learner.step
        cdef shared *b = <shared *> self.learner.b
        cdef Row pair[2]
        cdef Row *row
        cdef Row *later
        cdef Py_ssize_t n, i, k, top, K = w.n_out
        cdef double value, c, eta, eta_b, pull
        for n in range(start, stop):
            i = n if order == NULL else order[n]
            row = &pair[n & 1]
            later = row
            if n == start:
                rows_get(X, i, row)
            if n + AHEAD < stop:
                rows_prefetch(X, n + AHEAD if order == NULL else order[n + AHEAD])
            if n + 1 < stop:
                later = &pair[(n + 1) & 1]
                rows_get(X, n + 1 if order == NULL else order[n + 1], later)
            for k in range(K):
                w.scale[k] = scale
            smat_dot_ahead(w, row, f, later)
            top = 0
            for k in range(K):
                f[k] += b[k]
                if f[k] > f[top]:
                    top = k
            value = mloss_value_xi(&loss, K, labels[i], f, 1.0, xi)
            if not isfinite(value):
                self._fail(NOT_FINITE, n)
                return
            c = 1.0 if weight == NULL else weight[i]
            t += 1.0
            eta = step_eta(&step, t)
            pull = 0.0
            for k in range(K):
                pull = max(pull, c * fabs(xi[k]))
            if pull > 0.0 and not step_fits(w.kind, scale, eta, pull, largest) \
                    and not step_fits(w.kind, scale, eta, pull, row_largest(row)):
                self._fail(STEP_TOO_LARGE, n)
                return
            scale *= 1.0 - eta * options.reg
            if pull > 0.0:
                for k in range(K):
                    w.scale[k] = scale
                if options.fit_intercept:
                    eta_b = eta
                    if options.intercept_eta0 > 0.0:
                        eta_b = options.intercept_eta0 / sqrt(t)
                    for k in range(K):
                        if xi[k] != 0.0:
                            b[k] = b[k] - eta_b * c * xi[k]
                for k in range(K):
                    xi[k] *= -eta * c
                smat_axpy(w, xi, row)
            self.sums[thread, 0] += value
            self.sums[thread, 1] += top != labels[i]
        for k in range(K):
            w.scale[k] = scale

    def join(self, Py_ssize_t n):
        """After the threads: count their n examples.  Status 0, or that of a failure."""
        cdef SGDLearner learner = self.learner
        cdef Py_ssize_t k
        cdef double factor
        learner.reach = -1.0
        if self.failed != DONE:
            return self.failed
        factor = shrink_between(&learner.step, learner.options.reg, learner.t, learner.t + n)
        if learner.vec != NULL:
            learner.vec.scale *= factor
        else:
            for k in range(learner.n_out):
                learner.mat.scale[k] *= factor
        learner.t += n
        learner.seen += n
        learner.loss_sum += np.sum(self.sums[:, 0])
        learner.error_sum += np.sum(self.sums[:, 1])
        return DONE
