# A kernel expansion with a bounded buffer: f = sum_s alpha_s k(x_s, .) and its trace z.
#
# Follows Vishwanathan, Schraudolph, Smola (JMLR 2006), sections 4.3, 5.2 and 5.5, with the
# coefficients kept by scalars: alpha = a A and beta = p A + q B, so that shrinking costs O(1).
#
# Invariants
# - K outputs; f(x) = kappa sum_s alpha_s k(x_s, x) with the label kernel kappa (delta: f is
#   the sum itself).  The offset is not part of f here.
# - With `norm`, f.sq_norm = ||f||^2 and f.inner = <f, z> hold for the rows in the buffer, also
#   after an eviction: the evicted term is subtracted exactly, from f and z at the evicted
#   row.  Those are known for a few slots ahead (`victims`), computed together in one block
#   and patched like the columns of any block.  Merging corrects both sums from f and z at the
#   rows that become one and at the row that stays.
# - `average`: beta is the running mean of alpha instead of the trace.
# - `block` and `victims` hold raw sums with A and B; every change of A, B or a slot is
#   carried into both, so a block of examples gives what one example at a time gives.
# - Scales are folded as buffer_scales.pxd says.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from osvm._c.structs cimport N_VICTIMS, Buffer, Sums, Tile
from osvm._c.blocks cimport (
    kernel_block, kernel_column, kernel_slot_column, tile_load_slots,
)
from osvm._c.store cimport grow, real_size, store_row, tile_release
from osvm._c.tile cimport tile_reserve
from osvm._c.buffer cimport kappa_dot, read_real, write_real
from osvm._c.buffer_scales cimport (     # with what engine.pyx takes from here
    buffer_average, buffer_shrink, fold_beta, set_zero,
)
from osvm._c.eviction cimport choose_victim, joins, measure_slot, score, slot_size
from osvm._c.merging cimport (
    KEEP, MIX, TAKE, Pair, find_pair, mix_row, project_pair,
)
from osvm.core.typedefs cimport (
    EXPANSION_CHANGE, EXPANSION_CHOOSE, EXPANSION_MERGE, EXPANSION_OLDEST, STATUS_CALLBACK,
    STATUS_NO_MEMORY, STATUS_OK,
)

cdef extern from "../_c/expand.h" nogil:
    void osvm_expand1_f32(const float *kv, Py_ssize_t ld, Py_ssize_t n_slots, Py_ssize_t n,
                          const double *a, const double *b, double *fa, double *fb)
    void osvm_expand1_f64(const double *kv, Py_ssize_t ld, Py_ssize_t n_slots, Py_ssize_t n,
                          const double *a, const double *b, double *fa, double *fb)
    void osvm_expand_f32(const float *kv, Py_ssize_t ld, Py_ssize_t n_slots, Py_ssize_t n,
                         Py_ssize_t K, const double *a, const double *b, double *fa, double *fb)
    void osvm_expand_f64(const double *kv, Py_ssize_t ld, Py_ssize_t n_slots, Py_ssize_t n,
                         Py_ssize_t K, const double *a, const double *b, double *fa, double *fb)
    void osvm_patch_f32(double *f, Py_ssize_t n, double c_new, const float *k_new,
                        double c_old, const float *k_old)
    void osvm_patch_f64(double *f, Py_ssize_t n, double c_new, const double *k_new,
                        double c_old, const double *k_old)


# ------------------------------------------------------------- sums over slots

cdef inline bint sums_b(const Buffer *buf) noexcept nogil:
    """Whether sums with B are carried along."""
    return buf.trace or buf.mean_scores


cdef inline bint sums_reserve(const Buffer *buf, Sums *sums, Py_ssize_t n) noexcept nogil:
    """Room for n columns against the slots there are and n more."""
    cdef size_t size = sizeof(double) if buf.store.f64 else sizeof(float)
    cdef Py_ssize_t slots = buf.store.n + n
    if buf.f.budget >= 0 and slots > buf.f.budget:
        slots = buf.f.budget
    return (grow(&sums.kv, &sums.room[0], slots * n * size)
            and grow(<void **> &sums.fa, &sums.room[1], n * buf.f.n_out * sizeof(double))
            and grow(<void **> &sums.fb, &sums.room[2], n * buf.f.n_out * sizeof(double)))


