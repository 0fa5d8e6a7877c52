# Dual coordinate ascent on one binary problem: the loops over examples.
#
# Follows Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent
# method for large-scale linear SVM" (ICML 2008): exact steps on one dual variable
# at a time, shrinking by projected gradients.  Besides, a row at a bound that a visit
# found content rests for one epoch, after further such visits for three: measured on
# text this saves 20-30 % of the visits down to a gap of 0.1 %.
#
# The primal problem is reg times
#
#     1/2 ||w||^2 + sum_i U_i loss(1 - y_i f_i),   f_i = w.x_i + b,   U_i = c_i / (reg n)
#
# with loss(m) = max(0, m) (hinge) or max(0, m)^2 (squared hinge), and its dual is
#
#     max  sum_i alpha_i - 1/2 ||w||^2 - sum_i alpha_i^2 / (4 U_i) [squared hinge only]
#     with w = sum_i alpha_i y_i x_i,   0 <= alpha_i  (<= U_i, hinge only).
#
# An offset without a penalty adds the condition r = sum_i alpha_i y_i = 0, which no
# single variable can keep.  It is met by the method of multipliers: b = center +
# bias_sq r, and the center moves to b after each epoch, so that b stops only where
# r = 0.  A center that stays at 0 is the constant feature sqrt(bias_sq) with a
# penalised weight.  A full pass replaces b by the exact minimizer for its w.
#
# Invariants
# - w = sum alpha_i y_i x_i, r, b and the dual value hold after every step (to
#   rounding; `dual_check` sums the values afresh);
# - a row's own gap, U loss(m) - alpha m (+ alpha^2 / 4U), is never negative, and the
#   duality gap is their sum: the visits of an epoch estimate it for nothing;
# - rows may repeat columns: their norm is then taken from the summed row.
from libc.math cimport INFINITY, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t

from osvm.core.dual cimport dual_curvature, dual_gap, dual_gradient, dual_projected, dual_step
from osvm.core.row cimport row_axpy, row_dot, row_dot_ahead
from osvm.core.rows cimport OSVM_PREFETCH, row_index, row_is_sorted, rows_get, rows_prefetch_start
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_I32, WEIGHT_F32, Row, Rows, float32_t,
    float64_t, index_t, value_t, weight_t,
)

cdef enum:
    BLOCK = 64              # rows that lie side by side
    WINDOW = 1024           # rows that are permuted together: 16 blocks
    AHEAD = 4               # rows between a prefetch and the use
    RING = 8                # rows looked up and not used yet; a power of two above AHEAD
    MAX_QUIET = 2           # rest at most 2^2 - 1 epochs

cdef struct Dual:
    const Rows *X
    const signed char *y    # -1, +1
    const double *weight    # c_i, or NULL: all 1
    double *alpha
    float *sq               # ||x_i||^2; negative: not known yet
    unsigned char *idle     # 1: shrunk in this epoch
    unsigned char *quiet    # visits in a row that found nothing to do, up to MAX_QUIET
    unsigned char *rest     # epochs to leave the row alone
    void *w                 # the weights, scale 1
    double *scratch         # n_features zeros
    double *f               # w.x_i by the last full pass, where the offset has no penalty
    int kind                # a WeightKind
    int squared             # squared hinge
    int shrinking
    double cap              # 1 / (reg n)
    double bias_sq          # B^2; 0: no offset
    double center
    double b                # center + bias_sq r
    double r                # sum alpha_i y_i
    double value            # the dual objective, divided by reg
    double upper            # shrink alpha = 0 when its gradient is above
    double lower            # shrink alpha = U when its gradient is below
    # of the epoch so far
    double pg_max
    double pg_min
    double gap
    Py_ssize_t n_idle
    Py_ssize_t bad_row      # -1, or the row where a number stopped being finite


# What a full pass over the rows finds, divided by reg.
cdef struct DualCheck:
    double primal
    double dual
    double loss             # sum U_i loss_i
    double sum_alpha        # less alpha^2 / 4U for the squared hinge
    double sum_plus         # alpha of the rows with y = +1
    double sum_minus
    double excess_cross     # w . w_e, w_e the part of w from the heavier class
    double excess_sum       # the heavier class's share of sum_alpha
    double excess_quad      # its alpha^2 / 4U
    Py_ssize_t n_active


# ---------------------------------------------------------------- order

cdef inline uint64_t random_next(uint64_t *state) noexcept nogil:
    """splitmix64"""
    cdef uint64_t z
    state[0] += <uint64_t> 0x9E3779B97F4A7C15
    z = state[0]
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline Py_ssize_t random_below(uint64_t *state, Py_ssize_t n) noexcept nogil:
    """0 .. n - 1, for n below 2^32"""
    return <Py_ssize_t> (((random_next(state) >> 32) * <uint64_t> n) >> 32)


