"""Kernel values of rows against rows: the one engine, for buffer, columns and predictions.

A block is a tile of up to some hundred columns (examples, or copies of stored rows)
against the rows of a store.

- Dense rows: one gemm of BLAS for a whole block, then the kernel on the products.
- rbf in few dimensions (`near`): distances directly, fused with a vectorised exp, and on
  request added up without ever being stored.
- Sparse rows: the tile's features are numbered 1, 2, ..., their values laid out side by
  side, and each stored row walks its entries through that layout.  It costs the non-zeros,
  and no dense matrix of all features exists.
- A precomputed matrix is read; a kernel function is called for each pair of rows.

Two orders of the values: `kernel_block` gives them slot-major (out[s * n + b]), for sums
over the slots of a buffer; `FixedRows` gives each column apart (out[b][s]), in chunks of
slots, for a cache of columns or a matrix.

Invariants
- rows are kept in one type, float32 or float64, and kernel values come in that type;
- `store.sq` and `tile.sq` are ||x||^2 in that type, right also with repeated columns;
- a value does not depend on how many columns its block has, up to the order of sums in BLAS;
- a tile that was loaded is released before it is loaded again (its feature map is zero
  between blocks), and nothing here needs the GIL but making a FixedRows.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from osvm._parts.kernel_products cimport dense_block, near_values, walk
from osvm._parts.kernel_store cimport real_size, tile_free, tile_release
from osvm._parts.kernel_tile cimport (
    arrange, load_row, load_slot, measure, read_entry, slot_entries, slot_length, slot_row,
    tile_reserve, tile_row,
)
from osvm.core.kernel cimport KERNEL_PRECOMPUTED, KERNEL_RBF, kernel_from_dots, kernel_uses_dots
from osvm.core.rows cimport rows_get
from osvm.core.typedefs cimport Row, weight_t

import numpy as np

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
    CHUNK = 512       # slots whose values are computed together: they stay in the cache
    LOAD = 256        # rows in a tile that this file loads ...
    LOAD_DENSE = 1024  # ... where one product takes them all, so that it packs fewer times


# ------------------------------------------------------------- loading a tile

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


cdef int tile_load_slots(const Store *store, Tile *tile, const Py_ssize_t *slots,
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

cdef void block_of(const Store *store, const Tile *tile, weight_t *out) noexcept nogil:
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


cdef void kernel_block(const Store *store, const Tile *tile, void *out) noexcept nogil:
    """out[s * n + b] = k(x_s, column b) for all slots in use."""
    if store.f64:
        block_of(store, tile, <double *> out)
    else:
        block_of(store, tile, <float *> out)


cdef void column_of(const Store *store, const Tile *tile, Py_ssize_t t, Py_ssize_t first,
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


cdef void kernel_column(const Store *store, const Tile *tile, Py_ssize_t t, Py_ssize_t first,
                        void *out) noexcept nogil:
    """out[b] = k(column t, column b) for b from `first` on."""
    if first >= tile.n:
        return
    if store.f64:
        column_of(store, tile, t, first, <double *> out)
    else:
        column_of(store, tile, t, first, <float *> out)


cdef void slot_column_of(const Store *store, const Tile *tile, Py_ssize_t slot,
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


cdef void kernel_slot_column(const Store *store, const Tile *tile, Py_ssize_t slot,
                             Py_ssize_t first, void *out) noexcept nogil:
    """out[b] = k(x_slot, column b) for b from `first` on, of a kernel that uses dot products."""
    if first >= tile.n:
        return
    if store.f64:
        slot_column_of(store, tile, slot, first, <double *> out)
    else:
        slot_column_of(store, tile, slot, first, <float *> out)


cdef void gram_of(const Store *store, const Tile *tile, weight_t *out) noexcept nogil:
    """out[t * n + b] = k(column t, column b)"""
    cdef Py_ssize_t t, n = tile.n
    if store.sparse or store.near or not kernel_uses_dots(store.kernel):
        for t in range(n):
            column_of(store, tile, t, 0, out + t * n)
    else:
        dense_block(store.kernel, <weight_t *> tile.X, n, <weight_t *> tile.sq,
                    <weight_t *> tile.X, n, <weight_t *> tile.sq, store.d, out, n)


cdef void columns_of(const Store *store, const Tile *tile, Py_ssize_t start, Py_ssize_t stop,
                     weight_t offset, weight_t *block, void **out) noexcept nogil:
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


cdef void read_column(const weight_t *row, Py_ssize_t start, Py_ssize_t stop, weight_t offset,
                      weight_t *out) noexcept nogil:
    """A column of a precomputed matrix, which is symmetric, so its rows are its columns."""
    cdef Py_ssize_t i
    for i in range(start, stop):
        out[i - start] = row[i] + offset


# ------------------------------------------------------------- a fixed set of rows

cdef class FixedRows:
    """Rows that do not change, and kernel values of any rows against all of them.

    Parameters
    ----------
    spec : KernelSpec
        Not a Python function.
    X : ndarray or CSR matrix, float32 or float64
        With a precomputed kernel the n x n matrix.  A dense array in the values' type is not
        copied, nor is a CSR matrix.
    dtype : float32 or float64
        Type of the kernel values.
    order : intp array, optional
        Slot p stands for row ``order[p]`` of X.
    sparse : bool, optional
        Treat the rows as sparse; by default they are when X is.
    near : bool
        Compute distances directly where it is cheaper (rbf in up to 8 dimensions).
    """

    def __cinit__(self):
        memset(&self.store, 0, sizeof(Store))
        memset(&self.tile, 0, sizeof(Tile))
        self.block = NULL

    def __init__(self, KernelSpec spec, X, dtype, *, order=None, sparse=None, bint near=False):
        cdef Store *store = &self.store
        cdef RowSource source
        cdef const Py_ssize_t[::1] order_view
        dtype = np.dtype(dtype)
        self.spec = spec
        store.kernel = &spec.kernel
        store.f64 = dtype == np.float64
        store.sparse = hasattr(X, "indptr") if sparse is None else sparse
        store.d = X.shape[1]
        store.n = X.shape[0] if order is None else len(order)
        if store.sparse and store.d > 0x7fffffff:
            raise ValueError(f"X has {store.d} features; kernels take at most 2**31 - 1: hash "
                             "the features to fewer columns")
        if order is not None and store.n:
            order_view = order
            store.order = &order_view[0]
        precomputed = spec.kernel.kind == KERNEL_PRECOMPUTED
        if precomputed:
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"a precomputed kernel matrix is square, got {X.shape}")
            if order is not None:
                X = X[np.ix_(order, order)]
            X = np.ascontiguousarray(X, dtype=dtype)
            store.order = NULL
            store.d = store.n
        source = source_of(X)
        sq, k_self = np.empty(store.n, dtype), np.empty(store.n)
        store.sq = address(sq)
        store.k_self = <double *> address(k_self)
        owned = [order, sq, k_self]
        rows = None
        if store.sparse:
            longest = store.d if not hasattr(X, "indptr") else (
                int(np.diff(X.indptr).max(initial=0)))
            values, columns = np.empty(longest + 1, dtype), np.empty(longest + 1, np.int32)
            owned += [values, columns]
            store.row_values = address(values)
            store.row_columns = <int32_t *> address(columns)
            self.source = source
            store.rows = &source.rows
        elif store.order == NULL and X.dtype == dtype and X.flags.c_contiguous:
            rows = X
        else:
            rows = np.empty((store.n, store.d), dtype)
        self.block = malloc(MAX_BLOCK * CHUNK * dtype.itemsize)
        if self.block == NULL:
            raise MemoryError("no memory for kernel values")
        if rows is not None:
            store.X = address(rows)
            owned.append(rows)
        if precomputed:
            k_self[:] = np.diagonal(X)
        else:
            self._load(source, rows is not None and rows is not X)
        self.near = (near and not store.sparse and spec.kernel.kind == KERNEL_RBF
                     and store.d <= NEAR)
        store.near = self.near
        if store.near:
            turned = np.ascontiguousarray(rows.T)
            owned.append(turned)
            store.turned = address(turned)
        self.owned = owned

    def _load(self, RowSource source, bint copy):
        """Norms of all rows, and copies of them on request."""
        cdef Store *store = &self.store
        cdef Tile *tile = &self.tile
        cdef Py_ssize_t first = 0, m
        cdef size_t size = real_size(store)
        cdef int status = 0
        with nogil:
            while first < store.n and status == 0:
                m = store.n - first if store.n - first < LOAD else LOAD
                status = tile_load_rows(store, tile, &source.rows, store.order, first, m, 0)
                if status == 0:
                    memcpy(<char *> store.sq + first * size, tile.sq, m * size)
                    memcpy(store.k_self + first, tile.k_self, m * sizeof(double))
                    if copy:
                        memcpy(<char *> store.X + first * store.d * size, tile.X,
                               m * store.d * size)
                tile_release(store, tile)
                first += m
        if status < 0:
            raise MemoryError("no memory for kernel values")

    def __dealloc__(self):
        tile_free(&self.tile)
        free(self.block)

    cdef int values(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                    Py_ssize_t stop, double offset, void **out) noexcept nogil:
        """out[b][s - start] = k(x_column, x_s) + offset; -1 when memory is short.

        For at most MAX_BLOCK columns, which are slots, and slots start .. stop - 1.
        """
        cdef Py_ssize_t b
        cdef int status
        if self.store.kernel.kind == KERNEL_PRECOMPUTED:
            for b in range(count):
                if self.store.f64:
                    read_column(<double *> self.store.X + columns[b] * self.store.d, start, stop,
                                offset, <double *> out[b])
                else:
                    read_column(<float *> self.store.X + columns[b] * self.store.d, start, stop,
                                <float> offset, <float *> out[b])
            return 0
        status = tile_load_slots(&self.store, &self.tile, columns, count)
        if status == 0:
            self._spread(start, stop, offset, out)
        tile_release(&self.store, &self.tile)
        return status

    cdef void _spread(self, Py_ssize_t start, Py_ssize_t stop, double offset,
                      void **out) noexcept nogil:
        """The loaded tile against slots start .. stop - 1."""
        if self.store.f64:
            columns_of(&self.store, &self.tile, start, stop, offset, <double *> self.block, out)
        else:
            columns_of(&self.store, &self.tile, start, stop, <float> offset,
                       <float *> self.block, out)

    cdef int gram(self, const Py_ssize_t *columns, Py_ssize_t count, void *out) noexcept nogil:
        """out[a * count + b] = k(x_a, x_b) of these slots; -1 when memory is short."""
        cdef int status = tile_load_slots(&self.store, &self.tile, columns, count)
        if status == 0:
            if self.store.f64:
                gram_of(&self.store, &self.tile, <double *> out)
            else:
                gram_of(&self.store, &self.tile, <float *> out)
        tile_release(&self.store, &self.tile)
        return status

    cdef void add(self, double *o, Py_ssize_t m, const Py_ssize_t *columns, const double *delta,
                  Py_ssize_t count) noexcept nogil:
        """o[s] += sum_b delta[b] k(x_b, x_s) for s < m, without storing a value (`near`)."""
        cdef const_float_p narrow[MAX_BLOCK]
        cdef const_double_p wide[MAX_BLOCK]
        cdef Store *store = &self.store
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

    @property
    def diagonal(self):
        """k(x, x) of each slot, float64."""
        return self.owned[2]

    def against(self, X=None):
        """k of the rows of X with all slots, (len(X), n); of the slots themselves without X."""
        cdef RowSource source = None if X is None else source_of(X)
        cdef Py_ssize_t n = self.store.n if X is None else source.n_rows, first = 0, m, start
        cdef size_t size = real_size(&self.store)
        cdef const Py_ssize_t[::1] slots = np.arange(n if X is None else 0, dtype=np.intp)
        cdef int status = 0
        cdef bint alone = X is None
        cdef Py_ssize_t most = LOAD_DENSE
        if alone or self.store.sparse or self.store.near:
            most = LOAD
        values = np.empty((n, self.store.n), np.float64 if self.store.f64 else np.float32)
        cdef char *out = <char *> address(values)
        with nogil:
            while first < n and status == 0 and self.store.n:
                m = n - first if n - first < most else most
                if alone:
                    start = first  # what lies before is known: the matrix is symmetric
                    status = tile_load_slots(&self.store, &self.tile, &slots[first], m)
                else:
                    start = 0
                    status = tile_load_rows(&self.store, &self.tile, &source.rows, NULL, first,
                                            m, 0)
                if status == 0:
                    self._write(out + (first * self.store.n + start) * size, start)
                    if alone:
                        mirror(out, self.store.f64, n, first, m)
                tile_release(&self.store, &self.tile)
                first += m
        if status < 0:
            raise MemoryError("no memory for kernel values")
        return values

    cdef void _write(self, void *out, Py_ssize_t start) noexcept nogil:
        """The loaded tile against slots from `start` on, as rows of a matrix."""
        cdef Store *store = &self.store
        cdef Tile *tile = &self.tile
        cdef void *rows[LOAD]
        cdef Py_ssize_t b
        if store.sparse or store.near:
            for b in range(tile.n):
                rows[b] = <char *> out + b * store.n * real_size(store)
            self._spread(start, store.n, 0.0, rows)
        elif store.f64:
            dense_block(store.kernel, <double *> tile.X, tile.n, <double *> tile.sq,
                        <double *> store.X + start * store.d, store.n - start,
                        <double *> store.sq + start, store.d, <double *> out, store.n)
        else:
            dense_block(store.kernel, <float *> tile.X, tile.n, <float *> tile.sq,
                        <float *> store.X + start * store.d, store.n - start,
                        <float *> store.sq + start, store.d, <float *> out, store.n)


cdef void mirror(void *values, bint f64, Py_ssize_t n, Py_ssize_t first,
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


cdef void *address(array) except? NULL:
    return <void *> <size_t> array.ctypes.data


cdef RowSource source_of(X):
    """The rows of an array or of a CSR matrix."""
    if hasattr(X, "indptr"):
        return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
    return RowSource.dense(X)
