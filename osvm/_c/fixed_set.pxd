# Expansions over a fixed set of rows, with the outputs of all rows kept: blocks and columns.
#
# Follows Kecman and Melki, "Fast online algorithms for support vector machines": the kernel
# values inside a block of rows give every output that the block's own changes need, so which
# coefficients change is known before any full column is computed; then the columns of exactly
# those rows are fetched together and added to the outputs of all rows.
#
# Invariants
# - between blocks outputs = K alpha (plus the cache's offset times the sum of alpha);
# - inside a block `local` is right for the block's rows, and `delta` is what outputs lack.
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from scipy.linalg.cython_blas cimport dgemm, sgemm

from osvm._c.blocks cimport MAX_BLOCK
from osvm._c.column_cache cimport (
    cache_combine, cache_fetch, cache_free, cache_gram, cache_sum_directly,
    cache_sums_directly,
)
from osvm._c.row_set cimport row_set_free
from osvm._c.structs cimport ColumnCache, FixedSet
from osvm.core.typedefs cimport (
    FIXED_BLOCK, STATUS_NO_MEMORY, STATUS_OK, Fixed, float32_t, weight_t,
)

cdef enum:
    GEMM_CHUNK = 512
    GEMM_OUTPUTS = 4    # from so many outputs on, they are updated by matrix products

cdef inline void fixed_set_free(FixedSet *s) noexcept nogil:
    if s == NULL:
        return
    free(s.f.gram)
    free(s.f.local)
    free(s.f.delta)
    free(s.room)
    free(s.memory)
    cache_free(&s.own_cache)
    row_set_free(&s.own_rows)
    free(s)


cdef inline FixedSet *fixed_set_new(ColumnCache *cache, Py_ssize_t n, double *alpha,
                                    double *outputs, Py_ssize_t n_out) noexcept nogil:
    """On this cache (NULL: the struct's own), in the caller's arrays of zeros, unless NULL."""
    cdef FixedSet *s = <FixedSet *> malloc(sizeof(FixedSet))
    if s == NULL:
        return NULL
    memset(s, 0, sizeof(FixedSet))
    s.f.struct_size = sizeof(Fixed)
    s.f.n, s.f.n_out = n, n_out
    s.cache = &s.own_cache if cache == NULL else cache
    s.f.gram = <double *> malloc(FIXED_BLOCK * FIXED_BLOCK * sizeof(double))
    s.f.local = <double *> malloc(n_out * FIXED_BLOCK * sizeof(double))
    s.f.delta = <double *> malloc(n_out * FIXED_BLOCK * sizeof(double))
    s.room = <double *> malloc((GEMM_CHUNK + FIXED_BLOCK) * (FIXED_BLOCK + n_out)
                               * sizeof(double))
    if alpha == NULL:
        s.memory = <double *> malloc(2 * n_out * n * sizeof(double) + 1)
        if s.memory != NULL:
            memset(s.memory, 0, 2 * n_out * n * sizeof(double))
            alpha, outputs = s.memory, s.memory + n_out * n
    s.f.alpha, s.f.outputs = alpha, outputs
    if (s.f.gram == NULL or s.f.local == NULL or s.f.delta == NULL or s.room == NULL
            or alpha == NULL):
        fixed_set_free(s)
        return NULL
    return s


cdef inline int fixed_set_load(FixedSet *s, const Py_ssize_t *rows,
                               Py_ssize_t count) noexcept nogil:
    """Take up to FIXED_BLOCK different rows."""
    cdef Py_ssize_t q, k
    cdef int status = cache_gram(s.cache, rows, count, s.f.gram)
    if status != STATUS_OK:
        return status
    s.f.rows, s.f.count = rows, count
    for q in range(s.f.n_out):
        for k in range(count):
            s.f.local[q * FIXED_BLOCK + k] = s.f.outputs[q * s.f.n + rows[k]]
            s.f.delta[q * FIXED_BLOCK + k] = 0.0
    return STATUS_OK


cdef inline void fixed_set_multiply(FixedSet *s, Py_ssize_t n, weight_t **columns,
                                    const Py_ssize_t *place, Py_ssize_t many,
                                    weight_t *room) noexcept nogil:
    """`fixed_set_flush` for many outputs: one matrix product per chunk of rows."""
    cdef Py_ssize_t start = 0, m, k, q, i
    cdef int rows, n_out = <int> s.f.n_out, inner = <int> many, ld = GEMM_CHUNK
    cdef weight_t one = 1, zero = 0
    cdef weight_t *packed = room
    cdef weight_t *product = room + GEMM_CHUNK * FIXED_BLOCK
    cdef weight_t *right = product + GEMM_CHUNK * s.f.n_out
    cdef double *target
    for q in range(s.f.n_out):
        for k in range(many):
            right[q * many + k] = <weight_t> s.f.delta[q * FIXED_BLOCK + place[k]]
    while start < n:
        m = n - start
        m = m if m < GEMM_CHUNK else GEMM_CHUNK
        rows = <int> m
        for k in range(many):
            memcpy(packed + k * GEMM_CHUNK, columns[k] + start, m * sizeof(weight_t))
        if weight_t is float32_t:
            sgemm("N", "N", &rows, &n_out, &inner, &one, packed, &ld, right, &inner,
                  &zero, product, &ld)
        else:
            dgemm("N", "N", &rows, &n_out, &inner, &one, packed, &ld, right, &inner,
                  &zero, product, &ld)
        for q in range(s.f.n_out):
            target = s.f.outputs + q * s.f.n + start
            for i in range(m):
                target[i] += <double> product[q * GEMM_CHUNK + i]
        start += m


cdef inline int fixed_set_flush(FixedSet *s, Py_ssize_t m) noexcept nogil:
    """outputs[:m] += the columns of the rows that changed."""
    cdef Py_ssize_t changed[FIXED_BLOCK]
    cdef Py_ssize_t place[FIXED_BLOCK]
    cdef void *pointers[MAX_BLOCK]
    cdef void *own[FIXED_BLOCK]
    cdef double coefficients[FIXED_BLOCK]
    cdef Py_ssize_t k, q, many = 0, mine, count = s.f.count
    cdef int status
    s.f.count = 0
    for k in range(count):
        for q in range(s.f.n_out):
            if s.f.delta[q * FIXED_BLOCK + k] != 0.0:
                changed[many] = s.f.rows[k]
                place[many] = k
                many += 1
                break
    if many == 0 or m == 0:
        return STATUS_OK
    if s.f.n_out == 1 and cache_sums_directly(s.cache):
        for k in range(many):
            coefficients[k] = s.f.delta[place[k]]
        cache_sum_directly(s.cache, s.f.outputs, m, changed, coefficients, many)
        return STATUS_OK
    status = cache_fetch(s.cache, changed, many, m, pointers)
    if status != STATUS_OK:
        return status
    if s.f.n_out >= GEMM_OUTPUTS and many >= 4:
        if s.cache.wide:
            fixed_set_multiply(s, m, <double **> pointers, place, many, s.room)
        else:
            fixed_set_multiply(s, m, <float **> pointers, place, many, <float *> s.room)
        return STATUS_OK
    for q in range(s.f.n_out):
        mine = 0
        for k in range(many):
            if s.f.delta[q * FIXED_BLOCK + place[k]] != 0.0:
                own[mine] = pointers[k]
                coefficients[mine] = s.f.delta[q * FIXED_BLOCK + place[k]]
                mine += 1
        if mine:
            cache_combine(s.cache, s.f.outputs + q * s.f.n, m, own, coefficients, mine)
    return STATUS_OK
