"""Columns of the kernel matrix of a fixed training set: on demand, in blocks, cached.

Follows section D of the algorithms: learners with cached outputs (Kecman and Melki,
"Fast online algorithms for support vector machines") touch a kernel column only when its
coefficient changes, so the n x n matrix is never needed as a whole.

`osvm._parts.kernel_blocks` computes the values; a Python function is called from here.

Invariants
- A column may be valid for its first `length` values only; `fetch` extends it.
- The columns of one `fetch` stay valid until the next one: the cache holds at least
  MAX_BLOCK columns.
- float32 columns by default; sums of columns go to float64 outputs.
"""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from osvm._parts.kernel_blocks cimport FixedRows

import numpy as np

from osvm import kernels

cdef extern from *:
    ctypedef const float *const_float_p "const float *"
    ctypedef const double *const_double_p "const double *"

cdef extern from "../_c/columns.h" nogil:
    void osvm_combine_f32(double *o, Py_ssize_t n, const const_float_p *columns,
                          const double *delta, Py_ssize_t count)
    void osvm_combine_f64(double *o, Py_ssize_t n, const const_double_p *columns,
                          const double *delta, Py_ssize_t count)

cdef enum:
    NEAR_MB = 48      # memory at most for columns that are cheap to compute again


cdef class Columns:
    """Columns of the kernel matrix of the rows of X.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The training rows; with a precomputed kernel the n x n kernel matrix.
    kernel : str, Kernel or callable, default="rbf"
        What `osvm.kernels.get` takes.
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
    **parameters
        The kernel's parameters.

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

    def __init__(self, X, kernel="rbf", *, dtype=np.float32, double cache_mb=200.0,
                 double offset=0.0, order=None, max_columns=None, **parameters):
        cdef Py_ssize_t i, limit
        dtype = np.dtype(dtype)
        if dtype != np.float32 and dtype != np.float64:
            raise ValueError("columns are float32 or float64")
        self.kernel = kernels.get(kernel, **parameters).resolve(X)
        self.wide = dtype == np.float64
        self.offset = offset
        self.hits = 0
        self.computed = 0.0
        if order is not None:
            order = np.ascontiguousarray(order, dtype=np.intp)
            if np.array_equal(order, np.arange(X.shape[0])):
                order = None
        self.n = X.shape[0] if order is None else len(order)
        if isinstance(self.kernel, kernels.PythonKernel):
            self.X = X if order is None else X[order]
        else:
            self.rows = FixedRows(self.kernel.spec(), X, dtype, order=order, near=True)
            self.near = self.rows.near
            self.compiled = True
        # the cache
        if self.near:  # cheaper to compute again than to bring from far memory
            cache_mb = min(cache_mb, NEAR_MB)
        limit = int(cache_mb * 1048576.0 / (self.n * dtype.itemsize))
        if max_columns is not None:
            limit = min(limit, <Py_ssize_t> max_columns)
        self.n_slots = min(max(limit, <Py_ssize_t> MAX_BLOCK), self.n)
        self.memory = np.empty(self.n_slots * self.n, dtype)
        self.store = <char *> <size_t> self.memory.ctypes.data
        self.slot_of = <Py_ssize_t *> malloc(self.n * sizeof(Py_ssize_t))
        self.col_of = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        self.length = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        self.newer = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        self.older = <Py_ssize_t *> malloc(self.n_slots * sizeof(Py_ssize_t))
        if (self.slot_of == NULL or self.col_of == NULL or self.length == NULL
                or self.newer == NULL or self.older == NULL):
            raise MemoryError("no memory for the kernel columns")
        for i in range(self.n):
            self.slot_of[i] = -1
        self.used = 0
        self.newest = self.oldest = -1
        self.listed = np.zeros(self.n, np.uint8)

    def __dealloc__(self):
        free(self.slot_of)
        free(self.col_of)
        free(self.length)
        free(self.newer)
        free(self.older)

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

    def touch_block(self, columns, m=None):
        """Compute these (at most 256, different) columns in one block; nothing is returned.

        Their first m values, all by default.
        """
        cdef Py_ssize_t length = self.n if m is None else m
        cdef Py_ssize_t[::1] index = np.ascontiguousarray(columns, dtype=np.intp)
        cdef void *pointers[MAX_BLOCK]
        if index.shape[0] > MAX_BLOCK or len(np.unique(columns)) != index.shape[0]:
            raise ValueError(f"at most {MAX_BLOCK} different columns")
        if index.shape[0]:
            if np.min(columns) < 0 or np.max(columns) >= self.n:
                raise IndexError(f"columns are 0 .. {self.n - 1}")
            with nogil:
                self.fetch(&index[0], index.shape[0], length, pointers)

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

    cdef bint has(self, Py_ssize_t column, Py_ssize_t m) noexcept nogil:
        """Are the first m values of this column there?"""
        cdef Py_ssize_t slot = self.slot_of[column]
        return slot >= 0 and self.length[slot] >= m

    cdef void keep(self, Py_ssize_t column) noexcept nogil:
        """If this column is there, it is the one used last."""
        if self.slot_of[column] >= 0:
            self.touch(self.slot_of[column])

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
            self.compute(missing, many, begin, m, targets)  # after an error: not longer
            for j in range(many):
                self.length[self.slot_of[missing[j]]] = m
            self.computed += <double> many * <double> (m - begin) / <double> self.n
        return 0

    # --------------------------------------------------------------- values

    cdef int compute(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                     Py_ssize_t stop, void **out) except -1 nogil:
        """Values start .. stop - 1 of these columns."""
        cdef Py_ssize_t k, size = (8 if self.wide else 4) * (stop - start)
        cdef char *source
        if self.compiled:
            if (<FixedRows> self.rows).values(columns, count, start, stop, self.offset, out) < 0:
                with gil:
                    raise MemoryError("no memory for a block of kernel columns")
            return 0
        with gil:
            values = self.call([columns[k] for k in range(count)], slice(start, stop))
            source = <char *> <size_t> values.ctypes.data
            for k in range(count):
                memcpy(out[k], source + k * size, size)
        return 0

    cdef object call(self, object columns, object others):
        """Values of a Python function."""
        return np.ascontiguousarray(
            self.kernel(self.X[columns], self.X[others]) + self.offset, dtype=self.dtype)

    cdef int gram(self, const Py_ssize_t *rows, Py_ssize_t count, double *out) except -1 nogil:
        """Kernel values of these rows among themselves, as the columns would give them."""
        cdef Py_ssize_t i, total = count * count
        # float32 values in the upper half of the same memory
        cdef float *narrow = <float *> out + total
        if not self.compiled:
            with gil:
                chosen = [rows[i] for i in range(count)]
                values = self.call(chosen, chosen)
                memcpy(out if self.wide else <void *> narrow,
                       <void *> <size_t> values.ctypes.data, total * (8 if self.wide else 4))
        elif (<FixedRows> self.rows).gram(rows, count, out if self.wide else <void *> narrow) < 0:
            with gil:
                raise MemoryError("no memory for a block of kernel columns")
        if not self.wide:
            for i in range(total):
                out[i] = <double> narrow[i]
        if self.compiled and self.offset != 0.0:
            for i in range(total):
                out[i] += self.offset
        return 0

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
        return self.near and self.n_slots <= MAX_BLOCK and self.offset == 0.0

    cdef void sum_directly(self, double *o, Py_ssize_t m, const Py_ssize_t *columns,
                           const double *delta, Py_ssize_t count) noexcept nogil:
        """o[:m] += sum_k delta[k] columns[k][:m], without storing a column (few dimensions)."""
        self.computed += <double> count * <double> m / <double> self.n
        (<FixedRows> self.rows).add(o, m, columns, delta, count)
