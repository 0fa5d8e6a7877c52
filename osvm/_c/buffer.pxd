# The buffer behind an Expansion: rows, coefficients, the columns at work, and their memory.
#
# Invariants
# - memory grows between blocks only, by buffer_reserve, and never shrinks; every slot that
#   was never used is zero;
# - an arena that is full is packed: live entries are copied to the front of a larger one.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from osvm._c.store cimport real_size, tile_free
from osvm._c.structs cimport Buffer, Store, Sums
from osvm.core.typedefs cimport STATUS_NO_MEMORY, STATUS_OK

# ------------------------------------------------------------- memory

cdef inline bint resize(void **memory, Py_ssize_t size, Py_ssize_t old,
                        Py_ssize_t new) noexcept nogil:
    """Room for `new` items of `size` bytes instead of `old`; the new ones are zero."""
    cdef char *larger = <char *> realloc(memory[0], new * size if new * size > 0 else 1)
    if larger == NULL:
        return False
    if new > old:
        memset(larger + old * size, 0, (new - old) * size)
    memory[0] = larger
    return True


cdef inline int set_capacity(Buffer *buf, Py_ssize_t slots) noexcept nogil:
    """Room for so many slots; STATUS_NO_MEMORY, and what there was, when memory is short."""
    cdef Store *store = &buf.store
    cdef Py_ssize_t real = <Py_ssize_t> real_size(store), old = buf.capacity
    cdef Py_ssize_t whole = sizeof(Py_ssize_t), wide = sizeof(double), K = buf.f.n_out
    if not (resize(&store.X, 0 if store.sparse else store.d * real, old, slots)
            and resize(<void **> &store.start, whole, old, slots)
            and resize(<void **> &store.length, whole, old, slots)
            and resize(&store.sq, real, old, slots)
            and resize(<void **> &store.k_self, wide, old, slots)
            and resize(<void **> &store.ids, whole, old, slots)
            and resize(<void **> &buf.f.coef, K * wide, old, slots)
            and resize(<void **> &buf.B, K * wide, old, slots)
            and resize(<void **> &buf.f.birth, whole, old, slots)
            and resize(<void **> &buf.size, wide, old, slots)
            and resize(<void **> &buf.row_sq, wide, old, slots)
            and resize(<void **> &buf.victim_of, sizeof(int32_t), old, slots)):
        return STATUS_NO_MEMORY
    buf.capacity = slots
    return STATUS_OK


cdef inline int pack(Buffer *buf, Py_ssize_t more) noexcept nogil:
    """Copy the live entries to the front of an arena with room for `more`."""
    cdef Store *store = &buf.store
    cdef size_t real = real_size(store)
    cdef Py_ssize_t s, at = 0, live = 0, room
    cdef char *values
    cdef int32_t *columns
    for s in range(store.n):
        live += store.length[s]
    room = live + (live if live > more else more)
    if room < buf.entries:
        room = buf.entries
    values = <char *> malloc(room * real + 1)
    columns = <int32_t *> malloc(room * sizeof(int32_t) + 1)
    if values == NULL or columns == NULL:
        free(values)
        free(columns)
        return STATUS_NO_MEMORY
    for s in range(store.n):
        if store.length[s] > 0:
            memcpy(values + at * real, <char *> store.values + store.start[s] * real,
                   store.length[s] * real)
            memcpy(columns + at, store.columns + store.start[s],
                   store.length[s] * sizeof(int32_t))
        store.start[s] = at
        at += store.length[s]
    free(store.values)
    free(store.columns)
    store.values = values
    store.columns = columns
    store.end = at
    buf.entries = room
    return STATUS_OK


cdef inline int buffer_reserve(Buffer *buf, Py_ssize_t slots, Py_ssize_t more) noexcept nogil:
    """Room for `slots` slots in all (the budget at most) and `more` entries."""
    cdef int status = STATUS_OK
    cdef Py_ssize_t twice = 2 * buf.capacity
    if buf.f.budget >= 0:
        slots = buf.f.budget if slots > buf.f.budget else slots
        twice = buf.f.budget if twice > buf.f.budget else twice
    if slots > buf.capacity:
        status = set_capacity(buf, slots if slots > twice else twice)
    if status == STATUS_OK and buf.store.sparse and buf.store.end + more > buf.entries:
        status = pack(buf, more)
    return status


cdef inline void sums_free(Sums *sums) noexcept nogil:
    free(sums.kv)
    free(sums.fa)
    free(sums.fb)
    memset(sums, 0, sizeof(Sums))


cdef inline void buffer_free(Buffer *buf) noexcept nogil:
    if buf == NULL:
        return
    tile_free(&buf.tile)
    tile_free(&buf.victim_tile)
    sums_free(&buf.block)
    sums_free(&buf.victims)
    free(buf.store.X)
    free(buf.store.values)
    free(buf.store.columns)
    free(buf.store.start)
    free(buf.store.length)
    free(buf.store.sq)
    free(buf.store.k_self)
    free(buf.store.ids)
    free(buf.f.coef)
    free(buf.B)
    free(buf.f.birth)
    free(buf.size)
    free(buf.row_sq)
    free(buf.victim_of)
    free(buf.work)
    free(buf.column)
    free(buf.spare_map)
    free(buf)


# ------------------------------------------------------------- arithmetic

cdef inline void kappa_times(const double *kappa, Py_ssize_t K, const double *x,
                             double *out) noexcept nogil:
    """out = kappa x"""
    cdef Py_ssize_t k, l
    cdef double total
    if kappa == NULL:
        memcpy(out, x, K * sizeof(double))
        return
    for k in range(K):
        total = 0.0
        for l in range(K):
            total += kappa[k * K + l] * x[l]
        out[k] = total


cdef inline double kappa_dot(const double *kappa, Py_ssize_t K, const double *x,
                             const double *y) noexcept nogil:
    """x' kappa y"""
    cdef Py_ssize_t k, l
    cdef double total = 0.0, row
    for k in range(K):
        if x[k] == 0.0:
            continue
        if kappa == NULL:
            total += x[k] * y[k]
            continue
        row = 0.0
        for l in range(K):
            row += kappa[k * K + l] * y[l]
        total += x[k] * row
    return total


cdef inline double read_real(const void *array, bint f64, Py_ssize_t i) noexcept nogil:
    return (<double *> array)[i] if f64 else (<float *> array)[i]


cdef inline void write_real(void *array, bint f64, Py_ssize_t i, double value) noexcept nogil:
    if f64:
        (<double *> array)[i] = value
    else:
        (<float *> array)[i] = <float> value
