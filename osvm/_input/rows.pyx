"""From Python arrays to the `Rows` view that the compiled loops read.

A `RowSource` holds the buffers of a CSR matrix or of a dense array for as long
as a loop needs them and copies nothing; read-only and memory-mapped arrays are
fine.  It checks types and lengths only: `osvm._input.validate` makes the full check.

`row_norms` gives the norms of validated rows.  A row may name a column more than once, which
means the sum of its values; sorted rows are known not to and need no working memory.  Squares
that overflow or vanish are scaled.
"""
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBuffer_Release
from cpython.buffer cimport PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from libc.float cimport DBL_MAX
from libc.math cimport fabs, isnan, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memset

import numpy as np

from osvm.core.rows cimport row_index, row_is_sorted, row_value, rows_get
from osvm.core.typedefs cimport (
    ROW_F32_DENSE, ROW_F32_I32, ROW_F32_I64, ROW_F64_DENSE, ROW_F64_I32, ROW_F64_I64, Row, Rows,
)


cdef char type_code(const Py_buffer *buffer) noexcept:
    """'f' float32, 'd' float64, 'i' int32, 'l' int64, 0 anything else."""
    cdef const char *text = buffer.format
    if text == NULL:
        return 0
    if text[0] == c'=' or text[0] == c'@':
        text += 1
    elif text[0] == c'<' or text[0] == c'>':  # numpy names the native order '='
        return 0
    if text[1] != 0:
        return 0
    if text[0] == c'f' and buffer.itemsize == 4:
        return c'f'
    if text[0] == c'd' and buffer.itemsize == 8:
        return c'd'
    if text[0] in (c'i', c'l', c'q', c'n'):
        return c'i' if buffer.itemsize == 4 else c'l' if buffer.itemsize == 8 else 0
    return 0


