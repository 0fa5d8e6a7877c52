# Two terms of a full buffer made into one: the new row and the partner that loses least.
#
# Follows Wang, Crammer, Vucetic, "Breaking the curse of kernelization" (JMLR 2012): for the
# Gaussian kernel a phi(x) + b phi(x_s) becomes c phi(h x + (1 - h) x_s), with the h that keeps
# most of it read off a table over (ratio of the coefficients, k(x, x_s)), as Glasmachers and
# Qaadan, "Speeding up budgeted stochastic gradient descent SVM training with precomputed golden
# section search" (2018).  They merge the smallest term; here it is the new one, whose
# kernel values with the buffer the loop has computed already.  With another kernel, or
# coefficients that point apart, the smaller term is projected onto the larger one.
#
# Invariants
# - the slot gets c_new times the new coefficients plus c_old times its own, alpha and beta
#   alike: the projection of both terms onto the row that stays;
# - the loss of a pair is ||a phi(x) + b phi(x_s) - c phi(z)||^2, under the label kernel;
# - a merged sparse row is no longer than `longest_union` of the new row, or the pair is
#   projected.
from libc.math cimport exp, log, sqrt
from libc.stdint cimport int32_t

from osvm._c.structs cimport Buffer, Store, Tile
from osvm._c.tile cimport dense_norm
from osvm.core.kernel cimport KERNEL_RBF
from osvm.core.typedefs cimport weight_t
from osvm._c.buffer cimport kappa_dot, kappa_times, read_real

cdef enum:
    TABLE_M = 51            # ratios 0 .. 1/2
    TABLE_K = 101           # kernel values 0 .. 1

cdef enum Union:
    KEEP = 0                # the slot's row stays
    TAKE = 1                # the new row takes the slot
    MIX = 2                 # a row between the two

cdef struct Pair:
    Py_ssize_t slot
    int row                 # a Union
    double h                # share of the new row
    double c_new
    double c_old


cdef inline Py_ssize_t longest_union(Py_ssize_t count) noexcept nogil:
    """Entries at most of a row merged from a new one with `count`."""
    return 4 * count if count > 16 else 64


cdef inline double look_up(const double *table, double m, double k) noexcept nogil:
    """Bilinear interpolation; m in [0, 1/2], k in [0, 1]."""
    cdef double x = m * 2.0 * (TABLE_M - 1), y = k * (TABLE_K - 1)
    cdef Py_ssize_t i = <Py_ssize_t> x, j = <Py_ssize_t> y
    cdef const double *at
    if i > TABLE_M - 2:
        i = TABLE_M - 2
    if j > TABLE_K - 2:
        j = TABLE_K - 2
    at = table + i * TABLE_K + j
    x -= i
    y -= j
    return ((1.0 - x) * ((1.0 - y) * at[0] + y * at[1])
            + x * ((1.0 - y) * at[TABLE_K] + y * at[TABLE_K + 1]))


cdef inline double merge_loss(const double *tables, double na, double ns, double inner,
                              double k) noexcept nogil:
    """Loss of merging terms of norms na and ns, with inner product `inner` of coefficients.

    The second table has the loss of equal directions over (1 - k)^2 and the smaller norm's
    square, the third what a wider angle adds, over 1 - k.
    """
    cdef double least = na if na < ns else ns, m = least / (na + ns)
    return (least * least * (1.0 - k) * (1.0 - k)
            * look_up(tables + TABLE_M * TABLE_K, m, k)
            + 2.0 * (na * ns - inner) * (1.0 - k) * look_up(tables + 2 * TABLE_M * TABLE_K, m, k))


cdef inline bint find_pair(Buffer *buf, Py_ssize_t t, const double *new_a, bint mix,
                           Pair *pair) noexcept nogil:
    """The slot with which column t of the block, of coefficients new_a, loses least.

    False when no pair can be made (terms of norm zero, kernel values that no positive
    definite kernel has).
    """
    cdef Py_ssize_t s, i, K = buf.f.n_out, n = buf.block.n
    cdef double k_new = buf.tile.k_self[t], k, ks, inner, na, ns, sq_a, sq_s, loss, least = 0.0
    cdef double *turned = buf.work
    cdef bint merged, found = False
    kappa_times(buf.f.kappa, K, new_a, turned)
    sq_a = k_new * kappa_dot(NULL, K, new_a, turned)
    na = sqrt(sq_a) if sq_a > 0.0 else 0.0
    mix = mix and buf.store.kernel.kind == KERNEL_RBF
    for s in range(buf.store.n):
        k = read_real(buf.block.kv, buf.store.f64, s * n + t)
        ks = buf.store.k_self[s]
        sq_s = buf.size[s]
        merged = False
        loss = 1.0 - k * k / (k_new * ks)
        if not loss > -1e-4:            # not of a positive definite kernel, or 0/0
            continue
        loss = (sq_a if sq_a <= sq_s else sq_s) * (loss if loss > 0.0 else 0.0)
        if mix and sq_s > 0.0:
            inner = 0.0
            for i in range(K):
                inner += turned[i] * buf.f.coef[s * K + i]
            if inner > 0.0:
                ns = sqrt(sq_s)
                ks = merge_loss(buf.tables, na, ns, inner, k if k < 1.0 else 1.0)
                if ks <= loss:
                    loss = ks
                    merged = True
        if found and loss >= least:
            continue
        found = True
        least = loss
        pair.slot = s
        pair.row = MIX if merged else KEEP if sq_a <= sq_s else TAKE
    if not found:
        return False
    s = pair.slot
    k = read_real(buf.block.kv, buf.store.f64, s * n + t)
    project_pair(buf, pair, k, k_new)
    if pair.row == MIX:
        ns = sqrt(buf.size[s])
        if k >= 1.0:
            k = 1.0
        if na <= ns:
            pair.h = look_up(buf.tables, na / (na + ns), k)
        else:
            pair.h = 1.0 - look_up(buf.tables, ns / (na + ns), k)
        ks = log(k) if k > 0.0 else -1e300
        pair.c_new = exp(ks * (1.0 - pair.h) * (1.0 - pair.h))
        pair.c_old = exp(ks * pair.h * pair.h)
    return True


