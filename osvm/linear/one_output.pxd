# One output: the linear learner's loops, a fast path and the general path side by side.
#
# Source: the step of osvm/linear/learner.pyx.  Both paths take exactly the same steps.
#
# `learn_sparse` is the fast path, the loop that most users wait for: sparse rows, a step for
# each example, no records.  Types are resolved before the loop, so that what an example costs
# besides its non-zeros is some thirty instructions.  In another order than the file's, rows
# are asked for before their use; in file order the processor does so by itself, but for wide
# values.  A long stretch with averaging keeps the weights and the average's accumulator side
# by side (v[0] u[0] v[1] u[1] ...), so that a step finds both in one cache line; they are laid
# out before it and written back after it.
#
# `learn_general` also takes dense rows, mini-batches and records.
#
# Invariant: `at` moves on with each example; on failure it names the one that failed, whose
# step has not been made.
from libc.math cimport fabs, isfinite
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from osvm.linear.model cimport (
    AHEAD, DONE, NOT_FINITE, RING, STEP_TOO_LARGE, Examples, LinearModel, Options, Record,
    error_of, lift_vector, project_vector,
)
from osvm.linear.mini_batch cimport take_into_batch
from osvm.linear.step_guard cimport (
    clamp_shrink, intercept_step, row_largest, step_fits, step_limit,
)
from osvm.core.loss cimport (
    LOSS_EPSILON_INSENSITIVE, LOSS_HINGE, loss_epsilon_insensitive, loss_hinge, loss_value_xi,
)
from osvm._c.row_loops cimport (
    pairs_axpy, pairs_dot_ahead, sparse_axpy, sparse_axpy_both, sparse_axpy_norm, sparse_dot,
    sparse_dot_ahead,
)
from osvm.core.rows cimport OSVM_PREFETCH, rows_get, rows_prefetch_start
from osvm.core.step cimport step_next
from osvm.core.svec cimport (
    svec_average_dot, svec_axpy, svec_count_average, svec_dot, svec_dot_ahead, svec_shrink,
    svec_sq_norm, svec_start_average,
)
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, WEIGHT_F32, Loss, Row, Rows, SVec, Step,
    float32_t, float64_t, index_t, value_t, weight_t,
)

cdef enum:
    ROWS_AHEAD = 2          # examples from asking for a row to its use
    STARTS_AHEAD = 8        # the same for where it starts
    ENTRIES_AHEAD = 2560    # in file order, entries
    PAIRS_PAY = 8           # stored values per weight from which pairs are laid out


cdef inline double value_xi(const Loss *loss, double y, double f, double *xi) noexcept nogil:
    """`loss_value_xi`, without a call for the losses that cost less than a call."""
    if loss.kind == LOSS_HINGE:
        return loss_hinge(y, f, 1.0, xi)
    if loss.kind == LOSS_EPSILON_INSENSITIVE:
        return loss_epsilon_insensitive(y, f, loss.p0, xi)
    return loss_value_xi(loss, y, f, xi)


cdef inline bint fits_row(double eta, double xi, const SVec *w, const Row *row) noexcept nogil:
    """Whether the step fits by the bound of this row alone."""
    return step_fits(eta, xi, w.scale, w.avg_scale, step_limit(w.kind, row_largest(row)))


# ---------------------------------------------- weights and accumulator side by side

cdef inline weight_t *make_pairs(const SVec *w, const Options *options, double n_values,
                                 weight_t *v) noexcept nogil:
    """v and u side by side, for a stretch of so many values; NULL where it does not pay.

    Not with projection, which follows the norm of v step by step.
    """
    cdef weight_t *pairs
    cdef Py_ssize_t d = w.dim
    if not w.averaging or w.track_norm or options.radius > 0.0 or n_values < PAIRS_PAY * d:
        return NULL
    pairs = <weight_t *> malloc(2 * d * sizeof(weight_t))
    if pairs != NULL:           # else the loop goes without
        gather_pairs(w, v, pairs)
    return pairs


