# Loading a tile: copies of rows, laid out for products, with their norms and k(x, x).
#
# Pieces of tile_load_rows and tile_load_slots (blocks.pxd).  Norms are right also with
# repeated columns, and summed in double.
from libc.math cimport NAN
from libc.stddef cimport size_t
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from osvm._c.structs cimport Store, Tile
from osvm._c.store cimport grow, real_size
from osvm._c.row_copies cimport row_to_dense, row_to_sparse
from osvm.core.kernel cimport KERNEL_CUSTOM, KERNEL_PRECOMPUTED, kernel_self
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F64_DENSE, ROW_F64_I32, Row, weight_t,
)

cdef enum:
    ROOM_X = 0
    ROOM_VALUES = 1
    ROOM_COLUMNS = 2
    ROOM_START = 3
    ROOM_D = 4
    ROOM_SQ = 5
    ROOM_SELF = 6
    ROOM_IDS = 7
    ROOM_TURNED = 8


cdef inline bint tile_reserve(const Store *store, Tile *tile, Py_ssize_t n,
                              Py_ssize_t nnz) noexcept nogil:
    """Room for n columns with nnz entries in all."""
    cdef size_t size = real_size(store)
    cdef bint good
    good = (grow(&tile.sq, &tile.room[ROOM_SQ], n * size)
            and grow(<void **> &tile.k_self, &tile.room[ROOM_SELF], n * sizeof(double))
            and grow(<void **> &tile.ids, &tile.room[ROOM_IDS], n * sizeof(Py_ssize_t)))
    if not store.sparse:
        good = good and grow(&tile.X, &tile.room[ROOM_X], n * store.d * size)
        if store.near:
            good = good and grow(&tile.turned, &tile.room[ROOM_TURNED], n * store.d * size)
        return good
    good = (good and grow(&tile.values, &tile.room[ROOM_VALUES], nnz * size)
            and grow(<void **> &tile.columns, &tile.room[ROOM_COLUMNS], nnz * sizeof(int32_t))
            and grow(<void **> &tile.start, &tile.room[ROOM_START],
                     (n + 1) * sizeof(Py_ssize_t)))
    if good and tile.map_size < store.d:
        free(tile.map)
        tile.map = <int32_t *> calloc(store.d, sizeof(int32_t))
        tile.map_size = store.d if tile.map != NULL else 0
        good = tile.map != NULL
    return good


# ------------------------------------------------------------- stored rows

cdef inline Py_ssize_t stored_index(const Store *store, Py_ssize_t s) noexcept nogil:
    """Row of `store.rows` behind slot s."""
    return s if store.order == NULL else store.order[s]


cdef inline Py_ssize_t slot_length(const Store *store, Py_ssize_t s) noexcept nogil:
    """Entries of a sparse slot at most."""
    cdef Row x
    if store.rows == NULL:
        return store.length[s]
    rows_get(store.rows, stored_index(store, s), &x)
    return x.count


cdef inline Py_ssize_t slot_entries(const Store *store, Py_ssize_t s, const weight_t **values,
                                    const int32_t **columns) noexcept nogil:
    """Point at the entries of a sparse slot, converted if need be; their number."""
    cdef Row x
    if store.rows == NULL:
        values[0] = <const weight_t *> store.values + store.start[s]
        columns[0] = store.columns + store.start[s]
        return store.length[s]
    rows_get(store.rows, stored_index(store, s), &x)
    if x.scale == 1.0 and x.kind == (ROW_F64_I32 if store.f64 else ROW_F32_I32):
        values[0] = <const weight_t *> x.values
        columns[0] = <const int32_t *> x.indices
        return x.count
    values[0] = <const weight_t *> store.row_values
    columns[0] = store.row_columns
    return row_to_sparse(&x, store.row_columns, <weight_t *> store.row_values)


cdef inline void point_row(const Store *store, Row *x, const void *values, const int32_t *columns,
                           Py_ssize_t count) noexcept nogil:
    x.struct_size = sizeof(Row)
    x.step = 1
    x.scale = 1.0
    x.values = values
    x.indices = columns
    x.count = count
    if columns == NULL:
        x.kind = ROW_F64_DENSE if store.f64 else ROW_F32_DENSE
    else:
        x.kind = ROW_F64_I32 if store.f64 else ROW_F32_I32


cdef inline void slot_row(const Store *store, Py_ssize_t s, Row *x) noexcept nogil:
    """Slot s as a row."""
    cdef size_t size = real_size(store)
    if store.sparse:
        point_row(store, x, <char *> store.values + store.start[s] * size,
                  store.columns + store.start[s], store.length[s])
    else:
        point_row(store, x, <char *> store.X + s * store.d * size, NULL, store.d)


cdef inline void tile_row(const Store *store, const Tile *tile, Py_ssize_t b,
                          Row *x) noexcept nogil:
    """Column b as a row."""
    cdef size_t size = real_size(store)
    if store.sparse:
        point_row(store, x, <char *> tile.values + tile.start[b] * size,
                  tile.columns + tile.start[b], tile.start[b + 1] - tile.start[b])
    else:
        point_row(store, x, <char *> tile.X + b * store.d * size, NULL, store.d)


# ------------------------------------------------------------- loading a tile

