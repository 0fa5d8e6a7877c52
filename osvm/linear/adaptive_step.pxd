# Adaptive, implicit steps: rates per coordinate, and steps that never go beyond their example.
#
# Sources: Duchi, Hazan, Singer (2011) for the rates; Kulis, Bartlett (2010), Karampatziakis,
# Langford (2011) and Asi, Duchi (2019) for the step; Ross, Mineiro, Langford (2013) for the
# normalization; Orabona, Tommasi (2017) for coin betting.  One step on example (x, y) of weight
# c, with f = w.x + b and xi = dloss/df, where xi is not 0:
#
#     G_j  <- G_j + c xi^2 x_j^2                 the offset is a coordinate with x = 1
#     r_j   = eta0 / sqrt(G_j)
#     w_j  <- w_j - r_j delta x_j                delta = c dloss/df at f - q delta,
#                                                q = sum r_j x_j^2
#
# delta solves the proximal problem along diag(r), so that the score of the example does not pass
# the loss's minimum, and a weight of c is the limit of c copies.
#
# Settings, which may differ between groups of columns:
# - decoupled shrinkage: w = s v, s <- s (1 - reg eta0 / sqrt(t)); or the mirror form
#   w_j = theta_j r_j / (1 + reg t r_j), theta_j <- theta_j - delta x_j;
# - normalized: n_j is the largest |x_j| so far; r_j is divided by n_j and multiplied by sqrt(t/N),
#   N = sum_t sum_j x_j^2/n_j^2; w_j is multiplied by n_old/n_new when n_j grows;
# - explicit: delta = c xi, without a cap;
# - forget: G_j <- forget G_j before each example, by an inflating factor of what is added;
# - numbers (regression): rates are multiplied by the deviation of the targets so far, and the
#   offset starts at the first target, so that scaled and moved targets give the same answers;
# - coin betting, without a rate: with g = c xi x_j,
#   L <- max(L, |g|), A <- A + |g|, R <- max(R - g w, 0), theta <- theta - g,
#   w <- theta (L + R) / (L max(A + L, alpha L)).
#
# Memory: a feature's numbers lie side by side, [1/n] [v: K] [root: K] [u0: K] [u1: K] ...; a plane
# has an entry per column.  root is sqrt(G), 0 for a coordinate without a gradient; u0 and u1 are
# the accumulators of two windows of averages: the sum of w over window i is sum_i v - u_i, and
# u_i <- u_i + sum_i dv when v changes.  A tail average restarts the older window at 2^k examples.
# Windows that began together, as in a fit, are equal: u0 stands for both until they are read.
#
# Invariants
# - O(non-zeros) per example; where xi = 0 nothing is touched but a growing n_j;
# - a failed example has changed nothing;
# - a column's numbers do not depend on the other columns, nor on how a stream is cut.
from libc.math cimport fabs, isfinite, log, log1p, sqrt
from libc.stdint cimport int64_t

from osvm.core.loss cimport (
    LOSS_EPSILON_INSENSITIVE, LOSS_HINGE, LOSS_HUBER, LOSS_LOGISTIC, LOSS_MODIFIED_HUBER,
    LOSS_NOVELTY, LOSS_PERCEPTRON, LOSS_SQUARED, LOSS_SQUARED_HINGE, osvm_exp_down,
)
from osvm._c.row_loops cimport OSVM_APART, OSVM_PREFETCH
from osvm.core.step cimport STEP_ADAPTIVE_MIRROR, STEP_ADAPTIVE_NORMALIZED
from osvm.core.typedefs cimport (
    Loss, Step, float32_t, float64_t, index_t, value_t, weight_t,
)

cdef extern from "../_c/adaptive.h" nogil:
    double osvm_rates_f32(const float *x, float *h, float *r, Py_ssize_t n, double root)
    double osvm_rates_f64(const double *x, double *h, double *r, Py_ssize_t n, double root)
    enum: OSVM_LANES
    void osvm_raise_f32(const float *x, const int64_t *at, Py_ssize_t n, float *h, Py_ssize_t K,
                        const float *root, float *sums)
    void osvm_raise_f64(const double *x, const int64_t *at, Py_ssize_t n, double *h, Py_ssize_t K,
                        const double *root, double *sums)
    void osvm_move_f32(const float *x, const int64_t *at, Py_ssize_t n, float *v, Py_ssize_t K,
                       Py_ssize_t stride, const float *c, const float *still, int windows,
                       float s0, float s1)
    void osvm_move_f64(const double *x, const int64_t *at, Py_ssize_t n, double *v, Py_ssize_t K,
                       Py_ssize_t stride, const double *c, const double *still, int windows,
                       double s0, double s1)
    void osvm_scores_f32(const float *x, const int64_t *at, Py_ssize_t n, const float *v,
                         Py_ssize_t K, float *f)
    void osvm_scores_f64(const double *x, const int64_t *at, Py_ssize_t n, const double *v,
                         Py_ssize_t K, double *f)

