# Kernel values of rows against rows: the one engine, for buffer, columns and predictions.
#
# A block is a tile of up to some hundred columns (examples, or copies of stored rows)
# against the rows of a store.
#
# - Dense rows: one gemm of BLAS for a whole block, then the kernel on the products.
# - rbf in few dimensions (`near`): distances directly, fused with a vectorised exp, and on
#   request added up without ever being stored.
# - Sparse rows: the tile's features are numbered 1, 2, ..., their values laid out side by
#   side, and each stored row walks its entries through that layout.  It costs the non-zeros,
#   and no dense matrix of all features exists.
# - A precomputed matrix is read; a kernel function is called for each pair of rows.
#
# Two orders of the values: `kernel_block` gives them slot-major (out[s * n + b]), for sums
# over the slots of a buffer; `columns_of` gives each column apart (out[b][s]), in chunks of
# slots, for a cache of columns or a matrix.
#
# Invariants
# - rows are kept in one type, float32 or float64, and kernel values come in that type;
# - `store.sq` and `tile.sq` are ||x||^2 in that type, right also with repeated columns;
# - a value does not depend on how many columns its block has, up to the order of sums in BLAS;
# - a tile that was loaded is released before it is loaded again (its feature map is zero
#   between blocks).
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from osvm._c.structs cimport Store, Tile
from osvm._c.products cimport dense_block, near_values, walk
from osvm._c.tile cimport (
    arrange, load_row, load_slot, measure, read_entry, slot_entries, slot_length, slot_row,
    tile_reserve, tile_row,
)
from osvm.core.kernel cimport KERNEL_PRECOMPUTED, kernel_from_dots, kernel_uses_dots
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport Row, Rows, weight_t

cdef enum:
    MAX_BLOCK = 256   # columns that one call may ask for
    CHUNK = 512       # slots whose values are computed together: they stay in the cache


# ------------------------------------------------------------- loading a tile

