# What the parsers of text formats share: reading numbers, and a CSR matrix that grows row by row
# inside a nogil loop.
from libc.stdint cimport int32_t, int64_t, uint64_t

cdef extern from "../_c/scan.h" nogil:
    enum:
        OSVM_SCAN_PAD
        SCAN_OK
        SCAN_NOT_A_NUMBER
        SCAN_SLOW
    const unsigned char *scan_integer(const unsigned char *p, uint64_t *value)
    const unsigned char *scan_double(const unsigned char *p, double *value, int *status)

# The largest double that does not round to an infinite float32.
cdef inline double float32_limit() noexcept nogil:
    return 3.4028235677973362e38

cdef int convert_slowly(const unsigned char *start, const unsigned char *stop,
                        double *value) noexcept nogil


cdef struct Csr:
    double *values
    int32_t *indices
    int64_t *indptr
    Py_ssize_t n_rows
    Py_ssize_t n_values
    Py_ssize_t row_room
    Py_ssize_t value_room


cdef int csr_reserve(Csr *csr, Py_ssize_t values) noexcept nogil

# 0, or -1 when memory ran out.
cdef inline int csr_push(Csr *csr, int32_t index, double value) noexcept nogil:
    if csr.n_values == csr.value_room and csr_reserve(csr, 1) < 0:
        return -1
    csr.indices[csr.n_values] = index
    csr.values[csr.n_values] = value
    csr.n_values += 1
    return 0

cdef int csr_end_row(Csr *csr) noexcept nogil


cdef class CsrBuilder:
    cdef Csr csr