cdef inline int sums_fill(const Buffer *buf, const Tile *tile, Sums *sums,
                          bint with_b) noexcept nogil:
    """Kernel values and sums of the tile's columns, those with B on request; a Status."""
    cdef Py_ssize_t n = tile.n, slots = buf.store.n
    cdef double *b = buf.B if with_b and not buf.clean_b else NULL
    if not sums_reserve(buf, sums, n):
        return -1
    sums.n = n
    set_zero(sums.fa, n * buf.f.n_out)
    set_zero(sums.fb, n * buf.f.n_out)
    if slots == 0:
        return 0
    kernel_block(&buf.store, tile, sums.kv)
    if buf.f.n_out == 1:
        if buf.store.f64:
            osvm_expand1_f64(<double *> sums.kv, n, slots, n, buf.f.coef, b, sums.fa,
                             NULL if b == NULL else sums.fb)
        else:
            osvm_expand1_f32(<float *> sums.kv, n, slots, n, buf.f.coef, b, sums.fa,
                             NULL if b == NULL else sums.fb)
    elif buf.store.f64:
        osvm_expand_f64(<double *> sums.kv, n, slots, n, buf.f.n_out, buf.f.coef, b,
                        sums.fa, sums.fb)
    else:
        osvm_expand_f32(<float *> sums.kv, n, slots, n, buf.f.n_out, buf.f.coef, b,
                        sums.fa, sums.fb)
    return 0


cdef inline void patch(Buffer *buf, Sums *sums, Py_ssize_t slot, Py_ssize_t first, void *k_new,
                       const double *new_a, const double *new_b, bint had) noexcept nogil:
    """Slot gets another row and other coefficients: carry it into columns from `first` on.

    `k_new` has the new row's kernel with each column; `had` says that the slot was in use.
    """
    cdef Py_ssize_t k, n = sums.n, m = sums.n - first
    cdef double old_a, old_b
    cdef size_t size = sizeof(double) if buf.store.f64 else sizeof(float)
    cdef char *old = <char *> sums.kv + (slot * n + first) * size
    cdef char *new = <char *> k_new + first * size
    if m <= 0:
        return
    for k in range(buf.f.n_out):
        old_a = buf.f.coef[slot * buf.f.n_out + k] if had else 0.0
        if new_a[k] != 0.0 or old_a != 0.0:
            if buf.store.f64:
                osvm_patch_f64(sums.fa + k * n + first, m, new_a[k], <double *> new, old_a,
                               <double *> (old if had else new))
            else:
                osvm_patch_f32(sums.fa + k * n + first, m, new_a[k], <float *> new, old_a,
                               <float *> (old if had else new))
        if not sums_b(buf):
            continue
        old_b = buf.B[slot * buf.f.n_out + k] if had else 0.0
        if new_b[k] != 0.0 or old_b != 0.0:
            if buf.store.f64:
                osvm_patch_f64(sums.fb + k * n + first, m, new_b[k], <double *> new, old_b,
                               <double *> (old if had else new))
            else:
                osvm_patch_f32(sums.fb + k * n + first, m, new_b[k], <float *> new, old_b,
                               <float *> (old if had else new))
    if old != new:
        memcpy(old, new, m * size)


cdef inline void set_slot(Buffer *buf, Py_ssize_t slot, Py_ssize_t t, void *k_new,
                          const double *new_a, const double *new_b, bint had) noexcept nogil:
    """Slot gets other coefficients, and perhaps another row: carry it into all columns.

    `k_new` has the row's kernel with the columns of the block after t.
    """
    cdef Py_ssize_t K = buf.f.n_out
    patch(buf, &buf.block, slot, t + 1, k_new, new_a, new_b, had)
    memcpy(buf.f.coef + slot * K, new_a, K * sizeof(double))
    if buf.trace or buf.average:
        memcpy(buf.B + slot * K, new_b, K * sizeof(double))
        buf.clean_b = False


