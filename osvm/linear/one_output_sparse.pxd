# One output, sparse rows, a step for each example: the loop that most users wait for.
#
# It takes exactly the steps of `SGDLearner._learn_scalar` (osvm/linear/learner.pyx), which also
# knows dense rows, mini-batches and records.  Here types are settled before the loop,
# so that what an example costs besides its non-zeros is some thirty instructions.
#
# In another order than the file's, rows are asked for before their use; in file order
# the processor does so by itself, but for wide values.
#
# A long stretch with averaging keeps the weights and the average's companion side by
# side (v[0] u[0] v[1] u[1] ...), so that a step finds both in one place; they are laid
# out before it and written back after it.
from libc.math cimport fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from osvm.linear.model cimport (
    DONE, ERROR_ABSOLUTE, ERROR_CLASS, NOT_FINITE, STEP_TOO_LARGE, Options,
)
from osvm.core.loss cimport loss_value_xi
from osvm.core.row cimport (
    pairs_axpy, pairs_dot_ahead, sparse_axpy, sparse_axpy_both, sparse_axpy_norm, sparse_dot,
    sparse_dot_ahead,
)
from osvm.core.rows cimport OSVM_PREFETCH, row_value, rows_get
from osvm.core.step cimport step_next
from osvm.core.svec cimport (
    svec_count_average, svec_project, svec_shrink, svec_sq_norm, svec_start_average,
)
from osvm.core.typedefs cimport (
    ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, WEIGHT_F32, Loss, Row, Rows, SVec, Step, float32_t,
    float64_t, index_t, value_t, weight_t,
)

cdef enum:
    ROWS_AHEAD = 2          # examples from asking for a row to its use
    STARTS_AHEAD = 8        # the same for where it starts
    ENTRIES_AHEAD = 2560    # in file order, entries
    PAIRS_PAY = 8           # stored values per weight from which pairs are laid out

# What a stretch of examples is learnt from, and the numbers that it moves on.
cdef struct Stretch:
    const Rows *X
    const double *y
    const int64_t *order    # NULL: the order of the rows
    const double *weight    # NULL: 1
    Py_ssize_t at           # the next example; on failure the one that failed
    Py_ssize_t stop
    double largest          # bound of the rows' magnitudes
    double t
    double seen
    double loss_sum
    double error_sum
    double b
    double b_sum


cdef inline double clamp_shrink(double factor) noexcept nogil:
    """1 - eta reg, but never a change of sign (eta > 1/reg empties w)."""
    return factor if factor > 0.0 else 0.0


cdef inline double step_limit(int kind, double largest) noexcept nogil:
    """How far a step may move v along a row, whose values are at most `largest`.

    A float32 weight holds 1e38 and a float64 one 1e308, of which norms are squared;
    what is left is room for more steps than anybody makes.
    """
    return (1e30 if kind == WEIGHT_F32 else 1e145) / largest


cdef inline double row_largest(const Row *row) noexcept nogil:
    """The row's own bound, where the bound of all rows is too large."""
    cdef Py_ssize_t k
    cdef double size, largest = 0.0
    for k in range(row.count):
        size = fabs(row_value(row, k))
        largest = size if size > largest else largest
    return largest


cdef inline bint fits(double eta, double pull, const SVec *w, double limit) noexcept nogil:
    """Whether w -= eta pull x can be made without overflow in v, in u and in b."""
    cdef double size = fabs(eta * pull)
    return (fabs(pull) < 1e145 and size < limit * fabs(w.scale)
            and size * w.avg_scale < limit * fabs(w.scale))


cdef inline bint fits_row(double eta, double pull, const SVec *w, const Rows *X,
                          Py_ssize_t i) noexcept nogil:
    """The same by the bound of row i alone."""
    cdef Row row
    rows_get(X, i, &row)
    return fits(eta, pull, w, step_limit(w.kind, row_largest(&row)))


# ------------------------------------------------ weights and companion side by side

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
    if pairs != NULL:           # else the usual way needs no memory
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
    """`svec_shrink`; where that goes through all the weights, they are put in place."""
    cdef double size = fabs(w.scale * factor)
    if w.low <= size <= w.high:
        w.scale *= factor
        return
    scatter_pairs(w, v, pairs)
    svec_shrink(w, factor)
    gather_pairs(w, v, pairs)


# ---------------------------------------------------------------------- the loop