cdef inline void gather_pairs(const SVec *w, const weight_t *v, weight_t *pairs) noexcept nogil:
    cdef const weight_t *u = <const weight_t *> w.u
    cdef Py_ssize_t j
    for j in range(w.dim):
        pairs[2 * j] = v[j]
        pairs[2 * j + 1] = u[j]


cdef inline void scatter_pairs(const SVec *w, weight_t *v, const weight_t *pairs) noexcept nogil:
    cdef weight_t *u = <weight_t *> w.u
    cdef Py_ssize_t j
    for j in range(w.dim):
        v[j] = pairs[2 * j]
        u[j] = pairs[2 * j + 1]


cdef inline void shrink_pairs(SVec *w, double factor, weight_t *v,
                              weight_t *pairs) noexcept nogil:
    """`svec_shrink`; where that goes through all the weights, they are written back first."""
    cdef double size = fabs(w.scale * factor)
    if w.low <= size <= w.high:
        w.scale *= factor
        return
    scatter_pairs(w, v, pairs)
    svec_shrink(w, factor)
    gather_pairs(w, v, pairs)


# ------------------------------------------------------------------- the fast path

cdef inline int learn_sparse(LinearModel *model, const Examples *examples, Py_ssize_t *at,
                             Py_ssize_t stop, const value_t *x, const index_t *columns,
                             const index_t *starts, weight_t *v) noexcept nogil:
    """DONE, or why example `at` could not be learnt."""
    cdef SVec w = model.vec[0]
    cdef Options options = model.options
    cdef Loss loss = model.loss
    cdef Step step = model.step
    cdef const double *y = examples.y
    cdef const double *weight = examples.weight
    cdef const double *row_scale = examples.X.row_scale
    cdef const int64_t *order = examples.order
    cdef Py_ssize_t n = at[0], i, begin, count
    cdef Row row
    cdef const value_t *row_x
    cdef const index_t *row_j
    cdef double f, xi, value, eta, target, c_v, c = 1.0
    cdef double factor = 1.0
    cdef double t = model.t, seen = model.seen, b = model.b[0], b_sum = model.b_sum[0]
    cdef double loss_sum = model.loss_sum, error_sum = model.error_sum
    cdef double limit = step_limit(w.kind, examples.largest)
    cdef bint averaging = options.average_from >= 0.0
    cdef bint projecting = options.radius > 0.0
    # a start beyond the ball, as all are that were lifted; the margin keeps the rounding of a
    # projection out
    cdef bint outside = projecting and (
        model.lift != NULL or svec_sq_norm(&w) > (1.0 + 1e-6) * options.radius ** 2)
    cdef bint unchecked = examples.largest == 0.0   # the rows' values may be anything
    cdef int status = DONE
    cdef double mean_count = <double> starts[examples.X.n_rows] / examples.X.n_rows
    cdef weight_t *pairs = make_pairs(&w, &options, (stop - n) * mean_count, v)
    while n < stop:
        i = n
        if order != NULL:
            i = order[n]
        begin = <Py_ssize_t> starts[i]
        count = <Py_ssize_t> starts[i + 1] - begin
        row_x = x + begin
        row_j = columns + begin
        if row_scale != NULL:
            factor = row_scale[i]
        begin += ENTRIES_AHEAD
        if order != NULL:
            if n + STARTS_AHEAD < stop:
                OSVM_PREFETCH(starts + order[n + STARTS_AHEAD])
                OSVM_PREFETCH(y + order[n + STARTS_AHEAD])
                if row_scale != NULL:
                    OSVM_PREFETCH(row_scale + order[n + STARTS_AHEAD])
            if n + ROWS_AHEAD < stop:
                begin = <Py_ssize_t> starts[order[n + ROWS_AHEAD]]
        if pairs != NULL:
            f = pairs_dot_ahead(row_x, row_j, count, pairs, x + begin, columns + begin)
        elif order != NULL or value_t is float64_t:
            f = sparse_dot_ahead(row_x, row_j, count, v, x + begin, columns + begin)
        else:
            f = sparse_dot(row_x, row_j, count, v)
        f = w.scale * (factor * f) + b
        target = y[i]
        value = value_xi(&loss, target, f, &xi)
        if not isfinite(value) or (unchecked and not isfinite(f)):
            status = NOT_FINITE
            break
        eta = step_next(&step, t + 1.0)
        if xi != 0.0:
            if weight != NULL:
                c = weight[i]
            if not step_fits(eta, c * xi, w.scale, w.avg_scale, limit):
                rows_get(examples.X, i, &row)
                if not fits_row(eta, c * xi, &w, &row):
                    status = STEP_TOO_LARGE
                    break
        t += 1.0
        lift_vector(&w, model.lift)
        if pairs != NULL:
            shrink_pairs(&w, clamp_shrink(1.0 - eta * options.reg), v, pairs)
        else:
            svec_shrink(&w, clamp_shrink(1.0 - eta * options.reg))
        if xi != 0.0:
            c_v = -eta * c * xi / w.scale
            if pairs != NULL:
                pairs_axpy(row_x, row_j, count, c_v * factor, c_v * w.avg_scale * factor, pairs)
            elif w.track_norm:
                w.sq_v += sparse_axpy_norm(row_x, row_j, count, c_v * factor, v)
                if w.avg_scale != 0.0:
                    sparse_axpy(row_x, row_j, count, c_v * w.avg_scale * factor,
                                <weight_t *> w.u)
            elif w.avg_scale != 0.0:
                sparse_axpy_both(row_x, row_j, count, c_v * factor,
                                 c_v * w.avg_scale * factor, v, <weight_t *> w.u)
            else:
                sparse_axpy(row_x, row_j, count, c_v * factor, v)
            if options.fit_intercept:
                b -= intercept_step(options.intercept_eta0, t, eta) * c * xi
        if projecting and (xi != 0.0 or outside):   # without a step w only shrinks
            project_vector(&w, options.radius, model.lift)
        if averaging and seen >= options.average_from:
            if not w.averaging:
                svec_start_average(&w, w.u)
                pairs = make_pairs(&w, &options, (stop - n) * mean_count, v)
            svec_count_average(&w)
            b_sum += b
        seen += 1.0
        loss_sum += value
        error_sum += error_of(options.error_kind, 1, &f, target, 0)
        n += 1
    if pairs != NULL:
        scatter_pairs(&w, v, pairs)
        free(pairs)
    model.vec[0] = w
    at[0] = n
    model.t, model.seen, model.b[0], model.b_sum[0] = t, seen, b, b_sum
    model.loss_sum, model.error_sum = loss_sum, error_sum
    return status