cdef inline void patch_victims(Buffer *buf, Py_ssize_t slot, Py_ssize_t t, const double *new_a,
                               const double *new_b, bint had) noexcept nogil:
    """Slot gets column t of the block and other coefficients: carry it into the victims."""
    cdef Py_ssize_t c, n = buf.block.n
    if buf.n_victims == 0:
        return
    for c in range(buf.victims.n):
        if buf.victim_slot[c] >= 0:
            write_real(buf.column, buf.store.f64, c,
                       read_real(buf.block.kv, buf.store.f64, buf.victim_slot[c] * n + t))
        else:
            write_real(buf.column, buf.store.f64, c, 0.0)
    patch(buf, &buf.victims, slot, 0, buf.column, new_a, new_b, had)


# ------------------------------------------------------------- eviction

cdef inline int find_victims(Buffer *buf, Py_ssize_t first) noexcept nogil:
    """Compute the sums of the slots that are likely to go next, `first` among them."""
    cdef Py_ssize_t c, n = buf.store.n
    cdef Py_ssize_t m = N_VICTIMS if n > N_VICTIMS else n
    cdef int status
    if buf.eviction == EXPANSION_CHOOSE:
        m = 1                   # nobody knows which come next
    for c in range(n):
        buf.victim_of[c] = -1
    for c in range(m):
        if buf.eviction == EXPANSION_OLDEST:
            buf.victim_slot[c] = (buf.head + c) % n
        elif c == 0:
            buf.victim_slot[c] = first
        else:
            buf.victim_slot[c] = choose_victim(buf, True)
        buf.victim_of[buf.victim_slot[c]] = <int32_t> c
    status = tile_load_slots(&buf.store, &buf.victim_tile, buf.victim_slot, m)
    if status == 0:
        status = sums_fill(buf, &buf.victim_tile, &buf.victims, sums_b(buf))
    tile_release(&buf.store, &buf.victim_tile)
    buf.n_victims = m if status == 0 else 0
    return status


cdef inline void subtract_term(Buffer *buf, Py_ssize_t slot, Py_ssize_t c, double k_new,
                               const double *add_a, const double *add_b) noexcept nogil:
    """Take slot's term out of ||f||^2 and <f, z>, which have the new term already."""
    cdef Py_ssize_t k, K = buf.f.n_out
    cdef double *alpha = buf.work
    cdef double *beta = buf.work + K
    cdef double *f = buf.work + 2 * K
    cdef double *z = buf.work + 3 * K
    cdef double k_self = buf.store.k_self[slot], fa, fb
    for k in range(K):
        alpha[k] = buf.f.scale * buf.f.coef[slot * K + k]
        beta[k] = buf.p * buf.f.coef[slot * K + k] + buf.q * buf.B[slot * K + k]
        fa = buf.victims.fa[k * buf.victims.n + c]
        fb = buf.victims.fb[k * buf.victims.n + c]
        f[k] = buf.f.scale * fa + k_new * add_a[k]
        z[k] = buf.p * fa + buf.q * fb + k_new * add_b[k]
    buf.f.sq_norm += (k_self * kappa_dot(buf.f.kappa, K, alpha, alpha)
                      - 2.0 * kappa_dot(buf.f.kappa, K, alpha, f))
    if buf.f.sq_norm < 0.0:
        buf.f.sq_norm = 0.0
    buf.f.inner += (k_self * kappa_dot(buf.f.kappa, K, alpha, beta)
                    - kappa_dot(buf.f.kappa, K, alpha, z) - kappa_dot(buf.f.kappa, K, beta, f))


