# The columns of all settings side by side: their memory, and the scores of an example.
#
# A `Bank` has n_groups settings with n_out columns each, K in all (adaptive_step.pxd has the
# equations and how a feature's numbers lie in memory).  `AdaptiveLearner` owns what its pointers
# lead to.  A row's score needs its entries and the planes v alone.  Where a loss asks for a step,
# or several columns are scored, the entries are unpacked (`Entries`) into scratch.
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc

from osvm.linear.adaptive_step cimport (
    PLANE_ROOT, PLANE_U, Entries, Group, add_repeated, dot_columns, grows, mirror_weight,
    prefetch_cells, rescales, size_ratio, strided_dot, unpack,
)
from osvm.linear.model cimport ERROR_ABSOLUTE
from osvm.core.rows cimport row_index, row_is_sorted, row_value
from osvm.core.step cimport STEP_ADAPTIVE_MIRROR, STEP_ADAPTIVE_NORMALIZED, STEP_COIN_BETTING
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, Loss, Row, float32_t,
    float64_t, weight_t,
)

cdef extern from *:
    """
    #define OSVM_MOST_TARGET 1e60 /* steps have the size of the targets */
    """
    const double MOST_TARGET "OSVM_MOST_TARGET"

cdef struct Bank:
    Loss loss
    Loss joint_loss         # of the groups that compare classes where `loss` does not
    Group *groups
    Py_ssize_t n_features, n_out, n_groups, K, stride
    Py_ssize_t n_planes     # of a feature: without those of u1, where u0 stands for both in a fit
    void *at                # the numbers of feature 0
    double *b               # planes x K: those of the offset
    int header              # 1 with a place for 1/n_j
    int error_kind
    bint single             # weights are float32
    bint fit_intercept, averages, any_mirror, any_coin, plain, forgets
    bint tail               # an average restarts its windows
    bint averaging          # False while windows rest
    bint paired             # the windows began together: u0 stands for both
    bint judging            # whether the averages are scored too
    double average_from
    # counters
    double t, seen
    double sum_x            # N of the normalization
    double target_weight, target_mean, target_sq
    double counts[2]        # iterates in the two windows
    int older               # the window that predicts
    # of one example: K scores each, of the last iterates and of the averages; and so on
    double *f
    double *fa
    double *xi
    double *q
    double *delta
    double *value           # of each group
    void *raw               # K weights
    void *raw_u
    void *wide              # of raise_columns
    Py_ssize_t *active
    double *zeros           # n_features of them, once a column repeats
    Entries entries
    Py_ssize_t room         # of entries


cdef inline const Loss *loss_of(const Bank *m, const Group *group) noexcept nogil:
    return &m.joint_loss if group.joint and m.n_out > 1 else &m.loss


cdef inline double rate_factor(Bank *m, const Group *group, double t) noexcept nogil:
    """What the rates of a group have in common: r_j = this / root_j (/ n_j)."""
    cdef double e = group.step.eta0 * sqrt(group.inflation)
    if m.error_kind == ERROR_ABSOLUTE:
        e *= deviation(m)
    if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
        e *= sqrt(t / m.sum_x) if m.sum_x > 0.0 else 0.0
    return e


cdef inline double deviation(Bank *m) noexcept nogil:
    """Of the targets so far: from their mean, or from 0 where there is no offset."""
    cdef double sq
    if m.target_weight <= 0.0:
        return 0.0
    sq = m.target_sq / m.target_weight
    if not m.fit_intercept:
        sq += m.target_mean * m.target_mean
    return sqrt(sq)


cdef inline double read_cell(Bank *m, const Group *group, Py_ssize_t k, const weight_t *cell,
                             bint averaged, double e) noexcept nogil:
    """Weight k of a feature, whose numbers begin at `cell` (v of column 0)."""
    cdef double v = cell[k]
    if averaged:
        v = (group.sums[m.older] * v
             - cell[(PLANE_U + m.older) * m.K + k]) / m.counts[m.older]
    else:
        v *= group.scale
    if group.step.flags & STEP_ADAPTIVE_MIRROR:
        if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
            e *= cell[-1]
        v = mirror_weight(v, cell[PLANE_ROOT * m.K + k], e, group.reg * m.t)
    return v


cdef inline double read_offset(Bank *m, const Group *group, Py_ssize_t k,
                               bint averaged) noexcept nogil:
    if averaged:
        return m.b[(PLANE_U + m.older) * m.K + k] / m.counts[m.older]
    return m.b[k]