# ---------------------------------------------------------------- the general path

cdef inline int learn_general(LinearModel *model, const Examples *examples, Py_ssize_t *at,
                              Py_ssize_t stop) noexcept nogil:
    """The general path.

    Sparse rows are looked up AHEAD examples before their use and, in another order
    than the file's, fetched meanwhile (in file order the processor does it).
    """
    cdef SVec *w = model.vec
    cdef const Rows *X = examples.X
    cdef const double *y = examples.y
    cdef const int64_t *order = examples.order
    cdef Record record = examples.record
    cdef Options options = model.options
    cdef Loss loss = model.loss
    cdef Step step = model.step
    cdef Py_ssize_t n, i, start = at[0], row_bytes = X.row_step * (
        4 if X.kind == ROW_F32_DENSE else 8)
    cdef bint dense = X.indices == NULL
    cdef const char *ahead
    cdef Row ring[RING]
    cdef Row *row
    cdef Row *later
    cdef double f, xi, value, c, eta, target, b = model.b[0]
    cdef double t = model.t, seen = model.seen
    cdef double loss_sum = model.loss_sum, error_sum = model.error_sum
    cdef double limit = step_limit(w.kind, examples.largest)
    cdef bint batched = options.batch_size > 1
    cdef bint averaging = options.average_from >= 0.0
    cdef int status = DONE
    for n in range(start, min(start + (1 if dense else AHEAD), stop)):
        rows_get(X, n if order == NULL else order[n], &ring[n & (RING - 1)])
    row = &ring[start & (RING - 1)]
    for n in range(start, stop):
        if not dense:
            row = &ring[n & (RING - 1)]
        later = row
        if dense:               # one row as the other, but for where it is
            i = n if order == NULL else order[n]
            row.values = <const char *> X.values + i * row_bytes
            if X.row_scale != NULL:
                row.scale = X.row_scale[i]
            if order != NULL and n + AHEAD < stop:
                ahead = <const char *> X.values + order[n + AHEAD] * row_bytes
                OSVM_PREFETCH(ahead)
                OSVM_PREFETCH(ahead + 64)
                OSVM_PREFETCH(y + order[n + AHEAD])
            f = svec_dot(w, row) + b
        elif order == NULL:
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
        value = value_xi(&loss, target, f, &xi)
        if not isfinite(value):
            status = NOT_FINITE
            break
        if record.score != NULL:
            record.score[n - start] = f
            if w.avg_count > 0.0:
                record.score[n - start] = (svec_average_dot(w, row)
                                           + model.b_sum[0] / w.avg_count)
        c = 1.0 if examples.weight == NULL else examples.weight[i]
        eta = step_next(&step, t + 1.0)
        if batched:
            model.t, model.seen = t, seen
            status = take_into_batch(model, row, &xi, c, examples.largest)
            if status != DONE:
                break
            t, b = model.t, model.b[0]
        else:
            if xi != 0.0 and not step_fits(eta, c * xi, w.scale, w.avg_scale, limit) \
                    and not fits_row(eta, c * xi, w, row):
                status = STEP_TOO_LARGE
                break
            t += 1.0
            lift_vector(w, model.lift)
            svec_shrink(w, clamp_shrink(1.0 - eta * options.reg))
            if xi != 0.0:
                svec_axpy(w, -eta * c * xi, row)
                if options.fit_intercept:
                    b -= intercept_step(options.intercept_eta0, t, eta) * c * xi
            if options.radius > 0.0:
                project_vector(w, options.radius, model.lift)
            if averaging and seen >= options.average_from:
                if not w.averaging:
                    svec_start_average(w, w.u)
                svec_count_average(w)
                model.b_sum[0] += b
        seen += 1.0
        loss_sum += value
        error_sum += error_of(options.error_kind, 1, &f, target, 0)
        if record.eta != NULL:
            record.eta[n - start] = eta
            record.loss[n - start] = value
            record.error[n - start] = error_sum / seen
        at[0] = n + 1
    model.b[0] = b
    model.t, model.seen = t, seen
    model.loss_sum, model.error_sum = loss_sum, error_sum
    return status