cdef inline void adopt(Buffer *buf, Py_ssize_t slot, Py_ssize_t c, Py_ssize_t t, double k_new,
                       const double *new_a, const double *new_b, const double *old_a,
                       const double *old_b) noexcept nogil:
    """The new row takes the evicted one's place among the victims, if it is that small."""
    cdef Py_ssize_t i, k, K = buf.f.n_out, m = buf.victims.n, n = buf.block.n
    cdef double largest = -1.0, x
    for i in range(m):
        if buf.victim_slot[i] >= 0 and i != c:
            x = score(buf, buf.victim_slot[i])
            largest = x if x > largest else largest
    if score(buf, slot) > largest:
        return
    for i in range(buf.store.n):
        write_real(buf.victims.kv, buf.store.f64, i * m + c,
                   read_real(buf.block.kv, buf.store.f64, i * n + t))
    write_real(buf.victims.kv, buf.store.f64, slot * m + c, buf.store.k_self[slot])
    for k in range(K):
        buf.victims.fa[k * m + c] = (buf.block.fa[k * n + t] - k_new * old_a[k]
                                     + buf.store.k_self[slot] * new_a[k])
        buf.victims.fb[k * m + c] = (buf.block.fb[k * n + t] - k_new * old_b[k]
                                     + buf.store.k_self[slot] * new_b[k])
    buf.victim_slot[c] = slot
    buf.victim_of[slot] = <int32_t> c


# ------------------------------------------------------------- merging

cdef inline void read_rest(Buffer *buf, const Sums *sums, Py_ssize_t column, double k,
                           Py_ssize_t slot, double *f, double *z) noexcept nogil:
    """f and z at a column, without the slot's term, which has kernel value k there."""
    cdef Py_ssize_t i, K = buf.f.n_out
    cdef double fa, fb
    for i in range(K):
        fa = sums.fa[i * sums.n + column] - k * buf.f.coef[slot * K + i]
        fb = sums.fb[i * sums.n + column] - k * buf.B[slot * K + i]
        f[i] = buf.f.scale * fa
        z[i] = buf.p * fa + buf.q * fb


cdef inline int read_slot(Buffer *buf, Py_ssize_t slot, double *f, double *z) noexcept nogil:
    """f and z at a slot's row, without its own term; -1 when memory is short."""
    cdef int status = tile_load_slots(&buf.store, &buf.victim_tile, &slot, 1)
    if status == 0:
        status = sums_fill(buf, &buf.victim_tile, &buf.victims, sums_b(buf))
    tile_release(&buf.store, &buf.victim_tile)
    if status == 0:
        read_rest(buf, &buf.victims, 0, read_real(buf.victims.kv, buf.store.f64, slot), slot, f, z)
    return status


cdef inline void add_term(Buffer *buf, double sign, const double *alpha, const double *beta,
                          const double *f, const double *z) noexcept nogil:
    """Add (sign 1) or take (-1) the inner products of a term with the rest of f and z."""
    buf.f.sq_norm += sign * 2.0 * kappa_dot(buf.f.kappa, buf.f.n_out, alpha, f)
    buf.f.inner += sign * (kappa_dot(buf.f.kappa, buf.f.n_out, alpha, z)
                           + kappa_dot(buf.f.kappa, buf.f.n_out, beta, f))


cdef inline void add_products(Buffer *buf, double k, const double *alpha_1,
                              const double *beta_1, const double *alpha_2,
                              const double *beta_2) noexcept nogil:
    """Add k times the inner products of the coefficients of two terms."""
    buf.f.sq_norm += k * kappa_dot(buf.f.kappa, buf.f.n_out, alpha_1, alpha_2)
    buf.f.inner += 0.5 * k * (kappa_dot(buf.f.kappa, buf.f.n_out, alpha_1, beta_2)
                              + kappa_dot(buf.f.kappa, buf.f.n_out, alpha_2, beta_1))


cdef inline void write_row(Buffer *buf, Py_ssize_t t, Pair *pair) noexcept nogil:
    """Give the slot of a pair its row; a union that is too long becomes a projection."""
    cdef Py_ssize_t slot = pair.slot
    cdef double k = read_real(buf.block.kv, buf.store.f64, slot * buf.block.n + t)
    cdef Py_ssize_t old = buf.store.ids[slot]
    if pair.row == MIX and not mix_row(&buf.store, &buf.tile, t, pair, buf.victim_tile.map):
        pair.row = TAKE if pair.h > 0.5 else KEEP
        project_pair(buf, pair, k, buf.tile.k_self[t])
    if pair.row == TAKE:
        store_row(&buf.store, slot, &buf.tile, t)
    if pair.row == KEEP:
        return
    if buf.slot_of != NULL:
        if old >= 0:
            buf.slot_of[old] = -1
        if pair.row == TAKE:
            buf.slot_of[buf.tile.ids[t]] = slot
    buf.f.birth[slot] = buf.f.births
    buf.f.births += 1


