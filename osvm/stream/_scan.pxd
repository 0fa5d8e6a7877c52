# What the parsers of text formats share: number scanning and its slow path.
from libc.stdint cimport uint64_t

cdef extern from "../_c/scan.h" nogil:
    enum:
        OSVM_SCAN_PAD
        SCAN_OK
        SCAN_NOT_A_NUMBER
        SCAN_SLOW
    const unsigned char *scan_integer(const unsigned char *p, uint64_t *value)
    const unsigned char *scan_double(const unsigned char *p, double *value, int *status)

# The largest double that does not round to an infinite float32.
cdef enum:
    PAD = 32

cdef inline double float32_limit() noexcept nogil:
    return 3.4028235677973362e38

cdef int convert_slowly(const unsigned char *start, const unsigned char *stop,
                        double *value) noexcept nogil