cdef class RowSource:
    """Rows of a matrix, ready for a compiled loop.  Make one with `of`, `csr` or `dense`."""

    def __cinit__(self):
        memset(&self.rows, 0, sizeof(Rows))
        self.rows.struct_size = sizeof(Rows)
        self._n_buffers = 0
        self.largest = -1.0

    def __dealloc__(self):
        while self._n_buffers > 0:
            self._n_buffers -= 1
            PyBuffer_Release(&self._buffers[self._n_buffers])

    cdef int _take(self, object array, bint strided) except -1:
        """Hold `array`'s buffer; its number among this object's buffers."""
        cdef int flags = PyBUF_FORMAT | (PyBUF_STRIDES if strided else PyBUF_ND)
        PyObject_GetBuffer(array, &self._buffers[self._n_buffers], flags)
        self._n_buffers += 1
        if (<size_t> self._buffers[self._n_buffers - 1].buf
                % <size_t> self._buffers[self._n_buffers - 1].itemsize):
            raise ValueError("the array is not aligned in memory; copy it first")
        return self._n_buffers - 1

    @staticmethod
    def of(X):
        """View a validated array or CSR matrix."""
        if hasattr(X, "indptr"):
            return RowSource.csr(X.data, X.indices, X.indptr, X.shape[1])
        return RowSource.dense(X)

    @staticmethod
    def csr(values, indices, indptr, Py_ssize_t n_features, row_scale=None):
        """View the three arrays of a CSR matrix; `row_scale` holds a factor per row."""
        cdef RowSource self = RowSource.__new__(RowSource)
        cdef Py_buffer *b
        cdef char value_code, index_code, indptr_code
        self._take(values, False)
        self._take(indices, False)
        self._take(indptr, False)
        b = self._buffers
        if b[0].ndim != 1 or b[1].ndim != 1 or b[2].ndim != 1:
            raise ValueError("data, indices and indptr of a CSR matrix must be one-dimensional")
        value_code, index_code = type_code(&b[0]), type_code(&b[1])
        indptr_code = type_code(&b[2])
        if value_code != c'f' and value_code != c'd':
            raise ValueError("CSR data must be float32 or float64")
        if (index_code != c'i' and index_code != c'l') or indptr_code != index_code:
            raise ValueError("CSR indices and indptr must both be int32 or both be int64")
        if b[2].shape[0] < 1:
            raise ValueError("CSR indptr is empty: it needs one entry more than there are rows")
        if b[0].shape[0] != b[1].shape[0]:
            raise ValueError(f"CSR data has {b[0].shape[0]} entries but indices has "
                             f"{b[1].shape[0]}; rebuild the matrix")
        if value_code == c'f':
            self.rows.kind = ROW_F32_I32 if index_code == c'i' else ROW_F32_I64
        else:
            self.rows.kind = ROW_F64_I32 if index_code == c'i' else ROW_F64_I64
        self.rows.values = b[0].buf
        self.rows.indices = b[1].buf
        self.rows.indptr = b[2].buf
        self.rows.n_rows = b[2].shape[0] - 1
        self.rows.n_features = n_features
        self.rows.step = 1
        self.sparse = True
        self._finish(row_scale)
        return self

    @staticmethod
    def dense(array, row_scale=None):
        """View a two-dimensional float32 or float64 array, in any memory order."""
        cdef RowSource self = RowSource.__new__(RowSource)
        cdef Py_buffer *b
        cdef char code
        self._take(array, True)
        b = self._buffers
        if b[0].ndim != 2:
            raise ValueError(f"expected a two-dimensional array, got {b[0].ndim} dimension(s)")
        code = type_code(&b[0])
        if code != c'f' and code != c'd':
            raise ValueError("a dense array must be float32 or float64")
        if b[0].strides[0] % b[0].itemsize or b[0].strides[1] % b[0].itemsize:
            raise ValueError("the array's strides are not whole elements; copy it first")
        self.rows.kind = ROW_F32_DENSE if code == c'f' else ROW_F64_DENSE
        self.rows.values = b[0].buf
        self.rows.n_rows = b[0].shape[0]
        self.rows.n_features = b[0].shape[1]
        self.rows.row_step = b[0].strides[0] // b[0].itemsize
        self.rows.step = b[0].strides[1] // b[0].itemsize
        self.sparse = False
        self._finish(row_scale)
        return self

    def _finish(self, row_scale):
        """Publish the shape and attach the row factors."""
        self.n_rows = self.rows.n_rows
        self.n_features = self.rows.n_features
        if row_scale is not None:
            self.set_row_scale(row_scale)

    def set_row_scale(self, row_scale, double largest=-1.0):
        """Multiply row i by row_scale[i] from now on; once per source.

        `largest` bounds the magnitudes after that, where it is known.
        """
        cdef Py_buffer *b
        if self.rows.row_scale != NULL:
            raise ValueError("the rows have a scale already")
        b = &self._buffers[self._take(row_scale, False)]
        if b.ndim != 1 or type_code(b) != c'd' or b.shape[0] != self.rows.n_rows:
            raise ValueError("row_scale must be float64 with one entry per row")
        self.rows.row_scale = <const double *> b.buf
        self.largest = largest

    def array(self):
        """Dense rows, as the array they lie in, without the factors of `set_row_scale`; a copy
        of sparse ones, with them.
        """
        cdef Py_ssize_t i, k
        cdef Row row
        cdef double[:, ::1] view
        if not self.sparse:
            return <object> self._buffers[0].obj
        values = np.zeros((self.rows.n_rows, self.rows.n_features))
        view = values
        for i in range(self.rows.n_rows):
            rows_get(&self.rows, i, &row)
            for k in range(row.count):
                view[i, row_index(&row, k)] += row_value(&row, k)
        return values

    def stored(self):
        """Values of sparse rows, with the factors of `set_row_scale`, their columns, and where
        rows begin; copies.
        """
        cdef Py_ssize_t i, k, n = 0
        cdef Row row
        cdef int64_t[::1] starts, columns
        cdef double[::1] values
        ends = np.zeros(self.rows.n_rows + 1, np.int64)
        starts = ends
        for i in range(self.rows.n_rows):
            rows_get(&self.rows, i, &row)
            n += row.count
            starts[i + 1] = n
        found, at = np.empty(n), np.empty(n, np.int64)
        values, columns = found, at
        n = 0
        for i in range(self.rows.n_rows):
            rows_get(&self.rows, i, &row)
            for k in range(row.count):
                values[n], columns[n] = row_value(&row, k), row_index(&row, k)
                n += 1
        return found, at, ends

    @property
    def mean_count(self):
        """Stored values per row."""
        if not self.sparse:
            return float(self.rows.n_features)
        return self._buffers[0].shape[0] / max(1.0, self.rows.n_rows)