cdef inline void project_pair(const Buffer *buf, Pair *pair, double k,
                              double k_new) noexcept nogil:
    """Coefficients of a pair of which one row stays."""
    if pair.row == KEEP:
        pair.h = 0.0
        pair.c_new = k / buf.store.k_self[pair.slot]
        pair.c_old = 1.0
    else:
        pair.h = 1.0
        pair.c_new = 1.0
        pair.c_old = k / k_new


# ------------------------------------------------------------- the merged row

cdef inline Py_ssize_t add_entries(const weight_t *values, const int32_t *columns,
                                   Py_ssize_t count, double scale, int32_t *position,
                                   weight_t *out, int32_t *out_columns, Py_ssize_t length,
                                   Py_ssize_t most) noexcept nogil:
    """Add a scaled sparse row to the entries so far; their number, or -1 past `most`."""
    cdef Py_ssize_t i
    cdef int32_t at
    for i in range(count):
        at = position[columns[i]]
        if at > 0:
            out[at - 1] += <weight_t> (scale * values[i])
            continue
        if length == most:
            return -1 - length
        out[length] = <weight_t> (scale * values[i])
        out_columns[length] = columns[i]
        length += 1
        position[columns[i]] = <int32_t> length
    return length


cdef inline bint mix_sparse(Store *store, const Tile *tile, Py_ssize_t t, const Pair *pair,
                            int32_t *position, const weight_t *values,
                            weight_t *arena) noexcept nogil:
    """The union of two sparse rows at the end of the arena; False when it is too long."""
    cdef Py_ssize_t s = pair.slot, i, count = tile.start[t + 1] - tile.start[t], length
    cdef Py_ssize_t most = longest_union(count), written
    cdef int32_t *columns = store.columns + store.end
    cdef weight_t *out = arena + store.end
    cdef double norm = 0.0
    length = add_entries(values + tile.start[t], tile.columns + tile.start[t], count, pair.h,
                         position, out, columns, 0, most)
    if length >= 0:
        length = add_entries(arena + store.start[s], store.columns + store.start[s],
                             store.length[s], 1.0 - pair.h, position, out, columns, length, most)
    written = length if length >= 0 else -1 - length
    for i in range(written):
        position[columns[i]] = 0
    if length < 0:
        return False
    for i in range(length):
        norm += <double> out[i] * <double> out[i]
    (<weight_t *> store.sq)[s] = <weight_t> norm
    store.start[s] = store.end
    store.length[s] = length
    store.end += length
    return True


cdef inline void mix_dense(Store *store, const weight_t *x, const Pair *pair, weight_t *z,
                           weight_t *sq) noexcept nogil:
    cdef Py_ssize_t j
    cdef weight_t h = <weight_t> pair.h, rest = <weight_t> (1.0 - pair.h)
    for j in range(store.d):
        z[j] = h * x[j] + rest * z[j]
    sq[0] = <weight_t> dense_norm(z, store.d)


cdef inline bint mix_row(Store *store, const Tile *tile, Py_ssize_t t, const Pair *pair,
                         int32_t *position) noexcept nogil:
    """The slot's row becomes h x + (1 - h) x_s; False, and no change, when it is too long.

    `position` has a zero for each feature, and has it again afterwards.
    """
    cdef Py_ssize_t s = pair.slot, d = store.d
    if not store.sparse:
        if store.f64:
            mix_dense(store, <double *> tile.X + t * d, pair, <double *> store.X + s * d,
                      <double *> store.sq + s)
        else:
            mix_dense(store, <float *> tile.X + t * d, pair, <float *> store.X + s * d,
                      <float *> store.sq + s)
    elif store.f64:
        if not mix_sparse(store, tile, t, pair, position, <double *> tile.values,
                          <double *> store.values):
            return False
    elif not mix_sparse(store, tile, t, pair, position, <float *> tile.values,
                        <float *> store.values):
        return False
    store.k_self[s] = 1.0
    store.ids[s] = -1
    return True
