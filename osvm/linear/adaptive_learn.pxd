# One example of an adaptive learner: its steps in all groups of columns, and its averages.
#
# `learn_row` reads top to bottom: scores, losses, whether the steps can be made, and from there
# on nothing fails.  Equations: adaptive_step.pxd.
from libc.math cimport fabs, isfinite, sqrt

from osvm.linear.adaptive_bank cimport (
    MOST_TARGET, Bank, deviation, dot_one, fetch, loss_of, rate_factor, score_all, score_means,
    take_entries,
)
from osvm.linear.adaptive_step cimport (
    PLANE_U, Entries, Group, all_finite, bet, grows, implicit_delta, joint_tau, keep_roots,
    mirror_sum, move_columns, move_thetas, move_weights, normalized_sum, raise_columns,
    raise_rates, rescales, size_ratio, softmax_tau,
)
from osvm.linear.model cimport DONE, ERROR_ABSOLUTE, NOT_FINITE, STEP_TOO_LARGE
from osvm.linear.step_guard cimport largest_of, row_largest
from osvm.core.loss cimport LOSS_SOFTMAX, loss_is_multi, loss_value_xi
from osvm.core.mloss cimport mloss_value_xi
from osvm.core.step cimport (
    STEP_ADAPTIVE_EXPLICIT, STEP_ADAPTIVE_MIRROR, STEP_ADAPTIVE_NORMALIZED, STEP_COIN_BETTING,
)
from osvm.core.typedefs cimport Loss, Row, weight_t

cdef enum:
    WIDE = 3                # one column in so many with a step, and all of them are gone through
    FIRST_WINDOW = 64       # examples before a tail average restarts for the first time


cdef inline double largest_inflation() noexcept nogil:
    """Of a group, before it is folded into its numbers."""
    return 1e12


cdef inline int windows_of(const Bank *m) noexcept nogil:
    """Windows whose numbers change with a weight."""
    return m.averaging * (1 if m.paired else 2)


cdef inline void shrink(Group *group, double t) noexcept nogil:
    """The regularizer of one example, by the scale of the weights."""
    cdef double s = 1.0 - group.reg * group.step.eta0 / sqrt(t)
    group.scale *= s if s > 1e-6 else 1e-6


cdef inline bint must_fold(const Group *group) noexcept nogil:
    return group.scale < 1e-9 or group.inflation > largest_inflation()


cdef inline double grow(Bank *m, weight_t *v) noexcept nogil:
    """Let the features' sizes grow with the entries; the sum of x^2/n^2."""
    cdef Py_ssize_t i, g, k, p, K = m.K, last = min(PLANE_U + 2 * m.averages, m.n_planes)
    cdef const Entries *row = &m.entries
    cdef const weight_t *x = <const weight_t *> row.x
    cdef double a, least = 1.0 / most_inverse(m), total = 0.0
    cdef weight_t *cell
    for i in range(row.n):
        cell = v + row.at[i]
        a = size_ratio(x[i], cell[-1])
        if grows(a):
            cell[-1] = <weight_t> (1.0 / max(fabs(x[i]), least))
            for g in range(m.n_groups):
                if not rescales(&m.groups[g]):
                    continue
                for k in range(g * m.n_out, (g + 1) * m.n_out):
                    cell[k] = <weight_t> (cell[k] / a)
                    for p in range(PLANE_U, last):
                        cell[p * K + k] = <weight_t> (cell[p * K + k] / a)
            a = fabs(x[i]) * cell[-1]
        total += a * a
    return total


cdef inline double most_inverse(Bank *m) noexcept nogil:
    return 1e15 if m.single else 1e100


