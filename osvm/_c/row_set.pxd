# Rows that do not change, and kernel values of some of them against all.
#
# Invariants
# - dense rows of the values' type that lie one after the other are not copied, nor are sparse
#   ones: what `X` and `order` point at outlives the set;
# - one thread at a time: the tile and the block are scratch.
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from osvm._c.blocks cimport (
    CHUNK, MAX_BLOCK, columns_of, gram_of, read_column, tile_load_rows, tile_load_slots,
)
from osvm._c.products cimport dense_block
from osvm._c.row_copies cimport row_to_dense
from osvm._c.store cimport real_size, tile_free, tile_release
from osvm._c.structs cimport RowSet, Store, Tile
from osvm.core.kernel cimport KERNEL_PRECOMPUTED, KERNEL_RBF
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F64_DENSE, STATUS_BAD_ARGUMENT, STATUS_NO_MEMORY, STATUS_OK, Kernel, Row,
    Rows,
)

cdef extern from *:
    ctypedef const float *const_float_p "const float *"
    ctypedef const double *const_double_p "const double *"

cdef extern from "../_c/columns.h" nogil:
    void osvm_rbf_sum_f32(double *o, Py_ssize_t n, Py_ssize_t d, const float *xt, Py_ssize_t ld,
                          const const_float_p *z, const double *delta, Py_ssize_t count,
                          float gamma)
    void osvm_rbf_sum_f64(double *o, Py_ssize_t n, Py_ssize_t d, const double *xt,
                          Py_ssize_t ld, const const_double_p *z, const double *delta,
                          Py_ssize_t count, double gamma)

cdef enum:
    NEAR = 8          # rbf: up to so many features, distances are computed directly
    LOAD = 256        # rows in a tile that this file loads
    AGAINST_DENSE = 1024    # the same where one product takes them all

cdef inline void row_set_free(RowSet *rows) noexcept nogil:
    tile_free(&rows.tile)
    free(rows.block)
    free(rows.store.sq)
    free(rows.store.k_self)
    free(rows.store.turned)
    free(rows.store.row_values)
    free(rows.store.row_columns)
    if rows.own_rows:
        free(rows.store.X)
    memset(rows, 0, sizeof(RowSet))


cdef inline int row_set_load(RowSet *rows, const Rows *X) noexcept nogil:
    """Norms of all rows, and copies of them where they are this struct's own."""
    cdef Store *store = &rows.store
    cdef Tile *tile = &rows.tile
    cdef Py_ssize_t first = 0, m
    cdef size_t size = real_size(store)
    cdef int status = STATUS_OK
    while first < store.n and status == STATUS_OK:
        m = store.n - first if store.n - first < LOAD else LOAD
        status = tile_load_rows(store, tile, X, store.order, first, m, 0)
        if status == STATUS_OK:
            memcpy(<char *> store.sq + first * size, tile.sq, m * size)
            memcpy(store.k_self + first, tile.k_self, m * sizeof(double))
            if rows.own_rows and store.d > 0:
                memcpy(<char *> store.X + first * store.d * size, tile.X, m * store.d * size)
        tile_release(store, tile)
        first += m
    return status


cdef inline void row_set_turn(Store *store) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(store.n):
        for j in range(store.d):
            if store.f64:
                (<double *> store.turned)[j * store.n + i] = (<double *> store.X)[i * store.d + j]
            else:
                (<float *> store.turned)[j * store.n + i] = (<float *> store.X)[i * store.d + j]


