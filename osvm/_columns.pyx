"""Columns of the kernel matrix of a fixed training set: on demand, in blocks, cached.

Follows section D of the algorithms: learners with cached outputs (Kecman and Melki,
"Fast online algorithms for support vector machines") touch a kernel column only when its
coefficient changes, so the n x n matrix is never needed as a whole.

How values are computed
- dense rows: one matrix product (BLAS) for a whole block of columns, then the kernel on
  the products, chunk by chunk so that the temporaries stay in the cache;
- rbf in few dimensions: distances directly, fused with a vectorised exp;
- sparse rows: the block's rows are laid out feature-major and every row of the matrix is
  multiplied with all of them at once; the matrix is not copied;
- a precomputed matrix is read, a Python function is called.

Invariants
- A column may be valid for its first `length` values only; `fetch` extends it.
- The columns of one `fetch` stay valid until the next one: the cache holds at least
  MAX_BLOCK columns.
- float32 columns by default; sums of columns go to float64 outputs.
"""
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport NAN
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from osvm._rows cimport RowSource
from osvm.core.kernel cimport KERNEL_RBF, kernel_from_dots
from osvm.core.kernel cimport kernel_init, kernel_self
from osvm.core.row cimport ROW_F32_I32, ROW_F32_I64, ROW_F64_I32
from osvm.core.row cimport Row, row_index, row_value, rows_get
from osvm.core.typedefs cimport float32_t, float64_t, index_t, value_t, weight_t

import numpy as np
import scipy.linalg.cython_blas as _blas

cdef enum:
    CHUNK = 512       # rows per matrix product
    NEAR = 8          # rbf: up to so many features, distances are computed directly
    NEARBY_MB = 48    # memory for such columns at most

cdef enum Mode:
    DENSE = 0
    NEARBY = 1
    SPARSE = 2
    PRECOMPUTED = 3
    FUNCTION = 4

KINDS = {"linear": 0, "rbf": 1, "polynomial": 2, "poly": 2, "sigmoid": 3, "cosine": 4}

cdef object _sgemm = _blas.__pyx_capi__["sgemm"]
cdef object _dgemm = _blas.__pyx_capi__["dgemm"]
blas_sgemm = <sgemm_t> PyCapsule_GetPointer(_sgemm, PyCapsule_GetName(_sgemm))
blas_dgemm = <dgemm_t> PyCapsule_GetPointer(_dgemm, PyCapsule_GetName(_dgemm))


# ------------------------------------------------------------- typed helpers