cdef inline int tile_load_rows(const Store *store, Tile *tile, const Rows *rows,
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
        if store.f64:
            load_row(store, tile, b, &x, <double *> tile.X, <double *> tile.values)
        else:
            load_row(store, tile, b, &x, <float *> tile.X, <float *> tile.values)
    if not arrange(store, tile):
        return -1
    if store.f64:
        measure(store, tile, <double *> tile.X, <double *> tile.values, <double *> tile.D,
                <double *> tile.sq)
    else:
        measure(store, tile, <float *> tile.X, <float *> tile.values, <float *> tile.D,
                <float *> tile.sq)
    return 0


cdef inline int tile_load_slots(const Store *store, Tile *tile, const Py_ssize_t *slots,
                                Py_ssize_t n) noexcept nogil:
    """Take copies of stored rows as columns.  -1 when memory is short."""
    cdef Py_ssize_t b, nnz = 0
    if store.sparse:
        for b in range(n):
            nnz += slot_length(store, slots[b])
    if not tile_reserve(store, tile, n, nnz):
        return -1
    tile.n = n
    if store.sparse:
        tile.start[0] = 0
    for b in range(n):
        tile.ids[b] = slots[b] if store.ids == NULL else store.ids[slots[b]]
        tile.k_self[b] = store.k_self[slots[b]]
        if store.f64:
            load_slot(store, tile, b, slots[b], <double *> tile.X)
        else:
            load_slot(store, tile, b, slots[b], <float *> tile.X)
    return 0 if arrange(store, tile) else -1


# ------------------------------------------------------------- kernel values

cdef inline void block_of(const Store *store, const Tile *tile, weight_t *out) noexcept nogil:
    cdef Py_ssize_t s, b, count, n = tile.n
    cdef const weight_t *sq = <weight_t *> store.sq
    cdef const weight_t *tile_sq = <weight_t *> tile.sq
    cdef const weight_t *values = NULL
    cdef const int32_t *columns = NULL
    cdef Row x, z
    if not kernel_uses_dots(store.kernel):
        for s in range(store.n):
            slot_row(store, s, &x)
            for b in range(n):
                if store.kernel.kind == KERNEL_PRECOMPUTED:
                    out[s * n + b] = <weight_t> read_entry(store, tile, b, store.ids[s])
                else:
                    tile_row(store, tile, b, &z)
                    out[s * n + b] = <weight_t> store.kernel.kernel_fn(&x, &z, store.kernel.user)
        return
    if not store.sparse:
        dense_block(store.kernel, <weight_t *> store.X, store.n, sq, <weight_t *> tile.X, n,
                    tile_sq, store.d, out, n)
        return
    for s in range(store.n):
        count = slot_entries(store, s, &values, &columns)
        walk(values, columns, count, tile, 0, n, out + s * n)
    if n == 1:
        kernel_from_dots(store.kernel, out, store.n, <double> tile_sq[0], sq)
    else:
        for s in range(store.n):
            kernel_from_dots(store.kernel, out + s * n, n, <double> sq[s], tile_sq)


cdef inline void kernel_block(const Store *store, const Tile *tile, void *out) noexcept nogil:
    """out[s * n + b] = k(x_s, column b) for all slots in use."""
    if store.f64:
        block_of(store, tile, <double *> out)
    else:
        block_of(store, tile, <float *> out)


cdef inline void column_of(const Store *store, const Tile *tile, Py_ssize_t t, Py_ssize_t first,
                           weight_t *out) noexcept nogil:
    cdef const weight_t *X = <weight_t *> tile.X
    cdef const weight_t *sq = <weight_t *> tile.sq
    cdef Py_ssize_t b, n = tile.n, d = store.d
    cdef Row x, z
    if not kernel_uses_dots(store.kernel):
        tile_row(store, tile, t, &x)
        for b in range(first, n):
            if store.kernel.kind == KERNEL_PRECOMPUTED:
                out[b] = <weight_t> read_entry(store, tile, b, tile.ids[t])
            else:
                tile_row(store, tile, b, &z)
                out[b] = <weight_t> store.kernel.kernel_fn(&x, &z, store.kernel.user)
    elif store.near:
        near_values(store.kernel, <weight_t *> tile.turned + first, n - first, n, d, X + t * d,
                    out + first)
    elif not store.sparse:
        dense_block(store.kernel, X + first * d, n - first, sq + first, X + t * d, 1, sq + t, d,
                    out + first, 1)
    else:
        walk(<weight_t *> tile.values + tile.start[t], tile.columns + tile.start[t],
             tile.start[t + 1] - tile.start[t], tile, first, n - first, out + first)
        kernel_from_dots(store.kernel, out + first, n - first, <double> sq[t], sq + first)


cdef inline void kernel_column(const Store *store, const Tile *tile, Py_ssize_t t,
                               Py_ssize_t first, void *out) noexcept nogil:
    """out[b] = k(column t, column b) for b from `first` on."""
    if first >= tile.n:
        return
    if store.f64:
        column_of(store, tile, t, first, <double *> out)
    else:
        column_of(store, tile, t, first, <float *> out)


cdef inline void slot_column_of(const Store *store, const Tile *tile, Py_ssize_t slot,
                                Py_ssize_t first, weight_t *out) noexcept nogil:
    cdef const weight_t *sq = <weight_t *> tile.sq
    cdef const weight_t *own = <weight_t *> store.sq
    cdef const weight_t *values = NULL
    cdef const int32_t *columns = NULL
    cdef Py_ssize_t count, m = tile.n - first, d = store.d
    if not store.sparse:
        dense_block(store.kernel, <weight_t *> tile.X + first * d, m, sq + first,
                    <weight_t *> store.X + slot * d, 1, own + slot, d, out + first, 1)
        return
    count = slot_entries(store, slot, &values, &columns)
    walk(values, columns, count, tile, first, m, out + first)
    kernel_from_dots(store.kernel, out + first, m, <double> own[slot], sq + first)


cdef inline void kernel_slot_column(const Store *store, const Tile *tile, Py_ssize_t slot,
                                    Py_ssize_t first, void *out) noexcept nogil:
    """out[b] = k(x_slot, column b) for b from `first` on, of a kernel that uses dot products."""
    if first >= tile.n:
        return
    if store.f64:
        slot_column_of(store, tile, slot, first, <double *> out)
    else:
        slot_column_of(store, tile, slot, first, <float *> out)


cdef inline void gram_of(const Store *store, const Tile *tile, weight_t *out) noexcept nogil:
    """out[t * n + b] = k(column t, column b)"""
    cdef Py_ssize_t t, n = tile.n
    if store.sparse or store.near or not kernel_uses_dots(store.kernel):
        for t in range(n):
            column_of(store, tile, t, 0, out + t * n)
    else:
        dense_block(store.kernel, <weight_t *> tile.X, n, <weight_t *> tile.sq,
                    <weight_t *> tile.X, n, <weight_t *> tile.sq, store.d, out, n)


cdef inline void columns_of(const Store *store, const Tile *tile, Py_ssize_t start,
                            Py_ssize_t stop, weight_t offset, weight_t *block,
                            void **out) noexcept nogil:
    """out[b][s - start] = k(column b, x_s) + offset, for slots start .. stop - 1."""
    cdef Py_ssize_t r = start, m, i, b, count, n = tile.n, d = store.d
    cdef const weight_t *X = <weight_t *> tile.X
    cdef const weight_t *sq = <weight_t *> store.sq
    cdef const weight_t *values = NULL
    cdef const int32_t *columns = NULL
    cdef weight_t dots[MAX_BLOCK]
    cdef weight_t *target
    if store.near:
        for b in range(n):
            target = <weight_t *> out[b]
            near_values(store.kernel, <weight_t *> store.turned + start, stop - start, store.n,
                        d, X + b * d, target)
            if offset != 0:
                for i in range(stop - start):
                    target[i] += offset
        return
    while r < stop:
        m = stop - r if stop - r < CHUNK else CHUNK
        if not store.sparse:
            dense_block(store.kernel, X, n, <weight_t *> tile.sq, <weight_t *> store.X + r * d,
                        m, sq + r, d, block, CHUNK)
        else:
            for i in range(m):
                count = slot_entries(store, r + i, &values, &columns)
                walk(values, columns, count, tile, 0, tile.width, dots)
                for b in range(n):
                    block[b * CHUNK + i] = dots[b]
            for b in range(n):
                kernel_from_dots(store.kernel, block + b * CHUNK, m,
                                 <double> (<weight_t *> tile.sq)[b], sq + r)
        for b in range(n):
            target = <weight_t *> out[b] + r - start
            if offset == 0:
                memcpy(target, block + b * CHUNK, m * sizeof(weight_t))
            else:
                for i in range(m):
                    target[i] = block[b * CHUNK + i] + offset
        r += m


cdef inline void read_column(const weight_t *row, Py_ssize_t start, Py_ssize_t stop,
                             weight_t offset, weight_t *out) noexcept nogil:
    """A column of a precomputed matrix, which is symmetric, so its rows are its columns."""
    cdef Py_ssize_t i
    for i in range(start, stop):
        out[i - start] = row[i] + offset
