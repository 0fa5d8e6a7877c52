"""Norms of validated rows, and whether their columns are in order.

A row may name a column more than once, which means the sum of its values; sorted rows,
the usual case, are known not to and need no working memory.  Squares that overflow or
vanish are scaled.
"""
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from libc.float cimport DBL_MAX
from libc.math cimport fabs, isnan, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from osvm._input.rows cimport RowSource
from osvm.core.row cimport ROW_F32_I32, ROW_F64_I32, Row, row_index, row_value, rows_get
from osvm.core.typedefs cimport index_t


cdef inline bint increasing(const index_t *j, Py_ssize_t n) noexcept nogil:
    """Whether n valid indices strictly increase."""
    cdef index_t seen = -1
    cdef Py_ssize_t k
    for k in range(n - 1):
        seen &= j[k] - j[k + 1]
    return seen < 0


cdef inline bint row_increasing(const Row *row) noexcept nogil:
    if row.indices == NULL:
        return True
    if row.kind == ROW_F32_I32 or row.kind == ROW_F64_I32:
        return increasing(<const int32_t *> row.indices, row.count)
    return increasing(<const int64_t *> row.indices, row.count)


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
            if not row_increasing(&row):
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
            sorted_row = row_increasing(&row)
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
