# K columns learn from one row: the one loop for classes, label sets and candidates of a search.
#
# A column has weights, a scale, an intercept, a schedule and a regularizer, and takes the step
# that one output alone would take:
#
#     w_k <- (1 - eta_k reg_k) w_k - eta_k c xi_k x
#     b_k <- b_k - eta_b c xi_k
#
# Columns that share a schedule state (steps made, examples seen, iterates averaged) form a
# group.  What differs between the uses is what gives xi:
#
#     XI_CLASS    the class code of the row, by a joint loss or one-vs-rest; also for several
#                 candidates, whose n_out columns lie one after the other
#     XI_BINARY   a target -1/+1, one column a candidate
#     XI_SET      the labels that the row carries: +1 for those, -1 for all others
#
# The weights are feature-major, so that a non-zero of the row meets the K weights of its
# feature side by side; those of the next row are fetched meanwhile.  What is done for each
# column is a loop over arrays without a branch, so that the compiler makes it wide.
#
# Candidates with the hinge and inverse-time steps have a fused fast path (osvm/_c/search.h),
# which gives the bits of the general path.
#
# Invariants
# - a column's numbers do not depend on the other columns, nor on how a stream is cut;
# - all columns are at the same row whenever the loop returns;
# - a step that would overflow is not made, and none of its row's other steps either (but on
#   the fused path, whose model cannot be used after a failure).
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int32_t, int64_t

from osvm.linear.column_steps cimport (
    XI_BINARY, XI_CLASS, XI_SET, Columns, Group, finish_step, fold_outside, read_steps,
    search_types, spread_step, step_columns, weigh_labels,
)
from osvm.linear.mini_batch cimport take_into_batch
from osvm.linear.model cimport (
    AHEAD, DONE, NOT_FINITE, STEP_TOO_LARGE, Examples, LinearModel, Record, outranking,
)
from osvm.linear.step_guard cimport loss_slope, row_largest, step_limit
from osvm.core.loss cimport LOSS_HINGE, loss_hinge, loss_value_xi
from osvm.core.mloss cimport mloss_value_xi
from osvm.core.rows cimport OSVM_PREFETCH, row_index, rows_get, rows_prefetch, rows_prefetch_start
from osvm.core.smat cimport smat_average_dot, smat_dot_ahead
from osvm.linear.smat_step cimport PendingUpdate, smat_flush
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F64_I32, WEIGHT_F32, Loss, Row, Rows, SMat,
)

cdef extern from "../_c/search.h" nogil:
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
    bint osvm_search_dot(int kind, const void *x, const void *j, Py_ssize_t n, const void *v,
                         Py_ssize_t K, const void *next, Py_ssize_t n_next, const double *scale,
                         double row_scale, void *work, double *f)


# ------------------------------------------------------------------ from row to row

cdef inline Py_ssize_t take_row(const Rows *X, const int64_t *order, Py_ssize_t n,
                                Py_ssize_t start, Py_ssize_t stop, Row *pair, Row **row,
                                Row **later) noexcept nogil:
    """The number of the n-th example; its row and the next one (itself at the end) as views.

    Rows further on are fetched meanwhile.  `pair` is room for two views, kept from call
    to call.
    """
    cdef Py_ssize_t i = n if order == NULL else order[n]
    if order != NULL and n + 2 * AHEAD < stop:
        rows_prefetch_start(X, order[n + 2 * AHEAD])
    if n + AHEAD < stop:
        rows_prefetch(X, n + AHEAD if order == NULL else order[n + AHEAD])
    row[0] = &pair[n & 1]
    later[0] = row[0]
    if n == start:
        rows_get(X, i, row[0])
    if n + 1 < stop:
        later[0] = &pair[(n + 1) & 1]
        rows_get(X, n + 1 if order == NULL else order[n + 1], later[0])
    return i


cdef inline void dot_columns(const SMat *w, const Row *row, double *f,
                             const Row *later) noexcept nogil:
    """f[k] = w_k . row, fetching the weights of row `later`; none for dense rows."""
    cdef Py_ssize_t k, stride = w.n_out * (4 if w.kind == WEIGHT_F32 else 8)
    cdef const char *weights
    if osvm_search_dot(search_types(w, row), row.values, row.indices, row.count, w.v, w.n_out,
                       later.indices, later.count, w.scale, row.scale, w.work, f):
        return
    smat_dot_ahead(w, row, f, later)
    for k in range(row.count, later.count):     # what that has not fetched
        weights = <const char *> w.v + row_index(later, k) * stride
        OSVM_PREFETCH(weights)
        OSVM_PREFETCH(weights + stride - 1)


