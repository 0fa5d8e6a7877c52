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
from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t

from osvm.linear.mini_batch cimport take_into_batch
from osvm.linear.model cimport (
    AHEAD, DONE, NOT_FINITE, STEP_TOO_LARGE, Examples, LinearModel, Options, Record, lift_columns,
    project_column,
)
from osvm.linear.step_guard cimport (
    bounded, bounded_sq_norm, clamp_shrink, intercept_step, loss_slope, row_largest, step_fits,
    step_limit, steps_fit,
)
from osvm.core.loss cimport LOSS_HINGE, hinge, loss_value_xi, mloss_value_xi
from osvm.core.rows cimport OSVM_PREFETCH, row_index, rows_get, rows_prefetch, rows_prefetch_start
from osvm.core.smat cimport (
    smat_average_dot, smat_axpy, smat_dot_ahead, smat_fold, smat_rescale_column, smat_shrink,
)
from osvm.core.smat_step cimport PendingUpdate, smat_flush, smat_step
from osvm.core.step cimport step_next
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, ROW_F64_I64, WEIGHT_F32, Loss, Row, Rows,
    SMat, Step,
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
    bint osvm_search_dot_f32_i32(const float *x, const int32_t *j, Py_ssize_t n, const float *v,
                                 Py_ssize_t K, const int32_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, float *work, double *f)
    bint osvm_search_dot_f32_i64(const float *x, const int64_t *j, Py_ssize_t n, const float *v,
                                 Py_ssize_t K, const int64_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, float *work, double *f)
    bint osvm_search_dot_f64_i32(const double *x, const int32_t *j, Py_ssize_t n, const double *v,
                                 Py_ssize_t K, const int32_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, double *work, double *f)
    bint osvm_search_dot_f64_i64(const double *x, const int64_t *j, Py_ssize_t n, const double *v,
                                 Py_ssize_t K, const int64_t *next, Py_ssize_t n_next,
                                 const double *scale, double row_scale, double *work, double *f)
    bint osvm_search_axpy_f32_i32(const float *x, const int32_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  float *work, float *v)
    bint osvm_search_axpy_f32_i64(const float *x, const int64_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  float *work, float *v)
    bint osvm_search_axpy_f64_i32(const double *x, const int32_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  double *work, double *v)
    bint osvm_search_axpy_f64_i64(const double *x, const int64_t *j, Py_ssize_t n, const double *c,
                                  const double *scale, double row_scale, Py_ssize_t K,
                                  double *work, double *v)

cdef enum XiSource:
    XI_CLASS = 0
    XI_BINARY = 1
    XI_SET = 2

# The schedule state that the columns of a group share.
cdef struct Group:
    Step step
    double intercept_eta0   # eta_b = this/sqrt(t); 0 = the weights' own step
    double t                # steps made
    double seen             # examples seen
    double averaged         # iterates in the average
    double weight_bound     # of its columns' |w| and |b|; -1 = not known
    # of the example at hand:
    double eta
    double eta_b
    double shrink
    double counts           # 1 when this iterate belongs to the average

# The schedules of a search's candidates, all at the same t; arrays have an entry per column.
cdef struct Candidates:
    Step *steps             # one per candidate
    bint inverse_time       # every step is 1 / (step_reg (t0 + t))
    const double *reg
    const double *radii
    const double *step_reg
    const double *t0
    const double *eta0_b
    const int32_t *every    # 0, 1, ... when rows are dense; else NULL

# The label sets of the rows: those of row i are codes[ends[i]:ends[i + 1]].
cdef struct LabelSets:
    const int64_t *ends
    const int32_t *codes
    const double *class_weight      # 2 x K: rows without and with a label; NULL: 1
    double curvature                # of the loss, where a step stays within its example; else 0
    double *zeros                   # with a curvature, n_features zeros