cdef inline void step_group(Bank *m, Group *group, Py_ssize_t first, double target,
                            Py_ssize_t label, double c, double value, weight_t *v) noexcept nogil:
    """The step of one group's columns, from `first` on, whose xi are not all 0."""
    cdef Py_ssize_t k, a, n_active = 0, K = m.K, n = m.n_out
    cdef Entries *row = &m.entries
    cdef const Loss *loss = loss_of(m, group)
    cdef bint joint = loss_is_multi(loss), wide
    cdef const weight_t *inverse = NULL
    cdef double e = rate_factor(m, group, m.t), pull = group.reg * m.t
    cdef double a2, q_sum = 0.0
    cdef double *b = m.b
    if group.step.flags & STEP_ADAPTIVE_NORMALIZED:
        inverse = v - 1
    if not e > 0.0:
        return
    for k in range(first, first + n):
        m.delta[k] = 0.0
        m.q[k] = sqrt(c * group.inflation) * fabs(m.xi[k])
        if m.xi[k] != 0.0:
            m.active[n_active] = k
            n_active += 1
    # many columns at once, or one after the other
    wide = (n > 1 and WIDE * n_active >= n and inverse == NULL
            and not group.step.flags & STEP_ADAPTIVE_MIRROR)
    if wide:
        raise_columns(row, v + first + K, n, m.q + first, m.q + first,
                      <weight_t *> m.wide)
    for a in range(n_active):
        k = m.active[a]
        a2 = c * group.inflation * m.xi[k] * m.xi[k]
        if not wide:
            m.q[k] = raise_rates(row, v + K + k, m.q[k])
        m.q[k] *= e
        if group.step.flags & STEP_ADAPTIVE_MIRROR:
            m.q[k] = mirror_sum(row, inverse, e, pull)
        elif inverse != NULL:
            m.q[k] = e * normalized_sum(row, inverse)
        if m.fit_intercept:
            b[K + k] = sqrt(b[K + k] * b[K + k] + a2 + 1e-280)
            m.q[k] += e / b[K + k]
        q_sum += m.q[k]
        if joint and not wide:
            keep_roots(row, v + K + k)
        elif not joint:
            if group.step.flags & STEP_ADAPTIVE_EXPLICIT:
                m.delta[k] = c * m.xi[k]
            else:
                m.delta[k] = delta_of(m, k, first, target, label, c, value)
            if not wide:
                move(m, group, k, e, inverse, v)
    if joint:           # which sees the sums of all columns
        for a in range(n_active):
            k = m.active[a]
            if group.step.flags & STEP_ADAPTIVE_EXPLICIT:
                m.delta[k] = c * m.xi[k]
            elif loss.kind == LOSS_SOFTMAX:
                m.delta[k] = m.xi[k] * softmax_tau(m.q[k], c)
            else:
                m.delta[k] = m.xi[k] * joint_tau(q_sum, c, value)
            if not wide:
                raise_rates(row, v + K + k, 0.0)        # reads them again
                move(m, group, k, e, inverse, v)
    if wide:
        for k in range(first, first + n):
            m.q[k] = -m.delta[k] * e / group.scale
        move_columns(row, v + first, n, K, m.q + first, windows_of(m), group.sums,
                     <weight_t *> m.wide)
        if m.fit_intercept:
            for a in range(n_active):
                k = m.active[a]
                b[k] -= m.delta[k] * e / b[K + k]


cdef inline void move(Bank *m, const Group *group, Py_ssize_t k, double e, const weight_t *inverse,
                      weight_t *v) noexcept nogil:
    """The step of one column by its delta; the entries hold its rates."""
    if group.step.flags & STEP_ADAPTIVE_MIRROR:
        move_thetas(&m.entries, v + k, m.K, -m.delta[k], m.averaging, group.sums)
    else:
        move_weights(&m.entries, v + k, m.K, inverse, -m.delta[k] * e / group.scale,
                     windows_of(m), group.sums)
    if m.fit_intercept:
        m.b[k] -= m.delta[k] * e / m.b[m.K + k]


cdef inline double delta_of(Bank *m, Py_ssize_t k, Py_ssize_t first, double target,
                            Py_ssize_t label, double c, double value) noexcept nogil:
    """delta of a column whose loss sees no other; one-vs-rest with several outputs."""
    cdef double xi = m.xi[k]
    if m.n_out > 1:
        target = 1.0 if k - first == label else -1.0
        value = loss_value_xi(&m.loss, target, m.f[k], &xi)
    return implicit_delta(&m.loss, target, m.f[k], m.q[k], c, value, xi)


