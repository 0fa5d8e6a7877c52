# K outputs in one pass: the linear learner's loop for several labels.
#
# The weights are feature-major, so that a non-zero of the row meets the K weights of
# its feature side by side; those of the next row are fetched meanwhile.
from libc.math cimport INFINITY, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t

from osvm.linear.model cimport DONE, NOT_FINITE, STEP_TOO_LARGE, Options, Record, LinearModel
from osvm.linear.mini_batch cimport take_into_batch
from osvm.linear.one_output_sparse cimport clamp_shrink, row_largest, step_limit
from osvm.linear.steps cimport (
    AHEAD, after_step, any_of, fetch_rest, fits_all, largest_of, loss_slope, outranking, take_row,
)
from osvm.core.loss cimport mloss_value_xi
from osvm.core.rows cimport OSVM_PREFETCH
from osvm.core.smat cimport smat_average_dot, smat_dot_ahead, smat_shrink
from osvm.core.smat_step cimport Debt, smat_settle, smat_step
from osvm.core.step cimport step_next
from osvm.core.typedefs cimport WEIGHT_F32, Loss, Row, Rows, SMat, Step


cdef inline void record_scores(LinearModel *model, const Row *row, double *out) noexcept nogil:
    """What prediction gives for this row now; the last scores are at hand."""
    cdef Py_ssize_t k
    if model.mat.avg_count == 0.0:
        for k in range(model.n_out):
            out[k] = model.f[k]
        return
    smat_average_dot(model.mat, row, out)
    for k in range(model.n_out):
        out[k] += model.b_sum[k] / model.mat.avg_count


cdef inline int learn_multi(LinearModel *model, const Rows *X, const int32_t *labels,
                            const int64_t *order, Py_ssize_t *at, Py_ssize_t stop,
                            const double *weight, double largest, Record record) noexcept nogil:
    """K outputs in one pass; otherwise as `learn_scalar`."""
    cdef SMat *w = model.mat
    cdef Options options = model.options
    cdef Loss loss = model.loss
    cdef Step step = model.step
    cdef Py_ssize_t n, i, k, label, better, start = at[0], K = model.n_out
    cdef Py_ssize_t stride = K * (4 if w.kind == WEIGHT_F32 else 8)
    cdef Row pair[2]
    cdef Row *row
    cdef Row *later
    cdef double *f = model.f
    cdef double *xi = model.xi
    cdef double *b = model.b
    cdef Debt debt                  # the step that the average has not been told of
    cdef double value, c, eta, eta_b, pull
    cdef double limit = step_limit(w.kind, largest), slope = loss_slope(&loss)
    cdef bint batched = options.batch_size > 1
    debt.c, debt.active, debt.n_active = model.owed, model.active, 0
    for n in range(start, stop):
        i = take_row(X, order, n, start, stop, pair, &row, &later)
        if order != NULL and n + 2 * AHEAD < stop:
            OSVM_PREFETCH(labels + order[n + 2 * AHEAD])
        label = labels[i]
        smat_dot_ahead(w, row, f, later)
        fetch_rest(w, row, later, stride)
        smat_settle(w, &debt)
        for k in range(K):
            f[k] += b[k]
        value = mloss_value_xi(&loss, K, label, f, 1.0, xi)
        if not isfinite(value):
            return NOT_FINITE
        if record.score != NULL:
            record_scores(model, row, record.score + (n - start) * K)
        c = 1.0 if weight == NULL else weight[i]
        eta = step_next(&step, model.t + 1.0)
        better = outranking(f, K, label)
        if batched:
            k = take_into_batch(model, row, xi, c, largest)
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
            model.t += 1.0
            smat_shrink(w, clamp_shrink(1.0 - eta * options.reg))
            if pull > 0.0:
                if options.fit_intercept:
                    eta_b = eta
                    if options.intercept_eta0 > 0.0:
                        eta_b = options.intercept_eta0 / sqrt(model.t)
                    for k in range(K):
                        b[k] -= eta_b * c * xi[k]
                for k in range(K):
                    xi[k] *= -eta * c
                smat_step(w, xi, row, &debt)
                if options.radius > 0.0:
                    smat_settle(w, &debt)       # a projection may fold v into u
            after_step(model)
        model.seen += 1.0
        model.loss_sum += value
        model.error_sum += better > 0
        if record.eta != NULL:
            record.eta[n - start] = eta
            record.loss[n - start] = value
            record.error[n - start] = model.error_sum / model.seen
        at[0] = n + 1
    smat_settle(w, &debt)
    return DONE
