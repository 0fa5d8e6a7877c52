"""A growing CSR matrix for parsers whose columns are hashed (fewer than 2**31).

Rows are pushed value by value; a row counts once it is ended, and
`csr.n_values = csr.indptr[csr.n_rows]` takes back one that is not.
"""
import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset


cdef int csr_reserve(Csr *csr, Py_ssize_t values) noexcept nogil:
    """Room for `values` more entries."""
    cdef Py_ssize_t room = csr.value_room
    cdef void *memory
    if csr.n_values + values <= room:
        return 0
    while room < csr.n_values + values:
        room = 2 * room if room else 4096
    memory = realloc(csr.values, room * sizeof(double))
    if memory == NULL:
        return -1
    csr.values = <double *> memory
    memory = realloc(csr.indices, room * sizeof(int32_t))
    if memory == NULL:
        return -1
    csr.indices = <int32_t *> memory
    csr.value_room = room
    return 0


cdef int csr_end_row(Csr *csr) noexcept nogil:
    """Count the row; 0, or -1 when memory ran out."""
    cdef Py_ssize_t room = csr.row_room
    cdef void *memory
    if csr.n_rows + 2 > room:
        room = 2 * room if room else 1024
        memory = realloc(csr.indptr, room * sizeof(int64_t))
        if memory == NULL:
            return -1
        csr.indptr = <int64_t *> memory
        csr.indptr[0] = 0
        csr.row_room = room
    csr.n_rows += 1
    csr.indptr[csr.n_rows] = csr.n_values
    return 0


cdef class CsrBuilder:
    """Owns the three arrays of a `Csr`."""

    def __cinit__(self):
        memset(&self.csr, 0, sizeof(Csr))

    def __dealloc__(self):
        free(self.csr.values)
        free(self.csr.indices)
        free(self.csr.indptr)

    @property
    def n_rows(self):
        return self.csr.n_rows

    @property
    def n_values(self):
        return self.csr.n_values

    def take(self, dtype):
        """(values, indices, indptr) of the rows so far; the builder is empty afterwards."""
        cdef Py_ssize_t rows = self.csr.n_rows
        cdef Py_ssize_t n = self.csr.indptr[rows] if rows else 0
        cdef int64_t[::1] indptr64
        cdef int32_t[::1] indices32
        indices = np.empty(n, np.int32)
        indptr = np.zeros(rows + 1, np.int64)
        if n:
            values = np.asarray(<double[:n]> self.csr.values).astype(dtype)
            indices32 = indices
            memcpy(&indices32[0], self.csr.indices, n * sizeof(int32_t))
        else:
            values = np.empty(0, dtype)
        if rows:
            indptr64 = indptr
            memcpy(&indptr64[0], self.csr.indptr, (rows + 1) * sizeof(int64_t))
        self.csr.n_rows = self.csr.n_values = 0
        return values, indices, indptr if n > 2 ** 31 - 1 else indptr.astype(np.int32)