cdef inline bint lay_out(const Store *store, Tile *tile, const weight_t *values) noexcept nogil:
    """Number the block's features and spread its entries over D; False without memory."""
    cdef Py_ssize_t b, k, n = tile.n, n_features = 0, width
    cdef size_t need
    cdef weight_t *D
    # whole vectors, so that a walk over all of them has no remainder
    width = tile.width = n if n == 1 else (n + 7) // 8 * 8
    for k in range(tile.start[n]):
        if tile.map[tile.columns[k]] == 0:
            n_features += 1
            tile.map[tile.columns[k]] = <int32_t> n_features
    need = (n_features + 1) * width * sizeof(weight_t)
    if not grow(&tile.D, &tile.room[ROOM_D], need):
        return False
    memset(tile.D, 0, need)
    D = <weight_t *> tile.D
    for b in range(n):
        for k in range(tile.start[b], tile.start[b + 1]):
            D[tile.map[tile.columns[k]] * width + b] += values[k]
    return True


cdef inline void turn(const weight_t *X, Py_ssize_t n, Py_ssize_t d, weight_t *out) noexcept nogil:
    """out[j * n + b] = X[b * d + j]"""
    cdef Py_ssize_t b, j
    for b in range(n):
        for j in range(d):
            out[j * n + b] = X[b * d + j]


cdef inline bint arrange(const Store *store, Tile *tile) noexcept nogil:
    """Bring the loaded columns into the order that products want; False without memory."""
    if store.sparse:
        return (lay_out(store, tile, <double *> tile.values) if store.f64
                else lay_out(store, tile, <float *> tile.values))
    if store.near:
        if store.f64:
            turn(<double *> tile.X, tile.n, store.d, <double *> tile.turned)
        else:
            turn(<float *> tile.X, tile.n, store.d, <float *> tile.turned)
    return True


cdef inline double dense_norm(const weight_t *x, Py_ssize_t d) noexcept nogil:
    """||x||^2, summed in double."""
    cdef Py_ssize_t k = 0
    cdef double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0
    while k + 4 <= d:
        s0 += <double> x[k] * <double> x[k]
        s1 += <double> x[k + 1] * <double> x[k + 1]
        s2 += <double> x[k + 2] * <double> x[k + 2]
        s3 += <double> x[k + 3] * <double> x[k + 3]
        k += 4
    while k < d:
        s0 += <double> x[k] * <double> x[k]
        k += 1
    return (s0 + s1) + (s2 + s3)


cdef inline void measure(const Store *store, Tile *tile, const weight_t *X, const weight_t *values,
                         const weight_t *D, weight_t *sq) noexcept nogil:
    """Norms and k(x, x) of the columns of an arranged tile."""
    cdef Py_ssize_t b, k
    cdef double norm
    cdef Row x
    for b in range(tile.n):
        if store.sparse:  # through D, where repeated columns have been added up
            norm = 0.0
            for k in range(tile.start[b], tile.start[b + 1]):
                norm += (<double> values[k]
                         * <double> D[tile.map[tile.columns[k]] * tile.width + b])
        else:
            norm = dense_norm(X + b * store.d, store.d)
        sq[b] = <weight_t> norm
        if store.kernel.kind == KERNEL_PRECOMPUTED:
            tile.k_self[b] = read_entry(store, tile, b, tile.ids[b])
        elif store.kernel.kind == KERNEL_CUSTOM:
            tile_row(store, tile, b, &x)
            tile.k_self[b] = store.kernel.kernel_fn(&x, &x, store.kernel.user)
        else:
            tile.k_self[b] = kernel_self(store.kernel, norm)


cdef inline double read_entry(const Store *store, const Tile *tile, Py_ssize_t b,
                              Py_ssize_t column) noexcept nogil:
    """An entry of a precomputed kernel's row; NaN past its end."""
    if column < 0 or column >= store.d:
        return NAN
    if store.f64:
        return (<double *> tile.X)[b * store.d + column]
    return (<float *> tile.X)[b * store.d + column]


cdef inline void load_row(const Store *store, Tile *tile, Py_ssize_t b, const Row *x, weight_t *X,
                          weight_t *values) noexcept nogil:
    if store.sparse:
        tile.start[b + 1] = tile.start[b] + row_to_sparse(x, tile.columns + tile.start[b],
                                                          values + tile.start[b])
    else:
        row_to_dense(x, store.d, X + b * store.d)


cdef inline void load_slot(const Store *store, Tile *tile, Py_ssize_t b, Py_ssize_t s,
                           weight_t *X) noexcept nogil:
    cdef const weight_t *values = NULL
    cdef const int32_t *columns = NULL
    cdef Py_ssize_t count
    (<weight_t *> tile.sq)[b] = (<weight_t *> store.sq)[s]
    if not store.sparse:
        memcpy(X + b * store.d, <weight_t *> store.X + s * store.d, store.d * sizeof(weight_t))
        return
    count = slot_entries(store, s, &values, &columns)
    memcpy(<weight_t *> tile.values + tile.start[b], values, count * sizeof(weight_t))
    memcpy(tile.columns + tile.start[b], columns, count * sizeof(int32_t))
    tile.start[b + 1] = tile.start[b] + count