cdef inline void name_columns(Row *row, const int32_t *every) noexcept nogil:
    """Let a dense row pass for a sparse one that stores every column, for the wide loops."""
    if row.indices == NULL:
        row.indices = every
        row.kind = ROW_F32_I32 if row.kind == ROW_F32_DENSE else ROW_F64_I32


# ------------------------------------------------------------- losses and their slopes

cdef inline double set_losses(const Loss *loss, Py_ssize_t K, const int32_t *own,
                              Py_ssize_t n_own, const double *f, double *xi,
                              double *value) noexcept nogil:
    """Losses and slopes of all labels, of which `own` are the row's; the losses' sum."""
    cdef Py_ssize_t k, m
    cdef double total = 0.0
    if loss.kind == LOSS_HINGE:
        for k in range(K):          # no branch on any; a NaN is on the violating side
            xi[k] = 0.0 if f[k] <= -1.0 else 1.0
            value[k] = 0.0 if f[k] <= -1.0 else 1.0 + f[k]
        for m in range(n_own):
            k = own[m]
            value[k] = loss_hinge(1.0, f[k], 1.0, &xi[k])
    else:
        for k in range(K):
            xi[k] = 0.0             # marks those that are -1
        for m in range(n_own):
            xi[own[m]] = 1.0
        for k in range(K):
            value[k] = loss_value_xi(loss, 1.0 if xi[k] > 0.0 else -1.0, f[k], &xi[k])
    for k in range(K):
        total += value[k]
    return total


