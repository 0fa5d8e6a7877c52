"""Rows kept by a kernel machine, and blocks of kernel values against them.

A block takes B columns (examples, or slots that may be evicted) and gives the kernel of
every slot with every column, slot-major: out[s * B + b].  Dense rows go through one gemm
of BLAS, sparse ones through a tile: the block's features are numbered 1, 2, ..., their
values laid out B to a row, and each stored row walks its entries through that tile.  A
sparse store therefore costs its non-zeros, and no dense matrix of all features exists.

Invariants
- rows are kept in one type, float32 or float64, and kernel values come in that type;
- `store.sq` and `tile.sq` are ||x||^2 in that type, right also with repeated columns;
- a tile that was loaded is released before it is loaded again (its feature map is zero
  between blocks), and nothing here needs the GIL.
"""
from libc.math cimport NAN
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from scipy.linalg.cython_blas cimport dgemm, dgemv, sgemm, sgemv

from osvm.core.kernel cimport (
    KERNEL_CUSTOM, KERNEL_PRECOMPUTED, kernel_from_dots, kernel_self, kernel_uses_dots,
)
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Kernel, Row,
    Rows, float32_t, float64_t, index_t, value_t, weight_t,
)

cdef extern from "../_c/expand.h" nogil:
    void osvm_tiledot_f32(const float *v, const int32_t *j, Py_ssize_t count,
                          const int32_t *map, const float *tile, Py_ssize_t n, float *out)
    void osvm_tiledot_f64(const double *v, const int32_t *j, Py_ssize_t count,
                          const int32_t *map, const double *tile, Py_ssize_t n, double *out)

cdef enum:
    ROOM_X = 0
    ROOM_VALUES = 1
    ROOM_COLUMNS = 2
    ROOM_START = 3
    ROOM_D = 4
    ROOM_SQ = 5
    ROOM_SELF = 6
    ROOM_IDS = 7


cdef bint grow(void **memory, size_t *room, size_t need) noexcept nogil:
    """Make room for `need` bytes; False when there is none."""
    cdef void *larger
    if need <= room[0]:
        return True
    need += need // 2
    larger = realloc(memory[0], need)
    if larger == NULL:
        return False
    memory[0] = larger
    room[0] = need
    return True


cdef void tile_free(Tile *tile) noexcept nogil:
    free(tile.X)
    free(tile.values)
    free(tile.columns)
    free(tile.start)
    free(tile.D)
    free(tile.map)
    free(tile.sq)
    free(tile.k_self)
    free(tile.ids)
    memset(tile, 0, sizeof(Tile))


cdef bint tile_reserve(const Store *store, Tile *tile, Py_ssize_t n,
                       Py_ssize_t nnz) noexcept nogil:
    """Room for n columns with nnz entries in all."""
    cdef size_t size = sizeof(double) if store.f64 else sizeof(float)
    cdef bint good
    cdef size_t map_bytes = 0
    good = (grow(&tile.sq, &tile.room[ROOM_SQ], n * size)
            and grow(<void **> &tile.k_self, &tile.room[ROOM_SELF], n * sizeof(double))
            and grow(<void **> &tile.ids, &tile.room[ROOM_IDS], n * sizeof(Py_ssize_t)))
    if not store.sparse:
        return good and grow(&tile.X, &tile.room[ROOM_X], n * store.d * size)
    good = (good and grow(&tile.values, &tile.room[ROOM_VALUES], nnz * size)
            and grow(<void **> &tile.columns, &tile.room[ROOM_COLUMNS], nnz * sizeof(int32_t))
            and grow(<void **> &tile.start, &tile.room[ROOM_START],
                     (n + 1) * sizeof(Py_ssize_t)))
    if good and tile.map_size < store.d:
        map_bytes = tile.map_size * sizeof(int32_t)
        good = grow(<void **> &tile.map, &map_bytes, store.d * sizeof(int32_t))
        if good:
            memset(tile.map, 0, store.d * sizeof(int32_t))
            tile.map_size = store.d
    return good


# ------------------------------------------------------- rows of any kind, copied

cdef void copy_dense(const value_t *x, Py_ssize_t step, Py_ssize_t n, double scale,
                     weight_t *out) noexcept nogil:
    cdef Py_ssize_t k
    if step == 1 and scale == 1.0:
        if value_t is weight_t:
            memcpy(out, x, n * sizeof(weight_t))
        else:
            for k in range(n):
                out[k] = <weight_t> x[k]
    else:
        for k in range(n):
            out[k] = <weight_t> (scale * x[k * step])