cdef inline int join_pair(Buffer *buf, Py_ssize_t t, Pair *pair, const double *add_a,
                          const double *add_b, const double *new_a,
                          const double *new_b) noexcept nogil:
    """The new term, in ||f||^2 and <f, z> already, and the slot's become one.

    Both inner products change by the products with the rest of f and z and by those among the
    terms: at the new row, the slot's, and the one that stays.  -1 when memory is short.
    """
    cdef Py_ssize_t k, K = buf.f.n_out, slot = pair.slot
    cdef double *alpha = buf.work           # of the slot
    cdef double *beta = buf.work + K
    cdef double *f = buf.work + 2 * K
    cdef double *z = buf.work + 3 * K
    cdef double *sum_a = buf.work + 6 * K   # of the pair, as A and B have it
    cdef double *sum_b = buf.work + 7 * K
    cdef double k_pair = read_real(buf.block.kv, buf.store.f64, slot * buf.block.n + t)
    cdef double k_new = buf.tile.k_self[t]
    cdef void *column = buf.column
    if pair.row == MIX and buf.store.sparse and not tile_reserve(&buf.store, &buf.victim_tile,
                                                                 1, 0):
        return -1
    if buf.norm:
        if read_slot(buf, slot, f, z) < 0:
            return -1
        for k in range(K):
            alpha[k] = buf.f.scale * buf.f.coef[slot * K + k]
            beta[k] = buf.p * buf.f.coef[slot * K + k] + buf.q * buf.B[slot * K + k]
        add_term(buf, -1.0, alpha, beta, f, z)
        add_products(buf, -buf.store.k_self[slot], alpha, beta, alpha, beta)
        add_products(buf, -2.0 * k_pair, alpha, beta, add_a, add_b)
        read_rest(buf, &buf.block, t, k_pair, slot, f, z)
        add_term(buf, -1.0, add_a, add_b, f, z)
        add_products(buf, -k_new, add_a, add_b, add_a, add_b)
    write_row(buf, t, pair)
    if buf.norm:
        if read_slot(buf, slot, f, z) < 0:
            return -1
        for k in range(K):
            alpha[k] = pair.c_new * add_a[k] + pair.c_old * alpha[k]
            beta[k] = pair.c_new * add_b[k] + pair.c_old * beta[k]
        add_term(buf, 1.0, alpha, beta, f, z)
        add_products(buf, buf.store.k_self[slot], alpha, beta, alpha, beta)
        if buf.f.sq_norm < 0.0:
            buf.f.sq_norm = 0.0
    for k in range(K):
        sum_a[k] = pair.c_new * new_a[k] + pair.c_old * buf.f.coef[slot * K + k]
        sum_b[k] = pair.c_new * new_b[k] + pair.c_old * buf.B[slot * K + k]
    if pair.row == KEEP:
        column = <char *> buf.block.kv + slot * buf.block.n * real_size(&buf.store)
    elif pair.row == TAKE:
        kernel_column(&buf.store, &buf.tile, t, t + 1, buf.column)
    else:
        kernel_slot_column(&buf.store, &buf.tile, slot, t + 1, buf.column)
    set_slot(buf, slot, t, column, sum_a, sum_b, True)
    buf.size[slot] = slot_size(buf, slot)
    return 0


# ------------------------------------------------------------- a new row