cdef inline void gemm(weight_t *a, weight_t *b, weight_t *c, int m, int n, int k,
                      int ldc) noexcept nogil:
    """c (n columns of m values, ldc apart) = a b' for row-major a (m x k), b (n x k)."""
    cdef weight_t one = 1, zero = 0
    if m == 0 or n == 0:
        return
    if weight_t is float32_t:
        blas_sgemm(b"T", b"N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &ldc)
    else:
        blas_dgemm(b"T", b"N", &m, &n, &k, &one, a, &k, b, &k, &zero, c, &ldc)


cdef inline Py_ssize_t pick_local(const value_t *values, const index_t *indices, Py_ssize_t n,
                                  double scale, const int32_t *local, int32_t *lines,
                                  weight_t *picked) noexcept nogil:
    """The row's entries in features of the current block; how many there are."""
    cdef Py_ssize_t k, found = 0
    cdef int32_t line
    for k in range(n):
        line = local[indices[k]]
        if line >= 0:
            lines[found] = line
            picked[found] = <weight_t> (scale * values[k])
            found += 1
    return found


cdef inline Py_ssize_t pick_row(const Row *x, const int32_t *local, int32_t *lines,
                                weight_t *picked) noexcept nogil:
    if x.kind == ROW_F32_I32:
        return pick_local(<const float32_t *> x.values, <const int32_t *> x.indices, x.count,
                          x.scale, local, lines, picked)
    if x.kind == ROW_F64_I32:
        return pick_local(<const float64_t *> x.values, <const int32_t *> x.indices, x.count,
                          x.scale, local, lines, picked)
    if x.kind == ROW_F32_I64:
        return pick_local(<const float32_t *> x.values, <const int64_t *> x.indices, x.count,
                          x.scale, local, lines, picked)
    return pick_local(<const float64_t *> x.values, <const int64_t *> x.indices, x.count,
                      x.scale, local, lines, picked)


cdef inline void dense_columns(Columns self, weight_t *x, const Py_ssize_t *columns,
                               Py_ssize_t count, Py_ssize_t start, Py_ssize_t stop,
                               const Py_ssize_t *rows, void **out) noexcept nogil:
    """One gemm per chunk of rows, then the kernel on each column's piece."""
    cdef weight_t *block = <weight_t *> self.block
    cdef weight_t *other = <weight_t *> self.gathered
    cdef weight_t *left
    cdef Py_ssize_t d = self.d, k, r, m, i
    for k in range(count):
        memcpy(other + k * d, x + columns[k] * d, d * sizeof(weight_t))
    r = start
    while r < stop:
        m = stop - r if stop - r < CHUNK else CHUNK
        if rows == NULL:
            left = x + r * d
        else:  # gathered behind the block's own rows; m <= MAX_BLOCK
            left = other + MAX_BLOCK * d
            for i in range(m):
                memcpy(left + i * d, x + rows[r + i] * d, d * sizeof(weight_t))
        gemm(left, other, block, <int> m, <int> count, <int> d, CHUNK)
        for k in range(count):
            self.finish(block + k * CHUNK, m, columns[k], r, rows)
            memcpy(<weight_t *> out[k] + r - start, block + k * CHUNK, m * sizeof(weight_t))
        r += m


cdef inline void nearby_columns(Columns self, weight_t *x, const Py_ssize_t *columns,
                                Py_ssize_t count, Py_ssize_t start, Py_ssize_t stop,
                                const Py_ssize_t *rows, void **out) noexcept nogil:
    """Distances in few dimensions."""
    cdef weight_t *xt = <weight_t *> self.xt
    cdef weight_t *part = <weight_t *> self.block
    cdef Py_ssize_t d = self.d, k, i, j, ld = self.n, m = stop - start
    cdef double gamma = self.kernel.gamma
    cdef weight_t *target
    cdef weight_t extra = <weight_t> self.offset
    if rows == NULL:
        part = xt + start
    else:
        ld = m
        for j in range(d):
            for i in range(m):
                part[j * m + i] = x[rows[start + i] * d + j]
    for k in range(count):
        target = <weight_t *> out[k]
        if weight_t is float32_t:
            osvm_rbf_near_f32(target, m, d, part, ld, x + columns[k] * d, <float> gamma)
        else:
            osvm_rbf_near_f64(target, m, d, part, ld, x + columns[k] * d, gamma)
        if self.offset != 0.0:
            for i in range(m):
                target[i] += extra


cdef inline void sparse_columns(Columns self, weight_t *lines, Py_ssize_t width,
                                const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                                Py_ssize_t stop, const Py_ssize_t *rows, int32_t *picks,
                                weight_t *picked, void **out) noexcept nogil:
    """Every row of the matrix against all lines of the block at once."""
    cdef weight_t *block = <weight_t *> self.block
    cdef weight_t acc[MAX_BLOCK]
    cdef Row row
    cdef Py_ssize_t r = start, m, i, k, found
    while r < stop:
        m = stop - r if stop - r < CHUNK else CHUNK
        for i in range(m):
            rows_get(&self.source.rows, self.order[r + i if rows == NULL else rows[r + i]], &row)
            found = pick_row(&row, self.local, picks, picked)
            memset(acc, 0, width * sizeof(weight_t))
            if weight_t is float32_t:
                osvm_block_axpy_f32(acc, width, found, picks, picked, lines)
            else:
                osvm_block_axpy_f64(acc, width, found, picks, picked, lines)
            for k in range(count):
                block[k * CHUNK + i] = acc[k]
        for k in range(count):
            self.finish(block + k * CHUNK, m, columns[k], r, rows)
            memcpy(<weight_t *> out[k] + r - start, block + k * CHUNK, m * sizeof(weight_t))
        r += m


cdef inline void copied_columns(weight_t *x, Py_ssize_t n, const Py_ssize_t *columns,
                                Py_ssize_t count, Py_ssize_t start, Py_ssize_t stop,
                                const Py_ssize_t *rows, double offset,
                                void **out) noexcept nogil:
    """Read a precomputed matrix (symmetric, so its rows are its columns)."""
    cdef Py_ssize_t k, i
    cdef weight_t *target
    for k in range(count):
        target = <weight_t *> out[k]
        for i in range(start, stop):
            target[i - start] = <weight_t> (
                x[columns[k] * n + (i if rows == NULL else rows[i])] + offset)


# ------------------------------------------------------------------ the class

cdef class Columns:
    """Columns of the kernel matrix of the rows of X.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The training rows; with ``kernel="precomputed"`` the n x n kernel matrix.
    kernel : str or callable, default="rbf"
        "linear", "rbf", "polynomial", "sigmoid", "cosine", "precomputed", or a function
        of two matrices that returns the matrix of kernel values.
    gamma, coef0, degree : float, float, int
        The kernel's parameters.
    dtype : float32 or float64, default=float32
        Type of the columns.
    cache_mb : float, default=200
        Memory for columns at most; rbf columns in up to 8 dimensions take 48 MB at most.
    offset : float, default=0
        Added to every kernel value; 1 gives the expansion a regularised bias.
    order : array of int, optional
        Position p of every column stands for row ``order[p]`` of X.
    max_columns : int, optional
        Upper limit of the cache in columns.

    Examples
    --------
    >>> import numpy as np
    >>> from osvm._columns import Columns
    >>> columns = Columns(np.array([[0.0], [1.0]]), gamma=1.0, dtype=np.float64)
    >>> columns.take([1])
    array([[0.36787944, 1.        ]])
    """

    def __cinit__(self):
        self.slot_of = self.col_of = self.length = self.newer = self.older = NULL
        self.gathered = self.block = NULL
        self.local = NULL
        self.order = NULL

    def __init__(self, X, kernel="rbf", *, double gamma=1.0, double coef0=0.0, int degree=3,
                 dtype=np.float32, double cache_mb=200.0, double offset=0.0, order=None,
                 max_columns=None):
        cdef Py_ssize_t i, limit
        dtype = np.dtype(dtype)
        if dtype != np.float32 and dtype != np.float64:
            raise ValueError("columns are float32 or float64")
        self.wide = dtype == np.float64
        self.offset = offset
        self.n, self.d = X.shape
        self.hits = 0
        self.computed = 0.0
        self.function = None
        self.source = None
        kernel_init(&self.kernel, 0, gamma)
        self.kernel.coef0 = coef0
        self.kernel.degree = degree
        kept = []
        if order is None:
            order = np.arange(self.n, dtype=np.intp)
        else:
            order = np.ascontiguousarray(order, dtype=np.intp)
            self.n = order.shape[0]
        kept.append(order)
        if callable(kernel):
            self.function = kernel
            self.mode = FUNCTION
            kept.append(X if order is None else X[order])
        elif kernel == "precomputed":
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"a precomputed kernel matrix is square, got {X.shape}")
            self.mode = PRECOMPUTED
            kept.append(np.ascontiguousarray(X[np.ix_(order, order)], dtype=dtype))
            self.x = <void *> <size_t> kept[1].ctypes.data
        elif kernel not in KINDS:
            raise ValueError(f"unknown kernel {kernel!r}; use one of {sorted(KINDS)}, "
                             f"'precomputed' or a function")
        else:
            self.kernel.kind = KINDS[kernel]
            if hasattr(X, "indptr"):
                self._take_sparse(X, order, dtype, kept)
            else:
                self._take_dense(X, order, dtype, kept)
        # the cache
        if self.mode == NEARBY:  # cheaper to compute again than to bring from far memory
            cache_mb = min(cache_mb, NEARBY_MB)
        limit = int(cache_mb * 1048576.0 / (self.n * dtype.itemsize))
        if max_columns is not None:
            limit = min(limit, <Py_ssize_t> max_columns)
        self.n_slots = min(max(limit, <Py_ssize_t> MAX_BLOCK), self.n)
        store = np.empty(self.n_slots * self.n, dtype)
        kept.append(store)
        self.store = <char *> <size_t> store.ctypes.data
        self.owned = kept
        self.slot_of = <Py_ssize_t *> malloc(self.n * sizeof(Py_ssize_t))
        self.col_of = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        self.length = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        self.newer = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        self.older = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        self.gathered = malloc(2 * MAX_BLOCK * max(self.d, <Py_ssize_t> 1) * dtype.itemsize
                               if self.mode == DENSE else 8)
        self.block = malloc(MAX_BLOCK * CHUNK * dtype.itemsize)
        if (self.slot_of == NULL or self.col_of == NULL or self.length == NULL
                or self.newer == NULL or self.older == NULL or self.gathered == NULL
                or self.block == NULL):
            raise MemoryError("no memory for the kernel columns")
        for i in range(self.n):
            self.slot_of[i] = -1
        self.used = 0
        self.newest = self.oldest = -1

    def _take_dense(self, X, order, dtype, kept):
        """Rows in the columns' type, in this object's order."""
        identity = order.shape[0] == X.shape[0] and np.array_equal(
            order, np.arange(order.shape[0]))
        if identity:
            rows = np.ascontiguousarray(X, dtype=dtype)
        else:  # in pieces: one copy, whatever the type of X
            rows = np.empty((self.n, self.d), dtype)
            for start in range(0, self.n, 4096):
                rows[start:start + 4096] = X[order[start:start + 4096]]
        sq64 = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        sq = sq64.astype(dtype)
        kept += [rows, sq64, sq]
        self.x = <void *> <size_t> rows.ctypes.data
        self.sq64 = <double *> <size_t> sq64.ctypes.data
        self.sq = <void *> <size_t> sq.ctypes.data
        self.mode = DENSE
        if self.kernel.kind == KERNEL_RBF and self.d <= NEAR:
            self.mode = NEARBY
            turned = np.ascontiguousarray(rows.T)
            kept.append(turned)
            self.xt = <void *> <size_t> turned.ctypes.data

    def _take_sparse(self, X, order, dtype, kept):
        """The matrix as it is, and the squared norms of its rows."""
        self.source = RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
        self.mode = SPARSE
        self.order = <Py_ssize_t *> <size_t> order.ctypes.data
        self.local = <int32_t *> malloc(max(self.d, <Py_ssize_t> 1) * sizeof(int32_t))
        if self.local == NULL:
            raise MemoryError("no memory for the kernel columns")
        memset(self.local, 255, self.d * sizeof(int32_t))
        self.sq64 = NULL
        # repeated columns add up, so a norm is the row's product with itself
        cdef Py_ssize_t longest = 1
        if X.shape[0]:
            longest = max(longest, <Py_ssize_t> int(np.diff(X.indptr).max()))
        self.sparse_rows = [np.empty(longest, np.int32), np.empty(longest, dtype), None]
        sq64 = np.zeros(self.n)
        kept += [X, sq64]
        self.sq64 = <double *> <size_t> sq64.ctypes.data
        cdef Py_ssize_t p, k
        cdef Row row
        cdef double[::1] line = np.zeros(max(self.d, <Py_ssize_t> 1))
        cdef double total
        for p in range(self.n):
            rows_get(&self.source.rows, self.order[p], &row)
            total = 0.0
            for k in range(row.count):
                line[row_index(&row, k)] += row_value(&row, k)
            for k in range(row.count):
                total += row_value(&row, k) * line[row_index(&row, k)]
            for k in range(row.count):
                line[row_index(&row, k)] = 0.0
            self.sq64[p] = total
        sq = sq64.astype(dtype)
        kept.append(sq)
        self.sq = <void *> <size_t> sq.ctypes.data

    def __dealloc__(self):
        free(self.slot_of)
        free(self.col_of)
        free(self.length)
        free(self.newer)
        free(self.older)
        free(self.gathered)
        free(self.block)
        free(self.local)

    @property
    def dtype(self):
        """Type of the columns."""
        return np.dtype(np.float64 if self.wide else np.float32)

    def take(self, columns):
        """The columns of these rows as a (len(columns), n) array."""
        cdef Py_ssize_t[::1] index = np.ascontiguousarray(columns, dtype=np.intp)
        cdef Py_ssize_t k, count = index.shape[0], size = self.n * (8 if self.wide else 4)
        cdef void *pointer
        out = np.empty((count, self.n), self.dtype)
        cdef char *target = <char *> <size_t> out.ctypes.data
        for k in range(count):
            if index[k] < 0 or index[k] >= self.n:
                raise IndexError(f"column {index[k]} of {self.n}")
            self.fetch(&index[k], 1, self.n, &pointer)
            memcpy(target + k * size, pointer, size)
        return out

    def touch_block(self, columns):
        """Compute these (at most 256, different) columns in one block; nothing is returned."""
        cdef Py_ssize_t[::1] index = np.ascontiguousarray(columns, dtype=np.intp)
        cdef void *pointers[MAX_BLOCK]
        if index.shape[0] > MAX_BLOCK or len(np.unique(columns)) != index.shape[0]:
            raise ValueError(f"at most {MAX_BLOCK} different columns")
        if index.shape[0]:
            if np.min(columns) < 0 or np.max(columns) >= self.n:
                raise IndexError(f"columns are 0 .. {self.n - 1}")
            with nogil:
                self.fetch(&index[0], index.shape[0], self.n, pointers)

    def square(self, rows):
        """The kernel matrix of these (at most 256) rows, float64."""
        cdef Py_ssize_t[::1] index = np.ascontiguousarray(rows, dtype=np.intp)
        out = np.empty((index.shape[0], index.shape[0]))
        cdef double[:, ::1] view = out
        if index.shape[0] > MAX_BLOCK:
            raise ValueError(f"at most {MAX_BLOCK} rows")
        if index.shape[0]:
            self.gram(&index[0], index.shape[0], &view[0, 0])
        return out

    # ------------------------------------------------------------- the cache

    cdef void touch(self, Py_ssize_t slot) noexcept nogil:
        """This slot was used last."""
        if slot == self.newest:
            return
        if slot == self.oldest:
            self.oldest = self.newer[slot]
        else:
            self.newer[self.older[slot]] = self.newer[slot]
        self.older[self.newer[slot]] = self.older[slot]
        self.older[slot] = self.newest
        self.newer[self.newest] = slot
        self.newest = slot

    cdef Py_ssize_t take_slot(self, Py_ssize_t column) noexcept nogil:
        """A free slot, or that of the column used longest ago."""
        cdef Py_ssize_t slot
        if self.used < self.n_slots:
            slot = self.used
            self.used += 1
            if slot == 0:
                self.oldest = self.newest = slot
            else:
                self.older[slot] = self.newest
                self.newer[self.newest] = slot
                self.newest = slot
        else:
            slot = self.oldest
            self.slot_of[self.col_of[slot]] = -1
            self.touch(slot)
        self.slot_of[column] = slot
        self.col_of[slot] = column
        self.length[slot] = 0
        return slot

    cdef int fetch(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t m,
                   void **out) except -1 nogil:
        """Point `out` at these (different) columns, valid for their first m values."""
        cdef Py_ssize_t k, j, slot, begin, many
        cdef Py_ssize_t missing[MAX_BLOCK]
        cdef void *targets[MAX_BLOCK]
        cdef Py_ssize_t size = 8 if self.wide else 4
        for k in range(count):  # first all that are there, so that none of them is evicted
            slot = self.slot_of[columns[k]]
            if slot >= 0:
                self.touch(slot)
                if self.length[slot] >= m:
                    self.hits += 1
        for k in range(count):
            slot = self.slot_of[columns[k]]
            if slot < 0:
                slot = self.take_slot(columns[k])
            out[k] = self.store + slot * self.n * size
        for k in range(count):  # equal lengths are completed together
            begin = self.length[self.slot_of[columns[k]]]
            if begin >= m:
                continue
            many = 0
            for j in range(k, count):
                slot = self.slot_of[columns[j]]
                if self.length[slot] == begin:
                    missing[many] = columns[j]
                    targets[many] = <char *> out[j] + begin * size
                    many += 1
            self.compute(missing, many, begin, m, NULL, targets)  # after an error: not longer
            for j in range(many):
                self.length[self.slot_of[missing[j]]] = m
            self.computed += <double> many * <double> (m - begin) / <double> self.n
        return 0

    def forget(self):
        """Empty the cache."""
        cdef Py_ssize_t i
        for i in range(self.n):
            self.slot_of[i] = -1
        self.used = 0
        self.newest = self.oldest = -1

    # --------------------------------------------------------------- values

    cdef void finish(self, void *out, Py_ssize_t n, Py_ssize_t column, Py_ssize_t start,
                     const Py_ssize_t *rows) noexcept nogil:
        """Dot products to kernel values."""
        cdef Py_ssize_t i
        cdef float near32[CHUNK]
        cdef double near64[CHUNK]
        cdef float *sq32
        cdef double *sq64
        if self.wide:
            sq64 = <double *> self.sq + start
            if rows != NULL:
                sq64 = near64
                for i in range(n):
                    near64[i] = (<double *> self.sq)[rows[start + i]]
            kernel_from_dots(&self.kernel, <double *> out, n, self.sq64[column], sq64)
            if self.offset != 0.0:
                for i in range(n):
                    (<double *> out)[i] += self.offset
        else:
            sq32 = <float *> self.sq + start
            if rows != NULL:
                sq32 = near32
                for i in range(n):
                    near32[i] = (<float *> self.sq)[rows[start + i]]
            kernel_from_dots(&self.kernel, <float *> out, n, self.sq64[column], sq32)
            if self.offset != 0.0:
                for i in range(n):
                    (<float *> out)[i] += <float> self.offset

    cdef int compute(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                     Py_ssize_t stop, const Py_ssize_t *rows, void **out) except -1 nogil:
        """Values start..stop of these columns (of the listed rows, when there is a list)."""
        if count == 0 or stop <= start:
            return 0
        if self.mode == DENSE:
            if self.wide:
                dense_columns(self, <double *> self.x, columns, count, start, stop, rows, out)
            else:
                dense_columns(self, <float *> self.x, columns, count, start, stop, rows, out)
        elif self.mode == NEARBY:
            if self.wide:
                nearby_columns(self, <double *> self.x, columns, count, start, stop, rows, out)
            else:
                nearby_columns(self, <float *> self.x, columns, count, start, stop, rows, out)
        elif self.mode == SPARSE:
            self.compute_sparse(columns, count, start, stop, rows, out)
        elif self.mode == PRECOMPUTED:
            if self.wide:
                copied_columns(<double *> self.x, self.n, columns, count, start, stop, rows,
                               self.offset, out)
            else:
                copied_columns(<float *> self.x, self.n, columns, count, start, stop, rows,
                               self.offset, out)
        else:
            with gil:
                self.compute_python(columns, count, start, stop, rows, out)
        return 0

    cdef int compute_sparse(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                            Py_ssize_t stop, const Py_ssize_t *rows,
                            void **out) except -1 nogil:
        """Lay the block's rows out feature-major, multiply, take the layout back."""
        cdef Py_ssize_t width = (count + 7) // 8 * 8, k, p, j, n_lines = 0
        cdef Py_ssize_t size = 8 if self.wide else 4
        cdef Row row
        cdef void *lines
        cdef int32_t *picks
        cdef void *picked
        with gil:
            picks = <int32_t *> <size_t> self.sparse_rows[0].ctypes.data
            picked = <void *> <size_t> self.sparse_rows[1].ctypes.data
        for k in range(count):
            rows_get(&self.source.rows, self.order[columns[k]], &row)
            for p in range(row.count):
                j = row_index(&row, p)
                if self.local[j] < 0:
                    self.local[j] = <int32_t> n_lines
                    n_lines += 1
        lines = calloc(n_lines * width + 1, size)
        if lines != NULL:
            for k in range(count):
                rows_get(&self.source.rows, self.order[columns[k]], &row)
                for p in range(row.count):
                    j = <Py_ssize_t> self.local[row_index(&row, p)] * width + k
                    if self.wide:
                        (<double *> lines)[j] += row_value(&row, p)
                    else:
                        (<float *> lines)[j] += <float> row_value(&row, p)
            if self.wide:
                sparse_columns(self, <double *> lines, width, columns, count, start, stop, rows,
                               picks, <double *> picked, out)
            else:
                sparse_columns(self, <float *> lines, width, columns, count, start, stop, rows,
                               picks, <float *> picked, out)
        for k in range(count):
            rows_get(&self.source.rows, self.order[columns[k]], &row)
            for p in range(row.count):
                self.local[row_index(&row, p)] = -1
        if lines == NULL:
            with gil:
                raise MemoryError("no memory for a block of kernel columns")
        free(lines)
        return 0

    cdef int compute_python(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                            Py_ssize_t stop, const Py_ssize_t *rows, void **out) except -1:
        """Call the user's function."""
        cdef Py_ssize_t k, size = (8 if self.wide else 4) * (stop - start)
        X = self.owned[1]
        right = X[[columns[k] for k in range(count)]]
        left = (X[start:stop] if rows == NULL
                else X[[rows[k] for k in range(start, stop)]])
        values = np.ascontiguousarray(
            np.asarray(self.function(right, left)) + self.offset, dtype=self.dtype)
        if values.shape != (count, stop - start):
            raise ValueError(f"the kernel function returned shape {values.shape} "
                             f"for {count} rows against {stop - start}")
        cdef char *source = <char *> <size_t> values.ctypes.data
        for k in range(count):
            memcpy(out[k], source + k * size, size)
        return 0

    cdef int gram(self, const Py_ssize_t *rows, Py_ssize_t count, double *out) except -1 nogil:
        """Kernel values of these rows among themselves, as the columns would give them."""
        cdef float *narrow
        cdef void *targets[MAX_BLOCK]
        cdef Py_ssize_t k, i
        if self.wide:
            for k in range(count):
                targets[k] = out + k * count
            self.compute(rows, count, 0, count, rows, targets)
            return 0
        narrow = <float *> out + count * count  # the upper half of the same memory
        for k in range(count):
            targets[k] = narrow + k * count
        self.compute(rows, count, 0, count, rows, targets)
        for i in range(count * count):
            out[i] = <double> narrow[i]
        return 0

    cdef double diagonal(self, Py_ssize_t i) noexcept nogil:
        """k(x_i, x_i), NaN for a function."""
        cdef Py_ssize_t at
        if self.mode == PRECOMPUTED:
            at = i * self.n + i
            return self.offset + ((<double *> self.x)[at] if self.wide
                                  else <double> (<float *> self.x)[at])
        if self.mode == FUNCTION:
            return NAN
        return self.offset + kernel_self(&self.kernel, self.sq64[i])

    cdef void combine(self, double *o, Py_ssize_t m, void **columns, const double *delta,
                      Py_ssize_t count) noexcept nogil:
        """o[:m] += sum_k delta[k] columns[k][:m]."""
        if self.wide:
            osvm_combine_f64(o, m, <const const_double_p *> columns, delta, count)
        else:
            osvm_combine_f32(o, m, <const const_float_p *> columns, delta, count)

    cdef bint sums_directly(self) noexcept nogil:
        """Is it cheaper to add columns up while they are computed than to store them first?

        So it is where the kernel itself is cheap and the cache is too small to serve again.
        """
        return self.mode == NEARBY and self.n_slots <= MAX_BLOCK and self.offset == 0.0

    cdef void sum_directly(self, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                           const double *delta, Py_ssize_t count) noexcept nogil:
        """o[:m] += sum_k delta[k] columns[k][:m], without storing a column (few dimensions)."""
        cdef const_float_p narrow[MAX_BLOCK]
        cdef const_double_p wide[MAX_BLOCK]
        cdef Py_ssize_t k
        self.computed += <double> count * <double> m / <double> self.n
        if self.wide:
            for k in range(count):
                wide[k] = <double *> self.x + columns[k] * self.d
            osvm_rbf_sum_f64(o, m, self.d, <double *> self.xt, self.n, wide, delta, count,
                             self.kernel.gamma)
        else:
            for k in range(count):
                narrow[k] = <float *> self.x + columns[k] * self.d
            osvm_rbf_sum_f32(o, m, self.d, <float *> self.xt, self.n, narrow, delta, count,
                             <float> self.kernel.gamma)
