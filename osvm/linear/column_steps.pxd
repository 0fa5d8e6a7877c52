# The step that K columns make on one row: their schedules, moves, projections and averages.
#
# The lower half of osvm/linear/columns.pxd, which says what columns are and gives the slopes.
# A step that would overflow is not made, by any column.
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t

from osvm.linear.model cimport (
    DONE, STEP_TOO_LARGE, LinearModel, Options, lift_columns, project_column,
)
from osvm.linear.step_guard cimport (
    bounded, bounded_sq_norm, clamp_shrink, intercept_step, row_largest, step_fits, step_limit,
    steps_fit,
)
from osvm.core.smat cimport smat_axpy, smat_fold, smat_rescale_column, smat_shrink
from osvm.linear.smat_step cimport PendingUpdate, smat_flush, smat_step
from osvm.core.step cimport step_next
from osvm.core.typedefs cimport ROW_F32_I64, WEIGHT_F32, Loss, Row, SMat, Step

cdef extern from "../_c/search.h" nogil:
    bint osvm_search_axpy(int kind, const void *x, const void *j, Py_ssize_t n, const double *c,
                          const double *scale, double row_scale, Py_ssize_t K, void *work, void *v)

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


cdef inline int search_types(const SMat *w, const Row *row) noexcept nogil:
    """The row's kind, by which the wide loops go; -1 where the weights are of another type."""
    return row.kind if (w.kind == WEIGHT_F32) == (row.kind <= ROW_F32_I64) else -1


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
    return not (w.track_norm or w.averaging) and osvm_search_axpy(
        search_types(w, row), row.values, row.indices, row.count, c, w.scale, row.scale, w.n_out,
        w.work, w.v)


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