# ------------------------------------------------------------------- the way in

cdef inline int learn_typed(LinearModel *model, const Examples *examples, Py_ssize_t *at,
                            Py_ssize_t stop, weight_t *v) noexcept nogil:
    """`learn_sparse` for rows of any type."""
    cdef const Rows *X = examples.X
    if X.kind == ROW_F32_I32:
        return learn_sparse(model, examples, at, stop, <const float32_t *> X.values,
                            <const int32_t *> X.indices, <const int32_t *> X.indptr, v)
    if X.kind == ROW_F64_I32:
        return learn_sparse(model, examples, at, stop, <const float64_t *> X.values,
                            <const int32_t *> X.indices, <const int32_t *> X.indptr, v)
    if X.kind == ROW_F32_I64:
        return learn_sparse(model, examples, at, stop, <const float32_t *> X.values,
                            <const int64_t *> X.indices, <const int64_t *> X.indptr, v)
    return learn_sparse(model, examples, at, stop, <const float64_t *> X.values,
                        <const int64_t *> X.indices, <const int64_t *> X.indptr, v)


cdef inline int learn_one_output(LinearModel *model, const Examples *examples, Py_ssize_t *at,
                                 Py_ssize_t stop) noexcept nogil:
    """Learn examples `at` to `stop`; DONE, or why example `at` could not be learnt."""
    if examples.X.indices == NULL or model.options.batch_size > 1 \
            or examples.record.eta != NULL or examples.record.score != NULL:
        return learn_general(model, examples, at, stop)
    if model.vec.kind == WEIGHT_F32:
        return learn_typed(model, examples, at, stop, <float32_t *> model.vec.v)
    return learn_typed(model, examples, at, stop, <float64_t *> model.vec.v)
