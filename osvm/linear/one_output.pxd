# One output: the linear learner's loop for rows and options of every kind.
#
# Dense rows, mini-batches and records are learnt here; sparse rows without either go
# to the loop of osvm/linear/one_output_sparse.pxd, which takes the same steps.
from libc.math cimport fabs, isfinite, sqrt
from libc.stdint cimport int64_t

from osvm.linear.model cimport (
    DONE, ERROR_ABSOLUTE, ERROR_CLASS, NOT_FINITE, STEP_TOO_LARGE, Options, Record, LinearModel,
)
from osvm.linear.mini_batch cimport take_into_batch
from osvm.linear.one_output_sparse cimport (
    Stretch, clamp_shrink, fits, learn_stretch, row_largest, step_limit,
)
from osvm.linear.steps cimport AHEAD, RING
from osvm.core.loss cimport loss_value_xi
from osvm.core.rows cimport OSVM_PREFETCH, rows_get, rows_prefetch_start
from osvm.core.step cimport step_next
from osvm.core.svec cimport (
    svec_average_dot, svec_axpy, svec_count_average, svec_dot, svec_dot_ahead, svec_project,
    svec_shrink, svec_start_average,
)
from osvm.core.typedefs cimport Loss, Row, Rows, SVec, Step


cdef inline int learn_plain(LinearModel *model, const Rows *X, const double *y,
                            const int64_t *order, Py_ssize_t *at, Py_ssize_t stop,
                            const double *weight, double largest) noexcept nogil:
    """The fast path of `learn_scalar`: a loop for its types (one_output_sparse.pxd)."""
    cdef Stretch s
    cdef int status
    s.X, s.y, s.order, s.weight = X, y, order, weight
    s.at, s.stop, s.largest = at[0], stop, largest
    s.t, s.seen, s.b, s.b_sum = model.t, model.seen, model.b[0], model.b_sum[0]
    s.loss_sum, s.error_sum = model.loss_sum, model.error_sum
    status = learn_stretch(&s, model.vec, &model.options, &model.loss, &model.step)
    at[0] = s.at
    model.t, model.seen, model.b[0], model.b_sum[0] = s.t, s.seen, s.b, s.b_sum
    model.loss_sum, model.error_sum = s.loss_sum, s.error_sum
    return status


cdef inline int learn_scalar(LinearModel *model, const Rows *X, const double *y,
                             const int64_t *order, Py_ssize_t *at, Py_ssize_t stop,
                             const double *weight, double largest, Record record) noexcept nogil:
    """One output.  `at` moves on with each example; on failure it names the culprit.

    Rows are looked up AHEAD examples before their use and, in another order
    than the file's, fetched meanwhile (in file order the processor does it).
    """
    cdef SVec *w = model.vec
    cdef Options options = model.options
    cdef Loss loss = model.loss
    cdef Step step = model.step
    cdef Py_ssize_t n, i, start = at[0]
    cdef Row ring[RING]
    cdef Row *row
    cdef Row *later
    cdef double f, xi, value, c, eta, eta_b, target, error = 0.0, b = model.b[0]
    cdef double t = model.t, seen = model.seen
    cdef double loss_sum = model.loss_sum, error_sum = model.error_sum
    cdef double limit = step_limit(w.kind, largest)
    cdef bint batched = options.batch_size > 1
    cdef bint averaging = options.average_from >= 0.0
    cdef int status = DONE
    if X.indices != NULL and not batched and record.eta == NULL and record.score == NULL:
        return learn_plain(model, X, y, order, at, stop, weight, largest)
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
                                           + model.b_sum[0] / w.avg_count)
        c = 1.0 if weight == NULL else weight[i]
        eta = step_next(&step, t + 1.0)
        if batched:
            model.t, model.seen = t, seen
            status = take_into_batch(model, row, &xi, c, largest)
            if status != DONE:
                break
            t, b = model.t, model.b[0]
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
                model.b_sum[0] += b
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
    model.b[0] = b
    model.t, model.seen = t, seen
    model.loss_sum, model.error_sum = loss_sum, error_sum
    return status
