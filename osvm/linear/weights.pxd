# Owners of the arrays behind a scaled weight vector or matrix (w = s v).

from osvm.core.typedefs cimport SMat, SVec

cdef enum:
    SCRATCH = 64        # outputs whose scratch for a product lies on the reader's stack

cdef class ScaledVector:
    cdef SVec w                     # what the loops read and change
    cdef readonly object v          # the arrays behind it
    cdef readonly object u

cdef class ScaledMatrix:
    cdef SMat w
    cdef readonly object v
    cdef readonly object u
    cdef readonly object scale
    cdef readonly object sq_v
    cdef readonly object avg_scale
    cdef object _work               # for learning; readers bring their own, see reader()
    cdef SMat reader(self, void *work) noexcept nogil


cdef int weight_kind(object dtype) except -1