cdef void scatter(const value_t *x, const index_t *j, Py_ssize_t n, double scale,
                  Py_ssize_t d, weight_t *out) noexcept nogil:
    cdef Py_ssize_t k
    memset(out, 0, d * sizeof(weight_t))
    for k in range(n):
        out[j[k]] += <weight_t> (scale * x[k])


cdef void row_to_dense(const Row *x, Py_ssize_t d, weight_t *out) noexcept nogil:
    if x.kind == ROW_F32_DENSE:
        copy_dense(<const float32_t *> x.values, x.step, d, x.scale, out)
    elif x.kind == ROW_F64_DENSE:
        copy_dense(<const float64_t *> x.values, x.step, d, x.scale, out)
    elif x.kind == ROW_F32_I32:
        scatter(<const float32_t *> x.values, <const int32_t *> x.indices, x.count, x.scale, d,
                out)
    elif x.kind == ROW_F64_I32:
        scatter(<const float64_t *> x.values, <const int32_t *> x.indices, x.count, x.scale, d,
                out)
    elif x.kind == ROW_F32_I64:
        scatter(<const float32_t *> x.values, <const int64_t *> x.indices, x.count, x.scale, d,
                out)
    else:
        scatter(<const float64_t *> x.values, <const int64_t *> x.indices, x.count, x.scale, d,
                out)


cdef Py_ssize_t copy_sparse(const value_t *x, const index_t *j, Py_ssize_t n, double scale,
                            int32_t *columns, weight_t *out) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        columns[k] = <int32_t> j[k]
        out[k] = <weight_t> (scale * x[k])
    return n


cdef Py_ssize_t drop_zeros(const value_t *x, Py_ssize_t step, Py_ssize_t n, double scale,
                           int32_t *columns, weight_t *out) noexcept nogil:
    cdef Py_ssize_t k, count = 0
    for k in range(n):
        if x[k * step] != 0:
            columns[count] = <int32_t> k
            out[count] = <weight_t> (scale * x[k * step])
            count += 1
    return count