cdef inline int row_set_init(RowSet *rows, const Kernel *kernel, const Rows *X,
                             const Py_ssize_t *order, Py_ssize_t n, bint f64, bint sparse,
                             bint near) noexcept nogil:
    """Slot p stands for row order[p] of X (NULL: row p), for n slots.

    `near` asks for distances where they are cheaper than products (rbf in few dimensions).  A
    precomputed X is the square matrix of the slots.  A Status; after an error nothing is held.
    """
    cdef Store *store = &rows.store
    cdef bint precomputed = kernel.kind == KERNEL_PRECOMPUTED
    cdef Py_ssize_t i, longest = 0
    cdef size_t size = sizeof(double) if f64 else sizeof(float)
    cdef Row x
    memset(rows, 0, sizeof(RowSet))
    if (sparse and X.n_features > 0x7fffffff) or (precomputed and (
            X.n_features != n or order != NULL or sparse or X.indices != NULL)):
        return STATUS_BAD_ARGUMENT
    store.kernel = kernel
    store.f64 = f64
    store.sparse = sparse
    store.d = X.n_features
    store.n = n
    store.order = order
    store.sq = malloc(n * size + 1)
    store.k_self = <double *> malloc(n * sizeof(double) + 1)
    rows.block = malloc(MAX_BLOCK * CHUNK * size)
    if sparse:
        for i in range(n):
            rows_get(X, i if order == NULL else order[i], &x)
            longest = x.count if x.count > longest else longest
        store.rows = X
        store.row_values = malloc((longest + 1) * size)
        store.row_columns = <int32_t *> malloc((longest + 1) * sizeof(int32_t))
    elif (order == NULL and X.kind == (ROW_F64_DENSE if f64 else ROW_F32_DENSE) and X.step == 1
            and (X.row_step == X.n_features or n < 2) and X.row_scale == NULL):
        store.X = <void *> X.values
    else:
        rows.own_rows = True
        store.X = malloc(n * store.d * size + 1)
    store.near = near and not sparse and kernel.kind == KERNEL_RBF and store.d <= NEAR
    if store.near:
        store.turned = malloc(n * store.d * size + 1)
    if (store.sq == NULL or store.k_self == NULL or rows.block == NULL
            or (sparse and (store.row_values == NULL or store.row_columns == NULL))
            or (rows.own_rows and store.X == NULL) or (store.near and store.turned == NULL)
            or (not precomputed and row_set_load(rows, X) < 0)):
        row_set_free(rows)
        return STATUS_NO_MEMORY
    if precomputed:
        for i in range(n):
            if rows.own_rows:   # of another type or order: row by row
                rows_get(X, i, &x)
                if f64:
                    row_to_dense(&x, n, <double *> store.X + i * n)
                else:
                    row_to_dense(&x, n, <float *> store.X + i * n)
            store.k_self[i] = ((<double *> store.X)[i * n + i] if f64
                               else (<float *> store.X)[i * n + i])
    if store.near:
        row_set_turn(store)
    return STATUS_OK


cdef inline int row_set_cross(RowSet *rows, RowSet *others, const Py_ssize_t *columns,
                              Py_ssize_t count, Py_ssize_t start, Py_ssize_t stop, double offset,
                              void **out) noexcept nogil:
    """out[b][s - start] = k(x_column of `others`, x_s) + offset; -1 when memory is short.

    For at most MAX_BLOCK columns, which are slots, and slots start .. stop - 1.  Both sets have
    the same kernel, features, type and sparseness; none is precomputed.
    """
    cdef int status = tile_load_slots(&others.store, &rows.tile, columns, count)
    if status == STATUS_OK:
        row_set_spread(rows, start, stop, offset, out)
    tile_release(&rows.store, &rows.tile)
    return status


cdef inline int row_set_values(RowSet *rows, const Py_ssize_t *columns, Py_ssize_t count,
                               Py_ssize_t start, Py_ssize_t stop, double offset,
                               void **out) noexcept nogil:
    """`row_set_cross` of the set with itself; precomputed values too."""
    cdef Store *store = &rows.store
    cdef Py_ssize_t b
    if store.kernel.kind == KERNEL_PRECOMPUTED:
        for b in range(count):
            if store.f64:
                read_column(<double *> store.X + columns[b] * store.d, start, stop, offset,
                            <double *> out[b])
            else:
                read_column(<float *> store.X + columns[b] * store.d, start, stop,
                            <float> offset, <float *> out[b])
        return STATUS_OK
    return row_set_cross(rows, rows, columns, count, start, stop, offset, out)


cdef inline void row_set_spread(RowSet *rows, Py_ssize_t start, Py_ssize_t stop, double offset,
                                void **out) noexcept nogil:
    """The loaded tile against slots start .. stop - 1."""
    if rows.store.f64:
        columns_of(&rows.store, &rows.tile, start, stop, offset, <double *> rows.block, out)
    else:
        columns_of(&rows.store, &rows.tile, start, stop, <float> offset, <float *> rows.block,
                   out)