cdef inline void shuffle32(int32_t *a, Py_ssize_t n, uint64_t *state) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef int32_t t
    for i in range(n - 1, 0, -1):
        j = random_below(state, i + 1)
        t = a[i]
        a[i] = a[j]
        a[j] = t


cdef inline void shuffle64(int64_t *a, Py_ssize_t n, uint64_t *state) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef int64_t t
    for i in range(n - 1, 0, -1):
        j = random_below(state, i + 1)
        t = a[i]
        a[i] = a[j]
        a[j] = t


cdef inline Py_ssize_t fill_window(const int64_t *active, Py_ssize_t n_active,
                                   const int32_t *blocks, Py_ssize_t n_blocks,
                                   Py_ssize_t first, bint shuffle, unsigned char *rest,
                                   int64_t *window, uint64_t *state) noexcept nogil:
    """The rows of blocks first .. first + 15 that do not rest, permuted; their number."""
    cdef Py_ssize_t k, start, stop, i, n = 0
    for k in range(first, min(first + WINDOW // BLOCK, n_blocks)):
        start = <Py_ssize_t> blocks[k] * BLOCK
        stop = min(start + BLOCK, n_active)
        for i in range(start, stop):
            if rest[active[i]]:
                rest[active[i]] -= 1
            else:
                window[n] = active[i]
                n += 1
    if shuffle:
        shuffle64(window, n, state)
    return n


cdef inline Py_ssize_t drop_idle(int64_t *active, Py_ssize_t n_active,
                                 const unsigned char *idle) noexcept nogil:
    """Keep the rows that are not idle, in order; their number."""
    cdef Py_ssize_t k, n = 0
    for k in range(n_active):
        active[n] = active[k]
        n += not idle[active[k]]
    return n


# ---------------------------------------------------------------- norms

cdef inline double sum_of_squares(const value_t *x, Py_ssize_t step, Py_ssize_t n) noexcept nogil:
    """Four running sums, because one would wait for each addition to finish."""
    cdef double a0 = 0.0, a1 = 0.0, a2 = 0.0, a3 = 0.0
    cdef Py_ssize_t k = 0
    if step == 1:
        while k + 4 <= n:
            a0 += <double> x[k] * <double> x[k]
            a1 += <double> x[k + 1] * <double> x[k + 1]
            a2 += <double> x[k + 2] * <double> x[k + 2]
            a3 += <double> x[k + 3] * <double> x[k + 3]
            k += 4
    while k < n:
        a0 += <double> x[k * step] * <double> x[k * step]
        k += 1
    return (a0 + a1) + (a2 + a3)


cdef inline double plain_sq_norm(const Row *x) noexcept nogil:
    """||x||^2 of a row whose columns do not repeat."""
    if x.kind == ROW_F32_I32 or x.kind == ROW_F32_I64 or x.kind == ROW_F32_DENSE:
        return x.scale * x.scale * sum_of_squares(<const float32_t *> x.values, x.step, x.count)
    return x.scale * x.scale * sum_of_squares(<const float64_t *> x.values, x.step, x.count)


cdef inline double full_sq_norm(const Row *x, double *scratch) noexcept nogil:
    """||x||^2, also where columns repeat; `scratch` holds zeros before and after."""
    cdef double total
    cdef Py_ssize_t k
    if row_is_sorted(x):
        return plain_sq_norm(x)
    row_axpy(x, 1.0, scratch)
    total = 0.0
    for k in range(x.count):
        total += scratch[row_index(x, k)] * scratch[row_index(x, k)]
        scratch[row_index(x, k)] = 0.0
    return total


# ---------------------------------------------------------------- one visit

cdef inline void dual_visit(Dual *p, Py_ssize_t i, const Row *x, const Row *later,
                            weight_t *w) noexcept nogil:
    """The exact step on alpha_i, or its retirement from the active rows; fetches `later`."""
    cdef double U = p.cap if p.weight == NULL else p.cap * p.weight[i]
    cdef double y = p.y[i], alpha = p.alpha[i]
    cdef double m, gradient, pg, q, new, change
    if U == 0.0:
        if p.shrinking:
            p.idle[i] = 1
            p.n_idle += 1
        return
    m = 1.0 - y * (row_dot_ahead(x, w, later) + p.b)
    gradient = dual_gradient(m, alpha, U, p.squared)
    p.gap += dual_gap(m, alpha, U, p.squared)
    if p.shrinking and ((alpha == 0.0 and gradient > p.upper) or (
            alpha == U and not p.squared and gradient < p.lower)):
        p.idle[i] = 1
        p.n_idle += 1
        return
    pg = dual_projected(gradient, alpha, U, p.squared)
    if pg > p.pg_max:
        p.pg_max = pg
    if pg < p.pg_min:
        p.pg_min = pg
    if pg == 0.0:
        if p.shrinking:
            if p.quiet[i] < MAX_QUIET:
                p.quiet[i] += 1
            p.rest[i] = (1 << p.quiet[i]) - 1
        return
    p.quiet[i] = 0
    if p.sq[i] < 0.0:
        p.sq[i] = <float> full_sq_norm(x, p.scratch)
    q = dual_curvature(p.sq[i] + p.bias_sq, U, p.squared)
    new = dual_step(gradient, alpha, q, U, p.squared)
    change = new - alpha
    if not (isfinite(gradient) and isfinite(q)):
        p.bad_row = i
        return
    if change == 0.0:
        return
    p.alpha[i] = new
    p.value -= change * (gradient + 0.5 * q * change)
    row_axpy(x, change * y, w)
    p.r += change * y
    p.b += p.bias_sq * change * y


cdef inline void dual_visits_of(Dual *p, const int64_t *order, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t n, weight_t *w) noexcept nogil:
    cdef Py_ssize_t k, i
    cdef Row ring[RING]
    cdef Row *later
    for k in range(start, min(start + AHEAD, n)):
        rows_get(p.X, order[k], &ring[k & (RING - 1)])
    for k in range(start, stop):
        later = &ring[k & (RING - 1)]
        if k + 2 * AHEAD < n:
            i = order[k + 2 * AHEAD]
            rows_prefetch_start(p.X, i)
            OSVM_PREFETCH(p.alpha + i)
            OSVM_PREFETCH(p.sq + i)
        if k + AHEAD < n:
            later = &ring[(k + AHEAD) & (RING - 1)]
            rows_get(p.X, order[k + AHEAD], later)
        dual_visit(p, order[k], &ring[k & (RING - 1)], later, w)
        if p.bad_row >= 0:
            return


cdef inline void dual_visits(Dual *p, const int64_t *order, Py_ssize_t start, Py_ssize_t stop,
                             Py_ssize_t n) noexcept nogil:
    """Visit order[start:stop]; the rows up to order[n - 1] come next."""
    if p.kind == WEIGHT_F32:
        dual_visits_of(p, order, start, stop, n, <float32_t *> p.w)
    else:
        dual_visits_of(p, order, start, stop, n, <float64_t *> p.w)


cdef inline void dual_start_epoch(Dual *p) noexcept nogil:
    p.pg_max = -INFINITY
    p.pg_min = INFINITY
    p.gap = 0.0
    p.n_idle = 0


cdef inline void dual_move_center(Dual *p) noexcept nogil:
    """The multiplier step: center <- b."""
    cdef double move = p.b - p.center
    p.center += move
    p.b += move
    p.value -= p.r * move


# ---------------------------------------------------------------- a full pass

cdef inline void dual_check_rows(Dual *p, Py_ssize_t start, Py_ssize_t stop, int excess,
                                 int64_t *active, DualCheck *c) noexcept nogil:
    """Add rows start .. stop - 1 to the sums, and to the active rows those that count.

    `excess` is the label (-1, +1) of the class with the larger sum of alpha when the
    offset has no penalty, else 0; w_e is then collected in `scratch`.
    """
    cdef Py_ssize_t i
    cdef Row x
    cdef double U, y, alpha, f, m, gradient, quad
    for i in range(start, stop):
        U = p.cap if p.weight == NULL else p.cap * p.weight[i]
        if U == 0.0:
            continue
        y = p.y[i]
        alpha = p.alpha[i]
        rows_get(p.X, i, &x)        # in file order the processor fetches by itself
        if p.kind == WEIGHT_F32:
            f = row_dot(&x, <const float32_t *> p.w)
        else:
            f = row_dot(&x, <const float64_t *> p.w)
        if p.f != NULL:
            p.f[i] = f
        m = 1.0 - y * (f + p.b)
        if not isfinite(m):
            p.bad_row = i
            return
        gradient = dual_gradient(m, alpha, U, p.squared)
        quad = 0.0
        if p.squared:
            quad = alpha * alpha / (4.0 * U)
            if m > 0.0:
                c.loss += U * m * m
        elif m > 0.0:
            c.loss += U * m
        c.sum_alpha += alpha - quad
        if y > 0.0:
            c.sum_plus += alpha
        else:
            c.sum_minus += alpha
        if excess == y and alpha != 0.0:
            c.excess_cross += alpha * y * f
            c.excess_sum += alpha
            c.excess_quad += quad
            row_axpy(&x, alpha * y, p.scratch)
        if p.shrinking and ((alpha == 0.0 and gradient > p.upper) or (
                alpha == U and not p.squared and gradient < p.lower)):
            continue
        p.idle[i] = p.quiet[i] = p.rest[i] = 0
        active[c.n_active] = i
        c.n_active += 1