cdef inline void bet_group(Bank *m, Group *group, Py_ssize_t first, double c,
                           weight_t *v) noexcept nogil:
    """The bets of one group's columns."""
    cdef Py_ssize_t i, k, K = m.K, last = (m.n_planes - 3) * m.K
    cdef const Entries *row = &m.entries
    cdef const weight_t *x = <const weight_t *> row.x
    cdef double g, move, alpha = group.step.alpha
    cdef double *b = m.b
    for k in range(first, first + m.n_out):
        if m.xi[k] == 0.0:
            continue
        g = c * m.xi[k]
        for i in range(row.n):
            move = bet(v + row.at[i] + k, K, last, g * x[i], alpha)
            if m.averaging:
                v[row.at[i] + 2 * K + k] += <weight_t> (group.sums[0] * move)
                v[row.at[i] + 3 * K + k] += <weight_t> (group.sums[1] * move)
        if m.fit_intercept:
            bet(b + k, K, last, g, alpha)


cdef inline bint fits(Bank *m, const Row *row, double largest, double c) noexcept nogil:
    """Whether the step can be made within the range of the weights' type."""
    cdef Py_ssize_t g
    cdef double slope, stake, size = 1e17 if m.single else 1e140
    slope = largest_of(m.xi, m.K) * sqrt(c)
    stake = slope * sqrt(c) if m.any_coin else 0.0
    for g in range(m.n_groups):
        if not (slope * sqrt(m.groups[g].inflation) * max(largest, 1.0) < size
                and stake * max(largest, 1.0) < (1e30 if m.single else 1e145)
                and slope * slope * max(c, 1.0) < 1e140
                and rate_factor(m, &m.groups[g], m.t + 1.0) * max(c, 1.0)
                < (1e15 if m.single else 1e40)):
            if largest > row_largest(row):
                return fits(m, row, row_largest(row), c)
            return False
    return True


cdef inline bint can_see_target(const Bank *m, double y, double c) noexcept nogil:
    """Whether mean and squares of the targets stay in the range of saved states."""
    cdef double d = fabs(y) + fabs(m.target_mean)
    return d < MOST_TARGET and m.target_sq + c * d * d < 1e200


cdef inline void see_target(Bank *m, double y, double c) noexcept nogil:
    """Mean and squared deviations of the targets, by Welford's rule."""
    cdef double d = y - m.target_mean
    m.target_weight += c
    m.target_mean += d * (c / m.target_weight)
    m.target_sq += c * d * (y - m.target_mean)


cdef inline void fold(Bank *m, Py_ssize_t g, weight_t *v) noexcept nogil:
    """Put a group's scale and inflation into its numbers.

    The sums of scales go into the windows, for in units of a scale that falls they overflow.
    """
    cdef Group *group = &m.groups[g]
    cdef Py_ssize_t j, k, o, K = m.K
    cdef double root = sqrt(group.inflation), scale = group.scale
    cdef bint moves = m.averages and scale != 1.0
    for j in range(m.n_features):
        for k in range(g * m.n_out, (g + 1) * m.n_out):
            if moves:
                for o in range(1 if m.paired else 2):
                    v[j * m.stride + (PLANE_U + o) * K + k] -= <weight_t> (
                        group.sums[o] * v[j * m.stride + k])
            v[j * m.stride + k] *= <weight_t> scale
            v[j * m.stride + K + k] /= <weight_t> root
    for k in range(g * m.n_out, (g + 1) * m.n_out):
        m.b[K + k] /= root
    if moves:
        group.sums[0] = group.sums[1] = 0.0
    group.scale = group.inflation = 1.0


cdef inline void empty_window(Bank *m, int o, weight_t *v) noexcept nogil:
    """Begin a window anew."""
    cdef Py_ssize_t g, _j, k, K = m.K
    cdef weight_t *u = v + (PLANE_U + o) * K
    for _j in range(0 if m.paired and o else m.n_features):     # u1 is written as a whole later
        for k in range(K):
            u[k] = 0
        u += m.stride
    for k in range(K):
        m.b[(PLANE_U + o) * K + k] = 0.0
    for g in range(m.n_groups):
        m.groups[g].sums[o] = 0.0
    m.counts[o] = 0.0