cdef enum Plane:
    PLANE_V = 0         # v; theta of the mirror form; w of coin betting
    PLANE_ROOT = 1      # sqrt(G); theta of coin betting
    PLANE_U = 2         # two windows, where there is an average


# A setting, and what its columns share.
cdef struct Group:
    Step step
    bint joint              # of several classes: learns with the bank's joint loss
    double reg
    double scale            # s
    double inflation        # forget^-t, since the last fold
    double sums[2]          # of s over the two windows

# An example's entries: where the numbers of its feature begin, and its value.
cdef struct Entries:
    Py_ssize_t n
    int64_t *at
    void *x             # weight_t
    void *root          # weight_t: roots of the column at hand, not in place yet,
    void *rate          # and 1 / root


# ------------------------------------------------------------------ the implicit step

cdef inline double logistic_delta(double y, double f, double q, double c) noexcept nogil:
    """delta = -c y / (1 + exp(y (f - q delta))), by Newton's method within a bracket.

    By how much the margin z = y f grows, m = q |delta|, solves
    log m + log(1 + exp(z + m)) = log(c q), which is almost straight wherever the root is.
    """
    cdef double z = y * f, low = 0.0, high, m, e, p, target, excess, new
    cdef int _n
    e = osvm_exp_down(-fabs(z))
    p = (e if z > 0.0 else 1.0) / (1.0 + e)
    high = c * q * p
    if high < 1e-12:                # the slope hardly changes on the way
        return -y * c * p
    target = log(c * q)
    m = target - z
    m = m - log(m) if m > 1.0 else high
    if not m < high:
        m = high
    for _n in range(50):
        e = osvm_exp_down(-fabs(z + m))
        p = (1.0 if z + m > 0.0 else e) / (1.0 + e)     # the slope of log(1 + exp)
        excess = log(m) + log1p(e) + (z + m if z + m > 0.0 else 0.0) - target
        if excess > 0.0:
            high = m
        else:
            low = m
        new = m - excess / (1.0 / m + p)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if fabs(new - m) <= 1e-8 * m:      # the next one would be within its square
            m = new
            break
        m = new
    return -y * (m / q)


cdef inline double implicit_delta(const Loss *loss, double y, double f, double q, double c,
                                  double value, double xi) noexcept nogil:
    """The delta of one output; `value` and `xi` are those at f, xi is not 0."""
    cdef int kind = loss.kind
    cdef double r, most
    if kind == LOSS_HINGE or kind == LOSS_NOVELTY or kind == LOSS_EPSILON_INSENSITIVE:
        return xi * (c if c * q <= value else value / q)
    if kind == LOSS_SQUARED:
        return c * xi / (1.0 + c * q)
    if kind == LOSS_SQUARED_HINGE:
        return c * xi / (1.0 + 2.0 * c * q)
    if kind == LOSS_LOGISTIC:
        return logistic_delta(y, f, q, c)
    if kind == LOSS_HUBER:
        r = (f - y) / (1.0 + c * q)
        most = loss.p0
        return c * (r if fabs(r) <= most else (most if r > 0.0 else -most))
    if kind == LOSS_MODIFIED_HUBER:
        r = (1.0 - y * f) / (1.0 + 2.0 * c * q)
        return -y * c * (2.0 * r if r <= 2.0 else 4.0)
    if kind == LOSS_PERCEPTRON:
        return c * xi           # its minimum is where a mistake ends: there is nothing to cap
    # custom: no further than where the tangent is 0, which a loss >= 0 does not pass
    most = value / (q * xi * xi) if value > 0.0 else 0.0
    return xi * (c if c * q * xi * xi <= value else most)


cdef inline double joint_tau(double q, double c, double value) noexcept nogil:
    """delta_k = this times xi_k for the hinges of several outputs; q is the sum over both."""
    return c if c * q <= value else value / q


cdef inline double softmax_tau(double q, double c) noexcept nogil:
    """The same for softmax and one output: its curvature is at most 1/2."""
    return c / (1.0 + 0.5 * c * q)