cdef inline void read_row(Bank *m, Py_ssize_t first, Py_ssize_t last, const Row *x, bint averaged,
                          const weight_t *v, double *out) noexcept nogil:
    """Scores of the groups first:last, offsets included; changes nothing."""
    cdef Py_ssize_t i, g, k
    cdef double e, total
    cdef const Group *group
    for g in range(first, last):
        group = &m.groups[g]
        e = rate_factor(m, group, m.t) if group.step.flags & STEP_ADAPTIVE_MIRROR else 0.0
        for k in range(g * m.n_out, (g + 1) * m.n_out):
            total = 0.0
            for i in range(x.count):
                total += row_value(x, i) * read_cell(
                    m, group, k, v + row_index(x, i) * m.stride, averaged, e)
            out[k - first * m.n_out] = total + read_offset(m, group, k, averaged)


cdef inline double dot_one(Bank *m, const Row *x, const Row *later,
                           const weight_t *v) noexcept nogil:
    """x . v of the first column, without the row's factor."""
    cdef const void *ahead = NULL if later == NULL else later.values
    cdef const void *ahead_j = NULL if later == NULL else later.indices
    cdef Py_ssize_t s = m.stride
    if x.kind == ROW_F32_I32:
        return strided_dot(<const float32_t *> x.values, 1, <const int32_t *> x.indices,
                           x.count, v, s, <const float32_t *> ahead,
                           <const int32_t *> ahead_j)
    if x.kind == ROW_F64_I32:
        return strided_dot(<const float64_t *> x.values, 1, <const int32_t *> x.indices,
                           x.count, v, s, <const float64_t *> ahead,
                           <const int32_t *> ahead_j)
    if x.kind == ROW_F32_I64:
        return strided_dot(<const float32_t *> x.values, 1, <const int64_t *> x.indices,
                           x.count, v, s, <const float32_t *> ahead,
                           <const int64_t *> ahead_j)
    if x.kind == ROW_F32_DENSE:
        return strided_dot(<const float32_t *> x.values, x.step, <const int32_t *> NULL,
                           x.count, v, s, <const float32_t *> NULL, <const int32_t *> NULL)
    if x.kind == ROW_F64_DENSE:
        return strided_dot(<const float64_t *> x.values, x.step, <const int32_t *> NULL,
                           x.count, v, s, <const float64_t *> NULL, <const int32_t *> NULL)
    return strided_dot(<const float64_t *> x.values, 1, <const int64_t *> x.indices,
                       x.count, v, s, <const float64_t *> ahead, <const int64_t *> ahead_j)


cdef inline bint take_entries(Bank *m, const Row *x, weight_t *v) noexcept nogil:
    """Unpack the row; False without memory.  `v` tells the type alone."""
    cdef Entries *out = &m.entries
    cdef Py_ssize_t s = m.stride
    cdef weight_t *values
    if x.count > m.room:
        m.room = 2 * x.count
        free(out.at)
        free(out.x)
        free(out.root)
        free(out.rate)
        out.at = <int64_t *> malloc(m.room * sizeof(int64_t))
        out.x = malloc(m.room * sizeof(weight_t))
        out.root = malloc(m.room * sizeof(weight_t))
        out.rate = malloc(m.room * sizeof(weight_t))
        if out.at == NULL or out.x == NULL or out.root == NULL or out.rate == NULL:
            m.room = 0
            return False
    values = <weight_t *> out.x
    if x.kind == ROW_F32_I32:
        unpack(<const float32_t *> x.values, 1, <const int32_t *> x.indices, x.count,
               x.scale, s, out, values)
    elif x.kind == ROW_F64_I32:
        unpack(<const float64_t *> x.values, 1, <const int32_t *> x.indices, x.count,
               x.scale, s, out, values)
    elif x.kind == ROW_F32_I64:
        unpack(<const float32_t *> x.values, 1, <const int64_t *> x.indices, x.count,
               x.scale, s, out, values)
    elif x.kind == ROW_F32_DENSE:
        unpack(<const float32_t *> x.values, x.step, <const int32_t *> NULL, x.count,
               x.scale, s, out, values)
    elif x.kind == ROW_F64_DENSE:
        unpack(<const float64_t *> x.values, x.step, <const int32_t *> NULL, x.count,
               x.scale, s, out, values)
    else:
        unpack(<const float64_t *> x.values, 1, <const int64_t *> x.indices, x.count,
               x.scale, s, out, values)
    if not row_is_sorted(x):
        if m.zeros == NULL:
            m.zeros = <double *> calloc(m.n_features, sizeof(double))
            if m.zeros == NULL:
                return False
        add_repeated(out, values, s, m.zeros)
    return True


