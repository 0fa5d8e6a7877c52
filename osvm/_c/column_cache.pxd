# Columns of the kernel matrix of a fixed set of rows: on demand, in blocks, cached.
#
# Follows section D of the algorithms: learners with cached outputs (Kecman and Melki,
# "Fast online algorithms for support vector machines") touch a kernel column only when its
# coefficient changes, so the n x n matrix is never needed as a whole.
#
# Invariants
# - A column may be valid for its first `length` values only; `cache_fetch` extends it.
# - The columns of one fetch stay valid until the next one: the cache holds at least
#   MAX_BLOCK columns.
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from osvm._c.blocks cimport MAX_BLOCK
from osvm._c.row_set cimport (
    const_double_p, const_float_p, row_set_add, row_set_gram, row_set_values,
)
from osvm._c.structs cimport ColumnCache
from osvm.core.typedefs cimport STATUS_NO_MEMORY, STATUS_OK

cdef extern from "../_c/columns.h" nogil:
    void osvm_combine_f32(double *o, Py_ssize_t n, const const_float_p *columns,
                          const double *delta, Py_ssize_t count)
    void osvm_combine_f64(double *o, Py_ssize_t n, const const_double_p *columns,
                          const double *delta, Py_ssize_t count)

cdef enum:
    NEAR_MB = 48      # memory at most for columns that are cheap to compute again

cdef extern from *:
    """
    /* Columns are written once and read often: large pages take a tenth of the faults. */
    #if defined(__linux__)
    #include <stdlib.h>
    #include <sys/mman.h>
    static void *osvm_large_memory(size_t bytes) {
        const size_t page = (size_t)1 << 21;
        void *memory = NULL;
        if (bytes < 2 * page) return malloc(bytes);
        if (posix_memalign(&memory, page, bytes)) return NULL;
    #ifdef MADV_HUGEPAGE
        (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a hint: refusal costs time only */
    #endif
        return memory;
    }
    #else
    #include <stdlib.h>
    #define osvm_large_memory(bytes) malloc(bytes)
    #endif
    """
    void *osvm_large_memory(size_t bytes) nogil


cdef inline void cache_free(ColumnCache *cache) noexcept nogil:
    free(cache.store)
    free(cache.slot_of)
    free(cache.col_of)
    free(cache.length)
    free(cache.newer)
    free(cache.older)
    memset(cache, 0, sizeof(ColumnCache))


cdef inline int cache_init(ColumnCache *cache, Py_ssize_t n, bint wide, bint near,
                           double cache_bytes, Py_ssize_t most) noexcept nogil:
    """An empty cache; rows or column_fn, and offset, are to be set.  A Status."""
    cdef Py_ssize_t i, size = 8 if wide else 4, slots
    cdef double limit = cache_bytes
    memset(cache, 0, sizeof(ColumnCache))
    cache.n, cache.wide, cache.near = n, wide, near
    if near and limit > NEAR_MB * 1048576.0:
        limit = NEAR_MB * 1048576.0     # cheaper to compute again than to bring from far memory
    limit = limit / (<double> n * size) if n else 0.0
    slots = n if limit >= n else <Py_ssize_t> limit
    if most >= 0 and slots > most:
        slots = most
    if slots < MAX_BLOCK:
        slots = MAX_BLOCK
    cache.n_slots = slots = slots if slots < n else n
    cache.store = <char *> osvm_large_memory(slots * n * size + 1)
    cache.slot_of = <Py_ssize_t *> malloc(n * sizeof(Py_ssize_t) + 1)
    cache.col_of = <Py_ssize_t *> malloc(slots * sizeof(Py_ssize_t) + 1)
    cache.length = <Py_ssize_t *> malloc(slots * sizeof(Py_ssize_t) + 1)
    cache.newer = <Py_ssize_t *> malloc(slots * sizeof(Py_ssize_t) + 1)
    cache.older = <Py_ssize_t *> malloc(slots * sizeof(Py_ssize_t) + 1)
    if (cache.store == NULL or cache.slot_of == NULL or cache.col_of == NULL
            or cache.length == NULL or cache.newer == NULL or cache.older == NULL):
        cache_free(cache)
        return STATUS_NO_MEMORY
    for i in range(n):
        cache.slot_of[i] = -1
    cache.newest = cache.oldest = -1
    return STATUS_OK


cdef inline void cache_touch(ColumnCache *cache, Py_ssize_t slot) noexcept nogil:
    """This slot was used last."""
    if slot == cache.newest:
        return
    if slot == cache.oldest:
        cache.oldest = cache.newer[slot]
    else:
        cache.newer[cache.older[slot]] = cache.newer[slot]
    cache.older[cache.newer[slot]] = cache.older[slot]
    cache.older[slot] = cache.newest
    cache.newer[cache.newest] = slot
    cache.newest = slot