# ------------------------------------------------------------------ one column, typed rows

cdef inline double strided_dot(const value_t *x, Py_ssize_t step, const index_t *j, Py_ssize_t n,
                               const weight_t *v, Py_ssize_t stride, const value_t *next_x,
                               const index_t *next_j) noexcept nogil:
    """x . v, where the weights lie `stride` apart; j is NULL for a dense row.

    On the way another row's arrays are asked for, unless next_x is NULL.
    """
    cdef weight_t a0 = 0, a1 = 0, a2 = 0, a3 = 0
    cdef Py_ssize_t k = 0
    if j == NULL:
        while k < n:
            a0 += <weight_t> x[k * step] * v[k * stride]
            k += 1
        return <double> a0
    if next_x != NULL:
        while k + 4 <= n:
            OSVM_PREFETCH(next_x + k)
            OSVM_PREFETCH(next_j + k)
            a0 += <weight_t> x[k] * v[j[k] * stride]
            a1 += <weight_t> x[k + 1] * v[j[k + 1] * stride]
            a2 += <weight_t> x[k + 2] * v[j[k + 2] * stride]
            a3 += <weight_t> x[k + 3] * v[j[k + 3] * stride]
            OSVM_APART(a0)
            OSVM_APART(a1)
            OSVM_APART(a2)
            OSVM_APART(a3)
            k += 4
        OSVM_PREFETCH(next_x + k)
        OSVM_PREFETCH(next_j + k)
    else:
        while k + 4 <= n:
            a0 += <weight_t> x[k] * v[j[k] * stride]
            a1 += <weight_t> x[k + 1] * v[j[k + 1] * stride]
            a2 += <weight_t> x[k + 2] * v[j[k + 2] * stride]
            a3 += <weight_t> x[k + 3] * v[j[k + 3] * stride]
            OSVM_APART(a0)
            OSVM_APART(a1)
            OSVM_APART(a2)
            OSVM_APART(a3)
            k += 4
    while k < n:
        a0 += <weight_t> x[k] * v[j[k] * stride]
        k += 1
    return <double> ((a0 + a1) + (a2 + a3))


cdef inline void unpack(const value_t *x, Py_ssize_t step, const index_t *j, Py_ssize_t n,
                        double scale, Py_ssize_t stride, Entries *out,
                        weight_t *values) noexcept nogil:
    """The entries of a row; `values` are those of `out`."""
    cdef Py_ssize_t k
    cdef int64_t *at = out.at
    if j == NULL:
        for k in range(n):
            at[k] = k * stride
            values[k] = <weight_t> (scale * x[k * step])
    elif scale == 1.0:
        for k in range(n):
            at[k] = j[k] * stride
            values[k] = <weight_t> x[k]
    else:
        for k in range(n):
            at[k] = j[k] * stride
            values[k] = <weight_t> (scale * x[k])
    out.n = n