cdef inline void fetch(Bank *m, const Row *x, const weight_t *v) noexcept nogil:
    """Ask for the weights of another row."""
    cdef Py_ssize_t stride = m.stride * sizeof(weight_t), size = m.K * sizeof(weight_t)
    if x.kind == ROW_F32_I32 or x.kind == ROW_F64_I32:
        prefetch_cells(<const int32_t *> x.indices, x.count, <const char *> v, stride, size)
    elif x.indices != NULL:
        prefetch_cells(<const int64_t *> x.indices, x.count, <const char *> v, stride, size)


cdef inline void score_all(Bank *m, double *f, const weight_t *v, bint grow) noexcept nogil:
    """Scores of all columns from the entries; `grow`: as if the features' sizes had grown."""
    cdef Py_ssize_t i, g, k, K = m.K
    cdef const Group *group
    cdef const Entries *row = &m.entries
    cdef weight_t *work = <weight_t *> m.raw
    cdef const weight_t *x = <const weight_t *> row.x
    cdef double e, total, a
    dot_columns(row, v, K, work)
    for g in range(m.n_groups):
        group = &m.groups[g]
        if group.step.flags & STEP_ADAPTIVE_MIRROR:
            e = rate_factor(m, group, m.t)
            for k in range(g * m.n_out, (g + 1) * m.n_out):
                total = 0.0
                for i in range(row.n):
                    a = 0.0
                    if grow and group.step.flags & STEP_ADAPTIVE_NORMALIZED:
                        a = size_ratio(x[i], v[row.at[i] - 1])
                    total += x[i] * read_cell(m, group, k, v + row.at[i], False,
                                              e / a if grows(a) else e)
                f[k] = total
        else:
            for k in range(g * m.n_out, (g + 1) * m.n_out):
                f[k] = group.scale * work[k]
    if m.header and grow:
        for i in range(row.n):
            a = size_ratio(x[i], v[row.at[i] - 1])
            if grows(a):
                for g in range(m.n_groups):
                    group = &m.groups[g]
                    if not rescales(group):
                        continue
                    for k in range(g * m.n_out, (g + 1) * m.n_out):
                        f[k] += (group.scale * x[i] * v[row.at[i] + k]
                                 * (1.0 / a - 1.0))
    for k in range(K):
        f[k] += m.b[k]


cdef inline void score_means(Bank *m, double *f, const weight_t *v, bint grow) noexcept nogil:
    """The same for the averages, after `score_all`; the last iterates before there are any."""
    cdef Py_ssize_t i, g, k, K = m.K, o = PLANE_U + m.older
    cdef const Group *group
    cdef const Entries *row = &m.entries
    cdef const weight_t *raw = <const weight_t *> m.raw
    cdef weight_t *work = <weight_t *> m.raw_u
    cdef const weight_t *x = <const weight_t *> row.x
    cdef double a, count = m.counts[m.older]
    if count == 0.0:
        for k in range(K):
            f[k] = m.f[k]
        return
    dot_columns(row, v + o * K, K, work)
    for g in range(m.n_groups):
        group = &m.groups[g]
        for k in range(g * m.n_out, (g + 1) * m.n_out):
            f[k] = (group.sums[m.older] * raw[k] - work[k] + m.b[o * K + k]) / count
    if not (m.header and grow):
        return
    for i in range(row.n):
        a = size_ratio(x[i], v[row.at[i] - 1])
        if grows(a):
            for g in range(m.n_groups):
                if rescales(&m.groups[g]):
                    for k in range(g * m.n_out, (g + 1) * m.n_out):
                        f[k] += x[i] * (1.0 / a - 1.0) * read_cell(
                            m, &m.groups[g], k, v + row.at[i], True, 0.0)


cdef inline double mean_rate(Bank *m, Py_ssize_t first, const Row *x,
                             const weight_t *v) noexcept nogil:
    """Mean rate over the row's entries and the columns of one group."""
    cdef Py_ssize_t i, k, n = x.count * m.n_out
    cdef const Group *group = &m.groups[first]
    cdef double total = 0.0, inverse = 1.0
    cdef const weight_t *cell
    if group.step.kind == STEP_COIN_BETTING or n == 0:
        return 0.0
    for i in range(x.count):
        cell = v + row_index(x, i) * m.stride
        if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
            inverse = cell[-1]
        for k in range(m.K + first * m.n_out, m.K + (first + 1) * m.n_out):
            if cell[k] > 0:
                total += inverse / cell[k]
    return total * rate_factor(m, group, m.t) / n
