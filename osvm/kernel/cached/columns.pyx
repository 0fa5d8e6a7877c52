"""Columns of the kernel matrix of a fixed training set: on demand, in blocks, cached.

The cache is that of `osvm/_c/column_cache.pxd`; this file owns it, calls kernels that are Python
functions, and joins the columns of two sets of rows.  float32 columns by default; sums of columns
go to float64 outputs.
"""
from libc.string cimport memcpy

from osvm._c.engine cimport (
    columns_combine, columns_fetch, columns_free, columns_gram, columns_init, columns_touch,
    rows_cross,
)
from osvm._c.structs cimport RowSet
from osvm._parts.compiled cimport FixedRows
from osvm.core.typedefs cimport STATUS_CALLBACK, STATUS_OK

import numpy as np

from osvm import kernels


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
        Added to every kernel value; 1 gives the expansion a regularized bias.
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

    def __init__(self, X, kernel="rbf", *, dtype=np.float32, double cache_mb=200.0,
                 double offset=0.0, order=None, max_columns=None, **parameters):
        dtype = np.dtype(dtype)
        if dtype != np.float32 and dtype != np.float64:
            raise ValueError("columns are float32 or float64")
        self.kernel = kernels.get(kernel, **parameters).resolve(X)
        self.wide = dtype == np.float64
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
            self.depth = X.shape[1] if isinstance(X, np.ndarray) else 0
        self.make_cache(cache_mb, -1 if max_columns is None else max_columns, offset)
        if self.rows is None:
            self.cache.column_fn = python_columns
            self.cache.user = <void *> self  # borrowed: the struct lives inside this object
        else:
            self.cache.rows = &(<FixedRows> self.rows).set

    cdef int make_cache(self, double cache_mb, Py_ssize_t most, double offset) except -1:
        if columns_init(&self.cache, self.n, self.wide, self.near, cache_mb * 1048576.0,
                        most) != STATUS_OK:
            raise MemoryError("no memory for the kernel columns")
        self.cache.offset = offset
        self.n_slots, self.slot_of = self.cache.n_slots, self.cache.slot_of
        self.length = self.cache.length
        self.listed = np.zeros(self.n, np.uint8)
        return 0

    def __dealloc__(self):
        columns_free(&self.cache)

    @property
    def offset(self):
        """Added to every kernel value."""
        return self.cache.offset

    @property
    def hits(self):
        """Columns found in the cache."""
        return self.cache.hits

    @property
    def computed(self):
        """Columns computed; parts count as fractions."""
        return self.cache.computed

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
        if self.joined is not None:
            return self.take(rows)[:, rows].astype(np.float64)
        if index.shape[0]:
            self.gram(&index[0], index.shape[0], &view[0, 0])
        return out

    # ------------------------------------------------------------- for the loops

    cdef bint has(self, Py_ssize_t column, Py_ssize_t m) noexcept nogil:
        """Are the first m values of this column there?"""
        cdef Py_ssize_t slot = self.slot_of[column]
        return slot >= 0 and self.length[slot] >= m

    cdef void keep(self, Py_ssize_t column) noexcept nogil:
        """If this column is there, it is the one used last."""
        if self.slot_of[column] >= 0:
            columns_touch(&self.cache, self.slot_of[column])

    cdef int fetch(self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t m,
                   void **out) except -1 nogil:
        """Point `out` at these (different) columns, valid for their first m values."""
        return self.check(columns_fetch(&self.cache, columns, count, m, out))

    cdef int gram(self, const Py_ssize_t *rows, Py_ssize_t count, double *out) except -1 nogil:
        """Kernel values of these rows among themselves, as the columns would give them."""
        return self.check(columns_gram(&self.cache, rows, count, out))

    cdef void combine(self, double *o, Py_ssize_t m, void **columns, const double *delta,
                      Py_ssize_t count) noexcept nogil:
        """o[:m] += sum_k delta[k] columns[k][:m]."""
        columns_combine(&self.cache, o, m, columns, delta, count)

    cdef int check(self, int status) except -1 nogil:
        """Raise what a Status says."""
        if status == STATUS_CALLBACK:
            with gil:
                error, self.error = self.error, None
                raise error
        if status != STATUS_OK:
            with gil:
                raise MemoryError("no memory for a block of kernel columns")
        return 0