cdef inline void add_repeated(Entries *row, weight_t *values, Py_ssize_t stride,
                              double *zeros) noexcept nogil:
    """Repeated columns become one entry; `zeros` are as many as features, and stay zeros."""
    cdef Py_ssize_t k, j, m = 0
    for k in range(row.n):
        zeros[row.at[k] // stride] += values[k]
    for k in range(row.n):
        j = row.at[k] // stride
        if zeros[j] != 0.0:
            row.at[m], values[m] = row.at[k], <weight_t> zeros[j]
            zeros[j] = 0.0
            m += 1
    row.n = m


# ------------------------------------------------------------------ columns and entries
# `at` of an entry leads from the numbers of feature 0 to those of its own: v of a column,
# its root K further on, its windows 2 K and 3 K.  `inverse` (or NULL) leads to 1/n.

cdef inline void dot_columns(const Entries *row, const weight_t *v, Py_ssize_t K,
                             weight_t *work) noexcept nogil:
    """work[k] = x . v_k"""
    if weight_t is float32_t:
        osvm_scores_f32(<const float32_t *> row.x, row.at, row.n, v, K, work)
    else:
        osvm_scores_f64(<const float64_t *> row.x, row.at, row.n, v, K, work)


cdef inline double mirror_weight(double theta, double root, double e, double pull) noexcept nogil:
    """theta r / (1 + reg t r), r = e / root; `pull` is reg t."""
    return bounded_weight(theta * e / (root + pull * e), 1e150) if root > 0.0 else 0.0


cdef inline double bounded_weight(double w, double most) noexcept nogil:
    """w within its bounds, which only made-up numbers exceed."""
    return most if w > most else (-most if w < -most else w)


cdef inline double raise_rates(const Entries *row, const weight_t *roots,
                               double root) noexcept nogil:
    """The entries' rates after (root x)^2 was added to the squared gradients, in `row`; the
    sum of rate x^2.
    """
    cdef Py_ssize_t i
    cdef weight_t *h = <weight_t *> row.root
    cdef const int64_t *at = row.at
    for i in range(row.n):
        h[i] = roots[at[i]]
    if weight_t is float32_t:
        return osvm_rates_f32(<const float32_t *> row.x, h, <float32_t *> row.rate, row.n, root)
    else:
        return osvm_rates_f64(<const float64_t *> row.x, h, <float64_t *> row.rate, row.n, root)


cdef inline void raise_columns(const Entries *row, weight_t *roots, Py_ssize_t K,
                               const double *a, double *q, weight_t *work) noexcept nogil:
    """`raise_rates` of K columns side by side, in place; a is 0 for those without a step.

    `work` has room for (4 + OSVM_LANES) K numbers, of which the first 4 K stay as they are
    for `move_columns`.
    """
    cdef Py_ssize_t k, m
    cdef weight_t *sums = work + 4 * K
    for k in range(K):
        work[k] = <weight_t> a[k]
        if weight_t is float32_t:
            work[K + k] = <weight_t> (1e-36 if a[k] > 0.0 else 0.0)
        else:
            work[K + k] = 1e-280 if a[k] > 0.0 else 0.0
        work[2 * K + k] = 0.0 if a[k] > 0.0 else 1.0
    for k in range(OSVM_LANES * K):
        sums[k] = 0
    if weight_t is float32_t:
        osvm_raise_f32(<const float32_t *> row.x, row.at, row.n, roots, K, work, sums)
    else:
        osvm_raise_f64(<const float64_t *> row.x, row.at, row.n, roots, K, work, sums)
    for k in range(K):
        q[k] = 0.0
        for m in range(OSVM_LANES):
            q[k] += sums[m * K + k]


cdef inline void move_columns(const Entries *row, weight_t *v, Py_ssize_t K, Py_ssize_t stride,
                              const double *c, int windows, const double *sums,
                              weight_t *work) noexcept nogil:
    """v += c rate x for K columns after `raise_columns`; c is 0 for those without a step."""
    cdef Py_ssize_t k
    cdef weight_t *c_ = work + 3 * K
    for k in range(K):
        c_[k] = <weight_t> c[k]
    if weight_t is float32_t:
        osvm_move_f32(<const float32_t *> row.x, row.at, row.n, v, K, stride, c_, work + 2 * K,
                      windows, <float32_t> sums[0], <float32_t> sums[1])
    else:
        osvm_move_f64(<const float64_t *> row.x, row.at, row.n, v, K, stride, c_, work + 2 * K,
                      windows, sums[0], sums[1])


cdef inline void prefetch_cells(const index_t *j, Py_ssize_t n, const char *v, Py_ssize_t stride,
                                Py_ssize_t size) noexcept nogil:
    """Ask for `size` bytes of each column's numbers, which lie `stride` bytes apart."""
    cdef Py_ssize_t i, k
    for i in range(n):
        for k in range(0, size - 63, 64):       # cache lines
            OSVM_PREFETCH(v + j[i] * stride + k)
        OSVM_PREFETCH(v + j[i] * stride + size - 1)


cdef inline double normalized_sum(const Entries *row, const weight_t *inverse) noexcept nogil:
    """The sum of rate x^2 / n."""
    cdef Py_ssize_t i
    cdef const weight_t *rate = <const weight_t *> row.rate
    cdef const weight_t *x = <const weight_t *> row.x
    cdef double q = 0.0
    for i in range(row.n):
        q += <double> rate[i] * x[i] * x[i] * inverse[row.at[i]]
    return q


cdef inline double mirror_sum(const Entries *row, const weight_t *inverse, double e,
                              double pull) noexcept nogil:
    """The sum of r/(1 + pull r) x^2, r = e rate (/ n)."""
    cdef Py_ssize_t i
    cdef const weight_t *rate = <const weight_t *> row.rate
    cdef const weight_t *x = <const weight_t *> row.x
    cdef double r, q = 0.0
    for i in range(row.n):
        r = e * rate[i]
        if inverse != NULL:
            r *= inverse[row.at[i]]
        q += r / (1.0 + pull * r) * x[i] * x[i]
    return q


cdef inline void keep_roots(const Entries *row, weight_t *roots) noexcept nogil:
    """Put `row.root` in place."""
    cdef Py_ssize_t i
    cdef const weight_t *root = <const weight_t *> row.root
    for i in range(row.n):
        roots[row.at[i]] = root[i]


cdef inline void move_weights(const Entries *row, weight_t *v, Py_ssize_t K,
                              const weight_t *inverse, double c, int windows,
                              const double *sums) noexcept nogil:
    """v += c rate x, and what the first windows need; `row.root` is put in place."""
    cdef Py_ssize_t i
    cdef const weight_t *rate = <const weight_t *> row.rate
    cdef const weight_t *root = <const weight_t *> row.root
    cdef const weight_t *x = <const weight_t *> row.x
    cdef const int64_t *at = row.at
    cdef weight_t move, c_ = <weight_t> c, s0 = <weight_t> sums[0], s1 = <weight_t> sums[1]
    cdef weight_t *place
    if not windows and inverse == NULL:
        for i in range(row.n):
            place = v + at[i]
            place[0] += c_ * rate[i] * x[i]
            place[K] = root[i]
        return
    for i in range(row.n):
        place = v + at[i]
        move = c_ * rate[i] * x[i]
        if inverse != NULL:
            move *= inverse[at[i]]
        place[0] += move
        place[K] = root[i]
        if windows:
            place[2 * K] += s0 * move
            if windows > 1:
                place[3 * K] += s1 * move


cdef inline void move_thetas(const Entries *row, weight_t *theta, Py_ssize_t K, double c,
                             bint averaged, const double *sums) noexcept nogil:
    """theta += c x, and what the windows need; `row.root` is put in place."""
    cdef Py_ssize_t i
    cdef const weight_t *root = <const weight_t *> row.root
    cdef const weight_t *x = <const weight_t *> row.x
    cdef double move
    cdef weight_t *place
    for i in range(row.n):
        place = theta + row.at[i]
        move = c * x[i]
        place[0] += <weight_t> move
        place[K] = root[i]
        if averaged:
            place[2 * K] += <weight_t> (sums[0] * move)
            place[3 * K] += <weight_t> (sums[1] * move)


cdef inline double bet(weight_t *cell, Py_ssize_t K, Py_ssize_t last, double g,
                       double alpha) noexcept nogil:
    """The bet of one coordinate after the gradient g; how far w moves."""
    cdef weight_t *rest = cell + last           # L, A, R
    cdef double w = cell[0], theta = cell[K] - g, size = fabs(g), reward, new
    cdef double L = <weight_t> (rest[0] if rest[0] > size else size)  # may be 0 in float32
    if not L > 0.0:
        return 0.0
    reward = rest[2 * K] - g * w
    rest[0] = <weight_t> L
    rest[K] += <weight_t> size
    if weight_t is float32_t:
        reward = bounded_weight(reward, 1e35)
    else:
        reward = bounded_weight(reward, 1e150)
    rest[2 * K] = <weight_t> (reward if reward > 0.0 else 0.0)
    cell[K] = <weight_t> theta
    L = rest[0]
    new = rest[K] + L
    # ratios, as products of numbers around 1e-300 would be 0
    new = theta / (new if new > alpha * L else alpha * L) * ((L + rest[2 * K]) / L)
    if weight_t is float32_t:
        cell[0] = <weight_t> bounded_weight(new, 1e35)
    else:
        cell[0] = bounded_weight(new, 1e150)
    return cell[0] - w


cdef inline double size_ratio(double x, double inverse) noexcept nogil:
    """|x|/n; an inverse of 0 is that of a feature that was always 0."""
    if inverse > 0.0:
        return fabs(x) * inverse
    return 1e300 if x != 0.0 else 0.0


cdef inline bint grows(double a) noexcept nogil:
    """Whether n_j grows, where a is |x_j|/n_j; roundings do not count."""
    return a > 1.0 + 1e-6


cdef inline bint rescales(const Group *group) noexcept nogil:
    """Whether weights are multiplied by n_old/n_new; in the mirror form the rates do that."""
    cdef int flags = group.step.flags
    return (flags & STEP_ADAPTIVE_NORMALIZED) and not flags & STEP_ADAPTIVE_MIRROR


cdef inline bint all_finite(const double *f, Py_ssize_t K) noexcept nogil:
    cdef Py_ssize_t k
    cdef bint good = True
    for k in range(K):
        good &= isfinite(f[k]) != 0
    return good