cdef inline int learn_sparse(Stretch *stretch, SVec *weights, const Options *given,
                             const Loss *loss_given, const Step *step_given, const value_t *x,
                             const index_t *columns, const index_t *starts,
                             weight_t *v) noexcept nogil:
    """Learn the stretch; DONE, or why example `stretch.at` could not be learnt."""
    cdef SVec w = weights[0]
    cdef Options options = given[0]
    cdef Loss loss = loss_given[0]
    cdef Step step = step_given[0]
    cdef const double *y = stretch.y
    cdef const double *weight = stretch.weight
    cdef const double *row_scale = stretch.X.row_scale
    cdef const int64_t *order = stretch.order
    cdef Py_ssize_t n = stretch.at, stop = stretch.stop, i, begin, count
    cdef const value_t *row_x
    cdef const index_t *row_j
    cdef double f, xi, value, eta, eta_b, target, c_v, c = 1.0
    cdef double factor = 1.0
    cdef double t = stretch.t, seen = stretch.seen, b = stretch.b, b_sum = stretch.b_sum
    cdef double loss_sum = stretch.loss_sum, error_sum = stretch.error_sum
    cdef double limit = step_limit(w.kind, stretch.largest)
    cdef bint averaging = options.average_from >= 0.0
    cdef bint projecting = options.radius > 0.0
    # a start beyond the ball; the margin keeps the rounding of a projection out
    cdef bint outside = projecting and svec_sq_norm(&w) > (1.0 + 1e-6) * options.radius ** 2
    cdef bint unchecked = stretch.largest == 0.0    # the rows' values may be anything
    cdef int status = DONE
    cdef double mean_count = <double> starts[stretch.X.n_rows] / stretch.X.n_rows
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
        value = loss_value_xi(&loss, target, f, &xi)
        if not isfinite(value) or (unchecked and not isfinite(f)):
            status = NOT_FINITE
            break
        eta = step_next(&step, t + 1.0)
        if xi != 0.0:
            if weight != NULL:
                c = weight[i]
            if not fits(eta, c * xi, &w, limit) and not fits_row(eta, c * xi, &w, stretch.X, i):
                status = STEP_TOO_LARGE
                break
        t += 1.0
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
                eta_b = eta
                if options.intercept_eta0 > 0.0:
                    eta_b = options.intercept_eta0 / sqrt(t)
                b -= eta_b * c * xi
        if projecting and (xi != 0.0 or outside):   # without a step w only shrinks
            svec_project(&w, options.radius)
        if averaging and seen >= options.average_from:
            if not w.averaging:
                svec_start_average(&w, w.u)
                pairs = make_pairs(&w, &options, (stop - n) * mean_count, v)
            svec_count_average(&w)
            b_sum += b
        seen += 1.0
        loss_sum += value
        if options.error_kind == ERROR_CLASS:
            error_sum += (f > 0.0) != (target > 0.0)
        elif options.error_kind == ERROR_ABSOLUTE:
            error_sum += fabs(f - target)
        else:
            error_sum += f < 1.0
        n += 1
    if pairs != NULL:
        scatter_pairs(&w, v, pairs)
        free(pairs)
    weights[0] = w
    stretch.at, stretch.t, stretch.seen = n, t, seen
    stretch.b, stretch.b_sum = b, b_sum
    stretch.loss_sum, stretch.error_sum = loss_sum, error_sum
    return status


cdef inline int learn_stretch_of(Stretch *s, SVec *w, const Options *options, const Loss *loss,
                                 const Step *step, weight_t *v) noexcept nogil:
    cdef const Rows *X = s.X
    if X.kind == ROW_F32_I32:
        return learn_sparse(s, w, options, loss, step, <const float32_t *> X.values,
                            <const int32_t *> X.indices, <const int32_t *> X.indptr, v)
    if X.kind == ROW_F64_I32:
        return learn_sparse(s, w, options, loss, step, <const float64_t *> X.values,
                            <const int32_t *> X.indices, <const int32_t *> X.indptr, v)
    if X.kind == ROW_F32_I64:
        return learn_sparse(s, w, options, loss, step, <const float32_t *> X.values,
                            <const int64_t *> X.indices, <const int64_t *> X.indptr, v)
    return learn_sparse(s, w, options, loss, step, <const float64_t *> X.values,
                        <const int64_t *> X.indices, <const int64_t *> X.indptr, v)


cdef inline int learn_stretch(Stretch *s, SVec *w, const Options *options, const Loss *loss,
                              const Step *step) noexcept nogil:
    """`learn_sparse` for rows and weights of any type."""
    if w.kind == WEIGHT_F32:
        return learn_stretch_of(s, w, options, loss, step, <float32_t *> w.v)
    return learn_stretch_of(s, w, options, loss, step, <float64_t *> w.v)