cdef struct Columns:
    SMat *w
    Loss loss
    Options options
    int xi_source           # an XiSource
    Py_ssize_t n_out        # columns that one loss looks at: XI_CLASS the classes, else 1
    Py_ssize_t n_groups
    Group *groups
    const int64_t *group_of         # each column's; unused with one group
    Candidates *candidates          # or NULL
    LabelSets sets                  # XI_SET
    LinearModel *batch              # with mini-batches; else NULL
    # an entry per column:
    double *lift                    # of `LinearModel`, or NULL
    double *b
    double *b_sum
    double *scratch                 # SCRATCH_ROWS of them
    Py_ssize_t *active
    # an entry per loss:
    double *loss_sum
    double *error_sum

cdef enum:
    SCRATCH_ROWS = 7        # f, xi, value, eta, eta_b, shrink, pending update


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
    if w.kind == WEIGHT_F32 and row.kind == ROW_F32_I32 and osvm_search_dot_f32_i32(
            <const float *> row.values, <const int32_t *> row.indices, row.count,
            <const float *> w.v, w.n_out, <const int32_t *> later.indices, later.count, w.scale,
            row.scale, <float *> w.work, f):
        return
    if w.kind == WEIGHT_F32 and row.kind == ROW_F32_I64 and osvm_search_dot_f32_i64(
            <const float *> row.values, <const int64_t *> row.indices, row.count,
            <const float *> w.v, w.n_out, <const int64_t *> later.indices, later.count, w.scale,
            row.scale, <float *> w.work, f):
        return
    if w.kind != WEIGHT_F32 and row.kind == ROW_F64_I32 and osvm_search_dot_f64_i32(
            <const double *> row.values, <const int32_t *> row.indices, row.count,
            <const double *> w.v, w.n_out, <const int32_t *> later.indices, later.count, w.scale,
            row.scale, <double *> w.work, f):
        return
    if w.kind != WEIGHT_F32 and row.kind == ROW_F64_I64 and osvm_search_dot_f64_i64(
            <const double *> row.values, <const int64_t *> row.indices, row.count,
            <const double *> w.v, w.n_out, <const int64_t *> later.indices, later.count, w.scale,
            row.scale, <double *> w.work, f):
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
            value[k] = hinge(1.0, f[k], 1.0, &xi[k])
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


# ---------------------------------------------------------------- the parts of a step

cdef inline void read_group(const Columns *s, Group *group) noexcept nogil:
    """The step sizes of the group's next example."""
    group.eta = step_next(&group.step, group.t + 1.0)
    group.eta_b = 0.0
    if s.options.fit_intercept:
        group.eta_b = intercept_step(group.intercept_eta0, group.t + 1.0, group.eta)
    group.shrink = clamp_shrink(1.0 - group.eta * s.options.reg)