cdef inline void count_average(Bank *m, weight_t *v) noexcept nogil:
    """Count this iterate; a tail average restarts its older window at 2^k examples."""
    cdef Py_ssize_t g, k, n, K = m.K
    cdef double *b = m.b
    n = <Py_ssize_t> (m.seen - m.average_from)
    if m.tail and n >= FIRST_WINDOW and n & (n - 1) == 0:
        empty_window(m, m.older, v)
        m.older = 1 - m.older
    for g in range(m.n_groups):
        m.groups[g].sums[0] += m.groups[g].scale
        m.groups[g].sums[1] += m.groups[g].scale
    for k in range(K):
        b[PLANE_U * K + k] += b[k]
        b[(PLANE_U + 1) * K + k] += b[k]
    m.counts[0] += 1.0
    m.counts[1] += 1.0


cdef inline int learn_row(Bank *m, const Row *row, const Row *later, double target,
                          Py_ssize_t label, double c, double largest, weight_t *v) noexcept nogil:
    """One example: DONE, or why nothing has changed."""
    cdef Py_ssize_t g, k, K = m.K
    cdef bint unpacked = False, steps = False, first
    cdef double total = 0.0
    cdef Group *group
    cdef double *b = m.b
    if K == 1 and not m.any_mirror and not m.header and not m.judging:
        m.f[0] = (m.groups[0].scale * (row.scale * dot_one(m, row, later, v)) + m.b[0])
    else:
        if not take_entries(m, row, v):
            return STEP_TOO_LARGE
        unpacked = True
        if later != NULL and K > 1:
            fetch(m, later, v)
            if m.judging:
                fetch(m, later, v + (PLANE_U + m.older) * K)
        score_all(m, m.f, v, c > 0.0)
        if m.judging:
            score_means(m, m.fa, v, c > 0.0)
    for g in range(m.n_groups):
        k = g * m.n_out
        if m.n_out == 1:
            m.value[g] = loss_value_xi(&m.loss, target, m.f[g], &m.xi[g])
        else:
            m.value[g] = mloss_value_xi(loss_of(m, &m.groups[g]), m.n_out, label, m.f + k, 1.0,
                                        m.xi + k)
        total += m.value[g]
    if not isfinite(total) or (K > 1 and not all_finite(m.f, K)):
        return NOT_FINITE
    if K == 1 and m.xi[0] == 0.0 and m.plain and not m.forgets:
        m.t += 1.0
        group = &m.groups[0]
        if group.reg > 0.0:
            shrink(group, m.t)
            if must_fold(group):
                fold(m, 0, v)
        if m.averaging and m.seen >= m.average_from:
            count_average(m, v)
        return DONE
    for k in range(K):
        steps |= m.xi[k] != 0.0
    steps &= c > 0.0
    if steps:
        if not fits(m, row, largest, c):
            return STEP_TOO_LARGE
        if not unpacked and not take_entries(m, row, v):
            return STEP_TOO_LARGE
    if m.error_kind == ERROR_ABSOLUTE and c > 0.0 and not can_see_target(m, target, c):
        return STEP_TOO_LARGE
    # from here on nothing fails
    m.t += 1.0
    if m.header and c > 0.0:
        m.sum_x += grow(m, v) + m.fit_intercept
    if m.error_kind == ERROR_ABSOLUTE and c > 0.0:
        first = m.target_weight == 0.0
        see_target(m, target, c)
        if first and m.fit_intercept:
            # the offset starts at the first target: no other weight has to get it there
            for k in range(K):
                if b[k] == 0.0 and not m.any_coin:
                    b[k] = target
                    steps = False
    for g in range(m.n_groups):
        group = &m.groups[g]
        if group.step.forget < 1.0:
            group.inflation /= group.step.forget
        if group.reg > 0.0 and not group.step.flags & STEP_ADAPTIVE_MIRROR:
            shrink(group, m.t)
        if must_fold(group):
            fold(m, g, v)
        if steps:
            if group.step.kind == STEP_COIN_BETTING:
                bet_group(m, group, g * m.n_out, c, v)
            else:
                step_group(m, group, g * m.n_out, target, label, c, m.value[g], v)
    if m.averaging and m.seen >= m.average_from:
        count_average(m, v)
    return DONE
