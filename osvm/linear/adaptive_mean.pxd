# Merging of adaptive learners, number by number; equations and invariants: adaptive_merging.py.
#
# Everything is added up in float64: `Sums` of each merged number, one part after the other, then
# `finish` makes the numbers of the merged learner from them and from the base.
from libc.math cimport sqrt

from osvm.linear.adaptive_step cimport PLANE_ROOT, PLANE_U
from osvm.core.typedefs cimport weight_t

cdef enum:
    OF_OLD = 0              # rows of what tells how a learner's columns are read (`Columns`)
    OF_SIGN = 1
    OF_SCALE = 2
    OF_INFLATION = 3
    OF_SUMS = 4             # and 5

# A learner's columns as those of the merged one, and where its numbers are in a cell.
cdef struct Columns:
    const double *of        # 6 x n; OF_OLD is -1 for a column that it has not
    Py_ssize_t n            # of the merged learner
    Py_ssize_t K, header    # of its own, and numbers before them in a cell
    int n_windows           # that are read; 0 while they rest
    int bets                # the plane where L, A and R of bets begin, or 0
    double u_sign           # -1 where a window holds u, 1 where it holds the sum itself (offsets)

# What a cell says: w, G, the sums of both windows; of bets L, A (as G), R, theta.
cdef struct Numbers:
    double w, G, L, R, theta
    double S[2]

# Of one number: the weights of the parts, and what they have moved by.
cdef struct Sums:
    double weight, w, G, R, theta, L
    double S[2]

# A part: its share, rows, and for both roles (the older window first) which window it is, its
# new iterates, and whether the base's are among them.
cdef struct Part:
    double share, factor, nothing
    int at[2]
    double count[2]
    bint goes_on[2]


cdef inline void read_numbers(const weight_t *cell, const Columns *columns, Py_ssize_t c,
                              Numbers *out) noexcept nogil:
    """The numbers of column c of the merged learner; zeros where the learner has none."""
    cdef const double *of = columns.of + c
    cdef Py_ssize_t n = columns.n, K = columns.K, k = <Py_ssize_t> of[OF_OLD * n]
    cdef double sign = of[OF_SIGN * n], v, root
    cdef int window
    out.w = out.G = out.L = out.R = out.theta = out.S[0] = out.S[1] = 0.0
    if k < 0:
        return
    v, root = cell[k] * sign, cell[PLANE_ROOT * K + k]
    out.w = of[OF_SCALE * n] * v
    if columns.bets:
        out.L, out.G = cell[columns.bets * K + k], cell[(columns.bets + 1) * K + k]
        out.R, out.theta = cell[(columns.bets + 2) * K + k], root * sign
    else:
        out.G = root * root
        if of[OF_INFLATION * n] != 1.0:
            out.G /= of[OF_INFLATION * n]
    for window in range(columns.n_windows):
        out.S[window] = (of[(OF_SUMS + window) * n] * v
                         + columns.u_sign * (cell[(PLANE_U + window) * K + k] * sign))


cdef inline void add_numbers(Sums *sums, const Numbers *one, const Numbers *base,
                             const Part *part, bint by_share, int n_windows,
                             bint bets) noexcept nogil:
    """Each number by what the part has learnt of it."""
    cdef double learnt = one.G - base.G, mean
    cdef double weight = (learnt if learnt > 0.0 else 0.0) * part.factor + part.nothing
    cdef double times = 1.0
    cdef int role, at
    if by_share:
        weight = times = part.share
    sums.weight += weight
    sums.w += weight * (one.w - base.w)
    sums.G += learnt * times
    for role in range(n_windows):
        at = part.at[role]
        if part.count[role] > 0.0:
            mean = one.S[at] - base.S[at] if part.goes_on[role] else one.S[at]
            sums.S[role] += weight * (mean / part.count[role])
        else:
            sums.S[role] += weight * one.w
    if bets:
        sums.theta += (one.theta - base.theta) * times
        sums.R += weight * (one.R - base.R)
        sums.L = one.L if one.L > sums.L else sums.L


cdef inline void add_cells(Sums *sums, Py_ssize_t n_rows, const weight_t *cells,
                           Py_ssize_t stride, const Columns *columns, const weight_t *base,
                           Py_ssize_t base_stride, const Columns *base_columns,
                           const Part *part, const unsigned char *by_share) noexcept nogil:
    """Add the cells of a part; `base` may be NULL."""
    cdef Py_ssize_t i, c
    cdef Numbers one, start
    start.w = start.G = start.L = start.R = start.theta = start.S[0] = start.S[1] = 0.0
    for i in range(n_rows):
        for c in range(columns.n):
            read_numbers(cells + i * stride + columns.header, columns, c, &one)
            if base != NULL:
                read_numbers(base + i * base_stride + base_columns.header, base_columns, c, &start)
            add_numbers(&sums[i * columns.n + c], &one, &start, part, by_share[c],
                        columns.n_windows, columns.bets != 0)


cdef inline void finish_cells(const Sums *sums, Py_ssize_t n_rows, const weight_t *base,
                              Py_ssize_t base_stride, const Columns *base_columns,
                              weight_t *out, Py_ssize_t stride, const Columns *columns,
                              const int *stays, const double *counts, const int *slots,
                              double alpha) noexcept nogil:
    """The merged cells.

    `stays` tells for both roles which window of the base stays in it (or -1), `counts` how many
    iterates are new, `slots` which window it becomes.
    """
    cdef Py_ssize_t i, c, n = columns.n
    cdef Numbers start
    cdef const Sums *s
    cdef weight_t *cell
    cdef double G, L, R, most, total
    cdef int role
    start.w = start.G = start.L = start.R = start.theta = start.S[0] = start.S[1] = 0.0
    for i in range(n_rows):
        for c in range(n):
            s = &sums[i * n + c]
            cell = out + i * stride + columns.header + c
            if base != NULL:
                read_numbers(base + i * base_stride + base_columns.header, base_columns, c, &start)
            G = start.G + s.G
            G = G if G > 0.0 else 0.0
            if columns.bets:
                L = s.L if s.L > start.L else start.L
                R = start.R + s.R / s.weight
                R = R if R > 0.0 else 0.0
                most = G + L if G + L > alpha * L else alpha * L
                total = start.theta + s.theta
                cell[0] = <weight_t> (total * (L + R) / (L * most if L > 0.0 else 1.0))
                cell[PLANE_ROOT * n] = <weight_t> total
                cell[columns.bets * n] = <weight_t> L
                cell[(columns.bets + 1) * n] = <weight_t> G
                cell[(columns.bets + 2) * n] = <weight_t> R
            else:
                cell[0] = <weight_t> (start.w + s.w / s.weight)
                cell[PLANE_ROOT * n] = <weight_t> sqrt(G)
            for role in range(columns.n_windows):
                total = counts[role] * (s.S[role] / s.weight)
                if stays[role] >= 0:
                    total = start.S[stays[role]] + total
                cell[(PLANE_U + slots[role]) * n] = <weight_t> (columns.u_sign * total)