cdef inline Py_ssize_t cache_take_slot(ColumnCache *cache, Py_ssize_t column) noexcept nogil:
    """A free slot, or that of the column used longest ago."""
    cdef Py_ssize_t slot
    if cache.used < cache.n_slots:
        slot = cache.used
        cache.used += 1
        if slot == 0:
            cache.oldest = cache.newest = slot
        else:
            cache.older[slot] = cache.newest
            cache.newer[cache.newest] = slot
            cache.newest = slot
    else:
        slot = cache.oldest
        cache.slot_of[cache.col_of[slot]] = -1
        cache_touch(cache, slot)
    cache.slot_of[column] = slot
    cache.col_of[slot] = column
    cache.length[slot] = 0
    return slot


cdef inline int cache_fetch(ColumnCache *cache, const Py_ssize_t *columns, Py_ssize_t count,
                            Py_ssize_t m, void **out) noexcept nogil:
    """Point `out` at these (different) columns, valid for their first m values.  A Status."""
    cdef Py_ssize_t k, j, slot, begin, many
    cdef Py_ssize_t missing[MAX_BLOCK]
    cdef void *targets[MAX_BLOCK]
    cdef Py_ssize_t size = 8 if cache.wide else 4
    cdef int status
    for k in range(count):  # first all that are there, so that none of them is evicted
        slot = cache.slot_of[columns[k]]
        if slot >= 0:
            cache_touch(cache, slot)
            if cache.length[slot] >= m:
                cache.hits += 1
    for k in range(count):
        slot = cache.slot_of[columns[k]]
        if slot < 0:
            slot = cache_take_slot(cache, columns[k])
        out[k] = cache.store + slot * cache.n * size
    for k in range(count):  # equal lengths are completed together
        begin = cache.length[cache.slot_of[columns[k]]]
        if begin >= m:
            continue
        many = 0
        for j in range(k, count):
            slot = cache.slot_of[columns[j]]
            if cache.length[slot] == begin:
                missing[many] = columns[j]
                targets[many] = <char *> out[j] + begin * size
                many += 1
        if cache.column_fn != NULL:
            status = cache.column_fn(cache.user, missing, many, begin, m, targets, NULL)
        else:
            status = row_set_values(cache.rows, missing, many, begin, m, cache.offset, targets)
        if status != STATUS_OK:
            return status   # after an error: not longer
        for j in range(many):
            cache.length[cache.slot_of[missing[j]]] = m
        cache.computed += <double> many * <double> (m - begin) / <double> cache.n
    return STATUS_OK


cdef inline int cache_gram(ColumnCache *cache, const Py_ssize_t *rows, Py_ssize_t count,
                           double *out) noexcept nogil:
    """Kernel values of these rows among themselves, as the columns would give them."""
    cdef Py_ssize_t i, total = count * count
    # float32 values in the upper half of the same memory
    cdef float *narrow = <float *> out + total
    cdef void *target = <void *> out if cache.wide else <void *> narrow
    cdef int status
    if cache.column_fn != NULL:
        status = cache.column_fn(cache.user, rows, count, 0, 0, NULL, target)
    else:
        status = row_set_gram(cache.rows, rows, count, target)
    if status != STATUS_OK:
        return status
    if not cache.wide:
        for i in range(total):
            out[i] = <double> narrow[i]
    if cache.column_fn == NULL and cache.offset != 0.0:
        for i in range(total):
            out[i] += cache.offset
    return STATUS_OK


cdef inline void cache_combine(const ColumnCache *cache, double *o, Py_ssize_t m, void **columns,
                               const double *delta, Py_ssize_t count) noexcept nogil:
    """o[:m] += sum_k delta[k] columns[k][:m]."""
    if cache.wide:
        osvm_combine_f64(o, m, <const const_double_p *> columns, delta, count)
    else:
        osvm_combine_f32(o, m, <const const_float_p *> columns, delta, count)


cdef inline bint cache_sums_directly(const ColumnCache *cache) noexcept nogil:
    """Is it cheaper to add columns up while they are computed than to store them first?

    So it is where the kernel itself is cheap and the cache is too small to serve again.
    """
    return cache.near and cache.n_slots <= MAX_BLOCK and cache.offset == 0.0


cdef inline void cache_sum_directly(ColumnCache *cache, double *o, Py_ssize_t m,
                                    const Py_ssize_t *columns, const double *delta,
                                    Py_ssize_t count) noexcept nogil:
    """o[:m] += sum_k delta[k] columns[k][:m], without storing a column (few dimensions)."""
    cache.computed += <double> count * <double> m / <double> cache.n
    row_set_add(cache.rows, o, m, columns, delta, count)
