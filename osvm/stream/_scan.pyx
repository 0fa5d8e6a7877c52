"""The exact conversion that the fast number scanner leaves to Python.

A token arrives here when it has more digits or a larger exponent than
`scan.h` settles itself; its spelling has been checked there already.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport isinf


cdef int convert_slowly(const unsigned char *start, const unsigned char *stop,
                        double *value) noexcept nogil:
    """The double nearest to a well-formed token; 0 when it overflows."""
    with gil:
        value[0] = float(PyBytes_FromStringAndSize(<const char *> start, stop - start))
    return not isinf(value[0])


def read_double(bytes text):
    """The number that `text` spells, or None when it is not exactly one number."""
    cdef bytes padded = text + bytes(OSVM_SCAN_PAD)
    cdef const unsigned char *start = padded
    cdef const unsigned char *stop
    cdef double value = 0.0
    cdef int status = SCAN_OK
    stop = scan_double(start, &value, &status)
    if status == SCAN_NOT_A_NUMBER or stop != start + len(text):
        return None
    if status == SCAN_SLOW and not convert_slowly(start, stop, &value):
        return None
    return value