# ------------------------------------------------------------------ norms

def is_sorted_unique(RowSource source):
    """Whether the columns of every row strictly increase (a dense row's always do)."""
    cdef Py_ssize_t i
    cdef Row row
    cdef bint good = True
    if not source.sparse:
        return True
    with nogil:
        for i in range(source.rows.n_rows):
            rows_get(&source.rows, i, &row)
            if not row_is_sorted(&row):
                good = False
                break
    return good


cdef double scaled_norm(const Row *row) noexcept nogil:
    """||x|| where squares overflow or vanish."""
    cdef double largest = 0.0, total = 0.0, x
    cdef Py_ssize_t k
    for k in range(row.count):
        x = fabs(row_value(row, k))
        if x > largest:
            largest = x
    if largest == 0.0:
        return 0.0
    for k in range(row.count):
        x = row_value(row, k) / largest
        total += x * x
    return largest * sqrt(total)


cdef double merged_norm(const Row *row, double *work) noexcept nogil:
    """||x|| of summed columns where squares overflow or vanish; clears `work`."""
    cdef double largest = 0.0, total = 0.0, x
    cdef Py_ssize_t k, j
    for k in range(row.count):
        x = fabs(work[row_index(row, k)])
        if x > largest:
            largest = x
    for k in range(row.count):
        j = row_index(row, k)
        if largest > 0.0:
            x = work[j] / largest
            total += x * x
        work[j] = 0.0
    return largest * sqrt(total)


cdef double row_norm(const Row *row, double *work) noexcept nogil:
    """||x||; `work` (zeros, one per feature) sums repeated columns, NULL if there are none."""
    cdef double total = 0.0, x, norm
    cdef Py_ssize_t k, j
    if work == NULL:
        for k in range(row.count):
            x = row_value(row, k)
            total += x * x
        if 1e-280 < total < 1e300:
            return sqrt(total)
        return scaled_norm(row)
    for k in range(row.count):
        work[row_index(row, k)] += row_value(row, k)
    # Squares are taken once per column: a column already counted is set to zero.
    for k in range(row.count):
        j = row_index(row, k)
        total += work[j] * work[j]
        work[j] = 0.0
    norm = sqrt(total)
    if not 1e-280 < total < 1e300:
        for k in range(row.count):
            work[row_index(row, k)] += row_value(row, k)
        norm = merged_norm(row, work)
    return norm


def row_norms(RowSource source, double[::1] out, bint inverse=False):
    """Write ||x|| of every row into `out`, or 1/||x|| with ``inverse=True``.

    Repeated columns count as their sum.  The inverse of an all-zero row is 1,
    so that scaling leaves it zero.  Row factors of the source are ignored.
    """
    cdef Py_ssize_t i
    cdef Row row
    cdef double norm
    cdef double *work = NULL
    cdef bint sorted_row
    if out.shape[0] != source.rows.n_rows:
        raise ValueError("out must have one entry per row")
    try:
        for i in range(source.rows.n_rows):
            rows_get(&source.rows, i, &row)
            row.scale = 1.0
            sorted_row = row_is_sorted(&row)
            if not sorted_row and work == NULL:
                work = <double *> PyMem_Malloc(source.rows.n_features * sizeof(double))
                if work == NULL:
                    raise MemoryError
                memset(work, 0, source.rows.n_features * sizeof(double))
            norm = row_norm(&row, NULL if sorted_row else work)
            if inverse:
                norm = 1.0 if norm == 0.0 or isnan(norm) else 1.0 / norm
                norm = min(norm, DBL_MAX)
            out[i] = norm
    finally:
        PyMem_Free(work)