def join_columns(Columns first, Columns second, *, double cache_mb):
    """Columns of the rows of both, one after the other, in a cache of their own.

    Values of two rows of one half are copied from its columns, which serve other joins too;
    those of a row of each are computed.
    """
    cdef RowSet *a = first.cache.rows
    cdef RowSet *b = second.cache.rows
    if (a == NULL or b == NULL or first.kernel.name == "precomputed"
            or first.kernel != second.kernel or first.wide != second.wide
            or first.offset != second.offset or a.store.sparse != b.store.sparse
            or a.store.d != b.store.d):
        raise ValueError("columns of other kernels, types, offsets or features cannot be joined")
    cdef Columns self = Columns.__new__(Columns)
    self.kernel, self.wide, self.n = first.kernel, first.wide, first.n + second.n
    self.depth = first.depth
    self.make_cache(cache_mb, -1, first.offset)
    self.joined = (first, second)
    self.halves.own = [&first.cache, &second.cache]
    self.halves.split = first.n
    self.halves.cache = &self.cache
    self.cache.column_fn = half_columns
    self.cache.user = &self.halves
    return self


cdef int half_columns(void *user, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                      Py_ssize_t stop, void **out, void *gram) noexcept nogil:
    """Values of rows of one half from its own columns, others computed; no `gram`."""
    cdef Halves *halves = <Halves *> user
    cdef ColumnCache *cache = halves.cache
    cdef Py_ssize_t size = 8 if cache.wide else 4, h, k, first, last, many, begin, end, other
    cdef Py_ssize_t own[MAX_BLOCK]
    cdef void *lines[MAX_BLOCK]
    cdef void *pointers[MAX_BLOCK]
    cdef int status
    for h in range(2):
        first = halves.split if h else 0
        last = cache.n if h else halves.split
        other = 0 if h else halves.split  # where the other half begins
        begin = start if h else max(start, last)
        end = min(stop, first) if h else stop
        many = 0
        for k in range(count):
            if first <= columns[k] < last:
                own[many], lines[many] = columns[k] - first, out[k]
                pointers[many] = <char *> out[k] + (begin - start) * size
                many += 1
        if many and begin < end:
            status = rows_cross(halves.own[1 - h].rows, halves.own[h].rows, own, many,
                                begin - other, end - other, cache.offset, pointers)
            if status != STATUS_OK:
                return status
        begin, end = max(start, first), min(stop, last)
        if many == 0 or begin >= end:
            continue
        status = columns_fetch(halves.own[h], own, many, end - first, pointers)
        if status != STATUS_OK:
            return status
        for k in range(many):
            memcpy(<char *> lines[k] + (begin - start) * size,
                   <char *> pointers[k] + (begin - first) * size, (end - begin) * size)
        cache.computed -= <double> many * <double> (end - begin) / <double> cache.n  # not here
    return STATUS_OK


cdef int python_columns(void *user, const Py_ssize_t *columns, Py_ssize_t count,
                        Py_ssize_t start, Py_ssize_t stop, void **out,
                        void *gram) noexcept nogil:
    """Values of a kernel that is a Python function; what it raises waits for `check`."""
    with gil:
        try:
            call_python(<Columns> user, columns, count, start, stop, out, gram)
        except BaseException as error:
            (<Columns> user).error = error
            return STATUS_CALLBACK
    return STATUS_OK


cdef int call_python(Columns self, const Py_ssize_t *columns, Py_ssize_t count, Py_ssize_t start,
                     Py_ssize_t stop, void **out, void *gram) except -1:
    cdef Py_ssize_t k, size = 8 if self.wide else 4
    cdef char *source
    chosen = [columns[k] for k in range(count)]
    others = slice(start, stop) if gram == NULL else chosen
    values = np.ascontiguousarray(
        self.kernel(self.X[chosen], self.X[others]) + self.cache.offset, dtype=self.dtype)
    source = <char *> <size_t> values.ctypes.data
    if gram != NULL:
        memcpy(gram, source, count * count * size)
        return 0
    size *= stop - start
    for k in range(count):
        memcpy(out[k], source + k * size, size)
    return 0