cdef inline void change_slot(Buffer *buf, Py_ssize_t slot, Py_ssize_t t, double *new_a,
                             double *new_b) noexcept nogil:
    """Column t of the block is the slot's row: add to its coefficients."""
    cdef Py_ssize_t k, K = buf.f.n_out
    for k in range(K):
        new_a[k] += buf.f.coef[slot * K + k]
        new_b[k] += buf.B[slot * K + k]
    patch_victims(buf, slot, t, new_a, new_b, True)
    set_slot(buf, slot, t, <char *> buf.block.kv + slot * buf.block.n * real_size(&buf.store),
             new_a, new_b, True)
    if buf.eviction != EXPANSION_OLDEST:
        buf.size[slot] = slot_size(buf, slot)


cdef inline int buffer_insert(Buffer *buf, Py_ssize_t t, const double *add_a,
                              const double *add_b) noexcept nogil:
    """Append column t of the block with coefficients add_a and add_b.

    A row that is there gets its coefficients changed.  When the buffer is full the new term
    is merged, or one row goes first (which one is decided among those that were there) and
    leaves ||f||^2 and <f, z>.  A Status; nothing changed unless it is STATUS_OK.
    """
    cdef Py_ssize_t slot, c = -1, k, K = buf.f.n_out
    cdef bint f64 = buf.store.f64
    cdef bint full = buf.f.budget >= 0 and buf.store.n >= buf.f.budget
    cdef bint fifo = buf.eviction == EXPANSION_OLDEST
    cdef double k_new = 0.0
    cdef double *new_a = buf.work + 4 * K
    cdef double *new_b = buf.work + 5 * K
    cdef double *old_a = buf.work + 6 * K
    cdef double *old_b = buf.work + 7 * K
    cdef bint with_b = buf.trace or buf.average
    cdef Pair pair
    for k in range(K):
        new_a[k] = add_a[k] / buf.f.scale
        new_b[k] = (add_b[k] - buf.p * new_a[k]) / buf.q if with_b else 0.0
    if buf.slot_of != NULL and buf.slot_of[buf.tile.ids[t]] >= 0:
        change_slot(buf, buf.slot_of[buf.tile.ids[t]], t, new_a, new_b)
        return 0
    if full:
        if (joins(buf)
                and find_pair(buf, t, new_a, buf.eviction == EXPANSION_MERGE, &pair)):
            return join_pair(buf, t, &pair, add_a, add_b, new_a, new_b)
        slot = buf.head if fifo else choose_victim(buf, False)
        if slot < 0:
            return STATUS_CALLBACK
        if buf.norm or buf.eviction == EXPANSION_CHANGE:
            if buf.n_victims == 0 or buf.victim_of[slot] < 0:
                if find_victims(buf, slot) < 0:
                    return STATUS_NO_MEMORY
            c = buf.victim_of[slot]
            k_new = read_real(buf.block.kv, f64, slot * buf.block.n + t)
            if buf.norm:
                subtract_term(buf, slot, c, k_new, add_a, add_b)
            buf.victim_of[slot] = -1
            buf.victim_slot[c] = -1
        if fifo:
            buf.head = (buf.head + 1) % buf.f.budget
    else:
        slot = buf.store.n
    for k in range(K):
        old_a[k] = buf.f.coef[slot * K + k] if full else 0.0
        old_b[k] = buf.B[slot * K + k] if full and with_b else 0.0
    # the victims first: they read the new row's kernel values from the block
    patch_victims(buf, slot, t, new_a, new_b, full)
    kernel_column(&buf.store, &buf.tile, t, t + 1, buf.column)
    set_slot(buf, slot, t, buf.column, new_a, new_b, full)
    if not full:
        buf.store.n += 1
        buf.victim_of[slot] = -1
    if buf.slot_of != NULL:
        if full and buf.store.ids[slot] >= 0:
            buf.slot_of[buf.store.ids[slot]] = -1
        buf.slot_of[buf.tile.ids[t]] = slot
    store_row(&buf.store, slot, &buf.tile, t)
    buf.f.birth[slot] = buf.f.births
    buf.f.births += 1
    if not fifo:
        measure_slot(buf, slot, c, t)
        if c >= 0 and not joins(buf):
            adopt(buf, slot, c, t, k_new, new_a, new_b, old_a, old_b)
    if joins(buf):
        buf.n_victims = 0
    return 0