cdef inline void read_candidates(const Columns *s, double t, double *eta, double *eta_b,
                                 double *shrink) noexcept nogil:
    """The same for the candidates of a search, column by column."""
    cdef const Candidates *c = s.candidates
    cdef Py_ssize_t k, n = s.w.n_out
    cdef double root = sqrt(t), kept
    if c.inverse_time:
        for k in range(n):
            eta[k] = 1.0 / (c.step_reg[k] * (c.t0[k] + t))
    else:
        for k in range(n):
            eta[k] = step_next(&c.steps[k // s.n_out], t)
    for k in range(n):
        kept = c.eta0_b[k] / root           # as intercept_step, without a branch
        eta_b[k] = kept if c.eta0_b[k] > 0.0 else eta[k]
    for k in range(n):
        kept = 1.0 - eta[k] * c.reg[k]
        shrink[k] = kept if kept > 0.0 else 0.0


cdef inline void read_steps(const Columns *s, double *eta, double *eta_b,
                            double *shrink) noexcept nogil:
    """Each column's step sizes for the next example."""
    cdef Py_ssize_t k, q
    cdef double one_eta = 0.0, one_eta_b = 0.0, one_shrink = 0.0
    if s.candidates != NULL:
        read_candidates(s, s.groups.t + 1.0, eta, eta_b, shrink)
        return
    for q in range(s.n_groups):
        read_group(s, &s.groups[q])
    if s.n_groups == 1:             # `step_columns` needs them rarely
        return
    q = -1
    for k in range(s.w.n_out):
        if s.group_of[k] != q:      # groups are mostly runs of columns
            q = s.group_of[k]
            one_eta, one_eta_b = s.groups[q].eta, s.groups[q].eta_b
            one_shrink = s.groups[q].shrink
        eta[k], eta_b[k], shrink[k] = one_eta, one_eta_b, one_shrink


cdef inline void spread_step(const Group *group, Py_ssize_t K, double *eta,
                             double *eta_b) noexcept nogil:
    """The step sizes of the one group that all columns belong to, column by column."""
    cdef Py_ssize_t k
    cdef double a = group.eta, b = group.eta_b
    for k in range(K):
        eta[k], eta_b[k] = a, b


cdef inline void weigh_labels(const Columns *s, Py_ssize_t i, double c, const Row *row,
                              const double *eta, const double *eta_b, double *weight,
                              double *xi) noexcept nogil:
    """xi times the weight that row i has for each label; `weight` is scratch."""
    cdef Py_ssize_t k, m, K = s.w.n_out
    cdef const double *class_weight = s.sets.class_weight
    cdef double sq
    for k in range(K):
        weight[k] = c if class_weight == NULL else c * class_weight[k]
    if class_weight != NULL:
        for m in range(s.sets.ends[i], s.sets.ends[i + 1]):
            k = s.sets.codes[m]
            weight[k] = c * class_weight[K + k]
    if s.sets.curvature > 0.0:
        sq = bounded_sq_norm(row, s.sets.zeros)
        for k in range(K):
            weight[k] = bounded(weight[k], s.sets.curvature, eta[k] * sq + eta_b[k])
    for k in range(K):
        xi[k] *= weight[k]


cdef inline void fold_outside(SMat *w) noexcept nogil:
    """Fold the scales that have left their range; columns shrunk to nothing are cleared."""
    cdef Py_ssize_t k
    for k in range(w.n_out):
        if w.scale[k] == 0.0:
            smat_rescale_column(w, k, 0.0)
        elif fabs(w.scale[k]) < w.low or fabs(w.scale[k]) > w.high:
            smat_fold(w, k)


cdef inline void shrink_columns(SMat *w, const double *factor) noexcept nogil:
    """w_k *= factor[k]"""
    cdef Py_ssize_t k, inside = 0, n = w.n_out
    cdef double *scale = w.scale
    cdef double low = w.low, high = w.high
    for k in range(n):
        scale[k] *= factor[k]
        inside += (fabs(scale[k]) >= low) & (fabs(scale[k]) <= high)
    if inside < n:
        fold_outside(w)


cdef inline bint axpy_candidates(SMat *w, const double *c, const Row *row) noexcept nogil:
    """w_k += c[k] row, when there is a wide loop for it: most candidates move together."""
    if w.track_norm or w.averaging:
        return False
    if w.kind == WEIGHT_F32:
        if row.kind == ROW_F32_I32:
            return osvm_search_axpy_f32_i32(
                <const float *> row.values, <const int32_t *> row.indices, row.count, c, w.scale,
                row.scale, w.n_out, <float *> w.work, <float *> w.v)
        return row.kind == ROW_F32_I64 and osvm_search_axpy_f32_i64(
            <const float *> row.values, <const int64_t *> row.indices, row.count, c, w.scale,
            row.scale, w.n_out, <float *> w.work, <float *> w.v)
    if row.kind == ROW_F64_I32:
        return osvm_search_axpy_f64_i32(
            <const double *> row.values, <const int32_t *> row.indices, row.count, c, w.scale,
            row.scale, w.n_out, <double *> w.work, <double *> w.v)
    return row.kind == ROW_F64_I64 and osvm_search_axpy_f64_i64(
        <const double *> row.values, <const int64_t *> row.indices, row.count, c, w.scale,
        row.scale, w.n_out, <double *> w.work, <double *> w.v)


cdef inline void project_columns(const Columns *s) noexcept nogil:
    cdef Py_ssize_t k
    cdef double radius = s.options.radius
    for k in range(s.w.n_out):
        if s.candidates != NULL:
            radius = s.candidates.radii[k]
        if radius > 0.0:
            project_column(s.w, k, radius, s.lift)


cdef inline void average_columns(const Columns *s) noexcept nogil:
    """Count the iterates of the groups whose average has begun."""
    cdef SMat *w = s.w
    cdef Group *groups = s.groups
    cdef Py_ssize_t k, q
    cdef double any_counts = 0.0, on = 0.0
    for q in range(s.n_groups):
        on = groups[q].seen >= s.options.average_from
        groups[q].counts = on
        groups[q].averaged += on
        any_counts += on
    if any_counts == 0.0:
        return
    if not w.averaging:             # as smat_start_average: less cancellation in u
        w.averaging = 1
        w.low, w.high = 1e-3, 1e3
        for k in range(w.n_out):
            if fabs(w.scale[k]) < w.low or fabs(w.scale[k]) > w.high:
                smat_fold(w, k)
    if s.xi_source != XI_SET:       # one count for all columns
        w.avg_count += 1.0
    if s.n_groups == 1:
        for k in range(w.n_out):
            w.avg_scale[k] += w.scale[k]
        for k in range(w.n_out):
            s.b_sum[k] += s.b[k]
        return
    for k in range(w.n_out):
        on = groups[s.group_of[k]].counts
        w.avg_scale[k] += on * w.scale[k]
        s.b_sum[k] += on * s.b[k]


cdef inline void finish_step(const Columns *s, double *c, const Row *row,
                             PendingUpdate *pending) noexcept nogil:
    """w_k += c[k] row, project, average: what follows once the sizes of a step are known."""
    cdef Py_ssize_t q
    if s.candidates == NULL:
        smat_step(s.w, c, row, pending)
    elif not axpy_candidates(s.w, c, row):
        smat_axpy(s.w, c, row)      # most columns move, and u is in the cache with v
    if s.options.radius > 0.0:
        smat_flush(s.w, pending)    # a projection may fold v into u
        project_columns(s)
    if s.options.average_from >= 0.0:
        average_columns(s)
    for q in range(s.n_groups):
        s.groups[q].t += 1.0


cdef inline int step_columns(const Columns *s, double c, double slope, double *xi, double *eta,
                             double *eta_b, const double *shrink, const Row *row, double limit,
                             PendingUpdate *pending) noexcept nogil:
    """One step of every column with the row's weight c; xi becomes the move along the row.

    `slope` bounds |xi|.
    """
    cdef SMat *w = s.w
    cdef double *b = s.b
    cdef Py_ssize_t k, q, K = w.n_out
    cdef double averaged = 0.0, one_eta = s.groups.eta * c, one_eta_b = s.groups.eta_b * c
    for q in range(s.n_groups):
        averaged = s.groups[q].averaged if s.groups[q].averaged > averaged else averaged
    if s.n_groups == 1 and s.candidates == NULL:    # one step size for all
        if not step_fits(s.groups.eta, c * slope, w.low, 1.0 + averaged * w.high, limit):
            spread_step(s.groups, K, eta, eta_b)
            if not steps_fit(w, eta, xi, c, averaged, limit) and not steps_fit(
                    w, eta, xi, c, averaged, step_limit(w.kind, row_largest(row))):
                return STEP_TOO_LARGE
        lift_columns(w, s.lift)
        smat_shrink(w, s.groups.shrink)
        if s.options.fit_intercept:
            for k in range(K):
                b[k] -= one_eta_b * xi[k]
        for k in range(K):
            xi[k] *= -one_eta
        finish_step(s, xi, row, pending)
        return DONE
    if not steps_fit(w, eta, xi, c, averaged, limit) and not steps_fit(
            w, eta, xi, c, averaged, step_limit(w.kind, row_largest(row))):
        return STEP_TOO_LARGE
    shrink_columns(w, shrink)
    if s.options.fit_intercept:
        for k in range(K):
            b[k] -= eta_b[k] * c * xi[k]
    for k in range(K):
        xi[k] *= -eta[k] * c
    finish_step(s, xi, row, pending)
    return DONE


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