cdef inline int row_set_gram(RowSet *rows, const Py_ssize_t *columns, Py_ssize_t count,
                             void *out) noexcept nogil:
    """out[a * count + b] = k(x_a, x_b) of these slots; -1 when memory is short."""
    cdef int status = tile_load_slots(&rows.store, &rows.tile, columns, count)
    if status == STATUS_OK:
        if rows.store.f64:
            gram_of(&rows.store, &rows.tile, <double *> out)
        else:
            gram_of(&rows.store, &rows.tile, <float *> out)
    tile_release(&rows.store, &rows.tile)
    return status


cdef inline void row_set_add(RowSet *rows, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                             const double *delta, Py_ssize_t count) noexcept nogil:
    """o[s] += sum_b delta[b] k(x_b, x_s) for s < m, without storing a value (`near`)."""
    cdef const_float_p narrow[MAX_BLOCK]
    cdef const_double_p wide[MAX_BLOCK]
    cdef Store *store = &rows.store
    cdef Py_ssize_t k
    if store.f64:
        for k in range(count):
            wide[k] = <double *> store.X + columns[k] * store.d
        osvm_rbf_sum_f64(o, m, store.d, <double *> store.turned, store.n, wide, delta, count,
                         store.kernel.gamma)
    else:
        for k in range(count):
            narrow[k] = <float *> store.X + columns[k] * store.d
        osvm_rbf_sum_f32(o, m, store.d, <float *> store.turned, store.n, narrow, delta,
                         count, <float> store.kernel.gamma)


cdef inline void row_set_write(RowSet *rows, void *out, Py_ssize_t start) noexcept nogil:
    """The loaded tile against slots from `start` on, as rows of a matrix."""
    cdef Store *store = &rows.store
    cdef Tile *tile = &rows.tile
    cdef void *lines[LOAD]
    cdef Py_ssize_t b
    if store.sparse or store.near:
        for b in range(tile.n):
            lines[b] = <char *> out + b * store.n * real_size(store)
        row_set_spread(rows, start, store.n, 0.0, lines)
    elif store.f64:
        dense_block(store.kernel, <double *> tile.X, tile.n, <double *> tile.sq,
                    <double *> store.X + start * store.d, store.n - start,
                    <double *> store.sq + start, store.d, <double *> out, store.n)
    else:
        dense_block(store.kernel, <float *> tile.X, tile.n, <float *> tile.sq,
                    <float *> store.X + start * store.d, store.n - start,
                    <float *> store.sq + start, store.d, <float *> out, store.n)


cdef inline void mirror(void *values, bint f64, Py_ssize_t n, Py_ssize_t first,
                        Py_ssize_t m) noexcept nogil:
    """Copy what rows first .. first + m - 1 have right of the diagonal block to the columns."""
    cdef Py_ssize_t i, j
    cdef double *wide = <double *> values
    cdef float *narrow = <float *> values
    for j in range(first + m, n):
        for i in range(first, first + m):
            if f64:
                wide[j * n + i] = wide[i * n + j]
            else:
                narrow[j * n + i] = narrow[i * n + j]


cdef inline int row_set_against(RowSet *rows, const Rows *X, Py_ssize_t n,
                                void *out) noexcept nogil:
    """out[i, s] = k(row i of X, x_s); of the slots themselves where X is NULL."""
    cdef Store *store = &rows.store
    cdef Py_ssize_t first = 0, m, start, b, most = AGAINST_DENSE
    cdef Py_ssize_t slots[LOAD]
    cdef size_t size = real_size(store)
    cdef int status = STATUS_OK
    if X == NULL or store.sparse or store.near:
        most = LOAD
    while first < n and status == STATUS_OK and store.n:
        m = n - first if n - first < most else most
        start = first if X == NULL else 0  # what lies before is known: the matrix is symmetric
        if X == NULL:
            for b in range(m):
                slots[b] = first + b
            status = tile_load_slots(store, &rows.tile, slots, m)
        else:
            status = tile_load_rows(store, &rows.tile, X, NULL, first, m, 0)
        if status == STATUS_OK:
            row_set_write(rows, <char *> out + (first * store.n + start) * size, start)
            if X == NULL:
                mirror(out, store.f64, n, first, m)
        tile_release(store, &rows.tile)
        first += m
    return status
