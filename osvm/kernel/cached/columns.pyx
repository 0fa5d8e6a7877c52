"""Columns of the kernel matrix of a fixed training set: on demand, in blocks, cached.

Follows section D of the algorithms: learners with cached outputs (Kecman and Melki,
"Fast online algorithms for support vector machines") touch a kernel column only when its
coefficient changes, so the n x n matrix is never needed as a whole.

How values are computed stands in `osvm.kernel.column_values`; a Python function is called
from here.

Invariants
- A column may be valid for its first `length` values only; `fetch` extends it.
- The columns of one `fetch` stay valid until the next one: the cache holds at least
  MAX_BLOCK columns.
- float32 columns by default; sums of columns go to float64 outputs.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from osvm.kernel.column_values cimport (
    CHUNK, DENSE, FUNCTION, MAX_BLOCK, NEARBY, PRECOMPUTED, SPARSE, const_double_p,
    const_float_p, values_compute, values_diagonal, values_norms, values_sum,
)
from osvm._input.rows cimport RowSource
from osvm.core.kernel cimport KERNEL_RBF, kernel_init

import numpy as np

cdef enum:
    NEAR = 8          # rbf: up to so many features, distances are computed directly
    NEARBY_MB = 48    # memory for such columns at most

KINDS = {"linear": 0, "rbf": 1, "polynomial": 2, "poly": 2, "sigmoid": 3, "cosine": 4}


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
    >>> from osvm.kernel.cached.columns import Columns
    >>> columns = Columns(np.array([[0.0], [1.0]]), gamma=1.0, dtype=np.float64)
    >>> columns.take([1])
    array([[0.36787944, 1.        ]])
    """

    def __cinit__(self):
        self.slot_of = self.col_of = self.length = self.newer = self.older = NULL
        self.values.gathered = self.values.block = NULL
        self.values.local = NULL
        self.values.order = NULL

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
        kernel_init(&self.values.kernel, 0, gamma)
        self.values.kernel.coef0 = coef0
        self.values.kernel.degree = degree
        kept = []
        if order is None:
            order = np.arange(self.n, dtype=np.intp)
        else:
            order = np.ascontiguousarray(order, dtype=np.intp)
            self.n = order.shape[0]
        kept.append(order)
        self.values.n, self.values.d = self.n, self.d
        self.values.wide, self.values.offset = self.wide, offset
        if callable(kernel):
            self.function = kernel
            self.values.mode = FUNCTION
            kept.append(X if order is None else X[order])
        elif kernel == "precomputed":
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"a precomputed kernel matrix is square, got {X.shape}")
            self.values.mode = PRECOMPUTED
            kept.append(np.ascontiguousarray(X[np.ix_(order, order)], dtype=dtype))
            self.values.x = <void *> <size_t> kept[1].ctypes.data
        elif kernel not in KINDS:
            raise ValueError(f"unknown kernel {kernel!r}; use one of {sorted(KINDS)}, "
                             f"'precomputed' or a function")
        else:
            self.values.kernel.kind = KINDS[kernel]
            if hasattr(X, "indptr"):
                self._take_sparse(X, order, dtype, kept)
            else:
                self._take_dense(X, order, dtype, kept)
        # the cache
        if self.values.mode == NEARBY:  # cheaper to compute again than to bring from far memory
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
        self.values.gathered = malloc(
            2 * MAX_BLOCK * max(self.d, <Py_ssize_t> 1) * dtype.itemsize
            if self.values.mode == DENSE else 8)
        self.values.block = malloc(MAX_BLOCK * CHUNK * dtype.itemsize)
        if (self.slot_of == NULL or self.col_of == NULL or self.length == NULL
                or self.newer == NULL or self.older == NULL or self.values.gathered == NULL
                or self.values.block == NULL):
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
        self.values.x = <void *> <size_t> rows.ctypes.data
        self.values.sq64 = <double *> <size_t> sq64.ctypes.data
        self.values.sq = <void *> <size_t> sq.ctypes.data
        self.values.mode = DENSE
        if self.values.kernel.kind == KERNEL_RBF and self.d <= NEAR:
            self.values.mode = NEARBY
            turned = np.ascontiguousarray(rows.T)
            kept.append(turned)
            self.values.xt = <void *> <size_t> turned.ctypes.data

    def _take_sparse(self, X, order, dtype, kept):
        """The matrix as it is, and the squared norms of its rows."""
        self.source = RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
        self.values.mode = SPARSE
        self.values.order = <Py_ssize_t *> <size_t> order.ctypes.data
        self.values.local = <int32_t *> malloc(max(self.d, <Py_ssize_t> 1) * sizeof(int32_t))
        if self.values.local == NULL:
            raise MemoryError("no memory for the kernel columns")
        memset(self.values.local, 255, self.d * sizeof(int32_t))
        self.values.rows = &self.source.rows
        longest = max(1, int(np.diff(X.indptr).max())) if X.shape[0] else 1
        picks, picked = np.empty(longest, np.int32), np.empty(longest, dtype)
        sq64 = np.zeros(self.n)
        kept += [X, sq64, picks, picked]
        self.values.picks = <int32_t *> <size_t> picks.ctypes.data
        self.values.picked = <void *> <size_t> picked.ctypes.data
        self.values.sq64 = <double *> <size_t> sq64.ctypes.data
        line = np.zeros(max(self.d, 1))
        values_norms(&self.values, <double *> <size_t> line.ctypes.data)
        sq = sq64.astype(dtype)
        kept.append(sq)
        self.values.sq = <void *> <size_t> sq.ctypes.data

    def __dealloc__(self):
        free(self.slot_of)
        free(self.col_of)
        free(self.length)
        free(self.newer)
        free(self.older)
        free(self.values.gathered)
        free(self.values.block)
        free(self.values.local)

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

    cdef int compute(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                     Py_ssize_t stop, const Py_ssize_t *rows, void **out) except -1 nogil:
        """Values start..stop of these columns (of the listed rows, when there is a list)."""
        if self.values.mode == FUNCTION:
            if count and stop > start:
                with gil:
                    self.compute_python(columns, count, start, stop, rows, out)
        elif values_compute(&self.values, columns, count, start, stop, rows, out) < 0:
            with gil:
                raise MemoryError("no memory for a block of kernel columns")
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
        return values_diagonal(&self.values, i)

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
        return self.values.mode == NEARBY and self.n_slots <= MAX_BLOCK and self.offset == 0.0

    cdef void sum_directly(self, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                           const double *delta, Py_ssize_t count) noexcept nogil:
        """o[:m] += sum_k delta[k] columns[k][:m], without storing a column (few dimensions)."""
        self.computed += <double> count * <double> m / <double> self.n
        values_sum(&self.values, o, m, columns, delta, count)
