"""The compiled half of the headers in osvm/core: kernel blocks, expansions, views, the ABI.

What is too large to be compiled into every client is here and reached by cimport.  The work
is done by the inline functions of the private headers beside this file, each of which names
its source and its invariants; here they are checked for what a client may get wrong.

Invariants
- structs that a client holds are made here (`expansion_new`, `fixed_new`), so they may grow;
- a function that only reads an Expansion uses no memory of it but `spare_map`, which one of them
  has at a time: any number may run at once.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport malloc
from libc.string cimport memset

from osvm._c.structs cimport N_VICTIMS, Sums, Tile
from osvm._c.blocks cimport tile_load_rows
from osvm._c.buffer cimport (
    buffer_free, buffer_reserve, kappa_dot, read_real, resize, sums_free,
)
from osvm._c.buffer_steps cimport (
    buffer_average, buffer_insert, buffer_shrink, fold_beta, sums_b, sums_fill, sums_reserve,
)
from osvm._c.column_cache cimport (
    cache_combine, cache_fetch, cache_free, cache_gram, cache_init, cache_touch,
)
from osvm._c.eviction cimport joins, slot_size
from osvm._c.fixed_set cimport (
    fixed_set_flush, fixed_set_free, fixed_set_load, fixed_set_new,
)
from osvm._c.merge_tables cimport merge_tables_fill
from osvm._c.merging cimport TABLE_K, TABLE_M, longest_union, look_up
from osvm._c.row_set cimport row_set_against, row_set_cross, row_set_free, row_set_init
from osvm._c.store cimport grow, tile_free, tile_release
from osvm._c.tile cimport slot_row
from osvm.core.rows cimport rows_get, rows_init_csr, rows_init_dense
from osvm.core.typedefs cimport (
    EXPANSION_CHOOSE, EXPANSION_F64, EXPANSION_MERGE, EXPANSION_NORM,
    EXPANSION_SPARSE, EXPANSION_TRACE, FIXED_BLOCK, STATUS_BAD_ARGUMENT, STATUS_NO_MEMORY,
    STATUS_OK, Loss, SMat, Step, SVec, float32_t, float64_t,
)

cdef extern from "../_c/memory.h" nogil:
    void *osvm_swap(const void *place, void *pointer)

cdef enum:
    NUMBER = 2              # ABI_NUMBER of core/abi.pxd
    N_STRUCTS = 9
    SCORE_BLOCK = 128       # rows whose scores are computed together
    SPARE = 1 << 22         # features whose map is kept from one prediction to the next


# ------------------------------------------------------------- the ABI

STRUCTS = ("Row", "Rows", "SVec", "SMat", "Loss", "Step", "Kernel", "Expansion", "Fixed")


def abi_version():
    """Number of the interface that ``cimport osvm`` gives; clients of another number are refused.

    Examples
    --------
    >>> from osvm.core.abi import abi_version
    >>> abi_version()
    2
    """
    return NUMBER


cdef int abi_compare(int number, const size_t *sizes, int count) except -1:
    cdef size_t own[N_STRUCTS]
    cdef int i
    own[:] = [sizeof(Row), sizeof(Rows), sizeof(SVec), sizeof(SMat), sizeof(Loss), sizeof(Step),
              sizeof(Kernel), sizeof(Expansion), sizeof(Fixed)]
    found = None
    if number != NUMBER:
        found = f"with osvm ABI {number}, but the installed osvm has ABI {NUMBER}"
    elif count > N_STRUCTS:
        found = f"with {count} structs of osvm, but the installed osvm has {N_STRUCTS}"
    else:
        for i in range(count):
            if sizes[i] > own[i]:
                found = (f"with a struct {STRUCTS[i]} of {sizes[i]} bytes, but the installed "
                         f"osvm has {own[i]}")
                break
    if found is not None:
        raise ImportError(
            f"this module was compiled {found}: compile it again with the installed osvm, or "
            f"install the osvm that it was compiled with")
    return 0


# ------------------------------------------------------------- Python's arrays

cdef size_t address_of(object array, tuple types) except? 0:
    """Where a numpy array begins; TypeError unless it is aligned and of one of these types."""
    if array.dtype not in types or not array.flags.aligned:
        raise TypeError(f"expected an aligned array of {' or '.join(types)}, got {array.dtype}")
    return array.__array_interface__["data"][0]


cdef void *view_array(object array, str dtype, Py_ssize_t n) except NULL:
    if not hasattr(array, "__array_interface__"):
        raise TypeError(f"expected a numpy array of {dtype}, got {type(array).__name__}")
    cdef size_t address = address_of(array, (dtype,))
    if array.size != n or not array.flags.c_contiguous:
        raise ValueError(f"expected {n} numbers one after the other, got an array of shape "
                         f"{array.shape}")
    return <void *> address


cdef int view_csr(Rows *X, object csr) except -1:
    from copy import copy
    cdef Py_ssize_t n_rows, n_features
    cdef size_t values, indices, indptr
    copy(csr).check_format(full_check=True)  # of a copy: it would put other arrays into csr
    n_rows, n_features = csr.shape
    for array in (csr.data, csr.indices, csr.indptr):
        if not array.flags.c_contiguous:
            raise TypeError("the arrays of a CSR matrix must be contiguous")
    values = address_of(csr.data, ("float32", "float64"))
    indices = address_of(csr.indices, ("int32", "int64"))
    indptr = address_of(csr.indptr, (csr.indices.dtype.name,))
    if csr.data.itemsize == 4 and csr.indices.itemsize == 4:
        rows_init_csr(X, <const float32_t *> values, <const int32_t *> indices,
                      <const int32_t *> indptr, n_rows, n_features)
    elif csr.data.itemsize == 4:
        rows_init_csr(X, <const float32_t *> values, <const int64_t *> indices,
                      <const int64_t *> indptr, n_rows, n_features)
    elif csr.indices.itemsize == 4:
        rows_init_csr(X, <const float64_t *> values, <const int32_t *> indices,
                      <const int32_t *> indptr, n_rows, n_features)
    else:
        rows_init_csr(X, <const float64_t *> values, <const int64_t *> indices,
                      <const int64_t *> indptr, n_rows, n_features)
    return 0


cdef int view_dense(Rows *X, object array) except -1:
    cdef Py_ssize_t n_rows, n_features, row_step, step, size = array.itemsize
    cdef size_t values = address_of(array, ("float32", "float64"))
    n_rows, n_features = array.shape
    row_step, step = array.strides
    if row_step % size or step % size:
        raise TypeError("the rows or columns of the array are not whole elements apart")
    if size == 4:
        rows_init_dense(X, <const float32_t *> values, n_rows, n_features,
                        row_step // size, step // size)
    else:
        rows_init_dense(X, <const float64_t *> values, n_rows, n_features,
                        row_step // size, step // size)
    return 0


cdef int view_rows(Rows *X, object matrix) except -1:
    if len(matrix.shape) != 2:
        raise ValueError(f"expected two dimensions, got {len(matrix.shape)}")
    if getattr(matrix, "format", None) == "csr":
        return view_csr(X, matrix)
    if hasattr(matrix, "__array_interface__"):
        return view_dense(X, matrix)
    raise TypeError(f"expected a CSR matrix or a numpy array, got {type(matrix).__name__}")


# ------------------------------------------------------------- expansions

cdef Expansion *expansion_new(const Kernel *kernel, Py_ssize_t n_features, Py_ssize_t n_out,
                              Py_ssize_t budget, int eviction, int flags) noexcept nogil:
    cdef Buffer *buf
    if (n_features < 0 or n_out < 1 or budget < -1 or not 0 <= eviction <= EXPANSION_CHOOSE
            or (flags & EXPANSION_SPARSE and n_features > 0x7fffffff)):
        return NULL
    buf = <Buffer *> malloc(sizeof(Buffer))
    if buf == NULL:
        return NULL
    memset(buf, 0, sizeof(Buffer))
    buf.f.struct_size = sizeof(Expansion)
    buf.f.n_out = n_out
    buf.f.budget = budget
    buf.f.scale = buf.q = 1.0
    buf.kernel = kernel[0]
    buf.store.kernel = &buf.kernel
    buf.store.d = n_features
    buf.store.f64 = flags & EXPANSION_F64 != 0
    buf.store.sparse = flags & EXPANSION_SPARSE != 0
    buf.trace = flags & EXPANSION_TRACE != 0
    buf.norm = flags & (EXPANSION_NORM | EXPANSION_TRACE) != 0
    buf.eviction = eviction
    buf.clean_b = True
    buf.work = <double *> malloc(18 * n_out * sizeof(double))
    if buf.work == NULL:
        buffer_free(buf)
        return NULL
    if eviction == EXPANSION_MERGE:
        buf.tables = engine_merge_tables()
    return &buf.f


cdef void expansion_free(Expansion *f) noexcept nogil:
    buffer_free(<Buffer *> f)


cdef Py_ssize_t expansion_count(const Expansion *f) noexcept nogil:
    return (<const Buffer *> f).store.n


cdef int expansion_row(const Expansion *f, Py_ssize_t slot, Row *x) noexcept nogil:
    if slot < 0 or slot >= (<const Buffer *> f).store.n:
        return STATUS_BAD_ARGUMENT
    slot_row(&(<const Buffer *> f).store, slot, x)
    return STATUS_OK


cdef Py_ssize_t expansion_id(const Expansion *f, Py_ssize_t slot) noexcept nogil:
    return (<const Buffer *> f).store.ids[slot]


cdef int expansion_load(Expansion *f, const Rows *X, const Py_ssize_t *order, Py_ssize_t first,
                        Py_ssize_t n, Py_ssize_t first_id) noexcept nogil:
    cdef Buffer *buf = <Buffer *> f
    cdef Py_ssize_t i, entries = 0, room = n if n > N_VICTIMS else N_VICTIMS
    cdef int status
    cdef Row row
    if X.n_features != buf.store.d or n < 0 or first < 0 or (
            order == NULL and first + n > X.n_rows) or (
            buf.eviction == EXPANSION_CHOOSE and buf.f.choose_fn == NULL):
        return STATUS_BAD_ARGUMENT
    if buf.store.sparse:
        for i in range(first, first + n):
            rows_get(X, i if order == NULL else order[i], &row)
            entries += longest_union(row.count) if joins(buf) else row.count
    expansion_release(f)
    status = buffer_reserve(buf, buf.store.n + n, entries)
    if status == STATUS_OK and not grow(&buf.column, &buf.column_room, room * sizeof(double)):
        status = STATUS_NO_MEMORY
    if status == STATUS_OK:
        status = tile_load_rows(&buf.store, &buf.tile, X, order, first, n, first_id)
    if status == STATUS_OK:
        status = sums_fill(buf, &buf.tile, &buf.block, sums_b(buf))
    if status != STATUS_OK:
        expansion_release(f)
    return status


cdef void expansion_release(Expansion *f) noexcept nogil:
    tile_release(&(<Buffer *> f).store, &(<Buffer *> f).tile)
    (<Buffer *> f).block.n = 0


cdef double expansion_self(const Expansion *f, Py_ssize_t t) noexcept nogil:
    return (<const Buffer *> f).tile.k_self[t]


cdef void expansion_score(const Expansion *f, Py_ssize_t t, double *out) noexcept nogil:
    write_scores(<const Buffer *> f, &(<const Buffer *> f).block, t, False, out)


cdef void expansion_trace_score(const Expansion *f, Py_ssize_t t, double *out) noexcept nogil:
    write_scores(<const Buffer *> f, &(<const Buffer *> f).block, t, True, out)


cdef inline double raw_score(const Buffer *buf, const Sums *sums, Py_ssize_t t, Py_ssize_t k,
                             bint trace) noexcept nogil:
    cdef double fa = sums.fa[k * sums.n + t]
    return buf.p * fa + buf.q * sums.fb[k * sums.n + t] if trace else buf.f.scale * fa


cdef inline void write_scores(const Buffer *buf, const Sums *sums, Py_ssize_t t, bint trace,
                              double *out) noexcept nogil:
    """f or z at column t, under the label kernel; without scratch, so that many may read."""
    cdef Py_ssize_t k, l, K = buf.f.n_out
    for k in range(K):
        if buf.f.kappa == NULL:
            out[k] = raw_score(buf, sums, t, k, trace)
            continue
        out[k] = 0.0
        for l in range(K):
            out[k] += buf.f.kappa[k * K + l] * raw_score(buf, sums, t, l, trace)


cdef void expansion_resum(Expansion *f, Py_ssize_t t) noexcept nogil:
    cdef Buffer *buf = <Buffer *> f
    cdef Py_ssize_t s, k, K = buf.f.n_out, n = buf.block.n
    cdef double value
    for k in range(K):
        buf.block.fa[k * n + t] = 0.0
    for s in range(buf.store.n):
        value = read_real(buf.block.kv, buf.store.f64, s * n + t)
        for k in range(K):
            buf.block.fa[k * n + t] += buf.f.coef[s * K + k] * value


cdef void expansion_shrink(Expansion *f, double factor) noexcept nogil:
    buffer_shrink(<Buffer *> f, factor, 1.0, 0.0)
    f.sq_norm *= factor * factor


cdef void expansion_trace_shrink(Expansion *f, double factor, double decay,
                                 double eta_reg) noexcept nogil:
    buffer_shrink(<Buffer *> f, factor, decay, eta_reg)


cdef int expansion_insert(Expansion *f, Py_ssize_t t, const double *alpha) noexcept nogil:
    cdef Buffer *buf = <Buffer *> f
    cdef Py_ssize_t k, K = f.n_out
    cdef double *none = buf.work + 16 * K
    cdef double *score = buf.work + 17 * K
    cdef double before = f.sq_norm
    cdef int status
    memset(none, 0, K * sizeof(double))
    if buf.norm:
        expansion_score(f, t, score)
        for k in range(K):
            f.sq_norm += 2.0 * alpha[k] * score[k]
        f.sq_norm += buf.tile.k_self[t] * kappa_dot(f.kappa, K, alpha, alpha)
    status = buffer_insert(buf, t, alpha, none)
    if status != STATUS_OK:
        f.sq_norm = before
    return status


cdef int expansion_trace_insert(Expansion *f, Py_ssize_t t, const double *alpha,
                                const double *beta) noexcept nogil:
    return buffer_insert(<Buffer *> f, t, alpha, beta)


cdef int scores_of(const Buffer *buf, const Rows *X, Py_ssize_t first, Py_ssize_t n, bint trace,
                   double *out) noexcept nogil:
    cdef Tile tile
    cdef Sums sums
    cdef Py_ssize_t i = 0, b, m
    cdef int status = STATUS_OK
    if X.n_features != buf.store.d or first < 0 or n < 0 or first + n > X.n_rows:
        return STATUS_BAD_ARGUMENT
    memset(&tile, 0, sizeof(Tile))
    memset(&sums, 0, sizeof(Sums))
    if buf.store.sparse:    # a new map takes longer than the scores of a few rows
        tile.map = <int32_t *> osvm_swap(&buf.spare_map, NULL)
        tile.map_size = 0 if tile.map == NULL else buf.store.d
    while i < n and status == STATUS_OK:
        m = n - i if n - i < SCORE_BLOCK else SCORE_BLOCK
        status = tile_load_rows(&buf.store, &tile, X, NULL, first + i, m, 0)
        if status == STATUS_OK:
            status = sums_fill(buf, &tile, &sums, trace)
        tile_release(&buf.store, &tile)
        if status == STATUS_OK:
            for b in range(m):
                write_scores(buf, &sums, b, trace, out + (i + b) * buf.f.n_out)
        i += m
    if buf.store.sparse and buf.store.d <= SPARE and status == STATUS_OK:
        tile.map = <int32_t *> osvm_swap(&buf.spare_map, tile.map)
    tile_free(&tile)
    sums_free(&sums)
    return status


cdef int expansion_scores(const Expansion *f, const Rows *X, Py_ssize_t first, Py_ssize_t n,
                          double *out) noexcept nogil:
    return scores_of(<const Buffer *> f, X, first, n, False, out)


cdef int expansion_trace_scores(const Expansion *f, const Rows *X, Py_ssize_t first,
                                Py_ssize_t n, double *out) noexcept nogil:
    return scores_of(<const Buffer *> f, X, first, n, True, out)


# ------------------------------------------------------------- the library's buffer

cdef int engine_reserve(Buffer *buf, Py_ssize_t slots, Py_ssize_t more) noexcept nogil:
    return buffer_reserve(buf, slots, more)


cdef int engine_reserve_victims(Buffer *buf) noexcept nogil:
    return STATUS_OK if sums_reserve(buf, &buf.victims, N_VICTIMS) else STATUS_NO_MEMORY


cdef int engine_set_outputs(Buffer *buf, Py_ssize_t n_out) noexcept nogil:
    """Another number of outputs; all coefficients are 0 afterwards."""
    if not (resize(<void **> &buf.f.coef, n_out * sizeof(double), 0, buf.capacity)
            and resize(<void **> &buf.B, n_out * sizeof(double), 0, buf.capacity)
            and resize(<void **> &buf.work, 18 * n_out * sizeof(double), 0, 1)):
        return STATUS_NO_MEMORY
    buf.f.n_out = n_out
    buf.n_victims = 0
    return STATUS_OK


cdef void engine_measure(Buffer *buf) noexcept nogil:
    """The sizes of all terms."""
    cdef Py_ssize_t s
    for s in range(buf.store.n):
        buf.size[s] = slot_size(buf, s)


cdef void engine_fold_beta(Buffer *buf) noexcept nogil:
    fold_beta(buf, False)


cdef void engine_average(Buffer *buf, double rho) noexcept nogil:
    buffer_average(buf, rho)


cdef double tables[3 * TABLE_M * TABLE_K]
cdef bint tables_known = False


cdef const double *engine_merge_tables() noexcept nogil:
    global tables_known
    with gil:       # one thread fills them
        if not tables_known:
            merge_tables_fill(tables)
            tables_known = True
    return tables


cdef double engine_merge_share(double m, double k) noexcept nogil:
    return look_up(engine_merge_tables(), m, k)


# ------------------------------------------------------------- a fixed set

cdef Fixed *fixed_new(const Kernel *kernel, const Rows *X, Py_ssize_t n_out, bint float64,
                      double cache_bytes, double *alpha, double *outputs) noexcept nogil:
    cdef FixedSet *s = NULL
    cdef bint sparse = X.indices != NULL
    if n_out < 1 or X.n_rows < 1 or (alpha == NULL) != (outputs == NULL):
        return NULL
    s = fixed_set_new(NULL, X.n_rows, alpha, outputs, n_out)
    if s == NULL:
        return NULL
    s.kernel = kernel[0]
    if (row_set_init(&s.own_rows, &s.kernel, X, NULL, X.n_rows, float64, sparse, True) < 0
            or cache_init(&s.own_cache, X.n_rows, float64, s.own_rows.store.near, cache_bytes,
                          -1) < 0):
        fixed_set_free(s)
        return NULL
    s.own_cache.rows = &s.own_rows
    return &s.f


cdef void fixed_free(Fixed *f) noexcept nogil:
    fixed_set_free(<FixedSet *> f)


cdef int fixed_load(Fixed *f, const Py_ssize_t *rows, Py_ssize_t count) noexcept nogil:
    if count < 0 or count > FIXED_BLOCK:
        return STATUS_BAD_ARGUMENT
    return fixed_set_load(<FixedSet *> f, rows, count)


cdef int fixed_flush(Fixed *f, Py_ssize_t m) noexcept nogil:
    return fixed_set_flush(<FixedSet *> f, f.n if m < 0 or m > f.n else m)


cdef FixedSet *columns_fixed(ColumnCache *cache, double *alpha, double *outputs,
                             Py_ssize_t n_out) noexcept nogil:
    return fixed_set_new(cache, cache.n, alpha, outputs, n_out)


cdef int columns_init(ColumnCache *cache, Py_ssize_t n, bint wide, bint near, double cache_bytes,
                      Py_ssize_t most) noexcept nogil:
    return cache_init(cache, n, wide, near, cache_bytes, most)


cdef void columns_free(ColumnCache *cache) noexcept nogil:
    cache_free(cache)


cdef int columns_fetch(ColumnCache *cache, const Py_ssize_t *columns, Py_ssize_t count,
                       Py_ssize_t m, void **out) noexcept nogil:
    return cache_fetch(cache, columns, count, m, out)


cdef int columns_gram(ColumnCache *cache, const Py_ssize_t *rows, Py_ssize_t count,
                      double *out) noexcept nogil:
    return cache_gram(cache, rows, count, out)


cdef void columns_combine(const ColumnCache *cache, double *o, Py_ssize_t m, void **columns,
                          const double *delta, Py_ssize_t count) noexcept nogil:
    cache_combine(cache, o, m, columns, delta, count)


cdef void columns_touch(ColumnCache *cache, Py_ssize_t slot) noexcept nogil:
    cache_touch(cache, slot)


cdef int rows_init(RowSet *rows, const Kernel *kernel, const Rows *X, const Py_ssize_t *order,
                   Py_ssize_t n, bint f64, bint sparse, bint near) noexcept nogil:
    return row_set_init(rows, kernel, X, order, n, f64, sparse, near)


cdef void rows_free(RowSet *rows) noexcept nogil:
    row_set_free(rows)


cdef int rows_cross(RowSet *rows, RowSet *others, const Py_ssize_t *columns, Py_ssize_t count,
                    Py_ssize_t start, Py_ssize_t stop, double offset, void **out) noexcept nogil:
    return row_set_cross(rows, others, columns, count, start, stop, offset, out)


cdef int rows_against(RowSet *rows, const Rows *X, Py_ssize_t n, void *out) noexcept nogil:
    return row_set_against(rows, X, n, out)