cdef Py_ssize_t row_to_sparse(const Row *x, int32_t *columns, weight_t *out) noexcept nogil:
    """Entries of the row; their number."""
    if x.kind == ROW_F32_I32:
        return copy_sparse(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F64_I32:
        return copy_sparse(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F32_I64:
        return copy_sparse(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F64_I64:
        return copy_sparse(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                           x.scale, columns, out)
    if x.kind == ROW_F32_DENSE:
        return drop_zeros(<const float32_t *> x.values, x.step, x.count, x.scale, columns, out)
    return drop_zeros(<const float64_t *> x.values, x.step, x.count, x.scale, columns, out)


# ------------------------------------------------------------- loading a tile

cdef void finish_dense(const Store *store, Tile *tile, weight_t *X, weight_t *sq) noexcept nogil:
    """Norms of the columns, with the sum in double."""
    cdef Py_ssize_t b, k, d = store.d
    cdef double s0, s1, s2, s3
    cdef const weight_t *x
    for b in range(tile.n):
        s0 = s1 = s2 = s3 = 0.0
        x = X + b * d
        k = 0
        while k + 4 <= d:
            s0 += <double> x[k] * <double> x[k]
            s1 += <double> x[k + 1] * <double> x[k + 1]
            s2 += <double> x[k + 2] * <double> x[k + 2]
            s3 += <double> x[k + 3] * <double> x[k + 3]
            k += 4
        while k < d:
            s0 += <double> x[k] * <double> x[k]
            k += 1
        tile.k_self[b] = (s0 + s1) + (s2 + s3)
        sq[b] = <weight_t> tile.k_self[b]


cdef bint lay_out_sparse(const Store *store, Tile *tile, weight_t *values,
                         weight_t *sq) noexcept nogil:
    """Number the block's features and spread its entries over D."""
    cdef Py_ssize_t b, k, n = tile.n, n_features = 0
    cdef size_t need
    cdef weight_t *D
    cdef double total
    for k in range(tile.start[n]):
        if tile.map[tile.columns[k]] == 0:
            n_features += 1
            tile.map[tile.columns[k]] = <int32_t> n_features
    need = (n_features + 1) * n * sizeof(weight_t)
    if not grow(&tile.D, &tile.room[ROOM_D], need):
        return False
    memset(tile.D, 0, need)
    D = <weight_t *> tile.D
    for b in range(n):
        for k in range(tile.start[b], tile.start[b + 1]):
            D[tile.map[tile.columns[k]] * n + b] += values[k]
        total = 0.0
        for k in range(tile.start[b], tile.start[b + 1]):
            total += <double> values[k] * <double> D[tile.map[tile.columns[k]] * n + b]
        tile.k_self[b] = total
        sq[b] = <weight_t> total
    return True


cdef bint finish_tile(const Store *store, Tile *tile) noexcept nogil:
    """Norms and k(x, x) of the loaded columns."""
    cdef Py_ssize_t b
    cdef const Kernel *kernel = store.kernel
    cdef Row x
    if store.sparse:
        if store.f64:
            if not lay_out_sparse(store, tile, <double *> tile.values, <double *> tile.sq):
                return False
        elif not lay_out_sparse(store, tile, <float *> tile.values, <float *> tile.sq):
            return False
    elif store.f64:
        finish_dense(store, tile, <double *> tile.X, <double *> tile.sq)
    else:
        finish_dense(store, tile, <float *> tile.X, <float *> tile.sq)
    for b in range(tile.n):
        if kernel.kind == KERNEL_PRECOMPUTED:
            tile.k_self[b] = read_entry(store, tile, b, tile.ids[b])
        elif kernel.kind == KERNEL_CUSTOM:
            tile_row(store, tile, b, &x)
            tile.k_self[b] = kernel.kernel_fn(&x, &x, kernel.user)
        else:
            tile.k_self[b] = kernel_self(kernel, tile.k_self[b])
    return True


cdef double read_entry(const Store *store, const Tile *tile, Py_ssize_t b,
                       Py_ssize_t column) noexcept nogil:
    """An entry of a precomputed kernel's row; NaN past its end."""
    if column < 0 or column >= store.d:
        return NAN
    if store.f64:
        return (<double *> tile.X)[b * store.d + column]
    return (<float *> tile.X)[b * store.d + column]


cdef int tile_load_rows(const Store *store, Tile *tile, const Rows *rows,
                        const Py_ssize_t *order, Py_ssize_t first, Py_ssize_t n,
                        Py_ssize_t first_id) noexcept nogil:
    """Take rows order[first], order[first + 1], ... (or first, first + 1, ...).

    Row i is column first_id + i of a precomputed kernel.  -1 when memory is short.
    """
    cdef Py_ssize_t b, i, nnz = 0
    cdef Row x
    if store.sparse:
        for b in range(n):
            rows_get(rows, first + b if order == NULL else order[first + b], &x)
            nnz += x.count
    if not tile_reserve(store, tile, n, nnz):
        return -1
    tile.n = n
    if store.sparse:
        tile.start[0] = 0
    for b in range(n):
        i = first + b if order == NULL else order[first + b]
        tile.ids[b] = first_id + i
        rows_get(rows, i, &x)
        if store.sparse:
            if store.f64:
                nnz = row_to_sparse(&x, tile.columns + tile.start[b],
                                    <double *> tile.values + tile.start[b])
            else:
                nnz = row_to_sparse(&x, tile.columns + tile.start[b],
                                    <float *> tile.values + tile.start[b])
            tile.start[b + 1] = tile.start[b] + nnz
        elif store.f64:
            row_to_dense(&x, store.d, <double *> tile.X + b * store.d)
        else:
            row_to_dense(&x, store.d, <float *> tile.X + b * store.d)
    return 0 if finish_tile(store, tile) else -1


cdef int tile_load_slots(const Store *store, Tile *tile, const Py_ssize_t *slots,
                         Py_ssize_t n) noexcept nogil:
    """Take copies of stored rows as columns.  -1 when memory is short."""
    cdef Py_ssize_t b, s, nnz = 0
    cdef size_t size = sizeof(double) if store.f64 else sizeof(float)
    if store.sparse:
        for b in range(n):
            nnz += store.length[slots[b]]
    if not tile_reserve(store, tile, n, nnz):
        return -1
    tile.n = n
    if store.sparse:
        tile.start[0] = 0
    for b in range(n):
        s = slots[b]
        tile.ids[b] = store.ids[s]
        if store.sparse:
            tile.start[b + 1] = tile.start[b] + store.length[s]
            memcpy(<char *> tile.values + tile.start[b] * size,
                   <char *> store.values + store.start[s] * size, store.length[s] * size)
            memcpy(tile.columns + tile.start[b], store.columns + store.start[s],
                   store.length[s] * sizeof(int32_t))
        else:
            memcpy(<char *> tile.X + b * store.d * size,
                   <char *> store.X + s * store.d * size, store.d * size)
    return 0 if finish_tile(store, tile) else -1


cdef void tile_release(const Store *store, Tile *tile) noexcept nogil:
    """Forget the columns: the feature map is zero again."""
    cdef Py_ssize_t k
    if store.sparse and tile.n:
        for k in range(tile.start[tile.n]):
            tile.map[tile.columns[k]] = 0
    tile.n = 0


# ------------------------------------------------------------- kernel values

cdef void tile_row(const Store *store, const Tile *tile, Py_ssize_t b, Row *x) noexcept nogil:
    """Column b as a row."""
    cdef size_t size = sizeof(double) if store.f64 else sizeof(float)
    x.struct_size = sizeof(Row)
    x.step = 1
    x.scale = 1.0
    if store.sparse:
        x.kind = ROW_F64_I32 if store.f64 else ROW_F32_I32
        x.values = <char *> tile.values + tile.start[b] * size
        x.indices = tile.columns + tile.start[b]
        x.count = tile.start[b + 1] - tile.start[b]
    else:
        x.kind = ROW_F64_DENSE if store.f64 else ROW_F32_DENSE
        x.values = <char *> tile.X + b * store.d * size
        x.indices = NULL
        x.count = store.d


cdef void slot_row(const Store *store, Py_ssize_t s, Row *x) noexcept nogil:
    """Slot s as a row."""
    cdef size_t size = sizeof(double) if store.f64 else sizeof(float)
    x.struct_size = sizeof(Row)
    x.step = 1
    x.scale = 1.0
    if store.sparse:
        x.kind = ROW_F64_I32 if store.f64 else ROW_F32_I32
        x.values = <char *> store.values + store.start[s] * size
        x.indices = store.columns + store.start[s]
        x.count = store.length[s]
    else:
        x.kind = ROW_F64_DENSE if store.f64 else ROW_F32_DENSE
        x.values = <char *> store.X + s * store.d * size
        x.indices = NULL
        x.count = store.d


cdef void fill_custom(const Store *store, const Tile *tile, weight_t *out) noexcept nogil:
    """Kernels that are not functions of dot products, value by value."""
    cdef Py_ssize_t s, b, n = tile.n
    cdef const Kernel *kernel = store.kernel
    cdef Row x, z
    for s in range(store.n):
        slot_row(store, s, &x)
        for b in range(n):
            if kernel.kind == KERNEL_PRECOMPUTED:
                out[s * n + b] = <weight_t> read_entry(store, tile, b, store.ids[s])
            else:
                tile_row(store, tile, b, &z)
                out[s * n + b] = <weight_t> kernel.kernel_fn(&x, &z, kernel.user)


cdef void gemm(const weight_t *columns, Py_ssize_t n, const weight_t *rows, Py_ssize_t n_rows,
               Py_ssize_t d, weight_t *out) noexcept nogil:
    """out[s * n + b] = rows[s] . columns[b]"""
    cdef int m = <int> n, k = <int> n_rows, depth = <int> d, step = 1
    cdef weight_t one = 1, zero = 0
    if n == 0 or n_rows == 0:
        return
    if weight_t is float32_t:
        if n == 1:
            sgemv("T", &depth, &k, &one, <float *> rows, &depth, <float *> columns, &step, &zero,
                  out, &step)
        else:
            sgemm("T", "N", &m, &k, &depth, &one, <float *> columns, &depth, <float *> rows,
                  &depth, &zero, out, &m)
    else:
        if n == 1:
            dgemv("T", &depth, &k, &one, <double *> rows, &depth, <double *> columns, &step, &zero,
                  out, &step)
        else:
            dgemm("T", "N", &m, &k, &depth, &one, <double *> columns, &depth, <double *> rows,
                  &depth, &zero, out, &m)


cdef void block_of(const Store *store, const Tile *tile, const weight_t *X, weight_t *columns,
                   const weight_t *values, const weight_t *sq, const weight_t *D,
                   const weight_t *tile_sq, weight_t *out) noexcept nogil:
    cdef Py_ssize_t s, n = tile.n
    if not kernel_uses_dots(store.kernel):
        fill_custom(store, tile, out)
        return
    if not store.sparse:
        gemm(columns, n, X, store.n, store.d, out)
    elif weight_t is float32_t:
        for s in range(store.n):
            osvm_tiledot_f32(values + store.start[s], store.columns + store.start[s],
                             store.length[s], tile.map, D, n, out + s * n)
    else:
        for s in range(store.n):
            osvm_tiledot_f64(values + store.start[s], store.columns + store.start[s],
                             store.length[s], tile.map, D, n, out + s * n)
    if n == 1:  # one long array instead of many short ones
        kernel_from_dots(store.kernel, out, store.n, <double> tile_sq[0], sq)
    else:
        for s in range(store.n):
            kernel_from_dots(store.kernel, out + s * n, n, <double> sq[s], tile_sq)


cdef void kernel_block(const Store *store, const Tile *tile, void *out) noexcept nogil:
    """out[s * n + b] = k(x_s, column b) for all slots in use."""
    if store.f64:
        block_of(store, tile, <double *> store.X, <double *> tile.X, <double *> store.values,
                 <double *> store.sq, <double *> tile.D, <double *> tile.sq, <double *> out)
    else:
        block_of(store, tile, <float *> store.X, <float *> tile.X, <float *> store.values,
                 <float *> store.sq, <float *> tile.D, <float *> tile.sq, <float *> out)


cdef void column_of(const Store *store, const Tile *tile, Py_ssize_t t, Py_ssize_t first,
                    const weight_t *X, const weight_t *values, const weight_t *sq,
                    const weight_t *D, weight_t *out) noexcept nogil:
    cdef Py_ssize_t b, k, row, n = tile.n
    cdef Row x, z
    if not kernel_uses_dots(store.kernel):
        tile_row(store, tile, t, &x)
        for b in range(first, n):
            if store.kernel.kind == KERNEL_PRECOMPUTED:
                out[b] = <weight_t> read_entry(store, tile, b, tile.ids[t])
            else:
                tile_row(store, tile, b, &z)
                out[b] = <weight_t> store.kernel.kernel_fn(&x, &z, store.kernel.user)
        return
    if not store.sparse:
        gemm(X + t * store.d, 1, X + first * store.d, n - first, store.d, out + first)
    else:
        for b in range(first, n):
            out[b] = 0
        for k in range(tile.start[t], tile.start[t + 1]):
            row = tile.map[tile.columns[k]]
            for b in range(first, n):
                out[b] += values[k] * D[row * n + b]
    kernel_from_dots(store.kernel, out + first, n - first, <double> sq[t], sq + first)


cdef void kernel_column(const Store *store, const Tile *tile, Py_ssize_t t, Py_ssize_t first,
                        void *out) noexcept nogil:
    """out[b] = k(column t, column b) for b from `first` on."""
    if first >= tile.n:
        return
    if store.f64:
        column_of(store, tile, t, first, <double *> tile.X, <double *> tile.values,
                  <double *> tile.sq, <double *> tile.D, <double *> out)
    else:
        column_of(store, tile, t, first, <float *> tile.X, <float *> tile.values,
                  <float *> tile.sq, <float *> tile.D, <float *> out)


cdef void store_row(Store *store, Py_ssize_t slot, const Tile *tile, Py_ssize_t t) noexcept nogil:
    """Keep column t of the tile in this slot; the arena has room for it."""
    cdef size_t size = sizeof(double) if store.f64 else sizeof(float)
    cdef Py_ssize_t count
    store.k_self[slot] = tile.k_self[t]
    store.ids[slot] = tile.ids[t]
    memcpy(<char *> store.sq + slot * size, <char *> tile.sq + t * size, size)
    if store.sparse:
        count = tile.start[t + 1] - tile.start[t]
        memcpy(<char *> store.values + store.end * size,
               <char *> tile.values + tile.start[t] * size, count * size)
        memcpy(store.columns + store.end, tile.columns + tile.start[t], count * sizeof(int32_t))
        store.start[slot] = store.end
        store.length[slot] = count
        store.end += count
    else:
        memcpy(<char *> store.X + slot * store.d * size, <char *> tile.X + t * store.d * size,
               store.d * size)