cdef inline double find_xi(const Columns *s, const Examples *examples, Py_ssize_t i,
                           const double *f, double *xi, double *value) noexcept nogil:
    """Losses and slopes of row i; the losses' sum."""
    cdef Py_ssize_t g, K = s.n_out, first
    cdef double total = 0.0
    if s.xi_source == XI_SET:
        first = s.sets.ends[i]
        return set_losses(&s.loss, s.w.n_out, s.sets.codes + first, s.sets.ends[i + 1] - first,
                          f, xi, value)
    for g in range(s.w.n_out // K):
        if s.xi_source == XI_CLASS:
            value[g] = mloss_value_xi(&s.loss, K, examples.labels[i], f + g * K, 1.0, xi + g * K)
        else:
            value[g] = loss_value_xi(&s.loss, examples.y[i], f[g], &xi[g])
        total += value[g]
    return total


cdef inline void count_losses(const Columns *s, const Examples *examples, Py_ssize_t i,
                              const double *f, const double *value) noexcept nogil:
    """Add the losses and errors that row i had before its step."""
    cdef Py_ssize_t k, m, K = s.n_out, n = s.w.n_out // s.n_out
    cdef double *errors = s.error_sum
    for k in range(n):
        s.loss_sum[k] += value[k]
    if s.xi_source == XI_CLASS:
        for k in range(n):
            errors[k] += outranking(f + k * K, K, examples.labels[i]) > 0
    elif s.xi_source == XI_BINARY:
        for k in range(n):
            errors[k] += (f[k] > 0.0) != (examples.y[i] > 0.0)
    else:
        for k in range(n):
            errors[k] += f[k] > 0.0
        for m in range(s.sets.ends[i], s.sets.ends[i + 1]):
            k = s.sets.codes[m]
            errors[k] += 1.0 - 2.0 * (f[k] > 0.0)


# ------------------------------------------------------------------------- the loop

cdef inline void record_scores(const Columns *s, const Row *row, const double *f,
                               double *out) noexcept nogil:
    """What prediction gives for this row now; the last scores are at hand."""
    cdef Py_ssize_t k
    if s.w.avg_count == 0.0:
        for k in range(s.w.n_out):
            out[k] = f[k]
        return
    smat_average_dot(s.w, row, out)
    for k in range(s.w.n_out):
        out[k] += s.b_sum[k] / s.w.avg_count


cdef inline int learn_columns(Columns *s, const Examples *examples, Py_ssize_t *at,
                              Py_ssize_t stop) noexcept nogil:
    """Learn examples `at` to `stop`; DONE, or why example `at` could not be learnt."""
    cdef SMat *w = s.w
    cdef Group *group = s.groups
    cdef const int64_t *order = examples.order
    cdef Record record = examples.record
    cdef Py_ssize_t n, i, k, q, start = at[0], K = w.n_out
    cdef double *f = s.scratch
    cdef double *xi = f + K
    cdef double *value = xi + K
    cdef double *eta = value + K
    cdef double *eta_b = eta + K
    cdef double *shrink = eta_b + K
    cdef double limit = step_limit(w.kind, examples.largest), c
    cdef bint weighs = s.xi_source == XI_SET and (
        s.sets.class_weight != NULL or s.sets.curvature > 0.0)
    cdef double slope = INFINITY if weighs else loss_slope(&s.loss)
    cdef const int32_t *every = s.candidates.every if s.candidates != NULL else NULL
    cdef bint fused = s.xi_source == XI_BINARY and s.loss.kind == LOSS_HINGE \
        and s.candidates.inverse_time
    cdef osvm_candidates arrays
    cdef PendingUpdate pending      # the average's
    cdef Row pair[2]
    cdef Row nothing                # dense rows have the same weights: nothing to fetch
    cdef Row *row
    cdef Row *later
    cdef int status = DONE
    pending.c, pending.active, pending.n_active = shrink + K, s.active, 0
    nothing.indices, nothing.count = NULL, 0
    if fused:
        arrays.f, arrays.c, arrays.b, arrays.scale = f, xi, s.b, w.scale
        arrays.loss_sum, arrays.error_sum = s.loss_sum, s.error_sum
        arrays.reg, arrays.step_reg = s.candidates.reg, s.candidates.step_reg
        arrays.t0, arrays.eta0_b = s.candidates.t0, s.candidates.eta0_b
    for n in range(start, stop):
        i = take_row(examples.X, order, n, start, stop, pair, &row, &later)
        if order != NULL and n + 2 * AHEAD < stop:
            if s.xi_source == XI_SET:
                OSVM_PREFETCH(s.sets.ends + order[n + 2 * AHEAD])
            elif s.xi_source == XI_CLASS:
                OSVM_PREFETCH(examples.labels + order[n + 2 * AHEAD])
        if every != NULL:
            name_columns(row, every)
            later = &nothing
        dot_columns(w, row, f, later)
        smat_flush(w, &pending)
        c = 1.0 if examples.weight == NULL else examples.weight[i]
        if fused:
            if examples.largest > 1e6:      # other rows may be much smaller
                limit = step_limit(w.kind, row_largest(row))
            k = osvm_search_step(&arrays, K, examples.y[i], group.t + 1.0, c,
                                 s.options.fit_intercept, limit, w.low, w.high)
            if k & 2:
                return STEP_TOO_LARGE
            if k & 1:
                fold_outside(w)
            finish_step(s, xi, row, &pending)
        else:
            for k in range(K):
                f[k] += s.b[k]
            if not isfinite(find_xi(s, examples, i, f, xi, value)):
                status = NOT_FINITE
                break
            if record.score != NULL:
                record_scores(s, row, f, record.score + (n - start) * K)
            read_steps(s, eta, eta_b, shrink)
            if s.batch != NULL:
                s.batch.t, s.batch.seen = group.t, group.seen
                status = take_into_batch(s.batch, row, xi, c, examples.largest)
                group.t = s.batch.t
            else:
                if weighs:
                    if s.n_groups == 1:
                        spread_step(group, K, eta, eta_b)
                    weigh_labels(s, i, c, row, eta, eta_b, pending.c, xi)
                    c = 1.0
                status = step_columns(s, c, slope, xi, eta, eta_b, shrink, row, limit,
                                      &pending)
            if status != DONE:
                break
            count_losses(s, examples, i, f, value)
        for q in range(s.n_groups):
            s.groups[q].seen += 1.0
        if record.eta != NULL:
            record.eta[n - start] = group.eta
            record.loss[n - start] = value[0]
            record.error[n - start] = s.error_sum[0] / group.seen
        at[0] = n + 1
    smat_flush(w, &pending)
    return status


cdef inline int learn_classes(LinearModel *model, const Examples *examples, Py_ssize_t *at,
                              Py_ssize_t stop) noexcept nogil:
    """`learn_columns` for the classes of one model."""
    cdef Columns s
    cdef Group group
    cdef int status
    group.step, group.intercept_eta0 = model.step, model.options.intercept_eta0
    group.t, group.seen, group.averaged = model.t, model.seen, model.mat.avg_count
    s.w, s.loss, s.options = model.mat, model.loss, model.options
    s.xi_source, s.n_out, s.n_groups, s.groups = XI_CLASS, model.n_out, 1, &group
    s.candidates, s.batch = NULL, model if model.options.batch_size > 1 else NULL
    s.b, s.b_sum, s.scratch, s.active = model.b, model.b_sum, model.scratch, model.active
    s.lift = model.lift
    s.loss_sum, s.error_sum = &model.loss_sum, &model.error_sum
    status = learn_columns(&s, examples, at, stop)
    model.t, model.seen = group.t, group.seen
    return status
